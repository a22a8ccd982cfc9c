//===- Fold.cpp - Keys one by one -----------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The element path. Registers are indexed by constants alone, so a loop over
// keys takes a key's scores from shared memory, one for each row, and its
// values, one for each channel; states stay in registers.
//
// With a threshold, scores stay in registers, too: while some row has a key
// above its own, each row folds its next one. As many turns as the row with the
// most such keys has are enough for all rows of a warp.
//
//===----------------------------------------------------------------------===//

#include "ComputeLowering.h"
#include "attn/Dialect/Tile/IR/FoldThreshold.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::tile_gpu;

/// Deletes what nothing reads.
static void removeDeadOps(Block &body) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

/// This member's part of the n-th scratch tile.
Value ComputeLowering::scratch(unsigned n, tile::TileType type, Location loc) {
  MLIRContext *context = b.getContext();
  int64_t rows = type.getRows() * role.getCount();
  auto whole =
      SmemType::get(context, rows, type.getCols(), b.getF32Type(),
                    /*swizzle=*/0, /*boxes=*/1, rows, /*transposed=*/false);
  if (n == scratchTiles.size())
    scratchTiles.push_back(Value());
  Value &tile = scratchTiles[n];
  if (!tile || tile.getType() != whole) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(role);
    tile = SmemAllocOp::create(b, loc, whole, /*offset=*/IntegerAttr());
  }
  if (role.getCount() == 1)
    return tile;
  auto part = SmemType::get(context, type.getRows(), type.getCols(),
                            b.getF32Type(), 0, 1, type.getRows(), false);
  Value rowsEach =
      arith::ConstantIntOp::create(b, loc, b.getI32Type(), type.getRows());
  Value zero = arith::ConstantIntOp::create(b, loc, b.getI32Type(), 0);
  Value row =
      arith::MulIOp::create(b, loc, role.getBody().getArgument(0), rowsEach);
  return SmemSliceOp::create(b, loc, part, tile, row, zero);
}

/// 1 where an element is live, else 0.
Value ComputeLowering::asNumber(Value live, Location loc) {
  auto type = cast<FragType>(live.getType());
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  auto map = MapOp::create(b, loc,
                           TypeRange(frag(type.getRows(), type.getCols(), f32)),
                           ValueRange(live));
  OpBuilder::InsertionGuard guard(b);
  Block *body = b.createBlock(&map.getBody(), {}, {i32, i32, b.getI1Type()},
                              {loc, loc, loc});
  Value one = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(1.0f));
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f));
  YieldOp::create(
      b, loc,
      Value(arith::SelectOp::create(b, loc, body->getArgument(2), one, zero)));
  return map.getResult(0);
}

/// A map of `inputs`; `emit` gets the row, the column and their elements.
static MapOp createMap(OpBuilder &b, Location loc, TypeRange results,
                       ValueRange inputs,
                       function_ref<SmallVector<Value>(ValueRange)> emit) {
  auto map = MapOp::create(b, loc, results, inputs);
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Type> types(2, b.getI32Type());
  for (Value input : inputs)
    types.push_back(isa<FragType>(input.getType())
                        ? cast<FragType>(input.getType()).getElementType()
                        : cast<VecType>(input.getType()).getElementType());
  Block *body = b.createBlock(&map.getBody(), {}, types,
                              SmallVector<Location>(types.size(), loc));
  YieldOp::create(b, loc, emit(body->getArguments()));
  removeDeadOps(*body);
  return map;
}

namespace {
/// Builds a fold with a threshold of scores in registers.
struct ThresholdFold {
  OpBuilder &b;
  Location loc;
  tile::FoldOp op;
  unsigned threshold;
  Value scores, live;
  /// One value a row: a column, a score, whether there is a key.
  VecType places, numbers, truths;

  Value cols() { return number(cast<FragType>(scores.getType()).getCols()); }
  Value number(int64_t value) {
    return arith::ConstantIntOp::create(b, loc, b.getI32Type(), value);
  }
  Value less(Value x, Value y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, y);
  }
  FragType like(Type element) {
    auto type = cast<FragType>(scores.getType());
    return FragType::get(b.getContext(), type.getRows(), type.getCols(),
                         element, type.getLayout(), type.getScope());
  }
  Value pass(Value least, Type result,
             function_ref<Value(Value, Value, ValueRange)> emit,
             ValueRange more = {});
  SmallVector<Value> findNext(Value least, Value from);
  SmallVector<Value> foldNext(ValueRange states, Value column, Value score);
  SmallVector<Value> build(ArrayRef<Value> initial);
};
} // namespace

/// A map of the scores: `emit` gets whether a key passes, its column, and what
/// the row has in `more`.
Value ThresholdFold::pass(Value least, Type result,
                          function_ref<Value(Value, Value, ValueRange)> emit,
                          ValueRange more) {
  SmallVector<Value> inputs = {scores, least};
  llvm::append_range(inputs, more);
  if (live)
    inputs.push_back(live);
  auto map = createMap(b, loc, result, inputs, [&](ValueRange x) {
    // A score that is no number passes.
    Value passes =
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UGT, x[2], x[3]);
    if (live)
      passes = arith::AndIOp::create(b, loc, passes, x.back());
    return SmallVector<Value>{emit(passes, x[1], x.slice(4, more.size()))};
  });
  return map.getResult(0);
}

/// Each row's next key above its threshold, from a column on: its column, which
/// is behind the last where there is none, and its score.
SmallVector<Value> ThresholdFold::findNext(Value least, Value from) {
  Value columns = pass(
      least, like(b.getI32Type()),
      [&](Value passes, Value column, ValueRange more) -> Value {
        Value later = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge,
                                            column, more.front());
        passes = arith::AndIOp::create(b, loc, passes, later);
        return arith::SelectOp::create(b, loc, passes, column, cols());
      },
      from);
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f));
  auto reduce = ReduceOp::create(b, loc, TypeRange{places, numbers},
                                 ValueRange{columns, scores},
                                 ValueRange{cols(), zero}, /*ordered=*/false);
  OpBuilder::InsertionGuard guard(b);
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  Block *body = b.createBlock(&reduce.getBody(), {}, {i32, f32, i32, f32},
                              SmallVector<Location>(4, loc));
  ValueRange x = body->getArguments();
  Value first = less(x[0], x[2]);
  Value column = arith::SelectOp::create(b, loc, first, x[0], x[2]);
  Value score = arith::SelectOp::create(b, loc, first, x[1], x[3]);
  YieldOp::create(b, loc, ValueRange{column, score});
  return SmallVector<Value>(reduce.getResults());
}

/// The states of each row after its next key, and the column behind that.
SmallVector<Value> ThresholdFold::foldNext(ValueRange states, Value column,
                                           Value score) {
  SmallVector<Value> inputs(states);
  inputs.append({column, score});
  SmallVector<Type> results(states.getTypes());
  results.push_back(places);
  Block &body = op.getBody().front();
  auto map = createMap(b, loc, results, inputs, [&](ValueRange x) {
    ValueRange old = x.slice(2, states.size());
    Value at = x[2 + states.size()], value = x.back();
    IRMapping mapping;
    mapping.map(body.getArgument(0), x[0]);
    mapping.map(body.getArgument(1), at);
    mapping.map(body.getArgument(2), value);
    mapping.map(body.getArguments().drop_front(3), old);
    for (Operation &inside : body.without_terminator())
      b.clone(inside, mapping);
    Value exists = less(at, cols());
    SmallVector<Value> next;
    for (auto [yielded, before] :
         llvm::zip(body.getTerminator()->getOperands(), old))
      next.push_back(arith::SelectOp::create(
          b, loc, exists, mapping.lookupOrDefault(yielded), before));
    next.push_back(arith::AddIOp::create(b, loc, at, number(1)));
    return next;
  });
  return SmallVector<Value>(map.getResults());
}

SmallVector<Value> ThresholdFold::build(ArrayRef<Value> initial) {
  // Of most tiles no key passes. Warps need not wait for each other.
  Value some = pass(initial[threshold], like(b.getI1Type()),
                    [](Value passes, Value, ValueRange) { return passes; });
  some = AnyOp::create(b, loc, b.getI1Type(), some, /*by_rows=*/true);
  auto branch = scf::IfOp::create(b, loc, ValueRange(initial).getTypes(), some,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, loc, initial);
  b.setInsertionPointToStart(branch.thenBlock());

  Value first =
      createMap(b, loc, TypeRange(places), initial[threshold], [&](ValueRange) {
        return SmallVector<Value>{number(0)};
      }).getResult(0);
  SmallVector<Value> inits(initial);
  inits.push_back(first);
  SmallVector<Type> carried(ValueRange(inits).getTypes()), found(carried);
  found.push_back(numbers);
  auto loop = scf::WhileOp::create(b, loc, found, inits);
  Block *before = b.createBlock(&loop.getBefore(), {}, carried,
                                SmallVector<Location>(carried.size(), loc));
  ValueRange states = before->getArguments().drop_back();
  SmallVector<Value> next =
      findNext(states[threshold], before->getArguments().back());
  Value exists =
      createMap(b, loc, TypeRange(truths), next[0], [&](ValueRange x) {
        return SmallVector<Value>{less(x[2], cols())};
      }).getResult(0);
  SmallVector<Value> passed(states);
  llvm::append_range(passed, next);
  scf::ConditionOp::create(
      b, loc, AnyOp::create(b, loc, b.getI1Type(), exists, /*by_rows=*/true),
      passed);
  Block *after = b.createBlock(&loop.getAfter(), {}, found,
                               SmallVector<Location>(found.size(), loc));
  ValueRange x = after->getArguments();
  scf::YieldOp::create(b, loc,
                       foldNext(x.drop_back(2), x[x.size() - 2], x.back()));
  b.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(b, loc, loop.getResults().drop_back(2));
  return SmallVector<Value>(branch.getResults());
}

LogicalResult ComputeLowering::lowerThresholdFold(tile::FoldOp op,
                                                  unsigned threshold) {
  Value scores = get(op.getScores().front());
  auto type = dyn_cast<FragType>(scores.getType());
  if (!type || !type.getElementType().isF32())
    return op.emitOpError("expected f32 scores in registers, but got ")
           << scores.getType();
  SmallVector<Value> initial;
  for (Value state : op.getStates()) {
    initial.push_back(get(state));
    if (!isa<VecType>(initial.back().getType()))
      return op.emitOpError("expected states of one value a row, but got ")
             << initial.back().getType();
  }
  auto each = [&](Type element) {
    return vec(type.getRows(), element, Axis::Row);
  };
  ThresholdFold fold{b,
                     op.getLoc(),
                     op,
                     threshold,
                     scores,
                     op.getLive() ? get(op.getLive()) : Value(),
                     each(b.getI32Type()),
                     each(b.getF32Type()),
                     each(b.getI1Type())};
  for (auto [result, lowered] : llvm::zip(op.getResults(), fold.build(initial)))
    set(result, lowered);
  return success();
}

LogicalResult ComputeLowering::lowerFold(tile::FoldOp op) {
  if (std::optional<unsigned> threshold = tile::getThreshold(op))
    return lowerThresholdFold(op, *threshold);
  Location loc = op.getLoc();
  if (scope != Scope::Warp)
    return op.emitOpError("expected a role of warps");
  auto scoreType = cast<tile::TileType>(op.getScores()[0].getType());
  Type f32 = b.getF32Type(), i32 = b.getI32Type();

  // Scores and liveness, where every thread can read them.
  SmallVector<Value> scoreTiles, valueTiles, initial;
  for (Value score : op.getScores()) {
    Value held = get(score);
    auto type = dyn_cast<FragType>(held.getType());
    if (!type || !type.getElementType().isF32())
      return op.emitOpError("expected f32 scores in registers, but got ")
             << held.getType();
    Value tile = scratch(scoreTiles.size(), scoreType, loc);
    FragStoreOp::create(b, loc, held, tile, /*fragment_order=*/false);
    scoreTiles.push_back(tile);
  }
  Value liveTile;
  if (op.getLive()) {
    liveTile = scratch(scoreTiles.size(), scoreType, loc);
    FragStoreOp::create(b, loc, asNumber(get(op.getLive()), loc), liveTile,
                        /*fragment_order=*/false);
  }
  for (Value value : op.getValues()) {
    Value held = get(value);
    auto element = cast<tile::TileType>(value.getType()).getElementType();
    if (!isa<SmemType>(held.getType()) || !element.isF32())
      return op.emitOpError("expected f32 values in shared memory, but got ")
             << held.getType() << " for elements of " << element;
    valueTiles.push_back(held);
  }
  for (Value state : op.getStates()) {
    Value held = get(state);
    if (!isa<FragType, VecType>(held.getType()))
      return op.emitOpError("expected states in registers, but got ")
             << held.getType();
    initial.push_back(held);
  }

  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(b, loc, i32, value);
  };
  auto loop = scf::ForOp::create(
      b, loc, constant(0), constant(scoreType.getCols()), constant(1), initial);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value column = loop.getInductionVar();
  SmallVector<Value> rowInputs, values;
  auto loadRow = [&](Value tile) -> Value {
    return VecLoadOp::create(b, loc, vec(scoreType.getRows(), f32, Axis::Row),
                             tile, column, /*permuted=*/false);
  };
  for (Value tile : scoreTiles)
    rowInputs.push_back(loadRow(tile));
  if (liveTile)
    rowInputs.push_back(loadRow(liveTile));
  for (Value tile : valueTiles)
    values.push_back(VecLoadOp::create(
        b, loc, vec(cast<SmemType>(tile.getType()).getCols(), f32, Axis::Col),
        tile, column, /*permuted=*/false));

  // States of one value a row see no channel; they come by a map of their own.
  Block &body = op.getBody().front();
  unsigned numScores = scoreTiles.size(), numValues = values.size();
  ValueRange states = loop.getRegionIterArgs();
  SmallVector<Value> next(states.size());
  auto emit = [&](bool channels) {
    SmallVector<unsigned> which, seen;
    SmallVector<Value> inputs = rowInputs;
    if (channels)
      llvm::append_range(inputs, values);
    SmallVector<Type> results;
    for (auto [i, state] : llvm::enumerate(states)) {
      bool isChannel = isa<FragType>(state.getType());
      if (isChannel == channels) {
        which.push_back(i);
        results.push_back(state.getType());
      }
      if (channels || !isChannel) {
        seen.push_back(i);
        inputs.push_back(state);
      }
    }
    if (which.empty())
      return;
    auto map = MapOp::create(b, loc, results, inputs);
    OpBuilder::InsertionGuard guard(b);
    SmallVector<Type> types = {i32, i32};
    for (Value input : inputs)
      types.push_back(isa<FragType>(input.getType())
                          ? cast<FragType>(input.getType()).getElementType()
                          : cast<VecType>(input.getType()).getElementType());
    Block *inner = b.createBlock(&map.getBody(), {}, types,
                                 SmallVector<Location>(types.size(), loc));
    ValueRange arguments = inner->getArguments();
    Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f));
    IRMapping mapping;
    mapping.map(body.getArgument(0), arguments[0]);
    mapping.map(body.getArgument(1), column);
    unsigned from = 2, to = 2;
    for (unsigned i = 0; i < numScores; ++i)
      mapping.map(body.getArgument(to++), arguments[from++]);
    Value alive;
    if (liveTile)
      alive = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE,
                                    arguments[from++], zero);
    for (unsigned i = 0; i < numValues; ++i)
      mapping.map(body.getArgument(to++), channels ? arguments[from++] : zero);
    for (unsigned i = 0; i < states.size(); ++i)
      if (llvm::is_contained(seen, i))
        mapping.map(body.getArgument(to + i), arguments[from++]);
      else
        mapping.map(body.getArgument(to + i), zero);
    for (Operation &inside : body.without_terminator())
      b.clone(inside, mapping);
    SmallVector<Value> yields;
    for (unsigned i : which) {
      Value value = mapping.lookup(body.getTerminator()->getOperand(i));
      if (alive)
        value = arith::SelectOp::create(
            b, loc, alive, value, mapping.lookup(body.getArgument(to + i)));
      yields.push_back(value);
    }
    YieldOp::create(b, loc, yields);
    removeDeadOps(*inner);
    for (auto [k, i] : llvm::enumerate(which))
      next[i] = map.getResult(k);
  };
  emit(/*channels=*/false);
  emit(/*channels=*/true);
  scf::YieldOp::create(b, loc, next);
  for (auto [result, lowered] : llvm::zip(op.getResults(), loop.getResults()))
    set(result, lowered);
  return success();
}
