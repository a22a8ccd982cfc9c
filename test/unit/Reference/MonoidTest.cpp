//===- MonoidTest.cpp - Each monoid against constants ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The scores are logarithms of small integers, so that every constant can be
// worked out with a pencil. Channel 0 of the values is 1, 10, 100 for the keys
// in order: its digits show which key entered with which weight.
//
//===----------------------------------------------------------------------===//

#include "Checks.h"

using namespace ::attn;
using namespace ::attn::reference;
using namespace ::attn::test;

namespace {

constexpr double eps = 1e-13;
const double ln2 = std::log(2.0), ln3 = std::log(3.0), ln6 = std::log(6.0);

const std::vector<double> digits = {1, -1, 10, -1, 100, -1};

void testSoftmax() {
  // Weights 1 : 2 : 3.
  OneRow row({0.0, ln2, ln3}, digits, Monoid::softmax);
  AttentionResult r = row.run();
  checkClose(r.out, {321.0 / 6.0, -1.0}, eps, "softmax out");
  checkClose(r.lse, {ln6}, eps, "softmax lse");
  checkClose(r.rowMax, {ln3}, 0.0, "softmax row max");
  checkClose(r.weights, {1.0 / 6, 2.0 / 6, 3.0 / 6}, eps, "softmax weights");
  check(r.entropy.empty() && r.remainder.empty() && r.variance.empty(),
        "softmax leaves other outputs empty");

  OneRow large({1e5, 1e5 + ln2}, {1, 4}, Monoid::softmax);
  checkClose(large.run().out, {3.0}, 1e-9, "softmax of large scores");

  OneRow scaled({0.0, 2 * ln2}, {1, 4}, Monoid::softmax);
  scaled.p.scale = 0.5;
  checkClose(scaled.run().out, {3.0}, eps, "softmax, scale");
  scaled.p.scale.reset(); // 1 / sqrt(1)
  checkClose(scaled.run().out, {(1.0 + 16.0) / 5.0}, eps, "default scale");

  // cap * tanh(atanh(1/2)) = cap / 2.
  OneRow capped({0.0, 2 * ln2 * std::atanh(0.5)}, {1, 4}, Monoid::softmax);
  capped.p.softcap = 2 * ln2;
  checkClose(capped.run().out, {3.0}, eps, "softmax, softcap");
}

void testSinks() {
  OneRow row({0.0, ln2}, {1, 10}, Monoid::softmax);
  row.p.sinks = {ln3};
  AttentionResult r = row.run();
  checkClose(r.out, {21.0 / 6.0}, eps, "sink out");
  checkClose(r.lse, {ln6}, eps, "sink lse");
  checkClose(r.rowMax, {ln3}, 0.0, "the row max includes the sink");

  row.p.monoid = Monoid::softmaxEntropy;
  const double h = ln6 - (2 * ln2 + 3 * ln3) / 6.0;
  checkClose(row.run().entropy, {h}, eps, "entropy with a sink");

  row.p.sinks = {-inf};
  checkClose(row.run().lse, {ln3}, eps, "a sink of -inf is no sink");

  row.p.sinks = {0.5};
  row.p.kvLengths = {0};
  r = row.run();
  checkClose(r.out, {0.0}, 0.0, "empty row with a sink, out");
  checkClose(r.lse, {0.5}, 0.0, "empty row with a sink, lse");
  checkClose(r.entropy, {0.0}, 0.0, "empty row with a sink, entropy");

  row.p.monoid = Monoid::relu;
  checkError(attention(row.p).error(), "expected sinks only with a monoid",
             "a sink for a plain sum");
}

void testSoftmaxRelatives() {
  OneRow lse({0.0, ln2, ln3}, {}, Monoid::logsumexp);
  lse.p.v = TensorView();
  AttentionResult r = lse.run();
  checkClose(r.lse, {ln6}, eps, "logsumexp");
  check(r.out.empty(), "logsumexp has no out");

  OneRow uniform({7.0, 7.0, 7.0, 7.0}, {1, 2, 3, 4}, Monoid::softmaxEntropy);
  r = uniform.run();
  checkClose(r.entropy, {2 * ln2}, eps, "entropy of four equal keys");
  checkClose(r.out, {2.5}, eps, "out beside the entropy");
  OneRow certain({0.0, 5000.0}, {1, 2}, Monoid::softmaxEntropy);
  checkClose(certain.run().entropy, {0.0}, 1e-11, "entropy of one key");
}

void testPlainSums() {
  // sigmoid(ln n) = n / (n + 1).
  OneRow sigmoid({0.0, ln2, ln3}, digits, Monoid::sigmoid);
  AttentionResult r = sigmoid.run();
  const double sum = 1.0 / 2 + 2.0 / 3 + 3.0 / 4;
  checkClose(r.out, {0.5 + 20.0 / 3 + 75.0, -sum}, eps, "sigmoid out");
  checkClose(r.weightSum, {sum}, eps, "sigmoid weight sum");
  OneRow relu({-2.0, 0.5, 3.0}, digits, Monoid::relu);
  checkClose(relu.run().out, {305.0, -3.5}, eps, "relu");
  OneRow squared({-2.0, 0.5, 3.0}, digits, Monoid::squaredRelu);
  checkClose(squared.run().out, {902.5, -9.25}, eps, "squared relu");
  OneRow far({-1000.0, 1000.0}, {1, 2}, Monoid::sigmoid);
  checkClose(far.run().out, {2.0}, eps, "sigmoid of extreme scores");
}

void testGatedSums() {
  // Shares 1/2, 2/3, 3/4. From the latest key: 3/4, 2/3 of 1/4, 1/2 of 1/12.
  OneRow stick({0.0, ln2, ln3}, digits, Monoid::stickBreaking);
  AttentionResult r = stick.run();
  checkClose(r.weights, {1.0 / 24, 1.0 / 6, 3.0 / 4}, eps, "stick weights");
  checkClose(r.out, {1.0 / 24 + 10.0 / 6 + 75.0, -23.0 / 24}, eps, "stick out");
  checkClose(r.remainder, {1.0 / 24}, eps, "stick remainder");

  // Front to back: 1/2, 2/3 of 1/2, 3/4 of 1/6.
  OneRow alpha({0.0, ln2, ln3}, digits, Monoid::alphaCompositing);
  r = alpha.run();
  checkClose(r.weights, {1.0 / 2, 1.0 / 3, 1.0 / 8}, eps, "alpha weights");
  checkClose(r.out, {0.5 + 10.0 / 3 + 12.5, -23.0 / 24}, eps, "alpha out");
  checkClose(r.remainder, {1.0 / 24}, eps, "transmittance");

  // A dead key takes no share and stops nothing.
  for (OneRow *row : {&stick, &alpha})
    row->p.maskMod = [](int64_t, int64_t, int64_t, int64_t j) {
      return j != 1;
    };
  checkClose(stick.run().weights, {1.0 / 8, 0, 3.0 / 4}, eps,
             "stick with a dead key");
  checkClose(alpha.run().weights, {1.0 / 2, 0, 3.0 / 8}, eps,
             "alpha with a dead key");

  // Gates 1/2, 1/3, 1/5: a key fades by the gates after it, not its own.
  OneRow decay({2.0, 3.0, 4.0}, digits, Monoid::gatedDecay);
  decay.p.logGate = [](int64_t, int64_t, int64_t, int64_t j) {
    return -std::log(j == 0 ? 2.0 : j == 1 ? 3.0 : 5.0);
  };
  r = decay.run();
  checkClose(r.weights, {2.0 / 15, 3.0 / 5, 4.0}, eps, "decay weights");
  checkClose(r.out, {2.0 / 15 + 6.0 + 400.0, -71.0 / 15}, eps, "decay out");
  checkClose(r.remainder, {1.0 / 30}, eps, "whole decay");
  // A gate of 0 forgets all before it; a dead key's gate does not count.
  decay.p.logGate = [](int64_t, int64_t, int64_t, int64_t j) {
    return j == 1 ? -inf : 0.0;
  };
  checkClose(decay.run().weights, {0, 3, 4}, 0.0, "decay with a zero gate");
  decay.p.maskMod = [](int64_t, int64_t, int64_t, int64_t j) { return j != 1; };
  checkClose(decay.run().weights, {2, 0, 4}, 0.0, "decay, dead zero gate");

  decay.p.logGate = nullptr;
  checkError(attention(decay.p).error(), "expected a gate", "a missing gate");
}

void testGeneralMonoids() {
  OneRow maxPlus({1.0, 5.0, 0.0}, {7, 0, 1, 1, 9, 0}, Monoid::maxPlus);
  checkClose(maxPlus.run().out, {9.0, 6.0}, 0.0, "max-plus");

  // Weights 0, 1, 3: mean of (10, 2) is 4, variance (36 + 3 * 4) / 4 = 12.
  OneRow welford({-4.0, 1.0, 3.0}, {99, 10, 2}, Monoid::welford);
  AttentionResult r = welford.run();
  checkClose(r.out, {4.0}, eps, "weighted mean");
  checkClose(r.variance, {12.0}, eps, "weighted variance");
  checkClose(r.weightSum, {4.0}, eps, "welford weight sum");
  OneRow weightless({-1.0, 0.0}, {1, 2}, Monoid::welford);
  r = weightless.run();
  checkClose(r.out, {0.0}, 0.0, "mean without weight");
  checkClose(r.variance, {0.0}, 0.0, "variance without weight");
}

constexpr Monoid allMonoids[] = {
    Monoid::softmax,       Monoid::softmaxEntropy, Monoid::logsumexp,
    Monoid::sigmoid,       Monoid::relu,           Monoid::squaredRelu,
    Monoid::stickBreaking, Monoid::gatedDecay,     Monoid::alphaCompositing,
    Monoid::maxPlus,       Monoid::welford};

void giveGate(OneRow &row) {
  if (row.p.monoid == Monoid::gatedDecay)
    row.p.logGate = [](int64_t, int64_t, int64_t, int64_t) { return -0.5; };
}

void checkSame(const AttentionResult &got, const AttentionResult &want,
               const std::string &what) {
  checkClose(got.out, want.out, 0.0, what + ", out");
  checkClose(got.variance, want.variance, 0.0, what + ", variance");
  checkClose(got.lse, want.lse, 0.0, what + ", lse");
  checkClose(got.rowMax, want.rowMax, 0.0, what + ", row max");
  checkClose(got.entropy, want.entropy, 0.0, what + ", entropy");
  checkClose(got.remainder, want.remainder, 0.0, what + ", remainder");
  checkClose(got.weightSum, want.weightSum, 0.0, what + ", weight sum");
}

/// What every monoid owes to section 5 of the semantics.
void testEmptyDeadAndNaN(Monoid monoid) {
  const std::string name = support::nameOf(monoid);
  const bool hasOut = monoid != Monoid::logsumexp;

  // No key at all, and no live key, give the same.
  OneRow none({}, {}, monoid), dead({1.0, 2.0}, {1, 2, 3, 4}, monoid);
  giveGate(none);
  giveGate(dead);
  dead.p.kvLengths = {0};
  AttentionResult r = none.run();
  checkSame(dead.run(), r, name + ": key length 0 is as no keys");
  const double empty = monoid == Monoid::maxPlus ? -inf : 0.0;
  if (hasOut)
    checkClose(r.out, {empty, empty}, 0.0, name + ": out of an empty row");
  if (!r.lse.empty())
    checkClose(r.lse, {-inf}, 0.0, name + ": lse of an empty row");
  if (!r.entropy.empty())
    checkClose(r.entropy, {0.0}, 0.0, name + ": entropy of an empty row");
  if (!r.remainder.empty())
    checkClose(r.remainder, {1.0}, 0.0, name + ": remainder of an empty row");

  // NaN and infinities of dead keys are not seen, whatever makes them dead.
  OneRow clean({0.5, 2.0}, {1, 2, 3, 4}, monoid);
  giveGate(clean);
  const AttentionResult want = clean.run();
  OneRow dirty({qnan, 0.5, 2.0, inf}, {qnan, inf, 1, 2, 3, 4, -inf, qnan},
               monoid);
  giveGate(dirty);
  auto liveOnes = [](int64_t, int64_t, int64_t, int64_t j) {
    return j == 1 || j == 2;
  };
  dirty.p.maskMod = liveOnes;
  auto trim = [](AttentionResult x) {
    x.scores.clear();
    x.weights.clear();
    return x;
  };
  checkSame(trim(dirty.run()), trim(want), name + ": dead NaN by mask_mod");
  dirty.p.maskMod = nullptr;
  const std::vector<double> bias = {-inf, 0, 0, -inf};
  dirty.p.bias = support::denseView(bias.data(), DType::f64, {1, 1, 1, 4});
  checkSame(trim(dirty.run()), trim(want), name + ": dead NaN by bias -inf");
  dirty.p.bias = TensorView();
  const std::vector<uint8_t> mask = {0, 1, 1, 0};
  dirty.p.mask = support::denseView(mask.data(), DType::boolean, {1, 1, 1, 4});
  checkSame(trim(dirty.run()), trim(want), name + ": dead NaN by mask");
  OneRow tail({0.5, 2.0, qnan}, {1, 2, 3, 4, qnan, qnan}, monoid);
  giveGate(tail);
  tail.p.kvLengths = {2};
  checkSame(trim(tail.run()), trim(want), name + ": dead NaN by length");

  // A live NaN reaches the outputs.
  OneRow nanKey({0.5, qnan}, {1, 2, 3, 4}, monoid);
  giveGate(nanKey);
  r = nanKey.run();
  if (hasOut)
    checkClose(r.out, {qnan, qnan}, 0.0, name + ": a live NaN in K, out");
  if (!r.lse.empty()) {
    checkClose(r.lse, {qnan}, 0.0, name + ": a live NaN in K, lse");
    checkClose(r.rowMax, {qnan}, 0.0, name + ": a live NaN in K, row max");
  }
  OneRow nanValue({0.5, 2.0}, {1, 2, qnan, 4}, monoid);
  giveGate(nanValue);
  r = nanValue.run();
  if (hasOut)
    check(std::isnan(r.out[0]) && std::isfinite(r.out[1]),
          name + ": a live NaN in V stays in its channel");
}

} // namespace

void attn::test::runMonoidTests() {
  testSoftmax();
  testSinks();
  testSoftmaxRelatives();
  testPlainSums();
  testGatedSums();
  testGeneralMonoids();
  for (Monoid monoid : allMonoids) {
    testEmptyDeadAndNaN(monoid);
    check(support::parseMonoid(support::nameOf(monoid)) == monoid,
          "the name of a monoid finds it again");
  }
}
