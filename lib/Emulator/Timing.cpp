//===- Timing.cpp - Clocks of agents, pipes and the cache -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A pipe is a cycle from which on it is free. An operation takes those that it
// needs for as long as its instructions take, and computes element by element:
// what uses its result may begin with the first element, and ends after the
// last. A warp goes on behind the issue of its instructions; at the next
// operation that others notice, all that it has computed has to be there, for
// the assembler moves nothing across these.
//===----------------------------------------------------------------------===//

#include "attn/Emulator/Timing.h"

#include <algorithm>
#include <bitset>

using namespace ::attn::emulator;
using attn::GpuRates;

static int64_t ceilDiv(int64_t x, int64_t y) { return (x + y - 1) / y; }

//===----------------------------------------------------------------------===//
// The cache
//===----------------------------------------------------------------------===//

CacheModel::CacheModel(int64_t bytes)
    : maxLines(std::max<int64_t>(bytes / GpuRates::lineBytes, 1)) {}

int64_t CacheModel::touch(uint64_t sector, bool isWrite, int64_t &written) {
  constexpr uint64_t perLine = GpuRates::lineBytes / GpuRates::sectorBytes;
  uint64_t number = sector / perLine;
  auto bit = uint8_t(1u << sector % perLine);
  auto [it, isNew] = lines.try_emplace(number);
  Line &line = it->second;
  if (isNew) {
    order.push_front(number);
    line.place = order.begin();
  } else {
    order.splice(order.begin(), order, line.place);
  }
  bool misses = !(line.valid & bit) && !isWrite;
  line.valid |= bit;
  if (isWrite)
    line.dirty |= bit;
  if (int64_t(lines.size()) > maxLines) {
    auto last = lines.find(order.back());
    written += int64_t(std::bitset<8>(last->second.dirty).count()) *
               GpuRates::sectorBytes;
    lines.erase(last);
    order.pop_back();
  }
  return misses ? GpuRates::sectorBytes : 0;
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

Timing::Timing(Machine &machine, const TargetInfo &target)
    : machine(machine), target(target), rates(target.rates),
      cache(target.gpuL2Bytes) {
  multiprocessors.resize(size_t(target.numMultiprocessors));
  for (Multiprocessor &one : multiprocessors)
    one.schedulers.resize(size_t(rates.schedulers));
}

int64_t Timing::occupancyOf(const KernelProgram &kernel) const {
  constexpr int64_t groupWarps = 4;
  int64_t threads =
      ceilDiv(kernel.warps, groupWarps) * groupWarps * TargetInfo::warpThreads;
  int64_t blocks = std::min(rates.maxBlocks, rates.maxThreads / threads);
  // Registers of roles; else of threads that have as many as they may, or fewer
  // where the assembler is asked to make room.
  int64_t registers =
      kernel.registers ? kernel.registers : threads * target.maxThreadRegisters;
  int64_t room = target.numRegisters / registers;
  blocks =
      std::min(blocks, kernel.registers ? room : std::max(room, kernel.blocks));
  while (blocks > 1 && !target.sharesMemory(blocks, kernel.sharedBytes))
    --blocks;
  return std::max<int64_t>(blocks, 1);
}

int64_t Timing::residentBlocksOf(const KernelProgram &kernel) const {
  int64_t all = target.numMultiprocessors * occupancyOf(kernel);
  return all / kernel.cluster * kernel.cluster;
}

void Timing::beginLaunch(LaunchState &launch, const LaunchState *previous) {
  // What may begin earlier waits by itself.
  launch.begin =
      previous ? launch.isProgrammatic ? previous->begin : previous->end : 0;
  launch.end = launch.begin;
  if (!launch.kernel)
    return;
  KernelCounters &counters = kernels[launch.kernel];
  if (!counters.kernel)
    kernelOrder.push_back(launch.kernel);
  counters.kernel = launch.kernel;
  counters.occupancy = occupancyOf(*launch.kernel);
  counters.loops.resize(launch.kernel->loops.size());
  ++counters.launches;
  std::vector<Place> &all = places[launch.kernel];
  if (all.empty())
    for (int64_t i = 0; i < counters.occupancy; ++i)
      for (int64_t at = 0; at < target.numMultiprocessors; ++at)
        all.push_back({at, 0, false});
}

void Timing::endLaunch(LaunchState &launch) {
  if (launch.kernel)
    kernels[launch.kernel].cycles += launch.end - launch.begin;
}

void Timing::beginBlock(ThreadBlock &block) {
  LaunchState &launch = *block.cluster->launch;
  std::vector<Place> &all = places[launch.kernel];
  Place *best = nullptr;
  for (Place &place : all)
    if (!place.isTaken && (!best || place.free < best->free))
      best = &place;
  if (!best)
    best = &all.front();
  best->isTaken = true;
  block.place = size_t(best - all.data());
  block.multiprocessor = best->multiprocessor;
  block.start = std::max(best->free, launch.begin);
  KernelCounters &counters = kernels[launch.kernel];
  ++counters.blocks;
  counters.multiprocessors.insert(block.multiprocessor);
}

void Timing::endBlock(ThreadBlock &block) {
  LaunchState &launch = *block.cluster->launch;
  Cycles end = block.start;
  for (auto &agent : block.agents)
    end = std::max({end, agent->time, agent->outstanding});
  Place &place = places[launch.kernel][block.place];
  place.isTaken = false;
  place.free = end;
  launch.end = std::max(launch.end, end);
}

void Timing::beginItem(Agent &agent) {
  // All roles of a block see the same items.
  if (agent.block.agents.front().get() == &agent)
    ++kernels[&agent.program].items;
}

//===----------------------------------------------------------------------===//
// Loops and counters
//===----------------------------------------------------------------------===//

void Timing::enterLoop(Agent &agent, uint32_t loop) {
  agent.turns.resize(agent.program.loops.size());
  agent.turns[loop] = {};
}

/// The first turn fills the pipeline, and the last one empties it.
void Timing::atHead(Agent &agent, uint32_t loop, bool goesOn) {
  agent.turns.resize(agent.program.loops.size());
  Agent::Turns &turns = agent.turns[loop];
  LoopCounters &counters = kernels[&agent.program].loops[loop];
  if (goesOn) {
    ++counters.turns;
    if (++turns.count <= 2)
      turns.first = agent.time;
    turns.last = agent.time;
  } else if (turns.count > 2) {
    counters.steps += turns.count - 2;
    counters.stepCycles += turns.last - turns.first;
  }
}

void Timing::count(Agent &agent, const std::function<void(Counters &)> &add) {
  KernelCounters &counters = kernels[&agent.program];
  add(counters.total);
  for (uint32_t loop = agent.instruction().loop; loop != Instruction::noLoop;
       loop = agent.program.loops[loop].parent)
    add(counters.loops[loop].counters);
}

void Timing::report(const Agent &agent, uint32_t site, Pipe pipe, Cycles start,
                    Cycles end) {
  if (machine.observer && end > start)
    machine.observer->executed(agent, site, pipe, start, end);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

void Timing::touch(Agent &agent, int64_t warp, uint64_t address, int64_t bytes,
                   bool isWrite) {
  bool isCopy = agent.instruction().cost.isCopy;
  uint64_t first = address / GpuRates::sectorBytes;
  uint64_t last = (address + uint64_t(bytes) - 1) / GpuRates::sectorBytes;
  int64_t read = 0, written = 0, missed = 0;
  for (uint64_t sector = first; sector <= last; ++sector) {
    // Lanes that meet in a sector share it.
    if (bytes < GpuRates::sectorBytes &&
        !touched.insert({warp * 2 + isWrite, sector}).second)
      continue;
    if (!isWrite && !isCopy && !agent.block.sectors.insert(sector).second)
      continue;
    touchedBytes += GpuRates::sectorBytes;
    int64_t from = cache.touch(sector, isWrite, written);
    missed += from;
    missedBytes += from;
    read += GpuRates::sectorBytes;
  }
  if (!read)
    return;
  count(agent, [&](Counters &counters) {
    (isWrite ? counters.l2Written : counters.l2Read) += read;
    counters.memoryRead += missed;
    counters.memoryWritten += written;
  });
}

/// Takes a way of some bytes a cycle from `at` on; `free` is in bytes.
static Cycles take(int64_t &free, Cycles at, int64_t bytes, int64_t rate) {
  free = std::max(free, at * rate) + bytes;
  return ceilDiv(free, rate);
}

Cycles Timing::copy(Agent &agent, int64_t bytes, bool isStore) {
  Cycles start = agent.time;
  Cycles end = take(of(agent).port, start, touchedBytes, rates.l2PortBytes);
  end = std::max(end, take(l2, start, touchedBytes, rates.l2Bytes));
  if (missedBytes)
    end = std::max(end, take(memory, start, missedBytes, rates.memoryBytes));
  if (!isStore)
    end += missedBytes ? rates.memoryLatency : rates.l2Latency;
  if (!isStore && bytes)
    end += rates.tensorCopyLatency;
  count(agent, [&](Counters &counters) {
    (isStore ? counters.stored : counters.copied) += bytes;
  });
  touchedBytes = missedBytes = 0;
  if (machine.observer)
    machine.observer->ranBeside(agent, agent.site(), Pipe::Copy, start, end);
  return end;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

Timing::Multiprocessor &Timing::of(const Agent &agent) {
  return multiprocessors[size_t(agent.block.multiprocessor)];
}

/// Lets the clock come to where all that was computed is there.
void Timing::drain(Agent &agent) {
  if (agent.outstanding <= agent.time)
    return;
  report(agent, agent.outstandingSite, agent.outstandingPipe, agent.time,
         agent.outstanding);
  agent.time = agent.outstanding;
}

void Timing::begin(Agent &agent) {
  if (agent.instruction().isShared)
    drain(agent);
  touched.clear();
  touchedBytes = missedBytes = 0;
}

void Timing::wait(Agent &agent, Cycles until) {
  Cycles start = agent.time;
  agent.time = std::max(start, until);
  count(agent, [&](Counters &counters) {
    ++counters.waits;
    counters.waitCycles += agent.time - start;
  });
  report(agent, agent.site(), Pipe::Wait, start, agent.time);
}

void Timing::end(Agent &agent) {
  const Instruction &instruction = agent.instruction();
  const OpCost &cost = instruction.cost;
  int64_t instructions = cost.instructions();
  if (!instructions && !cost.flops && !touchedBytes)
    return;
  Multiprocessor &place = of(agent);
  // An element of the result needs one of each input; a reduction needs all.
  Cycles start = agent.time, inputsReady = start;
  for (SlotId slot : instruction.inputs)
    if (auto value = agent.registersAt(slot)) {
      start = std::max(start, value->first);
      inputsReady = std::max(inputsReady, value->ready);
    }
  int64_t lanes = TargetInfo::warpThreads;
  Cycles fma = cost.fma * lanes / rates.fmaLanes;
  Cycles alu = cost.alu * lanes / rates.aluLanes;
  Cycles special = cost.special * lanes / rates.specialLanes;
  Cycles tensor = cost.mmaCycles;
  Cycles shared = (cost.loads.wavefronts + cost.stores.wavefronts +
                   cost.asyncStores.wavefronts + cost.shuffles) *
                  agent.warps;
  Cycles end = start, issued = start;
  // A few instructions slip in between others'.
  constexpr int64_t few = 64;
  auto use = [&](Cycles &free, Cycles takes) {
    if (!takes)
      return;
    free = std::max(free, start) + takes;
    end = std::max(end, takes > few ? free : start + takes);
  };
  for (int64_t warp = 0; warp < agent.warps; ++warp) {
    Scheduler &scheduler =
        place.schedulers[size_t((agent.firstWarp + warp) % rates.schedulers)];
    use(scheduler.fma, fma);
    use(scheduler.alu, alu);
    use(scheduler.special, special);
    use(scheduler.tensor, tensor);
    Cycles from = instructions > few ? std::max(scheduler.issue, start) : start;
    scheduler.issue = std::max(scheduler.issue, start) + instructions;
    issued = std::max(issued, from + instructions);
  }
  // Registers are read and written for both.
  if (place.tensor > start) {
    int64_t perCycle = 100 * rates.schedulers;
    place.stalls += instructions * agent.warps * rates.issueStall;
    place.tensor += place.stalls / perCycle;
    place.stalls %= perCycle;
  }
  use(place.shared, shared);
  end = std::max(end, issued);
  Cycles ready = std::max(end, inputsReady) + cost.latency;

  Pipe pipe = Pipe::Issue;
  Cycles most = instructions;
  for (auto [other, takes] :
       {std::pair(Pipe::Alu, alu), std::pair(Pipe::Fma, fma),
        std::pair(Pipe::Special, special), std::pair(Pipe::Shared, shared),
        std::pair(Pipe::Tensor, tensor)})
    if (takes >= most && takes) {
      pipe = other;
      most = takes;
    }
  // Loads by threads; what a scalar is loaded for waits at once.
  if (touchedBytes && !cost.isCopy) {
    pipe = Pipe::Copy;
    Cycles way = take(place.port, start, touchedBytes, rates.l2PortBytes);
    if (missedBytes)
      way = std::max(way, take(memory, start, missedBytes, rates.memoryBytes));
    way += missedBytes ? rates.memoryLatency : rates.l2Latency;
    if (!instruction.outputs.empty())
      ready = std::max(ready, way);
    else if (!instruction.isShared)
      issued = std::max(issued, way);
  }
  if (cost.tensorCycles) {
    pipe = Pipe::Tensor;
    Product &product = agent.products.back();
    Cycles from = std::max(place.tensor, issued);
    place.tensor = from + cost.tensorCycles;
    product.end = place.tensor + rates.productLatency;
    product.result->first = product.result->ready = product.end;
    if (machine.observer)
      machine.observer->ranBeside(agent, instruction.site, Pipe::Tensor, from,
                                  product.end);
  }
  for (SlotId slot : instruction.outputs)
    if (auto value = agent.registersAt(slot)) {
      value->first = cost.isReduction ? ready : start + cost.latency;
      value->ready = ready;
    }
  report(agent, instruction.site, pipe, agent.time, issued);
  agent.time = issued;
  if (ready > agent.outstanding) {
    agent.outstanding = ready;
    agent.outstandingSite = instruction.site;
    agent.outstandingPipe = pipe;
  }
  count(agent, [&](Counters &counters) {
    int64_t warps = agent.warps;
    counters.instructions += instructions * warps;
    counters.fma += cost.fma * warps;
    counters.alu += cost.alu * warps;
    counters.special += cost.special * warps;
    counters.shuffles += cost.shuffles * warps;
    counters.mmaCycles += tensor * warps;
    counters.flops += cost.flops * warps + cost.groupFlops;
    counters.tensorCycles += cost.tensorCycles;
    counters.operands += cost.operandBytes;
    for (int64_t warp = 0; warp < warps; ++warp) {
      counters.loads += cost.loads;
      counters.stores += cost.stores;
      counters.asyncStores += cost.asyncStores;
    }
  });
}
