//===- CudaKeptMemory.cpp - Memory that later runs find -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaKeptMemory.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

using namespace ::attn;
using namespace ::attn::cuda;

namespace {
struct Entry {
  CUdeviceptr memory;
  bool isWritten;
};
struct Less {
  bool operator()(const KeptKey &x, const KeptKey &y) const {
    auto all = [](const KeptKey &key) {
      return std::tie(key.context, key.stream, key.module, key.bytes,
                      key.numbers);
    };
    return all(x) < all(y);
  }
};
std::mutex mutex;
std::map<KeptKey, Entry, Less> entries;
} // namespace

KeptMemory attn::cuda::getKeptMemory(const Driver &driver, const KeptKey &key,
                                     CUmemoryPool pool, CUstream stream) {
  // As much as the bits of a mask may take in one call.
  constexpr size_t mostBytes = size_t(256) << 20;
  std::lock_guard<std::mutex> lock(mutex);
  if (auto it = entries.find(key); it != entries.end())
    return it->second.isWritten ? KeptMemory{it->second.memory, false}
                                : KeptMemory();
  size_t used = key.bytes;
  for (auto &[other, entry] : entries)
    used += other.context == key.context ? other.bytes : 0;
  CUdeviceptr memory = 0;
  if (used > mostBytes ||
      driver.cuMemAllocFromPoolAsync(&memory, std::max<size_t>(key.bytes, 1),
                                     pool, stream))
    return {};
  entries.emplace(key, Entry{memory, /*isWritten=*/false});
  return {memory, true};
}

void attn::cuda::finishKeptMemory(const Driver &driver, CUdeviceptr memory,
                                  bool isWritten, CUstream stream) {
  std::lock_guard<std::mutex> lock(mutex);
  for (auto it = entries.begin(); it != entries.end(); ++it) {
    if (it->second.memory != memory)
      continue;
    it->second.isWritten = isWritten;
    if (!isWritten) {
      driver.cuMemFreeAsync(memory, stream);
      entries.erase(it);
    }
    return;
  }
}
