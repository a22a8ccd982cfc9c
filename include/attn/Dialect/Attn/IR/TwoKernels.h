//===- TwoKernels.h - Where a fused pair has kernels of its own -*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_TWOKERNELS_H
#define ATTN_DIALECT_ATTN_IR_TWOKERNELS_H

#include "llvm/ADT/StringRef.h"

namespace mlir::attn {

/// Of an attn.fused for a GPU: for which sizes its kernel runs (array<i64>: so
/// many queries and tiles of keys, of all heads, at least, and query heads of a
/// key head at most), and the schedule that its aggregate over queries has for
/// others, of which each of the two runs for itself.
constexpr llvm::StringLiteral getTurnSizesName() { return "attn.turn_sizes"; }
constexpr llvm::StringLiteral getTwoKernelsName() { return "attn.two_kernels"; }

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_TWOKERNELS_H
