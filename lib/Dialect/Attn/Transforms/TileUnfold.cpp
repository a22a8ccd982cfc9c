//===- TileUnfold.cpp - Kernels that go key by key, and back --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileUnfold.h"
#include "PlanBuilder.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

static int64_t channelsOf(Value value) {
  return cast<ShapedType>(value.getType()).getShape().back();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

SmallVector<MemRefType>
UnfoldKernel::getHistoryTypes(UnfoldOp op, const ::attn::TargetInfo &target) {
  SmallVector<MemRefType> types;
  for (Value state : op.getStates()) {
    SmallVector<int64_t> shape = {ShapedType::kDynamic, ShapedType::kDynamic,
                                  blockRows};
    if (hasChannels(state))
      shape.push_back(::attn::paddedChannels(channelsOf(state), target));
    types.push_back(MemRefType::get(shape, Float32Type::get(op.getContext())));
  }
  return types;
}

tile::TileType UnfoldKernel::typeOf(Value memory) {
  return tileType(blockRows,
                  hasChannels(memory)
                      ? ::attn::paddedChannels(channelsOf(memory), target)
                      : 1);
}

SmallVector<Value> UnfoldKernel::loadRows(ValueRange operands) {
  return llvm::map_to_vector(operands, [&](Value operand) -> Value {
    bool channels = hasChannels(operand);
    SmallVector<Value> at = {batch, head, row0};
    if (channels)
      at.push_back(index(0));
    return tile::LoadOp::create(b, loc, typeOf(operand), arg(operand), at, row0,
                                sq, /*live=*/Value(),
                                /*vector=*/!channels);
  });
}

void UnfoldKernel::storeRows(ValueRange tiles, ValueRange memrefs) {
  for (auto [tile, memory] : llvm::zip_equal(tiles, memrefs)) {
    if (!memory)
      continue;
    bool channels = hasChannels(memory);
    SmallVector<Value> at = {batch, head, row0};
    if (channels)
      at.push_back(index(0));
    tile::StoreOp::create(b, loc, tile, memory, at, row0, sq,
                          /*vector=*/!channels);
  }
}

/// What a tensor [b, hq, sq, n] has for a key.
Value UnfoldKernel::columnOf(Value memref, Value key) {
  auto type = cast<MemRefType>(memref.getType());
  SmallVector<OpFoldResult> offsets(3, b.getIndexAttr(0)),
      strides(4, b.getIndexAttr(1)), sizes;
  for (int64_t d = 0; d < 3; ++d)
    sizes.push_back(type.isDynamicDim(d)
                        ? OpFoldResult(dim(memref, d))
                        : OpFoldResult(b.getIndexAttr(type.getDimSize(d))));
  offsets.push_back(key);
  sizes.push_back(b.getIndexAttr(1));
  auto column = cast<MemRefType>(memref::SubViewOp::inferRankReducedResultType(
      type.getShape().drop_back(), type, offsets, sizes, strides));
  return memref::SubViewOp::create(b, loc, column, memref, offsets, sizes,
                                   strides);
}

/// The scores of some rows and the values of a key, and its position.
SmallVector<Value> UnfoldKernel::loadKey(Value key) {
  SmallVector<Value> inputs;
  for (Value scores : unfold.getScores())
    inputs.push_back(tile::LoadOp::create(
        b, loc, tileType(blockRows, 1), columnOf(arg(scores), key),
        ValueRange{batch, head, row0}, row0, sq, /*live=*/Value(),
        /*vector=*/true));
  for (Value values : unfold.getValues())
    inputs.push_back(tile::LoadOp::create(
        b, loc, tileType(1, paddedChannels), arg(values),
        ValueRange{batch, item, key, index(0)}, Value(), Value(),
        /*live=*/Value(), /*vector=*/false));
  inputs.push_back(keyOf(key));
  return inputs;
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

SmallVector<Value> UnfoldKernel::apply(Region &region, ArrayRef<Value> inputs,
                                       unsigned numScores, int64_t channels,
                                       ArrayRef<unsigned> yields,
                                       ArrayRef<Value> otherwise) {
  if (yields.empty())
    return {};
  auto isTile = [](Value value) {
    return value && isa<tile::TileType>(value.getType());
  };
  SmallVector<Value> tiles;
  for (Value input : inputs)
    if (isTile(input))
      tiles.push_back(input);
  for (Value tile : otherwise)
    if (tile)
      tiles.push_back(tile);
  SmallVector<Type> types(yields.size(),
                          tileType(blockRows, channels ? channels : 1));
  Value rows = toI32(liveRows), zero = f32(0);
  Value dead = f32(-std::numeric_limits<float>::infinity());
  return map(tiles, types, [&](Value row, Value col, ValueRange elements) {
    RegionCloner cloner(b);
    ValueRange arguments = region.getArguments();
    unsigned next = 0;
    Value live;
    for (auto [i, input] : llvm::enumerate(inputs)) {
      if (isTile(input)) {
        cloner.map(arguments[i], elements[next]);
        if (i < numScores) {
          Value some = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE,
                                             elements[next], dead);
          live = live ? arith::OrIOp::create(b, loc, live, some).getResult()
                      : some;
        }
        ++next;
      } else if (input) {
        cloner.map(arguments[i], input);
      }
    }
    for (auto [argument, param] :
         llvm::zip(arguments.take_back(unfold.getParams().size()),
                   unfold.getParams()))
      cloner.map(argument, arg(param));
    auto require = [&](Value condition) {
      live = live ? arith::AndIOp::create(b, loc, live, condition).getResult()
                  : condition;
    };
    require(cmp(arith::CmpIPredicate::slt, row, rows));
    if (channels && numChannels != paddedChannels)
      require(cmp(arith::CmpIPredicate::slt, col, i32(numChannels)));
    SmallVector<Value> results;
    for (auto [yield, other] : llvm::zip_equal(yields, otherwise)) {
      Value value = cloner.get(getYielded(region)[yield]);
      results.push_back(select(live, value, other ? elements[next++] : zero));
    }
    return results;
  });
}

static SmallVector<unsigned> range(unsigned begin, unsigned end) {
  return llvm::to_vector(llvm::seq(begin, end));
}

SmallVector<Value> UnfoldKernel::begin() {
  SmallVector<Value> params;
  for (Value param : unfold.getParams())
    params.push_back(arg(param));
  SmallVector<Value> state;
  for (auto [number, operand] : llvm::zip_equal(
           inlineRegion(b, unfold.getIdentity(), params), unfold.getStates()))
    state.push_back(fill(number, typeOf(operand)));
  return state;
}

SmallVector<Value> UnfoldKernel::step(Value key, ValueRange state) {
  SmallVector<Value> inputs = loadKey(key);
  SmallVector<Value> ofRows(inputs);
  for (unsigned i = 0; i < numValues; ++i)
    ofRows[numScores + i] = Value();
  llvm::append_range(inputs, state);
  llvm::append_range(ofRows, state.take_front(numRows));
  SmallVector<Value> old(state);
  // What rows have does not depend on values.
  SmallVector<Value> next =
      apply(unfold.getStep(), ofRows, numScores, 0, range(0, numRows),
            ArrayRef(old).take_front(numRows));
  next.append(apply(unfold.getStep(), inputs, numScores, paddedChannels,
                    range(numRows, numStates),
                    ArrayRef(old).drop_front(numRows)));
  return next;
}

SmallVector<Value> UnfoldKernel::addChannels(ValueRange ofRows,
                                             ValueRange ofChannels) {
  SmallVector<Value> sums;
  for (auto [row, channels] : llvm::zip_equal(ofRows, ofChannels))
    sums.push_back(map({row, rowSum(channels)}, {row.getType()},
                       [&](Value, Value, ValueRange x) -> SmallVector<Value> {
                         return {arith::AddFOp::create(b, loc, x[0], x[1])};
                       })
                       .front());
  return sums;
}

SmallVector<Value> UnfoldKernel::finish(ValueRange state) {
  SmallVector<Value> outs = loadRows(unfold.getOuts());
  unsigned rowOuts = unfold.getNumRowOuts();
  SmallVector<Value> none(numStates);
  SmallVector<Value> inputs(state.take_front(numRows));
  llvm::append_range(inputs, ArrayRef(outs).take_front(rowOuts));
  SmallVector<Value> behind =
      apply(unfold.getFinishRows(), inputs, 0, 0, range(0, numRows),
            ArrayRef(none).take_front(numRows));
  inputs.assign(state.begin(), state.end());
  llvm::append_range(inputs, ArrayRef(outs).drop_front(rowOuts));
  if (numRows == numStates)
    return behind;
  SmallVector<Value> ofChannels =
      apply(unfold.getFinishChannels(), inputs, 0, paddedChannels,
            range(0, numStates), none);
  behind = addChannels(behind, ArrayRef(ofChannels).take_front(numRows));
  behind.append(ofChannels.begin() + numRows, ofChannels.end());
  return behind;
}

/// The cotangents of the state ahead of a key; stores those of its scores, and
/// adds up those of its values.
SmallVector<Value> UnfoldKernel::back(Value key, ValueRange state,
                                      ValueRange behind, ValueRange outputs) {
  SmallVector<Value> inputs = loadKey(key), none(numScores + numValues);
  SmallVector<Value> ofRows(ArrayRef(inputs).take_front(numScores));
  ofRows.push_back(inputs.back());
  llvm::append_range(ofRows, state.take_front(numRows));
  llvm::append_range(ofRows, behind.take_front(numRows));
  SmallVector<Value> passed(ArrayRef(none).take_front(numScores));
  llvm::append_range(passed, behind.take_front(numRows));
  SmallVector<Value> result = apply(unfold.getBackRows(), ofRows, numScores, 0,
                                    range(0, numScores + numRows), passed);
  SmallVector<Value> ofChannels;
  if (numRows != numStates) {
    llvm::append_range(inputs, state);
    llvm::append_range(inputs, behind.drop_front(numRows));
    passed = none;
    passed.resize(numScores + numValues + numRows);
    llvm::append_range(passed, behind.drop_front(numRows));
    ofChannels = apply(unfold.getBackChannels(), inputs, numScores,
                       paddedChannels, range(0, passed.size()), passed);
    SmallVector<Value> parts(ArrayRef(ofChannels).take_front(numScores));
    parts.append(ofChannels.begin() + numScores + numValues,
                 ofChannels.begin() + numScores + numValues + numRows);
    result = addChannels(result, parts);
  }
  for (unsigned i = 0; i < numScores; ++i)
    if (outputs[i])
      tile::StoreOp::create(b, loc, result[i], columnOf(outputs[i], key),
                            ValueRange{batch, head, row0}, row0, sq,
                            /*vector=*/true);
  for (unsigned i = 0; i < numValues && !ofChannels.empty(); ++i) {
    Value output = outputs[numScores + i];
    if (!output)
      continue;
    Value sum = reduce(
                    ofChannels[numScores + i], f32(0), /*ordered=*/true,
                    [&](ValueRange x, ValueRange y) -> SmallVector<Value> {
                      return {arith::AddFOp::create(b, loc, x[0], y[0])};
                    },
                    /*overRows=*/true)
                    .front();
    tile::AccumulateOp::create(b, loc, sum, output,
                               ValueRange{batch, item, key, index(0)}, Value(),
                               Value(), /*turn=*/Value(), /*counters=*/Value(),
                               /*counter=*/ValueRange(), /*vector=*/false,
                               /*any_order=*/false);
  }
  SmallVector<Value> ahead(ArrayRef(result).drop_front(numScores));
  if (!ofChannels.empty())
    ahead.append(ofChannels.begin() + numScores + numValues + numRows,
                 ofChannels.end());
  return ahead;
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

SmallVector<Value> UnfoldKernel::ifElse(Value condition,
                                        function_ref<SmallVector<Value>()> yes,
                                        function_ref<SmallVector<Value>()> no) {
  SmallVector<Type> types;
  for (Value state : unfold.getStates())
    types.push_back(typeOf(state));
  auto branch = scf::IfOp::create(b, loc, types, condition,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, loc, yes());
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, loc, no());
  return branch.getResults();
}

SmallVector<Value> UnfoldKernel::overKeys(
    ValueRange inits,
    function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, loc, index(0), numKeys, index(1), inits);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> next =
      body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!inits.empty())
    scf::YieldOp::create(b, loc, next);
  return loop.getResults();
}

/// The rows from `row0` on, there and back.
void UnfoldKernel::takeRows(ValueRange outputs, ValueRange history) {
  Value isFirst = cmp(arith::CmpIPredicate::eq, arg(unfold.getFirst()), i32(0));
  SmallVector<Value> state = ifElse(
      isFirst, [&]() { return begin(); },
      [&]() { return loadRows(unfold.getStates()); });
  Value place = add(mul(batch, numItems), item);
  auto at = [&](Value memory, Value key) {
    SmallVector<Value> indices = {place, key, index(0)};
    if (hasChannels(memory))
      indices.push_back(index(0));
    return indices;
  };
  state = overKeys(state, [&](Value key, ValueRange state) {
    for (auto [memory, tile] : llvm::zip(history, state))
      tile::StoreOp::create(b, loc, tile, memory, at(memory, key), Value(),
                            Value(), /*vector=*/!hasChannels(memory));
    return step(key, state);
  });
  if (!unfold.goesBack())
    return storeRows(state, outputs);
  Value end = add(arg(unfold.getFirst()), toI32(numKeys));
  Value isLast = cmp(arith::CmpIPredicate::eq, end, arg(unfold.getKeys()));
  SmallVector<Value> behind = ifElse(
      isLast, [&]() { return finish(state); },
      [&]() { return loadRows(unfold.getBehind()); });
  behind = overKeys(behind, [&](Value turn, ValueRange behind) {
    Value key = sub(sub(numKeys, index(1)), turn);
    SmallVector<Value> state;
    for (auto [memory, operand] : llvm::zip(history, unfold.getStates()))
      state.push_back(tile::LoadOp::create(
          b, loc, typeOf(operand), memory, at(memory, key), Value(), Value(),
          /*live=*/Value(), /*vector=*/!hasChannels(memory)));
    return back(key, state, behind, outputs);
  });
  storeRows(behind, outputs.take_back(numStates));
}

void UnfoldKernel::build(ValueRange outputs, ValueRange history, Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  Value scores = arg(unfold.getScores().front());
  Value states = arg(unfold.getStates().front());
  for (Value state : unfold.getStates())
    if (hasChannels(state)) {
      numChannels = channelsOf(state);
      paddedChannels = ::attn::paddedChannels(numChannels, target);
    }
  sq = dim(states, 2);
  Value heads = dim(states, 1);
  numItems = numValues ? dim(arg(unfold.getValues().front()), 1) : heads;
  numKeys =
      numValues ? dim(arg(unfold.getValues().front()), 2) : dim(scores, 3);
  auto work = tile::WorkTileOp::create(b, loc, block, dim(states, 0), numItems,
                                       index(1), /*parts=*/index(1));
  batch = work.getBatch();
  item = work.getHead();
  if (unfold.goesBack())
    for (Value output : outputs.slice(numScores, numValues))
      if (output)
        overKeys({}, [&](Value key, ValueRange) -> SmallVector<Value> {
          tile::StoreOp::create(
              b, loc, fill(f32(0), tileType(1, paddedChannels)), output,
              ValueRange{batch, item, key, index(0)}, Value(), Value(),
              /*vector=*/false);
          return {};
        });
  Value group = divide(heads, max(numItems, index(1))).first;
  auto overHeads = scf::ForOp::create(b, loc, index(0), group, index(1));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(overHeads.getBody());
    head = add(mul(item, group), overHeads.getInductionVar());
    auto overRows = scf::ForOp::create(b, loc, index(0), sq, index(blockRows));
    b.setInsertionPointToStart(overRows.getBody());
    row0 = overRows.getInductionVar();
    liveRows = min(index(blockRows), sub(sq, row0));
    takeRows(outputs, history);
  }
  tile::ReturnOp::create(b, loc);
}

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

LogicalResult PlanBuilder::convertUnfold(UnfoldOp op) {
  Location loc = op.getLoc();
  if (!target.isCpu())
    return op.emitOpError("expected a CPU target, for keys one after the "
                          "other, but got ")
           << target.name
           << "; gradients of general monoids are computed on CPUs";
  auto dim = [&](Value tensor, int64_t d) -> Value {
    return memref::DimOp::create(b, loc, mapping.lookup(tensor), d);
  };
  Value states = op.getStates().front(), scores = op.getScores().front();
  Value values = op.getValues().empty() ? Value() : op.getValues().front();
  Value batches = dim(states, 0), rows = dim(states, 2);
  Value heads = values ? dim(values, 1) : dim(states, 1);
  Value keys = values ? dim(values, 2) : dim(scores, 3);
  SmallVector<Value> outputs;
  unsigned numScores = op.goesBack() ? op.getScores().size() : 0;
  unsigned numValues = op.goesBack() ? op.getValues().size() : 0;
  for (OpResult result : op->getResults()) {
    unsigned number = result.getResultNumber();
    bool ofKeys = number >= numScores && number < numScores + numValues;
    outputs.push_back(makeOutput(
        result,
        [&]() -> SmallVector<Value> {
          return {batches, ofKeys ? heads : dim(states, 1),
                  ofKeys ? keys : rows, keys};
        },
        /*storeAll=*/false));
  }
  Value grid = arith::MulIOp::create(b, loc, batches, heads);
  SmallVector<Value> history;
  if (op.goesBack())
    for (MemRefType type : UnfoldKernel::getHistoryTypes(op, target))
      history.push_back(
          tile::WorkspaceOp::create(b, loc, type, ValueRange{grid, keys}));
  Kernel kernel = startKernel(op, op->getOperands(), outputs, history, {});
  UnfoldKernel builder(op, target, kernel.func);
  for (auto [i, operand] : llvm::enumerate(kernel.operands))
    builder.bind(operand, kernel.func.getArgument(i));
  builder.build(kernel.outputs, kernel.extra, kernel.block);
  tile::LaunchOp::create(b, loc, kernel.func.getName(), grid,
                         kernel.launchArguments);
  return success();
}
