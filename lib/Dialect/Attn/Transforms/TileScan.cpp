//===- TileScan.cpp - The kernel of attn.scan -----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block of the kernel: its tokens, the state it begins and ends with, and the
// walk over chunks. TileScanGates.cpp and TileScanProducts.cpp have what a
// chunk does.
//
//===----------------------------------------------------------------------===//

#include "TileScan.h"
#include "attn/Analysis/Schedule.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mlir::attn;

/// Terms of bf16 that a product adds at once.
static constexpr int64_t narrowDepth = 32;

//===----------------------------------------------------------------------===//
// Small helpers
//===----------------------------------------------------------------------===//

Value ScanKernel::dot(Value lhs, Value rhs, Value acc, Value scale,
                      bool transposeRhs, bool transposeLhs) {
  auto left = cast<tile::TileType>(lhs.getType());
  auto right = cast<tile::TileType>(rhs.getType());
  auto type = tileType(transposeLhs ? left.getCols() : left.getRows(),
                       transposeRhs ? right.getRows() : right.getCols());
  return tile::DotOp::create(b, loc, type, lhs, rhs, acc, scale,
                             /*ramp=*/Value(), transposeRhs, /*tf32=*/false,
                             transposeLhs);
}

Value ScanKernel::mapOne(ValueRange inputs, tile::TileType type, Body body) {
  return map(inputs, {type},
             [&](Value r, Value c, ValueRange x) {
               return SmallVector<Value>{body(r, c, x)};
             })
      .front();
}

Value ScanKernel::multiply(Value x, Value y, tile::TileType type) {
  return mapOne({x, y}, type,
                [&](Value, Value, ValueRange v) { return mulf(v[0], v[1]); });
}

Value ScanKernel::addTiles(Value x, Value y, tile::TileType type) {
  return mapOne({x, y}, type,
                [&](Value, Value, ValueRange v) { return addf(v[0], v[1]); });
}

Value ScanKernel::expOf(Value tile) {
  return mapOne(tile, cast<tile::TileType>(tile.getType()),
                [&](Value, Value, ValueRange v) -> Value {
                  return math::ExpOp::create(b, loc, v[0]);
                });
}

Value ScanKernel::rounded(Value tile, Type element) {
  auto type = cast<tile::TileType>(tile.getType());
  return mapOne(tile, tileType(type.getRows(), type.getCols(), element),
                [&](Value, Value, ValueRange v) -> Value {
                  return arith::TruncFOp::create(b, loc, element, v[0]);
                });
}

Value ScanKernel::sumRows(Value tile) {
  // Of one token there is nothing to sum.
  return cast<tile::TileType>(tile.getType()).isRowVector() ? tile
                                                            : rowSum(tile);
}

Value ScanKernel::sumCols(Value tile) {
  return reduce(
             tile, f32(0.0f), /*ordered=*/false,
             [&](ValueRange x, ValueRange y) -> SmallVector<Value> {
               return {addf(x[0], y[0])};
             },
             /*overRows=*/true)
      .front();
}

Value ScanKernel::mask(int64_t rows, int64_t cols,
                       function_ref<Value(Value, Value)> isOne) {
  return mapOne({}, tileType(rows, cols), [&](Value r, Value c, ValueRange) {
    return select(isOne(r, c), f32(1.0f), f32(0.0f));
  });
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

/// Rows from `row` on of a tensor [(b,) h, t, d].
Value ScanKernel::loadTokens(Value memref, Value headIndex, Value row,
                             int64_t cols, Type element) {
  SmallVector<Value> at = indicesOf(headIndex, row, index(0));
  bool isQuery = memref == arg(scanOp.getQuery()) && isReading;
  if (!element)
    element = b.getF32Type();
  return tile::LoadOp::create(b, loc, tileType(chunkSize, cols, element),
                              memref, at, begin, isQuery ? queryEnd : end,
                              /*live=*/Value(), /*vector=*/false,
                              /*transposed=*/false);
}

void ScanKernel::askAhead(Value memref, Value headIndex, Value row) {
  auto type = cast<MemRefType>(memref.getType());
  if (chunkSize == 1 || !type.isLastDimUnitStride())
    return;
  tile::PrefetchOp::create(
      b, loc, memref,
      indicesOf(headIndex, add(row, index(chunkSize)), index(0)), chunkSize,
      type.getShape().back());
}

bool ScanKernel::hasNarrowProducts() {
  Type type =
      cast<RankedTensorType>(scanOp.getKey().getType()).getElementType();
  return target.multiplies(type.isBF16(), type.isF16()) && chunkSize > 1 &&
         gates != Gates::key && scanOp.getFeature().empty() &&
         !scanOp.getL2norm();
}

bool ScanKernel::hasNarrowReads() {
  Type type =
      cast<RankedTensorType>(scanOp.getKey().getType()).getElementType();
  return hasNarrowProducts() && type.isBF16() && chunkSize % narrowDepth == 0 &&
         keyCols % narrowDepth == 0 && gates != Gates::value &&
         !scanOp.getWhole() && !scanOp.getNormalize() &&
         !scanOp.getLogWeight() && !scanOp.getEraseA();
}

bool ScanKernel::hasScaledSums(const Chunk &chunk) {
  return chunk.narrowState ||
         (chunkSize > 1 && gates != Gates::key && gates != Gates::value &&
          !scanOp.getWhole() && !scanOp.getLogWeight() && !scanOp.getEraseA());
}

bool ScanKernel::hasExactParts(const Chunk &chunk) {
  return hasNarrowReads() && target.hasAmxBf16 && chunk.written == chunk.key &&
         gates != Gates::value;
}

void ScanKernel::addNarrowReads(Chunk &chunk, const State &state) {
  if (!hasNarrowReads())
    return;
  Value values = arg(scanOp.getValue());
  Type element = cast<MemRefType>(values.getType()).getElementType();
  chunk.narrowState = rounded(state.matrix, element);
  // What the delta rule writes may be many times as large as what is read of
  // it, so that it takes its part in f32.
  if (!scanOp.getDelta())
    chunk.narrowValue =
        loadTokens(values, headOf(values), chunk.first, valueCols, element);
}

Value ScanKernel::loadNumbers(Value memref, Value row, bool asRow) {
  return tile::LoadOp::create(b, loc, asRow ? tileType(1, chunkSize) : column(),
                              memref, indicesOf(head, row, Value()), begin, end,
                              /*live=*/Value(), /*vector=*/true,
                              /*transposed=*/asRow && chunkSize > 1);
}

/// Applies the feature map and the norm to rows of queries or keys.
Value ScanKernel::mapRows(Value tile, Value row, int64_t channels) {
  auto type = cast<tile::TileType>(tile.getType());
  Region &feature = scanOp.getFeature();
  if (!feature.empty()) {
    // What is not there stays 0.
    Value rows = toI32(sub(isReading ? queryEnd : end, row));
    Value cols = i32(channels);
    tile = mapOne(tile, type, [&](Value r, Value c, ValueRange x) {
      Value y = inlineRegion(b, feature, x).front();
      Value exists =
          arith::AndIOp::create(b, loc, cmp(arith::CmpIPredicate::slt, r, rows),
                                cmp(arith::CmpIPredicate::slt, c, cols));
      return select(exists, y, f32(0.0f));
    });
  }
  if (!scanOp.getL2norm())
    return tile;
  Value squares = mapOne(
      tile, type, [&](Value, Value, ValueRange x) { return mulf(x[0], x[0]); });
  return mapOne(
      {tile, sumRows(squares)}, type, [&](Value, Value, ValueRange x) -> Value {
        Value norm = math::SqrtOp::create(b, loc, addf(x[1], f32(normEpsilon)));
        return arith::DivFOp::create(b, loc, x[0], norm);
      });
}

Value ScanKernel::mapGates(Value tile, Value row, int along) {
  Region &gate = scanOp.getGate();
  if (gate.empty())
    return tile;
  auto type = cast<tile::TileType>(tile.getType());
  SmallVector<Value> inputs = {tile}, numbers;
  for (Value capture : scanOp.getGateCaptures()) {
    Value memory = arg(capture);
    if (cast<MemRefType>(memory.getType()).getRank() == 1) {
      numbers.push_back(numberOf(memory, head));
      continue;
    }
    // A row of channels, or a column.
    bool asColumn = along == 1;
    numbers.push_back(Value());
    inputs.push_back(tile::LoadOp::create(
        b, loc,
        asColumn ? tileType(type.getRows(), 1) : tileType(1, type.getCols()),
        memory, ValueRange{head, index(0)}, index(0),
        asColumn ? index(keyChannels) : stateHeads, /*live=*/Value(),
        /*vector=*/asColumn, /*transposed=*/false));
  }
  // What is not there decays nothing.
  int64_t width = gates == Gates::value ? valueChannels : keyChannels;
  Value tokens = toI32(sub(end, row)), channels = i32(width);
  return mapOne(inputs, type, [&](Value r, Value c, ValueRange x) {
    SmallVector<Value> arguments = {x[0]};
    unsigned next = 1;
    for (Value number : numbers)
      arguments.push_back(number ? number : x[next++]);
    Value log = inlineRegion(b, gate, arguments).front();
    Value exists = cmp(arith::CmpIPredicate::slt, along ? c : r, tokens);
    if (gates != Gates::head)
      exists = arith::AndIOp::create(
          b, loc, exists,
          cmp(arith::CmpIPredicate::slt, along ? r : c, channels));
    return select(exists, log, f32(0.0f));
  });
}

Value ScanKernel::finalize(Value sum, Value outputHead, Value row) {
  Region &region = scanOp.getFinalize();
  if (region.empty())
    return sum;
  SmallVector<Value> inputs = {sum}, numbers;
  for (Value capture : scanOp.getFinalizeCaptures()) {
    Value memory = arg(capture);
    int64_t rank = cast<MemRefType>(memory.getType()).getRank();
    numbers.push_back(rank == 1 ? numberOf(memory, outputHead) : Value());
    if (rank == 2)
      inputs.push_back(tile::LoadOp::create(
          b, loc, tileType(1, valueCols), memory,
          ValueRange{outputHead, index(0)}, Value(), Value(),
          /*live=*/Value(), /*vector=*/false, /*transposed=*/false));
    else if (rank > 2)
      inputs.push_back(tile::LoadOp::create(
          b, loc, valueRows(), memory, indicesOf(outputHead, row, index(0)),
          begin, queryEnd, /*live=*/Value(), /*vector=*/false,
          /*transposed=*/false));
  }
  return mapOne(inputs, valueRows(), [&](Value, Value, ValueRange x) {
    SmallVector<Value> arguments = {x[0]};
    unsigned next = 1;
    for (Value number : numbers)
      arguments.push_back(number ? number : x[next++]);
    return inlineRegion(b, region, arguments).front();
  });
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

SmallVector<Value> ScanKernel::State::values() const {
  SmallVector<Value> all = {matrix};
  if (sum)
    all.push_back(sum);
  if (largest)
    all.push_back(largest);
  return all;
}

ScanKernel::State ScanKernel::loadState() {
  State state;
  SmallVector<Value> from = initialStates();
  Value exists;
  Value where = from.empty() ? batch : findState(from.front(), exists);
  // No row of a state that is not there is read.
  auto bound = [&](Value size) -> Value {
    return exists ? select(exists, size, index(0)) : size;
  };
  auto empty = [&](tile::TileType type, float value) {
    return fill(f32(value), type);
  };
  unsigned next = 0;
  auto matrixType = tileType(keyCols, valueCols),
       rowType = tileType(1, keyCols);
  state.matrix = from.empty()
                     ? empty(matrixType, 0.0f)
                     : tile::LoadOp::create(
                           b, loc, matrixType, from[next++],
                           ValueRange{where, head, index(0), index(0)},
                           index(0), bound(matrixRows()),
                           /*live=*/Value(), /*vector=*/false, valuesFirst());
  if (scanOp.getNormalize())
    state.sum =
        from.empty()
            ? empty(rowType, 0.0f)
            : tile::LoadOp::create(b, loc, rowType, from[next++],
                                   ValueRange{where, head, index(0)}, index(0),
                                   bound(stateHeads), /*live=*/Value(),
                                   /*vector=*/false, /*transposed=*/false);
  if (scanOp.getLogWeight()) {
    float infinity = std::numeric_limits<float>::infinity();
    auto one = tileType(1, 1);
    state.largest = empty(one, -infinity);
    if (!from.empty()) {
      Value loaded = tile::LoadOp::create(
          b, loc, one, from[next++], ValueRange{where, head}, index(0),
          bound(stateHeads), /*live=*/Value(), /*vector=*/true,
          /*transposed=*/false);
      state.largest =
          exists ? mapOne({loaded}, one,
                          [&](Value, Value, ValueRange x) {
                            return select(exists, x[0], f32(-infinity));
                          })
                 : loaded;
    }
  }
  return state;
}

void ScanKernel::storeState(const State &state, ValueRange outputs) {
  SmallVector<Value> to = finalStates(outputs);
  Value exists;
  Value where = to.empty() ? batch : findState(to.front(), exists);
  auto bound = [&](Value size) -> Value {
    return exists ? select(exists, size, index(0)) : size;
  };
  for (auto [tile, memory] : llvm::zip(state.values(), to)) {
    if (!memory)
      continue;
    bool isVector = tile == state.largest;
    SmallVector<Value> at = {where, head};
    if (!isVector)
      at.push_back(index(0));
    if (tile == state.matrix)
      at.push_back(index(0));
    bool isMatrix = tile == state.matrix;
    tile::StoreOp::create(b, loc, tile, memory, at, index(0),
                          bound(isMatrix ? matrixRows() : stateHeads), isVector,
                          /*transposed=*/isMatrix && valuesFirst());
  }
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

ScanKernel::Chunk ScanKernel::makeChunk(Value first) {
  Chunk chunk;
  chunk.first = first;
  Value keys = arg(scanOp.getKey()), values = arg(scanOp.getValue());
  chunk.key = loadTokens(keys, headOf(keys), first, keyCols);
  chunk.key = mapRows(chunk.key, first, keyChannels);
  if (hasNarrowProducts())
    chunk.narrowKey =
        loadTokens(keys, headOf(keys), first, keyCols,
                   cast<MemRefType>(keys.getType()).getElementType());
  chunk.value = ofMap ? fill(f32(0.0f), valueRows())
                      : loadTokens(values, headOf(values), first, valueCols);
  chunk.givenValue = chunk.value;
  if (gates == Gates::head)
    addHeadGates(chunk);
  else if (gates != Gates::none)
    addChannelGates(chunk);
  chunk.written = chunk.key;
  if (Value weight = scanOp.getWeight())
    chunk.written =
        multiply(chunk.key, loadNumbers(arg(weight), first, false), keyRows());
  return chunk;
}

/// Zeros in the rows from `begin` to `end`, which no sequence has.
void ScanKernel::clear(Value output) {
  Value zeros = fill(f32(0.0f), valueRows());
  auto [outputHeads, group] = countOutputHeads();
  auto heads = scf::ForOp::create(b, loc, index(0), group, index(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(heads.getBody());
  Value outputHead = add(mul(head, group), heads.getInductionVar());
  auto rows = scf::ForOp::create(b, loc, begin, end, index(chunkSize));
  b.setInsertionPointToStart(rows.getBody());
  tile::StoreOp::create(b, loc, zeros, output,
                        indicesOf(outputHead, rows.getInductionVar(), index(0)),
                        begin, end, /*vector=*/false);
}

void ScanKernel::startBlock(Value block, Value segments) {
  keyChannels = scanOp.getKeyChannels();
  valueChannels = scanOp.getValueChannels();
  keyCols = ::attn::paddedChannels(keyChannels, target);
  valueCols = ::attn::paddedChannels(valueChannels, target);
  if (scanOp.getDecay())
    gates = !scanOp.hasChannelGates() ? Gates::head
            : scanOp.getValueGates()  ? Gates::value
                                      : Gates::key;
  // Products of tokens with each other are the least in chunks of 16; sums of
  // a delta rule, three to a term, would be less exact in longer ones.
  chunkSize = scanOp.getChunk().value_or(narrowDepth);
  if (!scanOp.getChunk() && !hasNarrowReads())
    chunkSize = 16;
  else if (!scanOp.getChunk() && target.hasAmxBf16 && !scanOp.getDelta())
    chunkSize = ::attn::TargetInfo::amxChunk;
  levels = llvm::Log2_64(chunkSize);

  if (takesTurns(scanOp) && !segments) {
    findTurn(block);
    findRows();
    return takeTurn();
  }
  auto work = findWork(block, /*tiles=*/1, segments);
  findRows();
  segment = work.getPart();
  if (isCut())
    cutSegment();
}

void ScanKernel::build(ValueRange outputs, Value block, ValueRange memory) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  summaries.assign(memory.begin(), memory.end());
  startBlock(block, takesTurns(scanOp)
                        ? Value()
                        : index(scanOp.getSegments().value_or(1)));
  if (isSequence) {
    auto branch = scf::IfOp::create(b, loc, isSequence,
                                    /*withElseRegion=*/true);
    tile::ReturnOp::create(b, loc);
    if (outputs.front()) {
      b.setInsertionPointToStart(branch.elseBlock());
      clear(outputs.front());
    }
    b.setInsertionPointToStart(branch.thenBlock());
    return walkChunks(outputs);
  }
  walkChunks(outputs);
  if (scanOp.getLengths() && outputs.front()) {
    // Those of segments but the last end where others begin.
    Value last = dim(arg(scanOp.getQuery()), 2);
    begin = isLastSegment ? select(isLastSegment, end, last) : end;
    end = last;
    clear(outputs.front());
  }
  tile::ReturnOp::create(b, loc);
}

void ScanKernel::walkChunks(ValueRange outputs) {
  makeMasks();

  Value output = outputs.front();
  bool readsEnd = scanOp.getWhole();
  bool hasTurns = takesTurns(scanOp);
  State state = hasTurns ? loadPassed() : loadState();
  if (isCut())
    state = passSegments(state);
  auto walk = [&](bool advances, bool reads) {
    SmallVector<Value> carried =
        advances ? state.values() : SmallVector<Value>();
    Value last = reads ? max(end, queryEnd) : end;
    auto forOp =
        scf::ForOp::create(b, loc, begin, last, index(chunkSize), carried);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(forOp.getBody());
    State here = state;
    if (advances) {
      unsigned next = 0;
      here.matrix = forOp.getRegionIterArg(next++);
      if (here.sum)
        here.sum = forOp.getRegionIterArg(next++);
      if (here.largest)
        here.largest = forOp.getRegionIterArg(next++);
    }
    Chunk chunk = makeChunk(forOp.getInductionVar());
    if (scanOp.getLogWeight())
      addLogWeights(chunk, here);
    addErased(chunk, here);
    if (reads && output) {
      addNarrowReads(chunk, here);
      read(chunk, here, output);
    }
    if (!advances)
      return;
    scf::YieldOp::create(b, loc, advance(chunk, here).values());
    unsigned next = 0;
    state.matrix = forOp.getResult(next++);
    if (state.sum)
      state.sum = forOp.getResult(next++);
    if (state.largest)
      state.largest = forOp.getResult(next++);
  };
  walk(/*advances=*/true, /*reads=*/!readsEnd);
  if (readsEnd)
    walk(/*advances=*/false, /*reads=*/true);
  if (!isCut() && !hasTurns)
    return storeState(state, outputs.drop_front());
  {
    auto ifLast = scf::IfOp::create(b, loc, isLastSegment);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(ifLast.thenBlock());
    storeState(state, outputs.drop_front());
  }
  if (hasTurns)
    passTurn(state);
}
