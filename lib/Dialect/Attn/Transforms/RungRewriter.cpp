//===- RungRewriter.cpp - A reduction as a rung has it --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RungRewriter.h"
#include "TileKernel.h"
#include "attn/Analysis/Laws.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Parser/Parser.h"

#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// What does not go with a rung
//===----------------------------------------------------------------------===//

LogicalResult RungRewriter::check() {
  if (op.getScheduleAttr())
    return refuse() << "no schedule beside attn.rung, which says the tiles";
  if (op.getSide() != Side::keys)
    return refuse() << "a reduction over keys" << ofRung()
                    << ", but got one over queries";
  if (op.getRotary())
    return refuse() << "no 'rotary'" << ofRung();
  switch (rung) {
  case Rung::naive:
  case Rung::safe:
  case Rung::lazy:
    return checkSums();
  case Rung::online:
  case Rung::fa2:
    return success();
  case Rung::fa3:
    if (!target.hasRoles())
      return refuse() << "a target whose copies and products run beside other "
                         "work (sm_90a)"
                      << ofRung() << ", but got " << target.name;
    if (monoid.isGeneral())
      return refuse() << "a monoid whose tiles are matrix products (cocycle, "
                         "suffix or prefix)"
                      << ofRung() << ", but @" << monoid.getSymName()
                      << " is general";
    return success();
  case Rung::fa1:
  case Rung::split:
    if (op.getBatchInvariant())
      return refuse() << "no batch_invariant" << ofRung()
                      << ", whose parts depend on the number of keys";
    if (!op.getQuerySource().hasBatch() || !op.getKeySource().hasBatch())
      return refuse() << "batches of dense queries and keys" << ofRung()
                      << ", but got packed sequences, pages or a rolling cache";
    return success();
  }
  llvm_unreachable("unknown rung");
}

LogicalResult RungRewriter::checkSums() {
  if (monoid.getKind() != MonoidKind::cocycle)
    return refuse() << "a monoid with the cocycle law, r(a, b) * r(b, c) = "
                       "r(a, c), which lets all weights of a row be measured "
                       "from one point,"
                    << ofRung() << ", but @" << monoid.getSymName() << " is "
                    << stringifyMonoidKind(monoid.getKind());
  for (Attribute stat : monoid.getStats())
    if (!cast<TypeAttr>(stat).getValue().isF32())
      return refuse() << "statistics of type f32" << ofRung() << ", but @"
                      << monoid.getSymName() << " has " << stat;
  if (rung != Rung::lazy) {
    if (!op.getQuerySource().hasBatch())
      return refuse() << "batches of queries" << ofRung()
                      << ", but got packed sequences";
    if (rung == Rung::naive && op.getKeySource().getForm(op.getContext()))
      return refuse() << "dense keys without lengths" << ofRung()
                      << ", but got others";
    return success();
  }
  if (!monoid.getNumStats())
    return success();
  Region &own = op.getFinalize();
  std::shared_ptr<const ::attn::LawReport> laws = ::attn::checkLaws(monoid);
  if (!laws)
    return failure();
  ::attn::FinalizeReport report = laws->finalize;
  if (!own.empty()) {
    auto found = ::attn::checkFinalize(monoid, own);
    if (failed(found))
      return failure();
    report = *found;
  }
  for (unsigned i = 0; i < op.getNumResults(); ++i)
    if (!report.gaugeInvariant[i])
      return refuse() << "outputs that do not see the point which weights are "
                         "measured from (gauge invariance of finalize)"
                      << ofRung() << ", but result " << i << " of @"
                      << monoid.getSymName() << " does";
  for (Value value : op.getValues())
    if (Type type = cast<RankedTensorType>(value.getType()).getElementType();
        type.isF16() && target.multiplies(/*bf16=*/false, /*f16=*/true))
      return refuse() << "values of f32 or bf16" << ofRung()
                      << ", since f16 has no room for weights from a fixed "
                         "point, but got "
                      << value.getType();
  return success();
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

Value RungRewriter::element(Value tensor, ValueRange positions) {
  auto indices = llvm::map_to_vector(positions, [&](Value position) -> Value {
    return arith::IndexCastOp::create(b, loc, b.getIndexType(), position);
  });
  return tensor::ExtractOp::create(b, loc, tensor, indices);
}

Block *RungRewriter::openRegion(Region &region, TypeRange state,
                                unsigned positions, ValueRange captures) {
  Block *block = b.createBlock(&region);
  for (Type type : state)
    block->addArgument(type, loc);
  for (unsigned i = 0; i < positions; ++i)
    block->addArgument(b.getI32Type(), loc);
  for (Value capture : captures)
    block->addArgument(capture.getType(), loc);
  return block;
}

void RungRewriter::copyRegion(Region &from, Region &to, ValueRange captures) {
  if (from.empty())
    return;
  IRMapping mapping;
  from.cloneInto(&to, mapping);
  for (Value capture : captures.drop_front(op.getCaptures().size()))
    to.addArgument(capture.getType(), loc);
}

SmallVector<Value> RungRewriter::scoresOf(Block *block, size_t numOwn) {
  unsigned numDots = op.getQueries().size();
  if (op.getScore().empty())
    return llvm::to_vector(
        ValueRange(block->getArguments()).take_front(numDots));
  return inlineRegion(
      b, op.getScore(),
      ValueRange(block->getArguments()).take_front(numDots + 4 + numOwn));
}

void RungRewriter::findTerms() {
  ValueRange weights =
      getYielded(monoid.getLift()).drop_front(monoid.getNumStats());
  for (unsigned i = 0; i < monoid.getNumComponents(); ++i) {
    Term term{weights[i], monoid.hasFactors() ? i : 0, std::nullopt};
    if (monoid.isShifted(i))
      term.shifted = i;
    auto *found = llvm::find(terms, term);
    termOf.push_back(found - terms.begin());
    if (found == terms.end())
      terms.push_back(term);
  }
}

static MonoidOp insertMonoid(StringRef text, MonoidOp before,
                             SymbolTable &symbols) {
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, ParserConfig(before.getContext()));
  auto made = *module->getOps<MonoidOp>().begin();
  made->remove();
  symbols.insert(made, std::next(before->getIterator()));
  return made;
}

/// The monoid of the statistics alone. It has to have a component, and that is
/// a sum of zeros.
MonoidOp RungRewriter::makeStatistics() {
  MonoidOp made = monoid.clone();
  made.setSymName((monoid.getSymName() + "_statistics").str());
  OpBuilder::InsertionGuard guard(b);
  auto rewrite = [&](Region &region, auto yield) {
    Operation *old = region.front().getTerminator();
    b.setInsertionPoint(old);
    YieldOp::create(b, loc, yield(region));
    old->erase();
    for (Operation &inner :
         llvm::make_early_inc_range(llvm::reverse(region.front())))
      if (isOpTriviallyDead(&inner))
        inner.erase();
  };
  rewrite(made.getRescale(),
          [&](Region &) { return SmallVector<Value>{f32(1.0f)}; });
  if (made.hasShift())
    made.getShift().front().erase();
  unsigned numStats = monoid.getNumStats();
  rewrite(made.getLift(), [&](Region &region) {
    SmallVector<Value> values(getYielded(region).take_front(numStats));
    values.push_back(f32(0.0f));
    return values;
  });
  Region &finalize = made.getFinalize();
  if (!finalize.empty())
    finalize.front().erase();
  Block *block = b.createBlock(&finalize);
  for (unsigned i = 0; i < numStats + 1; ++i)
    block->addArgument(b.getF32Type(), loc);
  for (Attribute param : monoid.getParams())
    block->addArgument(cast<TypeAttr>(param).getValue(), loc);
  YieldOp::create(b, loc,
                  ValueRange(block->getArguments()).take_front(numStats));
  SmallVector<Attribute> names;
  for (unsigned i = 0; i < numStats; ++i)
    names.push_back(b.getStringAttr("c" + std::to_string(i)));
  made.setOutputsAttr(b.getArrayAttr(names));
  made.setComponentsAttr(
      b.getArrayAttr(ComponentAttr::get(b.getContext(), Component::unit)));
  made.setPrivate();
  symbols.insert(made, std::next(monoid->getIterator()));
  return made;
}

/// Plain sums of the components, each of its own weight; `countsSeen`: and of
/// the keys that are seen.
MonoidOp RungRewriter::makeSums(bool countsSeen) {
  std::string components, arguments, names, types;
  auto addTo = [](std::string &list, const std::string &item) {
    list += (list.empty() ? "" : ", ") + item;
  };
  for (size_t i = 0; i < terms.size() + countsSeen; ++i)
    addTo(arguments, "%w" + std::to_string(i) + ": f32");
  for (unsigned i = 0; i < monoid.getNumComponents(); ++i) {
    addTo(components, stringifyComponent(monoid.getComponent(i)).str());
    addTo(names, "%w" + std::to_string(termOf[i]));
    addTo(types, "f32");
  }
  if (countsSeen) {
    addTo(components, "unit");
    addTo(names, "%w" + std::to_string(terms.size()));
    addTo(types, "f32");
  }
  return insertMonoid("attn.monoid private @" + monoid.getSymName().str() +
                          "_sums cocycle stats() components(" + components +
                          ") { identity { attn.yield } combine { attn.yield } "
                          "lift { ^bb0(" +
                          arguments + "): attn.yield " + names + " : " + types +
                          " } }",
                      monoid, symbols);
}

SmallVector<Value> RungRewriter::pointOf(ValueRange statistics, ValueRange row,
                                         ValueRange params) {
  if (!statistics.empty())
    return llvm::map_to_vector(
        statistics, [&](Value tensor) { return element(tensor, row); });
  SmallVector<Value> arguments(monoid.getNumScores(), f32(0.0f));
  llvm::append_range(arguments, params);
  return llvm::to_vector(ArrayRef(inlineRegion(b, monoid.getLift(), arguments))
                             .take_front(monoid.getNumStats()));
}

void RungRewriter::buildWeights(Region &region, Point point,
                                ValueRange captures, unsigned numStatistics) {
  unsigned numDots = op.getQueries().size(), numStats = monoid.getNumStats();
  SmallVector<Type> dots(numDots, b.getF32Type());
  OpBuilder::InsertionGuard guard(b);
  Block *block = openRegion(region, dots, 4, captures);
  ValueRange arguments = block->getArguments();
  size_t numOwn = op.getCaptures().size();
  ValueRange params =
      arguments.drop_front(numDots + 4 + numOwn).drop_back(numStatistics);
  SmallVector<Value> scores = scoresOf(block, numOwn);
  SmallVector<Value> inputs(scores);
  llvm::append_range(inputs, params);
  RegionCloner lift(b);
  lift.map(monoid.getLift().getArguments(), inputs);
  SmallVector<Value> stats;
  for (Value stat : getYielded(monoid.getLift()).take_front(numStats))
    stats.push_back(lift.get(stat));
  SmallVector<Value> weights, factors;
  for (Term term : terms)
    weights.push_back(lift.get(term.weight));
  Value weightless;
  if (numStats) {
    SmallVector<Value> fromTo(stats),
        to = pointOf(arguments.take_back(numStatistics),
                     arguments.slice(numDots, 3), params);
    llvm::append_range(fromTo, to);
    llvm::append_range(fromTo, params);
    factors = inlineRegion(b, monoid.getRescale(), fromTo);
    weightless = all(stats, arith::CmpFPredicate::OEQ, identity(params));
    SmallVector<Value> components;
    if (monoid.hasShift())
      for (Value weight : getYielded(monoid.getLift()).drop_front(numStats))
        components.push_back(lift.get(weight));
    inlineShift(b, monoid, stats, to, params, components);
    for (auto [weight, term] : llvm::zip_equal(weights, terms))
      if (term.shifted)
        weight = components[*term.shifted];
  }
  if (point == Point::zero && numStats) {
    // A row that f32 has no room for is NaN, and not a wrong number.
    SmallVector<Value> least(factors.size(), f32(smallestFactor));
    Value seen = select(all(factors, arith::CmpFPredicate::OGE, least),
                        f32(1.0f), f32(unseen));
    for (Value &factor : factors)
      factor =
          select(compare(arith::CmpFPredicate::OGT, factor, f32(largestFactor)),
                 f32(std::numeric_limits<float>::quiet_NaN()), factor);
    weights.push_back(seen);
  }
  for (auto [i, weight] : llvm::enumerate(weights)) {
    if (numStats && i < terms.size()) {
      Value factor = factors[terms[i].factor];
      // A shift may overflow where the factor is 0.
      Value dropped;
      if (terms[i].shifted)
        dropped = compare(arith::CmpFPredicate::OEQ, factor, f32(0.0f));
      weight = matchPattern(weight, m_OneFloat())
                   ? factor
                   : arith::MulFOp::create(b, loc, weight, factor).getResult();
      if (dropped)
        weight = select(dropped, f32(0.0f), weight);
    }
    if (weightless)
      weight = select(weightless, f32(0.0f), weight);
  }
  // A score of -inf is dead, whatever lift makes of it.
  std::shared_ptr<const ::attn::LawReport> laws = ::attn::checkLaws(monoid);
  if (!laws || !laws->deadIsNatural) {
    Value none = f32(-std::numeric_limits<float>::infinity());
    SmallVector<Value> nones(scores.size(), none);
    Value dead = all(scores, arith::CmpFPredicate::OEQ, nones);
    for (Value &weight : weights)
      weight = select(dead, none, weight);
  }
  YieldOp::create(b, loc, weights);
}

void RungRewriter::buildInit(Region &region, Point point, ValueRange captures,
                             unsigned numStatistics) {
  if (op.getInit().empty())
    return;
  OpBuilder::InsertionGuard guard(b);
  Block *block = openRegion(region, {}, 3, captures);
  ValueRange arguments = block->getArguments();
  size_t numOwn = op.getCaptures().size();
  ValueRange params = arguments.drop_front(3 + numOwn).drop_back(numStatistics);
  SmallVector<Value> state =
      inlineRegion(b, op.getInit(), arguments.take_front(3 + numOwn));
  unsigned numStats = monoid.getNumStats();
  SmallVector<Value> sums(ArrayRef(state).drop_front(numStats));
  if (numStats) {
    SmallVector<Value> from(ArrayRef(state).take_front(numStats)), inputs(from),
        to = pointOf(arguments.take_back(numStatistics),
                     arguments.take_front(3), params);
    llvm::append_range(inputs, to);
    llvm::append_range(inputs, params);
    SmallVector<Value> factors = inlineRegion(b, monoid.getRescale(), inputs);
    inlineShift(b, monoid, from, to, params, sums);
    Value none = all(from, arith::CmpFPredicate::OEQ, identity(params));
    SmallVector<Value> least(factors.size(), f32(smallestFactor));
    Value seen = select(all(factors, arith::CmpFPredicate::OGE, least),
                        f32(1.0f), f32(unseen));
    for (auto [i, sum] : llvm::enumerate(sums)) {
      Value factor = factors[monoid.hasFactors() ? i : 0];
      if (point == Point::zero)
        factor = select(
            compare(arith::CmpFPredicate::OGT, factor, f32(largestFactor)),
            f32(std::numeric_limits<float>::quiet_NaN()), factor);
      sum = select(none, f32(0.0f), arith::MulFOp::create(b, loc, sum, factor));
    }
    if (point == Point::zero)
      sums.push_back(select(none, f32(0.0f), seen));
  }
  YieldOp::create(b, loc, sums);
}

void RungRewriter::buildFinalize(Region &region, Point point,
                                 ValueRange captures, unsigned numStatistics) {
  bool countsSeen = point == Point::zero && monoid.getNumStats();
  unsigned numComponents = monoid.getNumComponents();
  SmallVector<Type> sums(numComponents + countsSeen, b.getF32Type());
  OpBuilder::InsertionGuard guard(b);
  Block *block = openRegion(region, sums, 3, captures);
  ValueRange arguments = block->getArguments();
  ValueRange row = arguments.slice(sums.size(), 3);
  ValueRange own = arguments.slice(sums.size() + 3, op.getCaptures().size());
  ValueRange params = arguments.drop_front(sums.size() + 3 + own.size())
                          .drop_back(numStatistics);
  SmallVector<Value> inputs;
  Value far;
  if (monoid.getNumStats())
    inputs = pointOf(arguments.take_back(numStatistics), row, params);
  if (countsSeen) {
    Value seen = arguments[numComponents];
    Value none = compare(arith::CmpFPredicate::OEQ, seen, f32(0.0f));
    for (auto [stat, start] : llvm::zip(inputs, identity(params)))
      stat = select(none, start, stat);
    far = both(compare(arith::CmpFPredicate::OGT, seen, f32(0.0f)),
               compare(arith::CmpFPredicate::OLT, seen, f32(0.5f)));
  }
  llvm::append_range(inputs, arguments.take_front(numComponents));
  bool isOwn = !op.getFinalize().empty();
  if (isOwn) {
    llvm::append_range(inputs, row);
    llvm::append_range(inputs, own);
  } else {
    llvm::append_range(inputs, params);
  }
  SmallVector<Value> outputs =
      inlineRegion(b, isOwn ? op.getFinalize() : monoid.getFinalize(), inputs);
  outputs.truncate(op.getNumResults());
  if (far)
    for (Value &output : outputs)
      output =
          select(far, f32(std::numeric_limits<float>::quiet_NaN()), output);
  YieldOp::create(b, loc, outputs);
}

//===----------------------------------------------------------------------===//
// Rungs
//===----------------------------------------------------------------------===//

/// The scores go to memory; the operation reads them there.
void RungRewriter::keepScores() {
  auto query = cast<RankedTensorType>(op.getQueries().front().getType());
  auto key = cast<RankedTensorType>(op.getKeys().front().getType());
  auto type = RankedTensorType::get({query.getDimSize(0), query.getDimSize(1),
                                     query.getDimSize(2), key.getDimSize(2)},
                                    b.getF32Type());
  SmallVector<Type> types(monoid.getNumScores(), type);
  auto scores = ScoresOp::create(
      b, loc, types, op.getMonoidAttr(), op.getParams(), op.getQueries(),
      op.getKeys(), ValueRange(), op.getCaptures(), ValueRange(), ValueRange(),
      Value(), Value(), SourceAttr(), SourceAttr(), op.getSideAttr(),
      ScheduleAttr(), op.getPrecisionAttr(), op.getBatchInvariantAttr(),
      RotaryAttr());
  markDone(scores);
  scores.getScore().takeBody(op.getScore());
  copyRegion(op.getMask(), scores.getMask(), op.getCaptures());
  unsigned numOwn = op.getCaptures().size();
  op.getCapturesMutable().append(scores.getResults());
  for (Region *region :
       {&op.getMask(), &op.getFactor(), &op.getInit(), &op.getFinalize()})
    if (!region->empty())
      region->addArguments(types, SmallVector<Location>(types.size(), loc));
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Type> dots(op.getQueries().size(), b.getF32Type());
  Block *block = openRegion(op.getScore(), dots, 4, op.getCaptures());
  ValueRange arguments = block->getArguments();
  SmallVector<Value> read;
  for (Value tensor : arguments.drop_front(dots.size() + 4 + numOwn))
    read.push_back(element(tensor, arguments.slice(dots.size(), 4)));
  YieldOp::create(b, loc, read);
}

/// A traversal for the statistics of each row.
SmallVector<Value> RungRewriter::findStatistics() {
  auto rows = cast<RankedTensorType>(op.getQueries().front().getType());
  SmallVector<Type> types(
      monoid.getNumStats(),
      RankedTensorType::get(rows.getShape().drop_back(), b.getF32Type()));
  MonoidOp statistics = makeStatistics();
  auto first = AggregateOp::create(
      b, loc, types, FlatSymbolRefAttr::get(statistics.getSymNameAttr()),
      op.getParams(), op.getQueries(), op.getKeys(), ValueRange(),
      op.getCaptures(), op.getQueryIndex(), op.getKeyIndex(), op.getRowBase(),
      op.getKeyBase(), op.getQueryFormAttr(), op.getKeyFormAttr(),
      op.getSideAttr(), ScheduleAttr(), op.getPrecisionAttr(),
      op.getBatchInvariantAttr(), RotaryAttr());
  markDone(first);
  copyRegion(op.getScore(), first.getScore(), op.getCaptures());
  copyRegion(op.getMask(), first.getMask(), op.getCaptures());
  if (!op.getInit().empty()) {
    copyRegion(op.getInit(), first.getInit(), op.getCaptures());
    Operation *yield = first.getInit().front().getTerminator();
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(yield);
    SmallVector<Value> state(
        getYielded(first.getInit()).take_front(monoid.getNumStats()));
    state.push_back(f32(0.0f));
    YieldOp::create(b, loc, state);
    yield->erase();
  }
  return llvm::to_vector(ValueRange(first.getResults()));
}

/// A traversal for the sums, by weights from `point`.
void RungRewriter::sumFrom(Point point) {
  findTerms();
  SmallVector<Value> statistics;
  if (point == Point::row && monoid.getNumStats())
    statistics = findStatistics();
  SmallVector<Value> captures(op.getCaptures());
  llvm::append_range(captures, op.getParams());
  llvm::append_range(captures, statistics);
  MonoidOp sums = makeSums(point == Point::zero && monoid.getNumStats());
  auto second = AggregateOp::create(
      b, loc, op.getResultTypes(),
      FlatSymbolRefAttr::get(sums.getSymNameAttr()), ValueRange(),
      op.getQueries(), op.getKeys(), op.getValues(), captures,
      op.getQueryIndex(), op.getKeyIndex(), op.getRowBase(), op.getKeyBase(),
      op.getQueryFormAttr(), op.getKeyFormAttr(), op.getSideAttr(),
      ScheduleAttr(), op.getPrecisionAttr(), op.getBatchInvariantAttr(),
      RotaryAttr());
  markDone(second);
  copyRegion(op.getMask(), second.getMask(), captures);
  copyRegion(op.getFactor(), second.getFactor(), captures);
  buildWeights(second.getScore(), point, captures, statistics.size());
  buildInit(second.getInit(), point, captures, statistics.size());
  buildFinalize(second.getFinalize(), point, captures, statistics.size());
  op.replaceAllUsesWith(second.getResults());
  op.erase();
}

/// The states of tiles of keys go to memory.
void RungRewriter::cutTiles() {
  int64_t keys = keysOfFirst(op, target);
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, loc, value);
  };
  Value all = tensor::DimOp::create(b, loc, op.getKeys().front(), 2);
  Value parts = arith::CeilDivUIOp::create(b, loc, all, index(keys));
  parts = arith::MaxUIOp::create(b, loc, parts, index(1));
  Attribute attribute = op->getAttr(getRungAttrName());
  PartialOp partial =
      splitKeys(op, monoid, /*splits=*/0, parts, b.getI64IntegerAttr(keys));
  partial->setAttr(getRungAttrName(), attribute);
}

LogicalResult RungRewriter::run() {
  if (failed(check()))
    return failure();
  bool hasStats = monoid.getNumStats() > 0;
  switch (rung) {
  case Rung::naive:
  case Rung::safe:
  case Rung::lazy:
    if (!hasStats && rung != Rung::naive) {
      markDone(op);
      return success();
    }
    // Weights do not show which scores are -inf; the mask may.
    if (killsByScore(op))
      moveDeadScoresToMask(op);
    if (rung == Rung::naive)
      keepScores();
    sumFrom(rung == Rung::lazy ? Point::zero : Point::row);
    return success();
  case Rung::fa1:
    cutTiles();
    return success();
  case Rung::online:
  case Rung::fa2:
  case Rung::fa3:
  case Rung::split:
    return success();
  }
  llvm_unreachable("unknown rung");
}
