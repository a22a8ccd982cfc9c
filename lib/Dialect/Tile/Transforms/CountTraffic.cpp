//===- CountTraffic.cpp - Count the bytes that tiles move -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Dialect/Tile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

#define DEBUG_TYPE "tile-count-traffic"

namespace attn {
#define GEN_PASS_DEF_TILECOUNTTRAFFICPASS
#include "attn/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile;

namespace {
enum class Counter { loaded, stored, workspace };

class TrafficCounter {
public:
  TrafficCounter(MLIRContext *context, uint64_t address)
      : b(context), address(address) {}

  void count(LoadOp op) {
    start(op);
    add(Counter::loaded,
        countElements(op.getSource(), op.getIndices(), op.getMemoryRows(),
                      op.getMemoryCols(), op.getVector(), op.getLower(),
                      op.getUpper()),
        op.getSource());
  }
  void count(StoreOp op) {
    start(op);
    auto tile = cast<TileType>(op.getValue().getType());
    add(Counter::stored,
        countElements(op.getDestination(), op.getIndices(), tile.getRows(),
                      tile.getCols(), op.getVector(), op.getLower(),
                      op.getUpper()),
        op.getDestination());
  }
  void count(AccumulateOp op) {
    start(op);
    auto tile = cast<TileType>(op.getValue().getType());
    Value elements = countElements(
        op.getDestination(), op.getIndices(), tile.getRows(), tile.getCols(),
        op.getVector(), op.getLower(), op.getUpper());
    add(Counter::loaded, elements, op.getDestination());
    add(Counter::stored, elements, op.getDestination());
  }
  void count(WorkspaceOp op) {
    start(op);
    b.setInsertionPointAfter(op);
    auto type = cast<MemRefType>(op.getResult().getType());
    int64_t fixed = 1;
    for (int64_t size : type.getShape())
      if (!ShapedType::isDynamic(size))
        fixed *= size;
    Value count = index(fixed);
    for (Value size : op.getSizes())
      count = mul(count, size);
    add(Counter::workspace, count, op.getResult());
  }
  void count(MapOp op);

private:
  void start(Operation *op) {
    loc = op->getLoc();
    b.setInsertionPoint(op);
  }
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, *loc, value);
  }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, *loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, *loc, x, y); }
  Value clamp(Value x, int64_t most) {
    x = arith::MaxSIOp::create(b, *loc, x, index(0));
    return arith::MinSIOp::create(b, *loc, x, index(most));
  }
  Value countElements(Value memory, ValueRange indices, int64_t rows,
                      int64_t cols, bool isVector, Value lower, Value upper);
  void add(Counter counter, Value count, Value memory);

  OpBuilder b;
  std::optional<Location> loc;
  uint64_t address;
};
} // namespace

/// The last dimension of a tensor, or of the rows of a source.
static int64_t widthOf(Value memory) {
  if (auto source = dyn_cast<SourceType>(memory.getType()))
    return source.getShape().back();
  return cast<MemRefType>(memory.getType()).getShape().back();
}

static int64_t bytesOfElement(Value memory) {
  constexpr int64_t bitsOfByte = 8;
  Type type = memory.getType();
  Type element = isa<SourceType>(type)
                     ? cast<SourceType>(type).getElementType()
                     : cast<MemRefType>(type).getElementType();
  return llvm::divideCeil(element.getIntOrFloatBitWidth(), bitsOfByte);
}

Value TrafficCounter::countElements(Value memory, ValueRange indices,
                                    int64_t rows, int64_t cols, bool isVector,
                                    Value lower, Value upper) {
  Value row = indices[indices.size() - (isVector ? 1 : 2)];
  Value count = index(rows);
  if (upper) {
    Value last = arith::MinSIOp::create(
        b, *loc, upper, arith::AddIOp::create(b, *loc, row, index(rows)));
    Value first =
        lower ? arith::MaxSIOp::create(b, *loc, lower, row).getResult() : row;
    count = clamp(sub(last, first), rows);
  }
  if (isVector)
    return count;
  int64_t width = widthOf(memory);
  Value end = index(width);
  if (ShapedType::isDynamic(width))
    end = memref::DimOp::create(
        b, *loc, memory, cast<MemRefType>(memory.getType()).getRank() - 1);
  return mul(count, clamp(sub(end, indices.back()), cols));
}

void TrafficCounter::add(Counter counter, Value count, Value memory) {
  Type i64 = b.getI64Type();
  Value total = arith::IndexCastOp::create(
      b, *loc, i64, mul(count, index(bytesOfElement(memory))));
  Value place = LLVM::ConstantOp::create(
      b, *loc, i64,
      b.getI64IntegerAttr(
          int64_t(address + uint64_t(counter) * sizeof(uint64_t))));
  Value pointer = LLVM::IntToPtrOp::create(
      b, *loc, LLVM::LLVMPointerType::get(b.getContext()), place);
  LLVM::AtomicRMWOp::create(b, *loc, LLVM::AtomicBinOp::add, pointer, total,
                            LLVM::AtomicOrdering::monotonic);
}

/// Elements that a map reads: one for each of the tile's, or one for each row
/// or column where nothing else decides which.
void TrafficCounter::count(MapOp op) {
  start(op);
  Block &body = op.getBody().front();
  auto tile = cast<TileType>(op->getResult(0).getType());
  for (Value result : op->getResults())
    if (auto other = cast<TileType>(result.getType());
        other.getCols() > tile.getCols())
      tile = other;
  // What depends on the row and on the column, in order.
  llvm::DenseSet<Value> ofRow = {body.getArgument(0)},
                        ofCol = {body.getArgument(1)};
  SmallVector<std::pair<Value, Value>> reads; // memory, elements
  for (Operation &inner : body) {
    auto reaches = [&](const llvm::DenseSet<Value> &from) {
      return llvm::any_of(inner.getOperands(),
                          [&](Value x) { return from.contains(x); });
    };
    bool row = reaches(ofRow), col = reaches(ofCol);
    if (row)
      ofRow.insert(inner.result_begin(), inner.result_end());
    if (col)
      ofCol.insert(inner.result_begin(), inner.result_end());
    if (auto load = dyn_cast<memref::LoadOp>(inner))
      reads.push_back({load.getMemRef(), index((row ? tile.getRows() : 1) *
                                               (col ? tile.getCols() : 1))});
  }
  for (auto [memory, elements] : reads)
    add(Counter::loaded, elements, memory);
}

namespace {
struct CountTrafficPass
    : ::attn::impl::TileCountTrafficPassBase<CountTrafficPass> {
  using TileCountTrafficPassBase::TileCountTrafficPassBase;

  void runOnOperation() final {
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (isa<LoadOp, StoreOp, AccumulateOp, WorkspaceOp, MapOp>(op))
        ops.push_back(op);
    });
    TrafficCounter counter(&getContext(), address);
    for (Operation *op : ops)
      llvm::TypeSwitch<Operation *>(op)
          .Case<LoadOp, StoreOp, AccumulateOp, WorkspaceOp, MapOp>(
              [&](auto op) { counter.count(op); });
  }
};
} // namespace
