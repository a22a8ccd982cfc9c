//===- Stages.cpp - Stage and order of a step's operations ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::tile_gpu;

LogicalResult StageAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t stage, int64_t order) {
  if (stage < 0 || stage > 1)
    return emitError() << "expected stage 0 or 1, but got " << stage;
  if (order < 0)
    return emitError() << "expected an order of 0 or more, but got " << order;
  return success();
}

/// What the loop whose body `value` is an argument of carries there from one
/// step to the next; null for anything else.
static Operation *carriedFrom(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return nullptr;
  auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
  if (!loop || argument == loop.getInductionVar())
    return nullptr;
  return loop.getTiedLoopYieldedValue(argument)->get().getDefiningOp();
}

static LogicalResult verifyUse(Operation *user, Value value, Block &block) {
  StageAttr use = stageOf(user);
  Operation *def = value.getDefiningOp();
  bool isCarried = !def;
  if (isCarried)
    def = carriedFrom(value);
  StageAttr made =
      def && def->getBlock() == &block ? stageOf(def) : StageAttr();
  if (!made)
    return success();
  // Turns of the loop, counted from that of the user's step.
  int64_t madeIn = made.getStage() - isCarried, usedIn = use.getStage();
  if (madeIn < usedIn || (madeIn == usedIn && made.getOrder() < use.getOrder()))
    return success();
  InFlightDiagnostic diag = user->emitOpError("of stage ")
                            << use.getStage() << " and order " << use.getOrder()
                            << " runs before what it reads is made; expected "
                               "a later stage or order than "
                            << made;
  diag.attachNote(def->getLoc()) << "made here";
  return diag;
}

LogicalResult tile_gpu::verifyStages(Block &block) {
  DenseSet<int64_t> orders;
  for (Operation &op : block) {
    StageAttr stage = stageOf(&op);
    if (!stage)
      continue;
    if (op.hasTrait<OpTrait::IsTerminator>())
      return op.emitOpError("expected no stage on the end of a block");
    if (!orders.insert(stage.getOrder()).second)
      return op.emitOpError("expected an order of its own within the block, "
                            "but got ")
             << stage.getOrder() << " again";
    WalkResult walk = op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (failed(verifyUse(&op, operand, block)))
          return WalkResult::interrupt();
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return failure();
  }
  return success();
}
