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
#include "Distances.h"
#include "GradientContext.h"
#include "attn/Analysis/TileLayout.h"
#include "attn/Dialect/Attn/IR/AttributeNames.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
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

using Coefficients = std::optional<std::pair<int64_t, int64_t>>;

/// How often a value has the row i and the key j as terms, beside what depends
/// on i - j and the head alone; none where it is no such sum.
static Coefficients findCoefficients(Value value, ValueRange positions,
                                     DenseMap<Value, Coefficients> &known) {
  if (auto found = known.find(value); found != known.end())
    return found->second;
  auto ofArgument = [&](BlockArgument argument) -> Coefficients {
    unsigned first = cast<BlockArgument>(positions.front()).getArgNumber();
    unsigned number = argument.getArgNumber();
    if (number <= first) // A dot, or the batch.
      return {};
    return std::pair<int64_t, int64_t>(number == first + 2,
                                       number == first + 3);
  };
  auto ofOp = [&](Operation *op) -> Coefficients {
    if (op->getNumRegions() || !isMemoryEffectFree(op))
      return {};
    SmallVector<std::pair<int64_t, int64_t>> terms;
    for (Value operand : op->getOperands()) {
      Coefficients term = findCoefficients(operand, positions, known);
      if (!term)
        return {};
      terms.push_back(*term);
    }
    if (isa<arith::IndexCastOp, arith::ExtSIOp>(op))
      return terms[0];
    if (isa<arith::AddIOp>(op))
      return std::pair(terms[0].first + terms[1].first,
                       terms[0].second + terms[1].second);
    if (isa<arith::SubIOp>(op))
      return std::pair(terms[0].first - terms[1].first,
                       terms[0].second - terms[1].second);
    bool isOfDistance = llvm::all_of(
        terms, [](auto term) { return term.first + term.second == 0; });
    return isOfDistance ? Coefficients({0, 0}) : Coefficients();
  };
  auto argument = dyn_cast<BlockArgument>(value);
  return known[value] =
             argument ? ofArgument(argument) : ofOp(value.getDefiningOp());
}

/// Whether the element is told by the head and the distance of row and key.
static bool isAtDistance(tensor::ExtractOp extract, ValueRange positions) {
  DenseMap<Value, Coefficients> known;
  return llvm::all_of(extract.getIndices(), [&](Value index) {
    Coefficients found = findCoefficients(index, positions, known);
    return found && found->first + found->second == 0;
  });
}

LogicalResult mlir::attn::findSpread(GradientContext &ctx,
                                     GradientInput &input) {
  if (input.role != InputRole::capture && input.role != InputRole::param)
    return success();
  Value argument = ctx.func.getArgument(input.argument);
  auto fail = [&](const Twine &got) {
    return ctx.op.emitOpError(
               "expected captured inputs that are differentiated "
               "to be scalars, or to be read at positions, but "
               "argument ")
           << input.argument << " is " << got << "; leave it out of 'inputs'";
  };
  // Whether a region's results depend on it, and where it reads elements.
  auto reads = [&](Region &region, unsigned first, unsigned count) {
    if (region.empty())
      return false;
    ValueRange captures = ctx.work.getCaptures();
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
        if (extract.getTensor() == inside && isRead(extract.getResult())) {
          ValueRange positions = region.getArguments().slice(first, count);
          input.places.push_back(placeOf(extract, positions));
          input.isByDistance &= count == 4 && isAtDistance(extract, positions);
        }
    return isRead(inside);
  };
  bool inScore = reads(ctx.work.getScore(), ctx.work.getQueries().size(), 4);
  // As of dropout, whose share is asked for by name alone.
  if (reads(ctx.work.getFactor(), 0, 0))
    return ctx.inputs.empty() ? success()
                              : LogicalResult(fail("read by factor"));
  input.inRows =
      reads(ctx.work.getFinalize(), ctx.numStats() + ctx.numComponents(), 3);
  input.inRows |= reads(ctx.work.getInit(), 0, 3);
  if (input.role == InputRole::param) {
    // lift and rescale read it, of an initial state too.
    inScore = true;
    input.inRows |= !ctx.work.getInit().empty();
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
    input.spread = InputSpread::table;
    return success();
  }
  StringRef place;
  if (!input.places.empty())
    place = input.places.front();
  // Over queries all heads of a key head are added up.
  input.spread = !place.contains('j') ? InputSpread::rows
                 : place.find_first_of("hi") != StringRef::npos
                     ? InputSpread::pairs
                     : InputSpread::keys;
  return success();
}

std::string mlir::attn::nameOf(GradientContext &ctx,
                               const GradientInput &input) {
  std::string name = "arg" + std::to_string(input.argument);
  if (auto named = ctx.func.getArgument(input.argument)
                       .getLoc()
                       ->findInstanceOf<NameLoc>())
    name = named.getName().str();
  if (!input.places.empty() && input.spread != InputSpread::table)
    name += "[" + input.places.front() + "]";
  return name;
}

void mlir::attn::nameGradients(GradientContext &ctx,
                               ArrayRef<std::string> names) {
  SmallVector<StringRef> strings(names.begin(), names.end());
  ctx.target->setAttr(getGradientsName(), ctx.b.getStrArrayAttr(strings));
}

//===----------------------------------------------------------------------===//
// In regions
//===----------------------------------------------------------------------===//

void mlir::attn::addRoots(GradientContext &ctx, Adjoints &adjoints,
                          const GradientInput &input,
                          const ElementReads &elements) {
  Value argument = ctx.inInput(input);
  adjoints.addRoot(argument);
  for (Value element : elements.lookup(argument))
    adjoints.addRoot(element);
}

Value mlir::attn::isIdentity(GradientContext &ctx, ValueRange stats) {
  if (stats.empty())
    return {};
  SmallVector<Value> identity =
      inlineRegion(ctx.b, ctx.monoid.getIdentity(), paramsOf(ctx));
  Value all;
  for (auto [stat, none] : llvm::zip_equal(stats, identity)) {
    Value equal = arith::CmpFOp::create(ctx.b, ctx.loc,
                                        arith::CmpFPredicate::OEQ, stat, none);
    all = all ? arith::AndIOp::create(ctx.b, ctx.loc, all, equal).getResult()
              : equal;
  }
  return all;
}

/// Of a table: what each read has, and where it is.
static void addReads(GradientContext &ctx, Adjoints &adjoints,
                     const GradientInput &input, const ElementReads &elements,
                     ValueRange position, PairValues &pairs) {
  auto &reads = pairs.reads.emplace_back();
  auto &places = pairs.places.emplace_back();
  auto &from = pairs.elements.emplace_back();
  if (input.spread != InputSpread::table)
    return;
  for (Value element : elements.lookup(ctx.inInput(input))) {
    auto extract = element.getDefiningOp<tensor::ExtractOp>();
    places.push_back(placeOf(extract, position));
    from.push_back(element);
    Value cotangent = adjoints.get(element);
    reads.push_back(cotangent ? cotangent : adjoints.zero());
    SmallVector<StringRef> parts;
    StringRef(places.back()).split(parts, ',');
    for (auto [index, part] : llvm::zip_equal(extract.getIndices(), parts)) {
      if (!isComputed(part))
        continue;
      Value number =
          arith::IndexCastOp::create(ctx.b, ctx.loc, ctx.b.getI32Type(), index);
      reads.push_back(
          arith::SIToFPOp::create(ctx.b, ctx.loc, ctx.b.getF32Type(), number));
    }
  }
}

void mlir::attn::addCaptures(GradientContext &ctx, Adjoints &adjoints,
                             const ElementReads &elements, ValueRange position,
                             PairValues &pairs) {
  for (GradientInput &input : ctx.wanted) {
    Value sum;
    if (input.isOfPairs())
      sum = sumOf(ctx, adjoints, ctx.inInput(input), elements);
    pairs.captures.push_back(sum ? sum : adjoints.zero());
    addReads(ctx, adjoints, input, elements, position, pairs);
  }
}

//===----------------------------------------------------------------------===//
// Pairs that are far apart
//===----------------------------------------------------------------------===//

namespace {
/// The element that all pairs read which are far enough apart, on one side.
struct FarRead {
  std::string place;
  int64_t from = 0;
};
} // namespace

static std::optional<FarRead> findFarRead(tensor::ExtractOp extract,
                                          ValueRange position, bool isAhead) {
  std::string place = placeOf(extract, position);
  if (!isComputed(place))
    return std::nullopt;
  FarRead read;
  SmallVector<std::string> parts;
  SmallVector<StringRef> given;
  StringRef(place).split(given, ',');
  for (auto [index, part] : llvm::zip_equal(extract.getIndices(), given)) {
    parts.push_back(part.str());
    if (!isComputed(part))
      continue;
    std::optional<FarValue> far =
        findFarValue(index, position[2], position[3], isAhead);
    if (!far || !far->value)
      return std::nullopt;
    read.from = std::max(read.from, far->from);
    parts.back() = std::to_string(*far->value);
  }
  read.place = llvm::join(parts, ",");
  return read;
}

void mlir::attn::findFarPlaces(GradientContext &ctx, GradientInput &input) {
  if (input.spread != InputSpread::table || !areByDistance(ctx))
    return;
  Region &score = ctx.work.getScore();
  ValueRange captures = ctx.work.getCaptures();
  Value argument = ctx.func.getArgument(input.argument);
  size_t number = llvm::find(captures, argument) - captures.begin();
  Value inside =
      score.getArgument(score.getNumArguments() - captures.size() + number);
  ValueRange position =
      score.getArguments().slice(ctx.work.getQueries().size(), 4);
  for (auto extract : score.getOps<tensor::ExtractOp>())
    for (bool isAhead : {false, true})
      if (extract.getTensor() == inside)
        if (auto read = findFarRead(extract, position, isAhead);
            read && !llvm::is_contained(input.farPlaces, read->place))
          input.farPlaces.push_back(read->place);
}

/// Whether a pair is so far apart that it reads the element at `place`, or
/// where that is empty, one of those that have a place; null for never.
static Value isFar(GradientContext &ctx, tensor::ExtractOp extract,
                   ValueRange position, StringRef place) {
  using Predicate = arith::CmpIPredicate;
  Type i32 = ctx.b.getI32Type();
  auto compare = [&](Predicate predicate, Value x, int64_t y) -> Value {
    Value bound = arith::ConstantIntOp::create(ctx.b, ctx.loc, i32, y);
    return arith::CmpIOp::create(ctx.b, ctx.loc, predicate, x, bound);
  };
  auto ofSide = [&](bool isAhead) {
    std::optional<FarRead> read = findFarRead(extract, position, isAhead);
    return read && (place.empty() || read->place == place) ? read
                                                           : std::nullopt;
  };
  std::optional<FarRead> behind = ofSide(false), ahead = ofSide(true);
  if (!behind && !ahead)
    return {};
  Value distance =
      arith::SubIOp::create(ctx.b, ctx.loc, position[2], position[3]);
  if (behind && ahead && behind->from == ahead->from)
    return compare(Predicate::sge,
                   math::AbsIOp::create(ctx.b, ctx.loc, distance),
                   behind->from);
  Value result;
  if (behind)
    result = compare(Predicate::sge, distance, behind->from);
  if (ahead) {
    Value isAhead = compare(Predicate::sle, distance, -ahead->from);
    result =
        result
            ? arith::OrIOp::create(ctx.b, ctx.loc, result, isAhead).getResult()
            : isAhead;
  }
  return result;
}

Value mlir::attn::farPart(GradientContext &ctx, ArrayRef<Value> elements,
                          ArrayRef<Value> reads, ValueRange position,
                          StringRef place) {
  Value sum, zero = arith::ConstantFloatOp::create(
                 ctx.b, ctx.loc, ctx.b.getF32Type(), APFloat(0.0f));
  for (Value element : elements) {
    auto extract = element.getDefiningOp<tensor::ExtractOp>();
    Value cotangent = reads.consume_front();
    reads = reads.drop_front(StringRef(placeOf(extract, position)).count('*'));
    Value is = isFar(ctx, extract, position, place);
    if (!is)
      continue;
    Value part = arith::SelectOp::create(ctx.b, ctx.loc, is, cotangent, zero);
    sum = sum ? arith::AddFOp::create(ctx.b, ctx.loc, sum, part).getResult()
              : part;
  }
  return sum ? sum : zero;
}

//===----------------------------------------------------------------------===//
// What an element has
//===----------------------------------------------------------------------===//

/// The regions of a reduction over pairs, and the end of its function: what an
/// element has of each input that is read by pairs. With `hasDeadIndices` it
/// has the index of a table where it is dead, too, and 0 otherwise.
static LogicalResult buildElements(GradientContext &ctx,
                                   ReductionOpInterface reduction,
                                   size_t numDots, bool hasDeadIndices) {
  buildMask(ctx, Side::keys, reduction.getMaskBody());
  SmallVector<Type> arguments(numDots, ctx.b.getF32Type());
  arguments.append(4, ctx.b.getI32Type());
  Block *block = openRegion(ctx, reduction.getScoreBody(), arguments);
  PairValues pairs;
  if (failed(buildPair(ctx, Side::keys, block, /*wantsScores=*/true, pairs)))
    return failure();
  Value zero = arith::ConstantFloatOp::create(
      ctx.b, ctx.loc, ctx.b.getF32Type(), APFloat(0.0f));
  SmallVector<Value> position =
      positionsOf(ctx, Side::keys, block->getArguments().slice(numDots, 4));
  SmallVector<Value> yields;
  SmallVector<std::string> gradients;
  auto yield = [&](Value value, bool isLiveAlone, const std::string &name) {
    yields.push_back(
        isLiveAlone
            ? arith::SelectOp::create(ctx.b, ctx.loc, pairs.isLive, value, zero)
            : value);
    gradients.push_back(name);
  };
  for (auto [i, input] : llvm::enumerate(ctx.wanted)) {
    if (!input.isPairs())
      continue;
    if (input.spread == InputSpread::pairs) {
      yield(pairs.captures[i], /*isLiveAlone=*/true, nameOf(ctx, input));
      continue;
    }
    ArrayRef<Value> reads = pairs.reads[i];
    for (auto [place, element] :
         llvm::zip_equal(pairs.places[i], pairs.elements[i])) {
      Value part = reads.consume_front();
      // Rows have what pairs that are far apart give.
      Value isElsewhere;
      if (!input.farPlaces.empty())
        isElsewhere = isFar(ctx, element.getDefiningOp<tensor::ExtractOp>(),
                            position, /*place=*/"");
      yield(part, /*isLiveAlone=*/true, nameOf(ctx, input) + "[" + place + "]");
      if (isElsewhere)
        yields.back() = arith::SelectOp::create(ctx.b, ctx.loc, isElsewhere,
                                                zero, yields.back());
      for (size_t n = StringRef(place).count('*'); n > 0; --n)
        yield(reads.consume_front(), !hasDeadIndices, "#index");
    }
  }
  YieldOp::create(ctx.b, ctx.loc, yields);
  ctx.b.setInsertionPointToEnd(&ctx.target.getBody().front());
  func::ReturnOp::create(ctx.b, ctx.loc, reduction->getResults());
  ctx.target.setType(
      ctx.b.getFunctionType(ctx.target.getBody().front().getArgumentTypes(),
                            reduction->getResultTypes()));
  nameGradients(ctx, gradients);
  return success();
}

//===----------------------------------------------------------------------===//
// @f_pairs
//===----------------------------------------------------------------------===//

/// What an element of a captured tensor [b, h, i, j] has: its pair's, for some
/// of the keys. Times the rows of an identity the sum over keys is that. Of a
/// table so is where the element is.
LogicalResult mlir::attn::buildPairs(GradientContext &ctx) {
  if (ctx.isPacked())
    return ctx.op.emitOpError(
        "expected captured inputs that are differentiated "
        "and read by row and key to be of sequences that are "
        "not packed");
  startBackward(ctx, "_pairs");
  if (failed(ctx.monoid.isGeneral() ? buildUnfold(ctx) : buildRows(ctx)))
    return failure();
  SmallVector<Value> left, right, values;
  capturePairs(ctx, Side::keys, /*wantsScores=*/true, left, right);
  SmallVector<int64_t> shape(rowType(ctx).getShape());
  shape.push_back(pairKeys);
  SmallVector<Type> types;
  SmallVector<Component> components;
  SmallVector<std::string> names;
  bool hasTables = false;
  for (GradientInput &input : ctx.wanted) {
    if (!input.isPairs())
      continue;
    size_t count = 1;
    if (input.spread == InputSpread::table) {
      hasTables = true;
      count = 0;
      for (StringRef place : input.places)
        count += 1 + place.count('*');
    }
    for (size_t i = 0; i < count; ++i) {
      types.push_back(RankedTensorType::get(shape, ctx.b.getF32Type()));
      components.push_back(Component::value);
      values.push_back(ctx.identity);
      names.push_back("d" + std::to_string(input.argument));
      if (i)
        names.back() += "_" + std::to_string(i);
    }
  }
  auto reduction =
      makeReduction(ctx, makeSum(ctx, "_elements", components, names),
                    Side::keys, types, left, right, values);
  // An index is not to be rounded.
  if (hasTables)
    reduction.setPrecision(ProductPrecision::ieee);
  return buildElements(ctx, reduction, left.size(), /*hasDeadIndices=*/false);
}

//===----------------------------------------------------------------------===//
// @f_distances
//===----------------------------------------------------------------------===//

/// Whether a block that has a tile of diagonals has room for its rows: those of
/// the score's dots, and of the cotangents.
static bool haveRoom(GradientContext &ctx) {
  int64_t bytes = 0;
  for (ValueRange tensors :
       {ValueRange(ctx.op.getQueries()), ValueRange(ctx.op.getValues())})
    for (Value tensor : tensors) {
      auto type = cast<RankedTensorType>(tensor.getType());
      bytes +=
          llvm::alignTo(type.getShape().back(), ::attn::onchip::panelElements) *
          type.getElementTypeBitWidth() / 8;
    }
  return bytes <= ::attn::onchip::mostDiagonalBytes;
}

bool mlir::attn::areByDistance(GradientContext &ctx) {
  bool isWhole = !ctx.isPart() && !ctx.isPacked() && !ctx.keySource.lengths &&
                 !ctx.op.getQueryFormAttr() && !ctx.op.getKeyFormAttr() &&
                 haveRoom(ctx);
  return isWhole && llvm::all_of(ctx.wanted, [](const GradientInput &input) {
           return !input.isPairs() ||
                  (input.spread == InputSpread::table && input.isByDistance);
         });
}

/// From which distance on all sums are those of rows, or -1.
static int64_t findNear(Region &score, size_t numDots, bool isAhead) {
  ValueRange position = score.getArguments().slice(numDots, 4);
  int64_t near = 0;
  for (Value yielded : getYielded(score)) {
    // The others are indices.
    if (yielded.getDefiningOp<arith::SIToFPOp>())
      continue;
    auto select = yielded.getDefiningOp<arith::SelectOp>();
    std::optional<FarValue> far;
    if (select && matchPattern(select.getTrueValue(), m_AnyZeroFloat()))
      far = findFarValue(select.getCondition(), position[2], position[3],
                         isAhead);
    if (!far || far->value != 1)
      return -1;
    near = std::max(near, far->from);
  }
  return near;
}

/// What the elements of tables have, whose places the distances of rows and
/// keys tell: sums along diagonals, and the index of each.
LogicalResult mlir::attn::buildDistances(GradientContext &ctx) {
  startBackward(ctx, "_distances");
  if (failed(buildRows(ctx)))
    return failure();
  SmallVector<Value> left, right;
  capturePairs(ctx, Side::keys, /*wantsScores=*/true, left, right);
  SmallVector<int64_t> shape(rowType(ctx).getShape());
  shape[2] = ShapedType::kDynamic;
  Type index = RankedTensorType::get(shape, ctx.b.getF32Type());
  shape.push_back(pairKeys);
  Type sums = RankedTensorType::get(shape, ctx.b.getF32Type());
  SmallVector<Type> types;
  SmallVector<std::string> names;
  for (GradientInput &input : ctx.wanted) {
    if (!input.isPairs())
      continue;
    for (StringRef place : input.places) {
      types.push_back(sums);
      types.append(place.count('*'), index);
    }
  }
  for (size_t i = 0; i < types.size(); ++i)
    names.push_back("d" + std::to_string(i));
  FlatSymbolRefAttr sum =
      makeSum(ctx, "_elements",
              SmallVector<Component>(types.size(), Component::unit), names);
  ctx.b.setInsertionPointToEnd(&ctx.target.getBody().front());
  auto scores = ScoresOp::create(
      ctx.b, ctx.loc, types, sum, ValueRange(), left, right, ValueRange(),
      ctx.captures.getArrayRef(), ValueRange(), ValueRange(), Value(), Value(),
      SourceAttr(), SourceAttr(), SideAttr::get(ctx.b.getContext(), Side::keys),
      ScheduleAttr(), ctx.op.getPrecisionAttr(), UnitAttr(), RotaryAttr());
  scores.setDiagonals(pairKeys);
  if (failed(buildElements(ctx, scores, left.size(), /*hasDeadIndices=*/true)))
    return failure();
  SmallVector<int64_t> near;
  for (bool isAhead : {false, true})
    near.push_back(findNear(scores.getScore(), left.size(), isAhead));
  if (near != SmallVector<int64_t>{-1, -1})
    ctx.target->setAttr(getNearName(), ctx.b.getDenseI64ArrayAttr(near));
  return success();
}
