//===- AppendPlan.cpp - An append, worked out before it is done -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AppendPlan.h"

using namespace ::attn::cache;

int32_t AppendPlan::numHolders(int32_t page) const {
  auto found = holders.find(page);
  return found == holders.end() ? table.pool.numHolders(page) : found->second;
}

void AppendPlan::hold(int32_t page) {
  int32_t before = numHolders(page);
  holders[page] = before + 1;
  if (!before && !lateReleased.erase(page))
    --change;
}

void AppendPlan::release(int32_t page) { holders[page] = numHolders(page) - 1; }

void AppendPlan::releaseLate(int32_t page) {
  release(page);
  released.push_back(page);
  if (!numHolders(page))
    lateReleased.insert(page);
}

AppendPlan::Published AppendPlan::find(const PageKey &key) const {
  auto planned = published.find(key);
  if (planned != published.end())
    return planned->second;
  int32_t page = table.pool.find(key);
  if (page < 0 || overwritten.count(page))
    return {0, 0};
  return {page, table.pool.nodeOf(page)};
}

void AppendPlan::addSequence(int64_t id, int64_t count) {
  Step &step = steps.emplace_back();
  step.id = id;
  auto found = table.sequences.find(id);
  if (found == table.sequences.end())
    return;
  const PageTable::Sequence &now = found->second;
  step.after.end = now.end;
  step.after.known = now.known;
  step.after.parent = now.parent;
  step.after.tail = now.tail;
  int64_t seen = count ? table.firstSeen(now.end) / table.page : 0;
  step.numLeft = std::max<int64_t>(seen - table.numKept - now.numGone, 0);
  step.after.numGone = now.numGone + step.numLeft;
  for (int64_t i = 0; i < step.numLeft; ++i) {
    int32_t page = now.pages[size_t(table.numKept + i)];
    left.push_back(page);
    release(page);
    if (!numHolders(page))
      ++change;
  }
}

AppendPlan::Ref AppendPlan::makeWritable(int32_t page, int64_t rows) {
  if (numHolders(page) == 1) {
    overwritten.insert(page);
    return page;
  }
  Ref copy = makeFresh();
  changes.copies.push_back({page, copy, int32_t(rows)});
  releaseLate(page);
  return copy;
}

void AppendPlan::addRows(size_t index, int64_t count, const int64_t *tokens) {
  Step &step = steps[index];
  PageTable::Sequence &after = step.after;
  bool isKnown = tokens && after.known == after.end;
  auto found = table.sequences.find(step.id);
  for (int64_t done = 0; done < count;) {
    int64_t row = after.end % table.page;
    int64_t rows = std::min<int64_t>(table.page - row, count - done);
    // Only the first of these rows may find a page with rows before them.
    int32_t own = row ? found->second.pages.back() : -1;
    Published same = {0, 0};
    if (isKnown)
      after.tail.insert(after.tail.end(), tokens + done, tokens + done + rows);
    bool isShared = isKnown && row + rows == table.page;
    if (isShared)
      same = find({after.parent, after.tail});

    Ref ref = same.ref;
    if (same.node) {
      held.push_back(ref);
      if (ref >= 0)
        hold(ref);
      if (own >= 0)
        releaseLate(own);
    } else {
      ref = own >= 0 ? makeWritable(own, row) : makeFresh();
      changes.writes.push_back(
          {int64_t(index), done, ref, int32_t(row), int32_t(rows)});
    }
    if (isShared) {
      if (!same.node) {
        same = {ref, table.nextNode++};
        published.emplace(PageKey{after.parent, std::move(after.tail)}, same);
      }
      after.parent = same.node;
      after.tail.clear();
    }
    if (own >= 0) {
      step.replacesLast = true;
      step.last = ref;
    } else {
      step.added.push_back(ref);
    }
    after.end += rows;
    done += rows;
  }
  if (isKnown)
    after.known = after.end;
}

PageChanges AppendPlan::carryOut() {
  PagePool &pool = table.pool;
  for (int32_t page : left)
    pool.release(page);
  // What is kept, before fresh pages are taken from what is not.
  for (Ref ref : held)
    if (ref >= 0)
      pool.hold(ref);
  for (int32_t i = 0; i < numFresh; ++i)
    fresh.push_back(pool.take());
  for (Ref ref : held)
    if (ref < 0)
      pool.hold(resolve(ref));
  for (int32_t page : overwritten)
    pool.forget(page);
  for (const auto &[key, made] : published)
    pool.publish(resolve(made.ref), key, made.node);
  // Last: a copy of such a page is still to be made.
  for (int32_t page : released)
    pool.release(page);

  for (Step &step : steps) {
    bool isNew = !table.sequences.count(step.id);
    PageTable::Sequence &sequence = table.sequences[step.id];
    std::vector<int32_t> pages = std::move(sequence.pages);
    if (step.numLeft) {
      auto first = pages.begin() + table.numKept;
      pages.erase(first, first + step.numLeft);
    }
    changes.before.push_back({step.id, isNew, sequence.end, sequence.known,
                              sequence.parent, std::move(sequence.tail),
                              pages.size(), pages.empty() ? -1 : pages.back()});
    if (step.replacesLast)
      pages.back() = resolve(step.last);
    for (Ref ref : step.added)
      pages.push_back(resolve(ref));
    sequence = std::move(step.after);
    sequence.pages = std::move(pages);
    table.nextId = std::max(table.nextId, step.id + 1);
  }
  for (PageCopy &copy : changes.copies)
    copy.to = resolve(copy.to);
  for (PageWrite &write : changes.writes)
    write.page = resolve(write.page);
  return std::move(changes);
}
