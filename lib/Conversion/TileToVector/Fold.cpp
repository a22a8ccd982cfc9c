//===- Fold.cpp - Keys that enter states one by one -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows fold their keys in order, channels side by side in the lanes of vectors.
// Where a number of the state says which keys change nothing, a comparison of
// some keys at a time finds those that do.
//
//===----------------------------------------------------------------------===//

#include "BodyVectorizer.h"
#include "VectorContext.h"

using namespace mlir;
using namespace mlir::tile;

/// One key's turn in a fold: the states after it.
static SmallVector<Value> foldKey(VectorContext &ctx, FoldOp op, Value r,
                                  Value c, Value d, int64_t width,
                                  ArrayRef<Value> carried,
                                  LogicalResult &status) {
  Location loc = op.getLoc();
  Block &body = op.getBody().front();
  BodyVectorizer vectorizer(ctx.builder, width);
  auto cast32 = [&](Value value) -> Value {
    return arith::IndexCastOp::create(ctx.builder, loc,
                                      ctx.builder.getI32Type(), value);
  };
  vectorizer.mapUniform(body.getArgument(0), cast32(r));
  vectorizer.mapUniform(body.getArgument(1), cast32(c));
  unsigned next = 2;
  for (Value score : op.getScores())
    vectorizer.mapUniform(body.getArgument(next++),
                          memref::LoadOp::create(ctx.builder, loc,
                                                 ctx.buffer(score),
                                                 ValueRange{r, c}));
  for (Value value : op.getValues())
    vectorizer.mapVector(body.getArgument(next++),
                         ctx.loadVector(ctx.buffer(value), {c, d}, width));
  for (Value state : carried) {
    if (isa<VectorType>(state.getType()))
      vectorizer.mapVector(body.getArgument(next++), state);
    else
      vectorizer.mapUniform(body.getArgument(next++), state);
  }
  status = vectorizer.emit(body);
  if (failed(status))
    return {};
  SmallVector<Value> values;
  for (auto [i, state] : llvm::enumerate(carried)) {
    bool isVector = isa<VectorType>(state.getType());
    values.push_back(isVector ? vectorizer.yielded(body, i)
                              : vectorizer.yieldedUniform(body, i));
    if (values.back())
      continue;
    status = op.emitOpError("expected the state of one column, number ")
             << i << ", not to depend on the values";
    return {};
  }
  return values;
}

/// Keys are compared with the threshold a vector at a time. Those of a vector
/// that has one above it are asked again one by one, since each that is folded
/// may raise it.
static LogicalResult lowerThresholdFold(VectorContext &ctx, FoldOp op,
                                        unsigned threshold) {
  Location loc = op.getLoc();
  Value scores = op.getScores().front();
  auto type = cast<TileType>(scores.getType());
  int64_t width = std::gcd(type.getCols(), ctx.lanes);
  for (Value result : op.getResults())
    ctx.buffers[result] = ctx.allocate(cast<TileType>(result.getType()));
  LogicalResult status = success();
  Value r;
  // The threshold; the lowest number lets in every key.
  auto constant = [&](float value) -> Value {
    return arith::ConstantOp::create(ctx.builder, loc,
                                     ctx.builder.getF32FloatAttr(value));
  };
  auto floorOf = [&](Value least) -> Value {
    Value isNone = arith::CmpFOp::create(
        ctx.builder, loc, arith::CmpFPredicate::OLE, least,
        constant(std::numeric_limits<float>::lowest()));
    return arith::SelectOp::create(
        ctx.builder, loc, isNone,
        constant(-std::numeric_limits<float>::infinity()), least);
  };
  auto passes = [&](Value c, int64_t count, Value least) -> Value {
    least = floorOf(least);
    auto read = [&](Value tile) -> Value {
      if (count > 1)
        return ctx.loadVector(ctx.buffer(tile), {r, c}, count);
      return memref::LoadOp::create(ctx.builder, loc, ctx.buffer(tile),
                                    ValueRange{r, c});
    };
    // A score that is no number passes.
    Value above = arith::CmpFOp::create(
        ctx.builder, loc, arith::CmpFPredicate::UGT, read(scores),
        count > 1 ? ctx.splat(least, count) : least);
    if (!op.getLive())
      return above;
    Value live =
        fromStorage(ctx.builder, read(op.getLive()), ctx.builder.getI1Type());
    return arith::AndIOp::create(ctx.builder, loc, above, live);
  };
  using States = SmallVector<Value>;
  auto branch = [&](Value condition, ArrayRef<Value> states,
                    function_ref<States()> then) -> States {
    auto ifOp =
        scf::IfOp::create(ctx.builder, loc, ValueRange(states).getTypes(),
                          condition, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(ctx.builder);
    ctx.builder.setInsertionPointToStart(ifOp.elseBlock());
    scf::YieldOp::create(ctx.builder, loc, states);
    ctx.builder.setInsertionPointToStart(ifOp.thenBlock());
    States next = then();
    scf::YieldOp::create(ctx.builder, loc,
                         failed(status) ? States(states) : next);
    return ifOp.getResults();
  };
  ctx.loop(type.getRows(), 1, loc, [&](Value row) {
    r = row;
    States initial;
    for (Value state : op.getStates())
      initial.push_back(
          memref::LoadOp::create(ctx.builder, loc, ctx.buffer(state), row));
    States folded = ctx.carry(
        type.getCols() / width, initial, loc,
        [&](Value number, ArrayRef<Value> carried) -> States {
          Value first =
              arith::MulIOp::create(ctx.builder, loc, number, ctx.index(width));
          Value above = passes(first, width, carried[threshold]);
          Value some = width == 1 ? above
                                  : vector::ReductionOp::create(
                                        ctx.builder, loc,
                                        vector::CombiningKind::OR, above)
                                        .getResult();
          return branch(some, carried, [&] {
            return ctx.carry(width, carried, loc,
                             [&](Value lane, ArrayRef<Value> states) -> States {
                               Value c = arith::AddIOp::create(ctx.builder, loc,
                                                               first, lane);
                               Value one = passes(c, 1, states[threshold]);
                               return branch(one, states, [&] {
                                 return foldKey(ctx, op, r, c, ctx.index(0),
                                                /*width=*/1, states, status);
                               });
                             });
          });
        });
    for (auto [value, result] : llvm::zip(folded, op.getResults()))
      memref::StoreOp::create(ctx.builder, loc, value, ctx.buffer(result), row);
  });
  return status;
}

LogicalResult mlir::tile::lowerFold(VectorContext &ctx, FoldOp op) {
  if (std::optional<uint64_t> threshold = op.getThreshold())
    return lowerThresholdFold(ctx, op, *threshold);
  Location loc = op.getLoc();
  auto scoreType = cast<TileType>(op.getScores()[0].getType());
  int64_t rows = scoreType.getRows(), keys = scoreType.getCols();
  int64_t channels = 1;
  for (Value state : op.getStates())
    channels = std::max(channels, cast<TileType>(state.getType()).getCols());
  int64_t width = channels == 1 ? 1 : ctx.lanes;

  // Row states are computed again for every group of channels, so their
  // results must not overwrite what the next group starts from.
  for (auto [state, result] : llvm::zip(op.getStates(), op.getResults())) {
    if (cast<TileType>(state.getType()).isRowVector())
      ctx.buffers[result] = ctx.allocate(cast<TileType>(result.getType()));
    else
      ctx.resultBuffer(result, state, op);
  }
  LogicalResult status = success();
  ctx.loop(rows, 1, loc, [&](Value r) {
    ctx.loop(channels, width, loc, [&](Value d) {
      SmallVector<Value> initial;
      for (Value state : op.getStates()) {
        if (cast<TileType>(state.getType()).isRowVector())
          initial.push_back(
              memref::LoadOp::create(ctx.builder, loc, ctx.buffer(state), r));
        else
          initial.push_back(ctx.loadVector(ctx.buffer(state), {r, d}, width));
      }
      auto step = [&](Value c, ArrayRef<Value> carried) -> SmallVector<Value> {
        if (!op.getLive())
          return foldKey(ctx, op, r, c, d, width, carried, status);
        Value byte = memref::LoadOp::create(
            ctx.builder, loc, ctx.buffer(op.getLive()), ValueRange{r, c});
        Value live = fromStorage(ctx.builder, byte, ctx.builder.getI1Type());
        auto branch =
            scf::IfOp::create(ctx.builder, loc, ValueRange(initial).getTypes(),
                              live, /*withElseRegion=*/true);
        OpBuilder::InsertionGuard guard(ctx.builder);
        ctx.builder.setInsertionPointToStart(branch.thenBlock());
        SmallVector<Value> values =
            foldKey(ctx, op, r, c, d, width, carried, status);
        if (failed(status))
          return {};
        scf::YieldOp::create(ctx.builder, loc, values);
        ctx.builder.setInsertionPointToStart(branch.elseBlock());
        scf::YieldOp::create(ctx.builder, loc, carried);
        return branch.getResults();
      };
      SmallVector<Value> folded = ctx.carry(keys, initial, loc, step);
      if (failed(status))
        return;
      for (auto [value, result] : llvm::zip(folded, op.getResults())) {
        if (isa<VectorType>(value.getType()))
          ctx.storeVector(value, ctx.buffer(result), {r, d});
        else
          memref::StoreOp::create(ctx.builder, loc, value, ctx.buffer(result),
                                  r);
      }
    });
  });
  return status;
}
