//===- MaskColumns.cpp - The keys of a row as columns of a tile -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keys that bound what a row sees are columns of a tile in 32 bits where a key
// is a distance from its row, of which only the distance, the same for all
// rows, takes 64. A column far beyond the tile stands for any other there.
//
//===----------------------------------------------------------------------===//

#include "MaskEvaluator.h"
#include <deque>

using namespace mlir;
using namespace ::attn;

namespace {

/// Numbers of one row as code, of which the row's share is known: factor * row
/// + rest, and the least, greatest or chosen of such.
struct RowCode {
  struct Number {
    enum Kind { Sum, Minimum, Maximum, Choice } kind = Sum;
    int64_t factor = 0;
    Value rest = {}; // i64
    Value condition = {};
    const Number *lhs = nullptr, *rhs = nullptr;
    /// Not made of the row in a way that is known.
    bool isOpaque = false;
    bool isUniform() const { return kind == Sum && !factor && !isOpaque; }
  };
  using Int = const Number *;
  using Bool = Value;

  MaskCode code;
  Value row; // of the tile, i32
  const MaskAnalysis::SampleFn *sample = nullptr;
  const MaskAnalysis::CellFn *cell = nullptr;
  const MaskAnalysis::SampleFn *element = nullptr;
  std::deque<Number> numbers;

  Int sum(int64_t factor, Value rest) {
    numbers.push_back({Number::Sum, factor, rest});
    return &numbers.back();
  }
  Int opaque(Value value) {
    numbers.push_back({Number::Sum, 0, value});
    numbers.back().isOpaque = true;
    return &numbers.back();
  }
  Int node(Number::Kind kind, Int x, Int y, Value condition = {}) {
    numbers.push_back({kind, 0, {}, condition, x, y});
    return &numbers.back();
  }
  /// As an i64.
  Value value(Int x) {
    switch (x->kind) {
    case Number::Sum:
      if (!x->factor)
        return x->rest;
      return code.add(code.mul(code.widen(row), code.number(x->factor)),
                      x->rest);
    case Number::Minimum:
      return code.min(value(x->lhs), value(x->rhs));
    case Number::Maximum:
      return code.max(value(x->lhs), value(x->rhs));
    case Number::Choice:
      return code.choose(x->condition, value(x->lhs), value(x->rhs));
    }
    llvm_unreachable("unknown kind of number");
  }

  Int number(int64_t value) { return sum(0, code.number(value)); }
  Int widen(Value value) { return sum(0, code.widen(value)); }
  Bool truth(bool value) { return code.truth(value); }
  Int uniform(Value value) { return sum(0, code.uniform(value)); }
  Bool uniformBool(Value value) { return code.uniformBool(value); }
  /// Whether sums of the row make of it what `add` and `sub` make.
  bool areSums(Int x, Int y) {
    return x->kind == Number::Sum && y->kind == Number::Sum && !x->isOpaque &&
           !y->isOpaque;
  }
  Int add(Int x, Int y) {
    if (areSums(x, y))
      return sum(x->factor + y->factor, code.add(x->rest, y->rest));
    return opaque(code.add(value(x), value(y)));
  }
  Int sub(Int x, Int y) {
    if (areSums(x, y))
      return sum(x->factor - y->factor, code.sub(x->rest, y->rest));
    return opaque(code.sub(value(x), value(y)));
  }
  Int mul(Int x, Int y) {
    if (x->isUniform() && y->isUniform())
      return sum(0, code.mul(x->rest, y->rest));
    if (areSums(x, y) && y->isUniform())
      if (std::optional<int64_t> factor = code.constantOf(y->rest))
        return sum(x->factor * *factor, *factor == -1
                                            ? code.sub(code.number(0), x->rest)
                                            : code.mul(x->rest, y->rest));
    return opaque(code.mul(value(x), value(y)));
  }
  Int min(Int x, Int y) {
    if (x->isUniform() && y->isUniform())
      return sum(0, code.min(x->rest, y->rest));
    return x == y ? x : node(Number::Minimum, x, y);
  }
  Int max(Int x, Int y) {
    if (x->isUniform() && y->isUniform())
      return sum(0, code.max(x->rest, y->rest));
    return x == y ? x : node(Number::Maximum, x, y);
  }
  Int truncDiv(Int x, int64_t d) {
    return divided(x, d, code.truncDiv(value(x), d));
  }
  Int floorDiv(Int x, int64_t d) {
    return divided(x, d, code.floorDiv(value(x), d));
  }
  Int divided(Int x, int64_t d, Value quotient) {
    if (d == 1)
      return x;
    return x->isUniform() ? sum(0, quotient) : opaque(quotient);
  }
  Bool atLeast(Int x, Int y) { return code.atLeast(value(x), value(y)); }
  Bool equal(Int x, Int y) { return code.equal(value(x), value(y)); }
  Bool both(Bool x, Bool y) { return code.both(x, y); }
  Bool either(Bool x, Bool y) { return code.either(x, y); }
  Bool inverse(Bool x) { return code.inverse(x); }
  Int choose(Bool c, Int x, Int y) {
    if (std::optional<bool> known = code.known(c))
      return *known ? x : y;
    if (x->isUniform() && y->isUniform())
      return sum(0, code.choose(c, x->rest, y->rest));
    return x == y ? x : node(Number::Choice, x, y, c);
  }
  std::optional<bool> known(Bool x) { return code.known(x); }
};

/// Columns of a tile for numbers of keys.
class Columns {
public:
  using Number = RowCode::Number;
  Columns(RowCode &numbers, Value end, const MaskAnalysis::RowOfTile &tile)
      : numbers(numbers), code(numbers.code), b(code.b), loc(code.loc),
        end(end), tile(tile), first(code.widen(tile.firstKey)) {}

  /// The column where keys end, the least of some, or where they start, the
  /// greatest.
  Value of(RowCode::Int key, bool asEnd) {
    Value column = isNarrow ? narrow(key, asEnd) : Value();
    isNarrow &= static_cast<bool>(column);
    if (column)
      return column;
    Value distance = code.sub(numbers.value(key), first);
    return truncated(distance, 0, tile.numColumns);
  }
  /// Whether an end is that of the keys, or the least of that and another.
  bool isLimited(RowCode::Int key) const {
    return isNarrow && (isEnd(key) || (key->kind == Number::Minimum &&
                                       (isEnd(key->lhs) || isEnd(key->rhs))));
  }

private:
  bool isEnd(RowCode::Int key) const {
    return key->isUniform() && key->rest == end;
  }
  /// `key` as a column in 32 bits; null where it is not made like that.
  Value narrow(RowCode::Int key, bool asEnd);
  Value truncated(Value distance, int64_t least, int64_t most) {
    distance =
        code.min(code.max(distance, code.number(least)), code.number(most));
    return b.createOrFold<arith::TruncIOp>(loc, b.getI32Type(), distance);
  }

  RowCode &numbers;
  MaskCode &code;
  OpBuilder &b;
  Location loc;
  Value end; // of all keys
  const MaskAnalysis::RowOfTile &tile;
  Value first;
  bool isNarrow = true;
};

} // namespace

Value Columns::narrow(RowCode::Int key, bool asEnd) {
  // The end of all keys is that of the tile's.
  if (isEnd(key))
    return tile.keyCount;
  if (key->kind == Number::Sum) {
    if (key->isOpaque || std::abs(key->factor) > 1)
      return {};
    // The first key is no column behind a tile's first.
    if (!key->factor && code.constantOf(key->rest) == 0)
      return arith::ConstantIntOp::create(b, loc, b.getI32Type(), 0);
    // No further from 0 than rows and columns of a tile are from the ends of an
    // i32.
    Value column = truncated(code.sub(key->rest, first), -(1 << 30), 1 << 30);
    if (key->factor == 1)
      return b.createOrFold<arith::AddIOp>(loc, column, tile.row);
    if (key->factor == -1)
      return b.createOrFold<arith::SubIOp>(loc, column, tile.row);
    return column;
  }
  // An end that is the greater of two (a prefix and a diagonal) was 1 % slower
  // for all in 32 bits (docs/performance/gpu.md).
  bool isMet = key->kind == (asEnd ? Number::Minimum : Number::Maximum);
  if (!isMet && key->kind != Number::Choice)
    return {};
  Value x = narrow(key->lhs, asEnd);
  Value y = narrow(key->rhs, asEnd);
  if (!x || !y)
    return {};
  if (!isMet)
    return b.createOrFold<arith::SelectOp>(loc, key->condition, x, y);
  if (asEnd)
    return b.createOrFold<arith::MinSIOp>(loc, x, y);
  return b.createOrFold<arith::MaxSIOp>(loc, x, y);
}

MaskAnalysis::RowColumns
MaskAnalysis::emitRowColumns(OpBuilder &builder, Location loc,
                             const UniformFn &uniform,
                             const RowOfTile &tile) const {
  RowCode numbers{{builder, loc, uniform}, tile.row, {}, {}, {}, {}};
  MaskCode &code = numbers.code;
  Value keys = code.widen(tile.numKeys), zero = code.number(0);
  Value last = code.max(code.sub(keys, code.number(1)), zero);
  RowCode::Int position = tile.isOffset
                              ? numbers.sum(1, code.widen(tile.position))
                              : numbers.opaque(code.widen(tile.position));
  MaskEvaluator<RowCode> evaluator(
      *this, numbers, {position, position},
      {numbers.sum(0, zero), numbers.sum(0, last)});
  auto interval = evaluator.row(numbers.sum(0, keys));
  Columns columns(numbers, keys, tile);
  RowColumns result;
  result.end = columns.of(interval.upper, /*asEnd=*/true);
  if (!columns.isLimited(interval.upper))
    result.end =
        builder.createOrFold<arith::MinSIOp>(loc, result.end, tile.keyCount);
  bool fromFirst =
      interval.lower->isUniform() && code.constantOf(interval.lower->rest) == 0;
  if (!fromFirst)
    result.start = columns.of(interval.lower, /*asEnd=*/false);
  return result;
}
