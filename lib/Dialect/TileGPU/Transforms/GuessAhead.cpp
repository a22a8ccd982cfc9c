//===- GuessAhead.cpp - First tiles of items that memory finds ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where lengths of sequences say what a block's item is, and tables where its
// pages lie, a block has to wait for these, then to read them one after the
// other, and copies nothing meanwhile. A warp that would only fill up a
// warpgroup reads them ahead of the wait, and asks for the tiles that they
// name.
//
//===----------------------------------------------------------------------===//

#include "AskAhead.h"
#include "GuessItem.h"
#include "attn/Analysis/AheadRules.h"
#include "attn/Analysis/FewRows.h"
#include "attn/Dialect/TileGPU/IR/SharedLayout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include <numeric>

using namespace mlir;
using namespace mlir::tile_gpu;
using ::attn::Copy;

auto ::attn::findTensor(KernelOp kernel, LaunchOp launch, RingLoadOp load)
    -> Value {
  auto map = dyn_cast<BlockArgument>(load.getSource());
  Block &body = kernel.getBody().front();
  if (!map || map.getOwner() != &body)
    return {};
  ValueRange given = launch.getArguments();
  auto make = given[map.getArgNumber()].getDefiningOp<TensorMapOp>();
  if (!make)
    return {};
  auto at = llvm::find(given, make.getSource());
  return at == given.end() ? Value() : body.getArgument(at - given.begin());
}

void ::attn::askForPages(OpBuilder &b, Copy copy, ValueRange indices,
                         int64_t tiles, Value before) {
  SmemType tile = copy.load.getTile().getType();
  int64_t boxes = std::gcd(*copy.load.getPage(), tile.getRows());
  GlobalPrefetchOp::create(
      b, copy.load.getLoc(), copy.memref, indices, tiles * tile.getRows(),
      tile.getCols(), copy.load.getTable(), b.getI64IntegerAttr(boxes), before);
}

void ::attn::askForTile(OpBuilder &b, Copy copy, ValueRange indices,
                        Value end) {
  Location loc = copy.load.getLoc();
  SmemType tile = copy.load.getTile().getType();
  int64_t rank = indices.size();
  auto toIndex = [&](Value x) -> Value {
    return arith::IndexCastOp::create(b, loc, b.getIndexType(), x);
  };
  auto compare = [&](arith::CmpIPredicate predicate, Value x,
                     Value y) -> Value {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  };
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, loc, value);
  };
  Value exists =
      compare(arith::CmpIPredicate::slt, toIndex(indices[rank - 2]), end);
  for (auto [i, index] : llvm::enumerate(indices)) {
    int64_t count = int64_t(i) + 1 == rank   ? tile.getCols()
                    : int64_t(i) + 2 == rank ? tile.getRows()
                                             : 1;
    Value last = toIndex(index);
    if (count > 1)
      last = arith::AddIOp::create(b, loc, last, constant(count - 1));
    Value isIn = compare(arith::CmpIPredicate::ult, last,
                         memref::DimOp::create(b, loc, copy.memref, i));
    exists = arith::AndIOp::create(b, loc, exists, isIn);
  }
  auto branch = scf::IfOp::create(b, loc, exists, /*withElseRegion=*/false);
  auto inside = branch.getThenBodyBuilder();
  GlobalPrefetchOp::create(inside, loc, copy.memref, indices, tile.getRows(),
                           tile.getCols());
}

namespace {

/// The first copies of a block's item where lengths of sequences say what it
/// is, and tables where its pages lie. A warp of its own reads these ahead of
/// the wait, past caches, as what ran before has left them so far: most likely
/// as they are behind it. What they say then decides what is asked for, and
/// nothing else.
class GuessedCopies {
public:
  GuessedCopies(KernelOp kernel, LaunchOp launch, WaitDependenciesOp wait,
                const ::attn::TargetInfo &target)
      : kernel(kernel), launch(launch), wait(wait),
        scheduler(cast<SchedulerOp>(wait->getParentOp())), target(target),
        guessed(kernel, wait), b(scheduler) {}
  void ask();

private:
  /// The loop that goes on with what is copied first, and these copies: ahead
  /// of it, or else its own.
  struct Steps {
    scf::ForOp loop;
    SmallVector<Copy> ahead, own;
  };
  std::optional<Steps> findSteps();
  bool createRole();
  void askFor(Steps &steps);
  SmallVector<Copy> listCopies(Block::iterator begin, Block::iterator end);
  Value guess(Value value, IRMapping &known) {
    return guessed.guess(b, value, known);
  }
  Value constant(int64_t value) {
    return arith::ConstantIndexOp::create(b, wait.getLoc(), value);
  }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, wait.getLoc(), predicate, x, y);
  }
  std::optional<SmallVector<Value>> guessIndices(Copy copy, IRMapping &known);

  KernelOp kernel;
  LaunchOp launch;
  WaitDependenciesOp wait;
  SchedulerOp scheduler;
  const ::attn::TargetInfo &target;
  ::attn::ItemGuess guessed;
  OpBuilder b;
  /// The role that asks, of the item that its block begins with.
  RoleOp role;
};

} // namespace

SmallVector<Copy> GuessedCopies::listCopies(Block::iterator begin,
                                            Block::iterator end) {
  SmallVector<Copy> copies;
  for (Operation &op : llvm::make_range(begin, end)) {
    auto load = dyn_cast<RingLoadOp>(op);
    Value memref = load ? ::attn::findTensor(kernel, launch, load) : Value();
    int64_t rank = load ? load.getIndices().size() : 0;
    if (memref && !load.getBox() && (!load.getTable() || rank == 4) &&
        cast<MemRefType>(memref.getType()).getRank() == rank)
      copies.push_back({load, memref});
  }
  return copies;
}

/// What a warp copies first of an item.
std::optional<GuessedCopies::Steps> GuessedCopies::findSteps() {
  Steps steps;
  WalkResult found = kernel.walk<WalkOrder::PreOrder>([&](scf::ForOp loop) {
    auto role = loop->getParentOfType<RoleOp>();
    auto items = loop->getParentOfType<ForeachOp>();
    if (!items || items.getSchedule() != scheduler.getResult() ||
        role.getScope() != Scope::Warp || role.getWarps() != 1)
      return WalkResult::skip();
    Block *body = loop.getBody(), *block = loop->getBlock();
    steps = {loop, listCopies(block->begin(), loop->getIterator()),
             listCopies(body->begin(), body->end())};
    return steps.own.empty() ? WalkResult::skip() : WalkResult::interrupt();
  });
  if (!found.wasInterrupted())
    return std::nullopt;
  // Not the queries, which are few.
  llvm::erase_if(steps.ahead, [&](Copy copy) {
    return llvm::none_of(steps.own,
                         [&](Copy own) { return own.memref == copy.memref; });
  });
  return steps;
}

std::optional<SmallVector<Value>>
GuessedCopies::guessIndices(Copy copy, IRMapping &known) {
  SmallVector<Value> indices;
  for (Value index : copy.load.getIndices()) {
    indices.push_back(guess(index, known));
    if (!indices.back())
      return std::nullopt;
  }
  return indices;
}

/// A warp that is not there yet, and so takes no other's time or registers: of
/// those that fill up a warpgroup.
bool GuessedCopies::createRole() {
  RoleOp last;
  int64_t warps = 0;
  for (auto role : kernel.getOps<RoleOp>()) {
    if (role.getScope() != Scope::Warp)
      continue;
    warps += role.getWarps();
    if (role.getWarps() == 1)
      last = role;
  }
  if (!last || warps % ::attn::gpu::groupWarps == 0)
    return false;
  Location loc = wait.getLoc();
  b.setInsertionPointAfter(last);
  role = RoleOp::create(b, loc, "ask", Scope::Warp, 1, last.getRegistersAttr(),
                        /*barrier=*/IntegerAttr());
  b.createBlock(&role.getBody(), {}, {b.getI32Type()}, {loc});
  ForeachOp item = guessed.createLoop(b, ValueRange());
  YieldOp::create(b, loc, ValueRange());
  b.setInsertionPoint(item.getBody().front().getTerminator());
  return true;
}

void GuessedCopies::ask() {
  // What many rows multiply comes in time, but for half of a warpgroup's
  // (1.02).
  mlir::attn::ScheduleAttr schedule = kernel.getScheduleAttr();
  bool areFew = schedule && schedule.getBlockQ() <= ::attn::aheadRules().rows;
  bool areHalf =
      schedule && !scheduler.getSplits() &&
      ::attn::rowsAreHalf(schedule.getBlockQ(), schedule.getRows(), target);
  if (!areFew && !areHalf)
    return;
  std::optional<Steps> steps = findSteps();
  if (!steps || !createRole())
    return;
  askFor(*steps);
  if (!role.walk([](GlobalPrefetchOp) { return WalkResult::interrupt(); })
           .wasInterrupted()) {
    guessed.eraseLoop();
    role.erase();
  }
}

/// Asks for what fills the slots first, where the launch asks.
void GuessedCopies::askFor(Steps &steps) {
  Location loc = wait.getLoc();
  IRMapping known;
  Value begin = guess(steps.loop.getLowerBound(), known);
  Value step = guess(steps.loop.getStep(), known);
  Value end = guessed.guessEnd(b, steps.loop, known);
  if (!begin || !step || !end)
    return;
  // Copies ahead of the loop fill the slots.
  int64_t slots = 1;
  if (steps.ahead.empty())
    slots = steps.own.front()
                .load.getTile()
                .getDefiningOp<RingAcquireOp>()
                .getRing()
                .getType()
                .getStages();
  Value ahead = arith::AddIOp::create(
      b, loc, begin, arith::MulIOp::create(b, loc, step, constant(slots)));
  Value asks =
      ::attn::decideAsking(b, loc, scheduler, begin, ahead, end, target);
  auto branch = scf::IfOp::create(b, loc, asks, /*withElseRegion=*/false);
  b.setInsertionPointToStart(branch.thenBlock());
  Value before = arith::IndexCastOp::create(b, loc, b.getI32Type(), end);
  // One read of what says where a tile lies does not wait for another.
  struct Part {
    Copy copy;
    SmallVector<Value> indices;
    int64_t tiles;
  };
  SmallVector<Part> parts;
  bool isAhead = !steps.ahead.empty();
  for (int64_t i = 0; i < slots; ++i) {
    IRMapping ofStep = known;
    ofStep.map(
        steps.loop.getInductionVar(),
        arith::AddIOp::create(
            b, loc, begin, arith::MulIOp::create(b, loc, step, constant(i))));
    for (Copy copy : isAhead ? steps.ahead : steps.own) {
      bool areBehind =
          copy.load.getTable() && !isAhead &&
          getConstantIntValue(step) == copy.load.getTile().getType().getRows();
      if (areBehind && i > 0)
        continue;
      if (auto indices = guessIndices(copy, ofStep))
        parts.push_back({copy, *indices, areBehind ? slots : 1});
    }
  }
  for (Part &part : parts)
    if (part.copy.load.getTable())
      ::attn::askForPages(b, part.copy, part.indices, part.tiles, before);
    else
      ::attn::askForTile(b, part.copy, part.indices, end);
}

void ::attn::guessAhead(KernelOp kernel, LaunchOp launch,
                        const ::attn::TargetInfo &target) {
  for (auto scheduler : kernel.getOps<SchedulerOp>())
    for (auto wait : scheduler.getOps<WaitDependenciesOp>())
      GuessedCopies(kernel, launch, wait, target).ask();
}
