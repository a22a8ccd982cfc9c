//===- HoistCoordinates.cpp - One warp finds an item's bounds for all -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each role derives from an item's tile and head its rows and its range of
// keys: a chain of selects for every kind of bound and, with packed sequences,
// of loads. The role that draws the items is ahead of the others, so the chain
// goes into the schedule's body, which it evaluates for all.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Transforms/RegionUtils.h"

#define DEBUG_TYPE "tile-gpu-hoist-coordinates"

namespace attn {
#define GEN_PASS_DEF_TILEGPUHOISTCOORDINATESPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

namespace {
class Sharer {
public:
  Sharer(KernelOp kernel, SchedulerOp scheduler)
      : kernel(kernel), scheduler(scheduler), b(kernel.getContext()) {}
  void run();

private:
  /// What the values of a loop's body depend on.
  enum class Kind { Other, Fixed, OfItem };
  using Kinds = DenseMap<Value, Kind>;

  bool findLoops();
  bool isReadOnly(Value memref);
  Kind kindOf(Operation &op, const Kinds &kinds);
  void collect(ForeachOp loop);
  void reduceCut();
  void rewrite(ForeachOp loop, ArrayRef<Value> cut);

  KernelOp kernel;
  SchedulerOp scheduler;
  OpBuilder b;
  SmallVector<ForeachOp> loops;
  /// Of each loop, the values that became some of the schedule's body.
  DenseMap<Operation *, IRMapping> moved;
  /// Whether a role waits for the launch before, which the lead might not do.
  bool waits = false;
  /// Values of the schedule's body that the loops read from outside of what
  /// moved there.
  llvm::SmallSetVector<Value, 16> cut;
};
} // namespace

static bool isScalar(Type type) {
  return type.isIndex() || type.isF32() || type.isSignlessInteger(1) ||
         type.isSignlessInteger(32) || type.isSignlessInteger(64);
}

/// A dynamic schedule that one warp draws for other roles.
bool Sharer::findLoops() {
  if (scheduler.getKind() != ScheduleKind::Dynamic)
    return false;
  bool hasLead = false;
  for (Operation *user : scheduler.getResult().getUsers()) {
    auto loop = dyn_cast<ForeachOp>(user);
    auto role = user->getParentOfType<RoleOp>();
    if (!loop || !role || user->getParentOp() != role)
      return false;
    if (loop.getLead() && role.getWarps() != 1)
      return false;
    hasLead |= loop.getLead();
    loops.push_back(loop);
  }
  return hasLead && loops.size() > 1;
}

/// Whether the kernel only loads elements of this argument, and nobody writes
/// them until a role says so.
bool Sharer::isReadOnly(Value memref) {
  if (waits)
    return false;
  auto argument = dyn_cast<BlockArgument>(memref);
  return argument && argument.getOwner() == &kernel.getBody().front() &&
         llvm::all_of(argument.getUsers(), [](Operation *user) {
           return isa<memref::LoadOp, memref::DimOp>(user);
         });
}

Sharer::Kind Sharer::kindOf(Operation &op, const Kinds &kinds) {
  if (op.hasTrait<OpTrait::IsTerminator>() || op.getNumResults() == 0 ||
      !llvm::all_of(op.getResultTypes(), isScalar))
    return Kind::Other;
  // Searches are loops of scalars.
  WalkResult walk = op.walk([&](Operation *inner) {
    if (auto load = dyn_cast<memref::LoadOp>(inner))
      return isReadOnly(load.getMemRef()) ? WalkResult::advance()
                                          : WalkResult::interrupt();
    bool isControl = isa<scf::ForOp, scf::IfOp, scf::YieldOp>(inner);
    bool isArithmetic = isa<arith::ArithDialect>(inner->getDialect()) ||
                        isa<memref::DimOp>(inner) ||
                        inner->getName().getDialectNamespace() == "math";
    return isControl || (isArithmetic && isMemoryEffectFree(inner))
               ? WalkResult::advance()
               : WalkResult::interrupt();
  });
  if (walk.wasInterrupted())
    return Kind::Other;
  llvm::SetVector<Value> operands(op.getOperands().begin(),
                                  op.getOperands().end());
  getUsedValuesDefinedAbove(op.getRegions(), operands);
  Kind kind = Kind::Fixed;
  for (Value operand : operands) {
    if (operand.getParentRegion() == &kernel.getBody()) {
      Operation *def = operand.getDefiningOp();
      if (def && !def->isBeforeInBlock(scheduler))
        return Kind::Other;
      continue;
    }
    Kind its = kinds.lookup(operand);
    if (its == Kind::Other)
      return Kind::Other;
    if (its == Kind::OfItem)
      kind = Kind::OfItem;
  }
  // A load that no item asks for might lead out of the tensor.
  if (kind == Kind::Fixed && !isMemoryEffectFree(&op))
    return Kind::Other;
  return kind;
}

/// An operation before `clone` in its block that computes the same, which then
/// takes its place.
static Operation *unique(Operation *clone) {
  for (Operation &other : *clone->getBlock()) {
    if (&other == clone)
      return clone;
    if (OperationEquivalence::isEquivalentTo(
            &other, clone, OperationEquivalence::IgnoreLocations)) {
      clone->erase();
      return &other;
    }
  }
  return clone;
}

/// Copies what `loop` computes of an item into the schedule's body.
void Sharer::collect(ForeachOp loop) {
  IRMapping &mapping = moved[loop];
  Block &body = loop.getBody().front(), &keys = scheduler.getBody().front();
  Kinds kinds;
  for (auto [own, given] : llvm::zip(loop.getItemArgs(), keys.getArguments())) {
    kinds[own] = Kind::OfItem;
    mapping.map(own, given);
  }
  for (auto [own, given] : llvm::zip(loop.getItemArgs().drop_front(4),
                                     keys.getTerminator()->getOperands())) {
    kinds[own] = Kind::OfItem;
    mapping.map(own, given);
  }
  for (Operation &op : body) {
    Kind kind = kindOf(op, kinds);
    if (kind == Kind::Other)
      continue;
    if (kind == Kind::Fixed)
      b.setInsertionPoint(scheduler);
    else
      b.setInsertionPoint(keys.getTerminator());
    Operation *clone = unique(b.clone(op, mapping));
    for (auto [from, to] : llvm::zip(op.getResults(), clone->getResults())) {
      kinds[from] = kind;
      mapping.map(from, to);
    }
  }
  for (Operation &op : body)
    for (Value result : op.getResults())
      if (kinds.lookup(result) == Kind::OfItem &&
          llvm::any_of(result.getUsers(), [&](Operation *user) {
            return user->getParentOp() != loop ||
                   user->hasTrait<OpTrait::IsTerminator>() ||
                   user->getNumResults() == 0 ||
                   kinds.lookup(user->getResult(0)) != Kind::OfItem;
          }))
        cut.insert(mapping.lookup(result));
}

static unsigned widthOf(Type type) {
  return type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
}

/// One instruction or two.
static bool isCheap(Operation *op) {
  return isa<arith::AddIOp, arith::SubIOp, arith::MaxSIOp, arith::MinSIOp,
             arith::CmpIOp, arith::SelectOp, arith::IndexCastOp, arith::ExtSIOp,
             arith::TruncIOp, arith::AndIOp, arith::OrIOp>(op);
}

/// What is an instruction away from other values, or from a narrower one, is
/// computed where it is read.
void Sharer::reduceCut() {
  Block &keys = scheduler.getBody().front();
  auto step = [&]() {
    for (Value value : cut) {
      Operation *def = value.getDefiningOp();
      if (!def || def->getBlock() != &keys || !isCheap(def))
        continue;
      llvm::SmallSetVector<Value, 2> missing;
      for (Value operand : def->getOperands()) {
        if (llvm::is_contained(keys.getTerminator()->getOperands(), operand))
          continue; // The loops have it anyway.
        bool isGiven = isa<BlockArgument>(operand) &&
                       operand.getParentRegion() == &scheduler.getBody();
        auto inner = operand.getDefiningOp();
        if (isGiven || (inner && inner->getBlock() == &keys))
          if (!cut.contains(operand))
            missing.insert(operand);
      }
      if (missing.size() > 1 ||
          (missing.size() == 1 &&
           widthOf(missing[0].getType()) > widthOf(value.getType())))
        continue;
      cut.remove(value);
      if (missing.size() == 1)
        cut.insert(missing[0]);
      return true;
    }
    return false;
  };
  while (step())
    ;
}

/// Replaces the values of the cut by new arguments of the loop.
void Sharer::rewrite(ForeachOp loop, ArrayRef<Value> given) {
  Block &body = loop.getBody().front();
  IRMapping &mapping = moved[loop];
  unsigned position = loop.getItemArgs().size();
  DenseMap<Value, Value> arguments;
  for (Value value : given)
    arguments[value] =
        body.insertArgument(position++, value.getType(), loop.getLoc());
  SmallVector<Operation *> ops;
  for (Operation &op : body)
    ops.push_back(&op);
  for (Operation *op : ops)
    for (Value result : op->getResults())
      if (Value copy = mapping.lookupOrNull(result))
        if (Value argument = arguments.lookup(copy))
          result.replaceAllUsesWith(argument);
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
}

/// Moves numbers that are the same for all heads of an item ahead of the loop
/// over these.
static void hoistFromHeads(scf::ForOp heads) {
  for (Operation &op : llvm::make_early_inc_range(*heads.getBody()))
    if (isPure(&op) && !op.getNumRegions() && op.getNumResults() &&
        llvm::all_of(op.getResultTypes(), isScalar) &&
        llvm::all_of(op.getOperands(), [&](Value operand) {
          return heads.isDefinedOutsideOfLoop(operand);
        }))
      op.moveBefore(heads);
}

void Sharer::run() {
  if (!findLoops())
    return;
  for (ForeachOp loop : loops)
    for (auto heads : loop.getBody().front().getOps<scf::ForOp>())
      if (!heads.getBody()->getOps<scf::IfOp>().empty())
        hoistFromHeads(heads);
  kernel.walk([&](WaitDependenciesOp) { waits = true; });
  for (ForeachOp loop : loops)
    collect(loop);
  // The schedule's own arguments come to the loops as they are.
  Block &keys = scheduler.getBody().front();
  Operation *yield = keys.getTerminator();
  auto isKnown = [&](Value value) {
    return isa<BlockArgument>(value) ||
           llvm::is_contained(yield->getOperands(), value);
  };
  reduceCut();
  SmallVector<Value> given;
  for (Value value : cut)
    if (!isKnown(value))
      given.push_back(value);
  yield->insertOperands(yield->getNumOperands(), given);
  for (ForeachOp loop : loops)
    rewrite(loop, given);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(keys)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

namespace {
struct HoistCoordinatesPass
    : ::attn::impl::TileGpuHoistCoordinatesPassBase<HoistCoordinatesPass> {
  void runOnOperation() final {
    KernelOp kernel = getOperation();
    if (kernel.isExternal())
      return;
    SmallVector<SchedulerOp> schedulers(kernel.getOps<SchedulerOp>());
    for (SchedulerOp scheduler : schedulers)
      Sharer(kernel, scheduler).run();
  }
};
} // namespace
