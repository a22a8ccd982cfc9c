//===- TileKernel.cpp - The kernel of a reduction, start to end
//---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileKernel.h"
#include "TileAnchor.h"
#include "TileBlock.h"
#include "TileFarRows.h"
#include "TileFused.h"
#include "TileGroup.h"
#include "TileParts.h"
#include "TileRepair.h"
#include "TileScores.h"
#include "TileSteps.h"
#include "TileStream.h"
#include "TileWarps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

static int64_t channels(Value tensor) {
  return cast<ShapedType>(tensor.getType()).getShape().back();
}

int64_t mlir::attn::paddedDepth(const ReductionContext &ctx, Value tensor) {
  return ::attn::paddedDepth(channels(tensor), ctx.target);
}

int64_t mlir::attn::paddedChannels(const ReductionContext &ctx, Value tensor) {
  if (ctx.sliceChannels)
    return ctx.sliceChannels;
  return ::attn::paddedChannels(channels(tensor), ctx.target);
}

int64_t mlir::attn::keyCols(const ReductionContext &ctx) {
  return ::attn::paddedKeys(ctx.schedule.getBlockK(), ctx.target);
}

ReductionContext::ReductionContext(ReductionOpInterface op, MonoidOp monoid,
                                   const ::attn::TargetInfo &target,
                                   tile::KernelOp kernel)
    : KernelBuilder(op, monoid, target, kernel), reduction(op),
      schedule(op.getScheduleAttribute()) {
  isPartial = isa<PartialOp>(op.getOperation());
  ProductTypes types = findProductTypes(op, monoid, target);
  narrowDots = types.dots;
  narrowValues = types.values;
  tf32 = types.tf32;
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

SmallVector<Type> mlir::attn::stateTileTypes(ReductionContext &ctx,
                                             bool ofRows) {
  int64_t rows = ctx.schedule.getBlockQ();
  SmallVector<Type> types;
  for (Attribute stat : ctx.monoid.getStats())
    types.push_back(ctx.tileType(rows, 1, cast<TypeAttr>(stat).getValue()));
  unsigned nextValue = 0;
  for (unsigned i = 0; i < ctx.numComponents(); ++i)
    types.push_back(ctx.tileType(
        rows,
        ctx.monoid.getComponent(i) == Component::value && !ofRows
            ? paddedChannels(ctx, ctx.reduction.getValueOperands()[nextValue++])
            : 1));
  return types;
}

/// What the init region says, in the units of the monoid.
static SmallVector<Value> firstState(ReductionContext &ctx, TypeRange types) {
  Region &init = ctx.reduction.getInitBody();
  SmallVector<Value> identity, state;
  if (ctx.monoid.isGeneral())
    identity = ctx.call(ctx.monoid.getIdentity(), {});
  else
    identity = ctx.identityStats();
  identity.resize(types.size(), ctx.f32(0.0f));
  // The left factor enters the first split only.
  Value first;
  if (ctx.split)
    first = ctx.cmp(arith::CmpIPredicate::eq, ctx.split, ctx.index(0));
  ValueRange captures = ctx.reduction.getCaptureOperands();
  for (unsigned i = 0, e = types.size(); i < e; ++i) {
    Value value = getYielded(init)[i];
    auto convert = [&](Value x) -> Value {
      return first ? ctx.select(first, x, identity[i]) : x;
    };
    if (!ctx.varying(init, 0, /*hasKey=*/false).contains(value)) {
      state.push_back(ctx.fill(convert(ctx.uniform(init, value, 0, captures)),
                               cast<tile::TileType>(types[i])));
      continue;
    }
    state.push_back(
        ctx.map({}, types[i],
                [&](Value row, Value, ValueRange) {
                  PointCloner cloner(
                      ctx, init, 0, /*hasKey=*/false, captures,
                      ctx.rowPoint(ctx.rowBase(ctx.row0), row, ctx.lastRow()));
                  return SmallVector<Value>{convert(cloner.get(value))};
                })
            .front());
  }
  return state;
}

SmallVector<Value> mlir::attn::initialState(ReductionContext &ctx,
                                            bool ofRows) {
  SmallVector<Type> types = stateTileTypes(ctx, ofRows);
  // Each of several states starts from the identity (mergeAll).
  if (ctx.reduction.getInitBody().empty() || mergesStates(ctx))
    return ctx.identityState(types);
  SmallVector<Value> state = firstState(ctx, types);
  return ctx.form.exponential ? fromReferencePoint(ctx, state) : state;
}

/// The state of all warps and blocks that have keys of their own, behind what
/// rows start with.
static SmallVector<Value> mergeAll(ReductionContext &ctx, ValueRange state) {
  SmallVector<Value> merged = mergeStates(ctx, state);
  if (ctx.reduction.getInitBody().empty())
    return merged;
  // It is the same for all channels, and for all parts that have become one.
  if (partsOfCluster(ctx.schedule, ctx.target) > 1)
    ctx.split = Value();
  SmallVector<Value> first = firstState(ctx, stateTileTypes(ctx, true));
  return ctx.multiply(first, merged, /*computed=*/false, /*isExact=*/false);
}

static void storeState(ReductionContext &ctx, ValueRange state,
                       ValueRange outputs) {
  Value part = ctx.split ? ctx.split : ctx.index(0);
  SmallVector<Value> exact(state);
  if (ctx.form.exponential)
    exact = toReferencePoint(ctx, state);
  if (mergesStates(ctx))
    exact = mergeAll(ctx, exact);
  for (auto [tile, output] : llvm::zip(exact, outputs))
    if (output)
      ctx.storeRows(tile, output, part);
}

static void storeOutputs(ReductionContext &ctx, ValueRange state,
                         ValueRange outputs) {
  auto aggregate = cast<AggregateOp>(ctx.op);
  Region &own = aggregate.getFinalize();
  if (mergesStates(ctx)) {
    SmallVector<Value> exact(state);
    if (ctx.form.exponential)
      exact = toReferencePoint(ctx, state);
    return ctx.storeFinalized(own, mergeAll(ctx, exact),
                              ctx.reduction.getCaptureOperands(), outputs);
  }
  std::vector<bool> showsAnchor(outputs.size(), false);
  if (ctx.form.exponential && (ctx.form.fused || ctx.form.unit))
    showsAnchor = findAnchorShown(aggregate, ctx.monoid);
  // The outputs that show it, or the others.
  auto select = [&](bool shown) {
    SmallVector<Value> some(outputs);
    for (size_t i = 0; i < some.size(); ++i)
      if (showsAnchor[i] != shown)
        some[i] = Value();
    return some;
  };
  ctx.storeFinalized(
      own, fromExponents(ctx, state), ctx.reduction.getCaptureOperands(),
      select(false),
      [&](Value stat, Value row) { return inScoreUnits(ctx, stat, row); });
  if (llvm::is_contained(showsAnchor, true))
    ctx.storeFinalized(own, toReferencePoint(ctx, state),
                       ctx.reduction.getCaptureOperands(), select(true));
}

SmallVector<Value>
mlir::attn::choose(ReductionContext &ctx, Value condition, TypeRange types,
                   function_ref<SmallVector<Value>()> then,
                   function_ref<SmallVector<Value>()> otherwise) {
  auto ifOp = scf::IfOp::create(ctx.b, types, condition,
                                /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(ctx.b);
  auto fill = [&](Region &region, function_ref<SmallVector<Value>()> build) {
    ctx.b.setInsertionPointToStart(&region.front());
    SmallVector<Value> values = build();
    // Where there is nothing to yield, the branch has its end already.
    if (!types.empty())
      scf::YieldOp::create(ctx.b, values);
  };
  fill(ifOp.getThenRegion(), then);
  fill(ifOp.getElseRegion(), otherwise);
  return ifOp.getResults();
}

SmallVector<Value>
mlir::attn::stepIf(ReductionContext &ctx, Value condition, ValueRange state,
                   function_ref<SmallVector<Value>()> then,
                   function_ref<SmallVector<Value>()> otherwise) {
  return choose(ctx, condition, state.getTypes(), then, [&] {
    return otherwise ? otherwise() : SmallVector<Value>(state);
  });
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

/// Takes operands away that a body does not read: `operands` are those of its
/// arguments from `first` on.
static void dropUnread(Block &body, unsigned first,
                       MutableOperandRange operands) {
  for (unsigned i = operands.size(); i-- > 0;) {
    if (!body.getArgument(first + i).use_empty())
      continue;
    body.eraseArgument(first + i);
    operands.erase(i);
  }
}

/// Lets go of dots that the score region does not read, as where it reads
/// scores from memory, and of the tiles that only these were made of.
static void dropDeadDots(ReductionContext &ctx) {
  Region &score = ctx.reduction.getScoreBody();
  if (score.empty() ||
      llvm::none_of(score.getArguments().take_front(
                        ctx.reduction.getQueryOperands().size()),
                    [](Value dot) { return dot.use_empty(); }))
    return;
  ctx.kernel.walk([](tile::MapOp map) {
    dropUnread(map.getBody().front(), /*first=*/2, map.getInputsMutable());
  });
  SmallVector<tile::DotOp> dots;
  ctx.kernel.walk([&](tile::DotOp dot) { dots.push_back(dot); });
  // The last ones first, which others are added to.
  for (tile::DotOp dot : llvm::reverse(dots))
    if (dot.use_empty())
      dot.erase();
  ctx.kernel.walk([](tile::RowsOp rows) {
    dropUnread(rows.getBody().front(), /*first=*/1, rows.getInputsMutable());
  });
}

/// Loads a tile of rows, and stores what its state becomes.
static void buildRows(ReductionContext &ctx, ValueRange outputs) {
  loadQueries(ctx);
  if (std::optional<uint64_t> keys = ctx.reduction.getPartKeys()) {
    ctx.partKeys = *keys;
    ctx.storeFinalized(cast<AggregateOp>(ctx.op).getFinalize(), walkParts(ctx),
                       ctx.reduction.getCaptureOperands(), outputs);
    return;
  }
  SmallVector<Value> state = initialState(ctx);
  startRowSums(ctx, state);
  state =
      hasGroup(ctx.reduction) ? walkGroup(ctx, state) : streamKeys(ctx, state);
  if (sumsHaveOrder(ctx))
    state.truncate(state.size() - ctx.rowSumWeights.size());
  if (!ctx.marksOut && (ctx.form.redoesFar || ctx.form.redoesSpoiled))
    state = redoRows(ctx, state);
  if (ctx.fixedAnchor) {
    // Weights are never 0: a row without a sum is dead, and has no anchor. A
    // bound of scores is given only where there is such a sum.
    unsigned unit = 0;
    while (ctx.monoid.getComponent(unit) != Component::unit)
      ++unit;
    state[0] =
        ctx.map({state[ctx.numStats() + unit]}, {state[0].getType()},
                [&](Value, Value, ValueRange x) -> SmallVector<Value> {
                  Value none = arith::CmpFOp::create(
                      ctx.b, arith::CmpFPredicate::OEQ, x[0], ctx.f32(0.0f));
                  return {
                      ctx.select(none, ctx.identityStats()[0], ctx.f32(0.0f))};
                })
            .front();
  }
  if (ctx.marksOut)
    storeMarks(ctx, state);
  if (ctx.isPartial)
    storeState(ctx, state, outputs);
  else
    storeOutputs(ctx, state, outputs);
}

LogicalResult mlir::attn::buildReduction(ReductionContext &ctx,
                                         ValueRange outputs, Value numTiles,
                                         Value block) {
  ctx.b.setInsertionPointToStart(&ctx.kernel.getBody().front());
  ctx.rowSource = ctx.bound(ctx.reduction.getQuerySource());
  ctx.keySource = ctx.bound(ctx.reduction.getKeySource());
  ctx.hasOwnSizes = ctx.reduction.hasOwnSizes();
  bool walksRows = !ctx.rowSums.empty() && sumsHaveOrder(ctx);
  locateBlock(ctx, walksRows ? ctx.index(1) : numTiles, block);
  // Where rows are is found out once, and not in a loop or at the end.
  for (Value output : outputs)
    if (output)
      ctx.openSource(output, ctx.rowSource, ctx.rowsRest(),
                     !ctx.hasChannels(output, /*numLeading=*/ctx.isPartial));
  // Most tiles have no mark: their blocks end here.
  OpBuilder::InsertionGuard guard(ctx.b);
  if (ctx.marksIn)
    ctx.b.setInsertionPointToStart(scf::IfOp::create(ctx.b, hasMark(ctx),
                                                     /*withElseRegion=*/false)
                                       .thenBlock());
  // Uniform values of the regions are built before this constant.
  ctx.uniformPoint = ctx.index(0).getDefiningOp();
  if (isa<ScoresOp>(ctx.op)) {
    buildScores(ctx, outputs);
    return success();
  }
  ctx.headVaries = hasGroup(ctx.reduction);
  readForm(ctx);
  ctx.form.redoesFar = mayRedoFarRows(ctx);
  ctx.form.redoesSpoiled = mayRedoSpoiledRows(ctx);
  ctx.form.masksLate = mayMaskLate(ctx);
  ctx.form.anchorsLate = anchorsLate(ctx);
  if (ctx.form.fused || ctx.form.unit)
    findFarAnchors(ctx);
  auto rows = [&] { buildRows(ctx, outputs); };
  if (walksRows)
    walkRowTiles(ctx, numTiles, rows);
  else
    rows();
  ctx.b.setInsertionPointToEnd(&ctx.kernel.getBody().front());
  tile::ReturnOp::create(ctx.b);
  dropDeadDots(ctx);
  return success();
}
