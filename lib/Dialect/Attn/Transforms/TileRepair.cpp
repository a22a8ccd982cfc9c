//===- TileRepair.cpp - Values of keys that a score of -inf kills ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A key that a bias of -inf kills has the weight 0, and a matrix product
// multiplies its values by it all the same: 0 times NaN is NaN. Which keys
// those are only the elements of the bias tell, and asking before every tile
// would cost all programs what few need. So the kernel does not ask. It writes,
// for each row, the sum of what it has summed up, which is NaN where a NaN came
// in; and a second kernel, in whose mask the bias is, runs for the tiles of
// rows with such a mark, and ends at once for all others. With it goes the test
// that hides the NaN of a dead key's dot, where a NaN reaches every weight.
//
// The price where no row has one: a row sum and a store for each row, and a
// launch whose blocks read 64 marks each (docs/performance).
// What kills a key, GuardDeadScores.cpp knows.
//
//===----------------------------------------------------------------------===//

#include "TileKernel.h"
#include "attn/Analysis/Schedule.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn;

ScheduleAttr mlir::attn::scheduleOfRepair(ReductionOpInterface op,
                                          const ::attn::TargetInfo &target) {
  ScheduleAttr given = op.getScheduleAttribute();
  ::attn::ScheduleSizes sizes = {given.getBlockQ(), given.getRows(),
                                 given.getBlockK()};
  if (!target.isCpu()) {
    ::attn::ScheduleProblem problem;
    auto collect = [&](ValueRange tensors, std::vector<int64_t> &widths) {
      bool narrow = true;
      for (Value tensor : tensors) {
        auto type = cast<ShapedType>(tensor.getType());
        widths.push_back(type.getShape().back());
        Type element = type.getElementType();
        narrow &= target.multiplies(element.isBF16(), element.isF16());
      }
      return narrow;
    };
    std::vector<int64_t> keys;
    problem.narrowDots = collect(op.getQueryOperands(), problem.depths) &&
                         collect(op.getKeyOperands(), keys);
    problem.narrowValues = collect(op.getValueOperands(), problem.channels);
    problem.rowScalars = 4;
    problem.masked = true;
    // Tiles of warps, each of which stops for itself.
    problem.wholeTiles = false;
    problem.numQueries = marksOfBlock;
    sizes = ::attn::chooseSizes(problem, target);
    sizes.blockK = fitPages(op, target, sizes.blockK);
  }
  return ScheduleAttr::get(op.getContext(), sizes.blockQ, sizes.rows,
                           sizes.blockK, given.getSplits(), LoopShape::masked,
                           /*stages=*/0, ProductOverlap::next_step, Turns::none,
                           /*pack_heads=*/false, /*cluster=*/1,
                           Fetch::automatic, /*occupancy=*/1, given.getOrder(),
                           given.getSection(), given.getSectionKeys(),
                           /*block_v=*/0, /*share=*/0, given.getRotate());
}

//===----------------------------------------------------------------------===//
// Marks
//===----------------------------------------------------------------------===//

void ReductionKernel::storeMarks(ValueRange state) {
  Value marks;
  for (unsigned i = 0; i < numComponents(); ++i) {
    if (monoid.getComponent(i) != Component::value)
      continue;
    Value sum = rowSum(state[numStats() + i]);
    if (marks)
      sum = map({marks, sum}, {sum.getType()},
                [&](Value, Value, ValueRange x) -> SmallVector<Value> {
                  return {arith::AddFOp::create(b, loc, x[0], x[1])};
                })
                .front();
    marks = sum;
  }
  if (isPartial)
    storeRows(marks, marksOut, split ? split : index(0));
  else
    storeRows(marks, marksOut);
}

/// Whether some row of the tile has a mark. Marks lie along columns, which all
/// warps of a block hold: what follows is for all of them or for none.
Value ReductionKernel::hasMark() {
  SmallVector<Value> leading;
  if (isPartial)
    leading.push_back(split ? split : index(0));
  Value marks = openSource(marksIn, rowSource, rowsRest(), /*vector=*/true);
  int64_t cols = ::attn::paddedKeys(schedule.getBlockQ(), target);
  Value sums = tile::LoadOp::create(
      b, loc, tileType(1, cols, b.getF32Type()), marks,
      at(head, row0, /*channel=*/false, leading), row0, add(row0, liveRows),
      /*live=*/Value(), /*vector=*/true, /*transposed=*/true);
  Type truths = tileType(1, cols, b.getI1Type());
  Value areNaN = map(sums, truths, [&](Value, Value, ValueRange x) {
                   return SmallVector<Value>{arith::CmpFOp::create(
                       b, loc, arith::CmpFPredicate::UNO, x[0], x[0])};
                 }).front();
  return tile::AnyOp::create(b, loc, b.getI1Type(), areNaN);
}
