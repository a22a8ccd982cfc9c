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

/// Rules of what changes a state, the same for scans and for their parts: gates
/// for heads or channels of `dk` and `dv`, weights and what is erased.
template <typename OpTy>
LogicalResult verifyRule(OpTy op, int64_t dk, int64_t dv) {
  if (op.getValueGates() && !op.getDecay())
    return op.emitOpError("expected decay beside value_gates");
  int64_t gates = op.hasChannelGates() ? (op.getValueGates() ? dv : dk) : 0;
  if (op.getValueGates() && !gates)
    return op.emitOpError("expected decay for each value channel, as "
                          "value_gates says, but got ")
           << op.getDecay().getType();
  Value key = op.getKey();
  if (failed(verifyTokens(op, key, "decay", op.getDecay(), gates)) ||
      failed(verifyTokens(op, key, "weight", op.getWeight(), 0)) ||
      failed(verifyTokens(op, key, "log_weight", op.getLogWeight(), 0)) ||
      failed(verifyTokens(op, key, "delta", op.getDelta(), 0)) ||
      failed(verifyTokens(op, key, "erase", op.getEraseA(), dk)) ||
      failed(verifyTokens(op, key, "erase", op.getEraseB(), dk)))
    return failure();
  bool erases = op.getDelta() || op.getEraseA();
  if ((op.getDelta() && op.getEraseA()) ||
      (erases && (op.getWeight() || op.getLogWeight() || op.getValueGates() ||
                  op.getNormalize())))
    return op.emitOpError("expected delta or erase, without weights, "
                          "value_gates and normalize");
  if (op.getEraseBefore() && !op.getEraseA())
    return op.emitOpError("expected erase beside erase_before");
  if (op.getLogWeight() && (op.getWeight() || op.hasChannelGates()))
    return op.emitOpError("expected log_weight without weight and without "
                          "gates for each channel");
  if (op.getValueGates() && op.getNormalize())
    return op.emitOpError("expected value_gates without normalize, since no "
                          "gate is that of the denominator");
  return success();
}

} // namespace mlir::attn::detail

#endif // ATTN_LIB_DIALECT_ATTN_IR_SCANVERIFIERS_H
