//===- TileDistances.h - Tiles that read one element of a table -*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to attn-tile.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEDISTANCES_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEDISTANCES_H

#include "KeyLists.h"

namespace mlir::attn {

/// What the scores read of pairs by their distance: elements of captures, and
/// tests, with what these say of all distant pairs, if one thing. `behind` is
/// the distance (row - key, of a row behind its key) from which on all of it is
/// the same for all pairs, and `ahead` (key - row) that of a row ahead of it;
/// null where there is none.
struct DistantPairs {
  struct Read {
    Value value;
    std::optional<int64_t> constant;
  };
  SmallVector<Read> reads;
  std::optional<int64_t> behind, ahead;
};

/// Nothing where the scores read elements of pairs in another way too.
std::optional<DistantPairs> findDistantPairs(ReductionOpInterface op);

/// Whether whole tiles of lists are those whose pairs are all far apart: other
/// tiles are listed as masked ones.
bool listsDistantTiles(ReductionContext &ctx);
/// Whether all rows from one to another are far from the keys of a tile, i1;
/// positions are i32.
Value isDistantTile(ReductionContext &ctx, Value firstRow, Value lastRow,
                    Value firstKey, Value lastKey);
/// The elements that a far tile reads, for the maps of the block.
void loadDistantElements(ReductionContext &ctx, RowBlock &block);
/// Without lists: elements that a block's rows read once for all keys, their
/// own and that of distant pairs on either side.
void holdElements(ReductionContext &ctx);
/// What maps of the block take of these. `dots` has sums with the elements of
/// pairs then, of which those of a distant tile have one.
void takeHeld(ReductionContext &ctx, RowBlock &block,
              SmallVectorImpl<Value> &dots);

/// Fills in the kernel that finds from which distance on the terms of a batch
/// and a head are what they are at the largest one (`FarTerms::isMeasured`):
/// the end of the last run of distances of which some differ. Each row of a
/// tile has a run; a block has the rows behind their keys, or those ahead.
void buildFarDistances(KeyListContext &ctx, Value into, Value block);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEDISTANCES_H
