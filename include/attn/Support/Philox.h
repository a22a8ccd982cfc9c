//===- Philox.h - The random bits of dropout --------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011), and which of its words belongs to a pair of a query and a key:
// docs/Semantics.md. For the oracle and the interpreter; compiled code has it
// as operations of a region (lib/Dialect/Attn/Transforms/Dropout.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_PHILOX_H
#define ATTN_SUPPORT_PHILOX_H

#include <algorithm>
#include <array>
#include <cstdint>

namespace attn::support {

/// Four words of a counter, and of what it is mapped to.
using PhiloxWords = std::array<uint32_t, 4>;

inline PhiloxWords philox(PhiloxWords counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(0xD2511F53u) * counter[0];
    const uint64_t b = uint64_t(0xCD9E8D57u) * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b),
               uint32_t(a >> 32) ^ counter[3] ^ key[1], uint32_t(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// Which pairs of a query and a key are dropped, and what the others count.
struct Dropout {
  float p = 0.0f; ///< The share of pairs that are dropped, 0 to 1.
  uint64_t seed = 0, offset = 0;
  /// The numbers of what a problem calls batch 0 and head 0: of a part of it.
  int64_t firstBatch = 0, firstHead = 0;

  explicit operator bool() const { return p != 0.0f; }

  /// The random word of a pair: query i of head h, key j of the sequence.
  uint32_t word(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const PhiloxWords head =
        philox({uint32_t(offset), uint32_t(offset >> 32),
                uint32_t(firstBatch + b), uint32_t(firstHead + h)},
               {uint32_t(seed), uint32_t(seed >> 32)});
    const uint32_t key = uint32_t(j);
    return philox({key / 64 * 16 + key % 16, uint32_t(i), head[2], head[3]},
                  {head[0], head[1]})[key / 16 % 4];
  }
  /// Words below this are dropped.
  uint32_t threshold() const {
    return uint32_t(std::min<uint64_t>(uint64_t(p * 0x1p32f), UINT32_MAX));
  }
  bool isKept(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return p < 1.0f && word(b, h, i, j) >= threshold();
  }
  /// What a value is multiplied by: 0, or 1 / (1 - p).
  double factor(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return !*this ? 1.0 : isKept(b, h, i, j) ? 1.0 / (1.0 - double(p)) : 0.0;
  }
};

} // namespace attn::support

#endif // ATTN_SUPPORT_PHILOX_H
