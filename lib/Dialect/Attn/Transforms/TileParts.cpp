//===- TileParts.cpp - Products of states, and parts of fixed size --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where the bits of a row are to depend on nothing beside it, keys are cut at
// multiples of a fixed number (`attn.part_keys`). Each part is reduced from the
// identity on, and the states of parts are multiplied in order. A block that
// has all parts, as of a prompt, does in registers what blocks for each part
// and a kernel behind them do through memory, by the same operations: what a
// row goes through is the same. Other ways to carry a state over a cut do not
// do: a sum that goes on from what was there has other bits than one that
// starts at 0.
//
// A part without keys leaves the state as it was, bit by bit, so that a block
// may leave out those that none of its rows sees.
//
//===----------------------------------------------------------------------===//

#include "TileKernel.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

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
  // What was not computed here may hold anything where its state is empty.
  // A sum is never -0 where it is exact: 0 may be added to it then.
  unsigned leftFactors = 0, rightFactors = 0;
  int64_t rows = cast<tile::TileType>(left.front().getType()).getRows();
  SmallVector<Value> product(size);
  auto scale = [&](Value factor, Value x) -> Value {
    if (!factor)
      return x;
    Value scaled = arith::MulFOp::create(b, loc, factor, x);
    if (computed)
      return scaled;
    Value isDropped = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ,
                                            factor, f32(0.0f));
    return select(isDropped, f32(0.0f), scaled);
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
          for (unsigned k = n; k < scalars.size(); ++k) {
            unsigned f = factorOf(scalars[k] - n);
            results.push_back(scaledSum(f1.empty() ? Value() : f1[f], one[k],
                                        f2.empty() ? Value() : f2[f], two[k]));
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
    product[i] = map(tiles, left[i].getType(), [&](Value, Value, ValueRange x) {
                   Value f1 = leftFactors ? x[2] : Value();
                   Value f2 = rightFactors ? x.back() : Value();
                   return SmallVector<Value>{scaledSum(f1, x[0], f2, x[1])};
                 }).front();
  }
  return product;
}

//===----------------------------------------------------------------------===//
// Parts of one block
//===----------------------------------------------------------------------===//

SmallVector<Value> ReductionKernel::walkParts() {
  KeyRangeProblem problem = describeRanges();
  KeyRanges all = emitKeyRanges(b, loc, problem);
  // Part 0 has what rows start with, also where they see none of its keys.
  Value one = index(1), size = index(partKeys);
  Value begin = arith::DivUIOp::create(b, loc, max(all.lower, index(0)), size);
  Value end =
      arith::CeilDivUIOp::create(b, loc, max(all.upper, index(0)), size);
  begin = max(begin, one);
  Value count = add(max(sub(end, begin), index(0)), one);
  auto forOp = scf::ForOp::create(b, loc, index(0), count, one,
                                  identityState(stateTypes()));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forOp.getBody());
  Value number = forOp.getInductionVar();
  split = select(cmp(arith::CmpIPredicate::eq, number, index(0)), number,
                 add(begin, sub(number, one)));
  SmallVector<Value> state = streamKeys(initialState());
  if (form.exponential)
    state = toReferencePoint(state);
  state = multiply(forOp.getRegionIterArgs(), state, /*computed=*/true,
                   /*isExact=*/true);
  scf::YieldOp::create(b, loc, state);
  split = Value();
  return forOp.getResults();
}
