//===- MatrixAccess.cpp - Addresses of 8x8 matrices in tiles --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MatrixAccess.h"

using namespace mlir;
using namespace attn::gpu;

static constexpr int64_t chunkBytes = 16;

TileForm::TileForm(tile_gpu::SmemType tile) : swizzle(tile.getSwizzle()) {
  rowBytes = swizzle ? swizzle : tile.getRowBytes();
  panelBytes = swizzle ? tile.getPitch() * swizzle : 0;
  chunks = rowBytes / chunkBytes;
}

int64_t TileForm::exchangeOf(int64_t row) const {
  // 128 bytes: chunk bits 0-2 by row bits 0-2; 64: bits 0-1 by row bits 1-2;
  // 32: bit 0 by row bit 2. In the address: bits 4-6 by bits 7-9.
  switch (swizzle) {
  case 128:
    return row & 7;
  case 64:
    return row >> 1 & 3;
  case 32:
    return row >> 2 & 1;
  default:
    return 0;
  }
}

int64_t TileForm::offsetOf(int64_t row, int64_t byte) const {
  if (!swizzle)
    return row * rowBytes + byte;
  int64_t panel = byte / rowBytes, chunk = byte % rowBytes / chunkBytes;
  return panel * panelBytes + row * rowBytes +
         (chunk ^ exchangeOf(row)) * chunkBytes + byte % chunkBytes;
}

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
