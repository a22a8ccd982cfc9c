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

#include "KernelLowering.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile;

/// Whether `op`, or an operation in it, writes memory.
static bool writes(Operation *op) {
  return op
      ->walk([](Operation *inner) {
        bool isWrite = !isa<TileDialect, arith::ArithDialect, scf::SCFDialect>(
                           inner->getDialect()) ||
                       isa<StoreOp, AccumulateOp, StoreBitsOp>(inner);
        return isWrite && !isMemoryEffectFree(inner) ? WalkResult::interrupt()
                                                     : WalkResult::advance();
      })
      .wasInterrupted();
}

bool KernelLowering::readsInPlace(LoadOp op) {
  // Decided before what follows it is lowered.
  auto [known, isNew] = inPlace.try_emplace(op, false);
  if (isNew)
    known->second = canReadInPlace(op);
  return known->second;
}

bool KernelLowering::canReadInPlace(LoadOp op) {
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
  for (Operation *at = op->getNextNode(); last != op && at != last;
       at = at->getNextNode())
    if (writes(at))
      return false;
  return last != op;
}

void KernelLowering::openInPlace(LoadOp op) {
  auto memory = cast<MemRefType>(op.getSource().getType());
  auto type = cast<TileType>(op.getType());
  SmallVector<OpFoldResult> offsets(op.getIndices().begin(),
                                    op.getIndices().end());
  OpFoldResult one = builder.getIndexAttr(1);
  SmallVector<OpFoldResult> sizes(offsets.size(), one), strides(sizes);
  sizes[sizes.size() - 2] = builder.getIndexAttr(type.getRows());
  sizes.back() = builder.getIndexAttr(type.getCols());
  auto view = cast<MemRefType>(memref::SubViewOp::inferRankReducedResultType(
      {type.getRows(), type.getCols()}, memory, offsets, sizes, strides));
  buffers[op.getResult()] = memref::SubViewOp::create(
      builder, op.getLoc(), view, op.getSource(), offsets, sizes, strides);
}

StoreOp KernelLowering::findUpdate(Value result, LoadOp load) {
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
  for (auto [value, memref] : buffers) {
    auto other = value.getDefiningOp<LoadOp>();
    if (other && other != load && other->getBlock() == op->getBlock() &&
        other.getSource() == load.getSource() && readsInPlace(other) &&
        !diesAt(value, op))
      return {};
  }
  return store;
}
