//===- MulticastLoads.cpp - Blocks of a cluster copy for each other -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The blocks of a cluster have neighbouring query tiles of one head, batch and
// split, and read the same keys and values. A ring whose slots are acquired,
// and its tiles loaded, under what does not depend on the tile is filled by one
// copy for all: the cache is read once for the cluster.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

#define DEBUG_TYPE "tile-gpu-multicast-loads"

namespace attn {
#define GEN_PASS_DEF_TILEGPUMULTICASTLOADSPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

namespace {
/// Finds what differs between the blocks of a cluster in one loop over items.
class ClusterValues {
public:
  ClusterValues(KernelOp kernel, ForeachOp loop) : kernel(kernel), loop(loop) {}
  void compute();
  bool isSame(Value value) const { return !differing.contains(value); }
  /// Whether the blocks reach `op` equally often.
  bool isReachedAlike(Operation *op) const;

private:
  bool visit(Operation *op);
  bool mark(ValueRange values);
  bool markWhere(ValueRange values, ValueRange sources);
  bool differs(ValueRange values) const {
    return llvm::any_of(values, [&](Value v) { return !isSame(v); });
  }
  bool isFixedLoad(memref::LoadOp load);

  KernelOp kernel;
  ForeachOp loop;
  DenseSet<Value> differing;
};
} // namespace

bool ClusterValues::mark(ValueRange values) {
  bool changed = false;
  for (Value value : values)
    changed |= differing.insert(value).second;
  return changed;
}

/// Marks each of `values` whose source differs.
bool ClusterValues::markWhere(ValueRange values, ValueRange sources) {
  bool changed = false;
  for (auto [value, source] : llvm::zip_equal(values, sources))
    if (!isSame(source))
      changed |= differing.insert(value).second;
  return changed;
}

/// A load of what nobody writes while the kernel runs.
bool ClusterValues::isFixedLoad(memref::LoadOp load) {
  auto argument = dyn_cast<BlockArgument>(load.getMemRef());
  return argument && argument.getOwner() == &kernel.getBody().front() &&
         llvm::all_of(argument.getUsers(), [](Operation *user) {
           return isa<memref::LoadOp, memref::DimOp, RingLoadOp>(user);
         });
}

/// Marks the results of `op` that differ; true where that is new.
bool ClusterValues::visit(Operation *op) {
  if (auto inner = dyn_cast<scf::ForOp>(op)) {
    auto yielded =
        cast<scf::YieldOp>(inner.getBody()->getTerminator()).getOperands();
    bool changed = false;
    if (differs(
            {inner.getLowerBound(), inner.getUpperBound(), inner.getStep()})) {
      changed |= mark(inner.getBody()->getArguments());
      return mark(inner.getResults()) || changed;
    }
    for (ValueRange sources :
         {ValueRange(inner.getInitArgs()), ValueRange(yielded)}) {
      changed |= markWhere(inner.getRegionIterArgs(), sources);
      changed |= markWhere(inner.getResults(), sources);
    }
    return changed;
  }
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    if (differs(branch.getCondition()))
      return mark(branch.getResults());
    bool changed = false;
    if (branch.getNumResults())
      for (Block *block : {branch.thenBlock(), branch.elseBlock()})
        changed |= markWhere(branch.getResults(),
                             block->getTerminator()->getOperands());
    return changed;
  }
  auto load = dyn_cast<memref::LoadOp>(op);
  bool isKnown =
      isMemoryEffectFree(op) && op->getNumRegions() == 0 &&
      isa<arith::ArithDialect, memref::MemRefDialect>(op->getDialect());
  isKnown |= load && isFixedLoad(load);
  if (isKnown && !differs(op->getOperands()))
    return false;
  return mark(op->getResults());
}

void ClusterValues::compute() {
  // The tile differs, and what the schedule makes of it may; ring counters,
  // which the loop carries, start alike.
  mark(ValueRange(loop.getItemArgs()).take_front());
  mark(ValueRange(loop.getItemArgs()).drop_front(4));
  bool changed = true;
  while (changed) {
    changed = false;
    loop.getBody().walk([&](Operation *op) { changed |= visit(op); });
    changed |= markWhere(loop.getRegionIterArgs(),
                         loop.getBody().front().getTerminator()->getOperands());
  }
}

bool ClusterValues::isReachedAlike(Operation *op) const {
  for (Operation *at = op->getParentOp(); at != loop; at = at->getParentOp()) {
    if (auto inner = dyn_cast<scf::ForOp>(at)) {
      if (differs(
              {inner.getLowerBound(), inner.getUpperBound(), inner.getStep()}))
        return false;
    } else if (auto branch = dyn_cast<scf::IfOp>(at)) {
      if (differs(branch.getCondition()))
        return false;
    } else {
      return false;
    }
  }
  return true;
}

namespace {
struct MulticastLoadsPass
    : ::attn::impl::TileGpuMulticastLoadsPassBase<MulticastLoadsPass> {
  using Base::Base;
  void runOnOperation() final;
};
} // namespace

/// The loops over `scheduler` that copy, each by one warp; none where no role
/// of one warp draws the items.
static SmallVector<ForeachOp> findCopies(SchedulerOp scheduler) {
  bool isDrawn = false;
  SmallVector<ForeachOp> copies;
  for (Operation *user : scheduler.getResult().getUsers()) {
    auto loop = dyn_cast<ForeachOp>(user);
    auto role = dyn_cast<RoleOp>(user->getParentOp());
    if (!loop || !role)
      return {};
    isDrawn |= loop.getLead() && role.getWarps() == 1;
    if (!loop.walk([](RingAcquireOp) { return WalkResult::interrupt(); })
             .wasInterrupted())
      continue;
    if (role.getWarps() != 1)
      return {};
    copies.push_back(loop);
  }
  if (!isDrawn)
    copies.clear();
  return copies;
}

/// Whether all that fills the slots of `ring` is the same in the blocks of a
/// cluster, and is copied by the loop of `values`.
static bool isFilledAlike(RingCreateOp ring, ForeachOp copies,
                          const ClusterValues &values) {
  if (ring.getFill() != Fill::Tma || !ring.getConsumers() || ring.getCluster())
    return false;
  bool isLoaded = false;
  for (Operation *user : ring.getRing().getUsers()) {
    auto acquire = dyn_cast<RingAcquireOp>(user);
    if (!acquire)
      continue;
    if (!copies->isProperAncestor(acquire) || !values.isReachedAlike(acquire) ||
        !values.isSame(acquire.getCounter()))
      return false;
    for (Value tile : acquire.getTiles())
      for (Operation *inner : tile.getUsers()) {
        auto load = dyn_cast<RingLoadOp>(inner);
        if (!load || !isa<TensorMapType>(load.getSource().getType()) ||
            !values.isReachedAlike(load) ||
            !llvm::all_of(load.getOperands().drop_front(), [&](Value v) {
              return v == tile || values.isSame(v);
            }))
          return false;
        isLoaded = true;
      }
  }
  return isLoaded;
}

/// Lets rings be filled for a whole cluster. Why none is, or nothing.
static std::string share(KernelOp kernel, SchedulerOp scheduler,
                         const ::attn::TargetInfo &target) {
  if (int64_t(*scheduler.getCluster()) > target.maxCluster)
    return "the target has at most " + std::to_string(target.maxCluster) +
           " blocks in one";
  SmallVector<ForeachOp> loops = findCopies(scheduler);
  if (loops.empty())
    return "no role of one warp draws its work tiles, or several warps copy";
  // Slots of latents are taken for both products of a step, and there are two:
  // they are empty late, and while one block tells the other so, nothing is
  // copied. Consumers that release them in both blocks take 0.98 of the time
  // (docs/performance/gpu-serving.md).
  ::mlir::attn::ScheduleAttr schedule = kernel.getScheduleAttr();
  bool isLate = schedule && schedule.getBlockV();
  bool isShared = false;
  for (ForeachOp copies : loops) {
    ClusterValues values(kernel, copies);
    values.compute();
    for (RingCreateOp ring : kernel.getOps<RingCreateOp>()) {
      if (isFilledAlike(ring, copies, values)) {
        ring.setClusterAttr(scheduler.getClusterAttr());
        ring.setReleaseAll(isLate);
      }
      isShared |= bool(ring.getCluster());
    }
  }
  return isShared ? "" : "which keys are copied depends on the tile of rows";
}

void MulticastLoadsPass::runOnOperation() {
  KernelOp kernel = getOperation();
  if (kernel.isExternal())
    return;
  SchedulerOp scheduler;
  for (auto other : kernel.getOps<SchedulerOp>())
    if (other.getCluster())
      scheduler = other;
  // Parts of the keys have nothing in common.
  if (!scheduler || scheduler.getByParts())
    return;
  std::optional<::attn::TargetInfo> target =
      ::attn::getGpuTarget(kernel->getParentOfType<ModuleOp>());
  if (!target)
    return signalPassFailure();
  std::string reason = share(kernel, scheduler, *target);
  if (reason.empty())
    return;
  // Blocks that share nothing draw their items each for itself.
  ++numMissed;
  if (explain)
    kernel.emitRemark("copies of a cluster not shared: ") << reason;
  scheduler.removeClusterAttr();
}
