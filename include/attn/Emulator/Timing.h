//===- Timing.h - Clocks and counters of what is executed -------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A simple model of a GPU: pipes of each multiprocessor that are free again at
// some cycle, a cache of lines that were touched, and clocks of agents. The
// agent whose clock is least goes on. docs/Emulator.md says what it leaves out.
//===----------------------------------------------------------------------===//

#ifndef ATTN_EMULATOR_TIMING_H
#define ATTN_EMULATOR_TIMING_H

#include "attn/Emulator/Costs.h"
#include "attn/Emulator/Machine.h"
#include "attn/Target/TargetInfo.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <array>
#include <list>
#include <map>
#include <set>
#include <unordered_map>

namespace attn::emulator {

/// What was done. Instructions are of warps.
struct Counters {
  int64_t memoryRead = 0, memoryWritten = 0, l2Read = 0, l2Written = 0;
  /// Shared memory: written by tensor and bulk copies, read by bulk stores, and
  /// by products.
  int64_t copied = 0, stored = 0, operands = 0;
  SharedCost loads, stores, asyncStores;
  int64_t tensorCycles = 0, mmaCycles = 0, flops = 0;
  int64_t special = 0, fma = 0, alu = 0, shuffles = 0, instructions = 0;
  /// Waits for barriers, turns, products and copies, and what they took.
  int64_t waits = 0, waitCycles = 0;

  Counters &operator+=(const Counters &other);
};

/// A loop of a role: what its body did, and the cycles from turn to turn.
struct LoopCounters {
  Counters counters;
  int64_t turns = 0, steps = 0;
  Cycles stepCycles = 0;
};

struct KernelCounters {
  const KernelProgram *kernel = nullptr;
  int64_t launches = 0, blocks = 0, items = 0, occupancy = 0;
  /// Multiprocessors that had a block.
  std::set<int64_t> multiprocessors;
  Cycles cycles = 0;
  Counters total;
  std::vector<LoopCounters> loops;
};

/// Lines of the L2 cache, the least recently used of which leave it.
class CacheModel {
public:
  explicit CacheModel(int64_t bytes);
  /// Bytes that come from memory for an access to a sector; `written` grows by
  /// what is written back.
  int64_t touch(uint64_t sector, bool isWrite, int64_t &written);

private:
  struct Line {
    std::list<uint64_t>::iterator place;
    uint8_t valid = 0, dirty = 0;
  };
  int64_t maxLines;
  std::list<uint64_t> order;
  std::unordered_map<uint64_t, Line> lines;
};

class Timing {
public:
  Timing(Machine &machine, const TargetInfo &target);

  /// Blocks of a kernel that run at once on one multiprocessor, and on all.
  int64_t occupancyOf(const KernelProgram &kernel) const;
  int64_t residentBlocksOf(const KernelProgram &kernel) const;

  void beginLaunch(LaunchState &launch, const LaunchState *previous);
  void endLaunch(LaunchState &launch);
  void beginBlock(ThreadBlock &block);
  void endBlock(ThreadBlock &block);
  void beginItem(Agent &agent);

  /// Around an instruction of an agent; between them it may wait.
  void begin(Agent &agent);
  void end(Agent &agent);
  /// A part of what `end` has left to do, while the agent's work has parts.
  void goOn(Agent &agent);
  void wait(Agent &agent, Cycles until);
  /// A loop comes to its head, once more where it goes on.
  void atHead(Agent &agent, uint32_t loop, bool goesOn);
  void enterLoop(Agent &agent, uint32_t loop);

  /// Memory that the instruction at hand touches.
  void touch(Agent &agent, int64_t warp, uint64_t address, int64_t bytes,
             bool isWrite);
  /// When what was touched since the last call is there; `bytes` are written to
  /// shared memory, or read from it.
  Cycles copy(Agent &agent, int64_t bytes, bool isStore);

  Cycles barrierLatency() const { return rates.barrierLatency; }
  std::string text() const;

private:
  struct Scheduler {
    Cycles issue = 0, fma = 0, alu = 0, special = 0, registers = 0;
    /// Of the registers, what wgmma leaves.
    Cycles spare = 0;
  };
  struct Multiprocessor {
    std::vector<Scheduler> schedulers;
    Cycles tensor = 0, shared = 0;
    /// Of products, in parts of a cycle of one scheduler.
    int64_t delay = 0;
    /// In bytes of the port.
    int64_t port = 0;
  };
  /// Room for a block.
  struct Place {
    int64_t multiprocessor = 0;
    Cycles free = 0;
    bool isTaken = false;
  };

  Multiprocessor &of(const Agent &agent);
  void count(Agent &agent, const std::function<void(Counters &)> &add);
  void report(const Agent &agent, uint32_t site, Pipe pipe, Cycles start,
              Cycles end);
  void drain(Agent &agent);
  void forSchedulers(const Agent &agent,
                     llvm::function_ref<void(Scheduler &)> visit);
  void delayProducts(Agent &agent, int64_t reads, Cycles end);
  Pipe pipeOf(const Agent &agent) const;
  void finish(Agent &agent);

  Machine &machine;
  const TargetInfo &target;
  const GpuRates &rates;
  std::vector<Multiprocessor> multiprocessors;
  std::map<const KernelProgram *, std::vector<Place>> places;
  std::map<const KernelProgram *, KernelCounters> kernels;
  std::vector<const KernelProgram *> kernelOrder;
  CacheModel cache;
  /// Of the L2 cache and of memory, in bytes of their rates.
  int64_t l2 = 0, memory = 0;
  /// Sectors of the instruction at hand, and those that each block has read.
  std::set<std::pair<int64_t, uint64_t>> touched;
  int64_t touchedBytes = 0, missedBytes = 0;
};

} // namespace attn::emulator

#endif // ATTN_EMULATOR_TIMING_H
