//===- WorkTiles.cpp - Schedules of kernels -------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sizes of the domain come before the schedule, once for all items. What
// finds the sequence of a tile goes into its body, which the warp that draws
// the items evaluates for all roles; it passes over tiles that do not exist.
//
//===----------------------------------------------------------------------===//

#include "WorkTiles.h"
#include "attn/Dialect/Tile/IR/WorkTiles.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::tile_gpu;

WorkTiles::WorkTiles(tile::KernelOp kernel) : kernel(kernel) {
  auto ops = kernel.getBody().front().getOps<tile::WorkTileOp>();
  if (!ops.empty())
    op = *ops.begin();
}

static Value toI32(OpBuilder &b, Location loc, Value value) {
  return arith::IndexCastOp::create(b, loc, b.getI32Type(), value);
}

/// Computes `value` from the kernel's arguments, which `mapping` has.
LogicalResult WorkTiles::bring(OpBuilder &b, Value value, IRMapping &mapping) {
  if (mapping.contains(value))
    return success();
  Operation *def = value.getDefiningOp();
  if (def->getNumRegions() || !isMemoryEffectFree(def) ||
      isa<tile::TileDialect>(def->getDialect()))
    return op.emitOpError("expected sizes computed from the kernel's arguments "
                          "alone, but got one that takes '")
           << def->getName() << "'";
  for (Value operand : def->getOperands())
    if (failed(bring(b, operand, mapping)))
      return failure();
  b.clone(*def, mapping);
  return success();
}

FailureOr<SchedulerOp> WorkTiles::createScheduler(OpBuilder &b,
                                                  const IRMapping &outer,
                                                  ScheduleKind kind,
                                                  Value tickets, Value count) {
  Location loc = op ? op.getLoc() : kernel.getLoc();
  IRMapping mapping = outer;
  Value tiles = count, heads, batch, splits, section;
  auto order = attn::WorkOrder::in_order;
  IntegerAttr cluster;
  bool byParts = false;
  if (op) {
    if (!op.getNumber().hasOneUse())
      return op.emitOpError("expected no other use of the block's number in a "
                            "kernel for GPUs, whose blocks take many");
    for (Value operand : op->getOperands().drop_front())
      if (failed(bring(b, operand, mapping)))
        return failure();
    auto get = [&](Value value) -> Value {
      return value ? toI32(b, loc, mapping.lookup(value)) : Value();
    };
    tiles = get(op.getTiles());
    heads = get(op.getHeads());
    batch = get(op.getBatches());
    splits =
        matchPattern(op.getParts(), m_One()) ? Value() : get(op.getParts());
    section = get(op.getSection());
    // Tiles of sequences are placed once they are found. Only those of a
    // dynamic schedule are drawn for clusters.
    if (!op.getOffsets())
      order = op.getOrder();
    if (kind == ScheduleKind::Dynamic) {
      cluster = op.getClusterAttr();
      byParts = op.getByParts();
    }
  }
  auto one = [&] { return arith::ConstantIntOp::create(b, loc, 1, 32); };
  if (!heads)
    heads = one();
  if (!batch)
    batch = one();
  auto scheduler = SchedulerOp::create(
      b, loc, ScheduleType::get(b.getContext()), kind, order, tickets, tiles,
      heads, batch, splits, section, cluster, byParts, /*place=*/PlaceAttr());
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Type> four(4, b.getI32Type());
  Block *body = b.createBlock(&scheduler.getBody(), {}, four,
                              SmallVector<Location>(4, loc));
  SmallVector<Value> found;
  if (op && op.getOffsets()) {
    tile::SequenceTile at = tile::findSequence(b, op, body->getArgument(0),
                                               mapping.lookup(op.getOffsets()),
                                               mapping.lookup(op.getRows()));
    if (kind == ScheduleKind::Dynamic)
      SkipOp::create(b, loc, at.isEmpty);
    found = {at.sequence, at.tile};
  } else if (op && op.getCounts() && kind == ScheduleKind::Dynamic) {
    SkipOp::create(b, loc,
                   tile::hasNoRows(b, op, body->getArgument(0),
                                   body->getArgument(2),
                                   mapping.lookup(op.getCounts())));
  }
  YieldOp::create(b, loc, found);
  return scheduler;
}

ForeachOp WorkTiles::createLoop(OpBuilder &b, SchedulerOp scheduler,
                                ValueRange initial, bool lead) {
  OpBuilder::InsertionGuard guard(b);
  Location loc = kernel.getLoc();
  auto loop =
      ForeachOp::create(b, loc, initial.getTypes(), scheduler, initial, lead);
  Block &body = scheduler.getBody().front();
  SmallVector<Type> types(body.getArgumentTypes());
  llvm::append_range(types, body.getTerminator()->getOperandTypes());
  llvm::append_range(types, initial.getTypes());
  b.createBlock(&loop.getBody(), {}, types,
                SmallVector<Location>(types.size(), loc));
  return loop;
}

void WorkTiles::map(OpBuilder &b, ForeachOp loop, IRMapping &mapping) {
  auto item = loop.getItemArgs();
  auto index = [&](unsigned i) -> Value {
    return arith::IndexCastOp::create(b, kernel.getLoc(), b.getIndexType(),
                                      item[i]);
  };
  if (!op) {
    mapping.map(kernel.getArguments().back(), index(0));
    return;
  }
  mapping.map(op.getTile(), op.getOffsets() ? item[5] : index(0));
  mapping.map(op.getHead(), index(1));
  mapping.map(op.getBatch(), op.getOffsets() ? item[4] : index(2));
  mapping.map(op.getPart(), index(3));
}
