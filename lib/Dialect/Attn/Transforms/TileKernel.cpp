//===- TileKernel.cpp - The stream of a reduction over key tiles ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileKernel.h"
#include "TurnRows.h"
#include "attn/Analysis/Schedule.h"
#include "attn/Dialect/Attn/IR/AttributeNames.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;

static int64_t channels(Value tensor) {
  return cast<ShapedType>(tensor.getType()).getShape().back();
}

int64_t ReductionKernel::paddedDepth(Value tensor) const {
  return ::attn::paddedDepth(channels(tensor), target);
}

int64_t ReductionKernel::paddedChannels(Value tensor) const {
  if (sliceChannels)
    return sliceChannels;
  return ::attn::paddedChannels(channels(tensor), target);
}

int64_t ReductionKernel::keyCols() const {
  return ::attn::paddedKeys(schedule.getBlockK(), target);
}

ReductionKernel::ReductionKernel(ReductionOpInterface op, MonoidOp monoid,
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

/// The types of the state: statistics, then components.
SmallVector<Type> ReductionKernel::stateTypes(bool ofRows) {
  int64_t rows = schedule.getBlockQ();
  SmallVector<Type> types;
  for (Attribute stat : monoid.getStats())
    types.push_back(tileType(rows, 1, cast<TypeAttr>(stat).getValue()));
  unsigned nextValue = 0;
  for (unsigned i = 0; i < numComponents(); ++i)
    types.push_back(tileType(
        rows, monoid.getComponent(i) == Component::value && !ofRows
                  ? paddedChannels(reduction.getValueOperands()[nextValue++])
                  : 1));
  return types;
}

SmallVector<Value> ReductionKernel::initialState(bool ofRows) {
  SmallVector<Type> types = stateTypes(ofRows);
  Region &init = reduction.getInitBody();
  if (init.empty())
    return identityState(types);
  SmallVector<Value> identity, state;
  if (monoid.isGeneral())
    identity = call(monoid.getIdentity(), {});
  else
    identity = identityStats();
  identity.resize(types.size(), f32(0.0f));
  // The left factor enters the first split only.
  Value first;
  if (split)
    first = cmp(arith::CmpIPredicate::eq, split, index(0));
  ValueRange captures = reduction.getCaptureOperands();
  for (unsigned i = 0, e = types.size(); i < e; ++i) {
    Value value = getYielded(init)[i];
    auto convert = [&](Value x) -> Value {
      return first ? select(first, x, identity[i]) : x;
    };
    if (!varying(init, 0, /*hasKey=*/false).contains(value)) {
      state.push_back(fill(convert(uniform(init, value, 0, captures)),
                           cast<tile::TileType>(types[i])));
      continue;
    }
    state.push_back(map({}, types[i], [&](Value row, Value, ValueRange) {
                      PointCloner cloner(
                          *this, init, 0, /*hasKey=*/false, captures,
                          rowPoint(rowBase(row0), row, lastRow()));
                      return SmallVector<Value>{convert(cloner.get(value))};
                    }).front());
  }
  return form.exponential ? fromReferencePoint(state) : state;
}

void ReductionKernel::storeState(ValueRange state, ValueRange outputs) {
  Value part = split ? split : index(0);
  SmallVector<Value> exact(state);
  if (form.exponential)
    exact = toReferencePoint(state);
  for (auto [tile, output] : llvm::zip(exact, outputs))
    if (output)
      storeRows(tile, output, part);
}

void ReductionKernel::storeOutputs(ValueRange state, ValueRange outputs) {
  auto aggregate = cast<AggregateOp>(op);
  Region &own = aggregate.getFinalize();
  if (!form.unit)
    return storeFinalized(own, state, reduction.getCaptureOperands(), outputs);
  storeFinalized(
      own, state, reduction.getCaptureOperands(), outputs,
      [&](Value stat, Value row) { return inScoreUnits(stat, row); });
}

/// Whether a row that has keys has sums of magnitudes around 1: its weights are
/// measured from the row's statistic, and nothing else makes one small.
static bool sumsAreNear(MonoidOp monoid) {
  unsigned numStats = monoid.getNumStats();
  if (numStats == 0)
    return false;
  return llvm::all_of(
      getYielded(monoid.getLift()).drop_front(numStats), [](Value factor) {
        APFloat number(0.0f);
        return matchPattern(factor, m_ConstantFloat(&number)) &&
               std::abs(std::log2(number.convertToFloat())) < 30.0f;
      });
}

void KernelBuilder::storeFinalized(Region &own, ValueRange state,
                                   ValueRange captures, ValueRange outputs,
                                   function_ref<Value(Value, Value)> toStat) {
  Region &region = own.empty() ? monoid.getFinalize() : own;
  for (auto [i, output] : llvm::enumerate(outputs)) {
    if (!output)
      continue;
    Value root = getYielded(region)[i];
    // The states that this output reads.
    SmallVector<Value> inputs, inputArguments;
    int64_t cols = 1, rows = 1;
    for (auto [argument, tile] :
         llvm::zip(region.getArguments().take_front(state.size()), state)) {
      auto type = cast<tile::TileType>(tile.getType());
      rows = type.getRows();
      if (!dependsOn(root, argument))
        continue;
      inputs.push_back(tile);
      inputArguments.push_back(argument);
      cols = std::max(cols, type.getCols());
    }
    bool channel = hasChannels(output, /*numLeading=*/0);
    if (channel && cols == 1)
      cols =
          sliceChannels
              ? sliceChannels
              : llvm::alignTo(
                    cast<MemRefType>(output.getType()).getShape().back(), 16);
    Value result =
        map(inputs, tileType(rows, cols), [&](Value row, Value, ValueRange x) {
          SmallVector<Value> values(x);
          for (auto [k, argument] : llvm::enumerate(inputArguments))
            if (toStat && argument == region.getArgument(0))
              values[k] = toStat(values[k], row);
          if (own.empty()) {
            RegionCloner cloner(b);
            cloner.map(inputArguments, values);
            cloner.map(region.getArguments().drop_front(state.size()),
                       params());
            return SmallVector<Value>{cloner.get(root)};
          }
          PointCloner cloner(*this, region, state.size(), /*hasKey=*/false,
                             captures, rowPoint(rowBase(row0), row, lastRow()));
          for (auto [argument, value] : llvm::zip(inputArguments, values))
            cloner.map(argument, value);
          return SmallVector<Value>{cloner.get(root)};
        }).front();
    auto type = cast<MemRefType>(output.getType());
    if (!target.isCpu() && sumsAreNear(monoid) &&
        type.getElementTypeBitWidth() == 16)
      result.getDefiningOp()->walk([](arith::DivFOp div) {
        div.setFastmath(arith::FastMathFlags::arcp);
      });
    storeRows(result, output);
  }
}

//===----------------------------------------------------------------------===//
// The stream of key tiles
//===----------------------------------------------------------------------===//

SmallVector<Value> ReductionKernel::step(const KeyTile &tile,
                                         ValueRange state) {
  // A block_k that is no multiple of 32 is padded with dead keys.
  int64_t cols = keyCols();
  bool padded = cols != schedule.getBlockK();
  Value end = hullUpper;
  if (padded)
    end = min(end, add(tile.first, index(schedule.getBlockK())));
  auto load = [&](Value tensor, int64_t width, Type narrow, Value live,
                  ValueRange at, bool isKey) -> Value {
    Type type = narrow ? narrow : b.getF32Type();
    Value lower = hullLower, upper = end;
    // Every key of a full tile is in range.
    if (isGpu() && !tile.masked)
      lower = upper = Value();
    return tile::LoadOp::create(b, loc, tileType(cols, width, type),
                                isKey ? openMultiplied(tensor)
                                      : openKeys(tensor),
                                at, lower, upper, live, /*vector=*/false);
  };
  SmallVector<Value> keys, values;
  if (turnsRows())
    keys = turnKeys(tile, [&](Value tensor, int64_t width, ValueRange at) {
      return load(tensor, width, /*narrow=*/Type(), /*live=*/Value(), at,
                  /*isKey=*/true);
    });
  else
    for (Value tensor : reduction.getKeyOperands()) {
      // What is a value too, as in gradients, is loaded once.
      bool isValue = llvm::is_contained(reduction.getValueOperands(), tensor);
      keys.push_back(load(tensor, paddedDepth(tensor), narrowDots,
                          isValue ? tile.live : Value(),
                          fromFirst(keyHead, tile.first), /*isKey=*/true));
      if (turnsInside(reduction, target))
        keys.back() = turnInPlace(tile, keys.back());
    }
  for (Value tensor : reduction.getValueOperands()) {
    // Columns of the keys are in the tile that has these already.
    Value memory = isGpu() ? keysWithColumns(reduction, tensor) : tensor;
    // A value that no row may see must not reach one, not even times 0.
    values.push_back(load(memory, paddedChannels(tensor), narrowValues,
                          tile.live, at(keyHead, tile.first, /*channel=*/true),
                          /*isKey=*/false));
  }

  // The weights of a step are there for what it adds to memory, and where each
  // adds for itself, no other step reads them.
  SmallVector<Value> outs(state);
  if (!sumsHaveOrder())
    appendNoWeights(outs);
  auto rows =
      tile::RowsOp::create(b, loc, ValueRange(outs).getTypes(), queryTiles,
                           outs, liveRows, schedule.getRows());
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&rows.getBody());
  Value first = block->addArgument(b.getIndexType(), loc);
  auto cut = [&](Value whole) -> Value {
    auto type = cast<tile::TileType>(whole.getType());
    return block->addArgument(
        tileType(schedule.getRows(), type.getCols(), type.getElementType()),
        loc);
  };
  RowBlock rowBlock(tile);
  rowBlock.keys = keys;
  rowBlock.values = values;
  for (Value query : queryTiles)
    rowBlock.queries.push_back(cut(query));
  for (Value part : outs)
    rowBlock.state.push_back(cut(part));
  rowBlock.firstRow = add(row0, first);
  SmallVector<Value> next;
  if (mask && tile.masked && schedule.getLoop() != LoopShape::plain &&
      !isGpu() && !packsHeads && schedule.getRows() < schedule.getBlockQ()) {
    // A tile on the diagonal is dead for many of its row blocks.
    Value lastRow = sub(add(row0, liveRows), index(1));
    lastRow =
        min(lastRow, add(rowBlock.firstRow, index(schedule.getRows() - 1)));
    Value one = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 1);
    Value alive = b.createOrFold<arith::XOrIOp>(
        loc, classOf(rowBlock.firstRow, lastRow, tile.first).dead, one);
    next = stepIf(
        alive, rowBlock.state, [&] { return stepRows(rowBlock); },
        [&] { return withoutWeights(rowBlock.state); });
  } else {
    next = stepRows(rowBlock);
  }
  tile::YieldOp::create(b, loc, next);
  if (rowSums.empty())
    return rows.getResults();
  b.setInsertionPointAfter(rows);
  enterRowSums(tile, rows.getResults());
  return llvm::to_vector_of<Value>(rows.getResults().take_front(state.size()));
}

Value ReductionKernel::cellAt(Value value, Value row, Value key) {
  Point point;
  point.row = point.safeRow = toI32(row);
  point.key = point.safeKey = toI32(key);
  point.safeRow = min(point.safeRow, lastRow());
  PointCloner cloner(*this, reduction.getMaskBody(), 0, /*hasKey=*/true,
                     reduction.getCaptureOperands(), point);
  Value read = cloner.get(value);
  Type i32Type = b.getI32Type();
  if (read.getType().isInteger(1))
    return arith::ExtUIOp::create(b, loc, i32Type, read);
  if (read.getType() != i32Type)
    return arith::ExtSIOp::create(b, loc, i32Type, read);
  return read;
}

::attn::MaskAnalysis::Class ReductionKernel::classOf(Value first) {
  auto [firstRow, lastRow] = tilePositions();
  return classOf(firstRow, lastRow, first);
}

::attn::MaskAnalysis::Class
ReductionKernel::classOf(Value firstRow, Value lastRow, Value first) {
  Value last = add(first, index(schedule.getBlockK() - 1));
  last = min(last, sub(numKeys, index(1)));
  ::attn::MaskAnalysis::CellFn cell = [&](Value value) {
    return cellAt(value, firstRow, first);
  };
  // Packed rows may be of several heads.
  if (packsHeads || headVaries)
    cell = nullptr;
  auto result = mask->emitClass(b, loc, maskUniform, firstRow, lastRow, first,
                                last, maskValid, cell);
  // A ragged tile has keys that no mask speaks of.
  Value whole = cmp(arith::CmpIPredicate::sle,
                    add(first, index(schedule.getBlockK())), hullUpper);
  result.full = b.createOrFold<arith::AndIOp>(loc, result.full, whole);
  return result;
}

Value ReductionKernel::liveKeys(const KeyTile &tile) {
  auto type = tileType(schedule.getBlockQ(), keyCols(), b.getI1Type());
  RowBlock block(tile);
  block.firstRow = row0;
  prepare(block);
  Value last = sub(liveRows, index(1));
  // A tile that fills up a cluster has no rows; what is read for it is there.
  if (clusterOf(schedule, target) > 1)
    last = max(last, index(0));
  Value lastRow = toI32(last);
  Value elements =
      map({}, type, [&](Value row, Value col, ValueRange) {
        // Rows beyond the last stand for it.
        return SmallVector<Value>{liveByMask(block, min(row, lastRow), col)};
      }).front();
  Value none = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 0);
  return reduce(
             elements, none, /*ordered=*/false,
             [&](ValueRange x, ValueRange y) -> SmallVector<Value> {
               return {arith::OrIOp::create(b, loc, x[0], y[0])};
             },
             /*overRows=*/true)
      .front();
}

SmallVector<Value>
ReductionKernel::choose(Value condition, TypeRange types,
                        function_ref<SmallVector<Value>()> then,
                        function_ref<SmallVector<Value>()> otherwise) {
  auto ifOp = scf::IfOp::create(b, loc, types, condition,
                                /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  auto fill = [&](Region &region, function_ref<SmallVector<Value>()> build) {
    b.setInsertionPointToStart(&region.front());
    SmallVector<Value> values = build();
    // Where there is nothing to yield, the branch has its end already.
    if (!types.empty())
      scf::YieldOp::create(b, loc, values);
  };
  fill(ifOp.getThenRegion(), then);
  fill(ifOp.getElseRegion(), otherwise);
  return ifOp.getResults();
}

SmallVector<Value>
ReductionKernel::stepIf(Value condition, ValueRange state,
                        function_ref<SmallVector<Value>()> then,
                        function_ref<SmallVector<Value>()> otherwise) {
  return choose(condition, state.getTypes(), then, [&] {
    return otherwise ? otherwise() : SmallVector<Value>(state);
  });
}

bool ReductionKernel::testsCells() const {
  return mask && target.isCpu() && !mask->facts().hasCore &&
         !mask->getCells().empty();
}

/// The bodies of the classes of key tiles.
StreamBodies ReductionKernel::streamBodies() {
  bool isPadded = keyCols() != schedule.getBlockK();
  StreamBodies bodies;
  bodies.partial = [=](ValueRange of, ValueRange state) {
    KeyTile tile{of[0], /*masked=*/true};
    // A padded tile has columns of the next one, which only the mask hides. No
    // CPU peels a tile of unknown class.
    if (!isPadded && isGpu())
      tile.whole = of[1];
    if (!mask || mask->facts().hullIsExact)
      return step(tile, state);
    tile.live = liveKeys(tile);
    if (schedule.getLoop() == LoopShape::plain ||
        !mask->facts().isDataDependent)
      return step(tile, state);
    Value any = tile::AnyOp::create(b, loc, b.getI1Type(), tile.live);
    return stepIf(any, state, [&] { return step(tile, state); }, nullptr);
  };
  if (!mask || mask->facts().hasCore || testsCells())
    bodies.full = [=](ValueRange of, ValueRange state) {
      return step({of[0], /*masked=*/isPadded}, state);
    };
  bool hullIsExact = mask && mask->facts().hullIsExact;
  if (mask && (!hullIsExact || schedule.getLoop() == LoopShape::masked))
    bodies.classify = [=](ValueRange of, ValueRange) {
      auto tileClass = classOf(of[0]);
      // Within an exact hull no tile is dead.
      Value none = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 0);
      return SmallVector<Value>{hullIsExact ? none : tileClass.dead,
                                tileClass.full};
    };
  return bodies;
}

SmallVector<Value> ReductionKernel::streamLists(ValueRange state) {
  readMask();
  keyEnd = hullUpper = numKeys;
  hullLower = index(0);
  auto count = [&](int64_t which) {
    SmallVector<Value> indices = listIndices();
    indices.push_back(index(which));
    return toIndex(memref::LoadOp::create(b, loc, lists.tiles, indices));
  };
  Value masked = count(0), whole = count(1);
  bool isPadded = keyCols() != schedule.getBlockK();
  StreamBodies bodies;
  bodies.number = [&](ValueRange of, ValueRange) {
    return SmallVector<Value>{loadListed(of[0], of[1])};
  };
  bodies.partial = [&](ValueRange of, ValueRange state) {
    return stepListed(of[0], of[1], of[3], state);
  };
  bodies.full = [&](ValueRange of, ValueRange state) {
    KeyTile tile{of[0], /*masked=*/isPadded};
    tile.ragged = isPadded;
    return step(tile, state);
  };
  // What is known of masked tiles is read from where the tile's number says: it
  // is loaded one step ahead.
  return emitListedStream(b, loc, masked, whole, /*ahead=*/pipelined(),
                          schedule.getBlockK(), state, bodies);
}

KeyRangeProblem ReductionKernel::describeRanges() {
  KeyRangeProblem problem;
  problem.numKeys = problem.limit = numKeys;
  if (!rowSource.hasBatch() || rowSource.lengths)
    problem.limit = select(cmp(arith::CmpIPredicate::sgt, liveRows, index(0)),
                           numKeys, index(0));
  if (!reduction.getMaskBody().empty()) {
    readMask();
    problem.mask = &*mask;
    problem.uniform = maskUniform;
    std::tie(problem.firstRow, problem.lastRow) = tilePositions();
  }
  return problem;
}

SmallVector<Value> ReductionKernel::streamKeys(ValueRange state) {
  if (lists.tiles)
    return streamLists(state);
  KeyRangeProblem problem = describeRanges();
  problem.split = split;
  problem.parts = parts;
  problem.partKeys = partKeys;
  if (auto partial = dyn_cast<PartialOp>(reduction.getOperation()))
    problem.granule = partial.getGranule().value_or(1);
  bool isPeeled = schedule.getLoop() == LoopShape::peeled;
  bool isWindow = false;
  if (problem.mask) {
    const ::attn::MaskAnalysis::Facts &facts = mask->facts();
    isWindow = !facts.startsAtFirstKey;
    // A warpgroup of the block may be done some tiles before the others. With a
    // tile as long as the block they part by half of one at most. That pays at
    // both ends of the keys: at one of them the warpgroups of a block wait for
    // the one that has the whole tile.
    bool bothEnds =
        isWindow && facts.startDiffersByRow && facts.endDiffersByRow;
    problem.endsByRows =
        pipelined() && !packsHeads && isPeeled && !linear.hasSides &&
        schedule.getBlockQ() > schedule.getRows() &&
        (bothEnds || schedule.getBlockQ() > schedule.getBlockK());
  }
  KeyRanges ranges = emitKeyRanges(b, loc, problem);
  maskValid = ranges.valid;
  keyEnd = ranges.end;
  hullLower = ranges.lower;
  hullUpper = ranges.upper;
  if (testsCells())
    ranges.coreLower = ranges.coreUpper = index(0);
  // Rows that do not exist have weights, which must not reach a sum: the bodies
  // of whole tiles have no test for them.
  if (!rowSums.empty() && !sumsHaveOrder() && ranges.coreUpper)
    ranges.coreUpper = select(
        cmp(arith::CmpIPredicate::slt, liveRows, index(schedule.getBlockQ())),
        index(0), ranges.coreUpper);

  StreamBodies bodies = streamBodies();
  auto stream = [&](const KeyRanges &ranges, const LinearRange &linear = {}) {
    return emitStream(b, loc, ranges, linear, schedule.getBlockK(), state,
                      bodies);
  };
  if (!isPeeled || !ranges.coreLower || !pipelined())
    return stream(ranges);
  // Both ends of the keys take long to find.
  if (isWindow)
    fetchLate();
  auto streamPeeled = [&]() -> SmallVector<Value> {
    if (!linear.applies)
      return stream(ranges);
    bodies.full = nullptr;
    bodies.linear = [&](ValueRange of, ValueRange state) {
      KeyTile tile{of[0], /*masked=*/false};
      tile.linear = true;
      tile.ramp = linear.ramp(b, loc, of[1]);
      return step(tile, state);
    };
    auto toUniform = [&](Value value) {
      return uniform(*linear.region, value, 0, reduction.getCaptureOperands());
    };
    auto [firstRow, lastRow] = tilePositions();
    return stream(ranges, emitLinearRange(b, loc, linear, toUniform, firstRow,
                                          lastRow, numKeys));
  };
  if (!mask || !mask->facts().hasRowIntervals)
    return streamPeeled();
  // Where the region's integers wrap, only the region knows.
  auto streamIntervals = [&] {
    rowIntervals = true;
    SmallVector<Value> next = streamPeeled();
    rowIntervals = false;
    return next;
  };
  if (isAlwaysValid(reduction, *mask))
    return streamIntervals();
  return stepIf(maskValid, state, streamIntervals, [&] {
    KeyRanges unread = ranges;
    unread.coreLower = unread.coreUpper = Value();
    bodies.full = bodies.linear = nullptr;
    return stream(unread);
  });
}

void ReductionKernel::fetchLate() {
  ScheduleAttr decided = kernel.getScheduleAttr();
  if (schedule.getFetch() == Fetch::automatic &&
      decided.getFetch() == Fetch::producer)
    kernel.setScheduleAttr(decided.withFetch(Fetch::late));
}

void ReductionKernel::readMask() {
  Region &region = reduction.getMaskBody();
  mask.emplace(region);
  maskUniform = [this, &region](Value value) {
    return uniform(region, value, 0, reduction.getCaptureOperands());
  };
}

bool ReductionKernel::pipelined() const {
  return isGpu() && target.hasRoles() &&
         (lists.tiles || !mask || mask->facts().hullIsExact) &&
         schedule.getRows() == target.productShape().m;
}

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

void ReductionKernel::dropDeadDots() {
  Region &score = reduction.getScoreBody();
  if (score.empty() || llvm::none_of(score.getArguments().take_front(
                                         reduction.getQueryOperands().size()),
                                     [](Value dot) { return dot.use_empty(); }))
    return;
  kernel.walk([](tile::MapOp map) {
    dropUnread(map.getBody().front(), /*first=*/2, map.getInputsMutable());
  });
  SmallVector<tile::DotOp> dots;
  kernel.walk([&](tile::DotOp dot) { dots.push_back(dot); });
  // The last ones first, which others are added to.
  for (tile::DotOp dot : llvm::reverse(dots))
    if (dot.use_empty())
      dot.erase();
  kernel.walk([](tile::RowsOp rows) {
    dropUnread(rows.getBody().front(), /*first=*/1, rows.getInputsMutable());
  });
}

LogicalResult ReductionKernel::build(ValueRange outputs, Value numTiles,
                                     Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  rowSource = bound(reduction.getQuerySource());
  keySource = bound(reduction.getKeySource());
  hasOwnSizes = reduction.hasOwnSizes();
  bool walksRows = !rowSums.empty() && sumsHaveOrder();
  locateBlock(walksRows ? index(1) : numTiles, block);
  // Where rows are is found out once, and not in a loop or at the end.
  for (Value output : outputs)
    if (output)
      openSource(output, rowSource, rowsRest(),
                 !hasChannels(output, /*numLeading=*/isPartial));
  // Most tiles have no mark: their blocks end here.
  OpBuilder::InsertionGuard guard(b);
  if (marksIn)
    b.setInsertionPointToStart(
        scf::IfOp::create(b, loc, hasMark(), /*withElseRegion=*/false)
            .thenBlock());
  // Uniform values of the regions are built before this constant.
  uniformPoint = index(0).getDefiningOp();
  if (isa<ScoresOp>(op)) {
    scoreOutputs.assign(outputs.begin(), outputs.end());
    loadQueries();
    streamKeys({});
    tile::ReturnOp::create(b, loc);
    return success();
  }
  headVaries = hasGroup(reduction);
  readForm();
  form.redoesFar = mayRedoFarRows();
  if (form.fused || form.unit)
    findFarAnchors();
  auto rows = [&] { buildRows(outputs); };
  if (walksRows)
    walkRowTiles(numTiles, rows);
  else
    rows();
  b.setInsertionPointToEnd(&kernel.getBody().front());
  tile::ReturnOp::create(b, loc);
  dropDeadDots();
  return success();
}

void ReductionKernel::buildRows(ValueRange outputs) {
  loadQueries();
  if (auto keys = op->getAttrOfType<IntegerAttr>(getPartKeysName())) {
    partKeys = keys.getInt();
    storeFinalized(cast<AggregateOp>(op).getFinalize(), walkParts(),
                   reduction.getCaptureOperands(), outputs);
    return;
  }
  SmallVector<Value> state = initialState();
  startRowSums(state);
  state = hasGroup(reduction) ? walkGroup(state) : streamKeys(state);
  if (sumsHaveOrder())
    state.truncate(state.size() - rowSumWeights.size());
  if (form.redoesFar)
    state = redoFarRows(state);
  if (fixedAnchor) {
    // Weights are never 0: a row without a sum is dead, and has no anchor. A
    // bound of scores is given only where there is such a sum.
    unsigned unit = 0;
    while (monoid.getComponent(unit) != Component::unit)
      ++unit;
    state[0] = map({state[numStats() + unit]}, {state[0].getType()},
                   [&](Value, Value, ValueRange x) -> SmallVector<Value> {
                     Value none = arith::CmpFOp::create(
                         b, loc, arith::CmpFPredicate::OEQ, x[0], f32(0.0f));
                     return {select(none, identityStats()[0], f32(0.0f))};
                   })
                   .front();
  }
  if (marksOut)
    storeMarks(state);
  if (isPartial)
    storeState(state, outputs);
  else
    storeOutputs(state, outputs);
}
