//===- TileBlock.cpp - Head, rows and queries of a block -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileBlock.h"
#include "KeyLists.h"
#include "TileFused.h"
#include "TileLists.h"
#include "TileRotary.h"
#include "attn/Analysis/Schedule.h"
#include "attn/Dialect/Attn/IR/AttributeNames.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

Value mlir::attn::findSection(OpBuilder &b, Location loc, ScheduleAttr schedule,
                              SectionSizes sizes,
                              function_ref<Value(Value, Value)> divide) {
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, loc, value);
  };
  auto min = [&](Value x, Value y) -> Value {
    return arith::MinSIOp::create(b, loc, x, y);
  };
  auto max = [&](Value x, Value y) -> Value {
    return arith::MaxSIOp::create(b, loc, x, y);
  };
  Value most = index(schedule.getSection());
  int64_t room = schedule.getSectionKeys();
  if (!room)
    return most;
  Value one = index(1), keys = max(sizes.keys, one);
  Value fit = divide(index(room), keys);
  bool isUneven = schedule.getOrder() == WorkOrder::longest_first;
  if (isUneven)
    fit = max(divide(index(::attn::keysOfUneven(room)), keys),
              min(fit, index(::attn::someHeads)));
  Value section =
      min(arith::MulIOp::create(b, loc, max(fit, one), sizes.group), most);
  if (!isUneven || !sizes.heads)
    return section;
  auto ceilDivide = [&](Value x, Value y) -> Value {
    Value sum = arith::AddIOp::create(b, loc, x, y);
    return divide(arith::SubIOp::create(b, loc, sum, one), y);
  };
  Value heads = max(sizes.heads, one);
  return ceilDivide(heads, ceilDivide(heads, section));
}

/// Heads of a section; null for one.
static Value sectionOf(ReductionContext &ctx, Value group, Value batches,
                       Value numHeads) {
  if (ctx.section || ctx.schedule.getSection() <= 1)
    return ctx.section;
  if (ctx.hasOwnSizes)
    return ctx.index(ctx.schedule.getSection());
  Value key = ctx.arg(ctx.reduction.getKeyOperands().front());
  SectionSizes sizes = {ctx.dim(key, 2), group,
                        batches ? ctx.mul(batches, numHeads) : Value()};
  return findSection(ctx.b, ctx.loc, ctx.schedule, sizes,
                     [&](Value x, Value y) { return ctx.divide(x, y).first; });
}

/// The query tile that the lists say comes in the place of the block's: of all
/// heads, or of those of the last section, where the block's are counted from
/// the last one on. Nothing is read where they say nothing else: what the lists
/// have of the tile is read behind it.
static Value takeListed(ReductionContext &ctx, ListedOrder listed,
                        Value numTiles, Value batches, Value numHeads,
                        Value section) {
  Value own = ctx.queryTile;
  bool ofAll = listed == ListedOrder::allHeads;
  Value mirrored = ctx.sub(ctx.sub(numTiles, ctx.index(1)), own);
  Value work = ctx.mul(ctx.mul(batches, numHeads), numTiles);
  Value key = ctx.arg(ctx.reduction.getKeyOperands().front());
  Value isSaid = findsOrder(ctx.b, ctx.loc, ctx.reduction, work,
                            ctx.dim(key, 2), ctx.target);
  if (!ofAll) {
    Value left = ctx.sub(ctx.mul(batches, numHeads),
                         ctx.add(ctx.mul(ctx.batch, numHeads), ctx.head));
    Value isLast = ctx.cmp(arith::CmpIPredicate::sle, left,
                           section ? section : ctx.index(1));
    isSaid = arith::AndIOp::create(ctx.b, isSaid, isLast);
    ctx.queryTile = mirrored;
  }
  SmallVector<Value> place = listIndices(ctx);
  place.push_back(ctx.index(KeyLists::nthLongest));
  auto branch = scf::IfOp::create(ctx.b, ctx.b.getIndexType(), isSaid,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(ctx.b);
  ctx.b.setInsertionPointToStart(branch.thenBlock());
  Value found =
      ctx.toIndex(memref::LoadOp::create(ctx.b, ctx.lists.tiles, place));
  scf::YieldOp::create(ctx.b, found);
  ctx.b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(ctx.b, ofAll ? mirrored : own);
  return branch.getResult(0);
}

std::string mlir::attn::whyNotSliced(ReductionOpInterface op, MonoidOp monoid,
                                     int64_t channels,
                                     const ::attn::TargetInfo &target) {
  if (target.isCpu())
    return "a CPU";
  if (monoid.isGeneral())
    return "a general monoid";
  if (!op.getQuerySource().hasBatch())
    return "packed sequences";
  if (!op.getInitBody().empty())
    return "a left factor";
  if (mayKillByScore(op, monoid))
    return "scores that may be -inf";
  if (whyNotListed(op, monoid, target).empty())
    return "key tiles that a kernel before lists";
  if (op.getValueOperands().empty())
    return "no values";
  for (Value value : op.getValueOperands())
    if (int64_t size = cast<ShapedType>(value.getType()).getShape().back();
        size % channels)
      return "values of " + std::to_string(size) + " channels";
  return "";
}

int64_t mlir::attn::countSlices(ReductionOpInterface op) {
  ScheduleAttr schedule = op.getScheduleAttribute();
  if (!schedule || !schedule.getBlockV())
    return 1;
  int64_t most = 1;
  for (Value value : op.getValueOperands())
    most = std::max(most, cast<ShapedType>(value.getType()).getShape().back());
  return llvm::divideCeil(most, schedule.getBlockV());
}

Value mlir::attn::keysWithColumns(ReductionOpInterface op, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto function = op->getParentOfType<func::FuncOp>();
  if (!argument || !function || argument.getOwner() != &function.front())
    return value;
  auto number = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(),
                                                       getColumnsOfName());
  if (!number || number.getInt() < 0 ||
      number.getInt() >= function.getNumArguments())
    return value;
  Value keys = function.getArgument(number.getInt());
  auto type = cast<RankedTensorType>(value.getType());
  auto whole = dyn_cast<RankedTensorType>(keys.getType());
  bool isWithin = whole && llvm::is_contained(op.getKeyOperands(), keys) &&
                  whole.getElementType() == type.getElementType() &&
                  whole.getShape().drop_back() == type.getShape().drop_back() &&
                  type.getShape().back() <= whole.getShape().back();
  return isWithin ? keys : value;
}

Value mlir::attn::openKeys(ReductionContext &ctx, Value tensor) {
  return ctx.openSource(ctx.arg(tensor), ctx.keySource, ctx.keysRest,
                        /*vector=*/false, tilesFitPages(ctx.reduction),
                        isGpu(ctx) ? boxesOf(ctx.reduction) : 0);
}

Value mlir::attn::openMultiplied(ReductionContext &ctx, Value tensor) {
  if (!ctx.turnedKeys)
    return openKeys(ctx, tensor);
  if (!ctx.keySource.hasBatch() && !ctx.keySource.is(SourceKind::paged))
    return ctx.openSource(ctx.turnedKeys, ctx.keySource, ctx.keysRest,
                          /*vector=*/false);
  return ctx.turnedKeys;
}

SequenceRows::SequenceRows(KernelBuilder &k, Value memory)
    : k(k), memory(memory) {
  if (arePacked())
    all = k.dim(memory, k.rowSource.rowDim());
}

Value SequenceRows::getBatches() const {
  if (arePacked())
    return {};
  bool isPaged = k.rowSource.is(SourceKind::paged);
  return k.dim(isPaged ? k.rowSource.map : memory, 0);
}

void SequenceRows::describe(tile::WorkTileOp work, int64_t blockRows) const {
  if (!arePacked())
    return;
  work.getOffsetsMutable().assign(k.rowSource.map);
  work.getRowsMutable().assign(all);
  work.setBlockQ(blockRows);
}

Value SequenceRows::batchOfCaptures() const {
  if (!arePacked())
    return k.toI32(k.batch);
  Value sequences = k.dim(k.rowSource.map, 0);
  Value last = k.max(k.sub(sequences, k.index(2)), k.index(0));
  return k.toI32(k.min(k.batch, last));
}

void mlir::attn::locateBlock(ReductionContext &ctx, Value numTiles,
                             Value block) {
  Value query = ctx.arg(ctx.reduction.getQueryOperands().front());
  Value key = ctx.arg(ctx.reduction.getKeyOperands().front());
  Value numHeads = ctx.dim(query, ctx.rowSource.headDim());
  Value numKeyHeads = ctx.dim(key, ctx.keySource.headDim());
  Value group =
      ctx.max(ctx.divide(numHeads, ctx.max(numKeyHeads, ctx.index(1))).first,
              ctx.index(1));
  Value packedGroup = group;
  if (ctx.packsHeads) {
    numHeads = numKeyHeads;
    group = ctx.index(1);
  }
  if (auto partial = dyn_cast<PartialOp>(ctx.op)) {
    if (Value count = partial.getParts())
      ctx.parts = ctx.arg(count);
    else if (int64_t splits = *partial.getSplits(); splits > 1)
      ctx.parts = ctx.index(splits);
  }
  int64_t blocks = partsOfCluster(ctx.schedule, ctx.target);
  if (blocks > 1)
    ctx.parts = ctx.index(blocks);
  int64_t cluster = tilesOfCluster(ctx.schedule, ctx.target);
  SequenceRows rows(ctx, query);
  Value section = sectionOf(ctx, group, rows.getBatches(), numHeads);
  int64_t slices = countSlices(ctx.reduction);
  auto work = tile::WorkTileOp::create(
      ctx.b, block, rows.getBatches(), numHeads,
      slices > 1 ? ctx.mul(numTiles, ctx.index(slices)) : numTiles,
      ctx.parts ? ctx.parts : ctx.index(1));
  WorkOrder order = ctx.schedule.getOrder().value_or(WorkOrder::in_order);
  ListedOrder listed = ctx.lists.tiles && order == WorkOrder::longest_first
                           ? listsSayOrder(ctx.reduction)
                           : ListedOrder::none;
  work.setOrder(listed == ListedOrder::allHeads ? WorkOrder::in_order : order);
  if (section)
    work.getSectionMutable().assign(section);
  if (cluster > 1 || blocks > 1)
    work.setCluster(cluster * blocks);
  work.setByParts(blocks > 1);
  rows.describe(work, ctx.schedule.getBlockQ());
  // States of rows that are not there are nobody's.
  if (ctx.isPartial && ctx.rowSource.lengths && !rows.arePacked() &&
      cluster == 1 && slices == 1 && !ctx.packsHeads &&
      ctx.reduction.getMaskBody().empty()) {
    work.getCountsMutable().assign(ctx.rowSource.lengths);
    work.setBlockQ(ctx.schedule.getBlockQ());
  }
  ctx.batch = work.getBatch();
  ctx.head = work.getHead();
  ctx.queryTile = work.getTile();
  if (listed != ListedOrder::none)
    ctx.queryTile =
        takeListed(ctx, listed, numTiles, rows.getBatches(), numHeads, section);
  if (slices > 1) {
    // Neighbours, which read the same keys.
    auto [tile, slice] = ctx.divide(ctx.queryTile, ctx.index(slices));
    ctx.queryTile = tile;
    ctx.sliceChannels = ctx.schedule.getBlockV();
    ctx.firstChannel = ctx.mul(slice, ctx.index(ctx.sliceChannels));
  }
  if (ctx.parts)
    ctx.split = work.getPart();
  ctx.batchI32 = rows.batchOfCaptures();
  ctx.headI32 = ctx.toI32(ctx.head);

  ctx.keyHead = ctx.divide(ctx.head, group).first;

  findExtents(ctx);

  if (ctx.packsHeads)
    return locatePacked(ctx, packedGroup);
  Value blockQ = ctx.index(ctx.schedule.getBlockQ());
  // Which tile takes the rows that do not fill one: where the last rows have
  // the most keys, and rows and keys of tiles do not end together anyway, it
  // is the first. Lists of key tiles are made for tiles from the first row on.
  bool shortFirst = !ctx.reduction.getMaskBody().empty() && isGpu(ctx) &&
                    !rows.arePacked() && !ctx.lists.tiles &&
                    ctx.schedule.getBlockQ() % ctx.schedule.getBlockK() != 0;
  if (shortFirst) {
    Value end = ctx.sub(
        ctx.sq, ctx.mul(ctx.sub(ctx.sub(numTiles, ctx.index(1)), ctx.queryTile),
                        blockQ));
    ctx.row0 = ctx.max(ctx.sub(end, blockQ), ctx.index(0));
    ctx.liveRows = ctx.sub(end, ctx.row0);
  } else {
    ctx.row0 = ctx.mul(ctx.queryTile, blockQ);
    ctx.liveRows = ctx.min(blockQ, ctx.sub(ctx.sq, ctx.row0));
  }
  // A short sequence has no rows in the last tiles of the grid, and a head
  // none in those that fill up a cluster.
  if (rows.arePacked() || cluster > 1 || ctx.rowSource.lengths)
    ctx.liveRows = ctx.max(ctx.liveRows, ctx.index(0));
}

void mlir::attn::findExtents(ReductionContext &ctx) {
  Value query = ctx.arg(ctx.reduction.getQueryOperands().front());
  Value key = ctx.arg(ctx.reduction.getKeyOperands().front());
  // Rows behind the last sequence are one more, without keys.
  ctx.keysRest =
      !ctx.rowSource.hasBatch() && !ctx.keySource.is(SourceKind::varlen);
  auto extent = [&](Value tensor, const Source &source, Value opened) -> Value {
    if (opened == tensor)
      return ctx.dim(tensor, source.rowDim());
    return tile::ExtentOp::create(ctx.b, ctx.b.getIndexType(), opened,
                                  ctx.batch);
  };
  ctx.sq = extent(
      query, ctx.rowSource,
      ctx.openSource(query, ctx.rowSource, ctx.rowsRest(), /*vector=*/false));
  ctx.numKeys = extent(key, ctx.keySource,
                       openKeys(ctx, ctx.reduction.getKeyOperands().front()));
  for (ValueRange tensors :
       {ctx.reduction.getKeyOperands(), ctx.reduction.getValueOperands()})
    for (Value tensor : tensors)
      openKeys(ctx, tensor);
  openMultiplied(ctx, ctx.reduction.getKeyOperands().front());
}

void mlir::attn::locatePacked(ReductionContext &ctx, Value group) {
  Value blockQ = ctx.index(ctx.schedule.getBlockQ());
  ctx.row0 = ctx.mul(ctx.queryTile, blockQ);
  ctx.liveRows = ctx.min(blockQ, ctx.sub(ctx.mul(group, ctx.sq), ctx.row0));
  Value first = ctx.toI32(ctx.row0), groupI32 = ctx.toI32(group);
  Value rows = ctx.max(ctx.toI32(ctx.sq), ctx.i32(1)),
        most = ctx.i32((1 << KernelBuilder::packedShift) - 1);
  Value heads = arith::DivUIOp::create(ctx.b, first, rows);
  ctx.firstPacked.rows = rows;
  ctx.firstPacked.position = ctx.sub(first, ctx.mul(heads, rows));
  ctx.firstPacked.head =
      ctx.add(ctx.mul(ctx.toI32(ctx.keyHead), groupI32), heads);
  ctx.firstPacked.lastHead =
      ctx.sub(ctx.mul(ctx.toI32(ctx.add(ctx.keyHead, ctx.index(1))), groupI32),
              ctx.i32(1));
  ctx.firstPacked.reciprocal =
      arith::DivUIOp::create(ctx.b, ctx.add(rows, most), rows);
}

/// Rows of packed heads are fewer than a tile has: all positions are in it.
std::pair<Value, Value> mlir::attn::tilePositions(ReductionContext &ctx) {
  if (ctx.packsHeads)
    return {ctx.index(0), ctx.sub(ctx.sq, ctx.index(1))};
  return {ctx.row0, ctx.sub(ctx.add(ctx.row0, ctx.liveRows), ctx.index(1))};
}

Value mlir::attn::scaledQuery(ReductionContext &ctx, Value element) {
  if (!element.getType().isF32())
    element = arith::ExtFOp::create(ctx.b, ctx.b.getF32Type(), element);
  if (!ctx.form.queryFactor)
    return element;
  return arith::MulFOp::create(ctx.b, element, ctx.form.queryFactor);
}

void mlir::attn::loadQueries(ReductionContext &ctx) {
  if (turnsRows(ctx)) {
    ctx.queryTiles = turnQueries(ctx);
    return;
  }
  for (auto [i, tensor] : llvm::enumerate(ctx.reduction.getQueryOperands())) {
    Type type = ctx.narrowDots ? ctx.narrowDots : ctx.b.getF32Type();
    auto tile =
        ctx.tileType(ctx.schedule.getBlockQ(), paddedDepth(ctx, tensor), type);
    Value query = ctx.packsHeads      ? ctx.packedQueries[i]
                  : ctx.turnedQueries ? ctx.turnedQueries
                                      : ctx.arg(tensor);
    Value lower = ctx.row0, upper = ctx.add(ctx.row0, ctx.liveRows);
    if (!sumsHaveOrder(ctx) &&
        llvm::any_of(ctx.rowSums,
                     [i = i](const RowSum &sum) { return sum.operand == i; }))
      std::tie(lower, upper) = seenRows(ctx);
    Value loaded = tile::LoadOp::create(
        ctx.b, tile,
        ctx.openSource(query, ctx.rowSource, ctx.rowsRest(), /*vector=*/false),
        ctx.fromFirst(ctx.head, ctx.row0), lower, upper,
        /*live=*/Value(), /*vector=*/false);
    if (ctx.form.queryFactor)
      loaded = ctx.map(loaded, tile,
                       [&](Value, Value, ValueRange x) {
                         Value scaled = scaledQuery(ctx, x[0]);
                         if (ctx.narrowDots)
                           scaled =
                               arith::TruncFOp::create(ctx.b, type, scaled);
                         return SmallVector<Value>{scaled};
                       })
                   .front();
    if (ctx.diesByElement)
      loaded = finiteRows(ctx, loaded, type);
    ctx.queryTiles.push_back(loaded);
  }
}
