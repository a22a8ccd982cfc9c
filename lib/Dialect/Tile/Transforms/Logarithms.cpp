//===- Logarithms.cpp - What is made of logarithms and exponentials -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MathFunctions.h"

using namespace mlir;
using namespace mlir::tile;

// Polynomials are minimax in the relative error of the function, lowest power
// first.

/// (log(1 + g) - g + g^2 / 2) / g^3 on [sqrt(1/2) - 1, sqrt(2) - 1].
static constexpr float logCoefficients[] = {
    0.333333313f, -0.250008196f, 0.200012267f, -0.166233569f,
    0.142017573f, -0.131601825f, 0.127615765f, -0.0763449669f};
/// erf(x) / x in x^2 on [0, 1].
static constexpr float erfCoefficients[] = {
    1.12837911f,    -0.37612626f,     0.112836003f,   -0.0268544443f,
    0.00518953567f, -0.000802084222f, 7.88912294e-05f};
/// log2(erfc(x)) on [1, 3.93], minimax in the error of erf.
static constexpr float erfTailCoefficients[] = {
    -0.000492713356f, -1.62604594f,    -0.920648396f,  -0.148751602f,
    0.0315056667f,    -0.00425257208f, 0.000268888369f};
/// (1 + 2 x) e^(x^2) erfc(x) in (x - 3) / (x + 3) on [0.45, 10.2].
static constexpr float erfcCoefficients[] = {
    1.25300801f,    -0.135621026f,   -0.0475624166f, 0.129642114f,
    -0.119271927f,  0.0683431998f,   -0.0237729345f, 0.00237028068f,
    0.00185110327f, -0.000499930349f};
/// log2((1 + s) / (1 - s)) / s in s^2 on [0, 0.1716^2].
static constexpr double log2Coefficients[] = {
    2.8853900817901614, 0.96179667325748175, 0.57708359987741586,
    0.41167187586695009, 0.34074498418310512};

//===----------------------------------------------------------------------===//
// Logarithms
//===----------------------------------------------------------------------===//

Logarithms::LogParts Logarithms::logOfOnePlus(Value g, Value exponent) {
  Value p = mul(horner(g, logCoefficients), g);
  Value rest = mul(mul(g, g), sub(p, constant(0.5f)));
  return {exponent, g, rest};
}

Logarithms::LogParts Logarithms::splitLog(Value x) {
  Value isTiny = less(x, smallestNormal);
  x = select(isTiny, mul(x, constant(0x1p23f)), x);
  // From the bits of sqrt(1/2) on, exponents count up.
  Value bits = bitsOf(x);
  Value exponent = shiftSigned(subI(bits, integer(0x3f3504f3)), integer(23));
  Value mantissa = ofBits(subI(bits, shiftLeft(exponent, integer(23))));
  Value power =
      sub(toFloat(exponent), select(isTiny, constant(23.0f), constant(0.0f)));
  return logOfOnePlus(sub(mantissa, constant(1.0f)), power);
}

Value Logarithms::sumOfLog(const LogParts &parts) {
  Value low = fma(parts.exponent, constant(log2Low), parts.rest);
  return fma(parts.exponent, constant(log2High), add(low, parts.g));
}

/// The result where x is 0, negative, inf or NaN.
Value Logarithms::logEdges(Value x, Value result) {
  result = select(equal(x, 0.0f), constant(-infinity), result);
  result = select(less(x, 0.0f), constant(notANumber), result);
  return select(less(x, infinity), result, x);
}

Value Logarithms::log(Value x) { return logEdges(x, sumOfLog(splitLog(x))); }

Value Logarithms::log2(Value x) {
  LogParts parts = splitLog(x);
  Value over = constant(0.442695041f); // log2(e) - 1
  Value low = fma(parts.rest, over, fma(parts.g, over, parts.rest));
  return logEdges(x, add(add(low, parts.g), parts.exponent));
}

Value Logarithms::log10(Value x) {
  LogParts parts = splitLog(x);
  // log10(2) in two parts, as log(2).
  Value low = fma(parts.exponent, constant(2.48745663981e-4f),
                  mul(add(parts.rest, parts.g), constant(0.434294482f)));
  return logEdges(x, fma(parts.exponent, constant(0.30078125f), low));
}

/// Where 1 + x is 2^k (1 + g): g = x 2^-k + (2^-k - 1), whose terms are exact,
/// while 1 + x itself would be rounded.
Value Logarithms::log1p(Value x) {
  Value u = add(x, constant(1.0f));
  Value k = shiftSigned(subI(bitsOf(u), integer(0x3f3504f3)), integer(23));
  // 2^-128 is no normal number, 2^-126 is.
  Value power = mul(powerOfTwo(subI(integer(2), k)), constant(0.25f));
  Value g = fma(x, power, sub(power, constant(1.0f)));
  Value result = sumOfLog(logOfOnePlus(g, toFloat(k)));
  // At an infinite x, the arithmetic above is of anything.
  result = select(equal(u, 0.0f), constant(-infinity), result);
  result = select(less(u, 0.0f), constant(notANumber), result);
  return select(less(x, infinity), result, x);
}

Value Logarithms::asinh(Value x) {
  Value a = abs(x), one = constant(1.0f);
  // Squares from 2^40 on leave the 1 behind, and later f32.
  Value isLarge = less(constant(0x1p40f), a);
  Value square = mul(a, a);
  Value over = add(a, div(square, add(one, sqrt(add(one, square)))));
  Value result = log1p(select(isLarge, a, over));
  Value more = select(isLarge, constant(0.693147181f), constant(0.0f));
  return copySign(add(result, more), x);
}

Value Logarithms::acosh(Value x) {
  Value over = sub(x, constant(1.0f));
  Value isLarge = less(constant(0x1p40f), x);
  Value root = sqrt(mul(over, add(over, constant(2.0f))));
  Value result = log1p(select(isLarge, x, add(over, root)));
  Value more = select(isLarge, constant(0.693147181f), constant(0.0f));
  return select(less(x, 1.0f), constant(notANumber), add(result, more));
}

Value Logarithms::atanh(Value x) {
  Value a = abs(x);
  Value ratio = div(add(a, a), sub(constant(1.0f), a));
  return copySign(mul(log1p(ratio), constant(0.5f)), x);
}

//===----------------------------------------------------------------------===//
// Error functions
//===----------------------------------------------------------------------===//

Value Logarithms::erfcTail(Value x) {
  x = atMost(x, 10.2f);
  // x^2 = high^2 + (x - high)(x + high): high has twelve bits, and an exact
  // square. Of the exponential's argument nothing may be lost.
  Value high = ofBits(andI(bitsOf(x), integer(0xfffff000)));
  Value square = mul(high, high), low = mul(sub(x, high), add(x, high));
  auto [n, shifted] = nearest(mul(square, constant(-1.44269502f)));
  Value r = fma(n, constant(-log2High), neg(square));
  r = sub(fma(n, constant(-log2Low), r), low);
  Value power = scale(add(expm1Reduced(r), constant(1.0f)), n, shifted);
  Value three = constant(3.0f);
  Value t = div(sub(x, three), add(x, three));
  return mul(power, div(horner(t, erfcCoefficients),
                        fma(x, constant(2.0f), constant(1.0f))));
}

Value Logarithms::erf(Value x) {
  Value a = abs(x);
  Value small = mul(a, horner(mul(a, a), erfCoefficients));
  // From 3.92 on, erf is 1.
  Value tail =
      exp2(horner(atMost(atLeast(a, 1.0f), 3.93f), erfTailCoefficients),
           /*isShort=*/false);
  Value large = sub(constant(1.0f), tail);
  return copySign(select(less(a, 1.0f), small, large), x);
}

Value Logarithms::erfc(Value x) {
  Value a = abs(x), one = constant(1.0f);
  Value small = sub(one, mul(x, horner(mul(x, x), erfCoefficients)));
  Value tail = erfcTail(atLeast(a, 0.45f));
  Value large = select(less(x, 0.0f), sub(constant(2.0f), tail), tail);
  return select(less(a, 0.5f), small, large);
}

//===----------------------------------------------------------------------===//
// Powers
//===----------------------------------------------------------------------===//

/// From y = |x|^(-1/3), for which a third of the exponent is a start, and each
/// step triples the correct digits without a division.
Value Logarithms::cbrt(Value x) {
  Value a = abs(x);
  Value isTiny = less(a, smallestNormal);
  Value scaled = select(isTiny, mul(a, constant(0x1p24f)), a);
  Value third = mul(toFloat(bitsOf(scaled)), constant(1.0f / 3));
  Value y = ofBits(subI(integer(0x548c2b4b), toInteger(third)));
  Value minus = neg(scaled);
  for (int step = 0; step < 2; ++step) {
    Value h = fma(mul(minus, y), mul(y, y), constant(1.0f));
    Value series = fma(h, constant(2.0f / 9), constant(1.0f / 3));
    y = fma(mul(y, h), series, y);
  }
  // The root, and one step of Newton from it.
  Value square = mul(y, y), root = mul(scaled, square);
  Value error = fma(mul(root, root), root, minus);
  root = fma(mul(error, square), constant(-1.0f / 3), root);
  root = select(isTiny, mul(root, constant(0x1p-8f)), root);
  // 0, inf and NaN are their own roots.
  Value isPlain = andI(less(constant(0.0f), a), less(a, infinity));
  return select(isPlain, copySign(root, x), x);
}

/// |x|^y = 2^(y log2|x|). The logarithm is of f64: what is lost of it, y
/// multiplies.
Value Logarithms::powMagnitude(Value x, Value wideY) {
  Value a = abs(x);
  LogParts parts = splitLog(a);
  Value g = widened(parts.g);
  Value s = div(g, add(g, wide(2.0)));
  Value log = add(mul(s, hornerWide(mul(s, s), log2Coefficients)),
                  widened(parts.exponent));
  log = select(equal(a, 0.0f), wide(-infinity), log);
  log = select(less(a, infinity), log, widened(a)); // inf or NaN
  Value product = mul(wideY, log);
  auto isLess = [&](Value l, Value r) -> Value {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, l, r);
  };
  Value low = wide(-160.0), high = wide(160.0);
  product = select(isLess(product, low), low, product);
  product = select(isLess(high, product), high, product);
  Value magic = wide(0x1.8p52);
  Value n = sub(add(product, magic), magic);
  Value r = narrowed(sub(product, n));
  n = narrowed(n);
  return scale(horner(r, exp2Coefficients), n, add(n, constant(12582912.0f)));
}

Value Logarithms::pow(Value x, Value y) {
  Value a = abs(x), absY = abs(y), one = constant(1.0f);
  Value result = powMagnitude(x, widened(y));
  // From 2^24 on every number is even.
  Value isEven = less(constant(0x1p24f), absY);
  Value number = toInteger(select(less(absY, 0x1p24f), y, constant(0.0f)));
  Value isWhole = orI(isEven, equal(toFloat(number), y));
  Value isOdd = andI(hasBit(number, 1), isWhole);
  Value isNegative = arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                           bitsOf(x), integer(0));
  result = select(andI(isNegative, isOdd), neg(result), result);
  // A root of a negative number; of -inf every power is 0 or infinite.
  Value hasRoots = andI(less(x, 0.0f), less(a, infinity));
  Value root = select(isWhole, result, constant(notANumber));
  result = select(hasRoots, root, result);
  Value isOne = orI(orI(equal(x, 1.0f), equal(y, 0.0f)),
                    andI(equal(a, 1.0f), equal(absY, infinity)));
  return select(isOne, one, result);
}

Value Logarithms::powInteger(Value x, Value n) {
  Value result = powMagnitude(x, arith::SIToFPOp::create(b, f64(), n));
  Type element = getElementTypeOrSelf(n.getType());
  auto number = [&](int64_t value) {
    return splat(b.getIntegerAttr(element, value));
  };
  auto compare = [&](arith::CmpIPredicate predicate, Value l,
                     Value r) -> Value {
    return arith::CmpIOp::create(b, predicate, l, r);
  };
  Value isOdd =
      compare(arith::CmpIPredicate::ne, andI(n, number(1)), number(0));
  Value isNegative = compare(arith::CmpIPredicate::slt, bitsOf(x), integer(0));
  result = select(andI(isNegative, isOdd), neg(result), result);
  Value isZero = compare(arith::CmpIPredicate::eq, n, number(0));
  return select(isZero, constant(1.0f), result);
}
