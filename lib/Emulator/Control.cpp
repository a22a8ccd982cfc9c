//===- Control.cpp - Loops, branches, roles -------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Models.h"
#include "attn/Emulator/Timing.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
namespace emulator = ::attn::emulator;
using namespace ::attn::emulator;

LogicalResult emulator::emulate(arith::ConstantOp op, ProgramBuilder &b) {
  Slot &initial = b.kernel().initial[b.slot(op.getResult())];
  auto type = scalarTypeOf(op.getType());
  if (auto integer = dyn_cast<IntegerAttr>(op.getValue()); integer && type) {
    APInt bits = integer.getValue();
    initial.bits = bits.getBitWidth() == 1 ? int64_t(bits.getZExtValue())
                                           : bits.getSExtValue();
    return success();
  }
  if (auto number = dyn_cast<FloatAttr>(op.getValue()); number && type) {
    if (type->kind == Kind::F64)
      initial.f64 = number.getValueAsDouble();
    else
      initial.f32 = float(number.getValueAsDouble());
    return success();
  }
  return op.emitOpError("expected an integer or a float");
}

LogicalResult emulator::emulate(scf::ForOp op, ProgramBuilder &b) {
  auto type = scalarTypeOf(op.getInductionVar().getType());
  if (!type || type->kind == Kind::F32 || type->kind == Kind::F64)
    return op.emitOpError("expected bounds of integers");
  bool isWide = type->isWide();
  SlotId lower = b.slot(op.getLowerBound()), upper = b.slot(op.getUpperBound());
  SlotId step = b.slot(op.getStep()), iv = b.slot(op.getInductionVar());
  auto arguments = b.slots(op.getRegionIterArgs());
  uint32_t body = b.newLabel(), head = b.newLabel(), end = b.newLabel();
  b.emitCopies(op, b.slots(op.getInitArgs()), arguments);
  b.emitCopies(op, {lower}, {iv});
  uint32_t loop = b.beginLoop(op);
  b.emit(op, false, [=](Agent &a) {
    if (a.machine.timing)
      a.machine.timing->enterLoop(a, loop);
    return Step::Next;
  });
  b.place(head);
  b.emit(op, false, [=](Agent &a) {
    bool goesOn = isWide ? a.i64(iv) < a.i64(upper) : a.i32(iv) < a.i32(upper);
    if (a.machine.timing)
      a.machine.timing->atHead(a, loop, goesOn);
    return goesOn ? Step::Next : a.jump(a.program.labels[end]);
  });
  b.place(body);
  if (failed(b.append(*op.getBody())))
    return failure();
  b.emitCopies(op, b.slots(op.getYieldedValues()), arguments);
  b.emit(op, false, [=](Agent &a) {
    if (isWide)
      a.frame[iv].bits += a.i64(step);
    else
      a.frame[iv].bits = int64_t(a.i32(iv)) + a.i32(step);
    return a.jump(a.program.labels[head]);
  });
  b.endLoop();
  b.place(end);
  b.emitCopies(op, arguments, b.slots(op.getResults()));
  return success();
}

LogicalResult emulator::emulate(scf::WhileOp op, ProgramBuilder &b) {
  SlotId condition = b.slot(op.getConditionOp().getCondition());
  auto before = b.slots(op.getBeforeArguments());
  uint32_t head = b.newLabel(), end = b.newLabel();
  b.emitCopies(op, b.slots(op.getInits()), before);
  uint32_t loop = b.beginLoop(op);
  b.emit(op, false, [=](Agent &a) {
    if (a.machine.timing)
      a.machine.timing->enterLoop(a, loop);
    return Step::Next;
  });
  b.place(head);
  if (failed(b.append(*op.getBeforeBody())))
    return failure();
  auto passed = b.slots(op.getConditionOp().getArgs());
  b.emitCopies(op, passed, b.slots(op.getResults()));
  b.emit(op, false, [=](Agent &a) {
    bool goesOn = a.i32(condition) & 1;
    if (a.machine.timing)
      a.machine.timing->atHead(a, loop, goesOn);
    return goesOn ? Step::Next : a.jump(a.program.labels[end]);
  });
  b.emitCopies(op, passed, b.slots(op.getAfterArguments()));
  if (failed(b.append(*op.getAfterBody())))
    return failure();
  b.emitCopies(op, b.slots(op.getYieldOp().getResults()), before);
  b.emit(op, false, [=](Agent &a) { return a.jump(a.program.labels[head]); });
  b.endLoop();
  b.place(end);
  return success();
}

LogicalResult emulator::emulate(scf::IfOp op, ProgramBuilder &b) {
  SlotId condition = b.slot(op.getCondition());
  auto results = b.slots(op.getResults());
  uint32_t otherwise = b.newLabel(), end = b.newLabel();
  b.emit(op, false, [=](Agent &a) {
    return a.i32(condition) & 1 ? Step::Next
                                : a.jump(a.program.labels[otherwise]);
  });
  auto branch = [&](Region &region) -> LogicalResult {
    if (region.empty())
      return success();
    if (failed(b.append(region.front())))
      return failure();
    b.emitCopies(op, b.slots(region.front().getTerminator()->getOperands()),
                 results);
    return success();
  };
  if (failed(branch(op.getThenRegion())))
    return failure();
  b.emit(op, false, [=](Agent &a) { return a.jump(a.program.labels[end]); });
  b.place(otherwise);
  if (failed(branch(op.getElseRegion())))
    return failure();
  b.place(end);
  return success();
}

/// The last member opens the first turn of each barrier of turns, and member 0
/// takes the last one that was passed.
static void emitTurnEdges(ProgramBuilder &b, tg::RoleOp op, bool isOpening) {
  llvm::SmallSetVector<Value, 2> turns;
  op.walk([&](tg::TurnWaitOp wait) { turns.insert(wait.getBarrier()); });
  for (Value turn : turns) {
    auto barrier = b.barrier(turn);
    auto create = turn.getDefiningOp<tg::BarrierCreateOp>();
    if (!barrier || !create)
      continue;
    int64_t index = *barrier;
    int64_t member = isOpening ? int64_t(create.getEach()) - 1 : 0;
    b.emit(op, true, [=](Agent &a) {
      if (a.member != member)
        return Step::Next;
      if (!isOpening)
        return a.sync(index, 0, false);
      a.arriveAt(index);
      return a.machine.failed() ? Step::Stop : Step::Next;
    });
  }
}

LogicalResult emulator::appendRole(ProgramBuilder &b, tg::RoleOp op) {
  b.passOver.reset();
  b.takeItem = nullptr;
  emitTurnEdges(b, op, true);
  if (failed(b.append(op.getBody().front())))
    return failure();
  emitTurnEdges(b, op, false);
  b.emit(op, true, [](Agent &a) {
    auto isOpen = [&](const StartedPtr &one) {
      // It would be under way if it came later.
      if (one->hasEnded)
        a.machine.note({Object::Started, one->id}, Effect::Check);
      return !one->hasEnded;
    };
    if (!a.products.empty()) {
      a.fail("ends with a product that nobody waited for");
      return Step::Stop;
    }
    // A bulk copy that is known to have read is no longer in the list.
    if (llvm::any_of(a.copies, isOpen) ||
        llvm::any_of(a.groupedCopies, isOpen) || !a.bulkGroups.empty()) {
      a.fail("ends while a copy may still use its shared memory");
      return Step::Stop;
    }
    return Step::Done;
  });
  return success();
}
