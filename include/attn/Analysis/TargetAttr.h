//===- TargetAttr.h - The target that a module is compiled for --*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_TARGETATTR_H
#define ATTN_ANALYSIS_TARGETATTR_H

#include "attn/Target/TargetInfo.h"
#include "mlir/IR/BuiltinOps.h"

namespace attn {
/// The target named by the module's attribute `attn.target` (absent: the
/// host), or nothing after reporting that there is none of that name.
std::optional<TargetInfo> getTarget(mlir::ModuleOp module);

/// The CPU target of that name, or the module's when the name is empty; nothing
/// after reporting what would be one.
std::optional<TargetInfo> getCpuTarget(mlir::ModuleOp module,
                                       llvm::StringRef name);

/// The module's target where it is a GPU; nothing after reporting what would be
/// one.
std::optional<TargetInfo> getGpuTarget(mlir::ModuleOp module);
} // namespace attn

#endif // ATTN_ANALYSIS_TARGETATTR_H
