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

/// A scan of three tokens whose values are 1, 10, 100 and gates 1, 1/2, 0, from
/// a state in a pool; packed, behind it a sequence without tokens or a state.
static void checkScan(void) {
  static const char scan[] =
      "func.func @f(%q: tensor<1x3x2xf32>, %k: tensor<1x3x2xf32>,\n"
      "    %v: tensor<1x3x1xf32>, %g: tensor<?x3xf32>, %cu: tensor<?xi32>,\n"
      "    %pool: tensor<?x?x2x1xf32>, %slot: tensor<?xi32>)\n"
      "    -> tensor<1x3x1xf32> {\n"
      "  %o = attn.scan queries(%q : tensor<1x3x2xf32>)\n"
      "      keys(%k : tensor<1x3x2xf32>) values(%v : tensor<1x3x1xf32>)\n"
      "      decay(%g : tensor<?x3xf32>) cu_seqlens(%cu : tensor<?xi32>)\n"
      "      slots(%pool : tensor<?x?x2x1xf32>) index(%slot : tensor<?xi32>)\n"
      "      {l2norm} feature {\n"
      "      ^bb0(%x: f32):\n"
      "        %y = arith.addf %x, %x : f32\n"
      "        attn.yield %y : f32\n"
      "      } -> tensor<1x3x1xf32>\n"
      "  return %o : tensor<1x3x1xf32>\n"
      "}\n";
  // Rows of norm 10 after the feature map.
  float x[] = {3, 4, 3, 4, 3, 4}, y[] = {1, 10, 100};
  float gates[] = {0, -0.69314718f, -INFINITY}, pool[] = {9, 9, 0.6f, 0.8f};
  int32_t cu[] = {0, 3, 3}, slots[] = {1, -1};
  const int64_t rows[] = {1, 3, 2}, column[] = {1, 3, 1}, three[] = {1, 3},
                count[] = {3}, pools[] = {2, 1, 2, 1}, two[] = {2},
                wrong[] = {3, 1};
  AttnTensor in[] = {
      {x, ATTN_F32, 3, rows, NULL},   {x, ATTN_F32, 3, rows, NULL},
      {y, ATTN_F32, 3, column, NULL}, {gates, ATTN_F32, 2, three, NULL},
      {cu, ATTN_I32, 1, count, NULL}, {pool, ATTN_F32, 4, pools, NULL},
      {slots, ATTN_I32, 1, two, NULL}};
  double out[3], want[] = {2, 11, 100};
  AttnTensor to = {out, ATTN_F64, 3, column, NULL};
  AttnEvaluateOptions options = {0};
  options.structSize = sizeof(options);
  for (options.rounding = ATTN_EXACT; options.rounding <= ATTN_ROUND_F32;
       options.rounding = (AttnRounding)(options.rounding + 1)) {
    CHECK(!attnEvaluateWith(scan, strlen(scan), NULL, in, 7, &to, 1, &options));
    for (int i = 0; i < 3; ++i)
      CHECK(fabs(out[i] - want[i]) < 1e-5 * want[i]);
  }
  in[3] = (AttnTensor){gates, ATTN_F32, 2, wrong, NULL};
  AttnError *error = attnEvaluate(scan, strlen(scan), NULL, in, 7, &to, 1, 0);
  CHECK(error && strstr(attnErrorMessage(error), "expected argument 3"));
  attnErrorDestroy(error);
  const int64_t heads[] = {0, 3};
  in[3] = (AttnTensor){gates, ATTN_F32, 2, heads, NULL};
  error = attnEvaluate(scan, strlen(scan), NULL, in, 7, &to, 1, 0);
  CHECK(error && strstr(attnErrorMessage(error),
                        "expected decay of [1, 3], but got [0, 3]"));
  attnErrorDestroy(error);
  in[3] = (AttnTensor){gates, ATTN_F32, 2, three, NULL};
  cu[1] = 4;
  error = attnEvaluate(scan, strlen(scan), NULL, in, 7, &to, 1, 0);
  CHECK(error && strstr(attnErrorMessage(error), "expected row offsets"));
  attnErrorDestroy(error);
}

int main(void) {
  checkScan();
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
