//===- Edges.h - Values and layouts at the edge -----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The family `edges`: inputs as they are in the wild, which random numbers
// around 1 never are. Each of its kernels is about one edge, and often about
// another too.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_FUZZ_EDGES_H
#define ATTN_LIB_TOOLS_FUZZ_EDGES_H

#include "Kernel.h"
#include "Memory.h"

namespace attn::fuzz {

constexpr Edge allEdges[] = {Edge::Bias,   Edge::Fill,  Edge::Padding,
                             Edge::Layout, Edge::Views, Edge::Scale,
                             Edge::Scores, Edge::Sinks};
const char *nameOf(Edge edge);

/// Chooses the edges of kernel `index`, and a monoid that can have them.
void chooseEdges(Random &random, Kernel &kernel, uint64_t index);

/// Draws the options and regions that the edges need.
void addEdges(Random &random, Kernel &kernel, ExprMaker &maker);

/// A value for masked scores as people write it: the least of the type, -1e4,
/// -1e9, -1e10, -1e12, -1e30 or -inf.
double drawMaskValue(Random &random, DType dtype);

/// Gives a bias, or a mask tensor, a pattern of masked keys: padding on the
/// left or the right, another for each batch, rows and heads as a whole, a
/// sliding window, or scattered. Masked elements are `masked`, the others
/// `live` or, of a bias, at times random.
void fillPattern(Random &random, const Tensor &tensor, double masked,
                 double live);

/// The same of the family `pairs`: padding, documents, chapters, rows of
/// lengths of their own, blocks, bands, rows without a key.
void fillOfPairs(Random &random, const Tensor &tensor, double masked,
                 double live);

/// Turns dimensions around, and lets others repeat.
void bendLayout(Random &random, Tensor &tensor);

/// Lets rows overlap: each begins a few elements after the one before it.
void overlapRows(Random &random, Tensor &tensor, bool aligned);

/// A factor of 2^n for whole numbers in `tensor`, so that dots are exact and
/// far apart.
double drawFactor(Random &random, DType dtype);

double drawScale(Random &random);
/// A scale as callers have it for `depth` channels; or, one in five, around 1,
/// where the exponent's factor passes 1 before the scale does.
double drawUsualScale(Random &r, int64_t depth);
double drawSink(Random &random);

} // namespace attn::fuzz

#endif // ATTN_LIB_TOOLS_FUZZ_EDGES_H
