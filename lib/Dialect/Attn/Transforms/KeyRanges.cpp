//===- KeyRanges.cpp - The keys that a block visits -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KeyRanges.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

KeyRanges mlir::attn::emitKeyRanges(OpBuilder &b, Location loc,
                                    const KeyRangeProblem &problem) {
  using Predicate = arith::CmpIPredicate;
  auto min = [&](Value x, Value y) -> Value {
    return arith::MinSIOp::create(b, loc, x, y);
  };
  auto max = [&](Value x, Value y) -> Value {
    return arith::MaxSIOp::create(b, loc, x, y);
  };
  Value zero = arith::ConstantIndexOp::create(b, loc, 0);
  const ::attn::MaskAnalysis *mask = problem.mask;
  KeyRanges ranges;
  ranges.first = ranges.lower = ranges.coreLower = zero;
  ranges.end = ranges.coreUpper = problem.numKeys;
  ranges.upper = problem.limit;
  if (mask) {
    Value firstRow = problem.firstRow, lastRow = problem.lastRow;
    if (problem.endsByRows) {
      auto range = tile::RowRangeOp::create(
          b, loc, b.getIndexType(), b.getIndexType(), firstRow, lastRow);
      firstRow = range.getFirst();
      lastRow = range.getLast();
    }
    auto bounds = mask->emitBounds(b, loc, problem.uniform, firstRow, lastRow,
                                   problem.numKeys);
    ranges.valid = bounds.valid;
    ranges.lower = bounds.lower;
    ranges.upper = min(ranges.upper, bounds.upper);
    bool hasCore = mask->facts().hasCore;
    ranges.coreLower = hasCore ? bounds.coreLower : Value();
    ranges.coreUpper = hasCore ? bounds.coreUpper : Value();
  }
  if (problem.split) {
    // Parts have the same number of keys, whatever the schedule; the tiles of
    // each are counted from its start.
    Value perPart =
        problem.partKeys
            ? arith::ConstantIndexOp::create(b, loc, problem.partKeys)
                  .getResult()
            : arith::CeilDivUIOp::create(b, loc, problem.numKeys, problem.parts)
                  .getResult();
    if (problem.granule > 1) {
      Value granule = arith::ConstantIndexOp::create(b, loc, problem.granule);
      perPart = arith::MulIOp::create(
          b, loc, arith::CeilDivUIOp::create(b, loc, perPart, granule),
          granule);
    }
    ranges.first = arith::MulIOp::create(b, loc, problem.split, perPart);
    ranges.end =
        min(ranges.end, arith::AddIOp::create(b, loc, ranges.first, perPart));
    ranges.lower = max(ranges.lower, ranges.first);
    ranges.upper = min(ranges.upper, ranges.end);
  }
  if (mask || problem.split) {
    Value some = arith::CmpIOp::create(b, loc, Predicate::slt, ranges.lower,
                                       ranges.upper);
    ranges.upper = arith::SelectOp::create(b, loc, some, ranges.upper, zero);
  }
  return ranges;
}

bool mlir::attn::isAlwaysValid(ReductionOpInterface op,
                               const ::attn::MaskAnalysis &mask) {
  Region &region = op.getMaskBody();
  ValueRange captures = op.getCaptureOperands();
  auto counts = [&](Value value, Value tensor) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument || argument.getOwner() != &region.front())
      return false;
    unsigned first = region.getNumArguments() - captures.size();
    if (argument.getArgNumber() < first)
      return false;
    Value size = captures[argument.getArgNumber() - first];
    if (auto cast = size.getDefiningOp<arith::IndexCastOp>())
      size = cast.getIn();
    auto dim = size.getDefiningOp<tensor::DimOp>();
    return dim && dim.getSource() == tensor &&
           dim.getConstantIndex() ==
               cast<RankedTensorType>(tensor.getType()).getRank() - 2;
  };
  if (mask.facts().alwaysValid)
    return true;
  if (op.hasOwnSizes())
    return false;
  return mask.isAlwaysValid(
      [&](Value v) { return counts(v, op.getQueryOperands().front()); },
      [&](Value v) { return counts(v, op.getKeyOperands().front()); });
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

/// Builds a body of the stream: its first arguments are of types `first`.
static void fill(OpBuilder &b, tile::StreamOp stream, Region &region,
                 TypeRange first, const StreamBodies::Body &body,
                 bool hasState = true) {
  if (!body)
    return;
  OpBuilder::InsertionGuard guard(b);
  Location loc = stream.getLoc();
  Block *block = b.createBlock(&region);
  for (Type type : first)
    block->addArgument(type, loc);
  if (hasState)
    for (Type type : stream.getResultTypes())
      block->addArgument(type, loc);
  ValueRange arguments = block->getArguments();
  tile::YieldOp::create(b, loc,
                        body(arguments.take_front(first.size()),
                             arguments.drop_front(first.size())));
}

SmallVector<Value> mlir::attn::emitStream(OpBuilder &b, Location loc,
                                          const KeyRanges &ranges,
                                          const LinearRange &linear,
                                          int64_t step, ValueRange state,
                                          const StreamBodies &bodies) {
  auto stream = tile::StreamOp::create(
      b, loc, state.getTypes(), ranges.first, ranges.end, ranges.lower,
      ranges.upper, ranges.coreLower, ranges.coreUpper, linear.fits, linear.end,
      linear.start, /*num_partial=*/Value(), /*num_full=*/Value(), step,
      /*ahead=*/false, state);
  Type index = b.getIndexType(), i1 = b.getI1Type();
  fill(b, stream, stream.getClassify(), index, bodies.classify,
       /*hasState=*/false);
  fill(b, stream, stream.getPartialBody(), {index, i1}, bodies.partial);
  fill(b, stream, stream.getFullBody(), index, bodies.full);
  fill(b, stream, stream.getLinearBody(), {index, i1}, bodies.linear);
  return stream.getResults();
}

SmallVector<Value> mlir::attn::emitListedStream(OpBuilder &b, Location loc,
                                                Value numPartial, Value numFull,
                                                bool ahead, int64_t step,
                                                ValueRange state,
                                                const StreamBodies &bodies) {
  Value none;
  auto stream = tile::StreamOp::create(b, loc, state.getTypes(), none, none,
                                       none, none, none, none, none, none, none,
                                       numPartial, numFull, step, ahead, state);
  Type index = b.getIndexType(), i1 = b.getI1Type();
  fill(b, stream, stream.getNumber(), {index, i1}, bodies.number,
       /*hasState=*/false);
  fill(b, stream, stream.getPartialBody(), {index, index, index, i1},
       bodies.partial);
  fill(b, stream, stream.getFullBody(), index, bodies.full);
  return stream.getResults();
}
