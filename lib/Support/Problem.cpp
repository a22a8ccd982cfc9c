//===- Problem.cpp - One attention problem on host tensors ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Support/Problem.h"

#include <algorithm>

using namespace ::attn::support;

TensorView attn::support::denseView(const void *data, DType dtype,
                                    std::array<int64_t, 4> shape) {
  std::array<int64_t, 4> strides = {shape[1] * shape[2] * shape[3],
                                    shape[2] * shape[3], shape[3], 1};
  return stridedView(data, dtype, shape, strides);
}

TensorView attn::support::stridedView(const void *data, DType dtype,
                                      std::array<int64_t, 4> shape,
                                      std::array<int64_t, 4> strides) {
  TensorView view;
  view.data = data;
  view.dtype = dtype;
  view.shape = shape;
  view.strides = strides;
  view.given = true;
  return view;
}

Result<TensorView> attn::support::broadcastView(const NpyArray &array,
                                                std::array<int64_t, 4> shape) {
  const std::vector<int64_t> target(shape.begin(), shape.end());
  const Failure mismatch{"expected a shape that broadcasts to " +
                         printShape(target) + ", but got " +
                         printShape(array.shape)};
  const size_t rank = array.shape.size();
  if (rank > 4)
    return mismatch;
  std::array<int64_t, 4> strides = {0, 0, 0, 0};
  int64_t stride = 1;
  for (size_t axis = rank; axis-- > 0;) {
    const size_t to = axis + 4 - rank;
    const int64_t size = array.shape[axis];
    if (size != shape[to] && size != 1)
      return mismatch;
    strides[to] = size == 1 ? 0 : stride;
    stride *= size;
  }
  return stridedView(array.bytes.data(), array.dtype, shape, strides);
}

std::vector<double> attn::support::toDense(const TensorView &view) {
  std::vector<double> result;
  result.reserve(view.shape[0] * view.shape[1] * view.shape[2] * view.shape[3]);
  for (int64_t b = 0; b < view.shape[0]; ++b)
    for (int64_t h = 0; h < view.shape[1]; ++h)
      for (int64_t s = 0; s < view.shape[2]; ++s)
        for (int64_t d = 0; d < view.shape[3]; ++d)
          result.push_back(view.at(b, h, s, d));
  return result;
}

namespace {

constexpr std::pair<Monoid, const char *> monoidNames[] = {
    {Monoid::softmax, "softmax"},
    {Monoid::softmaxEntropy, "softmax_entropy"},
    {Monoid::logsumexp, "logsumexp"},
    {Monoid::sigmoid, "sigmoid"},
    {Monoid::relu, "relu"},
    {Monoid::squaredRelu, "squared_relu"},
    {Monoid::stickBreaking, "stick_breaking"},
    {Monoid::gatedDecay, "gated_decay"},
    {Monoid::alphaCompositing, "alpha_compositing"},
    {Monoid::maxPlus, "max_plus"},
    {Monoid::welford, "welford"},
};

Failure expected(const std::string &what, const std::string &got) {
  return Failure{"expected " + what + ", but got " + got};
}

std::string print(const TensorView &view) {
  return printShape({view.shape.begin(), view.shape.end()});
}

/// Checks that the offsets start at 0, never fall, and stay within `rows`.
Status validateOffsets(const char *name, const std::vector<int32_t> &offsets,
                       int64_t rows) {
  if (offsets.front() != 0)
    return expected(std::string(name) + " to start at 0",
                    std::to_string(offsets.front()));
  for (size_t at = 1; at < offsets.size(); ++at)
    if (offsets[at] < offsets[at - 1])
      return expected(std::string(name) + " never to fall",
                      std::to_string(offsets[at]) + " after " +
                          std::to_string(offsets[at - 1]));
  if (offsets.back() > rows)
    return expected(std::string(name) + " to end at " + std::to_string(rows) +
                        " at most",
                    std::to_string(offsets.back()));
  return success();
}

Status validateTensors(const AttentionProblem &p) {
  if (!p.q || !p.k || (p.needsValues() && !p.v))
    return Failure{"expected q, k and v, but one is missing"};
  if (p.q.shape[3] < 1)
    return expected("a head dim of 1 at least", print(p.q) + " for q");
  if ((!p.isPaged() && p.k.shape[0] != p.q.shape[0]) ||
      p.k.shape[3] != p.q.shape[3])
    return expected("k with the batch and head dim of q " + print(p.q),
                    print(p.k));
  const int64_t hq = p.q.shape[1], hk = p.k.shape[1];
  if (hk == 0 ? hq != 0 : hq % hk != 0)
    return expected("a number of query heads that is a multiple of the " +
                        std::to_string(hk) + " key heads",
                    std::to_string(hq));
  if (p.needsValues() &&
      !std::equal(p.v.shape.begin(), p.v.shape.begin() + 3, p.k.shape.begin()))
    return expected("v with the batch, heads and length of k " + print(p.k),
                    print(p.v));
  return success();
}

/// Pages of a table, as far as the sequences reach.
Status validatePages(const AttentionProblem &p) {
  const int64_t page = p.k.shape[2], n = p.tablePages;
  if (!p.cuSeqlensK.empty() || p.rolling)
    return Failure{"expected pages without cu_seqlens_k and rolling, but got "
                   "both"};
  if (static_cast<int64_t>(p.blockTable.size()) != p.numSequences() * n)
    return expected("a row of " + std::to_string(n) +
                        " pages of block_table per batch, " +
                        std::to_string(p.numSequences()),
                    std::to_string(p.blockTable.size()) + " entries");
  for (int64_t b = 0; b < p.numSequences(); ++b) {
    const int64_t keys = p.kvLengths.empty() ? n * page : p.kvLengths[b];
    for (int64_t i = 0; i * page < keys; ++i) {
      const int32_t entry = p.blockTable[b * n + i];
      if (entry < 0 || entry >= p.k.shape[0])
        return expected("pages of block_table between 0 and " +
                            std::to_string(p.k.shape[0] - 1),
                        std::to_string(entry));
    }
  }
  return success();
}

Status validateLengths(const AttentionProblem &p) {
  const int64_t sk = p.keyCapacity();
  if (!p.kStart.empty() &&
      (static_cast<int64_t>(p.kStart.size()) != p.numSequences() ||
       *std::min_element(p.kStart.begin(), p.kStart.end()) < 0))
    return expected("one k_start of 0 or more per batch, " +
                        std::to_string(p.numSequences()),
                    std::to_string(p.kStart.size()) + " or one below 0");
  if (p.rolling &&
      (p.kStart.empty() != (p.numSequences() == 0) || p.isPacked()))
    return Failure{"expected a rolling cache with k_start and without packed "
                   "sequences, but got none or these"};
  if (!p.isPaged() && p.cuSeqlensQ.size() != p.cuSeqlensK.size())
    return expected("cu_seqlens_q and cu_seqlens_k of one size",
                    std::to_string(p.cuSeqlensQ.size()) + " and " +
                        std::to_string(p.cuSeqlensK.size()));
  if (p.isPacked()) {
    if (p.q.shape[0] != 1)
      return expected("a batch of 1 in a packed problem",
                      std::to_string(p.q.shape[0]));
    if (Status s = validateOffsets("cu_seqlens_q", p.cuSeqlensQ, p.q.shape[2]);
        !s)
      return s;
    if (!p.isPaged())
      if (Status s = validateOffsets("cu_seqlens_k", p.cuSeqlensK, sk); !s)
        return s;
  }
  if (p.kvLengths.empty())
    return p.isPaged() ? validatePages(p) : success();
  if (static_cast<int64_t>(p.kvLengths.size()) != p.numSequences())
    return expected("one of kv_lengths per batch, " +
                        std::to_string(p.numSequences()),
                    std::to_string(p.kvLengths.size()));
  for (size_t b = 0; b < p.kvLengths.size(); ++b) {
    const int64_t limit = p.isPacked() && !p.isPaged()
                              ? p.cuSeqlensK[b + 1] - p.cuSeqlensK[b]
                              : sk;
    if (p.kvLengths[b] < 0 || p.kvLengths[b] > limit)
      return expected("kv_lengths between 0 and " + std::to_string(limit),
                      std::to_string(p.kvLengths[b]));
  }
  return p.isPaged() ? validatePages(p) : success();
}

/// A packed problem has no one length: its longest sequence must fit.
Status validatePairTensor(const char *name, const TensorView &view,
                          const AttentionProblem &p) {
  if (!view)
    return success();
  std::array<int64_t, 4> shape = {p.numSequences(), p.q.shape[1], p.q.shape[2],
                                  p.keyCapacity()};
  bool fits = view.shape == shape;
  if (p.isPacked()) {
    shape[2] = shape[3] = 0;
    for (int64_t n = 0; n < p.numSequences(); ++n) {
      shape[2] =
          std::max<int64_t>(shape[2], p.cuSeqlensQ[n + 1] - p.cuSeqlensQ[n]);
      shape[3] = p.isPaged() ? p.keyCapacity()
                             : std::max<int64_t>(shape[3], p.cuSeqlensK[n + 1] -
                                                               p.cuSeqlensK[n]);
    }
    fits = view.shape[0] == shape[0] && view.shape[1] == shape[1] &&
           view.shape[2] >= shape[2] && view.shape[3] >= shape[3];
  }
  if (!fits)
    return expected(std::string(name) + " of shape " +
                        printShape({shape.begin(), shape.end()}),
                    print(view));
  return success();
}

} // namespace

const char *attn::support::nameOf(Monoid monoid) {
  for (const auto &[value, name] : monoidNames)
    if (value == monoid)
      return name;
  return "";
}

std::optional<Monoid> attn::support::parseMonoid(std::string_view name) {
  for (const auto &[value, known] : monoidNames)
    if (name == known)
      return value;
  return std::nullopt;
}

bool attn::support::takesSinks(Monoid monoid) {
  return monoid == Monoid::softmax || monoid == Monoid::softmaxEntropy ||
         monoid == Monoid::logsumexp;
}

Status attn::support::validate(const AttentionProblem &p) {
  if (Status s = validateTensors(p); !s)
    return s;
  if (Status s = validateLengths(p); !s)
    return s;
  if (Status s = validatePairTensor("mask", p.mask, p); !s)
    return s;
  if (Status s = validatePairTensor("bias", p.bias, p); !s)
    return s;

  const int64_t hq = p.q.shape[1];
  const int64_t slopes = static_cast<int64_t>(p.alibiSlopes.size());
  if (slopes != 0 && slopes != hq && slopes != hq * p.numSequences())
    return expected("alibi_slopes for " + std::to_string(hq) +
                        " heads, or for every batch and head",
                    std::to_string(slopes));
  if (!p.sinks.empty() && static_cast<int64_t>(p.sinks.size()) != hq)
    return expected("sinks for " + std::to_string(hq) + " query heads",
                    std::to_string(p.sinks.size()));
  if (!p.sinks.empty() && !takesSinks(p.monoid))
    return expected("sinks only with a monoid that builds on softmax",
                    nameOf(p.monoid));
  if (!(p.softcap >= 0.0))
    return expected("a softcap of 0 (off) or more", std::to_string(p.softcap));
  if (p.windowLeft < -1 || p.windowRight < -1)
    return expected("a window of -1 (unbounded) or more",
                    std::to_string(std::min(p.windowLeft, p.windowRight)));
  if (!(p.dropout.p >= 0.0f && p.dropout.p <= 1.0f))
    return expected("a share of dropped pairs between 0 and 1",
                    std::to_string(p.dropout.p));
  if (p.dropout && (p.monoid == Monoid::maxPlus || p.monoid == Monoid::welford))
    return expected("dropout with a monoid that sums weighted values",
                    nameOf(p.monoid));
  if ((p.monoid == Monoid::gatedDecay) != bool(p.logGate))
    return expected("a gate with the monoid gated_decay and no other",
                    std::string(nameOf(p.monoid)) +
                        (p.logGate ? " with a gate" : " without a gate"));
  return success();
}
