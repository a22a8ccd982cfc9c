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

#include "NamedRewrites.h"
#include "StateUses.h"
#include "TileKernel.h"
#include "attn/Analysis/Laws.h"
#include "attn/Dialect/Attn/IR/AttributeNames.h"
#include "attn/Dialect/Tile/IR/FoldThreshold.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include <cmath>

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

/// What the monoid and its laws say of the state, and the values that kernels
/// need for the rewrites that passes have decided.
void ReductionKernel::readForm() {
  Region &lift = monoid.getLift();
  form.uniformWeight.clear();
  if (!monoid.isGeneral())
    for (Value weight : getYielded(lift).drop_front(numStats()))
      form.uniformWeight.push_back(
          llvm::none_of(lift.getArguments().take_front(monoid.getNumScores()),
                        [&](Value score) { return dependsOn(weight, score); }));
  std::shared_ptr<const ::attn::LawReport> laws = ::attn::checkLaws(monoid);
  form.ordered = !laws || !laws->combineCommutes;
  form.shortWeights =
      findWeightRounding(reduction, {narrowDots, narrowValues, tf32}) ==
      WeightRounding::all;
  form.deadIsNatural = (laws && laws->deadIsNatural && !monoid.isGeneral()) ||
                       op->hasAttr(getDeadIsZeroName());

  std::optional<float> base = exponentialBase(monoid);
  if (!base)
    return;
  form.base = *base;
  form.exponential = isOnline(reduction);
  form.fused = fusesExponent(reduction);
  form.weighsLate = form.exponential && weightsFollowStatistic(monoid);
  if (!scoreIsStatistic(monoid) && !form.weighsLate)
    return;
  form.deadIsNatural = true;
  form.dotIsStat = scoreIsDot(reduction);
  Region &score = reduction.getScoreBody();
  auto toUniform = [&](Value value) {
    return uniform(score, value, 1, reduction.getCaptureOperands());
  };
  // Of packed heads a factor of the head is not the same for all rows.
  if (op->hasAttr(getScoreUnitName())) {
    StringRef why;
    auto scaled = findScaledScore(reduction, monoid, target,
                                  varying(score, 1, /*hasKey=*/true), why);
    if (scaled) {
      static_cast<ScoreUnit &>(form) =
          emitScoreUnit(b, loc, *scaled, form.base, toUniform);
      form.dotIsStat = scaled->isDot;
    }
  }
  if (op->hasAttr(getLinearBiasName()))
    linear = emitLinearBias(b, loc, reduction, form.base,
                            varying(score, 1, /*hasKey=*/true), toUniform);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

void ReductionKernel::prepare(RowBlock &block) {
  block.rowBase = rowBase(block.firstRow);
  block.keyBase = toI32(block.tile.first);
  block.lastRow = lastRow();
  if (block.tile.masked) {
    Value count = sub(keyEnd, block.tile.first);
    if (keyCols() != schedule.getBlockK())
      count = min(count, index(schedule.getBlockK()));
    block.keyCount = toI32(count);
    block.lastKey = toI32(sub(numKeys, index(1)));
  }
}

/// The number of the state below which a key changes nothing, if the laws have
/// found one: of a monoid without values.
static std::optional<unsigned> findThreshold(MonoidOp monoid) {
  std::shared_ptr<const ::attn::LawReport> laws = ::attn::checkLaws(monoid);
  if (!laws || laws->threshold < 0)
    return std::nullopt;
  return laws->threshold;
}

SmallVector<Value> ReductionKernel::stepRows(RowBlock &block) {
  prepare(block);
  loadSamples(block);
  loadBits(block);
  SmallVector<Value> dots;
  if (turnsRows())
    dots.push_back(dotParts(block));
  else
    for (auto [query, key] : llvm::zip(block.queries, block.keys))
      dots.push_back(tile::DotOp::create(
          b, loc, scoreTile(), query, key, /*acc=*/Value(), /*scale=*/Value(),
          block.tile.ramp, /*transpose_rhs=*/true, tf32));
  if (isa<ScoresOp>(op)) {
    storeScores(block, dots);
    return {};
  }
  switch (monoid.getKind()) {
  case MonoidKind::cocycle:
    return numStats() ? stepCocycle(block, dots) : stepSum(block, dots);
  case MonoidKind::suffix:
  case MonoidKind::prefix:
    return stepGated(block, dots);
  case MonoidKind::general:
    // On a CPU a test of several keys is less than their product.
    return foldsKeys(reduction, monoid) || (!isGpu() && findThreshold(monoid))
               ? stepGeneral(block, dots)
               : stepScalars(block, dots);
  }
  llvm_unreachable("unknown kind of monoid");
}

void ReductionKernel::storeScores(RowBlock &block, ArrayRef<Value> dots) {
  SmallVector<Value> inputs = withLoaded(block, dots);
  SmallVector<Type> types(scoreOutputs.size(), scoreTile());
  SmallVector<Value> tiles =
      map(inputs, types, [&](Value row, Value col, ValueRange x) {
        x = takeLoaded(block, x, dots.size());
        return scores(block, row, col, x);
      });
  for (auto [tile, output] : llvm::zip_equal(tiles, scoreOutputs))
    if (output)
      tile::StoreOp::create(
          b, loc, tile, output,
          ValueRange{batch, head, block.firstRow, block.tile.first},
          block.firstRow, add(row0, liveRows), /*vector=*/false);
}

/// Emits a map that ends in weights: of each one an f32 tile, where a sum
/// needs it, and one for the values' dot, in its element type and times the
/// factor of the pair.
ReductionKernel::Weights
ReductionKernel::mapWeights(RowBlock &block, ValueRange inputs,
                            ArrayRef<WeightGroup> groups, MapBody body) {
  bool hasFactor = !reduction.getFactorBody().empty();
  bool separate = narrowValues || hasFactor;
  // Which forms of each group's weight are needed.
  SmallVector<Type> types;
  Weights weights;
  Type narrowTile = narrowValues
                        ? tileType(schedule.getRows(), keyCols(), narrowValues)
                        : scoreTile();
  SmallVector<bool> wide(groups.size()), narrow(groups.size());
  // A weight that is summed too meets its factor behind the sum: registers of a
  // GPU do not hold both.
  SmallVector<size_t> late;
  for (auto [g, group] : llvm::enumerate(groups)) {
    for (unsigned i = 0; i < numComponents(); ++i) {
      if (groupOf(i) != group)
        continue;
      bool value = monoid.getComponent(i) == Component::value;
      (value && separate ? narrow[g] : wide[g]) = true;
    }
    if (wide[g])
      types.push_back(scoreTile());
    if (narrow[g] && wide[g] && hasFactor)
      late.push_back(g);
    else if (narrow[g])
      types.push_back(narrowTile);
  }
  auto rounded = [&](Value weight, Value factor) -> Value {
    if (factor)
      weight = arith::MulFOp::create(b, loc, weight, factor);
    return narrowValues ? arith::TruncFOp::create(b, loc, narrowValues, weight)
                        : weight;
  };
  SmallVector<Value> results =
      map(inputs, types, [&](Value row, Value col, ValueRange x) {
        SmallVector<Value> yielded;
        Value factor;
        for (auto [g, weight] : llvm::enumerate(body(row, col, x))) {
          if (wide[g])
            yielded.push_back(weight);
          if (!narrow[g] || llvm::is_contained(late, g))
            continue;
          if (hasFactor && !factor)
            factor = valueFactor(block, row, col);
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
    for (unsigned i = 0; i < numComponents(); ++i)
      unit |= groupOf(i) == group && monoid.getComponent(i) == Component::unit;
    weights.sums.push_back(unit ? rowSum(weights.wide[g]) : Value());
  }
  if (late.empty())
    return weights;
  SmallVector<Value> summed;
  for (size_t g : late)
    summed.push_back(weights.wide[g]);
  SmallVector<Value> dropped =
      map(summed, SmallVector<Type>(late.size(), narrowTile),
          [&](Value row, Value col, ValueRange x) {
            Value factor = valueFactor(block, row, col);
            return llvm::map_to_vector(
                x, [&](Value weight) { return rounded(weight, factor); });
          });
  for (auto [g, weight] : llvm::zip(late, dropped))
    weights.narrow[g] = weight;
  return weights;
}

/// components' = factor * components + sums over the tile; without factors the
/// sums are added as they are.
SmallVector<Value> ReductionKernel::accumulate(RowBlock &block,
                                               ArrayRef<WeightGroup> groups,
                                               const Weights &weights,
                                               ArrayRef<Value> factors) {
  SmallVector<Value> components(numComponents());
  SmallVector<Value> inputs;
  SmallVector<Type> types;
  SmallVector<unsigned> units;
  llvm::SmallSetVector<unsigned, 2> ofUnits;
  unsigned nextValue = 0;
  for (unsigned i = 0; i < numComponents(); ++i) {
    size_t g = llvm::find(groups, groupOf(i)) - groups.begin();
    Value old = block.state[numStats() + i];
    if (monoid.getComponent(i) == Component::value) {
      Value factor = factors.empty() ? Value() : factors[factorOf(i)];
      components[i] = tile::DotOp::create(
          b, loc, old.getType(), weights.narrow[g], block.values[nextValue++],
          old, factor, /*ramp=*/Value(), /*transpose_rhs=*/false, tf32);
      continue;
    }
    inputs.push_back(old);
    inputs.push_back(weights.sums[g]);
    types.push_back(rowTile());
    units.push_back(i);
    ofUnits.insert(factorOf(i));
  }
  if (units.empty())
    return components;
  if (!factors.empty())
    for (unsigned f : ofUnits)
      inputs.push_back(factors[f]);
  SmallVector<Value> sums = map(inputs, types, [&](Value, Value, ValueRange x) {
    SmallVector<Value> results;
    ValueRange scales = x.drop_front(2 * units.size());
    for (auto [u, i] : llvm::enumerate(units)) {
      Value old = x[2 * u], sum = x[2 * u + 1];
      if (scales.empty()) {
        results.push_back(arith::AddFOp::create(b, loc, old, sum));
        continue;
      }
      Value scale = scales[llvm::find(ofUnits, factorOf(i)) - ofUnits.begin()];
      results.push_back(math::FmaOp::create(b, loc, old, scale, sum));
    }
    return results;
  });
  for (auto [u, i] : llvm::enumerate(units))
    components[i] = sums[u];
  return components;
}

/// Emits the map from dots to statistics and, where `weightsToo` says so,
/// weights: the identity and 0 where the element is dead.
SmallVector<Value> ReductionKernel::mapLift(RowBlock &block,
                                            ArrayRef<Value> dots,
                                            ArrayRef<WeightGroup> groups,
                                            ArrayRef<bool> weightsToo) {
  SmallVector<Type> types;
  for (Attribute stat : monoid.getStats())
    types.push_back(tileType(schedule.getRows(), keyCols(),
                             cast<TypeAttr>(stat).getValue()));
  for (bool too : weightsToo)
    if (too)
      types.push_back(scoreTile());
  SmallVector<Value> inputs = withLoaded(block, dots);
  return map(inputs, types, [&](Value row, Value col, ValueRange x) {
    x = takeLoaded(block, x, dots.size());
    Value alive = liveByMask(block, row, col);
    SmallVector<Value> s;
    if (form.dotIsStat)
      s.append(x.begin(), x.end());
    else
      s = scores(block, row, col, x);
    alive = liveByScore(s, alive);
    RegionCloner cloner(b);
    Region &lift = monoid.getLift();
    cloner.map(lift.getArguments().take_front(s.size()), s);
    cloner.map(lift.getArguments().drop_front(s.size()), params());
    SmallVector<Value> results;
    for (auto [value, identity] :
         llvm::zip(getYielded(lift).take_front(numStats()), identityStats())) {
      Value stat = cloner.get(value);
      results.push_back(alive ? select(alive, stat, identity) : stat);
    }
    for (auto [group, too] : llvm::zip(groups, weightsToo))
      if (too) {
        Value weight = cloner.get(group.first);
        results.push_back(alive ? select(alive, weight, f32(0.0f)) : weight);
      }
    return results;
  });
}

SmallVector<Value> ReductionKernel::reduceStats(ArrayRef<Value> stats) {
  return reduce(stats, identityStats(), form.ordered,
                [&](ValueRange x, ValueRange y) { return combineStats(x, y); });
}

SmallVector<Value> ReductionKernel::combineStats(ValueRange x, ValueRange y) {
  if (reduction.relaxesMaximum()) {
    Value larger =
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, y[0], x[0]);
    return {select(larger, y[0], x[0])};
  }
  return combine(x, y);
}

/// Lets a GPU compute functions of the scores by its special-function unit,
/// where all that is made of them is rounded to 16 bits.
void ReductionKernel::markApproximate(ValueRange mapped) {
  if (!isGpu() || !form.shortWeights || mapped.empty())
    return;
  mapped.front().getDefiningOp()->walk([&](Operation *inner) {
    if (isa<math::TanhOp, math::ExpOp, arith::DivFOp>(inner))
      cast<arith::ArithFastMathInterface>(inner)->setAttr(
          "fastmath", arith::FastMathFlagsAttr::get(b.getContext(),
                                                    arith::FastMathFlags::afn));
    // A position, as a float, may be off by its last bit.
    if (isa<arith::SIToFPOp>(inner))
      inner->setAttr(tile::TileDialect::approximateName, b.getUnitAttr());
  });
}

/// A monoid without statistics: one map gives the weights.
SmallVector<Value> ReductionKernel::stepSum(RowBlock &block,
                                            ArrayRef<Value> dots) {
  SmallVector<WeightGroup> groups = weightGroups();
  SmallVector<Value> inputs = withLoaded(block, dots);
  Weights weights = mapWeights(
      block, inputs, groups, [&](Value row, Value col, ValueRange x) {
        x = takeLoaded(block, x, dots.size());
        Value alive = liveByMask(block, row, col);
        if (!rowSums.empty() && (sumsHaveOrder() || block.tile.masked)) {
          // Rows that do not exist add nothing to what is reduced.
          Value exists = cmp(arith::CmpIPredicate::sle, add(block.rowBase, row),
                             block.lastRow);
          alive = alive
                      ? arith::AndIOp::create(b, loc, exists, alive).getResult()
                      : exists;
        }
        SmallVector<Value> s = scores(block, row, col, x);
        alive = liveByScore(s, alive);
        RegionCloner cloner(b);
        Region &lift = monoid.getLift();
        cloner.map(lift.getArguments().take_front(s.size()), s);
        cloner.map(lift.getArguments().drop_front(s.size()), params());
        SmallVector<Value> results;
        for (WeightGroup group : groups) {
          Value weight = cloner.get(group.first);
          results.push_back(alive ? select(alive, weight, f32(0.0f)) : weight);
        }
        return results;
      });
  markApproximate(weights.narrow);
  SmallVector<Value> state = accumulate(block, groups, weights, /*factors=*/{});
  for (unsigned component : rowSumWeights)
    state.push_back(weights.narrow[llvm::find(groups, groupOf(component)) -
                                   groups.begin()]);
  return state;
}

/// Weights are exp2(stat * k), none of them too large: nothing is rescaled.
SmallVector<Value> ReductionKernel::stepFixed(RowBlock &block,
                                              ArrayRef<Value> lifted,
                                              ArrayRef<WeightGroup> groups) {
  Value k = scaleToBase();
  Weights weights =
      mapWeights(block, lifted, groups, [&](Value, Value, ValueRange x) {
        Value exponent = arith::MulFOp::create(b, loc, x[0], k);
        Value power =
            math::Exp2Op::create(b, loc, exponent, arith::FastMathFlags::afn);
        return SmallVector<Value>(groups.size(), power);
      });
  SmallVector<Value> state(ArrayRef(block.state).take_front(numStats()));
  state.append(accumulate(block, groups, weights, /*factors=*/{}));
  return state;
}

/// The score that a statistic stands for, a finite one where it is dead.
Value ReductionKernel::finiteScore(Value stat) {
  // A NaN need not come through: the factor is one, too.
  auto clamp = [&](Value x) -> Value {
    return arith::MaxNumFOp::create(b, loc, x,
                                    f32(-std::numeric_limits<float>::max()));
  };
  if (!form.unit)
    return clamp(stat);
  // A product with what is no more than 1 stays finite.
  bool shrinks = isConstantFloat(form.unit, [](const APFloat &unit) {
    return unit.convertToFloat() <= 1.0f;
  });
  Value score =
      arith::MulFOp::create(b, loc, shrinks ? clamp(stat) : stat, form.unit);
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

SmallVector<Value> ReductionKernel::stepCocycle(RowBlock &block,
                                                ArrayRef<Value> dots) {
  unsigned n = numStats();
  SmallVector<WeightGroup> groups = weightGroups();
  // Weights that need the score are computed with the statistics, each once
  // whatever factors it meets.
  SmallVector<bool> early;
  llvm::SmallSetVector<Value, 4> earlyWeights;
  for (WeightGroup group : groups) {
    ValueRange all = getYielded(monoid.getLift()).drop_front(n);
    size_t i = llvm::find(all, group.first) - all.begin();
    early.push_back(!form.uniformWeight[i] && !form.weighsLate &&
                    earlyWeights.insert(group.first));
  }
  auto lift = [&]() -> SmallVector<Value> {
    if ((form.dotIsStat && !block.tile.masked) || block.tile.linear)
      return {dots[0]};
    SmallVector<Value> lifted = mapLift(block, dots, groups, early);
    markApproximate(lifted);
    return lifted;
  };
  SmallVector<Value> lifted;
  if (Value whole = block.tile.whole) {
    bool masked = std::exchange(block.tile.masked, false);
    SmallVector<Type> types(n, scoreTile());
    for (bool too : early)
      if (too)
        types.push_back(scoreTile());
    lifted = choose(whole, types, lift, [&] {
      block.tile.masked = masked;
      return lift();
    });
  } else {
    lifted = lift();
  }
  if (fixedAnchor)
    return stepFixed(block, lifted, groups);
  RowFactors row =
      rescaleRows(block, reduceStats(ArrayRef(lifted).take_front(n)));
  if (row.far)
    anchorFarRows(block, row, lifted[0]);

  SmallVector<Value> inputs(lifted);
  if (form.exponential)
    inputs.push_back(row.offset);
  else
    inputs.append(row.stats);
  if (row.k)
    inputs.push_back(row.k);
  Value k = scaleToBase();
  if (block.tile.linear)
    k = linear.scaleLog2;
  Weights weights =
      mapWeights(block, inputs, groups, [&](Value, Value, ValueRange x) {
        ValueRange from = x.take_front(n);
        ValueRange computed = x.slice(n, lifted.size() - n);
        ValueRange to = x.drop_front(lifted.size());
        SmallVector<Value> own;
        Value dead;
        if (form.exponential) {
          own = {exponential(from[0], to[0], row.k ? to[1] : k,
                             /*isWeight=*/true)};
        } else {
          own = factorsTo(from, to);
          dead = isIdentity(from);
        }
        SmallVector<Value> results;
        for (WeightGroup group : groups) {
          Value weight, factor = own[group.second];
          if (earlyWeights.contains(group.first)) {
            weight = computed[llvm::find(earlyWeights, group.first) -
                              earlyWeights.begin()];
          } else {
            RegionCloner cloner(b);
            Region &lift = monoid.getLift();
            if (form.weighsLate)
              cloner.map(lift.getArgument(0), finiteScore(from[0]));
            cloner.map(lift.getArguments().drop_front(monoid.getNumScores()),
                       params());
            weight = cloner.get(group.first);
            if (form.weighsLate)
              weight = mergeScale(b, loc, weight);
          }
          bool one = isConstantFloat(
              weight, [](const APFloat &w) { return w.isExactlyValue(1.0); });
          Value product =
              one ? factor
                  : arith::MulFOp::create(b, loc, weight, factor).getResult();
          results.push_back(dead ? select(dead, f32(0.0f), product) : product);
        }
        return results;
      });
  SmallVector<Value> state(row.stats);
  state.append(accumulate(block, groups, weights, row.factors));
  return state;
}

/// The factor that a key's weight takes from the gates with statistics `stats`.
/// On a CPU, 0 takes the place of what is below 2^-116: its products with
/// weights and values would be too small for normal numbers, which makes each
/// of them take a hundred times as long (docs/performance/cpu.md).
Value ReductionKernel::gate(ValueRange stats) {
  constexpr int leastPower = -116;
  Value gate = call(monoid.getGate(), stats).front();
  if (isGpu())
    return gate;
  Operation *root = gate.getDefiningOp();
  if (isa_and_nonnull<math::ExpOp, math::Exp2Op>(root)) {
    root->setAttr(tile::TileDialect::leastPowerName,
                  b.getI32IntegerAttr(leastPower));
    return gate;
  }
  Value isSmall = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT,
                                        math::AbsFOp::create(b, loc, gate),
                                        f32(std::ldexp(1.0f, leastPower)));
  return select(isSmall, f32(0.0f), gate);
}

/// Suffix: later keys gate earlier ones. Prefix: the other way round.
SmallVector<Value> ReductionKernel::stepGated(RowBlock &block,
                                              ArrayRef<Value> dots) {
  unsigned n = numStats();
  bool suffix = monoid.getKind() == MonoidKind::suffix;
  SmallVector<WeightGroup> groups = weightGroups();
  SmallVector<Value> lifted =
      mapLift(block, dots, groups, SmallVector<bool>(groups.size(), true));
  ArrayRef<Value> stats = ArrayRef(lifted).take_front(n);
  SmallVector<Value> tileStats = reduceStats(stats);
  SmallVector<Value> between =
      scan(stats, identityStats(), /*reverse=*/suffix,
           [&](ValueRange x, ValueRange y) { return combine(x, y); });

  SmallVector<Value> inputs = between;
  inputs.append(lifted.begin() + n, lifted.end());
  ArrayRef<Value> oldStats = ArrayRef(block.state).take_front(n);
  if (!suffix)
    inputs.append(oldStats.begin(), oldStats.end());
  Weights weights =
      mapWeights(block, inputs, groups, [&](Value, Value, ValueRange x) {
        SmallVector<Value> passed(x.take_front(n));
        ValueRange own = x.slice(n, groups.size());
        if (!suffix)
          passed = combine(x.drop_front(n + groups.size()), passed);
        Value factor = gate(passed);
        SmallVector<Value> results;
        for (Value weight : own)
          results.push_back(arith::MulFOp::create(b, loc, weight, factor));
        return results;
      });

  SmallVector<Value> rowInputs(oldStats);
  rowInputs.append(tileStats);
  SmallVector<Type> rowTypes;
  for (Value stat : oldStats)
    rowTypes.push_back(stat.getType());
  if (suffix)
    rowTypes.push_back(rowTile());
  SmallVector<Value> state =
      map(rowInputs, rowTypes, [&](Value, Value, ValueRange x) {
        SmallVector<Value> results = combine(x.take_front(n), x.drop_front(n));
        if (suffix)
          results.push_back(gate(x.drop_front(n)));
        return results;
      });
  SmallVector<Value> factors;
  if (suffix)
    factors.push_back(state.pop_back_val());
  state.append(accumulate(block, groups, weights, factors));
  return state;
}

bool mlir::attn::foldsKeys(ReductionOpInterface op, MonoidOp monoid) {
  constexpr size_t mostOperations = 48;
  return monoid.isGeneral() &&
         (!op.getValueOperands().empty() ||
          size_t(llvm::range_size(monoid.getCombine().front())) >
              mostOperations);
}

/// A general monoid without values: all keys of the tile are lifted at once,
/// where their scores are, and their product enters the state.
SmallVector<Value> ReductionKernel::stepScalars(RowBlock &block,
                                                ArrayRef<Value> dots) {
  SmallVector<Value> identity = call(monoid.getIdentity(), {});
  SmallVector<Type> tiles(identity.size(), scoreTile());
  SmallVector<Value> inputs = withLoaded(block, dots);
  SmallVector<Value> lifted =
      map(inputs, tiles, [&](Value row, Value col, ValueRange x) {
        x = takeLoaded(block, x, dots.size());
        Value alive = liveByMask(block, row, col);
        SmallVector<Value> s = scores(block, row, col, x);
        alive = liveByScore(s, alive);
        s.push_back(add(block.keyBase, col));
        SmallVector<Value> state = call(monoid.getLift(), s);
        if (alive)
          for (auto [part, none] : llvm::zip_equal(state, identity))
            part = select(alive, part, none);
        return state;
      });
  SmallVector<Value> product =
      reduce(lifted, identity, form.ordered,
             [&](ValueRange x, ValueRange y) { return combine(x, y); });
  SmallVector<Value> both(block.state);
  llvm::append_range(both, product);
  SmallVector<Type> rows(identity.size(), rowTile());
  return map(both, rows, [&](Value, Value, ValueRange x) {
    return combine(x.take_front(identity.size()),
                   x.drop_front(identity.size()));
  });
}

/// The element path: every key is lifted and multiplied in, but for those that
/// a threshold says change nothing.
SmallVector<Value> ReductionKernel::stepGeneral(RowBlock &block,
                                                ArrayRef<Value> dots) {
  SmallVector<Type> types(monoid.getNumScores(), scoreTile());
  types.push_back(tileType(schedule.getRows(), keyCols(), b.getI1Type()));
  SmallVector<Value> mapped =
      map(dots, types, [&](Value row, Value col, ValueRange x) {
        Value alive = liveByMask(block, row, col);
        SmallVector<Value> s = scores(block, row, col, x);
        alive = liveByScore(s, alive);
        s.push_back(alive ? alive
                          : arith::ConstantIntOp::create(b, loc, true, 1));
        return s;
      });
  Value alive = mapped.pop_back_val();
  SmallVector<Type> stateTypes;
  for (Value part : block.state)
    stateTypes.push_back(part.getType());
  auto fold = tile::FoldOp::create(b, loc, stateTypes, mapped, block.values,
                                   alive, block.state);
  // Of longer tiles in registers the scores were not right on a GPU
  // (docs/performance/gpu-masks.md, "Selections").
  constexpr int64_t mostKeys = 32;
  if (std::optional<unsigned> state = findThreshold(monoid);
      state && (!isGpu() || keyCols() <= mostKeys))
    tile::setThreshold(fold, *state);
  OpBuilder::InsertionGuard guard(b);
  Block *body = b.createBlock(&fold.getBody());
  body->addArgument(b.getI32Type(), loc);
  Value col = body->addArgument(b.getI32Type(), loc);
  SmallVector<Value> inputs;
  auto addElements = [&](ValueRange tiles) {
    SmallVector<Value> elements;
    for (Value tile : tiles)
      elements.push_back(body->addArgument(
          cast<tile::TileType>(tile.getType()).getElementType(), loc));
    return elements;
  };
  inputs.append(addElements(mapped));
  inputs.append(addElements(block.values));
  SmallVector<Value> state = addElements(block.state);
  inputs.push_back(add(block.keyBase, col));
  SmallVector<Value> lifted = call(monoid.getLift(), inputs);
  tile::YieldOp::create(b, loc, combine(state, lifted));
  return fold.getResults();
}
