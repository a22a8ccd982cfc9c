//===- MergedStates.h - States of the blocks of a cluster -------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of tile_gpu.merge_states with the scope `cluster`.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_IR_MERGEDSTATES_H
#define ATTN_DIALECT_TILEGPU_IR_MERGEDSTATES_H

#include "attn/Dialect/TileGPU/IR/TileGPU.h"

namespace mlir::tile_gpu {

/// Whether each block's state is that of a warpgroup, and not of warps.
bool mergesWarpgroups(MergeStatesOp op);

/// The floats of a state that one block stores for a warp, or a warpgroup, that
/// combines: of its rows, and the statistics and vectors.
int64_t floatsOfPart(MergeStatesOp op);

/// Whether blocks of a kernel's clusters end apart, each when it knows that no
/// other block has something to say to it any more. Then no barrier ends the
/// kernel, which costs a fence of all memory: all that blocks say to each other
/// is states and numbers of items. Warps that send states wait until the last
/// have been read, by the result of their loop that counts them, and in block 0
/// the one that draws until its numbers have.
bool endsApart(KernelOp kernel);

} // namespace mlir::tile_gpu

#endif // ATTN_DIALECT_TILEGPU_IR_MERGEDSTATES_H
