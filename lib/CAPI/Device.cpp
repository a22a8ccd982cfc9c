//===- Device.cpp - GPUs in the C ABI -------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Handles.h"
#include "attn/Runtime/Cuda.h"

using namespace ::attn;

AttnError *attnDeviceCount(int32_t *count) {
  if (!count)
    return makeError("expected a place for the count, but got null");
  *count = 0;
  auto found = cuda::countDevices();
  if (!found)
    return makeError(found.error());
  *count = *found;
  return nullptr;
}

template <size_t N>
static void copyText(char (&to)[N], const std::string &text) {
  size_t size = std::min(N - 1, text.size());
  std::memcpy(to, text.data(), size);
  to[size] = 0;
}

AttnError *attnDeviceGet(int32_t device, AttnDeviceInfo *result) {
  AttnDeviceInfo info;
  if (!result)
    return makeError("expected a place for the description, but got null");
  if (AttnError *error = readStruct(result, "AttnDeviceInfo", info))
    return error;
  auto found = cuda::getDevice(device);
  if (!found)
    return makeError(found.error());
  copyText(info.name, found->name);
  copyText(info.target, found->target());
  info.major = found->major;
  info.minor = found->minor;
  info.multiprocessors = found->multiprocessors;
  info.driverVersion = found->driverVersion;
  info.sharedMemoryBytes = found->sharedMemoryBytes;
  info.l2Bytes = found->l2Bytes;
  info.memoryBytes = found->memoryBytes;
  std::memcpy(result, &info, std::min(info.structSize, sizeof(info)));
  return nullptr;
}
