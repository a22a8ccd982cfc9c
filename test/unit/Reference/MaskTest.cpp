//===- MaskTest.cpp - Masks, lengths, layouts and heads -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each option is compared with the same problem said by a boolean predicate
// that is written out here, or with a copy of the tensors that needs no option.
//
//===----------------------------------------------------------------------===//

#include "Checks.h"

#include <algorithm>
#include <functional>

using namespace ::attn;
using namespace ::attn::reference;
using namespace ::attn::test;

namespace {

/// Small tensors of arbitrary but fixed values.
struct Tensors {
  int64_t b, hq, hk, sq, sk, d, dv;
  std::vector<double> q, k, v;

  Tensors(int64_t b, int64_t hq, int64_t hk, int64_t sq, int64_t sk,
          int64_t d = 3, int64_t dv = 2)
      : b(b), hq(hq), hk(hk), sq(sq), sk(sk), d(d), dv(dv) {
    fill(q, b * hq * sq * d);
    fill(k, b * hk * sk * d);
    fill(v, b * hk * sk * dv);
  }

  AttentionProblem problem() const {
    using namespace support;
    AttentionProblem p;
    p.q = denseView(q.data(), DType::f64, {b, hq, sq, d});
    p.k = denseView(k.data(), DType::f64, {b, hk, sk, d});
    p.v = denseView(v.data(), DType::f64, {b, hk, sk, dv});
    return p;
  }

private:
  void fill(std::vector<double> &to, int64_t count) {
    for (int64_t n = 0; n < count; ++n) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      to.push_back(static_cast<double>(state >> 40) * 0x1p-22 - 2.0);
    }
  }
  uint64_t state = 1;
};

AttentionResult run(const AttentionProblem &p, const std::string &what) {
  auto result = attention(p);
  check(bool(result), what + ": " + result.error());
  return result ? *result : AttentionResult();
}

void checkEqual(const AttentionProblem &p, const AttentionProblem &same,
                const std::string &what) {
  AttentionResult x = run(p, what), y = run(same, what);
  checkClose(x.out, y.out, 0.0, what + ", out");
  checkClose(x.lse, y.lse, 0.0, what + ", lse");
}

/// `p` must do what `live` says on top of plain attention.
void checkLiveSet(const AttentionProblem &p, AttentionProblem::MaskMod live,
                  const std::string &what) {
  AttentionProblem plain;
  plain.q = p.q;
  plain.k = p.k;
  plain.v = p.v;
  plain.maskMod = std::move(live);
  checkEqual(p, plain, what);
}

void testCausalAndWindows() {
  // More keys than queries, and the other way round: bottomRight then has
  // rows with no key.
  for (auto [sq, sk] : {std::pair<int64_t, int64_t>{3, 5}, {5, 3}, {4, 4}}) {
    const Tensors t(1, 1, 1, sq, sk);
    const int64_t shift = sk - sq;
    AttentionProblem p = t.problem();
    p.causal = Causal::topLeft;
    checkLiveSet(
        p, [](int64_t, int64_t, int64_t i, int64_t j) { return j <= i; },
        "top_left");
    p.causal = Causal::bottomRight;
    checkLiveSet(
        p,
        [=](int64_t, int64_t, int64_t i, int64_t j) { return j <= i + shift; },
        "bottom_right");

    for (int64_t left : {int64_t(-1), int64_t(0), int64_t(1), INT64_MAX})
      for (int64_t right : {int64_t(-1), int64_t(0), int64_t(2), INT64_MAX})
        for (Causal causal :
             {Causal::none, Causal::topLeft, Causal::bottomRight}) {
          p.windowLeft = left;
          p.windowRight = right;
          p.causal = causal;
          checkLiveSet(
              p,
              [=](int64_t, int64_t, int64_t i, int64_t j) {
                const int64_t from =
                    j - i - (causal == Causal::topLeft ? 0 : shift);
                return (causal == Causal::none || from <= 0) &&
                       (left < 0 || from >= -left) &&
                       (right < 0 || from <= right);
              },
              "window (" + std::to_string(left) + ", " + std::to_string(right) +
                  ")");
        }
  }
}

void testLengths() {
  const Tensors t(3, 2, 2, 4, 5);
  AttentionProblem p = t.problem();
  p.kvLengths = {5, 0, 2};
  const std::vector<int32_t> n = p.kvLengths;
  checkLiveSet(
      p, [=](int64_t b, int64_t, int64_t, int64_t j) { return j < n[b]; },
      "kv_lengths");
  p.causal = Causal::bottomRight;
  p.windowLeft = 1;
  checkLiveSet(
      p,
      [=](int64_t b, int64_t, int64_t i, int64_t j) {
        const int64_t diagonal = i + n[b] - 4;
        return j < n[b] && j <= diagonal && j >= diagonal - 1;
      },
      "bottom_right is relative to the key length");

  p.kvLengths = {5, 0};
  checkError(attention(p).error(), "one of kv_lengths per batch, 3, but got 2",
             "too few lengths");
  p.kvLengths = {5, 0, 6};
  checkError(attention(p).error(), "between 0 and 5, but got 6",
             "a length beyond the keys");
}

void testAlibiAndBias() {
  const Tensors t(2, 2, 1, 2, 4);
  AttentionProblem p = t.problem();
  p.alibiSlopes = {0.5, 0.25, 2.0, 1.0};
  p.kvLengths = {4, 3};
  AttentionProblem same = t.problem();
  same.kvLengths = p.kvLengths;
  same.scoreMod = [](double s, int64_t b, int64_t h, int64_t i, int64_t j) {
    const double slopes[2][2] = {{0.5, 0.25}, {2.0, 1.0}};
    return s - slopes[b][h] * std::fabs(double(i + (b ? 3 : 4) - 2 - j));
  };
  checkEqual(p, same, "alibi per batch and head");
  p.alibiSlopes = {0.5, 0.25};
  same.scoreMod = [](double s, int64_t b, int64_t h, int64_t i, int64_t j) {
    return s - (h ? 0.25 : 0.5) * std::fabs(double(i + (b ? 3 : 4) - 2 - j));
  };
  checkEqual(p, same, "alibi per head");
  p.alibiSlopes = {0.5, 0.25, 2.0};
  checkError(attention(p).error(), "expected alibi_slopes for 2 heads",
             "three slopes");

  // A bias of every rank that broadcasts, NumPy's way.
  for (std::vector<int64_t> shape : {std::vector<int64_t>{4},
                                     {1, 4},
                                     {2, 1},
                                     {2, 2, 4},
                                     {2, 1, 1, 4},
                                     {1, 2, 2, 1},
                                     {}}) {
    support::NpyArray bias = support::NpyArray::zeros(DType::f64, shape);
    for (int64_t n = 0; n < bias.size(); ++n)
      bias.set(n, 0.25 * double(n) - 0.5);
    auto view = support::broadcastView(bias, {2, 2, 2, 4});
    check(bool(view), view.error());
    AttentionProblem biased = t.problem(), modded = t.problem();
    biased.bias = *view;
    std::vector<int64_t> full = shape;
    full.insert(full.begin(), 4 - shape.size(), 1);
    modded.scoreMod = [=](double s, int64_t b, int64_t h, int64_t i,
                          int64_t j) {
      const int64_t at[4] = {b, h, i, j};
      int64_t index = 0;
      for (int axis = 0; axis < 4; ++axis)
        index = index * full[axis] + (full[axis] == 1 ? 0 : at[axis]);
      return s + bias.at(index);
    };
    checkEqual(biased, modded, "bias of shape " + support::printShape(shape));
  }
  support::NpyArray wrong = support::NpyArray::zeros(DType::f64, {3});
  checkError(support::broadcastView(wrong, {2, 2, 2, 4}).error(),
             "broadcasts to [2, 2, 2, 4], but got [3]", "a wrong bias");
}

void testHeadsAndStrides() {
  // Query head h reads key head h / group: the same with K and V repeated.
  const Tensors grouped(2, 6, 2, 3, 4);
  Tensors repeated(2, 6, 6, 3, 4);
  repeated.q = grouped.q;
  auto repeat = [](std::vector<double> &to, const std::vector<double> &from,
                   int64_t row) {
    for (int64_t n = 0, end = to.size(); n < end; ++n) {
      const int64_t head = n / row; // b * 6 + h
      to[n] = from[(head / 6 * 2 + head % 6 / 3) * row + n % row];
    }
  };
  repeat(repeated.k, grouped.k, 4 * 3);
  repeat(repeated.v, grouped.v, 4 * 2);
  checkEqual(grouped.problem(), repeated.problem(), "grouped heads");
  AttentionProblem p = Tensors(1, 5, 2, 1, 1).problem();
  checkError(attention(p).error(), "a multiple of the 2 key heads",
             "five heads on two");

  // [b, s, h, d] memory behind a [b, h, s, d] view.
  std::vector<double> bshd(grouped.q.size());
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 6; ++h)
      for (int64_t s = 0; s < 3; ++s)
        for (int64_t d = 0; d < 3; ++d)
          bshd[((b * 3 + s) * 6 + h) * 3 + d] =
              grouped.q[((b * 6 + h) * 3 + s) * 3 + d];
  p = grouped.problem();
  p.q = support::stridedView(bshd.data(), DType::f64, {2, 6, 3, 3},
                             {54, 3, 18, 1});
  checkEqual(p, grouped.problem(), "bshd strides");
}

void testPacked() {
  // Three sequences, the middle one without keys, against one by one.
  const Tensors t(1, 2, 1, 6, 7);
  AttentionProblem packed = t.problem();
  packed.cuSeqlensQ = {0, 3, 5, 6};
  packed.cuSeqlensK = {0, 2, 2, 7};
  packed.kvLengths = {2, 0, 4};
  packed.causal = Causal::bottomRight;
  packed.alibiSlopes = {0.5, 1.5};
  packed.scoreMod = [](double s, int64_t b, int64_t, int64_t i, int64_t j) {
    return s + 0.1 * double(b) + 0.01 * double(i) * double(j);
  };
  AttentionResult all = run(packed, "packed");
  for (int64_t n = 0; n < 3; ++n) {
    const int64_t firstQ = packed.cuSeqlensQ[n], firstK = packed.cuSeqlensK[n];
    AttentionProblem one = packed;
    one.cuSeqlensQ.clear();
    one.cuSeqlensK.clear();
    one.kvLengths = {packed.kvLengths[n]};
    one.q = support::stridedView(t.q.data() + firstQ * 3, DType::f64,
                                 {1, 2, packed.cuSeqlensQ[n + 1] - firstQ, 3},
                                 packed.q.strides);
    const int64_t sk = packed.cuSeqlensK[n + 1] - firstK;
    one.k = support::stridedView(t.k.data() + firstK * 3, DType::f64,
                                 {1, 1, sk, 3}, packed.k.strides);
    one.v = support::stridedView(t.v.data() + firstK * 2, DType::f64,
                                 {1, 1, sk, 2}, packed.v.strides);
    one.scoreMod = [&packed, n](double s, int64_t, int64_t h, int64_t i,
                                int64_t j) {
      return packed.scoreMod(s, n, h, i, j);
    };
    AttentionResult single = run(one, "one of the packed");
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t i = 0; i < one.q.shape[2]; ++i) {
        const int64_t from = h * one.q.shape[2] + i, to = h * 6 + firstQ + i;
        checkClose(
            {all.lse[to], all.out[2 * to], all.out[2 * to + 1]},
            {single.lse[from], single.out[2 * from], single.out[2 * from + 1]},
            0.0, "packed sequence " + std::to_string(n));
      }
  }
  packed.cuSeqlensK = {0, 3, 2, 7};
  checkError(attention(packed).error(), "never to fall, but got 2 after 3",
             "falling offsets");
  packed.cuSeqlensK = {0, 2, 2, 8};
  checkError(attention(packed).error(), "to end at 7 at most, but got 8",
             "offsets beyond the rows");
}

void testEmptyTensorsAndShapes() {
  for (auto [b, sq, sk] :
       {std::array<int64_t, 3>{0, 2, 2}, {1, 0, 2}, {2, 2, 0}}) {
    const Tensors t(b, 2, 1, sq, sk);
    AttentionResult r = run(t.problem(), "an empty tensor");
    checkClose(r.out, std::vector<double>(b * 2 * sq * 2, 0.0), 0.0,
               "out without keys");
    checkClose(r.lse, std::vector<double>(b * 2 * sq, -inf), 0.0,
               "lse without keys");
  }
  const Tensors t(1, 1, 1, 2, 3), other(1, 1, 1, 2, 4);
  AttentionProblem p = t.problem();
  p.v = other.problem().v;
  checkError(attention(p).error(), "[1, 1, 3, 3], but got [1, 1, 4, 2]",
             "v of another length");
  p = t.problem();
  p.k = TensorView();
  checkError(attention(p).error(), "expected q, k and v", "no k");
  p = t.problem();
  p.softcap = -1.0;
  checkError(attention(p).error(), "expected a softcap", "negative softcap");
  p = t.problem();
  p.windowLeft = -2;
  checkError(attention(p).error(), "expected a window", "window of -2");
}

/// Split the keys in two and merge by LSE: associativity, which the oracle
/// itself does not use.
void testMergeOfParts() {
  const Tensors t(1, 1, 1, 1, 9);
  AttentionResult whole = run(t.problem(), "whole");
  auto part = [&](int64_t begin, int64_t end) {
    AttentionProblem p = t.problem();
    p.maskMod = [=](int64_t, int64_t, int64_t, int64_t j) {
      return begin <= j && j < end;
    };
    return run(p, "part");
  };
  AttentionResult x = part(0, 4), y = part(4, 9);
  const double lse = std::log(std::exp(x.lse[0]) + std::exp(y.lse[0]));
  checkClose(whole.lse, {lse}, 1e-13, "merged lse");
  const double wx = std::exp(x.lse[0] - lse), wy = std::exp(y.lse[0] - lse);
  checkClose(whole.out,
             {wx * x.out[0] + wy * y.out[0], wx * x.out[1] + wy * y.out[1]},
             1e-13, "merged out");
}

} // namespace

void attn::test::runMaskTests() {
  testCausalAndWindows();
  testLengths();
  testAlibiAndBias();
  testHeadsAndStrides();
  testPacked();
  testEmptyTensorsAndShapes();
  testMergeOfParts();
}
