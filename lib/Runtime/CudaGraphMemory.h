//===- CudaGraphMemory.h - Memory that a graph keeps ------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Workspace and counters of runs that are captured into a graph. Memory of a
// pool would be a node of the graph where it begins and one where it ends, and
// counters one that clears them, for each run: these take time in every launch,
// clearing 2 us, and keep a graph from being cloned. Here the graph keeps the
// memory as long as it may be launched, and all runs that one stream has in it
// use the same, one after the other, as they run.
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

/// Bytes of the counters of one graph and stream, and of those of all.
constexpr size_t counterBytes = 64, allCounterBytes = 1024 * counterBytes;

/// The same for counters, which are zero when no run uses them: a piece of
/// `all`, which were zero at first.
GraphMemory getGraphCounters(const Driver &driver, CUcontext context,
                             CUstream stream, CUdeviceptr all);

} // namespace attn::cuda

#endif // ATTN_LIB_RUNTIME_CUDAGRAPHMEMORY_H
