//===- Rounding.cpp - Whole numbers and remainders ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MathFunctions.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::tile;

// From 2^23 on every number is whole.

Value Rounding::truncate(Value x) {
  Value hasFraction = less(abs(x), 0x1p23f);
  Value whole = toFloat(toInteger(select(hasFraction, x, constant(0.0f))));
  return select(hasFraction, copySign(whole, x), x);
}

/// One step from the number truncated where that is off.
Value Rounding::stepFrom(Value truncated, Value x, Value isOff, float step) {
  return copySign(add(truncated, select(isOff, constant(step), constant(0.0f))),
                  x);
}

Value Rounding::floor(Value x) {
  Value truncated = truncate(x);
  return stepFrom(truncated, x, less(x, truncated), -1.0f);
}

Value Rounding::ceil(Value x) {
  Value truncated = truncate(x);
  return stepFrom(truncated, x, less(truncated, x), 1.0f);
}

Value Rounding::round(Value x) {
  // The number below 1/2: 1/2 itself would carry what is just below it.
  return copySign(truncate(add(abs(x), constant(0.49999997f))), x);
}

Value Rounding::roundEven(Value x) {
  Value a = abs(x), magic = constant(0x1p23f);
  Value whole = copySign(sub(add(a, magic), magic), x);
  return select(less(a, 0x1p23f), whole, x);
}

/// The remainder of a division that truncates, exactly: in steps that take a
/// quotient of 26 bits from what is left. Most numbers take one.
Value Rounding::remainder(Value x, Value y) {
  Value a = widened(abs(x)), divisor = widened(abs(y));
  auto isLess = [&](Value l, Value r) -> Value {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, l, r);
  };
  auto isAtMost = [&](Value l, Value r) -> Value {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OLE, l, r);
  };
  Value isNumber = andI(isLess(wide(0.0), divisor), isLess(a, wide(infinity)));
  auto isOpen = [&](Value left) {
    return andI(isNumber, isAtMost(divisor, left));
  };
  auto loop = scf::WhileOp::create(
      b, TypeRange{a.getType()}, ValueRange{a},
      [&](OpBuilder &, Location, ValueRange left) {
        scf::ConditionOp::create(b, any(isOpen(left[0])), left);
      },
      [&](OpBuilder &, Location, ValueRange left) {
        // Never above the quotient, but 1 at least; whole, by the magic number.
        Value quotient = mul(div(left[0], divisor), wide(1.0 - 0x1p-52));
        Value magic = wide(0x1p52), one = wide(1.0);
        quotient = sub(add(sub(quotient, wide(0.5)), magic), magic);
        quotient = select(isLess(quotient, one), one, quotient);
        Value bits = arith::BitcastOp::create(b, i64(), quotient);
        bits = andI(bits, longInteger(~uint64_t(0) << 27));
        quotient = arith::BitcastOp::create(b, f64(), bits);
        Value next = sub(left[0], mul(quotient, divisor));
        scf::YieldOp::create(
            b, ValueRange{select(isOpen(left[0]), next, left[0])});
      });
  Value result = copySign(narrowed(loop.getResult(0)), x);
  return select(isNumber, result, constant(notANumber));
}
