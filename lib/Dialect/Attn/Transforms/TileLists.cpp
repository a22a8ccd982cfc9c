//===- TileLists.cpp - Key tiles that a kernel before has listed ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A mask that reads memory has live tiles anywhere, which kernels before this
// one have found (KeyLists.cpp). The reduction visits the tiles of its list:
//
//   whole   every element is live: no test at all
//   masked  elements are tested, and the values of keys that are dead in every
//           row are cleared, unless rows that these spoil are done again
//           (TileFarRows.cpp); which these are the list says, so that the parts
//           of a block need not exchange what each has found.
//
//===----------------------------------------------------------------------===//

#include "TileLists.h"
#include "TileElements.h"
#include "TileStream.h"
#include "attn/Analysis/TileLayout.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::attn;

SmallVector<Value> mlir::attn::listIndices(ReductionContext &ctx) {
  return {listsDifferByBatch(ctx.reduction) ? ctx.batch : ctx.index(0),
          listsDifferByHead(ctx.reduction) ? ctx.head : ctx.index(0),
          ctx.queryTile};
}

Value mlir::attn::listPlace(ReductionContext &ctx, Value tiles, Value number,
                            bool whole) {
  if (whole)
    return ctx.add(number, ctx.index(KeyLists::header));
  return ctx.sub(ctx.sub(ctx.dim(tiles, 3), ctx.index(1)), number);
}

Value mlir::attn::loadListed(ReductionContext &ctx, Value number,
                             Value isWhole) {
  SmallVector<Value> at = listIndices(ctx);
  at.push_back(ctx.select(
      isWhole, listPlace(ctx, ctx.lists.tiles, number, /*whole=*/true),
      listPlace(ctx, ctx.lists.tiles, number, /*whole=*/false)));
  return memref::LoadOp::create(ctx.b, ctx.lists.tiles, at);
}

/// The keys of a listed tile that some row of it has.
static Value keysOfListed(ReductionContext &ctx, Value number) {
  SmallVector<Value> words;
  for (int64_t w = 0, n = llvm::divideCeil(keyCols(ctx), 32); w < n; ++w) {
    SmallVector<Value> indices = listIndices(ctx);
    indices.append({number, ctx.index(w)});
    words.push_back(memref::LoadOp::create(ctx.b, ctx.lists.words, indices));
  }
  return tile::TruthsOp::create(
      ctx.b, ctx.tileType(1, keyCols(ctx), ctx.b.getI1Type()), words);
}

SmallVector<Value> mlir::attn::stepListed(ReductionContext &ctx, Value first,
                                          Value number, Value isRagged,
                                          ValueRange state) {
  KeyTile tile{first, /*masked=*/true};
  if (keyCols(ctx) == ctx.schedule.getBlockK())
    tile.isRagged = isRagged;
  if (!ctx.form.redoesSpoiled)
    tile.live = keysOfListed(ctx, number);
  if (ctx.lists.bits)
    tile.number = number;
  return step(ctx, tile, state);
}

void mlir::attn::loadSamples(ReductionContext &ctx, RowBlock &block) {
  if (!ctx.lists.tiles || !block.tile.masked || block.tile.number ||
      !ctx.reduction.getHeldSamples())
    return;
  for (auto sample : ctx.mask->getSamples()) {
    Type type = sample.value.getType();
    if (!type.isInteger(32) && !type.isInteger(1))
      continue;
    auto held = sample.onKey ? ctx.tileType(1, keyCols(ctx), type)
                             : ctx.tileType(ctx.schedule.getRows(), 1, type);
    Value tile =
        ctx.map({}, held,
                [&](Value row, Value col, ValueRange) {
                  PointCloner cloner(ctx, ctx.reduction.getMaskBody(), 0,
                                     /*hasKey=*/true,
                                     ctx.reduction.getCaptureOperands(),
                                     pointOf(ctx, block, row, col));
                  return SmallVector<Value>{cloner.get(sample.value)};
                })
            .front();
    block.samples.push_back({sample.value, tile});
  }
}

SmallVector<Value> mlir::attn::withLoaded(ReductionContext &ctx,
                                          const RowBlock &block,
                                          ValueRange first) {
  SmallVector<Value> inputs(first);
  for (auto [value, tile] : block.samples)
    inputs.push_back(tile);
  llvm::append_range(inputs, block.words);
  return inputs;
}

ValueRange mlir::attn::takeLoaded(ReductionContext &ctx, RowBlock &block,
                                  ValueRange given, size_t first) {
  ValueRange loaded = given.drop_front(first);
  block.sampled = llvm::to_vector(loaded.take_front(block.samples.size()));
  block.wordsRead = llvm::to_vector(loaded.drop_front(block.samples.size()));
  return given.take_front(first);
}

void mlir::attn::loadBits(ReductionContext &ctx, RowBlock &block) {
  if (!block.tile.number)
    return;
  SmallVector<Value> indices = listIndices(ctx);
  indices.push_back(block.tile.number);
  Value first = ctx.toI32(ctx.sub(block.firstRow, ctx.row0));
  auto held = ctx.tileType(ctx.schedule.getRows(), 1, ctx.b.getI32Type());
  for (int64_t w = 0, n = llvm::divideCeil(keyCols(ctx), 32); w < n; ++w)
    block.words.push_back(
        ctx.map({}, held,
                [&](Value row, Value, ValueRange) {
                  SmallVector<Value> at(indices);
                  at.append({ctx.toIndex(ctx.add(first, row)), ctx.index(w)});
                  return SmallVector<Value>{
                      memref::LoadOp::create(ctx.b, ctx.lists.bits, at)};
                })
            .front());
}

Value mlir::attn::liveByBits(ReductionContext &ctx, RowBlock &block,
                             Value col) {
  // What a thread has of a column's number is taken off first: it is the same
  // for all of its columns.
  int64_t own = ::attn::onchip::threadColumnBits(ctx.target.productShape()),
          common = 31 - own;
  auto both = [&](Value x, int64_t mask) -> Value {
    return arith::AndIOp::create(ctx.b, x, ctx.i32(mask));
  };
  auto shifted = [&](Value x, Value by) -> Value {
    return arith::ShRUIOp::create(ctx.b, x, by);
  };
  Value number = shifted(col, ctx.i32(5)), mine = both(col, own), word;
  for (auto [w, read] : llvm::enumerate(block.wordsRead)) {
    Value here = shifted(read, mine);
    word =
        word ? ctx.select(ctx.cmp(arith::CmpIPredicate::eq, number, ctx.i32(w)),
                          here, word)
             : here;
  }
  return ctx.cmp(arith::CmpIPredicate::ne,
                 both(shifted(word, both(col, common)), 1), ctx.i32(0));
}
