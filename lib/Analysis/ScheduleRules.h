//===- ScheduleRules.h - The numbers of ScheduleRules.def -------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_ANALYSIS_SCHEDULERULES_H
#define ATTN_LIB_ANALYSIS_SCHEDULERULES_H

#include <cstdint>

namespace attn::rules {
#define SCHEDULE_LIMIT(NAME, VALUE, DECIDES, GAIN, WHERE)                      \
  inline constexpr int64_t NAME = VALUE;
#define SCHEDULE_TERM(NAME, VALUE, WHAT, WHERE)                                \
  inline constexpr double NAME = VALUE;
#include "ScheduleRules.def"
} // namespace attn::rules

#endif // ATTN_LIB_ANALYSIS_SCHEDULERULES_H
