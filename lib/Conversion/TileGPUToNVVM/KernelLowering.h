//===- KernelLowering.h - One tile_gpu kernel to the LLVM dialect -*- C++
//-*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One walk over the kernel: its parameters, roles, branches and loops. Values
// are those of KernelContext.h; all other operations are lowered by the
// functions of Lowerings.h.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEGPUTONVVM_KERNELLOWERING_H
#define ATTN_LIB_CONVERSION_TILEGPUTONVVM_KERNELLOWERING_H

#include "Lowerings.h"
#include "attn/Dialect/Tile/IR/WorkTiles.h"

namespace attn::gpu {

/// Waits for the launches before.
inline constexpr llvm::StringLiteral waitText = "griddepcontrol.wait;";

class KernelLowering : private KernelContext {
public:
  KernelLowering(tg::KernelOp kernel, const TargetInfo &target,
                 mlir::OpBuilder moduleBuilder);

  LogicalResult run();
  int64_t getThreads() const { return threads; }
  int64_t getSharedBytes() const { return layout.getBytes(); }
  bool isPersistent() const { return persistent; }

private:
  // KernelLowering.cpp: the frame.
  mlir::LLVM::LLVMFuncOp createFunction();
  void initializeBarriers();
  LogicalResult dispatchRoles();
  // Dependencies.cpp: waits for the launch before.
  void waitDependencies();
  /// Lets warps that multiply nothing wait only where they know what they read.
  void waitBehindAddresses();
  LogicalResult lowerRole(tg::RoleOp role);
  LogicalResult lowerOp(Operation *op) override;
  LogicalResult checkPlace(Operation *op);

  // Control.cpp: loops, branches.
  LogicalResult lowerFor(mlir::scf::ForOp op);
  LogicalResult lowerWhile(mlir::scf::WhileOp op);
  LogicalResult lowerRareBlock(mlir::Block &block);
  LogicalResult lowerIf(mlir::scf::IfOp op);

  // Items.cpp: schedules.
  struct TicketSlot {
    const TicketLayout &layout;
    Value words, full, empty, phase;
  };
  LogicalResult lowerForeach(tg::ForeachOp op);
  LogicalResult lowerSkip(tg::SkipOp op);
  LogicalResult lowerDrawNext(tg::DrawNextOp op);
  struct ItemMath;
  /// The items of the loop at hand.
  mlir::tile::WorkDomain<Value> work;
  Value countItems(tg::SchedulerOp scheduler);
  LogicalResult lowerItem(tg::SchedulerOp scheduler, Value item,
                          ValueRange arguments);
  LogicalResult shareItem(tg::ForeachOp op, Value drawn, Value iteration,
                          Value total, mlir::Block *exit);
  /// Where the warp that draws goes on with the next item; null elsewhere.
  mlir::Block *passOver = nullptr;
  /// The barrier at which a role gives an item's slot back, where it does so in
  /// the loop's body (tile_gpu.draw_next).
  Value taken;
  TicketSlot ticketSlot(tg::SchedulerOp scheduler, Value iteration);
  void giveItem(const TicketSlot &slot, const Values &words);
  Values readItem(const TicketSlot &slot, int64_t size, bool isTaken);
  void appendWords(Value value, Values &words);
  Value fromWords(Type type, llvm::ArrayRef<Value> words);
  Value drawTicket(tg::SchedulerOp scheduler, Value count);
  Value drawItem(tg::SchedulerOp scheduler, Value total);
  Value nextItem(tg::ForeachOp op, Value item, Value total, Value iteration);
  LogicalResult hoistScalars(tg::ForeachOp op, bool isHandedOver);
  // Clusters.cpp.
  Value drawForCluster(tg::SchedulerOp scheduler, Value total, Value iteration);
  void hearLast(tg::SchedulerOp scheduler, Value turns);
  void hearLastStates(tg::ForeachOp loop);

  mlir::OpBuilder moduleBuilder;
  RoleLayout placement;
  mlir::LLVM::LLVMFuncOp function;
  bool persistent = false;
  /// The waits of roles that multiply nothing.
  llvm::SmallVector<mlir::LLVM::InlineAsmOp> waits;
};

} // namespace attn::gpu

#endif // ATTN_LIB_CONVERSION_TILEGPUTONVVM_KERNELLOWERING_H
