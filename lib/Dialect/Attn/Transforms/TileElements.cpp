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

Value ReductionKernel::liveByMask(RowBlock &block, Value row, Value col) {
  if (!block.tile.masked)
    return {};
  Value inside = cmp(arith::CmpIPredicate::slt, col, block.keyCount);
  Region &mask = reduction.getMaskBody();
  if (mask.empty())
    return inside;
  if (rowIntervals) {
    Value position = rowPoint(block.rowBase, row, block.lastRow).row;
    auto [lower, upper] =
        this->mask->emitRow(b, loc, maskUniform, position, numKeys);
    // As columns of the tile.
    Type i64 = b.getI64Type();
    Value first = arith::ExtSIOp::create(b, loc, i64, block.keyBase);
    auto column = [&](Value key) -> Value {
      Value least = arith::ConstantIntOp::create(b, loc, i64, 0);
      Value most = arith::ConstantIntOp::create(b, loc, i64, keyCols());
      key = min(max(sub(key, first), least), most);
      return arith::TruncIOp::create(b, loc, b.getI32Type(), key);
    };
    Value end = min(column(upper), block.keyCount);
    Value live = cmp(arith::CmpIPredicate::slt, col, end);
    if (matchPattern(lower, m_Zero()))
      return live;
    return arith::AndIOp::create(
        b, loc, live, cmp(arith::CmpIPredicate::sge, col, column(lower)));
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

/// Distinct weights of the monoid: components whose weight is one value of
/// the lift region share it, and its tile.
SmallVector<Value> ReductionKernel::weightGroups() {
  llvm::SmallSetVector<Value, 4> groups;
  for (Value weight : getYielded(monoid.getLift()).drop_front(numStats()))
    groups.insert(weight);
  return groups.takeVector();
}
