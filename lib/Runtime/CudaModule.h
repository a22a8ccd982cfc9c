//===- CudaModule.h - Code loaded into a context ----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_RUNTIME_CUDAMODULE_H
#define ATTN_LIB_RUNTIME_CUDAMODULE_H

#include "CudaDriver.h"
#include "attn/Runtime/Cuda.h"
#include <atomic>
#include <map>
#include <mutex>

namespace attn::cuda {

/// A kernel ready to be launched.
struct LoadedKernel {
  const KernelInfo *info;
  CUfunction function;
  /// The most blocks of one launch.
  int64_t maxBlocks;
  /// The bytes of its parameters, where the driver says so.
  bool knowsParams = false;
  std::vector<size_t> paramBytes = {};
};

struct LoadedModule {
  CUmodule module = nullptr;
  /// No other one of this process has it.
  unsigned long long number = 0;
  std::vector<LoadedKernel> kernels;

  const LoadedKernel *find(const char *name) const;
};

/// For calls that a capture, of this thread or of another, would object to, and
/// that have no place in a graph: those that load and allocate.
class RelaxedCapture {
public:
  explicit RelaxedCapture(const Driver &driver) : driver(driver) {
    isSet = driver.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
  }
  ~RelaxedCapture() {
    if (isSet)
      driver.cuThreadExchangeStreamCaptureMode(&mode);
  }

private:
  const Driver &driver;
  int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool isSet;
};

/// What a context has for all programs: workspace, zeros, and the counters of
/// graphs.
struct ContextMemory {
  CUmemoryPool pool = nullptr;
  CUdeviceptr zeros = 0, counters = 0;
};
support::Result<ContextMemory> getMemory(const Driver &driver, int device,
                                         CUcontext context);

/// A program in a context: all that a run has to know of the two.
struct BoundProgram {
  CUcontext context;
  CUdevice device;
  const LoadedModule *module;
  ContextMemory memory;
};

struct Program::Implementation {
  std::shared_ptr<const DeviceCode> code;
  std::mutex mutex;
  /// Never moved once made: runs hold on to them.
  std::map<CUcontext, LoadedModule> modules;
  std::map<CUcontext, BoundProgram> bound;
  /// The one of the last run, which most runs after it are like.
  std::atomic<const BoundProgram *> last{nullptr};

  /// The program in `context`, which is current.
  support::Result<const BoundProgram *> bind(const Driver &driver,
                                             CUcontext context);

  /// The module in `context`, which is current.
  support::Result<const LoadedModule *> get(const Driver &driver,
                                            CUcontext context);
};

/// Encodes a tensor map; see AttnGpu in attn/Runtime/Abi.h.
support::Status encodeTensorMap(const Driver &driver, void *map,
                                const char *name, void *data, int32_t element,
                                int32_t rank, const int64_t *sizes,
                                const int64_t *strides, int64_t boxRows,
                                int64_t boxCols, int32_t swizzleBytes,
                                CUdeviceptr zeros);

} // namespace attn::cuda

#endif // ATTN_LIB_RUNTIME_CUDAMODULE_H
