// Describe, compile, ask, run: a client in C.
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

/// Fails on an error, and says which.
static void ok(AttnError *error) {
  if (!error)
    return;
  fprintf(stderr, "unexpected error: %s\n", attnErrorMessage(error));
  exit(1);
}

/// Wants an error whose message holds `text`, in one line.
static void fails(AttnError *error, const char *text) {
  CHECK(error);
  if (!strstr(attnErrorMessage(error), text) ||
      strchr(attnErrorMessage(error), '\n')) {
    fprintf(stderr, "expected an error with '%s', but got '%s'\n", text,
            attnErrorMessage(error));
    exit(1);
  }
  attnErrorDestroy(error);
}

enum { B = 2, H = 4, HK = 2, SQ = 5, SK = 9, D = 16 };

static float q[B * H * SQ * D], k[B * HK * SK * D], v[B * HK * SK * D];
static float o[B * H * SQ * D], lse[B * H * SQ], o2[B * H * SQ * D];
static const int64_t qShape[] = {B, H, SQ, D}, kShape[] = {B, HK, SK, D};
static const int64_t lseShape[] = {B, H, SQ};

static AttnTensor tensor(void *data, int32_t rank, const int64_t *shape) {
  AttnTensor result = {data, ATTN_F32, rank, shape, NULL};
  return result;
}

/// Softmax attention, causal from the bottom right, one row at a time.
static void checkResult(const float *out, const float *logsum) {
  for (int b = 0; b < B; ++b)
    for (int h = 0; h < H; ++h)
      for (int i = 0; i < SQ; ++i) {
        const float *row = q + ((b * H + h) * SQ + i) * D;
        int base = (b * HK + h / (H / HK)) * SK, live = i + SK - SQ + 1;
        double weights[SK], sum = 0;
        for (int j = 0; j < live; ++j) {
          double s = 0;
          for (int d = 0; d < D; ++d)
            s += (double)row[d] * k[(base + j) * D + d];
          sum += weights[j] = exp(s / sqrt(D));
        }
        for (int d = 0; d < D; ++d) {
          double want = 0;
          for (int j = 0; j < live; ++j)
            want += weights[j] / sum * v[(base + j) * D + d];
          CHECK(fabs(out[((b * H + h) * SQ + i) * D + d] - want) < 1e-5);
        }
        if (logsum)
          CHECK(fabs(logsum[(b * H + h) * SQ + i] - log(sum)) < 1e-5);
      }
}

static int numTasks;
static void serial(void *user, int64_t count, void (*task)(void *, int64_t),
                   void *context) {
  *(int *)user += 1;
  for (int64_t i = 0; i < count; ++i)
    task(context, i);
}

static void countBlock(void *user, int64_t block, int64_t count) {
  int64_t *progress = user;
  CHECK(block == progress[0] % count);
  progress[0] += 1;
  progress[1] = count;
}

int main(void) {
  CHECK(attnApiVersion() >= ATTN_API_VERSION);
  CHECK(strstr(attnShippedMonoids(), "softmax: o, lse\n"));
  CHECK(strncmp(attnHostTarget(), "cpu-", 4) == 0);
  CHECK(strcmp(attnDTypeName(ATTN_BF16), "bf16") == 0);
  CHECK(!attnDTypeName((AttnDType)77));

  srand(1);
  for (size_t i = 0; i < sizeof(q) / sizeof(*q); ++i)
    q[i] = (float)rand() / (float)RAND_MAX - 0.5f;
  for (size_t i = 0; i < sizeof(k) / sizeof(*k); ++i) {
    k[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    v[i] = (float)rand() / (float)RAND_MAX - 0.5f;
  }

  AttnContext *context = NULL;
  ok(attnContextCreate(&context));

  AttnAttentionDesc desc = {0};
  desc.structSize = sizeof(desc);
  desc.headDim = D;
  desc.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
  desc.numOutputs = 2;
  AttnCompileOptions options = {0};
  options.structSize = sizeof(options);
  options.keepIr = 1;
  AttnKernel *kernel = NULL, *again = NULL;
  ok(attnCompileAttention(context, &desc, &options, &kernel));

  // The cache gives the same kernel for the same description.
  CHECK(attnContextNumCached(context) == 1);
  ok(attnCompileAttention(context, &desc, &options, &again));
  CHECK(attnContextNumCached(context) == 1);
  CHECK(attnKernelExplain(kernel) == attnKernelExplain(again));
  attnKernelDestroy(again);

  // Another precision is another description.
  desc.precision = ATTN_PRECISION_TF32;
  ok(attnCompileAttention(context, &desc, &options, &again));
  CHECK(attnContextNumCached(context) == 2);
  CHECK(strstr(attnKernelIr(again, "input"), "#attn.precision<tf32>"));
  attnKernelDestroy(again);
  desc.precision = (AttnPrecision)2;
  AttnError *refused = attnCompileAttention(context, &desc, &options, &again);
  CHECK(refused && strstr(attnErrorMessage(refused),
                          "expected precision to be 0 or 1, but got 2"));
  attnErrorDestroy(refused);
  desc.precision = ATTN_PRECISION_IEEE;

  // What it takes.
  CHECK(attnKernelNumEntries(kernel) == 1);
  CHECK(strcmp(attnKernelEntryName(kernel, 0), "attention") == 0);
  CHECK(attnKernelFindEntry(kernel, "attention") == 0);
  CHECK(attnKernelFindEntry(kernel, "other") == -1);
  CHECK(attnKernelNumInputs(kernel, 0) == 3);
  CHECK(attnKernelNumOutputs(kernel, 0) == 2);
  AttnArgInfo info;
  ok(attnKernelArg(kernel, 0, 1, &info));
  CHECK(strcmp(info.name, "k") == 0 && info.dtype == ATTN_F32);
  CHECK(info.rank == 4 && info.shape[2] == -1 && info.shape[3] == D);
  CHECK(strcmp(info.dims[1], "hk") == 0 && strcmp(info.dims[2], "sk") == 0);
  ok(attnKernelArg(kernel, 0, 4, &info));
  CHECK(strcmp(info.name, "lse") == 0 && info.rank == 3);
  fails(attnKernelArg(kernel, 0, 5, &info), "expected an argument below 5");

  // What it is.
  CHECK(strcmp(attnKernelTarget(kernel), attnHostTarget()) == 0);
  CHECK(strstr(attnKernelExplain(kernel), "schedule chosen"));
  CHECK(strstr(attnKernelIr(kernel, "input"), "attn.attention"));
  CHECK(strstr(attnKernelIr(kernel, "tile"), "tile.launch"));
  CHECK(strstr(attnKernelIr(kernel, "llvm-ir"), "define"));
  CHECK(!attnKernelIr(kernel, "nothing"));
  size_t size = 0;
  CHECK(attnKernelObject(kernel, &size) && size > 100);
  CHECK(attnKernelNumTimes(kernel) > 5);
  CHECK(attnKernelTimeName(kernel, 0) && attnKernelTimeMs(kernel, 0) >= 0);

  // Run it.
  AttnTensor inputs[] = {tensor(q, 4, qShape), tensor(k, 4, kShape),
                         tensor(v, 4, kShape)};
  AttnTensor outputs[] = {tensor(o, 4, qShape), tensor(lse, 3, lseShape)};
  int64_t shape[4];
  int32_t rank = 0;
  ok(attnKernelOutputShape(kernel, 0, inputs, 3, 1, shape, 4, &rank));
  CHECK(rank == 3 && memcmp(shape, lseShape, sizeof(lseShape)) == 0);
  attnSetNumThreads(1);
  ok(attnKernelRun(kernel, 0, inputs, 3, outputs, 2));
  checkResult(o, lse);

  // Bits do not depend on threads, nor on whose they are.
  outputs[0].data = o2;
  attnSetNumThreads(3);
  CHECK(attnGetNumThreads() == 3);
  ok(attnKernelRun(kernel, 0, inputs, 3, outputs, 2));
  CHECK(memcmp(o, o2, sizeof(o)) == 0);
  memset(o2, 0, sizeof(o2));
  attnSetParallelFor(serial, &numTasks);
  ok(attnKernelRun(kernel, 0, inputs, 3, outputs, 2));
  attnSetParallelFor(NULL, NULL);
  // One thread takes the blocks in order.
  int64_t progress[2] = {0, 0};
  attnSetNumThreads(1);
  attnSetProgress(countBlock, progress);
  ok(attnKernelRun(kernel, 0, inputs, 3, outputs, 2));
  attnSetProgress(NULL, NULL);
  CHECK(progress[0] > 0 && progress[0] == progress[1]);
  attnSetNumThreads(3);
  CHECK(numTasks > 0 && memcmp(o, o2, sizeof(o)) == 0);

  // [b, s, h, d] in memory, by strides and by DLPack.
  static float qt[B * SQ * H * D];
  for (int b = 0; b < B; ++b)
    for (int s = 0; s < SQ; ++s)
      for (int h = 0; h < H; ++h)
        memcpy(qt + ((b * SQ + s) * H + h) * D, q + ((b * H + h) * SQ + s) * D,
               D * sizeof(float));
  int64_t qStrides[] = {SQ * H * D, D, H * D, 1}, qDims[] = {B, H, SQ, D};
  int64_t kDims[] = {B, HK, SK, D}, lseDims[] = {B, H, SQ};
  AttnDLTensor dl[5] = {{0}};
  void *data[] = {qt, k, v, o2, lse};
  int64_t *dims[] = {qDims, kDims, kDims, qDims, lseDims};
  const AttnDLTensor *pointers[5];
  for (int i = 0; i < 5; ++i) {
    dl[i].data = data[i];
    dl[i].device.deviceType = 1;
    dl[i].ndim = i == 4 ? 3 : 4;
    dl[i].dtype.code = 2;
    dl[i].dtype.bits = 32;
    dl[i].dtype.lanes = 1;
    dl[i].shape = dims[i];
    pointers[i] = &dl[i];
  }
  dl[0].strides = qStrides;
  memset(o2, 0, sizeof(o2));
  ok(attnKernelRunDLPack(kernel, 0, pointers, 3, pointers + 3, 2));
  CHECK(memcmp(o, o2, sizeof(o)) == 0);
  dl[1].device.deviceType = 2;
  fails(attnKernelRunDLPack(kernel, 0, pointers, 3, pointers + 3, 2),
        "expected a tensor in host memory");
  dl[1].device.deviceType = 1;
  dl[1].dtype.lanes = 4;
  fails(attnKernelRunDLPack(kernel, 0, pointers, 3, pointers + 3, 2),
        "4 lanes");

  // Wrong arguments are sentences.
  AttnTensor bad[3];
  memcpy(bad, inputs, sizeof(bad));
  fails(attnKernelRun(kernel, 0, inputs, 2, outputs, 2),
        "expected 3 inputs (q, k, v), but got 2");
  fails(attnKernelRun(kernel, 0, inputs, 3, outputs, 1),
        "expected 2 outputs (o, lse), but got 1");
  fails(attnKernelRun(kernel, 1, inputs, 3, outputs, 2),
        "expected an entry below 1, but got 1");
  bad[1].dtype = ATTN_BF16;
  fails(attnKernelRun(kernel, 0, bad, 3, outputs, 2),
        "expected 'k' to be f32, but got bf16");
  bad[1] = inputs[1];
  bad[1].rank = 3;
  fails(attnKernelRun(kernel, 0, bad, 3, outputs, 2),
        "expected 'k' of shape [b, hk, sk, 16], but got shape [2, 2, 9]");
  int64_t other[] = {B, HK, SK + 1, D};
  bad[1] = inputs[1];
  bad[2].shape = other;
  fails(attnKernelRun(kernel, 0, bad, 3, outputs, 2),
        "expected 'v' of shape [b, hk, sk, 16] with sk = 9 as in 'k', but got "
        "shape [2, 2, 10, 16]");
  int64_t heads[] = {B, 3, SK, D};
  bad[1].shape = bad[2].shape = heads;
  fails(attnKernelRun(kernel, 0, bad, 3, outputs, 2),
        "expected hq to be a multiple of hk, but got hq = 4 and hk = 3");
  int64_t strides[] = {1, 1, 1, 2};
  memcpy(bad, inputs, sizeof(bad));
  bad[0].strides = strides;
  fails(attnKernelRun(kernel, 0, bad, 3, outputs, 2),
        "expected 'q' to have stride 1 in its last dimension, but got stride "
        "2; copy it to contiguous memory");
  bad[0] = inputs[0];
  bad[0].data = NULL;
  fails(attnKernelRun(kernel, 0, bad, 3, outputs, 2),
        "expected 'q' to have data, but got a null pointer");
  AttnTensor overlap[] = {inputs[0], outputs[1]};
  fails(attnKernelRun(kernel, 0, inputs, 3, overlap, 2),
        "expected output 'o' to have memory of its own, but got that of input "
        "'q'");

  // Kernels outlive their context.
  attnContextDestroy(context);
  ok(attnKernelRun(kernel, 0, inputs, 3, outputs, 2));
  attnKernelDestroy(kernel);

  // From text, with names from the text; scalars are tensors of rank 0.
  ok(attnContextCreate(&context));
  const char *text =
      "func.func @f(%queries: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>,\n"
      "             %v: tensor<?x?x?x16xf32>, %scale: f32)\n"
      "    -> tensor<?x?x?x16xf32> {\n"
      "  %o = attn.attention queries(%queries : tensor<?x?x?x16xf32>)\n"
      "      keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x16xf32>)"
      "\n      scale(%scale) {causal = #attn.causal<bottom_right>}\n"
      "      -> tensor<?x?x?x16xf32>\n"
      "  return %o : tensor<?x?x?x16xf32>\n"
      "}\n";
  ok(attnCompile(context, text, strlen(text), NULL, &kernel));
  ok(attnKernelArg(kernel, 0, 0, &info));
  CHECK(strcmp(info.name, "queries") == 0);
  ok(attnKernelArg(kernel, 0, 3, &info));
  CHECK(strcmp(info.name, "scale") == 0 && info.rank == -1 && !info.dims);
  float scale = 0.25f;
  AttnTensor four[] = {inputs[0], inputs[1], inputs[2],
                       tensor(&scale, 0, NULL)};
  memset(o2, 0, sizeof(o2));
  outputs[0].data = o2;
  ok(attnKernelRun(kernel, 0, four, 4, outputs, 1));
  checkResult(o2, NULL);
  attnKernelDestroy(kernel);

  // Wrong descriptions and texts too.
  kernel = NULL;
  fails(attnCompile(context, "func", 4, NULL, &kernel), "<input>:1:");
  fails(attnCompile(context, text, strlen(text) / 2, NULL, &kernel),
        "<input>:");
  options.target = "vax";
  fails(attnCompileAttention(context, &desc, &options, &kernel), "'vax'");
  options.target = NULL;
  options.untilAfter = "nowhere";
  fails(attnCompileAttention(context, &desc, &options, &kernel), "'nowhere'");
  options.untilAfter = NULL;
  options.structSize = 4000;
  fails(attnCompileAttention(context, &desc, &options, &kernel),
        "set it to sizeof the struct");
  desc.monoid = "average";
  fails(attnCompileAttention(context, &desc, NULL, &kernel), "'average'");
  desc.monoid = NULL;
  desc.numOutputs = 3;
  fails(attnCompileAttention(context, &desc, NULL, &kernel),
        "between 1 and 2 outputs");
  desc.numOutputs = 1;
  desc.headDim = 0;
  fails(attnCompileAttention(context, &desc, NULL, &kernel), "but got 0");
  desc.dtype = ATTN_I32;
  fails(attnCompileAttention(context, &desc, NULL, &kernel), "but got i32");
  fails(attnCompileAttention(context, NULL, NULL, &kernel), "null");
  fails(attnCompileAttention(NULL, &desc, NULL, &kernel), "null");
  CHECK(kernel == NULL);
  attnContextDestroy(context);
  attnContextDestroy(NULL);
  attnKernelDestroy(NULL);
  attnErrorDestroy(NULL);
  return 0;
}
