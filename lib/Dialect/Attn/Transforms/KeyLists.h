//===- KeyLists.h - Kernels that list key tiles -----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to attn-tile. What runs before a reduction whose mask reads memory.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_KEYLISTS_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_KEYLISTS_H

#include "TileKernel.h"

namespace mlir::attn {

/// A kernel that makes lists of key tiles for a reduction.
struct KeyListContext : ReductionContext {
  using ReductionContext::ReductionContext;
  /// Of how many tiles side by side a block has one.
  int64_t stride = 1;
};

/// Fills in the kernel that makes the lists.
void buildLists(KeyListContext &ctx, const KeyLists &into, Value numTiles,
                Value block);
/// The kernel before that one, which says what each tile is.
void buildClasses(KeyListContext &ctx, const KeyLists &into, Value numTiles,
                  Value block);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_KEYLISTS_H
