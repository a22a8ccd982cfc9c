//===- Triangle.cpp - Products of triangles -------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of the tokens of a chunk a row has weights for those up to its own: a map
// selects 0 for columns right of the diagonal. A product whose readers all do
// so needs no sums there, and one with such a left side has no terms. Maps
// and sums of rows that end in such readers have no vectors there.
//
//===----------------------------------------------------------------------===//

#include "VectorContext.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile;

/// Whether the one result of `map` is 0 right of the diagonal, whatever its
/// inputs are there.
static bool selectsLower(MapOp map) {
  if (map.getNumResults() != 1)
    return false;
  Block &body = map.getBody().front();
  Value result = body.getTerminator()->getOperand(0);
  if (auto round = result.getDefiningOp<arith::TruncFOp>())
    result = round.getIn();
  auto select = result.getDefiningOp<arith::SelectOp>();
  if (!select || !matchPattern(select.getFalseValue(), m_PosZeroFloat()))
    return false;
  auto cmp = select.getCondition().getDefiningOp<arith::CmpIOp>();
  if (!cmp)
    return false;
  using Predicate = arith::CmpIPredicate;
  Value row = body.getArgument(0), col = body.getArgument(1);
  Predicate predicate = cmp.getPredicate();
  if (cmp.getLhs() == col && cmp.getRhs() == row)
    return predicate == Predicate::sle || predicate == Predicate::slt;
  return cmp.getLhs() == row && cmp.getRhs() == col &&
         (predicate == Predicate::sge || predicate == Predicate::sgt);
}

Value mlir::tile::roundedBy(MapOp map) {
  if (map.getNumResults() != 1 || map.getInputs().size() != 1)
    return {};
  Block &body = map.getBody().front();
  auto round =
      body.getTerminator()->getOperand(0).getDefiningOp<arith::TruncFOp>();
  return round && round.getIn() == body.getArgument(2) ? map.getInputs().front()
                                                       : Value();
}

bool mlir::tile::hasLowerLhs(DotOp op) {
  if (op.getTransposeLhs() || op.getType().getRows() != op.getDepth())
    return false;
  auto map = op.getLhs().getDefiningOp<MapOp>();
  if (Value exact = map ? roundedBy(map) : Value())
    map = exact.getDefiningOp<MapOp>();
  return map && selectsLower(map);
}

static bool isAsLarge(Value value, Value other) {
  auto type = cast<TileType>(value.getType());
  auto otherType = cast<TileType>(other.getType());
  return type.getRows() == otherType.getRows() &&
         type.getCols() == otherType.getCols();
}

bool mlir::tile::readsLowerOnly(Value value) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    auto map = dyn_cast<MapOp>(user);
    return map && map.getNumResults() == 1 &&
           isAsLarge(map.getResult(0), value) &&
           (selectsLower(map) || readsLowerOnly(map.getResult(0)));
  });
}

bool mlir::tile::scansLowerOnly(ScanOp op) {
  auto type = cast<TileType>(op.getInputs().front().getType());
  if (!op.getReverse() || op.getNumResults() != 1 ||
      type.getRows() > type.getCols() ||
      !matchPattern(op.getIdentities().front(), m_PosZeroFloat()))
    return false;
  auto map = op.getInputs().front().getDefiningOp<MapOp>();
  return map && selectsLower(map) && readsLowerOnly(op.getResult(0));
}

Value mlir::tile::endOfRow(VectorContext &ctx, Value row, Location loc) {
  OpBuilder &b = ctx.builder;
  Value width = ctx.index(ctx.lanes);
  Value before = b.createOrFold<arith::MulIOp>(
      loc, b.createOrFold<arith::DivUIOp>(loc, row, width), width);
  return b.createOrFold<arith::AddIOp>(loc, before, width);
}
