//===- Roofline.cpp - What this machine can do ----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Roofline.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace ::attn::run;
using attn::support::DType;

/// Runs `rounds` rounds; returns the operations that they are.
using Loop = double (*)(int64_t rounds);

/// What a loop computed must look used.
static volatile float sink;

#if defined(__x86_64__)
/// Chains that are independent, enough of them to hide the latency. A macro:
/// vectors cannot be passed between functions of different targets.
#define ATTN_FMA_LOOP(NAME, BYTES)                                             \
  static double NAME(int64_t rounds) {                                         \
    typedef float Vector __attribute__((vector_size(BYTES)));                  \
    constexpr int numChains = 12;                                              \
    Vector zero = {}, factor = zero + 0.25f, term = zero + 1.0f;               \
    Vector chains[numChains];                                                  \
    for (int i = 0; i < numChains; ++i)                                        \
      chains[i] = term * float(i);                                             \
    for (int64_t round = 0; round < rounds; ++round)                           \
      for (int i = 0; i < numChains; ++i)                                      \
        chains[i] = chains[i] * factor + term;                                 \
    Vector sum = chains[0];                                                    \
    for (int i = 1; i < numChains; ++i)                                        \
      sum += chains[i];                                                        \
    sink = sum[0];                                                             \
    return double(rounds) * numChains * 2.0 * (BYTES / sizeof(float));         \
  }
__attribute__((target("avx512f"))) ATTN_FMA_LOOP(fmaAvx512, 64)
    __attribute__((target("avx2,fma"))) ATTN_FMA_LOOP(fmaAvx2, 32)
        ATTN_FMA_LOOP(mulAddSse, 16)

            __attribute__((target("avx512f,avx512bf16"))) static double dotBf16(
                int64_t rounds) {
  constexpr int numChains = 12;
  __m512 chains[numChains];
  for (int i = 0; i < numChains; ++i)
    chains[i] = _mm512_set1_ps(float(i));
  __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.5f));
  for (int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < numChains; ++i)
      chains[i] = _mm512_dpbf16_ps(chains[i], a, a);
  }
  __m512 sum = chains[0];
  for (int i = 1; i < numChains; ++i)
    sum = _mm512_add_ps(sum, chains[i]);
  sink = _mm512_cvtss_f32(sum);
  return double(rounds) * numChains * 64.0;
}

__attribute__((target("amx-tile,amx-bf16"))) static double
dotAmx(int64_t rounds) {
  // Eight tiles of 16 rows of 64 bytes.
  struct alignas(64) {
    uint8_t palette = 1, startRow = 0, reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_release();
  return double(rounds) * 4 * 2.0 * 16 * 16 * 32;
}
#else
static double mulAddSse(int64_t rounds) {
  float chains[8] = {};
  for (int64_t round = 0; round < rounds; ++round)
    for (float &chain : chains)
      chain = chain * 0.5f + 1.0f;
  sink = chains[0] + chains[7];
  return double(rounds) * 16;
}
#endif

static Loop chooseLoop(const std::string &target, DType dtype,
                       std::string &instruction) {
#if defined(__x86_64__)
  bool isBf16 = dtype == DType::bf16;
  if (isBf16 && target == "cpu-amx") {
    instruction = "AMX bf16";
    return dotAmx;
  }
  if (isBf16 && target == "cpu-avx512-bf16") {
    instruction = "AVX-512 bf16";
    return dotBf16;
  }
  if (target.rfind("cpu-avx512", 0) == 0 || target == "cpu-amx") {
    instruction = "AVX-512 f32";
    return fmaAvx512;
  }
  if (target == "cpu-avx2") {
    instruction = "AVX2 f32";
    return fmaAvx2;
  }
#endif
  instruction = "f32";
  return mulAddSse;
}

/// Seconds that `work(thread)` takes on all threads together.
template <typename F> static double timeThreads(int threads, F work) {
  auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> pool;
  for (int i = 1; i < threads; ++i)
    pool.emplace_back([&work, i] { work(i); });
  work(0);
  for (std::thread &thread : pool)
    thread.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

Peaks attn::run::measurePeaks(const std::string &target, DType dtype,
                              int threads) {
  Peaks peaks;
  Loop loop = chooseLoop(target, dtype, peaks.instruction);
  // As many rounds as take some milliseconds, beside which the start of threads
  // is short; the best of a few. One thread has nothing to start, and shorter
  // ones are more often left alone on a machine with other work.
  double least = threads == 1 ? 0.0005 : 0.003;
  int repeats = threads == 1 ? 40 : 5;
  int64_t rounds = 1000;
  while (timeThreads(1, [&](int) { loop(rounds); }) < least)
    rounds *= 2;
  std::vector<double> done(threads);
  for (int repeat = 0; repeat < repeats; ++repeat) {
    double seconds =
        timeThreads(threads, [&](int i) { done[i] = loop(rounds); });
    double total = 0;
    for (double flops : done)
      total += flops;
    peaks.flopsPerSecond = std::max(peaks.flopsPerSecond, total / seconds);
  }

  // Reading more than caches hold.
  constexpr size_t bytes = size_t(64) << 20;
  std::vector<uint64_t> memory(bytes / sizeof(uint64_t), 1);
  std::vector<uint64_t> sums(threads);
  size_t part = memory.size() / size_t(threads);
  for (int repeat = 0; repeat < 3; ++repeat) {
    double seconds = timeThreads(threads, [&](int i) {
      uint64_t lanes[8] = {};
      const uint64_t *from = memory.data() + size_t(i) * part;
      for (size_t k = 0; k + 8 <= part; k += 8)
        for (size_t lane = 0; lane < 8; ++lane)
          lanes[lane] += from[k + lane];
      for (uint64_t lane : lanes)
        sums[i] += lane;
    });
    peaks.bytesPerSecond =
        std::max(peaks.bytesPerSecond, double(part * threads * 8) / seconds);
  }
  sink = float(sums[0]);
  return peaks;
}
