//===- Angles.cpp - Functions of angles -----------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MathFunctions.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::tile;

/// (sin(x) / x - 1) / x^2 and cos(x) in x^2 on [-pi/4, pi/4]; the coefficients
/// of Cephes' sinf and cosf.
static constexpr float sineCoefficients[] = {
    -1.6666654611e-1f, 8.3321608736e-3f, -1.9515295891e-4f};
static constexpr float cosineCoefficients[] = {
    1.0f, -0.5f, 4.166664568298827e-2f, -1.388731625493765e-3f,
    2.443315711809948e-5f};

// The others are minimax in the relative error of the function.

/// (tan(x) / x - 1) / x^2 in x^2 on [0, (pi/4)^2].
static constexpr float tanCoefficients[] = {
    0.333333522f,  0.133325994f,     0.0540667549f, 0.0212485828f,
    0.0109192468f, -1.22924766e-05f, 0.00442483975f};
/// (atan(x) / x - 1) / x^2 in x^2 on [0, tan(pi/8)^2].
static constexpr float atanCoefficients[] = {
    -0.333333164f, 0.199984834f, -0.142437384f, 0.105951399f, -0.0608115606f};
/// (asin(x) / x - 1) / x^2 in x^2 on [0, 1/4].
static constexpr float asinCoefficients[] = {
    0.166667536f, 0.0749523267f, 0.045478344f, 0.0241409857f, 0.0422305502f};

/// What pi / 2 and pi are short of as f32.
static constexpr float halfPi = 1.57079637f, halfPiRest = -4.37113883e-8f;
static constexpr float pi = 3.14159274f, piRest = -8.74227766e-8f;

//===----------------------------------------------------------------------===//
// Sines
//===----------------------------------------------------------------------===//

/// Angles of 2^17 and more, exactly: x 2 / pi modulo 4 from 96 bits of 2 / pi,
/// those that the exponent of x leaves in front of the point and behind it.
Angles::Reduced Angles::reduceLargeAngle(Value x) {
  static constexpr uint32_t twoOverPi[] = {0xA2F9836E, 0x4E441529, 0xFC2757D1,
                                           0xF534DDC0, 0xDB629599, 0x3C439041,
                                           0xFE5163AB};
  Value bits = bitsOf(abs(x));
  Value mantissa = orI(andI(bits, integer(0x7fffff)), integer(0x800000));
  // |x| = mantissa 2^(skipped + 2); what is above 4 in it does not count.
  Value skipped = subI(shiftRight(bits, integer(23)), integer(127 + 23 + 2));
  skipped = arith::MaxSIOp::create(b, skipped, integer(-8));
  // A window may begin in front of the point, where there are zeros.
  skipped = addI(skipped, integer(32));
  Value word = shiftRight(skipped, integer(5));
  auto extended = [&](Value y) -> Value {
    return arith::ExtUIOp::create(b, i64(), y);
  };
  Value offset = extended(andI(skipped, integer(31)));
  auto wordAt = [&](int place) {
    Value result = integer(0);
    for (int k = 0; k < 5; ++k) {
      Value isHere =
          arith::CmpIOp::create(b, arith::CmpIPredicate::eq, word, integer(k));
      int which = k + place - 1;
      Value part = integer(which < 0 ? 0 : twoOverPi[which]);
      result = select(isHere, part, result);
    }
    return extended(result);
  };
  Value words[] = {wordAt(0), wordAt(1), wordAt(2), wordAt(3)};
  Value wideMantissa = extended(mantissa), thirtyTwo = longInteger(32);
  Value lowHalf = longInteger(0xffffffff);
  auto windowAt = [&](int place) {
    Value both = orI(shiftLeft(words[place], thirtyTwo), words[place + 1]);
    return shiftRight(shiftLeft(both, offset), thirtyTwo);
  };
  // The product modulo 2^96, but for its lowest 32 bits.
  Value carry = shiftRight(mulI(wideMantissa, windowAt(2)), thirtyTwo);
  Value middle = addI(mulI(wideMantissa, windowAt(1)), carry);
  Value top =
      addI(mulI(wideMantissa, windowAt(0)), shiftRight(middle, thirtyTwo));
  Value turns = orI(shiftLeft(top, thirtyTwo), andI(middle, lowHalf));
  Value quadrant =
      shiftRight(addI(turns, longInteger(uint64_t(1) << 61)), longInteger(62));
  Value rest = subI(turns, shiftLeft(quadrant, longInteger(62)));
  Value angle = arith::SIToFPOp::create(b, f64(), rest);
  Value r = narrowed(mul(angle, wide(1.5707963267948966 * 0x1p-62)));
  Value count = arith::TruncIOp::create(b, i32(), quadrant);
  // sin(-x) = -sin(x): both change sign.
  Value isNegative = less(x, 0.0f);
  r = select(isNegative, neg(r), r);
  count = select(isNegative, subI(integer(0), count), count);
  // An infinity has no angle.
  return {add(r, mul(x, constant(0.0f))), count};
}

/// The quadrant's number and what is left of x, with pi / 2 in three parts.
/// One part alone would lose as many bits as x has in front of the point.
Angles::Reduced Angles::reduceAngle(Value x) {
  auto [n, shifted] = nearest(mul(x, constant(0.636619747f)));
  Value r = x;
  if (target.hasFma) {
    for (float part : {halfPi, halfPiRest, -1.71512451e-15f})
      r = fma(n, constant(-part), r);
  } else {
    // Products with 33 bits of pi / 2 are exact in f64.
    Value wideN = widened(n), wideR = widened(x);
    for (double part : {0x1.921fb544p0, 0x1.0b4611a626331p-34})
      wideR = sub(wideR, mul(wideN, wide(part)));
    r = narrowed(wideR);
  }
  return {r, bitsOf(shifted)};
}

/// The function of the module that has `name` for large angles. It is called,
/// and said to be so seldom: code of its size in a loop would cost the loop its
/// registers.
func::FuncOp Angles::getOutlined(StringRef name, AngleFunction function) {
  auto module =
      b.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
  std::string symbol = ("attn_large_" + name).str();
  if (auto found = module.lookupSymbol<func::FuncOp>(symbol))
    return found;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(module.getBody());
  Type f32 = b.getF32Type();
  auto func = func::FuncOp::create(b, symbol, b.getFunctionType({f32}, {f32}));
  func.setPrivate();
  func->setAttr("passthrough", b.getStrArrayAttr({"cold", "noinline"}));
  b.setInsertionPointToStart(func.addEntryBlock());
  Angles e(b, target, f32);
  Value result = function(e, e.reduceLargeAngle(func.getArgument(0)));
  func::ReturnOp::create(b, result);
  return func;
}

/// A function of what is left of x and of the quadrant. For large angles, and
/// what is none, there is a branch behind it that calls another, for a lane at
/// a time.
Value Angles::ofAngle(Value x, StringRef name, AngleFunction function) {
  auto isLarge = [](Angles &e, Value y) -> Value {
    return arith::CmpFOp::create(e.b, arith::CmpFPredicate::UGE, e.abs(y),
                                 e.constant(0x1p17f));
  };
  Value result = function(*this, reduceAngle(x));
  func::FuncOp outlined = getOutlined(name, function);
  auto branch = scf::IfOp::create(b, type, any(isLarge(*this, x)),
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, result);
  b.setInsertionPointToStart(branch.thenBlock());
  auto call = [&](OpBuilder &builder, Value y) {
    return func::CallOp::create(builder, b.getLoc(), outlined, y).getResult(0);
  };
  auto vector = dyn_cast<VectorType>(type);
  if (!vector) {
    scf::YieldOp::create(b, call(b, x));
    return branch.getResult(0);
  }
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, value);
  };
  auto loop = scf::ForOp::create(
      b, index(0), index(vector.getDimSize(0)), index(1), result,
      [&](OpBuilder &builder, Location loc, Value lane, ValueRange all) {
        Angles e(ImplicitLocOpBuilder(loc, builder), target,
                 vector.getElementType());
        Value one = vector::ExtractOp::create(e.b, x, lane);
        Value small = vector::ExtractOp::create(e.b, all[0], lane);
        Value next = e.select(isLarge(e, one), call(e.b, one), small);
        next = vector::InsertOp::create(e.b, next, all[0], lane);
        scf::YieldOp::create(e.b, next);
      });
  scf::YieldOp::create(b, loop.getResults());
  return branch.getResult(0);
}

/// sin(x), or cos(x).
Value Angles::sine(Value x, bool isCosine) {
  return ofAngle(x, isCosine ? "cos" : "sin", [&](Angles &e, Reduced angle) {
    auto [r, quadrant] = angle;
    Value square = e.mul(r, r);
    Value odd = e.horner(square, sineCoefficients);
    odd = e.fma(e.mul(odd, square), r, r);
    Value even = e.horner(square, cosineCoefficients);
    if (isCosine)
      quadrant = e.addI(quadrant, e.integer(1));
    Value result = e.select(e.hasBit(quadrant, 1), even, odd);
    return e.select(e.hasBit(quadrant, 2), e.neg(result), result);
  });
}

Value Angles::tan(Value x) {
  return ofAngle(x, "tan", [](Angles &e, Reduced angle) {
    auto [r, quadrant] = angle;
    Value square = e.mul(r, r);
    Value t = e.fma(e.mul(square, r), e.horner(square, tanCoefficients), r);
    Value odd = e.hasBit(quadrant, 1);
    // One quotient, of -1 and t or of t and 1.
    Value one = e.constant(1.0f);
    return e.div(e.select(odd, e.neg(one), t), e.select(odd, t, one));
  });
}

//===----------------------------------------------------------------------===//
// Arcs
//===----------------------------------------------------------------------===//

/// atan(n / d) of 0 <= n <= d; from tan(pi/8) on pi/4 less what is short of 1.
Value Angles::atanRatio(Value n, Value d) {
  Value isUpper = less(mul(d, constant(0.414213562f)), n);
  Value ratio =
      div(select(isUpper, sub(n, d), n), select(isUpper, add(n, d), d));
  Value square = mul(ratio, ratio);
  Value angle =
      fma(mul(square, ratio), horner(square, atanCoefficients), ratio);
  Value upper =
      add(add(angle, constant(0.5f * halfPiRest)), constant(0.5f * halfPi));
  return select(isUpper, upper, angle);
}

Value Angles::atan(Value x) {
  Value a = abs(x), one = constant(1.0f);
  Value isLarge = less(one, a);
  Value angle = atanRatio(select(isLarge, one, a), select(isLarge, a, one));
  Value rest = sub(constant(halfPi), sub(angle, constant(halfPiRest)));
  return copySign(select(isLarge, rest, angle), x);
}

Value Angles::atan2(Value y, Value x) {
  Value absX = abs(x), absY = abs(y), one = constant(1.0f);
  Value isSteep = less(absX, absY);
  Value n = select(isSteep, absX, absY), d = select(isSteep, absY, absX);
  // Sums of the two stay finite; 0 / 0 counts as 0, and inf / inf as 1.
  Value factor = select(less(constant(0x1p126f), d), constant(0.25f), one);
  d = mul(d, factor);
  n = mul(n, factor);
  d = select(equal(d, 0.0f), one, d);
  Value bothInfinite = equal(n, infinity);
  n = select(bothInfinite, one, n);
  d = select(bothInfinite, one, d);
  Value angle = atanRatio(n, d);
  angle = select(
      isSteep, sub(constant(halfPi), sub(angle, constant(halfPiRest))), angle);
  Value isBehind = arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                         bitsOf(x), integer(0));
  angle =
      select(isBehind, sub(constant(pi), sub(angle, constant(piRest))), angle);
  Value unordered = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, x, y);
  return select(unordered, constant(notANumber), copySign(angle, y));
}

/// asin(s), with z = s^2.
Value Angles::arcsineTerm(Value z, Value s) {
  return fma(mul(z, s), horner(z, asinCoefficients), s);
}

/// From 1/2 on through asin(x) = pi / 2 - 2 asin(sqrt((1 - x) / 2)).
Value Angles::asin(Value x) {
  Value a = abs(x);
  Value isLarge = less(constant(0.5f), a);
  Value z =
      select(isLarge, mul(sub(constant(1.0f), a), constant(0.5f)), mul(a, a));
  Value p = arcsineTerm(z, select(isLarge, sqrt(z), a));
  Value large = sub(constant(halfPi), sub(add(p, p), constant(halfPiRest)));
  return copySign(select(isLarge, large, p), x);
}

Value Angles::acos(Value x) {
  Value a = abs(x);
  Value isLarge = less(constant(0.5f), a);
  Value z =
      select(isLarge, mul(sub(constant(1.0f), a), constant(0.5f)), mul(a, a));
  Value p = arcsineTerm(z, select(isLarge, sqrt(z), a));
  Value twice = add(p, p);
  Value large = select(less(x, 0.0f),
                       sub(constant(pi), sub(twice, constant(piRest))), twice);
  Value small =
      sub(constant(halfPi), sub(copySign(p, x), constant(halfPiRest)));
  return select(isLarge, large, small);
}
