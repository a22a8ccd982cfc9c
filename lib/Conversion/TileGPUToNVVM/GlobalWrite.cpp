//===- GlobalWrite.cpp - Registers to tensors -----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every access is one predicated instruction: there is no branch for each row.
// Offsets are 64 bits wide.
//
//===----------------------------------------------------------------------===//

#include "GlobalAccess.h"
#include "Lowerings.h"
#include "MatrixAccess.h"
#include "attn/Dialect/Tile/IR/FragmentOrder.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

/// Stores words, or adds them to memory, by one predicated instruction.
static void writeWords(Emitter &e, Value address, int64_t offset,
                       ArrayRef<Value> words, int64_t bits, Value predicate,
                       bool reduce) {
  std::string text =
      predicate ? "@$" + std::to_string(words.size() + 1) + " " : std::string();
  text += reduce ? "red.relaxed.gpu.global.add" : "st.global";
  if (words.size() > 1)
    text += ".v" + std::to_string(words.size());
  text += reduce ? ".f32" : ".b" + std::to_string(bits);
  text += " [$0+" + std::to_string(offset) + "], ";
  std::string constraints = "l";
  if (words.size() > 1)
    text += "{";
  for (size_t i = 0; i < words.size(); ++i) {
    text += (i ? ", $" : "$") + std::to_string(i + 1);
    constraints += words[i].getType() == e.f32   ? ",f"
                   : words[i].getType() == e.i16 ? ",h"
                                                 : ",r";
  }
  if (words.size() > 1)
    text += "}";
  Values inputs = {address};
  llvm::append_range(inputs, words);
  if (predicate) {
    inputs.push_back(predicate);
    constraints += ",b";
  }
  e.assembly(text + ";", constraints, inputs);
}

static bool isShort(Type memory) { return memory.isBF16() || memory.isF16(); }

/// An element as its bits in memory.
static Value toMemory(Emitter &e, Value x, Type memory) {
  if (isShort(memory)) {
    if (x.getType() != memory)
      x = LLVM::FPTruncOp::create(e.b, e.loc, memory, e.widen(x));
    return e.bitcast(x, e.i16);
  }
  if (x.getType() == e.i1)
    return LLVM::ZExtOp::create(e.b, e.loc, memory == e.i1 ? e.i16 : e.i32, x);
  if (x.getType() == e.bf16 || x.getType() == e.f16)
    return e.widen(x);
  return x;
}

/// Each element by one thread of those that hold it.
static void writeVector(KernelContext &k, VecType vec, const Values &registers,
                        const GlobalAccess &access, Type memory, bool reduce) {
  Emitter &e = k.e;
  bool byRow = vec.getAxis() == Axis::Row;
  Value owner = byRow ? e.eq(e.and_(k.lane, 3), 0) : e.eq(e.lshr(k.lane, 2), 0);
  if (!byRow && vec.getScope() == Scope::Warpgroup)
    owner = e.and_(owner, e.eq(k.role.warpInMember, 0));
  for (auto [key, word] : llvm::enumerate(registers)) {
    Value index = byRow ? k.rowIndex(vec.getScope(), key) : k.colIndex(key);
    writeWords(e, access.at(index, e.c32(0)), 0, {toMemory(e, word, memory)},
               access.elementBytes * 8,
               access.both(owner, access.inBounds(0, index)), reduce);
  }
}

static void writeInFragmentOrder(KernelContext &k, FragType frag,
                                 const Values &registers, const Values &parts,
                                 MemRefType memref, const Values &at,
                                 bool reduce) {
  StringRef name = reduce ? "red.relaxed.gpu.global.add" : "st.global";
  forFragmentOrder(
      k, frag, parts, memref, at,
      [&](int64_t i, Value address, int64_t offset) {
        int64_t each = FragShape(frag).each();
        Values inputs = {address};
        llvm::append_range(inputs, ArrayRef(registers).slice(i, each));
        k.e.assembly(name + ".v" + Twine(each) + ".f32 [$0+" + Twine(offset) +
                         "], " + operandList(1, each) + ";",
                     each == 4 ? "l,f,f,f,f" : "l,f,f", inputs);
      });
}

namespace {

/// Writes the elements of one fragment by the widest accesses that the tensor
/// allows; where that depends on its pointer and strides, the kernel decides.
class FragmentWriter {
public:
  FragmentWriter(KernelContext &k, FragType frag, Values registers,
                 MemRefType memref, std::optional<int64_t> innerSize,
                 GlobalAccess &access, bool reduce)
      : k(k), e(k.e), frag(frag), registers(std::move(registers)),
        memref(memref), memory(memref.getElementType()), innerSize(innerSize),
        access(access), reduce(reduce), shape(frag) {}
  void write();

private:
  void simplifyBounds();
  /// Whether a row of memory ends, and the fragment begins, at a multiple of n
  /// elements; and whether no group of n elements is out of bounds in part.
  bool hasRowsOf(int64_t n) const {
    return innerSize && *innerSize % n == 0 && access.divisor % n == 0;
  }
  bool isInOrOut(int64_t n) const { return !access.bounds[1] || hasRowsOf(n); }
  void writeIfAligned(int64_t bytes, llvm::function_ref<void()> writeFast,
                      bool ifEven = false);

  void writeElements() { writeEach(1); }
  void writePairs() { writeEach(2); }
  void writeEach(int64_t width);
  void writePair(int64_t i, Value address, int64_t offset, Value predicate);
  void writeSums();
  void writeQuads();
  std::array<Value, 4> gatherQuad(ArrayRef<Value> words, Value isOdd,
                                  Value isHigh);

  Value elementAt(int64_t i);
  Value pairAt(int64_t i);
  void write(Value address, int64_t offset, ArrayRef<Value> words, int64_t bits,
             Value predicate) {
    writeWords(e, address, offset, words, bits, predicate, reduce);
  }

  KernelContext &k;
  Emitter &e;
  FragType frag;
  Values registers;
  MemRefType memref;
  Type memory;
  /// The size of the tensor's last dimension, where it is known.
  std::optional<int64_t> innerSize;
  GlobalAccess &access;
  bool reduce;
  FragShape shape;
};

} // namespace

void FragmentWriter::simplifyBounds() {
  for (int axis : {0, 1})
    if (access.bounds[axis] && !(axis == (access.isTransposed ? 1 : 0)))
      access.simplifyBound(axis, axis ? frag.getCols() : frag.getRows());
  access.narrowBound(access.isTransposed ? 0 : 1);
}

Value FragmentWriter::elementAt(int64_t i) {
  if (!isPacked(frag))
    return registers[i];
  return e.unpack(registers[i / 2], i % 2, frag.getElementType());
}

/// Elements i and i + 1 as a word of 16-bit memory.
Value FragmentWriter::pairAt(int64_t i) {
  return isPacked(frag) && frag.getElementType() == memory
             ? registers[i / 2]
             : e.pack(e.widen(elementAt(i)), e.widen(elementAt(i + 1)), memory);
}

void FragmentWriter::writePair(int64_t i, Value address, int64_t offset,
                               Value predicate) {
  if (isShort(memory))
    write(address, offset, {pairAt(i)}, 32, predicate);
  else
    write(address, offset,
          {toMemory(e, elementAt(i), memory),
           toMemory(e, elementAt(i + 1), memory)},
          32, predicate);
}

/// One access for each element, or for each two of a row.
void FragmentWriter::writeEach(int64_t width) {
  Value origin = access.at(k.role.row, k.role.col);
  SmallVector<Value> rowBase(shape.rowKeys()), rowInside(shape.rowKeys());
  for (int64_t key = 0; key < shape.rowKeys(); ++key) {
    Value delta = e.c64(key / 2 * shape.blockRows + key % 2 * 8);
    rowBase[key] = e.add(origin, e.mul(delta, access.strides[0]));
    rowInside[key] = access.inBounds(0, k.rowIndex(frag.getScope(), key));
  }
  SmallVector<Value> colInside(shape.colKeys()), colOffset(shape.colKeys());
  auto colStride = e.constantOf(access.strides[1]);
  for (int64_t key = 0; key < shape.colKeys(); ++key) {
    colInside[key] = access.inBounds(1, k.colIndex(key));
    if (!colStride)
      colOffset[key] = e.mul(access.strides[1], e.c64(offsetOf(key)));
  }
  for (int64_t i = 0; i < shape.elements(); i += width) {
    int64_t rowKey = shape.rowKey(i), colKey = shape.colKey(i);
    Value address = rowBase[rowKey];
    int64_t offset = 0;
    if (colStride)
      offset = *colStride * offsetOf(colKey);
    else
      address = e.add(address, colOffset[colKey]);
    // Of a pair the second column decides: the number of columns is even.
    Value predicate =
        access.both(rowInside[rowKey], colInside[colKey + width - 1]);
    if (width == 2)
      writePair(i, address, offset, predicate);
    else
      write(address, offset, {toMemory(e, elementAt(i), memory)},
            access.elementBytes * 8, predicate);
  }
}

/// Sums of four columns are one addition (of sm_90 on): of two lanes with
/// pairs of a row and of the one 8 below, each has both pairs of one of them
/// then.
void FragmentWriter::writeSums() {
  Value odd = e.and_(k.lane, 1), below = e.shl(odd, 3);
  Value isOdd = e.icmp(LLVM::ICmpPredicate::ne, odd, e.c32(0));
  Value col = e.shl(e.and_(k.lane, 2), 1);
  Value origin = access.at(e.add(k.role.row, below), col);
  for (int64_t block = 0; block < shape.blocks; ++block) {
    Value delta = e.c64(block * shape.blockRows);
    Value address = e.add(origin, e.mul(delta, access.strides[0]));
    Value rowInside = access.inBounds(
        0, e.add(k.rowIndex(frag.getScope(), 2 * block), below));
    for (int64_t at = 0; at < shape.colBlocks; ++at) {
      ArrayRef<Value> x =
          ArrayRef(registers).slice((block * shape.colBlocks + at) * 4, 4);
      Value first = e.shuffleXor(e.select(isOdd, x[0], x[2]), 1);
      Value second = e.shuffleXor(e.select(isOdd, x[1], x[3]), 1);
      write(address, at * 8 * access.elementBytes,
            {e.select(isOdd, first, x[0]), e.select(isOdd, second, x[1]),
             e.select(isOdd, x[2], first), e.select(isOdd, x[3], second)},
            32, access.both(rowInside, access.inBounds(1, e.add(col, at * 8))));
    }
  }
}

/// Lane l of a quad is to hold block l of all four lanes: a transposition of
/// 4 x 4 words in two exchanges.
std::array<Value, 4> FragmentWriter::gatherQuad(ArrayRef<Value> words,
                                                Value isOdd, Value isHigh) {
  std::array<Value, 4> x, y;
  for (int pair : {0, 1}) {
    Value even = words[2 * pair];
    Value odd = words[2 * pair + 1];
    Value other = e.shuffleXor(e.select(isOdd, even, odd), 1);
    x[2 * pair] = e.select(isOdd, other, even);
    x[2 * pair + 1] = e.select(isOdd, odd, other);
  }
  for (int from : {0, 1}) {
    Value other = e.shuffleXor(e.select(isHigh, x[from], x[2 + from]), 2);
    y[from] = e.select(isHigh, other, x[from]);
    y[2 + from] = e.select(isHigh, x[2 + from], other);
  }
  return y;
}

/// Of 16-bit elements, 32 columns are one access of 16 bytes for each lane of a
/// quad: whole sectors of 32 bytes, where pairs leave halves.
void FragmentWriter::writeQuads() {
  Value mine = e.and_(k.lane, 3), col = e.shl(mine, 3);
  Value isOdd = e.icmp(LLVM::ICmpPredicate::ne, e.and_(mine, 1), e.c32(0));
  Value isHigh = e.icmp(LLVM::ICmpPredicate::ne, e.and_(mine, 2), e.c32(0));
  Value origin = access.at(k.role.row, col);
  // words[row key][block of 8 columns]
  SmallVector<Values> words(shape.rowKeys(), Values(shape.colKeys() / 2));
  for (int64_t i = 0; i < shape.elements(); i += 2)
    words[shape.rowKey(i)][shape.colKey(i) / 2] = pairAt(i);
  for (int64_t key = 0; key < shape.rowKeys(); ++key) {
    Value delta = e.c64(key / 2 * shape.blockRows + key % 2 * 8);
    Value address = e.add(origin, e.mul(delta, access.strides[0]));
    Value rowInside = access.inBounds(0, k.rowIndex(frag.getScope(), key));
    for (int64_t block = 0; block < shape.colKeys() / 2; block += 4) {
      auto quad =
          gatherQuad(ArrayRef(words[key]).slice(block, 4), isOdd, isHigh);
      Value colInside = access.inBounds(1, e.add(col, block * 8));
      write(address, block * 8 * access.elementBytes, quad, 32,
            access.both(rowInside, colInside));
    }
  }
}

/// Takes the fast way where every row starts at a multiple of `bytes`, and with
/// `ifEven` ends an even number of columns behind the fragment's first one.
void FragmentWriter::writeIfAligned(int64_t bytes,
                                    llvm::function_ref<void()> writeFast,
                                    bool ifEven) {
  Value low = e.or_(access.base, access.strides[0]);
  Value aligned = e.eq(e.and_(low, bytes - 1), 0);
  if (ifEven) {
    Value columns = e.sub(access.bounds[1], access.origins[1]);
    aligned = e.and_(aligned, e.eq(e.and_(columns, int64_t(1)), 0));
  }
  Block *fast = e.newBlock(), *slow = e.newBlock(), *join = e.newBlock();
  e.branch(aligned, fast, slow);
  e.startBlock(fast);
  writeFast();
  e.branch(join);
  e.startBlock(slow);
  writeElements();
  e.branch(join);
  e.startBlock(join);
}

void FragmentWriter::write() {
  simplifyBounds();
  if (reduce && k.target.hasRoles() && access.colsAreContiguous &&
      memory.isF32() && !frag.isHalf() && frag.getElementType().isF32() &&
      isInOrOut(4)) {
    // Memory without strides is the plan's own, and begins at a multiple of
    // more: no branch keeps products in flight from the wait behind it.
    if (memref.getLayout().isIdentity() && hasRowsOf(4))
      return writeSums();
    return writeIfAligned(4 * access.elementBytes, [&] { writeSums(); });
  }
  if (reduce || !access.colsAreContiguous ||
      !(isShort(memory) || memory.isF32()))
    return writeElements();
  if (isShort(memory) && shape.colKeys() % 8 == 0 && isInOrOut(8))
    return writeIfAligned(8 * access.elementBytes, [&] { writeQuads(); });
  // Pairs are one access where none has its second element beyond the end
  // alone.
  writeIfAligned(
      2 * access.elementBytes, [&] { writePairs(); },
      /*ifEven=*/!isInOrOut(2));
}

/// Stores or adds a value in registers; `OpT` says which.
template <typename OpT>
static LogicalResult writeRegisters(KernelContext &k, OpT op,
                                    int64_t permuted) {
  constexpr bool reduce = std::is_same_v<OpT, GlobalReduceOp>;
  Value value = op.getValue();
  auto memref = cast<MemRefType>(op.getDestination().getType());
  Type memory = memref.getElementType();
  Values parts = k.of(op.getDestination()), registers = k.of(value);
  Values at = k.flat(op.getIndices());
  Value bound = op.getRows() ? k.scalar(op.getRows()) : Value();
  auto vec = dyn_cast<VecType>(value.getType());
  auto frag = dyn_cast<FragType>(value.getType());
  if (frag && frag.getLayout() == Layout::B)
    return unsupported(op, "an acc or a fragment, but got b");
  GlobalAccess access(k.e, parts, memref, at, bound, op.getTransposed(),
                      bool(vec));
  access.divisor = knownDivisor(op.getIndices().back());
  if (!isShort(memory) && !memory.isF32() && !memory.isSignlessInteger(32) &&
      !memory.isSignlessInteger(1))
    return unsupported(op, "memory of f32, bf16, f16, i32 or i1, but got '" +
                               llvm::formatv("{0}", memory).str() + "'");
  if (op.getFragmentOrder()) {
    if (!frag || !frag.getElementType().isF32() || !memory.isF32() ||
        op.getRows() || permuted || !k.target.hasRoles())
      return unsupported(op, "f32 of a fragment without bounds in fragment "
                             "order");
    writeInFragmentOrder(k, frag, registers, parts, memref, at, reduce);
  } else if (permuted) {
    return storePermuted(k, op, value, memref, permuted, access);
  } else if (vec) {
    writeVector(k, vec, registers, access, memory, reduce);
  } else {
    FragmentWriter(k, frag, std::move(registers), memref,
                   k.e.constantOf(parts[memref.getRank()]), access, reduce)
        .write();
  }
  return success();
}

LogicalResult gpu::lower(KernelContext &k, GlobalStoreOp op) {
  return writeRegisters(k, op, op.getPermuted());
}

LogicalResult gpu::lower(KernelContext &k, GlobalReduceOp op) {
  return writeRegisters(k, op, /*permuted=*/0);
}

/// Bits 0, 4, .. 28 of a word as bits 0 to 7.
static Value everyFourthBit(Emitter &e, Value word) {
  word = e.and_(word, 0x11111111);
  word = e.and_(e.or_(word, e.lshr(word, 3)), 0x03030303);
  word = e.and_(e.or_(word, e.lshr(word, 6)), 0x000f000f);
  return e.and_(e.or_(word, e.lshr(word, 12)), 0xff);
}

/// Bit 4 r + q of a vote on the elements of a register is row r and column 2 q
/// (+ 1, of the next register) of 8 x 8 elements. Each lane takes the votes on
/// such a block and writes a byte for each of its columns; where there are
/// fewer blocks than lanes, up to four lanes share one.
LogicalResult gpu::lower(KernelContext &k, GlobalStoreBitsOp op) {
  Emitter &e = k.e;
  FragType frag = op.getValue().getType();
  FragShape shape(frag);
  auto memref = cast<MemRefType>(op.getDestination().getType());
  int64_t rank = memref.getRank();
  Values parts = k.of(op.getDestination()), registers = k.of(op.getValue());
  Values at = k.flat(op.getIndices());
  auto stride = [&](int64_t dim) { return parts[1 + rank + dim]; };
  Value offset = e.c64(0);
  for (auto [dim, index] : llvm::enumerate(at))
    offset = e.add(offset, e.mul(e.sext64(index), stride(dim)));
  Value base =
      e.add(LLVM::PtrToIntOp::create(e.b, e.loc, e.i64, parts[0]).getResult(),
            e.mul(offset, 4));
  base = e.add(base, e.sext64(e.lshr(k.scalar(op.getRow()), 3)));
  Value colBytes = e.mul(stride(rank - 2), 4);
  base = e.add(base, e.mul(e.sext64(k.scalar(op.getColumn())), colBytes));

  // By block of 8 rows and column.
  SmallVector<Values> element(shape.rowKeys(), Values(shape.colKeys()));
  for (int64_t i = 0; i < shape.elements(); ++i)
    element[shape.rowKey(i)][shape.colKey(i)] = registers[i];
  int64_t across = shape.colKeys() / 2, blocks = shape.rowKeys() * across;
  constexpr int64_t lanes = ::attn::TargetInfo::warpThreads;
  for (int64_t first = 0; first < blocks; first += lanes) {
    int64_t some = std::min(lanes, blocks - first);
    int64_t sharers = 4;
    while (sharers * some > lanes)
      sharers /= 2;
    int64_t cols = 8 / sharers;
    Value number = e.udiv(k.lane, sharers);
    Value firstCol = e.mul(e.urem(k.lane, sharers), cols);
    Value votes[2] = {e.c32(0), e.c32(0)};
    for (int64_t i = 0; i < some; ++i) {
      Value isMine = e.eq(number, i);
      int64_t row = (first + i) / across, col = (first + i) % across;
      for (int64_t odd : {0, 1})
        votes[odd] = e.select(isMine,
                              e.call("llvm.nvvm.vote.ballot.sync", e.i32,
                                     {e.c32(-1), element[row][2 * col + odd]}),
                              votes[odd]);
    }
    Value block = e.add(number, first);
    Value mine = e.add(base, e.zext64(e.udiv(block, across)));
    Value col = e.add(e.shl(e.urem(block, across), 3), firstCol);
    mine = e.add(mine, e.mul(e.zext64(col), colBytes));
    Value exists = e.lt(number, e.c32(some));
    for (Value &word : votes)
      word = LLVM::LShrOp::create(e.b, e.loc, word, e.lshr(firstCol, 1));
    for (int64_t col = 0; col < cols; ++col)
      e.assembly("@$2 st.global.b8 [$0], $1;", "l,r,b",
                 {e.add(mine, e.mul(colBytes, e.c64(col))),
                  everyFourthBit(e, e.lshr(votes[col % 2], col / 2)), exists});
  }
  return success();
}
