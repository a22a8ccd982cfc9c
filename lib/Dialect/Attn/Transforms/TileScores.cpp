//===- TileScores.cpp - Kernels that write scores -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Scores go to memory, each to its place; or they are added up along diagonals.
// Then a block has a tile of diagonals: it visits all tiles of n rows and n
// keys that are as far from each other, and adds up their scores element by
// element. What lies on one diagonal of that sum is for the reader to add.
//
//===----------------------------------------------------------------------===//

#include "TileScores.h"
#include "Distances.h"
#include "TileBlock.h"
#include "TileElements.h"
#include "TileLists.h"
#include "TileStream.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn;

static bool isSum(Value output) {
  return output && cast<MemRefType>(output.getType()).getRank() == 4;
}

static void storeScores(ReductionContext &ctx, RowBlock &block,
                        ArrayRef<Value> dots) {
  SmallVector<Value> inputs = withLoaded(ctx, block, dots);
  SmallVector<Type> types(ctx.scoreOutputs.size(), scoreTile(ctx));
  SmallVector<Value> tiles =
      ctx.map(inputs, types, [&](Value row, Value col, ValueRange x) {
        x = takeLoaded(ctx, block, x, dots.size());
        return scores(ctx, block, row, col, x);
      });
  for (auto [tile, output] : llvm::zip_equal(tiles, ctx.scoreOutputs))
    if (output)
      tile::StoreOp::create(
          ctx.b, tile, output,
          ValueRange{ctx.batch, ctx.head, block.firstRow, block.tile.first},
          block.firstRow, ctx.add(ctx.row0, ctx.liveRows), /*vector=*/false);
}

/// Adds the scores of live pairs to the tiles of the state.
static SmallVector<Value> addScores(ReductionContext &ctx, RowBlock &block,
                                    ArrayRef<Value> dots) {
  SmallVector<Value> inputs = withLoaded(ctx, block, dots);
  size_t numSums = block.state.size();
  llvm::append_range(inputs, block.state);
  SmallVector<Type> types(numSums, scoreTile(ctx));
  return ctx.map(inputs, types, [&](Value row, Value col, ValueRange x) {
    ValueRange sums = x.take_back(numSums);
    x = takeLoaded(ctx, block, x.drop_back(numSums), dots.size());
    Value live = liveByMask(ctx, block, row, col);
    if (live)
      live = arith::AndIOp::create(ctx.b, live,
                                   ctx.cmp(arith::CmpIPredicate::sle,
                                           ctx.add(block.rowBase, row),
                                           block.lastRow));
    SmallVector<Value> results;
    for (auto [score, output] :
         llvm::zip_equal(scores(ctx, block, row, col, x), ctx.scoreOutputs)) {
      if (!isSum(output))
        continue;
      Value part = live ? ctx.select(live, score, ctx.f32(0.0f)) : score;
      results.push_back(
          arith::AddFOp::create(ctx.b, sums[results.size()], part));
    }
    return results;
  });
}

SmallVector<Value> mlir::attn::writeScores(ReductionContext &ctx,
                                           RowBlock &block,
                                           ArrayRef<Value> dots) {
  if (diagonalsOf(ctx.op))
    return addScores(ctx, block, dots);
  storeScores(ctx, block, dots);
  return {};
}

//===----------------------------------------------------------------------===//
// Diagonals
//===----------------------------------------------------------------------===//

namespace {

/// The diagonals of a block: rows less keys of those in element [r, 0] of its
/// tile are `shift` + r.
struct Diagonals {
  int64_t size;
  Value shift, first;
};

} // namespace

/// The rows that lie as far from the keys from `first` on as the block's
/// diagonals do.
static void takeRows(ReductionContext &ctx, const Diagonals &block,
                     Value first) {
  ctx.row0 = ctx.add(first, block.shift);
  ctx.liveRows = ctx.min(ctx.index(block.size), ctx.sub(ctx.sq, ctx.row0));
}

static SmallVector<Value> stepDiagonals(ReductionContext &ctx,
                                        const Diagonals &block,
                                        const KeyTile &tile, ValueRange state) {
  takeRows(ctx, block, tile.first);
  ctx.queryTiles.clear();
  loadQueries(ctx);
  for (Value query : ctx.queryTiles) {
    auto load = query.getDefiningOp<tile::LoadOp>();
    if (!load)
      continue;
    load.setMoves(true);
    // Every row of a full tile is in range.
    if (!tile.masked) {
      load.getLowerMutable().clear();
      load.getUpperMutable().clear();
    }
  }
  return step(ctx, tile, state);
}

/// From which distance on a score is 0, of rows behind their keys or ahead.
static std::optional<int64_t> zeroFrom(ReductionContext &ctx, Value score,
                                       bool isAhead) {
  auto select = score.getDefiningOp<arith::SelectOp>();
  if (!select)
    return std::nullopt;
  Region &region = ctx.reduction.getScoreBody();
  unsigned first = ctx.reduction.getQueryOperands().size();
  std::optional<FarValue> far =
      findFarValue(select.getCondition(), region.getArgument(first + 2),
                   region.getArgument(first + 3), isAhead);
  if (!far || !far->value)
    return std::nullopt;
  Value taken = *far->value ? select.getTrueValue() : select.getFalseValue();
  return matchPattern(taken, m_PosZeroFloat()) ? std::optional(far->from)
                                               : std::nullopt;
}

/// Whether all sums of the block are 0, for its pairs are too far apart; null
/// for never.
static Value isZeroBlock(ReductionContext &ctx, const Diagonals &block) {
  Value result;
  for (bool isAhead : {false, true}) {
    std::optional<int64_t> from = 0;
    for (auto [score, output] : llvm::zip_equal(
             getYielded(ctx.reduction.getScoreBody()), ctx.scoreOutputs)) {
      if (!isSum(output))
        continue;
      std::optional<int64_t> own = zeroFrom(ctx, score, isAhead);
      from = from && own ? std::optional(std::max(*from, *own)) : std::nullopt;
    }
    if (!from)
      continue;
    // Distances are more than shift - size, and less than shift + size.
    Value shift = isAhead ? ctx.sub(ctx.index(0), block.shift) : block.shift;
    Value isFar = ctx.cmp(arith::CmpIPredicate::sge, shift,
                          ctx.index(*from + block.size - 1));
    result =
        result ? arith::OrIOp::create(ctx.b, result, isFar).getResult() : isFar;
  }
  return result;
}

/// Adds up the scores of the block's tiles.
static SmallVector<Value> streamDiagonals(ReductionContext &ctx,
                                          const Diagonals &block,
                                          ValueRange state) {
  Value zero = ctx.index(0);
  KeyRanges ranges;
  ranges.first = zero;
  ranges.end = ctx.numKeys;
  ranges.lower = ctx.max(ctx.sub(zero, block.shift), zero);
  Value end = ctx.min(ctx.sub(ctx.sq, block.shift), ctx.numKeys);
  ranges.upper = ctx.max(end, ranges.lower);
  if (Value isZero = isZeroBlock(ctx, block))
    ranges.upper = ctx.select(isZero, ranges.lower, ranges.upper);
  ctx.keyEnd = ctx.hullUpper = ctx.numKeys;
  ctx.hullLower = zero;
  StreamBodies bodies;
  bodies.full = [&](ValueRange of, ValueRange state) {
    return stepDiagonals(ctx, block, {of[0], /*masked=*/false}, state);
  };
  bodies.partial = [&](ValueRange of, ValueRange state) {
    return stepDiagonals(ctx, block, {of[0], /*masked=*/true}, state);
  };
  if (ctx.reduction.getMaskBody().empty()) {
    ranges.coreLower = ranges.lower;
    ranges.coreUpper = ranges.upper;
  } else {
    // What the mask says of all rows: whether its analysis reads it right.
    ctx.row0 = zero;
    ctx.liveRows = ctx.sq;
    ctx.maskValid = emitKeyRanges(ctx.b, ctx.loc, describeRanges(ctx)).valid;
    bodies.classify = [&](ValueRange of, ValueRange) {
      takeRows(ctx, block, of[0]);
      ::attn::MaskAnalysis::Class kind = classOf(ctx, of[0]);
      Value whole = ctx.cmp(arith::CmpIPredicate::eq, ctx.liveRows,
                            ctx.index(block.size));
      return SmallVector<Value>{kind.dead,
                                arith::AndIOp::create(ctx.b, kind.full, whole)};
    };
  }
  return emitStream(ctx.b, ctx.loc, ranges, LinearRange(), block.size, state,
                    bodies);
}

/// Stores what all pairs of a diagonal have in common: what one of them has.
static void storeShared(ReductionContext &ctx, const Diagonals &block,
                        unsigned number, Value output) {
  Value shift = ctx.toI32(block.shift), rows = ctx.toI32(ctx.sq);
  Value none = ctx.sub(ctx.i32(0), ctx.toI32(ctx.numKeys));
  Region &region = ctx.reduction.getScoreBody();
  unsigned numDots = ctx.reduction.getQueryOperands().size();
  Value tile =
      ctx.map({}, {ctx.tileType(block.size, 1)},
              [&](Value row, Value, ValueRange) -> SmallVector<Value> {
                Value distance = ctx.add(shift, row), zero = ctx.i32(0);
                Point point;
                point.row = point.safeRow = ctx.max(distance, zero);
                point.key = point.safeKey =
                    ctx.max(ctx.sub(zero, distance), zero);
                PointCloner cloner(ctx, region, numDots, /*hasKey=*/true,
                                   ctx.reduction.getCaptureOperands(), point);
                for (unsigned i = 0; i < numDots; ++i)
                  cloner.map(region.getArgument(i), ctx.f32(0.0f));
                Value exists = arith::AndIOp::create(
                    ctx.b, ctx.cmp(arith::CmpIPredicate::sgt, distance, none),
                    ctx.cmp(arith::CmpIPredicate::slt, distance, rows));
                return {ctx.select(exists,
                                   cloner.get(getYielded(region)[number]),
                                   ctx.f32(0.0f))};
              })
          .front();
  tile::StoreOp::create(ctx.b, tile, output,
                        ValueRange{ctx.batch, ctx.head, block.first},
                        block.first, ctx.dim(output, 2), /*vector=*/true);
}

static void buildDiagonals(ReductionContext &ctx, int64_t size) {
  Diagonals block{size, {}, {}};
  Value step = ctx.index(size);
  Value keyTiles = arith::CeilDivUIOp::create(ctx.b, ctx.numKeys, step);
  block.first = ctx.mul(ctx.queryTile, step);
  block.shift = ctx.sub(block.first, ctx.mul(keyTiles, step));
  SmallVector<Value> sums = llvm::filter_to_vector(ctx.scoreOutputs, isSum);
  SmallVector<Value> state(sums.size(),
                           ctx.fill(ctx.f32(0.0f), ctx.tileType(size, size)));
  state = streamDiagonals(ctx, block, state);
  for (auto [tile, output] : llvm::zip_equal(state, sums))
    tile::StoreOp::create(
        ctx.b, tile, output,
        ValueRange{ctx.batch, ctx.head, block.first, ctx.index(0)}, block.first,
        ctx.dim(output, 2), /*vector=*/false);
  for (auto [i, output] : llvm::enumerate(ctx.scoreOutputs))
    if (output && !isSum(output))
      storeShared(ctx, block, i, output);
}

void mlir::attn::buildScores(ReductionContext &ctx, ValueRange outputs) {
  ctx.scoreOutputs.assign(outputs.begin(), outputs.end());
  if (int64_t size = diagonalsOf(ctx.op)) {
    buildDiagonals(ctx, size);
  } else {
    loadQueries(ctx);
    streamKeys(ctx, {});
  }
  tile::ReturnOp::create(ctx.b);
}
