//===- SharedLayout.h - Where rings, tiles and barriers lie -----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shared memory of a kernel: tiles from the most to the least aligned, so that
// nothing is lost between them, then the memory barriers.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_IR_SHAREDLAYOUT_H
#define ATTN_DIALECT_TILEGPU_IR_SHAREDLAYOUT_H

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "llvm/ADT/MapVector.h"

namespace attn::gpu {

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
};

/// Hardware barriers `first`, `first` + 1, ... of one barrier.create.
struct BarrierLayout {
  int64_t first = 0, count = 0, threads = 0;
};

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

class SharedLayout {
public:
  /// Words of 32 bits that a scalar takes in a slot of tickets.
  static int64_t wordsOf(mlir::Type type);

  mlir::LogicalResult compute(mlir::tile_gpu::KernelOp kernel);
  int64_t getBytes() const { return bytes; }
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
  llvm::SmallVector<std::pair<int64_t, int64_t>> arrivals;

private:
  int64_t bytes = 0;
  llvm::MapVector<mlir::Value, RingLayout> rings;
  llvm::DenseMap<mlir::Value, BarrierLayout> barriers;
  llvm::DenseMap<mlir::Operation *, TicketLayout> ticketSlots;
  llvm::DenseMap<mlir::Operation *, int64_t> tiles, memberBarriers;
};

} // namespace attn::gpu

#endif // ATTN_DIALECT_TILEGPU_IR_SHAREDLAYOUT_H
