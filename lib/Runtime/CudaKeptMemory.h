//===- CudaKeptMemory.h - Memory that later runs find -----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What kernels make of numbers alone, as the lists of a mask that reads no
// tensors, is made once. What its stream runs later comes behind the kernels
// that wrote it; another stream, and a graph, may read it once they are known
// to have ended. It is never given back, so that nobody has to know who still
// reads it; there is a bound on how much that is.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_RUNTIME_CUDAKEPTMEMORY_H
#define ATTN_LIB_RUNTIME_CUDAKEPTMEMORY_H

#include "CudaDriver.h"
#include <optional>
#include <vector>

namespace attn::cuda {

/// What is written depends on this and nothing else.
struct KeptKey {
  CUcontext context;
  /// The number of the module.
  unsigned long long module;
  size_t bytes;
  std::vector<int64_t> numbers;
};

struct KeptMemory {
  CUdeviceptr memory = 0;
  /// Whether who asked is to write it, and to say when it has.
  bool isNew = false;
  /// Whether a later run may find what this one does not.
  bool comesLater = false;
};

/// A stream, and the number that findStreamId gives it; none of one that is
/// being captured.
struct KeptStream {
  CUstream stream;
  std::optional<unsigned long long> id;
};

/// The memory of `key`, new where nobody has asked for it before. None where
/// what writes it may not have ended before what `on` runs next, where a graph
/// would have to write it, or where all are too large together.
KeptMemory getKeptMemory(const Driver &driver, const KeptKey &key,
                         CUmemoryPool pool, const KeptStream &on);

/// All that writes new memory has been launched on `stream`, or it never will
/// be.
void finishKeptMemory(const Driver &driver, CUdeviceptr memory, bool isWritten,
                      CUstream stream);

} // namespace attn::cuda

#endif // ATTN_LIB_RUNTIME_CUDAKEPTMEMORY_H
