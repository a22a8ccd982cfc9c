//===- Items.cpp - Schedules, and the loops over them ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// As the lowering has it: of a dynamic schedule one warp draws the items,
// evaluates the schedule's body, and hands both to the others through slots
// with a barrier for each direction.
//===----------------------------------------------------------------------===//

#include "Models.h"
#include "attn/Dialect/Tile/IR/WorkTiles.h"
#include "attn/Emulator/Timing.h"

using namespace mlir;
namespace emulator = ::attn::emulator;
using namespace ::attn::emulator;

LogicalResult emulator::emulate(tg::SchedulerOp, ProgramBuilder &) {
  return success();
}

LogicalResult emulator::emulate(tg::LaunchDependentsOp op, ProgramBuilder &b) {
  b.emit(op, true, [](Agent &a) {
    if (!a.block.letsDependentsStart) {
      LaunchState &launch = *a.block.cluster->launch;
      a.block.letsDependentsStart = true;
      ++launch.lettingStart;
      a.machine.note(launch.object(Object::Letting), Effect::Give);
    }
    return Step::Next;
  });
  return success();
}

LogicalResult emulator::emulate(tg::WaitDependenciesOp op, ProgramBuilder &b) {
  b.emit(op, true, [](Agent &a) {
    a.waitedAt = nullptr;
    const LaunchState &own = *a.block.cluster->launch;
    const LaunchState *previous = a.machine.previousOf(own);
    if (previous && !previous->hasEnded)
      return a.wait(&a.machine.version,
                    [] { return std::string("the launch before this one"); });
    if (previous) {
      a.machine.note(previous->object(Object::Ended), Effect::Take, 1);
      a.await(previous->end);
    }
    // Where that one has not waited itself, earlier ones may go on.
    if (previous && !previous->impliesEarlier)
      return Step::Next;
    a.block.knowsDependencies = true;
    for (Clock &clock : a.clocks)
      clock.seen[a.block.cluster->dependencies] =
          clock.fenced[a.block.cluster->dependencies] = 1;
    return Step::Next;
  });
  return success();
}

LogicalResult emulator::emulate(tg::SkipOp op, ProgramBuilder &b) {
  if (!b.passOver)
    return op.emitOpError("expected the schedule's items to be drawn by a role "
                          "of one warp");
  SlotId condition = b.slot(op.getCondition());
  uint32_t target = *b.passOver;
  b.emit(op, false, [=](Agent &a) {
    return a.i32(condition) & 1 ? a.jump(a.program.labels[target]) : Step::Next;
  });
  return success();
}

LogicalResult emulator::emulate(tg::DrawNextOp op, ProgramBuilder &b) {
  if (auto take = b.takeItem)
    b.emit(op, true, [take](Agent &a) {
      take(a);
      return Step::Next;
    });
  return success();
}

namespace {
/// One loop over a schedule.
class Loop {
public:
  Loop(tg::ForeachOp op, ProgramBuilder &b, uint32_t number)
      : op(op), b(b),
        scheduler(op.getSchedule().getDefiningOp<tg::SchedulerOp>()),
        number(number), info(b.kernel().schedules[number]) {}
  LogicalResult build();

private:
  void emitItem();
  LogicalResult appendItem();
  void emitTotal();
  void emitNext();
  void emitGive(uint32_t exit);
  void emitFollow(uint32_t exit);
  llvm::SmallVector<SlotId> given();

  void emitBegin();
  void emitJump(uint32_t label);
  void emitOthersJump(uint32_t label);
  void emitYield();
  LogicalResult emitKnownItem(uint32_t head, uint32_t exit);
  void emitAdvance();
  LogicalResult emitHearLast();
  LogicalResult buildSingle();
  LogicalResult buildTurns();

  bool isDynamic() const { return info.kind == ScheduleInfo::Dynamic; }
  /// Whether one role draws for the others.
  bool isShared() const { return isDynamic() && info.full >= 0; }
  bool draws() { return isDynamic() && op.getLead(); }
  /// Whether, in a role that leads, the first member draws for the others.
  bool hasFollowers() {
    return draws() && (b.role->isGroup ? b.role->count : b.role->warps) > 1;
  }

  tg::ForeachOp op;
  ProgramBuilder &b;
  tg::SchedulerOp scheduler;
  uint32_t number;
  const ScheduleInfo info;
  SlotId item = noSlot, iteration = noSlot, total = noSlot;
};
} // namespace

/// The position of an item in the schedule's box, as the body's arguments.
void Loop::emitItem() {
  auto to = b.slots(scheduler.getBody().getArguments());
  ScheduleInfo s = info;
  SlotId from = item;
  b.emit(scheduler, false, [s, to, from](Agent &a) {
    auto size = [&](SlotId slot) -> int64_t {
      return slot == noSlot ? 1 : a.i32(slot);
    };
    tile::NumberMath m;
    tile::WorkDomain<int64_t> work = {size(s.batch),   size(s.heads),
                                      size(s.tiles),   size(s.splits),
                                      size(s.section), s.tilesOfCluster};
    tile::countWork(m, work);
    tile::WorkTile<int64_t> at =
        tile::locateWorkTile(m, int64_t(a.i32(from)), work, s.order);
    int64_t place[] = {at.tile, at.head, at.batch, at.part};
    for (size_t i = 0; i < 4; ++i)
      a.frame[to[i]].bits = place[i];
    return Step::Next;
  });
}

/// Evaluates the schedule's body, and sets the loop's arguments.
LogicalResult Loop::appendItem() {
  emitItem();
  Block &body = scheduler.getBody().front();
  if (failed(b.append(body)))
    return failure();
  llvm::SmallVector<SlotId> from = b.slots(body.getArguments());
  llvm::append_range(from, b.slots(body.getTerminator()->getOperands()));
  b.emitCopies(op, from, b.slots(op.getItemArgs()));
  return success();
}

void Loop::emitTotal() {
  ScheduleInfo s = info;
  SlotId to = total, at = item, turn = iteration;
  b.emit(op, false, [=](Agent &a) {
    int64_t count = int64_t(a.i32(s.tiles)) * a.i32(s.heads) * a.i32(s.batch);
    if (s.splits != noSlot)
      count *= a.i32(s.splits);
    a.frame[to].bits = count;
    a.frame[at].bits = a.block.number;
    a.frame[turn].bits = 0;
    return Step::Next;
  });
}

/// One ticket, of `count`; the launch before may draw from the same.
static int64_t draw(Agent &a, SlotId tickets, int64_t count, bool drawsFirst) {
  const Cluster &cluster = *a.block.cluster;
  if (drawsFirst)
    count += cluster.launch->grid;
  else if (cluster.launch->grid / a.program.cluster >= count)
    return 0; // Each has its block or cluster.
  if (a.memref(tickets).data == &noTickets) {
    a.fail("draws an item, but its launch says that it has a block for each");
    return 0;
  }
  if (cluster.launch->finishedBefore < cluster.launch->number &&
      !a.clocks[0].seen[cluster.dependencies])
    a.fail("draws an item before dependencies.wait, from tickets that an "
           "earlier launch may still use");
  a.machine.note({Object::Tickets, {}}, Effect::Exclusive);
  auto *counter = reinterpret_cast<uint32_t *>(a.memref(tickets).data);
  uint32_t drawn = *counter;
  *counter = int64_t(drawn) >= count - 1 ? 0 : drawn + 1;
  return drawn;
}

/// The number of the next item, in the warp that draws.
void Loop::emitNext() {
  ScheduleInfo s = info;
  SlotId at = item, all = total, turn = iteration;
  uint32_t n = number;
  bool first = scheduler.getDrawsFirst();
  if (s.cluster == 1) {
    b.emit(op, true, [=](Agent &a) {
      a.frame[at].bits = draw(a, s.tickets, a.i64(all), first);
      if (!first)
        a.frame[at].bits += a.block.cluster->launch->grid;
      return Step::Next;
    });
    return;
  }
  // Block 0 draws for its cluster. `turn` has been counted up.
  b.emit(op, true, [=](Agent &a) {
    ThreadBlock &first = *a.block.cluster->blocks.front();
    auto before = uint64_t(a.i64(turn) - 1);
    if (a.part == 0 && a.block.rank == 0) {
      MBarrier &empty = first.mbarriers[size_t(s.drawnEmpty)];
      Step step = a.waitFor(empty, uint32_t((before & 1) ^ 1), before,
                            "the word for the cluster to be read");
      if (step != Step::Next)
        return step;
      int64_t drawn = draw(a, s.tickets, a.i64(all) / s.cluster,
                           /*drawsFirst=*/false);
      for (auto &block : a.block.cluster->blocks) {
        block->drawn[n] = drawn;
        a.arrive(*block, s.drawnFull, 0);
      }
    }
    a.part = 1;
    MBarrier &full = a.block.mbarriers[size_t(s.drawnFull)];
    Step step = a.waitFor(full, uint32_t(before & 1), before + 1,
                          "the item that block 0 draws");
    if (step != Step::Next)
      return step;
    int64_t drawn = a.block.drawn[n];
    a.arrive(first, s.drawnEmpty, 0);
    a.frame[at].bits =
        drawn * s.cluster + a.block.cluster->launch->grid + a.block.rank;
    return Step::Next;
  });
}

/// What the others learn: the number, and all arguments of an item.
llvm::SmallVector<SlotId> Loop::given() {
  llvm::SmallVector<SlotId> result = {item};
  llvm::append_range(result, b.slots(op.getItemArgs()));
  return result;
}

void Loop::emitGive(uint32_t exit) {
  if (info.full < 0)
    return;
  ScheduleInfo s = info;
  SlotId turn = iteration;
  uint32_t n = number;
  auto words = given();
  (void)exit;
  b.emit(op, true, [=](Agent &a) {
    auto use = uint64_t(a.i64(turn));
    uint64_t slot = use % uint64_t(s.slots), round = use / uint64_t(s.slots);
    MBarrier &empty = a.block.mbarriers[size_t(s.empty) + slot];
    Step step = a.waitFor(empty, uint32_t((round & 1) ^ 1), round,
                          "the others to take the item before");
    if (step != Step::Next)
      return step;
    auto &handed = a.block.handed[n][slot];
    handed.clear();
    for (SlotId word : words)
      handed.push_back(a.frame[word].bits);
    a.arrive(a.block, s.full + int64_t(slot), 0);
    // The other warps of a warpgroup read what its first one drew.
    for (int64_t warp = 1; warp < a.warps; ++warp)
      a.arrive(a.block, s.empty + int64_t(slot), warp);
    return Step::Next;
  });
}

void Loop::emitFollow(uint32_t exit) {
  ScheduleInfo s = info;
  SlotId turn = iteration, at = item, all = total;
  uint32_t n = number;
  auto words = given();
  bool isTaken = true;
  op.getBody().walk([&](tg::DrawNextOp) { isTaken = false; });
  bool leads = op.getLead();
  auto take = [=](Agent &a) {
    if (leads && a.member == 0)
      return;
    a.arriveAll(a.block, s.empty + a.i64(turn) % s.slots);
  };
  b.emit(op, true, [=](Agent &a) {
    auto use = uint64_t(a.i64(turn));
    uint64_t slot = use % uint64_t(s.slots), round = use / uint64_t(s.slots);
    MBarrier &full = a.block.mbarriers[size_t(s.full) + slot];
    Step step =
        a.waitFor(full, uint32_t(round & 1), round + 1, "an item to be drawn");
    if (step != Step::Next)
      return step;
    auto &handed = a.block.handed[n][slot];
    for (size_t i = 0; i < words.size(); ++i)
      a.frame[words[i]].bits = handed[i];
    if (isTaken)
      take(a);
    return a.i64(at) < a.i64(all) ? Step::Next : a.jump(a.program.labels[exit]);
  });
  b.takeItem = isTaken ? std::function<void(Agent &)>() : take;
}

void Loop::emitBegin() {
  b.emit(op, false, [](Agent &a) {
    if (a.machine.timing)
      a.machine.timing->beginItem(a);
    return Step::Next;
  });
}

void Loop::emitJump(uint32_t label) {
  b.emit(op, false, [=](Agent &a) { return a.jump(a.program.labels[label]); });
}

/// Of a role that leads, members but the first go on at a label.
void Loop::emitOthersJump(uint32_t label) {
  b.emit(op, false, [=](Agent &a) {
    return a.member ? a.jump(a.program.labels[label]) : Step::Next;
  });
}

void Loop::emitYield() {
  Operation *yield = op.getBody().front().getTerminator();
  b.emitCopies(op, b.slots(yield->getOperands()),
               b.slots(op.getRegionIterArgs()));
}

/// The item of the block's own number.
LogicalResult Loop::buildSingle() {
  if (failed(appendItem()))
    return failure();
  emitBegin();
  if (failed(b.append(op.getBody().front())))
    return failure();
  emitYield();
  return success();
}

/// The start of a turn for who knows the number of its item: goes on behind
/// what is emitted here, or at `exit` after the last item.
LogicalResult Loop::emitKnownItem(uint32_t head, uint32_t exit) {
  uint32_t start = b.newLabel(), follow = b.newLabel(), last = b.newLabel(),
           again = b.newLabel();
  SlotId at = item, all = total;
  if (hasFollowers())
    emitOthersJump(follow);
  b.emit(op, false, [=](Agent &a) {
    return a.i64(at) < a.i64(all) ? Step::Next : a.jump(a.program.labels[last]);
  });
  bool skips = draws() && b.role->warps == 1 && info.cluster == 1;
  b.passOver = skips ? std::optional<uint32_t>(again) : std::nullopt;
  if (failed(appendItem()))
    return failure();
  b.passOver.reset();
  if (isShared())
    emitGive(exit);
  emitJump(start);
  // The next item instead of this one.
  b.place(again);
  if (draws() && info.cluster == 1) {
    emitNext();
    emitJump(head);
  }
  b.place(last);
  if (isShared())
    emitGive(exit);
  emitJump(exit);
  b.place(follow);
  if (isShared() && hasFollowers())
    emitFollow(exit);
  b.place(start);
  return success();
}

/// The number of the next item, for who does not learn it from another.
void Loop::emitAdvance() {
  SlotId at = item, turn = iteration;
  if (isShared() && !draws())
    return;
  if (!isDynamic()) {
    b.emit(op, false, [=](Agent &a) {
      a.frame[at].bits += a.block.cluster->launch->grid;
      return Step::Next;
    });
    return;
  }
  uint32_t skip = b.newLabel();
  if (hasFollowers())
    emitOthersJump(skip);
  // What does nothing but draw waits until the item before is taken.
  ScheduleInfo s = info;
  if (isShared() && s.slots == 1)
    b.emit(op, true, [=](Agent &a) {
      auto round = uint64_t(a.i64(turn));
      return a.waitFor(a.block.mbarriers[size_t(s.empty)],
                       uint32_t((round & 1) ^ 1), round,
                       "the others to take the item before");
    });
  emitNext();
  b.place(skip);
}

/// Items one after the other.
LogicalResult Loop::buildTurns() {
  uint32_t head = b.newLabel(), exit = b.newLabel();
  SlotId turn = iteration;
  b.takeItem = nullptr;
  if (draws() && scheduler.getDrawsFirst()) {
    if (hasFollowers())
      return op.emitOpError("expected a role of one warp to lead a schedule "
                            "whose first items are drawn");
    emitNext();
  }
  b.place(head);
  if (isShared() && !draws())
    emitFollow(exit);
  else if (failed(emitKnownItem(head, exit)))
    return failure();
  emitBegin();
  if (failed(b.append(op.getBody().front())))
    return failure();
  b.takeItem = nullptr;
  emitYield();
  b.emit(op, false, [=](Agent &a) {
    ++a.frame[turn].bits;
    return Step::Next;
  });
  emitAdvance();
  emitJump(head);
  b.place(exit);
  return success();
}

/// Where blocks of a cluster end apart: waits for what the others say to this
/// one last, as the lowering does.
LogicalResult Loop::emitHearLast() {
  if (info.cluster == 1 || !b.kernel().endsApart)
    return success();
  ScheduleInfo s = info;
  SlotId turn = iteration;
  auto hear = [](Agent &a, int64_t barrier, uint64_t turns, const char *what) {
    return a.waitFor(a.block.mbarriers[size_t(barrier)],
                     uint32_t((turns & 1) ^ 1), turns, what);
  };
  if (draws())
    b.emit(op, true, [=](Agent &a) {
      if (a.block.rank)
        return Step::Next;
      return hear(a, s.drawnEmpty, uint64_t(a.i64(turn)),
                  "the other blocks to read its last item");
    });
  for (auto merge : op.getBody().front().getOps<tg::MergeStatesOp>()) {
    if (merge.getScope() != tg::MergeScope::Cluster)
      continue;
    auto ring = b.ring(merge.getRing());
    auto carried = op.getRegionIterArgs();
    auto *counter = llvm::find(carried, merge.getCounter());
    if (!ring || counter == carried.end())
      return merge.emitOpError("expected a ring made in this kernel, and its "
                               "counter carried by the loop");
    SlotId turns = b.slot(op.getResult(counter - carried.begin()));
    b.emit(op, true, [=, empty = b.kernel().rings[*ring].empty](Agent &a) {
      return hear(a, empty, uint64_t(uint32_t(a.i32(turns))),
                  "the other blocks to read its last state");
    });
  }
  return success();
}

LogicalResult Loop::build() {
  auto carried = b.slots(op.getRegionIterArgs());
  item = b.newSlot();
  iteration = b.newSlot();
  total = b.newSlot();
  b.emitCopies(op, b.slots(op.getInitial()), carried);
  emitTotal();
  if (failed(info.kind == ScheduleInfo::Grid ? buildSingle() : buildTurns()))
    return failure();
  b.emitCopies(op, carried, b.slots(op.getResults()));
  return emitHearLast();
}

LogicalResult emulator::emulate(tg::ForeachOp op, ProgramBuilder &b) {
  auto number = b.schedule(op.getSchedule());
  if (!number || !b.role)
    return op.emitOpError("expected a schedule made in this kernel, in a role");
  return Loop(op, b, *number).build();
}
