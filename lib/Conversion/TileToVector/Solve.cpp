//===- Solve.cpp - Triangular systems by substitution ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows one after the other, each vectorised along its columns: several vectors
// at a time, whose sums do not wait for each other.
//
//===----------------------------------------------------------------------===//

#include "VectorContext.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tile;

/// Vectors of a row that are summed up side by side.
static constexpr int64_t vectorsAtOnce = 8;

LogicalResult mlir::tile::lowerSolve(VectorContext &ctx, SolveOp op) {
  Location loc = op.getLoc();
  TileType type = op.getType();
  Value matrix = ctx.buffer(op.getMatrix()), rhs = ctx.buffer(op.getRhs());
  Value out = ctx.resultBuffer(op.getResult(), op.getRhs(), op);
  auto columns = [&](Value first, int64_t vectors) {
    SmallVector<Value> at;
    for (int64_t v = 0; v < vectors; ++v)
      at.push_back(ctx.builder.createOrFold<arith::AddIOp>(
          loc, first, ctx.index(v * ctx.lanes)));
    ctx.loop(type.getRows(), 1, loc, [&](Value r) {
      SmallVector<Value> sums;
      for (Value column : at)
        sums.push_back(ctx.loadVector(rhs, {r, column}, ctx.lanes));
      auto forOp = scf::ForOp::create(ctx.builder, loc, ctx.index(0), r,
                                      ctx.index(1), sums);
      {
        OpBuilder::InsertionGuard guard(ctx.builder);
        ctx.builder.setInsertionPointToStart(forOp.getBody());
        Value j = forOp.getInductionVar();
        Value element =
            memref::LoadOp::create(ctx.builder, loc, matrix, ValueRange{r, j});
        Value factor = ctx.splat(
            arith::NegFOp::create(ctx.builder, loc, element), ctx.lanes);
        SmallVector<Value> next;
        for (auto [column, sum] :
             llvm::zip_equal(at, forOp.getRegionIterArgs())) {
          Value row = ctx.loadVector(out, {j, column}, ctx.lanes);
          if (ctx.target.hasFma)
            next.push_back(
                math::FmaOp::create(ctx.builder, loc, factor, row, sum));
          else
            next.push_back(arith::AddFOp::create(
                ctx.builder, loc, sum,
                arith::MulFOp::create(ctx.builder, loc, factor, row)));
        }
        scf::YieldOp::create(ctx.builder, loc, next);
      }
      for (auto [column, sum] : llvm::zip_equal(at, forOp.getResults()))
        ctx.storeVector(sum, out, {r, column});
    });
  };
  int64_t width = vectorsAtOnce * ctx.lanes;
  int64_t whole = type.getCols() / width * width;
  if (whole)
    ctx.loop(whole, width, loc,
             [&](Value first) { columns(first, vectorsAtOnce); });
  if (type.getCols() > whole)
    columns(ctx.index(whole), (type.getCols() - whole) / ctx.lanes);
  return success();
}
