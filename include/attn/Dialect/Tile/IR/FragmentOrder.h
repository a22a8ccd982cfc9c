//===- FragmentOrder.h - Memory in the order of registers -------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sums in memory that kernels of one plan alone read and write need not lie row
// by row. `fragment_order`, of what accesses them, says that each 16 rows lie
// as accumulators do: 8 columns after another, of these lane after lane, and of
// a lane its two columns in row i and then in row i + 8. A warp then accesses
// 512 bytes that follow one another, where of rows it has pieces of 32 bytes.
// The rows begin at a multiple of 16, and memory has as many.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_IR_FRAGMENTORDER_H
#define ATTN_DIALECT_TILE_IR_FRAGMENTORDER_H

#include <cstdint>
#include <utility>

namespace mlir::tile {

inline constexpr int64_t fragmentOrderRows = 16, fragmentOrderCols = 8;

/// Where element (row, col) of rows of `cols` elements lies, as a row and a
/// column of memory.
inline std::pair<int64_t, int64_t> inFragmentOrder(int64_t row, int64_t col,
                                                   int64_t cols) {
  int64_t lane = row % 8 * 4 + col % 8 / 2;
  int64_t at = (col / fragmentOrderCols * 32 + lane) * 4 +
               row % fragmentOrderRows / 8 * 2 + col % 2;
  return {row - row % fragmentOrderRows + at / cols, at % cols};
}

} // namespace mlir::tile

#endif // ATTN_DIALECT_TILE_IR_FRAGMENTORDER_H
