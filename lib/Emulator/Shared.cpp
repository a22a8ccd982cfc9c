//===- Shared.cpp - Views, fragments and vectors in shared memory ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Batch.h"
#include "Models.h"
#include "attn/Dialect/Tile/IR/FragmentOrder.h"

#include <cstring>
#include <numeric>

using namespace mlir;
namespace emulator = ::attn::emulator;
using namespace ::attn::emulator;

Matrix emulator::matrixOf(ThreadBlock &block, const View &view,
                          const TileInfo &tile) {
  SharedRegion &region = block.regions[view.region];
  Matrix matrix{region.at(view), region.info->tile.cols, 1};
  if (tile.transposed)
    std::swap(matrix.rowStride, matrix.colStride);
  return matrix;
}

Agent::Rect emulator::rectOf(const TileInfo &tile, int64_t row, int64_t col,
                             int64_t rows, int64_t cols) {
  if (tile.transposed)
    return {col, row, cols, rows};
  return {row, col, rows, cols};
}

static LogicalResult emitPlace(Operation *op, Value tile, ProgramBuilder &b) {
  b.kernel().initial[b.slot(tile)].bits = View{b.region(op), 0, 0, 0}.pack();
  return success();
}

LogicalResult emulator::emulate(tg::SmemAllocOp op, ProgramBuilder &b) {
  return emitPlace(op, op.getTile(), b);
}

LogicalResult emulator::emulate(tg::SmemRampOp op, ProgramBuilder &b) {
  return emitPlace(op, op.getTile(), b);
}

LogicalResult emulator::emulate(tg::SmemTransposeOp op, ProgramBuilder &b) {
  b.emitCopies(op, {b.slot(op.getTile())}, {b.slot(op.getResult())});
  return success();
}

LogicalResult emulator::emulate(tg::SmemSliceOp op, ProgramBuilder &b) {
  TileInfo tile = tileInfoOf(op.getTile().getType());
  TileInfo part = tileInfoOf(op.getResult().getType());
  SlotId from = b.slot(op.getTile()), to = b.slot(op.getResult());
  SlotId row = b.slot(op.getRow()), col = b.slot(op.getCol());
  tg::SmemType type = op.getTile().getType();
  int64_t colStep = part.cols;
  if (type.getSwizzle() && !tile.transposed)
    colStep =
        std::min<int64_t>(colStep, type.getSwizzle() / type.getElementBytes());
  b.emit(op, false, [=](Agent &a) {
    int64_t r = a.i32(row), c = a.i32(col);
    if (tile.transposed)
      std::swap(r, c);
    if (r < 0 || c < 0 || r + part.rows > tile.rows ||
        c + part.cols > tile.cols || r % part.rows || c % colStep) {
      a.fail("takes rows from " + std::to_string(r) + " and columns from " +
             std::to_string(c) + " of a tile of " + std::to_string(tile.rows) +
             "x" + std::to_string(tile.cols));
      return Step::Stop;
    }
    View view = a.view(from);
    view.row += uint32_t(r);
    view.col += uint32_t(c);
    a.frame[to].bits = view.pack();
    return Step::Next;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// In place
//===----------------------------------------------------------------------===//

namespace {
/// Chunks of 16 bytes of a tile, as they are dealt out to threads.
struct Dealt {
  int64_t chunks, chunkCols; // Of a row of a panel; elements of a chunk.
  int64_t threads;
  /// The warp of the member, or of the role where its warps share the work,
  /// that a chunk falls to.
  int64_t warpOf(int64_t row, int64_t chunk) const {
    return (row * chunks + chunk % chunks) % threads / 32;
  }
};
} // namespace

static Dealt dealOf(const TileInfo &tile, int64_t warps) {
  int64_t chunkCols = 16 / tile.elementBytes;
  return {tile.panelCols / chunkCols, chunkCols, warps * 32};
}

LogicalResult emulator::emulate(tg::SmemClearRowsOp op, ProgramBuilder &b) {
  TileInfo tile = tileInfoOf(op.getTile().getType());
  SlotId at = b.slot(op.getTile());
  auto optional = [&](Value value) { return value ? b.slot(value) : noSlot; };
  SlotId from = optional(op.getFrom()), before = optional(op.getBefore());
  SlotId live = optional(op.getLive());
  auto bits = b.slots(op.getBits());
  // Warps that fill and read a slot together also clear its rows together.
  bool isShared = false;
  if (auto wait = op.getTile().getDefiningOp<tg::RingWaitOp>())
    if (auto ring = b.ring(wait.getRing()))
      isShared = b.kernel().rings[*ring].fill == Fill::CpGroup;
  b.emit(op, true, [=](Agent &a) {
    if (a.part == 0) {
      View view = a.view(at);
      std::shared_ptr<Registers> alive;
      if (live != noSlot && !(alive = a.use(live)))
        return Step::Stop;
      bool sharesRole = isShared && a.role.warps > 1;
      Dealt dealt = dealOf(tile, sharesRole ? a.role.warps : a.warps);
      Matrix matrix = matrixOf(a.block, view, tile);
      for (int64_t row = 0; row < tile.rows; ++row) {
        bool isDead = from != noSlot && row >= a.i32(from);
        isDead |= before != noSlot && row < a.i32(before);
        isDead |= alive && !alive->words[size_t(row)];
        isDead |= !bits.empty() &&
                  !(uint32_t(a.i32(bits[size_t(row / 32)])) >> row % 32 & 1);
        if (!isDead)
          continue;
        for (int64_t col = 0; col < tile.cols; col += dealt.chunkCols) {
          int64_t warp = dealt.warpOf(row, col / dealt.chunkCols);
          if (sharesRole && warp != a.member)
            continue;
          // Zeros, whoever writes them.
          Access access = a.access(sharesRole ? 0 : warp, true);
          access.isCommon = access.isSame = true;
          if (!a.touch(a.block, view, {row, col, 1, dealt.chunkCols}, access))
            return Step::Stop;
          for (int64_t c = 0; c < dealt.chunkCols; ++c)
            matrix.at(row, col + c) = 0;
        }
      }
      if (!sharesRole) {
        a.fence();
        a.joinWarps();
        return Step::Next;
      }
      a.part = 1;
    }
    return a.sync(a.role.barrier, 1, false);
  });
  return success();
}

LogicalResult emulator::emulate(tg::SmemMapOp op, ProgramBuilder &b) {
  TileInfo tile = tileInfoOf(op.getTile().getType());
  auto body = BatchProgram::build(op.getBody().front(), b);
  if (failed(body))
    return failure();
  SlotId at = b.slot(op.getTile());
  auto program = std::make_shared<BatchProgram>(std::move(*body));
  b.emit(op, true, [=](Agent &a) {
    View view = a.view(at);
    Dealt dealt = dealOf(tile, a.warps);
    Matrix matrix = matrixOf(a.block, view, tile);
    for (int64_t row = 0; row < tile.rows; ++row)
      for (int64_t col = 0; col < tile.cols; col += dealt.chunkCols) {
        int64_t warp = dealt.warpOf(row, col / dealt.chunkCols);
        Agent::Rect rect{row, col, 1, dealt.chunkCols};
        if (!a.touch(warp, view, rect, false) ||
            !a.touch(warp, view, rect, true))
          return Step::Stop;
        const void *in[] = {&matrix.at(row, col)};
        void *out[] = {&matrix.at(row, col)};
        if (!program->run(a, dealt.chunkCols, in, out))
          return Step::Stop;
      }
    a.fence();
    a.joinWarps();
    return Step::Next;
  });
  return success();
}

LogicalResult emulator::emulate(tg::SmemTurnOp op, ProgramBuilder &b) {
  TileInfo tile = tileInfoOf(op.getTile().getType());
  auto body = BatchProgram::build(op.getBody().front(), b);
  if (failed(body))
    return failure();
  SlotId at = b.slot(op.getTile());
  bool isHalves = op.getRotary().getPairs() == mlir::attn::RotaryPairs::halves;
  int64_t pairs = op.getRotary().getChannels() / 2;
  auto program = std::make_shared<BatchProgram>(std::move(*body));
  b.emit(op, true, [=](Agent &a) {
    View view = a.view(at);
    Matrix matrix = matrixOf(a.block, view, tile);
    // Threads take words of two columns, those of a row one after the other. An
    // access is counted by chunks, which have words of several warps: a row is
    // counted for the warp of its first word.
    int64_t words = isHalves ? pairs / 2 : pairs;
    std::vector<int32_t> rows(size_t(pairs), 0), places(rows.size());
    std::vector<uint32_t> x(rows.size()), y(rows.size());
    std::iota(places.begin(), places.end(), 0);
    for (int64_t row = 0; row < tile.rows; ++row) {
      Agent::Rect rect{row, 0, 1, 2 * pairs};
      int64_t warp = row * words / 32 % a.warps;
      if (!a.touch(warp, view, rect, false) || !a.touch(warp, view, rect, true))
        return Step::Stop;
      auto columns = [&](int64_t c) {
        return isHalves ? std::pair(c, c + pairs) : std::pair(2 * c, 2 * c + 1);
      };
      std::fill(rows.begin(), rows.end(), int32_t(row));
      for (int64_t c = 0; c < pairs; ++c) {
        x[size_t(c)] = matrix.at(row, columns(c).first);
        y[size_t(c)] = matrix.at(row, columns(c).second);
      }
      const void *in[] = {rows.data(), places.data(), x.data(), y.data()};
      void *out[] = {x.data(), y.data()};
      if (!program->run(a, pairs, in, out))
        return Step::Stop;
      for (int64_t c = 0; c < pairs; ++c) {
        matrix.at(row, columns(c).first) = x[size_t(c)];
        matrix.at(row, columns(c).second) = y[size_t(c)];
      }
    }
    a.fence();
    a.joinWarps();
    return Step::Next;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

LogicalResult emulator::emulate(tg::FragLoadOp op, ProgramBuilder &b) {
  TileInfo tile = tileInfoOf(op.getTile().getType());
  tg::FragType frag = op.getResult().getType();
  bool isRight = frag.getLayout() == tg::Layout::B;
  int64_t rows = frag.getRows(), cols = frag.getCols();
  Rounding rounding =
      frag.getElementType().isTF32() ? Rounding::TF32 : Rounding::None;
  SlotId at = b.slot(op.getTile()), to = b.slot(op.getResult());
  b.emit(op, true, [=](Agent &a) {
    View view = a.view(at);
    auto result = makeRegisters(rows, cols);
    for (int64_t warp = 0; warp < a.warps; ++warp) {
      bool isFine = true;
      auto read = [&](int64_t first, int64_t count) {
        isFine = isFine && a.touch(warp, view,
                                   rectOf(tile, first, 0, count, cols), false);
      };
      if (isRight)
        read(0, rows);
      else
        a.forRowsOf(warp, rows, read);
      if (!isFine)
        return Step::Stop;
    }
    Matrix matrix = matrixOf(a.block, view, tile);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        result->words[size_t(r * cols + c)] = matrix.at(r, c);
    if (rounding != Rounding::None)
      for (size_t i = 0; i < result->words.size(); ++i)
        result->floats()[i] = roundTo(result->floats()[i], rounding);
    a.readLate(view, *result);
    a.set(to, std::move(result));
    return Step::Next;
  });
  return success();
}

/// Writes a fragment into the part of a tile at [row, col].
static bool storeFragment(Agent &a, Registers &value, const View &view,
                          TileInfo tile, int64_t row, int64_t col,
                          bool transposed) {
  tile.transposed ^= transposed;
  if (transposed)
    std::swap(row, col);
  int64_t rows = value.rows, cols = value.cols;
  for (int64_t warp = 0; warp < a.warps; ++warp) {
    bool isFine = true;
    a.forRowsOf(warp, rows, [&](int64_t first, int64_t count) {
      isFine =
          isFine && a.touch(warp, view,
                            rectOf(tile, row + first, col, count, cols), true);
    });
    if (!isFine)
      return false;
  }
  Matrix matrix = matrixOf(a.block, view, tile);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      matrix.at(row + r, col + c) = value.words[size_t(r * cols + c)];
  return true;
}

LogicalResult emulator::emulate(tg::FragStoreOp op, ProgramBuilder &b) {
  TileInfo tile = tileInfoOf(op.getTile().getType());
  SlotId from = b.slot(op.getValue()), at = b.slot(op.getTile());
  if (!op.getFragmentOrder()) {
    b.emit(op, true, [=](Agent &a) {
      auto value = a.use(from);
      if (a.machine.failed() ||
          !storeFragment(a, *value, a.view(at), tile, 0, 0, false))
        return Step::Stop;
      return Step::Next;
    });
    return success();
  }
  SlotId row = op.getRow() ? b.slot(op.getRow()) : noSlot;
  SlotId col = op.getCol() ? b.slot(op.getCol()) : noSlot;
  b.emit(op, true, [=](Agent &a) {
    auto value = a.use(from);
    if (a.machine.failed())
      return Step::Stop;
    View view = a.view(at);
    int64_t row0 = row == noSlot ? 0 : a.i32(row);
    int64_t col0 = col == noSlot ? 0 : a.i32(col);
    uint32_t *words = a.block.regions[view.region].at(view);
    bool isFine = true;
    for (int64_t warp = 0; warp < a.warps && isFine; ++warp)
      a.forRowsOf(warp, value->rows, [&](int64_t first, int64_t count) {
        for (int64_t i = first * value->cols;
             i < (first + count) * value->cols && isFine; ++i) {
          auto [r, c] = tile::inFragmentOrder(
              row0 + i / value->cols, col0 + i % value->cols, tile.cols);
          isFine = a.touch(warp, view, {r, c, 1, 1}, true);
          if (isFine)
            words[r * tile.cols + c] = value->words[size_t(i)];
        }
      });
    return isFine ? Step::Next : Step::Stop;
  });
  return success();
}

LogicalResult emulator::emulate(tg::ExchangeOp op, ProgramBuilder &b) {
  auto index = b.ring(op.getRing());
  if (!index)
    return op.emitOpError("expected a ring made in this kernel by "
                          "tile_gpu.ring.create");
  uint32_t number = *index;
  TileInfo tile = tileInfoOf(op.getRing().getType().getTiles().front());
  SlotId from = b.slot(op.getValue()), counter = b.slot(op.getCounter());
  SlotId row = b.slot(op.getRow()), col = b.slot(op.getCol());
  bool transposed = op.getTransposed(), arrives = !op.getUncommitted();
  b.emit(op, true, [=](Agent &a) {
    const RingInfo &ring = a.program.rings[number];
    auto slot = uint32_t(a.i32(counter)) % uint32_t(ring.stages);
    auto value = a.use(from);
    if (a.machine.failed() ||
        !storeFragment(a, *value, View{ring.regions[0], slot, 0, 0}, tile,
                       a.i32(row), a.i32(col), transposed))
      return Step::Stop;
    a.fence();
    if (arrives)
      a.arriveAll(a.block, ring.full + slot);
    return Step::Next;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

LogicalResult emulator::emulate(tg::VecLoadOp op, ProgramBuilder &b) {
  TileInfo tile = tileInfoOf(op.getTile().getType());
  tg::VecType vec = op.getResult().getType();
  bool byRow = vec.getAxis() == tg::Axis::Row, permuted = op.getPermuted();
  int64_t size = vec.getSize();
  SlotId at = b.slot(op.getTile()), to = b.slot(op.getResult());
  SlotId index = op.getIndex() ? b.slot(op.getIndex()) : noSlot;
  b.emit(op, true, [=](Agent &a) {
    View view = a.view(at);
    auto result = makeRegisters(1, size);
    // A row vector is a column of the tile where there is a position.
    bool isColumn = byRow && index != noSlot;
    int64_t position = index == noSlot ? 0 : a.i32(index);
    for (int64_t warp = 0; warp < a.warps; ++warp) {
      bool isFine = true;
      auto read = [&](int64_t first, int64_t count) {
        isFine = isFine &&
                 a.touch(warp, view,
                         isColumn ? rectOf(tile, first, position, count, 1)
                                  : rectOf(tile, position, first, 1, count),
                         false);
      };
      if (byRow)
        a.forRowsOf(warp, size, read);
      else
        read(0, size);
      if (!isFine)
        return Step::Stop;
    }
    Matrix matrix = matrixOf(a.block, view, tile);
    for (int64_t i = 0; i < size; ++i) {
      int64_t from = i;
      // Of each 16 columns, a lane's four follow each other.
      if (permuted)
        from = i / 16 * 16 + i % 8 / 2 * 4 + i % 16 / 8 * 2 + i % 2;
      result->words[size_t(i)] =
          isColumn ? matrix.at(i, position) : matrix.at(position, from);
    }
    a.readLate(view, *result);
    a.set(to, std::move(result));
    return Step::Next;
  });
  return success();
}

LogicalResult emulator::emulate(tg::VecStoreOp op, ProgramBuilder &b) {
  TileInfo tile = tileInfoOf(op.getTile().getType());
  tg::VecType vec = op.getValue().getType();
  bool byRow = vec.getAxis() == tg::Axis::Row;
  int64_t size = vec.getSize();
  SlotId from = b.slot(op.getValue()), at = b.slot(op.getTile());
  SlotId index = b.slot(op.getIndex());
  b.emit(op, true, [=](Agent &a) {
    View view = a.view(at);
    auto value = a.use(from);
    if (a.machine.failed())
      return Step::Stop;
    int64_t position = a.i32(index);
    for (int64_t warp = 0; warp < a.warps; ++warp) {
      bool isFine = true;
      auto write = [&](int64_t first, int64_t count) {
        isFine =
            isFine && a.touch(warp, view,
                              byRow ? rectOf(tile, first, position, count, 1)
                                    : rectOf(tile, position, first, 1, count),
                              true);
      };
      if (byRow)
        a.forRowsOf(warp, size, write);
      else if (warp == 0)
        write(0, size);
      if (!isFine)
        return Step::Stop;
    }
    Matrix matrix = matrixOf(a.block, view, tile);
    for (int64_t i = 0; i < size; ++i)
      (byRow ? matrix.at(i, position) : matrix.at(position, i)) =
          value->words[size_t(i)];
    return Step::Next;
  });
  return success();
}
