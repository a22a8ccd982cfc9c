//===- Unfold.h - attn.unfold, evaluated ------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_INTERPRETER_UNFOLD_H
#define ATTN_LIB_INTERPRETER_UNFOLD_H

#include "Scans.h"
#include "attn/Dialect/Attn/IR/Attn.h"

namespace attn::detail {

/// Evaluates an attn.unfold, row by row as its description says.
llvm::LogicalResult evaluateUnfold(mlir::attn::UnfoldOp op,
                                   const FunctionValues &values,
                                   const ReferenceOptions &options);

} // namespace attn::detail

#endif // ATTN_LIB_INTERPRETER_UNFOLD_H
