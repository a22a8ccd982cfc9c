//===- TileStream.h - The key tiles of a block ------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESTREAM_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESTREAM_H

#include "TileKernel.h"

namespace mlir::attn {

/// Whether key tiles are pipelined: the first one is peeled.
bool pipelined(const ReductionContext &ctx);
/// Reads the mask's region.
void readMask(ReductionContext &ctx);
/// What a value of the mask that has cells is at a row and a key (index): an
/// i32.
Value cellAt(ReductionContext &ctx, Value value, Value row, Value key);
/// What the keys of the block depend on, but for its part; of its mask, which
/// it reads.
KeyRangeProblem describeRanges(ReductionContext &ctx);
/// What the mask says of the block's rows and the keys from `first` on.
::attn::MaskAnalysis::Class classOf(ReductionContext &ctx, Value first);
/// The state after all key tiles (KeyRanges.h).
SmallVector<Value> streamKeys(ReductionContext &ctx, ValueRange state);
/// The state after one tile, of all rows of the block.
SmallVector<Value> step(ReductionContext &ctx, const KeyTile &tile,
                        ValueRange state);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESTREAM_H
