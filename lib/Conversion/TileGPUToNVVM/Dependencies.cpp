//===- Dependencies.cpp - Addresses ahead of the wait for a launch --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel that starts while the one before it ends has nothing to do until
// that one's results are there but to find out where they are. The assembler
// does not see it so: a wait has no operands, and comes as early as it may.
// Here it gets a predicate, which is always true, and made of all addresses
// that are known without what the kernel waits for.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

/// Whether an operation reads nothing that changes while a kernel runs.
static bool isFixed(Operation *op) {
  if (op->hasTrait<OpTrait::IsTerminator>() || op->getNumRegions())
    return false;
  if (auto call = dyn_cast<LLVM::CallIntrinsicOp>(op))
    return call.getIntrin().starts_with("llvm.nvvm.read.ptx.sreg.") ||
           call.getIntrin().starts_with("llvm.nvvm.mulhi.") ||
           call.getIntrin().starts_with("llvm.nvvm.rcp.");
  return isMemoryEffectFree(op);
}

void KernelLowering::waitBehindAddresses() {
  // Warps that multiply have other registers to hold.
  bool multiplies =
      kernel->walk([](MmaSyncOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  if (multiplies || !llvm::hasSingleElement(kernel.getOps<RoleOp>()))
    return;
  LLVM::InlineAsmOp wait;
  function.walk([&](LLVM::InlineAsmOp op) {
    if (op.getAsmString() != waitText)
      return WalkResult::advance();
    wait = op;
    return WalkResult::interrupt();
  });
  if (!wait)
    return;
  Block *block = wait->getBlock();
  auto isThere = [&](Value value) {
    Operation *def = value.getDefiningOp();
    return !def || def->getBlock() != block || def->isBeforeInBlock(wait);
  };
  SmallVector<Operation *> behind;
  for (Operation *op = wait->getNextNode(); op; op = op->getNextNode())
    behind.push_back(op);
  llvm::SmallSetVector<Value, 16> addresses;
  for (Operation *op : behind) {
    bool isKnown = llvm::all_of(op->getOperands(), isThere);
    if (isKnown && isFixed(op)) {
      op->moveBefore(wait);
      continue;
    }
    if (!isa<LLVM::InlineAsmOp, LLVM::LoadOp>(op))
      continue;
    for (Value operand : op->getOperands())
      if (isThere(operand) && (operand.getType() == e.i64 ||
                               isa<LLVM::LLVMPointerType>(operand.getType())))
        addresses.insert(operand);
  }
  if (addresses.empty())
    return;
  e.b.setInsertionPoint(wait);
  e.loc = wait.getLoc();
  Value all;
  for (Value address : addresses) {
    if (address.getType() != e.i64)
      address = LLVM::PtrToIntOp::create(e.b, e.loc, e.i64, address);
    Value low = e.trunc32(address);
    all = all ? e.xor_(all, low) : low;
  }
  Value isTime = e.eq(e.and_(all, hiddenZero), 0);
  e.assembly(Twine("@$0 ") + waitText, "b,~{memory}", {isTime});
  wait.erase();
}
