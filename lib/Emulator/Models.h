//===- Models.h - What each operation of tile_gpu does ----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_EMULATOR_MODELS_H
#define ATTN_LIB_EMULATOR_MODELS_H

#include "Scalars.h"
#include "attn/Emulator/Builder.h"
#include "attn/Emulator/Machine.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace attn::emulator {

namespace tg = mlir::tile_gpu;
using mlir::LogicalResult;
using mlir::Value;

/// What a launch has for counters that has a block for each item.
extern char noTickets;

// Control.cpp
LogicalResult emulate(mlir::scf::ForOp op, ProgramBuilder &b);
LogicalResult emulate(mlir::scf::WhileOp op, ProgramBuilder &b);
LogicalResult emulate(mlir::scf::IfOp op, ProgramBuilder &b);
LogicalResult emulate(mlir::arith::ConstantOp op, ProgramBuilder &b);
LogicalResult appendRole(ProgramBuilder &b, tg::RoleOp op);
// Items.cpp
LogicalResult emulate(tg::SchedulerOp op, ProgramBuilder &b);
LogicalResult emulate(tg::ForeachOp op, ProgramBuilder &b);
LogicalResult emulate(tg::SkipOp op, ProgramBuilder &b);
LogicalResult emulate(tg::DrawNextOp op, ProgramBuilder &b);
LogicalResult emulate(tg::LaunchDependentsOp op, ProgramBuilder &b);
LogicalResult emulate(tg::WaitDependenciesOp op, ProgramBuilder &b);
// Rings.cpp
LogicalResult emulate(tg::RingCreateOp op, ProgramBuilder &b);
LogicalResult emulate(tg::RingAcquireOp op, ProgramBuilder &b);
LogicalResult emulate(tg::RingWaitOp op, ProgramBuilder &b);
LogicalResult emulate(tg::RingViewSlotOp op, ProgramBuilder &b);
LogicalResult emulate(tg::RingReleaseOp op, ProgramBuilder &b);
LogicalResult emulate(tg::RingCommitOp op, ProgramBuilder &b);
LogicalResult emulate(tg::BarrierCreateOp op, ProgramBuilder &b);
LogicalResult emulate(tg::BarrierSyncOp op, ProgramBuilder &b);
LogicalResult emulate(tg::TurnWaitOp op, ProgramBuilder &b);
LogicalResult emulate(tg::TurnPassOp op, ProgramBuilder &b);
LogicalResult emulate(tg::HoldOp op, ProgramBuilder &b);
// Copies.cpp
LogicalResult emulate(tg::RingLoadOp op, ProgramBuilder &b);
LogicalResult emulate(tg::BulkStoreOp op, ProgramBuilder &b);
LogicalResult emulate(tg::BulkReduceOp op, ProgramBuilder &b);
LogicalResult emulate(tg::BulkWaitOp op, ProgramBuilder &b);
/// Waits until at most `pending` bulk copies are under way.
Step waitForBulk(Agent &a, size_t pending);
// Shared.cpp
LogicalResult emulate(tg::SmemAllocOp op, ProgramBuilder &b);
LogicalResult emulate(tg::SmemRampOp op, ProgramBuilder &b);
LogicalResult emulate(tg::SmemTransposeOp op, ProgramBuilder &b);
LogicalResult emulate(tg::SmemSliceOp op, ProgramBuilder &b);
LogicalResult emulate(tg::SmemClearRowsOp op, ProgramBuilder &b);
LogicalResult emulate(tg::SmemMapOp op, ProgramBuilder &b);
LogicalResult emulate(tg::SmemTurnOp op, ProgramBuilder &b);
LogicalResult emulate(tg::FragLoadOp op, ProgramBuilder &b);
LogicalResult emulate(tg::FragStoreOp op, ProgramBuilder &b);
LogicalResult emulate(tg::VecLoadOp op, ProgramBuilder &b);
LogicalResult emulate(tg::VecStoreOp op, ProgramBuilder &b);
LogicalResult emulate(tg::ExchangeOp op, ProgramBuilder &b);
// Registers.cpp
LogicalResult emulate(tg::FragFillOp op, ProgramBuilder &b);
LogicalResult emulate(tg::FragCopyOp op, ProgramBuilder &b);
LogicalResult emulate(tg::FragConvertOp op, ProgramBuilder &b);
LogicalResult emulate(tg::FragPadOp op, ProgramBuilder &b);
LogicalResult emulate(tg::FragColsOp op, ProgramBuilder &b);
LogicalResult emulate(tg::MapOp op, ProgramBuilder &b);
LogicalResult emulate(tg::ReduceOp op, ProgramBuilder &b);
LogicalResult emulate(tg::ScanOp op, ProgramBuilder &b);
LogicalResult emulate(tg::AnyOp op, ProgramBuilder &b);
LogicalResult emulate(tg::VecElementsOp op, ProgramBuilder &b);
LogicalResult emulate(tg::MergeStatesOp op, ProgramBuilder &b);
// Folds.cpp
LogicalResult emulate(tg::FoldAboveOp op, ProgramBuilder &b);
// Products.cpp
LogicalResult emulate(tg::MmaIssueOp op, ProgramBuilder &b);
LogicalResult emulate(tg::MmaWaitOp op, ProgramBuilder &b);
LogicalResult emulate(tg::MmaSyncOp op, ProgramBuilder &b);
// Global.cpp
LogicalResult emulate(tg::GlobalLoadOp op, ProgramBuilder &b);
LogicalResult emulate(tg::GlobalStoreOp op, ProgramBuilder &b);
LogicalResult emulate(tg::GlobalReduceOp op, ProgramBuilder &b);
LogicalResult emulate(tg::GlobalPrefetchOp op, ProgramBuilder &b);
LogicalResult emulate(tg::GlobalStoreBitsOp op, ProgramBuilder &b);
LogicalResult emulate(tg::BlockTurnWaitOp op, ProgramBuilder &b);
LogicalResult emulate(tg::BlockTurnPassOp op, ProgramBuilder &b);
LogicalResult emulate(mlir::memref::LoadOp op, ProgramBuilder &b);
LogicalResult emulate(mlir::memref::StoreOp op, ProgramBuilder &b);
LogicalResult emulate(mlir::memref::DimOp op, ProgramBuilder &b);

// Costs.cpp, and BankConflicts.cpp of those that access shared memory.
OpCost costOf(tg::FragConvertOp op, const TargetInfo &target);
OpCost costOf(tg::FragCopyOp op, const TargetInfo &target);
OpCost costOf(tg::FragFillOp op, const TargetInfo &target);
OpCost costOf(tg::FragPadOp op, const TargetInfo &target);
OpCost costOf(tg::FragColsOp op, const TargetInfo &target);
OpCost costOf(tg::MapOp op, const TargetInfo &target);
OpCost costOf(tg::ReduceOp op, const TargetInfo &target);
OpCost costOf(tg::ScanOp op, const TargetInfo &target);
OpCost costOf(tg::FoldAboveOp op, const TargetInfo &target);
OpCost costOf(tg::MmaIssueOp op, const TargetInfo &target);
OpCost costOf(tg::MmaSyncOp op, const TargetInfo &target);
OpCost costOf(tg::FragLoadOp op, const TargetInfo &target);
OpCost costOf(tg::FragStoreOp op, const TargetInfo &target);
OpCost costOf(tg::ExchangeOp op, const TargetInfo &target);
OpCost costOf(tg::VecLoadOp op, const TargetInfo &target);
OpCost costOf(tg::VecStoreOp op, const TargetInfo &target);
OpCost costOf(tg::SmemMapOp op, const TargetInfo &target);
OpCost costOf(tg::SmemTurnOp op, const TargetInfo &target);
OpCost costOf(tg::SmemClearRowsOp op, const TargetInfo &target);
OpCost costOf(tg::RingLoadOp op, const TargetInfo &target);
OpCost costOf(tg::RingWaitOp op, const TargetInfo &target);
OpCost costOf(tg::BulkStoreOp op, const TargetInfo &target);
OpCost costOf(tg::BulkReduceOp op, const TargetInfo &target);
OpCost costOf(tg::GlobalLoadOp op, const TargetInfo &target);
OpCost costOf(tg::GlobalStoreOp op, const TargetInfo &target);
OpCost costOf(tg::GlobalReduceOp op, const TargetInfo &target);
/// What has no cost of its own takes an instruction or two, which address and
/// test.
template <typename OpT> OpCost costOf(OpT, const TargetInfo &) {
  OpCost cost;
  cost.issue = 2;
  return cost;
}
/// Loads of a tile's matrices by ldmatrix: `rows` by `cols` of those of the
/// view, from the first on.
SharedCost matrixCost(tg::SmemType tile, int64_t rows, int64_t cols);
SharedCost tf32Cost(tg::SmemType tile, bool pairs);

/// How elements lie in global memory.
struct MemoryType {
  ScalarType type;
  int64_t bytes = 4;
};
std::optional<MemoryType> memoryTypeOf(mlir::Type type);
/// One element, as the lanes of Scalars.h have it.
void loadElement(const char *from, const MemoryType &type, void *lane);
void storeElement(char *to, const MemoryType &type, const void *lane);

/// A new value of registers.
std::shared_ptr<Registers> makeRegisters(int64_t rows, int64_t cols);
/// Rows and columns of a fragment or vector: a vector is one row, or has one
/// for each element's shares where it is partial.
struct Shape {
  int64_t rows = 1, cols = 1;
};
Shape shapeOf(mlir::Type type);

/// Lands bytes of a copy at a barrier.
void completeBytes(Machine &machine, MBarrier &barrier, int64_t bytes,
                   Cycles at = 0);
/// One arrival, which may announce bytes.
void completeArrival(Machine &machine, MBarrier &barrier, const Clock &known,
                     int64_t bytes, Cycles at = 0);

/// A tile in shared memory as a matrix of the view's rows and columns.
struct Matrix {
  uint32_t *words = nullptr;
  int64_t rowStride = 0, colStride = 0;
  uint32_t &at(int64_t r, int64_t c) {
    return words[r * rowStride + c * colStride];
  }
  float floatAt(int64_t r, int64_t c) {
    float value;
    __builtin_memcpy(&value, &at(r, c), 4);
    return value;
  }
};
Matrix matrixOf(ThreadBlock &block, const View &view, const TileInfo &tile);
/// Rows and columns of a view as a part of what is stored.
Agent::Rect rectOf(const TileInfo &tile, int64_t row, int64_t col, int64_t rows,
                   int64_t cols);

} // namespace attn::emulator

#endif // ATTN_LIB_EMULATOR_MODELS_H
