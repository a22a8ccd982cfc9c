//===- TileUnfold.h - Kernels that go key by key, and back ------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to attn-tile. A work item of attn.unfold is a key head: its values'
// cotangents are sums over all rows that read it, which one thread adds up in
// order. It takes a few rows at a time, whose states of the block are kept in
// `history` between the way there and the way back.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEUNFOLD_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEUNFOLD_H

#include "KernelBuilder.h"

namespace mlir::attn {

class UnfoldKernel : public KernelBuilder {
public:
  UnfoldKernel(UnfoldOp op, const ::attn::TargetInfo &target,
               tile::KernelOp kernel)
      : KernelBuilder(op, MonoidOp(), target, kernel), unfold(op),
        numRows(op.getNumRowStates()), numStates(op.getStates().size()),
        numScores(op.getScores().size()), numValues(op.getValues().size()) {}

  /// The workspace of one launch: for each number of a state [items, n, rows],
  /// or with channels behind them.
  static SmallVector<MemRefType>
  getHistoryTypes(UnfoldOp op, const ::attn::TargetInfo &target);

  void build(ValueRange outputs, ValueRange history, Value block);

private:
  /// Rows that are taken at a time.
  static constexpr int64_t blockRows = 8;

  static bool hasChannels(Value value) {
    return cast<ShapedType>(value.getType()).getRank() == 4;
  }
  tile::TileType typeOf(Value memory);
  /// Some rows of tensors [b, hq, sq] and [b, hq, sq, dv].
  SmallVector<Value> loadRows(ValueRange operands);
  void storeRows(ValueRange tiles, ValueRange memrefs);
  Value columnOf(Value memref, Value key);
  SmallVector<Value> loadKey(Value key);
  /// Results `yields` of a region for each row, or each row and channel.
  /// `inputs` are tiles for its arguments, or scalars, or null where none of
  /// these results reads one; the first `numScores` are scores. Rows that are
  /// not there, or whose key is dead, have `otherwise`, or 0 where that is
  /// null.
  SmallVector<Value> apply(Region &region, ArrayRef<Value> inputs,
                           unsigned numScores, int64_t channels,
                           ArrayRef<unsigned> yields,
                           ArrayRef<Value> otherwise);
  SmallVector<Value> begin();
  SmallVector<Value> step(Value key, ValueRange state);
  SmallVector<Value> finish(ValueRange state);
  SmallVector<Value> back(Value key, ValueRange state, ValueRange behind,
                          ValueRange outputs);
  /// Adds to tiles of rows the sums of others over their channels.
  SmallVector<Value> addChannels(ValueRange ofRows, ValueRange ofChannels);
  SmallVector<Value> ifElse(Value condition,
                            function_ref<SmallVector<Value>()> yes,
                            function_ref<SmallVector<Value>()> no);
  SmallVector<Value>
  overKeys(ValueRange inits,
           function_ref<SmallVector<Value>(Value, ValueRange)> body);
  Value keyOf(Value key) { return add(arg(unfold.getFirst()), toI32(key)); }
  void takeRows(ValueRange outputs, ValueRange history);

  UnfoldOp unfold;
  unsigned numRows, numStates, numScores, numValues;
  int64_t numChannels = 0, paddedChannels = 0;
  Value numKeys, numItems, item;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEUNFOLD_H
