//===- Exit.cpp - Nothing is destroyed when the process ends --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Threads may compile and run while the process ends, as daemon threads of
// Python do, and would find LLVM's registries and options destroyed. So objects
// of static lifetime, ours and LLVM's, stay: every function of libattn.so
// registers destructors by the name that is bound here.
//
//===----------------------------------------------------------------------===//

extern "C" __attribute__((visibility("hidden"))) int
__cxa_atexit(void (*)(void *), void *, void *) {
  return 0;
}
