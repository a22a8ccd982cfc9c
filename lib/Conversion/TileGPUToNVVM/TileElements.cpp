//===- TileElements.cpp - Single elements of tiles ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileElements.h"

using namespace mlir;
using namespace ::attn::gpu;

/// The chunk that 0 becomes in a row.
Value TileElements::exchange(Value row) const {
  switch (form.swizzle) {
  case 128:
    return e.and_(row, 7);
  case 64:
    return e.and_(e.lshr(row, 1), 3);
  case 32:
    return e.and_(e.lshr(row, 2), 1);
  default:
    return e.c32(0);
  }
}

Value TileElements::at(Value row, Value col) const {
  Value byte = e.mul(col, elementBytes);
  Value start = e.add(base, e.mul(row, form.rowBytes));
  if (!form.swizzle)
    return e.add(start, byte);
  start = e.add(start, e.mul(e.udiv(byte, form.rowBytes), form.panelBytes));
  byte = e.urem(byte, form.rowBytes);
  return e.add(start, e.xor_(byte, e.shl(exchange(row), 4)));
}

Value TileElements::pairAt(Value row, int64_t block) const {
  // The lane's part of the offset lies within 32 bytes.
  Value mine = e.mul(e.shl(e.and_(lane, 3), 1), elementBytes);
  int64_t byte = block * 8 * elementBytes;
  Value start = e.add(base, e.mul(row, form.rowBytes));
  if (!form.swizzle)
    return e.add(e.add(start, mine), byte);
  start = e.add(start, byte / form.rowBytes * form.panelBytes);
  Value known = e.xor_(e.shl(exchange(row), 4), e.c32(byte % form.rowBytes));
  return e.add(start, e.xor_(mine, known));
}

Values TileElements::load(Value address, int64_t offset, int64_t count) const {
  bool isShort = elementBytes == 2;
  if (isShort && count == 1) {
    Value bits =
        e.assembly("ld.shared::cta.b16 $0, [$1+" + Twine(offset) + "];",
                   "=h,r,~{memory}", {address}, e.i16)
            .front();
    return {e.widen(e.bitcast(bits, element))};
  }
  int64_t words = isShort ? count / 2 : count;
  Type type = isShort ? e.i32 : element;
  std::string text = "ld.shared::cta.", constraints, list;
  for (int64_t i = 0; i < words; ++i) {
    constraints += type == e.f32 ? "=f," : "=r,";
    list += (i ? ", $" : "$") + std::to_string(i);
  }
  if (words > 1)
    text += "v" + std::to_string(words) + ".b32 {" + list + "}";
  else
    text += "b32 $0";
  text += ", [$" + std::to_string(words) + "+" + std::to_string(offset) + "];";
  Values loaded = e.assembly(text, constraints + "r,~{memory}", {address},
                             SmallVector<Type>(words, type));
  if (!isShort)
    return loaded;
  Values result;
  for (Value word : loaded)
    for (int64_t half : {0, 1})
      result.push_back(e.widen(e.unpack(word, half, element)));
  return result;
}

void TileElements::store(Value address, int64_t offset, ValueRange elements,
                         Value predicate) const {
  int64_t count = elements.size();
  std::string text = predicate ? "@$" + std::to_string(count + 1) + " " : "";
  text += "st.shared::cta." +
          (count > 1 ? "v" + std::to_string(count) + "." : std::string());
  text += "b32 [$0+" + std::to_string(offset) + "], ";
  std::string constraints = "r", list;
  for (int64_t i = 0; i < count; ++i) {
    list += (i ? ", $" : "$") + std::to_string(i + 1);
    constraints += elements[i].getType() == e.f32 ? ",f" : ",r";
  }
  text += count > 1 ? "{" + list + "};" : list + ";";
  Values inputs = {address};
  llvm::append_range(inputs, elements);
  if (predicate) {
    inputs.push_back(predicate);
    constraints += ",b";
  }
  e.assembly(text, constraints + ",~{memory}", inputs);
}
