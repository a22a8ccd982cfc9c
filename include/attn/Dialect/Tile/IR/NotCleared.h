//===- NotCleared.h - Loads whose bounds clear nothing ----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows outside the bounds of a `tile.load` read as zero. Where a load has the
// unit attribute `tile.not_cleared`, they may hold what memory does: who reads
// them meets them with 0, and looks for a NaN.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_IR_NOTCLEARED_H
#define ATTN_DIALECT_TILE_IR_NOTCLEARED_H

#include "llvm/ADT/StringRef.h"

namespace mlir::tile {

inline constexpr llvm::StringLiteral notClearedName = "tile.not_cleared";

} // namespace mlir::tile

#endif // ATTN_DIALECT_TILE_IR_NOTCLEARED_H
