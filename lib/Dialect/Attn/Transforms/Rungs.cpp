//===- Rungs.cpp - Reductions as older algorithms compute them ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rungs.h"
#include "RungRewriter.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

namespace attn {
#define GEN_PASS_DEF_ATTNAPPLYRUNGPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

int64_t mlir::attn::keysOfFirst(ReductionOpInterface op,
                                const ::attn::TargetInfo &target) {
  auto type = cast<RankedTensorType>(op.getQueryOperands().front().getType());
  int64_t bytes = target.isCpu() ? target.l2Bytes : target.sharedMemoryBytes;
  int64_t elements = bytes / (type.getElementTypeBitWidth() / 8);
  constexpr int64_t unit = 64;
  int64_t keys = llvm::divideCeil(elements, 4 * type.getShape().back());
  return std::max<int64_t>(keys / unit * unit, unit);
}

ScheduleAttr mlir::attn::scheduleOfRung(Rung rung, ReductionOpInterface op,
                                        ScheduleAttr chosen,
                                        const ::attn::TargetInfo &target) {
  int64_t blockQ = chosen.getBlockQ(), rows = chosen.getRows(),
          blockK = chosen.getBlockK(), splits = 1;
  Turns turns = chosen.getTurns();
  ProductOverlap overlap = chosen.getOverlap();
  int64_t cluster = chosen.getCluster();
  // Rows and keys of one warp's products, where those wait for each other.
  constexpr int64_t warpRows = 16, warpKeys = 64;
  auto ofWarps = [&](int64_t most) {
    if (target.isCpu())
      return;
    rows = warpRows;
    blockQ = most;
    blockK = std::min(blockK, warpKeys);
    turns = Turns::none;
    overlap = ProductOverlap::none;
    cluster = 1;
  };
  switch (rung) {
  case Rung::naive:
  case Rung::safe:
  case Rung::lazy:
    break;
  case Rung::online:
    if (target.isCpu())
      blockQ = rows = 1;
    ofWarps(warpRows);
    break;
  case Rung::fa1: {
    int64_t depth =
        cast<RankedTensorType>(op.getQueryOperands().front().getType())
            .getShape()
            .back();
    int64_t keys = keysOfFirst(op, target);
    blockQ = std::max(std::min(keys, depth) / warpRows, int64_t(1)) * warpRows;
    rows = std::gcd(rows, blockQ);
    ofWarps(std::min(blockQ, 4 * warpRows));
    blockK = std::min(blockK, keys);
    break;
  }
  case Rung::fa2:
    ofWarps(4 * warpRows);
    break;
  case Rung::fa3: {
    // Two warpgroups, which take turns.
    int64_t group = target.productShape().m;
    rows = group;
    if (chosen.getRows() != group || chosen.getBlockQ() == group)
      blockQ = 2 * group;
    turns = Turns::products;
    overlap = ProductOverlap::next_step;
    break;
  }
  case Rung::split: {
    // As many as fill a GPU; the cores of a small machine.
    constexpr int64_t partsOnCpu = 4;
    splits = target.isCpu() ? partsOnCpu : ScheduleAttr::automaticSplits;
    cluster = 1;
    break;
  }
  }
  return ScheduleAttr::get(op.getContext(), blockQ, rows, blockK, splits,
                           chosen.getLoop(), chosen.getStages(), overlap, turns,
                           /*pack_heads=*/false, cluster, chosen.getFetch(),
                           chosen.getOccupancy(), chosen.getOrder(),
                           chosen.getSection(), chosen.getSectionKeys(),
                           chosen.getBlockV(), chosen.getShare(),
                           chosen.getRotate(), chosen.getPairs());
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct ApplyRungPass : ::attn::impl::AttnApplyRungPassBase<ApplyRungPass> {
  void runOnOperation() final {
    ModuleOp module = getOperation();
    SmallVector<AggregateOp> ops;
    module.walk([&](AggregateOp op) {
      if (op->hasAttr(getRungAttrName()))
        ops.push_back(op);
    });
    if (ops.empty())
      return markAllAnalysesPreserved();
    std::optional<::attn::TargetInfo> target = ::attn::getTarget(module);
    if (!target)
      return signalPassFailure();
    SymbolTable symbols(module);
    for (AggregateOp op : ops) {
      if (isa<FusedOp>(op->getParentOp())) {
        op.emitOpError(
            "expected no rung within attn.fused, which is one kernel");
        return signalPassFailure();
      }
      MonoidOp monoid = lookupMonoid(op, op.getMonoidAttr());
      if (!monoid) {
        op.emitOpError("expected '")
            << op.getMonoid() << "' to be an attn.monoid of this module";
        return signalPassFailure();
      }
      Rung rung = op->getAttrOfType<RungAttr>(getRungAttrName()).getValue();
      if (failed(RungRewriter(op, monoid, symbols, *target, rung).run()))
        return signalPassFailure();
      ++numRewritten;
    }
    // What the rungs read no more is no capture of theirs.
    OpPassManager clean(ModuleOp::getOperationName());
    clean.addPass(createCanonicalizerPass());
    if (failed(runPipeline(clean, module)))
      signalPassFailure();
  }
};
} // namespace
