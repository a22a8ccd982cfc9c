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

#include <memory>
#include <string>

namespace attn {

/// The path of the assembler, or an empty string.
std::string findPtxas();

struct PtxasResult {
  std::string cubin;
  /// Registers, spills and warnings of each kernel, as the assembler says.
  std::string log;
};

/// One run of the assembler, which takes longer than all else: the caller goes
/// on while it works. Errors are one line each, and empty where there is none.
class Assembly {
public:
  Assembly();
  /// Waits for a run that nobody has finished.
  ~Assembly();
  /// Starts to assemble `ptx` for `target` ("sm_90a").
  std::string start(const std::string &ptxas, const std::string &ptx,
                    const std::string &target);
  bool isRunning() const { return run != nullptr; }
  /// Waits for the end.
  std::string finish(PtxasResult &result);

private:
  struct Run;
  std::unique_ptr<Run> run;
};

} // namespace attn

#endif // ATTN_LIB_COMPILER_PTXAS_H
