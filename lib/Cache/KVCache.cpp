//===- KVCache.cpp - Keys and values of many sequences, in pages ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Cache/KVCache.h"

#include <cstring>

using namespace ::attn;
using namespace ::attn::cache;
using support::Failure;
using support::Result;
using support::Status;
using support::success;

using Lock = std::lock_guard<std::mutex>;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// The address of an element of the last dimension's first.
static char *locate(const Rows &rows, int64_t i, int64_t head, int64_t row) {
  int64_t offset =
      i * rows.strides[0] + head * rows.strides[1] + row * rows.strides[2];
  return static_cast<char *>(rows.data) +
         offset * int64_t(support::sizeOf(rows.dtype));
}

/// Elements of `size` bytes, that many bytes times a stride apart.
static void copyElements(char *to, int64_t toStride, const char *from,
                         int64_t fromStride, int64_t count, size_t size) {
  if (toStride == 1 && fromStride == 1) {
    std::memcpy(to, from, size_t(count) * size);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * toStride * int64_t(size),
                from + i * fromStride * int64_t(size), size);
}

/// Copies `count` rows of all heads: from row `fromRow` of sequence or page
/// `from` to row `toRow` of page `to`.
static void copyRows(const Rows &pool, int32_t to, int64_t toRow,
                     const Rows &source, int64_t from, int64_t fromRow,
                     int64_t count) {
  int64_t d = pool.shape[3];
  if (!d)
    return;
  size_t size = support::sizeOf(pool.dtype);
  bool isBlock = pool.strides[3] == 1 && source.strides[3] == 1 &&
                 pool.strides[2] == d && source.strides[2] == d;
  for (int64_t head = 0; head < pool.shape[1]; ++head) {
    char *target = locate(pool, to, head, toRow);
    const char *origin = locate(source, from, head, fromRow);
    if (isBlock) {
      std::memcpy(target, origin, size_t(count * d) * size);
      continue;
    }
    for (int64_t row = 0; row < count; ++row)
      copyElements(target + row * pool.strides[2] * int64_t(size),
                   pool.strides[3],
                   origin + row * source.strides[2] * int64_t(size),
                   source.strides[3], d, size);
  }
}

static void carryOut(const PageChanges &changes, const Rows &pool,
                     const Rows *source) {
  for (const PageCopy &copy : changes.copies)
    copyRows(pool, copy.to, 0, pool, copy.from, 0, copy.rows);
  if (!source)
    return;
  for (const PageWrite &write : changes.writes)
    copyRows(pool, write.page, write.row, *source, write.sequence, write.first,
             write.count);
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static std::string toText(const std::array<int64_t, 4> &shape) {
  std::string text = "[";
  for (int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

static Status checkPools(const Rows &k, const Rows &v, int64_t window) {
  static constexpr int64_t maxSize = INT32_MAX - (1 << 16);
  for (auto [pool, name, least] :
       {std::tuple(&k, "k", 1), std::tuple(&v, "v", 0)}) {
    static constexpr const char *names[] = {"pages", "heads", "page", "d"};
    for (int i = 0; i < 4; ++i) {
      int64_t lowest = i == 0 ? 0 : i == 3 ? least : 1;
      if (pool->shape[i] < lowest || pool->shape[i] > maxSize)
        return Failure{"expected " + std::string(names[i]) + " of " + name +
                       " between " + std::to_string(lowest) + " and " +
                       std::to_string(maxSize) + ", but got " +
                       std::to_string(pool->shape[i])};
    }
    bool isEmpty = !pool->shape[0] || !pool->shape[3];
    if (!isEmpty && !pool->data)
      return Failure{std::string("expected memory of ") + name +
                     ", but got null"};
  }
  if (!std::equal(k.shape.begin(), k.shape.begin() + 3, v.shape.begin()))
    return Failure{"expected v of the pages, heads and page of k, " +
                   toText(k.shape) + ", but got " + toText(v.shape)};
  if (support::sizeOf(k.dtype) > 4 || !support::isFloat(k.dtype))
    return Failure{std::string("expected k of type f32, f16 or bf16, but "
                               "got ") +
                   support::nameOf(k.dtype)};
  if (k.dtype != v.dtype)
    return Failure{std::string("expected v of the type of k, ") +
                   support::nameOf(k.dtype) + ", but got " +
                   support::nameOf(v.dtype)};
  if (window < 0)
    return Failure{"expected a window of at least 1, or 0 for none, but got " +
                   std::to_string(window)};
  return success();
}

/// Whether rows can go into a pool.
static Status checkRows(const char *name, const Rows &rows, const Rows &pool,
                        Numbers ids, int64_t count) {
  if (rows.dtype != pool.dtype)
    return Failure{"expected " + std::string(name) + " of type " +
                   support::nameOf(pool.dtype) +
                   ", as the cache has, but got " +
                   support::nameOf(rows.dtype)};
  std::array<int64_t, 4> shape = {int64_t(ids.size), pool.shape[1], count,
                                  pool.shape[3]};
  if (rows.shape != shape)
    return Failure{"expected " + std::string(name) +
                   " of shape [ids, heads, tokens, d] = " + toText(shape) +
                   ", but got " + toText(rows.shape)};
  bool isEmpty = !ids.size || !count || !pool.shape[3];
  if (!isEmpty && !rows.data)
    return Failure{"expected memory of " + std::string(name) +
                   ", but got null"};
  return success();
}

//===----------------------------------------------------------------------===//
// KVCache
//===----------------------------------------------------------------------===//

KVCache::KVCache(const Rows &k, const Rows &v, int64_t window)
    : keys(k), values(v),
      pages(int32_t(k.shape[0]), int32_t(k.shape[2]), window) {}

Result<std::unique_ptr<KVCache>> KVCache::create(const Rows &k, const Rows &v,
                                                 int64_t window) {
  if (Status ok = checkPools(k, v, window); !ok)
    return ok.takeFailure();
  return std::unique_ptr<KVCache>(new KVCache(k, v, window));
}

Status KVCache::append(Numbers ids, int64_t count, const Rows *k, const Rows *v,
                       Numbers tokens) {
  if (k)
    if (Status ok = checkRows("k", *k, keys, ids, count); !ok)
      return ok;
  if (v)
    if (Status ok = checkRows("v", *v, values, ids, count); !ok)
      return ok;
  bool hasValues = values.shape[3] != 0;
  if (bool(k) != bool(v) && (!k || hasValues))
    return Failure{std::string("expected both k and v, or neither, but got ") +
                   (k ? "k" : "v") + " alone"};
  Lock lock(mutex);
  auto changes = pages.append(ids, count, tokens);
  if (!changes)
    return changes.takeFailure();
  carryOut(*changes, keys, k);
  carryOut(*changes, values, v);
  return success();
}

int64_t KVCache::create() {
  Lock lock(mutex);
  return pages.create();
}

Result<int64_t> KVCache::reuse(int64_t id, Numbers tokens) {
  Lock lock(mutex);
  return pages.reuse(id, tokens);
}

Result<int64_t> KVCache::fork(int64_t id) {
  Lock lock(mutex);
  return pages.fork(id);
}

Status KVCache::truncate(int64_t id, int64_t length) {
  Lock lock(mutex);
  return pages.truncate(id, length);
}

Status KVCache::free(int64_t id) {
  Lock lock(mutex);
  return pages.free(id);
}

Status KVCache::reorder(Numbers from, Numbers onto) {
  Lock lock(mutex);
  return pages.reorder(from, onto);
}

Status KVCache::lengths(Numbers ids, int32_t *lengths, int32_t *starts) const {
  Lock lock(mutex);
  return pages.lengths(ids, lengths, starts);
}

Result<int64_t> KVCache::width(Numbers ids) const {
  Lock lock(mutex);
  return pages.width(ids);
}

Status KVCache::table(Numbers ids, int64_t width, int32_t *table) const {
  Lock lock(mutex);
  return pages.table(ids, width, table);
}

std::vector<int64_t> KVCache::ids() const {
  Lock lock(mutex);
  return pages.ids();
}

int32_t KVCache::numFree() const {
  Lock lock(mutex);
  return pages.numFree();
}
