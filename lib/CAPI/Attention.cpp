//===- Attention.cpp - Attention in one call of the C ABI -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A call is described by numbers: those of its description, the class of its
// sizes (attn/Analysis/SizeClass.h) and its target. They are the key of its
// kernel.
//===----------------------------------------------------------------------===//

#include "Handles.h"
#include "RecentCalls.h"
#include "Sharing.h"
#include "attn/Analysis/SizeClass.h"
#include "attn/Target/TargetInfo.h"

#include <algorithm>
#include <string_view>

using namespace ::attn;
using support::Result;

//===----------------------------------------------------------------------===//
// Targets
//===----------------------------------------------------------------------===//

namespace {
/// A target that calls have run on, and its number in their keys.
struct CallTarget {
  int64_t number;
  std::string name;
  TargetInfo info;
};
} // namespace

/// Targets are few, and stay.
static Result<const CallTarget *> findTarget(const std::string &name) {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<CallTarget>> targets;
  std::lock_guard<std::mutex> lock(mutex);
  for (const std::unique_ptr<CallTarget> &target : targets)
    if (target->name == name)
      return target.get();
  // Of the emulator, the schedule is that of the GPU.
  std::string gpu = name;
  if (name.rfind("emulator", 0) == 0)
    gpu = name.size() > 9 ? name.substr(9) : "sm_90a";
  std::optional<TargetInfo> info = TargetInfo::get(gpu);
  if (!info) {
    std::string known = "cuda";
    for (const std::string &other : TargetInfo::names())
      known += ", " + other;
    return support::Failure{"expected a target out of " + known +
                            ", but got '" + name + "'"};
  }
  int64_t number = int64_t(targets.size());
  targets.push_back(
      std::make_unique<CallTarget>(CallTarget{number, name, *info}));
  return targets.back().get();
}

static const CallTarget *getHost() {
  static const CallTarget *host = *findTarget(TargetInfo::host().name);
  return host;
}

/// The target of the GPU that the first tensor is on, or of the current one
/// where it has no memory there, which is said later. `place`: where its memory
/// is.
static Result<const CallTarget *> getGpu(TensorArgs tensors,
                                         std::optional<int> &place) {
  Result<int> device = -1;
  if (tensors.size() && tensors[0].data) {
    device = cuda::deviceOf(tensors[0].data);
    if (!device)
      return device.takeFailure();
    place = *device;
  }
  if (*device < 0)
    device = cuda::currentDevice();
  if (!device)
    return device.takeFailure();
  constexpr int maxDevices = 64;
  static std::array<std::atomic<const CallTarget *>, maxDevices> known;
  size_t slot = size_t(*device) % maxDevices;
  if (*device < maxDevices)
    if (const CallTarget *target = known[slot].load(std::memory_order_acquire))
      return target;
  auto info = cuda::getDevice(*device);
  if (!info)
    return info.takeFailure();
  std::string name = info->target();
  if (name.empty())
    return support::Failure{
        "expected a GPU of compute capability 8.0 or later, but got '" +
        info->name + "' with " + std::to_string(info->major) + "." +
        std::to_string(info->minor)};
  auto target = findTarget(name);
  if (target && *device < maxDevices)
    known[slot].store(*target, std::memory_order_release);
  return target;
}

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

/// Whether the sizes that the schedule is chosen for are left to us.
static bool asksForClass(const AttnAttentionDesc &d) {
  return !d.schedule && !d.expectedKeyHeads &&
         std::all_of(d.expectedSizes, d.expectedSizes + 4,
                     [](int64_t size) { return size == 0; });
}

/// The sizes of packed queries: of the sequences, their mean number of rows is
/// known. Few rows in the mean take tiles of few rows, which a long sequence
/// among many short ones takes a number of; that was measured on CPUs alone.
static ExpectedSizes classOfPacked(const AttnAttentionDesc &d,
                                   TensorArgs inputs,
                                   const SizeProblem &problem,
                                   const TargetInfo &target) {
  size_t offsets = 3;
  for (bool has :
       {d.scale != 0, d.softcap != 0, d.bias != 0, d.mask != 0, d.alibi != 0,
        d.sinks != 0, d.lengths != 0, d.window != 0, d.window != 0})
    offsets += has;
  if (!target.isCpu() || inputs.size() <= offsets ||
      inputs[0].shape.size() != 3 || inputs[offsets].shape.size() != 1)
    return {};
  RunSizes sizes;
  int64_t rows = inputs[0].shape[1];
  sizes.batches = inputs[offsets].shape[0] - 1;
  sizes.heads = inputs[0].shape[0];
  sizes.headsAbut = false;
  if (sizes.batches < 1 || rows < 0 || rows > INT32_MAX)
    return {};
  sizes.rows = (rows + sizes.batches - 1) / sizes.batches;
  return chooseSizeClass(problem, sizes, target);
}

/// The sizes that the schedule of a call is chosen for. Tensors that do not fit
/// the description are refused later.
static ExpectedSizes classOf(const AttnAttentionDesc &d, TensorArgs inputs,
                             const TargetInfo &target) {
  if (!asksForClass(d))
    return {d.expectedSizes[0], d.expectedSizes[1], d.expectedSizes[2],
            d.expectedSizes[3], d.expectedKeyHeads};
  SizeProblem problem;
  problem.depth = d.headDim;
  problem.channels = d.valueDim ? d.valueDim : d.headDim;
  problem.isPlain = d.causal == ATTN_CAUSAL_NONE && !d.scale && !d.softcap &&
                    !d.window && !d.lengths && !d.bias && !d.mask && !d.alibi &&
                    !d.scoreMod && !d.maskMod && !d.blockMask && !d.dropout &&
                    !d.rotaryDim;
  problem.isNarrow = d.dtype == ATTN_BF16 || d.dtype == ATTN_F16;
  problem.valuesInKeys = d.valueInKey;
  if (d.packed)
    return classOfPacked(d, inputs, problem, target);
  if (inputs.size() < 2 || inputs[0].shape.size() != 4 ||
      inputs[1].shape.size() != 4)
    return {};
  const TensorArg &q = inputs[0], &k = inputs[1];
  // Of its inputs no other one has the type of a block table.
  const TensorArg *table = nullptr;
  if (d.blockTable) {
    table = std::find_if(inputs.begin(), inputs.end(), [](const TensorArg &t) {
      return t.dtype == support::DType::i32 && t.shape.size() == 2;
    });
    if (table == inputs.end())
      return {};
  }
  for (const TensorArg *tensor : {&q, &k, table ? table : &k})
    for (int64_t size : tensor->shape)
      if (size < 0 || size > INT32_MAX)
        return {};
  RunSizes sizes;
  sizes.batches = q.shape[0];
  sizes.heads = q.shape[1];
  sizes.keyHeads = k.shape[1];
  sizes.rows = q.shape[2];
  // A sequence has as many as its row of the table has room for.
  sizes.keys = k.shape[2] * (table ? table->shape[1] : 1);
  sizes.headsAbut =
      q.shape[2] <= 1 || q.strides[1] == q.shape[2] * q.strides[2];
  return chooseSizeClass(problem, sizes, target);
}

static std::string_view getText(const char *text, const char *implied) {
  return !text || std::strcmp(text, implied) == 0 ? std::string_view() : text;
}

static CallKey makeKey(const AttnAttentionDesc &d, const ExpectedSizes &sizes,
                       const CallTarget &target) {
  CallKey key;
  auto pair = [](int32_t high, int32_t low) {
    return int64_t(uint64_t(uint32_t(high)) << 32 | uint32_t(low));
  };
  int32_t flags = 0;
  for (int32_t given :
       {d.scale, d.softcap, d.window, d.sinks, d.lengths, d.packed, d.kStart,
        d.rolling, d.batchInvariant, d.append, d.valueInKey, d.dropout,
        int32_t(d.append == 2)})
    flags = 2 * flags + (given != 0);
  key.words = {
      pair(d.dtype, d.biasDType),
      pair(d.causal, d.precision),
      pair(d.bias, d.mask),
      pair(d.alibi, d.numOutputs ? d.numOutputs : 1),
      d.headDim,
      d.valueDim ? d.valueDim : d.headDim,
      pair(d.blockTable, flags),
      target.number,
      d.blockMask,
      d.blockMask ? d.blockRows : 0,
      d.blockMask ? d.blockKeys : 0,
      d.rotaryDim,
      pair(d.rotaryInterleaved != 0, 2 * d.cascade + (d.rotaryBySlot != 0))};
  constexpr size_t numNamed = 13;
  static_assert(CallKey::numWords >=
                numNamed + std::tuple_size_v<ExpectedSizes>);
  std::copy(sizes.begin(), sizes.end(), key.words.begin() + numNamed);
  key.monoid = getText(d.monoid, "softmax");
  key.schedule = getText(d.schedule, "");
  key.score = getText(d.scoreMod, "");
  key.mask = getText(d.maskMod, "");
  return key;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// Compiles what a key stands for.
static Result<CallTable::Kernel> compile(const AttnAttentionDesc &d,
                                         const ExpectedSizes &sizes,
                                         const CallTarget &target) {
  AttentionDescriptor full;
  if (AttnError *error = readDescription(d, full)) {
    support::Failure failure{std::move(error->message)};
    attnErrorDestroy(error);
    return failure;
  }
  full.expectedSizes = sizes;
  CompileOptions options;
  options.target = target.name;
  return compileDescription(full, options);
}

/// A call of which nothing is known. `image`: what is kept of it, or null.
/// `record`: where its launches are noted, or null.
static AttnError *runCall(AttnContext *context, const AttnAttentionDesc *desc,
                          const AttnTensor *inputs, size_t numInputs,
                          const AttnTensor *outputs, size_t numOutputs,
                          const AttnRunOptions *options, const CallImage *image,
                          cuda::LaunchRecord *record) {
  AttnRunOptions how;
  if (AttnError *error = readStruct(options, "AttnRunOptions", how))
    return error;
  AttnAttentionDesc d;
  if (AttnError *error = readStruct(desc, "AttnAttentionDesc", d))
    return error;
  if (AttnError *error = checkPlace(how.place))
    return error;
  TensorList ins, outs;
  if (AttnError *error = convert(inputs, numInputs, ins))
    return error;
  if (AttnError *error = convert(outputs, numOutputs, outs))
    return error;
  const CallTarget *target = nullptr;
  std::optional<int> place;
  if (how.place == ATTN_PLACE_HOST) {
    target = getHost();
  } else {
    auto found = getGpu(ins, place);
    if (!found)
      return makeError(found.error());
    target = *found;
  }
  chooseCascade(d, ins, target->info,
                /*readable=*/how.place == ATTN_PLACE_HOST);
  ExpectedSizes sizes = classOf(d, ins, target->info);
  CallKey key = makeKey(d, sizes, *target);
  CallTable::Kernel kernel = context->calls.find(key);
  if (!kernel) {
    auto compiled =
        context->calls.get(key, [&] { return compile(d, sizes, *target); });
    if (!compiled)
      return makeError(compiled.error());
    kernel = *compiled;
  }
  AttnError *error =
      runKernel(*kernel, /*entry=*/0, ins, outs, how, place, record);
  if (!error && image && place)
    RecentCalls::ofThread().keepChecked(*image, kernel, ins, outs, *place);
  return error;
}

/// Whether values are a view of the first columns of the keys, and fewer, as
/// multi-head latent attention (MLA) has them.
static bool areColumns(const AttnTensor &v, const AttnTensor &k) {
  if (v.data != k.data || !v.data || v.dtype != k.dtype || v.rank != k.rank ||
      v.rank < 1 || v.rank > 4 || !v.shape || !v.strides || !k.shape ||
      !k.strides)
    return false;
  size_t last = v.rank - 1;
  return v.shape[last] < k.shape[last] &&
         std::equal(v.shape, v.shape + last, k.shape) &&
         std::equal(v.strides, v.strides + v.rank, k.strides);
}

/// Whether a description that says nothing of it has such values. Where rows
/// are appended or turned, keys and values are two of each.
static bool hasValuesInKeys(const AttnAttentionDesc &d,
                            const AttnTensor *inputs, size_t numInputs) {
  return numInputs > 2 && inputs && d.structSize == sizeof(d) &&
         !d.valueInKey && !d.append && !d.rotaryDim &&
         areColumns(inputs[2], inputs[1]);
}

AttnError *attnAttention(AttnContext *context, const AttnAttentionDesc *desc,
                         const AttnTensor *inputs, size_t numInputs,
                         const AttnTensor *outputs, size_t numOutputs,
                         const AttnRunOptions *options) {
  if (!context || !desc)
    return makeError("expected a context and a description, but got null");
  AttnAttentionDesc latent;
  if (hasValuesInKeys(*desc, inputs, numInputs)) {
    latent = *desc;
    latent.valueInKey = 1;
    desc = &latent;
  }
  CallImage image;
  if (!image.take(*context, *desc, inputs, numInputs, outputs, numOutputs,
                  options))
    return runCall(context, desc, inputs, numInputs, outputs, numOutputs,
                   options, /*image=*/nullptr, /*record=*/nullptr);
  RecentCalls &recent = RecentCalls::ofThread();
  if (std::optional<support::Status> status = recent.replay(image))
    return *status ? nullptr : makeError(status->error());
  std::unique_ptr<cuda::LaunchRecord> record = recent.startRecord(image);
  AttnError *error = nullptr;
  if (auto status = recent.runChecked(image, record.get()))
    error = *status ? nullptr : makeError(status->error());
  else
    error = runCall(context, desc, inputs, numInputs, outputs, numOutputs,
                    options, &image, record.get());
  if (!error && record)
    recent.keep(image, std::move(record));
  return error;
}

/// Whether options say nothing but the target.
static bool isPlain(const AttnCompileOptions &how) {
  return !how.startFrom && !how.untilAfter && !how.dumpPhasesTo &&
         !how.sourceName && !how.keepIr && !how.objectOnly && !how.noCache &&
         !how.name;
}

AttnError *attnAttentionKernel(AttnContext *context,
                               const AttnAttentionDesc *desc,
                               const AttnTensor *inputs, size_t numInputs,
                               const AttnCompileOptions *options,
                               AttnKernel **kernel) {
  if (!context || !desc || !kernel)
    return makeError("expected a context, a description and a place for the "
                     "kernel, but got null");
  AttnAttentionDesc d;
  if (AttnError *error = readStruct(desc, "AttnAttentionDesc", d))
    return error;
  AttnCompileOptions how;
  if (AttnError *error = readStruct(options, "AttnCompileOptions", how))
    return error;
  TensorList ins;
  if (AttnError *error = convert(inputs, numInputs, ins))
    return error;
  auto name = resolveTarget(how.target ? how.target : "host");
  if (!name)
    return makeError(name.error());
  auto target = findTarget(*name == "host" ? getHost()->name : *name);
  if (!target)
    return makeError(target.error());
  chooseCascade(d, ins, (*target)->info, /*readable=*/false);
  ExpectedSizes sizes = classOf(d, ins, (*target)->info);
  if (!isPlain(how)) {
    AttentionDescriptor full;
    if (AttnError *error = readDescription(d, full))
      return error;
    full.expectedSizes = sizes;
    if (how.name)
      full.name = how.name;
    how.target = (*target)->name.c_str();
    return compileCached(context, how, full, kernel);
  }
  auto compiled = context->calls.get(
      makeKey(d, sizes, **target), [&] { return compile(d, sizes, **target); });
  if (!compiled)
    return makeError(compiled.error());
  *kernel = new AttnKernel(*compiled);
  return nullptr;
}
