//===- TileElements.cpp - Scores and masks of elements -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileElements.h"
#include "TileLists.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::attn;

Point mlir::attn::pointOf(ReductionContext &ctx, RowBlock &block, Value row,
                          Value col) {
  Point point = ctx.rowPoint(block.rowBase, row, block.lastRow);
  point.key = ctx.add(block.keyBase, col);
  // A full tile has no key out of range.
  point.safeKey = point.key;
  if (!block.tile.masked || !block.tile.ragged)
    return point;
  point.safeKey = ctx.min(point.key, block.lastKey);
  if (block.tile.isRagged)
    point.safeKey = ctx.select(block.tile.isRagged, point.safeKey, point.key);
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

/// x times the sign of the factor; an odd function and a product with a uniform
/// value pass it on to where it costs nothing for each element.
static Value withSign(ReductionContext &ctx, Value x) {
  Operation *op = x.getDefiningOp();
  if (auto tanh = dyn_cast_or_null<math::TanhOp>(op))
    return math::TanhOp::create(ctx.b, withSign(ctx, tanh.getOperand()));
  if (auto product = dyn_cast_or_null<arith::MulFOp>(op))
    for (auto [y, factor] : {std::pair(product.getLhs(), product.getRhs()),
                             std::pair(product.getRhs(), product.getLhs())}) {
      if (!factor.getParentRegion()->isProperAncestor(y.getParentRegion()))
        continue;
      OpBuilder outer(ctx.b.getContext());
      outer.setInsertionPointAfterValue(ctx.form.sign);
      Value &signedFactor = ctx.signedFactors[factor];
      if (!signedFactor)
        signedFactor =
            arith::MulFOp::create(outer, ctx.loc, factor, ctx.form.sign);
      return arith::MulFOp::create(ctx.b, y, signedFactor);
    }
  return arith::MulFOp::create(ctx.b, x, ctx.form.sign);
}

SmallVector<Value> mlir::attn::scores(ReductionContext &ctx, RowBlock &block,
                                      Value row, Value col, ValueRange dots) {
  Region &score = ctx.reduction.getScoreBody();
  if (score.empty())
    return SmallVector<Value>(dots);
  Point point = pointOf(ctx, block, row, col);
  if (!ctx.isPartial && takesKeyApart(score, dots.size(), ctx.schedule))
    point.key = ctx.add(groupedBase(ctx.b, block.keyBase), col);
  PointCloner cloner(ctx, score, dots.size(), /*hasKey=*/true,
                     ctx.reduction.getCaptureOperands(), point);
  for (auto [argument, dot] : llvm::zip(score.getArguments(), dots))
    cloner.map(argument, dot);
  for (auto [sample, element] : llvm::zip_first(block.samples, block.sampled))
    cloner.map(sample.first, element);
  for (auto [term, value] :
       llvm::zip_first(block.tile.far, ctx.linear.far.values))
    cloner.map(value, term);
  if (ctx.form.inUnits)
    return {withSign(ctx, cloner.get(ctx.form.inUnits))};
  return llvm::map_to_vector(getYielded(score),
                             [&](Value v) { return cloner.get(v); });
}

Value mlir::attn::liveByMask(ReductionContext &ctx, RowBlock &block, Value row,
                             Value col) {
  if (!block.tile.masked)
    return {};
  if (!block.words.empty())
    return liveByBits(ctx, block, col);
  Value inside = ctx.cmp(arith::CmpIPredicate::slt, col, block.keyCount);
  Region &mask = ctx.reduction.getMaskBody();
  if (mask.empty())
    return inside;
  if (ctx.rowIntervals) {
    // The position of a packed row is no distance from that of the first.
    bool isOffset = !ctx.packsHeads;
    Value position = isOffset
                         ? block.rowBase
                         : ctx.rowPoint(block.rowBase, row, block.lastRow).row;
    auto keys =
        ctx.mask->emitRowColumns(ctx.b, ctx.loc, ctx.maskUniform,
                                 {row, position, isOffset, block.keyBase,
                                  block.keyCount, keyCols(ctx), ctx.numKeys});
    Value live = ctx.cmp(arith::CmpIPredicate::slt, col, keys.end);
    if (!keys.start)
      return live;
    return arith::AndIOp::create(
        ctx.b, live, ctx.cmp(arith::CmpIPredicate::sge, col, keys.start));
  }
  PointCloner cloner(ctx, mask, 0, /*hasKey=*/true,
                     ctx.reduction.getCaptureOperands(),
                     pointOf(ctx, block, row, col));
  for (auto [sample, element] : llvm::zip_first(block.samples, block.sampled))
    cloner.map(sample.first, element);
  Value live = cloner.get(getYielded(mask).front());
  if (!block.tile.ragged)
    return live;
  Value both = arith::AndIOp::create(ctx.b, inside, live);
  return block.tile.isRagged ? ctx.select(block.tile.isRagged, both, live)
                             : both;
}

/// Whether a score is -inf for nothing, as an exponential is.
static bool isNeverMinusInfinity(Value score) {
  Operation *op = score.getDefiningOp();
  return isa_and_nonnull<math::ExpOp, math::Exp2Op, math::AbsFOp>(op);
}

Value mlir::attn::liveByScore(ReductionContext &ctx, ValueRange scores,
                              Value liveByMask) {
  if (ctx.form.deadIsNatural || llvm::any_of(scores, isNeverMinusInfinity))
    return liveByMask;
  // -inf in every score is dead as well.
  Value any;
  Value minusInfinity = ctx.f32(-std::numeric_limits<float>::infinity());
  for (Value score : scores) {
    Value some = arith::CmpFOp::create(ctx.b, arith::CmpFPredicate::UNE, score,
                                       minusInfinity);
    any = any ? arith::OrIOp::create(ctx.b, any, some).getResult() : some;
  }
  if (!any)
    return liveByMask;
  return liveByMask ? arith::AndIOp::create(ctx.b, liveByMask, any).getResult()
                    : any;
}

Value mlir::attn::valueFactor(ReductionContext &ctx, RowBlock &block, Value row,
                              Value col) {
  Region &region = ctx.reduction.getFactorBody();
  Point point = pointOf(ctx, block, row, col);
  if (!ctx.isPartial && takesKeyApart(region, 0, ctx.schedule))
    point.key = ctx.add(groupedBase(ctx.b, block.keyBase), col);
  PointCloner cloner(ctx, region, 0, /*hasKey=*/true,
                     ctx.reduction.getCaptureOperands(), point);
  return cloner.get(getYielded(region).front());
}

WeightGroup mlir::attn::groupOf(ReductionContext &ctx, unsigned component) {
  WeightGroup group = {
      getYielded(ctx.monoid.getLift())[ctx.numStats() + component],
      ctx.factorOf(component), std::nullopt};
  if (ctx.monoid.isShifted(component))
    group.shifted = component;
  return group;
}

SmallVector<WeightGroup> mlir::attn::weightGroups(ReductionContext &ctx) {
  SmallVector<WeightGroup> groups;
  for (unsigned i = 0; i < ctx.numComponents(); ++i)
    if (WeightGroup group = groupOf(ctx, i); !llvm::is_contained(groups, group))
      groups.push_back(group);
  return groups;
}
