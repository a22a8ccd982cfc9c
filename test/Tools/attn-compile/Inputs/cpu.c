/* Links an attention for the CPU that attn-compile made, without the compiler.

   Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
   SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#include "attention.h"
#include <math.h>
#include <stdio.h>

enum { H = 2, S = 37, D = 16 };
static float q[H][S][D], k[H][S][D], v[H][S][D], o[H][S][D];

static AttnTensor4 view(float (*x)[S][D]) {
  AttnTensor4 tensor = {x, {1, H, S, D}, {H * S * D, S * D, D, 1}};
  return tensor;
}

/* Causal attention of one row, by its definition. */
static double expected(int h, int i, int c) {
  double sum = 0, result = 0;
  for (int j = 0; j <= i; ++j) {
    double score = 0;
    for (int e = 0; e < D; ++e)
      score += (double)q[h][i][e] * k[h][j][e];
    double weight = exp(score / sqrt((double)D));
    sum += weight;
    result += weight * v[h][j][c];
  }
  return result / sum;
}

int main(void) {
  for (int h = 0; h < H; ++h)
    for (int i = 0; i < S; ++i)
      for (int e = 0; e < D; ++e) {
        q[h][i][e] = sinf((float)(h + 3 * i + 7 * e));
        k[h][i][e] = cosf((float)(5 * h + i + 2 * e));
        v[h][i][e] = sinf((float)(h + 11 * i + e));
      }
  int32_t status =
      attention(attnHostRuntime(), view(q), view(k), view(v), view(o));
  double error = 0;
  for (int h = 0; h < H; ++h)
    for (int i = 0; i < S; ++i)
      for (int c = 0; c < D; ++c)
        error = fmax(error, fabs(o[h][i][c] - expected(h, i, c)));
  printf("status %d, %s\n", status, error < 1e-5 ? "right" : "wrong");
  return status != 0 || !(error < 1e-5);
}
