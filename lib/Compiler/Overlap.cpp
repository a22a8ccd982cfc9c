//===- Overlap.cpp - Whether strided tensors share memory -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Overlap.h"

#include <algorithm>
#include <array>

using namespace ::attn;

namespace {
/// Sizes and strides are the caller's and may be any numbers: no product of
/// them leaves 128 bits.
using Wide = __int128;

/// The bytes [first, end) that a tensor lies in; none for an empty one.
struct Bounds {
  Wide first = 0, end = 0;
};

/// `coefficient` times a number in [0, most].
struct Term {
  Wide coefficient, most;
};

/// sum(coefficient * z) = target, with few terms.
class Equation {
public:
  void add(Wide coefficient, Wide most) {
    if (most <= 0)
      return;
    // Equal strides are one: z and z' only matter as their sum.
    for (Term *term = terms.begin(); term != terms.begin() + count; ++term)
      if (term->coefficient == coefficient) {
        term->most += most;
        return;
      }
    terms[count++] = {coefficient, most};
  }

  Overlap solve(Wide target) {
    std::sort(terms.begin(), terms.begin() + count,
              [](const Term &a, const Term &b) {
                return a.coefficient > b.coefficient;
              });
    Wide sum = 0, divisor = 0;
    for (int i = count; i-- > 0;) {
      sumFrom[i] = sum += terms[i].coefficient * terms[i].most;
      divisorFrom[i] = divisor = gcd(divisor, terms[i].coefficient);
    }
    steps = 0;
    return search(0, target);
  }

private:
  /// Some hundred microseconds.
  static constexpr int kMaxSteps = 20000;
  /// Two tensors of the highest rank, and the bytes of their elements.
  static constexpr int kMaxTerms = 40;

  static Wide gcd(Wide a, Wide b) {
    while (b != 0)
      std::swap(a %= b, b);
    return a;
  }

  Overlap search(int i, Wide rest) {
    if (rest == 0)
      return Overlap::Yes;
    if (++steps > kMaxSteps)
      return Overlap::Unknown;
    if (i == count || rest < 0 || rest > sumFrom[i] ||
        rest % divisorFrom[i] != 0)
      return Overlap::No;
    const Term &term = terms[i];
    // What the smaller ones cannot reach, this one must.
    Wide others = i + 1 < count ? sumFrom[i + 1] : 0;
    Wide least = rest <= others ? 0
                                : (rest - others + term.coefficient - 1) /
                                      term.coefficient;
    Wide most = std::min(term.most, rest / term.coefficient);
    for (Wide z = least; z <= most; ++z)
      if (Overlap found = search(i + 1, rest - z * term.coefficient);
          found != Overlap::No)
        return found;
    return Overlap::No;
  }

  std::array<Term, kMaxTerms> terms;
  std::array<Wide, kMaxTerms> sumFrom, divisorFrom;
  int count = 0, steps = 0;
};
} // namespace

static Wide getItem(const TensorArg &tensor) {
  return Wide(support::sizeOf(tensor.dtype));
}

static Wide getStride(const TensorArg &tensor, size_t dim) {
  return Wide(tensor.strides[dim]) * getItem(tensor);
}

static Bounds getBounds(const TensorArg &tensor) {
  Bounds bounds;
  bounds.first = bounds.end = Wide(reinterpret_cast<uintptr_t>(tensor.data));
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] <= 0)
      return {0, 0};
    Wide reach = getStride(tensor, i) * (tensor.shape[i] - 1);
    (reach < 0 ? bounds.first : bounds.end) += reach;
  }
  bounds.end += getItem(tensor);
  return bounds;
}

Overlap attn::findOverlap(const TensorArg &a, const TensorArg &b) {
  Bounds ofA = getBounds(a), ofB = getBounds(b);
  if (ofA.end <= ofB.first || ofB.end <= ofA.first || ofA.first == ofA.end ||
      ofB.first == ofB.end)
    return Overlap::No;
  // From the first byte of A upwards, and from the last of B downwards: so all
  // coefficients are positive.
  Equation equation;
  for (const TensorArg *tensor : {&a, &b}) {
    for (size_t i = 0; i < tensor->shape.size(); ++i)
      if (Wide stride = getStride(*tensor, i))
        equation.add(stride < 0 ? -stride : stride, tensor->shape[i] - 1);
    equation.add(1, getItem(*tensor) - 1);
  }
  return equation.solve(ofB.end - 1 - ofA.first);
}

Overlap attn::findSelfOverlap(const TensorArg &tensor) {
  struct Dim {
    Wide stride, size;
  };
  std::array<Dim, support::Sizes::maxRank> dims;
  size_t count = 0;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] <= 0)
      return Overlap::No;
    Wide stride = getStride(tensor, i);
    if (tensor.shape[i] > 1)
      dims[count++] = {stride < 0 ? -stride : stride, tensor.shape[i]};
  }
  std::sort(dims.begin(), dims.begin() + count,
            [](const Dim &a, const Dim &b) { return a.stride < b.stride; });
  Wide reach = getItem(tensor);
  bool isNested = true;
  for (size_t i = 0; i < count; ++i) {
    isNested &= dims[i].stride >= reach;
    reach += dims[i].stride * (dims[i].size - 1);
  }
  if (isNested)
    return Overlap::No;
  // Two positions differ in some dimension, take it upwards, and agree in those
  // of larger strides: a difference d in [1, size - 1] there, any below.
  for (size_t first = count; first-- > 0;) {
    Equation equation;
    Wide target = getItem(tensor) - 1;
    equation.add(1, 2 * target);
    for (size_t i = 0; i < first; ++i) {
      if (dims[i].stride == 0)
        return Overlap::Yes;
      target += dims[i].stride * (dims[i].size - 1);
      equation.add(dims[i].stride, 2 * (dims[i].size - 1));
    }
    if (dims[first].stride == 0)
      return Overlap::Yes;
    // d - 1 in [0, size - 2].
    equation.add(dims[first].stride, dims[first].size - 2);
    if (Overlap found = equation.solve(target - dims[first].stride);
        found != Overlap::No)
      return found;
  }
  return Overlap::No;
}
