//===- FoldScale.cpp - A maximum in units of the dot ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of a score s * x with s > 0, max(s * x) = s * max(x): the maximum is held in
// units of x, and the exponential's k takes s. No element is multiplied by it.
// The sign of a run-time factor goes into the queries where x is the dot, and
// into x where that is another function of it, such as a tanh.
//
//===----------------------------------------------------------------------===//

#include "MarkReductions.h"
#include "NamedRewrites.h"
#include "StateUses.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"

#define DEBUG_TYPE "attn-fold-scale"

namespace attn {
#define GEN_PASS_DEF_ATTNFOLDSCALEPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

/// Factors of a score that statistics may be held in units of: with them and
/// log2(e) products and quotients of ordinary scores stay normal numbers.
static constexpr float leastUnit = 1e-30f, greatestUnit = 2e38f;

llvm::DenseSet<Value> mlir::attn::findVarying(Region &region,
                                              unsigned firstPosition,
                                              bool hasKey, bool headVaries) {
  llvm::DenseSet<Value> values;
  // Scores or states come before the positions b, h, i, j.
  for (unsigned i = 0; i < firstPosition; ++i)
    values.insert(region.getArgument(i));
  if (headVaries)
    values.insert(region.getArgument(firstPosition + 1));
  values.insert(region.getArgument(firstPosition + 2));
  if (hasKey)
    values.insert(region.getArgument(firstPosition + 3));
  for (Operation &inner : region.front())
    // An op of several results is copied in place, which is always right.
    if (inner.getNumResults() > 1 ||
        llvm::any_of(inner.getOperands(),
                     [&](Value v) { return values.contains(v); }))
      values.insert(inner.result_begin(), inner.result_end());
  return values;
}

std::optional<ScaledScore> mlir::attn::findScaledScore(
    ReductionOpInterface op, MonoidOp monoid, const ::attn::TargetInfo &target,
    const llvm::DenseSet<Value> &varies, StringRef &whyNot) {
  auto refuse = [&](StringRef why) {
    whyNot = why;
    return std::nullopt;
  };
  if (!isOnline(op))
    return refuse("it is not in online form");
  if (scoreIsDot(op))
    return refuse("its score is the dot");
  if (op.getQueryOperands().size() != 1)
    return refuse("its score has several dots");
  Region &score = op.getScoreBody();
  auto product = getYielded(score).front().getDefiningOp<arith::MulFOp>();
  if (!product)
    return refuse("its score is no product");
  std::pair<Value, Value> orders[] = {{product.getLhs(), product.getRhs()},
                                      {product.getRhs(), product.getLhs()}};
  for (auto [dot, factor] : orders) {
    if (dot != score.getArgument(0))
      continue;
    ScaledScore found = {dot, factor, /*isDot=*/true, std::nullopt};
    APFloat constant(0.0f);
    if (matchPattern(factor, m_ConstantFloat(&constant))) {
      found.constant = constant.convertToFloat();
      if (!(*found.constant >= leastUnit && *found.constant <= greatestUnit))
        return refuse("its factor is not positive, too small or too large");
      return found;
    }
    if (varies.contains(factor) || !factor.getType().isF32())
      return refuse("its factor is not the same f32 number for all pairs");
    return found;
  }
  // The product of another function of the dot saves its share of an element's
  // work where that is all a GPU's arithmetic units do.
  ProductTypes types = findProductTypes(op, monoid, target);
  if (target.isCpu() || !fusesExponent(op) ||
      findWeightRounding(op, types) != WeightRounding::all)
    return refuse("its factor is not the dot's, which helps GPUs alone, and "
                  "weights that are rounded to 16 bits");
  for (auto [x, factor] : orders)
    if (!varies.contains(factor) && varies.contains(x))
      return ScaledScore{x, factor, /*isDot=*/false, /*constant=*/{}};
  return refuse("no factor of it is the same for all pairs");
}

StringRef mlir::attn::whyNotScaled(ReductionOpInterface op, MonoidOp monoid,
                                   const ::attn::TargetInfo &target) {
  llvm::DenseSet<Value> varies;
  if (!op.getScoreBody().empty())
    varies = findVarying(op.getScoreBody(), op.getQueryOperands().size(),
                         /*hasKey=*/true, /*headVaries=*/false);
  StringRef why;
  findScaledScore(op, monoid, target, varies, why);
  return why;
}

ScoreUnit mlir::attn::emitScoreUnit(OpBuilder &b, Location loc,
                                    const ScaledScore &score, float base,
                                    UniformFn uniform) {
  using Predicate = arith::CmpFPredicate;
  auto f32 = [&](float value) -> Value {
    return arith::ConstantFloatOp::create(b, loc, b.getF32Type(),
                                          APFloat(value));
  };
  ScoreUnit held;
  if (score.constant) {
    held.unit = f32(*score.constant);
    held.scaleLog2 = f32(*score.constant * base);
    return held;
  }
  Value scale = uniform(score.factor);
  Value magnitude = math::AbsFOp::create(b, loc, scale);
  if (!score.isDot) {
    held.unit = arith::MaxNumFOp::create(b, loc, magnitude, f32(leastUnit));
    held.unit = arith::MinNumFOp::create(b, loc, held.unit, f32(greatestUnit));
    held.scaleLog2 = arith::MulFOp::create(b, loc, held.unit, f32(base));
    held.sign = math::CopySignOp::create(b, loc, f32(1.0f), scale);
    held.inUnits = score.x;
    return held;
  }
  // The queries take a factor that is no unit (0, NaN) as a whole: scores of
  // -inf stay what they are.
  Value isUnit = arith::AndIOp::create(
      b, loc,
      arith::CmpFOp::create(b, loc, Predicate::OGE, magnitude, f32(leastUnit)),
      arith::CmpFOp::create(b, loc, Predicate::OLE, magnitude,
                            f32(greatestUnit)));
  auto select = [&](Value yes, Value no) -> Value {
    return arith::SelectOp::create(b, loc, isUnit, yes, no);
  };
  held.unit = select(magnitude, f32(1.0f));
  held.scaleLog2 = arith::MulFOp::create(b, loc, held.unit, f32(base));
  held.queryFactor =
      select(math::CopySignOp::create(b, loc, f32(1.0f), scale), scale);
  return held;
}

namespace {
struct FoldScalePass : ::attn::impl::AttnFoldScalePassBase<FoldScalePass> {
  using AttnFoldScalePassBase::AttnFoldScalePassBase;

  void runOnOperation() final {
    std::optional<MarkCounts> counts = markReductions(
        getOperation(), explain,
        {"maximum in units of the score: ",
         [](ReductionOpInterface op) { return op.getScoreUnit(); },
         whyNotScaled, [](ReductionOpInterface op) { op.setScoreUnit(true); }});
    if (!counts)
      return signalPassFailure();
    numFolded += counts->marked;
    numKept += counts->kept;
  }
};
} // namespace
