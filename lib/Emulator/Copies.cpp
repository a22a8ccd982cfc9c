//===- Copies.cpp - Copies that take effect later -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Models.h"
#include "attn/Emulator/Timing.h"

#include <cstring>

using namespace mlir;
namespace emulator = ::attn::emulator;
using namespace ::attn::emulator;

//===----------------------------------------------------------------------===//
// Boxes of tensors
//===----------------------------------------------------------------------===//

static std::optional<MemoryType> typeOfCode(int32_t element) {
  switch (element) {
  case ATTN_ELEMENT_F32:
    return MemoryType{{Kind::F32, 32, Rounding::None}, 4};
  case ATTN_ELEMENT_F16:
    return MemoryType{{Kind::F32, 16, Rounding::F16}, 2};
  case ATTN_ELEMENT_BF16:
    return MemoryType{{Kind::F32, 16, Rounding::BF16}, 2};
  case ATTN_ELEMENT_I32:
    return MemoryType{{Kind::I32, 32, Rounding::None}, 4};
  case ATTN_ELEMENT_U8:
    return MemoryType{{Kind::I32, 8, Rounding::None}, 1};
  default:
    return std::nullopt;
  }
}

/// The address of a tensor's element, or null where there is none: such read
/// as zero and are not written.
static char *elementOf(const TensorMap &map, llvm::ArrayRef<int64_t> indices,
                       int64_t row, int64_t col, int64_t bytes) {
  size_t rank = map.sizes.size();
  int64_t offset = 0;
  for (size_t i = 0; i < rank; ++i) {
    int64_t at = indices[i];
    if (i + 2 == rank)
      at += row;
    if (i + 1 == rank)
      at += col;
    if (at < 0 || at >= map.sizes[i])
      return nullptr;
    offset += at * map.strides[i];
  }
  return map.data + offset * bytes;
}

static llvm::SmallVector<int64_t, 5> indicesOf(const Agent &a,
                                               llvm::ArrayRef<SlotId> slots) {
  llvm::SmallVector<int64_t, 5> indices;
  for (SlotId slot : slots)
    indices.push_back(a.i32(slot));
  return indices;
}

namespace {
/// One copy from a tensor into a slot's tile.
struct BoxLoad {
  TileInfo tile;
  int64_t rows;
  SlotId source, tileSlot, box;
  llvm::SmallVector<SlotId> indices;
  uint32_t ring;
  /// Pages of `page` rows; `noSlot` without.
  SlotId table;
  int64_t page;
  /// What the warp has read of the table, and where the tile's begin there.
  SlotId entries, firstEntry;
};
} // namespace

/// When what an instruction touches has been copied.
static Cycles copiedAt(Agent &a, int64_t bytes, bool isStore) {
  return a.machine.timing ? a.machine.timing->copy(a, bytes, isStore) : 0;
}

/// A panel of a box lands in some blocks at once.
static bool startPanel(Agent &a, const BoxLoad &load, int64_t box,
                       int64_t panel, llvm::ArrayRef<int64_t> indices,
                       const View &view,
                       llvm::ArrayRef<ThreadBlock *> targets) {
  const TileInfo &tile = load.tile;
  const RingInfo &ring = a.program.rings[load.ring];
  const TensorMap map = a.tensorMap(load.source);
  auto type = typeOfCode(map.element);
  if (!type)
    return a.fail("copies elements that no tensor map describes");
  int64_t rows = load.rows, cols = tile.panelCols;
  int64_t firstRow = box * rows;
  int64_t firstCol = panel * cols, bytes = rows * cols * tile.elementBytes;
  for (ThreadBlock *target : targets) {
    MBarrier &full = target->mbarriers[size_t(ring.full) + view.stage];
    a.signals = &full.info->name;
    Access access = a.access(0, true);
    access.isAsync = true;
    access.epoch.component = full.component;
    access.epoch.clock = uint32_t(full.phase) + 1;
    if (!a.touch(*target, view, {firstRow, firstCol, rows, cols}, access))
      return false;
  }
  // Of memory that this plan writes, too.
  for (int64_t r = 0; r < rows; ++r) {
    char *first = nullptr;
    int64_t count = 0;
    for (int64_t c = 0; c < cols; ++c)
      if (char *from = elementOf(map, indices, r, firstCol + c, type->bytes)) {
        first = first ? first : from;
        ++count;
      }
    Access access = a.access(0, false);
    if (first && !a.touchGlobal(first, size_t(count * type->bytes), access))
      return false;
  }
  llvm::SmallVector<int64_t, 5> where(indices);
  llvm::SmallVector<ThreadBlock *, 2> blocks(targets);
  Machine &machine = a.machine;
  Cycles end = copiedAt(a, bytes * int64_t(targets.size()), /*isStore=*/false);
  for (ThreadBlock *block : blocks) {
    MBarrier &full = block->mbarriers[size_t(ring.full) + view.stage];
    machine.defer(a, "a copy", [=, &machine, &full] {
      SharedRegion &region = block->regions[view.region];
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c) {
          View at = view;
          at.row += uint32_t(firstRow + r);
          at.col += uint32_t(firstCol + c);
          uint32_t *to = region.at(at);
          *to = 0;
          if (char *from =
                  elementOf(map, where, r, firstCol + c, type->bytes)) {
            loadElement(from, *type, to);
            if (tile.rounding == Rounding::TF32) {
              float value;
              std::memcpy(&value, to, 4);
              value = roundTo(value, Rounding::TF32);
              std::memcpy(to, &value, 4);
            }
          }
        }
      completeBytes(machine, full, bytes, end);
    });
  }
  return true;
}

/// Makes `indices`, of a sequence and a row of it, those of its page and the
/// row there; false where the table cannot be read.
static bool findPage(Agent &a, const BoxLoad &load,
                     llvm::MutableArrayRef<int64_t> indices) {
  const MemrefValue &table = a.memref(load.table);
  int64_t number =
      std::min(indices[2] / load.page, int64_t(table.sizes[1]) - 1);
  int64_t at[] = {indices[0], number};
  char *from = a.element(table, at, 4);
  if (!from || !a.touchGlobal(from, 4, a.access(0, false)))
    return false;
  int32_t page = 0;
  std::memcpy(&page, from, 4);
  indices[0] = page;
  indices[2] %= load.page;
  return true;
}

/// Whether the pages that the warp has read are those of the table: box `box`
/// lies at `indices` of a sequence.
static bool checkEntry(Agent &a, const BoxLoad &load, int64_t box,
                       llvm::ArrayRef<int64_t> indices, int64_t page) {
  // What lies behind the table's end is not copied from.
  if (indices[2] / load.page >= a.memref(load.table).sizes[1])
    return true;
  auto entries = a.use(load.entries);
  if (a.machine.failed())
    return false;
  auto number = size_t(a.i32(load.firstEntry) + box);
  if (number >= entries->words.size() ||
      int32_t(entries->words[number]) != page) {
    a.fail("copies a page that its table does not name there");
    return false;
  }
  return true;
}

/// The panels of a box.
static bool startBox(Agent &a, const BoxLoad &load, int64_t box,
                     llvm::ArrayRef<int64_t> indices, const View &view) {
  auto &blocks = a.block.cluster->blocks;
  bool isShared = a.program.rings[load.ring].cluster > 1;
  int64_t panels = load.tile.cols / load.tile.panelCols;
  for (int64_t panel = 0; panel < panels; ++panel) {
    llvm::SmallVector<ThreadBlock *> targets = {&a.block};
    if (isShared) {
      // One panel comes from one of the blocks, for all of them.
      if (panel % int64_t(blocks.size()) != a.block.rank)
        continue;
      targets.clear();
      for (auto &block : blocks)
        targets.push_back(block.get());
    }
    if (!startPanel(a, load, box, panel, indices, view, targets))
      return false;
  }
  return true;
}

static LogicalResult emulateBox(tg::RingLoadOp op, ProgramBuilder &b,
                                uint32_t ring) {
  auto map = cast<tg::TensorMapType>(op.getSource().getType());
  auto optional = [&](Value value) { return value ? b.slot(value) : noSlot; };
  BoxLoad load{tileInfoOf(op.getTile().getType()),
               map.getBox().getRows(),
               b.slot(op.getSource()),
               b.slot(op.getTile()),
               optional(op.getBox()),
               b.slots(op.getIndices()),
               ring,
               optional(op.getTable()),
               int64_t(op.getPage().value_or(0)),
               optional(op.getEntries()),
               optional(op.getFirstEntry())};
  b.emit(op, true, [load](Agent &a) {
    View view = a.view(load.tileSlot);
    auto indices = indicesOf(a, load.indices);
    if (load.table == noSlot) {
      int64_t box = load.box == noSlot ? 0 : a.i32(load.box);
      return startBox(a, load, box, indices, view) ? Step::Next : Step::Stop;
    }
    if (indices[2] % load.rows) {
      a.fail("copies boxes of rows from a row that is no multiple of these");
      return Step::Stop;
    }
    for (int64_t box = 0; box < load.tile.rows / load.rows; ++box) {
      auto at = indices;
      at[2] += box * load.rows;
      if (!findPage(a, load, at))
        return Step::Stop;
      if (load.entries != noSlot) {
        auto row = indices;
        row[2] += box * load.rows;
        if (!checkEntry(a, load, box, row, at[0]))
          return Step::Stop;
      }
      if (!startBox(a, load, box, at, view))
        return Step::Stop;
    }
    return Step::Next;
  });
  return success();
}

/// Contiguous elements by a bulk copy.
static LogicalResult emulateBulk(tg::RingLoadOp op, ProgramBuilder &b,
                                 uint32_t number) {
  auto memory =
      memoryTypeOf(cast<MemRefType>(op.getSource().getType()).getElementType());
  if (!memory)
    return op.emitOpError("expected elements of an integer or float type");
  TileInfo tile = tileInfoOf(op.getTile().getType());
  SlotId source = b.slot(op.getSource()), at = b.slot(op.getTile());
  auto slots = b.slots(op.getIndices());
  MemoryType type = *memory;
  b.emit(op, true, [=](Agent &a) {
    View view = a.view(at);
    auto indices = indicesOf(a, slots);
    char *from = a.element(a.memref(source), indices.data(), type.bytes);
    int64_t count = tile.rows * tile.cols;
    if (!from ||
        !a.touchGlobal(from, size_t(count * type.bytes), a.access(0, false)))
      return Step::Stop;
    MBarrier &full =
        a.block.mbarriers[size_t(a.program.rings[number].full) + view.stage];
    a.signals = &full.info->name;
    Access access = a.access(0, true);
    access.isAsync = true;
    access.epoch.component = full.component;
    access.epoch.clock = uint32_t(full.phase) + 1;
    if (!a.touch(a.block, view, {0, 0, tile.rows, tile.cols}, access))
      return Step::Stop;
    Machine &machine = a.machine;
    ThreadBlock &block = a.block;
    Cycles end = copiedAt(a, tile.bytes(), /*isStore=*/false);
    machine.defer(a, "a copy", [=, &machine, &block, &full] {
      uint32_t *to = block.regions[view.region].at(view);
      for (int64_t i = 0; i < count; ++i)
        loadElement(from + i * type.bytes, type, to + i);
      completeBytes(machine, full, tile.bytes(), end);
    });
    return Step::Next;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// cp.async
//===----------------------------------------------------------------------===//

/// Where a copy finds its rows by themselves.
struct RowMap {
  SlotId table, start;
};

/// Makes `indices`, of a sequence and a row of it, those of that row in the
/// tensor; false where that cannot be read.
static bool findRow(Agent &a, const RowMap &map, const MemrefValue &tensor,
                    llvm::MutableArrayRef<int64_t> indices, int64_t warp) {
  auto read = [&](SlotId memory, llvm::ArrayRef<int64_t> at, int32_t &value) {
    char *from = a.element(a.memref(memory), at.data(), 4);
    if (!from || !a.touchGlobal(from, 4, a.access(warp, false)))
      return false;
    std::memcpy(&value, from, 4);
    return true;
  };
  int64_t &row = indices[indices.size() - 2];
  int64_t rows = tensor.sizes[indices.size() - 2];
  int32_t value = 0;
  if (map.start != noSlot) {
    if (!read(map.start, indices.front(), value))
      return false;
    row = rows ? (std::max<int64_t>(value, 0) + row) % rows : 0;
  }
  if (map.table != noSlot) {
    int64_t last = a.memref(map.table).sizes[1] - 1;
    int64_t number = std::min(rows ? row / rows : 0, last);
    if (!read(map.table, {indices.front(), number}, value))
      return false;
    indices.front() = std::clamp<int64_t>(
        value, 0, std::max<int64_t>(tensor.sizes[0] - 1, 0));
    row = rows ? row % rows : 0;
  }
  return true;
}

namespace {
/// 16 bytes that a thread copies, or what there is of them; null: zeros.
struct Piece {
  const char *from;
  View to;
  int64_t count;
};

/// A load of a ring by cp.async: the warps of the role share the copy, 16 bytes
/// a thread.
struct ThreadCopy {
  TileInfo tile;
  MemoryType type;
  SlotId source, at, box, from, bound;
  llvm::SmallVector<SlotId> slots;
  RowMap map;
  int64_t boxRows;

  ThreadCopy(tg::RingLoadOp op, MemoryType type, ProgramBuilder &b);
  Step run(Agent &a) const;

private:
  int64_t chunkCols() const { return 16 / tile.elementBytes; }
  bool isLive(Agent &a, int64_t position) const {
    return (bound == noSlot || position < a.i32(bound)) &&
           (from == noSlot || position >= a.i32(from));
  }
  const char *find(Agent &a, llvm::ArrayRef<int64_t> origin, int64_t row,
                   int64_t col, int64_t count, int64_t warp) const;
  std::optional<std::vector<Piece>>
  collect(Agent &a, llvm::ArrayRef<int64_t> indices) const;
  void write(ThreadBlock &block, llvm::ArrayRef<Piece> pieces,
             int64_t stride) const;
};
} // namespace

ThreadCopy::ThreadCopy(tg::RingLoadOp op, MemoryType type, ProgramBuilder &b)
    : tile(tileInfoOf(op.getTile().getType())), type(type),
      source(b.slot(op.getSource())), at(b.slot(op.getTile())),
      slots(b.slots(op.getIndices())), boxRows(op.getBoxes().value_or(1)) {
  auto optional = [&](Value value) { return value ? b.slot(value) : noSlot; };
  box = optional(op.getBox());
  from = optional(op.getFrom());
  bound = optional(op.getRows());
  map = {optional(op.getTable()), optional(op.getStart())};
}

/// Where `count` columns of a row begin, which are read; null where that fails.
const char *ThreadCopy::find(Agent &a, llvm::ArrayRef<int64_t> origin,
                             int64_t row, int64_t col, int64_t count,
                             int64_t warp) const {
  const MemrefValue &tensor = a.memref(source);
  llvm::SmallVector<int64_t, 5> indices(origin);
  size_t rank = indices.size();
  indices[rank - 2] += row;
  indices[rank - 1] += col;
  if (!findRow(a, map, tensor, indices, warp))
    return nullptr;
  const char *first = a.element(tensor, indices.data(), type.bytes);
  // What follows at other strides is inside as well.
  int64_t stride = tensor.strides[rank - 1];
  if (!first ||
      !a.touchGlobal(first, size_t(((count - 1) * stride + 1) * type.bytes),
                     a.access(warp, false)))
    return nullptr;
  return first;
}

/// What this agent's threads copy.
std::optional<std::vector<Piece>>
ThreadCopy::collect(Agent &a, llvm::ArrayRef<int64_t> indices) const {
  const MemrefValue &tensor = a.memref(source);
  View view = a.view(at);
  size_t rank = indices.size();
  int64_t rows = tile.rows / tile.boxes;
  int64_t top = box == noSlot ? 0 : a.i32(box) * rows;
  int64_t rowChunks = tile.cols / chunkCols();
  int64_t threads = a.role.warps * 32;
  std::vector<Piece> pieces;
  for (int64_t i = 0; i < rows * rowChunks; ++i) {
    int64_t warp = i % threads / 32 - a.member * a.warps;
    if (warp < 0 || warp >= a.warps)
      continue;
    int64_t row = i / rowChunks, col = i % rowChunks * chunkCols();
    int64_t count = std::clamp<int64_t>(
        tensor.sizes[rank - 1] - indices[rank - 1] - col, 0, chunkCols());
    const char *first = nullptr;
    if (isLive(a, indices[rank - 2] + row) && count) {
      first = find(a, indices, row, col, count, warp);
      if (!first)
        return std::nullopt;
    }
    Access access = a.access(warp, true);
    access.epoch.component = a.component(warp, lineCopies);
    access.epoch.clock = a.numCopyGroups;
    if (!a.touch(a.block, view, {top + row, col, 1, chunkCols()}, access))
      return std::nullopt;
    View to = view;
    to.row += uint32_t(top + row);
    to.col += uint32_t(col);
    pieces.push_back({first, to, first ? count : 0});
  }
  return pieces;
}

void ThreadCopy::write(ThreadBlock &block, llvm::ArrayRef<Piece> pieces,
                       int64_t stride) const {
  for (const Piece &piece : pieces) {
    uint32_t *to = block.regions[piece.to.region].at(piece.to);
    std::fill(to, to + chunkCols(), 0);
    for (int64_t c = 0; c < piece.count; ++c) {
      loadElement(piece.from + c * stride * type.bytes, type, to + c);
      if (tile.rounding == Rounding::TF32) {
        float value;
        std::memcpy(&value, to + c, 4);
        value = roundTo(value, tile.rounding);
        std::memcpy(to + c, &value, 4);
      }
    }
  }
}

Step ThreadCopy::run(Agent &a) const {
  a.signals = nullptr;
  auto indices = indicesOf(a, slots);
  if (indices[indices.size() - 2] % boxRows) {
    a.fail("copies boxes of rows from a row that is no multiple of these");
    return Step::Stop;
  }
  std::optional<std::vector<Piece>> pieces = collect(a, indices);
  if (!pieces)
    return Step::Stop;
  // Stores of threads count its bytes in shared memory.
  a.copiesEnd = std::max(a.copiesEnd, copiedAt(a, 0, /*isStore=*/false));
  ThreadBlock &block = a.block;
  int64_t stride = a.memref(source).strides[indices.size() - 1];
  auto last = a.copies.empty() ? nullptr : a.copies.back();
  a.copies.push_back(a.machine.defer(
      a, "copies of cp.async",
      [copy = *this, &block, stride, pieces = std::move(*pieces)] {
        copy.write(block, pieces, stride);
      },
      last));
  return Step::Next;
}

static LogicalResult emulateCopies(tg::RingLoadOp op, ProgramBuilder &b) {
  auto memref = cast<MemRefType>(op.getSource().getType());
  auto memory = memoryTypeOf(memref.getElementType());
  if (!memory || memref.getRank() < 2)
    return op.emitOpError("expected a tensor of rank 2 or more, of an integer "
                          "or float type");
  b.emit(op, true,
         [copy = ThreadCopy(op, *memory, b)](Agent &a) { return copy.run(a); });
  return success();
}

LogicalResult emulator::emulate(tg::RingLoadOp op, ProgramBuilder &b) {
  auto acquire = op.getTile().getDefiningOp<tg::RingAcquireOp>();
  auto ring = acquire ? b.ring(acquire.getRing()) : std::nullopt;
  if (!ring)
    return op.emitOpError("expected a tile of a ring.acquire");
  if (isa<tg::TensorMapType>(op.getSource().getType()))
    return emulateBox(op, b, *ring);
  if (b.kernel().rings[*ring].fill == Fill::Tma)
    return emulateBulk(op, b, *ring);
  return emulateCopies(op, b);
}

//===----------------------------------------------------------------------===//
// Bulk stores
//===----------------------------------------------------------------------===//

/// Starts a copy out of a tile by the first thread of the member.
static void startBulk(Agent &a, const View &view, const TileInfo &tile,
                      std::function<void(SharedRegion &, View)> write) {
  a.bulkEnds.push_back(copiedAt(a, tile.bytes(), /*isStore=*/true));
  ThreadBlock &block = a.block;
  auto last = a.bulkGroups.empty() ? nullptr : a.bulkGroups.back().back();
  a.bulkGroups.push_back({a.machine.defer(
      a, "a bulk copy",
      [&block, view, write] { write(block.regions[view.region], view); },
      last)});
}

static bool touchBulk(Agent &a, const View &view, const TileInfo &tile) {
  ++a.numBulkGroups;
  Access access = a.access(0, false);
  access.isAsync = true;
  access.epoch.component = a.component(0, lineBulk);
  access.epoch.clock = a.numBulkGroups;
  return a.touch(a.block, view, {0, 0, tile.rows, tile.cols}, access);
}

/// What is written is there when the launch ends (PTX ISA, cp.async.bulk: what
/// waits with .read waits for the reads alone).
static Access bulkWrite(const Agent &a) {
  Access access = a.access(0, true);
  access.isAsync = true;
  access.epoch.component = a.component(0, lineBulkWrites);
  access.epoch.clock = a.numBulkGroups;
  return access;
}

LogicalResult emulator::emulate(tg::BulkStoreOp op, ProgramBuilder &b) {
  TileInfo tile = tileInfoOf(op.getTile().getType());
  SlotId from = b.slot(op.getTile()), to = b.slot(op.getDestination());
  auto slots = b.slots(op.getIndices());
  b.emit(op, true, [=](Agent &a) {
    View view = a.view(from);
    if (!touchBulk(a, view, tile))
      return Step::Stop;
    auto indices = indicesOf(a, slots);
    const TensorMap map = a.tensorMap(to);
    auto type = typeOfCode(map.element);
    if (!type) {
      a.fail("copies elements that no tensor map describes");
      return Step::Stop;
    }
    for (int64_t r = 0; r < tile.rows; ++r)
      for (int64_t c = 0; c < tile.cols; ++c) {
        char *at = elementOf(map, indices, r, c, type->bytes);
        Access access = bulkWrite(a);
        if (at && !a.touchGlobal(at, size_t(type->bytes), access))
          return Step::Stop;
      }
    startBulk(a, view, tile, [=](SharedRegion &region, View at) {
      for (int64_t r = 0; r < tile.rows; ++r)
        for (int64_t c = 0; c < tile.cols; ++c) {
          View element = at;
          element.row += uint32_t(r);
          element.col += uint32_t(c);
          if (char *place = elementOf(map, indices, r, c, type->bytes))
            storeElement(place, *type, region.at(element));
        }
    });
    return Step::Next;
  });
  return success();
}

LogicalResult emulator::emulate(tg::BulkReduceOp op, ProgramBuilder &b) {
  TileInfo tile = tileInfoOf(op.getTile().getType());
  SlotId from = b.slot(op.getTile()), to = b.slot(op.getDestination());
  auto slots = b.slots(op.getIndices());
  if (!cast<MemRefType>(op.getDestination().getType()).getElementType().isF32())
    return op.emitOpError("expected memory of f32");
  std::optional<SlotId> turn;
  if (Value number = op.getTurn())
    turn = b.slot(number);
  b.emit(op, true, [=](Agent &a) {
    bool writes = turn && a.i32(*turn) == 0;
    View view = a.view(from);
    if (!touchBulk(a, view, tile))
      return Step::Stop;
    auto indices = indicesOf(a, slots);
    char *first = a.element(a.memref(to), indices.data(), 4);
    int64_t count = tile.rows * tile.cols;
    Access access = bulkWrite(a);
    access.isAtomic = true;
    if (!first || !a.touchGlobal(first, size_t(count) * 4, access))
      return Step::Stop;
    startBulk(a, view, tile,
              [=, &machine = a.machine](SharedRegion &region, View at) {
                machine.noteAtomic(first, size_t(count) * 4);
                const uint32_t *words = region.at(at);
                for (int64_t i = 0; i < count; ++i) {
                  float sum = 0.0f, term;
                  if (!writes)
                    std::memcpy(&sum, first + i * 4, 4);
                  std::memcpy(&term, words + i, 4);
                  sum = writes ? term : sum + term;
                  std::memcpy(first + i * 4, &sum, 4);
                }
              });
    return Step::Next;
  });
  return success();
}

Step emulator::waitForBulk(Agent &a, size_t pending) {
  a.waitedAt = nullptr;
  while (a.bulkGroups.size() > pending) {
    for (auto &copy : a.bulkGroups.front())
      if (!a.knows(copy))
        return a.wait(&a.machine.version,
                      [] { return std::string("a bulk copy"); });
    a.bulkGroups.pop_front();
    a.await(a.bulkEnds.front());
    a.bulkEnds.pop_front();
  }
  // Of the thread that issued them.
  Clock &clock = a.clocks[0];
  uint32_t line = a.component(0, lineBulk);
  clock.seen[line] = std::max(clock.seen[line],
                              uint32_t(a.numBulkGroups - a.bulkGroups.size()));
  return Step::Next;
}

LogicalResult emulator::emulate(tg::BulkWaitOp op, ProgramBuilder &b) {
  auto pending = size_t(op.getPending());
  b.emit(op, true, [=](Agent &a) { return waitForBulk(a, pending); });
  return success();
}
