//===- Check.h - Comparing a run with what its text means -------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_RUN_CHECK_H
#define ATTN_LIB_TOOLS_RUN_CHECK_H

#include "Kernel.h"

namespace attn::run {

/// Compares the outputs of a run of function `entry` of `text` with what the
/// interpreter makes of it: any monoid, score function and mask. Returns a line
/// for each output, or why one of them is wrong.
support::Result<std::string> checkText(const std::string &text,
                                       const std::string &entry,
                                       const Kernel &kernel,
                                       const std::vector<HostTensor> &inputs,
                                       const std::vector<HostTensor> &outputs);

} // namespace attn::run

#endif // ATTN_LIB_TOOLS_RUN_CHECK_H
