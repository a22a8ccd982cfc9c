//===- PlanRows.cpp - Rows and distances as a plan counts them ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"
#include "TileBlock.h"
#include "TileDistances.h"
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

bool PlanBuilder::measureDistances(ReductionOpInterface op, MonoidOp monoid,
                                   Value batches, Value heads,
                                   SmallVectorImpl<Value> &extra) {
  if (!findFarTerms(op).isMeasured)
    return false;
  Location loc = op.getLoc();
  constexpr int64_t any = ShapedType::kDynamic;
  ScheduleAttr schedule = op.getScheduleAttribute().withCluster(1);
  // Of few tiles most have pairs that are near.
  auto areMany = [&](Value tensor, int64_t tile) -> Value {
    Value rows = memref::DimOp::create(b, loc, mapping.lookup(tensor), 2);
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, rows,
                                 index(8 * tile, loc));
  };
  Value pays = arith::AndIOp::create(
      b, loc, areMany(op.getQueryOperands().front(), schedule.getBlockQ()),
      areMany(op.getKeyOperands().front(), schedule.getBlockK()));
  batches = arith::SelectOp::create(b, loc, pays, batches, index(0, loc));
  auto type = MemRefType::get({any, any, 2}, b.getI32Type());
  extra.push_back(
      tile::WorkspaceOp::create(b, loc, type, ValueRange{batches, heads}));
  Kernel kernel =
      startKernel(op, op->getOperands(), {}, extra.back(), schedule);
  KeyListContext builder(op, monoid, target, kernel.func);
  for (auto [i, operand] : llvm::enumerate(kernel.operands))
    builder.bind(operand, kernel.func.getArgument(i));
  buildFarDistances(builder, kernel.extra[0], kernel.block);
  Value blocks = arith::MulIOp::create(b, loc, batches, heads);
  launch(loc, kernel, arith::MulIOp::create(b, loc, blocks, index(2, loc)));
  return true;
}

ArrayRef<Value> PlanBuilder::takeMarks(ReductionContext &builder,
                                       ArrayRef<Value> outputs, Marks marks) {
  if (marks == Marks::none)
    return outputs;
  (marks == Marks::written ? builder.marksOut : builder.marksIn) =
      outputs.back();
  return outputs.drop_back();
}

/// Heads of a section, where blocks would divide several times to find it, one
/// division behind the other, ahead of all that they do; else null. Of kernels
/// that read lists: others gain nothing by it (measured: docs/performance).
Value PlanBuilder::sectionOf(ReductionOpInterface op, Value batches,
                             Value heads) {
  ScheduleAttr schedule = op.getScheduleAttribute();
  if (target.isCpu() || schedule.getSection() <= 1 ||
      !schedule.getSectionKeys() || op.hasOwnSizes() ||
      schedule.getOrder() != WorkOrder::longest_first ||
      !op.getQuerySource().hasBatch())
    return {};
  Location loc = op.getLoc();
  Value key = mapping.lookup(op.getKeyOperands().front());
  auto divide = [&](Value x, Value y) -> Value {
    return arith::DivUIOp::create(b, loc, x, y);
  };
  auto atLeastOne = [&](Value x) -> Value {
    return arith::MaxSIOp::create(b, loc, x, index(1, loc));
  };
  Value keyHeads =
      memref::DimOp::create(b, loc, key, op.getKeySource().headDim());
  SectionSizes sizes = {memref::DimOp::create(b, loc, key, 2),
                        atLeastOne(divide(heads, atLeastOne(keyHeads))),
                        arith::MulIOp::create(b, loc, batches, heads)};
  return findSection(b, loc, schedule, sizes, divide);
}
