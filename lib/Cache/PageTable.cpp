//===- PageTable.cpp - Which pages the rows of sequences are in -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Cache/PageTable.h"
#include "AppendPlan.h"

#include <algorithm>

using namespace ::attn;
using namespace ::attn::cache;
using support::Failure;
using support::Result;
using support::Status;
using support::success;

/// Positions are 32-bit numbers where attention sees them.
static constexpr int64_t kMaxEnd = INT32_MAX;
/// There is always an id that there never was.
static constexpr int64_t kMaxId = INT64_MAX / 2;

static Failure expected(const std::string &what, int64_t got) {
  return {"expected " + what + ", but got " + std::to_string(got)};
}

PageTable::PageTable(int32_t pages, int32_t page, int64_t window, int64_t keep)
    : pool(pages), page(page), window(window),
      numKept((keep + page - 1) / page) {}

std::vector<int64_t> PageTable::ids() const {
  std::vector<int64_t> result;
  for (const auto &[id, sequence] : sequences)
    result.push_back(id);
  return result;
}

Result<const PageTable::Sequence *> PageTable::find(int64_t id) const {
  auto found = sequences.find(id);
  if (found == sequences.end())
    return expected("the id of a sequence that is in the cache", id);
  return &found->second;
}

Status PageTable::checkIds(Numbers ids, bool distinct) const {
  for (int64_t id : ids)
    if (id < 0 || id > kMaxId)
      return expected("ids between 0 and 2^62 - 1", id);
  if (!distinct)
    return success();
  std::vector<int64_t> sorted(ids.begin(), ids.end());
  std::sort(sorted.begin(), sorted.end());
  auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end())
    return success();
  return Failure{"expected each id once, but got " + std::to_string(*twice) +
                 " twice"};
}

//===----------------------------------------------------------------------===//
// Sequences that come and go
//===----------------------------------------------------------------------===//

int64_t PageTable::create() {
  sequences[nextId];
  return nextId++;
}

void PageTable::releaseAll(const Sequence &sequence) {
  // The last page first, so that it is the first of them to be taken: without
  // those before it nothing leads to it.
  for (size_t i = sequence.pages.size(); i--;)
    pool.release(sequence.pages[i]);
}

Status PageTable::free(int64_t id) {
  auto found = find(id);
  if (!found)
    return found.takeFailure();
  releaseAll(**found);
  sequences.erase(id);
  return success();
}

Result<int64_t> PageTable::fork(int64_t id) {
  auto found = find(id);
  if (!found)
    return found.takeFailure();
  for (int32_t held : (*found)->pages)
    pool.hold(held);
  sequences[nextId] = **found;
  return nextId++;
}

Status PageTable::reorder(Numbers from, Numbers onto) {
  if (from.size != onto.size)
    return expected("as many sequences to write as to read, " +
                        std::to_string(from.size),
                    int64_t(onto.size));
  if (Status ok = checkIds(onto, /*distinct=*/true); !ok)
    return ok;
  std::vector<Sequence> copies;
  for (int64_t id : from) {
    auto found = find(id);
    if (!found)
      return found.takeFailure();
    copies.push_back(**found);
  }
  for (const Sequence &copy : copies)
    for (int32_t held : copy.pages)
      pool.hold(held);
  for (size_t i = 0; i < onto.size; ++i) {
    Sequence &sequence = sequences[onto[i]];
    releaseAll(sequence);
    sequence = std::move(copies[i]);
    nextId = std::max(nextId, onto[i] + 1);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Rows that come and go
//===----------------------------------------------------------------------===//

Result<PageChanges> PageTable::append(Numbers ids, int64_t count,
                                      Numbers tokens) {
  if (Status ok = checkIds(ids, /*distinct=*/true); !ok)
    return ok.takeFailure();
  if (count < 0)
    return expected("a number of rows of at least 0", count);
  if (tokens.data && tokens.size != ids.size * size_t(count))
    return expected("a token for each of the " +
                        std::to_string(ids.size * size_t(count)) + " rows",
                    int64_t(tokens.size));
  auto outOfPages = [&](int64_t wanted, int64_t available) {
    return Failure{"out of pages: expected " + std::to_string(wanted) +
                   " free pages, but got " + std::to_string(available) +
                   " of " + std::to_string(numPages()) +
                   "; free a sequence first"};
  };
  for (int64_t id : ids) {
    auto found = sequences.find(id);
    int64_t end = found == sequences.end() ? 0 : found->second.end;
    if (count > kMaxEnd - end)
      return expected("sequences of at most 2147483647 rows",
                      count > INT64_MAX - end ? count : end + count);
    // More than all pages: nothing to work out.
    int64_t wanted = (end + count + page - 1) / page - (end + page - 1) / page;
    if (wanted > numPages())
      return outOfPages(wanted, numFree());
  }
  AppendPlan plan(*this);
  for (int64_t id : ids)
    plan.addSequence(id, count);
  for (size_t i = 0; i < ids.size; ++i)
    plan.addRows(i, count, tokens.data ? tokens.data + i * count : nullptr);
  if (plan.numMissing() > 0)
    return outOfPages(plan.numWanted(), plan.available());
  return plan.carryOut();
}

void PageTable::undo(const PageChanges &changes) {
  for (const PageCopy &copy : changes.copies)
    pool.forget(copy.to);
  for (const PageWrite &write : changes.writes)
    pool.forget(write.page);
  for (const SequenceBefore &before : changes.before) {
    Sequence &sequence = sequences[before.id];
    if (before.isNew) {
      releaseAll(sequence);
      sequences.erase(before.id);
      continue;
    }
    for (; sequence.pages.size() > before.numPages; sequence.pages.pop_back())
      pool.release(sequence.pages.back());
    if (before.lastPage >= 0) {
      pool.hold(before.lastPage);
      pool.release(sequence.pages.back());
      sequence.pages.back() = before.lastPage;
    }
    sequence.end = before.end;
    sequence.known = before.known;
    sequence.parent = before.parent;
    sequence.tail = before.tail;
  }
}

Result<int64_t> PageTable::reuse(int64_t id, Numbers tokens) {
  int64_t ids[] = {id};
  if (Status ok = checkIds({ids, 1}, /*distinct=*/false); !ok)
    return ok.takeFailure();
  auto found = sequences.find(id);
  if (found != sequences.end() && found->second.end)
    return expected("an empty sequence, which alone can take a prefix", id);
  Sequence sequence;
  size_t rows = size_t(page);
  for (size_t at = 0; tokens.size - at >= rows && at <= kMaxEnd - rows;
       at += rows) {
    const int64_t *first = tokens.begin() + at;
    int32_t same = pool.find({sequence.parent, Tokens(first, first + rows)});
    if (same < 0)
      break;
    pool.hold(same);
    sequence.pages.push_back(same);
    sequence.parent = pool.nodeOf(same);
    sequence.end += page;
  }
  sequence.known = sequence.end;
  int64_t reused = sequence.end;
  sequences[id] = std::move(sequence);
  nextId = std::max(nextId, id + 1);
  return reused;
}

Status PageTable::truncate(int64_t id, int64_t length) {
  auto found = find(id);
  if (!found)
    return found.takeFailure();
  Sequence &sequence = sequences[id];
  int64_t kept = numKept * page, gone = sequence.numGone * page;
  if (length < 0 || length > sequence.end - gone)
    return expected("a length between 0 and that of the sequence, " +
                        std::to_string(sequence.end - gone),
                    length);
  // Of pages that are kept none is gone.
  if (kept && length <= kept)
    gone = 0;
  int64_t end = gone + length;
  if (gone && kept + gone > firstSeen(end))
    return expected("a length of at least " +
                        std::to_string(kept + window - 1) +
                        ", of which no key is gone that the window of " +
                        std::to_string(window) + " keys shows",
                    length);
  if (end < sequence.known) {
    // A page that is full of known tokens is published as long as somebody has
    // it: who writes over it has it alone, and knows no more than its front.
    if (length && end % page == 0) {
      sequence.parent = pool.nodeOf(sequence.pages[size_t(length / page) - 1]);
      sequence.tail.clear();
    } else if (end / page < sequence.known / page) {
      const PageKey &key = pool.keyOf(sequence.pages[size_t(length / page)]);
      sequence.parent = key.parent;
      sequence.tail = key.tokens;
    }
    sequence.tail.resize(size_t(end % page));
    sequence.known = end;
  }
  size_t left = size_t((length + page - 1) / page);
  for (size_t i = sequence.pages.size(); i-- > left;)
    pool.release(sequence.pages[i]);
  sequence.pages.resize(left);
  sequence.end = end;
  sequence.numGone = gone / page;
  return success();
}

//===----------------------------------------------------------------------===//
// Asking
//===----------------------------------------------------------------------===//

Status PageTable::lengths(Numbers ids, int32_t *lengths,
                          int32_t *starts) const {
  for (size_t i = 0; i < ids.size; ++i) {
    auto found = find(ids[i]);
    if (!found)
      return found.takeFailure();
    int64_t gone = (*found)->numGone * page;
    lengths[i] = int32_t((*found)->end - gone);
    if (starts)
      starts[i] = numKept ? 0 : int32_t(gone);
  }
  return success();
}

Result<int64_t> PageTable::width(Numbers ids) const {
  size_t most = 0;
  for (int64_t id : ids) {
    auto found = find(id);
    if (!found)
      return found.takeFailure();
    most = std::max(most, (*found)->pages.size());
  }
  return int64_t(most);
}

Status PageTable::table(Numbers ids, int64_t width, int32_t *table) const {
  auto most = this->width(ids);
  if (!most)
    return most.takeFailure();
  if (*most > width)
    return expected("a table of at least " + std::to_string(*most) +
                        " pages for each sequence",
                    width);
  for (int64_t id : ids) {
    const std::vector<int32_t> &pages = sequences.at(id).pages;
    table = std::copy(pages.begin(), pages.end(), table);
    table = std::fill_n(table, width - int64_t(pages.size()), -1);
  }
  return success();
}
