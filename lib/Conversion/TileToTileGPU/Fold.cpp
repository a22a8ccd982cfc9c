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
// With a threshold, scores stay in registers, too. Columns are looked at a few
// at a time. Keys above their row's threshold are put aside, each into the slot
// that its thread has for the column, until one's slot is taken, or the tile
// ends. Then each row folds its next one, in turns: as many as the row with the
// most such keys has are enough for all rows of a warp. Late keys come alone,
// so that a turn for each of them would do most of its work for nothing.
//
// Of warpgroups, a row of whose tile has at most as many keys as its four
// threads have bits in a word each, rows are folded by one lane each, with
// scores, bits and states in shared memory (tile_gpu.fold_above).
//
// Elements are compared before they are multiplied by the score's factor, with
// a number of each row that is known to let in what the threshold does.
//
//===----------------------------------------------------------------------===//

#include "ComputeLowering.h"
#include "attn/Analysis/OnChip.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include <limits>

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
/// Keys that wait to be folded, one at most in the slot of a row and a column
/// of a part: its column in the tile, that behind the last for none, and its
/// score.
struct Slots {
  Value columns, scores;
};

/// Builds a fold with a threshold of scores in registers.
struct ThresholdFold {
  OpBuilder &b;
  Location loc;
  tile::FoldOp op;
  unsigned threshold;
  Value scores, live;
  /// One value a row: a column, a score.
  VecType places, numbers;
  /// Columns that are looked at together, and those of all.
  int64_t width = ::attn::onchip::slotColumns, numColumns = 0;
  /// The positive number that makes scores of what is in `scores`.
  float factor = 1;

  Value number(int64_t value) {
    return arith::ConstantIntOp::create(b, loc, b.getI32Type(), value);
  }
  Value constant(float value) {
    return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value));
  }
  Value less(Value x, Value y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, y);
  }
  /// A fragment of the columns that are looked at.
  FragType like(Type element) {
    auto type = cast<FragType>(scores.getType());
    return FragType::get(b.getContext(), type.getRows(), width, element,
                         type.getLayout(), type.getScope());
  }
  void findFactor();
  void maskScores();
  Value below(Value number);
  Value floorOf(Value least);
  Value partAt(int64_t first);
  Value reduce(Value frag, VecType type, int64_t identity,
               function_ref<Value(Value, Value)> combine);
  Value findNext(Value columns);
  Value scoreAt(const Slots &slots, Value column);
  Value anyPasses(Value part, Value floor, Value columns = {});
  Value someTaken(const Slots &slots);
  SmallVector<Value> foldNext(ValueRange states, Value column, Value score);
  SmallVector<Value> drain(ValueRange states, Slots slots);
  SmallVector<Value> choose(Value condition, ValueRange otherwise,
                            function_ref<SmallVector<Value>()> then);
  SmallVector<Value> takePart(Value part, int64_t first, ArrayRef<Value> states,
                              Value &floor, Slots &slots);
  SmallVector<Value> build(ArrayRef<Value> initial);
  unsigned countChanged();
  bool isByLanes(ArrayRef<Value> states);
  SmallVector<Value> buildByLanes(ArrayRef<Value> states,
                                  function_ref<Value(int64_t)> scratch);
};
} // namespace

/// Where scores are a number times something, takes what they are made of.
void ThresholdFold::findFactor() {
  auto map = scores.getDefiningOp<MapOp>();
  if (!map)
    return;
  Block &body = map.getBody().front();
  unsigned number = cast<OpResult>(scores).getResultNumber();
  auto product =
      body.getTerminator()->getOperand(number).getDefiningOp<arith::MulFOp>();
  if (!product)
    return;
  auto element = dyn_cast<BlockArgument>(product.getLhs());
  FloatAttr constant;
  constexpr unsigned positions = 2;
  if (!element || element.getOwner() != &body ||
      element.getArgNumber() < positions ||
      !matchPattern(product.getRhs(), m_Constant(&constant)))
    return;
  Value from = map.getInputs()[element.getArgNumber() - positions];
  // Its reciprocal is a normal number, too.
  constexpr float least = 0x1p-60f, most = 0x1p60f;
  float value = constant.getValue().convertToFloat();
  if (from.getType() != scores.getType() || !(value >= least && value <= most))
    return;
  scores = from;
  factor = value;
  // Those that are -inf pass no threshold, without being asked.
  if (!live || live.getDefiningOp() != map)
    return;
  number = cast<OpResult>(live).getResultNumber();
  auto isLive =
      body.getTerminator()->getOperand(number).getDefiningOp<arith::CmpFOp>();
  APFloat dead(0.0f);
  if (isLive && isLive.getPredicate() == arith::CmpFPredicate::UNE &&
      isLive.getLhs() == product &&
      matchPattern(isLive.getRhs(), m_ConstantFloat(&dead)) &&
      dead.isNegInfinity())
    live = Value();
}

/// A dead key has the score -inf, which passes no threshold.
void ThresholdFold::maskScores() {
  if (!live)
    return;
  auto map = createMap(
      b, loc, TypeRange(scores.getType()), {scores, live}, [&](ValueRange x) {
        Value none = constant(-std::numeric_limits<float>::infinity());
        return SmallVector<Value>{
            arith::SelectOp::create(b, loc, x[3], x[2], none)};
      });
  scores = map.getResult(0);
}

/// A number that is known to be below `number` over the factor, if there is a
/// factor.
Value ThresholdFold::below(Value number) {
  if (factor == 1)
    return number;
  constexpr float part = 0x1p-21f;
  Value quotient = arith::MulFOp::create(b, loc, number, constant(1 / factor));
  Value isPositive = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT,
                                           quotient, constant(0));
  Value near = arith::SelectOp::create(b, loc, isPositive, constant(1 - part),
                                       constant(1 + part));
  Value less = arith::SubFOp::create(
      b, loc, arith::MulFOp::create(b, loc, quotient, near),
      constant(std::numeric_limits<float>::min()));
  // Of an infinite quotient nothing finite is above the threshold.
  return arith::MinNumFOp::create(b, loc, less,
                                  constant(std::numeric_limits<float>::max()));
}

/// What elements have to be above for a threshold; -inf where it is no number
/// or the lowest one, since every key passes these.
Value ThresholdFold::floorOf(Value least) {
  return createMap(
             b, loc, TypeRange(least.getType()), least,
             [&](ValueRange x) {
               Value none = constant(-std::numeric_limits<float>::infinity());
               Value lowest = constant(std::numeric_limits<float>::lowest());
               Value isOne = arith::CmpFOp::create(
                   b, loc, arith::CmpFPredicate::OGT, x[2], lowest);
               return SmallVector<Value>{
                   arith::SelectOp::create(b, loc, isOne, below(x[2]), none)};
             })
      .getResult(0);
}

/// Whether a score passes: also one that is no number.
static Value passes(OpBuilder &b, Location loc, Value score, Value least) {
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UGT, score, least);
}

Value ThresholdFold::reduce(Value frag, VecType type, int64_t identity,
                            function_ref<Value(Value, Value)> combine) {
  auto reduce =
      ReduceOp::create(b, loc, TypeRange(type), frag,
                       ValueRange{number(identity)}, /*ordered=*/false);
  OpBuilder::InsertionGuard guard(b);
  Type i32 = b.getI32Type();
  Block *body = b.createBlock(&reduce.getBody(), {}, {i32, i32}, {loc, loc});
  YieldOp::create(b, loc, combine(body->getArgument(0), body->getArgument(1)));
  return reduce.getResult(0);
}

/// The least column of each row's slots; behind the last where all are empty.
Value ThresholdFold::findNext(Value columns) {
  return reduce(columns, places, numColumns, [&](Value x, Value y) {
    return Value(arith::MinSIOp::create(b, loc, x, y));
  });
}

/// Each row's score in the slot of a column. It is put together from bits: of a
/// chain of selections among scores that a loop does not change, ptxas 12.8 to
/// 13.0 overwrites the scores (docs/performance/gpu-masks.md, "Selections").
Value ThresholdFold::scoreAt(const Slots &slots, Value column) {
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  auto bits =
      createMap(b, loc, TypeRange(like(i32)),
                {slots.scores, slots.columns, column}, [&](ValueRange x) {
                  Value here = arith::CmpIOp::create(
                      b, loc, arith::CmpIPredicate::eq, x[3], x[4]);
                  Value word = arith::BitcastOp::create(b, loc, i32, x[2]);
                  return SmallVector<Value>{
                      arith::SelectOp::create(b, loc, here, word, number(0))};
                });
  Value word = reduce(bits.getResult(0), places, 0, [&](Value x, Value y) {
    return Value(arith::OrIOp::create(b, loc, x, y));
  });
  return createMap(b, loc, TypeRange(numbers), word,
                   [&](ValueRange x) {
                     return SmallVector<Value>{
                         arith::BitcastOp::create(b, loc, f32, x[2])};
                   })
      .getResult(0);
}

/// The states of each row after the key of a column, if it has one.
SmallVector<Value> ThresholdFold::foldNext(ValueRange states, Value column,
                                           Value score) {
  SmallVector<Value> inputs(states);
  inputs.append({column, score});
  SmallVector<Type> results(states.getTypes());
  Block &body = op.getBody().front();
  auto map = createMap(b, loc, results, inputs, [&](ValueRange x) {
    ValueRange old = x.slice(2, states.size());
    Value at = x[2 + states.size()], value = x.back();
    if (factor != 1)
      value = arith::MulFOp::create(b, loc, value, constant(factor));
    IRMapping mapping;
    mapping.map(body.getArgument(0), x[0]);
    mapping.map(body.getArgument(1), at);
    mapping.map(body.getArgument(2), value);
    mapping.map(body.getArguments().drop_front(3), old);
    for (Operation &inside : body.without_terminator())
      b.clone(inside, mapping);
    Value exists = less(at, number(numColumns));
    SmallVector<Value> next;
    for (auto [yielded, before] :
         llvm::zip(body.getTerminator()->getOperands(), old))
      next.push_back(arith::SelectOp::create(
          b, loc, exists, mapping.lookupOrDefault(yielded), before));
    return next;
  });
  return SmallVector<Value>(map.getResults());
}

/// Whether some row of this warp has a key above its floor in `part`; with
/// slots, one whose slot is taken.
Value ThresholdFold::anyPasses(Value part, Value floor, Value columns) {
  SmallVector<Value> inputs = {part, floor};
  if (columns)
    inputs.push_back(columns);
  auto some = createMap(b, loc, TypeRange(like(b.getI1Type())), inputs,
                        [&](ValueRange x) {
                          Value next = passes(b, loc, x[2], x[3]);
                          if (columns)
                            next = arith::AndIOp::create(
                                b, loc, less(x[4], number(numColumns)), next);
                          return SmallVector<Value>{next};
                        });
  // Warps need not wait for each other.
  return AnyOp::create(b, loc, b.getI1Type(), some.getResult(0),
                       /*by_rows=*/true);
}

/// Whether some row of this warp has a key in a slot.
Value ThresholdFold::someTaken(const Slots &slots) {
  auto taken = createMap(
      b, loc, TypeRange(like(b.getI1Type())), slots.columns, [&](ValueRange x) {
        return SmallVector<Value>{less(x[2], number(numColumns))};
      });
  return AnyOp::create(b, loc, b.getI1Type(), taken.getResult(0),
                       /*by_rows=*/true);
}

/// Folds the keys in the slots, of which some row has one: each row its next
/// one at a time.
SmallVector<Value> ThresholdFold::drain(ValueRange states, Slots slots) {
  SmallVector<Value> inits(states);
  inits.append({slots.columns, findNext(slots.columns)});
  SmallVector<Type> carried(ValueRange(inits).getTypes());
  SmallVector<Location> locations(carried.size(), loc);
  auto loop = scf::WhileOp::create(b, loc, carried, inits);
  OpBuilder::InsertionGuard guard(b);
  Block *turn = b.createBlock(&loop.getBefore(), {}, carried, locations);
  ValueRange arguments = turn->getArguments();
  Value column = arguments.back();
  slots.columns = arguments.drop_back().back();
  SmallVector<Value> next =
      foldNext(arguments.drop_back(2), column, scoreAt(slots, column));
  auto rest = createMap(b, loc, TypeRange(slots.columns.getType()),
                        {slots.columns, column}, [&](ValueRange x) {
                          Value here = arith::CmpIOp::create(
                              b, loc, arith::CmpIPredicate::eq, x[2], x[3]);
                          return SmallVector<Value>{arith::SelectOp::create(
                              b, loc, here, number(numColumns), x[2])};
                        });
  next.push_back(rest.getResult(0));
  next.push_back(findNext(next.back()));
  auto left = createMap(
      b, loc,
      TypeRange(VecType::get(b.getContext(), places.getSize(), b.getI1Type(),
                             places.getAxis(), places.getScope(),
                             /*partial=*/false)),
      next.back(), [&](ValueRange x) {
        return SmallVector<Value>{less(x[2], number(numColumns))};
      });
  Value again = AnyOp::create(b, loc, b.getI1Type(), left.getResult(0),
                              /*by_rows=*/true);
  scf::ConditionOp::create(b, loc, again, next);
  Block *after = b.createBlock(&loop.getAfter(), {}, carried, locations);
  scf::YieldOp::create(b, loc, after->getArguments());
  return SmallVector<Value>(loop.getResults().drop_back());
}

SmallVector<Value>
ThresholdFold::choose(Value condition, ValueRange otherwise,
                      function_ref<SmallVector<Value>()> then) {
  auto branch = scf::IfOp::create(b, loc, otherwise.getTypes(), condition,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, loc, otherwise);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, loc, then());
  return SmallVector<Value>(branch.getResults());
}

/// Puts the keys of a part of the columns, from `first` on, into slots. In most
/// parts no key passes, and in most others all slots that are wanted are empty.
SmallVector<Value> ThresholdFold::takePart(Value part, int64_t first,
                                           ArrayRef<Value> states, Value &floor,
                                           Slots &slots) {
  SmallVector<Value> given(states);
  given.append({floor, slots.columns, slots.scores});
  SmallVector<Value> taken = choose(anyPasses(part, floor), given, [&] {
    ArrayRef<Value> kept = ArrayRef(given).drop_back();
    SmallVector<Value> next =
        choose(anyPasses(part, floor, slots.columns), kept, [&] {
          SmallVector<Value> folded = drain(states, slots);
          folded.insert(folded.end() - 1, floorOf(folded[threshold]));
          return folded;
        });
    auto put =
        createMap(b, loc, {slots.columns.getType(), slots.scores.getType()},
                  {part, next[states.size()], next.back(), slots.scores},
                  [&](ValueRange x) {
                    Value passed = passes(b, loc, x[2], x[3]);
                    Value column =
                        arith::AddIOp::create(b, loc, x[1], number(first));
                    return SmallVector<Value>{
                        arith::SelectOp::create(b, loc, passed, column, x[4]),
                        arith::SelectOp::create(b, loc, passed, x[2], x[5])};
                  });
    next.pop_back();
    llvm::append_range(next, put.getResults());
    return next;
  });
  slots.scores = taken.pop_back_val();
  slots.columns = taken.pop_back_val();
  floor = taken.pop_back_val();
  return taken;
}

/// The columns from `first` on that are looked at together.
Value ThresholdFold::partAt(int64_t first) {
  if (width == numColumns)
    return scores;
  return FragColsOp::create(b, loc, like(b.getF32Type()), scores, first);
}

SmallVector<Value> ThresholdFold::build(ArrayRef<Value> initial) {
  auto type = cast<FragType>(scores.getType());
  numColumns = type.getCols();
  if (numColumns % width)
    width = numColumns;
  findFactor();
  maskScores();
  SmallVector<Value> states(initial);
  Value floor = floorOf(states[threshold]);
  // All slots are empty at first.
  Value part = partAt(0);
  Value columns =
      createMap(
          b, loc, TypeRange(like(b.getI32Type())), {part, floor},
          [&](ValueRange x) {
            return SmallVector<Value>{arith::SelectOp::create(
                b, loc, passes(b, loc, x[2], x[3]), x[1], number(numColumns))};
          })
          .getResult(0);
  Slots slots = {columns, part};
  for (int64_t first = width; first < numColumns; first += width)
    states = takePart(partAt(first), first, states, floor, slots);
  return choose(someTaken(slots), states, [&] {
    return SmallVector<Value>(ArrayRef(drain(states, slots)).drop_back());
  });
}

/// How many states the body changes.
unsigned ThresholdFold::countChanged() {
  Block &body = op.getBody().front();
  ValueRange old = body.getArguments().drop_front(3);
  return llvm::count_if(
      llvm::zip(body.getTerminator()->getOperands(), old),
      [](auto pair) { return std::get<0>(pair) != std::get<1>(pair); });
}

/// Whether each row can be folded by a lane.
bool ThresholdFold::isByLanes(ArrayRef<Value> states) {
  auto type = cast<FragType>(scores.getType());
  Block &body = op.getBody().front();
  return type.getScope() == Scope::Warpgroup &&
         type.getLayout() == Layout::Acc && !type.isHalf() &&
         type.getCols() <= ::attn::onchip::mostFolded &&
         body.getTerminator()->getOperand(threshold) !=
             body.getArgument(3 + threshold) &&
         llvm::all_of(states, [](Value state) {
           return cast<VecType>(state.getType())
                      .getElementType()
                      .getIntOrFloatBitWidth() == 32;
         });
}

SmallVector<Value>
ThresholdFold::buildByLanes(ArrayRef<Value> states,
                            function_ref<Value(int64_t)> scratch) {
  findFactor();
  maskScores();
  auto type = cast<FragType>(scores.getType());
  Value tile =
      scratch(::attn::onchip::foldColumns(type.getCols(), countChanged()));
  auto fold = FoldAboveOp::create(
      b, loc, TypeRange(ValueRange(states).getTypes()), scores, tile, states,
      b.getI64IntegerAttr(threshold), b.getF32FloatAttr(factor));
  OpBuilder::InsertionGuard guard(b);
  Block &body = op.getBody().front();
  SmallVector<Type> types(body.getArgumentTypes());
  Block *block = b.createBlock(&fold.getBody(), {}, types,
                               SmallVector<Location>(types.size(), loc));
  IRMapping mapping;
  mapping.map(body.getArguments(), block->getArguments());
  for (Operation &inside : body.without_terminator())
    b.clone(inside, mapping);
  YieldOp::create(b, loc,
                  llvm::map_to_vector(body.getTerminator()->getOperands(),
                                      [&](Value value) {
                                        return mapping.lookupOrDefault(value);
                                      }));
  return SmallVector<Value>(fold.getResults());
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
                     each(b.getF32Type())};
  SmallVector<Value> folded;
  if (fold.isByLanes(initial))
    folded = fold.buildByLanes(initial, [&](int64_t columns) {
      return scratch(0,
                     tile::TileType::get(b.getContext(), type.getRows(),
                                         columns, b.getF32Type()),
                     op.getLoc());
    });
  else
    folded = fold.build(initial);
  for (auto [result, lowered] : llvm::zip(op.getResults(), folded))
    set(result, lowered);
  return success();
}

namespace {
/// The fold of one column, whose scores and values are read, into states.
struct ColumnFold {
  OpBuilder &b;
  tile::FoldOp op;
  Value column;
  SmallVector<Value> rowInputs; // a score a row for each tile, then liveness
  SmallVector<Value> values;    // one a channel for each tile of values
  ValueRange states;

  void build(bool channels, MutableArrayRef<Value> next);

private:
  SmallVector<Value> yields(ValueRange arguments, bool channels,
                            ArrayRef<unsigned> which, ArrayRef<unsigned> seen);
};
} // namespace

/// The body on the arguments of a map, from which states come that are `which`.
SmallVector<Value> ColumnFold::yields(ValueRange arguments, bool channels,
                                      ArrayRef<unsigned> which,
                                      ArrayRef<unsigned> seen) {
  Location loc = op.getLoc();
  Block &body = op.getBody().front();
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f));
  IRMapping mapping;
  mapping.map(body.getArgument(0), arguments[0]);
  mapping.map(body.getArgument(1), column);
  unsigned from = 2, to = 2;
  for (size_t i = 0; i < op.getScores().size(); ++i)
    mapping.map(body.getArgument(to++), arguments[from++]);
  Value alive;
  if (op.getLive())
    alive = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE,
                                  arguments[from++], zero);
  for (size_t i = 0; i < values.size(); ++i)
    mapping.map(body.getArgument(to++), channels ? arguments[from++] : zero);
  for (size_t i = 0; i < states.size(); ++i)
    mapping.map(body.getArgument(to + i),
                llvm::is_contained(seen, i) ? arguments[from++] : zero);
  for (Operation &inside : body.without_terminator())
    b.clone(inside, mapping);
  return llvm::map_to_vector(which, [&](unsigned i) -> Value {
    Value value = mapping.lookup(body.getTerminator()->getOperand(i));
    if (!alive)
      return value;
    return arith::SelectOp::create(b, loc, alive, value,
                                   mapping.lookup(body.getArgument(to + i)));
  });
}

/// States that have a value for each channel, or those that have one a row,
/// which see no channel.
void ColumnFold::build(bool channels, MutableArrayRef<Value> next) {
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
  MapOp map =
      createMap(b, op.getLoc(), results, inputs, [&](ValueRange arguments) {
        return yields(arguments, channels, which, seen);
      });
  for (auto [k, i] : llvm::enumerate(which))
    next[i] = map.getResult(k);
}

LogicalResult ComputeLowering::lowerFold(tile::FoldOp op) {
  if (std::optional<uint64_t> threshold = op.getThreshold())
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
  ColumnFold fold{b, op, column, {}, {}, loop.getRegionIterArgs()};
  auto loadRow = [&](Value tile) -> Value {
    return VecLoadOp::create(b, loc, vec(scoreType.getRows(), f32, Axis::Row),
                             tile, column, /*permuted=*/false);
  };
  for (Value tile : scoreTiles)
    fold.rowInputs.push_back(loadRow(tile));
  if (liveTile)
    fold.rowInputs.push_back(loadRow(liveTile));
  for (Value tile : valueTiles)
    fold.values.push_back(VecLoadOp::create(
        b, loc, vec(cast<SmemType>(tile.getType()).getCols(), f32, Axis::Col),
        tile, column, /*permuted=*/false));

  SmallVector<Value> next(fold.states.size());
  fold.build(/*channels=*/false, next);
  fold.build(/*channels=*/true, next);
  scf::YieldOp::create(b, loc, next);
  for (auto [result, lowered] : llvm::zip(op.getResults(), loop.getResults()))
    set(result, lowered);
  return success();
}
