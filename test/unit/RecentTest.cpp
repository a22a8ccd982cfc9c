//===- RecentTest.cpp - A table that forgets what was not used ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Support/Recent.h"
#include "gtest/gtest.h"

#include <memory>

using ::attn::support::Recent;

TEST(Recent, ForgetsWhatWasUsedLeast) {
  Recent<std::shared_ptr<int>> table(3);
  std::weak_ptr<int> values[6];
  for (int i = 0; i < 3; ++i) {
    auto value = std::make_shared<int>(i);
    values[i] = value;
    table.put(std::to_string(i), value);
  }
  ASSERT_TRUE(table.find("0"));
  EXPECT_EQ(**table.find("0"), 0);
  EXPECT_EQ(table.find("7"), nullptr);
  table.put("3", std::make_shared<int>(3));
  EXPECT_EQ(table.size(), 3u);
  // 1 was used least, and is gone with what it held.
  EXPECT_EQ(table.find("1"), nullptr);
  EXPECT_TRUE(values[1].expired());
  EXPECT_FALSE(values[0].expired());
  table.put("0", std::make_shared<int>(10));
  EXPECT_EQ(table.size(), 3u);
  EXPECT_TRUE(values[0].expired());
  EXPECT_EQ(**table.find("0"), 10);
  table.clear();
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.find("0"), nullptr);
}
