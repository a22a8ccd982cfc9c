//===- DeadIsZero.h - Sums whose dead pairs have scores of 0 ----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DEADISZERO_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DEADISZERO_H

#include "llvm/ADT/StringRef.h"

namespace mlir::attn {

/// Says of an attn.aggregate that its scores are 0 for pairs that are dead by
/// their scores, as attn-differentiate writes them, and never -inf all
/// together: nothing has to test them again.
inline constexpr llvm::StringLiteral deadIsZeroName = "attn.dead_is_zero";

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DEADISZERO_H
