//===- TileFarRows.cpp - Rows far from 0 or spoiled, done again -----------===//
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
// the end does it again, key by key, from memory: right, and slow. So it does
// where a key's dot was -inf, which makes its exponent times its weight, 0, a
// NaN.
//
// A key that is dead in all rows of a listed tile has the weight 0, and 0 times
// a value that is not finite is NaN. So rows with a NaN are done again, too, in
// the place of a look for such keys in each tile. Where all listed tiles are
// whole, there are none: a NaN is the row's own.
//
// A mask that acts on scores stands between a tile's product and the maxima of
// its rows, which all exponentials wait for. So it acts on the weights, where
// nothing waits, and the maximum is that of all keys of a tile, dead ones too:
// any anchor will do that no output tells. But beside the largest score of dead
// keys all weights of a row may be too small for numbers. Rows with such a sum,
// and those without live keys, are done again.
//
//===----------------------------------------------------------------------===//

#include "TileFarRows.h"
#include "StateUses.h"
#include "TileAnchor.h"
#include "TileBlock.h"
#include "TileElements.h"
#include "TileLists.h"
#include "TileSteps.h"
#include "TileStream.h"
#include "TileWarps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::attn;

/// Whether a row can be done again from memory, key by key.
static bool rowsAreInMemory(ReductionContext &ctx) {
  return isGpu(ctx) && ctx.form.exponential && ctx.form.fused &&
         (ctx.form.dotIsStat || ctx.linear.applies) && !ctx.fixedAnchor &&
         !ctx.marksIn && !ctx.marksOut && !hasGroup(ctx.reduction) &&
         !ctx.packsHeads && !warpsHaveKeys(ctx) &&
         !ctx.reduction.isBatchInvariant() && !ctx.schedule.getBlockV() &&
         !ctx.keySource.is(SourceKind::paged) &&
         !ctx.keySource.is(SourceKind::ring) &&
         ctx.reduction.getQueryOperands().size() == 1 &&
         ctx.reduction.getFactorBody().empty() &&
         !ctx.reduction.getRotaryAttribute();
}

/// The component that is the sum of a row's weights times 1, if there is one.
static std::optional<unsigned> sumOfOnes(ReductionContext &ctx) {
  ValueRange lifted = getYielded(ctx.monoid.getLift());
  for (unsigned i = 0; i < ctx.numComponents(); ++i)
    if (ctx.monoid.getComponent(i) == Component::unit &&
        !ctx.monoid.isShifted(i) &&
        matchPattern(lifted[ctx.numStats() + i], m_OneFloat()))
      return i;
  return std::nullopt;
}

/// Whether each row's keys are an interval, which starts anywhere, and the
/// loops leave registers for rows that are done again: of 64, 96, 192 and 256
/// columns some spill, and so do those whose bounds are numbers of a call.
static bool isWindow(ReductionContext &ctx) {
  constexpr int64_t columns = 128;
  auto hasColumns = [&](Value tensor) {
    return cast<ShapedType>(tensor.getType()).getShape().back() == columns;
  };
  Region &region = ctx.reduction.getMaskBody();
  if (region.empty() || !ctx.reduction.getCaptureOperands().empty() ||
      !llvm::all_of(ctx.reduction.getKeyOperands(), hasColumns) ||
      !llvm::all_of(ctx.reduction.getValueOperands(), hasColumns))
    return false;
  ::attn::MaskAnalysis::Facts facts = ::attn::MaskAnalysis(region).facts();
  return !facts.startsAtFirstKey && facts.hullIsExact && facts.hasRowIntervals;
}

bool mlir::attn::mayMaskLate(ReductionContext &ctx) {
  // Weights of f16 are too small for numbers soon.
  return rowsAreInMemory(ctx) && pipelined(ctx) && ctx.form.dotIsStat &&
         !ctx.reduction.getValueOperands().empty() && !isF16(ctx) &&
         !ctx.form.distances && !ctx.form.byQuotient && !ctx.form.weighsLate &&
         !ctx.monoid.hasShift() &&
         llvm::all_of(ctx.form.uniformWeight, [](bool b) { return b; }) &&
         sumOfOnes(ctx) && (ctx.lists.tiles || isWindow(ctx)) &&
         anchorIsFree(ctx.reduction, ctx.monoid);
}

bool mlir::attn::marksFarRows(ReductionContext &ctx) {
  return ctx.marksOut && isGpu(ctx) && ctx.form.exponential && ctx.form.fused &&
         !ctx.linear.far.values.empty() && !ctx.form.distances &&
         !ctx.fixedAnchor;
}

bool mlir::attn::mayRedoFarRows(ReductionContext &ctx) {
  if (marksFarRows(ctx))
    return true;
  if (!rowsAreInMemory(ctx))
    return false;
  Region &region = ctx.reduction.getMaskBody();
  return region.empty() || ctx.lists.tiles ||
         ::attn::MaskAnalysis(region).facts().startsAtFirstKey ||
         mayMaskLate(ctx);
}

bool mlir::attn::mayRedoSpoiledRows(ReductionContext &ctx) {
  bool isListed = ctx.lists.tiles && rowsAreInMemory(ctx) && pipelined(ctx) &&
                  !ctx.reduction.getValueOperands().empty();
  return isListed || mayMaskLate(ctx);
}

/// Within a map: the dot of a row, an i32 in the tile, with a key.
static Value dotOfElements(ReductionContext &ctx, Value row, Value key) {
  Value query = ctx.reduction.getQueryOperands().front();
  Value queries = ctx.openSource(ctx.arg(query), ctx.rowSource, ctx.rowsRest(),
                                 /*vector=*/false);
  Value keys = openKeys(ctx, ctx.reduction.getKeyOperands().front());
  auto element = [&](Value memory, Value from, SmallVector<Value> at,
                     Value channel) -> Value {
    at.back() = channel;
    return tile::ElementOp::create(
        ctx.b, cast<MemRefType>(from.getType()).getElementType(), memory, at);
  };
  Value at = ctx.add(ctx.row0, ctx.toIndex(row));
  int64_t depth = cast<MemRefType>(ctx.arg(query).getType()).getShape().back();
  auto loop = scf::ForOp::create(ctx.b, ctx.index(0), ctx.index(depth),
                                 ctx.index(1), ValueRange(ctx.f32(0.0f)));
  OpBuilder::InsertionGuard guard(ctx.b);
  ctx.b.setInsertionPointToStart(loop.getBody());
  Value channel = loop.getInductionVar();
  Value x = scaledQuery(ctx, element(queries, ctx.arg(query),
                                     ctx.at(ctx.head, at, /*channel=*/true),
                                     channel));
  Value y = element(keys, ctx.arg(ctx.reduction.getKeyOperands().front()),
                    ctx.at(ctx.keyHead, key, /*channel=*/true), channel);
  if (!y.getType().isF32())
    y = arith::ExtFOp::create(ctx.b, ctx.b.getF32Type(), y);
  Value sum =
      math::FmaOp::create(ctx.b, x, y, loop.getRegionIterArgs().front());
  scf::YieldOp::create(ctx.b, sum);
  return loop.getResult(0);
}

/// What a key is to the rows that `far` marks: the statistic with it, the
/// factor of their sums and its weight, whether it is live, and the exponents
/// of both.
static SmallVector<Value> weighKey(ReductionContext &ctx, Value key, Value far,
                                   ValueRange state) {
  RowBlock block(KeyTile{key, /*masked=*/true});
  block.firstRow = ctx.row0;
  prepare(ctx, block);
  Type numbers = state[0].getType(), flags = far.getType();
  return ctx.map(
      {far, state[0]}, {numbers, numbers, numbers, flags, numbers, numbers},
      [&](Value row, Value, ValueRange x) {
        Value live = liveByMask(ctx, block, row, ctx.i32(0)), old = x[1];
        live = arith::AndIOp::create(ctx.b, live, x[0]);
        Value score = choose(
            ctx, live, ctx.b.getF32Type(),
            [&] {
              Value dot = dotOfElements(ctx, row, key);
              return ctx.form.dotIsStat
                         ? SmallVector<Value>{dot}
                         : scores(ctx, block, row, ctx.i32(0), dot);
            },
            [&] { return ctx.identityStats(); })[0];
        Value now = combineStats(ctx, old, score)[0];
        auto distance = [&](Value stat) -> Value {
          Value apart = arith::SubFOp::create(ctx.b, stat, now);
          return arith::MulFOp::create(ctx.b, apart, scaleToBase(ctx));
        };
        auto power = [&](Value stat, Value apart) {
          return ctx.select(ctx.isIdentity(stat), ctx.f32(0.0f),
                            math::Exp2Op::create(ctx.b, apart));
        };
        // Where the power is 0, any finite number times it is nothing.
        auto finite = [&](Value stat, Value apart) {
          apart = arith::MaxNumFOp::create(ctx.b, apart, ctx.f32(-1024.0f));
          return ctx.select(ctx.isIdentity(stat), ctx.f32(0.0f), apart);
        };
        Value moved = distance(old), apart = distance(score);
        // The sums of other rows stay as they are.
        Value factor = ctx.select(x[0], power(old, moved), ctx.f32(1.0f));
        return SmallVector<Value>{now,
                                  factor,
                                  power(score, apart),
                                  live,
                                  finite(old, moved),
                                  finite(score, apart)};
      });
}

/// Adds a key to the sums of the rows that `far` marks, which are at the row's
/// statistic itself.
static SmallVector<Value> addKey(ReductionContext &ctx, Value key, Value far,
                                 ValueRange row, ValueRange state) {
  Value factor = row[1], weight = row[2], live = row[3], moved = row[4],
        apart = row[5];
  SmallVector<Value> next;
  unsigned nextValue = 0;
  for (unsigned i = 0; i < ctx.numComponents(); ++i) {
    Value values;
    if (ctx.monoid.getComponent(i) == Component::value)
      values = ctx.reduction.getValueOperands()[nextValue++];
    bool isDistance = ctx.form.isDistance(i);
    Value old = state[1 + i];
    auto sums = cast<tile::TileType>(old.getType());
    SmallVector<Value> inputs = {old, factor, weight, live, far};
    if (isDistance)
      inputs.append({apart, moved, state[1 + ctx.form.distances->ones]});
    auto entered = [&](Value, Value col, ValueRange x) {
      Value factor;
      if (isDistance) {
        factor = x[5];
      } else {
        RegionCloner cloner(ctx.b);
        Region &lift = ctx.monoid.getLift();
        cloner.map(lift.getArguments().drop_front(ctx.monoid.getNumScores()),
                   ctx.params());
        factor = cloner.get(groupOf(ctx, i).weight);
      }
      Value addend = arith::MulFOp::create(ctx.b, x[2], factor);
      if (values) {
        auto type = cast<MemRefType>(ctx.arg(values).getType());
        SmallVector<Value> at = ctx.at(ctx.keyHead, key, /*channel=*/true);
        at.back() = ctx.toIndex(col);
        // Columns behind the last one are on chip alone.
        if (int64_t width = type.getShape().back(); sums.getCols() > width)
          at.back() = ctx.min(at.back(), ctx.index(width - 1));
        Value value = tile::ElementOp::create(ctx.b, type.getElementType(),
                                              openKeys(ctx, values), at);
        if (!value.getType().isF32())
          value = arith::ExtFOp::create(ctx.b, ctx.b.getF32Type(), value);
        addend = arith::MulFOp::create(ctx.b, addend, value);
      }
      // What a key holds that a row does not see reaches it in no way: any
      // number and -0 is that number.
      addend = ctx.select(x[3], addend, ctx.f32(-0.0f));
      Value old = x[0];
      if (isDistance)
        old =
            ctx.select(x[4], math::FmaOp::create(ctx.b, x[7], x[6], old), old);
      return SmallVector<Value>{math::FmaOp::create(ctx.b, old, x[1], addend)};
    };
    next.push_back(ctx.map(inputs, sums, entered).front());
  }
  return next;
}

/// One key enters the state of the rows that `far` marks.
static SmallVector<Value> enterKey(ReductionContext &ctx, Value key, Value far,
                                   ValueRange state) {
  SmallVector<Value> row = weighKey(ctx, key, far, state), next = {row[0]};
  auto add = [&] { return addKey(ctx, key, far, row, state); };
  if (!ctx.form.redoesSpoiled) {
    llvm::append_range(next, add());
    return next;
  }
  // Few of the keys of a list's mask are live.
  Value any = tile::AnyOp::create(ctx.b, ctx.b.getI1Type(), /*live=*/row[3],
                                  /*by_rows=*/true);
  llvm::append_range(next, stepIf(ctx, any, state.drop_front(), add, nullptr));
  return next;
}

/// The state after keys [lower, upper) of the rows that `far` marks; of others
/// as it is.
static SmallVector<Value> walkKeys(ReductionContext &ctx, Value lower,
                                   Value upper, ValueRange state, Value far) {
  auto loop = scf::ForOp::create(ctx.b, lower, upper, ctx.index(1), state);
  OpBuilder::InsertionGuard guard(ctx.b);
  ctx.b.setInsertionPointToStart(loop.getBody());
  scf::YieldOp::create(ctx.b, enterKey(ctx, loop.getInductionVar(), far,
                                       loop.getRegionIterArgs()));
  return loop.getResults();
}

/// Whether one of the rows that `far` marks has a live key in a tile.
static Value anyLive(ReductionContext &ctx, Value first, Value far) {
  RowBlock block(KeyTile{first, /*masked=*/true});
  block.firstRow = ctx.row0;
  prepare(ctx, block);
  Type i1 = ctx.b.getI1Type();
  auto type = ctx.tileType(ctx.schedule.getBlockQ(), keyCols(ctx), i1);
  Value live = ctx.map({far}, type,
                       [&](Value row, Value key, ValueRange x) {
                         Value one = liveByMask(ctx, block, row, key);
                         return SmallVector<Value>{
                             arith::AndIOp::create(ctx.b, one, x[0])};
                       })
                   .front();
  Value none = arith::ConstantIntOp::create(ctx.b, i1, 0);
  Value some = ctx.reduce(live, none, /*ordered=*/false,
                          [&](ValueRange x, ValueRange y) {
                            return SmallVector<Value>{
                                arith::OrIOp::create(ctx.b, x[0], y[0])};
                          })
                   .front();
  return tile::AnyOp::create(ctx.b, i1, some, /*by_rows=*/true);
}

/// Loops over the first keys of the tiles that rows may have live keys in.
static scf::ForOp loopOverTiles(ReductionContext &ctx, ValueRange state,
                                Value &first) {
  Value keys = ctx.index(ctx.schedule.getBlockK());
  auto into = [&](scf::ForOp loop) {
    ctx.b.setInsertionPointToStart(loop.getBody());
    return loop;
  };
  if (!ctx.lists.tiles) {
    auto loop = into(
        scf::ForOp::create(ctx.b, ctx.hullLower, ctx.hullUpper, keys, state));
    first = loop.getInductionVar();
    return loop;
  }
  auto count = [&](int64_t which) {
    SmallVector<Value> at = listIndices(ctx);
    at.push_back(ctx.index(which));
    return ctx.toIndex(memref::LoadOp::create(ctx.b, ctx.lists.tiles, at));
  };
  Value masked = count(KeyLists::masks);
  auto loop = into(scf::ForOp::create(ctx.b, ctx.index(0),
                                      ctx.add(masked, count(KeyLists::wholes)),
                                      ctx.index(1), state));
  Value n = loop.getInductionVar();
  Value isWhole = ctx.cmp(arith::CmpIPredicate::sge, n, masked);
  Value number = ctx.select(isWhole, ctx.sub(n, masked), n);
  first = ctx.mul(ctx.toIndex(loadListed(ctx, number, isWhole)), keys);
  return loop;
}

/// The state after all keys of the rows that `far` marks; of others as it is.
static SmallVector<Value> walkRows(ReductionContext &ctx,
                                   SmallVector<Value> state, Value far) {
  // The mask's region tells which keys are live, whatever the lists have.
  if (!ctx.form.masksLate) {
    llvm::SaveAndRestore<KeyLists> lists(ctx.lists, KeyLists());
    return walkKeys(ctx, ctx.hullLower, ctx.hullUpper, state, far);
  }
  // Rows without live keys are no accident: tiles without any are passed over.
  OpBuilder::InsertionGuard guard(ctx.b);
  Value first;
  scf::ForOp loop = loopOverTiles(ctx, state, first);
  llvm::SaveAndRestore<KeyLists> lists(ctx.lists, KeyLists());
  Value keys = ctx.index(ctx.schedule.getBlockK());
  ValueRange own = loop.getRegionIterArgs();
  auto walk = [&] {
    return walkKeys(ctx, first, ctx.min(ctx.add(first, keys), ctx.hullUpper),
                    own, far);
  };
  scf::YieldOp::create(
      ctx.b, stepIf(ctx, anyLive(ctx, first, far), own, walk, nullptr));
  return loop.getResults();
}

/// Rows whose largest score is far from 0, or whose sum of exponents times
/// their powers is NaN where the sum of weights is not.
static Value findFarRows(ReductionContext &ctx, ValueRange state, Value rows) {
  // Sums of distances, and last the sum of ones.
  SmallVector<Value> inputs = {state[0]};
  if (ctx.form.distances) {
    auto components = state.drop_front(ctx.numStats());
    for (auto [i, sum] : llvm::enumerate(components))
      if (ctx.form.isDistance(i))
        inputs.push_back(sum);
    inputs.push_back(components[ctx.form.distances->ones]);
  }
  auto isFarRow = [&](Value row, Value, ValueRange x) -> SmallVector<Value> {
    Value no = arith::ConstantIntOp::create(ctx.b, false, 1);
    // Of f16 what is below the least anchor was taken for that
    // (emitNearAnchor).
    Value some = ctx.select(ctx.isIdentity(x[0]), no,
                            isFar(ctx, x[0], /*orAt=*/isF16(ctx)));
    for (Value sum : x.slice(1, x.size() - std::min<size_t>(x.size(), 2))) {
      Value lost = arith::AndIOp::create(
          ctx.b,
          arith::CmpFOp::create(ctx.b, arith::CmpFPredicate::UNO, sum, sum),
          arith::CmpFOp::create(ctx.b, arith::CmpFPredicate::ORD, x.back(),
                                x.back()));
      some = arith::OrIOp::create(ctx.b, some, lost);
    }
    Value inside = ctx.cmp(arith::CmpIPredicate::slt, row, rows);
    return {arith::AndIOp::create(ctx.b, inside, some)};
  };
  Type flags = ctx.tileType(ctx.schedule.getBlockQ(), 1, ctx.b.getI1Type());
  return ctx.map(inputs, flags, isFarRow).front();
}

/// Rows with a sum of values that is NaN, and `found`.
static Value findSpoiledRows(ReductionContext &ctx, ValueRange state,
                             Value rows, Value found) {
  Type flags = ctx.tileType(ctx.schedule.getBlockQ(), 1, ctx.b.getI1Type());
  for (unsigned i = 0; i < ctx.numComponents(); ++i) {
    if (ctx.monoid.getComponent(i) != Component::value)
      continue;
    SmallVector<Value> inputs = {ctx.rowSum(state[ctx.numStats() + i]), found};
    auto isSpoiled = [&](Value row, Value, ValueRange x) -> SmallVector<Value> {
      Value isNaN =
          arith::CmpFOp::create(ctx.b, arith::CmpFPredicate::UNO, x[0], x[0]);
      Value inside = ctx.cmp(arith::CmpIPredicate::slt, row, rows);
      isNaN = arith::AndIOp::create(ctx.b, inside, isNaN);
      return {arith::OrIOp::create(ctx.b, isNaN, x[1])};
    };
    found = ctx.map(inputs, flags, isSpoiled).front();
  }
  return found;
}

/// Rows whose weights may have been too small for numbers, and `found`.
static Value findFaintRows(ReductionContext &ctx, ValueRange state, Value rows,
                           Value found) {
  // Products of weights that are less than half of the last bit of the largest
  // one are normal numbers still.
  constexpr float least = 0x1p-90f;
  Value ones = state[ctx.numStats() + *sumOfOnes(ctx)];
  auto isFaint = [&](Value row, Value, ValueRange x) -> SmallVector<Value> {
    Value some = arith::CmpFOp::create(ctx.b, arith::CmpFPredicate::OLT, x[0],
                                       ctx.f32(least));
    Value inside = ctx.cmp(arith::CmpIPredicate::slt, row, rows);
    some = arith::AndIOp::create(ctx.b, inside, some);
    return {arith::OrIOp::create(ctx.b, some, x[1])};
  };
  return ctx.map({ones, found}, found.getType(), isFaint).front();
}

SmallVector<Value> mlir::attn::redoRows(ReductionContext &ctx,
                                        SmallVector<Value> state) {
  Value rows = ctx.toI32(ctx.liveRows), again;
  if (ctx.form.redoesFar)
    again = findFarRows(ctx, state, rows);
  if (ctx.form.redoesSpoiled) {
    Value some =
        ctx.numMasked
            ? ctx.cmp(arith::CmpIPredicate::sgt, ctx.numMasked, ctx.index(0))
            : ctx.cmp(arith::CmpIPredicate::slt, ctx.hullLower, ctx.hullUpper);
    auto find = [&] {
      Value found = findSpoiledRows(ctx, state, rows, again);
      if (ctx.form.masksLate)
        found = findFaintRows(ctx, state, rows, found);
      return SmallVector<Value>{found};
    };
    again = stepIf(ctx, some, again, find, nullptr).front();
  }
  Value any = tile::AnyOp::create(ctx.b, ctx.b.getI1Type(), again,
                                  /*by_rows=*/true);
  return stepIf(
      ctx, any, state,
      [&] {
        // One state at a time: two would not fit into the registers, nor one
        // that lives from the start.
        SmallVector<Value> first;
        for (auto [own, initial] :
             llvm::zip(state, initialState(ctx, /*ofRows=*/true)))
          first.push_back(ctx.map({again, initial, own}, own.getType(),
                                  [&](Value, Value, ValueRange x) {
                                    return SmallVector<Value>{
                                        ctx.select(x[0], x[1], x[2])};
                                  })
                              .front());
        return walkRows(ctx, first, again);
      },
      nullptr);
}
