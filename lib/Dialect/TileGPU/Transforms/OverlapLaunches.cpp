//===- OverlapLaunches.cpp - A kernel starts while the one before ends ----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of two launches in a row, the second waits for all of the first, then for its
// own start. Here its blocks are there by then: they start as those of the
// first end, and only their programs wait.
//
//===----------------------------------------------------------------------===//

#include "AskAhead.h"
#include "RunBeside.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#define DEBUG_TYPE "tile-gpu-overlap-launches"

namespace attn {
#define GEN_PASS_DEF_TILEGPUOVERLAPLAUNCHESPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

/// Whether an operation of the plan may as well come before `launch`: no branch
/// is between them, so that one that must not run without need, as a division,
/// may.
static bool isFreeOf(Operation *op, LaunchOp launch) {
  if (auto reset = dyn_cast<ResetOp>(op))
    return reset.getMemory().getDefiningOp<tile::WorkspaceOp>() &&
           !llvm::is_contained(launch.getArguments(), reset.getMemory());
  return isa<tile::WorkspaceOp, KeepOp, TicketsOp>(op) ||
         (op->getNumRegions() == 0 && isMemoryEffectFree(op)) ||
         isa<memref::DimOp>(op);
}

/// Whether all that a kernel reads and writes is read and written by its roles.
static bool startsInRoles(KernelOp kernel) {
  for (Operation &op : kernel.getBody().front().without_terminator())
    if (!isa<RoleOp, RingCreateOp, SmemAllocOp, BarrierCreateOp, SchedulerOp>(
            op) &&
        !isMemoryEffectFree(&op) && !isa<memref::DimOp>(op))
      return false;
  return true;
}

/// Puts an operation at the start of each role, once.
template <typename Op> static void insertInRoles(KernelOp kernel) {
  for (auto role : kernel.getOps<RoleOp>()) {
    Block &body = role.getBody().front();
    if (!body.getOps<Op>().empty())
      continue;
    auto b = OpBuilder::atBlockBegin(&body);
    Op::create(b, role.getLoc());
  }
}

/// Whether an operation neither reads nor writes what another kernel might.
static bool isOfItsOwn(Operation &op) {
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return llvm::all_of(branch->getRegions(), [](Region &region) {
      return region.empty() || llvm::all_of(region.front(), isOfItsOwn);
    });
  return isa<LaunchDependentsOp, GlobalPrefetchOp, memref::DimOp>(op) ||
         isMemoryEffectFree(&op);
}

/// Puts a wait ahead of the first operation of a block that may touch memory,
/// or at its end.
static void waitInBlock(Block &block) {
  for (Operation &op : block) {
    if (isa<WaitDependenciesOp>(op))
      return;
    if (isOfItsOwn(op) && !op.hasTrait<OpTrait::IsTerminator>())
      continue;
    auto b = OpBuilder(&op);
    WaitDependenciesOp::create(b, op.getLoc());
    return;
  }
}

/// Where a role waits: at its start, or where it first asks for memory within
/// its loop over items. What finds an item is computed from arguments, with
/// nothing to hide behind; warps that copy, and those of a block without such,
/// do that before they wait. Those that multiply wait for copies anyway.
static Block &waitingBlock(RoleOp role, bool isAlone) {
  Block &body = role.getBody().front();
  auto loops = body.getOps<ForeachOp>();
  if ((!isAlone && role.getScope() != Scope::Warp) ||
      !llvm::hasSingleElement(loops))
    return body;
  ForeachOp loop = *loops.begin();
  auto scheduler = loop.getSchedule().getDefiningOp<SchedulerOp>();
  auto before = llvm::make_range(body.begin(), loop->getIterator());
  if (!scheduler || !llvm::all_of(before, isOfItsOwn))
    return body;
  // The first item is drawn ahead of the loop.
  if (scheduler.getDrawsFirst() && loop.getLead())
    return body;
  // What finds an item may read lengths. The role that leads evaluates it.
  Block &search = scheduler.getBody().front();
  if (llvm::all_of(search, isOfItsOwn))
    return loop.getBody().front();
  return loop.getLead() ? search : body;
}

static void insertWaits(KernelOp kernel) {
  bool isAlone = llvm::hasSingleElement(kernel.getOps<RoleOp>());
  for (auto role : kernel.getOps<RoleOp>())
    waitInBlock(waitingBlock(role, isAlone));
}

/// The memory that the kernel of a launch writes; none where that cannot be
/// told.
static std::optional<llvm::DenseSet<Value>> findWritten(KernelOp kernel,
                                                        LaunchOp launch) {
  llvm::DenseSet<Value> written;
  WalkResult result = kernel.walk([&](MemoryEffectOpInterface op) {
    // What stands in regions is walked as well.
    if (op->getNumRegions() || isa<LaunchDependentsOp, WaitDependenciesOp>(op))
      return WalkResult::advance();
    SmallVector<MemoryEffects::EffectInstance> effects;
    op.getEffects(effects);
    for (const MemoryEffects::EffectInstance &effect : effects) {
      if (!isa<MemoryEffects::Write>(effect.getEffect()))
        continue;
      auto memory = dyn_cast_or_null<BlockArgument>(effect.getValue());
      if (!memory || memory.getOwner() != &kernel.getBody().front())
        return WalkResult::interrupt();
      written.insert(findMemory(launch.getArguments()[memory.getArgNumber()]));
    }
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return std::nullopt;
  return written;
}

/// Moves the wait of a kernel behind all that it reads, where it reads nothing
/// that `first` writes, and writes behind that alone. The kernel before lets it
/// start when it has itself waited, so that what is read is there.
static void readAhead(KernelOp first, LaunchOp before, KernelOp second,
                      LaunchOp launch) {
  auto alone = [](KernelOp kernel) {
    return llvm::hasSingleElement(kernel.getOps<RoleOp>());
  };
  std::optional<llvm::DenseSet<Value>> written = findWritten(first, before);
  // A launch that may have no blocks does not wait, so that nothing says that
  // what is read is there.
  auto choice = before.getGrid().getDefiningOp<arith::SelectOp>();
  bool mayBeNone = choice && (matchPattern(choice.getTrueValue(), m_Zero()) ||
                              matchPattern(choice.getFalseValue(), m_Zero()));
  if (!written || mayBeNone || !alone(first) || !alone(second))
    return;
  WaitDependenciesOp wait;
  second.walk([&](WaitDependenciesOp op) { wait = op; });
  Block *body = &second.getBody().front();
  auto isReadable = [&](Operation &op) {
    if (isOfItsOwn(op))
      return true;
    auto reads = dyn_cast<MemoryEffectOpInterface>(op);
    if (!reads || op.getNumRegions())
      return false;
    SmallVector<MemoryEffects::EffectInstance> effects;
    reads.getEffects(effects);
    return llvm::all_of(
        effects, [&](const MemoryEffects::EffectInstance &effect) {
          auto memory = dyn_cast_or_null<BlockArgument>(effect.getValue());
          return isa<MemoryEffects::Read>(effect.getEffect()) && memory &&
                 memory.getOwner() == body &&
                 !written->contains(
                     findMemory(launch.getArguments()[memory.getArgNumber()]));
        });
  };
  Operation *op = wait->getNextNode();
  while (isReadable(*op) && !op->hasTrait<OpTrait::IsTerminator>())
    op = op->getNextNode();
  if (!isa<GlobalStoreOp>(op))
    return;
  wait->moveBefore(op);
  first.walk([&](LaunchDependentsOp lets) {
    first.walk([&](WaitDependenciesOp waits) { lets->moveAfter(waits); });
  });
}

/// Lets the first launch of a plan start while what the stream ran before it
/// ends.
static void overlapRuns(KernelOp first, LaunchOp launch,
                        const ::attn::TargetInfo &target) {
  if (!first || launch.getProgrammatic() || !startsInRoles(first))
    return;
  insertWaits(first);
  ::attn::askAhead(first, launch, target);
  launch.setProgrammatic(true);
}

namespace {
struct OverlapLaunchesPass
    : ::attn::impl::TileGpuOverlapLaunchesPassBase<OverlapLaunchesPass> {
  void runOnOperation() final {
    ModuleOp module = getOperation();
    std::optional<::attn::TargetInfo> target = ::attn::getTarget(module);
    if (!target)
      return signalPassFailure();
    if (!target->hasProgrammaticLaunch)
      return;
    SymbolTable symbols(module);
    auto kernelOf = [&](LaunchOp launch) -> KernelOp {
      auto kernel = symbols.lookup<KernelOp>(launch.getKernel());
      return kernel && !kernel.isExternal() ? kernel : KernelOp();
    };
    for (auto plan : module.getOps<func::FuncOp>()) {
      if (!plan->hasAttr(tile::TileDialect::planName) || plan.isExternal())
        continue;
      ::attn::RunBeside beside(plan, kernelOf);
      LaunchOp before;
      SmallVector<Operation *> between;
      for (Operation &op : llvm::make_early_inc_range(plan.getBody().front())) {
        auto launch = dyn_cast<LaunchOp>(op);
        if (!launch) {
          between.push_back(&op);
          continue;
        }
        if (before && !launch.getProgrammatic() &&
            llvm::all_of(between,
                         [&](Operation *op) { return isFreeOf(op, before); })) {
          KernelOp first = kernelOf(before), second = kernelOf(launch);
          if (first && second && first != second && startsInRoles(second)) {
            for (Operation *op : between)
              op->moveBefore(before);
            insertInRoles<LaunchDependentsOp>(first);
            insertWaits(second);
            ::attn::askAhead(second, launch, *target);
            if (!beside.start(before, launch, kernelOf))
              readAhead(first, before, second, launch);
            launch.setProgrammatic(true);
          }
        }
        if (!before)
          overlapRuns(kernelOf(launch), launch, *target);
        before = launch;
        between.clear();
      }
      if (KernelOp last = before ? kernelOf(before) : KernelOp())
        insertInRoles<LaunchDependentsOp>(last);
    }
  }
};
} // namespace
