//===- Intervals.h - What outputs of large scores may be --------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A score of 1e6 is known in float32 to a few hundredths, and its weight to a
// few percent: no bar from the errors of a few emulations says what another
// order of the same operations gives. What every order gives can be said: each
// score is off by some roundings of its own size, and the weights by what the
// exponential makes of that. So an average of values stays within the values
// of the keys that may have the largest score.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_FUZZ_INTERVALS_H
#define ATTN_LIB_TOOLS_FUZZ_INTERVALS_H

#include "attn/Reference/Attention.h"

namespace attn::fuzz {

struct Interval {
  double low = 0.0, high = 0.0;
};

/// For each entry of the output `name`, in C order: what it may be where dots
/// are exact, as those of whole numbers are. `result` is that of the oracle,
/// with its pairs; `products` is the type that operands of products have.
/// Monoids whose weights are bounded.
std::vector<Interval> intervalsOf(const support::AttentionProblem &problem,
                                  const reference::AttentionResult &result,
                                  const std::string &name,
                                  support::DType products);

} // namespace attn::fuzz

#endif // ATTN_LIB_TOOLS_FUZZ_INTERVALS_H
