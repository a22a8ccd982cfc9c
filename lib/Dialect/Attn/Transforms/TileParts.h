//===- TileParts.h - Parts of the keys, of fixed size -----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEPARTS_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEPARTS_H

#include "TileKernel.h"

namespace mlir::attn {

/// Walks the parts of the keys, where these have a fixed number of keys, and
/// multiplies their states.
SmallVector<Value> walkParts(ReductionContext &ctx);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEPARTS_H
