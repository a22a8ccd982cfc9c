//===- Checks.h - Checks of the reference tests -----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// No test framework: the oracle is what everything else is compared with, so
// its own tests stand on the C++ standard library alone.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_REFERENCE_CHECKS_H
#define ATTN_TEST_UNIT_REFERENCE_CHECKS_H

#include "attn/Reference/Attention.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

namespace attn::test {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double qnan = std::numeric_limits<double>::quiet_NaN();

struct Counters {
  int passed = 0, failed = 0;
};
inline Counters &counters() {
  static Counters counters;
  return counters;
}

inline void check(bool ok, const std::string &what) {
  ++(ok ? counters().passed : counters().failed);
  if (!ok)
    std::printf("FAILED: %s\n", what.c_str());
}

/// NaN wants NaN, an infinity the same infinity, a number is met within bound.
inline void checkClose(const std::vector<double> &got,
                       const std::vector<double> &want, double bound,
                       const std::string &what) {
  reference::Comparison c = reference::compare(got, want, bound);
  check(c.ok, what + ": " + c.message);
}

inline void checkError(const std::string &error, const std::string &want,
                       const std::string &what) {
  check(error.find(want) != std::string::npos &&
            error.find('\n') == std::string::npos,
        what + ": expected an error with '" + want + "', but got '" + error +
            "'");
}

/// One head, one query of value 1, d = 1 and scale 1: the scores are the keys.
/// The tensors live here, so a row must outlive its problem.
struct OneRow {
  std::vector<double> q = {1.0}, k, v;
  reference::AttentionProblem p;

  OneRow(std::vector<double> scores, std::vector<double> values,
         reference::Monoid monoid)
      : k(std::move(scores)), v(std::move(values)) {
    using namespace support;
    const int64_t n = static_cast<int64_t>(k.size());
    const int64_t dv = n ? static_cast<int64_t>(v.size()) / n : 2;
    p.q = denseView(q.data(), DType::f64, {1, 1, 1, 1});
    p.k = denseView(k.data(), DType::f64, {1, 1, n, 1});
    p.v = denseView(v.data(), DType::f64, {1, 1, n, dv});
    p.scale = 1.0;
    p.monoid = monoid;
  }
  OneRow(const OneRow &) = delete;

  reference::AttentionResult run() const {
    reference::OracleOptions options;
    options.keepPairs = true;
    auto result = reference::attention(p, options);
    check(bool(result), "the oracle takes the problem: " + result.error());
    return result ? *result : reference::AttentionResult();
  }
};

void runNpyTests(const std::string &scratch);
void runJsonTests();
void runFloat16Tests();
void runMonoidTests();
void runMaskTests();
void runErrorBoundTests();
void runExtremesTests();
void runScanTests();
void runOnnxTests(const std::string &vectors, const std::string &scratch);

} // namespace attn::test

#endif // ATTN_TEST_UNIT_REFERENCE_CHECKS_H
