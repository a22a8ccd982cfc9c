//===- Scan.cpp - The float64 oracle of scans -----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Reference/Scan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

using namespace ::attn::reference;

namespace {

/// One token after the other.
class Recurrence {
public:
  Recurrence(const ScanProblem &p, ScanState &state)
      : p(p), s(state), dk(p.keyChannels), dv(p.valueChannels) {
    s.matrix.resize(size_t(dk * dv));
    s.sum.resize(size_t(dk));
  }

  std::vector<double> run() {
    const int64_t queries = static_cast<int64_t>(p.q.size()) / dk;
    std::vector<double> out(size_t(queries * dv));
    for (int64_t t = 0; t < p.tokens; ++t) {
      if (p.readBefore && t < queries)
        read(t, out);
      step(t);
      if (!p.readBefore && !p.whole && t < queries)
        read(t, out);
    }
    for (int64_t t = p.whole ? 0 : p.tokens; t < queries; ++t)
      read(t, out);
    return out;
  }

private:
  double &at(int64_t d, int64_t c) { return s.matrix[size_t(d * dv + c)]; }
  static double element(const std::vector<double> &rows, int64_t row,
                        int64_t width, int64_t column) {
    return rows[size_t(row * width + column)];
  }

  /// a^T S in each value channel.
  std::vector<double> project(const std::vector<double> &rows, int64_t t) {
    std::vector<double> sums(static_cast<size_t>(dv));
    for (int64_t d = 0; d < dk; ++d)
      for (int64_t c = 0; c < dv; ++c)
        sums[size_t(c)] += element(rows, t, dk, d) * at(d, c);
    return sums;
  }

  void decay(int64_t t) {
    std::vector<double> columns(static_cast<size_t>(dv), 1.0);
    for (int64_t c = 0; p.gates == ScanProblem::Gates::value && c < dv; ++c)
      columns[size_t(c)] = std::exp(element(p.decay, t, dv, c));
    for (int64_t d = 0; d < dk; ++d) {
      double row = 1;
      if (p.gates == ScanProblem::Gates::head)
        row = std::exp(p.decay[size_t(t)]);
      else if (p.gates == ScanProblem::Gates::key)
        row = std::exp(element(p.decay, t, dk, d));
      s.sum[size_t(d)] *= row;
      for (int64_t c = 0; c < dv; ++c)
        at(d, c) *= row * columns[size_t(c)];
    }
  }

  void step(int64_t t) {
    double weight = p.weight.empty() ? 1 : p.weight[size_t(t)];
    std::vector<double> erased;
    if (!p.eraseA.empty() && p.eraseBefore)
      erased = project(p.eraseA, t);
    if (p.logWeight.empty()) {
      if (p.gates != ScanProblem::Gates::none)
        decay(t);
    } else {
      // Relative to the largest weight so far, with what has decayed of it.
      double gate =
          p.gates == ScanProblem::Gates::head ? p.decay[size_t(t)] : 0;
      double own = p.logWeight[size_t(t)];
      double next = std::max(s.largest + gate, own);
      double from = std::isinf(next) ? 0 : next;
      double factor = std::exp(s.largest + gate - from);
      for (double &x : s.matrix)
        x *= factor;
      for (double &x : s.sum)
        x *= factor;
      weight = std::exp(own - from);
      s.largest = next;
    }
    if (!p.eraseA.empty() && !p.eraseBefore)
      erased = project(p.eraseA, t);
    std::vector<double> known;
    if (!p.beta.empty())
      known = project(p.k, t);
    for (int64_t d = 0; d < dk; ++d) {
      double key = weight * element(p.k, t, dk, d);
      s.sum[size_t(d)] += key;
      for (int64_t c = 0; c < dv; ++c) {
        double value = element(p.v, t, dv, c);
        if (!known.empty())
          value = p.beta[size_t(t)] * (value - known[size_t(c)]);
        at(d, c) += key * value;
        if (!erased.empty())
          at(d, c) += element(p.eraseB, t, dk, d) * erased[size_t(c)];
      }
    }
  }

  void read(int64_t t, std::vector<double> &out) {
    std::vector<double> sums = project(p.q, t);
    double own = 0, total = 0;
    for (int64_t d = 0; d < dk; ++d) {
      double q = element(p.q, t, dk, d);
      total += q * s.sum[size_t(d)];
      if (!p.bonus.empty() && t < p.tokens)
        own += q * p.bonus[size_t(d)] * element(p.k, t, dk, d);
    }
    for (int64_t c = 0; c < dv; ++c) {
      double value = p.scale * sums[size_t(c)];
      if (p.normalize)
        value = total == 0 ? 0 : sums[size_t(c)] / total;
      else if (!p.logWeight.empty() && value != 0)
        value *= std::exp(s.largest);
      if (!p.bonus.empty() && t < p.tokens)
        value += p.scale * own * element(p.v, t, dv, c);
      out[size_t(t * dv + c)] = value;
    }
  }

  const ScanProblem &p;
  ScanState &s;
  int64_t dk, dv;
};

} // namespace

std::vector<double> attn::reference::scan(const ScanProblem &problem,
                                          ScanState &state) {
  return Recurrence(problem, state).run();
}
