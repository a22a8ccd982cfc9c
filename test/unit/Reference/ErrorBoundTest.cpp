//===- ErrorBoundTest.cpp - Emulations and the bar that they set ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Checks.h"

using namespace ::attn;
using namespace ::attn::reference;
using namespace ::attn::test;

namespace {

void testEmulatedErrors() {
  // 400 keys of equal score: with bf16 accumulators the sum of weights stops
  // at 256, where 1 is half a unit in the last place.
  const std::vector<double> zeros(400, 0.0), ones(400, 1.0);
  OneRow row(zeros, ones, Monoid::softmax);
  const AttentionResult exact = row.run();
  checkClose(exact.out, {1.0}, 1e-12, "mean of ones");

  Emulation bf16{DType::bf16, /*roundAccumulators=*/false};
  Emulation loose{DType::bf16, /*roundAccumulators=*/true};
  auto lseError = [&](const Emulation &emulation) {
    return maxError(exact.lse, emulatedAttention(row.p, emulation)->lse);
  };
  check(lseError(bf16) < 0.02, "f32 accumulators keep 400 bf16 terms");
  check(lseError(loose) > 0.4, "bf16 accumulators lose them");

  // The narrower the type, the larger the error; none is zero.
  OneRow thirds({0.1, 0.7, 1.3}, {0.3, 0.9, -1.1}, Monoid::softmax);
  const AttentionResult want = thirds.run();
  double last = 0.0;
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    auto emulated = emulatedAttention(thirds.p, Emulation{dtype, false});
    const double e = maxError(want.out, emulated->out);
    check(e > last && e < 4.0 * support::epsilonOf(dtype),
          std::string("error of ") + support::nameOf(dtype));
    checkClose(emulated->out, want.out,
               errorBound(want.out, emulated->out, dtype),
               "an emulation is within its own bound");
    last = e;
  }
  // Every order is an emulation of the same thing.
  Emulation f32;
  for (f32.order = 0; f32.order < numOrders; ++f32.order) {
    auto emulated = emulatedAttention(thirds.p, f32);
    check(maxError(want.out, emulated->out) < 0x1p-22, "error of an order");
    OneRow sticks({-0.3, 2.0, 1.5}, {1.0, 2.0, 3.0}, Monoid::stickBreaking);
    auto shares = emulatedAttention(sticks.p, f32);
    checkClose(shares->remainder, sticks.run().remainder, 0x1p-24,
               "remainder of an order");
  }
  // Where sigmoids are 1/2 in bf16, all shares that bf16 makes of them are
  // exact. Shares of f32 that are rounded at the product are not.
  OneRow lucky(std::vector<double>(24, 0.0015),
               std::vector<double>(24, 2.390625), Monoid::alphaCompositing);
  auto shareError = [&](const Emulation &how) {
    return maxError(lucky.run().out, emulatedAttention(lucky.p, how)->out);
  };
  double worst = 0.0;
  for (const Emulation &how : emulationsOf(bf16))
    worst = std::max(worst, shareError(how));
  Emulation atProduct;
  atProduct.operands = DType::bf16;
  check(shareError(bf16) < 1e-6, "round shares are exact");
  check(shareError(atProduct) > 2e-5, "shares rounded at the product");
  check(worst >= shareError(atProduct), "both are among the emulations");
  checkClose({productError({0.5, 0.0, 1.0, -1.0})},
             {0.5 * std::log(2.0) * 0x1p-22}, 1e-15, "two units of log 2");
  checkError(emulatedAttention(thirds.p, f32).error(),
             "expected an order below 8, but got 8", "an order too many");
  checkError(emulatedAttention(thirds.p, Emulation{DType::i8, false}).error(),
             "expected f32, f16 or bf16 to emulate, but got i8",
             "an emulation of i8");
}

void testBound() {
  check(errorBound({1, -4}, {1.5, -4}, DType::f16) == 1.0 + 8 * 0x1p-10,
        "2 e + 2 ulp max|ref|");
  check(errorBound({1, -4}, {1.5, -4}, DType::f16, 3.0) == 1.5 + 8 * 0x1p-10,
        "gradients take 3 e");
  check(errorBound({-inf, 0}, {-inf, 0}, DType::f32) == 0.0,
        "infinities do not enter");
  check(errorBound({1.0}, {inf}, DType::f16) == 2 * 0x1p-10,
        "an overflow of the emulation excuses nothing");
  check(errorBound({1e-7}, {1e-7}, DType::f16) == 0x1p-23,
        "the spacing of subnormals is the least");
}

void testCompare() {
  check(compare({1.0, qnan, inf}, {1.5, qnan, inf}, 0.5).ok,
        "within the bound");
  Comparison c = compare({1.0, 2.0, 3.0}, {1.0, 2.5, 4.0}, 0.5);
  check(!c.ok && c.worst == 2 && c.maxError == 1.0, "the largest error");
  check(!compare({qnan}, {1.0}, inf).ok, "NaN is not a number");
  check(!compare({1.0}, {qnan}, inf).ok, "a number is not NaN");
  check(!compare({inf}, {-inf}, inf).ok, "the infinities differ");
  check(!compare({1.0}, {2.0}, qnan).ok, "NaN is no bound");
  check(compare({inf, -inf}, {7e4, -65510.0}, 10.0, DType::f16).ok,
        "what overflows the dtype is an infinity");
  check(!compare({inf}, {65500.0}, 10.0, DType::f16).ok,
        "the largest numbers are none");
  check(!compare({-inf}, {7e4}, 10.0, DType::f16).ok, "of its own sign");
  check(!compare({inf}, {7e4}, inf, DType::f16).ok, "an infinite bound");
  check(!compare({inf}, {7e4}, 10.0, DType::f32).ok, "f32 holds it");
  check(!compare({1.0}, {1.0, 1.0}, 1.0).ok, "the sizes differ");
}

} // namespace

void attn::test::runErrorBoundTests() {
  testEmulatedErrors();
  testBound();
  testCompare();
}
