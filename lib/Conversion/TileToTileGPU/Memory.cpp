//===- Memory.cpp - Loads and stores of tiles in registers ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ComputeLowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile_gpu;

Value ComputeLowering::position(Value index) {
  if (auto cast = index.getDefiningOp<arith::IndexCastOp>())
    if (cast.getIn().getType().isInteger(32))
      return cast.getIn();
  APInt constant;
  if (matchPattern(index, m_ConstantInt(&constant)))
    return arith::ConstantIntOp::create(b, index.getLoc(), b.getI32Type(),
                                        constant.getSExtValue());
  return arith::IndexCastOp::create(b, index.getLoc(), b.getI32Type(), index);
}

/// Whether `lower` is at most `row`: positions are sums of parts that are not
/// negative.
static bool startsAtOrBefore(Value lower, Value row) {
  if (lower == row || matchPattern(lower, m_Zero()))
    return true;
  if (auto add = row.getDefiningOp<arith::AddIOp>())
    return startsAtOrBefore(lower, add.getLhs()) ||
           startsAtOrBefore(lower, add.getRhs());
  return false;
}

ComputeLowering::Access ComputeLowering::access(Operation *op,
                                                ValueRange indices, Value lower,
                                                Value upper, bool isVector,
                                                tile::TileType type) {
  Access result;
  for (Value index : indices)
    result.indices.push_back(position(index));
  Value row = isVector ? indices.back() : indices[indices.size() - 2];
  if (type.getRows() == 1 && type.getCols() != 1 && !isVector)
    return result; // Columns: the last index alone.
  if (upper)
    result.rows = position(upper);
  if (lower && !startsAtOrBefore(lower, row))
    result.lower = lower;
  return result;
}

LogicalResult ComputeLowering::lowerLoad(tile::LoadOp op) {
  Location loc = op.getLoc();
  tile::TileType type = op.getType();
  bool transposed = op.getTransposed();
  bool column = type.getRows() == 1 && type.getCols() != 1 && !op.getVector();
  if (op.getLive())
    return op.emitOpError("expected live rows with tiles in shared memory "
                          "only; clear its rows there");
  if (type.getCols() == 1 && !op.getVector())
    return op.emitOpError("expected a vector load of a tile of one column");
  if (column && transposed)
    return op.emitOpError("expected a vector load of a tile of one row of a "
                          "transposed tensor");
  if (column && op.getLower())
    return op.emitOpError("expected no bounds on a tile of one row");
  bool narrow = is16Bit(type.getElementType()), turned = isTurned(type);
  Layout layout = narrow && !turned ? Layout::A : Layout::Acc;
  // A right operand is read by products alone.
  if (narrow && turned && llvm::all_of(op->getUsers(), [](Operation *user) {
        return isa<tile::DotOp>(user);
      }))
    layout = Layout::B;
  Type held = registerType(type, op, layout);
  if (!held)
    return failure();
  Access at = access(op, op.getIndices(), op.getLower(), op.getUpper(),
                     op.getVector(), type);
  Value rows = at.rows;
  if (column) // Elements beyond the row read as zero.
    rows = position(memref::DimOp::create(b, loc, op.getSource(),
                                          op.getIndices().size() - 1));
  // A vector has one index, whichever way it lies in registers.
  auto load =
      GlobalLoadOp::create(b, loc, held, op.getSource(), at.indices, rows,
                           (transposed != turned) && !op.getVector());
  load.setFragmentOrder(op.getFragmentOrder());
  Value loaded = load;
  if (at.lower) {
    // Element r, or c, is row `row` + r of the tensor.
    Value row =
        op.getVector() ? at.indices.back() : at.indices[at.indices.size() - 2];
    if (narrow)
      return op.emitOpError("expected a 16-bit tile to start at its first "
                            "row, but got a lower bound beyond");
    Value before = arith::SubIOp::create(b, loc, position(at.lower), row);
    Value zero =
        arith::ConstantOp::create(b, loc, b.getZeroAttr(type.getElementType()));
    auto map = MapOp::create(b, loc, TypeRange(held), ValueRange(loaded));
    OpBuilder::InsertionGuard guard(b);
    Type i32 = b.getI32Type();
    Block *body = b.createBlock(
        &map.getBody(), {}, {i32, i32, type.getElementType()}, {loc, loc, loc});
    Value dead =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                              body->getArgument(transposed != turned), before);
    Value kept =
        arith::SelectOp::create(b, loc, dead, zero, body->getArgument(2));
    YieldOp::create(b, loc, kept);
    loaded = map.getResult(0);
  }
  set(op.getResult(), loaded);
  return success();
}

LogicalResult ComputeLowering::lowerStore(tile::StoreOp op) {
  Location loc = op.getLoc();
  tile::TileType type = typeOf(op.getValue());
  Value value = get(op.getValue());
  if (!isa<FragType, VecType>(value.getType()))
    return op.emitOpError("expected a tile in registers, but got ")
           << value.getType();
  if (type.getCols() == 1 && !op.getVector())
    return op.emitOpError("expected a vector store of a tile of one column");
  if (op.getTransposed() && op.getVector() != (type.getRows() == 1))
    return op.emitOpError("expected a transposed store of a tile of several "
                          "rows and columns");
  Access at = access(op, op.getIndices(), op.getLower(), op.getUpper(),
                     op.getVector(), type);
  if (at.lower)
    return op.emitOpError("expected the lower bound of the rows to be at most "
                          "the first row of the tile");
  Type memory =
      cast<MemRefType>(op.getDestination().getType()).getElementType();
  auto fragment = dyn_cast<FragType>(value.getType());
  bool transposed = op.getTransposed() != isTurned(type);
  // What is transposed has no pairs along memory, and of what is changed in
  // place lanes have neighbours: the store rounds it.
  bool isChanged =
      llvm::any_of(op.getDestination().getUsers(), [](Operation *user) {
        auto load = dyn_cast<GlobalLoadOp>(user);
        return load && isa<FragType>(load.getResult().getType());
      });
  if (fragment && fragment.getElementType().isF32() && is16Bit(memory) &&
      !transposed && !isChanged)
    value = FragConvertOp::create(
        b, loc, frag(type.getRows(), type.getCols(), memory), value);
  auto store =
      GlobalStoreOp::create(b, loc, value, op.getDestination(), at.indices,
                            at.rows, transposed && !op.getVector());
  store.setFragmentOrder(op.getFragmentOrder());
  return success();
}

LogicalResult ComputeLowering::lowerAccumulate(tile::AccumulateOp op) {
  Location loc = op.getLoc();
  tile::TileType type = typeOf(op.getValue());
  Value value = get(op.getValue());
  auto fragment = dyn_cast<FragType>(value.getType());
  if (!isa<FragType, VecType>(value.getType()))
    return op.emitOpError("expected a tile in registers, but got ")
           << value.getType();
  if (type.getCols() == 1 && !op.getVector())
    return op.emitOpError("expected a vector sum of a tile of one column");
  Access at = access(op, op.getIndices(), op.getLower(), op.getUpper(),
                     op.getVector(), type);
  if (at.lower)
    return op.emitOpError("expected the lower bound of the rows to be at most "
                          "the first row of the tile");
  if (op.getTurn())
    return op.emitOpError("expected a producer and compute warpgroups, beside "
                          "which a warp adds in turns, but got warps that copy "
                          "for themselves");
  // Of a vector one of the threads that hold an element adds it.
  if (op.getAnyOrder() || !fragment) {
    auto reduce =
        GlobalReduceOp::create(b, loc, value, op.getDestination(), at.indices,
                               at.rows, /*transposed=*/false);
    reduce.setFragmentOrder(op.getFragmentOrder());
    return success();
  }
  Value old = GlobalLoadOp::create(b, loc, fragment, op.getDestination(),
                                   at.indices, at.rows, /*transposed=*/false);
  auto sum = MapOp::create(b, loc, TypeRange(fragment), ValueRange{old, value});
  {
    OpBuilder::InsertionGuard guard(b);
    Type i32 = b.getI32Type(), f32 = b.getF32Type();
    Block *body = b.createBlock(&sum.getBody(), {}, {i32, i32, f32, f32},
                                {loc, loc, loc, loc});
    YieldOp::create(b, loc,
                    Value(arith::AddFOp::create(b, loc, body->getArgument(2),
                                                body->getArgument(3))));
  }
  GlobalStoreOp::create(b, loc, sum.getResult(0), op.getDestination(),
                        at.indices, at.rows, /*transposed=*/false);
  return success();
}

LogicalResult ComputeLowering::lowerStoreBits(tile::StoreBitsOp op) {
  auto value = dyn_cast<FragType>(get(op.getValue()).getType());
  if (!value || value.getScope() != Scope::Warp)
    return op.emitOpError("expected a tile in the registers of one warp, but "
                          "got ")
           << get(op.getValue()).getType();
  SmallVector<Value> indices = llvm::map_to_vector(
      op.getIndices(), [&](Value index) { return position(index); });
  GlobalStoreBitsOp::create(b, op.getLoc(), get(op.getValue()),
                            op.getDestination(), indices, position(op.getRow()),
                            position(op.getColumn()));
  return success();
}

LogicalResult ComputeLowering::lowerPrefetch(tile::PrefetchOp op) {
  SmallVector<Value> indices = llvm::map_to_vector(
      op.getIndices(), [&](Value index) { return position(index); });
  GlobalPrefetchOp::create(b, op.getLoc(), op.getSource(), indices,
                           op.getRows(), op.getColumns());
  return success();
}
