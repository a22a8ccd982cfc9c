//===- Instance.h - What is fixed when a kernel is run ----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random sizes, layouts and contents for a kernel, and what the oracle says of
// them. Slots that no query may see are filled with NaN and Inf once the
// oracle has spoken.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_FUZZ_INSTANCE_H
#define ATTN_LIB_TOOLS_FUZZ_INSTANCE_H

#include "Intervals.h"
#include "Kernel.h"
#include "Memory.h"
#include "attn/Reference/Attention.h"

#include <functional>
#include <string>
#include <vector>

namespace attn::fuzz {

/// One output as it should be.
struct Expected {
  std::string name;
  DType dtype = DType::f32;
  std::vector<double> exact;
  /// Of the first emulation: the largest differences from `exact`.
  reference::Errors error;
  /// The least bound: the rounding of a logarithm, whatever else is 0.
  double least = 0;
};

struct Instance {
  int64_t b = 1, hq = 1, hk = 1, sq = 1, sk = 1;
  /// One for each input of the kernel, in order; scalars have rank 0.
  std::vector<Tensor> inputs;
  /// Layouts of the outputs.
  std::vector<Tensor> outputs;
  std::vector<Expected> expected;
  /// The largest error of the outputs in all emulations, for each output: see
  /// reference::SumOrder. Takes a while.
  std::function<support::Result<std::vector<reference::Errors>>()>
      emulatedErrors;
  /// What an output may be in whatever order: of large scores, for which a few
  /// emulations are a throw of dice.
  std::function<support::Result<std::vector<Interval>>(size_t output)>
      intervals;
  /// The size of the largest finite score, which says how far rounding goes.
  std::function<double()> largestScore;
  /// Scores x100.
  bool hot = false;
  /// Rows begin at multiples of 16 bytes, as tensor copies of GPUs want them.
  bool aligned = false;
  /// "b=1 hq=8 ...": one line for people.
  std::string summary;
};

/// Fills `instance` in; returns an error of the oracle, or nothing.
/// With `poison` unset dead slots keep their finite values.
std::string makeInstance(const Kernel &kernel, uint64_t seed, uint64_t index,
                         bool poison, Instance &instance);

} // namespace attn::fuzz

#endif // ATTN_LIB_TOOLS_FUZZ_INSTANCE_H
