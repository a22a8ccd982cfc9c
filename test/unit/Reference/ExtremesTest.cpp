//===- ExtremesTest.cpp - Scores far from 1, and what is dead
//--------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What PyTorch and NumPy give in float32 for masks as people write them. The
// constants are those of float32 arithmetic on score - maximum.
//
//===----------------------------------------------------------------------===//

#include "Checks.h"

using namespace ::attn;
using namespace ::attn::reference;
using namespace ::attn::test;

namespace {

constexpr double eps = 1e-13;
constexpr double least = -std::numeric_limits<float>::max();
const double ln3 = std::log(3.0);
const std::vector<double> digits = {1, 10, 100};

/// One row with a bias for each key.
struct BiasedRow : OneRow {
  std::vector<double> bias;

  BiasedRow(std::vector<double> scores, std::vector<double> added,
            Monoid monoid = Monoid::softmaxEntropy)
      : OneRow(std::move(scores), digits, monoid), bias(std::move(added)) {
    p.bias = support::denseView(bias.data(), support::DType::f64,
                                {1, 1, 1, static_cast<int64_t>(bias.size())});
  }
};

void testMaskedRows() {
  // Every key masked: float32 cannot tell the scores apart, so the mean.
  for (double value : {least, -1e30, -1e12, -1e10, -1e9}) {
    const double asF32 = static_cast<float>(value);
    BiasedRow row({0.5, -1.0, 2.0}, {value, value, value});
    AttentionResult r = row.run();
    const std::string what = "all keys at " + std::to_string(value);
    checkClose(r.out, {37.0}, eps, what + ", mean");
    checkClose(r.lse, {asF32 + ln3}, 0.0, what + ", lse");
    checkClose(r.rowMax, {asF32}, 0.0, what + ", max");
    checkClose(r.entropy, {ln3}, eps, what + ", entropy");
    for (Monoid monoid : {Monoid::softmax, Monoid::logsumexp}) {
      row.p.monoid = monoid;
      checkClose(row.run().lse, {asF32 + ln3}, 0.0, what + ", lse again");
    }
    // One key is not masked: it alone counts.
    BiasedRow padded({0.5, -1.0, 2.0}, {value, 0.0, value});
    r = padded.run();
    checkClose(r.out, {10.0}, 0.0, what + " but one, out");
    checkClose(r.lse, {-1.0}, 0.0, what + " but one, lse");
    checkClose(r.entropy, {0.0}, 0.0, what + " but one, entropy");
  }

  // float32 still tells scores apart at -1e4 (a step of 2^-10) and, by what it
  // loses, not from 2^23 on.
  const double e = std::exp(1.0);
  BiasedRow small({0.0, 1.0, 0.0}, {-1e4, -1e4, -1e4});
  checkClose(small.run().out, {(101.0 + 10.0 * e) / (2.0 + e)}, eps,
             "all keys at -1e4");
  BiasedRow coarse({0.0, 0.25, 0.0}, {-0x1p24, -0x1p24, -0x1p24});
  checkClose(coarse.run().out, {37.0}, eps, "a quarter of 1 beside 2^24");
  BiasedRow fine({0.0, 0.25, 0.0}, {-0x1p22, -0x1p22, -0x1p22});
  const double root = std::exp(0.25);
  checkClose(fine.run().out, {(101.0 + 10.0 * root) / (2.0 + root)}, 1e-9,
             "a quarter of 1 beside 2^22");

  // Other monoids: no weight at all.
  for (Monoid monoid : {Monoid::sigmoid, Monoid::relu, Monoid::stickBreaking,
                        Monoid::alphaCompositing}) {
    BiasedRow masked({0.5, -1.0, 2.0}, {least, least, least}, monoid);
    checkClose(masked.run().out, {0.0}, 0.0, "no weight at finfo.min");
  }

  // An emulation in 16 bits keeps scores wide where it is asked to.
  BiasedRow row({0.5, -1.0, 2.0}, {least, least, least}, Monoid::softmax);
  for (DType dtype : {DType::f16, DType::bf16}) {
    Emulation how;
    how.dtype = dtype;
    how.wideScores = true;
    checkClose(emulatedAttention(row.p, how)->out, {37.0}, 0.5,
               "the mean in 16 bits");
  }
}

void testDead() {
  // Keys at -inf are dead, and what K and V hold there is not looked at.
  for (double junk : {qnan, inf, -inf}) {
    OneRow row({junk, 1.0, junk}, {junk, 10, junk}, Monoid::softmaxEntropy);
    std::vector<double> bias = {-inf, 0.0, -inf};
    row.p.bias = support::denseView(bias.data(), DType::f64, {1, 1, 1, 3});
    AttentionResult r = row.run();
    checkClose(r.out, {10.0}, 0.0, "NaN in V at a bias of -inf");
    checkClose(r.lse, {1.0}, 0.0, "NaN in K at a bias of -inf");

    // Nothing is left, not even of the query or of the scale.
    bias = {-inf, -inf, -inf};
    row.q = {junk};
    row.p.scale = junk;
    r = row.run();
    checkClose(r.out, {0.0}, 0.0, "a dead row, out");
    checkClose(r.lse, {-inf}, 0.0, "a dead row, lse");
    checkClose(r.entropy, {0.0}, 0.0, "a dead row, entropy");
    row.p.bias = {};
    row.p.kvLengths = {0};
    r = row.run();
    checkClose(r.out, {0.0}, 0.0, "no keys, out");
    checkClose(r.lse, {-inf}, 0.0, "no keys, lse");
  }
}

void testSinks() {
  const double large = static_cast<float>(3.4e38);
  OneRow row({0.5, -1.0, 2.0}, digits, Monoid::softmaxEntropy);
  for (double sink : {large, -least, 1e30}) {
    row.p.sinks = {sink};
    AttentionResult r = row.run();
    const double asF32 = static_cast<float>(sink);
    checkClose(r.out, {0.0}, 0.0, "a sink above all scores, out");
    checkClose(r.lse, {asF32}, 0.0, "a sink above all scores, lse");
    checkClose(r.entropy, {0.0}, 0.0, "a sink above all scores, entropy");
    row.p.sinks = {-sink};
    OneRow without({0.5, -1.0, 2.0}, digits, Monoid::softmax);
    checkClose(row.run().out, without.run().out, 0.0, "a sink below them");
    row.p.kvLengths = {0};
    r = row.run();
    checkClose(r.out, {0.0}, 0.0, "a sink alone, out");
    checkClose(r.lse, {-asF32}, 0.0, "a sink alone, lse");
    row.p.kvLengths = {};
  }
  // A sink as low as the masked keys weighs as much as one.
  BiasedRow masked({0.5, -1.0, 2.0}, {least, least, least});
  masked.p.sinks = {least};
  checkClose(masked.run().out, {111.0 / 4.0}, eps, "a sink of finfo.min");
}

void testLargeScores() {
  // Whole numbers times 2^30: exact, and far apart.
  OneRow row({1e9, 3e9, 3e9}, digits, Monoid::softmax);
  AttentionResult r = row.run();
  checkClose(r.out, {55.0}, 0.0, "a tie at 3e9");
  checkClose(r.lse, {3e9 + std::log(2.0)}, 1e-6, "lse of a tie at 3e9");
  row.p.scale = -0x1p60;
  checkClose(row.run().out, {1.0}, 0.0, "a huge scale");
  row.p.scale = 1e-45;
  checkClose(row.run().out, {37.0}, 1e-12, "a tiny scale");
  row.p.scale = 0.0;
  checkClose(row.run().out, {37.0}, 1e-12, "no scale");
}

void testDecisive() {
  auto decides = [](std::vector<double> want, double e, double scale) {
    Errors errors{e, 0.0};
    return isDecisive(want, errors, errorBars(want, errors, DType::f32), scale);
  };
  check(decides({1.0, -0.5}, 1e-7, 1.0), "a small error");
  check(!decides({0.72, 0.1}, 0.63, 3.0), "an error of the size of the output");
  check(decides({0.0, 0.0}, 0.0, 1.0), "dead rows are known to be 0");
  check(decides({1e-33}, 1e-14, 1.0), "0 but for rounding");
  check(!decides({0.0}, 5.0, 1.0), "0, or anything");
  check(!decides({9.4e-323}, 9.4e-323, 1.0), "an underflow");
  check(decides({1e-30}, 1e-37, 1.0), "small outputs");

  // Large entries do not excuse the others.
  std::vector<double> lse = {2.0, -1e30};
  Errors errors = maxErrors(lse, {2.0 + 1e-6, -1e30 + 1e23});
  check(errors.fine < 2e-6 && errors.coarse > 1e22, "errors of two kinds");
  Errors bars = errorBars(lse, errors, DType::f32);
  check(compare({2.0, -1e30}, lse, bars).ok, "both within their bounds");
  check(!compare({2.1, -1e30}, lse, bars).ok, "off by 0.1 beside 1e30");
  check(isDecisive(lse, errors, bars, 1.0), "both bounds tell");
  check(emulationsOf(Emulation()).size() == 8, "f32 has eight emulations");
  check(emulationsOf(Emulation{DType::bf16, false}).size() == 24,
        "others have those too, with and without operands of 16 bits");
}

} // namespace

void attn::test::runExtremesTests() {
  testMaskedRows();
  testDead();
  testSinks();
  testLargeScores();
  testDecisive();
}
