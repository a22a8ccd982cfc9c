//===- ExplainSchedule.h - What --explain says of a schedule ----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_EXPLAINSCHEDULE_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_EXPLAINSCHEDULE_H

#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Target/TargetInfo.h"

#include <string>

namespace mlir::attn {

/// What the mask's analysis found, and how live tiles are found.
std::string describeMask(ReductionOpInterface op, bool isListed, bool hasBits);
/// Where queries and keys turn; empty where they do not.
std::string describeRotary(ReductionOpInterface op,
                           const ::attn::TargetInfo &target);
/// How a GPU copies the keys of pages and of rolling caches.
std::string describeCache(ReductionOpInterface op,
                          const ::attn::TargetInfo &target);
/// In what order a row takes its keys, whatever is beside it; empty where that
/// is not asked for.
std::string describeInvariance(ReductionOpInterface op, ScheduleAttr schedule);
/// The order of work tiles, and the heads that run side by side.
std::string describeOrder(ReductionOpInterface op, ScheduleAttr schedule,
                          bool isGiven);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_EXPLAINSCHEDULE_H
