//===- RegionUtils.cpp - Copying values out of regions --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::attn;

Value RegionCloner::get(Value value) {
  if (Value copy = mapping.lookupOrNull(value))
    return copy;
  Operation *op = value.getDefiningOp();
  if (!op)
    return value;
  if (hook)
    if (Value built = hook(op, *this)) {
      mapping.map(value, built);
      return built;
    }
  for (Value operand : op->getOperands())
    get(operand);
  builder.clone(*op, mapping);
  return mapping.lookup(value);
}

/// `op` without a promise (nsw, nuw, exact) that a region may break.
static void dropPromises(Operation *op) {
  if (auto flags = dyn_cast<arith::ArithIntegerOverflowFlagsInterface>(op))
    op->setAttr(flags.getIntegerOverflowAttrName(),
                arith::IntegerOverflowFlagsAttr::get(
                    op->getContext(), arith::IntegerOverflowFlags::none));
  llvm::TypeSwitch<Operation *>(op)
      .Case<arith::DivUIOp, arith::DivSIOp, arith::ShRUIOp, arith::ShRSIOp>(
          [](auto promising) { promising.setIsExact(false); });
}

/// `op`, a division, by 1 where it is by 0 or, of signed numbers, by -1.
static void guardDivision(Operation *op) {
  bool isRemainder = isa<arith::RemSIOp, arith::RemUIOp>(op);
  bool isSigned = isa<arith::DivSIOp, arith::RemSIOp, arith::FloorDivSIOp,
                      arith::CeilDivSIOp>(op);
  Value divisor = op->getOperand(1);
  APInt known;
  if (matchPattern(divisor, m_ConstantInt(&known)) && !known.isZero() &&
      !(isSigned && known.isAllOnes()))
    return;
  OpBuilder b(op);
  Location loc = op->getLoc();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(
        b, loc, b.getIntegerAttr(divisor.getType(), value));
  };
  auto equals = [&](Value value) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, divisor,
                                 value);
  };
  Value zero = constant(0), one = constant(1), isZero = equals(zero),
        isMinusOne;
  Value safe = arith::SelectOp::create(b, loc, isZero, one, divisor);
  if (isSigned) {
    isMinusOne = equals(constant(-1));
    safe = arith::SelectOp::create(b, loc, isMinusOne, one, safe);
  }
  op->setOperand(1, safe);
  if (isRemainder)
    return; // x rem 1 is 0, as are x rem -1 and what x rem 0 is here
  b.setInsertionPointAfter(op);
  llvm::SmallPtrSet<Operation *, 2> built;
  Value quotient = op->getResult(0), result = quotient;
  if (isSigned) {
    Value negated = arith::SubIOp::create(b, loc, zero, op->getOperand(0));
    result = arith::SelectOp::create(b, loc, isMinusOne, negated, result);
    built.insert(result.getDefiningOp());
  }
  result = arith::SelectOp::create(b, loc, isZero, zero, result);
  built.insert(result.getDefiningOp());
  quotient.replaceAllUsesExcept(result, built);
}

/// `op`, a shift, by less than its width.
static void guardShift(Operation *op) {
  Value amount = op->getOperand(1);
  Type type = amount.getType();
  unsigned width = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  APInt known;
  if (matchPattern(amount, m_ConstantInt(&known)) && known.ult(width))
    return;
  OpBuilder b(op);
  Location loc = op->getLoc();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value));
  };
  Value most = constant(width - 1);
  op->setOperand(1, arith::MinUIOp::create(b, loc, amount, most));
  if (isa<arith::ShRSIOp>(op))
    return; // nothing but signs are left
  b.setInsertionPointAfter(op);
  Value inside =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ule, amount, most);
  auto result =
      arith::SelectOp::create(b, loc, inside, op->getResult(0), constant(0));
  op->getResult(0).replaceAllUsesExcept(result, result);
}

/// What a float lies between, and is no NaN, where constants say so: numbers,
/// the smaller or larger of a float and a number, and multiples of those.
static std::optional<std::pair<APFloat, APFloat>> getBounds(Value x) {
  APFloat number(0.0);
  if (matchPattern(x, m_ConstantFloat(&number)))
    return number.isNaN() ? std::nullopt
                          : std::optional(std::pair(number, number));
  Operation *op = x.getDefiningOp();
  if (!op || !isa<arith::MinNumFOp, arith::MaxNumFOp, arith::MulFOp>(op) ||
      !matchPattern(op->getOperand(1), m_ConstantFloat(&number)) ||
      number.isNaN())
    return std::nullopt;
  auto inner = getBounds(op->getOperand(0));
  if (isa<arith::MulFOp>(op)) {
    if (!inner || number.isNegative() || number.isZero())
      return std::nullopt;
    return std::pair(inner->first * number, inner->second * number);
  }
  APFloat most = APFloat::getInf(number.getSemantics());
  auto [low, high] = inner.value_or(std::pair(neg(most), most));
  if (isa<arith::MinNumFOp>(op))
    return std::pair(minnum(low, number), minnum(high, number));
  return std::pair(maxnum(low, number), maxnum(high, number));
}

/// `op`, a conversion of a float to an integer, of what the integer can hold:
/// of less or more the least or the largest of its numbers, of NaN 0.
static void guardConversion(Operation *op) {
  bool isSigned = isa<arith::FPToSIOp>(op);
  Value x = op->getOperand(0);
  Type type = op->getResult(0).getType();
  unsigned width = type.getIntOrFloatBitWidth();
  const llvm::fltSemantics &format =
      cast<FloatType>(x.getType()).getFloatSemantics();
  auto power = [&](unsigned exponent, bool isNegative) {
    return scalbn(APFloat::getOne(format, isNegative), int(exponent),
                  APFloat::rmNearestTiesToEven);
  };
  APFloat least = isSigned ? power(width - 1, true) : APFloat::getZero(format);
  APFloat above = power(width - isSigned, false);
  if (auto bounds = getBounds(x); bounds && bounds->first.isFinite() &&
                                  bounds->first >= least &&
                                  bounds->second < above)
    return;
  OpBuilder b(op);
  Location loc = op->getLoc();
  auto number = [&](const APFloat &value) -> Value {
    return arith::ConstantOp::create(b, loc,
                                     b.getFloatAttr(x.getType(), value));
  };
  auto integer = [&](const APInt &value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value));
  };
  auto compare = [&](arith::CmpFPredicate predicate, const APFloat &y) {
    return arith::CmpFOp::create(b, loc, predicate, x, number(y)).getResult();
  };
  // f16 has no number below what 32 bits hold but -inf.
  bool isFar = least.isInfinity();
  using Predicate = arith::CmpFPredicate;
  Value isLess = compare(isFar ? Predicate::OLE : Predicate::OLT, least);
  Value isMore = compare(Predicate::OGE, above);
  Value isNumber = compare(Predicate::ORD, least);
  Value zero = number(APFloat::getZero(format));
  Value safe = arith::SelectOp::create(b, loc, isNumber, x, zero);
  for (Value isOutside : {isLess, isMore})
    safe = arith::SelectOp::create(b, loc, isOutside, zero, safe);
  op->setOperand(0, safe);
  b.setInsertionPointAfter(op);
  Value whole = op->getResult(0), result = whole;
  llvm::SmallPtrSet<Operation *, 2> built;
  auto replace = [&](Value where, const APInt &value) {
    result = arith::SelectOp::create(b, loc, where, integer(value), result);
    built.insert(result.getDefiningOp());
  };
  replace(isMore, isSigned ? APInt::getSignedMaxValue(width)
                           : APInt::getMaxValue(width));
  if (isSigned)
    replace(isLess, APInt::getSignedMinValue(width));
  whole.replaceAllUsesExcept(result, built);
}

void mlir::attn::defineIntegers(Operation *op) {
  dropPromises(op);
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp,
          arith::CeilDivSIOp, arith::CeilDivUIOp, arith::RemSIOp,
          arith::RemUIOp>(op))
    guardDivision(op);
  else if (isa<arith::ShLIOp, arith::ShRUIOp, arith::ShRSIOp>(op))
    guardShift(op);
  else if (isa<arith::FPToSIOp, arith::FPToUIOp>(op))
    guardConversion(op);
}

ValueRange mlir::attn::getYielded(Region &region) {
  return region.front().getTerminator()->getOperands();
}

SmallVector<Value> mlir::attn::inlineRegion(OpBuilder &builder, Region &region,
                                            ValueRange arguments,
                                            RegionCloner::Hook hook) {
  RegionCloner cloner(builder, hook);
  cloner.map(region.getArguments().take_front(arguments.size()), arguments);
  SmallVector<Value> results;
  for (Value value : getYielded(region))
    results.push_back(cloner.get(value));
  return results;
}

void mlir::attn::inlineShift(OpBuilder &builder, MonoidOp monoid,
                             ValueRange from, ValueRange to, ValueRange params,
                             MutableArrayRef<Value> components) {
  if (!monoid.hasShift())
    return;
  SmallVector<Value> arguments(from);
  llvm::append_range(arguments, to);
  for (auto [i, component] : llvm::enumerate(components))
    if (monoid.getComponent(i) == Component::unit)
      arguments.push_back(component);
  llvm::append_range(arguments, params);
  SmallVector<Value> units =
      inlineRegion(builder, monoid.getShift(), arguments);
  for (auto [i, component] : llvm::enumerate(components))
    if (monoid.getComponent(i) == Component::unit)
      component = units[monoid.getUnit(i)];
}

bool mlir::attn::dependsOn(Value value, Value argument) {
  SmallVector<Value> worklist = {value};
  llvm::DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value current = worklist.pop_back_val();
    if (current == argument)
      return true;
    if (!seen.insert(current).second)
      continue;
    if (Operation *op = current.getDefiningOp())
      llvm::append_range(worklist, op->getOperands());
  }
  return false;
}

int64_t mlir::attn::diagonalsOf(Operation *op) {
  auto scores = dyn_cast<ScoresOp>(op);
  return scores ? scores.getDiagonals().value_or(0) : 0;
}

bool mlir::attn::isDiagonal(Region &mask) {
  auto same = mask.empty() ? arith::CmpIOp()
                           : getYielded(mask)[0].getDefiningOp<arith::CmpIOp>();
  return same && same.getPredicate() == arith::CmpIPredicate::eq &&
         llvm::equal(same.getOperands(), mask.getArguments().slice(2, 2));
}
