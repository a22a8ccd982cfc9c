//===- CudaRecord.cpp - Runs that are made again --------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions of modules stay loaded, so a record outlives its kernel. A stream's
// address may come back with another stream, beside whose launches those of the
// old one still run; its number does not (cuStreamGetId).
//===----------------------------------------------------------------------===//

#include "CudaRecording.h"

#include <cstring>

using namespace ::attn;
using namespace ::attn::cuda;
using attn::support::Status;
using attn::support::success;

LaunchRecord::LaunchRecord()
    : implementation(std::make_unique<Implementation>()) {}
LaunchRecord::~LaunchRecord() = default;

bool LaunchRecord::isWhole() const { return implementation->isWhole; }
bool LaunchRecord::isForNow() const { return implementation->isForNow; }

static CUlaunchAttribute makeProgrammatic() {
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  return attribute;
}
CUlaunchAttribute attn::cuda::programmatic = makeProgrammatic();

void LaunchRecord::Implementation::add(const LoadedKernel &kernel,
                                       const CUlaunchConfig &config,
                                       void **params) {
  if (!kernel.knowsParams) {
    isWhole = false;
    return;
  }
  constexpr size_t align = 16;
  auto roomOf = [](size_t bytes) {
    return (bytes + align - 1) / align * align;
  };
  size_t room = 0;
  for (size_t bytes : kernel.paramBytes)
    room += roomOf(bytes);
  Launch &launch =
      launches.emplace_back(Launch{config,
                                   kernel.function,
                                   kernel.info->name,
                                   std::make_unique<std::byte[]>(room),
                                   {}});
  std::byte *at = launch.values.get();
  for (size_t i = 0; i < kernel.paramBytes.size(); ++i) {
    std::memcpy(at, params[i], kernel.paramBytes[i]);
    launch.params.push_back(at);
    at += roomOf(kernel.paramBytes[i]);
  }
}

bool attn::cuda::isLegacyStream(CUstream stream) {
  // Null is CU_STREAM_LEGACY in the functions that we call.
  return reinterpret_cast<uintptr_t>(stream) <= 1;
}

bool attn::cuda::findStreamId(const Driver &driver, CUstream stream,
                              unsigned long long &id) {
  id = UINT64_MAX; // which no stream has
  if (isLegacyStream(stream))
    return true;
  int capturing = 1;
  return driver.cuStreamGetId &&
         !driver.cuStreamIsCapturing(stream, &capturing) && !capturing &&
         !driver.cuStreamGetId(stream, &id);
}

std::optional<Status> LaunchRecord::replay(const void *tensor) const {
  const Implementation &record = *implementation;
  const Driver &driver = *record.driver;
  CUcontext current = nullptr;
  if (driver.cuCtxGetCurrent(&current) || current != record.context)
    return std::nullopt;
  if (driver.numDevices != 1) {
    auto device = deviceOf(tensor);
    if (!device || *device != record.device)
      return std::nullopt;
  }
  unsigned long long id;
  if (record.hasCounters &&
      (!findStreamId(driver, record.stream, id) || id != record.streamId))
    return std::nullopt;
  for (const Implementation::Launch &launch : record.launches)
    if (CUresult result = driver.cuLaunchKernelEx(
            &launch.config, launch.function,
            const_cast<void **>(launch.params.data()), /*extra=*/nullptr))
      return Status(driver.failure("launch " +
                                       std::to_string(launch.config.gridDimX) +
                                       " blocks of '" + launch.name + "'",
                                   result));
  return success();
}
