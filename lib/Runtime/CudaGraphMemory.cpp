//===- CudaGraphMemory.cpp - Memory that a graph keeps --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaGraphMemory.h"
#include "CudaModule.h"

#include <algorithm>
#include <memory>
#include <mutex>

using namespace ::attn;
using namespace ::attn::cuda;

namespace {
/// Memory of one graph, or of none: it waits for the next then, for what tells
/// that a graph has gone may not call the driver.
struct Block {
  CUcontext context;
  /// What it is a piece of, or 0.
  CUdeviceptr all;
  GraphMemory memory;
  bool isKept = false;
  /// Who uses it: the capture, and the stream.
  unsigned long long capture = 0;
  CUstream stream = nullptr;
};
std::mutex mutex;
std::vector<std::unique_ptr<Block>> blocks;
} // namespace

static void letGo(void *block) {
  std::lock_guard<std::mutex> lock(mutex);
  static_cast<Block *>(block)->isKept = false;
}

/// New memory, or the next piece of `all`.
static GraphMemory makeMemory(const Driver &driver, CUdeviceptr all,
                              size_t bytes) {
  if (all) {
    size_t used = 0;
    for (auto &block : blocks)
      used += block->all == all ? block->memory.bytes : 0;
    return used + bytes <= allCounterBytes ? GraphMemory{all + used, bytes}
                                           : GraphMemory();
  }
  RelaxedCapture relaxed(driver);
  CUdeviceptr memory = 0;
  return driver.cuMemAlloc(&memory, bytes) ? GraphMemory()
                                           : GraphMemory{memory, bytes};
}

/// A block that no graph has and that is not much too large, or a new one.
static Block *findFree(const Driver &driver, CUcontext context, CUdeviceptr all,
                       size_t bytes) {
  constexpr size_t mostWaste = 4;
  for (auto &block : blocks)
    if (!block->isKept && block->context == context && block->all == all &&
        block->memory.bytes >= bytes &&
        block->memory.bytes <= mostWaste * bytes)
      return block.get();
  GraphMemory memory = makeMemory(driver, all, bytes);
  if (!memory.bytes)
    return nullptr;
  blocks.push_back(std::make_unique<Block>(Block{context, all, memory}));
  return blocks.back().get();
}

/// Whether `graph` keeps the block from now on.
static bool keep(const Driver &driver, CUgraph graph, Block *block) {
  CUuserObject object = nullptr;
  if (driver.cuUserObjectCreate(&object, block, letGo, 1,
                                CU_USER_OBJECT_NO_DESTRUCTOR_SYNC))
    return false;
  // Where the graph does not take the object, nobody lets go of the block.
  block->isKept = true;
  return !driver.cuGraphRetainUserObject(graph, object, 1,
                                         CU_GRAPH_USER_OBJECT_MOVE);
}

static GraphMemory getKept(const Driver &driver, CUcontext context,
                           CUstream stream, CUdeviceptr all, size_t bytes,
                           const std::vector<CUdeviceptr> &taken) {
  if (!driver.cuStreamGetCaptureInfo || !driver.cuUserObjectCreate ||
      !driver.cuGraphRetainUserObject)
    return {};
  int status = 0;
  unsigned long long capture = 0;
  CUgraph graph = nullptr;
  if (driver.cuStreamGetCaptureInfo(stream, &status, &capture, &graph, nullptr,
                                    nullptr) ||
      status != CU_STREAM_CAPTURE_STATUS_ACTIVE || !graph)
    return {};
  std::lock_guard<std::mutex> lock(mutex);
  for (auto &block : blocks)
    if (block->isKept && block->context == context && block->all == all &&
        block->capture == capture && block->stream == stream &&
        block->memory.bytes >= bytes &&
        std::find(taken.begin(), taken.end(), block->memory.memory) ==
            taken.end())
      return block->memory;
  Block *block = findFree(driver, context, all, bytes);
  if (!block || !keep(driver, graph, block))
    return {};
  block->capture = capture;
  block->stream = stream;
  return block->memory;
}

GraphMemory attn::cuda::getGraphMemory(const Driver &driver, CUcontext context,
                                       CUstream stream, size_t bytes,
                                       const std::vector<CUdeviceptr> &taken) {
  constexpr size_t granule = size_t(2) << 20;
  bytes = (bytes + granule - 1) / granule * granule;
  return getKept(driver, context, stream, /*all=*/0, bytes, taken);
}

GraphMemory attn::cuda::getGraphCounters(const Driver &driver,
                                         CUcontext context, CUstream stream,
                                         CUdeviceptr all) {
  return getKept(driver, context, stream, all, counterBytes, /*taken=*/{});
}
