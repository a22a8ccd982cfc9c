//===- AskAhead.h - What a block reads first, ahead of its wait -*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_ASKAHEAD_H
#define ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_ASKAHEAD_H

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Target/TargetInfo.h"

namespace attn {

/// A copy that is asked for, and the tensor behind its map.
struct Copy {
  mlir::tile_gpu::RingLoadOp load;
  mlir::Value memref;
};

/// The argument of the kernel that is the tensor of a copy's map, or null.
mlir::Value findTensor(mlir::tile_gpu::KernelOp kernel,
                       mlir::tile_gpu::LaunchOp launch,
                       mlir::tile_gpu::RingLoadOp load);

/// Whether blocks ask for the tiles of their slots, `begin` to `ahead`, of
/// those of an item, `begin` to `end`.
mlir::Value decideAsking(mlir::OpBuilder &b, mlir::Location loc,
                         mlir::tile_gpu::SchedulerOp scheduler,
                         mlir::Value begin, mlir::Value ahead, mlir::Value end,
                         const TargetInfo &target);

/// Asks for the pages of some tiles, one behind the other, up to `before`.
void askForPages(mlir::OpBuilder &b, Copy copy, mlir::ValueRange indices,
                 int64_t tiles, mlir::Value before);

/// Asks for a tile that begins ahead of `end`, if all of it exists.
void askForTile(mlir::OpBuilder &b, Copy copy, mlir::ValueRange indices,
                mlir::Value end);

/// Lets warps that copy ask for their first slots' tiles while they wait for
/// the launch before, where each is read once: the cache that all
/// multiprocessors share has them by then, and what the launch before still
/// writes as well.
void askAhead(mlir::tile_gpu::KernelOp kernel, mlir::tile_gpu::LaunchOp launch,
              const TargetInfo &target);

/// The same where memory says what an item is, by a warp of its own.
void guessAhead(mlir::tile_gpu::KernelOp kernel,
                mlir::tile_gpu::LaunchOp launch, const TargetInfo &target);

/// Lets warps that copy find the first tiles of such an item themselves, and
/// ask for them. Whether all do that ask.
bool copyFirst(mlir::tile_gpu::KernelOp kernel, mlir::tile_gpu::LaunchOp launch,
               const TargetInfo &target);

} // namespace attn

#endif // ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_ASKAHEAD_H
