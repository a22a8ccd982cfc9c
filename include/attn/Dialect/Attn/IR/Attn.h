//===- Attn.h - The attn dialect --------------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTN_H
#define ATTN_DIALECT_ATTN_IR_ATTN_H

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "attn/Dialect/Attn/IR/Source.h"

#include "attn/Dialect/Attn/IR/AttnInterfaces.h.inc"

namespace mlir::attn {
class ScanOp; // Scan.h
class ScanPartialOp;

/// Checks that an op has no attribute that nobody reads, as an option that is
/// misspelt or is an operand: names are its own or begin with a dialect's.
LogicalResult verifyAttributes(Operation *op);

/// The trait of ops that `verifyAttributes` holds for: all of this dialect.
template <typename ConcreteType>
class OwnAttributes : public OpTrait::TraitBase<ConcreteType, OwnAttributes> {
public:
  static LogicalResult verifyTrait(Operation *op) {
    return verifyAttributes(op);
  }
};
} // namespace mlir::attn

#define GET_OP_CLASSES
#include "attn/Dialect/Attn/IR/AttnOps.h.inc"

namespace mlir::attn {
/// Rows of a tile of packed heads, at most (`pack_heads` of a schedule).
constexpr int64_t mostPackedRows = 1024;

/// The attribute of modules whose plans may have a kernel for each class of
/// sizes, and of operations whose schedule is one of several.
constexpr llvm::StringLiteral getDispatchAttrName() { return "attn.dispatch"; }

/// The attribute of an attention or aggregate that says which rung of the
/// ladder it is to become (`attn-apply-rung`).
constexpr llvm::StringLiteral getRungAttrName() { return "attn.rung"; }

/// The attribute of functions that are a forward pass: the bytes of each row
/// that the backward pass reads, beside inputs and results.
constexpr llvm::StringLiteral getSavedBytesName() { return "attn.saved_bytes"; }

/// The monoid that `op` refers to, or null when the symbol does not resolve.
MonoidOp lookupMonoid(Operation *op, FlatSymbolRefAttr ref);

/// The monoid that an op of this dialect names, or null when it names none.
FlatSymbolRefAttr getMonoidRef(Operation *op);

/// For each output of a finalize region, whether it varies over the value
/// channels: whether it depends on a component of kind `value`. `numStats`
/// arguments of the region come before those of the `components`.
SmallVector<bool> getPerChannelOutputs(Region &finalize, unsigned numStats,
                                       ArrayAttr components);
/// The same for the default outputs of a monoid.
SmallVector<bool> getPerChannelOutputs(MonoidOp monoid);
} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_ATTN_H
