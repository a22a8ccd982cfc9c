/* What a call of attnAttention costs its host on a kernel that is there.

     ninja -C build host-time
     build/test/Benchmarks/host-time/host-time          without a GPU
     build/test/Benchmarks/host-time/host-time --gpu    on the current one
     build/test/Benchmarks/host-time/host-time --gpu --others

   The first line is the call's own work: lookup, checks and records, on
   sequences without rows, of which the plan has nothing to do. With a GPU, in
   turn: a call of attnAttention, and a bare cuLaunchKernelEx of the very kernel
   that it launches, with its grid, attributes and parameters. These are noted
   in a call by a library of ours before the driver (driver.c), which is one
   jump in the others. Nanoseconds per call, the least of many bursts, which are
   short, since a full queue makes the host wait. --others: also calls
   with queries in memory that no call before used, for which all is checked and
   planned anew.

   Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
   SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#include "attn-c/attn.h"
#include "driver.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { rows = 128, dim = 64, calls = 64, bursts = 400 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void fail(const char *message) {
  fprintf(stderr, "host-time: error: %s\n", message);
  exit(1);
}

static void succeeds(AttnError *error) {
  if (error)
    fail(attnErrorMessage(error));
}

/* q, k, v and o of one head. */
typedef struct Call {
  AttnContext *context;
  AttnAttentionDesc desc;
  int64_t q[4], k[4];
  AttnTensor tensors[4];
  AttnRunOptions options;
} Call;

static void prepare(Call *call, AttnDType dtype, int64_t numRows) {
  memset(call, 0, sizeof(*call));
  succeeds(attnContextCreate(&call->context));
  call->desc.structSize = sizeof(call->desc);
  call->desc.dtype = dtype;
  call->desc.headDim = dim;
  call->options.structSize = sizeof(call->options);
  int64_t q[4] = {1, 1, numRows, dim}, k[4] = {1, 1, rows, dim};
  memcpy(call->q, q, sizeof(q));
  memcpy(call->k, k, sizeof(k));
  for (int i = 0; i < 4; ++i) {
    AttnTensor tensor = {NULL, dtype, 4, i % 3 ? call->k : call->q, NULL};
    call->tensors[i] = tensor;
  }
}

static void attention(void *user) {
  Call *c = user;
  AttnError *error = attnAttention(c->context, &c->desc, c->tensors, 3,
                                   c->tensors + 3, 1, &c->options);
  if (error)
    fail(attnErrorMessage(error));
}

/* Queries that no call before had, for some thousand calls: of them nothing is
   known but the kernel. */
enum { moreQueries = 4096 };

static void attentionElsewhere(void *user) {
  static int at;
  Call *c = user;
  AttnTensor q = c->tensors[0];
  c->tensors[0].data =
      (char *)q.data + (size_t)(++at % moreQueries) * rows * dim * 2;
  attention(c);
  c->tensors[0] = q;
}

static void bareLaunch(void *user) {
  Launch *launch = user;
  if (launch->real(&launch->config, launch->function, launch->params, NULL))
    fail("the bare launch failed");
}

static int (*synchronize)(void);

/* The least time of a call in a burst; behind each the GPU may catch up. */
static double measureBurst(void (*call)(void *), void *user, double best) {
  double start = now();
  for (int i = 0; i < calls; ++i)
    call(user);
  double time = (now() - start) / calls;
  if (synchronize && synchronize())
    fail("the GPU met an error");
  return time < best ? time : best;
}

/* The bytes of a kernel's parameters, by its PTX:
   ".param .u64 f_param_0," and ".param .align 64 .b8 f_param_1[128],". */
static void readParams(const char *ptx, const char *name, Launch *launch) {
  char entry[200];
  snprintf(entry, sizeof(entry), ".entry %s(", name);
  const char *at = strstr(ptx, entry), *end = at ? strchr(at, ')') : NULL;
  if (!end)
    fail("the kernel's PTX does not show its parameters");
  for (launch->numParams = 0; (at = strstr(at, ".param")) && at < end;) {
    at += strlen(".param");
    size_t length = strcspn(at, ",)");
    const char *array = memchr(at, '[', length);
    const char *kind = strpbrk(at, "ubfs"); /* .u64, .b8, .f32, .s32 */
    int bits = 0;
    while (kind && kind < at + length && !bits) {
      bits = kind[-1] == '.' ? atoi(kind + 1) : 0;
      kind = strpbrk(kind + 1, "ubfs");
    }
    size_t bytes = (size_t)(array ? atoi(array + 1) : 1) * (size_t)bits / 8;
    if (!bytes || bytes > maxParamBytes || launch->numParams == maxParams)
      fail("a kernel with parameters that nobody expects");
    launch->bytes[launch->numParams++] = bytes;
  }
}

static void *find(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (!found)
    fail(dlerror());
  return found;
}

static void measureGpu(const char *path, int others) {
  setenv("ATTN_LIBCUDA", path, 1);
  Call call;
  prepare(&call, ATTN_BF16, rows);
  int32_t count;
  succeeds(attnDeviceCount(&count)); /* opens the driver */
  void *driver = dlopen(path, RTLD_NOW);
  if (!driver)
    fail(dlerror());
  Launch *launch = find(driver, "hostTimeLaunch");
  int (*retain)(void **, int), (*push)(void *);
  int (*allocate)(unsigned long long *, size_t);
  *(void **)&retain = find(driver, "cuDevicePrimaryCtxRetain");
  *(void **)&push = find(driver, "cuCtxPushCurrent_v2");
  *(void **)&allocate = find(driver, "cuMemAlloc_v2");
  *(void **)&synchronize = find(driver, "cuCtxSynchronize");
  int (*createStream)(void **, unsigned);
  *(void **)&createStream = find(driver, "cuStreamCreate");
  void *context;
  if (retain(&context, 0) || push(context))
    fail("cannot make a context");
  for (int i = 0; i < 4; ++i) {
    unsigned long long memory;
    if (allocate(&memory, (size_t)(i ? 1 : moreQueries + 1) * rows * dim * 2))
      fail("cannot allocate memory");
    call.tensors[i].data = (void *)memory;
  }
  call.options.place = ATTN_PLACE_GPU;
  attention(&call);

  AttnCompileOptions options = {0};
  options.structSize = sizeof(options);
  options.target = "cuda";
  AttnKernel *kernel;
  AttnDeviceKernel info;
  succeeds(attnAttentionKernel(call.context, &call.desc, call.tensors, 3,
                               &options, &kernel));
  succeeds(attnKernelDeviceKernel(kernel, 0, &info));
  readParams(attnKernelPtx(kernel), info.name, launch);
  launch->isNoting = 1;
  attention(&call);
  launch->isNoting = 0;
  if (launch->numLaunches != 1)
    fail("expected a call of one launch");
  launch->config.attrs = NULL;
  launch->config.numAttrs = 0;

  void *streams[2] = {NULL, NULL};
  if (createStream(&streams[1], 1 /* CU_STREAM_NON_BLOCKING */))
    fail("cannot make a stream");
  for (int s = 0; s < 2; ++s) {
    call.options.stream = launch->config.stream = streams[s];
    double called = 1e18, other = 1e18, bare = 1e18;
    for (int i = 0; i < bursts; ++i) {
      called = measureBurst(attention, &call, called);
      bare = measureBurst(bareLaunch, launch, bare);
      if (others)
        other = measureBurst(attentionElsewhere, &call, other);
    }
    printf("on %s:\n", s ? "a stream" : "the default stream");
    printf("attnAttention on the GPU:  %7.0f ns\n", called);
    printf("bare cuLaunchKernelEx:     %7.0f ns\n", bare);
    printf("above it:                  %7.0f ns\n", called - bare);
    if (others)
      printf("above it, other queries:   %7.0f ns\n", other - bare);
  }
  attnKernelDestroy(kernel);
  attnContextDestroy(call.context);
}

int main(int argc, char **argv) {
  Call call;
  prepare(&call, ATTN_F32, 0);
  static float memory[rows * dim];
  call.tensors[1].data = call.tensors[2].data = memory;
  attention(&call);
  double best = 1e18;
  for (int i = 0; i < bursts; ++i)
    best = measureBurst(attention, &call, best);
  printf("attnAttention, no rows:    %7.0f ns\n", best);
  attnContextDestroy(call.context);
  if (argc > 1 && strcmp(argv[1], "--gpu") == 0) {
    char path[4096];
    snprintf(path, sizeof(path), "%.*s/libhost-time-driver.so",
             (int)(strrchr(argv[0], '/') ? strrchr(argv[0], '/') - argv[0] : 1),
             strrchr(argv[0], '/') ? argv[0] : ".");
    measureGpu(path, argc > 2 && strcmp(argv[2], "--others") == 0);
  }
  return 0;
}
