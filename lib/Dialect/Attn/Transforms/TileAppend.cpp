//===- TileAppend.cpp - The kernel that appends rows to caches ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block copies some rows of one batch and head, which lie one after the other
// in a plain cache. In pages of a GPU they do so in each part of a page that
// has as many rows as a block. In other pages, and in rings, each row is looked
// up by itself, so that a block has one. What has no room, or no page, is not
// written. Where sequences have numbers of rows of their own, a kernel before
// that adds these to the lengths: a sequence without rows has no block.
//
//===----------------------------------------------------------------------===//

#include "TileAppend.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

static int64_t getWidth(Value tensor) {
  return cast<ShapedType>(tensor.getType()).getShape().back();
}

int64_t AppendKernel::blockRows(AppendOp op, const ::attn::TargetInfo &target) {
  if (hasAlignedRows(op, target))
    return ::attn::MmaShape::warp().m;
  if (op.getBlockTable() || op.getRolling())
    return 1;
  return target.isCpu() ? 64 : ::attn::MmaShape::warp().m;
}

bool AppendKernel::hasAlignedRows(AppendOp op,
                                  const ::attn::TargetInfo &target) {
  return !target.isCpu() && op.getBlockTable() && !op.getOffsets() &&
         llvm::all_of(op.getCaches(), [](Value cache) {
           int64_t page = cast<ShapedType>(cache.getType()).getDimSize(2);
           return page > 0 && page % ::attn::MmaShape::warp().m == 0;
         });
}

int64_t AppendKernel::countSlices(AppendOp op,
                                  const ::attn::TargetInfo &target) {
  if (target.isCpu())
    return 1;
  int64_t widest = 1;
  for (Value rows : op.getRows())
    widest = std::max(widest, getWidth(rows));
  return llvm::divideCeil(widest, blockChannels);
}

/// Where row `position` of the sequence is in a cache, as (lead, row); a lead
/// below 0 is no page.
std::pair<Value, Value> AppendKernel::locate(AppendOp append, Value cache,
                                             Value position) {
  Value rows = max(dim(cache, 2), index(1));
  if (Value table = append.getBlockTable()) {
    auto [page, row] = divide(position, rows);
    // A table without pages has no entry to look at.
    Value last = sub(dim(arg(table), 1), index(1));
    auto entry =
        scf::IfOp::create(b, loc, TypeRange(b.getI32Type()),
                          cmp(arith::CmpIPredicate::sge, last, index(0)),
                          /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(entry.thenBlock());
    Value number = memref::LoadOp::create(b, loc, arg(table),
                                          ValueRange{batch, min(page, last)});
    scf::YieldOp::create(b, loc, number);
    b.setInsertionPointToStart(entry.elseBlock());
    scf::YieldOp::create(b, loc, i32(-1));
    b.setInsertionPointAfter(entry);
    return {toIndex(entry.getResult(0)), row};
  }
  if (!append.getRolling())
    return {batch, position};
  Value start = max(element(arg(append.getKStart()), batch), index(0));
  return {batch, divide(add(start, position), rows).second};
}

/// Rows that a sequence may have.
Value AppendKernel::countRoom() {
  auto append = cast<AppendOp>(op);
  Value room = dim(arg(append.getCaches().front()), 2);
  if (Value table = append.getBlockTable())
    room = mul(room, dim(arg(table), 1));
  return room;
}

/// Rows of the block's sequence before, how many are new, and where they end.
std::tuple<Value, Value, Value> AppendKernel::countRows() {
  auto append = cast<AppendOp>(op);
  Value first = arg(append.getRows().front());
  Value count = append.getOffsets()
                    ? tile::ExtentOp::create(b, loc, b.getIndexType(),
                                             openRows(first), batch)
                          .getResult()
                    : dim(first, 2);
  Value room = countRoom();
  Value length = element(arg(append.getLengths()), batch);
  length = min(max(length, index(0)), room);
  return {length, count, min(add(length, count), room)};
}

Value AppendKernel::openRows(Value rows) {
  Value offsets = cast<AppendOp>(op).getOffsets();
  if (!offsets)
    return rows;
  return openSource(rows, {SourceKind::varlen, arg(offsets), Value()},
                    /*rest=*/true, /*vector=*/false);
}

void AppendKernel::buildLengths(Value after, Value numTiles, Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  auto append = cast<AppendOp>(op);
  Value offsets = arg(append.getOffsets()), lengths = arg(append.getLengths());
  Value all = toI32(dim(arg(append.getRows().front()), 1)), none = i32(0);
  Value room = toI32(countRoom()), sequences = dim(lengths, 0);
  auto work = tile::WorkTileOp::create(b, loc, block, index(1), index(1),
                                       numTiles, /*parts=*/index(1));
  Value first = mul(work.getTile(), index(lengthsOfBlock));
  Value base = toI32(first), last = toI32(sub(sequences, index(1)));
  Value counts =
      map({}, tileType(lengthsOfBlock, 1, b.getI32Type()),
          [&](Value row, Value, ValueRange) -> SmallVector<Value> {
            Value sequence = min(add(base, row), last);
            auto load = [&](Value memory, Value i) -> Value {
              return memref::LoadOp::create(b, loc, memory,
                                            ValueRange(toIndex(i)));
            };
            Value start = min(max(load(offsets, sequence), none), all);
            Value end = load(offsets, add(sequence, i32(1)));
            Value count = sub(min(max(end, start), all), start);
            Value length = min(max(load(lengths, sequence), none), room);
            return {min(add(length, count), room)};
          })
          .front();
  tile::StoreOp::create(b, loc, counts, after, ValueRange(first), first,
                        sequences, /*vector=*/true);
  tile::ReturnOp::create(b, loc);
}

void AppendKernel::build(Value after, Value numTiles, Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  auto append = cast<AppendOp>(op);
  Value first = arg(append.getRows().front());
  int64_t slices = countSlices(append, target);
  Value offsets = append.getOffsets();
  Value heads = dim(first, offsets ? 0 : 1), all = dim(first, offsets ? 1 : 2);
  auto work = tile::WorkTileOp::create(
      b, loc, block, offsets ? Value() : dim(first, 0), heads, numTiles,
      /*parts=*/index(slices));
  if (offsets) {
    work.getOffsetsMutable().assign(arg(offsets));
    work.getRowsMutable().assign(all);
    work.setBlockQ(blockRows(append, target));
  }
  batch = work.getBatch();
  head = work.getHead();
  Block *body = b.getInsertionBlock();
  // Rows behind those of the last sequence are nobody's.
  if (offsets)
    b.setInsertionPointToStart(
        scf::IfOp::create(b, loc,
                          cmp(arith::CmpIPredicate::slt, batch,
                              dim(arg(append.getLengths()), 0)),
                          /*withElseRegion=*/false)
            .thenBlock());
  auto [length, count, end] = countRows();
  if (after) {
    Value isFirst =
        cmp(arith::CmpIPredicate::eq,
            add(add(head, work.getTile()), work.getPart()), index(0));
    auto branch = scf::IfOp::create(b, loc, isFirst);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    memref::StoreOp::create(b, loc, toI32(end), after, ValueRange{batch});
  }

  int64_t rows = blockRows(append, target);
  bool isLookedUp = append.getBlockTable() || append.getRolling();
  Value from = mul(work.getTile(), index(rows)), position, past;
  if (hasAlignedRows(append, target)) {
    // The first tile has what is left of the rows that it shares with those
    // before.
    Value start = sub(length, divide(length, index(rows)).second);
    start = add(start, from);
    position = max(start, length);
    past = max(min(add(start, index(rows)), end), position);
    from = sub(position, length);
  } else {
    position = add(length, from);
    past = add(position, index(rows));
  }
  Value channel = mul(work.getPart(), index(slices > 1 ? blockChannels : 0));
  for (auto [source, cached] :
       llvm::zip_equal(append.getRows(), append.getCaches())) {
    Value cache = arg(cached);
    auto [lead, row] = locate(append, cache, position);
    Value upper = end;
    if (isLookedUp) {
      Value exists = cmp(arith::CmpIPredicate::slt, position, end);
      Value isPage = arith::AndIOp::create(
          b, loc, cmp(arith::CmpIPredicate::sge, lead, index(0)),
          cmp(arith::CmpIPredicate::slt, lead, dim(cache, 0)));
      exists = arith::AndIOp::create(b, loc, exists, isPage);
      lead = select(isPage, lead, index(0));
      upper = select(exists, add(row, sub(past, position)), row);
    }
    // Exact copies: f32 holds every 16-bit number.
    int64_t width = getWidth(source);
    int64_t cols = target.isCpu() ? llvm::alignTo(width, 16) : blockChannels;
    Type type = target.isCpu()
                    ? cast<ShapedType>(source.getType()).getElementType()
                    : b.getF32Type();
    int64_t tileRows = target.isCpu() ? rows : ::attn::MmaShape::warp().m;
    Value tile = tile::LoadOp::create(
        b, loc, tileType(tileRows, cols, type), openRows(arg(source)),
        ValueRange{batch, head, from, channel}, from,
        min(count, sub(past, length)), /*live=*/Value(),
        /*vector=*/false);
    tile::StoreOp::create(b, loc, tile, cache,
                          ValueRange{lead, head, row, channel}, row, upper,
                          /*vector=*/false);
  }
  b.setInsertionPointToEnd(body);
  tile::ReturnOp::create(b, loc);
}
