//===- MaskEvaluator.cpp - Bounds and classes of a mask -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MaskEvaluator.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ::attn;

//===----------------------------------------------------------------------===//
// Arithmetics
//===----------------------------------------------------------------------===//

namespace {
struct Numbers {
  using Int = int64_t;
  using Bool = bool;
  const MaskAnalysis::UniformNumberFn &uniformValue;
  const MaskAnalysis::SampleNumberFn *sample = nullptr;
  const MaskAnalysis::CellNumberFn *cell = nullptr;
  const MaskAnalysis::SampleNumberFn *element = nullptr;

  Int number(int64_t value) { return value; }
  Int widen(int64_t value) { return value; }
  Bool truth(bool value) { return value; }
  Int uniform(Value value) { return uniformValue(value); }
  Bool uniformBool(Value value) { return uniformValue(value) & 1; }
  Int add(Int x, Int y) { return x + y; }
  Int sub(Int x, Int y) { return x - y; }
  Int mul(Int x, Int y) { return x * y; }
  Int min(Int x, Int y) { return std::min(x, y); }
  Int max(Int x, Int y) { return std::max(x, y); }
  Int truncDiv(Int x, int64_t d) { return x / d; }
  Int floorDiv(Int x, int64_t d) { return llvm::divideFloorSigned(x, d); }
  Bool atLeast(Int x, Int y) { return x >= y; }
  Bool equal(Int x, Int y) { return x == y; }
  Bool both(Bool x, Bool y) { return x && y; }
  Bool either(Bool x, Bool y) { return x || y; }
  Bool inverse(Bool x) { return !x; }
  Int choose(Bool c, Int x, Int y) { return c ? x : y; }
  std::optional<bool> known(Bool x) { return x; }
};

/// What is known of numbers and truths whatever the rows, the number of keys
/// and the values of captures are.
struct Knowledge {
  struct Int {
    std::optional<int64_t> constant = {};
    bool byRow = false; // may differ by the rows of the box
  };
  struct Bool {
    std::optional<bool> known = {};
    bool byRow = false;
  };
  const MaskAnalysis::SampleFn *sample = nullptr;
  const MaskAnalysis::CellFn *cell = nullptr;
  const MaskAnalysis::SampleFn *element = nullptr;

  Int number(int64_t value) { return {value}; }
  Int widen(Value) { return {}; }
  Bool truth(bool value) { return {value}; }
  Int uniform(Value) { return {}; }
  Bool uniformBool(Value) { return {}; }
  Int fold(Int x, Int y, llvm::function_ref<int64_t(int64_t, int64_t)> f) {
    if (x.constant && y.constant)
      return {f(*x.constant, *y.constant)};
    return {std::nullopt, x.byRow || y.byRow};
  }
  Int add(Int x, Int y) { return fold(x, y, std::plus<int64_t>()); }
  Int sub(Int x, Int y) { return fold(x, y, std::minus<int64_t>()); }
  Int mul(Int x, Int y) {
    if (x.constant == 0 || y.constant == 0)
      return {0};
    return fold(x, y, std::multiplies<int64_t>());
  }
  Int min(Int x, Int y) {
    return fold(x, y, [](int64_t x, int64_t y) { return std::min(x, y); });
  }
  Int max(Int x, Int y) {
    return fold(x, y, [](int64_t x, int64_t y) { return std::max(x, y); });
  }
  Int truncDiv(Int x, int64_t d) {
    return fold(x, {d}, std::divides<int64_t>());
  }
  Int floorDiv(Int x, int64_t d) {
    return fold(x, {d}, [](int64_t x, int64_t y) {
      return llvm::divideFloorSigned(x, y);
    });
  }
  Bool compare(Int x, Int y, bool isEqual) {
    if (x.constant && y.constant)
      return {isEqual ? *x.constant == *y.constant
                      : *x.constant >= *y.constant};
    return {std::nullopt, x.byRow || y.byRow};
  }
  Bool atLeast(Int x, Int y) { return compare(x, y, /*isEqual=*/false); }
  Bool equal(Int x, Int y) { return compare(x, y, /*isEqual=*/true); }
  Bool settle(Bool x, Bool y, bool by) {
    if (x.known == by || y.known == by)
      return {by};
    if (x.known && y.known)
      return {!by};
    return {std::nullopt, x.byRow || y.byRow};
  }
  Bool both(Bool x, Bool y) { return settle(x, y, false); }
  Bool either(Bool x, Bool y) { return settle(x, y, true); }
  Bool inverse(Bool x) { return x.known ? Bool{!*x.known} : x; }
  Int choose(Bool c, Int x, Int y) {
    if (c.known)
      return *c.known ? x : y;
    if (x.constant && x.constant == y.constant)
      return x;
    return {std::nullopt, c.byRow || x.byRow || y.byRow};
  }
  std::optional<bool> known(Bool x) { return x.known; }
};
} // namespace

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

void MaskAnalysis::findBoundFacts() {
  Knowledge knowledge;
  Knowledge::Int row{std::nullopt, /*byRow=*/true}, keys;
  MaskEvaluator<Knowledge> evaluator(*this, knowledge, {row, row},
                                     {knowledge.number(0), keys});
  auto hull = evaluator.hull(keys);
  // Where the reading does not hold the hull is all keys.
  knownFacts.startsAtFirstKey = hull.lower.constant == 0;
  knownFacts.startDiffersByRow = hull.lower.byRow;
  knownFacts.endDiffersByRow = hull.upper.byRow;
  knownFacts.alwaysValid = evaluator.valid().known == true;
}

MaskAnalysis::Bounds MaskAnalysis::emitBounds(OpBuilder &builder, Location loc,
                                              const UniformFn &uniform,
                                              Value firstRow, Value lastRow,
                                              Value numKeys) const {
  MaskCode code{builder, loc, uniform};
  Value keys = code.widen(numKeys), zero = code.number(0);
  MaskEvaluator<MaskCode> evaluator(
      *this, code, {code.widen(firstRow), code.widen(lastRow)},
      {zero, code.max(code.sub(keys, code.number(1)), zero)});
  Value valid = evaluator.valid();
  auto hull = evaluator.hull(keys);
  auto core = evaluator.core(keys);
  // A start of keys that makes no sense may put it where 32 bits end.
  Value lower = matchPattern(hull.lower, m_Zero()) ? hull.lower
                                                   : code.min(hull.lower, keys);
  auto asIndex = [&](Value x) {
    return builder.createOrFold<arith::IndexCastOp>(loc, builder.getIndexType(),
                                                    x);
  };
  return {asIndex(code.choose(valid, lower, zero)),
          asIndex(code.choose(valid, hull.upper, keys)),
          asIndex(code.choose(valid, core.lower, zero)),
          asIndex(code.choose(valid, core.upper, zero)), valid};
}

MaskAnalysis::Class MaskAnalysis::emitClass(OpBuilder &builder, Location loc,
                                            const UniformFn &uniform,
                                            Value firstRow, Value lastRow,
                                            Value firstKey, Value lastKey,
                                            Value valid,
                                            const CellFn &cell) const {
  MaskCode code{builder, loc, uniform};
  code.cell = cell ? &cell : nullptr;
  MaskEvaluator<MaskCode> evaluator(
      *this, code, {code.widen(firstRow), code.widen(lastRow)},
      {code.widen(firstKey), code.widen(lastKey)});
  auto truth = evaluator.truth();
  return {code.both(valid, code.inverse(truth.some)),
          code.both(valid, code.inverse(truth.notAll))};
}

MaskAnalysis::Class
MaskAnalysis::emitBoxClass(OpBuilder &builder, Location loc,
                           const UniformFn &uniform, const SampleFn &sample,
                           Value firstRow, Value lastRow, Value firstKey,
                           Value lastKey, const CellFn &cell,
                           const SampleFn &element, Value *mixed) const {
  MaskCode code{builder, loc, uniform, &sample};
  code.cell = cell ? &cell : nullptr;
  code.element = element ? &element : nullptr;
  MaskEvaluator<MaskCode> evaluator(
      *this, code, {code.widen(firstRow), code.widen(lastRow)},
      {code.widen(firstKey), code.widen(lastKey)});
  Value valid = evaluator.valid();
  auto truth = evaluator.truth();
  if (mixed) {
    auto surely = evaluator.surely();
    *mixed = code.both(valid, code.both(surely.some, surely.notAll));
  }
  return {code.both(valid, code.inverse(truth.some)),
          code.both(valid, code.inverse(truth.notAll))};
}

MaskAnalysis::NumberBounds
MaskAnalysis::computeBounds(const UniformNumberFn &uniform, int64_t firstRow,
                            int64_t lastRow, int64_t numKeys) const {
  Numbers numbers{uniform};
  MaskEvaluator<Numbers> evaluator(*this, numbers, {firstRow, lastRow},
                                   {0, std::max<int64_t>(numKeys - 1, 0)});
  if (!evaluator.valid())
    return {0, numKeys, 0, 0, false};
  auto hull = evaluator.hull(numKeys);
  auto core = evaluator.core(numKeys);
  return {std::min(hull.lower, numKeys), hull.upper, core.lower, core.upper,
          true};
}

MaskAnalysis::NumberClass
MaskAnalysis::computeClass(const UniformNumberFn &uniform, int64_t firstRow,
                           int64_t lastRow, int64_t firstKey, int64_t lastKey,
                           bool valid, const CellNumberFn &cell) const {
  Numbers numbers{uniform};
  numbers.cell = cell ? &cell : nullptr;
  MaskEvaluator<Numbers> evaluator(*this, numbers, {firstRow, lastRow},
                                   {firstKey, lastKey});
  auto truth = evaluator.truth();
  return {valid && !truth.some, valid && !truth.notAll};
}

MaskAnalysis::NumberClass MaskAnalysis::computeBoxClass(
    const UniformNumberFn &uniform, const SampleNumberFn &sample,
    int64_t firstRow, int64_t lastRow, int64_t firstKey, int64_t lastKey,
    const CellNumberFn &cell, const SampleNumberFn &element,
    bool *mixed) const {
  Numbers numbers{uniform, &sample};
  numbers.cell = cell ? &cell : nullptr;
  numbers.element = element ? &element : nullptr;
  MaskEvaluator<Numbers> evaluator(*this, numbers, {firstRow, lastRow},
                                   {firstKey, lastKey});
  bool valid = evaluator.valid();
  auto truth = evaluator.truth();
  if (mixed) {
    auto surely = evaluator.surely();
    *mixed = valid && surely.some && surely.notAll;
  }
  return {valid && !truth.some, valid && !truth.notAll};
}
