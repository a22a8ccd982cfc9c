//===- Pairs.cpp - Masks and biases that are tensors of pairs -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The family `pairs`: masks, boolean or to be added, with an element for each
// row and key, as callers make them. GPUs list the key tiles of such masks, and
// copy tiles of such biases beside the keys.
//
//===----------------------------------------------------------------------===//

#include "Edges.h"

#include <algorithm>
#include <cstring>
#include <limits>

using namespace ::attn;
using namespace ::attn::fuzz;

static constexpr double infinity = std::numeric_limits<double>::infinity();

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Of batches, heads, rows and keys: mostly rows and keys, and heads or batches
/// that have one mask in common.
static BroadcastForm drawForm(Random &random, DType dtype) {
  BroadcastForm form;
  form.dtype = dtype;
  form.rank = random.chance(0.8) ? 4 : static_cast<int>(random.range(2, 3));
  const double shared[] = {0.4, 0.6, 0.08, 0.04};
  for (int i = 0; i < form.rank; ++i)
    form.one[i] = random.chance(shared[4 - form.rank + i]);
  return form;
}

/// Whether tensor copies may bring the bias, where tiles are of warpgroups.
static bool mayCopy(const Kernel &k) {
  int rank = k.bias.rank;
  return k.gpu && rank >= 2 && k.bias.dtype != DType::f32 &&
         !k.bias.one[rank - 2] && !k.bias.one[rank - 1];
}

static Schedule drawTiles(Random &random, const Kernel &k) {
  Schedule s;
  bool roles = k.gpu && k.dtype != DType::f32 && !k.monoid->ofWarps;
  s.rows = roles   ? random.pick<int64_t>({64, 64, 64, 16})
           : k.gpu ? 16
                   : random.pick<int64_t>({8, 16, 32, 64});
  s.blockQ = s.rows * random.pick<int64_t>({1, 2, 2, 3});
  s.blockK = random.pick<int64_t>({16, 32, 48, 64, 64, 96, 128});
  s.splits = random.chance(0.8) ? 1 : random.range(2, 4);
  s.loop =
      random.pick({"peeled", "peeled", "peeled", "peeled", "masked", "plain"});
  if (s.rows == 64 && s.blockQ > s.rows && k.gpu)
    s.turns = random.pick({"none", "products", "softmax"});
  if (mayCopy(k) && s.rows == 64)
    s.pairs = random.pick({"", "loaded", "copied", "copied"});
  if (k.gpu && s.splits == 1 && random.chance(0.2))
    s.cluster = 2;
  bool byHead = k.mask.rank >= 3 && !k.mask.one[k.mask.rank - 3];
  s.packHeads =
      s.cluster == 1 && s.pairs != "copied" && !byHead && random.chance(0.2);
  return s;
}

Kernel fuzz::makeOfPairs(uint64_t seed, uint64_t index, bool gpu) {
  Random random(seed + 5, ~index);
  Kernel k;
  k.family = Family::Pairs;
  k.gpu = gpu;
  k.dtype = random.pick(
      {DType::bf16, DType::bf16, DType::f16, DType::f16, DType::f32});
  k.outDType = k.dtype;
  k.dqk = random.pick<int64_t>({16, 32, 64, 64, 64, 80, 96, 128, 128, 192});
  k.dv = random.chance(0.8) ? k.dqk : random.pick<int64_t>({16, 64, 128});
  std::vector<const MonoidInfo *> choices;
  for (const MonoidInfo &info : allMonoids())
    if (!info.text && info.numValues == 1 && !info.exactScores &&
        info.oracle != Monoid::gatedDecay && std::strcmp(info.name, "softmax2"))
      choices.push_back(&info);
  k.monoid = random.chance(0.75) ? choices.front() : random.pick(choices);
  k.numOutputs = static_cast<int>(
      random.range(1, static_cast<int64_t>(k.monoid->outputs.size())));
  int tensors = random.pick<int>({1, 1, 1, 2, 2, 2, 3});
  if (tensors & 1)
    k.mask = drawForm(random, random.pick({DType::boolean, DType::boolean,
                                           DType::boolean, DType::i8}));
  if (tensors & 2)
    k.bias = drawForm(random,
                      random.pick({k.dtype, k.dtype, DType::f32, DType::f16}));
  if (random.chance(0.3))
    k.causal = random.pick({Causal::topLeft, Causal::bottomRight});
  k.lengths = random.chance(0.2);
  k.softcap = random.chance(0.1);
  // What -1e9 rounds of a score depends on which of a bias and a slope comes
  // first.
  k.alibiRank = !k.bias.rank && random.chance(0.2) ? 1 : 0;
  k.sinks = k.monoid->takesSinks && random.chance(0.15);
  if (random.chance(0.8))
    k.schedule = drawTiles(random, k);
  printKernel(k);
  return k;
}

//===----------------------------------------------------------------------===//
// Contents
//===----------------------------------------------------------------------===//

namespace {
/// Which pairs a mask leaves, of so many rows and keys.
class Pattern {
public:
  Pattern(Random &random, int64_t rows, int64_t keys);
  bool isLive(int64_t sequence, int64_t i, int64_t j);

private:
  enum Form {
    LeftPadding,
    RightPadding,
    Documents,
    Chapters,
    Lengths,
    Blocks,
    Band,
    Rows,
    Scattered,
    Nothing
  };
  /// Sequences of a mask beyond these have what one before them has.
  static constexpr int64_t numSequences = 6;
  struct Sequence {
    int64_t padding;
    /// Where a document ends, by its number.
    std::vector<int64_t> ends;
    std::vector<int64_t> lengths;
    std::vector<bool> blocks, dead;
  };
  static int64_t documentOf(const Sequence &s, int64_t at) {
    return std::upper_bound(s.ends.begin(), s.ends.end(), at) - s.ends.begin();
  }
  int64_t startOf(const Sequence &s, int64_t document) const {
    return document ? s.ends[document - 1] : 0;
  }

  Random &random;
  Form form;
  bool causal;
  int64_t rows, keys, block, title, window;
  std::vector<Sequence> sequences;
};
} // namespace

Pattern::Pattern(Random &random, int64_t rows, int64_t keys)
    : random(random), rows(rows), keys(keys) {
  form = random.pick({LeftPadding, LeftPadding, RightPadding, Documents,
                      Documents, Chapters, Lengths, Lengths, Blocks, Blocks,
                      Band, Rows, Scattered, Nothing});
  causal = random.chance(0.4);
  block = random.pick<int64_t>({16, 32, 64, 64, 128});
  title = random.range(1, 20);
  window = random.range(0, 90);
  double blockShare = random.uniform(0.05, 0.9);
  int64_t longest = std::max(rows, keys);
  for (int64_t n = 0; n < numSequences; ++n) {
    Sequence s;
    s.padding = random.chance(0.15) ? keys : random.range(0, keys);
    int64_t mean = random.pick<int64_t>({8, 40, 100, 200});
    for (int64_t end = 0; end < longest;)
      s.ends.push_back(end += random.range(1, 2 * mean));
    for (int64_t i = 0; i < rows; ++i)
      s.lengths.push_back(random.chance(0.2) ? 0 : random.range(0, keys));
    int64_t wide = keys / block + 1;
    for (int64_t at = 0; at < wide * (rows / block + 1); ++at)
      s.blocks.push_back(random.chance(blockShare));
    for (int64_t at = 0; at <= rows / block; ++at)
      s.dead.push_back(random.chance(0.4));
    sequences.push_back(std::move(s));
  }
}

bool Pattern::isLive(int64_t sequence, int64_t i, int64_t j) {
  const Sequence &s = sequences[sequence % numSequences];
  if (causal && j > i + std::max<int64_t>(keys - rows, 0))
    return false;
  switch (form) {
  case LeftPadding:
    return j >= s.padding;
  case RightPadding:
    return j < s.padding;
  case Documents:
    return documentOf(s, i) == documentOf(s, j);
  case Chapters: {
    // A chapter and the titles of those before it.
    int64_t own = documentOf(s, i), other = documentOf(s, j);
    return own == other || (other < own && j < startOf(s, other) + title);
  }
  case Lengths:
    return j < s.lengths[i];
  case Blocks:
    return s.blocks[i / block * (keys / block + 1) + j / block];
  case Band:
    return j >= i - window && j <= i + window / 2;
  case Rows:
    return !s.dead[i / block];
  case Scattered:
    return random.chance(0.05);
  case Nothing:
    return false;
  }
  return true;
}

void fuzz::fillOfPairs(Random &random, const Tensor &tensor, double masked,
                       double live) {
  size_t rank = tensor.sizes.size();
  Pattern pattern(random, tensor.sizes[rank - 2], tensor.sizes.back());
  // Masks that are added to each other leave -inf where both have the least.
  bool isSum = live == 0.0 && masked < -1.0 && random.chance(0.2);
  double noise = live != 0.0 ? 0.0 : random.pick({0.0, 0.0, 1.0, 4.0});
  int64_t twice = random.range(1, 100);
  tensor.forEach([&](int64_t at, int64_t n) {
    int64_t j = n % tensor.sizes[rank - 1], rest = n / tensor.sizes[rank - 1];
    int64_t i = rest % tensor.sizes[rank - 2];
    double off = isSum && j < twice ? -infinity : masked;
    bool isLive = pattern.isLive(rest / tensor.sizes[rank - 2], i, j);
    tensor.set(at, !isLive ? off : noise ? noise * random.normal() : live);
  });
}
