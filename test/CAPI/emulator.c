// Code for a GPU, run by the emulator on tensors of the host: a client in C.
// RUN: %cc_capi %s -o %t -lm && %t
// RUN: env ATTN_EMULATOR=sweep:4 %t
// RUN: not env ATTN_EMULATOR=never %t 2>&1 | FileCheck %s
// CHECK: expected ATTN_EMULATOR to list 'eager', {{.*}}, but got 'never'

#include "attn-c/attn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void ok(AttnError *error) {
  if (!error)
    return;
  fprintf(stderr, "unexpected error: %s\n", attnErrorMessage(error));
  exit(1);
}

enum { SQ = 70, SK = 90, D = 32 };

static _Alignas(16) float q[SQ * D], k[SK * D], v[SK * D], o[SQ * D];

/// One row at a time.
static void check(void) {
  for (int i = 0; i < SQ; ++i) {
    double weights[SK], sum = 0, largest = -INFINITY;
    for (int j = 0; j < SK; ++j) {
      weights[j] = 0;
      for (int d = 0; d < D; ++d)
        weights[j] += (double)q[i * D + d] * k[j * D + d] / sqrt(D);
      largest = fmax(largest, weights[j]);
    }
    for (int j = 0; j < SK; ++j)
      sum += weights[j] = exp(weights[j] - largest);
    for (int d = 0; d < D; ++d) {
      double expected = 0;
      for (int j = 0; j < SK; ++j)
        expected += weights[j] / sum * v[j * D + d];
      if (!(fabs(expected - o[i * D + d]) < 1e-5)) {
        fprintf(stderr, "expected %g at row %d, but got %g\n", expected, i,
                (double)o[i * D + d]);
        exit(1);
      }
    }
  }
}

int main(void) {
  for (int i = 0; i < SQ * D; ++i)
    q[i] = (float)sin(i * 0.7);
  for (int i = 0; i < SK * D; ++i)
    k[i] = (float)cos(i * 0.3), v[i] = (float)sin(i * 1.1 + 1);
  const int64_t qShape[] = {1, 1, SQ, D}, kShape[] = {1, 1, SK, D};
  AttnTensor in[] = {{q, ATTN_F32, 4, qShape, NULL},
                     {k, ATTN_F32, 4, kShape, NULL},
                     {v, ATTN_F32, 4, kShape, NULL}};
  AttnTensor out[] = {{o, ATTN_F32, 4, qShape, NULL}};
  const char *targets[] = {"emulator:sm_80", "emulator:sm_90a"};
  AttnContext *context;
  ok(attnContextCreate(&context));
  for (int i = 0; i < 2; ++i) {
    AttnAttentionDesc desc = {.structSize = sizeof(desc), .headDim = D};
    AttnCompileOptions options = {.structSize = sizeof(options),
                                  .target = targets[i]};
    AttnKernel *kernel;
    ok(attnCompileAttention(context, &desc, &options, &kernel));
    if (strcmp(attnKernelTarget(kernel), targets[i]) || attnKernelPtx(kernel))
      return 1;
    memset(o, 0xff, sizeof(o));
    ok(attnKernelRun(kernel, 0, in, 3, out, 1));
    check();
    attnKernelDestroy(kernel);
  }
  attnContextDestroy(context);
  return 0;
}
