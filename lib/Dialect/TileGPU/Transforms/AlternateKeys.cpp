//===- AlternateKeys.cpp - Keys that two warpgroups take by turns ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Warpgroups that share the channels of the sums need the weights of the same
// rows. Where a tile of keys is two slots, each of two warpgroups takes one:
//
//   member 0                          member 1
//   scores of slot 0                  scores of slot 1
//   statistics, from those of slot 1
//   of the step before
//   weights to slot 0
//   ------------------- weights of slot 0 are there ----------------------
//   sum of slot 0, from registers     sum of slot 0 starts
//                                     statistics, from those of slot 0
//                                     weights to slot 1
//   ------------------- weights of slot 1 are there ----------------------
//   sum of slot 1                     sum of slot 1, from registers
//
// The rows' state goes through the slots in the order of the keys, as if each
// were a step, so that the first member is ahead by a slot: one multiplies
// while the other computes weights. These lie in the columns of their keys that
// no value has. Where members meet, products run that both have issued, so that
// neither waits for long.
//
//===----------------------------------------------------------------------===//

#include "AnalyseRoles.h"
#include "SpecializeWarps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::tile_gpu;

Value mlir::tile_gpu::findOnlyFactor(Block &body) {
  Value factor;
  for (Operation &op : body.without_terminator()) {
    if (isa<arith::ExtFOp, arith::TruncFOp>(op))
      continue;
    auto mul = dyn_cast<arith::MulFOp>(op);
    if (!mul || factor)
      return {};
    factor =
        mul.getLhs().getParentBlock() == &body ? mul.getRhs() : mul.getLhs();
    if (factor.getParentBlock() == &body)
      return {};
  }
  return factor;
}

//===----------------------------------------------------------------------===//
// Whether it can be
//===----------------------------------------------------------------------===//

static ArrayRef<BlockArgument> statesOf(tile::RowsOp rows) {
  return rows.getBody().front().getArguments().take_back(rows.getOuts().size());
}

/// Whether steps alone see a part of the state between the first step and the
/// last one.
static bool isPassedOn(Value value) {
  return llvm::all_of(value.getUsers(), [](Operation *user) {
    auto yield = dyn_cast<scf::YieldOp>(user);
    return isa<tile::RowsOp, scf::ForOp>(user) ||
           (yield && isa<scf::ForOp>(yield->getParentOp()));
  });
}

/// The parts of a step's state that are neither the sums over values nor the
/// members' own sums: statistics of rows, of one column, that begin with a
/// constant. Nothing where others see them.
static std::optional<SmallVector<unsigned>>
findStatistics(tile::RowsOp rows, tile::DotOp product, unsigned ownSum,
               SmallVector<TypedAttr> &initials) {
  SmallVector<unsigned> found;
  initials.clear();
  Block &body = rows.getBody().front();
  for (auto [number, value] :
       llvm::enumerate(body.getTerminator()->getOperands())) {
    if (value == product.getResult() || number == ownSum)
      continue;
    auto type = cast<tile::TileType>(value.getType());
    auto fill =
        findInitial(rows.getOuts()[number]).getDefiningOp<tile::FillOp>();
    Attribute initial;
    if (type.getCols() != 1 || !type.getElementType().isF32() || !fill ||
        !matchPattern(fill.getValue(), m_Constant(&initial)) ||
        value.getParentBlock() != &body || !value.getDefiningOp())
      return std::nullopt;
    found.push_back(number);
    initials.push_back(cast<TypedAttr>(initial));
  }
  return found;
}

bool RolesAnalysis::alternateKeys(ArrayRef<tile::RowsOp> steps) {
  constexpr int64_t parts = 2, panel = 64;
  if (plan.steps.size() != parts || plan.steps[1].within != 0)
    return false;
  RolesRing &keys = plan.steps[0];
  SmemType whole = keys.tile;
  if (whole.getRows() != parts * panel || plan.rows != panel ||
      whole.getCols() < plan.steps[1].tile.getCols() + panel ||
      (keys.source && *keys.source.getBoxes() > panel) ||
      llvm::any_of(plan.place, [](auto &entry) {
        return bool(cast<tile::LoadOp>(entry.first).getLive());
      }))
    return false;
  if (plan.ownSums.empty() || !findHandedOn(steps))
    return false;
  plan.keyParts = parts;
  splitColumns();
  // A pair of blocks shares its copies, and no other reads the same keys.
  ::mlir::attn::ScheduleAttr schedule = kernel.getScheduleAttr();
  plan.readsOnce =
      schedule && schedule.getPackHeads() && schedule.getCluster() > 1;
  // Statistics, the factor of the sums, and the members' own sums.
  SmemType column = plan.reducedTiles.front();
  plan.reducedTiles.assign(plan.statistics.size() + 1 + plan.ownSums.size(),
                           column);
  return true;
}

/// Each member's values are columns of a ring of their own, which is given back
/// once it has multiplied them; the last columns are with those of the second.
void RolesAnalysis::splitColumns() {
  SmemType whole = plan.steps[0].tile;
  auto columns = [&](int64_t cols) {
    int64_t rows = whole.getRows() / plan.keyParts;
    return SmemType::get(kernel.getContext(), rows, cols,
                         whole.getElementType(), whole.getSwizzle(),
                         /*boxes=*/1, /*pitch=*/rows, /*transposed=*/false);
  };
  RolesRing rest = plan.steps[0];
  rest.firstColumn = plan.channels;
  rest.tile = columns(whole.getCols() - plan.channels);
  plan.steps[0].tile = columns(plan.channels);
  plan.steps[1].tile = columns(plan.steps[1].tile.getCols());
  plan.steps.push_back(rest);
}

/// Whether the state of all steps is sums over values, sums that members have
/// of their own keys, and statistics, which they hand on.
bool RolesAnalysis::findHandedOn(ArrayRef<tile::RowsOp> steps) {
  auto loop = cast<scf::ForOp>(plan.lastUse);
  tile::RowsOp last = onlyStep(loop);
  for (tile::RowsOp rows : steps) {
    tile::DotOp product = findWeightsProduct(rows);
    std::optional<unsigned> sum = sumOfState(rows, lastReduction(rows));
    Value factor = product.getScale();
    if (!sum || !factor || !factor.getDefiningOp() ||
        factor.getParentBlock() != product->getBlock() ||
        !product->hasOneUse() ||
        !llvm::is_contained(statesOf(rows), product.getAcc()))
      return false;
    auto found = findStatistics(rows, product, *sum, plan.initialStatistics);
    if (!found || (rows != steps.front() && *found != plan.statistics))
      return false;
    plan.statistics = *found;
    for (unsigned number : plan.statistics) {
      Value state = rows.getResult(number), before = rows.getOuts()[number];
      if (!isPassedOn(state) ||
          (isa<BlockArgument>(before) && !isPassedOn(before)))
        return false;
      if (auto around = dyn_cast<scf::ForOp>(rows->getParentOp()))
        for (OpOperand &use : state.getUses())
          if (isa<scf::YieldOp>(use.getOwner()) &&
              (around != loop &&
               !isPassedOn(around.getResult(use.getOperandNumber()))))
            return false;
    }
  }
  for (unsigned number : plan.statistics) {
    Value state = last.getResult(number);
    if (!state.hasOneUse())
      return false;
    plan.lastStatistics.push_back(
        loop.getResult(state.getUses().begin()->getOperandNumber()));
  }
  return true;
}

//===----------------------------------------------------------------------===//
// What members hand on
//===----------------------------------------------------------------------===//

/// A column of the scratch `number`, of one value for each row.
Value Consumer::loadHandedOn(Location loc, unsigned number, Value from) {
  MLIRContext *context = b.getContext();
  Type f32 = b.getF32Type();
  auto held = VecType::get(context, plan.rows, f32, Axis::Row, Scope::Warpgroup,
                           /*partial=*/false);
  Value vec = VecLoadOp::create(b, loc, held, plan.reducedScratch[number], from,
                                /*permuted=*/false);
  return asTile(loc, vec, tile::TileType::get(context, plan.rows, 1, f32));
}

void Consumer::storeHandedOn(Value value, unsigned number, Value to) {
  Location loc = value.getLoc();
  auto held = VecType::get(b.getContext(), plan.rows, b.getF32Type(), Axis::Row,
                           Scope::Warpgroup, /*partial=*/false);
  Value vec =
      UnrealizedConversionCastOp::create(b, loc, held, value).getResult(0);
  VecStoreOp::create(b, loc, vec, plan.reducedScratch[number], to);
}

/// A map of f32, one value for each row where an input has one column.
Value Consumer::mapOf(Type type, ValueRange inputs,
                      llvm::function_ref<Value(ValueRange)> element) {
  Location loc = inputs.front().getLoc();
  auto map = tile::MapOp::create(b, loc, type, inputs);
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Type> types(2, b.getI32Type());
  types.append(inputs.size(), b.getF32Type());
  Block *body = b.createBlock(&map.getBody(), {}, types,
                              SmallVector<Location>(types.size(), loc));
  tile::YieldOp::create(b, loc, element(body->getArguments().drop_front(2)));
  return map.getResult(0);
}

Value Consumer::isMember(Location loc, int64_t number) {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, member,
                               i32(number, loc));
}

/// What the first member of an item's first step finds of the one before.
void Consumer::startTurns(Location loc) {
  auto branch =
      scf::IfOp::create(b, loc, isMember(loc, 1), /*withElseRegion=*/false);
  BarrierSyncOp::create(b, loc, plan.shareBarrier, /*member=*/Value(),
                        /*threads_only=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  auto type = tile::TileType::get(b.getContext(), plan.rows, 1, b.getF32Type());
  auto store = [&](TypedAttr initial, unsigned number) {
    Value value = arith::ConstantOp::create(b, loc, initial);
    storeHandedOn(tile::FillOp::create(b, loc, type, value), number,
                  i32(1, loc));
  };
  for (auto [number, initial] : llvm::enumerate(plan.initialStatistics))
    store(initial, number);
  store(b.getF32FloatAttr(1.0f), plan.statistics.size());
}

/// Behind the last step, whose second slot is the second member's: what both
/// have of it.
void Consumer::finishTurns() {
  for (auto [number, result] : llvm::enumerate(plan.lastStatistics))
    mapping.map(result,
                loadHandedOn(result.getLoc(), number, i32(1, result.getLoc())));
  for (auto [sum, reduce] : plan.ownSums) {
    Location loc = sum.getLoc();
    Value factor = loadHandedOn(loc, plan.statistics.size(), i32(1, loc));
    Value isFirst = isMember(loc, 0);
    Value own = mapping.lookup(sum);
    mapping.map(sum,
                mapOf(own.getType(), {own, factor}, [&](ValueRange x) -> Value {
                  Value next = arith::MulFOp::create(b, loc, x[0], x[1]);
                  return arith::SelectOp::create(b, loc, isFirst, next, x[0]);
                }));
  }
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

static constexpr int64_t firstColumns = 0, lastColumns = 2;

Value Consumer::slotOf(Location loc, RolesRing &ring, Value part) {
  return RingWaitOp::create(b, loc, ring.tile, ring.ring, useOf(steps, part))
      .getResult(0);
}

void Consumer::giveBack(Location loc, RolesRing &ring, int64_t part) {
  RingReleaseOp::create(b, loc, ring.ring, useOf(steps, part), ValueRange());
}

/// Products find the keys of a member, and the values, by themselves.
void Consumer::takeOwnKeys(RolesRing &ring, tile::LoadOp load) {
  if (ring.within < 0)
    keysLoad = load;
}

/// The scores of the member's keys, of the columns as they come.
void Consumer::multiplyOwnKeys(const HalfStep &step, tile::DotOp dot) {
  Location loc = dot.getLoc();
  Value queries = mapping.lookup(dot.getLhs())
                      .getDefiningOp<UnrealizedConversionCastOp>()
                      .getOperand(0);
  Type type = step.convert(dot.getResult());
  Value scores;
  for (int64_t place : {firstColumns, lastColumns}) {
    RolesRing &ring = plan.steps[place];
    ownKeys = slotOf(loc, ring, member);
    clearDeadRows(ring, keysLoad, ownKeys);
    int64_t cols = ring.tile.getCols();
    Value own = columnsOf(loc, queries, cols, i32(ring.firstColumn, loc));
    Value keys = columnsOf(loc, ownKeys, cols, i32(0, loc));
    scores = tile::DotOp::create(b, loc, type, own, keys, scores,
                                 /*scale=*/Value(), /*ramp=*/Value(),
                                 /*transpose_rhs=*/true, dot.getTf32(),
                                 /*transpose_lhs=*/false);
  }
  mapping.map(dot.getResult(), scores);
}

/// The columns of a slot that no value has, as weights.
Value Consumer::weightsIn(Location loc, Value slot) {
  SmemType keys = plan.steps[lastColumns].tile;
  auto part = SmemType::get(b.getContext(), plan.rows, keys.getRows(),
                            keys.getElementType(), keys.getSwizzle(),
                            /*boxes=*/1, keys.getPitch(),
                            /*transposed=*/false);
  return SmemSliceOp::create(b, loc, part, slot, i32(0, loc),
                             i32(plan.channels, loc));
}

/// `sums` times `factor`, which is 1 for all rows of most warps where anchors
/// follow late.
Value Consumer::scaleSeldom(Value sums, Value factor) {
  Location loc = sums.getLoc();
  auto rows = cast<tile::TileType>(factor.getType());
  auto flags = tile::TileType::get(b.getContext(), rows.getRows(),
                                   rows.getCols(), b.getI1Type());
  Value moves = mapOf(flags, factor, [&](ValueRange x) -> Value {
    Value one = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(1.0f));
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, x[0], one);
  });
  Value any = tile::AnyOp::create(b, loc, b.getI1Type(), moves,
                                  /*by_rows=*/true);
  auto branch = scf::IfOp::create(b, loc, sums.getType(), any,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  Value scaled =
      mapOf(sums.getType(), {sums, factor}, [&](ValueRange x) -> Value {
        return arith::MulFOp::create(b, loc, x[0], x[1]);
      });
  scf::YieldOp::create(b, loc, scaled);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, loc, sums);
  return branch.getResult(0);
}

/// The sums of a member's channels, which `ring` has, once slot `part` of the
/// step is added, by weights that are its own, or which the other has stored.
Value Consumer::addPart(tile::DotOp dot, RolesRing &ring, int64_t part,
                        Value weights, Value sum, Value factor) {
  Location loc = dot.getLoc();
  RolesRing &last = plan.steps[lastColumns];
  Value slot = slotOf(loc, ring, i32(part, loc));
  if (!weights) {
    Value from = &ring == &last ? slot : slotOf(loc, last, i32(part, loc));
    weights = asTile(loc, weightsIn(loc, from),
                     tile::TileType::get(b.getContext(), plan.rows,
                                         last.tile.getRows(),
                                         last.tile.getElementType()));
  }
  Value values = columnsOf(loc, slot, plan.channels, i32(0, loc));
  Value next = tile::DotOp::create(b, loc, convert(dot.getType()), weights,
                                   values, scaleSeldom(sum, factor),
                                   /*scale=*/Value(), /*ramp=*/Value(),
                                   /*transpose_rhs=*/false, dot.getTf32(),
                                   /*transpose_lhs=*/false);
  giveBack(loc, ring, part);
  return next;
}

/// Both members have come, and see what the other has stored.
void Consumer::meet(Location loc) {
  BarrierSyncOp::create(b, loc, plan.shareBarrier, /*member=*/Value(),
                        /*threads_only=*/false);
}

/// The second member's sum of the first slot starts, whose weights are there,
/// and runs beside its own weights.
Value Consumer::startSum(tile::DotOp dot, Value factor) {
  Location loc = dot.getLoc();
  MLIRContext *context = b.getContext();
  RolesRing &last = plan.steps[lastColumns];
  Value slot = slotOf(loc, last, i32(0, loc));
  Value values = columnsOf(loc, slot, plan.channels, i32(0, loc))
                     .getDefiningOp<UnrealizedConversionCastOp>()
                     .getOperand(0);
  Type f32 = b.getF32Type();
  auto held = FragType::get(context, plan.rows, plan.channels, f32, Layout::Acc,
                            Scope::Warpgroup);
  Value sum = scaleSeldom(mapping.lookup(dot.getAcc()), factor);
  Value acc =
      UnrealizedConversionCastOp::create(b, loc, held, sum).getResult(0);
  auto token = TokenType::get(context, plan.rows, plan.channels, f32);
  return MmaIssueOp::create(b, loc, token, weightsIn(loc, slot), values, acc);
}

Value Consumer::finishSum(tile::DotOp dot, Value token) {
  Location loc = dot.getLoc();
  auto held = cast<TokenType>(token.getType()).getFragType();
  Value sum = MmaWaitOp::create(b, loc, TypeRange(held), ValueRange(token),
                                b.getI64IntegerAttr(0))
                  .getResult(0);
  giveBack(loc, plan.steps[lastColumns], 0);
  return asTile(loc, sum, cast<tile::TileType>(convert(dot.getType())));
}

/// The product with the values, of both slots in their order; `started` is the
/// second member's of the first slot.
void Consumer::multiplyInOrder(const HalfStep &step, tile::DotOp dot,
                               Value started) {
  Location loc = dot.getLoc();
  RolesRing &first = plan.steps[firstColumns], &last = plan.steps[lastColumns];
  Value weights = mapping.lookup(dot.getLhs());
  auto held =
      FragType::get(b.getContext(), plan.rows, step.keys(),
                    last.tile.getElementType(), Layout::A, Scope::Warpgroup);
  Value stored =
      UnrealizedConversionCastOp::create(b, loc, held, weights).getResult(0);
  FragStoreOp::create(b, loc, stored, weightsIn(loc, ownKeys),
                      /*fragment_order=*/false);
  Value factor = mapping.lookup(dot.getScale());
  meet(loc);
  Value sum;
  if (started) {
    sum = finishSum(dot, started);
    sum = addPart(dot, last, 1, weights, sum, factor);
  } else {
    giveBack(loc, last, 0);
    sum = addPart(dot, first, 0, weights, mapping.lookup(dot.getAcc()), factor);
    meet(loc);
    sum = addPart(dot, first, 1, /*weights=*/Value(), sum,
                  loadHandedOn(loc, plan.statistics.size(), i32(1, loc)));
    giveBack(loc, last, 1);
  }
  mapping.map(dot.getResult(), sum);
}

/// The first operation of a step that takes statistics of the slot before, and
/// the last one that makes some of its own, or the factor of the sums.
static std::pair<Operation *, Operation *>
findTurn(tile::RowsOp rows, ArrayRef<unsigned> statistics, Value factor) {
  Block &body = rows.getBody().front();
  Operation *first = nullptr, *last = factor.getDefiningOp();
  auto isEarlier = [](Operation *a, Operation *b) {
    return !b || a->isBeforeInBlock(b);
  };
  for (unsigned number : statistics) {
    for (Operation *user : statesOf(rows)[number].getUsers()) {
      Operation *top = body.findAncestorOpInBlock(*user);
      if (isEarlier(top, first))
        first = top;
    }
    Operation *def = body.getTerminator()->getOperand(number).getDefiningOp();
    if (last->isBeforeInBlock(def))
      last = def;
  }
  return {first && isEarlier(first, last) ? first : last, last};
}

/// Takes over what the slot before has left, once it is there.
Value Consumer::takeOver(tile::RowsOp rows, int64_t number) {
  Location loc = rows.getLoc();
  if (number == 0) {
    // All warps have multiplied the columns where weights will be.
    BarrierSyncOp::create(b, loc, plan.firstBarrier, /*member=*/Value(),
                          /*threads_only=*/true);
  } else {
    // The first member has the values of these columns alone.
    for (int64_t part : {1, 0}) {
      slotOf(loc, plan.steps[firstColumns], i32(part, loc));
      giveBack(loc, plan.steps[firstColumns], part);
    }
    meet(loc);
  }
  Value other = i32(1 - number, loc);
  for (auto [i, state] : llvm::enumerate(plan.statistics))
    mapping.map(statesOf(rows)[state], loadHandedOn(loc, i, other));
  return loadHandedOn(loc, plan.statistics.size(), other);
}

/// What the next slot takes over; and the factor of both slots.
Value Consumer::handOn(tile::RowsOp rows, Value factorBefore, Value factor) {
  Location loc = rows.getLoc();
  Operation *yield = rows.getBody().front().getTerminator();
  for (auto [i, state] : llvm::enumerate(plan.statistics))
    storeHandedOn(mapping.lookup(yield->getOperand(state)), i, member);
  storeHandedOn(factor, plan.statistics.size(), member);
  return mapOf(factor.getType(), {factorBefore, factor},
               [&](ValueRange x) -> Value {
                 return arith::MulFOp::create(b, loc, x[0], x[1]);
               });
}

/// The step of the member `number`, which `member` is.
void Consumer::cloneMember(tile::RowsOp rows, int64_t number) {
  Block &body = rows.getBody().front();
  HalfStep step = *HalfStep::get(rows, plan);
  step.firstKeyOfRun = i32(number * step.keys(), rows.getLoc());
  tile::DotOp product = findWeightsProduct(rows);
  auto [first, last] = findTurn(rows, plan.statistics, product.getScale());
  Value factorBefore, factors, started;
  for (Operation &op : body.without_terminator()) {
    forget(&op);
    if (&op == first) {
      factorBefore = takeOver(rows, number);
      if (number == 1)
        started = startSum(product, factorBefore);
    }
    if (auto dot = dyn_cast<tile::DotOp>(op); dot && dot.getTransposeRhs()) {
      multiplyOwnKeys(step, dot);
      continue;
    }
    if (&op == product) {
      multiplyInOrder(step, product, started);
      continue;
    }
    Operation *clone = cloneOfStep(step, op);
    if (&op == last)
      factors = handOn(rows, factorBefore, mapping.lookup(product.getScale()));
    // The member's own sums leave out the other slot, but not its factor.
    for (Operation *reduce : plan.ownReduces)
      if (reduce->getBlock() == &body &&
          *reduce->getResult(0).user_begin() == &op)
        clone->replaceUsesOfWith(mapping.lookup(product.getScale()), factors);
  }
}

void Consumer::cloneAlternating(tile::RowsOp rows) {
  Location loc = rows.getLoc();
  SmallVector<Type> types = llvm::map_to_vector(
      rows.getResultTypes(), [&](Type type) { return convert(type); });
  auto branch = scf::IfOp::create(b, loc, types, isMember(loc, 0),
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  for (int64_t number : {0, 1}) {
    Region &region = number ? branch.getElseRegion() : branch.getThenRegion();
    b.setInsertionPointToStart(&region.front());
    llvm::SaveAndRestore<Value> own(member, i32(number, loc));
    cloneMember(rows, number);
    scf::YieldOp::create(
        b, loc, lookup(rows.getBody().front().getTerminator()->getOperands()));
  }
  mapping.map(rows.getResults(), branch.getResults());
}
