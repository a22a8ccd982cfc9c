//===- AttnFuzzMain.cpp - Random attention against the oracle -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// attn-fuzz: a client of the C ABI and of the oracle, which share no code.
//
// Case K of a seed runs kernel K % M: M kernels are compiled, and each meets
// many sizes, layouts and contents. A case depends on the seed, its number and
// M alone, so that every failure has a command that shows it again.
//
// With --jobs, processes take kernels from a common counter. A crash ends one
// of them, not the run: another goes on with the next case.
//
//===----------------------------------------------------------------------===//

#include "Fuzz/Case.h"
#include "Fuzz/Edges.h"
#include "attn-c/attn.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace ::attn;
using namespace ::attn::fuzz;

namespace {
using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr size_t numFamilies = sizeof(allFamilies) / sizeof(allFamilies[0]);

constexpr size_t numEdges = sizeof(allEdges) / sizeof(allEdges[0]);

/// What one process has done, in memory that it shares with the first.
struct Tally {
  int64_t cases = 0, failed = 0, skipped = 0, kernels = 0;
  int64_t perFamily[numFamilies] = {};
  int64_t perEdge[numEdges] = {}, failedPerEdge[numEdges] = {};
  double compileSeconds = 0;
  /// The kernel at work and its next case; -1: none.
  int64_t kernel = -1, next = 0;
  bool compiling = false;
};

struct Shared {
  std::atomic<int64_t> nextKernel{0};
  Tally tallies[1];
};

/// How a process ends that another has to replace.
enum { exitCrashed = 3, exitBroken = 4 };
} // namespace

/// What shows the case at hand again; a crash prints it.
static char reproducer[256];
/// How long a case may take. Emulated ones take seconds of a processor, which
/// busy machines make minutes.
static unsigned limitSeconds = 60;

/// In one piece: processes print beside each other.
static void print(const std::string &text) {
  std::fflush(stdout);
  ssize_t ignored = write(STDOUT_FILENO, text.data(), text.size());
  (void)ignored;
}

static void onCrash(int signal) {
  char text[sizeof(reproducer) + 64] = "FAILED: ";
  std::strcat(text, reproducer);
  if (signal == SIGALRM)
    std::strcat(text, limitSeconds == 60 ? "\n  took more than 60 s\n"
                                         : "\n  took more than 600 s\n");
  else
    std::strcat(text, "\n  crashed\n");
  ssize_t ignored = write(STDOUT_FILENO, text, std::strlen(text));
  (void)ignored;
  _exit(exitCrashed);
}

//===----------------------------------------------------------------------===//
// One kernel
//===----------------------------------------------------------------------===//

namespace {
/// One process at work.
class Worker {
public:
  Worker(const Options &options, Tally &tally)
      : options(options), tally(tally) {
    limitSeconds = options.emulates() ? 600 : 60;
    if (AttnError *error = attnContextCreate(&context))
      fail(takeMessage(error));
  }
  ~Worker() { attnContextDestroy(context); }

  /// Runs the cases of kernel `number` from `first` on.
  void run(int64_t number, int64_t first);

private:
  void count(const Kernel &k, int64_t cases, int64_t failed) {
    tally.failed += failed;
    for (Edge edge : k.edges) {
      tally.perEdge[static_cast<size_t>(edge)] += cases;
      tally.failedPerEdge[static_cast<size_t>(edge)] += failed;
    }
  }
  void report(const Kernel &k, int64_t index, const CaseResult &result) {
    print("FAILED: " + commandFor(options, index) + "\n  " + describe(k) +
          "; " + result.summary + "\n  " + result.message + "\n");
  }

  const Options &options;
  Tally &tally;
  AttnContext *context = nullptr;
  Arena arena;
};
} // namespace

void Worker::run(int64_t number, int64_t first) {
  int64_t end = options.only >= 0 ? options.only + 1 : options.cases;
  tally.kernel = number;
  tally.next = first;
  Kernel k = makeKernel(options.seed, number, options.family, options.gpu());
  std::snprintf(reproducer, sizeof(reproducer), "%s",
                commandFor(options, first).c_str());
  if (options.printIr)
    print("// " + describe(k) + "\n" + k.text + "\n");
  auto start = Clock::now();
  AttnKernel *compiled = nullptr;
  tally.compiling = true;
  alarm(limitSeconds);
  std::string refused = takeMessage(compileKernel(
      context, k, options, static_cast<uint64_t>(number), &compiled));
  tally.compileSeconds += secondsSince(start);
  ++tally.kernels;
  tally.compiling = false;
  auto family = static_cast<size_t>(k.family);
  bool skipped = options.gpu() && isRefusedSchedule(k, refused);
  if (!refused.empty() || options.compileOnly) {
    // A kernel that does not compile fails all its cases in one way.
    int64_t cases = (end - 1 - first) / options.kernels + 1;
    tally.cases += cases;
    tally.perFamily[family] += cases;
    bool failed = !skipped && !refused.empty();
    count(k, cases, failed ? cases : 0);
    if (failed) {
      CaseResult result;
      result.message = "compile: " + refused;
      report(k, first, result);
    } else {
      tally.skipped += cases;
    }
    if (options.verbose)
      print("kernel " + std::to_string(number) + ": " + describe(k) + ": " +
            (refused.empty() ? "compiled" : refused) + "\n");
    attnKernelDestroy(compiled);
    return;
  }
  for (int64_t index = first; index < end; index += options.kernels) {
    std::snprintf(reproducer, sizeof(reproducer), "%s",
                  commandFor(options, index).c_str());
    ++tally.cases;
    ++tally.perFamily[family];
    tally.next = index + options.kernels;
    alarm(limitSeconds);
    auto caseStart = Clock::now();
    CaseResult result =
        runCase(compiled, k, options, index, options.device ? &arena : nullptr);
    if (options.verbose) {
      char numbers[80];
      std::snprintf(numbers, sizeof(numbers), "%.2f of the bound, %.2f s",
                    result.worstShare, secondsSince(caseStart));
      print("case " + std::to_string(index) + ": " + describe(k) + "; " +
            result.summary + ": " + (result.skipped ? "skipped, " : "") +
            numbers + "\n");
    }
    tally.skipped += result.skipped;
    count(k, 1, !result.message.empty());
    if (result.message.empty())
      continue;
    report(k, index, result);
    if (result.broken && options.jobs > 0)
      _exit(exitBroken);
  }
  alarm(0);
  attnKernelDestroy(compiled);
  tally.kernel = -1;
}

//===----------------------------------------------------------------------===//
// All of them
//===----------------------------------------------------------------------===//

/// Takes kernels until there are none, after what a predecessor has left.
static void work(const Options &options, Shared &shared, Tally &tally) {
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM})
    std::signal(signal, onCrash);
  Worker worker(options, tally);
  if (tally.kernel >= 0 && tally.next < options.cases && options.only < 0)
    worker.run(tally.kernel, tally.next);
  // Cases in the order of their kernels: each kernel is compiled once.
  for (int64_t number; (number = shared.nextKernel++) < options.kernels;) {
    if (options.only >= 0) {
      if (options.only % options.kernels == number)
        worker.run(number, options.only);
    } else if (number < options.cases) {
      worker.run(number, number);
    }
  }
}

/// Runs `jobs` processes to their ends, and others in the place of those that
/// a case has ended.
static void workInProcesses(const Options &options, Shared &shared) {
  std::vector<pid_t> running(static_cast<size_t>(options.jobs), 0);
  auto start = [&](size_t job) {
    pid_t child = fork();
    if (child < 0)
      fail("expected to start a process, but got none");
    if (child == 0) {
      work(options, shared, shared.tallies[job]);
      std::fflush(stdout);
      // No destructors: a library may be at work for the parent.
      _exit(0);
    }
    running[job] = child;
  };
  for (size_t job = 0; job < running.size(); ++job)
    start(job);
  int status = 0;
  for (pid_t ended; (ended = wait(&status)) > 0;)
    for (size_t job = 0; job < running.size(); ++job) {
      if (running[job] != ended)
        continue;
      running[job] = 0;
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        continue;
      Tally &tally = shared.tallies[job];
      // Not begun: nothing here works.
      if (tally.kernel < 0)
        fail("expected a process that starts, but got one that ended early");
      if (tally.compiling) {
        // The rest of the kernel's cases would end in the same way.
        int64_t rest = 0;
        for (; tally.next < options.cases; tally.next += options.kernels)
          ++rest;
        rest = options.only >= 0 ? 1 : rest;
        tally.cases += rest;
        tally.failed += rest;
      } else if (WIFSIGNALED(status) || WEXITSTATUS(status) != exitBroken) {
        ++tally.failed;
      }
      if (options.only < 0)
        start(job);
    }
}

/// Ends the process where there is no GPU. A process that has used one cannot
/// fork, so another asks.
static void findDevice() {
  pid_t child = fork();
  if (child == 0) {
    int32_t count = 0;
    std::string message = takeMessage(attnDeviceCount(&count));
    if (message.empty() && count == 0)
      message = "expected a GPU, but got none";
    if (!message.empty())
      fail(message);
    _exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
    std::exit(2);
}

int main(int argc, char **argv) {
  Options options = parseOptions(argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  // A process with a context of the GPU cannot fork: this one has none.
  if (options.device && options.jobs == 0)
    options.jobs = 1;
  auto jobs = static_cast<size_t>(std::max<int64_t>(options.jobs, 1));
  size_t bytes = sizeof(Shared) + jobs * sizeof(Tally);
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    fail("expected memory for the processes to share, but got none");
  auto &shared = *new (memory) Shared;
  for (size_t job = 1; job < jobs; ++job)
    new (&shared.tallies[job]) Tally;

  if (options.device)
    findDevice();
  auto start = Clock::now();
  if (options.jobs > 0)
    workInProcesses(options, shared);
  else
    work(options, shared, shared.tallies[0]);

  Tally total;
  for (size_t job = 0; job < jobs; ++job) {
    const Tally &tally = shared.tallies[job];
    total.cases += tally.cases;
    total.failed += tally.failed;
    total.skipped += tally.skipped;
    total.kernels += tally.kernels;
    total.compileSeconds += tally.compileSeconds;
    for (size_t i = 0; i < numFamilies; ++i)
      total.perFamily[i] += tally.perFamily[i];
    for (size_t i = 0; i < numEdges; ++i) {
      total.perEdge[i] += tally.perEdge[i];
      total.failedPerEdge[i] += tally.failedPerEdge[i];
    }
  }
  for (size_t i = 0; i < numFamilies; ++i)
    if (total.perFamily[i])
      std::printf("%s: %lld cases\n", nameOf(allFamilies[i]),
                  static_cast<long long>(total.perFamily[i]));
  for (size_t i = 0; i < numEdges; ++i)
    if (total.perEdge[i])
      std::printf("  %s: %lld cases, %lld failed\n", nameOf(allEdges[i]),
                  static_cast<long long>(total.perEdge[i]),
                  static_cast<long long>(total.failedPerEdge[i]));
  std::printf("%lld kernels compiled in %.1f s, %.1f s in all\n",
              static_cast<long long>(total.kernels), total.compileSeconds,
              secondsSince(start));
  std::printf("%lld cases, %lld failed", static_cast<long long>(total.cases),
              static_cast<long long>(total.failed));
  if (total.skipped || options.device)
    std::printf(", %lld skipped", static_cast<long long>(total.skipped));
  std::printf("\n");
  return total.failed ? 1 : 0;
}
