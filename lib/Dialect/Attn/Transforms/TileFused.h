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
/// that adds to them in any order, and behind it.
class RowSumsKernel : public KernelBuilder {
public:
  using KernelBuilder::KernelBuilder;
  /// Rows of one block.
  static constexpr int64_t blockRows = 64;
  /// Clears `sums`, or rounds them to `result` where that is given.
  void build(Value sums, Value result, Value numTiles, Value block);
};

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEFUSED_H
