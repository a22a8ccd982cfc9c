/* Links an attention in bf16: of equal scores and values, which are the output.

   Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
   SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#include "narrow.h"
#include <stdio.h>

enum { S = 64, D = 64, One = 0x3f80 };
static uint16_t x[S][D], o[S][D];

int main(void) {
  AttnTensor4 in = {x, {1, 1, S, D}, {S * D, S * D, D, 1}}, out = in;
  out.data = o;
  for (int i = 0; i < S; ++i)
    for (int c = 0; c < D; ++c)
      x[i][c] = One;
  int32_t status = narrow(attnHostRuntime(), in, in, in, out);
  int right = 1;
  for (int i = 0; i < S; ++i)
    for (int c = 0; c < D; ++c)
      right &= o[i][c] == One;
  printf("status %d, %s\n", status, right ? "right" : "wrong");
  return status != 0 || !right;
}
