//===- WorkTiles.cpp - Work tiles as arithmetic ---------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Tile/IR/WorkTiles.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile;

namespace {
/// Operations of arith on values of one type.
struct Arithmetic {
  OpBuilder &b;
  Location loc;
  Type type;

  Value constant(int64_t value) {
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value));
  }
  Value cast(Value x) {
    if (x.getType() == type)
      return x;
    return arith::IndexCastOp::create(b, loc, type, x);
  }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, loc, x, y); }
  Value min(Value x, Value y) { return arith::MinSIOp::create(b, loc, x, y); }
  Value max(Value x, Value y) { return arith::MaxSIOp::create(b, loc, x, y); }
  std::pair<Value, Value> divide(Value x, Value y) {
    return {arith::DivUIOp::create(b, loc, x, y),
            arith::RemUIOp::create(b, loc, x, y)};
  }
  Value isLess(Value x, Value y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, y);
  }
  Value select(Value c, Value x, Value y) {
    return arith::SelectOp::create(b, loc, c, x, y);
  }
  bool isOne(Value x) { return matchPattern(x, m_One()); }
  Value load(Value memref, Value at) {
    Value index = arith::IndexCastOp::create(b, loc, b.getIndexType(), at);
    return memref::LoadOp::create(b, loc, memref, ValueRange(index));
  }
};
} // namespace

SequenceTile tile::findSequence(OpBuilder &b, WorkTileOp op, Value tile,
                                Value offsets, Value rows) {
  Location loc = op.getLoc();
  Arithmetic m{b, loc, b.getI32Type()};
  Value t = m.cast(tile), zero = m.constant(0), one = m.constant(1);
  Value blockQ = m.constant(*op.getBlockQ());
  Value size = memref::DimOp::create(b, loc, offsets,
                                     arith::ConstantIndexOp::create(b, loc, 0));
  Value count = m.max(m.cast(size), one);
  auto tilesBefore = [&](Value i) {
    Value row = m.max(m.load(offsets, i), zero);
    return m.add(arith::DivUIOp::create(b, loc, row, blockQ), i);
  };
  // The last sequence that starts at t or before, bit by bit.
  Value bits =
      m.sub(m.constant(32), math::CountLeadingZerosOp::create(b, loc, count));
  Arithmetic r{b, loc, b.getIndexType()};
  auto loop = scf::ForOp::create(
      b, loc, r.constant(0), r.cast(bits), r.constant(1), ValueRange(zero),
      [&](OpBuilder &, Location, Value turn, ValueRange carried) {
        Value least = carried.front();
        Value shift = m.sub(m.sub(bits, one), m.cast(turn));
        Value probe = m.add(least, arith::ShLIOp::create(b, loc, one, shift));
        Value isSome = m.isLess(probe, count);
        Value at = tilesBefore(m.min(probe, m.sub(count, one)));
        Value reached = arith::AndIOp::create(
            b, loc, isSome,
            arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, at, t));
        scf::YieldOp::create(b, loc, m.select(reached, probe, least));
      });
  Value sequence = loop.getResult(0);
  Value found = m.max(m.sub(t, tilesBefore(sequence)), zero);
  // Rows are of `index`, as the kernel has them. Of the last sequence, all that
  // are left.
  Value none = r.constant(0), number = r.cast(sequence);
  Value last = r.max(r.sub(size, r.constant(1)), none);
  auto offset = [&](Value i, Value least) {
    Value row = memref::LoadOp::create(b, loc, offsets, ValueRange(i));
    return r.min(r.max(r.cast(row), least), rows);
  };
  Value start = offset(number, none);
  Value end = offset(r.min(r.add(number, r.constant(1)), last), start);
  Value isLast =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, number, last);
  Value length = r.sub(r.select(isLast, rows, end), start);
  Value tiles =
      arith::CeilDivUIOp::create(b, loc, length, r.constant(*op.getBlockQ()));
  Value place = r.cast(found);
  Value isEmpty =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, place, tiles);
  place = r.select(isEmpty, place, placeTile(r, place, tiles, op.getOrder()));
  return {number, place, isEmpty};
}

Value tile::hasNoRows(OpBuilder &b, WorkTileOp op, Value tile, Value batch,
                      Value counts) {
  Location loc = op.getLoc();
  Arithmetic m{b, loc, b.getI32Type()};
  Value first = m.mul(m.cast(tile), m.constant(*op.getBlockQ()));
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, first,
                               m.load(counts, m.cast(batch)));
}

void tile::expandWorkTile(WorkTileOp op) {
  OpBuilder b(op);
  Arithmetic m{b, op.getLoc(), b.getIndexType()};
  WorkDomain<Value> domain = {
      op.getBatches(),
      op.getHeads(),
      op.getTiles(),
      op.getParts(),
      {},
      op.getByParts() ? 1 : int64_t(op.getCluster().value_or(1))};
  if (op.getSection())
    domain.section = op.getSection();
  if (op.getOffsets())
    domain.batches = m.constant(1);
  countWork(m, domain);
  // Tiles of sequences are placed once they are found.
  WorkTile<Value> at = locateWorkTile(
      m, Value(op.getNumber()), domain,
      op.getOffsets() ? attn::WorkOrder::in_order : op.getOrder());
  if (op.getOffsets()) {
    SequenceTile found =
        findSequence(b, op, at.tile, op.getOffsets(), op.getRows());
    at.batch = found.sequence;
    at.tile = found.tile;
  }
  op.replaceAllUsesWith(ValueRange{at.batch, at.head, at.tile, at.part});
  op.erase();
}

void WorkTileOp::build(OpBuilder &b, OperationState &state, Value number,
                       Value batches, Value heads, Value tiles, Value parts) {
  SmallVector<Type> types(4, b.getIndexType());
  build(b, state, types, number, attn::WorkOrder::in_order, /*section=*/Value(),
        /*cluster=*/IntegerAttr(), /*by_parts=*/false, /*offsets=*/Value(),
        /*rows=*/Value(),
        /*counts=*/Value(), /*block_q=*/IntegerAttr(), batches, heads, tiles,
        parts);
}

LogicalResult WorkTileOp::verify() {
  auto kernel = (*this)->getParentOfType<KernelOp>();
  Block &body = kernel.getBody().front();
  if (!body.getNumArguments() || getNumber() != body.getArguments().back())
    return emitOpError("expected the number of the block, the last argument of "
                       "the kernel");
  for (auto other : body.getOps<WorkTileOp>())
    if (other != *this && other->isBeforeInBlock(*this))
      return emitOpError("expected one work tile in a kernel, but got two");
  if (bool(getOffsets()) == bool(getBatches()))
    return emitOpError("expected either batches(...) or varlen(...)");
  if (getOffsets() && getCounts())
    return emitOpError("expected no counts(...) with varlen(...), whose "
                       "offsets say them");
  if ((getOffsets() || getCounts()) != getBlockQ().has_value())
    return emitOpError("expected block_q(...) with varlen(...) or "
                       "counts(...), and not without");
  if (int64_t rows = getBlockQ().value_or(1); rows < 1)
    return emitOpError("expected tiles of 1 row or more, but got ") << rows;
  if (int64_t cluster = getCluster().value_or(2);
      cluster < 2 || cluster > mostBlocksOfCluster)
    return emitOpError("expected clusters of 2 to ")
           << mostBlocksOfCluster << " blocks, but got " << cluster;
  if (getByParts() && !getCluster())
    return emitOpError("expected by_parts beside cluster(...) only");
  if ((getOffsets() || getCounts()) && getCluster())
    return emitOpError("expected no cluster(...) with varlen(...) or "
                       "counts(...), whose tiles blocks find one by one");
  return success();
}
