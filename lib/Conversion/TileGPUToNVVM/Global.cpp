//===- Global.cpp - Fragments and vectors in global memory ----------------===//
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
#include "KernelLowering.h"
#include "attn/Dialect/Tile/IR/FragmentOrder.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

GlobalAccess::GlobalAccess(Emitter &e, const Values &memref, MemRefType type,
                           ValueRange indices, Value rowBound, bool transposed,
                           bool isVector)
    : isTransposed(transposed), e(e) {
  Type element = type.getElementType();
  elementBytes =
      element.isSignlessInteger(1) ? 1 : element.getIntOrFloatBitWidth() / 8;
  int64_t rank = type.getRank();
  auto size = [&](int64_t dim) { return memref[1 + dim]; };
  auto stride = [&](int64_t dim) { return memref[1 + rank + dim]; };
  Value offset = e.c64(0);
  for (int64_t i = 0; i < rank; ++i)
    offset = e.add(offset, e.mul(e.sext64(indices[i]), stride(i)));
  base =
      e.add(LLVM::PtrToIntOp::create(e.b, e.loc, e.i64, memref[0]).getResult(),
            e.mul(offset, elementBytes));
  bool unit = e.constantOf(stride(rank - 1)) == 1;
  Value inner = e.mul(stride(rank - 1), elementBytes);
  if (isVector) {
    // The one axis stands for rows here.
    strides[0] = inner;
    strides[1] = e.c64(0);
    origins[0] = indices[rank - 1];
    bounds[0] = rowBound;
    colsAreContiguous = false;
    rowsAreContiguous = unit;
    return;
  }
  Value outer = e.mul(stride(rank - 2), elementBytes);
  int outerAxis = transposed ? 1 : 0;
  strides[outerAxis] = outer;
  strides[1 - outerAxis] = inner;
  origins[outerAxis] = indices[rank - 2];
  origins[1 - outerAxis] = indices[rank - 1];
  bounds[outerAxis] = rowBound;
  // Columns of the tensor that do not exist are padding of the fragment.
  bounds[1 - outerAxis] = size(rank - 1);
  colsAreContiguous = unit && !transposed;
  rowsAreContiguous = unit && transposed;
}

namespace attn::gpu {
int64_t knownDivisor(Value index) {
  Operation *op = index.getDefiningOp();
  if (!op) {
    // What a schedule finds out about an item, behind its four coordinates.
    auto loop = dyn_cast<ForeachOp>(index.getParentBlock()->getParentOp());
    unsigned number = cast<BlockArgument>(index).getArgNumber();
    auto scheduler =
        loop ? loop.getSchedule().getDefiningOp<SchedulerOp>() : SchedulerOp();
    if (!scheduler || number >= loop.getItemArgs().size() || number < 4)
      return 1;
    Operation *yield = scheduler.getBody().front().getTerminator();
    return number - 4 < yield->getNumOperands()
               ? knownDivisor(yield->getOperand(number - 4))
               : 1;
  }
  IntegerAttr constant;
  if (matchPattern(index, m_Constant(&constant)))
    return std::abs(constant.getInt());
  auto of = [&](unsigned operand) {
    return knownDivisor(op->getOperand(operand));
  };
  if (isa<arith::IndexCastOp>(op))
    return of(0);
  if (isa<arith::AddIOp, arith::SubIOp, arith::MinSIOp, arith::MaxSIOp>(op))
    return std::gcd(of(0), of(1));
  if (isa<arith::SelectOp>(op))
    return std::gcd(of(1), of(2));
  int64_t product = 1;
  if (isa<arith::MulIOp>(op) && !llvm::MulOverflow(of(0), of(1), product))
    return product;
  return 1;
}
} // namespace attn::gpu

void GlobalAccess::simplifyBound(int axis, int64_t extent) {
  auto size = e.constantOf(bounds[axis]);
  if (!size)
    return;
  if (auto first = e.constantOf(origins[axis])) {
    if (*first >= 0 && *first + extent <= *size)
      bounds[axis] = Value();
    return;
  }
  // Parts of one size tile the axis, and there may be more parts than that.
  if (axis != (isTransposed ? 0 : 1) || *size % extent || divisor % extent)
    return;
  whole[axis] = e.lt(origins[axis], e.c32(*size));
  bounds[axis] = Value();
}

/// Of a fragment in memory of blocks of 16 rows (FragmentOrder.h) calls
/// body(index of the first register, address, offset) for each four elements
/// that this thread has, which follow one another.
static void
forFragmentOrder(Emitter &e, const RoleContext &role, Value lane, FragType type,
                 const Values &memref, MemRefType memory, Values indices,
                 llvm::function_ref<void(int64_t, Value, int64_t)> body) {
  // 16 rows take as many bytes as they do one after the other.
  indices.back() = e.mul(indices.back(), tile::fragmentOrderRows);
  GlobalAccess access(e, memref, memory, indices, /*rowBound=*/Value(),
                      /*transposed=*/false, /*isVector=*/false);
  constexpr int64_t each = 4;
  int64_t bytes = each * access.elementBytes;
  Value address = e.add(access.base, e.sext64(e.mul(lane, bytes)));
  if (type.getScope() == Scope::Warpgroup)
    address = e.add(address, e.mul(e.sext64(e.shl(role.warpInMember, 4)),
                                   access.strides[0]));
  FragShape shape(type);
  for (int64_t block = 0; block < shape.blocks; ++block) {
    Value delta = e.c64(block * shape.blockRows);
    Value first = e.add(address, e.mul(delta, access.strides[0]));
    for (int64_t at = 0; at < shape.colBlocks; ++at)
      body((block * shape.colBlocks + at) * each, first,
           at * TargetInfo::warpThreads * bytes);
  }
}

LogicalResult KernelLowering::lowerGlobalWrite(Operation *op, Value value,
                                               Value destination,
                                               ValueRange indices, Value rows,
                                               bool transposed,
                                               int64_t permuted, bool reduce) {
  auto memref = cast<MemRefType>(destination.getType());
  Type memory = memref.getElementType();
  Values parts = of(destination), registers = of(value);
  Values at = flat(indices);
  Value bound = rows ? scalar(rows) : Value();
  auto vec = dyn_cast<VecType>(value.getType());
  auto frag = dyn_cast<FragType>(value.getType());
  if (frag && frag.getLayout() == Layout::B)
    return unsupported(op, "an acc or a fragment, but got b");
  GlobalAccess access(e, parts, memref, at, bound, transposed, bool(vec));
  access.divisor = knownDivisor(indices.back());
  bool isShort = memory.isBF16() || memory.isF16();
  if (!isShort && !memory.isF32() && !memory.isSignlessInteger(32) &&
      !memory.isSignlessInteger(1))
    return unsupported(op, "memory of f32, bf16, f16, i32 or i1, but got '" +
                               llvm::formatv("{0}", memory).str() + "'");

  if (op->hasAttr(tile::fragmentOrderName)) {
    if (!reduce || !frag || rows || !target.hasRoles())
      return unsupported(op, "sums of a fragment without bounds in fragment "
                             "order");
    forFragmentOrder(e, role, lane, frag, parts, memref, at,
                     [&](int64_t i, Value address, int64_t offset) {
                       e.assembly("red.relaxed.gpu.global.add.v4.f32 [$0+" +
                                      Twine(offset) + "], {$1, $2, $3, $4};",
                                  "l,f,f,f,f",
                                  {address, registers[i], registers[i + 1],
                                   registers[i + 2], registers[i + 3]});
                     });
    return success();
  }

  // One predicated instruction.
  auto write = [&](Value address, int64_t offset, ArrayRef<Value> words,
                   int64_t bits, Value predicate) {
    std::string text = predicate ? "@$" + std::to_string(words.size() + 1) + " "
                                 : std::string();
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
  };
  /// An element as its bits in memory.
  auto toMemory = [&](Value x) -> Value {
    if (isShort) {
      if (x.getType() != memory)
        x = LLVM::FPTruncOp::create(e.b, e.loc, memory, e.widen(x));
      return e.bitcast(x, e.i16);
    }
    if (x.getType() == e.i1)
      return LLVM::ZExtOp::create(e.b, e.loc, memory == e.i1 ? e.i16 : e.i32,
                                  x);
    if (x.getType() == e.bf16 || x.getType() == e.f16)
      return e.widen(x);
    return x;
  };
  int64_t memoryBits = access.elementBytes * 8;

  if (permuted)
    return storePermuted(op, value, memref, permuted, access);
  if (vec) {
    bool byRow = vec.getAxis() == Axis::Row;
    // One thread of those that hold an element.
    Value owner = byRow ? e.eq(e.and_(lane, 3), 0) : e.eq(e.lshr(lane, 2), 0);
    if (!byRow && vec.getScope() == Scope::Warpgroup)
      owner = e.and_(owner, e.eq(role.warpInMember, 0));
    for (auto [key, word] : llvm::enumerate(registers)) {
      Value index = byRow ? rowIndex(vec.getScope(), key) : colIndex(key);
      write(access.at(index, e.c32(0)), 0, {toMemory(word)}, memoryBits,
            access.both(owner, access.inBounds(0, index)));
    }
    return success();
  }

  FragShape shape(frag);
  for (int axis : {0, 1})
    if (access.bounds[axis] && !(axis == (transposed ? 1 : 0)))
      access.simplifyBound(axis, axis ? frag.getCols() : frag.getRows());
  // The size of a dimension is an index, positions are i32.
  int inner = transposed ? 0 : 1;
  if (access.bounds[inner] && access.bounds[inner].getType() == e.i64)
    access.bounds[inner] =
        LLVM::TruncOp::create(e.b, e.loc, e.i32, access.bounds[inner]);
  auto elementAt = [&](int64_t i) -> Value {
    if (!isPacked(frag))
      return registers[i];
    return e.unpack(registers[i / 2], i % 2, frag.getElementType());
  };
  auto emit = [&](bool pairs) {
    Value origin = access.at(role.row, role.col);
    SmallVector<Value> rowBase(shape.rowKeys()), rowInside(shape.rowKeys());
    for (int64_t key = 0; key < shape.rowKeys(); ++key) {
      Value delta = e.c64(key / 2 * shape.blockRows + key % 2 * 8);
      rowBase[key] = e.add(origin, e.mul(delta, access.strides[0]));
      rowInside[key] = access.inBounds(0, rowIndex(frag.getScope(), key));
    }
    SmallVector<Value> colInside(shape.colKeys()), colOffset(shape.colKeys());
    auto colStride = e.constantOf(access.strides[1]);
    for (int64_t key = 0; key < shape.colKeys(); ++key) {
      colInside[key] = access.inBounds(1, colIndex(key));
      if (!colStride)
        colOffset[key] = e.mul(access.strides[1], e.c64(key / 2 * 8 + key % 2));
    }
    for (int64_t i = 0; i < shape.elements(); i += pairs ? 2 : 1) {
      int64_t rowKey = shape.rowKey(i), colKey = shape.colKey(i);
      Value address = rowBase[rowKey];
      int64_t offset = 0;
      if (colStride)
        offset = *colStride * (colKey / 2 * 8 + colKey % 2);
      else
        address = e.add(address, colOffset[colKey]);
      // Of a pair the second column decides: the number of columns is even.
      Value predicate = access.both(rowInside[rowKey],
                                    colInside[pairs ? colKey + 1 : colKey]);
      if (!pairs) {
        write(address, offset, {toMemory(elementAt(i))}, memoryBits, predicate);
        continue;
      }
      if (!isShort) {
        write(address, offset,
              {toMemory(elementAt(i)), toMemory(elementAt(i + 1))}, 32,
              predicate);
        continue;
      }
      Value word = isPacked(frag) && frag.getElementType() == memory
                       ? registers[i / 2]
                       : e.pack(e.widen(elementAt(i)),
                                e.widen(elementAt(i + 1)), memory);
      write(address, offset, {word}, 32, predicate);
    }
  };
  auto innerSize = e.constantOf(parts[memref.getRank()]);
  // Sums of four columns are one addition (of sm_90 on): of two lanes with
  // pairs of a row and of the one 8 below, each has both pairs of one of them
  // then.
  auto emitSums = [&] {
    Value odd = e.and_(lane, 1), below = e.shl(odd, 3);
    Value isOdd = e.icmp(LLVM::ICmpPredicate::ne, odd, e.c32(0));
    Value col = e.shl(e.and_(lane, 2), 1);
    Value origin = access.at(e.add(role.row, below), col);
    for (int64_t block = 0; block < shape.blocks; ++block) {
      Value delta = e.c64(block * shape.blockRows);
      Value address = e.add(origin, e.mul(delta, access.strides[0]));
      Value rowInside = access.inBounds(
          0, e.add(rowIndex(frag.getScope(), 2 * block), below));
      for (int64_t at = 0; at < shape.colBlocks; ++at) {
        ArrayRef<Value> x =
            ArrayRef(registers).slice((block * shape.colBlocks + at) * 4, 4);
        Value first = e.shuffleXor(e.select(isOdd, x[0], x[2]), 1);
        Value second = e.shuffleXor(e.select(isOdd, x[1], x[3]), 1);
        write(address, at * 8 * access.elementBytes,
              {e.select(isOdd, first, x[0]), e.select(isOdd, second, x[1]),
               e.select(isOdd, x[2], first), e.select(isOdd, x[3], second)},
              32,
              access.both(rowInside, access.inBounds(1, e.add(col, at * 8))));
      }
    }
  };
  bool canSum = reduce && target.hasRoles() && access.colsAreContiguous &&
                memory.isF32() && frag.getElementType().isF32() &&
                (!access.bounds[1] ||
                 (innerSize && *innerSize % 4 == 0 && access.divisor % 4 == 0));
  // Memory without strides is the plan's own, and begins at a multiple of more:
  // no branch keeps products in flight from the wait behind it.
  if (canSum && memref.getLayout().isIdentity() && innerSize &&
      *innerSize % 4 == 0 && access.divisor % 4 == 0) {
    emitSums();
    return success();
  }
  if (canSum) {
    Value low = e.or_(access.base, access.strides[0]);
    Value aligned = e.eq(e.and_(low, 4 * access.elementBytes - 1), 0);
    Block *fast = e.newBlock(), *slow = e.newBlock(), *join = e.newBlock();
    e.branch(aligned, fast, slow);
    e.startBlock(fast);
    emitSums();
    e.branch(join);
    e.startBlock(slow);
    emit(false);
    e.branch(join);
    e.startBlock(join);
    return success();
  }
  // Pairs are one access where every row starts at a multiple of their size,
  // and none has its second element beyond the end alone.
  if (!access.colsAreContiguous || reduce || !(isShort || memory.isF32())) {
    emit(false);
    return success();
  }
  Value endsEven;
  if (access.bounds[1] &&
      !(innerSize && *innerSize % 2 == 0 && access.divisor % 2 == 0))
    endsEven =
        e.eq(e.and_(e.sub(access.bounds[1], access.origins[1]), int64_t(1)), 0);
  // Of 16-bit elements, 32 columns are one access of 16 bytes for each lane of
  // a quad: whole sectors of 32 bytes, where pairs leave halves.
  bool canQuad = isShort && shape.colKeys() % 8 == 0 &&
                 (!access.bounds[1] || (innerSize && *innerSize % 8 == 0 &&
                                        access.divisor % 8 == 0));
  auto emitQuads = [&] {
    Value mine = e.and_(lane, 3), col = e.shl(mine, 3);
    Value isOdd = e.icmp(LLVM::ICmpPredicate::ne, e.and_(mine, 1), e.c32(0));
    Value isHigh = e.icmp(LLVM::ICmpPredicate::ne, e.and_(mine, 2), e.c32(0));
    Value origin = access.at(role.row, col);
    // words[row key][block of 8 columns]
    SmallVector<Values> words(shape.rowKeys(), Values(shape.colKeys() / 2));
    for (int64_t i = 0; i < shape.elements(); i += 2)
      words[shape.rowKey(i)][shape.colKey(i) / 2] =
          isPacked(frag) && frag.getElementType() == memory
              ? registers[i / 2]
              : e.pack(e.widen(elementAt(i)), e.widen(elementAt(i + 1)),
                       memory);
    for (int64_t key = 0; key < shape.rowKeys(); ++key) {
      Value delta = e.c64(key / 2 * shape.blockRows + key % 2 * 8);
      Value address = e.add(origin, e.mul(delta, access.strides[0]));
      Value rowInside = access.inBounds(0, rowIndex(frag.getScope(), key));
      for (int64_t block = 0; block < shape.colKeys() / 2; block += 4) {
        // Lane l is to hold block l of all four lanes: a transposition of 4 x
        // 4 words in two exchanges.
        Value x[4], y[4];
        for (int pair : {0, 1}) {
          Value even = words[key][block + 2 * pair];
          Value odd = words[key][block + 2 * pair + 1];
          Value other = e.shuffleXor(e.select(isOdd, even, odd), 1);
          x[2 * pair] = e.select(isOdd, other, even);
          x[2 * pair + 1] = e.select(isOdd, odd, other);
        }
        for (int from : {0, 1}) {
          Value other = e.shuffleXor(e.select(isHigh, x[from], x[2 + from]), 2);
          y[from] = e.select(isHigh, other, x[from]);
          y[2 + from] = e.select(isHigh, x[2 + from], other);
        }
        Value colInside = access.inBounds(1, e.add(col, block * 8));
        write(address, block * 8 * access.elementBytes,
              {y[0], y[1], y[2], y[3]}, 32, access.both(rowInside, colInside));
      }
    }
  };
  Value low = e.or_(access.base, access.strides[0]);
  Value aligned =
      e.eq(e.and_(low, access.elementBytes * (canQuad ? 8 : 2) - 1), 0);
  if (endsEven)
    aligned = e.and_(aligned, endsEven);
  Block *fast = e.newBlock(), *slow = e.newBlock(), *join = e.newBlock();
  e.branch(aligned, fast, slow);
  e.startBlock(fast);
  if (canQuad)
    emitQuads();
  else
    emit(true);
  e.branch(join);
  e.startBlock(slow);
  emit(false);
  e.branch(join);
  e.startBlock(join);
  return success();
}

LogicalResult KernelLowering::lowerGlobalLoad(GlobalLoadOp op) {
  auto memref = cast<MemRefType>(op.getSource().getType());
  Type memory = memref.getElementType(), type = op.getResult().getType();
  Values parts = of(op.getSource()), at = flat(op.getIndices());
  Value bound = op.getRows() ? scalar(op.getRows()) : Value();
  auto vec = dyn_cast<VecType>(type);
  auto frag = dyn_cast<FragType>(type);
  bool transposed = op.getTransposed();
  GlobalAccess access(e, parts, memref, at, bound, transposed, bool(vec));
  access.divisor = knownDivisor(op.getIndices().back());
  if (op.getPermuted())
    return loadPermuted(op, access);
  if (op->hasAttr(tile::fragmentOrderName)) {
    if (!frag || frag.getLayout() != Layout::Acc || bound)
      return unsupported(op, "an acc fragment without bounds in fragment "
                             "order");
    Values registers;
    forFragmentOrder(
        e, role, lane, frag, parts, memref, at,
        [&](int64_t, Value address, int64_t offset) {
          llvm::append_range(
              registers, e.assembly("ld.global.v4.f32 {$0, $1, $2, $3}, [$4+" +
                                        Twine(offset) + "];",
                                    "=f,=f,=f,=f,l", {address},
                                    SmallVector<Type>(4, e.f32)));
        });
    set(op.getResult(), std::move(registers));
    return success();
  }
  bool isShort = memory.isBF16() || memory.isF16();
  Type element = vec ? vec.getElementType() : frag.getElementType();
  /// One element, or zero where it is out of bounds.
  auto read = [&](Value address, int64_t offset, Value predicate) -> Value {
    int64_t bits = access.elementBytes * 8;
    std::string place = ", [$1+" + std::to_string(offset) + "];\n}";
    std::string text = "{\n";
    if (bits == 8)
      text += ".reg .b16 t;\nmov.b16 t, 0;\n";
    else
      text += "mov.b" + std::to_string(bits) + " $0, 0;\n";
    if (predicate)
      text += "@$2 ";
    text += bits == 8 ? "ld.global.u8 t"
                      : "ld.global.b" + std::to_string(bits) + " $0";
    if (bits == 8)
      place.insert(place.size() - 1, "cvt.u32.u16 $0, t;\n");
    text += place;
    Type out = bits == 16 ? e.i16 : memory == e.f32 ? e.f32 : e.i32;
    std::string constraints = bits == 16        ? "=&h,l"
                              : memory == e.f32 ? "=&f,l"
                                                : "=&r,l";
    Values inputs = {address};
    if (predicate) {
      inputs.push_back(predicate);
      constraints += ",b";
    }
    Value value = e.assembly(text, constraints, inputs, out).front();
    if (bits == 8)
      return e.icmp(LLVM::ICmpPredicate::ne, value, e.c32(0));
    return isShort ? e.bitcast(value, memory) : value;
  };
  if (vec) {
    bool byRow = vec.getAxis() == Axis::Row;
    Values registers;
    for (int64_t key = 0, n = registerCount(vec); key < n; ++key) {
      Value index = byRow ? rowIndex(vec.getScope(), key) : colIndex(key);
      Value value =
          read(access.at(index, e.c32(0)), 0, access.inBounds(0, index));
      registers.push_back(isShort ? e.widen(value) : value);
    }
    set(op.getResult(), std::move(registers));
    return success();
  }
  int inner = transposed ? 0 : 1;
  access.simplifyBound(inner, inner ? frag.getCols() : frag.getRows());
  if (access.bounds[inner] && access.bounds[inner].getType() == e.i64)
    access.bounds[inner] =
        LLVM::TruncOp::create(e.b, e.loc, e.i32, access.bounds[inner]);
  // Row and column of each element of this thread, as what varies by thread
  // and what does not.
  struct Place {
    Value row, col;
    int64_t rowOffset, colOffset;
  };
  SmallVector<Place> places;
  if (frag.getLayout() == Layout::B) {
    int64_t steps = frag.getRows() / 16;
    for (int64_t block = 0; block < frag.getCols() / 8; ++block)
      for (int64_t step = 0; step < steps; ++step)
        for (int64_t i = 0; i < 4; ++i)
          places.push_back({role.col, e.lshr(lane, 2),
                            step * 16 + i / 2 * 8 + i % 2, block * 8});
  } else {
    FragShape shape(frag);
    for (int64_t i = 0; i < shape.elements(); ++i)
      places.push_back(
          {role.row, role.col,
           shape.rowKey(i) / 2 * shape.blockRows + shape.rowKey(i) % 2 * 8,
           shape.colKey(i) / 2 * 8 + shape.colKey(i) % 2});
  }
  Values elements;
  DenseMap<std::pair<int64_t, int64_t>, Value> addresses;
  Value origin = access.at(places.front().row, places.front().col);
  auto strideAt = [&](int axis) { return e.constantOf(access.strides[axis]); };
  for (const Place &place : places) {
    // A known stride becomes part of the instruction.
    int64_t offset = 0, row = place.rowOffset, col = place.colOffset;
    if (auto stride = strideAt(0))
      offset += *stride * row, row = 0;
    if (auto stride = strideAt(1))
      offset += *stride * col, col = 0;
    Value &address = addresses[{row, col}];
    if (!address)
      address = e.add(origin, e.add(e.mul(access.strides[0], row),
                                    e.mul(access.strides[1], col)));
    Value predicate =
        access.both(access.inBounds(0, e.add(place.row, place.rowOffset)),
                    access.inBounds(1, e.add(place.col, place.colOffset)));
    elements.push_back(read(address, offset, predicate));
  }
  if (!isPacked(frag)) {
    if (isShort)
      for (Value &value : elements)
        value = e.widen(value);
    set(op.getResult(), std::move(elements));
    return success();
  }
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
  set(op.getResult(), std::move(registers));
  return success();
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
/// such a block and writes a byte for each of its columns.
LogicalResult KernelLowering::lowerStoreBits(GlobalStoreBitsOp op) {
  FragType frag = op.getValue().getType();
  FragShape shape(frag);
  auto memref = cast<MemRefType>(op.getDestination().getType());
  int64_t rank = memref.getRank();
  Values parts = of(op.getDestination()), registers = of(op.getValue());
  Values at = flat(op.getIndices());
  auto stride = [&](int64_t dim) { return parts[1 + rank + dim]; };
  Value offset = e.c64(0);
  for (auto [dim, index] : llvm::enumerate(at))
    offset = e.add(offset, e.mul(e.sext64(index), stride(dim)));
  Value base =
      e.add(LLVM::PtrToIntOp::create(e.b, e.loc, e.i64, parts[0]).getResult(),
            e.mul(offset, 4));
  base = e.add(base, e.sext64(e.lshr(scalar(op.getRow()), 3)));
  Value colBytes = e.mul(stride(rank - 2), 4);
  base = e.add(base, e.mul(e.sext64(scalar(op.getColumn())), colBytes));

  // By block of 8 rows and column.
  SmallVector<Values> element(shape.rowKeys(), Values(shape.colKeys()));
  for (int64_t i = 0; i < shape.elements(); ++i)
    element[shape.rowKey(i)][shape.colKey(i)] = registers[i];
  int64_t across = shape.colKeys() / 2, blocks = shape.rowKeys() * across;
  constexpr int64_t lanes = ::attn::TargetInfo::warpThreads;
  for (int64_t first = 0; first < blocks; first += lanes) {
    int64_t some = std::min(lanes, blocks - first);
    Value votes[2] = {e.c32(0), e.c32(0)};
    for (int64_t i = 0; i < some; ++i) {
      Value isMine = e.eq(lane, i);
      int64_t row = (first + i) / across, col = (first + i) % across;
      for (int64_t odd : {0, 1})
        votes[odd] = e.select(isMine,
                              e.call("llvm.nvvm.vote.ballot.sync", e.i32,
                                     {e.c32(-1), element[row][2 * col + odd]}),
                              votes[odd]);
    }
    Value block = e.add(lane, first);
    Value mine = e.add(base, e.zext64(e.udiv(block, across)));
    mine =
        e.add(mine, e.mul(e.zext64(e.shl(e.urem(block, across), 3)), colBytes));
    Value exists = e.lt(lane, e.c32(some));
    for (int64_t col = 0; col < 8; ++col)
      e.assembly("@$2 st.global.b8 [$0], $1;", "l,r,b",
                 {e.add(mine, e.mul(colBytes, e.c64(col))),
                  everyFourthBit(e, e.lshr(votes[col % 2], col / 2)), exists});
  }
  return success();
}
