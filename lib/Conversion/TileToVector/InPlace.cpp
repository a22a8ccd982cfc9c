//===- InPlace.cpp - Tiles that stay in memory ----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile of memory that is read once, element by element, is read where it is:
// a copy in scratch would cost a store and a load of each. What a product makes
// of it, and a store writes back to the same place, is written there at once.
// States of scans are such tiles, of which a step reads and writes many.
//
//===----------------------------------------------------------------------===//

#include "VectorContext.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile;

static bool canReadInPlace(VectorContext &ctx, LoadOp op);

/// Whether `op`, or an operation in it, writes memory.
static bool writes(Operation *op) {
  return op
      ->walk([](Operation *inner) {
        bool isWrite = !isa<TileDialect, arith::ArithDialect, scf::SCFDialect>(
                           inner->getDialect()) ||
                       isa<StoreOp, AccumulateOp, StoreBitsOp>(inner);
        return isWrite && !isMemoryEffectFree(inner) &&
                       !hasSingleEffect<MemoryEffects::Read>(inner)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

bool mlir::tile::writesInFront(Operation *op, Operation *first) {
  for (Operation *at = first; at != op; at = at->getNextNode())
    if (writes(at))
      return true;
  return false;
}

bool mlir::tile::readsInPlace(VectorContext &ctx, LoadOp op) {
  // Decided before what follows it is lowered.
  auto [known, isNew] = ctx.inPlace.try_emplace(op, false);
  if (isNew)
    known->second = canReadInPlace(ctx, op);
  return known->second;
}

static bool canReadInPlace(VectorContext &ctx, LoadOp op) {
  auto type = cast<TileType>(op.getType());
  auto memory = dyn_cast<MemRefType>(op.getSource().getType());
  APInt column;
  if (!memory || op.getVector() || op.getTransposed() || op.getLower() ||
      op.getLive() || type.isRowVector() || type.getRows() == 1 ||
      memory.getElementType() != type.getElementType() ||
      memory.getShape().back() != type.getCols() ||
      !matchPattern(op.getIndices().back(), m_ConstantInt(&column)) ||
      !column.isZero())
    return false;
  // Products read rows of it, or add to it; nothing is written until then.
  Operation *last = op;
  for (OpOperand &use : op.getResult().getUses()) {
    auto dot = dyn_cast<DotOp>(use.getOwner());
    if (!dot || dot->getBlock() != op->getBlock())
      return false;
    bool isRow = use.getOperandNumber() == 1 && !dot.getTransposeRhs() &&
                 dot.getType().getRows() == 1 && type.getElementType().isF32();
    if (!isRow && dot.getAcc() != use.get())
      return false;
    if (last->isBeforeInBlock(dot))
      last = dot;
  }
  return last != op && !writesInFront(last, op->getNextNode());
}

void mlir::tile::openInPlace(VectorContext &ctx, LoadOp op) {
  auto memory = cast<MemRefType>(op.getSource().getType());
  auto type = cast<TileType>(op.getType());
  SmallVector<OpFoldResult> offsets(op.getIndices().begin(),
                                    op.getIndices().end());
  OpFoldResult one = ctx.builder.getIndexAttr(1);
  SmallVector<OpFoldResult> sizes(offsets.size(), one), strides(sizes);
  sizes[sizes.size() - 2] = ctx.builder.getIndexAttr(type.getRows());
  sizes.back() = ctx.builder.getIndexAttr(type.getCols());
  auto view = cast<MemRefType>(memref::SubViewOp::inferRankReducedResultType(
      {type.getRows(), type.getCols()}, memory, offsets, sizes, strides));
  ctx.buffers[op.getResult()] = memref::SubViewOp::create(
      ctx.builder, op.getLoc(), view, op.getSource(), offsets, sizes, strides);
}

/// The store that brings a result to where `load` has read its operand, so
/// that it may be computed there; or null.
StoreOp mlir::tile::findUpdate(VectorContext &ctx, Value result, LoadOp load) {
  StoreOp store;
  for (Operation *user : result.getUsers()) {
    auto own = dyn_cast<StoreOp>(user);
    if (own && store)
      return {};
    if (own)
      store = own;
  }
  Operation *op = result.getDefiningOp();
  if (!store || store->getBlock() != op->getBlock() || store.getVector() ||
      store.getTransposed() || store.getLower() ||
      store.getDestination() != load.getSource() ||
      !llvm::equal(store.getIndices(), load.getIndices()))
    return {};
  // What reads memory before the store would find it there too early.
  for (Operation *at = op->getNextNode(); at != store; at = at->getNextNode()) {
    WalkResult reads = at->walk([&](Operation *inner) {
      auto other = dyn_cast<LoadOp>(inner);
      bool isOwn = other && other.getSource() == load.getSource();
      return isOwn || isa<SourceOp>(inner) ? WalkResult::interrupt()
                                           : WalkResult::advance();
    });
    if (reads.wasInterrupted() || writes(at))
      return {};
  }
  // Another name of the same place; those of other blocks end before a store.
  for (auto [value, memref] : ctx.buffers) {
    auto other = value.getDefiningOp<LoadOp>();
    if (other && other != load && other->getBlock() == op->getBlock() &&
        other.getSource() == load.getSource() && readsInPlace(ctx, other) &&
        !ctx.diesAt(value, op))
      return {};
  }
  return store;
}
