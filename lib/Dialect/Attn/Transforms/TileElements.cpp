//===- TileElements.cpp - Scores and masks of elements -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileKernel.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::attn;

KernelBuilder::Point ReductionKernel::pointOf(RowBlock &block, Value row,
                                              Value col) {
  Point point = rowPoint(block.rowBase, row, block.lastRow);
  point.key = add(block.keyBase, col);
  // A full tile has no key out of range.
  point.safeKey = point.key;
  if (!block.tile.masked || !block.tile.ragged)
    return point;
  point.safeKey = min(point.key, block.lastKey);
  if (block.tile.isRagged)
    point.safeKey = select(block.tile.isRagged, point.safeKey, point.key);
  return point;
}

/// Keys that share random words lie in a group of so many.
static constexpr int64_t keysOfGroup = 64;

/// Whether a region, whose key is argument `first` + 3, takes the key's bits
/// apart, as random words do, and tiles are of whole groups of keys.
static bool takesKeyApart(Region &region, unsigned first,
                          ScheduleAttr schedule) {
  return schedule.getBlockK() % keysOfGroup == 0 &&
         llvm::any_of(region.getArgument(first + 3).getUsers(),
                      [](Operation *user) {
                        return isa<arith::ShRUIOp, arith::AndIOp>(user);
                      });
}

/// The first key of a tile of whole groups: said to be a multiple of them, for
/// what shares the words.
static Value groupedBase(OpBuilder &b, Value keyBase) {
  Location loc = keyBase.getLoc();
  Value mask =
      arith::ConstantIntOp::create(b, loc, b.getI32Type(), -keysOfGroup);
  return arith::AndIOp::create(b, loc, keyBase, mask);
}

SmallVector<Value> ReductionKernel::scores(RowBlock &block, Value row,
                                           Value col, ValueRange dots) {
  Region &score = reduction.getScoreBody();
  if (score.empty())
    return SmallVector<Value>(dots);
  Point point = pointOf(block, row, col);
  if (!isPartial && takesKeyApart(score, dots.size(), schedule))
    point.key = add(groupedBase(b, block.keyBase), col);
  PointCloner cloner(*this, score, dots.size(), /*hasKey=*/true,
                     reduction.getCaptureOperands(), point);
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
  if (!block.words.empty())
    return liveByBits(block, col);
  Value inside = cmp(arith::CmpIPredicate::slt, col, block.keyCount);
  Region &mask = reduction.getMaskBody();
  if (mask.empty())
    return inside;
  if (rowIntervals) {
    // The position of a packed row is no distance from that of the first.
    bool isOffset = !packsHeads;
    Value position = isOffset ? block.rowBase
                              : rowPoint(block.rowBase, row, block.lastRow).row;
    auto keys =
        this->mask->emitRowColumns(b, loc, maskUniform,
                                   {row, position, isOffset, block.keyBase,
                                    block.keyCount, keyCols(), numKeys});
    Value live = cmp(arith::CmpIPredicate::slt, col, keys.end);
    if (!keys.start)
      return live;
    return arith::AndIOp::create(
        b, loc, live, cmp(arith::CmpIPredicate::sge, col, keys.start));
  }
  PointCloner cloner(*this, mask, 0, /*hasKey=*/true,
                     reduction.getCaptureOperands(), pointOf(block, row, col));
  for (auto [sample, element] : llvm::zip_first(block.samples, block.sampled))
    cloner.map(sample.first, element);
  Value live = cloner.get(getYielded(mask).front());
  if (!block.tile.ragged)
    return live;
  Value both = arith::AndIOp::create(b, loc, inside, live);
  return block.tile.isRagged ? select(block.tile.isRagged, both, live) : both;
}

/// Whether a score is -inf for nothing, as an exponential is.
static bool isNeverMinusInfinity(Value score) {
  Operation *op = score.getDefiningOp();
  return isa_and_nonnull<math::ExpOp, math::Exp2Op, math::AbsFOp>(op);
}

Value ReductionKernel::liveByScore(ValueRange scores, Value liveByMask) {
  if (form.deadIsNatural || llvm::any_of(scores, isNeverMinusInfinity))
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

Value ReductionKernel::valueFactor(RowBlock &block, Value row, Value col) {
  Region &region = reduction.getFactorBody();
  Point point = pointOf(block, row, col);
  if (!isPartial && takesKeyApart(region, 0, schedule))
    point.key = add(groupedBase(b, block.keyBase), col);
  PointCloner cloner(*this, region, 0, /*hasKey=*/true,
                     reduction.getCaptureOperands(), point);
  return cloner.get(getYielded(region).front());
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
