//===- SizeClass.h - Which sizes get a schedule of their own ----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel runs on any sizes, and its schedule is best for some of them. Sizes
// of a run fall into classes (lib/Analysis/ScheduleRules.def), each with a
// schedule of its own. Who compiles as calls come asks for the class of a call
// (chooseSizeClass); who compiles ahead gets a plan with a branch for each
// class that there is (listSizeClasses).
//
// This header includes no MLIR.
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_SIZECLASS_H
#define ATTN_ANALYSIS_SIZECLASS_H

#include "attn/Target/TargetInfo.h"
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace attn {

/// What classes depend on beside sizes.
struct SizeProblem {
  int64_t depth = 0, channels = 0;
  /// Scores are dots times what is known at compile time, and none is masked.
  bool isPlain = false;
  /// Queries, keys and values have 16 bits.
  bool isNarrow = false;
  /// Values are the first columns of keys, as latents are.
  bool valuesInKeys = false;
};

/// The sizes of a run.
struct RunSizes {
  int64_t batches = 0, heads = 0, keyHeads = 0, rows = 0, keys = 0;
  /// The rows of a head lie behind those of the head before.
  bool headsAbut = true;
};

/// Sizes [b, hq, sq, sk, hk] that a schedule is chosen for, 0 where any.
using ExpectedSizes = std::array<int64_t, 5>;

/// The sizes that a class holds for.
struct SizeCondition {
  struct Range {
    int64_t least = 0, most = INT64_MAX;

    bool has(int64_t size) const { return size >= least && size <= most; }
    bool isAny() const { return least <= 0 && most == INT64_MAX; }
    bool contains(const Range &other) const {
      return least <= other.least && most >= other.most;
    }
    bool meets(const Range &other) const {
      return least <= other.most && most >= other.least;
    }
  };
  /// Of the queries, of the keys; query heads of all batches, those of a key
  /// head, and key heads of all batches.
  Range rows, keys, heads, group, blocks;
  /// Tiles of so many rows come in pairs, or are so many that one more does not
  /// matter; 0: however many there are.
  int64_t pairsOf = 0;

  bool contains(const SizeCondition &other) const;
  bool meets(const SizeCondition &other) const;
};

/// Tiles of rows from which one without a partner does not matter.
int64_t mostOddTiles();

struct SizeClass {
  std::string name;
  SizeCondition when;
  ExpectedSizes expected = {};
  /// What the schedule gains, and where that was measured.
  std::string gain, where;
};

/// The class of a run. A bounded number of classes has all runs: it allocates
/// nothing and takes some ten nanoseconds.
ExpectedSizes chooseSizeClass(const SizeProblem &problem, const RunSizes &sizes,
                              const TargetInfo &target);

/// The classes of a problem for plans that are compiled ahead, to be tried in
/// this order. Sizes of none of them have no class.
std::vector<SizeClass> listSizeClasses(const SizeProblem &problem,
                                       const TargetInfo &target);

} // namespace attn

#endif // ATTN_ANALYSIS_SIZECLASS_H
