//===- BodyVectorizer.h - Scalar bodies on vectors --------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rewrites a straight-line body of scalar operations for `width` consecutive
// elements. A value is uniform (one scalar for all lanes), or varies by lane.
// Integers that are `base + lane` keep that knowledge through additions,
// casts and clamps, so that a captured tensor that is read along the columns
// becomes a vector load.
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILETOVECTOR_BODYVECTORIZER_H
#define ATTN_LIB_CONVERSION_TILETOVECTOR_BODYVECTORIZER_H

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Builders.h"

namespace mlir::tile {

class BodyVectorizer {
public:
  BodyVectorizer(OpBuilder &builder, int64_t width)
      : builder(builder), width(width) {}

  /// Every lane of `scalar` sees `value`.
  void mapUniform(Value scalar, Value value) { lanes[scalar].uniform = value; }
  /// Lane l of `scalar` sees element l of `vector`.
  void mapVector(Value scalar, Value vector) { lanes[scalar].vector = vector; }
  /// Lane l of `scalar` sees base + l, where the base is `offset` more than a
  /// multiple of `unit`, a power of 2.
  void mapLinear(Value scalar, Value base, int64_t unit = 1,
                 int64_t offset = 0);

  /// Emits the body's operations; fails with a diagnostic on one that has no
  /// vector form.
  LogicalResult emit(Block &body);
  /// Operand i of the body's terminator, as a vector.
  Value yielded(Block &body, unsigned i);
  /// The same as a scalar when it is uniform, else null.
  Value yieldedUniform(Block &body, unsigned i);

private:
  struct Lane {
    Value uniform;
    Value vector;
    /// vector == clamp(base + lane, lower, upper), bounds optional.
    Value base, lower, upper;
    /// base == offset modulo unit, a power of 2.
    int64_t unit = 1, offset = 0;
  };

  Lane lookup(Value scalar);
  Value asVector(Value scalar);
  LogicalResult emit(Operation *op);
  bool emitLinear(Operation *op);
  bool emitBits(Operation *op, const Lane &lane, const Lane &other);
  LogicalResult emitLoad(memref::LoadOp op);
  Value vectorLoad(memref::LoadOp op, ValueRange indices);
  Value gather(memref::LoadOp op, ArrayRef<Value> indices, Value last);

  OpBuilder &builder;
  int64_t width;
  DenseMap<Value, Lane> lanes;
};

} // namespace mlir::tile

#endif // ATTN_LIB_CONVERSION_TILETOVECTOR_BODYVECTORIZER_H
