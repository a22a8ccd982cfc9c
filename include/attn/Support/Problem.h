//===- Problem.h - One attention problem on host tensors --------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is asked, apart from who computes it: the oracle, the tests and the
// tools that compare a compiled kernel with the oracle all start from this.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_PROBLEM_H
#define ATTN_SUPPORT_PROBLEM_H

#include "attn/Support/DType.h"
#include "attn/Support/Npy.h"
#include "attn/Support/Philox.h"
#include "attn/Support/Result.h"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace attn::support {

/// A read-only view [b, h, s, d] with strides in elements; a stride of 0
/// broadcasts. A default view is "not given".
struct TensorView {
  const void *data = nullptr;
  DType dtype = DType::f32;
  std::array<int64_t, 4> shape = {0, 0, 0, 0};
  std::array<int64_t, 4> strides = {0, 0, 0, 0};
  /// Set by the makers below: an empty tensor may have no data.
  bool given = false;

  explicit operator bool() const { return given; }
  double at(int64_t b, int64_t h, int64_t s, int64_t d) const {
    return loadElement(data, dtype,
                       b * strides[0] + h * strides[1] + s * strides[2] +
                           d * strides[3]);
  }
};

/// A view of memory in C order.
TensorView denseView(const void *data, DType dtype,
                     std::array<int64_t, 4> shape);

/// A view of memory with strides in elements.
TensorView stridedView(const void *data, DType dtype,
                       std::array<int64_t, 4> shape,
                       std::array<int64_t, 4> strides);

/// A view of an array of rank 4 at most, broadcast to `shape` as NumPy does:
/// axes are matched from the right, and an axis of size 1 is repeated.
Result<TensorView> broadcastView(const NpyArray &array,
                                 std::array<int64_t, 4> shape);

/// The elements of a view in C order, as doubles.
std::vector<double> toDense(const TensorView &view);

/// Where the causal diagonal starts. With `bottomRight` the last query sees
/// the last key of the row's key length; with `topLeft` query 0 sees key 0.
enum class Causal { none, topLeft, bottomRight };

/// The shipped monoids. Each comment gives the outputs for the live keys j of
/// one row with scores s; `s` is final (scaled, capped, biased).
enum class Monoid {
  softmax,          ///< O = sum p v, p = softmax(s); LSE; row max.
  softmaxEntropy,   ///< As softmax, and the entropy LSE - sum p s.
  logsumexp,        ///< LSE and row max only; needs no values.
  sigmoid,          ///< O = sum sigmoid(s) v, not normalised.
  relu,             ///< O = sum max(s, 0) v, not normalised.
  squaredRelu,      ///< O = sum max(s, 0)^2 v, not normalised.
  stickBreaking,    ///< w_j = sigmoid(s_j) prod_{k > j} (1 - sigmoid(s_k)).
  gatedDecay,       ///< w_j = s_j exp(sum_{k > j} log a_k).
  alphaCompositing, ///< w_j = sigmoid(s_j) prod_{k < j} (1 - sigmoid(s_k)).
  maxPlus,          ///< O[c] = max_j (s_j + v_j[c]); -inf without a live key.
  welford           ///< Mean and variance of v under the weights max(s, 0).
};

const char *nameOf(Monoid monoid);
std::optional<Monoid> parseMonoid(std::string_view name);

/// True where a sink logit has a meaning: the monoids that build on softmax.
bool takesSinks(Monoid monoid);

/// Everything that defines one call. The order of the steps is
///   s = scale * q.k, softcap, scoreMod, ALiBi + bias, mask, monoid;
/// bias comes after scoreMod so that a bias of -inf is dead whatever scoreMod
/// makes of its argument.
struct AttentionProblem {
  /// q is [b, hq, sq, dqk], k is [b, hk, sk, dqk], v is [b, hk, sk, dv]. In a
  /// packed problem b is 1 and s runs over the rows of all the sequences.
  TensorView q, k, v;

  /// Defaults to 1 / sqrt(dqk).
  std::optional<double> scale;
  /// s = softcap * tanh(s / softcap); 0 is off.
  double softcap = 0.0;

  Causal causal = Causal::none;
  /// Keys [diagonal - left, diagonal + right] are live; -1 is unbounded. The
  /// diagonal of query i is i for topLeft, else i + kvLength - sq.
  int64_t windowLeft = -1, windowRight = -1;

  /// [b, hq, sq, sk], usually with strides of 0. Mask: non-zero is live. In a
  /// packed problem b counts sequences and i, j count within the sequence.
  TensorView mask, bias;

  /// [hq] or [b * hq]; adds -slope * |i + kvLength - sq - j|.
  std::vector<double> alibiSlopes;
  /// [hq], in units of the final score.
  std::vector<double> sinks;

  /// [b], each between 0 and sk: keys from there on do not exist. The memory
  /// behind them is never looked at.
  std::vector<int32_t> kvLengths;
  /// [sequences + 1] each, from 0 upwards: the packed rows of each sequence.
  std::vector<int32_t> cuSeqlensQ, cuSeqlensK;
  /// [b, tablePages]: the pages of each sequence. k and v are then pools, with
  /// pages in the place of batches and the rows of a page in that of keys, and
  /// cuSeqlensK is empty. Entries behind the length are never looked at.
  std::vector<int32_t> blockTable;
  int64_t tablePages = 0;
  /// [b]: key j of a sequence is at position kStart + j: for scoreMod, maskMod
  /// and the gate, and for diagonals that start at 0. With `rolling` it is in
  /// row (kStart + j) % sk.
  std::vector<int32_t> kStart;
  bool rolling = false;
  /// Values of pairs that are dropped, by the number of the key in the call.
  Dropout dropout;

  /// h is the query head; i and j are positions within the sequence.
  using ScoreMod = std::function<double(double s, int64_t b, int64_t h,
                                        int64_t i, int64_t j)>;
  using MaskMod =
      std::function<bool(int64_t b, int64_t h, int64_t i, int64_t j)>;
  using Gate =
      std::function<double(int64_t b, int64_t h, int64_t i, int64_t j)>;
  ScoreMod scoreMod;
  MaskMod maskMod;
  /// log a_j of gatedDecay: the statistic that its lift takes, 0 for no decay.
  Gate logGate;

  Monoid monoid = Monoid::softmax;

  bool isPacked() const { return !cuSeqlensQ.empty(); }
  bool isPaged() const { return tablePages > 0 || !blockTable.empty(); }
  /// Keys that tensors of pairs, and results with `keepPairs`, have room for.
  int64_t keyCapacity() const {
    return isPaged() ? tablePages * k.shape[2] : k.shape[2];
  }
  int64_t numSequences() const {
    return isPacked() ? static_cast<int64_t>(cuSeqlensQ.size()) - 1
                      : q.shape[0];
  }
  bool needsValues() const { return monoid != Monoid::logsumexp; }
};

/// Says whether the shapes and options fit together.
Status validate(const AttentionProblem &problem);

} // namespace attn::support

#endif // ATTN_SUPPORT_PROBLEM_H
