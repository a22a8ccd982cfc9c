//===- Distances.cpp - What is the same for pairs that are far apart ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On either side, of rows behind their keys and of rows ahead of them, a number
// is looked at as a function of the distance D, from some D on: it grows by a
// constant, or it is what it is there for all larger D.
//
//===----------------------------------------------------------------------===//

#include "Distances.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace mlir::attn;

/// No number that these are made of comes near the ends of 32 bits.
static constexpr int64_t mostDistance = 1 << 20;

namespace {

/// An integer is rows * row + keys * key + offset of all pairs whose distance
/// is `from` or more; an unknown offset is the same for all of them.
struct Trend {
  int64_t rows = 0, keys = 0, from = 0;
  std::optional<int64_t> offset = {};

  bool isLevel() const { return rows == 0 && keys == 0; }
  bool isOfDistance() const { return rows + keys == 0; }
};

/// Reads the values of a region for rows behind their keys, or ahead.
class TrendReader {
public:
  TrendReader(Value row, Value key, bool isAhead) : sign(isAhead ? -1 : 1) {
    Trend ofRow, ofKey;
    ofRow.rows = ofKey.keys = 1;
    ofRow.offset = ofKey.offset = 0;
    known[row] = ofRow;
    known[key] = ofKey;
  }

  std::optional<Trend> read(Value value) {
    if (auto found = known.find(value); found != known.end())
      return found->second;
    // Floats may be dots; others have the head, or are captured.
    if (isa<BlockArgument>(value))
      return isa<FloatType>(value.getType()) ? std::optional<Trend>()
                                             : std::optional(Trend());
    std::optional<Trend> trend = compute(value.getDefiningOp());
    if (trend && (trend->from > mostDistance ||
                  std::abs(trend->offset.value_or(0)) > mostDistance ||
                  std::abs(trend->rows) > 1 || std::abs(trend->keys) > 1))
      trend.reset();
    return known[value] = trend;
  }

private:
  std::optional<Trend> compute(Operation *op);
  std::optional<Trend> larger(Trend x, Trend y, bool isLargest);
  std::optional<Trend> compare(arith::CmpIOp op, Trend x, const Trend &y);
  /// What a number of a distance grows by with it.
  int64_t slope(const Trend &x) const { return sign * x.rows; }

  int64_t sign;
  llvm::DenseMap<Value, std::optional<Trend>> known;
};

} // namespace

static Trend negated(Trend x) {
  x.rows = -x.rows;
  x.keys = -x.keys;
  if (x.offset)
    x.offset = -*x.offset;
  return x;
}

static Trend sum(const Trend &x, const Trend &y) {
  Trend result;
  result.rows = x.rows + y.rows;
  result.keys = x.keys + y.keys;
  result.from = std::max(x.from, y.from);
  if (x.offset && y.offset)
    result.offset = *x.offset + *y.offset;
  return result;
}

/// The one of a level number and of another that is the larger, or the smaller,
/// of all pairs that are far enough apart.
std::optional<Trend> TrendReader::larger(Trend x, Trend y, bool isLargest) {
  if (x.isLevel())
    std::swap(x, y);
  int64_t from = std::max(x.from, y.from);
  if (x.isLevel()) {
    Trend result;
    result.from = from;
    if (x.offset && y.offset)
      result.offset = isLargest ? std::max(*x.offset, *y.offset)
                                : std::min(*x.offset, *y.offset);
    return result;
  }
  if (!x.isOfDistance() || !y.isLevel() || !x.offset || !y.offset)
    return std::nullopt;
  // Where x, which grows or falls by 1, has come to y.
  bool grows = slope(x) > 0;
  int64_t meets = grows ? *y.offset - *x.offset : *x.offset - *y.offset;
  Trend result = grows == isLargest ? x : y;
  result.from = std::max(from, meets);
  return result;
}

/// Of an order: a number that grows is the larger one in the end.
std::optional<Trend> TrendReader::compare(arith::CmpIOp op, Trend x,
                                          const Trend &y) {
  x = sum(x, negated(y));
  if (!x.isOfDistance() || std::abs(x.rows) != 1 || !x.offset)
    return std::nullopt;
  using Predicate = arith::CmpIPredicate;
  Predicate predicate = op.getPredicate();
  bool asksLess = predicate == Predicate::slt || predicate == Predicate::sle;
  if (!asksLess && predicate != Predicate::sgt && predicate != Predicate::sge)
    return std::nullopt;
  bool isStrict = predicate == Predicate::slt || predicate == Predicate::sgt;
  bool grows = slope(x) > 0, isTrue = grows != asksLess;
  // From where x >= 0, or 1, or the like, of a number that falls: an order that
  // holds in the end may hold of equals, and one that does not, else.
  int64_t meets = grows ? -*x.offset : *x.offset;
  Trend result;
  result.from = std::max(x.from, meets + (isStrict == isTrue));
  result.offset = isTrue;
  return result;
}

std::optional<Trend> TrendReader::compute(Operation *op) {
  if (!op || op->getNumRegions() || op->getNumResults() != 1 ||
      !isMemoryEffectFree(op))
    return std::nullopt;
  APInt constant;
  if (matchPattern(op->getResult(0), m_ConstantInt(&constant))) {
    Trend trend;
    if (constant.getBitWidth() == 1)
      trend.offset = constant.getZExtValue();
    else if (constant.getSignificantBits() <= 32)
      trend.offset = constant.getSExtValue();
    return trend;
  }
  // One side of a condition may settle it.
  bool isTruth = op->getResult(0).getType().isInteger(1);
  if (isTruth && isa<arith::AndIOp, arith::OrIOp>(op))
    for (Value operand : op->getOperands())
      if (std::optional<Trend> x = read(operand);
          x && x->isLevel() && x->offset == int64_t(isa<arith::OrIOp>(op)))
        return x;
  SmallVector<Trend> operands;
  for (Value operand : op->getOperands()) {
    std::optional<Trend> trend = read(operand);
    if (!trend)
      return std::nullopt;
    operands.push_back(*trend);
  }
  if (isa<arith::IndexCastOp, arith::ExtSIOp>(op))
    return operands[0];
  if (isa<arith::AddIOp>(op))
    return sum(operands[0], operands[1]);
  if (isa<arith::SubIOp>(op))
    return sum(operands[0], negated(operands[1]));
  if (isa<arith::MinSIOp, arith::MaxSIOp>(op))
    return larger(operands[0], operands[1], isa<arith::MaxSIOp>(op));
  bool isLevel = llvm::all_of(operands, [](auto &x) { return x.isLevel(); });
  if (isa<math::AbsIOp>(op) && !isLevel) {
    Trend x = operands[0];
    if (!x.isOfDistance() || !x.offset)
      return std::nullopt;
    if (slope(x) < 0)
      x = negated(x);
    x.from = std::max(x.from, -*x.offset);
    return x;
  }
  if (auto compared = dyn_cast<arith::CmpIOp>(op); compared && !isLevel)
    return compare(compared, operands[0], operands[1]);
  if (!isLevel)
    return std::nullopt;
  // The same for all of these pairs.
  Trend result;
  for (const Trend &x : operands)
    result.from = std::max(result.from, x.from);
  if (isTruth && isa<arith::XOrIOp>(op) && operands[0].offset &&
      operands[1].offset)
    result.offset = *operands[0].offset ^ *operands[1].offset;
  return result;
}

namespace {

/// Whether values of a region differ by the distance alone.
class DistanceReader {
public:
  DistanceReader(BlockArgument row, BlockArgument key)
      : key(key), trends(row, key, /*isAhead=*/false) {}

  /// Whether the value differs by the distance; nothing where it does by more.
  std::optional<bool> read(Value value) {
    if (auto found = known.find(value); found != known.end())
      return found->second;
    std::optional<bool> differs = compute(value);
    return known[value] = differs;
  }
  /// Whether what was read is made of a bound of distances, or of elements.
  bool hasBound = false;

private:
  std::optional<bool> compute(Value value);

  BlockArgument key;
  TrendReader trends;
  llvm::DenseMap<Value, std::optional<bool>> known;
};

} // namespace

std::optional<bool> DistanceReader::compute(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value);
      argument && argument.getArgNumber() > key.getArgNumber())
    return false;
  Operation *op = value.getDefiningOp();
  std::optional<Trend> trend = trends.read(value);
  if (trend && trend->isOfDistance() && !trend->isLevel() && trend->from == 0)
    return true;
  if (!op)
    return trend && trend->isLevel() ? std::optional(false) : std::nullopt;
  if (op->getNumRegions() || op->getNumResults() != 1 ||
      !isMemoryEffectFree(op))
    return std::nullopt;
  bool differs = false;
  for (Value operand : op->getOperands()) {
    std::optional<bool> own = read(operand);
    if (!own)
      return std::nullopt;
    differs |= *own;
  }
  hasBound |=
      differs && isa<tensor::ExtractOp, arith::SelectOp, arith::MinSIOp,
                     arith::MaxSIOp, arith::MinimumFOp, arith::MaximumFOp,
                     arith::MinNumFOp, arith::MaxNumFOp>(op);
  return differs;
}

bool mlir::attn::isOfBoundedDistance(Value value, BlockArgument row,
                                     BlockArgument key) {
  DistanceReader reader(row, key);
  return reader.read(value) == true && reader.hasBound;
}

std::optional<FarValue> mlir::attn::findFarValue(Value value, Value row,
                                                 Value key, bool isAhead) {
  std::optional<Trend> trend = TrendReader(row, key, isAhead).read(value);
  if (!trend || !trend->isLevel())
    return std::nullopt;
  return FarValue{trend->from, trend->offset};
}
