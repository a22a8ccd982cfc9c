//===- OverlapTest.cpp - Shared memory, against a list of all bytes -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Overlap.h"
#include "gtest/gtest.h"

#include <functional>
#include <map>
#include <random>

using namespace ::attn;
using support::DType;

static char *const base = reinterpret_cast<char *>(1 << 20);

/// How often each byte is part of an element.
static std::map<const char *, int> listBytes(const TensorArg &tensor) {
  std::map<const char *, int> bytes;
  auto item = int64_t(support::sizeOf(tensor.dtype));
  std::function<void(size_t, int64_t)> visit = [&](size_t dim, int64_t at) {
    if (dim == tensor.shape.size()) {
      for (int64_t i = 0; i < item; ++i)
        ++bytes[static_cast<char *>(tensor.data) + at * item + i];
      return;
    }
    for (int64_t i = 0; i < tensor.shape[dim]; ++i)
      visit(dim + 1, at + i * tensor.strides[dim]);
  };
  visit(0, 0);
  return bytes;
}

TEST(Overlap, AgreesWithAllBytesOfRandomTensors) {
  std::mt19937 random(7);
  auto draw = [&](int first, int last) {
    return std::uniform_int_distribution<int>(first, last)(random);
  };
  const DType types[] = {DType::i8, DType::f16, DType::f32};
  auto drawTensor = [&] {
    TensorArg tensor;
    tensor.dtype = types[draw(0, 2)];
    tensor.data = base + draw(0, 90);
    for (int rank = draw(0, 4); rank > 0; --rank) {
      tensor.shape.push_back(draw(0, 9) ? draw(1, 5) : 0);
      tensor.strides.push_back(draw(0, 1) ? draw(-30, 30) : draw(0, 6) * 5);
    }
    return tensor;
  };
  int found[2] = {0, 0}, self[2] = {0, 0};
  for (int i = 0; i < 20000; ++i) {
    TensorArg a = drawTensor(), b = drawTensor();
    auto ofA = listBytes(a), ofB = listBytes(b);
    bool share = false, repeats = false;
    for (auto [byte, times] : ofA) {
      share |= ofB.count(byte) != 0;
      repeats |= times > 1;
    }
    ASSERT_EQ(findOverlap(a, b), share ? Overlap::Yes : Overlap::No) << i;
    ASSERT_EQ(findOverlap(b, a), share ? Overlap::Yes : Overlap::No) << i;
    ASSERT_EQ(findSelfOverlap(a), repeats ? Overlap::Yes : Overlap::No) << i;
    ++found[share];
    ++self[repeats];
  }
  // Both answers were asked for.
  EXPECT_GT(std::min(found[0], found[1]), 4000);
  EXPECT_GT(std::min(self[0], self[1]), 4000);
}

/// q, k, v and o as heads of one buffer [b, s, heads, d], as [b, h, s, d].
TEST(Overlap, TellsHeadsOfOneBufferApart) {
  constexpr int64_t b = 1000, s = 100000, heads = 10, d = 128;
  auto makeHeads = [&](int64_t first, int64_t count) {
    return TensorArg{base + first * d * 2,
                     DType::bf16,
                     {b, count, s, d},
                     {s * heads * d, d, heads * d, 1}};
  };
  TensorArg o = makeHeads(0, 4), q = makeHeads(4, 4), k = makeHeads(8, 1),
            v = makeHeads(9, 1);
  for (const TensorArg *other : {&q, &k, &v})
    EXPECT_EQ(findOverlap(o, *other), Overlap::No);
  EXPECT_EQ(findOverlap(makeHeads(1, 4), q), Overlap::Yes);
  EXPECT_EQ(findSelfOverlap(o), Overlap::No);
  TensorArg odd = o;
  odd.data = base - 2;
  EXPECT_EQ(findOverlap(odd, q), Overlap::No);
  odd.data = base + 2;
  EXPECT_EQ(findOverlap(odd, q), Overlap::Yes);
}

/// A subset-sum problem has an end all the same.
TEST(Overlap, GivesUpAndSaysSo) {
  std::mt19937_64 random(5);
  TensorArg a{base, DType::i8, {}, {}}, b = a;
  int64_t sum = 0;
  for (TensorArg *tensor : {&a, &b})
    for (int i = 0; i < 15; ++i) {
      tensor->shape.push_back(2);
      tensor->strides.push_back((int64_t(1) << 40) + int64_t(random() >> 24));
      sum += tensor->strides.back();
    }
  b.data = base + sum / 5;
  EXPECT_EQ(findOverlap(a, b), Overlap::Unknown);
}
