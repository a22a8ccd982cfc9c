//===- MatrixAccess.cpp - Addresses of 8x8 matrices in tiles --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MatrixAccess.h"

using namespace mlir;
using namespace ::attn::gpu;

static constexpr int64_t chunkBytes = 16;

MatrixAccess::MatrixAccess(Emitter &e, tile_gpu::SmemType tile, Value base,
                           Value lane, Value rowBit, Value chunkBit, Value rows,
                           Value chunks)
    : e(e), form(tile) {
  Value row = e.and_(lane, 7);
  Value exchange = e.c32(0);
  if (form.swizzle == 128)
    exchange = row;
  else if (form.swizzle == 64)
    exchange = e.lshr(row, 1);
  else if (form.swizzle == 32)
    exchange = e.lshr(row, 2);
  laneBase = e.add(base, e.mul(e.add(e.shl(rowBit, 3), row), form.rowBytes));
  if (rows)
    laneBase = e.add(laneBase, e.mul(rows, form.rowBytes));
  Value chunk = chunkBit;
  if (chunks) {
    if (form.swizzle) {
      laneBase =
          e.add(laneBase, e.mul(e.udiv(chunks, form.chunks), form.panelBytes));
      chunks = e.urem(chunks, form.chunks);
    }
    chunk = e.add(chunks, chunkBit);
  }
  // The bits of the chunk are clear in what has been added so far.
  laneBase = e.add(laneBase, e.shl(e.xor_(chunk, exchange), 4));
}

Value MatrixAccess::address(int64_t rowBlock, int64_t chunk) const {
  int64_t rowOffset = rowBlock * 8 * form.rowBytes;
  if (!form.swizzle)
    return e.add(laneBase, rowOffset + chunk * chunkBytes);
  Value at = e.xor_(laneBase, e.c32(chunk % form.chunks * chunkBytes));
  return e.add(at, rowOffset + chunk / form.chunks * form.panelBytes);
}
