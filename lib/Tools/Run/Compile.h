//===- Compile.h - Compile what the command line names ----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_RUN_COMPILE_H
#define ATTN_LIB_TOOLS_RUN_COMPILE_H

#include "Kernel.h"
#include "Options.h"

#include <string>

namespace attn::run {

support::Result<std::string> readFile(const std::string &path);

/// The text of --monoid, empty without one.
support::Result<std::string> readMonoid(const Options &options);

/// Compiles the file or the attention. `how` says for what target and how far.
support::Result<Kernel> compileProgram(const Options &options,
                                       AttnCompileOptions how);

} // namespace attn::run

#endif // ATTN_LIB_TOOLS_RUN_COMPILE_H
