//===- Adjoints.h - Derivatives of regions, in reverse ----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reverse mode over one block of scalar operations: from cotangents of some of
// its values to those of others, the roots. What the block has computed is read
// and not computed again. Adjoints are f32, and null stands for 0.
//
// Where a function has two derivatives (the maximum of equals, a select) docs/
// Gradients.md says which one is taken.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_ADJOINTS_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_ADJOINTS_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::attn {

class Adjoints {
public:
  /// Builds at `b`, which is at the end of the block that is differentiated.
  explicit Adjoints(OpBuilder &b, Location loc) : b(b), loc(loc) {}

  /// Asks for the derivative with respect to `value`.
  void addRoot(Value value) { active.insert(value); }
  /// Factors of this operation's derivative are finite: 0 times them is 0.
  void setBounded(Operation *op) { bounded.insert(op); }
  /// Finds, once the block is built and the roots are known, what depends on
  /// these.
  void follow();
  /// Adds `cotangent` to that of `value`, if it depends on a root.
  void add(Value value, Value cotangent);
  /// Goes back through the block as it was at `follow`. Fails at an operation
  /// between a root and a cotangent that has no rule, after reporting it.
  LogicalResult sweep();
  bool isActive(Value value) const { return active.contains(value); }
  /// What has been added to a value, or null for nothing.
  Value get(Value value) const { return adjoints.lookup(value); }

  Value constant(double value);
  Value multiply(Value x, Value y);
  /// x, 0 where y is.
  Value unlessZero(Value y, Value x);
  /// x / y, 0 where y is.
  Value divideOrZero(Value x, Value y);
  Value zero() { return constant(0.0); }

private:
  LogicalResult visit(Operation *op, Value cotangent);
  /// `value` as f32.
  Value widen(Value value);
  /// Adds cotangent times factor to `value`; with `guarded` 0 where the
  /// cotangent is 0, though the factor be infinite.
  void addProduct(Value value, Value cotangent, Value factor,
                  bool guarded = false);
  void addWhere(Value condition, Value value, Value cotangent);

  OpBuilder &b;
  Location loc;
  llvm::DenseMap<Value, Value> adjoints;
  llvm::DenseSet<Value> active;
  llvm::DenseSet<Operation *> bounded;
  SmallVector<Operation *> ops;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_ADJOINTS_H
