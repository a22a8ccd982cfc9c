//===- Check.h - Comparing a run with what it means -------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_RUN_CHECK_H
#define ATTN_LIB_TOOLS_RUN_CHECK_H

#include "Kernel.h"
#include "attn/Reference/Attention.h"

#include <functional>
#include <optional>

namespace attn::run {

/// Says how far a long computation is.
using Progress = std::function<void(const std::string &)>;

/// What is known of the outputs of a run, each dense and in C order.
struct Meaning {
  using Outputs = std::vector<std::vector<double>>;

  /// Empty: the reference does not compute that output.
  std::vector<std::optional<std::vector<double>>> exact;
  /// The size of what each output is made of: see reference::isDecisive.
  std::vector<double> scales;
  /// The first emulation, and how it and others are computed. An output that
  /// the reference does not compute may be empty.
  reference::Emulation emulation;
  std::function<support::Result<Outputs>(const reference::Emulation &)> emulate;
  /// Whether it knows of `operands`, or they make no difference.
  bool hasOperands = false;
};

/// A line for each output, or why one of them is wrong or cannot be told from
/// wrong ones (docs/Testing.md). One emulation mostly says enough; the others
/// are asked before an output is called wrong.
support::Result<std::string>
checkOutputs(const Meaning &meaning, const Kernel &kernel,
             const std::vector<HostTensor> &outputs, const Progress &progress);

/// Checks against what a text means, as the interpreter has it.
support::Result<std::string>
checkText(const std::string &text, const std::string &entry,
          const Kernel &kernel, const std::vector<HostTensor> &inputs,
          const std::vector<HostTensor> &outputs, const Progress &progress);

} // namespace attn::run

#endif // ATTN_LIB_TOOLS_RUN_CHECK_H
