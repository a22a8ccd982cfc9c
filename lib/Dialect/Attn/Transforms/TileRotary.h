//===- TileRotary.h - Channels that turn ------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEROTARY_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEROTARY_H

#include "TileKernel.h"

namespace mlir::attn {

/// Whether this kernel turns them.
inline bool turnsRows(ReductionContext &ctx) {
  return ctx.reduction.getRotaryAttribute() && !isGpu(ctx);
}
/// Loads a part of some rows.
using LoadPart = function_ref<Value(Value tensor, int64_t width, ValueRange)>;
/// The parts of rows whose products are added up: both channels of each pair,
/// turned, and the channels behind the pairs.
SmallVector<Value> turnQueries(ReductionContext &ctx);
SmallVector<Value> turnKeys(ReductionContext &ctx, const KeyTile &tile,
                            LoadPart load);
/// A tile of keys, turned where a GPU has copied it.
Value turnInPlace(ReductionContext &ctx, const KeyTile &tile, Value keys);
/// The dots of the one pair, of the parts that turn.
Value dotParts(ReductionContext &ctx, RowBlock &block);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEROTARY_H
