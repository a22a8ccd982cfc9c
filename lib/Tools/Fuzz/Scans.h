//===- Scans.h - Random scans -----------------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The family `scan`: rules, sizes, layouts and contents of attn.scan, against
// the recurrence in float64. A case may run in pieces, each from the state that
// the one before it has left.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_FUZZ_SCANS_H
#define ATTN_LIB_TOOLS_FUZZ_SCANS_H

#include "Case.h"
#include "attn-c/Scans.h"

namespace attn::fuzz {

/// What is fixed when a scan is compiled.
struct ScanKernel {
  AttnScanDesc desc;
  /// The name of the feature map, or nothing.
  std::string feature;
};

/// `gpu`: of those that kernels of GPUs have.
ScanKernel makeScan(uint64_t seed, uint64_t index, bool gpu);

std::string describe(const ScanKernel &kernel);

AttnError *compileScan(AttnContext *context, const ScanKernel &kernel,
                       const Options &options, AttnKernel **compiled);

CaseResult runScan(const AttnKernel *compiled, const ScanKernel &kernel,
                   const Options &options, int64_t index, Arena *arena);

} // namespace attn::fuzz

#endif // ATTN_LIB_TOOLS_FUZZ_SCANS_H
