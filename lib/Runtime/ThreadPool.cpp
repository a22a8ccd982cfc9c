//===- ThreadPool.cpp - Threads, scratch and memory of plans --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Runtime/ThreadPool.h"
#include "attn/Support/Signals.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <set>
#include <string>
#include <thread>

using namespace ::attn;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// What tensors of our own and scratch are aligned to: a cache line, which is
/// also the widest vector.
static constexpr int64_t kAlignment = 64;

static void *allocateAligned(int64_t bytes) {
  if (bytes < 0 || bytes > INT64_MAX - kAlignment)
    return nullptr;
  int64_t rounded =
      (std::max<int64_t>(bytes, 1) + kAlignment - 1) & ~(kAlignment - 1);
  return std::aligned_alloc(kAlignment, rounded);
}

namespace {
/// The scratch of one thread: grows to the largest request.
struct Scratch {
  void *data = nullptr;
  int64_t bytes = -1;
  ~Scratch() { std::free(data); }
  void *get(int64_t wanted) {
    if (wanted > bytes) {
      std::free(data);
      data = allocateAligned(wanted);
      bytes = data ? wanted : -1;
    }
    return data;
  }
};
} // namespace

static thread_local Scratch threadScratch;

//===----------------------------------------------------------------------===//
// Counting cores
//===----------------------------------------------------------------------===//

static bool readLine(const std::string &path, char *buffer, int size) {
  FILE *file = std::fopen(path.c_str(), "r");
  if (!file)
    return false;
  bool ok = std::fgets(buffer, size, file) != nullptr;
  std::fclose(file);
  return ok;
}

/// CPUs' worth of time that the container may use, or a large number.
static int getCpuQuota() {
  char line[128];
  double quota = 0, period = 0;
  if (readLine("/sys/fs/cgroup/cpu.max", line, sizeof(line)))
    if (std::sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0)
      return std::max(1, int(std::ceil(quota / period)));
  return 1 << 16;
}

int attn::getNumPhysicalCores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0)
    return std::max(1u, std::thread::hardware_concurrency());
  // Hyper-threads of one core share its list of siblings.
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask))
      continue;
    char line[256];
    std::string path = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                       "/topology/thread_siblings_list";
    cores.insert(readLine(path, line, sizeof(line)) ? std::string(line)
                                                    : std::to_string(cpu));
  }
  return std::min(std::max<int>(1, cores.size()), getCpuQuota());
}

static constexpr int kMaxThreads = 1024;

static int getDefaultNumThreads() {
  const char *text = std::getenv("ATTN_NUM_THREADS");
  if (!text || !*text)
    return getNumPhysicalCores();
  char *end;
  long count = std::strtol(text, &end, 10);
  if (!*end && count >= 1 && count <= kMaxThreads)
    return int(count);
  int cores = getNumPhysicalCores();
  std::fprintf(stderr,
               "attn: warning: expected ATTN_NUM_THREADS between 1 and %d, but "
               "got '%s'; taking the %d physical cores\n",
               kMaxThreads, text, cores);
  return cores;
}

//===----------------------------------------------------------------------===//
// The pool
//===----------------------------------------------------------------------===//

static void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

bool Interrupt::poll() {
  if (isStopped.load(std::memory_order_relaxed))
    return true;
  if (!pthread_equal(pthread_self(), owner))
    return false;
  auto now = std::chrono::steady_clock::now();
  if (now < next)
    return false;
  next = now + kPeriod;
  if (function(user) != 0)
    isStopped.store(true, std::memory_order_relaxed);
  return isStopped.load(std::memory_order_relaxed);
}

namespace {
/// One parallelFor in flight; lives on the stack of its caller.
struct Job {
  AttnKernelBody body;
  void *context;
  int64_t count;
  int64_t scratchBytes;
  Interrupt *interrupt = nullptr;
  ProgressFunction progress = nullptr;
  void *progressUser = nullptr;
  std::atomic<int64_t> next{0};
  std::atomic<bool> isStopped{false};

  /// Takes blocks until none is left.
  void work() {
    void *scratch = threadScratch.get(scratchBytes);
    // A thread without scratch leaves the blocks to the others.
    if (!scratch)
      return;
    for (;;) {
      if (interrupt && interrupt->poll()) {
        isStopped.store(true, std::memory_order_relaxed);
        return;
      }
      int64_t block = next.fetch_add(1, std::memory_order_relaxed);
      if (block >= count)
        return;
      if (progress)
        progress(progressUser, block, count);
      body(context, block, scratch);
    }
  }
  /// Blocks that nobody took would be silently wrong results.
  int32_t status() const {
    if (isStopped.load())
      return ATTN_RUNTIME_STOPPED;
    return next.load() < count ? ATTN_RUNTIME_NO_MEMORY : ATTN_RUNTIME_OK;
  }
};

class Pool {
  /// Turns that a thread waits awake, some ten microseconds.
  static constexpr int kSpins = 2000;

public:
  /// Starts up to `size` workers, fewer where the system refuses.
  explicit Pool(int size) : size(size) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    attn::support::BlockedSignals blocked;
    std::lock_guard<std::mutex> lock(mutex);
    for (int i = 0; i < size; ++i) {
      pthread_t thread;
      auto start = [](void *self) -> void * {
        static_cast<Pool *>(self)->workerMain();
        return nullptr;
      };
      if (pthread_create(&thread, &attributes, start, this) != 0)
        break;
      ++numWorkers;
    }
    pthread_attr_destroy(&attributes);
  }

  /// Tells the workers to leave and waits for them; then `delete` is safe.
  void stop() {
    std::unique_lock<std::mutex> lock(mutex);
    stopping = true;
    ++epoch;
    wake.notify_all();
    idle.wait(lock, [this] { return numLeft == numWorkers; });
  }

  void run(Job &job) {
    int helpers = int(std::min<int64_t>(numWorkers, job.count - 1));
    if (helpers > 0) {
      std::lock_guard<std::mutex> lock(mutex);
      current = &job;
      wanted = helpers;
      epoch.fetch_add(1, std::memory_order_release);
      wake.notify_all();
    }
    job.work();
    if (helpers == 0)
      return;
    std::unique_lock<std::mutex> lock(mutex);
    // Who has not joined by now finds nothing left to do.
    wanted = 0;
    current = nullptr;
    if (numActive == 0)
      return;
    // The others are at their last block: mostly it is not worth a sleep.
    lock.unlock();
    for (int i = 0; i < kSpins && numActive.load() != 0; ++i)
      relax();
    lock.lock();
    idle.wait(lock, [this] { return numActive == 0; });
  }

  const int size;

private:
  void workerMain() {
    uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      if (epoch.load(std::memory_order_relaxed) == seen) {
        // The launches of a plan follow one another within microseconds; a
        // short spin saves the sleep and the wake between them.
        lock.unlock();
        for (int i = 0; i < kSpins; ++i) {
          if (epoch.load(std::memory_order_acquire) != seen)
            break;
          relax();
        }
        lock.lock();
        wake.wait(lock, [&] { return epoch.load() != seen; });
      }
      seen = epoch.load();
      if (stopping) {
        if (++numLeft == numWorkers)
          idle.notify_all();
        return;
      }
      if (!current || wanted == 0)
        continue;
      Job *job = current;
      --wanted;
      ++numActive;
      lock.unlock();
      job->work();
      lock.lock();
      if (--numActive == 0)
        idle.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable wake, idle;
  std::atomic<uint64_t> epoch{0};
  Job *current = nullptr;
  /// Changed under the mutex; read without it to spin.
  std::atomic<int> numActive{0};
  int numWorkers = 0, wanted = 0, numLeft = 0;
  bool stopping = false;
};

/// State of the process. Never destroyed: threads may outlive static
/// destructors.
struct Process {
  /// Held while the pool runs a job or is replaced.
  std::mutex busy;
  Pool *pool = nullptr;
  std::atomic<int> numThreads{0};
  std::mutex hostMutex;
  HostParallelFor hostFunction = nullptr;
  void *hostUser = nullptr;
  ProgressFunction progress = nullptr;
  void *progressUser = nullptr;
};
} // namespace

static Process &process() {
  // After fork() the child's copy of the mutexes and the pool is of no use
  // (their owners do not exist there); it gets a fresh state and leaks this.
  static Process *instance = nullptr;
  static std::once_flag once;
  std::call_once(once, [] {
    instance = new Process;
    pthread_atfork(nullptr, nullptr, [] {
      Process *fresh = new Process;
      fresh->numThreads = instance->numThreads.load();
      fresh->hostFunction = instance->hostFunction;
      fresh->hostUser = instance->hostUser;
      fresh->progress = instance->progress;
      fresh->progressUser = instance->progressUser;
      instance = fresh;
    });
  });
  return *instance;
}

int attn::getNumThreads() {
  Process &p = process();
  int count = p.numThreads.load();
  if (count == 0) {
    count = getDefaultNumThreads();
    p.numThreads.store(count);
  }
  return count;
}

void attn::setNumThreads(int count) {
  process().numThreads.store(count <= 0 ? getDefaultNumThreads()
                                        : std::min(count, kMaxThreads));
}

void attn::setHostParallelFor(HostParallelFor function, void *user) {
  Process &p = process();
  std::lock_guard<std::mutex> lock(p.hostMutex);
  p.hostFunction = function;
  p.hostUser = user;
}

void attn::setProgress(ProgressFunction function, void *user) {
  Process &p = process();
  std::lock_guard<std::mutex> lock(p.hostMutex);
  p.progress = function;
  p.progressUser = user;
}

int32_t attn::parallelFor(AttnKernelBody body, void *context, int64_t count,
                          int64_t scratchBytes, Interrupt *interrupt) {
  if (count <= 0)
    return ATTN_RUNTIME_OK;
  Job job{body, context, count, scratchBytes, interrupt};
  Process &p = process();

  HostParallelFor hostFunction;
  void *hostUser;
  {
    std::lock_guard<std::mutex> lock(p.hostMutex);
    hostFunction = p.hostFunction;
    hostUser = p.hostUser;
    job.progress = p.progress;
    job.progressUser = p.progressUser;
  }
  if (hostFunction) {
    // Each task drains the counter, so the host's order does not matter.
    hostFunction(
        hostUser, std::min<int64_t>(count, getNumThreads()),
        [](void *taskContext, int64_t) {
          static_cast<Job *>(taskContext)->work();
        },
        &job);
    return job.status();
  }

  int numThreads = getNumThreads();
  std::unique_lock<std::mutex> lock(p.busy, std::try_to_lock);
  if (numThreads <= 1 || count == 1 || !lock.owns_lock()) {
    job.work();
    return job.status();
  }
  if (p.pool && p.pool->size != numThreads - 1) {
    p.pool->stop();
    delete p.pool;
    p.pool = nullptr;
  }
  if (!p.pool)
    p.pool = new Pool(numThreads - 1);
  p.pool->run(job);
  return job.status();
}

const AttnRuntime &attn::defaultRuntime() {
  static const AttnRuntime runtime = {
      [](const AttnRuntime *self, AttnKernelBody body, void *context,
         int64_t count, int64_t scratchBytes) {
        return parallelFor(body, context, count, scratchBytes,
                           static_cast<Interrupt *>(self->user));
      },
      [](const AttnRuntime *, int64_t bytes) { return allocateAligned(bytes); },
      [](const AttnRuntime *, void *pointer) { std::free(pointer); }, nullptr,
      nullptr};
  return runtime;
}
