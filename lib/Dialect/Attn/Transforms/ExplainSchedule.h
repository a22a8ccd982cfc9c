//===- ExplainSchedule.h - What --explain says of a schedule ----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_EXPLAINSCHEDULE_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_EXPLAINSCHEDULE_H

#include "attn/Analysis/Schedule.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Target/TargetInfo.h"

#include <string>

namespace mlir::attn {

/// A schedule, for what it was chosen, and how.
struct ExplainedChoice {
  ScheduleAttr schedule;
  const ::attn::ScheduleProblem &problem;
  const ::attn::PackChoice &pack;
  const ::attn::SplitChoice &splits;
  /// Somebody wrote it, or its order; or the model chose it.
  bool isGiven, isOrderGiven, isModels;
};
/// A line for each decision, but of the mask.
std::string describeSchedule(ReductionOpInterface op, MonoidOp monoid,
                             const ExplainedChoice &choice,
                             const ::attn::TargetInfo &target);

/// What the mask's analysis found, and how live tiles are found.
std::string describeMask(ReductionOpInterface op, bool isListed, bool hasBits);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_EXPLAINSCHEDULE_H
