//===- TileForm.cpp - How the exponentials of a kernel are computed -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StateUses.h"
#include "TileSteps.h"
#include "attn/Analysis/Laws.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::attn;

void mlir::attn::readForm(ReductionContext &ctx) {
  Region &lift = ctx.monoid.getLift();
  ctx.form.uniformWeight.clear();
  if (!ctx.monoid.isGeneral())
    for (Value weight : getYielded(lift).drop_front(ctx.numStats()))
      ctx.form.uniformWeight.push_back(llvm::none_of(
          lift.getArguments().take_front(ctx.monoid.getNumScores()),
          [&](Value score) { return dependsOn(weight, score); }));
  std::shared_ptr<const ::attn::LawReport> laws = ::attn::checkLaws(ctx.monoid);
  ctx.form.ordered = !laws || !laws->combineCommutes;
  ctx.form.shortWeights =
      findWeightRounding(ctx.reduction, {ctx.narrowDots, ctx.narrowValues,
                                         ctx.tf32}) == WeightRounding::all;
  ctx.form.deadIsNatural =
      (laws && laws->deadIsNatural && !ctx.monoid.isGeneral()) ||
      ctx.reduction.getDeadIsZero();

  ctx.form.byQuotient = weighsByQuotient(ctx.monoid);
  ctx.form.dividendIsStat = dividendIsStatistic(ctx.monoid);
  std::optional<float> base = exponentialBase(ctx.monoid);
  if (!base)
    return;
  ctx.form.base = *base;
  ctx.form.exponential = isOnline(ctx.reduction);
  ctx.form.fused = fusesExponent(ctx.reduction);
  ctx.form.weighsLate =
      ctx.form.exponential && weightsFollowStatistic(ctx.monoid);
  if (!scoreIsStatistic(ctx.monoid) && !ctx.form.weighsLate)
    return;
  if (ctx.form.exponential) {
    ctx.form.distances = findDistances(ctx.monoid);
    ctx.form.atMaximum = sumsAreAtMaximum(ctx.op, ctx.monoid);
  }
  ctx.form.deadIsNatural = true;
  ctx.form.dotIsStat = scoreIsDot(ctx.reduction);
  Region &score = ctx.reduction.getScoreBody();
  auto toUniform = [&](Value value) {
    return ctx.uniform(score, value, 1, ctx.reduction.getCaptureOperands());
  };
  // Of packed heads a factor of the head is not the same for all rows.
  if (ctx.reduction.getScoreUnit()) {
    StringRef why;
    auto scaled = findScaledScore(ctx.reduction, ctx.monoid, ctx.target,
                                  ctx.varying(score, 1, /*hasKey=*/true), why);
    if (scaled) {
      static_cast<ScoreUnit &>(ctx.form) =
          emitScoreUnit(ctx.b, ctx.loc, *scaled, ctx.form.base, toUniform);
      ctx.form.dotIsStat = scaled->isDot;
    }
  }
  if (ctx.reduction.getLinearBias())
    ctx.linear =
        emitLinearBias(ctx.b, ctx.loc, ctx.reduction, ctx.form.base,
                       ctx.varying(score, 1, /*hasKey=*/true), toUniform);
  FarTerms &far = ctx.linear.far;
  if (far.values.empty())
    return;
  // Rows of several heads have terms of their own.
  if (ctx.packsHeads || (far.isMeasured && !ctx.farDistances)) {
    ctx.linear = LinearBias();
    return;
  }
  if (!far.isMeasured)
    return;
  auto load = [&](int64_t side) -> Value {
    return memref::LoadOp::create(ctx.b, ctx.farDistances,
                                  {ctx.batch, ctx.head, ctx.index(side)});
  };
  // A call of few tiles has not looked.
  Value has = ctx.cmp(arith::CmpIPredicate::sgt, ctx.dim(ctx.farDistances, 0),
                      ctx.index(0));
  Value never = ctx.i32(1 << 30);
  SmallVector<Value> found = stepIf(
      ctx, has, {never, never},
      [&] { return SmallVector<Value>{load(0), load(1)}; }, nullptr);
  ctx.linear.farBehind = found[0];
  ctx.linear.farAhead = found[1];
}
