//===- PagePool.cpp - Pages, who holds them, what is in them --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Cache/PagePool.h"

using namespace ::attn::cache;

size_t PageKeyHash::operator()(const PageKey &key) const {
  // The finalizer of splitmix64, over what came before and the next number.
  auto mix = [](uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  };
  uint64_t hash = mix(key.parent + 0x9e3779b97f4a7c15u);
  for (int64_t token : key.tokens)
    hash = mix(hash + uint64_t(token) + 0x9e3779b97f4a7c15u);
  return size_t(hash);
}

PagePool::PagePool(int32_t count) : pages(size_t(count)) {
  ends.previous = ends.next = end();
  for (int32_t page = 0; page < count; ++page)
    link(page, end());
}

void PagePool::link(int32_t page, int32_t before) {
  Page &linked = at(page);
  linked.next = before;
  linked.previous = at(before).previous;
  at(linked.previous).next = page;
  at(before).previous = page;
  ++free;
}

void PagePool::unlink(int32_t page) {
  Page &linked = at(page);
  at(linked.previous).next = linked.next;
  at(linked.next).previous = linked.previous;
  --free;
}

int32_t PagePool::take() {
  int32_t page = ends.next;
  forget(page);
  hold(page);
  return page;
}

void PagePool::hold(int32_t page) {
  if (pages[page].holders++ == 0)
    unlink(page);
}

void PagePool::release(int32_t page) {
  if (--pages[page].holders == 0)
    link(page, pages[page].node ? end() : ends.next);
}

int32_t PagePool::find(const PageKey &key) const {
  auto found = published.find(key);
  return found == published.end() ? -1 : found->second;
}

void PagePool::publish(int32_t page, PageKey key, uint64_t node) {
  auto entry = published.emplace(std::move(key), page).first;
  pages[page].key = &entry->first;
  pages[page].node = node;
}

void PagePool::forget(int32_t page) {
  if (!pages[page].node)
    return;
  published.erase(published.find(*pages[page].key));
  pages[page].key = nullptr;
  pages[page].node = 0;
}
