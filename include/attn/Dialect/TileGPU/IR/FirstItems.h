//===- FirstItems.h - Blocks that draw their first items too ----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The first item of a block is that of its own number, and others are drawn.
// Where blocks wait for what those of earlier items do (tile_gpu.block_turn),
// that is not enough: a block that does not run yet, since the device has no
// room for it, would have an item that others wait for, and they keep the room.
// So each draws its first item as well. Then an item is nobody's until a block
// that runs has drawn it, all items before it are drawn, and the lowest one
// that is not done waits for nobody, whatever the number of blocks that run.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_IR_FIRSTITEMS_H
#define ATTN_DIALECT_TILEGPU_IR_FIRSTITEMS_H

#include "mlir/IR/Operation.h"

namespace mlir::tile_gpu {

/// Of a dynamic tile_gpu.scheduler without clusters, which a role of one warp
/// leads, and of the tile_gpu.tickets of its launch, which have memory then
/// whatever the number of blocks.
inline constexpr llvm::StringLiteral drawsFirstName = "tile_gpu.draws_first";

inline bool drawsFirst(Operation *op) { return op->hasAttr(drawsFirstName); }

} // namespace mlir::tile_gpu

#endif // ATTN_DIALECT_TILEGPU_IR_FIRSTITEMS_H
