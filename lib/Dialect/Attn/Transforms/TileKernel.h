//===- TileKernel.h - What a reduction's kernel is built from ---*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to attn-tile. The kernel of an `attn.aggregate`, a partial or scores
// is built by functions over one context, a file for each concern:
//
//   TileBlock     where the block is, and its queries
//   TileStream    which key tiles it visits
//   TileLists     ... where a kernel before has listed them
//   TileDistances ... and listed apart those that read one element of a table
//   TileSteps     how one of them enters the state, by kinds of monoids
//   TileElements  masks, scores and weights of one pair of a row and a key
//   TileAnchor    the reference point of exponentials
//   TileForm      how these are computed
//   TileFarRows   rows whose scores are beyond what that takes
//   TileRotary    channels that turn
//   TileGroup     rows that reduce several heads
//   TileParts     parts of the keys, one after the other
//   TileWarps     parts of a tile of keys, of a warp each
//   TileFused     sums over rows that are added up in memory
//   TileRepair    rows that a NaN has spoiled
//   TileScores    scores that are written, or added up along diagonals
//   TileKernel    the kernel from its start to its end
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEKERNEL_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEKERNEL_H

#include "KernelBuilder.h"
#include "KeyRanges.h"
#include "NamedRewrites.h"
#include "StateUses.h"
#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Analysis/Schedule.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn {

/// Blocks of a cluster, where the target's kernels have them.
inline int64_t clusterOf(ScheduleAttr schedule,
                         const ::attn::TargetInfo &target) {
  return target.hasRoles() ? schedule.getCluster() : 1;
}
/// The parts of the keys of a tile that the blocks of a cluster have, or 1.
inline int64_t partsOfCluster(ScheduleAttr schedule,
                              const ::attn::TargetInfo &target) {
  return schedule.partsFormCluster() ? clusterOf(schedule, target) : 1;
}
/// Neighbouring tiles that they have instead.
inline int64_t tilesOfCluster(ScheduleAttr schedule,
                              const ::attn::TargetInfo &target) {
  return schedule.partsFormCluster() ? 1 : clusterOf(schedule, target);
}

/// Whether the reduced rows are those of several heads, the query heads of a
/// block's key head.
bool hasGroup(ReductionOpInterface op);
/// The schedule of the kernel that does again what such keys have spoiled; it
/// has `marksOfBlock` rows or fewer in a block on a GPU.
ScheduleAttr scheduleOfRepair(ReductionOpInterface op,
                              const ::attn::TargetInfo &target);
constexpr int64_t marksOfBlock = 64;

//===----------------------------------------------------------------------===//
// What the functions pass on
//===----------------------------------------------------------------------===//

/// Key tiles of each query tile, [batch, head, query tile, ...]
/// (TileLists.cpp): how many are masked and how many whole, and their numbers,
/// those of whole tiles in front and of masked ones from the end; and of each
/// masked one the words of its keys that are live in some row. A ragged tile is
/// the first of the masked ones. `classes` says for each key tile what it is,
/// and has no element where one kernel classifies and lists (listsAtOnce);
/// `bits` has the mask's elements of masked tiles, words of its keys for each
/// row of the query tile, or it is null. Words, classes and bits are found by
/// the tile's number. Beside the counts of the n-th query tile is the number of
/// the one that has the n-th most to do, where the schedule takes the longest
/// first; of few work tiles, of the n-th from the end.
struct KeyLists {
  Value tiles, words, classes, bits;
  static constexpr int64_t masks = 0, wholes = 1, nthLongest = 2, header = 3;
  /// Blocks that say what the tiles of a query tile are, without bits.
  static constexpr int64_t parts = 8;
  enum Class { dead, masked, whole };
};

/// Sums over rows that a kernel over queries adds up in memory: weights of a
/// component times the rows of a row operand. On a CPU they go from `sums`,
/// f32, to `result` in the end, unless that is null; on a GPU kernels of their
/// own clear and round them (RowSumsKernel).
struct RowSum {
  unsigned weight, operand;
  Value sums, result;
  /// Counters for each tile of rows, where blocks add one after the other.
  Value turns = {};
};

/// One tile of keys.
struct KeyTile {
  Value first; // index of its first key
  bool masked;
  Value live = {};  // 1xC, i1: keys that some row has; null: all of the hull
  Value whole = {}; // i1: every pair is live, although `masked`; may be null
  /// Its number, where its elements are bits of the lists; else null.
  Value number = {};
  /// Some of the tile's keys may not exist, where `isRagged` (i1) says so; if
  /// that is null, in any case.
  bool ragged = true;
  Value isRagged = {};
  /// Scores are linear in the tile; what the product adds from key to key.
  bool linear = false;
  Value ramp = {};
};

/// A block of rows against one key tile.
struct RowBlock {
  explicit RowBlock(const KeyTile &tile) : tile(tile) {}
  KeyTile tile;
  Value firstRow; // within the sequence, index
  SmallVector<Value> queries, keys, values, state;
  SmallVector<Value> held; // of the context
  /// What the mask reads of rows or keys alone, and the scores of pairs that
  /// are far apart, as tiles that are loaded before the scores; and within a
  /// map their elements.
  SmallVector<std::pair<Value, Value>> samples; // of the region, tile
  SmallVector<Value> sampled;
  /// The same of the bits of listed tiles, a word of each row a tile.
  SmallVector<Value> words, wordsRead;
  // Built ahead of the maps that use them, all i32: row and key of element
  // (0, 0), the last of each in range, and keys of the tile below the end.
  Value rowBase, keyBase, lastRow, lastKey, keyCount;
};

/// A weight of `lift`, which factor it meets, and, where `shift` moves it, the
/// component: components that have all in common share a tile.
struct WeightGroup {
  Value weight;
  unsigned factor;
  std::optional<unsigned> shifted;
  bool operator==(const WeightGroup &o) const {
    return weight == o.weight && factor == o.factor && shifted == o.shifted;
  }
};

/// How exponentials are computed: what the monoid, its laws and the named
/// rewrites (NamedRewrites.h) say.
struct ScoreForm : ScoreUnit {
  /// rescale is exp(from - to) (or exp2) on one statistic, the largest score,
  /// and weights are constants: an exp2 of products with a constant k.
  bool exponential = false;
  float base = 1.0f; // log2(e), or 1 for exp2
  /// The anchor's product with k is rounded once for the row: one fma per
  /// element, exp2(fma(stat, k, -anchor * k)), but in rows that are far from 0
  /// (see `isFar`). Else exp2((stat - anchor) * k).
  bool fused = false;
  /// Weights are rounded to 16 bits and so is all that is made of them.
  bool shortWeights = false;
  /// The element's statistic is its dot: no map comes before the reduction.
  bool dotIsStat = false;
  /// Anchors of a larger size are far from 0, the k of their rows, and the
  /// anchor of rows without keys (see `findFarAnchors`).
  Value farAnchor, farK, leastAnchor;
  /// The anchor stays until the row's greatest statistic is well ahead of it:
  /// weights may be larger than 1, and sums are scaled seldom (`anchorsLate`).
  bool anchorsLate = false;
  /// Rows that are far are done again behind the key tiles.
  bool redoesFar = false;
  /// So are rows that are NaN, and listed tiles clear no values of dead keys.
  bool redoesSpoiled = false;
  /// The mask acts on weights, not on statistics: the anchor of a row may be
  /// that of a dead key, and rows whose sums it makes faint are done again.
  bool masksLate = false;
  /// Sums are at the row's greatest score, which the statistic is rounded from
  /// (see `sumsAreAtMaximum`).
  bool atMaximum = false;
  /// Weights that need the score are computed with the factor, from the
  /// statistic.
  bool weighsLate = false;
  /// Weights are dividends over a function of the row's statistic
  /// (weighsByQuotient), and the dividends tell it (dividendIsStatistic).
  bool byQuotient = false, dividendIsStat = false;
  /// Sums of weights times distances from the statistic are held as sums of
  /// powers times their exponents (TileAnchor.h).
  std::optional<ScoreDistances> distances;
  bool isDistance(unsigned component) const {
    return distances && distances->isDistance[component];
  }
  /// Scores of -inf need no test.
  bool deadIsNatural = false;
  /// `combine` on statistics does not commute.
  bool ordered = false;
  /// For each component, whether its weight is the same for every score.
  SmallVector<bool> uniformWeight;
};

//===----------------------------------------------------------------------===//
// The context
//===----------------------------------------------------------------------===//

/// The kernel of a reduction: what is reduced, where its operands are, and
/// where the block is.
struct ReductionContext : KernelBuilder {
  ReductionContext(ReductionOpInterface op, MonoidOp monoid,
                   const ::attn::TargetInfo &target, tile::KernelOp kernel);

  //===--- Given ----------------------------------------------------------===//
  ReductionOpInterface reduction;
  ScheduleAttr schedule;
  bool isPartial = false;
  /// 16-bit element types of the dots' and the values' products; null: f32.
  Type narrowDots, narrowValues;
  /// Whether products round f32 to tf32: all operands are f32.
  bool tf32 = false;

  //===--- Given by the plan, before `buildReduction` ---------------------===//
  /// Where the key tiles are listed, or nulls.
  KeyLists lists;
  /// Queries as arguments of the kernel, of packed heads (`packsHeads`).
  /// Outputs are likewise, with the key heads for the heads and as rows those
  /// of all their query heads.
  SmallVector<Value> packedQueries;
  /// Where a kernel turned queries and keys (TurnRows.h): keys of any source
  /// but packed ones are dense there. Null where they stay.
  Value turnedQueries, turnedKeys;
  /// Of each row the kernel marks whether a NaN has come in; or it runs for the
  /// tiles with marked rows alone.
  Value marksOut, marksIn;
  /// Scores are known to be of a size for which every row may have the anchor
  /// 0, and no maximum is looked for.
  bool fixedAnchor = false;
  /// Sums that a block adds up, which are of `sumsOverKeys`. On a CPU it has
  /// all rows of its head then.
  SmallVector<RowSum> rowSums;
  AggregateOp sumsOverKeys;
  /// Elements of scores alone say which pairs are dead (`diesByElement`): the
  /// block's rows are made finite, and no mask is asked.
  bool diesByElement = false;
  /// Then: what the scores read, and a column of the block's rows with what all
  /// their pairs, or distant ones, read (TileDistances.cpp); of so many their
  /// own.
  SmallVector<std::pair<Value, Value>> held;
  size_t numOwnHeld = 0;

  //===--- Where the block is ---------------------------------------------===//
  /// The number of parts and that of the block's, where there are several.
  Value parts, split;
  /// Keys of a part, where the block has all parts and reduces each by itself;
  /// or 0.
  int64_t partKeys = 0;
  Value queryTile, keyHead, numKeys;
  /// Where the keys of the part end.
  Value keyEnd;
  /// Where keys and values are, with arguments of the kernel; and whether there
  /// is one batch more than sequences, without keys.
  Source keySource;
  bool keysRest = false;
  SmallVector<Value> queryTiles;
  /// Where the scores go that attn.scores writes, which has no state.
  SmallVector<Value> scoreOutputs;

  //===--- What is known of masks and scores ------------------------------===//
  /// The mask region, read; and keys outside of which nothing is live.
  std::optional<::attn::MaskAnalysis> mask;
  ::attn::MaskAnalysis::UniformFn maskUniform;
  Value maskValid, hullLower, hullUpper;
  /// How many of the listed key tiles have dead elements, or null.
  Value numMasked;
  /// Masked elements are told by the interval of their row, not by the region.
  bool rowIntervals = false;
  ScoreForm form;
  /// Scores that grow evenly from key to key.
  LinearBias linear;
  DenseMap<Value, Value> signedFactors;

  //===--- Sums over rows (TileFused.cpp) ---------------------------------===//
  /// The components with weights in `rowSums`.
  llvm::SmallSetVector<unsigned, 2> rowSumWeights;
  SmallVector<Value> rowSumTiles;
};

/// A GPU's warps each run one row block: none of them is skipped alone.
inline bool isGpu(const ReductionContext &ctx) { return !ctx.target.isCpu(); }
inline bool isF16(const ReductionContext &ctx) {
  return ctx.narrowValues && ctx.narrowValues.isF16();
}
/// Keys of a tile on chip: block_k, in whole steps of 32.
int64_t keyCols(const ReductionContext &ctx);
/// Columns on chip of a query or key, and of a value.
int64_t paddedDepth(const ReductionContext &ctx, Value tensor);
int64_t paddedChannels(const ReductionContext &ctx, Value tensor);
inline Type scoreTile(ReductionContext &ctx) {
  return ctx.tileType(ctx.schedule.getRows(), keyCols(ctx));
}
inline Type rowTile(ReductionContext &ctx) {
  return ctx.tileType(ctx.schedule.getRows(), 1);
}

/// The types of the state: statistics, then components.
SmallVector<Type> stateTileTypes(ReductionContext &ctx, bool ofRows = false);
/// What rows start with: tiles of the state, or a column of what all channels
/// of a row have in common.
SmallVector<Value> initialState(ReductionContext &ctx, bool ofRows = false);

/// Values that one branch or the other computes.
SmallVector<Value> choose(ReductionContext &ctx, Value condition,
                          TypeRange types,
                          function_ref<SmallVector<Value>()> then,
                          function_ref<SmallVector<Value>()> otherwise);
/// The next state; `otherwise` may be null, which leaves it as it is.
SmallVector<Value> stepIf(ReductionContext &ctx, Value condition,
                          ValueRange state,
                          function_ref<SmallVector<Value>()> then,
                          function_ref<SmallVector<Value>()> otherwise);

/// Fills the kernel in. `outputs` are its arguments for the results (null for a
/// result without uses), `numTiles` the number of query tiles.
LogicalResult buildReduction(ReductionContext &ctx, ValueRange outputs,
                             Value numTiles, Value block);

//===----------------------------------------------------------------------===//
// Questions about reductions
//===----------------------------------------------------------------------===//

/// Whether keys of a general monoid are folded one by one: where it has values,
/// and where its `combine` is too long to be there once for each key of a tile.
bool foldsKeys(ReductionOpInterface op, MonoidOp monoid);

/// Why work tiles cannot have `channels` of the values each, as block_v of the
/// schedule says; empty where they can. What makes a value's NaN visible to a
/// kernel behind, and lists of key tiles, are of whole rows.
std::string whyNotSliced(ReductionOpInterface op, MonoidOp monoid,
                         int64_t channels, const ::attn::TargetInfo &target);
/// Why the warps of a block cannot have keys of their own, as rows = 8 of the
/// schedule says; empty where they can.
std::string whyNotOfWarps(ReductionOpInterface op, MonoidOp monoid,
                          const ::attn::TargetInfo &target);
/// The work tiles of a tile of rows.
int64_t countSlices(ReductionOpInterface op);

/// The keys that `value`, an operand, is the first columns of, as an argument
/// of a function may say of another one (`attn.columns_of`); else `value`.
Value keysWithColumns(ReductionOpInterface op, Value value);

/// Queries and outputs of a plan with all heads of a key head as rows of one;
/// an output may be null.
struct PackedHeads {
  SmallVector<Value> queries, outputs;
  /// Rows of a key head; and whether heads are to be packed in this run, i1.
  Value rows, fits;
};
/// How many heads there are, rows of each, and heads of keys that they share.
struct HeadCounts {
  Value heads, rows, keyHeads;
};
/// Views of the memrefs, whose outputs have `leading` dimensions before those
/// of the queries, for tiles of `blockQ` rows.
PackedHeads packHeads(OpBuilder &b, Location loc, HeadCounts counts,
                      ValueRange queries, ValueRange outputs, int64_t leading,
                      int64_t blockQ);

/// What the lists of a reduction differ by.
inline bool listsDifferByBatch(ReductionOpInterface op) {
  return !op.getMaskBody().getArgument(0).use_empty() ||
         op.getKeySource().lengths;
}
inline bool listsDifferByHead(ReductionOpInterface op) {
  return !op.getMaskBody().getArgument(1).use_empty();
}

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEKERNEL_H
