/* RUN: %cc_capi %s -o %t && %t
   A cache in pages through the C ABI: rows come and go, attention reads them by
   its tables, and what a caller got wrong is said in a sentence.

   Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
   SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#include "attn-c/KVCache.h"
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

enum { PAGES = 6, PAGE = 2, D = 16 };
static float k[PAGES * PAGE * D], v[PAGES * PAGE * D];
static const int64_t pools[4] = {PAGES, 1, PAGE, D};

/* Attention of one query over a sequence of rows of ones, twos, ...: with all
   keys equal, the mean of its values. */
static float attend(AttnKVCache *cache, int64_t id) {
  static float q[D], o[D];
  int32_t table[PAGES], length;
  ok(attnKVCacheTable(cache, &id, 1, PAGES, table));
  ok(attnKVCacheLengths(cache, &id, 1, &length, NULL));
  AttnAttentionDesc desc = {.structSize = sizeof(desc),
                            .headDim = D,
                            .lengths = 1,
                            .blockTable = PAGE};
  int64_t one = 1, width[2] = {1, PAGES}, rows[4] = {1, 1, 1, D};
  AttnTensor in[] = {{q, ATTN_F32, 4, rows, NULL},
                     {k, ATTN_F32, 4, pools, NULL},
                     {v, ATTN_F32, 4, pools, NULL},
                     {&length, ATTN_I32, 1, &one, NULL},
                     {table, ATTN_I32, 2, width, NULL}};
  AttnTensor out = {o, ATTN_F32, 4, rows, NULL};
  AttnContext *context;
  ok(attnContextCreate(&context));
  ok(attnAttention(context, &desc, in, 5, &out, 1, NULL));
  attnContextDestroy(context);
  return o[D - 1];
}

static AttnError *append(AttnKVCache *cache, int64_t id, int64_t rows,
                         float value, const int32_t *tokens) {
  static float data[PAGES * PAGE * D + 1];
  for (int64_t i = 0; i < rows * D; ++i)
    data[i] = value;
  int64_t shape[4] = {1, 1, rows, D};
  AttnTensor tensor = {data, ATTN_F32, 4, shape, NULL};
  int64_t sizes[2] = {1, rows};
  AttnTensor known = {(void *)tokens, ATTN_I32, 2, sizes, NULL};
  return attnKVCacheAppend(cache, &id, 1, &tensor, &tensor,
                           tokens ? &known : NULL, 0, NULL);
}

int main(void) {
  AttnTensor keys = {k, ATTN_F32, 4, pools, NULL},
             values = {v, ATTN_F32, 4, pools, NULL};
  AttnKVCache *cache;
  ok(attnKVCacheCreate(&keys, &values, NULL, &cache));
  CHECK(attnKVCacheFreePages(cache) == PAGES);

  int64_t a, b, ids[4];
  ok(attnKVCacheNew(cache, &a));
  ok(append(cache, a, 3, 1, NULL));
  ok(attnKVCacheFork(cache, a, &b));
  CHECK(attnKVCacheFreePages(cache) == 4);
  ok(append(cache, b, 1, 5, NULL)); /* into a copy of the last page */
  CHECK(attnKVCacheFreePages(cache) == 3);
  CHECK(attend(cache, a) == 1 && attend(cache, b) == 2);
  ok(attnKVCacheTruncate(cache, b, 3));
  CHECK(attend(cache, b) == 1);
  ok(append(cache, a, 1, 9, NULL));
  int64_t from[2] = {b, a}, onto[2] = {a, b};
  ok(attnKVCacheReorder(cache, from, onto, 2));
  CHECK(attend(cache, a) == 1 && attend(cache, b) == 3);

  /* Nothing of an append that has not enough pages. */
  fails(append(cache, a, 8, 0, NULL),
        "out of pages: expected 4 free pages, but got 3 of 6; free a sequence "
        "first");
  CHECK(attend(cache, a) == 1 && attnKVCacheFreePages(cache) == 3);
  CHECK(attnKVCacheIds(cache, ids, 4) == 2 && ids[0] == a && ids[1] == b);
  ok(attnKVCacheFree(cache, a));
  ok(attnKVCacheFree(cache, b));
  CHECK(attnKVCacheFreePages(cache) == PAGES);

  /* The pages of a prefix are found again, also when nobody has them. */
  int32_t tokens[5] = {4, 5, 6, 7, 8};
  int64_t words[5] = {4, 5, 6, 7, 8}, reused;
  ok(append(cache, 20, 5, 7, tokens));
  ok(append(cache, 21, 5, 7, tokens));
  CHECK(attnKVCacheFreePages(cache) == 2);
  ok(attnKVCacheFree(cache, 20));
  ok(attnKVCacheFree(cache, 21));
  ok(attnKVCacheReuse(cache, 22, words, 5, &reused));
  CHECK(reused == 4 && attend(cache, 22) == 7);
  ok(attnKVCacheNew(cache, &a));
  CHECK(a == 23);

  int64_t id = 22, width;
  ok(attnKVCacheWidth(cache, &id, 1, &width));
  CHECK(width == 2);
  int32_t table[4], lengths[2];
  ok(attnKVCacheTable(cache, &id, 1, 4, table));
  CHECK(table[1] >= 0 && table[2] == -1 && table[3] == -1);

  fails(attnKVCacheLengths(cache, &id, SIZE_MAX, NULL, NULL),
        "out of memory: expected room for the pages of sequences, but there is "
        "none");
  fails(attnKVCacheTable(cache, &id, 1, 1, table),
        "expected a table of at least 2 pages for each sequence, but got 1");
  fails(attnKVCacheFree(cache, 5),
        "expected the id of a sequence that is in the cache, but got 5");
  fails(attnKVCacheTruncate(cache, 22, -1),
        "expected a length between 0 and that of the sequence, 4, but got -1");
  fails(attnKVCacheAppend(cache, &id, 1, NULL, NULL, NULL, -1, NULL),
        "expected a number of rows of at least 0, but got -1");
  int64_t twice[2] = {3, 3};
  fails(attnKVCacheAppend(cache, twice, 2, NULL, NULL, NULL, 1, NULL),
        "expected each id once, but got 3 twice");
  fails(attnKVCacheAppend(cache, &id, 1, &keys, NULL, NULL, 0, NULL),
        "expected k of shape [ids, heads, tokens, d] = [1, 1, 2, 16], but got "
        "[6, 1, 2, 16]");
  fails(attnKVCacheAppend(NULL, &id, 1, NULL, NULL, NULL, 0, NULL),
        "expected a cache, ids and places for the results, but got null");
  int64_t shape[2] = {1, 1};
  float number = 0;
  AttnTensor wrong = {&number, ATTN_F32, 2, shape, NULL};
  fails(attnKVCacheAppend(cache, &id, 1, NULL, NULL, &wrong, 1, NULL),
        "expected tokens of type i32 or i64, but got f32");
  wrong.dtype = ATTN_I64;
  fails(attnKVCacheAppend(cache, &id, 1, NULL, NULL, &wrong, 2, NULL),
        "expected tokens of shape [ids, tokens] = [1, 2], but got [1, 1]");
  attnKVCacheDestroy(cache);
  attnKVCacheDestroy(NULL);

  /* A window: the rows that are kept, and where they begin. */
  AttnKVCacheOptions options = {.structSize = sizeof(options), .window = 2};
  ok(attnKVCacheCreate(&keys, &values, &options, &cache));
  for (int i = 0; i < 5; ++i)
    ok(append(cache, id, 1, (float)i, NULL));
  ok(attnKVCacheLengths(cache, &id, 1, lengths, lengths + 1));
  CHECK(lengths[0] == 3 && lengths[1] == 2 && attend(cache, id) == 3);
  attnKVCacheDestroy(cache);

  options.window = -1;
  fails(attnKVCacheCreate(&keys, &values, &options, &cache),
        "expected a window of at least 1, or 0 for none, but got -1");
  options.window = 0;
  options.keep = 4;
  fails(attnKVCacheCreate(&keys, &values, &options, &cache),
        "expected a window where first keys are to be kept, but got none; "
        "without "
        "one all keys are");
  int64_t still[4] = {PAGE * D, PAGE * D, 0, 1};
  values.strides = still;
  fails(attnKVCacheCreate(&keys, &values, NULL, &cache),
        "expected v to have an element of its own at each position, but got "
        "strides by which some overlap");
  values.strides = NULL;
  values.data = k + D;
  fails(attnKVCacheCreate(&keys, &values, NULL, &cache),
        "expected v to have memory of its own, but got some that overlaps that "
        "of k");
  values.data = v;
  values.dtype = ATTN_F16;
  fails(attnKVCacheCreate(&keys, &values, NULL, &cache),
        "expected v of the type of k, f32, but got f16");
  keys.dtype = ATTN_I32;
  values.dtype = ATTN_I32;
  fails(attnKVCacheCreate(&keys, &values, NULL, &cache),
        "expected k of type f32, f16 or bf16, but got i32");
  return 0;
}
