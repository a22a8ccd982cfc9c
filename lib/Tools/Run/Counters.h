//===- Counters.h - What the emulator counts, and predictions ---*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_RUN_COUNTERS_H
#define ATTN_LIB_TOOLS_RUN_COUNTERS_H

#include <map>
#include <string>
#include <vector>

namespace attn::run {

/// What --explain says of a kernel, to be held against counters.
struct Prediction {
  /// The counters whose sum it is about.
  std::vector<std::string> counters;
  double value = 0;
  /// How far from it they may be, as a share.
  double tolerance = 0;
  /// What it knows nothing of here, which may put it further off.
  std::string unknown = {};
};

/// The column "kernel" of a text of counters (docs/Emulator.md), all kernels
/// together.
std::map<std::string, double> readCounters(const std::string &text);

/// A line for each prediction.
std::string compareCounters(const std::string &text,
                            const std::vector<Prediction> &predictions);

} // namespace attn::run

#endif // ATTN_LIB_TOOLS_RUN_COUNTERS_H
