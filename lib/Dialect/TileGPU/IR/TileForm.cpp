//===- TileForm.cpp - How the rows of a tile lie in memory ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/IR/TileForm.h"

using namespace mlir;
using namespace ::attn::gpu;

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
