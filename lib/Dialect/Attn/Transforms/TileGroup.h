//===- TileGroup.h - Rows that reduce several heads -------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEGROUP_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEGROUP_H

#include "TileKernel.h"

namespace mlir::attn {

/// Walks the queries of each head of the group.
SmallVector<Value> walkGroup(ReductionContext &ctx, SmallVector<Value> state);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEGROUP_H
