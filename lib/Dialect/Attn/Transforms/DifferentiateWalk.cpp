//===- DifferentiateWalk.cpp - Gradients where the order of keys matters --===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of a suffix monoid the weight of key j is W_j = w_j g(C_j), where C_j is the
// sum of the statistics of the keys beyond j, the later ones. Let D_j be W_j
// times its cotangent. Since g(a + b) = g(a) g(b), the logarithm of g is
// linear, with the slope g'(0): so what the statistic c_j of a key has is
//
//   dc_j = g'(0) R_j + (the cotangent of the row's own statistic)
//
// with R_j the sum of D over the keys whose weights have c_j in their gates,
// the earlier ones. C_j and R_j are sums over the keys on either side of j. In
// a block of keys they are reductions in a plain sum, whose values are the rows
// of a triangle of ones; beyond the block they are what the caller carries from
// block to block. With them a pair is differentiated as in any sum, so that
//
//   f_states     gives both sums of a block, for pairs and over all of it
//   f_backward   gives what the block adds to gradients
//
// A prefix monoid has the earlier keys beyond j, and is the same otherwise: the
// caller's triangles and its way through the blocks say which it is.
//
//===----------------------------------------------------------------------===//

#include "Adjoints.h"
#include "Differentiator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;

LogicalResult Differentiator::checkWalk() {
  SmallVector<Value> combined = getYielded(monoid.getCombine());
  for (unsigned i = 0; i < numStats(); ++i) {
    auto sum = combined[i].getDefiningOp<arith::AddFOp>();
    auto isOf = [&](Value a, Value b) {
      return a == Value(monoid.getCombine().getArgument(i)) &&
             b == Value(monoid.getCombine().getArgument(numStats() + i));
    };
    if (!sum ||
        !(isOf(sum.getLhs(), sum.getRhs()) || isOf(sum.getRhs(), sum.getLhs())))
      return op.emitOpError("expected statistics that are added up, to "
                            "differentiate @")
             << monoid.getSymName() << ", which is "
             << stringifyMonoidKind(monoid.getKind()) << ", but got another "
             << "combine; take the logarithm of a factor for the statistic";
  }
  if (op.getQuerySource().is(SourceKind::varlen) ||
      op.getKeySource().is(SourceKind::varlen))
    return op.emitOpError("expected sequences that are not packed, to "
                          "differentiate @")
           << monoid.getSymName() << ", which is "
           << stringifyMonoidKind(monoid.getKind())
           << "; pad them, with their lengths";
  if (!op.getInit().empty())
    return op.emitOpError("expected no init, to differentiate @")
           << monoid.getSymName() << ", which is "
           << stringifyMonoidKind(monoid.getKind());
  ValueRange params = monoid.getGate().getArguments().drop_front(numStats());
  for (auto [param, operand] : llvm::zip_equal(params, op.getParams())) {
    auto argument = dyn_cast<BlockArgument>(operand);
    bool isWanted =
        argument &&
        (inputs.empty() || llvm::is_contained(inputs, argument.getArgNumber()));
    if (isWanted && !param.use_empty())
      return op.emitOpError("expected a gate without parameters that are "
                            "differentiated, but got argument ")
             << argument.getArgNumber() << "; leave it out of 'inputs'";
  }
  return success();
}

RankedTensorType Differentiator::blockType(RankedTensorType type) {
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = pairKeys;
  return RankedTensorType::get(shape, b.getF32Type());
}

//===----------------------------------------------------------------------===//
// What a walk brings
//===----------------------------------------------------------------------===//

void Differentiator::addWalkArguments(bool isStates, AddArgument addArgument) {
  auto keys = cast<RankedTensorType>(op.getKeys().front().getType());
  auto queries = cast<RankedTensorType>(op.getQueries().front().getType());
  walk = {};
  walk.stats.resize(numStats());
  walk.beyond.resize(numStats());
  bool isSuffix = monoid.getKind() == MonoidKind::suffix;
  StringRef beyond = isSuffix ? "later" : "earlier";
  for (auto [i, stat] : llvm::enumerate(walk.stats))
    addArgument(rowType(), beyond + Twine(i), stat);
  if (isStates) {
    addArgument(blockType(keys), "is_later",
                isSuffix ? walk.isBeyond : walk.isOpposite);
    addArgument(blockType(keys), "is_earlier",
                isSuffix ? walk.isOpposite : walk.isBeyond);
    return;
  }
  for (auto [i, sum] : llvm::enumerate(walk.beyond))
    addArgument(blockType(queries), beyond + "_in_block" + Twine(i), sum);
  addArgument(rowType(), "rest", walk.rest);
  addArgument(blockType(queries), "rest_in_block", walk.opposite);
}

void Differentiator::captureWalk(bool wantsScores) {
  for (Value value : llvm::concat<Value>(walk.stats, walk.beyond))
    capture(value);
  if (!wantsScores)
    return;
  capture(walk.rest);
  capture(walk.opposite);
  for (Value end : rows.ends)
    capture(end);
}

Value Differentiator::ofPair(Value tensor, ValueRange position, Value key) {
  SmallVector<Value> indices;
  for (Value at : {position[0], position[1], position[2], key})
    indices.push_back(arith::IndexCastOp::create(b, loc, b.getIndexType(), at));
  return tensor::ExtractOp::create(b, loc, in(tensor), indices);
}

//===----------------------------------------------------------------------===//
// Pairs
//===----------------------------------------------------------------------===//

void Differentiator::scaleByGates(Adjoints &adjoints, ValueRange position,
                                  Value key, MutableArrayRef<Value> weights) {
  SmallVector<Value> sums;
  for (auto [stat, within] : llvm::zip_equal(walk.stats, walk.beyond))
    sums.push_back(arith::AddFOp::create(b, loc, ofRow(stat, position),
                                         ofPair(within, position, key)));
  llvm::append_range(sums, paramsOf());
  Value gate = inlineRegion(b, monoid.getGate(), sums).front();
  for (Value &weight : weights)
    weight = adjoints.multiply(gate, weight);
}

LogicalResult Differentiator::addStatCotangents(Adjoints &adjoints,
                                                ValueRange position, Value key,
                                                ValueRange stats) {
  // The slopes of the gate at 0.
  Adjoints slopes(b, loc);
  SmallVector<Value> zeros;
  for (unsigned i = 0; i < numStats(); ++i)
    slopes.addRoot(zeros.emplace_back(slopes.zero()));
  SmallVector<Value> arguments(zeros);
  llvm::append_range(arguments, paramsOf());
  Value gate = inlineRegion(b, monoid.getGate(), arguments).front();
  slopes.follow();
  slopes.add(gate, slopes.constant(1));
  if (failed(slopes.sweep()))
    return failure();
  Value rest = arith::AddFOp::create(b, loc, ofRow(walk.rest, position),
                                     ofPair(walk.opposite, position, key));
  for (auto [i, stat] : llvm::enumerate(stats)) {
    if (Value slope = slopes.get(zeros[i]))
      adjoints.add(stat, adjoints.multiply(rest, slope));
    if (rows.ends[i])
      adjoints.add(stat, ofRow(rows.ends[i], position));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// @f_states
//===----------------------------------------------------------------------===//

/// The sums of statistics: for each of them one for pairs, then one of the
/// block.
void Differentiator::sumStats() {
  SmallVector<Value> left, right;
  capturePairs(Side::keys, /*wantsScores=*/false, left, right);
  auto queries = cast<RankedTensorType>(op.getQueries().front().getType());
  SmallVector<Component> components(numStats(), Component::value);
  components.append(numStats(), Component::unit);
  SmallVector<Type> types(numStats(), blockType(queries));
  types.append(numStats(), rowType());
  SmallVector<std::string> names;
  for (StringRef name : {"beyond", "sum"})
    for (unsigned i = 0; i < numStats(); ++i)
      names.push_back((name + Twine(i)).str());
  auto reduction =
      makeReduction(makeSum("_stats", components, names), Side::keys, types,
                    left, right, SmallVector<Value>(numStats(), walk.isBeyond));
  reduction.setPrecision(ProductPrecision::ieee);
  buildMask(Side::keys, reduction.getMask());
  SmallVector<Type> taken(left.size(), b.getF32Type());
  taken.append(4, b.getI32Type());
  Block *block = openRegion(reduction.getScore(), taken);
  SmallVector<Value> arguments(block->getArguments().take_front(left.size()));
  llvm::append_range(
      arguments,
      positionsOf(Side::keys, block->getArguments().slice(left.size(), 4)));
  llvm::append_range(arguments, inCaptures());
  auto number = [&](float value) -> Value {
    return arith::ConstantFloatOp::create(b, loc, b.getF32Type(),
                                          APFloat(value));
  };
  SmallVector<Value> lifted = inlineRegion(b, work.getScore(), arguments);
  Value live = isLive(lifted), zero = number(0);
  llvm::append_range(lifted, paramsOf());
  // Products with zeros take finite numbers; a gate of 2^100 is 0 or infinite.
  SmallVector<Value> stats;
  for (Value stat : ArrayRef(inlineRegion(b, monoid.getLift(), lifted))
                        .take_front(numStats())) {
    stat = arith::MaximumFOp::create(b, loc, stat, number(-0x1p100f));
    stat = arith::MinimumFOp::create(b, loc, stat, number(0x1p100f));
    stats.push_back(arith::SelectOp::create(b, loc, live, stat, zero));
  }
  stats.append(stats.begin(), stats.begin() + numStats());
  YieldOp::create(b, loc, stats);
  walk.beyond.assign(reduction.getResults().begin(),
                     reduction.getResults().begin() + numStats());
  b.setInsertionPointToEnd(&target.getBody().front());
}

/// Those of weights times their cotangents.
LogicalResult Differentiator::sumRests() {
  SmallVector<Value> left, right;
  capturePairs(Side::keys, /*wantsScores=*/true, left, right);
  auto queries = cast<RankedTensorType>(op.getQueries().front().getType());
  auto reduction =
      makeReduction(makeSum("_rests", {Component::value, Component::unit},
                            {"opposite", "rest"}),
                    Side::keys, {blockType(queries), rowType()}, left, right,
                    walk.isOpposite);
  reduction.setPrecision(ProductPrecision::ieee);
  buildMask(Side::keys, reduction.getMask());
  SmallVector<Type> taken(left.size(), b.getF32Type());
  taken.append(4, b.getI32Type());
  Block *block = openRegion(reduction.getScore(), taken);
  Pairs pairs;
  pairs.wantsTotal = true;
  if (failed(buildPair(Side::keys, block, /*wantsScores=*/true, pairs)))
    return failure();
  Value zero =
      arith::ConstantFloatOp::create(b, loc, b.getF32Type(), APFloat(0.0f));
  Value total = pairs.total ? pairs.total : zero;
  total = arith::SelectOp::create(b, loc, pairs.isLive, total, zero);
  YieldOp::create(b, loc, ValueRange{total, total});
  walk.opposite = reduction.getResult(0);
  walk.rest = reduction.getResult(1);
  b.setInsertionPointToEnd(&target.getBody().front());
  return success();
}

LogicalResult Differentiator::buildStates() {
  startBackward("_states");
  if (failed(buildRows()))
    return failure();
  sumStats();
  auto reduction = walk.beyond.front().getDefiningOp<AggregateOp>();
  if (failed(sumRests()))
    return failure();
  SmallVector<Value> values(reduction.getResults());
  values.push_back(walk.opposite);
  values.push_back(walk.rest);
  func::ReturnOp::create(b, loc, values);
  target.setType(b.getFunctionType(target.getBody().front().getArgumentTypes(),
                                   TypeRange(ValueRange(values))));
  return success();
}
