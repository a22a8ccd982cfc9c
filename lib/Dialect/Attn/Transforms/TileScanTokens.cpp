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
  if (op.getLengths())
    return op.emitOpError("expected no lengths on a GPU; pack the sequences, "
                          "whose ends cu_seqlens says");
  if (op.getSegments().value_or(1) > 1)
    return op.emitOpError("expected one segment on a GPU, but got ")
           << *op.getSegments() << "; a CPU cuts tokens";
  if (op.getL2norm() && op.getNormalize())
    return op.emitOpError("expected l2norm without normalize on a GPU; divide "
                          "queries and keys by their norms first");
  return success();
}

int64_t ScanTokensKernel::blockRows(ScanOp op) {
  // Lanes of 32 rows hold four numbers that lie one after the other, 16 bytes,
  // and of 16 rows two. With further factors of all key channels, or more
  // channels, registers hold 16.
  bool isWide = op.getKeyChannels() > 2 * partWidth;
  bool hasFactors = op.getEraseA() || op.getNormalize() ||
                    (op.hasChannelGates() && !op.getValueGates());
  return isWide || hasFactors || op.getValueChannels() <= 16 ? 16 : 32;
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
  Region &feature = scanOp.getFeature();
  if (feature.empty())
    return keys;
  for (auto [part, tile] : llvm::enumerate(keys)) {
    // What is not there stays 0.
    Value channels = i32(keyChannels - int64_t(part) * width);
    tile = map(tile, {tile.getType()}, [&](Value, Value c, ValueRange x) {
             Value y = inlineRegion(b, feature, x).front();
             Value exists = cmp(arith::CmpIPredicate::slt, c, channels);
             return SmallVector<Value>{select(exists, y, f32(0.0f))};
           }).front();
  }
  return keys;
}

Value ScanTokensKernel::inverseNorm(const Parts &x) {
  if (!scanOp.getL2norm())
    return {};
  return mapOne(rowSums({x, x}), column(), [&](ValueRange v) -> Value {
    Value norm = math::SqrtOp::create(b, loc, addf(v[0], f32(normEpsilon)));
    return arith::DivFOp::create(b, loc, f32(1.0f), norm);
  });
}

/// Factors of the state and of what is written, relative to the largest weight
/// so far.
void ScanTokensKernel::weigh(Token &token, const State &state) {
  Value decay = scanOp.getDecay();
  bool ofHead = decay && !scanOp.hasChannelGates();
  Value log = ofHead ? loadNumber(arg(decay), token.at) : Value();
  if (Value weight = scanOp.getWeight())
    token.written = loadNumber(arg(weight), token.at);
  if (!scanOp.getLogWeight()) {
    if (log)
      token.gate = expOf(log);
    return;
  }
  Value own = loadNumber(arg(scanOp.getLogWeight()), token.at);
  Value old = log ? addf(state.largest, log) : state.largest;
  token.largest = arith::MaximumFOp::create(b, loc, own, old);
  token.gate = relative(old, token.largest);
  token.written = relative(own, token.largest);
}

ScanTokensKernel::Token ScanTokensKernel::makeToken(Value at,
                                                    const State &state) {
  Token token;
  token.at = at;
  weigh(token, state);
  Value keys = arg(scanOp.getKey());
  token.key = mapFeature(loadKeys(keys, headOf(keys), at));
  if (scanOp.getDecay() && scanOp.hasChannelGates()) {
    Value decay = arg(scanOp.getDecay());
    auto expTile = [&](Value tile) {
      return mapOne(tile, cast<tile::TileType>(tile.getType()),
                    [&](ValueRange x) { return expOf(x[0]); });
    };
    if (!scanOp.getValueGates())
      for (Value log : loadKeys(decay, head, at))
        token.keyGates.push_back(expTile(log));
    else if (!ofSums)
      token.valueGates = expTile(loadValues(decay, head, at));
  }
  if (ofSums)
    return token;
  token.keyNorm = inverseNorm(token.key);
  Value values = arg(scanOp.getValue());
  token.value = loadValues(values, headOf(values), at);
  return token;
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
  if (Value beta = scanOp.getDelta()) {
    Value factor = loadNumber(arg(beta), token.at);
    Value old = timesColumn(known(token.key, /*decayed=*/true), token.keyNorm);
    written = mapOne({token.value, old}, column(), [&](ValueRange x) {
      return mulf(factor, arith::SubFOp::create(b, loc, x[0], x[1]));
    });
  }
  written = timesColumn(written, token.keyNorm);
  Value erased;
  Parts erasing;
  if (scanOp.getEraseA()) {
    Parts erase = loadKeys(arg(scanOp.getEraseA()), head, token.at);
    erased = known(erase, /*decayed=*/!scanOp.getEraseBefore());
    erasing = loadKeys(arg(scanOp.getEraseB()), head, token.at);
  }
  for (auto [part, matrix] : llvm::enumerate(next.matrix)) {
    SmallVector<Value> inputs = {matrix, token.key[part], written};
    if (erased)
      inputs.append({erasing[part], erased});
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

void ScanTokensKernel::read(const Token &token, const State &state,
                            Value output) {
  auto [outputHeads, group] = countOutputHeads();
  auto forOp = scf::ForOp::create(b, loc, index(0), group, index(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forOp.getBody());
  Value outputHead = add(mul(head, group), forOp.getInductionVar());
  Parts query = mapFeature(loadKeys(
      arg(scanOp.getQuery()), queryHeadOf(outputHead, outputHeads), token.at));
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

ScanTokensKernel::State ScanTokensKernel::loadState() {
  State state;
  SmallVector<Value> from = initialStates();
  Value exists;
  Value where = from.empty() ? batch : findState(from.front(), exists);
  // No row of a state that is not there is read.
  Value channels = index(keyChannels);
  if (exists)
    channels = select(exists, channels, index(0));
  for (int64_t part = 0; part < numParts && !ofSums; ++part) {
    tile::TileType type = tileType(rows, width);
    state.matrix.push_back(
        from.empty()
            ? fill(f32(0.0f), type)
            : tile::LoadOp::create(
                  b, loc, type, from.front(),
                  ValueRange{where, head, index(part * width), firstValue},
                  index(0), channels, /*live=*/Value(),
                  /*vector=*/false, /*transposed=*/true));
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
  Value exists;
  Value where = findState(to.front(), exists);
  auto bound = [&](Value size, Value none) {
    return exists ? select(exists, size, none) : size;
  };
  if (!ofSums) {
    if (!to.front())
      return;
    for (auto [part, tile] : llvm::enumerate(state.matrix))
      tile::StoreOp::create(
          b, loc, tile, to.front(),
          ValueRange{where, head, index(int64_t(part) * width), firstValue},
          index(0), bound(index(keyChannels), index(0)), /*vector=*/false,
          /*transposed=*/true);
    return;
  }
  // Tiles of equal rows, of which the first one is stored.
  Value last = bound(add(head, index(1)), head);
  if (scanOp.getNormalize() && to[1])
    for (auto [part, tile] : llvm::enumerate(state.sum))
      tile::StoreOp::create(
          b, loc,
          mapOne(tile, tileType(rows, width),
                 [&](ValueRange x) { return x[0]; }),
          to[1], ValueRange{where, head, index(int64_t(part) * width)}, head,
          last, /*vector=*/false);
  if (scanOp.getLogWeight() && to.back())
    tile::StoreOp::create(b, loc, fill(state.largest, column()), to.back(),
                          ValueRange{where, head}, head, last,
                          /*vector=*/true);
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

/// Zeros in the rows that no sequence has.
void ScanTokensKernel::clear(Value output) {
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
  numParts = llvm::divideCeil(keyChannels, partWidth);
  width = llvm::alignTo(llvm::divideCeil(keyChannels, numParts), 16);

  auto work = findWork(block, ofSums ? 1 : countTiles(scanOp));
  firstValue = mul(work.getTile(), index(rows));
  findRows();
  if (isSequence) {
    bool clears = !ofSums && outputs.front();
    auto branch =
        scf::IfOp::create(b, loc, isSequence, /*withElseRegion=*/clears);
    tile::ReturnOp::create(b, loc);
    if (clears) {
      b.setInsertionPointToStart(branch.elseBlock());
      clear(outputs.front());
    }
    b.setInsertionPointToStart(branch.thenBlock());
    return walkTokens(outputs);
  }
  walkTokens(outputs);
  tile::ReturnOp::create(b, loc);
}

void ScanTokensKernel::walkTokens(ValueRange outputs) {
  Value output = ofSums ? Value() : outputs.front();
  State state = loadState();
  auto walk = [&](bool advances, bool reads) {
    SmallVector<Value> carried;
    if (advances)
      carried = state.values();
    auto forOp = scf::ForOp::create(b, loc, begin, end, index(1), carried);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(forOp.getBody());
    State here = advances ? replaced(state, forOp.getRegionIterArgs()) : state;
    Token token = makeToken(forOp.getInductionVar(), here);
    State next = advances ? advance(token, here) : here;
    if (reads && output)
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
  storeState(state, outputs.drop_front());
}
