/* RUN: %cc_capi %s -o %t -lm && %t
   Rows that are appended to caches in the call that attends to them, by
   attnAttention and by a kernel that was compiled for it.

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

static void succeeds(AttnError *error, int line) {
  if (!error)
    return;
  fprintf(stderr, "line %d: error: %s\n", line, attnErrorMessage(error));
  exit(1);
}
#define ok(ERROR) succeeds(ERROR, __LINE__)

enum { capacity = 8, d = 4 };

static AttnTensor makeTensor(void *data, AttnDType dtype, int32_t rank,
                             const int64_t *shape, const int64_t *strides) {
  AttnTensor tensor = {0};
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.rank = rank;
  tensor.shape = shape;
  tensor.strides = strides;
  return tensor;
}

int main(void) {
  AttnContext *context = NULL;
  ok(attnContextCreate(&context));
  AttnAttentionDesc desc = {0};
  desc.structSize = sizeof(desc);
  desc.headDim = d;
  desc.lengths = 1;
  desc.append = 1;

  float q[d] = {0}, k[capacity * d], v[capacity * d], o[d];
  float newK[2 * d], newV[2 * d];
  for (int i = 0; i < capacity * d; ++i)
    k[i] = v[i] = (float)i;
  for (int i = 0; i < 2 * d; ++i)
    newK[i] = -1.0f, newV[i] = 100.0f;
  int32_t length = 3;
  int64_t one = 1, rowShape[] = {1, 1, 1, d}, rowStrides[] = {d, d, d, 1};
  int64_t shape[] = {1, 1, capacity, d};
  int64_t strides[] = {capacity * d, capacity * d, d, 1};
  int64_t newShape[] = {1, 1, 2, d}, newStrides[] = {2 * d, 2 * d, d, 1};
  AttnTensor inputs[] = {makeTensor(q, ATTN_F32, 4, rowShape, rowStrides),
                         makeTensor(k, ATTN_F32, 4, shape, strides),
                         makeTensor(v, ATTN_F32, 4, shape, strides),
                         makeTensor(&length, ATTN_I32, 1, &one, &one),
                         makeTensor(newK, ATTN_F32, 4, newShape, newStrides),
                         makeTensor(newV, ATTN_F32, 4, newShape, newStrides)};
  AttnTensor output = makeTensor(o, ATTN_F32, 4, rowShape, rowStrides);
  ok(attnAttention(context, &desc, inputs, 6, &output, 1, NULL));
  // Queries of 0 average the values, of rows 0 to 2 and two new ones.
  for (int c = 0; c < d; ++c)
    CHECK(fabsf(o[c] - (3.0f * (float)(c + d) + 200.0f) / 5.0f) < 1e-4f);
  for (int i = 0; i < capacity * d; ++i) {
    int isNew = i / d == 3 || i / d == 4;
    CHECK(k[i] == (isNew ? -1.0f : (float)i));
    CHECK(v[i] == (isNew ? 100.0f : (float)i));
  }

  AttnKernel *kernel = NULL;
  ok(attnCompileAttention(context, &desc, NULL, &kernel));
  for (size_t i = 0; i < 8; ++i)
    CHECK((attnKernelArgIsWritten(kernel, 0, i) != 0) == (i == 1 || i == 2));
  CHECK(!attnKernelArgIsWritten(kernel, 1, 1));
  length = 7; // there is room for one
  AttnError *error = attnKernelRun(kernel, 0, inputs, 6, &output, 1);
  CHECK(error && strstr(attnErrorMessage(error), "between 0 and sk-s_new = 6"));
  attnErrorDestroy(error);
  CHECK(k[7 * d] == (float)(7 * d));
  length = 6;
  ok(attnKernelRun(kernel, 0, inputs, 6, &output, 1));
  CHECK(k[6 * d] == -1.0f && v[7 * d] == 100.0f);
  attnKernelDestroy(kernel);

  // The values are the first columns of the keys.
  desc.valueDim = 2;
  desc.valueInKey = 1;
  length = 1;
  int64_t narrow[] = {1, 1, capacity, 2}, narrowRow[] = {1, 1, 1, 2};
  AttnTensor latent[] = {inputs[0], inputs[1],
                         makeTensor(k, ATTN_F32, 4, narrow, strides), inputs[3],
                         inputs[4]};
  output.shape = narrowRow;
  ok(attnAttention(context, &desc, latent, 5, &output, 1, NULL));
  CHECK(fabsf(o[0] - (0.0f - 2.0f) / 3.0f) < 1e-5f);
  CHECK(fabsf(o[1] - (1.0f - 2.0f) / 3.0f) < 1e-5f);
  latent[2].data = v;
  error = attnAttention(context, &desc, latent, 5, &output, 1, NULL);
  CHECK(error && strstr(attnErrorMessage(error), "the first columns of 'k'"));
  attnErrorDestroy(error);
  desc.valueDim = 5;
  error = attnCompileAttention(context, &desc, NULL, &kernel);
  CHECK(error && strstr(attnErrorMessage(error), "at most as many columns"));
  attnErrorDestroy(error);
  desc.valueDim = 2;
  desc.lengths = 0;
  error = attnCompileAttention(context, &desc, NULL, &kernel);
  CHECK(error && strstr(attnErrorMessage(error), "with kv_lengths"));
  attnErrorDestroy(error);
  attnContextDestroy(context);
  return 0;
}
