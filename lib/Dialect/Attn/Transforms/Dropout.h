//===- Dropout.h - The factor of dropout, as operations ---------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DROPOUT_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DROPOUT_H

#include "mlir/IR/Builders.h"

namespace mlir::attn {

/// The factor, f32, of the pair of query i of head h and key j, all i32: 0 with
/// the probability `p` (f32), else 1 / (1 - p). `rng`: i32 words of the seed
/// and the offset, low ones first. docs/Semantics.md says which bits decide.
Value buildDropoutFactor(OpBuilder &b, Location loc, Value p, ValueRange rng,
                         Value batch, Value head, Value row, Value key);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DROPOUT_H
