//===- SizeClassTest.cpp - Which sizes get a schedule of their own --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/SizeClass.h"
#include "gtest/gtest.h"

#include <set>

using namespace ::attn;

static const ExpectedSizes none = {};

static ExpectedSizes choose(const char *target, RunSizes sizes,
                            SizeProblem problem = {}) {
  return chooseSizeClass(problem, sizes, *TargetInfo::get(target));
}

TEST(SizeClass, RoundsDecodeStepsOfCpus) {
  auto of = [](RunSizes sizes) { return choose("cpu-avx2", sizes); };
  // {b, hq, hk, sq, sk} to [b, hq, sq, sk, hk].
  EXPECT_EQ(of({1, 4, 2, 1, 4100}), (ExpectedSizes{1, 4, 1, 4096, 2}));
  EXPECT_EQ(of({1, 4, 2, 32, 4100}), (ExpectedSizes{1, 4, 32, 4096, 2}));
  EXPECT_EQ(of({1, 4, 2, 33, 4100}), none);
  EXPECT_EQ(of({20, 4, 2, 3, 4100}), (ExpectedSizes{1, 64, 4, 0, 32}));
  EXPECT_EQ(of({1, 4, 4, 3, 2047}), (ExpectedSizes{0, 0, 4, 0, 0}));
  EXPECT_EQ(of({1, 4, 4, 3, 2048}), (ExpectedSizes{1, 4, 4, 2048, 0}));
  EXPECT_EQ(of({8, 4, 4, 3, 2048}), (ExpectedSizes{0, 0, 4, 0, 0}));
  EXPECT_EQ(of({5, 5, 5, 3, 9000}), (ExpectedSizes{1, 16, 4, 8192, 0}));
  EXPECT_EQ(of({1, 4, 4, 17, 2048}), none);
  EXPECT_EQ(of({0, 4, 2, 1, 4100}), (ExpectedSizes{0, 0, 1, 0, 0}));
  EXPECT_EQ(of({1, 4, 2, 0, 4100}), none);
  RunSizes apart = {1, 4, 2, 3, 2100};
  apart.headsAbut = false;
  EXPECT_EQ(of(apart), (ExpectedSizes{1, 4, 4, 2048, 0}));
}

TEST(SizeClass, FindsManyRowsAndKeysOfWarpgroups) {
  for (auto [rows, keys, depth, channels, expectedRows, expectedKeys] :
       std::initializer_list<std::array<int64_t, 6>>{
           {17, 8191, 128, 128, 0, 0},
           {17, 8192, 128, 128, 0, 8192},
           {17, 20000, 128, 128, 0, 8192},
           {4096, 4096, 128, 128, 4096, 4096},
           {8192, 4095, 128, 128, 0, 0},
           {4095, 8192, 128, 128, 0, 8192},
           {3968, 8192, 128, 128, 0, 8192},
           {4200, 8192, 128, 128, 0, 8192},
           {8200, 8192, 128, 128, 4096, 4096},
           {1280, 16384, 256, 256, 1024, 1024},
           {4096, 1023, 256, 256, 0, 0},
           {4096, 4096, 192, 128, 4096, 4096},
           {4096, 4095, 192, 128, 0, 0},
           {4096, 4096, 128, 192, 0, 0},
           {8192, 8192, 96, 96, 0, 8192},
           {8192, 8192, 64, 64, 0, 0}}) {
    RunSizes sizes = {1, 64, 64, rows, keys};
    SizeProblem problem = {depth, channels, true, true};
    ExpectedSizes expected = {0, 0, expectedRows, expectedKeys, 0};
    EXPECT_EQ(choose("sm_90a", sizes, problem), expected)
        << rows << " x " << keys << ", " << depth;
    EXPECT_EQ(choose("sm_80", sizes, problem), none);
    problem.isPlain = false;
    EXPECT_EQ(choose("sm_90a", sizes, problem), none);
    problem = {depth, channels, true, false};
    EXPECT_EQ(choose("sm_90a", sizes, problem), none);
  }
}

TEST(SizeClass, KnowsFewTilesAndFewKeysOfGpus) {
  SizeProblem problem = {128, 128, true, true};
  auto of = [&](RunSizes sizes) { return choose("sm_90a", sizes, problem); };
  // 64 tiles of 128 rows on 132 multiprocessors, and 68.
  EXPECT_EQ(of({1, 4, 4, 2048, 2048}), (ExpectedSizes{1, 1, 128, 1024, 0}));
  EXPECT_EQ(of({1, 4, 4, 2176, 2048}), none);
  EXPECT_EQ(of({8, 16, 16, 4096, 77}), (ExpectedSizes{0, 0, 0, 80, 0}));
  EXPECT_EQ(of({8, 16, 16, 4096, 113}), none);
  problem.depth = problem.channels = 64;
  EXPECT_EQ(of({64, 32, 32, 256, 256}), (ExpectedSizes{1, 1024, 256, 256, 0}));
  EXPECT_EQ(of({64, 32, 32, 192, 256}), none);
  EXPECT_EQ(of({64, 32, 32, 100, 200}), (ExpectedSizes{1, 1024, 128, 256, 0}));
  EXPECT_EQ(of({16, 32, 32, 769, 900}),
            (ExpectedSizes{1, 1024, 1024, 1024, 0}));
  // Wide heads of few rows, whatever is between the dots and the weights.
  problem = {256, 256, true, true};
  problem.isPlain = false;
  EXPECT_EQ(of({16, 8, 8, 1024, 900}), (ExpectedSizes{1, 1024, 1024, 1024, 0}));
  EXPECT_EQ(of({16, 8, 8, 1088, 900}), none);
}

TEST(SizeClass, KnowsFewRowsOfGpus) {
  SizeProblem problem = {128, 128, true, true};
  auto of = [&](RunSizes sizes) { return choose("sm_90a", sizes, problem); };
  EXPECT_EQ(of({64, 8, 8, 1, 500}), (ExpectedSizes{0, 0, 16, 0, 0}));
  // Parts of keys, as many as the plan counts: one kernel for all lengths.
  EXPECT_EQ(of({1, 8, 8, 1, 512}), (ExpectedSizes{1, 8, 16, 4096, 0}));
  EXPECT_EQ(of({3, 8, 8, 5, 99999}), (ExpectedSizes{1, 8, 16, 4096, 0}));
  EXPECT_EQ(of({1, 8, 2, 4, 8192}), (ExpectedSizes{1, 64, 8, 4096, 8}));
  // More blocks take fewer parts, which pay where they are long.
  EXPECT_EQ(of({6, 8, 8, 1, 8191}), (ExpectedSizes{0, 0, 16, 0, 0}));
  EXPECT_EQ(of({6, 8, 8, 1, 8192}), (ExpectedSizes{1, 8, 16, 4096, 0}));
  // Of wide values apart from keys work tiles share the channels: fewer blocks
  // of heads fill a device, and their keys have parts.
  problem = {576, 512, false, true};
  EXPECT_EQ(of({1, 16, 1, 1, 131072}), (ExpectedSizes{1, 128, 1, 4096, 8}));
  problem.valuesInKeys = true;
  EXPECT_EQ(of({1, 16, 1, 1, 131072}), (ExpectedSizes{1, 512, 1, 4096, 32}));
}

/// What a server meets, all lengths of a growing cache among it, is few
/// kernels.
TEST(SizeClass, AreBounded) {
  std::set<ExpectedSizes> all;
  for (const char *target : {"cpu-avx512", "sm_90a", "sm_80"})
    for (int64_t heads : {1, 8, 32})
      for (int64_t group : {1, 4})
        for (int64_t batches = 1; batches <= 40; ++batches)
          for (int64_t rows : {1, 2, 5, 16, 31, 33, 1000, 5000})
            for (int64_t keys = 1; keys < 40000; keys += keys / 16 + 1)
              all.insert(choose(target,
                                {batches, heads * group, heads, rows, keys},
                                {128, 128, true, true}));
  EXPECT_LT(all.size(), 500u);
}

TEST(SizeClass, AreListedForPlans) {
  for (const char *target : {"cpu-avx2", "cpu-avx512", "sm_80", "sm_90a"})
    for (int64_t depth : {64, 128, 256}) {
      auto classes =
          listSizeClasses({depth, depth, true, true}, *TargetInfo::get(target));
      EXPECT_GE(classes.size(), 1u);
      EXPECT_LE(classes.size(), 6u) << target << " " << depth;
      for (const SizeClass &one : classes) {
        EXPECT_NE(one.expected, none) << one.name;
        EXPECT_FALSE(one.name.empty() || one.gain.empty() || one.where.empty());
        EXPECT_TRUE(one.when.contains(one.when) && one.when.meets(one.when));
      }
    }
  SizeCondition few, one;
  few.rows = {1, 16};
  one.rows = {1, 1};
  one.keys = {8192, INT64_MAX};
  EXPECT_TRUE(few.contains(one) && few.meets(one) && !one.contains(few));
  one.rows = {17, 17};
  EXPECT_FALSE(few.meets(one));
}
