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
//===----------------------------------------------------------------------===//

#include "Fuzz/Instance.h"
#include "attn-c/attn.h"
#include "attn/Reference/Attention.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <unistd.h>

using namespace attn;
using namespace attn::fuzz;

namespace {
struct Options {
  int64_t cases = 200, kernels = 250, only = -1;
  uint64_t seed = 1;
  std::optional<Family> family;
  bool verbose = false, printIr = false, clean = false;
  std::string target, tamper;
};

/// What --tamper does to the compiler's work, so that the tool can be seen to
/// fail.
const std::string tampers[] = {
    "weights",  // the monoid adds a little to every sum of weights
    "keys",     // keys are read one row off
    "rounding", // outputs lose the last bits of their mantissa
    "rerun",    // the second run has another bit
    "guard",    // a byte beside an output is written
    "input"};   // an input is written

using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}
} // namespace

/// What shows the case at hand again; a crash prints it.
static char reproducer[256];

static std::string commandFor(const Options &options, int64_t index) {
  std::string command = "attn-fuzz --seed " + std::to_string(options.seed) +
                        " --case " + std::to_string(index);
  if (options.kernels != Options().kernels)
    command += " --kernels " + std::to_string(options.kernels);
  if (options.family)
    command += std::string(" --family ") + nameOf(*options.family);
  if (!options.target.empty())
    command += " --target " + options.target;
  if (!options.tamper.empty())
    command += " --tamper " + options.tamper;
  return command;
}

static void onCrash(int signal) {
  auto say = [](const char *text) {
    ssize_t ignored = write(1, text, std::strlen(text));
    (void)ignored;
  };
  say("FAILED: ");
  say(reproducer);
  say(signal == SIGALRM ? "\n  took more than 60 s\n" : "\n  crashed\n");
  _exit(3);
}

//===----------------------------------------------------------------------===//
// The compiler
//===----------------------------------------------------------------------===//

static std::string takeMessage(AttnError *error) {
  std::string message = attnErrorMessage(error);
  attnErrorDestroy(error);
  return message;
}

/// The descriptor that says the same as the kernel's text, where one can.
static bool describeForAbi(const Kernel &k, AttnAttentionDesc &desc,
                           std::string &schedule) {
  std::memset(&desc, 0, sizeof(desc));
  desc.structSize = sizeof(desc);
  bool fixed = false;
  for (int64_t size : k.fixed)
    fixed |= size >= 0;
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
  if (k.schedule) {
    const Schedule &s = *k.schedule;
    schedule = "#attn.schedule<block_q = " + std::to_string(s.blockQ) +
               ", rows = " + std::to_string(s.rows) +
               ", block_k = " + std::to_string(s.blockK) +
               ", splits = " + std::to_string(s.splits) + ", loop = " + s.loop +
               ">";
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

static AttnError *compileKernel(AttnContext *context, const Kernel &k,
                                const Options &options, uint64_t index,
                                AttnKernel **compiled) {
  AttnCompileOptions how;
  std::memset(&how, 0, sizeof(how));
  how.structSize = sizeof(how);
  how.noCache = 1;
  if (!options.target.empty())
    how.target = options.target.c_str();
  if (options.tamper == "weights" && std::string(k.monoid->name) == "softmax") {
    std::string text = wrongSoftmax + k.text;
    return attnCompile(context, text.data(), text.size(), &how, compiled);
  }
  AttnAttentionDesc desc;
  std::string schedule;
  if (index % 3 == 0 && describeForAbi(k, desc, schedule))
    return attnCompileAttention(context, &desc, &how, compiled);
  return attnCompile(context, k.text.data(), k.text.size(), &how, compiled);
}

//===----------------------------------------------------------------------===//
// One case
//===----------------------------------------------------------------------===//

static AttnTensor toAbi(const Tensor &tensor) {
  static_assert(static_cast<int>(DType::boolean) == ATTN_BOOL,
                "the two enumerations agree");
  AttnTensor t;
  t.data = tensor.data();
  t.dtype = static_cast<AttnDType>(tensor.dtype);
  t.rank = static_cast<int32_t>(tensor.sizes.size());
  t.shape = tensor.sizes.data();
  t.strides = tensor.strides.data();
  return t;
}

static std::string runOnce(const AttnKernel *kernel, const Instance &instance,
                           const std::vector<Tensor> &outputs, int threads) {
  std::vector<AttnTensor> in, out;
  for (const Tensor &t : instance.inputs)
    in.push_back(toAbi(t));
  for (const Tensor &t : outputs)
    out.push_back(toAbi(t));
  attnSetNumThreads(threads);
  if (AttnError *error = attnKernelRun(kernel, 0, in.data(), in.size(),
                                       out.data(), out.size()))
    return takeMessage(error);
  return "";
}

static std::vector<char> bytesOf(const Tensor &tensor) {
  return std::vector<char>(tensor.memory->data(),
                           tensor.memory->data() + tensor.memory->size());
}

/// Everything that is no element of an output still holds the canary.
static std::string checkGuards(const Tensor &output) {
  std::vector<char> bytes = bytesOf(output);
  int64_t size = static_cast<int64_t>(support::sizeOf(output.dtype));
  output.forEach([&](int64_t at, int64_t) {
    std::memset(bytes.data() + at * size, 0xFF, size);
  });
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != '\xFF')
      return "wrote byte " + std::to_string(i) + " outside the output";
  return "";
}

/// The worst share of its bound that a case used.
static double worstShare = 0;

static std::string compareOutput(const Instance &instance, size_t index) {
  const Tensor &output = instance.outputs[index];
  const Expected &e = instance.expected[index];
  std::vector<double> got;
  output.forEach([&](int64_t at, int64_t) { got.push_back(output.get(at)); });
  double bound = reference::errorBar(e.exact, e.error, e.dtype);
  reference::Comparison c = reference::compare(got, e.exact, bound);
  if (!c.ok) {
    // One emulation may have been lucky.
    auto errors = instance.emulatedErrors();
    if (!errors)
      return "the oracle refuses: " + errors.error();
    bound = reference::errorBar(e.exact, (*errors)[index], e.dtype);
    c = reference::compare(got, e.exact, bound);
  }
  if (bound > 0)
    worstShare = std::max(worstShare, c.maxError / bound);
  if (c.ok)
    return "";
  size_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i)
    wrong += std::isnan(e.exact[i])
                 ? !std::isnan(got[i])
                 : got[i] != e.exact[i] &&
                       !(std::fabs(got[i] - e.exact[i]) <= bound);
  std::string shape;
  for (int64_t size : output.sizes)
    shape += (shape.empty() ? "[" : ", ") + std::to_string(size);
  return e.name + " " + shape + "]: " + c.message + " (" +
         std::to_string(wrong) + " of " + std::to_string(got.size()) +
         " entries wrong)";
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

/// What a wrong compiler might do after a run.
static void tamper(const std::string &how, const std::vector<Tensor> &outputs,
                   const Instance &instance) {
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
    for (const Tensor &t : instance.inputs)
      if (t.memory->size() > 0) {
        t.memory->data()[0] ^= 1;
        return;
      }
}

static std::string runCase(const AttnKernel *kernel, const Kernel &k,
                           const Options &options, int64_t index,
                           std::string &summary) {
  Instance instance;
  std::string error =
      makeInstance(k, options.seed, index, !options.clean, instance);
  summary = instance.summary;
  if (!error.empty())
    return "the oracle refuses: " + error;
  std::vector<std::vector<char>> before;
  for (const Tensor &t : instance.inputs)
    before.push_back(bytesOf(t));
  Instance off;
  if (options.tamper == "keys")
    off = withKeysOff(k, instance);
  error = runOnce(kernel, options.tamper == "keys" ? off : instance,
                  instance.outputs, 1);
  if (!error.empty())
    return "run: " + error;
  tamper(options.tamper, instance.outputs, instance);
  for (size_t i = 0; i < before.size(); ++i)
    if (bytesOf(instance.inputs[i]) != before[i])
      return "changed input '" + k.arguments[i].name + "'";
  for (size_t i = 0; i < instance.outputs.size(); ++i) {
    error = checkGuards(instance.outputs[i]);
    if (error.empty())
      error = compareOutput(instance, i);
    if (!error.empty())
      return error;
  }
  // The same bits again, and with other threads.
  std::vector<Tensor> again;
  for (const Tensor &t : instance.outputs)
    again.push_back(cloneLayout(t));
  error = runOnce(kernel, instance, again, 2);
  if (!error.empty())
    return "second run: " + error;
  if (options.tamper == "rerun" && again[0].numElements() > 0)
    again[0].memory->data()[again[0].first * support::sizeOf(again[0].dtype)] ^=
        1;
  for (size_t i = 0; i < again.size(); ++i)
    if (bytesOf(again[i]) != bytesOf(instance.outputs[i]))
      return "output '" + instance.expected[i].name +
             "' has other bits with 2 threads";
  return "";
}

//===----------------------------------------------------------------------===//
// The command line
//===----------------------------------------------------------------------===//

static const char *const usage =
    "usage: attn-fuzz [--cases N] [--seed S] [--family F] [--case K]\n"
    "                 [--kernels M] [--target T] [--clean] [--verbose]\n"
    "                 [--print-ir] [--tamper HOW]\n"
    "\n"
    "Compares N random attentions with the oracle. Case K runs kernel K % M.\n"
    "--clean leaves finite values in slots that no query may see.\n"
    "--tamper spoils what the compiler did, which has to be found: weights,\n"
    "keys, rounding, rerun, guard, input.\n"
    "Families: options, masks, scores, monoids, own, packed, schedules.\n";

[[noreturn]] static void fail(const std::string &message) {
  std::fprintf(stderr, "attn-fuzz: error: %s\n", message.c_str());
  std::exit(2);
}

static int64_t parseNumber(const char *option, const char *text) {
  char *end = nullptr;
  long long value = std::strtoll(text, &end, 10);
  if (!*text || *end || value < 0)
    fail(std::string("expected a number for ") + option + ", but got '" + text +
         "'");
  return value;
}

static Options parseOptions(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    auto next = [&]() -> const char * {
      if (i + 1 == argc)
        fail("expected a value after " + arg);
      return argv[++i];
    };
    if (arg == "--cases")
      options.cases = parseNumber("--cases", next());
    else if (arg == "--seed")
      options.seed = parseNumber("--seed", next());
    else if (arg == "--case")
      options.only = parseNumber("--case", next());
    else if (arg == "--kernels")
      options.kernels = std::max<int64_t>(parseNumber("--kernels", next()), 1);
    else if (arg == "--target")
      options.target = next();
    else if (arg == "--tamper") {
      options.tamper = next();
      if (std::find(std::begin(tampers), std::end(tampers), options.tamper) ==
          std::end(tampers))
        fail("expected weights, keys, rounding, rerun, guard or input, but got "
             "'" +
             options.tamper + "'");
    } else if (arg == "--verbose")
      options.verbose = true;
    else if (arg == "--clean")
      options.clean = true;
    else if (arg == "--print-ir")
      options.printIr = true;
    else if (arg == "--family") {
      std::string name = next();
      for (Family family : allFamilies)
        if (name == nameOf(family))
          options.family = family;
      if (!options.family)
        fail("expected a family (options, masks, scores, monoids, own, packed, "
             "schedules), but got '" +
             name + "'");
    } else if (arg == "--help" || arg == "-h") {
      std::fputs(usage, stdout);
      std::exit(0);
    } else {
      fail("unknown option '" + arg + "'; see --help");
    }
  }
  return options;
}

int main(int argc, char **argv) {
  Options options = parseOptions(argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM})
    std::signal(signal, onCrash);
  AttnContext *context = nullptr;
  if (AttnError *error = attnContextCreate(&context))
    fail(takeMessage(error));

  int64_t numCases = 0, numFailed = 0, numKernels = 0;
  double compileSeconds = 0;
  double cpuStart = static_cast<double>(std::clock());
  std::map<std::string, int64_t> perFamily;
  // Cases in the order of their kernels: each kernel is compiled once.
  for (int64_t number = 0; number < options.kernels; ++number) {
    if (options.only >= 0 ? options.only % options.kernels != number
                          : number >= options.cases)
      continue;
    int64_t first = options.only >= 0 ? options.only : number;
    int64_t end = options.only >= 0 ? options.only + 1 : options.cases;
    Kernel k = makeKernel(options.seed, number, options.family);
    std::snprintf(reproducer, sizeof(reproducer), "%s",
                  commandFor(options, first).c_str());
    if (options.printIr)
      std::printf("// %s\n%s\n", describe(k).c_str(), k.text.c_str());
    auto start = Clock::now();
    AttnKernel *compiled = nullptr;
    alarm(60);
    AttnError *error = compileKernel(context, k, options,
                                     static_cast<uint64_t>(number), &compiled);
    compileSeconds += secondsSince(start);
    std::string refused = error ? takeMessage(error) : "";
    ++numKernels;
    for (int64_t index = first; index < end; index += options.kernels) {
      std::string command = commandFor(options, index), summary, message;
      std::snprintf(reproducer, sizeof(reproducer), "%s", command.c_str());
      ++numCases;
      ++perFamily[nameOf(k.family)];
      worstShare = 0;
      alarm(60);
      auto caseStart = Clock::now();
      if (!refused.empty())
        message = "compile: " + refused;
      else
        message = runCase(compiled, k, options, index, summary);
      if (options.verbose)
        std::printf("case %lld: %s; %s: %.2f of the bound, %.2f s\n",
                    static_cast<long long>(index), describe(k).c_str(),
                    summary.c_str(), worstShare, secondsSince(caseStart));
      if (message.empty())
        continue;
      ++numFailed;
      std::printf("FAILED: %s\n  %s; %s\n  %s\n", command.c_str(),
                  describe(k).c_str(), summary.c_str(), message.c_str());
      // A kernel that does not compile fails all its cases in one way.
      if (!refused.empty()) {
        int64_t rest = (end - 1 - index) / options.kernels;
        numCases += rest;
        numFailed += rest;
        break;
      }
    }
    attnKernelDestroy(compiled);
  }
  alarm(0);
  attnContextDestroy(context);
  for (auto &[name, count] : perFamily)
    std::printf("%s: %lld cases\n", name.c_str(),
                static_cast<long long>(count));
  std::printf("%lld kernels compiled in %.1f s, %.1f s of CPU in all\n",
              static_cast<long long>(numKernels), compileSeconds,
              (static_cast<double>(std::clock()) - cpuStart) / CLOCKS_PER_SEC);
  std::printf("%lld cases, %lld failed\n", static_cast<long long>(numCases),
              static_cast<long long>(numFailed));
  return numFailed ? 1 : 0;
}
