//===- Arena.h - A case's tensors in a GPU's memory -------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_FUZZ_ARENA_H
#define ATTN_LIB_TOOLS_FUZZ_ARENA_H

#include "Memory.h"
#include "attn-c/attn.h"
#include "attn/Runtime/Cuda.h"

#include <string>
#include <vector>

namespace attn::fuzz {

AttnTensor toAbi(const Tensor &tensor);

/// Takes the message of an error, or nothing where there is none.
std::string takeMessage(AttnError *error);

/// One piece of a GPU's memory, in which the tensors of a case lie between
/// bands of bytes that are a NaN in every float type.
class Arena {
public:
  /// Runs the kernel on copies of the tensors, whole memories and not elements
  /// alone, and brings the outputs back. Returns what went wrong, a byte
  /// written outside the outputs included.
  std::string run(const AttnKernel *kernel, const std::vector<Tensor> &inputs,
                  const std::vector<Tensor> &outputs);

private:
  cuda::Buffer memory;
};

} // namespace attn::fuzz

#endif // ATTN_LIB_TOOLS_FUZZ_ARENA_H
