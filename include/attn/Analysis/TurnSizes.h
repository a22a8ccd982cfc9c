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
/// two: so many queries and tiles of keys, of all heads, at least, query heads
/// of a key head at most, and queries at least that see the tile of keys in the
/// middle of all.
struct TurnSizes {
  int64_t queries = 1, tiles = 1, group = 1, seeing = 1;
};

/// Those of rows of `channels`, measured (ScheduleRules.def). `isBand`: the
/// queries that see a key start and end with it.
TurnSizes turnSizes(int64_t channels, bool isMasked, bool isBand,
                    const TargetInfo &target);

} // namespace attn

#endif // ATTN_ANALYSIS_TURNSIZES_H
