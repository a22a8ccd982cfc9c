//===- AttnParserFuzzer.cpp - libFuzzer on the parser and the pipeline ----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Any bytes must end in a kernel or in an error. Built with ATTN_FUZZERS; run
// it with a directory of programs: attn-parser-fuzzer -max_len=8192 corpus
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Compiler.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  attn::CompileOptions options;
  // All phases that are ours; LLVM's code generator is not.
  options.untilAfter = attn::Phase::LLVM;
  options.target = "cpu-avx2";
  auto kernel = attn::compile(
      std::string_view(reinterpret_cast<const char *>(data), size), options);
  if (!kernel && kernel.error().empty())
    __builtin_trap(); // an error without a message
  return 0;
}
