//===- InPlace.h - Tiles that change in shared memory -----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products read keys from the slots that copies fill. Keys that turn (rotary
// embedding) change there, in every step between the copy and the product.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_INPLACE_H
#define ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_INPLACE_H

#include "attn/Dialect/Tile/IR/Tile.h"

namespace mlir::tile_gpu {

/// What turns the rows of `load` where they are, or null.
inline tile::TurnOp turnOf(tile::LoadOp load) {
  auto turn = load->hasOneUse() ? dyn_cast<tile::TurnOp>(*load->user_begin())
                                : tile::TurnOp();
  return turn && turn->getBlock() == load->getBlock() ? turn : tile::TurnOp();
}

/// What others take of `load`: its tile, or what turning makes of it.
inline Value takenOf(tile::LoadOp load) {
  if (tile::TurnOp turn = turnOf(load))
    return turn.getResult();
  return load.getResult();
}

} // namespace mlir::tile_gpu

#endif // ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_INPLACE_H
