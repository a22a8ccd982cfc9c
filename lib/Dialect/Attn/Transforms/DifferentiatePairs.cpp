//===- DifferentiatePairs.cpp - Reductions that are gradients -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Adjoints.h"
#include "Differentiator.h"
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

FlatSymbolRefAttr Differentiator::makeSum(StringRef suffix,
                                          ArrayRef<Component> components,
                                          ArrayRef<std::string> names) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(func);
  SmallVector<StringRef> outputs(names.begin(), names.end());
  MonoidOp sum =
      createPlainSum(b, loc, func->getParentOfType<ModuleOp>(),
                     (func.getName() + suffix).str(), components, outputs);
  return FlatSymbolRefAttr::get(sum.getSymNameAttr());
}

AggregateOp Differentiator::makeReduction(FlatSymbolRefAttr sum, Side reduced,
                                          TypeRange types, ValueRange left,
                                          ValueRange right, ValueRange values) {
  b.setInsertionPointToEnd(&target.getBody().front());
  bool overKeys = reduced == Side::keys;
  auto form = [&](bool ofKeys) -> SourceAttr {
    Source source = ofKeys ? keySource : rowSource;
    // What has the rows has no lengths, and what is a part of the keys neither:
    // the mask says which are live.
    if (ofKeys && (!overKeys || keyBase))
      source.lengths = Value();
    return source.getForm(b.getContext());
  };
  auto index = [&](bool ofKeys) {
    Source source = ofKeys ? keySource : rowSource;
    if (ofKeys && (!overKeys || keyBase))
      source.lengths = Value();
    return llvm::map_to_vector(source.getOperands(),
                               [&](Value value) { return outside(value); });
  };
  return AggregateOp::create(
      b, loc, types, sum, ValueRange(), left, right, values,
      captures.getArrayRef(), index(!overKeys), index(overKeys), Value(),
      Value(), form(!overKeys), form(overKeys),
      SideAttr::get(b.getContext(), reduced), ScheduleAttr(),
      op.getPrecisionAttr(), UnitAttr(), UnitAttr(), UnitAttr(), RotaryAttr());
}

Block *Differentiator::openRegion(Region &region, TypeRange types) {
  Block *block = b.createBlock(&region);
  for (Type type : types)
    block->addArgument(type, loc);
  captured.clear();
  for (Value value : captures)
    captured[value] = block->addArgument(value.getType(), loc);
  return block;
}

/// What every region takes: the captures of the reduction, and what says where
/// a row is.
void Differentiator::captureRegions() {
  captures.clear();
  for (Value value : work.getCaptures())
    capture(outside(value));
  for (Value value : work.getParams())
    capture(outside(value));
  if (isPacked())
    capture(outside(rowSource.map));
}

SmallVector<Value> Differentiator::inCaptures() {
  return llvm::map_to_vector(work.getCaptures(),
                             [&](Value value) { return in(outside(value)); });
}

SmallVector<Value> Differentiator::paramsOf() {
  return llvm::map_to_vector(work.getParams(),
                             [&](Value value) { return in(outside(value)); });
}

SmallVector<Value> Differentiator::copyRegion(Region &region,
                                              ValueRange arguments,
                                              Elements &elements) {
  auto hook = [&](Operation *op, RegionCloner &cloner) -> Value {
    auto extract = dyn_cast<tensor::ExtractOp>(op);
    if (!extract)
      return {};
    SmallVector<Value> indices;
    for (Value index : extract.getIndices())
      indices.push_back(cloner.get(index));
    Value tensor = cloner.get(extract.getTensor());
    Value element = tensor::ExtractOp::create(b, loc, tensor, indices);
    elements[tensor].push_back(element);
    return element;
  };
  return inlineRegion(b, region, arguments, hook);
}

Value Differentiator::sumOf(Adjoints &adjoints, Value argument,
                            const Elements &elements) {
  Value sum = adjoints.get(argument);
  for (Value element : elements.lookup(argument))
    if (Value part = adjoints.get(element))
      sum = sum ? arith::AddFOp::create(b, loc, sum, part).getResult() : part;
  return sum;
}

Value Differentiator::ofRow(Value tensor, ValueRange position) {
  auto index = [&](Value value) -> Value {
    return arith::IndexCastOp::create(b, loc, b.getIndexType(), value);
  };
  Value batch = index(position[0]), head = index(position[1]);
  if (!isPacked())
    return tensor::ExtractOp::create(
        b, loc, in(tensor), ValueRange{batch, head, index(position[2])});
  Value offset = tensor::ExtractOp::create(b, loc, in(outside(rowSource.map)),
                                           ValueRange(batch));
  Value row = arith::AddIOp::create(b, loc, position[2], offset);
  return tensor::ExtractOp::create(b, loc, in(tensor),
                                   ValueRange{head, index(row)});
}

//===----------------------------------------------------------------------===//
// Pairs
//===----------------------------------------------------------------------===//

SmallVector<Value> Differentiator::positionsOf(Side reduced, ValueRange given) {
  SmallVector<Value> position(given);
  if (reduced == Side::queries)
    std::swap(position[2], position[3]);
  if (keyBase)
    position[3] = arith::AddIOp::create(b, loc, position[3], in(keyBase));
  return position;
}

/// A score of -inf is no key, wherever it comes from.
Value Differentiator::isLive(ValueRange scores) {
  Value isAny;
  for (Value score : scores) {
    Value infinity = arith::ConstantFloatOp::create(
        b, loc, b.getF32Type(),
        APFloat::getInf(b.getF32Type().getFloatSemantics(), /*Negative=*/true));
    Value is = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, score,
                                     infinity);
    isAny = isAny ? arith::OrIOp::create(b, loc, isAny, is).getResult() : is;
  }
  return isAny;
}

/// Builds, in the score region of a reduction, the weights of the pair and,
/// with `wantsScores`, the cotangents of what the scores are made of.
LogicalResult Differentiator::buildPair(Side reduced, Block *block,
                                        bool wantsScores, Pairs &pairs) {
  if (monoid.isGeneral())
    return buildPairOfScores(reduced, block, pairs);
  unsigned numDots = op.getQueries().size();
  unsigned numFloats = block->getNumArguments() - 4 - captures.size();
  ValueRange dots = block->getArguments().take_front(numDots);
  ValueRange valueDots =
      block->getArguments().slice(numDots, numFloats - numDots);
  ValueRange given = block->getArguments().slice(numFloats, 4);
  SmallVector<Value> position = positionsOf(reduced, given);

  Adjoints adjoints(b, loc);
  SmallVector<Value> arguments(dots), captured = inCaptures();
  llvm::append_range(arguments, position);
  llvm::append_range(arguments, captured);
  Elements elements;
  SmallVector<Value> scores = copyRegion(work.getScore(), arguments, elements);
  SmallVector<Value> params = paramsOf();
  SmallVector<Value> lifted = scores;
  llvm::append_range(lifted, params);
  SmallVector<Value> state = inlineRegion(b, monoid.getLift(), lifted);
  SmallVector<Value> weights(state.begin() + numStats(), state.end());
  Value inBlock = given[reduced == Side::keys ? 3 : 2];
  if (isWalk()) {
    scaleByGates(adjoints, position, inBlock, weights);
  } else if (numStats()) {
    SmallVector<Value> ends(state.begin(), state.begin() + numStats());
    for (Value stat : rows.stats)
      ends.push_back(ofRow(stat, position));
    llvm::append_range(ends, params);
    Operation *last = &block->back();
    SmallVector<Value> factors = inlineRegion(b, monoid.getRescale(), ends);
    // Factors of live pairs are finite (attn-check-laws).
    for (Operation *op = last->getNextNode(); op; op = op->getNextNode())
      adjoints.setBounded(op);
    for (auto [k, weight] : llvm::enumerate(weights))
      weight = adjoints.multiply(factors[monoid.hasFactors() ? k : 0], weight);
  }
  for (Value dot : dots)
    adjoints.addRoot(dot);
  for (Input &input : wanted)
    if (input.isOfPairs())
      addRoots(adjoints, input, elements);
  adjoints.follow();

  pairs.isLive = isLive(scores);
  // The factor of values, as of dropout: of positions, so a constant here.
  Value ofValues;
  if (!work.getFactor().empty())
    ofValues = inlineRegion(b, work.getFactor(),
                            ArrayRef(arguments).drop_front(numDots))
                   .front();
  auto addTo = [&](Value &sum, Value part) {
    sum = sum ? arith::AddFOp::create(b, loc, sum, part).getResult() : part;
  };
  Value divisor;
  unsigned next = 0;
  for (auto [i, output] : llvm::enumerate(outputs)) {
    if (!output.hasChannels()) {
      pairs.weights.push_back(Value());
      continue;
    }
    SmallVector<Value> factors;
    if (rows.factors[i])
      divisor = factors.emplace_back(ofRow(rows.factors[i], position));
    if (ofValues)
      factors.push_back(ofValues);
    bool isDivided = &output == dividedOutput() && rows.factors[i];
    Value weight = weights[output.component];
    for (Value factor : factors) {
      weight = adjoints.multiply(weight, factor);
      if (isDivided && !pairs.factor)
        pairs.factor = weight = arith::SelectOp::create(
            b, loc, pairs.isLive, weight, adjoints.zero());
    }
    pairs.weights.push_back(weight);
    if (!wantsScores)
      continue;
    Value cotangent = valueDots[next++];
    if (pairs.wantsTotal)
      addTo(pairs.total, adjoints.multiply(weight, cotangent));
    if (isDivided) {
      if (ofValues)
        cotangent = adjoints.multiply(cotangent, ofValues);
      for (unsigned k = 0; k < numComponents(); ++k)
        if (rows.units[k] && hasItsWeights(k))
          cotangent = arith::SubFOp::create(b, loc, cotangent,
                                            ofRow(rows.units[k], position));
      factors.truncate(1);
    }
    for (Value factor : factors)
      cotangent = adjoints.multiply(cotangent, factor);
    adjoints.add(weights[output.component], cotangent);
  }
  if (!wantsScores) {
    if (!rows.exponents.empty() && pairs.factor)
      useExponent(scores.front(), position, pairs);
    return success();
  }
  for (unsigned k = 0; k < numComponents(); ++k)
    if (rows.units[k] && !hasItsWeights(k)) {
      Value cotangent = ofRow(rows.units[k], position);
      adjoints.add(weights[k], cotangent);
      if (pairs.wantsTotal)
        addTo(pairs.total, adjoints.multiply(weights[k], cotangent));
    }
  if (pairs.wantsTotal)
    return success();
  if (isWalk() &&
      failed(addStatCotangents(adjoints, position, inBlock,
                               ArrayRef(state).take_front(numStats()))))
    return failure();
  if (rows.maximum) {
    Value key = arith::SIToFPOp::create(b, loc, b.getF32Type(), position[3]);
    Value isFirst = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ,
                                          key, ofRow(rows.first, position));
    adjoints.add(state.front(),
                 arith::SelectOp::create(b, loc, isFirst,
                                         ofRow(rows.maximum, position),
                                         adjoints.zero()));
  }
  if (failed(adjoints.sweep()))
    return failure();
  for (auto [i, output] : llvm::enumerate(outputs))
    if (&output == dividedOutput() && pairs.factor)
      reuseWeight(block, weights[output.component], divisor, pairs);
  if (!rows.exponents.empty() && pairs.factor)
    useExponent(scores.front(), position, pairs);
  auto orZero = [&](Value value) { return value ? value : adjoints.zero(); };
  // What keys have of an element that is added is a cotangent without scale.
  bool sumsElements =
      reduced == Side::queries && pairs.isDeadZero &&
      llvm::any_of(wanted, [](const Input &input) {
        return input.isOfPairs() && input.spread == Spread::keys;
      });
  for (Value dot : dots)
    pairs.dots.push_back(orZero(sumsElements
                                    ? adjoints.get(dot)
                                    : withScale(adjoints.get(dot), pairs)));
  for (Input &input : wanted) {
    Value sum;
    if (input.isOfPairs())
      sum = sumOf(adjoints, inInput(input), elements);
    pairs.captures.push_back(orZero(sum));
    addReads(adjoints, input, elements, position, pairs);
  }
  return success();
}

Value Differentiator::isLiveByMask(Side reduced, ArrayRef<Value> position) {
  Value live;
  if (!work.getMask().empty()) {
    SmallVector<Value> arguments(position);
    llvm::append_range(arguments, inCaptures());
    live = inlineRegion(b, work.getMask(), arguments).front();
  }
  bool overKeys = reduced == Side::keys;
  if ((overKeys && !keyBase) || !keySource.lengths)
    return live;
  Value at = arith::IndexCastOp::create(b, loc, b.getIndexType(), position[0]);
  Value length = tensor::ExtractOp::create(
      b, loc, in(outside(keySource.lengths)), ValueRange(at));
  Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                       position[3], length);
  return live ? arith::AndIOp::create(b, loc, live, inside).getResult()
              : inside;
}

/// The mask of the reduction, and which keys there are.
void Differentiator::buildMask(Side reduced, Region &region) {
  bool overKeys = reduced == Side::keys;
  bool hasLengths = (!overKeys || keyBase) && keySource.lengths;
  if (work.getMask().empty() && !hasLengths)
    return;
  Type i32 = b.getI32Type();
  Block *block = openRegion(region, {i32, i32, i32, i32});
  SmallVector<Value> position =
      positionsOf(reduced, block->getArguments().take_front(4));
  YieldOp::create(b, loc, isLiveByMask(reduced, position));
}

void Differentiator::capturePairs(Side reduced, bool wantsScores,
                                  SmallVectorImpl<Value> &left,
                                  SmallVectorImpl<Value> &right) {
  bool overKeys = reduced == Side::keys;
  auto addPair = [&](Value query, Value key) {
    left.push_back(overKeys ? query : key);
    right.push_back(overKeys ? key : query);
  };
  for (auto [query, key] : llvm::zip_equal(op.getQueries(), op.getKeys()))
    addPair(outside(query), outside(key));
  captureRegions();
  for (Value stat : rows.stats)
    capture(stat);
  for (Value exponent : rows.exponents)
    capture(exponent);
  for (auto [i, output] : llvm::enumerate(outputs)) {
    if (!output.hasChannels())
      continue;
    capture(rows.factors[i]);
    if (wantsScores)
      addPair(cotangents[i],
              outside(op.getValues()[valueNumber(output.component)]));
  }
  if (wantsScores)
    for (Value row :
         llvm::concat<Value>(rows.units, MutableArrayRef<Value>{rows.maximum},
                             MutableArrayRef<Value>{rows.first}))
      capture(row);
  if (isWalk())
    captureWalk(wantsScores);
  if (wantsScores)
    for (Value cotangent : unfolded.scores)
      capture(cotangent);
  if ((!overKeys || keyBase) && keySource.lengths)
    capture(outside(keySource.lengths));
  capture(keyBase);
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
};
} // namespace

/// Whether a value is a difference times `factor`.
static bool isProductWith(Value value, Value factor) {
  auto product = value.getDefiningOp<arith::MulFOp>();
  return product && product.getRhs() == factor &&
         product.getLhs().getDefiningOp<arith::SubFOp>();
}

LogicalResult Differentiator::buildGradients(Side reduced) {
  bool overKeys = reduced == Side::keys;
  SmallVector<Sum> sums;
  for (auto [n, input] : llvm::enumerate(wanted)) {
    Value argument = func.getArgument(input.argument);
    Sum sum{&input.gradient, dyn_cast<RankedTensorType>(argument.getType()),
            "d" + std::to_string(input.argument)};
    unsigned number = input.number;
    if (input.role == Role::query && overKeys) {
      sum.name = number ? "dq" + std::to_string(number) : "dq";
      if (isPart()) // The caller adds up blocks.
        sum.type = RankedTensorType::get(sum.type.getShape(), b.getF32Type());
      sum.terms.push_back({number, outside(op.getKeys()[number])});
    } else if (input.role == Role::key && !overKeys) {
      sum.name = number ? "dk" + std::to_string(number) : "dk";
      sum.terms.push_back({number, outside(op.getQueries()[number])});
    } else if (input.role == Role::value && !overKeys && !monoid.isGeneral()) {
      sum.name = number ? "dv" + std::to_string(number) : "dv";
      sum.ofOutputs = true;
      const Input &self = input;
      auto isOfInput = [&self](unsigned value) {
        return value == self.number || llvm::is_contained(self.more, value);
      };
      for (auto [i, output] : llvm::enumerate(outputs))
        if (output.hasChannels() && isOfInput(valueNumber(output.component)))
          sum.terms.push_back({unsigned(i), cotangents[i]});
      if (sum.terms.empty())
        return op.emitOpError("expected each value that is differentiated to "
                              "enter a result, but got argument ")
               << input.argument << " that does not";
    } else if (input.isOfPairs() &&
               input.spread == (overKeys ? Spread::rows : Spread::keys)) {
      sum.isUnit = true;
      sum.rowPart = input.rowPart;
      Value like = overKeys ? op.getQueries().front() : op.getKeys().front();
      sum.type = RankedTensorType::get(
          cast<RankedTensorType>(like.getType()).getShape().drop_back(),
          b.getF32Type());
      sum.terms.push_back({unsigned(n), Value()});
    } else {
      continue;
    }
    sums.push_back(sum);
  }
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
    bool wantsScores =
        llvm::any_of(group, [](const Sum &sum) { return !sum.ofOutputs; });

    SmallVector<Value> left, right, values;
    capturePairs(reduced, wantsScores, left, right);
    for (Sum &sum : group)
      capture(sum.rowPart);

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
        makeSum(overKeys ? "_queries" : "_keys", components, names);
    auto reduction =
        makeReduction(monoidRef, reduced, types, left, right, values);
    reduction->setAttr(getDeadIsZeroName(), b.getUnitAttr());
    if (func->hasAttr(getAnyOrderName()))
      reduction->setAttr(getAnyOrderName(), b.getUnitAttr());
    buildMask(reduced, reduction.getMask());

    Type f32 = b.getF32Type(), i32 = b.getI32Type();
    SmallVector<Type> arguments(left.size(), f32);
    arguments.append(4, i32);
    Block *block = openRegion(reduction.getScore(), arguments);
    Pairs pairs;
    if (failed(buildPair(reduced, block, wantsScores, pairs)))
      return failure();
    Value zero =
        arith::ConstantFloatOp::create(b, loc, b.getF32Type(), APFloat(0.0f));
    SmallVector<Value> yields;
    for (Sum &sum : group)
      for (auto &term : sum.terms) {
        Value weight = sum.isUnit      ? pairs.captures[term.first]
                       : sum.ofOutputs ? pairs.weights[term.first]
                                       : pairs.dots[term.first];
        // Where its weight is 0, a pair adds nothing to the cotangent of a dot.
        Value isLive = pairs.isLive;
        if (pairs.factor && !sum.isUnit && !sum.ofOutputs)
          isLive = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE,
                                         pairs.factor, zero);
        bool isZero = pairs.isDeadZero &&
                      (!sum.isUnit || isProductWith(weight, pairs.factor));
        yields.push_back(
            isZero || weight == pairs.factor
                ? weight
                : arith::SelectOp::create(b, loc, isLive, weight, zero)
                      .getResult());
      }
    YieldOp::create(b, loc, yields);

    if (components.size() != group.size() ||
        llvm::any_of(group, [](const Sum &sum) { return sum.rowPart; })) {
      SmallVector<Type> states(components.size(), f32);
      states.append(3, i32);
      Block *finalize = openRegion(reduction.getFinalize(), states);
      SmallVector<Value> totals;
      unsigned next = 0;
      for (Sum &sum : group) {
        Value total;
        for (size_t i = 0; i < sum.terms.size(); ++i) {
          Value part = finalize->getArgument(next++);
          total = total ? arith::AddFOp::create(b, loc, total, part).getResult()
                        : part;
        }
        if (sum.rowPart) {
          ValueRange position =
              finalize->getArguments().slice(components.size(), 3);
          total = arith::AddFOp::create(b, loc, total,
                                        ofRow(sum.rowPart, position));
        }
        totals.push_back(total);
      }
      YieldOp::create(b, loc, totals);
    }
    for (auto [sum, result] : llvm::zip_equal(group, reduction.getResults()))
      *sum.gradient = result;
    b.setInsertionPointToEnd(&target.getBody().front());
  }
  return success();
}
