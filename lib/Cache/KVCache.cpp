//===- KVCache.cpp - Keys and values of many sequences, in pages ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Cache/KVCache.h"
#include "attn/Runtime/Cuda.h"

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

namespace {
/// Some rows of all heads: from row `fromRow` of sequence or page `from` of a
/// source to row `toRow` of page `to` of a pool.
struct Part {
  int64_t to, toRow, from, fromRow, count;
};
} // namespace

/// Copies elements of `size` bytes, some strides apart.
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

static void copyOnHost(const Rows &pool, const Rows &source, const Part &part) {
  int64_t d = pool.shape[3];
  size_t size = support::sizeOf(pool.dtype);
  bool isBlock = pool.strides[3] == 1 && source.strides[3] == 1 &&
                 pool.strides[2] == d && source.strides[2] == d;
  for (int64_t head = 0; head < pool.shape[1]; ++head) {
    char *target = locate(pool, part.to, head, part.toRow);
    const char *origin = locate(source, part.from, head, part.fromRow);
    if (isBlock) {
      std::memcpy(target, origin, size_t(part.count * d) * size);
      continue;
    }
    for (int64_t row = 0; row < part.count; ++row)
      copyElements(target + row * pool.strides[2] * int64_t(size),
                   pool.strides[3],
                   origin + row * source.strides[2] * int64_t(size),
                   source.strides[3], d, size);
  }
}

/// Of all heads at once for each row, or of all rows for each head: whichever
/// takes fewer copies.
static void copyOnGpu(const Rows &pool, const Rows &source, const Part &part,
                      std::vector<cuda::RowsCopy> &copies) {
  auto size = int64_t(support::sizeOf(pool.dtype));
  int64_t heads = pool.shape[1];
  int dim = part.count < heads ? 1 : 2;
  for (int64_t i = 0; i < std::min(part.count, heads); ++i) {
    int64_t head = dim == 1 ? 0 : i, row = dim == 1 ? i : 0;
    cuda::RowsCopy copy;
    copy.to = locate(pool, part.to, head, part.toRow + row);
    copy.from = locate(source, part.from, head, part.fromRow + row);
    copy.bytes = size_t(pool.shape[3] * size);
    copy.rows = size_t(std::max(part.count, heads));
    copy.toPitch = pool.strides[dim] * size;
    copy.fromPitch = source.strides[dim] * size;
    copies.push_back(copy);
  }
}

/// `source`: what the caller has given; null where it writes rows itself.
static Status carryOut(const PageChanges &changes, const Rows &pool,
                       const Rows *source, std::optional<int> device,
                       void *stream) {
  if (!pool.shape[3])
    return success();
  std::vector<cuda::RowsCopy> copies;
  auto copy = [&](const Rows &source, const Part &part) {
    if (device)
      copyOnGpu(pool, source, part, copies);
    else
      copyOnHost(pool, source, part);
  };
  for (const PageCopy &page : changes.copies)
    copy(pool, {page.to, 0, page.from, 0, page.rows});
  for (const PageWrite &write : changes.writes)
    if (source)
      copy(*source,
           {write.page, write.row, write.sequence, write.first, write.count});
  return device ? cuda::copyRows(copies, {*device, stream}) : success();
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

static Status checkPools(const Rows &k, const Rows &v,
                         std::optional<int> device) {
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
    if (device && pool->shape[3] > 1 && pool->strides[3] != 1)
      return Failure{std::string("expected ") + name +
                     " on a GPU to have stride 1 in its last dimension, but "
                     "got stride " +
                     std::to_string(pool->strides[3])};
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
  return success();
}

static Status checkWindow(int64_t window, int64_t keep) {
  if (window < 0)
    return Failure{"expected a window of at least 1, or 0 for none, but got " +
                   std::to_string(window)};
  if (keep < 0 || keep > INT32_MAX)
    return Failure{"expected first keys to keep between 0 and 2147483647, but "
                   "got " +
                   std::to_string(keep)};
  if (keep && !window)
    return Failure{"expected a window where first keys are to be kept, but got "
                   "none; without one all keys are"};
  return success();
}

/// Whether rows can go into a pool.
static Status checkRows(const char *name, const Rows &rows, const Rows &pool,
                        Numbers ids, int64_t count, std::optional<int> device) {
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
  if (device && !isEmpty && rows.strides[3] != 1 && rows.shape[3] > 1)
    return Failure{"expected " + std::string(name) +
                   " on a GPU to have stride 1 in its last dimension, but got "
                   "stride " +
                   std::to_string(rows.strides[3])};
  if (!isEmpty && !rows.data)
    return Failure{"expected memory of " + std::string(name) +
                   ", but got null"};
  if (!device || isEmpty)
    return success();
  auto found = cuda::deviceOf(rows.data);
  if (!found)
    return found.takeFailure();
  if (*found != *device)
    return Failure{"expected " + std::string(name) + " on GPU " +
                   std::to_string(*device) + ", where the cache is, but got " +
                   (*found < 0 ? "memory of the host"
                               : "memory of GPU " + std::to_string(*found))};
  return success();
}

//===----------------------------------------------------------------------===//
// KVCache
//===----------------------------------------------------------------------===//

KVCache::KVCache(const Rows &k, const Rows &v, int64_t window, int64_t keep,
                 std::optional<int> device)
    : keys(k), values(v), device(device),
      pages(int32_t(k.shape[0]), int32_t(k.shape[2]), window, keep) {}

Result<std::unique_ptr<KVCache>> KVCache::create(const Rows &k, const Rows &v,
                                                 int64_t window, int64_t keep,
                                                 std::optional<int> device) {
  if (Status ok = checkPools(k, v, device); !ok)
    return ok.takeFailure();
  if (Status ok = checkWindow(window, keep); !ok)
    return ok.takeFailure();
  return std::unique_ptr<KVCache>(new KVCache(k, v, window, keep, device));
}

Status KVCache::append(Numbers ids, int64_t count, const Rows *k, const Rows *v,
                       Numbers tokens, void *stream) {
  if (k)
    if (Status ok = checkRows("k", *k, keys, ids, count, device); !ok)
      return ok;
  if (v)
    if (Status ok = checkRows("v", *v, values, ids, count, device); !ok)
      return ok;
  bool hasValues = values.shape[3] != 0;
  if (bool(k) != bool(v) && (!k || hasValues))
    return Failure{std::string("expected both k and v, or neither, but got ") +
                   (k ? "k" : "v") + " alone"};
  Lock lock(mutex);
  auto changes = pages.append(ids, count, tokens);
  if (!changes)
    return changes.takeFailure();
  Status done = carryOut(*changes, keys, k, device, stream);
  if (done)
    done = carryOut(*changes, values, v, device, stream);
  if (!done)
    pages.undo(*changes);
  return done;
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
