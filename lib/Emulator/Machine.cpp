//===- Machine.cpp - Who goes on, and what takes effect -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Search.h"
#include "attn/Emulator/Timing.h"

#include <algorithm>
#include <cstring>

using namespace ::attn::emulator;

/// A kernel that takes longer does not end.
static constexpr uint64_t mostSteps = 200'000'000;

const KernelProgram *Program::find(const std::string &name) const {
  for (const auto &kernel : kernels)
    if (kernel->name == name)
      return kernel.get();
  return nullptr;
}

Machine::Machine(const Program &program, const Schedule &schedule,
                 Explorer *explorer)
    : program(program), schedule(schedule),
      isTraced(schedule.mode == Schedule::Mode::Departs), explorer(explorer),
      state(schedule.seed * 0x9E3779B97F4A7C15u + 0x1234567u) {
  // How many blocks run at once is up to the device.
  if (schedule.mode != Schedule::Mode::Eager &&
      schedule.mode != Schedule::Mode::Departs)
    residentBlocks = 1 + int64_t(random(4));
}

uint64_t Machine::random(uint64_t below) {
  // splitmix64
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return below ? (z ^ (z >> 31)) % below : 0;
}

//===----------------------------------------------------------------------===//
// Launches and blocks
//===----------------------------------------------------------------------===//

void Machine::addBuffer(char *data, size_t bytes, std::string name,
                        bool isInput, bool isWritten) {
  GlobalBuffer buffer;
  buffer.data = data;
  buffer.bytes = bytes;
  buffer.name = std::move(name);
  buffer.isInput = isInput && !isWritten;
  constexpr uint64_t alignment = 4096;
  if (!buffers.empty())
    buffer.base = (buffers.back().base + buffers.back().bytes + alignment - 1) /
                  alignment * alignment;
  if (!buffer.isInput)
    buffer.cells.assign(bytes, isWritten ? AccessTable::written
                                         : AccessTable::unwritten);
  buffers.push_back(std::move(buffer));
}

void Machine::noteAtomic(const char *data, size_t bytes) {
  if (!isTraced)
    return;
  for (size_t i = 0; i < buffers.size(); ++i) {
    auto at = size_t(data - buffers[i].data);
    if (data >= buffers[i].data && at < buffers[i].bytes)
      trace.note({{Object::Memory, {uint32_t(i), 0, 0, 0}},
                  Effect::Exclusive,
                  0,
                  false,
                  at,
                  at + bytes});
  }
}

GlobalBuffer *Machine::find(const char *data) {
  for (GlobalBuffer &buffer : buffers)
    if (data >= buffer.data && data < buffer.data + buffer.bytes)
      return &buffer;
  return nullptr;
}

void Machine::keepTime() {
  timing = std::make_shared<Timing>(*this, program.target);
}

int64_t Machine::residentBlocksOf(const KernelProgram &kernel) const {
  return timing ? timing->residentBlocksOf(kernel)
                : residentBlocks * kernel.cluster;
}

void Machine::launch(std::unique_ptr<LaunchState> launch) {
  launch->number = uint32_t(launches.size());
  for (int64_t i = 0; launch->kernel && i < launch->grid;
       i += launch->kernel->cluster)
    launch->order.push_back(i);
  if (schedule.mode == Schedule::Mode::Random ||
      schedule.mode == Schedule::Mode::Adversary)
    for (size_t i = launch->order.size(); i > 1; --i)
      std::swap(launch->order[i - 1], launch->order[random(i)]);
  launches.push_back(std::move(launch));
}

const LaunchState *Machine::previousOf(const LaunchState &launch) const {
  return launch.number ? launches[launch.number - 1].get() : nullptr;
}

bool Machine::mayOverlap(const LaunchState &launch) const {
  const LaunchState *previous = previousOf(launch);
  return launch.isProgrammatic && launch.kernel && previous && previous->kernel;
}

bool Machine::mayBegin(const LaunchState &launch) const {
  if (const LaunchState *previous = previousOf(launch); mayOverlap(launch))
    return previous->hasBegun && previous->lettingStart == previous->grid;
  return std::all_of(launches.begin(), launches.begin() + launch.number,
                     [](const auto &earlier) { return earlier->hasEnded; });
}

void Machine::startBlocks() {
  for (auto &launch : launches) {
    if (launch->hasEnded)
      continue;
    if (!launch->hasBegun) {
      if (!mayBegin(*launch))
        return;
      launch->hasBegun = true;
      // What has ended by chance does not count.
      if (const LaunchState *previous = previousOf(*launch);
          mayOverlap(*launch)) {
        launch->finishedBefore = previous->finishedBefore;
        launch->begins.push_back(
            {previous->object(Object::Letting), Effect::Take, 1});
      } else {
        launch->finishedBefore = launch->number;
        for (uint32_t i = 0; i < launch->number; ++i)
          launch->begins.push_back(
              {launches[i]->object(Object::Ended), Effect::Take, 1});
      }
      if (timing)
        timing->beginLaunch(*launch, previousOf(*launch));
      if (launch->action)
        launch->action();
      if (!launch->grid) {
        launch->hasEnded = true;
        continue;
      }
      launch->impliesEarlier = !mayOverlap(*launch);
    }
    const KernelProgram &kernel = *launch->kernel;
    int64_t room = std::max<int64_t>(kernel.isPersistent ? launch->grid
                                     : timing ? residentBlocksOf(kernel)
                                              : residentBlocks,
                                     kernel.cluster);
    while (launch->started < launch->grid &&
           launch->started - launch->ended < room)
      if (!startCluster(*launch))
        return;
  }
}

bool Machine::startCluster(LaunchState &launch) {
  const KernelProgram &kernel = *launch.kernel;
  int64_t first = launch.order[size_t(launch.started / kernel.cluster)];
  auto cluster = std::make_unique<Cluster>();
  cluster->launch = &launch;
  cluster->unit = nextUnit++;
  auto lines = uint32_t(kernel.cluster * kernel.warps * numLines);
  auto perBlock = uint32_t(kernel.mbarriers.size());
  cluster->dependencies = lines + uint32_t(kernel.cluster) * perBlock;
  cluster->components = cluster->dependencies + 1;
  for (int64_t rank = 0; rank < kernel.cluster; ++rank) {
    auto block = std::make_unique<ThreadBlock>();
    block->cluster = cluster.get();
    block->number = first + rank;
    block->rank = rank;
    for (const RegionInfo &info : kernel.regions) {
      SharedRegion region;
      region.info = &info;
      const TileInfo &tile = info.tile;
      size_t rows = size_t(tile.rows) * info.stages;
      region.cellsPerRow =
          (tile.cols + info.cellElements - 1) / info.cellElements;
      // What nobody wrote is no number.
      region.words.assign(rows * size_t(tile.cols), 0x7fc0dead);
      region.cells.assign(rows * size_t(region.cellsPerRow),
                          info.isRamp ? uint32_t(AccessTable::written)
                                      : uint32_t(AccessTable::unwritten));
      for (int64_t r = 0; info.isRamp && r < tile.rows; ++r)
        for (int64_t c = 0; c < tile.cols; ++c) {
          float value = c < 3 ? float(r) : 0.0f;
          std::memcpy(&region.words[size_t(r * tile.cols + c)], &value, 4);
        }
      block->regions.push_back(std::move(region));
    }
    for (uint32_t i = 0; i < perBlock; ++i) {
      MBarrier barrier;
      barrier.info = &kernel.mbarriers[i];
      barrier.pending = barrier.info->arrivals;
      barrier.component = lines + uint32_t(rank) * perBlock + i;
      barrier.clock = barrier.past = Clock(cluster->components);
      barrier.object = {Object::MBarrier,
                        {launch.number, uint32_t(first + rank), i, 0}};
      block->mbarriers.push_back(std::move(barrier));
    }
    for (const BarrierInfo &info : kernel.barriers) {
      Barrier barrier;
      barrier.info = &info;
      barrier.clock = barrier.past = Clock(cluster->components);
      barrier.object = {Object::Barrier,
                        {launch.number, uint32_t(first + rank),
                         uint32_t(block->barriers.size()), 0}};
      block->barriers.push_back(std::move(barrier));
    }
    block->drawn.resize(kernel.schedules.size());
    for (const ScheduleInfo &schedule : kernel.schedules)
      block->handed.emplace_back(size_t(schedule.slots));
    if (timing)
      timing->beginBlock(*block);
    for (const RoleInfo &role : kernel.roles)
      for (int64_t member = 0; member < role.count; ++member) {
        block->agents.push_back(
            std::make_unique<Agent>(*this, *block, role, member));
        agents.push_back(block->agents.back().get());
        agents.back()->id = {launch.number, uint32_t(first + rank),
                             uint32_t(block->agents.size() - 1), 0};
        agents.back()->creator = launch.lastEnd;
        agents.back()->time = agents.back()->outstanding = block->start;
        ++cluster->live;
        ++block->live;
      }
    cluster->blocks.push_back(std::move(block));
  }
  units[cluster->unit] = {&launch, first};
  launch.started += kernel.cluster;
  launch.clusters.push_back(std::move(cluster));
  return true;
}

/// What is wrong with the rings of blocks that have ended: each barrier has as
/// many arrivals as its phases take, and each slot has been released as often
/// as filled. Nobody waits for these any more; one item more would meet them.
static std::string atRest(const Cluster &cluster) {
  const KernelProgram &kernel = *cluster.launch->kernel;
  for (auto &block : cluster.blocks) {
    std::string where =
        "block " + std::to_string(block->number) + " ends with ";
    for (const RingInfo &ring : kernel.rings)
      for (int64_t i = 0; ring.empty >= 0 && i < ring.stages; ++i) {
        const MBarrier &full = block->mbarriers[size_t(ring.full + i)];
        const MBarrier &empty = block->mbarriers[size_t(ring.empty + i)];
        for (const MBarrier *barrier : {&full, &empty})
          if (barrier->pending != barrier->info->arrivals || barrier->bytes)
            return where +
                   std::to_string(barrier->info->arrivals - barrier->pending) +
                   " of " + std::to_string(barrier->info->arrivals) +
                   " arrivals at the " + barrier->info->name;
        if (empty.phase != full.phase)
          return where + "slot " + std::to_string(i) + " of " + ring.name +
                 " released " + std::to_string(empty.phase) +
                 " times, and filled " + std::to_string(full.phase) + " times";
      }
    for (const Barrier &barrier : block->barriers)
      if (barrier.arrived)
        return where + std::to_string(barrier.arrived) + " of " +
               std::to_string(barrier.info->warps) + " warps at " +
               barrier.info->name;
  }
  return "";
}

void Machine::endCluster(Cluster &cluster) {
  LaunchState &launch = *cluster.launch;
  bool hasArrivals = false;
  for (const Pending &one : pending) {
    if (one.agent->block.cluster != &cluster)
      continue;
    // A copy would meet foreign memory.
    if (one.isArrival()) {
      hasArrivals = true;
      continue;
    }
    const Site &site = launch.kernel->sites[one.site];
    return fail(emulator::describe(*one.agent) + ": " + one.what + " of '" +
                site.op + "' is still under way when its block ends");
  }
  if (hasArrivals)
    return;
  if (std::string text = atRest(cluster); !text.empty())
    return fail(text);
  note(cluster.object(Object::Live), Effect::Take, 1);
  note(cluster.object(Object::Open), Effect::Check);
  note(launch.object(Object::Ended), Effect::Give);
  // Who ends first makes room for others first.
  if (launch.started < launch.grid || launch.lastEnd != Event::noCreator)
    note(launch.object(Object::Room), Effect::Exclusive);
  if (isTraced && launch.started < launch.grid)
    launch.lastEnd = trace.start();
  for (auto &block : cluster.blocks) {
    if (timing)
      timing->endBlock(*block);
    launch.impliesEarlier |= block->knowsDependencies;
    if (!block->letsDependentsStart) {
      ++launch.lettingStart;
      note(launch.object(Object::Letting), Effect::Give);
    }
    for (auto &agent : block->agents)
      agents.erase(std::find(agents.begin(), agents.end(), agent.get()));
    ++launch.ended;
  }
  for (auto &one : launch.clusters)
    if (one.get() == &cluster) {
      std::swap(one, launch.clusters.back());
      launch.clusters.pop_back();
      break;
    }
  if (launch.ended == launch.grid) {
    launch.hasEnded = true;
    if (timing)
      timing->endLaunch(launch);
    ++version;
  }
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

Object Cluster::object(Object::Kind kind) const {
  return {kind, {launch->number, uint32_t(blocks.front()->number), 0, 0}};
}

StartedPtr Machine::defer(Agent &agent, std::string what,
                          std::function<void()> effect, StartedPtr after) {
  auto done = std::make_shared<Started>();
  if (schedule.mode == Schedule::Mode::Eager && (!after || after->hasEnded)) {
    effect();
    done->hasEnded = true;
    ++version;
    return done;
  }
  done->id = agent.id;
  done->id.number = ++agent.numStarted;
  pending.push_back({&agent, std::move(what), agent.site(), std::move(effect),
                     std::move(after), done,
                     isTraced ? trace.start() : Event::noCreator});
  return done;
}

bool Machine::meetsEnded(const Agent &agent, uint32_t site,
                         const std::string &what, const ThreadBlock &target) {
  const KernelProgram &kernel = agent.program;
  if (!kernel.endsApart || &target == &agent.block)
    return false;
  note(target.cluster->object(Object::Live), Effect::Check);
  if (target.live)
    return false;
  fail(emulator::describe(agent) + ": " + what + " of '" +
       kernel.sites[site].op + "' comes to block " +
       std::to_string(target.number) +
       " of its cluster, which has ended: its shared memory is gone");
  return true;
}

void Machine::complete(size_t index) {
  Pending one = std::move(pending[index]);
  pending.erase(pending.begin() + long(index));
  one.effect();
  one.done->hasEnded = true;
  ++version;
  Cluster &cluster = *one.agent->block.cluster;
  if (isTraced) {
    note({Object::Started, one.done->id}, Effect::Give);
    if (one.after)
      note({Object::Started, one.after->id}, Effect::Take, 1);
    note(cluster.object(one.isArrival() ? Object::Live : Object::Open),
         Effect::Give);
  } else if (cluster.live == 0) {
    endCluster(cluster);
  }
}

bool Machine::isReady(Agent &agent) const {
  return !agent.isBlocked || *agent.watched != agent.versionSeen;
}

bool Machine::isVictim(const Agent &agent) const {
  if (schedule.mode != Schedule::Mode::Adversary)
    return false;
  const auto &all = agent.block.agents;
  return all[schedule.seed % all.size()].get() == &agent;
}

/// Lets the clock come to the end of an instruction that has been run, and goes
/// on to the next one; whether the agent may, too. Others whose clocks are
/// behind go first.
bool Machine::pass(Agent &agent) {
  agent.isTimed = true;
  for (; agent.work.parts; timing->goOn(agent))
    if (agent.time > timeLimit)
      return false;
  agent.isTimed = false;
  bool isShared = agent.instruction().isShared;
  agent.goOn();
  return !isShared && agent.time <= timeLimit;
}

void Machine::step(Agent &agent) {
  agent.isBlocked = false;
  if (agent.isTimed && !pass(agent))
    return;
  bool hasShared = false;
  while (!failed()) {
    const Instruction &instruction = agent.program.code[agent.pc];
    // Others may go first.
    if (instruction.isShared && hasShared)
      return;
    hasShared |= instruction.isShared;
    if (++steps > mostSteps)
      return fail("the kernel does not end");
    if (timing)
      timing->begin(agent);
    switch (instruction.run(agent)) {
    case Step::Next:
      if (!timing) {
        agent.goOn();
        break;
      }
      timing->end(agent);
      if (!pass(agent))
        return;
      break;
    case Step::Blocked:
      return;
    case Step::Done: {
      agent.isDone = true;
      Cluster &cluster = *agent.block.cluster;
      note(cluster.object(Object::Live), Effect::Give);
      --agent.block.live;
      if (--cluster.live == 0) {
        if (isTraced)
          ending.push_back(&cluster);
        else
          endCluster(cluster);
      }
      return;
    }
    case Step::Stop:
      if (!failed())
        fail("stopped without a reason");
      return;
    }
  }
}

/// Goes on with the agent whose clock is least, until another one's is.
void Machine::stepByTime(std::vector<Agent *> &ready) {
  Agent *first = ready.front();
  timeLimit = std::numeric_limits<Cycles>::max();
  for (Agent *agent : ready)
    if (agent->time < first->time)
      first = agent;
  for (Agent *agent : ready)
    if (agent != first)
      timeLimit = std::min(timeLimit, agent->time);
  step(*first);
}

/// An agent, what is under way, or the end of a cluster.
struct Machine::Candidate {
  Agent *agent = nullptr;
  size_t index = 0;
  Cluster *cluster = nullptr;
  ProcessId id;
};

/// Who may come next, in an order that does not depend on who was found to
/// wait: who went last, the other agents, what is under way, ends.
std::vector<Machine::Candidate> Machine::candidates() const {
  std::vector<Candidate> result;
  for (Agent *agent : agents)
    if (!agent->isDone)
      result.push_back({agent, 0, nullptr, agent->id});
  auto last =
      std::find_if(result.begin(), result.end(), [&](const Candidate &one) {
        return one.agent == lastStepped;
      });
  if (last != result.end())
    std::rotate(result.begin(), last, last + 1);
  for (size_t i = 0; i < pending.size(); ++i)
    if (!pending[i].after || pending[i].after->hasEnded)
      result.push_back({nullptr, i, nullptr, pending[i].done->id});
  for (Cluster *cluster : ending) {
    bool hasArrivals =
        std::any_of(pending.begin(), pending.end(), [&](const Pending &one) {
          return one.agent->block.cluster == cluster && one.isArrival();
        });
    ProcessId id = cluster->object(Object::Live).of;
    id.agent = ProcessId::end;
    if (!hasArrivals)
      result.push_back({nullptr, 0, cluster, id});
  }
  return result;
}

/// An event; false where there was none, as an agent waits.
bool Machine::take(const Candidate &candidate) {
  if (candidate.cluster) {
    trace.begin(candidate.id, Event::noCreator);
    ending.erase(std::find(ending.begin(), ending.end(), candidate.cluster));
    lastStepped = nullptr;
    endCluster(*candidate.cluster);
    return true;
  }
  if (!candidate.agent) {
    trace.begin(candidate.id, pending[candidate.index].creator);
    complete(candidate.index);
    return true;
  }
  Agent &agent = *candidate.agent;
  const LaunchState &launch = *agent.block.cluster->launch;
  trace.begin(candidate.id, agent.creator);
  // What nobody can tell the time of belongs to what follows.
  do
    step(agent);
  while (!failed() && trace.isSilent() && !agent.isBlocked);
  if (trace.isSilent() && !failed()) {
    trace.events.pop_back();
    return false;
  }
  if (!agent.hasBegun)
    for (const Effect &effect : launch.begins)
      trace.note(effect);
  agent.hasBegun = true;
  lastStepped = &agent;
  return true;
}

/// Goes on with who went last, unless this event is a departure from that.
/// False where nobody goes on.
bool Machine::stepAsTold() {
  auto number = uint32_t(trace.events.size());
  std::vector<Candidate> all = candidates();
  std::vector<size_t> order;
  std::optional<size_t> told;
  for (auto [at, what] : schedule.departures)
    if (at == number && what < all.size())
      told = what;
  if (const ProcessId *id = explorer ? explorer->next(number) : nullptr)
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].id == *id)
        told = i;
  if (told)
    order.push_back(*told);
  for (size_t i = 0; i < all.size(); ++i)
    order.push_back(i);
  auto mayGo = [&](size_t i) {
    return !all[i].agent || isReady(*all[i].agent);
  };
  for (size_t i : order) {
    if (!mayGo(i) || (explorer && !explorer->mayTake(number, all[i].id)))
      continue;
    if (!take(all[i]))
      continue;
    // Where others could have gone before it.
    for (size_t j = 0; j < i; ++j)
      if (mayGo(j)) {
        departures.push_back({number, uint32_t(i)});
        break;
      }
    if (explorer && !failed())
      explorer->took(trace);
    return true;
  }
  return false;
}

bool Machine::run() {
  std::vector<Agent *> ready;
  std::vector<size_t> open;
  while (!failed()) {
    startBlocks();
    ready.clear();
    open.clear();
    bool isLive = false;
    for (Agent *agent : agents) {
      isLive |= !agent->isDone;
      if (!agent->isDone && isReady(*agent))
        ready.push_back(agent);
    }
    for (size_t i = 0; i < pending.size(); ++i)
      if (!pending[i].after || pending[i].after->hasEnded)
        open.push_back(i);
    if (isTraced && stepAsTold())
      continue;
    if (explorer && explorer->isRedundant())
      return true;
    if (isTraced || (ready.empty() && open.empty())) {
      bool hasLaunches =
          std::any_of(launches.begin(), launches.end(),
                      [](const auto &launch) { return !launch->hasEnded; });
      if (isLive || hasLaunches)
        fail(describeDeadlock());
      return !failed();
    }
    using Mode = Schedule::Mode;
    if (schedule.mode == Mode::Eager || schedule.mode == Mode::Lazy) {
      if (!ready.empty() && timing)
        stepByTime(ready);
      else if (!ready.empty())
        step(*ready[lastAgent++ % ready.size()]);
      else
        complete(open[random(open.size())]);
      continue;
    }
    // The victim and what it has started come last.
    if (schedule.mode == Mode::Adversary) {
      auto isLast = [&](Agent *agent) { return isVictim(*agent); };
      std::vector<size_t> others;
      for (size_t i : open)
        if (!isLast(pending[i].agent))
          others.push_back(i);
      std::vector<Agent *> quick;
      for (Agent *agent : ready)
        if (!isLast(agent))
          quick.push_back(agent);
      if (!others.empty() || !quick.empty()) {
        open.swap(others);
        ready.swap(quick);
      } else if (!ready.empty()) {
        open.clear();
      }
    }
    if (ready.empty() || (!open.empty() && random(2)))
      complete(open[random(open.size())]);
    else
      step(*ready[random(ready.size())]);
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

std::string attn::emulator::roleText(const RoleInfo &role, int64_t member) {
  return (role.isGroup ? "warpgroup " : "warp ") + std::to_string(member) +
         " of role '" + role.name + "'";
}

std::string attn::emulator::describe(const Agent &agent) {
  return "block " + std::to_string(agent.block.number) + ", " +
         roleText(agent.role, agent.member);
}

static std::string siteText(const KernelProgram &kernel, uint32_t site) {
  const Site &s = kernel.sites[site];
  std::string text = "'" + s.op + "'";
  if (!s.location.empty())
    text += " at " + s.location;
  return text;
}

std::string Machine::describe(const Epoch &epoch) const {
  auto it = units.find(epoch.unit);
  if (it == units.end())
    return "an earlier access";
  const KernelProgram &kernel = *it->second.launch->kernel;
  std::string text = siteText(kernel, epoch.site) + " of ";
  int64_t lines = kernel.cluster * kernel.warps * numLines;
  if (int64_t(epoch.component) >= lines) {
    int64_t index = epoch.component - lines;
    auto perBlock = int64_t(kernel.mbarriers.size());
    return text + "block " +
           std::to_string(it->second.firstBlock + index / perBlock) +
           " (a copy that ends at the barrier " +
           kernel.mbarriers[size_t(index % perBlock)].name + ")";
  }
  int64_t warp = epoch.component / numLines % kernel.warps;
  int64_t block = epoch.component / numLines / kernel.warps;
  text += "block " + std::to_string(it->second.firstBlock + block) + ", ";
  for (const RoleInfo &role : kernel.roles)
    if (warp >= role.firstWarp && warp < role.firstWarp + role.warps) {
      int64_t inRole = warp - role.firstWarp;
      text += roleText(role, role.isGroup ? inRole / 4 : inRole);
      if (role.isGroup)
        text += ", its warp " + std::to_string(inRole % 4);
    }
  const char *lineNames[] = {"", " (a product)", " (a bulk copy)",
                             " (a bulk copy)", " (copies of cp.async)"};
  return text + lineNames[epoch.component % numLines];
}

std::string Machine::describeDeadlock() const {
  std::string text = "nobody can go on:";
  for (const Agent *agent : agents) {
    text += "\n  " + emulator::describe(*agent);
    if (agent->isDone)
      text += " has ended";
    else
      text += " at " + siteText(agent->program, agent->site()) + " waits for " +
              (agent->waiting ? agent->waiting() : "nothing");
  }
  return text;
}
