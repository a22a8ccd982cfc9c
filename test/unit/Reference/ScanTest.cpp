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

} // namespace

void attn::test::runScanTests() {
  testGates();
  testNormalized();
  testErasing();
}
