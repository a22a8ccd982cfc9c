//===- Tuning.h - Schedules that were tuned on this machine -----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A table (attn/Analysis/ScheduleTable.h) in the folder of the disk cache, for
// this build of the library alone: another may not have room for its tiles.
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_COMPILER_TUNING_H
#define ATTN_LIB_COMPILER_TUNING_H

#include <string>

namespace attn {

/// Its text; empty where there is none, or none that can be trusted.
std::string readTunedTable();

} // namespace attn

#endif // ATTN_LIB_COMPILER_TUNING_H
