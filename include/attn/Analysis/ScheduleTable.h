//===- ScheduleTable.h - Schedules that were measured -----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lines of text, `#` begins a comment:
//
//   TARGET | PROBLEM | SIZES | block_q rows block_k [KEY=VALUE...]
//
// with keys splits, stages, overlap (false), loop (peeled, masked, plain) and
// turns (none, products, softmax).
//
// PROBLEM and SIZES are what printProblem and printSizes give; SIZES may be `*`
// for any. A problem's own sizes come before `*`, and the first of equal lines
// counts. Schedules.txt is part of the library; `attn-run --autotune` keeps
// another beside the compiled kernels.
//
// This header includes no MLIR.
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_SCHEDULETABLE_H
#define ATTN_ANALYSIS_SCHEDULETABLE_H

#include "attn/Analysis/Schedule.h"

#include <optional>
#include <string>
#include <string_view>

namespace attn {

/// "d=128 dv=128 16-bit masked": all that a GPU's tiles depend on, but for
/// sizes.
std::string printProblem(const ScheduleProblem &problem);
/// "heads=16 rows=4096 keys=4096": sizes rounded up to powers of two, `?` where
/// they are not known.
std::string printSizes(const ScheduleProblem &problem);

/// One line of a table.
std::string printEntry(std::string_view target, std::string_view problem,
                       std::string_view sizes, const MeasuredSchedule &choice);

/// The table's choice; nothing where it has none. Lines that are not understood
/// are passed over: a table is a hint.
std::optional<MeasuredSchedule> findSchedule(std::string_view table,
                                             const ScheduleProblem &problem,
                                             const TargetInfo &target);

/// What ships.
std::string_view shippedSchedules();

} // namespace attn

#endif // ATTN_ANALYSIS_SCHEDULETABLE_H
