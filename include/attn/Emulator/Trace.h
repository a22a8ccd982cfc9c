//===- Trace.h - What the order of events may change ------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A run as a list of events: a step of an agent, something started that takes
// effect, the end of a block. An event has the effects whose order others may
// notice. Memory is not among them: accesses that nothing orders are reported
// in every order, and those that something orders come in this order only.
// docs/Emulator.md says which neighbours of a run may change places.
//===----------------------------------------------------------------------===//

#ifndef ATTN_EMULATOR_TRACE_H
#define ATTN_EMULATOR_TRACE_H

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

namespace attn::emulator {

/// Somebody who goes on: an agent, what it has started as its `number`-th, or
/// the end of a cluster. The same in all runs of a plan.
struct ProcessId {
  static constexpr uint32_t end = ~0u;
  uint32_t launch = 0, block = 0, agent = 0, number = 0;

  auto key() const { return std::tie(launch, block, agent, number); }
  bool operator<(const ProcessId &other) const { return key() < other.key(); }
  bool operator==(const ProcessId &other) const { return key() == other.key(); }
};

/// What events have to do with each other through.
struct Object {
  enum Kind : uint32_t {
    None,
    /// A barrier in memory, a hardware barrier: their phases.
    MBarrier,
    Barrier,
    /// Something started: whether it has taken effect.
    Started,
    /// Of a cluster: who has ended, and what is under way.
    Live,
    Open,
    /// Of a launch: blocks that let the next one start, that have ended, and
    /// the order in which these make room for others.
    Letting,
    Ended,
    Room,
    /// What items are drawn from.
    Tickets,
    /// Bytes of a tensor that atomic operations change.
    Memory
  };
  Kind kind = None;
  ProcessId of;

  bool operator<(const Object &other) const {
    return kind != other.kind ? kind < other.kind : of < other.of;
  }
};

struct Effect {
  enum How : uint8_t {
    /// Adds to phase `phase`; those that add to the same one commute.
    Give,
    /// Goes on because `phase` phases have ended, and no more than these.
    Take,
    /// Goes another way before others give.
    Check,
    /// In an order with all others of bytes `begin` to `end`.
    Exclusive
  };
  Object object;
  How how = Give;
  uint64_t phase = 0;
  /// Of what gives: whether the phase ends with it.
  bool isLast = false;
  size_t begin = 0, end = 1;
};

/// What an earlier effect is to a later one.
enum class Relation : uint8_t {
  /// Both orders come to the same.
  None,
  /// The other order would come to something else.
  Races,
  /// The later one waits for it.
  Needs
};
Relation relate(const Effect &first, const Effect &second);

struct Event {
  static constexpr uint32_t noCreator = ~0u;
  ProcessId process;
  /// The event that started this process.
  uint32_t creator = noCreator;
  std::vector<Effect> effects;
};

class Trace {
public:
  std::vector<Event> events;

  void begin(ProcessId process, uint32_t creator) {
    events.push_back({process, creator, {}});
    hasStarted = false;
  }
  void note(Effect effect);
  /// The last effect ended a phase.
  void noteLast() { events.back().effects.back().isLast = true; }
  /// The number of this event, for what it starts.
  uint32_t start() {
    hasStarted = true;
    return uint32_t(events.size() - 1);
  }
  /// Nobody can tell when the event took place.
  bool isSilent() const { return events.back().effects.empty() && !hasStarted; }

private:
  bool hasStarted = false;
};

} // namespace attn::emulator

#endif // ATTN_EMULATOR_TRACE_H
