//===- ExpandMath.cpp - Math functions as vector arithmetic ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// tile-expand-math: MathFunctions.h for each operation of f32, and those of 16
// bits by way of f32. Softcaps beside products of bf16 have a form of their
// own.
//
//===----------------------------------------------------------------------===//

#include "MathFunctions.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Dialect/Tile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

namespace attn {
#define GEN_PASS_DEF_TILEEXPANDMATHPASS
#include "attn/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace attn

#define DEBUG_TYPE "tile-expand-math"

using namespace mlir;

namespace {

/// `value` as a product with a factor that all lanes share: {other, factor}, or
/// nothing.
std::pair<Value, Value> sharedFactor(Value value) {
  auto product = value.getDefiningOp<arith::MulFOp>();
  if (!product)
    return {};
  auto isShared = [](Value factor) {
    auto broadcast = factor.getDefiningOp<vector::BroadcastOp>();
    return (broadcast && !isa<VectorType>(broadcast.getSourceType())) ||
           matchPattern(factor, m_Constant());
  };
  Value left = product.getLhs(), right = product.getRhs();
  if (isShared(right))
    return {left, right};
  if (isShared(left))
    return {right, left};
  return {};
}

/// Remainders, and whole numbers where there are no instructions for them.
Value expandRounding(Operation *op, const ::attn::TargetInfo &target) {
  tile::Rounding to(op, target);
  Value x = op->getOperand(0);
  if (isa<arith::RemFOp>(op))
    return to.remainder(x, op->getOperand(1));
  if (target.vectorBits > 128) // SSE4.1 has instructions for it
    return {};
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::TruncOp) { return to.truncate(x); })
      .Case([&](math::FloorOp) { return to.floor(x); })
      .Case([&](math::CeilOp) { return to.ceil(x); })
      .Case([&](math::RoundOp) { return to.round(x); })
      .Case([&](math::RoundEvenOp) { return to.roundEven(x); })
      .Default([](Operation *) { return Value(); });
}

/// A function of an angle, or one whose result is an angle.
Value expandAngle(Operation *op, const ::attn::TargetInfo &target) {
  tile::Angles of(op, target);
  Value x = op->getOperand(0);
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::SinOp) { return of.sine(x, /*isCosine=*/false); })
      .Case([&](math::CosOp) { return of.sine(x, /*isCosine=*/true); })
      .Case([&](math::TanOp) { return of.tan(x); })
      .Case([&](math::AsinOp) { return of.asin(x); })
      .Case([&](math::AcosOp) { return of.acos(x); })
      .Case([&](math::AtanOp) { return of.atan(x); })
      .Case([&](math::Atan2Op o) { return of.atan2(x, o.getRhs()); })
      .Default([](Operation *) { return Value(); });
}

/// Exponentials, logarithms and what is made of them.
Value expandExponential(Operation *op, const ::attn::TargetInfo &target) {
  tile::Logarithms of(op, target);
  Value x = op->getOperand(0);
  auto attr = op->getAttrOfType<IntegerAttr>(tile::TileDialect::leastPowerName);
  int least = attr ? int(attr.getInt()) : tile::Exponentials::leastPower;
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::Exp2Op o) {
        bool isShort =
            bitEnumContainsAny(o.getFastmath(), arith::FastMathFlags::afn);
        return of.exp2(x, isShort, least);
      })
      .Case([&](math::ExpOp) { return of.exp(x, /*halvings=*/0, least); })
      .Case([&](math::ExpM1Op) { return of.expm1(x); })
      .Case([&](math::LogOp) { return of.log(x); })
      .Case([&](math::Log2Op) { return of.log2(x); })
      .Case([&](math::Log10Op) { return of.log10(x); })
      .Case([&](math::Log1pOp) { return of.log1p(x); })
      .Case([&](math::CbrtOp) { return of.cbrt(x); })
      .Case([&](math::PowFOp o) { return of.pow(x, o.getRhs()); })
      .Case([&](math::FPowIOp o) { return of.powInteger(x, o.getRhs()); })
      .Case([&](math::SinhOp) { return of.sinh(x); })
      .Case([&](math::CoshOp) { return of.cosh(x); })
      .Case([&](math::TanhOp) { return of.tanh(x); })
      .Case([&](math::AsinhOp) { return of.asinh(x); })
      .Case([&](math::AcoshOp) { return of.acosh(x); })
      .Case([&](math::AtanhOp) { return of.atanh(x); })
      .Case([&](math::ErfOp) { return of.erf(x); })
      .Case([&](math::ErfcOp) { return of.erfc(x); })
      .Default([](Operation *) { return Value(); });
}

/// What stands for `op`, a function of f32, or nothing where it stays.
Value expandFunction(Operation *op, const ::attn::TargetInfo &target) {
  tile::FloatBuilder e(op, target);
  if (auto root = dyn_cast<math::RsqrtOp>(op))
    return e.div(e.constant(1.0f), e.sqrt(root.getOperand()));
  if (auto fma = dyn_cast<math::FmaOp>(op)) {
    if (target.hasFma)
      return {};
    // The product is exact, and the sum rounded twice.
    Value product = e.mul(e.widened(fma.getA()), e.widened(fma.getB()));
    return e.narrowed(e.add(product, e.widened(fma.getC())));
  }
  for (auto expand : {expandExponential, expandAngle, expandRounding})
    if (Value result = expand(op, target))
      return result;
  return {};
}

/// Softcap, factor * tanh(x), in the segments' form, in place of `tanh` and of
/// the product that is its one use.
void expandSoftcap(math::TanhOp tanh, const ::attn::TargetInfo &target,
                   SmallVectorImpl<Operation *> &dead) {
  Value factor;
  Operation *last = tanh;
  if (tanh->hasOneUse() && isa<arith::MulFOp>(*tanh->user_begin())) {
    Operation *product = *tanh->user_begin();
    auto [other, shared] = sharedFactor(product->getResult(0));
    if (other == tanh.getResult()) {
      factor = shared;
      last = product;
      dead.push_back(product);
    }
  }
  dead.push_back(tanh);
  // At the last of them, where the factor is known too.
  Value result =
      tile::Exponentials(last, target).tanhSegments(tanh.getOperand(), factor);
  last->getResult(0).replaceAllUsesWith(result);
}

/// Of any type: NaN stays.
void expandClamp(math::ClampFOp op) {
  ImplicitLocOpBuilder b(op->getLoc(), op);
  Value above = arith::MaximumFOp::create(b, op.getValue(), op.getMin());
  op->getResult(0).replaceAllUsesWith(
      arith::MinimumFOp::create(b, above, op.getMax()));
  op->erase();
}

/// Infinite, finite or normal, of any type.
void expandTest(Operation *op) {
  ImplicitLocOpBuilder b(op->getLoc(), op);
  Value magnitude = math::AbsFOp::create(b, op->getOperand(0));
  Type type = magnitude.getType();
  auto compare = [&](arith::CmpFPredicate predicate, APFloat bound) -> Value {
    TypedAttr element = b.getFloatAttr(getElementTypeOrSelf(type), bound);
    if (auto vector = dyn_cast<VectorType>(type))
      element = DenseElementsAttr::get(vector, Attribute(element));
    return arith::CmpFOp::create(b, predicate, magnitude,
                                 arith::ConstantOp::create(b, element));
  };
  const llvm::fltSemantics &format =
      cast<FloatType>(getElementTypeOrSelf(type)).getFloatSemantics();
  APFloat infinity = APFloat::getInf(format);
  Value result = compare(isa<math::IsInfOp>(op) ? arith::CmpFPredicate::OEQ
                                                : arith::CmpFPredicate::OLT,
                         infinity);
  if (isa<math::IsNormalOp>(op))
    result =
        arith::AndIOp::create(b, result,
                              compare(arith::CmpFPredicate::OGE,
                                      APFloat::getSmallestNormalized(format)));
  op->getResult(0).replaceAllUsesWith(result);
  op->erase();
}

/// `op`, of 16-bit floats, on f32: as the processor would do it, who has no
/// other way.
void widen(Operation *op) {
  ImplicitLocOpBuilder b(op->getLoc(), op);
  Type type = op->getResult(0).getType();
  auto withElement = [](Type of, Type element) -> Type {
    auto vector = dyn_cast<VectorType>(of);
    return vector ? Type(vector.clone(element)) : element;
  };
  for (OpOperand &operand : op->getOpOperands())
    if (isa<FloatType>(getElementTypeOrSelf(operand.get().getType())))
      operand.set(arith::ExtFOp::create(
          b, withElement(operand.get().getType(), b.getF32Type()),
          operand.get()));
  op->getResult(0).setType(withElement(type, b.getF32Type()));
  b.setInsertionPointAfter(op);
  auto narrow = arith::TruncFOp::create(b, type, op->getResult(0));
  op->getResult(0).replaceAllUsesExcept(narrow, narrow);
}

/// Whether the products of a kernel round their operands to bf16: its scores
/// have errors beside which those of the short tanh do not show.
bool takesShortOperands(Operation *func) {
  return func
      ->walk([](LLVM::CallIntrinsicOp call) {
        return call.getIntrin().contains("bf16") ? WalkResult::interrupt()
                                                 : WalkResult::advance();
      })
      .wasInterrupted();
}

struct TileExpandMath : ::attn::impl::TileExpandMathPassBase<TileExpandMath> {
  using TileExpandMathPassBase::TileExpandMathPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto info = ::attn::getCpuTarget(module, target);
    if (!info)
      return signalPassFailure();
    DenseMap<Operation *, bool> shortProducts;
    auto hasShortProducts = [&](Operation *op) {
      Operation *func = op->getParentOfType<FunctionOpInterface>();
      if (!func)
        return false;
      auto [it, isNew] = shortProducts.try_emplace(func, false);
      if (isNew)
        it->second = takesShortOperands(func);
      return it->second;
    };
    SmallVector<Operation *> functions, dead;
    module.walk([&](Operation *op) {
      if ((isa_and_nonnull<math::MathDialect>(op->getDialect()) ||
           isa<arith::RemFOp>(op)) &&
          op->getNumResults() == 1)
        functions.push_back(op);
    });
    for (Operation *op : functions) {
      if (auto clamp = dyn_cast<math::ClampFOp>(op)) {
        expandClamp(clamp);
        continue;
      }
      if (isa<math::IsInfOp, math::IsFiniteOp, math::IsNormalOp>(op)) {
        expandTest(op);
        continue;
      }
      Type element = getElementTypeOrSelf(op->getResult(0).getType());
      if (element.isF16() || element.isBF16())
        widen(op);
      else if (!element.isF32())
        continue;
      tile::Exponentials exponentials(op, *info);
      auto tanh = dyn_cast<math::TanhOp>(op);
      bool isShort = tanh && hasShortProducts(op);
      if (isShort && exponentials.isFullVector()) {
        expandSoftcap(tanh, *info, dead);
        continue;
      }
      Value result = isShort ? exponentials.tanhShort(tanh.getOperand())
                             : expandFunction(op, *info);
      if (!result)
        continue;
      op->getResult(0).replaceAllUsesWith(result);
      op->erase();
    }
    for (Operation *op : dead)
      op->erase();
  }
};

} // namespace
