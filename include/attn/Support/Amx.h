//===- Amx.h - The registers of AMX -----------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_AMX_H
#define ATTN_SUPPORT_AMX_H

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace attn {

/// Linux gives a process the AMX tile data registers on request only. False
/// where there are none.
inline bool requestAmx() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr int archReqXcompPerm = 0x1023, xfeatureXtileData = 18;
  return syscall(SYS_arch_prctl, archReqXcompPerm, xfeatureXtileData) == 0;
#else
  return false;
#endif
}

} // namespace attn

#endif // ATTN_SUPPORT_AMX_H
