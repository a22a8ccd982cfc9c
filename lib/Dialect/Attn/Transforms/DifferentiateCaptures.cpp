//===- DifferentiateCaptures.cpp - Gradients of captures ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where captured inputs and parameters are read, and @f_pairs, which gives what
// their elements have of each pair.
//
//===----------------------------------------------------------------------===//

#include "Adjoints.h"
#include "Differentiator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Where they are read
//===----------------------------------------------------------------------===//

/// Where an element is, of the positions b, h, i, j: "h,3,*".
static std::string placeOf(tensor::ExtractOp extract, ValueRange positions) {
  SmallVector<std::string> indices;
  for (Value index : extract.getIndices()) {
    APInt constant;
    if (matchPattern(index, m_ConstantInt(&constant))) {
      indices.push_back(std::to_string(constant.getSExtValue()));
      continue;
    }
    if (auto cast = index.getDefiningOp<arith::IndexCastOp>())
      index = cast.getIn();
    auto at = llvm::find(positions, index);
    indices.push_back(at == positions.end()
                          ? "*"
                          : std::string(1, "bhij"[at - positions.begin()]));
  }
  return llvm::join(indices, ",");
}

static bool isComputed(StringRef place) { return place.contains('*'); }

LogicalResult Differentiator::findSpread(Input &input) {
  if (input.role != Role::capture && input.role != Role::param)
    return success();
  Value argument = func.getArgument(input.argument);
  auto fail = [&](const Twine &got) {
    return op.emitOpError("expected captured inputs that are differentiated "
                          "to be scalars, or to be read at positions, but "
                          "argument ")
           << input.argument << " is " << got << "; leave it out of 'inputs'";
  };
  // Whether a region's results depend on it, and where it reads elements.
  auto reads = [&](Region &region, unsigned first, unsigned count) {
    if (region.empty())
      return false;
    ValueRange captures = work.getCaptures();
    auto found = llvm::find(captures, argument);
    if (found == captures.end())
      return false;
    Value inside =
        region.getArgument(region.getNumArguments() - captures.size() +
                           (found - captures.begin()));
    auto isRead = [&](Value value) {
      return llvm::any_of(getYielded(region), [&](Value yielded) {
        return dependsOn(yielded, value);
      });
    };
    for (Operation &other : region.front())
      if (auto extract = dyn_cast<tensor::ExtractOp>(other))
        if (extract.getTensor() == inside && isRead(extract.getResult()))
          input.places.push_back(
              placeOf(extract, region.getArguments().slice(first, count)));
    return isRead(inside);
  };
  bool inScore = reads(work.getScore(), work.getQueries().size(), 4);
  // As of dropout, whose share is asked for by name alone.
  if (reads(work.getFactor(), 0, 0))
    return inputs.empty() ? success() : LogicalResult(fail("read by factor"));
  input.inRows = reads(work.getFinalize(), numStats() + numComponents(), 3);
  input.inRows |= reads(work.getInit(), 0, 3);
  if (input.role == Role::param) {
    // lift and rescale read it, of an initial state too.
    inScore = true;
    input.inRows |= !work.getInit().empty();
  }
  bool isTable = llvm::any_of(input.places, isComputed) ||
                 llvm::any_of(input.places, [&](const std::string &place) {
                   return place != input.places.front();
                 });
  if (isTable && input.inRows)
    return fail("read at computed indices, or at several, by init or finalize");
  if (!inScore)
    return success();
  if (isTable) {
    input.spread = Spread::table;
    return success();
  }
  StringRef place;
  if (!input.places.empty())
    place = input.places.front();
  // Over queries all heads of a key head are added up.
  input.spread = !place.contains('j')                           ? Spread::rows
                 : place.find_first_of("hi") != StringRef::npos ? Spread::pairs
                                                                : Spread::keys;
  return success();
}

std::string Differentiator::nameOf(const Input &input) {
  std::string name = "arg" + std::to_string(input.argument);
  if (auto named =
          func.getArgument(input.argument).getLoc()->findInstanceOf<NameLoc>())
    name = named.getName().str();
  if (!input.places.empty() && input.spread != Spread::table)
    name += "[" + input.places.front() + "]";
  return name;
}

void Differentiator::nameGradients(ArrayRef<std::string> names) {
  SmallVector<StringRef> strings(names.begin(), names.end());
  target->setAttr(getGradientsName(), b.getStrArrayAttr(strings));
}

//===----------------------------------------------------------------------===//
// In regions
//===----------------------------------------------------------------------===//

void Differentiator::addRoots(Adjoints &adjoints, const Input &input,
                              const Elements &elements) {
  Value argument = inInput(input);
  adjoints.addRoot(argument);
  for (Value element : elements.lookup(argument))
    adjoints.addRoot(element);
}

Value Differentiator::isIdentity(ValueRange stats) {
  if (stats.empty())
    return {};
  SmallVector<Value> identity =
      inlineRegion(b, monoid.getIdentity(), paramsOf());
  Value all;
  for (auto [stat, none] : llvm::zip_equal(stats, identity)) {
    Value equal =
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, stat, none);
    all = all ? arith::AndIOp::create(b, loc, all, equal).getResult() : equal;
  }
  return all;
}

void Differentiator::addReads(Adjoints &adjoints, const Input &input,
                              const Elements &elements, ValueRange position,
                              Pairs &pairs) {
  auto &reads = pairs.reads.emplace_back();
  auto &places = pairs.places.emplace_back();
  if (input.spread != Spread::table)
    return;
  for (Value element : elements.lookup(inInput(input))) {
    auto extract = element.getDefiningOp<tensor::ExtractOp>();
    places.push_back(placeOf(extract, position));
    Value cotangent = adjoints.get(element);
    reads.push_back(cotangent ? cotangent : adjoints.zero());
    SmallVector<StringRef> parts;
    StringRef(places.back()).split(parts, ',');
    for (auto [index, part] : llvm::zip_equal(extract.getIndices(), parts)) {
      if (!isComputed(part))
        continue;
      Value number = arith::IndexCastOp::create(b, loc, b.getI32Type(), index);
      reads.push_back(arith::SIToFPOp::create(b, loc, b.getF32Type(), number));
    }
  }
}

//===----------------------------------------------------------------------===//
// @f_pairs
//===----------------------------------------------------------------------===//

/// What an element of a captured tensor [b, h, i, j] has: its pair's, for some
/// of the keys. Times the rows of an identity the sum over keys is that. Of a
/// table so is where the element is.
LogicalResult Differentiator::buildPairs() {
  if (isPacked())
    return op.emitOpError("expected captured inputs that are differentiated "
                          "and read by row and key to be of sequences that are "
                          "not packed");
  startBackward("_pairs");
  if (failed(monoid.isGeneral() ? buildUnfold() : buildRows()))
    return failure();
  SmallVector<Value> left, right, values;
  capturePairs(Side::keys, /*wantsScores=*/true, left, right);
  SmallVector<int64_t> shape(rowType().getShape());
  shape.push_back(pairKeys);
  SmallVector<Type> types;
  SmallVector<Component> components;
  SmallVector<std::string> names;
  bool hasTables = false;
  for (Input &input : wanted) {
    if (!input.isPairs())
      continue;
    size_t count = 1;
    if (input.spread == Spread::table) {
      hasTables = true;
      count = 0;
      for (StringRef place : input.places)
        count += 1 + place.count('*');
    }
    for (size_t i = 0; i < count; ++i) {
      types.push_back(RankedTensorType::get(shape, b.getF32Type()));
      components.push_back(Component::value);
      values.push_back(identity);
      names.push_back("d" + std::to_string(input.argument));
      if (i)
        names.back() += "_" + std::to_string(i);
    }
  }
  auto reduction = makeReduction(makeSum("_elements", components, names),
                                 Side::keys, types, left, right, values);
  // An index is not to be rounded.
  if (hasTables)
    reduction.setPrecision(ProductPrecision::ieee);
  buildMask(Side::keys, reduction.getMask());
  SmallVector<Type> arguments(left.size(), b.getF32Type());
  arguments.append(4, b.getI32Type());
  Block *block = openRegion(reduction.getScore(), arguments);
  Pairs pairs;
  if (failed(buildPair(Side::keys, block, /*wantsScores=*/true, pairs)))
    return failure();
  Value zero =
      arith::ConstantFloatOp::create(b, loc, b.getF32Type(), APFloat(0.0f));
  SmallVector<Value> yields;
  SmallVector<std::string> gradients;
  auto yield = [&](Value value, const std::string &name) {
    yields.push_back(
        arith::SelectOp::create(b, loc, pairs.isLive, value, zero));
    gradients.push_back(name);
  };
  for (auto [i, input] : llvm::enumerate(wanted)) {
    if (!input.isPairs())
      continue;
    if (input.spread == Spread::pairs) {
      yield(pairs.captures[i], nameOf(input));
      continue;
    }
    ArrayRef<Value> reads = pairs.reads[i];
    for (const std::string &place : pairs.places[i]) {
      yield(reads.consume_front(), nameOf(input) + "[" + place + "]");
      for (size_t n = StringRef(place).count('*'); n > 0; --n)
        yield(reads.consume_front(), "#index");
    }
  }
  YieldOp::create(b, loc, yields);
  b.setInsertionPointToEnd(&target.getBody().front());
  func::ReturnOp::create(b, loc, reduction.getResults());
  target.setType(
      b.getFunctionType(target.getBody().front().getArgumentTypes(), types));
  nameGradients(gradients);
  return success();
}
