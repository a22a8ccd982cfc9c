//===- TileScanProducts.cpp - Products of a chunk and its state -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a chunk of tokens of attn.scan makes of its rows, keys and values:
// pairs, what an erase leaves, the next state, and what is read.
//
//===----------------------------------------------------------------------===//

#include "TileScan.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

/// Tokens of a chunk whose keys and erases have a sum of their own, which what
/// they are added to does not round; of more, each erase would be rounded to
/// what all keys have come to, and these two are apart.
static constexpr int64_t mostInOneSum = 32;

Value ScanKernel::areOfLevel(Value row, Value key, int64_t level) {
  using Predicate = arith::CmpIPredicate;
  int64_t half = int64_t(1) << level;
  Value differ = arith::XOrIOp::create(b, loc, row, key);
  return arith::AndIOp::create(b, loc, cmp(Predicate::uge, differ, i32(half)),
                               cmp(Predicate::ult, differ, i32(2 * half)));
}

Value ScanKernel::pairs(const Chunk &chunk, Value rows, Value keys, bool before,
                        bool diagonal, Value narrowRows, Value scale,
                        Type element) {
  using Predicate = arith::CmpIPredicate;
  if (chunkSize == 1) {
    if (!diagonal)
      return {};
    Value own = sumRows(multiply(rows, keys, keyRows()));
    return chunk.largestRows ? multiply(own, chunk.pairs, column()) : own;
  }
  Predicate live = diagonal ? Predicate::sle : Predicate::slt;
  if (gates != Gates::key) {
    bool isNarrow = narrowRows && keys == chunk.key;
    Value products = dot(isNarrow ? narrowRows : rows,
                         isNarrow ? chunk.narrowKey : keys, {}, {},
                         /*transposeRhs=*/true);
    Value weights = before ? chunk.pairsBefore : chunk.pairs;
    SmallVector<Value> inputs = {products};
    if (weights)
      inputs.push_back(weights);
    tile::TileType type =
        element ? tileType(chunkSize, chunkSize, element) : square();
    return mapOne(inputs, type, [&](Value r, Value c, ValueRange x) -> Value {
      Value product = scale ? mulf(x[0], scale) : x[0];
      if (x.size() > 1)
        product = mulf(product, x[1]);
      Value weight = select(cmp(live, c, r), product, f32(0.0f));
      if (!element)
        return weight;
      return arith::TruncFOp::create(b, loc, element, weight);
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
    Value left = (before ? chunk.halvesBefore : chunk.halves)[level];
    Value right = multiply(keys, chunk.halves[level], keyRows());
    bool isSame = rows == keys && left == chunk.halves[level];
    Value products =
        dot(isSame ? right : multiply(rows, left, keyRows()), right, {}, {},
            /*transposeRhs=*/true);
    SmallVector<Value> inputs = {products};
    if (sum)
      inputs.push_back(sum);
    sum = mapOne(inputs, square(), [&](Value r, Value c, ValueRange x) {
      // The row in the upper half of a block, the key in its lower one.
      Value isBelow = arith::AndIOp::create(b, loc, areOfLevel(r, c, level),
                                            cmp(Predicate::slt, c, r));
      return select(isBelow, x[0], x.size() > 1 ? x[1] : f32(0.0f));
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

/// Values less what the state has under the keys, times beta.
Value ScanKernel::lessKnown(const Chunk &chunk, const State &state,
                            Value beta) {
  bool isExact = hasExactParts(chunk);
  Value known = isExact ? dot(chunk.narrowKey, state.matrix)
                        : times(chunk, chunk.key, state.matrix,
                                /*before=*/false);
  SmallVector<Value> inputs = {chunk.value, known, beta};
  // A pass of its own less: gates behind the product, where they are not yet.
  if (isExact && chunk.product)
    inputs.push_back(chunk.product);
  return mapOne(inputs, valueRows(), [&](Value, Value, ValueRange x) {
    Value under = x.size() > 3 ? mulf(x[1], x[3]) : x[1];
    return mulf(x[2], arith::SubFOp::create(b, loc, x[0], under));
  });
}

/// What an erase leaves of the values: of the delta rule those that are
/// written, of others U, beside the values.
void ScanKernel::addErased(Chunk &chunk, const State &state) {
  if (scanOp.getDelta()) {
    Value beta = loadNumbers(arg(scanOp.getDelta()), chunk.first, false);
    Value products = pairs(chunk, chunk.key, chunk.key, /*before=*/false,
                           /*diagonal=*/false, chunk.narrowKey);
    Value rest = lessKnown(chunk, state, beta);
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

bool ScanKernel::hasOwnSum(const Chunk &chunk) const {
  return chunk.erased && chunkSize > 1 && chunkSize <= mostInOneSum;
}

ScanKernel::State ScanKernel::advance(const Chunk &chunk, const State &state) {
  State next = state;
  if (!ofMap) {
    Value keys = arg(scanOp.getKey()), values = arg(scanOp.getValue());
    askAhead(keys, headOf(keys), chunk.first);
    askAhead(values, headOf(values), chunk.first);
  }
  if (hasExactParts(chunk)) {
    Value values = chunk.value;
    // Values as they are in memory: the same numbers in half the bytes.
    if (chunk.rest && chunk.narrowValue)
      values = mapOne({chunk.narrowValue, chunk.rest}, valueRows(),
                      [&](Value, Value, ValueRange x) {
                        Value wide =
                            arith::ExtFOp::create(b, loc, b.getF32Type(), x[0]);
                        return mulf(wide, x[1]);
                      });
    else if (chunk.rest)
      values = multiply(values, chunk.rest, valueRows());
    next.matrix = dot(chunk.narrowKey, values, state.matrix, chunk.totalColumn,
                      false, /*transposeLhs=*/true);
    return next;
  }
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
  bool isOwn = hasOwnSum(chunk);
  next.matrix = dot(keys, chunk.value, isOwn ? Value() : state.matrix,
                    isOwn ? Value() : chunk.totalColumn, false,
                    /*transposeLhs=*/true);
  if (chunk.erased) {
    auto type = tileType(keyCols, valueCols);
    bool isApart = chunkSize > mostInOneSum;
    Value sum = dot(toEnd(chunk, chunk.erasing), chunk.erased,
                    isApart ? Value() : next.matrix, {}, false,
                    /*transposeLhs=*/true);
    next.matrix = isApart ? addTiles(next.matrix, sum, type) : sum;
    SmallVector<Value> inputs = {next.matrix, state.matrix};
    if (chunk.totalColumn)
      inputs.push_back(chunk.totalColumn);
    if (isOwn)
      next.matrix = mapOne(inputs, type, [&](Value, Value, ValueRange x) {
        return addf(x[0], x.size() > 2 ? mulf(x[1], x[2]) : x[1]);
      });
  }
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
    Value own = mapOne(weights, square(), [&](Value r, Value c, ValueRange x) {
      return select(areOfLevel(r, c, level), x[0], f32(0.0f));
    });
    Value values = multiply(chunk.value, chunk.halves[level], valueRows());
    Value products = dot(own, values);
    Value left = (before ? chunk.halvesBefore : chunk.halves)[level];
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

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

ScanKernel::Query ScanKernel::loadQuery(const Chunk &chunk, Value queryHead) {
  Query query;
  Value queries = arg(scanOp.getQuery());
  isReading = true;
  query.plain = mapRows(loadTokens(queries, queryHead, chunk.first, keyCols),
                        chunk.first, keyChannels);
  if (chunk.narrowKey)
    query.narrow =
        loadTokens(queries, queryHead, chunk.first, keyCols,
                   cast<MemRefType>(queries.getType()).getElementType());
  isReading = false;
  query.factor = scanOp.getScale() ? arg(scanOp.getScale()) : Value();
  query.rows = query.plain;
  if (query.factor)
    query.rows =
        mapOne(query.plain, keyRows(), [&](Value, Value, ValueRange x) {
          return mulf(x[0], query.factor);
        });
  return query;
}

Value ScanKernel::readScaled(const Chunk &chunk, const State &state,
                             const Query &query, Value &weights,
                             function_ref<void()> askAhead) {
  bool before = scanOp.getReadBefore();
  // Rows of the state's product have the gates, and the factor, behind it.
  Type narrow =
      chunk.narrowValue
          ? cast<tile::TileType>(chunk.narrowValue.getType()).getElementType()
          : Type();
  weights = pairs(chunk, query.plain, chunk.written, before,
                  /*diagonal=*/!before, query.narrow, query.factor, narrow);
  Value scales = before ? chunk.productBefore : chunk.product;
  if (query.factor)
    scales = scales ? mapOne(scales, column(),
                             [&](Value, Value, ValueRange x) {
                               return mulf(x[0], query.factor);
                             })
                    : fill(query.factor, column());
  // Beside the largest product.
  askAhead();
  if (!chunk.narrowState)
    return dot(weights, chunk.value, dot(query.plain, state.matrix), scales);
  Value sum = dot(query.narrow, chunk.narrowState);
  return dot(weights, narrow ? chunk.narrowValue : chunk.value, sum, scales);
}

Value ScanKernel::readPlain(const Chunk &chunk, const State &state,
                            const Query &query, Value &weights) {
  bool before = scanOp.getReadBefore();
  Value sum = times(chunk, query.rows, state.matrix, before);
  if (scanOp.getWhole())
    return sum;
  bool isOwnKey = query.narrow && chunk.written == chunk.key;
  weights = pairs(chunk, query.rows, chunk.written, before,
                  /*diagonal=*/!before, query.narrow,
                  isOwnKey ? query.factor : Value());
  bool isOwn = hasOwnSum(chunk);
  Value own = gates == Gates::value && chunkSize > 1
                  ? combineValueGates(chunk, weights, sum)
                  : addWeighted(weights, chunk.value, isOwn ? Value() : sum);
  if (!chunk.erased)
    return own;
  Value erasing = pairs(chunk, query.rows, chunk.erasing, before,
                        /*diagonal=*/!before);
  if (chunkSize > mostInOneSum)
    return addTiles(own, dot(erasing, chunk.erased), valueRows());
  own = addWeighted(erasing, chunk.erased, own);
  return isOwn ? addTiles(sum, own, valueRows()) : own;
}

Value ScanKernel::addBonus(const Chunk &chunk, const Query &query, Value sum) {
  Value bonus = scanOp.getBonus();
  if (!bonus)
    return sum;
  Value factors = tile::LoadOp::create(
      b, loc, tileType(1, keyCols), arg(bonus), ValueRange{head, index(0)},
      Value(), Value(), /*live=*/Value(), /*vector=*/false,
      /*transposed=*/false);
  Value own = sumRows(mapOne({query.rows, chunk.key, factors}, keyRows(),
                             [&](Value, Value, ValueRange x) {
                               return mulf(mulf(x[0], x[2]), x[1]);
                             }));
  return mapOne(
      {sum, chunk.givenValue, own}, valueRows(),
      [&](Value, Value, ValueRange x) { return addf(x[0], mulf(x[1], x[2])); });
}

Value ScanKernel::divideByWeights(const Chunk &chunk, const State &state,
                                  const Query &query, Value weights,
                                  Value sum) {
  SmallVector<Value> inputs = {query.rows, state.sum};
  Value product = scanOp.getReadBefore() ? chunk.productBefore : chunk.product;
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
  return mapOne({sum, total}, valueRows(),
                [&](Value, Value, ValueRange x) -> Value {
                  Value none = arith::CmpFOp::create(
                      b, loc, arith::CmpFPredicate::OEQ, x[1], f32(0.0f));
                  return select(none, f32(0.0f),
                                arith::DivFOp::create(b, loc, x[0], x[1]));
                });
}

Value ScanKernel::timesLargest(const Chunk &chunk, Value sum) {
  return mapOne({sum, chunk.largestRows}, valueRows(),
                [&](Value, Value, ValueRange x) {
                  // Nothing times no weight at all.
                  Value none = arith::CmpFOp::create(
                      b, loc, arith::CmpFPredicate::OEQ, x[0], f32(0.0f));
                  return select(none, f32(0.0f),
                                mulf(x[0], math::ExpOp::create(b, loc, x[1])));
                });
}

void ScanKernel::read(const Chunk &chunk, const State &state, Value output) {
  auto [outputHeads, group] = countOutputHeads();
  auto forOp = scf::ForOp::create(b, loc, index(0), group, index(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forOp.getBody());
  Value outputHead = add(mul(head, group), forOp.getInductionVar());
  Value queryHead = queryHeadOf(outputHead, outputHeads);
  Query query = loadQuery(chunk, queryHead);
  Value weights, sum;
  if (hasScaledSums(chunk))
    sum = readScaled(chunk, state, query, weights, [&] {
      askAhead(arg(scanOp.getQuery()), queryHead, chunk.first);
      askAhead(output, outputHead, chunk.first);
    });
  else
    sum = readPlain(chunk, state, query, weights);
  sum = addBonus(chunk, query, sum);
  if (state.sum)
    sum = divideByWeights(chunk, state, query, weights, sum);
  else if (chunk.largestRows)
    sum = timesLargest(chunk, sum);
  sum = finalize(sum, outputHead, chunk.first);
  tile::StoreOp::create(b, loc, sum, output,
                        indicesOf(outputHead, chunk.first, index(0)), begin,
                        queryEnd, /*vector=*/false);
}
