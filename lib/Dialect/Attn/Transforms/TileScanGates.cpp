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
  chunk.totalLog = sumRows(logs);
  // With logarithms of weights they are relative to the largest.
  if (scanOp.getLogWeight())
    return;
  auto end = [&]() {
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
  Value upTo = masked(Predicate::sle);
  chunk.pairs = expOf(sums(upTo));
  chunk.product = expOf(sumRows(upTo));
  if (beforeMask) {
    Value before = masked(Predicate::slt);
    chunk.pairsBefore = expOf(sums(before));
    chunk.productBefore = expOf(sumRows(before));
  }
  chunk.rest = expOf(sumRows(masked(Predicate::sgt)));
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

/// A row as a column.
Value ScanKernel::asColumn(Value row) {
  if (chunkSize == 1)
    return row;
  return sumRows(mapOne(row, square(), [&](Value r, Value c, ValueRange x) {
    return select(cmp(arith::CmpIPredicate::eq, r, c), x[0], f32(0.0f));
  }));
}

ScanKernel::LogStep ScanKernel::stepLog(Value largest, Value rest, Value gate,
                                        Value own, Value ownRest) {
  auto subf = [&](Value x, Value y) -> Value {
    return arith::SubFOp::create(b, loc, x, y);
  };
  auto compare = [&](arith::CmpFPredicate predicate, Value x,
                     Value y) -> Value {
    return arith::CmpFOp::create(b, loc, predicate, x, y);
  };
  // A sum, and what it leaves out.
  Value y = addf(gate, rest), old = addf(largest, y);
  Value part = subf(old, largest);
  Value error = addf(subf(largest, subf(old, part)), subf(y, part));
  Value none = compare(arith::CmpFPredicate::OEQ, old, f32(minusInfinity));
  error = select(none, f32(0.0f), error);
  Value isNew =
      compare(arith::CmpFPredicate::OGT, subf(own, old), subf(error, ownRest));
  return {old,
          error,
          none,
          isNew,
          select(isNew, own, old),
          select(isNew, ownRest, error)};
}

/// The logarithm of the largest weight before each token, a row, and what its
/// sums leave out. They are folded one after the other, so that what a gate
/// alone has made of the largest weight is what it has made of the others.
std::pair<Value, Value> ScanKernel::largestBefore(Value own, Value gate,
                                                  Value first) {
  using Predicate = arith::CmpIPredicate;
  auto row = tileType(1, chunkSize);
  if (chunkSize == 1)
    return {first, fill(f32(0.0f), row)};
  Value gates = asColumn(gate);
  // The first token has what the state has.
  Value logs =
      mapOne({asColumn(own), gates, first}, column(),
             [&](Value r, Value, ValueRange x) -> Value {
               Value both =
                   arith::MaximumFOp::create(b, loc, x[0], addf(x[1], x[2]));
               return select(cmp(Predicate::eq, r, i32(0)), both, x[0]);
             });
  auto before = [&](Value column, float none) {
    return mapOne(column, square(), [&](Value s, Value c, ValueRange x) {
      return select(cmp(Predicate::slt, s, c), x[0], f32(none));
    });
  };
  SmallVector<Value> folded = reduce(
      {before(gates, 0.0f), before(logs, minusInfinity),
       fill(f32(0.0f), square())},
      {f32(0.0f), f32(minusInfinity), f32(0.0f)}, /*ordered=*/true,
      [&](ValueRange x, ValueRange y) -> SmallVector<Value> {
        LogStep step = stepLog(x[1], x[2], y[0], y[1], y[2]);
        return {addf(x[0], y[0]), step.largest, step.rest};
      },
      /*overRows=*/true);
  Value largest =
      mapOne({folded[1], first}, row, [&](Value, Value c, ValueRange x) {
        return select(cmp(Predicate::eq, c, i32(0)), x[1], x[0]);
      });
  return {largest, folded[2]};
}

/// All weights relative to the largest one so far: of each row, and at the end.
/// A token takes a factor from those before it, 1 where nothing larger has
/// come, so that gates which make weights as small as they like leave what
/// these are relative to each other.
void ScanKernel::addLogWeights(Chunk &chunk, const State &state) {
  using Predicate = arith::CmpIPredicate;
  auto minusInf = [&]() { return f32(minusInfinity); };
  auto row = tileType(1, chunkSize);
  Value rows = toI32(sub(end, chunk.first));
  Value own =
      mapOne(loadNumbers(arg(scanOp.getLogWeight()), chunk.first,
                         /*asRow=*/true),
             row, [&](Value, Value c, ValueRange x) {
               return select(cmp(Predicate::slt, c, rows), x[0], minusInf());
             });
  Value gate = chunk.gateLogs ? chunk.gateLogs : fill(f32(0.0f), row);
  auto [before, rest] = largestBefore(own, gate, state.largest);
  SmallVector<Value> steps =
      map({before, rest, gate, own}, {row, row, row},
          [&](Value, Value c, ValueRange x) -> SmallVector<Value> {
            auto subf = [&](Value u, Value v) -> Value {
              return arith::SubFOp::create(b, loc, u, v);
            };
            LogStep step = stepLog(x[0], x[1], x[2], x[3], f32(0.0f));
            // Of the first token it is left out.
            Value error =
                select(cmp(Predicate::eq, c, i32(0)), f32(0.0f), step.error);
            Value factor = select(step.isNew, addf(subf(step.old, x[3]), error),
                                  f32(0.0f));
            Value none = arith::CmpFOp::create(
                b, loc, arith::CmpFPredicate::OEQ, x[3], minusInf());
            Value weight =
                select(none, minusInf(), subf(subf(x[3], step.old), error));
            return {step.largest, select(step.none, minusInf(), factor),
                    select(step.isNew, f32(0.0f), weight)};
          });
  Value largest = steps[0], factors = steps[1], weights = steps[2];
  auto masked = [&](Predicate predicate) {
    return mapOne(factors, square(), [&](Value r, Value s, ValueRange x) {
      return select(cmp(predicate, s, r), x[0], f32(0.0f));
    });
  };
  chunk.largestRows = asColumn(largest);
  if (chunkSize == 1) {
    chunk.largestNext = largest;
    chunk.pairs = chunk.endWeights = expOf(weights);
    chunk.fromStateRows = expOf(factors);
  } else {
    chunk.largestNext =
        sumRows(mapOne(largest, row, [&](Value, Value c, ValueRange x) {
          return select(cmp(Predicate::eq, c, i32(chunkSize - 1)), x[0],
                        f32(0.0f));
        }));
    Value upTo = masked(Predicate::sle);
    Value sums = scan(upTo, f32(0.0f), /*reverse=*/true,
                      [&](ValueRange x, ValueRange y) -> SmallVector<Value> {
                        return {addf(x[0], y[0])};
                      })
                     .front();
    chunk.pairs = expOf(addTiles(sums, weights, square()));
    chunk.fromStateRows = expOf(sumRows(upTo));
    chunk.endWeights = expOf(
        addTiles(asColumn(weights), sumRows(masked(Predicate::sgt)), column()));
  }
  Value all = expOf(sumRows(factors));
  auto spread = [&](tile::TileType type) {
    return mapOne(all, type, [&](Value, Value, ValueRange x) { return x[0]; });
  };
  chunk.totalColumn = spread(tileType(keyCols, 1));
  if (scanOp.getNormalize())
    chunk.totalRow = spread(tileType(1, keyCols));
}
