//===- PlaceSlots.cpp - Where a step takes slots and gives them back ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Warpgroups that exchange weights meet in each step. One that is held up then
// holds up the other, so a short step waits for no slot before it reads it, and
// keeps none behind that. Where the product is added to memory beside the next
// step:
//
//   wait for Q and rows;  issue S;  wait for dO;  issue dP;  ...  issue dK;
//   wait for dV, dQ;  give back dO;  exchange dS;  add dQ to memory;
//   wait for dK;  give back Q and rows
//
// (Measured: docs/performance/gpu-gradients.md, "One kernel with five
// products".)
//
// Nor does a step keep keys while it folds scores one by one.
//===----------------------------------------------------------------------===//

#include "OrderStep.h"
#include "PipelineSteps.h"

using namespace mlir;
using namespace mlir::tile_gpu;

/// Moves an operation of a block to what reads its results first.
static void moveToReader(Operation *op) {
  Operation *first = nullptr;
  for (Operation *user : op->getUsers()) {
    user = op->getBlock()->findAncestorOpInBlock(*user);
    if (user && (!first || user->isBeforeInBlock(first)))
      first = user;
  }
  if (first)
    op->moveBefore(first);
}

static bool isRow(RingType ring) {
  return ring.getTiles().front().getRows() == 1;
}

static void waitLate(Block &block) {
  SmallVector<Operation *> views, waits;
  for (Operation &op : block) {
    if (isa<SmemTransposeOp, SmemSliceOp>(op))
      views.push_back(&op);
    if (auto wait = dyn_cast<RingWaitOp>(op);
        wait && !isRow(wait.getRing().getType()))
      waits.push_back(&op);
  }
  for (Operation *op :
       llvm::concat<Operation *>(llvm::reverse(views), llvm::reverse(waits)))
    moveToReader(op);
}

static bool reads(MmaIssueOp issue, RingReleaseOp release) {
  return llvm::any_of(ValueRange{issue.getA(), issue.getB()}, [&](Value tile) {
    RingWaitOp slot = slotOf(tile);
    return slot && slot.getRing() == release.getRing();
  });
}

/// Gives a slot back behind the last product that reads it, and what is waited
/// for at once.
static void releaseEarly(RingReleaseOp release) {
  MmaWaitOp last;
  for (auto wait : release->getBlock()->getOps<MmaWaitOp>())
    for (Value token : wait.getTokens())
      if (auto issue = token.getDefiningOp<MmaIssueOp>();
          issue && reads(issue, release))
        last = wait;
  if (!last || !last->isBeforeInBlock(release))
    return;
  while (auto next = dyn_cast<MmaWaitOp>(last->getNextNode())) {
    if (!next.getPending())
      break;
    last = next;
  }
  release->moveAfter(last);
}

/// Whether products alone read a slot.
static bool readByProducts(Value tile) {
  return llvm::all_of(tile.getUsers(), [](Operation *user) {
    return isa<MmaIssueOp>(user) || (isa<SmemTransposeOp, SmemSliceOp>(user) &&
                                     readByProducts(user->getResult(0)));
  });
}

static void releaseBeforeFold(FoldAboveOp fold) {
  Block *block = fold->getBlock();
  for (auto slot : llvm::to_vector(block->getOps<RingWaitOp>()))
    if (RingReleaseOp release = releaseOf(slot, *block);
        release && fold->isBeforeInBlock(release) &&
        release.getAfter().empty() &&
        llvm::all_of(slot.getTiles(), readByProducts))
      releaseEarly(release);
}

void tile_gpu::placeSlots(KernelOp kernel) {
  kernel.walk(releaseBeforeFold);
  llvm::SetVector<Block *> blocks;
  kernel.walk([&](ExchangeOp exchange) {
    if (isShortStep(exchange.getValue().getType().getCols()))
      blocks.insert(exchange->getBlock());
  });
  for (Block *block : blocks) {
    waitLate(*block);
    for (auto release : llvm::to_vector(block->getOps<RingReleaseOp>()))
      if (release.getAfter().empty())
        releaseEarly(release);
  }
}
