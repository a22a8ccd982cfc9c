//===- SharedLayout.h - Where rings, tiles and barriers lie -----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the operations of a kernel want of shared memory and of the hardware's
// barriers, and the places that tile-gpu-allocate-shared has written on them.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_IR_SHAREDLAYOUT_H
#define ATTN_DIALECT_TILEGPU_IR_SHAREDLAYOUT_H

#include "attn/Analysis/OnChip.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "llvm/ADT/MapVector.h"

namespace attn::gpu {

/// Warps of a warpgroup.
constexpr int64_t groupWarps =
    TargetInfo::warpgroupThreads / TargetInfo::warpThreads;
/// Warps at the barrier of a turn: those of the warpgroup that passes it on and
/// of the one that takes it.
constexpr int64_t turnWarps = 2 * groupWarps;

struct RingLayout {
  mlir::tile_gpu::RingType type;
  mlir::tile_gpu::Fill fill;
  int64_t producers = 0, consumers = 0;
  /// Blocks whose slots are filled together.
  int64_t cluster = 1;
  /// Offset of each tile in slot 0, and the bytes from slot to slot.
  llvm::SmallVector<int64_t> offsets, strides;
  /// Offset of the barriers of slot 0, 8 bytes apart; -1 where there is none.
  int64_t full = -1, empty = -1;

  /// Whether consumers of a cluster release a slot in all of its blocks.
  bool releaseAll = false;

  /// Whether the blocks of a cluster tell each other that a slot of theirs is
  /// empty, by as many barriers again behind the empty ones.
  bool isTold() const {
    return cluster > 1 && fill == mlir::tile_gpu::Fill::Tma && !releaseAll;
  }
  int64_t allEmpty() const {
    return empty + type.getStages() * onchip::barrierBytes;
  }
};

/// Hardware barriers `first`, `first` + 1, ... of one barrier.create.
struct BarrierLayout {
  int64_t first = 0, count = 0, threads = 0;
};

/// Whether a loop over items does nothing with them: it may wait for the launch
/// before.
bool onlyDraws(mlir::tile_gpu::ForeachOp loop);

/// Hand-over of drawn items: slots, each of an item's number and of what others
/// than the warp that draws read of it. A warp that does nothing but draw would
/// run ahead by both of two.
struct TicketLayout {
  int64_t numSlots = 2;
  int64_t slots = -1, full = -1, empty = -1;
  /// Bytes of a slot; the arguments of the loops that it holds, in order.
  int64_t slotBytes = 0;
  llvm::SmallVector<unsigned> values;
  /// Warps that read what one warp draws.
  int64_t readers = 0;
  /// Where blocks draw as a cluster: the word that block 0 writes to each, and
  /// its barriers.
  int64_t drawn = -1, drawnFull = -1, drawnEmpty = -1;
};

/// A stretch of shared memory that an operation owns.
struct SharedPiece {
  enum class Part { Tile, Full, Empty, Drawn, DrawnFull, DrawnEmpty };
  mlir::Operation *owner;
  Part part;
  /// Of a ring's tiles.
  unsigned index = 0;
  int64_t align = onchip::barrierBytes, bytes = 0;
  /// What each of the barriers waits for; 0: these are none.
  int64_t arrivals = 0;
  /// If not 0, what each of the second half of them waits for.
  int64_t blocks = 0;
  /// -1: it has no place yet.
  int64_t offset = -1;

  bool isTile() const;
  /// "2 slots of 128x128xbf16 swizzle 128".
  std::string describe() const;
};

/// Hardware barriers that an operation owns.
struct BarrierPiece {
  mlir::Operation *owner;
  int64_t count = 1;
  /// -1: none yet. Barrier 0 is the whole block's.
  int64_t first = -1;
};

class SharedLayout {
public:
  /// Words of 32 bits that a scalar takes in a slot of tickets.
  static int64_t wordsOf(mlir::Type type);

  /// What the kernel's operations want, and the places that they have.
  mlir::LogicalResult read(mlir::tile_gpu::KernelOp kernel);
  /// Whether all of them have places, or some.
  bool isPlaced() const;
  bool hasPlaces() const;
  /// Gives all of them places: tiles from the most to the least aligned, so
  /// that nothing is lost between them, then the memory barriers.
  void allocate();
  /// Writes the places on the operations.
  void write() const;

  int64_t getBytes() const { return bytes; }
  /// Of tiles, with what there is of a ramp beyond its share of the reserve.
  int64_t getTileBytes() const;
  int64_t getNumBarriers() const;
  llvm::ArrayRef<SharedPiece> getPieces() const { return pieces; }
  llvm::ArrayRef<BarrierPiece> getBarrierPieces() const { return numbers; }

  const RingLayout *ring(mlir::Value value) const;
  const BarrierLayout *barrier(mlir::Value value) const;
  const TicketLayout *tickets(mlir::Operation *scheduler) const;
  std::optional<int64_t> tile(mlir::Operation *alloc) const;
  /// The hardware barrier of member 0 of a role of warpgroups, which the next
  /// members' follow, or of all warps of a role of warps.
  int64_t memberBarrier(mlir::Operation *role) const {
    return memberBarriers.lookup(role);
  }
  /// Offset and arrivals of every memory barrier.
  llvm::SmallVector<std::pair<int64_t, int64_t>> arrivals() const;

private:
  void readTiles();
  void readRingBarriers();
  mlir::LogicalResult readScheduler(mlir::tile_gpu::SchedulerOp scheduler);
  void readHardwareBarriers();
  void add(mlir::Operation *owner, SharedPiece::Part part, int64_t bytes,
           int64_t arrivals = 0, int64_t align = onchip::barrierBytes,
           unsigned index = 0);
  /// Tells the layouts of the pieces' places.
  void place();

  mlir::tile_gpu::KernelOp kernel;
  int64_t bytes = 0;
  llvm::SmallVector<SharedPiece> pieces;
  llvm::SmallVector<BarrierPiece> numbers;
  llvm::MapVector<mlir::Value, RingLayout> rings;
  llvm::DenseMap<mlir::Value, BarrierLayout> barriers;
  llvm::DenseMap<mlir::Operation *, TicketLayout> ticketSlots;
  llvm::DenseMap<mlir::Operation *, int64_t> tiles, memberBarriers;
};

/// The warps of a kernel's roles, in the order of their text: a role of
/// warpgroups starts at one, roles of warps share them.
struct RoleLayout {
  explicit RoleLayout(mlir::tile_gpu::KernelOp kernel);
  /// The first warp of each role.
  llvm::DenseMap<mlir::Operation *, int64_t> firstWarp;
  /// For each warpgroup, the role that begins it, whose registers it has.
  llvm::SmallVector<mlir::tile_gpu::RoleOp> leaders;
  int64_t threads = 0;
  /// Registers of all threads, where roles ask for them.
  int64_t registers = 0;
};

} // namespace attn::gpu

#endif // ATTN_DIALECT_TILEGPU_IR_SHAREDLAYOUT_H
