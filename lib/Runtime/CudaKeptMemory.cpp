//===- CudaKeptMemory.cpp - Memory that later runs find -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaKeptMemory.h"
#include "CudaModule.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

using namespace ::attn;
using namespace ::attn::cuda;

namespace {
struct Entry {
  CUdeviceptr memory;
  /// The stream that writes it.
  unsigned long long stream;
  /// Whether what writes it has been launched, and is known to have ended.
  bool isLaunched = false, isThere = false;
  /// Comes behind it, where the driver gave one.
  CUevent behind = nullptr;
};
struct Less {
  bool operator()(const KeptKey &x, const KeptKey &y) const {
    auto all = [](const KeptKey &key) {
      return std::tie(key.context, key.module, key.bytes, key.numbers);
    };
    return all(x) < all(y);
  }
};
std::mutex mutex;
std::map<KeptKey, Entry, Less> entries;
} // namespace

/// Asks whether the kernels that write an entry have ended.
static void lookBehind(const Driver &driver, Entry &entry) {
  RelaxedCapture relaxed(driver);
  if (!entry.behind || driver.cuEventQuery(entry.behind))
    return;
  entry.isThere = true;
  driver.cuEventDestroy(entry.behind);
  entry.behind = nullptr;
}

KeptMemory attn::cuda::getKeptMemory(const Driver &driver, const KeptKey &key,
                                     CUmemoryPool pool, const KeptStream &on) {
  // As much as the bits of a mask may take in one call.
  constexpr size_t mostBytes = size_t(256) << 20;
  std::lock_guard<std::mutex> lock(mutex);
  if (auto it = entries.find(key); it != entries.end()) {
    Entry &entry = it->second;
    bool comesBehind = entry.isLaunched && on.id == entry.stream;
    if (!entry.isThere && !comesBehind)
      lookBehind(driver, entry);
    if (entry.isThere || comesBehind)
      return {entry.memory, /*isNew=*/false, /*comesLater=*/false};
    return {0, /*isNew=*/false, /*comesLater=*/true};
  }
  if (!on.id)
    return {0, /*isNew=*/false, /*comesLater=*/true};
  size_t used = key.bytes;
  for (auto &[other, entry] : entries)
    used += other.context == key.context ? other.bytes : 0;
  CUdeviceptr memory = 0;
  if (used > mostBytes ||
      driver.cuMemAllocFromPoolAsync(&memory, std::max<size_t>(key.bytes, 1),
                                     pool, on.stream))
    return {};
  entries.emplace(key, Entry{memory, *on.id});
  return {memory, /*isNew=*/true, /*comesLater=*/true};
}

void attn::cuda::finishKeptMemory(const Driver &driver, CUdeviceptr memory,
                                  bool isWritten, CUstream stream) {
  std::lock_guard<std::mutex> lock(mutex);
  auto it = std::find_if(entries.begin(), entries.end(), [&](auto &each) {
    return each.second.memory == memory;
  });
  if (it == entries.end())
    return;
  if (!isWritten) {
    driver.cuMemFreeAsync(memory, stream);
    entries.erase(it);
    return;
  }
  Entry &entry = it->second;
  entry.isLaunched = true;
  RelaxedCapture relaxed(driver);
  constexpr unsigned withoutTimes = 2;
  if (driver.cuEventCreate(&entry.behind, withoutTimes)) {
    entry.behind = nullptr;
  } else if (driver.cuEventRecord(entry.behind, stream)) {
    driver.cuEventDestroy(entry.behind);
    entry.behind = nullptr;
  }
}
