// What a caller may get wrong without a crash: null data, sizes, flags, structs
// of other versions, outputs that overlap.
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

static void ok(AttnError *error) {
  if (!error)
    return;
  fprintf(stderr, "unexpected error: %s\n", attnErrorMessage(error));
  exit(1);
}

/// Wants an error whose message holds `text`, in one line.
static void failsAt(int line, AttnError *error, const char *text) {
  if (!error) {
    fprintf(stderr, "line %d: expected an error with '%s', but got none\n",
            line, text);
    exit(1);
  }
  if (!strstr(attnErrorMessage(error), text) ||
      strchr(attnErrorMessage(error), '\n')) {
    fprintf(stderr, "line %d: expected an error with '%s', but got '%s'\n",
            line, text, attnErrorMessage(error));
    exit(1);
  }
  attnErrorDestroy(error);
}
#define fails(error, text) failsAt(__LINE__, error, text)

static AttnTensor tensor(void *data, AttnDType dtype, int32_t rank,
                         const int64_t *shape, const int64_t *strides) {
  AttnTensor result = {data, dtype, rank, shape, strides};
  return result;
}

static const char *const text =
    "func.func @f(%q: tensor<?x?x?x8xf32>, %k: tensor<?x?x?x8xf32>,\n"
    "             %v: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {\n"
    "  %o = attn.attention queries(%q : tensor<?x?x?x8xf32>)\n"
    "    keys(%k : tensor<?x?x?x8xf32>) values(%v : tensor<?x?x?x8xf32>)\n"
    "    -> tensor<?x?x?x8xf32>\n"
    "  return %o : tensor<?x?x?x8xf32>\n"
    "}\n";

static void evaluating(void) {
  static float data[32];
  static double result[32];
  int64_t shape[] = {1, 1, 4, 8}, negative[] = {1, 1, -4, 8};
  int64_t huge[] = {2147483647, 2147483647, 2147483647, 0};
  int64_t larger[] = {1, 1, (int64_t)1 << 62, 8};
  int64_t many[] = {1, 1, 2147483647, 8};
  AttnTensor good = tensor(data, ATTN_F32, 4, shape, NULL);
  AttnTensor out = tensor(result, ATTN_F64, 4, shape, NULL), bad;
  AttnTensor in[] = {good, good, good};
  size_t length = strlen(text);
  ok(attnEvaluate(text, length, NULL, in, 3, &out, 1, ATTN_EXACT));
#define EVALUATE attnEvaluate(text, length, NULL, in, 3, &out, 1, ATTN_EXACT)
  in[0].data = NULL;
  fails(EVALUATE, "expected input 0 to have data, but got a null pointer");
  in[0] = good;
  in[1].shape = negative;
  fails(EVALUATE,
        "expected input 1 to have sizes between 0 and 2147483647, but "
        "got -4");
  in[1].shape = larger;
  fails(EVALUATE, "expected input 1 to have sizes between 0 and 2147483647");
  in[1].shape = huge;
  fails(EVALUATE, "expected input 1 to have at most 4294967296 positions");
  in[1] = good;
  in[2].rank = -1;
  fails(EVALUATE, "expected a shape and a rank between 0 and 16, but got rank "
                  "-1");
  in[2] = good;
  in[2].shape = NULL;
  fails(EVALUATE, "expected a shape");
  in[2] = good;
  in[2].dtype = (AttnDType)10;
  fails(EVALUATE, "expected a dtype between 0 and 9, but got 10");
  in[2] = good;
  bad = out;
  out.data = NULL;
  fails(EVALUATE, "expected output 0 to have data, but got a null pointer");
  out = bad;
  out.shape = negative;
  fails(EVALUATE, "expected output 0 to have sizes between");
  out.shape = many;
  fails(EVALUATE, "expected output 0 to have at most 4294967296 positions");
  out = bad;
  fails(attnEvaluate(text, length, NULL, NULL, 3, &out, 1, ATTN_EXACT),
        "expected tensors, but got null");
  fails(attnEvaluate(text, length, NULL, in, 3, NULL, 1, ATTN_EXACT),
        "expected tensors, but got null");
  fails(attnEvaluate(NULL, 3, NULL, in, 3, &out, 1, ATTN_EXACT),
        "expected text, but got null");
  fails(attnEvaluate(text, (size_t)-1, NULL, in, 3, &out, 1, ATTN_EXACT),
        "expected text of at most 2147483647 bytes");
  fails(attnEvaluate(text, length, "g", in, 3, &out, 1, ATTN_EXACT), "'g'");
  fails(attnEvaluate(text, length, NULL, in, 3, &out, 1, (AttnRounding)9),
        "expected a rounding between 0 and 3, but got 9");
  // Empty tensors need no memory.
  int64_t empty[] = {1, 1, 0, 8};
  in[0] = tensor(NULL, ATTN_F32, 4, empty, NULL);
  out = tensor(NULL, ATTN_F64, 4, empty, NULL);
  ok(EVALUATE);
}

static void describing(AttnContext *context) {
  AttnKernel *kernel = NULL;
  AttnAttentionDesc desc = {0};
  fails(attnCompileAttention(context, &desc, NULL, &kernel),
        "expected structSize of AttnAttentionDesc to be at least 8, but got 0; "
        "set it to sizeof the struct");
  desc.structSize = 5;
  fails(attnCompileAttention(context, &desc, NULL, &kernel),
        "to be at least 8, but got 5");
  desc.structSize = (size_t)1 << 40;
  fails(attnCompileAttention(context, &desc, NULL, &kernel),
        "to be at most 1024, but got 1099511627776");
  desc.structSize = sizeof(desc);
  desc.headDim = 16;
  int32_t flags[] = {64, -1, 32, ATTN_GIVEN | 128};
  for (int i = 0; i < 4; ++i) {
    desc.bias = flags[i];
    fails(attnCompileAttention(context, &desc, NULL, &kernel),
          "expected bias to be a sum of ATTN_GIVEN and ATTN_BROADCAST_ flags");
    desc.bias = 0;
    desc.mask = flags[i];
    fails(attnCompileAttention(context, &desc, NULL, &kernel),
          "expected mask to be a sum of ATTN_GIVEN and ATTN_BROADCAST_ flags");
    desc.mask = 0;
  }
  desc.mask = ATTN_BROADCAST_BATCH;
  fails(attnCompileAttention(context, &desc, NULL, &kernel),
        "expected ATTN_GIVEN among the flags of mask, or none, but got 2");
  desc.mask = 0;
  desc.alibi = 3;
  fails(attnCompileAttention(context, &desc, NULL, &kernel),
        "expected alibi to be 0, 1 or 2, but got 3");
  desc.alibi = 0;
  int64_t channels[] = {-2, 7, 18};
  for (int i = 0; i < 3; ++i) {
    desc.rotaryDim = channels[i];
    fails(attnCompileAttention(context, &desc, NULL, &kernel),
          "an even number of channels to rotate, from 2 to the head dimension "
          "16, or 0 for none, but got ");
  }
  desc.rotaryDim = 16;
  desc.valueInKey = 1;
  fails(attnCompileAttention(context, &desc, NULL, &kernel),
        "expected values of their own with rotary embedding");
  desc.rotaryDim = desc.valueInKey = 0;
  fails(attnCompile(context, text, (size_t)-1, NULL, &kernel),
        "expected text of at most 2147483647 bytes");

  // Long texts are quoted by how they begin.
  static char name[100001];
  memset(name, 'x', sizeof(name) - 1);
  desc.monoid = name;
  fails(attnCompileAttention(context, &desc, NULL, &kernel), "xxxxxxxx...'");
  desc.monoid = NULL;
  desc.schedule = name;
  fails(attnCompileAttention(context, &desc, NULL, &kernel), "xxxxxxxx...'");
  desc.schedule = NULL;

  // A later version's struct: what we do not know must be zero.
  struct {
    AttnAttentionDesc desc;
    char more[24];
  } later = {{0}, {0}};
  later.desc = desc;
  later.desc.structSize = sizeof(later);
  ok(attnCompileAttention(context, &later.desc, NULL, &kernel));
  attnKernelDestroy(kernel);
  kernel = NULL;
  later.more[7] = 3;
  fails(attnCompileAttention(context, &later.desc, NULL, &kernel),
        "all that this version of the library knows, but got 3 at byte");
  // An earlier one's ends sooner.
  AttnCompileOptions options;
  memset(&options, 0xff, sizeof(options));
  options.structSize = sizeof(size_t);
  ok(attnCompileAttention(context, &desc, &options, &kernel));
  attnKernelDestroy(kernel);
}

enum { S = 6, D = 16 };

static void overlapping(AttnContext *context) {
  AttnAttentionDesc desc = {0};
  AttnKernel *kernel;
  desc.structSize = sizeof(desc);
  desc.headDim = D;
  desc.numOutputs = 2;
  ok(attnCompileAttention(context, &desc, NULL, &kernel));
  static float buffer[8 * S * D], k[S * D], lse[S], o[S * D], want[S * D];
  int64_t shape[] = {1, 1, S, D}, lseShape[] = {1, 1, S};
  for (int i = 0; i < 8 * S * D; ++i)
    buffer[i] = sinf((float)i);
  for (int i = 0; i < S * D; ++i)
    k[i] = cosf((float)i);
  int64_t place[4];
  fails(attnKernelArg(kernel, 0, 0, NULL), "but got null");
  fails(attnKernelDeviceKernel(kernel, 0, NULL), "but got null");
  fails(attnKernelOutputShape(kernel, 0, NULL, 3, 0, place, 4, NULL),
        "expected tensors, but got null");
  fails(attnKernelRun(kernel, 0, NULL, 3, NULL, 2),
        "expected tensors, but got null");
  fails(attnKernelRunDLPack(kernel, 0, NULL, 3, NULL, 2),
        "expected tensors, but got null");
  AttnTensor keys = tensor(k, ATTN_F32, 4, shape, NULL);
  AttnTensor in[] = {tensor(buffer, ATTN_F32, 4, shape, NULL), keys, keys};
  AttnTensor out[] = {tensor(o, ATTN_F32, 4, shape, NULL),
                      tensor(lse, ATTN_F32, 3, lseShape, NULL)};
#define RUN attnKernelRun(kernel, 0, in, 3, out, 2)
  ok(RUN);
  memcpy(want, o, sizeof(o));

  // Behind the input is free; an element of it is not.
  out[0].data = buffer + S * D;
  ok(RUN);
  CHECK(memcmp(want, out[0].data, sizeof(want)) == 0);
  out[0].data = buffer + S * D - 1;
  fails(RUN, "expected output 'o' to have memory of its own, but got some that "
             "overlaps input 'q'");
  out[0].data = buffer + D;
  fails(RUN, "some that overlaps input 'q'");
  in[1] = tensor(buffer + 3 * S * D, ATTN_F32, 4, shape, NULL);
  out[0].data = buffer + 3 * S * D + S * D / 2;
  fails(RUN, "some that overlaps input 'k'");
  in[1] = keys;

  // Even rows and odd rows, heads of one buffer: interleaved, and apart.
  int64_t twice[] = {S * 2 * D, S * 2 * D, 2 * D, 1};
  in[0].strides = out[0].strides = twice;
  out[0].data = buffer + D;
  for (int i = 0; i < S; ++i)
    for (int d = 0; d < D; ++d)
      buffer[2 * i * D + d] = sinf((float)(i * D + d));
  ok(RUN);
  for (int i = 0; i < S; ++i)
    CHECK(memcmp(want + i * D, buffer + (2 * i + 1) * D, D * 4) == 0);
  // One element too far to the left, or rows of the same parity.
  out[0].data = buffer + D - 1;
  fails(RUN, "overlaps input 'q'");
  out[0].data = buffer + 2 * D;
  fails(RUN, "overlaps input 'q'");
  // From the last row up, by a negative stride.
  int64_t upwards[] = {0, 0, -2 * D, 1};
  out[0].strides = upwards;
  out[0].data = buffer + (2 * S - 1) * D;
  ok(RUN);
  CHECK(memcmp(want, buffer + (2 * S - 1) * D, D * 4) == 0);
  out[0].data = buffer + (2 * S - 2) * D;
  fails(RUN, "overlaps input 'q'");
  in[0].strides = out[0].strides = NULL;

  // An output that overlaps itself.
  out[0].data = o;
  int64_t narrow[] = {S * D, S * D, D - 6, 1}, still[] = {0, 0, 0, 1};
  out[0].strides = narrow;
  fails(RUN, "expected output 'o' to have an element of its own at each "
             "position, but got strides [96, 96, 10, 1]");
  out[0].strides = still;
  fails(RUN, "stride 0 in dimension 2");
  out[0].strides = NULL;
  // The other output, by address and by reach.
  out[1].data = o;
  fails(RUN, "expected output 'lse' to have memory of its own, but got that of "
             "output 'o'");
  out[1].data = o + S * D - 1;
  fails(RUN, "some that overlaps output 'o'");
  out[1].data = o + S * D - S;
  out[0].data = want;
  ok(RUN);
  // Strides that no memory has.
  out[1].data = lse;
  out[0].data = o;
  int64_t far[] = {0, 0, INT64_MAX, 1};
  out[0].strides = far;
  fails(RUN, "expected 'o' to have strides that memory has room for, but got "
             "stride 9223372036854775807 in dimension 2 of size 6");
  attnKernelDestroy(kernel);
}

static int32_t stop(void *user) {
  *(int *)user += 1;
  return *(int *)user == 2;
}

static void interrupting(AttnContext *context) {
  AttnAttentionDesc desc = {0};
  AttnKernel *kernel;
  desc.structSize = sizeof(desc);
  desc.headDim = 64;
  ok(attnCompileAttention(context, &desc, NULL, &kernel));
  int64_t n = 16384, shape[] = {1, 4, n, 64};
  float *q = calloc(4 * n * 64, sizeof(float)), *o = malloc(4 * n * 256);
  CHECK(q && o);
  AttnTensor x = tensor(q, ATTN_F32, 4, shape, NULL), in[] = {x, x, x};
  AttnTensor out = tensor(o, ATTN_F32, 4, shape, NULL);
  int asked = 0;
  AttnRunOptions options = {0};
  options.structSize = sizeof(options);
  options.interrupt = stop;
  options.interruptUser = &asked;
  for (int threads = 1; threads <= 2; ++threads) {
    attnSetNumThreads(threads);
    asked = 0;
    fails(attnKernelRunOn(kernel, 0, in, 3, &out, 1, &options),
          "interrupted: ");
    CHECK(asked == 2);
  }
  // A short run is not worth a question.
  asked = 0;
  shape[2] = 4;
  ok(attnKernelRunOn(kernel, 0, in, 3, &out, 1, &options));
  CHECK(asked == 0);
  attnSetNumThreads(0);
  free(q);
  free(o);
  attnKernelDestroy(kernel);
}

/// Rows behind the last sequence are rows without keys.
static void uncovered(AttnContext *context) {
  AttnAttentionDesc desc = {0};
  AttnKernel *kernel;
  desc.structSize = sizeof(desc);
  desc.headDim = D;
  desc.packed = 1;
  desc.numOutputs = 2;
  ok(attnCompileAttention(context, &desc, NULL, &kernel));
  enum { T = 20 };
  static float q[2 * T * D], o[2 * T * D], lse[2 * T];
  int64_t shape[] = {2, T, D}, lseShape[] = {2, T}, count[] = {3};
  for (int i = 0; i < 2 * T * D; ++i)
    q[i] = 1;
  int32_t offsets[] = {0, 8, 17};
  AttnTensor x = tensor(q, ATTN_F32, 3, shape, NULL);
  AttnTensor cu = tensor(offsets, ATTN_I32, 1, count, NULL);
  AttnTensor in[] = {x, x, x, cu, cu};
  AttnTensor out[] = {tensor(o, ATTN_F32, 3, shape, NULL),
                      tensor(lse, ATTN_F32, 2, lseShape, NULL)};
  for (int sequences = 2; sequences >= 0; --sequences) {
    memset(o, 0x7f, sizeof(o));
    memset(lse, 0x7f, sizeof(lse));
    count[0] = sequences + 1;
    ok(attnKernelRun(kernel, 0, in, 5, out, 2));
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < T; ++i) {
        int live = i < offsets[sequences];
        CHECK(live ? lse[h * T + i] > 0 : lse[h * T + i] == -INFINITY);
        for (int d = 0; d < D; ++d)
          CHECK(fabsf(o[(h * T + i) * D + d] - (float)live) < 1e-5f);
      }
  }
  attnKernelDestroy(kernel);
}

int main(void) {
  AttnContext *context = NULL;
  ok(attnContextCreate(&context));
  fails(attnContextCreate(NULL), "but got null");
  evaluating();
  describing(context);
  overlapping(context);
  interrupting(context);
  uncovered(context);
  fails(attnDeviceCount(NULL), "but got null");
  fails(attnDeviceGet(0, NULL), "but got null");
  fails(attnKernelRun(NULL, 0, NULL, 0, NULL, 0), "expected a kernel");
  fails(attnKernelLoad(NULL, 0), "expected a kernel");
  fails(attnKernelRecordSchedule(NULL, 1), "expected a kernel");
  CHECK(!attnKernelTarget(NULL) && !attnKernelExplain(NULL));
  CHECK(!attnKernelIr(NULL, NULL) && !attnKernelPtx(NULL));
  CHECK(!attnKernelNumEntries(NULL) && !attnKernelEntryName(NULL, 0));
  attnContextDestroy(context);
  return 0;
}
