//===- AttnRunMain.cpp - Run attention from the command line --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Run/Attention.h"
#include "Run/Autotune.h"
#include "Run/Check.h"
#include "Run/Compile.h"
#include "Run/Counters.h"
#include "Run/Device.h"
#include "Run/Kernel.h"
#include "Run/Ladder.h"
#include "Run/Options.h"
#include "Run/Picture.h"
#include "Run/Prediction.h"
#include "Run/Roofline.h"
#include "Run/Traffic.h"
#include "attn/Tools/RunMain.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <new>
#include <unistd.h>

using namespace ::attn::run;
using namespace ::attn::support;

static double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

namespace {
/// One run of the tool.
class Session {
public:
  explicit Session(const Options &options) : options(options) {}
  ~Session() { attnSetProgress(nullptr, nullptr); }

  Status run();

private:
  AttnCompileOptions compileOptions() const;
  Status compile();
  Status checkOptions();
  bool asksForRun() const;
  Status makeInputs();
  Result<HostTensor> makeInput(const ArgInfo &arg);
  Result<HostTensor> readInput(const ArgInfo &arg, const std::string &value);
  Status writeOutputs();
  void printOutputs();
  void printTimings();
  Work countWholeWork(const char *text) const;
  double predictTraffic(const Work &work, const char *text) const;
  std::vector<Prediction> predictCounters(int numKernels) const;
  void printExplanation();
  void explainMasks(const char *text);
  Status drawMasks();
  void printDeviceTraffic(const char *text);
  Status check(const std::vector<HostTensor> &given);
  Status runOnce();
  Status bench();
  Status benchOnDevice();

  /// May be called from any thread.
  void progress(const std::string &text) {
    if (!reportsProgress || !progressIsDue())
      return;
    std::unique_lock<std::mutex> lock(progressMutex, std::try_to_lock);
    if (!lock.owns_lock() || !progressIsDue())
      return;
    nextProgress = now() + progressSeconds;
    std::fprintf(stderr, "attn-run: %s\n", text.c_str());
  }
  bool progressIsDue() const { return now() >= nextProgress.load(); }
  static void reportBlock(void *user, int64_t block, int64_t count) {
    auto *self = static_cast<Session *>(user);
    if (self->progressIsDue())
      self->progress("running: block " + std::to_string(block + 1) + " of " +
                     std::to_string(count));
  }

  const Options &options;
  std::optional<Kernel> kernel;
  std::optional<DeviceRun> device;
  std::vector<HostTensor> inputs, outputs;
  std::optional<PredictedTime> prediction;
  double compileCpuMs = 0;
  /// Names of inputs that nobody gave.
  std::string drawn;
  static constexpr double progressSeconds = 2.0;
  /// Quick work needs no words, unless it is asked for them.
  const bool reportsProgress = options.progress || isatty(STDERR_FILENO);
  std::atomic<double> nextProgress{options.progress ? 0.0
                                                    : now() + progressSeconds};
  std::mutex progressMutex;
};
} // namespace

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

/// Milliseconds of processor time that this process has used.
static double cpuMs() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) * 1e3 + double(time.tv_nsec) * 1e-6;
}

AttnCompileOptions Session::compileOptions() const {
  AttnCompileOptions how = {};
  how.structSize = sizeof(how);
  auto orNull = [](const std::string &text) {
    return text.empty() ? nullptr : text.c_str();
  };
  // A GPU alone means what it runs best.
  bool isCuda = options.device == "cuda" && options.target.empty();
  how.target = isCuda ? "cuda" : orNull(options.target);
  how.noCache = options.noCache;
  how.startFrom = orNull(options.startFrom);
  how.untilAfter = orNull(options.untilAfter);
  how.dumpPhasesTo = orNull(options.dumpPhasesTo);
  how.keepIr = options.check || options.explain || !options.maskPicture.empty();
  return how;
}

Status Session::compile() {
  double cpuBefore = cpuMs();
  auto result = compileProgram(options, compileOptions());
  if (!result)
    return result.takeFailure();
  kernel = *result;
  compileCpuMs = cpuMs() - cpuBefore;
  bool isNamed = options.device == "cpu" || options.device == "cuda";
  if (isNamed && kernel->isOnDevice() != (options.device == "cuda"))
    return Failure{"expected a target that --device " + options.device +
                   " runs, but got '" + attnKernelTarget(kernel->get()) + "'"};
  return success();
}

void Session::printTimings() {
  double total = 0;
  for (size_t i = 0; i < attnKernelNumTimes(kernel->get()); ++i) {
    double ms = attnKernelTimeMs(kernel->get(), i);
    std::printf("time %-16s %8.2f ms\n", attnKernelTimeName(kernel->get(), i),
                ms);
    total += ms;
  }
  std::printf("time %-16s %8.2f ms, %.2f ms of processor time\n", "total",
              total, compileCpuMs);
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

/// "2x3x4"
static Result<std::vector<int64_t>> parseShape(const std::string &what,
                                               const std::string &text) {
  std::vector<int64_t> shape;
  for (const std::string &size : split(text, 'x')) {
    auto value = parseInteger("a size of " + what, size, 0, INT32_MAX);
    if (!value)
      return value.takeFailure();
    shape.push_back(*value);
  }
  return shape;
}

Result<HostTensor> Session::readInput(const ArgInfo &arg,
                                      const std::string &value) {
  std::string what = "--input " + arg.name;
  if (arg.isScalar) {
    auto number = parseNumber(what, value);
    if (!number)
      return number.takeFailure();
    return HostTensor::scalar(arg.dtype, *number);
  }
  constexpr const char *prefix = "random:";
  if (value.rfind(prefix, 0) == 0) {
    auto shape = parseShape(what, value.substr(std::string(prefix).size()));
    if (!shape)
      return shape.takeFailure();
    return drawTensor(arg, *shape, options.seed);
  }
  auto array = readNpy(value);
  if (!array)
    return array.takeFailure();
  return HostTensor::fromNpy(std::move(*array));
}

Result<HostTensor> Session::makeInput(const ArgInfo &arg) {
  for (auto &[name, value] : options.inputs)
    if (name == arg.name)
      return readInput(arg, value);
  if (options.scan)
    return drawInput(*options.scan, arg, options.seed);
  if (options.attention) {
    auto input = drawInput(*options.attention, arg, options.seed);
    // Not what the options say, but a parameter of the monoid.
    if (input && arg.name.rfind("param", 0) == 0) {
      char number[32];
      std::snprintf(number, sizeof(number), " = %.9g", input->toNpy().at(0));
      drawn += (drawn.empty() ? "" : ", ") + arg.name + number;
    }
    return input;
  }
  if (arg.isScalar)
    return Failure{"expected --input " + arg.name + "=NUMBER"};
  std::vector<int64_t> shape = arg.shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] >= 0)
      continue;
    for (auto &[name, size] : options.sizes) {
      // Also one that is the largest of others, "max(hk, hv)".
      bool isPart = arg.dims[i].compare(0, 4, "max(") == 0 &&
                    (arg.dims[i].find("(" + name + ",") != std::string::npos ||
                     arg.dims[i].find(" " + name + ",") != std::string::npos ||
                     arg.dims[i].find(" " + name + ")") != std::string::npos);
      if (name == arg.dims[i] || isPart)
        shape[i] = std::max(isPart ? shape[i] : -1, size);
    }
    if (shape[i] >= 0)
      continue;
    std::string expected = "expected --input " + arg.name + "=FILE.npy, or ";
    if (!arg.dims[i].empty())
      return Failure{expected + "--sizes with the sizes of its dimensions"};
    return Failure{expected + "--input " + arg.name +
                   "=random:" + (arg.shape.size() > 1 ? "2x3" : "9") +
                   " with its sizes, which have no names"};
  }
  drawn += (drawn.empty() ? "" : ", ") + arg.name;
  return drawTensor(arg, shape, options.seed);
}

/// What can be said of the arguments of a compiled kernel before it runs.
Status Session::checkOptions() {
  if (options.autotune && !kernel->isOnDevice())
    return Failure{"expected --autotune on a GPU, but got the target '" +
                   std::string(attnKernelTarget(kernel->get())) + "'"};
  std::vector<std::string> dims;
  for (const ArgInfo &arg : kernel->inputs)
    for (const std::string &dim : arg.dims)
      if (!dim.empty() &&
          std::find(dims.begin(), dims.end(), dim) == dims.end())
        dims.push_back(dim);
  for (auto &[name, size] : options.sizes) {
    for (const ArgInfo &arg : kernel->inputs)
      for (size_t i = 0; i < arg.shape.size(); ++i)
        if (arg.dims[i] == name && arg.shape[i] >= 0 && arg.shape[i] != size)
          return Failure{"expected --sizes with " + name + "=" +
                         std::to_string(arg.shape[i]) + ", which '" + arg.name +
                         "' has, but got " + std::to_string(size)};
    if (std::find(dims.begin(), dims.end(), name) != dims.end())
      continue;
    std::string names;
    for (const std::string &dim : dims)
      names += (names.empty() ? "" : ", ") + dim;
    return Failure{"expected --sizes for some of " + names + ", but got '" +
                   name + "'"};
  }
  for (auto &[name, path] : options.outputs) {
    std::string names;
    bool found = false;
    for (const ArgInfo &output : kernel->outputs) {
      names += (names.empty() ? "" : ", ") + output.name;
      found |= output.name == name;
    }
    if (!found)
      return Failure{"expected --output for one of " + names + ", but got '" +
                     name + "'"};
    // Not after minutes of work. What was not there is not left behind.
    bool existed = access(path.c_str(), F_OK) == 0;
    std::FILE *file = std::fopen(path.c_str(), "ab");
    if (!file)
      return Failure{path + ": expected a writable file"};
    std::fclose(file);
    if (!existed)
      std::remove(path.c_str());
  }
  return success();
}

/// Without a word about inputs and results, what was compiled is all that is
/// wanted of a program that needs them.
bool Session::asksForRun() const {
  bool wantsText =
      options.explain || options.timings || !options.dumpPhasesTo.empty();
  bool needsSizes = false;
  for (const ArgInfo &arg : kernel->inputs)
    for (int64_t size : arg.shape)
      needsSizes |= size < 0;
  return !wantsText || !needsSizes || options.attention || options.check ||
         (options.scan && options.scan->t) || options.bench ||
         !options.inputs.empty() || !options.sizes.empty() ||
         !options.outputs.empty() || !options.maskPicture.empty();
}

Status Session::makeInputs() {
  for (auto &[name, value] : options.inputs) {
    std::string names;
    bool found = false;
    for (const ArgInfo &arg : kernel->inputs) {
      names += (names.empty() ? "" : ", ") + arg.name;
      found |= arg.name == name;
    }
    if (!found)
      return Failure{"expected --input for one of " + names + ", but got '" +
                     name + "'"};
  }
  for (const ArgInfo &arg : kernel->inputs) {
    auto input = makeInput(arg);
    if (!input)
      return input.takeFailure();
    inputs.push_back(std::move(*input));
  }
  if (!drawn.empty())
    std::printf("inputs drawn from seed %llu: %s\n",
                (unsigned long long)options.seed, drawn.c_str());
  return success();
}

Status Session::writeOutputs() {
  for (auto &[name, path] : options.outputs)
    for (size_t i = 0; i < outputs.size(); ++i)
      if (kernel->outputs[i].name == name)
        if (Status ok = writeNpy(path, outputs[i].toNpy()); !ok)
          return ok;
  return success();
}

void Session::printOutputs() {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const HostTensor &output = outputs[i];
    double low = INFINITY, high = -INFINITY, sum = 0;
    int64_t finite = 0;
    output.forEach([&](int64_t offset) {
      double value = loadElement(output.bytes.data(), output.dtype, offset);
      if (!std::isfinite(value))
        return;
      low = std::min(low, value);
      high = std::max(high, value);
      sum += value;
      ++finite;
    });
    std::printf("output %s: %s %s", kernel->outputs[i].name.c_str(),
                nameOf(output.dtype), printShape(output.shape).c_str());
    if (finite)
      std::printf(", min %.6g, max %.6g, mean %.6g", low, high,
                  sum / double(finite));
    if (finite != output.size())
      std::printf(", %lld not finite", (long long)(output.size() - finite));
    std::printf("\n");
  }
}

//===----------------------------------------------------------------------===//
// Checking and timing
//===----------------------------------------------------------------------===//

/// `given`: the inputs as they were before the run.
Status Session::check(const std::vector<HostTensor> &given) {
  // The oracle knows attentions with shipped monoids by their formulas; the
  // interpreter of the regions, all the rest.
  bool isNamed = options.attention && options.monoidFile.empty() &&
                 options.attention->scoreMod.empty() &&
                 options.attention->maskMod.empty();
  // Other work than before is said at once.
  if (options.progress)
    nextProgress = 0.0;
  std::string text;
  if (!options.checkAgainst.empty()) {
    auto read = readFile(options.checkAgainst);
    if (!read)
      return read.takeFailure();
    text = *read;
  } else if (const char *ir = attnKernelIr(kernel->get(), "input")) {
    text = ir;
  }
  if (!isNamed && text.empty())
    return Failure{"expected a program whose input phase is known to --check, "
                   "or --check-against with a file of that phase"};
  auto report =
      isNamed ? checkAttention(*options.attention, *kernel, given, outputs,
                               [&](const std::string &text) { progress(text); })
              : checkText(text, kernel->getEntryName(), *kernel, given, outputs,
                          [&](const std::string &text) { progress(text); });
  if (!report)
    return report.takeFailure();
  std::printf("%s", report->c_str());
  return success();
}

static double countBytes(const std::vector<HostTensor> &tensors) {
  double bytes = 0;
  for (const HostTensor &tensor : tensors)
    bytes += double(tensor.bytes.size());
  return bytes;
}

void Session::printDeviceTraffic(const char *text) {
  const AttentionSpec &spec = *options.attention;
  DeviceModel model;
  model.blockQ = findNumber(text, "block_q = ");
  model.blockK = findNumber(text, "block_k = ");
  model.headsAbreast =
      std::max<int64_t>(findNumber(text, "heads abreast: at most "), 1);
  model.sectionKeys = findNumber(text, "as many as have ");
  model.someHeads = findNumber(text, " keys, or ");
  model.someKeys = findNumber(text, " that have ");
  model.cacheBytes = findNumber(text, "cache of ");
  model.blocks = findNumber(text, "device: ");
  model.cluster = findSharers(text);
  // The device at hand, where there is one.
  AttnDeviceInfo info = {};
  info.structSize = sizeof(info);
  AttnError *error = attnDeviceGet(0, &info);
  if (!error)
    model.blocks = info.multiprocessors;
  attnErrorDestroy(error);
  if (spec.sequences > 0 || !model.blockQ || !model.blockK || !model.blocks ||
      attnKernelNumDeviceKernels(kernel->get()) != 1)
    return;
  model.blocks *=
      std::max<int64_t>(findNumber(text, "blocks of a multiprocessor: "), 1);
  double keys = predictKeyTraffic(spec, model);
  double rest = countBytes(outputs);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (kernel->inputs[i].name != "k" && kernel->inputs[i].name != "v")
      rest += double(inputs[i].bytes.size());
  std::printf("memory traffic, predicted: %.4g MB, of it keys and values "
              "%.4g MB by %lld blocks at once\n",
              (rest + keys) * 1e-6, keys * 1e-6, (long long)model.blocks);
  if (mayLoseStep(spec, model))
    std::printf("blocks may lose step in so many rounds over so many keys, and "
                "then read up to twice as much\n");
}

/// The work of whole tiles, where the schedule is known.
Work Session::countWholeWork(const char *text) const {
  return countWork(*options.attention, *kernel, inputs, findTiles(text));
}

/// Bytes of keys and values that query tiles read, each its own.
double Session::predictTraffic(const Work &work, const char *text) const {
  const AttentionSpec &spec = *options.attention;
  return work.touchedKeys * double(spec.d + spec.dv) *
         double(sizeOf(spec.dtype)) / double(findSharers(text));
}

/// Counts of tiles, as the analysis of masks tells them of these inputs.
void Session::explainMasks(const char *text) {
  const char *ir = attnKernelIr(kernel->get(), "aggregate");
  // Larger ones are for --mask-picture, which takes its time.
  constexpr double mostElements = 1 << 24;
  double elements = 0;
  for (const HostTensor &input : inputs)
    elements += double(input.size());
  if (!ir || !std::strstr(ir, " mask {") || elements > mostElements)
    return;
  auto masks = readMasks(ir, kernel->getEntryName(), inputs,
                         findNumber(text, "block_q = "),
                         findNumber(text, "block_k = "), /*onlyAnalysis=*/true);
  if (!masks)
    return;
  constexpr size_t most = 4;
  for (size_t i = 0; i < std::min(most, masks->size()); ++i)
    std::fputs(printCounts((*masks)[i]).c_str(), stdout);
  if (masks->size() > most)
    std::printf("and %zu other masks\n", masks->size() - most);
}

Status Session::drawMasks() {
  const char *ir = attnKernelIr(kernel->get(), "aggregate");
  if (!ir)
    return Failure{"expected a program before the phase 'schedule' for "
                   "--mask-picture, but got a later one"};
  const char *text = attnKernelExplain(kernel->get());
  auto masks =
      readMasks(ir, kernel->getEntryName(), inputs,
                findNumber(text, "block_q = "), findNumber(text, "block_k = "),
                /*onlyAnalysis=*/false);
  if (!masks)
    return masks.takeFailure();
  constexpr size_t most = 16;
  for (size_t i = 0; i < std::min(most, masks->size()); ++i) {
    std::fputs(printCounts((*masks)[i]).c_str(), stdout);
    std::fputs(printCharacters((*masks)[i]).c_str(), stdout);
  }
  if (masks->size() > most) {
    std::printf("and %zu other masks\n", masks->size() - most);
    masks->resize(most);
  }
  if (options.maskPicture == "-")
    return success();
  std::string svg = printSvg(*masks);
  std::FILE *file = std::fopen(options.maskPicture.c_str(), "wb");
  bool ok = file && std::fwrite(svg.data(), 1, svg.size(), file) == svg.size();
  if (file)
    ok &= std::fclose(file) == 0;
  if (!ok)
    return Failure{options.maskPicture + ": expected a writable file"};
  return success();
}

void Session::printExplanation() {
  const char *target = attnKernelTarget(kernel->get());
  const char *text = attnKernelExplain(kernel->get());
  if (kernel->isOnDevice())
    std::printf("target %s\n%s", target, text);
  else
    std::printf("target %s, %d threads\n%s", target, attnGetNumThreads(), text);
  if (inputs.empty())
    return;
  explainMasks(text);
  double bytes = countBytes(inputs) + countBytes(outputs);
  std::printf("memory: %.4g MB of inputs and outputs\n", bytes * 1e-6);
  if (!options.attention)
    return;

  const AttentionSpec &spec = *options.attention;
  Work work = countWholeWork(text);
  std::printf("work: %.4g GFLOP on %.4g live pairs of %.4g\n",
              work.flops * 1e-9, work.livePairs, work.allPairs);
  // Each query tile reads the keys and values that are live for it.
  if (int64_t rows = findNumber(text, "block_q = "); rows > 0 && spec.sq > 0) {
    double tiles = std::ceil(double(spec.sq) / double(rows));
    int64_t sharing = findSharers(text);
    std::printf("traffic: %.4g MB of keys and values through the caches, each "
                "of %.0f query tiles reading its own",
                predictTraffic(work, text) * 1e-6, tiles);
    if (sharing > 1)
      std::printf(" with its cluster of %lld", (long long)sharing);
    std::printf("\n");
  }
  if (kernel->isOnDevice())
    return printDeviceTraffic(text);
  // The host's peaks say nothing of what runs as on a GPU.
  if (kernel->isEmulated())
    return;
  int threads = attnGetNumThreads();
  Peaks peaks = measurePeaks(target, spec.dtype, threads);
  if (std::strstr(text, "path: matrix products"))
    printProductRoofline(work.flops, bytes, peaks);
  // The clock, by what is done in each cycle of a core.
  Peaks core = measurePeaks(target, attn::support::DType::f32, 1);
  core.bytesPerSecond = peaks.bytesPerSecond;
  prediction = predict(text, countWholeWork(text), core, bytes, threads);
  if (prediction)
    std::printf("%s\n", prediction->text.c_str());
}

/// What predictions know nothing of, by the counter: what is found out from
/// memory as the kernel runs, halves of tiles, and kernels besides the one that
/// multiplies.
static std::string findUnknown(const AttentionSpec &spec,
                               const std::string &counter, int numKernels) {
  bool isRead = counter == "hbm_read_bytes" || counter == "l2_read_bytes";
  bool isCache = counter.rfind("l2_", 0) == 0;
  if (isRead && !spec.lengths.empty())
    return "keys behind a length are not read";
  if (isCache && numKernels > 1)
    return std::to_string(numKernels) +
           " kernels read and write what they hand over";
  if (counter == "tensor_flops" && !spec.mask.empty())
    return "which tiles live is found from memory";
  if ((counter == "tensor_flops" || counter == "l2_read_bytes") &&
      (spec.causal != "none" || spec.window))
    return "a mask may leave halves of tiles out";
  return "";
}

/// What --explain says beforehand of what the emulator counts.
std::vector<Prediction> Session::predictCounters(int numKernels) const {
  double read = countBytes(inputs), written = countBytes(outputs);
  // All inputs are read from memory once; results stay in the cache.
  std::vector<Prediction> result = {{{"hbm_read_bytes"}, read, 0.02}};
  const char *text = attnKernelExplain(kernel->get());
  // Of packed heads the tiles are of other rows.
  bool isPacked = std::strstr(text, "pack_heads = true");
  if (!options.attention || !findNumber(text, "block_q = ") || isPacked)
    return result;
  const AttentionSpec &spec = *options.attention;
  Work work = countWholeWork(text);
  // Products of f32 are multiply-adds, but those of tf32.
  if (spec.dtype != DType::f32 || std::strstr(text, "rounded to tf32"))
    result.push_back({{"tensor_flops"}, work.touchedFlops, 0.02});
  double keys = predictTraffic(work, text);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (kernel->inputs[i].name == "k" || kernel->inputs[i].name == "v")
      read -= double(inputs[i].bytes.size());
  result.push_back({{"l2_read_bytes"}, keys + read, 0.02});
  result.push_back({{"l2_written_bytes"}, written, 0.02});
  for (Prediction &prediction : result)
    prediction.unknown =
        findUnknown(spec, prediction.counters.front(), numKernels);
  return result;
}

Status Session::runOnce() {
  if (kernel->isEmulated() && options.explain) {
    std::string counters;
    if (Status ok = kernel->run(inputs, outputs, &counters); !ok)
      return ok;
    std::fputs(counters.c_str(), stdout);
    int numKernels = 0;
    const std::string title = "counters of '";
    for (size_t at = counters.find(title); at != std::string::npos;
         at = counters.find(title, at + 1))
      ++numKernels;
    std::fputs(compareCounters(counters, predictCounters(numKernels)).c_str(),
               stdout);
    return success();
  }
  if (!kernel->isOnDevice())
    return kernel->run(inputs, outputs);
  auto placed = DeviceRun::create(*kernel, inputs, outputs);
  if (!placed)
    return placed.takeFailure();
  device = std::move(*placed);
  if (Status ok = device->launch(); !ok)
    return ok;
  return device->fetch(outputs);
}

Status Session::benchOnDevice() {
  auto times = timeOnDevice(*device);
  if (!times)
    return times.takeFailure();
  Work work;
  if (options.attention)
    work = countWholeWork(attnKernelExplain(kernel->get()));
  auto print = [&](const char *name, double ms, int runs) {
    std::printf("bench: %s %.4g ms, %d launches", name, ms, runs);
    if (work.flops > 0)
      std::printf(", %.4g TFLOP/s", work.flops / ms * 1e-9);
    if (work.touchedFlops > work.flops)
      std::printf(" (%.4g of touched tiles)", work.touchedFlops / ms * 1e-9);
    std::printf(", %.4g GB/s\n",
                (countBytes(inputs) + countBytes(outputs)) / ms * 1e-6);
  };
  print("burst", times->burst, times->burstRuns);
  print("sustained", times->sustained, times->sustainedRuns);
  return success();
}

Status Session::bench() {
  std::vector<double> times;
  double start = now();
  // The first run has warmed up code, caches and threads.
  do {
    double before = now();
    if (Status ok = kernel->run(inputs, outputs); !ok)
      return ok;
    times.push_back(now() - before);
    progress("bench: " + std::to_string(times.size()) + " runs");
  } while (times.size() < 3 ||
           (now() - start < options.benchSeconds && times.size() < 100000));
  std::sort(times.begin(), times.end());
  double median = times[times.size() / 2];
  std::printf("bench: median %.4g ms, best %.4g ms, %zu runs, %d threads",
              median * 1e3, times.front() * 1e3, times.size(),
              attnGetNumThreads());
  if (options.attention)
    std::printf(", %.4g GFLOP/s",
                countWork(*options.attention, *kernel, inputs).flops / median *
                    1e-9);
  std::printf(", %.4g GB/s",
              (countBytes(inputs) + countBytes(outputs)) / median * 1e-9);
  if (prediction)
    std::printf(", %.2f of the predicted %.4g ms", median / prediction->seconds,
                prediction->seconds * 1e3);
  std::printf("\n");
  return success();
}

Status Session::run() {
  if (options.threads)
    attnSetNumThreads(options.threads);
  if (reportsProgress)
    attnSetProgress(reportBlock, this);
  if (options.ladder)
    return runLadder(options, compileOptions(),
                     [&](const std::string &text) { progress(text); });
  if (Status ok = compile(); !ok)
    return ok;
  if (!options.untilAfter.empty()) {
    const char *ir = attnKernelIr(kernel->get(), nullptr);
    std::fputs(ir ? ir : "", stdout);
    return success();
  }
  if (options.timings)
    printTimings();
  if (Status ok = checkOptions(); !ok)
    return ok;
  if (!asksForRun()) {
    if (options.explain)
      printExplanation();
    return success();
  }
  if (Status ok = makeInputs(); !ok)
    return ok;
  auto made = kernel->makeOutputs(inputs, options.attention
                                              ? getOrder(*options.attention)
                                              : std::vector<int>{});
  if (!made)
    return made.takeFailure();
  outputs = std::move(*made);
  if (options.explain)
    printExplanation();
  if (!options.maskPicture.empty())
    if (Status ok = drawMasks(); !ok)
      return ok;
  // What a run writes in place would not be what it was given.
  std::vector<HostTensor> given;
  if (options.check)
    given = inputs;
  if (Status ok = runOnce(); !ok)
    return ok;
  printOutputs();
  if (Status ok = writeOutputs(); !ok)
    return ok;
  if (options.check)
    if (Status ok = check(given); !ok)
      return ok;
  if (options.autotune)
    return autotune(options, compileOptions(), *kernel, inputs, outputs,
                    countWork(*options.attention, *kernel, inputs).flops,
                    [&](const std::string &text) { progress(text); });
  if (options.bench)
    return device ? benchOnDevice() : bench();
  return success();
}

int attn::attnRunMain(int argc, char **argv) {
  std::set_new_handler(reportNoMemory);
  auto options = parseOptions(argc, argv);
  if (!options) {
    std::fprintf(stderr, "attn-run: error: %s\n", options.error().c_str());
    return 2;
  }
  if (options->help) {
    std::fputs(helpText(), stdout);
    return 0;
  }
  if (!options->timeline.empty())
    setenv("ATTN_TIMELINE", options->timeline.c_str(), /*overwrite=*/1);
  Status ok = Session(*options).run();
  std::fflush(stdout);
  if (!ok) {
    std::fprintf(stderr, "attn-run: error: %s\n", ok.error().c_str());
    return 1;
  }
  return 0;
}
