//===- OwnMonoids.cpp - What each output should be ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OwnMonoids.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace ::attn;
using namespace ::attn::fuzz;
using support::AttentionProblem;

namespace {
/// One row of a monoid of this tool.
struct Row {
  std::vector<double> scores;         // of live keys
  std::vector<const double *> values; // of the same keys
  std::vector<double> factors;        // of their values: what dropout leaves
};
/// What a row gives: o, then the scalars in the order of the outputs.
struct RowResult {
  std::vector<double> o;
  double scalars[2] = {0, 0};
};
} // namespace

static RowResult reduce(const std::string &monoid, const Row &row, int64_t dv,
                        const std::vector<double> &params, support::DType dtype,
                        bool tf32) {
  auto round = [dtype](double x) { return support::roundTo(dtype, x); };
  auto sum = [dtype](double x) {
    return dtype == support::DType::f64 ? x : support::roundToF32(x);
  };
  const double dead = -std::numeric_limits<double>::infinity();
  RowResult result;
  result.o.assign(dv, 0.0);
  size_t n = row.scores.size();
  std::vector<double> s = row.scores, w(n);
  if (monoid == "softmax2")
    for (double &x : s)
      x = round(x / round(params[0]));
  double most = dead;
  for (double x : s)
    most = std::max(most, x);
  // Rounded, where the scores may be exact.
  const double reference = round(most);
  double total = 0, first = 0, second = 0, squares = 0;
  for (size_t i = 0; i < n; ++i) {
    if (monoid == "softmax2")
      w[i] = round(std::exp2(round(s[i] - reference)));
    else if (monoid == "max_count")
      w[i] = s[i] == most;
    else
      w[i] = round(std::exp(round(s[i] - reference)));
    total = sum(total + w[i]);
    double x = monoid == "spread" ? round(s[i] - reference) : s[i];
    // What has no weight may be as far off as it likes.
    if (w[i] != 0 || monoid != "spread") {
      first = sum(first + round(w[i] * x));
      second = sum(second + round(w[i] * round(x * x)));
    }
    squares = sum(squares + round(w[i] * w[i]));
  }
  if (monoid == "softmax2") {
    result.scalars[0] = n ? round(most + round(std::log2(round(total)))) : dead;
  } else if (monoid == "max_count") {
    result.scalars[0] = most;
    result.scalars[1] = total;
  }
  if (n == 0)
    return result;
  if (monoid == "moments") {
    result.scalars[0] = round(round(first) / round(total));
    result.scalars[1] = round(round(second) / round(total));
  }
  if (monoid == "spread") {
    double mean = round(round(first) / round(total));
    result.scalars[0] = -mean;
    result.scalars[1] =
        round(round(round(second) / round(total)) - round(mean * mean));
  }
  if (monoid == "participation")
    result.scalars[0] = round(round(total * total) / round(squares));
  for (size_t i = 0; i < n; ++i) {
    double p = round(round(w[i] / round(total)) * row.factors[i]);
    if (tf32)
      p = support::roundToTF32(p);
    for (int64_t c = 0; c < dv; ++c)
      result.o[c] = sum(result.o[c] + sum(p * row.values[i][c]));
  }
  for (double &x : result.o)
    x = round(x);
  return result;
}

/// Rows of the problem from the scores that the oracle kept.
static std::vector<double>
compute(const MonoidInfo &monoid, const std::string &name,
        const AttentionProblem &p, const reference::AttentionResult &kept,
        const std::vector<double> &params, support::DType dtype, bool tf32) {
  int scalar = 0;
  for (size_t i = 1; i < monoid.outputs.size(); ++i)
    if (name == monoid.outputs[i])
      scalar = static_cast<int>(i) - 1;
  std::vector<double> values = support::toDense(p.v);
  for (double &x : values)
    x = tf32 ? support::roundToTF32(x) : support::roundTo(dtype, x);
  const int64_t hq = p.q.shape[1], hk = p.k.shape[1], rows = p.q.shape[2];
  const int64_t sk = p.k.shape[2], dv = p.v.shape[3];
  std::vector<double> out;
  for (int64_t b = 0; b < p.q.shape[0]; ++b)
    for (int64_t h = 0; h < hq; ++h)
      for (int64_t i = 0; i < rows; ++i) {
        // A packed row has the keys of its sequence first.
        int64_t firstKey = 0, firstRow = 0, sequence = b;
        for (int64_t n = 0; p.isPacked() && n < p.numSequences(); ++n)
          if (i >= p.cuSeqlensQ[n] && i < p.cuSeqlensQ[n + 1]) {
            firstKey = p.cuSeqlensK[n];
            sequence = n;
            firstRow = p.cuSeqlensQ[n];
          }
        Row row;
        const double *scores =
            kept.scores.data() + ((b * hq + h) * rows + i) * sk;
        for (int64_t j = 0; j < sk; ++j) {
          if (scores[j] == -std::numeric_limits<double>::infinity())
            continue;
          int64_t at = (b * hk + h / (hq / hk)) * sk + firstKey + j;
          row.scores.push_back(scores[j]);
          row.values.push_back(values.data() + at * dv);
          row.factors.push_back(p.dropout.factor(sequence, h, i - firstRow, j));
        }
        RowResult result = reduce(monoid.name, row, dv, params, dtype, tf32);
        if (name == "o")
          out.insert(out.end(), result.o.begin(), result.o.end());
        else
          out.push_back(result.scalars[scalar]);
      }
  return out;
}

std::vector<double> fuzz::outputOf(const MonoidInfo &monoid,
                                   const std::string &name,
                                   const AttentionProblem &problem,
                                   const reference::AttentionResult &result,
                                   const std::vector<double> &params,
                                   support::DType dtype, bool tf32) {
  if (monoid.text && std::string(monoid.name) != "share")
    return compute(monoid, name, problem, result, params, dtype, tf32);
  if (monoid.text && name == "o") {
    // Sigmoid attention divided by its total weight.
    std::vector<double> out = result.out;
    int64_t dv = problem.v.shape[3];
    for (size_t i = 0; i < out.size(); ++i) {
      double total = result.weightSum[i / dv];
      out[i] = total == 0 ? 0 : support::roundTo(dtype, out[i] / total);
    }
    return out;
  }
  if (name == "o" || name == "mean")
    return result.out;
  if (name == "var")
    return result.variance;
  if (name == "lse")
    return result.lse;
  if (name == "max")
    return result.rowMax;
  if (name == "entropy")
    return result.entropy;
  if (name == "remainder")
    return result.remainder;
  return result.weightSum;
}
