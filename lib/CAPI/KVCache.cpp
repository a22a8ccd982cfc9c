//===- KVCache.cpp - Caches in pages in the C ABI -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn-c/KVCache.h"
#include "Handles.h"
#include "attn/Cache/KVCache.h"
#include "attn/Compiler/Overlap.h"
#include "attn/Runtime/Cuda.h"

#include <stdexcept>

using namespace ::attn;
using cache::Numbers;
using cache::Rows;
using support::DType;

struct AttnKVCache {
  std::unique_ptr<cache::KVCache> cache;
};

template <typename T>
static AttnError *report(const support::Result<T> &result) {
  return result ? nullptr : makeError(result.error());
}

/// Calls `body`, which gives an AttnError *, where nothing that it needs is
/// null.
template <typename F> static AttnError *guarded(bool isGiven, F body) {
  if (!isGiven)
    return makeError("expected a cache, ids and places for the results, but "
                     "got null");
  ForkGate::Inside inside;
  try {
    return body();
  } catch (const std::bad_alloc &) {
  } catch (const std::length_error &) {
  }
  return makeError("out of memory: expected room for the pages of sequences, "
                   "but there is none");
}

static AttnError *readRows(const AttnTensor &given, const char *name,
                           Rows &rows) {
  TensorList list;
  if (AttnError *error = convert(&given, 1, list))
    return error;
  const TensorArg &tensor = list[0];
  if (tensor.shape.size() != 4)
    return makeError(std::string("expected ") + name +
                     " of 4 dimensions, but got " +
                     std::to_string(tensor.shape.size()));
  rows.data = tensor.data;
  rows.dtype = tensor.dtype;
  std::copy_n(tensor.shape.begin(), 4, rows.shape.begin());
  std::copy_n(tensor.strides.begin(), 4, rows.strides.begin());
  return nullptr;
}

static TensorArg asTensor(const Rows &rows) {
  TensorArg tensor{rows.data, rows.dtype, {}, {}};
  tensor.shape.assign(rows.shape.begin(), rows.shape.end());
  tensor.strides.assign(rows.strides.begin(), rows.strides.end());
  return tensor;
}

/// Each element of the pools is written by itself.
static AttnError *checkApart(const Rows &keys, const Rows &values) {
  TensorArg k = asTensor(keys), v = asTensor(values);
  for (auto [tensor, name] : {std::pair(&k, "k"), std::pair(&v, "v")})
    if (findSelfOverlap(*tensor) != Overlap::No)
      return makeError(std::string("expected ") + name +
                       " to have an element of its own at each position, but "
                       "got strides by which some overlap");
  if (findOverlap(k, v) != Overlap::No)
    return makeError("expected v to have memory of its own, but got some that "
                     "overlaps that of k");
  return nullptr;
}

AttnError *attnKVCacheCreate(const AttnTensor *k, const AttnTensor *v,
                             const AttnKVCacheOptions *options,
                             AttnKVCache **result) {
  return guarded(k && v && result, [&]() -> AttnError * {
    AttnKVCacheOptions how;
    if (AttnError *error = readStruct(options, "AttnKVCacheOptions", how))
      return error;
    Rows keys, values;
    if (AttnError *error = readRows(*k, "k", keys))
      return error;
    if (AttnError *error = readRows(*v, "v", values))
      return error;
    std::optional<int> device;
    if (AttnError *error = checkPlace(how.place))
      return error;
    if (how.place == ATTN_PLACE_GPU) {
      auto found =
          keys.data ? cuda::deviceOf(keys.data) : cuda::currentDevice();
      if (!found)
        return makeError(found.error());
      if (*found < 0)
        return makeError("expected k in memory of a GPU, but got memory of the "
                         "host");
      device = *found;
      auto place = values.data ? cuda::deviceOf(values.data)
                               : support::Result<int>(*device);
      if (!place)
        return makeError(place.error());
      if (*place != *device)
        return makeError("expected v on GPU " + std::to_string(*device) +
                         ", where k is, but got " +
                         (*place < 0 ? std::string("memory of the host")
                                     : "GPU " + std::to_string(*place)));
    }
    auto made =
        cache::KVCache::create(keys, values, how.window, how.keep, device);
    if (!made)
      return makeError(made.error());
    if (AttnError *error = checkApart(keys, values))
      return error;
    *result = new AttnKVCache{std::move(*made)};
    return nullptr;
  });
}

void attnKVCacheDestroy(AttnKVCache *cache) { delete cache; }

AttnError *attnKVCacheNew(AttnKVCache *cache, int64_t *id) {
  return guarded(cache && id, [&]() -> AttnError * {
    *id = cache->cache->create();
    return nullptr;
  });
}

/// Tokens [ids, rows] as dense numbers.
static AttnError *readTokens(const AttnTensor &given, size_t numIds,
                             int64_t rows, std::vector<int64_t> &tokens) {
  TensorList list;
  if (AttnError *error = convert(&given, 1, list))
    return error;
  const TensorArg &tensor = list[0];
  if (tensor.dtype != DType::i32 && tensor.dtype != DType::i64)
    return makeError(std::string("expected tokens of type i32 or i64, but "
                                 "got ") +
                     support::nameOf(tensor.dtype));
  if (tensor.shape.size() != 2 || tensor.shape[0] != int64_t(numIds) ||
      tensor.shape[1] != rows) {
    std::string shape;
    for (int64_t size : tensor.shape)
      shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    return makeError("expected tokens of shape [ids, tokens] = [" +
                     std::to_string(numIds) + ", " + std::to_string(rows) +
                     "], but got [" + shape + "]");
  }
  if (numIds && rows && !tensor.data)
    return makeError("expected memory of tokens, but got null");
  tokens.reserve(numIds * size_t(rows) + 1);
  for (int64_t i = 0; i < int64_t(numIds); ++i)
    for (int64_t row = 0; row < rows; ++row) {
      int64_t at = i * tensor.strides[0] + row * tensor.strides[1];
      tokens.push_back(tensor.dtype == DType::i32
                           ? static_cast<const int32_t *>(tensor.data)[at]
                           : static_cast<const int64_t *>(tensor.data)[at]);
    }
  return nullptr;
}

AttnError *attnKVCacheAppend(AttnKVCache *cache, const int64_t *ids,
                             size_t numIds, const AttnTensor *k,
                             const AttnTensor *v, const AttnTensor *tokens,
                             int64_t rows, const AttnRunOptions *options) {
  return guarded(cache && (ids || !numIds), [&]() -> AttnError * {
    AttnRunOptions how;
    if (AttnError *error = readStruct(options, "AttnRunOptions", how))
      return error;
    Rows keys, values;
    if (k)
      if (AttnError *error = readRows(*k, "k", keys))
        return error;
    if (v)
      if (AttnError *error = readRows(*v, "v", values))
        return error;
    if (k)
      rows = keys.shape[2];
    if (rows < 0)
      return makeError("expected a number of rows of at least 0, but got " +
                       std::to_string(rows));
    std::vector<int64_t> known;
    if (tokens)
      if (AttnError *error = readTokens(*tokens, numIds, rows, known))
        return error;
    // Which has room for one more, so that there is an address.
    Numbers numbers = {tokens ? known.data() : nullptr, known.size()};
    return report(cache->cache->append({ids, numIds}, rows, k ? &keys : nullptr,
                                       v ? &values : nullptr, numbers,
                                       how.stream));
  });
}

AttnError *attnKVCacheReuse(AttnKVCache *cache, int64_t id,
                            const int64_t *tokens, size_t numTokens,
                            int64_t *reused) {
  return guarded(cache && reused && (tokens || !numTokens), [&]() {
    auto rows = cache->cache->reuse(id, {tokens, numTokens});
    if (rows)
      *reused = *rows;
    return report(rows);
  });
}

AttnError *attnKVCacheFork(AttnKVCache *cache, int64_t id, int64_t *fork) {
  return guarded(cache && fork, [&]() {
    auto made = cache->cache->fork(id);
    if (made)
      *fork = *made;
    return report(made);
  });
}

AttnError *attnKVCacheTruncate(AttnKVCache *cache, int64_t id, int64_t length) {
  return guarded(cache,
                 [&]() { return report(cache->cache->truncate(id, length)); });
}

AttnError *attnKVCacheFree(AttnKVCache *cache, int64_t id) {
  return guarded(cache, [&]() { return report(cache->cache->free(id)); });
}

AttnError *attnKVCacheReorder(AttnKVCache *cache, const int64_t *from,
                              const int64_t *onto, size_t count) {
  return guarded(cache && ((from && onto) || !count), [&]() {
    return report(cache->cache->reorder({from, count}, {onto, count}));
  });
}

AttnError *attnKVCacheLengths(const AttnKVCache *cache, const int64_t *ids,
                              size_t numIds, int32_t *lengths,
                              int32_t *starts) {
  return guarded(cache && (ids || !numIds), [&]() -> AttnError * {
    std::vector<int32_t> foundLengths(numIds), foundStarts(numIds);
    auto ok = cache->cache->lengths({ids, numIds}, foundLengths.data(),
                                    foundStarts.data());
    if (!ok)
      return makeError(ok.error());
    if (lengths)
      std::copy_n(foundLengths.begin(), numIds, lengths);
    if (starts)
      std::copy_n(foundStarts.begin(), numIds, starts);
    return nullptr;
  });
}

AttnError *attnKVCacheWidth(const AttnKVCache *cache, const int64_t *ids,
                            size_t numIds, int64_t *width) {
  return guarded(cache && width && (ids || !numIds), [&]() {
    auto most = cache->cache->width({ids, numIds});
    if (most)
      *width = *most;
    return report(most);
  });
}

AttnError *attnKVCacheTable(const AttnKVCache *cache, const int64_t *ids,
                            size_t numIds, int64_t width, int32_t *table) {
  bool isEmpty = !numIds || !width;
  return guarded(cache && (ids || !numIds) && (table || isEmpty), [&]() {
    return report(cache->cache->table({ids, numIds}, width, table));
  });
}

int64_t attnKVCacheFreePages(const AttnKVCache *cache) {
  ForkGate::Inside inside;
  return cache ? cache->cache->numFree() : 0;
}

size_t attnKVCacheIds(const AttnKVCache *cache, int64_t *ids, size_t capacity) {
  if (!cache)
    return 0;
  ForkGate::Inside inside;
  std::vector<int64_t> found = cache->cache->ids();
  if (ids)
    std::copy_n(found.begin(), std::min(capacity, found.size()), ids);
  return found.size();
}
