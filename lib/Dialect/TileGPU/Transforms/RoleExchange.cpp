//===- RoleExchange.cpp - Weights that warpgroups put together ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A product outside of the rows of a step multiplies its weights transposed,
// and adds to memory (the gradients of queries, beside those of keys). Each
// member has the weights of its own rows, which are what is summed over: so all
// put theirs into one tile, transposed, and each makes a part of the product.
//
//===----------------------------------------------------------------------===//

#include "SpecializeWarps.h"

using namespace mlir;
using namespace mlir::tile_gpu;

/// The member's rows of a slot that has those of all.
Value Consumer::ownRowsOf(Location loc, Value slot) {
  auto whole = cast<SmemType>(slot.getType());
  auto part = SmemType::get(b.getContext(), plan.rows, whole.getCols(),
                            whole.getElementType(), whole.getSwizzle(),
                            /*boxes=*/1, whole.getPitch(),
                            /*transposed=*/false);
  return SmemSliceOp::create(b, loc, part, slot, memberRow(loc, b.getI32Type()),
                             i32(0, loc));
}

/// Rows that every member reads, of which the member takes its own for a part.
Value Consumer::takeOwnRows(RolesRing &ring, tile::LoadOp load) {
  Location loc = load.getLoc();
  ring.slot =
      RingWaitOp::create(b, loc, ring.tile, ring.ring, items).getResult(0);
  // Copies fill in for rows that the tensor has not; others may be dead, too.
  if (load.getLower() != load.getIndices().drop_back().back())
    clearDeadRows(ring, load, ring.slot);
  return ownRowsOf(loc, ring.slot);
}

/// The member's part of a product of the step's weights, transposed: it adds
/// its own to those that all read.
void Consumer::cloneExchanged(tile::DotOp dot) {
  Location loc = dot.getLoc();
  RolesExchange &exchange = plan.exchange;
  SmemType whole = exchange.tile;
  Value zero = i32(0, loc), row = memberRow(loc, b.getI32Type());
  // As products take them, which those for the rows' own sums do.
  auto own = FragType::get(b.getContext(), plan.rows, whole.getRows(),
                           whole.getElementType(), Layout::A, Scope::Warpgroup);
  Value weights = UnrealizedConversionCastOp::create(
                      b, loc, own, mapping.lookup(dot.getLhs()))
                      .getResult(0);
  ExchangeOp::create(b, loc, weights, exchange.ring, exchanged, zero, row,
                     /*transposed=*/true);
  Value lhs =
      RingWaitOp::create(b, loc, whole, exchange.ring, exchanged).getResult(0);
  int64_t lhsRows = whole.getRows(), cols = dot.getType().getCols();
  RolesRing *ring = llvm::find_if(plan.queries, [&](RolesRing &query) {
    Operation *rows = dot.getRhs().getDefiningOp();
    return query.load == rows || query.inPlace == rows;
  });
  if (exchange.byRows) {
    lhsRows = plan.rows;
    auto part = SmemType::get(b.getContext(), lhsRows, whole.getCols(),
                              whole.getElementType(), whole.getSwizzle(),
                              /*boxes=*/1, whole.getPitch(),
                              /*transposed=*/false);
    lhs = SmemSliceOp::create(b, loc, part, lhs, row, zero);
  } else {
    cols /= plan.rowMembers();
  }
  Value column = arith::MulIOp::create(b, loc, member, i32(cols, loc));
  Value rhs = columnsOf(loc, ring->slot, cols, exchange.byRows ? zero : column);
  auto tileOf = [&](int64_t rows, int64_t cols, Type element) {
    return tile::TileType::get(b.getContext(), rows, cols, element);
  };
  Type lhsType = tileOf(lhsRows, whole.getCols(), whole.getElementType());
  mapping.map(dot.getResult(),
              tile::DotOp::create(
                  b, loc, tileOf(lhsRows, cols, b.getF32Type()),
                  asTile(loc, lhs, lhsType), rhs, /*acc=*/Value(),
                  /*scale=*/Value(), /*ramp=*/Value(), /*transpose_rhs=*/false,
                  /*tf32=*/false, /*transpose_lhs=*/false)
                  .getResult());
}

/// Adds the member's part of a product of exchanged weights to memory, or puts
/// it where a warp does when it is the block's turn.
void Consumer::cloneSum(tile::AccumulateOp sum) {
  if (sum.getTurn())
    return handOver(sum);
  Location loc = sum.getLoc();
  auto clone = cast<tile::AccumulateOp>(b.clone(*sum, mapping));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(clone);
  auto type = cast<tile::TileType>(clone.getValue().getType());
  bool byRows = plan.exchange.byRows;
  OpOperand &index =
      clone.getIndicesMutable()[clone.getIndices().size() - (byRows ? 2 : 1)];
  Value first = arith::MulIOp::create(
      b, loc, member, i32(byRows ? type.getRows() : type.getCols(), loc));
  first = arith::IndexCastOp::create(b, loc, b.getIndexType(), first);
  index.set(arith::AddIOp::create(b, loc, index.get(), first));
}

void Consumer::handOver(tile::AccumulateOp sum) {
  Location loc = sum.getLoc();
  RolesSums &sums = plan.sums;
  Value part = mapping.lookup(sum.getValue());
  auto type = cast<tile::TileType>(part.getType());
  auto held =
      FragType::get(b.getContext(), type.getRows(), type.getCols(),
                    type.getElementType(), Layout::Acc, Scope::Warpgroup);
  Value registers =
      UnrealizedConversionCastOp::create(b, loc, held, part).getResult(0);
  bool byRows = plan.exchange.byRows;
  // The same in all steps, one of which may be put off to another.
  Value zero, first;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(member.getParentBlock());
    zero = i32(0, loc);
    first = arith::MulIOp::create(
        b, loc, member, i32(byRows ? type.getRows() : type.getCols(), loc));
  }
  Value slot = RingAcquireOp::create(b, loc, sums.tile, sums.ring, exchanged)
                   .getResult(0);
  FragStoreOp::create(b, loc, registers, slot, byRows ? first : zero,
                      byRows ? zero : first, /*fragment_order=*/true);
  RingCommitOp::create(b, loc, sums.ring, exchanged);
}

/// Members may fill a slot again when it has been read; the turn is passed on
/// when it has been added, or written by the first one.
void Adder::cloneTileOp(Operation *op) {
  auto sum = dyn_cast<tile::AccumulateOp>(op);
  if (!sum || !sum.getTurn())
    return;
  Location loc = op->getLoc();
  RolesSums &sums = plan.sums;
  auto positions = [&](ValueRange indices) {
    return llvm::map_to_vector(indices, [&](Value v) { return toI32(v); });
  };
  Value counters = mapping.lookup(sum.getCounters());
  Value turn = toI32(sum.getTurn());
  SmallVector<Value> counter = positions(sum.getCounter());
  Value slot =
      RingWaitOp::create(b, loc, sums.tile, sums.ring, exchanged).getResult(0);
  BlockTurnWaitOp::create(b, loc, counters, counter, turn);
  BulkReduceOp::create(b, loc, slot, mapping.lookup(sum.getDestination()),
                       positions(sum.getIndices()), turn);
  BulkWaitOp::create(b, loc, /*pending=*/0);
  RingReleaseOp::create(b, loc, sums.ring, exchanged, ValueRange());
  BlockTurnPassOp::create(b, loc, counters, counter, turn);
}
