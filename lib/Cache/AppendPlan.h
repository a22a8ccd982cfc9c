//===- AppendPlan.h - An append, worked out before it is done ---*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whether an append of several sequences finds enough pages depends on all of
// them: they may leave pages behind a window, share pages with each other, and
// copy pages that they share with others until one has it alone. So it is
// worked out on paper, beside the table, and then carried out, which cannot
// fail.
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CACHE_APPENDPLAN_H
#define ATTN_LIB_CACHE_APPENDPLAN_H

#include "attn/Cache/PageTable.h"

#include <unordered_set>

namespace attn::cache {

class AppendPlan {
public:
  explicit AppendPlan(PageTable &table) : table(table) {}

  /// First all sequences. What leaves the window of one before `count` more
  /// rows another may take.
  void addSequence(int64_t id, int64_t count);
  /// Then the rows of each, in the same order.
  void addRows(size_t index, int64_t count, const int64_t *tokens);

  /// Pages that are still missing; none if not positive.
  int64_t numMissing() const { return numFresh - available(); }
  int64_t numWanted() const { return numFresh; }
  int64_t available() const { return table.numFree() + change; }

  PageChanges carryOut();

private:
  /// A page there is, or the fresh one of number -1 - ref.
  using Ref = int32_t;

  /// What becomes of one sequence.
  struct Step {
    int64_t id;
    /// As it will be, but for `pages`: these lose some, then the last one may
    /// be another, then some are added.
    PageTable::Sequence after;
    int64_t numLeft = 0;
    bool replacesLast = false;
    Ref last = 0;
    std::vector<Ref> added;
  };
  struct Published {
    Ref ref;
    uint64_t node;
  };

  Ref makeFresh() { return Ref(-1 - numFresh++); }
  Ref resolve(Ref ref) const { return ref < 0 ? fresh[size_t(-1 - ref)] : ref; }
  int32_t numHolders(int32_t page) const;
  void hold(int32_t page);
  void release(int32_t page);
  /// When all is done: the page is not among those that are taken until then.
  void releaseLate(int32_t page);
  /// The page of these contents, as things will stand by then; node 0 if none.
  Published find(const PageKey &key) const;
  /// Where the last page of a sequence, of which some rows are taken, can be
  /// written.
  Ref makeWritable(int32_t page, int64_t rows);

  PageTable &table;
  std::vector<Step> steps;
  int32_t numFresh = 0;
  /// Of free pages, by what was held and let go.
  int64_t change = 0;
  std::unordered_map<int32_t, int32_t> holders;
  /// Pages that nobody holds then, but which are not free before.
  std::unordered_set<int32_t> lateReleased;
  /// Pages that will be written over, and lose what they were found by.
  std::unordered_set<int32_t> overwritten;
  std::unordered_map<PageKey, Published, PageKeyHash> published;

  // To be carried out, in this order.
  std::vector<int32_t> left;
  std::vector<Ref> held;
  std::vector<int32_t> fresh;
  std::vector<int32_t> released;
  PageChanges changes;
};

} // namespace attn::cache

#endif // ATTN_LIB_CACHE_APPENDPLAN_H
