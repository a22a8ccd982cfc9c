//===- Pages.h - Tiles of keys within pages ---------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile within a page is found once and loaded like any other; of a longer one
// GPUs copy boxes, each from its page. Where neither fits, each row is found by
// itself.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_PAGES_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_PAGES_H

#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <numeric>

namespace mlir::attn {

/// Boxes of pages have a multiple of as many rows: the pattern in which shared
/// memory has 16-byte chunks repeats.
constexpr int64_t leastBox = 8;

/// The rows of a page of keys; 0 without pages, dynamic where they are unknown.
inline int64_t pageOf(ReductionOpInterface op) {
  Source source = op.getKeySource();
  auto type = cast<RankedTensorType>(op.getKeyOperands().front().getType());
  return source.is(SourceKind::paged) ? type.getDimSize(source.rowDim()) : 0;
}

/// Parts of the keys begin at multiples of so many; 1 where there are no parts,
/// or these have any keys.
inline int64_t granuleOf(ReductionOpInterface op) {
  if (auto partial = dyn_cast<PartialOp>(op.getOperation()))
    return partial.getGranule().value_or(1);
  ScheduleAttr schedule = op.getScheduleAttribute();
  bool isPaged = op.getKeySource().is(SourceKind::paged);
  return isPaged && schedule.partsFormCluster() ? schedule.getBlockK() : 1;
}

/// The most rows of which each tile that the schedule has is made up, all of
/// them in one page; 0 where that is not known. Parts begin at multiples of
/// their granule.
inline int64_t boxOf(ReductionOpInterface op) {
  ScheduleAttr schedule = op.getScheduleAttribute();
  int64_t page = pageOf(op);
  if (!schedule || page <= 0)
    return 0;
  int64_t box = std::gcd(page, schedule.getBlockK());
  auto partial = dyn_cast<PartialOp>(op.getOperation());
  if (partial && partial.getSplits() != 1)
    box = std::gcd(box, granuleOf(op));
  return box;
}

/// Whether the tiles of keys that the schedule has lie within pages.
inline bool tilesFitPages(ReductionOpInterface op) {
  int64_t box = boxOf(op);
  return box > 0 && box == op.getScheduleAttribute().getBlockK();
}

/// The rows of the boxes that its tiles are copied in; 0: there are none.
inline int64_t boxesOf(ReductionOpInterface op) {
  int64_t box = boxOf(op);
  return tilesFitPages(op) || box % leastBox ? 0 : box;
}

/// Whether each row of the keys is found by itself on a GPU: rows of caches
/// that go round, and of pages that have no boxes which a tensor copy fills.
inline bool gathersRows(ReductionOpInterface op) {
  Source source = op.getKeySource();
  int64_t page = pageOf(op);
  return source.is(SourceKind::ring) ||
         (source.is(SourceKind::paged) && (page <= 0 || page % leastBox));
}

/// `blockK`, on a GPU with pages made a multiple of them or to divide them,
/// where tiles of as few keys as that are known.
inline int64_t fitPages(ReductionOpInterface op,
                        const ::attn::TargetInfo &target, int64_t blockK) {
  constexpr int64_t least = ::attn::MmaShape::warp().m;
  int64_t page = pageOf(op);
  if (target.isCpu() || page <= 0 || page % leastBox)
    return blockK;
  blockK = llvm::alignTo(blockK, least);
  // Copies of more boxes take registers that a producer does not have.
  constexpr int64_t mostBoxes = 8;
  blockK = std::min(blockK, std::max(mostBoxes * page, least));
  if (int64_t pages = std::lcm(page, least); pages <= blockK)
    return blockK - blockK % pages;
  while (page % least == 0 && page % blockK)
    blockK -= least;
  return blockK;
}

/// How many keys a plan can tell that a sequence has at most.
inline Value countKeys(OpBuilder &b, ReductionOpInterface op) {
  Source source = op.getKeySource();
  Location loc = op->getLoc();
  auto dim = [&](Value tensor, int64_t d) -> Value {
    return tensor::DimOp::create(b, loc, tensor, d);
  };
  Value rows = dim(op.getKeyOperands().front(), source.rowDim());
  if (!source.is(SourceKind::paged))
    return rows;
  return arith::MulIOp::create(b, loc, dim(source.map, 1), rows);
}

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_PAGES_H
