//===- HeldSamples.h - What masks read and keep -----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `attn.held_samples` on an attn.aggregate with `attn.listed_keys` says that
// what its mask reads of keys and rows stays in registers for a masked tile:
// there is room for it beside scores, weights and sums (attn-list-key-tiles).
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_HELDSAMPLES_H
#define ATTN_DIALECT_ATTN_IR_HELDSAMPLES_H

#include "llvm/ADT/StringRef.h"

namespace mlir::attn {

constexpr llvm::StringLiteral getHeldSamplesName() {
  return "attn.held_samples";
}

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_HELDSAMPLES_H
