//===- Rings.cpp - Slots, their barriers, and hardware barriers -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Models.h"

using namespace mlir;
using namespace attn::emulator;

LogicalResult attn::emulator::emulate(tg::RingCreateOp, ProgramBuilder &) {
  return success();
}
LogicalResult attn::emulator::emulate(tg::BarrierCreateOp, ProgramBuilder &) {
  return success();
}

static LogicalResult noRing(Operation *op) {
  return op->emitOpError("expected a ring made in this kernel by "
                         "tile_gpu.ring.create");
}

namespace {
/// A use of a ring by its counter.
struct Use {
  uint32_t slot;
  uint64_t round;
};
} // namespace

static Use useOf(const Agent &a, const RingInfo &ring, SlotId counter) {
  auto count = uint32_t(a.i32(counter));
  auto stages = uint32_t(ring.stages);
  return {count % stages, count / stages};
}

static void setTiles(Agent &a, const RingInfo &ring,
                     llvm::ArrayRef<SlotId> tiles, uint32_t slot) {
  for (auto [region, tile] : llvm::zip_equal(ring.regions, tiles))
    a.frame[tile].bits = View{region, slot, 0, 0}.pack();
}

LogicalResult attn::emulator::emulate(tg::RingAcquireOp op, ProgramBuilder &b) {
  auto index = b.ring(op.getRing());
  if (!index)
    return noRing(op);
  uint32_t number = *index;
  SlotId counter = b.slot(op.getCounter());
  auto tiles = b.slots(op.getTiles());
  b.emit(op, true, [=](Agent &a) {
    const RingInfo &ring = a.program.rings[number];
    Use use = useOf(a, ring, counter);
    if (ring.empty >= 0) {
      MBarrier &empty = a.block.mbarriers[size_t(ring.empty) + use.slot];
      Step step = a.waitFor(empty, uint32_t((use.round & 1) ^ 1), use.round,
                            "a slot to be released");
      if (step != Step::Next)
        return step;
    }
    setTiles(a, ring, tiles, use.slot);
    // One thread announces the bytes; of a warpgroup, that of its first warp.
    if (ring.fill == Fill::Tma)
      a.arrive(a.block, ring.full + use.slot, 0, ring.slotBytes);
    return Step::Next;
  });
  return success();
}

/// Rounds what this warp has copied, and waits for the other warps.
static Step waitForGroup(Agent &a, const RingInfo &ring,
                         llvm::ArrayRef<SlotId> tiles, uint32_t slot) {
  if (a.part == 0) {
    // Copies that no group holds are not waited for.
    for (auto &copy : a.groupedCopies)
      if (!*copy)
        return a.wait(&a.machine.version,
                      [] { return std::string("its copies"); });
    a.groupedCopies.clear();
    a.await(a.groupedCopiesEnd);
    for (int64_t warp = 0; warp < a.warps; ++warp)
      a.clocks[size_t(warp)].seen[a.component(warp, lineCopies)] =
          a.numCopyGroups - 1;
    setTiles(a, ring, tiles, slot);
    // The first part that the role's barrier knows is 1.
    a.part = 1;
  }
  if (a.role.warps == 1)
    return Step::Next;
  return a.sync(a.role.barrier, 1, false);
}

LogicalResult attn::emulator::emulate(tg::RingWaitOp op, ProgramBuilder &b) {
  auto index = b.ring(op.getRing());
  if (!index)
    return noRing(op);
  uint32_t number = *index;
  SlotId counter = b.slot(op.getCounter());
  auto tiles = b.slots(op.getTiles());
  if (b.kernel().rings[number].fill == Fill::CpGroup && b.role &&
      b.role->isGroup)
    return op.emitOpError("expected copy groups in a role of warps");
  b.emit(op, true, [=](Agent &a) {
    const RingInfo &ring = a.program.rings[number];
    Use use = useOf(a, ring, counter);
    if (ring.fill == Fill::CpGroup)
      return waitForGroup(a, ring, tiles, use.slot);
    MBarrier &full = a.block.mbarriers[size_t(ring.full) + use.slot];
    Step step = a.waitFor(full, uint32_t(use.round & 1), use.round + 1,
                          "a slot to be full");
    if (step != Step::Next)
      return step;
    // Products do not see what threads copied without it.
    if (ring.fill == Fill::CpAsync && a.role.isGroup)
      a.fence();
    setTiles(a, ring, tiles, use.slot);
    return Step::Next;
  });
  return success();
}

LogicalResult attn::emulator::emulate(tg::RingViewSlotOp op,
                                      ProgramBuilder &b) {
  auto index = b.ring(op.getRing());
  if (!index)
    return noRing(op);
  uint32_t number = *index;
  SlotId counter = b.slot(op.getCounter());
  auto tiles = b.slots(op.getTiles());
  b.emit(op, false, [=](Agent &a) {
    const RingInfo &ring = a.program.rings[number];
    setTiles(a, ring, tiles, useOf(a, ring, counter).slot);
    return Step::Next;
  });
  return success();
}

LogicalResult attn::emulator::emulate(tg::RingReleaseOp op, ProgramBuilder &b) {
  auto index = b.ring(op.getRing());
  if (!index)
    return noRing(op);
  uint32_t number = *index;
  SlotId counter = b.slot(op.getCounter());
  auto after = b.slots(op.getAfter());
  b.emit(op, true, [=](Agent &a) {
    const RingInfo &ring = a.program.rings[number];
    if (ring.empty < 0) {
      a.fail("releases a ring without consumers");
      return Step::Stop;
    }
    Use use = useOf(a, ring, counter);
    // The arrival overtakes reads into registers that it does not depend on.
    llvm::SmallVector<uint64_t, 8> known;
    for (SlotId slot : after) {
      auto value = a.use(slot);
      if (a.machine.failed())
        return Step::Stop;
      known.append(value->reads.begin(), value->reads.end());
    }
    for (const LateRead &late : a.lateReads)
      if (late.ring == number && late.stage == use.slot &&
          !llvm::is_contained(known, late.number)) {
        const Site &site = a.program.sites[late.site];
        a.fail("may overtake the read of slot " + std::to_string(use.slot) +
               " by '" + site.op + "': 'after' names nothing computed from it");
        return Step::Stop;
      }
    llvm::erase_if(a.lateReads, [&](const LateRead &late) {
      return late.ring == number && late.stage == use.slot;
    });
    for (auto &block : a.block.cluster->blocks)
      if (block.get() == &a.block || ring.cluster > 1)
        a.arriveAll(*block, ring.empty + use.slot);
    return Step::Next;
  });
  return success();
}

LogicalResult attn::emulator::emulate(tg::RingCommitOp op, ProgramBuilder &b) {
  auto index = b.ring(op.getRing());
  if (!index)
    return noRing(op);
  uint32_t number = *index;
  SlotId counter = b.slot(op.getCounter());
  switch (b.kernel().rings[number].fill) {
  case Fill::CpGroup:
    b.emit(op, true, [](Agent &a) {
      llvm::append_range(a.groupedCopies, a.copies);
      a.copies.clear();
      a.groupedCopiesEnd = a.copiesEnd;
      ++a.numCopyGroups;
      return Step::Next;
    });
    return success();
  case Fill::Tma:
    return op.emitOpError("expected a ring that warps fill");
  case Fill::CpAsync:
    b.emit(op, true, [=](Agent &a) {
      const RingInfo &ring = a.program.rings[number];
      Use use = useOf(a, ring, counter);
      MBarrier &full = a.block.mbarriers[size_t(ring.full) + use.slot];
      // Arrives by itself when the copies so far have landed.
      for (int64_t warp = 0; warp < a.warps; ++warp) {
        Clock known = a.clocks[size_t(warp)];
        known.seen[a.component(warp, lineCopies)] = a.numCopyGroups;
        auto copies = a.copies;
        auto last = std::make_shared<std::function<void()>>();
        Machine &machine = a.machine;
        *last = [&machine, &full, known, end = a.copiesEnd] {
          full.clock.join(known);
          --full.pending;
          completeBytes(machine, full, 0, end);
        };
        // After the youngest copy in the list: copies are a chain.
        machine.defer(
            a, "an arrival at " + full.info->name, [last] { (*last)(); },
            copies.empty() ? nullptr : copies.back());
        a.tick(warp);
      }
      ++a.numCopyGroups;
      a.copies.clear();
      return Step::Next;
    });
    return success();
  case Fill::Warps:
  case Fill::Exchange:
    break;
  }
  b.emit(op, true, [=](Agent &a) {
    const RingInfo &ring = a.program.rings[number];
    a.fence();
    a.arriveAll(a.block, ring.full + useOf(a, ring, counter).slot);
    return Step::Next;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Hardware barriers
//===----------------------------------------------------------------------===//

static LogicalResult noBarrier(Operation *op) {
  return op->emitOpError("expected a barrier made in this kernel by "
                         "tile_gpu.barrier.create");
}

LogicalResult attn::emulator::emulate(tg::BarrierSyncOp op, ProgramBuilder &b) {
  auto index = b.barrier(op.getBarrier());
  if (!index)
    return noBarrier(op);
  int64_t first = *index;
  SlotId member = op.getMember() ? b.slot(op.getMember()) : noSlot;
  bool fences = !op.getThreadsOnly();
  b.emit(op, true, [=](Agent &a) {
    return a.sync(first + (member == noSlot ? 0 : a.i32(member)), 0, fences);
  });
  return success();
}

LogicalResult attn::emulator::emulate(tg::TurnWaitOp op, ProgramBuilder &b) {
  auto index = b.barrier(op.getBarrier());
  if (!index)
    return noBarrier(op);
  int64_t first = *index;
  SlotId member = b.slot(op.getMember());
  b.emit(op, true,
         [=](Agent &a) { return a.sync(first + a.i32(member), 0, false); });
  return success();
}

LogicalResult attn::emulator::emulate(tg::TurnPassOp op, ProgramBuilder &b) {
  auto index = b.barrier(op.getBarrier());
  auto create = op.getBarrier().getDefiningOp<tg::BarrierCreateOp>();
  if (!index || !create)
    return noBarrier(op);
  int64_t first = *index;
  auto count = int64_t(create.getEach());
  SlotId member = b.slot(op.getMember());
  b.emit(op, true, [=](Agent &a) {
    a.arriveAt(first + (a.i32(member) + 1) % count);
    return a.machine.failed() ? Step::Stop : Step::Next;
  });
  return success();
}
