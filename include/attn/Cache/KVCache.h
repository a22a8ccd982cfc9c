//===- KVCache.h - Keys and values of many sequences, in pages --*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A PageTable with the memory of its pages, which the caller owns, and a mutex:
// all functions may be called from many threads. docs/Serving.md says what they
// promise.
//===----------------------------------------------------------------------===//

#ifndef ATTN_CACHE_KVCACHE_H
#define ATTN_CACHE_KVCACHE_H

#include "attn/Cache/PageTable.h"
#include "attn/Support/DType.h"

#include <array>
#include <memory>
#include <mutex>
#include <optional>

namespace attn::cache {

/// Elements in memory: pools are [pages, heads, page, d], what is appended to
/// them [ids, heads, rows, d].
struct Rows {
  void *data = nullptr;
  support::DType dtype = support::DType::f32;
  std::array<int64_t, 4> shape{};
  std::array<int64_t, 4> strides{};
};

class KVCache {
public:
  /// `window` and `keep`: see PageTable. Values may have no channels. `device`:
  /// the GPU whose memory this is; none: the host's.
  static support::Result<std::unique_ptr<KVCache>>
  create(const Rows &k, const Rows &v, int64_t window, int64_t keep = 0,
         std::optional<int> device = {});

  /// `v` may be null where values have no channels, and both may be: the rows
  /// are then there to be written by the caller. On a GPU rows are copied in
  /// order on `stream`, without waiting.
  support::Status append(Numbers ids, int64_t count, const Rows *k,
                         const Rows *v, Numbers tokens, void *stream = nullptr);

  int64_t create();
  support::Result<int64_t> reuse(int64_t id, Numbers tokens);
  support::Result<int64_t> fork(int64_t id);
  support::Status truncate(int64_t id, int64_t length);
  support::Status free(int64_t id);
  support::Status reorder(Numbers from, Numbers onto);

  support::Status lengths(Numbers ids, int32_t *lengths, int32_t *starts) const;
  support::Result<int64_t> width(Numbers ids) const;
  support::Status table(Numbers ids, int64_t width, int32_t *table) const;
  std::vector<int64_t> ids() const;
  int32_t numFree() const;
  int32_t numPages() const { return int32_t(keys.shape[0]); }

private:
  KVCache(const Rows &k, const Rows &v, int64_t window, int64_t keep,
          std::optional<int> device);

  mutable std::mutex mutex;
  const Rows keys, values;
  const std::optional<int> device;
  PageTable pages;
};

} // namespace attn::cache

#endif // ATTN_CACHE_KVCACHE_H
