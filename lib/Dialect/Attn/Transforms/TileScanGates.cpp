//===- TileScanGates.cpp - Gates and weights of a chunk -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a chunk of tokens of attn.scan has of its gates: the products P, R and W
// of TileScan.h, in dyadic levels where channels have their own, and the
// weights whose logarithms are given.
//
//===----------------------------------------------------------------------===//

#include "TileScan.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>

using namespace mlir;
using namespace mlir::attn;

/// Log gates below are taken for this one, whose gate is 0 in f32: an infinite
/// one would be no number times a mask's 0.
static constexpr float leastLog = -1000.0f;

static constexpr float minusInfinity = -std::numeric_limits<float>::infinity();

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
    // From the middle up to a token behind it; up to the middle behind a token
    // before it. No token has both.
    auto halves = [&](Predicate last) {
      return mask(c, c, [&](Value r, Value s) -> Value {
        Value up = both(cmp(Predicate::sge, s, middle(r)), cmp(last, s, r));
        Value behind =
            both(cmp(Predicate::sgt, s, r), cmp(Predicate::slt, s, middle(r)));
        return arith::OrIOp::create(b, loc, up, behind);
      });
    };
    levelMasks.push_back(halves(Predicate::sle));
    if (beforeMask)
      levelMasksBefore.push_back(halves(Predicate::slt));
  }
}

void ScanKernel::addHeadGates(Chunk &chunk) {
  using Predicate = arith::CmpIPredicate;
  Value logs = loadNumbers(arg(scanOp.getDecay()), chunk.first, /*asRow=*/true);
  logs = mapGates(logs, chunk.first, /*along=*/1);
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
  Value logs = clamp(mapGates(raw, chunk.first, /*along=*/0));
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
    chunk.halves.push_back(products(levelMasks[level]));
    if (beforeMask)
      chunk.halvesBefore.push_back(products(levelMasksBefore[level]));
  }
  chunk.totalRow = chunkSize == 1 ? chunk.product : expOf(sumCols(logs));
  if (ofValues)
    return;
  Value columns = tile::LoadOp::create(
      b, loc, tileType(keyCols, chunkSize), memory,
      indicesOf(head, chunk.first, index(0)), begin, end,
      /*live=*/Value(), /*vector=*/false, /*transposed=*/true);
  columns = mapGates(columns, chunk.first, /*along=*/1);
  chunk.totalColumn = expOf(sumRows(clamp(columns)));
}

/// All weights relative to the largest one so far: of each row, and at the end.
void ScanKernel::addLogWeights(Chunk &chunk, const State &state) {
  using Predicate = arith::CmpIPredicate;
  auto minusInf = [&]() { return f32(minusInfinity); };
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
  addEndWeights(chunk, state, rows);
}

/// What weights are relative to the largest one of the whole chunk, `rows` of
/// whose tokens there are: those of columns, and the state's.
void ScanKernel::addEndWeights(Chunk &chunk, const State &state, Value rows) {
  auto minusInf = [&]() { return f32(minusInfinity); };
  // Columns of logs i_j + log R_j.
  Value own = loadNumbers(arg(scanOp.getLogWeight()), chunk.first,
                          /*asRow=*/false);
  SmallVector<Value> toEnd = {own};
  if (chunk.rest)
    toEnd.push_back(chunk.rest);
  Value endLogs = mapOne(toEnd, column(), [&](Value r, Value, ValueRange x) {
    Value sum = x.size() > 1 ? addf(x[0], x[1]) : x[0];
    return select(cmp(arith::CmpIPredicate::slt, r, rows), sum, minusInf());
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
