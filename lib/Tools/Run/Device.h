//===- Device.h - Runs on a GPU ---------------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_RUN_DEVICE_H
#define ATTN_LIB_TOOLS_RUN_DEVICE_H

#include "Kernel.h"
#include "attn/Runtime/Cuda.h"

namespace attn::run {

/// The tensors of one run in the memory of the current GPU.
class DeviceRun {
public:
  /// Copies the inputs, and fills the outputs with bytes that are NaN in every
  /// type of float: what is not written shows.
  static support::Result<DeviceRun>
  create(const Kernel &kernel, const std::vector<HostTensor> &inputs,
         std::vector<HostTensor> &outputs);
  /// From here on runs another kernel of the same arguments, on outputs filled
  /// anew.
  support::Status use(const Kernel &kernel);
  /// Does not wait.
  support::Status launch() const;
  /// Waits, and copies the outputs back.
  support::Status fetch(std::vector<HostTensor> &outputs) const;

private:
  const Kernel *kernel = nullptr;
  std::vector<cuda::Buffer> buffers;
  std::vector<AttnTensor> inputs, outputs;
};

/// Milliseconds of a launch: idle, one launch to warm up, the median of a few.
support::Result<double> timeBurst(const DeviceRun &run, int idleMs = 300);

struct DeviceTimes {
  /// Milliseconds of a launch: from idle, and in a long train of them.
  double burst, sustained;
  int burstRuns, sustainedRuns;
};

/// Burst: idle, one launch to warm up, the median of a few. Sustained: the mean
/// over the last 40 % of a train of 250 ms.
support::Result<DeviceTimes> timeOnDevice(const DeviceRun &run);

} // namespace attn::run

#endif // ATTN_LIB_TOOLS_RUN_DEVICE_H
