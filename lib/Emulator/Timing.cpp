//===- Timing.cpp - Clocks of agents, pipes and the cache -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A pipe is a cycle from which on it is free. The instructions of an operation
// are issued in order, some at a time, between those of other warps, and take
// the pipes that they need. An operation computes element by element: what uses
// its result may begin with the first element, and ends after the last. A warp
// goes on behind the issue of its instructions; at the next operation that
// others notice, all that it has computed has to be there, for the assembler
// moves nothing across these.
//===----------------------------------------------------------------------===//

#include "attn/Emulator/Timing.h"
#include "attn/Analysis/OnChip.h"

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
  constexpr int64_t groupWarps =
      TargetInfo::warpgroupThreads / TargetInfo::warpThreads;
  // As RoleLayout has it.
  bool ofWarps = !kernel.registers &&
                 llvm::none_of(kernel.roles, [](const RoleInfo &role) {
                   return role.isGroup;
                 });
  int64_t threads = ofWarps ? kernel.warps * TargetInfo::warpThreads
                            : ceilDiv(kernel.warps, groupWarps) *
                                  TargetInfo::warpgroupThreads;
  return onchip::occupancy({threads, kernel.sharedBytes, kernel.registers},
                           kernel.blocks, target);
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

/// Of one warp: cycles of shared memory, through which exchanges go as well.
static int64_t sharedCyclesOf(const OpCost &cost) {
  return cost.loads.wavefronts + cost.stores.wavefronts +
         cost.asyncStores.wavefronts + cost.shuffles;
}

/// What each part of an operation takes of so many: shares that differ by one
/// at most.
static int64_t shareOf(int64_t all, const Work &work) {
  return all * (work.done + 1) / work.parts - all * work.done / work.parts;
}

void Timing::end(Agent &agent) {
  const Instruction &instruction = agent.instruction();
  const OpCost &cost = instruction.cost;
  int64_t instructions = cost.instructions();
  if (!instructions && !cost.flops && !touchedBytes)
    return;
  Work &work = agent.work;
  work = {};
  // Small enough for warps to share their scheduler, whose pipes would be taken
  // by one operation after the other.
  constexpr int64_t atOnce = 16;
  work.parts = std::max<int64_t>(ceilDiv(instructions, atOnce), 1);
  // An element of the result needs one of each input; a reduction needs all.
  work.start = work.inputsReady = agent.time;
  for (SlotId slot : instruction.inputs)
    if (auto value = agent.registersAt(slot)) {
      work.start = std::max(work.start, value->first);
      work.inputsReady = std::max(work.inputsReady, value->ready);
    }
  // Loads by threads; what a scalar is loaded for waits at once.
  if (touchedBytes && !cost.isCopy) {
    Cycles way =
        take(of(agent).port, work.start, touchedBytes, rates.l2PortBytes);
    if (missedBytes)
      way = std::max(way,
                     take(memory, work.start, missedBytes, rates.memoryBytes));
    work.loaded = way + (missedBytes ? rates.memoryLatency : rates.l2Latency);
  }
  report(agent, agent.outstandingSite, agent.outstandingPipe, agent.time,
         work.start);
  agent.time = work.start;
}

/// Issues a part of an operation's instructions. A warp has them one after the
/// other, at the pace of one warp; pipes and registers are for all warps of a
/// scheduler.
void Timing::goOn(Agent &agent) {
  constexpr int64_t tenths = 10;
  Work &work = agent.work;
  const OpCost &cost = agent.instruction().cost;
  Multiprocessor &place = of(agent);
  Cycles start = agent.time;
  bool isBesideProducts = place.tensor > start;
  auto share = [&](int64_t all) { return shareOf(all, work); };
  int64_t fma = share(cost.fma), alu = share(cost.alu),
          special = share(cost.special), reads = share(cost.reads),
          mma = share(cost.mmaCycles),
          instructions = share(cost.instructions());
  const GpuRates::Pace &pace =
      isBesideProducts ? rates.besideProducts : rates.alone;
  work.tenths += fma * pace.fma + alu * pace.alu + special * pace.special +
                 (instructions - fma - alu - special) * tenths;
  Cycles end = start + work.tenths / tenths;
  work.tenths %= tenths;
  auto use = [&](Cycles &free, Cycles takes) {
    if (!takes)
      return;
    free = std::max(free, start) + takes;
    end = std::max(end, free);
  };
  constexpr int64_t lanes = TargetInfo::warpThreads;
  forSchedulers(agent, [&](Scheduler &scheduler) {
    use(scheduler.issue, instructions);
    use(scheduler.fma, fma * lanes / rates.fmaLanes);
    use(scheduler.alu, alu * lanes / rates.aluLanes);
    use(scheduler.special, special * lanes / rates.specialLanes);
    // mma.sync reads as much as the registers give.
    use(scheduler.registers,
        mma + reads * GpuRates::registerCycles / GpuRates::registerReads);
  });
  use(place.shared, share(sharedCyclesOf(cost)) * agent.warps);
  if (isBesideProducts)
    delayProducts(agent, reads, end);
  agent.time = end;
  if (++work.done == work.parts)
    finish(agent);
}

/// Products of warpgroups wait for what instructions read beyond what is left
/// beside them; they go on in all schedulers together.
void Timing::delayProducts(Agent &agent, int64_t reads, Cycles end) {
  constexpr int64_t left = GpuRates::registerReads - GpuRates::registerCycles;
  constexpr int64_t each = GpuRates::registerCycles / left;
  Multiprocessor &place = of(agent);
  forSchedulers(agent, [&](Scheduler &scheduler) {
    Cycles free = std::max(scheduler.spare, agent.time) + reads * each;
    scheduler.spare = std::min(free, end);
    place.delay += free - scheduler.spare;
  });
  place.tensor += place.delay / (each * rates.schedulers);
  place.delay %= each * rates.schedulers;
}

void Timing::forSchedulers(const Agent &agent,
                           llvm::function_ref<void(Scheduler &)> visit) {
  for (int64_t warp = 0; warp < agent.warps; ++warp)
    visit(of(agent)
              .schedulers[size_t((agent.firstWarp + warp) % rates.schedulers)]);
}

/// Where an operation spends most of its time.
Pipe Timing::pipeOf(const Agent &agent) const {
  const OpCost &cost = agent.instruction().cost;
  if (cost.tensorCycles)
    return Pipe::Tensor;
  if (agent.work.loaded)
    return Pipe::Copy;
  int64_t lanes = TargetInfo::warpThreads;
  int64_t shared = sharedCyclesOf(cost) * agent.warps;
  Pipe pipe = Pipe::Issue;
  Cycles most = cost.instructions();
  for (auto [other, takes] :
       {std::pair(Pipe::Alu, cost.alu * lanes / rates.aluLanes),
        std::pair(Pipe::Fma, cost.fma * lanes / rates.fmaLanes),
        std::pair(Pipe::Special, cost.special * lanes / rates.specialLanes),
        std::pair(Pipe::Shared, shared),
        std::pair(Pipe::Tensor, cost.mmaCycles)})
    if (takes >= most && takes) {
      pipe = other;
      most = takes;
    }
  return pipe;
}

void Timing::finish(Agent &agent) {
  const Instruction &instruction = agent.instruction();
  const OpCost &cost = instruction.cost;
  const Work work = agent.work;
  Pipe pipe = pipeOf(agent);
  agent.work = {};
  Cycles ready = std::max(agent.time, work.inputsReady) + cost.latency;
  if (work.loaded && !instruction.outputs.empty())
    ready = std::max(ready, work.loaded);
  else if (!instruction.isShared)
    agent.time = std::max(agent.time, work.loaded);
  if (cost.tensorCycles) {
    Multiprocessor &place = of(agent);
    Product &product = agent.products.back();
    Cycles from = std::max(place.tensor, agent.time);
    place.tensor = from + cost.tensorCycles;
    product.end = place.tensor + rates.productLatency;
    product.result->first = product.result->ready = product.end;
    if (machine.observer)
      machine.observer->ranBeside(agent, instruction.site, Pipe::Tensor, from,
                                  product.end);
  }
  for (SlotId slot : instruction.outputs)
    if (auto value = agent.registersAt(slot)) {
      value->first = cost.isReduction ? ready : work.start + cost.latency;
      value->ready = ready;
    }
  report(agent, instruction.site, pipe, work.start, agent.time);
  if (ready > agent.outstanding) {
    agent.outstanding = ready;
    agent.outstandingSite = instruction.site;
    agent.outstandingPipe = pipe;
  }
  count(agent, [&](Counters &counters) {
    int64_t warps = agent.warps;
    counters.instructions += cost.instructions() * warps;
    counters.fma += cost.fma * warps;
    counters.alu += cost.alu * warps;
    counters.special += cost.special * warps;
    counters.shuffles += cost.shuffles * warps;
    counters.mmaCycles += cost.mmaCycles * warps;
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
