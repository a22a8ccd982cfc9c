//===- TileGroup.cpp - Reductions over the queries of a key head ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Over queries the rows of a block are those of a key head, and what is reduced
// are the queries of all heads that read it: a loop over these heads around the
// walk over the tiles of one. All that regions see of a head, and with it the
// bounds of a mask, belongs to that loop.
//
//===----------------------------------------------------------------------===//

#include "TileGroup.h"
#include "TileStream.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

bool mlir::attn::hasGroup(ReductionOpInterface op) {
  if (op.getReducedSide() == Side::keys)
    return false;
  auto headsOf = [](Value tensor, const Source &source) {
    return cast<RankedTensorType>(tensor.getType())
        .getDimSize(source.headDim());
  };
  int64_t rows = headsOf(op.getQueryOperands().front(), op.getQuerySource());
  int64_t reduced = headsOf(op.getKeyOperands().front(), op.getKeySource());
  return rows != reduced || ShapedType::isDynamic(rows);
}

SmallVector<Value> mlir::attn::walkGroup(ReductionContext &ctx,
                                         SmallVector<Value> state) {
  Value reducedHeads = ctx.dim(ctx.arg(ctx.reduction.getKeyOperands().front()),
                               ctx.keySource.headDim());
  Value rowHeads = ctx.dim(ctx.arg(ctx.reduction.getQueryOperands().front()),
                           ctx.rowSource.headDim());
  Value group = arith::DivUIOp::create(ctx.b, reducedHeads,
                                       ctx.max(rowHeads, ctx.index(1)));
  auto forOp =
      scf::ForOp::create(ctx.b, ctx.index(0), group, ctx.index(1), state);
  OpBuilder::InsertionGuard guard(ctx.b);
  ctx.b.setInsertionPointToStart(forOp.getBody());
  // What was found of regions of pairs was found for all heads.
  std::pair<Value, Value> rowHead(ctx.head, ctx.headI32);
  Operation *outerPoint = ctx.uniformPoint;
  llvm::DenseMap<Value, Value> outerValues;
  std::swap(outerValues, ctx.uniformValues);
  ctx.varyingValues.clear();
  ctx.headVaries = false;
  ctx.head = ctx.keyHead =
      ctx.add(ctx.mul(ctx.head, group), forOp.getInductionVar());
  ctx.headI32 = ctx.toI32(ctx.head);
  ctx.uniformPoint = ctx.index(0).getDefiningOp();
  ValueRange carried = forOp.getRegionIterArgs();
  scf::YieldOp::create(ctx.b, streamKeys(ctx, carried));
  std::tie(ctx.head, ctx.headI32) = rowHead;
  ctx.uniformPoint = outerPoint;
  ctx.uniformValues = std::move(outerValues);
  ctx.varyingValues.clear();
  return forOp.getResults();
}
