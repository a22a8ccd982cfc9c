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
// What is the same for all pairs that are far enough apart (Distances.h), as
// the element of a table by a distance with bounds, has the slope 0 there:
// tiles of such pairs alone are linear, and read it once for a block.
//
//===----------------------------------------------------------------------===//

#include "Distances.h"
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
  SlopeReader(OpBuilder &b, Location loc, BlockArgument row, BlockArgument key,
              bool measures, const llvm::DenseSet<Value> &varies,
              llvm::function_ref<Value(Value)> uniform)
      : b(b), loc(loc), row(row), key(key), measures(measures), varies(varies),
        uniform(uniform) {}

  /// The slope of `value` by `variable`, where distances are not negative, or
  /// with `negative` are.
  FailureOr<Value> slope(Value value, Value variable, bool negative);

  /// The distance: the one integer that becomes a float and depends on the
  /// key. What it grows by from key to key, and whether its size is taken.
  Value distance;
  int64_t step = 0;
  bool hasSize = false;
  /// What is the same for all pairs that are far apart.
  FarTerms far;

private:
  bool isFar(Value value);
  FailureOr<Value> slopeOfDistance(Value value, bool isSize, bool negative);
  std::optional<int64_t> stepOf(Value value);
  Value constant(float value) {
    return arith::ConstantFloatOp::create(b, loc, b.getF32Type(),
                                          APFloat(value));
  }

  OpBuilder &b;
  Location loc;
  BlockArgument row, key;
  bool measures;
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

/// Notes what is the same for all pairs that are far apart, on one side at
/// least, as the region tells of all such values, or as may be measured.
bool SlopeReader::isFar(Value value) {
  if (llvm::is_contained(far.values, value))
    return true;
  FarTerms both = far;
  both.values.push_back(value);
  for (bool isAhead : {false, true}) {
    std::optional<int64_t> &from = isAhead ? both.ahead : both.behind;
    std::optional<FarValue> own = findFarValue(value, row, key, isAhead);
    from =
        from && own ? std::optional(std::max(*from, own->from)) : std::nullopt;
  }
  both.isMeasured = !both.behind && !both.ahead;
  if (both.isMeasured && (!measures || !llvm::all_of(both.values, [&](Value v) {
        return isOfBoundedDistance(v, row, key);
      })))
    return false;
  far = both;
  return true;
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
  if (variable == key && isFar(value))
    return Value();
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
  FarTerms far;
};
} // namespace

/// Builds the slopes of the score, or finds that it has none.
static std::optional<Slopes> emitSlopes(OpBuilder &b, Location loc,
                                        ReductionOpInterface op,
                                        const llvm::DenseSet<Value> &varies,
                                        UniformFn uniform) {
  Region &score = op.getScoreBody();
  Value root = getYielded(score).front();
  Value dot = score.getArgument(0);
  BlockArgument key = score.getArgument(4);
  // Sizes are those of the tensors then.
  bool measures = !op.hasOwnSizes() &&
                  op.getQuerySource().is(SourceKind::dense) &&
                  op.getKeySource().is(SourceKind::dense);
  SlopeReader reader(b, loc, score.getArgument(3), key, measures, varies,
                     uniform);
  FailureOr<Value> k = reader.slope(root, dot, false);
  FailureOr<Value> ahead = reader.slope(root, key, false);
  FailureOr<Value> behind = reader.slope(root, key, true);
  if (failed(k) || !*k || failed(ahead) || failed(behind))
    return std::nullopt;
  // Tiles have the sides of one thing.
  if (!reader.far.values.empty() && reader.distance)
    return std::nullopt;
  return Slopes{*k,          *ahead,         *behind,   reader.distance,
                reader.step, reader.hasSize, reader.far};
}

//===----------------------------------------------------------------------===//
// The form of a reduction
//===----------------------------------------------------------------------===//

/// The slopes of a score region, built where nobody sees them.
static std::optional<Slopes> findSlopes(ReductionOpInterface op) {
  Region scratch;
  OpBuilder b(op.getContext());
  b.createBlock(&scratch);
  llvm::DenseSet<Value> varies =
      findVarying(op.getScoreBody(), 1, /*hasKey=*/true, /*headVaries=*/false);
  return emitSlopes(b, op.getLoc(), op, varies, [](Value x) { return x; });
}

bool mlir::attn::growsEvenly(ReductionOpInterface op) {
  Region &score = op.getScoreBody();
  if (score.empty() || op.getQueryOperands().size() != 1 ||
      score.front().getTerminator()->getNumOperands() != 1)
    return false;
  std::optional<Slopes> slopes = findSlopes(op);
  return slopes && (slopes->ahead || slopes->behind);
}

FarTerms mlir::attn::findFarTerms(ReductionOpInterface op) {
  std::optional<Slopes> slopes =
      op.getLinearBias() ? findSlopes(op) : std::nullopt;
  return slopes ? slopes->far : FarTerms();
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
  if (!findSlopes(op))
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
  bias.far = slopes->far;
  auto farFrom = [&](std::optional<int64_t> from) -> Value {
    if (!from)
      return {};
    return arith::ConstantIntOp::create(b, loc, *from, 32);
  };
  if (!bias.far.values.empty()) {
    bias.farBehind = farFrom(bias.far.behind);
    bias.farAhead = farFrom(bias.far.ahead);
  }
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

/// The keys that all rows are far behind, and those that all are far ahead of.
static LinearRange emitFarRange(OpBuilder &b, Location loc,
                                const LinearBias &bias, Value firstRow,
                                Value lastRow, Value numKeys) {
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, loc, value);
  };
  auto toIndex = [&](Value value) -> Value {
    return arith::IndexCastOp::create(b, loc, b.getIndexType(), value);
  };
  LinearRange range{bias.fits, index(0), numKeys};
  if (bias.farBehind) {
    Value end = arith::AddIOp::create(b, loc, firstRow, index(1));
    end = arith::SubIOp::create(b, loc, end, toIndex(bias.farBehind));
    end = arith::MaxSIOp::create(b, loc, end, index(0));
    range.end = arith::MinSIOp::create(b, loc, end, numKeys);
  }
  if (bias.farAhead) {
    Value start =
        arith::AddIOp::create(b, loc, lastRow, toIndex(bias.farAhead));
    start = arith::MaxSIOp::create(b, loc, start, range.end);
    range.start = arith::MinSIOp::create(b, loc, start, numKeys);
  }
  return range;
}

LinearRange mlir::attn::emitLinearRange(OpBuilder &b, Location loc,
                                        const LinearBias &bias,
                                        ::attn::MaskAnalysis::UniformFn uniform,
                                        Value firstRow, Value lastRow,
                                        Value numKeys) {
  LinearRange range{bias.fits, Value(), Value()};
  if (!bias.far.values.empty())
    return emitFarRange(b, loc, bias, firstRow, lastRow, numKeys);
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
