//===- Caches.h - Keys and values in pages and rings ------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The oracle is asked about plain tensors, and the kernel is given the same
// rows in pages that sequences share, or in caches that are written round and
// round. So what it says owes nothing to tables. All rows that no sequence has
// are NaN.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_FUZZ_CACHES_H
#define ATTN_LIB_TOOLS_FUZZ_CACHES_H

#include "Kernel.h"
#include "Memory.h"
#include "Random.h"

namespace attn::fuzz {

/// Where the rows of sequences are in a plain tensor, and how many each has.
struct PlainRows {
  std::vector<int32_t> lengths;
  /// Of packed sequences: their first rows; else empty.
  std::vector<int32_t> first;

  std::vector<int64_t> at(int64_t sequence, int64_t head, int64_t row) const {
    if (first.empty())
      return {sequence, head, row, 0};
    return {head, first[sequence] + row, 0};
  }
};

/// Pages of sequences, some of which several have.
struct Pages {
  int64_t page = 1, perSequence = 0, count = 0;
  std::vector<int32_t> table;

  /// Of `perSequence` pages as far as the lengths reach, and numbers of no page
  /// behind them.
  /// `mayShare`: whether several sequences may have one page.
  static Pages draw(Random &random, const PlainRows &rows, int64_t page,
                    int64_t perSequence, bool mayShare, bool prefixes = false);
  /// The row of a pool, page by page, that row `j` of a sequence is.
  int64_t slot(int64_t sequence, int64_t j) const {
    return int64_t(table[sequence * perSequence + j / page]) * page + j % page;
  }
  /// Makes rows equal that are one row of the pool.
  void share(const PlainRows &rows, const Tensor &plain, int64_t heads) const;
  /// The pool of a plain tensor's rows. A row that is NaN for one sequence and
  /// is not for another is what it is for the other.
  Tensor toPool(Random &random, const PlainRows &rows, const Tensor &plain,
                int64_t heads, bool aligned) const;
};

/// The keys of an instance as its kernel gets them.
struct KeyCache {
  PlainRows rows;
  Pages pages;
  std::vector<int32_t> starts;
  /// The last rows of each sequence that are not in it, but appended.
  int64_t numNew = 0;

  /// `keys`: rows of all sequences but those of `cuK`, which are packed.
  static KeyCache draw(Random &random, const Kernel &k, int64_t sequences,
                       int64_t keys, const std::vector<int32_t> &cuK,
                       const std::vector<int32_t> &lengths);
  int64_t mostStart() const;
  /// Puts them in the place of the plain tensors, and the table beside.
  void give(Random &random, const Kernel &k, const Tensor &key,
            const Tensor &value, int64_t heads, bool aligned,
            std::vector<Tensor> &inputs) const;

private:
  /// The rows that are appended, of a plain tensor; the cache loses them.
  Tensor takeNew(Random &random, const Kernel &k, const Tensor &plain,
                 const Tensor &into, int64_t heads) const;
  /// A cache of as many rows as the plain tensor, the first of which is in row
  /// `start` modulo that.
  Tensor toRing(Random &random, const Tensor &plain, int64_t heads,
                bool aligned) const;
};

} // namespace attn::fuzz

#endif // ATTN_LIB_TOOLS_FUZZ_CACHES_H
