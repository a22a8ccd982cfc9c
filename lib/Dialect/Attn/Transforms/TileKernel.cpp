//===- TileKernel.cpp - The walk of a reduction over key tiles ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileKernel.h"
#include "attn/Analysis/Schedule.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;

static Type elementType(Value tensor) {
  return cast<ShapedType>(tensor.getType()).getElementType();
}
static int64_t channels(Value tensor) {
  return cast<ShapedType>(tensor.getType()).getShape().back();
}

int64_t ReductionKernel::paddedDepth(Value tensor) const {
  return ::attn::paddedDepth(channels(tensor), target);
}

int64_t ReductionKernel::paddedChannels(Value tensor) const {
  return ::attn::paddedChannels(channels(tensor), target);
}

int64_t ReductionKernel::keyCols() const {
  return ::attn::paddedKeys(schedule.getBlockK(), target);
}

int64_t ReductionKernel::keyRowBytes() {
  int64_t bytes = 0;
  for (ValueRange tensors :
       {reduction.getKeyOperands(), reduction.getValueOperands()})
    for (Value tensor : tensors)
      bytes += channels(tensor) *
               llvm::divideCeil(elementType(tensor).getIntOrFloatBitWidth(), 8);
  return std::max<int64_t>(bytes, 1);
}

ReductionKernel::ReductionKernel(ReductionOpInterface op, MonoidOp monoid,
                                 const ::attn::TargetInfo &target,
                                 tile::KernelOp kernel)
    : KernelBuilder(op, monoid, target, kernel), reduction(op),
      schedule(op.getScheduleAttribute()) {
  if (auto partial = dyn_cast<PartialOp>(op.getOperation())) {
    isPartial = true;
    splits = partial.getSplits();
  }
  // The one 16-bit type of all that the target multiplies.
  auto narrowType = [&](ValueRange tensors) -> Type {
    if (tensors.empty())
      return {};
    Type type = elementType(tensors.front());
    bool all = llvm::all_of(
        tensors, [&](Value tensor) { return elementType(tensor) == type; });
    return all && target.multiplies(type.isBF16(), type.isF16()) ? type
                                                                 : Type();
  };
  Type keys = narrowType(op.getKeyOperands());
  if (keys && keys == narrowType(op.getQueryOperands()))
    narrowDots = keys;
  // The element path works in f32.
  if (!monoid.isGeneral())
    narrowValues = narrowType(op.getValueOperands());
  tf32 = target.hasTf32 && op.getProductPrecision() == ProductPrecision::tf32;
  for (ValueRange tensors :
       {op.getQueryOperands(), op.getKeyOperands(), op.getValueOperands()})
    for (Value tensor : tensors)
      tf32 &= elementType(tensor).isF32();
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

SmallVector<Value> ReductionKernel::initialState() {
  int64_t rows = schedule.getBlockQ();
  // The types of the state: statistics, then components.
  SmallVector<tile::TileType> types;
  for (Attribute stat : monoid.getStats())
    types.push_back(tileType(rows, 1, cast<TypeAttr>(stat).getValue()));
  unsigned nextValue = 0;
  for (unsigned i = 0; i < numComponents(); ++i)
    types.push_back(tileType(
        rows, monoid.getComponent(i) == Component::value
                  ? paddedChannels(reduction.getValueOperands()[nextValue++])
                  : 1));

  SmallVector<Value> identity;
  if (monoid.isGeneral())
    identity = call(monoid.getIdentity(), {});
  else
    identity = identityStats();
  while (identity.size() < types.size())
    identity.push_back(f32(0.0f));

  Region &init = reduction.getInitBody();
  SmallVector<Value> state;
  if (init.empty()) {
    for (auto [scalar, type] : llvm::zip(identity, types))
      state.push_back(fill(scalar, type));
    return state;
  }
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
      state.push_back(
          fill(convert(uniform(init, value, 0, captures)), types[i]));
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
      cols = llvm::alignTo(cast<MemRefType>(output.getType()).getShape().back(),
                           16);
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
    storeRows(result, output);
  }
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

SmallVector<Value> ReductionKernel::step(const KeyTile &tile,
                                         ValueRange state) {
  // A block_k that is no multiple of 32 is padded with dead keys.
  int64_t cols = keyCols();
  bool padded = cols != schedule.getBlockK();
  Value end = hullUpper;
  if (padded)
    end = min(end, add(tile.first, index(schedule.getBlockK())));
  auto load = [&](Value tensor, int64_t width, Type narrow,
                  Value live) -> Value {
    Type type = narrow ? narrow : b.getF32Type();
    Value lower = hullLower, upper = end;
    // Every key of a full tile is in range.
    if (isGpu() && !tile.masked)
      lower = upper = Value();
    return tile::LoadOp::create(
        b, loc, tileType(cols, width, type), openKeys(tensor),
        at(keyHead, tile.first, /*channel=*/true), lower, upper, live,
        /*vector=*/false);
  };
  SmallVector<Value> keys, values;
  for (Value tensor : reduction.getKeyOperands())
    keys.push_back(load(tensor, paddedDepth(tensor), narrowDots, Value()));
  for (Value tensor : reduction.getValueOperands())
    // A value that no row may see must not reach one, not even times 0.
    values.push_back(
        load(tensor, paddedChannels(tensor), narrowValues, tile.live));

  auto rows = tile::RowsOp::create(b, loc, state.getTypes(), queryTiles, state,
                                   liveRows, schedule.getRows());
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
  for (Value part : state)
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
        alive, rowBlock.state, [&] { return stepRows(rowBlock); }, nullptr);
  } else {
    next = stepRows(rowBlock);
  }
  tile::YieldOp::create(b, loc, next);
  return rows.getResults();
}

::attn::MaskAnalysis::Class ReductionKernel::classOf(Value first) {
  auto [firstRow, lastRow] = tilePositions();
  return classOf(firstRow, lastRow, first);
}

::attn::MaskAnalysis::Class
ReductionKernel::classOf(Value firstRow, Value lastRow, Value first) {
  Value last = add(first, index(schedule.getBlockK() - 1));
  last = min(last, sub(numKeys, index(1)));
  auto result = mask->emitClass(b, loc, maskUniform, firstRow, lastRow, first,
                                last, maskValid);
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
  b.setInsertionPointToStart(&ifOp.getThenRegion().front());
  scf::YieldOp::create(b, loc, then());
  b.setInsertionPointToStart(&ifOp.getElseRegion().front());
  scf::YieldOp::create(b, loc, otherwise());
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

SmallVector<Value> ReductionKernel::loop(Value from, Value to, Tiles tiles,
                                         ValueRange initial) {
  auto forOp = scf::ForOp::create(b, loc, from, to, index(schedule.getBlockK()),
                                  initial);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forOp.getBody());
  ValueRange state = forOp.getRegionIterArgs();
  Value first = forOp.getInductionVar();
  if (linear.order && tiles != Tiles::Linear)
    first = linear.order(first);
  bool padded = keyCols() != schedule.getBlockK();
  auto full = [&] { return step({first, /*masked=*/padded}, state); };
  auto masked = [&]() -> SmallVector<Value> {
    KeyTile tile{first, /*masked=*/true};
    if (!mask || mask->hullIsExact())
      return step(tile, state);
    tile.live = liveKeys(tile);
    if (tiles == Tiles::AllMasked || !mask->isDataDependent())
      return step(tile, state);
    Value any = tile::AnyOp::create(b, loc, b.getI1Type(), tile.live);
    return stepIf(any, state, [&] { return step(tile, state); }, nullptr);
  };
  SmallVector<Value> next;
  switch (tiles) {
  case Tiles::Full:
    next = full();
    break;
  case Tiles::Linear:
    next = step(linearTile(first), state);
    break;
  case Tiles::AllMasked:
    next = masked();
    break;
  case Tiles::Masked: {
    // Within an exact hull no tile is dead.
    if (!mask || mask->hullIsExact()) {
      next = masked();
      break;
    }
    Value dead = classOf(first).dead;
    Value one = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 1);
    Value alive = b.createOrFold<arith::XOrIOp>(loc, dead, one);
    next = stepIf(alive, state, masked, nullptr);
    break;
  }
  case Tiles::Tested: {
    auto tileClass = classOf(first);
    next = stepIf(tileClass.full, state, full, [&] {
      if (mask->hullIsExact())
        return masked();
      Value one = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 1);
      Value alive = b.createOrFold<arith::XOrIOp>(loc, tileClass.dead, one);
      return stepIf(alive, state, masked, nullptr);
    });
    break;
  }
  }
  scf::YieldOp::create(b, loc, next);
  return forOp.getResults();
}

Value ReductionKernel::wholeTiles(Value x, bool up) {
  if (!split && matchPattern(x, m_Zero()))
    return x;
  Value blockK = index(schedule.getBlockK());
  Value offset = split ? sub(max(x, allStart), allStart) : x;
  Value tiles =
      up ? arith::CeilDivUIOp::create(b, loc, offset, blockK).getResult()
         : arith::DivUIOp::create(b, loc, offset, blockK).getResult();
  Value keys = mul(tiles, blockK);
  return split ? add(allStart, keys) : keys;
}

void ReductionKernel::fetchLate() {
  ScheduleAttr decided = kernel.getScheduleAttr();
  if (schedule.getFetch() == Fetch::automatic &&
      decided.getFetch() == Fetch::producer)
    kernel.setScheduleAttr(decided.withFetch(Fetch::late));
}

/// Whether a bound is the first key, whatever the block.
static bool isFirstKey(Value bound) {
  if (matchPattern(bound, m_Zero()))
    return true;
  Operation *def = bound.getDefiningOp();
  if (auto select = dyn_cast_or_null<arith::SelectOp>(def))
    return isFirstKey(select.getTrueValue()) &&
           isFirstKey(select.getFalseValue());
  return isa_and_nonnull<arith::IndexCastOp, arith::MinSIOp, arith::MaxSIOp>(
             def) &&
         llvm::all_of(def->getOperands(), isFirstKey);
}

/// Whether a bound of a mask that reads as `valid` is not the same for all rows
/// of `range`.
static bool differsByRows(Value bound, Value valid, tile::RowRangeOp range) {
  if (auto cast = bound.getDefiningOp<arith::IndexCastOp>())
    bound = cast.getIn();
  auto select = bound.getDefiningOp<arith::SelectOp>();
  if (select && select.getCondition() == valid)
    bound = select.getTrueValue();
  return dependsOn(bound, range.getFirst()) ||
         dependsOn(bound, range.getLast());
}

SmallVector<Value> ReductionKernel::walkKeys(SmallVector<Value> state) {
  Value zero = index(0);
  bool isWindow = false;
  using Predicate = arith::CmpIPredicate;
  // Keys beyond [lower, upper) are dead; those in [coreLower, coreUpper) are
  // live for every row.
  Value lower = zero, upper = numKeys, coreLower = zero, coreUpper = numKeys;
  if (!rowSource.hasBatch() || marksIn)
    upper = select(cmp(Predicate::sgt, liveRows, zero), upper, zero);
  if (lists.tiles)
    return walkLists(std::move(state));
  if (!reduction.getMaskBody().empty()) {
    readMask();
    auto [firstRow, lastRow] = tilePositions();
    tile::RowRangeOp range;
    if (pipelined() && !packsHeads && schedule.getLoop() == LoopShape::peeled &&
        schedule.getBlockQ() > schedule.getRows() && !linear.hasSides) {
      // A warpgroup of the block may be done some tiles before the others.
      range = tile::RowRangeOp::create(b, loc, b.getIndexType(),
                                       b.getIndexType(), firstRow, lastRow);
      firstRow = range.getFirst();
      lastRow = range.getLast();
    }
    auto bounds =
        mask->emitBounds(b, loc, maskUniform, firstRow, lastRow, numKeys);
    maskValid = bounds.valid;
    lower = bounds.lower;
    isWindow = !isFirstKey(lower);
    bool parts = range && isWindow && differsByRows(lower, maskValid, range) &&
                 differsByRows(bounds.upper, maskValid, range);
    // With a tile as long as the block they part by half of one at most. That
    // pays at both ends of the keys: at one of them the warpgroups of a block
    // wait for the one that has the whole tile.
    if (range && !parts && schedule.getBlockQ() <= schedule.getBlockK()) {
      range.getFirst().replaceAllUsesWith(range.getFirstRow());
      range.getLast().replaceAllUsesWith(range.getLastRow());
      range.erase();
    }
    upper = min(upper, bounds.upper);
    coreLower = bounds.coreLower;
    coreUpper = bounds.coreUpper;
  }
  allStart = zero;
  keyEnd = numKeys;
  if (split) {
    // Parts have the same number of keys, whatever the schedule; the tiles of
    // each are counted from its start.
    Value perPart = arith::CeilDivUIOp::create(b, loc, numKeys, index(splits));
    allStart = mul(split, perPart);
    keyEnd = min(keyEnd, add(allStart, perPart));
    lower = max(lower, allStart);
    upper = min(upper, keyEnd);
  }
  auto alignDown = [&](Value x) { return wholeTiles(x, /*up=*/false); };
  auto alignUp = [&](Value x) { return wholeTiles(x, /*up=*/true); };
  if (mask || split)
    upper = select(cmp(Predicate::slt, lower, upper), upper, zero);
  hullLower = lower;
  hullUpper = upper;
  Value start = alignDown(lower);

  LoopShape shape = schedule.getLoop();
  if (shape == LoopShape::plain) // keys outside of the hull are not loaded
    return loop(allStart, keyEnd, Tiles::AllMasked, state);
  if (shape == LoopShape::masked)
    return loop(start, upper, mask ? Tiles::Tested : Tiles::Masked, state);
  if (mask && !mask->hasCore())
    return loop(start, upper, Tiles::Masked, state);
  // Masked head, core without any test, masked tail.
  Value coreStart = max(alignUp(coreLower), start);
  Value coreEnd = alignDown(min(coreUpper, upper));
  Value some = cmp(Predicate::slt, coreStart, coreEnd);
  coreEnd = select(some, coreEnd, start);
  bool hasHead = !matchPattern(coreLower, m_Zero());
  coreStart = hasHead ? select(some, coreStart, start) : start;
  if (pipelined()) {
    // Both ends of the keys take long to find.
    if (isWindow)
      fetchLate();
    auto walk = [&] {
      return walkPipelined(start, coreStart, coreEnd, upper, hasHead, state);
    };
    if (!mask || !mask->hasRowIntervals())
      return walk();
    // Where the region's integers wrap, only the region knows.
    auto walkIntervals = [&] {
      rowIntervals = true;
      SmallVector<Value> next = walk();
      rowIntervals = false;
      return next;
    };
    if (matchPattern(maskValid, m_One()) || maskIsAlwaysValid())
      return walkIntervals();
    return stepIf(maskValid, state, walkIntervals,
                  [&] { return loop(start, upper, Tiles::Masked, state); });
  }
  if (hasHead)
    state = loop(start, coreStart, Tiles::Masked, state);
  state = loop(coreStart, coreEnd, Tiles::Full, state);
  return loop(coreEnd, upper, Tiles::Masked, state);
}

void ReductionKernel::readMask() {
  Region &region = reduction.getMaskBody();
  mask.emplace(region);
  maskUniform = [this, &region](Value value) {
    return uniform(region, value, 0, reduction.getCaptureOperands());
  };
}

/// Whether the mask's integers never wrap: its captures are numbers of rows and
/// of keys of this reduction, which positions are below.
bool ReductionKernel::maskIsAlwaysValid() {
  Region &region = reduction.getMaskBody();
  ValueRange captures = reduction.getCaptureOperands();
  auto counts = [&](Value value, Value tensor) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument || argument.getOwner() != &region.front())
      return false;
    unsigned first = region.getNumArguments() - captures.size();
    if (argument.getArgNumber() < first)
      return false;
    Value size = captures[argument.getArgNumber() - first];
    if (auto cast = size.getDefiningOp<arith::IndexCastOp>())
      size = cast.getIn();
    auto dim = size.getDefiningOp<tensor::DimOp>();
    return dim && dim.getSource() == tensor &&
           dim.getConstantIndex() ==
               cast<RankedTensorType>(tensor.getType()).getRank() - 2;
  };
  if (hasOwnSizes)
    return false;
  return mask->isAlwaysValid(
      [&](Value v) { return counts(v, reduction.getQueryOperands().front()); },
      [&](Value v) { return counts(v, reduction.getKeyOperands().front()); });
}

bool ReductionKernel::pipelined() const {
  return isGpu() && target.hasRoles() &&
         (lists.tiles || !mask || mask->hullIsExact()) &&
         schedule.getRows() == target.productShape().m;
}

/// The loops of the peeled form behind a first tile that stands alone: its
/// products have nothing to overlap with, those of all later tiles do. The
/// first tile takes the masked form, which is right for any tile, around the
/// mask itself where the tile is one of the core.
SmallVector<Value> ReductionKernel::walkPipelined(Value start, Value coreStart,
                                                  Value coreEnd, Value upper,
                                                  bool hasHead,
                                                  SmallVector<Value> state) {
  Value some = cmp(arith::CmpIPredicate::slt, start, upper);
  return stepIf(
      some, state,
      [&] {
        Value second = add(start, index(schedule.getBlockK()));
        if (linear.applies)
          orderLinear(coreStart, coreEnd, hasHead);
        KeyTile first{linear.order ? linear.order(start) : start,
                      /*masked=*/true};
        // A padded tile has columns of the next one, which only the mask hides.
        if (keyCols() == schedule.getBlockK())
          first.whole = cmp(arith::CmpIPredicate::sle, second, coreEnd);
        if (first.whole && hasHead)
          first.whole = arith::AndIOp::create(
              b, loc, first.whole,
              cmp(arith::CmpIPredicate::sle, coreStart, start));
        SmallVector<Value> next = step(first, state);
        if (hasHead)
          next = loop(second, coreStart, Tiles::Masked, next);
        Tiles core = linear.applies ? Tiles::Linear : Tiles::Full;
        Value end = linear.applies ? linear.end : coreEnd;
        next = loop(max(coreStart, second), end, core, next);
        next = loop(max(end, second), upper, Tiles::Masked, next);
        linear.order = nullptr;
        return next;
      },
      nullptr);
}

LogicalResult ReductionKernel::build(ValueRange outputs, Value numTiles,
                                     Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  rowSource = bound(reduction.getQuerySource());
  keySource = bound(reduction.getKeySource());
  hasOwnSizes = reduction.hasOwnSizes();
  locateBlock(numTiles, block);
  // Where rows are is found out once, and not in a loop or at the end.
  for (Value output : outputs)
    if (output)
      openSource(output, rowSource, /*rest=*/true,
                 !hasChannels(output, /*numLeading=*/isPartial));
  // Uniform values of the regions are built before this constant.
  if (marksIn)
    keepMarkedTiles();
  uniformPoint = index(0).getDefiningOp();
  analyseForm();
  if (form.fused || form.unit)
    findFarAnchors();
  loadQueries();
  SmallVector<Value> state = walkKeys(initialState());
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
  tile::ReturnOp::create(b, loc);
  return success();
}
