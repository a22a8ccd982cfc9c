//===- TileFused.h - Memory that any order is added to ----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEFUSED_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEFUSED_H

#include "TileKernel.h"

namespace mlir::attn {

/// What a GPU does with the memory of sums over rows, f32, ahead of the kernel
/// that adds to them, and behind it.
class RowSumsKernel : public KernelBuilder {
public:
  using KernelBuilder::KernelBuilder;
  /// Rows of one block.
  static constexpr int64_t blockRows = 64;
  /// Clears the sums, or counters of turns where there are some, or rounds the
  /// sums, of steps of so many rows, to the result.
  void build(const RowSum &sum, bool clears, int64_t stepRows, Value numTiles,
             Value block);
};

/// Why blocks of a GPU cannot take turns in the sums over keys; empty where
/// they can. Of each row it takes key tiles from the first to some last one.
std::string whyNoTurns(AggregateOp overKeys, AggregateOp overQueries);
/// How many queries see the tile of keys in the middle of all, by the bounds of
/// a mask that are the same for all heads.
Value queriesOfMiddle(OpBuilder &b, AggregateOp overQueries, Value numQueries,
                      Value numKeys, const IRMapping &mapping);
/// Whether threads have all rows of a head, one after the other: sums in memory
/// have an order.
inline bool sumsHaveOrder(const ReductionContext &ctx) {
  return ctx.target.isCpu();
}
/// Runs `body` for each tile of rows, of which a block has all.
void walkRowTiles(ReductionContext &ctx, Value numTiles,
                  function_ref<void()> body);
/// Makes the tiles that weights are multiplied by, and adds what holds weights
/// to a state.
void startRowSums(ReductionContext &ctx, SmallVectorImpl<Value> &state);
/// Adds the weights of a key tile, which are last in `state`.
void enterRowSums(ReductionContext &ctx, const KeyTile &tile, ValueRange state);
/// A state after a tile of which no pair is live.
SmallVector<Value> withoutWeights(ReductionContext &ctx, ValueRange state);
/// Tiles for weights, of none.
void appendNoWeights(ReductionContext &ctx, SmallVectorImpl<Value> &state);
/// Whether a mask says no more than which pairs are dead by an element of their
/// score: they have no weight without it, where rows of the dots are finite.
bool diesByElement(AggregateOp op);
/// `rows`, with 0 for what is not finite.
Value finiteRows(ReductionContext &ctx, Value rows, Type element);
/// The rows that some row of the reduced ones sees: what is behind them must
/// not reach a sum.
std::pair<Value, Value> seenRows(ReductionContext &ctx);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEFUSED_H
