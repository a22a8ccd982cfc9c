//===- AttributeNames.h - Attributes of the attn dialect --------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What passes leave for later ones on operations of other dialects. Together
// with `attn.dispatch`, `attn.rung` and `attn.saved_bytes` (Attn.h) these are
// all that there are. The dialect verifies them, and knows no others, on
// operations and on arguments and results of functions.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTRIBUTENAMES_H
#define ATTN_DIALECT_ATTN_IR_ATTRIBUTENAMES_H

#include "llvm/ADT/StringRef.h"

namespace mlir::attn {

/// Of a module: the name of what it is compiled for (absent: this machine).
constexpr llvm::StringLiteral getTargetName() { return "attn.target"; }

/// Of a module: the sizes [b, hq, sq, sk(, hk)] that its runs are expected to
/// have, 0 where nothing is: a hint, right or wrong.
constexpr llvm::StringLiteral getExpectedSizesName() {
  return "attn.expected_sizes";
}

/// Of a function that gives gradients: of which argument each result is, and
/// where it reads the element that has it, "table[h,j]".
constexpr llvm::StringLiteral getGradientsName() { return "attn.gradients"; }

/// Of a function whose gradients may be added up in any order: the same call
/// may then give other bits.
constexpr llvm::StringLiteral getAnyOrderName() { return "attn.any_order"; }

/// Of a function that gives sums by distance (`diagonals` of attn.scores):
/// array<i64: behind, ahead>; those with row - key >= behind, or key - row >=
/// ahead, are 0; -1 for none.
constexpr llvm::StringLiteral getNearName() { return "attn.near"; }

/// Of an argument or a result: what it is called, and which sizes have to be
/// equal. Users may write it too, with what they know.
constexpr llvm::StringLiteral getArgName() { return "attn.arg"; }

/// Of an argument: the number of the argument whose memory it is, and of which
/// it has the first columns. Users may write it too.
constexpr llvm::StringLiteral getColumnsOfName() { return "attn.columns_of"; }

/// Of a function: pairs of sizes, the first of which is a multiple of the
/// second.
constexpr llvm::StringLiteral getMultiplesName() { return "attn.multiples"; }

/// Of an entry in the LLVM dialect, whose arguments have no types to speak of:
/// `attn.arg` of each, with its type.
constexpr llvm::StringLiteral getInterfaceName() { return "attn.interface"; }

/// Of the making of a tensor map: what its tensor is called in errors.
constexpr llvm::StringLiteral getTensorNameName() { return "attn.tensor_name"; }

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_ATTRIBUTENAMES_H
