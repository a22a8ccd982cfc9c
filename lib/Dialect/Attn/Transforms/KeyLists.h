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

/// Positions of the rows; key tiles that may have live elements, and where
/// those end that are not ragged.
struct ListedRange {
  Value firstRow, lastRow, first, end, endWhole;
};

/// Words of the keys of a tile that are live in some row; whether some element
/// is live, and whether the tile is to be tested: some are dead, or what scores
/// read differs among them.
struct ListedElements {
  SmallVector<Value> words;
  Value someLive, someDead;
};

/// The number of the block's n-th tile from `first` on, i32.
Value nthTile(KeyListContext &ctx, Value first, Value n);
/// What the elements of a tile say; their bits go into the lists that have room
/// for them.
ListedElements evaluate(KeyListContext &ctx, const KeyLists &into,
                        Value number);
/// What the elements of a few rows say, from the first one to the last.
ListedElements evaluateFew(KeyListContext &ctx, Value number);
/// Whether elements of the mask differ by row.
bool asksForRows(KeyListContext &ctx);
/// Whether nothing is asked of a masked tile but that it is one.
bool listsMixed(KeyListContext &ctx, const KeyLists &into);
/// Which rows have an element that is true: a column.
Value someOfRows(KeyListContext &ctx, Value elements);
/// Words of the classes of tiles, as many as a tile has columns: 32 of them
/// each, and words of one kind after those of the one before.
SmallVector<Value> classWords(KeyListContext &ctx, ValueRange classes);

/// Of elements that the mask asks something of, least and greatest answers.
using Answers = SmallVector<std::pair<Value, Value>>;
/// What the mask asks of elements of small tensors. Packed rows may be of
/// several heads, and have none.
Answers findAnswers(KeyListContext &ctx);
/// Which tiles from number `first` on, every one of `stride`, are whole, dead,
/// or neither as far as the analysis sees: words of tiles that are settled, and
/// of those that are not whole. Where `tellsMixed`, dead tiles have no bit set,
/// as those that do not exist, and both are of one that is known to be neither
/// whole nor dead.
SmallVector<Value> classifyByAnalysis(KeyListContext &ctx,
                                      const ListedRange &range,
                                      const Answers &answers, Value first,
                                      bool tellsMixed = false);
/// The class of a tile that is what it is whatever the mask reads, as those of
/// a prefix beside a tensor of pairs are; of others `masked`.
Value classWithoutReads(KeyListContext &ctx, const ListedRange &range,
                        Value number);

/// Fills in the kernel that makes the lists; it says what the tiles are itself
/// where `listsAtOnce`.
void buildLists(KeyListContext &ctx, const KeyLists &into, Value numTiles,
                Value block);
/// The kernel before that one, which says what each tile is, where there is
/// one.
void buildClasses(KeyListContext &ctx, const KeyLists &into, Value numTiles,
                  Value block);
/// Whether that finds the order of the query tiles, of so many work tiles with
/// so many keys: few, or those of few keys, do not gain what it costs.
Value findsOrder(OpBuilder &b, Location loc, ReductionOpInterface op,
                 Value work, Value keys, const ::attn::TargetInfo &target);
/// The kernel behind them, which finds the order of the query tiles.
void buildOrder(KeyListContext &ctx, const KeyLists &into, Value numTiles,
                Value block);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_KEYLISTS_H
