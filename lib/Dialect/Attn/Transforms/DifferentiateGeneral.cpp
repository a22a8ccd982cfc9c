//===- DifferentiateGeneral.cpp - Gradients of general monoids ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A general monoid's state is no sum of anything: its derivative goes back
// through combine, key by key, and reads the state ahead of each key. The
// functions are about a block of keys, as those of suffix and prefix monoids:
//
//   f_states     takes the state ahead of a block, and gives the one behind it
//   f_backward   takes the cotangents of that, too, and gives those ahead of
//                the block, and what the block adds to gradients
//
// attn.unfold does what is key by key, on scores that attn.scores has written.
// It gives the cotangent of each score; from there to dots and captures, a pair
// is differentiated as in any sum.
//
//===----------------------------------------------------------------------===//

#include "Adjoints.h"
#include "Differentiator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;

LogicalResult Differentiator::checkGeneral() {
  auto refuse = [&](const Twine &expected) {
    return op.emitOpError("expected ")
           << expected << ", to differentiate @" << monoid.getSymName()
           << ", which is general";
  };
  if (isPacked())
    return refuse("sequences that are not packed");
  if (!op.getInit().empty())
    return refuse("no init");
  Region &finalize = work.getFinalize();
  unsigned first = numStats() + numComponents();
  auto isUnused = [](BlockArgument argument) { return argument.use_empty(); };
  if (!llvm::all_of(finalize.getArguments().slice(first, 3), isUnused))
    return refuse("a finalize that reads no position");
  for (auto [argument, value] : llvm::zip_equal(
           finalize.getArguments().drop_front(first + 3), work.getCaptures()))
    if (!argument.use_empty() && !value.getType().isF32())
      return refuse("a finalize that captures f32 alone");
  for (const Input &input : wanted)
    if (input.role == Role::param)
      return op.emitOpError("expected parameters that are not differentiated, "
                            "of @")
             << monoid.getSymName() << ", which is general, but got argument "
             << input.argument << "; leave it out of 'inputs'";
  return success();
}

/// The numbers of a state, those of rows first: statistics are 0, 1, ..,
/// components follow.
SmallVector<unsigned> Differentiator::stateOrder(bool ofRows, bool ofChannels) {
  SmallVector<unsigned> order;
  unsigned size = numStats() + numComponents();
  auto isRow = [&](unsigned i) {
    return i < numStats() || isUnit(i - numStats());
  };
  for (unsigned i = 0; i < size && ofRows; ++i)
    if (isRow(i))
      order.push_back(i);
  for (unsigned i = 0; i < size && ofChannels; ++i)
    if (!isRow(i))
      order.push_back(i);
  return order;
}

static SmallVector<Value> pick(ValueRange values, ArrayRef<unsigned> numbers) {
  return llvm::map_to_vector(numbers, [&](unsigned i) { return values[i]; });
}

RankedTensorType Differentiator::channelType() {
  SmallVector<int64_t> shape(rowType().getShape());
  auto value = cast<RankedTensorType>(op.getValues().front().getType());
  shape.push_back(value.getShape().back());
  return RankedTensorType::get(shape, b.getF32Type());
}

SmallVector<Type> Differentiator::stateTypes() {
  SmallVector<Type> types(stateOrder(true, false).size(), rowType());
  if (size_t channels = stateOrder(false, true).size())
    types.append(channels, channelType());
  return types;
}

void Differentiator::addUnfoldArguments(bool isStates,
                                        AddArgument addArgument) {
  SmallVector<Type> types = stateTypes();
  unfolded = {};
  unfolded.ahead.resize(types.size());
  unfolded.behind.resize(isStates ? 0 : types.size());
  for (auto [i, state] : llvm::enumerate(unfolded.ahead))
    addArgument(types[i], "state" + Twine(i), state);
  for (auto [i, cotangent] : llvm::enumerate(unfolded.behind))
    addArgument(types[i], "dstate" + Twine(i), cotangent);
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

/// The scores of the block in memory, -inf for dead pairs.
SmallVector<Value> Differentiator::writeScores() {
  SmallVector<Value> left, right;
  capturePairs(Side::keys, /*wantsScores=*/false, left, right);
  auto keys = cast<RankedTensorType>(op.getKeys().front().getType());
  SmallVector<int64_t> shape(rowType().getShape());
  shape.push_back(keys.getDimSize(2));
  SmallVector<Type> types(monoid.getNumScores(),
                          RankedTensorType::get(shape, b.getF32Type()));
  SmallVector<Value> params;
  for (Value param : op.getParams())
    params.push_back(outside(param));
  auto scores = ScoresOp::create(
      b, loc, types, op.getMonoidAttr(), params, left, right, ValueRange(),
      captures.getArrayRef(), ValueRange(), ValueRange(), Value(), Value(),
      SourceAttr(), SourceAttr(), SideAttr::get(b.getContext(), Side::keys),
      ScheduleAttr(), op.getPrecisionAttr(), UnitAttr(), UnitAttr(), UnitAttr(),
      RotaryAttr());
  SmallVector<Type> taken(left.size(), b.getF32Type());
  taken.append(4, b.getI32Type());
  Block *block = openRegion(scores.getScore(), taken);
  SmallVector<Value> arguments(block->getArguments().take_front(left.size()));
  SmallVector<Value> position =
      positionsOf(Side::keys, block->getArguments().slice(left.size(), 4));
  llvm::append_range(arguments, position);
  llvm::append_range(arguments, inCaptures());
  SmallVector<Value> values = inlineRegion(b, work.getScore(), arguments);
  if (Value live = isLiveByMask(Side::keys, position)) {
    Value dead = arith::ConstantFloatOp::create(
        b, loc, b.getF32Type(),
        APFloat::getInf(APFloat::IEEEsingle(), /*Negative=*/true));
    for (Value &value : values)
      value = arith::SelectOp::create(b, loc, live, value, dead);
  }
  YieldOp::create(b, loc, values);
  b.setInsertionPointToEnd(&target.getBody().front());
  return llvm::to_vector_of<Value>(scores.getResults());
}

/// What the cotangents of scores give a pair.
LogicalResult Differentiator::buildPairOfScores(Side reduced, Block *block,
                                                Pairs &pairs) {
  unsigned numDots = op.getQueries().size();
  ValueRange dots = block->getArguments().take_front(numDots);
  ValueRange given = block->getArguments().slice(numDots, 4);
  SmallVector<Value> position = positionsOf(reduced, given);
  SmallVector<Value> arguments(dots);
  llvm::append_range(arguments, position);
  llvm::append_range(arguments, inCaptures());
  Adjoints adjoints(b, loc);
  Elements elements;
  SmallVector<Value> scores = copyRegion(work.getScore(), arguments, elements);
  for (Value dot : dots)
    adjoints.addRoot(dot);
  for (Input &input : wanted)
    if (input.isOfPairs())
      addRoots(adjoints, input, elements);
  adjoints.follow();
  pairs.isLive = isLive(scores);
  Value key = given[reduced == Side::keys ? 3 : 2];
  for (auto [score, cotangent] : llvm::zip_equal(scores, unfolded.scores))
    adjoints.add(score, ofPair(cotangent, position, key));
  if (failed(adjoints.sweep()))
    return failure();
  auto orZero = [&](Value value) { return value ? value : adjoints.zero(); };
  for (Value dot : dots)
    pairs.dots.push_back(orZero(adjoints.get(dot)));
  for (Input &input : wanted) {
    Value sum;
    if (input.isOfPairs())
      sum = sumOf(adjoints, inInput(input), elements);
    pairs.captures.push_back(orZero(sum));
    addReads(adjoints, input, elements, position, pairs);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Keys one after the other
//===----------------------------------------------------------------------===//

namespace {
/// The arguments of a region of attn.unfold, by what they are. Those that it
/// does not take are 0: what it yields does not depend on them.
struct Taken {
  SmallVector<Value> scores, values, state, cotangents, params;
  Value key;
};
} // namespace

/// Opens a region that takes scores and values of a key, if `ofKey`, then
/// numbers of a state, and so many cotangents.
static Taken open(OpBuilder &b, Location loc, Region &region, unsigned scores,
                  unsigned values, bool ofKey, ArrayRef<unsigned> numbers,
                  unsigned size, unsigned cotangents, unsigned params) {
  Block *block = b.createBlock(&region);
  Taken taken;
  auto take = [&](unsigned count, SmallVectorImpl<Value> &into) {
    for (unsigned i = 0; i < count; ++i)
      into.push_back(block->addArgument(b.getF32Type(), loc));
  };
  take(ofKey ? scores : 0, taken.scores);
  take(ofKey ? values : 0, taken.values);
  if (ofKey)
    taken.key = block->addArgument(b.getI32Type(), loc);
  SmallVector<Value> given;
  take(numbers.size(), given);
  take(cotangents, taken.cotangents);
  take(params, taken.params);
  Value zero =
      arith::ConstantFloatOp::create(b, loc, b.getF32Type(), APFloat(0.0f));
  taken.state.assign(size, zero);
  for (auto [number, value] : llvm::zip_equal(numbers, given))
    taken.state[number] = value;
  return taken;
}

/// The state behind a key, in the monoid's order.
SmallVector<Value> Differentiator::stepOf(ValueRange scores, ValueRange values,
                                          Value key, ValueRange state,
                                          ValueRange params) {
  ValueRange own = params.take_front(op.getParams().size());
  SmallVector<Value> lifted(scores);
  for (Value value : op.getValues())
    lifted.push_back(values[numberOf(value)]);
  lifted.push_back(key);
  llvm::append_range(lifted, own);
  SmallVector<Value> both(state);
  llvm::append_range(both, inlineRegion(b, monoid.getLift(), lifted));
  llvm::append_range(both, own);
  return inlineRegion(b, monoid.getCombine(), both);
}

/// What a region yields: cotangents, or 0 for none.
static void yieldCotangents(OpBuilder &b, Location loc, Adjoints &adjoints,
                            ValueRange of) {
  SmallVector<Value> yields;
  for (Value value : of) {
    Value cotangent = adjoints.get(value);
    yields.push_back(cotangent ? cotangent : adjoints.zero());
  }
  YieldOp::create(b, loc, yields);
}

LogicalResult Differentiator::buildBack(Region &region, bool ofChannels) {
  unsigned size = numStats() + numComponents();
  SmallVector<unsigned> read = stateOrder(true, ofChannels);
  SmallVector<unsigned> from = stateOrder(!ofChannels, ofChannels);
  unsigned numValues = unfolded.values.size();
  Taken taken =
      open(b, loc, region, monoid.getNumScores(), ofChannels ? numValues : 0,
           /*ofKey=*/true, read, size, from.size(), unfolded.params.size());
  SmallVector<Value> values(taken.values);
  if (!ofChannels)
    values.assign(numValues, arith::ConstantFloatOp::create(
                                 b, loc, b.getF32Type(), APFloat(0.0f)));
  SmallVector<Value> behind =
      stepOf(taken.scores, values, taken.key, taken.state, taken.params);
  Adjoints adjoints(b, loc);
  SmallVector<Value> roots(taken.scores);
  llvm::append_range(roots, taken.values);
  llvm::append_range(roots, pick(taken.state, read));
  for (Value root : roots)
    adjoints.addRoot(root);
  adjoints.follow();
  for (auto [number, cotangent] : llvm::zip_equal(from, taken.cotangents))
    adjoints.add(behind[number], cotangent);
  if (failed(adjoints.sweep()))
    return failure();
  yieldCotangents(b, loc, adjoints, roots);
  return success();
}

LogicalResult Differentiator::buildFinish(Region &region, bool ofChannels) {
  unsigned size = numStats() + numComponents();
  SmallVector<unsigned> read = stateOrder(true, ofChannels);
  SmallVector<unsigned> from;
  for (auto [i, isChannel] : llvm::enumerate(unfolded.hasChannels))
    if (isChannel == ofChannels)
      from.push_back(i);
  Taken taken = open(b, loc, region, 0, 0, /*ofKey=*/false, read, size,
                     from.size(), unfolded.params.size());
  Value zero =
      arith::ConstantIntOp::create(b, loc, b.getI32Type(), /*value=*/0);
  SmallVector<Value> arguments(taken.state);
  arguments.append(3, zero); // it reads no position
  Region &finalize = work.getFinalize();
  for (auto [argument, capture] : llvm::zip_equal(
           finalize.getArguments().drop_front(size + 3), work.getCaptures())) {
    auto found = llvm::find(unfolded.params, outside(capture));
    arguments.push_back(found == unfolded.params.end()
                            ? Value()
                            : taken.params[found - unfolded.params.begin()]);
  }
  IRMapping mapping;
  for (auto [argument, value] :
       llvm::zip_equal(finalize.getArguments(), arguments))
    if (value)
      mapping.map(Value(argument), value);
  for (Operation &other : finalize.front().without_terminator())
    b.clone(other, mapping);
  SmallVector<Value> results;
  for (Value yielded : getYielded(finalize))
    results.push_back(mapping.lookupOrDefault(yielded));
  Adjoints adjoints(b, loc);
  SmallVector<Value> roots = pick(taken.state, read);
  for (Value root : roots)
    adjoints.addRoot(root);
  adjoints.follow();
  for (auto [number, cotangent] : llvm::zip_equal(from, taken.cotangents))
    adjoints.add(results[number], cotangent);
  if (failed(adjoints.sweep()))
    return failure();
  yieldCotangents(b, loc, adjoints, roots);
  return success();
}

unsigned Differentiator::numberOf(Value value) {
  return llvm::find(unfolded.values, outside(value)) - unfolded.values.begin();
}

/// The states of the block, and with cotangents behind it the way back.
LogicalResult Differentiator::buildUnfold() {
  bool goesBack = !unfolded.behind.empty();
  SmallVector<Value> scores = writeScores();
  // A value that is several operands is one here.
  llvm::SmallSetVector<Value, 4> values;
  for (Value value : op.getValues())
    values.insert(outside(value));
  unfolded.values.assign(values.begin(), values.end());
  unfolded.params.clear();
  for (Value param : op.getParams())
    unfolded.params.push_back(outside(param));
  for (Value value : work.getCaptures())
    if (value.getType().isF32())
      unfolded.params.push_back(outside(value));
  SmallVector<bool> channels = getPerChannelOutputs(
      work.getFinalize(), numStats(), monoid.getComponents());
  unfolded.hasChannels.assign(channels.begin(), channels.end());

  SmallVector<Type> types, states = stateTypes();
  SmallVector<Value> outs;
  if (goesBack) {
    for (Value score : scores)
      types.push_back(score.getType());
    for (Value value : unfolded.values)
      types.push_back(RankedTensorType::get(
          cast<RankedTensorType>(value.getType()).getShape(), b.getF32Type()));
    for (bool ofChannels : {false, true})
      for (auto [i, isChannel] : llvm::enumerate(unfolded.hasChannels))
        if (isChannel == ofChannels)
          outs.push_back(cotangents[i]);
  }
  llvm::append_range(types, states);
  auto unfold = UnfoldOp::create(b, loc, types, scores, unfolded.values,
                                 unfolded.ahead, unfolded.behind, outs, keyBase,
                                 numKeys, unfolded.params);
  unsigned size = numStats() + numComponents();
  SmallVector<unsigned> order = stateOrder(true, true);
  {
    Taken taken = open(b, loc, unfold.getIdentity(), 0, 0, /*ofKey=*/false, {},
                       size, 0, unfolded.params.size());
    SmallVector<Value> identity =
        inlineRegion(b, monoid.getIdentity(),
                     ArrayRef(taken.params).take_front(op.getParams().size()));
    YieldOp::create(b, loc, pick(identity, order));
  }
  {
    Taken taken = open(b, loc, unfold.getStep(), monoid.getNumScores(),
                       unfolded.values.size(), /*ofKey=*/true, order, size, 0,
                       unfolded.params.size());
    SmallVector<Value> next = stepOf(taken.scores, taken.values, taken.key,
                                     taken.state, taken.params);
    YieldOp::create(b, loc, pick(next, order));
  }
  if (goesBack && (failed(buildBack(unfold.getBackRows(), false)) ||
                   failed(buildBack(unfold.getBackChannels(), true)) ||
                   failed(buildFinish(unfold.getFinishRows(), false)) ||
                   failed(buildFinish(unfold.getFinishChannels(), true))))
    return failure();
  b.setInsertionPointToEnd(&target.getBody().front());
  ValueRange results = unfold.getOutputs();
  unfolded.results =
      llvm::to_vector_of<Value>(results.take_back(states.size()));
  if (!goesBack)
    return success();
  unfolded.scores =
      llvm::to_vector_of<Value>(results.take_front(scores.size()));
  for (Input &input : wanted)
    if (input.role == Role::value)
      input.gradient =
          results[scores.size() + numberOf(op.getValues()[input.number])];
  return success();
}

LogicalResult Differentiator::buildGeneralStates() {
  startBackward("_states");
  if (failed(buildUnfold()))
    return failure();
  func::ReturnOp::create(b, loc, unfolded.results);
  target.setType(b.getFunctionType(target.getBody().front().getArgumentTypes(),
                                   TypeRange(ValueRange(unfolded.results))));
  return success();
}
