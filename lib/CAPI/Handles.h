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
#include <mutex>
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

#endif // ATTN_LIB_CAPI_HANDLES_H
