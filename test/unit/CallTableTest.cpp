//===- CallTableTest.cpp - The kernels of attnAttention -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CallTable.h"
#include "gtest/gtest.h"

#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace ::attn;

static CallKey makeKey(int64_t number, std::string_view monoid = "") {
  CallKey key;
  key.words[17] = number;
  key.monoid = monoid;
  return key;
}

static support::Result<CallTable::Kernel> makeKernel() {
  return CallTable::Kernel(std::make_shared<CompiledKernel>());
}

static support::Result<CallTable::Kernel> makeDeviceKernel() {
  auto kernel = std::make_shared<CompiledKernel>();
  kernel->device = std::make_shared<cuda::DeviceCode>();
  return CallTable::Kernel(kernel);
}

TEST(CallTable, KeepsWhatWasUsedLast) {
  CallTable table;
  CallTable::Kernel first = *table.get(makeKey(0), makeKernel);
  for (int64_t i = 1; i < 1000; ++i) {
    auto made = table.get(makeKey(i), makeKernel);
    ASSERT_TRUE(made);
    EXPECT_EQ(table.find(makeKey(i)), *made);
    EXPECT_EQ(table.find(makeKey(0)), first) << i;
    EXPECT_LE(table.size(), CallTable::maxHost);
  }
  EXPECT_EQ(table.size(), CallTable::maxHost);
  // The last ones, and none before.
  int64_t oldest = 1000 - int64_t(CallTable::maxHost) + 1;
  for (int64_t i = 1; i < 1000; ++i)
    EXPECT_EQ(table.find(makeKey(i)) != nullptr, i >= oldest) << i;
  // Those of GPUs are counted for themselves.
  for (int64_t i = 2000; i < 2400; ++i)
    ASSERT_TRUE(table.get(makeKey(i), makeDeviceKernel));
  EXPECT_EQ(table.size(), CallTable::maxHost + 400);
  table.clear();
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.find(makeKey(0)), nullptr);
}

TEST(CallTable, TakesTextsByWhatTheySay) {
  CallTable table;
  std::string text = "a monoid";
  CallTable::Kernel one = *table.get(makeKey(1, text), makeKernel);
  std::string same = text;
  text = "another!";
  EXPECT_EQ(table.find(makeKey(1, same)), one);
  EXPECT_EQ(table.find(makeKey(1, text)), nullptr);
  EXPECT_EQ(table.find(makeKey(1)), nullptr);
}

TEST(CallTable, KeepsNoFailure) {
  CallTable table;
  int asked = 0;
  auto fail = [&]() -> support::Result<CallTable::Kernel> {
    ++asked;
    return support::Failure{"no such thing"};
  };
  for (int i = 0; i < 2; ++i) {
    auto made = table.get(makeKey(1), fail);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error(), "no such thing");
  }
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_TRUE(table.get(makeKey(1), makeKernel));
}

TEST(CallTable, CompilesOnceForManyThreads) {
  CallTable table;
  std::atomic<int> compiled{0}, ready{0};
  std::vector<CallTable::Kernel> got(8);
  std::vector<std::thread> threads;
  for (CallTable::Kernel &kernel : got)
    threads.emplace_back([&] {
      ++ready;
      while (ready < int(got.size()))
        std::this_thread::yield();
      kernel = *table.get(makeKey(1), [&] {
        ++compiled;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return makeKernel();
      });
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(compiled, 1);
  for (const CallTable::Kernel &kernel : got)
    EXPECT_EQ(kernel, got[0]);
  // A kernel that is let go of while it is made is still its caller's.
  std::thread clearing;
  auto made = table.get(makeKey(2), [&] {
    clearing = std::thread([&] { table.clear(); });
    clearing.join();
    return makeKernel();
  });
  EXPECT_TRUE(made);
  EXPECT_EQ(table.size(), 0u);
}

/// A child finds the table as its parent has it, and no lock that nobody holds.
TEST(CallTable, SurvivesForks) {
  CallTable table;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 0; !stop; ++i) {
        (void)table.get(makeKey(1000 * t + i % 300), makeKernel);
        (void)table.find(makeKey(i % 300));
      }
    });
  for (int i = 0; i < 20; ++i) {
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(30);
      for (int64_t k = 0; k < 300; ++k)
        if (!table.get(makeKey(5000 + k), makeKernel))
          _exit(2);
      table.clear();
      _exit(table.size() == 0 ? 0 : 3);
    }
    int status = 1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  for (std::thread &thread : threads)
    thread.join();
}
