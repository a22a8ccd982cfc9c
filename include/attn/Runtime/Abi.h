/*===- Abi.h - What compiled code and its host agree on ---------------*- C
-*-===*\
|*
|* Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
|*
|*===------------------------------------------------------------------------===*|
|*
|* A compiled plan @f is the function
|*
|*   int32_t attn_entry_f(void **args, const AttnRuntime *runtime);
|*
|* args[i], in argument order (inputs, then outputs), points for a tensor of
|* rank r at
|*
|*   struct { void *data; int64_t sizes[r]; int64_t strides[r]; };
|*
|* with strides in elements, and for a scalar at the scalar. The result is 0, or
|* the first AttnStatus that a callback gave. All that the code needs from its
|* host comes through the callbacks: it refers to no symbol but those of libc
|* and libm, so the same object runs in a JIT and ahead of time.
|*
\*===------------------------------------------------------------------------===*/

#ifndef ATTN_RUNTIME_ABI_H
#define ATTN_RUNTIME_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ATTN_RUNTIME_OK = 0, ATTN_RUNTIME_NO_MEMORY = 1 };

typedef struct AttnRuntime AttnRuntime;

/* One block of a kernel. `scratch` is 64-byte aligned, private to the calling
   thread for the call, and holds garbage. */
typedef void (*AttnKernelBody)(void *context, int64_t block, void *scratch);

struct AttnRuntime {
  /* Calls body(context, i, scratch) for every i in [0, count) and returns when
     all are done. Blocks are started in increasing order; which thread runs
     which block is free. */
  int32_t (*parallel_for)(const AttnRuntime *runtime, AttnKernelBody body,
                          void *context, int64_t count, int64_t scratch_bytes);
  /* 64-byte aligned memory, or null. */
  void *(*allocate)(const AttnRuntime *runtime, int64_t bytes);
  /* Accepts null. */
  void (*release)(const AttnRuntime *runtime, void *pointer);
  /* For the callbacks' own use. */
  void *user;
};

typedef int32_t (*AttnEntry)(void **args, const AttnRuntime *runtime);

#ifdef __cplusplus
}
#endif

#endif /* ATTN_RUNTIME_ABI_H */
