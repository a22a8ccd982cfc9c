//===- PipelineSteps.h - The steps of a reduction over keys -----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What tile-gpu-assign-stages knows of the steps that it writes stages on.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_PIPELINESTEPS_H
#define ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_PIPELINESTEPS_H

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::tile_gpu {

/// A product whose sum only the next step reads.
struct LateProduct {
  MmaIssueOp issue;
  MmaWaitOp wait;
  /// Gives its right operand; and what gives that slot back.
  RingWaitOp slot;
  RingReleaseOp release;
  /// Makes its left operand; and scales its accumulator, or null.
  Operation *pack = nullptr;
  MapOp scale;
};

enum class Kind { First, Loop, Tail };

/// The products of one step, and where they are.
struct Step {
  Step(Kind kind, Block *block, Operation *end)
      : kind(kind), block(block), end(end) {}

  Kind kind;
  Block *block;
  /// The first operation behind the step.
  Operation *end;
  SmallVector<MmaIssueOp> early;
  SmallVector<MmaWaitOp> earlyWaits;
  /// What holds the early products in its branches, one set in each; or null.
  scf::IfOp forms;
  SmallVector<LateProduct> late;
};

struct Chain {
  /// The one ahead of the loops first, the one in a conditional behind them
  /// last.
  SmallVector<Step> steps;
  SmallVector<scf::ForOp> loops;
  scf::IfOp tail;
  /// Of each late product, whether its sum is scaled ahead of it, in stage 1.
  SmallVector<bool> delayed;
  /// And whether ahead of the early products too, and not between these and its
  /// own.
  SmallVector<bool> scaledAhead;

  MutableArrayRef<Step> ofLoops() {
    return MutableArrayRef(steps).slice(1, loops.size());
  }
};

/// Finds the chain of steps that starts with `loop` and the step ahead of it.
/// Otherwise says why not in `reason`, which stays empty for a loop without
/// products and for one whose products are put off already.
std::optional<Chain> findSteps(scf::ForOp loop, std::string &reason);

/// The views between a tile and the slot or allocation it is in, the last one
/// first.
SmallVector<Operation *, 2> viewsOf(Value tile);
Value viewed(Value tile);
RingWaitOp slotOf(Value tile);
/// The release in `block` of the slot that `wait` gave.
RingReleaseOp releaseOf(RingWaitOp wait, Block &block);

} // namespace mlir::tile_gpu

#endif // ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_PIPELINESTEPS_H
