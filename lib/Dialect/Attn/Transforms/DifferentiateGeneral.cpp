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
#include "GradientContext.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;

static unsigned numberOf(GradientContext &ctx, Value value);

LogicalResult mlir::attn::checkGeneral(GradientContext &ctx) {
  auto refuse = [&](const Twine &expected) {
    return ctx.op.emitOpError("expected ")
           << expected << ", to differentiate @" << ctx.monoid.getSymName()
           << ", which is general";
  };
  if (ctx.isPacked())
    return refuse("sequences that are not packed");
  if (!ctx.op.getInit().empty())
    return refuse("no init");
  Region &finalize = ctx.work.getFinalize();
  unsigned first = ctx.numStats() + ctx.numComponents();
  auto isUnused = [](BlockArgument argument) { return argument.use_empty(); };
  if (!llvm::all_of(finalize.getArguments().slice(first, 3), isUnused))
    return refuse("a finalize that reads no position");
  for (auto [argument, value] :
       llvm::zip_equal(finalize.getArguments().drop_front(first + 3),
                       ctx.work.getCaptures()))
    if (!argument.use_empty() && !value.getType().isF32())
      return refuse("a finalize that captures f32 alone");
  for (const GradientInput &input : ctx.wanted)
    if (input.role == InputRole::param)
      return ctx.op.emitOpError(
                 "expected parameters that are not differentiated, "
                 "of @")
             << ctx.monoid.getSymName()
             << ", which is general, but got argument " << input.argument
             << "; leave it out of 'inputs'";
  return success();
}

/// The numbers of a state, those of rows first: statistics are 0, 1, ..,
/// components follow.
static SmallVector<unsigned> stateOrder(GradientContext &ctx, bool ofRows,
                                        bool ofChannels) {
  SmallVector<unsigned> order;
  unsigned size = ctx.numStats() + ctx.numComponents();
  auto isRow = [&](unsigned i) {
    return i < ctx.numStats() || ctx.isUnit(i - ctx.numStats());
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

static RankedTensorType channelType(GradientContext &ctx) {
  SmallVector<int64_t> shape(rowType(ctx).getShape());
  auto value = cast<RankedTensorType>(ctx.op.getValues().front().getType());
  shape.push_back(value.getShape().back());
  return RankedTensorType::get(shape, ctx.b.getF32Type());
}

static SmallVector<Type> stateTypes(GradientContext &ctx) {
  SmallVector<Type> types(stateOrder(ctx, true, false).size(), rowType(ctx));
  if (size_t channels = stateOrder(ctx, false, true).size())
    types.append(channels, channelType(ctx));
  return types;
}

void mlir::attn::addUnfoldArguments(GradientContext &ctx, bool isStates,
                                    AddArgument addArgument) {
  SmallVector<Type> types = stateTypes(ctx);
  ctx.unfolded = {};
  ctx.unfolded.ahead.resize(types.size());
  ctx.unfolded.behind.resize(isStates ? 0 : types.size());
  for (auto [i, state] : llvm::enumerate(ctx.unfolded.ahead))
    addArgument(types[i], "state" + Twine(i), state);
  for (auto [i, cotangent] : llvm::enumerate(ctx.unfolded.behind))
    addArgument(types[i], "dstate" + Twine(i), cotangent);
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

/// The scores of the block in memory, -inf for dead pairs.
static SmallVector<Value> writeScores(GradientContext &ctx) {
  SmallVector<Value> left, right;
  capturePairs(ctx, Side::keys, /*wantsScores=*/false, left, right);
  auto keys = cast<RankedTensorType>(ctx.op.getKeys().front().getType());
  SmallVector<int64_t> shape(rowType(ctx).getShape());
  shape.push_back(keys.getDimSize(2));
  SmallVector<Type> types(ctx.monoid.getNumScores(),
                          RankedTensorType::get(shape, ctx.b.getF32Type()));
  SmallVector<Value> params;
  for (Value param : ctx.op.getParams())
    params.push_back(ctx.outside(param));
  auto scores = ScoresOp::create(
      ctx.b, ctx.loc, types, ctx.op.getMonoidAttr(), params, left, right,
      ValueRange(), ctx.captures.getArrayRef(), ValueRange(), ValueRange(),
      Value(), Value(), SourceAttr(), SourceAttr(),
      SideAttr::get(ctx.b.getContext(), Side::keys), ScheduleAttr(),
      ctx.op.getPrecisionAttr(), UnitAttr(), RotaryAttr());
  SmallVector<Type> taken(left.size(), ctx.b.getF32Type());
  taken.append(4, ctx.b.getI32Type());
  Block *block = openRegion(ctx, scores.getScore(), taken);
  SmallVector<Value> arguments(block->getArguments().take_front(left.size()));
  SmallVector<Value> position =
      positionsOf(ctx, Side::keys, block->getArguments().slice(left.size(), 4));
  llvm::append_range(arguments, position);
  llvm::append_range(arguments, inCaptures(ctx));
  SmallVector<Value> values =
      inlineRegion(ctx.b, ctx.work.getScore(), arguments);
  if (Value live = isLiveByMask(ctx, Side::keys, position)) {
    Value dead = arith::ConstantFloatOp::create(
        ctx.b, ctx.loc, ctx.b.getF32Type(),
        APFloat::getInf(APFloat::IEEEsingle(), /*Negative=*/true));
    for (Value &value : values)
      value = arith::SelectOp::create(ctx.b, ctx.loc, live, value, dead);
  }
  YieldOp::create(ctx.b, ctx.loc, values);
  ctx.b.setInsertionPointToEnd(&ctx.target.getBody().front());
  return llvm::to_vector_of<Value>(scores.getResults());
}

/// What the cotangents of scores give a pair.
LogicalResult mlir::attn::buildPairOfScores(GradientContext &ctx, Side reduced,
                                            Block *block, PairValues &pairs) {
  unsigned numDots = ctx.op.getQueries().size();
  ValueRange dots = block->getArguments().take_front(numDots);
  ValueRange given = block->getArguments().slice(numDots, 4);
  SmallVector<Value> position = positionsOf(ctx, reduced, given);
  SmallVector<Value> arguments(dots);
  llvm::append_range(arguments, position);
  llvm::append_range(arguments, inCaptures(ctx));
  Adjoints adjoints(ctx.b, ctx.loc);
  ElementReads elements;
  SmallVector<Value> scores =
      copyRegion(ctx, ctx.work.getScore(), arguments, elements);
  for (Value dot : dots)
    adjoints.addRoot(dot);
  for (GradientInput &input : ctx.wanted)
    if (input.isOfPairs())
      addRoots(ctx, adjoints, input, elements);
  adjoints.follow();
  pairs.isLive = isLive(ctx, scores);
  Value key = given[reduced == Side::keys ? 3 : 2];
  for (auto [score, cotangent] : llvm::zip_equal(scores, ctx.unfolded.scores))
    adjoints.add(score, ofPair(ctx, cotangent, position, key));
  if (failed(adjoints.sweep()))
    return failure();
  auto orZero = [&](Value value) { return value ? value : adjoints.zero(); };
  for (Value dot : dots)
    pairs.dots.push_back(orZero(adjoints.get(dot)));
  addCaptures(ctx, adjoints, elements, position, pairs);
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
static SmallVector<Value> stepOf(GradientContext &ctx, ValueRange scores,
                                 ValueRange values, Value key, ValueRange state,
                                 ValueRange params) {
  ValueRange own = params.take_front(ctx.op.getParams().size());
  SmallVector<Value> lifted(scores);
  for (Value value : ctx.op.getValues())
    lifted.push_back(values[numberOf(ctx, value)]);
  lifted.push_back(key);
  llvm::append_range(lifted, own);
  SmallVector<Value> both(state);
  llvm::append_range(both, inlineRegion(ctx.b, ctx.monoid.getLift(), lifted));
  llvm::append_range(both, own);
  return inlineRegion(ctx.b, ctx.monoid.getCombine(), both);
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

static LogicalResult buildBack(GradientContext &ctx, Region &region,
                               bool ofChannels) {
  unsigned size = ctx.numStats() + ctx.numComponents();
  SmallVector<unsigned> read = stateOrder(ctx, true, ofChannels);
  SmallVector<unsigned> from = stateOrder(ctx, !ofChannels, ofChannels);
  unsigned numValues = ctx.unfolded.values.size();
  Taken taken =
      open(ctx.b, ctx.loc, region, ctx.monoid.getNumScores(),
           ofChannels ? numValues : 0,
           /*ofKey=*/true, read, size, from.size(), ctx.unfolded.params.size());
  SmallVector<Value> values(taken.values);
  if (!ofChannels)
    values.assign(numValues, arith::ConstantFloatOp::create(ctx.b, ctx.loc,
                                                            ctx.b.getF32Type(),
                                                            APFloat(0.0f)));
  SmallVector<Value> behind =
      stepOf(ctx, taken.scores, values, taken.key, taken.state, taken.params);
  Adjoints adjoints(ctx.b, ctx.loc);
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
  yieldCotangents(ctx.b, ctx.loc, adjoints, roots);
  return success();
}

static LogicalResult buildFinish(GradientContext &ctx, Region &region,
                                 bool ofChannels) {
  unsigned size = ctx.numStats() + ctx.numComponents();
  SmallVector<unsigned> read = stateOrder(ctx, true, ofChannels);
  SmallVector<unsigned> from;
  for (auto [i, isChannel] : llvm::enumerate(ctx.unfolded.hasChannels))
    if (isChannel == ofChannels)
      from.push_back(i);
  Taken taken = open(ctx.b, ctx.loc, region, 0, 0, /*ofKey=*/false, read, size,
                     from.size(), ctx.unfolded.params.size());
  Value zero = arith::ConstantIntOp::create(ctx.b, ctx.loc, ctx.b.getI32Type(),
                                            /*value=*/0);
  SmallVector<Value> arguments(taken.state);
  arguments.append(3, zero); // it reads no position
  Region &finalize = ctx.work.getFinalize();
  for (auto [argument, capture] :
       llvm::zip_equal(finalize.getArguments().drop_front(size + 3),
                       ctx.work.getCaptures())) {
    auto found = llvm::find(ctx.unfolded.params, ctx.outside(capture));
    arguments.push_back(
        found == ctx.unfolded.params.end()
            ? Value()
            : taken.params[found - ctx.unfolded.params.begin()]);
  }
  IRMapping mapping;
  for (auto [argument, value] :
       llvm::zip_equal(finalize.getArguments(), arguments))
    if (value)
      mapping.map(Value(argument), value);
  for (Operation &other : finalize.front().without_terminator())
    ctx.b.clone(other, mapping);
  SmallVector<Value> results;
  for (Value yielded : getYielded(finalize))
    results.push_back(mapping.lookupOrDefault(yielded));
  Adjoints adjoints(ctx.b, ctx.loc);
  SmallVector<Value> roots = pick(taken.state, read);
  for (Value root : roots)
    adjoints.addRoot(root);
  adjoints.follow();
  for (auto [number, cotangent] : llvm::zip_equal(from, taken.cotangents))
    adjoints.add(results[number], cotangent);
  if (failed(adjoints.sweep()))
    return failure();
  yieldCotangents(ctx.b, ctx.loc, adjoints, roots);
  return success();
}

/// The number of a value operand among those of attn.unfold.
static unsigned numberOf(GradientContext &ctx, Value value) {
  return llvm::find(ctx.unfolded.values, ctx.outside(value)) -
         ctx.unfolded.values.begin();
}

/// The states of the block, and with cotangents behind it the way back.
LogicalResult mlir::attn::buildUnfold(GradientContext &ctx) {
  bool goesBack = !ctx.unfolded.behind.empty();
  SmallVector<Value> scores = writeScores(ctx);
  // A value that is several operands is one here.
  llvm::SmallSetVector<Value, 4> values;
  for (Value value : ctx.op.getValues())
    values.insert(ctx.outside(value));
  ctx.unfolded.values.assign(values.begin(), values.end());
  ctx.unfolded.params.clear();
  for (Value param : ctx.op.getParams())
    ctx.unfolded.params.push_back(ctx.outside(param));
  for (Value value : ctx.work.getCaptures())
    if (value.getType().isF32())
      ctx.unfolded.params.push_back(ctx.outside(value));
  SmallVector<bool> channels = getPerChannelOutputs(
      ctx.work.getFinalize(), ctx.numStats(), ctx.monoid.getComponents());
  ctx.unfolded.hasChannels.assign(channels.begin(), channels.end());

  SmallVector<Type> types, states = stateTypes(ctx);
  SmallVector<Value> outs;
  if (goesBack) {
    for (Value score : scores)
      types.push_back(score.getType());
    for (Value value : ctx.unfolded.values)
      types.push_back(RankedTensorType::get(
          cast<RankedTensorType>(value.getType()).getShape(),
          ctx.b.getF32Type()));
    for (bool ofChannels : {false, true})
      for (auto [i, isChannel] : llvm::enumerate(ctx.unfolded.hasChannels))
        if (isChannel == ofChannels)
          outs.push_back(ctx.cotangents[i]);
  }
  llvm::append_range(types, states);
  auto unfold = UnfoldOp::create(
      ctx.b, ctx.loc, types, scores, ctx.unfolded.values, ctx.unfolded.ahead,
      ctx.unfolded.behind, outs, ctx.keyBase, ctx.numKeys, ctx.unfolded.params);
  unsigned size = ctx.numStats() + ctx.numComponents();
  SmallVector<unsigned> order = stateOrder(ctx, true, true);
  {
    Taken taken =
        open(ctx.b, ctx.loc, unfold.getIdentity(), 0, 0, /*ofKey=*/false, {},
             size, 0, ctx.unfolded.params.size());
    SmallVector<Value> identity = inlineRegion(
        ctx.b, ctx.monoid.getIdentity(),
        ArrayRef(taken.params).take_front(ctx.op.getParams().size()));
    YieldOp::create(ctx.b, ctx.loc, pick(identity, order));
  }
  {
    Taken taken =
        open(ctx.b, ctx.loc, unfold.getStep(), ctx.monoid.getNumScores(),
             ctx.unfolded.values.size(), /*ofKey=*/true, order, size, 0,
             ctx.unfolded.params.size());
    SmallVector<Value> next = stepOf(ctx, taken.scores, taken.values, taken.key,
                                     taken.state, taken.params);
    YieldOp::create(ctx.b, ctx.loc, pick(next, order));
  }
  if (goesBack && (failed(buildBack(ctx, unfold.getBackRows(), false)) ||
                   failed(buildBack(ctx, unfold.getBackChannels(), true)) ||
                   failed(buildFinish(ctx, unfold.getFinishRows(), false)) ||
                   failed(buildFinish(ctx, unfold.getFinishChannels(), true))))
    return failure();
  ctx.b.setInsertionPointToEnd(&ctx.target.getBody().front());
  ValueRange results = unfold.getOutputs();
  ctx.unfolded.results =
      llvm::to_vector_of<Value>(results.take_back(states.size()));
  if (!goesBack)
    return success();
  ctx.unfolded.scores =
      llvm::to_vector_of<Value>(results.take_front(scores.size()));
  for (GradientInput &input : ctx.wanted)
    if (input.role == InputRole::value)
      input.gradient = results[scores.size() +
                               numberOf(ctx, ctx.op.getValues()[input.number])];
  return success();
}

LogicalResult mlir::attn::buildGeneralStates(GradientContext &ctx) {
  startBackward(ctx, "_states");
  if (failed(buildUnfold(ctx)))
    return failure();
  func::ReturnOp::create(ctx.b, ctx.loc, ctx.unfolded.results);
  ctx.target.setType(
      ctx.b.getFunctionType(ctx.target.getBody().front().getArgumentTypes(),
                            TypeRange(ValueRange(ctx.unfolded.results))));
  return success();
}
