//===- CudaDriver.cpp - Opening the driver, devices, contexts -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaDriver.h"
#include "attn/Runtime/Cuda.h"

#include <array>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>

using namespace ::attn::cuda;
using attn::support::Failure;
using attn::support::Result;
using attn::support::Status;
using attn::support::success;

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

static Result<Driver> openDriver() {
  const char *path = std::getenv("ATTN_LIBCUDA");
  if (!path || !*path)
    path = "libcuda.so.1";
  // Never closed: contexts outlive whoever would do so.
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Failure{std::string("expected an NVIDIA driver, but cannot open ") +
                   dlerror()};
  Driver driver = {};
#define ATTN_CUDA_LOAD(NAME, SYMBOL, PARAMETERS)                               \
  driver.NAME =                                                                \
      reinterpret_cast<decltype(driver.NAME)>(dlsym(library, SYMBOL));         \
  if (!driver.NAME)                                                            \
    return Failure{std::string("expected an NVIDIA driver of CUDA 12.0 or "    \
                               "later, but ") +                                \
                   path + " has no " SYMBOL};
  ATTN_CUDA_FUNCTIONS(ATTN_CUDA_LOAD)
#undef ATTN_CUDA_LOAD
  driver.cuTensorMapEncodeTiled =
      reinterpret_cast<decltype(driver.cuTensorMapEncodeTiled)>(
          dlsym(library, "cuTensorMapEncodeTiled"));
  driver.cuStreamGetId = reinterpret_cast<decltype(driver.cuStreamGetId)>(
      dlsym(library, "cuStreamGetId"));
  driver.cuFuncGetParamInfo =
      reinterpret_cast<decltype(driver.cuFuncGetParamInfo)>(
          dlsym(library, "cuFuncGetParamInfo"));
  if (CUresult result = driver.cuInit(0))
    return driver.failure("use NVIDIA GPUs", result);
  if (CUresult result = driver.cuDriverGetVersion(&driver.version))
    return driver.failure("ask for the version of the NVIDIA driver", result);
  if (driver.cuDeviceGetCount(&driver.numDevices))
    driver.numDevices = 0;
  return driver;
}

Result<const Driver *> attn::cuda::getDriver() {
  static const Result<Driver> driver = openDriver();
  if (!driver)
    return driver.takeFailure();
  return &*driver;
}

Failure Driver::failure(const std::string &doing, CUresult result) const {
  const char *name = nullptr, *text = nullptr;
  std::string message = "cannot " + doing + ": ";
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
    message += "CUDA error " + std::to_string(result);
  else
    message += name;
  if (cuGetErrorString(result, &text) == CUDA_SUCCESS && text)
    message += std::string(", ") + text;
  return Failure{message};
}

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

Result<int> attn::cuda::countDevices() {
  auto driver = getDriver();
  if (!driver)
    return driver.takeFailure();
  int count = 0;
  if (CUresult result = (*driver)->cuDeviceGetCount(&count))
    return (*driver)->failure("count the GPUs", result);
  return count;
}

static Result<CUdevice> getHandle(const Driver &driver, int ordinal) {
  int count = 0;
  if (CUresult result = driver.cuDeviceGetCount(&count))
    return driver.failure("count the GPUs", result);
  if (ordinal < 0 || ordinal >= count)
    return Failure{"expected a GPU below " + std::to_string(count) +
                   ", but got " + std::to_string(ordinal)};
  CUdevice device = 0;
  if (CUresult result = driver.cuDeviceGet(&device, ordinal))
    return driver.failure("open GPU " + std::to_string(ordinal), result);
  return device;
}

Result<DeviceInfo> attn::cuda::getDevice(int ordinal) {
  auto driver = getDriver();
  if (!driver)
    return driver.takeFailure();
  auto device = getHandle(**driver, ordinal);
  if (!device)
    return device.takeFailure();
  DeviceInfo info;
  info.ordinal = ordinal;
  info.driverVersion = (*driver)->version;
  std::string doing =
      "ask for the properties of GPU " + std::to_string(ordinal);
  char name[256] = "";
  size_t memory = 0;
  if (CUresult result =
          (*driver)->cuDeviceGetName(name, sizeof(name) - 1, *device))
    return (*driver)->failure(doing, result);
  if (CUresult result = (*driver)->cuDeviceTotalMem(&memory, *device))
    return (*driver)->failure(doing, result);
  info.name = name;
  info.memoryBytes = int64_t(memory);
  int shared = 0, l2 = 0;
  const struct {
    int *value;
    int attribute;
  } attributes[] = {
      {&info.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
      {&info.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
      {&info.multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
      {&shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
      {&l2, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE}};
  for (auto [value, attribute] : attributes)
    if (CUresult result =
            (*driver)->cuDeviceGetAttribute(value, attribute, *device))
      return (*driver)->failure(doing, result);
  info.sharedMemoryBytes = shared;
  info.l2Bytes = l2;
  return info;
}

std::string DeviceInfo::target() const {
  // "a" targets run on their own architecture alone; the others on every later
  // one, through PTX.
  if (major == 9)
    return "sm_90a";
  if (major == 10 && minor == 0)
    return "sm_100a";
  if (major > 9 || (major == 8 && minor >= 9))
    return "sm_89";
  if (major == 8)
    return minor >= 6 ? "sm_86" : "sm_80";
  return "";
}

Result<int> attn::cuda::currentDevice() {
  auto driver = getDriver();
  if (!driver)
    return driver.takeFailure();
  CUcontext context = nullptr;
  if (CUresult result = (*driver)->cuCtxGetCurrent(&context))
    return (*driver)->failure("ask for the current context", result);
  if (!context)
    return 0;
  CUdevice device = 0;
  if (CUresult result = (*driver)->cuCtxGetDevice(&device))
    return (*driver)->failure("ask for the current device", result);
  return device;
}

/// Addresses that this thread asked for, on a machine with one device: they
/// stay that one's, or are freed.
static const void *&knownAddress(const void *pointer) {
  constexpr size_t numKnown = 256;
  static thread_local std::array<const void *, numKnown> known = {};
  uint64_t hash =
      uint64_t(reinterpret_cast<uintptr_t>(pointer)) * 0x9e3779b97f4a7c15;
  return known[hash >> 56];
}

Result<int> attn::cuda::deviceOf(const void *pointer) {
  auto driver = getDriver();
  if (!driver)
    return driver.takeFailure();
  bool isAlone = (*driver)->numDevices == 1;
  if (isAlone && pointer && knownAddress(pointer) == pointer)
    return 0;
  unsigned type = 0;
  int device = 0;
  auto address = reinterpret_cast<CUdeviceptr>(pointer);
  auto ask = [&] {
    CUresult result = (*driver)->cuPointerGetAttribute(
        &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    // Of one device, it is that one's.
    return result || type != CU_MEMORYTYPE_DEVICE || isAlone
               ? result
               : (*driver)->cuPointerGetAttribute(
                     &device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  };
  CUresult result = ask();
  if (result == CUDA_ERROR_INVALID_CONTEXT) {
    // A thread that has none: any will do.
    auto context = getContext(**driver, -1);
    if (!context)
      return context.takeFailure();
    ContextScope scope(**driver, *context);
    if (!scope.status())
      return scope.status().takeFailure();
    result = ask();
  }
  // The driver does not know what it did not allocate.
  if (result == CUDA_ERROR_INVALID_VALUE)
    return -1;
  if (result)
    return (*driver)->failure("ask what memory a pointer is to", result);
  if (isAlone && type == CU_MEMORYTYPE_DEVICE)
    knownAddress(pointer) = pointer;
  return type == CU_MEMORYTYPE_DEVICE ? device : -1;
}

//===----------------------------------------------------------------------===//
// Contexts
//===----------------------------------------------------------------------===//

Result<CUcontext> attn::cuda::getContext(const Driver &driver, int device) {
  CUcontext context = nullptr;
  if (CUresult result = driver.cuCtxGetCurrent(&context))
    return driver.failure("ask for the current context", result);
  if (context) {
    CUdevice current = 0;
    if (CUresult result = driver.cuCtxGetDevice(&current))
      return driver.failure("ask for the current device", result);
    if (device < 0 || current == device)
      return context;
  }
  if (device < 0)
    device = 0;
  static std::mutex mutex;
  static std::vector<CUcontext> primary;
  std::lock_guard<std::mutex> lock(mutex);
  auto handle = getHandle(driver, device);
  if (!handle)
    return handle.takeFailure();
  if (primary.size() <= size_t(device))
    primary.resize(size_t(device) + 1);
  if (!primary[size_t(device)])
    if (CUresult result = driver.cuDevicePrimaryCtxRetain(
            &primary[size_t(device)], *handle)) {
      primary[size_t(device)] = nullptr;
      return driver.failure("retain the primary context of GPU " +
                                std::to_string(device),
                            result);
    }
  return primary[size_t(device)];
}

ContextScope::ContextScope(const Driver &driver, CUcontext context)
    : driver(driver) {
  CUcontext current = nullptr;
  if (CUresult code = driver.cuCtxGetCurrent(&current))
    result = driver.failure("ask for the current context", code);
  else if (current != context) {
    if (CUresult code = driver.cuCtxPushCurrent(context))
      result = driver.failure("make a context current", code);
    else
      pushed = true;
  }
}

ContextScope::~ContextScope() {
  CUcontext popped;
  if (pushed)
    driver.cuCtxPopCurrent(&popped);
}
