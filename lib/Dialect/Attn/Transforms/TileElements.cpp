//===- TileElements.cpp - Scores and masks of elements -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileKernel.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn;

KernelBuilder::Point ReductionKernel::pointOf(RowBlock &block, Value row,
                                              Value col) {
  Point point = rowPoint(block.rowBase, row, block.lastRow);
  point.key = add(block.keyBase, col);
  // A full tile has no key out of range.
  point.safeKey = block.tile.masked && block.tile.ragged
                      ? min(point.key, block.lastKey)
                      : point.key;
  return point;
}

SmallVector<Value> ReductionKernel::scores(RowBlock &block, Value row,
                                           Value col, ValueRange dots) {
  Region &score = reduction.getScoreBody();
  if (score.empty())
    return SmallVector<Value>(dots);
  PointCloner cloner(*this, score, dots.size(), /*hasKey=*/true,
                     reduction.getCaptureOperands(), pointOf(block, row, col));
  for (auto [argument, dot] : llvm::zip(score.getArguments(), dots))
    cloner.map(argument, dot);
  if (form.inUnits)
    return {withSign(cloner.get(form.inUnits))};
  return llvm::map_to_vector(getYielded(score),
                             [&](Value v) { return cloner.get(v); });
}

/// x times the sign of the factor; an odd function and a product with a uniform
/// value pass it on to where it costs nothing for each element.
Value ReductionKernel::withSign(Value x) {
  Operation *op = x.getDefiningOp();
  if (auto tanh = dyn_cast_or_null<math::TanhOp>(op))
    return math::TanhOp::create(b, loc, withSign(tanh.getOperand()));
  if (auto product = dyn_cast_or_null<arith::MulFOp>(op))
    for (auto [y, factor] : {std::pair(product.getLhs(), product.getRhs()),
                             std::pair(product.getRhs(), product.getLhs())}) {
      if (!factor.getParentRegion()->isProperAncestor(y.getParentRegion()))
        continue;
      OpBuilder outer(b.getContext());
      outer.setInsertionPointAfterValue(form.sign);
      Value &signedFactor = signedFactors[factor];
      if (!signedFactor)
        signedFactor = arith::MulFOp::create(outer, loc, factor, form.sign);
      return arith::MulFOp::create(b, loc, y, signedFactor);
    }
  return arith::MulFOp::create(b, loc, x, form.sign);
}

//===----------------------------------------------------------------------===//
// Rows that see one interval of keys
//===----------------------------------------------------------------------===//

namespace {
/// Keys that bound what a row sees, as columns of a tile: in 32 bits where a
/// key is a distance from its row, of which only the distance, the same for all
/// rows, takes 64. A column far beyond the tile stands for any other there.
class ColumnBounds {
public:
  ColumnBounds(OpBuilder &b, Location loc, Value row, Value firstKey,
               Value numKeys, Value keyCount)
      : b(b), loc(loc), row(row), first(firstKey), numKeys(numKeys),
        keyCount(keyCount) {}

  /// The column where keys end, the least of some, or where they start, the
  /// greatest; null where it is not made like that, or a row's share of a key
  /// is not known.
  Value of(Value key, bool isEnd);

private:
  /// factor * row + rest; a null rest is 0.
  struct Sum {
    int64_t factor = 0;
    Value rest;
  };
  std::optional<Sum> sumOf(Value value);
  Sum add(Sum x, Sum y, Type type, bool negate);
  Value narrow(Value key);

  OpBuilder &b;
  Location loc;
  Value row, first, numKeys, keyCount;
};
} // namespace

/// x + y, or x - y.
ColumnBounds::Sum ColumnBounds::add(Sum x, Sum y, Type type, bool negate) {
  Sum sum{negate ? x.factor - y.factor : x.factor + y.factor, x.rest};
  if (!y.rest)
    return sum;
  if (negate) {
    if (!x.rest)
      x.rest = arith::ConstantIntOp::create(b, loc, type, 0);
    sum.rest = arith::SubIOp::create(b, loc, x.rest, y.rest);
  } else {
    sum.rest = x.rest
                   ? arith::AddIOp::create(b, loc, x.rest, y.rest).getResult()
                   : y.rest;
  }
  return sum;
}

std::optional<ColumnBounds::Sum> ColumnBounds::sumOf(Value value) {
  if (value == row)
    return Sum{1, {}};
  Operation *def = value.getDefiningOp();
  if (!def || def->getBlock() != row.getParentBlock())
    return Sum{0, value};
  SmallVector<Sum, 2> operands;
  for (Value operand : def->getOperands()) {
    std::optional<Sum> sum = sumOf(operand);
    if (!sum || def->getNumRegions())
      return std::nullopt;
    operands.push_back(*sum);
  }
  if (llvm::all_of(operands, [](Sum sum) { return sum.factor == 0; }))
    return Sum{0, value};
  Type type = value.getType();
  // Positions do not wrap.
  if (isa<arith::ExtSIOp>(def)) {
    Sum x = operands[0];
    if (x.rest)
      x.rest = arith::ExtSIOp::create(b, loc, type, x.rest);
    return x;
  }
  APInt by;
  if (isa<arith::MulIOp>(def) &&
      matchPattern(def->getOperand(1), m_ConstantInt(&by)) && by.isAllOnes())
    return add(Sum{}, operands[0], type, /*negate=*/true);
  if (!isa<arith::AddIOp, arith::SubIOp>(def))
    return std::nullopt;
  return add(operands[0], operands[1], type, isa<arith::SubIOp>(def));
}

/// key - firstKey, no further from 0 than rows and columns of a tile are from
/// the ends of an i32.
Value ColumnBounds::narrow(Value key) {
  Type i64 = b.getI64Type();
  Value least = arith::ConstantIntOp::create(b, loc, i64, -(1 << 30));
  Value most = arith::ConstantIntOp::create(b, loc, i64, 1 << 30);
  Value distance = arith::SubIOp::create(b, loc, key, first);
  distance = arith::MaxSIOp::create(b, loc, distance, least);
  distance = arith::MinSIOp::create(b, loc, distance, most);
  return arith::TruncIOp::create(b, loc, b.getI32Type(), distance);
}

Value ColumnBounds::of(Value key, bool isEnd) {
  // The first key is no column behind a tile's first; the end of all keys is
  // that of the tile's.
  if (matchPattern(key, m_Zero()))
    return arith::ConstantIntOp::create(b, loc, b.getI32Type(), 0);
  Operation *def = key.getDefiningOp();
  if (auto cast = dyn_cast_or_null<arith::IndexCastOp>(def))
    if (cast.getIn() == numKeys)
      return keyCount;
  if (std::optional<Sum> sum = sumOf(key); sum && std::abs(sum->factor) <= 1) {
    Value rest = sum->rest;
    if (!rest)
      rest = arith::ConstantIntOp::create(b, loc, b.getI64Type(), 0);
    Value column = narrow(rest);
    if (sum->factor == 1)
      column = arith::AddIOp::create(b, loc, column, row);
    else if (sum->factor == -1)
      column = arith::SubIOp::create(b, loc, column, row);
    return column;
  }
  // An end that is the greater of two (a prefix and a diagonal) was 1 % slower
  // for all in 32 bits (docs/performance/gpu.md).
  bool isMet = isEnd ? isa_and_nonnull<arith::MinSIOp>(def)
                     : isa_and_nonnull<arith::MaxSIOp>(def);
  if (!isMet && !isa_and_nonnull<arith::SelectOp>(def))
    return {};
  Value x = of(def->getOperand(isMet ? 0 : 1), isEnd);
  Value y = of(def->getOperand(isMet ? 1 : 2), isEnd);
  if (!x || !y)
    return {};
  if (!isMet)
    return arith::SelectOp::create(b, loc, def->getOperand(0), x, y);
  if (isEnd)
    return arith::MinSIOp::create(b, loc, x, y);
  return arith::MaxSIOp::create(b, loc, x, y);
}

/// The keys that a row sees, as columns of the tile: their end and, where it is
/// not the first key, their start.
SmallVector<Value> ReductionKernel::keysOfRow(RowBlock &block, Value row) {
  Value position = rowPoint(block.rowBase, row, block.lastRow).row;
  auto [lower, upper] = mask->emitRow(b, loc, maskUniform, position, numKeys);
  Type i64 = b.getI64Type();
  Value first = arith::ExtSIOp::create(b, loc, i64, block.keyBase);
  ColumnBounds columns(b, loc, row, first, numKeys, block.keyCount);
  bool isNarrow = true;
  auto column = [&](Value key, bool isEnd) -> Value {
    Value narrow = isNarrow ? columns.of(key, isEnd) : Value();
    isNarrow &= bool(narrow);
    if (narrow)
      return narrow;
    Value least = arith::ConstantIntOp::create(b, loc, i64, 0);
    Value most = arith::ConstantIntOp::create(b, loc, i64, keyCols());
    key = min(max(sub(key, first), least), most);
    return arith::TruncIOp::create(b, loc, b.getI32Type(), key);
  };
  Value end = column(upper, /*isEnd=*/true);
  auto least = end.getDefiningOp<arith::MinSIOp>();
  if (!least || !llvm::is_contained(least->getOperands(), block.keyCount))
    end = min(end, block.keyCount);
  if (matchPattern(lower, m_Zero()))
    return {end};
  return {end, column(lower, /*isEnd=*/false)};
}

Value ReductionKernel::liveByMask(RowBlock &block, Value row, Value col) {
  if (!block.tile.masked)
    return {};
  if (!block.words.empty())
    return liveByBits(block, col);
  Value inside = cmp(arith::CmpIPredicate::slt, col, block.keyCount);
  Region &mask = reduction.getMaskBody();
  if (mask.empty())
    return inside;
  if (rowIntervals) {
    SmallVector<Value> ends = keysOfRow(block, row);
    Value live = cmp(arith::CmpIPredicate::slt, col, ends[0]);
    if (ends.size() == 1)
      return live;
    return arith::AndIOp::create(b, loc, live,
                                 cmp(arith::CmpIPredicate::sge, col, ends[1]));
  }
  PointCloner cloner(*this, mask, 0, /*hasKey=*/true,
                     reduction.getCaptureOperands(), pointOf(block, row, col));
  for (auto [sample, element] : llvm::zip_first(block.samples, block.sampled))
    cloner.map(sample.first, element);
  Value live = cloner.get(getYielded(mask).front());
  if (!block.tile.ragged)
    return live;
  return arith::AndIOp::create(b, loc, inside, live);
}

Value ReductionKernel::liveByScore(ValueRange scores, Value liveByMask) {
  if (form.deadIsNatural)
    return liveByMask;
  // -inf in every score is dead as well.
  Value any;
  Value minusInfinity = f32(-std::numeric_limits<float>::infinity());
  for (Value score : scores) {
    Value some = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, score,
                                       minusInfinity);
    any = any ? arith::OrIOp::create(b, loc, any, some).getResult() : some;
  }
  if (!any)
    return liveByMask;
  return liveByMask ? arith::AndIOp::create(b, loc, liveByMask, any).getResult()
                    : any;
}

ReductionKernel::WeightGroup ReductionKernel::groupOf(unsigned component) {
  return {getYielded(monoid.getLift())[numStats() + component],
          factorOf(component)};
}

SmallVector<ReductionKernel::WeightGroup> ReductionKernel::weightGroups() {
  llvm::SmallSetVector<WeightGroup, 4> groups;
  for (unsigned i = 0; i < numComponents(); ++i)
    groups.insert(groupOf(i));
  return groups.takeVector();
}
