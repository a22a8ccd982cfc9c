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
#include <cstring>
#include <mutex>
#include <optional>
#include <unordered_map>

struct AttnError {
  std::string message;
};

struct AttnContext {
  using Kernel = std::shared_ptr<const attn::CompiledKernel>;
  /// Compiled kernels by everything that went into them.
  std::unordered_map<std::string, Kernel> cache;
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

/// Nothing for a number that is no AttnDType.
namespace attn {
std::optional<support::DType> fromC(AttnDType dtype);
} // namespace attn

/// Copies a struct that a caller built against another version: members that
/// it does not have are zero, members that we do not know are an error.
template <typename T>
AttnError *readStruct(const T *given, const char *name, T &copy) {
  std::memset(&copy, 0, sizeof(T));
  if (!given)
    return nullptr;
  size_t size = given->structSize;
  if (size < sizeof(size_t) || size > sizeof(T))
    return makeError(std::string("expected structSize of ") + name +
                     " to be at most " + std::to_string(sizeof(T)) +
                     ", but got " + std::to_string(size) +
                     "; set it to sizeof the struct");
  std::memcpy(&copy, given, size);
  return nullptr;
}

#endif // ATTN_LIB_CAPI_HANDLES_H
