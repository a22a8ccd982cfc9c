//===- PhiloxTest.cpp - The random bits of dropout ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Support/Philox.h"
#include "gtest/gtest.h"

using ::attn::support::Dropout;
using ::attn::support::philox;
using ::attn::support::PhiloxWords;

// kat_vectors of Random123, philox4x32 10.
TEST(Philox, HasTheKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Dropout, DropsItsShare) {
  Dropout dropout{0.25f, 1, 2};
  int kept = 0;
  for (int i = 0; i < 100; ++i)
    for (int j = 0; j < 100; ++j)
      kept += dropout.isKept(3, 4, i, j);
  EXPECT_NEAR(kept, 7500, 220);
  EXPECT_EQ(dropout.factor(0, 0, 0, 0),
            dropout.isKept(0, 0, 0, 0) ? 1.0 / 0.75 : 0.0);
  dropout.p = 1.0f;
  EXPECT_EQ(dropout.factor(0, 0, 0, 0), 0.0);
  dropout.p = 0.0f;
  EXPECT_EQ(dropout.factor(0, 0, 0, 0), 1.0);
}

TEST(Dropout, CountsPartsFromTheWhole) {
  Dropout whole{0.5f, 5, 6}, part = whole;
  part.firstBatch = 2;
  part.firstHead = 3;
  EXPECT_EQ(part.word(0, 1, 7, 8), whole.word(2, 4, 7, 8));
  // The four words of a block are 16 keys apart, and none is used twice.
  EXPECT_NE(whole.word(0, 0, 0, 0), whole.word(0, 0, 0, 16));
  EXPECT_NE(whole.word(0, 0, 0, 0), whole.word(0, 0, 0, 64));
}
