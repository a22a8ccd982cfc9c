/* RUN: rm -f %t.log
   RUN: %cc_capi %s -o %t -ldl && env ATTN_LIBCUDA=%fake_cuda \
   RUN:   ATTN_PTXAS=none ATTN_FAKE_CUDA_LOG=%t.log %t %fake_cuda
   A cache in pages on a GPU, and states that are merged there: a driver that
   checks every copy, and makes it, is in the place of one.

   Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
   SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#include "attn-c/KVCache.h"
#include "attn-c/States.h"
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

#define ok(ERROR) succeeds(ERROR, __LINE__)
#define fails(ERROR, TEXT) refuses(ERROR, TEXT, __LINE__)

static void succeeds(AttnError *error, int line) {
  if (!error)
    return;
  fprintf(stderr, "line %d: error: %s\n", line, attnErrorMessage(error));
  exit(1);
}

static void refuses(AttnError *error, const char *text, int line) {
  if (!error || strcmp(attnErrorMessage(error), text)) {
    fprintf(stderr, "line %d: expected '%s', but got '%s'\n", line, text,
            error ? attnErrorMessage(error) : "success");
    exit(1);
  }
  attnErrorDestroy(error);
}

enum { PAGES = 6, HEADS = 3, PAGE = 4, D = 8, ROWS = 11 };
static float pool[PAGES * HEADS * PAGE * D], given[2 * ROWS * HEADS * D];

int main(int argc, char **argv) {
  if (argc < 2) {
    printf("no stand-in for the driver: nothing looks at the copies\n");
    return 0;
  }
  void *driver = dlopen(argv[1], RTLD_NOW);
  CHECK(driver);
  int (*retain)(void **, int);
  int (*push)(void *);
  int (*pop)(void **);
  int (*allocate)(unsigned long long *, size_t);
  int (*toDevice)(unsigned long long, const void *, size_t);
  int (*toHost)(void *, unsigned long long, size_t);
  void *(*makeStream)(void);
  void (*capture)(void *, int);
  *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
  *(void **)&push = dlsym(driver, "cuCtxPushCurrent_v2");
  *(void **)&pop = dlsym(driver, "cuCtxPopCurrent_v2");
  *(void **)&allocate = dlsym(driver, "cuMemAlloc_v2");
  *(void **)&toDevice = dlsym(driver, "cuMemcpyHtoD_v2");
  *(void **)&toHost = dlsym(driver, "cuMemcpyDtoH_v2");
  *(void **)&makeStream = dlsym(driver, "attnFakeStream");
  *(void **)&capture = dlsym(driver, "attnFakeCapture");
  int32_t count;
  ok(attnDeviceCount(&count));
  void *context = NULL;
  unsigned long long k, v, rows;
  CHECK(retain(&context, 0) == 0 && push(context) == 0);
  CHECK(!allocate(&k, sizeof(pool)) && !allocate(&v, sizeof(pool)) &&
        !allocate(&rows, sizeof(given)));
  for (int i = 0; i < 2 * ROWS * HEADS * D; ++i)
    given[i] = (float)i;
  CHECK(!toDevice(k, pool, sizeof(pool)) && !toDevice(v, pool, sizeof(pool)) &&
        !toDevice(rows, given, sizeof(given)));

  const int64_t pools[4] = {PAGES, HEADS, PAGE, D};
  AttnTensor keys = {(void *)k, ATTN_F32, 4, pools, NULL},
             values = {(void *)v, ATTN_F32, 4, pools, NULL};
  AttnKVCacheOptions options = {.structSize = sizeof(options),
                                .place = ATTN_PLACE_GPU};
  AttnKVCache *cache;
  ok(attnKVCacheCreate(&keys, &values, &options, &cache));

  /* A prompt with its heads behind the rows, into a stream that is captured;
     then a row each for it and a fork, from one row for all. */
  AttnRunOptions run = {.structSize = sizeof(run), .stream = makeStream()};
  int64_t ids[2] = {5, 0}, one[4] = {1, HEADS, ROWS - 1, D};
  int64_t turned[4] = {0, D, HEADS * D, 1};
  AttnTensor prompt = {(void *)rows, ATTN_F32, 4, one, turned};
  capture(run.stream, 1);
  ok(attnKVCacheAppend(cache, ids, 1, &prompt, &prompt, NULL, 0, &run));
  capture(run.stream, 0);
  CHECK(!pop(&context));
  ok(attnKVCacheFork(cache, 5, &ids[1]));
  int64_t two[4] = {2, HEADS, 1, D}, repeated[4] = {0, 0, 0, 1};
  AttnTensor row = {(void *)rows, ATTN_F32, 4, two, repeated};
  ok(attnKVCacheAppend(cache, ids, 2, &row, &row, NULL, 0, &run));
  CHECK(attnKVCacheFreePages(cache) == PAGES - 4);

  CHECK(!push(context));
  for (int n = 0; n < 2; ++n) {
    int32_t table[3];
    ok(attnKVCacheTable(cache, &ids[n], 1, 3, table));
    CHECK(!toHost(pool, n ? v : k, sizeof(pool)));
    for (int i = 0; i < ROWS; ++i)
      for (int head = 0; head < HEADS; ++head)
        for (int c = 0; c < D; ++c) {
          int page = table[i / PAGE];
          float got = pool[((page * HEADS + head) * PAGE + i % PAGE) * D + c];
          CHECK(got == (float)(i < ROWS - 1 ? (i * HEADS + head) * D + c : c));
        }
  }

  row.data = given;
  fails(attnKVCacheAppend(cache, ids, 2, &row, &row, NULL, 0, &run),
        "expected k on GPU 0, where the cache is, but got memory of the host");
  row.data = (void *)rows;
  repeated[3] = 2;
  fails(attnKVCacheAppend(cache, ids, 2, &row, &row, NULL, 0, &run),
        "expected k on a GPU to have stride 1 in its last dimension, but got "
        "stride 2");
  attnKVCacheDestroy(cache);
  keys.data = pool;
  fails(attnKVCacheCreate(&keys, &values, &options, &cache),
        "expected k in memory of a GPU, but got memory of the host");
  keys.data = (void *)k;
  values.data = pool;
  fails(attnKVCacheCreate(&keys, &values, &options, &cache),
        "expected v on GPU 0, where k is, but got memory of the host");
  /* More rows than there are zeros on the device: two launches. */
  AttnContext *compiler;
  ok(attnContextCreate(&compiler));
  unsigned long long o, lse, mergedO, mergedLse;
  const int64_t oShape[5] = {2, 1, 1, 20000, D};
  CHECK(!allocate(&o, 2 * 20000 * D * 2) && !allocate(&lse, 2 * 20000 * 4) &&
        !allocate(&mergedO, 20000 * D * 2) && !allocate(&mergedLse, 20000 * 4));
  AttnTensor states[4] = {{(void *)o, ATTN_BF16, 5, oShape, NULL},
                          {(void *)lse, ATTN_F32, 4, oShape, NULL},
                          {(void *)mergedO, ATTN_BF16, 4, oShape + 1, NULL},
                          {(void *)mergedLse, ATTN_F32, 3, oShape + 1, NULL}};
  run.place = ATTN_PLACE_GPU;
  ok(attnMergeStates(compiler, &states[0], &states[1], &states[2], &states[3],
                     &run));
  char line[256];
  int launches = 0;
  FILE *log = fopen(getenv("ATTN_FAKE_CUDA_LOG"), "r");
  while (log && fgets(line, sizeof(line), log))
    launches += strncmp(line, "launch", 6) == 0;
  CHECK(launches == 2);
  states[1].data = given;
  fails(attnMergeStates(compiler, &states[0], &states[1], &states[2],
                        &states[3], &run),
        "expected 'lse' in memory of the GPU, but got memory of the host");
  attnContextDestroy(compiler);

  options.place = (AttnPlace)7;
  fails(attnKVCacheCreate(&keys, &values, &options, &cache),
        "expected place to be 0 or 1, but got 7");
  return 0;
}
