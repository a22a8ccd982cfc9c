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
#include "Differentiator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;

/// Once for each row: from the cotangents of outputs to those of components.
/// What a channel's cotangent and output add up to over the channels is a dot
/// of the row with itself.
LogicalResult Differentiator::buildRows() {
  if (!isWalk())
    rows.stats.assign(saved.begin(), saved.begin() + numStats());
  rows.ends.assign(isWalk() ? numStats() : 0, Value());
  rows.units.resize(numComponents());
  rows.factors.resize(outputs.size());
  bool hasParts =
      llvm::any_of(wanted, [](const Input &input) { return input.inRows; });
  rows.first = hasMaximum ? saved.back() : Value();
  bool isNeeded = hasParts || hasMaximum;
  for (const Output &output : outputs)
    isNeeded |= output.readsUnits || (isWalk() && output.readsStats) ||
                (output.hasChannels() && !output.isComponent);
  if (!isNeeded)
    return success();

  SmallVector<Value> left, right;
  for (auto [i, output] : llvm::enumerate(outputs))
    if (readsOutput(output)) {
      left.push_back(cotangents[i]);
      right.push_back(results[i]);
    }
  if (left.empty()) // A reduction has a dot.
    left = right = {outside(op.getQueries().front())};

  captureRegions();
  for (Value value : saved)
    capture(value);
  for (auto [i, output] : llvm::enumerate(outputs))
    if (!output.hasChannels())
      capture(cotangents[i]);

  SmallVector<std::string> names;
  for (auto [i, output] : llvm::enumerate(outputs))
    if (output.hasChannels() && !output.isComponent)
      names.push_back("factor" + std::to_string(i));
  for (unsigned k = 0; k < numComponents(); ++k)
    if (isUnit(k))
      names.push_back("unit" + std::to_string(k));
  for (unsigned i = 0; i < numExponents(); ++i)
    names.push_back("exponent" + std::to_string(i));
  for (unsigned i = 0; i < rows.ends.size(); ++i)
    names.push_back("end" + std::to_string(i));
  if (hasMaximum)
    names.push_back("maximum");
  for (Input &input : wanted)
    if (input.inRows)
      names.push_back("d" + std::to_string(input.argument));

  // A row reduces itself: keys are where the rows are.
  Source keys = keySource;
  keySource = rowSource;
  SmallVector<Component> components(left.size(), Component::unit);
  SmallVector<std::string> outputNames;
  for (size_t i = 0; i < left.size(); ++i)
    outputNames.push_back("dot" + std::to_string(i));
  auto reduction = makeReduction(
      makeSum("_rows", components, outputNames), Side::keys,
      SmallVector<Type>(names.size(), rowType()), left, right, {});
  keySource = keys;

  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  Block *mask = openRegion(reduction.getMask(), {i32, i32, i32, i32});
  Value same =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                            mask->getArgument(2), mask->getArgument(3));
  YieldOp::create(b, loc, same);

  SmallVector<Type> types(left.size(), f32);
  types.append(3, i32);
  Block *block = openRegion(reduction.getFinalize(), types);
  SmallVector<Value> yields;
  if (failed(buildFinalize(block, block->getArguments().take_front(left.size()),
                           yields)))
    return failure();
  YieldOp::create(b, loc, yields);

  auto next = reduction.getResults().begin();
  for (auto [i, output] : llvm::enumerate(outputs))
    if (output.hasChannels() && !output.isComponent)
      rows.factors[i] = *next++;
  for (unsigned k = 0; k < numComponents(); ++k)
    if (isUnit(k))
      rows.units[k] = *next++;
  rows.exponents.resize(numExponents());
  for (Value &exponent : rows.exponents)
    exponent = *next++;
  for (Value &end : rows.ends)
    end = *next++;
  if (hasMaximum)
    rows.maximum = *next++;
  for (Input &input : wanted)
    if (input.inRows)
      (input.isOfPairs() ? input.rowPart : input.gradient) = *next++;
  b.setInsertionPointToEnd(&target.getBody().front());
  return success();
}

LogicalResult Differentiator::buildFinalize(Block *block, ValueRange dots,
                                            SmallVectorImpl<Value> &yields) {
  ValueRange position = block->getArguments().slice(dots.size(), 3);
  Adjoints adjoints(b, loc);
  Value maximum;
  // The factors of outputs are what finalize makes of components of 1.
  Region &finalize = work.getFinalize();
  SmallVector<Value> arguments, units(numComponents());
  for (unsigned i = 0; i < numStats() + numComponents(); ++i) {
    bool isStat = i < numStats();
    if (!isStat && !isUnit(i - numStats())) {
      arguments.push_back(adjoints.constant(1));
      continue;
    }
    // Of units that no output reads nothing is kept.
    Value state = saved[i] ? ofRow(saved[i], position) : adjoints.constant(0);
    arguments.push_back(state);
    if (!isStat)
      units[i - numStats()] = state;
    if (!isStat || isWalk())
      adjoints.addRoot(state);
  }
  llvm::append_range(arguments, position);
  llvm::append_range(arguments, inCaptures());
  Elements elements;
  SmallVector<Value> values = copyRegion(finalize, arguments, elements);
  for (Input &input : wanted)
    if (input.inRows)
      addRoots(adjoints, input, elements);
  adjoints.follow();
  unsigned dot = 0;
  for (auto [i, output] : llvm::enumerate(outputs)) {
    if (!output.hasChannels()) {
      adjoints.add(values[i], ofRow(cotangents[i], position));
      continue;
    }
    if (!readsOutput(output))
      continue;
    // dout . component, from dout . out
    adjoints.add(values[i], adjoints.divideOrZero(dots[dot++], values[i]));
  }
  if (failed(adjoints.sweep()))
    return failure();
  for (auto [i, output] : llvm::enumerate(outputs))
    if (output.hasChannels() && !output.isComponent)
      yields.push_back(values[i]);
  SmallVector<Value> cotangentsOfUnits(numComponents());
  for (unsigned k = 0; k < numComponents(); ++k) {
    if (!isUnit(k))
      continue;
    Value cotangent = adjoints.get(units[k]);
    cotangentsOfUnits[k] = cotangent;
    yields.push_back(cotangent ? cotangent : adjoints.zero());
    if (cotangent && hasItsWeights(k)) // delta
      for (auto [i, output] : llvm::enumerate(outputs))
        if (&output == dividedOutput())
          yields.back() = arith::NegFOp::create(
              b, loc, adjoints.divideOrZero(cotangent, values[i]));
  }
  if (numExponents())
    llvm::append_range(yields,
                       exponentsOf(arguments.front(),
                                   values[dividedOutput() - outputs.data()]));
  for (unsigned i = 0; i < rows.ends.size(); ++i) {
    Value cotangent = adjoints.get(arguments[i]);
    yields.push_back(cotangent ? cotangent : adjoints.zero());
  }
  if (hasMaximum) {
    // The reference point is one for the results that change with it alone.
    Adjoints changing(b, loc);
    changing.addRoot(arguments.front());
    changing.follow();
    for (auto [i, output] : llvm::enumerate(outputs))
      if (!output.isInvariant)
        changing.add(values[i], ofRow(cotangents[i], position));
    if (failed(changing.sweep()))
      return failure();
    Value cotangent = changing.get(arguments.front());
    maximum = cotangent ? cotangent : adjoints.zero();
    yields.push_back(maximum);
  }
  if (llvm::none_of(wanted, [](const Input &input) { return input.inRows; }))
    return success();
  SmallVector<Value> parts;
  Value isDead = isIdentity(ArrayRef(arguments).take_front(numStats()));
  for (Input &input : wanted) {
    Value part;
    if (input.inRows)
      part = sumOf(adjoints, inInput(input), elements);
    if (part && isDead)
      part = arith::SelectOp::create(b, loc, isDead, adjoints.zero(), part);
    parts.push_back(part);
  }
  if (!work.getInit().empty() &&
      failed(addInitGradients(block, cotangentsOfUnits, maximum, parts)))
    return failure();
  for (auto [input, part] : llvm::zip_equal(wanted, parts))
    if (input.inRows)
      yields.push_back(part ? part : adjoints.zero());
  return success();
}

/// An initial state is one more key, whose weights its region gives.
LogicalResult Differentiator::addInitGradients(Block *block, ValueRange units,
                                               Value maximum,
                                               MutableArrayRef<Value> parts) {
  unsigned numDots = block->getNumArguments() - 3 - captures.size();
  ValueRange position = block->getArguments().slice(numDots, 3);
  Region &init = work.getInit();
  Adjoints adjoints(b, loc);
  SmallVector<Value> arguments(position), captured = inCaptures();
  llvm::append_range(arguments, captured);
  // Elements are roots where they are read here.
  Elements elements;
  SmallVector<Value> state = copyRegion(init, arguments, elements);
  SmallVector<Value> factors;
  SmallVector<Value> stats(state.begin(), state.begin() + numStats());
  Operation *last = &block->back();
  if (numStats()) {
    SmallVector<Value> ends = stats;
    for (Value stat : rows.stats)
      ends.push_back(ofRow(stat, position));
    last = &block->back();
    llvm::append_range(ends, paramsOf());
    factors = inlineRegion(b, monoid.getRescale(), ends);
    for (Operation *op = last->getNextNode(); op; op = op->getNextNode())
      adjoints.setBounded(op);
  }
  SmallVector<Value> weights(numComponents());
  for (unsigned k = 0; k < numComponents(); ++k) {
    weights[k] = state[numStats() + k];
    if (!factors.empty())
      weights[k] = arith::MulFOp::create(b, loc, weights[k],
                                         factors[monoid.hasFactors() ? k : 0]);
  }
  for (Input &input : wanted)
    if (input.inRows)
      addRoots(adjoints, input, elements);
  adjoints.follow();
  for (unsigned k = 0; k < numComponents(); ++k) {
    if (isUnit(k))
      adjoints.add(weights[k], units[k]);
    else if (adjoints.isActive(state[numStats() + k]))
      return op.emitOpError("expected init not to give a value component what "
                            "depends on an input that is differentiated");
  }
  if (maximum) {
    // Before all keys.
    Value isFirst = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ,
                                          ofRow(rows.first, position),
                                          adjoints.constant(-1));
    adjoints.add(stats.front(), arith::SelectOp::create(
                                    b, loc, isFirst, maximum, adjoints.zero()));
  }
  if (failed(adjoints.sweep()))
    return failure();
  // Of an init that is the identity nothing depends on anything.
  Value isNone = isIdentity(stats);
  for (auto [input, part] : llvm::zip_equal(wanted, parts)) {
    if (!input.inRows)
      continue;
    Value sum = sumOf(adjoints, inInput(input), elements);
    if (sum && isNone)
      sum = arith::SelectOp::create(b, loc, isNone, adjoints.zero(), sum);
    if (sum)
      part = part ? arith::AddFOp::create(b, loc, part, sum).getResult() : sum;
  }
  return success();
}

/// The numbers of the keys whose score the maximum of a row is: of equals the
/// first, -1 for the initial state. A reduction in the largest statistic with
/// its key.
Value Differentiator::buildFirst() {
  auto module = func->getParentOfType<ModuleOp>();
  std::string name = (func.getName() + "_first").str();
  for (unsigned i = 2; SymbolTable::lookupSymbolIn(module, name); ++i)
    name = (func.getName() + "_first_" + Twine(i)).str();
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  auto number = [&](float value) -> Value {
    return arith::ConstantFloatOp::create(b, loc, b.getF32Type(),
                                          APFloat(value));
  };
  constexpr float infinity = std::numeric_limits<float>::infinity();
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(func);
    auto unit = ComponentAttr::get(b.getContext(), Component::unit);
    auto first = MonoidOp::create(
        b, loc, b.getStringAttr(name), b.getStringAttr("private"),
        MonoidKindAttr::get(b.getContext(), MonoidKind::cocycle),
        b.getTypeArrayAttr({f32, f32}), b.getArrayAttr({unit}),
        b.getArrayAttr({}), b.getStrArrayAttr({"key"}));
    auto open = [&](Region &region, unsigned numArguments) {
      Block *block = b.createBlock(&region);
      for (unsigned i = 0; i < numArguments; ++i)
        block->addArgument(f32, loc);
      return block->getArguments();
    };
    (void)open(first.getIdentity(), 0);
    YieldOp::create(b, loc, ValueRange{number(-infinity), number(infinity)});
    ValueRange x = open(first.getCombine(), 4);
    auto compare = [&](arith::CmpFPredicate how) -> Value {
      return arith::CmpFOp::create(b, loc, how, x[0], x[2]);
    };
    Value larger = arith::MaximumFOp::create(b, loc, x[0], x[2]);
    Value least = arith::MinimumFOp::create(b, loc, x[1], x[3]);
    Value key = arith::SelectOp::create(
        b, loc, compare(arith::CmpFPredicate::OLT), x[3], least);
    key = arith::SelectOp::create(b, loc, compare(arith::CmpFPredicate::OGT),
                                  x[1], key);
    YieldOp::create(b, loc, ValueRange{larger, key});
    (void)open(first.getRescale(), 4);
    YieldOp::create(b, loc, number(1));
    x = open(first.getLift(), 2);
    YieldOp::create(b, loc, ValueRange{x[0], x[1], number(1)});
    x = open(first.getFinalize(), 3);
    YieldOp::create(b, loc, x[1]);
  }
  SmallVector<Value> left, right;
  for (auto [query, key] : llvm::zip_equal(op.getQueries(), op.getKeys())) {
    left.push_back(outside(query));
    right.push_back(outside(key));
  }
  captureRegions();
  auto reduction = makeReduction(FlatSymbolRefAttr::get(b.getContext(), name),
                                 Side::keys, rowType(), left, right, {});
  buildMask(Side::keys, reduction.getMask());
  SmallVector<Type> types(left.size(), f32);
  types.append(4, i32);
  Block *block = openRegion(reduction.getScore(), types);
  Value key = block->getArgument(left.size() + 3);
  SmallVector<Value> arguments(
      block->getArguments().take_front(left.size() + 4));
  llvm::append_range(arguments, inCaptures());
  SmallVector<Value> lifted = inlineRegion(b, work.getScore(), arguments);
  llvm::append_range(lifted, paramsOf());
  Value stat = inlineRegion(b, monoid.getLift(), lifted).front();
  YieldOp::create(b, loc,
                  ValueRange{stat, arith::SIToFPOp::create(b, loc, f32, key)});
  if (!work.getInit().empty()) {
    block = openRegion(reduction.getInit(), {i32, i32, i32});
    SmallVector<Value> position(block->getArguments().take_front(3));
    llvm::append_range(position, inCaptures());
    Value start = inlineRegion(b, work.getInit(), position).front();
    Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, start,
                                       number(-infinity));
    Value before =
        arith::SelectOp::create(b, loc, none, number(infinity), number(-1));
    Value weight = arith::SelectOp::create(b, loc, none, number(0), number(1));
    YieldOp::create(b, loc, ValueRange{start, before, weight});
  }
  b.setInsertionPointToEnd(&target.getBody().front());
  return reduction.getResult(0);
}
