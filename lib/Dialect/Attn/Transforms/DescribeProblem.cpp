//===- DescribeProblem.cpp - What a reduction asks of its schedule --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DescribeProblem.h"
#include "NamedRewrites.h"
#include "Rungs.h"
#include "StateUses.h"
#include "TileDistances.h"
#include "TileKernel.h"
#include "TileWarps.h"
#include "attn/Analysis/CostModel.h"
#include "attn/Analysis/Laws.h"
#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Analysis/MaskRuns.h"
#include "attn/Analysis/OnChip.h"
#include "attn/Analysis/Sharing.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace mlir::attn;

/// Whether the scores are the dots, or these times a factor.
static bool isScaledDot(Region &score) {
  if (score.empty())
    return true;
  Operation *yield = score.front().getTerminator();
  Value dot = score.getArgument(0), root = yield->getOperand(0);
  if (yield->getNumOperands() > 1)
    return false;
  auto product = root.getDefiningOp<arith::MulFOp>();
  return root == dot ||
         (product && (product.getLhs() == dot || product.getRhs() == dot));
}

/// Whether the dot is multiplied by what is known at run time only.
static bool hasRuntimeScale(Region &score) {
  if (score.empty() || !isScaledDot(score))
    return false;
  auto product = score.front()
                     .getTerminator()
                     ->getOperand(0)
                     .getDefiningOp<arith::MulFOp>();
  auto isConstant = [](Value value) {
    return static_cast<bool>(value.getDefiningOp<arith::ConstantOp>());
  };
  return product && !isConstant(product.getLhs()) &&
         !isConstant(product.getRhs());
}

/// Counts what is done with a dot for each pair, beside a factor, which is one
/// with the exponential's.
static void countScore(Region &score, ::attn::ScheduleProblem &problem) {
  if (score.empty())
    return;
  llvm::SmallPtrSet<Value, 8> ofDot = {score.getArgument(0)};
  int64_t count = 0;
  for (Operation &op : score.front().without_terminator()) {
    if (llvm::none_of(op.getOperands(),
                      [&](Value value) { return ofDot.contains(value); }))
      continue;
    ofDot.insert(op.result_begin(), op.result_end());
    bool isFunction = isa<math::MathDialect>(op.getDialect());
    count += isFunction ? 2 : 1;
    // A hyperbolic tangent takes an exponential and a reciprocal.
    problem.scoreSpecials += isFunction + isa<math::TanhOp>(op);
  }
  problem.scoreOps += std::max<int64_t>(count - 1, 0);
}

/// Channels of a work tile where the sums of all of them are more than the
/// registers of a warpgroup hold, or 0: as many as divide those of every value.
static int64_t findSlice(ReductionOpInterface op, MonoidOp monoid,
                         ArrayRef<int64_t> channels,
                         const ::attn::TargetInfo &target) {
  if (target.isCpu() || channels.empty())
    return 0;
  auto padded = [&](int64_t width) {
    return ::attn::paddedChannels(width, target);
  };
  auto sumOf = [&](auto width) {
    return std::accumulate(channels.begin(), channels.end(), int64_t(0),
                           [&](int64_t sum, int64_t c) {
                             return sum + padded(width ? width : c);
                           });
  };
  const int64_t most = ::attn::MmaShape::warpgroup().nMax;
  if (channels.front() > most)
    return whyNotSliced(op, monoid, most, target).empty() ? most : 0;
  if (channels.size() == 1 || sumOf(0) <= most)
    return 0;
  // Rows of a slice start at multiples of 16 bytes. Each slice computes all
  // weights, which pays up to a few.
  constexpr int64_t unit = 8, mostSlices = 5;
  int64_t widest = *llvm::max_element(channels);
  int64_t common = 0;
  for (int64_t size : channels)
    common = std::gcd(common, size);
  for (int64_t slices = 2; slices <= mostSlices; ++slices)
    if (widest % slices == 0)
      if (int64_t width = widest / slices;
          width % unit == 0 && common % width == 0 && sumOf(width) <= most &&
          whyNotSliced(op, monoid, width, target).empty())
        return width;
  return 0;
}

/// Channels do not depend on each other: what a warpgroup has no registers for
/// is more work tiles, or other warpgroups of the block, which pay where keys
/// and values share slots.
static void chooseChannels(ReductionOpInterface op, MonoidOp monoid,
                           const ::attn::TargetInfo &target,
                           ::attn::ScheduleProblem &problem) {
  int64_t width = findSlice(op, monoid, problem.channels, target);
  if (!width)
    return;
  int64_t widest = *llvm::max_element(problem.channels);
  ScheduleAttr given = op.getScheduleAttribute();
  bool isWithin = llvm::all_of(op.getValueOperands(), [&](Value value) {
    return keysWithColumns(op, value) != value;
  });
  constexpr int64_t pair = 2;
  bool shares = given ? given.getBlockV() == pair * width : isWithin;
  if (shares && width == ::attn::MmaShape::warpgroup().nMax &&
      widest == pair * width && ::attn::takesWarpgroups(problem, target)) {
    problem.sharers = pair;
    problem.valuesInKeys = isWithin;
    problem.sharesWeights =
        isWithin && hasRoomForWeights(op, monoid, problem, widest);
  }
  problem.blockV = width * problem.sharers;
  problem.slices = llvm::divideCeil(widest, problem.blockV);
  problem.channels.assign(problem.channels.size(), width);
}

/// The numbers of rows, keys and heads, as far as types and expectations say.
static void findSizes(ReductionOpInterface op,
                      const std::array<int64_t, 5> &expected,
                      ::attn::ScheduleProblem &problem) {
  // Tensors of many sequences do not tell the length of any; who expects a
  // number of rows means that of each.
  if (problem.packed) {
    if (expected[2] > 0 && op.getReducedSide() == Side::keys)
      problem.numQueries = expected[2];
    return;
  }
  auto known = [](Value tensor, int64_t d, int64_t expected) {
    int64_t size = cast<RankedTensorType>(tensor.getType()).getDimSize(d);
    if (!ShapedType::isDynamic(size))
      return size;
    return expected > 0 ? expected : -1;
  };
  // [b, hq, sq, sk, hk], of which rows have the first three over keys.
  bool overKeys = op.getReducedSide() == Side::keys;
  Value query = op.getQueryOperands().front();
  int64_t batches = known(query, 0, expected[0]);
  int64_t heads = known(query, 1, expected[overKeys ? 1 : 4]);
  if (batches < 0 || heads < 0 ||
      llvm::MulOverflow(batches, heads, problem.numHeads))
    problem.numHeads = -1;
  int64_t keyHeads = known(op.getKeyOperands().front(), 1, expected[4]);
  if (overKeys && heads > 0 && keyHeads > 0 && heads % keyHeads == 0)
    problem.group = heads / keyHeads;
  problem.numQueries = known(query, 2, expected[overKeys ? 2 : 3]);
  // A pool does not tell what a sequence has of it.
  int64_t expectedKeys = expected[overKeys ? 3 : 2];
  if (!op.getKeySource().is(SourceKind::paged))
    problem.numKeys = known(op.getKeyOperands().front(), 2, expectedKeys);
  else if (expectedKeys > 0)
    problem.numKeys = expectedKeys;
}

/// Tiles of statistics, and of weights that are computed with them as they need
/// the score, of a cocycle.
static int64_t countTilesOfLift(MonoidOp monoid) {
  int64_t numStats = monoid.getNumStats();
  if (monoid.getKind() != MonoidKind::cocycle || numStats == 0 ||
      weightsFollowStatistic(monoid))
    return 0;
  Region &lift = monoid.getLift();
  auto scores = lift.getArguments().take_front(monoid.getNumScores());
  llvm::SmallDenseSet<Value> early;
  for (Value weight : getYielded(lift).drop_front(numStats))
    if (llvm::any_of(scores, [&](Value s) { return dependsOn(weight, s); }))
      early.insert(weight);
  return int64_t(early.size()) + (dividendIsStatistic(monoid) ? 0 : numStats);
}

/// Whether a score multiplies a dot, as it is, with what a later dot has made,
/// as the gradient of a scale does. The weight, which is computed before the
/// later dot is there, then lies beside the dot and does not take its place.
static bool holdsDots(Region &score, size_t numDots) {
  llvm::SmallDenseMap<Value, unsigned> dots;
  if (score.empty())
    return false;
  for (size_t d = 0; d < numDots; ++d)
    dots[score.getArgument(d)] = 1u << d;
  bool found = false;
  score.walk([&](Operation *inner) {
    unsigned all = 0;
    for (Value operand : inner->getOperands())
      all |= dots.lookup(operand);
    for (Value operand : inner->getOperands())
      found |= isa<BlockArgument>(operand) && dots.lookup(operand) &&
               all >= 2 * dots.lookup(operand);
    for (Value result : inner->getResults())
      dots[result] = all;
  });
  return found;
}

::attn::ScheduleProblem
mlir::attn::describeProblem(ReductionOpInterface op, MonoidOp monoid,
                            const std::array<int64_t, 5> &expected,
                            const ::attn::TargetInfo &target) {
  ::attn::ScheduleProblem problem;
  auto collect = [&](ValueRange tensors, std::vector<int64_t> &sizes,
                     bool &narrow) {
    narrow = true;
    for (Value tensor : tensors) {
      auto type = cast<RankedTensorType>(tensor.getType());
      sizes.push_back(type.getShape().back());
      Type element = type.getElementType();
      narrow &= target.multiplies(element.isBF16(), element.isF16());
      problem.tf32 &= element.isF32();
    }
  };
  problem.tf32 =
      target.hasTf32 && op.getProductPrecision() == ProductPrecision::tf32;
  bool narrowKeys = false;
  std::vector<int64_t> keyDepths;
  collect(op.getQueryOperands(), problem.depths, problem.narrowDots);
  collect(op.getKeyOperands(), keyDepths, narrowKeys);
  collect(op.getValueOperands(), problem.channels, problem.narrowValues);
  problem.narrowDots &= narrowKeys;
  problem.heldQueries = hasRuntimeScale(op.getScoreBody());
  problem.folded = foldsKeys(op, monoid);
  if (problem.folded && op.getValueOperands().empty())
    if (auto laws = ::attn::checkLaws(monoid))
      problem.hasThreshold = laws->threshold >= 0;
  // Keys that no threshold lets in are no matter where they are not live.
  problem.wholeTiles =
      monoid.getKind() == MonoidKind::cocycle || problem.hasThreshold;
  problem.listed = whyNotListed(op, monoid, target).empty();
  // Of a table by distance few tiles read an element for each pair, or bits.
  bool fewReadPairs = problem.listed && findDistantPairs(op);
  problem.listedBits = problem.listed && paysBits(op) && !fewReadPairs;
  bool hasMask = !op.getMaskBody().empty();
  problem.growsEvenly = !hasMask && growsEvenly(op);
  problem.masked = hasMask || !isScaledDot(op.getScoreBody());
  if (hasMask) {
    ::attn::MaskAnalysis analysis(op.getMaskBody());
    problem.wholeTiles &= analysis.facts().hullIsExact || problem.listed;
    problem.diagonal = analysis.facts().endDiffersByRow;
    problem.startsByRow = analysis.facts().startDiffersByRow;
    problem.biasedDiagonal = problem.diagonal && scoresReadPairs(op);
  }
  // A load, its address, and whether it is there.
  constexpr int64_t opsOfLoad = 5;
  countScore(op.getScoreBody(), problem);
  problem.readsPairs =
      op.getReducedSide() == Side::keys && scoresReadPairs(op) && !fewReadPairs;
  problem.scoreOps += (problem.readsPairs ? opsOfLoad : 0) +
                      (problem.listedBits ? ::attn::opsOfBit : 0);
  problem.rowScalars =
      monoid.getNumStats() + monoid.getNumComponents() - monoid.getNumValues();
  // One weight, and one statistic that is the score, take its place.
  llvm::SmallDenseSet<std::pair<Value, Value>> weights; // with their factors
  Operation *lift = monoid.getLift().empty()
                        ? nullptr
                        : monoid.getLift().front().getTerminator();
  // Nor is what is added up as soon as it is computed, of plain sums.
  bool weighsLate = weightsFollowStatistic(monoid) || findDistances(monoid) ||
                    (!target.isCpu() && monoid.getNumStats() == 0 &&
                     monoid.getNumValues() > 0);
  if (lift && !monoid.isGeneral())
    for (unsigned i = 0; i < monoid.getNumComponents(); ++i) {
      // What is computed late and only summed is held by no tile.
      if (weighsLate && monoid.getComponent(i) == Component::unit)
        continue;
      weights.insert(
          {lift->getOperand(monoid.getNumStats() + i),
           monoid.hasFactors() ? getYielded(monoid.getRescale())[i] : Value()});
    }
  // A threshold lets keys into the states of rows from their scores alone.
  if (!problem.hasThreshold)
    problem.extraScores =
        std::max(std::max<int64_t>(weights.size(), 1) - 1 +
                     std::max<int64_t>(monoid.getNumStats(), 1) - 1,
                 countTilesOfLift(monoid) - 1);
  if (!target.isCpu() && holdsDots(op.getScoreBody(), problem.depths.size()))
    ++problem.extraScores;
  problem.rowDivisors = weighsByQuotient(monoid) ? 2 : 0;
  problem.invariant = op.isBatchInvariant();
  problem.warpKeys = whyNotOfWarps(op, monoid, target).empty();
  problem.grouped =
      !target.isCpu() && op.getQueryOperands().front().getDefiningOp<ShareOp>();
  problem.packed = !op.getQuerySource().hasBatch();
  problem.gathered = !target.isCpu() && gathersRows(op);
  chooseChannels(op, monoid, target, problem);
  // A tile of keys whose rows are values as well is loaded once. (What was
  // measured of a dot alone counts it twice.)
  if (!target.isCpu() && !problem.blockV && problem.depths.size() > 1)
    for (auto [value, width] :
         llvm::zip_equal(op.getValueOperands(), problem.channels))
      if (llvm::is_contained(op.getKeyOperands(), value))
        problem.sharedChannels += ::attn::paddedChannels(width, target);
  problem.fixedWeights = monoid.getNumStats() == 0;
  findSizes(op, expected, problem);
  return problem;
}

bool mlir::attn::cutsKeys(ReductionOpInterface op, MonoidOp monoid,
                          ::attn::ScheduleProblem problem,
                          const ::attn::TargetInfo &target) {
  if (!op.isBatchInvariant() || !isa<AggregateOp>(op.getOperation()) ||
      op.getReducedSide() != Side::keys || isa<FusedOp>(op->getParentOp()) ||
      op->hasAttr(getRungAttrName()) || monoid.getKind() != MonoidKind::cocycle)
    return false;
  if (op.getPartKeys() || target.isCpu())
    return true;
  ScheduleAttr given = op.getScheduleAttribute();
  if (!given)
    return ::attn::holdsTwoStates(problem, target);
  problem.cuts = true;
  return ::attn::computeBudget(
             problem, {given.getBlockQ(), given.getRows(), given.getBlockK()},
             target, given.getStages())
      .fits();
}
