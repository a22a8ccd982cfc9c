//===- SharedWeights.cpp - Weights that two warpgroups make together ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Warpgroups that share the channels of the sums need the weights of the same
// rows. Each of two computes those of half of the keys of a tile; in shared
// memory they come together, and each multiplies all of them with its channels
// of the values. What rows are reduced to is made of both halves, in the order
// of the keys, so that both have the same bits.
//
// In a step the first exchange waits until both have multiplied the weights of
// the step before: those may be overwritten behind it.
//
//===----------------------------------------------------------------------===//

#include "AnalyseRoles.h"
#include "SpecializeWarps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile_gpu;

/// Whether members may come to products or reductions in `branch` in different
/// ways: they wait for each other there.
static bool hasExchange(scf::IfOp branch) {
  return branch
      ->walk([](Operation *inner) {
        return isa<tile::ReduceOp, tile::DotOp>(inner) ? WalkResult::interrupt()
                                                       : WalkResult::advance();
      })
      .wasInterrupted();
}

tile::DotOp tile_gpu::findWeightsProduct(tile::RowsOp rows) {
  tile::DotOp found;
  bool isReduced = false;
  for (Operation &op : rows.getBody().front().without_terminator()) {
    auto any = dyn_cast<tile::AnyOp>(op);
    auto branch = dyn_cast<scf::IfOp>(op);
    if ((any && any.getValue().getType().getCols() > 1) ||
        (branch && hasExchange(branch)))
      return {};
    isReduced |= isa<tile::ReduceOp>(op);
    auto dot = dyn_cast<tile::DotOp>(op);
    if (!dot || dot.getTransposeRhs())
      continue;
    if (found || !isReduced || dot.getLhs().getDefiningOp() == nullptr)
      return {};
    found = dot;
  }
  return found;
}

Value tile_gpu::findInitial(Value value) {
  while (true) {
    Operation *parent = value.getParentBlock()->getParentOp();
    auto argument = dyn_cast<BlockArgument>(value);
    if (auto loop = dyn_cast<scf::ForOp>(parent); argument && loop)
      value = loop.getInitArgs()[argument.getArgNumber() - 1];
    else if (auto loop = value.getDefiningOp<scf::ForOp>())
      value = loop.getInitArgs()[cast<OpResult>(value).getResultNumber()];
    else if (auto rows = value.getDefiningOp<tile::RowsOp>())
      value = rows.getOuts()[cast<OpResult>(value).getResultNumber()];
    else
      return value;
  }
}

std::optional<unsigned> tile_gpu::sumOfState(tile::RowsOp rows,
                                             tile::ReduceOp reduce) {
  Block &body = rows.getBody().front();
  Block &combine = reduce.getBody().front();
  auto add =
      combine.getTerminator()->getOperand(0).getDefiningOp<arith::AddFOp>();
  if (reduce.getNumResults() != 1 || !add ||
      add.getLhs() != combine.getArgument(0) ||
      add.getRhs() != combine.getArgument(1) ||
      !reduce.getResult(0).hasOneUse())
    return std::nullopt;
  OpOperand &use = *reduce.getResult(0).getUses().begin();
  auto map = dyn_cast<tile::MapOp>(use.getOwner());
  if (!map || map->getBlock() != &body || map.getNumResults() != 1 ||
      !map.getResult(0).hasOneUse())
    return std::nullopt;
  OpOperand &yielded = *map.getResult(0).getUses().begin();
  if (yielded.getOwner() != body.getTerminator())
    return std::nullopt;
  unsigned number = yielded.getOperandNumber();
  Block &inner = map.getBody().front();
  auto argumentOf = [&](Value value) -> Value {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && argument.getOwner() == &inner &&
                   argument.getArgNumber() >= 2 && argument.hasOneUse()
               ? map.getInputs()[argument.getArgNumber() - 2]
               : Value();
  };
  Value old = body.getArguments().take_back(rows.getOuts().size())[number];
  auto sum = inner.getTerminator()->getOperand(0).getDefiningOp<math::FmaOp>();
  if (!sum || &inner.front() != sum || !old.hasOneUse() ||
      argumentOf(sum.getC()) != reduce.getResult(0) ||
      argumentOf(sum.getA()) != old)
    return std::nullopt;
  auto fill = findInitial(rows.getOuts()[number]).getDefiningOp<tile::FillOp>();
  if (!fill || !matchPattern(fill.getValue(), m_PosZeroFloat()))
    return std::nullopt;
  return number;
}

tile::ReduceOp tile_gpu::lastReduction(tile::RowsOp rows) {
  tile::ReduceOp last;
  for (auto reduce : rows.getBody().front().getOps<tile::ReduceOp>())
    last = reduce;
  return last;
}

/// Members have sums of their own keys alone where all steps allow it, and they
/// are put together behind the last.
void RolesAnalysis::findOwnSums(ArrayRef<tile::RowsOp> steps) {
  auto loop = dyn_cast<scf::ForOp>(plan.lastUse);
  tile::RowsOp last = loop ? onlyStep(loop) : tile::RowsOp();
  if (!last)
    return;
  SmallVector<Operation *> reduces;
  std::optional<unsigned> number;
  for (tile::RowsOp rows : steps) {
    tile::ReduceOp sum = lastReduction(rows);
    std::optional<unsigned> found = sumOfState(rows, sum);
    if (!found || (number && number != found))
      return;
    number = found;
    reduces.push_back(sum);
  }
  Value carried = last.getResult(*number);
  if (!carried.hasOneUse() ||
      carried.getUses().begin()->getOwner() != loop.getBody()->getTerminator())
    return;
  plan.ownReduces.insert(reduces.begin(), reduces.end());
  plan.ownSums.push_back(
      {loop.getResult(carried.getUses().begin()->getOperandNumber()),
       reduces.back()});
}

void RolesAnalysis::analyseSharedWeights(ArrayRef<tile::RowsOp> steps) {
  constexpr int64_t sharers = 2;
  int64_t keys = plan.steps.front().tile.getRows();
  if (plan.sharers != sharers || keys % (2 * RolesPlan::keysOfWarp))
    return;
  MLIRContext *context = kernel.getContext();
  auto tileOf = [&](int64_t rows, int64_t cols, Type element, int64_t swizzle) {
    return SmemType::get(context, rows, cols, element, swizzle, /*boxes=*/1,
                         /*pitch=*/rows, /*transposed=*/false);
  };
  Type element;
  SmallVector<SmemType> reduced;
  for (tile::RowsOp rows : steps) {
    tile::DotOp dot = findWeightsProduct(rows);
    if (!dot || !HalfStep::get(rows, plan) || !plan.isShared(dot.getType()))
      return;
    SmallVector<SmemType> own;
    for (auto reduce : rows.getBody().front().getOps<tile::ReduceOp>())
      for (Type type : reduce.getResultTypes())
        own.push_back(tileOf(plan.rows, sharers,
                             cast<tile::TileType>(type).getElementType(),
                             /*swizzle=*/0));
    Type weight = cast<tile::TileType>(dot.getLhs().getType()).getElementType();
    if (element && (element != weight || own != reduced))
      return;
    element = weight;
    reduced = own;
  }
  plan.sharesWeights = true;
  plan.reducedTiles = reduced;
  findOwnSums(steps);
  if (alternateKeys(steps))
    return;
  // Each half of the keys is a panel.
  plan.weightsTile =
      tileOf(plan.rows, keys, element,
             keys / sharers * element.getIntOrFloatBitWidth() / 8);
  if (::attn::onchip::stagesThatFit(sharedDemand(kernel, plan), target) >=
      ::attn::onchip::leastStages)
    return;
  plan.sharesWeights = false;
  plan.weightsTile = SmemType();
  plan.reducedTiles.clear();
  plan.ownSums.clear();
  plan.ownReduces.clear();
}

/// Keys of a slot from one on, and channels.
Value Consumer::keysOf(Value tile, Value firstKey, int64_t keys,
                       Value firstChannel, int64_t channels) {
  Location loc = tile.getLoc();
  Value slot = tile.getDefiningOp<UnrealizedConversionCastOp>().getOperand(0);
  auto whole = cast<SmemType>(slot.getType());
  auto part = SmemType::get(b.getContext(), keys, channels,
                            whole.getElementType(), whole.getSwizzle(),
                            /*boxes=*/1, whole.getPitch(),
                            /*transposed=*/false);
  slot = SmemSliceOp::create(b, loc, part, slot, firstKey, firstChannel);
  return asTile(loc, slot,
                tile::TileType::get(b.getContext(), keys, channels,
                                    whole.getElementType()));
}

/// What both members have of `own`, statistics of their rows, combined by a
/// copy of `from`, the body of a reduction.
SmallVector<Value> Consumer::combineHalves(ValueRange own, Block &from) {
  Location loc = own.front().getLoc();
  ArrayRef<Value> scratch =
      ArrayRef(plan.reducedScratch).slice(numReduced, own.size());
  numReduced += own.size();
  auto held = [&](Value result) {
    auto type = cast<tile::TileType>(result.getType());
    return VecType::get(b.getContext(), type.getRows(), type.getElementType(),
                        Axis::Row, Scope::Warpgroup, /*partial=*/false);
  };
  for (auto [result, tile] : llvm::zip_equal(own, scratch)) {
    Value vec = UnrealizedConversionCastOp::create(b, loc, held(result), result)
                    .getResult(0);
    VecStoreOp::create(b, loc, vec, tile, member);
  }
  BarrierSyncOp::create(b, loc, plan.shareBarrier, /*member=*/Value(),
                        /*threads_only=*/true);
  SmallVector<Value> halves;
  for (int64_t half : {0, 1})
    for (auto [result, tile] : llvm::zip_equal(own, scratch)) {
      Value vec = VecLoadOp::create(b, loc, held(result), tile, i32(half, loc),
                                    /*permuted=*/false);
      halves.push_back(asTile(loc, vec, result.getType()));
    }
  auto both = tile::MapOp::create(b, loc, own.getTypes(), halves);
  OpBuilder::InsertionGuard guard(b);
  Block *body = b.createBlock(&both.getBody(), {},
                              {b.getI32Type(), b.getI32Type()}, {loc, loc});
  IRMapping inner;
  for (BlockArgument argument : from.getArguments())
    inner.map(argument, body->addArgument(argument.getType(), loc));
  for (Operation &op : from)
    b.clone(op, inner);
  return both.getResults();
}

/// The sums that members have of their own keys alone, behind the last step.
void Consumer::combineSums() {
  if (plan.keyParts > 1)
    finishTurns();
  numReduced = plan.reducedScratch.size() - plan.ownSums.size();
  for (auto [sum, reduce] : plan.ownSums) {
    Block &body = cast<tile::ReduceOp>(reduce).getBody().front();
    mapping.map(sum, combineHalves(mapping.lookup(sum), body).front());
  }
}

/// The sums of a member's channels, of the weights of both.
void Consumer::multiplyWeights(const HalfStep &step, tile::DotOp dot) {
  Location loc = dot.getLoc();
  auto whole = cast<tile::TileType>(dot.getLhs().getType());
  auto held =
      FragType::get(b.getContext(), plan.rows, step.keys(),
                    whole.getElementType(), Layout::Acc, Scope::Warpgroup);
  auto part = SmemType::get(
      b.getContext(), plan.rows, step.keys(), whole.getElementType(),
      plan.weightsTile.getSwizzle(), /*boxes=*/1, plan.weightsTile.getPitch(),
      /*transposed=*/false);
  Value weights = UnrealizedConversionCastOp::create(
                      b, loc, held, mapping.lookup(dot.getLhs()))
                      .getResult(0);
  Value own = SmemSliceOp::create(b, loc, part, plan.weightsScratch,
                                  i32(0, loc), step.firstKeyOfRun);
  FragStoreOp::create(b, loc, weights, own, /*fragment_order=*/false);
  BarrierSyncOp::create(b, loc, plan.shareBarrier, /*member=*/Value(),
                        /*threads_only=*/false);
  Value values =
      keysOf(mapping.lookup(dot.getRhs()), i32(0, loc), whole.getCols(),
             memberChannel(loc, b.getI32Type()), plan.channels);
  auto lookup = [&](Value value) {
    return value ? mapping.lookup(value) : Value();
  };
  mapping.map(dot.getResult(),
              tile::DotOp::create(b, loc, convert(dot.getType()),
                                  asTile(loc, plan.weightsScratch, whole),
                                  values, lookup(dot.getAcc()),
                                  lookup(dot.getScale()), /*ramp=*/Value(),
                                  /*transpose_rhs=*/false, dot.getTf32(),
                                  /*transpose_lhs=*/false)
                  .getResult());
}

/// An operation of a step on a member's keys and its part of shared columns.
Operation *Consumer::cloneOfStep(const HalfStep &step, Operation &op) {
  Operation *clone = b.clone(op, mapping);
  step.convert(&op, clone);
  for (OpResult result : clone->getResults())
    if (plan.isShared(result.getType()))
      result.setType(convert(result.getType()));
  return clone;
}

/// A step of a member that computes the weights of half of its keys.
void Consumer::cloneSharedWeights(tile::RowsOp rows) {
  Block &body = rows.getBody().front();
  Location loc = rows.getLoc();
  HalfStep step = *HalfStep::get(rows, plan);
  step.firstKeyOfRun =
      arith::MulIOp::create(b, loc, member, i32(step.keys(), loc));
  numReduced = 0;
  for (Operation &op : body.without_terminator()) {
    auto dot = dyn_cast<tile::DotOp>(op);
    if (dot && !dot.getTransposeRhs()) {
      multiplyWeights(step, dot);
      continue;
    }
    Operation *clone = cloneOfStep(step, op);
    if (dot) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(clone);
      auto own = cast<tile::DotOp>(clone);
      int64_t columns = cast<tile::TileType>(own.getRhs().getType()).getCols();
      own.getRhsMutable().set(keysOf(own.getRhs(), step.firstKeyOfRun,
                                     step.keys(), i32(0, loc), columns));
    } else if (isa<tile::ReduceOp>(op) && !plan.ownReduces.contains(&op)) {
      mapping.map(op.getResults(),
                  combineHalves(clone->getResults(), op.getRegion(0).front()));
    }
  }
  for (auto [result, value] :
       llvm::zip(rows.getResults(), body.getTerminator()->getOperands()))
    mapping.map(result, mapping.lookup(value));
}
