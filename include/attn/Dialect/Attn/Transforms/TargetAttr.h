//===- TargetAttr.h - The target that a module is compiled for --*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_TRANSFORMS_TARGETATTR_H
#define ATTN_DIALECT_ATTN_TRANSFORMS_TARGETATTR_H

#include "attn/Target/TargetInfo.h"
#include "mlir/IR/BuiltinOps.h"

namespace attn {
/// The target named by the module's attribute `attn.target` (absent: the
/// host), or nothing after reporting that there is none of that name.
std::optional<TargetInfo> getTarget(mlir::ModuleOp module);
} // namespace attn

#endif // ATTN_DIALECT_ATTN_TRANSFORMS_TARGETATTR_H
