//===- PlanRows.cpp - Rows of sequences as a plan counts them -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::attn;

Value PlanRows::getRows() {
  Value rows = dim(memory, source.rowDim());
  if (!source.is(SourceKind::paged))
    return rows;
  return arith::MulIOp::create(b, loc, rows, dim(map, 1));
}

SmallVector<Value> PlanRows::getLeading() {
  if (arePacked())
    return {};
  return {dim(source.hasBatch() ? memory : map, 0)};
}

Value PlanRows::countInGrid() {
  if (!arePacked())
    return getLeading().front();
  return arith::MinUIOp::create(b, loc, getRows(),
                                arith::ConstantIndexOp::create(b, loc, 1));
}

Value PlanRows::countTiles(Value rows, int64_t blockRows) {
  Value unit = arith::ConstantIndexOp::create(b, loc, blockRows);
  if (!arePacked())
    return arith::CeilDivUIOp::create(b, loc, rows, unit);
  return arith::AddIOp::create(
      b, loc, arith::DivUIOp::create(b, loc, rows, unit), dim(map, 0));
}

PlanRows PlanBuilder::rowsOf(Location loc, const Source &source, Value tensor) {
  return PlanRows(b, loc, source, mapping.lookup(tensor),
                  source.map ? mapping.lookup(source.map) : Value());
}

/// Query tiles of all sequences of a head, as one batch of `rows` has them.
Value PlanBuilder::countQueryTiles(ReductionOpInterface op, Value rows) {
  Location loc = op.getLoc();
  ScheduleAttr schedule = op.getScheduleAttribute();
  // A cluster's tiles are of one head.
  int64_t cluster = tilesOfCluster(schedule, target);
  Value tiles = rowsOf(loc, op.getQuerySource(), op.getQueryOperands().front())
                    .countTiles(rows, schedule.getBlockQ() * cluster);
  if (cluster > 1)
    tiles = arith::MulIOp::create(b, loc, tiles, index(cluster, loc));
  return tiles;
}

Value PlanBuilder::headsOfLists(ReductionOpInterface op, Value heads) {
  // Regions see the heads of queries, of which those of keys have a group.
  if (op.getReducedSide() != Side::queries)
    return heads;
  Value keys = mapping.lookup(op.getKeyOperands().front());
  return memref::DimOp::create(b, op.getLoc(), keys, 1);
}

Value PlanBuilder::isSmallScore(ReductionOpInterface op, MonoidOp monoid,
                                Value factor) {
  Location loc = op.getLoc();
  Value size = math::AbsFOp::create(b, loc, inPlan(op, factor));
  Value limit = arith::ConstantFloatOp::create(
      b, loc, b.getF32Type(), APFloat(fixedAnchorLimit(monoid)));
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLE, size, limit);
}
