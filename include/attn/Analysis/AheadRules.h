//===- AheadRules.h - What copies ahead of their time gain ------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_AHEADRULES_H
#define ATTN_ANALYSIS_AHEADRULES_H

#include <cstdint>

namespace attn {

/// Where it pays to prepare copies before their step comes, and registers have
/// room for what is prepared, as measured (ScheduleRules.def says what each
/// number decides, and what it gains).
struct AheadRules {
  int64_t rows;
  int64_t tableTiles, tableRegisters;
  int64_t itemSlots, itemShare;
  int64_t readRegisters, crossingRegisters;
};

const AheadRules &aheadRules();

} // namespace attn

#endif // ATTN_ANALYSIS_AHEADRULES_H
