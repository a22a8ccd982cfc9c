//===- Device.cpp - Runs on a GPU -----------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Device.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

using namespace ::attn;
using namespace ::attn::run;
using namespace ::attn::support;

Result<DeviceRun> DeviceRun::create(const Kernel &kernel,
                                    const std::vector<HostTensor> &inputs,
                                    std::vector<HostTensor> &outputs) {
  DeviceRun run;
  run.kernel = &kernel;
  auto place = [&](const HostTensor &tensor, bool isOutput) -> Status {
    AttnTensor view = tensor.view();
    if (!isOutput && tensor.shape.empty()) {
      // Scalars stay on the host.
      run.inputs.push_back(view);
      return success();
    }
    auto buffer = cuda::Buffer::create(tensor.bytes.size());
    if (!buffer)
      return buffer.takeFailure();
    Status filled =
        isOutput ? buffer->fill(0xff) : buffer->copyFrom(tensor.bytes.data());
    if (!filled)
      return filled;
    view.data = buffer->data();
    (isOutput ? run.outputs : run.inputs).push_back(view);
    run.buffers.push_back(std::move(*buffer));
    return success();
  };
  for (const HostTensor &input : inputs)
    if (Status ok = place(input, /*isOutput=*/false); !ok)
      return ok.takeFailure();
  for (const HostTensor &output : outputs)
    if (Status ok = place(output, /*isOutput=*/true); !ok)
      return ok.takeFailure();
  return run;
}

Status DeviceRun::use(const Kernel &other) {
  kernel = &other;
  for (size_t i = buffers.size() - outputs.size(); i < buffers.size(); ++i)
    if (Status ok = buffers[i].fill(0xff); !ok)
      return ok;
  return success();
}

Status DeviceRun::launch() const { return kernel->run(inputs, outputs); }

Status DeviceRun::fetch(std::vector<HostTensor> &results) const {
  if (Status ok = cuda::synchronize(); !ok)
    return ok;
  size_t first = buffers.size() - results.size();
  for (size_t i = 0; i < results.size(); ++i)
    if (Status ok = buffers[first + i].copyTo(results[i].bytes.data()); !ok)
      return ok;
  return success();
}

namespace {
/// Launches with a point of time before each and after the last.
class Train {
public:
  explicit Train(const DeviceRun &run) : run(run) {}

  Status launch(int count) {
    for (int i = 0; i < count; ++i) {
      if (Status ok = record(); !ok)
        return ok;
      if (Status ok = run.launch(); !ok)
        return ok;
    }
    if (Status ok = record(); !ok)
      return ok;
    return events.back().wait();
  }
  /// Milliseconds between two of the points.
  Result<double> between(size_t from, size_t to) const {
    return events[to].since(events[from]);
  }

private:
  Status record() {
    auto event = cuda::Event::record();
    if (!event)
      return event.takeFailure();
    events.push_back(std::move(*event));
    return success();
  }

  const DeviceRun &run;
  std::vector<cuda::Event> events;
};
} // namespace

static constexpr int numBursts = 5;

Result<double> attn::run::timeBurst(const DeviceRun &run, int idleMs) {
  if (Status ok = cuda::synchronize(); !ok)
    return ok.takeFailure();
  std::this_thread::sleep_for(std::chrono::milliseconds(idleMs));
  Train burst(run);
  if (Status ok = burst.launch(1 + numBursts); !ok)
    return ok.takeFailure();
  std::vector<double> times;
  for (size_t i = 1; i <= numBursts; ++i) {
    auto ms = burst.between(i, i + 1);
    if (!ms)
      return ms.takeFailure();
    times.push_back(*ms);
  }
  std::sort(times.begin(), times.end());
  return times[numBursts / 2];
}

Result<DeviceTimes> attn::run::timeOnDevice(const DeviceRun &run) {
  constexpr int maxTrain = 20000;
  constexpr double trainMs = 250, tail = 0.4;
  auto burst = timeBurst(run);
  if (!burst)
    return burst.takeFailure();
  DeviceTimes result = {};
  result.burst = *burst;
  result.burstRuns = numBursts;

  int count = int(std::clamp(trainMs / std::max(result.burst, 1e-3), 5.0,
                             double(maxTrain)));
  Train train(run);
  if (Status ok = train.launch(count); !ok)
    return ok.takeFailure();
  int last = std::max(1, int(std::lround(count * tail)));
  auto ms = train.between(size_t(count - last), size_t(count));
  if (!ms)
    return ms.takeFailure();
  result.sustained = *ms / last;
  result.sustainedRuns = last;
  return result;
}
