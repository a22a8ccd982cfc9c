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

/// The body of a map of `inputs`, whose elements `emit` gets.
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

LogicalResult ComputeLowering::lowerThresholdFold(tile::FoldOp op,
                                                  unsigned threshold) {
  Location loc = op.getLoc();
  Value scores = get(op.getScores().front());
  auto type = dyn_cast<FragType>(scores.getType());
  if (!type || !type.getElementType().isF32())
    return op.emitOpError("expected f32 scores in registers, but got ")
           << scores.getType();
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  int64_t rows = type.getRows(), cols = type.getCols();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(b, loc, i32, value);
  };
  auto less = [&](Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, y);
  };
  SmallVector<Value> initial;
  for (Value state : op.getStates()) {
    initial.push_back(get(state));
    if (!isa<VecType>(initial.back().getType()))
      return op.emitOpError("expected states of one value a row, but got ")
             << initial.back().getType();
  }
  size_t numStates = initial.size();
  // The column from which on each row's next key is looked for.
  VecType places = vec(rows, i32, Axis::Row);
  initial.push_back(
      createMap(b, loc, TypeRange(places), ValueRange{initial[threshold]},
                [&](ValueRange) { return SmallVector<Value>{constant(0)}; })
          .getResult(0));
  SmallVector<Type> carried(ValueRange(initial).getTypes()), found(carried);
  found.push_back(vec(rows, f32, Axis::Row));
  auto loop = scf::WhileOp::create(b, loc, found, initial);
  OpBuilder::InsertionGuard guard(b);

  // Each row's next key above its threshold: its column and score.
  Block *before = b.createBlock(&loop.getBefore(), {}, carried,
                                SmallVector<Location>(carried.size(), loc));
  SmallVector<Value> inputs = {scores, before->getArgument(threshold),
                               before->getArgument(numStates)};
  if (op.getLive())
    inputs.push_back(get(op.getLive()));
  auto candidates = createMap(
      b, loc, TypeRange{frag(rows, cols, i32)}, inputs, [&](ValueRange x) {
        // A score that is no number passes.
        Value passes = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UGT,
                                             x[2], x[3]);
        Value later = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge,
                                            x[1], x[4]);
        passes = arith::AndIOp::create(b, loc, passes, later);
        if (x.size() > 5)
          passes = arith::AndIOp::create(b, loc, passes, x[5]);
        return SmallVector<Value>{
            arith::SelectOp::create(b, loc, passes, x[1], constant(cols))};
      });
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f));
  auto next =
      ReduceOp::create(b, loc, TypeRange{places, found.back()},
                       ValueRange{candidates.getResult(0), scores},
                       ValueRange{constant(cols), zero}, /*ordered=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    Block *body = b.createBlock(&next.getBody(), {}, {i32, f32, i32, f32},
                                SmallVector<Location>(4, loc));
    ValueRange x = body->getArguments();
    Value first = less(x[0], x[2]);
    Value score = arith::SelectOp::create(b, loc, first, x[1], x[3]);
    Value column = arith::SelectOp::create(b, loc, first, x[0], x[2]);
    YieldOp::create(b, loc, ValueRange{column, score});
  }
  auto exists =
      createMap(b, loc, TypeRange{vec(rows, b.getI1Type(), Axis::Row)},
                ValueRange{next.getResult(0)}, [&](ValueRange x) {
                  return SmallVector<Value>{less(x[2], constant(cols))};
                });
  // Warps need not wait for each other.
  Value some = AnyOp::create(b, loc, b.getI1Type(), exists.getResult(0),
                             /*by_rows=*/true);
  SmallVector<Value> passed(before->getArguments().take_front(numStates));
  llvm::append_range(passed, next.getResults());
  scf::ConditionOp::create(b, loc, some, passed);

  Block *after = b.createBlock(&loop.getAfter(), {}, found,
                               SmallVector<Location>(found.size(), loc));
  Block &body = op.getBody().front();
  auto turn =
      createMap(b, loc, carried, after->getArguments(), [&](ValueRange x) {
        IRMapping mapping;
        Value column = x[2 + numStates];
        mapping.map(body.getArgument(0), x[0]);
        mapping.map(body.getArgument(1), column);
        mapping.map(body.getArgument(2), x[3 + numStates]);
        mapping.map(body.getArguments().drop_front(3), x.slice(2, numStates));
        for (Operation &inside : body.without_terminator())
          b.clone(inside, mapping);
        Value has = less(column, constant(cols));
        SmallVector<Value> results;
        for (auto [yielded, old] : llvm::zip(
                 body.getTerminator()->getOperands(), x.slice(2, numStates)))
          results.push_back(arith::SelectOp::create(
              b, loc, has, mapping.lookupOrDefault(yielded), old));
        results.push_back(arith::AddIOp::create(b, loc, column, constant(1)));
        return results;
      });
  scf::YieldOp::create(b, loc, turn.getResults());
  for (auto [result, lowered] : llvm::zip(op.getResults(), loop.getResults()))
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
