//===- Recent.h - The entries of a table that were used last ----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_RECENT_H
#define ATTN_SUPPORT_RECENT_H

#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace attn::support {

/// Values by text, the `capacity` of them that were found or put in last.
template <typename T> class Recent {
public:
  explicit Recent(size_t capacity) : capacity(capacity) {}

  /// Null where there is none; valid until the next call.
  const T *find(std::string_view key) {
    auto it = places.find(key);
    if (it == places.end())
      return nullptr;
    entries.splice(entries.begin(), entries, it->second);
    return &it->second->second;
  }

  void put(std::string key, T value) {
    if (auto it = places.find(key); it != places.end()) {
      entries.erase(it->second);
      places.erase(it);
    }
    entries.emplace_front(std::move(key), std::move(value));
    places.emplace(entries.front().first, entries.begin());
    if (entries.size() > capacity) {
      places.erase(entries.back().first);
      entries.pop_back();
    }
  }

  void clear() {
    places.clear();
    entries.clear();
  }
  size_t size() const { return entries.size(); }

private:
  using Entries = std::list<std::pair<std::string, T>>;

  size_t capacity;
  Entries entries; ///< Last used first; they hold the keys of `places`.
  std::unordered_map<std::string_view, typename Entries::iterator> places;
};

} // namespace attn::support

#endif // ATTN_SUPPORT_RECENT_H
