//===- Runtime.h - Running code that was compiled ahead of time -*- C -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// libattn-runtime.a: what objects of attn-compile need of their host, without
// the compiler. The headers that attn-compile writes call it. A program may as
// well fill an AttnRuntime of its own (attn/Runtime/Abi.h).
//
// Functions that can fail return null or a message of one line, which the
// caller gives to free(). Arguments of a plan are not checked: it trusts its
// sizes, strides and types.
//
// Available since 0.1.
//===----------------------------------------------------------------------===//

#ifndef ATTN_C_RUNTIME_H
#define ATTN_C_RUNTIME_H

#include "attn/Runtime/Abi.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Runs plans of a CPU on the threads of this process's own pool. Asks Linux
/// for the tile registers of AMX, which a program with an AttnRuntime of its
/// own does itself (arch_prctl, ARCH_REQ_XCOMP_PERM) before it runs a plan for
/// cpu-amx.
const AttnRuntime *attnHostRuntime(void);

/// A function of a module for a GPU: threads of a block, bytes of its dynamic
/// shared memory, and whether no more blocks are launched than run at once.
typedef struct AttnModuleKernel {
  const char *name;
  int32_t threads;
  int32_t persistent;
  int64_t sharedBytes;
} AttnModuleKernel;

/// Code for a GPU; may be used from many threads.
typedef struct AttnModule AttnModule;

/// `image`: PTX or machine code (a cubin), copied. It is loaded onto a GPU on
/// its first run there, or by attnModuleLoad.
char *attnModuleCreate(AttnModule **module, const char *target,
                       const void *image, size_t size,
                       const AttnModuleKernel *kernels, size_t numKernels);
void attnModuleDestroy(AttnModule *module);
/// -1: the current GPU.
char *attnModuleLoad(AttnModule *module, int32_t device);

/// Runs a plan on a stream (a CUstream; null: the default) of a GPU (-1: the
/// current one), without waiting. `args` as attn/Runtime/Abi.h has them.
char *attnModuleRun(AttnModule *module, AttnEntry entry, void **args,
                    int32_t device, void *stream);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // ATTN_C_RUNTIME_H
