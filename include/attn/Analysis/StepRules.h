//===- StepRules.h - Where products and slots stand in a step ---*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_STEPRULES_H
#define ATTN_ANALYSIS_STEPRULES_H

#include <cstdint>

namespace attn {

/// How a step over a tile of keys is done, by warpgroups but for the rows whose
/// keys a CPU reads where they are in memory, as measured
/// (ScheduleRules.def says what each number decides, and what it gains).
struct StepRules {
  int64_t delayedColumns;
  int64_t aheadColumns, aheadElements;
  int64_t shortColumns, computedOps;
  int64_t heldColumns, aroundColumns;
  int64_t apartCopies, apartColumns;
  int64_t memoryRows;
};

const StepRules &stepRules();

} // namespace attn

#endif // ATTN_ANALYSIS_STEPRULES_H
