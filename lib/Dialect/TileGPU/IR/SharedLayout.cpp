//===- SharedLayout.cpp - Where rings, tiles and barriers lie -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/IR/SharedLayout.h"
#include "attn/Target/TargetInfo.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn::gpu;

static constexpr int64_t barrierBytes = 8;

/// A swizzle pattern repeats every 8 rows, where tiles must start; tensor
/// copies of plain tiles ask for 128 bytes.
static int64_t alignmentOf(SmemType tile) {
  return tile.getSwizzle() ? tile.getSwizzle() * 8 : 128;
}

/// Slots are read 16 bytes at a time.
static constexpr int64_t ticketAlignment = 16;

int64_t SharedLayout::wordsOf(Type type) {
  return type.isIndex() || type.isInteger(64) ? 2 : 1;
}

LogicalResult SharedLayout::compute(KernelOp kernel) {
  struct Piece {
    int64_t align, size;
    std::function<void(int64_t)> place;
  };
  SmallVector<Piece> regions;
  int64_t nextBarrier = 1; // Barrier 0 is the whole block's.
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto create = dyn_cast<RingCreateOp>(op)) {
      RingLayout &ring = rings[create.getRing()];
      ring.type = create.getRing().getType();
      ring.fill = create.getFill();
      ring.producers = create.getProducers().value_or(0);
      ring.consumers = create.getConsumers().value_or(0);
      ring.cluster = create.getCluster().value_or(1);
      ring.offsets.resize(ring.type.getTiles().size());
      for (auto [index, tile] : llvm::enumerate(ring.type.getTiles())) {
        int64_t align = alignmentOf(tile);
        ring.strides.push_back(llvm::alignTo(tile.getBytes(), align));
        regions.push_back(
            {align, ring.strides.back() * ring.type.getStages(),
             [this, key = create.getRing(), i = index](int64_t offset) {
               rings[key].offsets[i] = offset;
             }});
      }
    } else if (auto ramp = dyn_cast<SmemRampOp>(op)) {
      // First of all, and barriers next: tools that check addresses take the
      // rows for twice as far apart as they are.
      bytes = llvm::alignTo(bytes, alignmentOf(ramp.getTile().getType()));
      tiles[op] = bytes;
      bytes += ramp.getTile().getType().getBytes();
    } else if (auto alloc = dyn_cast<SmemAllocOp>(op)) {
      SmemType type = alloc.getTile().getType();
      regions.push_back({alignmentOf(type), type.getBytes(),
                         [this, op](int64_t offset) { tiles[op] = offset; }});
    } else if (auto create = dyn_cast<BarrierCreateOp>(op)) {
      barriers[create.getBarrier()] = {nextBarrier, int64_t(create.getEach()),
                                       int64_t(create.getWarps()) *
                                           ::attn::TargetInfo::warpThreads};
      nextBarrier += create.getEach();
    }
  });
  // Operations that let the threads of one member, or all of a role's warps,
  // wait for each other.
  for (auto role : kernel.getOps<RoleOp>()) {
    bool isGroup = role.getScope() == Scope::Warpgroup;
    bool needsOwn = false;
    role.walk([&](Operation *op) {
      auto wait = dyn_cast<RingWaitOp>(op);
      const RingLayout *waited = wait ? ring(wait.getRing()) : nullptr;
      auto any = dyn_cast<AnyOp>(op);
      needsOwn |= isGroup ? isa<SmemClearRowsOp, SmemMapOp>(op) ||
                                (any && !any.getByRows())
                          : isa<MergeStatesOp>(op) ||
                                (waited && waited->fill == Fill::CpGroup);
    });
    if (!needsOwn)
      continue;
    memberBarriers[role] = nextBarrier;
    nextBarrier += isGroup ? role.getCount() : 1;
  }
  constexpr int64_t numBarriers = 16;
  if (nextBarrier > numBarriers)
    return kernel.emitOpError("expected at most ")
           << numBarriers << " hardware barriers, the block's own included, "
           << "but got " << nextBarrier;
  std::stable_sort(
      regions.begin(), regions.end(),
      [](const Piece &x, const Piece &y) { return x.align > y.align; });
  auto placeRegions = [&] {
    for (Piece &region : regions) {
      bytes = llvm::alignTo(bytes, region.align);
      region.place(bytes);
      bytes += region.size;
    }
  };
  bool barriersFirst = bytes > 0;
  if (!barriersFirst)
    placeRegions();
  bytes = llvm::alignTo(bytes, barrierBytes);
  auto place = [&](int64_t count, int64_t arrivalCount) {
    int64_t offset = bytes;
    for (int64_t i = 0; i < count; ++i, bytes += barrierBytes)
      arrivals.push_back({bytes, arrivalCount});
    return offset;
  };
  for (auto &[value, ring] : rings) {
    if (ring.fill == Fill::CpGroup)
      continue;
    int64_t fullArrivals = 1; // The thread that announces the bytes.
    if (ring.fill == Fill::CpAsync)
      fullArrivals = ring.producers * ::attn::TargetInfo::warpThreads;
    else if (ring.fill != Fill::Tma)
      fullArrivals = ring.producers;
    ring.full = place(ring.type.getStages(), fullArrivals);
    if (ring.consumers)
      ring.empty = place(ring.type.getStages(), ring.consumers * ring.cluster);
  }
  for (auto scheduler : kernel.getOps<SchedulerOp>()) {
    if (scheduler.getKind() != ScheduleKind::Dynamic)
      continue;
    TicketLayout &tickets = ticketSlots[scheduler];
    bool hasLead = false;
    llvm::SmallPtrSet<Operation *, 4> roles;
    llvm::SmallSetVector<unsigned, 8> read;
    int64_t words = 1;
    for (Operation *user : scheduler.getResult().getUsers()) {
      auto foreach = dyn_cast<ForeachOp>(user);
      auto role = user->getParentOfType<RoleOp>();
      if (!foreach || !role || user->getParentOp() != role)
        return user->emitOpError("expected a dynamic schedule to be looped "
                                 "over directly in a role");
      if (!roles.insert(role).second)
        return user->emitOpError(
            "expected one loop over a dynamic schedule in each role");
      if (foreach.getLead() && hasLead)
        return user->emitOpError(
            "expected one lead loop over a dynamic schedule, but got two");
      hasLead |= foreach.getLead();
      if (foreach.getLead() &&
          foreach.getBody().front().without_terminator().empty())
        tickets.numSlots = 1;
      tickets.readers += role.getWarps();
      if (!foreach.getLead() || role.getWarps() > 1)
        for (BlockArgument argument : foreach.getItemArgs())
          if (!argument.use_empty() && read.insert(argument.getArgNumber()))
            words += wordsOf(argument.getType());
    }
    if (tickets.readers && !hasLead)
      return scheduler.emitOpError(
          "expected one lead loop over a dynamic schedule, but got none");
    if (int64_t blocks = scheduler.getCluster().value_or(1); blocks > 1) {
      tickets.drawnFull = place(1, 1);
      tickets.drawnEmpty = place(1, blocks);
      tickets.drawn = bytes;
      bytes += barrierBytes;
    }
    // The warp that draws needs no hand-over.
    if (--tickets.readers <= 0)
      continue;
    tickets.full = place(tickets.numSlots, 1);
    // Each lane arrives: see readItem.
    tickets.empty = place(tickets.numSlots,
                          tickets.readers * ::attn::TargetInfo::warpThreads);
    tickets.values = read.takeVector();
    tickets.slotBytes = llvm::alignTo(words * 4, ticketAlignment);
    bytes = llvm::alignTo(bytes, ticketAlignment);
    tickets.slots = bytes;
    bytes += tickets.numSlots * tickets.slotBytes;
  }
  if (barriersFirst)
    placeRegions();
  return success();
}

const RingLayout *SharedLayout::ring(Value value) const {
  auto it = rings.find(value);
  return it == rings.end() ? nullptr : &it->second;
}

const BarrierLayout *SharedLayout::barrier(Value value) const {
  auto it = barriers.find(value);
  return it == barriers.end() ? nullptr : &it->second;
}

const TicketLayout *SharedLayout::tickets(Operation *scheduler) const {
  auto it = ticketSlots.find(scheduler);
  return it == ticketSlots.end() ? nullptr : &it->second;
}

std::optional<int64_t> SharedLayout::tile(Operation *alloc) const {
  auto it = tiles.find(alloc);
  if (it == tiles.end())
    return std::nullopt;
  return it->second;
}
