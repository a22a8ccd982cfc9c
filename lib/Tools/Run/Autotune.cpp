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
#include <cstdlib>
#include <iterator>
#include <optional>
#include <thread>

using namespace ::attn::run;
using namespace ::attn::support;

namespace {
struct Candidate {
  int64_t blockQ = 0, rows = 0, blockK = 0;
  std::string loop;
  /// 0: as the compiler chooses, one part.
  int64_t stages = 0, splits = 0;
  static constexpr int64_t automatic = -1;
  std::string overlap = "next_step";
  std::string turns = "none";
  /// As the kernel's own schedule has it.
  bool packHeads = false;
  int64_t cluster = 1;
  std::optional<Kernel> kernel;
  std::string refused;
  double ms = INFINITY;

  std::string print() const {
    std::string text = "block_q = " + std::to_string(blockQ) +
                       ", rows = " + std::to_string(rows) +
                       ", block_k = " + std::to_string(blockK);
    if (splits)
      text += ", splits = " + (splits == automatic ? std::string("automatic")
                                                   : std::to_string(splits));
    if (!loop.empty())
      text += ", loop = " + loop;
    if (stages)
      text += ", stages = " + std::to_string(stages);
    if (overlap != "next_step")
      text += ", overlap = " + overlap;
    if (turns != "none")
      text += ", turns = " + turns;
    if (packHeads)
      text += ", pack_heads = true";
    if (cluster > 1)
      text += ", cluster = " + std::to_string(cluster);
    return text;
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

/// The tiles that the kernel's own was chosen from (printSpace in
/// lib/Analysis/CostModel.cpp).
static std::vector<Candidate> listTiles(const Kernel &kernel) {
  std::string text = attnKernelExplain(kernel.get());
  const std::string title = "tiles that fit: ";
  size_t at = text.find(title);
  std::vector<Candidate> candidates;
  if (at == std::string::npos)
    return candidates;
  at += title.size();
  Candidate candidate;
  candidate.loop = findField(text, "loop = ");
  candidate.packHeads = findField(text, "pack_heads = ") == "true";
  constexpr int64_t step = 16;
  for (const std::string &tiles :
       split(text.substr(at, text.find('\n', at) - at), ',')) {
    long long blockQ = 0, rows = 0, least = 0, most = 0;
    if (std::sscanf(tiles.c_str(), " %lld/%lld x %lld-%lld", &blockQ, &rows,
                    &least, &most) != 4)
      continue;
    candidate.blockQ = blockQ;
    candidate.rows = rows;
    for (candidate.blockK = least; candidate.blockK <= most;
         candidate.blockK += step)
      candidates.push_back(candidate);
  }
  return candidates;
}

/// The same tiles with everything else that a schedule says, one at a time.
static std::vector<Candidate> listVariants(const Candidate &of, bool isMasked,
                                           bool isShort) {
  std::vector<Candidate> variants;
  auto add = [&](auto change) {
    Candidate variant = of;
    variant.kernel.reset();
    variant.ms = INFINITY;
    change(variant);
    variants.push_back(std::move(variant));
  };
  bool warpgroups = of.rows == 64;
  for (int64_t stages : {1, 2, 3, 4})
    if (stages > 1 || !warpgroups)
      add([&](Candidate &variant) { variant.stages = stages; });
  if (warpgroups)
    add([](Candidate &variant) { variant.overlap = "none"; });
  for (const char *overlap : {"next_step", "none"})
    for (const char *turns : {"products", "softmax"})
      if (warpgroups && of.blockQ > of.rows)
        add([&](Candidate &variant) {
          variant.turns = turns;
          variant.overlap = overlap;
        });
  // Under a mask rows differ in the keys they read.
  if (warpgroups && !isMasked && !of.packHeads)
    add([](Candidate &variant) { variant.cluster = 2; });
  for (const char *loop : {"peeled", "masked", "plain"})
    if (isMasked && of.loop != loop)
      add([&](Candidate &variant) { variant.loop = loop; });
  for (int64_t splits :
       {int64_t(2), int64_t(4), int64_t(8), Candidate::automatic})
    if (isShort)
      add([&](Candidate &variant) { variant.splits = splits; });
  return variants;
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
      own.schedule = "#attn.schedule<" + candidate.print() + ">";
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
static bool agree(const HostTensor &a, const HostTensor &b) {
  struct Part {
    double largest = 0, difference = 0;
  };
  auto compare = [&](int64_t first, int64_t last, Part &part) {
    a.forEach(first, last, [&](int64_t offset) {
      double x = loadElement(a.bytes.data(), a.dtype, offset);
      double y = loadElement(b.bytes.data(), b.dtype, offset);
      if (!std::isfinite(x) || !std::isfinite(y)) {
        bool same = x == y || (std::isnan(x) && std::isnan(y));
        part.difference = std::max(part.difference, same ? 0.0 : INFINITY);
        return;
      }
      part.largest = std::max(part.largest, std::fabs(x));
      part.difference = std::max(part.difference, std::fabs(x - y));
    });
  };
  // Results are large where a search is worth while, and compared often.
  int64_t size = a.size();
  std::vector<Part> parts(
      size < 65536 ? 1 : std::max(std::thread::hardware_concurrency(), 1u));
  std::vector<std::thread> threads;
  int64_t count = int64_t(parts.size());
  for (int64_t i = 1; i < count; ++i)
    threads.emplace_back([&, i] {
      compare(size * i / count, size * (i + 1) / count, parts[i]);
    });
  compare(0, size / count, parts[0]);
  Part whole;
  for (std::thread &thread : threads)
    thread.join();
  for (const Part &part : parts) {
    whole.largest = std::max(whole.largest, part.largest);
    whole.difference = std::max(whole.difference, part.difference);
  }
  return whole.difference <= 0.02 * whole.largest;
}

static bool agree(const std::vector<HostTensor> &a,
                  const std::vector<HostTensor> &b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!agree(a[i], b[i]))
      return false;
  return true;
}

namespace {
/// One search: tiles first, then everything else on the best of them.
class Search {
public:
  Search(const Options &options, const AttnCompileOptions &compileOptions,
         const Kernel &kernel, const std::vector<HostTensor> &outputs,
         DeviceRun &placed, double flops,
         const std::function<void(const std::string &)> &progress)
      : options(options), spec(*options.attention), how(compileOptions),
        kernel(kernel), outputs(outputs), placed(placed), flops(flops),
        progress(progress), results(outputs) {
    how.noCache = 1;
    how.keepIr = 0;
  }
  Status run();

private:
  void print(const char *what, const Candidate &candidate) const;
  Status measure(Candidate &candidate, int idleMs);
  void measureAll(std::vector<Candidate> &all);
  void refine(const Candidate &tiles);
  Status compareBest(size_t few);
  int64_t countMultiprocessors() const;

  const Options &options;
  const AttentionSpec &spec;
  AttnCompileOptions how;
  const Kernel &kernel;
  const std::vector<HostTensor> &outputs;
  DeviceRun &placed;
  double flops;
  const std::function<void(const std::string &)> &progress;

  std::vector<HostTensor> results;
  std::vector<Candidate> candidates;
  size_t tried = 0, withoutRoom = 0;
  /// Milliseconds of the kernel as the compiler chose it.
  double chosen = INFINITY;
};
} // namespace

void Search::print(const char *what, const Candidate &candidate) const {
  std::printf("autotune: %s%s: ", what, candidate.print().c_str());
  if (candidate.refused.empty())
    std::printf("%.4g ms, %.4g TFLOP/s\n", candidate.ms,
                flops / candidate.ms * 1e-9);
  else
    std::printf("%s\n", candidate.refused.c_str());
}

Status Search::measure(Candidate &candidate, int idleMs) {
  if (Status ok = placed.use(*candidate.kernel); !ok)
    return ok;
  if (Status ok = placed.launch(); !ok)
    return ok;
  if (Status ok = placed.fetch(results); !ok)
    return ok;
  if (!agree(outputs, results)) {
    candidate.refused = "computes something else";
    return success();
  }
  auto ms = timeBurst(placed, idleMs);
  if (!ms)
    return ms.takeFailure();
  candidate.ms = std::min(candidate.ms, *ms);
  return success();
}

/// From the fastest to the slowest.
static void sortByTime(std::vector<Candidate> &all) {
  std::stable_sort(
      all.begin(), all.end(),
      [](const Candidate &a, const Candidate &b) { return a.ms < b.ms; });
}

/// Compiles and times all; the fastest first, without those that do not run.
void Search::measureAll(std::vector<Candidate> &all) {
  compileAll(options, how, all, progress);
  for (Candidate &candidate : all) {
    ++tried;
    if (!candidate.kernel) {
      ++withoutRoom;
      continue;
    }
    // What does not start here (for want of shared memory, say) is no choice.
    if (Status ok = measure(candidate, 50); !ok)
      candidate.refused = ok.error();
    print("", candidate);
  }
  all.erase(std::remove_if(all.begin(), all.end(),
                           [](const Candidate &candidate) {
                             return !candidate.refused.empty();
                           }),
            all.end());
  sortByTime(all);
}

int64_t Search::countMultiprocessors() const {
  std::string explained = attnKernelExplain(kernel.get());
  const std::string title = "device: ";
  size_t device = explained.find(title);
  return device == std::string::npos
             ? 0
             : std::strtoll(explained.c_str() + device + title.size(), nullptr,
                            10);
}

/// What made the tiles faster, of each knob the best, together; `variants` are
/// sorted. Nothing where fewer than two knobs did.
static std::optional<Candidate> join(const Candidate &tiles,
                                     const std::vector<Candidate> &variants) {
  Candidate together = tiles;
  together.kernel.reset();
  together.ms = INFINITY;
  int helped = 0;
  // From the slowest to the fastest: of each knob the best stays.
  for (auto it = variants.rbegin(); it != variants.rend(); ++it) {
    const Candidate &variant = *it;
    if (variant.ms >= tiles.ms)
      continue;
    ++helped;
    if (variant.stages != tiles.stages)
      together.stages = variant.stages;
    if (variant.splits != tiles.splits)
      together.splits = variant.splits;
    if (variant.loop != tiles.loop)
      together.loop = variant.loop;
    if (variant.cluster != tiles.cluster)
      together.cluster = variant.cluster;
    // These two go together: what is measured with one overlap, with another,
    // is another loop.
    if (variant.overlap != tiles.overlap || variant.turns != tiles.turns) {
      together.overlap = variant.overlap;
      together.turns = variant.turns;
    }
  }
  if (helped < 2)
    return std::nullopt;
  return together;
}

/// The other knobs on some tiles; then what helped, together.
void Search::refine(const Candidate &tiles) {
  bool isMasked = spec.causal != "none" || spec.window || !spec.mask.empty() ||
                  !spec.lengths.empty();
  int64_t blocks =
      spec.b * spec.hq * ((spec.sq + tiles.blockQ - 1) / tiles.blockQ);
  std::vector<Candidate> variants =
      listVariants(tiles, isMasked, blocks < countMultiprocessors());
  measureAll(variants);
  if (std::optional<Candidate> together = join(tiles, variants)) {
    std::vector<Candidate> last;
    last.push_back(std::move(*together));
    measureAll(last);
    std::move(last.begin(), last.end(), std::back_inserter(candidates));
  }
  std::move(variants.begin(), variants.end(), std::back_inserter(candidates));
}

/// The few best once more, in turn: clocks depend on what ran before.
Status Search::compareBest(size_t few) {
  constexpr int rounds = 2, idleMs = 300;
  for (int round = 0; round < rounds; ++round) {
    if (Status ok = placed.use(kernel); !ok)
      return ok;
    auto ms = timeBurst(placed, idleMs);
    if (!ms)
      return ms.takeFailure();
    chosen = std::min(chosen, *ms);
    for (size_t i = 0; i < few; ++i)
      if (Status ok = measure(candidates[i], idleMs); !ok)
        return ok;
  }
  return success();
}

Status Search::run() {
  candidates = listTiles(kernel);
  measureAll(candidates);
  constexpr size_t fewTiles = 2, fewCandidates = 4;
  for (size_t i = 0, n = std::min(candidates.size(), fewTiles); i < n; ++i)
    refine(Candidate(candidates[i]));
  std::printf("autotune: %zu of %zu schedules do not compile, most for want of "
              "registers or shared memory\n",
              withoutRoom, tried);
  if (candidates.empty())
    return Failure{"expected a schedule that runs, but got none"};
  sortByTime(candidates);
  size_t few = std::min(candidates.size(), fewCandidates);
  if (Status ok = compareBest(few); !ok)
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
  std::printf("autotune: the schedule without it takes %.4g ms, %.3f of that\n",
              chosen, chosen / best.ms);
  return success();
}

Status
attn::run::autotune(const Options &options, AttnCompileOptions how,
                    const Kernel &kernel, const std::vector<HostTensor> &inputs,
                    const std::vector<HostTensor> &outputs, double flops,
                    const std::function<void(const std::string &)> &progress) {
  std::vector<HostTensor> results = outputs;
  auto placed = DeviceRun::create(kernel, inputs, results);
  if (!placed)
    return placed.takeFailure();
  return Search(options, how, kernel, outputs, *placed, flops, progress).run();
}
