//===- SpecializeWarps.h - The programs of producer and consumers -*- C++ -*-=//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pass tile-gpu-specialize-warps in three parts. RolesAnalysis
// (AnalyseRoles.cpp) looks at a tile kernel and fills in a RolesPlan.
// Specializer (SpecializeWarps.cpp) makes rings, barriers, the schedule and the
// roles. A RoleBuilder for each role (RolePrograms.cpp) walks over the tile
// kernel and clones what its role has to do: Producer copies, Consumer
// computes, Adder adds to memory.
//
// Words: a *member* is a warpgroup (or warp) of the compute role. A *step* is
// the work on one tile of keys. A *slot* is one stage of a ring, and a *use* of
// a ring is one filling of a slot, numbered from 0. An *item* is a work tile.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_SPECIALIZEROLES_H
#define ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_SPECIALIZEROLES_H

#include "attn/Analysis/FewRows.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

#include <map>
#include <tuple>

namespace mlir::tile_gpu {

/// A ring for one load of queries, or for the loads of keys or of values that
/// stand at the same place of every step.
struct RolesRing {
  tile::LoadOp load;
  /// The tensor that it reads. `source` says where its rows are if they come in
  /// boxes, one of each page; else it is null.
  Value memory;
  tile::SourceOp source;
  /// What a slot holds: of queries, the rows of one member.
  SmemType tile;
  /// A product takes the tile as it is stored, so that rows which are dead for
  /// all queries must be zero.
  bool isValue = false;
  /// What scores add, an element for each pair: each member reads its rows.
  bool isOfPairs = false;
  /// Queries: the map that is applied to them in shared memory, or null; and
  /// the member's rows there.
  tile::MapOp inPlace;
  Value part;
  Value ring, map;
  /// Queries: every member reads all of them, as products of exchanged weights
  /// do, and a slot holds all of them.
  bool isWhole = false;
  Value slot;
  /// Values that are columns of the keys of their step have no slots of their
  /// own: this is the place of those keys. -1: they have.
  int64_t within = -1;
  /// The first column of the load that slots hold; other rings hold the columns
  /// before it.
  int64_t firstColumn = 0;

  int64_t numBoxes() {
    return source ? tile.getRows() / int64_t(*source.getBoxes()) : 1;
  }
  /// What one copy moves.
  SmemType getBox() {
    if (!source)
      return tile;
    int64_t rows = *source.getBoxes();
    return SmemType::get(tile.getContext(), rows, tile.getCols(),
                         tile.getElementType(), tile.getSwizzle(), /*boxes=*/1,
                         /*pitch=*/rows, /*transposed=*/false);
  }
};

/// Vectors that maps of every step read, with a number for each column of their
/// tiles, such as the statistics of queries where queries are columns. They are
/// tiles of one row and share the slots of one ring. A warp copies them element
/// by element, so that they may begin anywhere in memory.
struct RolesColumns {
  /// In the order of a step: the tensor that each is read from, and its part of
  /// a slot.
  SmallVector<Value> memories;
  SmallVector<SmemType> tiles;
  /// The number of each load in its step.
  DenseMap<Operation *, unsigned> number;
  Value ring;

  SmallVector<Type> types() const { return llvm::to_vector_of<Type>(tiles); }
  bool has(Operation *load) const { return number.contains(load); }
  bool isFirst(Operation *load) const { return number.lookup(load) == 0; }
  bool isLast(Operation *load) const {
    return number.lookup(load) + 1 == memories.size();
  }
};

/// Weights that members exchange. A product that takes the weights of a step
/// transposed needs those of all rows, of which each member has some: members
/// put them together in a tile of shared memory.
struct RolesExchange {
  /// The tile: weights of all rows, transposed. Null if there is no such
  /// product.
  SmemType tile;
  /// Each member computes some rows of the product, or else some columns.
  bool byRows = false;
  /// Two slots are enough. A member that writes a slot has waited for the slot
  /// before, at which all members had arrived: so all have done their reads of
  /// the slot before that, which is this one.
  static constexpr int64_t slots = 2;
  Value ring;
};

/// Sums in memory to which blocks add one after the other. Members put their
/// parts of a product into a slot. A warp of its own waits for the block's
/// turn, adds the slot to memory and passes the turn on, while members go on
/// with the next steps.
struct RolesSums {
  /// What a slot holds: accumulators of all rows and columns, in the order in
  /// which memory has them. Null if no sum takes turns.
  SmemType tile;
  Value ring;
  /// One where there is no room for two.
  int64_t slots = 2;
};

struct RolesPlan;

/// The steps of a kernel whose members have loops of their own keys
/// (OwnSteps.cpp); null elsewhere.
struct OwnSteps {
  /// Finds them, and moves what decides on them ahead of `top`.
  static OwnSteps find(tile::KernelOp kernel, const RolesPlan &plan);
  explicit operator bool() const { return top; }

  /// At the top of the kernel: the conditional that holds all steps, or the
  /// loop over the heads of its rows, which then has that alone.
  Operation *top = nullptr;
  scf::IfOp branch;
  /// The step ahead of the loops, where it starts, and the last loop.
  tile::RowsOp first;
  Value start;
  scf::ForOp last;
};

/// What the pass has found out about a kernel.
struct RolesPlan {
  int64_t rows = 0, blockQ = 0;
  SmallVector<RolesRing> queries, steps;
  RolesColumns columns;
  RolesExchange exchange;
  RolesSums sums;
  /// The place of each key or value load within its step: a number of `steps`.
  DenseMap<Operation *, unsigned> place;
  /// The last operation that reads the queries, at the top or in `branch`.
  Operation *lastUse = nullptr;
  /// The conditional at the top that holds all steps; null if there is none.
  /// Its other region has nothing to do with the queries.
  scf::IfOp branch;
  /// There are at most two loops with steps, and each has one step in every
  /// iteration: the number of a step follows from the loop's counter.
  bool stepsAreCounted = false;
  /// The first load of keys of an item, if it comes once in each item, behind
  /// the loads of queries. With two dots, the last such load of the first step.
  Operation *firstKeys = nullptr;

  /// Whether a member's first and last step may be on half of a tile.
  bool halves = false;
  OwnSteps own;
  /// A warp of its own draws the items, each while the others work on the one
  /// before.
  bool drawsApart = false;
  /// It draws towards the end of that item.
  bool drawsLate = false;
  /// No other block reads the same keys.
  bool readsOnce = false;
  /// One warp copies the values, another one the rest.
  bool valuesApart = false;

  // Members that share the channels of the sums (`block_v`), because the
  // registers of one warpgroup do not hold them all. All have the same rows.

  /// How many members share them, and the channels of each.
  int64_t sharers = 1, channels = 0;
  /// A barrier of all their warps: they have their queries in one place.
  Value shareBarrier;
  /// Each of two members computes the weights of half of the keys of a tile.
  /// They put together the weights (`weightsTile`) and each reduction of a step
  /// over the keys (`reducedTiles`), in order.
  bool sharesWeights = false;
  /// Slots that a step takes of each of its rings. With 2, the members
  /// alternate: each computes the weights of one slot.
  int64_t keyParts = 1;
  /// With 2 slots a step, the parts of the state that one member hands on to
  /// the other: their numbers, the constants that they begin with, and the
  /// results that they are behind the last step.
  SmallVector<unsigned> statistics;
  SmallVector<TypedAttr> initialStatistics;
  SmallVector<Value> lastStatistics;
  /// A barrier of the first member's warps alone.
  Value firstBarrier;
  SmemType weightsTile;
  SmallVector<SmemType> reducedTiles;
  /// Sums that each member has of its own keys alone until the last step, and
  /// the reductions that make them.
  SmallVector<std::pair<Value, Operation *>> ownSums;
  DenseSet<Operation *> ownReduces;
  Value weightsScratch;
  SmallVector<Value> reducedScratch;
  /// Rows are the columns of one warpgroup's products, and keys their rows. Its
  /// warps put weights and statistics together.
  bool turned = false;

  // Warps that have the same rows, each with keys of its own of every tile.

  /// How many warps these are; 0: the role has warpgroups, with rows of their
  /// own.
  int64_t keyWarps = 0;
  /// What their states are combined through.
  SmemType mergeTile;
  Value mergeScratch;

  // Blocks of a cluster that have parts of the keys of the same rows.

  /// How many blocks combine their states. Each warp (or a block's warpgroup)
  /// combines `mergedChannels` channels and has these afterwards; the states of
  /// so many channels are `mergedFloats` numbers in a slot of `mergeRing`.
  int64_t mergedBlocks = 1, mergedFloats = 0, mergedChannels = 16;
  Value mergeRing;
  int64_t mergedSixteens() const {
    return channels * keyWarps / mergedChannels;
  }
  /// Warps of a block that combine.
  int64_t combiningWarps() const {
    return turned ? warpsOfMember()
                  : llvm::divideCeil(mergedSixteens(), mergedBlocks);
  }
  SmemType getMergedTile(MLIRContext *context) const;
  /// Keys of a tile that each of `keyWarps` has.
  static constexpr int64_t keysOfWarp = 16;

  /// Whether a warpgroup has 32 rows, eight of each warp, and not 64.
  bool isHalf() const {
    return rows == ::attn::halfRows && blockQ == ::attn::halfRows;
  }
  int64_t members() const {
    return keyWarps ? keyWarps : blockQ / rows * sharers;
  }
  int64_t warpsOfMember() const { return keyWarps ? 1 : 4; }
  /// Keys of a step.
  int64_t keysOfStep() const { return steps.front().tile.getRows() * keyParts; }
  /// Groups of members that have different rows.
  int64_t rowMembers() const { return blockQ / rows; }
  /// Whether a tile has all channels of sums whose channels members share.
  bool isShared(Type type) const {
    auto tile = dyn_cast<tile::TileType>(type);
    return sharers > 1 && tile && tile.getCols() == channels * sharers;
  }
};

/// Builds one role's program from the kernel's body.
class RoleBuilder {
public:
  RoleBuilder(RolesPlan &plan, OpBuilder &b, IRMapping mapping)
      : plan(plan), b(b), mapping(std::move(mapping)) {}
  virtual ~RoleBuilder() = default;

  /// Numbers of the item and of the step at hand, which number the uses of the
  /// rings of queries, and of keys and values.
  Value items, steps;

  void cloneBlock(Block &block);

protected:
  virtual void cloneLoad(tile::LoadOp load) = 0;
  virtual void cloneRows(tile::RowsOp) = 0;
  virtual void cloneTileOp(Operation *op) = 0;
  virtual void finishStep() {}
  /// Called before each operation, and after it.
  virtual void start(Operation *) {}
  virtual void finish(Operation *) {}
  /// Called in the region of an item without steps.
  virtual void skipSteps() {}
  /// At the start of each region of a conditional.
  virtual void startRegion(Region &) {}
  /// Ahead of the conditional that holds all steps.
  virtual void startSteps() {}
  /// Whether this role has anything to do in a loop or a branch.
  virtual bool takesPartIn(Operation &op) { return true; }
  /// Where a loop ends for this role. `finishLoop` adds what has to follow if
  /// that is earlier than for the block.
  virtual Value upperBound(scf::ForOp op) {
    return mapping.lookup(op.getUpperBound());
  }
  virtual void finishLoop(scf::ForOp op, scf::ForOp loop) {}
  /// Null for values that this role does not carry.
  virtual Type convert(Type type) = 0;

  virtual void cloneFor(scf::ForOp op);
  scf::ForOp cloneLoop(scf::ForOp op, Value lower, Value upper,
                       ValueRange initial);
  void cloneIf(scf::IfOp op);
  void forget(Operation *op);
  /// The use of a ring that holds part `part` of the keys of a step.
  Value useOf(Value step, Value part) {
    Location loc = step.getLoc();
    Value first = arith::MulIOp::create(b, loc, step, i32(plan.keyParts, loc));
    return arith::AddIOp::create(b, loc, first, part);
  }
  Value useOf(Value step, int64_t part) {
    return plan.keyParts == 1 ? step : useOf(step, i32(part, step.getLoc()));
  }
  Value i32(int64_t value, Location loc) {
    return arith::ConstantIntOp::create(b, loc, value, 32);
  }
  Value toI32(Value value) {
    Value mapped = mapping.lookup(value);
    return b.createOrFold<arith::IndexCastOp>(value.getLoc(), b.getI32Type(),
                                              mapped);
  }
  SmallVector<Value> lookup(ValueRange values) {
    return llvm::map_to_vector(values,
                               [&](Value v) { return mapping.lookup(v); });
  }

  RolesPlan &plan;
  OpBuilder &b;
  IRMapping mapping;
};

/// What a producer copies.
enum class Share { All, Values, AllButValues };

/// The program of a warp that copies tiles into rings.
class Producer : public RoleBuilder {
public:
  Producer(RolesPlan &plan, OpBuilder &b, IRMapping mapping, Share share)
      : RoleBuilder(plan, b, std::move(mapping)), share(share) {}
  /// Has the next item drawn towards the end of this one.
  void drawLate(Region &item);

protected:
  void cloneLoad(tile::LoadOp load) override;
  void cloneRows(tile::RowsOp) override {}
  void cloneTileOp(Operation *) override {}
  Type convert(Type type) override {
    return isa<tile::TileType>(type) ? Type() : type;
  }
  bool takesPartIn(Operation &op) override;

private:
  void copy(RolesRing &ring, tile::LoadOp load, Value counter,
            int64_t firstRow = 0);
  void copyQueries(RolesRing &ring);
  void copyColumns(tile::LoadOp load);
  void copyWaiting();
  void skipSteps() override { copyWaiting(); }
  void startRegion(Region &region) override;
  void cloneFor(scf::ForOp op) override;
  void planDraw(Region &region);

  Share share;
  /// The tiles of the slot of columns that is being filled.
  SmallVector<Value> columnTiles;
  /// Queries that are copied behind the first keys.
  SmallVector<RolesRing *> waiting;
  /// The next item is drawn ahead of the last steps of a loop of `split`, or in
  /// a region of `drawn`, which has no such loop.
  llvm::SmallPtrSet<Operation *, 4> split;
  llvm::SmallPtrSet<Region *, 4> drawn;
};

/// The program of the warp of RolesSums: when it is the block's turn, it adds
/// to memory what members have put into a slot.
class Adder : public RoleBuilder {
public:
  Adder(RolesPlan &plan, OpBuilder &b, IRMapping mapping)
      : RoleBuilder(plan, b, std::move(mapping)) {}

protected:
  void cloneLoad(tile::LoadOp) override {}
  void cloneRows(tile::RowsOp) override { exchanged = steps; }
  void cloneTileOp(Operation *op) override;
  Type convert(Type type) override {
    return isa<tile::TileType>(type) ? Type() : type;
  }
  bool takesPartIn(Operation &op) override;

private:
  /// The number of the step whose product is added.
  Value exchanged;
};

/// A step on a part of the keys of its tiles: which values have keys as
/// columns, and so become narrower.
class HalfStep {
public:
  /// The step on the first half of the tiles of `rows`. Nothing if there is no
  /// such step: columns are no keys, or the step holds more than products and
  /// operations element by element.
  static std::optional<HalfStep> get(tile::RowsOp rows, const RolesPlan &plan);
  /// The same on `count` keys.
  static std::optional<HalfStep> get(tile::RowsOp rows, const RolesPlan &plan,
                                     int64_t count);

  int64_t keys() const { return count; }
  /// The first key of the tile that the step takes.
  int64_t firstKey = 0;
  /// The same as an i32, if it is known at run time only; else null.
  Value firstKeyOfRun;
  /// The type of `value`, of which one dimension is the keys, in this step.
  Type convert(Value value) const;
  /// Makes `clone` of `op` an operation of this step.
  void convert(Operation *op, Operation *clone) const;
  bool isWide(Value value) const { return wide.contains(value); }

private:
  bool add(Block &block);
  int64_t count = 0, whole = 0;
  /// Values whose columns are the keys of the tile.
  DenseSet<Value> wide;
};

/// The program of the members that compute. It is one program for all of them;
/// `member` is the number of the one that runs it.
class Consumer : public RoleBuilder {
public:
  Consumer(RolesPlan &plan, OpBuilder &b, IRMapping mapping, Value member)
      : RoleBuilder(plan, b, std::move(mapping)), member(member) {}

protected:
  void cloneLoad(tile::LoadOp load) override;
  void cloneRows(tile::RowsOp rows) override;
  void cloneTileOp(Operation *op) override;
  void finishStep() override;
  void start(Operation *op) override;
  void finish(Operation *op) override;
  void startRegion(Region &region) override;
  void skipSteps() override { releaseQueries(); }
  Value upperBound(scf::ForOp op) override;
  void finishLoop(scf::ForOp op, scf::ForOp loop) override;
  Type convert(Type type) override;

private:
  void adjustRow(Operation *op, MutableOperandRange indices, bool vector);
  void cloneShared(Operation *op);
  void cloneMerge(tile::MergeOp merge);
  void takeChannels(Operation *op, Operation *clone);
  /// Makes a map over a member's channels count columns from the block's first
  /// channel.
  void shiftChannels(tile::MapOp map);
  Value keysOfWarp(Value tile);
  void takeOwnKeys(RolesRing &ring, tile::LoadOp load);
  Value loadHandedOn(Location loc, unsigned number, Value from);
  void storeHandedOn(Value value, unsigned number, Value to);
  Value mapOf(Type type, ValueRange inputs,
              llvm::function_ref<Value(ValueRange)> element);
  Value scaleSeldom(Value sums, Value factor);
  Value isMember(Location loc, int64_t number);
  void startTurns(Location loc);
  void finishTurns();
  void multiplyOwnKeys(const HalfStep &step, tile::DotOp dot);
  Value slotOf(Location loc, RolesRing &ring, Value part);
  void giveBack(Location loc, RolesRing &ring, int64_t part);
  Value weightsIn(Location loc, Value slot);
  Value addPart(tile::DotOp dot, RolesRing &ring, int64_t part, Value weights,
                Value sum, Value factor);
  void meet(Location loc);
  Value startSum(tile::DotOp dot, Value factor);
  Value finishSum(tile::DotOp dot, Value token);
  void multiplyInOrder(const HalfStep &step, tile::DotOp dot, Value started);
  Value takeOver(tile::RowsOp rows, int64_t number);
  Value handOn(tile::RowsOp rows, Value factorBefore, Value factor);
  void cloneMember(tile::RowsOp rows, int64_t number);
  void cloneAlternating(tile::RowsOp rows);
  Operation *cloneOfStep(const HalfStep &step, Operation &op);
  void cloneSharedWeights(tile::RowsOp rows);
  void cloneFewRows(tile::RowsOp rows);
  SmallVector<Value> combineHalves(ValueRange own, Block &from);
  void combineSums();
  void multiplyWeights(const HalfStep &step, tile::DotOp dot);
  Value keysOf(Value tile, Value firstKey, int64_t keys, Value firstChannel,
               int64_t channels);
  void cloneExchanged(tile::DotOp dot);
  void cloneSum(tile::AccumulateOp sum);
  void handOver(tile::AccumulateOp sum);
  Value takeOwnRows(RolesRing &ring, tile::LoadOp load);
  void waitForSlots(Value use);
  void releaseSlots(Value use);
  void shareTileOp(Operation *op, Operation *clone);
  Value memberRow(Location loc, Type type);
  Value memberChannel(Location loc, Type type);
  Value isCombining(Location loc, bool first);
  Value ownRowsOf(Location loc, Value slot);
  Value columnsOf(Location loc, Value slot, int64_t cols, Value first);
  Value queryUse(Location loc);
  void cloneInPlace(RolesRing &ring);
  bool endsWithTensor(Value upper);
  void clearDeadRows(RolesRing &ring, tile::LoadOp load, Value tile);
  void releaseQueries();
  Value forOwnRows(Value value);
  Value tripCount(Location loc, Value lower, Value upper, Value step);
  void startSteps() override;
  void chooseOwnSteps();
  void passOver(Location loc, Value end);
  std::pair<Value, Value> lastStep(Location loc, Value from, Value to,
                                   Value by);
  Value forRowsOf(int64_t number, Value value);
  Value halfOf(const HalfStep &step, tile::LoadOp load, Value tile);
  void cloneHalves(tile::RowsOp rows);
  void addHalfStep(scf::ForOp op, scf::ForOp loop);
  Value asTile(Location loc, Value smem, Type type) {
    return UnrealizedConversionCastOp::create(b, loc, type, smem).getResult(0);
  }

  Value member;
  /// The number of the step whose weights have been exchanged.
  Value exchanged;
  /// The load of keys of the step at hand; and the slot with the member's own
  /// keys, of their last columns.
  tile::LoadOp keysLoad;
  Value ownKeys;
  /// How many reductions of the step at hand have been put together so far.
  unsigned numReduced = 0;
  /// The slots of the step at hand, by place.
  DenseMap<int64_t, Value> waited;
  SmallVector<Value> columnTiles;
  /// Values of the kernel's body, computed for the member's rows alone.
  DenseMap<Value, Value> ownRows;
  /// The states of the warps have been combined: each warp now has some
  /// channels of all rows.
  bool isMerged = false;
  /// The block's number in its cluster, if the states of its blocks have been
  /// combined as well.
  Value mergedPart;
  /// The number of the first step behind those of the block. It may differ from
  /// `steps`, which counts the member's own.
  Value allSteps;
  /// Values of the kernel's body for the whole block, where steps use those for
  /// the member's rows.
  DenseMap<Value, Value> ofAllRows;
  Value forAllRows(Value value) {
    Value whole = ofAllRows.lookup(value);
    return whole ? whole : mapping.lookup(value);
  }
  /// How many steps of a head the block has, and how many of these come ahead
  /// of the member's own.
  Value stepsOfHead, stepsAhead;
  /// Values that forRowsOf has built: for each member, and last for the whole
  /// block.
  SmallVector<DenseMap<Value, Value>> memberRows;
  /// Whether the member's first step takes only the second half of its tile,
  /// and whether its last step, whose tile is at `lastStart`, takes only the
  /// first half. Null where no step takes a half.
  Value startsHalf, endsHalf, lastStart;
  /// The step at hand, if it takes only a half of its tiles.
  std::optional<HalfStep> half;
};

/// The product of a step's weights if members can put the weights together for
/// it: it comes behind a reduction, at which members wait for each other. Null
/// if not all members come to it, or if a test of elements decides on rows,
/// since members have different elements.
tile::DotOp findWeightsProduct(tile::RowsOp rows);

/// What a chain of steps and loops that carry `value` begins with.
Value findInitial(Value value);

/// The number of the part of the state that is a sum which `reduce` adds to:
/// the old one times a factor, plus what `reduce` gives. It begins with 0, and
/// nothing else takes what `reduce` gives.
std::optional<unsigned> sumOfState(tile::RowsOp rows, tile::ReduceOp reduce);

/// The last reduction of a step.
tile::ReduceOp lastReduction(tile::RowsOp rows);

/// The step of a loop that has one in each iteration, or null.
tile::RowsOp onlyStep(scf::ForOp loop);

/// What a map multiplies its elements by, if it does nothing else; or null.
Value findOnlyFactor(Block &body);

} // namespace mlir::tile_gpu

#endif // ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_SPECIALIZEROLES_H
