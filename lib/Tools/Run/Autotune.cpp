//===- Autotune.cpp - Search for a schedule on the device -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Autotune.h"
#include "Compile.h"
#include "Device.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <optional>
#include <thread>

using namespace attn::run;
using namespace attn::support;

namespace {
struct Candidate {
  int64_t blockQ, rows, blockK;
  std::string loop;
  std::optional<Kernel> kernel;
  std::string refused;
  double ms = INFINITY;

  std::string print() const {
    return "block_q = " + std::to_string(blockQ) +
           ", rows = " + std::to_string(rows) +
           ", block_k = " + std::to_string(blockK);
  }
};
} // namespace

/// What stands between `key` and the next comma or bracket of a kernel's
/// schedule.
static std::string findField(const std::string &text, const std::string &key) {
  size_t at = text.find(key);
  if (at == std::string::npos)
    return "";
  at += key.size();
  return text.substr(at, text.find_first_of(",>", at) - at);
}

/// Tiles of warpgroups, or of warps, as the kernel's own are.
static std::vector<Candidate> listCandidates(const Kernel &kernel) {
  std::string text = attnKernelExplain(kernel.get());
  std::string loop = findField(text, "loop = ");
  bool warpgroups = findField(text, "rows = ") == "64";
  std::vector<Candidate> candidates;
  auto add = [&](int64_t blockQ, int64_t rows, int64_t blockK) {
    candidates.push_back({blockQ, rows, blockK, loop, {}, "", INFINITY});
  };
  if (warpgroups) {
    for (int64_t blockQ : {64, 128, 192})
      for (int64_t blockK : {32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192})
        add(blockQ, 64, blockK);
  } else {
    for (int64_t rows : {16, 32})
      for (int64_t warps : {2, 4, 8})
        for (int64_t blockK : {32, 48, 64, 96, 128})
          add(rows * warps, rows, blockK);
  }
  return candidates;
}

/// In threads: most of the time an assembler is waited for.
static void
compileAll(const Options &options, const AttnCompileOptions &how,
           std::vector<Candidate> &candidates,
           const std::function<void(const std::string &)> &progress) {
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i; (i = next++) < candidates.size();) {
      Candidate &candidate = candidates[i];
      Options own = options;
      own.schedule =
          "#attn.schedule<" + candidate.print() +
          (candidate.loop.empty() ? "" : ", loop = " + candidate.loop) + ">";
      auto kernel = compileProgram(own, how);
      if (kernel)
        candidate.kernel = std::move(*kernel);
      else
        candidate.refused = kernel.error().substr(0, kernel.error().find('\n'));
      progress("autotune: compiled " + candidate.print());
    }
  };
  std::vector<std::thread> threads(std::min<size_t>(
      std::max(std::thread::hardware_concurrency(), 1u), candidates.size()));
  for (std::thread &thread : threads)
    thread = std::thread(work);
  for (std::thread &thread : threads)
    thread.join();
}

/// Whether two results agree as two orders of summation do.
static bool agree(const std::vector<HostTensor> &a,
                  const std::vector<HostTensor> &b) {
  for (size_t i = 0; i < a.size(); ++i) {
    double largest = 0, difference = 0;
    a[i].forEach([&](int64_t offset) {
      double x = loadElement(a[i].bytes.data(), a[i].dtype, offset);
      double y = loadElement(b[i].bytes.data(), b[i].dtype, offset);
      if (!std::isfinite(x) || !std::isfinite(y)) {
        bool same = x == y || (std::isnan(x) && std::isnan(y));
        difference = std::max(difference, same ? 0.0 : INFINITY);
        return;
      }
      largest = std::max(largest, std::fabs(x));
      difference = std::max(difference, std::fabs(x - y));
    });
    if (difference > 0.02 * largest)
      return false;
  }
  return true;
}

Status
attn::run::autotune(const Options &options, AttnCompileOptions how,
                    const Kernel &kernel, const std::vector<HostTensor> &inputs,
                    const std::vector<HostTensor> &outputs, double flops,
                    const std::function<void(const std::string &)> &progress) {
  std::vector<Candidate> candidates = listCandidates(kernel);
  how.noCache = 1;
  how.keepIr = 0;
  compileAll(options, how, candidates, progress);

  auto print = [&](const char *what, const Candidate &candidate) {
    std::printf("autotune: %s%s: ", what, candidate.print().c_str());
    if (candidate.refused.empty())
      std::printf("%.4g ms, %.4g TFLOP/s\n", candidate.ms,
                  flops / candidate.ms * 1e-9);
    else
      std::printf("%s\n", candidate.refused.c_str());
  };
  auto measure = [&](Candidate &candidate, int idleMs) -> Status {
    std::vector<HostTensor> results = outputs;
    auto placed = DeviceRun::create(*candidate.kernel, inputs, results);
    if (!placed)
      return placed.takeFailure();
    if (Status ok = placed->launch(); !ok)
      return ok;
    if (Status ok = placed->fetch(results); !ok)
      return ok;
    if (!agree(outputs, results)) {
      candidate.refused = "computes something else";
      return success();
    }
    auto ms = timeBurst(*placed, idleMs);
    if (!ms)
      return ms.takeFailure();
    candidate.ms = std::min(candidate.ms, *ms);
    return success();
  };
  size_t withoutRoom = 0;
  for (Candidate &candidate : candidates) {
    if (!candidate.kernel) {
      ++withoutRoom;
      continue;
    }
    // What does not start here (for want of shared memory, say) is no choice.
    if (Status ok = measure(candidate, 50); !ok)
      candidate.refused = ok.error();
    print("", candidate);
  }
  std::printf("autotune: %zu schedules do not compile, most for want of "
              "registers or shared memory\n",
              withoutRoom);
  candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                  [](const Candidate &candidate) {
                                    return !candidate.refused.empty();
                                  }),
                   candidates.end());
  if (candidates.empty())
    return Failure{"expected a schedule that runs, but got none"};
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate &a, const Candidate &b) { return a.ms < b.ms; });
  // The few best once more, in turn: clocks depend on what ran before.
  size_t few = std::min<size_t>(candidates.size(), 4);
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < few; ++i)
      if (Status ok = measure(candidates[i], 300); !ok)
        return ok;
  const Candidate &best = *std::min_element(
      candidates.begin(), candidates.begin() + int64_t(few),
      [](const Candidate &a, const Candidate &b) { return a.ms < b.ms; });
  if (AttnError *error =
          attnKernelRecordSchedule(best.kernel->get(), best.ms)) {
    Failure failure{attnErrorMessage(error)};
    attnErrorDestroy(error);
    return failure;
  }
  print(("best of " + std::to_string(candidates.size()) + ": ").c_str(), best);
  return success();
}
