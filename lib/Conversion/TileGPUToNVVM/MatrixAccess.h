//===- MatrixAccess.h - Addresses of 8x8 matrices in tiles ------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ldmatrix and stmatrix move up to four 8x8 matrices of 16-bit elements; lane
// 8 i + r names the 16 bytes of row r of matrix i. In a swizzled tile those are
// a chunk of a panel, and its number is exchanged by the row.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEGPUTONVVM_MATRIXACCESS_H
#define ATTN_LIB_CONVERSION_TILEGPUTONVVM_MATRIXACCESS_H

#include "Emitter.h"
#include "attn/Dialect/TileGPU/IR/TileForm.h"

namespace attn::gpu {

/// Addresses of matrices whose rows are 8 (R + rowBit) + lane % 8 and whose
/// chunk is C + chunkBit, with C even: R and C are named at each access, the
/// bits are those of lane / 8 that choose among the matrices of one
/// instruction. `rows` and `chunks` are added for all.
class MatrixAccess {
public:
  MatrixAccess(Emitter &e, mlir::tile_gpu::SmemType tile, Value base,
               Value lane, Value rowBit, Value chunkBit, Value rows = {},
               Value chunks = {});
  Value address(int64_t rowBlock, int64_t chunk) const;

private:
  Emitter &e;
  TileForm form;
  Value laneBase;
};

// Texts of the instructions.

/// "x4", "x2" or "x1".
inline llvm::StringRef matrixCount(int64_t count) {
  return count == 4 ? "x4" : count == 2 ? "x2" : "x1";
}

/// "{$a, $b, ...}" of `count` operands from `first` on.
inline std::string operandList(int64_t first, int64_t count) {
  std::string text = "{";
  for (int64_t i = 0; i < count; ++i)
    text += (i ? ", $" : "$") + std::to_string(first + i);
  return text + "}";
}

} // namespace attn::gpu

#endif // ATTN_LIB_CONVERSION_TILEGPUTONVVM_MATRIXACCESS_H
