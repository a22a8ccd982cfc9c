//===- Search.h - All schedules that are not the same -----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Dynamic partial-order reduction with source sets and sleep sets (Abdulla,
// Aronis, Jonsson, Sagonas: Optimal dynamic partial order reduction, POPL
// 2014). A run is one order of events; another run departs from it only where
// two events race, that is where their other order may come to something else.
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_EMULATOR_SEARCH_H
#define ATTN_LIB_EMULATOR_SEARCH_H

#include "attn/Emulator/Trace.h"
#include "llvm/ADT/BitVector.h"

#include <map>
#include <set>

namespace attn::emulator {

class Explorer {
public:
  /// More events than this are not searched.
  static constexpr size_t mostEvents = 20'000;

  /// Who has to come as the `number`-th, or null where it is free.
  const ProcessId *next(uint32_t number) const {
    return number < nodes.size() ? &nodes[number].chosen : nullptr;
  }
  /// Whether somebody may: the others' turn has come in another run, and
  /// nothing has happened since that it matters to.
  bool mayTake(uint32_t number, const ProcessId &id);
  /// The last event of a trace has taken place.
  void took(const Trace &trace);
  /// Whether nobody was left to go on but such.
  bool isRedundant() const { return refused; }

  /// Learns from a run where to depart; false where nothing is left to run.
  bool advance(const Trace &trace);

private:
  using Effects = std::vector<Effect>;
  struct Node {
    ProcessId chosen;
    Effects effects;
    /// Who has to be first here in some run.
    std::set<ProcessId> firsts;
    /// Who need not, as others' runs have it.
    std::map<ProcessId, Effects> asleep;
  };
  void addDepartures(const Trace &trace);
  void depart(const Trace &trace, const std::vector<llvm::BitVector> &before,
              size_t i, size_t j);

  /// The events of this run.
  std::vector<Node> nodes;
  std::map<ProcessId, Effects> asleep;
  /// The first event that the run before did not have.
  size_t first = 0;
  bool refused = false;
};

} // namespace attn::emulator

#endif // ATTN_LIB_EMULATOR_SEARCH_H
