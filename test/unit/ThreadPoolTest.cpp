//===- ThreadPoolTest.cpp - Threads, scratch and fork ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Runtime/ThreadPool.h"
#include "gtest/gtest.h"

#include <atomic>
#include <cstring>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace ::attn;

namespace {
struct Counts {
  explicit Counts(int64_t n) : seen(n) {}
  std::vector<std::atomic<int>> seen;
  std::atomic<int> misaligned{0};
  bool allOnce() const {
    for (const auto &count : seen)
      if (count != 1)
        return false;
    return true;
  }
};

void countBlock(void *context, int64_t block, void *scratch) {
  auto &counts = *static_cast<Counts *>(context);
  counts.misaligned += reinterpret_cast<uintptr_t>(scratch) % 64 != 0;
  std::memset(scratch, int(block), 1000);
  ++counts.seen[block];
}

bool runsEachBlockOnce(int64_t n) {
  Counts counts(n);
  return parallelFor(countBlock, &counts, n, 1000) == ATTN_RUNTIME_OK &&
         counts.allOnce() && counts.misaligned == 0;
}
} // namespace

TEST(ThreadPool, RunsEachBlockOnceForAnyNumberOfThreads) {
  for (int threads : {1, 2, 5, 3}) {
    setNumThreads(threads);
    EXPECT_EQ(getNumThreads(), threads);
    for (int64_t n : {0, 1, 2, 3, 100, 5000})
      EXPECT_TRUE(runsEachBlockOnce(n)) << threads << " threads, " << n;
  }
  setNumThreads(0);
  EXPECT_GE(getNumThreads(), 1);
}

TEST(ThreadPool, ServesManyCallersAtOnce) {
  setNumThreads(2);
  std::atomic<int> failures{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 50; ++repeat)
        failures += !runsEachBlockOnce(20);
    });
  for (std::thread &caller : callers)
    caller.join();
  EXPECT_EQ(failures, 0);
}

TEST(ThreadPool, WorksInAForkedChild) {
  setNumThreads(2);
  ASSERT_TRUE(runsEachBlockOnce(10));
  pid_t child = fork();
  if (child == 0)
    _exit(runsEachBlockOnce(10) && getNumThreads() == 2 ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(runsEachBlockOnce(10));
}

TEST(ThreadPool, ReportsScratchThatCannotBeHad) {
  Counts counts(4);
  EXPECT_EQ(parallelFor(countBlock, &counts, 4, int64_t(1) << 60),
            ATTN_RUNTIME_NO_MEMORY);
  EXPECT_EQ(counts.seen[0], 0);
  // The thread's next request is served again.
  EXPECT_TRUE(runsEachBlockOnce(4));
}

TEST(ThreadPool, TakesTheThreadsOfTheHost) {
  int calls = 0;
  setHostParallelFor(
      [](void *user, int64_t count, void (*task)(void *, int64_t),
         void *context) {
        ++*static_cast<int *>(user);
        for (int64_t i = count - 1; i >= 0; --i)
          task(context, i);
      },
      &calls);
  EXPECT_TRUE(runsEachBlockOnce(10));
  EXPECT_EQ(calls, 1);
  setHostParallelFor(nullptr, nullptr);
  EXPECT_TRUE(runsEachBlockOnce(10));
  EXPECT_EQ(calls, 1);
}

TEST(ThreadPool, ReportsEachBlock) {
  std::atomic<int64_t> sum{0};
  auto count = [](void *user, int64_t block, int64_t count) {
    EXPECT_EQ(count, 100);
    *static_cast<std::atomic<int64_t> *>(user) += block;
  };
  setProgress(count, &sum);
  EXPECT_TRUE(runsEachBlockOnce(100));
  EXPECT_EQ(sum.load(), 4950);
  setProgress(nullptr, nullptr);
  EXPECT_TRUE(runsEachBlockOnce(10));
  EXPECT_EQ(sum.load(), 4950);
}

TEST(ThreadPool, TheRuntimeAllocatesAligned) {
  const AttnRuntime &runtime = defaultRuntime();
  void *memory = runtime.allocate(&runtime, 100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
  runtime.release(&runtime, memory);
  runtime.release(&runtime, nullptr);
  EXPECT_EQ(runtime.allocate(&runtime, int64_t(1) << 60), nullptr);
  EXPECT_EQ(runtime.allocate(&runtime, -1), nullptr);
}
