//===- ScaleWeights.cpp - Sums of f16 weights by powers of two ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Weights that are multiplied with values of f16 are rounded to f16, which is
// infinite from 65520 on and has no number below 2^-25. Weights of a softmax
// are relative to the largest of their row; those of a plain sum are what they
// are. So the sum is held over a power of two near its largest weight: the
// state of weights w is (m, sum of (w / p(m)) v), with the largest |w| for m
// and a power of two p(m) that the bits of m give. States move from one to
// another by a quotient of two such powers, which is exact: a cocycle, as that
// of softmax is.
//
// A weight 1 / (1 + exp(x)) is at most 1. One factor does for all rows, also
// where gates of at most 1 fade it (stick breaking).
//
//===----------------------------------------------------------------------===//

#include "NamedRewrites.h"
#include "StateUses.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"

#define DEBUG_TYPE "attn-scale-weights"

namespace attn {
#define GEN_PASS_DEF_ATTNSCALEWEIGHTSPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

/// Of a weight's bits the upper five of its exponent, and then the lowest one
/// of it: powers of 2^8 from 2^-126 to 2^122, which 1 over is normal, too. The
/// weight is below 2^7 times its power, and from 2^-126 on at least half of it.
static constexpr int32_t powerMask = 0x7c000000, leastExponent = 0x00800000;
/// What the statistic of a live key is at least where a sum has no values: 1
/// over its power is a number, and so is a sum of many.
static constexpr float leastSize = 0x1p-64f;
/// Takes weights of up to 1 to where f16 has the most numbers.
static constexpr float scaleOfSmall = 0x1p14f;

static Value constant(OpBuilder &b, Location loc, float value) {
  return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value));
}

//===----------------------------------------------------------------------===//
// What is scaled
//===----------------------------------------------------------------------===//

static bool isOne(Value value) { return matchPattern(value, m_OneFloat()); }

/// 1 / (1 + exp(x)), in either order of the sum.
static bool isAtMostOne(Value weight) {
  auto quotient = weight.getDefiningOp<arith::DivFOp>();
  if (!quotient || !isOne(quotient.getLhs()))
    return false;
  auto sum = quotient.getRhs().getDefiningOp<arith::AddFOp>();
  if (!sum)
    return false;
  auto isExponential = [](Value x) {
    return isa_and_nonnull<math::ExpOp, math::Exp2Op>(x.getDefiningOp());
  };
  return (isOne(sum.getLhs()) && isExponential(sum.getRhs())) ||
         (isOne(sum.getRhs()) && isExponential(sum.getLhs()));
}

/// Sums, exponentials, sizes, and what has been cut off at a number from 0 on.
static bool isNotNegative(Value x) {
  APFloat number(0.0f);
  if (matchPattern(x, m_ConstantFloat(&number)))
    return !number.isNegative() && !number.isNaN();
  Operation *op = x.getDefiningOp();
  if (auto log = dyn_cast_or_null<math::Log1pOp>(op))
    return isNotNegative(log.getOperand());
  if (isa_and_nonnull<arith::AddFOp>(op))
    return llvm::all_of(op->getOperands(), isNotNegative);
  if (isa_and_nonnull<arith::MaximumFOp, arith::MaxNumFOp>(op))
    return llvm::any_of(op->getOperands(), isNotNegative);
  return isa_and_nonnull<math::ExpOp, math::Exp2Op, math::AbsFOp>(op);
}

/// Whether the gates of a `suffix` or `prefix` monoid are exponentials of sums
/// of what is at most 0.
static bool gatesFade(MonoidOp monoid) {
  Operation *gate = getYielded(monoid.getGate()).front().getDefiningOp();
  Region &combine = monoid.getCombine();
  auto sum = getYielded(combine).front().getDefiningOp<arith::AddFOp>();
  auto stat =
      getYielded(monoid.getLift()).front().getDefiningOp<arith::NegFOp>();
  return monoid.getNumStats() == 1 && isa_and_nonnull<math::ExpOp>(gate) &&
         gate->getOperand(0) == monoid.getGate().getArgument(0) && sum &&
         sum.getLhs() != sum.getRhs() &&
         llvm::is_contained(combine.getArguments(), sum.getLhs()) &&
         llvm::is_contained(combine.getArguments(), sum.getRhs()) && stat &&
         isNotNegative(stat.getOperand());
}

/// The weights of `monoid`, one for each component.
static ValueRange weightsOf(MonoidOp monoid) {
  return getYielded(monoid.getLift()).drop_front(monoid.getNumStats());
}

static bool isValue(MonoidOp monoid, unsigned component) {
  return monoid.getComponent(component) == Component::value;
}

/// Whether what is multiplied with values is at most 1. (The factors of
/// dropout may be anything.)
static bool areSmall(AggregateOp op, MonoidOp monoid) {
  if (!op.getFactor().empty())
    return false;
  for (auto [i, weight] : llvm::enumerate(weightsOf(monoid)))
    if (isValue(monoid, i) && !isAtMostOne(weight))
      return false;
  return true;
}

/// Why the weights of `op` stay as they are; empty where they are scaled.
static StringRef whyKept(AggregateOp op, MonoidOp monoid,
                         const ::attn::TargetInfo &target) {
  bool isSum =
      monoid.getKind() == MonoidKind::cocycle && monoid.getNumStats() == 0;
  bool fades = llvm::is_contained({MonoidKind::suffix, MonoidKind::prefix},
                                  monoid.getKind());
  if (!isSum && !fades)
    return "its monoid is no sum without a statistic";
  if (fades && (!areSmall(op, monoid) || !gatesFade(monoid)))
    return "weights and gates of its monoid are not all known to be at most 1";
  ProductTypes types = findProductTypes(op, monoid, target);
  if (!types.values || !types.values.isF16() || op.getValues().empty())
    return "its weights are not rounded to f16";
  // Gradients, whose weights hold several products, are as large as what they
  // are gradients of.
  if (op.getQueryOperands().size() != 1 || op.getReducedSide() != Side::keys ||
      op.getDeadIsZero())
    return "its weights are those of a gradient";
  return {};
}

//===----------------------------------------------------------------------===//
// The monoid
//===----------------------------------------------------------------------===//

/// Multiplies the arguments of components, of which `first` is the first one,
/// by `factor`, and has all that read them read the products.
static void multiply(OpBuilder &b, Region &region, unsigned first,
                     MonoidOp monoid, bool valuesOnly, Value factor) {
  for (unsigned i = 0, e = monoid.getNumComponents(); i < e; ++i) {
    if (valuesOnly && !isValue(monoid, i))
      continue;
    BlockArgument sum = region.getArgument(first + i);
    auto product = arith::MulFOp::create(b, region.getLoc(), sum, factor);
    sum.replaceAllUsesExcept(product, product);
  }
}

/// The power of two for a row whose largest weight is of this size.
static Value powerOf(OpBuilder &b, Location loc, Value size) {
  auto integer = [&](int32_t value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value));
  };
  Value bits = arith::BitcastOp::create(b, loc, b.getI32Type(), size);
  Value power = arith::AndIOp::create(b, loc, bits, integer(powerMask));
  power = arith::OrIOp::create(b, loc, power, integer(leastExponent));
  return arith::BitcastOp::create(b, loc, b.getF32Type(), power);
}

/// The statistic of a key with the given weights.
static Value largestSize(OpBuilder &b, MonoidOp monoid, ValueRange weights) {
  Location loc = monoid.getLoc();
  SmallVector<Value> sizes;
  for (auto [i, weight] : llvm::enumerate(weights)) {
    Value size = isValue(monoid, i)
                     ? math::AbsFOp::create(b, loc, weight).getResult()
                     : constant(b, loc, leastSize);
    if (isValue(monoid, i) || sizes.size() == i)
      sizes.push_back(size);
  }
  Value largest = sizes.front();
  for (Value size : ArrayRef(sizes).drop_front())
    largest = arith::MaximumFOp::create(b, loc, largest, size);
  return largest;
}

/// Makes `monoid`, a sum, one over the power of two of its largest weight.
static void addPower(MonoidOp monoid) {
  OpBuilder b(monoid.getContext());
  Location loc = monoid.getLoc();
  Type f32 = b.getF32Type();

  Operation *yield = monoid.getLift().front().getTerminator();
  b.setInsertionPoint(yield);
  SmallVector<Value> lifted = {largestSize(b, monoid, yield->getOperands())};
  Value power = powerOf(b, loc, lifted.front());
  for (Value weight : yield->getOperands())
    lifted.push_back(arith::DivFOp::create(b, loc, weight, power));
  yield->setOperands(lifted);
  monoid.setStatsAttr(b.getTypeArrayAttr({f32}));

  // Of a sum without statistics the two may be left out.
  auto define = [&](Region &region, unsigned numArguments,
                    function_ref<Value(Block *)> build) {
    region.getBlocks().clear();
    Block *block = b.createBlock(&region, region.end(),
                                 SmallVector<Type>(numArguments, f32),
                                 SmallVector<Location>(numArguments, loc));
    Value result = build(block);
    YieldOp::create(b, loc, result);
  };
  define(monoid.getIdentity(), 0,
         [&](Block *) { return constant(b, loc, 0.0f); });
  define(monoid.getCombine(), 2, [&](Block *block) -> Value {
    return arith::MaximumFOp::create(b, loc, block->getArgument(0),
                                     block->getArgument(1));
  });
  define(monoid.getRescale(), 2, [&](Block *block) -> Value {
    return arith::DivFOp::create(b, loc, powerOf(b, loc, block->getArgument(0)),
                                 powerOf(b, loc, block->getArgument(1)));
  });
}

/// Gives the states that `finalize` reads their statistic, and their scale
/// back.
static void finalizeWithPower(Region &finalize, MonoidOp monoid) {
  if (finalize.empty())
    return;
  OpBuilder b = OpBuilder::atBlockBegin(&finalize.front());
  Value size = finalize.insertArgument(0u, b.getF32Type(), finalize.getLoc());
  multiply(b, finalize, /*first=*/1, monoid, /*valuesOnly=*/false,
           powerOf(b, finalize.getLoc(), size));
}

/// Multiplies what `yield` gives for values, behind statistics, by one factor.
static void multiplyValues(Operation *yield, MonoidOp monoid) {
  OpBuilder b(yield);
  Value scale = constant(b, yield->getLoc(), scaleOfSmall);
  auto entries = yield->getOpOperands().drop_front(monoid.getNumStats());
  for (auto [i, entry] : llvm::enumerate(entries))
    if (isValue(monoid, i))
      entry.set(arith::MulFOp::create(b, yield->getLoc(), entry.get(), scale));
}

/// Multiplies the weights of values by one factor.
static void addScale(MonoidOp monoid) {
  Operation *yield = monoid.getLift().front().getTerminator();
  multiplyValues(yield, monoid);
}

static void finalizeWithScale(Region &finalize, MonoidOp monoid) {
  if (finalize.empty())
    return;
  OpBuilder b = OpBuilder::atBlockBegin(&finalize.front());
  multiply(b, finalize, /*first=*/monoid.getNumStats(), monoid,
           /*valuesOnly=*/true,
           constant(b, finalize.getLoc(), 1.0f / scaleOfSmall));
}

/// Makes `op` a reduction in `scaled`, which has a power of its own or not.
static void rewrite(AggregateOp op, MonoidOp scaled, bool hasPower) {
  op.setMonoidAttr(FlatSymbolRefAttr::get(scaled.getSymNameAttr()));
  if (hasPower)
    finalizeWithPower(op.getFinalize(), scaled);
  else
    finalizeWithScale(op.getFinalize(), scaled);
  Region &init = op.getInit();
  if (init.empty())
    return;
  Operation *yield = init.front().getTerminator();
  if (!hasPower)
    return multiplyValues(yield, scaled);
  // A state that is given is measured from 1.
  OpBuilder b(yield);
  yield->insertOperands(0, constant(b, op.getLoc(), 1.0f));
}

namespace {
struct ScaleWeightsPass
    : ::attn::impl::AttnScaleWeightsPassBase<ScaleWeightsPass> {
  using AttnScaleWeightsPassBase::AttnScaleWeightsPassBase;

  /// The monoid in the place of `monoid`, whose symbol is `table`'s.
  MonoidOp scale(MonoidOp monoid, bool areSmall, SymbolTable &table) {
    MonoidOp scaled = monoid.clone();
    if (areSmall) {
      addScale(scaled);
      finalizeWithScale(scaled.getFinalize(), scaled);
    } else {
      addPower(scaled);
      finalizeWithPower(scaled.getFinalize(), scaled);
    }
    table.insert(scaled, std::next(monoid->getIterator()));
    SymbolTable::setSymbolVisibility(scaled, SymbolTable::Visibility::Private);
    return scaled;
  }

  void runOnOperation() final {
    std::optional<::attn::TargetInfo> target =
        ::attn::getTarget(getOperation());
    if (!target)
      return signalPassFailure();
    // By the monoid, and whether its weights are small.
    llvm::MapVector<std::pair<MonoidOp, unsigned>, MonoidOp> scaledOnes;
    SymbolTableCollection tables;
    getOperation().walk([&](AggregateOp op) {
      MonoidOp monoid = lookupMonoid(op, op.getMonoidAttr());
      if (!monoid)
        return;
      if (StringRef why = whyKept(op, monoid, *target); !why.empty()) {
        if (explain)
          op.emitRemark("weights are not scaled: ") << why;
        return;
      }
      unsigned isSmall = areSmall(op, monoid);
      MonoidOp &scaled = scaledOnes[{monoid, isSmall}];
      if (!scaled)
        scaled = scale(monoid, isSmall,
                       tables.getSymbolTable(monoid->getParentOp()));
      if (explain)
        op.emitRemark("weights, rounded to f16, are scaled by ")
            << (isSmall ? "2^14, as none is above 1"
                        : "a power of two for each row");
      ++numScaled;
      rewrite(op, scaled, /*hasPower=*/!isSmall);
    });
    if (scaledOnes.empty())
      return markAllAnalysesPreserved();
    // Those that are this module's own go with their last user.
    eraseUnused(llvm::map_to_vector(
                    scaledOnes, [](auto &entry) { return entry.first.first; }),
                tables);
  }
};
} // namespace
