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

#include "GradientContext.h"
#include "StateUses.h"
#include "attn/Dialect/Attn/IR/AttributeNames.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include <cmath>

using namespace mlir;
using namespace mlir::attn;

const GradientOutput *mlir::attn::dividedOutput(GradientContext &ctx) {
  if (ctx.isWalk()) // A pair's total takes W itself.
    return nullptr;
  const GradientOutput *divided = nullptr;
  for (const GradientOutput &output : ctx.outputs) {
    if (!output.hasChannels())
      continue;
    if (divided || output.isComponent)
      return nullptr;
    divided = &output;
  }
  return divided;
}

bool mlir::attn::hasItsWeights(GradientContext &ctx, unsigned component) {
  const GradientOutput *output = dividedOutput(ctx);
  if (!output || ctx.monoid.hasFactors() || !ctx.isUnit(component) ||
      ctx.monoid.isShifted(component))
    return false;
  ValueRange lifted =
      ctx.monoid.getLift().front().getTerminator()->getOperands().drop_front(
          ctx.numStats());
  Value own = lifted[output->component], other = lifted[component];
  return own == other ||
         (matchPattern(own, m_OneFloat()) && matchPattern(other, m_OneFloat()));
}

void mlir::attn::reuseWeight(GradientContext &ctx, Block *block, Value weight,
                             Value factor, PairValues &pairs) {
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
// z: there two numbers are kept, and P is 2^((s - c) * k + log2(1 / z)).

/// How many numbers of a pair, its dots, a region takes before positions.
static unsigned countDots(Block *block) {
  unsigned number = 0;
  while (number < block->getNumArguments() &&
         block->getArgument(number).getType().isF32())
    ++number;
  return number;
}

/// Whether a value of a region is a number that all pairs of a head have.
static bool isUniform(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argument.getType().isF32() &&
           argument.getArgNumber() >= countDots(argument.getOwner());
  Operation *op = value.getDefiningOp();
  if (op->hasTrait<OpTrait::ConstantLike>())
    return true;
  if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
    unsigned first = countDots(op->getBlock());
    return llvm::all_of(extract.getIndices(), [&](Value index) {
      auto cast = index.getDefiningOp<arith::IndexCastOp>();
      auto at = cast ? dyn_cast<BlockArgument>(cast.getIn()) : BlockArgument();
      return matchPattern(index, m_Constant()) ||
             (at && at.getArgNumber() >= first &&
              at.getArgNumber() < first + 2); // b, h
    });
  }
  return isa<FloatType>(value.getType()) &&
         llvm::all_of(op->getOperandTypes(), llvm::IsaPred<FloatType>) &&
         llvm::all_of(op->getOperands(), isUniform);
}

namespace {
/// A product with a number that all pairs of a head have; or nothing.
struct Scaled {
  Value value, factor;
};
} // namespace

static Scaled asScaled(Value value) {
  auto product = value.getDefiningOp<arith::MulFOp>();
  if (product && isUniform(product.getRhs()))
    return {product.getLhs(), product.getRhs()};
  if (product && isUniform(product.getLhs()))
    return {product.getRhs(), product.getLhs()};
  return {};
}

/// Of x +- m n, where n is a distance of positions (ALiBi): the product.
static Scaled slopeOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<arith::AddFOp, arith::SubFOp>(op))
    return {};
  Scaled slope = asScaled(op->getOperand(1));
  auto count = slope.value ? slope.value.getDefiningOp<arith::SIToFPOp>()
                           : arith::SIToFPOp();
  if (!count)
    return {};
  Value distance = count.getIn();
  if (auto absolute = distance.getDefiningOp<math::AbsIOp>())
    distance = absolute.getOperand();
  return distance.getDefiningOp<arith::SubIOp>() ? slope : Scaled();
}

/// Whether a score is computed from dots and from what is the same for all
/// pairs, so that neither is it large beside them nor -inf unless they are. A
/// slope is 0 somewhere near the row, and grows from there.
static bool isOfDots(Value value, unsigned numDots) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argument.getArgNumber() < numDots;
  if (Scaled scaled = asScaled(value); scaled.value)
    return isOfDots(scaled.value, numDots);
  if (slopeOf(value).value)
    return isOfDots(value.getDefiningOp()->getOperand(0), numDots);
  if (auto quotient = value.getDefiningOp<arith::DivFOp>())
    return isOfDots(quotient.getLhs(), numDots) && isUniform(quotient.getRhs());
  if (auto tanh = value.getDefiningOp<math::TanhOp>())
    return isOfDots(tanh.getOperand(), numDots);
  return false;
}

/// The element of a captured tensor that a score adds to the rest of it, which
/// is `rest`; or null. Where it is -inf the pair is dead by the mask.
static Value elementOf(Value score, Value &rest) {
  auto sum = score.getDefiningOp<arith::AddFOp>();
  if (!sum)
    return {};
  for (unsigned i : {0, 1}) {
    Value term = sum->getOperand(i);
    Value element = term;
    if (auto extended = element.getDefiningOp<arith::ExtFOp>())
      element = extended.getIn();
    rest = sum->getOperand(1 - i);
    if (element.getDefiningOp<tensor::ExtractOp>())
      return term;
  }
  return {};
}

/// The same of a score to which elements of captured tensors are added.
static bool isOfDotsAndElements(Value value, unsigned numDots) {
  Value rest;
  while (elementOf(value, rest))
    value = rest;
  return isOfDots(value, numDots);
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

/// How many numbers of a row its weights are known by, or 0.
unsigned mlir::attn::numExponents(GradientContext &ctx) {
  const GradientOutput *output = dividedOutput(ctx);
  auto query = cast<RankedTensorType>(ctx.op.getQueries().front().getType());
  // The exponent of a large score is rounded, as the score is: f32 shows it.
  if (!output || ctx.numStats() != 1 || ctx.monoid.hasFactors() ||
      query.getElementTypeBitWidth() != 16 || !exponentialBase(ctx.monoid) ||
      !scoreIsStatistic(ctx.monoid))
    return 0;
  ValueRange lifted =
      ctx.monoid.getLift().front().getTerminator()->getOperands().drop_front();
  if (!matchPattern(lifted[output->component], m_OneFloat()))
    return 0;
  Block &score = ctx.work.getScore().front(),
        &end = ctx.work.getFinalize().front();
  Value yielded = score.getTerminator()->getOperand(0);
  unsigned count = isOfDots(yielded, ctx.op.getQueries().size()) ? 1 : 2;
  if (!isOfDotsAndElements(yielded, ctx.op.getQueries().size()))
    return 0;
  Value sum =
      divisorOf(end.getTerminator()->getOperand(output - ctx.outputs.data()),
                end.getArgument(ctx.numStats() + output->component));
  for (unsigned k = 0; k < ctx.numComponents(); ++k)
    if (sum == end.getArgument(ctx.numStats() + k))
      return hasItsWeights(ctx, k) ? count : 0;
  return 0;
}

/// log2(f) - c, or -inf where the row has no weights; or log2(f) and c, which
/// is 0 there.
SmallVector<Value> mlir::attn::exponentsOf(GradientContext &ctx, Value stat,
                                           Value factor) {
  auto number = [&](float value) -> Value {
    return arith::ConstantFloatOp::create(ctx.b, ctx.loc, ctx.b.getF32Type(),
                                          APFloat(value));
  };
  Value exponent = math::Log2Op::create(ctx.b, ctx.loc, factor);
  Value isEmpty = arith::CmpFOp::create(
      ctx.b, ctx.loc, arith::CmpFPredicate::OEQ, factor, number(0.0f));
  SmallVector<Value> found;
  if (numExponents(ctx) == 1) {
    Value top = arith::MulFOp::create(ctx.b, ctx.loc, stat,
                                      number(*exponentialBase(ctx.monoid)));
    exponent = arith::SubFOp::create(ctx.b, ctx.loc, exponent, top);
  } else {
    found = {
        arith::SelectOp::create(ctx.b, ctx.loc, isEmpty, number(0.0f), stat)};
  }
  Value none = number(-std::numeric_limits<float>::infinity());
  found.insert(found.begin(), arith::SelectOp::create(ctx.b, ctx.loc, isEmpty,
                                                      none, exponent));
  return found;
}

/// A number of positions as a float: in f32 from where positions are, which are
/// fewer than pairs, on.
static Value countAsFloat(OpBuilder &b, Location loc, Value count) {
  Type f32 = b.getF32Type();
  if (auto absolute = count.getDefiningOp<math::AbsIOp>())
    return math::AbsFOp::create(b, loc,
                                countAsFloat(b, loc, absolute.getOperand()));
  auto difference = count.getDefiningOp<arith::SubIOp>();
  if (!difference)
    return arith::SIToFPOp::create(b, loc, f32, count);
  return arith::SubFOp::create(
      b, loc, arith::SIToFPOp::create(b, loc, f32, difference.getLhs()),
      arith::SIToFPOp::create(b, loc, f32, difference.getRhs()));
}

/// The product of two numbers that all pairs have.
static Value multiplyUniform(OpBuilder &b, Location loc, Value x, Value y) {
  APFloat a(0.0f), c(0.0f);
  if (matchPattern(x, m_ConstantFloat(&a)) &&
      matchPattern(y, m_ConstantFloat(&c)))
    return arith::ConstantFloatOp::create(
        b, loc, b.getF32Type(),
        APFloat(a.convertToFloat() * c.convertToFloat()));
  return arith::MulFOp::create(b, loc, x, y);
}

/// score * unit + sum, with one FMA for each of its terms.
static Value addScore(OpBuilder &b, Location loc, Value score, Value unit,
                      Value sum) {
  if (Scaled slope = slopeOf(score); slope.value) {
    Operation *op = score.getDefiningOp();
    Value factor = multiplyUniform(b, loc, slope.factor, unit);
    if (isa<arith::SubFOp>(op))
      factor = arith::NegFOp::create(b, loc, factor);
    Value count = countAsFloat(
        b, loc, slope.value.getDefiningOp<arith::SIToFPOp>().getIn());
    sum = addScore(b, loc, op->getOperand(0), unit, sum);
    return math::FmaOp::create(b, loc, count, factor, sum);
  }
  if (Scaled scaled = asScaled(score); scaled.value)
    return addScore(b, loc, scaled.value,
                    multiplyUniform(b, loc, scaled.factor, unit), sum);
  return math::FmaOp::create(b, loc, score, unit, sum);
}

/// A score with its elements added, each beside the product before it.
static Value withElements(OpBuilder &b, Location loc, Value score) {
  Value rest, element = elementOf(score, rest);
  if (!element)
    return score;
  if (Scaled scaled = asScaled(rest); scaled.value)
    return math::FmaOp::create(b, loc, scaled.value, scaled.factor, element);
  return arith::AddFOp::create(b, loc, withElements(b, loc, rest), element);
}

void mlir::attn::useExponent(GradientContext &ctx, Value score,
                             ArrayRef<Value> position, PairValues &pairs) {
  OpBuilder::InsertionGuard guard(ctx.b);
  ctx.b.setInsertionPoint(pairs.factor.getDefiningOp());
  Value unit =
      arith::ConstantFloatOp::create(ctx.b, ctx.loc, ctx.b.getF32Type(),
                                     APFloat(*exponentialBase(ctx.monoid)));
  Value sum = ofRow(ctx, ctx.rows.exponents.front(), position);
  Value exponent;
  if (ctx.rows.exponents.size() == 1) {
    exponent = addScore(ctx.b, ctx.loc, score, unit, sum);
  } else {
    Value above = arith::SubFOp::create(
        ctx.b, ctx.loc, withElements(ctx.b, ctx.loc, score),
        ofRow(ctx, ctx.rows.exponents.back(), position));
    exponent = math::FmaOp::create(ctx.b, ctx.loc, above, unit, sum);
  }
  Value weight = math::Exp2Op::create(ctx.b, ctx.loc, exponent);
  for (Value &known : pairs.weights)
    if (known == pairs.factor)
      known = weight;
  pairs.factor.replaceAllUsesWith(weight);
  pairs.factor = weight;
  pairs.isDeadZero = true;
}

/// The factors of a product, but for the pair's weight: those that all pairs
/// have, and others.
static void takeApart(Value product, Value weight, bool &hasWeight,
                      SmallVectorImpl<Value> &uniform,
                      SmallVectorImpl<Value> &others) {
  auto multiply = product.getDefiningOp<arith::MulFOp>();
  if (product == weight && !hasWeight) {
    hasWeight = true;
  } else if (isUniform(product)) {
    uniform.push_back(product);
  } else if (multiply) {
    takeApart(multiply.getLhs(), weight, hasWeight, uniform, others);
    takeApart(multiply.getRhs(), weight, hasWeight, uniform, others);
  } else {
    others.push_back(product);
  }
}

std::optional<float> mlir::attn::constantScale(Value cotangent,
                                               const PairValues &pairs) {
  if (!cotangent || !pairs.isDeadZero)
    return std::nullopt;
  SmallVector<Value> uniform, others;
  bool hasWeight = false;
  takeApart(cotangent, pairs.factor, hasWeight, uniform, others);
  APFloat scale(0.0f);
  if (!hasWeight || uniform.size() != 1 || others.size() != 1 ||
      !others.front().getDefiningOp<arith::SubFOp>() ||
      !matchPattern(uniform.front(), m_ConstantFloat(&scale)))
    return std::nullopt;
  float value = scale.convertToFloat();
  return std::isnormal(value) && std::isnormal(1.0f / value)
             ? std::optional(value)
             : std::nullopt;
}

Value mlir::attn::withScale(GradientContext &ctx, Value cotangent,
                            const PairValues &pairs) {
  if (!cotangent || !pairs.isDeadZero)
    return cotangent;
  SmallVector<Value> uniform, others;
  bool hasWeight = false;
  takeApart(cotangent, pairs.factor, hasWeight, uniform, others);
  auto found = llvm::find_if(
      others, [](Value x) { return bool(x.getDefiningOp<arith::SubFOp>()); });
  if (!hasWeight || uniform.empty() || found == others.end())
    return cotangent;
  auto difference = found->getDefiningOp<arith::SubFOp>();
  others.erase(found);
  Value scale = uniform.front();
  for (Value factor : ArrayRef(uniform).drop_front())
    scale = multiplyUniform(ctx.b, ctx.loc, scale, factor);
  Value minus = arith::ConstantFloatOp::create(
      ctx.b, ctx.loc, ctx.b.getF32Type(), APFloat(-1.0f));
  Value ofRow =
      arith::MulFOp::create(ctx.b, ctx.loc, difference.getRhs(),
                            multiplyUniform(ctx.b, ctx.loc, scale, minus));
  Value product =
      math::FmaOp::create(ctx.b, ctx.loc, difference.getLhs(), scale, ofRow);
  // What the score alone tells is one number.
  Value weight = pairs.factor;
  for (Value factor : others)
    weight = arith::MulFOp::create(ctx.b, ctx.loc, weight, factor);
  return arith::MulFOp::create(ctx.b, ctx.loc, product, weight);
}

//===----------------------------------------------------------------------===//
// Factors of what a row has
//===----------------------------------------------------------------------===//

/// The one constant that all of a region's reads of a captured tensor are
/// multiplied by, where `factor` is it or still null; notes the products.
static bool isMultiplied(BlockArgument captured, Value &factor,
                         SmallVectorImpl<arith::MulFOp> &products) {
  for (Operation *user : captured.getUsers()) {
    auto read = dyn_cast<tensor::ExtractOp>(user);
    if (!read)
      return false;
    for (Operation *reader : read->getUsers()) {
      auto product = dyn_cast<arith::MulFOp>(reader);
      APFloat known(0.0f), own(0.0f);
      if (!product || product.getLhs() != read.getResult() ||
          !matchPattern(product.getRhs(), m_ConstantFloat(&own)) ||
          (factor && (!matchPattern(factor, m_ConstantFloat(&known)) ||
                      !known.bitwiseIsEqual(own))))
        return false;
      factor = product.getRhs();
      products.push_back(product);
    }
  }
  return true;
}

/// Puts into a result of `rows` the factor that all who read it multiply by.
static void foldFactor(AggregateOp rows, OpResult result) {
  Value factor;
  SmallVector<arith::MulFOp> products;
  for (OpOperand &use : result.getUses()) {
    auto reader = dyn_cast<AggregateOp>(use.getOwner());
    auto captures = reader ? reader.getCaptures() : ValueRange();
    unsigned number =
        use.getOperandNumber() -
        (reader ? reader.getCaptures().getBeginOperandIndex() : 0);
    if (number >= captures.size())
      return;
    for (Region &region : reader->getRegions())
      if (!region.empty() &&
          !isMultiplied(
              region.front().getArguments().take_back(captures.size())[number],
              factor, products))
        return;
  }
  if (products.empty())
    return;
  Operation *yield = rows.getFinalize().front().getTerminator();
  OpBuilder b(yield);
  APFloat value(0.0f);
  matchPattern(factor, m_ConstantFloat(&value));
  OpOperand &number = yield->getOpOperand(result.getResultNumber());
  Value scale =
      arith::ConstantFloatOp::create(b, yield->getLoc(), b.getF32Type(), value);
  number.set(arith::MulFOp::create(b, yield->getLoc(), number.get(), scale));
  for (arith::MulFOp product : products) {
    product.replaceAllUsesWith(product.getLhs());
    product.erase();
  }
}

void mlir::attn::foldRowFactors(GradientContext &ctx) {
  // Two kernels have the rates that they were measured at without it.
  if (!numExponents(ctx) || !ctx.func->hasAttr(getAnyOrderName()))
    return;
  // What was rewritten still reads.
  for (auto reader : ctx.target.getOps<AggregateOp>())
    for (Region &region : reader->getRegions())
      for (Block &block : region)
        for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
          if (isOpTriviallyDead(&op))
            op.erase();
  for (auto rows : ctx.target.getOps<AggregateOp>())
    if (!rows.getFinalize().empty())
      for (OpResult result : rows->getResults())
        foldFactor(rows, result);
}
