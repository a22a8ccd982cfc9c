//===- PermutedRows.cpp - Fragments whose lanes have neighbours -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of 32 permuted rows a lane has four of each of its columns that follow each
// other, of 16 two. Where they do in memory, and start at a multiple of their
// size, they are one access; that is decided when the kernel runs, by pointer
// and strides.
//
//===----------------------------------------------------------------------===//

#include "GlobalAccess.h"
#include "KernelLowering.h"

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

static void storeWords(Emitter &e, Value address, int64_t offset,
                       ArrayRef<Value> words, Value predicate) {
  int64_t count = words.size();
  std::string text, names, constraints = "l";
  bool isHalf = words.front().getType() == e.i16;
  if (predicate)
    text = "@$" + std::to_string(count + 1) + " ";
  text += "st.global";
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

LogicalResult KernelLowering::movePermuted(Operation *op, GlobalAccess &access,
                                           FragType frag, MemRefType memref,
                                           const Values *stored,
                                           Values *loaded) {
  Type memory = memref.getElementType();
  bool isShort = memory.isBF16() || memory.isF16();
  if (!isShort && !memory.isF32())
    return unsupported(op, "memory of f32, bf16 or f16 for permuted rows");
  FragShape shape(frag);
  int64_t each = shape.rowKeys();
  for (int axis : {0, 1}) {
    Value &bound = access.bounds[axis];
    // Bounds of rows are anything, and those of columns the tensor's.
    bool isSize = axis == (access.isTransposed ? 0 : 1);
    if (bound && (isSize || e.constantOf(access.origins[axis])))
      access.simplifyBound(axis, axis ? frag.getCols() : frag.getRows());
    if (bound && bound.getType() == e.i64)
      bound = LLVM::TruncOp::create(e.b, e.loc, e.i32, bound);
  }
  // Registers by column and row.
  auto elementOf = [&](int64_t col, int64_t row) {
    for (int64_t i = 0; i < shape.elements(); ++i)
      if (shape.colKey(i) == col && shape.rowKey(i) == row)
        return i;
    llvm_unreachable("a fragment has each of its elements");
  };
  auto toMemory = [&](Value x) -> Value {
    if (!isShort)
      return x;
    Value narrow = LLVM::FPTruncOp::create(e.b, e.loc, memory, x);
    return e.bitcast(narrow, e.i16);
  };
  Value firstRow = permutedRow(frag.getRows(), 0);
  auto colStride = e.constantOf(access.strides[1]);

  auto emit = [&](bool joins) {
    Values elements(loaded ? shape.elements() : 0);
    Value origin = access.at(firstRow, role.col);
    SmallVector<Value> inside(each);
    for (int64_t row = 0; row < each; ++row)
      inside[row] = access.inBounds(0, e.add(firstRow, row));
    for (int64_t col = 0; col < shape.colKeys(); ++col) {
      int64_t column = col / 2 * 8 + col % 2;
      int64_t offset = colStride ? *colStride * column : 0;
      Value address = origin;
      if (!colStride)
        address = e.add(origin, e.mul(access.strides[1], e.c64(column)));
      Value colInside = access.inBounds(1, e.add(role.col, column));
      if (!joins) {
        for (int64_t row = 0; row < each; ++row) {
          Value at = e.add(address, e.mul(access.strides[0], e.c64(row)));
          Value predicate = access.both(inside[row], colInside);
          int64_t i = elementOf(col, row);
          if (stored) {
            storeWords(e, at, offset, {toMemory((*stored)[i])}, predicate);
            continue;
          }
          Value x =
              loadWords(e, at, offset, 1, isShort ? e.i16 : e.f32, predicate)
                  .front();
          elements[i] = isShort ? e.widen(e.bitcast(x, memory)) : x;
        }
        continue;
      }
      // The last row decides: their number is a multiple of what a lane has.
      Value predicate = access.both(inside[each - 1], colInside);
      Values words;
      if (stored) {
        for (int64_t row = 0; row < each; row += isShort ? 2 : 1) {
          Value x = (*stored)[elementOf(col, row)];
          words.push_back(
              isShort ? e.pack(x, (*stored)[elementOf(col, row + 1)], memory)
                      : x);
        }
        storeWords(e, address, offset, words, predicate);
        continue;
      }
      words = loadWords(e, address, offset, isShort ? each / 2 : each,
                        isShort ? e.i32 : e.f32, predicate);
      for (int64_t row = 0; row < each; ++row)
        elements[elementOf(col, row)] =
            isShort ? e.widen(e.unpack(words[row / 2], row % 2, memory))
                    : words[row];
    }
    return elements;
  };

  int64_t bytes = each * access.elementBytes;
  bool canJoin = access.rowsAreContiguous;
  if (Value bound = access.bounds[0]) {
    auto size = e.constantOf(bound);
    canJoin &= size && *size % each == 0;
  }
  if (!canJoin) {
    Values elements = emit(false);
    if (loaded)
      *loaded = std::move(elements);
    return success();
  }
  Value low = e.and_(e.or_(access.base, access.strides[1]), bytes - 1);
  Value first = e.and_(e.sext64(access.origins[0]), each - 1);
  Value aligned = e.eq(e.or_(low, first), 0);
  Block *fast = e.newBlock(), *slow = e.newBlock();
  Block *join =
      e.newBlock(SmallVector<Type>(loaded ? shape.elements() : 0, e.f32));
  e.branch(aligned, fast, slow);
  for (auto [block, joins] : {std::pair(fast, true), std::pair(slow, false)}) {
    e.startBlock(block);
    Values elements = emit(joins);
    e.branch(join, elements);
  }
  e.startBlock(join);
  if (loaded)
    loaded->assign(join->args_begin(), join->args_end());
  return success();
}
