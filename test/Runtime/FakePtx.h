//===- FakePtx.h - What a driver must know of PTX ---------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels of a module, their parameters and the clusters they require, read
// for FakeCuda.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_RUNTIME_FAKEPTX_H
#define ATTN_TEST_RUNTIME_FAKEPTX_H

#include <cctype>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

struct Kernel {
  std::string name;
  /// Bytes of each parameter.
  std::vector<size_t> parameters;
  int shared = 48 << 10;
  /// Blocks of a cluster, as the PTX requires; 0: it says nothing.
  int cluster = 0;
};
struct Module {
  std::map<std::string, Kernel> kernels;
};

/// The size of a type in PTX, as in ".b64".
inline size_t sizeOfType(const std::string &type) {
  size_t digits = type.find_first_of("0123456789");
  return digits == std::string::npos
             ? 0
             : size_t(std::atoi(type.c_str() + digits)) / 8;
}

/// Kernels and parameters of PTX: ".entry name(.param .align 64 .b8 p[128],
/// .param .u64 q)".
inline void parsePtx(const std::string &ptx, Module &module) {
  size_t at = 0;
  while ((at = ptx.find(".entry ", at)) != std::string::npos) {
    at += 7;
    size_t open = ptx.find('(', at), close = ptx.find("\n)", at);
    if (open == std::string::npos || close == std::string::npos)
      return;
    Kernel kernel;
    kernel.name = ptx.substr(at, open - at);
    while (!kernel.name.empty() &&
           std::isspace((unsigned char)kernel.name.back()))
      kernel.name.pop_back();
    std::string list = ptx.substr(open + 1, close - open - 1);
    size_t p = 0;
    while ((p = list.find(".param", p)) != std::string::npos) {
      size_t end = list.find(',', p);
      std::string one = list.substr(p + 6, end - p - 6);
      size_t bytes = 0, bracket = one.find('[');
      for (const char *type :
           {".b64", ".u64", ".s64", ".f64", ".b32", ".u32", ".s32", ".f32",
            ".b16", ".u16", ".s16", ".f16", ".b8", ".u8", ".s8"})
        if (one.find(std::string(type) + " ") != std::string::npos) {
          bytes = sizeOfType(type);
          break;
        }
      if (bracket != std::string::npos)
        bytes *= size_t(std::atoi(one.c_str() + bracket + 1));
      kernel.parameters.push_back(bytes);
      p += 6;
    }
    // What stands between the parameters and the body.
    std::string directives = ptx.substr(close, ptx.find('{', close) - close);
    const std::string required = ".reqnctapercluster ";
    if (size_t at = directives.find(required); at != std::string::npos)
      kernel.cluster = std::atoi(directives.c_str() + at + required.size());
    module.kernels[kernel.name] = kernel;
  }
}

#endif // ATTN_TEST_RUNTIME_FAKEPTX_H
