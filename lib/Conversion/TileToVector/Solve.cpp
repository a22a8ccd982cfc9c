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

#include "KernelLowering.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tile;

/// Vectors of a row that are summed up side by side.
static constexpr int64_t vectorsAtOnce = 8;

LogicalResult KernelLowering::lowerSolve(SolveOp op) {
  Location loc = op.getLoc();
  TileType type = op.getType();
  Value matrix = buffer(op.getMatrix()), rhs = buffer(op.getRhs());
  Value out = resultBuffer(op.getResult(), op.getRhs(), op);
  auto columns = [&](Value first, int64_t vectors) {
    SmallVector<Value> at;
    for (int64_t v = 0; v < vectors; ++v)
      at.push_back(
          builder.createOrFold<arith::AddIOp>(loc, first, index(v * lanes)));
    loop(type.getRows(), 1, loc, [&](Value r) {
      SmallVector<Value> sums;
      for (Value column : at)
        sums.push_back(loadVector(rhs, {r, column}, lanes));
      auto forOp =
          scf::ForOp::create(builder, loc, index(0), r, index(1), sums);
      {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToStart(forOp.getBody());
        Value j = forOp.getInductionVar();
        Value element =
            memref::LoadOp::create(builder, loc, matrix, ValueRange{r, j});
        Value factor =
            splat(arith::NegFOp::create(builder, loc, element), lanes);
        SmallVector<Value> next;
        for (auto [column, sum] :
             llvm::zip_equal(at, forOp.getRegionIterArgs())) {
          Value row = loadVector(out, {j, column}, lanes);
          if (target.hasFma)
            next.push_back(math::FmaOp::create(builder, loc, factor, row, sum));
          else
            next.push_back(arith::AddFOp::create(
                builder, loc, sum,
                arith::MulFOp::create(builder, loc, factor, row)));
        }
        scf::YieldOp::create(builder, loc, next);
      }
      for (auto [column, sum] : llvm::zip_equal(at, forOp.getResults()))
        storeVector(sum, out, {r, column});
    });
  };
  int64_t width = vectorsAtOnce * lanes;
  int64_t whole = type.getCols() / width * width;
  if (whole)
    loop(whole, width, loc,
         [&](Value first) { columns(first, vectorsAtOnce); });
  if (type.getCols() > whole)
    columns(index(whole), (type.getCols() - whole) / lanes);
  return success();
}
