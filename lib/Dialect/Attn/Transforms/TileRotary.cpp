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

#include "TileKernel.h"
#include "TurnRows.h"
#include "attn/Analysis/Schedule.h"

using namespace mlir;
using namespace mlir::attn;

SmallVector<Value>
ReductionKernel::turnParts(Region &region, int64_t depth,
                           function_ref<Value(int64_t, int64_t)> load,
                           function_ref<Point(Value)> pointOf, bool isQuery) {
  RotaryAttr rotary = reduction.getRotaryAttribute();
  int64_t channels = rotary.getChannels();
  bool isHalves = rotary.getPairs() == RotaryPairs::halves;
  int64_t used = isHalves ? channels / 2 : channels;
  int64_t width = ::attn::paddedDepth(used, target);
  Value first = load(0, width), second = load(isHalves ? used : 1, width);
  Type type = first.getType();
  auto turn = [&](Value row, Value col, ValueRange x) {
    Value pair = isHalves
                     ? col
                     : arith::ShRUIOp::create(b, loc, col, i32(1)).getResult();
    SmallVector<Value> both = {x[0], x[1]};
    if (!region.empty()) {
      Point point = pointOf(row);
      point.key = pair;
      PointCloner cloner(*this, region, /*firstPosition=*/2, /*hasKey=*/true,
                         reduction.getCaptureOperands(), point);
      cloner.map(region.getArgument(0), both[0]);
      cloner.map(region.getArgument(1), both[1]);
      for (auto [value, yielded] : llvm::zip(both, getYielded(region)))
        value = cloner.get(yielded);
    }
    // Other columns have channels that are no first ones of a pair.
    Value isFirst;
    if (!isHalves)
      isFirst = cmp(arith::CmpIPredicate::eq,
                    arith::AndIOp::create(b, loc, col, i32(1)), i32(0));
    if (width != used) {
      Value inside = cmp(arith::CmpIPredicate::slt, col, i32(used));
      isFirst = isFirst
                    ? arith::AndIOp::create(b, loc, isFirst, inside).getResult()
                    : inside;
    }
    for (Value &value : both) {
      if (isQuery)
        value = scaledQuery(value);
      if (isFirst)
        value = select(isFirst, value, f32(0.0f));
    }
    return both;
  };
  SmallVector<Value> parts = map({first, second}, {type, type}, turn);
  if (channels == depth)
    return parts;
  Value rest = load(channels, ::attn::paddedDepth(depth - channels, target));
  if (isQuery && form.queryFactor)
    rest = map(rest, rest.getType(), [&](Value, Value, ValueRange x) {
             return SmallVector<Value>{scaledQuery(x[0])};
           }).front();
  parts.push_back(rest);
  return parts;
}

SmallVector<Value> ReductionKernel::turnQueries() {
  Value tensor = reduction.getQueryOperands().front();
  Value query = packsHeads ? packedQueries.front() : arg(tensor);
  Value source = openSource(query, rowSource, rowsRest(), /*vector=*/false);
  auto load = [&](int64_t channel, int64_t width) -> Value {
    SmallVector<Value> indices = fromFirst(head, row0);
    indices.back() = index(channel);
    return tile::LoadOp::create(b, loc, tileType(schedule.getBlockQ(), width),
                                source, indices, row0, add(row0, liveRows),
                                /*live=*/Value(), /*vector=*/false);
  };
  Value base = rowBase(row0), last = lastRow();
  return turnParts(
      reduction.getRotateQueriesBody(),
      cast<ShapedType>(tensor.getType()).getShape().back(), load,
      [&](Value row) {
        // Positions are no rows of a capture: nothing is safe.
        Point point = rowPoint(base, row, last);
        point.safeRow = Value();
        return point;
      },
      /*isQuery=*/true);
}

SmallVector<Value> ReductionKernel::turnKeys(const KeyTile &tile,
                                             LoadPart load) {
  Value tensor = reduction.getKeyOperands().front();
  Value base = toI32(tile.first);
  return turnParts(
      reduction.getRotateKeysBody(),
      cast<ShapedType>(tensor.getType()).getShape().back(),
      [&](int64_t channel, int64_t width) -> Value {
        SmallVector<Value> indices = fromFirst(keyHead, tile.first);
        indices.back() = index(channel);
        return load(tensor, width, indices);
      },
      [&](Value row) {
        Point point;
        point.row = add(base, row);
        return point;
      },
      /*isQuery=*/false);
}

Value ReductionKernel::turnInPlace(const KeyTile &tile, Value keys) {
  Value base = toI32(tile.first);
  auto turn = tile::TurnOp::create(b, loc, keys.getType(), keys,
                                   reduction.getRotaryAttribute());
  OpBuilder::InsertionGuard guard(b);
  Region &region = reduction.getRotateKeysBody();
  Type element = cast<tile::TileType>(keys.getType()).getElementType();
  Block *body = b.createBlock(
      &turn.getBody(), {}, {b.getI32Type(), b.getI32Type(), element, element},
      {loc, loc, loc, loc});
  Point point;
  point.row = add(base, body->getArgument(0));
  point.key = body->getArgument(1);
  PointCloner cloner(*this, region, /*firstPosition=*/2, /*hasKey=*/true,
                     reduction.getCaptureOperands(), point);
  for (unsigned i : {0, 1})
    cloner.map(region.getArgument(i),
               arith::ExtFOp::create(b, loc, b.getF32Type(),
                                     body->getArgument(2 + i)));
  SmallVector<Value> both;
  for (Value yielded : getYielded(region))
    both.push_back(
        arith::TruncFOp::create(b, loc, element, cloner.get(yielded)));
  tile::YieldOp::create(b, loc, both);
  return turn.getResult();
}

Value ReductionKernel::dotParts(RowBlock &block) {
  Value sum;
  for (auto [i, query, key] : llvm::enumerate(block.queries, block.keys)) {
    bool isLast = i + 1 == block.queries.size();
    sum = tile::DotOp::create(b, loc, scoreTile(), query, key, /*acc=*/sum,
                              /*scale=*/Value(),
                              isLast ? block.tile.ramp : Value(),
                              /*transpose_rhs=*/true, tf32);
  }
  return sum;
}
