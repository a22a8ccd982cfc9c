//===- Lowerings.h - Operations in a kernel ---------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each family of operations is lowered in a file of its own, by functions that
// see the rest of the kernel through its context alone.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEGPUTONVVM_LOWERINGS_H
#define ATTN_LIB_CONVERSION_TILEGPUTONVVM_LOWERINGS_H

#include "KernelContext.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace attn::gpu {

class GlobalAccess;

// Rings.cpp: slots of rings.
LogicalResult lower(KernelContext &k, tg::RingAcquireOp op);
LogicalResult lower(KernelContext &k, tg::RingWaitOp op);
LogicalResult lower(KernelContext &k, tg::RingViewSlotOp op);
LogicalResult lower(KernelContext &k, tg::RingReleaseOp op);
LogicalResult lower(KernelContext &k, tg::RingCommitOp op);
LogicalResult lower(KernelContext &k, tg::ExchangeOp op);
LogicalResult noRing(Operation *op);

// Turns.cpp: hardware barriers.
LogicalResult lower(KernelContext &k, tg::BarrierSyncOp op);
LogicalResult lower(KernelContext &k, tg::TurnWaitOp op);
LogicalResult lower(KernelContext &k, tg::TurnPassOp op);
LogicalResult lower(KernelContext &k, tg::HoldOp op);
LogicalResult lower(KernelContext &k, tg::BlockTurnWaitOp op);
LogicalResult lower(KernelContext &k, tg::BlockTurnPassOp op);
/// Lets the last member open the first turn of each barrier of turns.
void openTurns(KernelContext &k, tg::RoleOp role);
/// Lets member 0 take the last turn that was passed: none is left behind.
void closeTurns(KernelContext &k, tg::RoleOp role);
/// Registers that stand for values: one of each instruction that computed or
/// read these, of the first quarter of them, or each.
enum class Samples { groups, quarter, all };
/// A zero that depends on these registers of `values`.
Value zeroAfter(KernelContext &k, ValueRange values, Samples samples);

// BulkCopies.cpp: copies of whole tiles.
/// The bit pattern that asks the L2 cache to drop lines first.
inline constexpr int64_t evictFirstPolicy = 0x12F0000000000000;
LogicalResult lower(KernelContext &k, tg::RingLoadOp op);
LogicalResult lower(KernelContext &k, tg::BulkStoreOp op);
LogicalResult lower(KernelContext &k, tg::BulkReduceOp op);
LogicalResult lower(KernelContext &k, tg::BulkWaitOp op);

// AsyncCopy.cpp: copies by threads.
LogicalResult lowerAsyncLoad(KernelContext &k, tg::RingLoadOp op);
/// Computes ahead of a loop what its copies do not change.
void prepareCopies(KernelContext &k, mlir::scf::ForOp loop);
/// Rounds what this thread has copied to a tile of tf32.
void roundCopied(KernelContext &k, tg::SmemType tile, Value base);

// Clusters.cpp: blocks that share rings.
/// The size of the kernel's clusters, which all that has one agrees on.
mlir::FailureOr<int64_t> clusterOf(tg::KernelOp kernel,
                                   const TargetInfo &target);
Value blockInCluster(Emitter &e);
/// An address in this block's shared memory, in that of another block.
Value inBlock(Emitter &e, Value address, Value block);
/// `publishes`: what this thread has written before is seen by whom the
/// arrival reaches.
void arriveInBlock(Emitter &e, Value barrier, Value predicate,
                   bool publishes = false);
void arriveInCluster(KernelContext &k, Value barrier);
void syncCluster(Emitter &e);

// SharedMemory.cpp: tiles, as wholes and by rows.
LogicalResult lower(KernelContext &k, tg::SmemSliceOp op);
LogicalResult lower(KernelContext &k, tg::SmemClearRowsOp op);
LogicalResult lower(KernelContext &k, tg::SmemRampOp op);
LogicalResult lower(KernelContext &k, tg::SmemMapOp op);
LogicalResult lower(KernelContext &k, tg::SmemTurnOp op);

// SharedFragments.cpp: registers from tiles and to them.
LogicalResult lower(KernelContext &k, tg::FragLoadOp op);
LogicalResult lower(KernelContext &k, tg::FragStoreOp op);
LogicalResult lower(KernelContext &k, tg::VecLoadOp op);
LogicalResult lower(KernelContext &k, tg::VecStoreOp op);
/// Stores 16-bit registers of an acc or a fragment into a tile.
LogicalResult storeFragment(KernelContext &k, Operation *op, tg::FragType frag,
                            const Values &registers, tg::SmemType tile,
                            Value base, bool transposed);

// GlobalLoad.cpp, GlobalWrite.cpp: registers from tensors and to them.
LogicalResult lower(KernelContext &k, tg::GlobalLoadOp op);
LogicalResult lower(KernelContext &k, tg::GlobalStoreOp op);
LogicalResult lower(KernelContext &k, tg::GlobalReduceOp op);
LogicalResult lower(KernelContext &k, tg::GlobalPrefetchOp op);
LogicalResult lower(KernelContext &k, tg::GlobalStoreBitsOp op);

// PermutedLanes.cpp: the same of rows and columns in another order.
LogicalResult loadPermuted(KernelContext &k, tg::GlobalLoadOp op,
                           GlobalAccess &access);
LogicalResult storePermuted(KernelContext &k, Operation *op, Value value,
                            mlir::MemRefType memref, int64_t neighbours,
                            GlobalAccess &access);

// Registers.cpp, Maps.cpp, Scans.cpp, Merge.cpp: registers alone.
LogicalResult lower(KernelContext &k, tg::FragFillOp op);
LogicalResult lower(KernelContext &k, tg::FragConvertOp op);
LogicalResult lower(KernelContext &k, tg::FragPadOp op);
LogicalResult lower(KernelContext &k, tg::FragColsOp op);
LogicalResult lower(KernelContext &k, tg::ReduceOp op);
LogicalResult lower(KernelContext &k, tg::MapOp op);
LogicalResult lower(KernelContext &k, tg::ScanOp op);
LogicalResult lower(KernelContext &k, tg::AnyOp op);
LogicalResult lower(KernelContext &k, tg::VecElementsOp op);
LogicalResult lower(KernelContext &k, tg::MergeStatesOp op);
// FoldAbove.cpp: keys one by one.
LogicalResult lower(KernelContext &k, tg::FoldAboveOp op);

/// One value for each input of a scan or a reduction.
using State = llvm::SmallVector<Value, 2>;
/// `left` becomes `left` combined with `right`.
LogicalResult combine(KernelContext &k, mlir::Block &body, State &left,
                      const State &right);
LogicalResult lowerOrderedReduce(KernelContext &k, tg::ReduceOp op);

// WarpgroupProducts.cpp, WarpProducts.cpp, MultiplyAdd.cpp: matrix products.
LogicalResult lower(KernelContext &k, tg::MmaIssueOp op);
/// At the start of a kernel with products of half of their rows.
void declareOtherRows(Emitter &e);
LogicalResult lower(KernelContext &k, tg::MmaWaitOp op);
LogicalResult lower(KernelContext &k, tg::MmaSyncOp op);
LogicalResult lowerMultiplyAdd(KernelContext &k, tg::MmaSyncOp op);

// Scalars.cpp, Math.cpp: operations of other dialects on scalars.
LogicalResult lowerScalar(KernelContext &k, Operation *op);
LogicalResult lowerMemory(KernelContext &k, Operation *op);
LogicalResult lowerMath(KernelContext &k, Operation *op);

/// Rewrites functions that have no form here by ones that do.
LogicalResult expandMath(tg::KernelOp kernel);

} // namespace attn::gpu

#endif // ATTN_LIB_CONVERSION_TILEGPUTONVVM_LOWERINGS_H
