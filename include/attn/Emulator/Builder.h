//===- Builder.h - IR of a kernel to instructions ---------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_EMULATOR_BUILDER_H
#define ATTN_EMULATOR_BUILDER_H

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Emulator/Costs.h"
#include "attn/Emulator/Program.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectRegistry.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace attn::emulator {

class ProgramBuilder;

} // namespace attn::emulator

#include "attn/Emulator/EmulatedOpInterface.h.inc"

namespace attn::emulator {

/// Gives the operations of tile_gpu, and those beside them in kernels, their
/// meaning.
void registerModels(mlir::DialectRegistry &registry);

class ProgramBuilder {
public:
  ProgramBuilder(mlir::tile_gpu::KernelOp kernel, const TargetInfo &target);

  /// Decodes the kernel.
  mlir::LogicalResult run();
  std::unique_ptr<const KernelProgram> take() { return std::move(program); }

  /// Appends an operation, or those of a block but its terminator.
  mlir::LogicalResult append(mlir::Operation *op);
  mlir::LogicalResult append(mlir::Block &block);

  /// Appends an instruction of `op`. `isShared`: others notice it.
  void emit(mlir::Operation *op, bool isShared,
            std::function<Step(Agent &)> run);
  /// What is appended between these is of a loop.
  uint32_t beginLoop(mlir::Operation *op);
  void endLoop();
  /// A place to jump to, and its definition here.
  uint32_t newLabel();
  void place(uint32_t label);

  SlotId slot(mlir::Value value);
  SlotId newSlot();
  llvm::SmallVector<SlotId> slots(mlir::ValueRange values);
  /// Copies values at once, as the end of a loop's body does: their registers
  /// are written.
  void emitCopies(mlir::Operation *op, llvm::ArrayRef<SlotId> from,
                  llvm::ArrayRef<SlotId> to);

  std::optional<uint32_t> ring(mlir::Value value) const;
  std::optional<uint32_t> barrier(mlir::Value value) const;
  std::optional<uint32_t> schedule(mlir::Value value) const;
  uint32_t region(mlir::Operation *allocation) const {
    return regions.lookup(allocation);
  }
  /// The role that is being decoded.
  mlir::tile_gpu::RoleOp roleOp;
  RoleInfo *role = nullptr;
  KernelProgram &kernel() { return *program; }

  /// In the body of a schedule that one warp draws: where an item that is
  /// passed over goes on.
  std::optional<uint32_t> passOver;
  /// How a role gives an item's slot back where it does so in the loop's body.
  std::function<void(Agent &)> takeItem;

private:
  mlir::LogicalResult collect();
  mlir::LogicalResult collectSchedule(mlir::tile_gpu::SchedulerOp op);
  uint32_t addRegion(std::string name, mlir::tile_gpu::SmemType tile,
                     int64_t stages);
  int64_t addMBarriers(const std::string &name, int64_t count,
                       int64_t arrivals);
  std::string nameOf(mlir::Value value);

  OpCost costOf(mlir::Operation *op) const;

  mlir::tile_gpu::KernelOp function;
  const TargetInfo &target;
  /// The operation that is appended and whose cost no instruction has yet.
  mlir::Operation *uncounted = nullptr;
  uint32_t loop = Instruction::noLoop;
  mlir::AsmState names;
  std::unique_ptr<KernelProgram> program;
  llvm::DenseMap<mlir::Value, SlotId> values;
  llvm::DenseMap<mlir::Value, uint32_t> rings, barriers, schedules;
  llvm::DenseMap<mlir::Operation *, uint32_t> regions;
};

TileInfo tileInfoOf(mlir::tile_gpu::SmemType type);

} // namespace attn::emulator

#endif // ATTN_EMULATOR_BUILDER_H
