//===- TileScores.h - Kernels that write scores -----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESCORES_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESCORES_H

#include "TileKernel.h"

namespace mlir::attn {

/// Stores the scores of a tile, or adds them to what its diagonals have, the
/// state.
SmallVector<Value> writeScores(ReductionContext &ctx, RowBlock &block,
                               ArrayRef<Value> dots);
/// The kernel of an `attn.scores`, whose block is located.
void buildScores(ReductionContext &ctx, ValueRange outputs);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESCORES_H
