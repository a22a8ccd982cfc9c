//===- GuessItem.cpp - An item that memory finds, told ahead --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GuessItem.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tile_gpu;

::attn::ItemGuess::ItemGuess(KernelOp kernel, WaitDependenciesOp wait)
    : kernel(kernel), wait(wait),
      scheduler(cast<SchedulerOp>(wait->getParentOp())) {}

/// A schedule of the items that blocks begin with, which are those of their
/// numbers.
static SchedulerOp createFirstItems(SchedulerOp scheduler) {
  OpBuilder b(scheduler->getContext());
  b.setInsertionPointAfter(scheduler);
  Location loc = scheduler.getLoc();
  auto first = SchedulerOp::create(
      b, loc, scheduler.getType(), ScheduleKind::Grid, scheduler.getOrder(),
      /*tickets=*/Value(), scheduler.getTiles(), scheduler.getHeads(),
      scheduler.getBatch(), scheduler.getSplits(), scheduler.getSection(),
      /*cluster=*/IntegerAttr(), /*by_parts=*/false, /*place=*/PlaceAttr());
  Block &search = scheduler.getBody().front();
  b.createBlock(&first.getBody(), {}, search.getArgumentTypes(),
                SmallVector<Location>(search.getNumArguments(), loc));
  YieldOp::create(b, loc, ValueRange());
  return first;
}

auto ::attn::ItemGuess::createLoop(OpBuilder &b, ValueRange initial)
    -> ForeachOp {
  Location loc = wait.getLoc();
  first = createFirstItems(scheduler);
  item = ForeachOp::create(b, loc, initial.getTypes(), first, initial,
                           /*lead=*/true);
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Type> types(wait->getBlock()->getArgumentTypes());
  llvm::append_range(types, initial.getTypes());
  Block *body = b.createBlock(&item.getBody(), {}, types,
                              SmallVector<Location>(types.size(), loc));
  YieldOp::create(b, loc, body->getArguments().take_back(initial.size()));
  return item;
}

void ::attn::ItemGuess::eraseLoop() {
  item.erase();
  first.erase();
}

/// Whether an index is no more than what arguments say, whatever memory holds.
bool ::attn::ItemGuess::isBounded(Value index) const {
  if (!told.contains(index))
    return true;
  auto least = index.getDefiningOp<arith::MinSIOp>();
  return least &&
         !(told.contains(least.getLhs()) && told.contains(least.getRhs()));
}

auto ::attn::ItemGuess::guess(OpBuilder &b, Value value, IRMapping &known)
    -> Value {
  if (Value there = known.lookupOrNull(value))
    return there;
  Block *body = &kernel.getBody().front();
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    Block *owner = argument.getOwner(), *search = wait->getBlock();
    unsigned number = argument.getArgNumber(), tile = search->getNumArguments();
    if (owner == body)
      return value;
    auto items = dyn_cast<ForeachOp>(owner->getParentOp());
    bool isItem = items && items.getSchedule() == scheduler.getResult();
    if (number < tile && (isItem || owner == search))
      return item.getBody().getArgument(number);
    // What the schedule says of an item.
    ValueRange found = search->getTerminator()->getOperands();
    return isItem && number - tile < found.size()
               ? guess(b, found[number - tile], known)
               : Value();
  }
  Operation *op = value.getDefiningOp();
  if (op->getBlock() == body)
    return op->isBeforeInBlock(scheduler) ? value : Value();
  auto load = dyn_cast<memref::LoadOp>(op);
  if (op->getNumRegions() ||
      (!load && !isMemoryEffectFree(op) && !isa<memref::DimOp>(op)) ||
      (load && !load.getType().isInteger(32)))
    return {};
  IRMapping operands;
  bool isTold = load;
  for (Value operand : op->getOperands()) {
    Value there = guess(b, operand, known);
    if (!there || (load && !isBounded(there)))
      return {};
    isTold |= told.contains(there);
    operands.map(operand, there);
  }
  Operation *clone = b.clone(*op, operands);
  if (isTold)
    told.insert_range(clone->getResults());
  if (load) {
    reads.push_back(cast<memref::LoadOp>(clone));
    reads.back().setNontemporal(true);
  }
  for (auto [before, after] : llvm::zip(op->getResults(), clone->getResults()))
    known.map(before, after);
  return known.lookup(value);
}

auto ::attn::listLoops(scf::ForOp steps) -> SmallVector<scf::ForOp> {
  SmallVector<scf::ForOp> loops = {steps};
  for (Operation *next = steps->getNextNode(); next; next = next->getNextNode())
    if (auto more = dyn_cast<scf::ForOp>(next);
        more && more.getLowerBound() == loops.back().getUpperBound())
      loops.push_back(more);
  return loops;
}

auto ::attn::ItemGuess::guessEnd(OpBuilder &b, scf::ForOp steps,
                                 IRMapping &known) -> Value {
  return guess(b, listLoops(steps).back().getUpperBound(), known);
}

auto ::attn::carry(OpBuilder &b, ForeachOp &items, Value first, Value later)
    -> Value {
  SmallVector<Value> initial(items.getInitial());
  initial.push_back(first);
  auto wide =
      ForeachOp::create(b, items.getLoc(), ValueRange(initial).getTypes(),
                        items.getSchedule(), initial, items.getLead());
  wide.getBody().takeBody(items.getBody());
  Block &body = wide.getBody().front();
  body.getTerminator()->insertOperands(initial.size() - 1, later);
  items.replaceAllUsesWith(wide.getResults().drop_back());
  items.erase();
  items = wide;
  return body.addArgument(first.getType(), wide.getLoc());
}
