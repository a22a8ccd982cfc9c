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

#include "attn/Interpreter/Evaluate.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <vector>

namespace attn {

/// Evaluates a function of tensors and scalars whose body holds operations of
/// attn, `tensor.dim` and scalar arithmetic. Reports what cannot be evaluated,
/// and arguments that do not fit, as errors at the operation.
llvm::FailureOr<std::vector<ReferenceValue>>
evaluateReference(mlir::func::FuncOp function,
                  llvm::ArrayRef<ReferenceValue> arguments,
                  const ReferenceOptions &options = {});

} // namespace attn

#endif // ATTN_INTERPRETER_REFERENCE_H
