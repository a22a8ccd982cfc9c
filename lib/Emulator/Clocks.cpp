//===- Clocks.cpp - What happens before what ------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Emulator/Clocks.h"

#include <algorithm>

using namespace ::attn::emulator;

void Clock::join(const Clock &other) {
  for (size_t i = 0; i < seen.size(); ++i) {
    seen[i] = std::max(seen[i], other.seen[i]);
    fenced[i] = std::max(fenced[i], other.fenced[i]);
  }
}

AccessTable::AccessTable() : states(2) { states[written].isWritten = true; }

/// Whether `event` comes before an access.
static bool isBefore(const Epoch &event, const Access &access,
                     bool throughProxy) {
  const Epoch &now = access.epoch;
  if (event.launch != now.launch)
    return event.launch < access.launchesBefore ||
           (event.launch < now.launch &&
            access.known->seen[access.dependencies]);
  if (event.unit != now.unit)
    return false;
  const auto &clock = throughProxy ? access.known->fenced : access.known->seen;
  return clock[event.component] >= event.clock;
}

Conflict AccessTable::transition(uint32_t &state, const Access &access,
                                 Epoch &other) {
  const State &old = states[state];
  if (!access.isWrite && !old.isWritten)
    return Conflict::Unwritten;
  if (access.isCommon && access.isSame && old.isCommonWrite) {
    State next = old;
    next.further.push_back(access.epoch);
    states.push_back(std::move(next));
    state = uint32_t(states.size() - 1);
    return Conflict::None;
  }
  bool isSeen = false;
  if (!access.isWrite)
    for (const Epoch &same : old.further)
      isSeen |= isBefore(same, access, access.isAsync);
  else
    for (const Epoch &same : old.further)
      if (!isBefore(same, access, false)) {
        other = same;
        return Conflict::Race;
      }
  if (old.hasWriter && !isSeen && !(access.isAtomic && old.isAtomicWrite)) {
    other = old.writer;
    if (!isBefore(old.writer, access, false))
      return Conflict::Race;
    // What threads wrote reaches copies and products by a fence alone.
    if (access.isAsync && !old.isAsyncWrite &&
        old.writer.launch == access.epoch.launch &&
        !isBefore(old.writer, access, true))
      return Conflict::Proxy;
  }
  if (!access.isWrite) {
    const Epoch &now = access.epoch;
    for (const Epoch &read : old.reads)
      if (read.launch == now.launch && read.unit == now.unit &&
          read.component == now.component && read.clock == now.clock)
        return Conflict::None;
    State next = old;
    // The latest read of a component stands for those before it.
    auto isOlder = [&](const Epoch &read) {
      return read.launch == now.launch && read.unit == now.unit &&
             read.component == now.component && read.clock < now.clock;
    };
    next.reads.erase(
        std::remove_if(next.reads.begin(), next.reads.end(), isOlder),
        next.reads.end());
    next.reads.push_back(now);
    states.push_back(std::move(next));
    state = uint32_t(states.size() - 1);
    return Conflict::None;
  }
  for (const Epoch &read : old.reads)
    if (!isBefore(read, access, false)) {
      other = read;
      return Conflict::Race;
    }
  State next;
  next.isWritten = true;
  next.hasWriter = true;
  next.isAsyncWrite = access.isAsync;
  next.isAtomicWrite = access.isAtomic;
  next.isCommonWrite = access.isCommon;
  next.writer = access.epoch;
  states.push_back(std::move(next));
  state = uint32_t(states.size() - 1);
  return Conflict::None;
}
