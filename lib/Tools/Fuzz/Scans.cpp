//===- Scans.cpp - Random scans -------------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Scans.h"
#include "ScanInstance.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

using namespace ::attn;
using namespace ::attn::fuzz;

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

namespace {
struct Feature {
  const char *name, *text;
};
} // namespace

static const Feature features[] = {{"elu1", R"(^bb0(%x: f32):
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %negative = arith.minimumf %x, %zero : f32
  %e = math.exp %negative : f32
  %sum = arith.addf %x, %one : f32
  %isPositive = arith.cmpf ogt, %x, %zero : f32
  %y = arith.select %isPositive, %sum, %e : f32
  attn.yield %y : f32)"},
                                   {"relu", R"(^bb0(%x: f32):
  %zero = arith.constant 0.0 : f32
  %y = arith.maximumf %x, %zero : f32
  attn.yield %y : f32)"},
                                   {"exp", R"(^bb0(%x: f32):
  %y = math.exp %x : f32
  attn.yield %y : f32)"}};

static const char *textOf(const std::string &feature) {
  for (const Feature &known : features)
    if (feature == known.name)
      return known.text;
  return nullptr;
}

double fuzz::applyFeature(const std::string &name, double x, bool isExact) {
  double y = x;
  if (name == "elu1")
    y = x > 0 ? x + 1 : std::exp(x);
  else if (name == "relu")
    y = std::max(x, 0.0);
  else if (name == "exp")
    y = std::exp(x);
  return isExact ? y : double(float(y));
}

ScanKernel fuzz::makeScan(uint64_t seed, uint64_t index, bool gpu) {
  Random random(seed ^ 0x5CA25, index);
  ScanKernel k = {};
  AttnScanDesc &d = k.desc;
  d.structSize = sizeof(d);
  d.dtype = random.pick({ATTN_F32, ATTN_F32, ATTN_F16, ATTN_BF16});
  auto channels = [&] {
    return random.chance(0.7) ? random.pick<int64_t>({8, 16, 24, 32, 60, 64})
                              : random.range(1, 130);
  };
  d.keyDim = channels();
  d.valueDim = random.chance(0.4) ? d.keyDim : channels();
  enum Rule {
    sums,
    delta,
    eraseAfter,
    eraseBefore,
    logarithms,
    weights,
    reads
  };
  auto rule = static_cast<Rule>(index % 7);
  bool erases = rule == delta || rule == eraseAfter || rule == eraseBefore;
  d.gates = random.pick({ATTN_GATES_NONE, ATTN_GATES_HEAD, ATTN_GATES_KEY,
                         erases ? ATTN_GATES_KEY : ATTN_GATES_VALUE});
  if (rule == logarithms && d.gates > ATTN_GATES_HEAD)
    d.gates = ATTN_GATES_HEAD;
  d.delta = rule == delta;
  d.erase = rule == eraseAfter    ? ATTN_ERASE_AFTER
            : rule == eraseBefore ? ATTN_ERASE_BEFORE
                                  : ATTN_ERASE_NONE;
  d.logWeight = rule == logarithms;
  d.weight = rule == weights || (rule == reads && random.chance(0.3));
  d.readBefore = rule != logarithms && random.chance(rule == reads ? 0.9 : 0.2);
  d.normalize = !erases && d.gates != ATTN_GATES_VALUE && random.chance(0.4);
  d.bonus = d.readBefore && !d.normalize && random.chance(0.5);
  d.whole = (rule == sums || rule == weights) && d.gates == ATTN_GATES_NONE &&
            !d.readBefore && random.chance(0.4);
  d.scale = random.chance(0.7);
  d.packed = random.chance(0.35);
  d.lengths = !d.packed && random.chance(0.25);
  d.l2norm = random.chance(erases ? 0.5 : 0.15);
  d.slots = random.chance(0.25);
  d.init = !d.slots && random.chance(0.6);
  d.final = !d.slots && random.chance(0.8);
  d.chunk = random.pick<int64_t>({0, 0, 0, 1, 16, 32, 64, 128});
  if (!erases && !d.packed && !d.whole && !d.slots && !d.logWeight &&
      random.chance(0.4))
    d.segments = random.pick<int64_t>({1, 2, 3, 8, 32});
  // Products of large rows say little of erases.
  if (!erases && random.chance(d.normalize ? 0.8 : 0.2))
    k.feature = features[random.range(0, 2)].name;
  d.valuesFirst = random.chance(0.3);
  if (!gpu)
    return k;
  // What GPUs have: above all steps.
  d.segments = 0;
  d.l2norm &= !d.normalize;
  d.tokens = !d.packed && random.chance(0.5);
  return k;
}

std::string fuzz::describe(const ScanKernel &k) {
  const AttnScanDesc &d = k.desc;
  static constexpr const char *gates[] = {"", " head", " key", " value"};
  static constexpr const char *erases[] = {"", " erase", " erase-before"};
  std::string text = std::string("scan: ") +
                     support::nameOf(static_cast<support::DType>(d.dtype)) +
                     " d=" + std::to_string(d.keyDim) + "/" +
                     std::to_string(d.valueDim) + gates[d.gates] +
                     erases[d.erase];
  for (auto [on, name] :
       std::initializer_list<std::pair<int32_t, const char *>>{
           {d.delta, "delta"},
           {d.weight, "weight"},
           {d.logWeight, "log_weight"},
           {d.readBefore, "read_before"},
           {d.bonus, "bonus"},
           {d.whole, "whole"},
           {d.normalize, "normalize"},
           {d.l2norm, "l2norm"},
           {d.scale, "scale"},
           {d.packed, "packed"},
           {d.lengths, "lengths"},
           {d.init, "init"},
           {d.final, "final"},
           {d.valuesFirst, "values_first"},
           {d.tokens == 1, "step"},
           {d.slots, "slots"}})
    if (on)
      text += std::string(" ") + name;
  if (d.segments)
    text += " segments=" + std::to_string(d.segments);
  if (d.chunk)
    text += " chunk=" + std::to_string(d.chunk);
  return text + (k.feature.empty() ? "" : " feature=" + k.feature);
}

AttnError *fuzz::compileScan(AttnContext *context, const ScanKernel &k,
                             const Options &options, AttnKernel **compiled) {
  AttnCompileOptions how;
  std::memset(&how, 0, sizeof(how));
  how.structSize = sizeof(how);
  how.noCache = 1;
  how.keepIr = options.printIr;
  if (!options.target.empty())
    how.target = options.target.c_str();
  else if (options.device)
    how.target = "cuda";
  AttnScanDesc desc = k.desc;
  desc.feature = textOf(k.feature);
  AttnError *error = attnCompileScan(context, &desc, &how, compiled);
  if (!error && options.printIr)
    if (const char *ir = attnKernelIr(*compiled, "input"))
      std::fputs(ir, stdout);
  return error;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

/// Tokens [begin, end) of a tensor that has some.
static Tensor slice(const Tensor &tensor, int axis, int64_t begin,
                    int64_t end) {
  if (axis < 0)
    return tensor;
  Tensor part = tensor;
  part.first += begin * part.strides[size_t(axis)];
  part.sizes[size_t(axis)] = end - begin;
  return part;
}

/// Runs the tokens up to each cut, from the state that those before have left.
static std::string runPieces(const AttnKernel *kernel,
                             const ScanInstance &instance,
                             const std::vector<ScanTensor> &inputs,
                             const std::vector<Tensor> &outputs, int threads,
                             Arena *arena) {
  std::vector<Tensor> states;
  int64_t begin = 0;
  for (size_t piece = 0; piece < instance.cuts.size(); ++piece) {
    int64_t end = instance.cuts[piece];
    bool isLast = piece + 1 == instance.cuts.size();
    std::vector<Tensor> in, out, left;
    size_t next = 0;
    for (const ScanTensor &input : inputs) {
      bool isInit = input.name.rfind("init_", 0) == 0;
      in.push_back(isInit && piece > 0
                       ? states[next++]
                       : slice(input.tensor, input.tokenAxis, begin, end));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (i > 0 && !isLast)
        left.push_back(cloneLayout(outputs[i]));
      out.push_back(i == 0 ? slice(outputs[0], instance.outputAxis, begin, end)
                    : isLast ? outputs[i]
                             : left.back());
    }
    if (std::string error = runOnce(kernel, in, out, threads, arena);
        !error.empty())
      return error;
    states = std::move(left);
    begin = end;
  }
  return "";
}

/// What is read one token off, the last one twice.
static Tensor shifted(const ScanTensor &input) {
  Tensor copy = cloneLayout(input.tensor);
  auto axis = static_cast<size_t>(input.tokenAxis);
  input.tensor.forEach([&](int64_t, int64_t n) {
    std::vector<int64_t> at(copy.sizes.size());
    for (size_t d = at.size(); d-- > 0; n /= copy.sizes[d])
      at[d] = n % copy.sizes[d];
    int64_t to = copy.at(at);
    at[axis] = std::min(at[axis] + 1, copy.sizes[axis] - 1);
    copy.set(to, input.tensor.get(input.tensor.at(at)));
  });
  return copy;
}

static std::string compareScan(const ScanInstance &instance, size_t index,
                               double &worstShare) {
  const ScanExpected &e = instance.expected[index];
  std::vector<double> got;
  e.tensor.forEach(
      [&](int64_t at, int64_t) { got.push_back(e.tensor.get(at)); });
  reference::Errors bounds;
  reference::Comparison c;
  // Few emulations mostly say enough; one may have been lucky.
  for (bool all : {false, true}) {
    bounds = reference::errorBars(e.exact, instance.emulatedErrors(index, all),
                                  e.tensor.dtype);
    c = reference::compare(got, e.exact, bounds, e.tensor.dtype);
    if (c.ok)
      break;
  }
  double bound =
      c.worst < 0 ? 0.0 : bounds.of(e.exact[static_cast<size_t>(c.worst)]);
  if (bound > 0)
    worstShare = std::max(worstShare, c.maxError / bound);
  if (c.ok)
    return "";
  char share[64] = "";
  if (c.maxError > bound && bound > 0)
    std::snprintf(share, sizeof(share), " (%.3g times the bound)",
                  c.maxError / bound);
  return e.name + ": " + c.message + share;
}

CaseResult fuzz::runScan(const AttnKernel *compiled, const ScanKernel &kernel,
                         const Options &options, int64_t index, Arena *arena) {
  CaseResult result;
  ScanInstance instance = makeScanInstance(kernel, options.seed, index);
  result.summary = instance.summary;
  auto failed = [&](std::string message) {
    result.message = std::move(message);
    return result;
  };
  std::vector<ScanTensor> inputs = instance.inputs;
  for (ScanTensor &input : inputs)
    if ((options.tamper == "keys" && input.name == "k") ||
        (options.tamper == "weights" && input.name == "decay"))
      input.tensor = shifted(input);
  std::vector<std::vector<char>> before;
  for (const ScanTensor &input : instance.inputs)
    before.push_back(bytesOf(input.tensor));
  std::string error =
      runPieces(compiled, instance, inputs, instance.outputs, 1, arena);
  if (!error.empty())
    return failed("run: " + error);
  std::vector<Tensor> given;
  for (const ScanTensor &input : instance.inputs)
    given.push_back(input.tensor);
  tamper(options.tamper, instance.outputs, given);
  auto isPool = [](const ScanTensor &input) {
    return input.name.rfind("pool_", 0) == 0;
  };
  std::vector<std::vector<char>> pools;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ScanTensor &input = instance.inputs[i];
    if (isPool(input))
      pools.push_back(bytesOf(input.tensor));
    else if (bytesOf(input.tensor) != before[i])
      return failed("changed input '" + input.name + "'");
  }
  for (const Tensor &output : instance.outputs)
    if (error = checkGuards(output); !error.empty())
      return failed(error);
  for (size_t i = 0; i < instance.expected.size(); ++i)
    if (error = compareScan(instance, i, result.worstShare); !error.empty())
      return failed(error);
  // The same bits again, with other threads and the pools as they were.
  auto restore = [&] {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (isPool(instance.inputs[i]))
        std::memcpy(instance.inputs[i].tensor.memory->data(), before[i].data(),
                    before[i].size());
  };
  restore();
  std::vector<Tensor> again;
  for (const Tensor &output : instance.outputs)
    again.push_back(cloneLayout(output));
  error = runPieces(compiled, instance, inputs, again, 2, arena);
  if (!error.empty())
    return failed("second run: " + error);
  if (options.tamper == "rerun" && again[0].numElements() > 0)
    again[0].memory->data()[again[0].first *
                            int64_t(support::sizeOf(again[0].dtype))] ^= 1;
  for (size_t i = 0; i < again.size(); ++i)
    if (bytesOf(again[i]) != bytesOf(instance.outputs[i]))
      return failed("output " + std::to_string(i) +
                    " has other bits with 2 threads");
  size_t next = 0;
  for (const ScanTensor &input : instance.inputs)
    if (isPool(input) && bytesOf(input.tensor) != pools[next++])
      return failed("'" + input.name + "' has other bits with 2 threads");
  // Nonsense for indices, which no kernel may follow out of its tensors: the
  // memory around them cannot be touched. Such offsets are refused.
  Random random(options.seed ^ 0x0FF5E75, static_cast<uint64_t>(index));
  if (!random.chance(0.3))
    return result;
  for (ScanTensor &input : inputs)
    if (input.name == "cu" || input.name == "slot" || input.name == "lengths") {
      input.tensor = cloneLayout(input.tensor);
      input.tensor.forEach([&](int64_t at, int64_t) {
        input.tensor.set(at,
                         double(random.pick<int64_t>({INT32_MIN, INT32_MAX, -1,
                                                      random.range(-500, 500),
                                                      random.range(0, 100)})));
      });
    }
  error = runPieces(compiled, instance, inputs, again, 1, arena);
  bool isRefused = error.find("expected 'cu'") != std::string::npos;
  return error.empty() || isRefused ? result : failed("wild offsets: " + error);
}
