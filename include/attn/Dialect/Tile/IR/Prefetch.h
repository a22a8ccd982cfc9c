//===- Prefetch.h - What may be asked for ahead -----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What tile.prefetch and tile_gpu.global.prefetch verify alike.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_IR_PREFETCH_H
#define ATTN_DIALECT_TILE_IR_PREFETCH_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace mlir::tile {

/// Whether `memory` has an index for each of its two dimensions or more, and
/// rows without gaps.
inline LogicalResult verifyPrefetch(Operation *op, Type memory,
                                    size_t numIndices) {
  auto memref = cast<MemRefType>(memory);
  if (memref.getRank() < 2 || memref.getRank() != int64_t(numIndices))
    return op->emitOpError("expected an index for each of 2 dimensions or "
                           "more, but got ")
           << numIndices << " for " << memref;
  if (!memref.isLastDimUnitStride())
    return op->emitOpError("expected elements of a row behind each other, but "
                           "got ")
           << memref;
  return success();
}

} // namespace mlir::tile

#endif // ATTN_DIALECT_TILE_IR_PREFETCH_H
