//===- ScanSegments.cpp - Segments of the tokens of a scan ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A segment of tokens is a map of the state, S -> G S + B, whose G is diagonal
// where nothing is erased. One kernel computes B, from a state of 0, and G of
// all segments but the last; then the block of a segment begins with what those
// before it make of the first state.
//
//===----------------------------------------------------------------------===//

#include "TileScan.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

SmallVector<MemRefType> ScanKernel::getSummaryTypes(ScanOp op) {
  int64_t parts = op.getSegments().value_or(1) - 1, any = ShapedType::kDynamic;
  int64_t dk = op.getKeyChannels(), dv = op.getValueChannels();
  auto type = [&](ArrayRef<int64_t> channels) {
    SmallVector<int64_t> sizes = {parts, any, any};
    sizes.append(channels.begin(), channels.end());
    return MemRefType::get(sizes, Float32Type::get(op.getContext()));
  };
  SmallVector<MemRefType> types = {type({dk, dv})};
  if (op.getNormalize())
    types.push_back(type({dk}));
  if (op.getDecay())
    types.push_back(type({op.getValueGates() ? dv : dk}));
  return types;
}

/// The rows of the block's segment, in place of those of its sequence. Segments
/// have whole chunks.
void ScanKernel::cutSegment() {
  Value count = index(*scanOp.getSegments());
  auto divideUp = [&](Value x, Value y) -> Value {
    return arith::CeilDivUIOp::create(b, loc, x, y);
  };
  Value chunk = index(chunkSize);
  Value size = mul(divideUp(divideUp(end, count), chunk), chunk);
  isLastSegment = cmp(arith::CmpIPredicate::eq, segment, sub(count, index(1)));
  begin = min(mul(segment, size), end);
  Value next = min(add(begin, size), end);
  queryEnd = select(isLastSegment, queryEnd, next);
  end = select(isLastSegment, end, next);
}

void ScanKernel::summarize(ValueRange memory, Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  startBlock(block, index(*scanOp.getSegments() - 1));
  makeMasks();
  State state;
  state.matrix = fill(f32(0.0f), tileType(keyCols, valueCols));
  if (scanOp.getNormalize())
    state.sum = fill(f32(0.0f), tileType(1, keyCols));
  bool ofValues = gates == Gates::value;
  SmallVector<Value> carried = state.values();
  auto gateType = ofValues ? tileType(1, valueCols) : tileType(keyCols, 1);
  if (gates != Gates::none)
    carried.push_back(fill(f32(1.0f), gateType));
  auto forOp =
      scf::ForOp::create(b, loc, begin, end, index(chunkSize), carried);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(forOp.getBody());
    State here = state;
    here.matrix = forOp.getRegionIterArg(0);
    if (here.sum)
      here.sum = forOp.getRegionIterArg(1);
    Chunk chunk = makeChunk(forOp.getInductionVar());
    SmallVector<Value> next = advance(chunk, here).values();
    if (gates != Gates::none)
      next.push_back(multiply(forOp.getRegionIterArgs().back(),
                              ofValues ? chunk.totalRow : chunk.totalColumn,
                              gateType));
    scf::YieldOp::create(b, loc, next);
  }
  Value zero = index(0);
  SmallVector<Value> at = {segment, batch, head, zero};
  SmallVector<Value> atMatrix = {segment, batch, head, zero, zero};
  unsigned next = 0;
  tile::StoreOp::create(b, loc, forOp.getResult(next), memory[next], atMatrix,
                        zero, index(keyChannels), /*vector=*/false);
  if (scanOp.getNormalize()) {
    ++next;
    tile::StoreOp::create(b, loc, forOp.getResult(next), memory[next], at, zero,
                          stateHeads, /*vector=*/false);
  }
  if (gates != Gates::none) {
    ++next;
    tile::StoreOp::create(b, loc, forOp.getResult(next), memory[next], at, zero,
                          ofValues ? stateHeads : index(keyChannels),
                          /*vector=*/!ofValues);
  }
  tile::ReturnOp::create(b, loc);
}

/// The state that the segments before this one make of the first.
ScanKernel::State ScanKernel::passSegments(const State &first) {
  auto forOp =
      scf::ForOp::create(b, loc, index(0), segment, index(1), first.values());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forOp.getBody());
  Value zero = index(0), part = forOp.getInductionVar();
  SmallVector<Value> at = {part, batch, head, zero};
  SmallVector<Value> atMatrix = {part, batch, head, zero, zero};
  auto load = [&](tile::TileType type, Value memory, ValueRange indices,
                  Value rows, bool isVector) -> Value {
    return tile::LoadOp::create(b, loc, type, memory, indices, zero, rows,
                                /*live=*/Value(), isVector,
                                /*transposed=*/false);
  };
  auto pass = [&](Value old, Value gate, Value added) {
    SmallVector<Value> inputs = {old, added};
    if (gate)
      inputs.push_back(gate);
    return mapOne(inputs, cast<tile::TileType>(old.getType()),
                  [&](Value, Value, ValueRange x) {
                    return addf(x.size() > 2 ? mulf(x[0], x[2]) : x[0], x[1]);
                  });
  };
  bool ofValues = gates == Gates::value;
  Value column, row;
  if (ofValues)
    row = load(tileType(1, valueCols), summaries.back(), at, stateHeads, false);
  else if (gates != Gates::none)
    column = load(tileType(keyCols, 1), summaries.back(), at,
                  index(keyChannels), /*isVector=*/true);
  State next = first;
  next.matrix = pass(forOp.getRegionIterArg(0), ofValues ? row : column,
                     load(tileType(keyCols, valueCols), summaries[0], atMatrix,
                          index(keyChannels), /*isVector=*/false));
  if (first.sum) {
    Value gate;
    if (gates != Gates::none)
      gate = load(tileType(1, keyCols), summaries.back(), at, stateHeads,
                  /*isVector=*/false);
    next.sum = pass(forOp.getRegionIterArg(1), gate,
                    load(tileType(1, keyCols), summaries[1], at, stateHeads,
                         /*isVector=*/false));
  }
  scf::YieldOp::create(b, loc, next.values());
  next.matrix = forOp.getResult(0);
  if (first.sum)
    next.sum = forOp.getResult(1);
  return next;
}
