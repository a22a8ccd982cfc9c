//===- AskAhead.cpp - What a block reads first, ahead of its wait ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block that starts while the launch before ends knows its item, and so the
// tiles that it copies first. Memory answers while it waits.
//
//===----------------------------------------------------------------------===//

#include "AskAhead.h"
#include "attn/Analysis/AheadRules.h"
#include "attn/Analysis/FewRows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using ::attn::Copy;

/// A launch that reads for long asks in the time in which the launch before
/// ends. Where many multiprocessors are idle, as with clusters of parts, the
/// launch behind starts as soon as these run: what that asks for comes between
/// their own copies, unless these were all asked for, and few.
auto ::attn::decideAsking(OpBuilder &b, Location loc, SchedulerOp scheduler,
                          Value begin, Value ahead, Value end,
                          const TargetInfo &target) -> Value {
  const AheadRules &rules = aheadRules();
  auto compare = [&](arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y).getResult();
  };
  auto number = [&](Type type, int64_t value) {
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value))
        .getResult();
  };
  Value keys = arith::SubIOp::create(b, loc, end, begin);
  Value slots = arith::SubIOp::create(b, loc, ahead, begin);
  Value least = arith::MulIOp::create(b, loc, slots,
                                      number(slots.getType(), rules.itemSlots));
  Value isLong = compare(arith::CmpIPredicate::sge, keys, least);
  if (!scheduler.getCluster())
    return isLong;
  Value items =
      arith::MulIOp::create(b, loc, scheduler.getTiles(), scheduler.getHeads());
  items = arith::MulIOp::create(b, loc, items, scheduler.getBatch());
  if (Value splits = scheduler.getSplits())
    items = arith::MulIOp::create(b, loc, items, splits);
  int64_t all = target.numMultiprocessors;
  auto isItems = [&](arith::CmpIPredicate predicate, int64_t count) {
    return compare(predicate, items, number(items.getType(), count));
  };
  Value areMost = isItems(arith::CmpIPredicate::sgt, all / 2);
  Value areOne = isItems(arith::CmpIPredicate::sle, all);
  Value areHeld = compare(arith::CmpIPredicate::sle, end, ahead);
  Value areFew = isItems(arith::CmpIPredicate::sle, all / rules.itemShare);
  auto both = [&](Value x, Value y) {
    return arith::AndIOp::create(b, loc, x, y).getResult();
  };
  Value areLong = both(isLong, both(areMost, areOne));
  Value areShort = both(areHeld, areFew);
  return arith::OrIOp::create(b, loc, areLong, areShort);
}

namespace {

/// The first copies of one role.
class FirstCopies {
public:
  FirstCopies(KernelOp kernel, LaunchOp launch, WaitDependenciesOp wait,
              const ::attn::TargetInfo &target)
      : kernel(kernel), launch(launch), wait(wait),
        loop(cast<ForeachOp>(wait->getParentOp())), target(target) {}
  void ask();

private:
  /// The copies of a loop that uses its rings from their first slot on in a
  /// block's first item; none of others.
  SmallVector<Copy> listCopies(scf::ForOp steps);
  bool isKnown(Value value);
  Value endOf(scf::ForOp steps);
  Value asks(OpBuilder &b, scf::ForOp steps, Value ahead);
  void askFor(scf::ForOp steps, ArrayRef<Copy> copies);
  bool startsAtZero(Value counter);
  bool isWhole(RingLoadOp load, Value memref);
  void askFor(OpBuilder &b, RingLoadOp load, Value memref, IRMapping &mapping);
  void askForPeeled(scf::IfOp branch);

  KernelOp kernel;
  LaunchOp launch;
  WaitDependenciesOp wait;
  ForeachOp loop;
  const ::attn::TargetInfo &target;
};

} // namespace

/// Whether a value is there ahead of the wait.
bool FirstCopies::isKnown(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return true;
  Operation *ancestor = loop.getBody().front().findAncestorOpInBlock(*op);
  return !ancestor || ancestor->isBeforeInBlock(wait);
}

/// Whether a counter that the loop over items carries is 0 in its first one.
bool FirstCopies::startsAtZero(Value counter) {
  auto carried = loop.getRegionIterArgs();
  auto *first = llvm::find(carried, counter);
  return first != carried.end() &&
         matchPattern(loop.getInitial()[first - carried.begin()], m_Zero());
}

/// Whether a copy, which no other block makes, takes whole rows of a tensor.
bool FirstCopies::isWhole(RingLoadOp load, Value memref) {
  ValueRange indices = load.getIndices();
  if (!load.getEvictFirst() || load.getTable() || load.getBox() ||
      !matchPattern(indices.back(), m_Zero()))
    return false;
  auto type = cast<MemRefType>(memref.getType());
  return type.getRank() == int64_t(indices.size()) &&
         !type.isDynamicDim(type.getRank() - 1) &&
         type.getShape().back() >= load.getTile().getType().getCols();
}

SmallVector<Copy> FirstCopies::listCopies(scf::ForOp steps) {
  SmallVector<Copy> copies;
  // Of another item than the first one, the count goes on.
  if (steps.getInitArgs().size() != 1 ||
      !startsAtZero(steps.getInitArgs().front()))
    return copies;
  for (auto load : steps.getBody()->getOps<RingLoadOp>()) {
    auto acquire = load.getTile().getDefiningOp<RingAcquireOp>();
    Value memref = ::attn::findTensor(kernel, launch, load);
    if (memref && isWhole(load, memref) &&
        acquire.getCounter() == steps.getRegionIterArgs().front())
      copies.push_back({load, memref});
  }
  return copies;
}

/// The end of the keys of a loop and of those that go on behind it.
Value FirstCopies::endOf(scf::ForOp steps) {
  Value end = steps.getUpperBound();
  for (Operation *next = steps->getNextNode(); next; next = next->getNextNode())
    if (auto more = dyn_cast<scf::ForOp>(next))
      if (more.getLowerBound() == end && isKnown(more.getUpperBound()))
        end = more.getUpperBound();
  return end;
}

/// Whether a block asks, of its first item.
Value FirstCopies::asks(OpBuilder &b, scf::ForOp steps, Value ahead) {
  Location loc = steps.getLoc();
  Value count = steps.getInitArgs().front();
  Value isFirst = arith::CmpIOp::create(
      b, loc, arith::CmpIPredicate::eq, count,
      arith::ConstantOp::create(b, loc, b.getZeroAttr(count.getType())));
  auto scheduler = loop.getSchedule().getDefiningOp<SchedulerOp>();
  return arith::AndIOp::create(
      b, loc, isFirst,
      ::attn::decideAsking(b, loc, scheduler, steps.getLowerBound(), ahead,
                           endOf(steps), target));
}

void FirstCopies::askFor(scf::ForOp steps, ArrayRef<Copy> copies) {
  OpBuilder b(wait);
  Location loc = steps.getLoc();
  RingLoadOp any = copies.front().load;
  auto acquire = any.getTile().getDefiningOp<RingAcquireOp>();
  Value slots = arith::ConstantIndexOp::create(
      b, loc, acquire.getRing().getType().getStages());
  Value ahead = arith::AddIOp::create(
      b, loc, steps.getLowerBound(),
      arith::MulIOp::create(b, loc, steps.getStep(), slots));
  auto branch = scf::IfOp::create(b, loc, asks(b, steps, ahead),
                                  /*withElseRegion=*/false);
  b.setInsertionPointToStart(branch.thenBlock());
  Value end = arith::MinSIOp::create(b, loc, ahead, endOf(steps));
  auto tiles =
      scf::ForOp::create(b, loc, steps.getLowerBound(), end, steps.getStep());
  b.setInsertionPointToStart(tiles.getBody());
  IRMapping mapping;
  mapping.map(steps.getInductionVar(), tiles.getInductionVar());
  mapping.map(steps.getRegionIterArgs().front(), steps.getInitArgs().front());
  for (Operation &op : steps.getBody()->without_terminator())
    if (isMemoryEffectFree(&op) && op.getNumRegions() == 0)
      b.clone(op, mapping);
  for (auto [load, memref] : copies)
    askFor(b, load, memref, mapping);
}

/// Asks for a tile, if all of it exists.
void FirstCopies::askFor(OpBuilder &b, RingLoadOp load, Value memref,
                         IRMapping &mapping) {
  Location loc = load.getLoc();
  SmemType tile = load.getTile().getType();
  auto indices = llvm::map_to_vector(
      load.getIndices(), [&](Value x) { return mapping.lookupOrDefault(x); });
  int64_t rank = indices.size();
  Value row =
      arith::IndexCastOp::create(b, loc, b.getIndexType(), indices[rank - 2]);
  Value last = arith::AddIOp::create(
      b, loc, row, arith::ConstantIndexOp::create(b, loc, tile.getRows()));
  Value rows = memref::DimOp::create(b, loc, memref, rank - 2);
  auto exists = scf::IfOp::create(
      b, loc,
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, last, rows),
      /*withElseRegion=*/false);
  auto inside = exists.getThenBodyBuilder();
  GlobalPrefetchOp::create(inside, loc, memref, indices, tile.getRows(),
                           tile.getCols());
}

/// Asks for the one tile of an item that is copied ahead of its loops, where a
/// block has half of a warpgroup's rows (1.02, and 0.99 for as many tiles as
/// there are slots: docs/performance/gpu-serving.md#Half of the rows).
void FirstCopies::askForPeeled(scf::IfOp branch) {
  mlir::attn::ScheduleAttr schedule = kernel.getScheduleAttr();
  if (!schedule || !isKnown(branch.getCondition()) ||
      !::attn::rowsAreHalf(schedule.getBlockQ(), schedule.getRows(), target))
    return;
  SmallVector<Copy> copies;
  Value count;
  for (auto load : branch.thenBlock()->getOps<RingLoadOp>()) {
    Value memref = ::attn::findTensor(kernel, launch, load);
    auto acquire = load.getTile().getDefiningOp<RingAcquireOp>();
    if (!memref || !isWhole(load, memref) ||
        !startsAtZero(acquire.getCounter()) ||
        !llvm::all_of(load.getIndices(), [&](Value x) { return isKnown(x); }))
      continue;
    copies.push_back({load, memref});
    count = acquire.getCounter();
  }
  if (copies.empty())
    return;
  OpBuilder b(wait);
  Location loc = branch.getLoc();
  Value isFirst = arith::CmpIOp::create(
      b, loc, arith::CmpIPredicate::eq, count,
      arith::ConstantOp::create(b, loc, b.getZeroAttr(count.getType())));
  auto asks = scf::IfOp::create(
      b, loc, arith::AndIOp::create(b, loc, isFirst, branch.getCondition()),
      /*withElseRegion=*/false);
  b.setInsertionPointToStart(asks.thenBlock());
  IRMapping none;
  for (auto [load, memref] : copies)
    askFor(b, load, memref, none);
}

void FirstCopies::ask() {
  for (Operation *op = wait->getNextNode(); op; op = op->getNextNode()) {
    if (auto branch = dyn_cast<scf::IfOp>(op))
      askForPeeled(branch);
    auto steps = dyn_cast<scf::ForOp>(op);
    if (!steps || !isKnown(steps.getLowerBound()) ||
        !isKnown(steps.getUpperBound()) || !isKnown(steps.getStep()))
      continue;
    SmallVector<Copy> copies = listCopies(steps);
    bool known = llvm::all_of(copies, [&](Copy copy) {
      return llvm::all_of(copy.load.getIndices(), [&](Value index) {
        return steps->isAncestor(index.getParentRegion()->getParentOp()) ||
               isKnown(index);
      });
    });
    if (!copies.empty() && known)
      askFor(steps, copies);
  }
}

void ::attn::askAhead(KernelOp kernel, LaunchOp launch,
                      const ::attn::TargetInfo &target) {
  for (auto role : kernel.getOps<RoleOp>()) {
    if (role.getScope() != Scope::Warp || role.getWarps() != 1)
      continue;
    SmallVector<WaitDependenciesOp> waits;
    role.walk([&](WaitDependenciesOp wait) {
      if (isa<ForeachOp>(wait->getParentOp()))
        waits.push_back(wait);
    });
    for (WaitDependenciesOp wait : waits)
      FirstCopies(kernel, launch, wait, target).ask();
  }
  if (!::attn::copyFirst(kernel, launch, target))
    guessAhead(kernel, launch, target);
}
