//===- RowMonoids.h - One row under each monoid -----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each function takes the live keys of one query row, in key order, and writes
// the outputs of one monoid by its definition. None carries a running state:
// the tiled kernels do, and must not be checked by their own idea.
//
// Arithmetic is generic in two roundings: `Round` after an operation, and `Sum`
// after an addition to an accumulator. Both are the identity in the oracle. To
// compute in double and round once gives the correctly rounded result of + - *
// and / in f32, f16 and bf16, since 53 bits are at least 2 * 24 + 2.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_REFERENCE_ROWMONOIDS_H
#define ATTN_LIB_REFERENCE_ROWMONOIDS_H

#include "attn/Support/Problem.h"

#include <cmath>
#include <limits>
#include <vector>

namespace attn::reference::detail {

constexpr double negativeInfinity = -std::numeric_limits<double>::infinity();

/// The live keys of one row.
struct LiveKeys {
  std::vector<int64_t> key;
  std::vector<double> score;
  std::vector<double> logGate; ///< gatedDecay only.
  double sink = negativeInfinity;

  size_t size() const { return key.size(); }
};

/// The values [sk, dv] of the row's key head.
struct Values {
  const double *data = nullptr;
  int64_t dv = 0;

  const double *row(int64_t key) const { return data + key * dv; }
};

/// Where the outputs of one row go; null where an output is not wanted.
struct RowOutputs {
  double *out = nullptr, *variance = nullptr;
  double *lse = nullptr, *rowMax = nullptr, *entropy = nullptr;
  double *remainder = nullptr, *weightSum = nullptr;
};

inline void put(double *where, double value) {
  if (where)
    *where = value;
}

/// std::fmax drops a NaN; a live NaN has to reach the output.
inline double maxOrNaN(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return std::numeric_limits<double>::quiet_NaN();
  return a > b ? a : b;
}

template <typename Round, typename Sum> class RowMonoids {
public:
  RowMonoids(Round round, Sum sum) : round(round), sum(sum) {}

  /// O = sum_j p_j v_j with p_j = exp(s_j - LSE). A sink is one more score
  /// that has no value. `weights` receives p.
  void softmax(const LiveKeys &keys, const Values &values, bool withValues,
               RowOutputs to, std::vector<double> &weights) {
    double max = keys.sink;
    for (double s : keys.score)
      max = maxOrNaN(max, s);
    put(to.rowMax, max);
    put(to.lse, negativeInfinity);
    put(to.entropy, 0.0);
    // No live key and no sink: exp(-inf - -inf) must not be asked for.
    if (max == negativeInfinity)
      return;

    const double sinkWeight = weightOf(keys.sink, max);
    double total = sinkWeight;
    for (size_t n = 0; n < keys.size(); ++n) {
      weights[n] = weightOf(keys.score[n], max);
      total = sum(total + weights[n]);
    }
    total = round(total);
    const double lse = round(max + round(std::log(total)));
    put(to.lse, lse);
    for (double &w : weights)
      w = round(w / total);
    if (withValues)
      weightedSum(keys, values, weights, to.out);

    if (!to.entropy)
      return;
    double meanScore = 0.0;
    if (keys.sink != negativeInfinity)
      meanScore = round(round(sinkWeight / total) * keys.sink);
    for (size_t n = 0; n < keys.size(); ++n)
      meanScore = sum(meanScore + round(weights[n] * keys.score[n]));
    *to.entropy = round(lse - round(meanScore));
  }

  /// O = sum_j f(s_j) v_j, not normalised.
  template <typename Lift>
  void plainSum(const LiveKeys &keys, const Values &values, Lift lift,
                RowOutputs to, std::vector<double> &weights) {
    double total = 0.0;
    for (size_t n = 0; n < keys.size(); ++n) {
      weights[n] = lift(keys.score[n]);
      total = sum(total + weights[n]);
    }
    put(to.weightSum, round(total));
    weightedSum(keys, values, weights, to.out);
  }

  double sigmoid(double s) {
    return round(1.0 / round(1.0 + round(std::exp(-s))));
  }
  double relu(double s) { return std::isnan(s) || s > 0.0 ? s : 0.0; }
  double squaredRelu(double s) { return round(relu(s) * relu(s)); }

  /// A stick is broken from the latest key backwards: key j takes the share
  /// beta_j of what the later keys have left.
  void stickBreaking(const LiveKeys &keys, const Values &values, RowOutputs to,
                     std::vector<double> &weights) {
    double remainder = 1.0;
    for (size_t n = keys.size(); n-- > 0;)
      weights[n] = takeShare(keys.score[n], remainder);
    put(to.remainder, remainder);
    weightedSum(keys, values, weights, to.out);
  }

  /// Front to back: key j shows through what the earlier keys let pass.
  void alphaCompositing(const LiveKeys &keys, const Values &values,
                        RowOutputs to, std::vector<double> &weights) {
    double transmittance = 1.0;
    for (size_t n = 0; n < keys.size(); ++n)
      weights[n] = takeShare(keys.score[n], transmittance);
    put(to.remainder, transmittance);
    weightedSum(keys, values, weights, to.out);
  }

  /// Key j fades by the gates of the keys after it.
  void gatedDecay(const LiveKeys &keys, const Values &values, RowOutputs to,
                  std::vector<double> &weights) {
    double logDecay = 0.0;
    for (size_t n = keys.size(); n-- > 0;) {
      weights[n] = round(keys.score[n] * round(std::exp(logDecay)));
      logDecay = sum(logDecay + keys.logGate[n]);
    }
    put(to.remainder, round(std::exp(logDecay)));
    weightedSum(keys, values, weights, to.out);
  }

  /// O[c] = max_j (s_j + v_j[c]).
  void maxPlus(const LiveKeys &keys, const Values &values, RowOutputs to) {
    for (int64_t c = 0; c < values.dv; ++c) {
      to.out[c] = negativeInfinity;
      for (size_t n = 0; n < keys.size(); ++n)
        to.out[c] = maxOrNaN(to.out[c],
                             round(keys.score[n] + values.row(keys.key[n])[c]));
    }
  }

  /// Mean and variance of v under the weights max(s, 0): two passes, the
  /// definition, against which a running update can be checked.
  void welford(const LiveKeys &keys, const Values &values, RowOutputs to,
               std::vector<double> &weights) {
    double total = 0.0;
    for (size_t n = 0; n < keys.size(); ++n) {
      weights[n] = relu(keys.score[n]);
      total = sum(total + weights[n]);
    }
    total = round(total);
    put(to.weightSum, total);
    // No key, or none with any weight: mean and variance stay 0.
    if (total == 0.0)
      return;
    weightedSum(keys, values, weights, to.out);
    for (int64_t c = 0; c < values.dv; ++c)
      to.out[c] = round(to.out[c] / total);
    for (size_t n = 0; n < keys.size(); ++n)
      for (int64_t c = 0; c < values.dv; ++c) {
        const double apart = round(values.row(keys.key[n])[c] - to.out[c]);
        to.variance[c] =
            sum(to.variance[c] + sum(weights[n] * round(apart * apart)));
      }
    for (int64_t c = 0; c < values.dv; ++c)
      to.variance[c] = round(round(to.variance[c]) / total);
  }

private:
  /// exp(s - max); a sink of -inf, the identity, weighs nothing.
  double weightOf(double s, double max) {
    return s == negativeInfinity ? 0.0 : round(std::exp(round(s - max)));
  }

  /// Takes the share sigmoid(s) of `rest`, which keeps the share sigmoid(-s):
  /// 1 - sigmoid(s) would lose it to cancellation for large s.
  double takeShare(double s, double &rest) {
    const double taken = round(sigmoid(s) * rest);
    rest = round(rest * sigmoid(-s));
    return taken;
  }

  /// out = sum_j w_j v_j; `out` starts at 0.
  void weightedSum(const LiveKeys &keys, const Values &values,
                   const std::vector<double> &weights, double *out) {
    for (size_t n = 0; n < keys.size(); ++n) {
      const double *v = values.row(keys.key[n]);
      for (int64_t c = 0; c < values.dv; ++c)
        out[c] = sum(out[c] + sum(weights[n] * v[c]));
    }
    for (int64_t c = 0; c < values.dv; ++c)
      out[c] = round(out[c]);
  }

  Round round;
  Sum sum;
};

} // namespace attn::reference::detail

#endif // ATTN_LIB_REFERENCE_ROWMONOIDS_H
