//===- FixAnchor.cpp - Weights measured from 0 ----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A score c * tanh(x) is at most c in size. Where exp(c) is a number to
// multiply with, weights need no largest score to be measured from: no maximum
// is looked for, and no sum is rescaled. Caps of 50 are in use: weights of
// 2^-73 to 2^73 leave f32 room for sums of 2^54 of them, or for fewer times
// values of that size, and for values down to 2^-53.
//
//===----------------------------------------------------------------------===//

#include "MarkReductions.h"
#include "StateUses.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define DEBUG_TYPE "attn-fix-anchor"

namespace attn {
#define GEN_PASS_DEF_ATTNFIXANCHORPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

float mlir::attn::fixedAnchorLimit(MonoidOp monoid) {
  constexpr float mostExponent = 73.0f;
  return mostExponent / *exponentialBase(monoid);
}

/// Whether `value` of the score region is made of constants and of scalars that
/// it captures: a plan knows it.
static bool isKnownToPlan(ReductionOpInterface op, Value value) {
  auto captured = op.getScoreBody().getArguments().take_back(
      op.getCaptureOperands().size());
  SmallVector<Value> worklist = {value};
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    Operation *def = next.getDefiningOp();
    if (!def) {
      if (!llvm::is_contained(captured, next) ||
          isa<TensorType>(next.getType()))
        return false;
      continue;
    }
    if (def->getNumRegions() || !isMemoryEffectFree(def))
      return false;
    llvm::append_range(worklist, def->getOperands());
  }
  return true;
}

Value mlir::attn::factorOfScore(ReductionOpInterface op) {
  Region &score = op.getScoreBody();
  if (score.empty())
    return {};
  auto product = getYielded(score).front().getDefiningOp<arith::MulFOp>();
  if (!product)
    return {};
  for (auto [x, factor] : {std::pair(product.getLhs(), product.getRhs()),
                           std::pair(product.getRhs(), product.getLhs())})
    if (x.getDefiningOp<math::TanhOp>() && isKnownToPlan(op, factor) &&
        !isKnownToPlan(op, x))
      return factor;
  return {};
}

StringRef mlir::attn::whyNotFixed(ReductionOpInterface op, MonoidOp monoid,
                                  const ::attn::TargetInfo &target) {
  if (target.isCpu() || !target.hasTensorCopy)
    return "the target gains nothing by it";
  // Kernels of packed heads measure from the largest score.
  if (op.isBatchInvariant())
    return "all kernels of a row have to measure its weights from one point";
  if (!isa<AggregateOp>(op.getOperation()) || !op.getInitBody().empty() ||
      op.getQueryOperands().size() != 1 || op.getRotaryAttribute())
    return "its rows start from states, or give them to others";
  if (!exponentialBase(monoid) || !isMaximum(monoid.getCombine()) ||
      !scoreIsStatistic(monoid) || monoid.hasShift() ||
      !llvm::all_of(
          getYielded(monoid.getLift()).drop_front(monoid.getNumStats()),
          [](Value weight) { return matchPattern(weight, m_OneFloat()); }))
    return "its weights are not the exponentials of scores";
  if (!factorOfScore(op))
    return "no factor that the plan knows bounds its scores";
  // Weights of 16 bits are not so exact that it would show.
  ValueRange values = op.getValueOperands();
  bool areShort = !values.empty() && llvm::all_of(values, [&](Value value) {
    Type type = cast<ShapedType>(value.getType()).getElementType();
    return type.isBF16() && target.multiplies(/*bf16=*/true, /*f16=*/false);
  });
  bool isWide = llvm::any_of(outputTypes(op), [](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    return tensor.getElementType().isF32() &&
           !tensor.isDynamicDim(tensor.getRank() - 1);
  });
  if (!areShort || isWide)
    return "its weights are not rounded to bf16, or sums of them are asked for "
           "in f32";
  if (!anchorIsFree(op, monoid))
    return "an output shows from where weights are measured";
  return {};
}

namespace {
struct FixAnchorPass : ::attn::impl::AttnFixAnchorPassBase<FixAnchorPass> {
  using AttnFixAnchorPassBase::AttnFixAnchorPassBase;

  void runOnOperation() final {
    std::optional<MarkCounts> counts = markReductions(
        getOperation(), explain,
        {"anchor not fixed: ",
         [](ReductionOpInterface op) { return op.getFixableAnchor(); },
         whyNotFixed,
         [](ReductionOpInterface op) { op.setFixableAnchor(true); }});
    if (!counts)
      return signalPassFailure();
    numFixable += counts->marked;
    numKept += counts->kept;
  }
};
} // namespace
