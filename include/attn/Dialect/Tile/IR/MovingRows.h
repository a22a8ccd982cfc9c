//===- MovingRows.h - Rows that are others in each step ---------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block takes the rows of a product once, and keys step by step. Along
// diagonals both move on: `tile.moves`, a unit attribute of a tile.load, says
// that its rows are to be copied ahead with the keys of the step.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_IR_MOVINGROWS_H
#define ATTN_DIALECT_TILE_IR_MOVINGROWS_H

#include "llvm/ADT/StringRef.h"

namespace mlir::tile {

inline constexpr llvm::StringLiteral movesName = "tile.moves";

} // namespace mlir::tile

#endif // ATTN_DIALECT_TILE_IR_MOVINGROWS_H
