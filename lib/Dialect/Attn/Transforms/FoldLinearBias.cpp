//===- FoldLinearBias.cpp - Scores that grow evenly from key to key -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where a score is k * dot + rest, and from key to key of a tile the rest grows
// by a, the same for all rows, the score of the tile's column c is
//
//   k * (dot + c * a / k) + rest at the first key
//
// so the tile's product takes c * a / k in (tile.dot's ramp), and the rest
// belongs to the row: a maximum commutes with adding it, and the exponent's
// offset takes it. Nothing is left to do for each score.
//
// k and a are slopes: the derivatives of the score region by the dot and by the
// key, found by the rules for sums and products with uniform values. The size
// |d| of a number d that grows evenly has the slope of d or its negative, by
// the sign of d: tiles on either side of where that changes are linear, those
// it changes in are not. Where it changes, the analysis of the mask d >= 0
// tells.
//
//===----------------------------------------------------------------------===//

#include "MarkReductions.h"
#include "NamedRewrites.h"
#include "TileKernel.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#define DEBUG_TYPE "attn-fold-linear-bias"

namespace attn {
#define GEN_PASS_DEF_ATTNFOLDLINEARBIASPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Slopes
//===----------------------------------------------------------------------===//

namespace {

/// Reads slopes off a score region. A slope is a uniform f32, null for 0.
class SlopeReader {
public:
  SlopeReader(OpBuilder &b, Location loc, Value key,
              const llvm::DenseSet<Value> &varies,
              llvm::function_ref<Value(Value)> uniform)
      : b(b), loc(loc), key(key), varies(varies), uniform(uniform) {}

  /// The slope of `value` by `variable`, where distances are not negative, or
  /// with `negative` are.
  FailureOr<Value> slope(Value value, Value variable, bool negative);

  /// The distance: the one integer that becomes a float and depends on the
  /// key. What it grows by from key to key, and whether its size is taken.
  Value distance;
  int64_t step = 0;
  bool hasSize = false;

private:
  FailureOr<Value> slopeOfDistance(Value value, bool isSize, bool negative);
  std::optional<int64_t> stepOf(Value value);
  Value constant(float value) {
    return arith::ConstantFloatOp::create(b, loc, b.getF32Type(),
                                          APFloat(value));
  }

  OpBuilder &b;
  Location loc;
  Value key;
  const llvm::DenseSet<Value> &varies;
  llvm::function_ref<Value(Value)> uniform;
};

} // namespace

/// What an integer grows by from key to key, if that is a constant.
std::optional<int64_t> SlopeReader::stepOf(Value value) {
  if (value == key)
    return 1;
  if (!dependsOn(value, key))
    return 0;
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op) ||
      !value.getType().isInteger(32))
    return std::nullopt;
  auto x = stepOf(op->getOperand(0)), y = stepOf(op->getOperand(1));
  // Larger steps than this would reach beyond 32 bits within a tile.
  constexpr int64_t most = 1 << 20;
  if (!x || !y || std::abs(*x) > most || std::abs(*y) > most)
    return std::nullopt;
  if (isa<arith::AddIOp>(op))
    return *x + *y;
  if (isa<arith::SubIOp>(op))
    return *x - *y;
  APInt factor;
  for (auto [step, other] :
       {std::pair(*x, op->getOperand(1)), std::pair(*y, op->getOperand(0))})
    if (matchPattern(other, m_ConstantInt(&factor)) &&
        std::abs(factor.getSExtValue()) <= most)
      return step * factor.getSExtValue();
  return std::nullopt;
}

FailureOr<Value> SlopeReader::slopeOfDistance(Value value, bool isSize,
                                              bool negative) {
  if (auto size = value.getDefiningOp<math::AbsIOp>()) {
    value = size.getOperand();
    isSize = true;
  }
  std::optional<int64_t> grows = stepOf(value);
  if (!grows || !*grows || (distance && distance != value))
    return failure();
  distance = value;
  step = *grows;
  hasSize |= isSize;
  return constant(isSize && negative ? -step : step);
}

FailureOr<Value> SlopeReader::slope(Value value, Value variable,
                                    bool negative) {
  if (!dependsOn(value, variable))
    return Value();
  if (value == variable)
    return constant(1.0f);
  Operation *op = value.getDefiningOp();
  if (!value.getType().isF32())
    return failure();
  auto of = [&](Value x) { return slope(x, variable, negative); };
  auto negated = [&](FailureOr<Value> x) -> FailureOr<Value> {
    if (failed(x) || !*x)
      return x;
    return Value(arith::NegFOp::create(b, loc, *x));
  };
  auto sum = [&](FailureOr<Value> x, FailureOr<Value> y) -> FailureOr<Value> {
    if (failed(x) || failed(y))
      return failure();
    if (!*x || !*y)
      return *x ? x : y;
    return Value(arith::AddFOp::create(b, loc, *x, *y));
  };
  auto product = [&](Value x, Value y) -> FailureOr<Value> {
    if (varies.contains(y))
      std::swap(x, y);
    FailureOr<Value> slope = of(x);
    if (varies.contains(y) || failed(slope))
      return failure();
    return *slope ? Value(arith::MulFOp::create(b, loc, *slope, uniform(y)))
                  : Value();
  };
  return TypeSwitch<Operation *, FailureOr<Value>>(op)
      .Case([&](arith::SIToFPOp o) {
        return slopeOfDistance(o.getIn(), /*isSize=*/false, negative);
      })
      .Case([&](math::AbsFOp o) -> FailureOr<Value> {
        if (auto from = o.getOperand().getDefiningOp<arith::SIToFPOp>())
          return slopeOfDistance(from.getIn(), /*isSize=*/true, negative);
        return failure();
      })
      .Case([&](arith::NegFOp o) { return negated(of(o.getOperand())); })
      .Case(
          [&](arith::AddFOp o) { return sum(of(o.getLhs()), of(o.getRhs())); })
      .Case([&](arith::SubFOp o) {
        return sum(of(o.getLhs()), negated(of(o.getRhs())));
      })
      .Case([&](arith::MulFOp o) { return product(o.getLhs(), o.getRhs()); })
      .Case([&](math::FmaOp o) {
        return sum(product(o.getA(), o.getB()), of(o.getC()));
      })
      .Case([&](arith::DivFOp o) -> FailureOr<Value> {
        FailureOr<Value> slope = of(o.getLhs());
        if (varies.contains(o.getRhs()) || failed(slope))
          return failure();
        return *slope ? Value(arith::DivFOp::create(b, loc, *slope,
                                                    uniform(o.getRhs())))
                      : Value();
      })
      .Default([](Operation *) { return failure(); });
}

namespace {
/// What the scores of a reduction grow by.
struct Slopes {
  /// By the dot; and from key to key, ahead of the distance's zero and behind
  /// it: null for 0.
  Value dot, ahead, behind;
  /// The distance, null for none, and what it grows by.
  Value distance;
  int64_t step = 0;
  bool hasSize = false;
};
} // namespace

/// Builds the slopes of the score, or finds that it has none.
static std::optional<Slopes> emitSlopes(OpBuilder &b, Location loc,
                                        ReductionOpInterface op,
                                        const llvm::DenseSet<Value> &varies,
                                        UniformFn uniform) {
  Region &score = op.getScoreBody();
  Value root = getYielded(score).front();
  Value dot = score.getArgument(0), key = score.getArgument(4);
  SlopeReader reader(b, loc, key, varies, uniform);
  FailureOr<Value> k = reader.slope(root, dot, false);
  FailureOr<Value> ahead = reader.slope(root, key, false);
  FailureOr<Value> behind = reader.slope(root, key, true);
  if (failed(k) || !*k || failed(ahead) || failed(behind))
    return std::nullopt;
  return Slopes{*k,          *ahead,        *behind, reader.distance,
                reader.step, reader.hasSize};
}

//===----------------------------------------------------------------------===//
// The form of a reduction
//===----------------------------------------------------------------------===//

bool mlir::attn::growsEvenly(ReductionOpInterface op) {
  Region &score = op.getScoreBody();
  if (score.empty() || op.getQueryOperands().size() != 1 ||
      score.front().getTerminator()->getNumOperands() != 1)
    return false;
  Region scratch;
  OpBuilder b(op.getContext());
  b.createBlock(&scratch);
  llvm::DenseSet<Value> varies =
      findVarying(score, 1, /*hasKey=*/true, /*headVaries=*/false);
  std::optional<Slopes> slopes =
      emitSlopes(b, op.getLoc(), op, varies, [](Value x) { return x; });
  return slopes && (slopes->ahead || slopes->behind);
}

StringRef mlir::attn::whyNotLinear(ReductionOpInterface op, MonoidOp monoid,
                                   const ::attn::TargetInfo &target) {
  constexpr int64_t mostColumns = 256;
  if (!fusesExponent(op))
    return "its exponents are not multiply-adds (attn-online-form)";
  if (scoreIsDot(op) || op.getQueryOperands().size() != 1)
    return "its score is the dot, or of several dots";
  Region &score = op.getScoreBody();
  if (getYielded(score).front().getDefiningOp<arith::MulFOp>())
    return "its score is a product (attn-fold-scale)";
  if (op.isBatchInvariant())
    return "which tiles are whole depends on the rows beside a row";
  // Matrix units of warpgroups take ramps in; whole tiles have to be peeled.
  ScheduleAttr schedule = op.getScheduleAttribute();
  if (target.isCpu() || !target.hasRoles() || !schedule ||
      schedule.getRows() != target.productShape().m ||
      !findProductTypes(op, monoid, target).dots)
    return "its products are not those of warpgroups";
  int64_t columns = ::attn::paddedKeys(schedule.getBlockK(), target);
  if (schedule.getLoop() != LoopShape::peeled ||
      columns != schedule.getBlockK() || columns > mostColumns ||
      whyNotListed(op, monoid, target).empty())
    return "its whole tiles are not peeled";
  if (hasGroup(op))
    return "it reduces the queries of several heads";
  Region scratch;
  OpBuilder b(op.getContext());
  b.createBlock(&scratch);
  llvm::DenseSet<Value> varies =
      findVarying(score, 1, /*hasKey=*/true, /*headVaries=*/false);
  if (!emitSlopes(b, op.getLoc(), op, varies, [](Value x) { return x; }))
    return "its score does not grow evenly from key to key";
  return {};
}

LinearBias mlir::attn::emitLinearBias(OpBuilder &b, Location loc,
                                      ReductionOpInterface op, float base,
                                      const llvm::DenseSet<Value> &varies,
                                      UniformFn uniform) {
  LinearBias bias;
  std::optional<Slopes> slopes = emitSlopes(b, loc, op, varies, uniform);
  if (!slopes)
    return bias;
  auto f32 = [&](float value) -> Value {
    return arith::ConstantFloatOp::create(b, loc, b.getF32Type(),
                                          APFloat(value));
  };
  Value k = slopes->dot;
  bias.applies = true;
  bias.scaleLog2 = arith::MulFOp::create(b, loc, k, f32(base));
  using Predicate = arith::CmpFPredicate;
  auto both = [&](Value x, Value y) {
    return arith::AndIOp::create(b, loc, x, y);
  };
  // Much steeper ramps leave nothing of the dots.
  constexpr float steepest = 65536.0f;
  bias.fits =
      both(arith::CmpFOp::create(b, loc, Predicate::OGE, k, f32(1e-30f)),
           arith::CmpFOp::create(b, loc, Predicate::OLE, k, f32(1e30f)));
  auto rampOf = [&](Value slope) -> Value {
    if (!slope)
      return {};
    Value ramp = arith::DivFOp::create(b, loc, slope, k);
    Value size = math::AbsFOp::create(b, loc, ramp);
    bias.fits = both(bias.fits, arith::CmpFOp::create(b, loc, Predicate::OLE,
                                                      size, f32(steepest)));
    return ramp;
  };
  Value ramps[] = {rampOf(slopes->ahead),
                   slopes->hasSize ? rampOf(slopes->behind) : Value()};
  bias.left = ramps[0];
  if (!slopes->distance)
    return bias;

  // The mask distance >= 0: where distances are negative, and whether any of
  // the region's integers wraps.
  Region &score = op.getScoreBody();
  bias.region = std::make_unique<Region>();
  Block *block = new Block();
  bias.region->push_back(block);
  block->addArguments(TypeRange(score.getArgumentTypes()).drop_front(),
                      SmallVector<Location>(score.getNumArguments() - 1, loc));
  OpBuilder inner(b.getContext());
  inner.setInsertionPointToEnd(block);
  RegionCloner cloner(inner);
  cloner.map(score.getArguments().drop_front(), block->getArguments());
  Value distance = cloner.get(slopes->distance);
  Value zero = arith::ConstantIntOp::create(inner, loc, b.getI32Type(), 0);
  Value positive = arith::CmpIOp::create(inner, loc, arith::CmpIPredicate::sge,
                                         distance, zero);
  YieldOp::create(inner, loc, positive);
  bias.distance = std::make_unique<::attn::MaskAnalysis>(*bias.region);
  if (!slopes->hasSize)
    return bias;
  bias.hasSides = true;
  bias.positiveFirst = slopes->step < 0;
  bias.left = ramps[bias.positiveFirst ? 0 : 1];
  bias.right = ramps[bias.positiveFirst ? 1 : 0];
  return bias;
}

//===----------------------------------------------------------------------===//
// Key tiles
//===----------------------------------------------------------------------===//

LinearRange mlir::attn::emitLinearRange(OpBuilder &b, Location loc,
                                        const LinearBias &bias,
                                        ::attn::MaskAnalysis::UniformFn uniform,
                                        Value firstRow, Value lastRow,
                                        Value numKeys) {
  LinearRange range{bias.fits, Value(), Value()};
  if (!bias.distance)
    return range;
  auto bounds =
      bias.distance->emitBounds(b, loc, uniform, firstRow, lastRow, numKeys);
  range.fits = arith::AndIOp::create(b, loc, range.fits, bounds.valid);
  if (!bias.hasSides)
    return range;
  // Distances grow evenly: on one side of a key all have its sign.
  auto unlessEmpty = [&](Value lower, Value upper, Value edge,
                         Value none) -> Value {
    Value isThere =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, lower, upper);
    return arith::SelectOp::create(b, loc, isThere, edge, none);
  };
  if (bias.positiveFirst) {
    Value zero = arith::ConstantIndexOp::create(b, loc, 0);
    range.end =
        unlessEmpty(bounds.coreLower, bounds.coreUpper, bounds.coreUpper, zero);
    range.start = unlessEmpty(bounds.lower, bounds.upper, bounds.upper, zero);
  } else {
    range.end = unlessEmpty(bounds.lower, bounds.upper, bounds.lower, numKeys);
    range.start = unlessEmpty(bounds.coreLower, bounds.coreUpper,
                              bounds.coreLower, numKeys);
  }
  return range;
}

Value LinearBias::ramp(OpBuilder &b, Location loc, Value isLeft) const {
  if (!left || !right)
    return left;
  return arith::SelectOp::create(b, loc, isLeft, left, right);
}

namespace {
struct FoldLinearBiasPass
    : ::attn::impl::AttnFoldLinearBiasPassBase<FoldLinearBiasPass> {
  using AttnFoldLinearBiasPassBase::AttnFoldLinearBiasPassBase;

  void runOnOperation() final {
    std::optional<MarkCounts> counts = markReductions(
        getOperation(), explain,
        {"no linear tiles: ",
         [](ReductionOpInterface op) { return op.getLinearBias(); },
         whyNotLinear,
         [](ReductionOpInterface op) { op.setLinearBias(true); }});
    if (!counts)
      return signalPassFailure();
    numLinear += counts->marked;
    numKept += counts->kept;
  }
};
} // namespace
