//===- PageTable.h - Which pages the rows of sequences are in ---*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The bookkeeping of a cache of keys and values: what docs/Serving.md promises,
// without a tensor in sight. An append says which rows are to be copied where.
//
// Every function either does what it says or returns an error and changes
// nothing. Not for several threads at once.
//===----------------------------------------------------------------------===//

#ifndef ATTN_CACHE_PAGETABLE_H
#define ATTN_CACHE_PAGETABLE_H

#include "attn/Cache/PagePool.h"
#include "attn/Support/Result.h"

#include <algorithm>
#include <map>

namespace attn::cache {

/// Some ids, or tokens, of the caller's.
struct Numbers {
  const int64_t *data = nullptr;
  size_t size = 0;

  int64_t operator[](size_t i) const { return data[i]; }
  const int64_t *begin() const { return data; }
  const int64_t *end() const { return data + size; }
};

/// The first rows of a page that go to another before it is written.
struct PageCopy {
  int32_t from, to;
  int32_t rows;
};

/// Rows of an append that go into a page.
struct PageWrite {
  /// Of which of the ids, and from which of its new rows on.
  int64_t sequence, first;
  int32_t page, row, count;
};

/// A sequence before an append, without the pages that leave its window.
struct SequenceBefore {
  int64_t id = 0;
  bool isNew = false;
  int64_t end = 0, known = 0;
  uint64_t parent = 0;
  Tokens tail;
  size_t numPages = 0;
  /// -1: it had none.
  int32_t lastPage = -1;
};

/// What an append does to the memory of the pages: all copies, then all writes.
struct PageChanges {
  std::vector<PageCopy> copies;
  std::vector<PageWrite> writes;
  /// Of its sequences, to take it back.
  std::vector<SequenceBefore> before;
};

class PageTable {
public:
  /// `page`: the rows of a page. `window`: the keys that a query sees, itself
  /// among them; 0: all. `keep`: how many keys from the first on it sees
  /// besides.
  PageTable(int32_t pages, int32_t page, int64_t window, int64_t keep = 0);

  int32_t numFree() const { return pool.numFree(); }
  int32_t numPages() const { return pool.numPages(); }
  /// Those that there are, in ascending order.
  std::vector<int64_t> ids() const;

  /// An empty sequence with an id that there never was.
  int64_t create();
  /// `count` more rows for each of `ids`. `tokens`: those of the rows, `count`
  /// for each id; empty: not known.
  support::Result<PageChanges> append(Numbers ids, int64_t count,
                                      Numbers tokens);
  /// Takes back the last append, what it was to do to the memory was not done:
  /// its pages hold anything, and are nobody's to find by their tokens.
  void undo(const PageChanges &changes);
  /// Gives a sequence that is empty or new the full pages there are of the
  /// sequence of these tokens; returns how many rows these are.
  support::Result<int64_t> reuse(int64_t id, Numbers tokens);
  support::Result<int64_t> fork(int64_t id);
  support::Status truncate(int64_t id, int64_t length);
  support::Status free(int64_t id);
  /// Sequence `onto[i]` becomes what `from[i]` was.
  support::Status reorder(Numbers from, Numbers onto);

  /// Rows of each sequence that are in its pages, and the position of the first
  /// of them, where `starts` is not null: 0 where first keys are kept, whose
  /// positions are their places among the rows that are there.
  support::Status lengths(Numbers ids, int32_t *lengths, int32_t *starts) const;
  /// Pages of the sequence that has most of them.
  support::Result<int64_t> width(Numbers ids) const;
  /// The pages of each sequence, then -1.
  support::Status table(Numbers ids, int64_t width, int32_t *table) const;

private:
  friend class AppendPlan;

  struct Sequence {
    /// The position behind its last row, and how many pages were given back
    /// behind those that are kept.
    int64_t end = 0, numGone = 0;
    /// Rows, from the first on, whose tokens are known.
    int64_t known = 0;
    /// Of the last page that is full of known tokens.
    uint64_t parent = 0;
    /// The known tokens behind that page.
    Tokens tail;
    std::vector<int32_t> pages;
  };

  support::Result<const Sequence *> find(int64_t id) const;
  support::Status checkIds(Numbers ids, bool distinct) const;
  void releaseAll(const Sequence &sequence);
  /// Positions before this are seen by no query from the next one on.
  int64_t firstSeen(int64_t end) const {
    return window ? std::max<int64_t>(end - window + 1, 0) : 0;
  }

  PagePool pool;
  int32_t page;
  int64_t window;
  /// The first pages of a sequence, which are never given back.
  int64_t numKept;
  std::map<int64_t, Sequence> sequences;
  int64_t nextId = 0;
  uint64_t nextNode = 1;
};

} // namespace attn::cache

#endif // ATTN_CACHE_PAGETABLE_H
