//===- TileBlock.cpp - Head, rows and queries of a block -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileKernel.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

void ReductionKernel::locateBlock(Value numTiles, Value block) {
  Value query = arg(reduction.getQueryOperands().front());
  Value key = arg(reduction.getKeyOperands().front());
  bool packed = !rowSource.hasBatch();
  Value numHeads = dim(query, rowSource.headDim());
  Value numKeyHeads = dim(key, keySource.headDim());

  auto split2 = [&](Value value, Value size) -> std::pair<Value, Value> {
    if (!isGpu())
      return {arith::DivUIOp::create(b, loc, value, size),
              arith::RemUIOp::create(b, loc, value, size)};
    // A grid has fewer than 2^31 blocks, and a GPU divides 64 bits slowly.
    auto asIndex = [&](Value x) -> Value {
      return arith::IndexCastOp::create(b, loc, b.getIndexType(), x);
    };
    Value x = toI32(value), n = toI32(size);
    return {asIndex(arith::DivUIOp::create(b, loc, x, n)),
            asIndex(arith::RemUIOp::create(b, loc, x, n))};
  };
  Value group =
      max(split2(numHeads, max(numKeyHeads, index(1))).first, index(1));
  Value packedGroup = group;
  if (packsHeads) {
    numHeads = numKeyHeads;
    group = index(1);
  }
  Value rest = block, tileIndex;
  if (splits > 1)
    std::tie(rest, split) = split2(rest, index(splits));
  // Blocks side by side take neighbouring tiles of one head: what they derive
  // from the number of their cluster, the quotient, is the same for them.
  int64_t cluster = clusterOf(schedule, target);
  Value inCluster, groups = numTiles;
  if (cluster > 1) {
    std::tie(rest, inCluster) = split2(rest, index(cluster));
    groups = split2(numTiles, index(cluster)).first;
  }
  if (target.headsAbreast > 1) {
    // Heads in sections that advance together: the long tiles of all of them
    // come before the short ones, and their keys stay in the last-level cache.
    Value batches = packed ? index(1) : dim(query, 0);
    Value abreast = index(target.headsAbreast), section, first;
    if (!hasOwnSizes) {
      // As many as leave their keys and values there; at least those of one
      // key head.
      Value fit = split2(index(target.gpuL2Bytes / keyRowBytes()),
                         max(dim(key, 2), index(1)))
                      .first;
      abreast = min(mul(max(fit, index(1)), group), abreast);
    }
    std::tie(section, rest) = split2(rest, mul(groups, abreast));
    first = mul(section, abreast);
    Value width = min(abreast, sub(mul(batches, numHeads), first)), within;
    std::tie(tileIndex, within) = split2(rest, width);
    rest = add(first, within);
  } else {
    std::tie(rest, tileIndex) = split2(rest, groups);
  }
  if (inCluster)
    tileIndex = add(mul(tileIndex, index(cluster)), inCluster);
  std::tie(batch, head) = split2(rest, numHeads);
  Value found;
  if (packed)
    std::tie(batch, found) = findSequence(tileIndex);
  // Masks are mostly causal: the last rows have the most keys, so they start
  // first and the short tiles fill the end.
  bool lastFirst = !reduction.getMaskBody().empty();
  if (lastFirst && !found)
    tileIndex = sub(sub(numTiles, index(1)), tileIndex);
  // What captures have of the rows behind the last sequence is not looked at.
  Value sequences = packed ? dim(rowSource.map, 0) : Value();
  batchI32 = toI32(packed ? min(batch, max(sub(sequences, index(2)), index(0)))
                          : batch);
  headI32 = toI32(head);

  keyHead = split2(head, group).first;

  findExtents();

  Value blockQ = index(schedule.getBlockQ()), tiles = numTiles;
  if (found) {
    tileIndex = found;
    tiles = arith::CeilDivUIOp::create(b, loc, sq, blockQ);
    if (lastFirst)
      tileIndex = select(cmp(arith::CmpIPredicate::slt, found, tiles),
                         sub(sub(tiles, index(1)), found), found);
  }
  queryTile = tileIndex;
  if (packsHeads)
    return locatePacked(packedGroup);
  // Which tile takes the rows that do not fill one: where the last rows have
  // the most keys, and rows and keys of tiles do not end together anyway, it
  // is the first. Lists of key tiles are made for tiles from the first row on.
  bool shortFirst = lastFirst && isGpu() && !packed && !lists.tiles &&
                    schedule.getBlockQ() % schedule.getBlockK() != 0;
  if (shortFirst) {
    Value end = sub(sq, mul(sub(sub(tiles, index(1)), tileIndex), blockQ));
    row0 = max(sub(end, blockQ), index(0));
    liveRows = sub(end, row0);
  } else {
    row0 = mul(tileIndex, blockQ);
    liveRows = min(blockQ, sub(sq, row0));
  }
  // A short sequence has no rows in the last tiles of the grid, and a head
  // none in those that fill up a cluster.
  if (packed || cluster > 1)
    liveRows = max(liveRows, index(0));
  if (found && isGpu())
    tile::SkipOp::create(b, loc,
                         cmp(arith::CmpIPredicate::sle, liveRows, index(0)));
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
              openSource(query, rowSource, /*rest=*/true, /*vector=*/false));
  numKeys =
      extent(key, keySource, openKeys(reduction.getKeyOperands().front()));
  for (ValueRange tensors :
       {reduction.getKeyOperands(), reduction.getValueOperands()})
    for (Value tensor : tensors)
      openKeys(tensor);
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

/// The sequence of packed tensors that tile t of a grid belongs to, and the
/// number of the tile in it. The tiles of sequence i, which starts at row c,
/// are those from c / block_q + i on: enough for any length, at most one too
/// many, and nothing needs to be summed up to find them. The rows behind the
/// last sequence count as one.
std::pair<Value, Value> ReductionKernel::findSequence(Value tileIndex) {
  Value offsets = rowSource.map;
  Value t = toI32(tileIndex), zero = i32(0), one = i32(1);
  Value count = max(toI32(dim(offsets, 0)), one);
  auto start = [&](Value i) {
    Value row = memref::LoadOp::create(b, loc, offsets, ValueRange(toIndex(i)));
    return add(arith::DivUIOp::create(b, loc, max(row, zero),
                                      i32(schedule.getBlockQ())),
               i);
  };
  // The last one that starts at t or before, bit by bit.
  Value bits = sub(i32(32), math::CountLeadingZerosOp::create(b, loc, count));
  auto loop = scf::ForOp::create(b, loc, index(0), toIndex(bits), index(1),
                                 ValueRange(zero));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value least = loop.getRegionIterArgs().front();
    Value shift = sub(sub(bits, one), toI32(loop.getInductionVar()));
    Value probe = add(least, arith::ShLIOp::create(b, loc, one, shift));
    Value inside = cmp(arith::CmpIPredicate::slt, probe, count);
    Value at = start(min(probe, sub(count, one)));
    Value reached = arith::AndIOp::create(
        b, loc, inside, cmp(arith::CmpIPredicate::sle, at, t));
    scf::YieldOp::create(b, loc, select(reached, probe, least));
  }
  Value sequence = loop.getResult(0);
  return {toIndex(sequence), toIndex(max(sub(t, start(sequence)), zero))};
}

void ReductionKernel::loadQueries() {
  for (auto [i, tensor] : llvm::enumerate(reduction.getQueryOperands())) {
    Type type = narrowDots ? narrowDots : b.getF32Type();
    auto tile = tileType(schedule.getBlockQ(), paddedDepth(tensor), type);
    Value query = packsHeads ? packedQueries[i] : arg(tensor);
    Value loaded = tile::LoadOp::create(
        b, loc, tile,
        openSource(query, rowSource, /*rest=*/true, /*vector=*/false),
        at(head, row0, /*channel=*/true), row0, add(row0, liveRows),
        /*live=*/Value(), /*vector=*/false);
    if (form.queryFactor)
      loaded = map(loaded, tile, [&](Value, Value, ValueRange x) {
                 Value wide = x[0];
                 if (narrowDots)
                   wide = arith::ExtFOp::create(b, loc, b.getF32Type(), wide);
                 wide = arith::MulFOp::create(b, loc, wide, form.queryFactor);
                 if (narrowDots)
                   wide = arith::TruncFOp::create(b, loc, type, wide);
                 return SmallVector<Value>{wide};
               }).front();
    queryTiles.push_back(loaded);
  }
}
