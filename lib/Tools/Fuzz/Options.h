//===- Options.h - What attn-fuzz was asked for -----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_FUZZ_OPTIONS_H
#define ATTN_LIB_TOOLS_FUZZ_OPTIONS_H

#include "Kernel.h"

#include <cstdint>
#include <optional>
#include <string>

namespace attn::fuzz {

struct Options {
  int64_t cases = 200, kernels = 250, only = -1;
  /// 0: in this process; else processes beside each other.
  int64_t jobs = 0;
  uint64_t seed = 1;
  std::optional<Family> family;
  bool verbose = false, printIr = false, clean = false, compileOnly = false;
  /// Runs on the current GPU.
  bool device = false;
  std::string target, tamper;

  /// Kernels of a GPU that run on the emulator.
  bool emulates() const { return target.rfind("emulator", 0) == 0; }
  /// Kernels are drawn for a GPU.
  bool gpu() const {
    return device || emulates() || target.rfind("sm_", 0) == 0;
  }
};

/// The command that shows a case again.
std::string commandFor(const Options &options, int64_t index);

/// Ends the process where a command line is not understood, or asks for help.
Options parseOptions(int argc, char **argv);

[[noreturn]] void fail(const std::string &message);

} // namespace attn::fuzz

#endif // ATTN_LIB_TOOLS_FUZZ_OPTIONS_H
