/* RUN: %cc_capi %s -o %t -lm && env ATTN_PTXAS=none %t
   A description without sizes is compiled to a plan that chooses by those of a
   run, among the kernels that attnAttention would compile for them.

   Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
   SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#include "attn-c/attn.h"
#include <math.h>
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

static void ok(AttnError *error) {
  if (!error)
    return;
  fprintf(stderr, "error: %s\n", attnErrorMessage(error));
  exit(1);
}

/* The code of a GPU's kernel but for its name and the numbers of functions in
   labels, which is to be freed. */
static char *getCode(const AttnKernel *kernel, const char *name) {
  char entry[100];
  snprintf(entry, sizeof(entry), ".entry %s(", name);
  const char *code = strstr(attnKernelPtx(kernel), entry);
  CHECK(code);
  char *text = calloc(strlen(code) + 1, 1), *to = text;
  size_t length = strlen(name);
  static const char label[] = "$L__BB";
  for (int depth = 0; *code;) {
    if (strncmp(code, name, length) == 0) {
      code += length;
      continue;
    }
    if (strncmp(code, label, sizeof(label) - 1) == 0)
      for (code += sizeof(label) - 1; *code >= '0' && *code <= '9';)
        ++code;
    depth += *code == '{';
    if (*code == '}' && --depth == 0)
      break;
    *to++ = *code++;
  }
  CHECK(strstr(text, "wgmma"));
  return text;
}

/* Of the kernels of `plan`, those of `variant` are those of a call. */
static void checkVariant(AttnContext *context, AttnAttentionDesc *desc,
                         const AttnKernel *plan, const char *variant,
                         int64_t rows, int64_t keys) {
  /* Tiles of few heads would leave multiprocessors idle, which calls mend. */
  int64_t q[4] = {1, 32, rows, desc->headDim}, k[4] = {1, 32, keys, q[3]};
  AttnTensor inputs[2] = {{NULL, desc->dtype, 4, q, NULL},
                          {NULL, desc->dtype, 4, k, NULL}};
  AttnCompileOptions options = {0};
  options.structSize = sizeof(options);
  options.target = "sm_90a";
  AttnKernel *kernel;
  ok(attnAttentionKernel(context, desc, inputs, 2, &options, &kernel));
  char *ahead = getCode(plan, variant),
       *called = getCode(kernel, "attention_kernel0");
  if (strcmp(ahead, called) != 0) {
    fprintf(stderr, "%s is not the kernel of %d rows and %d keys\n", variant,
            (int)rows, (int)keys);
    exit(1);
  }
  free(ahead);
  free(called);
  attnKernelDestroy(kernel);
}

static void testKernels(AttnContext *context) {
  AttnAttentionDesc desc = {0};
  AttnCompileOptions options = {0};
  AttnKernel *plan;
  desc.structSize = sizeof(desc);
  desc.dtype = ATTN_BF16;
  desc.headDim = 128;
  options.structSize = sizeof(options);
  options.target = "sm_90a";
  options.keepIr = 1;
  ok(attnCompileAttention(context, &desc, &options, &plan));
  CHECK(attnKernelNumDeviceKernels(plan) == 11);
  CHECK(attnKernelNumEntries(plan) == 1);
  CHECK(strstr(attnKernelExplain(plan), "class: many keys #attn.sizes<keys = "
                                        "8192 to any>"));
  CHECK(strstr(attnKernelIr(plan, "tile"), "tile.dispatch"));
  /* What it took says nothing of one schedule. */
  AttnError *refused = attnKernelRecordSchedule(plan, 1);
  CHECK(refused && strstr(attnErrorMessage(refused), "with one attention"));
  attnErrorDestroy(refused);
  checkVariant(context, &desc, plan, "attention_kernel0", 1000, 1000);
  checkVariant(context, &desc, plan, "attention_2_kernel0", 3, 9000);
  checkVariant(context, &desc, plan, "attention_4_kernel0", 16, 300);
  checkVariant(context, &desc, plan, "attention_5_kernel0", 8192, 9000);
  checkVariant(context, &desc, plan, "attention_6_kernel0", 4200, 9000);
  attnKernelDestroy(plan);
  /* A text that has passed a phase goes on from there. */
  for (int i = 0; i < 2; ++i) {
    const char *phase = i ? "nvvm" : "schedule";
    AttnKernel *again;
    options.untilAfter = phase;
    ok(attnCompileAttention(context, &desc, &options, &plan));
    options.untilAfter = NULL;
    const char *text = attnKernelIr(plan, NULL);
    ok(attnCompile(context, text, strlen(text), &options, &again));
    CHECK(attnKernelNumEntries(again) == 1);
    CHECK(attnKernelNumDeviceKernels(again) == 11);
    attnKernelDestroy(again);
    attnKernelDestroy(plan);
  }
  /* Who says the sizes, or the schedule, gets one kernel. */
  desc.expectedSizes[2] = 1000;
  ok(attnCompileAttention(context, &desc, &options, &plan));
  CHECK(attnKernelNumDeviceKernels(plan) == 1);
  attnKernelDestroy(plan);
  desc.expectedSizes[2] = 0;
  desc.schedule = "#attn.schedule<block_q = 128, rows = 64, block_k = 64, "
                  "loop = peeled>";
  ok(attnCompileAttention(context, &desc, &options, &plan));
  CHECK(attnKernelNumDeviceKernels(plan) == 1);
  attnKernelDestroy(plan);
}

/* Runs one kernel on sizes that take each branch, and compares with the
   kernels of attnAttention. */
static void testRuns(AttnContext *context, const char *target, int64_t least) {
  static const int64_t sizes[][5] = {/* b, hq, hk, sq, sk */
                                     {1, 2, 2, 30, 70},  {2, 4, 2, 1, 60},
                                     {1, 2, 1, 1, 8300}, {1, 2, 2, 1, 8200},
                                     {3, 1, 1, 9, 20},   {1, 1, 1, 0, 10},
                                     {1, 2, 2, 3, 0}};
  AttnAttentionDesc desc = {0};
  AttnCompileOptions options = {0};
  AttnKernel *plan;
  const int64_t d = 16;
  desc.structSize = sizeof(desc);
  desc.headDim = d;
  desc.numOutputs = 2;
  options.structSize = sizeof(options);
  options.target = target;
  ok(attnCompileAttention(context, &desc, &options, &plan));
  CHECK(strstr(attnKernelExplain(plan), "class: "));
  for (size_t n = 0; n < sizeof(sizes) / sizeof(sizes[0]); ++n) {
    const int64_t *s = sizes[n];
    if (s[4] > least)
      continue;
    int64_t q[4] = {s[0], s[1], s[3], d}, k[4] = {s[0], s[2], s[4], d};
    int64_t rows = s[0] * s[1] * s[3], keys = s[0] * s[2] * s[4];
    float *memory = malloc(
        sizeof(float) * (size_t)(3 * rows * d + 2 * rows + 2 * keys * d + 1));
    float *kData = memory + rows * d, *v = kData + keys * d, *o = v + keys * d,
          *lse = o + rows * d, *o2 = lse + rows, *lse2 = o2 + rows * d;
    for (int64_t i = 0; i < rows * d + 2 * keys * d; ++i)
      memory[i] = (float)((i * 37 % 101) - 50) / 50;
    AttnTensor inputs[3] = {{memory, ATTN_F32, 4, q, NULL},
                            {kData, ATTN_F32, 4, k, NULL},
                            {v, ATTN_F32, 4, k, NULL}};
    AttnTensor outputs[2] = {{o, ATTN_F32, 4, q, NULL},
                             {lse, ATTN_F32, 3, q, NULL}};
    AttnTensor others[2] = {{o2, ATTN_F32, 4, q, NULL},
                            {lse2, ATTN_F32, 3, q, NULL}};
    ok(attnKernelRun(plan, 0, inputs, 3, outputs, 2));
    ok(attnAttention(context, &desc, inputs, 3, others, 2, NULL));
    for (int64_t i = 0; i < rows * d; ++i)
      CHECK(fabsf(o[i] - o2[i]) < 1e-5f);
    for (int64_t i = 0; i < rows; ++i)
      CHECK(lse[i] == lse2[i] || fabsf(lse[i] - lse2[i]) < 1e-4f);
    free(memory);
  }
  attnKernelDestroy(plan);
}

int main(void) {
  AttnContext *context;
  ok(attnContextCreate(&context));
  testRuns(context, NULL, 1 << 20);
  testRuns(context, "emulator:sm_90a", 100);
  testKernels(context);
  attnContextDestroy(context);
  return 0;
}
