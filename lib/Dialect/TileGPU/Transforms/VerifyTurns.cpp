//===- VerifyTurns.cpp - Turns that warpgroups take -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The turn goes round: a member gets it again only when each of the others has
// had it once. So all must take as many turns, and since they run one program,
// that is so unless control flow depends on the member. One such loop is
// allowed: of which each member makes as many rounds as it has work for, where
// a later loop makes up for the rounds left out. A counter shows that:
//
//   %c1 = scf.for ... to %own iter_args(%c = %c0) { turn; yield %c + 1 }
//         scf.for %r = %c1 to %all step 1         { turn }
//
//===----------------------------------------------------------------------===//

#include "VerifyTurns.h"
#include "attn/Dialect/TileGPU/IR/SharedLayout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;
using namespace mlir::tile_gpu;

namespace {
class TurnsVerifier {
public:
  explicit TurnsVerifier(RoleOp role) : role(role) {}
  LogicalResult run();

private:
  LogicalResult checkBarrier(Operation *op);
  LogicalResult checkPairs(Block &block);
  LogicalResult checkControl(Operation *op);
  LogicalResult checkLoop(scf::ForOp loop);
  void findDifferent();
  bool spread(Operation *op);

  bool differs(Value value) const { return different.contains(value); }
  bool hasTurns(Operation *op) const { return holders.contains(op); }

  RoleOp role;
  /// Values that the members may have different ones of.
  DenseSet<Value> different;
  /// Operations around turns.
  DenseSet<Operation *> holders;
  /// Loops that make up for the rounds left out by those before.
  DenseSet<Operation *> rests;
};
} // namespace

static bool isTurn(Operation *op) { return isa<TurnWaitOp, TurnPassOp>(op); }
static Value barrierOf(Operation *op) { return op->getOperand(0); }

/// Turns that one round of the loop takes; those of loops within do not count.
static int64_t turnsOf(scf::ForOp loop) {
  return llvm::range_size(loop.getBody()->getOps<TurnWaitOp>());
}

LogicalResult TurnsVerifier::run() {
  SmallVector<Operation *> turns;
  role.walk([&](Operation *op) {
    if (isTurn(op))
      turns.push_back(op);
  });
  if (turns.empty())
    return success();
  for (Operation *turn : turns) {
    if (failed(checkBarrier(turn)))
      return failure();
    for (Operation *op = turn->getParentOp(); op != role;
         op = op->getParentOp())
      holders.insert(op);
  }
  findDifferent();
  if (failed(checkPairs(role.getBody().front())))
    return failure();
  // In the order of the text: a loop that makes up comes after the others.
  WalkResult result = role.walk<WalkOrder::PreOrder>([&](Operation *op) {
    return op != role && hasTurns(op) && failed(checkControl(op))
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult TurnsVerifier::checkBarrier(Operation *op) {
  int64_t members = role.getCount();
  if (role.getScope() != Scope::Warpgroup || members < 2)
    return op->emitOpError("expected a role of two warpgroups or more, which "
                           "take turns, but got ")
           << members
           << (role.getScope() == Scope::Warpgroup ? " warpgroup" : " warp")
           << (members == 1 ? "" : "s");
  auto create = barrierOf(op).getDefiningOp<BarrierCreateOp>();
  if (!create)
    return success(); // Reported by the lowering.
  if (int64_t(create.getEach()) != members ||
      int64_t(create.getWarps()) != ::attn::gpu::turnWarps) {
    InFlightDiagnostic diag = op->emitOpError("expected a barrier of warps(")
                              << ::attn::gpu::turnWarps << ") each(" << members
                              << "), for the warps of who passes the turn and "
                                 "who takes it";
    diag.attachNote(create.getLoc()) << "barrier made here";
    return diag;
  }
  for (Operation *user : barrierOf(op).getUsers())
    if (!isTurn(user) || user->getParentOfType<RoleOp>() != role) {
      InFlightDiagnostic diag = op->emitOpError(
          "expected a barrier that only the turns of this role use");
      diag.attachNote(user->getLoc()) << "used here";
      return diag;
    }
  if (op->getOperand(1) != role.getBody().getArgument(0))
    return op->emitOpError("expected the role's own number as the member");
  return success();
}

/// In each block a wait, what is done in turn, and a pass.
LogicalResult TurnsVerifier::checkPairs(Block &block) {
  Operation *open = nullptr;
  DenseMap<Value, Operation *> exchanged;
  for (Operation &op : block) {
    if (auto exchange = dyn_cast<ExchangeOp>(op))
      exchanged[exchange.getRing()] = exchange;
    if (auto wait = dyn_cast<RingWaitOp>(op); wait && open)
      if (Operation *part = exchanged.lookup(wait.getRing())) {
        InFlightDiagnostic diag = op.emitOpError(
            "waits within a turn for the parts of members that wait for it");
        diag.attachNote(part->getLoc()) << "own part given here";
        return diag;
      }
    if (auto wait = dyn_cast<TurnWaitOp>(op)) {
      exchanged.clear();
      if (open) {
        InFlightDiagnostic diag =
            op.emitOpError("expected the turn before to be passed first");
        diag.attachNote(open->getLoc()) << "turn taken here";
        return diag;
      }
      open = &op;
    } else if (isa<TurnPassOp>(op)) {
      if (!open || barrierOf(open) != barrierOf(&op))
        return op.emitOpError("expected a turn.wait of the same barrier before "
                              "it in its block");
      open = nullptr;
    } else if (hasTurns(&op)) {
      if (open) {
        InFlightDiagnostic diag =
            op.emitOpError("takes turns within a turn; expected it behind the "
                           "turn.pass");
        diag.attachNote(open->getLoc()) << "turn taken here";
        return diag;
      }
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          if (failed(checkPairs(inner)))
            return failure();
    }
  }
  if (open)
    return open->emitOpError("expected a turn.pass of the same barrier behind "
                             "it in its block; the others wait for it");
  return success();
}

//===----------------------------------------------------------------------===//
// What depends on the member
//===----------------------------------------------------------------------===//

/// Marks what `op` gives or carries where that may differ. Returns whether
/// there is more than before.
bool TurnsVerifier::spread(Operation *op) {
  bool changed = false;
  auto mark = [&](Value value) { changed |= different.insert(value).second; };
  bool all = llvm::any_of(op->getOperands(), [&](Value operand) {
    // What is computed from a member's rows is its own.
    return differs(operand) || isa<FragType, VecType>(operand.getType());
  });
  auto loop = dyn_cast<LoopLikeOpInterface>(op);
  if (loop && isa<scf::ForOp, ForeachOp>(op)) {
    auto yields = loop.getYieldedValuesMutable();
    auto results = loop.getLoopResults();
    if (auto forOp = dyn_cast<scf::ForOp>(op))
      all = differs(forOp.getLowerBound()) || differs(forOp.getUpperBound()) ||
            differs(forOp.getStep());
    else
      all = false;
    if (!yields || !results)
      return changed;
    for (auto [init, argument, yielded, result] : llvm::zip(
             loop.getInits(), loop.getRegionIterArgs(), *yields, *results)) {
      bool own = differs(init) || differs(yielded.get());
      if (own)
        mark(argument);
      if (own || all)
        mark(result);
    }
    if (auto forOp = dyn_cast<scf::ForOp>(op);
        forOp && differs(forOp.getLowerBound()))
      mark(forOp.getInductionVar());
    return changed;
  }
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    all = differs(branch.getCondition());
    for (Region &region : op->getRegions())
      if (!region.empty())
        for (auto [value, result] :
             llvm::zip(region.front().getTerminator()->getOperands(),
                       op->getResults()))
          if (all || differs(value))
            mark(result);
    return changed;
  }
  if (all)
    for (Value result : op->getResults())
      mark(result);
  return changed;
}

void TurnsVerifier::findDifferent() {
  different.insert(role.getBody().getArgument(0));
  bool changed = true;
  while (changed) {
    changed = false;
    role.getBody().walk([&](Operation *op) { changed |= spread(op); });
  }
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

static bool isOne(Value value) { return matchPattern(value, m_One()); }

/// Whether the loop adds 1 to what it carries at `position` in every round.
static bool counts(scf::ForOp loop, unsigned position) {
  auto add = loop.getYieldedValues()[position].getDefiningOp<arith::AddIOp>();
  return add && add.getLhs() == loop.getRegionIterArg(position) &&
         isOne(add.getRhs());
}

/// A loop with turns of which the members may make different numbers of rounds.
LogicalResult TurnsVerifier::checkLoop(scf::ForOp loop) {
  auto alike = [&](scf::ForOp other) {
    return other->getBlock() == loop->getBlock() &&
           loop->isBeforeInBlock(other) && turnsOf(other) == turnsOf(loop);
  };
  for (unsigned i = 0; i < loop.getNumResults(); ++i) {
    // It counts from what all have, or what a loop like it has left.
    Value initial = loop.getInitArgs()[i];
    auto before = initial.getDefiningOp<scf::ForOp>();
    if (differs(initial) && !(before && turnsOf(before) == turnsOf(loop)))
      continue;
    // Further loops may count on before the rest is made up for.
    scf::ForOp last = loop;
    for (unsigned at = i; last && counts(last, at);) {
      Value counter = last.getResult(at);
      last = {};
      for (OpOperand &use : counter.getUses()) {
        auto next = dyn_cast<scf::ForOp>(use.getOwner());
        if (!next || !alike(next))
          continue;
        if (use.get() == next.getLowerBound() && use.getOperandNumber() == 0 &&
            isOne(next.getStep()) && !differs(next.getUpperBound())) {
          rests.insert(next);
          return success();
        }
        if (BlockArgument argument = next.getTiedLoopRegionIterArg(&use)) {
          last = next;
          at = argument.getArgNumber() - 1;
        }
      }
    }
  }
  return loop.emitOpError(
      "takes turns, and may end earlier for one member than for another; "
      "expected a loop behind it that takes the turns left out, from a counter "
      "of its rounds to a bound that all members have");
}

LogicalResult TurnsVerifier::checkControl(Operation *op) {
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    if (differs(branch.getCondition()))
      return op->emitOpError("takes turns under a condition that may differ "
                             "between members; expected one that all have");
    return success();
  }
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    bool isEven = !differs(loop.getLowerBound()) &&
                  !differs(loop.getUpperBound()) && !differs(loop.getStep());
    return isEven || rests.contains(op) ? success() : checkLoop(loop);
  }
  if (isa<ForeachOp>(op))
    return success();
  return op->emitOpError("expected turns in scf.for, scf.if and "
                         "tile_gpu.foreach only");
}

LogicalResult tile_gpu::verifyTurns(RoleOp role) {
  return TurnsVerifier(role).run();
}
