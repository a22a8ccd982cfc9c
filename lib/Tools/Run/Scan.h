//===- Scan.h - What --scan says --------------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_RUN_SCAN_H
#define ATTN_LIB_TOOLS_RUN_SCAN_H

#include "Kernel.h"

#include <string>

namespace attn::run {

/// What follows --scan: sizes and options of one scan.
struct ScanSpec {
  int64_t b = 1, h = 1, hq = 0, hk = 0, hv = 0, t = 0, dk = 0, dv = 0;
  support::DType dtype = support::DType::f32;
  std::string decay = "none", erase = "none";
  int64_t weight = 0, logWeight = 0, delta = 0, readBefore = 0, bonus = 0,
          whole = 0, normalize = 0, init = 0, chunk = 0;

  int64_t stateHeads() const { return hk > hv ? hk : hv; }
};

support::Result<ScanSpec> parseScan(const std::string &text);

support::Result<Kernel> compileScan(const ScanSpec &spec,
                                    const AttnCompileOptions &options);

/// One input of the spec.
support::Result<HostTensor> drawInput(const ScanSpec &spec, const ArgInfo &arg,
                                      uint64_t seed);

} // namespace attn::run

#endif // ATTN_LIB_TOOLS_RUN_SCAN_H
