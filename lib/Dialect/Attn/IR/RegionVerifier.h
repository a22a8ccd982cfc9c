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

/// Checks `rotary` and the regions that turn what it says, one dot pair's.
LogicalResult verifyRotary(Operation *op, RotaryAttr rotary,
                           ArrayRef<std::pair<StringRef, Region *>> regions,
                           ValueRange queries, ValueRange captures);

/// Resolves the monoid of an op. Fails with an error where the symbol is
/// something else or neither defined nor shipped; null where it is a shipped
/// monoid that is not imported yet.
FailureOr<MonoidOp> resolveMonoid(Operation *op,
                                  SymbolTableCollection &symbols);

/// Two sizes contradict each other: both static and not equal.
inline bool contradict(int64_t a, int64_t b) {
  return a != b && !ShapedType::isDynamic(a) && !ShapedType::isDynamic(b);
}

/// The sequences of a varlen source, dynamic where its offsets do not say.
int64_t getNumSequences(const Source &source);

/// "tensor [b, hq, sq, d]" as checks over operands of reductions see it.
class OperandShape {
public:
  OperandShape(Value value, const Source &source)
      : type(cast<RankedTensorType>(value.getType())), source(source) {}
  int64_t batch() const { return ofBatches(type.getDimSize(0)); }
  /// Sequences, dynamic where neither the tensor nor offsets say.
  int64_t sequences() const {
    return source.is(SourceKind::varlen) ? getNumSequences(source) : batch();
  }
  int64_t heads() const { return type.getDimSize(source.headDim()); }
  /// Rows of a batch, of all sequences together, or of a page.
  int64_t length() const { return type.getDimSize(source.rowDim()); }
  /// Rows of every sequence; dynamic where these have sizes of their own.
  int64_t rowsOfEach() const { return ofBatches(length()); }
  int64_t depth() const { return type.getShape().back(); }
  Type element() const { return type.getElementType(); }
  RankedTensorType type;

private:
  /// A size that only tensors of batches have.
  int64_t ofBatches(int64_t size) const {
    return source.hasBatch() ? size : ShapedType::kDynamic;
  }
  Source source;
};

/// Shapes of the queries, keys and values of one reduction: ranks, static and
/// equal head dimensions, heads that divide, batches and lengths that agree.
/// Of a reduction over queries, the keys stand for the queries.
LogicalResult verifyOperandShapes(Operation *op, ValueRange queries,
                                  ValueRange keys, ValueRange values,
                                  const Source &querySource,
                                  const Source &keySource,
                                  Side side = Side::keys);

/// The row domain [b, hq, sq], or [hq, total_q]: the queries' but for channels.
SmallVector<int64_t> getRowShape(Value query);

/// Checks one result or state: `rows`, then the value channels where
/// `perChannel`; per-row ones and, with `onlyF32`, all are f32.
LogicalResult verifyRowTensor(Operation *op, StringRef what, unsigned index,
                              Type type, ArrayRef<int64_t> rows,
                              bool perChannel, int64_t channels, bool onlyF32);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_IR_REGIONVERIFIER_H
