//===- TileScanStep.cpp - A step of attn.scan on a CPU --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileScanStep.h"
#include "attn/Analysis/Schedule.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

/// Key channels of a part: 8 KB of a state of 128 value channels.
static constexpr int64_t partRows = 16;

bool ScanStepKernel::handles(ScanOp op) {
  auto keys = cast<RankedTensorType>(op.getKey().getType());
  bool hasState = !op.getInit().empty() || !op.getPool().empty();
  return hasState && !op.isPacked() && keys.getDimSize(2) == 1 &&
         cast<RankedTensorType>(op.getQuery().getType()).getDimSize(2) == 1 &&
         op.getChunk().value_or(0) == 1 && !op.getLengths() &&
         op.getSegments().value_or(1) == 1 && !op.getNormalize() &&
         !op.getLogWeight() && !op.getWhole() && !op.getValueGates() &&
         !op.getEraseA() && !op.getBonus() && !op.getReadBefore() &&
         op.getGate().empty() && op.getFinalize().empty() &&
         !op.getValuesFirst() && op.getKeyChannels() % partRows == 0;
}

//===----------------------------------------------------------------------===//
// Small helpers
//===----------------------------------------------------------------------===//

Value ScanStepKernel::mapOne(ValueRange inputs, tile::TileType type,
                             Body body) {
  return map(inputs, {type},
             [&](Value, Value, ValueRange x) {
               return SmallVector<Value>{body(x)};
             })
      .front();
}

Value ScanStepKernel::scaled(Value tile, ArrayRef<Value> numbers) {
  SmallVector<Value> inputs = {tile}, outer;
  for (Value number : numbers)
    if (number)
      (isa<tile::TileType>(number.getType()) ? inputs : outer)
          .push_back(number);
  if (inputs.size() == 1 && outer.empty())
    return tile;
  return mapOne(inputs, cast<tile::TileType>(tile.getType()),
                [&](ValueRange x) {
                  Value product = x[0];
                  for (Value factor : x.drop_front())
                    product = mulf(product, factor);
                  for (Value factor : outer)
                    product = mulf(product, factor);
                  return product;
                });
}

Value ScanStepKernel::mapFeature(Value row) {
  Region &feature = scanOp.getFeature();
  if (feature.empty())
    return row;
  return mapOne(row, cast<tile::TileType>(row.getType()), [&](ValueRange x) {
    return inlineRegion(b, feature, x).front();
  });
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

Value ScanStepKernel::loadPart(Value memref, Value headIndex, Value channel) {
  return mapFeature(tile::LoadOp::create(
      b, loc, tileType(1, partRows), memref,
      indicesOf(headIndex, begin, channel), Value(), Value(),
      /*live=*/Value(), /*vector=*/false, /*transposed=*/false));
}

Value ScanStepKernel::loadRow(Value memref, Value headIndex) {
  return mapFeature(tile::LoadOp::create(
      b, loc, tileType(1, keyChannels), memref,
      indicesOf(headIndex, begin, index(0)), Value(), Value(),
      /*live=*/Value(), /*vector=*/false, /*transposed=*/false));
}

Value ScanStepKernel::inverseNorm(Value row) {
  if (!scanOp.getL2norm())
    return {};
  Value squares = mapOne(row, cast<tile::TileType>(row.getType()),
                         [&](ValueRange x) { return mulf(x[0], x[0]); });
  return mapOne(rowSum(squares), tileType(1, 1), [&](ValueRange x) -> Value {
    Value norm = math::SqrtOp::create(b, loc, addf(x[0], f32(normEpsilon)));
    return arith::DivFOp::create(b, loc, f32(1.0f), norm);
  });
}

Value ScanStepKernel::loadGates(Value channel, bool asColumn) {
  if (!scanOp.getDecay() || !scanOp.hasChannelGates())
    return {};
  tile::TileType type =
      asColumn ? tileType(partRows, 1) : tileType(1, partRows);
  Value logs = tile::LoadOp::create(
      b, loc, type, arg(scanOp.getDecay()), indicesOf(head, begin, channel),
      Value(), Value(), /*live=*/Value(), /*vector=*/asColumn,
      /*transposed=*/false);
  return mapOne(logs, type, [&](ValueRange x) -> Value {
    return math::ExpOp::create(b, loc, x[0]);
  });
}

/// Without bounds, so that a state is read, and written, where it is.
Value ScanStepKernel::loadState(Value channel) {
  tile::TileType type = tileType(partRows, valueCols);
  if (!hasState)
    return fill(f32(0.0f), type);
  return tile::LoadOp::create(
      b, loc, type, initialStates().front(),
      ValueRange{where, head, channel, index(0)}, Value(), Value(),
      /*live=*/Value(), /*vector=*/false, /*transposed=*/false);
}

Value ScanStepKernel::loadNumber(Value memref) {
  return memref ? numberOf(arg(memref), indicesOf(head, begin, Value()))
                : Value();
}

Value ScanStepKernel::project(Value memref, Value headIndex) {
  auto forOp =
      scf::ForOp::create(b, loc, index(0), index(keyChannels), index(partRows),
                         ValueRange{fill(f32(0.0f), valueRow())});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forOp.getBody());
  Value channel = forOp.getInductionVar();
  Value row = scaled(loadPart(memref, headIndex, channel),
                     {loadGates(channel, /*asColumn=*/false)});
  Value sum = tile::DotOp::create(b, loc, valueRow(), row, loadState(channel),
                                  forOp.getRegionIterArg(0), /*scale=*/Value(),
                                  /*ramp=*/Value());
  scf::YieldOp::create(b, loc, sum);
  return forOp.getResult(0);
}

void ScanStepKernel::storeOutput(Value sum, Value output, Value outputHead) {
  tile::StoreOp::create(b, loc, sum, output,
                        indicesOf(outputHead, begin, index(0)), begin, queryEnd,
                        /*vector=*/false);
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

void ScanStepKernel::build(ValueRange outputs, Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  keyChannels = scanOp.getKeyChannels();
  valueCols = ::attn::paddedChannels(scanOp.getValueChannels(), target);
  findWork(block, /*tiles=*/1);
  findRows();
  Value exists;
  where = findState(initialStates().front(), exists);
  if (exists) {
    auto branch = scf::IfOp::create(b, loc, exists, /*withElseRegion=*/true);
    tile::ReturnOp::create(b, loc);
    b.setInsertionPointToStart(branch.thenBlock());
    step(outputs);
    b.setInsertionPointToStart(branch.elseBlock());
    hasState = false;
    return step(outputs);
  }
  step(outputs);
  tile::ReturnOp::create(b, loc);
}

void ScanStepKernel::step(ValueRange outputs) {
  gate = Value();
  Value keys = arg(scanOp.getKey()), values = arg(scanOp.getValue());
  Value queries = arg(scanOp.getQuery());
  Value keyHead = headOf(keys), row = loadRow(keys, keyHead);
  Value keyNorm = inverseNorm(row);
  if (scanOp.getDecay() && !scanOp.hasChannelGates())
    gate = math::ExpOp::create(b, loc, loadNumber(scanOp.getDecay()));
  Value written = tile::LoadOp::create(
      b, loc, valueRow(), values, indicesOf(headOf(values), begin, index(0)),
      begin, end,
      /*live=*/Value(), /*vector=*/false, /*transposed=*/false);
  if (Value beta = loadNumber(scanOp.getDelta())) {
    Value known = scaled(project(keys, keyHead), {gate, keyNorm});
    written = mapOne({written, known}, valueRow(), [&](ValueRange x) {
      return mulf(beta, arith::SubFOp::create(b, loc, x[0], x[1]));
    });
  }
  written = scaled(written, {loadNumber(scanOp.getWeight()), keyNorm});

  // What is read by others than the first one, before the state goes on.
  Value output = outputs.front();
  Value scale = scanOp.getScale() ? arg(scanOp.getScale()) : Value();
  auto [outputHeads, group] = countOutputHeads();
  Value first = mul(head, group);
  if (output) {
    auto forOp = scf::ForOp::create(b, loc, index(1), group, index(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(forOp.getBody());
    Value outputHead = add(first, forOp.getInductionVar());
    Value queryHead = queryHeadOf(outputHead, outputHeads);
    Value query = loadRow(queries, queryHead);
    Value products = mapOne({query, row}, tileType(1, keyChannels),
                            [&](ValueRange x) { return mulf(x[0], x[1]); });
    Value sum = mapOne(
        {scaled(project(queries, queryHead), {gate}), written,
         rowSum(products)},
        valueRow(), [&](ValueRange x) { return addf(x[0], mulf(x[1], x[2])); });
    storeOutput(scaled(sum, {inverseNorm(query), scale}), output, outputHead);
  }

  Value queryHead = queryHeadOf(first, outputHeads);
  SmallVector<Value> to = finalStates(outputs.drop_front());
  auto forOp =
      scf::ForOp::create(b, loc, index(0), index(keyChannels), index(partRows),
                         ValueRange{fill(f32(0.0f), valueRow())});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(forOp.getBody());
    Value channel = forOp.getInductionVar();
    auto type = tileType(partRows, valueCols);
    Value factors = loadGates(channel, /*asColumn=*/true);
    if (gate)
      factors = fill(gate, tileType(partRows, 1));
    // Before the state, so that its rows are read as they are changed.
    Value query = output ? loadPart(queries, queryHead, channel) : Value();
    Value next = tile::DotOp::create(
        b, loc, type, loadPart(keys, keyHead, channel), written,
        loadState(channel), factors, /*ramp=*/Value(), /*transpose_rhs=*/false,
        /*tf32=*/false, /*transpose_lhs=*/true);
    Value sum = forOp.getRegionIterArg(0);
    if (output)
      sum = tile::DotOp::create(b, loc, valueRow(), query, next, sum,
                                /*scale=*/Value(), /*ramp=*/Value());
    if (!to.empty() && to.front() && hasState)
      tile::StoreOp::create(b, loc, next, to.front(),
                            ValueRange{where, head, channel, index(0)}, Value(),
                            Value(), /*vector=*/false);
    scf::YieldOp::create(b, loc, sum);
  }
  if (output) {
    Value norm =
        scanOp.getL2norm() ? inverseNorm(loadRow(queries, queryHead)) : Value();
    storeOutput(scaled(forOp.getResult(0), {norm, scale}), output, first);
  }
}
