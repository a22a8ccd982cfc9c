//===- Traffic.h - What a GPU's memory moves ---------------------*- C++
//-*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A prediction, held against the device's counters in
// docs/performance/gpu-schedules.md: blocks that run at once walk over their
// keys in step, and a tile of keys comes from memory unless it is among those
// that the cache has seen last.
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_RUN_TRAFFIC_H
#define ATTN_LIB_TOOLS_RUN_TRAFFIC_H

#include "Options.h"

#include <cstdint>

namespace attn::run {

/// What the schedule and the device say.
struct DeviceModel {
  int64_t blockQ = 0, blockK = 0;
  /// Blocks that run at once.
  int64_t blocks = 0;
  int64_t headsAbreast = 1, cacheBytes = 0;
  /// As many advance together as have so many keys, or some that have others.
  int64_t sectionKeys = 0, someHeads = 0, someKeys = 0;
  /// Blocks of a cluster.
  int64_t cluster = 1;
};

/// Bytes of keys and values that come from memory. For attention without packed
/// sequences; masks that are no interval of keys count as none.
double predictKeyTraffic(const AttentionSpec &spec, const DeviceModel &model);

/// Whether blocks that each walk over all keys are likely to lose step: where
/// the next ones come too late, keys are read again, and how many times differs
/// from run to run.
bool mayLoseStep(const AttentionSpec &spec, const DeviceModel &model);

} // namespace attn::run

#endif // ATTN_LIB_TOOLS_RUN_TRAFFIC_H
