//===- DiskCache.h - Compiled kernels on disk -------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whole results by everything that went into them: the program, the options,
// this library, the assembler. One file each, in the folder of the cache
// (CacheFolder.h). Files appear whole, by renaming, and are checked when read:
// a damaged one counts as absent and is written anew.
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_COMPILER_DISKCACHE_H
#define ATTN_LIB_COMPILER_DISKCACHE_H

#include "attn/Compiler/Compiler.h"

namespace attn {

class DiskCache {
public:
  /// `key` says all that the result depends on but for the library itself.
  explicit DiskCache(const std::string &key);

  /// What tells this build of the library from others; empty if nothing does.
  static const std::string &getLibraryIdentity();

  /// Fills in what `store` kept; false, and the kernel is of no use, where
  /// there is nothing.
  bool load(CompiledKernel &kernel) const;
  /// Failing to is no error, but worth a warning.
  void store(const CompiledKernel &kernel) const;

private:
  /// Empty where there is no cache.
  std::string identity;
};

} // namespace attn

#endif // ATTN_LIB_COMPILER_DISKCACHE_H
