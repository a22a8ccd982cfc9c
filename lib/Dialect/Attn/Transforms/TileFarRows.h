//===- TileFarRows.h - Rows far from 0, done again --------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEFARROWS_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEFARROWS_H

#include "TileKernel.h"

namespace mlir::attn {

/// Whether far rows are done again instead of told apart in each tile. Where a
/// bias or the score's region may put whole rows far below 0, as masks of the
/// least finite number do, they are told apart: such rows are no accident. So
/// they are where the registers are full, with packed heads and factors, and
/// with windows whose key tiles no kernel lists, but where their masks act on
/// weights; and where the bits of a row may not depend on which of these it
/// meets.
bool mayRedoFarRows(ReductionContext &ctx);
/// Whether the kernel that does rows with a NaN again does far ones, too: where
/// scores have terms of far pairs.
bool marksFarRows(ReductionContext &ctx);
/// Whether rows that are NaN are done again, so that the values of keys that
/// are dead in every row of a listed tile, or outside a window, need not be
/// cleared.
bool mayRedoSpoiledRows(ReductionContext &ctx);
/// Whether masks may act on weights, behind statistics of all keys: rows whose
/// own keys are nothing beside dead ones are done again.
bool mayMaskLate(ReductionContext &ctx);
/// The state after such rows are done again, key by key.
SmallVector<Value> redoRows(ReductionContext &ctx, SmallVector<Value> state);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEFARROWS_H
