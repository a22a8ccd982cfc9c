//===- CudaModule.cpp - Loading code into a context -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX goes to the driver as one piece by cuModuleLoadDataEx: linking it (by
// cuLinkAddData, nvJitLink or `ptxas -c`) drops setmaxnreg and with it 40 % of
// the speed. The log of the compilation is read: what it warns of is an error.
//===----------------------------------------------------------------------===//

#include "CudaModule.h"
#include "CudaGraphMemory.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

using namespace ::attn;
using namespace ::attn::cuda;
using attn::support::Failure;
using attn::support::Result;
using attn::support::Status;
using attn::support::success;

//===----------------------------------------------------------------------===//
// The assembler's log
//===----------------------------------------------------------------------===//

std::string attn::cuda::findAssemblerComplaint(const std::string &log) {
  // For who works on the very passes that cause them.
  if (std::getenv("ATTN_ALLOW_COMPLAINTS"))
    return "";
  // setmaxnreg dropped (7504, 7508); wgmma serialised (7510, 7512, 7513, 7514).
  for (const char *code :
       {"C7504", "C7508", "C7510", "C7512", "C7513", "C7514"}) {
    size_t at = log.find(code);
    if (at == std::string::npos)
      continue;
    size_t begin = log.rfind('\n', at), end = log.find('\n', at);
    begin = begin == std::string::npos ? 0 : begin + 1;
    std::string line = log.substr(begin, end - begin);
    line.erase(0, std::min(line.size(), line.find_first_not_of(" \t")));
    while (!line.empty() && std::isspace((unsigned char)line.back()))
      line.pop_back();
    return line;
  }
  return "";
}

/// The log's lines, in one.
static std::string joinLines(std::string log) {
  while (!log.empty() && std::isspace((unsigned char)log.back()))
    log.pop_back();
  for (size_t at = 0; (at = log.find('\n', at)) != std::string::npos; at += 2)
    log.replace(at, 1, "; ");
  return log;
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

/// Loads one image. The log, which may have complaints, goes to `log`.
static CUresult loadImage(const Driver &driver, const char *image,
                          CUmodule &module, std::string &log) {
  char info[1 << 14] = "", errors[1 << 14] = "";
  int options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                   CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                   CU_JIT_LOG_VERBOSE};
  // Values are passed in the pointers themselves.
  auto number = [](uintptr_t value) { return reinterpret_cast<void *>(value); };
  void *values[] = {info, number(sizeof(info) - 1), errors,
                    number(sizeof(errors) - 1), number(1)};
  CUresult result = driver.cuModuleLoadDataEx(
      &module, image, std::size(options), options, values);
  info[sizeof(info) - 1] = errors[sizeof(errors) - 1] = 0;
  log = std::string(errors) + (errors[0] && info[0] ? "\n" : "") + info;
  return result;
}

/// Machine code runs on its own generation of devices alone.
static bool isForThisDevice(const Driver &driver, const std::string &target) {
  CUdevice device = 0;
  int major = 0;
  if (driver.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      driver.cuDeviceGetAttribute(&major,
                                  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                  device) != CUDA_SUCCESS)
    return false;
  // "sm_90a": all but the last digit.
  size_t end = target.find_last_of("0123456789");
  return target.compare(0, 3, "sm_") == 0 && end != std::string::npos &&
         end > 3 && target.substr(3, end - 3) == std::to_string(major);
}

static Result<CUmodule> loadModule(const Driver &driver,
                                   const DeviceCode &code) {
  CUmodule module = nullptr;
  std::string log;
  // An assembler newer than the driver makes what the driver does not take;
  // then the PTX may still do.
  if (!code.cubin.empty() && isForThisDevice(driver, code.target) &&
      loadImage(driver, code.cubin.data(), module, log) == CUDA_SUCCESS)
    return module;
  if (code.ptx.empty())
    return Failure{"expected code for " + code.target + ", but got none"};
  CUresult result = loadImage(driver, code.ptx.c_str(), module, log);
  if (result != CUDA_SUCCESS) {
    Failure failure =
        driver.failure("load the code for " + code.target, result);
    if (!log.empty())
      failure.message += "; its log: " + joinLines(log);
    return failure;
  }
  std::string complaint = findAssemblerComplaint(log);
  if (!complaint.empty()) {
    driver.cuModuleUnload(module);
    return Failure{"expected code that the driver assembles as it stands, but "
                   "it says: " +
                   complaint};
  }
  return module;
}

/// Asks for the bytes of a kernel's parameters.
static void findParams(const Driver &driver, LoadedKernel &kernel) {
  if (!driver.cuFuncGetParamInfo)
    return;
  size_t offset, bytes;
  CUresult result;
  for (size_t i = 0; !(result = driver.cuFuncGetParamInfo(kernel.function, i,
                                                          &offset, &bytes));
       ++i)
    kernel.paramBytes.push_back(bytes);
  // What it says behind the last one.
  kernel.knowsParams = result == CUDA_ERROR_INVALID_VALUE;
}

static Result<LoadedKernel> prepare(const Driver &driver, CUmodule module,
                                    const KernelInfo &info) {
  LoadedKernel kernel = {&info, nullptr, INT32_MAX};
  if (CUresult result = driver.cuModuleGetFunction(&kernel.function, module,
                                                   info.name.c_str()))
    return driver.failure("find the kernel '" + info.name + "'", result);
  // More than 48 KiB must be asked for.
  std::string bytes = std::to_string(info.sharedBytes) +
                      " bytes of shared memory to the kernel '" + info.name +
                      "'";
  if (CUresult result = driver.cuFuncSetAttribute(
          kernel.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
          int(info.sharedBytes)))
    return driver.failure("give " + bytes, result);
  findParams(driver, kernel);
  if (!info.persistent)
    return kernel;
  int perMultiprocessor = 0, multiprocessors = 0;
  if (CUresult result = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
          &perMultiprocessor, kernel.function, int(info.threads),
          size_t(info.sharedBytes)))
    return driver.failure(
        "ask how many blocks of '" + info.name + "' run at once", result);
  CUdevice device;
  CUresult result = driver.cuCtxGetDevice(&device);
  if (!result)
    result = driver.cuDeviceGetAttribute(
        &multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  if (result)
    return driver.failure("count the multiprocessors", result);
  kernel.maxBlocks = int64_t(perMultiprocessor) * multiprocessors;
  int cluster = 1;
  if (CUresult result = driver.cuFuncGetAttribute(
          &cluster, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, kernel.function))
    return driver.failure("ask for the clusters of '" + info.name + "'",
                          result);
  if (cluster > 1) {
    // Blocks of a cluster lie close to each other, and not every multiprocessor
    // may find a partner.
    CUlaunchConfig config = {};
    config.gridDimX = unsigned(cluster);
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = unsigned(info.threads);
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = unsigned(info.sharedBytes);
    int clusters = 0;
    if (CUresult result = driver.cuOccupancyMaxActiveClusters(
            &clusters, kernel.function, &config))
      return driver.failure(
          "ask how many clusters of '" + info.name + "' run at once", result);
    kernel.maxBlocks =
        std::min(kernel.maxBlocks / cluster, int64_t(clusters)) * cluster;
  }
  if (kernel.maxBlocks < 1)
    return Failure{"expected a device that runs a block of " +
                   std::to_string(info.threads) + " threads with " + bytes +
                   ", but this one runs none"};
  return kernel;
}

const LoadedKernel *LoadedModule::find(const char *name) const {
  for (const LoadedKernel &kernel : kernels)
    if (kernel.info->name == name)
      return &kernel;
  return nullptr;
}

Result<const LoadedModule *> Program::Implementation::get(const Driver &driver,
                                                          CUcontext context) {
  std::lock_guard<std::mutex> lock(mutex);
  auto it = modules.find(context);
  if (it != modules.end())
    return &it->second;
  RelaxedCapture relaxed(driver);
  auto module = loadModule(driver, *code);
  if (!module)
    return module.takeFailure();
  static std::atomic<unsigned long long> numModules{0};
  LoadedModule loaded;
  loaded.module = *module;
  loaded.number = ++numModules;
  for (const KernelInfo &info : code->kernels) {
    auto kernel = prepare(driver, *module, info);
    if (!kernel) {
      driver.cuModuleUnload(*module);
      return kernel.takeFailure();
    }
    loaded.kernels.push_back(*kernel);
  }
  return &modules.emplace(context, std::move(loaded)).first->second;
}

Result<const BoundProgram *> Program::Implementation::bind(const Driver &driver,
                                                           CUcontext context) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (auto it = bound.find(context); it != bound.end())
      return &it->second;
  }
  CUdevice device = 0;
  if (CUresult result = driver.cuCtxGetDevice(&device))
    return driver.failure("ask for the current device", result);
  auto module = get(driver, context);
  if (!module)
    return module.takeFailure();
  auto memory = getMemory(driver, device, context);
  if (!memory)
    return memory.takeFailure();
  std::lock_guard<std::mutex> lock(mutex);
  BoundProgram program = {context, device, *module, *memory};
  return &bound.emplace(context, program).first->second;
}

Program::Program(std::shared_ptr<const DeviceCode> code)
    : implementation(std::make_unique<Implementation>()) {
  implementation->code = std::move(code);
}
// Modules stay: their context may be gone, and a graph may still launch them.
Program::~Program() = default;

const DeviceCode &Program::code() const { return *implementation->code; }

Status Program::load(int device) const {
  auto driver = getDriver();
  if (!driver)
    return driver.takeFailure();
  auto context = getContext(**driver, device);
  if (!context)
    return context.takeFailure();
  ContextScope scope(**driver, *context);
  if (!scope.status())
    return scope.status();
  auto module = implementation->get(**driver, *context);
  if (!module)
    return module.takeFailure();
  // The memory that a first run would make, too.
  CUdevice current;
  if (CUresult result = (*driver)->cuCtxGetDevice(&current))
    return (*driver)->failure("ask for the current device", result);
  auto memory = getMemory(**driver, current, *context);
  return memory ? success() : Status(memory.takeFailure());
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Result<ContextMemory> attn::cuda::getMemory(const Driver &driver, int device,
                                            CUcontext context) {
  static std::mutex mutex;
  static std::map<CUcontext, ContextMemory> all;
  std::lock_guard<std::mutex> lock(mutex);
  auto it = all.find(context);
  if (it != all.end())
    return it->second;
  RelaxedCapture relaxed(driver);
  ContextMemory memory;
  // A pool of our own: it keeps what is freed for the next run, and the
  // process's default pool is left as its other users want it.
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  if (CUresult result = driver.cuMemPoolCreate(&memory.pool, &properties))
    return driver.failure("make a memory pool on GPU " + std::to_string(device),
                          result);
  constexpr size_t bytes = zeroBytes + allCounterBytes;
  uint64_t keep = uint64_t(256) << 20;
  if (CUresult result = driver.cuMemPoolSetAttribute(
          memory.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep))
    return driver.failure("set up a memory pool", result);
  if (CUresult result = driver.cuMemAlloc(&memory.zeros, bytes))
    return driver.failure("allocate memory on GPU " + std::to_string(device),
                          result);
  if (CUresult result = driver.cuMemsetD8(memory.zeros, 0, bytes))
    return driver.failure("clear memory on GPU " + std::to_string(device),
                          result);
  memory.counters = memory.zeros + zeroBytes;
  all.emplace(context, memory);
  return memory;
}

Result<void *> attn::cuda::getZeros(int device) {
  auto driver = getDriver();
  if (!driver)
    return driver.takeFailure();
  auto context = getContext(**driver, device);
  if (!context)
    return context.takeFailure();
  ContextScope scope(**driver, *context);
  if (!scope.status())
    return scope.status().takeFailure();
  CUdevice current;
  if (CUresult result = (*driver)->cuCtxGetDevice(&current))
    return (*driver)->failure("ask for the current device", result);
  auto memory = getMemory(**driver, current, *context);
  if (!memory)
    return memory.takeFailure();
  return reinterpret_cast<void *>(memory->zeros);
}
