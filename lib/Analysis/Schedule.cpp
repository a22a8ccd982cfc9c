//===- Schedule.cpp - Tile sizes from sizes and limits --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/Schedule.h"

#include <algorithm>

using namespace attn;

static int64_t roundUp(int64_t value, int64_t to) {
  return (std::max<int64_t>(value, 1) + to - 1) / to * to;
}

int64_t attn::paddedDepth(int64_t depth) { return roundUp(depth, 32); }
int64_t attn::paddedChannels(int64_t channels) { return roundUp(channels, 16); }
int64_t attn::paddedKeys(int64_t blockK) { return roundUp(blockK, 32); }

ScheduleBudget attn::computeBudget(const ScheduleProblem &problem,
                                   const ScheduleSizes &sizes,
                                   const TargetInfo &target) {
  int64_t dotBytes = problem.narrowDots ? 2 : 4;
  int64_t valueBytes = problem.narrowValues ? 2 : 4;
  int64_t blockK = paddedKeys(sizes.blockK);
  int64_t depth = 0, channels = 0;
  for (int64_t d : problem.depths)
    depth += paddedDepth(d);
  for (int64_t d : problem.channels)
    channels += paddedChannels(d);

  ScheduleBudget budget;
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

ScheduleSizes attn::chooseSizes(const ScheduleProblem &problem,
                                const TargetInfo &target) {
  constexpr int64_t minKeys = 32;
  ScheduleSizes sizes = preferredSizes(problem, target);
  // 48 -> 24 -> 12 -> 6, or 32 -> 16.
  const int64_t minRows = sizes.rows % 6 == 0 ? 6 : 16;
  // Few queries: no larger blocks than there are rows.
  if (problem.numQueries >= 0) {
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
