//===- Clocks.h - What happens before what ----------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Happens-before by vector clocks. A component is a line of events that follow
// each other: the accesses of one warp, its products, its bulk copies, its
// groups of cp.async, or the phases of one mbarrier, which tensor copies end.
// The unit of clocks is a cluster, whose blocks can wait for each other.
//
// A clock knows two things of each component: up to where its events have
// happened, and up to where what they wrote is seen by the async proxy too
// (tensor copies, bulk copies, wgmma). fence.proxy.async makes the second what
// the first is.
//
// Memory is shadowed by cells. A cell holds the number of a state (its last
// writer and the readers since); whole tiles go through the same states, so
// that a state is made once for all their cells.
//===----------------------------------------------------------------------===//

#ifndef ATTN_EMULATOR_CLOCKS_H
#define ATTN_EMULATOR_CLOCKS_H

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace attn::emulator {

struct Clock {
  std::vector<uint32_t> seen, fenced;

  explicit Clock(size_t components = 0)
      : seen(components, 0), fenced(components, 0) {}

  void join(const Clock &other);
  /// fence.proxy.async: all that is known by now.
  void fence() { fenced = seen; }
};

/// One event of one component.
struct Epoch {
  uint32_t launch = 0, unit = 0, component = 0, clock = 0;
  /// The operation, as KernelProgram::sites counts them.
  uint32_t site = 0;
};

/// What somebody does to memory, and what is known there.
struct Access {
  Epoch epoch;
  bool isWrite = false;
  /// By the async proxy.
  bool isAsync = false;
  bool isAtomic = false;
  /// Of a kind that several do beside each other, to write the same; one that
  /// reads has to come after one of them. And whether it does write the same.
  bool isCommon = false, isSame = false;
  /// Of the issuer, at the time of issue.
  const Clock *known = nullptr;
  /// Launches below this one had ended before this one's began.
  uint32_t launchesBefore = 0;
  /// The component that tells whether all earlier launches have ended.
  uint32_t dependencies = 0;
};

enum class Conflict { None, Unwritten, Race, Proxy };

class AccessTable {
public:
  /// The states that all memory starts in.
  enum : uint32_t { unwritten = 0, written = 1 };

  AccessTable();

  /// The state after an access, or what is wrong with it; then `other` is the
  /// access that it collides with.
  Conflict transition(uint32_t &state, const Access &access, Epoch &other);

  /// Applies an access to cells; stops at the first conflict, at cell `at`.
  template <typename Cells>
  Conflict apply(Cells &&forEachRun, const Access &access, Epoch &other) {
    Conflict result = Conflict::None;
    uint32_t lastOld = ~0u, lastNew = 0;
    forEachRun([&](uint32_t *begin, size_t count) {
      for (size_t i = 0; i < count && result == Conflict::None; ++i) {
        if (begin[i] == lastOld) {
          begin[i] = lastNew;
          continue;
        }
        uint32_t state = begin[i];
        result = transition(state, access, other);
        if (result != Conflict::None)
          return;
        lastOld = begin[i];
        begin[i] = lastNew = state;
      }
    });
    return result;
  }

private:
  struct State {
    bool isWritten = false, isAsyncWrite = false, isAtomicWrite = false;
    bool isCommonWrite = false;
    /// Whether there is a writer to be ordered with.
    bool hasWriter = false;
    Epoch writer;
    /// Others that wrote the same.
    std::vector<Epoch> further;
    std::vector<Epoch> reads;
  };
  std::vector<State> states;
};

} // namespace attn::emulator

#endif // ATTN_EMULATOR_CLOCKS_H
