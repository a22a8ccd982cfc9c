//===- TileBlock.h - Where a block is, and its queries ----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEBLOCK_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEBLOCK_H

#include "TileKernel.h"

namespace mlir::attn {

/// The rows of a kernel's sequences: those of a batch, or packed, one sequence
/// after the other in one tensor.
class SequenceRows {
public:
  SequenceRows(KernelBuilder &k, Value memory);
  bool arePacked() const { return k.rowSource.is(SourceKind::varlen); }
  /// Null where offsets say how many sequences there are.
  Value getBatches() const;
  /// Says where packed rows begin.
  void describe(tile::WorkTileOp work, int64_t blockRows) const;
  /// The work tile's batch (i32), as captures are asked by it: what they have
  /// of the rows behind the last sequence is not looked at.
  Value batchOfCaptures() const;

private:
  KernelBuilder &k;
  Value memory;
  /// Of packed rows, how many there are.
  Value all;
};

/// What a section depends on: the keys of a head, the query heads of a key
/// head, and the heads of all batches, or null where sections need not be of as
/// many heads each.
struct SectionSizes {
  Value keys, group, heads;
};
/// Heads of a section of more than one: as many as leave their keys and values
/// in a cache, at least those of one key head. Where the last rows come first,
/// sections are of as many heads each: the last one ends the launch.
Value findSection(OpBuilder &b, Location loc, ScheduleAttr schedule,
                  SectionSizes sizes, function_ref<Value(Value, Value)> divide);

/// Finds the block's batch, heads, rows and part of the keys.
void locateBlock(ReductionContext &ctx, Value numTiles, Value block);
/// How many rows and keys the sequence of the block has.
void findExtents(ReductionContext &ctx);
/// The rows of a tile of packed heads, of `group` heads.
void locatePacked(ReductionContext &ctx, Value group);
/// The first and the last position of the rows of the tile.
std::pair<Value, Value> tilePositions(ReductionContext &ctx);

/// Loads the tiles of the queries.
void loadQueries(ReductionContext &ctx);
/// An element of the queries, f32, as products take it.
Value scaledQuery(ReductionContext &ctx, Value element);
/// A tensor of keys or values as a source.
Value openKeys(ReductionContext &ctx, Value tensor);
/// Where the products take keys from.
Value openMultiplied(ReductionContext &ctx, Value tensor);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEBLOCK_H
