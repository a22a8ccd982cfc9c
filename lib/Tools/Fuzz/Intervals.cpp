//===- Intervals.cpp - What outputs of large scores may be ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Intervals.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace ::attn;
using namespace ::attn::fuzz;
using support::Monoid;

static constexpr double infinity = std::numeric_limits<double>::infinity();

/// Of a score and of its exponent: eight roundings to float32 (scale, its
/// product with log2(e), that with the dot, that with the reference point, the
/// difference, and the same of a tile's).
static constexpr double scoreError = 0x1p-21;

/// Weights of less than exp(-negligible) do not count beside one of 1.
static constexpr double negligible = 40.0;

static double errorOf(double score) {
  return scoreError * (std::fabs(score) + negligible);
}

static double sigmoid(double s) { return 1.0 / (1.0 + std::exp(-s)); }

namespace {
/// A live key of a row.
struct LiveKey {
  double score;
  int64_t row; ///< Of the values.
};

class RowIntervals {
public:
  RowIntervals(const support::AttentionProblem &p, support::DType products)
      : p(p), dv(p.v ? p.v.shape[3] : 0),
        // Weights, and values, are rounded once; sums in f32.
        rounding(2.0 * support::epsilonOf(products) + 0x1p-18) {}

  /// Of one row: an interval for each entry of `name`.
  void add(const std::string &name, const std::vector<LiveKey> &keys,
           int64_t batch, int64_t head, double sink, const double *exact,
           std::vector<Interval> &to);

private:
  double valueOf(const LiveKey &key, int64_t channel) const {
    return p.v.at(batch, head, key.row, channel);
  }
  void addAverage(const std::vector<LiveKey> &keys, double sink,
                  const double *exact, std::vector<Interval> &to) const;
  void addSum(const std::vector<LiveKey> &keys,
              const std::vector<Interval> &weights,
              std::vector<Interval> &to) const;
  std::vector<Interval> shares(const std::vector<LiveKey> &keys,
                               Interval &rest) const;

  const support::AttentionProblem &p;
  int64_t dv, batch = 0, head = 0;
  double rounding;
};
} // namespace

static double largestOf(const std::vector<LiveKey> &keys, double sink) {
  double largest = sink;
  for (const LiveKey &key : keys)
    largest = std::max(largest, key.score);
  return largest;
}

void RowIntervals::addAverage(const std::vector<LiveKey> &keys, double sink,
                              const double *exact,
                              std::vector<Interval> &to) const {
  double top = largestOf(keys, sink);
  // What may weigh: its score may be as large as the largest, or nearly so.
  double least = top - 2.0 * errorOf(top) - negligible;
  double change = std::expm1(std::min(2.0 * errorOf(top), 700.0));
  for (int64_t c = 0; c < dv; ++c) {
    Interval hull = {infinity, -infinity};
    auto include = [&](double v) {
      hull = {std::min(hull.low, v), std::max(hull.high, v)};
    };
    if (sink >= least)
      include(0.0);
    for (const LiveKey &key : keys)
      if (key.score >= least)
        include(valueOf(key, c));
    if (hull.low > hull.high)
      hull = {0.0, 0.0};
    double reach = change * (hull.high - hull.low);
    double slack = rounding * std::max(std::fabs(hull.low), hull.high);
    to.push_back({std::max(hull.low, exact[c] - reach) - slack,
                  std::min(hull.high, exact[c] + reach) + slack});
  }
}

void RowIntervals::addSum(const std::vector<LiveKey> &keys,
                          const std::vector<Interval> &weights,
                          std::vector<Interval> &to) const {
  for (int64_t c = 0; c < dv; ++c) {
    Interval sum;
    double size = 0.0;
    for (size_t n = 0; n < keys.size(); ++n) {
      double v = valueOf(keys[n], c), a = weights[n].low * v,
             b = weights[n].high * v;
      sum = {sum.low + std::min(a, b), sum.high + std::max(a, b)};
      size += weights[n].high * std::fabs(v);
    }
    to.push_back({sum.low - rounding * size, sum.high + rounding * size});
  }
}

/// Of monoids that break a stick: each key takes a share of what those before
/// it have left.
std::vector<Interval> RowIntervals::shares(const std::vector<LiveKey> &keys,
                                           Interval &rest) const {
  std::vector<Interval> weights(keys.size());
  double logLow = 0.0, logHigh = 0.0;
  auto logLeft = [](double s) {
    return -std::max(s, 0.0) - std::log1p(std::exp(-std::fabs(s)));
  };
  // Of a sum of logarithms, too, whose terms are added in some order.
  auto bounds = [&]() -> Interval {
    return {std::exp(logLow * (1.0 + 0x1p-16)),
            std::exp(logHigh * (1.0 - 0x1p-16))};
  };
  for (size_t t = 0; t < keys.size(); ++t) {
    size_t n = p.monoid == Monoid::stickBreaking ? keys.size() - 1 - t : t;
    double s = keys[n].score, off = errorOf(s);
    rest = bounds();
    weights[n] = {sigmoid(s - off) * rest.low, sigmoid(s + off) * rest.high};
    logLow += logLeft(s + off);
    logHigh += logLeft(s - off);
  }
  rest = bounds();
  return weights;
}

void RowIntervals::add(const std::string &name,
                       const std::vector<LiveKey> &keys, int64_t b, int64_t h,
                       double sink, const double *exact,
                       std::vector<Interval> &to) {
  batch = b;
  head = h;
  double top = largestOf(keys, sink);
  if (name == "o" && p.monoid == Monoid::sigmoid) {
    std::vector<Interval> weights;
    for (const LiveKey &key : keys)
      weights.push_back({sigmoid(key.score - errorOf(key.score)),
                         sigmoid(key.score + errorOf(key.score))});
    return addSum(keys, weights, to);
  }
  if (p.monoid == Monoid::stickBreaking ||
      p.monoid == Monoid::alphaCompositing) {
    Interval rest = {1.0, 1.0};
    std::vector<Interval> weights = shares(keys, rest);
    if (name == "o")
      return addSum(keys, weights, to);
    to.push_back({rest.low - 0x1p-18, rest.high + 0x1p-18});
    return;
  }
  if (name == "o")
    return addAverage(keys, sink, exact, to);
  double off = 2.0 * errorOf(top);
  if (name == "entropy") // of differences, whatever the size of scores
    to.push_back({-0x1p-18, std::log(double(keys.size() + 1)) + 0x1p-18});
  else // the logarithm of the sum, or the maximum
    to.push_back({*exact - off, *exact + off});
}

std::vector<Interval>
fuzz::intervalsOf(const support::AttentionProblem &p,
                  const reference::AttentionResult &result,
                  const std::string &name, support::DType products) {
  const std::vector<double> &exact = name == "o"           ? result.out
                                     : name == "lse"       ? result.lse
                                     : name == "max"       ? result.rowMax
                                     : name == "entropy"   ? result.entropy
                                     : name == "remainder" ? result.remainder
                                                           : result.weightSum;
  int64_t heads = p.q.shape[1], rows = p.q.shape[2], numKeys = p.k.shape[2];
  int64_t width = name == "o" ? p.v.shape[3] : 1;
  int64_t group = p.k.shape[1] ? heads / p.k.shape[1] : 1;
  RowIntervals maker(p, products);
  std::vector<Interval> all;
  for (int64_t b = 0; b < p.q.shape[0]; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < rows; ++i) {
        // Pairs of a packed row begin with the keys of its sequence.
        int64_t first = 0;
        for (size_t n = 0; p.isPacked() && n + 1 < p.cuSeqlensQ.size(); ++n)
          if (i >= p.cuSeqlensQ[n])
            first = p.cuSeqlensK[n];
        int64_t row = (b * heads + h) * rows + i;
        std::vector<LiveKey> keys;
        for (int64_t j = 0; j < numKeys; ++j)
          if (double s = result.scores[row * numKeys + j]; s != -infinity)
            keys.push_back({s, first + j});
        double sink = p.sinks.empty() ? -infinity : p.sinks[h];
        const double *wanted = exact.data() + row * width;
        size_t end = all.size() + width;
        if (largestOf(keys, sink) != -infinity)
          maker.add(name, keys, b, h / group, sink, wanted, all);
        // A row of nothing, or of NaN, is what it is.
        while (all.size() < end) {
          double x = wanted[width - int64_t(end - all.size())];
          all.push_back({x, x});
        }
      }
  return all;
}
