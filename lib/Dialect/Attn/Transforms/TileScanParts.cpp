//===- TileScanParts.cpp - Parts of a scan, and products of them ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A part of the tokens is a map of the state, S -> A S + B. The kernel of
// attn.scan_partial has a block for each part of each state, which walks its
// chunks as that of attn.scan does: from an empty state, which leaves B, and
// where tokens erase once more from an identity, to which nothing is written,
// which leaves A. That of attn.scan_combine multiplies parts in order.
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"
#include "TileScan.h"
#include "attn/Analysis/Schedule.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;
using namespace mlir::attn;

static constexpr float minusInfinity = -std::numeric_limits<float>::infinity();

//===----------------------------------------------------------------------===//
// attn.scan_partial
//===----------------------------------------------------------------------===//

/// The rows of the block's part, of the tensor's rows: where the parts begin
/// does not depend on a batch's length.
void ScanKernel::cutPart(int64_t parts) {
  Value size = arith::CeilDivUIOp::create(b, loc, total, index(parts));
  begin = min(mul(segment, size), end);
  end = min(mul(add(segment, index(1)), size), end);
  queryEnd = end;
}

std::pair<ScanKernel::State, Value> ScanKernel::walkPart(const State &first,
                                                         bool keepsGates) {
  SmallVector<Value> carried = first.values();
  tile::TileType gateType;
  if (keepsGates && gates == Gates::head) {
    gateType = tileType(1, 1);
    carried.push_back(fill(f32(0.0f), gateType));
  } else if (keepsGates && gates != Gates::none) {
    gateType =
        gates == Gates::value ? tileType(1, valueCols) : tileType(keyCols, 1);
    carried.push_back(fill(f32(1.0f), gateType));
  }
  auto forOp =
      scf::ForOp::create(b, loc, begin, end, index(chunkSize), carried);
  auto named = [&](ValueRange values) {
    State state = first;
    unsigned next = 0;
    state.matrix = values[next++];
    if (state.sum)
      state.sum = values[next++];
    if (state.largest)
      state.largest = values[next++];
    return state;
  };
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(forOp.getBody());
    State here = named(forOp.getRegionIterArgs());
    Chunk chunk = makeChunk(forOp.getInductionVar());
    // A sum of logarithms; of channels the product of gates.
    Value logs = chunk.totalLog, column = chunk.totalColumn,
          row = chunk.totalRow;
    if (scanOp.getLogWeight())
      addLogWeights(chunk, here);
    addErased(chunk, here);
    SmallVector<Value> next = advance(chunk, here).values();
    if (gateType) {
      Value old = forOp.getRegionIterArgs().back();
      next.push_back(
          gates == Gates::head
              ? addTiles(old, logs, gateType)
              : multiply(old, gates == Gates::value ? row : column, gateType));
    }
    scf::YieldOp::create(b, loc, next);
  }
  return {named(forOp.getResults()),
          gateType ? forOp.getResults().back() : Value()};
}

void ScanKernel::storePart(Value tile, Value memory, unsigned numChannels,
                           bool isVector) {
  if (!memory)
    return;
  SmallVector<Value> at = {segment, batch, head};
  at.append(numChannels, index(0));
  // Rows are those of key channels, but where a row is a head.
  bool isRow = numChannels < 2 && !(isVector && numChannels == 1);
  tile::StoreOp::create(b, loc, tile, memory, at, index(0),
                        isRow ? stateHeads : index(keyChannels), isVector);
}

void ScanKernel::buildPart(ValueRange outputs, Value block, int64_t parts,
                           bool hasMaps) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  startBlock(block, index(parts));
  cutPart(parts);
  makeMasks();
  State state;
  state.matrix = fill(f32(0.0f), tileType(keyCols, valueCols));
  if (scanOp.getNormalize())
    state.sum = fill(f32(0.0f), tileType(1, keyCols));
  if (scanOp.getLogWeight())
    state.largest = fill(f32(minusInfinity), tileType(1, 1));
  bool erases = scanOp.getDelta() || scanOp.getEraseA();
  auto [last, map] = walkPart(state, /*keepsGates=*/hasMaps && !erases);
  unsigned next = 0;
  storePart(last.matrix, outputs[next++], 2);
  if (last.sum)
    storePart(last.sum, outputs[next++], 1);
  if (last.largest)
    storePart(last.largest, outputs[next++], 0, /*isVector=*/true);
  Value memory = hasMaps ? outputs[next] : Value();
  if (memory && erases) {
    ofMap = true;
    valueCols = keyCols;
    valueChannels = keyChannels;
    State identity;
    identity.matrix = mask(keyCols, keyCols, [&](Value r, Value c) {
      return cmp(arith::CmpIPredicate::eq, r, c);
    });
    storePart(walkPart(identity, /*keepsGates=*/false).first.matrix, memory, 2);
  } else if (memory && gates == Gates::head) {
    storePart(scanOp.getLogWeight() ? map : expOf(map), memory, 0,
              /*isVector=*/true);
  } else if (memory) {
    storePart(map, memory, 1, /*isVector=*/gates == Gates::key);
  }
  tile::ReturnOp::create(b, loc);
}

static LogicalResult checkTarget(Operation *op,
                                 const ::attn::TargetInfo &target) {
  if (target.isCpu())
    return success();
  return op->emitOpError("expected a CPU, but got a GPU, for which parts of "
                         "scans have no kernel");
}

LogicalResult PlanBuilder::convertScanPartial(ScanPartialOp op) {
  if (failed(checkTarget(op, target)))
    return failure();
  Location loc = op.getLoc();
  auto dim = [&](Value tensor, int64_t d) -> Value {
    return memref::DimOp::create(b, loc, mapping.lookup(tensor), d);
  };
  auto parts = static_cast<int64_t>(op.getSplits());
  Value batches = dim(op.getKey(), 0);
  Value heads = arith::MaxUIOp::create(b, loc, dim(op.getKey(), 1),
                                       dim(op.getValue(), 1));
  SmallVector<Value> outputs;
  makeOutputs(op, {index(parts, loc), batches, heads}, /*storeAll=*/false,
              outputs);
  Kernel kernel = startKernel(op, op->getOperands(), outputs, {}, {});
  OpBuilder beside(op);
  ScanOp scan = op.makeScan(beside);
  ScanKernel builder(scan, target, kernel.func);
  for (auto [i, operand] : llvm::enumerate(kernel.operands))
    builder.bind(operand, kernel.func.getArgument(i));
  builder.buildPart(kernel.outputs, kernel.block, parts, op.hasMaps());
  scan.erase();
  Value grid = arith::MulIOp::create(b, loc, batches, heads);
  grid = arith::MulIOp::create(b, loc, grid, index(parts, loc));
  tile::LaunchOp::create(b, loc, kernel.func.getName(), grid,
                         kernel.launchArguments);
  return success();
}

//===----------------------------------------------------------------------===//
// attn.scan_combine
//===----------------------------------------------------------------------===//

namespace {
class ScanCombineKernel : public KernelBuilder {
public:
  ScanCombineKernel(ScanCombineOp op, const ::attn::TargetInfo &target,
                    tile::KernelOp kernel)
      : KernelBuilder(op, MonoidOp(), target, kernel), combineOp(op) {}

  void build(ValueRange outputs, Value block);

private:
  /// A state, and what becomes of one: those that there are. The map is 1x1, a
  /// column of key channels, a row of value channels, or a matrix.
  struct Part {
    Value matrix, sum, largest, map;
    SmallVector<Value> values() const {
      SmallVector<Value> all;
      for (Value value : {matrix, sum, largest, map})
        if (value)
          all.push_back(value);
      return all;
    }
  };
  /// `part` with other values.
  static Part replaced(const Part &part, ValueRange by) {
    Part next = part;
    unsigned i = 0;
    for (Value *value : {&next.matrix, &next.sum, &next.largest, &next.map})
      if (*value)
        *value = by[i++];
    return next;
  }

  Part load(ValueRange states, Value maps, ValueRange lead);
  Part first();
  Part multiply(const Part &left, const Part &right, ValueRange lead);
  void store(const Part &part, ValueRange outputs, ValueRange lead);

  Value loadTile(tile::TileType type, Value memory, ValueRange lead,
                 unsigned numChannels, bool isVector = false);
  /// old * factor + added, of tiles that broadcast.
  Value applied(Value old, Value factor, Value added);
  using Body = function_ref<Value(ValueRange)>;
  Value mapOne(ValueRange inputs, tile::TileType type, Body body) {
    return KernelBuilder::map(inputs, {type},
                              [&](Value, Value, ValueRange x) {
                                return SmallVector<Value>{body(x)};
                              })
        .front();
  }
  tile::TileType typeOf(Value tile) {
    return cast<tile::TileType>(tile.getType());
  }
  tile::TileType mapType() {
    if (combineOp.hasMatrices())
      return tileType(keyCols, keyCols);
    if (!combineOp.hasChannels())
      return tileType(1, 1);
    return combineOp.getValueGates() ? tileType(1, valueCols)
                                     : tileType(keyCols, 1);
  }
  unsigned countMapChannels() {
    return combineOp.hasMatrices() ? 2 : combineOp.hasChannels() ? 1 : 0;
  }
  bool isMapVector() {
    return !combineOp.hasMatrices() &&
           !(combineOp.hasChannels() && combineOp.getValueGates());
  }

  ScanCombineOp combineOp;
  int64_t keyChannels = 0, keyCols = 0, valueCols = 0;
  Value heads;
};
} // namespace

Value ScanCombineKernel::loadTile(tile::TileType type, Value memory,
                                  ValueRange lead, unsigned numChannels,
                                  bool isVector) {
  SmallVector<Value> at(lead);
  at.append(numChannels, index(0));
  bool isRow = numChannels < 2 && !(isVector && numChannels == 1);
  return tile::LoadOp::create(b, loc, type, memory, at, index(0),
                              isRow ? heads : index(keyChannels),
                              /*live=*/Value(), isVector,
                              /*transposed=*/false);
}

ScanCombineKernel::Part ScanCombineKernel::load(ValueRange states, Value maps,
                                                ValueRange lead) {
  Part part;
  unsigned next = 0;
  part.matrix =
      loadTile(tileType(keyCols, valueCols), arg(states[next++]), lead, 2);
  if (combineOp.getNormalize())
    part.sum = loadTile(tileType(1, keyCols), arg(states[next++]), lead, 1);
  if (combineOp.getLogWeight())
    part.largest = loadTile(tileType(1, 1), arg(states[next++]), lead, 0,
                            /*isVector=*/true);
  if (maps)
    part.map =
        loadTile(mapType(), arg(maps), lead, countMapChannels(), isMapVector());
  return part;
}

ScanCombineKernel::Part ScanCombineKernel::first() {
  if (!combineOp.getInit().empty())
    return load(combineOp.getInit(), Value(), {batch, head});
  Part part;
  part.matrix = fill(f32(0.0f), tileType(keyCols, valueCols));
  if (combineOp.getNormalize())
    part.sum = fill(f32(0.0f), tileType(1, keyCols));
  if (combineOp.getLogWeight())
    part.largest = fill(f32(minusInfinity), tileType(1, 1));
  if (!combineOp.getMaps())
    return part;
  if (combineOp.hasMatrices())
    part.map = KernelBuilder::map(
                   {}, {mapType()},
                   [&](Value r, Value c, ValueRange) -> SmallVector<Value> {
                     return {select(cmp(arith::CmpIPredicate::eq, r, c),
                                    f32(1.0f), f32(0.0f))};
                   })
                   .front();
  else
    part.map = fill(f32(combineOp.getLogWeight() ? 0.0f : 1.0f), mapType());
  return part;
}

Value ScanCombineKernel::applied(Value old, Value factor, Value added) {
  SmallVector<Value> inputs = {old, added};
  if (factor)
    inputs.push_back(factor);
  return mapOne(inputs, typeOf(old), [&](ValueRange x) -> Value {
    if (x.size() > 2)
      return math::FmaOp::create(b, loc, x[0], x[2], x[1]);
    return arith::AddFOp::create(b, loc, x[0], x[1]);
  });
}

ScanCombineKernel::Part ScanCombineKernel::multiply(const Part &left,
                                                    const Part &right,
                                                    ValueRange lead) {
  auto product = [&](Value x, Value y) {
    return mapOne({x, y}, typeOf(x), [&](ValueRange v) -> Value {
      return arith::MulFOp::create(b, loc, v[0], v[1]);
    });
  };
  auto sum = [&](Value x, Value y) {
    return mapOne({x, y}, typeOf(x), [&](ValueRange v) -> Value {
      return arith::AddFOp::create(b, loc, v[0], v[1]);
    });
  };
  Part next = left;
  Value factor = right.map, matrix = right.matrix, ofSum = right.sum;
  if (combineOp.getLogWeight()) {
    // Relative to the largest weight of both.
    Value old = right.map ? sum(left.largest, right.map) : left.largest;
    next.largest = mapOne(
        {old, right.largest}, tileType(1, 1), [&](ValueRange x) -> Value {
          return arith::MaximumFOp::create(b, loc, x[0], x[1]);
        });
    auto relative = [&](Value x) {
      return mapOne({x, next.largest}, tileType(1, 1), [&](ValueRange v) {
        return relativeWeight(b, loc, v[0], v[1]);
      });
    };
    factor = relative(old);
    Value own = relative(right.largest);
    matrix = product(matrix, own);
    if (ofSum)
      ofSum = product(ofSum, own);
  }
  if (combineOp.hasMatrices()) {
    auto dot = [&](Value x, Value acc) -> Value {
      return tile::DotOp::create(b, loc, typeOf(x), right.map, x, acc,
                                 /*scale=*/Value(), /*ramp=*/Value());
    };
    next.matrix = dot(left.matrix, matrix);
    if (left.map)
      next.map = dot(left.map, Value());
    return next;
  }
  next.matrix = applied(left.matrix, factor, matrix);
  if (left.sum) {
    // The same gates as a row.
    Value gates = factor;
    if (combineOp.hasChannels())
      gates = loadTile(tileType(1, keyCols), arg(combineOp.getMaps()), lead, 1);
    next.sum = applied(left.sum, gates, ofSum);
  }
  if (left.map)
    next.map = combineOp.getLogWeight() ? sum(left.map, right.map)
                                        : product(left.map, right.map);
  return next;
}

void ScanCombineKernel::store(const Part &part, ValueRange outputs,
                              ValueRange lead) {
  unsigned output = 0;
  auto one = [&](Value tile, unsigned numChannels, bool isVector) {
    if (!tile)
      return;
    Value memory = outputs[output++];
    if (!memory)
      return;
    SmallVector<Value> at(lead);
    at.append(numChannels, index(0));
    bool isRow = numChannels < 2 && !(isVector && numChannels == 1);
    tile::StoreOp::create(b, loc, tile, memory, at, index(0),
                          isRow ? heads : index(keyChannels), isVector);
  };
  one(part.matrix, 2, false);
  one(part.sum, 1, false);
  one(part.largest, 0, true);
  one(part.map, countMapChannels(), isMapVector());
}

void ScanCombineKernel::build(ValueRange outputs, Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  keyChannels = combineOp.getKeyChannels();
  keyCols = ::attn::paddedChannels(keyChannels, target);
  valueCols = ::attn::paddedChannels(combineOp.getValueChannels(), target);
  Value states = arg(combineOp.getStates().front());
  heads = dim(states, 2);
  auto work = tile::WorkTileOp::create(b, loc, block, dim(states, 1), heads,
                                       index(1), index(1));
  batch = work.getBatch();
  head = work.getHead();
  Part start = first();
  auto forOp = scf::ForOp::create(b, loc, index(0), dim(states, 0), index(1),
                                  start.values());
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(forOp.getBody());
    SmallVector<Value> lead = {forOp.getInductionVar(), batch, head};
    Part left = replaced(start, forOp.getRegionIterArgs());
    Part next = multiply(
        left, load(combineOp.getStates(), combineOp.getMaps(), lead), lead);
    if (combineOp.getPrefixes())
      store(next, outputs, lead);
    scf::YieldOp::create(b, loc, next.values());
  }
  if (!combineOp.getPrefixes())
    store(replaced(start, forOp.getResults()), outputs, {batch, head});
  tile::ReturnOp::create(b, loc);
}

LogicalResult PlanBuilder::convertScanCombine(ScanCombineOp op) {
  if (failed(checkTarget(op, target)))
    return failure();
  Location loc = op.getLoc();
  Value states = mapping.lookup(op.getStates().front());
  SmallVector<Value> sizes;
  for (int64_t d = 0; d < 3; ++d)
    sizes.push_back(memref::DimOp::create(b, loc, states, d));
  ArrayRef<Value> lead(sizes);
  if (!op.getPrefixes())
    lead = lead.drop_front();
  SmallVector<Value> outputs;
  makeOutputs(op, lead, /*storeAll=*/false, outputs);
  Kernel kernel = startKernel(op, op->getOperands(), outputs, {}, {});
  ScanCombineKernel builder(op, target, kernel.func);
  for (auto [i, operand] : llvm::enumerate(kernel.operands))
    builder.bind(operand, kernel.func.getArgument(i));
  builder.build(kernel.outputs, kernel.block);
  Value grid = arith::MulIOp::create(b, loc, sizes[1], sizes[2]);
  tile::LaunchOp::create(b, loc, kernel.func.getName(), grid,
                         kernel.launchArguments);
  return success();
}
