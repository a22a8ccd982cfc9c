//===- Roofline.h - What this machine can do --------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Peaks are measured, not looked up: for a few milliseconds each, on as many
// threads as the kernel uses, with the instructions of its target.
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_RUN_ROOFLINE_H
#define ATTN_LIB_TOOLS_RUN_ROOFLINE_H

#include "attn/Support/DType.h"
#include <string>

namespace attn::run {

struct Peaks {
  double flopsPerSecond = 0;
  double bytesPerSecond = 0;
  /// The instruction that the first was measured with.
  std::string instruction;
};

Peaks measurePeaks(const std::string &target, support::DType dtype,
                   int threads);

} // namespace attn::run

#endif // ATTN_LIB_TOOLS_RUN_ROOFLINE_H
