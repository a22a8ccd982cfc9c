//===- TileKernel.h - What a reduction's kernel is built from ---*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to attn-tile. The kernel of an `attn.aggregate`, `attn.partial` or
// `attn.scores` is built by functions over one context (ReductionContext), a
// file for each concern:
//
//   TileKernel       the kernel from its start to its end
//   TileBlock        where the block is, and its queries
//   TileStream       which key tiles it visits
//   TileLists        ... where a kernel before has listed them
//   TileDistances    ... and listed apart those that read one element
//   TileSteps        how a key tile enters the state: sums and cocycles
//   TileGatedSteps   ... of suffix, prefix and affine monoids
//   TileGeneralSteps ... of general monoids
//   TileWeights.h    what these steps have in common
//   TileElements     masks, scores and weights of one pair of a row and a key
//   TileForm         how exponentials are computed
//   TileAnchor       their reference point
//   TileFarRows      rows whose scores are too large for that
//   TileRotary       rotary embedding
//   TileGroup        rows that reduce several heads
//   TileParts        parts of the keys, one after the other
//   TileWarps        parts of a tile of keys, one for each warp
//   TileFused        sums over rows that are added up in memory
//   TileRepair       rows that a NaN has spoiled, computed again
//   TileScores       scores that are written, or added up along diagonals
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

/// Blocks of a cluster; 1 on targets without clusters.
inline int64_t clusterOf(ScheduleAttr schedule,
                         const ::attn::TargetInfo &target) {
  return target.hasRoles() ? schedule.getCluster() : 1;
}
/// Into how many parts the blocks of a cluster divide the keys of their rows; 1
/// if they have different rows.
inline int64_t partsOfCluster(ScheduleAttr schedule,
                              const ::attn::TargetInfo &target) {
  return schedule.partsFormCluster() ? clusterOf(schedule, target) : 1;
}
/// How many neighbouring tiles of rows the blocks of a cluster have; 1 if they
/// have parts of the keys.
inline int64_t tilesOfCluster(ScheduleAttr schedule,
                              const ::attn::TargetInfo &target) {
  return schedule.partsFormCluster() ? 1 : clusterOf(schedule, target);
}

/// Whether a block reduces rows of several heads: the query heads of its key
/// head.
bool hasGroup(ReductionOpInterface op);
/// The schedule of the kernel that computes spoiled rows again (TileRepair). On
/// a GPU its blocks have at most `marksOfBlock` rows.
ScheduleAttr scheduleOfRepair(ReductionOpInterface op,
                              const ::attn::TargetInfo &target);
constexpr int64_t marksOfBlock = 64;

//===----------------------------------------------------------------------===//
// What the functions pass on
//===----------------------------------------------------------------------===//

/// Lists of the key tiles of each query tile (TileLists.cpp), in memory that is
/// indexed by [batch, head, query tile, ...].
struct KeyLists {
  /// `header` numbers, then the numbers of key tiles: those of whole tiles from
  /// the front, those of masked ones from the end. A ragged tile is the first
  /// of the masked ones.
  Value tiles;
  /// By the number of a key tile. `words`: of a masked one, which of its keys
  /// are live in some row. `classes`: its Class; without elements if one kernel
  /// both classifies and lists (listsAtOnce). `bits`: the mask's elements of a
  /// masked one, for each row of the query tile, or null.
  Value words, classes, bits;
  /// The header: how many key tiles are masked, how many are whole, and, in the
  /// n-th list, which query tile has the n-th most to do. That is there if the
  /// schedule takes the longest first, and work tiles are many and long: others
  /// come from the last rows on.
  static constexpr int64_t masks = 0, wholes = 1, nthLongest = 2, header = 3;
  /// Blocks that share the classification of a query tile's key tiles, without
  /// bits.
  static constexpr int64_t parts = 8;
  enum Class { dead, masked, whole };
};

/// A sum over rows that a kernel over queries adds up in memory: the weights of
/// component `weight` times the rows of operand `operand`.
struct RowSum {
  unsigned weight, operand;
  /// The sum, in f32. On a CPU it is rounded to `result` in the end, unless
  /// that is null; on a GPU separate kernels clear and round it
  /// (RowSumsKernel).
  Value sums, result;
  /// A counter for each tile of rows if blocks add one after the other.
  Value turns = {};
};

/// One tile of keys.
struct KeyTile {
  Value first; // index of its first key
  bool masked;
  Value live = {};  // 1xC, i1: keys that some row sees; null: all of the hull
  Value whole = {}; // i1: every pair is live, although `masked`; may be null
  /// Its number, if its elements are bits of the lists; else null.
  Value number = {};
  /// Some of the tile's keys may not exist: if `isRagged` (i1) is true, or
  /// null.
  bool ragged = true;
  Value isRagged = {};
  /// Scores grow evenly from key to key in this tile, by `ramp`, which the
  /// product adds.
  bool linear = false;
  Value ramp = {};
  /// What the context's terms of far pairs are in it.
  SmallVector<Value> far = {};
};

/// A block of rows against one key tile.
struct RowBlock {
  explicit RowBlock(const KeyTile &tile) : tile(tile) {}
  KeyTile tile;
  Value firstRow; // within the sequence, index
  SmallVector<Value> queries, keys, values, state;
  SmallVector<Value> held; // those of the context
  /// Tiles that are loaded before the scores, each with the value of the region
  /// that it stands for: what the mask reads of rows or of keys alone, and what
  /// the scores of pairs read that are far apart. `sampled`, within a map, are
  /// their elements.
  SmallVector<std::pair<Value, Value>> samples;
  SmallVector<Value> sampled;
  /// The same for the bits of listed tiles: each tile has a word of each row.
  SmallVector<Value> words, wordsRead;
  // Built ahead of the maps that use them, all i32: row and key of element
  // (0, 0), the last of each in range, and keys of the tile below the end.
  Value rowBase, keyBase, lastRow, lastKey, keyCount;
};

/// A weight of `lift`, the number of the factor that it meets, and, if `shift`
/// moves it, its component. Components that agree in all of these share a tile
/// of weights.
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
  /// Online softmax: `rescale` is exp(from - to), or exp2, of one statistic,
  /// the largest score, and weights are constants. Kernels evaluate exp2 of a
  /// product with a constant k.
  bool exponential = false;
  float base = 1.0f; // log2(e), or 1 for exp2
  /// The weight is exp2(fma(stat, k, -anchor * k)): one fma for each element,
  /// and one rounding of the anchor's product for the row. Rows far from 0 are
  /// treated apart (see `isFar`). If not fused it is exp2((stat - anchor) * k).
  bool fused = false;
  /// Weights, and all that is made of them, are rounded to 16 bits.
  bool shortWeights = false;
  /// The element's statistic is its dot: no map comes before the reduction.
  bool dotIsStat = false;
  /// A row is far from 0 if its anchor is larger than `farAnchor`; k of such a
  /// row; and the anchor of rows without keys (see `findFarAnchors`).
  Value farAnchor, farK, leastAnchor;
  /// The anchor stays until the row's greatest statistic is well ahead of it:
  /// weights may be larger than 1, and sums are scaled seldom (`anchorsLate`).
  bool anchorsLate = false;
  /// Rows far from 0 are computed again behind the key tiles.
  bool redoesFar = false;
  /// Rows that are NaN are computed again, too; so values of dead keys in
  /// listed tiles need not be cleared.
  bool redoesSpoiled = false;
  /// The mask acts on weights and not on statistics, so that the anchor of a
  /// row may be the score of a dead key. Rows whose sums become too small by
  /// that are computed again.
  bool masksLate = false;
  /// Sums are relative to the row's greatest score itself, and not to the
  /// statistic, which is rounded from it (see `sumsAreAtMaximum`).
  bool atMaximum = false;
  /// Weights that need the score are computed together with the factor, from
  /// the statistic.
  bool weighsLate = false;
  /// A weight is a dividend divided by a function of the row's statistic
  /// (weighsByQuotient); and the statistic follows from the dividends
  /// (dividendIsStatistic).
  bool byQuotient = false, dividendIsStat = false;
  /// Sums of weights times distances from the statistic are held as sums of
  /// powers of 2 times their exponents (TileAnchor.h).
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
  /// Arguments of the kernel for the queries of packed heads (`packsHeads`):
  /// views with key heads in place of heads, whose rows are those of all query
  /// heads of a key head. Outputs are such views as well.
  SmallVector<Value> packedQueries;
  /// Queries and keys that a kernel before has turned (TurnRows.h), or null.
  /// Turned keys are dense, whatever their source was, unless it was packed.
  Value turnedQueries, turnedKeys;
  /// One mark for each row. The kernel sets `marksOut` where a NaN has come in;
  /// with `marksIn` it runs only for tiles with marked rows.
  Value marksOut, marksIn;
  /// From which distance on terms are the same, of each batch and head, behind
  /// and ahead (`FarTerms::isMeasured`); or null.
  Value farDistances;
  /// Heads of a section, where the plan has found it; or null.
  Value section;
  /// Scores are known to be so small that every row may have the anchor 0: no
  /// maximum is computed.
  bool fixedAnchor = false;
  /// Elements of pairs that findCopiedPairs names come by tensor copies.
  bool copiesPairs = false;
  /// Sums over rows that a block adds up in memory, those of the aggregate
  /// `sumsOverKeys`. On a CPU a block then has all rows of its head.
  SmallVector<RowSum> rowSums;
  AggregateOp sumsOverKeys;
  /// Only elements of scores say which pairs are dead (`diesByElement`). The
  /// block's rows are made finite, and the mask is not evaluated.
  bool diesByElement = false;
  /// If so: values that the scores read, each with a column of what the block's
  /// rows have of it. The first `numOwnHeld` are read by all pairs of a row,
  /// the others by pairs that are far apart (TileDistances.cpp).
  SmallVector<std::pair<Value, Value>> held;
  size_t numOwnHeld = 0;

  //===--- Where the block is ---------------------------------------------===//
  /// How many parts the keys have, and the number of the block's part; null if
  /// keys are not divided.
  Value parts, split;
  /// Keys of a part, if the block has all parts and reduces each by itself;
  /// else 0.
  int64_t partKeys = 0;
  Value queryTile, keyHead, numKeys;
  /// The end of the part's keys.
  Value keyEnd;
  /// The source of keys and values, in arguments of the kernel.
  Source keySource;
  /// There is one more batch than there are sequences, which has no keys.
  bool keysRest = false;
  SmallVector<Value> queryTiles;
  /// The tensors to which attn.scores, which has no state, writes.
  SmallVector<Value> scoreOutputs;

  //===--- What is known of masks and scores ------------------------------===//
  /// The analysis of the mask region, and the bounds of the keys that may be
  /// live.
  std::optional<::attn::MaskAnalysis> mask;
  ::attn::MaskAnalysis::UniformFn maskUniform;
  Value maskValid, hullLower, hullUpper;
  /// How many of the listed key tiles have dead elements, or null.
  Value numMasked;
  /// Whether an element is masked follows from its row's interval of keys, and
  /// the region is not evaluated.
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
/// The state that rows start with: tiles, or with `ofRows` columns of the
/// values that all channels of a row have in common.
SmallVector<Value> initialState(ReductionContext &ctx, bool ofRows = false);

/// The values of the branch that `condition` chooses (an scf.if).
SmallVector<Value> choose(ReductionContext &ctx, Value condition,
                          TypeRange types,
                          function_ref<SmallVector<Value>()> then,
                          function_ref<SmallVector<Value>()> otherwise);
/// The next state; `otherwise` may be null, which leaves it as it is.
SmallVector<Value> stepIf(ReductionContext &ctx, Value condition,
                          ValueRange state,
                          function_ref<SmallVector<Value>()> then,
                          function_ref<SmallVector<Value>()> otherwise);

/// Builds the body of the kernel. `outputs` are its arguments for the results
/// (null for a result without uses), `numTiles` is the number of query tiles.
LogicalResult buildReduction(ReductionContext &ctx, ValueRange outputs,
                             Value numTiles, Value block);

//===----------------------------------------------------------------------===//
// Questions about reductions
//===----------------------------------------------------------------------===//

/// Whether the keys of a general monoid are folded one by one: if it has
/// values, or if its `combine` is too long to be repeated for each key of a
/// tile.
bool foldsKeys(ReductionOpInterface op, MonoidOp monoid);

/// Why work tiles cannot have `channels` channels of the values each (block_v
/// of the schedule); empty if they can. Marks of rows that a NaN has spoiled,
/// and lists of key tiles, are about whole rows.
std::string whyNotSliced(ReductionOpInterface op, MonoidOp monoid,
                         int64_t channels, const ::attn::TargetInfo &target);
/// Why the warps of a block cannot have keys of their own (rows = 8 in the
/// schedule); empty if they can.
std::string whyNotOfWarps(ReductionOpInterface op, MonoidOp monoid,
                          const ::attn::TargetInfo &target);
/// How many work tiles share the channels of a tile of rows.
int64_t countSlices(ReductionOpInterface op);

/// The operand of keys whose first columns are the operand `value`, if the
/// function's argument says so (`attn.columns_of`); else `value`.
Value keysWithColumns(ReductionOpInterface op, Value value);

/// Views of a plan's queries and outputs in which a key head has the rows of
/// all its query heads; an output may be null.
struct PackedHeads {
  SmallVector<Value> queries, outputs;
  /// Rows of a key head; and whether heads are packed in this run (i1).
  Value rows, fits;
};
/// The number of query heads, of rows of each, and of key heads.
struct HeadCounts {
  Value heads, rows, keyHeads;
};
/// Makes these views. Outputs have `leading` dimensions before those of the
/// queries; tiles have `blockQ` rows.
PackedHeads packHeads(OpBuilder &b, Location loc, HeadCounts counts,
                      ValueRange queries, ValueRange outputs, int64_t leading,
                      int64_t blockQ);

/// Whether the lists of key tiles differ from batch to batch, or head to head.
inline bool listsDifferByBatch(ReductionOpInterface op) {
  return !op.getMaskBody().getArgument(0).use_empty() ||
         op.getKeySource().lengths;
}
inline bool listsDifferByHead(ReductionOpInterface op) {
  return !op.getMaskBody().getArgument(1).use_empty();
}

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEKERNEL_H
