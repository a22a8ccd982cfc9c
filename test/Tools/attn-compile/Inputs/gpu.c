/* Loads and launches an attention for a GPU that attn-compile made, without the
   compiler. Arguments: the file of PTX or machine code, and the driver. Memory
   comes from the driver; a program on CUDA's runtime would take cudaMalloc.

   Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
   SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#include "attention.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static int check(char *message) {
  if (!message)
    return 0;
  fprintf(stderr, "error: %s\n", message);
  free(message);
  return 1;
}

int main(int argc, char **argv) {
  enum { H = 2, S = 100, D = 64 };
  static char image[1 << 20];
  FILE *file = argc > 2 ? fopen(argv[1], "rb") : NULL;
  void *driver = argc > 2 ? dlopen(argv[2], RTLD_NOW) : NULL;
  if (!file || !driver)
    return 2;
  size_t size = fread(image, 1, sizeof(image), file);
  fclose(file);

  AttnModule *module;
  if (check(attention_create(&module, image, size)) ||
      check(attnModuleLoad(module, 0)))
    return 1;
  int (*retain)(void **, int), (*push)(void *);
  int (*allocate)(unsigned long long *, size_t), (*wait)(void *);
  *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
  *(void **)&push = dlsym(driver, "cuCtxPushCurrent_v2");
  *(void **)&allocate = dlsym(driver, "cuMemAlloc_v2");
  *(void **)&wait = dlsym(driver, "cuStreamSynchronize");
  void *context;
  if (retain(&context, 0) || push(context))
    return 3;
  AttnTensor4 tensors[4];
  for (int i = 0; i < 4; ++i) {
    unsigned long long memory;
    if (allocate(&memory, H * S * D * 2))
      return 3;
    AttnTensor4 tensor = {
        (void *)memory, {1, H, S, D}, {H * S * D, S * D, D, 1}};
    tensors[i] = tensor;
  }
  /* Of the queries, some rows. */
  if (argc > 3)
    tensors[0].sizes[2] = tensors[3].sizes[2] = atoi(argv[3]);
  if (check(attention(module, NULL, tensors[0], tensors[1], tensors[2],
                      tensors[3])))
    return 1;
  int status = wait(NULL);
  attnModuleDestroy(module);
  printf("status %d\n", status);
  return status != 0;
}
