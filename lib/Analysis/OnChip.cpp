//===- OnChip.cpp - The account of on-chip resources ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/OnChip.h"

#include <algorithm>

using namespace ::attn;

int64_t onchip::stagesThatFit(const SharedDemand &demand,
                              const TargetInfo &target) {
  int64_t stages = 0;
  while (demand.bytes(stages + 1) <= roomForTiles(target))
    ++stages;
  return stages;
}

onchip::SharedShares onchip::shareAmongRoles(const SharedDemand &demand,
                                             int64_t stages,
                                             const TargetInfo &target) {
  constexpr int64_t mostStages = 4;
  SharedShares shares;
  shares.stages = stages ? stages : leastStages;
  shares.bytes = demand.bytes(shares.stages);
  auto take = [&](int64_t bytes) {
    bool fits = shares.bytes + bytes <= roomForTiles(target);
    if (fits)
      shares.bytes += bytes;
    return fits;
  };
  shares.ramp = take(demand.ramp);
  shares.results = take(demand.results);
  if (take(demand.queries))
    shares.queryStages = 2;
  if (!stages)
    while (shares.stages < mostStages &&
           take(demand.bytes(shares.stages + 1) - demand.bytes(shares.stages)))
      ++shares.stages;
  return shares;
}

onchip::SharedShares onchip::shareAmongWarps(const SharedDemand &demand,
                                             int64_t stages,
                                             const TargetInfo &target) {
  SharedShares shares;
  while (stages > 1 && demand.bytes(stages) > roomForTiles(target))
    --stages;
  shares.stages = stages;
  shares.bytes = demand.bytes(stages);
  return shares;
}

/// The most that two warpgroups' launch leaves them with.
static constexpr int64_t mostOfShare = 240;

int64_t onchip::computeRegisters(int64_t warpgroups, const TargetInfo &target) {
  // What a launch gives a thread, roles may take from one another, and no more:
  // one that asks for more waits for ever. One warpgroup alone has more than it
  // could use already, and keeps it.
  int64_t groups = warpgroups + 1;
  int64_t share = evenShare(groups * TargetInfo::warpgroupThreads, target);
  int64_t each = (share * groups - TargetInfo::minRoleRegisters) / warpgroups /
                 TargetInfo::registerStep * TargetInfo::registerStep;
  return std::min(each, std::max(mostOfShare, share));
}

int64_t onchip::stepLimit(int64_t warpgroups, const TargetInfo &target) {
  return std::min(computeRegisters(warpgroups, target), mostOfShare);
}

int64_t onchip::producerRegisters(int64_t warpgroups,
                                  const TargetInfo &target) {
  // Warps that copy and draw need no more.
  constexpr int64_t most = 56;
  int64_t groups = warpgroups + 1;
  int64_t share = evenShare(groups * TargetInfo::warpgroupThreads, target);
  int64_t left =
      share * groups - warpgroups * computeRegisters(warpgroups, target);
  return std::clamp(left, TargetInfo::minRoleRegisters, most);
}

int64_t onchip::mostBlocks(const BlockNeeds &block, const TargetInfo &target) {
  int64_t registers = block.threads * TargetInfo::minRoleRegisters;
  return target.numRegisters / std::max(registers, block.roleRegisters);
}

int64_t onchip::occupancy(const BlockNeeds &block, int64_t asked,
                          const TargetInfo &target) {
  int64_t blocks =
      std::min(target.rates.maxBlocks, target.rates.maxThreads / block.threads);
  int64_t registers = block.roleRegisters
                          ? block.roleRegisters
                          : block.threads * target.maxThreadRegisters;
  int64_t room = target.numRegisters / registers;
  blocks = std::min(blocks, block.roleRegisters ? room : std::max(room, asked));
  while (blocks > 1 && !sharesMemory(blocks, block.sharedBytes, target))
    --blocks;
  return std::max<int64_t>(blocks, 1);
}
