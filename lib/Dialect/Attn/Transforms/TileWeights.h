//===- TileWeights.h - Weights of a key tile, and sums of them --*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the steps of all monoids but `general` ones have in common: a map from
// dots to statistics and weights, and the sums over keys that weights enter.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEWEIGHTS_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEWEIGHTS_H

#include "TileAnchor.h"
#include "TileKernel.h"

namespace mlir::attn {

/// For each group: the weights in f32; those of values, in the type of the dot
/// with these and times their factor; and the sums of the former over rows;
/// null where nothing needs them.
struct Weights {
  SmallVector<Value> wide, narrow, sums;
};

/// Emits the map from dots to statistics and, where `weightsToo` says so,
/// weights: the identity and 0 where the element is dead.
SmallVector<Value> mapLift(ReductionContext &ctx, RowBlock &block,
                           ArrayRef<Value> dots, ArrayRef<WeightGroup> groups,
                           ArrayRef<bool> weightsToo);

/// The statistics of each row, of a tile of them.
SmallVector<Value> reduceStats(ReductionContext &ctx, ArrayRef<Value> stats);

/// Emits a map that ends in weights: of each one an f32 tile, where a sum
/// needs it, and one for the values' dot, in its element type and times the
/// factor of the pair.
Weights mapWeights(ReductionContext &ctx, RowBlock &block, ValueRange inputs,
                   ArrayRef<WeightGroup> groups, MapBody body);

/// components' = factor * components + sums over the tile; without factors the
/// sums are added as they are. Where there is a shift, `row` has the statistics
/// that sums are moved to; or distances of a sum from the anchor have become
/// longer by what it says, each times its weight.
SmallVector<Value> accumulate(ReductionContext &ctx, RowBlock &block,
                              ArrayRef<WeightGroup> groups,
                              const Weights &weights, ArrayRef<Value> factors,
                              const RowFactors *row = nullptr);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEWEIGHTS_H
