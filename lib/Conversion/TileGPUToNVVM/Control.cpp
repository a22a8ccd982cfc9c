//===- Control.cpp - Loops and branches -----------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace attn;
using namespace attn::gpu;

//===----------------------------------------------------------------------===//
// scf
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::lowerFor(scf::ForOp op) {
  prepareCopies(op);
  Values initial = {scalar(op.getLowerBound())};
  llvm::append_range(initial, flat(op.getInitArgs()));
  SmallVector<Type> types;
  for (Value value : initial)
    types.push_back(value.getType());
  Block *header = e.newBlock(types);
  e.branch(header, initial);
  Block *body = e.newBlock(), *exit = e.newBlock();
  e.startBlock(header);
  Value iv = header->getArgument(0);
  Value upper = scalar(op.getUpperBound());
  e.branch(op.getUnsignedCmp() ? e.icmp(LLVM::ICmpPredicate::ult, iv, upper)
                               : e.lt(iv, upper),
           body, exit);
  e.startBlock(body);
  set(op.getInductionVar(), {iv});
  setAll(op.getRegionIterArgs(), header->getArguments().drop_front());
  if (failed(lowerBlock(*op.getBody())))
    return failure();
  e.loc = op.getLoc();
  Values next = {e.add(iv, scalar(op.getStep()))};
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
