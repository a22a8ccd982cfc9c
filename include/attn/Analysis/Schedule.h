//===- Schedule.h - Tile sizes from sizes and limits ------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A work item holds the queries and states of block_q rows while the keys
// stream past it. Two sets must stay in a cache each:
//
//   L1   a row block's scores: read and written several times for one key
//        tile (its queries, its 16-bit weights and the packed keys stream past
//        them);
//   L2   one tile of every key and value operand, and the queries and states
//        of all rows: read once for each row block.
//
// Larger block_q reads keys fewer times from memory; larger block_k spreads
// the cost of a rescale over more keys. The sizes start at what measured best
// (docs/performance/cpu.md) and are halved, block_q first, until both sets fit.
// Rows are a multiple of the micro kernel's: 6 rows of vectors, or 16 rows of
// an AMX tile. This arithmetic is what `--explain` prints.
//
// A GPU keeps one row block in the registers of a warpgroup (64 rows, wgmma) or
// of a warp (16 rows, mma.sync): sums, scores, and weights in 16 bits, beside
// the reserve for addresses. Shared memory holds the queries and two stages of
// keys and values.
//
// This header includes no MLIR.
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_SCHEDULE_H
#define ATTN_ANALYSIS_SCHEDULE_H

#include "attn/Analysis/OnChip.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attn {

/// What a schedule depends on.
struct ScheduleProblem {
  /// Head dimension of each dot pair, channels of each value component.
  std::vector<int64_t> depths, channels;
  /// Channels of values that are rows of keys as well, and loaded once.
  int64_t sharedChannels = 0;
  /// Channels of a work tile, of which `channels` are then, or 0 for all.
  int64_t blockV = 0;
  /// Work tiles that share the channels of a tile of rows.
  int64_t slices = 1;
  /// Warpgroups of a block that share the channels of a work tile, of which
  /// `channels` are those of one.
  int64_t sharers = 1;
  /// The values are columns of the keys, in the slots of these.
  bool valuesInKeys = false;
  /// The sharers compute the weights of half of the keys of a tile each.
  bool sharesWeights = false;
  /// Scalars per row in the state: statistics and unit components.
  int64_t rowScalars = 0;
  /// Scalars per row that a step holds while its weights are made, beyond those
  /// of a softmax: what dividends are over, and its reciprocal.
  int64_t rowDivisors = 0;
  /// f32 values per score that live beside the scores themselves: statistics
  /// and weights that are computed before the row's reference point is known.
  int64_t extraScores = 0;
  /// The dots, and the sums over values, take 16-bit operands.
  bool narrowDots = false, narrowValues = false;
  /// All of them are f32, which the target may round to tf32.
  bool tf32 = false;
  /// Queries take the sign of a run-time scale; of tf32, they stay in
  /// registers.
  bool heldQueries = false;
  /// A key tile enters the state as a whole: no scan along the row, no product
  /// key by key, no test that reads memory.
  bool wholeTiles = true;
  /// Some tiles are tested element by element, or scores are more than a factor
  /// of the dot: elements need registers of their own.
  bool masked = false;
  /// A kernel before lists the live key tiles; sequences lie packed in one
  /// tensor; weights have no reference point, such as a maximum.
  bool listed = false, packed = false, fixedWeights = false;
  /// The rows of keys and values are found one by one, and tensor copies take
  /// none of them.
  bool gathered = false;
  /// The lists have the elements of masked tiles as bits.
  bool listedBits = false;
  /// Scores read an element of a tensor for each pair, and the rows of a tile
  /// end at keys of their own.
  bool biasedDiagonal = false;
  /// Scores have a bias that grows evenly with the distance from row to key,
  /// and nothing is masked.
  bool growsEvenly = false;
  /// Of a score between the dot and the weight: instructions and special
  /// functions, for each pair. Whether they read an element of a tensor for
  /// each.
  int64_t scoreOps = 0, scoreSpecials = 0;
  bool readsPairs = false;
  /// Tensors of which a tile, with an element of 16 bits for each pair, is
  /// copied with the keys of a step.
  int64_t copiedPairs = 0;
  /// Rows see keys up to a position of their own.
  bool diagonal = false;
  /// Rows see keys from a position of their own.
  bool startsByRow = false;
  /// Keys enter the state one by one: GPUs keep their scores in shared memory.
  /// `hasThreshold`: in registers, and those alone that a row lets in.
  bool folded = false, hasThreshold = false;
  /// The bits of a row depend on no other: key tiles are those of any sizes.
  /// `cuts`: keys are reduced in parts of a fixed number of keys, and a block
  /// with several parts holds a second state; else in one part.
  bool invariant = false, cuts = false;
  /// Warps of a block may have keys of their own.
  bool warpKeys = false;
  /// Rows are those of a group of sequences, and its keys have as many parts as
  /// fill the device.
  bool grouped = false;
  /// Sizes known or expected at compile time, or -1. numHeads: the query heads
  /// of all batches; group: those of one key head.
  int64_t numQueries = -1, numKeys = -1, numHeads = -1, group = -1;
  /// Blocks of a cluster that combine the states of parts of the keys.
  int64_t mergedBlocks = 1;
};

struct ScheduleSizes {
  int64_t blockQ = 0, rows = 0, blockK = 0;
};

/// A schedule that was measured: sizes, and what differs from the model's.
struct MeasuredSchedule {
  ScheduleSizes sizes;
  /// 0: as chosen.
  int64_t splits = 0, stages = 0;
  /// own_step or none; empty: next_step.
  std::string overlap;
  /// peeled, masked or plain; empty: as chosen.
  std::string loop;
  /// none, products or softmax; empty: none.
  std::string turns;
  int64_t cluster = 1;
};

/// Bytes that a schedule keeps on chip, against the limits.
struct ScheduleBudget {
  int64_t queryBlock = 0, scores = 0, weights = 0;       // L1
  int64_t queries = 0, keys = 0, values = 0, states = 0; // L2
  int64_t l1Limit = 0, l2Limit = 0;
  /// GPUs: 32-bit registers of a thread and bytes of shared memory in use.
  bool gpu = false;
  int64_t registers = 0, registerLimit = 0;
  int64_t shared = 0, sharedLimit = 0, stages = 0;
  /// What the kernel takes at most, with more slots and staged results where
  /// there is room.
  int64_t sharedTaken = 0;

  int64_t l1Bytes() const { return scores; }
  int64_t l2Bytes() const { return queries + keys + values + states; }
  int64_t scratchBytes() const {
    return queryBlock + scores + weights + l2Bytes();
  }
  bool fits() const {
    return gpu ? registers <= registerLimit && shared <= sharedLimit
               : l1Bytes() <= l1Limit && l2Bytes() <= l2Limit;
  }
  /// Two lines of arithmetic, one for each cache, or registers and shared
  /// memory.
  std::string explain() const;
};

/// Scratch that one work item may take at most, whatever the caches: a larger
/// schedule is refused.
constexpr int64_t maxScratchBytes = int64_t(256) << 20;

/// On-chip extents. CPUs: score dots run in steps of 32, values in 16 channels,
/// and keys in tiles of 32. GPUs: panels of 128 bytes of 16-bit elements, or
/// three of 64 bytes for warpgroups, and keys in steps of a matrix instruction.
int64_t paddedDepth(int64_t depth, const TargetInfo &target);
int64_t paddedChannels(int64_t channels, const TargetInfo &target);
int64_t paddedKeys(int64_t blockK, const TargetInfo &target);

/// Shared memory that a GPU's kernel wants, but for results.
onchip::SharedDemand computeDemand(const ScheduleProblem &problem,
                                   const ScheduleSizes &sizes,
                                   const TargetInfo &target);

/// `stages`: as a schedule says, or 0.
ScheduleBudget computeBudget(const ScheduleProblem &problem,
                             const ScheduleSizes &sizes,
                             const TargetInfo &target, int64_t stages = 0);

/// Whether the matrix unit of warpgroups can take the dots and the values, but
/// for the number of channels.
bool takesWarpgroups(const ScheduleProblem &problem, const TargetInfo &target);

/// onchip::weighsInPlace of the steps of a problem.
bool weighsInPlace(const ScheduleProblem &problem);

/// The sizes that fit, or the smallest there are.
ScheduleSizes chooseSizes(const ScheduleProblem &problem,
                          const TargetInfo &target);

/// What the warpgroups of a block do one at a time, by a table of what was
/// measured, and the rate that gave, of the rate without turns.
struct TurnsChoice {
  const char *turns = "none";
  double gain = 1;
};
TurnsChoice chooseTurns(const ScheduleProblem &problem,
                        const ScheduleSizes &sizes, const TargetInfo &target);

/// Blocks of a cluster that share copies of keys and values (`cluster` of a
/// schedule): 2 where that was measured to be faster, else 1.
int64_t chooseCluster(const ScheduleProblem &problem,
                      const ScheduleSizes &sizes, const TargetInfo &target);

/// Whether the query heads of a key head are rows of one tile, and why.
struct PackChoice {
  bool packs = false;
  std::string reason;
};
PackChoice choosePackHeads(const ScheduleProblem &problem,
                           const TargetInfo &target);

/// The problem with key heads for heads, which have the rows of all their query
/// heads.
ScheduleProblem packHeads(ScheduleProblem problem);

/// What a GPU's plan counts parts by as it runs (`automaticSplits` of a
/// schedule): the blocks with row blocks of `rows` that read memory as fast as
/// it goes, and the least keys of a part.
int64_t blocksAtOnce(int64_t rows, const TargetInfo &target);
int64_t leastPartKeys(const TargetInfo &target);

/// Where heads share keys of `columns`, with their values: the most parts of
/// any keys, and the least keys of a part of more. What combines states takes
/// longer then than they save.
struct ShortParts {
  int64_t most, keysOfMore;
};
std::optional<ShortParts> boundShortParts(int64_t columns);

/// Whether row blocks of `rows` are columns of a warp's products, and the warps
/// of a block have keys of their own of each tile, which has so many at most.
bool warpsHaveKeys(int64_t rows, const TargetInfo &target);
inline constexpr int64_t mostKeysOfWarps = 128;

/// The most heads that advance together, where a schedule does not say.
/// `isUneven`: some rows have more keys than others; `isBand`: the keys of each
/// row start and end with it, and lists say which tiles are live.
int64_t mostHeadsAbreast(bool isUneven, bool isBand, const TargetInfo &target);

/// Where more than `someHeads` may advance together that have different numbers
/// of keys, as many do as leave these in a part of the cache that has room for
/// `sectionKeys`; some, if it has room for theirs.
inline constexpr int64_t someHeads = 4;
inline int64_t keysOfUneven(int64_t sectionKeys) { return sectionKeys / 3 * 2; }

/// The most work tiles with lists of keys that go from the last rows to the
/// first; of more a kernel says which take longer.
int64_t mostTilesWithoutOrder(const TargetInfo &target);

/// The most keys of which no kernel says so, but of gradients.
int64_t mostKeysWithoutOrder();

/// Keys of a part where the bits of a row depend on no other: the same number
/// for all sizes, in whole tiles.
int64_t fixedPartKeys(int64_t blockK);

/// Whether a block has room for a second state, as it needs where it reduces
/// several such parts, with the key tiles of any sizes.
bool holdsTwoStates(const ScheduleProblem &problem, const TargetInfo &target);

/// In how many parts the keys are reduced, and why; 0: as many as the plan
/// counts.
struct SplitChoice {
  int64_t splits = 1;
  std::string reason;
  /// Blocks of a cluster that have the parts, and combine their states; 1: a
  /// kernel behind does.
  int64_t cluster = 1;
};

/// Parts where the blocks of rows alone would leave cores idle. The number of a
/// CPU's cores is no input: results would depend on it.
SplitChoice chooseSplits(const ScheduleProblem &problem,
                         const ScheduleSizes &sizes, const TargetInfo &target);

} // namespace attn

#endif // ATTN_ANALYSIS_SCHEDULE_H
