//===- ScanVerifiers.h - What operations of scans check ---------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_IR_SCANVERIFIERS_H
#define ATTN_LIB_DIALECT_ATTN_IR_SCANVERIFIERS_H

#include "attn/Dialect/Attn/IR/Scan.h"

namespace mlir::attn::detail {

inline RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

inline bool sizesMeet(int64_t a, int64_t b) {
  return a == b || ShapedType::isDynamic(a) || ShapedType::isDynamic(b);
}

/// Checks a tensor for each token of each state head: `width` channels, or none
/// where it is 0.
LogicalResult verifyTokens(Operation *op, Value key, StringRef name,
                           Value value, int64_t width);
/// Checks a region that makes one number of `count` others.
LogicalResult verifyElementwise(Operation *op, Region &region, StringRef name,
                                size_t count = 1);
/// Checks the region of gates, of `channels` channels or, where it is 0, of
/// heads, and what it takes beside an element.
LogicalResult verifyGate(Operation *op, Region &gate, ValueRange captures,
                         bool hasDecay, int64_t channels);

} // namespace mlir::attn::detail

#endif // ATTN_LIB_DIALECT_ATTN_IR_SCANVERIFIERS_H
