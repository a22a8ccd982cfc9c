//===- DialectAttributes.cpp - Attributes on operations of others ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/IR/AttributeNames.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::attn;

static bool areStrings(Attribute attr) {
  auto array = dyn_cast<ArrayAttr>(attr);
  return array && llvm::all_of(array, llvm::IsaPred<StringAttr>);
}

static LogicalResult verifyOfModule(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  Attribute value = attribute.getValue();
  if (!isa<ModuleOp>(op))
    return op->emitError("expected ")
           << name << " on a module, but got it on " << op->getName();
  if (name == getTargetName()) {
    if (!isa<StringAttr>(value))
      return op->emitError("expected ")
             << name << " to be a string, but got " << value;
    return success();
  }
  auto sizes = dyn_cast<DenseI64ArrayAttr>(value);
  if (!sizes || sizes.size() < 4 || sizes.size() > 5 ||
      llvm::any_of(sizes.asArrayRef(), [](int64_t size) { return size < 0; }))
    return op->emitError("expected ")
           << name << " to be array<i64: b, hq, sq, sk> of sizes, 0 where "
           << "unknown, and hk as the fifth or not, but got " << value;
  return success();
}

static LogicalResult verifyOfFunction(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  Attribute value = attribute.getValue();
  if (!isa<FunctionOpInterface>(op))
    return op->emitError("expected ")
           << name << " on a function, but got it on " << op->getName();
  if (name == getGradientsName() && !areStrings(value))
    return op->emitError("expected ")
           << name << " to be a list of names, but got " << value;
  if (name == getMultiplesName() &&
      (!areStrings(value) || cast<ArrayAttr>(value).size() % 2))
    return op->emitError("expected ")
           << name << " to be a list of pairs of names, but got " << value;
  if (name == getInterfaceName() && !isa<ArrayAttr>(value))
    return op->emitError("expected ")
           << name << " to be a list of arguments, but got " << value;
  if (name != getSavedBytesName())
    return success();
  auto bytes = dyn_cast<IntegerAttr>(value);
  if (!bytes || !bytes.getType().isSignlessInteger(64) || bytes.getInt() < 0)
    return op->emitError("expected ")
           << name << " to be a number of bytes (i64), but got " << value;
  return success();
}

LogicalResult AttnDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  StringRef name = attribute.getName();
  Attribute value = attribute.getValue();
  if (name == getTargetName() || name == getExpectedSizesName())
    return verifyOfModule(op, attribute);
  if (name == getGradientsName() || name == getMultiplesName() ||
      name == getInterfaceName() || name == getSavedBytesName())
    return verifyOfFunction(op, attribute);
  if (name == getTensorNameName()) {
    if (isa<StringAttr>(value))
      return success();
    return op->emitError("expected ")
           << name << " to be a string, but got " << value;
  }
  if (name == getArgName() || name == getColumnsOfName())
    return op->emitError("expected ")
           << name << " on an argument or a result of a function, but got it "
           << "on " << op->getName();
  if (name == getDeadIsZeroName()) {
    if (isa<AggregateOp>(op) && isa<UnitAttr>(value))
      return success();
    return op->emitError("expected ")
           << name << " to be a unit attribute of attn.aggregate, but got "
           << value << " on " << op->getName();
  }
  if (name == getCascadeLevelsName()) {
    if (isa<AggregateOp>(op) && isa<IntegerAttr>(value))
      return success();
    return op->emitError("expected ")
           << name << " to be an integer on attn.aggregate, but got " << value
           << " on " << op->getName();
  }
  if (name == getCascadeName()) {
    if (isa<AggregateOp>(op) && isa<CausalAttr>(value) &&
        cast<CausalAttr>(value).getValue() != Causal::top_left)
      return success();
    return op->emitError("expected ")
           << name << " to be #attn.causal<none> or <bottom_right> on "
           << "attn.aggregate, but got " << value << " on " << op->getName();
  }
  if (name == getRungAttrName()) {
    if (isa<AggregateOp, PartialOp, ScoresOp, AttentionOp>(op) &&
        isa<RungAttr>(value))
      return success();
    return op->emitError("expected ")
           << name << " to be #attn.rung on attn.attention or attn.aggregate, "
           << "but got " << value;
  }
  if (name != getDispatchAttrName())
    return op->emitError("expected no attribute ")
           << name << ", which the attn dialect does not define";
  if (isa<ModuleOp>(op) && isa<UnitAttr>(value))
    return success();
  if (isa<AggregateOp, AttentionOp>(op) && isa<DispatchAttr>(value))
    return success();
  return op->emitError("expected ")
         << name << " to be a unit attribute of a module or #attn.dispatch on "
         << "attn.aggregate or attn.attention, but got " << value;
}
