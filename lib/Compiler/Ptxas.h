//===- Ptxas.h - Machine code by NVIDIA's assembler -------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ptxas is never required: without it the driver compiles PTX when it loads it.
// It is looked for in ATTN_PTXAS (a path, or "none"), PATH, CUDA_HOME/bin,
// CUDA_PATH/bin and /usr/local/cuda/bin.
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_COMPILER_PTXAS_H
#define ATTN_LIB_COMPILER_PTXAS_H

#include <string>

namespace attn {

/// The path of the assembler, or an empty string.
std::string findPtxas();

struct PtxasResult {
  std::string cubin;
  /// Registers, spills and warnings of each kernel, as the assembler says.
  std::string log;
  /// Why the assembler could not do its work here: there is no place for its
  /// files. Says nothing of the code, which the driver can still compile.
  std::string unavailable;
};

/// Assembles `ptx` for `target` ("sm_90a"). Returns an empty string or what
/// is wrong with the code or the assembler, in one line.
std::string assemble(const std::string &ptxas, const std::string &ptx,
                     const std::string &target, PtxasResult &result);

} // namespace attn

#endif // ATTN_LIB_COMPILER_PTXAS_H
