//===- TileRotary.cpp - Channels that turn before the dot -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A map sees one element of each tile, and a pair has two channels: they are
// loaded as two tiles, turned together, and multiplied one after the other into
// the same scores. With halves a tile has the channels of one half. Interleaved
// pairs are in all columns of two tiles that begin a channel apart; every
// second column is set to 0, so that their products cost twice as much.
//
// On a GPU queries have turned before, and keys have, or turn where they were
// copied to.
//
//===----------------------------------------------------------------------===//

#include "TileRotary.h"
#include "TileBlock.h"
#include "attn/Analysis/Schedule.h"

using namespace mlir;
using namespace mlir::attn;

static SmallVector<Value> turnParts(ReductionContext &ctx, Region &region,
                                    int64_t depth,
                                    function_ref<Value(int64_t, int64_t)> load,
                                    function_ref<Point(Value)> pointOf,
                                    bool isQuery) {
  RotaryAttr rotary = ctx.reduction.getRotaryAttribute();
  int64_t channels = rotary.getChannels();
  bool isHalves = rotary.getPairs() == RotaryPairs::halves;
  int64_t used = isHalves ? channels / 2 : channels;
  int64_t width = ::attn::paddedDepth(used, ctx.target);
  Value first = load(0, width), second = load(isHalves ? used : 1, width);
  Type type = first.getType();
  auto turn = [&](Value row, Value col, ValueRange x) {
    Value pair =
        isHalves ? col
                 : arith::ShRUIOp::create(ctx.b, col, ctx.i32(1)).getResult();
    SmallVector<Value> both = {x[0], x[1]};
    if (!region.empty()) {
      Point point = pointOf(row);
      point.key = pair;
      PointCloner cloner(ctx, region, /*firstPosition=*/2, /*hasKey=*/true,
                         ctx.reduction.getCaptureOperands(), point);
      cloner.map(region.getArgument(0), both[0]);
      cloner.map(region.getArgument(1), both[1]);
      for (auto [value, yielded] : llvm::zip(both, getYielded(region)))
        value = cloner.get(yielded);
    }
    // Other columns have channels that are no first ones of a pair.
    Value isFirst;
    if (!isHalves)
      isFirst =
          ctx.cmp(arith::CmpIPredicate::eq,
                  arith::AndIOp::create(ctx.b, col, ctx.i32(1)), ctx.i32(0));
    if (width != used) {
      Value inside = ctx.cmp(arith::CmpIPredicate::slt, col, ctx.i32(used));
      isFirst = isFirst
                    ? arith::AndIOp::create(ctx.b, isFirst, inside).getResult()
                    : inside;
    }
    for (Value &value : both) {
      if (isQuery)
        value = scaledQuery(ctx, value);
      if (isFirst)
        value = ctx.select(isFirst, value, ctx.f32(0.0f));
    }
    return both;
  };
  SmallVector<Value> parts = ctx.map({first, second}, {type, type}, turn);
  if (channels == depth)
    return parts;
  Value rest =
      load(channels, ::attn::paddedDepth(depth - channels, ctx.target));
  if (isQuery && ctx.form.queryFactor)
    rest = ctx.map(rest, rest.getType(),
                   [&](Value, Value, ValueRange x) {
                     return SmallVector<Value>{scaledQuery(ctx, x[0])};
                   })
               .front();
  parts.push_back(rest);
  return parts;
}

SmallVector<Value> mlir::attn::turnQueries(ReductionContext &ctx) {
  Value tensor = ctx.reduction.getQueryOperands().front();
  Value query = ctx.packsHeads ? ctx.packedQueries.front() : ctx.arg(tensor);
  Value source =
      ctx.openSource(query, ctx.rowSource, ctx.rowsRest(), /*vector=*/false);
  auto load = [&](int64_t channel, int64_t width) -> Value {
    SmallVector<Value> indices = ctx.fromFirst(ctx.head, ctx.row0);
    indices.back() = ctx.index(channel);
    return tile::LoadOp::create(
        ctx.b, ctx.tileType(ctx.schedule.getBlockQ(), width), source, indices,
        ctx.row0, ctx.add(ctx.row0, ctx.liveRows),
        /*live=*/Value(), /*vector=*/false);
  };
  Value base = ctx.rowBase(ctx.row0), last = ctx.lastRow();
  return turnParts(
      ctx, ctx.reduction.getRotateQueriesBody(),
      cast<ShapedType>(tensor.getType()).getShape().back(), load,
      [&](Value row) {
        // Positions are no rows of a capture: nothing is safe.
        Point point = ctx.rowPoint(base, row, last);
        point.safeRow = Value();
        return point;
      },
      /*isQuery=*/true);
}

SmallVector<Value> mlir::attn::turnKeys(ReductionContext &ctx,
                                        const KeyTile &tile, LoadPart load) {
  Value tensor = ctx.reduction.getKeyOperands().front();
  Value base = ctx.toI32(tile.first);
  return turnParts(
      ctx, ctx.reduction.getRotateKeysBody(),
      cast<ShapedType>(tensor.getType()).getShape().back(),
      [&](int64_t channel, int64_t width) -> Value {
        SmallVector<Value> indices = ctx.fromFirst(ctx.keyHead, tile.first);
        indices.back() = ctx.index(channel);
        return load(tensor, width, indices);
      },
      [&](Value row) {
        Point point;
        point.row = ctx.add(base, row);
        return point;
      },
      /*isQuery=*/false);
}

Value mlir::attn::turnInPlace(ReductionContext &ctx, const KeyTile &tile,
                              Value keys) {
  Value base = ctx.toI32(tile.first);
  auto turn = tile::TurnOp::create(ctx.b, keys.getType(), keys,
                                   ctx.reduction.getRotaryAttribute());
  OpBuilder::InsertionGuard guard(ctx.b);
  Region &region = ctx.reduction.getRotateKeysBody();
  Type element = cast<tile::TileType>(keys.getType()).getElementType();
  Type i32 = ctx.b.getI32Type();
  Block *body =
      ctx.b.createBlock(&turn.getBody(), {}, {i32, i32, element, element},
                        SmallVector<Location>(4, turn.getLoc()));
  Point point;
  point.row = ctx.add(base, body->getArgument(0));
  point.key = body->getArgument(1);
  PointCloner cloner(ctx, region, /*firstPosition=*/2, /*hasKey=*/true,
                     ctx.reduction.getCaptureOperands(), point);
  for (unsigned i : {0, 1})
    cloner.map(region.getArgument(i),
               arith::ExtFOp::create(ctx.b, ctx.b.getF32Type(),
                                     body->getArgument(2 + i)));
  SmallVector<Value> both;
  for (Value yielded : getYielded(region))
    both.push_back(
        arith::TruncFOp::create(ctx.b, element, cloner.get(yielded)));
  tile::YieldOp::create(ctx.b, both);
  return turn.getResult();
}

Value mlir::attn::dotParts(ReductionContext &ctx, RowBlock &block) {
  Value sum;
  for (auto [i, query, key] : llvm::enumerate(block.queries, block.keys)) {
    bool isLast = i + 1 == block.queries.size();
    sum = tile::DotOp::create(ctx.b, scoreTile(ctx), query, key, /*acc=*/sum,
                              /*scale=*/Value(),
                              isLast ? block.tile.ramp : Value(),
                              /*transpose_rhs=*/true, ctx.tf32);
  }
  return sum;
}
