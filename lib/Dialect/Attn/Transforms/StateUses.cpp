//===- StateUses.cpp - What becomes of the states of a reduction ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StateUses.h"
#include "attn/Analysis/Laws.h"
#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::attn;

bool mlir::attn::isMaximum(Region &combine) {
  Operation *root = getYielded(combine).front().getDefiningOp();
  if (!root || !isa<arith::MaximumFOp, arith::MaxNumFOp>(root))
    return false;
  Value a = combine.getArgument(0), b = combine.getArgument(1);
  return (root->getOperand(0) == a && root->getOperand(1) == b) ||
         (root->getOperand(0) == b && root->getOperand(1) == a);
}

/// exp(from - to) or exp2(from - to) on one f32 statistic.
static bool isExponentialOfDifference(Region &rescale, float &base) {
  if (rescale.empty() || !llvm::all_equal(getYielded(rescale)))
    return false;
  Value root = getYielded(rescale).front();
  Value argument;
  if (auto exp = root.getDefiningOp<math::ExpOp>()) {
    argument = exp.getOperand();
    base = 1.44269504088896340736f; // log2(e)
  } else if (auto exp2 = root.getDefiningOp<math::Exp2Op>()) {
    argument = exp2.getOperand();
    base = 1.0f;
  } else {
    return false;
  }
  auto difference = argument.getDefiningOp<arith::SubFOp>();
  return difference && difference.getLhs() == rescale.getArgument(0) &&
         difference.getRhs() == rescale.getArgument(1);
}

std::optional<float> mlir::attn::exponentialBase(MonoidOp monoid) {
  if (monoid.getKind() != MonoidKind::cocycle || monoid.getNumStats() != 1 ||
      !cast<TypeAttr>(monoid.getStats()[0]).getValue().isF32())
    return std::nullopt;
  APFloat start(0.0f);
  if (!matchPattern(getYielded(monoid.getIdentity()).front(),
                    m_ConstantFloat(&start)) ||
      !start.isInfinity() || !start.isNegative())
    return std::nullopt;
  float base = 1.0f;
  if (!isExponentialOfDifference(monoid.getRescale(), base))
    return std::nullopt;
  return base;
}

bool mlir::attn::scoreIsStatistic(MonoidOp monoid) {
  Region &lift = monoid.getLift();
  if (monoid.getNumScores() != 1 ||
      getYielded(lift).front() != lift.getArgument(0))
    return false;
  return llvm::none_of(
      getYielded(lift).drop_front(monoid.getNumStats()),
      [&](Value weight) { return dependsOn(weight, lift.getArgument(0)); });
}

bool mlir::attn::weightsFollowStatistic(MonoidOp monoid) {
  Region &lift = monoid.getLift();
  if (!exponentialBase(monoid) || monoid.getNumScores() != 1 ||
      getYielded(lift).front() != lift.getArgument(0) ||
      !isMaximum(monoid.getCombine()) || scoreIsStatistic(monoid))
    return false;
  auto params = lift.getArguments().drop_front(1);
  for (Value weight : getYielded(lift).drop_front(monoid.getNumStats()))
    if (dependsOn(weight, lift.getArgument(0)) &&
        llvm::any_of(params, [&](Value x) { return dependsOn(weight, x); }))
      return false;
  std::shared_ptr<const ::attn::LawReport> laws = ::attn::checkLaws(monoid);
  return laws && laws->leastScoreIsFinite;
}

/// Whether `a` is computed from `x` as `b` is from `y`, and from nothing else
/// but constants.
static bool isSameFunction(Value a, Value x, Value b, Value y) {
  if (a == x || b == y)
    return a == x && b == y;
  Operation *first = a.getDefiningOp(), *second = b.getDefiningOp();
  return first && second && first->getNumRegions() == 0 &&
         first->getName() == second->getName() &&
         first->getAttrDictionary() == second->getAttrDictionary() &&
         first->getNumOperands() == second->getNumOperands() &&
         cast<OpResult>(a).getResultNumber() ==
             cast<OpResult>(b).getResultNumber() &&
         llvm::all_of(llvm::zip(first->getOperands(), second->getOperands()),
                      [&](std::tuple<Value, Value> operands) {
                        return isSameFunction(std::get<0>(operands), x,
                                              std::get<1>(operands), y);
                      });
}

bool mlir::attn::weighsByQuotient(MonoidOp monoid) {
  if (monoid.getKind() != MonoidKind::cocycle || monoid.getNumStats() != 1 ||
      monoid.hasShift())
    return false;
  Region &rescale = monoid.getRescale();
  Value from = rescale.getArgument(0), to = rescale.getArgument(1);
  ValueRange lifted = getYielded(monoid.getLift());
  for (Value factor : getYielded(rescale)) {
    auto quotient = factor.getDefiningOp<arith::DivFOp>();
    if (!quotient ||
        !isSameFunction(quotient.getLhs(), from, quotient.getRhs(), to))
      return false;
  }
  Value divisor =
      getYielded(rescale).front().getDefiningOp<arith::DivFOp>().getRhs();
  return llvm::all_of(lifted.drop_front(), [&](Value weight) {
    auto quotient = weight.getDefiningOp<arith::DivFOp>();
    return quotient &&
           isSameFunction(quotient.getRhs(), lifted.front(), divisor, to);
  });
}

bool mlir::attn::dividendIsStatistic(MonoidOp monoid) {
  if (!weighsByQuotient(monoid))
    return false;
  ValueRange lifted = getYielded(monoid.getLift());
  Value stat = lifted.front(), weight = lifted.back();
  if (!llvm::all_equal(lifted.drop_front()))
    return false;
  Value dividend = weight.getDefiningOp<arith::DivFOp>().getLhs();
  auto size = stat.getDefiningOp<math::AbsFOp>();
  return stat == dividend || (size && size.getOperand() == dividend);
}

/// from - to of the one statistic of a monoid.
static bool isMove(Value value, Region &shift) {
  auto difference = value.getDefiningOp<arith::SubFOp>();
  return difference && difference.getLhs() == shift.getArgument(0) &&
         difference.getRhs() == shift.getArgument(1);
}

/// The argument of `shift` that a component grows by, times what the statistic
/// moves by; or null.
static BlockArgument grownBy(Value grown, BlockArgument component,
                             Region &shift) {
  auto sum = grown.getDefiningOp<arith::AddFOp>();
  if (!sum || (sum.getLhs() != component && sum.getRhs() != component))
    return {};
  Value other = sum.getLhs() == component ? sum.getRhs() : sum.getLhs();
  auto product = other.getDefiningOp<arith::MulFOp>();
  if (!product)
    return {};
  if (isMove(product.getLhs(), shift))
    return dyn_cast<BlockArgument>(product.getRhs());
  return isMove(product.getRhs(), shift)
             ? dyn_cast<BlockArgument>(product.getLhs())
             : BlockArgument();
}

std::optional<ScoreDistances> mlir::attn::findDistances(MonoidOp monoid) {
  if (!monoid.hasShift() || !exponentialBase(monoid) ||
      !scoreIsStatistic(monoid) || monoid.hasFactors())
    return std::nullopt;
  ScoreDistances found;
  std::optional<unsigned> ones;
  Region &shift = monoid.getShift();
  ValueRange weights = getYielded(monoid.getLift()).drop_front();
  auto argumentOf = [&](unsigned component) {
    return shift.getArgument(2 + monoid.getUnit(component));
  };
  for (unsigned i = 0; i < monoid.getNumComponents(); ++i) {
    found.isDistance.push_back(monoid.isShifted(i));
    if (monoid.getComponent(i) == Component::unit && !monoid.isShifted(i) &&
        !ones && matchPattern(weights[i], m_OneFloat()))
      ones = i;
  }
  if (!ones)
    return std::nullopt;
  found.ones = *ones;
  for (unsigned i = 0; i < monoid.getNumComponents(); ++i)
    if (found.isDistance[i] &&
        (!matchPattern(weights[i], m_AnyZeroFloat()) ||
         grownBy(getYielded(shift)[monoid.getUnit(i)], argumentOf(i), shift) !=
             argumentOf(*ones)))
      return std::nullopt;
  return found;
}

void mlir::attn::eraseUnused(ArrayRef<MonoidOp> monoids,
                             SymbolTableCollection &tables) {
  llvm::SmallSetVector<MonoidOp, 4> sources(monoids.begin(), monoids.end());
  for (MonoidOp monoid : sources)
    if (monoid.isPrivate() &&
        SymbolTable::symbolKnownUseEmpty(monoid, monoid->getParentOp()))
      tables.getSymbolTable(monoid->getParentOp()).erase(monoid);
}

/// The finalize regions that the states of a reduction reach, of equal ones (a
/// plan's branches end alike) the first; empty for the monoid's own. Nothing
/// when states are used in another way.
static std::optional<SmallVector<Region *>> finalizers(Operation *op) {
  SmallVector<Region *> regions;
  auto add = [&](Region *region) {
    if (llvm::none_of(regions, [&](Region *other) {
          return OperationEquivalence::isRegionEquivalentTo(
              other, region, OperationEquivalence::IgnoreLocations);
        }))
      regions.push_back(region);
  };
  if (auto aggregate = dyn_cast<AggregateOp>(op)) {
    add(&aggregate.getFinalize());
    return regions;
  }
  for (Operation *user : op->getUsers()) {
    if (auto finalize = dyn_cast<FinalizeOp>(user)) {
      add(&finalize.getFinalize());
      continue;
    }
    if (!isa<CombineOp>(user))
      return std::nullopt;
    auto further = finalizers(user);
    if (!further)
      return std::nullopt;
    llvm::for_each(*further, add);
  }
  return regions;
}

SmallVector<Type> mlir::attn::outputTypes(Operation *op) {
  SmallVector<Type> types;
  if (isa<AggregateOp, FinalizeOp>(op))
    return llvm::to_vector(op->getResultTypes());
  for (Operation *user : op->getUsers()) {
    if (!isa<CombineOp, FinalizeOp>(user))
      return llvm::to_vector(op->getResultTypes());
    types.append(outputTypes(user));
  }
  return types;
}

bool mlir::attn::mayDropNaN(Operation *op, MonoidOp monoid) {
  std::shared_ptr<const ::attn::LawReport> laws = ::attn::checkLaws(monoid);
  if (!laws || !laws->nanReachesWeights)
    return false;
  auto regions = finalizers(op);
  if (!regions)
    return false;
  return llvm::all_of(*regions, [&](Region *region) {
    if (region->empty())
      return laws->relaxedMax;
    auto report = ::attn::checkFinalize(monoid, *region);
    return succeeded(report) &&
           llvm::all_of(report->spreadsNaN, [](bool b) { return b; });
  });
}

bool mlir::attn::anchorIsFree(Operation *op, MonoidOp monoid) {
  bool hasUnit = false;
  for (unsigned i = 0, e = monoid.getNumComponents(); i < e; ++i)
    hasUnit |= monoid.getComponent(i) == Component::unit;
  std::shared_ptr<const ::attn::LawReport> laws = ::attn::checkLaws(monoid);
  auto regions = finalizers(op);
  if (!hasUnit || !laws || !regions)
    return false;
  auto holds = [](const ::attn::FinalizeReport &report) {
    return llvm::all_of(report.gaugeInvariant, [](bool b) { return b; });
  };
  return llvm::all_of(*regions, [&](Region *region) {
    if (region->empty())
      return holds(laws->finalize);
    auto report = ::attn::checkFinalize(monoid, *region);
    return succeeded(report) && holds(*report);
  });
}

namespace {
/// What the outputs of a finalize region show of the reference point of sums.
struct AnchorUses {
  /// Of each output whether it reads sums and is not gauge invariant.
  std::vector<bool> shown;
  /// Whether an output that is not gauge invariant reads the statistic.
  bool showsStat = false;
};
} // namespace

/// `region` may be empty: the monoid's own.
static AnchorUses findAnchorUses(MonoidOp monoid, Region &region) {
  Region &finalize = region.empty() ? monoid.getFinalize() : region;
  auto stats = finalize.getArguments().take_front(monoid.getNumStats());
  auto sums = finalize.getArguments().slice(monoid.getNumStats(),
                                            monoid.getNumComponents());
  auto report = ::attn::checkFinalize(monoid, finalize);
  AnchorUses uses;
  for (auto [i, output] : llvm::enumerate(getYielded(finalize))) {
    auto reads = [&, output = output](ValueRange arguments) {
      return llvm::any_of(arguments, [&](Value argument) {
        return dependsOn(output, argument);
      });
    };
    bool isInvariant = succeeded(report) && report->gaugeInvariant[i];
    uses.showsStat |= !isInvariant && reads(stats);
    uses.shown.push_back(!isInvariant && reads(sums));
  }
  return uses;
}

std::vector<bool> mlir::attn::findAnchorShown(AggregateOp op, MonoidOp monoid) {
  return findAnchorUses(monoid, op.getFinalize()).shown;
}

bool mlir::attn::sumsAreAtMaximum(Operation *op, MonoidOp monoid) {
  auto regions = finalizers(op);
  bool isShown = false;
  for (Region *region : regions.value_or(SmallVector<Region *>())) {
    AnchorUses uses = findAnchorUses(monoid, *region);
    if (uses.showsStat)
      return false;
    isShown |= llvm::is_contained(uses.shown, true);
  }
  return isShown;
}
