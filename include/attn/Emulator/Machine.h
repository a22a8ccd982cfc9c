//===- Machine.h - Agents, memory and what is under way ---------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The threads of control are agents: a warp of a role of warps, a warpgroup of
// a role of warpgroups. One is executed at a time, until it comes to an
// instruction that others notice; a scheduler then chooses who goes on, or
// which of the operations under way (a copy, a product, an arrival) takes
// effect. All choices come from a seed.
//===----------------------------------------------------------------------===//

#ifndef ATTN_EMULATOR_MACHINE_H
#define ATTN_EMULATOR_MACHINE_H

#include "attn/Emulator/Clocks.h"
#include "attn/Emulator/Costs.h"
#include "attn/Emulator/Emulator.h"
#include "attn/Emulator/Program.h"
#include "attn/Emulator/Trace.h"

#include <deque>
#include <map>
#include <optional>
#include <set>

namespace attn::emulator {

class Machine;
class Agent;
class Timing;
struct ThreadBlock;
struct Cluster;
struct LaunchState;

/// Components of each warp of a cluster's clock.
enum Line : uint32_t {
  lineThread,
  lineProducts,
  /// Bulk copies have read their tiles. Who waits for that does not know that
  /// they have written.
  lineBulk,
  lineBulkWrites,
  lineCopies,
  numLines
};

struct MBarrier {
  const MBarrierInfo *info = nullptr;
  Object object;
  int64_t pending = 0, bytes = 0;
  /// Phases that have ended.
  uint64_t phase = 0;
  /// Its component of the cluster's clock: the phases.
  uint32_t component = 0;
  /// Of all that has arrived, and of what had when the last phase ended.
  Clock clock, past;
  uint64_t version = 0;
  /// When the last phase ended, and the last arrival of the next one.
  Cycles ended = 0, latest = 0;
};

struct Barrier {
  const BarrierInfo *info = nullptr;
  Object object;
  int64_t arrived = 0;
  uint64_t generation = 0;
  Clock clock, past;
  uint64_t version = 0;
  Cycles ended = 0, latest = 0;
};

/// Shared memory of one allocation.
struct SharedRegion {
  const RegionInfo *info = nullptr;
  std::vector<uint32_t> words, cells;
  int64_t cellsPerRow = 0;
  uint32_t *at(const View &v) {
    const TileInfo &t = info->tile;
    return words.data() + (v.stage * t.rows + v.row) * t.cols + v.col;
  }
};

struct ThreadBlock {
  Cluster *cluster = nullptr;
  int64_t number = 0, rank = 0;
  std::vector<SharedRegion> regions;
  std::vector<MBarrier> mbarriers;
  std::vector<Barrier> barriers;
  /// By schedule and slot: what the warp that draws hands to the others.
  std::vector<std::vector<std::vector<int64_t>>> handed;
  std::vector<int64_t> drawn;
  std::vector<std::unique_ptr<Agent>> agents;
  /// Agents that have not ended.
  int64_t live = 0;
  bool letsDependentsStart = false;
  /// One of its agents knows that all earlier launches have ended.
  bool knowsDependencies = false;
  /// Where it runs, and from when on.
  int64_t multiprocessor = 0;
  size_t place = 0;
  Cycles start = 0;
  /// Of memory, what its threads have read, and find in their own cache.
  std::set<uint64_t> sectors;
};

struct Cluster {
  LaunchState *launch = nullptr;
  uint32_t unit = 0;
  uint32_t components = 0, dependencies = 0;
  std::vector<std::unique_ptr<ThreadBlock>> blocks;
  int64_t live = 0;
  Object object(Object::Kind kind) const;
};

/// Whether something that was started has taken effect.
struct Started {
  bool hasEnded = false;
  ProcessId id;
};
using StartedPtr = std::shared_ptr<Started>;

/// What has been started and takes effect at some later moment.
struct Pending {
  Agent *agent = nullptr;
  std::string what;
  uint32_t site = 0;
  std::function<void()> effect;
  /// Must take effect before this one.
  StartedPtr after;
  StartedPtr done;
  /// The event that started it.
  uint32_t creator = Event::noCreator;
  /// Nobody is left to notice an arrival when a block ends.
  bool isArrival() const { return what.rfind("an arrival", 0) == 0; }
};

/// A product in flight.
struct Product {
  uint64_t number = 0;
  std::shared_ptr<Registers> result;
  /// The A fragment that it reads; null where that is a tile.
  std::shared_ptr<Registers> left;
  StartedPtr done;
  uint32_t site = 0;
  Cycles end = 0;
};

/// A read of a ring's slot into registers that may complete late.
struct LateRead {
  uint64_t number = 0;
  uint32_t ring = 0, stage = 0, site = 0;
};

class Agent {
public:
  Agent(Machine &machine, ThreadBlock &block, const RoleInfo &role,
        int64_t member);

  Machine &machine;
  ThreadBlock &block;
  ProcessId id;
  uint32_t numStarted = 0;
  /// The event that made room for its block, and whether it has taken part.
  uint32_t creator = Event::noCreator;
  bool hasBegun = false;
  const KernelProgram &program;
  const RoleInfo &role;
  int64_t member;
  /// Of the block.
  int64_t firstWarp, warps;
  std::vector<Slot> frame;
  uint32_t pc = 0;
  /// Of the hardware barrier that it waits at.
  uint64_t generation = 0;
  /// Of an instruction that is executed in parts.
  uint32_t part = 0;
  /// By warp.
  std::vector<Clock> clocks;
  std::vector<uint32_t> now;

  /// Products and copies under way.
  std::deque<Product> products;
  uint32_t numProducts = 0;
  std::deque<std::vector<StartedPtr>> bulkGroups;
  /// When each has read its tile.
  std::deque<Cycles> bulkEnds;
  uint32_t numBulkGroups = 0;
  /// Of cp.async: since the last commit, and in groups.
  std::vector<StartedPtr> copies, groupedCopies;
  uint32_t numCopyGroups = 1;
  Cycles copiesEnd = 0, groupedCopiesEnd = 0;
  std::vector<LateRead> lateReads;

  /// Its clock; when all that it has computed is there, and what that waits
  /// for.
  Cycles time = 0, outstanding = 0;
  uint32_t outstandingSite = 0;
  Pipe outstandingPipe = Pipe::Issue;
  /// Of the instruction at `pc`, which has been run and is being timed.
  Work work;
  bool isTimed = false;
  /// Of the loop's turns: how many, the first and the last one.
  struct Turns {
    int64_t count = 0;
    Cycles first = 0, last = 0;
  };
  std::vector<Turns> turns;
  /// Waits until then, by its clock.
  void await(Cycles until);
  Cycles arrivalTime() const;

  /// Where it waits.
  bool isBlocked = false, isDone = false;
  const uint64_t *watched = nullptr;
  uint64_t versionSeen = 0;
  std::function<std::string()> waiting;
  /// The barrier that it has waited at last, and the one that counts the bytes
  /// of what it has started last, for timelines.
  const std::string *waitedAt = nullptr, *signals = nullptr;

  // Values.
  int32_t i32(SlotId slot) const { return frame[slot].i32; }
  int64_t i64(SlotId slot) const { return frame[slot].bits; }
  float f32(SlotId slot) const { return frame[slot].f32; }
  View view(SlotId slot) const { return View::unpack(frame[slot].bits); }
  std::shared_ptr<Registers> registersAt(SlotId slot) const {
    return std::static_pointer_cast<Registers>(frame[slot].object);
  }
  /// Complains where a product in flight owns them, or reads them; another
  /// product may read them as well.
  std::shared_ptr<Registers> use(SlotId slot, bool byProduct = false);
  MemrefValue &memref(SlotId slot) const {
    return *static_cast<MemrefValue *>(frame[slot].object.get());
  }
  TensorMap &tensorMap(SlotId slot) const {
    return *static_cast<TensorMap *>(frame[slot].object.get());
  }
  void set(SlotId slot, std::shared_ptr<Registers> value) {
    frame[slot].object = std::move(value);
  }

  const Instruction &instruction() const { return program.code[pc]; }
  uint32_t site() const { return instruction().site; }
  uint32_t component(int64_t warp, Line line) const {
    return uint32_t((block.rank * program.warps + firstWarp + warp) * numLines +
                    line);
  }
  /// Rows first, count of a value of `rows` rows that belong to a warp.
  template <typename F>
  void forRowsOf(int64_t warp, int64_t rows, F body) const {
    if (!role.isGroup)
      return body(int64_t(0), rows);
    // Of half a fragment a warp has eight.
    int64_t each = std::min<int64_t>(16, rows / 4);
    for (int64_t at = each * warp; at < rows; at += 4 * each)
      body(at, each);
  }

  /// Goes on elsewhere than at the next instruction.
  Step jump(uint32_t to) {
    target = to;
    return Step::Next;
  }
  static constexpr uint32_t noTarget = ~0u;
  uint32_t target = noTarget;
  /// To the next instruction, or where the last one has jumped to.
  void goOn() {
    pc = target != noTarget ? target : pc + 1;
    target = noTarget;
    part = 0;
  }
  Step wait(const uint64_t *version, std::function<std::string()> what);
  /// Whether something has taken effect, which this agent waits for.
  bool knows(const StartedPtr &started);
  /// What this agent has done so far comes before what it does from now on.
  void tick(int64_t warp);
  void fence();
  /// Waits for a phase by its parity. `exact`: the number of phases that should
  /// have ended by then.
  Step waitFor(MBarrier &barrier, uint32_t parity, uint64_t exact,
               const char *what);
  /// One arrival of each warp, or of one of them; takes effect later.
  void arrive(ThreadBlock &target, int64_t barrier, int64_t warp,
              int64_t bytes = 0);
  void arriveAll(ThreadBlock &target, int64_t barrier);
  /// A hardware barrier; two parts, from `part` on.
  Step sync(int64_t barrier, uint32_t firstPart, bool fences);
  void arriveAt(int64_t barrier);
  /// The warps of this member, or of the role where it is of warps.
  Step syncRole(uint32_t firstPart, bool fences);
  void joinWarps();

  // Memory; false where something is wrong, and reported.
  struct Rect {
    int64_t row, col, rows, cols; // As stored, from the view's start.
  };
  bool touch(ThreadBlock &owner, const View &view, const Rect &rect,
             Access access);
  /// An access by threads.
  bool touch(int64_t warp, const View &view, const Rect &rect, bool isWrite);
  Access access(int64_t warp, bool isWrite) const;
  bool touchGlobal(const char *data, size_t bytes, Access access);
  /// Address of an element, or null where the indices leave the tensor.
  char *element(const MemrefValue &memref, const int64_t *indices,
                int64_t elementBytes);
  bool fail(const std::string &message);

  /// Notes a read into registers; the result gets its number.
  void readLate(const View &view, Registers &result);
  void inherit(Registers &to, const Registers &from) const;
};

struct LaunchState {
  const KernelProgram *kernel = nullptr;
  uint32_t number = 0, finishedBefore = 0;
  int64_t grid = 0, started = 0, ended = 0;
  bool isProgrammatic = false, hasBegun = false, hasEnded = false;
  /// Instead of a kernel: what the stream does by itself.
  std::function<void()> action;
  std::vector<Slot> frame;
  std::vector<int64_t> order;
  Cycles begin = 0, end = 0;
  std::vector<std::unique_ptr<Cluster>> clusters;
  int64_t lettingStart = 0;
  /// Whether its end says that all earlier launches have ended.
  bool impliesEarlier = true;
  /// What its blocks start after.
  std::vector<Effect> begins;
  uint32_t lastEnd = Event::noCreator;
  Object object(Object::Kind kind) const { return {kind, {number, 0, 0, 0}}; }
};

struct GlobalBuffer {
  char *data = nullptr;
  size_t bytes = 0;
  std::string name;
  bool isInput = false;
  std::vector<uint32_t> cells;
  /// Where it lies for the model of the cache, whatever the host has it at.
  uint64_t base = 0;
};

/// Chooses among schedules that are not the same; see Search.h.
class Explorer;

class Machine {
public:
  Machine(const Program &program, const Schedule &schedule,
          Explorer *explorer = nullptr);

  /// `isWritten`: of an input, whether kernels may write it.
  void addBuffer(char *data, size_t bytes, std::string name, bool isInput,
                 bool isWritten = false);
  void launch(std::unique_ptr<LaunchState> launch);
  /// Executes all launches so far; false where something was wrong.
  bool run();
  const std::string &error() const { return message; }

  void fail(const std::string &text) {
    if (message.empty())
      message = text;
  }
  bool failed() const { return !message.empty(); }
  StartedPtr defer(Agent &agent, std::string what, std::function<void()> effect,
                   StartedPtr after = nullptr);
  /// Whether what an agent has started at `site` comes to another block of its
  /// cluster that has ended, which is an error then.
  bool meetsEnded(const Agent &agent, uint32_t site, const std::string &what,
                  const ThreadBlock &target);
  GlobalBuffer *find(const char *data);
  /// Notes an effect of the event that takes place.
  void note(Object object, Effect::How how, uint64_t phase = 0) {
    if (isTraced)
      trace.note({object, how, phase});
  }
  /// It was the one that ended a phase.
  void noteLast() {
    if (isTraced)
      trace.noteLast();
  }
  /// Bytes that an atomic operation has changed.
  void noteAtomic(const char *data, size_t bytes);
  uint64_t random(uint64_t below);
  std::string describe(const Epoch &epoch) const;
  uint64_t nextNumber() { return ++numbers; }

  const Program &program;
  const Schedule schedule;
  /// Whom to tell of what is executed, or null.
  Observer *observer = nullptr;
  /// Clocks and counters, where somebody asks for them.
  std::shared_ptr<Timing> timing;
  void keepTime();
  AccessTable table;
  /// Grows where a product or copy has taken effect.
  uint64_t version = 0;
  /// Blocks that a device would run at once, of each launch.
  int64_t residentBlocks = 2;
  int64_t residentBlocksOf(const KernelProgram &kernel) const;
  const LaunchState *previousOf(const LaunchState &launch) const;
  /// Whether it may begin before the launch before it has ended.
  bool mayOverlap(const LaunchState &launch) const;
  /// Of schedules that are told: the events, and who went of all there were.
  const bool isTraced;
  Trace trace;
  std::vector<std::pair<uint32_t, uint32_t>> departures;

private:
  friend class Agent;
  friend class Timing;
  void startBlocks();
  bool startCluster(LaunchState &launch);
  void endCluster(Cluster &cluster);
  bool mayBegin(const LaunchState &launch) const;
  bool isReady(Agent &agent) const;
  void step(Agent &agent);
  bool pass(Agent &agent);
  void stepByTime(std::vector<Agent *> &ready);
  void complete(size_t index);
  bool isVictim(const Agent &agent) const;
  struct Candidate;
  std::vector<Candidate> candidates() const;
  bool take(const Candidate &candidate);
  bool stepAsTold();
  std::string describeDeadlock() const;

  std::vector<std::unique_ptr<LaunchState>> launches;
  std::vector<Agent *> agents;
  std::vector<Pending> pending;
  /// Clusters whose agents have ended, where their end is an event.
  std::vector<Cluster *> ending;
  std::vector<GlobalBuffer> buffers;
  Explorer *explorer = nullptr;
  struct Unit {
    const LaunchState *launch;
    int64_t firstBlock;
  };
  std::map<uint32_t, Unit> units;
  std::string message;
  uint64_t state = 0, numbers = 0, steps = 0;
  uint32_t nextUnit = 1;
  size_t lastAgent = 0;
  Cycles timeLimit = 0;
  const Agent *lastStepped = nullptr;
};

/// "warp 3 of role 'compute'"
std::string roleText(const RoleInfo &role, int64_t member);
/// "block 0, warp 3 of role 'compute'"
std::string describe(const Agent &agent);

} // namespace attn::emulator

#endif // ATTN_EMULATOR_MACHINE_H
