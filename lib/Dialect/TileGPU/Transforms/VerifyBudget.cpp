//===- VerifyBudget.cpp - Kernels against the limits of the target --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registers are counted where the assembler will count them: the fragments
// that are live after each operation, the accumulators of products in flight,
// and the A fragments that those products still read. Vectors, counters and
// addresses are covered by the target's reserve.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/TileGPU/IR/SharedLayout.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

namespace attn {
#define GEN_PASS_DEF_TILEGPUVERIFYBUDGETPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;
using ::attn::TargetInfo;

namespace {

using LiveSet = llvm::SetVector<Value>;

/// The widest point of a role.
struct Peak {
  int64_t registers = 0;
  Operation *at = nullptr;
  SmallVector<int64_t> parts; // Registers of each fragment live there.
};

} // namespace

static int64_t registersOf(Value value) {
  // A constant takes registers only as what it becomes.
  if (value.getDefiningOp<FragFillOp>())
    return 0;
  if (auto frag = dyn_cast<FragType>(value.getType()))
    return frag.getRegisters();
  if (auto token = dyn_cast<TokenType>(value.getType())) {
    FragType frag = token.getFragType();
    return frag.getRegisters() * (frag.isHalf() ? 2 : 1);
  }
  return 0;
}

/// Whether a fragment is only reduced, in the block of the map that makes it
/// beside another: its elements go into the reduction one after another, as
/// those of the other come to be.
static bool isReducedAtOnce(Value value) {
  auto map = value.getDefiningOp<MapOp>();
  if (!map || value == map.getResult(0) || !value.hasOneUse())
    return false;
  Operation *user = *value.user_begin();
  return isa<ReduceOp>(user) && user->getBlock() == map->getBlock();
}

/// What packs a fragment directly behind the map that makes it beside one that
/// stays as it is, or null: pairs of elements are packed as they come to be.
static FragConvertOp packedAtOnce(Value value) {
  auto map = value.getDefiningOp<MapOp>();
  if (!map || map.getNumResults() < 2 || !value.hasOneUse())
    return {};
  auto pack = dyn_cast<FragConvertOp>(*value.user_begin());
  bool isAlone = llvm::none_of(map.getResults(), [&](Value other) {
    return other != value && other.hasOneUse() &&
           isa<FragConvertOp>(*other.user_begin());
  });
  return isAlone && pack == map->getNextNode() ? pack : FragConvertOp();
}

/// Notes the registers that are live after `op`.
static void notePoint(const LiveSet &live, Operation *op, Peak &peak) {
  LiveSet held = live;
  // A product in flight keeps the A fragment that it reads.
  for (Value value : live)
    if (auto issue = value.getDefiningOp<MmaIssueOp>())
      if (isa<FragType>(issue.getA().getType()))
        held.insert(issue.getA());
  SmallVector<int64_t> parts;
  int64_t total = 0;
  for (Value value : held)
    if (int64_t registers = registersOf(value)) {
      if (isReducedAtOnce(value))
        continue;
      if (FragConvertOp pack = packedAtOnce(value))
        registers = registersOf(pack);
      // A product changes no left operand: who reads it as well has it there.
      auto copy = value.getDefiningOp<FragCopyOp>();
      if (copy && copy.getResult().getType().getLayout() == Layout::A &&
          held.contains(copy.getValue()))
        continue;
      parts.push_back(registers);
      total += registers;
    }
  // Blocks are walked backwards: the first of equals is the last one seen.
  if (total && total >= peak.registers)
    peak = {total, op, parts};
}

/// Walks a block backwards from the values live at its end.
static void walkBackwards(Block &block, LiveSet live, Peak &peak) {
  for (Operation &op : llvm::reverse(block)) {
    // Results are held after the operation even if nothing reads them.
    LiveSet after = live;
    for (Value result : op.getResults())
      after.insert(result);
    notePoint(after, &op, peak);
    for (Value result : op.getResults())
      live.remove(result);
    for (Region &region : op.getRegions()) {
      if (isa<MapOp, ReduceOp, ScanOp, MergeStatesOp, SchedulerOp>(op))
        break; // Bodies on scalars.
      LiveSet inside = live;
      // What a loop body reads from outside lives through all iterations; what
      // one branch reads need not live in the other.
      if (!isa<scf::IfOp>(op))
        getUsedValuesDefinedAbove(region, inside);
      for (Block &nested : region)
        walkBackwards(nested, inside, peak);
    }
    for (Region &region : op.getRegions())
      getUsedValuesDefinedAbove(region, live);
    for (Value operand : op.getOperands())
      live.insert(operand);
  }
}

namespace {

class Budget {
public:
  Budget(KernelOp kernel, const TargetInfo &target, bool report)
      : kernel(kernel), target(target), report(report) {}
  LogicalResult run();

private:
  LogicalResult checkInstructions();
  LogicalResult checkRegisters();
  LogicalResult checkFragments(RoleOp role, int64_t registers);
  LogicalResult checkPlaces(const ::attn::gpu::SharedLayout &layout);
  LogicalResult checkSharedMemory();

  KernelOp kernel;
  const TargetInfo &target;
  bool report;
  int64_t threads = 0, sharedBytes = 0, roleRegisters = 0;
};

} // namespace

LogicalResult Budget::run() {
  if (failed(checkInstructions()) || failed(checkSharedMemory()) ||
      failed(checkRegisters()))
    return failure();
  if (report)
    mlir::emitRemark(kernel.getLoc())
        << "kernel '" << kernel.getName() << "': " << threads << " of "
        << target.maxThreads << " threads, " << sharedBytes << " of "
        << target.sharedMemoryBytes
        << " bytes of shared memory, blocks of a multiprocessor: "
        << ::attn::onchip::occupancy({threads, sharedBytes, roleRegisters},
                                     kernel.getOccupancy(), target);
  return success();
}

LogicalResult Budget::checkInstructions() {
  auto lacks = [&](Operation *op, StringRef what, StringRef instead) {
    op->emitOpError("needs ")
        << what << ", which " << target.name << " lacks; expected " << instead;
    return WalkResult::interrupt();
  };
  bool wide =
      llvm::is_contained(target.mmaShapes, ::attn::MmaShape::warpgroup());
  WalkResult result = kernel.walk([&](Operation *op) {
    if (isa<MmaIssueOp>(op) && !wide)
      return lacks(op, "products of a warpgroup", "mma.sync");
    if (auto ring = dyn_cast<RingCreateOp>(op))
      if (ring.getFill() == Fill::Tma && !target.hasTensorCopy)
        return lacks(op, "tensor copies", "a cp_async ring");
    if (isa<BulkStoreOp, BulkReduceOp>(op) && !target.hasTensorCopy)
      return lacks(op, "bulk copies", "global.store or global.reduce");
    if (isa<LaunchDependentsOp, WaitDependenciesOp>(op) &&
        !target.hasProgrammaticLaunch)
      return lacks(op, "dependent launches", "launches in order");
    if (auto role = dyn_cast<RoleOp>(op))
      if (role.getRegisters() && !target.hasRoleRegisters)
        return lacks(op, "registers(...) of a role", "an even share");
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// Places are as aligned as they have to be, within the kernel's bytes, and
/// apart.
LogicalResult Budget::checkPlaces(const ::attn::gpu::SharedLayout &layout) {
  if (!layout.isPlaced())
    return kernel.emitOpError("expected its shared memory and barriers to have "
                              "places; run tile-gpu-allocate-shared first");
  SmallVector<::attn::gpu::SharedPiece> pieces(layout.getPieces());
  llvm::stable_sort(pieces,
                    [](auto &x, auto &y) { return x.offset < y.offset; });
  int64_t end = 0;
  for (const ::attn::gpu::SharedPiece &piece : pieces) {
    if (piece.offset % piece.align)
      return piece.owner->emitOpError("expected ")
             << piece.describe() << " at a multiple of " << piece.align
             << " bytes, but got " << piece.offset;
    if (piece.offset < end)
      return piece.owner->emitOpError("expected ")
             << piece.describe() << " at " << end
             << " or behind, where the one before ends, but got "
             << piece.offset;
    end = piece.offset + piece.bytes;
  }
  if (end > layout.getBytes())
    return kernel.emitOpError("expected shared_bytes of ")
           << end << " or more, but got " << layout.getBytes();
  SmallVector<::attn::gpu::BarrierPiece> numbers(layout.getBarrierPieces());
  llvm::stable_sort(numbers,
                    [](auto &x, auto &y) { return x.first < y.first; });
  int64_t next = 1;
  for (const ::attn::gpu::BarrierPiece &piece : numbers) {
    if (piece.first < next)
      return piece.owner->emitOpError("expected hardware barriers from ")
             << next << " on, but got " << piece.first;
    next = piece.first + piece.count;
  }
  return success();
}

LogicalResult Budget::checkSharedMemory() {
  ::attn::gpu::SharedLayout layout;
  if (failed(layout.read(kernel)) || failed(checkPlaces(layout)))
    return failure();
  sharedBytes = layout.getBytes();
  if (sharedBytes > target.sharedMemoryBytes)
    return kernel.emitOpError("needs ")
           << sharedBytes << " bytes of shared memory, but " << target.name
           << " has " << target.sharedMemoryBytes;
  if (int64_t barriers = layout.getNumBarriers();
      barriers > target.namedBarriers)
    return kernel.emitOpError("needs ")
           << barriers << " hardware barriers, the block's own included, but "
           << target.name << " has " << target.namedBarriers;
  return success();
}

LogicalResult Budget::checkRegisters() {
  auto roles = llvm::to_vector(kernel.getOps<RoleOp>());
  if (roles.empty())
    return kernel.emitOpError("expected 1 role or more");
  ::attn::gpu::RoleLayout layout(kernel);
  bool mixed = false;
  for (RoleOp role : roles) {
    mixed |= bool(role.getRegisters()) != bool(roles.front().getRegisters());
    RoleOp first =
        layout.leaders[layout.firstWarp[role] / ::attn::gpu::groupWarps];
    if (role.getRegisters() != first.getRegisters()) {
      InFlightDiagnostic diag = role.emitOpError(
          "expected the registers of the role whose warpgroup it shares");
      diag.attachNote(first.getLoc()) << "shared with this role";
      return diag;
    }
  }
  threads = layout.threads;
  roleRegisters = layout.registers;
  if (threads > target.maxThreads)
    return kernel.emitOpError("needs ")
           << threads << " threads, but " << target.name << " has "
           << target.maxThreads;
  if (mixed)
    return kernel.emitOpError("expected registers(...) on all roles or none");
  if (layout.registers > target.numRegisters)
    return kernel.emitOpError("needs ")
           << layout.registers << " registers for its roles, but "
           << target.name << " has " << target.numRegisters;
  int64_t share = ::attn::onchip::evenShare(threads, target);
  for (RoleOp role : roles)
    if (failed(checkFragments(role, role.getRegisters().value_or(share))))
      return failure();
  // Roles share out what the launch gave; for more, one would wait for ever.
  if (layout.registers > threads * share)
    return kernel.emitOpError("needs ")
           << layout.registers << " registers for its roles, but a launch of "
           << threads << " threads gives them " << threads * share;
  return success();
}

LogicalResult Budget::checkFragments(RoleOp role, int64_t registers) {
  if (registers > target.maxThreadRegisters)
    return role.emitOpError("asks for ")
           << registers << " registers, but a thread of " << target.name
           << " has at most " << target.maxThreadRegisters;
  Peak peak;
  walkBackwards(role.getBody().front(), LiveSet(), peak);
  // A role without fragments is not bound by the reserve; one that asks for no
  // registers of its own runs, if it must, with some of them in memory.
  if (role.getRegisters() && peak.registers &&
      peak.registers + target.registerReserve > registers) {
    InFlightDiagnostic diag = role.emitOpError("needs ");
    llvm::interleave(peak.parts, diag, " + ");
    if (peak.parts.size() > 1)
      diag << " = " << peak.registers;
    diag << " registers of live fragments and " << target.registerReserve
         << " more, but has " << registers;
    diag.attachNote(peak.at->getLoc()) << "live after this operation";
    return diag;
  }
  if (report)
    mlir::emitRemark(role.getLoc())
        << "role '" << role.getName() << "': " << peak.registers
        << " registers of live fragments, " << target.registerReserve
        << " in reserve, of " << registers;
  return success();
}

namespace {
struct VerifyBudget
    : public ::attn::impl::TileGpuVerifyBudgetPassBase<VerifyBudget> {
  using TileGpuVerifyBudgetPassBase::TileGpuVerifyBudgetPassBase;
  void runOnOperation() override {
    markAllAnalysesPreserved();
    ModuleOp module = getOperation();
    auto kernels = llvm::to_vector(module.getOps<KernelOp>());
    if (kernels.empty())
      return;
    std::optional<::attn::TargetInfo> target = ::attn::getGpuTarget(module);
    if (!target)
      return signalPassFailure();
    for (KernelOp kernel : kernels)
      if (failed(Budget(kernel, *target, report).run()))
        return signalPassFailure();
  }
};
} // namespace
