//===- TileStream.cpp - The key tiles of a block --------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The mask's analysis says which keys a block visits (KeyRanges.h); a body for
// each class of key tiles loads one, and lets it enter the state of the rows.
//
//===----------------------------------------------------------------------===//

#include "TileStream.h"
#include "Pages.h"
#include "TileBlock.h"
#include "TileCaptures.h"
#include "TileDistances.h"
#include "TileElements.h"
#include "TileFused.h"
#include "TileLists.h"
#include "TileRotary.h"
#include "TileSteps.h"
#include "TurnRows.h"
#include "attn/Analysis/FewRows.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// The mask
//===----------------------------------------------------------------------===//

void mlir::attn::readMask(ReductionContext &ctx) {
  Region &region = ctx.reduction.getMaskBody();
  ctx.mask.emplace(region);
  ctx.maskUniform = [&ctx, &region](Value value) {
    return ctx.uniform(region, value, 0, ctx.reduction.getCaptureOperands());
  };
}

Value mlir::attn::cellAt(ReductionContext &ctx, Value value, Value row,
                         Value key) {
  Point point;
  point.row = point.safeRow = ctx.toI32(row);
  point.key = point.safeKey = ctx.toI32(key);
  point.safeRow = ctx.min(point.safeRow, ctx.lastRow());
  PointCloner cloner(ctx, ctx.reduction.getMaskBody(), 0, /*hasKey=*/true,
                     ctx.reduction.getCaptureOperands(), point);
  Value read = cloner.get(value);
  Type i32Type = ctx.b.getI32Type();
  if (read.getType().isInteger(1))
    return arith::ExtUIOp::create(ctx.b, i32Type, read);
  if (read.getType() != i32Type)
    return arith::ExtSIOp::create(ctx.b, i32Type, read);
  return read;
}

static ::attn::MaskAnalysis::Class
classOfRows(ReductionContext &ctx, Value firstRow, Value lastRow, Value first) {
  Value last = ctx.add(first, ctx.index(ctx.schedule.getBlockK() - 1));
  last = ctx.min(last, ctx.sub(ctx.numKeys, ctx.index(1)));
  ::attn::MaskAnalysis::CellFn cell = [&](Value value) {
    return cellAt(ctx, value, firstRow, first);
  };
  // Packed rows may be of several heads.
  if (ctx.packsHeads || ctx.headVaries)
    cell = nullptr;
  auto result = ctx.mask->emitClass(ctx.b, ctx.loc, ctx.maskUniform, firstRow,
                                    lastRow, first, last, ctx.maskValid, cell);
  // A ragged tile has keys that no mask speaks of.
  Value whole = ctx.cmp(arith::CmpIPredicate::sle,
                        ctx.add(first, ctx.index(ctx.schedule.getBlockK())),
                        ctx.hullUpper);
  result.full = ctx.b.createOrFold<arith::AndIOp>(result.full, whole);
  return result;
}

::attn::MaskAnalysis::Class mlir::attn::classOf(ReductionContext &ctx,
                                                Value first) {
  auto [firstRow, lastRow] = tilePositions(ctx);
  return classOfRows(ctx, firstRow, lastRow, first);
}

//===----------------------------------------------------------------------===//
// One tile
//===----------------------------------------------------------------------===//

/// What a tile of `value` is loaded from. On a GPU the tile of the keys has
/// their columns already.
static Value memoryOf(ReductionContext &ctx, Value value) {
  return isGpu(ctx) ? keysWithColumns(ctx.reduction, value) : value;
}

/// Loads a tile's keys and values, and between them what its pairs have: the
/// slots of values are given back last, where products run beside the next
/// step, and copies are issued in the order of the loads.
static void loadKeys(ReductionContext &ctx, const KeyTile &tile,
                     RowBlock &rowBlock,
                     SmallVectorImpl<std::pair<Value, Value>> &pairs) {
  // A block_k that is no multiple of 32 is padded with dead keys.
  int64_t cols = keyCols(ctx);
  bool padded = cols != ctx.schedule.getBlockK();
  Value end = ctx.hullUpper;
  if (padded)
    end =
        ctx.min(end, ctx.add(tile.first, ctx.index(ctx.schedule.getBlockK())));
  auto load = [&](Value tensor, int64_t width, Type narrow, Value live,
                  ValueRange at, bool isKey) -> Value {
    Type type = narrow ? narrow : ctx.b.getF32Type();
    Value lower = ctx.hullLower, upper = end;
    // Every key of a full tile is in range.
    if (isGpu(ctx) && !tile.masked)
      lower = upper = Value();
    auto loaded = tile::LoadOp::create(
        ctx.b, ctx.tileType(cols, width, type),
        isKey ? openMultiplied(ctx, tensor) : openKeys(ctx, tensor), at, lower,
        upper, live, /*vector=*/false);
    // Rows that show what is outside a window are done again.
    if (ctx.form.masksLate && lower && !live)
      loaded.setNotCleared(true);
    return loaded;
  };
  if (turnsRows(ctx))
    rowBlock.keys =
        turnKeys(ctx, tile, [&](Value tensor, int64_t width, ValueRange at) {
          return load(tensor, width, /*narrow=*/Type(), /*live=*/Value(), at,
                      /*isKey=*/true);
        });
  else
    for (Value tensor : ctx.reduction.getKeyOperands()) {
      // What is a value too, as in gradients and where the values are columns
      // that fill up to as many as the keys have, is loaded once.
      int64_t width = paddedDepth(ctx, tensor);
      bool isValue =
          llvm::any_of(ctx.reduction.getValueOperands(), [&](Value value) {
            return memoryOf(ctx, value) == tensor &&
                   (value == tensor || paddedChannels(ctx, value) == width);
          });
      rowBlock.keys.push_back(load(tensor, width, ctx.narrowDots,
                                   isValue ? tile.live : Value(),
                                   ctx.fromFirst(ctx.keyHead, tile.first),
                                   /*isKey=*/true));
      if (turnsInside(ctx.reduction, ctx.target))
        rowBlock.keys.back() = turnInPlace(ctx, tile, rowBlock.keys.back());
    }
  loadPairElements(ctx, tile, pairs);
  for (Value tensor : ctx.reduction.getValueOperands()) {
    // A value that no row may see must not reach one, not even times 0.
    rowBlock.values.push_back(load(
        memoryOf(ctx, tensor), paddedChannels(ctx, tensor), ctx.narrowValues,
        tile.live, ctx.at(ctx.keyHead, tile.first, /*channel=*/true),
        /*isKey=*/false));
  }
}

SmallVector<Value> mlir::attn::step(ReductionContext &ctx, const KeyTile &tile,
                                    ValueRange state) {
  RowBlock rowBlock(tile);
  SmallVector<std::pair<Value, Value>> pairs;
  loadKeys(ctx, tile, rowBlock, pairs);

  // The weights of a step are there for what it adds to memory, and where each
  // adds for itself, no other step reads them.
  SmallVector<Value> outs(state);
  if (!sumsHaveOrder(ctx))
    appendNoWeights(ctx, outs);
  SmallVector<Value> inputs(ctx.queryTiles);
  for (auto [element, tile] : ctx.held)
    inputs.push_back(tile);
  for (auto [element, tile] : pairs)
    inputs.push_back(tile);
  auto rows = tile::RowsOp::create(ctx.b, ValueRange(outs).getTypes(), inputs,
                                   outs, ctx.liveRows, ctx.schedule.getRows());
  OpBuilder::InsertionGuard guard(ctx.b);
  Block *block = ctx.b.createBlock(&rows.getBody());
  Value first = block->addArgument(ctx.b.getIndexType(), ctx.loc);
  auto cut = [&](Value whole) -> Value {
    auto type = cast<tile::TileType>(whole.getType());
    return block->addArgument(ctx.tileType(ctx.schedule.getRows(),
                                           type.getCols(),
                                           type.getElementType()),
                              ctx.loc);
  };
  for (Value query : ctx.queryTiles)
    rowBlock.queries.push_back(cut(query));
  for (auto [element, tile] : ctx.held)
    rowBlock.held.push_back(cut(tile));
  for (auto [element, tile] : pairs)
    rowBlock.samples.push_back({element, cut(tile)});
  for (Value part : outs)
    rowBlock.state.push_back(cut(part));
  rowBlock.firstRow = ctx.add(ctx.row0, first);
  SmallVector<Value> next;
  if (ctx.mask && tile.masked && ctx.schedule.getLoop() != LoopShape::plain &&
      !isGpu(ctx) && !ctx.packsHeads &&
      ctx.schedule.getRows() < ctx.schedule.getBlockQ()) {
    // A tile on the diagonal is dead for many of its row blocks.
    Value lastRow = ctx.sub(ctx.add(ctx.row0, ctx.liveRows), ctx.index(1));
    lastRow = ctx.min(lastRow, ctx.add(rowBlock.firstRow,
                                       ctx.index(ctx.schedule.getRows() - 1)));
    Value one = arith::ConstantIntOp::create(ctx.b, ctx.b.getI1Type(), 1);
    Value alive = ctx.b.createOrFold<arith::XOrIOp>(
        classOfRows(ctx, rowBlock.firstRow, lastRow, tile.first).dead, one);
    next = stepIf(
        ctx, alive, rowBlock.state, [&] { return stepRows(ctx, rowBlock); },
        [&] { return withoutWeights(ctx, rowBlock.state); });
  } else {
    next = stepRows(ctx, rowBlock);
  }
  tile::YieldOp::create(ctx.b, next);
  if (ctx.rowSums.empty())
    return rows.getResults();
  ctx.b.setInsertionPointAfter(rows);
  enterRowSums(ctx, tile, rows.getResults());
  return llvm::to_vector_of<Value>(rows.getResults().take_front(state.size()));
}

/// Which keys of a tile are live in some row: a 1xC tile of i1.
static Value liveKeys(ReductionContext &ctx, const KeyTile &tile) {
  auto type =
      ctx.tileType(ctx.schedule.getBlockQ(), keyCols(ctx), ctx.b.getI1Type());
  RowBlock block(tile);
  block.firstRow = ctx.row0;
  prepare(ctx, block);
  Value last = ctx.sub(ctx.liveRows, ctx.index(1));
  // A tile that fills up a cluster has no rows; what is read for it is there.
  if (clusterOf(ctx.schedule, ctx.target) > 1)
    last = ctx.max(last, ctx.index(0));
  Value lastRow = ctx.toI32(last);
  Value elements = ctx.map({}, type,
                           [&](Value row, Value col, ValueRange) {
                             // Rows beyond the last stand for it.
                             return SmallVector<Value>{liveByMask(
                                 ctx, block, ctx.min(row, lastRow), col)};
                           })
                       .front();
  Value none = arith::ConstantIntOp::create(ctx.b, ctx.b.getI1Type(), 0);
  return ctx
      .reduce(
          elements, none, /*ordered=*/false,
          [&](ValueRange x, ValueRange y) -> SmallVector<Value> {
            return {arith::OrIOp::create(ctx.b, x[0], y[0])};
          },
          /*overRows=*/true)
      .front();
}

/// Whether tiles are full as the cells of the mask say, and are found by a
/// test of each: none of them is in a core.
static bool testsCells(const ReductionContext &ctx) {
  return ctx.mask && ctx.target.isCpu() && !ctx.mask->facts().hasCore &&
         !ctx.mask->getCells().empty();
}

/// The bodies of the classes of key tiles.
static StreamBodies streamBodies(ReductionContext &ctx) {
  bool isPadded = keyCols(ctx) != ctx.schedule.getBlockK();
  StreamBodies bodies;
  bodies.partial = [=, &ctx](ValueRange of, ValueRange state) {
    KeyTile tile{of[0], /*masked=*/true};
    // A padded tile has columns of the next one, which only the mask hides. No
    // CPU peels a tile of unknown class.
    if (!isPadded && isGpu(ctx))
      tile.whole = of[1];
    if (!ctx.mask || ctx.mask->facts().hullIsExact)
      return step(ctx, tile, state);
    tile.live = liveKeys(ctx, tile);
    if (ctx.schedule.getLoop() == LoopShape::plain ||
        !ctx.mask->facts().isDataDependent)
      return step(ctx, tile, state);
    Value any = tile::AnyOp::create(ctx.b, ctx.b.getI1Type(), tile.live);
    return stepIf(
        ctx, any, state, [&] { return step(ctx, tile, state); }, nullptr);
  };
  if (!ctx.mask || ctx.mask->facts().hasCore || testsCells(ctx))
    bodies.full = [=, &ctx](ValueRange of, ValueRange state) {
      return step(ctx, {of[0], /*masked=*/isPadded}, state);
    };
  bool hullIsExact = ctx.mask && ctx.mask->facts().hullIsExact;
  if (ctx.mask && (!hullIsExact || ctx.schedule.getLoop() == LoopShape::masked))
    bodies.classify = [=, &ctx](ValueRange of, ValueRange) {
      auto tileClass = classOf(ctx, of[0]);
      // Within an exact hull no tile is dead.
      Value none = arith::ConstantIntOp::create(ctx.b, ctx.b.getI1Type(), 0);
      return SmallVector<Value>{hullIsExact ? none : tileClass.dead,
                                tileClass.full};
    };
  return bodies;
}

static SmallVector<Value> streamLists(ReductionContext &ctx, ValueRange state) {
  readMask(ctx);
  ctx.keyEnd = ctx.hullUpper = ctx.numKeys;
  ctx.hullLower = ctx.index(0);
  auto count = [&](int64_t which) {
    SmallVector<Value> indices = listIndices(ctx);
    indices.push_back(ctx.index(which));
    return ctx.toIndex(memref::LoadOp::create(ctx.b, ctx.lists.tiles, indices));
  };
  Value masked = count(KeyLists::masks), whole = count(KeyLists::wholes);
  bool isPadded = keyCols(ctx) != ctx.schedule.getBlockK();
  // A padded tile has columns of the next one, which may be dead.
  ctx.numMasked = isPadded ? ctx.add(masked, whole) : masked;
  StreamBodies bodies;
  bodies.number = [&](ValueRange of, ValueRange) {
    return SmallVector<Value>{loadListed(ctx, of[0], of[1])};
  };
  bodies.partial = [&](ValueRange of, ValueRange state) {
    return stepListed(ctx, of[0], of[1], of[3], state);
  };
  bodies.full = [&](ValueRange of, ValueRange state) {
    KeyTile tile{of[0], /*masked=*/isPadded};
    tile.ragged = isPadded;
    return step(ctx, tile, state);
  };
  // What is known of masked tiles is read from where the tile's number says: it
  // is loaded one step ahead.
  return emitListedStream(ctx.b, ctx.loc, masked, whole,
                          /*ahead=*/pipelined(ctx), ctx.schedule.getBlockK(),
                          state, bodies);
}

/// Whether a tensor is empty that scores or the mask read an element of for
/// each row or key. An index is brought into its tensor, which has to have one.
static Value readsEmpty(ReductionContext &ctx) {
  ValueRange captures = ctx.reduction.getCaptureOperands();
  llvm::SmallSetVector<std::pair<Value, int64_t>, 4> extents;
  auto collect = [&](Region &region, unsigned firstPosition) {
    if (region.empty())
      return;
    unsigned firstCapture = region.getNumArguments() - captures.size();
    auto depends = [&](Value index) {
      return dependsOn(index, region.getArgument(firstPosition + 2)) ||
             dependsOn(index, region.getArgument(firstPosition + 3));
    };
    region.walk([&](tensor::ExtractOp extract) {
      auto argument = dyn_cast<BlockArgument>(extract.getTensor());
      if (!argument || argument.getArgNumber() < firstCapture)
        return;
      auto type = cast<RankedTensorType>(argument.getType());
      for (auto [d, index] : llvm::enumerate(extract.getIndices()))
        if (type.isDynamicDim(d) && depends(index))
          extents.insert({captures[argument.getArgNumber() - firstCapture], d});
    });
  };
  collect(ctx.reduction.getMaskBody(), 0);
  collect(ctx.reduction.getScoreBody(),
          ctx.reduction.getQueryOperands().size());
  Value any;
  for (auto [capture, d] : extents) {
    Value extent =
        memref::DimOp::create(ctx.b, ctx.loc, ctx.arg(capture), int64_t(d));
    Value empty = ctx.cmp(arith::CmpIPredicate::eq, extent, ctx.index(0));
    any = any ? arith::OrIOp::create(ctx.b, any, empty).getResult() : empty;
  }
  return any;
}

KeyRangeProblem mlir::attn::describeRanges(ReductionContext &ctx) {
  KeyRangeProblem problem;
  problem.numKeys = problem.limit = ctx.numKeys;
  if (!ctx.rowSource.hasBatch() || ctx.rowSource.lengths)
    problem.limit = ctx.select(
        ctx.cmp(arith::CmpIPredicate::sgt, ctx.liveRows, ctx.index(0)),
        ctx.numKeys, ctx.index(0));
  // Of others, what runs the entry has compared the sizes of captures.
  if (ctx.hasOwnSizes)
    if (Value empty = readsEmpty(ctx))
      problem.limit = ctx.select(empty, ctx.index(0), problem.limit);
  if (!ctx.reduction.getMaskBody().empty()) {
    readMask(ctx);
    problem.mask = &*ctx.mask;
    problem.uniform = ctx.maskUniform;
    std::tie(problem.firstRow, problem.lastRow) = tilePositions(ctx);
  }
  return problem;
}

bool mlir::attn::pipelined(const ReductionContext &ctx) {
  return isGpu(ctx) && ctx.target.hasRoles() &&
         (ctx.lists.tiles || !ctx.mask || ctx.mask->facts().hullIsExact) &&
         (ctx.schedule.getRows() == ctx.target.productShape().m ||
          ::attn::rowsAreHalf(ctx.schedule.getBlockQ(), ctx.schedule.getRows(),
                              ctx.target));
}

/// The next work tile is fetched late, unless the schedule says otherwise.
static void fetchLate(ReductionContext &ctx) {
  ScheduleAttr decided = ctx.kernel.getScheduleAttr();
  if (ctx.schedule.getFetch() == Fetch::automatic &&
      decided.getFetch() == Fetch::producer)
    ctx.kernel.setScheduleAttr(decided.withFetch(Fetch::late));
}

/// Whether the next work tile is fetched late where the ends of its keys take
/// long to find: one end for keys and values of 128 columns, both for all but
/// those of 64 with one product, whose steps are in another order by then
/// (measured: docs/performance/gpu.md, "The order of a step").
static bool fetchesLate(ReductionContext &ctx, bool isWindow) {
  auto areAll = [&](int64_t columns) {
    auto fits = [&](Value tensor) {
      return cast<ShapedType>(tensor.getType()).getShape().back() == columns;
    };
    return llvm::all_of(ctx.reduction.getKeyOperands(), fits) &&
           llvm::all_of(ctx.reduction.getValueOperands(), fits);
  };
  if (isWindow)
    return !areAll(64) || ctx.reduction.getQueryOperands().size() > 1;
  return ctx.mask && ctx.mask->facts().endDiffersByRow && areAll(128);
}

/// What scores add of pairs that are far apart, on one side: what one of them
/// has.
static SmallVector<Value> farTerms(ReductionContext &ctx, bool isAhead) {
  const LinearBias &bias = ctx.linear;
  Value zero = ctx.i32(0), distance = isAhead ? bias.farAhead : bias.farBehind;
  Point point;
  point.row = point.safeRow = distance && !isAhead ? distance : zero;
  point.key = point.safeKey = distance && isAhead ? distance : zero;
  PointCloner cloner(ctx, ctx.reduction.getScoreBody(), 1, /*hasKey=*/true,
                     ctx.reduction.getCaptureOperands(), point);
  return llvm::map_to_vector(bias.far.values,
                             [&](Value value) { return cloner.get(value); });
}

SmallVector<Value> mlir::attn::streamKeys(ReductionContext &ctx,
                                          ValueRange state) {
  if (ctx.lists.tiles)
    return streamLists(ctx, state);
  if (ctx.diesByElement)
    holdElements(ctx);
  KeyRangeProblem problem = describeRanges(ctx);
  problem.split = ctx.split;
  problem.parts = ctx.parts;
  problem.partKeys = ctx.partKeys;
  problem.granule = granuleOf(ctx.reduction);
  bool isPeeled = ctx.schedule.getLoop() == LoopShape::peeled;
  bool isWindow = false;
  if (problem.mask) {
    const ::attn::MaskAnalysis::Facts &facts = ctx.mask->facts();
    isWindow = !facts.startsAtFirstKey;
    // A warpgroup of the block may be done some tiles before the others. With a
    // tile as long as the block they part by half of one at most. That pays at
    // both ends of the keys: at one of them the warpgroups of a block wait for
    // the one that has the whole tile.
    bool bothEnds =
        isWindow && facts.startDiffersByRow && facts.endDiffersByRow;
    problem.endsByRows =
        pipelined(ctx) && !ctx.packsHeads && isPeeled && !ctx.linear.hasSides &&
        ctx.linear.far.values.empty() &&
        ctx.schedule.getBlockQ() > ctx.schedule.getRows() &&
        (bothEnds || (!facts.startDiffersByRow &&
                      ctx.schedule.getBlockQ() > ctx.schedule.getBlockK()));
  }
  KeyRanges ranges = emitKeyRanges(ctx.b, ctx.loc, problem);
  ctx.maskValid = ranges.valid;
  ctx.keyEnd = ranges.end;
  ctx.hullLower = ranges.lower;
  ctx.hullUpper = ranges.upper;
  if (testsCells(ctx))
    ranges.coreLower = ranges.coreUpper = ctx.index(0);
  // Rows that do not exist have weights, which must not reach a sum: the bodies
  // of whole tiles have no test for them.
  if (!ctx.rowSums.empty() && !sumsHaveOrder(ctx) && ranges.coreUpper)
    ranges.coreUpper =
        ctx.select(ctx.cmp(arith::CmpIPredicate::slt, ctx.liveRows,
                           ctx.index(ctx.schedule.getBlockQ())),
                   ctx.index(0), ranges.coreUpper);

  StreamBodies bodies = streamBodies(ctx);
  auto stream = [&](const KeyRanges &ranges, const LinearRange &linear = {}) {
    return emitStream(ctx.b, ctx.loc, ranges, linear, ctx.schedule.getBlockK(),
                      state, bodies);
  };
  if (!isPeeled || !ranges.coreLower || !pipelined(ctx))
    return stream(ranges);
  if (fetchesLate(ctx, isWindow))
    fetchLate(ctx);
  auto streamPeeled = [&]() -> SmallVector<Value> {
    if (!ctx.linear.applies)
      return stream(ranges);
    SmallVector<Value> behind = farTerms(ctx, /*isAhead=*/false),
                       ahead = farTerms(ctx, /*isAhead=*/true);
    bodies.full = nullptr;
    bodies.linear = [&](ValueRange of, ValueRange state) {
      KeyTile tile{of[0], /*masked=*/false};
      tile.linear = true;
      tile.ramp = ctx.linear.ramp(ctx.b, ctx.loc, of[1]);
      for (auto [left, right] : llvm::zip_equal(behind, ahead))
        tile.far.push_back(ctx.select(of[1], left, right));
      return step(ctx, tile, state);
    };
    auto toUniform = [&](Value value) {
      return ctx.uniform(*ctx.linear.region, value, 0,
                         ctx.reduction.getCaptureOperands());
    };
    auto [firstRow, lastRow] = tilePositions(ctx);
    return stream(ranges, emitLinearRange(ctx.b, ctx.loc, ctx.linear, toUniform,
                                          firstRow, lastRow, ctx.numKeys));
  };
  if (!ctx.mask || !ctx.mask->facts().hasRowIntervals)
    return streamPeeled();
  // Where the region's integers wrap, only the region knows.
  auto streamIntervals = [&] {
    ctx.rowIntervals = true;
    SmallVector<Value> next = streamPeeled();
    ctx.rowIntervals = false;
    return next;
  };
  if (isAlwaysValid(ctx.reduction, *ctx.mask))
    return streamIntervals();
  return stepIf(ctx, ctx.maskValid, state, streamIntervals, [&] {
    KeyRanges unread = ranges;
    unread.coreLower = unread.coreUpper = Value();
    bodies.full = bodies.linear = nullptr;
    return stream(unread);
  });
}
