//===- TileKernel.h - Building kernels on tiles -----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to attn-tile. A kernel's block owns the rows of one query tile of
// one (batch, head) and, in a partial, one split of the keys:
//
//   KernelBuilder      argument mapping, tile op helpers, region copies
//   ReductionKernel    aggregate and partial: a stream of key tiles
//   StatesKernel       combine and finalize: the walk over parts
//
// How one key tile enters the state is TileSteps.cpp, one function per kind of
// monoid; the reference point of exponentials is TileAnchor.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEKERNEL_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEKERNEL_H

#include "KeyRanges.h"
#include "NamedRewrites.h"
#include "Pages.h"
#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Analysis/Schedule.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

#include <map>
#include <tuple>

namespace mlir::attn {

/// Loads an element of a tensor of `type`. Tensors of i1 have a byte for each
/// element in memory, and memrefs of i8.
Value loadElement(OpBuilder &b, Location loc, Value memref, ValueRange indices,
                  Type type);

/// Whether the mask reads a tensor with an element for each pair of a row and a
/// key: then bits are few beside it, and lists have the elements of masked
/// tiles as such.
bool readsPairs(ReductionOpInterface op);
/// The same of scores, as of a bias.
bool scoresReadPairs(ReductionOpInterface op);
bool listsBits(ReductionOpInterface op, const ::attn::TargetInfo &target);

/// Blocks of a cluster, where the target's kernels have them.
inline int64_t clusterOf(ScheduleAttr schedule,
                         const ::attn::TargetInfo &target) {
  return target.hasRoles() ? schedule.getCluster() : 1;
}

/// Whether the reduced rows are those of several heads, the query heads of a
/// block's key head.
bool hasGroup(ReductionOpInterface op);
/// The schedule of the kernel that does again what such keys have spoiled; it
/// has `marksOfBlock` rows or fewer in a block on a GPU.
ScheduleAttr scheduleOfRepair(ReductionOpInterface op,
                              const ::attn::TargetInfo &target);
constexpr int64_t marksOfBlock = 64;

/// Common to all kernels: arguments, helpers that build tile ops, and copies
/// of the monoid's and the op's regions.
class KernelBuilder {
public:
  KernelBuilder(Operation *op, MonoidOp monoid,
                const ::attn::TargetInfo &target, tile::KernelOp kernel)
      : b(op->getContext()), loc(op->getLoc()), op(op), monoid(monoid),
        target(target), kernel(kernel) {}

  /// Tells which kernel argument stands for a value of the plan.
  void bind(Value outer, Value argument) { arguments[outer] = argument; }
  Value arg(Value outer) const { return arguments.lookup(outer); }

protected:
  //===--- Scalars --------------------------------------------------------===//
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, loc, value);
  }
  Value i32(int64_t value) {
    return arith::ConstantIntOp::create(b, loc, b.getI32Type(), value);
  }
  Value f32(float value) {
    return arith::ConstantFloatOp::create(b, loc, b.getF32Type(),
                                          APFloat(value));
  }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, loc, x, y); }
  Value min(Value x, Value y) { return arith::MinSIOp::create(b, loc, x, y); }
  Value max(Value x, Value y) { return arith::MaxSIOp::create(b, loc, x, y); }
  Value select(Value c, Value x, Value y) {
    return arith::SelectOp::create(b, loc, c, x, y);
  }
  Value cmp(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  }
  Value toI32(Value value) {
    return arith::IndexCastOp::create(b, loc, b.getI32Type(), value);
  }
  Value toIndex(Value value) {
    return arith::IndexCastOp::create(b, loc, b.getIndexType(), value);
  }
  Value dim(Value memref, int64_t d);
  /// Quotient and remainder. No size of a grid needs 64 bits, which a GPU
  /// divides slowly.
  std::pair<Value, Value> divide(Value x, Value y);
  /// Element of a vector of i32, as index.
  Value element(Value memref, Value position);

  //===--- Tiles ----------------------------------------------------------===//
  tile::TileType tileType(int64_t rows, int64_t cols, Type element) {
    return tile::TileType::get(b.getContext(), rows, cols, element);
  }
  tile::TileType tileType(int64_t rows, int64_t cols) {
    return tileType(rows, cols, b.getF32Type());
  }
  Value fill(Value scalar, tile::TileType type) {
    return tile::FillOp::create(b, loc, type, scalar);
  }
  /// Body of a map: row and column in the tile (i32), one scalar per input.
  using MapBody = function_ref<SmallVector<Value>(Value, Value, ValueRange)>;
  SmallVector<Value> map(ValueRange inputs, ArrayRef<Type> results,
                         MapBody body);
  using ReduceBody = function_ref<SmallVector<Value>(ValueRange, ValueRange)>;
  SmallVector<Value> reduce(ValueRange inputs, ValueRange identities,
                            bool ordered, ReduceBody body,
                            bool overRows = false);
  SmallVector<Value> scan(ValueRange inputs, ValueRange identities,
                          bool reverse, ReduceBody body);
  /// Sum over the columns.
  Value rowSum(Value tile);

  //===--- Monoid ---------------------------------------------------------===//
  unsigned numStats() { return monoid.getNumStats(); }
  unsigned numComponents() { return monoid.getNumComponents(); }
  /// Run-time parameters of the monoid in the kernel.
  SmallVector<Value> params();
  /// Inlines a monoid region with its parameters appended.
  SmallVector<Value> call(Region &region, ValueRange inputs);
  SmallVector<Value> identityStats();
  SmallVector<Value> combine(ValueRange left, ValueRange right);
  /// True when a state's statistics are the identity's.
  Value isIdentity(ValueRange stats);
  /// Components have one factor or several: the number of that of `component`
  /// among the distinct ones, and how many these are.
  unsigned factorOf(unsigned component);
  unsigned numFactors();
  /// The distinct factors from one statistic to another; `rescale`: 0 from the
  /// identity.
  SmallVector<Value> factorsTo(ValueRange from, ValueRange to);
  SmallVector<Value> rescale(ValueRange from, ValueRange to);
  /// Distinct factors of the left and right components in a product of states
  /// with statistics `left` and `right`, `both` combined; none for 1.
  std::pair<SmallVector<Value>, SmallVector<Value>>
  factors(ValueRange left, ValueRange right, ValueRange both);
  /// Whether element `i` of a state has channels.
  static bool isPerChannel(MonoidOp monoid, unsigned i) {
    return i >= monoid.getNumStats() &&
           monoid.getComponent(i - monoid.getNumStats()) == Component::value;
  }
  /// The product of states that this program has `computed`; of others, what is
  /// in memory may hold anything where a state is empty. `isExact`: one without
  /// keys on the right leaves the left one as it was, bit by bit.
  SmallVector<Value> multiply(ValueRange left, ValueRange right, bool computed,
                              bool isExact);
  SmallVector<Value> multiplyWhole(ValueRange left, ValueRange right,
                                   ArrayRef<unsigned> scalars,
                                   ArrayRef<unsigned> vectors);
  /// The identity's state, of tiles of these types.
  SmallVector<Value> identityState(TypeRange types);

  OpBuilder b;
  Location loc;
  Operation *op;
  MonoidOp monoid;
  const ::attn::TargetInfo &target;
  tile::KernelOp kernel;
  llvm::DenseMap<Value, Value> arguments;

  //===--- The block's position -------------------------------------------===//
  /// The batch, head and query tile that a block works on. Regions see batch
  /// and head as i32.
  Value batch, head, batchI32, headI32;
  /// First row of the query tile; rows of the sequence; live rows of the tile.
  Value row0, sq, liveRows;
  /// Where heads are packed (`pack_heads`), rows of tiles are those of all
  /// query heads of a key head, head by head, and `head` is the key head, as it
  /// is in the tensors of queries and results that the kernel is given.
  bool packsHeads = false;
  /// Then, all i32: the position and the head of the tile's first row, the last
  /// head of the group, sq, and 2^packedShift / sq, rounded up. With it rows of
  /// a tile are divided by sq, exactly: a row of a tile and a position are less
  /// than 2^11 together, and that times the error less than 2^packedShift.
  struct {
    Value position, head, lastHead, rows, reciprocal;
  } firstPacked;
  static constexpr int64_t packedShift = 21;
  /// Where the rows of queries and results are: the index operands are
  /// arguments of the kernel. States are dense, and those of packed rows have
  /// no batch.
  Source rowSource;
  bool rowsHaveBatch = true;
  /// The rows behind the last sequence are one more, where they are packed.
  bool rowsRest() const { return !rowSource.hasBatch(); }
  /// Sequences have sizes of their own: no position is in range of a capture
  /// for being one of its sequence.
  bool hasOwnSizes = false;
  /// Tensors as sources, made where `openSource` is first called.
  std::map<std::tuple<void *, void *, void *, bool, bool, bool>, Value> sources;
  /// Of a block that has a slice of the channels: the first one, or null, and
  /// how many. Blocks leave what has no channels to that of the first ones.
  Value firstChannel;
  int64_t sliceChannels = 0;
  /// Where uniform values are built: before this op.
  Operation *uniformPoint = nullptr;
  /// The head of a pair is none of the block's: outside of the walk over the
  /// heads of a group, what it decides is not the same for all pairs.
  bool headVaries = false;

  /// `source` with arguments of the kernel for its operands.
  Source bound(const Source &source) const {
    return {source.kind, source.map ? arg(source.map) : Value(),
            source.lengths ? arg(source.lengths) : Value()};
  }
  /// What loads and stores take for a tensor: itself where it is dense, which
  /// is a source of its own.
  Value openSource(Value memref, const Source &source, bool rest, bool vector,
                   bool aligned = false, int64_t boxes = 0);
  /// Indices of row `row`, the block's first channel, of the sequence in a
  /// tensor of the op; `leading` holds what comes before the batch.
  SmallVector<Value> at(Value headIndex, Value row, bool channel,
                        ValueRange leading = {});
  /// The same from channel 0 on, whatever slice of the values a block has.
  SmallVector<Value> fromFirst(Value headIndex, Value row);
  /// Whether a tensor of rows has channels behind them.
  bool hasChannels(Value memref, int64_t numLeading) const;
  /// Stores a row block of a result tensor, [.., rows(, channels)].
  void storeRows(Value tile, Value memref, ValueRange leading = {});
  /// Applies the op's finalize region (or the monoid's, when it has none) and
  /// stores each output; statistic 0 of a row becomes `toStat` of both.
  void storeFinalized(Region &own, ValueRange state, ValueRange captures,
                      ValueRange outputs,
                      function_ref<Value(Value, Value)> toStat = {});

  //===--- Regions of the op ----------------------------------------------===//
  /// Where a region is evaluated: the row and key of the element, both i32;
  /// `safeRow` and `safeKey` are theirs in range, to index captures with. And
  /// the head, in range, where heads are packed.
  struct Point {
    Value row, key, safeRow, safeKey, head;
  };
  /// Of the rows from `firstRow` on, row `row` is at
  /// `rowPoint(rowBase(firstRow), row, lastRow())`. All i32 but `firstRow`.
  Value rowBase(Value firstRow);
  Value lastRow() { return toI32(sub(sq, index(1))); }
  Point rowPoint(Value base, Value row, Value lastRow);
  /// Prepares copying `region`, whose position arguments (b, h, i, j) start
  /// at `firstPosition`; captures follow. `hasKey`: j is among them.
  class PointCloner {
  public:
    PointCloner(KernelBuilder &kernel, Region &region, unsigned firstPosition,
                bool hasKey, ValueRange captures, Point point);
    void map(Value from, Value to) { cloner.map(from, to); }
    Value get(Value value) { return cloner.get(value); }

  private:
    Value build(Operation *op, RegionCloner &inner);
    KernelBuilder &kernel;
    Region &region;
    unsigned firstPosition;
    bool hasKey;
    ValueRange captures;
    Point point;
    std::function<Value(Operation *, RegionCloner &)> hook;
    RegionCloner cloner;
  };
  /// Values of `region` that differ between elements.
  const llvm::DenseSet<Value> &varying(Region &region, unsigned firstPosition,
                                       bool hasKey);
  /// A uniform value of `region`, built once before `uniformPoint`.
  Value uniform(Region &region, Value value, unsigned firstPosition,
                ValueRange captures);
  llvm::DenseMap<Region *, llvm::DenseSet<Value>> varyingValues;
  llvm::DenseMap<Value, Value> uniformValues;
};

/// Builds the kernel of an `attn.aggregate` or `attn.partial`.
class ReductionKernel : public KernelBuilder {
public:
  ReductionKernel(ReductionOpInterface op, MonoidOp monoid,
                  const ::attn::TargetInfo &target, tile::KernelOp kernel);

  /// Packs the heads of a key head. `queries` are arguments of the kernel for
  /// the queries, and outputs are likewise, with the key heads for the heads
  /// and as rows those of all their query heads.
  void packHeads(ValueRange queries) {
    packsHeads = true;
    packedQueries.assign(queries.begin(), queries.end());
  }

  /// Takes queries and keys from where a kernel turned them (TurnRows.h): keys
  /// of any source but packed ones are dense there. Null where they stay.
  void useTurned(Value queries, Value keys) {
    turnedQueries = queries;
    turnedKeys = keys;
  }

  /// Fills the kernel in. `outputs` are its arguments for the results (null
  /// for a result without uses), `numTiles` the number of query tiles.
  LogicalResult build(ValueRange outputs, Value numTiles, Value block);

  /// Key tiles of each query tile, [batch, head, query tile, ...]
  /// (TileLists.cpp): how many are masked and how many whole, and their
  /// numbers, those of whole tiles in front and of masked ones from the end;
  /// and of each masked one the words of its keys that are live in some row. A
  /// ragged tile is the first of the masked ones. Where the mask reads a tensor
  /// of pairs, `classes` has for each key tile what it is, `bits` all elements
  /// of the masked ones, of each row of the query tile words of its keys, and
  /// these and `words` are found by the tile's number; else the two are null.
  struct KeyLists {
    Value tiles, words, classes, bits;
    static constexpr int64_t header = 2;
    /// Blocks that say what the tiles of a query tile are, without bits.
    static constexpr int64_t parts = 8;
    enum Class { dead, masked, whole };
  };
  /// Takes the key tiles from lists.
  void useLists(const KeyLists &from) { lists = from; }
  /// To be called before `build`: of each row the kernel marks whether a NaN
  /// has come in; or it runs for the tiles with marked rows alone.
  void writeMarks(Value into) { marksOut = into; }
  void readMarks(Value from) { marksIn = from; }

  /// To be called before `build`: scores are known to be of a size for which
  /// every row may have the anchor 0, and no maximum is looked for.
  void fixAnchor() { fixedAnchor = true; }

  /// Sums over rows that a kernel over queries adds up in memory: weights of a
  /// component times the rows of a row operand. On a CPU they go from `sums`,
  /// f32, to `result` in the end, unless that is null; on a GPU kernels of
  /// their own clear and round them (RowSumsKernel).
  struct RowSum {
    unsigned weight, operand;
    Value sums, result;
  };
  /// To be called before `build`: a block adds up these, which are of
  /// `overKeys`. On a CPU it has all rows of its head then.
  void addRowSums(AggregateOp overKeys, ArrayRef<RowSum> added) {
    sumsOverKeys = overKeys;
    rowSums.assign(added.begin(), added.end());
  }

protected:
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
  void locateBlock(Value numTiles, Value block);
  /// How many rows and keys the sequence of the block has.
  void findExtents();
  Value openKeys(Value tensor) {
    return openSource(arg(tensor), keySource, keysRest, /*vector=*/false,
                      tilesFitPages(reduction),
                      target.isCpu() ? 0 : boxesOf(reduction));
  }
  /// Where the products take keys from.
  Value openMultiplied(Value tensor) {
    if (!turnedKeys)
      return openKeys(tensor);
    if (!keySource.hasBatch() && !keySource.is(SourceKind::paged))
      return openSource(turnedKeys, keySource, keysRest, /*vector=*/false);
    return turnedKeys;
  }
  /// The rows of a tile of packed heads, of `group` heads.
  void locatePacked(Value group);
  /// The first and the last position of the rows of the tile.
  std::pair<Value, Value> tilePositions();
  void readMask();
  Value sectionOf(Value group);
  void loadQueries();
  /// An element of the queries, f32, as products take it.
  Value scaledQuery(Value element);

  //===--- Channels that turn (TileRotary.cpp) ----------------------------===//
  /// Whether this kernel turns them.
  bool turnsRows() { return reduction.getRotaryAttribute() && !isGpu(); }
  using LoadPart = function_ref<Value(Value tensor, int64_t width, ValueRange)>;
  /// The parts of rows whose products are added up: both channels of each
  /// pair, turned, and the channels behind the pairs.
  SmallVector<Value> turnQueries();
  SmallVector<Value> turnKeys(const KeyTile &tile, LoadPart load);
  /// A tile of keys, turned where a GPU has copied it.
  Value turnInPlace(const KeyTile &tile, Value keys);
  SmallVector<Value> turnParts(Region &region, int64_t depth,
                               function_ref<Value(int64_t, int64_t)> load,
                               function_ref<Point(Value)> pointOf,
                               bool isQuery);
  /// What rows start with: tiles of the state, or a column of what all channels
  /// of a row have in common.
  SmallVector<Value> initialState(bool ofRows = false);
  SmallVector<Type> stateTypes(bool ofRows = false);
  /// Walks the queries of each head of the group (TileGroup.cpp).
  SmallVector<Value> walkGroup(SmallVector<Value> state);
  /// Walks the parts of the keys, where these have a fixed number of keys, and
  /// multiplies their states (TileParts.cpp).
  SmallVector<Value> walkParts();
  /// What the keys of the block depend on, but for its part; of its mask, which
  /// it reads.
  KeyRangeProblem describeRanges();
  /// The state after all key tiles (KeyRanges.h).
  SmallVector<Value> streamKeys(ValueRange state);
  SmallVector<Value> streamLists(ValueRange state);
  StreamBodies streamBodies();
  /// The tile at `first` under a condition; the state unchanged without it.
  SmallVector<Value> choose(Value condition, TypeRange types,
                            llvm::function_ref<SmallVector<Value>()> then,
                            llvm::function_ref<SmallVector<Value>()> otherwise);
  SmallVector<Value> stepIf(Value condition, ValueRange state,
                            function_ref<SmallVector<Value>()> then,
                            function_ref<SmallVector<Value>()> otherwise);
  /// The next work tile is fetched late, unless the schedule says otherwise.
  void fetchLate();
  /// What a value of the mask that has cells is at a row and a key (index): an
  /// i32.
  Value cellAt(Value value, Value row, Value key);
  /// Whether tiles are full as the cells of the mask say, and are found by a
  /// test of each: none of them is in a core.
  bool testsCells() const;
  ::attn::MaskAnalysis::Class classOf(Value first);
  ::attn::MaskAnalysis::Class classOf(Value firstRow, Value lastRow,
                                      Value first);
  /// Which keys of a tile are live in some row: a 1xC tile of i1.
  Value liveKeys(const KeyTile &tile);
  SmallVector<Value> step(const KeyTile &tile, ValueRange state);

  /// Loads a tile of rows, and stores what its state becomes.
  void buildRows(ValueRange outputs);

  //===--- Sums over rows in memory (TileFused.cpp)
  //------------------------===//
  void walkRowTiles(Value numTiles, function_ref<void()> body);
  void forEachSumTile(function_ref<void(Value head, Value first)> body);
  void clearRowSums();
  void convertRowSums();
  /// Makes the tiles that weights are multiplied by, and adds what holds
  /// weights to a state.
  void startRowSums(SmallVectorImpl<Value> &state);
  /// Adds the weights of a key tile, which are last in `state`.
  void enterRowSums(const KeyTile &tile, ValueRange state);
  /// A state after a tile of which no pair is live.
  SmallVector<Value> withoutWeights(ValueRange state);
  /// Tiles for weights, of none.
  void appendNoWeights(SmallVectorImpl<Value> &state);
  /// The rows that some row of the reduced ones sees: what is behind them must
  /// not reach a sum.
  std::pair<Value, Value> seenRows();
  /// Whether threads have all rows of a head, one after the other: sums in
  /// memory have an order.
  bool sumsHaveOrder() const { return target.isCpu(); }
  AggregateOp sumsOverKeys;
  SmallVector<RowSum> rowSums;
  /// The components with weights in `rowSums`.
  llvm::SmallSetVector<unsigned, 2> rowSumWeights;
  SmallVector<Value> rowSumTiles;

  //===--- Listed key tiles (TileLists.cpp) -------------------------------===//
  SmallVector<Value> listIndices();
  /// Where the number of the n-th tile of either kind is.
  Value listPlace(Value tiles, Value number, bool whole);
  Value loadListed(Value number, Value isWhole);
  SmallVector<Value> stepListed(Value first, Value number, Value isRagged,
                                ValueRange state);
  KeyLists lists;
  /// Where keys and values are, with arguments of the kernel; and whether
  /// there is one batch more than sequences, without keys.
  Source keySource;
  bool keysRest = false;
  Value queryTile;
  Value initialStat(Value row);
  Value isLargest(Value stat);
  Value inScoreUnits(Value stat, Value row);
  Value gapOfAnchor(Value score, Value stat);
  SmallVector<Value> scaleComponents(ValueRange state, Value factor);
  SmallVector<Value> fromReferencePoint(ValueRange state);
  SmallVector<Value> toReferencePoint(ValueRange state);
  void storeMarks(ValueRange state);
  Value hasMark();
  Value marksOut, marksIn;
  void storeState(ValueRange state, ValueRange outputs);
  void storeOutputs(ValueRange state, ValueRange outputs);

  //===--- One row block against one key tile (TileSteps.cpp) -------------===//
  struct RowBlock {
    explicit RowBlock(const KeyTile &tile) : tile(tile) {}
    KeyTile tile;
    Value firstRow; // within the sequence, index
    SmallVector<Value> queries, keys, values, state;
    /// What the mask reads of rows or keys alone, as tiles that are loaded
    /// before the scores; and within a map their elements.
    SmallVector<std::pair<Value, Value>> samples; // of the region, tile
    SmallVector<Value> sampled;
    /// The same of the bits of listed tiles, a word of each row a tile.
    SmallVector<Value> words, wordsRead;
    // Built ahead of the maps that use them, all i32: row and key of element
    // (0, 0), the last of each in range, and keys of the tile below the end.
    Value rowBase, keyBase, lastRow, lastKey, keyCount;
  };
  void prepare(RowBlock &block);
  void loadSamples(RowBlock &block);
  void loadBits(RowBlock &block);
  /// What a map takes besides `first`, and what it was given for that.
  SmallVector<Value> withLoaded(const RowBlock &block, ValueRange first);
  ValueRange takeLoaded(RowBlock &block, ValueRange given, size_t first);
  Value liveByBits(RowBlock &block, Value col);
  bool samplesFit();
  SmallVector<Value> stepRows(RowBlock &block);
  SmallVector<Value> stepSum(RowBlock &block, ArrayRef<Value> dots);
  /// Lets go of dots that the score region does not read, as where it reads
  /// scores from memory, and of the tiles that only these were made of.
  void dropDeadDots();
  /// Stores the scores of a tile, for attn.scores.
  void storeScores(RowBlock &block, ArrayRef<Value> dots);
  Value exponential(Value stat, Value offset, Value k, bool isWeight);
  Value finiteScore(Value stat);
  bool isF16() const { return narrowValues && narrowValues.isF16(); }
  Value scaleToBase() {
    return form.scaleLog2 ? form.scaleLog2 : f32(form.base);
  }
  void findFarAnchors();
  Value isFar(Value anchor, bool orAt = false);
  bool rowsHaveK(const KeyTile &tile) const;

  //===--- Rows far from 0, done again (TileFarRows.cpp) ------------------===//
  bool mayRedoFarRows();
  SmallVector<Value> redoFarRows(SmallVector<Value> state);
  SmallVector<Value> walkFarRows(SmallVector<Value> state, Value far);
  SmallVector<Value> enterKey(Value key, Value far, ValueRange state);
  Value dotOfElements(Value row, Value key);
  /// A weight of `lift`, and which factor it meets: components that have both
  /// in common share a tile.
  using WeightGroup = std::pair<Value, unsigned>;
  /// What a row's state and the elements of a tile are rescaled by: with the
  /// new statistics, the factors of the old sums and, for an exponential, which
  /// has one, the offset of the exponents; and, where those are fused, whether
  /// the row is far, or its own k.
  struct RowFactors {
    SmallVector<Value> stats, factors;
    Value offset, far, k;
  };
  RowFactors rescaleRows(RowBlock &block, ArrayRef<Value> tileStats);
  void emitAnchor(RowBlock &block, Value row, Value old, Value stat,
                  SmallVectorImpl<Value> &results);
  void emitNearAnchor(Value old, Value stat, Value rest,
                      SmallVectorImpl<Value> &results);
  void anchorFarRows(RowBlock &block, RowFactors &row, Value &stat);
  SmallVector<Value> stepFixed(RowBlock &block, ArrayRef<Value> lifted,
                               ArrayRef<WeightGroup> groups);
  SmallVector<Value> stepCocycle(RowBlock &block, ArrayRef<Value> dots);
  Value gate(ValueRange stats);
  SmallVector<Value> stepGated(RowBlock &block, ArrayRef<Value> dots);
  SmallVector<Value> stepScalars(RowBlock &block, ArrayRef<Value> dots);
  SmallVector<Value> stepGeneral(RowBlock &block, ArrayRef<Value> dots);
  /// The dots of the one pair, of the parts that turn.
  Value dotParts(RowBlock &block);

  /// Keys of a tile on chip: block_k, in whole steps of 32.
  int64_t keyCols() const;
  /// Columns on chip of a query or key, and of a value.
  int64_t paddedDepth(Value tensor) const;
  int64_t paddedChannels(Value tensor) const;
  Type scoreTile() { return tileType(schedule.getRows(), keyCols()); }
  Type rowTile() { return tileType(schedule.getRows(), 1); }

  // Within a map.
  Point pointOf(RowBlock &block, Value row, Value col);
  /// The scores that lift takes, from the dots.
  SmallVector<Value> scores(RowBlock &block, Value row, Value col,
                            ValueRange dots);
  /// Whether the element is live (null: always), by mask and by score.
  Value liveByMask(RowBlock &block, Value row, Value col);
  Value liveByScore(ValueRange scores, Value liveByMask);
  /// What the weight of an element in value components is multiplied by.
  Value valueFactor(RowBlock &block, Value row, Value col);
  SmallVector<Value> combineStats(ValueRange x, ValueRange y);

  // Between maps.
  WeightGroup groupOf(unsigned component);
  SmallVector<WeightGroup> weightGroups();
  /// For each group: the weights in f32; those of values, in the type of the
  /// dot with these and times their factor; and the sums of the former over
  /// rows; null where nothing needs them.
  struct Weights {
    SmallVector<Value> wide, narrow, sums;
  };
  Weights mapWeights(RowBlock &block, ValueRange inputs,
                     ArrayRef<WeightGroup> groups, MapBody body);
  SmallVector<Value> mapLift(RowBlock &block, ArrayRef<Value> dots,
                             ArrayRef<WeightGroup> groups,
                             ArrayRef<bool> weightsToo);
  void markApproximate(ValueRange mapped);
  SmallVector<Value> reduceStats(ArrayRef<Value> stats);
  SmallVector<Value> accumulate(RowBlock &block, ArrayRef<WeightGroup> groups,
                                const Weights &weights,
                                ArrayRef<Value> factors);

  ReductionOpInterface reduction;
  ScheduleAttr schedule;
  bool isPartial = false;
  /// Where the scores go that attn.scores writes, which has no state.
  SmallVector<Value> scoreOutputs;
  /// The number of parts and that of the block's, where there are several.
  Value parts, split;
  /// Keys of a part, where the block has all parts and reduces each by itself;
  /// or 0.
  int64_t partKeys = 0;
  Value keyHead, numKeys;
  /// Where the keys of the part end.
  Value keyEnd;
  /// The mask region, read; and keys outside of which nothing is live.
  std::optional<::attn::MaskAnalysis> mask;
  ::attn::MaskAnalysis::UniformFn maskUniform;
  Value maskValid, hullLower, hullUpper;
  /// Masked elements are told by the interval of their row, not by the region.
  bool rowIntervals = false;
  SmallVector<Value> queryTiles, packedQueries;
  Value turnedQueries, turnedKeys;

  //===--- Named rewrites (NamedRewrites.h) -------------------------------===//
  struct : ScoreUnit {
    /// rescale is exp(from - to) (or exp2) on one statistic, the largest score,
    /// and weights are constants: an exp2 of products with a constant k.
    bool exponential = false;
    float base = 1.0f; // log2(e), or 1 for exp2
    /// The anchor's product with k is rounded once for the row: one fma per
    /// element, exp2(fma(stat, k, -anchor * k)), but in rows that are far from
    /// 0 (see `isFar`). Else exp2((stat - anchor) * k).
    bool fused = false;
    /// Weights are rounded to 16 bits and so is all that is made of them.
    bool shortWeights = false;
    /// The element's statistic is its dot: no map comes before the reduction.
    bool dotIsStat = false;
    /// Anchors of a larger size are far from 0, the k of their rows, and the
    /// anchor of rows without keys (see `findFarAnchors`).
    Value farAnchor, farK, leastAnchor;
    /// Rows that are far are done again behind the key tiles.
    bool redoesFar = false;
    /// Weights that need the score are computed with the factor, from the
    /// statistic.
    bool weighsLate = false;
    /// Scores of -inf need no test.
    bool deadIsNatural = false;
    /// `combine` on statistics does not commute.
    bool ordered = false;
    /// For each component, whether its weight is the same for every score.
    SmallVector<bool> uniformWeight;
  } form;
  /// Scores that grow evenly from key to key.
  LinearBias linear;

  void readForm();
  Value withSign(Value x);
  DenseMap<Value, Value> signedFactors;
  bool fixedAnchor = false;

  /// 16-bit element types of the dots' and the values' products; null: f32.
  Type narrowDots, narrowValues;
  /// Whether products round f32 to tf32: all operands are f32.
  bool tf32 = false;
  /// A GPU's warps each run one row block: none of them is skipped alone.
  bool isGpu() const { return !target.isCpu(); }
  /// Whether key tiles are pipelined: the first one is peeled.
  bool pipelined() const;
};

/// Whether keys of a general monoid are folded one by one: where it has values,
/// and where its `combine` is too long to be there once for each key of a tile.
bool foldsKeys(ReductionOpInterface op, MonoidOp monoid);

/// Whether the key tiles of a reduction are best listed by a kernel of its own:
/// a GPU's warpgroups visit whole tiles alone, and of this mask the bounds of
/// the keys do not say which those are.
bool listsKeyTiles(ReductionOpInterface op, MonoidOp monoid,
                   const ::attn::TargetInfo &target);
/// What keeps the heads of a reduction from being packed, or nothing
/// (PackHeads.cpp).
std::string whyNotPacked(ReductionOpInterface op);

/// Why work tiles cannot have `channels` of the values each, as block_v of the
/// schedule says; empty where they can. What makes a value's NaN visible to a
/// kernel behind, and lists of key tiles, are of whole rows.
std::string whyNotSliced(ReductionOpInterface op, MonoidOp monoid,
                         int64_t channels, const ::attn::TargetInfo &target);
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
/// Views of the memrefs, whose outputs have `leading` dimensions before those
/// of the queries, for tiles of `blockQ` rows.
PackedHeads packHeads(OpBuilder &b, Location loc, ValueRange queries, Value key,
                      ValueRange outputs, int64_t leading, int64_t blockQ);

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
