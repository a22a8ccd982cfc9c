//===- Control.cpp - Loops and branches -----------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

//===----------------------------------------------------------------------===//
// scf
//===----------------------------------------------------------------------===//

/// Whether a loop goes over keys or rows: their positions are i32.
static bool isOverPositions(scf::ForOp op) {
  return op.getInductionVar().getType().isIndex() && !op.getUnsignedCmp() &&
         getConstantIntValue(op.getStep()) &&
         op.getBody()
             ->walk([](MmaIssueOp) { return WalkResult::interrupt(); })
             .wasInterrupted();
}

LogicalResult KernelLowering::lowerFor(scf::ForOp op) {
  prepareCopies(op);
  // One instruction for a sum and one for a comparison, instead of two each.
  bool isShort = isOverPositions(op);
  auto bound = [&](Value value) {
    return isShort ? e.trunc32(scalar(value)) : scalar(value);
  };
  Values initial = {bound(op.getLowerBound())};
  Value upper = bound(op.getUpperBound());
  // In each turn LLVM would find out again what it is made of.
  if (isShort)
    upper = e.assembly("mov.b32 $0, $1;", "=r,r", {upper}, {e.i32}).front();
  llvm::append_range(initial, flat(op.getInitArgs()));
  SmallVector<Type> types;
  for (Value value : initial)
    types.push_back(value.getType());
  Block *header = e.newBlock(types);
  e.branch(header, initial);
  Block *body = e.newBlock(), *exit = e.newBlock();
  e.startBlock(header);
  Value iv = header->getArgument(0);
  e.branch(op.getUnsignedCmp() ? e.icmp(LLVM::ICmpPredicate::ult, iv, upper)
                               : e.lt(iv, upper),
           body, exit);
  e.startBlock(body);
  set(op.getInductionVar(), {isShort ? e.sext64(iv) : iv});
  setAll(op.getRegionIterArgs(), header->getArguments().drop_front());
  if (failed(lowerBlock(*op.getBody())))
    return failure();
  e.loc = op.getLoc();
  Values next = {e.add(iv, bound(op.getStep()))};
  llvm::append_range(next, flat(op.getBody()->getTerminator()->getOperands()));
  e.branch(header, next);
  e.startBlock(exit);
  setAll(op.getResults(), header->getArguments().drop_front());
  return success();
}

LogicalResult KernelLowering::lowerIf(scf::IfOp op) {
  SmallVector<Type> types;
  for (Type type : op.getResultTypes())
    flatten(type, types);
  Block *join = e.newBlock(types);
  Block *yes = e.newBlock();
  bool hasElse = op.elseBlock();
  Block *no = hasElse ? e.newBlock() : join;
  e.branch(scalar(op.getCondition()), yes, no);
  for (auto [block, body] :
       {std::pair{yes, op.thenBlock()}, std::pair{no, op.elseBlock()}}) {
    if (!body)
      continue;
    e.startBlock(block);
    if (failed(lowerBlock(*body)))
      return failure();
    e.loc = op.getLoc();
    e.branch(join, flat(body->getTerminator()->getOperands()));
  }
  e.startBlock(join);
  setAll(op.getResults(), join->getArguments());
  return success();
}
