//===- Adjoints.cpp - Derivatives of regions, in reverse ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Adjoints.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::attn;

Value Adjoints::constant(double value) {
  return arith::ConstantFloatOp::create(b, loc, b.getF32Type(),
                                        APFloat(static_cast<float>(value)));
}

static bool isOne(Value value) { return matchPattern(value, m_OneFloat()); }

Value Adjoints::multiply(Value x, Value y) {
  if (isOne(x))
    return y;
  if (isOne(y))
    return x;
  return arith::MulFOp::create(b, loc, x, y);
}

Value Adjoints::unlessZero(Value y, Value x) {
  Value none =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, y, zero());
  return arith::SelectOp::create(b, loc, none, zero(), x);
}

Value Adjoints::divideOrZero(Value x, Value y) {
  Value none =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, y, zero());
  Value quotient = arith::DivFOp::create(b, loc, x, y);
  return arith::SelectOp::create(b, loc, none, zero(), quotient);
}

Value Adjoints::widen(Value value) {
  unsigned width = value.getType().getIntOrFloatBitWidth();
  if (width < 32)
    return arith::ExtFOp::create(b, loc, b.getF32Type(), value);
  if (width > 32)
    return arith::TruncFOp::create(b, loc, b.getF32Type(), value);
  return value;
}

void Adjoints::add(Value value, Value cotangent) {
  if (!cotangent || !isActive(value))
    return;
  Value &sum = adjoints[value];
  sum = sum ? arith::AddFOp::create(b, loc, sum, cotangent).getResult()
            : cotangent;
}

void Adjoints::addProduct(Value value, Value cotangent, Value factor,
                          bool guarded) {
  if (!isActive(value))
    return;
  Value product = multiply(cotangent, factor);
  if (guarded) {
    Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ,
                                       cotangent, zero());
    product = arith::SelectOp::create(b, loc, none, zero(), product);
  }
  add(value, product);
}

void Adjoints::addWhere(Value condition, Value value, Value cotangent) {
  if (isActive(value))
    add(value, arith::SelectOp::create(b, loc, condition, cotangent, zero()));
}

void Adjoints::follow() {
  for (Operation &op : *b.getInsertionBlock()) {
    ops.push_back(&op);
    if (!llvm::any_of(op.getOperands(), [&](Value v) { return isActive(v); }))
      continue;
    // Integers, and elements of tensors, follow nothing continuously.
    for (Value result : op.getResults())
      if (isa<FloatType>(result.getType()) && !isa<tensor::ExtractOp>(op))
        active.insert(result);
  }
}

LogicalResult Adjoints::sweep() {
  for (Operation *op : llvm::reverse(ops)) {
    if (op->getNumResults() != 1)
      continue;
    Value cotangent = get(op->getResult(0));
    bool passes =
        llvm::any_of(op->getOperands(), [&](Value v) { return isActive(v); });
    if (cotangent && passes && failed(visit(op, cotangent)))
      return failure();
  }
  return success();
}

/// The derivative of a function of one argument x, as a factor, or null where
/// there is no rule. `y` is its value.
static Value derive(Operation *op, Value x, Value y, Adjoints &a, OpBuilder &b,
                    Location loc) {
  auto mul = [&](Value l, Value r) -> Value {
    return arith::MulFOp::create(b, loc, l, r);
  };
  auto div = [&](Value l, Value r) -> Value {
    return arith::DivFOp::create(b, loc, l, r);
  };
  auto add = [&](Value l, Value r) -> Value {
    return arith::AddFOp::create(b, loc, l, r);
  };
  auto number = [&](double value) { return a.constant(value); };
  constexpr double ln2 = 0.69314718055994531, ln10 = 2.302585092994046,
                   twoOverRootPi = 1.1283791670955126;
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case<math::ExpOp>([&](auto) { return y; })
      .Case<math::Exp2Op>([&](auto) { return mul(y, number(ln2)); })
      .Case<math::ExpM1Op>([&](auto) { return add(y, number(1)); })
      .Case<math::LogOp>([&](auto) { return div(number(1), x); })
      .Case<math::Log2Op>([&](auto) { return div(number(1 / ln2), x); })
      .Case<math::Log10Op>([&](auto) { return div(number(1 / ln10), x); })
      .Case<math::Log1pOp>(
          [&](auto) { return div(number(1), add(number(1), x)); })
      .Case<math::SqrtOp>([&](auto) { return div(number(0.5), y); })
      .Case<math::RsqrtOp>([&](auto) { return mul(number(-0.5), div(y, x)); })
      .Case<math::CbrtOp>([&](auto) { return div(number(1.0 / 3), mul(y, y)); })
      .Case<math::TanhOp>([&](auto) -> Value {
        Value negated = arith::NegFOp::create(b, loc, y);
        return math::FmaOp::create(b, loc, negated, y, number(1));
      })
      .Case<math::SinhOp>(
          [&](auto) { return math::CoshOp::create(b, loc, x).getResult(); })
      .Case<math::CoshOp>(
          [&](auto) { return math::SinhOp::create(b, loc, x).getResult(); })
      .Case<math::SinOp>(
          [&](auto) { return math::CosOp::create(b, loc, x).getResult(); })
      .Case<math::CosOp>([&](auto) -> Value {
        Value sine = math::SinOp::create(b, loc, x);
        return arith::NegFOp::create(b, loc, sine);
      })
      .Case<math::TanOp>([&](auto) { return add(number(1), mul(y, y)); })
      .Case<math::AtanOp>(
          [&](auto) { return div(number(1), add(number(1), mul(x, x))); })
      .Case<math::ErfOp, math::ErfcOp>([&](Operation *erf) -> Value {
        Value negated = arith::NegFOp::create(b, loc, mul(x, x));
        Value bell = math::ExpOp::create(b, loc, negated);
        return mul(
            number(isa<math::ErfOp>(erf) ? twoOverRootPi : -twoOverRootPi),
            bell);
      })
      .Case<math::AbsFOp>([&](auto) -> Value {
        // 0 at 0.
        auto compare = [&](arith::CmpFPredicate how) -> Value {
          return arith::CmpFOp::create(b, loc, how, x, number(0));
        };
        Value below = arith::SelectOp::create(
            b, loc, compare(arith::CmpFPredicate::OLT), number(-1), number(0));
        return arith::SelectOp::create(
            b, loc, compare(arith::CmpFPredicate::OGT), number(1), below);
      })
      .Default([](Operation *) { return Value(); });
}

LogicalResult Adjoints::visit(Operation *op, Value g) {
  // What is constant around almost every point.
  if (isa<math::FloorOp, math::CeilOp, math::RoundOp, math::RoundEvenOp,
          math::TruncOp>(op))
    return success();
  // An element is a root itself.
  if (isa<tensor::ExtractOp>(op))
    return success();
  if (isa<arith::ExtFOp, arith::TruncFOp>(op)) {
    add(op->getOperand(0), g);
    return success();
  }
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    Value condition = select.getCondition();
    addWhere(condition, select.getTrueValue(), g);
    if (isActive(select.getFalseValue()))
      add(select.getFalseValue(),
          arith::SelectOp::create(b, loc, condition, zero(), g));
    return success();
  }
  SmallVector<Value> x;
  for (Value operand : op->getOperands())
    x.push_back(isa<FloatType>(operand.getType()) ? widen(operand) : Value());
  Value y = widen(op->getResult(0));
  bool guarded = !bounded.contains(op);
  auto operand = [&](unsigned i) { return op->getOperand(i); };
  auto negate = [&](Value value) -> Value {
    return arith::NegFOp::create(b, loc, value);
  };

  if (isa<arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
          arith::MinNumFOp>(op)) {
    // Of equals a constant takes it, so that what is cut off has the derivative
    // 0 at the cut; else the first.
    bool isMaximum = isa<arith::MaximumFOp, arith::MaxNumFOp>(op);
    bool strict = matchPattern(operand(1), m_Constant());
    using P = arith::CmpFPredicate;
    P how = isMaximum ? (strict ? P::OGT : P::OGE) : (strict ? P::OLT : P::OLE);
    Value first = arith::CmpFOp::create(b, loc, how, x[0], x[1]);
    addWhere(first, operand(0), g);
    if (isActive(operand(1)))
      add(operand(1), arith::SelectOp::create(b, loc, first, zero(), g));
    return success();
  }
  if (isa<arith::AddFOp, arith::SubFOp>(op)) {
    add(operand(0), g);
    if (isActive(operand(1)))
      add(operand(1), isa<arith::SubFOp>(op) ? negate(g) : g);
    return success();
  }
  if (isa<arith::NegFOp>(op)) {
    add(operand(0), negate(g));
    return success();
  }
  if (isa<arith::MulFOp>(op)) {
    addProduct(operand(0), g, x[1]);
    addProduct(operand(1), g, x[0]);
    return success();
  }
  if (isa<math::FmaOp>(op)) {
    addProduct(operand(0), g, x[1]);
    addProduct(operand(1), g, x[0]);
    add(operand(2), g);
    return success();
  }
  if (isa<arith::DivFOp>(op)) {
    Value share = arith::DivFOp::create(b, loc, constant(1), x[1]);
    addProduct(operand(0), g, share, guarded);
    if (isActive(operand(1)))
      addProduct(operand(1), g, negate(arith::MulFOp::create(b, loc, y, share)),
                 guarded);
    return success();
  }
  if (isa<math::PowFOp>(op)) {
    if (isActive(operand(0))) {
      Value less = arith::SubFOp::create(b, loc, x[1], constant(1));
      Value power = math::PowFOp::create(b, loc, x[0], less);
      addProduct(operand(0), g, arith::MulFOp::create(b, loc, x[1], power),
                 guarded);
    }
    if (isActive(operand(1))) {
      Value log = math::LogOp::create(b, loc, x[0]);
      addProduct(operand(1), g, arith::MulFOp::create(b, loc, y, log), guarded);
    }
    return success();
  }
  if (op->getNumOperands() == 1)
    if (Value factor = derive(op, x[0], y, *this, b, loc)) {
      bool isFinite = isa<math::TanhOp, math::SinOp, math::CosOp, math::AtanOp,
                          math::ErfOp, math::ErfcOp, math::AbsFOp>(op);
      addProduct(operand(0), g, factor, guarded && !isFinite);
      return success();
    }
  return op->emitError("expected an operation that has a derivative, but got '")
         << op->getName()
         << "'; write it by others of arith and math, or leave the inputs that "
            "it depends on out of 'inputs'";
}
