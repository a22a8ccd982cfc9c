//===- Rings.cpp - Slots, their barriers, and hardware barriers -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Models.h"

using namespace mlir;
namespace emulator = ::attn::emulator;
using namespace ::attn::emulator;

LogicalResult emulator::emulate(tg::RingCreateOp, ProgramBuilder &) {
  return success();
}
LogicalResult emulator::emulate(tg::BarrierCreateOp, ProgramBuilder &) {
  return success();
}

namespace {
/// A use of a ring by its counter.
struct Use {
  uint32_t slot;
  uint64_t round;
};

/// What an operation takes of a ring: the slot of a counter, and its tiles.
struct RingSlot {
  uint32_t number;
  SlotId counter;
  llvm::SmallVector<SlotId> tiles;

  const RingInfo &ring(const Agent &a) const { return a.program.rings[number]; }
  Use use(const Agent &a) const {
    auto count = uint32_t(a.i32(counter));
    auto stages = uint32_t(ring(a).stages);
    return {count % stages, count / stages};
  }
  void setTiles(Agent &a, uint32_t slot) const {
    for (auto [region, tile] : llvm::zip_equal(ring(a).regions, tiles))
      a.frame[tile].bits = View{region, slot, 0, 0}.pack();
  }
};
} // namespace

template <typename OpT>
static FailureOr<RingSlot> slotOf(OpT op, ValueRange tiles, ProgramBuilder &b) {
  auto ring = b.ring(op.getRing());
  if (!ring)
    return op.emitOpError("expected a ring made in this kernel by "
                          "tile_gpu.ring.create");
  return RingSlot{*ring, b.slot(op.getCounter()), b.slots(tiles)};
}

LogicalResult emulator::emulate(tg::RingAcquireOp op, ProgramBuilder &b) {
  auto slot = slotOf(op, op.getTiles(), b);
  if (failed(slot))
    return failure();
  b.emit(op, true, [slot = *slot](Agent &a) {
    const RingInfo &ring = slot.ring(a);
    Use use = slot.use(a);
    auto barrier = [&](int64_t first) -> MBarrier & {
      return a.block.mbarriers[size_t(first) + use.slot];
    };
    if (ring.empty >= 0 && a.part == 0) {
      Step step = a.waitFor(barrier(ring.empty), uint32_t((use.round & 1) ^ 1),
                            use.round, "a slot to be released");
      if (step != Step::Next)
        return step;
    }
    if (ring.allEmpty >= 0) {
      if (a.part == 0)
        for (auto &block : a.block.cluster->blocks)
          a.arrive(*block, ring.allEmpty + use.slot, 0, 0);
      a.part = 1;
      Step step =
          a.waitFor(barrier(ring.allEmpty), uint32_t(use.round & 1),
                    use.round + 1, "a slot to be released in each block");
      if (step != Step::Next)
        return step;
    }
    slot.setTiles(a, use.slot);
    // One thread announces the bytes; of a warpgroup, that of its first warp.
    if (ring.fill == Fill::Tma)
      a.arrive(a.block, ring.full + use.slot, 0, ring.slotBytes);
    return Step::Next;
  });
  return success();
}

/// Rounds what this warp has copied, and waits for the other warps.
static Step waitForGroup(Agent &a, const RingSlot &slot) {
  if (a.part == 0) {
    // Copies that no group holds are not waited for.
    for (auto &copy : a.groupedCopies)
      if (!a.knows(copy))
        return a.wait(&a.machine.version,
                      [] { return std::string("its copies"); });
    a.groupedCopies.clear();
    a.await(a.groupedCopiesEnd);
    for (int64_t warp = 0; warp < a.warps; ++warp)
      a.clocks[size_t(warp)].seen[a.component(warp, lineCopies)] =
          a.numCopyGroups - 1;
    slot.setTiles(a, slot.use(a).slot);
    // The first part that the role's barrier knows is 1.
    a.part = 1;
  }
  if (a.role.warps == 1)
    return Step::Next;
  return a.sync(a.role.barrier, 1, false);
}

LogicalResult emulator::emulate(tg::RingWaitOp op, ProgramBuilder &b) {
  auto slot = slotOf(op, op.getTiles(), b);
  if (failed(slot))
    return failure();
  if (b.kernel().rings[slot->number].fill == Fill::CpGroup && b.role &&
      b.role->isGroup)
    return op.emitOpError("expected copy groups in a role of warps");
  b.emit(op, true, [slot = *slot](Agent &a) {
    const RingInfo &ring = slot.ring(a);
    if (ring.fill == Fill::CpGroup)
      return waitForGroup(a, slot);
    Use use = slot.use(a);
    MBarrier &full = a.block.mbarriers[size_t(ring.full) + use.slot];
    Step step = a.waitFor(full, uint32_t(use.round & 1), use.round + 1,
                          "a slot to be full");
    if (step != Step::Next)
      return step;
    // Products do not see what threads copied without it.
    if (ring.fill == Fill::CpAsync && a.role.isGroup)
      a.fence();
    slot.setTiles(a, use.slot);
    return Step::Next;
  });
  return success();
}

LogicalResult emulator::emulate(tg::RingViewSlotOp op, ProgramBuilder &b) {
  auto slot = slotOf(op, op.getTiles(), b);
  if (failed(slot))
    return failure();
  b.emit(op, false, [slot = *slot](Agent &a) {
    slot.setTiles(a, slot.use(a).slot);
    return Step::Next;
  });
  return success();
}

/// The arrival overtakes reads into registers that it does not depend on: those
/// of this slot that no value of `after` was computed from.
static bool mayRelease(Agent &a, uint32_t number, uint32_t slot,
                       llvm::ArrayRef<SlotId> after) {
  llvm::SmallVector<uint64_t, 8> known;
  for (SlotId value : after) {
    auto registers = a.use(value);
    if (a.machine.failed())
      return false;
    known.append(registers->reads.begin(), registers->reads.end());
  }
  for (const LateRead &late : a.lateReads)
    if (late.ring == number && late.stage == slot &&
        !llvm::is_contained(known, late.number))
      return a.fail("may overtake the read of slot " + std::to_string(slot) +
                    " by '" + a.program.sites[late.site].op +
                    "': 'after' names nothing computed from it");
  llvm::erase_if(a.lateReads, [&](const LateRead &late) {
    return late.ring == number && late.stage == slot;
  });
  return true;
}

LogicalResult emulator::emulate(tg::RingReleaseOp op, ProgramBuilder &b) {
  auto slot = slotOf(op, {}, b);
  if (failed(slot))
    return failure();
  b.emit(op, true, [slot = *slot, after = b.slots(op.getAfter())](Agent &a) {
    const RingInfo &ring = slot.ring(a);
    if (ring.empty < 0) {
      a.fail("releases a ring without consumers");
      return Step::Stop;
    }
    Use use = slot.use(a);
    if (!mayRelease(a, slot.number, use.slot, after))
      return Step::Stop;
    for (auto &block : a.block.cluster->blocks)
      if (block.get() == &a.block || (ring.cluster > 1 && ring.allEmpty < 0))
        a.arriveAll(*block, ring.empty + use.slot);
    return Step::Next;
  });
  return success();
}

/// Arrives by itself when the copies so far have landed.
static void arriveAfterCopies(Agent &a, MBarrier &full) {
  for (int64_t warp = 0; warp < a.warps; ++warp) {
    Clock known = a.clocks[size_t(warp)];
    known.seen[a.component(warp, lineCopies)] = a.numCopyGroups;
    Machine &machine = a.machine;
    // After the youngest copy in the list: copies are a chain.
    machine.defer(
        a, "an arrival at " + full.info->name,
        [&machine, &full, known, end = a.copiesEnd] {
          completeArrival(machine, full, known, 0, end);
        },
        a.copies.empty() ? nullptr : a.copies.back());
    a.tick(warp);
  }
  ++a.numCopyGroups;
  a.copies.clear();
}

LogicalResult emulator::emulate(tg::RingCommitOp op, ProgramBuilder &b) {
  auto slot = slotOf(op, {}, b);
  if (failed(slot))
    return failure();
  Fill fill = b.kernel().rings[slot->number].fill;
  if (fill == Fill::Tma)
    return op.emitOpError("expected a ring that warps fill");
  b.emit(op, true, [slot = *slot, fill](Agent &a) {
    if (fill == Fill::CpGroup) {
      llvm::append_range(a.groupedCopies, a.copies);
      a.copies.clear();
      a.groupedCopiesEnd = a.copiesEnd;
      ++a.numCopyGroups;
      return Step::Next;
    }
    int64_t full = slot.ring(a).full + slot.use(a).slot;
    if (fill == Fill::CpAsync) {
      arriveAfterCopies(a, a.block.mbarriers[size_t(full)]);
      return Step::Next;
    }
    if (fill != Fill::Exchange)
      a.fence();
    a.arriveAll(a.block, full);
    return Step::Next;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Hardware barriers
//===----------------------------------------------------------------------===//

/// The first hardware barrier of what an operation names, or nothing.
template <typename OpT>
static FailureOr<int64_t> barrierOf(OpT op, ProgramBuilder &b) {
  if (auto index = b.barrier(op.getBarrier()))
    return int64_t(*index);
  return op.emitOpError("expected a barrier made in this kernel by "
                        "tile_gpu.barrier.create");
}

/// Waits at the barrier of a member, where there is one for each.
template <typename OpT>
static LogicalResult emitSync(OpT op, bool fences, ProgramBuilder &b) {
  auto first = barrierOf(op, b);
  if (failed(first))
    return failure();
  SlotId member = op.getMember() ? b.slot(op.getMember()) : noSlot;
  b.emit(op, true, [=, first = *first](Agent &a) {
    return a.sync(first + (member == noSlot ? 0 : a.i32(member)), 0, fences);
  });
  return success();
}

LogicalResult emulator::emulate(tg::BarrierSyncOp op, ProgramBuilder &b) {
  return emitSync(op, !op.getThreadsOnly(), b);
}

LogicalResult emulator::emulate(tg::TurnWaitOp op, ProgramBuilder &b) {
  return emitSync(op, false, b);
}

/// Of the order of instructions, which is that of the program here.
LogicalResult emulator::emulate(tg::HoldOp, ProgramBuilder &) {
  return success();
}

LogicalResult emulator::emulate(tg::TurnPassOp op, ProgramBuilder &b) {
  auto first = barrierOf(op, b);
  auto create = op.getBarrier().getDefiningOp<tg::BarrierCreateOp>();
  if (failed(first))
    return failure();
  auto count = int64_t(create.getEach());
  SlotId member = b.slot(op.getMember());
  b.emit(op, true, [=, first = *first](Agent &a) {
    a.arriveAt(first + (a.i32(member) + 1) % count);
    return a.machine.failed() ? Step::Stop : Step::Next;
  });
  return success();
}
