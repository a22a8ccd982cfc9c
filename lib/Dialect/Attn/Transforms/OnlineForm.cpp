//===- OnlineForm.cpp - Weights as powers of 2 of a distance --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// exp(stat - anchor), with the row's largest statistic so far for the anchor,
// is exp2(stat * k - anchor * k): the form of online softmax that processors
// have an instruction for. With the product of the anchor rounded once for the
// row, the exponent is one multiply-add for each element.
//
// The rounding of anchor * k moves the reference point of the whole row:
// quotients do not see it, and a log-sum-exp loses it in its own rounding; sums
// that are outputs themselves are freed of it at the end (TileKernel.cpp). But
// where the weight of the largest score, 1 but for that, is rounded to 16 bits
// and its share of their sum is not, the quotient is off by as much as the
// rounding, 2^-24 of the exponent: too much for f32. Nor do quotients hide it
// of weights that hold the score, which may meet it again in a difference. Then
// the difference comes before the product.
//
// Sums of weights times the distance of their score from the statistic, as of
// an entropy, are held as sums of weights times their exponents (TileAnchor.h):
// one multiply-add an element is all that it takes. What moved the anchor is in
// these, too, where a GPU rounds its product for weights of 16 bits.
//
//===----------------------------------------------------------------------===//

#include "NamedRewrites.h"
#include "StateUses.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "mlir/IR/BuiltinOps.h"

#define DEBUG_TYPE "attn-online-form"

namespace attn {
#define GEN_PASS_DEF_ATTNONLINEFORMPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

static Type elementType(Value tensor) {
  return cast<ShapedType>(tensor.getType()).getElementType();
}

ProductTypes mlir::attn::findProductTypes(ReductionOpInterface op,
                                          MonoidOp monoid,
                                          const ::attn::TargetInfo &target) {
  // The one 16-bit type of all that the target multiplies.
  auto narrowType = [&](ValueRange tensors) -> Type {
    if (tensors.empty())
      return {};
    Type type = elementType(tensors.front());
    bool all = llvm::all_of(
        tensors, [&](Value tensor) { return elementType(tensor) == type; });
    return all && target.multiplies(type.isBF16(), type.isF16()) ? type
                                                                 : Type();
  };
  ProductTypes types;
  Type keys = narrowType(op.getKeyOperands());
  // What a CPU turns is computed in f32, and not rounded for the product.
  bool turns = op.getRotaryAttribute() && target.isCpu();
  if (keys && keys == narrowType(op.getQueryOperands()) && !turns)
    types.dots = keys;
  // The element path works in f32.
  if (!monoid.isGeneral())
    types.values = narrowType(op.getValueOperands());
  types.tf32 =
      target.hasTf32 && op.getProductPrecision() == ProductPrecision::tf32;
  for (ValueRange tensors :
       {op.getQueryOperands(), op.getKeyOperands(), op.getValueOperands()})
    for (Value tensor : tensors)
      types.tf32 &= elementType(tensor).isF32();
  return types;
}

WeightRounding mlir::attn::findWeightRounding(ReductionOpInterface op,
                                              const ProductTypes &types) {
  if (!types.values || op.getValueOperands().empty())
    return WeightRounding::none;
  // Sums that are asked for in f32 show how good their weights are.
  bool isWide = llvm::any_of(outputTypes(op), [](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    return tensor.getElementType().isF32() &&
           !tensor.isDynamicDim(tensor.getRank() - 1);
  });
  return isWide ? WeightRounding::some : WeightRounding::all;
}

StringRef mlir::attn::whyNotOnline(ReductionOpInterface op, MonoidOp monoid) {
  if (isa<ScoresOp>(op.getOperation()))
    return "it has scores and no weights";
  if (!exponentialBase(monoid))
    return "the factors of its monoid are no exponentials of what one f32 "
           "statistic moves by";
  if (!scoreIsStatistic(monoid) && !weightsFollowStatistic(monoid))
    return "its statistic is not the score, or does not tell its weights";
  if (!isMaximum(monoid.getCombine()))
    return "its statistics are combined by no maximum";
  if (monoid.hasShift() && !findDistances(monoid))
    return "its shift does more than to move distances from the statistic";
  return {};
}

bool mlir::attn::isOnline(ReductionOpInterface op) {
  return op.getExponent().has_value();
}

bool mlir::attn::fusesExponent(ReductionOpInterface op) {
  return op.getExponent() == Exponent::fused;
}

bool mlir::attn::scoreIsDot(ReductionOpInterface op) {
  Region &score = op.getScoreBody();
  return score.empty() || getYielded(score).front() == score.getArgument(0);
}

namespace {
struct OnlineFormPass : ::attn::impl::AttnOnlineFormPassBase<OnlineFormPass> {
  using AttnOnlineFormPassBase::AttnOnlineFormPassBase;

  void runOnOperation() final {
    std::optional<::attn::TargetInfo> target =
        ::attn::getTarget(getOperation());
    if (!target)
      return signalPassFailure();
    getOperation().walk([&](ReductionOpInterface op) {
      MonoidOp monoid = lookupMonoid(op, op.getMonoidRef());
      if (!monoid || isOnline(op))
        return;
      if (StringRef why = whyNotOnline(op, monoid); !why.empty()) {
        ++numKept;
        if (explain)
          op->emitRemark("not in online form: ") << why;
        return;
      }
      ProductTypes types = findProductTypes(op, monoid, *target);
      WeightRounding rounding = findWeightRounding(op, types);
      bool fuses = rounding != WeightRounding::some;
      fuses &= !weightsFollowStatistic(monoid);
      // What rounding moves the anchor by is in the sum of weights and in that
      // of distances: of one key the entropy is as much as f32 loses of it.
      if (findDistances(monoid))
        fuses &= rounding == WeightRounding::all && !target->isCpu();
      op.setExponent(fuses ? Exponent::fused : Exponent::exact);
      ++(fuses ? numFused : numExact);
    });
  }
};
} // namespace
