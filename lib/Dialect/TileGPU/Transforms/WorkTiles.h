//===- WorkTiles.h - Schedules of kernels ------------------------*- C++
//-*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_WORKTILES_H
#define ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_WORKTILES_H

#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::tile_gpu {

/// The `tile_gpu.scheduler` that a `tile.work_tile` becomes. A kernel without
/// one works on the blocks of its grid, in their order.
class WorkTiles {
public:
  explicit WorkTiles(tile::KernelOp kernel);

  /// Whether the kernel's new form takes the number of blocks as an argument.
  bool takesCount() const { return !op; }

  /// Makes the schedule, whose operands `mapping` has values for. `count`: the
  /// number of blocks, or null.
  FailureOr<SchedulerOp> createScheduler(OpBuilder &b, const IRMapping &mapping,
                                         ScheduleKind kind, Value tickets,
                                         Value count);
  /// Makes a loop over the schedule, with its block: what the schedule says of
  /// an item, then what is carried.
  ForeachOp createLoop(OpBuilder &b, SchedulerOp scheduler, ValueRange initial,
                       bool lead);
  /// Lets the kernel's work tile be the item of a loop, at whose start `b` is.
  void map(OpBuilder &b, ForeachOp loop, IRMapping &mapping);

private:
  LogicalResult bring(OpBuilder &b, Value value, IRMapping &mapping);

  tile::KernelOp kernel;
  tile::WorkTileOp op;
};

} // namespace mlir::tile_gpu

#endif // ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_WORKTILES_H
