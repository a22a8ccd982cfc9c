/* RUN: %cc_capi %s -o %t -lm && %t
 *
 * Functions of scores and masks as text, the table of blocks, and the tiles
 * that a mask keeps, from C. */
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

static void ok(AttnError *error) {
  if (error) {
    fprintf(stderr, "%s\n", attnErrorMessage(error));
    exit(1);
  }
}

static void refuses(AttnError *error, const char *text) {
  CHECK(error);
  if (!strstr(attnErrorMessage(error), text)) {
    fprintf(stderr, "expected '%s' in: %s\n", text, attnErrorMessage(error));
    exit(1);
  }
  attnErrorDestroy(error);
}

enum { N = 24, D = 8, BLOCK = 8, BLOCKS = 3 };

static const char *score = "^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32,"
                           " %slope: tensor<?xf32>):\n"
                           "  %n = arith.index_cast %h : i32 to index\n"
                           "  %m = tensor.extract %slope[%n] : tensor<?xf32>\n"
                           "  %x = arith.mulf %s, %m : f32\n"
                           "  attn.yield %x : f32\n";
static const char *mask =
    "^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %skip: i32):\n"
    "  %live = arith.cmpi ne, %j, %skip : i32\n"
    "  attn.yield %live : i1\n";

static void countTiles(void *user, const AttnMaskTiles *tiles) {
  CHECK(tiles->reduction == 0 && tiles->batch == 0);
  CHECK(tiles->rows == N && tiles->keys == N);
  CHECK(tiles->queryTiles == BLOCKS && tiles->keyTiles == BLOCKS);
  memcpy(user, tiles->classes, BLOCKS * BLOCKS);
}

int main(void) {
  AttnContext *context;
  ok(attnContextCreate(&context));
  static float q[2][N][D], k[2][N][D], v[2][N][D], o[2][N][D];
  for (int h = 0; h < 2; ++h)
    for (int i = 0; i < N; ++i)
      for (int c = 0; c < D; ++c) {
        q[h][i][c] = sinf((float)(h + 3 * i + 7 * c));
        k[h][i][c] = cosf((float)(2 * h + 5 * i + c));
        v[h][i][c] = sinf((float)(h * i + c));
      }
  static const int8_t table[BLOCKS][BLOCKS] = {{2, 0, 1}, {0, 1, 9}, {1, 0, 2}};
  float slope[2] = {0.5f, 2.0f};
  int32_t skip = 17;
  const int64_t shape[4] = {1, 2, N, D}, blocks[4] = {1, 1, BLOCKS, BLOCKS};
  const int64_t heads[1] = {2};
  AttnTensor inputs[] = {{q, ATTN_F32, 4, shape, NULL},
                         {k, ATTN_F32, 4, shape, NULL},
                         {v, ATTN_F32, 4, shape, NULL},
                         {(void *)table, ATTN_I8, 4, blocks, NULL},
                         {slope, ATTN_F32, 1, heads, NULL},
                         {&skip, ATTN_I32, 0, NULL, NULL}};
  AttnTensor output = {o, ATTN_F32, 4, shape, NULL};
  AttnAttentionDesc desc = {0};
  desc.structSize = sizeof(desc);
  desc.dtype = ATTN_F32;
  desc.headDim = D;
  desc.causal = ATTN_CAUSAL_TOP_LEFT;
  desc.scoreMod = score;
  desc.maskMod = mask;
  desc.blockMask = ATTN_GIVEN | ATTN_BROADCAST_BATCH | ATTN_BROADCAST_HEADS;
  desc.blockRows = desc.blockKeys = BLOCK;
  ok(attnAttention(context, &desc, inputs, 6, &output, 1, NULL));
  for (int h = 0; h < 2; ++h)
    for (int i = 0; i < N; ++i) {
      double weights[N], sum = 0;
      for (int j = 0; j < N; ++j) {
        double s = 0;
        for (int c = 0; c < D; ++c)
          s += (double)q[h][i][c] * k[h][j][c];
        int kind = table[i / BLOCK][j / BLOCK];
        int live = j <= i && (kind == 2 || (kind == 1 && j != skip));
        weights[j] = live ? exp(slope[h] * s / sqrt((double)D)) : 0;
        sum += weights[j];
      }
      for (int c = 0; c < D; ++c) {
        double want = 0;
        for (int j = 0; j < N; ++j)
          want += sum > 0 ? weights[j] / sum * v[h][j][c] : 0;
        CHECK(fabs(o[h][i][c] - want) < 1e-5);
      }
    }

  /* Each text is a kernel, and each value of a capture is not. */
  size_t before = attnContextNumCached(context);
  skip = 3;
  ok(attnAttention(context, &desc, inputs, 6, &output, 1, NULL));
  CHECK(attnContextNumCached(context) == before);

  /* The same by a kernel; its inputs have the names of the texts. */
  AttnCompileOptions options = {0};
  options.structSize = sizeof(options);
  options.keepIr = 1;
  AttnKernel *kernel;
  ok(attnCompileAttention(context, &desc, &options, &kernel));
  CHECK(attnKernelNumInputs(kernel, 0) == 6);
  const char *names[] = {"q", "k", "v", "block_mask", "slope", "skip"};
  for (size_t i = 0; i < 6; ++i) {
    AttnArgInfo info;
    ok(attnKernelArg(kernel, 0, i, &info));
    CHECK(strcmp(info.name, names[i]) == 0);
  }

  /* What the mask makes of tiles. */
  const char *ir = attnKernelIr(kernel, "aggregate");
  uint8_t classes[BLOCKS * BLOCKS];
  AttnMaskTilesOptions tiles = {0};
  tiles.structSize = sizeof(tiles);
  tiles.tileRows = tiles.tileKeys = BLOCK;
  tiles.onlyAnalysis = 1;
  ok(attnMaskTiles(ir, strlen(ir), NULL, inputs, 6, &tiles, countTiles,
                   classes));
  /* Dead but for the diagonal blocks and the one below the first. */
  const uint8_t want[] = {5, 0, 0, 0, 5, 0, 5, 0, 5};
  for (int i = 0; i < BLOCKS * BLOCKS; ++i)
    CHECK((classes[i] & 3) == (want[i] & 3));
  refuses(attnMaskTiles("nothing", 7, NULL, NULL, 0, NULL, countTiles, classes),
          "'nothing' is unknown");
  refuses(attnMaskTiles(ir, strlen(ir), NULL, inputs, 5, &tiles, countTiles,
                        classes),
          "expected 6 arguments");
  tiles.tileKeys = -1;
  refuses(attnMaskTiles(ir, strlen(ir), NULL, inputs, 6, &tiles, countTiles,
                        classes),
          "at least one row");
  refuses(attnMaskTiles(NULL, 0, NULL, NULL, 0, NULL, NULL, NULL), "null");
  attnKernelDestroy(kernel);

  /* What does not fit. */
  desc.blockRows = 0;
  refuses(attnAttention(context, &desc, inputs, 6, &output, 1, NULL),
          "blocks of 1 to");
  desc.blockRows = (int64_t)1 << 32;
  refuses(attnAttention(context, &desc, inputs, 6, &output, 1, NULL),
          "blocks of 1 to");
  desc.blockRows = BLOCK;
  desc.kStart = 1;
  refuses(attnAttention(context, &desc, inputs, 6, &output, 1, NULL),
          "without packed queries and k_start");
  desc.kStart = 0;
  desc.blockRows = BLOCK;
  desc.blockMask = 32;
  refuses(attnAttention(context, &desc, inputs, 6, &output, 1, NULL),
          "expected blockMask to be a sum");
  desc.blockMask = 0;
  desc.maskMod = "nonsense";
  refuses(attnAttention(context, &desc, inputs, 5, &output, 1, NULL),
          "<mask_mod>:1:1");
  desc.maskMod = score;
  refuses(attnAttention(context, &desc, inputs, 5, &output, 1, NULL),
          "expected mask_mod to take");
  attnContextDestroy(context);
  return 0;
}
