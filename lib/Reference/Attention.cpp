//===- Attention.cpp - The float64 oracle ---------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For every sequence and key head: K and V become dense doubles. For every
// query row: scores of all keys, the list of live keys, the monoid.
//
//===----------------------------------------------------------------------===//

#include "attn/Reference/Attention.h"

#include "RowMonoids.h"

#include <algorithm>
#include <cstdlib>
#include <type_traits>

using namespace ::attn;
using namespace ::attn::reference;
using namespace ::attn::reference::detail;

namespace {

struct Exact {
  double operator()(double x) const { return x; }
};
struct ToF32 {
  double operator()(double x) const { return support::roundToF32(x); }
};
struct ToTF32 {
  double operator()(double x) const { return support::roundToTF32(x); }
};
/// To 11 bits. Nothing is too large: kernels hold sums of f16 weights over a
/// power of two (attn-scale-weights).
struct ToF16 {
  double operator()(double x) const {
    if (!std::isfinite(x) || std::fabs(x) < 0x1p15)
      return support::roundToF16(x);
    int exponent = 0;
    double fraction = std::frexp(x, &exponent);
    return std::ldexp(support::roundToF16(fraction), exponent);
  }
};
struct ToBF16 {
  double operator()(double x) const { return support::roundToBF16(x); }
};

/// The rows of one sequence: a batch entry, or a slice of the packed rows.
struct Sequence {
  int64_t index;  ///< b, as the mods, masks and lengths count it.
  int64_t viewB;  ///< Batch index in q, k, v: 0 when packed.
  int64_t firstQ; ///< First query row and first key row in the views.
  int64_t firstK;
  int64_t sq;
  int64_t kvLength; ///< Keys that exist.
  int64_t start;    ///< The position of the first of them.
};

Sequence sequenceOf(const AttentionProblem &p, int64_t index) {
  Sequence s;
  s = {index, index, 0, 0, p.q.shape[2], p.keyCapacity(), 0};
  if (p.isPacked()) {
    s.viewB = 0;
    s.firstQ = p.cuSeqlensQ[index];
    s.sq = p.cuSeqlensQ[index + 1] - s.firstQ;
  }
  if (!p.cuSeqlensK.empty()) {
    s.firstK = p.cuSeqlensK[index];
    s.kvLength = p.cuSeqlensK[index + 1] - s.firstK;
  }
  if (!p.kStart.empty())
    s.start = p.kStart[index];
  if (!p.kvLengths.empty())
    s.kvLength = p.kvLengths[index];
  return s;
}

/// Where key j of a sequence is: the batch or page, and the row.
std::pair<int64_t, int64_t> rowOfKey(const AttentionProblem &p,
                                     const Sequence &s, int64_t j) {
  const int64_t rows = p.k.shape[2];
  if (p.isPaged())
    return {p.blockTable[s.index * p.tablePages + j / rows], j % rows};
  if (p.rolling)
    return {s.viewB, (s.start + j) % rows};
  return {s.viewB, s.firstK + j};
}

/// The keys [begin, end) that causality and the window leave to query i.
struct KeyRange {
  int64_t begin, end;
};

KeyRange keyRangeOf(const AttentionProblem &p, const Sequence &s, int64_t i) {
  const int64_t diagonal =
      p.causal == Causal::topLeft ? i - s.start : i + s.kvLength - s.sq;
  KeyRange range = {0, s.kvLength};
  if (p.causal != Causal::none)
    range.end = std::min(range.end, diagonal + 1);
  // Compared as distances: a huge window must not overflow.
  if (p.windowRight >= 0 && p.windowRight < range.end - 1 - diagonal)
    range.end = diagonal + p.windowRight + 1;
  if (p.windowLeft >= 0 && p.windowLeft < diagonal)
    range.begin = diagonal - p.windowLeft;
  range.end = std::max<int64_t>(range.end, 0);
  range.begin = std::min(range.begin, range.end);
  return range;
}

template <typename Round, typename Sum, typename Operand = Exact> class Oracle {
public:
  Oracle(const AttentionProblem &p, const OracleOptions &options,
         const SumOrder &order = sumOrders[0], int64_t tile = 0,
         bool wideScores = false)
      : p(p), keepPairs(options.keepPairs), order(order),
        wideScores(wideScores), monoids(round, sum, operand, order, tile) {}

  AttentionResult run() {
    allocate();
    const int64_t heads = p.k.shape[1];
    for (int64_t n = 0; n < p.numSequences(); ++n) {
      const Sequence s = sequenceOf(p, n);
      for (int64_t hk = 0; hk < heads; ++hk) {
        loadKeyHead(s, hk);
        const int64_t group = p.q.shape[1] / heads;
        for (int64_t h = hk * group; h < (hk + 1) * group; ++h)
          for (int64_t i = 0; i < s.sq; ++i)
            runRow(s, h, i);
      }
    }
    return std::move(result);
  }

private:
  void allocate() {
    const int64_t rows = p.q.shape[0] * p.q.shape[1] * p.q.shape[2];
    dv = p.needsValues() ? p.v.shape[3] : 0;
    result.shape = {p.q.shape[0], p.q.shape[1], p.q.shape[2], dv};
    result.out.assign(rows * dv, 0.0);
    auto perRow = [rows](std::vector<double> &v) { v.assign(rows, 0.0); };
    switch (p.monoid) {
    case Monoid::softmaxEntropy:
      perRow(result.entropy);
      [[fallthrough]];
    case Monoid::softmax:
    case Monoid::logsumexp:
      perRow(result.lse);
      perRow(result.rowMax);
      break;
    case Monoid::sigmoid:
    case Monoid::relu:
    case Monoid::squaredRelu:
      perRow(result.weightSum);
      break;
    case Monoid::stickBreaking:
    case Monoid::gatedDecay:
    case Monoid::alphaCompositing:
      perRow(result.remainder);
      break;
    case Monoid::maxPlus:
      break;
    case Monoid::welford:
      perRow(result.weightSum);
      result.variance.assign(rows * dv, 0.0);
      break;
    }
    if (keepPairs) {
      result.scores.assign(rows * p.keyCapacity(), negativeInfinity);
      result.weights.assign(rows * p.keyCapacity(), 0.0);
    }
  }

  /// K is stored transposed: the innermost loop of a row's scores then runs
  /// over keys, adding for each key in the order of its channels.
  void loadKeyHead(const Sequence &s, int64_t hk) {
    const int64_t d = p.q.shape[3];
    keys.resize(d * s.kvLength);
    values.resize(dv * s.kvLength);
    for (int64_t j = 0; j < s.kvLength; ++j) {
      const auto [b, row] = rowOfKey(p, s, j);
      for (int64_t c = 0; c < d; ++c)
        keys[c * s.kvLength + j] = operand(round(p.k.at(b, hk, row, c)));
      for (int64_t c = 0; c < dv; ++c)
        values[j * dv + c] = round(p.v.at(b, hk, row, c));
    }
  }

  /// After an operation on scores.
  double roundScore(double x) const {
    x = wideScores ? sum(x) : round(x);
    return std::fabs(x) < coarseScore ? x : support::roundToF32(x);
  }

  void scoreRow(const Sequence &s, int64_t h, int64_t i) {
    const int64_t d = p.q.shape[3];
    const double scale = roundScore(
        p.scale ? *p.scale : 1.0 / std::sqrt(static_cast<double>(d)));
    const int64_t n = s.kvLength;
    scores.assign(order.lanes * n, 0.0);
    for (int64_t t = 0; t < d; ++t) {
      const int64_t c = order.backwards ? d - 1 - t : t;
      const double q = operand(round(p.q.at(s.viewB, h, s.firstQ + i, c)));
      const double *k = keys.data() + c * n;
      double *to = scores.data() + t % order.lanes * n;
      for (int64_t j = 0; j < n; ++j)
        to[j] = sum(to[j] + (order.fused ? q * k[j] : sum(q * k[j])));
    }
    for (int64_t half = order.lanes / 2; half > 0; half /= 2)
      for (int64_t at = 0; at < half * n; ++at)
        scores[at] = sum(scores[at] + scores[at + half * n]);
    scores.resize(n);
    for (double &score : scores)
      score = roundScore(roundScore(score) * scale);
    if (p.softcap > 0.0 && !std::isinf(p.softcap)) // an infinite cap is none
      for (double &score : scores)
        score = roundScore(
            p.softcap * roundScore(std::tanh(roundScore(score / p.softcap))));
  }

  double alibi(const Sequence &s, int64_t h, int64_t i, int64_t j) const {
    const int64_t hq = p.q.shape[1];
    const bool perBatch = static_cast<int64_t>(p.alibiSlopes.size()) != hq;
    const double slope = p.alibiSlopes[perBatch ? s.index * hq + h : h];
    return -slope * static_cast<double>(std::abs(i + s.kvLength - s.sq - j));
  }

  /// The final score of a pair, or -inf where it is dead. The masks are asked
  /// first: they do not look at the score, and what is dead must not reach a
  /// scoreMod or turn NaN.
  double finalScore(const Sequence &s, int64_t h, int64_t i, int64_t j) {
    const int64_t b = s.index;
    if (p.mask && p.mask.at(b, h, i, j) == 0.0)
      return negativeInfinity;
    if (p.maskMod && !p.maskMod(b, h, i, s.start + j))
      return negativeInfinity;
    const double bias = p.bias ? p.bias.at(b, h, i, j) : 0.0;
    if (bias == negativeInfinity)
      return negativeInfinity;
    double score = scores[j];
    if (p.scoreMod)
      score = roundScore(p.scoreMod(score, b, h, i, s.start + j));
    if (!p.alibiSlopes.empty())
      score = roundScore(score + roundScore(alibi(s, h, i, j)));
    if (p.bias)
      score = roundScore(score + roundScore(bias));
    return score;
  }

  void runRow(const Sequence &s, int64_t h, int64_t i) {
    scoreRow(s, h, i);
    live.key.clear();
    live.score.clear();
    live.logGate.clear();
    live.factor.clear();
    live.sink = p.sinks.empty() ? negativeInfinity : roundScore(p.sinks[h]);
    const KeyRange range = keyRangeOf(p, s, i);
    for (int64_t j = range.begin; j < range.end; ++j) {
      const double score = finalScore(s, h, i, j);
      // A score of -inf is the identity of every monoid, not a lift of -inf.
      if (score == negativeInfinity)
        continue;
      live.key.push_back(j);
      live.score.push_back(score);
      if (p.logGate)
        live.logGate.push_back(round(p.logGate(s.index, h, i, s.start + j)));
      if (p.dropout)
        live.factor.push_back(p.dropout.factor(s.index, h, i, j));
    }

    const int64_t row =
        (s.viewB * p.q.shape[1] + h) * p.q.shape[2] + s.firstQ + i;
    weights.assign(live.size(), 0.0);
    reduce(outputsOf(row));
    if (keepPairs)
      for (size_t n = 0; n < live.size(); ++n) {
        result.scores[row * p.keyCapacity() + live.key[n]] = live.score[n];
        result.weights[row * p.keyCapacity() + live.key[n]] =
            weights[n] * (p.dropout ? live.factor[n] : 1.0);
      }
  }

  RowOutputs outputsOf(int64_t row) {
    auto at = [](std::vector<double> &v, int64_t offset) {
      return v.empty() ? nullptr : v.data() + offset;
    };
    RowOutputs to;
    to.out = at(result.out, row * dv);
    to.variance = at(result.variance, row * dv);
    to.lse = at(result.lse, row);
    to.rowMax = at(result.rowMax, row);
    to.entropy = at(result.entropy, row);
    to.remainder = at(result.remainder, row);
    to.weightSum = at(result.weightSum, row);
    return to;
  }

  void reduce(const RowOutputs &to) {
    const Values v = {values.data(), dv};
    switch (p.monoid) {
    case Monoid::softmax:
    case Monoid::softmaxEntropy:
      return monoids.softmax(live, v, /*withValues=*/true, to, weights);
    case Monoid::logsumexp:
      return monoids.softmax(live, v, /*withValues=*/false, to, weights);
    case Monoid::sigmoid:
      return monoids.plainSum(
          live, v, [this](double x) { return monoids.sigmoid(x); }, to,
          weights);
    case Monoid::relu:
      return monoids.plainSum(
          live, v, [this](double x) { return monoids.relu(x); }, to, weights);
    case Monoid::squaredRelu:
      return monoids.plainSum(
          live, v, [this](double x) { return monoids.squaredRelu(x); }, to,
          weights);
    case Monoid::stickBreaking:
      return monoids.stickBreaking(live, v, to, weights);
    case Monoid::gatedDecay:
      return monoids.gatedDecay(live, v, to, weights);
    case Monoid::alphaCompositing:
      return monoids.alphaCompositing(live, v, to, weights);
    case Monoid::maxPlus:
      return monoids.maxPlus(live, v, to);
    case Monoid::welford:
      return monoids.welford(live, v, to, weights);
    }
  }

  const AttentionProblem &p;
  bool keepPairs;
  const SumOrder &order;
  bool wideScores;
  int64_t dv = 0;
  Round round;
  Sum sum;
  Operand operand;
  RowMonoids<Round, Sum, Operand> monoids;
  AttentionResult result;

  std::vector<double> keys;   ///< [dqk, kvLength] of the present key head.
  std::vector<double> values; ///< [kvLength, dv] of the present key head.
  std::vector<double> scores; ///< [kvLength] of the present row, at first for
                              ///< each partial sum.
  std::vector<double> weights;
  LiveKeys live;
};

} // namespace

Result<AttentionResult> reference::attention(const AttentionProblem &problem,
                                             const OracleOptions &options) {
  if (support::Status status = validate(problem); !status)
    return status.takeFailure();
  return Oracle<Exact, Exact>(problem, options).run();
}

template <typename OracleT>
static AttentionResult emulate(const AttentionProblem &problem,
                               const Emulation &how,
                               const OracleOptions &options) {
  return OracleT(problem, options, sumOrders[how.order], how.tile,
                 how.wideScores)
      .run();
}

Result<AttentionResult>
reference::emulatedAttention(const AttentionProblem &problem,
                             const Emulation &emulation,
                             const OracleOptions &options) {
  if (support::Status status = validate(problem); !status)
    return status.takeFailure();
  if (emulation.order < 0 || emulation.order >= numOrders)
    return support::Failure{"expected an order below " +
                            std::to_string(numOrders) + ", but got " +
                            std::to_string(emulation.order)};
  if (emulation.tile <= 0)
    return support::Failure{"expected a positive number of keys in a tile, but "
                            "got " +
                            std::to_string(emulation.tile)};
  switch (emulation.dtype) {
  case DType::f32:
    if (emulation.tf32)
      return emulate<Oracle<ToF32, ToF32, ToTF32>>(problem, emulation, options);
    if (emulation.operands == DType::bf16)
      return emulate<Oracle<ToF32, ToF32, ToBF16>>(problem, emulation, options);
    if (emulation.operands == DType::f16)
      return emulate<Oracle<ToF32, ToF32, ToF16>>(problem, emulation, options);
    return emulate<Oracle<ToF32, ToF32>>(problem, emulation, options);
  case DType::f16:
    if (emulation.roundAccumulators)
      return emulate<Oracle<ToF16, ToF16>>(problem, emulation, options);
    return emulate<Oracle<ToF16, ToF32>>(problem, emulation, options);
  case DType::bf16:
    if (emulation.roundAccumulators)
      return emulate<Oracle<ToBF16, ToBF16>>(problem, emulation, options);
    return emulate<Oracle<ToBF16, ToF32>>(problem, emulation, options);
  default:
    return support::Failure{
        std::string("expected f32, f16 or bf16 to emulate, but got ") +
        support::nameOf(emulation.dtype)};
  }
}
