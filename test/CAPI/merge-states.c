/* RUN: %cc_capi %s -o %t -lm && %t
   Results over parts of the keys through the C ABI, and what its callers get
   wrong.

   Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
   SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#include "attn-c/States.h"
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

#define fails(ERROR, TEXT) refuses(ERROR, TEXT, __LINE__)

static void refuses(AttnError *error, const char *text, int line) {
  if (!error || strcmp(attnErrorMessage(error), text)) {
    fprintf(stderr, "line %d: expected '%s', but got '%s'\n", line, text,
            error ? attnErrorMessage(error) : "success");
    exit(1);
  }
  attnErrorDestroy(error);
}

enum { PARTS = 3, ROWS = 5000, D = 4 };
static float o[PARTS * ROWS * D], lse[PARTS * ROWS];
static float mergedO[ROWS * D + 1], mergedLse[ROWS + 1];

int main(void) {
  AttnContext *context;
  CHECK(!attnContextCreate(&context));
  for (int p = 0; p < PARTS; ++p)
    for (int row = 0; row < ROWS; ++row) {
      /* Part 1 is empty, and holds what it likes; row 7 has no part. */
      lse[p * ROWS + row] = p == 1 || row == 7 ? -INFINITY : (float)(row % 9);
      for (int c = 0; c < D; ++c)
        o[(p * ROWS + row) * D + c] = p == 1 ? NAN : (float)(p + row);
    }
  mergedO[ROWS * D] = mergedLse[ROWS] = 77;
  int64_t oShape[] = {PARTS, 1, ROWS, D}, lseShape[] = {PARTS, 1, ROWS};
  AttnTensor in = {o, ATTN_F32, 4, oShape, NULL},
             sums = {lse, ATTN_F32, 3, lseShape, NULL},
             out = {mergedO, ATTN_F32, 3, oShape + 1, NULL},
             outSums = {mergedLse, ATTN_F32, 2, lseShape + 1, NULL};
  AttnError *error = attnMergeStates(context, &in, &sums, &out, &outSums, NULL);
  CHECK(!error);
  for (int row = 0; row < ROWS; ++row) {
    float want = row == 7 ? 0 : (float)(row + 1);
    CHECK(fabsf(mergedO[row * D + 3] - want) <= 1e-6f * want);
    CHECK(row == 7
              ? mergedLse[row] == -INFINITY
              : fabsf(mergedLse[row] - (float)(row % 9) - logf(2)) < 2e-6f);
  }
  CHECK(mergedO[ROWS * D] == 77 && mergedLse[ROWS] == 77);

  /* Outputs of fewer rows are not written behind their end. */
  int64_t few[] = {1, ROWS - 1};
  outSums.shape = few;
  fails(attnMergeStates(context, &in, &sums, &out, &outSums, NULL),
        "expected the merged lse of shape [1, 5000], but got [1, 4999]");
  outSums.shape = lseShape + 1;
  in.rank = 3;
  fails(attnMergeStates(context, &in, &sums, &out, &outSums, NULL),
        "expected lse [parts, b, h, s] and o [parts, b, h, s, dv], or both "
        "without b, but got 3 and 3 dimensions");
  in.rank = 4;
  sums.dtype = ATTN_F16;
  fails(attnMergeStates(context, &in, &sums, &out, &outSums, NULL),
        "expected o of type f32, f16 or bf16, and lse of f32, but got f32 and "
        "f16");
  fails(attnMergeStates(context, &in, NULL, &out, &outSums, NULL),
        "expected a context and tensors, but got null");
  AttnRunOptions options = {.structSize = sizeof(options), .place = 7};
  fails(attnMergeStates(context, &in, &sums, &out, &outSums, &options),
        "expected place to be 0 or 1, but got 7");
  attnContextDestroy(context);
  return 0;
}
