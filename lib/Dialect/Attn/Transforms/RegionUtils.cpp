//===- RegionUtils.cpp - Copying values out of regions --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
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
