//===- SpecializeWarps.h - The programs of producer and consumers -*- C++ -*-=//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// tile-gpu-specialize-warps: what is known of a kernel (AnalyseRoles.cpp finds
// it out) and the programs of its roles (RolePrograms.cpp).
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

/// A ring that one load (query tiles) or the loads at one place of every step
/// (keys, values) go through.
struct RolesRing {
  tile::LoadOp load;
  /// The tensor that it reads, and where its rows are if they come in boxes,
  /// each of which has a page; else null.
  Value memory;
  tile::SourceOp source;
  /// What a slot holds: of queries, the rows of one member.
  SmemType tile;
  /// Multiplied as it is stored: rows that are dead for all must be zero.
  bool isValue = false;
  /// Queries: what each element becomes once it is in shared memory, or null;
  /// and the member's rows there.
  tile::MapOp inPlace;
  Value part;
  Value ring, map;
  /// Queries that every member reads, and not only the rows of its own: what
  /// products of exchanged weights take. A slot has all of them.
  bool isWhole = false;
  Value slot;
  /// Values that are columns of the keys of their step: the place of these,
  /// whose slots have both. -1: slots of its own.
  int64_t within = -1;
  /// The first column of the load that slots have, where other rings have the
  /// columns before.
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

/// What maps of every step read of the columns of their tiles, a number for
/// each (the statistics of queries where these are columns): tiles of one row
/// that share the slots of a ring, into which a warp copies them element by
/// element, from wherever they begin in memory.
struct RolesColumns {
  /// In the order of a step: what each reads, and what of a slot it is.
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

/// What products outside of the rows need, which multiply the weights of a step
/// transposed: the members have rows of these, and put them together in a tile.
struct RolesExchange {
  /// The tile: weights of all rows, transposed. Null where there are none.
  SmemType tile;
  /// Members make rows of the product, else columns.
  bool byRows = false;
  /// Slots: a member that writes one has waited for the one before, in which
  /// all have arrived, and so has nothing to read of the one before that.
  static constexpr int64_t slots = 2;
  Value ring;
};

/// Products that blocks add to memory one after the other. Members put their
/// parts into a slot of a ring; a warp of its own waits for the block's turn,
/// adds the slot and passes the turn on, beside the next steps.
struct RolesSums {
  /// What a slot holds, as memory does: accumulators of all rows and columns.
  /// Null where no sum takes turns.
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
  /// The place of each key or value load within its step.
  DenseMap<Operation *, unsigned> place;
  /// The last operation that reads the queries, at the top or in `branch`.
  Operation *lastUse = nullptr;
  /// The conditional at the top that holds all steps; null if there is none.
  /// Its other region has nothing to do with the queries.
  scf::IfOp branch;
  /// Every loop that has steps has one in each iteration; they are two at most.
  bool stepsAreCounted = false;
  /// The first load of keys, where it comes once an item, after the queries';
  /// of two dots, the last one of the first step.
  Operation *firstKeys = nullptr;

  /// Whether a member's first and last step may be on half of a tile.
  bool halves = false;
  OwnSteps own;
  /// Whether a warp of its own draws the items, each while the others work on
  /// the one before.
  bool drawsApart = false;
  /// Whether it does so towards the end of the item before.
  bool drawsLate = false;
  /// Whether no other block reads the same keys.
  bool readsOnce = false;
  /// Whether a warp copies the values, and another the rest.
  bool valuesApart = false;

  /// Warpgroups that share the channels of the sums, each of which computes the
  /// weights of the same rows; and the channels of each. A warpgroup's
  /// registers hold no more.
  int64_t sharers = 1, channels = 0;
  /// Of all warps that share channels, which have their queries in one place.
  Value shareBarrier;
  /// Whether two that share channels each compute the weights of half of the
  /// keys of a tile, and what they put together: the weights, and the rows'
  /// reductions, one after the other in a step.
  bool sharesWeights = false;
  /// Slots that a step takes of each of its rings, one after the other: each
  /// member then computes the weights of one, and hands on what `statistics`
  /// says, the numbers of parts of the state. These begin with constants, and
  /// are, behind the last step, those results.
  int64_t keyParts = 1;
  SmallVector<unsigned> statistics;
  SmallVector<TypedAttr> initialStatistics;
  SmallVector<Value> lastStatistics;
  /// Of the first member's warps.
  Value firstBarrier;
  SmemType weightsTile;
  SmallVector<SmemType> reducedTiles;
  /// Sums that each has of its own keys, up to the last step, and reductions
  /// that make them.
  SmallVector<std::pair<Value, Operation *>> ownSums;
  DenseSet<Operation *> ownReduces;
  Value weightsScratch;
  SmallVector<Value> reducedScratch;
  /// Whether rows are columns of one warpgroup's products, and keys their rows:
  /// its warps put weights together, and statistics.
  bool turned = false;

  /// Warps of the compute role, which have keys of their own of every tile for
  /// the same rows; 0: the role has warpgroups, with rows of their own. And
  /// what the states of all of them go through, of so many channels.
  int64_t keyWarps = 0;
  SmemType mergeTile;
  Value mergeScratch;
  /// Blocks of a cluster whose states become one, and the ring that these go
  /// through, of so many floats for the channels that a warp, or a block's
  /// warpgroup, combines and has then. Warps that combine are so many of a
  /// block.
  int64_t mergedBlocks = 1, mergedFloats = 0, mergedChannels = 16;
  Value mergeRing;
  int64_t mergedSixteens() const {
    return channels * keyWarps / mergedChannels;
  }
  int64_t combiningWarps() const {
    return turned ? warpsOfMember()
                  : llvm::divideCeil(mergedSixteens(), mergedBlocks);
  }
  SmemType getMergedTile(MLIRContext *context) const;
  static constexpr int64_t keysOfWarp = 16;

  /// Whether a warpgroup has eight rows of each warp alone.
  bool isHalf() const {
    return rows == ::attn::halfRows && blockQ == ::attn::halfRows;
  }
  int64_t members() const {
    return keyWarps ? keyWarps : blockQ / rows * sharers;
  }
  int64_t warpsOfMember() const { return keyWarps ? 1 : 4; }
  /// Keys of a step.
  int64_t keysOfStep() const { return steps.front().tile.getRows() * keyParts; }
  /// Those with rows of their own.
  int64_t rowMembers() const { return blockQ / rows; }
  /// Whether a tile has the channels of the sums, of all that share them.
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

  /// Counters of work items (queries) and of steps (keys and values).
  Value items, steps;

  void cloneBlock(Block &block);

protected:
  virtual void cloneLoad(tile::LoadOp load) = 0;
  virtual void cloneRows(tile::RowsOp) = 0;
  virtual void cloneTileOp(Operation *op) = 0;
  virtual void finishStep() {}
  /// Before each operation, and after it.
  virtual void start(Operation *) {}
  virtual void finish(Operation *) {}
  /// In the region of an item without steps.
  virtual void skipSteps() {}
  /// At the start of each region of a conditional.
  virtual void startRegion(Region &) {}
  /// Ahead of the conditional that holds all steps.
  virtual void startSteps() {}
  /// Whether this role has anything to do in a loop or a branch.
  virtual bool takesPartIn(Operation &op) { return true; }
  /// Where a loop ends for this role, and what follows if that is early.
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
  /// The use of a ring that has part `part` of the keys of a step.
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

class Producer : public RoleBuilder {
public:
  Producer(RolesPlan &plan, OpBuilder &b, IRMapping mapping, Share share)
      : RoleBuilder(plan, b, std::move(mapping)), share(share) {}
  /// Lets the next item be drawn towards the end of this one.
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
  /// Of the slot of columns that is being filled.
  SmallVector<Value> columnTiles;
  /// Queries that come after the first keys.
  SmallVector<RolesRing *> waiting;
  /// Loops ahead of whose last steps the next item is drawn, and regions
  /// without such loops.
  llvm::SmallPtrSet<Operation *, 4> split;
  llvm::SmallPtrSet<Region *, 4> drawn;
};

/// Adds what members have put together to memory, when it is the block's turn.
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

/// A step on part of the keys of its tiles.
class HalfStep {
public:
  /// Of the first half of the tiles of `rows`; nothing where that is no step of
  /// its own: for columns that are no keys, or more than products and element
  /// by element operations.
  static std::optional<HalfStep> get(tile::RowsOp rows, const RolesPlan &plan);
  /// The same of `count` keys.
  static std::optional<HalfStep> get(tile::RowsOp rows, const RolesPlan &plan,
                                     int64_t count);

  int64_t keys() const { return count; }
  /// The first key of the tile that the step takes.
  int64_t firstKey = 0;
  /// The same where it is known at run time only (i32), else null.
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
  /// Lets a map over a member's channels count them from the block's first.
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
  /// The number of the step whose weights are there.
  Value exchanged;
  /// The load of keys of the step at hand, and the slot with the member's own,
  /// of the last columns.
  tile::LoadOp keysLoad;
  Value ownKeys;
  /// How many reductions of the step at hand are put together.
  unsigned numReduced = 0;
  /// The slots of the step at hand, by place.
  DenseMap<int64_t, Value> waited;
  SmallVector<Value> columnTiles;
  /// Values of the kernel's body, computed for the member's rows alone.
  DenseMap<Value, Value> ownRows;
  /// Whether the states of warps have become one, of which each has channels.
  bool isMerged = false;
  /// The block's number in its cluster, where the states of its blocks have.
  Value mergedPart;
  /// The number of the step behind the block's, where that may differ from
  /// `steps`, which counts the member's own.
  Value allSteps;
  /// Values of the kernel's body as they are for the whole block, where the
  /// steps have those of the member's rows.
  DenseMap<Value, Value> ofAllRows;
  Value forAllRows(Value value) {
    Value whole = ofAllRows.lookup(value);
    return whole ? whole : mapping.lookup(value);
  }
  /// How many steps the block has of a head, and how many of them come ahead of
  /// the member's own.
  Value stepsOfHead, stepsAhead;
  /// What forRowsOf has built, for each member and, at last, the whole block.
  SmallVector<DenseMap<Value, Value>> memberRows;
  /// Whether the member's first step takes the second half of its tile alone,
  /// and the last one the first half of its own, which is at `lastStart`; null
  /// where no step does.
  Value startsHalf, endsHalf, lastStart;
  /// The step at hand, where it takes the first half of its tiles alone.
  std::optional<HalfStep> half;
};

/// The product of a step's weights, which comes behind a reduction, where
/// members wait for each other; or null where not all of them come to it, or
/// where a test of elements, of which they have different ones, decides on
/// rows.
tile::DotOp findWeightsProduct(tile::RowsOp rows);

/// What a chain of steps and loops that carry `value` begins with.
Value findInitial(Value value);

/// The number of the state's part that is the old one times a factor plus what
/// `reduce` gives, a sum that nothing else takes, and begins with 0.
std::optional<unsigned> sumOfState(tile::RowsOp rows, tile::ReduceOp reduce);

/// The last reduction of a step.
tile::ReduceOp lastReduction(tile::RowsOp rows);

/// The step of a loop that has one in each iteration, or null.
tile::RowsOp onlyStep(scf::ForOp loop);

/// What a map multiplies its elements by, if it does nothing else; or null.
Value findOnlyFactor(Block &body);

} // namespace mlir::tile_gpu

#endif // ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_SPECIALIZEROLES_H
