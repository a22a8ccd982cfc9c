//===- PermutedLanes.cpp - Registers whose lanes have neighbours ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of permuted columns, and of the rows of vectors and of transposed fragments,
// a lane has runs that follow each other. Where they do in memory, and start at
// a multiple of their size, a run is one access or two; that is decided when
// the kernel runs, by pointer and strides. What is loaded of 16 bits stays
// packed until it is used: nothing waits for it before.
//
//===----------------------------------------------------------------------===//

#include "GlobalAccess.h"
#include "Lowerings.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

/// One instruction that loads words, or zeros where the predicate is false.
static Values loadWords(Emitter &e, Value address, int64_t offset,
                        int64_t count, Type type, Value predicate) {
  std::string zeros, names, constraints;
  bool isHalf = type == e.i16;
  for (int64_t i = 0; i < count; ++i) {
    std::string name = "$" + std::to_string(i);
    zeros += (isHalf ? "mov.b16 " : "mov.b32 ") + name + ", 0;\n";
    names += (i ? ", " : "") + name;
    constraints += type == e.f32 ? "=&f," : isHalf ? "=&h," : "=&r,";
  }
  std::string text = "{\n";
  if (predicate)
    text += zeros + "@$" + std::to_string(count + 1) + " ";
  text += "ld.global";
  if (count > 1) {
    text += ".v" + std::to_string(count);
    names = "{" + names + "}";
  }
  text += (isHalf ? ".b16 " : ".b32 ") + names + ", [$" +
          std::to_string(count) + "+" + std::to_string(offset) + "];\n}";
  Values inputs = {address};
  constraints += "l";
  if (predicate) {
    inputs.push_back(predicate);
    constraints += ",b";
  }
  return e.assembly(text, constraints, inputs, SmallVector<Type>(count, type));
}

/// `streams`: as what is read by no one before it has left the caches.
static void storeWords(Emitter &e, Value address, int64_t offset,
                       ArrayRef<Value> words, Value predicate, bool streams) {
  int64_t count = words.size();
  std::string text, names, constraints = "l";
  bool isHalf = words.front().getType() == e.i16;
  if (predicate)
    text = "@$" + std::to_string(count + 1) + " ";
  text += streams ? "st.global.cs" : "st.global";
  Values inputs = {address};
  for (int64_t i = 0; i < count; ++i) {
    names += (i ? ", $" : "$") + std::to_string(i + 1);
    constraints += words[i].getType() == e.f32 ? ",f" : isHalf ? ",h" : ",r";
    inputs.push_back(words[i]);
  }
  if (count > 1) {
    text += ".v" + std::to_string(count);
    names = "{" + names + "}";
  }
  text += (isHalf ? ".b16 [$0+" : ".b32 [$0+") + std::to_string(offset) +
          "], " + names + ";";
  if (predicate) {
    inputs.push_back(predicate);
    constraints += ",b";
  }
  e.assembly(text, constraints, inputs);
}

namespace {
/// Registers that stand for neighbours in memory.
struct Run {
  SmallVector<int64_t, 8> elements;
  /// Of the first one; the offset is in bytes.
  Value address;
  int64_t offset;
  /// Its position along the neighbours, and whether it exists across them.
  Value first, isInside;
};

/// A register value beside a tensor.
class PermutedAccess {
public:
  PermutedAccess(Emitter &e, GlobalAccess &access, const RoleContext &role,
                 Value lane, Type type, int64_t neighbours, Type memory);

  Values load();
  void store(const Values &elements);
  /// Which word an element is in, and which half of it.
  SmallVector<unsigned> places;

private:
  void addRuns(const RoleContext &role, Value lane, Type type,
               int64_t neighbours);
  /// The address of element `i` of a run.
  std::pair<Value, int64_t> at(const Run &run, int64_t i) const {
    int64_t offset = run.offset + (isUnit ? i * access.elementBytes : 0);
    if (isUnit)
      return {run.address, offset};
    return {e.add(run.address, e.mul(access.strides[axis], e.c64(i))), offset};
  }
  Value inside(const Run &run, int64_t i) const {
    return access.both(run.isInside,
                       access.inBounds(axis, e.add(run.first, i)));
  }
  /// Words of an access.
  int64_t wordsOf() const { return isShort ? chunk / 2 : chunk; }
  Values loadRuns(bool joins);
  void storeRuns(const Values &words, bool joins);
  /// Whether accesses of more than one element are possible; and, where the
  /// kernel runs, that they are.
  bool mayJoin();
  Value isAligned();

  Emitter &e;
  GlobalAccess &access;
  Type memory;
  SmallVector<Run> runs;
  Value owner;
  int axis;
  int64_t chunk = 1, numElements = 0;
  bool isShort, isUnit;
};
} // namespace

PermutedAccess::PermutedAccess(Emitter &e, GlobalAccess &access,
                               const RoleContext &role, Value lane, Type type,
                               int64_t neighbours, Type memory)
    : e(e), access(access), memory(memory),
      axis(isa<FragType>(type) && !access.isTransposed ? 1 : 0),
      isShort(!memory.isF32()),
      isUnit(axis ? access.colsAreContiguous : access.rowsAreContiguous) {
  auto vec = dyn_cast<VecType>(type);
  auto frag = dyn_cast<FragType>(type);
  for (int other : {0, 1}) {
    Value &bound = access.bounds[other];
    if (!bound)
      continue;
    // Bounds of memory's rows are anything, and those of its columns its size.
    bool isSize = frag && other == (access.isTransposed ? 0 : 1);
    int64_t extent = vec     ? vec.getSize()
                     : other ? frag.getCols()
                             : frag.getRows();
    if (isSize || e.constantOf(access.origins[other]))
      access.simplifyBound(other, extent);
    if (bound && bound.getType() == e.i64)
      bound = LLVM::TruncOp::create(e.b, e.loc, e.i32, bound);
  }
  addRuns(role, lane, type, neighbours);
  // One thread of those that hold an element of a vector writes it.
  if (vec)
    owner = vec.getAxis() == Axis::Row ? e.eq(e.and_(lane, 3), 0)
                                       : e.eq(e.lshr(lane, 2), 0);
  int64_t length = runs.front().elements.size();
  int64_t most = 16 / access.elementBytes;
  while (chunk < most && length % (2 * chunk) == 0)
    chunk *= 2;
  places.resize(numElements);
  unsigned next = 0;
  for (const Run &run : runs)
    for (int64_t element : run.elements)
      places[element] = next++;
}

void PermutedAccess::addRuns(const RoleContext &role, Value lane, Type type,
                             int64_t neighbours) {
  Value quarter = e.and_(lane, 3);
  // Rows of a lane are all neighbours; columns in runs that four lanes share.
  auto addCols = [&](Value origin, int64_t count, Value rowInside,
                     function_ref<int64_t(int64_t)> elementOf) {
    for (int64_t key = 0; key < count; key += neighbours) {
      Run run;
      for (int64_t i = 0; i < neighbours; ++i)
        run.elements.push_back(elementOf(key + i));
      int64_t first = key * 4;
      run.address =
          isUnit ? origin
                 : e.add(origin, e.mul(access.strides[axis], e.c64(first)));
      run.offset = isUnit ? first * access.elementBytes : 0;
      run.first = e.add(e.mul(quarter, neighbours), first);
      run.isInside = rowInside;
      runs.push_back(std::move(run));
    }
  };
  Value firstCol = e.mul(quarter, neighbours);
  if (auto vec = dyn_cast<VecType>(type)) {
    if (vec.getAxis() == Axis::Col) {
      numElements = vec.getSize() / 4;
      return addCols(access.at(firstCol, e.c32(0)), numElements, Value(),
                     [](int64_t key) { return key; });
    }
    numElements = vec.getSize() / 8;
    Run run;
    run.first = e.mul(role.row, numElements);
    run.address = access.at(run.first, e.c32(0));
    run.offset = 0;
    for (int64_t i = 0; i < numElements; ++i)
      run.elements.push_back(i);
    runs.push_back(std::move(run));
    return;
  }
  FragShape shape(cast<FragType>(type));
  numElements = shape.elements();
  // Registers by column and row.
  SmallVector<int64_t> elements(numElements);
  for (int64_t i = 0; i < numElements; ++i)
    elements[shape.rowKey(i) * shape.colKeys() + shape.colKey(i)] = i;
  Value firstRow = e.mul(role.row, shape.rowKeys());
  Value origin = access.at(firstRow, firstCol);
  if (access.isTransposed) {
    for (int64_t key = 0; key < shape.colKeys(); ++key) {
      int64_t col = key / neighbours * 4 * neighbours + key % neighbours;
      Run run;
      run.address = e.add(origin, e.mul(access.strides[1], e.c64(col)));
      run.offset = 0;
      run.first = firstRow;
      run.isInside = access.inBounds(1, e.add(firstCol, col));
      for (int64_t row = 0; row < shape.rowKeys(); ++row)
        run.elements.push_back(elements[row * shape.colKeys() + key]);
      runs.push_back(std::move(run));
    }
    return;
  }
  for (int64_t row = 0; row < shape.rowKeys(); ++row)
    addCols(e.add(origin, e.mul(access.strides[0], e.c64(row))),
            shape.colKeys(), access.inBounds(0, e.add(firstRow, row)),
            [&](int64_t key) { return elements[row * shape.colKeys() + key]; });
}

bool PermutedAccess::mayJoin() {
  if (!isUnit || chunk == 1)
    return false;
  Value bound = access.bounds[axis];
  auto size = bound ? e.constantOf(bound) : std::optional<int64_t>(0);
  return size && *size % chunk == 0;
}

Value PermutedAccess::isAligned() {
  Value low = access.base;
  if (axis || access.isTransposed)
    low = e.or_(low, access.strides[1 - axis]);
  low = e.and_(low, chunk * access.elementBytes - 1);
  // The last of a run's elements decides for all.
  if (access.bounds[axis])
    low = e.or_(low, e.and_(e.sext64(access.origins[axis]), chunk - 1));
  return e.eq(low, 0);
}

Values PermutedAccess::loadRuns(bool joins) {
  Values words;
  for (const Run &run : runs)
    for (int64_t i = 0, n = run.elements.size(); i < n;) {
      auto [address, offset] = at(run, i);
      if (joins) {
        llvm::append_range(words, loadWords(e, address, offset, wordsOf(),
                                            isShort ? e.i32 : e.f32,
                                            inside(run, i + chunk - 1)));
        i += chunk;
        continue;
      }
      auto one = [&](int64_t i) {
        auto [address, offset] = at(run, i);
        return loadWords(e, address, offset, 1, isShort ? e.i16 : e.f32,
                         inside(run, i))
            .front();
      };
      if (!isShort) {
        words.push_back(one(i++));
        continue;
      }
      Value low = LLVM::ZExtOp::create(e.b, e.loc, e.i32, one(i));
      Value high = LLVM::ZExtOp::create(e.b, e.loc, e.i32, one(i + 1));
      words.push_back(e.or_(low, e.shl(high, 16)));
      i += 2;
    }
  return words;
}

Values PermutedAccess::load() {
  if (!mayJoin())
    return loadRuns(false);
  Block *fast = e.newBlock(), *slow = e.newBlock();
  Block *join = e.newBlock(SmallVector<Type>(
      isShort ? numElements / 2 : numElements, isShort ? e.i32 : e.f32));
  e.branch(isAligned(), fast, slow);
  for (auto [block, joins] : {std::pair(fast, true), std::pair(slow, false)}) {
    e.startBlock(block);
    // The assembler would make predicates of a short branch, and in the long
    // block that is left move loads down to their users: they would come
    // behind what waits for other loads. It keeps a branch that has a fence.
    if (!joins)
      e.assembly("membar.cta;", "", {});
    Values words = loadRuns(joins);
    e.branch(join, words);
  }
  e.startBlock(join);
  return Values(join->args_begin(), join->args_end());
}

void PermutedAccess::storeRuns(const Values &words, bool joins) {
  // Fragments are states, which come back with the next token; what it gains
  // was measured with those of 16 bits.
  bool streams = !owner && isShort;
  int64_t word = 0;
  for (const Run &run : runs)
    for (int64_t i = 0, n = run.elements.size(); i < n;) {
      int64_t step = joins ? chunk : isShort ? 2 : 1;
      int64_t count = isShort ? step / 2 : step;
      ArrayRef<Value> these = ArrayRef(words).slice(word, count);
      word += count;
      if (joins || !isShort) {
        auto [address, offset] = at(run, i);
        storeWords(e, address, offset, these,
                   access.both(owner, inside(run, i + step - 1)), streams);
      } else {
        for (int64_t half : {0, 1}) {
          auto [address, offset] = at(run, i + half);
          Value bits = LLVM::TruncOp::create(e.b, e.loc, e.i16,
                                             e.lshr(these.front(), half * 16));
          storeWords(e, address, offset, {bits},
                     access.both(owner, inside(run, i + half)), streams);
        }
      }
      i += step;
    }
}

void PermutedAccess::store(const Values &elements) {
  Values words;
  for (const Run &run : runs)
    for (int64_t i = 0, n = run.elements.size(); i < n; i += isShort ? 2 : 1)
      words.push_back(isShort ? e.pack(elements[run.elements[i]],
                                       elements[run.elements[i + 1]], memory)
                              : elements[run.elements[i]]);
  if (!mayJoin())
    return storeRuns(words, false);
  Block *fast = e.newBlock(), *slow = e.newBlock(), *join = e.newBlock();
  e.branch(isAligned(), fast, slow);
  for (auto [block, joins] : {std::pair(fast, true), std::pair(slow, false)}) {
    e.startBlock(block);
    storeRuns(words, joins);
    e.branch(join);
  }
  e.startBlock(join);
}

static bool isMovable(Type memory) {
  return memory.isBF16() || memory.isF16() || memory.isF32();
}

LogicalResult gpu::loadPermuted(KernelContext &k, GlobalLoadOp op,
                                GlobalAccess &access) {
  Emitter &e = k.e;
  Type memory = cast<MemRefType>(op.getSource().getType()).getElementType();
  if (!isMovable(memory))
    return unsupported(op, "memory of f32, bf16 or f16 for permuted lanes");
  PermutedAccess permuted(e, access, k.role, k.lane, op.getResult().getType(),
                          op.getPermuted(), memory);
  Values words = permuted.load();
  if (!memory.isF32()) {
    k.packedLoads[op.getResult()] = {std::move(words),
                                     std::move(permuted.places), memory};
    return success();
  }
  Values elements;
  for (unsigned place : permuted.places)
    elements.push_back(words[place]);
  k.set(op.getResult(), std::move(elements));
  return success();
}

LogicalResult gpu::storePermuted(KernelContext &k, Operation *op, Value value,
                                 MemRefType memref, int64_t neighbours,
                                 GlobalAccess &access) {
  Emitter &e = k.e;
  if (!isMovable(memref.getElementType()))
    return unsupported(op, "memory of f32, bf16 or f16 for permuted lanes");
  PermutedAccess permuted(e, access, k.role, k.lane, value.getType(),
                          neighbours, memref.getElementType());
  permuted.store(k.of(value));
  return success();
}
