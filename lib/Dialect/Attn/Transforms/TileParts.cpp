//===- TileParts.cpp - Products of states, and parts of fixed size --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where the bits of a row are to depend on nothing beside it, keys are cut at
// multiples of a fixed number (`part_keys`). Each part is reduced from the
// identity on, and the states of parts are multiplied in order. A block that
// has all parts, as of a prompt, does in registers what blocks for each part
// and a kernel behind them do through memory, by the same operations: what a
// row goes through is the same. Other ways to carry a state over a cut do not
// do: a sum that goes on from what was there has other bits than one that
// starts at 0.
//
// A part without keys leaves the state as it was, bit by bit, so that a block
// may leave out those that none of its rows sees.
//
//===----------------------------------------------------------------------===//

#include "TileParts.h"
#include "TileAnchor.h"
#include "TileStream.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Parts of one block
//===----------------------------------------------------------------------===//

SmallVector<Value> mlir::attn::walkParts(ReductionContext &ctx) {
  KeyRangeProblem problem = describeRanges(ctx);
  KeyRanges all = emitKeyRanges(ctx.b, ctx.loc, problem);
  // Part 0 has what rows start with, also where they see none of its keys.
  Value one = ctx.index(1), size = ctx.index(ctx.partKeys);
  Value begin =
      arith::DivUIOp::create(ctx.b, ctx.max(all.lower, ctx.index(0)), size);
  Value end =
      arith::CeilDivUIOp::create(ctx.b, ctx.max(all.upper, ctx.index(0)), size);
  begin = ctx.max(begin, one);
  Value count = ctx.add(ctx.max(ctx.sub(end, begin), ctx.index(0)), one);
  auto forOp = scf::ForOp::create(ctx.b, ctx.index(0), count, one,
                                  ctx.identityState(stateTileTypes(ctx)));
  OpBuilder::InsertionGuard guard(ctx.b);
  ctx.b.setInsertionPointToStart(forOp.getBody());
  Value number = forOp.getInductionVar();
  ctx.split =
      ctx.select(ctx.cmp(arith::CmpIPredicate::eq, number, ctx.index(0)),
                 number, ctx.add(begin, ctx.sub(number, one)));
  SmallVector<Value> state = streamKeys(ctx, initialState(ctx));
  if (ctx.form.exponential)
    state = toReferencePoint(ctx, state);
  state = ctx.multiply(forOp.getRegionIterArgs(), state, /*computed=*/true,
                       /*isExact=*/true);
  scf::YieldOp::create(ctx.b, state);
  ctx.split = Value();
  return forOp.getResults();
}
