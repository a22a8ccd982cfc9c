//===- TileGatedSteps.cpp - Keys that others gate -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The weight of a key in a `suffix` monoid depends on the keys behind it, in a
// `prefix` monoid on those before it, in an `affine` one on both. Scans of each
// row find what these come to; sums over keys are matrix products again.
//
//===----------------------------------------------------------------------===//

#include "TileElements.h"
#include "TileSteps.h"
#include "TileWeights.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;
using namespace mlir::attn;

/// The power of 2 below which factors of weights are 0 on a CPU.
static constexpr int leastPower = -116;

static Value dropSmall(ReductionContext &ctx, Value factor) {
  Value isSmall = arith::CmpFOp::create(ctx.b, arith::CmpFPredicate::OLT,
                                        math::AbsFOp::create(ctx.b, factor),
                                        ctx.f32(std::ldexp(1.0f, leastPower)));
  return ctx.select(isSmall, ctx.f32(0.0f), factor);
}

/// The factor that a key's weight takes from the gates with statistics `stats`.
/// On a CPU, 0 takes the place of what is below 2^-116: its products with
/// weights and values would be too small for normal numbers, which makes each
/// of them take a hundred times as long (docs/performance/cpu.md).
static Value gate(ReductionContext &ctx, ValueRange stats) {
  Value gate = ctx.call(ctx.monoid.getGate(), stats).front();
  if (isGpu(ctx))
    return gate;
  Operation *root = gate.getDefiningOp();
  if (isa_and_nonnull<math::ExpOp, math::Exp2Op>(root)) {
    root->setAttr(tile::TileDialect::leastPowerName,
                  ctx.b.getI32IntegerAttr(leastPower));
    return gate;
  }
  return dropSmall(ctx, gate);
}

SmallVector<Value> mlir::attn::stepGated(ReductionContext &ctx, RowBlock &block,
                                         ArrayRef<Value> dots) {
  unsigned n = ctx.numStats();
  bool suffix = ctx.monoid.getKind() == MonoidKind::suffix;
  SmallVector<WeightGroup> groups = weightGroups(ctx);
  SmallVector<Value> lifted =
      mapLift(ctx, block, dots, groups, SmallVector<bool>(groups.size(), true));
  ArrayRef<Value> stats = ArrayRef(lifted).take_front(n);
  SmallVector<Value> tileStats = reduceStats(ctx, stats);
  SmallVector<Value> between =
      ctx.scan(stats, ctx.identityStats(), /*reverse=*/suffix,
               [&](ValueRange x, ValueRange y) { return ctx.combine(x, y); });

  SmallVector<Value> inputs = between;
  inputs.append(lifted.begin() + n, lifted.end());
  ArrayRef<Value> oldStats = ArrayRef(block.state).take_front(n);
  if (!suffix)
    inputs.append(oldStats.begin(), oldStats.end());
  Weights weights =
      mapWeights(ctx, block, inputs, groups, [&](Value, Value, ValueRange x) {
        SmallVector<Value> passed(x.take_front(n));
        ValueRange own = x.slice(n, groups.size());
        if (!suffix)
          passed = ctx.combine(x.drop_front(n + groups.size()), passed);
        Value factor = gate(ctx, passed);
        SmallVector<Value> results;
        for (Value weight : own)
          results.push_back(arith::MulFOp::create(ctx.b, weight, factor));
        return results;
      });

  SmallVector<Value> rowInputs(oldStats);
  rowInputs.append(tileStats);
  SmallVector<Type> rowTypes;
  for (Value stat : oldStats)
    rowTypes.push_back(stat.getType());
  if (suffix)
    rowTypes.push_back(rowTile(ctx));
  SmallVector<Value> state =
      ctx.map(rowInputs, rowTypes, [&](Value, Value, ValueRange x) {
        SmallVector<Value> results =
            ctx.combine(x.take_front(n), x.drop_front(n));
        if (suffix)
          results.push_back(gate(ctx, x.drop_front(n)));
        return results;
      });
  SmallVector<Value> factors;
  if (suffix)
    factors.push_back(state.pop_back_val());
  state.append(accumulate(ctx, block, groups, weights, factors));
  return state;
}

SmallVector<Value> mlir::attn::stepAffine(ReductionContext &ctx,
                                          RowBlock &block,
                                          ArrayRef<Value> dots) {
  unsigned n = ctx.numStats();
  SmallVector<WeightGroup> groups = weightGroups(ctx);
  SmallVector<Value> lifted =
      mapLift(ctx, block, dots, groups, SmallVector<bool>(groups.size(), true));
  ArrayRef<Value> stats = ArrayRef(lifted).take_front(n);
  SmallVector<Value> tileStats = reduceStats(ctx, stats);
  auto scan = [&](bool reverse) {
    return ctx.scan(
        stats, ctx.identityStats(), reverse,
        [&](ValueRange x, ValueRange y) { return ctx.combine(x, y); });
  };
  SmallVector<Value> inputs(lifted);
  llvm::append_range(inputs, scan(/*reverse=*/false));
  llvm::append_range(inputs, scan(/*reverse=*/true));
  ArrayRef<Value> oldStats = ArrayRef(block.state).take_front(n);
  llvm::append_range(inputs, oldStats);
  Weights weights =
      mapWeights(ctx, block, inputs, groups, [&](Value, Value, ValueRange x) {
        ValueRange own = x.take_front(n), weight = x.slice(n, groups.size());
        x = x.drop_front(n + groups.size());
        ValueRange before = x.take_front(n), behind = x.slice(n, n),
                   old = x.drop_front(2 * n);
        Value inRest = ctx.affineFactors(own, behind).first;
        Value ofRest = ctx.affineFactors(ctx.combine(old, before),
                                         ctx.combine(own, behind))
                           .second;
        Value factor = arith::MulFOp::create(ctx.b, inRest, ofRest);
        if (!isGpu(ctx))
          factor = dropSmall(ctx, factor);
        return llvm::map_to_vector(weight, [&](Value one) -> Value {
          return arith::MulFOp::create(ctx.b, one, factor);
        });
      });

  SmallVector<Value> rowInputs(oldStats);
  rowInputs.append(tileStats);
  SmallVector<Type> rowTypes;
  for (Value stat : oldStats)
    rowTypes.push_back(stat.getType());
  rowTypes.push_back(rowTile(ctx));
  SmallVector<Value> state =
      ctx.map(rowInputs, rowTypes, [&](Value, Value, ValueRange x) {
        ValueRange old = x.take_front(n), tile = x.drop_front(n);
        SmallVector<Value> results = ctx.combine(old, tile);
        results.push_back(ctx.affineFactors(old, tile).first);
        return results;
      });
  SmallVector<Value> factors = {state.pop_back_val()};
  state.append(accumulate(ctx, block, groups, weights, factors));
  return state;
}
