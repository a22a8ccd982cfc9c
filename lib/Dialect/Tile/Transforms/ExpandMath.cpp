//===- ExpandMath.cpp - Math functions as vector arithmetic ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// tile-expand-math. The exponential is the inner loop of softmax, so it is
// written for the instructions at hand: vreduce and vscalef on AVX-512, which
// need no clamps; elsewhere rounding by adding 1.5 * 2^23, whose low mantissa
// bits then are the integer, and scaling through the exponent field.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Tile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace attn {
#define GEN_PASS_DEF_TILEEXPANDMATHPASS
#include "attn/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace attn

#define DEBUG_TYPE "tile-expand-math"

using namespace mlir;

namespace {

/// 2^r on [-0.5, 0.5], minimax in relative error (1.9e-9 before rounding).
constexpr float exp2Coefficients[] = {1.0f,
                                      0.6931471824645996f,
                                      0.24022646248340607f,
                                      0.05550328642129898f,
                                      0.009618489071726799f,
                                      0.0013399930903688073f,
                                      0.00015345810970757157f};

/// The same to 2.6e-6, where an approximation is allowed (`afn`).
constexpr float exp2CoefficientsShort[] = {
    0.9999992847442627f, 0.6931217908859253f, 0.240247443318367f,
    0.05591786280274391f, 0.009570101276040077f};

/// tanh(x) = x P(x^2) / Q(x^2); the coefficients of Eigen's float tanh, which
/// MLIR's own approximation uses too.
constexpr float tanhNumerator[] = {
    4.89352455891786e-03f, 6.37261928875436e-04f,  1.48572235717979e-05f,
    5.12229709037114e-08f, -8.60467152213735e-11f, 2.00018790482477e-13f,
    -2.76076847742355e-16f};
constexpr float tanhDenominator[] = {
    4.89352518554385e-03f, 2.26843463243900e-03f, 1.18534705686654e-04f,
    1.19825839466702e-06f};
constexpr float tanhClamp = 7.90531110763549805f;

/// tanh(x) / x in |x|: 32 segments of equal length on [0, clamp], minimax in
/// relative error (2.7e-5); the constant of the last one is set between
/// tanh(clamp) and 1.
constexpr float tanhSegmentClamp = 5.30000019f;
constexpr float tanhSegmentsInOne = 5.94150925f;
constexpr float tanhSegmentCoefficients[3][32] = {
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
constexpr float tanhSmall = 0.6f;
constexpr float tanhSmallCoefficients[] = {
    -0.33333298563957214f, 0.13331924378871918f, -0.053783830255270004f,
    0.020795969292521477f, -0.0058951545506715775f};

/// (sin(x) / x - 1) / x^2 and cos(x) in x^2 on [-pi/4, pi/4]; the coefficients
/// of Cephes' sinf and cosf.
constexpr float sineCoefficients[] = {-1.6666654611e-1f, 8.3321608736e-3f,
                                      -1.9515295891e-4f};
constexpr float cosineCoefficients[] = {1.0f, -0.5f, 4.166664568298827e-2f,
                                        -1.388731625493765e-3f,
                                        2.443315711809948e-5f};

/// Builds expansions for one operation's type.
class Expander {
public:
  Expander(Operation *op, const ::attn::TargetInfo &target)
      : b(op->getLoc(), op), target(target), type(op->getResult(0).getType()) {}

  Value constant(float value) {
    TypedAttr attr = b.getF32FloatAttr(value);
    if (auto vector = dyn_cast<VectorType>(type))
      attr = DenseElementsAttr::get(vector, value);
    return arith::ConstantOp::create(b, attr);
  }
  Value integer(int32_t value) {
    TypedAttr attr = b.getI32IntegerAttr(value);
    if (auto vector = dyn_cast<VectorType>(type))
      attr = DenseElementsAttr::get(vector.clone(b.getI32Type()),
                                    b.getI32IntegerAttr(value));
    return arith::ConstantOp::create(b, attr);
  }
  Value fma(Value x, Value y, Value z) {
    if (target.hasFma)
      return math::FmaOp::create(b, x, y, z);
    return arith::AddFOp::create(b, arith::MulFOp::create(b, x, y), z);
  }
  Value horner(Value x, ArrayRef<float> coefficients) {
    Value sum = constant(coefficients.back());
    for (float coefficient : llvm::reverse(coefficients.drop_back()))
      sum = fma(sum, x, constant(coefficient));
    return sum;
  }
  /// x where x >= low, else low; NaN stays: one vmaxps.
  Value atLeast(Value x, float low) { return atLeast(x, constant(low)); }
  Value atLeast(Value x, Value bound) {
    Value below = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, bound);
    return arith::SelectOp::create(b, below, bound, x);
  }
  Value atMost(Value x, float high) { return atMost(x, constant(high)); }
  Value atMost(Value x, Value bound) {
    Value above = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, x, bound);
    return arith::SelectOp::create(b, above, bound, x);
  }
  bool isFullVector() {
    auto vector = dyn_cast<VectorType>(type);
    return vector && target.vectorBits == 512 && vector.getRank() == 1 &&
           vector.getDimSize(0) == 16;
  }

  /// The integer nearest x as float, and the same plus the magic number.
  std::pair<Value, Value> nearest(Value x) {
    Value magic = constant(12582912.0f);
    Value shifted = arith::AddFOp::create(b, x, magic);
    return {arith::SubFOp::create(b, shifted, magic), shifted};
  }

  /// p * 2^n, with `shifted` = n + magic.
  Value scale(Value p, Value n, Value shifted) {
    if (isFullVector()) {
      auto maskType = b.getI16Type();
      Value mask = arith::ConstantOp::create(b, b.getIntegerAttr(maskType, -1));
      Value rounding =
          LLVM::ConstantOp::create(b, b.getI32Type(), b.getI32IntegerAttr(4));
      return LLVM::CallIntrinsicOp::create(
                 b, type, b.getStringAttr("llvm.x86.avx512.mask.scalef.ps.512"),
                 ValueRange{p, n, p, mask, rounding})
          .getResult(0);
    }
    Type intType = b.getI32Type();
    if (auto vector = dyn_cast<VectorType>(type))
      intType = vector.clone(b.getI32Type());
    // 2^n in two factors, so that 2^128 and 2^-149 are reached.
    Value bits = arith::BitcastOp::create(b, intType, shifted);
    Value magicBits = integer(0x4B400000);
    Value whole = arith::SubIOp::create(b, bits, magicBits);
    Value first = arith::ShRSIOp::create(b, whole, integer(1));
    Value second = arith::SubIOp::create(b, whole, first);
    auto power = [&](Value exponent) -> Value {
      Value biased = arith::AddIOp::create(b, exponent, integer(127));
      Value shiftedUp = arith::ShLIOp::create(b, biased, integer(23));
      return arith::BitcastOp::create(b, type, shiftedUp);
    };
    return arith::MulFOp::create(b, arith::MulFOp::create(b, p, power(first)),
                                 power(second));
  }

  Value exp2(Value x, bool isShort) {
    ArrayRef<float> coefficients(exp2Coefficients);
    if (isShort)
      coefficients = exp2CoefficientsShort;
    if (isFullVector()) {
      // x - nearest(x), which is 0 for an infinite x.
      Value mask =
          arith::ConstantOp::create(b, b.getIntegerAttr(b.getI16Type(), -1));
      auto i32 = [&](int32_t value) -> Value {
        return LLVM::ConstantOp::create(b, b.getI32Type(),
                                        b.getI32IntegerAttr(value));
      };
      Value r =
          LLVM::CallIntrinsicOp::create(
              b, type, b.getStringAttr("llvm.x86.avx512.mask.reduce.ps.512"),
              ValueRange{x, i32(0), x, mask, i32(4)})
              .getResult(0);
      Value n = arith::SubFOp::create(b, x, r);
      return scale(horner(r, coefficients), n, Value());
    }
    // Beyond these the result is 0 or inf; the clamps keep -inf - -inf away.
    x = atMost(atLeast(x, -151.0f), 129.0f);
    auto [n, shifted] = nearest(x);
    Value r = arith::SubFOp::create(b, x, n);
    return scale(horner(r, coefficients), n, shifted);
  }

  Value exp(Value x) {
    // log2(e) in two parts: the product x * log2(e) alone would lose as many
    // bits as x has in front of the point.
    constexpr float log2eHigh = 1.44269502f, log2eLow = 1.92596303e-8f;
    x = atMost(atLeast(x, -104.7f), 89.5f);
    Value high = constant(log2eHigh);
    auto [n, shifted] = nearest(arith::MulFOp::create(b, x, high));
    Value r = fma(x, high, arith::NegFOp::create(b, n));
    r = fma(x, constant(log2eLow), r);
    return scale(horner(r, exp2Coefficients), n, shifted);
  }

  Value reciprocal(Value x) {
    if (!isFullVector())
      return arith::DivFOp::create(b, constant(1.0f), x);
    // 14 bits, doubled by one Newton step.
    Value mask =
        arith::ConstantOp::create(b, b.getIntegerAttr(b.getI16Type(), -1));
    Value estimate =
        LLVM::CallIntrinsicOp::create(
            b, type, b.getStringAttr("llvm.x86.avx512.rcp14.ps.512"),
            ValueRange{x, x, mask})
            .getResult(0);
    Value error = fma(arith::NegFOp::create(b, x), estimate, constant(1.0f));
    return fma(estimate, error, estimate);
  }

  /// factor * tanh(step * x), where no step and no factor are 1: x q(|x|), with
  /// q by the segment that |x| lies in. One vpermi2ps picks a coefficient out
  /// of two registers. What all lanes share is multiplied into the
  /// coefficients, which leave the loop.
  Value tanhSegments(Value x, Value step, Value factor) {
    auto product = [&](Value left, Value right) -> Value {
      if (!left || !right)
        return left ? left : right;
      return arith::MulFOp::create(b, left, right);
    };
    Value high = constant(tanhSegmentClamp), low = constant(-tanhSegmentClamp);
    Value magnitudeOfStep;
    if (step) {
      magnitudeOfStep = math::AbsFOp::create(b, step);
      high = arith::DivFOp::create(b, high, magnitudeOfStep);
      low = arith::NegFOp::create(b, high);
    }
    x = atMost(atLeast(x, low), high);
    Value magnitude = math::AbsFOp::create(b, x);
    // The low bits are the segment, and the permutation reads no others.
    Value shifted =
        fma(magnitude, product(constant(tanhSegmentsInOne), magnitudeOfStep),
            constant(12582912.0f));
    auto vector = cast<VectorType>(type);
    Value segment =
        arith::BitcastOp::create(b, vector.clone(b.getI32Type()), shifted);
    auto pick = [&](ArrayRef<float> row, Value scale) -> Value {
      auto half = [&](ArrayRef<float> values) -> Value {
        auto attr = DenseElementsAttr::get(vector, values);
        return product(arith::ConstantOp::create(b, attr), scale);
      };
      return LLVM::CallIntrinsicOp::create(
                 b, type, b.getStringAttr("llvm.x86.avx512.vpermi2var.ps.512"),
                 ValueRange{half(row.take_front(16)), segment,
                            half(row.take_back(16))})
          .getResult(0);
    };
    Value scale = product(step, factor);
    Value scale1 = product(scale, magnitudeOfStep);
    Value scale2 = product(scale1, magnitudeOfStep);
    Value q = pick(tanhSegmentCoefficients[2], scale2);
    q = fma(q, magnitude, pick(tanhSegmentCoefficients[1], scale1));
    q = fma(q, magnitude, pick(tanhSegmentCoefficients[0], scale));
    return arith::MulFOp::create(b, x, q);
  }

  Value tanhShort(Value x) {
    x = atMost(atLeast(x, -tanhClamp), tanhClamp);
    Value square = arith::MulFOp::create(b, x, x);
    Value numerator =
        arith::MulFOp::create(b, x, horner(square, tanhNumerator));
    return arith::MulFOp::create(b, numerator,
                                 reciprocal(horner(square, tanhDenominator)));
  }

  Value tanh(Value x) {
    constexpr float twoLog2e = 2.88539008f;
    // The clamp keeps 1 / (e + 1) finite; tanh has long been 1 there.
    Value magnitude = atMost(math::AbsFOp::create(b, x), 20.0f);
    Value e = exp2(arith::MulFOp::create(b, magnitude, constant(twoLog2e)),
                   /*isShort=*/false);
    Value inverse = reciprocal(arith::AddFOp::create(b, e, constant(1.0f)));
    Value large = fma(constant(-2.0f), inverse, constant(1.0f));
    // 1 - 2 / (e + 1) cancels near 0.
    Value square = arith::MulFOp::create(b, magnitude, magnitude);
    Value cube = arith::MulFOp::create(b, square, magnitude);
    Value small = fma(cube, horner(square, tanhSmallCoefficients), magnitude);
    Value isSmall = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT,
                                          magnitude, constant(tanhSmall));
    Value result = arith::SelectOp::create(b, isSmall, small, large);
    return math::CopySignOp::create(b, result, x);
  }

  /// sin(x), or cos(x): the quadrant's number and what is left of x, with pi /
  /// 2 in three parts. One part alone would lose as many bits as x has in front
  /// of the point.
  Value sine(Value x, bool isCosine) {
    auto [n, shifted] =
        nearest(arith::MulFOp::create(b, x, constant(0.636619747f)));
    Value r = x;
    for (float part : {1.57079637f, -4.37113883e-8f, -1.71512451e-15f})
      r = fma(n, constant(-part), r);
    Value square = arith::MulFOp::create(b, r, r);
    Value odd = horner(square, sineCoefficients);
    odd = fma(arith::MulFOp::create(b, odd, square), r, r);
    Value even = horner(square, cosineCoefficients);
    Type integers = integer(0).getType();
    Value quadrant = arith::BitcastOp::create(b, integers, shifted);
    if (isCosine)
      quadrant = arith::AddIOp::create(b, quadrant, integer(1));
    auto bit = [&](int32_t which) -> Value {
      Value masked = arith::AndIOp::create(b, quadrant, integer(which));
      return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, masked,
                                   integer(0));
    };
    Value result = arith::SelectOp::create(b, bit(1), even, odd);
    return arith::SelectOp::create(b, bit(2), arith::NegFOp::create(b, result),
                                   result);
  }

private:
  ImplicitLocOpBuilder b;
  const ::attn::TargetInfo &target;
  Type type;
};

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

/// Softcap, factor * tanh(step * x), in the segments' form, in place of `tanh`
/// and of the product that is its one use.
void expandSoftcap(math::TanhOp tanh, const ::attn::TargetInfo &target,
                   SmallVectorImpl<Operation *> &dead) {
  Value x = tanh.getOperand(), step, factor;
  if (auto [other, shared] = sharedFactor(x); shared)
    std::tie(x, step) = {other, shared};
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
  Value result = Expander(last, target).tanhSegments(x, step, factor);
  last->getResult(0).replaceAllUsesWith(result);
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
    SmallVector<Operation *> others, dead;
    module.walk([&](Operation *op) {
      if (!isa_and_nonnull<math::MathDialect>(op->getDialect()) ||
          isa<math::FmaOp>(op))
        return;
      if (op->getNumResults() != 1 ||
          !getElementTypeOrSelf(op->getResult(0).getType()).isF32())
        return;
      Value result;
      Expander expander(op, *info);
      if (auto exp2 = dyn_cast<math::Exp2Op>(op))
        result = expander.exp2(
            exp2.getOperand(),
            bitEnumContainsAny(exp2.getFastmath(), arith::FastMathFlags::afn));
      else if (isa<math::ExpOp>(op))
        result = expander.exp(op->getOperand(0));
      else if (isa<math::SinOp, math::CosOp>(op))
        result = expander.sine(op->getOperand(0), isa<math::CosOp>(op));
      else if (auto tanh = dyn_cast<math::TanhOp>(op)) {
        if (!hasShortProducts(op)) {
          result = expander.tanh(tanh.getOperand());
        } else if (!expander.isFullVector()) {
          result = expander.tanhShort(tanh.getOperand());
        } else {
          return expandSoftcap(tanh, *info, dead);
        }
      } else {
        return others.push_back(op);
      }
      op->getResult(0).replaceAllUsesWith(result);
      op->erase();
    });
    for (Operation *op : dead)
      op->erase();
    if (others.empty())
      return;
    RewritePatternSet patterns(&getContext());
    populateMathPolynomialApproximationPatterns(patterns);
    GreedyRewriteConfig config;
    config.setStrictness(GreedyRewriteStrictness::ExistingOps);
    if (failed(applyOpPatternsGreedily(others, std::move(patterns), config)))
      signalPassFailure();
  }
};

} // namespace
