//===- CudaRecording.h - What a record of launches holds --------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_RUNTIME_CUDARECORDING_H
#define ATTN_LIB_RUNTIME_CUDARECORDING_H

#include "CudaModule.h"
#include "attn/Runtime/CudaRecord.h"

namespace attn::cuda {

struct LaunchRecord::Implementation {
  struct Launch {
    CUlaunchConfig config;
    CUfunction function;
    /// The kernel's, which may be gone.
    std::string name;
    std::unique_ptr<std::byte[]> values;
    std::vector<void *> params;
  };

  const Driver *driver = nullptr;
  CUcontext context = nullptr;
  CUdevice device = 0;
  CUstream stream = nullptr;
  /// The stream's number, of launches that share counters.
  bool hasCounters = false;
  unsigned long long streamId = 0;
  bool isWhole = false, isForNow = false;
  std::vector<Launch> launches;

  /// Notes a launch that the driver has taken.
  void add(const LoadedKernel &kernel, const CUlaunchConfig &config,
           void **params);
};

/// Whether this is a context's default stream, which always exists and is never
/// captured.
bool isLegacyStream(CUstream stream);

/// What stands for the number of a stream whose launches share counters: equal
/// for no two streams that a context ever has. False where it is not known, or
/// where what is launched now runs some other time.
bool findStreamId(const Driver &driver, CUstream stream,
                  unsigned long long &id);

/// That a launch may start before the one before has ended.
extern CUlaunchAttribute programmatic;

} // namespace attn::cuda

#endif // ATTN_LIB_RUNTIME_CUDARECORDING_H
