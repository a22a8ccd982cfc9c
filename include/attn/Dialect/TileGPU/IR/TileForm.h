//===- TileForm.h - How the rows of a tile lie in memory --------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_IR_TILEFORM_H
#define ATTN_DIALECT_TILEGPU_IR_TILEFORM_H

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Target/TargetInfo.h"

namespace attn::gpu {

/// Rows of which a warp's register holds a value each, in the accumulators of
/// mma.sync and in row vectors: two registers of a thread cover its rows. So
/// `lanesOfRow` lanes have the same row.
constexpr int64_t rowsOfRegister = MmaShape::warp().m / 2;
constexpr int64_t lanesOfRow = TargetInfo::warpThreads / rowsOfRegister;

/// How the rows of a stored tile lie in memory.
struct TileForm {
  explicit TileForm(mlir::tile_gpu::SmemType tile);
  int64_t swizzle;
  /// Bytes from row to row of a panel, and from panel to panel.
  int64_t rowBytes, panelBytes;
  /// Chunks of 16 bytes in a row of a panel.
  int64_t chunks;
  /// Bytes from the start of the tile to an element's first byte.
  int64_t offsetOf(int64_t row, int64_t byte) const;
  /// What is exchanged with the number of a chunk in a row.
  int64_t exchangeOf(int64_t row) const;
};

} // namespace attn::gpu

#endif // ATTN_DIALECT_TILEGPU_IR_TILEFORM_H
