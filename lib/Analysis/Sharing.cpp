//===- Sharing.cpp - Whether shared prefixes are worth finding ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/Sharing.h"
#include "ScheduleRules.h"
#include "attn/Analysis/OnChip.h"

#include <unordered_map>

using namespace ::attn;
using namespace ::attn::rules;

bool attn::maySave(const SharingProblem &problem, const TargetInfo &target) {
  // Of groups as attn-share-prefixes makes them.
  int64_t ofTile = target.isCpu() ? 64 : 2 * MmaShape::warpgroup().m;
  int64_t ofGroup = problem.rows > 0 ? ofTile / problem.rows : 0;
  if (problem.sequences < 2 || ofGroup < 2)
    return false;
  int64_t groups = (problem.sequences + ofGroup - 1) / ofGroup;
  double keys = double(problem.sequences - groups) * double(problem.pages) *
                double(problem.page);
  if (target.isCpu())
    return keys >= sharedKeys;
  return keys * double(problem.keyHeads) * double(problem.keyBytes) >=
         sharedBytes;
}

bool attn::doesSave(const SharingProblem &problem, const int32_t *table,
                    int64_t sequenceStride, int64_t pageStride) {
  std::unordered_map<int32_t, const int32_t *> leaders;
  int64_t saved = 0;
  for (int64_t b = 0; b < problem.sequences && problem.pages; ++b) {
    const int32_t *row = table + b * sequenceStride;
    if (row[0] < 0)
      continue;
    auto [leader, isFirst] = leaders.try_emplace(row[0], row);
    if (isFirst)
      continue;
    int64_t same = 0;
    while (same < problem.pages && row[same * pageStride] >= 0 &&
           row[same * pageStride] == leader->second[same * pageStride])
      ++same;
    saved += same;
  }
  return saved * problem.page >= sharedKeys &&
         saved * sharedShare >= problem.sequences * problem.pages;
}

int64_t attn::slotsOfOwnKeys(const ScheduleProblem &problem,
                             const ScheduleSizes &sizes,
                             const TargetInfo &target) {
  constexpr int64_t blocks = 2, slots = 3;
  if (!warpsHaveKeys(sizes.rows, target))
    return 0;
  int64_t bytes = computeDemand(problem, sizes, target).bytes(slots) +
                  TargetInfo::ownKeysBarrierBytes;
  return onchip::sharesMemory(blocks, bytes, target) ? slots : 0;
}
