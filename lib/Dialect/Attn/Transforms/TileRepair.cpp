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

#include "TileRepair.h"
#include "TileAnchor.h"
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
                           /*block_v=*/0, /*share=*/0, given.getRotate(),
                           /*pairs=*/std::nullopt);
}

//===----------------------------------------------------------------------===//
// Marks
//===----------------------------------------------------------------------===//

void mlir::attn::storeMarks(ReductionContext &ctx, ValueRange state) {
  Value marks;
  for (unsigned i = 0; i < ctx.numComponents(); ++i) {
    if (ctx.monoid.getComponent(i) != Component::value)
      continue;
    Value sum = ctx.rowSum(state[ctx.numStats() + i]);
    if (marks)
      sum = ctx.map({marks, sum}, {sum.getType()},
                    [&](Value, Value, ValueRange x) -> SmallVector<Value> {
                      return {arith::AddFOp::create(ctx.b, x[0], x[1])};
                    })
                .front();
    marks = sum;
  }
  if (ctx.form.redoesFar)
    marks = ctx.map({marks, state[0]}, {marks.getType()},
                    [&](Value, Value, ValueRange x) -> SmallVector<Value> {
                      Value no = arith::ConstantIntOp::create(ctx.b, false, 1);
                      Value far =
                          ctx.select(ctx.isIdentity(x[1]), no,
                                     isFar(ctx, x[1], /*orAt=*/isF16(ctx)));
                      return {ctx.select(
                          far, ctx.f32(std::numeric_limits<float>::quiet_NaN()),
                          x[0])};
                    })
                .front();
  if (ctx.isPartial)
    ctx.storeRows(marks, ctx.marksOut, ctx.split ? ctx.split : ctx.index(0));
  else
    ctx.storeRows(marks, ctx.marksOut);
}

Value mlir::attn::hasMark(ReductionContext &ctx) {
  SmallVector<Value> leading;
  if (ctx.isPartial)
    leading.push_back(ctx.split ? ctx.split : ctx.index(0));
  Value marks = ctx.openSource(ctx.marksIn, ctx.rowSource, ctx.rowsRest(),
                               /*vector=*/true);
  int64_t cols = ::attn::paddedKeys(ctx.schedule.getBlockQ(), ctx.target);
  Value sums = tile::LoadOp::create(
      ctx.b, ctx.tileType(1, cols, ctx.b.getF32Type()), marks,
      ctx.at(ctx.head, ctx.row0, /*channel=*/false, leading), ctx.row0,
      ctx.add(ctx.row0, ctx.liveRows),
      /*live=*/Value(), /*vector=*/true, /*transposed=*/true);
  Type truths = ctx.tileType(1, cols, ctx.b.getI1Type());
  Value areNaN = ctx.map(sums, truths,
                         [&](Value, Value, ValueRange x) {
                           return SmallVector<Value>{arith::CmpFOp::create(
                               ctx.b, arith::CmpFPredicate::UNO, x[0], x[0])};
                         })
                     .front();
  return tile::AnyOp::create(ctx.b, ctx.b.getI1Type(), areNaN);
}
