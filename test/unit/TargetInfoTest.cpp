//===- TargetInfoTest.cpp - The table of targets --------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Target/TargetInfo.h"
#include "gtest/gtest.h"

using ::attn::MmaShape;
using ::attn::TargetInfo;

TEST(TargetInfo, EveryNameIsKnown) {
  ASSERT_FALSE(TargetInfo::names().empty());
  for (const std::string &name : TargetInfo::names()) {
    std::optional<TargetInfo> target = TargetInfo::get(name);
    ASSERT_TRUE(target) << name;
    if (name != "host") {
      EXPECT_EQ(target->name, name);
    }
  }
  EXPECT_FALSE(TargetInfo::get("cpu-z80"));
}

TEST(TargetInfo, InstructionSetsAreNested) {
  for (const std::string &name : TargetInfo::names()) {
    TargetInfo target = *TargetInfo::get(name);
    if (!target.isCpu())
      continue;
    EXPECT_TRUE(target.hasBf16Dot || !target.hasAmxBf16) << name;
    EXPECT_TRUE(target.vectorBits == 512 || !target.hasBf16Dot) << name;
    EXPECT_GE(target.l2Bytes, target.l1Bytes) << name;
  }
}

TEST(TargetInfo, KernelsAreMadeOfShapesThatHaveALowering) {
  for (const std::string &name : TargetInfo::names()) {
    TargetInfo target = *TargetInfo::get(name);
    if (target.isCpu())
      continue;
    EXPECT_FALSE(target.productShape().inTensorMemory) << name;
    EXPECT_EQ(target.hasRoles(), name == "sm_90a") << name;
  }
  TargetInfo blackwell = *TargetInfo::get("sm_100a");
  EXPECT_EQ(blackwell.mmaShapes.back(), MmaShape::tensorMemory());
  EXPECT_EQ(blackwell.productShape(), MmaShape::warp());
  EXPECT_EQ(blackwell.tensorMemoryBytes, 128 * 512 * 4);
}

TEST(TargetInfo, HostIsOneOfTheTable) {
  const TargetInfo &host = TargetInfo::host();
  EXPECT_TRUE(host.isCpu());
  std::optional<TargetInfo> named = TargetInfo::get(host.name);
  ASSERT_TRUE(named) << host.name;
  EXPECT_EQ(named->vectorBits, host.vectorBits);
}
