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
// Here it gets a predicate, which is always true, and made of the addresses
// that are known without what the kernel waits for: of a block of one role of
// all, of warps of a cluster that draw and copy of those that they read first.
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

namespace {

/// One wait, and what is known ahead of it.
class HeldWait {
public:
  HeldWait(Emitter &e, LLVM::InlineAsmOp wait, Value hiddenZero)
      : e(e), wait(wait), hiddenZero(hiddenZero) {}
  /// Moves all that is known in the wait's block ahead of it.
  void moveAll();
  /// Moves the addresses that its warp reads first ahead of it, and what they
  /// are made of.
  void moveAddresses();
  /// Gives the wait its predicate.
  void hold();

private:
  bool isThere(Value value) {
    Operation *def = value.getDefiningOp();
    Block *block = wait->getBlock();
    if (!def)
      return !llvm::is_contained(blocks, value.getParentBlock()) ||
             value.getParentBlock() == block;
    return !llvm::is_contained(blocks, def->getBlock()) ||
           (def->getBlock() == block && def->isBeforeInBlock(wait));
  }
  bool isAddress(Value value) {
    return value.getType() == e.i64 ||
           isa<LLVM::LLVMPointerType>(value.getType());
  }
  bool bring(Value value);

  Emitter &e;
  LLVM::InlineAsmOp wait;
  Value hiddenZero;
  /// The wait's block, and those that follow it alone.
  SmallVector<Block *> blocks = {wait->getBlock()};
  llvm::SmallSetVector<Value, 16> addresses;
};

} // namespace

void HeldWait::moveAll() {
  SmallVector<Operation *> behind;
  for (Operation *op = wait->getNextNode(); op; op = op->getNextNode())
    behind.push_back(op);
  for (Operation *op : behind) {
    bool isKnown =
        llvm::all_of(op->getOperands(), [&](Value x) { return isThere(x); });
    if (isKnown && isFixed(op)) {
      op->moveBefore(wait);
      continue;
    }
    if (!isa<LLVM::InlineAsmOp, LLVM::LoadOp>(op))
      continue;
    for (Value operand : op->getOperands())
      if (isThere(operand) && isAddress(operand))
        addresses.insert(operand);
  }
}

/// Brings a value ahead of the wait, if all that it is made of is fixed.
bool HeldWait::bring(Value value) {
  if (isThere(value))
    return true;
  Operation *op = value.getDefiningOp();
  bool isRun = op && op->getBlock() == wait->getBlock();
  if (!op || !isFixed(op) || !(isRun || isSpeculatable(op)) ||
      !llvm::all_of(op->getOperands(), [&](Value x) { return bring(x); }))
    return false;
  op->moveBefore(wait);
  return true;
}

void HeldWait::moveAddresses() {
  // As many as are asked for at once: a length, and entries of a table.
  constexpr size_t most = 8;
  // The branch in which something is read follows at once.
  if (auto branch = dyn_cast<LLVM::CondBrOp>(wait->getBlock()->getTerminator()))
    if (Block *then = branch.getTrueDest(); then->getSinglePredecessor())
      blocks.push_back(then);
  for (Block *block : blocks) {
    Operation *first =
        block == wait->getBlock() ? wait->getNextNode() : &block->front();
    for (Operation *op = first; op; op = op->getNextNode()) {
      auto text = dyn_cast<LLVM::InlineAsmOp>(op);
      bool reads = text ? text.getAsmString().starts_with("ld.relaxed")
                        : isa<LLVM::LoadOp>(op);
      if (!reads || addresses.size() == most)
        continue;
      for (Value operand : op->getOperands())
        if (isAddress(operand) && bring(operand))
          addresses.insert(operand);
    }
  }
}

void HeldWait::hold() {
  if (addresses.empty())
    return;
  e.b.setInsertionPoint(wait);
  e.loc = wait.getLoc();
  // One text: LLVM, which asks of each step of a long chain which bits are
  // needed, has nothing to ask.
  std::string text = "{\n.reg .b64 %all;\n.reg .b32 %low;\n.reg .pred %now;\n"
                     "mov.b64 %all, 0;\n";
  std::string constraints;
  SmallVector<Value> inputs(addresses.begin(), addresses.end());
  for (auto [i, address] : llvm::enumerate(inputs)) {
    if (address.getType() != e.i64)
      address = LLVM::PtrToIntOp::create(e.b, e.loc, e.i64, address);
    text += "xor.b64 %all, %all, $" + std::to_string(i) + ";\n";
    constraints += "l,";
  }
  text += "cvt.u32.u64 %low, %all;\nand.b32 %low, %low, $" +
          std::to_string(inputs.size()) +
          ";\nsetp.eq.u32 %now, %low, 0;\n@%now " + waitText.str() + "\n}";
  inputs.push_back(hiddenZero);
  e.assembly(text, constraints + "r,~{memory}", inputs);
  wait.erase();
}

void KernelLowering::waitDependencies() {
  e.assembly(waitText, "~{memory}", {});
  // Warps that multiply have other registers to hold.
  bool multiplies =
      role.op && role.op.walk([](MmaSyncOp) { return WalkResult::interrupt(); })
                     .wasInterrupted();
  bool isAlone = llvm::hasSingleElement(kernel.getOps<RoleOp>());
  // Blocks of a cluster are there long before they may read. Of others, which
  // start as those before them end, it takes up to 1.015 times as long
  // (docs/performance/gpu-serving.md).
  bool copies =
      cluster > 1 && role.op && role.scope == Scope::Warp && role.warps == 1;
  if (!multiplies && (isAlone || copies))
    waits.push_back(
        cast<LLVM::InlineAsmOp>(*std::prev(e.b.getInsertionPoint())));
}

void KernelLowering::waitBehindAddresses() {
  bool isAlone = llvm::hasSingleElement(kernel.getOps<RoleOp>());
  for (LLVM::InlineAsmOp wait : waits) {
    HeldWait held(e, wait, hiddenZero);
    if (isAlone)
      held.moveAll();
    else
      held.moveAddresses();
    held.hold();
  }
}
