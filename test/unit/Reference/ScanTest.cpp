//===- ScanTest.cpp - Each rule of scans against constants ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Three tokens of one channel whose values are 1, 10, 100: digits show which
// token entered with which weight. Then two channels, where erasing takes one.
//
//===----------------------------------------------------------------------===//

#include "attn/Reference/Scan.h"
#include "Checks.h"

using namespace ::attn::reference;
using namespace ::attn::test;

namespace {

constexpr double eps = 1e-13;
const double ln2 = std::log(2.0);
using Gates = ScanProblem::Gates;

ScanProblem digits() {
  ScanProblem p;
  p.tokens = 3;
  p.keyChannels = p.valueChannels = 1;
  p.q = p.k = {1, 1, 1};
  p.v = {1, 10, 100};
  return p;
}

/// The recurrence again, but for rounding: with the state written down after
/// every token, after some and never.
void expectEmulated(const ScanProblem &p, const std::string &what) {
  ScanState exact;
  std::vector<double> want = scan(p, exact);
  for (ScanOrder order : {ScanOrder{1, 1, false}, ScanOrder{2, 4, true},
                          ScanOrder{64, 16, false}}) {
    std::string how = what + ", in chunks of " + std::to_string(order.chunk);
    ScanState state;
    checkClose(emulatedScan(p, state, order), want, 1e-6, how);
    checkClose(state.matrix, exact.matrix, 1e-6, how + ", the state");
    if (p.normalize)
      checkClose(state.sum, exact.sum, 1e-6, how + ", the sum");
    if (!p.logWeight.empty())
      checkClose({state.largest}, {exact.largest}, 1e-6, how + ", m");
  }
}

void expect(const ScanProblem &p, std::vector<double> want,
            const std::string &what, double last) {
  ScanState state;
  checkClose(scan(p, state), want, eps, what);
  checkClose(state.matrix, {last}, eps, what + ", the state");
  expectEmulated(p, what);
}

void testGates() {
  ScanProblem p = digits();
  expect(p, {1, 11, 111}, "sums", 111);
  p.scale = 2;
  expect(p, {2, 22, 222}, "scale", 111);
  p.scale = 1;
  p.readBefore = true;
  expect(p, {0, 1, 11}, "read before", 111);
  p.bonus = {3};
  expect(p, {3, 31, 311}, "bonus", 111);
  p = digits();
  p.whole = true;
  expect(p, {111, 111, 111}, "whole", 111);
  p = digits();
  p.decay = {0, -ln2, -inf};
  for (Gates gates : {Gates::head, Gates::key, Gates::value}) {
    p.gates = gates;
    expect(p, {1, 10.5, 100}, "gates", 100);
  }
  p = digits();
  p.weight = {2, 3, 0};
  expect(p, {2, 32, 32}, "weight", 32);
}

void testNormalized() {
  ScanProblem p = digits();
  p.normalize = true;
  p.k = {1, 0, 1};
  expect(p, {1, 1, 50.5}, "normalized", 101);
  p.q = {0, 1, 1};
  expect(p, {0, 1, 50.5}, "a denominator of 0", 101);
  p = digits();
  // Weights 1, 2, 1 times 1e300.
  const double huge = 300 * std::log(10.0);
  p.logWeight = {huge, huge + ln2, huge};
  p.normalize = true;
  ScanState state;
  checkClose(scan(p, state), {1, 7, 30.25}, 1e-10, "log weights");
  checkClose(state.matrix, {60.5}, 1e-10, "log weights, the state");
  checkClose({state.largest}, {huge + ln2}, eps, "log weights, m");
  p.logWeight = {3, -inf, 4};
  p.gates = Gates::head;
  p.decay = {0, -1, -inf};
  expectEmulated(p, "log weights and gates");
}

void testErasing() {
  // Keys e1, e1, e2: the second token takes the first one's place.
  ScanProblem p;
  p.tokens = 3;
  p.keyChannels = 2;
  p.valueChannels = 1;
  p.q = {1, 1, 1, 1, 1, 1};
  p.k = {1, 0, 1, 0, 0, 1};
  p.v = {1, 10, 100};
  p.beta = {1, 1, 0.5};
  ScanState state;
  checkClose(scan(p, state), {1, 10, 60}, eps, "delta rule");
  checkClose(state.matrix, {10, 50}, eps, "delta rule, the state");
  // The same as an erase along keys.
  p.beta.clear();
  p.v = {1, 10, 50};
  p.eraseA = p.k;
  p.eraseB = {-1, 0, -1, 0, 0, -0.5};
  state = {};
  checkClose(scan(p, state), {1, 10, 60}, eps, "erase");
  expectEmulated(p, "erase");
  // Erased is what was there before a gate of 1/2: half of it is left below 0.
  p.gates = Gates::head;
  p.decay = {0, -ln2, 0};
  p.eraseBefore = true;
  state = {};
  checkClose(scan(p, state), {1, 9.5, 59.5}, eps, "erase before");
  expectEmulated(p, "erase before");
  // Fewer queries than tokens, and more of them.
  p.q = {1, 1, 1, 1};
  state = {};
  checkClose(scan(p, state), {1, 9.5}, eps, "fewer queries");
  expectEmulated(p, "fewer queries");
  p.q = {1, 1, 1, 1, 1, 1, 1, 0};
  state = {};
  checkClose(scan(p, state), {1, 9.5, 59.5, 9.5}, eps, "more queries");
  expectEmulated(p, "more queries");
}

/// The map of the state that tokens [first, end) are, on columns of S: A from
/// the columns of the unit and values of 0, B from no state.
struct Map {
  std::vector<double> a, b;
};

Map summarize(const ScanProblem &whole, int64_t first, int64_t end) {
  auto cut = [&](const std::vector<double> &rows, int64_t width) {
    return rows.empty() ? rows
                        : std::vector<double>(rows.begin() + first * width,
                                              rows.begin() + end * width);
  };
  ScanProblem p = whole;
  int64_t d = p.keyChannels;
  p.tokens = end - first;
  p.q.clear();
  p.k = cut(p.k, d);
  p.v = cut(p.v, p.valueChannels);
  p.decay = cut(p.decay, p.gates == Gates::head ? 1 : d);
  p.beta = cut(p.beta, 1);
  p.eraseA = cut(p.eraseA, d);
  p.eraseB = cut(p.eraseB, d);
  ScanState fromNone;
  scan(p, fromNone);
  // As many value channels as key channels: one for each column of the unit.
  p.valueChannels = d;
  p.v.assign(size_t(p.tokens * d), 0.0);
  ScanState fromUnit;
  fromUnit.matrix.assign(size_t(d * d), 0.0);
  for (int64_t i = 0; i < d; ++i)
    fromUnit.matrix[size_t(i * d + i)] = 1;
  scan(p, fromUnit);
  return {fromUnit.matrix, fromNone.matrix};
}

/// `first`, then `second`: (A2 A1, A2 B1 + B2), by dense matrices.
Map compose(const Map &first, const Map &second, int64_t d, int64_t dv) {
  auto times = [&](const std::vector<double> &x, int64_t width) {
    std::vector<double> result(size_t(d * width));
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = 0; j < d; ++j)
        for (int64_t c = 0; c < width; ++c)
          result[size_t(i * width + c)] +=
              second.a[size_t(i * d + j)] * x[size_t(j * width + c)];
    return result;
  };
  Map both = {times(first.a, d), times(first.b, dv)};
  for (size_t i = 0; i < both.b.size(); ++i)
    both.b[i] += second.b[i];
  return both;
}

/// Tokens are maps S -> A S + B: their products, in any order of the products,
/// are what the recurrence makes of the tokens, and no tokens are the unit.
void testComposition() {
  constexpr int64_t n = 12, d = 3, dv = 2;
  double next = 0.1;
  auto draw = [&](int64_t count, double low, double high) {
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) {
      next = 3.9 * next * (1 - next);
      values.push_back(low + (high - low) * next);
    }
    return values;
  };
  ScanProblem p;
  p.tokens = n, p.keyChannels = d, p.valueChannels = dv;
  p.k = draw(n * d, -0.7, 0.7);
  p.v = draw(n * dv, -1, 1);
  ScanProblem heads = p, channels = p, delta = p, erase = p, before;
  heads.gates = delta.gates = Gates::head;
  heads.decay = delta.decay = draw(n, -1, 0);
  heads.decay[5] = -inf;
  delta.beta = draw(n, 0, 1.9);
  channels.gates = erase.gates = Gates::key;
  channels.decay = erase.decay = draw(n * d, -1, 0);
  erase.eraseA = draw(n * d, -0.5, 0.5);
  erase.eraseB = draw(n * d, -0.5, 0.5);
  before = erase;
  before.eraseBefore = true;
  for (const ScanProblem *rule :
       {&p, &heads, &channels, &delta, &erase, &before}) {
    Map whole = summarize(*rule, 0, n), unit = summarize(*rule, 4, 4);
    auto same = [&](const Map &got, const Map &want, const char *what) {
      checkClose(got.a, want.a, eps, what);
      checkClose(got.b, want.b, eps, what);
    };
    same(compose(unit, whole, d, dv), whole, "the unit first");
    same(compose(whole, unit, d, dv), whole, "the unit last");
    Map a = summarize(*rule, 0, 3), b = summarize(*rule, 3, 8),
        c = summarize(*rule, 8, n);
    same(compose(compose(a, b, d, dv), c, d, dv), whole, "(a b) c");
    same(compose(a, compose(b, c, d, dv), d, dv), whole, "a (b c)");
  }
}

/// Largest weights with their states: (G, m, S) of two parts of the tokens
/// makes (G1 + G2, m, S1 exp(m1 + G2 - m) + S2 exp(m2 - m)), m the larger of m1
/// + G2 and m2. The factors are those of an associative combine, and the
/// recurrence is it.
void testLargest() {
  struct Part {
    double gates, largest, state;
  };
  auto join = [](const Part &x, const Part &y) {
    double old = x.largest + y.gates, m = std::max(old, y.largest);
    auto factor = [&](double own) {
      return own == -inf ? 0 : std::exp(own - m);
    };
    return Part{x.gates + y.gates, m,
                x.state * factor(old) + y.state * factor(y.largest)};
  };
  ScanProblem p = digits();
  p.gates = Gates::head;
  for (std::vector<double> gates :
       {std::vector<double>{-0.5, -2, -0.1}, {0, 0, 0}, {-1, -inf, -3}})
    for (std::vector<double> weights :
         {std::vector<double>{3, -1, 2}, {-800, 700, 699}, {1, -inf, -2}}) {
      p.decay = gates;
      p.logWeight = weights;
      Part parts[3];
      for (int t : {0, 1, 2})
        parts[t] = {gates[size_t(t)], weights[size_t(t)],
                    weights[size_t(t)] == -inf ? 0 : p.v[size_t(t)]};
      Part left = join(join(parts[0], parts[1]), parts[2]);
      Part right = join(parts[0], join(parts[1], parts[2]));
      ScanState state;
      scan(p, state);
      checkClose({left.state, left.largest}, {right.state, right.largest}, eps,
                 "(a b) c is a (b c) with log weights");
      checkClose({state.matrix[0], state.largest}, {left.state, left.largest},
                 eps, "the recurrence with log weights");
    }
}

} // namespace

void attn::test::runScanTests() {
  testComposition();
  testLargest();
  testGates();
  testNormalized();
  testErasing();
}
