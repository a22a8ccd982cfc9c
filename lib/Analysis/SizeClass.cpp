//===- SizeClass.cpp - Which sizes get a schedule of their own ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/SizeClass.h"
#include "ScheduleRules.h"
#include "attn/Analysis/Schedule.h"

#include <algorithm>

using namespace ::attn;
using namespace ::attn::rules;

namespace {
/// When the classes of a row of the table are tried.
enum Stage { calls = 1, ahead = 2, always = calls | ahead };

/// Builds a condition, for the table. `rounds`: as many heads as take so many
/// rounds of blocks; `fills`: so few blocks that so many times as many run at
/// once; `tilesOf`: blocks are tiles of so many rows of all heads (calls only).
struct When {
  SizeCondition condition;
  int64_t leastRounds = 0, leastFill = 0, tileRows = 0;

  constexpr When &rows(int64_t least, int64_t most = INT64_MAX) {
    return condition.rows = {least, most}, *this;
  }
  constexpr When &keys(int64_t least, int64_t most = INT64_MAX) {
    return condition.keys = {least, most}, *this;
  }
  constexpr When &group(int64_t least, int64_t most = INT64_MAX) {
    return condition.group = {least, most}, *this;
  }
  constexpr When &blocks(int64_t least, int64_t most = INT64_MAX) {
    return condition.blocks = {least, most}, *this;
  }
  constexpr When &rounds(int64_t least) { return leastRounds = least, *this; }
  constexpr When &fills(int64_t times) { return leastFill = times, *this; }
  constexpr When &tilesOf(int64_t rows) { return tileRows = rows, *this; }
  constexpr When &pairsOf(int64_t rows) {
    return condition.pairsOf = rows, *this;
  }
};

/// A size that a schedule is chosen for, made of a run's.
struct Rounding {
  enum Kind { unknown, constant, multiple, upwards, downwards } kind = unknown;
  int64_t value = 0;

  int64_t operator()(int64_t size) const {
    int64_t power = 1;
    switch (kind) {
    case unknown:
      return 0;
    case constant:
      return value;
    case multiple:
      return (size + value - 1) / value * value;
    case upwards:
      while (power < size)
        power *= 2;
      return power;
    case downwards:
      while (power <= std::min(size, value) / 2)
        power *= 2;
      return power;
    }
    return 0;
  }
};
constexpr Rounding only(int64_t value) { return {Rounding::constant, value}; }
/// To a multiple.
constexpr Rounding steps(int64_t value) { return {Rounding::multiple, value}; }
/// To a power of two.
constexpr Rounding up() { return {Rounding::upwards, 0}; }
constexpr Rounding down(int64_t most = INT64_MAX) {
  return {Rounding::downwards, most};
}

/// Builds the expected sizes, for the table.
struct Expect {
  Rounding ofRows, ofKeys, ofBlocks;
  int64_t heads = 0; // of a key head; 0: those of the run

  constexpr Expect &rows(Rounding rounding) { return ofRows = rounding, *this; }
  constexpr Expect &keys(Rounding rounding) { return ofKeys = rounding, *this; }
  constexpr Expect &blocks(Rounding rounding) {
    return ofBlocks = rounding, *this;
  }
  constexpr Expect &group(int64_t count) { return heads = count, *this; }

  ExpectedSizes operator()(int64_t rows, int64_t keys, int64_t blocks,
                           int64_t group) const {
    if (heads)
      group = heads;
    int64_t count = ofBlocks(blocks);
    return {count ? 1 : 0, count * group, ofRows(rows), ofKeys(keys),
            group > 1 ? count : 0};
  }
};

/// Of which problems a class is one.
using Applies = bool (*)(const SizeProblem &, const TargetInfo &);
bool any(const SizeProblem &, const TargetInfo &) { return true; }
bool cpu(const SizeProblem &, const TargetInfo &target) {
  return target.isCpu();
}
bool gpu(const SizeProblem &, const TargetInfo &target) {
  return !target.isCpu();
}
/// Latents of more channels than one product of warpgroups has. Of values apart
/// from keys work tiles share the channels, twice as many.
bool wideLatents(const SizeProblem &problem, const TargetInfo &target) {
  return !target.isCpu() && target.hasRoles() && problem.isNarrow &&
         problem.valuesInKeys && problem.channels > MmaShape::warpgroup().nMax;
}
/// Products of warpgroups.
bool groups(const SizeProblem &problem, const TargetInfo &target) {
  return !target.isCpu() && target.hasRoles() && problem.isNarrow;
}
/// The same, of blocks that form clusters.
bool clusters(const SizeProblem &problem, const TargetInfo &target) {
  return groups(problem, target) && target.maxCluster >= 4 &&
         problem.depth == columnsOfClusters &&
         problem.channels == columnsOfClusters;
}
/// The same, of three warpgroups or four.
bool narrowGroups(const SizeProblem &problem, const TargetInfo &target) {
  return groups(problem, target) &&
         std::max(problem.depth, problem.channels) <= columnsOfThree;
}
/// The same, of the widest heads that warpgroups have.
bool wideGroups(const SizeProblem &problem, const TargetInfo &target) {
  int64_t most = MmaShape::warpgroup().nMax;
  return groups(problem, target) && problem.depth == most &&
         problem.channels == most;
}
/// Products of warpgroups without anything between the dots and the weights.
bool isBare(const SizeProblem &problem, const TargetInfo &target) {
  return !target.isCpu() && target.hasRoles() && problem.isPlain &&
         problem.isNarrow;
}
bool longTiles(const SizeProblem &problem, const TargetInfo &target) {
  int64_t widest = std::max(problem.depth, problem.channels);
  return isBare(problem, target) && widest > 64 && widest <= 128;
}
bool canPair(const SizeProblem &problem, const TargetInfo &target) {
  bool isAlike = problem.depth == problem.channels && problem.depth % 128 == 0;
  bool isMore = problem.depth == 192 && problem.channels == 128;
  return isBare(problem, target) && target.maxCluster >= 2 &&
         (isAlike || isMore);
}
bool pairs(const SizeProblem &problem, const TargetInfo &target) {
  return canPair(problem, target) && problem.channels <= 128;
}
bool widePairs(const SizeProblem &problem, const TargetInfo &target) {
  return canPair(problem, target) && problem.channels > 128;
}

struct Rule {
  const char *name;
  Stage stage;
  Applies applies;
  When when;
  Expect expected;
  const char *gain, *where;
};
} // namespace

static const Rule table[] = {
#define SIZE_CLASS(NAME, WHEN, APPLIES, CONDITION, EXPECTED, GAIN, WHERE)      \
  {NAME, WHEN, APPLIES, CONDITION, EXPECTED, GAIN, WHERE},
#include "ScheduleRules.def"
};

int64_t attn::mostOddTiles() { return rules::mostOddTiles; }

/// The condition on this target.
static SizeCondition getCondition(const Rule &rule, const TargetInfo &target) {
  SizeCondition condition = rule.when.condition;
  if (rule.when.leastRounds > 1)
    condition.heads.least =
        (rule.when.leastRounds - 1) *
            std::max<int64_t>(target.numMultiprocessors, 1) +
        1;
  if (rule.when.leastFill && !rule.when.tileRows)
    condition.blocks = {1, std::max<int64_t>(target.numMultiprocessors, 1) /
                               rule.when.leastFill};
  return condition;
}

/// Whether tiles of all heads leave as many multiprocessors idle as a rule
/// says.
static bool leaveIdle(const Rule &rule, int64_t heads, int64_t rows,
                      const TargetInfo &target) {
  int64_t tiles =
      heads * ((rows + rule.when.tileRows - 1) / rule.when.tileRows);
  return tiles * rule.when.leastFill <= target.numMultiprocessors;
}

static bool comeInPairs(int64_t rows, int64_t tileRows) {
  int64_t tiles = (rows + tileRows - 1) / tileRows;
  return tiles % 2 == 0 || tiles >= rules::mostOddTiles;
}

ExpectedSizes attn::chooseSizeClass(const SizeProblem &problem,
                                    const RunSizes &sizes,
                                    const TargetInfo &target) {
  int64_t group = 1;
  if (sizes.keyHeads > 0 && sizes.heads > sizes.keyHeads &&
      sizes.heads % sizes.keyHeads == 0 && sizes.headsAbut)
    group = sizes.heads / sizes.keyHeads;
  // Sizes of tensors have 31 bits.
  int64_t heads = sizes.batches * sizes.heads, blocks = heads / group;
  for (const Rule &rule : table) {
    if (!(rule.stage & calls) || !rule.when.condition.rows.has(sizes.rows) ||
        !rule.when.condition.keys.has(sizes.keys) ||
        !rule.when.condition.group.has(group) ||
        !rule.when.condition.blocks.has(blocks) ||
        !rule.applies(problem, target) ||
        !getCondition(rule, target).heads.has(heads) ||
        !getCondition(rule, target).blocks.has(blocks))
      continue;
    if (int64_t rows = rule.when.condition.pairsOf;
        rows && !comeInPairs(sizes.rows, rows))
      continue;
    if (rule.when.tileRows && !leaveIdle(rule, heads, sizes.rows, target))
      continue;
    return rule.expected(sizes.rows, sizes.keys, blocks, group);
  }
  return {};
}

std::vector<SizeClass> attn::listSizeClasses(const SizeProblem &problem,
                                             const TargetInfo &target) {
  std::vector<SizeClass> classes;
  for (const Rule &rule : table)
    if ((rule.stage & ahead) && rule.applies(problem, target))
      classes.push_back({rule.name, getCondition(rule, target),
                         rule.expected(0, 0, 0, 1), rule.gain, rule.where});
  return classes;
}

bool SizeCondition::contains(const SizeCondition &other) const {
  return rows.contains(other.rows) && keys.contains(other.keys) &&
         heads.contains(other.heads) && group.contains(other.group) &&
         blocks.contains(other.blocks) &&
         (!pairsOf || pairsOf == other.pairsOf);
}

bool SizeCondition::meets(const SizeCondition &other) const {
  return rows.meets(other.rows) && keys.meets(other.keys) &&
         heads.meets(other.heads) && group.meets(other.group) &&
         blocks.meets(other.blocks);
}

std::optional<ShortParts> attn::boundShortParts(int64_t columns) {
  if (columns > gpuKeyColumns)
    return std::nullopt;
  return ShortParts{mostShortParts, gpuManyPartKeys};
}
