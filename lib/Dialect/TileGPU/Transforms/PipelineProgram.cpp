//===- PipelineProgram.cpp - The program of a warp that loads for itself --===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every warp walks the kernel's body on its own rows and takes its part in
// every copy; a wait for copies is one for all warps. In a loop over key tiles
// with one slot for each operand, the values of a tile are on their way while
// its scores are computed, and the next keys during the rest; with two slots
// the next tile is copied while this one is computed.
//
//===----------------------------------------------------------------------===//

#include "PipelineCopies.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::tile_gpu;

//===----------------------------------------------------------------------===//
// Small helpers
//===----------------------------------------------------------------------===//

Type PipelineProgram::convert(Type type) const {
  auto tile = dyn_cast<tile::TileType>(type);
  if (!tile || (tile.getRows() != plan.blockQ && tile.getRows() != plan.rows))
    return type;
  return tile::TileType::get(type.getContext(), plan.warpRows, tile.getCols(),
                             tile.getElementType());
}

Value PipelineProgram::toI32(Value value) {
  return b.createOrFold<arith::IndexCastOp>(value.getLoc(), b.getI32Type(),
                                            value);
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

LogicalResult PipelineProgram::cloneBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    LogicalResult result = success();
    if (auto load = dyn_cast<tile::LoadOp>(op))
      cloneLoad(load);
    else if (auto rows = dyn_cast<tile::RowsOp>(op))
      result = cloneRows(rows);
    else if (auto loop = dyn_cast<scf::ForOp>(op))
      result = cloneFor(loop);
    else if (auto branch = dyn_cast<scf::IfOp>(op))
      result = cloneIf(branch);
    else if (auto range = dyn_cast<tile::RowRangeOp>(op)) {
      // Warps load tiles together, for all rows of the block.
      mapping.map(range.getFirst(), mapping.lookup(range.getFirstRow()));
      mapping.map(range.getLast(), mapping.lookup(range.getLastRow()));
    } else if (isa<tile::WorkTileOp, tile::SourceOp>(op))
      continue; // The loop's item stands for it, or its loads know it.
    else if (isa_and_nonnull<tile::TileDialect>(op.getDialect()))
      result = cloneTileOp(&op);
    else
      b.clone(op, mapping);
    if (failed(result))
      return failure();
  }
  return success();
}

/// A load of what the kernel only reads, such as the pages of a sequence.
static bool isFixedLoad(Operation *op) {
  auto load = dyn_cast<memref::LoadOp>(op);
  auto argument =
      load ? dyn_cast<BlockArgument>(load.getMemRef()) : BlockArgument();
  return argument && isa<tile::KernelOp>(argument.getOwner()->getParentOp()) &&
         llvm::all_of(argument.getUsers(), [](Operation *user) {
           return isa<memref::LoadOp, memref::DimOp, tile::SourceOp>(user);
         });
}

/// A loop whose body loads a step's tiles at positions that are known ahead.
std::optional<PipelineProgram::Ahead>
PipelineProgram::analyseLoop(scf::ForOp loop) {
  Ahead result;
  result.loop = loop;
  Block &body = *loop.getBody();
  for (Operation &op : body)
    if (plan.isStep(&op))
      result.loads.push_back(cast<tile::LoadOp>(op));
  if (result.loads.empty())
    return std::nullopt;
  // What their positions are computed from, within the body.
  llvm::SetVector<Operation *> slice;
  SmallVector<Value> work;
  for (tile::LoadOp load : result.loads) {
    llvm::append_range(work, load.getIndices());
    for (Value bound : {load.getLower(), load.getUpper()})
      if (bound)
        work.push_back(bound);
  }
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (value.getParentBlock() != &body || value == loop.getInductionVar())
      continue;
    Operation *op = value.getDefiningOp();
    if (!op || op->getNumRegions() ||
        !(isMemoryEffectFree(op) || isFixedLoad(op)))
      return std::nullopt;
    if (slice.insert(op))
      llvm::append_range(work, op->getOperands());
  }
  result.slice = slice.takeVector();
  llvm::sort(result.slice,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return result;
}

IRMapping PipelineProgram::at(Ahead &loop, Value position) {
  IRMapping result = mapping;
  result.map(loop.loop.getInductionVar(), position);
  for (Operation *op : loop.slice)
    b.clone(*op, result);
  return result;
}

/// Whether a loop is over what is left of others' whole steps: from
/// max(upper / step * step, 0), or from that without the max, to upper.
static bool stepsAtMostOnce(scf::ForOp loop) {
  Value lower = loop.getLowerBound(), upper = loop.getUpperBound();
  if (auto select = lower.getDefiningOp<arith::SelectOp>()) {
    auto compare = select.getCondition().getDefiningOp<arith::CmpIOp>();
    bool isMax = compare &&
                 compare.getPredicate() == arith::CmpIPredicate::sgt &&
                 compare.getLhs() == select.getTrueValue() &&
                 compare.getRhs() == select.getFalseValue();
    lower = isMax ? select.getTrueValue() : Value();
  } else if (auto max = lower.getDefiningOp<arith::MaxSIOp>()) {
    lower = max.getLhs();
  }
  auto whole = lower ? lower.getDefiningOp<arith::MulIOp>() : nullptr;
  if (!whole || whole.getRhs() != loop.getStep())
    return false;
  Operation *count = whole.getLhs().getDefiningOp();
  return isa_and_nonnull<arith::DivUIOp, arith::DivSIOp>(count) &&
         count->getOperand(0) == upper &&
         count->getOperand(1) == loop.getStep();
}

/// Whether a loop runs others whose copies run ahead.
bool PipelineProgram::holdsLoopOfSteps(scf::ForOp loop) {
  return loop.getBody()
      ->walk([&](scf::ForOp inner) {
        return analyseLoop(inner) ? WalkResult::interrupt()
                                  : WalkResult::advance();
      })
      .wasInterrupted();
}

LogicalResult PipelineProgram::cloneFor(scf::ForOp op) {
  Location loc = op.getLoc();
  SmallVector<Value> initial = {steps};
  for (Value value : op.getInitArgs())
    initial.push_back(mapping.lookup(value));
  // Positions are i32, and so half as many registers.
  bool narrow = op.getInductionVar().getType().isIndex();
  auto bound = [&](Value value) {
    value = mapping.lookup(value);
    return narrow ? toI32(value) : value;
  };
  auto position = [&](Value value) {
    return narrow ? b.createOrFold<arith::IndexCastOp>(loc, b.getIndexType(),
                                                       value)
                  : value;
  };
  Value lower = bound(op.getLowerBound());
  Value upper = bound(op.getUpperBound());
  Value step = bound(op.getStep());
  if (op == plan.divided)
    divideSteps(lower, step);

  std::optional<Ahead> own = analyseLoop(op);
  // Where tiles were passed over, the last reads of a slot may be from any step
  // before.
  if (own && passesOver)
    syncWarps(loc);
  if (own)
    passesOver = false;
  if (own) {
    Value some =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, lower, upper);
    auto branch = scf::IfOp::create(b, loc, some, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    IRMapping first = at(*own, position(lower));
    // Earlier steps' reads of this slot lie before their last wait.
    issue(/*ring=*/0, own->loads, first, steps);
  }
  takeQueries();

  auto loop = scf::ForOp::create(b, loc, lower, upper, step, initial);
  steps = loop.getRegionIterArg(0);
  for (auto [argument, lowered] :
       llvm::zip(op.getRegionIterArgs(), loop.getRegionIterArgs().drop_front()))
    mapping.map(argument, lowered);
  Ahead *outer = ahead;
  ahead = own ? &*own : nullptr;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    mapping.map(op.getInductionVar(), position(loop.getInductionVar()));
    // Slots that the last turn has read are filled again before any wait.
    if (!own && holdsLoopOfSteps(op))
      syncWarps(loc);
    if (own && !stepsAtMostOnce(op)) {
      Value next = arith::AddIOp::create(b, loc, loop.getInductionVar(), step);
      own->more =
          arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, next, upper);
      own->nextPosition = position(next);
    }
    if (failed(cloneBlock(*op.getBody())))
      return failure();
    SmallVector<Value> yielded = {steps};
    for (Value value : op.getYieldedValues())
      yielded.push_back(mapping.lookup(value));
    scf::YieldOp::create(b, loc, yielded);
  }
  ahead = outer;
  steps = loop.getResult(0);
  for (auto [result, lowered] :
       llvm::zip(op.getResults(), loop.getResults().drop_front()))
    mapping.map(result, lowered);
  return success();
}

LogicalResult PipelineProgram::cloneIf(scf::IfOp op) {
  takeQueries();
  SmallVector<Type> types = {steps.getType()};
  for (Type type : op.getResultTypes())
    types.push_back(convert(type));
  auto branch = scf::IfOp::create(b, op.getLoc(), types,
                                  mapping.lookup(op.getCondition()),
                                  /*withElseRegion=*/true);
  Value before = steps;
  auto fill = [&](Region &from, Region &to) -> LogicalResult {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&to.front());
    steps = before;
    SmallVector<Value> yielded;
    if (!from.empty()) {
      if (failed(cloneBlock(from.front())))
        return failure();
      for (Value value : from.front().getTerminator()->getOperands())
        yielded.push_back(mapping.lookup(value));
    }
    yielded.insert(yielded.begin(), steps);
    scf::YieldOp::create(b, op.getLoc(), yielded);
    return success();
  };
  Ahead *outer = ahead;
  ahead = nullptr;
  if (failed(fill(op.getThenRegion(), branch.getThenRegion())) ||
      failed(fill(op.getElseRegion(), branch.getElseRegion())))
    return failure();
  ahead = outer;
  passesOver |=
      branch.thenYield().getOperand(0) != branch.elseYield().getOperand(0);
  steps = branch.getResult(0);
  for (auto [result, lowered] :
       llvm::zip(op.getResults(), branch.getResults().drop_front()))
    mapping.map(result, lowered);
  return success();
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

Value tile_gpu::memoryOf(tile::LoadOp load) {
  auto source = load.getSource().getDefiningOp<tile::SourceOp>();
  return source ? source.getMemory() : load.getSource();
}

/// Copies from a tensor; of a source whose rows do not lie one after the other,
/// each is found by itself.
void PipelineProgram::createCopy(tile::LoadOp load, IRMapping &at,
                                 ValueRange indices, Value tile, Value from,
                                 Value rows) {
  auto source = load.getSource().getDefiningOp<tile::SourceOp>();
  auto lookup = [&](Value value) { return value ? at.lookup(value) : value; };
  RingLoadOp::create(b, load.getLoc(), at.lookup(memoryOf(load)), indices, tile,
                     /*box=*/Value(), from, rows,
                     source ? lookup(source.getTable()) : Value(),
                     /*entries=*/Value(), /*first_entry=*/Value(),
                     source ? lookup(source.getStart()) : Value(),
                     source ? source.getBoxesAttr() : IntegerAttr(),
                     /*page=*/IntegerAttr(), /*evict_first=*/false);
}

void PipelineProgram::issue(unsigned number, ArrayRef<tile::LoadOp> loads,
                            IRMapping &at, Value counter) {
  StepRing &ring = plan.rings[number];
  Location loc = tile::LoadOp(loads.front()).getLoc();
  auto acquire = RingAcquireOp::create(b, loc, ring.ring, counter);
  for (tile::LoadOp load : loads) {
    const StepTile &place = plan.place(load);
    if (place.ring != number)
      continue;
    loc = load.getLoc();
    auto position = [&](Value value) { return toI32(at.lookup(value)); };
    SmallVector<Value> indices =
        llvm::map_to_vector(load.getIndices(), position);
    Value from, rows;
    if (load.getUpper()) {
      rows = position(load.getUpper());
      if (!matchPattern(load.getLower(), m_Zero()))
        from = position(load.getLower());
    }
    createCopy(load, at, indices, acquire.getResult(place.index), from, rows);
  }
  RingCommitOp::create(b, loc, ring.ring, counter);
}

void PipelineProgram::waitFor(unsigned number) {
  StepRing &ring = plan.rings[number];
  Location loc = met.front().getLoc();
  auto wait = RingWaitOp::create(b, loc, ring.ring, steps);
  for (tile::LoadOp load : met) {
    const StepTile &place = plan.place(load);
    if (place.ring != number)
      continue;
    Value tile = wait.getResult(place.index);
    // A value row that no query may see must not reach one, not even times 0.
    if (load.getLive()) {
      auto type = cast<tile::TileType>(load.getLive().getType());
      auto vec = VecType::get(b.getContext(), type.getCols(), b.getI1Type(),
                              Axis::Col, Scope::Warp, /*partial=*/false);
      SmemClearRowsOp::create(b, loc, tile, /*from=*/Value(),
                              /*before=*/Value(),
                              asTile(loc, mapping.lookup(load.getLive()), vec),
                              /*bits=*/ValueRange());
    }
    mapping.map(load.getResult(), asTile(loc, tile, load.getType()));
  }
}

void PipelineProgram::syncWarps(Location loc) {
  BarrierSyncOp::create(b, loc, plan.barrier, Value(),
                        /*threads_only=*/false);
}

void PipelineProgram::prefetch(unsigned ring) {
  if (!ahead->more)
    return;
  Location loc = ahead->loop.getLoc();
  auto branch =
      scf::IfOp::create(b, loc, ahead->more, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  IRMapping next = at(*ahead, ahead->nextPosition);
  issue(ring, ahead->loads, next,
        arith::AddIOp::create(b, loc, steps, i32(1, loc)));
}

/// At the last load of a step, whose copies were started by the step before:
/// waits for what is needed first, and so for all warps to have left that step
/// behind. Then the slots that it read are free.
void PipelineProgram::startStep() {
  if (!ahead) {
    // Earlier steps may still read all slots.
    syncWarps(met.front().getLoc());
    for (unsigned ring = 0; ring < plan.rings.size(); ++ring)
      issue(ring, met, mapping, steps);
    waitFor(0);
    // With one slot for all tiles no wait comes behind its reads.
    passesOver |= plan.stages == 1 && plan.rings.size() == 1;
    return;
  }
  waitFor(0);
  if (plan.stages > 1)
    prefetch(0);
  else if (plan.rings.size() > 1)
    issue(1, met, mapping, steps);
}

/// After the last use of what a step needs first.
void PipelineProgram::continueStep(Location loc) {
  bool second = plan.rings.size() > 1;
  if (second)
    waitFor(1);
  if (!ahead || plan.stages > 1)
    return;
  if (!second)
    syncWarps(loc);
  prefetch(0);
}

/// Each warp turns some rows of the tile, and waits for the others.
void PipelineProgram::turnInPlace(tile::TurnOp turn) {
  b.clone(*turn, mapping);
  syncWarps(turn.getLoc());
}

void PipelineProgram::cloneLoad(tile::LoadOp load) {
  for (QueryRing &query : plan.queries)
    if (query.load == load)
      return startQuery(query);
  if (plan.isStep(load)) {
    met.push_back(load);
    if (met.size() == plan.steps.size()) {
      startStep();
      for (tile::TurnOp turn : waiting)
        turnInPlace(turn);
      waiting.clear();
    }
    return;
  }
  auto clone = cast<tile::LoadOp>(b.clone(*load, mapping));
  clone.getResult().setType(cast<tile::TileType>(convert(load.getType())));
  // Of a transposed tile the rows are columns of memory.
  if (clone.getType() != load.getType())
    adjustRow(clone, clone.getIndicesMutable(),
              load.getVector() || load.getTransposed());
}

/// Queries are loaded once for the block; their slot is never filled again.
void PipelineProgram::startQuery(QueryRing &query) {
  tile::LoadOp load = query.load;
  Location loc = load.getLoc();
  Value zero = i32(0, loc);
  Value tile =
      RingAcquireOp::create(b, loc, query.tile, query.ring, zero).getResult(0);
  auto position = [&](Value value) { return toI32(mapping.lookup(value)); };
  // The block's first row is the first of its tile: no lower bound.
  Value rows = load.getUpper() ? position(load.getUpper()) : Value();
  createCopy(load, mapping, llvm::map_to_vector(load.getIndices(), position),
             tile, /*from=*/Value(), rows);
  RingCommitOp::create(b, loc, query.ring, zero);
  started.push_back(&query);
}

/// Waits for queries once, with what else is on its way by then.
void PipelineProgram::takeQueries() {
  for (QueryRing *query : started) {
    tile::LoadOp load = query->load;
    Location loc = load.getLoc();
    Value zero = i32(0, loc);
    Value mine =
        RingWaitOp::create(b, loc, query->tile, query->ring, zero).getResult(0);
    Type element = query->tile.getElementType();
    if (plan.warps() > 1) {
      auto part =
          SmemType::get(b.getContext(), plan.warpRows, query->tile.getCols(),
                        element, query->tile.getSwizzle(), /*boxes=*/1,
                        /*pitch=*/plan.blockQ, /*transposed=*/false);
      mine = SmemSliceOp::create(b, loc, part, mine,
                                 memberRow(loc, b.getI32Type()), zero);
    }
    if (query->registers)
      mine = FragLoadOp::create(b, loc,
                                FragType::get(b.getContext(), plan.warpRows,
                                              query->tile.getCols(), element,
                                              Layout::A, Scope::Warp),
                                mine);
    mapping.map(load.getResult(), asTile(loc, mine, convert(load.getType())));
  }
  started.clear();
}

//===----------------------------------------------------------------------===//
// Tile operations
//===----------------------------------------------------------------------===//

/// A transposed left operand is read in the columns of the member's own rows.
void PipelineProgram::takeColumns(tile::DotOp dot) {
  tile::TileType lhs = dot.getLhs().getType();
  int64_t rows = dot.getType().getRows();
  if (!dot.getTransposeLhs() || lhs.getCols() == rows)
    return;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(dot);
  Location loc = dot.getLoc();
  Value tile =
      dot.getLhs().getDefiningOp<UnrealizedConversionCastOp>().getOperand(0);
  auto whole = cast<SmemType>(tile.getType());
  auto part = SmemType::get(b.getContext(), whole.getRows(), rows,
                            whole.getElementType(), whole.getSwizzle(),
                            /*boxes=*/1, whole.getPitch(),
                            /*transposed=*/false);
  Value mine = SmemSliceOp::create(b, loc, part, tile, i32(0, loc),
                                   memberRow(loc, b.getI32Type()));
  dot.getLhsMutable().assign(
      asTile(loc, mine,
             tile::TileType::get(b.getContext(), lhs.getRows(), rows,
                                 lhs.getElementType())));
}

/// The member's own rows of what blocks of rows take: of a tile that is copied
/// for the step, a part.
Value PipelineProgram::takeRows(Value operand) {
  Value tile = mapping.lookup(operand);
  Operation *load = operand.getDefiningOp();
  if (!load || !plan.isStep(load) || plan.warps() == 1)
    return tile;
  Location loc = load->getLoc();
  Value all = tile.getDefiningOp<UnrealizedConversionCastOp>().getOperand(0);
  auto whole = cast<SmemType>(all.getType());
  auto part = SmemType::get(b.getContext(), plan.warpRows, whole.getCols(),
                            whole.getElementType(), whole.getSwizzle(),
                            /*boxes=*/1, whole.getPitch(),
                            /*transposed=*/false);
  Value mine = SmemSliceOp::create(b, loc, part, all,
                                   memberRow(loc, b.getI32Type()), i32(0, loc));
  return asTile(loc, mine, convert(operand.getType()));
}

LogicalResult PipelineProgram::cloneRows(tile::RowsOp rows) {
  takeQueries();
  Location loc = rows.getLoc();
  Block &body = rows.getBody().front();
  mapping.map(body.getArgument(0), memberRow(loc, b.getIndexType()));
  SmallVector<Value> operands(rows.getInputs());
  llvm::append_range(operands, rows.getOuts());
  for (auto [argument, operand] :
       llvm::zip(body.getArguments().drop_front(), operands))
    mapping.map(argument, takeRows(operand));

  // Where the early tiles, or all where none is early, are read last.
  bool step = !met.empty();
  bool someEarly =
      llvm::any_of(plan.steps, [](const StepTile &tile) { return tile.early; });
  Operation *last = nullptr;
  for (Operation &op : body)
    for (Value operand : op.getOperands()) {
      Operation *load = operand.getDefiningOp();
      if (auto turn = dyn_cast_if_present<tile::TurnOp>(load))
        load = turn.getInput().getDefiningOp();
      if (load && plan.isStep(load) && (plan.place(load).early || !someEarly))
        last = &op;
    }
  if (step && !last)
    continueStep(loc);
  for (Operation &op : body.without_terminator()) {
    // Branches hold tiles too.
    b.clone(op, mapping)->walk([&](Operation *inner) {
      for (Value result : inner->getResults())
        result.setType(convert(result.getType()));
      if (auto dot = dyn_cast<tile::DotOp>(inner))
        takeColumns(dot);
    });
    if (step && last == &op)
      continueStep(loc);
  }
  for (auto [result, value] :
       llvm::zip(rows.getResults(), body.getTerminator()->getOperands()))
    mapping.map(result, mapping.lookup(value));
  if (step)
    steps = arith::AddIOp::create(b, loc, steps, i32(1, loc));
  met.clear();
  return success();
}

LogicalResult PipelineProgram::cloneTileOp(Operation *op) {
  if (auto turn = dyn_cast<tile::TurnOp>(op)) {
    // Tiles are there once all of the step are asked for.
    if (met.size() == plan.steps.size())
      turnInPlace(turn);
    else
      waiting.push_back(turn);
    return success();
  }
  if (auto reduce = dyn_cast<tile::ReduceOp>(op))
    if (reduce.getRows())
      return reduceRows(reduce);
  if (auto bits = dyn_cast<tile::BitsOp>(op))
    return cloneBits(bits);
  if (auto merge = dyn_cast<tile::MergeOp>(op); merge && merge == plan.merge) {
    cloneMerge(merge);
    return success();
  }
  if (auto any = dyn_cast<tile::AnyOp>(op))
    if (plan.warps() > 1 && !any.getByRows() &&
        convert(any.getValue().getType()) != any.getValue().getType())
      return op->emitOpError("expected columns, or rows that may see answers "
                             "of their own (by_rows), where warps hold ")
             << "different rows, but got " << any.getValue().getType();
  Operation *clone = b.clone(*op, mapping);
  bool narrowed = false;
  for (Value result : clone->getResults()) {
    Type type = convert(result.getType());
    narrowed |= type != result.getType();
    result.setType(type);
  }
  if (auto store = dyn_cast<tile::StoreOp>(clone))
    adjustRow(clone, store.getIndicesMutable(),
              store.getVector() || store.getTransposed());
  if (auto sum = dyn_cast<tile::AccumulateOp>(clone))
    adjustRow(clone, sum.getIndicesMutable(), sum.getVector());
  if (auto store = dyn_cast<tile::StoreBitsOp>(clone)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(clone);
    store.getRowMutable().assign(
        arith::AddIOp::create(b, op->getLoc(), store.getRow(),
                              memberRow(op->getLoc(), b.getIndexType())));
  }
  if (plan.merge && isa<tile::StoreOp>(clone))
    storeOnce(clone);
  auto map = dyn_cast<tile::MapOp>(clone);
  if (!map || !narrowed)
    return success();
  // Positions stay those within the block's tile.
  Block &body = map.getBody().front();
  Value row = body.getArgument(0);
  if (row.use_empty())
    return success();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(clone);
  Value first = memberRow(op->getLoc(), b.getI32Type());
  b.setInsertionPointToStart(&body);
  auto shifted = arith::AddIOp::create(b, op->getLoc(), row, first);
  row.replaceAllUsesExcept(shifted, shifted);
  return success();
}

FailureOr<Value>
PipelineProgram::exchange(Operation *op, Value mine, VecType type,
                          function_ref<Value(Value, Value)> combine) {
  Location loc = op->getLoc();
  SmemType scratch = cast<SmemType>(plan.exchange.getType());
  if (scratch.getCols() != type.getSize())
    return op->emitOpError("expected reductions over rows of one width, ")
           << scratch.getCols() << ", but got " << type.getSize();
  // Nobody reads the last exchange any more.
  BarrierSyncOp::create(b, loc, plan.barrier, Value(),
                        /*threads_only=*/false);
  VecStoreOp::create(b, loc, mine, plan.exchange, member);
  BarrierSyncOp::create(b, loc, plan.barrier, Value(),
                        /*threads_only=*/false);
  Value all;
  for (int64_t warp = 0; warp < plan.warps(); ++warp) {
    Value read = VecLoadOp::create(b, loc, type, plan.exchange, i32(warp, loc),
                                   /*permuted=*/false);
    all = all ? combine(all, read) : read;
  }
  return all;
}

/// Each warp reduces its own rows; all read the others' results from shared
/// memory and combine them in one order, so that all decide alike.
LogicalResult PipelineProgram::reduceRows(tile::ReduceOp op) {
  Location loc = op.getLoc();
  Operation *own = b.clone(*op, mapping);
  if (plan.warps() == 1)
    return success();
  auto type = cast<tile::TileType>(op.getResult(0).getType());
  if (op.getNumResults() != 1 || !type.getElementType().isInteger(1))
    return op.emitOpError("expected one i1 in a reduction over the rows of all "
                          "warps");
  Type i1 = b.getI1Type(), i32Type = b.getI32Type();
  Value zero = i32(0, loc), one = i32(1, loc);
  Value mine =
      mapVec(loc, asTile(loc, own->getResult(0), colVec(type.getCols(), i1)),
             i32Type, [&](ValueRange x) -> Value {
               return arith::SelectOp::create(b, loc, x[0], one, zero);
             });
  auto flagOf = [&](Value number) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, number,
                                 zero);
  };
  auto all = exchange(
      op, mine, colVec(type.getCols(), i32Type), [&](Value x, Value y) {
        return mapVec(loc, {x, y}, i32Type, [&](ValueRange numbers) -> Value {
          IRMapping inner = mapping;
          Block &combine = op.getBody().front();
          inner.map(combine.getArgument(0), flagOf(numbers[0]));
          inner.map(combine.getArgument(1), flagOf(numbers[1]));
          for (Operation &inside : combine.without_terminator())
            b.clone(inside, inner);
          Value flag = inner.lookup(combine.getTerminator()->getOperand(0));
          return arith::SelectOp::create(b, loc, flag, one, zero);
        });
      });
  if (failed(all))
    return failure();
  Value flags = mapVec(loc, *all, i1,
                       [&](ValueRange x) -> Value { return flagOf(x[0]); });
  mapping.map(op.getResult(0), asTile(loc, flags, type));
  return success();
}

VecType PipelineProgram::colVec(int64_t size, Type element) {
  return VecType::get(b.getContext(), size, element, Axis::Col, Scope::Warp,
                      /*partial=*/false);
}

Value PipelineProgram::mapVec(Location loc, ValueRange inputs, Type result,
                              function_ref<Value(ValueRange)> body) {
  int64_t size = cast<VecType>(inputs[0].getType()).getSize();
  auto mapOp = MapOp::create(b, loc, TypeRange(colVec(size, result)), inputs);
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Type> types(2, b.getI32Type());
  for (Value input : inputs)
    types.push_back(cast<VecType>(input.getType()).getElementType());
  Block *block = b.createBlock(&mapOp.getBody(), {}, types,
                               SmallVector<Location>(types.size(), loc));
  YieldOp::create(b, loc, body(block->getArguments().drop_front(2)));
  return mapOp.getResult(0);
}

/// A tile of which each column is a word: a row sets its bit in the column of
/// its word, and all rows are joined.
LogicalResult PipelineProgram::cloneBits(tile::BitsOp op) {
  Location loc = op.getLoc();
  int64_t cols = wordColumns(op);
  Type i32Type = b.getI32Type();
  auto rowsOf = [](Value value) {
    return cast<tile::TileType>(value.getType()).getRows();
  };
  SmallVector<Value> inputs = llvm::map_to_vector(
      op.getValues(), [&](Value v) { return mapping.lookup(v); });
  Value first = memberRow(loc, i32Type);
  auto spread =
      tile::MapOp::create(b, loc,
                          TypeRange(tile::TileType::get(
                              b.getContext(), plan.warpRows, cols, i32Type)),
                          inputs);
  {
    OpBuilder::InsertionGuard guard(b);
    SmallVector<Type> types(2, i32Type);
    types.append(inputs.size(), b.getI1Type());
    Block *body = b.createBlock(&spread.getBody(), {}, types,
                                SmallVector<Location>(types.size(), loc));
    Value zero = i32(0, loc);
    Value row = arith::AddIOp::create(b, loc, body->getArgument(0), first);
    Value word = arith::ShRUIOp::create(b, loc, row, i32(5, loc));
    Value bit = arith::ShLIOp::create(
        b, loc, i32(1, loc), arith::AndIOp::create(b, loc, row, i32(31, loc)));
    Value all = zero;
    int64_t start = 0;
    for (auto [i, value] : llvm::enumerate(op.getValues())) {
      Value place = arith::AddIOp::create(b, loc, word, i32(start, loc));
      Value here = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                         body->getArgument(1), place);
      Value truth =
          arith::AndIOp::create(b, loc, here, body->getArgument(2 + i));
      all = arith::SelectOp::create(b, loc, truth, bit, all);
      start += llvm::divideCeil(rowsOf(value), 32);
    }
    tile::YieldOp::create(b, loc, all);
  }
  auto own = tile::ReduceOp::create(
      b, loc, TypeRange(tile::TileType::get(b.getContext(), 1, cols, i32Type)),
      spread.getResults(), ValueRange(i32(0, loc)), /*rows=*/true,
      /*ordered=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    Block *body =
        b.createBlock(&own.getBody(), {}, {i32Type, i32Type}, {loc, loc});
    tile::YieldOp::create(
        b, loc,
        Value(arith::OrIOp::create(b, loc, body->getArgument(0),
                                   body->getArgument(1))));
  }
  VecType type = colVec(cols, i32Type);
  Value words = asTile(loc, own.getResult(0), type);
  if (plan.warps() > 1) {
    auto all = exchange(op, words, type, [&](Value x, Value y) {
      return mapVec(loc, {x, y}, i32Type, [&](ValueRange z) -> Value {
        return arith::OrIOp::create(b, loc, z[0], z[1]);
      });
    });
    if (failed(all))
      return failure();
    words = *all;
  }
  auto elements =
      VecElementsOp::create(b, loc, SmallVector<Type>(cols, i32Type), words);
  for (auto [result, element] :
       llvm::zip_first(op.getWords(), elements.getElements()))
    mapping.map(result, element);
  return success();
}
