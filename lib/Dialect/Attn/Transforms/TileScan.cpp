//===- TileScan.cpp - The kernel of attn.scan -----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileScan.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mlir::attn;

/// Log gates below are taken for this one, whose gate is 0 in f32: an infinite
/// one would be no number times a mask's 0.
static constexpr float leastLog = -1000.0f;
/// Added to sums of squares by l2norm.
static constexpr float normEpsilon = 1e-6f;

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

Value ScanKernel::maxRows(Value tile) {
  if (cast<tile::TileType>(tile.getType()).isRowVector())
    return tile;
  return reduce(tile, f32(-std::numeric_limits<float>::infinity()),
                /*ordered=*/false,
                [&](ValueRange x, ValueRange y) -> SmallVector<Value> {
                  return {arith::MaximumFOp::create(b, loc, x[0], y[0])};
                })
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
                             int64_t cols) {
  SmallVector<Value> at;
  if (!scanOp.isPacked())
    at.push_back(batch);
  at.append({headIndex, row, index(0)});
  bool isQuery = memref == arg(scanOp.getQuery()) && isReading;
  return tile::LoadOp::create(b, loc, tileType(chunkSize, cols), memref, at,
                              begin, isQuery ? queryEnd : end,
                              /*live=*/Value(), /*vector=*/false,
                              /*transposed=*/false);
}

Value ScanKernel::loadNumbers(Value memref, Value row, bool asRow) {
  SmallVector<Value> at;
  if (!scanOp.isPacked())
    at.push_back(batch);
  at.append({head, row});
  return tile::LoadOp::create(b, loc, asRow ? tileType(1, chunkSize) : column(),
                              memref, at, begin, end,
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

//===----------------------------------------------------------------------===//
// Gates
//===----------------------------------------------------------------------===//

/// Which tokens s are multiplied for a row r, as masks that sums of logs are
/// products with.
void ScanKernel::makeMasks() {
  using Predicate = arith::CmpIPredicate;
  auto both = [&](Value x, Value y) -> Value {
    return arith::AndIOp::create(b, loc, x, y);
  };
  int64_t c = chunkSize;
  if (c == 1)
    return;
  auto make = [&](Predicate predicate) {
    return mask(c, c, [&](Value r, Value s) { return cmp(predicate, s, r); });
  };
  upToMask = make(Predicate::sle);
  if (scanOp.getReadBefore() || scanOp.getEraseBefore())
    beforeMask = make(Predicate::slt);
  behindMask = make(Predicate::sgt);
  if (gates != Gates::key && gates != Gates::value)
    return;
  for (int64_t level = 0; level < levels; ++level) {
    int64_t half = int64_t(1) << level;
    // The middle of the block of 2 * half tokens that a token is in.
    auto middle = [&](Value token) -> Value {
      Value block = arith::AndIOp::create(b, loc, token, i32(-2 * half));
      return add(block, i32(half));
    };
    auto rows = [&](Predicate last) {
      return mask(c, c, [&](Value r, Value s) {
        return both(cmp(Predicate::sge, s, middle(r)), cmp(last, s, r));
      });
    };
    levelRows.push_back(rows(Predicate::sle));
    if (beforeMask)
      levelRowsBefore.push_back(rows(Predicate::slt));
    levelKeys.push_back(mask(c, c, [&](Value r, Value s) {
      return both(cmp(Predicate::sgt, s, r), cmp(Predicate::slt, s, middle(r)));
    }));
  }
}

void ScanKernel::addHeadGates(Chunk &chunk) {
  using Predicate = arith::CmpIPredicate;
  Value logs = loadNumbers(arg(scanOp.getDecay()), chunk.first, /*asRow=*/true);
  chunk.gateLogs = logs;
  auto spread = [&](Value total, tile::TileType type) {
    return mapOne(total, type,
                  [&](Value, Value, ValueRange x) { return x[0]; });
  };
  auto end = [&]() {
    chunk.totalLog = sumRows(logs);
    Value total = expOf(chunk.totalLog);
    chunk.totalColumn = spread(total, tileType(keyCols, 1));
    if (scanOp.getNormalize())
      chunk.totalRow = spread(total, tileType(1, keyCols));
  };
  if (chunkSize == 1) {
    chunk.product = expOf(logs);
    return end();
  }
  auto addition = [&](ValueRange x, ValueRange y) -> SmallVector<Value> {
    return {addf(x[0], y[0])};
  };
  auto masked = [&](Predicate predicate) {
    return mapOne(logs, square(), [&](Value r, Value s, ValueRange x) {
      return select(cmp(predicate, s, r), x[0], f32(0.0f));
    });
  };
  auto sums = [&](Value tile) {
    return scan(tile, f32(0.0f), /*reverse=*/true, addition).front();
  };
  bool keepsLogs = static_cast<bool>(scanOp.getLogWeight());
  Value upTo = masked(Predicate::sle);
  chunk.pairs = keepsLogs ? sums(upTo) : expOf(sums(upTo));
  chunk.product = expOf(sumRows(upTo));
  if (beforeMask) {
    Value before = masked(Predicate::slt);
    chunk.pairsBefore = expOf(sums(before));
    chunk.productBefore = expOf(sumRows(before));
  }
  Value behind = sumRows(masked(Predicate::sgt));
  chunk.rest = keepsLogs ? behind : expOf(behind);
  end();
}

void ScanKernel::addChannelGates(Chunk &chunk) {
  bool ofValues = gates == Gates::value;
  int64_t cols = ofValues ? valueCols : keyCols;
  Value memory = arg(scanOp.getDecay());
  Value raw = loadTokens(memory, head, chunk.first, cols);
  auto clamp = [&](Value tile) {
    return mapOne(tile, cast<tile::TileType>(tile.getType()),
                  [&](Value, Value, ValueRange x) -> Value {
                    return arith::MaximumFOp::create(b, loc, x[0],
                                                     f32(leastLog));
                  });
  };
  Value logs = clamp(raw);
  auto products = [&](Value mask) { return expOf(dot(mask, logs)); };
  if (chunkSize == 1) {
    chunk.product = expOf(logs);
  } else {
    chunk.product = products(upToMask);
    if (beforeMask)
      chunk.productBefore = products(beforeMask);
    chunk.rest = products(behindMask);
  }
  for (int64_t level = 0; level < levels; ++level) {
    chunk.upTo.push_back(products(levelRows[level]));
    if (beforeMask)
      chunk.upToBefore.push_back(products(levelRowsBefore[level]));
    chunk.behind.push_back(products(levelKeys[level]));
  }
  chunk.totalRow = chunkSize == 1 ? chunk.product : expOf(sumCols(logs));
  if (ofValues)
    return;
  SmallVector<Value> at;
  if (!scanOp.isPacked())
    at.push_back(batch);
  at.append({head, chunk.first, index(0)});
  Value columns = tile::LoadOp::create(
      b, loc, tileType(keyCols, chunkSize), memory, at, begin, end,
      /*live=*/Value(), /*vector=*/false, /*transposed=*/true);
  chunk.totalColumn = expOf(sumRows(clamp(columns)));
}

/// All weights relative to the largest one so far: of each row, and at the end.
void ScanKernel::addLogWeights(Chunk &chunk, const State &state) {
  using Predicate = arith::CmpIPredicate;
  float infinity = std::numeric_limits<float>::infinity();
  auto minusInf = [&]() { return f32(-infinity); };
  // exp(x - largest), where nothing relative to nothing is nothing.
  auto relative = [&](Value x, Value largest) -> Value {
    Value none =
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, x, minusInf());
    Value e =
        math::ExpOp::create(b, loc, arith::SubFOp::create(b, loc, x, largest));
    return select(none, f32(0.0f), e);
  };
  Value rows = toI32(sub(end, chunk.first));
  Value logs = loadNumbers(arg(scanOp.getLogWeight()), chunk.first,
                           /*asRow=*/true);
  logs =
      mapOne(logs, tileType(1, chunkSize), [&](Value, Value c, ValueRange x) {
        return select(cmp(Predicate::slt, c, rows), x[0], minusInf());
      });
  SmallVector<Value> inputs = {logs};
  if (chunk.pairs)
    inputs.push_back(chunk.pairs);
  // In place of W: i_j + log W_ij.
  chunk.pairs = mapOne(inputs, square(), [&](Value r, Value c, ValueRange x) {
    Value sum = x.size() > 1 ? addf(x[0], x[1]) : x[0];
    return select(cmp(Predicate::sle, c, r), sum, minusInf());
  });
  // Up to row i, of the state: its m and the sum of the logs.
  SmallVector<Value> upTo = {state.largest};
  if (chunk.gateLogs && chunkSize == 1)
    upTo.push_back(chunk.gateLogs);
  else if (chunk.gateLogs)
    upTo.push_back(sumRows(
        mapOne(chunk.gateLogs, square(), [&](Value r, Value s, ValueRange x) {
          return select(cmp(Predicate::sle, s, r), x[0], f32(0.0f));
        })));
  Value ofState = mapOne(upTo, column(), [&](Value, Value, ValueRange x) {
    return x.size() > 1 ? addf(x[0], x[1]) : x[0];
  });
  chunk.largestRows =
      mapOne({maxRows(chunk.pairs), ofState}, column(),
             [&](Value, Value, ValueRange x) -> Value {
               return arith::MaximumFOp::create(b, loc, x[0], x[1]);
             });
  chunk.fromStateRows =
      mapOne({ofState, chunk.largestRows}, column(),
             [&](Value, Value, ValueRange x) { return relative(x[0], x[1]); });
  chunk.pairs =
      mapOne({chunk.pairs, chunk.largestRows}, square(),
             [&](Value, Value, ValueRange x) { return relative(x[0], x[1]); });
  // At the end: columns of logs i_j + log R_j.
  Value own = loadNumbers(arg(scanOp.getLogWeight()), chunk.first,
                          /*asRow=*/false);
  SmallVector<Value> toEnd = {own};
  if (chunk.rest)
    toEnd.push_back(chunk.rest);
  Value endLogs = mapOne(toEnd, column(), [&](Value r, Value, ValueRange x) {
    Value sum = x.size() > 1 ? addf(x[0], x[1]) : x[0];
    return select(cmp(Predicate::slt, r, rows), sum, minusInf());
  });
  auto one = tileType(1, 1);
  Value largest = endLogs;
  if (chunkSize > 1) {
    // Of a column: as some equal ones, whose rows are reduced.
    Value equal = mapOne(endLogs, tileType(chunkSize, 16),
                         [&](Value, Value, ValueRange x) { return x[0]; });
    largest =
        maxRows(reduce(
                    equal, minusInf(), /*ordered=*/false,
                    [&](ValueRange x, ValueRange y) -> SmallVector<Value> {
                      return {arith::MaximumFOp::create(b, loc, x[0], y[0])};
                    },
                    /*overRows=*/true)
                    .front());
  }
  SmallVector<Value> carried = {state.largest};
  if (chunk.totalLog)
    carried.push_back(chunk.totalLog);
  Value stateLog = mapOne(carried, one, [&](Value, Value, ValueRange x) {
    return x.size() > 1 ? addf(x[0], x[1]) : x[0];
  });
  chunk.largestNext = mapOne(
      {largest, stateLog}, one, [&](Value, Value, ValueRange x) -> Value {
        return arith::MaximumFOp::create(b, loc, x[0], x[1]);
      });
  Value factor =
      mapOne({stateLog, chunk.largestNext}, one,
             [&](Value, Value, ValueRange x) { return relative(x[0], x[1]); });
  auto spread = [&](tile::TileType type) {
    return mapOne(factor, type,
                  [&](Value, Value, ValueRange x) { return x[0]; });
  };
  chunk.totalColumn = spread(tileType(keyCols, 1));
  if (scanOp.getNormalize())
    chunk.totalRow = spread(tileType(1, keyCols));
  chunk.endWeights =
      mapOne({endLogs, chunk.largestNext}, column(),
             [&](Value, Value, ValueRange x) { return relative(x[0], x[1]); });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

Value ScanKernel::pairs(const Chunk &chunk, Value rows, Value keys, bool before,
                        bool diagonal) {
  using Predicate = arith::CmpIPredicate;
  if (chunkSize == 1) {
    if (!diagonal)
      return {};
    Value own = sumRows(multiply(rows, keys, keyRows()));
    return chunk.largestRows ? multiply(own, chunk.pairs, column()) : own;
  }
  Predicate live = diagonal ? Predicate::sle : Predicate::slt;
  if (gates != Gates::key) {
    Value products = dot(rows, keys, {}, {}, /*transposeRhs=*/true);
    Value weights = before ? chunk.pairsBefore : chunk.pairs;
    SmallVector<Value> inputs = {products};
    if (weights)
      inputs.push_back(weights);
    return mapOne(inputs, square(), [&](Value r, Value c, ValueRange x) {
      Value product = x.size() > 1 ? mulf(x[0], x[1]) : x[0];
      return select(cmp(live, c, r), product, f32(0.0f));
    });
  }
  Value sum;
  if (diagonal) {
    Value own = sumRows(multiply(rows, keys, keyRows()));
    sum = mapOne(own, square(), [&](Value r, Value c, ValueRange x) {
      return select(cmp(Predicate::eq, c, r), x[0], f32(0.0f));
    });
  }
  for (int64_t level = 0; level < levels; ++level) {
    Value left = (before ? chunk.upToBefore : chunk.upTo)[level];
    Value products = dot(multiply(rows, left, keyRows()),
                         multiply(keys, chunk.behind[level], keyRows()), {}, {},
                         /*transposeRhs=*/true);
    int64_t half = int64_t(1) << level;
    SmallVector<Value> inputs = {products};
    if (sum)
      inputs.push_back(sum);
    sum = mapOne(inputs, square(), [&](Value r, Value c, ValueRange x) {
      // The row in the upper half of a block, the key in its lower one.
      Value differ = arith::XOrIOp::create(b, loc, r, c);
      Value isLevel =
          arith::AndIOp::create(b, loc, cmp(Predicate::uge, differ, i32(half)),
                                cmp(Predicate::ult, differ, i32(2 * half)));
      isLevel =
          arith::AndIOp::create(b, loc, isLevel, cmp(Predicate::slt, c, r));
      return select(isLevel, x[0], x.size() > 1 ? x[1] : f32(0.0f));
    });
  }
  return sum;
}

Value ScanKernel::times(const Chunk &chunk, Value rows, Value matrix,
                        bool before) {
  Value product = before ? chunk.productBefore : chunk.product;
  if (chunk.fromStateRows)
    product = chunk.fromStateRows;
  if (gates == Gates::value && product)
    return multiply(dot(rows, matrix), product, valueRows());
  if (product)
    rows = multiply(rows, product, keyRows());
  return dot(rows, matrix);
}

Value ScanKernel::toEnd(const Chunk &chunk, Value keys) {
  Value rest = chunk.endWeights ? chunk.endWeights : chunk.rest;
  if (!rest || gates == Gates::value)
    return keys;
  return multiply(keys, rest, keyRows());
}

/// What an erase leaves of the values: of the delta rule those that are
/// written, of others U, beside the values.
void ScanKernel::addErased(Chunk &chunk, const State &state) {
  if (scanOp.getDelta()) {
    Value beta = loadNumbers(arg(scanOp.getDelta()), chunk.first, false);
    Value products = pairs(chunk, chunk.key, chunk.key, /*before=*/false,
                           /*diagonal=*/false);
    Value known = times(chunk, chunk.key, state.matrix, /*before=*/false);
    Value rest =
        mapOne({chunk.value, known, beta}, valueRows(),
               [&](Value, Value, ValueRange x) {
                 return mulf(x[2], arith::SubFOp::create(b, loc, x[0], x[1]));
               });
    chunk.value =
        solve(products ? multiply(products, beta, square()) : Value(), rest);
  }
  if (!scanOp.getEraseA())
    return;
  bool before = scanOp.getEraseBefore();
  Value a = loadTokens(arg(scanOp.getEraseA()), head, chunk.first, keyCols);
  chunk.erasing =
      loadTokens(arg(scanOp.getEraseB()), head, chunk.first, keyCols);
  Value system = pairs(chunk, a, chunk.erasing, before, /*diagonal=*/false);
  if (system)
    system = mapOne(system, square(), [&](Value, Value, ValueRange x) -> Value {
      return arith::NegFOp::create(b, loc, x[0]);
    });
  Value known = times(chunk, a, state.matrix, before);
  known = addWeighted(pairs(chunk, a, chunk.key, before, /*diagonal=*/false),
                      chunk.value, known);
  chunk.erased = solve(system, known);
}

/// Nothing of one token stands below the diagonal.
Value ScanKernel::solve(Value system, Value rhs) {
  if (!system)
    return rhs;
  return tile::SolveOp::create(b, loc, valueRows(), system, rhs);
}

Value ScanKernel::addWeighted(Value weights, Value values, Value sum) {
  if (!weights)
    return sum;
  if (chunkSize > 1)
    return dot(weights, values, sum);
  return mapOne(
      {sum, weights, values}, valueRows(),
      [&](Value, Value, ValueRange x) { return addf(x[0], mulf(x[1], x[2])); });
}

ScanKernel::State ScanKernel::advance(const Chunk &chunk, const State &state) {
  State next = state;
  Value keys = toEnd(chunk, chunk.written);
  if (gates == Gates::value) {
    Value matrix =
        multiply(state.matrix, chunk.totalRow, tileType(keyCols, valueCols));
    Value values = chunk.value;
    if (chunk.rest)
      values = multiply(values, chunk.rest, valueRows());
    next.matrix = dot(keys, values, matrix, {}, false, /*transposeLhs=*/true);
    return next;
  }
  next.matrix = dot(keys, chunk.value, state.matrix, chunk.totalColumn, false,
                    /*transposeLhs=*/true);
  if (chunk.erased)
    next.matrix = dot(toEnd(chunk, chunk.erasing), chunk.erased, next.matrix,
                      {}, false, /*transposeLhs=*/true);
  if (state.sum) {
    Value old = state.sum;
    if (chunk.totalRow)
      old = multiply(old, chunk.totalRow, tileType(1, keyCols));
    next.sum = addTiles(old, sumCols(keys), tileType(1, keyCols));
  }
  if (state.largest)
    next.largest = chunk.largestNext;
  return next;
}

/// Weights times values, whose gates are those of value channels.
Value ScanKernel::combineValueGates(const Chunk &chunk, Value weights,
                                    Value sum) {
  using Predicate = arith::CmpIPredicate;
  bool before = scanOp.getReadBefore();
  for (int64_t level = 0; level < levels; ++level) {
    int64_t half = int64_t(1) << level;
    Value own = mapOne(weights, square(), [&](Value r, Value c, ValueRange x) {
      Value differ = arith::XOrIOp::create(b, loc, r, c);
      Value isLevel =
          arith::AndIOp::create(b, loc, cmp(Predicate::uge, differ, i32(half)),
                                cmp(Predicate::ult, differ, i32(2 * half)));
      return select(isLevel, x[0], f32(0.0f));
    });
    Value values = multiply(chunk.value, chunk.behind[level], valueRows());
    Value products = dot(own, values);
    Value left = (before ? chunk.upToBefore : chunk.upTo)[level];
    sum = mapOne({sum, products, left}, valueRows(),
                 [&](Value, Value, ValueRange x) {
                   return addf(x[0], mulf(x[1], x[2]));
                 });
  }
  if (before)
    return sum;
  Value own =
      sumRows(mapOne(weights, square(), [&](Value r, Value c, ValueRange x) {
        return select(cmp(Predicate::eq, c, r), x[0], f32(0.0f));
      }));
  return mapOne(
      {sum, chunk.value, own}, valueRows(),
      [&](Value, Value, ValueRange x) { return addf(x[0], mulf(x[1], x[2])); });
}

/// The heads of outputs, and how many of them read a state.
std::pair<Value, Value> ScanKernel::countOutputHeads() {
  Value queryHeads = dim(arg(scanOp.getQuery()), scanOp.isPacked() ? 0 : 1);
  Value outputHeads = max(queryHeads, stateHeads);
  return {outputHeads, arith::DivUIOp::create(b, loc, outputHeads,
                                              max(stateHeads, index(1)))};
}

void ScanKernel::read(const Chunk &chunk, const State &state, Value output) {
  Value memory = arg(scanOp.getQuery());
  int64_t headDim = scanOp.isPacked() ? 0 : 1;
  Value queryHeads = dim(memory, headDim);
  auto [outputHeads, group] = countOutputHeads();
  auto forOp = scf::ForOp::create(b, loc, index(0), group, index(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forOp.getBody());
  Value outputHead = add(mul(head, group), forOp.getInductionVar());
  Value queryHead = arith::DivUIOp::create(b, loc, mul(outputHead, queryHeads),
                                           max(outputHeads, index(1)));
  isReading = true;
  Value query = loadTokens(memory, queryHead, chunk.first, keyCols);
  query = mapRows(query, chunk.first, keyChannels);
  isReading = false;
  if (Value scale = scanOp.getScale()) {
    Value factor = arg(scale);
    query = mapOne(query, keyRows(), [&](Value, Value, ValueRange x) {
      return mulf(x[0], factor);
    });
  }
  bool before = scanOp.getReadBefore();
  Value sum = times(chunk, query, state.matrix, before), weights;
  if (!scanOp.getWhole()) {
    weights = pairs(chunk, query, chunk.written, before, /*diagonal=*/!before);
    sum = gates == Gates::value && chunkSize > 1
              ? combineValueGates(chunk, weights, sum)
              : addWeighted(weights, chunk.value, sum);
    if (chunk.erased)
      sum = addWeighted(pairs(chunk, query, chunk.erasing, before,
                              /*diagonal=*/!before),
                        chunk.erased, sum);
  }
  if (Value bonus = scanOp.getBonus()) {
    Value factors = tile::LoadOp::create(
        b, loc, tileType(1, keyCols), arg(bonus), ValueRange{head, index(0)},
        Value(), Value(), /*live=*/Value(), /*vector=*/false,
        /*transposed=*/false);
    Value own = sumRows(mapOne({query, chunk.key, factors}, keyRows(),
                               [&](Value, Value, ValueRange x) {
                                 return mulf(mulf(x[0], x[2]), x[1]);
                               }));
    sum = mapOne({sum, chunk.givenValue, own}, valueRows(),
                 [&](Value, Value, ValueRange x) {
                   return addf(x[0], mulf(x[1], x[2]));
                 });
  }
  if (state.sum) {
    SmallVector<Value> inputs = {query, state.sum};
    Value product = before ? chunk.productBefore : chunk.product;
    if (chunk.fromStateRows)
      product = chunk.fromStateRows;
    if (product)
      inputs.push_back(product);
    Value total = sumRows(
        mapOne(inputs, keyRows(), [&](Value, Value, ValueRange x) -> Value {
          Value y = mulf(x[0], x[1]);
          return x.size() > 2 ? mulf(y, x[2]) : y;
        }));
    if (weights)
      total = addTiles(total, sumRows(weights), column());
    sum = mapOne({sum, total}, valueRows(),
                 [&](Value, Value, ValueRange x) -> Value {
                   Value none = arith::CmpFOp::create(
                       b, loc, arith::CmpFPredicate::OEQ, x[1], f32(0.0f));
                   return select(none, f32(0.0f),
                                 arith::DivFOp::create(b, loc, x[0], x[1]));
                 });
  } else if (chunk.largestRows) {
    sum = mapOne({sum, chunk.largestRows}, valueRows(),
                 [&](Value, Value, ValueRange x) {
                   // Nothing times no weight at all.
                   Value none = arith::CmpFOp::create(
                       b, loc, arith::CmpFPredicate::OEQ, x[0], f32(0.0f));
                   return select(none, f32(0.0f),
                                 mulf(x[0], math::ExpOp::create(b, loc, x[1])));
                 });
  }
  SmallVector<Value> at;
  if (!scanOp.isPacked())
    at.push_back(batch);
  at.append({outputHead, chunk.first, index(0)});
  tile::StoreOp::create(b, loc, sum, output, at, begin, queryEnd,
                        /*vector=*/false);
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
  SmallVector<Value> from;
  Value where = batch, exists;
  for (Value memory : scanOp.getInit())
    from.push_back(arg(memory));
  for (Value memory : scanOp.getPool())
    from.push_back(arg(memory));
  if (scanOp.getSlot()) {
    Value slot = element(arg(scanOp.getSlot()), batch);
    exists = arith::AndIOp::create(
        b, loc, cmp(arith::CmpIPredicate::sge, slot, index(0)),
        cmp(arith::CmpIPredicate::slt, slot, dim(from.front(), 0)));
    where = select(exists, slot, index(0));
  }
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
  state.matrix =
      from.empty()
          ? empty(matrixType, 0.0f)
          : tile::LoadOp::create(b, loc, matrixType, from[next++],
                                 ValueRange{where, head, index(0), index(0)},
                                 index(0), bound(index(keyChannels)),
                                 /*live=*/Value(), /*vector=*/false,
                                 /*transposed=*/false);
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
  SmallVector<Value> to(outputs);
  Value where = batch, exists;
  if (!scanOp.getPool().empty()) {
    to.clear();
    for (Value memory : scanOp.getPool())
      to.push_back(arg(memory));
  }
  if (scanOp.getSlot()) {
    Value slot = element(arg(scanOp.getSlot()), batch);
    exists = arith::AndIOp::create(
        b, loc, cmp(arith::CmpIPredicate::sge, slot, index(0)),
        cmp(arith::CmpIPredicate::slt, slot, dim(to.front(), 0)));
    where = select(exists, slot, index(0));
  }
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
    Value size = tile == state.matrix ? index(keyChannels) : stateHeads;
    tile::StoreOp::create(b, loc, tile, memory, at, index(0), bound(size),
                          isVector);
  }
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

ScanKernel::Chunk ScanKernel::makeChunk(Value first) {
  Chunk chunk;
  chunk.first = first;
  auto headOf = [&](Value memory) -> Value {
    Value heads = dim(memory, scanOp.isPacked() ? 0 : 1);
    return arith::DivUIOp::create(b, loc, mul(head, heads),
                                  max(stateHeads, index(1)));
  };
  Value keys = arg(scanOp.getKey()), values = arg(scanOp.getValue());
  chunk.key = loadTokens(keys, headOf(keys), first, keyCols);
  chunk.key = mapRows(chunk.key, first, keyChannels);
  chunk.value = loadTokens(values, headOf(values), first, valueCols);
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

void ScanKernel::findRows() {
  if (!scanOp.isPacked()) {
    begin = index(0);
    end = dim(arg(scanOp.getKey()), 2);
    queryEnd = dim(arg(scanOp.getQuery()), 2);
    if (Value lengths = scanOp.getLengths()) {
      end = min(max(element(arg(lengths), batch), index(0)), end);
      queryEnd = end;
    }
    return;
  }
  Value offsets = arg(scanOp.getCu());
  Value total = dim(arg(scanOp.getKey()), 1);
  auto at = [&](Value i) {
    return min(max(element(offsets, i), index(0)), total);
  };
  Value count = sub(dim(offsets, 0), index(1));
  begin = at(batch);
  isSequence = cmp(arith::CmpIPredicate::slt, batch, count);
  end = select(isSequence, at(min(add(batch, index(1)), count)), total);
  queryEnd = end;
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
  SmallVector<Value> at;
  if (!scanOp.isPacked())
    at.push_back(batch);
  at.append({outputHead, rows.getInductionVar(), index(0)});
  tile::StoreOp::create(b, loc, zeros, output, at, begin, end,
                        /*vector=*/false);
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
  chunkSize = scanOp.getChunk().value_or(
      gates == Gates::key || gates == Gates::value ? 16 : 64);
  levels = llvm::Log2_64(chunkSize);

  int64_t headDim = scanOp.isPacked() ? 0 : 1;
  stateHeads = max(dim(arg(scanOp.getKey()), headDim),
                   dim(arg(scanOp.getValue()), headDim));
  // The rows behind the last sequence are one more.
  Value sequences =
      dim(arg(scanOp.isPacked() ? scanOp.getCu() : scanOp.getKey()), 0);
  auto work = tile::WorkTileOp::create(b, loc, block, sequences, stateHeads,
                                       /*tiles=*/index(1), /*parts=*/segments);
  batch = work.getBatch();
  head = work.getHead();
  findRows();
  if (!isCut())
    return;
  segment = work.getPart();
  cutSegment();
}

void ScanKernel::build(ValueRange outputs, Value block, ValueRange memory) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  summaries.assign(memory.begin(), memory.end());
  startBlock(block, index(scanOp.getSegments().value_or(1)));
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
  State state = loadState();
  if (segment)
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
    if (reads && output)
      read(chunk, here, output);
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
  if (!segment)
    return storeState(state, outputs.drop_front());
  auto ifLast = scf::IfOp::create(b, loc, isLastSegment);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifLast.thenBlock());
  storeState(state, outputs.drop_front());
}
