//===- RegionUtils.cpp - Copying values out of regions --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mlir::attn;

Value RegionCloner::get(Value value) {
  if (Value copy = mapping.lookupOrNull(value))
    return copy;
  Operation *op = value.getDefiningOp();
  if (!op)
    return value;
  if (hook)
    if (Value built = hook(op, *this)) {
      mapping.map(value, built);
      return built;
    }
  for (Value operand : op->getOperands())
    get(operand);
  builder.clone(*op, mapping);
  return mapping.lookup(value);
}

void attn::guardDivision(Operation *op) {
  bool isRemainder = isa<arith::RemSIOp, arith::RemUIOp>(op);
  bool isSigned = isa<arith::DivSIOp, arith::RemSIOp, arith::FloorDivSIOp,
                      arith::CeilDivSIOp>(op);
  if (!isSigned && !isRemainder && !isa<arith::DivUIOp, arith::CeilDivUIOp>(op))
    return;
  Value divisor = op->getOperand(1);
  APInt known;
  if (matchPattern(divisor, m_ConstantInt(&known)) && !known.isZero() &&
      !(isSigned && known.isAllOnes()))
    return;
  OpBuilder b(op);
  Location loc = op->getLoc();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(
        b, loc, b.getIntegerAttr(divisor.getType(), value));
  };
  auto equals = [&](Value value) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, divisor,
                                 value);
  };
  Value one = constant(1), isMinusOne;
  Value safe =
      arith::SelectOp::create(b, loc, equals(constant(0)), one, divisor);
  if (isSigned) {
    isMinusOne = equals(constant(-1));
    safe = arith::SelectOp::create(b, loc, isMinusOne, one, safe);
  }
  op->setOperand(1, safe);
  if (!isSigned || isRemainder)
    return; // x rem 1 is x rem -1
  b.setInsertionPointAfter(op);
  Value negated = arith::SubIOp::create(b, loc, constant(0), op->getOperand(0));
  auto result =
      arith::SelectOp::create(b, loc, isMinusOne, negated, op->getResult(0));
  op->getResult(0).replaceAllUsesExcept(result, result);
}

ValueRange attn::getYielded(Region &region) {
  return region.front().getTerminator()->getOperands();
}

SmallVector<Value> attn::inlineRegion(OpBuilder &builder, Region &region,
                                      ValueRange arguments,
                                      RegionCloner::Hook hook) {
  RegionCloner cloner(builder, hook);
  cloner.map(region.getArguments().take_front(arguments.size()), arguments);
  SmallVector<Value> results;
  for (Value value : getYielded(region))
    results.push_back(cloner.get(value));
  return results;
}

bool attn::dependsOn(Value value, Value argument) {
  SmallVector<Value> worklist = {value};
  llvm::DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value current = worklist.pop_back_val();
    if (current == argument)
      return true;
    if (!seen.insert(current).second)
      continue;
    if (Operation *op = current.getDefiningOp())
      llvm::append_range(worklist, op->getOperands());
  }
  return false;
}
