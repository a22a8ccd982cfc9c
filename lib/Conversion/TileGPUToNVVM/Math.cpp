//===- Math.cpp - Functions of one number ---------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// There is no library of functions on the device. What softmax needs is one
// instruction; the others are short polynomials. Errors are stated in units in
// the last place of f32 against f64, with instructions that round exactly;
// ex2.approx adds 2, rcp.approx 1.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Math/IR/Math.h"
#include "Lowerings.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ::attn;
using namespace ::attn::gpu;

namespace {

/// x - x^2 / 2 + x^3 P(x) = log(1 + x) on [sqrt(1/2) - 1, sqrt(2) - 1], as in
/// Cephes; highest power first.
constexpr float logCoefficients[] = {
    7.0376836292E-2f,  -1.1514610310E-1f, 1.1676998740E-1f,
    -1.2420140846E-1f, 1.4249322787E-1f,  -1.6668057665E-1f,
    2.0000714765E-1f,  -2.4999993993E-1f, 3.3333331174E-1f};
/// (e^x - 1 - x) / x^2 on [-0.5, 0.5]: the series.
constexpr float expm1Coefficients[] = {1.0f / 362880, 1.0f / 40320, 1.0f / 5040,
                                       1.0f / 720,    1.0f / 120,   1.0f / 24,
                                       1.0f / 6,      0.5f};
/// (tanh(x) / x - 1) / x^2 in x^2 on [0, 0.6].
constexpr float tanhSmall = 0.6f;
constexpr float tanhCoefficients[] = {
    -0.0058951545506715775f, 0.020795969292521477f, -0.053783830255270004f,
    0.13331924378871918f, -0.33333298563957214f};
/// sin and cos on [-pi/4, pi/4], as in Cephes.
constexpr float sinCoefficients[] = {-1.9515295891E-4f, 8.3321608736E-3f,
                                     -1.6666654611E-1f};
constexpr float cosCoefficients[] = {
    2.443315711809948E-5f, -1.388731625493765E-3f, 4.166664568298827E-2f};

class MathBuilder {
public:
  explicit MathBuilder(Emitter &e) : e(e) {}

  Value horner(Value x, ArrayRef<float> coefficients) {
    Value sum = e.cf(coefficients.front());
    for (float coefficient : coefficients.drop_front())
      sum = e.fma(sum, x, e.cf(coefficient));
    return sum;
  }
  Value less(Value x, Value y) {
    return e.fcmp(LLVM::FCmpPredicate::olt, x, y);
  }
  Value equal(Value x, Value y) {
    return e.fcmp(LLVM::FCmpPredicate::oeq, x, y);
  }
  Value abs(Value x) { return LLVM::FAbsOp::create(e.b, e.loc, x); }
  Value infinity() { return e.cf(std::numeric_limits<float>::infinity()); }
  Value nan() { return e.cf(std::numeric_limits<float>::quiet_NaN()); }
  Value copySign(Value x, Value sign) {
    return LLVM::CopySignOp::create(e.b, e.loc, x, sign);
  }

  Value exp2(Value x) {
    return e.call("llvm.nvvm.ex2.approx.ftz.f32", e.f32, {x});
  }
  Value reciprocal(Value x) {
    return e.call("llvm.nvvm.rcp.approx.ftz.f", e.f32, {x});
  }

  /// 1.0 ulp: x log2(e) in two parts, the second one through its derivative.
  Value exp(Value x) {
    // Beyond these the result is 0 or inf; NaN stays.
    x = LLVM::MaximumOp::create(e.b, e.loc, x, e.cf(-104.7f));
    x = LLVM::MinimumOp::create(e.b, e.loc, x, e.cf(89.5f));
    Value log2e = e.cf(1.44269502f);
    Value high = e.fmul(x, log2e);
    Value low =
        e.fma(x, log2e, LLVM::FNegOp::create(e.b, e.loc, high).getResult());
    low = e.fma(x, e.cf(1.92596303e-8f), low);
    Value power = exp2(high);
    Value corrected = e.fma(power, e.fmul(low, e.cf(0.693147181f)), power);
    // An infinity has no second part: inf - inf is NaN.
    return e.select(equal(power, infinity()), power, corrected);
  }

  /// The exponent of x as a float, and x / 2^exponent - 1 as g, with
  /// log(1 + g) = g + q.
  struct LogParts {
    Value exponent, g, q;
  };
  LogParts logParts(Value x) {
    Value tiny = less(x, e.cf(0x1p-126f));
    x = e.select(tiny, e.fmul(x, e.cf(0x1p23f)), x);
    Value bits = e.bitcast(x, e.i32);
    // From the bits of sqrt(1/2) on, exponents count up.
    Value exponent = LLVM::AShrOp::create(
        e.b, e.loc, e.sub(bits, e.c32(0x3f3504f3)), e.c32(23));
    Value mantissa = e.bitcast(e.sub(bits, e.shl(exponent, 23)), e.f32);
    exponent = e.sub(exponent, e.select(tiny, e.c32(23), e.c32(0)));
    Value g = e.fsub(mantissa, e.cf(1.0f));
    Value p = e.fmul(horner(g, logCoefficients), g);
    Value q = e.fmul(e.fmul(g, g), e.fsub(p, e.cf(0.5f)));
    return {LLVM::SIToFPOp::create(e.b, e.loc, e.f32, exponent), g, q};
  }
  /// The result where x is 0, negative, inf or NaN.
  Value logEdges(Value x, Value result) {
    result = e.select(equal(x, e.cf(0.0f)),
                      e.cf(-std::numeric_limits<float>::infinity()), result);
    result = e.select(less(x, e.cf(0.0f)), nan(), result);
    return e.select(less(x, infinity()), result, x);
  }
  /// 0.9 ulp.
  Value log(Value x) {
    LogParts parts = logParts(x);
    Value rest = e.fma(parts.exponent, e.cf(-2.12194440e-4f), parts.q);
    Value sum =
        e.fma(parts.exponent, e.cf(0.693359375f), e.fadd(rest, parts.g));
    return logEdges(x, sum);
  }
  /// 1.4 ulp.
  Value log2(Value x) {
    LogParts parts = logParts(x);
    Value rest = e.cf(0.442695041f); // log2(e) - 1
    Value low = e.fma(parts.q, rest, e.fma(parts.g, rest, parts.q));
    Value sum = e.fadd(e.fadd(low, parts.g), parts.exponent);
    return logEdges(x, sum);
  }
  /// 2.4 ulp: log(u) corrected by the rounding of u = 1 + x.
  Value log1p(Value x) {
    Value one = e.cf(1.0f), u = e.fadd(x, one), v = e.fsub(u, one);
    Value logU = log(u);
    Value corrected =
        e.fmul(logU, LLVM::FDivOp::create(e.b, e.loc, x, v).getResult());
    Value result = e.select(equal(v, x), logU, corrected);
    return e.select(equal(u, one), x, result);
  }
  /// 2.0 ulp.
  Value expm1(Value x) {
    Value small = e.fma(e.fmul(x, x), horner(x, expm1Coefficients), x);
    Value large = e.fsub(exp(x), e.cf(1.0f));
    return e.select(less(abs(x), e.cf(0.5f)), small, large);
  }
  /// 1.7 ulp, 1e-7 absolute.
  Value tanh(Value x) {
    Value magnitude = LLVM::MinimumOp::create(e.b, e.loc, abs(x), e.cf(20.0f));
    Value power = exp2(e.fmul(magnitude, e.cf(2.88539008f)));
    Value inverse = reciprocal(e.fadd(power, e.cf(1.0f)));
    Value large = e.fma(e.cf(-2.0f), inverse, e.cf(1.0f));
    // 1 - 2 / (e^2x + 1) cancels near 0.
    Value square = e.fmul(magnitude, magnitude);
    Value cube = e.fmul(square, magnitude);
    Value small = e.fma(cube, horner(square, tanhCoefficients), magnitude);
    Value result = e.select(less(magnitude, e.cf(tanhSmall)), small, large);
    return copySign(result, x);
  }
  /// 2^-11 of its size: for scores that give weights of 16 bits.
  Value shortTanh(Value x) {
    return e
        .assembly("tanh.approx.f32 $0, $1;", "=f,f", {x}, e.f32,
                  /*isVolatile=*/false)
        .front();
  }
  /// factor * x: sums and products with constants take the factor in, and the
  /// lesser of two, where it is positive.
  Value scaled(Value x, float factor) {
    if (auto negated = x.getDefiningOp<LLVM::FNegOp>())
      return scaled(negated.getOperand(), -factor);
    if (auto product = x.getDefiningOp<LLVM::FMulOp>())
      if (auto constant = numberOf(product.getRhs()))
        return e.fmul(product.getLhs(), e.cf(*constant * factor));
    if (auto sum = x.getDefiningOp<LLVM::FAddOp>())
      if (auto product = sum.getLhs().getDefiningOp<LLVM::FMulOp>())
        if (auto constant = numberOf(product.getRhs()))
          return e.fma(product.getLhs(), e.cf(*constant * factor),
                       scaled(sum.getRhs(), factor));
    if (auto difference = x.getDefiningOp<LLVM::FSubOp>())
      if (auto product = difference.getLhs().getDefiningOp<LLVM::FMulOp>())
        if (auto constant = numberOf(product.getRhs()))
          return e.fma(product.getLhs(), e.cf(*constant * factor),
                       scaled(difference.getRhs(), -factor));
    if (auto least = x.getDefiningOp<LLVM::MinimumOp>(); least && factor > 0.0f)
      return LLVM::MinimumOp::create(e.b, e.loc, scaled(least.getA(), factor),
                                     scaled(least.getB(), factor));
    if (auto constant = numberOf(x))
      return e.cf(*constant * factor);
    return e.fmul(x, e.cf(factor));
  }
  /// 1.6 ulp below 2^50, NaN from there on. The quadrant is found in f64.
  Value sinCos(Value x, bool isCos) {
    auto wide = [&](double value) { return e.floating(e.f64, APFloat(value)); };
    Value y = LLVM::FPExtOp::create(e.b, e.loc, e.f64, x);
    Value turns = LLVM::RintOp::create(e.b, e.loc,
                                       e.fmul(y, wide(0.63661977236758134308)));
    Value negative = LLVM::FNegOp::create(e.b, e.loc, turns);
    Value rest = e.fma(negative, wide(1.57079632679489655800e+00), y);
    rest = e.fma(negative, wide(6.12323399573676603587e-17), rest);
    Value r = LLVM::FPTruncOp::create(e.b, e.loc, e.f32, rest);
    Value quadrant = LLVM::TruncOp::create(
        e.b, e.loc, e.i32,
        LLVM::FPToSIOp::create(e.b, e.loc, e.i64, turns).getResult());
    if (isCos)
      quadrant = e.add(quadrant, 1);
    Value z = e.fmul(r, r);
    Value sine = e.fma(e.fmul(r, z), horner(z, sinCoefficients), r);
    Value cosine = e.fma(e.fmul(z, z), horner(z, cosCoefficients),
                         e.fma(z, e.cf(-0.5f), e.cf(1.0f)));
    Value odd = e.icmp(LLVM::ICmpPredicate::ne, e.and_(quadrant, 1), e.c32(0));
    Value flip = e.icmp(LLVM::ICmpPredicate::ne, e.and_(quadrant, 2), e.c32(0));
    Value result = e.select(odd, cosine, sine);
    result = e.select(
        flip, LLVM::FNegOp::create(e.b, e.loc, result).getResult(), result);
    return e.select(less(abs(x), e.cf(0x1p50f)), result, nan());
  }

private:
  static std::optional<float> numberOf(Value value) {
    auto constant = value.getDefiningOp<LLVM::ConstantOp>();
    auto number =
        constant ? dyn_cast<FloatAttr>(constant.getValue()) : FloatAttr();
    if (!number || !number.getType().isF32())
      return std::nullopt;
    return number.getValue().convertToFloat();
  }

  Emitter &e;
};

} // namespace

/// Whether `lowerMath` has a form of its own for an operation.
static bool isNative(Operation *op) {
  return isa<math::Exp2Op, math::ExpOp, math::Log2Op, math::LogOp,
             math::Log10Op, math::Log1pOp, math::ExpM1Op, math::TanhOp,
             math::SqrtOp, math::RsqrtOp, math::SinOp, math::CosOp, math::FmaOp,
             math::AbsFOp, math::AbsIOp, math::FloorOp, math::CeilOp,
             math::RoundOp, math::RoundEvenOp, math::TruncOp, math::CopySignOp,
             math::IsNaNOp, math::IsInfOp, math::IsFiniteOp, math::CtPopOp,
             math::CountLeadingZerosOp>(op);
}

/// Rewrites other functions by those above: MLIR's approximations (of erf,
/// atan and the like, with the errors that MLIR states) and definitions.
LogicalResult gpu::expandMath(tile_gpu::KernelOp kernel) {
  for (int round = 0; round < 2; ++round) {
    SmallVector<Operation *> others;
    kernel.walk([&](Operation *op) {
      if (isa_and_nonnull<math::MathDialect>(op->getDialect()) && !isNative(op))
        others.push_back(op);
    });
    if (others.empty())
      return success();
    RewritePatternSet patterns(kernel.getContext());
    if (round == 0)
      math::populateExpansionPatterns(patterns,
                                      {"sinh", "cosh", "tan", "asinh", "acosh",
                                       "atanh", "powf", "fpowi", "clampf"});
    else
      populateMathPolynomialApproximationPatterns(patterns);
    GreedyRewriteConfig config;
    config.setStrictness(GreedyRewriteStrictness::ExistingOps);
    if (failed(applyOpPatternsGreedily(others, std::move(patterns), config)))
      return failure();
  }
  return success();
}

static bool isApproximate(Operation *op) {
  auto interface = dyn_cast<arith::ArithFastMathInterface>(op);
  auto flags =
      interface ? interface.getFastMathFlagsAttr() : arith::FastMathFlagsAttr();
  return flags &&
         bitEnumContainsAny(flags.getValue(), arith::FastMathFlags::afn);
}

/// The value of a function; null where it has no form here.
static Value callFunction(Emitter &e, Operation *op, ArrayRef<Value> x) {
  MathBuilder m(e);
  bool isFast = isApproximate(op);
  auto log2 = [&] { return e.call("llvm.nvvm.lg2.approx.f", e.f32, {x[0]}); };
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](math::Exp2Op) { return m.exp2(x[0]); })
      .Case([&](math::ExpOp) {
        return isFast ? m.exp2(m.scaled(x[0], 1.44269504f)) : m.exp(x[0]);
      })
      .Case([&](math::Log2Op) { return isFast ? log2() : m.log2(x[0]); })
      .Case([&](math::LogOp) {
        return isFast ? e.fmul(log2(), e.cf(0.693147181f)) : m.log(x[0]);
      })
      .Case([&](math::Log10Op) {
        return e.fmul(m.log(x[0]), e.cf(0.434294482f));
      })
      .Case([&](math::Log1pOp) { return m.log1p(x[0]); })
      .Case([&](math::ExpM1Op) { return m.expm1(x[0]); })
      .Case([&](math::TanhOp) {
        return isFast ? m.shortTanh(x[0]) : m.tanh(x[0]);
      })
      .Case([&](math::SinOp) { return m.sinCos(x[0], /*isCos=*/false); })
      .Case([&](math::CosOp) { return m.sinCos(x[0], /*isCos=*/true); })
      .Case([&](math::RsqrtOp) {
        return e.call("llvm.nvvm.rsqrt.approx.f", e.f32, {x[0]});
      })
      .Case([&](math::CopySignOp) { return m.copySign(x[0], x[1]); })
      .Case([&](math::IsInfOp) { return m.equal(m.abs(x[0]), m.infinity()); })
      .Case([&](math::IsFiniteOp) { return m.less(m.abs(x[0]), m.infinity()); })
      .Default([](Operation *) { return Value(); });
}

/// What LLVM has as one operation; null for others.
static Value createOperation(Emitter &e, Operation *op, ArrayRef<Value> x) {
  OpBuilder &b = e.b;
  Location loc = e.loc;
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](math::SqrtOp) -> Value {
        return LLVM::SqrtOp::create(b, loc, x[0]);
      })
      .Case([&](math::FmaOp) { return e.fma(x[0], x[1], x[2]); })
      .Case([&](math::AbsFOp) { return MathBuilder(e).abs(x[0]); })
      .Case([&](math::FloorOp) -> Value {
        return LLVM::FFloorOp::create(b, loc, x[0]);
      })
      .Case([&](math::CeilOp) -> Value {
        return LLVM::FCeilOp::create(b, loc, x[0]);
      })
      .Case([&](math::RoundOp) -> Value {
        return LLVM::RoundOp::create(b, loc, x[0]);
      })
      .Case([&](math::RoundEvenOp) -> Value {
        return LLVM::RoundEvenOp::create(b, loc, x[0]);
      })
      .Case([&](math::TruncOp) -> Value {
        return LLVM::FTruncOp::create(b, loc, x[0]);
      })
      .Case([&](math::IsNaNOp) {
        return e.fcmp(LLVM::FCmpPredicate::uno, x[0], x[0]);
      })
      .Case([&](math::AbsIOp) -> Value {
        return LLVM::AbsOp::create(b, loc, x[0].getType(), x[0],
                                   b.getBoolAttr(false));
      })
      .Case([&](math::CtPopOp) -> Value {
        return LLVM::CtPopOp::create(b, loc, x[0]);
      })
      .Case([&](math::CountLeadingZerosOp) -> Value {
        return LLVM::CountLeadingZerosOp::create(b, loc, x[0], false);
      })
      .Default([](Operation *) { return Value(); });
}

LogicalResult gpu::lowerMath(KernelContext &k, Operation *op) {
  Emitter &e = k.e;
  auto fails = [&] {
    return unsupported(op, "a function that has a form on the GPU, but got '" +
                               op->getName().getStringRef() + "'");
  };
  if (op->getNumResults() != 1)
    return fails();
  SmallVector<Value, 3> x;
  for (Value operand : op->getOperands()) {
    if (!operand.getType().isIntOrFloat())
      return fails();
    x.push_back(k.scalar(operand));
  }
  // 16-bit numbers are widened and rounded at the end.
  Type type = op->getResult(0).getType();
  bool isShort = type.isBF16() || type.isF16();
  for (Value &value : x)
    if (value.getType().isBF16() || value.getType().isF16())
      value = e.widen(value);
  bool isFloat = x[0].getType() == e.f32;
  if (!isFloat && !x[0].getType().isSignlessInteger())
    return fails();
  Value result = createOperation(e, op, x);
  if (!result)
    result = callFunction(e, op, x);
  if (!result)
    return fails();
  if (isShort && result.getType() == e.f32)
    result = LLVM::FPTruncOp::create(e.b, e.loc, type, result);
  k.set(op->getResult(0), {result});
  return success();
}
