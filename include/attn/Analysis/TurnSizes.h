//===- TurnSizes.h - Sizes of gradients whose blocks add in turns -*- C++
//-*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_TURNSIZES_H
#define ATTN_ANALYSIS_TURNSIZES_H

#include "attn/Target/TargetInfo.h"

namespace attn {

/// The sizes for which one kernel, whose blocks add in turns, is faster than
/// two: so many queries and tiles of keys, of all heads, at least, and query
/// heads of a key head at most.
struct TurnSizes {
  int64_t queries = 1, tiles = 1, group = 1;
};

/// Those of rows of `channels`, measured (ScheduleRules.def).
TurnSizes turnSizes(int64_t channels, bool isMasked, const TargetInfo &target);

} // namespace attn

#endif // ATTN_ANALYSIS_TURNSIZES_H
