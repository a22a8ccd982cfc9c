//===- TileRepair.h - Rows that a NaN has spoiled ---------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEREPAIR_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEREPAIR_H

#include "TileKernel.h"

namespace mlir::attn {

/// Stores for each row whether a NaN has come in.
void storeMarks(ReductionContext &ctx, ValueRange state);
/// Whether some row of the tile has a mark. Marks lie along columns, which all
/// warps of a block hold: what follows is for all of them or for none.
Value hasMark(ReductionContext &ctx);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEREPAIR_H
