//===- Scans.h - Evaluates attn.scan ----------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_INTERPRETER_SCANS_H
#define ATTN_LIB_INTERPRETER_SCANS_H

#include "attn/Interpreter/Reference.h"

#include <functional>

namespace attn::detail {

/// The values of the function that is evaluated.
struct FunctionValues {
  /// Null for no value.
  std::function<ReferenceValue *(mlir::Value)> get;
  /// A result, filled with zeros.
  std::function<ReferenceValue &(mlir::Value, std::vector<int64_t> shape)>
      define;
};

/// Evaluates an attn.scan token by token: reference::scan, or an emulation of
/// it. Pools of states are written.
llvm::LogicalResult evaluateScan(mlir::Operation *op,
                                 const FunctionValues &values,
                                 const ReferenceOptions &options);

/// Evaluates an attn.scan_partial, part by part in the same way.
llvm::LogicalResult evaluateScanPartial(mlir::Operation *op,
                                        const FunctionValues &values,
                                        const ReferenceOptions &options);

/// Evaluates an attn.scan_combine, one part after the other.
llvm::LogicalResult evaluateScanCombine(mlir::Operation *op,
                                        const FunctionValues &values,
                                        const ReferenceOptions &options);

} // namespace attn::detail

#endif // ATTN_LIB_INTERPRETER_SCANS_H
