//===- RunBeside.cpp - Launches that need nothing of each other -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel that lists tiles has few blocks, which wait for memory; what rows
// have of gradients is found meanwhile. Launches of one stream run so where
// each lets the next one start, and that does not wait:
//
//   first member:   wait for all before; let the next start; work
//   other members:  let the next start; work; one block waits for the member
//                   before
//
// A launch has ended when its blocks have, so that behind the last member all
// of them have, and nothing of what came before the first is still under way
// when another one begins. Launches without blocks are none: if all members
// before have none, a member waits as the first one does.
//
//===----------------------------------------------------------------------===//

#include "RunBeside.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Utils/MemRefUtils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using ::attn::RunBeside;

namespace {
/// The memory of a plan that a launch takes.
struct Accesses {
  llvm::DenseSet<Value> read, written;

  bool changes(const Accesses &other) const {
    return llvm::any_of(written, [&](Value memory) {
      return other.read.contains(memory) || other.written.contains(memory);
    });
  }
};
} // namespace

Value tile_gpu::findMemory(Value argument) {
  if (auto map = argument.getDefiningOp<TensorMapOp>())
    argument = map.getSource();
  if (auto memory = dyn_cast<MemrefValue>(argument))
    return memref::skipViewLikeOps(memory);
  return argument;
}

static bool isMemory(Type type) { return isa<MemRefType, TensorMapType>(type); }

/// What a launch reads and writes, as the operands of its kernel's operations
/// say; none where these are not the kernel's arguments.
static std::optional<Accesses> accessesOf(KernelOp kernel, LaunchOp launch) {
  Accesses accesses;
  WalkResult result = kernel.walk([&](Operation *op) {
    if (isa<memref::DimOp>(op))
      return WalkResult::advance();
    auto effects = dyn_cast<MemoryEffectOpInterface>(op);
    for (Value operand : op->getOperands()) {
      if (!isMemory(operand.getType()))
        continue;
      auto argument = dyn_cast<BlockArgument>(operand);
      if (!argument || argument.getOwner() != &kernel.getBody().front())
        return WalkResult::interrupt();
      Value memory = findMemory(launch.getArguments()[argument.getArgNumber()]);
      accesses.read.insert(memory);
      if (!effects || effects.getEffectOnValue<MemoryEffects::Write>(operand))
        accesses.written.insert(memory);
    }
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return std::nullopt;
  return accesses;
}

/// The loop of a kernel of one role whose blocks have one item each.
static ForeachOp onlyItem(KernelOp kernel) {
  auto roles = kernel.getOps<RoleOp>();
  if (!llvm::hasSingleElement(roles))
    return {};
  auto loops = (*roles.begin()).getBody().front().getOps<ForeachOp>();
  if (!llvm::hasSingleElement(loops))
    return {};
  auto scheduler = (*loops.begin()).getSchedule().getDefiningOp<SchedulerOp>();
  auto isFree = [](Operation &op) { return isMemoryEffectFree(&op); };
  if (!scheduler || scheduler.getKind() != ScheduleKind::Grid ||
      !llvm::all_of(scheduler.getBody().front(), isFree))
    return {};
  return *loops.begin();
}

/// What computes the operands of `launch`, in order, of what stands behind
/// `first`; none where it may not come ahead of that.
static std::optional<SmallVector<Operation *>> sliceBehind(LaunchOp first,
                                                           LaunchOp launch) {
  llvm::SetVector<Operation *> slice;
  SmallVector<Value> values(launch->getOperands());
  while (!values.empty()) {
    Operation *op = values.pop_back_val().getDefiningOp();
    if (!op || op->getBlock() != first->getBlock() ||
        op->isBeforeInBlock(first) || !slice.insert(op))
      continue;
    if (op->getNumRegions() ||
        !(isMemoryEffectFree(op) || isa<memref::DimOp, tile::WorkspaceOp>(op)))
      return std::nullopt;
    llvm::append_range(values, op->getOperands());
  }
  SmallVector<Operation *> ordered(slice.getArrayRef());
  llvm::sort(ordered,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return ordered;
}

/// Whether an operation that is no launch leaves the memory of a launch alone.
static bool leaves(Operation &op, const Accesses &accesses) {
  if (op.getNumRegions())
    return false;
  return isMemoryEffectFree(&op) ||
         isa<memref::DimOp, tile::WorkspaceOp, TicketsOp>(op) ||
         llvm::none_of(op.getOperands(), [&](Value operand) {
           Value memory = findMemory(operand);
           return accesses.read.contains(memory) ||
                  accesses.written.contains(memory);
         });
}

RunBeside::RunBeside(func::FuncOp plan, KernelOf kernelOf) {
  auto launches = plan.getBody().front().getOps<LaunchOp>();
  if (launches.empty())
    return;
  LaunchOp first = *launches.begin();
  if (KernelOp kernel = kernelOf(first); !kernel || !onlyItem(kernel))
    return;
  SmallVector<Accesses> before;
  Operation *next = nullptr;
  for (Operation *op = first; op; op = next) {
    next = op->getNextNode();
    auto launch = dyn_cast<LaunchOp>(op);
    if (!launch) {
      if (op->getNumRegions())
        break;
      continue;
    }
    KernelOp kernel = kernelOf(launch);
    std::optional<Accesses> own;
    if (kernel)
      own = accessesOf(kernel, launch);
    if (!own)
      break;
    // What reads nothing only writes, beside others that wait for memory.
    bool movesAhead =
        launch != first && onlyItem(kernel) &&
        own->read.size() > own->written.size() &&
        llvm::none_of(before,
                      [&](const Accesses &other) {
                        return own->changes(other) || other.changes(*own);
                      }) &&
        llvm::all_of(
            llvm::make_range(first->getIterator(), launch->getIterator()),
            [&](Operation &other) {
              return isa<LaunchOp>(other) || leaves(other, *own);
            });
    std::optional<SmallVector<Operation *>> slice;
    if (movesAhead)
      slice = sliceBehind(first, launch);
    before.push_back(*own);
    if (!slice)
      continue;
    for (Operation *part : *slice)
      part->moveBefore(first);
    launch->moveBefore(first);
    members.push_back(launch);
  }
  if (!members.empty())
    members.push_back(first);
}

bool RunBeside::start(LaunchOp before, LaunchOp launch, KernelOf kernelOf) {
  auto *at = llvm::find(members, launch);
  if (at == members.end() || at == members.begin() || *std::prev(at) != before)
    return false;
  KernelOp kernel = kernelOf(launch);
  Location loc = launch.getLoc();
  // Blocks of the members before.
  OpBuilder b(launch);
  Value blocks = members.front().getGrid();
  for (LaunchOp member : llvm::make_range(std::next(members.begin()), at))
    blocks = arith::AddIOp::create(b, loc, blocks, member.getGrid());
  unsigned number = kernel.getNumArguments();
  (void)kernel.insertArgument(number, b.getIndexType(), {}, loc);
  launch.getArgumentsMutable().append(blocks);

  kernel.walk([](WaitDependenciesOp wait) { wait.erase(); });
  ForeachOp item = onlyItem(kernel);
  auto waitIf = [&](Value condition) {
    auto branch = scf::IfOp::create(b, loc, condition, false);
    auto inside = branch.getThenBodyBuilder();
    WaitDependenciesOp::create(inside, loc);
  };
  b.setInsertionPoint(item);
  Value none = arith::ConstantIndexOp::create(b, loc, 0);
  waitIf(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                               kernel.getArgument(number), none));
  LaunchDependentsOp::create(b, loc);

  Block &body = item.getBody().front();
  b.setInsertionPoint(body.getTerminator());
  Value place;
  for (Value each : item.getItemArgs().take_front(4))
    place = place ? arith::OrIOp::create(b, loc, place, each) : each;
  Value zero = arith::ConstantIntOp::create(b, loc, 0, 32);
  waitIf(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, place, zero));
  if (at != std::next(members.begin()))
    return true;
  // The first of them lets the next one start when it has waited itself.
  KernelOp head = kernelOf(before);
  head.walk([&](LaunchDependentsOp lets) {
    head.walk([&](WaitDependenciesOp waits) { lets->moveAfter(waits); });
  });
  return true;
}
