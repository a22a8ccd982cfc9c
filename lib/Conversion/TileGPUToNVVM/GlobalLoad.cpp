//===- GlobalLoad.cpp - Registers from tensors ----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every access is one predicated instruction: there is no branch for each row,
// and what is out of bounds reads as zero. Offsets are 64 bits wide.
//
//===----------------------------------------------------------------------===//

#include "GlobalAccess.h"
#include "Lowerings.h"
#include "MatrixAccess.h"
#include "attn/Dialect/Tile/IR/FragmentOrder.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

static bool isShort(Type memory) { return memory.isBF16() || memory.isF16(); }

namespace {
/// Where an element is read: at an offset from an address, if the predicate
/// holds or there is none.
struct Read {
  Value address;
  int64_t offset;
  Value predicate;
};
} // namespace

/// Elements of memory, or zeros where they are not read, by one text.
static Values readAtOnce(Emitter &e, ArrayRef<Read> reads,
                         const GlobalAccess &access, Type memory) {
  int64_t bits = access.elementBytes * 8;
  std::string type = bits == 8 ? "u8" : "b" + std::to_string(bits);
  std::string text = bits == 8 ? "{\n.reg .b16 t;\n" : "{\n";
  std::string outs, ins;
  SmallVector<Value> inputs;
  auto operand = [&](Value value, StringRef constraint) {
    auto *it = llvm::find(inputs, value);
    size_t number = reads.size() + (it - inputs.begin());
    if (it == inputs.end()) {
      inputs.push_back(value);
      ins += constraint;
    }
    return "$" + std::to_string(number);
  };
  for (auto [i, read] : llvm::enumerate(reads)) {
    std::string result = "$" + std::to_string(i);
    std::string to = bits == 8 ? "t" : result;
    text += "mov.b" + std::to_string(std::max<int64_t>(bits, 16)) + " " + to +
            ", 0;\n";
    std::string address = operand(read.address, ",l");
    if (read.predicate)
      text += "@" + operand(read.predicate, ",b") + " ";
    text += "ld.global." + type + " " + to + ", [" + address + "+" +
            std::to_string(read.offset) + "];\n";
    if (bits == 8)
      text += "cvt.u32.u16 " + result + ", t;\n";
    outs += bits == 16 ? ",=&h" : memory == e.f32 ? ",=&f" : ",=&r";
  }
  Type out = bits == 16 ? e.i16 : memory == e.f32 ? e.f32 : e.i32;
  Values values = e.assembly(text + "}", StringRef(outs + ins).drop_front(),
                             inputs, SmallVector<Type>(reads.size(), out));
  for (Value &value : values)
    if (bits == 8)
      value = e.icmp(LLVM::ICmpPredicate::ne, value, e.c32(0));
    else if (isShort(memory))
      value = e.bitcast(value, memory);
  return values;
}

/// Elements of memory, or zeros where they are not read, by few texts: each
/// costs LLVM as much as ten instructions in it. Of more elements in one the
/// first would wait for the addresses of the last.
static Values readElements(Emitter &e, ArrayRef<Read> reads,
                           const GlobalAccess &access, Type memory) {
  constexpr size_t most = 8;
  Values values;
  for (; !reads.empty(); reads = reads.drop_front(std::min(most, reads.size())))
    llvm::append_range(values,
                       readAtOnce(e, reads.take_front(most), access, memory));
  return values;
}

static Values loadInFragmentOrder(KernelContext &k, FragType frag,
                                  const Values &parts, MemRefType memref,
                                  const Values &at) {
  Emitter &e = k.e;
  Values registers;
  int64_t each = FragShape(frag).each();
  forFragmentOrder(
      k, frag, parts, memref, at, [&](int64_t, Value address, int64_t offset) {
        llvm::append_range(
            registers, e.assembly("ld.global.v" + Twine(each) + ".f32 " +
                                      operandList(0, each) + ", [$" +
                                      Twine(each) + "+" + Twine(offset) + "];",
                                  each == 4 ? "=f,=f,=f,=f,l" : "=f,=f,l",
                                  {address}, SmallVector<Type>(each, e.f32)));
      });
  return registers;
}

static Values loadVector(KernelContext &k, VecType vec,
                         const GlobalAccess &access, Type memory) {
  Emitter &e = k.e;
  bool byRow = vec.getAxis() == Axis::Row;
  SmallVector<Read> reads;
  for (int64_t key = 0, n = k.registerCount(vec); key < n; ++key) {
    Value index = byRow ? k.rowIndex(vec.getScope(), key) : k.colIndex(key);
    reads.push_back({access.at(index, e.c32(0)), 0, access.inBounds(0, index)});
  }
  Values registers = readElements(e, reads, access, memory);
  if (isShort(memory))
    for (Value &value : registers)
      value = e.widen(value);
  return registers;
}

namespace {

/// Row and column of an element of this thread, as what varies by thread and
/// what does not.
struct Place {
  Value row, col;
  int64_t rowOffset, colOffset;
};

} // namespace

static SmallVector<Place> placesOf(KernelContext &k, FragType frag) {
  SmallVector<Place> places;
  if (frag.getLayout() == Layout::B) {
    int64_t steps = frag.getRows() / 16;
    for (int64_t block = 0; block < frag.getCols() / 8; ++block)
      for (int64_t step = 0; step < steps; ++step)
        for (int64_t i = 0; i < 4; ++i)
          places.push_back({k.role.col, k.e.lshr(k.lane, 2),
                            step * 16 + i / 2 * 8 + i % 2, block * 8});
    return places;
  }
  FragShape shape(frag);
  for (int64_t i = 0; i < shape.elements(); ++i)
    places.push_back(
        {k.role.row, k.role.col,
         shape.rowKey(i) / 2 * shape.blockRows + shape.rowKey(i) % 2 * 8,
         offsetOf(shape.colKey(i))});
  return places;
}

static Values loadElements(KernelContext &k, FragType frag,
                           const GlobalAccess &access, Type memory) {
  Emitter &e = k.e;
  SmallVector<Place> places = placesOf(k, frag);
  SmallVector<Read> reads;
  DenseMap<std::pair<int64_t, int64_t>, Value> addresses, predicates;
  Value origin = access.at(places.front().row, places.front().col);
  auto rowStride = e.constantOf(access.strides[0]);
  auto colStride = e.constantOf(access.strides[1]);
  for (const Place &place : places) {
    // A known stride becomes part of the instruction.
    int64_t row = rowStride ? 0 : place.rowOffset;
    int64_t col = colStride ? 0 : place.colOffset;
    Value &address = addresses[{row, col}];
    if (!address)
      address = e.add(origin, e.add(e.mul(access.strides[0], row),
                                    e.mul(access.strides[1], col)));
    Value &predicate = predicates[{access.bounds[0] ? place.rowOffset : 0,
                                   access.bounds[1] ? place.colOffset : 0}];
    if (!predicate)
      predicate =
          access.both(access.inBounds(0, e.add(place.row, place.rowOffset)),
                      access.inBounds(1, e.add(place.col, place.colOffset)));
    reads.push_back({address,
                     rowStride.value_or(0) * place.rowOffset +
                         colStride.value_or(0) * place.colOffset,
                     predicate});
  }
  return readElements(e, reads, access, memory);
}

/// Two elements of 16 bits to a register.
static Values packElements(Emitter &e, const Values &elements, Type element) {
  Values registers;
  for (size_t i = 0; i < elements.size(); i += 2) {
    if (elements[i].getType() != element) {
      registers.push_back(
          e.pack(e.widen(elements[i]), e.widen(elements[i + 1]), element));
      continue;
    }
    Value low =
        LLVM::ZExtOp::create(e.b, e.loc, e.i32, e.bitcast(elements[i], e.i16));
    Value high = LLVM::ZExtOp::create(e.b, e.loc, e.i32,
                                      e.bitcast(elements[i + 1], e.i16));
    registers.push_back(e.or_(low, e.shl(high, 16)));
  }
  return registers;
}

static Values loadFragment(KernelContext &k, FragType frag,
                           GlobalAccess &access, Type memory) {
  int inner = access.isTransposed ? 0 : 1;
  access.simplifyBound(inner, inner ? frag.getCols() : frag.getRows());
  access.narrowBound(inner);
  Values elements = loadElements(k, frag, access, memory);
  if (isPacked(frag))
    return packElements(k.e, elements, frag.getElementType());
  if (isShort(memory))
    for (Value &value : elements)
      value = k.e.widen(value);
  return elements;
}

LogicalResult gpu::lower(KernelContext &k, GlobalLoadOp op) {
  auto memref = cast<MemRefType>(op.getSource().getType());
  Type memory = memref.getElementType(), type = op.getResult().getType();
  Values parts = k.of(op.getSource()), at = k.flat(op.getIndices());
  Value bound = op.getRows() ? k.scalar(op.getRows()) : Value();
  auto vec = dyn_cast<VecType>(type);
  auto frag = dyn_cast<FragType>(type);
  GlobalAccess access(k.e, parts, memref, at, bound, op.getTransposed(),
                      bool(vec));
  access.divisor = knownDivisor(op.getIndices().back());
  if (op.getPermuted())
    return loadPermuted(k, op, access);
  if (op.getFragmentOrder()) {
    if (!frag || frag.getLayout() != Layout::Acc || bound)
      return unsupported(op, "an acc fragment without bounds in fragment "
                             "order");
    k.set(op.getResult(), loadInFragmentOrder(k, frag, parts, memref, at));
  } else if (vec) {
    k.set(op.getResult(), loadVector(k, vec, access, memory));
  } else {
    k.set(op.getResult(), loadFragment(k, frag, access, memory));
  }
  return success();
}

/// Asks for the lines of some rows, one for each lane at once, where `isHere`,
/// or always.
static void askForLines(KernelContext &k, const GlobalAccess &access,
                        int64_t rows, int64_t bytes, Value isHere) {
  Emitter &e = k.e;
  int64_t ofRow = llvm::divideCeil(bytes, GpuRates::lineBytes);
  int64_t lines = rows * ofRow;
  for (int64_t first = 0; first < lines; first += TargetInfo::warpThreads) {
    Value own = e.add(k.lane, first);
    Value address = e.add(
        access.base, e.mul(e.zext64(e.udiv(own, ofRow)), access.strides[0]));
    address = e.add(address,
                    e.zext64(e.mul(e.urem(own, ofRow), GpuRates::lineBytes)));
    Value asks = isHere;
    if (first + TargetInfo::warpThreads > lines)
      asks = access.both(asks, e.lt(own, e.c32(lines)));
    if (asks)
      e.assembly("@$1 prefetch.global.L2 [$0];", "l,b", {address, asks});
    else
      e.assembly("prefetch.global.L2 [$0];", "l", {address});
  }
}

static GlobalAccess accessOf(KernelContext &k, GlobalPrefetchOp op,
                             ValueRange indices) {
  return GlobalAccess(k.e, k.of(op.getSource()),
                      cast<MemRefType>(op.getSource().getType()), indices,
                      /*rowBound=*/Value(), /*transposed=*/false,
                      /*isVector=*/false);
}

/// Each lane looks up the page of one box of rows; then all ask for the lines
/// of one box after the other.
static void askForPages(KernelContext &k, GlobalPrefetchOp op) {
  Emitter &e = k.e;
  int64_t page = cast<MemRefType>(op.getSource().getType()).getDimSize(2);
  int64_t box = *op.getBoxes(), count = op.getRows() / box;
  Values table = k.of(op.getTable()), indices = k.flat(op.getIndices());
  Value sequence = indices[0], first = indices[2];
  Value numPages = e.trunc32(k.of(op.getSource())[1]);
  auto isBelow = [&](Value x, Value y) {
    return e.icmp(LLVM::ICmpPredicate::ult, x, y);
  };
  for (int64_t done = 0; done < count; done += TargetInfo::warpThreads) {
    Value entry =
        e.udiv(e.add(first, e.mul(e.add(k.lane, done), e.c32(box))), page);
    Value isThere = e.and_(isBelow(entry, e.trunc32(table[2])),
                           e.lt(e.add(k.lane, done), e.c32(count)));
    // Tensors that share a table read it once.
    Value number =
        e.assembly(
             "{\nmov.b32 $0, -1;\n"
             "@$2 ld.relaxed.gpu.global.b32 $0, [$1];\n}",
             "=r,l,b",
             {k.elementPointer(op.getTable(), {sequence, entry}), isThere},
             e.i32, /*isVolatile=*/false)
            .front();
    for (int64_t i = done; i < std::min(count, done + TargetInfo::warpThreads);
         ++i) {
      Value row = e.add(first, i * box);
      indices[0] = e.shuffleIndex(number, i - done);
      indices[2] = e.urem(row, page);
      Value exists = isBelow(indices[0], numPages);
      if (op.getBefore())
        exists = e.and_(exists, e.lt(row, k.scalar(op.getBefore())));
      GlobalAccess access = accessOf(k, op, indices);
      askForLines(k, access, box, op.getColumns() * access.elementBytes,
                  exists);
    }
  }
}

/// What has no gaps is asked for by a single copy, for which the threads of a
/// warp would ask one after the other; lines of their own they ask for at once.
LogicalResult gpu::lower(KernelContext &k, GlobalPrefetchOp op) {
  if (op.getTable()) {
    askForPages(k, op);
    return success();
  }
  Emitter &e = k.e;
  GlobalAccess access = accessOf(k, op, k.flat(op.getIndices()));
  // What a copy takes begins, and ends, at 16 bytes.
  constexpr int64_t granule = 16;
  int64_t rows = op.getRows(), bytes = op.getColumns() * access.elementBytes;
  Value isApart;
  if (k.target.hasTensorCopy && rows > 1 && bytes % granule == 0) {
    Value isOne = e.and_(e.eq(e.and_(access.base, granule - 1), 0),
                         e.eq(access.strides[0], bytes));
    e.assembly("@$1 cp.async.bulk.prefetch.L2.global [$0], " +
                   Twine(rows * bytes) + ";",
               "l,b", {access.base, e.and_(isOne, e.eq(k.lane, 0))});
    isApart = e.xor_(isOne, e.truth(true));
  }
  askForLines(k, access, rows, bytes, isApart);
  return success();
}
