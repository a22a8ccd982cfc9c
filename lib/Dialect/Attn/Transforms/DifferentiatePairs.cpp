//===- DifferentiatePairs.cpp - Reductions that are gradients -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Adjoints.h"
#include "GradientContext.h"
#include "NamedRewrites.h"
#include "attn/Dialect/Attn/IR/AttributeNames.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

MonoidOp mlir::attn::createPlainSum(OpBuilder &b, Location loc, ModuleOp module,
                                    StringRef base,
                                    ArrayRef<Component> components,
                                    ArrayRef<StringRef> outputs) {
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Attribute> kinds;
  for (Component component : components)
    kinds.push_back(ComponentAttr::get(b.getContext(), component));
  std::string name = base.str();
  for (unsigned i = 2; SymbolTable::lookupSymbolIn(module, name); ++i)
    name = (base + "_" + Twine(i)).str();
  auto sum = MonoidOp::create(
      b, loc, b.getStringAttr(name), b.getStringAttr("private"),
      MonoidKindAttr::get(b.getContext(), MonoidKind::cocycle),
      b.getArrayAttr({}), b.getArrayAttr(kinds), b.getArrayAttr({}),
      b.getStrArrayAttr(outputs));
  for (Region *region : {&sum.getLift(), &sum.getFinalize()}) {
    Block *block = b.createBlock(region);
    for (size_t i = 0; i < components.size(); ++i)
      block->addArgument(b.getF32Type(), loc);
    YieldOp::create(b, loc, block->getArguments());
  }
  return sum;
}

FlatSymbolRefAttr mlir::attn::makeSum(GradientContext &ctx, StringRef suffix,
                                      ArrayRef<Component> components,
                                      ArrayRef<std::string> names) {
  OpBuilder::InsertionGuard guard(ctx.b);
  ctx.b.setInsertionPoint(ctx.func);
  SmallVector<StringRef> outputs(names.begin(), names.end());
  MonoidOp sum =
      createPlainSum(ctx.b, ctx.loc, ctx.func->getParentOfType<ModuleOp>(),
                     (ctx.func.getName() + suffix).str(), components, outputs);
  return FlatSymbolRefAttr::get(sum.getSymNameAttr());
}

AggregateOp mlir::attn::makeReduction(GradientContext &ctx,
                                      FlatSymbolRefAttr sum, Side reduced,
                                      TypeRange types, ValueRange left,
                                      ValueRange right, ValueRange values) {
  ctx.b.setInsertionPointToEnd(&ctx.target.getBody().front());
  bool overKeys = reduced == Side::keys;
  auto form = [&](bool ofKeys) -> SourceAttr {
    Source source = ofKeys ? ctx.keySource : ctx.rowSource;
    // What has the rows has no lengths, and what is a part of the keys neither:
    // the mask says which are live.
    if (ofKeys && (!overKeys || ctx.keyBase))
      source.lengths = Value();
    return source.getForm(ctx.b.getContext());
  };
  auto index = [&](bool ofKeys) {
    Source source = ofKeys ? ctx.keySource : ctx.rowSource;
    if (ofKeys && (!overKeys || ctx.keyBase))
      source.lengths = Value();
    return llvm::map_to_vector(source.getOperands(),
                               [&](Value value) { return ctx.outside(value); });
  };
  return AggregateOp::create(
      ctx.b, ctx.loc, types, sum, ValueRange(), left, right, values,
      ctx.captures.getArrayRef(), index(!overKeys), index(overKeys), Value(),
      Value(), form(!overKeys), form(overKeys),
      SideAttr::get(ctx.b.getContext(), reduced), ScheduleAttr(),
      ctx.op.getPrecisionAttr(), UnitAttr(), RotaryAttr());
}

Block *mlir::attn::openRegion(GradientContext &ctx, Region &region,
                              TypeRange types) {
  Block *block = ctx.b.createBlock(&region);
  for (Type type : types)
    block->addArgument(type, ctx.loc);
  ctx.captured.clear();
  for (Value value : ctx.captures)
    ctx.captured[value] = block->addArgument(value.getType(), ctx.loc);
  return block;
}

/// What every region takes: the captures of the reduction, and what says where
/// a row is.
void mlir::attn::captureRegions(GradientContext &ctx) {
  ctx.captures.clear();
  for (Value value : ctx.work.getCaptures())
    ctx.capture(ctx.outside(value));
  for (Value value : ctx.work.getParams())
    ctx.capture(ctx.outside(value));
  if (ctx.isPacked())
    ctx.capture(ctx.outside(ctx.rowSource.map));
}

SmallVector<Value> mlir::attn::inCaptures(GradientContext &ctx) {
  return llvm::map_to_vector(ctx.work.getCaptures(), [&](Value value) {
    return ctx.in(ctx.outside(value));
  });
}

SmallVector<Value> mlir::attn::paramsOf(GradientContext &ctx) {
  return llvm::map_to_vector(ctx.work.getParams(), [&](Value value) {
    return ctx.in(ctx.outside(value));
  });
}

SmallVector<Value> mlir::attn::copyRegion(GradientContext &ctx, Region &region,
                                          ValueRange arguments,
                                          ElementReads &elements) {
  auto hook = [&](Operation *op, RegionCloner &cloner) -> Value {
    auto extract = dyn_cast<tensor::ExtractOp>(op);
    if (!extract)
      return {};
    SmallVector<Value> indices;
    for (Value index : extract.getIndices())
      indices.push_back(cloner.get(index));
    Value tensor = cloner.get(extract.getTensor());
    Value element = tensor::ExtractOp::create(ctx.b, ctx.loc, tensor, indices);
    elements[tensor].push_back(element);
    return element;
  };
  return inlineRegion(ctx.b, region, arguments, hook);
}

Value mlir::attn::sumOf(GradientContext &ctx, Adjoints &adjoints,
                        Value argument, const ElementReads &elements) {
  Value sum = adjoints.get(argument);
  for (Value element : elements.lookup(argument))
    if (Value part = adjoints.get(element))
      sum = sum ? arith::AddFOp::create(ctx.b, ctx.loc, sum, part).getResult()
                : part;
  return sum;
}

Value mlir::attn::ofRow(GradientContext &ctx, Value tensor,
                        ValueRange position) {
  auto index = [&](Value value) -> Value {
    return arith::IndexCastOp::create(ctx.b, ctx.loc, ctx.b.getIndexType(),
                                      value);
  };
  Value batch = index(position[0]), head = index(position[1]);
  if (!ctx.isPacked())
    return tensor::ExtractOp::create(
        ctx.b, ctx.loc, ctx.in(tensor),
        ValueRange{batch, head, index(position[2])});
  Value offset = tensor::ExtractOp::create(
      ctx.b, ctx.loc, ctx.in(ctx.outside(ctx.rowSource.map)),
      ValueRange(batch));
  Value row = arith::AddIOp::create(ctx.b, ctx.loc, position[2], offset);
  return tensor::ExtractOp::create(ctx.b, ctx.loc, ctx.in(tensor),
                                   ValueRange{head, index(row)});
}

//===----------------------------------------------------------------------===//
// Pairs
//===----------------------------------------------------------------------===//

SmallVector<Value> mlir::attn::positionsOf(GradientContext &ctx, Side reduced,
                                           ValueRange given) {
  SmallVector<Value> position(given);
  if (reduced == Side::queries)
    std::swap(position[2], position[3]);
  if (ctx.keyBase)
    position[3] =
        arith::AddIOp::create(ctx.b, ctx.loc, position[3], ctx.in(ctx.keyBase));
  return position;
}

/// A score of -inf is no key, wherever it comes from.
Value mlir::attn::isLive(GradientContext &ctx, ValueRange scores) {
  Value isAny;
  for (Value score : scores) {
    Value infinity = arith::ConstantFloatOp::create(
        ctx.b, ctx.loc, ctx.b.getF32Type(),
        APFloat::getInf(ctx.b.getF32Type().getFloatSemantics(),
                        /*Negative=*/true));
    Value is = arith::CmpFOp::create(ctx.b, ctx.loc, arith::CmpFPredicate::UNE,
                                     score, infinity);
    isAny = isAny ? arith::OrIOp::create(ctx.b, ctx.loc, isAny, is).getResult()
                  : is;
  }
  return isAny;
}

/// The weights of a pair at the statistics of its row.
static void rescaleWeights(GradientContext &ctx, Adjoints &adjoints,
                           Block *block, ValueRange stats,
                           ArrayRef<Value> position, ArrayRef<Value> params,
                           SmallVectorImpl<Value> &weights) {
  SmallVector<Value> ends;
  for (Value stat : ctx.rows.stats)
    ends.push_back(ofRow(ctx, stat, position));
  SmallVector<Value> both(stats);
  llvm::append_range(both, ends);
  llvm::append_range(both, params);
  Operation *last = &block->back();
  SmallVector<Value> factors =
      inlineRegion(ctx.b, ctx.monoid.getRescale(), both);
  inlineShift(ctx.b, ctx.monoid, stats, ends, params, weights);
  // Factors of live pairs are finite (attn-check-laws).
  for (Operation *op = last->getNextNode(); op; op = op->getNextNode())
    adjoints.setBounded(op);
  for (auto [k, weight] : llvm::enumerate(weights)) {
    Value factor = factors[ctx.monoid.hasFactors() ? k : 0];
    // Far from the statistic a shift is as large as f32 can hold, and its
    // product with a cotangent larger.
    if (ctx.monoid.isShifted(k))
      weight = adjoints.unlessZero(factor, weight);
    weight = adjoints.multiply(factor, weight);
  }
}

static void addToTotal(GradientContext &ctx, PairValues &pairs, Value part) {
  pairs.total =
      pairs.total
          ? arith::AddFOp::create(ctx.b, ctx.loc, pairs.total, part).getResult()
          : part;
}

/// The weights of outputs, and the cotangents that `valueDots` give them; these
/// are empty where no scores are wanted.
static void addOutputs(GradientContext &ctx, Adjoints &adjoints,
                       ArrayRef<Value> position, ArrayRef<Value> weights,
                       Value ofValues, ValueRange valueDots, PairValues &pairs,
                       Value &divisor) {
  unsigned next = 0;
  for (auto [i, output] : llvm::enumerate(ctx.outputs)) {
    if (!output.hasChannels()) {
      pairs.weights.push_back(Value());
      continue;
    }
    SmallVector<Value> factors;
    if (ctx.rows.factors[i])
      divisor = factors.emplace_back(ofRow(ctx, ctx.rows.factors[i], position));
    if (ofValues)
      factors.push_back(ofValues);
    bool isDivided = &output == dividedOutput(ctx) && ctx.rows.factors[i];
    Value weight = weights[output.component];
    for (Value factor : factors) {
      weight = adjoints.multiply(weight, factor);
      if (isDivided && !pairs.factor)
        pairs.factor = weight = arith::SelectOp::create(
            ctx.b, ctx.loc, pairs.isLive, weight, adjoints.zero());
    }
    pairs.weights.push_back(weight);
    if (valueDots.empty())
      continue;
    Value cotangent = valueDots[next++];
    if (pairs.wantsTotal)
      addToTotal(ctx, pairs, adjoints.multiply(weight, cotangent));
    if (isDivided) {
      if (ofValues)
        cotangent = adjoints.multiply(cotangent, ofValues);
      for (unsigned k = 0; k < ctx.numComponents(); ++k)
        if (ctx.rows.units[k] && hasItsWeights(ctx, k))
          cotangent =
              arith::SubFOp::create(ctx.b, ctx.loc, cotangent,
                                    ofRow(ctx, ctx.rows.units[k], position));
      factors.truncate(1);
    }
    for (Value factor : factors)
      cotangent = adjoints.multiply(cotangent, factor);
    adjoints.add(weights[output.component], cotangent);
  }
}

/// The cotangents of what scores are made of.
static void yieldPair(GradientContext &ctx, Side reduced, Adjoints &adjoints,
                      ValueRange dots, ArrayRef<Value> position,
                      const ElementReads &elements, PairValues &pairs) {
  auto orZero = [&](Value value) { return value ? value : adjoints.zero(); };
  // What keys have of an element that is added is a cotangent without scale: of
  // a constant one their sums are divided by it.
  bool ofKeys = llvm::any_of(ctx.wanted, [](const GradientInput &input) {
    return input.isOfPairs() && input.spread == InputSpread::keys;
  });
  bool ofFar = llvm::any_of(ctx.wanted, [](const GradientInput &input) {
    return !input.farPlaces.empty();
  });
  if (ofKeys && dots.size() == 1)
    pairs.dotScale = constantScale(adjoints.get(dots.front()), pairs);
  bool keepsScale =
      (ofKeys && !pairs.dotScale) || (reduced == Side::keys && ofFar);
  for (Value dot : dots)
    pairs.dots.push_back(
        orZero(pairs.isDeadZero && keepsScale
                   ? adjoints.get(dot)
                   : withScale(ctx, adjoints.get(dot), pairs)));
  addCaptures(ctx, adjoints, elements, position, pairs);
}

/// Builds, in the score region of a reduction, the weights of the pair and,
/// with `wantsScores`, the cotangents of what the scores are made of.
LogicalResult mlir::attn::buildPair(GradientContext &ctx, Side reduced,
                                    Block *block, bool wantsScores,
                                    PairValues &pairs) {
  if (ctx.monoid.isGeneral())
    return buildPairOfScores(ctx, reduced, block, pairs);
  unsigned numDots = ctx.op.getQueries().size();
  unsigned numFloats = block->getNumArguments() - 4 - ctx.captures.size();
  ValueRange dots = block->getArguments().take_front(numDots);
  ValueRange valueDots =
      block->getArguments().slice(numDots, numFloats - numDots);
  ValueRange given = block->getArguments().slice(numFloats, 4);
  SmallVector<Value> position = positionsOf(ctx, reduced, given);

  Adjoints adjoints(ctx.b, ctx.loc);
  SmallVector<Value> arguments(dots), captured = inCaptures(ctx);
  llvm::append_range(arguments, position);
  llvm::append_range(arguments, captured);
  ElementReads elements;
  SmallVector<Value> scores =
      copyRegion(ctx, ctx.work.getScore(), arguments, elements);
  SmallVector<Value> params = paramsOf(ctx);
  SmallVector<Value> lifted = scores;
  llvm::append_range(lifted, params);
  SmallVector<Value> state = inlineRegion(ctx.b, ctx.monoid.getLift(), lifted);
  SmallVector<Value> weights(state.begin() + ctx.numStats(), state.end());
  Value inBlock = given[reduced == Side::keys ? 3 : 2];
  if (ctx.isWalk()) {
    scaleByGates(ctx, adjoints, position, inBlock, weights);
  } else if (ctx.numStats()) {
    rescaleWeights(ctx, adjoints, block,
                   ArrayRef(state).take_front(ctx.numStats()), position, params,
                   weights);
  }
  for (Value dot : dots)
    adjoints.addRoot(dot);
  for (GradientInput &input : ctx.wanted)
    if (input.isOfPairs())
      addRoots(ctx, adjoints, input, elements);
  adjoints.follow();

  pairs.isLive = isLive(ctx, scores);
  // The factor of values, as of dropout: of positions, so a constant here.
  Value ofValues;
  if (!ctx.work.getFactor().empty())
    ofValues = inlineRegion(ctx.b, ctx.work.getFactor(),
                            ArrayRef(arguments).drop_front(numDots))
                   .front();
  Value divisor;
  addOutputs(ctx, adjoints, position, weights, ofValues,
             wantsScores ? valueDots : ValueRange(), pairs, divisor);
  if (!wantsScores) {
    if (!ctx.rows.exponents.empty() && pairs.factor)
      useExponent(ctx, scores.front(), position, pairs);
    return success();
  }
  for (unsigned k = 0; k < ctx.numComponents(); ++k)
    if (ctx.rows.units[k] && !hasItsWeights(ctx, k)) {
      Value cotangent = ofRow(ctx, ctx.rows.units[k], position);
      adjoints.add(weights[k], cotangent);
      if (pairs.wantsTotal)
        addToTotal(ctx, pairs, adjoints.multiply(weights[k], cotangent));
    }
  if (pairs.wantsTotal)
    return success();
  if (ctx.isWalk() &&
      failed(addStatCotangents(ctx, adjoints, position, inBlock,
                               ArrayRef(state).take_front(ctx.numStats()))))
    return failure();
  if (ctx.rows.maximum) {
    Value key = arith::SIToFPOp::create(ctx.b, ctx.loc, ctx.b.getF32Type(),
                                        position[3]);
    Value isFirst =
        arith::CmpFOp::create(ctx.b, ctx.loc, arith::CmpFPredicate::OEQ, key,
                              ofRow(ctx, ctx.rows.first, position));
    adjoints.add(state.front(),
                 arith::SelectOp::create(ctx.b, ctx.loc, isFirst,
                                         ofRow(ctx, ctx.rows.maximum, position),
                                         adjoints.zero()));
  }
  if (failed(adjoints.sweep()))
    return failure();
  for (auto [i, output] : llvm::enumerate(ctx.outputs))
    if (&output == dividedOutput(ctx) && pairs.factor)
      reuseWeight(ctx, block, weights[output.component], divisor, pairs);
  if (!ctx.rows.exponents.empty() && pairs.factor)
    useExponent(ctx, scores.front(), position, pairs);
  yieldPair(ctx, reduced, adjoints, dots, position, elements, pairs);
  return success();
}

Value mlir::attn::isLiveByMask(GradientContext &ctx, Side reduced,
                               ArrayRef<Value> position) {
  Value live;
  if (!ctx.work.getMask().empty()) {
    SmallVector<Value> arguments(position);
    llvm::append_range(arguments, inCaptures(ctx));
    live = inlineRegion(ctx.b, ctx.work.getMask(), arguments).front();
  }
  bool overKeys = reduced == Side::keys;
  if ((overKeys && !ctx.keyBase) || !ctx.keySource.lengths)
    return live;
  Value at = arith::IndexCastOp::create(ctx.b, ctx.loc, ctx.b.getIndexType(),
                                        position[0]);
  Value length = tensor::ExtractOp::create(
      ctx.b, ctx.loc, ctx.in(ctx.outside(ctx.keySource.lengths)),
      ValueRange(at));
  Value inside = arith::CmpIOp::create(
      ctx.b, ctx.loc, arith::CmpIPredicate::slt, position[3], length);
  return live ? arith::AndIOp::create(ctx.b, ctx.loc, live, inside).getResult()
              : inside;
}

/// The mask of the reduction, and which keys there are.
void mlir::attn::buildMask(GradientContext &ctx, Side reduced, Region &region) {
  bool overKeys = reduced == Side::keys;
  bool hasLengths = (!overKeys || ctx.keyBase) && ctx.keySource.lengths;
  if (ctx.work.getMask().empty() && !hasLengths)
    return;
  Type i32 = ctx.b.getI32Type();
  Block *block = openRegion(ctx, region, {i32, i32, i32, i32});
  SmallVector<Value> position =
      positionsOf(ctx, reduced, block->getArguments().take_front(4));
  YieldOp::create(ctx.b, ctx.loc, isLiveByMask(ctx, reduced, position));
}

void mlir::attn::capturePairs(GradientContext &ctx, Side reduced,
                              bool wantsScores, SmallVectorImpl<Value> &left,
                              SmallVectorImpl<Value> &right) {
  bool overKeys = reduced == Side::keys;
  auto addPair = [&](Value query, Value key) {
    left.push_back(overKeys ? query : key);
    right.push_back(overKeys ? key : query);
  };
  for (auto [query, key] :
       llvm::zip_equal(ctx.op.getQueries(), ctx.op.getKeys()))
    addPair(ctx.outside(query), ctx.outside(key));
  captureRegions(ctx);
  for (Value stat : ctx.rows.stats)
    ctx.capture(stat);
  for (Value exponent : ctx.rows.exponents)
    ctx.capture(exponent);
  for (auto [i, output] : llvm::enumerate(ctx.outputs)) {
    if (!output.hasChannels())
      continue;
    ctx.capture(ctx.rows.factors[i]);
    if (wantsScores)
      addPair(
          ctx.cotangents[i],
          ctx.outside(ctx.op.getValues()[valueNumber(ctx, output.component)]));
  }
  if (wantsScores)
    for (Value row : llvm::concat<Value>(
             ctx.rows.units, MutableArrayRef<Value>{ctx.rows.maximum},
             MutableArrayRef<Value>{ctx.rows.first}))
      ctx.capture(row);
  if (ctx.isWalk())
    captureWalk(ctx, wantsScores);
  if (wantsScores)
    for (Value cotangent : ctx.unfolded.scores)
      ctx.capture(cotangent);
  if ((!overKeys || ctx.keyBase) && ctx.keySource.lengths)
    ctx.capture(ctx.outside(ctx.keySource.lengths));
  ctx.capture(ctx.keyBase);
}

namespace {
/// A gradient as a sum of weights times rows of operands, or of weights alone.
struct Sum {
  Value *gradient;
  RankedTensorType type;
  std::string name;
  bool isUnit = false;
  /// Numbers of outputs (of a value's gradient), or of a dot or of an input.
  SmallVector<std::pair<unsigned, Value>> terms = {};
  bool ofOutputs = false;
  /// What each row has besides.
  Value rowPart = {};
  /// Of a table: the element that pairs read which are far apart.
  std::string farPlace = {};
  /// What the sum is a multiple of the gradient by, if it is not that.
  std::optional<float> times = {};
};
} // namespace

/// Whether a value is a difference times `factor`.
static bool isProductWith(Value value, Value factor) {
  auto product = value.getDefiningOp<arith::MulFOp>();
  return product && product.getRhs() == factor &&
         product.getLhs().getDefiningOp<arith::SubFOp>();
}

/// Adds to `sums` what input `n` has as its gradient in reductions over
/// `reduced`, if anything.
static LogicalResult addSum(GradientContext &ctx, Side reduced, unsigned n,
                            GradientInput &input, SmallVectorImpl<Sum> &sums) {
  bool overKeys = reduced == Side::keys;
  Value argument = ctx.func.getArgument(input.argument);
  Sum sum{&input.gradient, dyn_cast<RankedTensorType>(argument.getType()),
          "d" + std::to_string(input.argument)};
  unsigned number = input.number;
  if (input.role == InputRole::query && overKeys) {
    sum.name = number ? "dq" + std::to_string(number) : "dq";
    if (ctx.isPart()) // The caller adds up blocks.
      sum.type = RankedTensorType::get(sum.type.getShape(), ctx.b.getF32Type());
    sum.terms.push_back({number, ctx.outside(ctx.op.getKeys()[number])});
  } else if (input.role == InputRole::key && !overKeys) {
    sum.name = number ? "dk" + std::to_string(number) : "dk";
    sum.terms.push_back({number, ctx.outside(ctx.op.getQueries()[number])});
  } else if (input.role == InputRole::value && !overKeys &&
             !ctx.monoid.isGeneral()) {
    sum.name = number ? "dv" + std::to_string(number) : "dv";
    sum.ofOutputs = true;
    const GradientInput &self = input;
    auto isOfInput = [&self](unsigned value) {
      return value == self.number || llvm::is_contained(self.more, value);
    };
    for (auto [i, output] : llvm::enumerate(ctx.outputs))
      if (output.hasChannels() && isOfInput(valueNumber(ctx, output.component)))
        sum.terms.push_back({unsigned(i), ctx.cotangents[i]});
    if (sum.terms.empty())
      return ctx.op.emitOpError("expected each value that is differentiated to "
                                "enter a result, but got argument ")
             << input.argument << " that does not";
  } else if (input.isOfPairs() &&
             input.spread ==
                 (overKeys ? InputSpread::rows : InputSpread::keys)) {
    sum.isUnit = true;
    sum.rowPart = input.rowPart;
    Value like =
        overKeys ? ctx.op.getQueries().front() : ctx.op.getKeys().front();
    sum.type = RankedTensorType::get(
        cast<RankedTensorType>(like.getType()).getShape().drop_back(),
        ctx.b.getF32Type());
    sum.terms.push_back({unsigned(n), Value()});
  } else {
    if (!overKeys)
      return success();
    input.farGradients.resize(input.farPlaces.size());
    for (auto [i, place] : llvm::enumerate(input.farPlaces)) {
      Sum far{&input.farGradients[i], rowType(ctx),
              sum.name + "_far" + std::to_string(i)};
      far.isUnit = true;
      far.farPlace = place;
      far.terms.push_back({unsigned(n), Value()});
      sums.push_back(far);
    }
    return success();
  }
  sums.push_back(sum);
  return success();
}

/// The score region of a reduction: what each pair adds to the sums of a group.
static LogicalResult buildTerms(GradientContext &ctx, Side reduced,
                                AggregateOp reduction, size_t numDots,
                                bool wantsScores, MutableArrayRef<Sum> group) {
  Type f32 = ctx.b.getF32Type(), i32 = ctx.b.getI32Type();
  SmallVector<Type> arguments(numDots, f32);
  arguments.append(4, i32);
  Block *block = openRegion(ctx, reduction.getScore(), arguments);
  PairValues pairs;
  if (failed(buildPair(ctx, reduced, block, wantsScores, pairs)))
    return failure();
  Value zero = arith::ConstantFloatOp::create(
      ctx.b, ctx.loc, ctx.b.getF32Type(), APFloat(0.0f));
  SmallVector<Value> position =
      positionsOf(ctx, reduced, block->getArguments().slice(numDots, 4));
  SmallVector<Value> yields;
  for (Sum &sum : group)
    for (auto &term : sum.terms) {
      bool isFar = !sum.farPlace.empty();
      Value weight = isFar           ? pairs.reads[term.first].front()
                     : sum.isUnit    ? pairs.captures[term.first]
                     : sum.ofOutputs ? pairs.weights[term.first]
                                     : pairs.dots[term.first];
      if (reduced == Side::queries && sum.isUnit && pairs.dotScale &&
          isProductWith(weight, pairs.factor)) {
        sum.times = *pairs.dotScale;
        weight = pairs.dots.front();
      }
      // Where its weight is 0, a pair adds nothing to the cotangent of a dot.
      Value isLive = pairs.isLive;
      if (pairs.factor && !sum.isUnit && !sum.ofOutputs)
        isLive = arith::CmpFOp::create(
            ctx.b, ctx.loc, arith::CmpFPredicate::UNE, pairs.factor, zero);
      bool isZero =
          pairs.isDeadZero &&
          (!sum.isUnit || sum.times || isProductWith(weight, pairs.factor)) &&
          !(isFar && pairs.elements[term.first].size() > 1);
      if (isFar)
        weight = farPart(ctx, pairs.elements[term.first],
                         pairs.reads[term.first], position, sum.farPlace);
      yields.push_back(
          isZero || weight == pairs.factor
              ? weight
              : arith::SelectOp::create(ctx.b, ctx.loc, isLive, weight, zero)
                    .getResult());
    }
  YieldOp::create(ctx.b, ctx.loc, yields);
  return success();
}

/// The finalize region, where results are sums of several terms or have parts
/// that rows give.
static void buildTotals(GradientContext &ctx, AggregateOp reduction,
                        size_t numTerms, ArrayRef<Sum> group) {
  Type f32 = ctx.b.getF32Type(), i32 = ctx.b.getI32Type();
  SmallVector<Type> states(numTerms, f32);
  states.append(3, i32);
  Block *finalize = openRegion(ctx, reduction.getFinalize(), states);
  SmallVector<Value> totals;
  unsigned next = 0;
  for (const Sum &sum : group) {
    Value total;
    for (size_t i = 0; i < sum.terms.size(); ++i) {
      Value part = finalize->getArgument(next++);
      total =
          total ? arith::AddFOp::create(ctx.b, ctx.loc, total, part).getResult()
                : part;
    }
    if (sum.times)
      total = arith::MulFOp::create(
          ctx.b, ctx.loc, total,
          arith::ConstantFloatOp::create(ctx.b, ctx.loc, ctx.b.getF32Type(),
                                         APFloat(1.0f / *sum.times)));
    if (sum.rowPart) {
      ValueRange position = finalize->getArguments().slice(numTerms, 3);
      total = arith::AddFOp::create(ctx.b, ctx.loc, total,
                                    ofRow(ctx, sum.rowPart, position));
    }
    totals.push_back(total);
  }
  YieldOp::create(ctx.b, ctx.loc, totals);
}

/// One reduction for the sums of a group, whose values agree.
static LogicalResult buildGroup(GradientContext &ctx, Side reduced,
                                MutableArrayRef<Sum> group) {
  bool overKeys = reduced == Side::keys;
  bool wantsScores =
      llvm::any_of(group, [](const Sum &sum) { return !sum.ofOutputs; });

  SmallVector<Value> left, right, values;
  capturePairs(ctx, reduced, wantsScores, left, right);
  for (Sum &sum : group)
    ctx.capture(sum.rowPart);

  SmallVector<Component> components;
  SmallVector<std::string> names;
  SmallVector<Type> types;
  for (Sum &sum : group) {
    for (auto &term : sum.terms) {
      components.push_back(sum.isUnit ? Component::unit : Component::value);
      if (term.second)
        values.push_back(term.second);
      names.push_back(sum.name);
      if (&term != &sum.terms.front())
        names.back() += "_" + std::to_string(&term - sum.terms.begin());
    }
    types.push_back(sum.type);
  }
  FlatSymbolRefAttr monoidRef =
      makeSum(ctx, overKeys ? "_queries" : "_keys", components, names);
  auto reduction =
      makeReduction(ctx, monoidRef, reduced, types, left, right, values);
  reduction.setDeadIsZero(true);
  constexpr unsigned exponentsOfElements = 2;
  reduction.setDeadByElement(ctx.op.getMask().empty() && killsByScore(ctx.op) &&
                             numExponents(ctx) == exponentsOfElements);
  reduction.setAnyOrder(ctx.func->hasAttr(getAnyOrderName()));
  buildMask(ctx, reduced, reduction.getMask());
  if (failed(
          buildTerms(ctx, reduced, reduction, left.size(), wantsScores, group)))
    return failure();
  if (components.size() != group.size() ||
      llvm::any_of(group,
                   [](const Sum &sum) { return sum.rowPart || sum.times; }))
    buildTotals(ctx, reduction, components.size(), group);
  for (auto [sum, result] : llvm::zip_equal(group, reduction.getResults()))
    *sum.gradient = result;
  ctx.b.setInsertionPointToEnd(&ctx.target.getBody().front());
  return success();
}

LogicalResult mlir::attn::buildGradients(GradientContext &ctx, Side reduced) {
  SmallVector<Sum> sums;
  for (auto [n, input] : llvm::enumerate(ctx.wanted))
    if (failed(addSum(ctx, reduced, n, input, sums)))
      return failure();
  // Values of one reduction agree in channels and type, and units go anywhere.
  while (!sums.empty()) {
    auto keyOf = [](const Sum &sum) {
      Type type = sum.terms.front().second.getType();
      auto tensor = cast<RankedTensorType>(type);
      return std::pair(tensor.getShape().back(), tensor.getElementType());
    };
    auto lead = llvm::find_if(sums, [](const Sum &s) { return !s.isUnit; });
    SmallVector<Sum> group, rest;
    for (Sum &sum : sums) {
      bool joins = sum.isUnit || keyOf(sum) == keyOf(*lead);
      (joins ? group : rest).push_back(sum);
    }
    sums = rest;
    if (failed(buildGroup(ctx, reduced, group)))
      return failure();
  }
  return success();
}
