/* Links two attentions for the CPU into one program.

   Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
   SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#include "attention.h"
#include "second.h"
#include <stdio.h>

enum { S = 3, D = 16 };
static float zeros[S * D], ones[S * D], twos[S * D], a[S * D], b[S * D];

static AttnTensor4 view(float *x) {
  AttnTensor4 tensor = {x, {1, 1, S, D}, {S * D, S * D, D, 1}};
  return tensor;
}

int main(void) {
  for (int i = 0; i < S * D; ++i) {
    ones[i] = 1;
    twos[i] = 2;
  }
  const AttnRuntime *host = attnHostRuntime();
  AttnTensor4 q = view(zeros);
  int32_t first = attention(host, q, q, view(ones), view(a));
  int32_t then = second(host, q, q, view(twos), view(b));
  printf("status %d and %d, sums %.1f and %.1f\n", first, then, a[0], b[0]);
  return 0;
}
