//===- KeyRanges.h - The keys that a block visits ---------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to attn-tile. Where the keys begin and end that rows of a block see,
// as values; and the stream of key tiles over them (`tile.stream`), of which
// the caller builds each class of tile once.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_KEYRANGES_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_KEYRANGES_H

#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Tile/IR/Tile.h"

namespace mlir::attn {

/// The keys of a block by class, all of type index but `valid`.
struct KeyRanges {
  /// Those of the block's part; tiles are counted from `first` on.
  Value first, end;
  /// Outside of these no row of the block has a key.
  Value lower, upper;
  /// These every row has; null where none are known of.
  Value coreLower, coreUpper;
  /// What says that the analysis of the mask reads it right (i1); null without
  /// a mask.
  Value valid;
};

/// What the ranges of a block depend on.
struct KeyRangeProblem {
  Value numKeys;
  /// Where keys end for the rows of the block: at `numKeys`, or at 0 if it has
  /// no rows.
  Value limit;
  /// With a mask, its values in the kernel and the rows of the block.
  const ::attn::MaskAnalysis *mask = nullptr;
  ::attn::MaskAnalysis::UniformFn uniform = {};
  Value firstRow = {}, lastRow = {};
  /// Parts of a block may end with the keys of their own rows.
  bool endsByRows = false;
  /// The number of the block's part among `parts`; both null where there is
  /// one.
  Value split = {}, parts = {};
  /// What the keys of a part are a multiple of; and how many it has, where that
  /// is fixed (`parts` is null then), or 0.
  int64_t granule = 1, partKeys = 0;
};
KeyRanges emitKeyRanges(OpBuilder &b, Location loc,
                        const KeyRangeProblem &problem);

/// Whether the mask's integers never wrap: its captures are numbers of rows and
/// of keys of this reduction, which positions are below.
bool isAlwaysValid(ReductionOpInterface op, const ::attn::MaskAnalysis &mask);

/// What the bodies of a stream make of a tile. Arguments are those of
/// `tile.stream`, of which the state comes apart; an empty function leaves a
/// body out.
struct StreamBodies {
  using Body = std::function<SmallVector<Value>(ValueRange, ValueRange)>;
  Body number, classify, full, linear, partial;
};

/// Tiles of the keys of a score that is linear (FoldLinearBias.cpp): where
/// `fits` holds, those before `end` and from `start` on, or all.
struct LinearRange {
  Value fits, end, start;
};

SmallVector<Value> emitStream(OpBuilder &b, Location loc,
                              const KeyRanges &ranges,
                              const LinearRange &linear, int64_t step,
                              ValueRange state, const StreamBodies &bodies);
/// Over listed tiles: how many are partial and full, and whether numbers are
/// looked up ahead.
SmallVector<Value> emitListedStream(OpBuilder &b, Location loc,
                                    Value numPartial, Value numFull, bool ahead,
                                    int64_t step, ValueRange state,
                                    const StreamBodies &bodies);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_KEYRANGES_H
