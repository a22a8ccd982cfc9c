//===- Case.h - One random attention, compiled and run ----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_FUZZ_CASE_H
#define ATTN_LIB_TOOLS_FUZZ_CASE_H

#include "Arena.h"
#include "Memory.h"
#include "Options.h"
#include "attn-c/attn.h"

#include <string>

namespace attn::fuzz {

/// Compiles kernel number `index`, as text or from a description.
AttnError *compileKernel(AttnContext *context, const Kernel &kernel,
                         const Options &options, uint64_t index,
                         AttnKernel **compiled);

/// Whether that failed because the random schedule is too large for the target.
bool isRefusedSchedule(const Kernel &kernel, const std::string &message);

/// Runs a kernel once, in the memory of a GPU where there is an `arena`.
/// Returns what went wrong.
std::string runOnce(const AttnKernel *kernel, const std::vector<Tensor> &inputs,
                    const std::vector<Tensor> &outputs, int threads,
                    Arena *arena);

struct CaseResult {
  /// What went wrong; empty: nothing.
  std::string message;
  /// The case in one line.
  std::string summary;
  /// The worst share of its bound that an output used.
  double worstShare = 0;
  /// The layout was refused, as it had to be; or an output was undecided.
  bool skipped = false;
  /// The GPU's context is of no use any more.
  bool broken = false;
};

/// Runs a case, in the memory of a GPU where there is an `arena`.
CaseResult runCase(const AttnKernel *compiled, const Kernel &kernel,
                   const Options &options, int64_t index, Arena *arena);

/// What a wrong compiler might do after a run.
void tamper(const std::string &how, const std::vector<Tensor> &outputs,
            const std::vector<Tensor> &inputs);

} // namespace attn::fuzz

#endif // ATTN_LIB_TOOLS_FUZZ_CASE_H
