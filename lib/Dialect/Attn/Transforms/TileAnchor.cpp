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

#include "TileKernel.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Rows and elements of a tile
//===----------------------------------------------------------------------===//

/// exp2(k * stat - k * anchor): of an offset -k * anchor in one fma, of an
/// offset -anchor exactly 1 at the anchor.
Value ReductionKernel::exponential(Value stat, Value offset, Value k,
                                   bool isWeight) {
  Value exponent;
  if (form.fused)
    exponent = math::FmaOp::create(b, loc, stat, k, offset);
  else
    exponent = arith::MulFOp::create(
        b, loc, arith::AddFOp::create(b, loc, stat, offset), k);
  // A weight that is rounded to 16 bits may be approximate.
  auto flags = isWeight && form.shortWeights ? arith::FastMathFlags::afn
                                             : arith::FastMathFlags::none;
  auto power = math::Exp2Op::create(b, loc, exponent, flags);
  // Beside the 1 of the row's largest score nothing smaller than a normal
  // number counts, and it would take a CPU a hundred times as long.
  if (!isGpu())
    power->setAttr(tile::TileDialect::leastPowerName,
                   b.getI32IntegerAttr(-126));
  return power;
}

/// Where anchors begin to be far from 0, a power of two T: the rounding of an
/// anchor's product with k, 2^-24 of it, would take the weights of larger ones
/// out of the range of what holds them. T times 2^floor(log2(k)) is 2^29, of
/// f16 2^27: weights of near rows are off by 2^32 at most, together. And
/// `farK`, the k of far rows, a power of two q: their products are exact, and
/// any other score is 0 beside their anchor's. No finite score's product with q
/// is infinite, for q is at most the score's `unit`, or 1; and float32 knows no
/// two far scores so close that q would let both count. T itself has an exact
/// product, so that scores next to each other on both sides of T are told apart
/// as well: by 2^64, of k above 1 by 2^16 at least.
void ReductionKernel::findFarAnchors() {
  constexpr uint32_t exponents = 0x7f800000, one = 0x3f800000;
  auto powerBelow = [&](Value x) -> Value {
    Value bits = b.createOrFold<arith::BitcastOp>(loc, b.getI32Type(), x);
    return b.createOrFold<arith::AndIOp>(loc, bits, i32(exponents));
  };
  auto number = [&](Value bits) {
    return b.createOrFold<arith::BitcastOp>(loc, b.getF32Type(), bits);
  };
  uint32_t exponent = isF16() ? 27 : 29;
  Value power = powerBelow(scaleToBase());
  // Where T is beyond f32, no anchor is far.
  Value bits = b.createOrFold<arith::SubIOp>(
      loc, i32(int32_t(2 * one + (exponent << 23))), power);
  form.farAnchor = number(
      b.createOrFold<arith::MinUIOp>(loc, bits, i32(int32_t(exponents))));
  Value unit = form.unit ? powerBelow(form.unit) : power;
  Value small = b.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::slt,
                                              power, i32(one));
  form.farK =
      number(b.createOrFold<arith::SelectOp>(loc, small, i32(one), unit));
  Value least = f32(-std::numeric_limits<float>::max());
  Value most = b.createOrFold<arith::NegFOp>(loc, form.farAnchor);
  // It is finite, and so is its product with q, whether that is above 1 or
  // below.
  if (!form.redoesFar)
    most = b.createOrFold<arith::DivFOp>(loc, least, form.farK);
  form.leastAnchor = b.createOrFold<arith::MaximumFOp>(loc, most, least);
}

/// Whether an anchor is far from 0, or `orAt` the limit.
Value ReductionKernel::isFar(Value anchor, bool orAt) {
  auto predicate = orAt ? arith::CmpFPredicate::OGE : arith::CmpFPredicate::OGT;
  return arith::CmpFOp::create(
      b, loc, predicate, math::AbsFOp::create(b, loc, anchor), form.farAnchor);
}

/// Whether rows that are far have a k of their own instead of another way to
/// their weights: a warpgroup is done with that before a branch is taken (5 %
/// of the cycles at 64 channels for the branch, docs/performance/gpu.md). Not
/// in linear tiles, whose scores are never whole; nor in tiles of warps, which
/// have no registers for it; nor for weights of f16 where q may be half of k,
/// which leaves neighbours of the anchor too much.
bool ReductionKernel::rowsHaveK(const KeyTile &tile) const {
  APFloat k(0.0f);
  bool isFine = !isF16() || !form.unit ||
                (matchPattern(form.scaleLog2, m_ConstantFloat(&k)) &&
                 k.convertToFloat() < 1.0f);
  // On CPUs a branch costs f32 3 %, and a row's k bf16 2 %.
  bool isFast = isGpu() ? target.hasRoles() &&
                              schedule.getRows() == target.productShape().m
                        : !form.shortWeights;
  return isFast && !tile.linear && isFine;
}

/// The same where rows that are far are done again: one that stays below the
/// least anchor, or comes to be above the greatest, has weights that are
/// nothing until then.
void ReductionKernel::emitNearAnchor(Value old, Value stat, Value rest,
                                     SmallVectorImpl<Value> &results) {
  Value k = scaleToBase();
  auto scaled = [&](Value x) -> Value {
    return arith::MulFOp::create(b, loc, x, k);
  };
  // ptxas starts on the exponentials earlier than after a maximum.
  Value isNear = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, stat,
                                       form.leastAnchor);
  Value offset =
      select(isNear, arith::NegFOp::create(b, loc, scaled(stat)),
             arith::NegFOp::create(b, loc, scaled(form.leastAnchor)));
  // Sums of a row below the least anchor are at that. Its neighbours above are
  // so far off that this is nothing, but to f16.
  Value before = scaled(old);
  if (isF16())
    before =
        arith::MaximumFOp::create(b, loc, before, scaled(form.leastAnchor));
  results.push_back(math::Exp2Op::create(
      b, loc, arith::AddFOp::create(b, loc, before, offset)));
  if (rest)
    offset = math::FmaOp::create(b, loc, rest, k, offset);
  results.push_back(offset);
}

/// Within a map over rows: the factor of the old sums and the offset of the
/// tile's exponents, exp2(stat * k + offset), for the new statistic `stat`; and
/// whether the row is far, or its k.
void ReductionKernel::emitAnchor(RowBlock &block, Value row, Value old,
                                 Value stat, SmallVectorImpl<Value> &results) {
  Value k = scaleToBase();
  // The row's part of the scores of a linear tile, that of the first key.
  Value rest;
  if (block.tile.linear)
    rest = scores(block, row, i32(0), f32(0.0f)).front();
  if (form.redoesFar)
    return emitNearAnchor(old, stat, rest, results);
  bool hasK = form.fused && rowsHaveK(block.tile);
  // No key yet: any finite anchor makes every weight 0.
  Value anchor;
  if (hasK) // one instruction
    anchor = arith::MaximumFOp::create(b, loc, stat, form.leastAnchor);
  else
    anchor = select(isIdentity(stat), f32(0.0f), stat);
  if (!form.fused) {
    Value offset = arith::NegFOp::create(b, loc, anchor);
    results.push_back(exponential(old, offset, k, /*isWeight=*/false));
    results.push_back(offset);
    return;
  }
  Value far = isFar(anchor);
  if (hasK)
    k = select(far, form.farK, k);
  Value scaled = arith::MulFOp::create(b, loc, anchor, k);
  Value offset = arith::NegFOp::create(b, loc, scaled);
  // The old offset was rounded too: the difference of two products is 0, and
  // the factor 1, for a row whose maximum stays, however many tiles come. An
  // fma leaves what the product lost.
  Value before = arith::MulFOp::create(b, loc, old, k);
  results.push_back(math::Exp2Op::create(
      b, loc, arith::AddFOp::create(b, loc, before, offset)));
  if (rest)
    offset = math::FmaOp::create(b, loc, rest, k, offset);
  results.push_back(offset);
  if (hasK) {
    results.push_back(k);
    return;
  }
  // Where a row far below 0 comes near, the rounding of its old offset is lost
  // from the factor of the old sums: 2^-64 of the new ones at most where f32
  // and bf16 are far, but not f16.
  if (isF16()) {
    Value some = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, old,
                                       identityStats()[0]);
    some = arith::AndIOp::create(b, loc, some, isFar(old));
    far = arith::OrIOp::create(b, loc, far, some);
  }
  results.push_back(far);
}

/// Per row: the new statistics, the factors of the old sums and, for an
/// exponential, the exponent's offset.
ReductionKernel::RowFactors
ReductionKernel::rescaleRows(RowBlock &block, ArrayRef<Value> tileStats) {
  unsigned n = numStats();
  ArrayRef<Value> oldStats = ArrayRef(block.state).take_front(n);
  SmallVector<Value> inputs(oldStats);
  inputs.append(tileStats.begin(), tileStats.end());
  SmallVector<Type> types;
  for (Value stat : oldStats)
    types.push_back(stat.getType());
  types.append(numFactors(), rowTile());
  if (form.exponential)
    types.push_back(rowTile());
  bool hasK = form.fused && rowsHaveK(block.tile);
  bool tellsFar = form.exponential && form.fused && !form.redoesFar;
  if (tellsFar)
    types.push_back(hasK
                        ? rowTile()
                        : Type(tileType(schedule.getRows(), 1, b.getI1Type())));
  SmallVector<Value> rows =
      map(inputs, types, [&](Value row, Value, ValueRange x) {
        ValueRange old = x.take_front(n);
        SmallVector<Value> added(x.drop_front(n));
        if (block.tile.linear)
          added = scores(block, row, i32(0), added.front());
        SmallVector<Value> results = combineStats(old, added);
        if (form.exponential) {
          emitAnchor(block, row, old[0], results[0], results);
          return results;
        }
        results.append(rescale(old, results));
        return results;
      });
  RowFactors result;
  result.stats.assign(rows.begin(), rows.begin() + n);
  ArrayRef<Value> rest = ArrayRef(rows).drop_front(n);
  result.factors.append(rest.begin(), rest.begin() + numFactors());
  rest = rest.drop_front(numFactors());
  if (form.exponential)
    result.offset = rest[0];
  if (tellsFar)
    (hasK ? result.k : result.far) = rest[1];
  return result;
}

/// Rows that are far from 0 take their anchor from the scores of the tile,
/// which is exact for those next to it, and have no offset. Sums that are near
/// are at the rounded product p of their anchor and k, those that are far at
/// their anchor a itself, so that a sum's exponent moves by
/// (p_old - p_new) + (a_old - a_new) * k, where the other p and a are 0.
void ReductionKernel::anchorFarRows(RowBlock &block, RowFactors &row,
                                    Value &stat) {
  Value &rowFactor = row.factors.front(); // an exponential has no other
  Value k = scaleToBase();
  Value some = tile::AnyOp::create(b, loc, b.getI1Type(), row.far,
                                   /*by_rows=*/true);
  Type types[] = {stat.getType(), rowFactor.getType(), row.offset.getType()};
  auto anchored = [&]() -> SmallVector<Value> {
    Value zero = f32(0.0f);
    Type flags = row.far.getType(), rows = rowTile();
    SmallVector<Value> own = map(
        {block.state[0], row.stats[0], rowFactor, row.offset},
        {rows, rows, rows, flags, rows}, [&](Value, Value, ValueRange x) {
          Value old = x[0], now = x[1];
          auto parts = [&](Value anchor) {
            Value none = isIdentity(anchor);
            Value scaled = arith::MulFOp::create(b, loc, anchor, k);
            Value far = select(
                none, arith::ConstantIntOp::create(b, loc, b.getI1Type(), 0),
                isFar(anchor));
            Value isPoint = arith::OrIOp::create(b, loc, none, far);
            return std::array<Value, 3>{far, select(isPoint, zero, scaled),
                                        select(far, anchor, zero)};
          };
          auto [oldFar, oldProduct, oldAnchor] = parts(old);
          auto [far, product, anchor] = parts(now);
          Value moved = math::FmaOp::create(
              b, loc, arith::SubFOp::create(b, loc, oldAnchor, anchor), k,
              arith::SubFOp::create(b, loc, oldProduct, product));
          Value factor = select(isIdentity(old), zero,
                                math::Exp2Op::create(b, loc, moved));
          Value either = arith::OrIOp::create(b, loc, oldFar, far);
          // For each row, or it would be held in a register all the way to
          // here.
          Value inverse = f32(1.0f);
          if (block.tile.linear)
            inverse = arith::DivFOp::create(
                b, loc, f32(form.base),
                select(far, linear.scaleLog2, f32(form.base)));
          return SmallVector<Value>{anchor, select(either, factor, x[2]),
                                    select(far, zero, x[3]), far, inverse};
        });
    Value shifted =
        map({stat, own[0], own[3], own[4]}, {stat.getType()},
            [&](Value row, Value, ValueRange x) -> SmallVector<Value> {
              Value score = x[0];
              if (block.tile.linear)
                score = scores(block, row, i32(0), score).front();
              Value distance = arith::SubFOp::create(b, loc, score, x[1]);
              // In units of a linear tile's product.
              if (block.tile.linear)
                distance = arith::MulFOp::create(b, loc, distance, x[3]);
              return {select(x[2], distance, x[0])};
            })
            .front();
    return {shifted, own[1], own[2]};
  };
  SmallVector<Value> chosen = choose(some, types, anchored, [&] {
    return SmallVector<Value>{stat, rowFactor, row.offset};
  });
  stat = chosen[0];
  rowFactor = chosen[1];
  row.offset = chosen[2];
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

/// Within a map: the statistic that a row starts with, in units of the score.
Value ReductionKernel::initialStat(Value row) {
  Region &init = reduction.getInitBody();
  PointCloner cloner(*this, init, 0, /*hasKey=*/false,
                     reduction.getCaptureOperands(),
                     rowPoint(rowBase(row0), row, lastRow()));
  Value stat = cloner.get(getYielded(init)[0]);
  if (!split)
    return stat;
  Value first = cmp(arith::CmpIPredicate::eq, split, index(0));
  return select(first, stat, identityStats()[0]);
}

/// Within a map: whether a statistic in units of the dot stands for one that
/// the row started with and that lies beyond what these can hold.
Value ReductionKernel::isLargest(Value stat) {
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ,
                               math::AbsFOp::create(b, loc, stat),
                               f32(std::numeric_limits<float>::max()));
}

/// Within a map: a statistic that is held in units of the dot.
Value ReductionKernel::inScoreUnits(Value stat, Value row) {
  if (!form.unit)
    return stat;
  Value score = arith::MulFOp::create(b, loc, stat, form.unit);
  score = select(isIdentity(stat), stat, score);
  if (reduction.getInitBody().empty())
    return score;
  // One near the largest number may round beyond it.
  Value isInfinite = arith::CmpFOp::create(
      b, loc, arith::CmpFPredicate::OEQ, math::AbsFOp::create(b, loc, score),
      f32(std::numeric_limits<float>::infinity()));
  Value isInitial = arith::OrIOp::create(b, loc, isLargest(stat), isInfinite);
  return select(isInitial, initialStat(row), score);
}

/// Within a map: what sums at the reference point of `stat`, as they are held
/// here, are multiplied by to have it at `score`, which `stat` stands for; an
/// exponent of 2. It is what the products of stat with k and with the unit are
/// rounded by, and those are exact to twice the precision. That k is rounded
/// itself is nothing: all differences of scores are. Rows far from 0 have
/// nothing to tell the two points apart by.
Value ReductionKernel::gapOfAnchor(Value score, Value stat) {
  auto residue = [&](Value x, Value y, Value product) -> Value {
    return math::FmaOp::create(b, loc, x, y,
                               arith::NegFOp::create(b, loc, product));
  };
  Value k = scaleToBase();
  Value t = arith::MulFOp::create(b, loc, stat, k);
  Value gap = f32(0.0f);
  if (form.fused)
    gap = arith::NegFOp::create(b, loc, residue(stat, k, t));
  if (form.unit)
    gap = math::FmaOp::create(b, loc, residue(stat, form.unit, score),
                              f32(form.base), gap);
  Value none = arith::OrIOp::create(b, loc, isFar(stat), isIdentity(stat));
  none = arith::OrIOp::create(b, loc, none, isLargest(stat));
  return select(none, f32(0.0f), gap);
}

/// The state with each component times a factor of its row.
SmallVector<Value> ReductionKernel::scaleComponents(ValueRange state,
                                                    Value factor) {
  SmallVector<Value> scaled = {state[0]};
  for (Value component : state.drop_front())
    scaled.push_back(map({component, factor}, component.getType(),
                         [&](Value, Value, ValueRange x) {
                           return SmallVector<Value>{
                               arith::MulFOp::create(b, loc, x[0], x[1])};
                         })
                         .front());
  return scaled;
}

/// A state that is given at the exact reference point of its statistic, as it
/// is held here.
SmallVector<Value> ReductionKernel::fromReferencePoint(ValueRange state) {
  if (!form.fused && !form.unit)
    return llvm::to_vector(state);
  Type rowType = state[0].getType();
  SmallVector<Value> row =
      map(state[0], {rowType, rowType}, [&](Value, Value, ValueRange x) {
        Value stat = x[0];
        if (form.unit) {
          constexpr float most = std::numeric_limits<float>::max();
          Value held = arith::DivFOp::create(b, loc, stat, form.unit);
          held = arith::MaximumFOp::create(b, loc, held, f32(-most));
          held = arith::MinimumFOp::create(b, loc, held, f32(most));
          stat = select(isIdentity(stat), stat, held);
        }
        Value gap = arith::NegFOp::create(b, loc, gapOfAnchor(x[0], stat));
        return SmallVector<Value>{stat, math::Exp2Op::create(b, loc, gap)};
      });
  SmallVector<Value> held = scaleComponents(state, row[1]);
  held[0] = row[0];
  return held;
}

/// Parts meet other parts, so their statistic must be the exact reference
/// point of their sums.
SmallVector<Value> ReductionKernel::toReferencePoint(ValueRange state) {
  if (!form.fused && !form.unit)
    return llvm::to_vector(state);
  Type rowType = state[0].getType();
  SmallVector<Value> row =
      map(state[0], {rowType, rowType}, [&](Value row, Value, ValueRange x) {
        Value score = inScoreUnits(x[0], row);
        return SmallVector<Value>{
            score, math::Exp2Op::create(b, loc, gapOfAnchor(score, x[0]))};
      });
  SmallVector<Value> exact = scaleComponents(state, row[1]);
  exact[0] = row[0];
  return exact;
}
