//===- CopyFragments.cpp - Registers of their own for products ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A product in flight owns registers, a value has none: canonicalization, CSE
// and code motion may merge two fragments that are equal and taken by two
// products. Two-address instructions have the same trouble and the same way
// out: a copy wherever a value that is overwritten is still needed.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

namespace attn {
#define GEN_PASS_DEF_TILEGPUCOPYFRAGMENTSPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

/// The operations of the innermost block that holds both, in which they lie.
static std::pair<Operation *, Operation *> inCommonBlock(Operation *a,
                                                         Operation *b) {
  for (; a; a = a->getParentOp())
    if (Operation *other = a->getBlock()->findAncestorOpInBlock(*b))
      return {a, other};
  return {};
}

/// Whether `user` may run after `op` on a way through their common block.
static bool comesAfter(Operation *user, Operation *op) {
  auto [mine, theirs] = inCommonBlock(op, user);
  // In one operation: the two branches of a condition, of which one runs.
  return mine != theirs && mine->isBeforeInBlock(theirs);
}

static bool isWithin(Value value, Operation *loop) {
  return loop->isAncestor(value.getParentRegion()->getParentOp());
}

/// Whether the accumulator is needed once the product has overwritten it.
static bool needsOwnAccumulator(MmaIssueOp issue) {
  OpOperand *taken = nullptr;
  for (OpOperand &operand : issue->getOpOperands())
    if (operand.get() == issue.getAcc())
      taken = &operand;
  auto loop = issue->getParentOfType<LoopLikeOpInterface>();
  if (loop && !isWithin(issue.getAcc(), loop))
    return true;
  return llvm::any_of(issue.getAcc().getUses(), [&](OpOperand &use) {
    return &use != taken && comesAfter(use.getOwner(), issue);
  });
}

/// Whether anything but a product reads the A fragment while this product does.
static bool needsOwnA(MmaIssueOp issue) {
  Block *block = issue->getBlock();
  Operation *wait = nullptr;
  for (Operation *user : issue.getToken().getUsers())
    if (Operation *here = block->findAncestorOpInBlock(*user))
      wait = here;
  return llvm::any_of(issue.getA().getUses(), [&](OpOperand &use) {
    if (isa<MmaIssueOp>(use.getOwner()) && use.getOperandNumber() == 0)
      return false;
    Operation *user = block->findAncestorOpInBlock(*use.getOwner());
    return user && issue->isBeforeInBlock(user) &&
           (!wait || user->isBeforeInBlock(wait));
  });
}

/// A copy where the fragment is made or, of one from outside of the product's
/// loop, where a turn of the loop begins.
static Value copyOf(Value fragment, MmaIssueOp issue) {
  OpBuilder b(issue);
  auto loop = issue->getParentOfType<LoopLikeOpInterface>();
  if (loop && !isWithin(fragment, loop))
    b.setInsertionPointToStart(issue->getBlock());
  else
    b.setInsertionPointAfterValue(fragment);
  return FragCopyOp::create(b, issue.getLoc(), fragment);
}

namespace {
struct CopyFragmentsPass
    : ::attn::impl::TileGpuCopyFragmentsPassBase<CopyFragmentsPass> {
  void runOnOperation() final {
    getOperation().walk([&](MmaIssueOp issue) {
      if (isa<FragType>(issue.getA().getType()) && needsOwnA(issue)) {
        issue.getAMutable().set(copyOf(issue.getA(), issue));
        ++numCopied;
      }
      if (issue.getAcc() && needsOwnAccumulator(issue)) {
        issue.getAccMutable().assign(copyOf(issue.getAcc(), issue));
        ++numCopied;
      }
    });
  }
};
} // namespace
