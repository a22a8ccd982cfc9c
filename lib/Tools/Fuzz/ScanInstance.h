//===- ScanInstance.h - What is fixed when a scan is run --------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_FUZZ_SCANINSTANCE_H
#define ATTN_LIB_TOOLS_FUZZ_SCANINSTANCE_H

#include "Memory.h"
#include "Scans.h"
#include "attn/Reference/Attention.h"

#include <functional>

namespace attn::fuzz {

struct ScanTensor {
  std::string name;
  Tensor tensor;
  /// The dimension of tokens, or -1.
  int tokenAxis = -1;
};

/// An output, or the pool that one is in, as it should be.
struct ScanExpected {
  std::string name;
  Tensor tensor;
  std::vector<double> exact;
};

/// Sizes, layouts and contents, and what the oracle says of them.
struct ScanInstance {
  std::vector<ScanTensor> inputs;
  std::vector<Tensor> outputs;
  int outputAxis = 2;
  std::vector<ScanExpected> expected;
  /// Tokens at which a piece ends, the last of them all of the tokens.
  std::vector<int64_t> cuts;
  /// The largest error of an expected tensor in some or all emulations.
  std::function<reference::Errors(size_t index, bool all)> emulatedErrors;
  std::string summary;
};

ScanInstance makeScanInstance(const ScanKernel &kernel, uint64_t seed,
                              int64_t index);

/// A feature map of a kernel, in float64 or rounded to float32.
double applyFeature(const std::string &name, double x, bool isExact);

} // namespace attn::fuzz

#endif // ATTN_LIB_TOOLS_FUZZ_SCANINSTANCE_H
