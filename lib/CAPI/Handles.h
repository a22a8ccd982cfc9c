//===- Handles.h - What the handles of the C ABI hold -----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CAPI_HANDLES_H
#define ATTN_LIB_CAPI_HANDLES_H

#include "attn-c/attn.h"
#include "attn/Compiler/Compiler.h"
#include "attn/Support/Recent.h"
#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

struct AttnError {
  std::string message;
};

struct AttnContext {
  using Kernel = std::shared_ptr<const attn::CompiledKernel>;
  /// More kernels than most programs have. Each takes 0.1 MB and more, and two
  /// mappings, of which a process may have 65,530.
  static constexpr size_t kMaxCached = 256;
  /// What was loaded onto a GPU stays there, so that compiling it again would
  /// take more memory and not less.
  static constexpr size_t kMaxDeviceCached = 4096;

  /// Compiled kernels by everything that went into them.
  attn::support::Recent<Kernel> cache{kMaxCached};
  attn::support::Recent<Kernel> deviceCache{kMaxDeviceCached};
  std::mutex mutex;
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

/// Nothing for a number that is no AttnDType.
namespace attn {
std::optional<support::DType> fromC(AttnDType dtype);
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
