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

#include "DescribeProblem.h"
#include "ExplainSchedule.h"
#include "Rungs.h"
#include "StateUses.h"
#include "TileCaptures.h"
#include "TileKernel.h"
#include "TileWarps.h"
#include "attn/Analysis/CostModel.h"
#include "attn/Analysis/FewRows.h"
#include "attn/Analysis/Laws.h"
#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Analysis/MaskRuns.h"
#include "attn/Analysis/OnChip.h"
#include "attn/Analysis/Schedule.h"
#include "attn/Analysis/ScheduleTable.h"
#include "attn/Analysis/Sharing.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/IR/AttributeNames.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include <array>
#include <numeric>

#define DEBUG_TYPE "attn-choose-schedule"

namespace attn {
#define GEN_PASS_DEF_ATTNCHOOSESCHEDULEPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

/// The sizes [b, hq, sq, sk, hk] that the module's runs are expected to have.
static std::array<int64_t, 5> expectedSizes(ModuleOp module) {
  std::array<int64_t, 5> sizes = {};
  if (auto given =
          module->getAttrOfType<DenseI64ArrayAttr>(getExpectedSizesName()))
    llvm::copy(given.asArrayRef(), sizes.begin());
  return sizes;
}

/// Peels where a tile's keys have an interval that is live in every row. A
/// mask in pieces is tested tile by tile; one that must be evaluated to be
/// known has no full tiles to find.
static LoopShape loopShape(ReductionOpInterface op, bool isListed,
                           const ::attn::TargetInfo &target) {
  if (op.getMaskBody().empty() || isListed)
    return LoopShape::peeled;
  ::attn::MaskAnalysis mask(op.getMaskBody());
  // Of a table of blocks, tiles that are full are told one by one.
  if (target.isCpu() && !mask.facts().hasCore && !mask.getCells().empty())
    return LoopShape::masked;
  return mask.facts().hasCore || mask.facts().isDataDependent
             ? LoopShape::peeled
             : LoopShape::masked;
}

/// Lets tiles lie within the blocks of which a mask reads a table, where they
/// would be somewhat larger: one load then tells what a tile is.
static void fitCells(ReductionOpInterface op,
                     const ::attn::ScheduleProblem &problem,
                     const ::attn::TargetInfo &target,
                     ::attn::ScheduleSizes &sizes) {
  if (op.getMaskBody().empty())
    return;
  ::attn::MaskAnalysis mask(op.getMaskBody());
  int64_t rows = 0, keys = 0;
  for (const ::attn::MaskAnalysis::Cell &cell : mask.getCells()) {
    rows = std::gcd(rows, cell.rows);
    keys = std::gcd(keys, cell.keys);
  }
  /// The most units, at most `size`, that divide `whole`; or `size`.
  auto fit = [](int64_t whole, int64_t size, int64_t unit) {
    for (int64_t less = size / unit * unit; less > 0; less -= unit)
      if (whole % less == 0)
        return less;
    return size;
  };
  constexpr int64_t unit = 16, least = 32;
  if (keys && sizes.blockK >= least)
    if (int64_t fits = fit(keys, sizes.blockK, unit); fits >= least)
      sizes.blockK = fits;
  if (!rows || sizes.rows < unit)
    return;
  int64_t block = target.isCpu() ? fit(rows, sizes.rows, unit) : sizes.rows;
  int64_t fits = fit(rows, sizes.blockQ, block);
  if (rows % fits == 0 && fits >= least)
    sizes = {fits, block, sizes.blockK};
  // Of fewer warpgroups each has registers for more keys.
  ::attn::ScheduleSizes longer = {sizes.blockQ, sizes.rows, 2 * sizes.blockK};
  if (problem.listed && problem.depths.size() == 1 && keys &&
      keys % longer.blockK == 0 &&
      ::attn::computeBudget(problem, longer, target).fits())
    sizes = longer;
}

/// Whether the step of a gradient over queries fills a warpgroup's registers.
static bool fillsRegisters(ReductionOpInterface op,
                           const ::attn::ScheduleProblem &problem,
                           const ::attn::TargetInfo &target,
                           const ::attn::ScheduleSizes &sizes) {
  return !target.isCpu() && op.getReducedSide() == Side::queries &&
         ::attn::weighsInPlace(problem) &&
         sizes.rows == ::attn::MmaShape::warpgroup().m;
}

/// Leaves registers for what columns have, where the step holds more of it than
/// it makes weights in the place of: numbers that the two maps of a pair take,
/// where one product alone takes weights; and where masked tiles read these
/// from memory, positions of their own, which both maps hold (ptxas spilled
/// them). Of sequences without sizes of their own it is copied with the tiles.
static void leaveColumns(ReductionOpInterface op,
                         const ::attn::ScheduleProblem &problem,
                         const ::attn::TargetInfo &target,
                         ::attn::ScheduleSizes &sizes) {
  bool isMasked = !op.getMaskBody().empty() && op.hasOwnSizes();
  bool isSingle = op.getValueOperands().size() == 1;
  if ((!isMasked && !isSingle) || !fillsRegisters(op, problem, target, sizes))
    return;
  const int64_t unit = target.mmaShapes.front().k;
  // A thread has four of sixteen columns.
  int64_t vectors = isSingle ? 2 : 1;
  for (; sizes.blockK > 2 * unit; sizes.blockK -= unit) {
    ::attn::ScheduleBudget budget =
        ::attn::computeBudget(problem, sizes, target);
    if (budget.registers + vectors * sizes.blockK / 4 <= budget.registerLimit)
      return;
  }
}

/// Bytes of one key and its values; of keys that are values as well, once.
static int64_t keyRowBytes(ReductionOpInterface op) {
  int64_t bytes = 0;
  llvm::SmallDenseSet<Value> seen;
  for (ValueRange tensors : {op.getKeyOperands(), op.getValueOperands()})
    for (Value tensor : tensors) {
      if (!seen.insert(tensor).second)
        continue;
      auto type = cast<RankedTensorType>(tensor.getType());
      bytes += type.getShape().back() *
               llvm::divideCeil(type.getElementTypeBitWidth(), 8);
    }
  return std::max<int64_t>(bytes, 1);
}

/// Whether the mask reads elements of captures that scores do not read: of
/// documents, not of a bias or a table that may be -inf.
static bool hasOwnElements(ReductionOpInterface op) {
  Region &mask = op.getMaskBody(), &score = op.getScoreBody();
  size_t count = op.getCaptureOperands().size();
  if (mask.empty() || score.empty())
    return false;
  bool isRead = false;
  for (auto [inMask, inScore] :
       llvm::zip_equal(mask.getArguments().take_back(count),
                       score.getArguments().take_back(count))) {
    isRead |= !inMask.use_empty();
    if (!inMask.use_empty() && !inScore.use_empty())
      return false;
  }
  return isRead;
}

/// Whether plans may choose by the sizes of a run: the module says so, and the
/// operation is all that its function runs.
static bool hasClasses(ReductionOpInterface op) {
  if (!op->getParentOfType<ModuleOp>()->hasAttr(getDispatchAttrName()) ||
      op->hasAttr(getDispatchAttrName()) || op->hasAttr(getRungAttrName()) ||
      !op.getQuerySource().hasBatch() || op.getReducedSide() != Side::keys ||
      !isa<AggregateOp>(op.getOperation()))
    return false;
  auto function = op->getParentOfType<func::FuncOp>();
  return function &&
         llvm::hasSingleElement(function.getOps<ReductionOpInterface>());
}

/// What keeps warpgroups from reducing in a monoid, or nothing.
static StringRef whyOfWarps(MonoidOp monoid,
                            const ::attn::ScheduleProblem &problem) {
  if (llvm::is_contained({MonoidKind::suffix, MonoidKind::prefix},
                         monoid.getKind()))
    return "keys take the gates of others in the row";
  if (problem.folded && !problem.hasThreshold)
    return "keys enter the state one by one";
  return {};
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
    std::array<int64_t, 5> expected = expectedSizes(module);
    if (numQueries > 0)
      expected[2] = numQueries;
    if (numKeys > 0)
      expected[3] = numKeys;
    tuned = tableText;
    if (!table.empty())
      if (auto file = llvm::MemoryBuffer::getFile(table))
        tuned = (*file)->getBuffer().str();
    bool failed = false;
    module.walk([&](ReductionOpInterface op) {
      if (missing && op.getScheduleAttribute())
        return;
      // Groups have sizes of their own.
      bool isGrouped = op.getQueryOperands().front().getDefiningOp<ShareOp>();
      failed |= mlir::failed(schedule(
          op, isGrouped ? std::array<int64_t, 5>{} : expected, *target));
    });
    if (failed)
      signalPassFailure();
  }

  /// What was measured, where it was, before what a model says.
  ::attn::MeasuredSchedule choose(const ::attn::ScheduleProblem &problem,
                                  const ::attn::TargetInfo &target,
                                  const char *&how) const {
    how = "chosen";
    if (target.isCpu() || problem.gathered)
      return {::attn::chooseSizes(problem, target), 0, 0, "", "", "", 1};
    if (problem.invariant) // what was measured has key tiles of its own
      return model(problem, target);
    how = "from the tuned table";
    if (auto found = ::attn::findSchedule(tuned, problem, target))
      return *found;
    how = "from the measured table";
    if (auto found =
            ::attn::findSchedule(::attn::shippedSchedules(), problem, target))
      return *found;
    how = "chosen";
    return model(problem, target);
  }

  static ::attn::MeasuredSchedule model(const ::attn::ScheduleProblem &problem,
                                        const ::attn::TargetInfo &target) {
    ::attn::ScheduleSizes sizes = ::attn::chooseSizes(problem, target);
    ::attn::TurnsChoice choice = ::attn::chooseTurns(problem, sizes, target);
    return {sizes,
            0,
            0,
            "",
            "",
            choice.turns,
            ::attn::chooseCluster(problem, sizes, target)};
  }

  /// The text of the tuned table.
  std::string tuned;

  /// A schedule for expected sizes, and how it came about.
  struct Choice {
    ScheduleAttr schedule;
    ::attn::ScheduleProblem problem;
    ::attn::PackChoice pack;
    ::attn::SplitChoice splits;
    const char *how = "as given";
  };

  /// Sizes for masks, gradients and pages that the tables do not know.
  static void fitSizes(ReductionOpInterface op,
                       ::attn::ScheduleProblem &problem,
                       const ::attn::TargetInfo &target,
                       ::attn::ScheduleSizes &sizes) {
    leaveColumns(op, problem, target, sizes);
    fitCells(op, problem, target, sizes);
    // Gradients, which have two products for each score, were not timed.
    if (problem.listed && target.hasRoles() &&
        op.getQueryOperands().size() == 1 &&
        op.getReducedSide() == Side::keys) {
      sizes = ::attn::fitRuns(op.getMaskBody(), sizes);
      sizes = ::attn::fitNarrow(op.getMaskBody(), problem, sizes, target);
    }
    // Small blocks of warps, several of which wait for memory at once.
    if (!target.isCpu() && isDiagonal(op.getMaskBody())) {
      int64_t n = problem.depths.front() <= 128 ? 32 : 64;
      sizes = {n, ::attn::MmaShape::warp().m, n};
    }
    if (int64_t n = diagonalsOf(op), rows = ::attn::MmaShape::warp().m; n)
      sizes = {n, target.isCpu() ? std::gcd(n, sizes.rows) : rows, n};
    // Over queries half as long tiles leave fewer rows without keys in them:
    // more than the second packing costs (docs/performance/cpu.md).
    if (target.isCpu() && op.getReducedSide() == Side::queries &&
        sizes.blockQ % (2 * sizes.rows) == 0)
      sizes.blockQ /= 2;
    sizes.blockK = fitPages(op, target, sizes.blockK);
    // Two warps or more.
    if (::attn::warpsHaveKeys(sizes.rows, target) && sizes.blockK % 32) {
      problem.warpKeys = false;
      sizes = ::attn::chooseSizes(problem, target);
      sizes.blockK = fitPages(op, target, sizes.blockK);
    }
    ::attn::keepWarpRows(problem, target, sizes);
  }

  /// Slots, overlap and steps of gradients.
  static void fitGradients(ReductionOpInterface op,
                           const ::attn::ScheduleProblem &problem,
                           const ::attn::TargetInfo &target,
                           ::attn::MeasuredSchedule &measured) {
    ::attn::ScheduleSizes &sizes = measured.sizes;
    // Of gradients over queries two slots leave room for results, and that of a
    // third takes a division, for which there are no registers (measured).
    bool isGradient = !target.isCpu() && problem.depths.size() > 1 &&
                      problem.fixedWeights &&
                      op.getReducedSide() == Side::queries &&
                      sizes.rows == ::attn::MmaShape::warpgroup().m;
    // Lists of a mask name short runs of tiles: more slots of these, or a
    // second one of rows beside shorter steps, gain 4 % each (measured).
    auto isWide = [](int64_t d) { return d > 64 && d <= 128; };
    bool hasShortRuns = problem.listed && problem.depths.size() > 1 &&
                        problem.fixedWeights && hasOwnElements(op) &&
                        llvm::all_of(problem.depths, isWide);
    if (hasShortRuns && op.getReducedSide() == Side::keys &&
        sizes.blockK == 128)
      sizes.blockK = 96;
    if (!measured.stages && isGradient) {
      measured.stages = hasShortRuns && sizes.blockK == 64
                            ? 2 * ::attn::onchip::leastStages
                            : ::attn::onchip::leastStages;
      // Of few channels the products are too short to hide the next step's
      // work; beside each other they do, and longer steps wait less often.
      if (llvm::all_of(problem.depths, [](int64_t d) { return d <= 64; })) {
        measured.overlap = "own_step";
        if (op.getMaskBody().empty() && sizes.blockK == 64)
          sizes.blockK = 96;
      }
    }
  }

  Choice choose(ReductionOpInterface op, MonoidOp monoid,
                const std::array<int64_t, 5> &expected,
                const ::attn::TargetInfo &target) const {
    Choice choice;
    choice.problem = describeProblem(op, monoid, expected, target);
    ::attn::ScheduleProblem &problem = choice.problem;
    problem.cuts = cutsKeys(op, monoid, problem, target);
    ::attn::PackChoice &pack = choice.pack;
    ScheduleAttr given = op.getScheduleAttribute();
    bool isListed = problem.listed;
    if (given)
      pack = {given.getPackHeads(), "as given"};
    else if (std::string why = whyNotPacked(op); !why.empty())
      pack.reason = why;
    else if (isListed)
      pack.reason = "key tiles that a kernel before lists";
    else
      pack = ::attn::choosePackHeads(problem, target);
    if (pack.packs)
      problem = ::attn::packHeads(problem);
    if (given) {
      choice.schedule = choosePairs(op, chooseOrder(op, given, problem, target),
                                    problem, target);
      return choice;
    }
    ::attn::MeasuredSchedule measured = choose(problem, target, choice.how);
    ::attn::ScheduleSizes &sizes = measured.sizes;
    fitSizes(op, problem, target, sizes);
    // Partials have their parts, and fused reductions have all pairs.
    bool mayCut = isa<AggregateOp>(op.getOperation()) &&
                  op.getReducedSide() == Side::keys &&
                  !isa<FusedOp>(op->getParentOp());
    if (mayCut)
      choice.splits = ::attn::chooseSplits(problem, sizes, target);
    auto aggregate = dyn_cast<AggregateOp>(op.getOperation());
    IntegerAttr levels =
        aggregate ? aggregate.getCascadeLevelsAttr() : IntegerAttr();
    if (levels && choice.splits.cluster > 1)
      choice.splits = {0, "beside keys that sequences share"};
    if (choice.splits.cluster > 1 && problem.blockV)
      if (std::string why = whyNotMerged(op, monoid, target); !why.empty())
        choice.splits = {0, why};
    if (measured.splits && mayCut)
      choice.splits = {measured.splits, "as measured"};
    int64_t splits = choice.splits.splits;
    LoopShape loop = symbolizeLoopShape(measured.loop)
                         .value_or(loopShape(op, isListed, target));
    Turns turns = symbolizeTurns(measured.turns).value_or(Turns::none);
    int64_t cluster = pack.packs || op.hasOwnSizes() || splits > 1
                          ? choice.splits.cluster
                          : measured.cluster;
    // Work tiles of the same rows share copies where that gains: of latents.
    if (problem.blockV && choice.splits.cluster == 1)
      cluster = pairsLatents(op, problem, sizes, splits, target) ? 2 : 1;
    // A slot is taken until its values are multiplied: of two, scores of the
    // next one ahead of that leave none to copy to.
    if (problem.valuesInKeys && !measured.stages)
      measured.overlap = "none";
    // A work tile of one step is over before a warp of its own has fetched the
    // next one for all others (gpu-schedules.md, "The cost model").
    bool isOneStep = ::attn::hasCost(problem, target) && problem.numKeys > 0 &&
                     problem.numKeys <= sizes.blockK;
    fitGradients(op, problem, target, measured);
    ProductOverlap overlap = symbolizeProductOverlap(measured.overlap)
                                 .value_or(ProductOverlap::next_step);
    choice.schedule = ScheduleAttr::get(
        op.getContext(), sizes.blockQ, sizes.rows, sizes.blockK, splits, loop,
        measured.stages, overlap, turns, pack.packs, cluster,
        isOneStep ? Fetch::producer : Fetch::automatic, /*occupancy=*/1,
        /*order=*/std::nullopt,
        /*section=*/0, /*section_keys=*/0, problem.blockV, /*share=*/0,
        Rotate::ahead, /*pairs=*/std::nullopt);
    if (auto rung = op->getAttrOfType<RungAttr>(getRungAttrName()))
      choice.schedule =
          scheduleOfRung(rung.getValue(), op, choice.schedule, target);
    choice.schedule = chooseOrder(op, choice.schedule, problem, target);
    choice.schedule = choosePairs(op, choice.schedule, problem, target);
    if (problem.copiedPairs && op.getMaskBody().empty() && splits == 1 &&
        choice.schedule.getCluster() == 1)
      choice.schedule = choice.schedule.withCluster(
          ::attn::chooseCluster(problem, sizes, target));
    if (levels) {
      if (int64_t slots = ::attn::slotsOfOwnKeys(problem, sizes, target))
        choice.schedule = choice.schedule.withStages(slots).withOccupancy(2);
      choice.schedule = choice.schedule.withShare(levels.getInt());
    }
    return choice;
  }

  /// The schedule, where it does not say how scores come by elements of pairs,
  /// with copies of them if these fit.
  static ScheduleAttr choosePairs(ReductionOpInterface op,
                                  ScheduleAttr schedule,
                                  ::attn::ScheduleProblem &problem,
                                  const ::attn::TargetInfo &target) {
    int64_t number = findPairElements(op).size();
    if (!schedule.getPairs() && number > 0 &&
        whyNotCopied(op, schedule, target).empty() &&
        whyNoRoom(op, schedule, problem, target).empty())
      schedule = schedule.withPairs(Pairs::copied);
    if (schedule.getPairs() == Pairs::copied)
      problem.copiedPairs = number;
    return schedule;
  }

  /// The schedule with an order of work tiles, where it has none.
  ScheduleAttr chooseOrder(ReductionOpInterface op, ScheduleAttr schedule,
                           const ::attn::ScheduleProblem &problem,
                           const ::attn::TargetInfo &target) const {
    // Masks are mostly causal: the last rows have the most keys, so they start
    // first and the short tiles fill the end. Of keys the first have the most
    // queries; of listed ones the lists say which have, but where those are of
    // each query head.
    bool isOverKeys = op.getReducedSide() == Side::keys;
    bool isListedGradient =
        !target.isCpu() && problem.listed && op.getQueryOperands().size() > 1 &&
        listsSayOrder(op) != ListedOrder::none && !listsDifferByHead(op);
    bool isLongFirst =
        !schedule.getOrder() && !target.isCpu() && problem.listed &&
        isOverKeys && listsTakeManyHeads(op) &&
        ::attn::firstRowsAreLong(
            op.getMaskBody(),
            {schedule.getBlockQ(), schedule.getRows(), schedule.getBlockK()});
    // Rows of a band have as many keys, but those at its ends. Blocks of three
    // warpgroups lose by it (measured: docs/performance).
    bool isBand = problem.listed && listsBand(op);
    bool isEven = isBand && !target.isCpu() && isOverKeys &&
                  op.getQueryOperands().size() == 1 &&
                  schedule.getBlockQ() <= 2 * schedule.getRows();
    if (!schedule.getOrder() && !op.getMaskBody().empty() &&
        (isOverKeys || isListedGradient))
      schedule =
          schedule.withOrder(isLongFirst || isEven ? WorkOrder::in_order
                                                   : WorkOrder::longest_first);
    // Heads in sections that advance together: the long tiles of all of them
    // come before the short ones, and their keys stay in the last-level cache.
    // Packed sequences may have any number of keys.
    bool isUneven =
        (schedule.getOrder() == WorkOrder::longest_first || isLongFirst) &&
        !op.hasOwnSizes() && (!problem.listed || listsTakeManyHeads(op));
    int64_t heads = ::attn::mostHeadsAbreast(isUneven, isBand, target);
    if (!schedule.getSection() && heads > 1)
      schedule =
          schedule.withSection(heads, target.gpuL2Bytes / keyRowBytes(op));
    return schedule;
  }

  /// Schedules for the classes of sizes that have one of their own. Returns
  /// what there is to say of them.
  std::string dispatch(ReductionOpInterface op, MonoidOp monoid,
                       const Choice &rest,
                       const ::attn::TargetInfo &target) const {
    auto widest = [](const std::vector<int64_t> &widths) {
      return widths.empty() ? 0
                            : *std::max_element(widths.begin(), widths.end());
    };
    const ::attn::ScheduleProblem &all = rest.problem;
    bool isPlain = !all.masked || (all.copiedPairs && op.getMaskBody().empty());
    ::attn::SizeProblem problem = {
        widest(all.depths), widest(all.channels), isPlain && !all.heldQueries,
        all.narrowDots && all.narrowValues, all.valuesInKeys};
    std::vector<::attn::SizeClass> classes =
        ::attn::listSizeClasses(problem, target);
    SmallVector<ScheduleAttr> schedules;
    for (const ::attn::SizeClass &one : classes)
      schedules.push_back(choose(op, monoid, one.expected, target).schedule);
    // The last ones first: a class without a schedule of its own is left to
    // those behind it, or to no class.
    SmallVector<VariantAttr> variants;
    std::string text;
    for (size_t i = classes.size(); i-- > 0;) {
      const ::attn::SizeCondition &when = classes[i].when;
      bool isOwn = false, isTaken = false;
      for (VariantAttr other : variants) {
        ::attn::SizeCondition behind = other.getWhen().getCondition();
        if (isTaken || !behind.meets(when))
          continue;
        isOwn |= other.getSchedule() != schedules[i];
        isTaken |= behind.contains(when);
      }
      if (!isTaken)
        isOwn |= rest.schedule != schedules[i];
      if (!isOwn)
        continue;
      MLIRContext *context = op.getContext();
      auto variant =
          VariantAttr::get(context, StringAttr::get(context, classes[i].name),
                           SizesAttr::get(context, when), schedules[i]);
      variants.insert(variants.begin(), variant);
      text = llvm::formatv("class: {0} {1}: {2} (measured: {3}; {4})\n",
                           classes[i].name, variant.getWhen(), schedules[i],
                           classes[i].gain, classes[i].where)
                 .str() +
             text;
    }
    if (variants.empty())
      return "";
    op->setAttr(getDispatchAttrName(),
                DispatchAttr::get(op.getContext(), variants));
    return text + "class: any other sizes: the schedule above\n";
  }

  LogicalResult schedule(ReductionOpInterface op,
                         const std::array<int64_t, 5> &expected,
                         const ::attn::TargetInfo &target) {
    MonoidOp monoid = lookupMonoid(op, op.getMonoidRef());
    if (!monoid)
      return op->emitOpError("expected '")
             << op.getMonoidRef().getValue()
             << "' to be an attn.monoid of this module";
    // A second kernel would give marked rows, and those beside them, other
    // bits.
    if (op.isBatchInvariant() && mayKillByScore(op, monoid))
      moveDeadScoresToMask(op);
    bool given = static_cast<bool>(op.getScheduleAttribute());
    Choice choice = choose(op, monoid, expected, target);
    if (choice.schedule.partsFormCluster())
      choice.problem.mergedBlocks = choice.schedule.getCluster();
    const auto &[attr, problem, pack, splits, how] = choice;
    bool isListed = problem.listed;
    ++(given ? numGiven : numChosen);
    std::string classes;
    if (!given) {
      bool isAny = llvm::all_of(expected, [](int64_t size) { return !size; });
      if (isAny && hasClasses(op))
        classes = dispatch(op, monoid, choice, target);
    }
    bool isCut = op.getPartKeys().has_value();
    if (!problem.cuts &&
        (isCut || (op.isBatchInvariant() &&
                   attr.getSplits() == ScheduleAttr::automaticSplits)))
      return op->emitOpError("expected ")
             << (isCut ? "no part_keys" : "splits = 1")
             << " with batch_invariant, since parts of a fixed number of keys "
                "want a cocycle, no rung, and room for a second state";
    if (problem.cuts && !isCut)
      op.setPartKeys(::attn::fixedPartKeys(attr.getBlockK()));
    if (::attn::rowsAreHalf(attr.getBlockQ(), attr.getRows(), target) &&
        !::attn::mayHaveHalfRows(problem, target))
      return op->emitOpError(
          "expected rows = 16 or a larger block_q, but got "
          "block_q = 32 and rows = 32: half of the rows of a "
          "warpgroup want 128 columns of keys and of values, "
          "and a monoid whose weights warps may share");
    if (StringRef why = whyOfWarps(monoid, problem);
        given && target.hasRoles() && !why.empty() &&
        attr.getRows() == target.productShape().m)
      return op->emitOpError(
                 "expected rows = 16 or 32, which are a warp's, but "
                 "got rows = ")
             << attr.getRows() << ", which are a warpgroup's: " << why
             << ", which warps alone do";
    bool isOrderGiven = given && op.getScheduleAttribute().getOrder();
    op->removeAttr(getRungAttrName());
    op->setAttr("schedule", attr);
    ::attn::ScheduleSizes sizes = {attr.getBlockQ(), attr.getRows(),
                                   attr.getBlockK()};
    ::attn::ScheduleBudget budget =
        ::attn::computeBudget(problem, sizes, target, attr.getStages());
    if (problem.copiedPairs) {
      // The kernel that loads them has room for more of the rest.
      ::attn::ScheduleProblem rest = problem;
      rest.copiedPairs = 0;
      budget.sharedTaken =
          std::max(budget.sharedTaken,
                   ::attn::computeBudget(rest, sizes, target, attr.getStages())
                       .sharedTaken);
    }
    int64_t scratch = budget.scratchBytes();
    if (scratch > ::attn::maxScratchBytes || scratch < 0)
      return op->emitOpError("expected a schedule that keeps at most ")
             << ::attn::maxScratchBytes
             << " bytes on chip, but block_q = " << attr.getBlockQ()
             << ", rows = " << attr.getRows()
             << ", block_k = " << attr.getBlockK() << " keeps " << scratch;
    if (explain)
      op->emitRemark("schedule ")
          << how << ": " << attr << " for " << target.name << "\n"
          << budget.explain() << "\n"
          << describeSchedule(op, monoid,
                              {attr, problem, pack, splits, given, isOrderGiven,
                               StringRef(how) == "chosen"},
                              target)
          << classes
          << describeMask(op, isListed, isListed && mayListBits(op, target));
    return success();
  }
};
} // namespace
