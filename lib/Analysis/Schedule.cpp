//===- Schedule.cpp - Tile sizes from sizes and limits --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/Schedule.h"
#include "ScheduleRules.h"
#include "attn/Analysis/CostModel.h"
#include "attn/Analysis/FewRows.h"
#include "attn/Analysis/TileLayout.h"
#include "attn/Analysis/TurnSizes.h"

#include <algorithm>

using namespace ::attn;
using namespace ::attn::rules;

static int64_t roundUp(int64_t value, int64_t to) {
  return (std::max<int64_t>(value, 1) + to - 1) / to * to;
}

using onchip::panelElements;

/// Keys of a tile whose weights two warpgroups share.
static constexpr int64_t keysOfTwoSlots = 128;

/// Whether each of two warpgroups takes a slot of keys. Tiles of few rows read
/// memory at its rate, and take more time so (docs/performance/gpu-serving.md).
static bool alternates(const ScheduleProblem &problem) {
  constexpr int64_t fewRows = 64;
  return problem.sharesWeights &&
         (problem.numQueries < 0 || problem.numQueries > fewRows);
}

/// Rows of 65 to 96 elements are three panels of half the width for warpgroups,
/// whose products take any multiple of 8 columns.
static int64_t rowOfPanels(int64_t elements, const TargetInfo &target) {
  constexpr int64_t half = panelElements / 2;
  bool isOdd = elements > panelElements && elements <= panelElements + half;
  return roundUp(elements, isOdd && target.hasRoles() ? half : panelElements);
}

int64_t attn::paddedDepth(int64_t depth, const TargetInfo &target) {
  return target.isCpu() ? roundUp(depth, 32) : rowOfPanels(depth, target);
}
int64_t attn::paddedChannels(int64_t channels, const TargetInfo &target) {
  return target.isCpu() ? roundUp(channels, 16) : rowOfPanels(channels, target);
}
int64_t attn::paddedKeys(int64_t blockK, const TargetInfo &target) {
  return roundUp(blockK, target.isCpu() ? 32 : target.mmaShapes.front().k);
}

bool attn::weighsInPlace(const ScheduleProblem &problem) {
  return std::any_of(
      problem.channels.begin(), problem.channels.end(), [&](int64_t channels) {
        return onchip::weighsInPlace(problem.depths.size(),
                                     !problem.fixedWeights, channels);
      });
}

onchip::SharedDemand attn::computeDemand(const ScheduleProblem &problem,
                                         const ScheduleSizes &sizes,
                                         const TargetInfo &target) {
  int64_t dotBytes = problem.narrowDots ? 2 : 4;
  int64_t valueBytes = problem.narrowValues ? 2 : 4;
  int64_t blockK = paddedKeys(sizes.blockK, target), depth = 0, channels = 0;
  for (int64_t d : problem.depths)
    depth += paddedDepth(d, target);
  for (int64_t d : problem.channels)
    channels += paddedChannels(d, target);
  onchip::SharedDemand demand;
  demand.queries = sizes.blockQ * depth * dotBytes;
  if (warpsHaveKeys(sizes.rows, target)) {
    // Warps load the queries for themselves, and exchange their states.
    demand.queries = 0;
    int64_t keyWarps = blockK / MmaShape::warp().m;
    demand.exchange =
        keyWarps * sizes.rows * (channels + problem.rowScalars) * sizeof(float);
    // Those of a cluster's blocks, sixteen channels at a time.
    constexpr int64_t sixteen = 16;
    if (problem.mergedBlocks > 1)
      demand.exchange += roundUp(channels / sixteen, problem.mergedBlocks) *
                         sizes.rows * (sixteen + problem.rowScalars) *
                         int64_t(sizeof(float));
  }
  if (rowsAreColumns(sizes.rows, problem.blockV, target))
    demand.exchange = sizes.rows * blockK * valueBytes;
  if (rowsAreColumns(sizes.rows, problem.blockV, target) &&
      problem.mergedBlocks > 1)
    // Of each block what one of them combines.
    demand.exchange += sizes.rows *
                       (channels * problem.sharers +
                        problem.mergedBlocks * problem.rowScalars) *
                       int64_t(sizeof(float));
  // Two halves of a tile have slots of their own.
  int64_t slotKeys =
      problem.sharesWeights && blockK == keysOfTwoSlots ? blockK / 2 : blockK;
  demand.step = slotKeys * depth * dotBytes;
  if (!problem.valuesInKeys)
    demand.step += blockK *
                   (channels * problem.sharers - problem.sharedChannels) *
                   valueBytes;
  constexpr int64_t pairBytes = 2;
  demand.step += problem.copiedPairs * sizes.blockQ * blockK * pairBytes;
  if (problem.folded && !problem.hasThreshold)
    // The scores of each pair, and which of them are live.
    demand.exchange =
        sizes.blockQ * blockK * 4 * int64_t(problem.depths.size() + 1);
  // Rows of warpgroups are folded by one lane each.
  if (problem.hasThreshold && sizes.rows == MmaShape::warpgroup().m &&
      blockK <= onchip::mostFolded)
    demand.exchange = sizes.blockQ *
                      onchip::foldColumns(blockK, problem.rowScalars) *
                      int64_t(sizeof(float));
  // Which keys have a live element, exchanged between the warps.
  if (sizes.rows != MmaShape::warpgroup().m && !problem.wholeTiles)
    demand.exchange += roundUp(std::max<int64_t>(sizes.blockQ / sizes.rows, 1) *
                                   problem.sharers * blockK * 4,
                               1024);
  return demand;
}

ScheduleBudget attn::computeBudget(const ScheduleProblem &problem,
                                   const ScheduleSizes &sizes,
                                   const TargetInfo &target, int64_t stages) {
  int64_t dotBytes = problem.narrowDots ? 2 : 4;
  int64_t valueBytes = problem.narrowValues ? 2 : 4;
  int64_t blockK = paddedKeys(sizes.blockK, target);
  int64_t depth = 0, channels = 0;
  for (int64_t d : problem.depths)
    depth += paddedDepth(d, target);
  for (int64_t d : problem.channels)
    channels += paddedChannels(d, target);

  ScheduleBudget budget;
  if (!target.isCpu()) {
    // One warpgroup has all channels where rows are columns of its products.
    bool areColumns = rowsAreColumns(sizes.rows, problem.blockV, target);
    if (areColumns)
      channels *= problem.sharers;
    bool areHalf = rowsAreHalf(sizes.blockQ, sizes.rows, target);
    MmaShape unit =
        sizes.rows == MmaShape::warpgroup().m || areColumns || areHalf
            ? MmaShape::warpgroup()
            : MmaShape::warp();
    // Products have registers for all rows.
    int64_t rows = areHalf ? unit.m : sizes.rows;
    int64_t members = std::max<int64_t>(sizes.blockQ / sizes.rows, 1) *
                      (areColumns ? 1 : problem.sharers);
    auto registers = [&](int64_t cols, int64_t bytes) {
      return onchip::fragmentRegisters(rows, cols, bytes * 8, unit.threads);
    };
    onchip::StepRegisters held;
    held.sums = registers(channels, 4) * (problem.cuts ? 2 : 1);
    // Eight rows of a tile are spread over the threads of a warp.
    constexpr int64_t rowsAbreast = 8;
    if (problem.hasThreshold)
      held.sums += problem.rowScalars * sizes.rows * MmaShape::warp().threads /
                   (rowsAbreast * unit.threads);
    // A thread of a warpgroup has elements of two rows.
    constexpr int64_t rowsOfThread = 2;
    if (unit.asynchronous)
      held.sums += problem.rowDivisors * rowsOfThread;
    int64_t dots = problem.depths.size();
    bool inPlace = unit.asynchronous && weighsInPlace(problem);
    if (problem.sharesWeights && !areColumns)
      blockK /= 2;
    held.scores = registers(blockK, 4) *
                  (inPlace ? std::max(dots, 1 + problem.extraScores)
                           : dots + problem.extraScores);
    // Weights are rounded to tf32 where they are; in place, one after another.
    // A key that a threshold lets in has none: it waits in a slot, a number and
    // a score for each of as many columns as are looked at together.
    if (problem.hasThreshold)
      held.weights = 2 * registers(onchip::slotColumns, 4);
    else if (!problem.tf32)
      held.weights =
          registers(blockK, valueBytes) * (inPlace ? problem.extraScores : 1);
    if (problem.listedBits && unit.asynchronous)
      held.bits = onchip::bitRegisters(blockK);
    budget.gpu = true;
    if (problem.readsPairs && unit.asynchronous)
      held.samples = onchip::pairRegisters(blockK);
    budget.registers = held.total(target);
    budget.registerLimit = unit.asynchronous
                               ? onchip::stepLimit(members, target)
                               : target.maxThreadRegisters;

    onchip::SharedDemand demand = computeDemand(problem, sizes, target);
    bool hasRoles = unit.asynchronous || warpsHaveKeys(sizes.rows, target);
    budget.stages =
        hasRoles ? onchip::leastStages : onchip::copyStages(members);
    budget.shared = demand.bytes(budget.stages);
    budget.sharedLimit = onchip::roomForTiles(target);
    if (!hasRoles) {
      int64_t wanted = stages ? stages : budget.stages;
      budget.sharedTaken =
          onchip::shareAmongWarps(demand, wanted, target).bytes;
      return budget;
    }
    // Results may be staged, or leave more room for slots.
    for (int64_t results :
         {int64_t(0), sizes.blockQ * channels * problem.sharers * 2}) {
      demand.results = results;
      budget.sharedTaken =
          std::max(budget.sharedTaken,
                   onchip::shareAmongRoles(demand, stages, target).bytes);
    }
    return budget;
  }
  budget.queryBlock = sizes.rows * depth * dotBytes;
  budget.scores = sizes.rows * blockK * 4 * int64_t(problem.depths.size());
  budget.weights = problem.narrowValues ? sizes.rows * blockK * 2 : 0;
  budget.queries = sizes.blockQ * depth * dotBytes;
  budget.keys = blockK * depth * dotBytes;
  budget.values = blockK * channels * valueBytes;
  budget.states = sizes.blockQ * (channels + problem.rowScalars) * 4;
  budget.l1Limit = target.l1Bytes;
  budget.l2Limit = target.l2Bytes;
  return budget;
}

std::string ScheduleBudget::explain() const {
  if (gpu)
    return "registers: " + std::to_string(registers) + " of " +
           std::to_string(registerLimit) +
           " of a thread (sums, scores, weights, reserve)\nshared memory: " +
           std::to_string(shared) + " of " + std::to_string(sharedLimit) +
           " bytes (queries, " + (stages == 1 ? "one stage" : "two stages") +
           " of keys and values; at most " + std::to_string(sharedTaken) +
           " with results and more slots)";
  auto line = [](const char *name, int64_t need, int64_t limit) {
    return std::string(name) + ": " + std::to_string(need) + " of " +
           std::to_string(limit) + " bytes";
  };
  return line("L1", l1Bytes(), l1Limit) + " (scores; beside them query rows " +
         std::to_string(queryBlock) + ", weights " + std::to_string(weights) +
         ")\n" + line("L2", l2Bytes(), l2Limit) + " (queries " +
         std::to_string(queries) + ", keys " + std::to_string(keys) +
         ", values " + std::to_string(values) + ", states " +
         std::to_string(states) + ")";
}

/// Where the search starts, as measured for each micro kernel.
static ScheduleSizes preferredSizes(const ScheduleProblem &problem,
                                    const TargetInfo &target) {
  if (problem.narrowDots && target.hasAmxBf16)
    return {512, 32, 256};
  if (target.vectorBits >= 512)
    return {384, 48, 128};
  return {192, 48, 128};
}

/// Tiles of warps. Two blocks of four warps share a multiprocessor: one's
/// products run beside the other's softmax, and 32 rows of a warp read keys and
/// values half as often as 16 do.
static ScheduleSizes chooseWarpSizes(const ScheduleProblem &problem,
                                     int64_t widest, const TargetInfo &target) {
  const int64_t minKeys = target.mmaShapes.front().k;
  ScheduleSizes sizes = {128, 32,
                         problem.hasThreshold ? warpThresholdKeys : 128};
  bool many = problem.numQueries < 0 || problem.numQueries > sizes.blockQ / 2;
  if (problem.tf32) {
    auto fits = [&] { return computeBudget(problem, sizes, target).fits(); };
    // Eight warps of 32 rows share a tile of keys, which is as long as they
    // have registers for (measured: docs/performance, "The cost model").
    sizes = {256, 32, 64};
    if (many && !problem.heldQueries && fits() &&
        (widest <= panelElements || !problem.masked))
      return sizes;
    sizes = {128, 32, 32};
    if (problem.heldQueries && widest > panelElements)
      return {128, 16, 32};
    if (many && widest > panelElements) {
      sizes.blockQ = 256;
      if (fits())
        return sizes;
      sizes.blockQ = 128;
    }
    if (many && fits())
      return sizes;
    return {128, 16, 32};
  }
  if (many && problem.narrowDots && problem.narrowValues)
    for (; sizes.blockK >= 2 * minKeys; sizes.blockK -= minKeys) {
      ScheduleBudget budget = computeBudget(problem, sizes, target);
      if (budget.fits() && onchip::sharesMemory(2, budget.shared, target))
        return sizes;
    }
  return {128, 16, problem.hasThreshold ? warpThresholdKeys : 64};
}

int64_t attn::blocksAtOnce(int64_t rows, const TargetInfo &target) {
  return blocksAtOnce(rows, /*blockV=*/0, target);
}
int64_t attn::blocksAtOnce(int64_t rows, int64_t blockV,
                           const TargetInfo &target) {
  // A warp has fewer copies under way than the producer of a warpgroup.
  bool hasProducer = rows == MmaShape::warpgroup().m ||
                     (target.hasRoles() && rows == halfRows) ||
                     warpsHaveKeys(rows, target) ||
                     rowsAreColumns(rows, blockV, target);
  int64_t each = hasProducer ? 1 : warpsOfParts;
  return std::max<int64_t>(target.numMultiprocessors, 1) * each;
}
bool attn::warpsHaveKeys(int64_t rows, const TargetInfo &target) {
  return target.hasRoles() && rows == MmaShape::warp().nMax;
}
bool attn::rowsAreHalf(int64_t blockQ, int64_t rows, const TargetInfo &target) {
  return target.hasRoles() && rows == halfRows && blockQ == halfRows;
}
bool attn::rowsAreColumns(int64_t rows, int64_t blockV,
                          const TargetInfo &target) {
  return target.hasRoles() && rows == MmaShape::warp().m &&
         blockV > MmaShape::warpgroup().nMax;
}
bool attn::keysAreTwoSlots(int64_t rows, int64_t blockK, int64_t blockV,
                           const TargetInfo &target) {
  return target.hasRoles() && rows == MmaShape::warpgroup().m &&
         blockK == keysOfTwoSlots && blockV > MmaShape::warpgroup().nMax;
}
int64_t attn::leastPartKeys(const TargetInfo &target) {
  return target.isCpu() ? partKeys : gpuPartKeys;
}

int64_t attn::mostHeadsAbreast(bool isUneven, bool isBand,
                               const TargetInfo &target) {
  if (target.headsAbreast <= 1)
    return target.headsAbreast;
  // Short tiles of many heads fill the end behind the long ones; the next tile
  // of a head has most keys of a band's tile.
  return isUneven ? unevenHeads : isBand ? bandHeads : target.headsAbreast;
}

int64_t attn::mostTilesWithoutOrder(const TargetInfo &target) {
  return orderedRounds * target.numMultiprocessors;
}

int64_t attn::mostKeysWithoutOrder() { return unorderedKeys; }

TurnSizes attn::turnSizes(int64_t channels, bool isMasked, bool isBand,
                          const TargetInfo &target) {
  bool isWide = channels > panelElements;
  int64_t rounds = !isMasked ? turnRounds
                   : isWide  ? wideMaskedTurnRounds
                             : maskedTurnRounds;
  return {isWide ? wideTurnQueries : turnQueries,
          rounds * target.numMultiprocessors,
          isWide && isMasked ? wideMaskedTurnGroup : INT32_MAX,
          isWide && isBand ? wideBandQueries : 1};
}

int64_t attn::fixedPartKeys(int64_t blockK) {
  return roundUp(fixedPart, std::max<int64_t>(blockK, 1));
}

bool attn::holdsTwoStates(const ScheduleProblem &problem,
                          const TargetInfo &target) {
  if (target.isCpu())
    return true;
  ScheduleProblem any = problem;
  any.cuts = true;
  any.numQueries = any.numKeys = any.numHeads = any.group = -1;
  ScheduleSizes sizes = chooseSizes(any, target);
  constexpr int64_t leastTile = 48;
  return sizes.blockK >= leastTile && computeBudget(any, sizes, target).fits();
}

static const char *const whyInOnePart = "parts depend on the number of keys";

static SplitChoice chooseGpuSplits(const ScheduleProblem &problem,
                                   const ScheduleSizes &sizes,
                                   const TargetInfo &target) {
  if (problem.invariant && !problem.cuts)
    return {1, whyInOnePart};
  if (problem.packed)
    return {1, "the lengths of packed sequences are not known"};
  if (problem.listed)
    return {1, "a kernel before lists the key tiles, of all parts"};
  if (problem.numHeads < 0 || problem.numQueries < 0 || problem.numKeys < 0)
    return {1, "the numbers of heads, rows and keys are not all known"};
  // States of many rows are as long as the keys of a part; those of heads whose
  // channels are shared among work tiles are short beside the keys.
  int64_t most = std::min(sizes.blockQ, MmaShape::warpgroup().m);
  int64_t slices = 1, tiles = 1;
  if (problem.blockV) {
    most *= 2;
    slices = problem.slices;
    tiles = std::max<int64_t>(
        (problem.numQueries + sizes.blockQ - 1) / sizes.blockQ, 1);
  }
  if (problem.numQueries > most)
    return {1, "more than " + std::to_string(most) + " rows of a head"};
  int64_t blocks = problem.numHeads * tiles * slices;
  std::string have = std::to_string(blocks) + " blocks of rows";
  int64_t atOnce = blocksAtOnce(sizes.rows, problem.blockV, target);
  if (blocks == 0 || blocks * 2 > atOnce)
    return {1, have + ", of " + std::to_string(atOnce) + " at once"};
  int64_t least = blocks * 4 > atOnce ? gpuManyKeys : gpuSplitKeys;
  // A second kernel takes a time, in which as many more wide keys are read.
  if (problem.cuts)
    least = std::max(least, 2 * fixedPart);
  if (problem.valuesInKeys)
    least = least * gpuKeyColumns / paddedDepth(problem.depths.front(), target);
  if (problem.numKeys < least)
    return {1, have + ", of " + std::to_string(atOnce) +
                   " at once, but fewer keys than " + std::to_string(least)};
  return {0, have + ", of " + std::to_string(atOnce) +
                 (problem.cuts ? " at once; a block for each part"
                               : " at once; parts of at least " +
                                     std::to_string(gpuPartKeys) + " keys")};
}

bool attn::takesWarpgroups(const ScheduleProblem &problem,
                           const TargetInfo &target) {
  // Tensor copies take rows at multiples of 16 bytes, which dense rows of
  // another number of elements are not.
  auto isCopied = [](int64_t width) { return width % 8 == 0; };
  return !target.isCpu() && target.hasRoles() && problem.narrowDots &&
         problem.narrowValues && problem.wholeTiles && !problem.gathered &&
         std::all_of(problem.depths.begin(), problem.depths.end(), isCopied) &&
         std::all_of(problem.channels.begin(), problem.channels.end(),
                     isCopied);
}

bool attn::hasGroupTiles(const ScheduleProblem &problem,
                         const TargetInfo &target) {
  int64_t widest = 0, sums = 0;
  for (int64_t d : problem.channels) {
    widest = std::max(widest, paddedChannels(d, target));
    sums += paddedChannels(d, target);
  }
  const MmaShape &unit = target.productShape();
  bool holdsSums = onchip::fragmentRegisters(unit.m, sums, 32, unit.threads) +
                       target.registerReserve <=
                   onchip::stepLimit(/*warpgroups=*/1, target);
  return takesWarpgroups(problem, target) && widest <= unit.nMax && holdsSums;
}

bool attn::mayHaveHalfRows(const ScheduleProblem &problem,
                           const TargetInfo &target) {
  const std::vector<int64_t> columns = {columnsOfHalves};
  return problem.warpKeys && hasGroupTiles(problem, target) &&
         problem.depths == columns && problem.channels == columns;
}

void attn::keepWarpRows(const ScheduleProblem &problem,
                        const TargetInfo &target, ScheduleSizes &sizes) {
  if (rowsAreHalf(sizes.blockQ, sizes.rows, target) &&
      !mayHaveHalfRows(problem, target))
    sizes.rows = MmaShape::warp().m;
}

/// Tiles of a warpgroup where the matrix unit of warpgroups can take the dots
/// and the values (measured: docs/performance), else tiles of warps.
static ScheduleSizes chooseGpuSizes(const ScheduleProblem &problem,
                                    const TargetInfo &target) {
  int64_t widest = 0;
  for (int64_t d : problem.depths)
    widest = std::max(widest, paddedDepth(d, target));
  for (int64_t d : problem.channels)
    widest = std::max(widest, paddedChannels(d, target));
  bool warpgroups = hasGroupTiles(problem, target);
  ScheduleSizes sizes;
  // Rows that are columns of a warp's products, none of them padding.
  if (const MmaShape unit = MmaShape::warp(); problem.warpKeys && warpgroups &&
                                              problem.numQueries > 0 &&
                                              problem.numQueries <= unit.nMax)
    return {unit.nMax, unit.nMax, keysOfFewRows};
  if (!warpgroups)
    sizes = chooseWarpSizes(problem, widest, target);
  // Each warp of a warpgroup has half of its rows, and no work for the others.
  else if (problem.numQueries > MmaShape::warp().m &&
           problem.numQueries <= halfRows && mayHaveHalfRows(problem, target))
    sizes = {halfRows, halfRows, keysOfOneGroup};
  else if (constexpr int64_t few = MmaShape::warp().m;
           problem.sharesWeights && problem.numQueries > 0 &&
           problem.numQueries <= few)
    sizes = {few, few, 64};
  else if (problem.sharers > 1)
    sizes = {64, 64, alternates(problem) ? keysOfTwoSlots : 64};
  else if (problem.hasThreshold)
    sizes = {192, 64, thresholdKeys};
  // What a block reads is for all rows of its group.
  else if (ScheduleSizes pair = {2 * MmaShape::warpgroup().m,
                                 MmaShape::warpgroup().m, keysOfGroups};
           problem.grouped && computeBudget(problem, pair, target).fits())
    sizes = pair;
  // Without values a third warpgroup has registers, and fills what two leave
  // idle that wait for their products.
  else if (ScheduleSizes more = {192, 64, 160};
           problem.channels.empty() &&
           computeBudget(problem, more, target).fits())
    sizes = more;
  else if (hasCost(problem, target))
    sizes = chooseCheapest(problem, target);
  else
    sizes =
        widest > 64 ? ScheduleSizes{128, 64, 128} : ScheduleSizes{192, 64, 128};
  // Longer tiles leave no room for a second slot of queries and for results:
  // they pay where blocks share their copies (measured: docs/performance).
  if (ScheduleSizes longer = {128, 64, 192};
      warpgroups && widest > panelElements && widest <= 2 * panelElements &&
      sizes.blockQ == longer.blockQ &&
      chooseCluster(problem, longer, target) > 1 &&
      computeBudget(problem, longer, target).fits())
    sizes = longer;
  if (warpgroups && widest > panelElements && widest < 2 * panelElements &&
      !problem.masked && problem.numKeys < manyKeys)
    sizes.blockK = std::min(sizes.blockK, keysOfHalfPanels);
  if (warpgroups && widest > panelElements && widest <= 2 * panelElements &&
      problem.biasedDiagonal)
    sizes.blockK = biasedDiagonalKeys;
  // Rows end in a tile as long as the block.
  if (warpgroups && widest > panelElements && widest <= 2 * panelElements &&
      problem.diagonal)
    sizes.blockK = std::min<int64_t>(sizes.blockK, diagonalKeys);
  if (problem.numQueries >= 0)
    sizes.blockQ =
        std::min(sizes.blockQ, roundUp(problem.numQueries, sizes.rows));
  // Parts of the keys are short.
  if (warpgroups && !alternates(problem) &&
      chooseGpuSplits(problem, sizes, target).splits == 0)
    sizes.blockK = std::min<int64_t>(sizes.blockK, 64);
  // Fewer keys leave more room for sums; fewer rows for keys.
  const int64_t minKeys = target.mmaShapes.front().k;
  auto fits = [&] { return computeBudget(problem, sizes, target).fits(); };
  while (!fits() && sizes.blockK > 4 * minKeys)
    sizes.blockK -= minKeys;
  // One warpgroup has hardly more registers for its rows than two.
  auto holdsMore = [&] {
    ScheduleSizes least = sizes;
    least.blockK = std::min(least.blockK, 2 * minKeys);
    return !warpgroups || sizes.blockQ > 2 * sizes.rows ||
           !computeBudget(problem, least, target).fits();
  };
  while (!fits() && sizes.blockQ > sizes.rows && holdsMore())
    sizes.blockQ -= sizes.rows;
  while (!fits() && sizes.blockK > minKeys)
    sizes.blockK -= minKeys;
  keepWarpRows(problem, target, sizes);
  return sizes;
}

/// Key tiles, and the unit that multiplies them, as for any sizes; of these
/// only the number of rows follows the problem's. What a row goes through does
/// not depend on the rows beside it, but for AMX: its products add up in an
/// order of their own, and take whole tiles of 16 rows.
static ScheduleSizes chooseInvariantSizes(ScheduleProblem problem,
                                          const TargetInfo &target) {
  problem.invariant = false;
  ScheduleProblem any = problem;
  any.numQueries = any.numKeys = any.numHeads = any.group = -1;
  ScheduleSizes sizes = chooseSizes(any, target);
  if (problem.numQueries < 0)
    return sizes;
  if (!target.isCpu()) {
    sizes.blockQ =
        std::min(sizes.blockQ, roundUp(problem.numQueries, sizes.rows));
    if (rowsAreHalf(sizes.blockQ, sizes.rows, target))
      sizes.blockQ *= 2;
    return sizes;
  }
  ScheduleSizes own = chooseSizes(problem, target);
  if (problem.narrowDots && target.hasAmxBf16)
    own.rows = roundUp(own.rows, TargetInfo::amxRows);
  return {roundUp(own.blockQ, own.rows), own.rows, sizes.blockK};
}

ScheduleSizes attn::chooseSizes(const ScheduleProblem &problem,
                                const TargetInfo &target) {
  if (problem.invariant)
    return chooseInvariantSizes(problem, target);
  if (!target.isCpu())
    return chooseGpuSizes(problem, target);
  constexpr int64_t minKeys = 32;
  ScheduleSizes sizes = preferredSizes(problem, target);
  // 48 -> 24 -> 12 -> 6, or 32 -> 16.
  const int64_t minRows = sizes.rows % 6 == 0 ? 6 : 16;
  // Rows of a decode step: the keys are read once and multiplied at the speed
  // of memory, so rows that a micro kernel would pad cost more than it gains.
  bool amx = problem.narrowDots && target.hasAmxBf16;
  if (problem.numQueries >= 0 && problem.numQueries <= (amx ? 2 : minRows - 1))
    sizes.rows = sizes.blockQ = std::max<int64_t>(problem.numQueries, 1);
  // Few queries: no larger blocks than there are rows.
  else if (problem.numQueries >= 0) {
    while (sizes.rows > minRows && sizes.rows / 2 >= problem.numQueries)
      sizes.rows /= 2;
    sizes.blockQ =
        std::min(sizes.blockQ, roundUp(problem.numQueries, sizes.rows));
  }
  if (problem.numKeys >= 0)
    sizes.blockK = std::min(sizes.blockK, roundUp(problem.numKeys, minKeys));

  auto budget = [&] { return computeBudget(problem, sizes, target); };
  // 64 rows are enough to hide the loads of a key tile.
  while (budget().l2Bytes() > target.l2Bytes &&
         sizes.blockQ > std::max<int64_t>(64, sizes.rows))
    sizes.blockQ = std::max(roundUp(sizes.blockQ / 2, sizes.rows), sizes.rows);
  while (!budget().fits() && sizes.blockK > minKeys)
    sizes.blockK = std::max(roundUp(sizes.blockK / 2, minKeys), minKeys);
  while (budget().l1Bytes() > target.l1Bytes && sizes.rows > minRows)
    sizes.rows /= 2;
  while (budget().l2Bytes() > target.l2Bytes && sizes.blockQ > sizes.rows)
    sizes.blockQ = std::max(roundUp(sizes.blockQ / 2, sizes.rows), sizes.rows);
  sizes.blockQ = roundUp(sizes.blockQ, sizes.rows);
  return sizes;
}

int64_t attn::chooseCluster(const ScheduleProblem &problem,
                            const ScheduleSizes &sizes,
                            const TargetInfo &target) {
  constexpr int64_t pair = 2;
  // What pairs have comes beside keys and values, of which half are saved
  // (measured: docs/performance).
  bool copiesPairs = problem.copiedPairs > 0;
  if (target.maxCluster < pair || !target.hasRoles() ||
      sizes.rows != MmaShape::warpgroup().m || sizes.blockQ < 2 * sizes.rows ||
      !problem.narrowDots || !problem.narrowValues || !problem.wholeTiles ||
      (problem.masked && !copiesPairs) || problem.listed || problem.packed ||
      problem.heldQueries)
    return 1;
  // Each block copies as many panels. What is saved is power, with which clocks
  // rise; what is lost is time, for blocks wait for each other, the less the
  // longer a tile of keys takes (measured: docs/performance).
  auto isEven = [](int64_t width) {
    return width % (pair * panelElements) == 0;
  };
  auto isLong = [&](int64_t width) {
    return sizes.blockK * width > sharedElements;
  };
  auto isWide = [](int64_t width) { return width > pair * panelElements; };
  auto all = [](const std::vector<int64_t> &widths, auto &&condition) {
    return std::all_of(widths.begin(), widths.end(), condition);
  };
  const std::vector<int64_t> &widths = problem.depths,
                             &channels = problem.channels;
  // Or keys of one panel more than values, 192 beside 128.
  auto isOneMore = [](int64_t width) {
    return width == (pair + 1) * panelElements;
  };
  bool isAlike = widths == channels && all(widths, isEven);
  bool isMore = all(widths, isOneMore) && all(channels, [](int64_t width) {
                  return width == pair * panelElements;
                });
  if ((!isAlike && !isMore) || (!copiesPairs && !all(widths, isLong)))
    return 1;
  int64_t least = isAlike && all(widths, isWide) ? manySharedWide : manyShared;
  if (std::min(problem.numQueries, problem.numKeys) < least)
    return 1;
  // A tile without a partner has an empty one.
  int64_t tiles = (problem.numQueries + sizes.blockQ - 1) / sizes.blockQ;
  return tiles % pair == 0 || tiles >= rules::mostOddTiles ? pair : 1;
}

ScheduleProblem attn::packHeads(ScheduleProblem problem) {
  if (problem.group > 1 && problem.numQueries >= 0)
    problem.numQueries *= problem.group;
  if (problem.group > 1 && problem.numHeads >= 0)
    problem.numHeads /= problem.group;
  return problem;
}

PackChoice attn::choosePackHeads(const ScheduleProblem &problem,
                                 const TargetInfo &target) {
  // More rows fill tiles of their own.
  if (problem.group < 0 || problem.numQueries < 0 || problem.numHeads < 0)
    return {false, "the numbers of heads and rows are not all known"};
  if (problem.group <= 1)
    return {false, "each has keys of its own"};
  if (problem.numQueries > packedRows)
    return {false, "more than " + std::to_string(packedRows) + " rows of each"};
  auto blocks = [&](const ScheduleProblem &of) {
    ScheduleSizes sizes = chooseSizes(of, target);
    int64_t tiles = (of.numQueries + sizes.blockQ - 1) / sizes.blockQ;
    return of.numHeads * tiles *
           std::max<int64_t>(chooseSplits(of, sizes, target).splits, 1);
  };
  ScheduleProblem packed = packHeads(problem);
  int64_t some = blocks(packed), all = blocks(problem);
  std::string text =
      std::to_string(some) + " blocks in the place of " + std::to_string(all);
  // A block waits for its keys: few rows take about as long as one, so fewer
  // blocks are no loss. Of more rows, cores have to stay as busy as they were.
  if (target.isCpu())
    return {packed.numQueries <= fewPackedRows ||
                some >= std::min(all, wantedBlocks),
            text};
  // Parts fill the device: what is saved is that each head reads the keys.
  if (chooseSplits(packed, chooseSizes(packed, target), target).splits != 1)
    return {true, "each key is read once, in parts"};
  // Blocks that run at once read the keys of a head about once, however many
  // there are: what is saved is rounds.
  auto rounds = [&](int64_t blocks) {
    int64_t atOnce = std::max<int64_t>(target.numMultiprocessors, 1);
    return (blocks + atOnce - 1) / atOnce;
  };
  return {rounds(some) < rounds(all), text};
}

/// Parts whose states the blocks of a cluster combine, where that was measured
/// to be faster than a kernel behind; else 1.
static int64_t chooseClusterParts(const ScheduleProblem &problem,
                                  const ScheduleSizes &sizes,
                                  const TargetInfo &target) {
  const std::vector<int64_t> columns = {columnsOfClusters};
  int64_t blocks = problem.numHeads, keys = problem.numKeys;
  int64_t atOnce = blocksAtOnce(sizes.rows, problem.blockV, target);
  constexpr int64_t pair = 2;
  if (rowsAreColumns(sizes.rows, problem.blockV, target))
    return target.maxCluster >= pair && problem.numQueries <= sizes.rows &&
                   keys >= gpuManyWideKeys &&
                   atOnce / std::max<int64_t>(blocks, 1) == pair
               ? pair
               : 1;
  if (!warpsHaveKeys(sizes.rows, target) || !problem.warpKeys ||
      target.maxCluster < 4 || problem.depths != columns ||
      problem.channels != columns || problem.numQueries > sizes.rows ||
      keys < leastKeysOfCluster)
    return 1;
  if (blocks == 8 && keys <= mostKeysOfFours)
    return 4;
  // Clusters of two lie on all multiprocessors alike.
  if (blocks >= 32 && blocks * 4 <= atOnce && keys <= mostKeysOfPairs)
    return pair;
  return 1;
}

SplitChoice attn::chooseSplits(const ScheduleProblem &problem,
                               const ScheduleSizes &sizes,
                               const TargetInfo &target) {
  if (!target.isCpu()) {
    if (int64_t parts = chooseClusterParts(problem, sizes, target); parts > 1)
      return {parts,
              std::to_string(problem.numHeads) +
                  " blocks of rows; the blocks of a cluster combine the parts",
              parts};
    return chooseGpuSplits(problem, sizes, target);
  }
  if (problem.invariant && !problem.cuts)
    return {1, whyInOnePart};
  // Parts as long as this cost less than 2 % more for their states: a state is
  // written once and read once, in f32.
  int64_t rows =
      std::min(sizes.blockQ, std::max<int64_t>(problem.numQueries, 1));
  int64_t leastKeys = std::max<int64_t>(partKeys, partKeysOfRow * rows);
  if (problem.numHeads < 0 || problem.numQueries < 0 || problem.numKeys < 0)
    return {1, "the numbers of heads, rows and keys are not all known"};
  int64_t blocks = problem.numHeads *
                   ((problem.numQueries + sizes.blockQ - 1) / sizes.blockQ);
  std::string have = std::to_string(blocks) + " blocks of rows";
  if (blocks == 0 || blocks >= wantedBlocks)
    return {1, have + ", which are enough"};
  if (problem.cuts) {
    if (problem.numKeys < 2 * fixedPart)
      return {1, have + ", but fewer keys than two parts have"};
    return {0, have + ", fewer than " + std::to_string(wantedBlocks) +
                   "; a work tile for each part"};
  }
  int64_t splits = std::min(wantedBlocks / std::max<int64_t>(blocks, 1),
                            problem.numKeys / leastKeys);
  std::string least = std::to_string(leastKeys) + " keys";
  if (splits <= 1)
    return {1, have + ", but fewer keys than two parts of " + least};
  return {splits, have + ", fewer than " + std::to_string(wantedBlocks) +
                      "; parts of at least " + least};
}

namespace {
/// A kind of attention that turns were measured to make faster by 1 % or more.
struct MeasuredTurns {
  int64_t depth;
  bool ScheduleProblem::*kind;
  TurnsChoice choice;
};
} // namespace

static const MeasuredTurns measuredTurns[] = {
#define SCHEDULE_TURNS(DEPTH, KIND, TURNS, RATE, WHERE)                        \
  {DEPTH, &ScheduleProblem::KIND, {TURNS, RATE}},
#include "ScheduleRules.def"
};

TurnsChoice attn::chooseTurns(const ScheduleProblem &problem,
                              const ScheduleSizes &sizes,
                              const TargetInfo &target) {
  if (target.isCpu() || !problem.narrowDots || !problem.narrowValues ||
      sizes.rows != MmaShape::warpgroup().m || sizes.blockQ < 2 * sizes.rows)
    return {};
  for (const MeasuredTurns &measured : measuredTurns) {
    std::vector<int64_t> depth = {measured.depth};
    if (problem.*measured.kind && problem.depths == depth &&
        problem.channels == depth)
      return measured.choice;
  }
  return {};
}
