//===- Turns.cpp - Hardware barriers --------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

Value gpu::zeroAfter(KernelContext &k, ValueRange values, Samples samples) {
  Emitter &e = k.e;
  Value all;
  for (Value value : values) {
    Values registers = k.of(value);
    int64_t step = 1;
    if (auto frag = dyn_cast<FragType>(value.getType()))
      if (frag.getLayout() != Layout::B)
        step = frag.getElementType().isF32() ? 4 : 2;
    // Pairs of columns are read together.
    if (auto vec = dyn_cast<VecType>(value.getType()))
      step = vec.getAxis() == Axis::Col ? 2 : 1;
    size_t count = registers.size();
    if (samples == Samples::all)
      step = 1;
    else if (samples == Samples::quarter && step > 1)
      count = llvm::divideCeil(count, 4);
    for (size_t i = 0; i < count; i += step) {
      Value bits = registers[i];
      if (bits.getType() == e.i1)
        bits = LLVM::ZExtOp::create(e.b, e.loc, e.i32, bits);
      bits = e.bitcast(bits, e.i32);
      all = all ? e.or_(all, bits) : bits;
    }
  }
  return e.and_(all, k.hiddenZero);
}

static LogicalResult meetAtBarrier(KernelContext &k, Operation *op,
                                   Value barrier, Value member) {
  Emitter &e = k.e;
  const BarrierLayout *info = k.layout.barrier(barrier);
  if (!info)
    return op->emitOpError("expected a barrier made in this kernel by "
                           "tile_gpu.barrier.create");
  Value index = member ? k.scalar(member) : e.c32(0);
  bool passes = isa<TurnPassOp>(op);
  if (passes) {
    Value next = e.add(index, 1);
    index = e.select(e.eq(next, info->count), e.c32(0), next);
    if (auto after = cast<TurnPassOp>(op).getAfter(); !after.empty())
      index = e.add(index, zeroAfter(k, after, Samples::groups));
  }
  if (auto sync = dyn_cast<BarrierSyncOp>(op); sync && !sync.getThreadsOnly())
    k.fenceProxy();
  // Intrinsics, unlike assembly, are never duplicated or moved into a branch.
  e.call(passes ? "llvm.nvvm.barrier.cta.arrive.aligned.count"
                : "llvm.nvvm.barrier.cta.sync.aligned.count",
         {e.add(index, info->first), e.c32(info->threads)});
  return success();
}

LogicalResult gpu::lower(KernelContext &k, BarrierSyncOp op) {
  return meetAtBarrier(k, op, op.getBarrier(), op.getMember());
}
LogicalResult gpu::lower(KernelContext &k, TurnWaitOp op) {
  return meetAtBarrier(k, op, op.getBarrier(), op.getMember());
}
LogicalResult gpu::lower(KernelContext &k, TurnPassOp op) {
  return meetAtBarrier(k, op, op.getBarrier(), op.getMember());
}

/// An arrival that no thread makes, which the assembler cannot know.
LogicalResult gpu::lower(KernelContext &k, HoldOp op) {
  Emitter &e = k.e;
  Samples samples = op.getAll() ? Samples::all : Samples::quarter;
  Value place = e.add(k.address(0), zeroAfter(k, op.getValues(), samples));
  Value never = e.and_(e.lt(e.c32(0), k.hiddenZero), k.lane0);
  k.arrive(place, never);
  return success();
}

static void turnAtEdge(KernelContext &k, RoleOp op, bool isOpening) {
  Emitter &e = k.e;
  llvm::SmallSetVector<Value, 2> turns;
  op.walk([&](TurnWaitOp wait) { turns.insert(wait.getBarrier()); });
  for (Value barrier : turns) {
    const BarrierLayout *info = k.layout.barrier(barrier);
    if (!info)
      continue; // Reported where it is used.
    Block *own = e.newBlock(), *rest = e.newBlock();
    e.branch(e.eq(k.role.member, isOpening ? info->count - 1 : 0), own, rest);
    e.startBlock(own);
    e.call(isOpening ? "llvm.nvvm.barrier.cta.arrive.aligned.count"
                     : "llvm.nvvm.barrier.cta.sync.aligned.count",
           {e.c32(info->first), e.c32(info->threads)});
    e.branch(rest);
    e.startBlock(rest);
  }
}

void gpu::openTurns(KernelContext &k, RoleOp op) { turnAtEdge(k, op, true); }
void gpu::closeTurns(KernelContext &k, RoleOp op) { turnAtEdge(k, op, false); }

//===----------------------------------------------------------------------===//
// Turns of blocks
//===----------------------------------------------------------------------===//

LogicalResult gpu::lower(KernelContext &k, BlockTurnWaitOp op) {
  Value counter = k.elementPointer(op.getCounters(), k.flat(op.getIndices()));
  k.e.assembly("{\n.reg .pred P1;\n.reg .b32 now;\nLAB_TURN:\n"
               "ld.acquire.gpu.global.b32 now, [$0];\n"
               "setp.ne.b32 P1, now, $1;\n@P1 bra LAB_TURN;\n}\n"
               "fence.proxy.async.global;",
               "l,r,~{memory}", {counter, k.scalar(op.getTurn())});
  k.syncWarp();
  return success();
}

/// Waits for copies, of one lane, to be in memory: to have read is not enough.
LogicalResult gpu::lower(KernelContext &k, BlockTurnPassOp op) {
  Value counter = k.elementPointer(op.getCounters(), k.flat(op.getIndices()));
  k.e.assembly("cp.async.bulk.wait_group 0;", "~{memory}", {});
  k.syncWarp();
  k.e.assembly("@$2 st.release.gpu.global.b32 [$0], $1;", "l,r,b,~{memory}",
               {counter, k.e.add(k.scalar(op.getTurn()), 1), k.lane0});
  return success();
}
