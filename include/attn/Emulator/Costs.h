//===- Costs.h - What executed operations cost ------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times of a simple pipeline model, in cycles of a multiprocessor from the
// start of the first launch. docs/Emulator.md says what the model is. No MLIR
// in here.
//===----------------------------------------------------------------------===//

#ifndef ATTN_EMULATOR_COSTS_H
#define ATTN_EMULATOR_COSTS_H

#include <cstdint>

namespace attn::emulator {

class Agent;

using Cycles = int64_t;

/// Where an operation spends its time; of several pipes, the one that it is on
/// for longest.
enum class Pipe : uint8_t {
  /// Takes issue slots alone: scalars, branches, addresses.
  Issue,
  /// Integers, comparisons, conversions.
  Alu,
  /// Multiply-adds of f32.
  Fma,
  /// ex2, lg2, rcp, rsqrt, tanh, sin, cos.
  Special,
  /// Matrix products.
  Tensor,
  /// Loads and stores of shared memory, and shuffles.
  Shared,
  /// To and from global memory.
  Copy,
  /// Nothing: it waits for a barrier, a turn, a product or a copy.
  Wait
};

/// Accesses of shared memory by loads and stores of one warp.
struct SharedCost {
  int64_t instructions = 0, bytes = 0;
  /// Cycles of the banks, and how many of these there would be without
  /// conflicts.
  int64_t wavefronts = 0, ideal = 0;
  SharedCost &operator+=(const SharedCost &other) {
    instructions += other.instructions;
    bytes += other.bytes;
    wavefronts += other.wavefronts;
    ideal += other.ideal;
    return *this;
  }
};

/// What an operation takes each time that an agent executes it, beside what it
/// does at addresses that are known only then. Numbers of instructions are
/// those of each warp.
struct OpCost {
  /// Instructions that are in no list below.
  int64_t issue = 0;
  int64_t alu = 0, fma = 0, special = 0, shuffles = 0;
  /// Registers that all of them read, but for those that the instruction before
  /// has read as well.
  int64_t reads = 0;
  SharedCost loads, stores;
  /// What cp.async writes when it has come.
  SharedCost asyncStores;
  /// Of mma.sync, by each warp: multiplications and additions, and cycles of
  /// its scheduler's tensor core.
  int64_t flops = 0, mmaCycles = 0;
  /// Of wgmma, by the warpgroup: cycles of the tensor cores, multiplications
  /// and additions, and bytes of its operands in shared memory.
  int64_t tensorCycles = 0, groupFlops = 0, operandBytes = 0;
  /// From an input's element to the result's that depends on it; that of a
  /// reduction depends on all.
  Cycles latency = 0;
  bool isReduction = false;
  /// What it touches of memory goes past the multiprocessor's own cache.
  bool isCopy = false;

  int64_t instructions() const {
    return issue + alu + fma + special + shuffles + loads.instructions +
           stores.instructions + asyncStores.instructions;
  }
};

/// An operation that a warp or warpgroup is at: its instructions are issued
/// some at a time, between those of others.
struct Work {
  /// How many parts there are, and have been issued; 0 where there is none.
  int64_t parts = 0, done = 0;
  Cycles start = 0;
  /// When the last element of its inputs is there, and what it loads from
  /// global memory.
  Cycles inputsReady = 0, loaded = 0;
  /// Tenths of a cycle that its parts so far have not yet cost.
  int64_t tenths = 0;
};

/// Learns of all that is executed. A machine with an observer keeps clocks.
class Observer {
public:
  virtual ~Observer() = default;

  /// An agent was at an operation from `start` to `end`; `site` is of
  /// agent.program.sites. An operation that waits comes twice: first with
  /// Pipe::Wait, where it waited at all. Calls for one agent come in the order
  /// of their times.
  virtual void executed(const Agent &agent, uint32_t site, Pipe pipe,
                        Cycles start, Cycles end) {}

  /// What the agent's operation started took so long beside it: a product of a
  /// warpgroup (Pipe::Tensor), a copy or bulk store (Pipe::Copy).
  virtual void ranBeside(const Agent &agent, uint32_t site, Pipe pipe,
                         Cycles start, Cycles end) {}
};

} // namespace attn::emulator

#endif // ATTN_EMULATOR_COSTS_H
