//===- Edges.cpp - Values and layouts at the edge -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Edges.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace ::attn;
using namespace ::attn::fuzz;

static constexpr double infinity = std::numeric_limits<double>::infinity();
static constexpr double largestF32 = std::numeric_limits<float>::max();

const char *fuzz::nameOf(Edge edge) {
  switch (edge) {
  case Edge::Bias:
    return "bias";
  case Edge::Fill:
    return "fill";
  case Edge::Padding:
    return "padding";
  case Edge::Layout:
    return "layout";
  case Edge::Views:
    return "views";
  case Edge::Scale:
    return "scale";
  case Edge::Scores:
    return "scores";
  case Edge::Sinks:
    return "sinks";
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

void fuzz::chooseEdges(Random &random, Kernel &k, uint64_t index) {
  constexpr size_t numEdges = sizeof(allEdges) / sizeof(allEdges[0]);
  k.edges = {allEdges[index % numEdges]};
  for (Edge edge : allEdges)
    if (random.chance(0.2))
      k.edges.insert(edge);
  // Scores far from 1 are exact, which a bias would not leave them.
  bool far = k.has(Edge::Scale) || k.has(Edge::Scores);
  if (far)
    for (Edge edge : {Edge::Bias, Edge::Fill})
      k.edges.erase(edge);
  if (k.has(Edge::Scale))
    k.edges.erase(Edge::Scores);
  // What `edges` was to be about comes before what was drawn beside it.
  std::vector<const MonoidInfo *> choices;
  for (const MonoidInfo &info : allMonoids()) {
    // Weights that grow with scores overflow for any compiler.
    bool bounded = !info.unbounded && info.numValues < 2;
    // Two scores have no named options.
    bool gated = info.oracle == Monoid::gatedDecay;
    if (info.text || (far && !bounded) ||
        (k.has(Edge::Sinks) && !info.takesSinks) ||
        (gated && (k.has(Edge::Bias) || k.has(Edge::Fill))))
      continue;
    choices.push_back(&info);
  }
  k.monoid = random.pick(choices);
  if (random.chance(0.4))
    k.monoid = choices.front(); // softmax
}

void fuzz::addEdges(Random &random, Kernel &k, ExprMaker &maker) {
  if (random.chance(0.35))
    k.causal = random.pick({Causal::topLeft, Causal::bottomRight});
  if (k.has(Edge::Bias)) {
    k.bias.rank = random.chance(0.7) ? 4 : static_cast<int>(random.range(1, 4));
    k.bias.dtype = random.chance(0.5) ? k.dtype : DType::f32;
    for (int i = 0; i < k.bias.rank; ++i)
      k.bias.one[i] = random.chance(i == k.bias.rank - 1 ? 0.1 : 0.4);
  }
  if (k.has(Edge::Fill))
    k.scoreExpr = maker.filled(drawMaskValue(random, DType::f32));
  if (k.has(Edge::Padding)) {
    int how = static_cast<int>(random.range(0, 4));
    k.lengths = how == 0 || how == 1;
    if (how == 1 || how == 2) {
      k.mask.rank = 4;
      k.mask.dtype = random.pick({DType::boolean, DType::i8});
      for (int i = 0; i < 3; ++i)
        k.mask.one[i] = random.chance(0.5);
    }
    k.packed = how == 3;
    if (how == 4)
      k.maskExpr = maker.mask(0);
  } else {
    k.lengths = random.chance(0.2);
  }
  k.scale = k.has(Edge::Scale);
  k.sinks = k.has(Edge::Sinks);
  // What an aggregate can say as well.
  k.aggregate = !k.bias.rank && !k.mask.rank && !k.sinks && random.chance(0.3);
}

//===----------------------------------------------------------------------===//
// Contents
//===----------------------------------------------------------------------===//

double fuzz::drawMaskValue(Random &random, DType dtype) {
  double least = dtype == DType::f16    ? -65504.0
                 : dtype == DType::bf16 ? -0x1.fep127
                                        : -largestF32;
  return random.pick(
      {least, least, -1e4, -5e8, -1e9, -1e10, -1e12, -1e30, -infinity});
}

void fuzz::fillPattern(Random &random, const Tensor &tensor, double masked,
                       double live) {
  enum { Left, Right, Rows, Heads, All, Sliding, Scattered };
  int pattern = random.pick<int>(
      {Left, Left, Left, Right, Right, Rows, Heads, All, Sliding, Scattered});
  size_t rank = tensor.sizes.size();
  int64_t keys = tensor.sizes.back();
  // Of a batch: so many keys that whole tiles are masked.
  std::vector<int64_t> padding;
  for (int64_t b = 0; b < 4; ++b)
    padding.push_back(random.chance(0.2) ? keys : random.range(0, keys));
  int64_t window = random.range(0, 90);
  bool noisy = live == 0.0 && random.chance(0.4);
  tensor.forEach([&](int64_t at, int64_t n) {
    int64_t index[4] = {0, 0, 0, 0};
    for (size_t d = rank; d-- > 0; n /= tensor.sizes[d])
      index[4 - rank + d] = n % tensor.sizes[d];
    auto [b, h, i, j] = index;
    bool off = pattern == Left      ? j < padding[b % 4]
               : pattern == Right   ? j >= padding[b % 4]
               : pattern == Rows    ? i % 3 == 0
               : pattern == Heads   ? h % 2 == 0
               : pattern == Sliding ? j < i - window
               : pattern == All     ? true
                                    : random.chance(0.5);
    tensor.set(at, off ? masked : noisy ? random.normal() : live);
  });
}

double fuzz::drawFactor(Random &random, DType dtype) {
  if (dtype == DType::f16)
    return std::ldexp(1.0, static_cast<int>(random.range(6, 13)));
  return std::ldexp(1.0, random.pick({10, 13, 17, 30, 45, 55}));
}

double fuzz::drawScale(Random &random) {
  double scale = random.pick({1e-45, 1e-30, 1e-10, 0.0, 1e4, 1e10, 1e30});
  return static_cast<float>(random.chance(0.2) ? -scale : scale);
}

double fuzz::drawUsualScale(Random &r, int64_t depth) {
  double drawn = r.uniform(0.3, 1.5);
  if (drawn < 0.54)
    return 0.4 + 5 * (drawn - 0.3);
  return drawn / std::sqrt(static_cast<double>(depth));
}

double fuzz::drawSink(Random &random) {
  double size = random.pick({largestF32, 3.4e38, 1e30, 1e10, 1e4, 3.0, 0.0});
  return static_cast<float>(random.chance(0.5) ? -size : size);
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

void fuzz::bendLayout(Random &random, Tensor &tensor) {
  // The last dimension is contiguous.
  for (size_t d = 0; d + 1 < tensor.sizes.size(); ++d) {
    if (tensor.sizes[d] < 1 || tensor.strides[d] <= 0)
      continue;
    if (random.chance(0.25)) {
      tensor.strides[d] = 0;
    } else if (random.chance(0.5)) {
      tensor.first += (tensor.sizes[d] - 1) * tensor.strides[d];
      tensor.strides[d] = -tensor.strides[d];
    }
  }
}

void fuzz::overlapRows(Random &random, Tensor &tensor, bool aligned) {
  size_t rows = tensor.sizes.size() - 2;
  int64_t unit =
      aligned ? 16 / static_cast<int64_t>(support::sizeOf(tensor.dtype)) : 1;
  int64_t most = std::abs(tensor.strides[rows]) / unit;
  if (most < 2 || tensor.strides[rows] < 0)
    return;
  tensor.strides[rows] = random.range(1, most - 1) * unit;
  tensor.overlaps = true;
}
