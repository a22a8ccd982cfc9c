//===- FuseGradients.cpp - Reductions of the same pairs are one -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KeyRanges.h"
#include "TileFused.h"
#include "TileKernel.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Analysis/TurnSizes.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
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
  static constexpr int64_t narrowChannels = 64;
  /// Whether registers hold the slope of each pair's score beside its weight:
  /// that of another function than the exponential, as of a cap.
  static bool holdsSlopes(AggregateOp op) {
    if (op.getScore().empty())
      return false;
    return llvm::count_if(op.getScore().front(), [](Operation &inner) {
             return isa<math::MathDialect>(inner.getDialect()) &&
                    !isa<math::FmaOp, math::AbsFOp, math::AbsIOp>(inner);
           }) > 1;
  }
  /// Queries of a step: as many as the registers of two warpgroups hold scores
  /// of, beside sums, and what else they hold of each pair: slopes, weights
  /// that are summed, what is read for elements.
  static int64_t queriesOfStep(AggregateOp op,
                               const ::attn::TargetInfo &target) {
    constexpr int64_t many = 128, few = 64;
    bool holdsMore = holdsSlopes(op) || diesByElement(op) ||
                     op.getNumResults() > op.getValues().size();
    return widestDot(op, target) == narrowChannels && !holdsMore ? many : few;
  }
  /// The most channels of all dots with room for so many slots of queries
  /// beside one of keys.
  static constexpr int64_t depthOfFourSlots = 256, depthOfTwoSlots = 384;
  /// Columns of sums whose registers leave room for a step's.
  static constexpr int64_t mostColumns = 320;
  /// Those of a warpgroup: of each sum over queries all, and of one over keys
  /// half.
  static int64_t columnsOfSums(AggregateOp overKeys, AggregateOp overQueries,
                               const ::attn::TargetInfo &target) {
    constexpr int64_t members = 2;
    int64_t columns = 0;
    for (Value rows : overQueries.getValues())
      columns += paddedChannels(cast<RankedTensorType>(rows.getType()), target);
    for (Value rows : overKeys.getValues())
      columns +=
          paddedChannels(cast<RankedTensorType>(rows.getType()), target) /
          members;
    return columns;
  }

  /// Of all dots of a pair, on chip; and those of the widest rows.
  static int64_t depthOfDots(AggregateOp op, const ::attn::TargetInfo &target) {
    int64_t depth = 0;
    for (Value rows : op.getQueries())
      depth += paddedChannels(cast<RankedTensorType>(rows.getType()), target);
    return depth;
  }
  static int64_t widestDot(AggregateOp op, const ::attn::TargetInfo &target) {
    int64_t widest = 0;
    for (Value rows : op.getQueries())
      widest = std::max(
          widest,
          paddedChannels(cast<RankedTensorType>(rows.getType()), target));
    return widest;
  }

  /// Of rows on chip.
  static int64_t paddedChannels(RankedTensorType rows,
                                const ::attn::TargetInfo &target) {
    return ::attn::paddedDepth(rows.getShape().back(), target);
  }

  /// What warpgroups do one at a time: sums of 96 channels leave registers for
  /// weights that are held until the turn ends, and gain from it. Those of 64
  /// hold none, and gain from turns of what is issued, but where blocks add in
  /// any order under a mask, or where slopes keep weights from being made at
  /// once (measured: docs/performance, gradients).
  static Turns turnsOf(AggregateOp op, bool inTurns,
                       const ::attn::TargetInfo &target) {
    int64_t channels = widestDot(op, target);
    if (channels == narrowChannels)
      return holdsSlopes(op) || (!inTurns && isMasked(op)) ? Turns::none
                                                           : Turns::products;
    bool isBetween = channels > narrowChannels && channels < 2 * narrowChannels;
    return isBetween && !inTurns ? Turns::softmax : Turns::none;
  }

  /// The schedule of one over queries, with the tiles of the kernel for both.
  /// The product that is added to memory runs beside the next step: that gained
  /// 4 to 18 %, but where blocks add in turns, steps are short and rows wide,
  /// it loses 12 % (measured: docs/performance, gradients).
  static ScheduleAttr scheduleOf(AggregateOp op, bool inTurns,
                                 const ::attn::TargetInfo &target) {
    ScheduleAttr own = op.getScheduleAttr();
    int64_t queries = queriesOfStep(op, target);
    constexpr int64_t fewQueries = 64;
    bool isShort = queries <= fewQueries, hasMask = isMasked(op);
    // A step of few queries is over before a slot is filled again: four slots,
    // beside one of keys, gain 1 to 3 % (measured). Where scores have elements,
    // there is no room for a third number of each query in four.
    bool fitsFour =
        depthOfDots(op, target) <= depthOfFourSlots && !diesByElement(op);
    int64_t stages = !inTurns && isShort && fitsFour ? 4 : 2;
    bool isWide = widestDot(op, target) > narrowChannels;
    auto overlap = inTurns && isShort && isWide ? ProductOverlap::own_step
                                                : ProductOverlap::next_step;
    Turns turns = turnsOf(op, inTurns, target);
    // Sections have as many heads as give each multiprocessor so many work
    // tiles: more of them are over queries that others are not at, and with a
    // mask fewer leave a section with its short tiles alone (measured). Those
    // that add in turns wait for the one before in their head.
    int64_t each = inTurns ? 2 : hasMask ? 4 : 1;
    int64_t heads = own.getSection(), keys = own.getSectionKeys();
    std::optional<WorkOrder> order = own.getOrder();
    if (inTurns) {
      // Each tile of queries comes to the blocks in the order in which they
      // begin: with the key tile that has the fewest queries, where a mask
      // leaves out those ahead of a key.
      order = hasMask ? WorkOrder::longest_first : WorkOrder::in_order;
      keys = std::numeric_limits<int64_t>::max();
    }
    keys = std::min(keys, each * target.numMultiprocessors * blockKeys);
    if (inTurns || heads > 1)
      heads =
          ::attn::mostHeadsAbreast(/*isUneven=*/true, /*isBand=*/false, target);
    return ScheduleAttr::get(
        own.getContext(), blockKeys, ::attn::MmaShape::warpgroup().m, queries,
        /*splits=*/1, own.getLoop(), stages, overlap, turns,
        /*pack_heads=*/false, /*cluster=*/1, own.getFetch(),
        /*occupancy=*/1, order, heads, keys, /*block_v=*/0,
        /*share=*/0, Rotate::ahead, /*pairs=*/std::nullopt);
  }

  static bool addsInTurns(AggregateOp overKeys, AggregateOp overQueries) {
    return !overKeys.getAnyOrder() || !overQueries.getAnyOrder();
  }

  /// Whether a mask is asked for pairs.
  static bool isMasked(AggregateOp op) {
    return !op.getMask().empty() && !diesByElement(op);
  }

  /// Whether the keys of each row start and end with it.
  static bool isBand(AggregateOp op) {
    if (!isMasked(op))
      return false;
    const ::attn::MaskAnalysis mask(op.getMask());
    return mask.facts().startDiffersByRow && mask.facts().endDiffersByRow;
  }

  /// Whether a plan knows a mask's bounds: they are the same for all heads, and
  /// none is an element.
  static bool planHasBounds(AggregateOp op) {
    Region &mask = op.getMask();
    return llvm::all_of(mask.getArguments().take_front(2),
                        [](Value v) { return v.use_empty(); }) &&
           mask.getOps<tensor::ExtractOp>().empty();
  }

  /// The same, for a kernel of warpgroups.
  static std::string whyNotOnGpu(AggregateOp overKeys, AggregateOp overQueries,
                                 const ::attn::TargetInfo &target) {
    bool inTurns = addsInTurns(overKeys, overQueries);
    if (inTurns)
      if (std::string why = whyNoTurns(overKeys, overQueries); !why.empty())
        return why + "; deterministic = False asks for no order";
    if (!target.hasRoles())
      return "one kernel for both is one of warpgroups, which " + target.name +
             " has not";
    int64_t channels = 0;
    bool areAlike = true;
    for (ValueRange tensors : {overQueries.getQueries(), overQueries.getKeys(),
                               overQueries.getValues()})
      for (Value rows : tensors) {
        auto type = cast<RankedTensorType>(rows.getType());
        if (type.getElementTypeBitWidth() != 16)
          return "one kernel for both takes rows of bf16 or f16";
        int64_t own = paddedChannels(type, target);
        areAlike &= !channels || own == channels;
        // It depends on how many queries see a key.
        if (inTurns && own > narrowChannels && isBand(overKeys) &&
            !planHasBounds(overQueries))
          return "one kernel for both whose blocks take turns has windows of "
                 "128 channels where their bounds are numbers, the same for "
                 "all heads";
        // Of others two kernels leave out the channels that fill up rows.
        if (inTurns && (own != type.getShape().back() || own % narrowChannels ||
                        own > 2 * narrowChannels))
          return "one kernel for both whose blocks take turns has rows of 64 "
                 "or 128 channels; deterministic = False asks for no order";
        channels = own;
      }
    // A sum that has a kernel of its own leaves the other one to this.
    size_t numSums = overQueries.getValues().size();
    if (overKeys.getValues().size() != 1 || numSums > 2 ||
        (inTurns && numSums != 2))
      return "one kernel for both has one sum over keys and two over queries";
    if (numSums == 2 && !areAlike)
      return "one kernel for both takes rows of as many channels";
    if (depthOfDots(overQueries, target) > depthOfTwoSlots)
      return "one kernel for both has two slots of queries for " +
             std::to_string(depthOfTwoSlots) +
             " channels of all dots, not for " +
             std::to_string(depthOfDots(overQueries, target));
    if (int64_t sums = columnsOfSums(overKeys, overQueries, target);
        sums > mostColumns)
      return "one kernel for both has registers for " +
             std::to_string(mostColumns) + " columns of sums, not for " +
             std::to_string(sums);
    if (scoresReadPairs(overQueries))
      return "one kernel for both reads no tensor of pairs";
    // Keys that no query sees are found by their bounds.
    for (AggregateOp op : {overKeys, overQueries})
      if (isMasked(op) &&
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
    ScheduleAttr own = other.getScheduleAttr();
    bool inTurns = !target.isCpu() && addsInTurns(op, other);
    if (!target.isCpu())
      other.setScheduleAttr(scheduleOf(other, inTurns, target));
    SmallVector<Value> results(op.getResults());
    llvm::append_range(results, other.getResults());
    OpBuilder b(other);
    auto fused =
        FusedOp::create(b, other.getLoc(), ValueRange(results).getTypes(),
                        target.isCpu() ? threads.getValue() : 1,
                        /*turn_sizes=*/nullptr, /*two_kernels=*/ScheduleAttr());
    ::attn::TurnSizes sizes;
    if (inTurns) {
      auto type = cast<RankedTensorType>(other.getQueries().front().getType());
      sizes = ::attn::turnSizes(type.getShape().back(), isMasked(other),
                                isBand(other), target);
      fused.setTwoKernelsAttr(own);
      fused.setTurnSizes(ArrayRef<int64_t>{sizes.queries, sizes.tiles,
                                           sizes.group, sizes.seeing});
    }
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
      remark << "; sums over keys are added up in memory, "
             << (inTurns ? "in turns" : "in any order");
    if (inTurns)
      remark << ", from " << sizes.queries << " queries and " << sizes.tiles
             << " tiles of keys on";
    if (inTurns && sizes.group == 1)
      remark << ", of heads that share no keys";
    if (sizes.seeing > 1)
      remark << ", that " << sizes.seeing << " queries see";
  }
};
} // namespace
