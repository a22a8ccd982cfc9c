/* RUN: %cc_capi %s -o %t -lm && %t
   A forward pass with statistics, and the backward pass of the same
   description: gradients against differences of the loss.

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

static void fails(AttnError *error, const char *text) {
  if (!error || !strstr(attnErrorMessage(error), text)) {
    fprintf(stderr, "expected '%s', but got '%s'\n", text,
            attnErrorMessage(error));
    exit(1);
  }
  attnErrorDestroy(error);
}

static void keep(const char *text, void *user) {
  char *copy = malloc(strlen(text) + 1);
  CHECK(copy);
  *(char **)user = strcpy(copy, text);
}

enum { H = 2, SQ = 5, SK = 7, D = 4 };
static const int64_t rows[4] = {1, H, SQ, D}, keys[4] = {1, H, SK, D},
                     row[3] = {1, H, SQ};

static AttnTensor tensor(float *data, const int64_t *shape, int32_t rank) {
  AttnTensor result = {data, ATTN_F32, rank, shape, NULL};
  return result;
}

/* Of a description with dropout or without. */
static void differ(AttnContext *context, int drops) {
  AttnAttentionDesc desc;
  memset(&desc, 0, sizeof(desc));
  desc.structSize = sizeof(desc);
  desc.headDim = D;
  desc.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
  desc.numOutputs = 2;
  desc.dropout = drops;
  int given = drops ? 8 : 3;

  char *text = NULL;
  if (drops) {
    /* The share that is dropped has no gradient. */
    ok(attnDifferentiateAttention(&desc, NULL, keep, &text));
    free(text);
    fails(attnDifferentiateAttention(&desc, "dropout_p", keep, &text),
          "read by factor");
  }
  desc.anyOrder = 1;
  ok(attnDifferentiateAttention(&desc, "q, v", keep, &text));
  CHECK(strstr(text, "any_order"));
  free(text);
  desc.anyOrder = 0;
  ok(attnDifferentiateAttention(&desc, "q, v", keep, &text));
  CHECK(!strstr(text, "any_order"));
  AttnKernel *kernel;
  ok(attnCompile(context, text, strlen(text), NULL, &kernel));
  int64_t forward = attnKernelFindEntry(kernel, "attention_forward");
  int64_t backward = attnKernelFindEntry(kernel, "attention_backward");
  CHECK(forward >= 0 && backward >= 0);
  /* o, lse, and the maximum and the sum of each row. */
  CHECK(attnKernelNumOutputs(kernel, forward) == 4);
  CHECK((int)attnKernelNumInputs(kernel, backward) == given + 2 + 1 + 2);
  CHECK(attnKernelNumOutputs(kernel, backward) == 2);

  float q[H * SQ * D], k[H * SK * D], v[H * SK * D], o[H * SQ * D], lse[H * SQ],
      top[H * SQ], sum[H * SQ], dO[H * SQ * D], dlse[H * SQ], dq[H * SQ * D],
      dv[H * SK * D];
  for (int i = 0; i < H * SK * D; ++i) {
    k[i] = sinf(i * 1.3f);
    v[i] = cosf(i * 0.7f);
  }
  for (int i = 0; i < H * SQ * D; ++i) {
    q[i] = sinf(i * 0.9f + 1);
    dO[i] = cosf(i * 1.1f);
  }
  for (int i = 0; i < H * SQ; ++i)
    dlse[i] = sinf(i);
  float share = 0.25f;
  int32_t words[4] = {7, 1, 3, 0};
  AttnTensor inputs[13] = {tensor(q, rows, 4), tensor(k, keys, 4),
                           tensor(v, keys, 4)};
  inputs[3] = tensor(&share, NULL, 0);
  for (int i = 0; i < 4; ++i) {
    AttnTensor word = {&words[i], ATTN_I32, 0, NULL, NULL};
    inputs[4 + i] = word;
  }
  inputs[given] = tensor(top, row, 3);
  inputs[given + 1] = tensor(sum, row, 3);
  inputs[given + 2] = tensor(o, rows, 4);
  inputs[given + 3] = tensor(dO, rows, 4);
  inputs[given + 4] = tensor(dlse, row, 3);
  AttnTensor outputs[4] = {tensor(o, rows, 4), tensor(lse, row, 3),
                           tensor(top, row, 3), tensor(sum, row, 3)};
  AttnTensor gradients[2] = {tensor(dq, rows, 4), tensor(dv, keys, 4)};
  ok(attnKernelRun(kernel, forward, inputs, given, outputs, 4));
  ok(attnKernelRun(kernel, backward, inputs, given + 5, gradients, 2));

  /* The loss is do . o + dlse . lse, along each coordinate of q and v. */
  double worst = 0;
  for (int which = 0; which < 2; ++which) {
    float *x = which ? v : q, *found = which ? dv : dq;
    for (int i = 0; i < (which ? H * SK * D : H * SQ * D); ++i) {
      double loss[2];
      float here = x[i], step = 0.01f;
      for (int side = 0; side < 2; ++side) {
        x[i] = side ? here + step : here - step;
        ok(attnKernelRun(kernel, forward, inputs, given, outputs, 4));
        loss[side] = 0;
        for (int j = 0; j < H * SQ * D; ++j)
          loss[side] += (double)dO[j] * o[j];
        for (int j = 0; j < H * SQ; ++j)
          loss[side] += (double)dlse[j] * lse[j];
      }
      x[i] = here;
      double want = (loss[1] - loss[0]) / (2 * step);
      worst = fmax(worst, fabs(want - found[i]));
    }
  }
  CHECK(worst < 1e-3);
  attnKernelDestroy(kernel);
  free(text);
}

int main(void) {
  AttnContext *context;
  ok(attnContextCreate(&context));
  differ(context, 0);
  differ(context, 1);
  AttnAttentionDesc desc;
  memset(&desc, 0, sizeof(desc));
  desc.structSize = sizeof(desc);
  desc.headDim = D;

  /* Of a text, whose function keeps its name. */
  const char *source =
      "func.func @f(%a: tensor<?x?x?x4xf32>, %b: tensor<?x?x?x4xf32>) -> "
      "tensor<?x?x?x4xf32> {\n"
      "  %o = attn.attention monoid(@relu_sum) queries(%a : "
      "tensor<?x?x?x4xf32>) keys(%b : tensor<?x?x?x4xf32>) values(%b : "
      "tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32>\n"
      "  return %o : tensor<?x?x?x4xf32>\n}\n";
  char *other = NULL;
  ok(attnDifferentiate(source, strlen(source), "a", NULL, keep, &other));
  CHECK(strstr(other, "@f_forward(%a: ") && strstr(other, "@f_backward(%a: "));
  AttnKernel *second;
  ok(attnCompile(context, other, strlen(other), NULL, &second));
  CHECK(attnKernelFindEntry(second, "f") < 0);

  fails(attnDifferentiate(source, strlen(source), NULL, NULL, keep, &other),
        "argument 1 twice");
  fails(attnDifferentiate(source, strlen(source), "c", NULL, keep, &other),
        "expected inputs to be names out of a, b, but got 'c'");
  fails(attnDifferentiate("func", 4, NULL, "mine", keep, &other), "mine:1:");
  fails(attnDifferentiate("", 0, NULL, NULL, keep, &other),
        "expected one public function");
  source = "func.func @f() { return }";
  fails(attnDifferentiate(source, strlen(source), NULL, NULL, keep, &other),
        "expected a function with an operation of attn to differentiate, but "
        "'f' has none");
  fails(attnDifferentiate(NULL, 0, NULL, NULL, keep, &other), "got null");
  fails(attnDifferentiateAttention(NULL, NULL, keep, &other), "got null");
  fails(attnDifferentiateAttention(&desc, "bias", keep, &other),
        "expected inputs to be names out of q, k, v, but got 'bias'");
  desc.monoid = "welford";
  free(other);
  ok(attnDifferentiateAttention(&desc, NULL, keep, &other));
  CHECK(strstr(other, "attn.unfold"));

  attnKernelDestroy(second);
  attnContextDestroy(context);
  free(other);
  return 0;
}
