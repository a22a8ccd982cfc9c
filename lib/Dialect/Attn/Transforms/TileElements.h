//===- TileElements.h - One pair of a row and a key -------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEELEMENTS_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEELEMENTS_H

#include "TileKernel.h"

namespace mlir::attn {

// Within a map.

/// Where the regions are evaluated for an element of the tile.
Point pointOf(ReductionContext &ctx, RowBlock &block, Value row, Value col);
/// The scores that lift takes, from the dots.
SmallVector<Value> scores(ReductionContext &ctx, RowBlock &block, Value row,
                          Value col, ValueRange dots);
/// Whether the element is live (null: always), by mask and by score.
Value liveByMask(ReductionContext &ctx, RowBlock &block, Value row, Value col);
Value liveByScore(ReductionContext &ctx, ValueRange scores, Value liveByMask);
/// What the weight of an element in value components is multiplied by.
Value valueFactor(ReductionContext &ctx, RowBlock &block, Value row, Value col);

// Between maps.

/// The weights of a component, and all that differ.
WeightGroup groupOf(ReductionContext &ctx, unsigned component);
SmallVector<WeightGroup> weightGroups(ReductionContext &ctx);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEELEMENTS_H
