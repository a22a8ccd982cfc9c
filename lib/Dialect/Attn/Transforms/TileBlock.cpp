//===- TileBlock.cpp - Head, rows and queries of a block -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileKernel.h"
#include "attn/Dialect/Attn/IR/AttributeNames.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

/// Heads of a section: as many as leave their keys and values in a cache, at
/// least those of one key head; null for one.
Value ReductionKernel::sectionOf(Value group) {
  if (schedule.getSection() <= 1)
    return {};
  Value most = index(schedule.getSection());
  if (!schedule.getSectionKeys() || hasOwnSizes)
    return most;
  Value keys = dim(arg(reduction.getKeyOperands().front()), 2);
  Value fit =
      divide(index(schedule.getSectionKeys()), max(keys, index(1))).first;
  return min(mul(max(fit, index(1)), group), most);
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
  if (listsKeyTiles(op, monoid, target))
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

void ReductionKernel::locateBlock(Value numTiles, Value block) {
  Value query = arg(reduction.getQueryOperands().front());
  Value key = arg(reduction.getKeyOperands().front());
  bool packed = !rowSource.hasBatch();
  Value numHeads = dim(query, rowSource.headDim());
  Value numKeyHeads = dim(key, keySource.headDim());
  Value group =
      max(divide(numHeads, max(numKeyHeads, index(1))).first, index(1));
  Value packedGroup = group;
  if (packsHeads) {
    numHeads = numKeyHeads;
    group = index(1);
  }
  if (auto partial = dyn_cast<PartialOp>(op)) {
    if (Value count = partial.getParts())
      parts = arg(count);
    else if (int64_t splits = *partial.getSplits(); splits > 1)
      parts = index(splits);
  }
  int64_t cluster = clusterOf(schedule, target);
  Value section = sectionOf(group), rows = packed ? dim(query, 1) : Value();
  int64_t slices = countSlices(reduction);
  auto work = tile::WorkTileOp::create(
      b, loc, block, packed ? Value() : dim(query, 0), numHeads,
      slices > 1 ? mul(numTiles, index(slices)) : numTiles,
      parts ? parts : index(1));
  work.setOrder(ordersByLists()
                    ? WorkOrder::in_order
                    : schedule.getOrder().value_or(WorkOrder::in_order));
  if (section)
    work.getSectionMutable().assign(section);
  if (cluster > 1)
    work.setCluster(cluster);
  if (packed) {
    work.getOffsetsMutable().assign(rowSource.map);
    work.getRowsMutable().assign(rows);
    work.setBlockQ(schedule.getBlockQ());
  }
  batch = work.getBatch();
  head = work.getHead();
  queryTile = work.getTile();
  if (ordersByLists()) {
    SmallVector<Value> place = listIndices();
    place.push_back(index(KeyLists::nthLongest));
    queryTile = toIndex(memref::LoadOp::create(b, loc, lists.tiles, place));
  }
  if (slices > 1) {
    // Neighbours, which read the same keys.
    auto [tile, slice] = divide(queryTile, index(slices));
    queryTile = tile;
    sliceChannels = schedule.getBlockV();
    firstChannel = mul(slice, index(sliceChannels));
  }
  if (parts)
    split = work.getPart();
  // What captures have of the rows behind the last sequence is not looked at.
  Value sequences = packed ? dim(rowSource.map, 0) : Value();
  batchI32 = toI32(packed ? min(batch, max(sub(sequences, index(2)), index(0)))
                          : batch);
  headI32 = toI32(head);

  keyHead = divide(head, group).first;

  findExtents();

  if (packsHeads)
    return locatePacked(packedGroup);
  Value blockQ = index(schedule.getBlockQ());
  // Which tile takes the rows that do not fill one: where the last rows have
  // the most keys, and rows and keys of tiles do not end together anyway, it
  // is the first. Lists of key tiles are made for tiles from the first row on.
  bool shortFirst = !reduction.getMaskBody().empty() && isGpu() && !packed &&
                    !lists.tiles &&
                    schedule.getBlockQ() % schedule.getBlockK() != 0;
  if (shortFirst) {
    Value end = sub(sq, mul(sub(sub(numTiles, index(1)), queryTile), blockQ));
    row0 = max(sub(end, blockQ), index(0));
    liveRows = sub(end, row0);
  } else {
    row0 = mul(queryTile, blockQ);
    liveRows = min(blockQ, sub(sq, row0));
  }
  // A short sequence has no rows in the last tiles of the grid, and a head
  // none in those that fill up a cluster.
  if (packed || cluster > 1 || rowSource.lengths)
    liveRows = max(liveRows, index(0));
}

void ReductionKernel::findExtents() {
  Value query = arg(reduction.getQueryOperands().front());
  Value key = arg(reduction.getKeyOperands().front());
  // Rows behind the last sequence are one more, without keys.
  keysRest = !rowSource.hasBatch() && !keySource.is(SourceKind::varlen);
  auto extent = [&](Value tensor, const Source &source, Value opened) -> Value {
    if (opened == tensor)
      return dim(tensor, source.rowDim());
    return tile::ExtentOp::create(b, loc, b.getIndexType(), opened, batch);
  };
  sq = extent(query, rowSource,
              openSource(query, rowSource, rowsRest(), /*vector=*/false));
  numKeys =
      extent(key, keySource, openKeys(reduction.getKeyOperands().front()));
  for (ValueRange tensors :
       {reduction.getKeyOperands(), reduction.getValueOperands()})
    for (Value tensor : tensors)
      openKeys(tensor);
  openMultiplied(reduction.getKeyOperands().front());
}

void ReductionKernel::locatePacked(Value group) {
  Value blockQ = index(schedule.getBlockQ());
  row0 = mul(queryTile, blockQ);
  liveRows = min(blockQ, sub(mul(group, sq), row0));
  Value first = toI32(row0), groupI32 = toI32(group);
  Value rows = max(toI32(sq), i32(1)), most = i32((1 << packedShift) - 1);
  Value heads = arith::DivUIOp::create(b, loc, first, rows);
  firstPacked.rows = rows;
  firstPacked.position = sub(first, mul(heads, rows));
  firstPacked.head = add(mul(toI32(keyHead), groupI32), heads);
  firstPacked.lastHead =
      sub(mul(toI32(add(keyHead, index(1))), groupI32), i32(1));
  firstPacked.reciprocal =
      arith::DivUIOp::create(b, loc, add(rows, most), rows);
}

/// Rows of packed heads are fewer than a tile has: all positions are in it.
std::pair<Value, Value> ReductionKernel::tilePositions() {
  if (packsHeads)
    return {index(0), sub(sq, index(1))};
  return {row0, sub(add(row0, liveRows), index(1))};
}

Value ReductionKernel::scaledQuery(Value element) {
  if (!element.getType().isF32())
    element = arith::ExtFOp::create(b, loc, b.getF32Type(), element);
  if (!form.queryFactor)
    return element;
  return arith::MulFOp::create(b, loc, element, form.queryFactor);
}

void ReductionKernel::loadQueries() {
  if (turnsRows()) {
    queryTiles = turnQueries();
    return;
  }
  for (auto [i, tensor] : llvm::enumerate(reduction.getQueryOperands())) {
    Type type = narrowDots ? narrowDots : b.getF32Type();
    auto tile = tileType(schedule.getBlockQ(), paddedDepth(tensor), type);
    Value query = packsHeads      ? packedQueries[i]
                  : turnedQueries ? turnedQueries
                                  : arg(tensor);
    Value lower = row0, upper = add(row0, liveRows);
    if (!sumsHaveOrder() && llvm::any_of(rowSums, [&](const RowSum &sum) {
          return sum.operand == i;
        }))
      std::tie(lower, upper) = seenRows();
    Value loaded = tile::LoadOp::create(
        b, loc, tile,
        openSource(query, rowSource, rowsRest(), /*vector=*/false),
        fromFirst(head, row0), lower, upper,
        /*live=*/Value(), /*vector=*/false);
    if (form.queryFactor)
      loaded = map(loaded, tile, [&](Value, Value, ValueRange x) {
                 Value scaled = scaledQuery(x[0]);
                 if (narrowDots)
                   scaled = arith::TruncFOp::create(b, loc, type, scaled);
                 return SmallVector<Value>{scaled};
               }).front();
    queryTiles.push_back(loaded);
  }
}
