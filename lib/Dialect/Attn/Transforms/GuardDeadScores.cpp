//===- GuardDeadScores.cpp - A NaN that scores of -inf hide ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A bias of -inf kills a key whatever the dots are, also where they are NaN:
// the score s + b is b then, and a test says so. Where a NaN that reaches a
// weight shows in a mark of its row, the kernel that does marked rows again
// (TileRepair.cpp) takes care of it, and the test goes.
//
//===----------------------------------------------------------------------===//

#include "NamedRewrites.h"
#include "attn/Analysis/Laws.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define DEBUG_TYPE "attn-guard-dead-scores"

namespace attn {
#define GEN_PASS_DEF_ATTNGUARDDEADSCORESPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

static bool isMinusInfinity(Value value) {
  APFloat constant(0.0f);
  return matchPattern(value, m_ConstantFloat(&constant)) &&
         constant.isInfinity() && constant.isNegative();
}

/// An element of a captured tensor, converted to f32 or as it is.
static bool isElement(Value value) {
  if (auto extended = value.getDefiningOp<arith::ExtFOp>())
    value = extended.getIn();
  return static_cast<bool>(value.getDefiningOp<tensor::ExtractOp>());
}

namespace {
/// Builds, beside the copy of a score region's values, when a score is -inf
/// whatever the dots are: where a term is, and where a selected value is.
class DeadScores {
public:
  DeadScores(OpBuilder &b, Location loc, ValueRange dots, RegionCloner &cloner)
      : b(b), loc(loc), dots(dots), cloner(cloner) {}

  /// An i1, or null for never.
  Value of(Value score) {
    Operation *op = score.getDefiningOp();
    if (auto sum = dyn_cast_or_null<arith::AddFOp>(op))
      return either(of(sum.getLhs()), of(sum.getRhs()));
    // As the slopes of ALiBi are, behind a bias.
    if (auto difference = dyn_cast_or_null<arith::SubFOp>(op))
      return of(difference.getLhs());
    if (auto select = dyn_cast_or_null<arith::SelectOp>(op);
        select && !dependsOnDots(select.getCondition())) {
      Value yes = of(select.getTrueValue()), no = of(select.getFalseValue());
      if (!yes && !no)
        return {};
      return arith::SelectOp::create(b, loc, cloner.get(select.getCondition()),
                                     yes ? yes : constant(false),
                                     no ? no : constant(false));
    }
    if (isMinusInfinity(score))
      return constant(true);
    if (!isElement(score) || dependsOnDots(score))
      return {};
    Value infinity = arith::ConstantFloatOp::create(
        b, loc, cast<FloatType>(score.getType()),
        APFloat::getInf(cast<FloatType>(score.getType()).getFloatSemantics(),
                        /*Negative=*/true));
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ,
                                 cloner.get(score), infinity);
  }

private:
  Value constant(bool value) {
    return arith::ConstantIntOp::create(b, loc, b.getI1Type(), value);
  }
  Value either(Value x, Value y) {
    if (!x || !y)
      return x ? x : y;
    return arith::OrIOp::create(b, loc, x, y);
  }
  bool dependsOnDots(Value value) {
    return llvm::any_of(dots, [&](Value dot) { return dependsOn(value, dot); });
  }

  OpBuilder &b;
  Location loc;
  ValueRange dots;
  RegionCloner &cloner;
};
} // namespace

/// Builds at `b` when every score of an element is -inf whatever the dots are,
/// from `positions` (b, h, i, j) and `captures`; null for never.
static Value buildDead(OpBuilder &b, ReductionOpInterface op,
                       ValueRange positions, ValueRange captures) {
  Region &score = op.getScoreBody();
  unsigned numDots = op.getQueryOperands().size();
  ValueRange arguments = score.getArguments();
  RegionCloner cloner(b);
  cloner.map(arguments.slice(numDots, positions.size()), positions);
  cloner.map(arguments.drop_front(numDots + positions.size()), captures);
  DeadScores dead(b, op.getLoc(), arguments.take_front(numDots), cloner);
  Value all;
  for (Value yielded : getYielded(score)) {
    Value one = dead.of(yielded);
    if (!one)
      return {};
    all =
        all ? arith::AndIOp::create(b, op.getLoc(), all, one).getResult() : one;
  }
  return all;
}

/// Whether a score that no dot is part of may be -inf.
static bool mayBeMinusInfinity(Value term) {
  if (isMinusInfinity(term) || isElement(term))
    return true;
  Operation *op = term.getDefiningOp();
  if (auto select = dyn_cast_or_null<arith::SelectOp>(op))
    return mayBeMinusInfinity(select.getTrueValue()) ||
           mayBeMinusInfinity(select.getFalseValue());
  if (auto sum = dyn_cast_or_null<arith::AddFOp>(op))
    return mayBeMinusInfinity(sum.getLhs()) || mayBeMinusInfinity(sum.getRhs());
  return false;
}

/// Whether `sum` is used only where `term`, which it adds, is not -inf.
static bool isHidden(arith::AddFOp sum, Value term) {
  auto select = sum->hasOneUse() ? dyn_cast<arith::SelectOp>(*sum->user_begin())
                                 : arith::SelectOp();
  if (!select || select.getTrueValue() != term)
    return false;
  auto isDead = select.getCondition().getDefiningOp<arith::CmpFOp>();
  return isDead && isDead.getPredicate() == arith::CmpFPredicate::OEQ &&
         isDead.getLhs() == term && isMinusInfinity(isDead.getRhs());
}

/// s + b is b where b is -inf, for all such sums of the region. Returns whether
/// there was one.
static bool hideDeadDots(ReductionOpInterface op) {
  Region &score = op.getScoreBody();
  if (score.empty())
    return false;
  bool changed = false;
  ValueRange dots =
      score.getArguments().take_front(op.getQueryOperands().size());
  auto dependsOnDots = [&](Value value) {
    return llvm::any_of(dots, [&](Value dot) { return dependsOn(value, dot); });
  };
  SmallVector<arith::AddFOp> sums(score.getOps<arith::AddFOp>());
  for (arith::AddFOp sum : sums) {
    Value term = sum.getRhs(), x = sum.getLhs();
    if (dependsOnDots(term))
      std::swap(term, x);
    if (dependsOnDots(term) || !dependsOnDots(x) || !mayBeMinusInfinity(term) ||
        isHidden(sum, term))
      continue;
    OpBuilder b(op.getContext());
    b.setInsertionPointAfter(sum);
    Location loc = sum.getLoc();
    auto type = cast<FloatType>(term.getType());
    Value infinity = arith::ConstantFloatOp::create(
        b, loc, type,
        APFloat::getInf(type.getFloatSemantics(), /*Negative=*/true));
    Value isDead = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ,
                                         term, infinity);
    Value hidden = arith::SelectOp::create(b, loc, isDead, term, sum);
    sum.getResult().replaceAllUsesExcept(hidden, hidden.getDefiningOp());
    changed = true;
  }
  return changed;
}

bool mlir::attn::mayKillByScore(ReductionOpInterface op, MonoidOp monoid) {
  // Element by element a dead key's values are not touched.
  return !monoid.isGeneral() && !op.getValueOperands().empty() &&
         killsByScore(op);
}

bool mlir::attn::killsByScore(ReductionOpInterface op) {
  Region &score = op.getScoreBody();
  if (score.empty())
    return false;
  Region scratch;
  OpBuilder b(op.getContext());
  Block *block = b.createBlock(&scratch);
  unsigned numDots = op.getQueryOperands().size();
  for (Type type : llvm::drop_begin(score.getArgumentTypes(), numDots))
    block->addArgument(type, op.getLoc());
  b.setInsertionPointToEnd(block);
  ValueRange arguments = block->getArguments();
  return static_cast<bool>(
      buildDead(b, op, arguments.take_front(4), arguments.drop_front(4)));
}

/// Terms of a score: select(x == -inf, x, x + y), of an element x, is x + y but
/// where y is NaN or infinite; there it is NaN.
static bool dropTests(Value score) {
  Operation *op = score.getDefiningOp();
  if (!score.hasOneUse())
    return false;
  if (auto sum = dyn_cast_or_null<arith::AddFOp>(op)) {
    bool left = dropTests(sum.getLhs());
    return dropTests(sum.getRhs()) || left;
  }
  auto select = dyn_cast_or_null<arith::SelectOp>(op);
  if (!select)
    return false;
  Value element = select.getTrueValue();
  auto sum = select.getFalseValue().getDefiningOp<arith::AddFOp>();
  if (!isElement(element) || !sum || !isHidden(sum, element) ||
      !llvm::is_contained(sum.getOperands(), element))
    return false;
  Operation *test = select.getCondition().getDefiningOp();
  select.replaceAllUsesWith(sum.getResult());
  select.erase();
  if (test && isOpTriviallyDead(test))
    test->erase();
  return true;
}

bool mlir::attn::dropDeadTests(ReductionOpInterface op) {
  bool changed = false;
  for (Value score : llvm::to_vector(getYielded(op.getScoreBody())))
    changed |= dropTests(score);
  return changed;
}

bool mlir::attn::marksSpoiledRows(ReductionOpInterface op, MonoidOp monoid) {
  // Rows beside a marked one would get other bits from the second kernel, so
  // that attn-choose-schedule has made such keys dead by the mask where that
  // counts.
  return mayKillByScore(op, monoid) && !op.isBatchInvariant();
}

bool mlir::attn::guardDeadScores(ReductionOpInterface op, MonoidOp monoid) {
  // Marks tell of a NaN that dead keys bring in, where sums show it. All
  // outputs of a marked row come from the second kernel.
  std::shared_ptr<const ::attn::LawReport> laws = ::attn::checkLaws(monoid);
  if (!marksSpoiledRows(op, monoid) || !laws || !laws->nanReachesWeights)
    // Of gradients the mask hides them, or rows are made finite.
    return !op.getDeadByElement() && hideDeadDots(op);
  return dropDeadTests(op);
}

void mlir::attn::moveDeadScoresToMask(ReductionOpInterface op) {
  Region &mask = op.getMaskBody();
  Location loc = op.getLoc();
  OpBuilder b(op.getContext());
  Operation *yield = nullptr;
  if (mask.empty()) {
    Block *block = b.createBlock(&mask);
    for (Type type : llvm::drop_begin(op.getScoreBody().getArgumentTypes(),
                                      op.getQueryOperands().size()))
      block->addArgument(type, loc);
    b.setInsertionPointToEnd(block);
    Value live = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 1);
    yield = YieldOp::create(b, loc, live);
  } else {
    yield = mask.front().getTerminator();
  }
  b.setInsertionPoint(yield);
  ValueRange arguments = mask.getArguments();
  Value dead =
      buildDead(b, op, arguments.take_front(4), arguments.drop_front(4));
  Value one = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 1);
  Value alive = arith::XOrIOp::create(b, loc, dead, one);
  yield->setOperand(0,
                    arith::AndIOp::create(b, loc, yield->getOperand(0), alive));
}

namespace {
struct GuardDeadScoresPass
    : ::attn::impl::AttnGuardDeadScoresPassBase<GuardDeadScoresPass> {
  void runOnOperation() final {
    getOperation().walk([&](ReductionOpInterface op) {
      MonoidOp monoid = lookupMonoid(op, op.getMonoidRef());
      if (monoid && guardDeadScores(op, monoid))
        ++numGuarded;
    });
  }
};
} // namespace
