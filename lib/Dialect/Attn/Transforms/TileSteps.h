//===- TileSteps.h - One key tile enters the state --------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESTEPS_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESTEPS_H

#include "TileKernel.h"

namespace mlir::attn {

/// What the monoid and its laws say of the state, and the values that kernels
/// need for the rewrites that passes have decided.
void readForm(ReductionContext &ctx);
/// Finds the positions of a block's elements.
void prepare(ReductionContext &ctx, RowBlock &block);
/// The state of a block's rows after the tile.
SmallVector<Value> stepRows(ReductionContext &ctx, RowBlock &block);
/// The same where later keys gate earlier ones (suffix), or earlier ones later
/// ones (prefix).
SmallVector<Value> stepGated(ReductionContext &ctx, RowBlock &block,
                             ArrayRef<Value> dots);
/// The same of an affine monoid. Of the product of all states key j has two
/// factors: of the second state where the keys before it meet the rest, of the
/// first where it meets the keys behind it.
SmallVector<Value> stepAffine(ReductionContext &ctx, RowBlock &block,
                              ArrayRef<Value> dots);
/// The same of a general monoid, by states.
SmallVector<Value> stepGeneral(ReductionContext &ctx, RowBlock &block,
                               ArrayRef<Value> dots);
/// The product of statistics.
SmallVector<Value> combineStats(ReductionContext &ctx, ValueRange x,
                                ValueRange y);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESTEPS_H
