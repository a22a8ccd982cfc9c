//===- Kernel.cpp - The C ABI with values and results ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernel.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace ::attn::run;
using namespace ::attn::support;

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

DType attn::run::fromC(AttnDType dtype) {
  return parseDType(attnDTypeName(dtype)).value_or(DType::f32);
}

AttnDType attn::run::toC(DType dtype) {
  for (int i = ATTN_F32; i <= ATTN_BOOL; ++i)
    if (fromC(AttnDType(i)) == dtype)
      return AttnDType(i);
  return ATTN_F32;
}

void attn::run::reportNoMemory() {
  std::fprintf(stderr, "attn-run: error: expected tensors that fit into "
                       "memory, but got larger ones\n");
  std::exit(1);
}

HostTensor HostTensor::zeros(DType dtype, std::vector<int64_t> shape,
                             const std::vector<int> &order) {
  HostTensor tensor;
  tensor.dtype = dtype;
  tensor.strides.resize(shape.size());
  int64_t stride = 1;
  bool fits = true;
  for (size_t i = shape.size(); i-- > 0;) {
    size_t dim = order.size() == shape.size() ? size_t(order[i]) : i;
    tensor.strides[dim] = stride;
    fits &= !__builtin_mul_overflow(stride, shape[dim], &stride);
  }
  // What malloc would refuse, and what would overflow on the way there.
  constexpr int64_t most = int64_t(1) << 46;
  if (!fits || stride > most)
    reportNoMemory();
  tensor.shape = std::move(shape);
  tensor.bytes.resize(tensor.size() * sizeOf(dtype));
  return tensor;
}

HostTensor HostTensor::fromNpy(NpyArray array) {
  HostTensor tensor = zeros(array.dtype, array.shape);
  tensor.bytes = std::move(array.bytes);
  return tensor;
}

HostTensor HostTensor::scalar(DType dtype, double value) {
  HostTensor tensor = zeros(dtype, {});
  storeElement(tensor.bytes.data(), dtype, 0, value);
  return tensor;
}

NpyArray HostTensor::toNpy() const {
  NpyArray array = NpyArray::zeros(dtype, shape);
  size_t width = sizeOf(dtype);
  char *to = array.bytes.data();
  forEach([&](int64_t offset) {
    std::memcpy(to, bytes.data() + offset * width, width);
    to += width;
  });
  return array;
}

int64_t HostTensor::size() const {
  int64_t size = 1;
  for (int64_t dim : shape)
    size *= dim;
  return size;
}

AttnTensor HostTensor::view() const {
  AttnTensor tensor;
  tensor.data = const_cast<char *>(bytes.data());
  tensor.dtype = toC(dtype);
  tensor.rank = int32_t(shape.size());
  tensor.shape = shape.data();
  tensor.strides = strides.data();
  return tensor;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Takes over an error of the C ABI.
static Status take(AttnError *error) {
  if (!error)
    return success();
  Failure failure{attnErrorMessage(error)};
  attnErrorDestroy(error);
  return failure;
}

/// One context serves the process.
static AttnContext *getContext() {
  static AttnContext *const context = [] {
    AttnContext *made = nullptr;
    attnErrorDestroy(attnContextCreate(&made));
    return made;
  }();
  return context;
}

Status Kernel::readArgs(const std::string &name) {
  if (!name.empty()) {
    int64_t found = attnKernelFindEntry(get(), name.c_str());
    if (found < 0) {
      std::string names;
      for (size_t i = 0; i < attnKernelNumEntries(get()); ++i)
        names += (i ? ", " : "") + std::string(attnKernelEntryName(get(), i));
      return Failure{"expected an entry out of " + names + ", but got '" +
                     name + "'"};
    }
    entry = size_t(found);
  }
  size_t numInputs = attnKernelNumInputs(get(), entry);
  size_t numArgs = numInputs + attnKernelNumOutputs(get(), entry);
  for (size_t i = 0; i < numArgs; ++i) {
    AttnArgInfo info;
    if (Status ok = take(attnKernelArg(get(), entry, i, &info)); !ok)
      return ok;
    ArgInfo arg{info.name, fromC(info.dtype), info.rank < 0, {}, {}};
    for (int32_t k = 0; k < info.rank; ++k) {
      arg.shape.push_back(info.shape[k]);
      arg.dims.push_back(info.dims[k]);
    }
    (i < numInputs ? inputs : outputs).push_back(std::move(arg));
  }
  return success();
}

Result<Kernel> Kernel::own(AttnKernel *raw, AttnError *error,
                           const AttnCompileOptions &options,
                           const std::string &entry) {
  if (Status ok = take(error); !ok)
    return ok.takeFailure();
  Kernel kernel;
  kernel.handle.reset(raw, attnKernelDestroy);
  if (!options.untilAfter)
    if (Status ok = kernel.readArgs(entry); !ok)
      return ok.takeFailure();
  return kernel;
}

Result<Kernel> Kernel::compile(const std::string &text,
                               const AttnCompileOptions &options,
                               const std::string &entry) {
  AttnKernel *raw = nullptr;
  AttnError *error =
      attnCompile(getContext(), text.data(), text.size(), &options, &raw);
  return own(raw, error, options, entry);
}

Result<Kernel> Kernel::compile(const AttnAttentionDesc &desc,
                               const AttnCompileOptions &options) {
  AttnKernel *raw = nullptr;
  AttnError *error = attnCompileAttention(getContext(), &desc, &options, &raw);
  return own(raw, error, options, "");
}

Result<Kernel> Kernel::compile(const AttnScanDesc &desc,
                               const AttnCompileOptions &options) {
  AttnKernel *raw = nullptr;
  AttnError *error = attnCompileScan(getContext(), &desc, &options, &raw);
  return own(raw, error, options, "");
}

Result<std::vector<Kernel>> Kernel::listEntries() const {
  std::vector<Kernel> entries(attnKernelNumEntries(get()));
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].handle = handle;
    if (Status ok = entries[i].readArgs(attnKernelEntryName(get(), i)); !ok)
      return ok.takeFailure();
  }
  return entries;
}

static std::vector<AttnTensor> views(const std::vector<HostTensor> &tensors) {
  std::vector<AttnTensor> result;
  for (const HostTensor &tensor : tensors)
    result.push_back(tensor.view());
  return result;
}

Result<std::vector<HostTensor>>
Kernel::makeOutputs(const std::vector<HostTensor> &given,
                    const std::vector<int> &order) const {
  std::vector<AttnTensor> ins = views(given);
  std::vector<HostTensor> result;
  for (size_t i = 0; i < outputs.size(); ++i) {
    int64_t shape[16];
    int32_t rank = 0;
    if (Status ok = take(attnKernelOutputShape(
            get(), entry, ins.data(), ins.size(), i, shape, 16, &rank));
        !ok)
      return ok.takeFailure();
    result.push_back(HostTensor::zeros(
        outputs[i].dtype, std::vector<int64_t>(shape, shape + rank), order));
  }
  return result;
}

Status Kernel::run(const std::vector<HostTensor> &given,
                   std::vector<HostTensor> &results,
                   std::string *counters) const {
  return run(views(given), views(results), counters);
}

Status Kernel::run(const std::vector<AttnTensor> &ins,
                   const std::vector<AttnTensor> &outs,
                   std::string *counters) const {
  AttnRunOptions options = {};
  options.structSize = sizeof(options);
  options.counters = [](const char *text, void *user) {
    *static_cast<std::string *>(user) = text;
  };
  options.countersUser = counters;
  return take(attnKernelRunOn(get(), entry, ins.data(), ins.size(), outs.data(),
                              outs.size(), counters ? &options : nullptr));
}
