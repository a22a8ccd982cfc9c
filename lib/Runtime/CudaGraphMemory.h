//===- CudaGraphMemory.h - Memory that a graph keeps ------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Workspace of runs that are captured into a graph. Memory of a pool would be a
// node of the graph where it begins and one where it ends, for each run; and
// these take time in every launch, and keep a graph from being cloned. Here the
// graph keeps the memory as long as it may be launched, and all runs that one
// stream has in it use the same, one after the other, as they run.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_RUNTIME_CUDAGRAPHMEMORY_H
#define ATTN_LIB_RUNTIME_CUDAGRAPHMEMORY_H

#include "CudaDriver.h"
#include <vector>

namespace attn::cuda {

struct GraphMemory {
  CUdeviceptr memory = 0;
  size_t bytes = 0;
};

/// At least `bytes` for what `stream`, which is being captured, runs next;
/// other than `taken`. Of no bytes where no graph is being captured, or where
/// the driver cannot say which, or has no more memory.
GraphMemory getGraphMemory(const Driver &driver, CUcontext context,
                           CUstream stream, size_t bytes,
                           const std::vector<CUdeviceptr> &taken);

} // namespace attn::cuda

#endif // ATTN_LIB_RUNTIME_CUDAGRAPHMEMORY_H
