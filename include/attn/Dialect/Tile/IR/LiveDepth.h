//===- LiveDepth.h - Channels that only fill rows up ------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows on chip have as many channels as a swizzle takes, 64 or 96 for 40 or
// 72, and the rest is 0. `tile.live_depth`, an i64 on a product of warpgroups,
// says how many elements of its depth may be other than 0: steps behind them
// are left out. `tile.live_width` says how many columns of a sum may be.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_IR_LIVEDEPTH_H
#define ATTN_DIALECT_TILE_IR_LIVEDEPTH_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include <algorithm>

namespace mlir::tile {

inline constexpr llvm::StringLiteral liveDepthName = "tile.live_depth";
inline constexpr llvm::StringLiteral liveWidthName = "tile.live_width";

/// The elements of `depth` that a product takes.
inline int64_t getLiveDepth(Operation *product, int64_t depth) {
  auto live = product->getAttrOfType<IntegerAttr>(liveDepthName);
  return live ? live.getInt() : depth;
}

/// The columns, of `width`, that a product adds to: it says so only where it
/// has a sum to add to, whose other columns stay 0.
inline int64_t getLiveWidth(Operation *product, int64_t width) {
  auto live = product->getAttrOfType<IntegerAttr>(liveWidthName);
  return live ? std::min(live.getInt(), width) : width;
}

} // namespace mlir::tile

#endif // ATTN_DIALECT_TILE_IR_LIVEDEPTH_H
