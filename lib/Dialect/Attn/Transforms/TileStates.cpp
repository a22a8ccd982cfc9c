//===- TileStates.cpp - Kernels that multiply and finish states -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parts are multiplied in key order whichever was finished first, so a result
// does not depend on how many threads made the parts.
//
//===----------------------------------------------------------------------===//

#include "TileStates.h"
#include "TileWarps.h"
#include "attn/Analysis/Schedule.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

/// Channels of a GPU's block. Parts are asked for all at once, for which fewer
/// channels leave registers; those of groups are few.
static int64_t countBlockChannels(CombineOp combine) {
  return combine && !combine.getPlaces() ? 16 : 32;
}

int64_t StatesKernel::countSlices(ValueRange states, CombineOp combine,
                                  MonoidOp monoid,
                                  const ::attn::TargetInfo &target) {
  if (target.isCpu())
    return 1;
  int64_t channels = 1;
  for (auto [i, state] : llvm::enumerate(states))
    if (isPerChannel(monoid, i))
      channels = std::max(channels,
                          cast<ShapedType>(state.getType()).getShape().back());
  return llvm::divideCeil(channels, countBlockChannels(combine));
}

int64_t StatesKernel::rowRank(ValueRange states, MonoidOp monoid, bool parts) {
  int64_t rank = cast<ShapedType>(states.front().getType()).getRank();
  return rank - parts - isPerChannel(monoid, 0);
}

SmallVector<Value> StatesKernel::load(ValueRange states, ValueRange leading,
                                      Value exists) {
  SmallVector<Value> tiles;
  Value upper = add(row0, liveRows);
  if (exists)
    upper = select(exists, upper, row0);
  for (auto [i, state] : llvm::enumerate(states)) {
    bool channels = isPerChannel(monoid, i);
    auto type = cast<ShapedType>(state.getType());
    int64_t cols = 1;
    if (channels)
      cols = sliceChannels
                 ? sliceChannels
                 : ::attn::paddedChannels(type.getShape().back(), target);
    Type element = b.getF32Type();
    if (i < numStats())
      element = cast<TypeAttr>(monoid.getStats()[i]).getValue();
    tiles.push_back(tile::LoadOp::create(
        b, loc, tileType(blockRows(target), cols, element), arg(state),
        at(head, row0, channels, leading), row0, upper,
        /*live=*/Value(), /*vector=*/!channels));
  }
  return tiles;
}

/// A part of what a group has of the rows.
SmallVector<Value> StatesKernel::loadShared(const SharedRows &rows, Value part,
                                            Value exists) {
  SmallVector<Value> tiles;
  Value upper = add(rows.row, liveRows);
  if (exists)
    upper = select(exists, upper, rows.row);
  for (auto [i, state] : llvm::enumerate(combineOp.getShared())) {
    bool channels = isPerChannel(monoid, i);
    int64_t cols = 1;
    if (channels)
      cols = sliceChannels
                 ? sliceChannels
                 : ::attn::paddedChannels(
                       cast<ShapedType>(state.getType()).getShape().back(),
                       target);
    Type element = b.getF32Type();
    if (i < numStats())
      element = cast<TypeAttr>(monoid.getStats()[i]).getValue();
    SmallVector<Value> at = {part, rows.group, rows.head, rows.row};
    if (channels)
      at.push_back(firstChannel ? firstChannel : index(0));
    tiles.push_back(tile::LoadOp::create(
        b, loc, tileType(blockRows(target), cols, element), arg(state), at,
        rows.row, upper, /*live=*/Value(), /*vector=*/!channels));
  }
  return tiles;
}

/// Level by level, what groups have of the rows.
SmallVector<Value> StatesKernel::multiplyShared(SmallVector<Value> state) {
  Value places = arg(combineOp.getPlaces());
  Value shared = arg(combineOp.getShared().front());
  Value ofGroup = dim(shared, 3);
  Value numHeads = dim(arg(combineOp.getStates().front()), 2);
  Value group =
      max(divide(numHeads, max(dim(shared, 2), index(1))).first, index(1));
  auto [keyHead, inGroup] = divide(head, group);
  int64_t levels =
      cast<ShapedType>(combineOp.getPlaces().getType()).getDimSize(0);
  for (int64_t level = 0; level < levels; ++level) {
    Value place =
        toIndex(memref::LoadOp::create(b, loc, places, {index(level), batch}));
    Value exists = cmp(arith::CmpIPredicate::sge, place, index(0));
    auto [number, first] = divide(max(place, index(0)), max(ofGroup, index(1)));
    SharedRows rows;
    rows.parts = select(exists, dim(shared, 0), index(0));
    rows.group = number;
    rows.head = keyHead;
    rows.row = add(first, add(mul(inGroup, sq), row0));
    state = multiplyParts(state, index(0), rows.parts,
                          [&](Value part, Value exists) {
                            return loadShared(rows, part, exists);
                          });
  }
  return state;
}

/// Whether parts are scaled to one reference point and added up.
bool StatesKernel::multipliesAtOnce() {
  return !target.isCpu() && monoid.getKind() == MonoidKind::cocycle &&
         numStats() > 0 && !isExact();
}

bool StatesKernel::dividesParts() {
  return combineOp && multipliesAtOnce() && !combineOp.getPlaces() &&
         numFactors() == 1;
}

/// Whether the parts are sums of 16-bit values.
bool StatesKernel::areShort() {
  auto partial = combineOp.getStates().front().getDefiningOp<PartialOp>();
  return partial && !partial.getValues().empty() &&
         llvm::all_of(partial.getValues(), [](Value value) {
           return getElementTypeOrSelf(value.getType())
                      .getIntOrFloatBitWidth() == 16;
         });
}

/// Whether a row has more channels than a warpgroup has registers for.
bool StatesKernel::isWide() {
  return countSlices(combineOp.getStates(), combineOp, monoid, target) *
             sliceChannels >
         ::attn::MmaShape::warpgroup().nMax;
}

/// Loads the parts from `first` on; `exist` says which are there. Of others no
/// row is loaded.
SmallVector<SmallVector<Value>>
StatesKernel::loadParts(Value first, Value numParts, int64_t count,
                        LoadPart loadPart, SmallVectorImpl<Value> &exist) {
  SmallVector<SmallVector<Value>> parts;
  for (int64_t i = 0; i < count; ++i) {
    Value number = i ? add(first, index(i)) : first;
    exist.push_back(i ? cmp(arith::CmpIPredicate::slt, number, numParts)
                      : Value());
    parts.push_back(loadPart(number, exist.back()));
  }
  return parts;
}

/// The product of the first parts, of which some are loaded, and of as many in
/// all as `counts` says if there are more.
SmallVector<Value>
StatesKernel::multiplyFirst(SmallVector<SmallVector<Value>> parts,
                            SmallVector<Value> exist, ArrayRef<int64_t> counts,
                            Value numParts, LoadPart loadPart) {
  if (counts.empty())
    return multiplyAll(parts, exist, areComputed(), areShort());
  Value next = index(int64_t(parts.size()));
  Value areMore = cmp(arith::CmpIPredicate::slt, next, numParts);
  SmallVector<Type> types =
      llvm::map_to_vector(parts.front(), [](Value v) { return v.getType(); });
  auto branch = scf::IfOp::create(b, loc, types, areMore,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, loc,
                       multiplyAll(parts, exist, areComputed(), areShort()));
  b.setInsertionPointToStart(branch.thenBlock());
  llvm::append_range(parts, loadParts(next, numParts,
                                      counts.front() - int64_t(parts.size()),
                                      loadPart, exist));
  scf::YieldOp::create(b, loc,
                       multiplyFirst(std::move(parts), std::move(exist),
                                     counts.drop_front(), numParts, loadPart));
  return branch.getResults();
}

/// The product of the parts, in order. On a GPU several are loaded at once, for
/// each is as far away as all of them. Without a `state` to begin with the
/// first parts come ahead of the loop, twice as many where there are more, and
/// of wide rows two where there are no more; there is one at least.
SmallVector<Value> StatesKernel::multiplyParts(SmallVector<Value> state,
                                               Value begin, Value numParts,
                                               LoadPart loadPart) {
  // What groups have is little, and fewer registers let more blocks wait for
  // it.
  int64_t atOnce = combineOp.getPlaces() ? partsAtOnce / 2 : partsAtOnce;
  if (target.isCpu())
    atOnce = 1;
  if (state.empty()) {
    SmallVector<Value> exist;
    SmallVector<int64_t, 3> counts = {atOnce};
    if (!combineOp.getPlaces())
      counts.push_back(2 * atOnce);
    // Many blocks of wide rows have few parts each.
    if (sliceChannels && isWide())
      counts.insert(counts.begin(), fewParts);
    auto parts = loadParts(begin, numParts, counts.front(), loadPart, exist);
    begin = index(counts.back());
    state = multiplyFirst(std::move(parts), std::move(exist),
                          ArrayRef(counts).drop_front(), numParts, loadPart);
    if (numbers == Parts::Few)
      return state;
  }
  auto forOp =
      scf::ForOp::create(b, loc, begin, numParts, index(atOnce), state);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forOp.getBody());
  SmallVector<Value> product(forOp.getRegionIterArgs());
  SmallVector<Value> exist;
  auto next =
      loadParts(forOp.getInductionVar(), numParts, atOnce, loadPart, exist);
  if (multipliesAtOnce()) {
    next.insert(next.begin(), product);
    exist.insert(exist.begin(), Value());
    product = multiplyAll(next, exist, areComputed(), areShort());
  } else {
    for (size_t i = 0; i < next.size(); ++i) {
      SmallVector<Value> longer =
          multiply(product, next[i], areComputed(), isExact());
      Value exists = exist[i];
      if (!exists) {
        product = longer;
        continue;
      }
      for (auto [old, value] : llvm::zip_equal(product, longer))
        old = map({old, value}, {old.getType()},
                  [&](Value, Value, ValueRange x) -> SmallVector<Value> {
                    return {select(exists, x[1], x[0])};
                  })
                  .front();
    }
  }
  scf::YieldOp::create(b, loc, product);
  return forOp.getResults();
}

LogicalResult StatesKernel::build(ValueRange outputs, Value numTiles,
                                  Value block, Parts numbers) {
  this->numbers = numbers;
  b.setInsertionPointToStart(&kernel.getBody().front());
  ValueRange states =
      combineOp ? combineOp.getStates() : cast<FinalizeOp>(op).getStates();
  bool parts = static_cast<bool>(combineOp);
  int64_t rank = rowRank(states, monoid, parts);
  rowsHaveBatch = rank == rankOfBatches;

  Value first = arg(states.front());
  Value numHeads = dim(first, parts + rank - 2);
  sq = dim(first, parts + rank - 1);
  int64_t slices = countSlices(states, combineOp, monoid, target);
  auto work = tile::WorkTileOp::create(
      b, loc, block, rowsHaveBatch ? dim(first, parts) : index(1), numHeads,
      numTiles,
      /*parts=*/index(slices));
  batch = work.getBatch();
  head = work.getHead();
  if (slices > 1) {
    sliceChannels = countBlockChannels(combineOp);
    firstChannel = mul(work.getPart(), index(sliceChannels));
  }
  batchI32 = toI32(batch);
  headI32 = toI32(head);
  row0 = mul(work.getTile(), index(blockRows(target)));
  liveRows = min(index(blockRows(target)), sub(sq, row0));
  uniformPoint = index(0).getDefiningOp();

  SmallVector<Value> state;
  if (parts) {
    auto loadPart = [&](Value part, Value exists) {
      return load(states, part, exists);
    };
    SmallVector<Value> start;
    bool isMany = numbers == Parts::Many;
    if (!multipliesAtOnce() || isMany)
      start = loadPart(index(0), Value());
    // As a block does that has all parts (walkParts).
    if (isExact() || isMany)
      start = identityState(ValueRange(start).getTypes());
    bool isBehindFirst = !isExact() && !multipliesAtOnce();
    state = multiplyParts(start, index(isBehindFirst ? 1 : 0), dim(first, 0),
                          loadPart);
    if (isMany)
      state = createMerge(*this, monoid, state, /*mayHideNaN=*/true,
                          /*part=*/Value(), /*cluster=*/IntegerAttr(),
                          b.getI64IntegerAttr(dividingWarps));
    if (combineOp.getPlaces())
      state = multiplyShared(state);
  } else {
    state = load(states, {});
  }

  if (auto finalize = dyn_cast<FinalizeOp>(op)) {
    storeFinalized(finalize.getFinalize(), state, finalize.getCaptures(),
                   outputs);
  } else {
    for (auto [tile, output] : llvm::zip(state, outputs))
      if (output)
        storeRows(tile, output);
  }
  tile::ReturnOp::create(b, loc);
  return success();
}
