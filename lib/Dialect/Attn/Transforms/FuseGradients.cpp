//===- FuseGradients.cpp - Reductions of the same pairs are one -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KeyRanges.h"
#include "TileKernel.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Attn/IR/AttributeNames.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include <thread>

#define DEBUG_TYPE "attn-fuse-gradients"

namespace attn {
#define GEN_PASS_DEF_ATTNFUSEGRADIENTSPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

namespace {
struct FuseGradientsPass
    : ::attn::impl::AttnFuseGradientsPassBase<FuseGradientsPass> {
  using AttnFuseGradientsPassBase::AttnFuseGradientsPassBase;

  void runOnOperation() final {
    std::optional<::attn::TargetInfo> target =
        ::attn::getTarget(getOperation());
    if (!target)
      return signalPassFailure();
    if (!threads)
      threads = std::max(std::thread::hardware_concurrency(), 1u);
    SmallVector<AggregateOp> overKeys;
    getOperation().walk([&](AggregateOp op) {
      if (op.getSide() == Side::keys && !isa<FusedOp>(op->getParentOp()))
        overKeys.push_back(op);
    });
    for (AggregateOp op : overKeys)
      fuse(op, *target);
  }

  /// Keys of a work tile, of which each of two warpgroups has half.
  static constexpr int64_t blockKeys = 128;
  /// Queries of a step: as many as the registers of two warpgroups hold scores
  /// of, beside sums of so many channels; or 0.
  static int64_t queriesOfStep(int64_t channels) {
    return channels == 128 ? 64 : channels == 64 ? 128 : 0;
  }

  /// Of rows on chip.
  static int64_t paddedChannels(RankedTensorType rows,
                                const ::attn::TargetInfo &target) {
    return ::attn::paddedDepth(rows.getShape().back(), target);
  }

  /// The schedule of one over queries, with the tiles of the kernel for both.
  /// The product that is added to memory runs beside the next step: that gained
  /// 4 to 18 % (measured: docs/performance, gradients).
  static ScheduleAttr scheduleOf(AggregateOp op,
                                 const ::attn::TargetInfo &target) {
    ScheduleAttr own = op.getScheduleAttr();
    auto type = cast<RankedTensorType>(op.getQueries().front().getType());
    int64_t queries = queriesOfStep(paddedChannels(type, target));
    // A step of few queries is over before a slot is filled again: four slots,
    // beside one of keys, gain 1 to 3 % (measured).
    constexpr int64_t fewQueries = 64;
    bool isAnyOrder = op->hasAttr(getAnyOrderName());
    int64_t stages = isAnyOrder && queries <= fewQueries ? 4 : 2;
    // Sections have as many heads as give each multiprocessor so many work
    // tiles: more of them are over queries that others are not at, and with a
    // mask fewer leave a section with its short tiles alone (measured).
    int64_t each = op.getMask().empty() ? 1 : 4, section = own.getSection();
    int64_t keys = std::min(own.getSectionKeys(),
                            each * target.numMultiprocessors * blockKeys);
    if (section > 1)
      section =
          ::attn::mostHeadsAbreast(/*isUneven=*/true, /*isBand=*/false, target);
    return ScheduleAttr::get(
        own.getContext(), blockKeys, ::attn::MmaShape::warpgroup().m, queries,
        /*splits=*/1, own.getLoop(), stages, ProductOverlap::next_step,
        Turns::none, /*pack_heads=*/false, /*cluster=*/1, own.getFetch(),
        /*occupancy=*/1, own.getOrder(), section, keys, /*block_v=*/0,
        /*share=*/0, Rotate::ahead);
  }

  /// The same, for a kernel of warpgroups, which add in any order.
  static std::string whyNotOnGpu(AggregateOp overKeys, AggregateOp overQueries,
                                 const ::attn::TargetInfo &target) {
    // Blocks that add in turns take longer than two kernels do (measured:
    // docs/performance, gradients).
    for (AggregateOp op : {overKeys, overQueries})
      if (!op->hasAttr(getAnyOrderName()))
        return "sums in memory have an order on a CPU alone, where a thread "
               "has all keys of a head; deterministic = False asks for none";
    if (!target.hasRoles())
      return "one kernel for both is one of warpgroups, which " + target.name +
             " has not";
    int64_t channels = 0;
    for (ValueRange tensors : {overQueries.getQueries(), overQueries.getKeys(),
                               overQueries.getValues()})
      for (Value rows : tensors) {
        auto type = cast<RankedTensorType>(rows.getType());
        if (type.getElementTypeBitWidth() != 16)
          return "one kernel for both takes rows of bf16 or f16";
        int64_t own = paddedChannels(type, target);
        if (channels && own != channels)
          return "one kernel for both takes rows of as many channels";
        channels = own;
      }
    if (!queriesOfStep(channels))
      return "one kernel for both takes rows of up to 128 channels, not of " +
             std::to_string(channels);
    if (overKeys.getValues().size() != 1 || overQueries.getValues().size() != 2)
      return "one kernel for both has one sum over keys and two over queries";
    constexpr int64_t rankOfPairs = 4;
    for (Value capture : overQueries.getCaptures())
      if (auto type = dyn_cast<RankedTensorType>(capture.getType());
          type && type.getRank() >= rankOfPairs)
        return "one kernel for both reads no tensor of pairs";
    // Keys that no query sees are found by their bounds.
    for (AggregateOp op : {overKeys, overQueries})
      if (!op.getMask().empty() &&
          !::attn::MaskAnalysis(op.getMask()).facts().hullIsExact)
        return "one kernel for both takes masks that are intervals of keys";
    return "";
  }

  /// Why two aggregates whose pairs are the same keep kernels of their own;
  /// empty where they need not.
  static std::string whyNot(AggregateOp overKeys, AggregateOp overQueries,
                            const ::attn::TargetInfo &target) {
    if (!target.isCpu())
      if (std::string why = whyNotOnGpu(overKeys, overQueries, target);
          !why.empty())
        return why;
    if (!overKeys.getScheduleAttr() || !overQueries.getScheduleAttr())
      return "one has no schedule";
    if (llvm::any_of(overKeys->getUsers(), [&](Operation *user) {
          Operation *at = overKeys->getBlock()->findAncestorOpInBlock(*user);
          return !at || at->isBeforeInBlock(overQueries);
        }))
      return "sums over keys are read before those over queries are there";
    for (AggregateOp op : {overKeys, overQueries})
      if (mayKillByScore(op, lookupMonoid(op, op.getMonoidAttr())))
        return "scores may be -inf";
    return "";
  }

  /// Finds what is over queries, and has the pairs of `op`.
  void fuse(AggregateOp op, const ::attn::TargetInfo &target) {
    std::string why;
    bool hasOther = false;
    for (Operation *next = op->getNextNode(); next;
         next = next->getNextNode()) {
      auto other = dyn_cast<AggregateOp>(next);
      if (!other || other.getSide() != Side::queries ||
          !llvm::equal(op.getQueries(), other.getKeys()))
        continue;
      hasOther = true;
      (void)FusedOp::findTerms(op, other, why);
      if (why.empty())
        why = whyNot(op, other, target);
      if (!why.empty())
        continue;
      join(op, other, target);
      return;
    }
    if (!hasOther)
      return;
    ++numKept;
    if (explain)
      op->emitRemark("not fused with a reduction over queries: ") << why;
  }

  void join(AggregateOp op, AggregateOp other,
            const ::attn::TargetInfo &target) {
    if (!target.isCpu())
      other.setScheduleAttr(scheduleOf(other, target));
    SmallVector<Value> results(op.getResults());
    llvm::append_range(results, other.getResults());
    OpBuilder b(other);
    auto fused =
        FusedOp::create(b, other.getLoc(), ValueRange(results).getTypes(),
                        target.isCpu() ? threads.getValue() : 1);
    for (auto [from, to] : llvm::zip(results, fused.getResults()))
      from.replaceAllUsesWith(to);
    Block *body = b.createBlock(&fused.getBody());
    op->moveBefore(body, body->end());
    other->moveBefore(body, body->end());
    b.setInsertionPointToEnd(body);
    YieldOp::create(b, other.getLoc(), results);
    ++numFused;
    if (!explain)
      return;
    size_t dots = op.getQueries().size();
    size_t overKeys = op.getValues().size();
    size_t overQueries = other.getValues().size();
    InFlightDiagnostic remark = fused->emitRemark("fused: ");
    remark << dots + overKeys + overQueries << " products a pair instead of "
           << 2 * dots + overKeys + overQueries;
    if (target.isCpu())
      remark << ", where there are heads for " << threads.getValue()
             << " threads; sums over keys are added up in memory, in order";
    else
      remark << "; sums over keys are added up in memory, in any order";
  }
};
} // namespace
