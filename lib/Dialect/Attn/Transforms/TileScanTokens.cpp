//===- TileScanTokens.cpp - attn.scan token by token ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileScanTokens.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mlir::attn;

/// The widest part of the key channels.
static constexpr int64_t partWidth = 64;
/// The most key channels that registers hold, of 16 value channels.
static constexpr int64_t mostChannels = 256;
static constexpr float minusInfinity = -std::numeric_limits<float>::infinity();

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

LogicalResult ScanTokensKernel::check(ScanOp op) {
  if (op.getKeyChannels() > mostChannels)
    return op.emitOpError("expected at most ")
           << mostChannels << " key channels on a GPU, but got "
           << op.getKeyChannels() << "; a CPU takes more";
  if (op.getSegments().value_or(1) > 1)
    return op.emitOpError("expected one segment on a GPU, but got ")
           << *op.getSegments() << "; a CPU cuts tokens";
  if (op.getL2norm() && op.getNormalize())
    return op.emitOpError("expected l2norm without normalize on a GPU; divide "
                          "queries and keys by their norms first");
  return success();
}

int64_t ScanTokensKernel::blockRows(ScanOp op) {
  // 32 rows are 16 bytes for each of 8 lanes, or with 16 bits of 4. Registers
  // hold 16 of more channels, which lie together where a row has all of them:
  // but what keys alone give each warp computes, and short states hide little.
  bool isShort = !op.getPool().empty() &&
                 !getElementTypeOrSelf(op.getPool().front().getType()).isF32();
  bool hasMore = op.getEraseA() || op.getLogWeight();
  bool isNarrow = op.getKeyChannels() > 2 * partWidth ||
                  op.getValueChannels() <= 16 ||
                  (op.getValuesFirst() && !(isShort && hasMore));
  return isNarrow ? 16 : 32;
}

/// Of states whose rows are key channels 8 lanes have a row of a part: 16 bytes
/// each, so that no access leaves half of a sector.
int64_t ScanTokensKernel::widthOfParts() {
  SmallVector<Value> from = initialStates();
  bool isWide =
      from.empty() ||
      cast<MemRefType>(from.front().getType()).getElementType().isF32();
  return valuesFirst() && isWide ? partWidth / 2 : partWidth;
}

int64_t ScanTokensKernel::countTiles(ScanOp op) {
  return llvm::divideCeil(op.getValueChannels(), blockRows(op));
}

//===----------------------------------------------------------------------===//
// Small helpers
//===----------------------------------------------------------------------===//

Value ScanTokensKernel::mapOne(ValueRange inputs, tile::TileType type,
                               Body body) {
  return map(inputs, {type},
             [&](Value, Value, ValueRange x) {
               return SmallVector<Value>{body(x)};
             })
      .front();
}

Value ScanTokensKernel::rowSums(ArrayRef<Parts> factors) {
  SmallVector<Value> inputs;
  for (const Parts &parts : factors)
    llvm::append_range(inputs, parts);
  Value products =
      mapOne(inputs, tileType(rows, width), [&](ValueRange x) -> Value {
        Value sum;
        for (int64_t part = 0; part < numParts; ++part) {
          Value left = x[part];
          for (size_t i = 1; i + 1 < factors.size(); ++i)
            left = mulf(left, x[i * numParts + part]);
          Value right = x[(factors.size() - 1) * numParts + part];
          sum = sum ? math::FmaOp::create(b, loc, left, right, sum).getResult()
                    : mulf(left, right);
        }
        return sum;
      });
  return rowSum(products);
}

Value ScanTokensKernel::timesColumn(Value x, Value y) {
  if (!x || !y)
    return x ? x : y;
  return mapOne({x, y}, column(),
                [&](ValueRange v) { return mulf(v[0], v[1]); });
}

Value ScanTokensKernel::timesScalar(Value x, Value y) {
  if (!y)
    return x;
  return mapOne(x, column(), [&](ValueRange v) { return mulf(v[0], y); });
}

Value ScanTokensKernel::expOf(Value x) {
  return math::ExpOp::create(b, loc, x);
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

ScanTokensKernel::Parts ScanTokensKernel::loadKeys(Value memref,
                                                   Value headIndex, Value row) {
  Parts parts;
  for (int64_t part = 0; part < numParts; ++part)
    parts.push_back(tile::LoadOp::create(
        b, loc, tileType(1, width), memref,
        indicesOf(headIndex, row, index(part * width)), Value(), Value(),
        /*live=*/Value(), /*vector=*/false, /*transposed=*/false));
  return parts;
}

Value ScanTokensKernel::loadValues(Value memref, Value headIndex, Value row) {
  return tile::LoadOp::create(
      b, loc, column(), memref, indicesOf(headIndex, row, firstValue), index(0),
      index(valueChannels), /*live=*/Value(), /*vector=*/true,
      /*transposed=*/false);
}

Value ScanTokensKernel::loadNumber(Value memref, Value row) {
  Value number =
      memref::LoadOp::create(b, loc, memref, indicesOf(head, row, Value()));
  if (number.getType().isF32())
    return number;
  return arith::ExtFOp::create(b, loc, b.getF32Type(), number);
}

ScanTokensKernel::Parts ScanTokensKernel::mapFeature(Parts keys) {
  if (scanOp.getFeature().empty())
    return keys;
  return mapKeys(keys, scanOp.getFeature(), {});
}

/// A region of each element of a row of keys, and of captures.
ScanTokensKernel::Parts ScanTokensKernel::mapKeys(Parts keys, Region &region,
                                                  ValueRange captures) {
  for (auto [part, tile] : llvm::enumerate(keys)) {
    // What is not there stays 0.
    Value first = index(int64_t(part) * width);
    int64_t own = keyChannels - int64_t(part) * width;
    Captures given = loadCaptures(captures, head, [&](Value memref) -> Value {
      return tile::LoadOp::create(b, loc, tileType(1, width), memref,
                                  ValueRange{head, first}, Value(), Value(),
                                  /*live=*/Value(), /*vector=*/false,
                                  /*transposed=*/false);
    });
    given.tiles.insert(given.tiles.begin(), tile);
    tile =
        map(given.tiles, {tile.getType()}, [&](Value, Value c, ValueRange x) {
          Value y = inlineRegion(b, region, given.arguments(x)).front();
          if (own >= width)
            return SmallVector<Value>{y};
          Value channels = i32(own);
          Value exists = cmp(arith::CmpIPredicate::slt, c, channels);
          return SmallVector<Value>{select(exists, y, f32(0.0f))};
        }).front();
  }
  return keys;
}

ScanTokensKernel::Captures
ScanTokensKernel::loadCaptures(ValueRange captures, Value headIndex,
                               function_ref<Value(Value)> loadWide) {
  Captures all;
  for (Value capture : captures) {
    Value memory = arg(capture);
    bool isWide = cast<MemRefType>(memory.getType()).getRank() > 1;
    all.numbers.push_back(isWide ? Value() : numberOf(memory, headIndex));
    if (isWide)
      all.tiles.push_back(loadWide(memory));
  }
  return all;
}

SmallVector<Value>
ScanTokensKernel::Captures::arguments(ValueRange elements) const {
  SmallVector<Value> all = {elements[0]};
  unsigned next = 1;
  for (Value number : numbers)
    all.push_back(number ? number : elements[next++]);
  return all;
}

/// Row `headIndex` of a tensor [h, dv], or a token's row, as a column.
Value ScanTokensKernel::mapColumn(Value x, Region &region, ValueRange captures,
                                  Value headIndex, Value at) {
  Captures given =
      loadCaptures(captures, headIndex, [&](Value memref) -> Value {
        if (cast<MemRefType>(memref.getType()).getRank() > 2)
          return loadValues(memref, headIndex, at);
        return tile::LoadOp::create(b, loc, column(), memref,
                                    ValueRange{headIndex, firstValue}, index(0),
                                    index(valueChannels), /*live=*/Value(),
                                    /*vector=*/true, /*transposed=*/false);
      });
  given.tiles.insert(given.tiles.begin(), x);
  return mapOne(given.tiles, column(), [&](ValueRange v) -> Value {
    return inlineRegion(b, region, given.arguments(v)).front();
  });
}

Value ScanTokensKernel::inverseNorm(const Parts &x) {
  if (!scanOp.getL2norm())
    return {};
  return mapOne(rowSums({x, x}), column(), [&](ValueRange v) -> Value {
    Value norm = math::SqrtOp::create(b, loc, addf(v[0], f32(normEpsilon)));
    return arith::DivFOp::create(b, loc, f32(1.0f), norm);
  });
}

ScanTokensKernel::Token ScanTokensKernel::loadToken(Value at, bool reads) {
  Token token;
  token.at = at;
  Value keys = arg(scanOp.getKey());
  token.key = loadKeys(keys, headOf(keys), at);
  auto number = [&](Value operand) {
    return operand ? loadNumber(arg(operand), at) : Value();
  };
  if (Value decay = scanOp.getDecay()) {
    if (!scanOp.hasChannelGates())
      token.gate = number(decay);
    else if (!scanOp.getValueGates())
      token.keyGates = loadKeys(arg(decay), head, at);
    else if (!ofSums)
      token.valueGates = loadValues(arg(decay), head, at);
  }
  token.written = number(scanOp.getWeight());
  token.largest = number(scanOp.getLogWeight());
  if (ofSums)
    return token;
  token.beta = number(scanOp.getDelta());
  Value values = arg(scanOp.getValue());
  token.value = loadValues(values, headOf(values), at);
  if (scanOp.getEraseA()) {
    token.erase = loadKeys(arg(scanOp.getEraseA()), head, at);
    token.erasing = loadKeys(arg(scanOp.getEraseB()), head, at);
  }
  if (reads)
    token.query = loadQuery(at, index(0)).second;
  return token;
}

void ScanTokensKernel::prepare(Token &token, const State &state) {
  auto expTile = [&](Value tile) {
    return mapOne(tile, cast<tile::TileType>(tile.getType()),
                  [&](ValueRange x) { return expOf(x[0]); });
  };
  if (Region &gate = scanOp.getGate(); !gate.empty()) {
    ValueRange captures = scanOp.getGateCaptures();
    if (token.gate) {
      Captures given = loadCaptures(captures, head, nullptr);
      token.gate = inlineRegion(b, gate, given.arguments(token.gate)).front();
    }
    if (!token.keyGates.empty())
      token.keyGates = mapKeys(token.keyGates, gate, captures);
    if (token.valueGates)
      token.valueGates =
          mapColumn(token.valueGates, gate, captures, head, token.at);
  }
  // Relative to the largest weight so far.
  if (Value own = token.largest) {
    Value old = state.largest;
    if (token.gate)
      old = addf(old, token.gate);
    token.largest = arith::MaximumFOp::create(b, loc, own, old);
    token.gate = relative(old, token.largest);
    token.written = relative(own, token.largest);
  } else if (token.gate) {
    token.gate = expOf(token.gate);
  }
  token.key = mapFeature(token.key);
  for (Value &gates : token.keyGates)
    gates = expTile(gates);
  if (token.valueGates)
    token.valueGates = expTile(token.valueGates);
  if (!ofSums)
    token.keyNorm = inverseNorm(token.key);
}

ScanTokensKernel::State ScanTokensKernel::advance(const Token &token,
                                                  const State &state) {
  State next = state;
  if (token.largest)
    next.largest = token.largest;
  for (auto [part, sum] : llvm::enumerate(next.sum)) {
    SmallVector<Value> inputs = {sum, token.key[part]};
    if (!token.keyGates.empty())
      inputs.push_back(token.keyGates[part]);
    sum = mapOne(inputs, tileType(1, width), [&](ValueRange x) {
      Value old = x[0];
      if (x.size() > 2)
        old = mulf(old, x[2]);
      else if (token.gate)
        old = mulf(old, token.gate);
      return addf(old, token.written ? mulf(x[1], token.written) : x[1]);
    });
  }
  if (ofSums)
    return next;

  // The decayed state times a vector.
  auto known = [&](const Parts &vector, bool decayed) {
    if (!decayed)
      return rowSums({state.matrix, vector});
    Value sums = token.keyGates.empty()
                     ? rowSums({state.matrix, vector})
                     : rowSums({state.matrix, token.keyGates, vector});
    return timesColumn(timesScalar(sums, token.gate), token.valueGates);
  };
  Value written = timesScalar(token.value, token.written);
  if (Value factor = token.beta) {
    Value old = timesColumn(known(token.key, /*decayed=*/true), token.keyNorm);
    written = mapOne({token.value, old}, column(), [&](ValueRange x) {
      return mulf(factor, arith::SubFOp::create(b, loc, x[0], x[1]));
    });
  }
  written = timesColumn(written, token.keyNorm);
  Value erased;
  if (!token.erase.empty())
    erased = known(token.erase, /*decayed=*/!scanOp.getEraseBefore());
  for (auto [part, matrix] : llvm::enumerate(next.matrix)) {
    SmallVector<Value> inputs = {matrix, token.key[part], written};
    if (erased)
      inputs.append({token.erasing[part], erased});
    if (!token.keyGates.empty())
      inputs.push_back(token.keyGates[part]);
    if (token.valueGates)
      inputs.push_back(token.valueGates);
    matrix = mapOne(inputs, tileType(rows, width), [&](ValueRange x) -> Value {
      Value old = x[0];
      if (token.gate)
        old = mulf(old, token.gate);
      if (!token.keyGates.empty() || token.valueGates)
        old = mulf(old, x.back());
      if (erased)
        old = math::FmaOp::create(b, loc, x[3], x[4], old);
      return math::FmaOp::create(b, loc, x[1], x[2], old);
    });
  }
  return next;
}

std::pair<Value, ScanTokensKernel::Parts>
ScanTokensKernel::loadQuery(Value at, Value reader) {
  auto [outputHeads, group] = countOutputHeads();
  Value outputHead = add(mul(head, group), reader);
  return {outputHead, loadKeys(arg(scanOp.getQuery()),
                               queryHeadOf(outputHead, outputHeads), at)};
}

void ScanTokensKernel::read(const Token &token, const State &state,
                            Value output) {
  // Most often there is one query, which has been loaded with the rest.
  Value group = countOutputHeads().second;
  readOne(token, state, output, mul(head, group), token.query);
  auto forOp = scf::ForOp::create(b, loc, index(1), group, index(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forOp.getBody());
  auto [outputHead, query] = loadQuery(token.at, forOp.getInductionVar());
  readOne(token, state, output, outputHead, query);
}

void ScanTokensKernel::readOne(const Token &token, const State &state,
                               Value output, Value outputHead, Parts query) {
  query = mapFeature(query);
  Value norm = inverseNorm(query);
  Value scale = scanOp.getScale() ? arg(scanOp.getScale()) : Value();
  auto scaled = [&](Value sums) {
    return timesColumn(timesScalar(sums, scale), norm);
  };
  Value sum = scaled(rowSums({state.matrix, query}));
  if (Value bonus = scanOp.getBonus()) {
    Parts factors;
    for (int64_t part = 0; part < numParts; ++part)
      factors.push_back(tile::LoadOp::create(
          b, loc, tileType(1, width), arg(bonus),
          ValueRange{head, index(part * width)}, Value(), Value(),
          /*live=*/Value(), /*vector=*/false, /*transposed=*/false));
    Value own = timesColumn(scaled(rowSums({query, factors, token.key})),
                            token.keyNorm);
    sum = mapOne({sum, token.value, own}, column(), [&](ValueRange x) -> Value {
      return math::FmaOp::create(b, loc, x[1], x[2], x[0]);
    });
  }
  auto isZero = [&](Value x) -> Value {
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, x,
                                 f32(0.0f));
  };
  if (!state.sum.empty()) {
    Value total = scaled(rowSums({state.sum, query}));
    sum = mapOne({sum, total}, column(), [&](ValueRange x) {
      return select(isZero(x[1]), f32(0.0f),
                    arith::DivFOp::create(b, loc, x[0], x[1]));
    });
  } else if (state.largest) {
    // Nothing times no weight at all.
    Value factor = expOf(state.largest);
    sum = mapOne(sum, column(), [&](ValueRange x) {
      return select(isZero(x[0]), f32(0.0f), mulf(x[0], factor));
    });
  }
  if (Region &region = scanOp.getFinalize(); !region.empty())
    sum = mapColumn(sum, region, scanOp.getFinalizeCaptures(), outputHead,
                    token.at);
  tile::StoreOp::create(b, loc, sum, output,
                        indicesOf(outputHead, token.at, firstValue), index(0),
                        index(valueChannels), /*vector=*/true);
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

SmallVector<Value> ScanTokensKernel::State::values() const {
  SmallVector<Value> all(matrix);
  llvm::append_range(all, sum);
  if (largest)
    all.push_back(largest);
  return all;
}

ScanTokensKernel::State ScanTokensKernel::replaced(const State &state,
                                                   ValueRange by) const {
  State next = state;
  unsigned i = 0;
  for (Value &part : next.matrix)
    part = by[i++];
  for (Value &part : next.sum)
    part = by[i++];
  if (next.largest)
    next.largest = by[i++];
  return next;
}

void ScanTokensKernel::loadSlot() {
  if (scanOp.getSlot())
    slot = memref::LoadOp::create(b, loc, arg(scanOp.getSlot()), batch);
}

void ScanTokensKernel::findSlot() {
  where = batch;
  if (!slot)
    return;
  where = toIndex(slot);
  Value count = dim(arg(scanOp.getPool().front()), 0);
  exists = arith::AndIOp::create(
      b, loc, cmp(arith::CmpIPredicate::sge, where, index(0)),
      cmp(arith::CmpIPredicate::slt, where, count));
  where = select(exists, where, index(0));
}

SmallVector<Value> ScanTokensKernel::matrixAt(int64_t part) {
  SmallVector<Value> at = {where, head, index(part * width), firstValue};
  if (valuesFirst())
    std::swap(at[2], at[3]);
  return at;
}

std::pair<Value, Value> ScanTokensKernel::matrixBounds() {
  // Blocks whose rows all exist compare nothing.
  bool isWhole = valuesFirst() && valueChannels % rows == 0 && !exists;
  if (isWhole)
    return {};
  Value end = index(valuesFirst() ? valueChannels : keyChannels);
  return {index(0), exists ? select(exists, end, index(0)) : end};
}

/// Heads whose warps the GPU has at once.
int64_t ScanTokensKernel::headsAtOnce() {
  int64_t registers = (target.maxThreadRegisters + 1) * target.warpThreads;
  return target.numMultiprocessors * (target.numRegisters / registers) /
         countTiles(scanOp);
}

/// Heads between a warp and the one that it asks for: those that run at once,
/// or fewer, lest what is asked for drives out of the cache what was.
int64_t ScanTokensKernel::headsAhead() {
  // Measured on sm_90a: of 50 MB 8.7 are kept beside what is read and written,
  // 17.3 are not.
  constexpr int64_t share = 6;
  Type element =
      cast<MemRefType>(initialStates().front().getType()).getElementType();
  int64_t bytes =
      keyChannels * valueChannels * (element.getIntOrFloatBitWidth() / 8);
  return std::max<int64_t>(
      1, std::min(target.gpuL2Bytes / share / bytes, headsAtOnce()));
}

void ScanTokensKernel::prefetchOwn() {
  if (!isWhole() || scanOp.getSlot())
    return;
  // A tile with gaps is asked for line by line, which pays where the kernel
  // has no other warps to come.
  Value last = valuesFirst() ? add(mul(batch, stateHeads), head)
                             : mul(dim(arg(scanOp.getKey()), 0), stateHeads);
  auto isFirst = scf::IfOp::create(
      b, loc,
      cmp(valuesFirst() ? arith::CmpIPredicate::slt : arith::CmpIPredicate::sle,
          last, index(headsAtOnce())));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(isFirst.thenBlock());
  where = batch;
  bool first = valuesFirst();
  tile::PrefetchOp::create(b, loc, initialStates().front(), matrixAt(0),
                           first ? rows : keyChannels,
                           first ? keyChannels : rows);
}

/// What a later warp has. It comes into the cache of all multiprocessors while
/// this one computes: as many warps as registers allow ask for less than memory
/// can have under way.
void ScanTokensKernel::prefetchLater() {
  if (!isWhole() || matrixRows() % countTiles(scanOp))
    return;
  Value batches = dim(arg(scanOp.getKey()), 0);
  // Tiles of a head come first, then heads.
  Value number = add(add(mul(batch, stateHeads), head), index(headsAhead()));
  Value heads = toI32(max(stateHeads, index(1))), all = toI32(number);
  Value later = toIndex(arith::DivUIOp::create(b, loc, all, heads));
  Value laterHead = toIndex(arith::RemUIOp::create(b, loc, all, heads));
  auto branch =
      scf::IfOp::create(b, loc, cmp(arith::CmpIPredicate::slt, later, batches));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  std::tuple<Value, Value, Value, Value> own = {batch, head, where, exists};
  batch = later;
  head = laterHead;
  where = later;
  prefetchRows();
  if (slot) {
    Value first = slot;
    loadSlot();
    findSlot();
    slot = first;
    auto isThere = scf::IfOp::create(b, loc, exists);
    b.setInsertionPointToStart(isThere.thenBlock());
    prefetchShare();
  } else {
    prefetchShare();
  }
  std::tie(batch, head, where, exists) = own;
}

/// What the warps of a head all read, by the first of them.
void ScanTokensKernel::prefetchRows() {
  auto isFirst = scf::IfOp::create(
      b, loc, cmp(arith::CmpIPredicate::eq, firstValue, index(0)));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(isFirst.thenBlock());
  auto askAt = [&](Value memref, ValueRange at, int64_t columns) {
    if (cast<MemRefType>(memref.getType()).isLastDimUnitStride())
      tile::PrefetchOp::create(b, loc, memref, at, 1, columns);
  };
  auto ask = [&](Value memref, Value ofHead, int64_t columns) {
    askAt(memref, indicesOf(ofHead, begin, index(0)), columns);
  };
  Value keys = arg(scanOp.getKey()), values = arg(scanOp.getValue());
  ask(keys, headOf(keys), keyChannels);
  ask(values, headOf(values), valueChannels);
  auto [outputHeads, group] = countOutputHeads();
  ask(arg(scanOp.getQuery()), queryHeadOf(mul(head, group), outputHeads),
      keyChannels);
  if (scanOp.getDecay() && scanOp.hasChannelGates())
    ask(arg(scanOp.getDecay()), head,
        scanOp.getValueGates() ? valueChannels : keyChannels);
  for (Value erase : {scanOp.getEraseA(), scanOp.getEraseB()})
    if (erase)
      ask(arg(erase), head, keyChannels);
  if (scanOp.getNormalize() && !slot)
    askAt(initialStates()[1], {where, head, index(0)}, keyChannels);
}

/// Each warp of a head asks for as many whole rows, without gaps, be they its
/// own or not: tiles with gaps, in lines, made many sequences 4 % slower.
void ScanTokensKernel::prefetchShare() {
  int64_t share = matrixRows() / countTiles(scanOp);
  tile::PrefetchOp::create(
      b, loc, initialStates().front(),
      ValueRange{where, head, mul(tileNumber, index(share)), index(0)}, share,
      valuesFirst() ? keyChannels : valueChannels);
}

/// No channel of a state that is not there is read, or written.
Value ScanTokensKernel::existingChannels() {
  Value channels = index(keyChannels);
  return exists ? select(exists, channels, index(0)) : channels;
}

ScanTokensKernel::State ScanTokensKernel::loadState() {
  State state;
  SmallVector<Value> from = initialStates();
  Value channels = existingChannels();
  for (int64_t part = 0; part < numParts && !ofSums; ++part) {
    tile::TileType type = tileType(rows, width);
    state.matrix.push_back(
        from.empty() ? fill(f32(0.0f), type)
                     : tile::LoadOp::create(
                           b, loc, type, from.front(), matrixAt(part),
                           matrixBounds().first, matrixBounds().second,
                           /*live=*/Value(), /*vector=*/false, !valuesFirst()));
  }
  for (int64_t part = 0; part < numParts && scanOp.getNormalize(); ++part) {
    tile::TileType type = tileType(1, width);
    state.sum.push_back(
        from.empty()
            ? fill(f32(0.0f), type)
            : tile::LoadOp::create(b, loc, type, from[1],
                                   ValueRange{where, head, index(part * width)},
                                   index(0), channels, /*live=*/Value(),
                                   /*vector=*/true, /*transposed=*/true));
  }
  if (!scanOp.getLogWeight())
    return state;
  state.largest = f32(minusInfinity);
  if (from.empty())
    return state;
  auto load = [&]() -> Value {
    Value number =
        memref::LoadOp::create(b, loc, from.back(), ValueRange{where, head});
    if (!number.getType().isF32())
      number = arith::ExtFOp::create(b, loc, b.getF32Type(), number);
    return number;
  };
  if (!exists) {
    state.largest = load();
    return state;
  }
  auto branch = scf::IfOp::create(b, loc, TypeRange(b.getF32Type()), exists,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, loc, load());
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, loc, f32(minusInfinity));
  state.largest = branch.getResult(0);
  return state;
}

void ScanTokensKernel::storeState(const State &state, ValueRange outputs) {
  SmallVector<Value> to = finalStates(outputs);
  if (to.empty())
    return;
  if (!ofSums) {
    if (!to.front())
      return;
    for (auto [part, tile] : llvm::enumerate(state.matrix))
      tile::StoreOp::create(b, loc, tile, to.front(), matrixAt(int64_t(part)),
                            matrixBounds().first, matrixBounds().second,
                            /*vector=*/false, !valuesFirst());
    return;
  }
  if (scanOp.getNormalize() && to[1])
    for (auto [part, tile] : llvm::enumerate(state.sum))
      tile::StoreOp::create(
          b, loc, tile, to[1],
          ValueRange{where, head, index(int64_t(part) * width)}, index(0),
          existingChannels(), /*vector=*/true, /*transposed=*/true);
  if (!scanOp.getLogWeight() || !to.back())
    return;
  // A tile of equal rows, of which the first one is stored.
  Value last = add(head, index(1));
  if (exists)
    last = select(exists, last, head);
  tile::StoreOp::create(b, loc, fill(state.largest, column()), to.back(),
                        ValueRange{where, head}, head, last, /*vector=*/true);
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

/// Zeros in rows that are of no sequence.
void ScanTokensKernel::clear(Value output, Value begin, Value end) {
  Value zeros = fill(f32(0.0f), column());
  auto [outputHeads, group] = countOutputHeads();
  auto heads = scf::ForOp::create(b, loc, index(0), group, index(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(heads.getBody());
  Value outputHead = add(mul(head, group), heads.getInductionVar());
  auto tokens = scf::ForOp::create(b, loc, begin, end, index(1));
  b.setInsertionPointToStart(tokens.getBody());
  tile::StoreOp::create(
      b, loc, zeros, output,
      indicesOf(outputHead, tokens.getInductionVar(), firstValue), index(0),
      index(valueChannels), /*vector=*/true);
}

void ScanTokensKernel::build(ValueRange outputs, Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  rows = ofSums ? 16 : blockRows(scanOp);
  keyChannels = scanOp.getKeyChannels();
  valueChannels = scanOp.getValueChannels();
  numParts = llvm::divideCeil(keyChannels, widthOfParts());
  width = llvm::alignTo(llvm::divideCeil(keyChannels, numParts), 16);

  auto work = findWork(block, ofSums ? 1 : countTiles(scanOp));
  tileNumber = work.getTile();
  firstValue = mul(tileNumber, index(rows));
  auto tokens = cast<RankedTensorType>(scanOp.getKey().getType());
  isStep = !scanOp.isPacked() && !scanOp.getLengths() && !scanOp.getWhole() &&
           tokens.getDimSize(2) == 1;
  if (isStep)
    prefetchOwn();
  findRows();
  if (isSequence) {
    bool clears = !ofSums && outputs.front();
    auto branch =
        scf::IfOp::create(b, loc, isSequence, /*withElseRegion=*/clears);
    tile::ReturnOp::create(b, loc);
    if (clears) {
      b.setInsertionPointToStart(branch.elseBlock());
      clear(outputs.front(), begin, end);
    }
    b.setInsertionPointToStart(branch.thenBlock());
    return walkTokens(outputs);
  }
  walkTokens(outputs);
  tile::ReturnOp::create(b, loc);
}

void ScanTokensKernel::walkTokens(ValueRange outputs) {
  Value output = ofSums ? Value() : outputs.front();
  if (isStep) {
    // Of one token all is on its way before anything is waited for: the state
    // first, lest it come behind a gate's exponential, or behind its slot.
    loadSlot();
    Token token;
    State state;
    if (slot)
      token = loadToken(begin, /*reads=*/output != nullptr);
    findSlot();
    state = loadState();
    if (!slot)
      token = loadToken(begin, /*reads=*/output != nullptr);
    prefetchLater();
    prepare(token, state);
    State next = advance(token, state);
    // The state is most of what is written: it is on its way before what it
    // gives is summed up, and does not wait behind a second query.
    bool readsOld = scanOp.getReadBefore();
    if (!readsOld)
      storeState(next, outputs.drop_front());
    if (output)
      read(token, readsOld ? state : next, output);
    if (readsOld)
      storeState(next, outputs.drop_front());
    return;
  }
  loadSlot();
  findSlot();
  State state = loadState();
  auto walk = [&](bool advances, bool reads) {
    SmallVector<Value> carried;
    if (advances)
      carried = state.values();
    auto forOp = scf::ForOp::create(b, loc, begin, end, index(1), carried);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(forOp.getBody());
    State here = advances ? replaced(state, forOp.getRegionIterArgs()) : state;
    reads &= output != nullptr;
    Token token = loadToken(forOp.getInductionVar(), reads);
    prepare(token, here);
    State next = advances ? advance(token, here) : here;
    if (reads)
      read(token, scanOp.getReadBefore() ? here : next, output);
    if (!advances)
      return;
    scf::YieldOp::create(b, loc, next.values());
    state = replaced(state, forOp.getResults());
  };
  bool readsEnd = scanOp.getWhole();
  walk(/*advances=*/true, /*reads=*/!readsEnd);
  if (readsEnd)
    walk(/*advances=*/false, /*reads=*/true);
  if (scanOp.getLengths() && output)
    clear(output, end, total);
  storeState(state, outputs.drop_front());
}
