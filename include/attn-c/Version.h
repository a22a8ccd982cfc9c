//===- Version.h - The version of the library ---------------------*- C -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_C_VERSION_H
#define ATTN_C_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

/// Marks what libattn.so lets out.
#define ATTN_EXPORT __attribute__((visibility("default")))

/// The version of the library, as in "0.1.0". Never freed.
/// Available since: 0.1.
ATTN_EXPORT const char *attnVersion(void);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // ATTN_C_VERSION_H
