//===- SharedLayout.cpp - Where rings, tiles and barriers lie -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/IR/SharedLayout.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn::gpu;
using ::attn::TargetInfo;
using Part = SharedPiece::Part;

/// Where the warps of a reduction put together what they have.
static constexpr llvm::StringLiteral scratchName = "scratch_at";

/// The warps of all members of a role that complete a reduction over the rows
/// that each of them has some of; 0: they do not.
static int64_t warpsOfReduction(Operation *op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  auto vec =
      reduce ? dyn_cast<VecType>(reduce.getResult(0).getType()) : VecType();
  return vec && vec.getAxis() == Axis::Col && !vec.getPartial() &&
                 vec.getScope() == Scope::Warpgroup
             ? groupWarps * int64_t(op->getParentOfType<RoleOp>().getCount())
             : 0;
}

/// Slots are read 16 bytes at a time.
static constexpr int64_t ticketAlignment = 16;

int64_t SharedLayout::wordsOf(Type type) {
  return type.isIndex() || type.isInteger(64) ? 2 : 1;
}

bool SharedPiece::isTile() const {
  return part == Part::Tile && !isa<SchedulerOp>(owner);
}

std::string SharedPiece::describe() const {
  std::string text;
  llvm::raw_string_ostream out(text);
  if (isa<SchedulerOp>(owner)) {
    out << (arrivals ? "barriers of drawn items" : "drawn items");
  } else if (arrivals) {
    out << bytes / ::attn::onchip::barrierBytes
        << (part == Part::Full ? " full" : " empty") << " barriers";
  } else if (auto ring = dyn_cast<RingCreateOp>(owner)) {
    RingType type = ring.getRing().getType();
    out << type.getStages() << " slots of " << type.getTiles()[index];
  } else {
    out << owner->getResult(0).getType();
  }
  return text;
}

//===----------------------------------------------------------------------===//
// What is wanted
//===----------------------------------------------------------------------===//

/// The place that an operation says a part of it has, or -1.
static int64_t placeOf(Operation *owner, Part part, unsigned index) {
  if (auto alloc = dyn_cast<SmemAllocOp>(owner))
    return alloc.getOffset().value_or(-1);
  if (auto ramp = dyn_cast<SmemRampOp>(owner))
    return ramp.getOffset().value_or(-1);
  if (isa<ReduceOp>(owner)) {
    auto at = owner->getAttrOfType<IntegerAttr>(scratchName);
    return at ? at.getInt() : -1;
  }
  std::optional<PlaceAttr> place = isa<RingCreateOp>(owner)
                                       ? cast<RingCreateOp>(owner).getPlace()
                                       : cast<SchedulerOp>(owner).getPlace();
  if (!place)
    return -1;
  switch (part) {
  case Part::Tile:
    return index < place->getTiles().size() ? place->getTiles()[index] : -1;
  case Part::Full:
    return place->getFull();
  case Part::Empty:
    return place->getEmpty();
  case Part::Drawn:
    return place->getDrawn();
  case Part::DrawnFull:
    return place->getDrawnFull();
  case Part::DrawnEmpty:
    return place->getDrawnEmpty();
  }
  llvm_unreachable("no other part");
}

void SharedLayout::add(Operation *owner, Part part, int64_t size,
                       int64_t arrivalCount, int64_t align, unsigned index) {
  pieces.push_back({owner, part, index, align, size, arrivalCount,
                    /*blocks=*/0, placeOf(owner, part, index)});
}

void SharedLayout::readTiles() {
  using ::attn::onchip::tileAlignment;
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto create = dyn_cast<RingCreateOp>(op)) {
      RingLayout &ring = rings[create.getRing()];
      ring.type = create.getRing().getType();
      ring.fill = create.getFill();
      ring.producers = create.getProducers().value_or(0);
      ring.consumers = create.getConsumers().value_or(0);
      ring.cluster = create.getCluster().value_or(1);
      ring.releaseAll = create.getReleaseAll();
      ring.offsets.resize(ring.type.getTiles().size(), -1);
      for (auto [index, tile] : llvm::enumerate(ring.type.getTiles())) {
        int64_t align = tileAlignment(tile.getSwizzle());
        ring.strides.push_back(llvm::alignTo(tile.getBytes(), align));
        add(op, Part::Tile, ring.strides.back() * ring.type.getStages(),
            /*arrivals=*/0, align, index);
      }
    } else if (isa<SmemAllocOp, SmemRampOp>(op)) {
      auto type = cast<SmemType>(op->getResult(0).getType());
      add(op, Part::Tile, type.getBytes(), /*arrivals=*/0,
          tileAlignment(type.getSwizzle()));
    } else if (int64_t warps = warpsOfReduction(op)) {
      auto vec = cast<VecType>(op->getResult(0).getType());
      add(op, Part::Tile,
          warps * vec.getSize() * vec.getElementType().getIntOrFloatBitWidth() /
              8,
          /*arrivals=*/0, tileAlignment(/*swizzle=*/0));
    }
  });
}

void SharedLayout::readRingBarriers() {
  for (auto &[value, ring] : rings) {
    if (ring.fill == Fill::CpGroup)
      continue;
    int64_t fullArrivals = 1; // The thread that announces the bytes.
    if (ring.fill == Fill::CpAsync)
      fullArrivals = ring.producers * TargetInfo::warpThreads;
    else if (ring.fill != Fill::Tma)
      fullArrivals = ring.producers;
    int64_t size = ring.type.getStages() * ::attn::onchip::barrierBytes;
    add(value.getDefiningOp(), Part::Full, size, fullArrivals);
    if (!ring.consumers)
      continue;
    if (ring.isTold()) {
      add(value.getDefiningOp(), Part::Empty, 2 * size, ring.consumers);
      pieces.back().blocks = ring.cluster;
    } else {
      add(value.getDefiningOp(), Part::Empty, size,
          ring.consumers * ring.cluster);
    }
  }
}

bool ::attn::gpu::onlyDraws(ForeachOp loop) {
  return !loop.getBody()
              .walk([](Operation *op) {
                bool isNone =
                    isa<WaitDependenciesOp>(op) ||
                    op->hasTrait<OpTrait::IsTerminator>() ||
                    op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() ||
                    isMemoryEffectFree(op);
                return isNone ? WalkResult::advance() : WalkResult::interrupt();
              })
              .wasInterrupted();
}

LogicalResult SharedLayout::readScheduler(SchedulerOp scheduler) {
  using ::attn::onchip::barrierBytes;
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
    if (foreach.getLead() && onlyDraws(foreach))
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
    add(scheduler, Part::DrawnFull, barrierBytes, 1);
    add(scheduler, Part::DrawnEmpty, barrierBytes, blocks);
    add(scheduler, Part::Drawn, barrierBytes);
  }
  // The warp that draws needs no hand-over.
  if (--tickets.readers <= 0)
    return success();
  add(scheduler, Part::Full, tickets.numSlots * barrierBytes, 1);
  // Each lane arrives: see readItem.
  add(scheduler, Part::Empty, tickets.numSlots * barrierBytes,
      tickets.readers * TargetInfo::warpThreads);
  tickets.values = read.takeVector();
  tickets.slotBytes = llvm::alignTo(words * 4, ticketAlignment);
  add(scheduler, Part::Tile, tickets.numSlots * tickets.slotBytes,
      /*arrivals=*/0, ticketAlignment);
  return success();
}

void SharedLayout::readHardwareBarriers() {
  kernel.walk([&](BarrierCreateOp create) {
    barriers[create.getBarrier()] = {-1, int64_t(create.getEach()),
                                     int64_t(create.getWarps()) *
                                         TargetInfo::warpThreads};
    numbers.push_back({create, int64_t(create.getEach()),
                       int64_t(create.getFirst().value_or(-1))});
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
      needsOwn |= isGroup
                      ? isa<SmemClearRowsOp, SmemMapOp, SmemTurnOp>(op) ||
                            warpsOfReduction(op) || (any && !any.getByRows())
                      : isa<MergeStatesOp>(op) ||
                            (waited && waited->fill == Fill::CpGroup);
    });
    if (needsOwn)
      numbers.push_back({role, isGroup ? int64_t(role.getCount()) : 1,
                         int64_t(role.getBarrier().value_or(-1))});
  }
}

LogicalResult SharedLayout::read(KernelOp of) {
  kernel = of;
  readTiles();
  readRingBarriers();
  for (auto scheduler : kernel.getOps<SchedulerOp>())
    if (scheduler.getKind() == ScheduleKind::Dynamic &&
        failed(readScheduler(scheduler)))
      return failure();
  readHardwareBarriers();
  place();
  bytes = kernel.getSharedBytes().value_or(0);
  return success();
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

bool SharedLayout::isPlaced() const {
  return (pieces.empty() || KernelOp(kernel).getSharedBytes()) &&
         llvm::all_of(pieces, [](auto &piece) { return piece.offset >= 0; }) &&
         llvm::all_of(numbers, [](auto &piece) { return piece.first >= 0; });
}

bool SharedLayout::hasPlaces() const {
  return KernelOp(kernel).getSharedBytes() ||
         llvm::any_of(pieces, [](auto &piece) { return piece.offset >= 0; }) ||
         llvm::any_of(numbers, [](auto &piece) { return piece.first >= 0; });
}

/// Of the left operand of a product of half of its rows, the product reads four
/// rows more, for rows that nobody has.
static int64_t bytesReadBehind(Operation *kernel, const SharedPiece &piece) {
  auto ring = dyn_cast<RingCreateOp>(piece.owner);
  if (!ring || !piece.isTile())
    return 0;
  SmemType tile = ring.getRing().getType().getTiles()[piece.index];
  bool isLeft = kernel
                    ->walk([&](MmaIssueOp op) {
                      bool isHalf =
                          op.getToken().getType().getFragType().isHalf();
                      return isHalf && op.getA().getType() == tile
                                 ? WalkResult::interrupt()
                                 : WalkResult::advance();
                    })
                    .wasInterrupted();
  return isLeft ? 4 * tile.getSwizzle() : 0;
}

void SharedLayout::allocate() {
  SmallVector<SharedPiece *> order;
  for (SharedPiece &piece : pieces)
    order.push_back(&piece);
  // A ramp first of all, and barriers next: tools that check addresses take its
  // rows for twice as far apart as they are.
  bool hasRamp = llvm::any_of(
      pieces, [](auto &piece) { return isa<SmemRampOp>(piece.owner); });
  auto rank = [&](SharedPiece *piece) {
    return isa<SmemRampOp>(piece->owner) ? 0 : piece->isTile() == hasRamp;
  };
  llvm::stable_sort(order, [&](SharedPiece *x, SharedPiece *y) {
    if (rank(x) != rank(y))
      return rank(x) < rank(y);
    return x->isTile() && x->align > y->align;
  });
  bytes = 0;
  for (SharedPiece *piece : order) {
    piece->offset = llvm::alignTo(bytes, piece->align);
    bytes = piece->offset + piece->bytes;
  }
  for (SharedPiece *piece : order)
    bytes = std::max(bytes, piece->offset + piece->bytes +
                                bytesReadBehind(kernel, *piece));
  int64_t next = 1; // Barrier 0 is the whole block's.
  for (BarrierPiece &piece : numbers) {
    piece.first = next;
    next += piece.count;
  }
  place();
}

void SharedLayout::place() {
  for (const SharedPiece &piece : pieces) {
    int64_t at = piece.offset;
    if (auto create = dyn_cast<RingCreateOp>(piece.owner)) {
      RingLayout &ring = rings[create.getRing()];
      (piece.part == Part::Tile   ? ring.offsets[piece.index]
       : piece.part == Part::Full ? ring.full
                                  : ring.empty) = at;
    } else if (isa<SchedulerOp>(piece.owner)) {
      TicketLayout &tickets = ticketSlots[piece.owner];
      (piece.part == Part::Tile        ? tickets.slots
       : piece.part == Part::Full      ? tickets.full
       : piece.part == Part::Empty     ? tickets.empty
       : piece.part == Part::Drawn     ? tickets.drawn
       : piece.part == Part::DrawnFull ? tickets.drawnFull
                                       : tickets.drawnEmpty) = at;
    } else {
      tiles[piece.owner] = at;
    }
  }
  for (const BarrierPiece &piece : numbers) {
    if (auto create = dyn_cast<BarrierCreateOp>(piece.owner))
      barriers[create.getBarrier()].first = piece.first;
    else
      memberBarriers[piece.owner] = piece.first;
  }
}

void SharedLayout::write() const {
  MLIRContext *context = kernel->getContext();
  Builder b(context);
  KernelOp(kernel).setSharedBytes(bytes);
  for (const SharedPiece &piece : pieces) {
    if (auto alloc = dyn_cast<SmemAllocOp>(piece.owner))
      alloc.setOffset(piece.offset);
    else if (auto ramp = dyn_cast<SmemRampOp>(piece.owner))
      ramp.setOffset(piece.offset);
    else if (isa<ReduceOp>(piece.owner))
      piece.owner->setAttr(scratchName, b.getI64IntegerAttr(piece.offset));
    else if (auto scheduler = dyn_cast<SchedulerOp>(piece.owner)) {
      const TicketLayout &at = *tickets(scheduler);
      SmallVector<int64_t, 1> slots;
      if (at.slots >= 0)
        slots.push_back(at.slots);
      scheduler.setPlaceAttr(PlaceAttr::get(context, slots, at.full, at.empty,
                                            at.drawn, at.drawnFull,
                                            at.drawnEmpty));
    } else {
      auto create = cast<RingCreateOp>(piece.owner);
      const RingLayout &at = *ring(create.getRing());
      create.setPlaceAttr(PlaceAttr::get(context, at.offsets, at.full, at.empty,
                                         /*drawn=*/-1, /*drawnFull=*/-1,
                                         /*drawnEmpty=*/-1));
    }
  }
  for (const BarrierPiece &piece : numbers) {
    if (auto create = dyn_cast<BarrierCreateOp>(piece.owner))
      create.setFirst(piece.first);
    else
      cast<RoleOp>(piece.owner).setBarrier(piece.first);
  }
}

int64_t SharedLayout::getTileBytes() const {
  int64_t total = 0;
  for (const SharedPiece &piece : pieces)
    if (isa<SmemRampOp>(piece.owner))
      total += ::attn::onchip::rampBytes(piece.bytes);
    else if (piece.isTile())
      total += llvm::alignTo(piece.bytes, piece.align);
  return total;
}

int64_t SharedLayout::getNumBarriers() const {
  int64_t count = 1;
  for (const BarrierPiece &piece : numbers)
    count = std::max(count, piece.first + piece.count);
  return count;
}

SmallVector<std::pair<int64_t, int64_t>> SharedLayout::arrivals() const {
  SmallVector<std::pair<int64_t, int64_t>> all;
  for (const SharedPiece &piece : pieces)
    for (int64_t at = 0; piece.arrivals && at < piece.bytes;
         at += ::attn::onchip::barrierBytes)
      all.push_back({piece.offset + at, piece.blocks && at >= piece.bytes / 2
                                            ? piece.blocks
                                            : piece.arrivals});
  return all;
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

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

RoleLayout::RoleLayout(KernelOp kernel) {
  int64_t warps = 0;
  for (auto role : kernel.getOps<RoleOp>()) {
    if (role.getScope() == Scope::Warpgroup)
      warps = llvm::alignTo(warps, groupWarps);
    firstWarp[role] = warps;
    warps += role.getWarps();
    while (int64_t(leaders.size()) * groupWarps < warps) {
      leaders.push_back(role);
      registers += int64_t(role.getRegisters().value_or(0)) *
                   TargetInfo::warpgroupThreads;
    }
  }
  threads = leaders.size() * TargetInfo::warpgroupThreads;
  // Warps that set no registers of their own are not rounded up to a warpgroup,
  // whose other warps would hold registers for nothing.
  bool ofWarps = llvm::all_of(kernel.getOps<RoleOp>(), [](RoleOp role) {
    return role.getScope() == Scope::Warp && !role.getRegisters();
  });
  if (ofWarps)
    threads = warps * TargetInfo::warpThreads;
}
