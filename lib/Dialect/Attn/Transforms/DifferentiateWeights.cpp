//===- DifferentiateWeights.cpp - Weights that pairs compute with ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of an output `acc f`, f a factor of the row as 1/l is, the gradient of values
// takes P = W f, and the cotangent of W is (do . v) f + u. That is
// ((do . v) - delta) f with delta = -u/f, once for each row; so what becomes of
// W, as W is its own derivative, is P ((do . v) - delta): one product less, and
// nothing of W itself is left once there is P.
//
//===----------------------------------------------------------------------===//

#include "Differentiator.h"
#include "StateUses.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn;

const Differentiator::Output *Differentiator::dividedOutput() {
  if (isWalk()) // A pair's total takes W itself.
    return nullptr;
  const Output *divided = nullptr;
  for (const Output &output : outputs) {
    if (!output.hasChannels())
      continue;
    if (divided || output.isComponent)
      return nullptr;
    divided = &output;
  }
  return divided;
}

bool Differentiator::hasItsWeights(unsigned component) {
  const Output *output = dividedOutput();
  if (!output || monoid.hasFactors() || !isUnit(component))
    return false;
  ValueRange lifted =
      monoid.getLift().front().getTerminator()->getOperands().drop_front(
          numStats());
  Value own = lifted[output->component], other = lifted[component];
  return own == other ||
         (matchPattern(own, m_OneFloat()) && matchPattern(other, m_OneFloat()));
}

void Differentiator::reuseWeight(Block *block, Value weight, Value factor,
                                 Pairs &pairs) {
  if (!pairs.factor)
    return;
  for (auto product :
       llvm::make_early_inc_range(block->getOps<arith::MulFOp>())) {
    auto scaled = product.getLhs().getDefiningOp<arith::MulFOp>();
    if (product.getRhs() != weight || !scaled || scaled.getRhs() != factor ||
        !scaled->hasOneUse())
      continue;
    product->setOperands({scaled.getLhs(), pairs.factor});
    scaled.erase();
    return;
  }
  pairs.factor = Value();
}

//===----------------------------------------------------------------------===//
// Weights known by one number
//===----------------------------------------------------------------------===//
//
// Of P = e^(s - c) / z, with c the largest score of a row and z its sum, 16-bit
// inputs see nothing of the rounding of log(z) + c, as long as scores are made
// of dots alone: then one number of a row is enough, and P is 2^(dot * k +
// number). A bias may be -1e9 for a whole row, where that sum would have lost
// z.

/// Whether a value of a region is a number that all pairs have.
static bool isUniform(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return (argument && argument.getType().isF32()) ||
         matchPattern(value, m_Constant());
}

/// Whether a score is computed from dots and from what is the same for all
/// pairs, so that neither is it large beside them nor -inf unless they are.
static bool isOfDots(Value value, unsigned numDots) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argument.getArgNumber() < numDots;
  if (auto product = value.getDefiningOp<arith::MulFOp>())
    return (isOfDots(product.getLhs(), numDots) &&
            isUniform(product.getRhs())) ||
           (isOfDots(product.getRhs(), numDots) && isUniform(product.getLhs()));
  if (auto quotient = value.getDefiningOp<arith::DivFOp>())
    return isOfDots(quotient.getLhs(), numDots) && isUniform(quotient.getRhs());
  if (auto tanh = value.getDefiningOp<math::TanhOp>())
    return isOfDots(tanh.getOperand(), numDots);
  return false;
}

/// The sum that `output` of finalize divides the component by, or null; where
/// it is 0, the output may be.
static Value divisorOf(Value output, Value component) {
  if (auto select = output.getDefiningOp<arith::SelectOp>()) {
    auto isEmpty = select.getCondition().getDefiningOp<arith::CmpFOp>();
    auto quotient = select.getFalseValue().getDefiningOp<arith::DivFOp>();
    bool isGuarded = isEmpty && quotient &&
                     isEmpty.getPredicate() == arith::CmpFPredicate::OEQ &&
                     isEmpty.getLhs() == quotient.getRhs() &&
                     matchPattern(isEmpty.getRhs(), m_AnyZeroFloat()) &&
                     matchPattern(select.getTrueValue(), m_AnyZeroFloat());
    if (!isGuarded)
      return {};
    output = quotient;
  }
  auto quotient = output.getDefiningOp<arith::DivFOp>();
  return quotient && quotient.getLhs() == component ? quotient.getRhs()
                                                    : Value();
}

bool Differentiator::hasExponent() {
  const Output *output = dividedOutput();
  auto query = cast<RankedTensorType>(op.getQueries().front().getType());
  // The exponent of a large score is rounded, as the score is: f32 shows it.
  if (!output || numStats() != 1 || monoid.hasFactors() ||
      query.getElementTypeBitWidth() != 16 || !exponentialBase(monoid) ||
      !scoreIsStatistic(monoid))
    return false;
  ValueRange lifted =
      monoid.getLift().front().getTerminator()->getOperands().drop_front();
  if (!matchPattern(lifted[output->component], m_OneFloat()))
    return false;
  Block &score = work.getScore().front(), &end = work.getFinalize().front();
  if (!isOfDots(score.getTerminator()->getOperand(0), op.getQueries().size()))
    return false;
  Value sum =
      divisorOf(end.getTerminator()->getOperand(output - outputs.data()),
                end.getArgument(numStats() + output->component));
  for (unsigned k = 0; k < numComponents(); ++k)
    if (sum == end.getArgument(numStats() + k))
      return hasItsWeights(k);
  return false;
}

/// log2(f) - c, or -inf where the row has no weights.
Value Differentiator::exponentOf(Value stat, Value factor) {
  auto number = [&](float value) -> Value {
    return arith::ConstantFloatOp::create(b, loc, b.getF32Type(),
                                          APFloat(value));
  };
  Value logarithm = math::Log2Op::create(b, loc, factor);
  Value top =
      arith::MulFOp::create(b, loc, stat, number(*exponentialBase(monoid)));
  Value exponent = arith::SubFOp::create(b, loc, logarithm, top);
  Value isEmpty = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ,
                                        factor, number(0.0f));
  return arith::SelectOp::create(
      b, loc, isEmpty, number(-std::numeric_limits<float>::infinity()),
      exponent);
}

void Differentiator::useExponent(Value score, ArrayRef<Value> position,
                                 Pairs &pairs) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(pairs.factor.getDefiningOp());
  float base = *exponentialBase(monoid);
  // Of a constant times a dot one constant is left.
  if (auto product = score.getDefiningOp<arith::MulFOp>()) {
    APFloat factor(0.0f);
    if (matchPattern(product.getRhs(), m_ConstantFloat(&factor))) {
      base *= factor.convertToFloat();
      score = product.getLhs();
    }
  }
  Value unit =
      arith::ConstantFloatOp::create(b, loc, b.getF32Type(), APFloat(base));
  Value exponent =
      math::FmaOp::create(b, loc, score, unit, ofRow(rows.exponent, position));
  Value weight = math::Exp2Op::create(b, loc, exponent);
  for (Value &known : pairs.weights)
    if (known == pairs.factor)
      known = weight;
  pairs.factor.replaceAllUsesWith(weight);
  pairs.factor = weight;
  pairs.isDeadZero = true;
}

Value Differentiator::withScale(Value cotangent, const Pairs &pairs) {
  auto scaled = cotangent ? cotangent.getDefiningOp<arith::MulFOp>() : nullptr;
  auto product =
      scaled ? scaled.getLhs().getDefiningOp<arith::MulFOp>() : arith::MulFOp();
  auto difference = product ? product.getLhs().getDefiningOp<arith::SubFOp>()
                            : arith::SubFOp();
  if (!difference || !pairs.isDeadZero || product.getRhs() != pairs.factor ||
      !isUniform(scaled.getRhs()))
    return cotangent;
  Value scale = scaled.getRhs();
  Value ofRow = arith::MulFOp::create(b, loc, difference.getRhs(),
                                      arith::NegFOp::create(b, loc, scale));
  Value sum = math::FmaOp::create(b, loc, difference.getLhs(), scale, ofRow);
  return arith::MulFOp::create(b, loc, sum, pairs.factor);
}
