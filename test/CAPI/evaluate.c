// What a text means, exactly and as emulations in several orders have it.
// RUN: %cc_capi %s -o %t -lm && %t

#include "attn-c/attn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);          \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

static const char text[] =
    "func.func @f(%q: tensor<1x1x?x4xbf16>, %k: tensor<1x1x?x4xbf16>,\n"
    "             %v: tensor<1x1x?x1xbf16>) -> tensor<1x1x?x1xf32> {\n"
    "  %o = attn.attention queries(%q : tensor<1x1x?x4xbf16>)\n"
    "      keys(%k : tensor<1x1x?x4xbf16>) values(%v : tensor<1x1x?x1xbf16>)\n"
    "      -> tensor<1x1x?x1xf32>\n"
    "  return %o : tensor<1x1x?x1xf32>\n"
    "}\n";

enum { SQ = 3, SK = 200 };
static uint16_t q[SQ * 4], k[SK * 4], v[SK];
static const int64_t qShape[] = {1, 1, SQ, 4}, kShape[] = {1, 1, SK, 4},
                     vShape[] = {1, 1, SK, 1}, oShape[] = {1, 1, SQ, 1};
static int64_t rowsSeen, rowCount;

static void seeRow(void *user, int64_t row, int64_t count) {
  CHECK(user == &rowsSeen && row == rowsSeen++);
  rowCount = count;
}

static AttnError *evaluate(const AttnEvaluateOptions *options, double *out) {
  AttnTensor in[] = {{q, ATTN_BF16, 4, qShape, NULL},
                     {k, ATTN_BF16, 4, kShape, NULL},
                     {v, ATTN_BF16, 4, vShape, NULL}};
  AttnTensor to = {out, ATTN_F64, 4, oShape, NULL};
  return attnEvaluateWith(text, strlen(text), NULL, in, 3, &to, 1, options);
}

static void fails(const AttnEvaluateOptions *options, const char *what) {
  double out[SQ];
  AttnError *error = evaluate(options, out);
  CHECK(error && strstr(attnErrorMessage(error), what));
  attnErrorDestroy(error);
}

int main(void) {
  // Scores of up to 100; bf16 is the upper half of a float.
  srand(1);
  for (int i = 0; i < SQ * 4 + SK * 5; ++i) {
    float x = (float)(rand() % 2001 - 1000) / 100;
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    uint16_t half = (uint16_t)(bits >> 16);
    *(i < SQ * 4            ? &q[i]
      : i < SQ * 4 + SK * 4 ? &k[i - SQ * 4]
                            : &v[i - SQ * 4 - SK * 4]) = half;
  }
  double exact[SQ], other[SQ], distinct[8];
  CHECK(!evaluate(NULL, exact));

  // Every order errs, each in its own way; and less with scores in f32.
  AttnEvaluateOptions options = {0};
  options.structSize = sizeof(options);
  double narrow = 0, wide = 0;
  for (options.order = 0; options.order < 8; ++options.order) {
    options.rounding = ATTN_ROUND_F32;
    CHECK(!evaluate(&options, other));
    double error = fabs(other[0] - exact[0]);
    CHECK(error < 1e-3);
    distinct[options.order] = other[0] + other[1] + other[2];
    options.rounding = ATTN_ROUND_BF16;
    options.wideScores = 0;
    CHECK(!evaluate(&options, other));
    for (int i = 0; i < SQ; ++i)
      narrow += fabs(other[i] - exact[i]);
    options.wideScores = 1;
    CHECK(!evaluate(&options, other));
    for (int i = 0; i < SQ; ++i)
      wide += fabs(other[i] - exact[i]);
  }
  CHECK(wide < narrow);
  int kinds = 0;
  for (int i = 0; i < 8; ++i) {
    int before = 0;
    for (int j = 0; j < i; ++j)
      before |= distinct[i] == distinct[j];
    kinds += !before;
  }
  CHECK(kinds >= 2);

  options.order = 0;
  options.progress = seeRow;
  options.progressUser = &rowsSeen;
  CHECK(!evaluate(&options, other));
  CHECK(rowsSeen == SQ && rowCount == SQ);

  options.order = 8;
  fails(&options, "expected an order between 0 and 7, but got 8");
  options.order = 0;
  options.rounding = (AttnRounding)4;
  fails(&options, "expected a rounding between 0 and 3, but got 4");
  options.structSize = 4000;
  fails(&options, "structSize");
  return 0;
}
