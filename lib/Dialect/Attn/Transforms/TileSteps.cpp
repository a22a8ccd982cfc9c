//===- TileSteps.cpp - One key tile enters the state ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A cocycle has a closed form for a whole tile: with c the statistic after it,
// every element's weight is w * r(stat, c), old sums are scaled by r(c_old, c),
// and the sums over keys are a matrix product. Suffix and prefix monoids get
// their weights from a scan of the row. General monoids fold element by
// element.
//
//===----------------------------------------------------------------------===//

#include "TileKernel.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Named rewrites
//===----------------------------------------------------------------------===//

static bool isConstantFloat(Value value,
                            function_ref<bool(const APFloat &)> f) {
  APFloat constant(0.0f);
  return matchPattern(value, m_ConstantFloat(&constant)) && f(constant);
}

/// exp(from - to) or exp2(from - to) on one f32 statistic.
static bool isExponentialOfDifference(Region &rescale, float &base) {
  if (rescale.empty() || getYielded(rescale).size() != 1)
    return false;
  Value root = getYielded(rescale).front();
  Value argument;
  if (auto exp = root.getDefiningOp<math::ExpOp>()) {
    argument = exp.getOperand();
    base = 1.44269504088896340736f; // log2(e)
  } else if (auto exp2 = root.getDefiningOp<math::Exp2Op>()) {
    argument = exp2.getOperand();
    base = 1.0f;
  } else {
    return false;
  }
  auto difference = argument.getDefiningOp<arith::SubFOp>();
  return difference && difference.getLhs() == rescale.getArgument(0) &&
         difference.getRhs() == rescale.getArgument(1);
}

/// max(a, b): commutes with a positive factor.
static bool isMaximum(Region &combine) {
  Operation *root = getYielded(combine).front().getDefiningOp();
  if (!root || !isa<arith::MaximumFOp, arith::MaxNumFOp>(root))
    return false;
  Value a = combine.getArgument(0), b = combine.getArgument(1);
  return (root->getOperand(0) == a && root->getOperand(1) == b) ||
         (root->getOperand(0) == b && root->getOperand(1) == a);
}

void ReductionKernel::analyseForm() {
  if (monoid.getKind() != MonoidKind::cocycle || numStats() != 1 ||
      !cast<TypeAttr>(monoid.getStats()[0]).getValue().isF32())
    return;
  bool startsAtMinusInfinity = isConstantFloat(
      getYielded(monoid.getIdentity()).front(),
      [](const APFloat &x) { return x.isInfinity() && x.isNegative(); });
  form.exponential = startsAtMinusInfinity &&
                     isExponentialOfDifference(monoid.getRescale(), form.base);
  if (!form.exponential)
    return;
  form.dotIsStat =
      getYielded(monoid.getLift()).front() == monoid.getLift().getArgument(0);
  Region &score = reduction.getScoreBody();
  if (!form.dotIsStat || score.empty())
    return;
  Value result = getYielded(score).front();
  form.dotIsStat = result == score.getArgument(0);
  if (form.dotIsStat || !isMaximum(monoid.getCombine()))
    return;
  // s * constant, the constant positive: max(s * k) = max(s) * k.
  auto product = result.getDefiningOp<arith::MulFOp>();
  if (!product)
    return;
  for (auto [dot, factor] : {std::pair(product.getLhs(), product.getRhs()),
                             std::pair(product.getRhs(), product.getLhs())})
    if (dot == score.getArgument(0) &&
        isConstantFloat(factor, [&](const APFloat &x) {
          form.unit = x.convertToFloat();
          return form.unit > 0 && std::isfinite(form.unit);
        })) {
      form.raw = true;
      form.dotIsStat = true;
      return;
    }
  form.unit = 1.0f;
}

//===----------------------------------------------------------------------===//
// Scores and liveness of elements
//===----------------------------------------------------------------------===//

KernelBuilder::Point ReductionKernel::pointOf(RowBlock &block, Value row,
                                              Value col) {
  Point point;
  point.row = add(block.rowBase, row);
  point.key = add(block.keyBase, col);
  point.safeRow = min(point.row, block.lastRow);
  // A full tile has no key out of range.
  point.safeKey = block.tile.masked ? min(point.key, block.lastKey) : point.key;
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
  return llvm::map_to_vector(getYielded(score),
                             [&](Value v) { return cloner.get(v); });
}

Value ReductionKernel::live(RowBlock &block, Value row, Value col) {
  if (!block.tile.masked)
    return {};
  Value inside = cmp(arith::CmpIPredicate::slt, col, block.keyCount);
  Region &mask = reduction.getMaskBody();
  if (mask.empty())
    return inside;
  PointCloner cloner(*this, mask, 0, /*hasKey=*/true,
                     reduction.getCaptureOperands(), pointOf(block, row, col));
  return arith::AndIOp::create(b, loc, inside,
                               cloner.get(getYielded(mask).front()));
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

SmallVector<Value> ReductionKernel::stepRows(RowBlock &block) {
  block.rowBase = toI32(block.firstRow);
  block.keyBase = toI32(block.tile.first);
  block.lastRow = toI32(sub(sq, index(1)));
  if (block.tile.masked) {
    block.keyCount = toI32(sub(numKeys, block.tile.first));
    block.lastKey = toI32(sub(numKeys, index(1)));
  }
  SmallVector<Value> dots;
  for (auto [query, key] : llvm::zip(block.queries, block.keys))
    dots.push_back(tile::DotOp::create(
        b, loc, tileType(schedule.getRows(), schedule.getBlockK()), query, key,
        /*acc=*/Value(), /*scale=*/Value(), /*transpose_rhs=*/true));
  return stepCocycle(block, dots);
}

SmallVector<Value> ReductionKernel::stepCocycle(RowBlock &block,
                                                ArrayRef<Value> dots) {
  int64_t rows = schedule.getRows(), keys = schedule.getBlockK();
  Type scoreTile = tileType(rows, keys), rowTile = tileType(rows, 1);
  Value stat = dots[0], oldStat = block.state[0];
  SmallVector<Value> identity = identityStats();
  if (!form.dotIsStat || block.tile.masked)
    stat = map(stat, scoreTile, [&](Value row, Value col, ValueRange x) {
             Value value = x[0];
             if (!form.dotIsStat) {
               SmallVector<Value> s = scores(block, row, col, x);
               value = call(monoid.getLift(), s).front();
             }
             if (Value alive = live(block, row, col))
               value = select(alive, value, identity[0]);
             return SmallVector<Value>{value};
           }).front();
  Value tileStat =
      reduce(stat, identity, /*ordered=*/false,
             [&](ValueRange x, ValueRange y) { return combine(x, y); })
          .front();
  Value k = f32(form.unit * form.base);
  SmallVector<Value> row =
      map({oldStat, tileStat}, {rowTile, rowTile, rowTile},
          [&](Value, Value, ValueRange x) {
            Value c = combine(x[0], x[1]).front();
            // No key yet: any finite anchor makes every weight 0.
            Value none = arith::CmpFOp::create(
                b, loc, arith::CmpFPredicate::OEQ, c, identity[0]);
            Value anchor = select(none, f32(0.0f), c);
            Value scaled = arith::MulFOp::create(b, loc, anchor, k);
            Value negated = arith::NegFOp::create(b, loc, scaled);
            Value exponent = math::FmaOp::create(b, loc, x[0], k, negated);
            Value rho = math::Exp2Op::create(b, loc, exponent);
            return SmallVector<Value>{c, negated, rho};
          });
  Value weights =
      map({stat, row[1]}, scoreTile, [&](Value, Value, ValueRange x) {
        Value exponent = math::FmaOp::create(b, loc, x[0], k, x[1]);
        return SmallVector<Value>{math::Exp2Op::create(b, loc, exponent)};
      }).front();
  Value sum = rowSum(weights);
  SmallVector<Value> state = {row[0]};
  for (unsigned i = 0, v = 0; i < numComponents(); ++i) {
    Value old = block.state[1 + i];
    if (monoid.getComponent(i) == Component::unit)
      state.push_back(
          map({old, row[2], sum}, rowTile, [&](Value, Value, ValueRange x) {
            return SmallVector<Value>{
                math::FmaOp::create(b, loc, x[0], x[1], x[2])};
          }).front());
    else
      state.push_back(tile::DotOp::create(b, loc, old.getType(), weights,
                                          block.values[v++], old, row[2],
                                          /*transpose_rhs=*/false));
  }
  return state;
}
