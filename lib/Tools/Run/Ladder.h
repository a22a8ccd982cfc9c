//===- Ladder.h - The rungs of the ladder side by side ----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One attention as each algorithm of its history computes it: bytes between
// memory and tiles as a formula has them and as they are counted, memory, time,
// and the difference of the results (docs/Ladder.md).
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_RUN_LADDER_H
#define ATTN_LIB_TOOLS_RUN_LADDER_H

#include "Attention.h"
#include "Roofline.h"

namespace attn::run {

/// What is known of one rung.
struct RungReport {
  std::string name;
  /// Why there is no such rung here; empty where there is.
  std::string refusal;
  /// Bytes; below 0 where they are not known.
  double predicted = -1, counted = -1, fromMemory = -1, workspace = -1;
  /// Milliseconds, 0 where nothing was timed; and the largest difference from
  /// the first rung's outputs, by the largest of their elements.
  double ms = 0, difference = 0;
};

/// What the formulas of docs/Ladder.md say a rung moves, from the tiles of its
/// operations in order and the statistics and units of its monoid; below 0
/// where they do not hold of the spec.
double predictRungTraffic(const std::string &rung, const AttentionSpec &spec,
                          const std::vector<Tiles> &tiles, int64_t keysOfPart,
                          int64_t splits, int64_t statistics, int64_t units);

/// Rungs under the roofline, as SVG.
std::string printRoofline(const std::vector<RungReport> &rungs, double flops,
                          const Peaks &peaks, const std::string &title);

/// Compiles and runs each rung, prints the table, and draws the picture where
/// one is asked for.
support::Status runLadder(const Options &options, AttnCompileOptions how,
                          const Progress &progress);

} // namespace attn::run

#endif // ATTN_LIB_TOOLS_RUN_LADDER_H
