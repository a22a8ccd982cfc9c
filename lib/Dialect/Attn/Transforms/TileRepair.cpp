//===- TileRepair.cpp - Values of keys that a score of -inf kills ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A key that a bias of -inf kills has the weight 0, and a matrix product
// multiplies its values by it all the same: 0 times NaN is NaN. Which keys
// those are only the elements of the bias tell, and asking before every tile
// would cost all programs what few need. So the kernel does not ask. It writes,
// for each row, the sum of what it has summed up, which is NaN where a NaN came
// in; and a second kernel, in whose mask the bias is, runs for the tiles of
// rows with such a mark, and ends at once for all others. With it goes the test
// that hides the NaN of a dead key's dot, where a NaN reaches every weight.
//
// The price where no row has one: a row sum and a store for each row, and a
// launch whose blocks read 64 marks each (docs/performance).
//
//===----------------------------------------------------------------------===//

#include "TileKernel.h"
#include "attn/Analysis/Schedule.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// What kills a key
//===----------------------------------------------------------------------===//

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

void mlir::attn::hideDeadDots(ReductionOpInterface op) {
  Region &score = op.getScoreBody();
  if (score.empty())
    return;
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
  }
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
static void dropTests(Value score) {
  Operation *op = score.getDefiningOp();
  if (!score.hasOneUse())
    return;
  if (auto sum = dyn_cast_or_null<arith::AddFOp>(op)) {
    dropTests(sum.getLhs());
    dropTests(sum.getRhs());
    return;
  }
  auto select = dyn_cast_or_null<arith::SelectOp>(op);
  if (!select)
    return;
  Value element = select.getTrueValue();
  auto sum = select.getFalseValue().getDefiningOp<arith::AddFOp>();
  if (isElement(element) && sum && isHidden(sum, element) &&
      llvm::is_contained(sum.getOperands(), element))
    select.replaceAllUsesWith(sum.getResult());
}

void mlir::attn::leaveNaNToRepair(ReductionOpInterface op) {
  for (Value score : getYielded(op.getScoreBody()))
    dropTests(score);
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

ScheduleAttr mlir::attn::scheduleOfRepair(ReductionOpInterface op,
                                          const ::attn::TargetInfo &target) {
  ScheduleAttr given = op.getScheduleAttribute();
  ::attn::ScheduleSizes sizes = {given.getBlockQ(), given.getRows(),
                                 given.getBlockK()};
  if (!target.isCpu()) {
    ::attn::ScheduleProblem problem;
    auto collect = [&](ValueRange tensors, std::vector<int64_t> &widths) {
      bool narrow = true;
      for (Value tensor : tensors) {
        auto type = cast<ShapedType>(tensor.getType());
        widths.push_back(type.getShape().back());
        Type element = type.getElementType();
        narrow &= target.multiplies(element.isBF16(), element.isF16());
      }
      return narrow;
    };
    std::vector<int64_t> keys;
    problem.narrowDots = collect(op.getQueryOperands(), problem.depths) &&
                         collect(op.getKeyOperands(), keys);
    problem.narrowValues = collect(op.getValueOperands(), problem.channels);
    problem.rowScalars = 4;
    problem.masked = true;
    // Tiles of warps, each of which stops for itself.
    problem.wholeTiles = false;
    problem.numQueries = marksOfBlock;
    sizes = ::attn::chooseSizes(problem, target);
    sizes.blockK = fitPages(op, target, sizes.blockK);
  }
  return ScheduleAttr::get(op.getContext(), sizes.blockQ, sizes.rows,
                           sizes.blockK, given.getSplits(), LoopShape::masked,
                           /*stages=*/0, ProductOverlap::next_step, Turns::none,
                           /*pack_heads=*/false, /*cluster=*/1,
                           Fetch::automatic, /*occupancy=*/1, given.getOrder(),
                           given.getSection(), given.getSectionKeys(),
                           /*block_v=*/0, /*share=*/0);
}

//===----------------------------------------------------------------------===//
// Marks
//===----------------------------------------------------------------------===//

void ReductionKernel::storeMarks(ValueRange state) {
  Value marks;
  for (unsigned i = 0; i < numComponents(); ++i) {
    if (monoid.getComponent(i) != Component::value)
      continue;
    Value sum = rowSum(state[numStats() + i]);
    if (marks)
      sum = map({marks, sum}, {sum.getType()},
                [&](Value, Value, ValueRange x) -> SmallVector<Value> {
                  return {arith::AddFOp::create(b, loc, x[0], x[1])};
                })
                .front();
    marks = sum;
  }
  if (isPartial)
    storeRows(marks, marksOut, split ? split : index(0));
  else
    storeRows(marks, marksOut);
}

/// Whether some row of the tile has a mark. Marks lie along columns, which all
/// warps of a block hold: what follows is for all of them or for none.
Value ReductionKernel::hasMark() {
  SmallVector<Value> leading;
  if (isPartial)
    leading.push_back(split ? split : index(0));
  Value marks = openSource(marksIn, rowSource, rowsRest(), /*vector=*/true);
  int64_t cols = ::attn::paddedKeys(schedule.getBlockQ(), target);
  Value sums = tile::LoadOp::create(
      b, loc, tileType(1, cols, b.getF32Type()), marks,
      at(head, row0, /*channel=*/false, leading), row0, add(row0, liveRows),
      /*live=*/Value(), /*vector=*/true, /*transposed=*/true);
  Type truths = tileType(1, cols, b.getI1Type());
  Value areNaN = map(sums, truths, [&](Value, Value, ValueRange x) {
                   return SmallVector<Value>{arith::CmpFOp::create(
                       b, loc, arith::CmpFPredicate::UNO, x[0], x[0])};
                 }).front();
  return tile::AnyOp::create(b, loc, b.getI1Type(), areNaN);
}
