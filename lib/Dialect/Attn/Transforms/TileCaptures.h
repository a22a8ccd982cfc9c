//===- TileCaptures.h - Elements of scores in shared memory -----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What scores read of each pair is a tile that is loaded with the keys of a
// step.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILECAPTURES_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILECAPTURES_H

#include "TileKernel.h"
#include "attn/Analysis/Schedule.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::attn {

/// The elements of captures that scores read of each pair: the last indices are
/// the row and the key, and those before no positions of either.
SmallVector<tensor::ExtractOp> findPairElements(ReductionOpInterface op);

/// Those whose tiles tensor copies bring, by the schedule.
SmallVector<tensor::ExtractOp> findCopiedPairs(ReductionOpInterface op);

/// What keeps the kernel of a schedule from copying elements of pairs, or
/// nothing.
std::string whyNotCopied(ReductionOpInterface op, ScheduleAttr schedule,
                         const ::attn::TargetInfo &target);
/// What a block has no room in for them, or nothing.
std::string whyNoRoom(ReductionOpInterface op, ScheduleAttr schedule,
                      ::attn::ScheduleProblem problem,
                      const ::attn::TargetInfo &target);

/// Maps the tensors of copied elements, as they are in memory, to themselves
/// where tensor copies take all of them (i1, returned), and else to empty ones.
Value mapCopiedPairs(OpBuilder &b, ReductionOpInterface op, IRMapping &mapping);

/// Loads the tiles of the block's rows, for a kernel that copies them.
void loadPairElements(ReductionContext &ctx, const KeyTile &tile,
                      SmallVectorImpl<std::pair<Value, Value>> &loaded);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILECAPTURES_H
