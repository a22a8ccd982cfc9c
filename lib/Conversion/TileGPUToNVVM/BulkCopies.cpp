//===- BulkCopies.cpp - Copies of whole tiles -----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

namespace {

/// A copy of one panel of a box: who makes it, to where, and from where.
struct PanelCopy {
  Value predicate, address;
  Values indices;
};

} // namespace

/// Elements in a row of one panel, which is what one tensor copy moves.
static int64_t panelColumns(SmemType tile) {
  if (!tile.getSwizzle())
    return tile.getStoredCols();
  return tile.getSwizzle() / tile.getElementBytes();
}

static void copyPanel(KernelContext &k, RingLoadOp op, const PanelCopy &copy) {
  Emitter &e = k.e;
  int64_t rank = copy.indices.size();
  auto acquire = op.getTile().getDefiningOp<RingAcquireOp>();
  int64_t blocks = k.layout.ring(acquire.getRing())->cluster;
  bool isShared = blocks > 1;
  std::string text = "@$0 cp.async.bulk.tensor." + std::to_string(rank) +
                     (isShared ? "d.shared::cluster" : "d.shared::cta") +
                     ".global.tile.mbarrier::complete_tx::bytes";
  if (isShared)
    text += ".multicast::cluster";
  if (op.getEvictFirst())
    text += ".L2::cache_hint";
  text += " [$1], [$2, {";
  std::string constraints = "b,r,l,r";
  Values inputs = {copy.predicate, copy.address, k.scalar(op.getSource()),
                   k.slotBarriers[op.getTile()]};
  auto operand = [&](Value value, StringRef constraint) {
    text += "$" + std::to_string(inputs.size());
    constraints += "," + constraint.str();
    inputs.push_back(value);
  };
  // Innermost first.
  for (auto [i, index] : llvm::enumerate(llvm::reverse(copy.indices))) {
    text += i ? ", " : "";
    operand(index, "r");
  }
  text += "}], [$3]";
  if (isShared) {
    text += ", ";
    operand(e.constant(e.i16, (int64_t(1) << blocks) - 1), "h");
  }
  if (op.getEvictFirst()) {
    text += ", ";
    operand(e.c64(evictFirstPolicy), "l");
  }
  e.assembly(text + ";", constraints + ",~{memory}", inputs);
}

/// The page of a box, which is a whole one: the warp has read it.
static Value takeEntry(KernelContext &k, RingLoadOp op, Value box) {
  Emitter &e = k.e;
  Values &registers = k.of(op.getEntries());
  Value first = k.scalar(op.getFirstEntry()), entries = registers.front();
  for (auto [i, other] : llvm::enumerate(llvm::drop_begin(registers)))
    entries =
        e.select(e.lt(first, e.c32((i + 1) * rowsOfRegister)), entries, other);
  Value row = e.add(e.urem(first, rowsOfRegister), box);
  return e.shuffleTo(entries, e.mul(row, lanesOfRow));
}

/// The page of a box of rows from `position` on, as the table says.
static Value readEntry(KernelContext &k, RingLoadOp op, Value position) {
  Emitter &e = k.e;
  // Rows behind the last key may be behind the last page, too.
  Value lastPage = e.sub(e.trunc32(k.of(op.getTable())[2]), e.c32(1));
  Value entry = LLVM::SMinOp::create(e.b, e.loc,
                                     e.udiv(position, *op.getPage()), lastPage);
  Value sequence = k.scalar(op.getIndices().front());
  return e.load(e.i32, k.elementPointer(op.getTable(), {sequence, entry}));
}

namespace {
/// How the boxes of pages that a tile is copied from lie in the tile.
struct PagedTile {
  explicit PagedTile(RingLoadOp op)
      : tile(op.getTile().getType()), columns(panelColumns(tile)),
        rows(cast<TensorMapType>(op.getSource().getType()).getBox().getRows()),
        boxes(tile.getRows() / rows), panels(tile.getStoredCols() / columns) {
    int64_t unit = tile.getSwizzle() ? tile.getSwizzle() : tile.getRowBytes();
    panelBytes = tile.getBoxRows() * unit;
    // A box has panels of its own, or rows of the tile's.
    boxBytes = rows * (tile.getBoxes() == 1 ? unit : tile.getRowBytes());
  }

  SmemType tile;
  /// Of a panel and of a box; the boxes of the tile, and the panels of a box.
  int64_t columns, rows, boxes, panels;
  /// From one panel, and from one box, to the next.
  int64_t panelBytes, boxBytes;
};
} // namespace

/// Copies the panels of boxes whose pages the warp has read, all by one thread:
/// of so few, lanes that take turns are no faster.
static void copyFewPanels(KernelContext &k, RingLoadOp op,
                          const PagedTile &paged) {
  Emitter &e = k.e;
  Values indices = k.flat(op.getIndices());
  Value first = indices[2], column = indices[3];
  for (int64_t number = 0; number < paged.boxes; ++number) {
    indices[0] = takeEntry(k, op, e.c32(number));
    indices[2] = e.urem(e.add(first, number * paged.rows), *op.getPage());
    for (int64_t panel = 0; panel < paged.panels; ++panel) {
      PanelCopy copy;
      copy.predicate = k.role.elected;
      copy.address = e.add(k.scalar(op.getTile()),
                           number * paged.boxBytes + panel * paged.panelBytes);
      indices[3] = e.add(column, panel * paged.columns);
      copy.indices = indices;
      copyPanel(k, op, copy);
    }
  }
}

/// Each lane finds the page of a panel of a box, and copies that.
static void lowerPagedLoad(KernelContext &k, RingLoadOp op) {
  Emitter &e = k.e;
  PagedTile paged(op);
  int64_t count = paged.boxes * paged.panels;
  auto acquire = op.getTile().getDefiningOp<RingAcquireOp>();
  int64_t blocks = k.layout.ring(acquire.getRing())->cluster;
  constexpr int64_t few = 4;
  if (op.getEntries() && blocks == 1 && count <= few)
    return copyFewPanels(k, op, paged);
  Values indices = k.flat(op.getIndices());
  Value first = indices[2], column = indices[3];
  for (int64_t done = 0; done < count; done += TargetInfo::warpThreads) {
    Value index = e.add(k.lane, done), isMine = e.lt(index, e.c32(count));
    // One panel comes from one of the blocks, for all of them.
    Value panel = e.urem(index, paged.panels);
    Value number = e.udiv(index, paged.panels);
    if (blocks > 1)
      isMine = e.and_(isMine, e.icmp(LLVM::ICmpPredicate::eq,
                                     e.urem(panel, blocks), blockInCluster(e)));
    if (k.role.scope == Scope::Warpgroup)
      isMine = e.and_(isMine, e.eq(k.role.warpInMember, 0));
    Value position = e.add(first, e.mul(number, paged.rows));
    Value page =
        op.getEntries() ? takeEntry(k, op, number) : readEntry(k, op, position);
    PanelCopy copy;
    copy.predicate = isMine;
    copy.address =
        e.add(e.add(k.scalar(op.getTile()), e.mul(panel, paged.panelBytes)),
              e.mul(number, paged.boxBytes));
    indices[0] = page;
    indices[2] = e.urem(position, *op.getPage());
    indices[3] = e.add(column, e.mul(panel, paged.columns));
    copy.indices = indices;
    copyPanel(k, op, copy);
  }
}

static LogicalResult lowerTensorLoad(KernelContext &k, RingLoadOp op) {
  Emitter &e = k.e;
  if (op.getTable()) {
    lowerPagedLoad(k, op);
    return success();
  }
  SmemType tile = op.getTile().getType();
  Value base = k.scalar(op.getTile());
  // A box has panels of its own, or rows of the tile's.
  int64_t boxRows = tile.getBoxRows();
  if (op.getBox()) {
    int64_t bytes = boxRows * tile.getRowBytes();
    if (tile.getBoxes() == 1)
      bytes = cast<TensorMapType>(op.getSource().getType()).getBox().getRows() *
              (tile.getSwizzle() ? tile.getSwizzle() : tile.getRowBytes());
    base = e.add(base, e.mul(k.scalar(op.getBox()), bytes));
  }
  int64_t columns = panelColumns(tile);
  int64_t panels = tile.getStoredCols() / columns;
  auto acquire = op.getTile().getDefiningOp<RingAcquireOp>();
  int64_t blocks = k.layout.ring(acquire.getRing())->cluster;
  Value block = blocks > 1 ? blockInCluster(e) : Value();
  for (int64_t panel = 0; panel < panels; ++panel) {
    PanelCopy copy;
    // One panel comes from one of the blocks, for all of them.
    copy.predicate = k.role.elected;
    if (block)
      copy.predicate = e.and_(copy.predicate, e.eq(block, panel % blocks));
    copy.address = e.add(base, panel * boxRows * tile.getSwizzle());
    copy.indices = k.flat(op.getIndices());
    copy.indices.back() = e.add(copy.indices.back(), panel * columns);
    copyPanel(k, op, copy);
  }
  return success();
}

LogicalResult gpu::lower(KernelContext &k, RingLoadOp op) {
  Emitter &e = k.e;
  auto acquire = op.getTile().getDefiningOp<RingAcquireOp>();
  const RingLayout *ring = acquire ? k.layout.ring(acquire.getRing()) : nullptr;
  if (!ring)
    return noRing(op);
  if (isa<TensorMapType>(op.getSource().getType()))
    return lowerTensorLoad(k, op);
  if (ring->fill == Fill::CpAsync || ring->fill == Fill::CpGroup)
    return lowerAsyncLoad(k, op);
  // One contiguous row.
  SmemType tile = op.getTile().getType();
  Value source = k.elementPointer(op.getSource(), k.flat(op.getIndices()));
  std::string hint = op.getEvictFirst() ? ".L2::cache_hint" : "";
  Values inputs = {k.scalar(op.getTile()), source, e.c32(tile.getBytes()),
                   k.slotBarriers[op.getTile()], k.role.elected};
  std::string constraints = "r,l,r,r,b";
  if (op.getEvictFirst()) {
    inputs.push_back(e.c64(evictFirstPolicy));
    constraints += ",l";
  }
  e.assembly("@$4 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx"
             "::bytes" +
                 hint + " [$0], [$1], $2, [$3]" +
                 (op.getEvictFirst() ? ", $5;" : ";"),
             constraints + ",~{memory}", inputs);
  return success();
}

LogicalResult gpu::lower(KernelContext &k, BulkStoreOp op) {
  Emitter &e = k.e;
  SmemType tile = op.getTile().getType();
  int64_t rank = op.getIndices().size();
  int64_t columns = panelColumns(tile);
  int64_t panels = tile.getStoredCols() / columns;
  Values indices = k.flat(op.getIndices());
  Value base = k.scalar(op.getTile());
  for (int64_t panel = 0; panel < panels; ++panel) {
    std::string text = "@$0 cp.async.bulk.tensor." + std::to_string(rank) +
                       "d.global.shared::cta.tile.bulk_group [$1, {";
    std::string constraints = "b,l,r";
    Values inputs = {k.role.elected, k.scalar(op.getDestination()),
                     e.add(base, panel * tile.getPitch() * tile.getSwizzle())};
    for (int64_t i = 0; i < rank; ++i) {
      Value index = indices[rank - 1 - i];
      if (i == 0)
        index = e.add(index, panel * columns);
      text += (i ? ", $" : "$") + std::to_string(inputs.size());
      constraints += ",r";
      inputs.push_back(index);
    }
    e.assembly(text + "}], [$2];", constraints + ",~{memory}", inputs);
  }
  e.assembly("cp.async.bulk.commit_group;", "~{memory}", {});
  return success();
}

LogicalResult gpu::lower(KernelContext &k, BulkReduceOp op) {
  Emitter &e = k.e;
  SmemType tile = op.getTile().getType();
  Value pointer =
      k.elementPointer(op.getDestination(), k.flat(op.getIndices()));
  Values inputs = {pointer, k.scalar(op.getTile()), e.c32(tile.getBytes())};
  Value adds = k.role.elected;
  if (Value turn = op.getTurn()) {
    Value number = k.scalar(turn);
    adds = e.and_(adds, e.icmp(LLVM::ICmpPredicate::ne, number, e.c32(0)));
    inputs.push_back(e.and_(k.role.elected, e.eq(number, 0)));
    e.assembly("@$3 cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], "
               "$2;",
               "l,r,r,b,~{memory}", inputs);
    inputs.pop_back();
  }
  inputs.push_back(adds);
  e.assembly("@$3 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 "
             "[$0], [$1], $2;",
             "l,r,r,b,~{memory}", inputs);
  e.assembly("cp.async.bulk.commit_group;", "~{memory}", {});
  return success();
}

LogicalResult gpu::lower(KernelContext &k, BulkWaitOp op) {
  Emitter &e = k.e;
  e.assembly("cp.async.bulk.wait_group.read " + Twine(op.getPending()) + ";",
             "~{memory}", {});
  return success();
}
