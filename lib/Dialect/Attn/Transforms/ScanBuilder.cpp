//===- ScanBuilder.cpp - What kernels of attn.scan share ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScanBuilder.h"
#include "PlanRows.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;
using namespace mlir::attn;

Value ScanBuilder::countSequences() {
  Source source = sourceOf(scanOp);
  int64_t headDim = source.headDim();
  stateHeads = max(dim(arg(scanOp.getKey()), headDim),
                   dim(arg(scanOp.getValue()), headDim));
  if (scanOp.getQueryStates())
    stateHeads = max(stateHeads, dim(arg(scanOp.getQuery()), headDim));
  return dim(arg(countsSequences(source, scanOp.getKey())), 0);
}

tile::WorkTileOp ScanBuilder::findWork(Value block, int64_t tiles,
                                       Value parts) {
  Value sequences = countSequences();
  auto work = tile::WorkTileOp::create(b, loc, block, sequences, stateHeads,
                                       index(tiles), parts ? parts : index(1));
  batch = work.getBatch();
  head = work.getHead();
  return work;
}

void ScanBuilder::findRows() {
  if (!scanOp.isPacked()) {
    begin = index(0);
    end = total = dim(arg(scanOp.getKey()), 2);
    queryEnd = dim(arg(scanOp.getQuery()), 2);
    // Of an aggregate keys may be behind the last row: nobody reads them.
    if (!scanOp.getWhole() && !scanOp.getFinal() && scanOp.getPool().empty())
      end = min(end, queryEnd);
    if (Value lengths = scanOp.getLengths()) {
      end = min(max(element(arg(lengths), batch), index(0)), end);
      queryEnd = end;
    }
    return;
  }
  Value offsets = arg(scanOp.getCu());
  total = dim(arg(scanOp.getKey()), 1);
  auto at = [&](Value i) {
    return min(max(element(offsets, i), index(0)), total);
  };
  Value count = sub(dim(offsets, 0), index(1));
  begin = at(batch);
  isSequence = cmp(arith::CmpIPredicate::slt, batch, count);
  end = select(isSequence, at(min(add(batch, index(1)), count)), total);
  queryEnd = end;
}

Value ScanBuilder::scaleHead(Value x, Value heads, Value all) {
  auto quotient = [&] {
    return divide(mul(x, heads), max(all, index(1))).first;
  };
  if (target.isCpu())
    return quotient();
  auto branch = scf::IfOp::create(b, loc, TypeRange(b.getIndexType()),
                                  cmp(arith::CmpIPredicate::eq, heads, all),
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, loc, x);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, loc, quotient());
  return branch.getResult(0);
}

Value ScanBuilder::headOf(Value memref) {
  return scaleHead(head, dim(memref, sourceOf(scanOp).headDim()), stateHeads);
}

Value ScanBuilder::queryHeadOf(Value outputHead, Value outputHeads) {
  Value heads = dim(arg(scanOp.getQuery()), sourceOf(scanOp).headDim());
  return scaleHead(outputHead, heads, outputHeads);
}

std::pair<Value, Value> ScanBuilder::countOutputHeads() {
  Value queryHeads = dim(arg(scanOp.getQuery()), sourceOf(scanOp).headDim());
  Value outputHeads = max(queryHeads, stateHeads);
  return {outputHeads, scaleHead(index(1), outputHeads, stateHeads)};
}

SmallVector<Value> ScanBuilder::indicesOf(Value headIndex, Value row,
                                          Value channel) {
  SmallVector<Value> all = {batch, headIndex, row};
  SmallVector<Value> at(
      ArrayRef(all).take_back(sourceOf(scanOp).numLeading() + 1));
  if (channel)
    at.push_back(channel);
  return at;
}

SmallVector<Value> ScanBuilder::initialStates() {
  SmallVector<Value> from;
  for (Value memory : scanOp.getInit())
    from.push_back(arg(memory));
  for (Value memory : scanOp.getPool())
    from.push_back(arg(memory));
  return from;
}

SmallVector<Value> ScanBuilder::finalStates(ValueRange outputs) {
  if (scanOp.getPool().empty())
    return SmallVector<Value>(outputs);
  SmallVector<Value> to;
  for (Value memory : scanOp.getPool())
    to.push_back(arg(memory));
  return to;
}

Value ScanBuilder::findState(Value first, Value &exists) {
  if (!scanOp.getSlot())
    return batch;
  Value slot = element(arg(scanOp.getSlot()), batch);
  exists = arith::AndIOp::create(
      b, loc, cmp(arith::CmpIPredicate::sge, slot, index(0)),
      cmp(arith::CmpIPredicate::slt, slot, dim(first, 0)));
  return select(exists, slot, index(0));
}

Value ScanBuilder::numberOf(Value memref, ValueRange at) {
  Value number = memref::LoadOp::create(b, loc, memref, at);
  if (number.getType().isF32())
    return number;
  return arith::ExtFOp::create(b, loc, b.getF32Type(), number);
}

Value mlir::attn::relativeWeight(OpBuilder &b, Location loc, Value x,
                                 Value largest) {
  auto f32 = [&](float value) -> Value {
    return arith::ConstantFloatOp::create(b, loc, b.getF32Type(),
                                          APFloat(value));
  };
  Value none =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, x,
                            f32(-std::numeric_limits<float>::infinity()));
  Value factor =
      math::ExpOp::create(b, loc, arith::SubFOp::create(b, loc, x, largest));
  return arith::SelectOp::create(b, loc, none, f32(0.0f), factor);
}
