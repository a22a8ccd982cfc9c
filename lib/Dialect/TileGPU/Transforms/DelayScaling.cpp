//===- DelayScaling.cpp - Sums are scaled under the next scores -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// tile-overlap-products leaves a sum's scaling at the end of a step, where its
// warpgroup has no product in flight. The product that adds to the sum is
// issued in the next step only, behind that of the scores: the loop carries the
// factors, and scales there,
//
//   issue QK; O = O * a; issue O += P' V'; wait for QK; softmax, a; wait for O
//
// as FlashAttention-3 does for wide heads ("rescale before the product"). The
// same numbers are multiplied in the same order.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/RegionUtils.h"

#define DEBUG_TYPE "tile-delay-scaling"

namespace attn {
#define GEN_PASS_DEF_TILEDELAYSCALINGPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

namespace {
/// A carried sum, and the maps that scale it by row vectors ahead of the loop
/// and at the end of each of its steps.
struct ScaledSum {
  unsigned position;
  MmaIssueOp issue;
  MapOp first, scale;
  /// Which input of the maps the sum is.
  unsigned input;
};
} // namespace

/// The one fragment among the inputs of a map whose others are vectors.
static std::optional<unsigned> onlyFragment(MapOp map) {
  std::optional<unsigned> found;
  for (auto [number, input] : llvm::enumerate(map.getInputs())) {
    if (!isa<FragType>(input.getType()))
      continue;
    if (found)
      return std::nullopt;
    found = number;
  }
  return found;
}

static bool scaleAlike(MapOp a, MapOp b) {
  return a.getInputs().getTypes() == b.getInputs().getTypes() &&
         a->getResultTypes() == b->getResultTypes() &&
         OperationEquivalence::isRegionEquivalentTo(
             &a.getBody(), &b.getBody(), OperationEquivalence::IgnoreLocations);
}

/// Whether a product ahead of `issue` is in flight there.
static bool isUnderProduct(MmaIssueOp issue) {
  for (Operation *op = issue->getPrevNode(); op; op = op->getPrevNode())
    if (auto other = dyn_cast<MmaIssueOp>(op))
      return llvm::all_of(other.getToken().getUsers(), [&](Operation *user) {
        return user->getBlock() == issue->getBlock() &&
               issue->isBeforeInBlock(user);
      });
  return false;
}

/// Whether it is worth it, which is measured (docs/performance/gpu.md): where
/// what lies between products takes a warpgroup longer than the others'
/// products (few columns), or where blocks wait for each other (many, in
/// clusters). In between the other warpgroup has products enough, and one
/// issued later is lost.
static bool pays(FragType sum, bool inCluster) {
  constexpr int64_t few = 64, many = 128;
  return sum.getCols() <= few || (sum.getCols() > many && inCluster);
}

static std::optional<ScaledSum> findSum(scf::ForOp loop, BlockArgument argument,
                                        bool inCluster) {
  auto type = dyn_cast<FragType>(argument.getType());
  if (!type || !pays(type, inCluster))
    return std::nullopt;
  ScaledSum sum;
  sum.position = argument.getArgNumber() - loop.getNumInductionVars();
  if (!argument.hasOneUse())
    return std::nullopt;
  sum.issue = dyn_cast<MmaIssueOp>(*argument.user_begin());
  if (!sum.issue || sum.issue.getAcc() != argument ||
      sum.issue->getBlock() != loop.getBody() || !isUnderProduct(sum.issue))
    return std::nullopt;
  sum.first = loop.getInitArgs()[sum.position].getDefiningOp<MapOp>();
  sum.scale = loop.getYieldedValues()[sum.position].getDefiningOp<MapOp>();
  if (!sum.first || !sum.scale || sum.scale->getBlock() != loop.getBody() ||
      sum.scale->getNumResults() != 1 || !sum.scale->hasOneUse() ||
      !scaleAlike(sum.first, sum.scale))
    return std::nullopt;
  std::optional<unsigned> input = onlyFragment(sum.scale);
  // It is cloned into the next step, and behind the loop.
  SetVector<Value> captured;
  getUsedValuesDefinedAbove(sum.scale.getBody(), captured);
  if (!input || !llvm::all_of(captured, [&](Value value) {
        return loop.isDefinedOutsideOfLoop(value);
      }))
    return std::nullopt;
  sum.input = *input;
  return sum;
}

/// The vectors that a map scales by.
static SmallVector<Value> factorsOf(MapOp map, unsigned input) {
  SmallVector<Value> factors(map.getInputs());
  factors.erase(factors.begin() + input);
  return factors;
}

static Value scaled(OpBuilder &b, ScaledSum sum, Value value,
                    ValueRange factors) {
  SmallVector<Value> inputs(factors);
  inputs.insert(inputs.begin() + sum.input, value);
  IRMapping mapping;
  Operation *map = b.clone(*sum.scale, mapping);
  map->setOperands(inputs);
  return map->getResult(0);
}

static scf::ForOp delay(RewriterBase &rewriter, scf::ForOp loop,
                        ScaledSum sum) {
  SmallVector<Value> factors = factorsOf(sum.first, sum.input);
  loop.getInitArgsMutable()[sum.position].set(sum.first.getInputs()[sum.input]);
  loop.getBody()->getTerminator()->setOperand(sum.position,
                                              sum.scale.getInputs()[sum.input]);
  SmallVector<Value> next = factorsOf(sum.scale, sum.input);
  FailureOr<LoopLikeOpInterface> replaced = loop.replaceWithAdditionalYields(
      rewriter, factors, /*replaceInitOperandUsesInLoop=*/false,
      [&](OpBuilder &, Location, ArrayRef<BlockArgument>) { return next; });
  loop = cast<scf::ForOp>(replaced->getOperation());
  size_t count = factors.size();

  rewriter.setInsertionPoint(sum.issue);
  Value carried = loop.getRegionIterArg(sum.position);
  Value inside =
      scaled(rewriter, sum, carried, loop.getRegionIterArgs().take_back(count));
  rewriter.modifyOpInPlace(sum.issue,
                           [&] { sum.issue.getAccMutable().assign(inside); });
  rewriter.setInsertionPointAfter(loop);
  Value result = loop.getResult(sum.position);
  Value outside =
      scaled(rewriter, sum, result, loop.getResults().take_back(count));
  rewriter.replaceAllUsesExcept(result, outside, outside.getDefiningOp());
  rewriter.eraseOp(sum.scale);
  if (sum.first->use_empty())
    rewriter.eraseOp(sum.first);
  return loop;
}

namespace {
struct DelayScalingPass
    : ::attn::impl::TileDelayScalingPassBase<DelayScalingPass> {
  void runOnOperation() final {
    bool inCluster = getOperation().getCluster() > 1;
    IRRewriter rewriter(&getContext());
    // In order: behind one loop stands what the next one's sums start from.
    SmallVector<scf::ForOp> loops;
    getOperation().walk<WalkOrder::PreOrder>(
        [&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops)
      for (unsigned i = 0, e = loop.getNumRegionIterArgs(); i < e; ++i)
        if (auto sum = findSum(loop, loop.getRegionIterArg(i), inCluster))
          loop = delay(rewriter, loop, *sum);
  }
};
} // namespace
