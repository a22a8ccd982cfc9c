//===- Ahead.cpp - Memory that is asked for ahead -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What tile.prefetch asks for comes while a product is computed. Loads of a
// tile that nobody asked for wait for memory, and so does whoever asks for all
// of it at once: a core has some ten lines under way. Each block of sums asks
// for its share, or each of its steps.
//
//===----------------------------------------------------------------------===//

#include "VectorContext.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tile;

void Ahead::ask(Value row, int64_t height, Value col, int64_t width, Value step,
                int64_t steps) {
  if (ops.empty())
    return;
  OpBuilder &b = ctx.builder;
  Location loc = row.getLoc();
  auto add = [&](Value x, Value y) {
    return b.createOrFold<arith::AddIOp>(loc, x, y);
  };
  auto times = [&](Value x, int64_t y) {
    return b.createOrFold<arith::MulIOp>(loc, x, ctx.index(y));
  };
  auto over = [&](Value x, int64_t y) {
    return b.createOrFold<arith::DivUIOp>(loc, x, ctx.index(y));
  };
  int64_t numShares = rowBlocks * colBlocks * steps;
  Value place = add(times(over(col, width), rowBlocks), over(row, height));
  if (step)
    place = add(times(place, steps), step);
  for (PrefetchOp op : ops) {
    constexpr int64_t lineBits = 512;
    auto type = cast<MemRefType>(op.getSource().getType());
    int64_t line = lineBits / type.getElementTypeBitWidth();
    int64_t linesOfRow = llvm::divideCeil(op.getColumns(), line);
    int64_t lines = op.getRows() * linesOfRow;
    int64_t share = llvm::divideCeil(lines, numShares);
    for (int64_t i = 0; i < share; ++i) {
      Value number = add(times(place, share), ctx.index(i));
      if (share * numShares > lines)
        number =
            b.createOrFold<arith::MinUIOp>(loc, number, ctx.index(lines - 1));
      Value within =
          b.createOrFold<arith::RemUIOp>(loc, number, ctx.index(linesOfRow));
      SmallVector<Value> at(op.getIndices());
      at.back() = add(at.back(), times(within, line));
      at[at.size() - 2] = add(at[at.size() - 2], over(number, linesOfRow));
      memref::PrefetchOp::create(b, loc, op.getSource(), at, /*isWrite=*/false,
                                 /*localityHint=*/3, /*isDataCache=*/true);
    }
  }
}
