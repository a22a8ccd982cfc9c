//===- TileWarps.h - Warps with keys of their own ---------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to attn-tile.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEWARPS_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEWARPS_H

#include "TileKernel.h"

namespace mlir::attn {

/// Whether the warps of a block take keys of their own of each tile.
inline bool warpsHaveKeys(const ReductionContext &ctx) {
  return isGpu(ctx) &&
         ::attn::warpsHaveKeys(ctx.schedule.getRows(), ctx.target);
}

/// Whether the states of several become one in the kernel: of the warps of a
/// block, or of the blocks of a cluster that have parts of the keys.
inline bool mergesStates(const ReductionContext &ctx) {
  return warpsHaveKeys(ctx) || partsOfCluster(ctx.schedule, ctx.target) > 1;
}

/// Whether warpgroups that share channels put the weights of a tile where its
/// keys have columns that are no values, so that each computes those of half of
/// the keys (tile-gpu-specialize-warps): scores of one product, and no mask but
/// the lengths of sequences.
bool hasRoomForWeights(ReductionOpInterface op, MonoidOp monoid,
                       const ::attn::ScheduleProblem &problem,
                       int64_t channels);

/// Why states of some of the keys cannot become one within a kernel; empty
/// where they can.
std::string whyNotMerged(ReductionOpInterface op, MonoidOp monoid,
                         const ::attn::TargetInfo &target);

/// Why the blocks of a cluster cannot have the parts of the keys of a tile and
/// combine their states, as the schedule says; empty where they can.
std::string whyNotOfCluster(ReductionOpInterface op, MonoidOp monoid,
                            const ::attn::TargetInfo &target);

/// Whether two blocks, which have all rows of a sequence, share the copies of
/// its latents: that saves power, with which clocks rise. Of 128 rows, pages of
/// 64 keys and whole rows of blocks that was measured
/// (docs/performance/gpu-serving.md).
bool pairsLatents(ReductionOpInterface op,
                  const ::attn::ScheduleProblem &problem,
                  const ::attn::ScheduleSizes &sizes, int64_t splits,
                  const ::attn::TargetInfo &target);

/// Fails where the schedule asks for that and it cannot be.
LogicalResult verifyWarpKeys(ReductionOpInterface op, MonoidOp monoid,
                             const ::attn::TargetInfo &target);

/// Whether a sum of weights alone shows a NaN that a maximum has passed by.
bool showsNaN(MonoidOp monoid);

/// One state of those of all warps, and of the blocks of a cluster that have
/// parts of the keys. Each warp, or block, then has some channels: statistics
/// are in the units of the monoid.
SmallVector<Value> mergeStates(ReductionContext &ctx, ValueRange state);

/// One state of those that several places have. With `mayHideNaN` a maximum may
/// have passed a NaN by, which a sum of weights shows.
SmallVector<Value> createMerge(KernelBuilder &ctx, MonoidOp monoid,
                               ValueRange state, bool mayHideNaN, Value part,
                               IntegerAttr cluster, IntegerAttr warps);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEWARPS_H
