//===- Source.h - Where the rows of operands are ----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_SOURCE_H
#define ATTN_DIALECT_ATTN_IR_SOURCE_H

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "mlir/IR/Value.h"
#include "mlir/IR/ValueRange.h"

namespace mlir::attn {

/// `#attn.source` with its index operands.
struct Source {
  SourceKind kind = SourceKind::dense;
  /// Offsets, table or start, as the kind has it; null for dense tensors.
  Value map;
  /// Rows of each sequence, or null.
  Value lengths;

  Source() = default;
  Source(SourceKind kind, Value map, Value lengths)
      : kind(kind), map(map), lengths(lengths) {}
  /// Of an operation; no attribute: dense.
  Source(SourceAttr form, ValueRange operands) {
    if (!form)
      return;
    kind = form.getKind();
    if (kind != SourceKind::dense)
      map = operands.front();
    if (form.getLengths())
      lengths = operands.back();
  }

  bool is(SourceKind other) const { return kind == other; }
  /// What an operation says of it: null where it says nothing.
  SourceAttr getForm(MLIRContext *context) const {
    if (is(SourceKind::dense) && !lengths)
      return {};
    return SourceAttr::get(context, kind, static_cast<bool>(lengths));
  }
  SmallVector<Value> getOperands() const {
    SmallVector<Value> operands;
    for (Value value : {map, lengths})
      if (value)
        operands.push_back(value);
    return operands;
  }

  /// Dimensions in front of the rows of a tensor [.., heads, rows, d].
  int64_t numLeading() const { return is(SourceKind::varlen) ? 1 : 2; }
  int64_t headDim() const { return numLeading() - 1; }
  int64_t rowDim() const { return numLeading(); }
  /// Whether dimension 0 of a tensor counts batches.
  bool hasBatch() const {
    return is(SourceKind::dense) || is(SourceKind::ring);
  }
};

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_SOURCE_H
