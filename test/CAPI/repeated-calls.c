/* RUN: rm -f %t.log
   RUN: %cc_capi %s -o %t -ldl
   RUN: env ATTN_LIBCUDA=%fake_cuda ATTN_PTXAS=none \
   RUN:   ATTN_FAKE_CUDA_LOG=%t.log %t %fake_cuda %t.log

   Calls of attnAttention on a GPU that repeat are made again from a record:
   what they launch is what a first call would, whatever has changed between
   them.

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

static const char *logPath;

/* The log's line number `count` from the end that starts with "launch", and how
   many there are. */
static int readLaunches(char *last, size_t size) {
  FILE *file = fopen(logPath, "r");
  static char line[1 << 14];
  int count = 0;
  CHECK(file);
  while (fgets(line, sizeof(line), file))
    if (strncmp(line, "launch", 6) == 0) {
      ++count;
      snprintf(last, size, "%s", line);
    }
  fclose(file);
  return count;
}

static AttnContext *context;
static AttnAttentionDesc desc;
static AttnTensor ins[4], out;
static AttnRunOptions run;
static char launched[1 << 14], other[1 << 14];

static void call(void) {
  AttnError *error =
      attnAttention(context, &desc, ins, desc.scale ? 4 : 3, &out, 1, &run);
  if (!error)
    return;
  fprintf(stderr, "error: %s\n", attnErrorMessage(error));
  exit(1);
}

/* A call that launches once, written to `text`. */
static void launches(char *text) {
  int before = readLaunches(other, sizeof(other));
  call();
  CHECK(readLaunches(text, sizeof(launched)) == before + 1);
}

static void refused(const char *expected, const char *got) {
  AttnError *error = attnAttention(context, &desc, ins, 4, &out, 1, &run);
  CHECK(error && strstr(attnErrorMessage(error), expected));
  CHECK(strstr(attnErrorMessage(error), got));
  attnErrorDestroy(error);
}

/* Calls that differ from others in addresses alone: each launches what the
   first call of another context does, and wrong ones are refused as ever. `q`:
   memory for eight calls. */
static void testOtherMemory(char *q, size_t bytes) {
  AttnContext *ours = context, *another;
  CHECK(!attnContextCreate(&another));
  static char fresh[1 << 14];
  for (int i = 0; i < 8; ++i) {
    ins[0].data = q + (size_t)i * bytes;
    launches(launched);
    context = another;
    launches(fresh);
    context = ours;
    CHECK(strcmp(fresh, launched) == 0);
    attnContextClearCache(another);
  }
  void *data = out.data;
  out.data = (char *)ins[0].data + 128;
  refused("expected output 'o' to have memory of its own",
          "some that overlaps");
  out.data = ins[2].data;
  refused("expected output 'o' to have memory of its own", "that of input 'v'");
  out.data = data;
  data = ins[1].data;
  ins[1].data = malloc(bytes);
  refused("'k' in memory of the GPU", "memory of the host");
  free(ins[1].data);
  ins[1].data = (char *)data + 2;
  refused("expected 'k' to start at a multiple of 16 bytes",
          "2 bytes past one");
  ins[1].data = data;
  data = ins[3].data;
  ins[3].data = q;
  refused("'scale' in memory of the host", "memory of GPU 0");
  ins[3].data = data;
  launches(launched);
  CHECK(strcmp(fresh, launched) == 0);
  attnContextDestroy(another);
}

static void *find(void *library, const char *name) {
  void *found = dlsym(library, name);
  CHECK(found);
  return found;
}

int main(int argc, char **argv) {
  CHECK(argc == 3);
  logPath = argv[2];
  int32_t count;
  CHECK(!attnContextCreate(&context) && !attnDeviceCount(&count));
  void *driver = dlopen(argv[1], RTLD_NOW), *device;
  CHECK(driver);
  int (*retain)(void **, int), (*push)(void *);
  int (*allocate)(unsigned long long *, size_t);
  void *(*makeStream)(void);
  void (*capture)(void *, int);
  *(void **)&retain = find(driver, "cuDevicePrimaryCtxRetain");
  *(void **)&push = find(driver, "cuCtxPushCurrent_v2");
  *(void **)&allocate = find(driver, "cuMemAlloc_v2");
  *(void **)&makeStream = find(driver, "attnFakeStream");
  *(void **)&capture = find(driver, "attnFakeCapture");
  CHECK(!retain(&device, 0) && !push(device));

  const int64_t shape[] = {2, 3, 256, 64}, shorter[] = {2, 3, 192, 64};
  float scale = 0.5f;
  for (int i = 0; i < 4; ++i) {
    unsigned long long memory;
    CHECK(!allocate(&memory, 2 * 3 * 256 * 64 * 2));
    AttnTensor tensor = {(void *)memory, ATTN_BF16, 4, shape, NULL};
    *(i == 3 ? &out : &ins[i]) = tensor;
  }
  AttnTensor scalar = {&scale, ATTN_F32, 0, NULL, NULL};
  ins[3] = scalar;
  desc.structSize = sizeof(desc);
  desc.dtype = ATTN_BF16;
  desc.headDim = 64;
  desc.scale = 1;
  run.structSize = sizeof(run);
  run.place = ATTN_PLACE_GPU;

  /* Of the third one on from the record. */
  static char first[1 << 14];
  launches(first);
  for (int i = 0; i < 3; ++i) {
    launches(launched);
    CHECK(strcmp(first, launched) == 0);
  }

  /* A scalar, a size, the description. */
  scale = 0.25f;
  launches(launched);
  CHECK(strcmp(first, launched) != 0);
  scale = 0.5f;
  launches(launched);
  CHECK(strcmp(first, launched) == 0);
  for (int i = 0; i < 3; ++i) {
    ins[1].shape = ins[2].shape = i == 1 ? shorter : shape;
    launches(launched);
    CHECK((strcmp(first, launched) == 0) == (i != 1));
  }
  desc.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
  launches(launched);
  CHECK(strcmp(first, launched) != 0);
  desc.causal = ATTN_CAUSAL_NONE;

  /* A text, at the same address. */
  desc.scale = 0;
  char text[200];
  const char *schedules[] = {
      "#attn.schedule<block_q = 128, rows = 64, block_k = 128>",
      "#attn.schedule<block_q = 64, rows = 64, block_k = 128>"};
  desc.schedule = text;
  for (int i = 0; i < 8; ++i) {
    snprintf(text, sizeof(text), "%s", schedules[i / 4 % 2]);
    launches(launched);
    CHECK(strstr(launched, i < 4 ? " block 384 " : " block 256 "));
  }
  desc.schedule = NULL;
  desc.scale = 1;

  /* Streams: one that is captured has counters of its own. */
  void *stream = makeStream();
  run.stream = stream;
  for (int i = 0; i < 4; ++i) {
    launches(launched);
    CHECK(!strstr(launched, " captured"));
  }
  capture(stream, 1);
  for (int i = 0; i < 3; ++i) {
    launches(launched);
    CHECK(strstr(launched, " captured"));
  }
  capture(stream, 0);
  launches(launched);
  CHECK(!strstr(launched, " captured"));
  run.stream = NULL;

  /* Kernels that are gone: the same one is compiled, and runs. */
  attnContextClearCache(context);
  launches(launched);
  CHECK(attnContextNumCached(context) == 1);

  unsigned long long memory;
  size_t bytes = sizeof(short) * 2 * 3 * 256 * 64;
  CHECK(!allocate(&memory, 8 * bytes));
  testOtherMemory((char *)memory, bytes);

  /* What was right before may be wrong now. */
  ins[1].data = NULL;
  refused("null", "null");
  attnContextDestroy(context);
  return 0;
}
