//===- PagePool.h - Pages, who holds them, what is in them ------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pages are numbers here, without memory. A page is held by any number of
// sequences. One that nobody holds is free, and keeps what is in it until it is
// taken for something else: those that were let go first are taken first, and
// those that no prefix leads to before all others.
//
// A full page whose tokens are known is published under a key: the node of the
// page before it (0: there is none) and its own tokens. Its own node is a
// number that no other page ever has, so that equal keys mean equal tokens from
// the first one on. Keys are compared in full; a hash only finds them.
//===----------------------------------------------------------------------===//

#ifndef ATTN_CACHE_PAGEPOOL_H
#define ATTN_CACHE_PAGEPOOL_H

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace attn::cache {

using Tokens = std::vector<int64_t>;

/// What makes the contents of a full page.
struct PageKey {
  uint64_t parent = 0;
  Tokens tokens;

  bool operator==(const PageKey &other) const {
    return parent == other.parent && tokens == other.tokens;
  }
};
struct PageKeyHash {
  size_t operator()(const PageKey &key) const;
};

class PagePool {
public:
  explicit PagePool(int32_t count);

  int32_t numPages() const { return int32_t(pages.size()); }
  int32_t numFree() const { return free; }
  /// Sequences that hold the page.
  int32_t numHolders(int32_t page) const { return pages[page].holders; }

  /// Takes a free page, of which there must be one.
  int32_t take();
  /// One more sequence holds the page.
  void hold(int32_t page);
  /// One less does.
  void release(int32_t page);

  /// The page with these contents, or -1.
  int32_t find(const PageKey &key) const;
  /// The page has these contents from now on; no other page has them.
  void publish(int32_t page, PageKey key, uint64_t node);
  /// The page has other contents from now on than it was published with, if it
  /// was.
  void forget(int32_t page);
  /// 0 of a page that is not published.
  uint64_t nodeOf(int32_t page) const { return pages[page].node; }
  /// Of a page that is published.
  const PageKey &keyOf(int32_t page) const { return *pages[page].key; }

private:
  struct Page {
    int32_t holders = 0;
    /// Neighbours among the free pages, a ring through `ends`.
    int32_t previous = 0, next = 0;
    uint64_t node = 0;
    /// In `published`, which does not move its keys.
    const PageKey *key = nullptr;
  };

  int32_t end() const { return int32_t(pages.size()); }
  Page &at(int32_t page) { return page == end() ? ends : pages[page]; }
  void unlink(int32_t page);
  /// Links a free page before another.
  void link(int32_t page, int32_t before);

  std::vector<Page> pages;
  /// Before the first free page and behind the last; its number is end().
  Page ends;
  int32_t free = 0;
  std::unordered_map<PageKey, int32_t, PageKeyHash> published;
};

} // namespace attn::cache

#endif // ATTN_CACHE_PAGEPOOL_H
