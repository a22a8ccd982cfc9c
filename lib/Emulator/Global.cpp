//===- Global.cpp - Registers to and from tensors in memory ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Models.h"
#include "attn/Dialect/Tile/IR/FragmentOrder.h"

#include <cstring>

using namespace mlir;
namespace emulator = ::attn::emulator;
using namespace ::attn::emulator;

std::optional<MemoryType> emulator::memoryTypeOf(Type type) {
  auto scalar = scalarTypeOf(type);
  if (!scalar)
    return std::nullopt;
  // A truth is a byte in memory, an index 8 bytes.
  return MemoryType{*scalar, std::max<int64_t>(1, scalar->bits / 8)};
}

void emulator::loadElement(const char *from, const MemoryType &type,
                           void *lane) {
  if (type.bytes == 8) {
    std::memcpy(lane, from, 8);
    return;
  }
  uint32_t bits = 0;
  std::memcpy(&bits, from, size_t(type.bytes));
  if (type.type.kind == Kind::F32 && type.bytes == 2) {
    if (type.type.rounding == Rounding::BF16) {
      bits <<= 16;
    } else {
      // A half: 5 bits of exponent, 10 behind the point.
      uint32_t sign = (bits & 0x8000) << 16, rest = bits & 0x7fff;
      float value;
      if (rest >= 0x7c00) {
        uint32_t wide = 0x7f800000u | (rest & 0x3ff) << 13;
        std::memcpy(&value, &wide, 4);
      } else if (rest < 0x400) {
        value = float(rest) * 0x1p-24f;
      } else {
        uint32_t wide = (rest << 13) + (uint32_t(127 - 15) << 23);
        std::memcpy(&value, &wide, 4);
      }
      std::memcpy(&bits, &value, 4);
      bits |= sign;
    }
  } else if (type.type.kind == Kind::I32 && type.type.bits > 1 &&
             type.type.bits < 32) {
    unsigned shift = 32 - type.type.bits;
    bits = uint32_t(int32_t(bits << shift) >> shift);
  } else if (type.type.bits == 1) {
    bits = bits != 0;
  }
  std::memcpy(lane, &bits, 4);
}

void emulator::storeElement(char *to, const MemoryType &type,
                            const void *lane) {
  if (type.type.kind == Kind::F32 && type.bytes == 2) {
    float value;
    std::memcpy(&value, lane, 4);
    value = roundTo(value, type.type.rounding);
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    uint16_t narrow;
    if (type.type.rounding == Rounding::BF16) {
      narrow = uint16_t(bits >> 16);
    } else {
      APFloat number(value);
      bool loses;
      number.convert(APFloat::IEEEhalf(), APFloat::rmNearestTiesToEven, &loses);
      narrow = uint16_t(number.bitcastToAPInt().getZExtValue());
    }
    std::memcpy(to, &narrow, 2);
    return;
  }
  std::memcpy(to, lane, size_t(type.bytes));
}

//===----------------------------------------------------------------------===//
// Fragments and vectors
//===----------------------------------------------------------------------===//

namespace {
/// A fragment or vector beside a tensor.
struct Place {
  SlotId value, memory, bound;
  llvm::SmallVector<SlotId> indices;
  MemoryType type;
  Shape shape;
  bool isVector = false, isRowVector = false, transposed = false;
  /// Rows and columns stand for others (tile_gpu.global.load, permuted).
  int64_t permuted = 0;
  /// Rows lie in memory as accumulators do (FragmentOrder.h).
  bool inFragmentOrder = false;

  int64_t rowOf(int64_t row) const {
    int64_t each = (isVector ? shape.cols : shape.rows) / 8;
    return permuted ? row % 8 * each + row / 8 : row;
  }
  int64_t colOf(int64_t col) const {
    if (!permuted)
      return col;
    int64_t key = col / 8 * 2 + col % 2, lane = col % 8 / 2;
    return key / permuted * 4 * permuted + lane * permuted + key % permuted;
  }
};
} // namespace

template <typename OpT>
static FailureOr<Place> placeOf(OpT op, Value value, Value memory,
                                ProgramBuilder &b) {
  auto type = memoryTypeOf(cast<MemRefType>(memory.getType()).getElementType());
  if (!type)
    return op.emitOpError("expected elements of an integer or float type");
  Place place{b.slot(value),
              b.slot(memory),
              op.getRows() ? b.slot(op.getRows()) : noSlot,
              b.slots(op.getIndices()),
              *type,
              shapeOf(value.getType()),
              false,
              false,
              op.getTransposed()};
  place.permuted = op.getPermuted();
  place.inFragmentOrder = op.getFragmentOrder();
  if (auto vec = dyn_cast<tg::VecType>(value.getType())) {
    place.isVector = true;
    place.isRowVector = vec.getAxis() == tg::Axis::Row;
  }
  return place;
}

/// Calls body(warp, index of the element, address) for all that are in bounds;
/// what is not in the tensor, and is not kept away by a bound, is reported.
template <typename F>
static bool forElements(Agent &a, const Place &place, bool eachWarp, F body) {
  const MemrefValue &tensor = a.memref(place.memory);
  size_t rank = place.indices.size();
  llvm::SmallVector<int64_t, 5> first, at;
  for (SlotId slot : place.indices)
    first.push_back(a.i32(slot));
  auto visit = [&](int64_t warp, int64_t row, int64_t col) {
    size_t number = size_t(row * place.shape.cols + col);
    at = first;
    int64_t bounded;
    if (place.isVector) {
      bounded = at[rank - 1] +=
          place.isRowVector ? place.rowOf(col) : place.colOf(col);
    } else {
      row = place.rowOf(row);
      col = place.colOf(col);
      int64_t down = place.transposed ? col : row;
      at[rank - 1] += place.transposed ? row : col;
      bounded = at[rank - 2] += down;
      // Columns beyond the tensor are padding of the fragment.
      if (at[rank - 1] >= tensor.sizes[rank - 1])
        return true;
      if (place.inFragmentOrder)
        std::tie(at[rank - 2], at[rank - 1]) = tile::inFragmentOrder(
            at[rank - 2], at[rank - 1], tensor.sizes[rank - 1]);
    }
    if (place.bound != noSlot && bounded >= a.i32(place.bound))
      return true;
    char *address = a.element(tensor, at.data(), place.type.bytes);
    return address && body(warp, number, address);
  };
  bool isFine = true;
  for (int64_t warp = 0; warp < a.warps; ++warp) {
    if (place.isVector) {
      auto some = [&](int64_t begin, int64_t count) {
        for (int64_t i = begin; i < begin + count && isFine; ++i)
          isFine = visit(warp, 0, i);
      };
      if (place.isRowVector)
        a.forRowsOf(warp, place.shape.cols, some);
      else if (warp == 0 || eachWarp)
        some(0, place.shape.cols);
    } else {
      a.forRowsOf(warp, place.shape.rows, [&](int64_t begin, int64_t count) {
        for (int64_t r = begin; r < begin + count && isFine; ++r)
          for (int64_t c = 0; c < place.shape.cols && isFine; ++c)
            isFine = visit(warp, r, c);
      });
    }
  }
  return isFine;
}

LogicalResult emulator::emulate(tg::GlobalLoadOp op, ProgramBuilder &b) {
  auto place = placeOf(op, op.getResult(), op.getSource(), b);
  if (failed(place))
    return failure();
  b.emit(op, true, [place = *place](Agent &a) {
    auto result = makeRegisters(place.shape.rows, place.shape.cols);
    bool isFine = forElements(
        a, place, true, [&](int64_t warp, size_t i, const char *from) {
          loadElement(from, place.type, &result->words[i]);
          return a.touchGlobal(from, size_t(place.type.bytes),
                               a.access(warp, false));
        });
    if (!isFine)
      return Step::Stop;
    a.set(place.value, std::move(result));
    return Step::Next;
  });
  return success();
}

/// Calls write(register, address) for all elements of a value that are in
/// bounds.
template <typename OpT, typename F>
static LogicalResult emitWrites(OpT op, bool isAtomic, F write,
                                ProgramBuilder &b) {
  auto place = placeOf(op, op.getValue(), op.getDestination(), b);
  if (failed(place))
    return failure();
  b.emit(op, true, [=, place = *place](Agent &a) {
    auto value = a.use(place.value);
    if (a.machine.failed())
      return Step::Stop;
    bool isFine =
        forElements(a, place, false, [&](int64_t warp, size_t i, char *to) {
          Access access = a.access(warp, true);
          access.isAtomic = isAtomic;
          if (!a.touchGlobal(to, size_t(place.type.bytes), access))
            return false;
          if (isAtomic)
            a.machine.noteAtomic(to, size_t(place.type.bytes));
          write(place.type, &value->words[i], to);
          return true;
        });
    return isFine ? Step::Next : Step::Stop;
  });
  return success();
}

LogicalResult emulator::emulate(tg::GlobalStoreOp op, ProgramBuilder &b) {
  return emitWrites(
      op, /*isAtomic=*/false,
      [](const MemoryType &type, const void *lane, char *to) {
        storeElement(to, type, lane);
      },
      b);
}

LogicalResult emulator::emulate(tg::GlobalReduceOp op, ProgramBuilder &b) {
  return emitWrites(
      op, /*isAtomic=*/true,
      [](const MemoryType &, const void *lane, char *to) {
        float sum, term;
        std::memcpy(&sum, to, 4);
        std::memcpy(&term, lane, 4);
        sum += term;
        std::memcpy(to, &sum, 4);
      },
      b);
}

/// The caches are not modelled; that all of it exists is. Of pages those are
/// left out that a table does not name.
LogicalResult emulator::emulate(tg::GlobalPrefetchOp op, ProgramBuilder &b) {
  auto memref = cast<MemRefType>(op.getSource().getType());
  auto type = memoryTypeOf(memref.getElementType());
  if (!type)
    return op.emitOpError("expected elements of an integer or float type");
  SlotId memory = b.slot(op.getSource());
  auto slots = b.slots(op.getIndices());
  int64_t rows = op.getRows(), columns = op.getColumns(), bytes = type->bytes;
  auto exists = [=](Agent &a, llvm::SmallVector<int64_t, 5> at, int64_t count) {
    const MemrefValue &tensor = a.memref(memory);
    bool begins = a.element(tensor, at.data(), bytes);
    at[at.size() - 2] += count - 1;
    at[at.size() - 1] += columns - 1;
    return begins && a.element(tensor, at.data(), bytes);
  };
  auto indices = [=](Agent &a) {
    llvm::SmallVector<int64_t, 5> at;
    for (SlotId slot : slots)
      at.push_back(a.i32(slot));
    return at;
  };
  if (!op.getTable()) {
    b.emit(op, true, [=](Agent &a) {
      return exists(a, indices(a), rows) ? Step::Next : Step::Stop;
    });
    return success();
  }
  SlotId table = b.slot(op.getTable());
  std::optional<SlotId> before;
  if (op.getBefore())
    before = b.slot(op.getBefore());
  int64_t box = *op.getBoxes(), page = memref.getDimSize(2);
  b.emit(op, true, [=](Agent &a) {
    llvm::SmallVector<int64_t, 5> at = indices(a);
    const MemrefValue &entries = a.memref(table);
    int64_t sequence = at[0], first = at[2];
    for (int64_t row = first; row < first + rows; row += box) {
      int64_t place[] = {sequence, row / page};
      if (row < 0 || place[1] >= entries.sizes[1])
        continue;
      const char *entry = a.element(entries, place, sizeof(int32_t));
      if (!entry)
        return Step::Stop;
      int32_t number;
      std::memcpy(&number, entry, sizeof(number));
      at[0] = number;
      at[2] = row % page;
      bool isAsked = number >= 0 && number < a.memref(memory).sizes[0] &&
                     (!before || row < a.i32(*before));
      if (isAsked && !exists(a, at, box))
        return Step::Stop;
    }
    return Step::Next;
  });
  return success();
}

LogicalResult emulator::emulate(tg::GlobalStoreBitsOp op, ProgramBuilder &b) {
  SlotId from = b.slot(op.getValue()), memory = b.slot(op.getDestination());
  SlotId row = b.slot(op.getRow()), column = b.slot(op.getColumn());
  auto slots = b.slots(op.getIndices());
  b.emit(op, true, [=](Agent &a) {
    auto value = a.use(from);
    if (a.machine.failed())
      return Step::Stop;
    const MemrefValue &tensor = a.memref(memory);
    llvm::SmallVector<int64_t, 5> at;
    for (SlotId slot : slots)
      at.push_back(a.i32(slot));
    at.append({0, 0});
    // A byte for each column and 8 rows; other rows' bytes stay.
    for (int64_t c = 0; c < value->cols; ++c)
      for (int64_t r = 0; r < value->rows; r += 8) {
        int64_t bit = a.i32(row) + r;
        at[at.size() - 2] = a.i32(column) + c;
        at[at.size() - 1] = bit / 32;
        char *word = a.element(tensor, at.data(), 4);
        if (!word)
          return Step::Stop;
        char *to = word + bit % 32 / 8;
        if (!a.touchGlobal(to, 1, a.access(0, true)))
          return Step::Stop;
        uint8_t bits = 0;
        for (int64_t i = 0; i < 8 && r + i < value->rows; ++i)
          bits |= uint8_t((value->words[size_t((r + i) * value->cols + c)] & 1)
                          << i);
        std::memcpy(to, &bits, 1);
      }
    return Step::Next;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

namespace {
/// An element of a tensor, and the scalar beside it.
struct ScalarPlace {
  SlotId scalar, memory;
  llvm::SmallVector<SlotId> indices;
  MemoryType type;

  /// Its address, or null where the indices leave the tensor.
  char *at(Agent &a) const {
    llvm::SmallVector<int64_t, 5> at;
    for (SlotId slot : indices)
      at.push_back(a.i64(slot));
    return a.element(a.memref(memory), at.data(), type.bytes);
  }
};
} // namespace

template <typename OpT>
static FailureOr<ScalarPlace> scalarPlaceOf(OpT op, Value scalar,
                                            ProgramBuilder &b) {
  auto type = memoryTypeOf(scalar.getType());
  if (!type)
    return op.emitOpError("expected an element of an integer or float type");
  return ScalarPlace{b.slot(scalar), b.slot(op.getMemRef()),
                     b.slots(op.getIndices()), *type};
}

LogicalResult emulator::emulate(memref::LoadOp op, ProgramBuilder &b) {
  auto place = scalarPlaceOf(op, op.getResult(), b);
  if (failed(place))
    return failure();
  // What others may write meanwhile is a guess.
  bool isGuess = op.getNontemporal();
  b.emit(op, false, [place = *place, isGuess](Agent &a) {
    char *from = place.at(a);
    if (!from)
      return Step::Stop;
    for (int64_t warp = 0; !isGuess && warp < a.warps; ++warp)
      if (!a.touchGlobal(from, size_t(place.type.bytes), a.access(warp, false)))
        return Step::Stop;
    a.frame[place.scalar].bits = 0;
    loadElement(from, place.type, &a.frame[place.scalar].bits);
    return Step::Next;
  });
  return success();
}

LogicalResult emulator::emulate(memref::StoreOp op, ProgramBuilder &b) {
  auto place = scalarPlaceOf(op, op.getValue(), b);
  if (failed(place))
    return failure();
  b.emit(op, true, [place = *place](Agent &a) {
    // One thread of each member writes; all may write the same.
    char *to = place.at(a);
    if (!to)
      return Step::Stop;
    char bytes[8];
    storeElement(bytes, place.type, &a.frame[place.scalar].bits);
    auto size = size_t(place.type.bytes);
    Access access = a.access(0, true);
    access.isCommon = true;
    access.isSame = std::memcmp(bytes, to, size) == 0;
    if (!a.touchGlobal(to, size, access))
      return Step::Stop;
    std::memcpy(to, bytes, size);
    return Step::Next;
  });
  return success();
}

LogicalResult emulator::emulate(memref::DimOp op, ProgramBuilder &b) {
  auto index = op.getConstantIndex();
  if (!index)
    return op.emitOpError("expected a constant dimension");
  SlotId memory = b.slot(op.getSource()), to = b.slot(op.getResult());
  auto dim = size_t(*index);
  b.emit(op, false, [=](Agent &a) {
    a.frame[to].bits = a.memref(memory).sizes[dim];
    return Step::Next;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Turns of blocks
//===----------------------------------------------------------------------===//

/// Calls use(agent, address of the counter, number of the turn).
template <typename OpT, typename F>
static LogicalResult emitBlockTurn(OpT op, F use, ProgramBuilder &b) {
  SlotId memory = b.slot(op.getCounters()), turn = b.slot(op.getTurn());
  auto slots = b.slots(op.getIndices());
  b.emit(op, true, [=](Agent &a) {
    llvm::SmallVector<int64_t, 5> at;
    for (SlotId slot : slots)
      at.push_back(a.i32(slot));
    char *counter = a.element(a.memref(memory), at.data(), 4);
    return counter ? use(a, counter, a.i32(turn)) : Step::Stop;
  });
  return success();
}

/// Of who looks, and who passes: neither is a race with the other.
static bool touchCounter(Agent &a, char *counter) {
  Access access = a.access(0, true);
  access.isAtomic = true;
  if (!a.touchGlobal(counter, 4, access))
    return false;
  a.machine.noteAtomic(counter, 4);
  return true;
}

LogicalResult emulator::emulate(tg::BlockTurnWaitOp op, ProgramBuilder &b) {
  return emitBlockTurn(
      op,
      [](Agent &a, char *counter, int32_t turn) {
        int32_t now;
        std::memcpy(&now, counter, 4);
        if (now > turn) {
          a.fail("waits for turn " + std::to_string(turn) + " where " +
                 std::to_string(now) + " has come");
          return Step::Stop;
        }
        if (now < turn)
          return a.wait(&a.machine.version, [now, turn] {
            return "turn " + std::to_string(turn) + ", where it is that of " +
                   std::to_string(now);
          });
        return touchCounter(a, counter) ? Step::Next : Step::Stop;
      },
      b);
}

LogicalResult emulator::emulate(tg::BlockTurnPassOp op, ProgramBuilder &b) {
  return emitBlockTurn(
      op,
      [](Agent &a, char *counter, int32_t turn) {
        if (Step step = waitForBulk(a, /*pending=*/0); step != Step::Next)
          return step;
        if (!touchCounter(a, counter))
          return Step::Stop;
        int32_t next = turn + 1;
        std::memcpy(counter, &next, 4);
        ++a.machine.version;
        return Step::Next;
      },
      b);
}
