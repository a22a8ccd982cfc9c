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
|* the bits of each status that a callback gave. All that the code needs of its
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

enum {
  ATTN_RUNTIME_OK = 0,
  ATTN_RUNTIME_NO_MEMORY = 1,
  /* The host of the callbacks knows more. */
  ATTN_RUNTIME_GPU_ERROR = 2,
  /* The host stopped the run: blocks were left out. */
  ATTN_RUNTIME_STOPPED = 4
};

typedef struct AttnRuntime AttnRuntime;
typedef struct AttnGpu AttnGpu;

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
  /* Where plans launch kernels of a GPU, else null. Then `allocate` and
     `release` are of memory there, in the order of the stream, and the data of
     all tensors lies there; records and scalars stay on the host. */
  const AttnGpu *gpu;
};

/* Element types of tensor maps; the numbers are those of AttnDType. */
enum {
  ATTN_ELEMENT_F32 = 0,
  ATTN_ELEMENT_F16 = 1,
  ATTN_ELEMENT_BF16 = 2,
  ATTN_ELEMENT_I32 = 6,
  ATTN_ELEMENT_U8 = 8
};

/* Flags of a launch. */
enum {
  /* May start before the launch before it has ended. */
  ATTN_LAUNCH_PROGRAMMATIC = 1
};

/* Bytes and alignment of a tensor map. */
enum { ATTN_TENSOR_MAP_BYTES = 128, ATTN_TENSOR_MAP_ALIGN = 64 };

/* All calls are asynchronous, in the order of one stream, and legal while it is
   captured into a graph. Each returns an AttnStatus. */
struct AttnGpu {
  /* Describes a strided tensor for box copies. Sizes and strides are in
     elements, outermost first; the box is `box_rows` x `box_cols` of the last
     two dimensions. `name` is for messages. */
  int32_t (*encode_tensor_map)(const AttnRuntime *runtime, void *map,
                               const char *name, void *data, int32_t element,
                               int32_t rank, const int64_t *sizes,
                               const int64_t *strides, int64_t box_rows,
                               int64_t box_cols, int32_t swizzle_bytes);
  /* Launches a kernel of the module on a grid of blocks; `params` points at its
     parameters one by one. Nothing happens where the grid is 0. */
  int32_t (*launch)(const AttnRuntime *runtime, const char *kernel,
                    int64_t grid, int32_t flags, void **params);
  int32_t (*fill_zero)(const AttnRuntime *runtime, void *memory, int64_t bytes);
  /* `count` counters of 32 bits for the launch of `kernel` on `grid` blocks, or
     null. Each is zero when that launch starts, and must be zero again when it
     ends; launches of one stream are given the same ones. They are not
     released. Where all of the grid's blocks run at once, what is given may not
     be accessed: nobody has another block's work to take. */
  void *(*counters)(const AttnRuntime *runtime, int64_t count,
                    const char *kernel, int64_t grid);
  /* Memory for what kernels make of the `count` numbers of `key` alone, or
     null. Where an earlier run of this module asked for as many bytes with that
     key, ended without an error, and what it launched comes before what this
     one launches, it may be what that run wrote, and nobody writes there again:
     `*is_new` is 0 then. Else it is as of `allocate`, and `*is_new` is 1. It is
     not released. */
  void *(*keep)(const AttnRuntime *runtime, int64_t bytes, int64_t count,
                const int64_t *key, int32_t *is_new);
};

typedef int32_t (*AttnEntry)(void **args, const AttnRuntime *runtime);

#ifdef __cplusplus
}
#endif

#endif /* ATTN_RUNTIME_ABI_H */
