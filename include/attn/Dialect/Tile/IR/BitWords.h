//===- BitWords.h - Words of bits in memory ---------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The memory that tile.store_bits and what it is lowered to write.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_IR_BITWORDS_H
#define ATTN_DIALECT_TILE_IR_BITWORDS_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::tile {

/// Whether `memory`, with indices for all but its last two dimensions, has a
/// word or more of each 32 of `rows` for each of `cols` columns.
inline LogicalResult verifyBitWords(Operation *op, Type memory,
                                    size_t numIndices, int64_t rows,
                                    int64_t cols) {
  auto memref = cast<MemRefType>(memory);
  int64_t rank = memref.getRank();
  if (!memref.getElementType().isInteger(32) || rank != int64_t(numIndices) + 2)
    return op->emitOpError("expected memory of i32 with two dimensions more "
                           "than indices, but got ")
           << memref << " and " << numIndices << " indices";
  int64_t words = llvm::divideCeil(rows, 32);
  if (memref.getDimSize(rank - 2) < cols || memref.getDimSize(rank - 1) < words)
    return op->emitOpError("expected at least ")
           << cols << " columns of at least " << words << " words, but got "
           << memref;
  if (!memref.isLastDimUnitStride())
    return op->emitOpError("expected words behind each other in memory, but "
                           "got ")
           << memref;
  return success();
}

} // namespace mlir::tile

#endif // ATTN_DIALECT_TILE_IR_BITWORDS_H
