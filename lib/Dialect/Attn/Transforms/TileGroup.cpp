//===- TileGroup.cpp - Reductions over the queries of a key head ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Over queries the rows of a block are those of a key head, and what is reduced
// are the queries of all heads that read it: a loop over these heads around the
// walk over the tiles of one. All that regions see of a head, and with it the
// bounds of a mask, belongs to that loop.
//
//===----------------------------------------------------------------------===//

#include "TileKernel.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

bool mlir::attn::hasGroup(ReductionOpInterface op) {
  if (op.getReducedSide() == Side::keys)
    return false;
  auto headsOf = [](Value tensor, const Source &source) {
    return cast<RankedTensorType>(tensor.getType())
        .getDimSize(source.headDim());
  };
  int64_t rows = headsOf(op.getQueryOperands().front(), op.getQuerySource());
  int64_t reduced = headsOf(op.getKeyOperands().front(), op.getKeySource());
  return rows != reduced || ShapedType::isDynamic(rows);
}

SmallVector<Value> ReductionKernel::walkGroup(SmallVector<Value> state) {
  Value reducedHeads =
      dim(arg(reduction.getKeyOperands().front()), keySource.headDim());
  Value rowHeads =
      dim(arg(reduction.getQueryOperands().front()), rowSource.headDim());
  Value group =
      arith::DivUIOp::create(b, loc, reducedHeads, max(rowHeads, index(1)));
  auto forOp = scf::ForOp::create(b, loc, index(0), group, index(1), state);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forOp.getBody());
  // What was found of regions of pairs was found for all heads.
  std::pair<Value, Value> rowHead(head, headI32);
  Operation *outerPoint = uniformPoint;
  llvm::DenseMap<Value, Value> outerValues;
  std::swap(outerValues, uniformValues);
  varyingValues.clear();
  headVaries = false;
  head = keyHead = add(mul(head, group), forOp.getInductionVar());
  headI32 = toI32(head);
  uniformPoint = index(0).getDefiningOp();
  ValueRange carried = forOp.getRegionIterArgs();
  scf::YieldOp::create(b, loc, streamKeys(carried));
  std::tie(head, headI32) = rowHead;
  uniformPoint = outerPoint;
  uniformValues = std::move(outerValues);
  varyingValues.clear();
  return forOp.getResults();
}
