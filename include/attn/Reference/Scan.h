//===- Scan.h - The float64 oracle of scans ---------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The recurrence of attn.scan (docs/Semantics.md) for one state head, token by
// token, without chunks:
//
//   S' = exp(g_t) S,   S = S' + b_t a_t^T S'' + w_t k_t v_t^T,   o_t = q_t^T S
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_REFERENCE_SCAN_H
#define ATTN_REFERENCE_SCAN_H

#include <cstdint>
#include <limits>
#include <vector>

namespace attn::reference {

/// Rows of tokens, dense. What is empty is the identity of its term.
struct ScanProblem {
  int64_t tokens = 0, keyChannels = 0, valueChannels = 0;
  std::vector<double> q, k; ///< [tokens, keyChannels]
  std::vector<double> v;    ///< [tokens, valueChannels]
  double scale = 1;

  /// Log gates: one of a token, one for each key channel or for each value
  /// channel.
  enum class Gates { none, head, key, value } gates = Gates::none;
  std::vector<double> decay;
  std::vector<double> weight, logWeight; ///< [tokens]
  std::vector<double> beta;              ///< [tokens]: the delta rule
  std::vector<double> eraseA, eraseB;    ///< [tokens, keyChannels]
  std::vector<double> bonus;             ///< [keyChannels]
  bool eraseBefore = false, readBefore = false;
  bool whole = false, normalize = false;
};

/// S [keyChannels, valueChannels], z [keyChannels] and m. With logarithms of
/// weights S and z are those times exp(-m).
struct ScanState {
  std::vector<double> matrix, sum;
  double largest = -std::numeric_limits<double>::infinity();
};

/// The outputs [tokens, valueChannels]; `state` goes from the first to the
/// last. Where it is empty it begins with 0.
std::vector<double> scan(const ScanProblem &problem, ScanState &state);

} // namespace attn::reference

#endif // ATTN_REFERENCE_SCAN_H
