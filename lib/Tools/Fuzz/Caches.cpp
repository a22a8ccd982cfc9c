//===- Caches.cpp - Keys and values in pages and rings --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Caches.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace ::attn;
using namespace ::attn::fuzz;

Pages Pages::draw(Random &random, const PlainRows &rows, int64_t page,
                  int64_t perSequence, bool mayShare, bool prefixes) {
  Pages pages;
  pages.page = page;
  pages.perSequence = perSequence;
  std::vector<int32_t> given;
  for (size_t n = 0; n < rows.lengths.size(); ++n) {
    int32_t length = rows.lengths[n];
    // What it begins with is what another one does.
    int64_t parent = 0, common = 0;
    if (prefixes && n && random.chance(0.8)) {
      parent = random.range(0, n - 1);
      int64_t whole = std::min(length, rows.lengths[parent]) / page;
      common = random.chance(0.5) ? whole : random.range(0, whole);
    }
    for (int64_t i = 0; i < perSequence; ++i) {
      if (i < common) {
        pages.table.push_back(pages.table[parent * perSequence + i]);
        continue;
      }
      if (i * page >= length) {
        pages.table.push_back(
            random.pick<int32_t>({-1, -1, -1, INT32_MAX, INT32_MIN}));
        continue;
      }
      if (given.empty() || !random.chance(mayShare ? 0.2 : 0.0))
        pages.table.push_back(static_cast<int32_t>(pages.count++));
      else
        pages.table.push_back(given[random.range(0, given.size() - 1)]);
      given.push_back(pages.table.back());
    }
  }
  // In no order, among pages that nobody has.
  pages.count += random.range(given.empty() ? 0 : 1, 3);
  std::vector<int32_t> order(pages.count);
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random.range(0, i - 1)]);
  for (size_t n = 0; n < rows.lengths.size(); ++n)
    for (int64_t i = 0; i < perSequence && i * page < rows.lengths[n]; ++i) {
      int32_t &entry = pages.table[n * perSequence + i];
      entry = order[entry];
    }
  return pages;
}

/// Calls f(position in the plain tensor, its stride, row) for each row.
template <typename F>
static void forEachRow(const PlainRows &rows, const Tensor &plain, F f) {
  for (size_t n = 0; n < rows.lengths.size(); ++n)
    for (int64_t j = 0; j < rows.lengths[n]; ++j)
      f(static_cast<int64_t>(n), j);
}

static void copyRow(const Tensor &from, std::vector<int64_t> at,
                    const Tensor &to, std::vector<int64_t> into) {
  for (int64_t c = 0; c < from.sizes.back(); ++c) {
    at.back() = into.back() = c;
    to.set(to.at(into), from.get(from.at(at)));
  }
}

void Pages::share(const PlainRows &rows, const Tensor &plain,
                  int64_t heads) const {
  std::vector<std::pair<int64_t, int64_t>> owners(count * page, {-1, -1});
  forEachRow(rows, plain, [&](int64_t n, int64_t j) {
    auto &owner = owners[slot(n, j)];
    if (owner.first < 0)
      owner = {n, j};
    for (int64_t h = 0; h < heads; ++h)
      copyRow(plain, rows.at(owner.first, h, owner.second), plain,
              rows.at(n, h, j));
  });
}

/// A tensor whose every element is no number.
static Tensor makeEmpty(Random &random, const Tensor &like, int64_t lead,
                        int64_t heads, int64_t rows, bool aligned) {
  Tensor tensor = makeTensor(
      random, like.dtype, {lead, heads, rows, like.sizes.back()},
      Filling::Poison, /*mayRepeat=*/false, /*plain=*/false, aligned);
  tensor.forEach([&](int64_t at, int64_t) {
    tensor.set(at, std::numeric_limits<double>::quiet_NaN());
  });
  return tensor;
}

Tensor Pages::toPool(Random &random, const PlainRows &rows, const Tensor &plain,
                     int64_t heads, bool aligned) const {
  Tensor pool = makeEmpty(random, plain, count, heads, page, aligned);
  forEachRow(rows, plain, [&](int64_t n, int64_t j) {
    int64_t row = slot(n, j);
    for (int64_t h = 0; h < heads; ++h) {
      std::vector<int64_t> into = {row / page, h, row % page, 0};
      if (std::isnan(pool.get(pool.at(into))) ||
          std::isfinite(plain.get(plain.at(rows.at(n, h, j)))))
        copyRow(plain, rows.at(n, h, j), pool, into);
    }
  });
  return pool;
}

Tensor KeyCache::toRing(Random &random, const Tensor &plain, int64_t heads,
                        bool aligned) const {
  int64_t capacity = plain.sizes[2];
  Tensor ring =
      makeEmpty(random, plain, rows.lengths.size(), heads, capacity, aligned);
  forEachRow(rows, plain, [&](int64_t n, int64_t j) {
    for (int64_t h = 0; h < heads; ++h)
      copyRow(plain, rows.at(n, h, j), ring,
              {n, h, (starts[n] + j) % capacity, 0});
  });
  return ring;
}

KeyCache KeyCache::draw(Random &random, const Kernel &k, int64_t sequences,
                        int64_t keys, const std::vector<int32_t> &cuK,
                        const std::vector<int32_t> &lengths) {
  KeyCache cache;
  int64_t longest = k.packed ? 0 : keys;
  for (int64_t n = 0; n < sequences; ++n) {
    int64_t own = k.packed ? cuK[n + 1] - cuK[n] : keys;
    longest = std::max(longest, own);
    cache.rows.lengths.push_back(k.lengths ? lengths[n]
                                           : static_cast<int32_t>(own));
  }
  for (int64_t n = 0; k.kStart && n < sequences; ++n)
    cache.starts.push_back(static_cast<int32_t>(
        random.chance(0.2) ? 0 : random.range(0, 2 * longest + 3)));
  if (k.packed)
    cache.rows.first = cuK;
  if (k.page)
    cache.pages = Pages::draw(random, cache.rows, k.page,
                              (longest + k.page - 1) / k.page +
                                  (k.lengths ? random.range(0, 2) : 0),
                              /*mayShare=*/!k.append, k.cascade > 0);
  if (k.append && !cache.rows.lengths.empty()) {
    const std::vector<int32_t> &all = cache.rows.lengths;
    int64_t least = *std::min_element(all.begin(), all.end());
    cache.numNew = random.range(0, std::min<int64_t>(least, 40));
  }
  return cache;
}

Tensor KeyCache::takeNew(Random &random, const Kernel &k, const Tensor &plain,
                         const Tensor &into, int64_t heads) const {
  Tensor taken = makeEmpty(random, plain, rows.lengths.size(), heads, numNew,
                           /*aligned=*/true);
  for (size_t n = 0; n < rows.lengths.size(); ++n)
    for (int64_t i = 0; i < numNew; ++i)
      for (int64_t h = 0; h < heads; ++h) {
        int64_t sequence = static_cast<int64_t>(n);
        int64_t j = rows.lengths[n] - numNew + i, lead = sequence, row = j;
        if (k.page) {
          row = pages.slot(sequence, j) % k.page;
          lead = pages.slot(sequence, j) / k.page;
        } else {
          row = (starts[n] + j) % plain.sizes[2];
        }
        copyRow(plain, rows.at(sequence, h, j), taken, {sequence, h, i, 0});
        for (int64_t c = 0; c < plain.sizes.back(); ++c)
          into.set(into.at({lead, h, row, c}),
                   std::numeric_limits<double>::quiet_NaN());
      }
  return taken;
}

int64_t KeyCache::mostStart() const {
  return starts.empty() ? 0 : *std::max_element(starts.begin(), starts.end());
}

void KeyCache::give(Random &random, const Kernel &k, const Tensor &key,
                    const Tensor &value, int64_t heads, bool aligned,
                    std::vector<Tensor> &inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    Argument::Role role = k.arguments[i].role;
    if (role == Argument::Table) {
      inputs[i] = makeTensor(
          random, DType::i32,
          {static_cast<int64_t>(rows.lengths.size()), pages.perSequence},
          Filling::Poison, /*mayRepeat=*/false);
      inputs[i].forEach(
          [&](int64_t at, int64_t n) { inputs[i].set(at, pages.table[n]); });
    }
    if (role == Argument::Lengths && k.append)
      inputs[i].forEach([&](int64_t at, int64_t n) {
        inputs[i].set(at, double(rows.lengths[n] - numNew));
      });
    if (role == Argument::KeyNew || role == Argument::ValueNew)
      // The caches come first: what is taken of them is theirs.
      for (size_t j = 0; j < i; ++j)
        if (k.arguments[j].role ==
            (role == Argument::KeyNew ? Argument::K : Argument::V))
          inputs[i] = takeNew(random, k, role == Argument::KeyNew ? key : value,
                              inputs[j], heads);
    if (role != Argument::K && role != Argument::V)
      continue;
    const Tensor &plain = role == Argument::K ? key : value;
    if (k.page)
      inputs[i] = pages.toPool(random, rows, plain, heads, aligned);
    else if (k.rolling)
      inputs[i] = toRing(random, plain, heads, aligned);
  }
}
