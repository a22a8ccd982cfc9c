//===- MemberRows.cpp - Rows and steps of a warp among a block's ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A warp of a block has rows of its own, or, where few rows go through many
// steps, all rows and some of the steps of a loop. Their states become one
// through shared memory, and one warp stores them.
//
//===----------------------------------------------------------------------===//

#include "MemberRows.h"
#include "PipelineCopies.h"

using namespace mlir;
using namespace mlir::tile_gpu;

void tile_gpu::addMemberRow(OpBuilder &b, Operation *op,
                            MutableOperandRange indices, bool vector,
                            function_ref<Value()> memberRow) {
  OpOperand &row = indices[indices.size() - (vector ? 1 : 2)];
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(op);
  row.set(arith::AddIOp::create(b, op->getLoc(), row.get(), memberRow()));
}

void tile_gpu::cloneMergeBody(OpBuilder &b, IRMapping &mapping,
                              tile::MergeOp from, MergeStatesOp to) {
  OpBuilder::InsertionGuard guard(b);
  Location loc = from.getLoc();
  Block &own = from.getBody().front();
  Block *body = b.createBlock(&to.getBody());
  for (BlockArgument argument : own.getArguments())
    mapping.map(argument, body->addArgument(argument.getType(), loc));
  for (Operation &op : own.without_terminator())
    b.clone(op, mapping);
  YieldOp::create(
      b, loc,
      llvm::map_to_vector(own.getTerminator()->getOperands(), [&](Value value) {
        return mapping.lookupOrDefault(value);
      }));
}

Value PipelineProgram::memberRow(Location loc, Type type) {
  if (plan.merge)
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, 0));
  Value row = arith::MulIOp::create(b, loc, member, i32(plan.warpRows, loc));
  return type.isIndex() ? arith::IndexCastOp::create(b, loc, type, row) : row;
}

void PipelineProgram::adjustRow(Operation *op, MutableOperandRange indices,
                                bool vector) {
  addMemberRow(b, op, indices, vector,
               [&] { return memberRow(op->getLoc(), b.getIndexType()); });
}

void PipelineProgram::divideSteps(Value &lower, Value &step) {
  Location loc = step.getLoc();
  Value own = arith::MulIOp::create(b, loc, member, step);
  lower = arith::AddIOp::create(b, loc, lower, own);
  step = arith::MulIOp::create(b, loc, step, i32(plan.warps(), loc));
}

/// Rows are those of a warp's fragments.
void PipelineProgram::cloneMerge(tile::MergeOp merge) {
  Location loc = merge.getLoc();
  MLIRContext *context = b.getContext();
  auto held = [&](Type type) -> Type {
    auto tile = cast<tile::TileType>(type);
    if (tile.getCols() == 1)
      return VecType::get(context, tile.getRows(), tile.getElementType(),
                          Axis::Row, Scope::Warp, /*partial=*/false);
    return FragType::get(context, tile.getRows(), tile.getCols(),
                         tile.getElementType(), Layout::Acc, Scope::Warp);
  };
  auto inRegisters = [&](ValueRange tiles) {
    return llvm::map_to_vector(tiles, [&](Value tile) {
      return asTile(loc, mapping.lookup(tile), held(tile.getType()));
    });
  };
  auto merged = MergeStatesOp::create(
      b, loc, llvm::map_to_vector(merge.getResultTypes(), held),
      MergeScope::Warps, inRegisters(merge.getStats()),
      inRegisters(merge.getValues()), plan.mergeScratch, /*ring=*/Value(),
      /*counter=*/Value(), /*part=*/Value(), b.getI64IntegerAttr(plan.warps()));
  for (auto [before, after] :
       llvm::zip_equal(merge.getResults(), merged.getResults()))
    mapping.map(before, asTile(loc, after, before.getType()));
  cloneMergeBody(b, mapping, merge, merged);
}

void PipelineProgram::storeOnce(Operation *store) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(store);
  Location loc = store->getLoc();
  Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                        member, i32(0, loc));
  auto branch = scf::IfOp::create(b, loc, isFirst, /*withElseRegion=*/false);
  store->moveBefore(branch.thenBlock()->getTerminator());
}
