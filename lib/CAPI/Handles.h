//===- Handles.h - What the handles of the C ABI hold -----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CAPI_HANDLES_H
#define ATTN_LIB_CAPI_HANDLES_H

#include "CallTable.h"
#include "attn-c/attn.h"
#include "attn/Compiler/Compiler.h"
#include "attn/Compiler/Descriptor.h"
#include "attn/Compiler/Invoke.h"
#include "attn/Support/Recent.h"
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>

struct AttnError {
  std::string message;
};

struct AttnContext {
  using Kernel = std::shared_ptr<const attn::CompiledKernel>;

  AttnContext();
  ~AttnContext();
  AttnContext(const AttnContext &) = delete;
  AttnContext &operator=(const AttnContext &) = delete;

  /// Compiled kernels by everything that went into them.
  attn::support::Recent<Kernel> cache{attn::CallTable::maxHost};
  attn::support::Recent<Kernel> deviceCache{attn::CallTable::maxDevice};
  std::mutex mutex;
  /// Those of attnAttention.
  attn::CallTable calls;
  /// Another number for each context, and for one whose kernels were let go.
  std::atomic<uint64_t> id;
};

struct AttnKernel {
  explicit AttnKernel(std::shared_ptr<const attn::CompiledKernel> compiled);

  std::shared_ptr<const attn::CompiledKernel> compiled;
  /// The names of dimensions as C arrays, by entry and argument.
  std::vector<std::vector<std::vector<const char *>>> dims;
};

inline AttnError *makeError(std::string message) {
  return new AttnError{std::move(message)};
}

/// Positions in texts are 32-bit numbers.
inline AttnError *checkTextLength(size_t length) {
  if (length <= INT32_MAX)
    return nullptr;
  return makeError("expected text of at most 2147483647 bytes, but got " +
                   std::to_string(length));
}

inline AttnError *checkPlace(AttnPlace place) {
  if (place == ATTN_PLACE_HOST || place == ATTN_PLACE_GPU)
    return nullptr;
  return makeError("expected place to be 0 or 1, but got " +
                   std::to_string(int(place)));
}

namespace attn {
/// A description of the C ABI, checked, in our types.
AttnError *readDescription(const AttnAttentionDesc &given,
                           AttentionDescriptor &result);
/// What options of the C ABI say, in our types.
AttnError *convertOptions(const AttnCompileOptions &given,
                          CompileOptions &options);
/// Compiles a description.
support::Result<AttnContext::Kernel>
compileDescription(const AttentionDescriptor &descriptor,
                   CompileOptions options);
/// The same, unless the context has it.
AttnError *compileCached(AttnContext *context, const AttnCompileOptions &given,
                         const AttentionDescriptor &descriptor,
                         AttnKernel **kernel);

/// Nothing for a number that is no AttnDType.
std::optional<support::DType> fromC(AttnDType dtype);

/// Tensors of a call, which lie on its stack.
using TensorList = support::InlineVector<TensorArg, 16>;
AttnError *convert(const AttnTensor *tensors, size_t count, TensorList &result);

/// Checks the tensors and runs a kernel on its target. `firstDevice`, `record`:
/// see invokeOnDevice.
AttnError *runKernel(const CompiledKernel &compiled, size_t entry,
                     TensorArgs inputs, TensorArgs outputs,
                     const AttnRunOptions &options,
                     std::optional<int> firstDevice = {},
                     cuda::LaunchRecord *record = nullptr);
} // namespace attn

/// Longer than any struct of this ABI will ever be: a size beyond it is not
/// set.
constexpr size_t kMaxStructSize = 1024;

/// Copies a struct that a caller built against another version: members that
/// it does not have are zero, and so must be those that we do not know.
template <typename T>
AttnError *readStruct(const T *given, const char *name, T &copy) {
  std::memset(&copy, 0, sizeof(T));
  if (!given)
    return nullptr;
  size_t size = given->structSize;
  auto fail = [&](const std::string &text) {
    return makeError(std::string("expected structSize of ") + name + " to be " +
                     text + ", but got " + std::to_string(size) +
                     "; set it to sizeof the struct");
  };
  if (size < sizeof(size_t))
    return fail("at least " + std::to_string(sizeof(size_t)));
  if (size > kMaxStructSize)
    return fail("at most " + std::to_string(kMaxStructSize));
  const char *bytes = reinterpret_cast<const char *>(given);
  for (size_t i = sizeof(T); i < size; ++i)
    if (bytes[i] != 0)
      return makeError(
          std::string("expected ") + name + " to be zero behind its first " +
          std::to_string(sizeof(T)) +
          " bytes, all that this version of the library knows, but got " +
          std::to_string(int(static_cast<unsigned char>(bytes[i]))) +
          " at byte " + std::to_string(i));
  std::memcpy(&copy, given, std::min(size, sizeof(T)));
  return nullptr;
}

#endif // ATTN_LIB_CAPI_HANDLES_H
