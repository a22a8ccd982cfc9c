//===- TileLayout.h - Where the elements of GPU tiles are -------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What decisions above tile_gpu ask of the layouts of its tiles, in registers
// and in shared memory. This header includes no MLIR.
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_TILELAYOUT_H
#define ATTN_ANALYSIS_TILELAYOUT_H

#include "attn/Analysis/OnChip.h"

namespace attn::onchip {

/// 16-bit elements of a row of a panel: tiles of the widest swizzle, 128 bytes,
/// are panels side by side.
constexpr int64_t panelElements = 64;

/// Bytes of a row of queries and of values together of which a block with a
/// tile of diagonals has room for those of its rows and keys.
constexpr int64_t mostDiagonalBytes = 768;

/// Bits of a column's number that are the same for all sums of a product that a
/// thread holds: every fourth pair of columns is its own. A lane of tensor
/// memory is a whole row.
constexpr int64_t threadColumnBits(const MmaShape &product) {
  return product.inTensorMemory ? 0 : 6;
}

/// Registers for `count` numbers of each key: those of the columns that a
/// thread has elements of.
constexpr int64_t sampleRegisters(int64_t count, int64_t keys) {
  return count * keys / 4;
}

} // namespace attn::onchip

#endif // ATTN_ANALYSIS_TILELAYOUT_H
