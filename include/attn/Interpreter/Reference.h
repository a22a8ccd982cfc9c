//===- Reference.h - Evaluates functions on attn operations -----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The meaning of `attn.attention`, `attn.aggregate` and the operations on
// states, for any monoid: one row after the other, one key after the other, in
// float64. No tiles, no rewrites, none of the compiler's passes. Where a user
// brings a monoid that no oracle knows, this is what the compiled kernel is
// compared with.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INTERPRETER_REFERENCE_H
#define ATTN_INTERPRETER_REFERENCE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstdint>
#include <vector>

namespace attn {

/// A tensor in C order, or a scalar (no dimensions, one element). Integers and
/// booleans are held as doubles too.
struct ReferenceValue {
  std::vector<int64_t> shape;
  std::vector<double> data;

  int64_t size() const {
    int64_t product = 1;
    for (int64_t extent : shape)
      product *= extent;
    return product;
  }
};

struct ReferenceOptions {
  /// What results round to. `Exact` is float64 throughout. With the others the
  /// evaluation is an emulation, whose error says how much error the format
  /// excuses: regions compute in float32, and dots, scores, weights, factors
  /// and outputs are rounded to the format; sums are kept in float32.
  enum class Rounding { Exact, F32, F16, BF16 };
  Rounding rounding = Rounding::Exact;
  /// Every how many rows one is evaluated: for large problems. Rows that are
  /// passed over are 0 in every result. Row r of [b, hq, sq] in C order is
  /// evaluated where r % rowStride == rowOffset.
  int64_t rowStride = 1, rowOffset = 0;
};

/// Evaluates a function of tensors and scalars whose body holds operations of
/// attn, `tensor.dim` and scalar arithmetic. Reports what cannot be evaluated,
/// and arguments that do not fit, as errors at the operation.
llvm::FailureOr<std::vector<ReferenceValue>>
evaluateReference(mlir::func::FuncOp function,
                  llvm::ArrayRef<ReferenceValue> arguments,
                  const ReferenceOptions &options = {});

} // namespace attn

#endif // ATTN_INTERPRETER_REFERENCE_H
