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
  /// [tokens, keyChannels]. Queries may be fewer, or more: then the last of
  /// them read the state after all tokens.
  std::vector<double> q, k;
  std::vector<double> v; ///< [tokens, valueChannels]
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

  /// Whether kernels may round, where outputs are made of them, the state and,
  /// but for the delta rule, the weights of a chunk to bf16.
  bool hasNarrowReads() const {
    return (gates == Gates::none || gates == Gates::head) && !whole &&
           !normalize && logWeight.empty() && eraseA.empty();
  }
};

/// S [keyChannels, valueChannels], z [keyChannels] and m. With logarithms of
/// weights S and z are those times exp(-m).
struct ScanState {
  std::vector<double> matrix, sum;
  double largest = -std::numeric_limits<double>::infinity();
};

/// The outputs, valueChannels of each query; `state` goes from the first to the
/// last. Where it is empty it begins with 0.
std::vector<double> scan(const ScanProblem &problem, ScanState &state);

/// How the same is computed in float32.
struct ScanOrder {
  /// Tokens after which the state is written down. Up to there it is what it
  /// was and a list of what tokens have added to it, as kernels have it.
  int64_t chunk = 1;
  /// Term n of a sum over channels or tokens goes to partial sum n % lanes, of
  /// at most 16.
  int lanes = 1;
  /// From the last term to the first.
  bool backwards = false;
  /// What `hasNarrowReads` says is done.
  bool narrow = false;
};

/// An emulation, whose error says how much error float32 excuses.
std::vector<double> emulatedScan(const ScanProblem &problem, ScanState &state,
                                 const ScanOrder &order);

} // namespace attn::reference

#endif // ATTN_REFERENCE_SCAN_H
