//===- Kernel.cpp - Asking and running kernels in the C ABI ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Handles.h"
#include "attn/Compiler/Invoke.h"
#include "attn/Interpreter/Evaluate.h"
#include "attn/Reference/Attention.h"
#include "attn/Runtime/ThreadPool.h"

#include <new>
#include <stdexcept>

using namespace ::attn;
using support::DType;

AttnKernel::AttnKernel(std::shared_ptr<const CompiledKernel> given)
    : compiled(std::move(given)) {
  for (const EntryInfo &entry : compiled->entries) {
    auto &entryDims = dims.emplace_back();
    for (const ArgInfo &arg : entry.args) {
      auto &argDims = entryDims.emplace_back();
      for (const std::string &dim : arg.dims)
        argDims.push_back(dim.c_str());
    }
  }
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

static constexpr struct {
  AttnDType c;
  DType cpp;
} dtypeTable[] = {{ATTN_F32, DType::f32},   {ATTN_F16, DType::f16},
                  {ATTN_BF16, DType::bf16}, {ATTN_F64, DType::f64},
                  {ATTN_I8, DType::i8},     {ATTN_I16, DType::i16},
                  {ATTN_I32, DType::i32},   {ATTN_I64, DType::i64},
                  {ATTN_U8, DType::u8},     {ATTN_BOOL, DType::boolean}};

static AttnDType toC(DType dtype) {
  for (auto [c, cpp] : dtypeTable)
    if (cpp == dtype)
      return c;
  return ATTN_F32;
}

std::optional<DType> attn::fromC(AttnDType dtype) {
  for (auto [c, cpp] : dtypeTable)
    if (c == dtype)
      return cpp;
  return std::nullopt;
}

const char *attnDTypeName(AttnDType dtype) {
  std::optional<DType> found = fromC(dtype);
  return found ? support::nameOf(*found) : nullptr;
}

//===----------------------------------------------------------------------===//
// Asking
//===----------------------------------------------------------------------===//

size_t attnKernelNumEntries(const AttnKernel *kernel) {
  return kernel ? kernel->compiled->entries.size() : 0;
}

static const EntryInfo *getEntry(const AttnKernel *kernel, size_t entry) {
  return entry < attnKernelNumEntries(kernel)
             ? &kernel->compiled->entries[entry]
             : nullptr;
}

const char *attnKernelEntryName(const AttnKernel *kernel, size_t entry) {
  const EntryInfo *info = getEntry(kernel, entry);
  return info ? info->name.c_str() : nullptr;
}

int64_t attnKernelFindEntry(const AttnKernel *kernel, const char *name) {
  for (size_t i = 0; name && i < attnKernelNumEntries(kernel); ++i)
    if (kernel->compiled->entries[i].name == name)
      return int64_t(i);
  return -1;
}

size_t attnKernelNumInputs(const AttnKernel *kernel, size_t entry) {
  const EntryInfo *info = getEntry(kernel, entry);
  return info ? info->numInputs() : 0;
}

size_t attnKernelNumOutputs(const AttnKernel *kernel, size_t entry) {
  const EntryInfo *info = getEntry(kernel, entry);
  return info ? info->args.size() - info->numInputs() : 0;
}

/// The entry, or an error that says which there are.
static AttnError *checkEntry(const AttnKernel *kernel, size_t entry,
                             const EntryInfo *&info) {
  info = getEntry(kernel, entry);
  if (info)
    return nullptr;
  if (!kernel)
    return makeError("expected a kernel, but got null");
  return makeError("expected an entry below " +
                   std::to_string(attnKernelNumEntries(kernel)) + ", but got " +
                   std::to_string(entry));
}

AttnError *attnKernelArg(const AttnKernel *kernel, size_t entry, size_t index,
                         AttnArgInfo *result) {
  const EntryInfo *info;
  if (AttnError *error = checkEntry(kernel, entry, info))
    return error;
  if (!result)
    return makeError("expected a place for the description, but got null");
  if (index >= info->args.size())
    return makeError("expected an argument below " +
                     std::to_string(info->args.size()) + ", but got " +
                     std::to_string(index));
  const ArgInfo &arg = info->args[index];
  result->name = arg.name.c_str();
  result->dtype = toC(arg.dtype);
  result->rank = arg.isScalar ? -1 : int32_t(arg.shape.size());
  bool hasDims = result->rank > 0;
  result->shape = hasDims ? arg.shape.data() : nullptr;
  result->dims = hasDims ? kernel->dims[entry][index].data() : nullptr;
  return nullptr;
}

int32_t attnKernelArgIsWritten(const AttnKernel *kernel, size_t entry,
                               size_t index) {
  const EntryInfo *info;
  if (AttnError *error = checkEntry(kernel, entry, info)) {
    attnErrorDestroy(error);
    return 0;
  }
  return index < info->args.size() && info->args[index].isWritten;
}

const char *attnKernelTarget(const AttnKernel *kernel) {
  return kernel ? kernel->compiled->target.c_str() : nullptr;
}

const char *attnKernelExplain(const AttnKernel *kernel) {
  return kernel ? kernel->compiled->explanation.c_str() : nullptr;
}

const char *attnKernelIr(const AttnKernel *kernel, const char *phase) {
  if (!kernel)
    return nullptr;
  const CompiledKernel &compiled = *kernel->compiled;
  if (!phase)
    return compiled.ir.empty() ? nullptr : compiled.ir.c_str();
  for (const PhaseText &text : compiled.phases)
    if (text.name == phase)
      return text.text.c_str();
  return nullptr;
}

const void *attnKernelObject(const AttnKernel *kernel, size_t *size) {
  if (size)
    *size = kernel ? kernel->compiled->object.size() : 0;
  return kernel && !kernel->compiled->object.empty()
             ? kernel->compiled->object.data()
             : nullptr;
}

static const cuda::DeviceCode *getDeviceCode(const AttnKernel *kernel) {
  return kernel ? kernel->compiled->device.get() : nullptr;
}

const char *attnKernelPtx(const AttnKernel *kernel) {
  const cuda::DeviceCode *code = getDeviceCode(kernel);
  return code ? code->ptx.c_str() : nullptr;
}

const void *attnKernelCubin(const AttnKernel *kernel, size_t *size) {
  const cuda::DeviceCode *code = getDeviceCode(kernel);
  if (size)
    *size = code ? code->cubin.size() : 0;
  return code && !code->cubin.empty() ? code->cubin.data() : nullptr;
}

size_t attnKernelNumDeviceKernels(const AttnKernel *kernel) {
  const cuda::DeviceCode *code = getDeviceCode(kernel);
  return code ? code->kernels.size() : 0;
}

AttnError *attnKernelDeviceKernel(const AttnKernel *kernel, size_t index,
                                  AttnDeviceKernel *result) {
  if (!result)
    return makeError("expected a place for the description, but got null");
  if (index >= attnKernelNumDeviceKernels(kernel))
    return makeError("expected a kernel of the GPU below " +
                     std::to_string(attnKernelNumDeviceKernels(kernel)) +
                     ", but got " + std::to_string(index));
  const cuda::KernelInfo &info = getDeviceCode(kernel)->kernels[index];
  result->name = info.name.c_str();
  result->threads = int32_t(info.threads);
  result->persistent = info.persistent;
  result->sharedBytes = info.sharedBytes;
  return nullptr;
}

size_t attnKernelNumTimes(const AttnKernel *kernel) {
  return kernel ? kernel->compiled->times.size() : 0;
}
const char *attnKernelTimeName(const AttnKernel *kernel, size_t index) {
  return index < attnKernelNumTimes(kernel)
             ? kernel->compiled->times[index].name.c_str()
             : nullptr;
}
double attnKernelTimeMs(const AttnKernel *kernel, size_t index) {
  return index < attnKernelNumTimes(kernel) ? kernel->compiled->times[index].ms
                                            : 0.0;
}

AttnError *attnKernelRecordSchedule(const AttnKernel *kernel, double ms) {
  if (!kernel)
    return makeError("expected a kernel, but got null");
  auto ok = recordSchedule(*kernel->compiled, ms);
  return ok ? nullptr : makeError(ok.error());
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

/// Ranks above this are wrong numbers, not tensors.
static constexpr int32_t kMaxRank = int32_t(support::Sizes::maxRank);

AttnError *attn::convert(const AttnTensor *tensors, size_t count,
                         TensorList &result) {
  if (!tensors && count)
    return makeError("expected tensors, but got null");
  for (size_t i = 0; i < count; ++i) {
    const AttnTensor &tensor = tensors[i];
    std::optional<DType> dtype = fromC(tensor.dtype);
    if (!dtype)
      return makeError("expected a dtype between 0 and 9, but got " +
                       std::to_string(int(tensor.dtype)));
    if (tensor.rank < 0 || tensor.rank > kMaxRank ||
        (tensor.rank > 0 && !tensor.shape))
      return makeError("expected a shape and a rank between 0 and " +
                       std::to_string(kMaxRank) + ", but got rank " +
                       std::to_string(tensor.rank));
    TensorArg &arg = result.append();
    arg.data = tensor.data;
    arg.dtype = *dtype;
    arg.shape.assign(tensor.shape, tensor.shape + tensor.rank);
    if (tensor.strides)
      arg.strides.assign(tensor.strides, tensor.strides + tensor.rank);
    else
      arg.strides = denseStrides(arg.shape);
  }
  return nullptr;
}

AttnError *attnKernelOutputShape(const AttnKernel *kernel, size_t entry,
                                 const AttnTensor *inputs, size_t numInputs,
                                 size_t output, int64_t *shape,
                                 int32_t capacity, int32_t *rank) {
  const EntryInfo *info;
  if (AttnError *error = checkEntry(kernel, entry, info))
    return error;
  TensorList args;
  if (AttnError *error = convert(inputs, numInputs, args))
    return error;
  auto sizes = checkInputs(*info, args, /*readable=*/!getDeviceCode(kernel));
  if (!sizes)
    return makeError(sizes.error());
  auto result = getOutputShape(*info, *sizes, output);
  if (!result)
    return makeError(result.error());
  if (!rank || !shape || int32_t(result->size()) > capacity)
    return makeError("expected room for " + std::to_string(result->size()) +
                     " sizes, but got " + std::to_string(capacity));
  *rank = int32_t(result->size());
  std::copy(result->begin(), result->end(), shape);
  return nullptr;
}

AttnError *attn::runKernel(const CompiledKernel &compiled, size_t entry,
                           TensorArgs inputs, TensorArgs outputs,
                           const AttnRunOptions &options,
                           std::optional<int> firstDevice,
                           cuda::LaunchRecord *record) {
  if (compiled.device) {
    auto status = invokeOnDevice(compiled, entry, inputs, outputs,
                                 options.stream, firstDevice, record);
    return status ? nullptr : makeError(status.error());
  }
  AttnRuntime runtime = defaultRuntime();
  std::optional<Interrupt> interrupt;
  if (options.interrupt)
    runtime.user = &interrupt.emplace(options.interrupt, options.interruptUser);
  std::string counters;
  CompiledKernel::Traffic *traffic = compiled.traffic.get();
  if (traffic)
    traffic->loaded = traffic->stored = traffic->workspace = 0;
  auto status = invoke(compiled, entry, inputs, outputs, runtime,
                       options.counters ? &counters : nullptr);
  if (traffic)
    counters = "loaded_bytes " + std::to_string(traffic->loaded) +
               "\nstored_bytes " + std::to_string(traffic->stored) +
               "\nworkspace_bytes " + std::to_string(traffic->workspace) + "\n";
  if (status && options.counters && (compiled.emulated || traffic))
    options.counters(counters.c_str(), options.countersUser);
  return status ? nullptr : makeError(status.error());
}

AttnError *attnKernelRun(const AttnKernel *kernel, size_t entry,
                         const AttnTensor *inputs, size_t numInputs,
                         const AttnTensor *outputs, size_t numOutputs) {
  return attnKernelRunOn(kernel, entry, inputs, numInputs, outputs, numOutputs,
                         nullptr);
}

AttnError *attnKernelRunOn(const AttnKernel *kernel, size_t entry,
                           const AttnTensor *inputs, size_t numInputs,
                           const AttnTensor *outputs, size_t numOutputs,
                           const AttnRunOptions *given) {
  AttnRunOptions options;
  if (AttnError *error = readStruct(given, "AttnRunOptions", options))
    return error;
  const EntryInfo *info;
  if (AttnError *error = checkEntry(kernel, entry, info))
    return error;
  TensorList ins, outs;
  if (AttnError *error = convert(inputs, numInputs, ins))
    return error;
  if (AttnError *error = convert(outputs, numOutputs, outs))
    return error;
  return runKernel(*kernel->compiled, entry, ins, outs, options);
}

AttnError *attnKernelLoad(const AttnKernel *kernel, int32_t device) {
  if (!kernel)
    return makeError("expected a kernel, but got null");
  if (!kernel->compiled->device)
    return nullptr;
  if (!kernel->compiled->program)
    return makeError("expected a kernel compiled to the end, but got one that "
                     "stopped before");
  support::Status status = kernel->compiled->program->load(device);
  return status ? nullptr : makeError(status.error());
}

static ReferenceValue toReference(const TensorArg &tensor) {
  ReferenceValue value{tensor.shape.toVector(), {}};
  value.data.reserve(value.size());
  std::vector<int64_t> index(tensor.shape.size(), 0);
  for (int64_t n = value.size(); n > 0; --n) {
    int64_t offset = 0;
    for (size_t i = 0; i < index.size(); ++i)
      offset += index[i] * tensor.strides[i];
    value.data.push_back(
        support::loadElement(tensor.data, tensor.dtype, offset));
    for (size_t i = index.size(); i-- > 0 && ++index[i] == tensor.shape[i];)
      index[i] = 0;
  }
  return value;
}

/// What is read and written without a kernel's description of it. `name`:
/// "input 0".
static AttnError *checkMemory(const std::string &name,
                              const TensorArg &tensor) {
  auto fail = [&](const std::string &expected, const std::string &got) {
    return makeError("expected " + name + " " + expected + ", but got " + got);
  };
  bool isEmpty = false;
  int64_t elements = 1;
  for (int64_t size : tensor.shape) {
    if (size < 0 || size > INT32_MAX)
      return fail("to have sizes between 0 and 2147483647",
                  std::to_string(size));
    isEmpty |= size == 0;
    // Results may have rows where an empty input has none of its elements.
    elements *= std::max<int64_t>(size, 1);
    if (elements > int64_t(1) << 32)
      return fail("to have at most 4294967296 positions", "more");
  }
  if (!isEmpty && !tensor.data)
    return fail("to have data", "a null pointer");
  return nullptr;
}

static AttnError *evaluate(std::string_view text, const char *entry,
                           TensorArgs ins, TensorArgs outs,
                           const ReferenceOptions &options) {
  std::vector<ReferenceValue> arguments;
  for (const TensorArg &in : ins)
    arguments.push_back(toReference(in));
  auto results = evaluateText(text, entry ? entry : "", arguments, options);
  if (!results)
    return makeError(results.error());
  if (results->size() != outs.size())
    return makeError("expected " + std::to_string(results->size()) +
                     " outputs, but got " + std::to_string(outs.size()));
  for (size_t i = 0; i < outs.size(); ++i) {
    const ReferenceValue &result = (*results)[i];
    if (outs[i].dtype != DType::f64 || outs[i].shape != result.shape ||
        outs[i].strides != denseStrides(result.shape))
      return makeError("expected output " + std::to_string(i) +
                       " to be dense, of f64 and of the result's shape");
    std::copy(result.data.begin(), result.data.end(),
              static_cast<double *>(outs[i].data));
  }
  return nullptr;
}

AttnError *attnMaskTiles(const char *text, size_t length, const char *entry,
                         const AttnTensor *inputs, size_t numInputs,
                         const AttnMaskTilesOptions *given,
                         void (*function)(void *, const AttnMaskTiles *),
                         void *user) {
  AttnMaskTilesOptions how;
  if (AttnError *error = readStruct(given, "AttnMaskTilesOptions", how))
    return error;
  if (!text || !function)
    return makeError("expected text and a function, but got null");
  if (how.tileRows < 0 || how.tileKeys < 0)
    return makeError(
        "expected tiles of at least one row and one key, or 0, but "
        "got " +
        std::to_string(std::min(how.tileRows, how.tileKeys)));
  TensorList ins;
  if (AttnError *error = convert(inputs, numInputs, ins))
    return error;
  std::vector<ReferenceValue> arguments;
  for (size_t i = 0; i < ins.size(); ++i) {
    if (AttnError *error = checkMemory("input " + std::to_string(i), ins[i]))
      return error;
    arguments.push_back(toReference(ins[i]));
  }
  ReferenceOptions options;
  // No row is evaluated.
  options.rowStride = INT64_MAX;
  options.rowOffset = -1;
  options.tileRows = how.tileRows ? how.tileRows : 128;
  options.tileKeys = how.tileKeys ? how.tileKeys : 128;
  options.readElements = !how.onlyAnalysis;
  options.maskTiles = [&](const MaskTiles &tiles) {
    AttnMaskTiles told = {tiles.reduction, tiles.batch,
                          tiles.head,      tiles.rows,
                          tiles.keys,      tiles.queryTiles,
                          tiles.keyTiles,  tiles.classes.data()};
    function(user, &told);
  };
  auto results = evaluateText(std::string_view(text, length),
                              entry ? entry : "", arguments, options);
  return results ? nullptr : makeError(results.error());
}

AttnError *attnEvaluate(const char *text, size_t length, const char *entry,
                        const AttnTensor *inputs, size_t numInputs,
                        const AttnTensor *outputs, size_t numOutputs,
                        AttnRounding rounding) {
  AttnEvaluateOptions options = {};
  options.structSize = sizeof(options);
  options.rounding = rounding;
  return attnEvaluateWith(text, length, entry, inputs, numInputs, outputs,
                          numOutputs, &options);
}

AttnError *attnEvaluateWith(const char *text, size_t length, const char *entry,
                            const AttnTensor *inputs, size_t numInputs,
                            const AttnTensor *outputs, size_t numOutputs,
                            const AttnEvaluateOptions *given) {
  AttnEvaluateOptions how;
  if (AttnError *error = readStruct(given, "AttnEvaluateOptions", how))
    return error;
  if (!text)
    return makeError("expected text, but got null");
  if (AttnError *error = checkTextLength(length))
    return error;
  if (how.rounding < ATTN_EXACT || how.rounding > ATTN_ROUND_BF16)
    return makeError("expected a rounding between 0 and 3, but got " +
                     std::to_string(int(how.rounding)));
  if (how.order < 0 || how.order >= reference::numOrders)
    return makeError("expected an order between 0 and " +
                     std::to_string(reference::numOrders - 1) + ", but got " +
                     std::to_string(how.order));
  TensorList ins, outs;
  if (AttnError *error = convert(inputs, numInputs, ins))
    return error;
  if (AttnError *error = convert(outputs, numOutputs, outs))
    return error;
  for (size_t i = 0; i < ins.size(); ++i)
    if (AttnError *error = checkMemory("input " + std::to_string(i), ins[i]))
      return error;
  for (size_t i = 0; i < outs.size(); ++i)
    if (AttnError *error = checkMemory("output " + std::to_string(i), outs[i]))
      return error;
  ReferenceOptions options;
  options.rounding = static_cast<ReferenceOptions::Rounding>(how.rounding);
  options.order = how.order;
  if (how.tile > 0)
    options.tile = how.tile;
  options.wideScores = how.wideScores;
  if (how.progress)
    options.progress = [&](int64_t row, int64_t count) {
      how.progress(how.progressUser, row, count);
    };
  // Whole tensors become vectors of doubles: their sizes are the caller's, and
  // so are those of results, which no input needs to have elements for.
  try {
    return evaluate(std::string_view(text, length), entry, ins, outs, options);
  } catch (const std::bad_alloc &) {
  } catch (const std::length_error &) {
  }
  return makeError("out of memory: the function's tensors as doubles could not "
                   "be allocated");
}

/// DLPack's type codes and device types.
enum { DLInt = 0, DLUInt = 1, DLFloat = 2, DLBfloat = 4, DLBool = 6 };
enum { DLCPU = 1, DLCUDA = 2, DLCUDAHost = 3, DLCUDAManaged = 13 };

static AttnError *convert(const AttnDLTensor &tensor, bool onDevice,
                          AttnTensor &result) {
  int32_t device = tensor.device.deviceType;
  bool isHost = device == DLCPU || device == DLCUDAHost;
  bool isDevice = device == DLCUDA || device == DLCUDAManaged;
  // Of a kernel for a GPU, scalars are on the host.
  if (onDevice && tensor.ndim > 0 ? !isDevice : !isHost)
    return makeError(
        std::string("expected a tensor in ") +
        (onDevice && tensor.ndim > 0 ? "memory of the GPU" : "host memory") +
        ", but got DLPack device type " + std::to_string(device));
  int code = tensor.dtype.code, bits = tensor.dtype.bits;
  auto is = [&](int wantCode, int wantBits) {
    return code == wantCode && bits == wantBits && tensor.dtype.lanes == 1;
  };
  if (is(DLFloat, 32))
    result.dtype = ATTN_F32;
  else if (is(DLFloat, 16))
    result.dtype = ATTN_F16;
  else if (is(DLBfloat, 16))
    result.dtype = ATTN_BF16;
  else if (is(DLFloat, 64))
    result.dtype = ATTN_F64;
  else if (is(DLInt, 8))
    result.dtype = ATTN_I8;
  else if (is(DLInt, 16))
    result.dtype = ATTN_I16;
  else if (is(DLInt, 32))
    result.dtype = ATTN_I32;
  else if (is(DLInt, 64))
    result.dtype = ATTN_I64;
  else if (is(DLUInt, 8))
    result.dtype = ATTN_U8;
  else if (is(DLBool, 8))
    result.dtype = ATTN_BOOL;
  else
    return makeError(
        "expected a DLPack type of one lane out of f16, f32, "
        "f64, bf16, i8, i16, i32, i64, u8 and bool, but got code " +
        std::to_string(code) + " with " + std::to_string(bits) + " bits and " +
        std::to_string(tensor.dtype.lanes) + " lanes");
  result.data = tensor.data
                    ? static_cast<char *>(tensor.data) + tensor.byteOffset
                    : nullptr;
  result.rank = tensor.ndim;
  result.shape = tensor.shape;
  result.strides = tensor.strides;
  return nullptr;
}

static AttnError *convert(const AttnDLTensor *const *tensors, size_t count,
                          bool onDevice, std::vector<AttnTensor> &result) {
  for (size_t i = 0; i < count; ++i) {
    AttnTensor tensor = {};
    if (!tensors || !tensors[i])
      return makeError("expected tensors, but got null");
    if (AttnError *error = convert(*tensors[i], onDevice, tensor))
      return error;
    result.push_back(tensor);
  }
  return nullptr;
}

AttnError *attnKernelRunDLPack(const AttnKernel *kernel, size_t entry,
                               const AttnDLTensor *const *inputs,
                               size_t numInputs,
                               const AttnDLTensor *const *outputs,
                               size_t numOutputs) {
  return attnKernelRunDLPackOn(kernel, entry, inputs, numInputs, outputs,
                               numOutputs, nullptr);
}

AttnError *attnKernelRunDLPackOn(const AttnKernel *kernel, size_t entry,
                                 const AttnDLTensor *const *inputs,
                                 size_t numInputs,
                                 const AttnDLTensor *const *outputs,
                                 size_t numOutputs,
                                 const AttnRunOptions *options) {
  bool onDevice = getDeviceCode(kernel) != nullptr;
  std::vector<AttnTensor> ins, outs;
  if (AttnError *error = convert(inputs, numInputs, onDevice, ins))
    return error;
  if (AttnError *error = convert(outputs, numOutputs, onDevice, outs))
    return error;
  return attnKernelRunOn(kernel, entry, ins.data(), ins.size(), outs.data(),
                         outs.size(), options);
}
