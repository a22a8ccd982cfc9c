//===- PlanRows.h - Rows of sequences as a plan counts them -----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to attn-tile: the sizes of a tensor of rows and the blocks for its
// tiles, whether its sequences are those of a batch or packed. SequenceRows
// (TileBlock.h) finds the rows of one of these blocks.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_PLANROWS_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_PLANROWS_H

#include "attn/Dialect/Attn/IR/Scan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mlir::attn {

/// Where the tokens of a scan are.
inline Source sourceOf(ScanOp op) {
  return {op.isPacked() ? SourceKind::varlen : SourceKind::dense, op.getCu(),
          op.getLengths()};
}

/// What has as many elements in dimension 0 as `tensor` has sequences, and of
/// packed ones the rows behind the last.
inline Value countsSequences(const Source &source, Value tensor) {
  return source.hasBatch() ? tensor : source.map;
}

class PlanRows {
public:
  /// `map`: the source's, as the plan has it.
  PlanRows(OpBuilder &b, Location loc, const Source &source, Value memory,
           Value map)
      : b(b), loc(loc), source(source), memory(memory), map(map) {}

  Value getHeads() { return dim(memory, source.headDim()); }
  /// Of packed sequences those of all together.
  Value getRows();
  /// The dimensions in front of the heads: batches, or none.
  SmallVector<Value> getLeading();
  /// What a grid has for these: packed ones are one of them, and none without
  /// rows, so that there are no blocks, and nothing they could read.
  Value countInGrid();
  /// Tiles of `blockRows` of the rows of a head; of packed rows as many as
  /// there are at most. Plans of GPUs cannot read offsets: blocks find the
  /// sequence of theirs, which has at most one tile too many. The last are the
  /// rows behind the last sequence.
  Value countTiles(Value rows, int64_t blockRows);

private:
  bool arePacked() const { return source.is(SourceKind::varlen); }
  Value dim(Value of, int64_t d) {
    return memref::DimOp::create(b, loc, of, d);
  }

  OpBuilder &b;
  Location loc;
  Source source;
  Value memory, map;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_PLANROWS_H
