//===- Ptx.h - Kernel modules to PTX ----------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_COMPILER_PTX_H
#define ATTN_COMPILER_PTX_H

#include "attn/Support/Result.h"
#include "attn/Target/TargetInfo.h"

#include <string>

namespace mlir {
class Operation;
} // namespace mlir

namespace attn {

/// Where the time of `emitPtx` went, in milliseconds.
struct PtxTimings {
  double translateMs = 0, optimizeMs = 0, codegenMs = 0;
};

/// The PTX of a `gpu.module` in the LLVM dialect, as convert-tile-gpu-to-nvvm
/// makes it, or of the only one in a module; for the driver or ptxas.
support::Result<std::string> emitPtx(mlir::Operation *module,
                                     const TargetInfo &target,
                                     PtxTimings *timings = nullptr);

} // namespace attn

#endif // ATTN_COMPILER_PTX_H
