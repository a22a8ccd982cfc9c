//===- Random.h - Seeded numbers, the same everywhere -----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_FUZZ_RANDOM_H
#define ATTN_LIB_TOOLS_FUZZ_RANDOM_H

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace attn::fuzz {

/// SplitMix64. The distributions of <random> differ between libraries; a
/// reproducing command must not.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  /// A stream of its own for each (seed, index). The seed is mixed first: the
  /// states of a stream are multiples of one number apart.
  Random(uint64_t seed, uint64_t index) : state(seed) {
    state = next() + index * 0xD1B54A32D192ED03u;
    next();
  }

  uint64_t next() {
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// Both ends included.
  int64_t range(int64_t low, int64_t high) {
    return low +
           static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(double probability) { return uniform() < probability; }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double uniform(double low, double high) {
    return low + (high - low) * uniform();
  }
  double normal() {
    double u = uniform(), v = uniform();
    return std::sqrt(-2.0 * std::log(u + 0x1p-60)) * std::cos(6.283185307 * v);
  }
  template <typename T> T pick(std::initializer_list<T> choices) {
    return choices.begin()[range(0, static_cast<int64_t>(choices.size()) - 1)];
  }
  template <typename T> const T &pick(const std::vector<T> &choices) {
    return choices[range(0, static_cast<int64_t>(choices.size()) - 1)];
  }
  /// Rows or keys of a sequence: often none, one or few.
  int64_t rows() {
    if (chance(0.03))
      return 0;
    if (chance(0.15))
      return 1;
    if (chance(0.3))
      return range(1, 20);
    return range(1, 300);
  }

private:
  uint64_t state;
};

} // namespace attn::fuzz

#endif // ATTN_LIB_TOOLS_FUZZ_RANDOM_H
