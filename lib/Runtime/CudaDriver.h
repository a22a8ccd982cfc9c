//===- CudaDriver.h - What we need of the CUDA driver -----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declarations of the driver API, by its documentation: libcuda.so.1 comes with
// the driver, is opened at run time, and no CUDA header is needed to build.
// Names are CUDA's; the symbols are those that its header maps the names to.
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_RUNTIME_CUDADRIVER_H
#define ATTN_LIB_RUNTIME_CUDADRIVER_H

#include "attn/Support/Result.h"
#include <cstddef>
#include <cstdint>
#include <string>

namespace attn::cuda {

/// 0 is CUDA_SUCCESS.
using CUresult = int;
enum : CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209
};

using CUdevice = int;
using CUdeviceptr = uint64_t;
using CUcontext = struct CUctx_st *;
using CUmodule = struct CUmod_st *;
using CUfunction = struct CUfunc_st *;
using CUstream = struct CUstream_st *;
using CUevent = struct CUevent_st *;
using CUmemoryPool = struct CUmemPoolHandle_st *;
using CUgraph = struct CUgraph_st *;
using CUgraphNode = struct CUgraphNode_st *;
using CUuserObject = struct CUuserObject_st *;

/// CUdevice_attribute.
enum {
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115
};
/// CUfunction_attribute.
enum {
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH = 11
};
/// CUjit_option.
enum {
  CU_JIT_INFO_LOG_BUFFER = 3,
  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4,
  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
  CU_JIT_LOG_VERBOSE = 12
};
/// CUpointer_attribute, CUmemorytype.
enum {
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
  CU_MEMORYTYPE_HOST = 1,
  CU_MEMORYTYPE_DEVICE = 2
};
/// CUmemPool_attribute, CUmemAllocationType, CUmemLocationType.
enum {
  CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
  CU_MEM_ALLOCATION_TYPE_PINNED = 1,
  CU_MEM_LOCATION_TYPE_DEVICE = 1
};
/// CUstreamCaptureMode.
enum { CU_STREAM_CAPTURE_MODE_RELAXED = 2 };
/// CUstreamCaptureStatus, CUuserObject_flags, CUuserObjectRetain_flags.
enum {
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_USER_OBJECT_NO_DESTRUCTOR_SYNC = 1,
  CU_GRAPH_USER_OBJECT_MOVE = 1
};
/// CUtensorMapDataType, -Interleave, -Swizzle, -L2promotion, -FloatOOBfill.
enum {
  CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
  CU_TENSOR_MAP_DATA_TYPE_INT32 = 3,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9,
  CU_TENSOR_MAP_INTERLEAVE_NONE = 0,
  CU_TENSOR_MAP_SWIZZLE_NONE = 0,
  CU_TENSOR_MAP_SWIZZLE_32B = 1,
  CU_TENSOR_MAP_SWIZZLE_64B = 2,
  CU_TENSOR_MAP_SWIZZLE_128B = 3,
  CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2,
  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0
};
/// CUlaunchAttributeID.
enum { CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6 };

struct alignas(64) CUtensorMap {
  uint64_t opaque[16];
};

/// CUlaunchAttribute: an id, and a value of 64 bytes.
struct CUlaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    int programmaticStreamSerializationAllowed;
    void *aligned;
  } value;
};

struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute *attrs;
  unsigned numAttrs;
};

/// CUDA_MEMCPY2D: rows of bytes between two places, each with a pitch.
struct CUmemcpy2D {
  size_t srcX, srcY;
  int srcMemoryType;
  const void *srcHost;
  CUdeviceptr srcDevice;
  void *srcArray;
  size_t srcPitch;
  size_t dstX, dstY;
  int dstMemoryType;
  void *dstHost;
  CUdeviceptr dstDevice;
  void *dstArray;
  size_t dstPitch;
  size_t width, height;
};

struct CUmemPoolProps {
  int allocType;
  int handleTypes;
  struct {
    int type, id;
  } location;
  void *win32SecurityAttributes;
  size_t maxSize;
  unsigned short usage;
  unsigned char reserved[54];
};

static_assert(sizeof(CUtensorMap) == 128 && sizeof(CUlaunchAttribute) == 72 &&
                  sizeof(CUlaunchConfig) == 56 &&
                  sizeof(CUmemPoolProps) == 88 && sizeof(CUmemcpy2D) == 128,
              "the driver's own layout");

/// Every function that we call: X(name, symbol, parameters).
#define ATTN_CUDA_FUNCTIONS(X)                                                 \
  X(cuInit, "cuInit", (unsigned))                                              \
  X(cuDriverGetVersion, "cuDriverGetVersion", (int *))                         \
  X(cuGetErrorName, "cuGetErrorName", (CUresult, const char **))               \
  X(cuGetErrorString, "cuGetErrorString", (CUresult, const char **))           \
  X(cuDeviceGetCount, "cuDeviceGetCount", (int *))                             \
  X(cuDeviceGet, "cuDeviceGet", (CUdevice *, int))                             \
  X(cuDeviceGetName, "cuDeviceGetName", (char *, int, CUdevice))               \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int *, int, CUdevice))      \
  X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *, CUdevice))             \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain",                      \
    (CUcontext *, CUdevice))                                                   \
  X(cuCtxGetCurrent, "cuCtxGetCurrent", (CUcontext *))                         \
  X(cuCtxGetDevice, "cuCtxGetDevice", (CUdevice *))                            \
  X(cuCtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext))                      \
  X(cuCtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext *))                      \
  X(cuModuleLoadDataEx, "cuModuleLoadDataEx",                                  \
    (CUmodule *, const void *, unsigned, int *, void **))                      \
  X(cuModuleUnload, "cuModuleUnload", (CUmodule))                              \
  X(cuModuleGetFunction, "cuModuleGetFunction",                                \
    (CUfunction *, CUmodule, const char *))                                    \
  X(cuFuncGetAttribute, "cuFuncGetAttribute", (int *, int, CUfunction))        \
  X(cuFuncSetAttribute, "cuFuncSetAttribute", (CUfunction, int, int))          \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                               \
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",                             \
    (int *, CUfunction, int, size_t))                                          \
  X(cuOccupancyMaxActiveClusters, "cuOccupancyMaxActiveClusters",              \
    (int *, CUfunction, const CUlaunchConfig *))                               \
  X(cuLaunchKernelEx, "cuLaunchKernelEx",                                      \
    (const CUlaunchConfig *, CUfunction, void **, void **))                    \
  X(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t))                      \
  X(cuMemFree, "cuMemFree_v2", (CUdeviceptr))                                  \
  X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync",                        \
    (CUdeviceptr *, size_t, CUmemoryPool, CUstream))                           \
  X(cuMemFreeAsync, "cuMemFreeAsync", (CUdeviceptr, CUstream))                 \
  X(cuMemPoolCreate, "cuMemPoolCreate",                                        \
    (CUmemoryPool *, const CUmemPoolProps *))                                  \
  X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute",                            \
    (CUmemoryPool, int, void *))                                               \
  X(cuMemsetD8Async, "cuMemsetD8Async",                                        \
    (CUdeviceptr, unsigned char, size_t, CUstream))                            \
  X(cuMemsetD8, "cuMemsetD8_v2", (CUdeviceptr, unsigned char, size_t))         \
  X(cuMemcpyHtoD, "cuMemcpyHtoD_v2", (CUdeviceptr, const void *, size_t))      \
  X(cuMemcpyDtoH, "cuMemcpyDtoH_v2", (void *, CUdeviceptr, size_t))            \
  X(cuMemcpy2DAsync, "cuMemcpy2DAsync_v2", (const CUmemcpy2D *, CUstream))     \
  X(cuPointerGetAttribute, "cuPointerGetAttribute",                            \
    (void *, int, CUdeviceptr))                                                \
  X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode",    \
    (int *))                                                                   \
  X(cuStreamSynchronize, "cuStreamSynchronize", (CUstream))                    \
  X(cuStreamIsCapturing, "cuStreamIsCapturing", (CUstream, int *))             \
  X(cuEventCreate, "cuEventCreate", (CUevent *, unsigned))                     \
  X(cuEventDestroy, "cuEventDestroy_v2", (CUevent))                            \
  X(cuEventRecord, "cuEventRecord", (CUevent, CUstream))                       \
  X(cuEventQuery, "cuEventQuery", (CUevent))                                   \
  X(cuEventSynchronize, "cuEventSynchronize", (CUevent))                       \
  X(cuEventElapsedTime, "cuEventElapsedTime", (float *, CUevent, CUevent))

/// The loaded driver.
struct Driver {
#define ATTN_CUDA_MEMBER(NAME, SYMBOL, PARAMETERS) CUresult(*NAME) PARAMETERS;
  ATTN_CUDA_FUNCTIONS(ATTN_CUDA_MEMBER)
#undef ATTN_CUDA_MEMBER
  /// Null before CUDA 12.0; only tensor maps need it.
  CUresult (*cuTensorMapEncodeTiled)(CUtensorMap *, int, uint32_t, void *,
                                     const uint64_t *, const uint64_t *,
                                     const uint32_t *, const uint32_t *, int,
                                     int, int, int);
  /// A number that no other stream of the process ever has. Null before CUDA
  /// 12.0.
  CUresult (*cuStreamGetId)(CUstream, unsigned long long *);
  /// Offset and bytes of a parameter. Null before CUDA 12.4.
  CUresult (*cuFuncGetParamInfo)(CUfunction, size_t, size_t *, size_t *);
  /// Which graph a stream is captured into, and what that graph keeps. Null
  /// before CUDA 11.3.
  CUresult (*cuStreamGetCaptureInfo)(CUstream, int *, unsigned long long *,
                                     CUgraph *, const CUgraphNode **, size_t *);
  CUresult (*cuUserObjectCreate)(CUuserObject *, void *, void (*)(void *),
                                 unsigned, unsigned);
  CUresult (*cuGraphRetainUserObject)(CUgraph, CUuserObject, unsigned,
                                      unsigned);
  /// As in 13000 for CUDA 13.0.
  int version;
  /// Of the machine; 0 where the driver did not say.
  int numDevices;

  /// "cannot <doing>: <name of the error>, <its text>".
  support::Failure failure(const std::string &doing, CUresult result) const;
  support::Status check(const std::string &doing, CUresult result) const {
    return result == CUDA_SUCCESS ? support::success()
                                  : support::Status(failure(doing, result));
  }
};

/// The driver, opened and initialised on the first call.
support::Result<const Driver *> getDriver();

/// Makes a context current for a scope; nothing where it is already.
class ContextScope {
public:
  ContextScope(const Driver &driver, CUcontext context);
  ~ContextScope();
  ContextScope(const ContextScope &) = delete;
  ContextScope &operator=(const ContextScope &) = delete;
  const support::Status &status() const { return result; }
  bool isPushed() const { return pushed; }

private:
  const Driver &driver;
  bool pushed = false;
  support::Status result = support::success();
};

/// The context to use for a device: the caller's current one where it is of
/// that device, else the primary context, which is then kept.
support::Result<CUcontext> getContext(const Driver &driver, int device);

} // namespace attn::cuda

#endif // ATTN_LIB_RUNTIME_CUDADRIVER_H
