//===- ReadTables.cpp - Entries of tables, some tiles ahead ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A copy from pages reads where they lie, and begins when that is there. While
// copies of a multiprocessor fill its way to memory, the answer comes behind
// what was asked for before: later than a tile takes. Here a warp has the next
// entries of its sequence in registers, as many as some tiles have pages:
//
//   now = table[0, n); later = table[n, 2 n)
//   for tile:
//     if all of now are copied: now = later; later = the next n of the table
//     copy the pages that now has of the tile
//
// What is read is wanted some tiles later. Entries that no row needs are read
// as well, up to the table's end, and not looked at.
//
// A tile that comes ahead of the loop takes its pages from there, too. Those of
// a block's first item, which is that of its number, do not wait until this is
// drawn: the warp asks for the entries and for what the item's search reads at
// once, right behind its wait for the launch before, and copies that tile.
//
//===----------------------------------------------------------------------===//

#include "GuessItem.h"
#include "attn/Analysis/AheadRules.h"
#include "attn/Analysis/FewRows.h"
#include "attn/Dialect/TileGPU/IR/TileForm.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/FormatVariadic.h"

#define DEBUG_TYPE "tile-gpu-read-tables-ahead"

namespace attn {
#define GEN_PASS_DEF_TILEGPUREADTABLESAHEADPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

namespace {

/// The copies of one loop, which all begin where the loop is.
class TableLoop {
public:
  explicit TableLoop(scf::ForOp loop) : loop(loop), b(loop) {}
  bool run();

private:
  bool matches(RingLoadOp load);
  bool collect();
  void collectAhead();
  Value findSequence();
  Value read(Value sequence, Value entry, Value end);
  SmallVector<Value> readFirst();
  void copyFirst();
  Value constant(int64_t value) {
    return arith::ConstantIndexOp::create(b, loop.getLoc(), value);
  }
  RingLoadOp any() { return copies.front(); }
  Value countEntries() {
    return toI32(memref::DimOp::create(b, loop.getLoc(), any().getTable(), 1));
  }
  Value toI32(Value x) {
    return arith::IndexCastOp::create(b, loop.getLoc(), b.getI32Type(), x);
  }

  scf::ForOp loop;
  OpBuilder b;
  /// Of the loop, and of the tile ahead of it.
  SmallVector<RingLoadOp> copies, ahead;
  int64_t page = 0, boxes = 0, firstRow = 0;
  VecType entries;
  /// The first row that is copied, and how many entries a sequence has.
  Value begin, end;
  /// The entries of a block's first item, if they are read ahead of the loop
  /// over items.
  SmallVector<Value> early;
};

} // namespace

/// Whether a copy takes whole pages from the loop's row on.
bool TableLoop::matches(RingLoadOp load) {
  auto map = dyn_cast<TensorMapType>(load.getSource().getType());
  if (!load.getTable() || !map || load.getEntries())
    return false;
  int64_t rows = load.getTile().getType().getRows();
  APInt step;
  auto row = load.getIndices()[2].getDefiningOp<arith::IndexCastOp>();
  if (load.getPage() != map.getBox().getRows() || !row ||
      row.getIn() != loop.getInductionVar() ||
      !matchPattern(loop.getStep(), m_ConstantInt(&step)) || step != rows ||
      ::attn::gpu::rowsOfRegister % (rows / *load.getPage()) ||
      !loop.isDefinedOutsideOfLoop(load.getIndices().front()) ||
      !loop.isDefinedOutsideOfLoop(load.getTable()))
    return false;
  if (copies.empty())
    return true;
  RingLoadOp first = copies.front();
  return first.getTable() == load.getTable() &&
         first.getPage() == load.getPage() &&
         first.getTile().getType().getRows() == rows &&
         first.getIndices().front() == load.getIndices().front();
}

bool TableLoop::collect() {
  for (auto load : loop.getBody()->getOps<RingLoadOp>())
    if (matches(load))
      copies.push_back(load);
  if (copies.empty())
    return false;
  page = *copies.front().getPage();
  boxes = copies.front().getTile().getType().getRows() / page;
  // Two registers at least: those of sixteen rows.
  int64_t count = llvm::alignTo(::attn::aheadRules().tableTiles * boxes,
                                2 * ::attn::gpu::rowsOfRegister);
  entries = VecType::get(loop.getContext(), count, b.getI32Type(), Axis::Row,
                         Scope::Warp, /*partial=*/false);
  return true;
}

/// The copies of a tile that comes ahead of the loop, if some of these do.
void TableLoop::collectAhead() {
  APInt first, row;
  if (!matchPattern(loop.getLowerBound(), m_ConstantInt(&first)))
    return;
  int64_t rows = any().getTile().getType().getRows();
  for (Operation &op : *loop->getBlock()) {
    if (&op == loop)
      break;
    auto load = dyn_cast<RingLoadOp>(op);
    if (load && load.getTable() == any().getTable() &&
        load.getPage() == any().getPage() &&
        load.getTile().getType().getRows() == rows &&
        load.getSource().getType() == any().getSource().getType() &&
        load.getIndices().front() == any().getIndices().front() &&
        matchPattern(load.getIndices()[2], m_ConstantInt(&row)) &&
        row.getSExtValue() + rows == first.getSExtValue()) {
      ahead.push_back(load);
      firstRow = row.getSExtValue();
    }
  }
}

/// Entries of a sequence's table from `entry` on, zeros behind its end.
Value TableLoop::read(Value sequence, Value entry, Value end) {
  return GlobalLoadOp::create(b, loop.getLoc(), entries, any().getTable(),
                              ValueRange{sequence, toI32(entry)}, end,
                              /*transposed=*/false, /*permuted=*/0,
                              /*fragment_order=*/false);
}

/// The sequence of the item that a block begins with, made ahead of the loop
/// over items, behind the wait for the launch before; null where that cannot be
/// told.
Value TableLoop::findSequence() {
  Value sequence = any().getIndices().front();
  auto items = loop->getParentOfType<ForeachOp>();
  auto kernel = loop->getParentOfType<KernelOp>();
  // What many rows multiply comes in time.
  mlir::attn::ScheduleAttr schedule = kernel.getScheduleAttr();
  if (ahead.empty() || !schedule || schedule.getBlockQ() > ::attn::halfRows ||
      !items || !isa<RoleOp>(items->getParentOp()))
    return {};
  auto scheduler = items.getSchedule().getDefiningOp<SchedulerOp>();
  auto waits = scheduler.getOps<WaitDependenciesOp>();
  bool isBehind = llvm::any_of(*items->getBlock(), [&](Operation &op) {
    return isa<WaitDependenciesOp>(op) && op.isBeforeInBlock(items);
  });
  // A block's first item is that of its number, unless it draws that too, or
  // passes over it.
  if (waits.empty() || !isBehind || scheduler.getDrawsFirst() ||
      !scheduler.getOps<SkipOp>().empty())
    return {};
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(items);
  ::attn::ItemGuess item(kernel, *waits.begin());
  Value none =
      arith::ConstantIntOp::create(b, loop.getLoc(), b.getI32Type(), 0);
  ForeachOp first = item.createLoop(b, none);
  Operation *yield = first.getBody().front().getTerminator();
  b.setInsertionPoint(yield);
  IRMapping known;
  Value found = item.guess(b, sequence, known);
  if (!found) {
    item.eraseLoop();
    return {};
  }
  yield->setOperands(found);
  return first.getResult(0);
}

/// Copies what comes ahead of the loop of a block's first item before that is
/// drawn, where the search says as much: what it reads is there by now.
void TableLoop::copyFirst() {
  auto branch = dyn_cast<scf::IfOp>(loop->getParentOp());
  auto items = loop->getParentOfType<ForeachOp>();
  if (early.empty() || !branch || loop->getBlock() != branch.thenBlock() ||
      branch->getParentOp() != items)
    return;
  Location loc = loop.getLoc();
  SmallVector<Operation *> ops;
  auto carried = items.getRegionIterArgs();
  IRMapping known;
  Type type = b.getI32Type();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(items);
  Value none = arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, 0));
  Value one = arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, 1));
  for (Operation &op : *loop->getBlock()) {
    if (&op == loop)
      break;
    if (auto acquire = dyn_cast<RingAcquireOp>(op)) {
      auto *counter = llvm::find(carried, acquire.getCounter());
      bool isCopied = llvm::all_of(acquire->getUsers(), [&](Operation *user) {
        return isa<RingLoadOp>(user) && user->getBlock() == loop->getBlock() &&
               user->isBeforeInBlock(loop);
      });
      if (!isCopied || counter == carried.end() ||
          !matchPattern(items.getInitial()[counter - carried.begin()],
                        m_Zero()))
        return;
      known.map(*counter, none);
    } else if (auto load = dyn_cast<RingLoadOp>(op)) {
      if (load.getEntries()) {
        known.map(load.getEntries(), early.front());
        known.map(load.getFirstEntry(), none);
      }
    } else {
      continue;
    }
    ops.push_back(&op);
  }
  auto scheduler = items.getSchedule().getDefiningOp<SchedulerOp>();
  ::attn::ItemGuess item(items->getParentOfType<KernelOp>(),
                         *scheduler.getOps<WaitDependenciesOp>().begin());
  ForeachOp first = item.createLoop(b, none);
  Operation *yield = first.getBody().front().getTerminator();
  b.setInsertionPoint(yield);
  Value exists = item.guess(b, branch.getCondition(), known);
  for (Operation *op : ops)
    if (auto load = dyn_cast<RingLoadOp>(op))
      for (Value index : load.getIndices()) {
        Value there = exists ? item.guess(b, index, known) : Value();
        if (!there)
          return item.eraseLoop();
        known.map(index, there);
      }
  auto copied = scf::IfOp::create(b, loc, type, exists, /*withElse=*/true);
  b.setInsertionPointToStart(copied.elseBlock());
  scf::YieldOp::create(b, loc, none);
  b.setInsertionPointToStart(copied.thenBlock());
  for (Operation *op : ops)
    b.clone(*op, known);
  scf::YieldOp::create(b, loc, one);
  yield->setOperands(copied.getResult(0));
  b.setInsertionPoint(items);
  Value is = ::attn::carry(b, items, first.getResult(0), none);
  b.setInsertionPoint(ops.back());
  Value isLeft =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, is, none);
  auto left = scf::IfOp::create(b, loc, isLeft, /*withElseRegion=*/false);
  for (Operation *op : ops)
    op->moveBefore(left.thenBlock()->getTerminator());
}

/// The entries of the first tiles, and of those behind them. Those of a block's
/// first item are on their way while the item is drawn, where no entry depends
/// on that.
SmallVector<Value> TableLoop::readFirst() {
  Location loc = loop.getLoc();
  auto readBoth = [&](Value sequence, Value first,
                      Value end) -> SmallVector<Value> {
    Value now = read(sequence, first, end);
    Value next =
        arith::AddIOp::create(b, loc, first, constant(entries.getSize()));
    return {now, read(sequence, next, end)};
  };
  Value first = arith::DivUIOp::create(b, loc, begin, constant(page));
  end = countEntries();
  Value sequence = any().getIndices().front(), known = findSequence();
  if (!known)
    return readBoth(sequence, first, end);
  OpBuilder::InsertionGuard guard(b);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(loop->getParentOfType<ForeachOp>());
    early = readBoth(known, constant(firstRow / page), countEntries());
  }
  Value isFirst =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, sequence, known);
  auto branch = scf::IfOp::create(b, loc, TypeRange{entries, entries}, isFirst,
                                  /*withElseRegion=*/true);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, loc, early);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, loc, readBoth(sequence, first, end));
  return branch.getResults();
}

bool TableLoop::run() {
  if (!collect())
    return false;
  collectAhead();
  Location loc = loop.getLoc();
  if (!ahead.empty())
    b.setInsertionPoint(ahead.front().getTile().getDefiningOp());
  Value rows = constant(page), count = constant(entries.getSize());
  Value zero = constant(0);
  begin = ahead.empty() ? loop.getLowerBound() : constant(firstRow);
  SmallVector<Value> initial = readFirst();
  for (RingLoadOp copy : ahead) {
    copy.getEntriesMutable().assign(initial.front());
    copy.getFirstEntryMutable().assign(toI32(zero));
  }
  copyFirst();
  IRRewriter rewriter(loop.getContext());
  rewriter.setInsertionPoint(loop);
  Value now, later;
  DictionaryAttr attributes = loop->getDiscardableAttrDictionary();
  FailureOr<LoopLikeOpInterface> replaced = loop.replaceWithAdditionalYields(
      rewriter, initial, /*replaceInitOperandUsesInLoop=*/false,
      [&](OpBuilder &, Location, ArrayRef<BlockArgument> arguments) {
        b.setInsertionPointToStart(arguments.front().getOwner());
        Value row = arguments.front().getOwner()->getArgument(0);
        Value done = arith::SubIOp::create(b, loc, row, begin);
        done = arith::DivUIOp::create(b, loc, done, rows);
        Value place = arith::RemUIOp::create(b, loc, done, count);
        auto is = [&](arith::CmpIPredicate predicate, Value x) -> Value {
          return arith::CmpIOp::create(b, loc, predicate, x, zero);
        };
        Value isCopied =
            arith::AndIOp::create(b, loc, is(arith::CmpIPredicate::eq, place),
                                  is(arith::CmpIPredicate::ne, done));
        auto branch = scf::IfOp::create(b, loc, TypeRange{entries, entries},
                                        isCopied, /*withElseRegion=*/true);
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(branch.elseBlock());
        scf::YieldOp::create(b, loc, ValueRange{arguments[0], arguments[1]});
        b.setInsertionPointToStart(branch.thenBlock());
        Value next = arith::DivUIOp::create(b, loc, row, rows);
        next = arith::AddIOp::create(b, loc, next, count);
        Value sequence = any().getIndices().front();
        scf::YieldOp::create(
            b, loc, ValueRange{arguments[1], read(sequence, next, end)});
        now = branch.getResult(0);
        later = branch.getResult(1);
        b.setInsertionPointAfter(branch);
        Value from = arith::IndexCastOp::create(b, loc, b.getI32Type(), place);
        for (RingLoadOp copy : copies) {
          copy.getEntriesMutable().assign(now);
          copy.getFirstEntryMutable().assign(from);
        }
        return SmallVector<Value>{now, later};
      });
  if (failed(replaced))
    return false;
  (*replaced)->setDiscardableAttrs(attributes);
  return true;
}

/// Why a role cannot hold two vectors of entries beside what it computes, or
/// nothing. What copies for more warpgroups has fewer registers, and these
/// multiply for longer than memory takes to answer.
static std::string whyNoRoom(RoleOp role) {
  const int64_t least = ::attn::aheadRules().tableRegisters;
  if (role.getScope() != Scope::Warp)
    return "warpgroups copy";
  std::optional<int64_t> registers = role.getRegisters();
  if (registers && *registers < least)
    return llvm::formatv("expected {0} registers for a thread, but got {1}",
                         least, *registers);
  return "";
}

/// Of loops that copy from pages the first of those one behind the other. It
/// has the tiles but for the last ones, whose entries it has read: they are in
/// this multiprocessor's cache.
static SmallVector<scf::ForOp> firstLoops(RoleOp role) {
  SmallVector<scf::ForOp> loops;
  llvm::SmallPtrSet<Block *, 4> blocks;
  role.walk<WalkOrder::PreOrder>([&](scf::ForOp loop) {
    if (llvm::any_of(loop.getBody()->getOps<RingLoadOp>(),
                     [](RingLoadOp load) { return load.getTable(); }) &&
        blocks.insert(loop->getBlock()).second)
      loops.push_back(loop);
  });
  return loops;
}

namespace {
struct ReadTablesAheadPass
    : ::attn::impl::TileGpuReadTablesAheadPassBase<ReadTablesAheadPass> {
  using TileGpuReadTablesAheadPassBase::TileGpuReadTablesAheadPassBase;

  void runOnOperation() final {
    for (auto role : getOperation().getOps<RoleOp>())
      for (scf::ForOp loop : firstLoops(role)) {
        // This pass has been here.
        if (llvm::any_of(loop.getBody()->getOps<RingLoadOp>(),
                         [](RingLoadOp load) { return load.getEntries(); }))
          continue;
        std::string reason = whyNoRoom(role);
        if (reason.empty() && !TableLoop(loop).run())
          reason = "expected tiles of 1, 2, 4 or 8 whole pages from the step's "
                   "row on";
        if (reason.empty()) {
          ++numLoops;
          continue;
        }
        ++numMissed;
        if (explain)
          loop.emitRemark("entries of tables not read ahead: ") << reason;
      }
  }
};
} // namespace
