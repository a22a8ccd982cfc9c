//===- InstanceOracle.cpp - What the oracle says of an instance -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Edges.h"
#include "InstanceMaker.h"
#include "OwnMonoids.h"

#include <algorithm>
#include <limits>

using namespace ::attn;
using namespace ::attn::fuzz;
using support::AttentionProblem;
using support::TensorView;

/// A NaN that some queries see has to reach them, and no others.
void InstanceMaker::plantLiveNaN() {
  if (!spreadsNaN() || !random.chance(0.06) || key.numElements() == 0)
    return;
  const Tensor &tensor = random.chance(0.5) && q.numElements() ? q : key;
  if (tensor.repeats())
    return;
  std::vector<int64_t> index;
  for (int64_t size : tensor.sizes)
    index.push_back(random.range(0, size - 1));
  tensor.set(tensor.at(index), std::numeric_limits<double>::quiet_NaN());
  liveNaN = true;
}

std::string InstanceMaker::ask() {
  problem.q = q.view();
  problem.k = key.view();
  if (k.monoid->numValues)
    problem.v = value.view();
  turnRows(/*rounds=*/false);
  problem.causal = k.causal;
  problem.monoid = k.monoid->oracle;
  using Round = double (*)(double);
  static const Round toF32 = [](double x) -> double {
    return support::roundToF32(x);
  };
  auto pointAt = [this](int64_t b, int64_t h, int64_t i, int64_t j) {
    Point p;
    p.b = b;
    p.h = h;
    p.i = i;
    p.j = j;
    p.captures = &captured;
    return p;
  };
  if (k.maskExpr)
    problem.maskMod = [=](int64_t b, int64_t h, int64_t i, int64_t j) {
      return k.maskExpr->at(pointAt(b, h, i, j)).integer != 0;
    };
  auto setFloats = [&](Round round) {
    if (k.scoreExpr)
      problem.scoreMod = [=](double s, int64_t b, int64_t h, int64_t i,
                             int64_t j) {
        Point p = pointAt(b, h, i, j);
        p.score = s;
        p.round = round;
        return k.scoreExpr->isDeadAt(p)
                   ? -std::numeric_limits<double>::infinity()
                   : k.scoreExpr->at(p).real;
      };
    if (k.gateExpr)
      problem.logGate = [=](int64_t b, int64_t h, int64_t i, int64_t j) {
        Point p = pointAt(b, h, i, j);
        p.round = round;
        return k.gateExpr->at(p).real;
      };
  };

  setFloats(nullptr);
  auto exact = reference::attention(problem, oracleOptions());
  if (!exact)
    return exact.error();
  for (int i = 0; i < k.numOutputs; ++i) {
    Expected e;
    e.name = k.monoid->outputs[i];
    e.dtype = to.outputs[i].dtype;
    e.exact = outputOf(*k.monoid, e.name, problem, *exact, params,
                       support::DType::f64);
    // A row of a sink alone, or of one key, has an LSE and an entropy that are
    // made of a logarithm, which such an emulation does not round.
    if ((k.isWild() && e.name == "lse") ||
        ((k.isWild() || k.sinks) && e.name == "entropy"))
      e.least = 0x1p-20;
    if (e.name == "remainder")
      e.least = reference::productError(e.exact);
    // Scales below 1e-30 multiply the queries in their type.
    if (k.has(Edge::Scale) && k.dtype != DType::f32 && e.name == "max")
      e.least = 0x1p-90;
    // GPUs flush weights below the least normal to 0: of keys that are left
    // where dropout takes all that count.
    if (k.gpu && k.dropout)
      e.least = std::max(e.least, 0x1p-126 * largestValue());
    to.expected.push_back(std::move(e));
  }
  // What follows emulates.
  turnRows(/*rounds=*/true);
  setFloats(toF32);
  auto errors = emulate(k.dtype, 0);
  if (!errors)
    return errors.error();
  for (int i = 0; i < k.numOutputs; ++i)
    to.expected[i].error = (*errors)[i];
  return "";
}

double InstanceMaker::largestValue() const {
  double largest = 1.0;
  if (value.memory)
    value.forEach([&](int64_t at, int64_t) {
      if (double x = std::fabs(value.get(at)); std::isfinite(x))
        largest = std::max(largest, x);
    });
  return problem.dropout.p < 1 ? largest / (1 - problem.dropout.p) : largest;
}

reference::OracleOptions InstanceMaker::oracleOptions() const {
  reference::OracleOptions options;
  options.keepPairs = k.monoid->text != nullptr;
  return options;
}

/// The error of each output in one emulation. `wideSums`: sums are of weights
/// before these are rounded for the products, as compiled code has them.
support::Result<std::vector<reference::Errors>>
InstanceMaker::emulate(DType dtype, int order, bool wideSums, DType operands) {
  reference::Emulation how;
  how.dtype = dtype;
  how.operands = operands;
  // A CPU takes f32 as it is, whatever it may do.
  how.tf32 = k.tf32 && k.gpu;
  how.order = order;
  // What is far from 1 does not fit in 16 bits.
  how.wideScores = k.isWild();
  if (k.schedule)
    how.tile = k.schedule->blockK;
  auto result = reference::emulatedAttention(problem, how, oracleOptions());
  if (!result)
    return result.takeFailure();
  if (wideSums) {
    how.dtype = DType::f32;
    auto wide = reference::emulatedAttention(problem, how, oracleOptions());
    if (!wide)
      return wide.takeFailure();
    result->weightSum = std::move(wide->weightSum);
    dtype = DType::f32; // of the quotient
  }
  std::vector<reference::Errors> errors;
  for (const Expected &e : to.expected)
    errors.push_back(reference::maxErrors(
        e.exact, outputOf(*k.monoid, e.name, problem, *result, params, dtype,
                          how.tf32)));
  return errors;
}

support::Result<std::vector<reference::Errors>> InstanceMaker::emulateAll() {
  // A row of one key has its value as a quotient, if both are of the same
  // rounded weight, and what the weight lost, if not.
  auto errors = emulate(k.dtype, 0, /*wideSums=*/true);
  if (!errors)
    return errors;
  std::vector<reference::Errors> worst = std::move(*errors);
  reference::Emulation first;
  first.dtype = k.dtype;
  for (const reference::Emulation &how : reference::emulationsOf(first)) {
    auto errors =
        emulate(how.dtype, how.order, /*wideSums=*/false, how.operands);
    if (!errors)
      return errors;
    for (size_t i = 0; i < worst.size(); ++i)
      worst[i].raise((*errors)[i]);
  }
  if (!k.monoid->text)
    return worst;
  // A multiply-add takes the maximum, which is rounded, from products with the
  // scale, which are not.
  auto unrounded = reference::attention(problem, oracleOptions());
  if (!unrounded)
    return unrounded.takeFailure();
  for (size_t i = 0; i < worst.size(); ++i) {
    const Expected &e = to.expected[i];
    worst[i].raise(reference::maxErrors(
        e.exact, outputOf(*k.monoid, e.name, problem, *unrounded, params,
                          DType::f32, k.tf32 && k.gpu)));
  }
  return worst;
}

double InstanceMaker::largestScore() const {
  reference::OracleOptions options;
  options.keepPairs = true;
  double largest = 0.0;
  if (auto pairs = reference::attention(problem, options))
    for (double score : pairs->scores)
      if (std::isfinite(score))
        largest = std::max(largest, std::fabs(score));
  return largest;
}

support::Result<std::vector<Interval>>
InstanceMaker::intervals(size_t output) const {
  reference::OracleOptions options;
  options.keepPairs = true;
  auto result = reference::attention(problem, options);
  if (!result)
    return result.takeFailure();
  // tf32 has the significand of f16.
  return intervalsOf(problem, *result, to.expected[output].name,
                     k.tf32 && k.gpu ? DType::f16 : k.dtype);
}

/// Keys that no query of their head sees, whatever the scores are, may hold
/// anything. For V this holds beyond the keys that some query sees: between
/// them a tile is multiplied as a whole.
void InstanceMaker::poisonDeadKeys() {
  if (liveNaN || !(k.isWild() || random.chance(0.8)))
    return;
  AttentionProblem probe = problem;
  probe.q.shape[3] = probe.k.shape[3] = 1;
  probe.scale = 1.0;
  probe.softcap = 0.0;
  probe.dropout = {};
  probe.scoreMod = nullptr;
  probe.logGate = nullptr;
  // A bias of -inf is as good as a mask.
  if (!k.isWild())
    probe.bias = TensorView();
  probe.alibiSlopes.clear();
  probe.sinks.clear();
  probe.v = TensorView();
  probe.monoid = Monoid::logsumexp;
  reference::OracleOptions options;
  options.keepPairs = true;
  auto pairs = reference::attention(probe, options);
  if (!pairs)
    return;
  const double dead = -std::numeric_limits<double>::infinity();
  const double poisons[] = {std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity(), dead};
  int64_t group = to.hk ? to.hq / to.hk : 0;
  for (int64_t n = 0; n < problem.numSequences(); ++n) {
    // Of a packed sequence: its rows, and its first key and their number.
    int64_t firstRow = k.packed ? cuQ[n] : 0, firstKey = k.packed ? cuK[n] : 0;
    int64_t endRow = k.packed ? cuQ[n + 1] : to.sq;
    int64_t keys = k.packed ? cuK[n + 1] - firstKey : to.sk;
    for (int64_t hk = 0; hk < to.hk; ++hk) {
      std::vector<char> seen(keys, 0);
      for (int64_t h = hk * group; h < (hk + 1) * group; ++h)
        for (int64_t i = firstRow; i < endRow; ++i) {
          int64_t row = ((k.packed ? 0 : n) * to.hq + h) * to.sq + i;
          bool sees = false;
          for (int64_t j = 0; j < keys; ++j) {
            bool isLive = pairs->scores[row * to.sk + j] != dead;
            seen[j] |= isLive;
            sees |= isLive;
          }
          if (!sees && k.isWild())
            spoil(q, n, h, i, poisons[random.range(0, 2)]);
        }
      int64_t lastSeen = keys, firstSeen = 0;
      while (lastSeen > 0 && !seen[lastSeen - 1])
        --lastSeen;
      while (firstSeen < keys && !seen[firstSeen])
        ++firstSeen;
      for (int64_t j = 0; j < keys; ++j) {
        if (seen[j])
          continue;
        double poison = poisons[random.range(0, 2)];
        spoil(key, n, hk, firstKey + j, poison);
        // Semantics, rule 4, asks for it between them too, where the keys that
        // a mask leaves can be told.
        bool between = k.isWild() && !k.maskExpr;
        if (between || j < firstSeen || j >= lastSeen)
          spoil(value, n, hk, firstKey + j, poison);
      }
    }
  }
  // Keys that belong to no sequence.
  if (k.packed)
    for (int64_t j = cuK.back(); j < to.sk; ++j)
      for (int64_t hk = 0; hk < to.hk; ++hk) {
        spoil(key, 0, hk, j, poisons[0]);
        spoil(value, 0, hk, j, poisons[0]);
      }
}

/// Fills the row of key `j` with `poison`.
void InstanceMaker::spoil(const Tensor &t, int64_t batch, int64_t head,
                          int64_t j, double poison) const {
  if (!t.memory || t.repeats())
    return;
  for (int64_t c = 0; c < t.sizes.back(); ++c)
    t.set(k.packed ? t.at({head, j, c}) : t.at({batch, head, j, c}), poison);
}
