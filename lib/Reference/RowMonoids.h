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
// Arithmetic is generic in three roundings: `Round` after an operation, `Sum`
// after an addition to an accumulator, and `Operand` before a product of
// matrices. All are the identity in the oracle. To compute in double and round
// once gives the correctly rounded result of + - * and / in f32, f16 and bf16,
// since 53 bits are at least 2 * 24 + 2.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_REFERENCE_ROWMONOIDS_H
#define ATTN_LIB_REFERENCE_ROWMONOIDS_H

#include "attn/Reference/Attention.h"

#include <algorithm>
#include <array>
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
  std::vector<double> factor;  ///< Of the value; empty: 1.
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

template <typename Round, typename Sum, typename Operand> class RowMonoids {
public:
  /// Sums over keys go by `tile` keys, where the order has tiles.
  RowMonoids(Round round, Sum sum, Operand operand, const SumOrder &order,
             int64_t tile)
      : round(round), sum(sum), operand(operand), order(order),
        tile(order.tiles ? static_cast<size_t>(tile)
                         : std::numeric_limits<size_t>::max()) {}

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
    takeShiftOf(max);

    const double sinkWeight = weightOf(keys.sink, max);
    for (size_t n = 0; n < keys.size(); ++n)
      weights[n] = weightOf(keys.score[n], max);
    double total = addUp(weights, sinkWeight);
    total = round(total);
    const double lse = round(max + sum(round(std::log(total)) + shift));
    put(to.lse, lse);
    auto divided = [&](double x) { return round(x / total); };
    double sinkShare = sinkWeight;
    if (!order.deferred) {
      for (double &w : weights)
        w = divided(w);
      sinkShare = divided(sinkWeight);
    }
    if (withValues)
      weightedSum(keys, values, weights, to.out);
    if (order.deferred && withValues)
      for (int64_t c = 0; c < values.dv; ++c)
        to.out[c] = divided(to.out[c]);
    if (to.entropy) {
      // Of a key without a weight nothing is left, however far it is.
      auto partOf = [&](double share, double score) {
        return share == 0.0 ? 0.0 : round(share * round(score - max));
      };
      std::vector<double> parts(keys.size());
      for (size_t n = 0; n < keys.size(); ++n)
        parts[n] = partOf(weights[n], keys.score[n]);
      double mean = round(addUp(parts, partOf(sinkShare, keys.sink)));
      if (order.deferred)
        mean = divided(mean);
      *to.entropy = round(sum(round(std::log(total)) + shift) - mean);
    }
    if (order.deferred)
      for (double &w : weights)
        w = divided(w);
  }

  /// O = sum_j f(s_j) v_j, not normalised.
  template <typename Lift>
  void plainSum(const LiveKeys &keys, const Values &values, Lift lift,
                RowOutputs to, std::vector<double> &weights) {
    for (size_t n = 0; n < keys.size(); ++n)
      weights[n] = lift(keys.score[n]);
    put(to.weightSum, round(addUp(weights)));
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
    takeShares(keys, /*latestFirst=*/true, values, to, weights);
  }

  /// Front to back: key j shows through what the earlier keys let pass.
  void alphaCompositing(const LiveKeys &keys, const Values &values,
                        RowOutputs to, std::vector<double> &weights) {
    takeShares(keys, /*latestFirst=*/false, values, to, weights);
  }

  /// Key j fades by the gates of the keys after it.
  void gatedDecay(const LiveKeys &keys, const Values &values, RowOutputs to,
                  std::vector<double> &weights) {
    double logDecay = 0.0;
    for (size_t n = keys.size(); n-- > 0;) {
      weights[n] = round(keys.score[n] * round(std::exp(logDecay)));
      logDecay = sum(logDecay + keys.logGate[n]);
    }
    put(to.remainder, round(std::exp(addUp(keys.logGate))));
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
    for (size_t n = 0; n < keys.size(); ++n)
      weights[n] = relu(keys.score[n]);
    const double total = round(addUp(weights));
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
  /// Between half of the order's shift and all of it, by the digits of the
  /// row's maximum.
  void takeShiftOf(double max) {
    const double turns = std::fabs(max) * 103.6;
    shift = order.shift * (0.5 + 0.5 * (turns - std::floor(turns)));
  }

  /// exp(s - max - shift); a sink of -inf, the identity, weighs nothing.
  double weightOf(double s, double max) {
    return s == negativeInfinity ? 0.0
                                 : round(std::exp(sum(round(s - max) - shift)));
  }

  /// Each key takes the share sigmoid(s) of what those before it have left,
  /// and leaves the share sigmoid(-s): 1 - sigmoid(s) would lose it to
  /// cancellation for large s.
  void takeShares(const LiveKeys &keys, bool latestFirst, const Values &values,
                  RowOutputs to, std::vector<double> &weights) {
    double rest = 1.0, logRest = 0.0;
    std::vector<double> logs(order.logarithms ? keys.size() : 0);
    for (size_t t = 0; t < keys.size(); ++t) {
      const size_t n = latestFirst ? keys.size() - 1 - t : t;
      const double s = keys.score[n];
      weights[n] = round(sigmoid(s) * rest);
      if (!order.logarithms) {
        rest = round(rest * sigmoid(-s));
        continue;
      }
      // log sigmoid(-s) = -softplus(s).
      const double tail = round(std::log1p(round(std::exp(-std::fabs(s)))));
      logs[n] = -round((s > 0.0 ? s : 0.0) + tail);
      logRest = sum(logRest + logs[n]);
      rest = round(std::exp(logRest));
    }
    if (order.logarithms)
      rest = round(std::exp(addUp(logs)));
    put(to.remainder, rest);
    weightedSum(keys, values, weights, to.out);
  }

  /// Calls f(term, lane) in the order of addition, and g() after each tile.
  template <typename F, typename G> void inOrder(size_t count, F f, G g) const {
    const size_t lanes = static_cast<size_t>(order.lanes);
    for (size_t begin = 0; begin < count;) {
      const size_t end = begin + std::min(tile, count - begin);
      for (size_t n = begin; n < end; ++n)
        f(order.backwards ? count - 1 - n : n, (n - begin) % lanes);
      g();
      begin = end;
    }
  }

  /// start + sum_n terms[n].
  double addUp(const std::vector<double> &terms, double start = 0.0) {
    std::array<double, 16> partial = {};
    inOrder(
        terms.size(),
        [&](size_t n, size_t lane) {
          partial[lane] = sum(partial[lane] + terms[n]);
        },
        [&] {
          for (int half = order.lanes / 2; half > 0; half /= 2)
            for (int at = 0; at < half; ++at)
              partial[at] = sum(partial[at] + partial[at + half]);
          start = sum(start + partial[0]);
          partial = {};
        });
    return start;
  }

  /// out = sum_j w_j v_j; `out` starts at 0.
  void weightedSum(const LiveKeys &keys, const Values &values,
                   const std::vector<double> &weights, double *out) {
    const size_t dv = static_cast<size_t>(values.dv);
    partial.assign(static_cast<size_t>(order.lanes) * dv, 0.0);
    inOrder(
        keys.size(),
        [&](size_t n, size_t lane) {
          const double *v = values.row(keys.key[n]);
          const double w =
              operand(keys.factor.empty() ? weights[n]
                                          : round(weights[n] * keys.factor[n]));
          double *to = partial.data() + lane * dv;
          for (size_t c = 0; c < dv; ++c) {
            const double product = w * operand(v[c]);
            to[c] = sum(to[c] + (order.fused ? product : sum(product)));
          }
        },
        [&] {
          for (size_t half = order.lanes / 2; half > 0; half /= 2)
            for (size_t at = 0; at < half * dv; ++at)
              partial[at] = sum(partial[at] + partial[at + half * dv]);
          for (size_t c = 0; c < dv; ++c)
            out[c] = sum(out[c] + partial[c]);
          partial.assign(partial.size(), 0.0);
        });
    for (size_t c = 0; c < dv; ++c)
      out[c] = round(out[c]);
  }

  Round round;
  Sum sum;
  Operand operand;
  const SumOrder &order;
  size_t tile;
  double shift = 0.0;          ///< Of the row; see SumOrder.
  std::vector<double> partial; ///< [lanes, dv] of weightedSum.
};

} // namespace attn::reference::detail

#endif // ATTN_LIB_REFERENCE_ROWMONOIDS_H
