//===- TileAnchor.cpp - The reference point of exponentials ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Weights of a monoid whose factor is an exponential are exp2(k * stat - k *
// anchor), where the anchor is the row's greatest statistic so far. One fma per
// element does that if k * anchor is rounded once for the row: the rounding is
// the same for all weights of the row, which the quotient does not see. But it
// is 2^-24 of the product: in a row of scores of 10^9 (masked by -1e10 or the
// least finite number, say) all weights would be infinite, or 0. Such rows are
// far; they subtract the anchor before the product. A warp finds out by a vote
// whether it has one, or they have a k of their own; or, where no mask makes
// them, they are done again at the end (TileFarRows.cpp).
//
// Sums are thus held at k * anchor as rounded, of far rows at the anchor
// itself; states that others read or gave are at the statistic in units of the
// score.
//
//===----------------------------------------------------------------------===//

#include "TileAnchor.h"
#include "StateUses.h"
#include "TileElements.h"
#include "TileSteps.h"
#include "TileWarps.h"
#include "attn/Analysis/FewRows.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Rows and elements of a tile
//===----------------------------------------------------------------------===//

/// exp2(k * stat - k * anchor): of an offset -k * anchor in one fma, of an
/// offset -anchor exactly 1 at the anchor.
Value mlir::attn::exponential(ReductionContext &ctx, Value stat, Value offset,
                              Value k, bool isWeight, Value *yielded) {
  Value exponent;
  if (ctx.form.fused)
    exponent = math::FmaOp::create(ctx.b, stat, k, offset);
  else
    exponent = arith::MulFOp::create(
        ctx.b, arith::AddFOp::create(ctx.b, stat, offset), k);
  if (yielded)
    *yielded = exponent;
  // A weight that is rounded to 16 bits may be approximate.
  auto flags = isWeight && ctx.form.shortWeights ? arith::FastMathFlags::afn
                                                 : arith::FastMathFlags::none;
  auto power = math::Exp2Op::create(ctx.b, exponent, flags);
  // Beside the 1 of the row's largest score nothing smaller than a normal
  // number counts, and it would take a CPU a hundred times as long.
  if (!isGpu(ctx))
    power->setAttr(tile::TileDialect::leastPowerName,
                   ctx.b.getI32IntegerAttr(-126));
  return power;
}

void mlir::attn::findFarAnchors(ReductionContext &ctx) {
  constexpr uint32_t exponents = 0x7f800000, one = 0x3f800000;
  auto powerBelow = [&](Value x) -> Value {
    Value bits = ctx.b.createOrFold<arith::BitcastOp>(ctx.b.getI32Type(), x);
    return ctx.b.createOrFold<arith::AndIOp>(bits, ctx.i32(exponents));
  };
  auto number = [&](Value bits) {
    return ctx.b.createOrFold<arith::BitcastOp>(ctx.b.getF32Type(), bits);
  };
  uint32_t exponent = isF16(ctx) ? 27 : 29;
  Value power = powerBelow(scaleToBase(ctx));
  // Where T is beyond f32, no anchor is far.
  Value bits = ctx.b.createOrFold<arith::SubIOp>(
      ctx.i32(int32_t(2 * one + (exponent << 23))), power);
  ctx.form.farAnchor = number(
      ctx.b.createOrFold<arith::MinUIOp>(bits, ctx.i32(int32_t(exponents))));
  Value unit = ctx.form.unit ? powerBelow(ctx.form.unit) : power;
  Value small = ctx.b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::slt,
                                                  power, ctx.i32(one));
  ctx.form.farK =
      number(ctx.b.createOrFold<arith::SelectOp>(small, ctx.i32(one), unit));
  Value least = ctx.f32(-std::numeric_limits<float>::max());
  Value most = ctx.b.createOrFold<arith::NegFOp>(ctx.form.farAnchor);
  // It is finite, and so is its product with q, whether that is above 1 or
  // below.
  if (!ctx.form.redoesFar)
    most = ctx.b.createOrFold<arith::DivFOp>(least, ctx.form.farK);
  ctx.form.leastAnchor = ctx.b.createOrFold<arith::MaximumFOp>(most, least);
}

Value mlir::attn::isFar(ReductionContext &ctx, Value anchor, bool orAt) {
  auto predicate = orAt ? arith::CmpFPredicate::OGE : arith::CmpFPredicate::OGT;
  return arith::CmpFOp::create(ctx.b, predicate,
                               math::AbsFOp::create(ctx.b, anchor),
                               ctx.form.farAnchor);
}

/// Whether rows that are far have a k of their own instead of another way to
/// their weights: a warpgroup is done with that before a branch is taken (5 %
/// of the cycles at 64 channels for the branch, docs/performance/gpu.md). Not
/// in linear tiles, whose scores are never whole; nor in tiles of warps, which
/// have no registers for it; nor for weights of f16 where q may be half of k,
/// which leaves neighbours of the anchor too much.
static bool rowsHaveK(const ReductionContext &ctx, const KeyTile &tile) {
  APFloat k(0.0f);
  bool isFine = !isF16(ctx) || !ctx.form.unit ||
                (matchPattern(ctx.form.scaleLog2, m_ConstantFloat(&k)) &&
                 k.convertToFloat() < 1.0f);
  // On CPUs a branch costs f32 3 %, and a row's k bf16 2 %.
  bool isFast =
      isGpu(ctx)
          ? ctx.target.hasRoles() &&
                (ctx.schedule.getRows() == ctx.target.productShape().m ||
                 ::attn::rowsAreHalf(ctx.schedule.getBlockQ(),
                                     ctx.schedule.getRows(), ctx.target) ||
                 warpsHaveKeys(ctx) ||
                 ::attn::rowsAreColumns(ctx.schedule.getRows(),
                                        ctx.schedule.getBlockV(), ctx.target))
          : !ctx.form.shortWeights;
  return isFast && !tile.linear && isFine;
}

/// The same where rows that are far are done again: one that stays below the
/// least anchor, or comes to be above the greatest, has weights that are
/// nothing until then.
static Value emitNearAnchor(ReductionContext &ctx, Value old, Value stat,
                            Value rest, SmallVectorImpl<Value> &results) {
  Value k = scaleToBase(ctx);
  auto scaled = [&](Value x) -> Value {
    return arith::MulFOp::create(ctx.b, x, k);
  };
  // ptxas starts on the exponentials earlier than after a maximum.
  Value isNear = arith::CmpFOp::create(ctx.b, arith::CmpFPredicate::OGT, stat,
                                       ctx.form.leastAnchor);
  Value own = arith::NegFOp::create(ctx.b, scaled(stat));
  Value least = arith::NegFOp::create(ctx.b, scaled(ctx.form.leastAnchor));
  Value offset = ctx.select(isNear, own, least);
  // Sums of a row below the least anchor are at that. Its neighbours above are
  // so far off that this is nothing, but to f16.
  Value before = scaled(old);
  if (isF16(ctx))
    before =
        arith::MaximumFOp::create(ctx.b, before, scaled(ctx.form.leastAnchor));
  Value moved = arith::AddFOp::create(ctx.b, before, offset);
  results.push_back(math::Exp2Op::create(ctx.b, moved));
  // What does not wait for the statistic comes before the selection: ALiBi
  // takes 0.9 % of the cycles less.
  if (rest)
    offset = ctx.select(isNear, math::FmaOp::create(ctx.b, rest, k, own),
                        math::FmaOp::create(ctx.b, rest, k, least));
  results.push_back(offset);
  return moved;
}

bool mlir::attn::anchorsLate(ReductionContext &ctx) {
  return ctx.form.exponential && ctx.form.fused && !ctx.form.redoesFar &&
         !ctx.monoid.hasShift() && ctx.reduction.getRelaxedMaximum() &&
         ::attn::keysAreTwoSlots(ctx.schedule.getRows(),
                                 ctx.schedule.getBlockK(),
                                 ctx.schedule.getBlockV(), ctx.target) &&
         anchorIsFree(ctx.reduction, ctx.monoid);
}

/// Within a map over rows: the anchor for sums at `old`, where `stat` is the
/// row's greatest statistic. Of a row that is far, statistics that differ at
/// all are further apart; and weights of f16 of one that is near may be off by
/// 2^8 already.
static Value followLate(ReductionContext &ctx, Value old, Value stat) {
  const float most = isF16(ctx) ? 4.0f : 8.0f; // an exponent of 2
  Value ahead = arith::MulFOp::create(
      ctx.b, arith::SubFOp::create(ctx.b, stat, old), scaleToBase(ctx));
  Value isLate = arith::CmpFOp::create(ctx.b, arith::CmpFPredicate::OGT, ahead,
                                       ctx.f32(most));
  return ctx.select(isLate, stat, old);
}

/// Within a map over rows: the factor of the old sums and the offset of the
/// tile's exponents, exp2(stat * k + offset), for the new statistic `stat`; and
/// whether the row is far, or its k. Returns the exponent of the factor.
static Value emitAnchor(ReductionContext &ctx, RowBlock &block, Value row,
                        Value old, Value stat,
                        SmallVectorImpl<Value> &results) {
  Value k = scaleToBase(ctx);
  // The row's part of the scores of a linear tile, that of the first key.
  Value rest;
  if (block.tile.linear)
    rest = scores(ctx, block, row, ctx.i32(0), ctx.f32(0.0f)).front();
  if (ctx.form.redoesFar)
    return emitNearAnchor(ctx, old, stat, rest, results);
  bool hasK = ctx.form.fused && rowsHaveK(ctx, block.tile);
  // No key yet: any finite anchor makes every weight 0.
  Value anchor;
  if (hasK) // one instruction
    anchor = arith::MaximumFOp::create(ctx.b, stat, ctx.form.leastAnchor);
  else
    anchor = ctx.select(ctx.isIdentity(stat), ctx.f32(0.0f), stat);
  if (!ctx.form.fused) {
    Value offset = arith::NegFOp::create(ctx.b, anchor), moved;
    results.push_back(
        exponential(ctx, old, offset, k, /*isWeight=*/false, &moved));
    results.push_back(offset);
    return moved;
  }
  Value far = isFar(ctx, anchor);
  if (hasK)
    k = ctx.select(far, ctx.form.farK, k);
  Value scaled = arith::MulFOp::create(ctx.b, anchor, k);
  Value offset = arith::NegFOp::create(ctx.b, scaled);
  // The old offset was rounded too: the difference of two products is 0, and
  // the factor 1, for a row whose maximum stays, however many tiles come. An
  // fma leaves what the product lost.
  Value before = arith::MulFOp::create(ctx.b, old, k);
  Value moved = arith::AddFOp::create(ctx.b, before, offset);
  results.push_back(math::Exp2Op::create(ctx.b, moved));
  if (rest)
    offset = math::FmaOp::create(ctx.b, rest, k, offset);
  results.push_back(offset);
  if (hasK) {
    results.push_back(k);
    return moved;
  }
  // Where a row far below 0 comes near, the rounding of its old offset is lost
  // from the factor of the old sums: 2^-64 of the new ones at most where f32
  // and bf16 are far, but not f16.
  if (isF16(ctx)) {
    Value some = arith::CmpFOp::create(ctx.b, arith::CmpFPredicate::UNE, old,
                                       ctx.identityStats()[0]);
    some = arith::AndIOp::create(ctx.b, some, isFar(ctx, old));
    far = arith::OrIOp::create(ctx.b, far, some);
  }
  results.push_back(far);
  return moved;
}

/// Where the factor is 0, the old sums times any finite number are nothing.
static Value finiteMove(ReductionContext &ctx, Value moved) {
  return arith::MaxNumFOp::create(ctx.b, moved, ctx.f32(-1024.0f));
}

/// Per row: the new statistics, the factors of the old sums and, for an
/// exponential, the exponent's offset.
RowFactors mlir::attn::rescaleRows(ReductionContext &ctx, RowBlock &block,
                                   ArrayRef<Value> tileStats) {
  unsigned n = ctx.numStats();
  ArrayRef<Value> oldStats = ArrayRef(block.state).take_front(n);
  SmallVector<Value> inputs(oldStats);
  inputs.append(tileStats.begin(), tileStats.end());
  SmallVector<Type> types;
  for (Value stat : oldStats)
    types.push_back(stat.getType());
  types.append(ctx.numFactors(), rowTile(ctx));
  if (ctx.form.exponential)
    types.push_back(rowTile(ctx));
  bool hasK = ctx.form.fused && rowsHaveK(ctx, block.tile);
  bool tellsFar = ctx.form.exponential && ctx.form.fused && !ctx.form.redoesFar;
  if (tellsFar)
    types.push_back(hasK ? rowTile(ctx)
                         : Type(ctx.tileType(ctx.schedule.getRows(), 1,
                                             ctx.b.getI1Type())));
  if (ctx.form.distances)
    types.push_back(rowTile(ctx));
  SmallVector<Value> rows =
      ctx.map(inputs, types, [&](Value row, Value, ValueRange x) {
        ValueRange old = x.take_front(n);
        SmallVector<Value> added(x.drop_front(n));
        if (block.tile.linear)
          added = scores(ctx, block, row, ctx.i32(0), added.front());
        SmallVector<Value> results = combineStats(ctx, old, added);
        if (ctx.form.anchorsLate)
          results[0] = followLate(ctx, old[0], results[0]);
        if (ctx.form.exponential) {
          Value moved =
              emitAnchor(ctx, block, row, old[0], results[0], results);
          if (ctx.form.distances)
            results.push_back(finiteMove(ctx, moved));
          return results;
        }
        results.append(ctx.rescale(old, results));
        return results;
      });
  RowFactors result;
  result.stats.assign(rows.begin(), rows.begin() + n);
  ArrayRef<Value> rest = ArrayRef(rows).drop_front(n);
  result.factors.append(rest.begin(), rest.begin() + ctx.numFactors());
  rest = rest.drop_front(ctx.numFactors());
  if (ctx.form.exponential)
    result.offset = rest[0];
  if (tellsFar)
    (hasK ? result.k : result.far) = rest[1];
  if (ctx.form.distances)
    result.moved = rest.back();
  return result;
}

void mlir::attn::anchorFarRows(ReductionContext &ctx, RowBlock &block,
                               RowFactors &row, Value &stat) {
  Value &rowFactor = row.factors.front(); // an exponential has no other
  Value k = scaleToBase(ctx);
  Value some = tile::AnyOp::create(ctx.b, ctx.b.getI1Type(), row.far,
                                   /*by_rows=*/true);
  SmallVector<Type> types = {stat.getType(), rowFactor.getType(),
                             row.offset.getType()};
  if (row.moved)
    types.push_back(row.moved.getType());
  auto anchored = [&]() -> SmallVector<Value> {
    Value zero = ctx.f32(0.0f);
    Type flags = row.far.getType(), rows = rowTile(ctx);
    SmallVector<Value> inputs = {block.state[0], row.stats[0], rowFactor,
                                 row.offset};
    SmallVector<Type> types = {rows, rows, rows, flags, rows};
    if (row.moved) {
      inputs.push_back(row.moved);
      types.push_back(rows);
    }
    SmallVector<Value> own =
        ctx.map(inputs, types, [&](Value, Value, ValueRange x) {
          Value old = x[0], now = x[1];
          auto parts = [&](Value anchor) {
            Value none = ctx.isIdentity(anchor);
            Value scaled = arith::MulFOp::create(ctx.b, anchor, k);
            Value far = ctx.select(
                none, arith::ConstantIntOp::create(ctx.b, ctx.b.getI1Type(), 0),
                isFar(ctx, anchor));
            Value isPoint = arith::OrIOp::create(ctx.b, none, far);
            return std::array<Value, 3>{far, ctx.select(isPoint, zero, scaled),
                                        ctx.select(far, anchor, zero)};
          };
          auto [oldFar, oldProduct, oldAnchor] = parts(old);
          auto [far, product, anchor] = parts(now);
          Value moved = math::FmaOp::create(
              ctx.b, arith::SubFOp::create(ctx.b, oldAnchor, anchor), k,
              arith::SubFOp::create(ctx.b, oldProduct, product));
          Value factor = ctx.select(ctx.isIdentity(old), zero,
                                    math::Exp2Op::create(ctx.b, moved));
          Value either = arith::OrIOp::create(ctx.b, oldFar, far);
          // For each row, or it would be held in a register all the way to
          // here.
          Value inverse = ctx.f32(1.0f);
          if (block.tile.linear)
            inverse = arith::DivFOp::create(
                ctx.b, ctx.f32(ctx.form.base),
                ctx.select(far, ctx.linear.scaleLog2, ctx.f32(ctx.form.base)));
          SmallVector<Value> results = {
              anchor, ctx.select(either, factor, x[2]),
              ctx.select(far, zero, x[3]), far, inverse};
          if (row.moved)
            results.push_back(ctx.select(
                either,
                ctx.select(ctx.isIdentity(old), zero, finiteMove(ctx, moved)),
                x[4]));
          return results;
        });
    Value shifted =
        ctx.map({stat, own[0], own[3], own[4]}, {stat.getType()},
                [&](Value row, Value, ValueRange x) -> SmallVector<Value> {
                  Value score = x[0];
                  if (block.tile.linear)
                    score = scores(ctx, block, row, ctx.i32(0), score).front();
                  Value distance = arith::SubFOp::create(ctx.b, score, x[1]);
                  // In units of a linear tile's product.
                  if (block.tile.linear)
                    distance = arith::MulFOp::create(ctx.b, distance, x[3]);
                  return {ctx.select(x[2], distance, x[0])};
                })
            .front();
    SmallVector<Value> results = {shifted, own[1], own[2]};
    if (row.moved)
      results.push_back(own[5]);
    return results;
  };
  SmallVector<Value> chosen = choose(ctx, some, types, anchored, [&] {
    SmallVector<Value> results = {stat, rowFactor, row.offset};
    if (row.moved)
      results.push_back(row.moved);
    return results;
  });
  stat = chosen[0];
  rowFactor = chosen[1];
  row.offset = chosen[2];
  if (row.moved)
    row.moved = chosen[3];
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

/// Within a map: the statistic that a row starts with, in units of the score.
static Value initialStat(ReductionContext &ctx, Value row) {
  Region &init = ctx.reduction.getInitBody();
  PointCloner cloner(ctx, init, 0, /*hasKey=*/false,
                     ctx.reduction.getCaptureOperands(),
                     ctx.rowPoint(ctx.rowBase(ctx.row0), row, ctx.lastRow()));
  Value stat = cloner.get(getYielded(init)[0]);
  if (!ctx.split)
    return stat;
  Value first = ctx.cmp(arith::CmpIPredicate::eq, ctx.split, ctx.index(0));
  return ctx.select(first, stat, ctx.identityStats()[0]);
}

/// Within a map: whether a statistic in units of the dot stands for one that
/// the row started with and that lies beyond what these can hold.
static Value isLargest(ReductionContext &ctx, Value stat) {
  return arith::CmpFOp::create(ctx.b, arith::CmpFPredicate::OEQ,
                               math::AbsFOp::create(ctx.b, stat),
                               ctx.f32(std::numeric_limits<float>::max()));
}

Value mlir::attn::inScoreUnits(ReductionContext &ctx, Value stat, Value row) {
  if (!ctx.form.unit)
    return stat;
  Value score = arith::MulFOp::create(ctx.b, stat, ctx.form.unit);
  score = ctx.select(ctx.isIdentity(stat), stat, score);
  if (ctx.reduction.getInitBody().empty())
    return score;
  // One near the largest number may round beyond it.
  Value isInfinite = arith::CmpFOp::create(
      ctx.b, arith::CmpFPredicate::OEQ, math::AbsFOp::create(ctx.b, score),
      ctx.f32(std::numeric_limits<float>::infinity()));
  Value isInitial =
      arith::OrIOp::create(ctx.b, isLargest(ctx, stat), isInfinite);
  return ctx.select(isInitial, initialStat(ctx, row), score);
}

/// Within a map: what sums at the reference point of `stat`, as they are held
/// here, are multiplied by to have it at `score`, which `stat` stands for; an
/// exponent of 2. It is what the products of stat with k and, where sums are at
/// the statistic as rounded, with the unit are rounded by, and those are exact
/// to twice the precision. That k is rounded itself is nothing: all differences
/// of scores are. Rows far from 0 have nothing to tell the points apart by.
static Value gapOfAnchor(ReductionContext &ctx, Value score, Value stat) {
  if (!ctx.form.fused && !ctx.form.unit)
    return ctx.f32(0.0f);
  auto residue = [&](Value x, Value y, Value product) -> Value {
    return math::FmaOp::create(ctx.b, x, y,
                               arith::NegFOp::create(ctx.b, product));
  };
  Value k = scaleToBase(ctx);
  Value t = arith::MulFOp::create(ctx.b, stat, k);
  Value gap = ctx.f32(0.0f);
  if (ctx.form.fused)
    gap = arith::NegFOp::create(ctx.b, residue(stat, k, t));
  if (ctx.form.unit && !ctx.form.atMaximum)
    gap = math::FmaOp::create(ctx.b, residue(stat, ctx.form.unit, score),
                              ctx.f32(ctx.form.base), gap);
  Value none =
      arith::OrIOp::create(ctx.b, isFar(ctx, stat), ctx.isIdentity(stat));
  none = arith::OrIOp::create(ctx.b, none, isLargest(ctx, stat));
  return ctx.select(none, ctx.f32(0.0f), gap);
}

/// The state with each component times a factor of its row, where all exponents
/// have grown by `gap`; distances times `before` and then times `behind`.
static SmallVector<Value> moveComponents(ReductionContext &ctx,
                                         ValueRange state, Value factor,
                                         Value gap, float before,
                                         float behind) {
  unsigned n = ctx.numStats();
  SmallVector<Value> moved = {state[0]};
  for (auto [i, component] : llvm::enumerate(state.drop_front())) {
    SmallVector<Value> inputs = {component, factor};
    if (ctx.form.isDistance(i))
      inputs.append({state[n + ctx.form.distances->ones], gap});
    auto move = [&](Value, Value, ValueRange x) -> SmallVector<Value> {
      auto scaled = [&](Value sum, float by) -> Value {
        return arith::MulFOp::create(ctx.b, sum, ctx.f32(by));
      };
      Value sum = x[0];
      if (x.size() > 2)
        sum =
            scaled(math::FmaOp::create(ctx.b, x[2], x[3], scaled(sum, before)),
                   behind);
      return {arith::MulFOp::create(ctx.b, sum, x[1])};
    };
    moved.push_back(ctx.map(inputs, component.getType(), move).front());
  }
  return moved;
}

SmallVector<Value> mlir::attn::fromExponents(ReductionContext &ctx,
                                             ValueRange state) {
  SmallVector<Value> distances(state);
  for (auto [i, sum] :
       llvm::enumerate(MutableArrayRef(distances).drop_front(ctx.numStats())))
    if (ctx.form.isDistance(i))
      sum = ctx.map({sum}, {sum.getType()},
                    [&](Value, Value, ValueRange x) -> SmallVector<Value> {
                      return {arith::MulFOp::create(
                          ctx.b, x[0], ctx.f32(1.0f / ctx.form.base))};
                    })
                .front();
  return distances;
}

SmallVector<Value> mlir::attn::fromReferencePoint(ReductionContext &ctx,
                                                  ValueRange state) {
  if (!ctx.form.fused && !ctx.form.unit && !ctx.form.distances)
    return llvm::to_vector(state);
  Type rowType = state[0].getType();
  SmallVector<Type> types(3, rowType);
  SmallVector<Value> row =
      ctx.map(state[0], types, [&](Value, Value, ValueRange x) {
        Value stat = x[0];
        if (ctx.form.unit) {
          constexpr float most = std::numeric_limits<float>::max();
          Value held = arith::DivFOp::create(ctx.b, stat, ctx.form.unit);
          held = arith::MaximumFOp::create(ctx.b, held, ctx.f32(-most));
          held = arith::MinimumFOp::create(ctx.b, held, ctx.f32(most));
          stat = ctx.select(ctx.isIdentity(stat), stat, held);
        }
        Value gap = arith::NegFOp::create(ctx.b, gapOfAnchor(ctx, x[0], stat));
        return SmallVector<Value>{stat, math::Exp2Op::create(ctx.b, gap), gap};
      });
  SmallVector<Value> held =
      moveComponents(ctx, state, row[1], row[2], ctx.form.base, 1.0f);
  held[0] = row[0];
  return held;
}

SmallVector<Value> mlir::attn::toReferencePoint(ReductionContext &ctx,
                                                ValueRange state) {
  Type rowType = state[0].getType();
  if (!ctx.form.fused && (!ctx.form.unit || ctx.form.atMaximum)) {
    // Sums are there; the statistic is in units of scores wherever parts meet.
    SmallVector<Value> exact = fromExponents(ctx, state);
    auto inUnits = [&](Value row, Value, ValueRange x) -> SmallVector<Value> {
      return {inScoreUnits(ctx, x[0], row)};
    };
    if (ctx.form.unit)
      exact[0] = ctx.map(state[0], rowType, inUnits).front();
    return exact;
  }
  SmallVector<Type> types(3, rowType);
  SmallVector<Value> row =
      ctx.map(state[0], types, [&](Value row, Value, ValueRange x) {
        Value score = inScoreUnits(ctx, x[0], row);
        Value gap = gapOfAnchor(ctx, score, x[0]);
        return SmallVector<Value>{score, math::Exp2Op::create(ctx.b, gap), gap};
      });
  SmallVector<Value> exact =
      moveComponents(ctx, state, row[1], row[2], 1.0f, 1.0f / ctx.form.base);
  exact[0] = row[0];
  return exact;
}
