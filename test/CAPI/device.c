/* RUN: %cc_capi %s -o %t -ldl
   RUN: env ATTN_LIBCUDA=%fake_cuda ATTN_PTXAS=none %t %fake_cuda

   Kernels for GPUs through the C ABI, on a driver that checks calls and runs
   nothing; its path is the argument. Without one, what needs no
   driver.

   Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
   SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#include "attn-c/attn.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(CONDITION)                                                       \
  do {                                                                         \
    if (!(CONDITION)) {                                                        \
      fprintf(stderr, "line %d: %s\n", __LINE__, #CONDITION);                  \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

static void succeeds(AttnError *error) {
  if (!error)
    return;
  fprintf(stderr, "error: %s\n", attnErrorMessage(error));
  exit(1);
}

static void fails(AttnError *error, const char *text) {
  CHECK(error);
  if (!strstr(attnErrorMessage(error), text)) {
    fprintf(stderr, "expected '%s', but got '%s'\n", text,
            attnErrorMessage(error));
    exit(1);
  }
  attnErrorDestroy(error);
}

static AttnTensor makeTensor(void *data, AttnDType dtype, int32_t rank,
                             const int64_t *shape) {
  AttnTensor tensor = {data, dtype, rank, shape, NULL};
  return tensor;
}

int main(int argc, char **argv) {
  AttnContext *context;
  AttnKernel *kernel, *other;
  AttnCompileOptions options = {0};
  AttnAttentionDesc desc = {0};
  AttnDeviceInfo info = {0};
  AttnDeviceKernel function;
  size_t size = 1;
  int32_t count = 0;
  options.structSize = sizeof(options);
  desc.structSize = sizeof(desc);
  info.structSize = sizeof(info);
  desc.dtype = ATTN_BF16;
  desc.headDim = 64;
  /* One kernel, and no more for other sizes. */
  desc.expectedSizes[2] = 100;
  succeeds(attnContextCreate(&context));

  /* Compiling needs no GPU. */
  options.target = "sm_90a";
  succeeds(attnCompileAttention(context, &desc, &options, &kernel));
  CHECK(strcmp(attnKernelTarget(kernel), "sm_90a") == 0);
  CHECK(strstr(attnKernelPtx(kernel), ".target sm_90a"));
  CHECK(attnKernelObject(kernel, &size) && size > 0);
  CHECK(attnKernelNumDeviceKernels(kernel) == 1);
  succeeds(attnKernelDeviceKernel(kernel, 0, &function));
  CHECK(strstr(attnKernelPtx(kernel), function.name));
  CHECK(function.threads > 0 && function.sharedBytes > 0);
  fails(attnKernelDeviceKernel(kernel, 1, &function), "below 1");
  if (argc < 2) {
    attnKernelDestroy(kernel);
    attnContextDestroy(context);
    return 0;
  }
  CHECK(!attnKernelCubin(kernel, &size) && size == 0);

  succeeds(attnDeviceCount(&count));
  CHECK(count == 1);
  succeeds(attnDeviceGet(0, &info));
  CHECK(info.structSize == sizeof(info) && strcmp(info.target, "sm_90a") == 0);
  CHECK(strcmp(info.name, "Fake H100") == 0 && info.multiprocessors == 132);
  fails(attnDeviceGet(7, &info), "a GPU below 1, but got 7");
  options.target = "cuda";
  succeeds(attnCompileAttention(context, &desc, &options, &other));
  CHECK(attnContextNumCached(context) == 1);
  attnKernelDestroy(other);
  succeeds(attnKernelLoad(kernel, 0));
  succeeds(attnKernelLoad(kernel, -1));
  fails(attnKernelLoad(kernel, 3), "a GPU below 1, but got 3");

  /* Memory of the device, by the driver itself. */
  void *driver = dlopen(argv[1], RTLD_NOW);
  CHECK(driver);
  int (*retain)(void **, int);
  int (*push)(void *);
  int (*pop)(void **);
  int (*allocate)(unsigned long long *, size_t);
  void *(*makeStream)(void);
  void (*capture)(void *, int);
  *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
  *(void **)&push = dlsym(driver, "cuCtxPushCurrent_v2");
  *(void **)&pop = dlsym(driver, "cuCtxPopCurrent_v2");
  *(void **)&allocate = dlsym(driver, "cuMemAlloc_v2");
  *(void **)&makeStream = dlsym(driver, "attnFakeStream");
  *(void **)&capture = dlsym(driver, "attnFakeCapture");
  void *device = NULL;
  unsigned long long memory[4];
  CHECK(retain(&device, 0) == 0 && push(device) == 0);
  const int64_t shape[] = {2, 3, 100, 64};
  const size_t bytes = 2 * 3 * 100 * 64 * 2;
  for (int i = 0; i < 4; ++i)
    CHECK(allocate(&memory[i], bytes) == 0);
  AttnTensor ins[3], out = makeTensor((void *)memory[3], ATTN_BF16, 4, shape);
  for (int i = 0; i < 3; ++i)
    ins[i] = makeTensor((void *)memory[i], ATTN_BF16, 4, shape);
  succeeds(attnKernelRun(kernel, 0, ins, 3, &out, 1));

  /* A stream, captured; a thread without a context. */
  AttnRunOptions run = {0};
  run.structSize = sizeof(run);
  run.stream = makeStream();
  capture(run.stream, 1);
  succeeds(attnKernelRunOn(kernel, 0, ins, 3, &out, 1, &run));
  capture(run.stream, 0);
  CHECK(pop(&device) == 0);
  succeeds(attnKernelRunOn(kernel, 0, ins, 3, &out, 1, &run));

  /* Wrong calls. */
  void *host = malloc(bytes);
  ins[1].data = host;
  fails(attnKernelRunOn(kernel, 0, ins, 3, &out, 1, &run),
        "expected 'k' in memory of the GPU, but got memory of the host");
  ins[1].data = (void *)(memory[1] + 2);
  fails(attnKernelRunOn(kernel, 0, ins, 3, &out, 1, &run),
        "expected 'k' to start at a multiple of 16 bytes in memory");
  ins[1].data = (void *)memory[1];
  ins[1].shape = shape + 1;
  fails(attnKernelRunOn(kernel, 0, ins, 3, &out, 1, &run), "'k' of shape");
  ins[1].shape = shape;
  const AttnTensor apart = out;
  out.data = (void *)(memory[0] + 128);
  fails(attnKernelRunOn(kernel, 0, ins, 3, &out, 1, &run),
        "expected output 'o' to have memory of its own, but got some that "
        "overlaps input 'q'");
  out = apart;
  run.structSize = 2000;
  fails(attnKernelRunOn(kernel, 0, ins, 3, &out, 1, &run), "structSize");

  /* DLPack says where tensors are. */
  AttnDLTensor tensors[4];
  const AttnDLTensor *pointers[4];
  for (int i = 0; i < 4; ++i) {
    memset(&tensors[i], 0, sizeof(tensors[i]));
    tensors[i].data = (void *)memory[i];
    tensors[i].device.deviceType = 2;
    tensors[i].ndim = 4;
    tensors[i].dtype.code = 4;
    tensors[i].dtype.bits = 16;
    tensors[i].dtype.lanes = 1;
    tensors[i].shape = (int64_t *)shape;
    pointers[i] = &tensors[i];
  }
  succeeds(attnKernelRunDLPack(kernel, 0, pointers, 3, pointers + 3, 1));
  run.structSize = sizeof(run);
  succeeds(
      attnKernelRunDLPackOn(kernel, 0, pointers, 3, pointers + 3, 1, &run));
  tensors[1].device.deviceType = 1;
  fails(attnKernelRunDLPack(kernel, 0, pointers, 3, pointers + 3, 1),
        "expected a tensor in memory of the GPU, but got DLPack device type 1");

  /* In one call: a kernel for a class of sizes, on the GPU of the tensors. */
  attnContextClearCache(context);
  desc.expectedSizes[2] = 0;
  run.place = ATTN_PLACE_GPU;
  ins[1].data = (void *)memory[1];
  ins[1].shape = shape;
  out = apart;
  for (int i = 0; i < 3; ++i)
    succeeds(attnAttention(context, &desc, ins, 3, &out, 1, &run));
  CHECK(attnContextNumCached(context) == 1);
  capture(run.stream, 1);
  succeeds(attnAttention(context, &desc, ins, 3, &out, 1, &run));
  capture(run.stream, 0);
  int64_t few[4] = {shape[0], shape[1], 5, shape[3]};
  ins[0].shape = out.shape = few;
  for (int i = 0; i < 3; ++i)
    succeeds(attnAttention(context, &desc, ins, 3, &out, 1, &run));
  CHECK(attnContextNumCached(context) == 2);
  options.target = "cuda";
  succeeds(attnAttentionKernel(context, &desc, ins, 3, &options, &other));
  CHECK(attnContextNumCached(context) == 2);
  CHECK(strstr(attnKernelExplain(other), "block_q = 64"));
  attnKernelDestroy(other);
  ins[0].data = host;
  fails(attnAttention(context, &desc, ins, 3, &out, 1, &run),
        "expected 'q' in memory of the GPU, but got memory of the host");
  ins[0].data = NULL;
  fails(attnAttention(context, &desc, ins, 3, &out, 1, &run),
        "expected 'q' to have data, but got a null pointer");
  ins[0].data = (void *)memory[0];
  out.data = host;
  fails(attnAttention(context, &desc, ins, 3, &out, 1, &run),
        "expected 'o' in memory of the GPU, but got memory of the host");
  CHECK(attnContextNumCached(context) == 2);

  free(host);
  attnKernelDestroy(kernel);
  attnContextDestroy(context);
  return 0;
}
