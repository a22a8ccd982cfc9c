//===- KVCacheTest.cpp - A cache in pages against a plain model -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The model holds, for each sequence, what is in each row as a number. After
// random operations the cache has to show the same numbers through its tables,
// and each page has to be free or in a table. Rows with known tokens hold a
// hash of all tokens up to theirs, as keys of a model do in effect; other rows
// hold numbers that no other row has.
//===----------------------------------------------------------------------===//

#include "attn/Cache/KVCache.h"
#include "gtest/gtest.h"

#include <random>
#include <set>
#include <thread>

using namespace ::attn;
using namespace ::attn::cache;

namespace {
constexpr int64_t kHeads = 2, kDim = 3, kValueDim = 2;

struct Row {
  uint32_t number;
  int64_t token;
};
struct ModelSequence {
  std::vector<Row> rows;
  int64_t gone = 0, known = 0;
};

uint32_t extendHash(uint32_t hash, int64_t token) {
  uint64_t x = (uint64_t(hash) << 20) + uint64_t(token) + 12345;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  return uint32_t((x ^ (x >> 27)) >> 40); // 24 bits: a float holds them
}

/// Element (head, channel) of a row that holds `number`.
float elementOf(uint32_t number, int64_t head, int64_t channel, bool isValue) {
  uint32_t salt = uint32_t(head * 7919 + channel * 104729 + isValue * 15485863);
  return float((number ^ salt) & 0xffffff);
}

/// Rows in memory, filled with NaN.
struct Memory {
  Memory(int64_t a, int64_t b, int64_t c, int64_t d)
      : data(size_t(a * b * c * d), NAN) {
    rows.data = data.data();
    rows.shape = {a, b, c, d};
    rows.strides = {b * c * d, c * d, d, 1};
  }
  float &at(int64_t i, int64_t head, int64_t row, int64_t channel) {
    return data[size_t(i * rows.strides[0] + head * rows.strides[1] +
                       row * rows.strides[2] + channel * rows.strides[3])];
  }
  std::vector<float> data;
  Rows rows;
};

class Trial {
public:
  Trial(unsigned seed, int32_t pages, int32_t page, int64_t window,
        int64_t keep)
      : random(seed), page(page), window(window),
        kept((keep + page - 1) / page * page), keys(pages, kHeads, page, kDim),
        values(pages, kHeads, page, kValueDim),
        cache(
            std::move(*KVCache::create(keys.rows, values.rows, window, keep))) {
  }

  void run(int operations) {
    for (int i = 0; i < operations && !::testing::Test::HasFatalFailure();
         ++i) {
      step();
      if (!model.empty())
        check(anyId());
      if (i % 16 == 0)
        checkAll();
    }
    checkAll();
  }

  int numFull = 0, numShared = 0, numReused = 0;

private:
  int draw(int below) { return int(random() % unsigned(below)); }
  int64_t anyId() {
    auto found = model.begin();
    std::advance(found, draw(int(model.size())));
    return found->first;
  }

  void step() {
    int what = draw(20);
    if (model.empty() || what < 10)
      return append();
    if (what == 10)
      return expectNew(cache->create());
    if (what == 11) {
      int64_t from = anyId();
      auto made = cache->fork(from);
      ASSERT_TRUE(bool(made)) << made.error();
      ModelSequence copy = model[from];
      expectNew(*made);
      model[*made] = copy;
      return;
    }
    if (what < 14)
      return truncate(anyId());
    if (what == 14)
      return reuse();
    if (what == 15)
      return reorder();
    if (what < 18 && model.size() < 8)
      return append();
    int64_t id = anyId();
    ASSERT_TRUE(bool(cache->free(id)));
    EXPECT_FALSE(bool(cache->free(id)));
    model.erase(id);
  }

  void expectNew(int64_t id) {
    EXPECT_TRUE(seen.insert(id).second) << id;
    model[id] = {};
  }

  void append() {
    std::vector<int64_t> ids;
    for (int i = 1 + draw(3); i--;) {
      int64_t id = model.empty() || !draw(5) ? draw(1000) : anyId();
      if (std::find(ids.begin(), ids.end(), id) == ids.end())
        ids.push_back(id);
    }
    int64_t count = draw(3) ? draw(3) : draw(4 * page);
    bool hasTokens = draw(3);
    // Few tokens, so that sequences begin alike.
    std::vector<int64_t> tokens;
    for (size_t i = 0; i < ids.size() * size_t(count); ++i)
      tokens.push_back(draw(8) ? 0 : draw(2));
    // Sometimes the heads behind the rows, and a hole behind each row.
    Memory k(int64_t(ids.size()), kHeads, count, kDim),
        v(int64_t(ids.size()), kHeads, count, 2 * kValueDim);
    v.rows.shape[3] = kValueDim;
    if (draw(2)) {
      v.rows.strides[3] = 2;
      k.rows.strides[1] = kDim;
      k.rows.strides[2] = kHeads * kDim;
    }
    std::map<int64_t, ModelSequence> after = model;
    for (size_t i = 0; i < ids.size(); ++i) {
      ModelSequence &sequence = after[ids[i]];
      int64_t end = int64_t(sequence.rows.size());
      if (count && window)
        sequence.gone = std::max(
            sequence.gone,
            std::max<int64_t>(end - window + 1, 0) / page * page - kept);
      bool isKnown = hasTokens && sequence.known == end;
      for (int64_t row = 0; row < count; ++row) {
        int64_t token = tokens[i * size_t(count) + size_t(row)];
        uint32_t before =
            sequence.rows.empty() ? 1 : sequence.rows.back().number;
        uint32_t number =
            isKnown ? extendHash(before, token) : uint32_t(random()) & 0xffffff;
        sequence.rows.push_back({number, token});
        fill(k, int64_t(i), row, number, false);
        fill(v, int64_t(i), row, number, true);
      }
      if (isKnown)
        sequence.known = end + count;
    }
    bool isExact = !hasTokens && !window;
    int64_t wanted = isExact ? countExactly(ids, count) : countMost(ids, count);
    int64_t free = cache->numFree();
    auto result = cache->append(
        {ids.data(), ids.size()}, count, &k.rows, &v.rows,
        {hasTokens ? tokens.data() : nullptr, hasTokens ? tokens.size() : 0});
    if (!result) {
      EXPECT_EQ(result.error().find("out of pages: expected "), 0u)
          << result.error();
      EXPECT_GT(wanted, free);
      EXPECT_EQ(cache->numFree(), free);
      ++numFull;
      for (int64_t id : ids)
        EXPECT_EQ(model.count(id), size_t(bool(cache->width({&id, 1}))));
      return checkAll();
    }
    if (isExact) {
      EXPECT_LE(wanted, free);
      EXPECT_EQ(cache->numFree(), free - wanted);
    }
    model = std::move(after);
    seen.insert(ids.begin(), ids.end());
    for (int64_t id : ids)
      check(id);
  }

  void fill(Memory &memory, int64_t i, int64_t row, uint32_t number,
            bool isValue) {
    for (int64_t head = 0; head < kHeads; ++head)
      for (int64_t c = 0; c < memory.rows.shape[3]; ++c)
        memory.at(i, head, row, c) = elementOf(number, head, c, isValue);
  }

  /// Pages that an append may take at the most.
  int64_t countMost(const std::vector<int64_t> &ids, int64_t count) {
    int64_t most = 0;
    for (int64_t id : ids) {
      int64_t end = model.count(id) ? int64_t(model[id].rows.size()) : 0;
      most += count ? (end + count + page - 1) / page - end / page : 0;
    }
    return most;
  }

  /// What it takes where nothing is known of its tokens: of the sequences that
  /// share a page which they write to, the last one may have it.
  int64_t countExactly(const std::vector<int64_t> &ids, int64_t count) {
    std::map<int32_t, int> holders, writers;
    for (auto &[id, sequence] : model)
      for (int32_t held : table(id))
        ++holders[held];
    int64_t wanted = countMost(ids, count);
    for (int64_t id : ids)
      if (count && model.count(id) && model[id].rows.size() % size_t(page))
        ++writers[table(id).back()];
    for (auto [shared, count] : writers)
      wanted -= count == holders[shared];
    return wanted;
  }

  void truncate(int64_t id) {
    ModelSequence &sequence = model[id];
    int64_t length = int64_t(sequence.rows.size()) - sequence.gone;
    int64_t wanted = draw(4) ? std::max<int64_t>(length - draw(4), 0)
                             : draw(int(length) + 2);
    int64_t gone = kept && wanted <= kept ? 0 : sequence.gone;
    bool isGone = gone && kept + gone > gone + wanted - window + 1;
    auto ok = cache->truncate(id, wanted);
    ASSERT_EQ(bool(ok), wanted <= length && !isGone) << ok.error();
    if (!ok)
      return;
    sequence.rows.resize(size_t(gone + wanted));
    sequence.gone = gone;
    sequence.known = std::min(sequence.known, int64_t(sequence.rows.size()));
  }

  void reuse() {
    int64_t id = draw(8) ? draw(1000) : anyId();
    std::vector<int64_t> tokens;
    if (draw(4))
      for (Row row : model[anyId()].rows)
        tokens.push_back(row.token);
    tokens.resize(tokens.size() + size_t(draw(page)));
    bool isEmpty = !model.count(id) || model[id].rows.empty();
    auto found = cache->reuse(id, {tokens.data(), tokens.size()});
    ASSERT_EQ(bool(found), isEmpty);
    if (!found)
      return;
    ASSERT_EQ(*found % page, 0);
    ASSERT_LE(size_t(*found), tokens.size());
    seen.insert(id);
    ModelSequence sequence;
    uint32_t hash = 1;
    for (int64_t i = 0; i < *found; ++i)
      sequence.rows.push_back(
          {hash = extendHash(hash, tokens[size_t(i)]), tokens[size_t(i)]});
    sequence.known = *found;
    model[id] = sequence;
    numReused += *found > 0;
    check(id);
  }

  void reorder() {
    std::vector<int64_t> onto, from;
    for (auto &[id, sequence] : model)
      if (draw(2))
        onto.push_back(id);
    if (!draw(4))
      onto.push_back(1000 + draw(100));
    std::sort(onto.begin(), onto.end());
    onto.erase(std::unique(onto.begin(), onto.end()), onto.end());
    for (size_t i = 0; i < onto.size(); ++i)
      from.push_back(anyId());
    auto ok =
        cache->reorder({from.data(), from.size()}, {onto.data(), onto.size()});
    ASSERT_TRUE(bool(ok)) << ok.error();
    std::map<int64_t, ModelSequence> before = model;
    for (size_t i = 0; i < onto.size(); ++i)
      model[onto[i]] = before[from[i]];
    seen.insert(onto.begin(), onto.end());
  }

  std::vector<int32_t> table(int64_t id) {
    auto width = cache->width({&id, 1});
    EXPECT_TRUE(bool(width)) << id;
    std::vector<int32_t> pages(size_t(*width) + 2);
    EXPECT_TRUE(bool(cache->table({&id, 1}, *width + 2, pages.data())));
    EXPECT_EQ(pages[size_t(*width)], -1);
    EXPECT_EQ(pages[size_t(*width) + 1], -1);
    pages.resize(size_t(*width));
    return pages;
  }

  /// What the cache shows of a sequence.
  void check(int64_t id) {
    const ModelSequence &sequence = model[id];
    int64_t end = int64_t(sequence.rows.size());
    int32_t length = -1, start = -1;
    ASSERT_TRUE(bool(cache->lengths({&id, 1}, &length, &start)));
    ASSERT_EQ(start, kept ? 0 : sequence.gone);
    ASSERT_EQ(length, end - sequence.gone);
    std::vector<int32_t> pages = table(id);
    ASSERT_EQ(int64_t(pages.size()), (length + page - 1) / page);
    for (int64_t row = 0; row < length; ++row) {
      int64_t position = row < kept ? row : row + sequence.gone;
      uint32_t number = sequence.rows[size_t(position)].number;
      for (int64_t head = 0; head < kHeads; ++head) {
        for (int64_t c = 0; c < kDim; ++c)
          ASSERT_EQ(keys.at(pages[size_t(row / page)], head, row % page, c),
                    elementOf(number, head, c, false))
              << "key " << row << " of sequence " << id;
        for (int64_t c = 0; c < kValueDim; ++c)
          ASSERT_EQ(values.at(pages[size_t(row / page)], head, row % page, c),
                    elementOf(number, head, c, true));
      }
    }
  }

  void checkAll() {
    std::set<int32_t> used;
    // Full pages that the same known tokens lead to.
    std::map<std::vector<int64_t>, int32_t> prefixes;
    for (auto &[id, sequence] : model) {
      check(id);
      std::vector<int32_t> pages = table(id);
      used.insert(pages.begin(), pages.end());
      std::vector<int64_t> tokens;
      for (int64_t row = 0; !window && row < sequence.known; ++row) {
        tokens.push_back(sequence.rows[size_t(row)].token);
        if (row % page != page - 1)
          continue;
        auto [found, isNew] =
            prefixes.emplace(tokens, pages[size_t(row / page)]);
        ASSERT_EQ(found->second, pages[size_t(row / page)]);
        numShared += !isNew;
      }
    }
    ASSERT_EQ(int(used.size()) + cache->numFree(), cache->numPages());
    std::vector<int64_t> ids;
    for (auto &[id, sequence] : model)
      ids.push_back(id);
    ASSERT_EQ(cache->ids(), ids);
  }

  std::mt19937 random;
  int32_t page;
  int64_t window;
  /// Rows of the first pages, which stay.
  int64_t kept;
  Memory keys, values;
  std::unique_ptr<KVCache> cache;
  std::map<int64_t, ModelSequence> model;
  std::set<int64_t> seen;
};
} // namespace

TEST(KVCacheTest, RandomOperations) {
  int numFull = 0, numShared = 0, numReused = 0;
  for (unsigned seed = 0; seed < 20; ++seed)
    for (auto [window, keep] :
         {std::pair(0, 0), {0, 0}, {1, 0}, {6, 0}, {6, 3}}) {
      Trial trial(seed, /*pages=*/12 + int32_t(seed % 5) * 9,
                  /*page=*/int32_t(seed % 4) + 1, window, keep);
      trial.run(1000);
      numFull += trial.numFull;
      numShared += trial.numShared;
      numReused += trial.numReused;
      if (HasFatalFailure())
        FAIL() << "seed " << seed << ", window " << window << ", keep " << keep;
    }
  // Otherwise the operations do not meet what they are here for.
  EXPECT_GT(numFull, 1000);
  EXPECT_GT(numShared, 1000);
  EXPECT_GT(numReused, 1000);
}

namespace {
struct Small {
  Small(int32_t pages, int32_t page, int64_t window = 0, int64_t keep = 0)
      : keys(pages, 1, page, 1), values(pages, 1, page, 1),
        cache(
            std::move(*KVCache::create(keys.rows, values.rows, window, keep))) {
  }

  support::Status append(std::vector<int64_t> ids,
                         std::vector<int64_t> tokens) {
    int64_t count = int64_t(tokens.size() / ids.size());
    Memory rows(int64_t(ids.size()), 1, count, 1);
    for (float &x : rows.data)
      x = next++;
    return cache->append({ids.data(), ids.size()}, count, &rows.rows,
                         &rows.rows, {tokens.data(), tokens.size()});
  }
  std::vector<int32_t> table(int64_t id) {
    std::vector<int32_t> pages(size_t(*cache->width({&id, 1})));
    EXPECT_TRUE(
        bool(cache->table({&id, 1}, int64_t(pages.size()), pages.data())));
    return pages;
  }
  int64_t reuse(int64_t id, std::vector<int64_t> tokens) {
    return *cache->reuse(id, {tokens.data(), tokens.size()});
  }

  float next = 0;
  Memory keys, values;
  std::unique_ptr<KVCache> cache;
};
} // namespace

TEST(KVCacheTest, SharesWithinOneAppend) {
  Small small(4, 2);
  ASSERT_TRUE(bool(small.append({1, 2}, {5, 6, 7, 8, 5, 6, 7, 9})));
  EXPECT_EQ(small.table(1)[0], small.table(2)[0]);
  EXPECT_NE(small.table(1)[1], small.table(2)[1]);
  EXPECT_EQ(small.cache->numFree(), 1);
}

TEST(KVCacheTest, FindsAPageThatFillsByAndBy) {
  Small small(4, 2);
  ASSERT_TRUE(bool(small.append({1}, {5, 6, 7})));
  ASSERT_TRUE(bool(small.append({2}, {5})));
  EXPECT_EQ(small.cache->numFree(), 1);
  ASSERT_TRUE(bool(small.append({2}, {6})));
  EXPECT_EQ(small.table(1)[0], small.table(2)[0]);
  EXPECT_EQ(small.cache->numFree(), 2);
}

TEST(KVCacheTest, KeepsWhatIsFreeUntilItIsNeeded) {
  Small small(4, 2);
  ASSERT_TRUE(bool(small.append({1}, {1, 2, 3, 4})));
  ASSERT_TRUE(bool(small.append({2}, {9, 9})));
  ASSERT_TRUE(bool(small.cache->free(1)));
  ASSERT_TRUE(bool(small.cache->free(2)));
  EXPECT_EQ(small.cache->numFree(), 4);
  // The page that holds nothing goes first, then the end of what was let go
  // first.
  ASSERT_TRUE(bool(small.append({3}, {7, 7, 7, 7})));
  EXPECT_EQ(small.reuse(4, {1, 2, 3, 4, 5}), 2);
  EXPECT_EQ(small.reuse(5, {9, 9}), 2);
  EXPECT_EQ(small.cache->numFree(), 0);
  // Tokens that begin otherwise lead nowhere.
  EXPECT_EQ(small.reuse(6, {3, 4}), 0);
}

TEST(PageTableTest, FindsNoPageThatWasNotWritten) {
  PageTable table(4, 2, /*window=*/0);
  const int64_t id = 1, other = 2, tokens[] = {5, 6, 7, 8};
  auto changes = table.append({&id, 1}, 4, {tokens, 4});
  ASSERT_TRUE(bool(changes));
  table.undo(*changes);
  EXPECT_EQ(table.ids().size(), 0u);
  EXPECT_EQ(table.numFree(), 4);
  EXPECT_EQ(*table.reuse(other, {tokens, 4}), 0);
  ASSERT_TRUE(bool(table.append({&other, 1}, 4, {tokens, 4})));
  EXPECT_EQ(table.numFree(), 2);
}

TEST(PageTableTest, TakesBackAnAppendThatWasNotWritten) {
  PageTable table(6, 4, /*window=*/0);
  const int64_t tokens[] = {5, 6, 7, 8, 9, 10, 11, 12};
  const int64_t first = 1;
  ASSERT_TRUE(bool(table.append({&first, 1}, 6, {tokens, 6})));
  const int64_t ids[] = {first, *table.fork(first)};
  auto rowsOf = [&](int64_t id) {
    std::vector<int32_t> found(4);
    EXPECT_TRUE(bool(table.lengths({&id, 1}, found.data(), nullptr)));
    EXPECT_TRUE(bool(table.table({&id, 1}, 3, found.data() + 1)));
    return found;
  };
  std::vector<int32_t> before[] = {rowsOf(ids[0]), rowsOf(ids[1])};
  // The page that both have is copied for the first, and then the second's own.
  const int64_t more[] = {11, 12, 13, 14, 15, 16};
  auto changes = table.append({ids, 2}, 3, {more, 6});
  ASSERT_TRUE(bool(changes));
  EXPECT_EQ(table.numFree(), 1);
  table.undo(*changes);
  EXPECT_EQ(table.numFree(), 4);
  for (int i : {0, 1})
    EXPECT_EQ(rowsOf(ids[i]), before[i]);
  // What is known of the tokens is what it was, down to the first page.
  ASSERT_TRUE(bool(table.append({ids, 2}, 3, {more, 6})));
  EXPECT_EQ(table.numFree(), 1);
  for (int64_t length : {8, 4, 2, 0})
    EXPECT_TRUE(bool(table.truncate(ids[0], length)));
  EXPECT_EQ(*table.reuse(3, {tokens, 8}), 8);
}

TEST(KVCacheTest, WritesOverTruncatedPages) {
  Small small(4, 2);
  ASSERT_TRUE(bool(small.append({1}, {1, 2, 3, 4})));
  std::vector<int32_t> before = small.table(1);
  // Nobody else has the page: it is written over, and not found any more.
  ASSERT_TRUE(bool(small.cache->truncate(1, 3)));
  ASSERT_TRUE(bool(small.append({1}, {5})));
  EXPECT_EQ(small.table(1), before);
  EXPECT_EQ(small.reuse(2, {1, 2, 3, 4}), 2);
  // Now somebody has.
  ASSERT_TRUE(bool(small.cache->truncate(1, 1)));
  ASSERT_TRUE(bool(small.append({1}, {6})));
  EXPECT_NE(small.table(1)[0], before[0]);
  EXPECT_EQ(small.table(2)[0], before[0]);
  EXPECT_EQ(small.keys.at(before[0], 0, 1, 0), 1);
}

TEST(KVCacheTest, DoesNotShareWhatIsWrittenOver) {
  Small small(8, 2);
  ASSERT_TRUE(bool(small.append({1}, {1, 2, 3, 4})));
  ASSERT_TRUE(bool(small.append({2}, {1, 2, 3})));
  ASSERT_TRUE(bool(small.cache->truncate(1, 3)));
  // The page that sequence 1 had of these tokens has others after this.
  ASSERT_TRUE(bool(small.append({1, 2}, {9, 4})));
  EXPECT_NE(small.table(1)[1], small.table(2)[1]);
  EXPECT_EQ(small.table(1)[0], small.table(2)[0]);
}

TEST(KVCacheTest, TakesAPageThatAnotherLeaves) {
  Small small(4, 2);
  ASSERT_TRUE(bool(small.append({1}, {1, 2, 3, 4})));
  ASSERT_TRUE(bool(small.append({2}, {1, 2, 3, 5})));
  ASSERT_TRUE(bool(small.append({3}, {1, 2, 3})));
  ASSERT_TRUE(bool(small.cache->truncate(1, 3)));
  int32_t left = small.table(1)[1];
  EXPECT_EQ(small.cache->numFree(), 0);
  // No page is wanted: 1 goes to the page of 2, and 3 to that of 1.
  ASSERT_TRUE(bool(small.append({1, 3}, {5, 4})));
  EXPECT_EQ(small.table(1), small.table(2));
  EXPECT_EQ(small.table(3)[1], left);
  EXPECT_EQ(small.cache->numFree(), 1);
}

TEST(KVCacheTest, TakesThePageThatLeavesTheWindow) {
  Small small(1, 2, /*window=*/1);
  for (int64_t token = 0; token < 8; ++token)
    ASSERT_TRUE(bool(small.append({1}, {token})));
  EXPECT_FALSE(bool(small.append({1, 2}, {8, 8})));
  EXPECT_TRUE(bool(small.append({1}, {8})));
}

TEST(KVCacheTest, RefusesWhatNeverFitsAtOnce) {
  // In no time, and without memory for a plan of it.
  Small small(3, 1);
  int64_t id = 0;
  auto reserve = [&](int64_t count) {
    return small.cache->append({&id, 1}, count, nullptr, nullptr, {});
  };
  EXPECT_EQ(
      reserve(INT32_MAX).error(),
      "out of pages: expected 2147483647 free pages, but got 3 of 3; free "
      "a sequence first");
  EXPECT_EQ(reserve(4).error(), "out of pages: expected 4 free pages, but got "
                                "3 of 3; free a sequence first");
  EXPECT_TRUE(bool(reserve(3)));
  EXPECT_EQ(
      reserve(INT32_MAX).error(),
      "expected sequences of at most 2147483647 rows, but got 2147483650");
  EXPECT_EQ(reserve(INT64_MAX).error(),
            "expected sequences of at most 2147483647 rows, but got "
            "9223372036854775807");
}

TEST(KVCacheTest, LeavesPagesBehindTheWindow) {
  Small small(4, 2, /*window=*/3);
  ASSERT_TRUE(bool(small.append({1}, {1, 2, 3, 4, 5, 6})));
  EXPECT_EQ(small.table(1).size(), 3u);
  // The query behind these sees positions 4 to 6.
  ASSERT_TRUE(bool(small.append({1}, {7})));
  int64_t id = 1;
  int32_t length, start;
  ASSERT_TRUE(bool(small.cache->lengths({&id, 1}, &length, &start)));
  EXPECT_EQ(start, 4);
  EXPECT_EQ(length, 3);
  EXPECT_EQ(small.cache->numFree(), 2);
  // The query at 5 would see position 3.
  EXPECT_EQ(small.cache->truncate(1, 1).error(),
            "expected a length of at least 2, of which no key is gone that the "
            "window of 3 keys shows, but got 1");
  EXPECT_TRUE(bool(small.cache->truncate(1, 2)));
}

TEST(KVCacheTest, KeepsTheFirstPages) {
  Small small(6, 2, /*window=*/3, /*keep=*/1);
  ASSERT_TRUE(bool(small.append({1}, {1, 2, 3, 4, 5, 6, 7})));
  std::vector<int32_t> before = small.table(1);
  ASSERT_TRUE(bool(small.append({1}, {8})));
  // The page of the first key stays, and that of keys 3 and 4 is gone.
  EXPECT_EQ(small.table(1),
            (std::vector<int32_t>{before[0], before[2], before[3]}));
  int64_t id = 1;
  int32_t length, start;
  ASSERT_TRUE(bool(small.cache->lengths({&id, 1}, &length, &start)));
  EXPECT_EQ(start, 0);
  EXPECT_EQ(length, 6);
  // The query at 5 would see keys that are gone; that at 1 sees none of them.
  EXPECT_EQ(small.cache->truncate(1, 3).error(),
            "expected a length of at least 4, of which no key is gone that the "
            "window of 3 keys shows, but got 3");
  EXPECT_TRUE(bool(small.cache->truncate(1, 2)));
  ASSERT_TRUE(bool(small.append({1}, {3, 4, 5})));
  EXPECT_EQ(small.table(1).size(), 3u);
}

TEST(KVCacheTest, KnowsNothingOfWhatIsGone) {
  // A page behind the gap is not the next one of the pages that stay.
  for (int64_t window : {3, 1}) {
    PageTable table(8, 2, window, /*keep=*/1);
    auto append = [&](int64_t id, std::vector<int64_t> tokens) {
      return bool(table.append({&id, 1}, int64_t(tokens.size()),
                               {tokens.data(), tokens.size()}));
    };
    ASSERT_TRUE(append(1, {1, 2, 3, 4, 5, 6, 7}));
    ASSERT_TRUE(append(1, {8}));
    ASSERT_TRUE(append(2, {1, 2, 3, 4, 5, 6}));
    ASSERT_TRUE(bool(table.truncate(1, 2)));
    ASSERT_TRUE(append(1, {5, 6}));
    int64_t ids[] = {1, 2};
    int32_t pages[2][4];
    ASSERT_TRUE(bool(table.table({ids, 2}, 4, pages[0])));
    EXPECT_EQ(pages[0][0], pages[1][0]);
    EXPECT_NE(pages[0][1], pages[1][1]);
    EXPECT_NE(pages[0][1], pages[1][2]);
  }
}

TEST(KVCacheTest, Threads) {
  constexpr int numThreads = 4;
  Small small(64, 4);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < numThreads; ++thread)
    threads.emplace_back([&small, thread] {
      std::mt19937 random(unsigned(thread) + 1);
      for (int round = 0; round < 400; ++round) {
        int64_t id = 100 * (thread + 1), fork = -1;
        float number = float(1000 * thread + round);
        std::vector<int64_t> tokens(1 + random() % 8, thread);
        Memory rows(1, 1, int64_t(tokens.size()), 1);
        std::fill(rows.data.begin(), rows.data.end(), number);
        bool isKnown = round % 2;
        if (!small.cache->append({&id, 1}, int64_t(tokens.size()), &rows.rows,
                                 &rows.rows,
                                 {isKnown ? tokens.data() : nullptr,
                                  isKnown ? tokens.size() : 0}))
          continue;
        if (auto made = small.cache->fork(id))
          fork = *made;
        int32_t page;
        if (!isKnown && small.cache->width({&id, 1}) &&
            small.cache->lengths({&fork, 1}, &page, nullptr)) {
          std::vector<int32_t> pages(8);
          EXPECT_TRUE(bool(small.cache->table({&fork, 1}, 8, pages.data())));
          EXPECT_EQ(small.keys.at(pages[0], 0, 0, 0), number);
        }
        EXPECT_TRUE(bool(small.cache->free(fork)));
        EXPECT_TRUE(bool(small.cache->truncate(id, 0)));
        EXPECT_TRUE(bool(small.cache->free(id)));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(small.cache->numFree(), 64);
  EXPECT_TRUE(small.cache->ids().empty());
}
