//===- RelaxMaximum.cpp - A maximum that passes a NaN by -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// arith.maximumf gives NaN where a side is NaN, which takes several
// instructions on most targets; a comparison and a select take one or two. The
// largest score is no output but the reference point of the weights: where a
// NaN score reaches every output through its weight, the maximum need not carry
// it as well. The laws say where that is so.
//
//===----------------------------------------------------------------------===//

#include "MarkReductions.h"
#include "StateUses.h"
#include "TileWarps.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/IR/BuiltinOps.h"

#define DEBUG_TYPE "attn-relax-maximum"

namespace attn {
#define GEN_PASS_DEF_ATTNRELAXMAXIMUMPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

StringRef mlir::attn::whyNotRelaxed(ReductionOpInterface op, MonoidOp monoid,
                                    const ::attn::TargetInfo &target) {
  if (monoid.getKind() != MonoidKind::cocycle || monoid.getNumStats() != 1 ||
      !cast<TypeAttr>(monoid.getStats()[0]).getValue().isF32() ||
      !isMaximum(monoid.getCombine()))
    return "the combine of its monoid is no maximum of one f32 statistic of a "
           "cocycle";
  if (!mayDropNaN(op, monoid))
    return "an output may show a NaN score through the maximum alone";
  if (ScheduleAttr schedule = op.getScheduleAttribute();
      schedule &&
      (::attn::warpsHaveKeys(schedule.getRows(), target) ||
       partsOfCluster(schedule, target) > 1) &&
      !showsNaN(monoid))
    return "states of warps or blocks are combined by it, and no sum of "
           "weights alone shows a NaN score";
  return {};
}

namespace {
struct RelaxMaximumPass
    : ::attn::impl::AttnRelaxMaximumPassBase<RelaxMaximumPass> {
  using AttnRelaxMaximumPassBase::AttnRelaxMaximumPassBase;

  void runOnOperation() final {
    std::optional<MarkCounts> counts = markReductions(
        getOperation(), explain,
        {"maximum not relaxed: ",
         [](ReductionOpInterface op) { return op.getRelaxedMaximum(); },
         whyNotRelaxed,
         [](ReductionOpInterface op) { op.setRelaxedMaximum(true); }});
    if (!counts)
      return signalPassFailure();
    numRelaxed += counts->marked;
    numKept += counts->kept;
  }
};
} // namespace
