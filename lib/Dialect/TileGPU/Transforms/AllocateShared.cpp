//===- AllocateShared.cpp - Places in shared memory -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything lives as long as the kernel: with items drawn one after another,
// the queries of the next are copied while the results of this one leave, so
// that no two stretches are known to be needed at different times.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/TileGPU/IR/SharedLayout.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"

#define DEBUG_TYPE "tile-gpu-allocate-shared"

namespace attn {
#define GEN_PASS_DEF_TILEGPUALLOCATESHAREDPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;
using ::attn::gpu::SharedLayout;
using ::attn::gpu::SharedPiece;

/// How many slots of the largest ring would fit, 0: none.
static int64_t slotsThatFit(RingCreateOp ring, const SharedLayout &layout,
                            const ::attn::TargetInfo &target) {
  int64_t slot = 0;
  for (int64_t stride : layout.ring(ring.getRing())->strides)
    slot += stride;
  int64_t stages = ring.getRing().getType().getStages();
  int64_t missing = layout.getBytes() - target.sharedMemoryBytes;
  return std::max<int64_t>(stages - llvm::divideCeil(missing, slot), 0);
}

/// Who wants how much, and what would do.
static LogicalResult refuse(KernelOp kernel, const SharedLayout &layout,
                            const ::attn::TargetInfo &target) {
  InFlightDiagnostic diag = kernel.emitOpError("expected at most ");
  diag << target.sharedMemoryBytes << " bytes of shared memory on "
       << target.name << ", but got " << layout.getBytes();
  const SharedPiece *largest = nullptr;
  for (const SharedPiece &piece : layout.getPieces()) {
    diag.attachNote(piece.owner->getLoc())
        << piece.bytes << " bytes for " << piece.describe();
    if (isa<RingCreateOp>(piece.owner) &&
        (!largest || piece.bytes > largest->bytes))
      largest = &piece;
  }
  if (!largest)
    return diag << "; expected smaller tiles";
  auto ring = cast<RingCreateOp>(largest->owner);
  if (int64_t slots = slotsThatFit(ring, layout, target))
    return diag << "; a ring of " << slots << " slots would fit in place of "
                << ring.getRing().getType().getStages();
  return diag << "; no ring of fewer slots would fit: expected smaller tiles";
}

/// Whether there was something to do.
static FailureOr<bool> allocate(KernelOp kernel,
                                const ::attn::TargetInfo &target) {
  SharedLayout layout;
  if (failed(layout.read(kernel)))
    return failure();
  if (layout.hasPlaces()) {
    if (layout.isPlaced())
      return false;
    return kernel.emitOpError("expected all of its shared memory and barriers "
                              "to have places, or none; expected this pass to "
                              "run after those that create them");
  }
  layout.allocate();
  if (layout.getBytes() > target.sharedMemoryBytes)
    return refuse(kernel, layout, target);
  if (layout.getNumBarriers() > target.namedBarriers)
    return kernel.emitOpError("expected at most ")
           << target.namedBarriers << " hardware barriers, the block's own "
           << "included, but got " << layout.getNumBarriers()
           << "; expected fewer members or roles that wait for each other";
  layout.write();
  return true;
}

namespace {
struct AllocateSharedPass
    : ::attn::impl::TileGpuAllocateSharedPassBase<AllocateSharedPass> {
  void runOnOperation() final {
    ModuleOp module = getOperation();
    std::optional<::attn::TargetInfo> target;
    for (auto kernel : module.getOps<KernelOp>()) {
      if (kernel.isExternal())
        continue;
      if (!target && !(target = ::attn::getGpuTarget(module)))
        return signalPassFailure();
      FailureOr<bool> isNew = allocate(kernel, *target);
      if (failed(isNew))
        return signalPassFailure();
      numAllocated += *isNew;
    }
  }
};
} // namespace
