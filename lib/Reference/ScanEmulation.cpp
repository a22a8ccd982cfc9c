//===- ScanEmulation.cpp - Scans in float32 -------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between two states that are written down, the state of a token is
//
//   exp(G) S + sum_j exp(g_j) x_j y_j^T
//
// where S is the state at the beginning of the chunk, x_j y_j^T what token j
// has added, G the sum of the log gates since then, and g_j of those behind
// token j. Such sums are kept as they grow: none is a difference of others.
//
//===----------------------------------------------------------------------===//

#include "attn/Reference/Scan.h"
#include "attn/Support/Float16.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

using namespace ::attn::reference;

namespace {

using Floats = std::vector<float>;

/// Something added to the state: rows of its keys and its values.
struct Term {
  Floats key, value;
  Floats logs;    ///< Of the gates behind it: of one, or each channel.
  Floats weights; ///< Their exponentials, as they are now.
  float logWeight = 0;
  bool hasSum = true; ///< Its key enters z.
};

class ScanEmulation {
public:
  ScanEmulation(const ScanProblem &p, ScanState &state, const ScanOrder &order)
      : p(p), state(state), order(order), dk(p.keyChannels),
        dv(p.valueChannels) {
    state.matrix.resize(size_t(dk * dv));
    state.sum.resize(size_t(dk));
    matrix.assign(state.matrix.begin(), state.matrix.end());
    sum.assign(state.sum.begin(), state.sum.end());
    start = largest = static_cast<float>(state.largest);
    clearTerms();
  }

  std::vector<double> run();

private:
  using Gates = ScanProblem::Gates;

  static Floats row(const std::vector<double> &rows, int64_t t, int64_t width) {
    auto begin = rows.begin() + t * width;
    return Floats(begin, begin + width);
  }
  /// One gate, or none, stands for all channels.
  static float at(const Floats &gates, size_t channel) {
    if (gates.empty())
      return 1;
    return gates.size() == 1 ? gates[0] : gates[channel];
  }
  float keyGate(const Floats &gates, size_t d) const {
    return p.gates == Gates::value ? 1 : at(gates, d);
  }
  float valueGate(const Floats &gates, size_t c) const {
    return p.gates == Gates::value ? at(gates, c) : 1;
  }

  /// A sum of `count` terms in the order that was asked for.
  template <typename F> float add(size_t count, F term) const {
    std::array<float, 16> parts = {};
    const size_t lanes = static_cast<size_t>(order.lanes);
    for (size_t n = 0; n < count; ++n) {
      size_t i = order.backwards ? count - 1 - n : n;
      parts[i % lanes] += term(i);
    }
    float total = 0;
    for (size_t lane = 0; lane < lanes; ++lane)
      total += parts[lane];
    return total;
  }

  void clearTerms();
  void advanceGates(int64_t t);
  void refreshWeights();
  Floats project(const Floats &x, bool isRead = false) const;
  float projectSum(const Floats &x) const;
  void step(int64_t t);
  void read(int64_t t, std::vector<double> &out) const;
  void writeState();

  const ScanProblem &p;
  ScanState &state;
  const ScanOrder &order;
  int64_t dk, dv;
  Floats matrix, sum; ///< At the beginning of the chunk.
  std::vector<Term> terms;
  Floats stateLogs, stateWeights;
  /// The reference point of weights, at the beginning of the chunk and now.
  float start = 0, largest = 0;
};

} // namespace

void ScanEmulation::clearTerms() {
  terms.clear();
  size_t width = p.gates == Gates::none    ? 0
                 : p.gates == Gates::head  ? 1
                 : p.gates == Gates::value ? size_t(dv)
                                           : size_t(dk);
  stateLogs.assign(width, 0.0f);
  stateWeights.assign(width, 1.0f);
  start = largest;
}

void ScanEmulation::advanceGates(int64_t t) {
  if (p.gates == Gates::none)
    return;
  Floats gates = row(p.decay, t, int64_t(stateLogs.size()));
  auto advance = [&](Floats &logs) {
    for (size_t i = 0; i < logs.size(); ++i)
      logs[i] += gates[i];
  };
  advance(stateLogs);
  for (Term &term : terms)
    advance(term.logs);
}

/// With logarithms of weights all are relative to the largest of them so far.
void ScanEmulation::refreshWeights() {
  auto relative = [&](float x) {
    return std::isinf(x) && x < 0 ? 0.0f : std::exp(x - largest);
  };
  if (p.logWeight.empty()) {
    auto weigh = [](const Floats &logs, Floats &weights) {
      for (size_t i = 0; i < logs.size(); ++i)
        weights[i] = std::exp(logs[i]);
    };
    weigh(stateLogs, stateWeights);
    for (Term &term : terms)
      weigh(term.logs, term.weights);
    return;
  }
  auto logOf = [&](const Floats &logs, float own) {
    return logs.empty() ? own : own + logs[0];
  };
  largest = logOf(stateLogs, start);
  for (const Term &term : terms)
    largest = std::max(largest, logOf(term.logs, term.logWeight));
  stateWeights = {relative(logOf(stateLogs, start))};
  for (Term &term : terms)
    term.weights = {relative(logOf(term.logs, term.logWeight))};
}

/// x^T S in each value channel.
Floats ScanEmulation::project(const Floats &x, bool isRead) const {
  const bool roundsState = isRead && order.narrow && p.hasNarrowReads();
  const bool roundsWeights = roundsState && p.beta.empty();
  auto round = [](float value, bool rounds) {
    return rounds ? static_cast<float>(::attn::support::roundToBF16(value))
                  : value;
  };
  Floats dots(terms.size());
  for (size_t j = 0; j < terms.size(); ++j)
    dots[j] = add(size_t(dk), [&](size_t d) {
      return x[d] * terms[j].key[d] * keyGate(terms[j].weights, d);
    });
  Floats sums(static_cast<size_t>(dv));
  for (size_t c = 0; c < sums.size(); ++c) {
    float own = add(size_t(dk), [&](size_t d) {
      return x[d] * keyGate(stateWeights, d) *
             round(matrix[d * size_t(dv) + c], roundsState);
    });
    sums[c] =
        own * valueGate(stateWeights, c) + add(terms.size(), [&](size_t j) {
          return round(dots[j], roundsWeights) *
                 valueGate(terms[j].weights, c) * terms[j].value[c];
        });
  }
  return sums;
}

float ScanEmulation::projectSum(const Floats &x) const {
  float own = add(size_t(dk), [&](size_t d) {
    return x[d] * keyGate(stateWeights, d) * sum[d];
  });
  return own + add(terms.size(), [&](size_t j) {
           const Term &term = terms[j];
           return term.hasSum ? add(size_t(dk),
                                    [&](size_t d) {
                                      return x[d] * term.key[d] *
                                             keyGate(term.weights, d);
                                    })
                              : 0.0f;
         });
}

void ScanEmulation::step(int64_t t) {
  Floats erased;
  if (!p.eraseA.empty() && p.eraseBefore)
    erased = project(row(p.eraseA, t, dk));
  advanceGates(t);
  if (p.logWeight.empty())
    refreshWeights();
  if (!p.eraseA.empty() && !p.eraseBefore)
    erased = project(row(p.eraseA, t, dk));
  Term term;
  term.key = row(p.k, t, dk);
  term.value = row(p.v, t, dv);
  if (!p.beta.empty()) {
    Floats known = project(term.key);
    for (size_t c = 0; c < known.size(); ++c)
      term.value[c] = float(p.beta[size_t(t)]) * (term.value[c] - known[c]);
  }
  for (float &x : term.key)
    x *= p.weight.empty() ? 1.0f : float(p.weight[size_t(t)]);
  term.logs.assign(stateLogs.size(), 0.0f);
  term.weights.assign(stateLogs.size(), 1.0f);
  if (!p.logWeight.empty())
    term.logWeight = float(p.logWeight[size_t(t)]);
  if (!erased.empty()) {
    Term erase = term;
    erase.key = row(p.eraseB, t, dk);
    erase.value = erased;
    erase.hasSum = false;
    terms.push_back(erase);
  }
  terms.push_back(term);
  if (!p.logWeight.empty())
    refreshWeights();
}

void ScanEmulation::read(int64_t t, std::vector<double> &out) const {
  Floats query = row(p.q, t, dk);
  for (float &x : query)
    x *= float(p.scale);
  Floats sums = project(query, /*isRead=*/true);
  float own = 0, total = p.normalize ? projectSum(query) : 0;
  if (!p.bonus.empty() && t < p.tokens)
    own = add(size_t(dk), [&](size_t d) {
      return query[d] * float(p.bonus[d]) * float(p.k[size_t(t * dk) + d]);
    });
  for (size_t c = 0; c < sums.size(); ++c) {
    float value = sums[c];
    if (p.normalize)
      value = total == 0 ? 0 : value / total;
    else if (!p.logWeight.empty() && value != 0)
      value *= std::exp(largest);
    if (!p.bonus.empty() && t < p.tokens)
      value += own * float(p.v[size_t(t * dv) + c]);
    out[size_t(t * dv) + c] = value;
  }
}

void ScanEmulation::writeState() {
  for (size_t d = 0; d < size_t(dk); ++d) {
    for (size_t c = 0; c < size_t(dv); ++c) {
      float &x = matrix[d * size_t(dv) + c];
      x = x * (keyGate(stateWeights, d) * valueGate(stateWeights, c)) +
          add(terms.size(), [&](size_t j) {
            const Term &term = terms[j];
            return term.key[d] * keyGate(term.weights, d) *
                   (term.value[c] * valueGate(term.weights, c));
          });
    }
    sum[d] =
        sum[d] * keyGate(stateWeights, d) + add(terms.size(), [&](size_t j) {
          const Term &term = terms[j];
          return term.hasSum ? term.key[d] * keyGate(term.weights, d) : 0.0f;
        });
  }
  clearTerms();
}

std::vector<double> ScanEmulation::run() {
  const int64_t queries = int64_t(p.q.size()) / dk;
  std::vector<double> out(static_cast<size_t>(queries * dv));
  for (int64_t t = 0; t < p.tokens; ++t) {
    if (p.readBefore && t < queries)
      read(t, out);
    step(t);
    if (!p.readBefore && !p.whole && t < queries)
      read(t, out);
    if ((t + 1) % order.chunk == 0)
      writeState();
  }
  writeState();
  for (int64_t t = p.whole ? 0 : p.tokens; t < queries; ++t)
    read(t, out);
  state.matrix.assign(matrix.begin(), matrix.end());
  state.sum.assign(sum.begin(), sum.end());
  state.largest = largest;
  return out;
}

std::vector<double> attn::reference::emulatedScan(const ScanProblem &problem,
                                                  ScanState &state,
                                                  const ScanOrder &order) {
  return ScanEmulation(problem, state, order).run();
}
