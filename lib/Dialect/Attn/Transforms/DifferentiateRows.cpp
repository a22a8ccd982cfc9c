//===- DifferentiateRows.cpp - What gradients have for each row -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reduction that computes for each row what the gradients of its pairs have
// in common: its statistics, gradients of its sums and of what its state begins
// with. DifferentiatePairs.cpp has the pairs.
//
//===----------------------------------------------------------------------===//

#include "Adjoints.h"
#include "GradientContext.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;

static LogicalResult addInitGradients(GradientContext &ctx, Block *block,
                                      ValueRange units, Value maximum,
                                      MutableArrayRef<Value> parts);

/// What inputs have that are read of a row.
static LogicalResult yieldInputs(GradientContext &ctx, Block *block,
                                 Adjoints &adjoints, ArrayRef<Value> arguments,
                                 const ElementReads &elements,
                                 ArrayRef<Value> cotangentsOfUnits,
                                 Value maximum,
                                 SmallVectorImpl<Value> &yields) {
  if (llvm::none_of(ctx.wanted,
                    [](const GradientInput &input) { return input.inRows; }))
    return success();
  SmallVector<Value> parts;
  Value isDead =
      isIdentity(ctx, ArrayRef(arguments).take_front(ctx.numStats()));
  for (GradientInput &input : ctx.wanted) {
    Value part;
    if (input.inRows)
      part = sumOf(ctx, adjoints, ctx.inInput(input), elements);
    if (part && isDead)
      part = arith::SelectOp::create(ctx.b, ctx.loc, isDead, adjoints.zero(),
                                     part);
    parts.push_back(part);
  }
  if (!ctx.work.getInit().empty() &&
      failed(addInitGradients(ctx, block, cotangentsOfUnits, maximum, parts)))
    return failure();
  for (auto [input, part] : llvm::zip_equal(ctx.wanted, parts))
    if (input.inRows)
      yields.push_back(part ? part : adjoints.zero());
  return success();
}

static LogicalResult buildFinalize(GradientContext &ctx, Block *block,
                                   ValueRange dots,
                                   SmallVectorImpl<Value> &results);
static LogicalResult addInitGradients(GradientContext &ctx, Block *block,
                                      ValueRange units, Value maximum,
                                      MutableArrayRef<Value> parts);

/// Once for each row: from the cotangents of outputs to those of components.
/// What a channel's cotangent and output add up to over the channels is a dot
/// of the row with itself.
LogicalResult mlir::attn::buildRows(GradientContext &ctx) {
  if (!ctx.isWalk())
    ctx.rows.stats.assign(ctx.saved.begin(),
                          ctx.saved.begin() + ctx.numStats());
  ctx.rows.ends.assign(ctx.isWalk() ? ctx.numStats() : 0, Value());
  ctx.rows.units.resize(ctx.numComponents());
  ctx.rows.factors.resize(ctx.outputs.size());
  bool hasParts = llvm::any_of(
      ctx.wanted, [](const GradientInput &input) { return input.inRows; });
  ctx.rows.first = ctx.hasMaximum ? ctx.saved.back() : Value();
  bool isNeeded = hasParts || ctx.hasMaximum;
  for (const GradientOutput &output : ctx.outputs)
    isNeeded |= output.readsUnits || (ctx.isWalk() && output.readsStats) ||
                (output.hasChannels() && !output.isComponent);
  if (!isNeeded)
    return success();

  SmallVector<Value> left, right;
  for (auto [i, output] : llvm::enumerate(ctx.outputs))
    if (ctx.readsOutput(output)) {
      left.push_back(ctx.cotangents[i]);
      right.push_back(ctx.results[i]);
    }
  if (left.empty()) // A reduction has a dot.
    left = right = {ctx.outside(ctx.op.getQueries().front())};

  captureRegions(ctx);
  for (Value value : ctx.saved)
    ctx.capture(value);
  for (auto [i, output] : llvm::enumerate(ctx.outputs))
    if (!output.hasChannels())
      ctx.capture(ctx.cotangents[i]);

  SmallVector<std::string> names;
  for (auto [i, output] : llvm::enumerate(ctx.outputs))
    if (output.hasChannels() && !output.isComponent)
      names.push_back("factor" + std::to_string(i));
  for (unsigned k = 0; k < ctx.numComponents(); ++k)
    if (ctx.isUnit(k))
      names.push_back("unit" + std::to_string(k));
  for (unsigned i = 0; i < numExponents(ctx); ++i)
    names.push_back("exponent" + std::to_string(i));
  for (unsigned i = 0; i < ctx.rows.ends.size(); ++i)
    names.push_back("end" + std::to_string(i));
  if (ctx.hasMaximum)
    names.push_back("maximum");
  for (GradientInput &input : ctx.wanted)
    if (input.inRows)
      names.push_back("d" + std::to_string(input.argument));

  // A row reduces itself: keys are where the rows are.
  Source keys = ctx.keySource;
  ctx.keySource = ctx.rowSource;
  SmallVector<Component> components(left.size(), Component::unit);
  SmallVector<std::string> outputNames;
  for (size_t i = 0; i < left.size(); ++i)
    outputNames.push_back("dot" + std::to_string(i));
  auto reduction = makeReduction(
      ctx, makeSum(ctx, "_rows", components, outputNames), Side::keys,
      SmallVector<Type>(names.size(), rowType(ctx)), left, right, {});
  ctx.keySource = keys;

  Type f32 = ctx.b.getF32Type(), i32 = ctx.b.getI32Type();
  Block *mask = openRegion(ctx, reduction.getMask(), {i32, i32, i32, i32});
  Value same =
      arith::CmpIOp::create(ctx.b, ctx.loc, arith::CmpIPredicate::eq,
                            mask->getArgument(2), mask->getArgument(3));
  YieldOp::create(ctx.b, ctx.loc, same);

  SmallVector<Type> types(left.size(), f32);
  types.append(3, i32);
  Block *block = openRegion(ctx, reduction.getFinalize(), types);
  SmallVector<Value> yields;
  if (failed(buildFinalize(
          ctx, block, block->getArguments().take_front(left.size()), yields)))
    return failure();
  YieldOp::create(ctx.b, ctx.loc, yields);

  auto next = reduction.getResults().begin();
  for (auto [i, output] : llvm::enumerate(ctx.outputs))
    if (output.hasChannels() && !output.isComponent)
      ctx.rows.factors[i] = *next++;
  for (unsigned k = 0; k < ctx.numComponents(); ++k)
    if (ctx.isUnit(k))
      ctx.rows.units[k] = *next++;
  ctx.rows.exponents.resize(numExponents(ctx));
  for (Value &exponent : ctx.rows.exponents)
    exponent = *next++;
  for (Value &end : ctx.rows.ends)
    end = *next++;
  if (ctx.hasMaximum)
    ctx.rows.maximum = *next++;
  for (GradientInput &input : ctx.wanted)
    if (input.inRows)
      (input.isOfPairs() ? input.rowPart : input.gradient) = *next++;
  ctx.b.setInsertionPointToEnd(&ctx.target.getBody().front());
  return success();
}

static LogicalResult buildFinalize(GradientContext &ctx, Block *block,
                                   ValueRange dots,
                                   SmallVectorImpl<Value> &yields) {
  ValueRange position = block->getArguments().slice(dots.size(), 3);
  Adjoints adjoints(ctx.b, ctx.loc);
  Value maximum;
  // The factors of outputs are what finalize makes of components of 1.
  Region &finalize = ctx.work.getFinalize();
  SmallVector<Value> arguments, units(ctx.numComponents());
  for (unsigned i = 0; i < ctx.numStats() + ctx.numComponents(); ++i) {
    bool isStat = i < ctx.numStats();
    if (!isStat && !ctx.isUnit(i - ctx.numStats())) {
      arguments.push_back(adjoints.constant(1));
      continue;
    }
    // Of units that no output reads nothing is kept.
    Value state = ctx.saved[i] ? ofRow(ctx, ctx.saved[i], position)
                               : adjoints.constant(0);
    arguments.push_back(state);
    if (!isStat)
      units[i - ctx.numStats()] = state;
    if (!isStat || ctx.isWalk())
      adjoints.addRoot(state);
  }
  llvm::append_range(arguments, position);
  llvm::append_range(arguments, inCaptures(ctx));
  ElementReads elements;
  SmallVector<Value> values = copyRegion(ctx, finalize, arguments, elements);
  for (GradientInput &input : ctx.wanted)
    if (input.inRows)
      addRoots(ctx, adjoints, input, elements);
  adjoints.follow();
  unsigned dot = 0;
  for (auto [i, output] : llvm::enumerate(ctx.outputs)) {
    if (!output.hasChannels()) {
      adjoints.add(values[i], ofRow(ctx, ctx.cotangents[i], position));
      continue;
    }
    if (!ctx.readsOutput(output))
      continue;
    // dout . component, from dout . out
    adjoints.add(values[i], adjoints.divideOrZero(dots[dot++], values[i]));
  }
  if (failed(adjoints.sweep()))
    return failure();
  for (auto [i, output] : llvm::enumerate(ctx.outputs))
    if (output.hasChannels() && !output.isComponent)
      yields.push_back(values[i]);
  SmallVector<Value> cotangentsOfUnits(ctx.numComponents());
  for (unsigned k = 0; k < ctx.numComponents(); ++k) {
    if (!ctx.isUnit(k))
      continue;
    Value cotangent = adjoints.get(units[k]);
    cotangentsOfUnits[k] = cotangent;
    yields.push_back(cotangent ? cotangent : adjoints.zero());
    if (cotangent && hasItsWeights(ctx, k)) // delta
      for (auto [i, output] : llvm::enumerate(ctx.outputs))
        if (&output == dividedOutput(ctx))
          yields.back() = arith::NegFOp::create(
              ctx.b, ctx.loc, adjoints.divideOrZero(cotangent, values[i]));
  }
  if (numExponents(ctx))
    llvm::append_range(
        yields, exponentsOf(ctx, arguments.front(),
                            values[dividedOutput(ctx) - ctx.outputs.data()]));
  for (unsigned i = 0; i < ctx.rows.ends.size(); ++i) {
    Value cotangent = adjoints.get(arguments[i]);
    yields.push_back(cotangent ? cotangent : adjoints.zero());
  }
  if (ctx.hasMaximum) {
    // The reference point is one for the results that change with it alone.
    Adjoints changing(ctx.b, ctx.loc);
    changing.addRoot(arguments.front());
    changing.follow();
    for (auto [i, output] : llvm::enumerate(ctx.outputs))
      if (!output.isInvariant)
        changing.add(values[i], ofRow(ctx, ctx.cotangents[i], position));
    if (failed(changing.sweep()))
      return failure();
    Value cotangent = changing.get(arguments.front());
    maximum = cotangent ? cotangent : adjoints.zero();
    yields.push_back(maximum);
  }
  return yieldInputs(ctx, block, adjoints, arguments, elements,
                     cotangentsOfUnits, maximum, yields);
}

/// An initial state is one more key, whose weights its region gives.
static LogicalResult addInitGradients(GradientContext &ctx, Block *block,
                                      ValueRange units, Value maximum,
                                      MutableArrayRef<Value> parts) {
  unsigned numDots = block->getNumArguments() - 3 - ctx.captures.size();
  ValueRange position = block->getArguments().slice(numDots, 3);
  Region &init = ctx.work.getInit();
  Adjoints adjoints(ctx.b, ctx.loc);
  SmallVector<Value> arguments(position), captured = inCaptures(ctx);
  llvm::append_range(arguments, captured);
  // Elements are roots where they are read here.
  ElementReads elements;
  SmallVector<Value> state = copyRegion(ctx, init, arguments, elements);
  SmallVector<Value> factors;
  SmallVector<Value> stats(state.begin(), state.begin() + ctx.numStats());
  SmallVector<Value> weights(state.begin() + ctx.numStats(), state.end());
  if (ctx.numStats()) {
    SmallVector<Value> ends;
    for (Value stat : ctx.rows.stats)
      ends.push_back(ofRow(ctx, stat, position));
    Operation *last = &block->back();
    SmallVector<Value> both(stats);
    llvm::append_range(both, ends);
    llvm::append_range(both, paramsOf(ctx));
    factors = inlineRegion(ctx.b, ctx.monoid.getRescale(), both);
    inlineShift(ctx.b, ctx.monoid, stats, ends, paramsOf(ctx), weights);
    for (Operation *op = last->getNextNode(); op; op = op->getNextNode())
      adjoints.setBounded(op);
  }
  for (auto [k, weight] : llvm::enumerate(weights)) {
    if (factors.empty())
      break;
    Value factor = factors[ctx.monoid.hasFactors() ? k : 0];
    if (ctx.monoid.isShifted(k))
      weight = adjoints.unlessZero(factor, weight);
    weight = arith::MulFOp::create(ctx.b, ctx.loc, weight, factor);
  }
  for (GradientInput &input : ctx.wanted)
    if (input.inRows)
      addRoots(ctx, adjoints, input, elements);
  adjoints.follow();
  for (unsigned k = 0; k < ctx.numComponents(); ++k) {
    if (ctx.isUnit(k))
      adjoints.add(weights[k], units[k]);
    else if (adjoints.isActive(state[ctx.numStats() + k]))
      return ctx.op.emitOpError(
          "expected init not to give a value component what "
          "depends on an input that is differentiated");
  }
  if (maximum) {
    // Before all keys.
    Value isFirst = arith::CmpFOp::create(
        ctx.b, ctx.loc, arith::CmpFPredicate::OEQ,
        ofRow(ctx, ctx.rows.first, position), adjoints.constant(-1));
    adjoints.add(stats.front(),
                 arith::SelectOp::create(ctx.b, ctx.loc, isFirst, maximum,
                                         adjoints.zero()));
  }
  if (failed(adjoints.sweep()))
    return failure();
  // Of an init that is the identity nothing depends on anything.
  Value isNone = isIdentity(ctx, stats);
  for (auto [input, part] : llvm::zip_equal(ctx.wanted, parts)) {
    if (!input.inRows)
      continue;
    Value sum = sumOf(ctx, adjoints, ctx.inInput(input), elements);
    if (sum && isNone)
      sum =
          arith::SelectOp::create(ctx.b, ctx.loc, isNone, adjoints.zero(), sum);
    if (sum)
      part = part ? arith::AddFOp::create(ctx.b, ctx.loc, part, sum).getResult()
                  : sum;
  }
  return success();
}

/// The numbers of the keys whose score the maximum of a row is: of equals the
/// first, -1 for the initial state. A reduction in the largest statistic with
/// its key.
Value mlir::attn::buildFirst(GradientContext &ctx) {
  auto module = ctx.func->getParentOfType<ModuleOp>();
  std::string name = (ctx.func.getName() + "_first").str();
  for (unsigned i = 2; SymbolTable::lookupSymbolIn(module, name); ++i)
    name = (ctx.func.getName() + "_first_" + Twine(i)).str();
  Type f32 = ctx.b.getF32Type(), i32 = ctx.b.getI32Type();
  auto number = [&](float value) -> Value {
    return arith::ConstantFloatOp::create(ctx.b, ctx.loc, ctx.b.getF32Type(),
                                          APFloat(value));
  };
  constexpr float infinity = std::numeric_limits<float>::infinity();
  {
    OpBuilder::InsertionGuard guard(ctx.b);
    ctx.b.setInsertionPoint(ctx.func);
    auto unit = ComponentAttr::get(ctx.b.getContext(), Component::unit);
    auto first = MonoidOp::create(
        ctx.b, ctx.loc, ctx.b.getStringAttr(name),
        ctx.b.getStringAttr("private"),
        MonoidKindAttr::get(ctx.b.getContext(), MonoidKind::cocycle),
        ctx.b.getTypeArrayAttr({f32, f32}), ctx.b.getArrayAttr({unit}),
        ctx.b.getArrayAttr({}), ctx.b.getStrArrayAttr({"key"}));
    auto open = [&](Region &region, unsigned numArguments) {
      Block *block = ctx.b.createBlock(&region);
      for (unsigned i = 0; i < numArguments; ++i)
        block->addArgument(f32, ctx.loc);
      return block->getArguments();
    };
    (void)open(first.getIdentity(), 0);
    YieldOp::create(ctx.b, ctx.loc,
                    ValueRange{number(-infinity), number(infinity)});
    ValueRange x = open(first.getCombine(), 4);
    auto compare = [&](arith::CmpFPredicate how) -> Value {
      return arith::CmpFOp::create(ctx.b, ctx.loc, how, x[0], x[2]);
    };
    Value larger = arith::MaximumFOp::create(ctx.b, ctx.loc, x[0], x[2]);
    Value least = arith::MinimumFOp::create(ctx.b, ctx.loc, x[1], x[3]);
    Value key = arith::SelectOp::create(
        ctx.b, ctx.loc, compare(arith::CmpFPredicate::OLT), x[3], least);
    key = arith::SelectOp::create(
        ctx.b, ctx.loc, compare(arith::CmpFPredicate::OGT), x[1], key);
    YieldOp::create(ctx.b, ctx.loc, ValueRange{larger, key});
    (void)open(first.getRescale(), 4);
    YieldOp::create(ctx.b, ctx.loc, number(1));
    x = open(first.getLift(), 2);
    YieldOp::create(ctx.b, ctx.loc, ValueRange{x[0], x[1], number(1)});
    x = open(first.getFinalize(), 3);
    YieldOp::create(ctx.b, ctx.loc, x[1]);
  }
  SmallVector<Value> left, right;
  for (auto [query, key] :
       llvm::zip_equal(ctx.op.getQueries(), ctx.op.getKeys())) {
    left.push_back(ctx.outside(query));
    right.push_back(ctx.outside(key));
  }
  captureRegions(ctx);
  auto reduction =
      makeReduction(ctx, FlatSymbolRefAttr::get(ctx.b.getContext(), name),
                    Side::keys, rowType(ctx), left, right, {});
  buildMask(ctx, Side::keys, reduction.getMask());
  SmallVector<Type> types(left.size(), f32);
  types.append(4, i32);
  Block *block = openRegion(ctx, reduction.getScore(), types);
  Value key = block->getArgument(left.size() + 3);
  SmallVector<Value> arguments(
      block->getArguments().take_front(left.size() + 4));
  llvm::append_range(arguments, inCaptures(ctx));
  SmallVector<Value> lifted =
      inlineRegion(ctx.b, ctx.work.getScore(), arguments);
  llvm::append_range(lifted, paramsOf(ctx));
  Value stat = inlineRegion(ctx.b, ctx.monoid.getLift(), lifted).front();
  YieldOp::create(
      ctx.b, ctx.loc,
      ValueRange{stat, arith::SIToFPOp::create(ctx.b, ctx.loc, f32, key)});
  if (!ctx.work.getInit().empty()) {
    block = openRegion(ctx, reduction.getInit(), {i32, i32, i32});
    SmallVector<Value> position(block->getArguments().take_front(3));
    llvm::append_range(position, inCaptures(ctx));
    Value start = inlineRegion(ctx.b, ctx.work.getInit(), position).front();
    Value none = arith::CmpFOp::create(
        ctx.b, ctx.loc, arith::CmpFPredicate::OEQ, start, number(-infinity));
    Value before = arith::SelectOp::create(ctx.b, ctx.loc, none,
                                           number(infinity), number(-1));
    Value weight =
        arith::SelectOp::create(ctx.b, ctx.loc, none, number(0), number(1));
    YieldOp::create(ctx.b, ctx.loc, ValueRange{start, before, weight});
  }
  ctx.b.setInsertionPointToEnd(&ctx.target.getBody().front());
  return reduction.getResult(0);
}
