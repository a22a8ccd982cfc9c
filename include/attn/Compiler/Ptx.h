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

#include <memory>
#include <string>
#include <vector>

namespace mlir {
class Operation;
} // namespace mlir

namespace attn {

/// Where the time of PTX went, in milliseconds, of all threads together.
struct PtxTimings {
  double translateMs = 0, optimizeMs = 0, codegenMs = 0;
};

/// Kernels as LLVM has them, each in a module and a context of its own, so that
/// the code of one depends on no other beside it, and threads can make PTX of
/// several. What was translated is not looked at again.
class KernelCode {
public:
  KernelCode(KernelCode &&);
  ~KernelCode();

  /// Takes a `gpu.module` in the LLVM dialect, as convert-tile-gpu-to-nvvm
  /// makes it, or the only one in a module. `isOurs`: that pass has just made
  /// it, so that LLVM need not verify what comes of it.
  static support::Result<KernelCode> translate(mlir::Operation *module,
                                               const TargetInfo &target,
                                               bool isOurs = false);

  /// The PTX of the kernels in their order, for the driver or ptxas. Once.
  support::Result<std::string> emitPtx();

  PtxTimings timings;

private:
  struct Kernel;

  KernelCode();

  TargetInfo target;
  std::vector<Kernel> kernels;
};

} // namespace attn

#endif // ATTN_COMPILER_PTX_H
