//===- Pages.h - Tiles of keys within pages ---------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile within a page is found once and loaded like any other, on GPUs by
// tensor copies. CPUs find rows one by one where tiles do not fit.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_PAGES_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_PAGES_H

#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Target/TargetInfo.h"

namespace mlir::attn {

/// The rows of a page of keys; 0 without pages, dynamic where they are unknown.
inline int64_t pageOf(ReductionOpInterface op) {
  Source source = op.getKeySource();
  auto type = cast<RankedTensorType>(op.getKeyOperands().front().getType());
  return source.is(SourceKind::paged) ? type.getDimSize(source.rowDim()) : 0;
}

/// Whether the tiles of keys that the schedule has lie within pages. Parts of
/// the keys begin anywhere.
inline bool tilesFitPages(ReductionOpInterface op) {
  ScheduleAttr schedule = op.getScheduleAttribute();
  auto partial = dyn_cast<PartialOp>(op.getOperation());
  return schedule && pageOf(op) > 0 && pageOf(op) % schedule.getBlockK() == 0 &&
         (!partial || partial.getSplits() == 1);
}

/// `blockK`, on a GPU with pages made to divide these, if tiles of as few keys
/// as that are known; attn-tile refuses the rest.
inline int64_t fitPages(ReductionOpInterface op,
                        const ::attn::TargetInfo &target, int64_t blockK) {
  constexpr int64_t least = ::attn::MmaShape::warp().m;
  int64_t page = pageOf(op);
  if (target.isCpu() || page <= 0 || page % least)
    return blockK;
  blockK = llvm::alignTo(blockK, least);
  while (page % blockK)
    blockK -= least;
  return blockK;
}

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_PAGES_H
