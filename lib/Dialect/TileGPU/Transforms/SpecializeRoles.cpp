//===- SpecializeRoles.cpp - A producer warp and compute warpgroups -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile kernel is one program that loads tiles and multiplies them. Here it
// becomes two that run side by side: the producer keeps the control flow, the
// scalars and the loads; the consumers keep everything but those loads. Both
// walk the kernel's body in the same order, so that the uses of every ring are
// numbered alike on both sides, and both do so for one work item after
// another.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

#define DEBUG_TYPE "tile-specialize-roles"

namespace attn {
#define GEN_PASS_DEF_TILESPECIALIZEROLESPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

namespace {

/// A ring that one load (query tiles) or the loads at one place of every step
/// (keys, values) go through.
struct RingPlan {
  tile::LoadOp load;
  SmemType tile;
  /// Multiplied as it is stored: rows that are dead for all must be zero.
  bool isValue = false;
  /// Queries: what each element becomes once it is in shared memory, or null;
  /// and a member's part there.
  tile::MapOp inPlace;
  Value part;
  Value ring, map;
};

/// What the pass has found out about a kernel.
struct KernelPlan {
  int64_t rows = 0, blockQ = 0;
  SmallVector<RingPlan> queries, steps;
  /// The place of each key or value load within its step.
  DenseMap<Operation *, unsigned> place;
  /// The last operation that reads the queries, at the top or in `branch`.
  Operation *lastUse = nullptr;
  /// The conditional at the top that holds all steps; null if there is none.
  /// Its other region has nothing to do with the queries.
  scf::IfOp branch;
  /// Every loop that has steps has one in each iteration; they are two at most.
  bool stepsAreCounted = false;
  /// The first load of keys, where it comes once an item, after the queries'.
  Operation *firstKeys = nullptr;

  int64_t members() const { return blockQ / rows; }
};

/// Builds one role's program from the kernel's body.
class RoleBuilder {
public:
  RoleBuilder(KernelPlan &plan, OpBuilder &b, IRMapping mapping)
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
  /// After each operation.
  virtual void finish(Operation *) {}
  /// In the region of an item without steps.
  virtual void skipSteps() {}
  /// Where a loop ends for this role, and what follows if that is early.
  virtual Value upperBound(scf::ForOp op) {
    return mapping.lookup(op.getUpperBound());
  }
  virtual void finishLoop(scf::ForOp op, scf::ForOp loop) {}
  /// Null for values that this role does not carry.
  virtual Type convert(Type type) = 0;

  void cloneFor(scf::ForOp op);
  void cloneIf(scf::IfOp op);
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

  KernelPlan &plan;
  OpBuilder &b;
  IRMapping mapping;
};

class Producer : public RoleBuilder {
public:
  using RoleBuilder::RoleBuilder;

protected:
  void cloneLoad(tile::LoadOp load) override;
  void cloneRows(tile::RowsOp) override {}
  void cloneTileOp(Operation *) override {}
  Type convert(Type type) override {
    return isa<tile::TileType>(type) ? Type() : type;
  }

private:
  void copy(RingPlan &ring, tile::LoadOp load, Value counter);
  void copyWaiting();
  void skipSteps() override { copyWaiting(); }

  /// Queries that come after the first keys.
  SmallVector<RingPlan *> waiting;
};

class Consumer : public RoleBuilder {
public:
  Consumer(KernelPlan &plan, OpBuilder &b, IRMapping mapping, Value member)
      : RoleBuilder(plan, b, std::move(mapping)), member(member) {}

protected:
  void cloneLoad(tile::LoadOp load) override;
  void cloneRows(tile::RowsOp rows) override;
  void cloneTileOp(Operation *op) override;
  void finishStep() override;
  void finish(Operation *op) override;
  void skipSteps() override { releaseQueries(); }
  Value upperBound(scf::ForOp op) override;
  void finishLoop(scf::ForOp op, scf::ForOp loop) override;
  Type convert(Type type) override;

private:
  void adjustRow(Operation *op, MutableOperandRange indices, bool vector);
  Value memberRow(Location loc, Type type);
  void cloneInPlace(RingPlan &ring);
  void clearDeadRows(RingPlan &ring, tile::LoadOp load, Value tile);
  void releaseQueries();
  Value forOwnRows(Value value);
  Value tripCount(Location loc, Value lower, Value upper, Value step);
  Value asTile(Location loc, Value smem, Type type) {
    return UnrealizedConversionCastOp::create(b, loc, type, smem).getResult(0);
  }

  Value member;
  /// Values of the kernel's body, computed for the member's rows alone.
  DenseMap<Value, Value> ownRows;
  /// The number of the step behind the block's, where that may differ from
  /// `steps`, which counts the member's own.
  Value allSteps;
};

struct Specializer {
  Specializer(func::FuncOp kernel, const ::attn::TargetInfo &target,
              int64_t stages)
      : kernel(kernel), target(target), stages(stages), b(kernel.getContext()) {
  }

  /// Whether warpgroups and tensor copies can run this kernel.
  bool analyse();
  LogicalResult run();

private:
  bool analyseLoad(tile::LoadOp load);
  void rewriteLaunch(tile::LaunchOp launch);
  void chooseStages();

  func::FuncOp kernel;
  const ::attn::TargetInfo &target;
  int64_t stages, queryStages = 1;
  OpBuilder b;
  KernelPlan plan;
};

} // namespace

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

/// The tile in shared memory that a load fills: rows in panels of 128 bytes.
static SmemType stagedType(tile::LoadOp load) {
  auto type = cast<tile::TileType>(load.getType());
  return SmemType::get(load.getContext(), type.getRows(), type.getCols(),
                       type.getElementType(), /*swizzle=*/128, /*boxes=*/1,
                       /*pitch=*/type.getRows(), /*transposed=*/false);
}

/// The block of the kernel itself that holds `op`, or the op there.
static Operation *topOp(func::FuncOp kernel, Operation *op) {
  while (op->getParentOp() != kernel)
    op = op->getParentOp();
  return op;
}

/// The map through which rows alone read a loaded tile, element by element.
static tile::MapOp mapInPlace(tile::LoadOp load) {
  if (!load->hasOneUse())
    return {};
  auto map = dyn_cast<tile::MapOp>(*load->user_begin());
  if (!map || map->getBlock() != load->getBlock() ||
      map.getInputs().size() != 1 || map->getNumResults() != 1 ||
      map.getResult(0).getType() != load.getType() || map->use_empty())
    return {};
  Block &body = map.getBody().front();
  bool positions =
      !body.getArgument(0).use_empty() || !body.getArgument(1).use_empty();
  bool toRows = llvm::all_of(map->getUses(), [&](OpOperand &use) {
    auto rows = dyn_cast<tile::RowsOp>(use.getOwner());
    return rows && llvm::is_contained(rows.getInputs(), use.get());
  });
  return toRows && !positions ? map : tile::MapOp();
}

bool Specializer::analyseLoad(tile::LoadOp load) {
  bool query = false, keyOrValue = false, value = false;
  tile::MapOp inPlace = mapInPlace(load);
  for (OpOperand &use : load->getUses()) {
    if (inPlace) {
      query = true;
    } else if (auto rows = dyn_cast<tile::RowsOp>(use.getOwner())) {
      if (!llvm::is_contained(rows.getInputs(), load.getResult()))
        return false;
      query = true;
    } else if (auto dot = dyn_cast<tile::DotOp>(use.getOwner())) {
      if (dot.getRhs() != load.getResult() ||
          !isa<tile::RowsOp>(dot->getParentOp()))
        return false;
      keyOrValue = true;
      value |= !dot.getTransposeRhs();
    } else {
      return true; // the compute role's own
    }
  }
  if (!query && !keyOrValue)
    return true;
  auto type = cast<tile::TileType>(load.getType());
  auto source = cast<MemRefType>(load.getSource().getType());
  if ((query && keyOrValue) || load.getLive() || load.getVector() ||
      source.getElementType() != type.getElementType() ||
      type.getElementType().getIntOrFloatBitWidth() != 16 ||
      type.getCols() % 64 || !isa<BlockArgument>(load.getSource()))
    return false;
  RingPlan ring;
  ring.load = load;
  ring.tile = stagedType(load);
  ring.isValue = value;
  ring.inPlace = inPlace;
  if (query) {
    if (load->getParentOp() != kernel)
      return false;
    plan.queries.push_back(ring);
    return true;
  }
  // The n-th such load of its block.
  unsigned place = 0;
  for (Operation &other : *load->getBlock()) {
    if (&other == load)
      break;
    place += plan.place.contains(&other);
  }
  plan.place[load] = place;
  if (place == plan.steps.size()) {
    plan.steps.push_back(ring);
    return true;
  }
  RingPlan &known = plan.steps[place];
  return known.tile == ring.tile && known.isValue == ring.isValue &&
         known.load.getSource() == load.getSource();
}

/// The step of a loop that has one in each iteration, or null.
static tile::RowsOp onlyStep(scf::ForOp loop) {
  tile::RowsOp found;
  for (Operation &op : *loop.getBody())
    if (auto rows = dyn_cast<tile::RowsOp>(op)) {
      if (found)
        return {};
      found = rows;
    }
  return found;
}

bool Specializer::analyse() {
  const ::attn::MmaShape &unit = target.mmaShapes.back();
  bool able = target.hasTensorCopy && unit.asynchronous;
  SmallVector<tile::RowsOp> steps;
  kernel.walk([&](Operation *op) {
    if (auto rows = dyn_cast<tile::RowsOp>(op)) {
      steps.push_back(rows);
      plan.lastUse = topOp(kernel, rows);
    } else if (isa<tile::AnyOp, tile::ScanOp, tile::FoldOp>(op)) {
      able = false;
    } else if (auto dot = dyn_cast<tile::DotOp>(op)) {
      auto rows = cast<tile::TileType>(dot.getRhs().getType());
      auto result = cast<tile::TileType>(dot.getType());
      able &= isa<tile::RowsOp>(dot->getParentOp()) &&
              rows.getElementType().getIntOrFloatBitWidth() == 16 &&
              result.getCols() <= unit.nMax;
    }
  });
  if (!able || steps.empty())
    return false;
  for (tile::RowsOp rows : steps) {
    if (rows.getOuts().empty())
      return false;
    auto type = cast<tile::TileType>(rows.getOuts()[0].getType());
    plan.rows = rows.getBlock();
    plan.blockQ = type.getRows();
    if (plan.rows != unit.m || plan.blockQ % plan.rows ||
        (rows != steps[0] &&
         type.getRows() !=
             cast<tile::TileType>(steps[0].getOuts()[0].getType()).getRows()))
      return false;
  }
  bool loads = true;
  kernel.walk([&](tile::LoadOp load) { loads &= analyseLoad(load); });
  if (!loads || plan.queries.empty() || plan.steps.empty())
    return false;
  // Steps that only some items have.
  auto hasSteps = [](Region &region) {
    return region.walk([](tile::RowsOp) { return WalkResult::interrupt(); })
        .wasInterrupted();
  };
  if (auto branch = dyn_cast<scf::IfOp>(plan.lastUse);
      branch && steps.front()->getParentOfType<scf::IfOp>() == branch &&
      !hasSteps(branch.getElseRegion())) {
    plan.branch = branch;
    for (Operation &op : *branch.thenBlock())
      if (llvm::any_of(op.getRegions(), hasSteps) || isa<tile::RowsOp>(op))
        plan.lastUse = &op;
  }
  // Counting the steps of a third loop (of a window's far side) takes more
  // scalars than the warpgroups have registers.
  int numLoops = 0;
  plan.stepsAreCounted = llvm::all_of(steps, [&](tile::RowsOp rows) {
    Operation *parent = rows->getParentOp();
    if (auto loop = dyn_cast<scf::ForOp>(parent))
      if (onlyStep(loop)) {
        ++numLoops;
        parent = loop->getParentOp();
      }
    return parent == kernel || parent == plan.branch;
  });
  plan.stepsAreCounted &= numLoops <= 2;
  Operation *once = plan.branch ? plan.branch : kernel.getOperation();
  tile::LoadOp first = plan.steps.front().load;
  if (first->getParentOp() == once &&
      llvm::all_of(plan.queries, [&](RingPlan &ring) {
        return ring.load->isBeforeInBlock(topOp(kernel, first));
      }))
    plan.firstKeys = first;
  // Every step loads all of its tiles.
  for (tile::RowsOp rows : steps) {
    unsigned found = 0;
    for (Operation &op : *rows->getBlock())
      found += plan.place.contains(&op);
    if (found != plan.steps.size())
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

void RoleBuilder::cloneBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (auto load = dyn_cast<tile::LoadOp>(op)) {
      cloneLoad(load);
    } else if (auto rows = dyn_cast<tile::RowsOp>(op)) {
      cloneRows(rows);
      // Every use of a step's tiles is in its rows.
      finishStep();
      steps =
          arith::AddIOp::create(b, rows.getLoc(), steps, i32(1, rows.getLoc()));
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      cloneFor(loop);
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      cloneIf(branch);
    } else if (auto range = dyn_cast<tile::RowRangeOp>(op)) {
      mapping.map(range.getFirst(), mapping.lookup(range.getFirstRow()));
      mapping.map(range.getLast(), mapping.lookup(range.getLastRow()));
    } else if (op.getDialect() && isa<tile::TileDialect>(op.getDialect())) {
      cloneTileOp(&op);
    } else {
      b.clone(op, mapping);
    }
    finish(&op);
  }
}

void RoleBuilder::cloneFor(scf::ForOp op) {
  SmallVector<Value> initial = {steps};
  for (Value value : op.getInitArgs())
    if (convert(value.getType()))
      initial.push_back(mapping.lookup(value));
  auto loop =
      scf::ForOp::create(b, op.getLoc(), mapping.lookup(op.getLowerBound()),
                         upperBound(op), mapping.lookup(op.getStep()), initial);
  mapping.map(op.getInductionVar(), loop.getInductionVar());
  steps = loop.getRegionIterArg(0);
  unsigned next = 1;
  for (Value argument : op.getRegionIterArgs())
    if (convert(argument.getType()))
      mapping.map(argument, loop.getRegionIterArg(next++));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    cloneBlock(*op.getBody());
    SmallVector<Value> yielded = {steps};
    for (Value value : op.getYieldedValues())
      if (convert(value.getType()))
        yielded.push_back(mapping.lookup(value));
    scf::YieldOp::create(b, op.getLoc(), yielded);
  }
  steps = loop.getResult(0);
  next = 1;
  for (Value result : op.getResults())
    if (convert(result.getType()))
      mapping.map(result, loop.getResult(next++));
  finishLoop(op, loop);
}

void RoleBuilder::cloneIf(scf::IfOp op) {
  SmallVector<Type> types = {steps.getType()};
  for (Type type : op.getResultTypes())
    if (Type converted = convert(type))
      types.push_back(converted);
  auto branch = scf::IfOp::create(b, op.getLoc(), types,
                                  mapping.lookup(op.getCondition()),
                                  /*withElseRegion=*/true);
  Value before = steps;
  auto fill = [&](Region &from, Region &to) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&to.front());
    steps = before;
    SmallVector<Value> yielded;
    if (op == plan.branch && &from == &op.getElseRegion())
      skipSteps();
    if (!from.empty()) {
      cloneBlock(from.front());
      for (Value value : from.front().getTerminator()->getOperands())
        if (convert(value.getType()))
          yielded.push_back(mapping.lookup(value));
    }
    yielded.insert(yielded.begin(), steps);
    scf::YieldOp::create(b, op.getLoc(), yielded);
  };
  fill(op.getThenRegion(), branch.getThenRegion());
  fill(op.getElseRegion(), branch.getElseRegion());
  steps = branch.getResult(0);
  unsigned next = 1;
  for (Value result : op.getResults())
    if (convert(result.getType()))
      mapping.map(result, branch.getResult(next++));
}

//===----------------------------------------------------------------------===//
// The producer
//===----------------------------------------------------------------------===//

void Producer::copy(RingPlan &ring, tile::LoadOp load, Value counter) {
  Location loc = load.getLoc();
  Value tile =
      RingAcquireOp::create(b, loc, ring.tile, ring.ring, counter).getResult(0);
  auto indices =
      llvm::map_to_vector(load.getIndices(), [&](Value v) { return toI32(v); });
  RingLoadOp::create(b, loc, ring.map, indices, tile, /*box=*/Value(),
                     /*from=*/Value(),
                     /*rows=*/Value(), /*evict_first=*/false);
}

void Producer::cloneLoad(tile::LoadOp load) {
  for (RingPlan &ring : plan.queries) {
    if (ring.load != load)
      continue;
    // A slot for queries is free once the item before is done with its own;
    // one for keys is free earlier, and should not wait for that.
    if (plan.firstKeys) {
      waiting.push_back(&ring);
      return;
    }
    return copy(ring, load, items);
  }
  auto it = plan.place.find(load);
  if (it == plan.place.end())
    return;
  copy(plan.steps[it->second], load, steps);
  if (load == plan.firstKeys)
    copyWaiting();
}

void Producer::copyWaiting() {
  for (RingPlan *ring : waiting)
    copy(*ring, ring->load, items);
}

//===----------------------------------------------------------------------===//
// The consumers
//===----------------------------------------------------------------------===//

Type Consumer::convert(Type type) {
  auto tile = dyn_cast<tile::TileType>(type);
  if (!tile || tile.getRows() != plan.blockQ)
    return type;
  return tile::TileType::get(type.getContext(), plan.rows, tile.getCols(),
                             tile.getElementType());
}

Value Consumer::memberRow(Location loc, Type type) {
  Value row = arith::MulIOp::create(b, loc, member, i32(plan.rows, loc));
  return type.isIndex() ? arith::IndexCastOp::create(b, loc, type, row) : row;
}

/// Rows of a member's tile start at its own row of the block's tile.
void Consumer::adjustRow(Operation *op, MutableOperandRange indices,
                         bool vector) {
  OpOperand &row = indices[indices.size() - (vector ? 1 : 2)];
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(op);
  Location loc = op->getLoc();
  row.set(arith::AddIOp::create(b, loc, row.get(),
                                memberRow(loc, b.getIndexType())));
}

/// A value row that no query may see must not reach one, not even times 0.
/// Tensor copies fill with zeros beyond the tensor only.
void Consumer::clearDeadRows(RingPlan &ring, tile::LoadOp load, Value tile) {
  if (!ring.isValue || !load.getUpper())
    return;
  Location loc = load.getLoc();
  Value first = mapping.lookup(load.getIndices().drop_back().back());
  Value from =
      arith::SubIOp::create(b, loc, mapping.lookup(load.getUpper()), first);
  Value rows = arith::ConstantIndexOp::create(b, loc, ring.tile.getRows());
  Value dead =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, from, rows);
  Value before;
  if (!matchPattern(load.getLower(), m_Zero())) {
    before =
        arith::SubIOp::create(b, loc, mapping.lookup(load.getLower()), first);
    Value zero = arith::ConstantIndexOp::create(b, loc, 0);
    Value some =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, before, zero);
    dead = arith::OrIOp::create(b, loc, dead, some);
  }
  auto branch = scf::IfOp::create(b, loc, dead, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  // Beyond 32 bits all rows are live, or all are dead.
  auto narrow = [&](Value value) -> Value {
    Value limit = arith::ConstantIndexOp::create(b, loc, 1 << 20);
    Value least = arith::ConstantIndexOp::create(b, loc, -1);
    value = arith::MinSIOp::create(b, loc, value, limit);
    value = arith::MaxSIOp::create(b, loc, value, least);
    return arith::IndexCastOp::create(b, loc, b.getI32Type(), value);
  };
  SmemClearRowsOp::create(b, loc, tile, narrow(from),
                          before ? narrow(before) : Value(), /*live=*/Value());
}

void Consumer::cloneLoad(tile::LoadOp load) {
  Location loc = load.getLoc();
  for (RingPlan &ring : plan.queries) {
    if (ring.load != load)
      continue;
    Value tile =
        RingWaitOp::create(b, loc, ring.tile, ring.ring, items).getResult(0);
    auto part = SmemType::get(b.getContext(), plan.rows, ring.tile.getCols(),
                              ring.tile.getElementType(), 128, 1,
                              /*pitch=*/plan.blockQ, false);
    if (plan.members() > 1)
      tile = SmemSliceOp::create(b, loc, part, tile,
                                 memberRow(loc, b.getI32Type()), i32(0, loc));
    ring.part = tile;
    mapping.map(load.getResult(), asTile(loc, tile, convert(load.getType())));
    return;
  }
  auto it = plan.place.find(load);
  if (it == plan.place.end())
    return cloneTileOp(load);
  RingPlan &ring = plan.steps[it->second];
  Value tile =
      RingWaitOp::create(b, loc, ring.tile, ring.ring, steps).getResult(0);
  clearDeadRows(ring, load, tile);
  mapping.map(load.getResult(), asTile(loc, tile, load.getType()));
}

void Consumer::cloneRows(tile::RowsOp rows) {
  Block &body = rows.getBody().front();
  mapping.map(body.getArgument(0), memberRow(rows.getLoc(), b.getIndexType()));
  SmallVector<Value> operands(rows.getInputs());
  llvm::append_range(operands, rows.getOuts());
  for (auto [argument, operand] :
       llvm::zip(body.getArguments().drop_front(), operands))
    mapping.map(argument, mapping.lookup(operand));
  for (Operation &op : body.without_terminator())
    b.clone(op, mapping);
  for (auto [result, value] :
       llvm::zip(rows.getResults(), body.getTerminator()->getOperands()))
    mapping.map(result, mapping.lookup(value));
}

void Consumer::finishStep() {
  for (RingPlan &ring : plan.steps)
    RingReleaseOp::create(b, ring.load.getLoc(), ring.ring, steps,
                          ValueRange());
}

/// `value` as it is for the member's rows; null where it is the same for all.
Value Consumer::forOwnRows(Value value) {
  if (auto it = ownRows.find(value); it != ownRows.end())
    return it->second;
  Operation *def = value.getDefiningOp();
  if (!def || def->getNumRegions() || !isPure(def))
    return {};
  Location loc = def->getLoc();
  if (auto range = dyn_cast<tile::RowRangeOp>(def)) {
    Value first =
        arith::AddIOp::create(b, loc, mapping.lookup(range.getFirstRow()),
                              memberRow(loc, b.getIndexType()));
    Value last = arith::AddIOp::create(
        b, loc, first, arith::ConstantIndexOp::create(b, loc, plan.rows - 1));
    ownRows[range.getFirst()] = first;
    ownRows[range.getLast()] = arith::MinSIOp::create(
        b, loc, last, mapping.lookup(range.getLastRow()));
    return ownRows[value];
  }
  IRMapping own;
  bool differs = false;
  for (Value operand : def->getOperands()) {
    Value narrow = forOwnRows(operand);
    differs |= bool(narrow);
    own.map(operand, narrow ? narrow : mapping.lookup(operand));
  }
  if (!differs) {
    ownRows[value] = {};
    return {};
  }
  Operation *clone = b.clone(*def, own);
  for (auto [from, to] : llvm::zip(def->getResults(), clone->getResults()))
    ownRows[from] = to;
  return ownRows[value];
}

/// A member without live rows has no steps but the first, and the last loop
/// ends where the member's own rows see no further key: with a causal mask the
/// warpgroups end one after the other.
Value Consumer::upperBound(scf::ForOp op) {
  Value whole = mapping.lookup(op.getUpperBound());
  auto rows = onlyStep(op);
  if (!plan.stepsAreCounted || !rows)
    return whole;
  Location loc = op.getLoc();
  if (!allSteps)
    allSteps = steps;
  Value lower = mapping.lookup(op.getLowerBound());
  allSteps = arith::AddIOp::create(
      b, loc, allSteps,
      tripCount(loc, lower, whole, mapping.lookup(op.getStep())));
  Value end = whole;
  if (op == plan.lastUse)
    if (Value own = forOwnRows(op.getUpperBound()))
      end = arith::MinSIOp::create(b, loc, own, whole);
  if (rows.getExtent() && plan.members() > 1) {
    Value isLive = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                         memberRow(loc, b.getIndexType()),
                                         mapping.lookup(rows.getExtent()));
    end = arith::SelectOp::create(b, loc, isLive, end, lower);
  }
  return end;
}

Value Consumer::tripCount(Location loc, Value lower, Value upper, Value step) {
  Value zero = arith::ConstantIndexOp::create(b, loc, 0);
  Value length = arith::SubIOp::create(b, loc, upper, lower);
  length = arith::MaxSIOp::create(b, loc, length, zero);
  return arith::IndexCastOp::create(
      b, loc, b.getI32Type(), arith::CeilDivUIOp::create(b, loc, length, step));
}

/// The steps that the member leaves out: the others need their tiles, and every
/// slot counts the arrivals of all.
void Consumer::finishLoop(scf::ForOp op, scf::ForOp loop) {
  if (op != plan.lastUse || !allSteps)
    return;
  Location loc = op.getLoc();
  auto rest = scf::ForOp::create(b, loc, steps, allSteps, i32(1, loc));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(rest.getBody());
    for (RingPlan &ring : plan.steps)
      RingWaitOp::create(b, loc, ring.tile, ring.ring, rest.getInductionVar());
    for (RingPlan &ring : plan.steps)
      RingReleaseOp::create(b, loc, ring.ring, rest.getInductionVar(),
                            ValueRange());
  }
  steps = allSteps;
}

/// The next item's queries may come while this one is finalized.
void Consumer::releaseQueries() {
  for (RingPlan &ring : plan.queries)
    RingReleaseOp::create(b, ring.load.getLoc(), ring.ring, items,
                          ValueRange());
}

void Consumer::finish(Operation *op) {
  if (op == plan.lastUse)
    releaseQueries();
}

/// A map of the queries, on the member's own rows in shared memory.
void Consumer::cloneInPlace(RingPlan &ring) {
  Location loc = ring.inPlace.getLoc();
  auto map = SmemMapOp::create(b, loc, ring.part);
  Block &from = ring.inPlace.getBody().front();
  OpBuilder::InsertionGuard guard(b);
  Block *body =
      b.createBlock(&map.getBody(), {}, {from.getArgument(2).getType()}, {loc});
  mapping.map(from.getArgument(2), body->getArgument(0));
  for (Operation &op : from.without_terminator())
    b.clone(op, mapping);
  YieldOp::create(b, loc, lookup(from.getTerminator()->getOperands()));
  mapping.map(ring.inPlace.getResult(0), mapping.lookup(ring.load.getResult()));
}

void Consumer::cloneTileOp(Operation *op) {
  for (RingPlan &ring : plan.queries)
    if (ring.inPlace == op)
      return cloneInPlace(ring);
  Operation *clone = b.clone(*op, mapping);
  bool narrowed = false;
  for (OpResult result : clone->getResults()) {
    Type type = convert(result.getType());
    narrowed |= type != result.getType();
    result.setType(type);
  }
  if (auto store = dyn_cast<tile::StoreOp>(clone)) {
    auto before = cast<tile::StoreOp>(op).getValue().getType();
    if (before != store.getValue().getType())
      adjustRow(clone, store.getIndicesMutable(), store.getVector());
  }
  if (!narrowed)
    return;
  if (auto load = dyn_cast<tile::LoadOp>(clone))
    adjustRow(clone, load.getIndicesMutable(), load.getVector());
  if (auto map = dyn_cast<tile::MapOp>(clone)) {
    // Positions stay those within the block's tile.
    Block &body = map.getBody().front();
    Value row = body.getArgument(0);
    if (row.use_empty())
      return;
    Value first;
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(clone);
      first = memberRow(op->getLoc(), b.getI32Type());
      b.setInsertionPointToStart(&body);
      auto shifted = arith::AddIOp::create(b, op->getLoc(), row, first);
      row.replaceAllUsesExcept(shifted, shifted);
    }
  }
}

//===----------------------------------------------------------------------===//
// The kernel and its launches
//===----------------------------------------------------------------------===//

/// Results are staged where there is room; what is left gives the queries two
/// slots, so that an item's are there when the one before ends, and then keys
/// and values up to four.
void Specializer::chooseStages() {
  int64_t queries = 0, step = 0, results = 0;
  for (RingPlan &ring : plan.queries)
    queries += ring.tile.getBytes();
  for (RingPlan &ring : plan.steps)
    step += ring.tile.getBytes();
  // tile-stage-stores wants this much for results of 16 bits.
  kernel.walk([&](tile::StoreOp store) {
    auto type = cast<tile::TileType>(store.getValue().getType());
    if (type.getRows() == plan.blockQ &&
        type.getElementType().getIntOrFloatBitWidth() == 16)
      results += type.getRows() * type.getCols() * 2;
  });
  constexpr int64_t leastStages = 2, mostStages = 4;
  bool isChosen = stages > 0;
  if (!isChosen)
    stages = leastStages;
  int64_t room = target.sharedMemoryBytes - ::attn::TargetInfo::barrierBytes -
                 queries - stages * step;
  if (results <= room)
    room -= results;
  if (queries <= room) {
    room -= queries;
    queryStages = 2;
  }
  if (!isChosen)
    stages += std::clamp<int64_t>(room / step, 0, mostStages - leastStages);
}

LogicalResult Specializer::run() {
  Location loc = kernel.getLoc();
  MLIRContext *context = kernel.getContext();
  auto module = kernel->getParentOfType<ModuleOp>();
  SmallVector<tile::LaunchOp> launches;
  module.walk([&](tile::LaunchOp launch) {
    if (launch.getKernel() == kernel.getName())
      launches.push_back(launch);
  });

  // The new function: maps, tickets and the number of items replace the block.
  SmallVector<Type> types(kernel.getArgumentTypes().drop_back());
  unsigned numOld = types.size();
  SmallVector<RingPlan *> rings;
  for (RingPlan &ring : plan.queries)
    rings.push_back(&ring);
  for (RingPlan &ring : plan.steps)
    rings.push_back(&ring);
  for (RingPlan *ring : rings)
    types.push_back(TensorMapType::get(context, ring->tile));
  auto ticketType = MemRefType::get({1}, b.getI32Type());
  types.push_back(ticketType);
  types.push_back(b.getI32Type());

  for (tile::LaunchOp launch : launches)
    rewriteLaunch(launch);

  b.setInsertionPoint(kernel);
  auto func = func::FuncOp::create(b, loc, kernel.getName(),
                                   b.getFunctionType(types, {}));
  func.setPrivate();
  func->setAttr("tile_gpu.kernel", b.getUnitAttr());
  Block *entry = func.addEntryBlock();
  b.setInsertionPointToStart(entry);
  IRMapping mapping;
  for (unsigned i = 0; i < numOld; ++i)
    mapping.map(kernel.getArgument(i), entry->getArgument(i));
  unsigned next = numOld;
  int64_t warps = plan.members() * 4;
  chooseStages();
  for (RingPlan *ring : rings) {
    ring->map = entry->getArgument(next++);
    bool query = llvm::is_contained(
        llvm::map_range(plan.queries, [](RingPlan &q) { return &q; }), ring);
    auto type =
        RingType::get(context, query ? queryStages : stages, {ring->tile});
    ring->ring = RingCreateOp::create(b, loc, type, Fill::Tma,
                                      /*producers=*/IntegerAttr(),
                                      b.getI64IntegerAttr(warps));
  }
  Value tickets = entry->getArgument(next++);
  Value count = entry->getArgument(next++);
  Value zero = arith::ConstantIntOp::create(b, loc, 0, 32);
  Value one = arith::ConstantIntOp::create(b, loc, 1, 32);

  auto scheduler = SchedulerOp::create(
      b, loc, ScheduleType::get(context), ScheduleKind::Dynamic,
      ScheduleOrder::InOrder, tickets, count, one, one, /*splits=*/Value(),
      /*section=*/IntegerAttr());
  {
    OpBuilder::InsertionGuard guard(b);
    SmallVector<Type> four(4, b.getI32Type());
    b.createBlock(&scheduler.getKeys(), {}, four,
                  SmallVector<Location>(4, loc));
    YieldOp::create(b, loc, ValueRange{zero, zero});
  }

  auto buildRole = [&](StringRef name, Scope scope, int64_t count,
                       int64_t registers, bool lead) {
    OpBuilder::InsertionGuard guard(b);
    auto role = RoleOp::create(b, loc, name, scope, count,
                               b.getI64IntegerAttr(registers));
    Block *body = b.createBlock(&role.getBody(), {}, {b.getI32Type()}, {loc});
    Value member = body->getArgument(0);
    auto loop =
        ForeachOp::create(b, loc, TypeRange{b.getI32Type(), b.getI32Type()},
                          scheduler, ValueRange{zero, zero}, lead);
    YieldOp::create(b, loc, ValueRange());
    SmallVector<Type> eight(8, b.getI32Type());
    Block *item = b.createBlock(&loop.getBody(), {}, eight,
                                SmallVector<Location>(8, loc));
    IRMapping own = mapping;
    Value block = arith::IndexCastOp::create(b, loc, b.getIndexType(),
                                             item->getArgument(0));
    own.map(kernel.getArgument(numOld), block);
    std::unique_ptr<RoleBuilder> program;
    if (lead)
      program = std::make_unique<Producer>(plan, b, std::move(own));
    else
      program = std::make_unique<Consumer>(plan, b, std::move(own), member);
    program->items = item->getArgument(6);
    program->steps = item->getArgument(7);
    program->cloneBlock(kernel.getBody().front());
    Value nextItem = arith::AddIOp::create(b, loc, program->items, one);
    YieldOp::create(b, loc, ValueRange{nextItem, program->steps});
  };
  buildRole("load", Scope::Warp, 1, target.minRoleRegisters, /*lead=*/true);
  buildRole("compute", Scope::Warpgroup, plan.members(),
            target.computeRegisters(plan.members()), /*lead=*/false);
  func::ReturnOp::create(b, loc);
  kernel.erase();
  return success();
}

void Specializer::rewriteLaunch(tile::LaunchOp launch) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(launch);
  Location loc = launch.getLoc();
  SmallVector<Value> arguments(launch.getArguments());
  auto addMap = [&](RingPlan &ring) {
    unsigned source = cast<BlockArgument>(ring.load.getSource()).getArgNumber();
    arguments.push_back(TensorMapOp::create(
        b, loc, TensorMapType::get(b.getContext(), ring.tile),
        launch.getArguments()[source]));
  };
  for (RingPlan &ring : plan.queries)
    addMap(ring);
  for (RingPlan &ring : plan.steps)
    addMap(ring);
  Value tickets = tile::WorkspaceOp::create(
      b, loc, MemRefType::get({1}, b.getI32Type()), ValueRange());
  ResetOp::create(b, loc, tickets);
  arguments.push_back(tickets);
  arguments.push_back(
      arith::IndexCastOp::create(b, loc, b.getI32Type(), launch.getGrid()));
  tile_gpu::LaunchOp::create(b, loc, launch.getKernelAttr(), launch.getGrid(),
                             arguments);
  launch.erase();
}

namespace {
struct SpecializeRolesPass
    : ::attn::impl::TileSpecializeRolesPassBase<SpecializeRolesPass> {
  using TileSpecializeRolesPassBase::TileSpecializeRolesPassBase;

  void runOnOperation() final {
    ModuleOp module = getOperation();
    std::optional<::attn::TargetInfo> target = ::attn::getTarget(module);
    if (!target)
      return signalPassFailure();
    SmallVector<func::FuncOp> kernels;
    for (auto func : module.getOps<func::FuncOp>())
      if (func->hasAttr("tile.kernel") && !func.isExternal())
        kernels.push_back(func);
    for (func::FuncOp kernel : kernels) {
      Specializer specializer(kernel, *target, stages);
      if (specializer.analyse() && failed(specializer.run()))
        return signalPassFailure();
    }
  }
};
} // namespace
