//===- TileFused.cpp - Sums over rows beside those over keys --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernel of attn.fused: a reduction over queries, which computes the
// weights of each pair of a key and a query, and multiplies them once more,
// transposed, by the rows of the keys. These products belong to the queries:
// they are added up in memory, key tile by key tile. One block of a CPU has all
// keys of a head, so that no other adds to the same elements, and sums have one
// order. On a GPU blocks have one tile of keys each, and add in any order to
// what a kernel has cleared; another one rounds it.
//
//===----------------------------------------------------------------------===//

#include "TileFused.h"
#include "KeyRanges.h"
#include "attn/Dialect/Tile/IR/FragmentOrder.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

void ReductionKernel::walkRowTiles(Value numTiles, function_ref<void()> body) {
  clearRowSums();
  auto forOp =
      scf::ForOp::create(b, loc, index(0), numTiles, index(1), ValueRange());
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(forOp.getBody());
    Value blockQ = index(schedule.getBlockQ());
    queryTile = forOp.getInductionVar();
    row0 = mul(queryTile, blockQ);
    liveRows = min(blockQ, sub(sq, row0));
    body();
  }
  convertRowSums();
}

/// Walks the tiles of the reduced rows of all heads that read the block's.
void ReductionKernel::forEachSumTile(
    function_ref<void(Value head, Value first)> body) {
  Value reducedHeads =
      dim(arg(reduction.getKeyOperands().front()), keySource.headDim());
  Value rowHeads =
      dim(arg(reduction.getQueryOperands().front()), rowSource.headDim());
  Value group =
      arith::DivUIOp::create(b, loc, reducedHeads, max(rowHeads, index(1)));
  auto heads =
      scf::ForOp::create(b, loc, index(0), group, index(1), ValueRange());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(heads.getBody());
  Value number = add(mul(head, group), heads.getInductionVar());
  auto tiles = scf::ForOp::create(b, loc, index(0), numKeys, index(keyCols()),
                                  ValueRange());
  b.setInsertionPointToStart(tiles.getBody());
  body(number, tiles.getInductionVar());
}

void ReductionKernel::clearRowSums() {
  forEachSumTile([&](Value head, Value first) {
    for (const RowSum &sum : rowSums) {
      Value rows = reduction.getQueryOperands()[sum.operand];
      Value zero = fill(f32(0.0f), tileType(keyCols(), paddedDepth(rows)));
      tile::StoreOp::create(b, loc, zero, sum.sums, fromFirst(head, first),
                            index(0), numKeys, /*vector=*/false);
    }
  });
}

void ReductionKernel::convertRowSums() {
  if (llvm::none_of(rowSums, [](const RowSum &sum) { return sum.result; }))
    return;
  forEachSumTile([&](Value head, Value first) {
    for (const RowSum &sum : rowSums) {
      if (!sum.result)
        continue;
      Value rows = reduction.getQueryOperands()[sum.operand];
      auto type = tileType(keyCols(), paddedDepth(rows));
      Value loaded = tile::LoadOp::create(
          b, loc, type, sum.sums, fromFirst(head, first), index(0), numKeys,
          /*live=*/Value(), /*vector=*/false);
      tile::StoreOp::create(b, loc, loaded, sum.result, fromFirst(head, first),
                            index(0), numKeys, /*vector=*/false);
    }
  });
}

void ReductionKernel::startRowSums(SmallVectorImpl<Value> &state) {
  Type element = narrowValues ? narrowValues : b.getF32Type();
  rowSumTiles.clear();
  for (const RowSum &sum : rowSums) {
    rowSumWeights.insert(sum.weight);
    if (!sumsHaveOrder()) {
      rowSumTiles.push_back(queryTiles[sum.operand]);
      continue;
    }
    // A row that no weight meets must not reach a sum, not even times 0. Of
    // those that weights meet, what is not finite has made these NaN, so that 0
    // in its place changes nothing; or 0, where it made scores -inf.
    Value rows = queryTiles[sum.operand];
    auto type = cast<tile::TileType>(rows.getType());
    auto finite = tileType(type.getRows(), type.getCols(), element);
    auto body = [&](Value, Value, ValueRange x) -> SmallVector<Value> {
      Value wide = x[0];
      if (!wide.getType().isF32())
        wide = arith::ExtFOp::create(b, loc, b.getF32Type(), wide);
      Value isFinite = arith::CmpFOp::create(
          b, loc, arith::CmpFPredicate::OLT, math::AbsFOp::create(b, loc, wide),
          f32(std::numeric_limits<float>::infinity()));
      Value clean = select(isFinite, wide, f32(0.0f));
      if (element != b.getF32Type())
        clean = arith::TruncFOp::create(b, loc, element, clean);
      return {clean};
    };
    rowSumTiles.push_back(map(rows, {finite}, body).front());
  }
  // Weights of rows that do not exist are those of no key tile.
  if (sumsHaveOrder())
    appendNoWeights(state);
}

void ReductionKernel::appendNoWeights(SmallVectorImpl<Value> &state) {
  Type element = narrowValues ? narrowValues : b.getF32Type();
  for (size_t i = 0; i < rowSumWeights.size(); ++i) {
    Value none = arith::ConstantOp::create(b, loc, b.getZeroAttr(element));
    state.push_back(
        fill(none, tileType(schedule.getBlockQ(), keyCols(), element)));
  }
}

std::pair<Value, Value> ReductionKernel::seenRows() {
  Value end = add(row0, liveRows);
  Region &region = sumsOverKeys.getMask();
  if (region.empty())
    return {row0, end};
  ::attn::MaskAnalysis analysis(region);
  KeyRangeProblem problem;
  problem.numKeys = problem.limit = sq;
  problem.mask = &analysis;
  problem.uniform = [&](Value value) {
    return uniform(region, value, 0, sumsOverKeys.getCaptures());
  };
  Value reduced = reduction.getKeyOperands().front();
  problem.firstRow = index(0);
  problem.lastRow = sub(dim(arg(reduced), keySource.rowDim()), index(1));
  KeyRanges seen = emitKeyRanges(b, loc, problem);
  // Where the region's integers wrap only the region knows which they are.
  return {select(seen.valid, seen.lower, row0),
          select(seen.valid, min(seen.upper, end), end)};
}

SmallVector<Value> ReductionKernel::withoutWeights(ValueRange state) {
  SmallVector<Value> next(state);
  for (Value &weights : MutableArrayRef(next).take_back(rowSumWeights.size())) {
    auto type = cast<tile::TileType>(weights.getType());
    Value none =
        arith::ConstantOp::create(b, loc, b.getZeroAttr(type.getElementType()));
    weights = fill(none, type);
  }
  return next;
}

void ReductionKernel::enterRowSums(const KeyTile &tile, ValueRange state) {
  ValueRange weights = state.take_back(rowSumWeights.size());
  for (auto [sum, rows] : llvm::zip(rowSums, rowSumTiles)) {
    size_t n = llvm::find(rowSumWeights, sum.weight) - rowSumWeights.begin();
    auto type =
        tileType(keyCols(), cast<tile::TileType>(rows.getType()).getCols());
    Value product = tile::DotOp::create(
        b, loc, type, weights[n], rows, /*acc=*/Value(), /*scale=*/Value(),
        /*ramp=*/Value(), /*transpose_rhs=*/false, tf32,
        /*transpose_lhs=*/true);
    // What is added in any order has rows for whole tiles.
    auto add = tile::AccumulateOp::create(
        b, loc, product, sum.sums, fromFirst(keyHead, tile.first),
        sumsHaveOrder() ? index(0) : Value(),
        sumsHaveOrder() ? numKeys : Value(),
        /*vector=*/false, /*any_order=*/!sumsHaveOrder());
    if (!sumsHaveOrder())
      add->setAttr(tile::fragmentOrderName, b.getUnitAttr());
  }
}

void RowSumsKernel::build(Value sums, Value result, Value numTiles,
                          Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  auto work = tile::WorkTileOp::create(b, loc, block, dim(sums, 0),
                                       dim(sums, 1), numTiles,
                                       /*parts=*/index(1));
  Value first = mul(work.getTile(), index(blockRows));
  Value end = dim(result ? result : sums, 2);
  SmallVector<Value> at = {work.getBatch(), work.getHead(), first, index(0)};
  auto type =
      tileType(blockRows, cast<MemRefType>(sums.getType()).getShape().back());
  Value value;
  if (result) {
    auto load = tile::LoadOp::create(b, loc, type, sums, at, /*lower=*/Value(),
                                     /*upper=*/Value(),
                                     /*live=*/Value(), /*vector=*/false);
    load->setAttr(tile::fragmentOrderName, b.getUnitAttr());
    value = load;
  } else {
    value = fill(f32(0.0f), type);
  }
  tile::StoreOp::create(b, loc, value, result ? result : sums, at, index(0),
                        end, /*vector=*/false);
  tile::ReturnOp::create(b, loc);
}
