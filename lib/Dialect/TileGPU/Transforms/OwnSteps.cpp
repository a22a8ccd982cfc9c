//===- OwnSteps.cpp - Steps that only some warpgroups have ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bounds of the keys that a warpgroup's own rows see (tile.row_range) leave out
// whole steps where a tile has no more keys than the warpgroup has rows: of a
// window the first warpgroup has no use for the last tile, and the last one
// none for the first. Each then has the loops of its own keys, of which fewer
// are masked, too. The tiles ahead of these and behind them are the others': it
// waits for them and gives them back, since slots count the arrivals of all.
//
//===----------------------------------------------------------------------===//

#include "SpecializeWarps.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::tile_gpu;

//===----------------------------------------------------------------------===//
// Which kernels
//===----------------------------------------------------------------------===//

/// Whether the rows of a part of the block may give another value.
static bool dependsOnRows(Value value) {
  llvm::SetVector<Value> values;
  values.insert(value);
  for (size_t i = 0; i < values.size(); ++i)
    if (Operation *def = values[i].getDefiningOp()) {
      if (isa<tile::RowRangeOp>(def))
        return true;
      values.insert_range(def->getOperands());
    }
  return false;
}

/// Moves scalars of a loop's body ahead of it that are the same each time.
static void hoistScalars(scf::ForOp loop) {
  for (Operation &op : llvm::make_early_inc_range(*loop.getBody()))
    if (isPure(&op) && !op.getNumRegions() && op.getNumResults() &&
        llvm::all_of(op.getResultTypes(),
                     [](Type type) { return type.isIntOrIndex(); }) &&
        llvm::all_of(op.getOperands(), [&](Value operand) {
          return loop.isDefinedOutsideOfLoop(operand);
        }))
      op.moveBefore(loop);
}

OwnSteps OwnSteps::find(tile::KernelOp kernel, const RolesPlan &plan) {
  // Every warpgroup more needs bounds more, which who draws the items holds,
  // and leaves fewer registers to each: of three and of four the kernels spill.
  if (!plan.halves || plan.keyWarps || plan.keyParts > 1 ||
      plan.rowMembers() != 2 || plan.keysOfStep() > plan.rows)
    return {};
  OwnSteps own;
  SmallVector<tile::RowsOp> steps;
  kernel.walk([&](tile::RowsOp rows) { steps.push_back(rows); });
  for (tile::RowsOp rows : steps)
    if (auto branch = dyn_cast<scf::IfOp>(rows->getParentOp())) {
      if (own.first)
        return {};
      own.first = rows;
      own.branch = branch;
    }
  if (!own.first || !llvm::all_of(steps, [&](tile::RowsOp rows) {
        return own.branch->isAncestor(rows);
      }))
    return {};
  for (auto loop : own.branch.thenBlock()->getOps<scf::ForOp>())
    if (onlyStep(loop))
      own.last = loop;
  // All heads that read the block's rows have the same steps.
  auto heads = dyn_cast<scf::ForOp>(own.branch->getParentOp());
  own.top = heads ? heads : own.branch.getOperation();
  if (!own.last || own.top->getParentOp() != kernel)
    return {};
  if (heads)
    hoistScalars(heads);
  for (Operation &op : *own.first->getBlock())
    if (!own.start && plan.place.contains(&op))
      own.start = cast<tile::LoadOp>(op).getIndices().drop_back().back();
  for (Value value :
       {own.start, own.last.getUpperBound(), Value(own.branch.getCondition())})
    if (!value || own.top->isAncestor(value.getParentBlock()->getParentOp()) ||
        !dependsOnRows(value))
      return {};
  return own;
}

//===----------------------------------------------------------------------===//
// A member's program
//===----------------------------------------------------------------------===//

/// The member leaves out its steps up to `end`.
void Consumer::passOver(Location loc, Value end) {
  auto rest = scf::ForOp::create(b, loc, steps, end, i32(1, loc));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(rest.getBody());
  waitForSlots(rest.getInductionVar());
  releaseSlots(rest.getInductionVar());
  steps = end;
}

/// Lets what decides on the steps be that of the member's own rows. Bounds of
/// each member are the same for all, so that the role that draws the items may
/// find them (tile-gpu-hoist-coordinates); which member this is comes last.
void Consumer::chooseOwnSteps() {
  OwnSteps own = plan.own;
  llvm::SetVector<Value> used;
  getUsedValuesDefinedAbove(own.top->getRegions(), used);
  used.insert_range(own.top->getOperands());
  // What differs between members, for each of them.
  llvm::MapVector<Value, SmallVector<Value>> differing;
  for (Value value : used) {
    if (!value.getType().isIntOrIndex() || !dependsOnRows(value))
      continue;
    SmallVector<Value> &each = differing[value];
    for (int64_t number = 0; number < plan.members(); ++number)
      each.push_back(forRowsOf(number, value));
  }
  Location loc = own.last.getLoc();
  Value first = mapping.lookup(own.start),
        step = mapping.lookup(own.last.getStep());
  stepsOfHead =
      tripCount(loc, first, mapping.lookup(own.last.getUpperBound()), step);
  // A member without live rows has no steps.
  if (Value extent = own.first.getExtent())
    for (auto [number, some] :
         llvm::enumerate(differing[own.branch.getCondition()])) {
      Value row =
          arith::ConstantIndexOp::create(b, loc, int64_t(number) * plan.rows);
      Value isLive = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                           row, mapping.lookup(extent));
      some = arith::AndIOp::create(b, loc, some, isLive);
    }
  for (auto &[value, each] : differing) {
    Value picked = each.back();
    for (int64_t number = plan.members() - 2; number >= 0; --number)
      picked = arith::SelectOp::create(b, loc, isMember(loc, number),
                                       each[number], picked);
    ofAllRows[value] = mapping.lookup(value);
    mapping.map(value, picked);
  }
  stepsAhead = arith::MinSIOp::create(
      b, loc, tripCount(loc, first, mapping.lookup(own.start), step),
      stepsOfHead);
}

void Consumer::start(Operation *op) {
  if (!plan.own)
    return;
  if (op == plan.own.top)
    chooseOwnSteps();
  if (op != plan.own.branch)
    return;
  Location loc = op->getLoc();
  allSteps = arith::AddIOp::create(b, loc, steps, stepsOfHead);
  passOver(loc, arith::AddIOp::create(b, loc, steps, stepsAhead));
}

/// Of a member without steps.
void Consumer::startRegion(Region &region) {
  if (plan.own && &region == &plan.own.branch.getElseRegion())
    passOver(region.getLoc(), allSteps);
}
