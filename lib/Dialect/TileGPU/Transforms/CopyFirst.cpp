//===- CopyFirst.cpp - First copies of items that memory finds ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where memory says what an item is, the warp that draws reads a length behind
// its wait and tells the others, and what copies then reads a table: the first
// copy begins after two answers of memory, one behind the other, and a message.
// A warp that copies needs none of these for the first item of its block, which
// is that of the block's number. What memory says ahead of the wait tells it
// where the first tiles lie; behind the wait it asks once more, for all of that
// and for the entries of the table that it names at once. Where nothing has
// changed it copies these tiles at once, as many as there are slots, and goes
// on behind them once the item is drawn.
//
//===----------------------------------------------------------------------===//

#include "AskAhead.h"
#include "GuessItem.h"
#include "attn/Analysis/AheadRules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/OperationSupport.h"

using namespace mlir;
using namespace mlir::tile_gpu;

/// The wait of a role ahead of its one loop over items of a schedule, which
/// others draw.
static WaitDependenciesOp findItems(RoleOp role, SchedulerOp scheduler,
                                    ForeachOp &items) {
  WaitDependenciesOp wait;
  for (Operation &op : role.getBody().front()) {
    if (auto found = dyn_cast<WaitDependenciesOp>(op); found && !items)
      wait = found;
    if (auto found = dyn_cast<ForeachOp>(op)) {
      if (items)
        return {};
      items = found;
    }
  }
  bool follows =
      items && !items.getLead() && items.getSchedule() == scheduler.getResult();
  return follows ? wait : WaitDependenciesOp();
}

namespace {

/// The first copies of one role.
class FirstTiles {
public:
  FirstTiles(KernelOp kernel, LaunchOp launch, WaitDependenciesOp search,
             RoleOp role, const ::attn::TargetInfo &target)
      : kernel(kernel), launch(launch), target(target), item(kernel, search),
        scheduler(cast<SchedulerOp>(search->getParentOp())), role(role),
        b(role) {}
  bool copy();

private:
  bool findLoops();
  bool isKnown(scf::ForOp loop);
  ForeachOp createCopies();
  void askForEntries(IRMapping &tile);
  Value readEntry(IRMapping &tile);
  void ask(IRMapping &known, ValueRange rows, Value from, Value to);
  void copyTile(int64_t number, IRMapping &tile, Value exists, Value &count);
  void goOn(ForeachOp first);
  Value constant(int64_t value, Type type) {
    return arith::ConstantOp::create(b, role.getLoc(),
                                     b.getIntegerAttr(type, value));
  }

  KernelOp kernel;
  LaunchOp launch;
  const ::attn::TargetInfo &target;
  ::attn::ItemGuess item;
  SchedulerOp scheduler;
  RoleOp role;
  OpBuilder b;
  WaitDependenciesOp wait;
  ForeachOp items;
  /// The loops that copy, one behind the other, and the slots of their rings.
  SmallVector<scf::ForOp> loops;
  int64_t slots = 0;
};

} // namespace

/// Whether all that a loop does is to find tiles and copy them, each by the
/// loop's own count.
bool FirstTiles::isKnown(scf::ForOp loop) {
  if (loop.getInitArgs().size() != 1)
    return false;
  for (Operation &op : loop.getBody()->without_terminator()) {
    auto acquire = dyn_cast<RingAcquireOp>(op);
    if (acquire && acquire.getCounter() == loop.getRegionIterArgs().front()) {
      int64_t stages = acquire.getRing().getType().getStages();
      slots = slots ? std::min(slots, stages) : stages;
      continue;
    }
    if (op.getNumRegions() ||
        !(isMemoryEffectFree(&op) ||
          isa<memref::DimOp, memref::LoadOp, RingLoadOp>(op)))
      return false;
  }
  return slots > 0;
}

bool FirstTiles::findLoops() {
  wait = findItems(role, scheduler, items);
  if (!wait)
    return false;
  Block &body = items.getBody().front();
  for (auto loop : body.getOps<scf::ForOp>())
    if (loops.empty() && !loop.getBody()->getOps<RingLoadOp>().empty())
      loops = ::attn::listLoops(loop);
  if (loops.empty() || !isKnown(loops.front()))
    return false;
  // All copies are theirs, and of each the same.
  WalkResult others = items.walk([&](RingLoadOp load) {
    return llvm::is_contained(loops, load->getParentOp())
               ? WalkResult::advance()
               : WalkResult::interrupt();
  });
  auto isSame = [&](scf::ForOp loop) {
    return OperationEquivalence::isRegionEquivalentTo(
        &loops.front().getRegion(), &loop.getRegion(),
        OperationEquivalence::IgnoreLocations);
  };
  if (others.wasInterrupted() || !llvm::all_of(loops, isSame))
    return false;
  auto carried = items.getRegionIterArgs();
  auto *counter = llvm::find(carried, loops.front().getInitArgs().front());
  return counter != carried.end() &&
         matchPattern(items.getInitial()[counter - carried.begin()], m_Zero());
}

/// Copies a tile, if it exists and the ones before were copied.
void FirstTiles::copyTile(int64_t number, IRMapping &tile, Value exists,
                          Value &count) {
  Location loc = role.getLoc();
  auto branch =
      scf::IfOp::create(b, loc, count.getType(), exists, /*withElse=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  tile.map(loops.front().getRegionIterArgs().front(),
           constant(number, count.getType()));
  for (Operation &op : loops.front().getBody()->without_terminator())
    if (isa<RingAcquireOp, RingLoadOp>(op))
      b.clone(op, tile);
  scf::YieldOp::create(b, loc, constant(number + 1, count.getType()));
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, loc, count);
  count = branch.getResult(0);
}

/// Asks for what the first tile reads of a table, which others' entries follow.
void FirstTiles::askForEntries(IRMapping &tile) {
  Location loc = role.getLoc();
  for (auto read : loops.front().getBody()->getOps<memref::LoadOp>()) {
    SmallVector<Value> indices;
    for (Value index : read.getIndices())
      if (Value there = item.guess(b, index, tile))
        indices.push_back(
            arith::IndexCastOp::create(b, loc, b.getI32Type(), there));
    if (indices.size() > 1 && indices.size() == read.getIndices().size())
      GlobalPrefetchOp::create(b, loc, read.getMemRef(), indices, /*rows=*/1,
                               /*columns=*/1, /*table=*/Value(),
                               /*boxes=*/IntegerAttr(), /*before=*/Value());
  }
}

/// Reads the entry of a tile's first page where copies look entries up by
/// themselves: one behind the other, out of this multiprocessor's cache then.
/// None elsewhere.
Value FirstTiles::readEntry(IRMapping &tile) {
  Location loc = role.getLoc();
  for (auto load : loops.front().getBody()->getOps<RingLoadOp>()) {
    if (!load.getTable() || load.getIndices().size() != 4)
      continue;
    Value sequence = item.guess(b, load.getIndices()[0], tile);
    Value row = item.guess(b, load.getIndices()[2], tile);
    if (!sequence || !row)
      continue;
    auto toIndex = [&](Value x) -> Value {
      return arith::IndexCastOp::create(b, loc, b.getIndexType(), x);
    };
    Value page = arith::ConstantIndexOp::create(b, loc, *load.getPage());
    Value entry = arith::DivUIOp::create(b, loc, toIndex(row), page);
    Value entries = memref::DimOp::create(b, loc, load.getTable(), 1);
    Value last = arith::SubIOp::create(
        b, loc, entries, arith::ConstantIndexOp::create(b, loc, 1));
    entry = arith::MinUIOp::create(b, loc, entry, last);
    return memref::LoadOp::create(b, loc, load.getTable(),
                                  ValueRange{toIndex(sequence), entry});
  }
  return {};
}

/// Asks for the tiles of all slots where the launch asks.
void FirstTiles::ask(IRMapping &known, ValueRange rows, Value from, Value to) {
  Location loc = role.getLoc();
  scf::ForOp steps = loops.front();
  SmallVector<::attn::Copy> copies;
  for (auto load : steps.getBody()->getOps<RingLoadOp>())
    if (Value memref = ::attn::findTensor(kernel, launch, load))
      copies.push_back({load, memref});
  if (copies.empty())
    return;
  Value step = item.guess(b, steps.getStep(), known);
  Value ahead = arith::AddIOp::create(b, loc, rows.back(), step);
  Value asks = ::attn::decideAsking(b, loc, scheduler, from, ahead, to, target);
  auto branch = scf::IfOp::create(b, loc, asks, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  Value before = arith::IndexCastOp::create(b, loc, b.getI32Type(), to);
  // One read of what says where a tile lies does not wait for another.
  struct Part {
    ::attn::Copy copy;
    SmallVector<Value> indices;
  };
  SmallVector<Part> parts;
  for (Value row : rows) {
    IRMapping tile = known;
    tile.map(steps.getInductionVar(), row);
    for (::attn::Copy copy : copies) {
      if (copy.load.getTable() && row != rows.front())
        continue;
      SmallVector<Value> indices;
      for (Value index : copy.load.getIndices())
        if (Value there = item.guess(b, index, tile))
          indices.push_back(there);
      if (indices.size() == copy.load.getIndices().size())
        parts.push_back({copy, indices});
    }
  }
  for (Part &part : parts)
    if (part.copy.load.getTable())
      ::attn::askForPages(b, part.copy, part.indices, rows.size(), before);
    else
      ::attn::askForTile(b, part.copy, part.indices, to);
}

/// Copies the first tiles ahead of the loop over items; the result is how many.
/// Null if memory cannot tell them.
ForeachOp FirstTiles::createCopies() {
  Location loc = role.getLoc();
  scf::ForOp steps = loops.front();
  b.setInsertionPoint(wait);
  Type type = b.getI32Type();
  Value none = constant(0, type);
  ForeachOp first = item.createLoop(b, none);
  Operation *end = first.getBody().front().getTerminator();
  b.setInsertionPoint(end);
  IRMapping known;
  Value from = item.guess(b, steps.getLowerBound(), known);
  Value step = item.guess(b, steps.getStep(), known);
  Value to = item.guessEnd(b, steps, known);
  auto abandon = [&] {
    item.eraseLoop();
    none.getDefiningOp()->erase();
    return ForeachOp();
  };
  if (!from || !step || !to)
    return abandon();
  auto compare = [&](arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y).getResult();
  };
  SmallVector<IRMapping> tiles(slots, known);
  SmallVector<Value> rows;
  for (auto [number, tile] : llvm::enumerate(tiles)) {
    Value ahead =
        arith::MulIOp::create(b, loc, step, constant(number, step.getType()));
    rows.push_back(arith::AddIOp::create(b, loc, from, ahead));
    tile.map(steps.getInductionVar(), rows.back());
  }
  auto some = scf::IfOp::create(b, loc, type,
                                compare(arith::CmpIPredicate::slt, from, to),
                                /*withElse=*/true);
  b.setInsertionPointToStart(some.elseBlock());
  scf::YieldOp::create(b, loc, none);
  b.setInsertionPoint(some);
  askForEntries(tiles.front());
  b.setInsertionPointToStart(some.thenBlock());
  // All reads are under way before one is looked at.
  auto reads = llvm::to_vector(item.getReads());
  SmallVector<Value> again;
  for (memref::LoadOp read : reads)
    again.push_back(b.clone(*read)->getResult(0));
  SmallVector<Value> entries;
  for (IRMapping &tile : tiles)
    entries.push_back(readEntry(tile));
  for (IRMapping &tile : tiles)
    for (auto load : steps.getBody()->getOps<RingLoadOp>())
      for (Value operand : load->getOperands()) {
        if (!operand.getType().isInteger(32))
          continue;
        Value there = item.guess(b, operand, tile);
        if (!there)
          return abandon();
        tile.map(operand, there);
      }
  Value holds = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 1);
  for (auto [before, after] : llvm::zip_equal(reads, again))
    holds = arith::AndIOp::create(
        b, loc, holds, compare(arith::CmpIPredicate::eq, before, after));
  Value count = none;
  for (auto [number, tile] : llvm::enumerate(tiles)) {
    Value exists = compare(arith::CmpIPredicate::slt, rows[number], to);
    // No page is there where nothing is.
    if (Value entry = entries[number])
      exists = arith::AndIOp::create(
          b, loc, exists, compare(arith::CmpIPredicate::sge, entry, none));
    copyTile(number, tile, arith::AndIOp::create(b, loc, holds, exists), count);
  }
  scf::YieldOp::create(b, loc, count);
  end->setOperands(some.getResult(0));
  b.setInsertionPoint(some);
  ask(known, rows, from, to);
  wait->moveBefore(some);
  return first;
}

/// Of the first item, the loops go on behind what is copied.
void FirstTiles::goOn(ForeachOp first) {
  Location loc = role.getLoc();
  Value copied = first.getResult(0);
  b.setInsertionPoint(items);
  auto carried = items.getRegionIterArgs();
  size_t counter = llvm::find(carried, loops.front().getInitArgs().front()) -
                   carried.begin();
  Value ahead = ::attn::carry(b, items, copied, constant(0, copied.getType()));
  items.getInitialMutable()[counter].set(copied);
  scf::ForOp steps = loops.front();
  b.setInsertionPoint(steps);
  ahead = arith::IndexCastOp::create(b, loc, b.getIndexType(), ahead);
  ahead = arith::MulIOp::create(b, loc, ahead, steps.getStep());
  Value from = arith::AddIOp::create(b, loc, steps.getLowerBound(), ahead);
  for (scf::ForOp loop : loops) {
    b.setInsertionPoint(loop);
    loop.setLowerBound(loop == steps ? from
                                     : arith::MaxSIOp::create(
                                           b, loc, loop.getLowerBound(), from));
  }
}

bool FirstTiles::copy() {
  if (!findLoops())
    return false;
  ForeachOp first = createCopies();
  if (first)
    goOn(first);
  return bool(first);
}

bool ::attn::copyFirst(KernelOp kernel, LaunchOp launch,
                       const TargetInfo &target) {
  // What many rows multiply comes in time.
  mlir::attn::ScheduleAttr schedule = kernel.getScheduleAttr();
  if (!schedule || schedule.getBlockQ() > ::attn::aheadRules().rows)
    return false;
  SmallVector<WaitDependenciesOp> waits;
  for (auto scheduler : kernel.getOps<SchedulerOp>())
    // A block's first item is that of its number, unless it draws that too, or
    // passes over it.
    if (!scheduler.getDrawsFirst() && scheduler.getOps<SkipOp>().empty())
      llvm::append_range(waits, scheduler.getOps<WaitDependenciesOp>());
  bool some = false;
  for (WaitDependenciesOp wait : waits)
    for (auto role : kernel.getOps<RoleOp>())
      if (role.getScope() == Scope::Warp && role.getWarps() == 1)
        some |= FirstTiles(kernel, launch, wait, role, target).copy();
  return some;
}
