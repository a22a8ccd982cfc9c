//===- TileFarRows.cpp - Rows far from 0, done again ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Weights of a row are exp2(fma(stat, k, -k * anchor)), which is wrong where
// the anchor is so far from 0 that the rounding of k * anchor is a power of 2
// that counts (TileAnchor.cpp). Scores that are dots, times a factor, are never
// that large but where something has gone wrong before. So the walk over the
// key tiles takes no notice, and a warp that finds such a row among its own at
// the end does it again, key by key, from memory: right, and slow.
//
//===----------------------------------------------------------------------===//

#include "TileKernel.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::attn;

/// Whether far rows are done again instead of told apart in each tile. Where a
/// bias or the score's region may put whole rows far below 0, as masks of the
/// least finite number do, they are told apart: such rows are no accident. So
/// they are where the registers are full, with windows, packed heads and
/// factors; and where the bits of a row may not depend on which of these it
/// meets.
bool ReductionKernel::mayRedoFarRows() {
  if (!isGpu() || !form.exponential || !form.fused ||
      !(form.dotIsStat || linear.applies) || fixedAnchor || lists.tiles ||
      marksIn || marksOut || hasGroup(reduction) || packsHeads ||
      reduction.isBatchInvariant() || schedule.getBlockV() ||
      keySource.is(SourceKind::paged) || keySource.is(SourceKind::ring) ||
      reduction.getQueryOperands().size() != 1 ||
      !reduction.getFactorBody().empty() || reduction.getRotaryAttribute())
    return false;
  Region &region = reduction.getMaskBody();
  return region.empty() ||
         ::attn::MaskAnalysis(region).facts().startsAtFirstKey;
}

SmallVector<Value> ReductionKernel::redoFarRows(SmallVector<Value> state) {
  Type flags = tileType(schedule.getBlockQ(), 1, b.getI1Type());
  Value rows = toI32(liveRows);
  Value far =
      map(state[0], flags, [&](Value row, Value, ValueRange x) {
        Value no = arith::ConstantIntOp::create(b, loc, false, 1);
        // Of f16 what is below the least anchor was taken for that
        // (emitNearAnchor).
        Value some =
            select(isIdentity(x[0]), no, isFar(x[0], /*orAt=*/isF16()));
        Value inside = cmp(arith::CmpIPredicate::slt, row, rows);
        return SmallVector<Value>{arith::AndIOp::create(b, loc, inside, some)};
      }).front();
  Value any = tile::AnyOp::create(b, loc, b.getI1Type(), far, /*by_rows=*/true);
  return stepIf(
      any, state,
      [&] {
        // One state at a time: two would not fit into the registers, nor one
        // that lives from the start.
        SmallVector<Value> first;
        for (auto [own, initial] :
             llvm::zip(state, initialState(/*ofRows=*/true)))
          first.push_back(map({far, initial, own}, own.getType(),
                              [&](Value, Value, ValueRange x) {
                                return SmallVector<Value>{
                                    select(x[0], x[1], x[2])};
                              })
                              .front());
        return walkFarRows(first, far);
      },
      nullptr);
}

/// The state after all keys of the rows that `far` marks; of others as it is.
SmallVector<Value> ReductionKernel::walkFarRows(SmallVector<Value> state,
                                                Value far) {
  auto loop = scf::ForOp::create(b, loc, hullLower, hullUpper, index(1), state);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  scf::YieldOp::create(
      b, loc, enterKey(loop.getInductionVar(), far, loop.getRegionIterArgs()));
  return loop.getResults();
}

/// Within a map: the dot of a row, an i32 in the tile, with a key.
Value ReductionKernel::dotOfElements(Value row, Value key) {
  Value query = reduction.getQueryOperands().front();
  Value queries =
      openSource(arg(query), rowSource, rowsRest(), /*vector=*/false);
  Value keys = openKeys(reduction.getKeyOperands().front());
  auto element = [&](Value memory, Value from, SmallVector<Value> at,
                     Value channel) -> Value {
    at.back() = channel;
    return tile::ElementOp::create(
        b, loc, cast<MemRefType>(from.getType()).getElementType(), memory, at);
  };
  Value at = add(row0, toIndex(row));
  int64_t depth = cast<MemRefType>(arg(query).getType()).getShape().back();
  auto loop = scf::ForOp::create(b, loc, index(0), index(depth), index(1),
                                 ValueRange(f32(0.0f)));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value channel = loop.getInductionVar();
  Value x = scaledQuery(element(queries, arg(query),
                                this->at(head, at, /*channel=*/true), channel));
  Value y = element(keys, arg(reduction.getKeyOperands().front()),
                    this->at(keyHead, key, /*channel=*/true), channel);
  if (!y.getType().isF32())
    y = arith::ExtFOp::create(b, loc, b.getF32Type(), y);
  Value sum =
      math::FmaOp::create(b, loc, x, y, loop.getRegionIterArgs().front());
  scf::YieldOp::create(b, loc, sum);
  return loop.getResult(0);
}

/// One key enters the state of the rows that `far` marks; sums are at the
/// row's statistic itself.
SmallVector<Value> ReductionKernel::enterKey(Value key, Value far,
                                             ValueRange state) {
  RowBlock block(KeyTile{key, /*masked=*/true});
  block.firstRow = row0;
  prepare(block);
  Type numbers = state[0].getType(), flags = far.getType();
  SmallVector<Value> row =
      map({far, state[0]}, {numbers, numbers, numbers, flags},
          [&](Value row, Value, ValueRange x) {
            Value live = liveByMask(block, row, i32(0)), old = x[1];
            live = arith::AndIOp::create(b, loc, live, x[0]);
            Value score = choose(
                live, b.getF32Type(),
                [&] {
                  Value dot = dotOfElements(row, key);
                  return form.dotIsStat ? SmallVector<Value>{dot}
                                        : scores(block, row, i32(0), dot);
                },
                [&] { return identityStats(); })[0];
            Value now = combineStats(old, score)[0];
            auto power = [&](Value stat) {
              Value distance = arith::SubFOp::create(b, loc, stat, now);
              distance = arith::MulFOp::create(b, loc, distance, scaleToBase());
              return select(isIdentity(stat), f32(0.0f),
                            math::Exp2Op::create(b, loc, distance));
            };
            return SmallVector<Value>{now, power(old), power(score), live};
          });
  Value factor = row[1], weight = row[2], live = row[3];
  SmallVector<Value> next = {row[0]};
  unsigned nextValue = 0;
  for (unsigned i = 0; i < numComponents(); ++i) {
    Value values;
    if (monoid.getComponent(i) == Component::value)
      values = reduction.getValueOperands()[nextValue++];
    Value old = state[1 + i];
    auto entered = [&](Value, Value col, ValueRange x) {
      RegionCloner cloner(b);
      Region &lift = monoid.getLift();
      cloner.map(lift.getArguments().drop_front(monoid.getNumScores()),
                 params());
      Value addend =
          arith::MulFOp::create(b, loc, x[2], cloner.get(groupOf(i).first));
      if (values) {
        auto type = cast<MemRefType>(arg(values).getType());
        SmallVector<Value> at = this->at(keyHead, key, /*channel=*/true);
        // Columns behind the last one are on chip alone.
        at.back() = min(toIndex(col), index(type.getShape().back() - 1));
        Value value = tile::ElementOp::create(b, loc, type.getElementType(),
                                              openKeys(values), at);
        if (!value.getType().isF32())
          value = arith::ExtFOp::create(b, loc, b.getF32Type(), value);
        addend = arith::MulFOp::create(b, loc, addend, value);
      }
      // What a key holds that a row does not see reaches it in no way.
      addend = select(x[3], addend, f32(0.0f));
      Value sum = math::FmaOp::create(b, loc, x[0], x[1], addend);
      return SmallVector<Value>{select(x[4], sum, x[0])};
    };
    next.push_back(
        map({old, factor, weight, live, far}, old.getType(), entered).front());
  }
  return next;
}
