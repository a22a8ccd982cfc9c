//===- RolePrograms.cpp - What a producer and its consumers run -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Both roles walk the kernel's body. The producer keeps the loads that go
// through rings, as copies; a consumer keeps what is computed, on its own rows.
//
//===----------------------------------------------------------------------===//

#include "MemberRows.h"
#include "SpecializeWarps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile_gpu;

tile::RowsOp tile_gpu::onlyStep(scf::ForOp loop) {
  tile::RowsOp found;
  for (Operation &op : *loop.getBody())
    if (auto rows = dyn_cast<tile::RowsOp>(op)) {
      if (found)
        return {};
      found = rows;
    }
  return found;
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

void RoleBuilder::cloneBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    start(&op);
    if (auto load = dyn_cast<tile::LoadOp>(op)) {
      cloneLoad(load);
    } else if (auto rows = dyn_cast<tile::RowsOp>(op)) {
      cloneRows(rows);
      // Every use of a step's tiles is in its rows.
      finishStep();
      steps =
          arith::AddIOp::create(b, rows.getLoc(), steps, i32(1, rows.getLoc()));
    } else if (!takesPartIn(op)) {
      continue;
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      cloneFor(loop);
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      if (branch == plan.branch)
        startSteps();
      cloneIf(branch);
    } else if (auto range = dyn_cast<tile::RowRangeOp>(op)) {
      mapping.map(range.getFirst(), mapping.lookup(range.getFirstRow()));
      mapping.map(range.getLast(), mapping.lookup(range.getLastRow()));
    } else if (isa<tile::WorkTileOp, tile::SourceOp>(op)) {
      continue; // The loop's item stands for it, or its loads know it.
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
  Value upper = upperBound(op);
  finishLoop(op,
             cloneLoop(op, mapping.lookup(op.getLowerBound()), upper, initial));
}

scf::ForOp RoleBuilder::cloneLoop(scf::ForOp op, Value lower, Value upper,
                                  ValueRange initial) {
  auto loop = scf::ForOp::create(b, op.getLoc(), lower, upper,
                                 mapping.lookup(op.getStep()), initial);
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
  return loop;
}

/// A block whose arguments are known would be cloned without them.
void RoleBuilder::forget(Operation *op) {
  op->walk([&](Block *block) {
    for (Value argument : block->getArguments())
      mapping.erase(argument);
  });
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
    startRegion(from);
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

void Producer::copy(RolesRing &ring, tile::LoadOp load, Value counter,
                    int64_t firstRow) {
  Location loc = load.getLoc();
  Value tile =
      RingAcquireOp::create(b, loc, ring.tile, ring.ring, counter).getResult(0);
  auto indices =
      llvm::map_to_vector(load.getIndices(), [&](Value v) { return toI32(v); });
  if (firstRow) {
    Value &row = indices[indices.size() - 2];
    row = arith::AddIOp::create(b, loc, row, i32(firstRow, loc));
  }
  if (ring.firstColumn)
    indices.back() = arith::AddIOp::create(b, loc, indices.back(),
                                           i32(ring.firstColumn, loc));
  Value table;
  IntegerAttr page;
  if (tile::SourceOp source = ring.source) {
    table = mapping.lookup(source.getTable());
    page = b.getI64IntegerAttr(
        source.getMemoryType().getDimSize(source.getRowDim()));
  }
  bool isQuery = llvm::any_of(
      plan.queries, [&](RolesRing &query) { return &query == &ring; });
  RingLoadOp::create(b, loc, ring.map, indices, tile, /*box=*/Value(),
                     /*from=*/Value(), /*rows=*/Value(), table,
                     /*entries=*/Value(), /*first_entry=*/Value(),
                     /*start=*/Value(), /*boxes=*/IntegerAttr(), page,
                     /*evict_first=*/plan.readsOnce && !isQuery);
}

/// Members begin and end at different times, and each has slots of its own:
/// what one has read makes room for its next rows, and none waits for all.
void Producer::copyQueries(RolesRing &ring) {
  Location loc = ring.load.getLoc();
  if (ring.isWhole)
    return copy(ring, ring.load, items);
  Value first =
      arith::MulIOp::create(b, loc, items, i32(plan.rowMembers(), loc));
  for (int64_t member = 0; member < plan.rowMembers(); ++member) {
    Value use = arith::AddIOp::create(b, loc, first, i32(member, loc));
    copy(ring, ring.load, use, member * plan.rows);
  }
}

void Producer::copyColumns(tile::LoadOp load) {
  Location loc = load.getLoc();
  RolesColumns &columns = plan.columns;
  if (columns.isFirst(load))
    columnTiles = llvm::to_vector_of<Value>(
        RingAcquireOp::create(b, loc, columns.types(), columns.ring, steps)
            .getResults());
  auto indices =
      llvm::map_to_vector(load.getIndices(), [&](Value v) { return toI32(v); });
  unsigned number = columns.number.lookup(load);
  RingLoadOp::create(b, loc, mapping.lookup(columns.memories[number]), indices,
                     columnTiles[number], /*box=*/Value(), /*from=*/Value(),
                     /*rows=*/Value(), /*table=*/Value(), /*entries=*/Value(),
                     /*first_entry=*/Value(), /*start=*/Value(),
                     /*boxes=*/IntegerAttr(), /*page=*/IntegerAttr(),
                     /*evict_first=*/false);
  if (columns.isLast(load))
    RingCommitOp::create(b, loc, columns.ring, steps);
}

void Producer::cloneLoad(tile::LoadOp load) {
  if (plan.columns.has(load)) {
    if (share != Share::Values)
      copyColumns(load);
    return;
  }
  for (RolesRing &ring : plan.queries) {
    if (ring.load != load)
      continue;
    if (share == Share::Values)
      return;
    // A slot for queries is free once the item before is done with its own;
    // one for keys is free earlier, and should not wait for that.
    if (plan.firstKeys) {
      waiting.push_back(&ring);
      return;
    }
    return copyQueries(ring);
  }
  auto it = plan.place.find(load);
  if (it == plan.place.end())
    return;
  RolesRing &ring = plan.steps[it->second];
  if (ring.within >= 0 ||
      (share != Share::All && ring.isValue != (share == Share::Values)))
    return;
  bool isAwaited = load == plan.firstKeys;
  for (int64_t part = 0; part < plan.keyParts; ++part)
    for (RolesRing &one : plan.steps) {
      if (one.load != ring.load)
        continue;
      copy(one, load, useOf(steps, part), part * one.tile.getRows());
      // The first product takes no more than the first columns.
      if (std::exchange(isAwaited, false))
        copyWaiting();
    }
}

static bool hasSteps(Operation &op) {
  return op.walk([](tile::RowsOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

/// Loops and branches that make tiles, but take none from a ring, are the
/// consumers' own, as are those that rows decide on.
static bool concernsCopies(Operation &op) {
  return !isa<scf::ForOp, scf::IfOp>(op) || hasSteps(op) ||
         !op.getNumResults() ||
         !llvm::all_of(op.getResultTypes(), llvm::IsaPred<tile::TileType>);
}

bool Producer::takesPartIn(Operation &op) { return concernsCopies(op); }
bool Adder::takesPartIn(Operation &op) { return concernsCopies(op); }

/// Finds where in `region` the next item is drawn: once on every path.
void Producer::planDraw(Region &region) {
  SmallVector<Operation *> loops, branches;
  for (Operation &op : region.getOps()) {
    if (hasSteps(op) && isa<scf::ForOp>(op))
      loops.push_back(&op);
    else if (hasSteps(op) && isa<scf::IfOp>(op))
      branches.push_back(&op);
  }
  // Whole tiles come before those that are masked at their end, of which there
  // are few.
  if (!loops.empty()) {
    split.insert(loops.size() > 1 ? loops[loops.size() - 2] : loops.back());
  } else if (branches.size() == 1) {
    for (Region &inner : branches.front()->getRegions())
      planDraw(inner);
  } else {
    drawn.insert(&region);
  }
}

void Producer::drawLate(Region &item) {
  planDraw(item);
  startRegion(item);
}

void Producer::startRegion(Region &region) {
  if (drawn.contains(&region))
    DrawNextOp::create(b, region.getLoc());
}

/// The next item is drawn ahead of the last step of this loop.
void Producer::cloneFor(scf::ForOp op) {
  if (!split.contains(op))
    return RoleBuilder::cloneFor(op);
  Location loc = op.getLoc();
  Value lower = mapping.lookup(op.getLowerBound());
  Value upper = mapping.lookup(op.getUpperBound());
  Value step = mapping.lookup(op.getStep());
  auto number = [&](int64_t n) -> Value {
    return arith::ConstantOp::create(b, loc,
                                     b.getIntegerAttr(step.getType(), n));
  };
  Value length = arith::SubIOp::create(b, loc, upper, lower);
  length = arith::MaxSIOp::create(b, loc, length, number(0));
  Value count = arith::CeilDivUIOp::create(b, loc, length, step);
  count = arith::SubIOp::create(b, loc, count, number(1));
  count = arith::MaxSIOp::create(b, loc, count, number(0));
  Value middle = arith::AddIOp::create(
      b, loc, lower, arith::MulIOp::create(b, loc, count, step));
  SmallVector<Value> initial = {steps};
  for (Value value : op.getInitArgs())
    if (convert(value.getType()))
      initial.push_back(mapping.lookup(value));
  auto first = cloneLoop(op, lower, middle, initial);
  DrawNextOp::create(b, loc);
  forget(op);
  cloneLoop(op, middle, upper, first.getResults());
}

void Producer::copyWaiting() {
  for (RolesRing *ring : waiting)
    copyQueries(*ring);
}

//===----------------------------------------------------------------------===//
// The consumers
//===----------------------------------------------------------------------===//

Type Consumer::convert(Type type) {
  auto tile = dyn_cast<tile::TileType>(type);
  if (!tile || tile.getRows() != plan.blockQ)
    return type;
  return tile::TileType::get(type.getContext(), plan.rows,
                             plan.isShared(type) ? plan.channels
                                                 : tile.getCols(),
                             tile.getElementType());
}

/// The use of a ring of queries that holds the member's rows of this item.
Value Consumer::queryUse(Location loc) {
  if (plan.rowMembers() == 1)
    return items;
  Value first =
      arith::MulIOp::create(b, loc, items, i32(plan.rowMembers(), loc));
  return arith::AddIOp::create(b, loc, first, member);
}

Value Consumer::memberRow(Location loc, Type type) {
  if (plan.sharers > 1 || plan.keyWarps)
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, 0));
  Value row = arith::MulIOp::create(b, loc, member, i32(plan.rows, loc));
  return type.isIndex() ? arith::IndexCastOp::create(b, loc, type, row) : row;
}

/// The first of the channels that a member has of those of the sums.
Value Consumer::memberChannel(Location loc, Type type) {
  Value channel;
  if (mergedPart) {
    // Sixteens go from block to block, then from warp to warp.
    Value number =
        arith::MulIOp::create(b, loc, member, i32(plan.mergedBlocks, loc));
    number = arith::AddIOp::create(b, loc, number, mergedPart);
    channel =
        arith::MulIOp::create(b, loc, number, i32(plan.mergedChannels, loc));
  } else {
    channel = arith::MulIOp::create(b, loc, member, i32(plan.channels, loc));
  }
  return type.isIndex() ? arith::IndexCastOp::create(b, loc, type, channel)
                        : channel;
}

void Consumer::adjustRow(Operation *op, MutableOperandRange indices,
                         bool vector) {
  addMemberRow(b, op, indices, vector,
               [&] { return memberRow(op->getLoc(), b.getIndexType()); });
}

void Consumer::cloneLoad(tile::LoadOp load) {
  Location loc = load.getLoc();
  for (RolesRing &ring : plan.queries) {
    if (ring.load != load)
      continue;
    ring.part = ring.isWhole ? takeOwnRows(ring, load)
                             : RingWaitOp::create(b, loc, ring.tile, ring.ring,
                                                  queryUse(loc))
                                   .getResult(0);
    auto type = cast<tile::TileType>(load.getType());
    mapping.map(
        load.getResult(),
        asTile(loc, ring.part,
               tile::TileType::get(b.getContext(), plan.rows, type.getCols(),
                                   type.getElementType())));
    if (plan.keyParts > 1 && &ring == &plan.queries.front())
      startTurns(loc);
    return;
  }
  if (plan.columns.has(load)) {
    if (plan.columns.isFirst(load))
      columnTiles = llvm::to_vector_of<Value>(
          RingWaitOp::create(b, loc, plan.columns.types(), plan.columns.ring,
                             steps)
              .getResults());
    Value tile = columnTiles[plan.columns.number.lookup(load)];
    return mapping.map(load.getResult(), asTile(loc, tile, load.getType()));
  }
  auto it = plan.place.find(load);
  if (it == plan.place.end())
    return cloneTileOp(load);
  RolesRing &ring = plan.steps[it->second];
  if (plan.keyParts > 1)
    return takeOwnKeys(ring, load);
  if (ring.within >= 0) {
    Value slot = waited[ring.within];
    // What the products of a member take of channels that several share, they
    // cut out themselves.
    return mapping.map(
        load.getResult(),
        plan.isShared(load.getType())
            ? asTile(loc, slot, plan.steps[ring.within].load.getType())
            : columnsOf(loc, slot, ring.tile.getCols(), i32(0, loc)));
  }
  Value tile =
      RingWaitOp::create(b, loc, ring.tile, ring.ring, steps).getResult(0);
  if (plan.keyWarps || ring.isOfPairs) {
    Value own = ring.isOfPairs ? ownRowsOf(loc, tile) : keysOfWarp(tile);
    clearDeadRows(ring, load, own);
    auto type = cast<SmemType>(own.getType());
    return mapping.map(
        load.getResult(),
        asTile(loc, own,
               tile::TileType::get(b.getContext(), type.getRows(),
                                   type.getCols(), type.getElementType())));
  }
  clearDeadRows(ring, load, tile);
  waited[it->second] = tile;
  mapping.map(load.getResult(), half ? halfOf(*half, load, tile)
                                     : asTile(loc, tile, load.getType()));
}

/// Columns of a slot from `first` on, a multiple of their number.
Value Consumer::columnsOf(Location loc, Value slot, int64_t cols, Value first) {
  auto whole = cast<SmemType>(slot.getType());
  auto part = SmemType::get(b.getContext(), whole.getRows(), cols,
                            whole.getElementType(), whole.getSwizzle(),
                            /*boxes=*/1, whole.getPitch(),
                            /*transposed=*/false);
  if (part != whole)
    slot = SmemSliceOp::create(b, loc, part, slot, i32(0, loc), first);
  return asTile(loc, slot,
                tile::TileType::get(b.getContext(), whole.getRows(), cols,
                                    whole.getElementType()));
}

/// Results that have the channels of all that share them become those of the
/// member's own, and so do the values that are multiplied for them.
void Consumer::cloneShared(Operation *op) {
  if (auto dot = dyn_cast<tile::DotOp>(op);
      dot && plan.isShared(dot.getType())) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(op);
    auto slot = dot.getRhs().getDefiningOp<UnrealizedConversionCastOp>();
    dot.getRhsMutable().set(
        columnsOf(op->getLoc(), slot.getOperand(0), plan.channels,
                  memberChannel(op->getLoc(), b.getI32Type())));
  }
  for (OpResult result : op->getResults())
    if (plan.isShared(result.getType()))
      result.setType(convert(result.getType()));
}

void Consumer::cloneRows(tile::RowsOp rows) {
  Block &body = rows.getBody().front();
  mapping.map(body.getArgument(0), memberRow(rows.getLoc(), b.getIndexType()));
  SmallVector<Value> operands(rows.getInputs());
  llvm::append_range(operands, rows.getOuts());
  for (auto [argument, operand] :
       llvm::zip(body.getArguments().drop_front(), operands))
    mapping.map(argument, mapping.lookup(operand));
  if (!half && startsHalf && !isa<scf::ForOp>(rows->getParentOp()))
    return cloneHalves(rows);
  if (plan.turned)
    return cloneFewRows(rows);
  if (plan.sharesWeights)
    return plan.keyParts > 1 ? cloneAlternating(rows)
                             : cloneSharedWeights(rows);
  std::optional<HalfStep> before = half;
  if (plan.keyWarps) {
    half = HalfStep::get(rows, plan, RolesPlan::keysOfWarp);
    half->firstKeyOfRun = arith::MulIOp::create(
        b, rows.getLoc(), member, i32(RolesPlan::keysOfWarp, rows.getLoc()));
  }
  for (Operation &op : body.without_terminator()) {
    Operation *clone = b.clone(op, mapping);
    if (half)
      half->convert(&op, clone);
    if (plan.sharers > 1)
      clone->walk([&](Operation *inner) { cloneShared(inner); });
  }
  for (auto [result, value] :
       llvm::zip(rows.getResults(), body.getTerminator()->getOperands()))
    mapping.map(result, mapping.lookup(value));
  half = before;
  exchanged = steps;
}

void Consumer::waitForSlots(Value use) {
  Location loc = use.getLoc();
  for (RolesRing &ring : plan.steps)
    if (ring.within < 0)
      RingWaitOp::create(b, loc, ring.tile, ring.ring, use);
  if (plan.columns.ring)
    RingWaitOp::create(b, loc, plan.columns.types(), plan.columns.ring, use);
}

void Consumer::releaseSlots(Value use) {
  for (RolesRing &ring : plan.steps)
    if (ring.within < 0)
      RingReleaseOp::create(b, ring.load.getLoc(), ring.ring, use,
                            ValueRange());
  if (plan.columns.ring)
    RingReleaseOp::create(b, use.getLoc(), plan.columns.ring, use,
                          ValueRange());
}

void Consumer::finishStep() {
  // Of several slots, each is given back behind its product.
  if (plan.keyParts == 1)
    releaseSlots(steps);
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
  Location loc = op.getLoc();
  if (endsHalf && op == plan.lastUse) {
    lastStart = lastStep(loc, mapping.lookup(op.getLowerBound()), whole,
                         mapping.lookup(op.getStep()))
                    .first;
    return arith::SelectOp::create(b, loc, endsHalf, lastStart, whole);
  }
  if (!plan.stepsAreCounted || !rows)
    return whole;
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
  if (rows.getExtent() && plan.rowMembers() > 1) {
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
  if (endsHalf && op == plan.lastUse)
    return addHalfStep(op, loop);
  if (allSteps &&
      op == (plan.own ? plan.own.last.getOperation() : plan.lastUse))
    passOver(op.getLoc(), allSteps);
}

/// The next item's queries may come while this one is finalized.
void Consumer::releaseQueries() {
  for (RolesRing &ring : plan.queries) {
    Location loc = ring.load.getLoc();
    RingReleaseOp::create(b, loc, ring.ring,
                          ring.isWhole ? items : queryUse(loc), ValueRange());
  }
}

void Consumer::finish(Operation *op) {
  if (op == plan.own.top)
    for (auto [value, whole] : ofAllRows)
      mapping.map(value, whole);
  if (op != plan.lastUse)
    return;
  releaseQueries();
  combineSums();
}

/// A map of the queries, on the member's own rows in shared memory.
void Consumer::cloneInPlace(RolesRing &ring) {
  Location loc = ring.inPlace.getLoc();
  Block &from = ring.inPlace.getBody().front();
  OpBuilder::InsertionGuard guard(b);
  Value changes;
  // The sign of a scale is 1 for nearly everyone, who need not wait for that.
  if (Value factor = findOnlyFactor(from)) {
    Value one = arith::ConstantOp::create(
        b, loc, b.getFloatAttr(factor.getType(), 1.0));
    changes = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE,
                                    mapping.lookupOrDefault(factor), one);
  }
  if (plan.sharers > 1) {
    // One does it for all that have these rows.
    Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                          member, i32(0, loc));
    changes =
        changes ? arith::AndIOp::create(b, loc, changes, isFirst) : isFirst;
  }
  if (changes) {
    auto branch = scf::IfOp::create(b, loc, changes, /*withElseRegion=*/false);
    if (plan.sharers > 1)
      BarrierSyncOp::create(b, loc, plan.shareBarrier, /*member=*/Value(),
                            /*threads_only=*/false);
    b.setInsertionPointToStart(branch.thenBlock());
  }
  auto map = SmemMapOp::create(b, loc, ring.part);
  Block *body =
      b.createBlock(&map.getBody(), {}, {from.getArgument(2).getType()}, {loc});
  mapping.map(from.getArgument(2), body->getArgument(0));
  for (Operation &op : from.without_terminator())
    b.clone(op, mapping);
  YieldOp::create(b, loc, lookup(from.getTerminator()->getOperands()));
  // All members read these rows, of which each has mapped its own.
  if (ring.isWhole) {
    b.setInsertionPointAfter(map);
    BarrierSyncOp::create(b, loc, plan.shareBarrier, /*member=*/Value(),
                          /*threads_only=*/false);
  }
  mapping.map(ring.inPlace.getResult(0), mapping.lookup(ring.load.getResult()));
}

void Consumer::cloneTileOp(Operation *op) {
  if (isa<tile::TruthsOp>(op))
    return; // Loads take the words.
  if (plan.exchange.tile) {
    if (auto dot = dyn_cast<tile::DotOp>(op))
      return cloneExchanged(dot);
    if (auto sum = dyn_cast<tile::AccumulateOp>(op))
      return cloneSum(sum);
  }
  for (RolesRing &ring : plan.queries)
    if (ring.inPlace == op)
      return cloneInPlace(ring);
  if (auto merge = dyn_cast<tile::MergeOp>(op))
    return cloneMerge(merge);
  Operation *clone = b.clone(*op, mapping);
  if (isMerged)
    return takeChannels(op, clone);
  if (plan.sharers > 1)
    return shareTileOp(op, clone);
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
  if (auto sum = dyn_cast<tile::AccumulateOp>(clone)) {
    auto before = cast<tile::AccumulateOp>(op).getValue().getType();
    if (before != sum.getValue().getType())
      adjustRow(clone, sum.getIndicesMutable(), sum.getVector());
  }
  if (!narrowed)
    return;
  if (auto load = dyn_cast<tile::LoadOp>(clone))
    adjustRow(clone, load.getIndicesMutable(),
              load.getVector() || load.getTransposed());
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

/// Of an operation outside of the steps: its channels are the member's own, and
/// what is stored of rows, one member stores.
void Consumer::shareTileOp(Operation *op, Operation *clone) {
  Location loc = op->getLoc();
  cloneShared(clone);
  OpBuilder::InsertionGuard guard(b);
  if (auto store = dyn_cast<tile::StoreOp>(clone)) {
    b.setInsertionPoint(clone);
    if (plan.isShared(cast<tile::StoreOp>(op).getValue().getType())) {
      OpOperand &channel = *std::prev(store.getIndicesMutable().end());
      channel.set(arith::AddIOp::create(b, loc, channel.get(),
                                        memberChannel(loc, b.getIndexType())));
      return;
    }
    Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                          member, i32(0, loc));
    auto branch = scf::IfOp::create(b, loc, isFirst, /*withElseRegion=*/false);
    clone->moveBefore(branch.thenBlock()->getTerminator());
    return;
  }
  auto map = dyn_cast<tile::MapOp>(clone);
  if (!map || map->getNumResults() == 0 ||
      !plan.isShared(op->getResult(0).getType()))
    return;
  shiftChannels(map);
}

void Consumer::shiftChannels(tile::MapOp map) {
  // Positions stay those within the block's tile.
  Value channel = map.getBody().front().getArgument(1);
  if (channel.use_empty())
    return;
  Location loc = map.getLoc();
  b.setInsertionPoint(map);
  Value first = memberChannel(loc, b.getI32Type());
  b.setInsertionPointToStart(&map.getBody().front());
  auto shifted = arith::AddIOp::create(b, loc, channel, first);
  channel.replaceAllUsesExcept(shifted, shifted);
}
