//===- Invoke.cpp - Check arguments and run an entry ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Invoke.h"
#include "Checks.h"
#include "attn/Compiler/Overlap.h"
#include "attn/Emulator/Emulator.h"

#include <algorithm>
#include <optional>
#include <sstream>

using namespace ::attn;
using namespace ::attn::checks;
using namespace ::attn::support;

Sizes attn::denseStrides(const Sizes &shape) {
  Sizes strides;
  strides.resize(shape.size(), 1);
  // Sizes that no tensor has may overflow; they are refused later.
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = int64_t(uint64_t(strides[i]) *
                             uint64_t(std::max<int64_t>(shape[i], 1)));
  return strides;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

Result<DimSizes> attn::checkInputs(const EntryInfo &entry, TensorArgs inputs,
                                   bool readable) {
  SeenSizes seen;
  if (Status ok = checkAllInputs(entry, inputs, seen, readable); !ok)
    return ok.takeFailure();
  if (Status ok = addLargest(entry, seen); !ok)
    return ok.takeFailure();
  DimSizes sizes;
  for (const Seen &one : seen.get())
    sizes[*one.dim] = one.size;
  return sizes;
}

Result<std::vector<int64_t>> attn::getOutputShape(const EntryInfo &entry,
                                                  const DimSizes &sizes,
                                                  size_t index) {
  size_t number = entry.numInputs() + index;
  if (number >= entry.args.size())
    return fail("an output below " +
                    std::to_string(entry.args.size() - entry.numInputs()),
                std::to_string(index));
  const ArgInfo &info = entry.args[number];
  std::vector<int64_t> shape = info.shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] >= 0)
      continue;
    auto it = sizes.find(info.dims[i]);
    if (it == sizes.end())
      return fail("dimension " + std::to_string(i) + " of output " +
                      quote(info) + " to be that of an input",
                  "a size that only the code knows");
    shape[i] = it->second;
  }
  return shape;
}

/// An output, or an input that is written as one.
static std::string describeWritten(const ArgInfo &info) {
  return info.isOutput ? "output " + quote(info)
                       : "input " + quote(info) + ", which is written,";
}

/// What to say of an output that overlaps another argument, or may do so.
static Failure explainOverlap(const ArgInfo &info, const TensorArg &output,
                              const ArgInfo &otherInfo,
                              const TensorArg &other) {
  std::string name =
      (otherInfo.isOutput ? "output " : "input ") + quote(otherInfo);
  std::string expected = describeWritten(info) + " to have memory of its own";
  if (findOverlap(output, other) == Overlap::Unknown)
    return fail(expected, "strides from which it takes too long to tell that "
                          "it does not overlap " +
                              name + "; pass memory that lies apart");
  return fail(expected,
              (output.data == other.data ? "that of " : "some that overlaps ") +
                  name);
}

static Status checkOutput(const ArgInfo &info, const TensorArg &output) {
  if (isEmptyTensor(output))
    return success();
  for (size_t i = 0; i < output.shape.size(); ++i)
    if (output.strides[i] == 0 && output.shape[i] > 1)
      return fail(describeWritten(info) + " to have an element of its own "
                                          "at each position",
                  "stride 0 in dimension " + std::to_string(i));
  Overlap overlap = findSelfOverlap(output);
  if (overlap == Overlap::No)
    return success();
  return fail(
      describeWritten(info) + " to have an element of its own at each position",
      "strides " + printSizes(output.strides) + " for shape " +
          printSizes(output.shape) +
          (overlap == Overlap::Yes ? ", by which some overlap"
                                   : ", from which it takes too long to tell"));
}

static bool isEmpty(const Sizes &shape) {
  return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

namespace {
/// The bytes from the first to the last of a tensor that checkTensor has taken,
/// which fit in 64 bits.
struct Extent {
  explicit Extent(const TensorArg &tensor) : isEmpty(isEmptyTensor(tensor)) {
    if (isEmpty) // of which strides are anything
      return;
    first = last = reinterpret_cast<intptr_t>(tensor.data);
    auto bytes = int64_t(support::sizeOf(tensor.dtype));
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      int64_t reach = tensor.shape[i] > 1
                          ? (tensor.shape[i] - 1) * tensor.strides[i] * bytes
                          : 0;
      (reach < 0 ? first : last) += reach;
    }
    last += bytes - 1;
  }
  bool isApartFrom(const Extent &other) const {
    return isEmpty || other.isEmpty || last < other.first || other.last < first;
  }

  int64_t first = 0, last = 0;
  bool isEmpty;
};
} // namespace

/// Checks the inputs that are written against those that lie apart from them.
/// Others may share their memory: they are read later.
static Status checkWritten(const EntryInfo &entry, TensorArgs inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArgInfo &info = entry.args[i];
    if (!info.isWritten)
      continue;
    if (Status ok = checkOutput(info, inputs[i]); !ok)
      return ok;
    Extent extent(inputs[i]);
    for (size_t j = 0; j < inputs.size(); ++j) {
      const ArgInfo &other = entry.args[j];
      bool counts = other.isApart || (other.isWritten && j < i);
      if (counts && !extent.isApartFrom(Extent(inputs[j])) &&
          findOverlap(inputs[i], inputs[j]) != Overlap::No)
        return explainOverlap(info, inputs[i], other, inputs[j]);
    }
  }
  return success();
}

/// Checks that inputs which are columns of others are in their memory.
static Status checkColumns(const EntryInfo &entry, TensorArgs inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArgInfo &info = entry.args[i];
    if (info.columnsOf < 0 || size_t(info.columnsOf) >= inputs.size())
      continue;
    const TensorArg &part = inputs[i], &whole = inputs[info.columnsOf];
    bool isSame = part.shape.size() == whole.shape.size() &&
                  (part.data == whole.data || isEmptyTensor(part));
    for (size_t d = 0; isSame && d < part.shape.size(); ++d)
      isSame = d + 1 == part.shape.size()
                   ? part.shape[d] <= whole.shape[d]
                   : part.shape[d] <= 1 || part.strides[d] == whole.strides[d];
    if (!isSame)
      return fail(quote(info) + " to be the first columns of " +
                      quote(entry.args[info.columnsOf]) +
                      ", in its memory and with its strides",
                  "other memory");
  }
  return success();
}

/// Checks all that compiled code trusts.
static Status checkCall(const CompiledKernel &kernel, size_t entryIndex,
                        TensorArgs inputs, TensorArgs outputs, bool readable) {
  if (entryIndex >= kernel.entries.size())
    return fail("an entry below " + std::to_string(kernel.entries.size()),
                std::to_string(entryIndex));
  if (entryIndex >= kernel.code.size() || !kernel.code[entryIndex])
    return fail("a kernel compiled to the end for this machine",
                "one that stopped before");
  const EntryInfo &entry = kernel.entries[entryIndex];
  SeenSizes seen;
  if (Status ok = checkAllInputs(entry, inputs, seen, readable); !ok)
    return ok;
  if (Status ok = checkWritten(entry, inputs); !ok)
    return ok;
  if (Status ok = checkColumns(entry, inputs); !ok)
    return ok;
  if (Status ok = addLargest(entry, seen); !ok)
    return ok;
  size_t numInputs = inputs.size();
  if (outputs.size() != entry.args.size() - numInputs)
    return fail(std::to_string(entry.args.size() - numInputs) + " outputs (" +
                    listNames(entry, true) + ")",
                std::to_string(outputs.size()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ArgInfo &info = entry.args[numInputs + i];
    if (Status ok = checkTensor(info, outputs[i], seen); !ok)
      return ok;
    if (Status ok = checkOutput(info, outputs[i]); !ok)
      return ok;
    Extent extent(outputs[i]);
    auto check = [&](const TensorArg &other, size_t number) {
      return extent.isApartFrom(Extent(other)) ||
                     findOverlap(outputs[i], other) == Overlap::No
                 ? success()
                 : explainOverlap(info, outputs[i], entry.args[number], other);
    };
    for (size_t j = 0; j < numInputs; ++j)
      if (Status ok = check(inputs[j], j); !ok)
        return ok;
    for (size_t j = 0; j < i; ++j)
      if (Status ok = check(outputs[j], numInputs + j); !ok)
        return ok;
  }
  return success();
}

/// Zeros that stand for an empty tensor. Indices that a region computes are
/// clamped to the tensor, and this one has nothing to clamp to. Elements alone
/// are read of it where there are no pairs, and these are all the first one: of
/// long rows there are no more.
static size_t bytesOfZeros(const TensorArg &tensor) {
  constexpr int64_t longestRow = 1 << 24;
  return size_t(std::clamp<int64_t>(tensor.shape.back(), 1, longestRow)) *
         support::sizeOf(tensor.dtype);
}

namespace {
/// The records of attn/Runtime/Abi.h: data, sizes, strides.
class Records {
public:
  /// `deviceZeros`: what empty tensors point at; null: zeros of our own.
  Records(const EntryInfo &entry, TensorArgs inputs, TensorArgs outputs,
          void *deviceZeros = nullptr) {
    auto tensorOf = [&](size_t i) -> const TensorArg & {
      return i < inputs.size() ? inputs[i] : outputs[i - inputs.size()];
    };
    size_t words = 0;
    for (size_t i = 0; i < entry.args.size(); ++i)
      words += 1 + 2 * tensorOf(i).shape.size();
    // Pointers to records are handed out as they are made.
    records.reserve(words);
    args.reserve(entry.args.size());
    for (size_t i = 0; i < entry.args.size(); ++i) {
      const TensorArg &tensor = tensorOf(i);
      if (entry.args[i].isScalar) {
        args.push_back(tensor.data);
        continue;
      }
      void *data = tensor.data;
      if (i < inputs.size() && isEmpty(tensor.shape))
        data = deviceZeros ? deviceZeros
                           : zeros.emplace_back(bytesOfZeros(tensor)).data();
      args.push_back(records.end());
      records.push_back(reinterpret_cast<int64_t>(data));
      for (int64_t size : tensor.shape)
        records.push_back(size);
      for (int64_t stride : tensor.strides)
        records.push_back(data == tensor.data ? stride : 0);
    }
  }

  /// Where the elements of an argument's tensor are.
  void *dataOf(size_t i) const {
    return reinterpret_cast<void *>(*static_cast<const int64_t *>(args[i]));
  }

  InlineVector<void *, 24> args;

private:
  InlineVector<int64_t, 160> records;
  std::vector<std::vector<char>> zeros;
};
} // namespace

/// The memory of all tensors, outputs first.
static std::vector<emulator::Buffer> makeBuffers(const EntryInfo &entry,
                                                 TensorArgs inputs,
                                                 TensorArgs outputs,
                                                 const Records &records) {
  std::vector<emulator::Buffer> buffers;
  auto add = [&](size_t i, const TensorArg &tensor, bool isOutput) {
    const ArgInfo &info = entry.args[i];
    if (info.isScalar)
      return;
    auto bytes = int64_t(support::sizeOf(tensor.dtype));
    int64_t low = 0, high = bytes;
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      int64_t reach = (tensor.shape[d] - 1) * tensor.strides[d] * bytes;
      (reach < 0 ? low : high) +=
          std::max<int64_t>(tensor.shape[d], 1) > 1 ? reach : 0;
    }
    auto *data = static_cast<char *>(records.dataOf(i));
    if (isEmpty(tensor.shape)) {
      low = 0;
      high = int64_t(bytesOfZeros(tensor));
      if (isOutput)
        return;
    }
    buffers.push_back(
        {data + low, size_t(high - low), info.name, isOutput, info.isWritten});
  };
  for (size_t i = 0; i < outputs.size(); ++i)
    add(inputs.size() + i, outputs[i], true);
  // What is written comes first: others may be in its memory.
  for (bool isWritten : {true, false})
    for (size_t i = 0; i < inputs.size(); ++i)
      if (entry.args[i].isWritten == isWritten)
        add(i, inputs[i], false);
  return buffers;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

Status attn::invoke(const CompiledKernel &kernel, size_t entryIndex,
                    TensorArgs inputs, TensorArgs outputs,
                    const AttnRuntime &runtime, std::string *counters) {
  if (kernel.device)
    return fail("a kernel for the CPU", "one for '" + kernel.target + "'");
  Status checked = checkCall(kernel, entryIndex, inputs, outputs,
                             !kernel.emulated || emulator::readsIndices());
  if (!checked)
    return checked;
  const EntryInfo &entry = kernel.entries[entryIndex];
  Records records(entry, inputs, outputs);
  if (kernel.emulated) {
    auto schedules = emulator::readSchedules();
    if (!schedules)
      return schedules.takeFailure();
    return emulator::run(
        *kernel.emulated, kernel.code[entryIndex], records.args.data(),
        makeBuffers(entry, inputs, outputs, records), *schedules,
        /*observer=*/nullptr, counters);
  }
  int32_t status = kernel.code[entryIndex](records.args.data(), &runtime);
  if (status & ATTN_RUNTIME_STOPPED)
    return Failure{"interrupted: the run was stopped on request, and its "
                   "outputs hold anything"};
  if (status != ATTN_RUNTIME_OK)
    return Failure{"out of memory: the kernel's workspace or scratch could "
                   "not be allocated"};
  return success();
}

/// Finds the one device that all tensors are on; -1 where none has memory.
static Result<int> findDevice(const EntryInfo &entry, TensorArgs inputs,
                              TensorArgs outputs,
                              std::optional<int> firstDevice) {
  int device = -1;
  std::string first;
  for (size_t i = 0; i < entry.args.size(); ++i) {
    const ArgInfo &info = entry.args[i];
    const TensorArg &tensor =
        i < inputs.size() ? inputs[i] : outputs[i - inputs.size()];
    if (isEmpty(tensor.shape))
      continue;
    auto place = i == 0 && firstDevice ? Result<int>(*firstDevice)
                                       : cuda::deviceOf(tensor.data);
    if (!place)
      return place.takeFailure();
    auto nameOf = [](int device) {
      return device < 0 ? std::string("the host")
                        : "GPU " + std::to_string(device);
    };
    if (info.isScalar ? *place >= 0 : *place < 0)
      return fail(quote(info) + " in memory of " +
                      (info.isScalar ? "the host" : "the GPU"),
                  "memory of " + nameOf(*place));
    if (info.isScalar)
      continue;
    if (device >= 0 && *place != device)
      return fail(quote(info) + " on " + nameOf(device) + ", where '" + first +
                      "' is",
                  nameOf(*place));
    if (device < 0)
      first = info.name;
    device = *place;
  }
  return device;
}

Status attn::invokeOnDevice(const CompiledKernel &kernel, size_t entryIndex,
                            TensorArgs inputs, TensorArgs outputs, void *stream,
                            std::optional<int> firstDevice,
                            cuda::LaunchRecord *record) {
  if (!kernel.device)
    return fail("a kernel for a GPU", "one for '" + kernel.target + "'");
  Status checked =
      checkCall(kernel, entryIndex, inputs, outputs, /*readable=*/false);
  if (!checked)
    return checked;
  const EntryInfo &entry = kernel.entries[entryIndex];
  auto device = findDevice(entry, inputs, outputs, firstDevice);
  if (!device)
    return device.takeFailure();
  void *zeros = nullptr;
  for (const TensorArg &input : inputs)
    if (isEmpty(input.shape) && !zeros) {
      auto memory = cuda::getZeros(*device);
      if (!memory)
        return memory.takeFailure();
      zeros = *memory;
    }
  Records records(entry, inputs, outputs, zeros);
  return cuda::run(*kernel.program, kernel.code[entryIndex],
                   records.args.data(), {*device, stream}, record);
}

//===----------------------------------------------------------------------===//
// Running elsewhere
//===----------------------------------------------------------------------===//

std::unique_ptr<const CheckedCall>
CheckedCall::make(const std::shared_ptr<const CompiledKernel> &kernel,
                  size_t entryIndex, TensorArgs inputs, TensorArgs outputs,
                  int device) {
  const EntryInfo &entry = kernel->entries[entryIndex];
  auto call = std::make_unique<CheckedCall>();
  call->kernel = kernel;
  call->entry = entryIndex;
  call->numInputs = inputs.size();
  call->device = device;
  for (size_t i = 0; i < entry.args.size(); ++i) {
    bool isInput = i < inputs.size();
    const TensorArg &tensor = isInput ? inputs[i] : outputs[i - inputs.size()];
    const ArgInfo &info = entry.args[i];
    if ((isInput && (info.isWritten || info.columnsOf >= 0)) ||
        isEmptyTensor(tensor))
      return nullptr;
    Extent extent(tensor);
    auto data = reinterpret_cast<int64_t>(tensor.data);
    call->args.push_back({call->records.size(), extent.first - data,
                          extent.last - data, info.isScalar});
    if (info.isScalar)
      continue;
    call->records.push_back(0); // for the address
    for (const Sizes &words : {tensor.shape, tensor.strides})
      call->records.insert(call->records.end(), words.begin(), words.end());
  }
  return call;
}

std::optional<Status> CheckedCall::run(const uint64_t *data, void *stream,
                                       cuda::LaunchRecord *record) const {
  std::shared_ptr<const CompiledKernel> held = kernel.lock();
  if (!held)
    return std::nullopt;
  for (size_t i = 0; i < args.size(); ++i) {
    auto place = cuda::deviceOf(reinterpret_cast<const void *>(data[i]));
    if (!place || *place != (args[i].isScalar ? -1 : device))
      return std::nullopt;
    for (size_t j = 0; i >= numInputs && j < i; ++j)
      if (int64_t(data[i]) + args[i].last >= int64_t(data[j]) + args[j].first &&
          int64_t(data[j]) + args[j].last >= int64_t(data[i]) + args[i].first)
        return std::nullopt;
  }
  InlineVector<int64_t, 160> words;
  InlineVector<void *, 24> pointers;
  words.reserve(records.size()); // pointers to them are handed out
  pointers.reserve(args.size());
  std::memcpy(words.data(), records.data(), records.size() * sizeof(int64_t));
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].isScalar) {
      pointers.push_back(reinterpret_cast<void *>(data[i]));
      continue;
    }
    words.data()[args[i].record] = int64_t(data[i]);
    pointers.push_back(words.data() + args[i].record);
  }
  return cuda::run(*held->program, held->code[entry], pointers.data(),
                   {device, stream}, record);
}
