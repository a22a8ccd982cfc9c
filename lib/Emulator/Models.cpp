//===- Models.cpp - Operations get their meaning --------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Models.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
namespace emulator = ::attn::emulator;
using namespace ::attn::emulator;

namespace {
template <typename OpT>
struct Model : EmulatedOpInterface::ExternalModel<Model<OpT>, OpT> {
  LogicalResult emulate(Operation *op, ProgramBuilder &builder) const {
    return ::attn::emulator::emulate(cast<OpT>(op), builder);
  }
  OpCost cost(Operation *op, const ::attn::TargetInfo &target) const {
    return costOf(cast<OpT>(op), target);
  }
};

template <typename... OpT> void attach(MLIRContext *context) {
  (OpT::template attachInterface<Model<OpT>>(*context), ...);
}
} // namespace

void emulator::registerModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, tg::TileGPUDialect *) {
    attach<tg::SchedulerOp, tg::ForeachOp, tg::SkipOp, tg::DrawNextOp,
           tg::LaunchDependentsOp, tg::WaitDependenciesOp, tg::RingCreateOp,
           tg::RingAcquireOp, tg::RingWaitOp, tg::RingViewSlotOp,
           tg::RingReleaseOp, tg::RingCommitOp, tg::BarrierCreateOp,
           tg::BarrierSyncOp, tg::TurnWaitOp, tg::TurnPassOp, tg::HoldOp,
           tg::RingLoadOp, tg::BulkStoreOp, tg::BulkReduceOp, tg::BulkWaitOp,
           tg::SmemAllocOp, tg::SmemRampOp, tg::SmemTransposeOp,
           tg::SmemSliceOp, tg::SmemClearRowsOp, tg::SmemMapOp, tg::SmemTurnOp,
           tg::FragLoadOp, tg::FragStoreOp, tg::VecLoadOp, tg::VecStoreOp,
           tg::ExchangeOp, tg::FragFillOp, tg::FragCopyOp, tg::FragConvertOp,
           tg::FragPadOp, tg::FragColsOp, tg::MapOp, tg::ReduceOp, tg::ScanOp,
           tg::AnyOp, tg::VecElementsOp, tg::MergeStatesOp, tg::FoldAboveOp,
           tg::MmaIssueOp, tg::MmaWaitOp, tg::MmaSyncOp, tg::GlobalLoadOp,
           tg::GlobalStoreOp, tg::GlobalReduceOp, tg::GlobalPrefetchOp,
           tg::GlobalStoreBitsOp, tg::BlockTurnWaitOp, tg::BlockTurnPassOp>(
        context);
  });
  registry.addExtension(+[](MLIRContext *context, scf::SCFDialect *) {
    attach<scf::ForOp, scf::WhileOp, scf::IfOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attach<arith::ConstantOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, memref::MemRefDialect *) {
    attach<memref::LoadOp, memref::StoreOp, memref::DimOp>(context);
  });
}
