//===- AheadRules.cpp - What copies ahead of their time gain --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/AheadRules.h"
#include "ScheduleRules.h"

using namespace attn;

const AheadRules &attn::aheadRules() {
  static constexpr AheadRules measured = {
      rules::rowsAhead,        rules::tableTilesAhead, rules::tableRegisters,
      rules::itemSlots,        rules::itemShare,       rules::readRegisters,
      rules::crossingRegisters};
  return measured;
}
