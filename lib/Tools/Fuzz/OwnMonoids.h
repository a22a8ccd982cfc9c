//===- OwnMonoids.h - What each output should be ----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_FUZZ_OWNMONOIDS_H
#define ATTN_LIB_TOOLS_FUZZ_OWNMONOIDS_H

#include "Kernel.h"
#include "attn/Reference/Attention.h"

namespace attn::fuzz {

/// The output `name` of a monoid, from the oracle's result. For the monoids
/// that the oracle does not know it is computed from the final scores, by
/// definition, each operation rounded to `dtype` (f64: not at all), and
/// operands of the products with values to tf32.
std::vector<double> outputOf(const MonoidInfo &monoid, const std::string &name,
                             const support::AttentionProblem &problem,
                             const reference::AttentionResult &result,
                             const std::vector<double> &params,
                             support::DType dtype, bool tf32 = false);

} // namespace attn::fuzz

#endif // ATTN_LIB_TOOLS_FUZZ_OWNMONOIDS_H
