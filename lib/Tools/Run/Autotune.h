//===- Autotune.h - Search for a schedule on the device ---------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_RUN_AUTOTUNE_H
#define ATTN_LIB_TOOLS_RUN_AUTOTUNE_H

#include "Kernel.h"
#include "Options.h"

#include <functional>
#include <string>
#include <vector>

namespace attn::run {

/// Compiles the schedules that are near the kernel's own, in parallel, times
/// each that the target has room for and that computes the same, and records
/// the fastest. Prints a line for each.
support::Status
autotune(const Options &options, AttnCompileOptions how, const Kernel &kernel,
         const std::vector<HostTensor> &inputs,
         const std::vector<HostTensor> &outputs, double flops,
         const std::function<void(const std::string &)> &progress);

} // namespace attn::run

#endif // ATTN_LIB_TOOLS_RUN_AUTOTUNE_H
