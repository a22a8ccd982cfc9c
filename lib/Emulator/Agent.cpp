//===- Agent.cpp - What warps and warpgroups do to each other -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Models.h"
#include "attn/Emulator/Timing.h"

#include <algorithm>

using namespace ::attn::emulator;

Agent::Agent(Machine &machine, ThreadBlock &block, const RoleInfo &role,
             int64_t member)
    : machine(machine), block(block), program(*block.cluster->launch->kernel),
      role(role), member(member),
      firstWarp(role.firstWarp + member * (role.isGroup ? 4 : 1)),
      warps(role.isGroup ? 4 : 1), frame(block.cluster->launch->frame) {
  for (int64_t warp = 0; warp < warps; ++warp) {
    clocks.emplace_back(block.cluster->components);
    now.push_back(0);
    tick(warp);
  }
  if (role.member != noSlot)
    frame[role.member].bits = member;
}

void Agent::tick(int64_t warp) {
  clocks[size_t(warp)].seen[component(warp, lineThread)] = ++now[size_t(warp)];
}

void Agent::fence() {
  for (Clock &clock : clocks)
    clock.fence();
}

bool Agent::fail(const std::string &message) {
  const Site &s = program.sites[site()];
  std::string where = s.location.empty() ? "" : s.location + ": ";
  machine.fail(where + "'" + s.op + "' of " + describe(*this) + " " + message);
  return false;
}

bool Agent::knows(const StartedPtr &started) {
  if (started->hasEnded)
    machine.note({Object::Started, started->id}, Effect::Take, 1);
  return started->hasEnded;
}

void Agent::await(Cycles until) {
  if (machine.timing)
    machine.timing->wait(*this, until);
}

Step Agent::wait(const uint64_t *version, std::function<std::string()> what) {
  isBlocked = true;
  watched = version;
  versionSeen = *version;
  waiting = std::move(what);
  return Step::Blocked;
}

std::shared_ptr<Registers> Agent::use(SlotId slot, bool byProduct) {
  auto value = registersAt(slot);
  if (!value)
    fail("uses registers that hold nothing");
  else if (value->takenBy)
    fail("uses an accumulator that a product in flight has taken");
  for (const Product &product : products)
    if (value && product.left == value && !byProduct)
      fail("uses an A fragment that a product in flight reads");
  return value;
}

//===----------------------------------------------------------------------===//
// Barriers in memory
//===----------------------------------------------------------------------===//

Step Agent::waitFor(MBarrier &barrier, uint32_t parity, uint64_t exact,
                    const char *what) {
  waitedAt = &barrier.info->name;
  bool isOpen = (barrier.phase & 1) != parity;
  if (barrier.phase > exact || (isOpen && barrier.phase != exact)) {
    fail("waits for " + std::string(what) + " (" + barrier.info->name +
         ") by the parity of phase " + std::to_string(exact) + " where " +
         std::to_string(barrier.phase) + " have ended");
    return Step::Stop;
  }
  if (!isOpen)
    return wait(&barrier.version, [&barrier, exact, what] {
      return std::string(what) + " (" + barrier.info->name + ": " +
             std::to_string(barrier.phase) + " of " + std::to_string(exact) +
             " phases have ended, " + std::to_string(barrier.pending) +
             " arrival(s) and " + std::to_string(barrier.bytes) +
             " byte(s) are to come)";
    });
  machine.note(barrier.object, Effect::Take, exact);
  for (Clock &clock : clocks)
    clock.join(barrier.past);
  await(barrier.ended);
  return Step::Next;
}

static void finishPhase(Machine &machine, MBarrier &barrier) {
  if (barrier.pending < 0)
    return machine.fail("more arrivals at " + barrier.info->name +
                        " than the " + std::to_string(barrier.info->arrivals) +
                        " that a phase has");
  if (barrier.pending || barrier.bytes)
    return;
  machine.noteLast();
  ++barrier.phase;
  barrier.ended = barrier.latest;
  barrier.pending = barrier.info->arrivals;
  barrier.clock.seen[barrier.component] = uint32_t(barrier.phase);
  barrier.clock.fenced[barrier.component] = uint32_t(barrier.phase);
  // What arrives from now on is of the next phase.
  barrier.past = barrier.clock;
  ++barrier.version;
}

namespace attn::emulator {
void completeBytes(Machine &machine, MBarrier &barrier, int64_t bytes,
                   Cycles at) {
  machine.note(barrier.object, Effect::Give, barrier.phase);
  barrier.latest = std::max(barrier.latest, at);
  barrier.bytes -= bytes;
  finishPhase(machine, barrier);
}

void completeArrival(Machine &machine, MBarrier &barrier, const Clock &known,
                     int64_t bytes, Cycles at) {
  barrier.clock.join(known);
  --barrier.pending;
  completeBytes(machine, barrier, -bytes, at);
}
} // namespace attn::emulator

/// When others notice what this agent does now.
Cycles Agent::arrivalTime() const {
  return machine.timing ? time + machine.timing->barrierLatency() : 0;
}

void Agent::arrive(ThreadBlock &target, int64_t index, int64_t warp,
                   int64_t bytes) {
  MBarrier &barrier = target.mbarriers[size_t(index)];
  std::string what = "an arrival at " + barrier.info->name;
  machine.defer(*this, what,
                [this, what, &target, &barrier, bytes, from = site(),
                 known = clocks[size_t(warp)], at = arrivalTime()] {
                  if (!machine.meetsEnded(*this, from, what, target))
                    completeArrival(machine, barrier, known, bytes, at);
                });
  tick(warp);
}

void Agent::arriveAll(ThreadBlock &target, int64_t barrier) {
  for (int64_t warp = 0; warp < warps; ++warp)
    arrive(target, barrier, warp);
}

//===----------------------------------------------------------------------===//
// Hardware barriers
//===----------------------------------------------------------------------===//

void Agent::joinWarps() {
  if (warps == 1)
    return;
  Clock all = clocks[0];
  for (const Clock &clock : clocks)
    all.join(clock);
  for (int64_t warp = 0; warp < warps; ++warp) {
    clocks[size_t(warp)] = all;
    tick(warp);
  }
}

void Agent::arriveAt(int64_t index) {
  Barrier &barrier = block.barriers[size_t(index)];
  machine.note(barrier.object, Effect::Give, barrier.generation);
  for (int64_t warp = 0; warp < warps; ++warp) {
    barrier.clock.join(clocks[size_t(warp)]);
    tick(warp);
  }
  barrier.latest = std::max(barrier.latest, arrivalTime());
  barrier.arrived += warps;
  if (barrier.arrived > barrier.info->warps) {
    fail("is one warp too many at " + barrier.info->name + " of " +
         std::to_string(barrier.info->warps) + " warps");
    return;
  }
  if (barrier.arrived == barrier.info->warps) {
    barrier.arrived = 0;
    barrier.past = barrier.clock;
    barrier.ended = barrier.latest;
    machine.noteLast();
    ++barrier.generation;
    ++barrier.version;
  }
}

Step Agent::sync(int64_t index, uint32_t firstPart, bool fences) {
  Barrier &barrier = block.barriers[size_t(index)];
  waitedAt = &barrier.info->name;
  if (part == firstPart) {
    if (fences)
      fence();
    generation = barrier.generation;
    arriveAt(index);
    if (machine.failed())
      return Step::Stop;
    ++part;
    // Others may go between the arrival and what follows.
    if (machine.isTraced) {
      Step step = wait(&barrier.version, nullptr);
      --versionSeen;
      return step;
    }
  }
  if (barrier.generation == generation)
    return wait(&barrier.version, [&barrier] {
      return barrier.info->name + " (" + std::to_string(barrier.arrived) +
             " of " + std::to_string(barrier.info->warps) + " warps have come)";
    });
  machine.note(barrier.object, Effect::Take, generation + 1);
  for (Clock &clock : clocks)
    clock.join(barrier.past);
  await(barrier.ended);
  lateReads.clear();
  return Step::Next;
}

Step Agent::syncRole(uint32_t firstPart, bool fences) {
  if (role.isGroup || role.warps == 1) {
    // A member by itself.
    if (fences)
      fence();
    joinWarps();
    part = firstPart + 1;
    return Step::Next;
  }
  return sync(role.barrier, firstPart, fences);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Access Agent::access(int64_t warp, bool isWrite) const {
  const Cluster &cluster = *block.cluster;
  Access result;
  result.epoch = {cluster.launch->number, cluster.unit,
                  component(warp, lineThread), now[size_t(warp)], site()};
  result.isWrite = isWrite;
  result.known = &clocks[size_t(warp)];
  result.launchesBefore = cluster.launch->finishedBefore;
  result.dependencies = cluster.dependencies;
  return result;
}

bool Agent::touch(int64_t warp, const View &view, const Rect &rect,
                  bool isWrite) {
  return touch(block, view, rect, access(warp, isWrite));
}

static std::string partText(const SharedRegion &region, const View &view,
                            const Agent::Rect &rect) {
  const RegionInfo &info = *region.info;
  std::string text = info.name;
  if (info.stages > 1)
    text += " slot " + std::to_string(view.stage);
  return text + " rows " + std::to_string(view.row + rect.row) + " to " +
         std::to_string(view.row + rect.row + rect.rows - 1) + ", columns " +
         std::to_string(view.col + rect.col) + " to " +
         std::to_string(view.col + rect.col + rect.cols - 1);
}

static std::string conflictText(Machine &machine, Conflict conflict,
                                const Access &access, const Epoch &other,
                                const std::string &place) {
  std::string text = access.isWrite ? "writes " : "reads ";
  text += place;
  switch (conflict) {
  case Conflict::Unwritten:
    return text + ", which nobody has written";
  case Conflict::Race:
    return text + " while nothing orders it after the access of " +
           machine.describe(other);
  case Conflict::Proxy:
    return text +
           " by the async proxy, but no fence.proxy.async makes it see "
           "what was written by " +
           machine.describe(other);
  case Conflict::None:
    break;
  }
  return text;
}

bool Agent::touch(ThreadBlock &owner, const View &view, const Rect &rect,
                  Access access) {
  SharedRegion &region = owner.regions[view.region];
  const TileInfo &tile = region.info->tile;
  if (rect.rows <= 0 || rect.cols <= 0)
    return true;
  int64_t row = view.row + rect.row, col = view.col + rect.col;
  if (row < 0 || col < 0 || row + rect.rows > tile.rows ||
      col + rect.cols > tile.cols || view.stage >= region.info->stages)
    return fail("leaves shared memory: " + partText(region, view, rect) +
                " of a tile of " + std::to_string(tile.rows) + "x" +
                std::to_string(tile.cols));
  int64_t cell = region.info->cellElements;
  int64_t first = col / cell, last = (col + rect.cols - 1) / cell;
  Epoch other;
  Conflict conflict = machine.table.apply(
      [&](auto run) {
        for (int64_t r = row; r < row + rect.rows; ++r)
          run(region.cells.data() +
                  (int64_t(view.stage) * tile.rows + r) * region.cellsPerRow +
                  first,
              size_t(last - first + 1));
      },
      access, other);
  if (conflict == Conflict::None)
    return true;
  return fail(conflictText(machine, conflict, access, other,
                           partText(region, view, rect)));
}

bool Agent::touchGlobal(const char *data, size_t bytes, Access access) {
  if (!bytes)
    return true;
  GlobalBuffer *buffer = machine.find(data);
  if (!buffer || data + bytes > buffer->data + buffer->bytes)
    return fail("leaves the memory of all tensors");
  if (machine.timing)
    machine.timing->touch(*this,
                          (access.epoch.component / numLines) % program.warps,
                          buffer->base + uint64_t(data - buffer->data),
                          int64_t(bytes), access.isWrite);
  if (buffer->isInput)
    return !access.isWrite || fail("writes the input '" + buffer->name + "'");
  Epoch other;
  uint32_t *cells = &buffer->cells[size_t(data - buffer->data)];
  // Of a word of bits, bytes may stay unwritten that no key stands for.
  bool isPart = false;
  if (!access.isWrite && bytes <= 8)
    for (size_t i = 0; i < bytes; ++i)
      isPart |= cells[i] != AccessTable::unwritten;
  Conflict conflict = machine.table.apply(
      [&](auto run) {
        if (!isPart)
          return run(cells, bytes);
        for (size_t i = 0; i < bytes; ++i)
          if (cells[i] != AccessTable::unwritten)
            run(cells + i, 1);
      },
      access, other);
  if (conflict == Conflict::None)
    return true;
  return fail(conflictText(machine, conflict, access, other,
                           "'" + buffer->name + "' at byte " +
                               std::to_string(data - buffer->data)));
}

char *Agent::element(const MemrefValue &memref, const int64_t *indices,
                     int64_t elementBytes) {
  int64_t offset = 0;
  for (size_t i = 0; i < memref.sizes.size(); ++i) {
    // An input that is empty reads as zeros; the memory says whether it is one.
    int64_t size = std::max<int64_t>(memref.sizes[i], 1);
    if (indices[i] < 0 || indices[i] >= size) {
      fail("takes element " + std::to_string(indices[i]) + " of " +
           std::to_string(memref.sizes[i]) + " in dimension " +
           std::to_string(i));
      return nullptr;
    }
    offset += indices[i] * memref.strides[i];
  }
  return memref.data + offset * elementBytes;
}

//===----------------------------------------------------------------------===//
// Late reads
//===----------------------------------------------------------------------===//

void Agent::readLate(const View &view, Registers &result) {
  for (size_t i = 0; i < program.rings.size(); ++i) {
    const RingInfo &ring = program.rings[i];
    if (ring.empty < 0 || std::find(ring.regions.begin(), ring.regions.end(),
                                    view.region) == ring.regions.end())
      continue;
    uint64_t number = machine.nextNumber();
    lateReads.push_back({number, uint32_t(i), view.stage, site()});
    result.reads.push_back(number);
  }
}

void Agent::inherit(Registers &to, const Registers &from) const {
  for (uint64_t read : from.reads) {
    bool isLate =
        std::any_of(lateReads.begin(), lateReads.end(),
                    [&](const LateRead &late) { return late.number == read; });
    if (isLate &&
        std::find(to.reads.begin(), to.reads.end(), read) == to.reads.end())
      to.reads.push_back(read);
  }
}
