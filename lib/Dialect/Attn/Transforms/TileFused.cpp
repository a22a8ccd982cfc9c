//===- TileFused.cpp - Sums over rows beside those over keys --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernel of attn.fused: a reduction over queries, which computes the
// weights of each pair of a key and a query, and multiplies them once more,
// transposed, by the rows of the keys. These products belong to the queries:
// they are added up in memory, key tile by key tile. One block of a CPU has all
// keys of a head, so that no other adds to the same elements, and sums have one
// order. On a GPU blocks have one tile of keys each, and add to what a kernel
// has cleared; another one rounds it. They do so in any order, or in turns:
// each tile of rows has a counter of the key tiles that have added. Those that
// meet these rows follow one another, and are drawn in this order; the first
// one writes, so that nothing but counters is cleared. Rows whose counter is 0
// in the end have no keys.
//
//===----------------------------------------------------------------------===//

#include "TileFused.h"
#include "KeyRanges.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

/// Walks the tiles of the reduced rows of all heads that read the block's.
static void forEachSumTile(ReductionContext &ctx,
                           function_ref<void(Value head, Value first)> body) {
  Value reducedHeads = ctx.dim(ctx.arg(ctx.reduction.getKeyOperands().front()),
                               ctx.keySource.headDim());
  Value rowHeads = ctx.dim(ctx.arg(ctx.reduction.getQueryOperands().front()),
                           ctx.rowSource.headDim());
  Value group = arith::DivUIOp::create(ctx.b, reducedHeads,
                                       ctx.max(rowHeads, ctx.index(1)));
  auto heads = scf::ForOp::create(ctx.b, ctx.index(0), group, ctx.index(1),
                                  ValueRange());
  OpBuilder::InsertionGuard guard(ctx.b);
  ctx.b.setInsertionPointToStart(heads.getBody());
  Value number = ctx.add(ctx.mul(ctx.head, group), heads.getInductionVar());
  auto tiles = scf::ForOp::create(ctx.b, ctx.index(0), ctx.numKeys,
                                  ctx.index(keyCols(ctx)), ValueRange());
  ctx.b.setInsertionPointToStart(tiles.getBody());
  body(number, tiles.getInductionVar());
}

static void clearRowSums(ReductionContext &ctx) {
  forEachSumTile(ctx, [&](Value head, Value first) {
    for (const RowSum &sum : ctx.rowSums) {
      Value rows = ctx.reduction.getQueryOperands()[sum.operand];
      Value zero = ctx.fill(ctx.f32(0.0f),
                            ctx.tileType(keyCols(ctx), paddedDepth(ctx, rows)));
      tile::StoreOp::create(ctx.b, zero, sum.sums, ctx.fromFirst(head, first),
                            ctx.index(0), ctx.numKeys, /*vector=*/false);
    }
  });
}

static void convertRowSums(ReductionContext &ctx) {
  if (llvm::none_of(ctx.rowSums, [](const RowSum &sum) { return sum.result; }))
    return;
  forEachSumTile(ctx, [&](Value head, Value first) {
    for (const RowSum &sum : ctx.rowSums) {
      if (!sum.result)
        continue;
      Value rows = ctx.reduction.getQueryOperands()[sum.operand];
      auto type = ctx.tileType(keyCols(ctx), paddedDepth(ctx, rows));
      Value loaded = tile::LoadOp::create(ctx.b, type, sum.sums,
                                          ctx.fromFirst(head, first),
                                          ctx.index(0), ctx.numKeys,
                                          /*live=*/Value(), /*vector=*/false);
      tile::StoreOp::create(ctx.b, loaded, sum.result,
                            ctx.fromFirst(head, first), ctx.index(0),
                            ctx.numKeys, /*vector=*/false);
    }
  });
}

void mlir::attn::walkRowTiles(ReductionContext &ctx, Value numTiles,
                              function_ref<void()> body) {
  clearRowSums(ctx);
  auto forOp = scf::ForOp::create(ctx.b, ctx.index(0), numTiles, ctx.index(1),
                                  ValueRange());
  {
    OpBuilder::InsertionGuard guard(ctx.b);
    ctx.b.setInsertionPointToStart(forOp.getBody());
    Value blockQ = ctx.index(ctx.schedule.getBlockQ());
    ctx.queryTile = forOp.getInductionVar();
    ctx.row0 = ctx.mul(ctx.queryTile, blockQ);
    ctx.liveRows = ctx.min(blockQ, ctx.sub(ctx.sq, ctx.row0));
    body();
  }
  convertRowSums(ctx);
}

std::string mlir::attn::whyNoTurns(AggregateOp overKeys,
                                   AggregateOp overQueries) {
  for (AggregateOp op : {overKeys, overQueries}) {
    if (op.getMask().empty() || diesByElement(op))
      continue;
    ::attn::MaskAnalysis mask(op.getMask());
    if (!mask.facts().hullIsExact || !isAlwaysValid(op, mask))
      return "key tiles take turns by the bounds of a mask, which have to be "
             "exact and hold for all positions";
  }
  return "";
}

bool mlir::attn::diesByElement(AggregateOp op) {
  return !op.getMask().empty() && op.getDeadByElement();
}

/// What a mask's bounds say of the reduced rows' own walk over keys: those of
/// rows from `first` to `last`.
static KeyRanges rangesOverKeys(ReductionContext &ctx, Value first,
                                Value last) {
  Region &region = ctx.sumsOverKeys.getMask();
  ::attn::MaskAnalysis analysis(region);
  KeyRangeProblem problem;
  problem.numKeys = problem.limit = ctx.sq;
  problem.mask = &analysis;
  problem.uniform = [&](Value value) {
    return ctx.uniform(region, value, 0, ctx.sumsOverKeys.getCaptures());
  };
  problem.firstRow = first;
  problem.lastRow = last;
  return emitKeyRanges(ctx.b, ctx.loc, problem);
}

/// Whether a mask bounds the keys of rows: not where elements kill pairs.
static bool hasBounds(ReductionContext &ctx) {
  return !ctx.sumsOverKeys.getMask().empty() && !ctx.diesByElement;
}

static Value lastReduced(ReductionContext &ctx) {
  Value reduced = ctx.reduction.getKeyOperands().front();
  return ctx.sub(ctx.dim(ctx.arg(reduced), ctx.keySource.rowDim()),
                 ctx.index(1));
}

/// How many key tiles add to a tile of rows before the block's does, in the
/// order in which they are drawn. Bounds are exact on either side: those that
/// do follow one another, from the tile that has the first key of these rows to
/// the one that has the last.
static Value turnOf(ReductionContext &ctx, const KeyTile &tile) {
  bool fromLast = ctx.schedule.getOrder() == WorkOrder::longest_first;
  Value blockQ = ctx.index(ctx.schedule.getBlockQ());
  auto before = [&](Value first, Value end) -> Value {
    if (!fromLast)
      return ctx.sub(ctx.queryTile, ctx.divide(first, blockQ).first);
    Value last = ctx.divide(ctx.sub(end, ctx.index(1)), blockQ).first;
    return ctx.sub(last, ctx.queryTile);
  };
  if (!hasBounds(ctx))
    return before(ctx.index(0), ctx.sq);
  Value last = ctx.add(tile.first, ctx.index(ctx.schedule.getBlockK() - 1));
  KeyRanges ranges =
      rangesOverKeys(ctx, tile.first, ctx.min(last, lastReduced(ctx)));
  return before(ranges.lower, ranges.upper);
}

Value mlir::attn::queriesOfMiddle(OpBuilder &b, AggregateOp overQueries,
                                  Value numQueries, Value numKeys,
                                  const IRMapping &mapping) {
  Location loc = overQueries.getLoc();
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, loc, value);
  };
  Region &region = overQueries.getMask();
  ::attn::MaskAnalysis analysis(region);
  RegionCloner cloner(b);
  ValueRange captures = overQueries.getCaptures();
  for (auto [argument, capture] :
       llvm::zip(region.getArguments().take_back(captures.size()), captures))
    cloner.map(argument, mapping.lookup(capture));
  KeyRangeProblem problem;
  problem.numKeys = problem.limit = numQueries;
  problem.mask = &analysis;
  problem.uniform = [&](Value value) { return cloner.get(value); };
  int64_t tile = overQueries.getScheduleAttr().getBlockQ();
  Value first = arith::DivUIOp::create(b, loc, numKeys, index(2));
  Value last = arith::AddIOp::create(b, loc, first, index(tile - 1));
  problem.firstRow = first;
  problem.lastRow = arith::MinSIOp::create(
      b, loc, last, arith::SubIOp::create(b, loc, numKeys, index(1)));
  KeyRanges ranges = emitKeyRanges(b, loc, problem);
  // Where no query does, they end at 0.
  Value count = arith::SubIOp::create(b, loc, ranges.upper, ranges.lower);
  return arith::MaxSIOp::create(b, loc, count, index(0));
}

Value mlir::attn::finiteRows(ReductionContext &ctx, Value rows, Type element) {
  auto type = cast<tile::TileType>(rows.getType());
  auto finite = ctx.tileType(type.getRows(), type.getCols(), element);
  auto body = [&](Value, Value, ValueRange x) -> SmallVector<Value> {
    Value wide = x[0];
    if (!wide.getType().isF32())
      wide = arith::ExtFOp::create(ctx.b, ctx.b.getF32Type(), wide);
    Value isFinite = arith::CmpFOp::create(
        ctx.b, arith::CmpFPredicate::OLT, math::AbsFOp::create(ctx.b, wide),
        ctx.f32(std::numeric_limits<float>::infinity()));
    Value clean = ctx.select(isFinite, wide, ctx.f32(0.0f));
    if (element != ctx.b.getF32Type())
      clean = arith::TruncFOp::create(ctx.b, element, clean);
    return {clean};
  };
  return ctx.map(rows, {finite}, body).front();
}

void mlir::attn::startRowSums(ReductionContext &ctx,
                              SmallVectorImpl<Value> &state) {
  Type element = ctx.narrowValues ? ctx.narrowValues : ctx.b.getF32Type();
  ctx.rowSumTiles.clear();
  for (const RowSum &sum : ctx.rowSums) {
    ctx.rowSumWeights.insert(sum.weight);
    if (!sumsHaveOrder(ctx)) {
      ctx.rowSumTiles.push_back(ctx.queryTiles[sum.operand]);
      continue;
    }
    // A row that no weight meets must not reach a sum, not even times 0. Of
    // those that weights meet, what is not finite has made these NaN, so that 0
    // in its place changes nothing; or 0, where it made scores -inf.
    ctx.rowSumTiles.push_back(
        finiteRows(ctx, ctx.queryTiles[sum.operand], element));
  }
  // Weights of rows that do not exist are those of no key tile.
  if (sumsHaveOrder(ctx))
    appendNoWeights(ctx, state);
}

void mlir::attn::appendNoWeights(ReductionContext &ctx,
                                 SmallVectorImpl<Value> &state) {
  Type element = ctx.narrowValues ? ctx.narrowValues : ctx.b.getF32Type();
  for (size_t i = 0; i < ctx.rowSumWeights.size(); ++i) {
    Value none = arith::ConstantOp::create(ctx.b, ctx.b.getZeroAttr(element));
    state.push_back(ctx.fill(
        none, ctx.tileType(ctx.schedule.getBlockQ(), keyCols(ctx), element)));
  }
}

std::pair<Value, Value> mlir::attn::seenRows(ReductionContext &ctx) {
  Value end = ctx.add(ctx.row0, ctx.liveRows);
  if (!hasBounds(ctx))
    return {ctx.row0, end};
  KeyRanges seen = rangesOverKeys(ctx, ctx.index(0), lastReduced(ctx));
  // Where the region's integers wrap only the region knows which they are.
  return {ctx.select(seen.valid, seen.lower, ctx.row0),
          ctx.select(seen.valid, ctx.min(seen.upper, end), end)};
}

SmallVector<Value> mlir::attn::withoutWeights(ReductionContext &ctx,
                                              ValueRange state) {
  SmallVector<Value> next(state);
  for (Value &weights :
       MutableArrayRef(next).take_back(ctx.rowSumWeights.size())) {
    auto type = cast<tile::TileType>(weights.getType());
    Value none = arith::ConstantOp::create(
        ctx.b, ctx.b.getZeroAttr(type.getElementType()));
    weights = ctx.fill(none, type);
  }
  return next;
}

void mlir::attn::enterRowSums(ReductionContext &ctx, const KeyTile &tile,
                              ValueRange state) {
  ValueRange weights = state.take_back(ctx.rowSumWeights.size());
  for (auto [sum, rows] : llvm::zip(ctx.rowSums, ctx.rowSumTiles)) {
    size_t n =
        llvm::find(ctx.rowSumWeights, sum.weight) - ctx.rowSumWeights.begin();
    auto type = ctx.tileType(keyCols(ctx),
                             cast<tile::TileType>(rows.getType()).getCols());
    Value product =
        tile::DotOp::create(ctx.b, type, weights[n], rows,
                            /*acc=*/Value(), /*scale=*/Value(),
                            /*ramp=*/Value(), /*transpose_rhs=*/false, ctx.tf32,
                            /*transpose_lhs=*/true);
    // What is added in any order has rows for whole tiles.
    bool isBounded = sumsHaveOrder(ctx);
    SmallVector<Value> counter;
    if (sum.turns)
      counter = {
          ctx.batch, ctx.keyHead,
          ctx.divide(tile.first, ctx.index(RowSumsKernel::blockRows)).first};
    auto add = tile::AccumulateOp::create(
        ctx.b, product, sum.sums, ctx.fromFirst(ctx.keyHead, tile.first),
        isBounded ? ctx.index(0) : Value(), isBounded ? ctx.numKeys : Value(),
        sum.turns ? turnOf(ctx, tile) : Value(), sum.turns, counter,
        /*vector=*/false, /*any_order=*/!isBounded);
    if (!isBounded)
      add.setFragmentOrder(true);
  }
}

void RowSumsKernel::build(const RowSum &sum, bool clears, int64_t stepRows,
                          Value numTiles, Value block) {
  Value sums = sum.sums, result = clears ? Value() : sum.result;
  b.setInsertionPointToStart(&kernel.getBody().front());
  auto work = tile::WorkTileOp::create(b, loc, block, dim(sums, 0),
                                       dim(sums, 1), numTiles,
                                       /*parts=*/index(1));
  Value first = mul(work.getTile(), index(blockRows));
  SmallVector<Value> at = {work.getBatch(), work.getHead(), first, index(0)};
  auto type =
      tileType(blockRows, cast<MemRefType>(sums.getType()).getShape().back());
  if (result) {
    auto load = [&]() -> Value {
      auto rows = tile::LoadOp::create(b, loc, type, sums, at,
                                       /*lower=*/Value(), /*upper=*/Value(),
                                       /*live=*/Value(), /*vector=*/false);
      rows.setFragmentOrder(true);
      return rows;
    };
    Value rows;
    if (!sum.turns) {
      rows = load();
    } else {
      // Rows of a step share a counter.
      Value step = index(stepRows / blockRows);
      Value counter = mul(divide(work.getTile(), step).first, step);
      Value turn = memref::LoadOp::create(
          b, loc, sum.turns,
          ValueRange{work.getBatch(), work.getHead(), counter});
      Value isWritten = cmp(arith::CmpIPredicate::sgt, turn, i32(0));
      auto written = scf::IfOp::create(b, loc, TypeRange{type}, isWritten,
                                       /*withElseRegion=*/true);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(written.thenBlock());
      scf::YieldOp::create(b, loc, load());
      b.setInsertionPointToStart(written.elseBlock());
      scf::YieldOp::create(b, loc, fill(f32(0.0f), type));
      rows = written.getResult(0);
    }
    tile::StoreOp::create(b, loc, rows, result, at, index(0), dim(result, 2),
                          /*vector=*/false);
  } else if (sum.turns) {
    // The first tile of keys has the first turn.
    memref::StoreOp::create(
        b, loc, i32(0), sum.turns,
        ValueRange{work.getBatch(), work.getHead(), work.getTile()});
  } else {
    // There are rows for whole tiles.
    tile::StoreOp::create(b, loc, fill(f32(0.0f), type), sums, at,
                          /*lower=*/Value(), /*upper=*/Value(),
                          /*vector=*/false, /*transposed=*/false,
                          /*fragment_order=*/true);
  }
  tile::ReturnOp::create(b, loc);
}
