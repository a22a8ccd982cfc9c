//===- InlineVector.h - Short lists without an allocation -------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What every call of a kernel needs (its tensors, their sizes, the records that
// compiled code reads) is short, and so lies on the stack.
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_INLINEVECTOR_H
#define ATTN_SUPPORT_INLINEVECTOR_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

namespace attn::support {

/// A vector of plain values that allocates for more than `N` of them only. It
/// stays where it was made.
template <typename T, size_t N> class InlineVector {
  static_assert(std::is_trivially_copyable_v<T>);

public:
  InlineVector() = default;
  InlineVector(const InlineVector &) = delete;
  InlineVector &operator=(const InlineVector &) = delete;

  void reserve(size_t wanted) {
    if (wanted <= room)
      return;
    wanted = std::max(wanted, 2 * room);
    // Their memory is that of bytes, as `space` is.
    std::unique_ptr<std::byte[]> larger(new std::byte[wanted * sizeof(T)]);
    std::memcpy(larger.get(), items, count * sizeof(T));
    items = reinterpret_cast<T *>(larger.get());
    allocated = std::move(larger);
    room = wanted;
  }
  void push_back(const T &value) {
    T copy = value; // which may be one of ours
    reserve(count + 1);
    std::memcpy(static_cast<void *>(items + count++), &copy, sizeof(T));
  }

  /// A new value at the end, as its constructor leaves it.
  T &append() {
    reserve(count + 1);
    return *new (static_cast<void *>(items + count++)) T;
  }

  T *data() { return items; }
  const T *data() const { return items; }
  size_t size() const { return count; }
  T &operator[](size_t i) { return items[i]; }
  const T &operator[](size_t i) const { return items[i]; }
  T *begin() { return items; }
  T *end() { return items + count; }
  const T *begin() const { return items; }
  const T *end() const { return items + count; }

private:
  alignas(T) std::byte space[N * sizeof(T)];
  T *items = reinterpret_cast<T *>(space);
  size_t count = 0, room = N;
  std::unique_ptr<std::byte[]> allocated;
};

/// The sizes or strides of a tensor of at most 16 dimensions, in place.
class Sizes {
public:
  static constexpr size_t maxRank = 16;

  Sizes() = default;
  Sizes(std::initializer_list<int64_t> values) {
    assign(values.begin(), values.end());
  }
  Sizes(const std::vector<int64_t> &values) {
    assign(values.begin(), values.end());
  }

  /// What is beyond the highest rank is left out.
  template <typename It> void assign(It first, It last) {
    count = 0;
    for (; first != last && count < maxRank; ++first)
      values[count++] = *first;
  }
  void resize(size_t size, int64_t value = 0) {
    for (size = std::min(size, maxRank); count < size;)
      values[count++] = value;
    count = uint32_t(size);
  }
  void push_back(int64_t value) {
    if (count < maxRank)
      values[count++] = value;
  }

  size_t size() const { return count; }
  bool empty() const { return count == 0; }
  int64_t &operator[](size_t i) { return values[i]; }
  int64_t operator[](size_t i) const { return values[i]; }
  int64_t back() const { return values[count - 1]; }
  int64_t *begin() { return values; }
  int64_t *end() { return values + count; }
  const int64_t *begin() const { return values; }
  const int64_t *end() const { return values + count; }
  std::vector<int64_t> toVector() const { return {begin(), end()}; }

  friend bool operator==(const Sizes &a, const Sizes &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend bool operator!=(const Sizes &a, const Sizes &b) { return !(a == b); }

private:
  uint32_t count = 0;
  int64_t values[maxRank]; ///< Those from `count` on hold anything.
};

} // namespace attn::support

#endif // ATTN_SUPPORT_INLINEVECTOR_H
