//===- KernelBuilder.cpp - Tile ops and region copies for kernels ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "NamedRewrites.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;

Value KernelBuilder::dim(Value memref, int64_t d) {
  return memref::DimOp::create(b, loc, memref, d);
}

std::pair<Value, Value> KernelBuilder::divide(Value x, Value y) {
  if (target.isCpu() || x.getType().isInteger(32))
    return {arith::DivUIOp::create(b, loc, x, y),
            arith::RemUIOp::create(b, loc, x, y)};
  Value n = toI32(x), d = toI32(y);
  return {toIndex(arith::DivUIOp::create(b, loc, n, d)),
          toIndex(arith::RemUIOp::create(b, loc, n, d))};
}

Value KernelBuilder::element(Value memref, Value position) {
  return toIndex(memref::LoadOp::create(b, loc, memref, ValueRange(position)));
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

SmallVector<Value> KernelBuilder::map(ValueRange inputs, ArrayRef<Type> results,
                                      MapBody body) {
  auto mapOp = tile::MapOp::create(b, loc, results, inputs);
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&mapOp.getBody());
  Value row = block->addArgument(b.getI32Type(), loc);
  Value col = block->addArgument(b.getI32Type(), loc);
  for (Value input : inputs)
    block->addArgument(cast<tile::TileType>(input.getType()).getElementType(),
                       loc);
  // The body may add inputs (loadColumns).
  SmallVector<Value> elements(ValueRange(block->getArguments()).drop_front(2));
  SmallVector<Value> values = body(row, col, elements);
  tile::YieldOp::create(b, loc, values);
  return mapOp.getResults();
}

/// Adds the body (a..., b...) of a reduction.
static void
buildReduceBody(OpBuilder &b, Location loc, Region &region,
                ValueRange identities,
                function_ref<SmallVector<Value>(ValueRange, ValueRange)> body) {
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&region);
  for (int side = 0; side < 2; ++side)
    for (Value identity : identities)
      block->addArgument(identity.getType(), loc);
  ValueRange arguments = block->getArguments();
  tile::YieldOp::create(b, loc,
                        body(arguments.take_front(identities.size()),
                             arguments.drop_front(identities.size())));
}

SmallVector<Value> KernelBuilder::reduce(ValueRange inputs,
                                         ValueRange identities, bool ordered,
                                         ReduceBody body, bool overRows) {
  SmallVector<Type> types;
  for (Value input : inputs) {
    auto type = cast<tile::TileType>(input.getType());
    types.push_back(overRows
                        ? tileType(1, type.getCols(), type.getElementType())
                        : tileType(type.getRows(), 1, type.getElementType()));
  }
  auto reduceOp = tile::ReduceOp::create(b, loc, types, inputs, identities,
                                         overRows, ordered);
  buildReduceBody(b, loc, reduceOp.getBody(), identities, body);
  return reduceOp.getResults();
}

SmallVector<Value> KernelBuilder::scan(ValueRange inputs, ValueRange identities,
                                       bool reverse, ReduceBody body) {
  auto scanOp = tile::ScanOp::create(b, loc, inputs.getTypes(), inputs,
                                     identities, reverse);
  buildReduceBody(b, loc, scanOp.getBody(), identities, body);
  return scanOp.getResults();
}

Value KernelBuilder::rowSum(Value tile) {
  return reduce(tile, f32(0.0f), /*ordered=*/false,
                [&](ValueRange x, ValueRange y) -> SmallVector<Value> {
                  return {arith::AddFOp::create(b, loc, x[0], y[0])};
                })
      .front();
}

//===----------------------------------------------------------------------===//
// Monoid
//===----------------------------------------------------------------------===//

SmallVector<Value> KernelBuilder::params() {
  SmallVector<Value> values;
  if (auto reduction = dyn_cast<ReductionOpInterface>(op))
    llvm::append_range(values, reduction.getMonoidParams());
  else if (auto combine = dyn_cast<CombineOp>(op))
    llvm::append_range(values, combine.getParams());
  else if (auto finalize = dyn_cast<FinalizeOp>(op))
    llvm::append_range(values, finalize.getParams());
  for (Value &value : values)
    value = arg(value);
  return values;
}

SmallVector<Value> KernelBuilder::call(Region &region, ValueRange inputs) {
  SmallVector<Value> all(inputs);
  llvm::append_range(all, params());
  return inlineRegion(b, region, all);
}

SmallVector<Value> KernelBuilder::identityStats() {
  if (monoid.getIdentity().empty())
    return {};
  RegionCloner cloner(b);
  cloner.map(monoid.getIdentity().getArguments(), params());
  SmallVector<Value> stats;
  for (Value value : getYielded(monoid.getIdentity()).take_front(numStats()))
    stats.push_back(cloner.get(value));
  return stats;
}

SmallVector<Value> KernelBuilder::combine(ValueRange left, ValueRange right) {
  SmallVector<Value> both(left);
  llvm::append_range(both, right);
  return call(monoid.getCombine(), both);
}

Value KernelBuilder::isIdentity(ValueRange stats) {
  Value all;
  for (auto [stat, identity] : llvm::zip(stats, identityStats())) {
    Value equal = isa<FloatType>(stat.getType())
                      ? arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ,
                                              stat, identity)
                            .getResult()
                      : cmp(arith::CmpIPredicate::eq, stat, identity);
    all = all ? arith::AndIOp::create(b, loc, all, equal).getResult() : equal;
  }
  return all;
}

//===----------------------------------------------------------------------===//
// Rows of tensors
//===----------------------------------------------------------------------===//

Value KernelBuilder::openSource(Value memref, const Source &source, bool rest,
                                bool vector, bool aligned, int64_t boxes) {
  if (!source.getForm(b.getContext()))
    return memref;
  // One tensor may be queries and keys, whose sources differ.
  Value &opened =
      sources[{memref.getAsOpaquePointer(), source.map.getAsOpaquePointer(),
               source.lengths.getAsOpaquePointer(), rest, vector, aligned}];
  if (!opened)
    opened = tile::SourceOp::create(b, loc, memref, source, rest, vector,
                                    aligned, boxes);
  return opened;
}

SmallVector<Value> KernelBuilder::at(Value headIndex, Value row, bool channel,
                                     ValueRange leading) {
  SmallVector<Value> indices(leading);
  if (rowsHaveBatch)
    indices.push_back(batch);
  indices.push_back(headIndex);
  indices.push_back(row);
  if (channel)
    indices.push_back(firstChannel ? firstChannel : index(0));
  return indices;
}

SmallVector<Value> KernelBuilder::fromFirst(Value headIndex, Value row) {
  SmallVector<Value> indices = at(headIndex, row, /*channel=*/false);
  indices.push_back(index(0));
  return indices;
}

bool KernelBuilder::hasChannels(Value memref, int64_t numLeading) const {
  int64_t rows = rowsHaveBatch ? rowSource.rowDim() : 1;
  return cast<MemRefType>(memref.getType()).getRank() > numLeading + rows + 1;
}

void KernelBuilder::storeRows(Value tile, Value memref, ValueRange leading) {
  bool channel = hasChannels(memref, leading.size());
  Value destination = openSource(memref, rowSource, rowsRest(), !channel);
  Value upper = add(row0, liveRows);
  if (firstChannel && !channel)
    upper = select(cmp(arith::CmpIPredicate::eq, firstChannel, index(0)), upper,
                   row0);
  tile::StoreOp::create(b, loc, tile, destination,
                        at(head, row0, channel, leading), row0, upper,
                        /*vector=*/!channel);
}

//===----------------------------------------------------------------------===//
// Regions of the op
//===----------------------------------------------------------------------===//

Value KernelBuilder::rowBase(Value firstRow) {
  if (!packsHeads)
    return toI32(firstRow);
  return add(firstPacked.position, toI32(sub(firstRow, row0)));
}

Point KernelBuilder::rowPoint(Value base, Value row, Value lastRow) {
  Point point;
  point.row = add(base, row);
  if (!packsHeads) {
    point.safeRow = min(point.row, lastRow);
    return point;
  }
  Value heads = arith::ShRUIOp::create(
      b, loc, mul(point.row, firstPacked.reciprocal), i32(packedShift));
  point.head = min(add(firstPacked.head, heads), firstPacked.lastHead);
  point.row = point.safeRow = sub(point.row, mul(heads, firstPacked.rows));
  return point;
}

const llvm::DenseSet<Value> &
KernelBuilder::varying(Region &region, unsigned firstPosition, bool hasKey) {
  auto [entry, inserted] = varyingValues.try_emplace(&region);
  if (inserted)
    entry->second = findVarying(region, firstPosition, hasKey,
                                packsHeads || (headVaries && hasKey));
  return entry->second;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// Whether a row that has keys has sums of magnitudes around 1: its weights are
/// measured from the row's statistic, and nothing else makes one small.
static bool sumsAreNear(MonoidOp monoid) {
  unsigned numStats = monoid.getNumStats();
  if (numStats == 0)
    return false;
  ValueRange weights = getYielded(monoid.getLift()).drop_front(numStats);
  return llvm::all_of(llvm::enumerate(weights), [&](auto entry) {
    APFloat number(0.0f);
    return matchPattern(entry.value(), m_ConstantFloat(&number)) &&
           (monoid.isShifted(entry.index()) ||
            std::abs(std::log2(number.convertToFloat())) < 30.0f);
  });
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
      cols =
          sliceChannels
              ? sliceChannels
              : llvm::alignTo(
                    cast<MemRefType>(output.getType()).getShape().back(), 16);
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
    auto type = cast<MemRefType>(output.getType());
    if (!target.isCpu() && sumsAreNear(monoid) &&
        type.getElementTypeBitWidth() == 16)
      result.getDefiningOp()->walk([](arith::DivFOp div) {
        div.setFastmath(arith::FastMathFlags::arcp);
      });
    storeRows(result, output);
  }
}

//===----------------------------------------------------------------------===//
// Products of states
//===----------------------------------------------------------------------===//

unsigned KernelBuilder::factorOf(unsigned component) {
  if (!monoid.hasFactors())
    return 0;
  ValueRange yielded = getYielded(monoid.getRescale());
  llvm::SmallSetVector<Value, 4> distinct;
  for (Value factor : yielded.take_front(component + 1))
    distinct.insert(factor);
  return llvm::find(distinct, yielded[component]) - distinct.begin();
}

unsigned KernelBuilder::numFactors() {
  unsigned number = 1;
  for (unsigned i = 0; i < numComponents(); ++i)
    number = std::max(number, factorOf(i) + 1);
  return number;
}

SmallVector<Value> KernelBuilder::factorsTo(ValueRange from, ValueRange to) {
  SmallVector<Value> both(from), distinct;
  llvm::append_range(both, to);
  for (auto [i, factor] : llvm::enumerate(call(monoid.getRescale(), both)))
    if (factorOf(i) == distinct.size())
      distinct.push_back(factor);
  return distinct;
}

SmallVector<Value> KernelBuilder::rescale(ValueRange from, ValueRange to) {
  SmallVector<Value> factors = factorsTo(from, to);
  // r is never taken from the identity: its value there is 0.
  Value none = isIdentity(from);
  for (Value &factor : factors)
    factor = select(none, f32(0.0f), factor);
  return factors;
}

SmallVector<Value> KernelBuilder::shift(ValueRange from, ValueRange to,
                                        ValueRange units) {
  SmallVector<Value> moved(units);
  if (!monoid.hasShift())
    return moved;
  SmallVector<Value> inputs(from);
  llvm::append_range(inputs, to);
  llvm::append_range(inputs, units);
  Value none = isIdentity(from);
  for (auto [unit, shifted] :
       llvm::zip_equal(moved, call(monoid.getShift(), inputs)))
    if (shifted != unit)
      unit = select(none, unit, shifted);
  return moved;
}

Value KernelBuilder::isDropped(Value factor) {
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, factor,
                               f32(0.0f));
}

Value KernelBuilder::selectScaled(Value factor, Value x) {
  Value scaled = arith::MulFOp::create(b, loc, factor, x);
  return select(isDropped(factor), f32(0.0f), scaled);
}

std::pair<Value, Value> KernelBuilder::affineFactors(ValueRange left,
                                                     ValueRange right) {
  SmallVector<Value> both(left);
  llvm::append_range(both, right);
  SmallVector<Value> factors = call(monoid.getFactors(), both);
  // That of a state without keys is never used: its value there is 0.
  Value zero = f32(0.0f);
  return {select(isIdentity(left), zero, factors[0]),
          select(isIdentity(right), zero, factors[1])};
}

std::pair<SmallVector<Value>, SmallVector<Value>>
KernelBuilder::factors(ValueRange left, ValueRange right, ValueRange both) {
  if (left.empty())
    return {};
  switch (monoid.getKind()) {
  case MonoidKind::cocycle:
    return {rescale(left, both), rescale(right, both)};
  case MonoidKind::suffix:
    return {{call(monoid.getGate(), right).front()}, {}};
  case MonoidKind::prefix:
    return {{}, {call(monoid.getGate(), left).front()}};
  case MonoidKind::affine: {
    auto [alpha, beta] = affineFactors(left, right);
    return {{alpha}, {beta}};
  }
  case MonoidKind::general:
    return {};
  }
  llvm_unreachable("unknown kind of monoid");
}

SmallVector<Value> KernelBuilder::identityState(TypeRange types) {
  SmallVector<Value> identity =
      monoid.isGeneral() ? call(monoid.getIdentity(), {}) : identityStats();
  identity.resize(types.size(), f32(0.0f));
  SmallVector<Value> state;
  for (auto [scalar, type] : llvm::zip_equal(identity, types))
    state.push_back(fill(scalar, cast<tile::TileType>(type)));
  return state;
}

/// Elements of a list by their numbers.
static SmallVector<Value> pick(ValueRange tiles, ArrayRef<unsigned> which) {
  return llvm::map_to_vector(which, [&](unsigned i) { return tiles[i]; });
}

/// Of a general monoid: pointwise in the channel on whole states; outputs
/// without channels do not read values.
SmallVector<Value> KernelBuilder::multiplyWhole(ValueRange left,
                                                ValueRange right,
                                                ArrayRef<unsigned> scalars,
                                                ArrayRef<unsigned> vectors) {
  unsigned size = left.size();
  SmallVector<Value> product(size);
  auto combined = [&](ArrayRef<unsigned> inputs, ArrayRef<unsigned> results) {
    if (results.empty())
      return;
    SmallVector<Value> tiles = pick(left, inputs);
    tiles.append(pick(right, inputs));
    SmallVector<Type> types;
    for (unsigned i : results)
      types.push_back(left[i].getType());
    SmallVector<Value> values =
        map(tiles, types, [&](Value, Value, ValueRange x) {
          Region &region = monoid.getCombine();
          RegionCloner cloner(b);
          for (auto [k, i] : llvm::enumerate(inputs)) {
            cloner.map(region.getArgument(i), x[k]);
            cloner.map(region.getArgument(size + i), x[inputs.size() + k]);
          }
          cloner.map(region.getArguments().drop_front(2 * size), params());
          return llvm::map_to_vector(results, [&](unsigned i) {
            return cloner.get(getYielded(region)[i]);
          });
        });
    for (auto [k, i] : llvm::enumerate(results))
      product[i] = values[k];
  };
  combined(scalars, scalars);
  SmallVector<unsigned> all(scalars);
  llvm::append_range(all, vectors);
  combined(all, vectors);
  return product;
}

SmallVector<Value> KernelBuilder::multiply(ValueRange left, ValueRange right,
                                           bool computed, bool isExact) {
  unsigned n = numStats(), size = left.size();
  SmallVector<unsigned> scalars, vectors;
  for (unsigned i = 0; i < size; ++i)
    (isPerChannel(monoid, i) ? vectors : scalars).push_back(i);
  if (monoid.isGeneral())
    return multiplyWhole(left, right, scalars, vectors);

  // Statistics, the factors of both sides, and components without channels.
  // What was not computed here may hold anything where its state is empty; what
  // was is NaN where a relaxed maximum has passed NaN scores by, and stays so.
  // What is dropped is not shifted: that may overflow.
  // A sum is never -0 where it is exact: 0 may be added to it then.
  unsigned leftFactors = 0, rightFactors = 0;
  int64_t rows = cast<tile::TileType>(left.front().getType()).getRows();
  SmallVector<Value> product(size);
  auto scale = [&](Value factor, Value x) -> Value {
    if (!factor)
      return x;
    return computed ? arith::MulFOp::create(b, loc, factor, x).getResult()
                    : selectScaled(factor, x);
  };
  auto scaledSum = [&](Value f1, Value x, Value f2, Value y) -> Value {
    Value sum = arith::AddFOp::create(b, loc, scale(f1, x), scale(f2, y));
    return isExact ? arith::AddFOp::create(b, loc, sum, f32(0.0f)) : sum;
  };
  SmallVector<Value> factorTiles;
  if (!scalars.empty()) {
    SmallVector<Value> tiles = pick(left, scalars);
    tiles.append(pick(right, scalars));
    if (n && monoid.getKind() != MonoidKind::prefix)
      leftFactors = numFactors();
    if (n && monoid.getKind() != MonoidKind::suffix)
      rightFactors = numFactors();
    SmallVector<Type> types;
    for (unsigned i : scalars)
      types.push_back(left[i].getType());
    types.append(leftFactors + rightFactors, tileType(rows, 1));
    SmallVector<Value> ofRows =
        map(tiles, types, [&](Value, Value, ValueRange x) {
          ValueRange one = x.take_front(scalars.size());
          ValueRange two = x.drop_front(scalars.size());
          SmallVector<Value> results;
          if (n)
            results = combine(one.take_front(n), two.take_front(n));
          SmallVector<Value> stats = results;
          auto [f1, f2] = factors(one.take_front(n), two.take_front(n), stats);
          if (isExact && n) {
            Value isEmpty = isIdentity(two.take_front(n));
            for (Value &factor : f1)
              factor = select(isEmpty, f32(1.0f), factor);
          }
          SmallVector<Value> left =
              shift(one.take_front(n), stats, one.drop_front(n));
          SmallVector<Value> right =
              shift(two.take_front(n), stats, two.drop_front(n));
          for (unsigned u = 0; u < left.size(); ++u) {
            unsigned f = factorOf(scalars[n + u] - n);
            if (monoid.hasShift()) {
              left[u] = select(isDropped(f1[f]), one[n + u], left[u]);
              right[u] = select(isDropped(f2[f]), two[n + u], right[u]);
            }
            results.push_back(scaledSum(f1.empty() ? Value() : f1[f], left[u],
                                        f2.empty() ? Value() : f2[f],
                                        right[u]));
          }
          results.append(f1);
          results.append(f2);
          return results;
        });
    for (auto [k, i] : llvm::enumerate(scalars))
      product[i] = ofRows[k];
    factorTiles.assign(ofRows.begin() + scalars.size(), ofRows.end());
  }
  for (unsigned i : vectors) {
    SmallVector<Value> tiles = {left[i], right[i]};
    unsigned f = factorOf(i - n);
    if (leftFactors)
      tiles.push_back(factorTiles[f]);
    if (rightFactors)
      tiles.push_back(factorTiles[leftFactors + f]);
    product[i] =
        map(tiles, right[i].getType(), [&](Value, Value, ValueRange x) {
          Value f1 = leftFactors ? x[2] : Value();
          Value f2 = rightFactors ? x.back() : Value();
          return SmallVector<Value>{scaledSum(f1, x[0], f2, x[1])};
        }).front();
  }
  return product;
}

SmallVector<Value>
KernelBuilder::multiplyAll(ArrayRef<SmallVector<Value>> states,
                           ArrayRef<Value> exist, bool computed, bool isShort) {
  unsigned n = numStats(), size = states.front().size(), count = states.size();
  SmallVector<unsigned> scalars, vectors;
  for (unsigned i = 0; i < size; ++i)
    (isPerChannel(monoid, i) ? vectors : scalars).push_back(i);
  unsigned each = scalars.size(), numEach = numFactors();
  auto addScaled = [&](Value sum, Value factor, Value x) -> Value {
    Value scaled = computed
                       ? arith::MulFOp::create(b, loc, factor, x).getResult()
                       : selectScaled(factor, x);
    return sum ? arith::AddFOp::create(b, loc, sum, scaled) : scaled;
  };
  SmallVector<Value> tiles;
  for (const SmallVector<Value> &state : states)
    tiles.append(pick(state, scalars));
  SmallVector<Type> types;
  for (unsigned i : scalars)
    types.push_back(states.front()[i].getType());
  int64_t rows =
      cast<tile::TileType>(states.front().front().getType()).getRows();
  types.append(count * numEach, tileType(rows, 1));
  SmallVector<Value> ofRows =
      map(tiles, types, [&](Value, Value, ValueRange x) {
        SmallVector<SmallVector<Value>> stats, factors;
        SmallVector<Value> all;
        for (unsigned k = 0; k < count; ++k) {
          SmallVector<Value> own(x.slice(k * each, n));
          if (exist[k])
            for (auto [stat, none] : llvm::zip_equal(own, identityStats()))
              stat = select(exist[k], stat, none);
          all = k ? combine(all, own) : own;
          stats.push_back(own);
        }
        SmallVector<SmallVector<Value>> units;
        for (auto [k, own] : llvm::enumerate(stats)) {
          factors.push_back(rescale(own, all));
          units.push_back(shift(own, all, x.slice(k * each + n, each - n)));
        }
        SmallVector<Value> results = all;
        for (unsigned i = n; i < each; ++i) {
          Value sum;
          for (unsigned k = 0; k < count; ++k) {
            Value factor = factors[k][factorOf(scalars[i] - n)];
            Value unit = units[k][i - n];
            if (monoid.hasShift())
              unit = select(isDropped(factor), x[k * each + i], unit);
            sum = addScaled(sum, factor, unit);
          }
          results.push_back(sum);
        }
        for (ValueRange own : factors)
          results.append(own.begin(), own.end());
        return results;
      });
  if (isShort)
    ofRows.front().getDefiningOp()->walk([&](math::ExpOp factor) {
      factor.setFastmath(arith::FastMathFlags::afn);
    });
  SmallVector<Value> product(size);
  for (auto [k, i] : llvm::enumerate(scalars))
    product[i] = ofRows[k];
  for (unsigned i : vectors) {
    SmallVector<Value> inputs;
    for (unsigned k = 0; k < count; ++k) {
      inputs.push_back(states[k][i]);
      inputs.push_back(ofRows[each + k * numEach + factorOf(i - n)]);
    }
    product[i] = map(inputs, states.front()[i].getType(),
                     [&](Value, Value, ValueRange x) {
                       Value sum;
                       for (unsigned k = 0; k < count; ++k)
                         sum = addScaled(sum, x[2 * k + 1], x[2 * k]);
                       return SmallVector<Value>{sum};
                     })
                     .front();
  }
  return product;
}
