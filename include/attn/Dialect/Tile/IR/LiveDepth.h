//===- LiveDepth.h - Channels that only fill rows up ------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows on chip have as many channels as a swizzle takes, 64 or 128 for 40 or
// 96, and the rest is 0. `tile.live_depth`, an i64 on a product of warpgroups,
// says how many elements of its depth may be other than 0: steps behind them
// are left out.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_IR_LIVEDEPTH_H
#define ATTN_DIALECT_TILE_IR_LIVEDEPTH_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace mlir::tile {

inline constexpr llvm::StringLiteral liveDepthName = "tile.live_depth";

/// The elements of `depth` that a product takes.
inline int64_t getLiveDepth(Operation *product, int64_t depth) {
  auto live = product->getAttrOfType<IntegerAttr>(liveDepthName);
  return live ? live.getInt() : depth;
}

} // namespace mlir::tile

#endif // ATTN_DIALECT_TILE_IR_LIVEDEPTH_H
