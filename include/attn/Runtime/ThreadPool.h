//===- ThreadPool.h - Threads, scratch and memory of plans ------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One pool serves the process. Blocks are taken from a shared counter in
// increasing order, so work ordered longest-first balances itself; no result
// depends on which thread ran a block. The calling thread takes part.
//
// A second caller that finds the pool at work runs its blocks on its own
// thread: with as many callers as cores that is what one wants, and nobody
// waits for a stranger. Threads start at the first use and again after fork(),
// where the child has none of its parent's.
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_THREADPOOL_H
#define ATTN_RUNTIME_THREADPOOL_H

#include "attn/Runtime/Abi.h"
#include <atomic>
#include <chrono>
#include <cstdint>
#include <pthread.h>

namespace attn {

/// Whether to stop: nonzero means so.
using InterruptFunction = int32_t (*)(void *user);

/// One run that may be stopped. The function is called by the thread that made
/// this, between two of its blocks, and not before the run has taken as long as
/// somebody would notice: a short run costs one look at the clock per block.
class Interrupt {
public:
  Interrupt(InterruptFunction function, void *user)
      : function(function), user(user), owner(pthread_self()),
        next(std::chrono::steady_clock::now() + kPeriod) {}

  /// Asks, where it is this thread's to ask and time to; whether to stop.
  bool poll();

private:
  static constexpr std::chrono::milliseconds kPeriod{50};

  InterruptFunction function;
  void *user;
  pthread_t owner;
  std::chrono::steady_clock::time_point next;
  std::atomic<bool> isStopped{false};
};

/// Runs body(context, i, scratch) for all i in [0, count) on the pool, or some
/// where `interrupt` (null: none) says to stop. Returns an ATTN_RUNTIME_
/// status.
int32_t parallelFor(AttnKernelBody body, void *context, int64_t count,
                    int64_t scratchBytes, Interrupt *interrupt = nullptr);

/// Threads that take part in a parallelFor, the caller included.
int getNumThreads();
/// 0 restores the default: ATTN_NUM_THREADS where that is set, else the
/// physical cores that this process may run on.
void setNumThreads(int count);
/// Physical cores within the affinity mask and the container's CPU quota.
int getNumPhysicalCores();

/// A thread pool that is not ours: calls task(taskContext, i) for every i in
/// [0, count), in parallel as it sees fit, and returns when all are done.
using HostParallelFor = void (*)(void *user, int64_t count,
                                 void (*task)(void *taskContext, int64_t index),
                                 void *taskContext);
/// Runs plans on the host's threads, or (null) on our own again.
void setHostParallelFor(HostParallelFor function, void *user);

/// Told of each block of a launch as a thread takes it: from any thread,
/// several at once. A launch asks for it as it starts.
using ProgressFunction = void (*)(void *user, int64_t block, int64_t count);
/// Reports to `function`, or (null) to nobody.
void setProgress(ProgressFunction function, void *user);

/// The callbacks that hand this pool to compiled code. A copy whose `user` is
/// an Interrupt can be stopped.
const AttnRuntime &defaultRuntime();

} // namespace attn

#endif // ATTN_RUNTIME_THREADPOOL_H
