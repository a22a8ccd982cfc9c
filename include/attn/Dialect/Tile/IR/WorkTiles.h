//===- WorkTiles.h - Which work tile has which number -----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place that says where a work tile is. The vector lowering builds this
// arithmetic of `index`, the lowering of tile_gpu.scheduler of LLVM's i32, and
// the emulator computes with numbers. docs/Architecture.md adds an order to it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_IR_WORKTILES_H
#define ATTN_DIALECT_TILE_IR_WORKTILES_H

#include "attn/Dialect/Tile/IR/Tile.h"
#include "mlir/IR/Builders.h"
#include <algorithm>
#include <optional>
#include <utility>

namespace mlir::tile {

/// The arithmetic of numbers, for those who build no IR.
struct NumberMath {
  int64_t constant(int64_t value) { return value; }
  bool isOne(int64_t x) { return x == 1; }
  int64_t add(int64_t x, int64_t y) { return x + y; }
  int64_t sub(int64_t x, int64_t y) { return x - y; }
  int64_t mul(int64_t x, int64_t y) { return x * y; }
  int64_t min(int64_t x, int64_t y) { return std::min(x, y); }
  std::pair<int64_t, int64_t> divide(int64_t x, int64_t y) {
    return {x / y, x % y};
  }
};

/// The sizes of all work. `cluster` tiles of one head follow each other, and
/// divide `tiles`; `section` heads advance together.
template <typename Value> struct WorkDomain {
  Value batches, heads, tiles, parts;
  std::optional<Value> section;
  int64_t cluster = 1;
  /// What work tiles are divided by, beside `parts` and `heads`: the tiles of a
  /// head that are told apart by more than their place in a cluster, and those
  /// of a section (`countWork`).
  Value rows = {}, sectionTiles = {};
};

template <typename Value> struct WorkTile {
  Value batch, head, tile, part;
};

/// The tile that comes `number`-th among the tiles of a head; of a cluster, all
/// of its tiles are one.
template <typename Math, typename Value>
Value placeTile(Math &m, Value number, Value tiles, attn::WorkOrder order) {
  switch (order) {
  case attn::WorkOrder::in_order:
    return number;
  case attn::WorkOrder::longest_first:
    return m.sub(m.sub(tiles, m.constant(1)), number);
  }
  llvm_unreachable("unknown order of work tiles");
}

/// Fills in what is the same for all work tiles.
template <typename Math, typename Value>
void countWork(Math &m, WorkDomain<Value> &domain) {
  domain.rows = domain.tiles;
  if (domain.cluster > 1)
    domain.rows = m.divide(domain.tiles, m.constant(domain.cluster)).first;
  if (domain.section && m.isOne(*domain.section))
    domain.section.reset();
  if (domain.section)
    domain.sectionTiles = m.mul(domain.rows, *domain.section);
}

/// The work tile of a number. From the innermost on: the tiles of a cluster,
/// the parts of the keys, the heads of a section, the tiles of a head, the
/// sections.
template <typename Math, typename Value>
WorkTile<Value> locateWorkTile(Math &m, Value number,
                               const WorkDomain<Value> &domain,
                               attn::WorkOrder order) {
  WorkTile<Value> at;
  auto divide = [&](Value x, Value by) -> std::pair<Value, Value> {
    if (m.isOne(by))
      return {x, m.constant(0)};
    return m.divide(x, by);
  };
  Value rest = number, rank = {};
  if (domain.cluster > 1)
    std::tie(rest, rank) = m.divide(rest, m.constant(domain.cluster));
  std::tie(rest, at.part) = divide(rest, domain.parts);
  if (m.isOne(domain.heads) && m.isOne(domain.batches)) {
    at.tile = rest;
    at.batch = at.head = m.constant(0);
  } else {
    if (domain.section) {
      // The last section may have fewer heads.
      auto [section, inSection] = m.divide(rest, domain.sectionTiles);
      Value first = m.mul(section, *domain.section);
      Value left = m.sub(m.mul(domain.batches, domain.heads), first);
      std::tie(at.tile, at.head) =
          m.divide(inSection, m.min(*domain.section, left));
      at.head = m.add(first, at.head);
    } else {
      std::tie(at.head, at.tile) = m.divide(rest, domain.rows);
    }
    if (m.isOne(domain.batches))
      at.batch = m.constant(0);
    else
      std::tie(at.batch, at.head) = divide(at.head, domain.heads);
  }
  at.tile = placeTile(m, at.tile, domain.rows, order);
  if (domain.cluster > 1)
    at.tile = m.add(m.mul(at.tile, m.constant(domain.cluster)), rank);
  return at;
}

/// A tile of packed sequences: its sequence and its place in it, of `index`,
/// and whether the sequence has no such tile.
struct SequenceTile {
  Value sequence, tile, isEmpty;
};
/// Builds what finds the sequence of `tile`, one of the tiles of a `varlen`
/// work tile. `offsets` and `rows` stand for its operands.
SequenceTile findSequence(OpBuilder &b, WorkTileOp op, Value tile,
                          Value offsets, Value rows);

/// Whether `counts` gives the batch no row of this tile.
Value hasNoRows(OpBuilder &b, WorkTileOp op, Value tile, Value batch,
                Value counts);

/// Puts divisions in the place of a work tile.
void expandWorkTile(WorkTileOp op);

} // namespace mlir::tile

#endif // ATTN_DIALECT_TILE_IR_WORKTILES_H
