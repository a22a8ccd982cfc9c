//===- Exponentials.cpp - Exponentials and hyperbolic functions -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The exponential is the inner loop of softmax, so it is written for the
// instructions at hand: vreduce and vscalef on AVX-512, which need no clamps;
// elsewhere rounding by adding 1.5 * 2^23, whose low mantissa bits then are the
// integer, and scaling through the exponent field.
//
//===----------------------------------------------------------------------===//

#include "MathFunctions.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::tile;

/// 2^r on [-0.5, 0.5] to 2.6e-6, where an approximation is allowed (`afn`).
static constexpr float exp2CoefficientsShort[] = {
    0.9999992847442627f, 0.6931217908859253f, 0.240247443318367f,
    0.05591786280274391f, 0.009570101276040077f};

/// The same on [0, 1], to 2.7e-6.
static constexpr float exp2CoefficientsFloor[] = {
    1.0000026226043701f, 0.6930038332939148f, 0.2414427548646927f,
    0.05201146379113197f, 0.013534167781472206f};

/// tanh(x) = x P(x^2) / Q(x^2); the coefficients of Eigen's float tanh, which
/// MLIR's own approximation uses too.
static constexpr float tanhNumerator[] = {
    4.89352455891786e-03f, 6.37261928875436e-04f,  1.48572235717979e-05f,
    5.12229709037114e-08f, -8.60467152213735e-11f, 2.00018790482477e-13f,
    -2.76076847742355e-16f};
static constexpr float tanhDenominator[] = {
    4.89352518554385e-03f, 2.26843463243900e-03f, 1.18534705686654e-04f,
    1.19825839466702e-06f};
static constexpr float tanhClamp = 7.90531110763549805f;

/// tanh(x) / x in |x|: 32 segments of equal length on [0, clamp], minimax in
/// relative error (2.7e-5); the constant of the last one is set between
/// tanh(clamp) and 1.
static constexpr float tanhSegmentClamp = 5.30000019f;
static constexpr float tanhSegmentsInOne = 5.94150925f;
static constexpr float tanhSegmentCoefficients[3][32] = {
    {1.00000048f,  1.00026083f,  1.00423539f,  1.01831126f,  1.04595697f,
     1.08449519f,  1.12661028f,  1.16408515f,  1.19076884f,  1.20365548f,
     1.20250785f,  1.18891048f,  1.16530967f,  1.13433397f,  1.09839773f,
     1.05952239f,  1.01929438f,  0.978896916f, 0.939171553f, 0.900686741f,
     0.863801956f, 0.828722f,    0.795539975f, 0.764271498f, 0.734879613f,
     0.707293808f, 0.681423128f, 0.657165885f, 0.634416223f, 0.61306864f,
     0.593020618f, 0.574278891f},
    {-7.42960619e-05f, -0.00480879517f, -0.035228271f, -0.101604536f,
     -0.195424065f,    -0.297454774f,   -0.388827324f, -0.457706481f,
     -0.500281036f,    -0.518508136f,   -0.517210186f, -0.501902878f,
     -0.477558553f,    -0.448129445f,   -0.4165003f,   -0.384635627f,
     -0.353785336f,    -0.324680537f,   -0.297694415f, -0.272963822f,
     -0.250476986f,    -0.230133846f,   -0.211786613f, -0.195266098f,
     -0.180398166f,    -0.16701363f,    -0.154953748f, -0.144072905f,
     -0.134239554f,    -0.12533614f,    -0.117258318f, -0.109951265f},
    {-0.331628114f,  -0.31028983f,   -0.251622409f,  -0.173118025f,
     -0.093386732f,  -0.0257861167f, 0.0238073301f,  0.0554721169f,
     0.072459884f,   0.0789060965f,  0.0785431862f,  0.0742344409f,
     0.0679556429f,  0.060964793f,   0.0540044308f,  0.0474742241f,
     0.0415590443f,  0.0363164209f,  0.031733077f,   0.0277598351f,
     0.0243323669f,  0.0213829353f,  0.0188466497f,  0.0166644305f,
     0.0147841172f,  0.0131605305f,  0.0117550269f,  0.0105348099f,
     0.00947218481f, 0.0085438285f,  0.00773012079f, 0.00701806741f},
};

/// (tanh(x) / x - 1) / x^2 in x^2 on [0, 0.6], minimax (2.8e-9 in tanh).
static constexpr float tanhSmall = 0.6f;
static constexpr float tanhSmallCoefficients[] = {
    -0.33333298563957214f, 0.13331924378871918f, -0.053783830255270004f,
    0.020795969292521477f, -0.0058951545506715775f};

// Minimax in the relative error of the function, lowest power first.

/// (e^r - 1 - r) / r^2 where |r| <= log(2) / 2.
static constexpr float expm1Coefficients[] = {
    0.49999997f, 0.16666542f, 0.0416672044f, 0.00836669188f, 0.00138824887f};
/// (sinh(x) / x - 1) / x^2 in x^2 on [0, 1].
static constexpr float sinhCoefficients[] = {0.166666672f, 0.00833335053f,
                                             0.000198360663f, 2.81743951e-06f};

//===----------------------------------------------------------------------===//
// Exponentials
//===----------------------------------------------------------------------===//

/// Whether the power `x` of 2, or of e with log(2) as the unit, is not below
/// 2^least, where it is taken as 0. Processors need a hundred times as long for
/// a result that is too small for a normal number, also if it rounds to 0, and
/// as long for a product with it (docs/performance/cpu.md).
Value Exponentials::isAtLeast(Value x, int least, float unit) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::UGE, x,
                               constant(float(least) * unit));
}

Value Exponentials::exp2(Value x, bool isShort, int least) {
  Value isMore = isAtLeast(x, least, 1.0f);
  if (isFullVector()) {
    auto i32 = [&](int32_t value) -> Value {
      return LLVM::ConstantOp::create(b, b.getI32Type(),
                                      b.getI32IntegerAttr(value));
    };
    // x less the integer nearest to it or, of the short one, below it, which
    // vscalef finds again by itself; 0 for an infinite x.
    Value mask =
        arith::ConstantOp::create(b, b.getIntegerAttr(b.getI16Type(), -1));
    Value r =
        LLVM::CallIntrinsicOp::create(
            b, type, b.getStringAttr("llvm.x86.avx512.mask.reduce.ps.512"),
            ValueRange{x, i32(isShort ? 1 : 0), x, mask, i32(4)})
            .getResult(0);
    if (isShort)
      return scale(horner(r, exp2CoefficientsFloor), x, Value(), isMore);
    return scale(horner(r, exp2Coefficients), sub(x, r), Value(), isMore);
  }
  ArrayRef<float> coefficients(exp2Coefficients);
  if (isShort)
    coefficients = exp2CoefficientsShort;
  // Beyond these the result is 0 or inf; the clamps keep -inf - -inf away.
  x = atMost(atLeast(x, -151.0f), 129.0f);
  auto [n, shifted] = nearest(x);
  return scale(horner(sub(x, n), coefficients), n, shifted, isMore);
}

Value Exponentials::exp(Value x, int halvings, int least) {
  Value isMore = isAtLeast(x, least, 0.693147180f);
  x = atMost(atLeast(x, -104.7f), 89.5f);
  Value n, shifted, power;
  if (target.hasFma) {
    // log2(e) in two parts: the product x * log2(e) alone would lose as many
    // bits as x has in front of the point.
    Value high = constant(1.44269502f);
    std::tie(n, shifted) = nearest(mul(x, high));
    Value r = fma(x, high, neg(n));
    r = fma(x, constant(1.92596303e-8f), r);
    power = horner(r, exp2Coefficients);
  } else {
    Value r;
    std::tie(r, shifted) = reduceExp(x);
    n = sub(shifted, constant(12582912.0f));
    power = add(expm1Reduced(r), constant(1.0f));
  }
  if (halvings) {
    n = sub(n, constant(halvings));
    shifted = sub(shifted, constant(halvings));
  }
  return scale(power, n, shifted, isMore);
}

/// x = n log(2) + r: {r, n plus the magic number}.
std::pair<Value, Value> Exponentials::reduceExp(Value x) {
  auto [n, shifted] = nearest(mul(x, constant(1.44269502f)));
  Value r = fma(n, constant(-log2High), x);
  return {fma(n, constant(-log2Low), r), shifted};
}

Value Exponentials::expm1Reduced(Value r) {
  return fma(mul(r, r), horner(r, expm1Coefficients), r);
}

Value Exponentials::expm1(Value x) {
  // Beyond these the result is -1 or inf.
  x = atMost(atLeast(x, -18.0f), 88.75f);
  auto [r, shifted] = reduceExp(x);
  // 2^(n - 1): 2^128 is no f32.
  Value half = powerOfTwo(subI(bitsOf(shifted), integer(0x4B400001)));
  Value result = fma(half, expm1Reduced(r), sub(half, constant(0.5f)));
  return add(result, result);
}

Value Exponentials::sinh(Value x) {
  Value a = abs(x), square = mul(a, a);
  Value small = fma(mul(square, a), horner(square, sinhCoefficients), a);
  Value half = exp(a, /*halvings=*/1);
  Value large = sub(half, div(constant(0.25f), half));
  return copySign(select(less(a, 1.0f), small, large), x);
}

Value Exponentials::cosh(Value x) {
  Value half = exp(abs(x), /*halvings=*/1);
  return add(half, div(constant(0.25f), half));
}

//===----------------------------------------------------------------------===//
// Hyperbolic tangents
//===----------------------------------------------------------------------===//

Value Exponentials::tanh(Value x) {
  constexpr float twoLog2e = 2.88539008f;
  // The clamp keeps 1 / (e + 1) finite; tanh has long been 1 there.
  Value magnitude = atMost(abs(x), 20.0f);
  Value e = exp2(mul(magnitude, constant(twoLog2e)), /*isShort=*/false);
  Value inverse = reciprocal(add(e, constant(1.0f)));
  Value large = fma(constant(-2.0f), inverse, constant(1.0f));
  // 1 - 2 / (e + 1) cancels near 0.
  Value square = mul(magnitude, magnitude);
  Value cube = mul(square, magnitude);
  Value small = fma(cube, horner(square, tanhSmallCoefficients), magnitude);
  return copySign(select(less(magnitude, tanhSmall), small, large), x);
}

Value Exponentials::tanhShort(Value x) {
  x = atMost(atLeast(x, -tanhClamp), tanhClamp);
  Value square = mul(x, x);
  Value numerator = mul(x, horner(square, tanhNumerator));
  return mul(numerator, reciprocal(horner(square, tanhDenominator)));
}

/// x q(|x|), with q by the segment that |x| lies in. One vpermi2ps picks a
/// coefficient out of two registers. The factor, which all lanes share, is
/// multiplied into the coefficients, which leave the loop.
Value Exponentials::tanhSegments(Value x, Value factor) {
  x = atMost(atLeast(x, -tanhSegmentClamp), tanhSegmentClamp);
  Value magnitude = abs(x);
  // The low bits are the segment, and the permutation reads no others.
  Value segment = bitsOf(
      fma(magnitude, constant(tanhSegmentsInOne), constant(12582912.0f)));
  auto pick = [&](ArrayRef<float> row) -> Value {
    auto half = [&](ArrayRef<float> values) -> Value {
      Value numbers = arith::ConstantOp::create(
          b, DenseElementsAttr::get(cast<VectorType>(type), values));
      return factor ? mul(numbers, factor) : numbers;
    };
    return LLVM::CallIntrinsicOp::create(
               b, type, b.getStringAttr("llvm.x86.avx512.vpermi2var.ps.512"),
               ValueRange{half(row.take_front(16)), segment,
                          half(row.take_back(16))})
        .getResult(0);
  };
  Value q = pick(tanhSegmentCoefficients[2]);
  q = fma(q, magnitude, pick(tanhSegmentCoefficients[1]));
  q = fma(q, magnitude, pick(tanhSegmentCoefficients[0]));
  return mul(x, q);
}
