//===- FirstTurn.h - Who writes what others add to --------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where blocks add to the same memory in turns, the one that has the first turn
// writes it, so that nobody has to clear it. Which tile_gpu.bulk.reduce do so
// is said here, for the lowering and for the emulator: those with the attribute
// `tile_gpu.first_writes`, behind the tile_gpu.block_turn.wait of their turn.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_IR_FIRSTTURN_H
#define ATTN_DIALECT_TILEGPU_IR_FIRSTTURN_H

#include "attn/Dialect/TileGPU/IR/TileGPU.h"

namespace attn::gpu {

inline constexpr llvm::StringLiteral firstWritesName = "tile_gpu.first_writes";

/// The number of the turn, of which 0 writes; null where all add.
inline mlir::Value turnOfWriter(mlir::tile_gpu::BulkReduceOp op) {
  if (!op->hasAttr(firstWritesName))
    return {};
  for (mlir::Operation *at = op; at; at = at->getPrevNode())
    if (auto wait = mlir::dyn_cast<mlir::tile_gpu::BlockTurnWaitOp>(at))
      return wait.getTurn();
  return {};
}

} // namespace attn::gpu

#endif // ATTN_DIALECT_TILEGPU_IR_FIRSTTURN_H
