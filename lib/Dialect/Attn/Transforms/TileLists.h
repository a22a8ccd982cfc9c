//===- TileLists.h - Key tiles that a kernel has listed ---------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILELISTS_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILELISTS_H

#include "TileKernel.h"

namespace mlir::attn {

/// Where the lists of the block's query tile are.
SmallVector<Value> listIndices(ReductionContext &ctx);
/// Where the number of the n-th tile of either kind is.
Value listPlace(ReductionContext &ctx, Value tiles, Value number, bool whole);
/// That number.
Value loadListed(ReductionContext &ctx, Value number, Value isWhole);
/// A masked tile that the lists name enters the state.
SmallVector<Value> stepListed(ReductionContext &ctx, Value first, Value number,
                              Value isRagged, ValueRange state);

/// What the mask reads of the rows or of the keys of a tile, a load for each
/// of a thread's, is on its way while the scores are computed.
void loadSamples(ReductionContext &ctx, RowBlock &block);
/// The bits of the rows, as words that are on their way while the scores are
/// computed.
void loadBits(ReductionContext &ctx, RowBlock &block);
/// What a map takes besides `first`, and what it was given for that.
SmallVector<Value> withLoaded(ReductionContext &ctx, const RowBlock &block,
                              ValueRange first);
ValueRange takeLoaded(ReductionContext &ctx, RowBlock &block, ValueRange given,
                      size_t first);
/// Bit `col` % 32 of word `col` / 32. Of a thread's columns two bits are its
/// own and the others the same in all threads: apart, so that each element
/// takes one test of a constant bit.
Value liveByBits(ReductionContext &ctx, RowBlock &block, Value col);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILELISTS_H
