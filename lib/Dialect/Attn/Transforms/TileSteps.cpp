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
// element, but for states of a few numbers: a tile of these is reduced as
// statistics are. Of monoids that select keys, such as the k largest scores,
// the laws find the state that says which keys need not be folded at all.
//
//===----------------------------------------------------------------------===//

#include "TileSteps.h"
#include "StateUses.h"
#include "TileAnchor.h"
#include "TileDistances.h"
#include "TileElements.h"
#include "TileFused.h"
#include "TileLists.h"
#include "TileRotary.h"
#include "TileScores.h"
#include "TileWarps.h"
#include "TileWeights.h"
#include "attn/Analysis/Laws.h"
#include "attn/Analysis/StepRules.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include <cmath>

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

static bool isConstantFloat(Value value,
                            function_ref<bool(const APFloat &)> f) {
  APFloat constant(0.0f);
  return matchPattern(value, m_ConstantFloat(&constant)) && f(constant);
}

void mlir::attn::prepare(ReductionContext &ctx, RowBlock &block) {
  block.rowBase = ctx.rowBase(block.firstRow);
  block.keyBase = ctx.toI32(block.tile.first);
  block.lastRow = ctx.lastRow();
  if (block.tile.masked) {
    Value count = ctx.sub(ctx.keyEnd, block.tile.first);
    if (keyCols(ctx) != ctx.schedule.getBlockK())
      count = ctx.min(count, ctx.index(ctx.schedule.getBlockK()));
    block.keyCount = ctx.toI32(count);
    block.lastKey = ctx.toI32(ctx.sub(ctx.numKeys, ctx.index(1)));
  }
}

Weights mlir::attn::mapWeights(ReductionContext &ctx, RowBlock &block,
                               ValueRange inputs, ArrayRef<WeightGroup> groups,
                               MapBody body) {
  bool hasFactor = !ctx.reduction.getFactorBody().empty();
  bool separate = ctx.narrowValues || hasFactor;
  // Which forms of each group's weight are needed.
  SmallVector<Type> types;
  Weights weights;
  Type narrowTile =
      ctx.narrowValues
          ? ctx.tileType(ctx.schedule.getRows(), keyCols(ctx), ctx.narrowValues)
          : scoreTile(ctx);
  SmallVector<bool> wide(groups.size()), narrow(groups.size());
  // A weight that is summed too meets its factor behind the sum: registers of a
  // GPU do not hold both.
  SmallVector<size_t> late;
  for (auto [g, group] : llvm::enumerate(groups)) {
    for (unsigned i = 0; i < ctx.numComponents(); ++i) {
      if (!(groupOf(ctx, i) == group))
        continue;
      bool value = ctx.monoid.getComponent(i) == Component::value;
      (value && separate ? narrow[g] : wide[g]) = true;
    }
    if (wide[g])
      types.push_back(scoreTile(ctx));
    if (narrow[g] && wide[g] && hasFactor)
      late.push_back(g);
    else if (narrow[g])
      types.push_back(narrowTile);
  }
  auto rounded = [&](Value weight, Value factor) -> Value {
    if (factor)
      weight = arith::MulFOp::create(ctx.b, weight, factor);
    return ctx.narrowValues
               ? arith::TruncFOp::create(ctx.b, ctx.narrowValues, weight)
               : weight;
  };
  SmallVector<Value> results =
      ctx.map(inputs, types, [&](Value row, Value col, ValueRange x) {
        SmallVector<Value> yielded;
        Value factor;
        for (auto [g, weight] : llvm::enumerate(body(row, col, x))) {
          if (wide[g])
            yielded.push_back(weight);
          if (!narrow[g] || llvm::is_contained(late, g))
            continue;
          if (hasFactor && !factor)
            factor = valueFactor(ctx, block, row, col);
          yielded.push_back(rounded(weight, factor));
        }
        return yielded;
      });
  unsigned next = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    weights.wide.push_back(wide[g] ? results[next++] : Value());
    bool now = narrow[g] && !llvm::is_contained(late, g);
    weights.narrow.push_back(now ? results[next++] : weights.wide.back());
  }
  // Sums come directly after the map, where a target fuses them with it.
  for (auto [g, group] : llvm::enumerate(groups)) {
    bool unit = false;
    for (unsigned i = 0; i < ctx.numComponents(); ++i)
      unit |= groupOf(ctx, i) == group &&
              ctx.monoid.getComponent(i) == Component::unit;
    weights.sums.push_back(unit ? ctx.rowSum(weights.wide[g]) : Value());
  }
  if (late.empty())
    return weights;
  SmallVector<Value> summed;
  for (size_t g : late)
    summed.push_back(weights.wide[g]);
  SmallVector<Value> dropped =
      ctx.map(summed, SmallVector<Type>(late.size(), narrowTile),
              [&](Value row, Value col, ValueRange x) {
                Value factor = valueFactor(ctx, block, row, col);
                return llvm::map_to_vector(
                    x, [&](Value weight) { return rounded(weight, factor); });
              });
  for (auto [g, weight] : llvm::zip(late, dropped))
    weights.narrow[g] = weight;
  return weights;
}

SmallVector<Value>
mlir::attn::accumulate(ReductionContext &ctx, RowBlock &block,
                       ArrayRef<WeightGroup> groups, const Weights &weights,
                       ArrayRef<Value> factors, const RowFactors *row) {
  SmallVector<Value> components(ctx.numComponents());
  SmallVector<Value> inputs;
  SmallVector<Type> types;
  SmallVector<unsigned> units;
  llvm::SmallSetVector<unsigned, 2> ofUnits;
  unsigned nextValue = 0;
  for (unsigned i = 0; i < ctx.numComponents(); ++i) {
    size_t g = llvm::find(groups, groupOf(ctx, i)) - groups.begin();
    Value old = block.state[ctx.numStats() + i];
    if (ctx.monoid.getComponent(i) == Component::value) {
      Value factor = factors.empty() ? Value() : factors[ctx.factorOf(i)];
      auto dot = tile::DotOp::create(ctx.b, old.getType(), weights.narrow[g],
                                     block.values[nextValue], old, factor,
                                     /*ramp=*/Value(),
                                     /*transpose_rhs=*/false, ctx.tf32);
      Value values = ctx.reduction.getValueOperands()[nextValue++];
      int64_t width = cast<ShapedType>(values.getType()).getShape().back();
      if (isGpu(ctx) && ctx.target.hasRoles() &&
          width < dot.getType().getCols())
        dot.setLiveWidth(width);
      components[i] = dot;
      continue;
    }
    inputs.push_back(old);
    inputs.push_back(weights.sums[g]);
    types.push_back(rowTile(ctx));
    units.push_back(i);
    ofUnits.insert(ctx.factorOf(i));
  }
  if (units.empty())
    return components;
  if (!factors.empty())
    for (unsigned f : ofUnits)
      inputs.push_back(factors[f]);
  size_t firstMove = inputs.size();
  bool shifts = row && ctx.monoid.hasShift() && !ctx.form.distances;
  if (row && row->moved)
    inputs.push_back(row->moved);
  if (shifts) {
    llvm::append_range(inputs,
                       ArrayRef(block.state).take_front(ctx.numStats()));
    llvm::append_range(inputs, row->stats);
  }
  SmallVector<Value> sums =
      ctx.map(inputs, types, [&](Value, Value, ValueRange x) {
        SmallVector<Value> results, olds;
        ValueRange scales =
                       x.slice(2 * units.size(), firstMove - 2 * units.size()),
                   moves = x.drop_front(firstMove);
        for (size_t u = 0; u < units.size(); ++u)
          olds.push_back(x[2 * u]);
        if (shifts)
          olds = ctx.shift(moves.take_front(ctx.numStats()),
                           moves.drop_front(ctx.numStats()), olds);
        for (auto [u, i] : llvm::enumerate(units)) {
          Value old = olds[u], sum = x[2 * u + 1];
          if (ctx.form.isDistance(i)) {
            size_t ones =
                llvm::find(units, ctx.form.distances->ones) - units.begin();
            old = math::FmaOp::create(ctx.b, x[2 * ones], moves[0], old);
          }
          if (scales.empty()) {
            results.push_back(arith::AddFOp::create(ctx.b, old, sum));
            continue;
          }
          Value scale =
              scales[llvm::find(ofUnits, ctx.factorOf(i)) - ofUnits.begin()];
          if (shifts)
            results.push_back(arith::AddFOp::create(
                ctx.b, ctx.selectScaled(scale, old), sum));
          else
            results.push_back(math::FmaOp::create(ctx.b, old, scale, sum));
        }
        return results;
      });
  for (auto [u, i] : llvm::enumerate(units))
    components[i] = sums[u];
  return components;
}

SmallVector<Value> mlir::attn::mapLift(ReductionContext &ctx, RowBlock &block,
                                       ArrayRef<Value> dots,
                                       ArrayRef<WeightGroup> groups,
                                       ArrayRef<bool> weightsToo) {
  SmallVector<Type> types;
  unsigned numStats = ctx.form.dividendIsStat ? 0 : ctx.numStats();
  for (Attribute stat : ctx.monoid.getStats().getValue().take_front(numStats))
    types.push_back(ctx.tileType(ctx.schedule.getRows(), keyCols(ctx),
                                 cast<TypeAttr>(stat).getValue()));
  for (bool too : weightsToo)
    if (too)
      types.push_back(scoreTile(ctx));
  SmallVector<Value> inputs = withLoaded(ctx, block, dots);
  return ctx.map(inputs, types, [&](Value row, Value col, ValueRange x) {
    x = takeLoaded(ctx, block, x, dots.size());
    Value alive = liveByMask(ctx, block, row, col);
    SmallVector<Value> s;
    if (ctx.form.dotIsStat)
      s.append(x.begin(), x.end());
    else
      s = scores(ctx, block, row, col, x);
    alive = liveByScore(ctx, s, alive);
    RegionCloner cloner(ctx.b);
    Region &lift = ctx.monoid.getLift();
    cloner.map(lift.getArguments().take_front(s.size()), s);
    cloner.map(lift.getArguments().drop_front(s.size()), ctx.params());
    SmallVector<Value> results;
    for (auto [value, identity] : llvm::zip_first(
             getYielded(lift).take_front(numStats), ctx.identityStats())) {
      Value stat = cloner.get(value);
      results.push_back(alive ? ctx.select(alive, stat, identity) : stat);
    }
    for (auto [group, too] : llvm::zip(groups, weightsToo))
      if (too) {
        Value weight = group.weight;
        if (ctx.form.byQuotient)
          weight = weight.getDefiningOp<arith::DivFOp>().getLhs();
        weight = cloner.get(weight);
        results.push_back(alive ? ctx.select(alive, weight, ctx.f32(0.0f))
                                : weight);
      }
    return results;
  });
}

/// 1 over what the dividends of a row's weights are over, 0 of a row that has
/// no keys yet.
static Value reciprocals(ReductionContext &ctx, Value stat) {
  Region &rescale = ctx.monoid.getRescale();
  Value divisor =
      getYielded(rescale).front().getDefiningOp<arith::DivFOp>().getRhs();
  return ctx
      .map({stat}, {rowTile(ctx)},
           [&](Value, Value, ValueRange x) -> SmallVector<Value> {
             RegionCloner cloner(ctx.b);
             cloner.map(rescale.getArgument(1), x.front());
             Value quotient = arith::DivFOp::create(ctx.b, ctx.f32(1.0f),
                                                    cloner.get(divisor));
             return {ctx.select(ctx.isIdentity(x), ctx.f32(0.0f), quotient)};
           })
      .front();
}

/// The statistics of rows from a tile of dividends, which tell those of its
/// elements: there need be no tile of these.
static SmallVector<Value> reduceDividends(ReductionContext &ctx,
                                          Value dividends) {
  ValueRange lifted = getYielded(ctx.monoid.getLift());
  auto statOf = [&](Value dividend) -> Value {
    return lifted.front().getDefiningOp<math::AbsFOp>()
               ? math::AbsFOp::create(ctx.b, dividend).getResult()
               : dividend;
  };
  return ctx.reduce(dividends, ctx.identityStats(), ctx.form.ordered,
                    [&](ValueRange x, ValueRange y) {
                      return combineStats(ctx, statOf(x[0]), statOf(y[0]));
                    });
}

SmallVector<Value> mlir::attn::reduceStats(ReductionContext &ctx,
                                           ArrayRef<Value> stats) {
  return ctx.reduce(
      stats, ctx.identityStats(), ctx.form.ordered,
      [&](ValueRange x, ValueRange y) { return combineStats(ctx, x, y); });
}

SmallVector<Value> mlir::attn::combineStats(ReductionContext &ctx, ValueRange x,
                                            ValueRange y) {
  if (ctx.reduction.getRelaxedMaximum()) {
    Value larger =
        arith::CmpFOp::create(ctx.b, arith::CmpFPredicate::OGT, y[0], x[0]);
    return {ctx.select(larger, y[0], x[0])};
  }
  return ctx.combine(x, y);
}

/// Lets a GPU compute functions of the scores by its special-function unit,
/// where all that is made of them is rounded to 16 bits.
static void markApproximate(ReductionContext &ctx, ValueRange mapped) {
  if (!isGpu(ctx) || !ctx.form.shortWeights || mapped.empty())
    return;
  mapped.front().getDefiningOp()->walk([&](Operation *inner) {
    if (isa<math::TanhOp, math::ExpOp, arith::DivFOp>(inner))
      cast<arith::ArithFastMathInterface>(inner)->setAttr(
          "fastmath", arith::FastMathFlagsAttr::get(ctx.b.getContext(),
                                                    arith::FastMathFlags::afn));
    // A position, as a float, may be off by its last bit.
    if (isa<arith::SIToFPOp>(inner))
      inner->setAttr(tile::TileDialect::approximateName, ctx.b.getUnitAttr());
  });
}

/// A monoid without statistics: one map gives the weights.
static SmallVector<Value> stepSum(ReductionContext &ctx, RowBlock &block,
                                  ArrayRef<Value> dots) {
  SmallVector<WeightGroup> groups = weightGroups(ctx);
  SmallVector<Value> inputs = withLoaded(ctx, block, dots);
  Weights weights = mapWeights(
      ctx, block, inputs, groups, [&](Value row, Value col, ValueRange x) {
        x = takeLoaded(ctx, block, x, dots.size());
        Value alive = liveByMask(ctx, block, row, col);
        if (!ctx.rowSums.empty() && (sumsHaveOrder(ctx) || block.tile.masked)) {
          // Rows that do not exist add nothing to what is reduced.
          Value exists = ctx.cmp(arith::CmpIPredicate::sle,
                                 ctx.add(block.rowBase, row), block.lastRow);
          alive = alive
                      ? arith::AndIOp::create(ctx.b, exists, alive).getResult()
                      : exists;
        }
        SmallVector<Value> s = scores(ctx, block, row, col, x);
        alive = liveByScore(ctx, s, alive);
        RegionCloner cloner(ctx.b);
        Region &lift = ctx.monoid.getLift();
        cloner.map(lift.getArguments().take_front(s.size()), s);
        cloner.map(lift.getArguments().drop_front(s.size()), ctx.params());
        SmallVector<Value> results;
        for (WeightGroup group : groups) {
          Value weight = cloner.get(group.weight);
          results.push_back(alive ? ctx.select(alive, weight, ctx.f32(0.0f))
                                  : weight);
        }
        return results;
      });
  markApproximate(ctx, weights.narrow);
  SmallVector<Value> state =
      accumulate(ctx, block, groups, weights, /*factors=*/{});
  for (unsigned component : ctx.rowSumWeights)
    state.push_back(weights.narrow[llvm::find(groups, groupOf(ctx, component)) -
                                   groups.begin()]);
  return state;
}

/// Weights are exp2(stat * k), none of them too large: nothing is rescaled.
static SmallVector<Value> stepFixed(ReductionContext &ctx, RowBlock &block,
                                    ArrayRef<Value> lifted,
                                    ArrayRef<WeightGroup> groups) {
  Value k = scaleToBase(ctx);
  Weights weights =
      mapWeights(ctx, block, lifted, groups, [&](Value, Value, ValueRange x) {
        Value exponent = arith::MulFOp::create(ctx.b, x[0], k);
        Value power =
            math::Exp2Op::create(ctx.b, exponent, arith::FastMathFlags::afn);
        return SmallVector<Value>(groups.size(), power);
      });
  SmallVector<Value> state(ArrayRef(block.state).take_front(ctx.numStats()));
  state.append(accumulate(ctx, block, groups, weights, /*factors=*/{}));
  return state;
}

/// The least finite number in the place of -inf. A NaN need not come through:
/// the factor is one, too.
static Value clampToFinite(ReductionContext &ctx, Value x) {
  return arith::MaxNumFOp::create(ctx.b, x,
                                  ctx.f32(-std::numeric_limits<float>::max()));
}

static Value finiteScore(ReductionContext &ctx, Value stat) {
  auto clamp = [&](Value x) { return clampToFinite(ctx, x); };
  if (!ctx.form.unit)
    return clamp(stat);
  // A product with what is no more than 1 stays finite.
  bool shrinks = isConstantFloat(ctx.form.unit, [](const APFloat &unit) {
    return unit.convertToFloat() <= 1.0f;
  });
  Value score =
      arith::MulFOp::create(ctx.b, shrinks ? clamp(stat) : stat, ctx.form.unit);
  return shrinks ? score : clamp(score);
}

/// x * a * b as x * (a b), where b is a power of two: the same, but for numbers
/// that are too small to be normal.
static Value mergeScale(OpBuilder &b, Location loc, Value weight) {
  auto outer = weight.getDefiningOp<arith::MulFOp>();
  auto inner = outer ? outer.getLhs().getDefiningOp<arith::MulFOp>() : nullptr;
  float power = 0.0f, scale = 0.0f;
  auto read = [](float &into) {
    return [&into](const APFloat &x) {
      into = x.convertToFloat();
      return true;
    };
  };
  int exponent = 0;
  if (!inner || !isConstantFloat(outer.getRhs(), read(power)) ||
      !isConstantFloat(inner.getRhs(), read(scale)) ||
      std::frexp(power, &exponent) != 0.5f || !std::isnormal(scale * power))
    return weight;
  return arith::MulFOp::create(
      b, loc, inner.getLhs(),
      arith::ConstantOp::create(b, loc, b.getF32FloatAttr(scale * power)));
}

/// What `shift` makes of the weights of an element that are only summed, on the
/// way from its statistic to that of the row.
static SmallVector<Value> shiftedWeights(ReductionContext &ctx, ValueRange from,
                                         ValueRange to,
                                         function_ref<Value(Value)> weightOf) {
  SmallVector<Value> units;
  ValueRange lifted = getYielded(ctx.monoid.getLift());
  for (unsigned i = 0; i < ctx.numComponents(); ++i)
    if (ctx.monoid.getComponent(i) == Component::unit)
      units.push_back(weightOf(lifted[ctx.numStats() + i]));
  return ctx.shift(from, to, units);
}

/// Tiles of statistics of each pair, `numTiles` of them, and of the weights
/// that are computed with these (`early`).
static SmallVector<Value> liftScores(ReductionContext &ctx, RowBlock &block,
                                     ArrayRef<Value> dots,
                                     ArrayRef<WeightGroup> groups,
                                     ArrayRef<bool> early, unsigned numTiles) {
  auto lift = [&]() -> SmallVector<Value> {
    if ((ctx.form.dotIsStat && !block.tile.masked) || block.tile.linear)
      return {dots[0]};
    SmallVector<Value> lifted = mapLift(ctx, block, dots, groups, early);
    markApproximate(ctx, lifted);
    return lifted;
  };
  Value whole = block.tile.whole;
  if (ctx.form.masksLate && block.tile.masked)
    return {dots[0]};
  if (!whole)
    return lift();
  bool masked = std::exchange(block.tile.masked, false);
  SmallVector<Type> types(numTiles, scoreTile(ctx));
  for (bool too : early)
    if (too)
      types.push_back(scoreTile(ctx));
  return choose(ctx, whole, types, lift, [&] {
    block.tile.masked = masked;
    return lift();
  });
}

/// Which groups' weights need the score: they are computed with the statistics,
/// each once whatever factors it meets.
static SmallVector<bool> findEarly(ReductionContext &ctx,
                                   ArrayRef<WeightGroup> groups,
                                   llvm::SmallSetVector<Value, 4> &weights) {
  SmallVector<bool> early;
  for (WeightGroup group : groups) {
    ValueRange all =
        getYielded(ctx.monoid.getLift()).drop_front(ctx.numStats());
    size_t i = llvm::find(all, group.weight) - all.begin();
    bool isEarly = ctx.form.byQuotient ||
                   (!ctx.form.uniformWeight[i] && !ctx.form.weighsLate);
    early.push_back(isEarly && weights.insert(group.weight));
  }
  return early;
}

namespace {

/// The weights of a tile's elements in a cocycle, one element at a time.
struct CocycleWeights {
  SmallVector<Value> of(ValueRange x, Value alive);

  ReductionContext &ctx;
  RowBlock &block;
  ArrayRef<WeightGroup> groups;
  /// Weights that are computed with the statistics.
  llvm::SmallSetVector<Value, 4> earlyWeights;
  /// Of an element's inputs, those that are statistics; and these with the
  /// early weights. The row's own statistics follow.
  size_t numStats, numLifted;
  /// What distances are multiplied by: the row's own factor, or null; `base` of
  /// all rows.
  Value rowFactor, base;

private:
  Value weightOf(Value lifted, ValueRange from, ValueRange computed);
};

} // namespace

/// A weight that `lift` computes, or has computed with the statistics.
Value CocycleWeights::weightOf(Value lifted, ValueRange from,
                               ValueRange computed) {
  auto *found = llvm::find(earlyWeights, lifted);
  if (found != earlyWeights.end())
    return computed[found - earlyWeights.begin()];
  RegionCloner cloner(ctx.b);
  Region &lift = ctx.monoid.getLift();
  if (ctx.form.weighsLate)
    cloner.map(lift.getArgument(0), finiteScore(ctx, from[0]));
  cloner.map(lift.getArguments().drop_front(ctx.monoid.getNumScores()),
             ctx.params());
  Value weight = cloner.get(lifted);
  return ctx.form.weighsLate ? mergeScale(ctx.b, ctx.loc, weight) : weight;
}

/// The products of weights and factors for each group; 0 where `alive` is given
/// and false.
SmallVector<Value> CocycleWeights::of(ValueRange x, Value alive) {
  ValueRange from = x.take_front(numStats);
  ValueRange computed = x.slice(numStats, numLifted - numStats);
  ValueRange to = x.drop_front(numLifted);
  SmallVector<Value> own;
  Value dead, exponent;
  if (ctx.form.exponential) {
    own = {exponential(ctx, from[0], to[0], rowFactor ? to[1] : base,
                       /*isWeight=*/true, &exponent)};
    // Of a dead score it is -inf. Where there should be none, rows that have
    // one are found by their NaN.
    if (ctx.form.distances && (block.tile.masked || !ctx.form.redoesFar))
      exponent = clampToFinite(ctx, exponent);
  } else if (ctx.form.byQuotient) {
    own.assign(ctx.numFactors(), to[0]);
  } else {
    own = ctx.factorsTo(from, to);
    dead = ctx.isIdentity(from);
  }
  auto weight = [&](Value lifted) { return weightOf(lifted, from, computed); };
  SmallVector<Value> shifted;
  if (ctx.monoid.hasShift() && !ctx.form.distances)
    shifted = shiftedWeights(ctx, from, to, weight);
  SmallVector<Value> results;
  for (WeightGroup group : groups) {
    Value factor = own[group.factor];
    if (group.shifted && !ctx.form.distances) {
      results.push_back(ctx.selectScaled(
          dead ? ctx.select(dead, ctx.f32(0.0f), factor) : factor,
          shifted[ctx.monoid.getUnit(*group.shifted)]));
      continue;
    }
    Value lifted = group.shifted ? exponent : weight(group.weight);
    bool one = isConstantFloat(
        lifted, [](const APFloat &w) { return w.isExactlyValue(1.0); });
    Value product =
        one ? factor : arith::MulFOp::create(ctx.b, lifted, factor).getResult();
    if (alive)
      product = ctx.select(alive, product, ctx.f32(0.0f));
    results.push_back(dead ? ctx.select(dead, ctx.f32(0.0f), product)
                           : product);
  }
  return results;
}

static SmallVector<Value> stepCocycle(ReductionContext &ctx, RowBlock &block,
                                      ArrayRef<Value> dots) {
  unsigned n = ctx.numStats();
  // How many tiles of statistics there are.
  unsigned numTiles = ctx.form.dividendIsStat ? 0 : n;
  SmallVector<WeightGroup> groups = weightGroups(ctx);
  llvm::SmallSetVector<Value, 4> earlyWeights;
  SmallVector<bool> early = findEarly(ctx, groups, earlyWeights);
  SmallVector<Value> lifted =
      liftScores(ctx, block, dots, groups, early, numTiles);
  if (ctx.fixedAnchor)
    return stepFixed(ctx, block, lifted, groups);
  SmallVector<Value> stats =
      ctx.form.dividendIsStat
          ? reduceDividends(ctx, lifted.front())
          : reduceStats(ctx, ArrayRef(lifted).take_front(n));
  RowFactors row = rescaleRows(ctx, block, stats);
  if (row.far)
    anchorFarRows(ctx, block, row, lifted[0]);

  SmallVector<Value> inputs(lifted);
  if (ctx.form.exponential)
    inputs.push_back(row.offset);
  else if (ctx.form.byQuotient)
    inputs.push_back(reciprocals(ctx, row.stats.front()));
  else
    inputs.append(row.stats);
  if (row.k)
    inputs.push_back(row.k);
  Value base = scaleToBase(ctx);
  if (block.tile.linear)
    base = ctx.linear.scaleLog2;
  size_t numInputs = inputs.size();
  bool late = ctx.form.masksLate && block.tile.masked && !block.tile.linear;
  if (late)
    inputs = withLoaded(ctx, block, inputs);
  CocycleWeights element{ctx,      block,         groups, earlyWeights,
                         numTiles, lifted.size(), row.k,  base};
  Weights weights = mapWeights(ctx, block, inputs, groups,
                               [&](Value r, Value c, ValueRange x) {
                                 Value alive;
                                 if (late) {
                                   x = takeLoaded(ctx, block, x, numInputs);
                                   alive = liveByMask(ctx, block, r, c);
                                 }
                                 return element.of(x, alive);
                               });
  SmallVector<Value> state(row.stats);
  state.append(accumulate(ctx, block, groups, weights, row.factors, &row));
  return state;
}

/// Whether scores of few rows, which keys are read for once, may have their
/// terms added up in another order than those of many rows.
static bool sumsInAnyOrder(ReductionContext &ctx) {
  return ctx.target.isCpu() &&
         ctx.schedule.getRows() <= ::attn::stepRules().memoryRows &&
         ctx.schedule.getRows() == ctx.schedule.getBlockQ() &&
         !ctx.reduction.isBatchInvariant();
}

SmallVector<Value> mlir::attn::stepRows(ReductionContext &ctx,
                                        RowBlock &block) {
  prepare(ctx, block);
  loadSamples(ctx, block);
  loadDistantElements(ctx, block);
  loadBits(ctx, block);
  SmallVector<Value> dots;
  if (turnsRows(ctx))
    dots.push_back(dotParts(ctx, block));
  else
    for (auto [query, key, tensor] : llvm::zip(
             block.queries, block.keys, ctx.reduction.getQueryOperands())) {
      auto dot = tile::DotOp::create(ctx.b, scoreTile(ctx), query, key,
                                     /*acc=*/Value(), /*scale=*/Value(),
                                     block.tile.ramp, /*transpose_rhs=*/true,
                                     ctx.tf32);
      int64_t depth = cast<ShapedType>(tensor.getType()).getShape().back();
      if (isGpu(ctx) && ctx.target.hasRoles() && depth < dot.getDepth())
        dot.setLiveDepth(depth);
      if (sumsInAnyOrder(ctx))
        dot->setAttr(tile::TileDialect::approximateName, ctx.b.getUnitAttr());
      dots.push_back(dot);
    }
  if (isa<ScoresOp>(ctx.op))
    return writeScores(ctx, block, dots);
  if (ctx.diesByElement)
    takeHeld(ctx, block, dots);
  switch (ctx.monoid.getKind()) {
  case MonoidKind::cocycle:
    return ctx.numStats() ? stepCocycle(ctx, block, dots)
                          : stepSum(ctx, block, dots);
  case MonoidKind::suffix:
  case MonoidKind::prefix:
    return stepGated(ctx, block, dots);
  case MonoidKind::affine:
    return stepAffine(ctx, block, dots);
  case MonoidKind::general:
    return stepGeneral(ctx, block, dots);
  }
  llvm_unreachable("unknown kind of monoid");
}
