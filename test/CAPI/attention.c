/* RUN: %cc_capi %s -o %t -lpthread -lm && %t
   attnAttention on the CPU: one kernel for a class of sizes, compiled once, and
   whatever its caller got wrong said in a sentence.

   Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
   SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#include "attn-c/attn.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
  if (!error || !strstr(attnErrorMessage(error), text)) {
    fprintf(stderr, "line %d: expected '%s', but got '%s'\n", line, text,
            attnErrorMessage(error));
    exit(1);
  }
  attnErrorDestroy(error);
}

/* q, k, v and o of one call. */
typedef struct Call {
  AttnAttentionDesc desc;
  int64_t rows[4], keys[4];
  AttnTensor inputs[3], output;
  float *memory;
} Call;

static int64_t count(const int64_t *shape) {
  return shape[0] * shape[1] * shape[2] * shape[3];
}

static void makeCall(Call *call, int64_t b, int64_t hq, int64_t hk, int64_t sq,
                     int64_t sk, int64_t d) {
  memset(call, 0, sizeof(*call));
  call->desc.structSize = sizeof(call->desc);
  call->desc.headDim = d;
  int64_t rows[4] = {b, hq, sq, d}, keys[4] = {b, hk, sk, d};
  memcpy(call->rows, rows, sizeof(rows));
  memcpy(call->keys, keys, sizeof(keys));
  int64_t total = 2 * count(rows) + 2 * count(keys);
  call->memory = malloc(sizeof(float) * (size_t)total);
  for (int64_t i = 0; i < total; ++i)
    call->memory[i] = (float)((i * 37 % 101) - 50) / 50;
  float *q = call->memory, *k = q + count(rows), *v = k + count(keys);
  AttnTensor tensors[4] = {{q, ATTN_F32, 4, call->rows, NULL},
                           {k, ATTN_F32, 4, call->keys, NULL},
                           {v, ATTN_F32, 4, call->keys, NULL},
                           {v + count(keys), ATTN_F32, 4, call->rows, NULL}};
  memcpy(call->inputs, tensors, sizeof(call->inputs));
  call->output = tensors[3];
}

/* The largest error of the output. */
static double getError(const Call *call) {
  const float *q = call->inputs[0].data, *k = call->inputs[1].data,
              *v = call->inputs[2].data, *o = call->output.data;
  int64_t heads = call->rows[0] * call->rows[1], sq = call->rows[2],
          sk = call->keys[2], d = call->rows[3],
          group = call->rows[1] / call->keys[1];
  double worst = 0;
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < sq; ++i) {
      double sum = 0, result[256] = {0};
      for (int64_t j = 0; j < sk; ++j) {
        double dot = 0;
        int64_t key = (h / group * sk + j) * d;
        for (int64_t c = 0; c < d; ++c)
          dot += (double)q[(h * sq + i) * d + c] * k[key + c];
        double weight = exp(dot / sqrt((double)d));
        sum += weight;
        for (int64_t c = 0; c < d; ++c)
          result[c] += weight * v[key + c];
      }
      for (int64_t c = 0; c < d; ++c)
        worst = fmax(worst, fabs(result[c] / sum - o[(h * sq + i) * d + c]));
    }
  return worst;
}

static AttnError *run(AttnContext *context, Call *call) {
  return attnAttention(context, &call->desc, call->inputs, 3, &call->output, 1,
                       NULL);
}

/* Runs attention of these sizes, and tells how many kernels that compiled. */
static size_t runs(AttnContext *context, int64_t b, int64_t hq, int64_t hk,
                   int64_t sq, int64_t sk, int64_t d) {
  Call call;
  size_t before = attnContextNumCached(context);
  makeCall(&call, b, hq, hk, sq, sk, d);
  ok(run(context, &call));
  CHECK(getError(&call) < 1e-5);
  free(call.memory);
  return attnContextNumCached(context) - before;
}

static void testClasses(AttnContext *context) {
  Call call;
  AttnKernel *kernel;
  CHECK(attnContextNumCached(context) == 0);
  /* Any sizes. */
  CHECK(runs(context, 1, 2, 2, 40, 70, 16) == 1);
  CHECK(runs(context, 2, 3, 3, 17, 9, 16) == 0);
  /* One row of few heads and many keys: parts; so is a cache that grows, but
     at each power of two. */
  CHECK(runs(context, 1, 2, 2, 1, 4100, 16) == 1);
  for (int64_t sk = 4101; sk < 8192; sk += 511)
    CHECK(runs(context, 1, 2, 2, 1, sk, 16) == 0);
  CHECK(runs(context, 1, 2, 2, 1, 8192, 16) == 1);
  /* Of few keys, or many heads, whole. */
  CHECK(runs(context, 1, 2, 2, 1, 300, 16) == 1);
  CHECK(runs(context, 8, 4, 4, 1, 2048, 16) == 0);
  /* Heads that share keys share tiles. */
  CHECK(runs(context, 1, 4, 2, 1, 4100, 16) == 1);

  makeCall(&call, 1, 4, 2, 1, 4100, 16);
  size_t before = attnContextNumCached(context);
  ok(attnAttentionKernel(context, &call.desc, call.inputs, 3, NULL, &kernel));
  CHECK(attnContextNumCached(context) == before);
  CHECK(strstr(attnKernelExplain(kernel), "splits: 4 "));
  CHECK(strstr(attnKernelExplain(kernel), "heads: packed"));
  attnKernelDestroy(kernel);
  /* But not where they lie apart. */
  free(call.memory);
  makeCall(&call, 1, 4, 2, 3, 2100, 16);
  int64_t strides[4] = {192, 16, 64, 1};
  call.inputs[0].strides = strides;
  ok(attnAttentionKernel(context, &call.desc, call.inputs, 3, NULL, &kernel));
  CHECK(!strstr(attnKernelExplain(kernel), "heads: packed"));
  attnKernelDestroy(kernel);
  /* Of another target the kernel is had, not run. */
  AttnCompileOptions options = {0};
  options.structSize = sizeof(options);
  options.target = "sm_90a";
  call.desc.dtype = ATTN_BF16;
  ok(attnAttentionKernel(context, &call.desc, call.inputs, 3, &options,
                         &kernel));
  CHECK(strcmp(attnKernelTarget(kernel), "sm_90a") == 0);
  attnKernelDestroy(kernel);
  free(call.memory);
}

/* Keys in pages have the classes of those that a table has room for. */
static void testPages(AttnContext *context) {
  enum { pages = 264, page = 16, d = 64 };
  static uint16_t pool[pages * page * d], rows[8 * d];
  static int32_t numbers[pages];
  int64_t q[4] = {1, 8, 1, d}, k[4] = {pages, 1, page, d};
  int64_t table[2] = {1, pages};
  AttnTensor inputs[4] = {{rows, ATTN_BF16, 4, q, NULL},
                          {pool, ATTN_BF16, 4, k, NULL},
                          {pool, ATTN_BF16, 4, k, NULL},
                          {numbers, ATTN_I32, 2, table, NULL}};
  AttnAttentionDesc desc = {0};
  desc.structSize = sizeof(desc);
  desc.dtype = ATTN_BF16;
  desc.headDim = d;
  desc.blockTable = page;
  AttnCompileOptions options = {0};
  options.structSize = sizeof(options);
  options.target = "sm_90a";
  AttnKernel *kernel;
  ok(attnAttentionKernel(context, &desc, inputs, 4, &options, &kernel));
  CHECK(strstr(attnKernelExplain(kernel), "splits: automatic"));
  CHECK(strstr(attnKernelExplain(kernel), "heads: packed"));
  CHECK(strstr(attnKernelExplain(kernel), "a tile is 4 boxes of 16"));
  attnKernelDestroy(kernel);
  /* A few pages are read in one part. */
  table[1] = 8;
  ok(attnAttentionKernel(context, &desc, inputs, 4, &options, &kernel));
  CHECK(!strstr(attnKernelExplain(kernel), "splits: automatic"));
  attnKernelDestroy(kernel);
}

static void testOptions(AttnContext *context) {
  Call call;
  makeCall(&call, 1, 2, 2, 20, 30, 16);
  size_t before = attnContextNumCached(context);
  ok(run(context, &call));
  /* What is the same in other words. */
  call.desc.monoid = "softmax";
  call.desc.numOutputs = 1;
  call.desc.valueDim = 16;
  ok(run(context, &call));
  CHECK(attnContextNumCached(context) == before);
  /* What is not. */
  call.desc.causal = ATTN_CAUSAL_TOP_LEFT;
  ok(run(context, &call));
  CHECK(attnContextNumCached(context) == before + 1);
  char monoid[] = "sigmoid_sum";
  call.desc.monoid = monoid;
  ok(run(context, &call));
  CHECK(attnContextNumCached(context) == before + 2);
  /* The text counts, not where it lies. */
  strcpy(monoid, "relu_sum");
  ok(run(context, &call));
  CHECK(attnContextNumCached(context) == before + 3);
  call.desc.monoid = NULL;
  /* Sizes that the caller expects are taken as they are. */
  call.desc.expectedSizes[2] = 20;
  ok(run(context, &call));
  CHECK(attnContextNumCached(context) == before + 4);
  free(call.memory);
}

/* Values that are columns of the keys take the kernel of such, said or not. */
static void testLatents(AttnContext *context) {
  Call call;
  makeCall(&call, 1, 2, 1, 3, 30, 16);
  int64_t values[4] = {1, 1, 30, 12}, rows[4] = {1, 2, 3, 12};
  int64_t strides[4] = {30 * 16, 30 * 16, 16, 1};
  call.desc.valueDim = 12;
  call.inputs[1].strides = strides;
  const AttnTensor apart = {call.inputs[2].data, ATTN_F32, 4, values, strides};
  const AttnTensor within = {call.inputs[1].data, ATTN_F32, 4, values, strides};
  call.output.shape = rows;
  float said[72];
  call.inputs[2] = within;
  call.desc.valueInKey = 1;
  ok(run(context, &call));
  memcpy(said, call.output.data, sizeof(said));
  size_t before = attnContextNumCached(context);
  call.desc.valueInKey = 0;
  memset(call.output.data, 0, sizeof(said));
  ok(run(context, &call));
  CHECK(memcmp(said, call.output.data, sizeof(said)) == 0);
  CHECK(attnContextNumCached(context) == before);
  /* Other memory, later columns and rows further apart are values of their
     own. */
  call.inputs[2] = apart;
  ok(run(context, &call));
  CHECK(memcmp(said, call.output.data, sizeof(said)) != 0);
  CHECK(attnContextNumCached(context) == before + 1);
  call.inputs[2] = within;
  call.inputs[2].data = (float *)within.data + 4;
  ok(run(context, &call));
  CHECK(attnContextNumCached(context) == before + 1);
  int64_t wide[4] = {30 * 12, 30 * 12, 12, 1};
  call.inputs[2] = within;
  call.inputs[2].strides = wide;
  ok(run(context, &call));
  CHECK(attnContextNumCached(context) == before + 1);
  free(call.memory);
}

static void testRefusals(AttnContext *context) {
  Call call;
  makeCall(&call, 1, 2, 2, 20, 30, 16);
  ok(run(context, &call));
  fails(attnAttention(NULL, &call.desc, call.inputs, 3, &call.output, 1, NULL),
        "but got null");
  fails(attnAttention(context, NULL, call.inputs, 3, &call.output, 1, NULL),
        "but got null");
  fails(attnAttention(context, &call.desc, NULL, 3, &call.output, 1, NULL),
        "expected tensors, but got null");
  fails(
      attnAttention(context, &call.desc, call.inputs, 1, &call.output, 1, NULL),
      "expected 3 inputs (q, k, v), but got 1");
  fails(attnAttention(context, &call.desc, call.inputs, 3, NULL, 0, NULL),
        "expected 1 outputs");
  fails(
      attnAttention(context, &call.desc, call.inputs, 3, call.inputs, 1, NULL),
      "memory of its own");
  AttnRunOptions options = {0};
  options.structSize = sizeof(options);
  options.place = (AttnPlace)2;
  fails(attnAttention(context, &call.desc, call.inputs, 3, &call.output, 1,
                      &options),
        "expected place to be 0 or 1, but got 2");
  int32_t rank = call.inputs[0].rank;
  call.inputs[0].rank = 3;
  fails(run(context, &call), "'q' of shape [b, hq, sq, 16]");
  call.inputs[0].rank = 17;
  fails(run(context, &call), "a rank between 0 and 16");
  call.inputs[0].rank = rank;
  call.rows[2] = -1;
  fails(run(context, &call), "sizes between 0 and 2147418111");
  call.rows[2] = INT64_MAX;
  fails(run(context, &call), "sizes between 0 and 2147418111");
  call.rows[2] = 2147418112;
  fails(run(context, &call), "sizes between 0 and 2147418111");
  call.rows[2] = 20;
  call.inputs[1].dtype = ATTN_F16;
  fails(run(context, &call), "'k' to be f32, but got f16");
  call.inputs[1].dtype = (AttnDType)99;
  fails(run(context, &call), "a dtype between 0 and 9");
  call.inputs[1].dtype = ATTN_F32;
  /* A description that is wrong is wrong each time, and is not kept. */
  size_t before = attnContextNumCached(context);
  for (int i = 0; i < 2; ++i) {
    call.desc.monoid = "average";
    fails(run(context, &call), "'average'");
    call.desc.monoid = NULL;
    call.desc.causal = (AttnCausal)7;
    fails(run(context, &call), "expected causal to be 0, 1 or 2, but got 7");
    call.desc.causal = ATTN_CAUSAL_NONE;
  }
  CHECK(attnContextNumCached(context) == before);
  ok(run(context, &call));
  free(call.memory);
}

static void takeText(const char *text, void *user) {
  snprintf(user, 100, "%s", text);
}

static void testMonoids(void) {
  char text[100] = "";
  ok(attnMonoidOutputs("softmax_entropy", takeText, text));
  CHECK(strcmp(text, "o, lse, entropy") == 0);
  fails(attnMonoidOutputs("average", takeText, text), "'average'");
  fails(attnMonoidOutputs("attn.monoid", takeText, text), "<monoid>");
  fails(attnMonoidOutputs(NULL, takeText, text), "null");
  fails(attnMonoidOutputs("softmax", NULL, text), "null");
}

typedef struct Work {
  AttnContext *context;
  Call call;
  int rounds;
} Work;

static void *work(void *user) {
  Work *w = user;
  for (int i = 0; i < w->rounds; ++i)
    ok(run(w->context, &w->call));
  return NULL;
}

/* Many threads that ask for one kernel at once get one; while they run, others
   compile, the cache is cleared and the process forks. */
static void testThreads(AttnContext *context) {
  enum { count = 8 };
  Work workers[count];
  pthread_t threads[count];
  attnContextClearCache(context);
  attnSetNumThreads(1);
  for (int i = 0; i < count; ++i) {
    workers[i].context = context;
    workers[i].rounds = 1;
    makeCall(&workers[i].call, 1, 1, 1, 30, 30, 24);
    CHECK(!pthread_create(&threads[i], NULL, work, &workers[i]));
  }
  for (int i = 0; i < count; ++i)
    CHECK(!pthread_join(threads[i], NULL));
  CHECK(attnContextNumCached(context) == 1);
  for (int i = 0; i < count; ++i) {
    workers[i].rounds = 200;
    CHECK(!pthread_create(&threads[i], NULL, work, &workers[i]));
  }
  for (int i = 0; i < 4; ++i) {
    CHECK(runs(context, 1, 1, 1, 20 + i, 30, 32 + 8 * i) <= 2);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(60);
      runs(context, 1, 1, 1, 30, 30, 24);
      runs(context, 1, 1, 1, 20, 30, 96);
      _exit(0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    attnContextClearCache(context);
  }
  for (int i = 0; i < count; ++i) {
    CHECK(!pthread_join(threads[i], NULL));
    CHECK(getError(&workers[i].call) < 1e-5);
    free(workers[i].call.memory);
  }
  attnSetNumThreads(0);
}

int main(void) {
  AttnContext *context;
  ok(attnContextCreate(&context));
  testClasses(context);
  testPages(context);
  testOptions(context);
  testLatents(context);
  testRefusals(context);
  testMonoids();
  testThreads(context);
  attnContextDestroy(context);
  printf("attention\n");
  return 0;
}
