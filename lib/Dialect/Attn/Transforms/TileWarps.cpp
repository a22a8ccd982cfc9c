//===- TileWarps.cpp - Warps with keys of their own -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Eight rows are the columns of a warp's product, of which the keys are rows:
// none is padding. Each warp of a block takes sixteen keys of a tile and goes
// through all tiles without waiting for the others. At the end their states
// become one.
//
//===----------------------------------------------------------------------===//

#include "TileWarps.h"
#include "NamedRewrites.h"
#include "Pages.h"
#include "TileSteps.h"
#include "attn/Analysis/FewRows.h"
#include "attn/Analysis/TileLayout.h"
#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;

/// Whether a region loads elements of tensors.
static bool readsTensors(Region &region) {
  return region.walk([](tensor::ExtractOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

/// Whether a region, whose positions (b, h, i, j) come behind its first
/// arguments, loads elements that differ by row or key, and not only such as
/// the lengths of sequences or the slopes of heads.
static bool readsPerPair(Region &region, unsigned first) {
  return region
      .walk([&](tensor::ExtractOp load) {
        for (Value index : load.getIndices())
          for (unsigned position : {2, 3})
            if (dependsOn(index, region.getArgument(first + position)))
              return WalkResult::interrupt();
        return WalkResult::advance();
      })
      .wasInterrupted();
}

std::string mlir::attn::whyNotMerged(ReductionOpInterface op, MonoidOp monoid,
                                     const ::attn::TargetInfo &target) {
  if (op.getReducedSide() != Side::keys || isa<FusedOp>(op->getParentOp()) ||
      !isa<AggregateOp, PartialOp>(op.getOperation()))
    return "a reduction other than of keys into states";
  if (monoid.getKind() != MonoidKind::cocycle || monoid.getNumStats() == 0 ||
      monoid.hasFactors())
    return "a monoid that is no cocycle of one factor";
  if (gathersRows(op))
    return "a rolling cache or pages of no multiple of 8 rows, of which each "
           "is found by itself";
  if (mayKillByScore(op, monoid))
    return "scores that may be -inf";
  if (op.getListedKeys() || op.getLinearBias() ||
      whyNotListed(op, monoid, target).empty())
    return "key tiles that a kernel before lists, or a bias that a product "
           "adds";
  if (!op.getQuerySource().hasBatch() || hasGroup(op))
    return "packed sequences, or rows of groups";
  if (op.isBatchInvariant())
    return "bits that do not depend on the batch";
  if (op.getRotaryAttribute())
    return "keys that turn";
  return "";
}

std::string mlir::attn::whyNotOfWarps(ReductionOpInterface op, MonoidOp monoid,
                                      const ::attn::TargetInfo &target) {
  if (readsPerPair(op.getScoreBody(), op.getQueryOperands().size()) ||
      readsPerPair(op.getMaskBody(), 0))
    return "scores or masks that read tensors for each row or key";
  if (std::string why = whyNotMerged(op, monoid, target); !why.empty())
    return why;
  ProductTypes types = findProductTypes(op, monoid, target);
  if (!types.dots || !types.values)
    return "products that are not of 16 bits";
  if (op.getQueryOperands().size() != 1 || op.getValueOperands().size() != 1)
    return "several dots or values";
  if (Region &score = op.getScoreBody();
      !score.empty() &&
      !dependsOn(getYielded(score).front(), score.getArgument(0)))
    return "scores that no dot is part of";
  Value value = op.getValueOperands().front();
  if (keysWithColumns(op, value) != value ||
      value == op.getKeyOperands().front())
    return "values that are columns of the keys";
  auto widthOf = [](Value tensor) {
    return cast<ShapedType>(tensor.getType()).getShape().back();
  };
  constexpr int64_t panel = ::attn::onchip::panelElements;
  int64_t depth = widthOf(op.getKeyOperands().front());
  if (depth % panel || widthOf(value) % panel || widthOf(value) > 4 * panel ||
      depth > 4 * panel)
    return "channels that are no multiple of 64 up to 256";
  return "";
}

std::string mlir::attn::whyNotOfCluster(ReductionOpInterface op,
                                        MonoidOp monoid,
                                        const ::attn::TargetInfo &target) {
  ScheduleAttr schedule = op.getScheduleAttribute();
  if (!isa<AggregateOp>(op.getOperation()))
    return "a reduction to states, which leave the kernel";
  if (::attn::rowsAreColumns(schedule.getRows(), schedule.getBlockV(), target))
    return whyNotMerged(op, monoid, target);
  if (!::attn::warpsHaveKeys(schedule.getRows(), target))
    return "rows = " + std::to_string(schedule.getRows()) +
           ", where 8 rows of a tile have warps with keys of their own";
  if (std::string why = whyNotOfWarps(op, monoid, target); !why.empty())
    return why;
  // A warp has sixteens of channels, of which each goes to another block.
  constexpr int64_t each = 16;
  int64_t warps = schedule.getBlockK() / each;
  int64_t channels = cast<ShapedType>(op.getValueOperands().front().getType())
                         .getShape()
                         .back();
  if (channels > warps * each * schedule.getCluster())
    return "values of " + std::to_string(channels) + " channels, more than " +
           std::to_string(warps) + " warps of each block combine";
  return "";
}

LogicalResult mlir::attn::verifyWarpKeys(ReductionOpInterface op,
                                         MonoidOp monoid,
                                         const ::attn::TargetInfo &target) {
  ScheduleAttr schedule = op.getScheduleAttribute();
  if (!::attn::warpsHaveKeys(schedule.getRows(), target))
    return success();
  constexpr int64_t each = 16, most = ::attn::mostKeysOfWarps;
  std::string why = whyNotOfWarps(op, monoid, target);
  if (why.empty() && schedule.getBlockQ() != schedule.getRows())
    why = "a block of more rows";
  else if (why.empty() &&
           (schedule.getBlockK() % (2 * each) || schedule.getBlockK() > most ||
            cast<ShapedType>(op.getValueOperands().front().getType())
                    .getShape()
                    .back() %
                schedule.getBlockK()))
    why = "tiles of keys that are no multiple of 32 up to 128, and of the "
          "values' "
          "channels";
  if (why.empty())
    return success();
  return op->emitOpError("expected rows = 16 or more for ")
         << why << ", but got rows = " << schedule.getRows();
}

/// The first component that is a sum of weights alone.
static std::optional<unsigned> findSumOfWeights(MonoidOp monoid) {
  for (unsigned i = 0; i < monoid.getNumComponents(); ++i)
    if (monoid.getComponent(i) == Component::unit)
      return i;
  return std::nullopt;
}

bool mlir::attn::showsNaN(MonoidOp monoid) {
  return findSumOfWeights(monoid).has_value();
}

/// The statistics that states of warps are combined by. A maximum that has
/// passed NaN scores by may be that of no keys, and such a state counts for
/// nothing: the sum of the weights says that it is none.
static SmallVector<Value> statisticsOf(KernelBuilder &ctx, MonoidOp monoid,
                                       ValueRange state, bool mayHideNaN) {
  SmallVector<Value> stats(state.take_front(ctx.numStats()));
  std::optional<unsigned> sum = findSumOfWeights(monoid);
  if (!mayHideNaN || !sum)
    return stats;
  Value weights = state[ctx.numStats() + *sum];
  stats[0] = ctx.map({stats[0], weights}, {stats[0].getType()},
                     [&](Value, Value, ValueRange x) -> SmallVector<Value> {
                       Value isNaN = arith::CmpFOp::create(
                           ctx.b, arith::CmpFPredicate::UNO, x[1], x[1]);
                       return {ctx.select(isNaN, x[1], x[0])};
                     })
                 .front();
  return stats;
}

SmallVector<Value> mlir::attn::mergeStates(ReductionContext &ctx,
                                           ValueRange state) {
  int64_t blocks = partsOfCluster(ctx.schedule, ctx.target);
  return createMerge(ctx, ctx.monoid, state, ctx.reduction.getRelaxedMaximum(),
                     blocks > 1 ? ctx.split : Value(),
                     blocks > 1 ? ctx.b.getI64IntegerAttr(blocks)
                                : IntegerAttr(),
                     /*warps=*/IntegerAttr());
}

/// The statistics of two states, and the units behind them, combined; and the
/// factors of both.
static SmallVector<Value> mergeRows(KernelBuilder &ctx, MonoidOp monoid,
                                    ValueRange left, ValueRange right) {
  unsigned n = ctx.numStats();
  SmallVector<Value> both =
      ctx.combine(left.take_front(n), right.take_front(n));
  SmallVector<Value> alpha = ctx.rescale(left.take_front(n), both),
                     beta = ctx.rescale(right.take_front(n), both);
  SmallVector<Value> results = both;
  for (auto [x, y] : llvm::zip_equal(
           ctx.shift(left.take_front(n), both, left.drop_front(n)),
           ctx.shift(right.take_front(n), both, right.drop_front(n))))
    results.push_back(arith::AddFOp::create(ctx.b,
                                            ctx.selectScaled(alpha.front(), x),
                                            ctx.selectScaled(beta.front(), y)));
  results.append(alpha);
  results.append(beta);
  return results;
}

SmallVector<Value> mlir::attn::createMerge(KernelBuilder &ctx, MonoidOp monoid,
                                           ValueRange state, bool mayHideNaN,
                                           Value part, IntegerAttr cluster,
                                           IntegerAttr warps) {
  unsigned n = ctx.numStats();
  // What the body sees of a state: its statistics, and the units where these
  // do more than to scale them.
  SmallVector<unsigned> seen, scaled;
  for (unsigned i = 0; i < state.size(); ++i) {
    bool isUnit = i >= n && monoid.getComponent(i - n) == Component::unit;
    (i < n || (isUnit && monoid.hasShift()) ? seen : scaled).push_back(i);
  }
  SmallVector<Value> stats = statisticsOf(ctx, monoid, state, mayHideNaN),
                     values;
  SmallVector<Type> types, resultTypes;
  for (unsigned i : seen) {
    auto type = cast<tile::TileType>(state[i].getType());
    types.push_back(type.getElementType());
    resultTypes.push_back(type);
    if (i >= n)
      stats.push_back(state[i]);
  }
  for (unsigned i : scaled) {
    values.push_back(state[i]);
    resultTypes.push_back(state[i].getType());
  }
  auto merge = tile::MergeOp::create(ctx.b, resultTypes, stats, values, part,
                                     cluster, warps);
  {
    OpBuilder::InsertionGuard guard(ctx.b);
    types.append(types.begin(), types.end());
    Block *body =
        ctx.b.createBlock(&merge.getBody(), {}, types,
                          SmallVector<Location>(types.size(), ctx.b.getLoc()));
    ValueRange arguments = body->getArguments();
    tile::YieldOp::create(ctx.b, mergeRows(ctx, monoid,
                                           arguments.take_front(seen.size()),
                                           arguments.drop_front(seen.size())));
  }
  SmallVector<Value> merged(state.size());
  for (auto [i, result] : llvm::zip_equal(llvm::concat<unsigned>(seen, scaled),
                                          merge.getResults()))
    merged[i] = result;
  return merged;
}

bool mlir::attn::hasRoomForWeights(ReductionOpInterface op, MonoidOp monoid,
                                   const ::attn::ScheduleProblem &problem,
                                   int64_t channels) {
  // The statistic, and a sum of weights.
  constexpr int64_t panel = ::attn::onchip::panelElements, scalars = 2;
  Region &score = op.getScoreBody();
  auto readsPositions = [](Region &score) {
    constexpr unsigned first = 1, count = 4; // s, b, h, i, j
    return !llvm::all_of(score.getArguments().slice(first, count),
                         [](Value position) { return position.use_empty(); });
  };
  return problem.depths.size() == 1 && !readsTensors(score) &&
         !readsPositions(score) && op.getMaskBody().empty() &&
         problem.depths.front() >= channels + panel &&
         op.getValueOperands().size() == 1 &&
         monoid.getKind() == MonoidKind::cocycle && monoid.getNumStats() == 1 &&
         problem.rowScalars == scalars && !monoid.hasFactors() &&
         !mayKillByScore(op, monoid) && !op.isBatchInvariant() &&
         !op.getRotaryAttribute();
}

bool mlir::attn::pairsLatents(ReductionOpInterface op,
                              const ::attn::ScheduleProblem &problem,
                              const ::attn::ScheduleSizes &sizes,
                              int64_t splits,
                              const ::attn::TargetInfo &target) {
  constexpr int64_t pair = 2, panel = ::attn::onchip::panelElements;
  return target.maxCluster >= pair && problem.sharesWeights && splits == 1 &&
         sizes.blockK == pair * panel && pageOf(op) == panel &&
         problem.numQueries == pair * sizes.blockQ && !problem.listed &&
         op.getQuerySource().hasBatch();
}
