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

/// Fills in a kernel that makes lists of key tiles for a reduction.
class KeyListKernel : public ReductionKernel {
public:
  using ReductionKernel::ReductionKernel;

  /// Fills in the kernel that makes the lists.
  void buildLists(const KeyLists &into, Value numTiles, Value block);
  /// The kernel before that one, which says what each tile is.
  void buildClasses(const KeyLists &into, Value numTiles, Value block);
  /// The kernel behind them, which finds the order of the query tiles.
  void buildOrder(const KeyLists &into, Value numTiles, Value block);

private:
  std::pair<Value, Value> sampleRange(::attn::MaskAnalysis::Sample sample,
                                      Value first, Value last);
  SmallVector<Value>
  forBits(Value bits, ValueRange carried,
          function_ref<SmallVector<Value>(Value, ValueRange)> body);
  /// Positions of the rows; key tiles that may have live elements, and where
  /// those end that are not ragged.
  struct ListedRange {
    Value firstRow, lastRow, first, end, endWhole;
  };
  ListedRange locateListed(const KeyLists &into, Value numTiles, Value block,
                           Value keyTiles);
  /// Words of the keys of a tile that are live in some row; whether some
  /// element is live, and some dead.
  struct ListedElements {
    SmallVector<Value> words;
    Value someLive, someDead;
  };
  ListedElements countKeys(Value live, Value dead);
  Value someOfRows(Value elements);
  void storeWords(const KeyLists &into, Value place, ArrayRef<Value> words);
  Value loadClass(const KeyLists &from, Value tile);
  Value loadLength(const KeyLists &from, Value tile);
  SmallVector<Value> listByClass(const KeyLists &into, Value tile,
                                 ValueRange counts);
  SmallVector<Value> listMasked(const KeyLists &into, Value tile,
                                ValueRange counts);
  Value listWhole(const KeyLists &into, Value tile, Value whole);
  ListedElements evaluate(const KeyLists &into, Value number);
  Value classOfElements(const KeyLists &into, Value number);
  void storeClass(const KeyLists &into, Value number, Value kind);
  SmallVector<Value> classWords(ValueRange classes);
  SmallVector<Value> classifyByAnalysis(const ListedRange &range, Value first);
  SmallVector<Value> readClasses(const KeyLists &from, const ListedRange &range,
                                 Value first);
  SmallVector<Value> forWords(
      ValueRange words, size_t kinds, ValueRange carried,
      function_ref<SmallVector<Value>(Value, ValueRange, ValueRange)> body);
  /// The number of the block's n-th tile from `first` on, i32.
  Value nthTile(Value first, Value n) { return add(first, mul(n, i32(parts))); }
  RowBlock listedBlock(Value tile, bool ragged);
  std::pair<Value, Value> evaluateRows(RowBlock &block, Value first,
                                       int64_t count);

  /// Of how many tiles side by side a block has one.
  int64_t parts = 1;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_KEYLISTS_H
