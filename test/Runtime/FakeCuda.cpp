//===- FakeCuda.cpp - A driver that checks calls and runs nothing ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A libcuda.so.1 for machines without a GPU: ATTN_LIBCUDA names it. It has one
// device of compute capability 9.0, whose memory is the host's, and loads any
// PTX that declares the kernels asked for. It refuses what the driver refuses:
// calls without a context, bad handles, tensor maps that break a rule, memory
// that is not the device's, waiting inside a capture. A launch reads every
// parameter that the kernel's PTX declares, and is written down:
//
//   ATTN_FAKE_CUDA_LOG=FILE       one line for each call that reaches the
//   device ATTN_FAKE_CUDA_FAIL=NAME:N    the N-th call (from 1) of NAME fails
//   ATTN_FAKE_CUDA_JIT_LOG=TEXT   what compiling PTX says
//   ATTN_FAKE_CUDA_DEVICES=N      how many devices there are (default 1)
//
// Streams 0x1 (legacy), 0x2 (per thread) and null exist always; attnFakeStream
// makes one, attnFakeCapture starts and ends a capture and attnFakeDropGraph
// drops what was captured, for tests.
//===----------------------------------------------------------------------===//

#include "FakeErrors.h"
#include "FakePtx.h"

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

using CUdeviceptr = uint64_t;

static constexpr int64_t kShared = 227 << 10;
static constexpr int kMultiprocessors = 132;
/// Multiprocessors that have no neighbour for a cluster.
static constexpr int kAlone = 4;

namespace {
struct Context {
  int device;
};
/// What tells user objects that nobody has them.
struct UserObject {
  void *pointer;
  void (*destroy)(void *);
};
struct Graph {
  unsigned long long number;
  std::vector<UserObject *> kept;
};
struct Stream {
  bool capturing = false;
  Graph *graph = nullptr;
};
struct Block {
  size_t size;
  int device;
  bool freed = false;
};

struct State {
  std::mutex mutex;
  bool initialized = false;
  std::map<int, Context *> primary;
  std::set<void *> contexts, modules, kernels, streams, pools, events;
  std::set<void *> pending; // events, until some stream is waited for
  std::map<CUdeviceptr, Block> memory;
  std::FILE *log = nullptr;
};
} // namespace

static State &state() {
  static State *const all = [] {
    auto *made = new State;
    if (const char *path = std::getenv("ATTN_FAKE_CUDA_LOG"))
      made->log = std::fopen(path, "a");
    return made;
  }();
  return *all;
}

static thread_local std::vector<Context *> stack;
/// CUstreamCaptureMode of this thread; 2 is relaxed.
static thread_local int captureMode = 0;

static void note(const char *format, ...) {
  if (!state().log)
    return;
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(state().log, format, arguments);
  va_end(arguments);
  std::fputc('\n', state().log);
  std::fflush(state().log);
}

/// What a test asked call number `count` of a function to return.
static CUresult injected(const char *name, int count) {
  static const char *const fail = std::getenv("ATTN_FAKE_CUDA_FAIL");
  if (!fail)
    return SUCCESS;
  const char *colon = std::strchr(fail, ':');
  std::string wanted = colon ? std::string(fail, colon) : fail;
  int at = colon ? std::atoi(colon + 1) : 1;
  return wanted == name && at == count ? OUT_OF_MEMORY : SUCCESS;
}

/// Every call comes through here: a driver that was initialised, a context
/// where one is needed.
#define ENTER(NAME, NEEDS_CONTEXT)                                             \
  std::lock_guard<std::mutex> lock(state().mutex);                             \
  if (!state().initialized)                                                    \
    return NOT_INITIALIZED;                                                    \
  static int numCalls = 0;                                                     \
  if (CUresult wanted = injected(#NAME, ++numCalls))                           \
    return wanted;                                                             \
  if ((NEEDS_CONTEXT) && stack.empty())                                        \
    return INVALID_CONTEXT;

static int countDevices() {
  const char *text = std::getenv("ATTN_FAKE_CUDA_DEVICES");
  return text ? std::atoi(text) : 1;
}

static bool isStream(void *stream) {
  return reinterpret_cast<uintptr_t>(stream) <= 2 ||
         state().streams.count(stream);
}

static bool isCapturing(void *stream) {
  return reinterpret_cast<uintptr_t>(stream) > 2 &&
         static_cast<Stream *>(stream)->capturing;
}

static bool anyCapture() {
  for (void *stream : state().streams)
    if (isCapturing(stream))
      return true;
  return false;
}

/// The block that holds [address, address + size), or null.
static Block *findBlock(CUdeviceptr address, size_t size) {
  auto it = state().memory.upper_bound(address);
  if (it == state().memory.begin())
    return nullptr;
  --it;
  bool inside = address + size <= it->first + it->second.size;
  return inside && !it->second.freed ? &it->second : nullptr;
}

//===----------------------------------------------------------------------===//
// The driver
//===----------------------------------------------------------------------===//

FAKE_EXPORT CUresult cuInit(unsigned flags) {
  std::lock_guard<std::mutex> lock(state().mutex);
  if (flags)
    return INVALID_VALUE;
  if (countDevices() == 0)
    return NO_DEVICE;
  state().initialized = true;
  return SUCCESS;
}

FAKE_EXPORT CUresult cuDriverGetVersion(int *version) {
  *version = 13000;
  return SUCCESS;
}

FAKE_EXPORT CUresult cuGetErrorName(CUresult code, const char **name) {
  for (auto &error : errors)
    if (error.code == code)
      return *name = error.name, SUCCESS;
  *name = nullptr;
  return INVALID_VALUE;
}

FAKE_EXPORT CUresult cuGetErrorString(CUresult code, const char **text) {
  for (auto &error : errors)
    if (error.code == code)
      return *text = error.text, SUCCESS;
  *text = nullptr;
  return INVALID_VALUE;
}

FAKE_EXPORT CUresult cuDeviceGetCount(int *count) {
  ENTER(cuDeviceGetCount, false)
  *count = countDevices();
  return SUCCESS;
}

FAKE_EXPORT CUresult cuDeviceGet(int *device, int ordinal) {
  ENTER(cuDeviceGet, false)
  if (ordinal < 0 || ordinal >= countDevices())
    return INVALID_DEVICE;
  *device = ordinal;
  return SUCCESS;
}

FAKE_EXPORT CUresult cuDeviceGetName(char *name, int size, int) {
  std::snprintf(name, size_t(size), "Fake H100");
  return SUCCESS;
}

FAKE_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, int) {
  *bytes = size_t(1) << 34;
  return SUCCESS;
}

FAKE_EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, int) {
  ENTER(cuDeviceGetAttribute, false)
  switch (attribute) {
  case 16:
    *value = kMultiprocessors;
    return SUCCESS;
  case 38:
    *value = 50 << 20;
    return SUCCESS;
  case 75:
    *value = 9;
    return SUCCESS;
  case 76:
    *value = 0;
    return SUCCESS;
  case 97:
    *value = int(kShared);
    return SUCCESS;
  case 115:
    *value = 1;
    return SUCCESS;
  }
  return INVALID_VALUE;
}

//===----------------------------------------------------------------------===//
// Contexts
//===----------------------------------------------------------------------===//

FAKE_EXPORT CUresult cuDevicePrimaryCtxRetain(Context **context, int device) {
  ENTER(cuDevicePrimaryCtxRetain, false)
  if (device < 0 || device >= countDevices())
    return INVALID_DEVICE;
  Context *&primary = state().primary[device];
  if (!primary) {
    primary = new Context{device};
    state().contexts.insert(primary);
  }
  *context = primary;
  return SUCCESS;
}

FAKE_EXPORT CUresult cuCtxGetCurrent(Context **context) {
  ENTER(cuCtxGetCurrent, false)
  *context = stack.empty() ? nullptr : stack.back();
  return SUCCESS;
}

FAKE_EXPORT CUresult cuCtxGetDevice(int *device) {
  ENTER(cuCtxGetDevice, true)
  *device = stack.back()->device;
  return SUCCESS;
}

FAKE_EXPORT CUresult cuCtxPushCurrent_v2(Context *context) {
  ENTER(cuCtxPushCurrent, false)
  if (!state().contexts.count(context))
    return INVALID_CONTEXT;
  stack.push_back(context);
  return SUCCESS;
}

FAKE_EXPORT CUresult cuCtxPopCurrent_v2(Context **context) {
  ENTER(cuCtxPopCurrent, true)
  *context = stack.back();
  stack.pop_back();
  return SUCCESS;
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

static void copyLog(int count, int *options, void **values, int which,
                    const std::string &text) {
  char *buffer = nullptr;
  size_t size = 0;
  for (int i = 0; i < count; ++i) {
    if (options[i] == which)
      buffer = static_cast<char *>(values[i]);
    if (options[i] == which + 1)
      size = reinterpret_cast<uintptr_t>(values[i]);
  }
  if (buffer && size)
    std::snprintf(buffer, size, "%s", text.c_str());
}

FAKE_EXPORT CUresult cuModuleLoadDataEx(Module **module, const void *image,
                                        unsigned count, int *options,
                                        void **values) {
  ENTER(cuModuleLoadDataEx, true)
  if (anyCapture() && captureMode != 2)
    return STREAM_CAPTURE_UNSUPPORTED;
  const char *text = static_cast<const char *>(image);
  // Machine code is not read here: the PTX does as well.
  if (std::memcmp(text,
                  "\x7f"
                  "ELF",
                  4) == 0)
    return INVALID_IMAGE;
  if (!std::strstr(text, ".version") || !std::strstr(text, ".target")) {
    copyLog(int(count), options, values, /*CU_JIT_ERROR_LOG_BUFFER=*/5,
            "ptxas fatal   : Missing .version directive at start of file\n"
            "ptxas fatal   : Ptx assembly aborted due to errors\n");
    return INVALID_PTX;
  }
  const char *log = std::getenv("ATTN_FAKE_CUDA_JIT_LOG");
  copyLog(int(count), options, values, /*CU_JIT_INFO_LOG_BUFFER=*/3,
          log ? log : "");
  auto *made = new Module;
  parsePtx(text, *made);
  state().modules.insert(made);
  *module = made;
  note("load %zu kernels", made->kernels.size());
  return SUCCESS;
}

FAKE_EXPORT CUresult cuModuleUnload(Module *module) {
  ENTER(cuModuleUnload, true)
  return state().modules.erase(module) ? SUCCESS : INVALID_HANDLE;
}

FAKE_EXPORT CUresult cuModuleGetFunction(Kernel **kernel, Module *module,
                                         const char *name) {
  ENTER(cuModuleGetFunction, true)
  if (!state().modules.count(module))
    return INVALID_HANDLE;
  auto it = module->kernels.find(name);
  if (it == module->kernels.end())
    return NOT_FOUND;
  *kernel = &it->second;
  state().kernels.insert(*kernel);
  return SUCCESS;
}

FAKE_EXPORT CUresult cuFuncGetAttribute(int *value, int attribute,
                                        Kernel *kernel) {
  ENTER(cuFuncGetAttribute, true)
  if (!state().kernels.count(kernel))
    return INVALID_HANDLE;
  // CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH
  *value = attribute == 11 ? kernel->cluster : 0;
  return SUCCESS;
}

FAKE_EXPORT CUresult cuFuncGetParamInfo(Kernel *kernel, size_t index,
                                        size_t *offset, size_t *size) {
  ENTER(cuFuncGetParamInfo, false)
  if (!state().kernels.count(kernel))
    return INVALID_HANDLE;
  if (index >= kernel->parameters.size())
    return INVALID_VALUE;
  *offset = 0; // nobody asks
  *size = kernel->parameters[index];
  return SUCCESS;
}

FAKE_EXPORT CUresult cuFuncSetAttribute(Kernel *kernel, int attribute,
                                        int value) {
  ENTER(cuFuncSetAttribute, true)
  if (!state().kernels.count(kernel))
    return INVALID_HANDLE;
  if (attribute != 8 || value < 0 || value > kShared)
    return INVALID_VALUE;
  kernel->shared = value;
  return SUCCESS;
}

FAKE_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
    int *blocks, Kernel *kernel, int threads, size_t shared) {
  ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor, true)
  if (!state().kernels.count(kernel) || threads < 1 || threads > 1024)
    return INVALID_VALUE;
  size_t bytes = shared + 1024;
  *blocks = int(
      std::min<size_t>(size_t(kShared + 1024) / bytes, size_t(2048 / threads)));
  return SUCCESS;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static CUdeviceptr allocate(size_t bytes) {
  void *memory = nullptr;
  if (posix_memalign(&memory, 512, bytes + 512))
    return 0;
  // What nobody wrote must not look right.
  std::memset(memory, 0xcc, bytes);
  auto address = reinterpret_cast<CUdeviceptr>(memory);
  state().memory[address] = {bytes, stack.back()->device};
  return address;
}

FAKE_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes) {
  ENTER(cuMemAlloc, true)
  if (!bytes)
    return INVALID_VALUE;
  if (anyCapture() && captureMode != 2)
    return STREAM_CAPTURE_UNSUPPORTED;
  *memory = allocate(bytes);
  return *memory ? SUCCESS : OUT_OF_MEMORY;
}

static CUresult release(CUdeviceptr memory) {
  auto it = state().memory.find(memory);
  if (it == state().memory.end() || it->second.freed)
    return INVALID_VALUE;
  std::free(reinterpret_cast<void *>(memory));
  state().memory.erase(it);
  return SUCCESS;
}

FAKE_EXPORT CUresult cuMemFree_v2(CUdeviceptr memory) {
  ENTER(cuMemFree, true)
  return release(memory);
}

FAKE_EXPORT CUresult cuMemPoolCreate(void **pool, const void *properties) {
  ENTER(cuMemPoolCreate, false)
  struct Properties {
    int type, handles, location, id;
  };
  auto *given = static_cast<const Properties *>(properties);
  if (given->type != 1 || given->location != 1 || given->id >= countDevices())
    return INVALID_VALUE;
  *pool = new char;
  state().pools.insert(*pool);
  return SUCCESS;
}

FAKE_EXPORT CUresult cuMemPoolSetAttribute(void *pool, int attribute, void *) {
  ENTER(cuMemPoolSetAttribute, false)
  return state().pools.count(pool) && attribute == 4 ? SUCCESS : INVALID_VALUE;
}

FAKE_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *memory, size_t bytes,
                                             void *pool, void *stream) {
  ENTER(cuMemAllocFromPoolAsync, true)
  if (!bytes || !state().pools.count(pool))
    return INVALID_VALUE;
  if (!isStream(stream))
    return INVALID_HANDLE;
  *memory = allocate(bytes);
  note("allocate %zu", bytes);
  return *memory ? SUCCESS : OUT_OF_MEMORY;
}

FAKE_EXPORT CUresult cuMemFreeAsync(CUdeviceptr memory, void *stream) {
  ENTER(cuMemFreeAsync, true)
  if (!isStream(stream))
    return INVALID_HANDLE;
  note("free");
  return release(memory);
}

FAKE_EXPORT CUresult cuMemsetD8Async(CUdeviceptr memory, unsigned char value,
                                     size_t bytes, void *stream) {
  ENTER(cuMemsetD8Async, true)
  if (!isStream(stream))
    return INVALID_HANDLE;
  if (!findBlock(memory, bytes))
    return INVALID_VALUE;
  std::memset(reinterpret_cast<void *>(memory), value, bytes);
  note("clear %zu", bytes);
  return SUCCESS;
}

FAKE_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr memory, unsigned char value,
                                   size_t bytes) {
  ENTER(cuMemsetD8, true)
  if (!findBlock(memory, bytes))
    return INVALID_VALUE;
  std::memset(reinterpret_cast<void *>(memory), value, bytes);
  return SUCCESS;
}

FAKE_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from,
                                     size_t bytes) {
  ENTER(cuMemcpyHtoD, true)
  if (anyCapture())
    return STREAM_CAPTURE_UNSUPPORTED;
  if (!findBlock(to, bytes))
    return INVALID_VALUE;
  std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  return SUCCESS;
}

FAKE_EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  ENTER(cuMemcpyDtoH, true)
  if (anyCapture())
    return STREAM_CAPTURE_UNSUPPORTED;
  if (!findBlock(from, bytes))
    return INVALID_VALUE;
  std::memcpy(to, reinterpret_cast<const void *>(from), bytes);
  return SUCCESS;
}

/// As CUDA_MEMCPY2D is laid out.
struct Copy2D {
  size_t srcX, srcY;
  int srcType;
  const void *srcHost;
  CUdeviceptr src;
  void *srcArray;
  size_t srcPitch;
  size_t dstX, dstY;
  int dstType;
  void *dstHost;
  CUdeviceptr dst;
  void *dstArray;
  size_t dstPitch;
  size_t width, height;
};

FAKE_EXPORT CUresult cuMemcpy2DAsync_v2(const Copy2D *copy, void *stream) {
  ENTER(cuMemcpy2DAsync, true)
  if (!isStream(stream))
    return INVALID_HANDLE;
  if (copy->srcType != 2 || copy->dstType != 2 || !copy->width ||
      !copy->height || copy->srcPitch < copy->width ||
      copy->dstPitch < copy->width || copy->srcX || copy->dstX)
    return INVALID_VALUE;
  if (!findBlock(copy->src,
                 copy->srcPitch * (copy->height - 1) + copy->width) ||
      !findBlock(copy->dst, copy->dstPitch * (copy->height - 1) + copy->width))
    return INVALID_VALUE;
  for (size_t row = 0; row < copy->height; ++row)
    std::memcpy(reinterpret_cast<char *>(copy->dst) + row * copy->dstPitch,
                reinterpret_cast<const char *>(copy->src) +
                    row * copy->srcPitch,
                copy->width);
  note("copy %zu x %zu", copy->height, copy->width);
  return SUCCESS;
}

FAKE_EXPORT CUresult cuPointerGetAttribute(void *value, int attribute,
                                           CUdeviceptr pointer) {
  ENTER(cuPointerGetAttribute, true)
  Block *block = findBlock(pointer, 1);
  if (!block)
    return INVALID_VALUE;
  switch (attribute) {
  case 2:
    *static_cast<unsigned *>(value) = 2;
    return SUCCESS;
  case 9:
    *static_cast<int *>(value) = block->device;
    return SUCCESS;
  }
  return INVALID_VALUE;
}

//===----------------------------------------------------------------------===//
// Tensor maps, launches
//===----------------------------------------------------------------------===//

FAKE_EXPORT CUresult cuTensorMapEncodeTiled(
    void *map, int type, uint32_t rank, void *data, const uint64_t *sizes,
    const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
    int interleave, int swizzle, int promotion, int fill) {
  ENTER(cuTensorMapEncodeTiled, false)
  static const unsigned bytesOf[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  if (reinterpret_cast<uintptr_t>(map) % 64 || type < 0 || type > 12 ||
      rank < 1 || rank > 5 || interleave || swizzle < 0 || swizzle > 3 ||
      promotion < 0 || promotion > 3 || fill)
    return INVALID_VALUE;
  unsigned width = bytesOf[type];
  auto address = reinterpret_cast<CUdeviceptr>(data);
  if (!data || address % 16 || !findBlock(address, 1))
    return INVALID_VALUE;
  uint64_t last = width;
  for (uint32_t i = 0; i < rank; ++i) {
    if (sizes[i] < 1 || sizes[i] > (uint64_t(1) << 32) || box[i] < 1 ||
        box[i] > 256 || steps[i] < 1 || steps[i] > 8)
      return INVALID_VALUE;
    if (i > 0 && (strides[i - 1] % 16 || strides[i - 1] >> 40))
      return INVALID_VALUE;
    last += (sizes[i] - 1) * (i ? strides[i - 1] : width);
  }
  static const unsigned spans[] = {0, 32, 64, 128};
  if (box[0] * width % 16 || (swizzle && box[0] * width > spans[swizzle]))
    return INVALID_VALUE;
  // Beyond the driver: the tensor lies in one piece of memory.
  if (!findBlock(address, last))
    return INVALID_VALUE;
  std::memset(map, 0, 128);
  std::memcpy(map, "MAP!", 4);
  std::string text;
  for (uint32_t i = rank; i-- > 0;)
    text += std::to_string(sizes[i]) + (i ? "x" : "");
  note("map %s of %u bytes, box %ux%u, swizzle %u", text.c_str(), width,
       rank > 1 ? box[1] : 1, box[0], spans[swizzle]);
  return SUCCESS;
}

namespace {
struct LaunchAttribute {
  int id;
  char pad[4];
  char value[64];
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void *stream;
  LaunchAttribute *attributes;
  unsigned numAttributes;
};
} // namespace

FAKE_EXPORT CUresult cuOccupancyMaxActiveClusters(int *clusters, Kernel *kernel,
                                                  const LaunchConfig *config) {
  ENTER(cuOccupancyMaxActiveClusters, true)
  if (!state().kernels.count(kernel))
    return INVALID_HANDLE;
  if (!kernel->cluster || config->grid[0] % unsigned(kernel->cluster) ||
      int64_t(config->shared) > kernel->shared)
    return INVALID_VALUE;
  *clusters = (kMultiprocessors - kAlone) / kernel->cluster;
  return SUCCESS;
}

FAKE_EXPORT CUresult cuLaunchKernelEx(const LaunchConfig *config,
                                      Kernel *kernel, void **parameters,
                                      void **extra) {
  ENTER(cuLaunchKernelEx, true)
  if (!state().kernels.count(kernel) || !isStream(config->stream))
    return INVALID_HANDLE;
  if (extra || !config->grid[0] || config->grid[1] != 1 ||
      config->grid[2] != 1 || !config->block[0] || config->block[0] > 1024)
    return INVALID_VALUE;
  if (kernel->cluster && config->grid[0] % unsigned(kernel->cluster))
    return INVALID_CLUSTER_SIZE;
  if (int64_t(config->shared) > kernel->shared)
    return LAUNCH_OUT_OF_RESOURCES;
  for (unsigned i = 0; i < config->numAttributes; ++i)
    if (config->attributes[i].id != 6)
      return INVALID_VALUE;
  std::string text;
  for (size_t i = 0; i < kernel->parameters.size(); ++i) {
    size_t bytes = kernel->parameters[i];
    std::vector<unsigned char> value(bytes);
    std::memcpy(value.data(), parameters[i], bytes);
    if (state().log)
      text += i ? " " : "";
    if (bytes == 128) {
      // A tensor map, passed by value.
      if (std::memcmp(value.data(), "MAP!", 4))
        return INVALID_VALUE;
      text += "map";
      continue;
    }
    if (!state().log)
      continue;
    uint64_t number = 0;
    std::memcpy(&number, value.data(), std::min<size_t>(bytes, 8));
    // Addresses differ from run to run.
    if (bytes == 8 && findBlock(number, 1))
      text += "memory";
    else
      text += std::to_string(number);
  }
  note("launch %s grid %u block %u shared %u%s%s: %s", kernel->name.c_str(),
       config->grid[0], config->block[0], config->shared,
       config->numAttributes ? " programmatic" : "",
       isCapturing(config->stream) ? " captured" : "", text.c_str());
  return SUCCESS;
}

//===----------------------------------------------------------------------===//
// Streams, events
//===----------------------------------------------------------------------===//

FAKE_EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
  if (*mode < 0 || *mode > 2)
    return INVALID_VALUE;
  std::swap(*mode, captureMode);
  return SUCCESS;
}

FAKE_EXPORT CUresult cuStreamIsCapturing(void *stream, int *capturing) {
  ENTER(cuStreamIsCapturing, true)
  if (!isStream(stream))
    return INVALID_HANDLE;
  *capturing = isCapturing(stream);
  return SUCCESS;
}

FAKE_EXPORT CUresult cuStreamGetId(void *stream, unsigned long long *id) {
  ENTER(cuStreamGetId, true)
  if (!isStream(stream))
    return INVALID_HANDLE;
  *id = reinterpret_cast<uintptr_t>(stream);
  return SUCCESS;
}

FAKE_EXPORT CUresult cuStreamCreate(void **stream, unsigned) {
  ENTER(cuStreamCreate, true)
  auto *made = new Stream;
  state().streams.insert(made);
  *stream = made;
  return SUCCESS;
}

FAKE_EXPORT CUresult cuCtxSynchronize(void) {
  ENTER(cuCtxSynchronize, true)
  return anyCapture() ? STREAM_CAPTURE_UNSUPPORTED : SUCCESS;
}

FAKE_EXPORT CUresult cuStreamSynchronize(void *stream) {
  ENTER(cuStreamSynchronize, true)
  state().pending.clear();
  if (!isStream(stream))
    return INVALID_HANDLE;
  return isCapturing(stream) ? STREAM_CAPTURE_UNSUPPORTED : SUCCESS;
}

FAKE_EXPORT CUresult cuEventCreate(void **event, unsigned) {
  ENTER(cuEventCreate, true)
  *event = new char;
  state().events.insert(*event);
  return SUCCESS;
}

FAKE_EXPORT CUresult cuEventDestroy_v2(void *event) {
  ENTER(cuEventDestroy, true)
  return state().events.erase(event) ? SUCCESS : INVALID_HANDLE;
}

FAKE_EXPORT CUresult cuEventRecord(void *event, void *stream) {
  ENTER(cuEventRecord, true)
  state().pending.insert(event);
  return state().events.count(event) && isStream(stream) ? SUCCESS
                                                         : INVALID_HANDLE;
}

FAKE_EXPORT CUresult cuEventQuery(void *event) {
  ENTER(cuEventQuery, true)
  return state().pending.count(event) ? NOT_READY : SUCCESS;
}

FAKE_EXPORT CUresult cuEventSynchronize(void *event) {
  ENTER(cuEventSynchronize, true)
  return state().events.count(event) ? SUCCESS : INVALID_HANDLE;
}

FAKE_EXPORT CUresult cuEventElapsedTime(float *ms, void *start, void *end) {
  ENTER(cuEventElapsedTime, true)
  // Every launch takes a millisecond.
  *ms = 1.0f;
  return state().events.count(start) && state().events.count(end)
             ? SUCCESS
             : INVALID_HANDLE;
}

//===----------------------------------------------------------------------===//
// For tests
//===----------------------------------------------------------------------===//

FAKE_EXPORT void *attnFakeStream(void) {
  std::lock_guard<std::mutex> lock(state().mutex);
  auto *stream = new Stream;
  state().streams.insert(stream);
  return stream;
}

/// Bytes that were allocated and not given back.
FAKE_EXPORT size_t attnFakeMemory(void) {
  std::lock_guard<std::mutex> lock(state().mutex);
  size_t bytes = 0;
  for (auto &[address, block] : state().memory)
    bytes += block.size;
  return bytes;
}

#include "FakeGraphs.h"
