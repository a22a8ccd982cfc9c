//===- Case.cpp - One random attention, compiled and run ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Case.h"
#include "Instance.h"
#include "Scans.h"
#include "attn/Reference/Attention.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace ::attn;
using namespace ::attn::fuzz;

//===----------------------------------------------------------------------===//
// The compiler
//===----------------------------------------------------------------------===//

/// The descriptor that says the same as the kernel's text, where one can.
static bool describeForAbi(const Kernel &k, AttnAttentionDesc &desc,
                           std::string &schedule) {
  std::memset(&desc, 0, sizeof(desc));
  desc.structSize = sizeof(desc);
  bool fixed = false;
  for (int64_t size : k.fixed)
    fixed |= size >= 0;
  // Its tables give NaN at positions that they do not have.
  if (k.turned)
    return false;
  if (k.aggregate || k.maskExpr || k.scoreExpr || !k.captures.empty() ||
      k.constantWindow || k.windowLeft != k.windowRight || fixed ||
      k.outDType != k.dtype || k.monoid->numValues != 1 || k.mask.rank ||
      (k.bias.rank != 0 && k.bias.rank != 4))
    return false;
  auto dtype = [](DType d) {
    return d == DType::f32 ? ATTN_F32 : d == DType::f16 ? ATTN_F16 : ATTN_BF16;
  };
  desc.dtype = dtype(k.dtype);
  desc.headDim = k.dqk;
  desc.valueDim = k.dv;
  desc.causal = static_cast<AttnCausal>(k.causal);
  desc.scale = k.scale;
  desc.softcap = k.softcap;
  desc.window = k.windowLeft;
  desc.sinks = k.sinks;
  desc.lengths = k.lengths;
  desc.packed = k.packed;
  desc.blockTable = static_cast<int32_t>(k.page && !k.fixedPage ? -1 : k.page);
  desc.kStart = k.kStart;
  desc.rolling = k.rolling;
  desc.batchInvariant = k.batchInvariant;
  desc.cascade = k.cascade;
  desc.append = k.append;
  desc.dropout = k.dropout;
  if (k.bias.rank) {
    desc.bias = ATTN_GIVEN;
    for (int i = 0; i < 4; ++i)
      if (k.bias.one[i])
        desc.bias |= ATTN_BROADCAST_BATCH << i;
    desc.biasDType = dtype(k.bias.dtype);
  }
  desc.alibi = k.alibiRank;
  desc.monoid = k.monoid->text ? k.monoid->text : k.monoid->name;
  desc.numOutputs = k.numOutputs;
  desc.precision = k.tf32 ? ATTN_PRECISION_TF32 : ATTN_PRECISION_IEEE;
  if (k.schedule) {
    schedule = k.schedule->print();
    desc.schedule = schedule.c_str();
  }
  return true;
}

/// A softmax that takes the sum of the weights for 1/64 more than it is: a
/// lawful monoid, but not the one that the oracle knows.
static const char *const wrongSoftmax = R"mlir(
attn.monoid @softmax cocycle stats(f32) components(value, unit)
    outputs("o", "lse") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %more = arith.constant 1.015625 : f32
    attn.yield %s, %one, %more : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    %log = math.log %sum : f32
    %lse = arith.addf %m, %log : f32
    attn.yield %o, %lse : f32, f32
  }
}
)mlir";

AttnError *fuzz::compileKernel(AttnContext *context, const Kernel &k,
                               const Options &options, uint64_t index,
                               AttnKernel **compiled) {
  if (k.scan)
    return compileScan(context, *k.scan, options, compiled);
  AttnCompileOptions how;
  std::memset(&how, 0, sizeof(how));
  how.structSize = sizeof(how);
  how.noCache = 1;
  if (!options.target.empty())
    how.target = options.target.c_str();
  else if (options.device)
    how.target = "cuda";
  if (options.tamper == "weights" && std::string(k.monoid->name) == "softmax") {
    std::string text = wrongSoftmax + k.text;
    return attnCompile(context, text.data(), text.size(), &how, compiled);
  }
  AttnAttentionDesc desc;
  std::string schedule;
  if (index % 3 == 0 && describeForAbi(k, desc, schedule)) {
    // One of four has a kernel for each class of sizes. A number of batches
    // alone is an expectation that nothing follows from.
    if (index % 12)
      desc.expectedSizes[0] = 1;
    return attnCompileAttention(context, &desc, &how, compiled);
  }
  return attnCompile(context, k.text.data(), k.text.size(), &how, compiled);
}

//===----------------------------------------------------------------------===//
// One case
//===----------------------------------------------------------------------===//

std::string fuzz::runOnce(const AttnKernel *kernel,
                          const std::vector<Tensor> &inputs,
                          const std::vector<Tensor> &outputs, int threads,
                          Arena *arena) {
  if (arena)
    return arena->run(kernel, inputs, outputs);
  std::vector<AttnTensor> in, out;
  for (const Tensor &t : inputs)
    in.push_back(toAbi(t));
  for (const Tensor &t : outputs)
    out.push_back(toAbi(t));
  attnSetNumThreads(threads);
  if (AttnError *error = attnKernelRun(kernel, 0, in.data(), in.size(),
                                       out.data(), out.size()))
    return takeMessage(error);
  return "";
}

/// GPUs flush f32 results below this to zero.
static constexpr double smallestNormal = 0x1p-126;

/// `worstShare`: the worst share of its bound that a case used.
static std::string compareOutput(const Instance &instance, size_t index,
                                 bool gpu, double &worstShare) {
  const Tensor &output = instance.outputs[index];
  const Expected &e = instance.expected[index];
  double least = std::max(gpu ? smallestNormal : 0, e.least);
  std::vector<double> got;
  output.forEach([&](int64_t at, int64_t) { got.push_back(output.get(at)); });
  auto barsFor = [&](const reference::Errors &errors) {
    reference::Errors bars = reference::errorBars(e.exact, errors, e.dtype);
    bars.raise({least, least});
    return bars;
  };
  reference::Errors bounds = barsFor(e.error);
  reference::Comparison c = reference::compare(got, e.exact, bounds, e.dtype);
  if (!c.ok) {
    // One emulation may have been lucky.
    auto errors = instance.emulatedErrors();
    if (!errors)
      return "the oracle refuses: " + errors.error();
    bounds = barsFor((*errors)[index]);
    c = reference::compare(got, e.exact, bounds, e.dtype);
  }
  double bound =
      c.worst < 0 ? 0.0 : bounds.of(e.exact[static_cast<size_t>(c.worst)]);
  if (bound > 0)
    worstShare = std::max(worstShare, c.maxError / bound);
  if (c.ok)
    return "";
  size_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i)
    wrong += !reference::isWithin(got[i], e.exact[i], bounds.of(e.exact[i]),
                                  e.dtype);
  std::string shape;
  for (int64_t size : output.sizes)
    shape += (shape.empty() ? "[" : ", ") + std::to_string(size);
  char size[96];
  int end = std::snprintf(size, sizeof(size), "; scores up to %.4g",
                          instance.largestScore());
  if (c.maxError > bound && bound > 0)
    std::snprintf(size + end, sizeof(size) - end, "; %.3g times the bound",
                  c.maxError / bound);
  return e.name + " " + shape + "]: " + c.message + " (" +
         std::to_string(wrong) + " of " + std::to_string(got.size()) +
         " entries wrong" + size + ")";
}

/// Keys one row off: a view of the same memory that starts a row later, the
/// last row twice. Not where a row cannot be told from the next.
static Instance withKeysOff(const Kernel &k, const Instance &instance) {
  Instance wrong = instance;
  for (size_t i = 0; i < wrong.inputs.size(); ++i) {
    Tensor &t = wrong.inputs[i];
    if (k.arguments[i].role != Argument::K || t.repeats() ||
        t.numElements() == 0)
      continue;
    Tensor copy = cloneLayout(t);
    int64_t rows = t.sizes[t.sizes.size() - 2], width = t.sizes.back();
    t.forEach([&](int64_t, int64_t n) {
      int64_t j = n / width % rows, from = std::min(j + 1, rows - 1);
      std::vector<int64_t> index(t.sizes.size());
      int64_t rest = n;
      for (size_t d = t.sizes.size(); d-- > 0; rest /= t.sizes[d])
        index[d] = rest % t.sizes[d];
      int64_t to = copy.at(index);
      index[index.size() - 2] = from;
      copy.set(to, t.get(t.at(index)));
    });
    t = copy;
  }
  return wrong;
}

/// The same with nonsense for lengths and offsets, which no kernel may follow
/// out of its tensors.
static Instance withWildOffsets(const Kernel &k, const Instance &instance,
                                Random &random) {
  Instance wild = instance;
  for (size_t i = 0; i < wild.inputs.size(); ++i) {
    Argument::Role role = k.arguments[i].role;
    if (role != Argument::Lengths && role != Argument::CuQ &&
        role != Argument::CuK && role != Argument::Table &&
        role != Argument::Start)
      continue;
    Tensor copy = cloneLayout(wild.inputs[i]);
    copy.forEach([&](int64_t at, int64_t) {
      copy.set(at, static_cast<double>(random.pick<int64_t>(
                       {INT32_MIN, INT32_MAX, -1, random.range(-5000, 5000),
                        random.range(0, 300), random.range(0, 300)})));
    });
    wild.inputs[i] = copy;
  }
  return wild;
}

void fuzz::tamper(const std::string &how, const std::vector<Tensor> &outputs,
                  const std::vector<Tensor> &inputs) {
  if (how == "rounding")
    for (const Tensor &t : outputs)
      t.forEach([&](int64_t at, int64_t) {
        // Five bits of a significand of 8 (bf16), twelve of one of 24.
        double x = t.get(at), keep = t.dtype == DType::f32 ? 0x1p12 : 0x1p3;
        int exponent = 0;
        double mantissa = std::frexp(x, &exponent);
        if (std::isfinite(x))
          t.set(at, std::ldexp(std::floor(mantissa * keep) / keep, exponent));
      });
  if (how == "guard" && !outputs.empty() && outputs[0].first > 0)
    outputs[0].memory->data()[0] = 0;
  if (how == "input")
    for (const Tensor &t : inputs)
      if (t.memory->size() > 0) {
        t.memory->data()[0] ^= 1;
        return;
      }
}

/// What a kernel says of a tensor that tensor copies cannot take. Layouts are
/// such that it does so seldom.
static bool isRefusedLayout(const Kernel &k, const Instance &instance,
                            const std::string &message) {
  bool isOdd = !instance.aligned || k.has(Edge::Layout) || k.has(Edge::Views);
  return isOdd && message.find("copy it") != std::string::npos;
}

/// Whether what scores lose by rounding may decide outputs: by more than a few
/// emulations show on a GPU, whose orders are its own, and where 2^-21 of them
/// is half a unit of the exponent or more.
static bool hasFarScores(const Kernel &k, const Instance &instance) {
  constexpr double large = 0x1p14;
  return (k.has(Edge::Scale) || k.has(Edge::Scores)) &&
         instance.largestScore() >= large;
}

/// Against what every order of operations may give (Intervals.h).
static std::string compareWithIntervals(const Instance &instance,
                                        size_t index) {
  const Expected &e = instance.expected[index];
  auto intervals = instance.intervals(index);
  if (!intervals)
    return "the oracle refuses: " + intervals.error();
  std::string message;
  instance.outputs[index].forEach([&](int64_t at, int64_t n) {
    double got = instance.outputs[index].get(at), want = e.exact[n];
    Interval in = (*intervals)[n];
    bool isRight = std::isfinite(want) ? got >= in.low - smallestNormal &&
                                             got <= in.high + smallestNormal
                                       : reference::isWithin(got, want, 0.0);
    if (isRight || !message.empty())
      return;
    char text[160];
    std::snprintf(text, sizeof(text),
                  ": expected %.9g at %lld, from %.9g to %.9g, but got %.9g",
                  want, static_cast<long long>(n), in.low, in.high, got);
    message = e.name + text;
  });
  return message;
}

bool fuzz::isRefusedSchedule(const Kernel &k, const std::string &message) {
  return k.schedule &&
         (message.find("smaller tiles") != std::string::npos ||
          message.find("expected rows = 16 or more") != std::string::npos ||
          message.find("multiple of 16 rows") != std::string::npos ||
          message.find("not those of warpgroups") != std::string::npos ||
          message.find("registers of live fragments") != std::string::npos);
}

CaseResult fuzz::runCase(const AttnKernel *kernel, const Kernel &k,
                         const Options &options, int64_t index, Arena *arena) {
  if (k.scan)
    return runScan(kernel, *k.scan, options, index, arena);
  CaseResult result;
  Instance instance;
  auto failed = [&](std::string message) {
    result.message = std::move(message);
    return result;
  };
  std::string error =
      makeInstance(k, options.seed, index, !options.clean, instance);
  result.summary = instance.summary;
  if (!error.empty())
    return failed("the oracle refuses: " + error);
  std::vector<std::vector<char>> before;
  for (const Tensor &t : instance.inputs)
    before.push_back(bytesOf(t));
  Instance off;
  if (options.tamper == "keys")
    off = withKeysOff(k, instance);
  // Its own schedules, and none that the user has set.
  static const bool isFree = !std::getenv("ATTN_EMULATOR");
  auto setSchedule = [&](const char *mode) {
    if (options.emulates() && isFree)
      setenv("ATTN_EMULATOR", (mode + std::to_string(index)).c_str(), 1);
  };
  setSchedule("random:");
  error = runOnce(kernel, (options.tamper == "keys" ? off : instance).inputs,
                  instance.outputs, 1, arena);
  if (!error.empty()) {
    result.skipped =
        (arena || options.emulates()) && isRefusedLayout(k, instance, error);
    result.broken = arena && !result.skipped && !cuda::synchronize();
    return result.skipped ? result : failed("run: " + error);
  }
  tamper(options.tamper, instance.outputs, instance.inputs);
  auto isWritten = [&](size_t i) {
    Argument::Role role = k.arguments[i].role;
    return k.append && (role == Argument::K || role == Argument::V);
  };
  for (size_t i = 0; i < before.size(); ++i)
    if (!isWritten(i) && bytesOf(instance.inputs[i]) != before[i])
      return failed("changed input '" + k.arguments[i].name + "'");
  for (size_t i = 0; i < instance.outputs.size(); ++i) {
    error = checkGuards(instance.outputs[i]);
    if (error.empty())
      error = compareOutput(instance, i, k.gpu, result.worstShare);
    if (hasFarScores(k, instance)) {
      std::string other = compareWithIntervals(instance, i);
      constexpr double huge = 0x1p20;
      if (!other.empty() || k.gpu || instance.largestScore() >= huge)
        error = other;
    }
    if (!error.empty())
      return failed(error);
  }
  // The same bits again, and with other threads.
  std::vector<Tensor> again;
  for (const Tensor &t : instance.outputs)
    again.push_back(cloneLayout(t));
  setSchedule(index % 2 ? "adversary:" : "lazy:");
  error = runOnce(kernel, instance.inputs, again, 2, arena);
  if (!error.empty())
    return failed("second run: " + error);
  if (options.tamper == "rerun" && again[0].numElements() > 0)
    again[0].memory->data()[again[0].first * support::sizeOf(again[0].dtype)] ^=
        1;
  for (size_t i = 0; i < again.size(); ++i)
    if (bytesOf(again[i]) != bytesOf(instance.outputs[i]))
      return failed("output '" + instance.expected[i].name +
                    "' has other bits " +
                    (arena ? "in a second run" : "with 2 threads"));
  Random random(options.seed ^ 0x0FF5E75, static_cast<uint64_t>(index));
  if ((arena || options.emulates()) && (k.packed || k.lengths || k.page) &&
      random.chance(0.3)) {
    Instance wild = withWildOffsets(k, instance, random);
    setenv("ATTN_EMULATOR_MEMORY", "device", 1);
    error = runOnce(kernel, wild.inputs, again, 1, arena);
    unsetenv("ATTN_EMULATOR_MEMORY");
    // Sequences that overlap write the same rows, in any order; rows of none
    // hold anything.
    if (options.emulates() &&
        (error.find("nothing orders") != std::string::npos ||
         error.find("which nobody has written") != std::string::npos))
      error.clear();
    result.broken = arena && !error.empty() && !cuda::synchronize();
    if (!error.empty())
      return failed("wild offsets: " + error);
  }
  return result;
}
