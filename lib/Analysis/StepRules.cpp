//===- StepRules.cpp - Where products and slots stand in a step -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/StepRules.h"
#include "ScheduleRules.h"

using namespace attn;

const StepRules &attn::stepRules() {
  static constexpr StepRules measured = {
      rules::delayedColumns, rules::aheadColumns, rules::aheadElements,
      rules::shortColumns,   rules::computedOps,  rules::heldColumns,
      rules::aroundColumns,  rules::apartCopies,  rules::apartColumns,
      rules::memoryRows};
  return measured;
}
