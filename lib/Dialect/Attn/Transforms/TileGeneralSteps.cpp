//===- TileGeneralSteps.cpp - Keys of a general monoid --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileElements.h"
#include "TileLists.h"
#include "TileSteps.h"
#include "attn/Analysis/Laws.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::attn;

/// The number of the state below which a key changes nothing, if the laws have
/// found one: of a monoid without values.
static std::optional<unsigned> findThreshold(MonoidOp monoid) {
  std::shared_ptr<const ::attn::LawReport> laws = ::attn::checkLaws(monoid);
  if (!laws || laws->threshold < 0)
    return std::nullopt;
  return laws->threshold;
}
bool mlir::attn::foldsKeys(ReductionOpInterface op, MonoidOp monoid) {
  constexpr size_t mostOperations = 48;
  return monoid.isGeneral() &&
         (!op.getValueOperands().empty() || findThreshold(monoid) ||
          size_t(llvm::range_size(monoid.getCombine().front())) >
              mostOperations);
}

/// A general monoid without values: all keys of the tile are lifted at once,
/// where their scores are, and their product enters the state.
static SmallVector<Value> stepScalars(ReductionContext &ctx, RowBlock &block,
                                      ArrayRef<Value> dots) {
  SmallVector<Value> identity = ctx.call(ctx.monoid.getIdentity(), {});
  SmallVector<Type> tiles(identity.size(), scoreTile(ctx));
  SmallVector<Value> inputs = withLoaded(ctx, block, dots);
  SmallVector<Value> lifted =
      ctx.map(inputs, tiles, [&](Value row, Value col, ValueRange x) {
        x = takeLoaded(ctx, block, x, dots.size());
        Value alive = liveByMask(ctx, block, row, col);
        SmallVector<Value> s = scores(ctx, block, row, col, x);
        alive = liveByScore(ctx, s, alive);
        s.push_back(ctx.add(block.keyBase, col));
        SmallVector<Value> state = ctx.call(ctx.monoid.getLift(), s);
        if (alive)
          for (auto [part, none] : llvm::zip_equal(state, identity))
            part = ctx.select(alive, part, none);
        return state;
      });
  SmallVector<Value> product =
      ctx.reduce(lifted, identity, ctx.form.ordered,
                 [&](ValueRange x, ValueRange y) { return ctx.combine(x, y); });
  SmallVector<Value> both(block.state);
  llvm::append_range(both, product);
  SmallVector<Type> rows(identity.size(), rowTile(ctx));
  return ctx.map(both, rows, [&](Value, Value, ValueRange x) {
    return ctx.combine(x.take_front(identity.size()),
                       x.drop_front(identity.size()));
  });
}

/// The element path: every key is lifted and multiplied in, but for those that
/// a threshold says change nothing.
static SmallVector<Value> stepElements(ReductionContext &ctx, RowBlock &block,
                                       ArrayRef<Value> dots) {
  SmallVector<Type> types(ctx.monoid.getNumScores(), scoreTile(ctx));
  types.push_back(
      ctx.tileType(ctx.schedule.getRows(), keyCols(ctx), ctx.b.getI1Type()));
  SmallVector<Value> mapped =
      ctx.map(dots, types, [&](Value row, Value col, ValueRange x) {
        Value alive = liveByMask(ctx, block, row, col);
        SmallVector<Value> s = scores(ctx, block, row, col, x);
        alive = liveByScore(ctx, s, alive);
        s.push_back(alive ? alive
                          : arith::ConstantIntOp::create(ctx.b, true, 1));
        return s;
      });
  Value alive = mapped.pop_back_val();
  SmallVector<Type> stateTypes;
  for (Value part : block.state)
    stateTypes.push_back(part.getType());
  auto fold = tile::FoldOp::create(ctx.b, stateTypes, mapped, block.values,
                                   alive, block.state);
  if (std::optional<unsigned> state = findThreshold(ctx.monoid))
    fold.setThreshold(*state);
  OpBuilder::InsertionGuard guard(ctx.b);
  Block *body = ctx.b.createBlock(&fold.getBody());
  body->addArgument(ctx.b.getI32Type(), ctx.loc);
  Value col = body->addArgument(ctx.b.getI32Type(), ctx.loc);
  SmallVector<Value> inputs;
  auto addElements = [&](ValueRange tiles) {
    SmallVector<Value> elements;
    for (Value tile : tiles)
      elements.push_back(body->addArgument(
          cast<tile::TileType>(tile.getType()).getElementType(), ctx.loc));
    return elements;
  };
  inputs.append(addElements(mapped));
  inputs.append(addElements(block.values));
  SmallVector<Value> state = addElements(block.state);
  inputs.push_back(ctx.add(block.keyBase, col));
  SmallVector<Value> lifted = ctx.call(ctx.monoid.getLift(), inputs);
  tile::YieldOp::create(ctx.b, ctx.combine(state, lifted));
  return fold.getResults();
}

SmallVector<Value> mlir::attn::stepGeneral(ReductionContext &ctx,
                                           RowBlock &block,
                                           ArrayRef<Value> dots) {
  // A test of several keys is less than their product.
  return foldsKeys(ctx.reduction, ctx.monoid) ? stepElements(ctx, block, dots)
                                              : stepScalars(ctx, block, dots);
}
