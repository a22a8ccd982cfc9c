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
#include "GradientContext.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;

LogicalResult mlir::attn::checkWalk(GradientContext &ctx) {
  SmallVector<Value> combined = getYielded(ctx.monoid.getCombine());
  for (unsigned i = 0; i < ctx.numStats(); ++i) {
    auto sum = combined[i].getDefiningOp<arith::AddFOp>();
    auto isOf = [&](Value a, Value b) {
      return a == Value(ctx.monoid.getCombine().getArgument(i)) &&
             b ==
                 Value(ctx.monoid.getCombine().getArgument(ctx.numStats() + i));
    };
    if (!sum ||
        !(isOf(sum.getLhs(), sum.getRhs()) || isOf(sum.getRhs(), sum.getLhs())))
      return ctx.op.emitOpError("expected statistics that are added up, to "
                                "differentiate @")
             << ctx.monoid.getSymName() << ", which is "
             << stringifyMonoidKind(ctx.monoid.getKind())
             << ", but got another "
             << "combine; take the logarithm of a factor for the statistic";
  }
  if (ctx.op.getQuerySource().is(SourceKind::varlen) ||
      ctx.op.getKeySource().is(SourceKind::varlen))
    return ctx.op.emitOpError("expected sequences that are not packed, to "
                              "differentiate @")
           << ctx.monoid.getSymName() << ", which is "
           << stringifyMonoidKind(ctx.monoid.getKind())
           << "; pad them, with their lengths";
  if (!ctx.op.getInit().empty())
    return ctx.op.emitOpError("expected no init, to differentiate @")
           << ctx.monoid.getSymName() << ", which is "
           << stringifyMonoidKind(ctx.monoid.getKind());
  ValueRange params =
      ctx.monoid.getGate().getArguments().drop_front(ctx.numStats());
  for (auto [param, operand] : llvm::zip_equal(params, ctx.op.getParams())) {
    auto argument = dyn_cast<BlockArgument>(operand);
    bool isWanted =
        argument && (ctx.inputs.empty() ||
                     llvm::is_contained(ctx.inputs, argument.getArgNumber()));
    if (isWanted && !param.use_empty())
      return ctx.op.emitOpError("expected a gate without parameters that are "
                                "differentiated, but got argument ")
             << argument.getArgNumber() << "; leave it out of 'inputs'";
  }
  return success();
}

RankedTensorType mlir::attn::blockType(GradientContext &ctx,
                                       RankedTensorType type) {
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = pairKeys;
  return RankedTensorType::get(shape, ctx.b.getF32Type());
}

//===----------------------------------------------------------------------===//
// What a walk brings
//===----------------------------------------------------------------------===//

void mlir::attn::addWalkArguments(GradientContext &ctx, bool isStates,
                                  AddArgument addArgument) {
  auto keys = cast<RankedTensorType>(ctx.op.getKeys().front().getType());
  auto queries = cast<RankedTensorType>(ctx.op.getQueries().front().getType());
  ctx.walk = {};
  ctx.walk.stats.resize(ctx.numStats());
  ctx.walk.beyond.resize(ctx.numStats());
  bool isSuffix = ctx.monoid.getKind() == MonoidKind::suffix;
  StringRef beyond = isSuffix ? "later" : "earlier";
  for (auto [i, stat] : llvm::enumerate(ctx.walk.stats))
    addArgument(rowType(ctx), beyond + Twine(i), stat);
  if (isStates) {
    addArgument(blockType(ctx, keys), "is_later",
                isSuffix ? ctx.walk.isBeyond : ctx.walk.isOpposite);
    addArgument(blockType(ctx, keys), "is_earlier",
                isSuffix ? ctx.walk.isOpposite : ctx.walk.isBeyond);
    return;
  }
  for (auto [i, sum] : llvm::enumerate(ctx.walk.beyond))
    addArgument(blockType(ctx, queries), beyond + "_in_block" + Twine(i), sum);
  addArgument(rowType(ctx), "rest", ctx.walk.rest);
  addArgument(blockType(ctx, queries), "rest_in_block", ctx.walk.opposite);
}

void mlir::attn::captureWalk(GradientContext &ctx, bool wantsScores) {
  for (Value value : llvm::concat<Value>(ctx.walk.stats, ctx.walk.beyond))
    ctx.capture(value);
  if (!wantsScores)
    return;
  ctx.capture(ctx.walk.rest);
  ctx.capture(ctx.walk.opposite);
  for (Value end : ctx.rows.ends)
    ctx.capture(end);
}

Value mlir::attn::ofPair(GradientContext &ctx, Value tensor,
                         ValueRange position, Value key) {
  SmallVector<Value> indices;
  for (Value at : {position[0], position[1], position[2], key})
    indices.push_back(
        arith::IndexCastOp::create(ctx.b, ctx.loc, ctx.b.getIndexType(), at));
  return tensor::ExtractOp::create(ctx.b, ctx.loc, ctx.in(tensor), indices);
}

//===----------------------------------------------------------------------===//
// Pairs
//===----------------------------------------------------------------------===//

void mlir::attn::scaleByGates(GradientContext &ctx, Adjoints &adjoints,
                              ValueRange position, Value key,
                              MutableArrayRef<Value> weights) {
  SmallVector<Value> sums;
  for (auto [stat, within] : llvm::zip_equal(ctx.walk.stats, ctx.walk.beyond))
    sums.push_back(arith::AddFOp::create(ctx.b, ctx.loc,
                                         ofRow(ctx, stat, position),
                                         ofPair(ctx, within, position, key)));
  llvm::append_range(sums, paramsOf(ctx));
  Value gate = inlineRegion(ctx.b, ctx.monoid.getGate(), sums).front();
  for (Value &weight : weights)
    weight = adjoints.multiply(gate, weight);
}

LogicalResult mlir::attn::addStatCotangents(GradientContext &ctx,
                                            Adjoints &adjoints,
                                            ValueRange position, Value key,
                                            ValueRange stats) {
  // The slopes of the gate at 0.
  Adjoints slopes(ctx.b, ctx.loc);
  SmallVector<Value> zeros;
  for (unsigned i = 0; i < ctx.numStats(); ++i)
    slopes.addRoot(zeros.emplace_back(slopes.zero()));
  SmallVector<Value> arguments(zeros);
  llvm::append_range(arguments, paramsOf(ctx));
  Value gate = inlineRegion(ctx.b, ctx.monoid.getGate(), arguments).front();
  slopes.follow();
  slopes.add(gate, slopes.constant(1));
  if (failed(slopes.sweep()))
    return failure();
  Value rest =
      arith::AddFOp::create(ctx.b, ctx.loc, ofRow(ctx, ctx.walk.rest, position),
                            ofPair(ctx, ctx.walk.opposite, position, key));
  for (auto [i, stat] : llvm::enumerate(stats)) {
    if (Value slope = slopes.get(zeros[i]))
      adjoints.add(stat, adjoints.multiply(rest, slope));
    if (ctx.rows.ends[i])
      adjoints.add(stat, ofRow(ctx, ctx.rows.ends[i], position));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// @f_states
//===----------------------------------------------------------------------===//

/// The sums of statistics: for each of them one for pairs, then one of the
/// block.
static void sumStats(GradientContext &ctx) {
  SmallVector<Value> left, right;
  capturePairs(ctx, Side::keys, /*wantsScores=*/false, left, right);
  auto queries = cast<RankedTensorType>(ctx.op.getQueries().front().getType());
  SmallVector<Component> components(ctx.numStats(), Component::value);
  components.append(ctx.numStats(), Component::unit);
  SmallVector<Type> types(ctx.numStats(), blockType(ctx, queries));
  types.append(ctx.numStats(), rowType(ctx));
  SmallVector<std::string> names;
  for (StringRef name : {"beyond", "sum"})
    for (unsigned i = 0; i < ctx.numStats(); ++i)
      names.push_back((name + Twine(i)).str());
  auto reduction = makeReduction(
      ctx, makeSum(ctx, "_stats", components, names), Side::keys, types, left,
      right, SmallVector<Value>(ctx.numStats(), ctx.walk.isBeyond));
  reduction.setPrecision(ProductPrecision::ieee);
  buildMask(ctx, Side::keys, reduction.getMask());
  SmallVector<Type> taken(left.size(), ctx.b.getF32Type());
  taken.append(4, ctx.b.getI32Type());
  Block *block = openRegion(ctx, reduction.getScore(), taken);
  SmallVector<Value> arguments(block->getArguments().take_front(left.size()));
  llvm::append_range(arguments,
                     positionsOf(ctx, Side::keys,
                                 block->getArguments().slice(left.size(), 4)));
  llvm::append_range(arguments, inCaptures(ctx));
  auto number = [&](float value) -> Value {
    return arith::ConstantFloatOp::create(ctx.b, ctx.loc, ctx.b.getF32Type(),
                                          APFloat(value));
  };
  SmallVector<Value> lifted =
      inlineRegion(ctx.b, ctx.work.getScore(), arguments);
  Value live = isLive(ctx, lifted), zero = number(0);
  llvm::append_range(lifted, paramsOf(ctx));
  // Products with zeros take finite numbers; a gate of 2^100 is 0 or infinite.
  SmallVector<Value> stats;
  for (Value stat : ArrayRef(inlineRegion(ctx.b, ctx.monoid.getLift(), lifted))
                        .take_front(ctx.numStats())) {
    stat = arith::MaximumFOp::create(ctx.b, ctx.loc, stat, number(-0x1p100f));
    stat = arith::MinimumFOp::create(ctx.b, ctx.loc, stat, number(0x1p100f));
    stats.push_back(arith::SelectOp::create(ctx.b, ctx.loc, live, stat, zero));
  }
  stats.append(stats.begin(), stats.begin() + ctx.numStats());
  YieldOp::create(ctx.b, ctx.loc, stats);
  ctx.walk.beyond.assign(reduction.getResults().begin(),
                         reduction.getResults().begin() + ctx.numStats());
  ctx.b.setInsertionPointToEnd(&ctx.target.getBody().front());
}

/// Those of weights times their cotangents.
static LogicalResult sumRests(GradientContext &ctx) {
  SmallVector<Value> left, right;
  capturePairs(ctx, Side::keys, /*wantsScores=*/true, left, right);
  auto queries = cast<RankedTensorType>(ctx.op.getQueries().front().getType());
  auto reduction =
      makeReduction(ctx,
                    makeSum(ctx, "_rests", {Component::value, Component::unit},
                            {"opposite", "rest"}),
                    Side::keys, {blockType(ctx, queries), rowType(ctx)}, left,
                    right, ctx.walk.isOpposite);
  reduction.setPrecision(ProductPrecision::ieee);
  buildMask(ctx, Side::keys, reduction.getMask());
  SmallVector<Type> taken(left.size(), ctx.b.getF32Type());
  taken.append(4, ctx.b.getI32Type());
  Block *block = openRegion(ctx, reduction.getScore(), taken);
  PairValues pairs;
  pairs.wantsTotal = true;
  if (failed(buildPair(ctx, Side::keys, block, /*wantsScores=*/true, pairs)))
    return failure();
  Value zero = arith::ConstantFloatOp::create(
      ctx.b, ctx.loc, ctx.b.getF32Type(), APFloat(0.0f));
  Value total = pairs.total ? pairs.total : zero;
  total = arith::SelectOp::create(ctx.b, ctx.loc, pairs.isLive, total, zero);
  YieldOp::create(ctx.b, ctx.loc, ValueRange{total, total});
  ctx.walk.opposite = reduction.getResult(0);
  ctx.walk.rest = reduction.getResult(1);
  ctx.b.setInsertionPointToEnd(&ctx.target.getBody().front());
  return success();
}

LogicalResult mlir::attn::buildStates(GradientContext &ctx) {
  startBackward(ctx, "_states");
  if (failed(buildRows(ctx)))
    return failure();
  sumStats(ctx);
  auto reduction = ctx.walk.beyond.front().getDefiningOp<AggregateOp>();
  if (failed(sumRests(ctx)))
    return failure();
  SmallVector<Value> values(reduction.getResults());
  values.push_back(ctx.walk.opposite);
  values.push_back(ctx.walk.rest);
  func::ReturnOp::create(ctx.b, ctx.loc, values);
  ctx.target.setType(
      ctx.b.getFunctionType(ctx.target.getBody().front().getArgumentTypes(),
                            TypeRange(ValueRange(values))));
  return success();
}
