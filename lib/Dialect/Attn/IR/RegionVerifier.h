//===- RegionVerifier.h - What regions of attn ops may hold -----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_IR_REGIONVERIFIER_H
#define ATTN_LIB_DIALECT_ATTN_IR_REGIONVERIFIER_H

#include "attn/Dialect/Attn/IR/Attn.h"

namespace mlir::attn {

/// Checks the block arguments of a region, and that its body is a pure
/// function of them: scalar `arith` and `math` operations without fast-math
/// flags, and `tensor.extract` on block arguments.
LogicalResult verifyBody(Operation *op, Region &region, StringRef name,
                         TypeRange arguments);

/// Checks the types that a region yields.
LogicalResult verifyYield(Operation *op, Region &region, StringRef name,
                          TypeRange types);

/// Checks that a region yields `count` values of type f32; -1: one or more.
LogicalResult verifyYieldsFloats(Operation *op, Region &region, StringRef name,
                                 int64_t count);

/// Resolves the monoid of an op. Fails with an error where the symbol is
/// something else or neither defined nor shipped; null where it is a shipped
/// monoid that is not imported yet.
FailureOr<MonoidOp> resolveMonoid(Operation *op,
                                  SymbolTableCollection &symbols);

/// Two sizes contradict each other: both static and not equal.
inline bool contradict(int64_t a, int64_t b) {
  return a != b && !ShapedType::isDynamic(a) && !ShapedType::isDynamic(b);
}

/// "tensor [b, hq, sq, d]" as checks over operands of reductions see it:
/// packed operands have no batch.
class OperandShape {
public:
  OperandShape(Value value, bool packed)
      : type(cast<RankedTensorType>(value.getType())), packed(packed) {}
  int64_t batch() const {
    return packed ? ShapedType::kDynamic : type.getDimSize(0);
  }
  int64_t heads() const { return type.getDimSize(packed ? 0 : 1); }
  int64_t length() const { return type.getDimSize(packed ? 1 : 2); }
  int64_t depth() const { return type.getDimSize(packed ? 2 : 3); }
  Type element() const { return type.getElementType(); }
  RankedTensorType type;

private:
  bool packed;
};

/// Shapes of the queries, keys and values of one reduction: ranks, static and
/// equal head dimensions, heads that divide, batches and lengths that agree.
/// Of a reduction over queries, the keys stand for the queries.
LogicalResult verifyOperandShapes(Operation *op, ValueRange queries,
                                  ValueRange keys, ValueRange values,
                                  Value lengths, Value cuQ, Value cuK,
                                  Side side = Side::keys);

/// The row domain [b, hq, sq], or [hq, total_q].
SmallVector<int64_t> getRowShape(Value query, bool packed);

/// Checks one result or state: `rows`, then the value channels where
/// `perChannel`; per-row ones and, with `onlyF32`, all are f32.
LogicalResult verifyRowTensor(Operation *op, StringRef what, unsigned index,
                              Type type, ArrayRef<int64_t> rows,
                              bool perChannel, int64_t channels, bool onlyF32);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_IR_REGIONVERIFIER_H
