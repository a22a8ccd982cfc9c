//===- ScanBuilder.h - What kernels of attn.scan share ----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which rows a block has, which heads belong together, and where states are:
// the same whether tokens come in chunks (TileScan.h) or one by one
// (TileScanTokens.h).
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_SCANBUILDER_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_SCANBUILDER_H

#include "KernelBuilder.h"
#include "attn/Dialect/Attn/IR/Scan.h"

namespace mlir::attn {

/// exp(x - largest), where nothing relative to nothing is nothing.
Value relativeWeight(OpBuilder &b, Location loc, Value x, Value largest);

class ScanBuilder : public KernelBuilder {
protected:
  ScanBuilder(ScanOp op, const ::attn::TargetInfo &target,
              tile::KernelOp kernel)
      : KernelBuilder(op, MonoidOp(), target, kernel), scanOp(op) {}

  /// Added to sums of squares by l2norm.
  static constexpr float normEpsilon = 1e-6f;

  /// The sequences; sets `stateHeads`.
  Value countSequences();
  /// Which sequence and head the block has; then their rows.
  tile::WorkTileOp findWork(Value block, int64_t tiles, Value parts = {});
  void findRows();
  /// x times heads by all of them, which most often are as many: a step on a
  /// GPU waits for each quotient before it can ask for what it is of.
  Value scaleHead(Value x, Value heads, Value all);
  /// The head of a tensor of keys, values or queries that belongs to a head of
  /// states or, of queries, of outputs.
  Value headOf(Value memref);
  Value queryHeadOf(Value outputHead, Value outputHeads);
  /// The heads of outputs, and how many of them read a state.
  std::pair<Value, Value> countOutputHeads();
  /// Indices of a token; without `channel` of a tensor with a number for each.
  SmallVector<Value> indicesOf(Value headIndex, Value row, Value channel);

  /// The arguments that states are read from, and those that they are written
  /// to, of which some may be null.
  SmallVector<Value> initialStates();
  SmallVector<Value> finalStates(ValueRange outputs);
  /// The first index of the block's state; `exists` is set where a slot may
  /// name none.
  Value findState(Value first, Value &exists);

  /// A capture's number of a head, as f32; its rows of [h, d] are loaded.
  Value numberOf(Value memref, ValueRange at);
  /// Whether a matrix of states is transposed where its tile is.
  bool valuesFirst() { return scanOp.getValuesFirst(); }

  Value relative(Value x, Value largest) {
    return relativeWeight(b, loc, x, largest);
  }
  Value mulf(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value addf(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }

  ScanOp scanOp;
  /// Rows of the sequence in the tensors, and the heads of states. Queries may
  /// be fewer or more than keys: of an aggregate they are.
  Value begin, end, queryEnd, stateHeads;
  /// The rows of the tensor of keys.
  Value total;
  /// Of packed rows: whether the block has a sequence, and not what is behind.
  Value isSequence;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_SCANBUILDER_H
