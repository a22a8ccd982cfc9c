//===- ChooseSchedule.cpp - Write a schedule on each reduction ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The choice is a pure function of the op, of the sizes that are known and of
// the target (Analysis/Schedule.h has the arithmetic), and a typed attribute
// in the IR: a user, a test or an autotuner can write it instead.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Analysis/Schedule.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/IR/BuiltinOps.h"

#define DEBUG_TYPE "attn-choose-schedule"

namespace attn {
#define GEN_PASS_DEF_ATTNCHOOSESCHEDULEPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

static std::optional<::attn::ScheduleProblem>
describe(ReductionOpInterface op, MonoidOp monoid,
         const ::attn::TargetInfo &target) {
  ::attn::ScheduleProblem problem;
  auto collect = [&](ValueRange tensors, std::vector<int64_t> &sizes,
                     bool &narrow) {
    narrow = true;
    for (Value tensor : tensors) {
      auto type = cast<RankedTensorType>(tensor.getType());
      sizes.push_back(type.getShape().back());
      Type element = type.getElementType();
      narrow &= target.multiplies(element.isBF16(), element.isF16());
    }
    return llvm::none_of(sizes, ShapedType::isDynamic);
  };
  bool narrowKeys = false;
  std::vector<int64_t> keyDepths;
  if (!collect(op.getQueryOperands(), problem.depths, problem.narrowDots) ||
      !collect(op.getKeyOperands(), keyDepths, narrowKeys) ||
      !collect(op.getValueOperands(), problem.channels, problem.narrowValues))
    return std::nullopt;
  problem.narrowDots &= narrowKeys;
  problem.elementPath = monoid.isGeneral();
  problem.rowScalars =
      monoid.getNumStats() + monoid.getNumComponents() - monoid.getNumValues();
  auto rowsOf = [](Value tensor) {
    auto type = cast<RankedTensorType>(tensor.getType());
    int64_t size = type.getDimSize(type.getRank() - 2);
    return ShapedType::isDynamic(size) ? -1 : size;
  };
  // Packed tensors hold many sequences; the length of none is known.
  if (!op.getPackedQueries()) {
    problem.numQueries = rowsOf(op.getQueryOperands().front());
    problem.numKeys = rowsOf(op.getKeyOperands().front());
  }
  return problem;
}

/// Peels where a tile's keys have an interval that is live in every row. A
/// mask in pieces is tested tile by tile; one that must be evaluated to be
/// known has no full tiles to find.
static LoopShape loopShape(ReductionOpInterface op) {
  if (op.getMaskBody().empty())
    return LoopShape::peeled;
  ::attn::MaskAnalysis mask(op.getMaskBody());
  return mask.hasCore() || mask.isDataDependent() ? LoopShape::peeled
                                                  : LoopShape::masked;
}

static std::string describeMask(ReductionOpInterface op) {
  if (op.getMaskBody().empty())
    return "mask: none";
  ::attn::MaskAnalysis mask(op.getMaskBody());
  std::string text = "mask: keys ";
  text += mask.hullIsExact() ? "bounded exactly" : "bounded";
  text += mask.hasCore() ? ", full tiles peeled" : ", no full tiles to peel";
  if (mask.isDataDependent())
    text += ", elements read at run time";
  return text;
}

namespace {
struct ChooseSchedulePass
    : ::attn::impl::AttnChooseSchedulePassBase<ChooseSchedulePass> {
  using AttnChooseSchedulePassBase::AttnChooseSchedulePassBase;

  void runOnOperation() final {
    ModuleOp module = getOperation();
    std::optional<::attn::TargetInfo> target = ::attn::getTarget(module);
    if (!target)
      return signalPassFailure();
    bool failed = false;
    module.walk([&](ReductionOpInterface op) {
      failed |= mlir::failed(schedule(op, *target));
    });
    if (failed)
      signalPassFailure();
  }

  LogicalResult schedule(ReductionOpInterface op,
                         const ::attn::TargetInfo &target) {
    MonoidOp monoid = lookupMonoid(op, op.getMonoidRef());
    if (!monoid)
      return op->emitOpError("expected '")
             << op.getMonoidRef().getValue()
             << "' to be an attn.monoid of this module";
    auto problem = describe(op, monoid, target);
    if (!problem)
      return op->emitOpError("expected static head dimensions");
    if (numQueries > 0)
      problem->numQueries = numQueries;
    if (numKeys > 0)
      problem->numKeys = numKeys;

    ScheduleAttr attr = op.getScheduleAttribute();
    bool given = static_cast<bool>(attr);
    if (!given) {
      ::attn::ScheduleSizes sizes = ::attn::chooseSizes(*problem, target);
      attr = ScheduleAttr::get(op.getContext(), sizes.blockQ, sizes.rows,
                               sizes.blockK, /*splits=*/1, loopShape(op));
      op->setAttr("schedule", attr);
      ++numChosen;
    } else {
      ++numGiven;
    }
    ::attn::ScheduleBudget budget = ::attn::computeBudget(
        *problem, {attr.getBlockQ(), attr.getRows(), attr.getBlockK()}, target);
    int64_t scratch = budget.scratchBytes();
    if (scratch > ::attn::maxScratchBytes || scratch < 0)
      return op->emitOpError("expected a schedule that keeps at most ")
             << ::attn::maxScratchBytes
             << " bytes on chip, but block_q = " << attr.getBlockQ()
             << ", rows = " << attr.getRows()
             << ", block_k = " << attr.getBlockK() << " keeps " << scratch;
    if (explain)
      op->emitRemark(given ? "schedule as given: " : "schedule chosen: ")
          << attr << " for " << target.name << "\n"
          << budget.explain() << "\n"
          << describeMask(op);
    return success();
  }
};
} // namespace
