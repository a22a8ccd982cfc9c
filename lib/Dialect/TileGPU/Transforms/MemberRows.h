//===- MemberRows.h - Rows and states of a block's members ------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What programs of warps and of warpgroups have in common: members of a block
// have rows of its tiles each, and merge their states.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_TRANSFORMS_MEMBERROWS_H
#define ATTN_DIALECT_TILEGPU_TRANSFORMS_MEMBERROWS_H

#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::tile_gpu {

/// Adds `memberRow`, made ahead of `op`, to the row of its indices: rows of a
/// member's tile start at its own row of the block's tile.
void addMemberRow(OpBuilder &b, Operation *op, MutableOperandRange indices,
                  bool vector, function_ref<Value()> memberRow);

/// Gives a merge of states the body of a merge of tiles.
void cloneMergeBody(OpBuilder &b, IRMapping &mapping, tile::MergeOp from,
                    MergeStatesOp to);

} // namespace mlir::tile_gpu

#endif // ATTN_DIALECT_TILEGPU_TRANSFORMS_MEMBERROWS_H
