/* RUN: %cc_capi %s -o %t -lm && %t
   A scan by its description through the C ABI: a gated delta rule from a state,
   and the same in a pool of states.

   Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
   SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#include "attn-c/Scans.h"
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

static void expect(AttnError *error, const char *text, int line) {
  const char *got = error ? attnErrorMessage(error) : "";
  if (!strstr(got, text) || (!*text && error)) {
    fprintf(stderr, "line %d: expected '%s', but got '%s'\n", line, text, got);
    exit(1);
  }
  attnErrorDestroy(error);
}

enum { T = 70, D = 16 };
static float q[T * D], k[T * D], v[T * D], decay[T], beta[T], s0[D * D];
static float o[T * D], s[D * D], want[T * D], pool[3 * D * D];

/* One token after the other, in double. */
static void recur(double *state) {
  for (int t = 0; t < T; ++t)
    for (int c = 0; c < D; ++c) {
      double known = 0, sum = 0;
      for (int d = 0; d < D; ++d) {
        state[d * D + c] *= exp(decay[t]);
        known += k[t * D + d] * state[d * D + c];
      }
      for (int d = 0; d < D; ++d) {
        state[d * D + c] += beta[t] * k[t * D + d] * (v[t * D + c] - known);
        sum += q[t * D + d] * state[d * D + c];
      }
      want[t * D + c] = (float)(0.25 * sum);
    }
}

int main(void) {
  AttnContext *context;
  AttnKernel *kernel;
  CHECK(!attnContextCreate(&context));
  for (int i = 0; i < T * D; ++i) {
    q[i] = sinf((float)i);
    k[i] = 0.25f * cosf(3 * (float)i);
    v[i] = sinf(0.1f * (float)i);
  }
  for (int t = 0; t < T; ++t) {
    decay[t] = t == 20 ? -INFINITY : -0.1f * (float)(t % 5);
    beta[t] = (float)(t % 3) / 2;
  }
  double state[D * D];
  for (int i = 0; i < D * D; ++i)
    state[i] = s0[i] = pool[2 * D * D + i] = cosf((float)i);
  recur(state);

  AttnScanDesc desc;
  memset(&desc, 0, sizeof(desc));
  desc.structSize = sizeof(desc);
  desc.keyDim = desc.valueDim = D;
  desc.gates = ATTN_GATES_HEAD;
  desc.scale = desc.delta = desc.init = desc.final = 1;
  expect(attnCompileScan(context, &desc, NULL, &kernel), "", __LINE__);
  int64_t rows[] = {1, 1, T, D}, tokens[] = {1, 1, T}, states[] = {3, 1, D, D};
  int64_t one[] = {1, 1, D, D}, sequences[] = {1};
  float scale = 0.25f;
  int32_t slot = 2;
  AttnTensor inputs[] = {
      {q, ATTN_F32, 4, rows, NULL},       {k, ATTN_F32, 4, rows, NULL},
      {v, ATTN_F32, 4, rows, NULL},       {&scale, ATTN_F32, 0, NULL, NULL},
      {decay, ATTN_F32, 3, tokens, NULL}, {beta, ATTN_F32, 3, tokens, NULL},
      {s0, ATTN_F32, 4, one, NULL},       {&slot, ATTN_I32, 1, sequences, NULL},
  };
  AttnTensor outputs[] = {{o, ATTN_F32, 4, rows, NULL},
                          {s, ATTN_F32, 4, one, NULL}};
  expect(attnKernelRunOn(kernel, 0, inputs, 7, outputs, 2, NULL), "", __LINE__);
  for (int i = 0; i < T * D; ++i)
    CHECK(fabsf(o[i] - want[i]) < 1e-5f);
  for (int i = 0; i < D * D; ++i)
    CHECK(fabs(s[i] - state[i]) < 1e-5);
  /* Heads and tokens that do not fit are refused before anything runs. */
  tokens[2] = T - 1;
  expect(attnKernelRunOn(kernel, 0, inputs, 7, outputs, 2, NULL), "decay",
         __LINE__);
  tokens[2] = T;
  attnKernelDestroy(kernel);

  desc.init = desc.final = 0;
  desc.slots = 1;
  expect(attnCompileScan(context, &desc, NULL, &kernel), "", __LINE__);
  memset(o, 0, sizeof(o));
  inputs[6] = (AttnTensor){pool, ATTN_F32, 4, states, NULL};
  expect(attnKernelRunOn(kernel, 0, inputs, 8, outputs, 1, NULL), "", __LINE__);
  for (int i = 0; i < T * D; ++i)
    CHECK(fabsf(o[i] - want[i]) < 1e-5f);
  for (int i = 0; i < D * D; ++i)
    CHECK(pool[i] == 0 && fabs(pool[2 * D * D + i] - state[i]) < 1e-5);
  attnKernelDestroy(kernel);

  /* States of the sequences themselves; and the code of a GPU, which the
     emulator runs. */
  const char *targets[] = {NULL, "emulator:sm_80", "emulator:sm_90a"};
  desc.slots = ATTN_SLOTS_OWN;
  for (int i = 0; i < 3; ++i) {
    AttnCompileOptions options;
    memset(&options, 0, sizeof(options));
    options.structSize = sizeof(options);
    options.target = targets[i];
    expect(attnCompileScan(context, &desc, &options, &kernel), "", __LINE__);
    memcpy(pool, s0, sizeof(s0));
    memset(o, 0, sizeof(o));
    inputs[6] = (AttnTensor){pool, ATTN_F32, 4, one, NULL};
    expect(attnKernelRunOn(kernel, 0, inputs, 7, outputs, 1, NULL), "",
           __LINE__);
    for (int j = 0; j < T * D; ++j)
      CHECK(fabsf(o[j] - want[j]) < 1e-5f);
    for (int j = 0; j < D * D; ++j)
      CHECK(fabs(pool[j] - state[j]) < 1e-5);
    inputs[6] = (AttnTensor){pool, ATTN_F32, 4, states, NULL};
    expect(attnKernelRunOn(kernel, 0, inputs, 7, outputs, 1, NULL), "pool_S",
           __LINE__);
    attnKernelDestroy(kernel);
  }
  /* As many tokens as was said. */
  desc.tokens = T;
  expect(attnCompileScan(context, &desc, NULL, &kernel), "", __LINE__);
  memcpy(pool, s0, sizeof(s0));
  inputs[6] = (AttnTensor){pool, ATTN_F32, 4, one, NULL};
  expect(attnKernelRunOn(kernel, 0, inputs, 7, outputs, 1, NULL), "", __LINE__);
  attnKernelDestroy(kernel);
  desc.tokens = 1;
  expect(attnCompileScan(context, &desc, NULL, &kernel), "", __LINE__);
  expect(attnKernelRunOn(kernel, 0, inputs, 7, outputs, 1, NULL), "expected",
         __LINE__);
  attnKernelDestroy(kernel);
  desc.tokens = -1;
  expect(attnCompileScan(context, &desc, NULL, &kernel),
         "expected tokens of 0 or more", __LINE__);
  desc.tokens = 0;
  desc.slots = 3;
  expect(attnCompileScan(context, &desc, NULL, &kernel),
         "expected slots of ATTN_SLOTS_...", __LINE__);
  desc.slots = ATTN_SLOTS_INDEX;
  desc.poolDtype = ATTN_I32;
  expect(attnCompileScan(context, &desc, NULL, &kernel),
         "expected poolDtype to be", __LINE__);
  desc.poolDtype = ATTN_F32;

  desc.gates = 4;
  expect(attnCompileScan(context, &desc, NULL, &kernel),
         "expected gates of ATTN_GATES_...", __LINE__);
  desc.gates = ATTN_GATES_HEAD;
  desc.weight = 1;
  expect(attnCompileScan(context, &desc, NULL, &kernel),
         "expected delta or erase, without weights", __LINE__);
  attnContextDestroy(context);
  return 0;
}
