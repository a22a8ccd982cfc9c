//===- Diagonals.h - Scores that are added up along them --------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `attn.diagonals = n`, an i64 on an `attn.scores`: its scores are not written
// each to its place, but added up along diagonals, in blocks of n keys.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_DIAGONALS_H
#define ATTN_DIALECT_ATTN_IR_DIAGONALS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace mlir::attn {

constexpr llvm::StringLiteral getDiagonalsName() { return "attn.diagonals"; }

/// `attn.near = array<i64: behind, ahead>`, of a function that gives such sums:
/// those of diagonals with row - key >= behind, or key - row >= ahead, are 0;
/// -1 for none.
constexpr llvm::StringLiteral getNearName() { return "attn.near"; }

/// Keys of a block; 0 where scores have places of their own.
inline int64_t getDiagonals(Operation *op) {
  auto size = op->getAttrOfType<IntegerAttr>(getDiagonalsName());
  return size ? size.getInt() : 0;
}

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_DIAGONALS_H
