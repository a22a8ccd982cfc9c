//===- TileDistances.cpp - Tiles that read one element of a table ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A table of relative positions has an element for each distance of a row and a
// key up to some largest one, which stands for all beyond. Of long sequences
// most tiles are of such pairs: all of them read one element, once for the
// tile. Near tiles, which read one for each pair, are listed among the masked
// ones.
//
// Which distances are far the index says (Distances.h). What tests the distance
// is told by the tile then, too.
//
// Where only the elements say it, a kernel before the reduction compares what
// each distance has with what the largest one has, for each batch and head.
//
//===----------------------------------------------------------------------===//

#include "TileDistances.h"
#include "Distances.h"
#include "NamedRewrites.h"
#include "TileElements.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace mlir::attn;

/// From which distance on an element is the same for all pairs, on one side.
static std::optional<int64_t> farFrom(tensor::ExtractOp extract, Value row,
                                      Value key, bool isAhead) {
  int64_t from = 0;
  for (Value index : extract.getIndices()) {
    std::optional<FarValue> far = findFarValue(index, row, key, isAhead);
    if (!far)
      return std::nullopt;
    from = std::max(from, far->from);
  }
  return from;
}

/// What a test of a distance says of distant pairs: the same for all of a tile,
/// if not of all tiles.
static std::optional<DistantPairs::Read>
readTest(Operation *op, Value row, Value key, const DistantPairs &pairs) {
  DistantPairs::Read read = {op->getResult(0), {}};
  bool isFirst = true;
  for (auto [isAhead, from] :
       {std::pair(false, pairs.behind), std::pair(true, pairs.ahead)}) {
    if (!from)
      continue;
    std::optional<FarValue> far = findFarValue(read.value, row, key, isAhead);
    if (!far || far->from > *from)
      return std::nullopt;
    if (isFirst)
      read.constant = far->value;
    else if (read.constant != far->value)
      read.constant.reset();
    isFirst = false;
  }
  return read;
}

std::optional<DistantPairs>
mlir::attn::findDistantPairs(ReductionOpInterface op) {
  Region &score = op.getScoreBody();
  if (score.empty())
    return std::nullopt;
  unsigned first = op.getQueryOperands().size();
  Value row = score.getArgument(first + 2), key = score.getArgument(first + 3);
  auto isOfPair = [&](Operation &inner) {
    return dependsOn(inner.getResult(0), row) &&
           dependsOn(inner.getResult(0), key);
  };
  DistantPairs pairs;
  pairs.behind = pairs.ahead = 0;
  for (auto extract : score.getOps<tensor::ExtractOp>()) {
    if (!isOfPair(*extract))
      continue;
    pairs.reads.push_back({extract, {}});
    for (bool isAhead : {false, true}) {
      std::optional<int64_t> &from = isAhead ? pairs.ahead : pairs.behind;
      std::optional<int64_t> own = farFrom(extract, row, key, isAhead);
      from = from && own ? std::optional(std::max(*from, *own)) : std::nullopt;
    }
  }
  if (pairs.reads.empty() || (!pairs.behind && !pairs.ahead))
    return std::nullopt;
  llvm::SmallPtrSet<Operation *, 4> tests;
  for (Operation &inner : llvm::reverse(score.front()))
    if (isa<arith::CmpIOp, arith::OrIOp>(inner) && isOfPair(inner) &&
        inner.getResult(0).getType().isInteger(1))
      if (auto read = readTest(&inner, row, key, pairs)) {
        tests.insert(&inner);
        // What is left of another test's operands need not be read.
        if (!llvm::all_of(inner.getUsers(), [&](Operation *user) {
              return tests.contains(user);
            }))
          pairs.reads.push_back(*read);
      }
  return pairs;
}

bool mlir::attn::listsDistantTiles(ReductionContext &ctx) {
  return !ctx.packsHeads && !ctx.hasOwnSizes &&
         keyCols(ctx) == ctx.schedule.getBlockK() &&
         findDistantPairs(ctx.reduction);
}

Value mlir::attn::isDistantTile(ReductionContext &ctx, Value firstRow,
                                Value lastRow, Value firstKey, Value lastKey) {
  std::optional<DistantPairs> far = findDistantPairs(ctx.reduction);
  Value result;
  auto either = [&](std::optional<int64_t> from, Value least) {
    if (!from)
      return;
    Value isFar = ctx.cmp(arith::CmpIPredicate::sge, least, ctx.i32(*from));
    result =
        result ? arith::OrIOp::create(ctx.b, result, isFar).getResult() : isFar;
  };
  either(far->behind, ctx.sub(firstRow, lastKey));
  either(far->ahead, ctx.sub(firstKey, lastRow));
  return result;
}

void mlir::attn::loadDistantElements(ReductionContext &ctx, RowBlock &block) {
  if (!ctx.lists.tiles || block.tile.masked || !listsDistantTiles(ctx))
    return;
  Region &score = ctx.reduction.getScoreBody();
  Value zero = ctx.i32(0);
  std::optional<DistantPairs> pairs = findDistantPairs(ctx.reduction);
  for (auto [value, constant] : pairs->reads) {
    auto type = ctx.tileType(ctx.schedule.getRows(), 1, value.getType());
    Value tile =
        ctx.map({}, type,
                [&, value = value, constant = constant](Value, Value,
                                                        ValueRange) {
                  if (constant)
                    return SmallVector<Value>{arith::ConstantIntOp::create(
                        ctx.b, ctx.loc, value.getType(), *constant)};
                  PointCloner cloner(
                      ctx, score, ctx.reduction.getQueryOperands().size(),
                      /*hasKey=*/true, ctx.reduction.getCaptureOperands(),
                      pointOf(ctx, block, zero, zero));
                  return SmallVector<Value>{cloner.get(value)};
                })
            .front();
    block.samples.push_back({value, tile});
  }
}

//===----------------------------------------------------------------------===//
// Without lists
//===----------------------------------------------------------------------===//

/// What of `pairs` is one element that is added, and nothing else.
static Value onlyElement(const std::optional<DistantPairs> &pairs) {
  return pairs && pairs->reads.size() == 1 ? pairs->reads.front().value
                                           : Value();
}

void mlir::attn::holdElements(ReductionContext &ctx) {
  ctx.held.clear();
  Region &score = ctx.reduction.getScoreBody();
  unsigned first = ctx.reduction.getQueryOperands().size();
  auto hold = [&](Value element, Value row, Value key) {
    Value base = ctx.rowBase(ctx.row0), last = ctx.lastRow();
    auto type = ctx.tileType(ctx.schedule.getBlockQ(), 1, element.getType());
    ctx.held.push_back(
        {element, ctx.map({}, type,
                          [&](Value own, Value, ValueRange) {
                            Point point = ctx.rowPoint(base, own, last);
                            if (row)
                              point.row = point.safeRow = row;
                            point.key = point.safeKey = key;
                            PointCloner cloner(
                                ctx, score, first, /*hasKey=*/true,
                                ctx.reduction.getCaptureOperands(), point);
                            return SmallVector<Value>{cloner.get(element)};
                          })
                      .front()});
  };
  Value zero = ctx.i32(0);
  // Where weights alone are summed, too, no register is left for a row's own
  // element: a bias of keys and its gradient lost 8 % (measured).
  bool sumsUnits =
      llvm::any_of(llvm::seq(ctx.numComponents()), [&](unsigned i) {
        return ctx.monoid.getComponent(i) == Component::unit;
      });
  for (auto extract : score.getOps<tensor::ExtractOp>())
    if (!sumsUnits && dependsOn(extract, score.getArgument(first + 2)) &&
        !dependsOn(extract, score.getArgument(first + 3)))
      hold(extract, Value(), zero);
  ctx.numOwnHeld = ctx.held.size();
  std::optional<DistantPairs> pairs = findDistantPairs(ctx.reduction);
  Value element = onlyElement(pairs);
  if (!element || !listsDistantTiles(ctx))
    return;
  hold(element, ctx.i32(pairs->behind.value_or(0)), zero);
  hold(element, zero, ctx.i32(pairs->ahead.value_or(0)));
}

/// What is made of the first dot and of `element`, and of nothing else that
/// pairs have; or null.
static Value sumWithDot(ReductionContext &ctx, Value element) {
  if (!element.getType().isF32() || !element.hasOneUse())
    return {};
  Operation *sum = *element.user_begin();
  ValueRange dots = ctx.reduction.getScoreBody().getArguments().take_front(
      ctx.reduction.getQueryOperands().size());
  if (!isa<arith::AddFOp, math::FmaOp>(sum) ||
      !dependsOn(sum->getResult(0), dots.front()) ||
      llvm::any_of(dots.drop_front(), [&](Value dot) {
        return dependsOn(sum->getResult(0), dot);
      }))
    return {};
  return sum->getResult(0);
}

void mlir::attn::takeHeld(ReductionContext &ctx, RowBlock &block,
                          SmallVectorImpl<Value> &dots) {
  for (auto [held, tile] : llvm::zip_first(
           ArrayRef(ctx.held).take_front(ctx.numOwnHeld), block.held))
    block.samples.push_back({held.first, tile});
  if (ctx.held.size() == ctx.numOwnHeld)
    return;
  Value element = ctx.held.back().first, sum = sumWithDot(ctx, element);
  if (!sum)
    return;
  Region &score = ctx.reduction.getScoreBody();
  auto sumAt = [&](Value row, Value col, Value dot, Value known) {
    PointCloner cloner(ctx, score, dots.size(), /*hasKey=*/true,
                       ctx.reduction.getCaptureOperands(),
                       pointOf(ctx, block, row, col));
    cloner.map(score.getArgument(0), dot);
    if (known)
      cloner.map(element, known);
    return SmallVector<Value>{cloner.get(sum)};
  };
  Value firstRow = ctx.toI32(ctx.row0), firstKey = ctx.toI32(block.tile.first);
  Value isAhead = ctx.cmp(arith::CmpIPredicate::sgt, firstKey, firstRow);
  auto distant = [&]() {
    SmallVector<Value> inputs = {dots.front()};
    llvm::append_range(inputs, ArrayRef(block.held).take_back(2));
    return ctx.map(
        inputs, scoreTile(ctx), [&](Value row, Value col, ValueRange x) {
          return sumAt(row, col, x[0], ctx.select(isAhead, x[2], x[1]));
        });
  };
  auto near = [&]() {
    return ctx.map(dots.front(), scoreTile(ctx),
                   [&](Value row, Value col, ValueRange x) {
                     return sumAt(row, col, x[0], Value());
                   });
  };
  auto last = [&](Value first, int64_t count) -> Value {
    return ctx.add(first, ctx.i32(count - 1));
  };
  Value isDistant =
      isDistantTile(ctx, firstRow, last(firstRow, ctx.schedule.getBlockQ()),
                    firstKey, last(firstKey, keyCols(ctx)));
  dots.front() = choose(ctx, isDistant, scoreTile(ctx), distant, near).front();
  block.samples.push_back({sum, dots.front()});
}

//===----------------------------------------------------------------------===//
// Distances that are measured
//===----------------------------------------------------------------------===//

void mlir::attn::buildFarDistances(KeyListContext &ctx, Value into,
                                   Value block) {
  constexpr int64_t run = 32, bits = 32;
  ctx.b.setInsertionPointToStart(&ctx.kernel.getBody().front());
  auto work =
      tile::WorkTileOp::create(ctx.b, block, ctx.dim(into, 0), ctx.dim(into, 1),
                               ctx.index(1), ctx.index(2));
  ctx.batch = work.getBatch();
  ctx.head = work.getHead();
  ctx.batchI32 = ctx.toI32(ctx.batch);
  ctx.headI32 = ctx.toI32(ctx.head);
  ctx.uniformPoint = ctx.index(0).getDefiningOp();
  Value isAhead =
      ctx.cmp(arith::CmpIPredicate::ne, work.getPart(), ctx.index(0));
  auto rowsOf = [&](Value tensor) { return ctx.dim(ctx.arg(tensor), 2); };
  Value size =
      ctx.select(isAhead, rowsOf(ctx.reduction.getKeyOperands().front()),
                 rowsOf(ctx.reduction.getQueryOperands().front()));
  Value zero = ctx.i32(0);
  Value last = ctx.max(ctx.sub(ctx.toI32(size), ctx.i32(1)), zero);
  SmallVector<Value> terms = findFarTerms(ctx.reduction).values;
  auto termsAt = [&](Value distance) {
    Point point;
    point.row = point.safeRow = ctx.select(isAhead, zero, distance);
    point.key = point.safeKey = ctx.select(isAhead, distance, zero);
    PointCloner cloner(ctx, ctx.reduction.getScoreBody(), 1, /*hasKey=*/true,
                       ctx.reduction.getCaptureOperands(), point);
    return llvm::map_to_vector(terms, [&](Value term) -> Value {
      return arith::BitcastOp::create(ctx.b, ctx.b.getI32Type(),
                                      cloner.get(term));
    });
  };
  SmallVector<Value> farthest = termsAt(last);
  auto loop = scf::ForOp::create(ctx.b, ctx.index(0), size,
                                 ctx.index(keyCols(ctx) * run), zero);
  {
    OpBuilder::InsertionGuard guard(ctx.b);
    ctx.b.setInsertionPointToStart(loop.getBody());
    Value first = ctx.toI32(loop.getInductionVar());
    auto differ = [&](Value row, Value col, ValueRange) -> SmallVector<Value> {
      Value own = ctx.add(ctx.mul(row, ctx.i32(run)), col);
      Value some;
      for (auto [x, y] : llvm::zip_equal(
               termsAt(ctx.min(ctx.add(first, own), last)), farthest)) {
        Value one = ctx.cmp(arith::CmpIPredicate::ne, x, y);
        some = some ? arith::OrIOp::create(ctx.b, some, one) : one;
      }
      return {some};
    };
    Type i1 = ctx.b.getI1Type();
    Value found =
        ctx.map({}, ctx.tileType(keyCols(ctx), run, i1), differ).front();
    Value from = loop.getRegionIterArg(0);
    for (auto [w, word] :
         llvm::enumerate(classWords(ctx, someOfRows(ctx, found)))) {
      Value behind = math::CountLeadingZerosOp::create(ctx.b, word);
      Value runs = ctx.sub(ctx.i32(bits * int64_t(w + 1)), behind);
      Value end = ctx.add(first, ctx.mul(runs, ctx.i32(run)));
      from =
          ctx.select(ctx.cmp(arith::CmpIPredicate::ne, word, zero), end, from);
    }
    scf::YieldOp::create(ctx.b, from);
  }
  memref::StoreOp::create(ctx.b, loop.getResult(0), into,
                          {ctx.batch, ctx.head, work.getPart()});
  tile::ReturnOp::create(ctx.b);
}
