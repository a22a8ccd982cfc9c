//===- HalfSteps.cpp - Steps on half of the keys of a tile ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bounds of the keys that a warpgroup's own rows see (tile.row_range) may leave
// out half of its first tile or of its last. Then the step there takes the
// other half: products of half as many keys, as many scores less to mask and to
// exponentiate. Which half it is does not differ within a warpgroup, so that
// this is a branch around whole products.
//
//===----------------------------------------------------------------------===//

#include "SpecializeWarps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::tile_gpu;

//===----------------------------------------------------------------------===//
// What becomes of operations
//===----------------------------------------------------------------------===//

std::optional<HalfStep> HalfStep::get(tile::RowsOp rows,
                                      const RolesPlan &plan) {
  // Both products take keys 16 at a time.
  int64_t keys = plan.keysOfStep();
  if (keys % 32)
    return std::nullopt;
  return get(rows, plan, keys / 2);
}

std::optional<HalfStep> HalfStep::get(tile::RowsOp rows, const RolesPlan &plan,
                                      int64_t count) {
  HalfStep step;
  step.count = count;
  step.whole = plan.keysOfStep();
  for (auto [load, place] : plan.place)
    if (load->getBlock() == rows->getBlock())
      step.wide.insert(load->getResult(0));
  Block &body = rows.getBody().front();
  if (!step.add(body) ||
      llvm::any_of(body.getTerminator()->getOperands(),
                   [&](Value value) { return step.isWide(value); }))
    return std::nullopt;
  return step;
}

/// Notes which values of a block have keys as columns; false for what cannot be
/// done with half of them.
bool HalfStep::add(Block &block) {
  auto some = [&](ValueRange values) {
    return llvm::any_of(values, [&](Value value) { return isWide(value); });
  };
  auto colsOf = [](Value value) -> int64_t {
    auto tile = dyn_cast<tile::TileType>(value.getType());
    return tile ? tile.getCols() : 0;
  };
  for (Operation &op : block.without_terminator()) {
    if (auto dot = dyn_cast<tile::DotOp>(op)) {
      if (dot.getRamp() || !isWide(dot.getRhs()) ||
          dot.getTransposeRhs() == isWide(dot.getLhs()) ||
          (dot.getTransposeRhs() && dot.getAcc()))
        return false;
      if (dot.getTransposeRhs())
        wide.insert(dot.getResult());
      continue;
    }
    if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
      if (reduce.getRows())
        return false;
      continue;
    }
    // A tile of what columns have is in a slot as a whole.
    if (llvm::any_of(op.getOperands(), [](Value operand) {
          auto load = operand.getDefiningOp<tile::LoadOp>();
          return load && load.getTransposed();
        }))
      return false;
    bool isKnown = isa<tile::MapOp, tile::AnyOp>(op);
    bool reads = some(op.getOperands());
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      isKnown = true;
      for (Region *region : branch.getRegions())
        if (!region->empty()) {
          if (!add(region->front()))
            return false;
          reads |= some(region->front().getTerminator()->getOperands());
        }
    }
    if (!isKnown && (reads || op.getNumRegions() ||
                     isa_and_nonnull<tile::TileDialect>(op.getDialect())))
      return false;
    for (Value result : op.getResults()) {
      if (reads && colsOf(result) == whole)
        wide.insert(result);
      else if (colsOf(result) > 1)
        return false;
    }
  }
  return true;
}

void HalfStep::convert(Operation *op, Operation *clone) const {
  for (auto [before, after] : llvm::zip(op->getResults(), clone->getResults()))
    after.setType(convert(before));
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    for (auto [from, to] : llvm::zip(op->getRegions(), clone->getRegions()))
      for (auto [x, y] : llvm::zip(from.getOps(), to.getOps()))
        convert(&x, &y);
    return;
  }
  auto map = dyn_cast<tile::MapOp>(clone);
  if (!map || !(firstKey || firstKeyOfRun) || !isWide(op->getResult(0)))
    return;
  // Columns are counted from the tile's first key. One is compared with a
  // bound that moves instead, as a column is no less than 0.
  Block &body = map.getBody().front();
  Value col = body.getArgument(1);
  Location loc = map.getLoc();
  OpBuilder b(map.getContext());
  for (OpOperand &use : llvm::make_early_inc_range(col.getUses())) {
    using Predicate = arith::CmpIPredicate;
    b.setInsertionPoint(use.getOwner());
    Value move = firstKeyOfRun
                     ? firstKeyOfRun
                     : arith::ConstantIntOp::create(b, loc, firstKey, 32);
    auto cmp = dyn_cast<arith::CmpIOp>(use.getOwner());
    Predicate predicate = cmp ? cmp.getPredicate() : Predicate::eq;
    bool fromZero = predicate == Predicate::slt || predicate == Predicate::sge;
    if (use.getOperandNumber() == 0 &&
        (fromZero || predicate == Predicate::sle ||
         predicate == Predicate::sgt)) {
      Value least = arith::ConstantIntOp::create(b, loc, fromZero ? 0 : -1, 32);
      Value bound = arith::MaxSIOp::create(b, loc, cmp.getRhs(), least);
      cmp.getRhsMutable().assign(arith::SubIOp::create(b, loc, bound, move));
      continue;
    }
    use.set(arith::AddIOp::create(b, loc, col, move));
  }
}

Type HalfStep::convert(Value value) const {
  auto type = dyn_cast<tile::TileType>(value.getType());
  if (!type || !wide.contains(value))
    return value.getType();
  bool isLoad = value.getDefiningOp<tile::LoadOp>();
  return tile::TileType::get(
      value.getContext(), isLoad ? count : type.getRows(),
      isLoad ? type.getCols() : count, type.getElementType());
}

//===----------------------------------------------------------------------===//
// Which steps
//===----------------------------------------------------------------------===//

/// Another result of the map that gave `weights` that these were rounded from.
static Value beforeRounding(Value weights) {
  auto map = weights.getDefiningOp<tile::MapOp>();
  if (!map)
    return {};
  auto yielded = map.getBody().front().getTerminator()->getOperands();
  auto number = cast<OpResult>(weights).getResultNumber();
  auto round = yielded[number].getDefiningOp<arith::TruncFOp>();
  if (!round || !round.getIn().getType().isF32())
    return {};
  auto it = llvm::find(yielded, round.getIn());
  return it == yielded.end() ? Value() : map.getResult(it.getIndex());
}

namespace {
struct FormValues {
  llvm::SetVector<Value> read;
  SmallVector<Value> given;
  /// Where the forms end.
  Block::iterator split;
};
} // namespace

/// What comes after the scores of a step, the products with values at first,
/// reads of what comes before; and what of that it can be made of again,
/// weights as they were before they were rounded. Nothing where that is not
/// known.
static std::optional<FormValues> valuesOfForms(Block &body,
                                               const HalfStep &step) {
  FormValues values;
  values.split = llvm::find_if(body.without_terminator(), [](Operation &op) {
    auto dot = dyn_cast<tile::DotOp>(op);
    return dot && !dot.getTransposeRhs();
  });
  for (Operation &op : llvm::make_range(values.split, body.end()))
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp();
          def && def->getBlock() == &body &&
          def->isBeforeInBlock(&*values.split))
        values.read.insert(operand);
  for (Value value : values.read) {
    if (step.isWide(value) &&
        !cast<tile::TileType>(value.getType()).getElementType().isF32())
      value = beforeRounding(value);
    if (!value)
      return std::nullopt;
    values.given.push_back(value);
  }
  return values;
}

/// `value` for the rows of member `number` alone, or of the whole block (-1):
/// something that is the same for all roles, and for the steps not yet begun.
/// Null where it is not made of scalars alone.
Value Consumer::forRowsOf(int64_t number, Value value) {
  memberRows.resize(plan.members() + 1);
  auto known = [&]() -> DenseMap<Value, Value> & {
    return memberRows[number < 0 ? plan.members() : number];
  };
  if (auto it = known().find(value); it != known().end())
    return it->second;
  Operation *def = value.getDefiningOp();
  Operation *top = plan.own ? plan.own.top : plan.branch.getOperation();
  bool isInside = top->isProperAncestor(value.getParentRegion()->getParentOp());
  if (!def || def->getNumRegions() || !isPure(def))
    return isInside || value.getParentRegion()->getParentOp() == top
               ? Value()
               : mapping.lookup(value);
  Location loc = def->getLoc();
  if (auto range = dyn_cast<tile::RowRangeOp>(def)) {
    Value first = mapping.lookup(range.getFirstRow());
    Value last = mapping.lookup(range.getLastRow());
    if (number >= 0) {
      auto rows = [&](int64_t count) -> Value {
        return arith::ConstantIndexOp::create(b, loc, count);
      };
      first = arith::AddIOp::create(b, loc, first, rows(number * plan.rows));
      last = arith::MinSIOp::create(
          b, loc, last,
          arith::AddIOp::create(b, loc, first, rows(plan.rows - 1)));
    }
    known()[range.getFirst()] = first;
    known()[range.getLast()] = last;
    return known()[value];
  }
  IRMapping own;
  bool differs = !mapping.contains(value);
  for (Value operand : def->getOperands()) {
    Value narrow = forRowsOf(number, operand);
    if (!narrow)
      return {};
    differs |= narrow != mapping.lookupOrNull(operand);
    own.map(operand, narrow);
  }
  if (!differs)
    return known()[value] = mapping.lookup(value);
  Operation *clone = b.clone(*def, own);
  for (auto [from, to] : llvm::zip(def->getResults(), clone->getResults()))
    known()[from] = to;
  return known()[value];
}

/// Finds out for every member what it takes of its first tile and of the last
/// one, from the bounds of the keys that its rows see. All of that is the same
/// for all members, so that the role that draws the items may do it
/// (tile-gpu-hoist-coordinates); which member this is comes last.
///
/// Both ends of the keys have to differ between members. With only one, those
/// that take half of a tile would wait for the one that takes all of it.
void Consumer::startSteps() {
  auto loop = dyn_cast_or_null<scf::ForOp>(plan.lastUse);
  if (!plan.halves || plan.stepsAreCounted || !loop ||
      loop->getParentOp() != plan.branch)
    return;
  auto single = plan.branch.thenBlock()->getOps<tile::RowsOp>();
  if (!llvm::hasSingleElement(single) || !onlyStep(loop))
    return;
  auto loadOf = [&](Block &block) {
    return cast<tile::LoadOp>(*llvm::find_if(
        block, [&](Operation &op) { return plan.place.contains(&op); }));
  };
  auto firstKey = [](tile::LoadOp load) {
    return load.getIndices().drop_back().back();
  };
  tile::RowsOp rows = *single.begin();
  tile::LoadOp load = loadOf(*rows->getBlock());
  auto first = HalfStep::get(rows, plan),
       last = HalfStep::get(onlyStep(loop), plan);
  if (!first || !last || !load.getLower() ||
      firstKey(loadOf(*loop.getBody())) != loop.getInductionVar() ||
      !valuesOfForms(rows.getBody().front(), *first))
    return;
  Location loc = loop.getLoc();
  Value lower = forRowsOf(-1, load.getLower());
  Value start = forRowsOf(-1, firstKey(load));
  Value from = forRowsOf(-1, loop.getLowerBound());
  Value to = forRowsOf(-1, loop.getUpperBound());
  Value by = forRowsOf(-1, loop.getStep());
  if (!lower || !start || !from || !to || !by)
    return;
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, loc, value);
  };
  auto compare = [&](arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y).getResult();
  };
  auto [end, some] = lastStep(loc, from, to, by);
  Value half = arith::AddIOp::create(b, loc, start, constant(first->keys()));
  Value lastHalf = arith::AddIOp::create(b, loc, end, constant(last->keys()));
  // Two bits for each member.
  Value bits = i32(0, loc);
  auto add = [&](Value truth, int64_t number) {
    Value bit = arith::SelectOp::create(b, loc, truth, i32(1 << number, loc),
                                        i32(0, loc));
    bits = arith::OrIOp::create(b, loc, bits, bit);
  };
  for (int64_t number = 0; number < plan.members(); ++number) {
    Value own = forRowsOf(number, load.getLower());
    Value ownEnd = forRowsOf(number, loop.getUpperBound());
    if (!own || own == lower || !ownEnd || ownEnd == to)
      return;
    add(compare(arith::CmpIPredicate::sge, own, half), 2 * number);
    Value ends = compare(arith::CmpIPredicate::sle, ownEnd, lastHalf);
    add(arith::AndIOp::create(b, loc, ends, some), 2 * number + 1);
  }
  Value twice = arith::ShLIOp::create(b, loc, member, i32(1, loc));
  bits = arith::ShRUIOp::create(b, loc, bits, twice);
  auto test = [&](int64_t bit) -> Value {
    Value one = arith::AndIOp::create(b, loc, bits, i32(bit, loc));
    return compare(arith::CmpIPredicate::ne, one, i32(0, loc));
  };
  startsHalf = test(1);
  endsHalf = test(2);
}

/// Where the last step of a loop starts, and whether there is one.
std::pair<Value, Value> Consumer::lastStep(Location loc, Value from, Value to,
                                           Value by) {
  Value one = arith::ConstantIndexOp::create(b, loc, 1);
  Value zero = arith::ConstantIndexOp::create(b, loc, 0);
  Value last = arith::SubIOp::create(b, loc, to, one);
  Value length = arith::SubIOp::create(b, loc, last, from);
  Value rest = arith::RemUIOp::create(
      b, loc, arith::MaxSIOp::create(b, loc, length, zero), by);
  return {
      arith::SubIOp::create(b, loc, last, rest),
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, length, zero)};
}

//===----------------------------------------------------------------------===//
// First steps
//===----------------------------------------------------------------------===//

/// The part of a tile of keys or values, in shared memory, that `step` takes.
Value Consumer::halfOf(const HalfStep &step, tile::LoadOp load, Value tile) {
  Location loc = load.getLoc();
  auto type = cast<SmemType>(tile.getType());
  auto part = SmemType::get(b.getContext(), step.keys(), type.getCols(),
                            type.getElementType(), type.getSwizzle(),
                            /*boxes=*/1, type.getPitch(),
                            /*transposed=*/false);
  tile = SmemSliceOp::create(b, loc, part, tile, i32(step.firstKey, loc),
                             i32(0, loc));
  return asTile(loc, tile, step.convert(load.getResult()));
}

/// The first step of which the member's rows may see the second half of the
/// tile alone has two forms, up to the weights; those of half a tile are filled
/// up with zeros, and what comes after is the same for both.
void Consumer::cloneHalves(tile::RowsOp rows) {
  Location loc = rows.getLoc();
  Block &body = rows.getBody().front();
  auto step = HalfStep::get(rows, plan);
  step->firstKey = step->keys();
  FormValues values = *valuesOfForms(body, *step);
  const SmallVector<Value> &given = values.given;
  Block::iterator split = values.split;
  SmallVector<Type> types;
  for (Value value : given)
    types.push_back(value.getType());
  auto branch = scf::IfOp::create(b, loc, types, startsHalf,
                                  /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    SmallVector<std::pair<Value, Value>> tiles;
    b.setInsertionPointToStart(branch.thenBlock());
    for (Operation &op : *rows->getBlock())
      if (plan.place.contains(&op)) {
        auto load = cast<tile::LoadOp>(op);
        Value whole = mapping.lookup(load.getResult());
        tiles.push_back({load.getResult(), whole});
        Value smem =
            whole.getDefiningOp<UnrealizedConversionCastOp>().getOperand(0);
        mapping.map(load.getResult(), halfOf(*step, load, smem));
      }
    auto fill = [&](bool isHalf) {
      for (Operation &op : llvm::make_range(body.begin(), split)) {
        Operation *clone = b.clone(op, mapping);
        if (isHalf)
          step->convert(&op, clone);
      }
      SmallVector<Value> yielded;
      for (Value value : given) {
        Value mapped = mapping.lookup(value);
        if (isHalf && step->isWide(value))
          mapped = tile::PadOp::create(b, loc, value.getType(), mapped,
                                       step->firstKey);
        yielded.push_back(mapped);
      }
      scf::YieldOp::create(b, loc, yielded);
    };
    fill(/*isHalf=*/true);
    for (Operation &op : llvm::make_range(body.begin(), split))
      forget(&op);
    for (auto [load, whole] : tiles)
      mapping.map(load, whole);
    b.setInsertionPointToStart(branch.elseBlock());
    fill(/*isHalf=*/false);
  }
  for (auto [value, from, result] :
       llvm::zip(values.read, given, branch.getResults())) {
    mapping.map(value, result);
    if (value == from)
      continue;
    auto round =
        tile::MapOp::create(b, loc, TypeRange(value.getType()), result);
    OpBuilder::InsertionGuard guard(b);
    Type i32 = b.getI32Type();
    Block *inner = b.createBlock(&round.getBody(), {},
                                 {i32, i32, b.getF32Type()}, {loc, loc, loc});
    tile::YieldOp::create(
        b, loc,
        Value(arith::TruncFOp::create(
            b, loc, cast<tile::TileType>(value.getType()).getElementType(),
            inner->getArgument(2))));
    mapping.map(value, round.getResult(0));
  }
  for (Operation &op :
       llvm::make_range(split, Block::iterator(body.getTerminator())))
    b.clone(op, mapping);
  for (auto [result, value] :
       llvm::zip(rows.getResults(), body.getTerminator()->getOperands()))
    mapping.map(result, mapping.lookup(value));
}

//===----------------------------------------------------------------------===//
// Last steps
//===----------------------------------------------------------------------===//

/// The step on half of a tile behind `loop`, where there is one.
void Consumer::addHalfStep(scf::ForOp op, scf::ForOp loop) {
  Location loc = op.getLoc();
  auto branch = scf::IfOp::create(b, loc, loop.getResultTypes(), endsHalf,
                                  /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, loc, loop.getResults());
    b.setInsertionPointToStart(branch.thenBlock());
    forget(op);
    mapping.map(op.getInductionVar(), lastStart);
    for (auto [argument, result] :
         llvm::zip(op.getRegionIterArgs(), op.getResults()))
      mapping.map(argument, mapping.lookup(result));
    half = HalfStep::get(onlyStep(op), plan);
    cloneBlock(*op.getBody());
    half.reset();
    SmallVector<Value> yielded = {steps};
    llvm::append_range(yielded, lookup(op.getYieldedValues()));
    scf::YieldOp::create(b, loc, yielded);
  }
  steps = branch.getResult(0);
  for (auto [result, value] :
       llvm::zip(op.getResults(), branch.getResults().drop_front()))
    mapping.map(result, value);
}
