//===- Differentiate.h - Text of the functions for training -----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_COMPILER_DIFFERENTIATE_H
#define ATTN_COMPILER_DIFFERENTIATE_H

#include "attn/Compiler/Descriptor.h"

namespace attn {

/// The module of `text` with @f_forward and @f_backward in the place of each
/// function @f (attn-differentiate). `inputs` names the arguments to
/// differentiate, "q, k, v"; empty: all floats.
support::Result<std::string> differentiate(const std::string &text,
                                           const std::string &inputs,
                                           const std::string &sourceName);

/// The same of a description.
support::Result<std::string>
differentiate(const AttentionDescriptor &descriptor, const std::string &inputs);

} // namespace attn

#endif // ATTN_COMPILER_DIFFERENTIATE_H
