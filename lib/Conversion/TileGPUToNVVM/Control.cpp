//===- Control.cpp - Loops and branches -----------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/Support/SaveAndRestore.h"

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
  prepareCopies(*this, op);
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
  // A loop for each element is for what is rare, and one that stores a number a
  // turn has few: their code should be short.
  if (op->getParentOfType<MapOp>() ||
      !op.getBody()->getOps<memref::StoreOp>().empty())
    e.repeatRolled(header, next);
  else
    e.branch(header, next);
  e.startBlock(exit);
  setAll(op.getResults(), header->getArguments().drop_front());
  return success();
}

LogicalResult KernelLowering::lowerWhile(scf::WhileOp op) {
  auto flatTypes = [&](TypeRange from) {
    SmallVector<Type> types;
    for (Type type : from)
      flatten(type, types);
    return types;
  };
  Block *header = e.newBlock(flatTypes(op.getInits().getTypes()));
  Block *body = e.newBlock(), *exit = e.newBlock();
  e.branch(header, flat(op.getInits()));
  e.startBlock(header);
  setAll(op.getBeforeArguments(), header->getArguments());
  if (failed(lowerBlock(*op.getBeforeBody())))
    return failure();
  e.loc = op.getLoc();
  // Results dominate both blocks: neither needs arguments.
  Values results = flat(op.getConditionOp().getArgs());
  e.branch(scalar(op.getConditionOp().getCondition()), body, exit);
  e.startBlock(body);
  setAll(op.getAfterArguments(), results);
  if (failed(lowerBlock(*op.getAfterBody())))
    return failure();
  e.loc = op.getLoc();
  e.branch(header, flat(op.getYieldOp().getResults()));
  e.startBlock(exit);
  setAll(op.getResults(), results);
  return success();
}

/// Lowers the block of a branch that few rows take. What it reads tensors by is
/// found within it: a shifted stride or the row of a thread would otherwise be
/// moved ahead of all loops, and held in registers that these need.
LogicalResult KernelLowering::lowerRareBlock(Block &block) {
  SetVector<Value> outside;
  getUsedValuesDefinedAbove(*block.getParent(), outside);
  SmallVector<std::pair<Value, Values>> known;
  for (Value value : outside)
    if (isa<MemRefType>(value.getType()))
      known.emplace_back(value, of(value));
  if (known.empty())
    return lowerBlock(block);
  auto hidden = [&](Value value) -> Value {
    if (e.constantOf(value))
      return value;
    bool isWide = value.getType() != e.i32;
    return e
        .assembly(isWide ? "mov.b64 $0, $1;" : "mov.b32 $0, $1;",
                  isWide ? "=l,l" : "=r,r", {value}, value.getType())
        .front();
  };
  for (auto &[value, parts] : known)
    set(value, llvm::map_to_vector(parts, hidden));
  llvm::SaveAndRestore row(role.row, hidden(role.row));
  llvm::SaveAndRestore col(role.col, hidden(role.col));
  LogicalResult result = lowerBlock(block);
  for (auto &[value, parts] : known)
    set(value, std::move(parts));
  return result;
}

/// Whether `block` does nothing but yield a state that is mostly constants.
/// They would be set ahead of the branch, and the other block come later by
/// that.
static bool yieldsManyConstants(Block &block, ArrayRef<Value> yielded) {
  constexpr int64_t many = 32;
  return llvm::hasSingleElement(block) &&
         llvm::count_if(yielded, [&](Value value) {
           return value.getDefiningOp<LLVM::ConstantOp>();
         }) >= many;
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
  auto any = op.getCondition().getDefiningOp<AnyOp>();
  bool isRare = any && any.getByRows();
  for (auto [block, body] :
       {std::pair{yes, op.thenBlock()}, std::pair{no, op.elseBlock()}}) {
    if (!body)
      continue;
    e.startBlock(block);
    if (failed(isRare && block == yes ? lowerRareBlock(*body)
                                      : lowerBlock(*body)))
      return failure();
    e.loc = op.getLoc();
    Values yielded = flat(body->getTerminator()->getOperands());
    if (yieldsManyConstants(*body, yielded))
      e.assembly("", "", {}, {});
    e.branch(join, yielded);
  }
  e.startBlock(join);
  setAll(op.getResults(), join->getArguments());
  return success();
}
