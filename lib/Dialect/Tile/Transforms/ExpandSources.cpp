//===- ExpandSources.cpp - Rows of sequences as rows of tensors -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where a sequence begins and how many rows it has is read once for each batch
// that is asked for, in front of the first who asks. Rows that lie one after
// the other are then rows of the tensor, an offset further on; what a target
// does for others it does for each row.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Dialect/Tile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/Matchers.h"

#include <array>
#include <map>
#include <tuple>

#define DEBUG_TYPE "tile-expand-sources"

namespace attn {
#define GEN_PASS_DEF_TILEEXPANDSOURCESPASS
#include "attn/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile;

namespace {
/// Expands the sources of one kernel.
class SourceExpander {
public:
  explicit SourceExpander(KernelOp kernel)
      : kernel(kernel), b(kernel.getContext()), dominance(kernel) {}
  void run();

private:
  /// Of the sequence of a batch: its first row, or null for 0, and its rows.
  struct Sequence {
    Value first, extent;
  };
  Sequence locate(SourceOp source, Value batch, Operation *user);
  Sequence build(SourceOp source, Value batch);
  Value lengthOf(SourceOp source, Value batch, Value most);
  /// Adds the first row to an access, whose batch goes.
  void expand(Operation *access, OpOperand &memory, OperandRange indices,
              bool vector, MutableOperandRange lower,
              MutableOperandRange upper);
  void expandElement(ElementOp element);
  Value findPage(SourceOp source, SmallVectorImpl<Value> &at);

  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, loc, value);
  }
  Value add(Value x, Value y) {
    return b.createOrFold<arith::AddIOp>(loc, x, y);
  }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }
  Value min(Value x, Value y) { return arith::MinSIOp::create(b, loc, x, y); }
  Value max(Value x, Value y) { return arith::MaxSIOp::create(b, loc, x, y); }
  Value dim(Value memref, int64_t d) {
    return memref::DimOp::create(b, loc, memref, d);
  }
  Value element(Value memref, ValueRange at) {
    return arith::IndexCastOp::create(
        b, loc, b.getIndexType(), memref::LoadOp::create(b, loc, memref, at));
  }

  KernelOp kernel;
  OpBuilder b;
  Location loc = kernel.getLoc();
  DominanceInfo dominance;
  /// By index operands and batch; of tensors without them, by tensor.
  using Key = std::array<void *, 6>;
  std::map<Key, std::pair<SourceOp, Sequence>> sequences;
  /// By table, batch, position, block and rows of a page: what the table has of
  /// a tile, and its row in the page. Accesses of a block are met in order.
  std::map<std::tuple<void *, void *, void *, Block *, int64_t>,
           std::pair<Value, Value>>
      pages;
};
} // namespace

/// `length` of the batch, at most `most`; a batch behind the last has none.
Value SourceExpander::lengthOf(SourceOp source, Value batch, Value most) {
  Value lengths = source.getLengths();
  auto clamped = [&]() -> Value {
    if (!lengths)
      return most;
    return min(max(element(lengths, batch), index(0)), most);
  };
  if (!source.getRest() || source.getOffsets())
    return clamped();
  // As many sequences as both have room for.
  Value count = lengths ? dim(lengths, 0) : Value();
  for (Value map : {Value(source.getTable()), Value(source.getStart())})
    if (map)
      count = count ? min(count, dim(map, 0)) : dim(map, 0);
  if (!count)
    return clamped();
  Value exists =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, batch, count);
  auto branch = scf::IfOp::create(b, loc, TypeRange(b.getIndexType()), exists,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, loc, clamped());
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, loc, index(0));
  return branch.getResult(0);
}

SourceExpander::Sequence SourceExpander::build(SourceOp source, Value batch) {
  Value memory = source.getMemory();
  Value rows = dim(memory, source.getRowDim());
  if (Value table = source.getTable()) {
    // A pool without pages has no rows, whatever a table says.
    Value pages = dim(memory, 0);
    Value capacity = arith::MulIOp::create(b, loc, dim(table, 1), rows);
    Value none = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, pages,
                                       index(0));
    capacity = arith::SelectOp::create(b, loc, none, index(0), capacity);
    return {Value(), lengthOf(source, batch, capacity)};
  }
  Value offsets = source.getOffsets();
  if (!offsets)
    return {Value(), lengthOf(source, batch, rows)};
  // Sequences in one tensor: no offset may lead out of it.
  Value last = max(sub(dim(offsets, 0), index(1)), index(0));
  Value next = min(add(batch, index(1)), last);
  Value start = min(max(element(offsets, batch), index(0)), rows);
  Value end = min(max(element(offsets, next), start), rows);
  if (source.getRest()) {
    Value isRest =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, batch, last);
    end = arith::SelectOp::create(b, loc, isRest, rows, end);
  }
  return {start, lengthOf(source, batch, sub(end, start))};
}

SourceExpander::Sequence SourceExpander::locate(SourceOp source, Value batch,
                                                Operation *user) {
  Key key = {batch.getAsOpaquePointer(),
             source.getRest() ? source.getContext() : nullptr};
  size_t next = 2;
  for (Value map : source->getOperands().drop_front())
    key[next++] = map.getAsOpaquePointer();
  if (next == 2)
    key[next] = source.getMemory().getAsOpaquePointer();
  auto known = sequences.find(key);
  if (known != sequences.end() &&
      dominance.dominates(known->second.first.getOperation(),
                          source.getOperation()))
    return known->second.second;
  bool early = dominance.properlyDominates(batch, source);
  OpBuilder::InsertionGuard guard(b);
  loc = source.getLoc();
  if (early)
    b.setInsertionPointAfter(source);
  else
    b.setInsertionPoint(user);
  Sequence found = build(source, batch);
  if (early)
    sequences[key] = {source, found};
  return found;
}

void SourceExpander::expand(Operation *access, OpOperand &memory,
                            OperandRange indices, bool vector,
                            MutableOperandRange lower,
                            MutableOperandRange upper) {
  auto source = memory.get().getDefiningOp<SourceOp>();
  if (!source || (!source.isContiguous() && !source.getAligned()))
    return;
  int64_t position = source.getPositionDim();
  Value first;
  SmallVector<Value> rows(indices);
  if (source.getAligned()) {
    loc = access->getLoc();
    b.setInsertionPoint(access);
    Value page = findPage(source, rows);
    // The row in the page, and from there to the position.
    Value before = sub(indices[position], rows[position]);
    for (MutableOperandRange bound : {lower, upper})
      for (OpOperand &operand : bound)
        if (!matchPattern(operand.get(), m_Zero()))
          operand.set(sub(operand.get(), before));
    rows.front() = page;
  }
  if (source.getOffsets()) {
    first = locate(source, indices[position - 2], access).first;
    loc = access->getLoc();
    b.setInsertionPoint(access);
    rows[position] = add(first, rows[position]);
    for (MutableOperandRange bound : {lower, upper})
      for (OpOperand &operand : bound)
        operand.set(add(first, operand.get()));
    rows.erase(rows.begin() + position - 2);
  }
  memory.set(source.getMemory());
  if (auto load = dyn_cast<LoadOp>(access))
    load.getIndicesMutable().assign(rows);
  else
    cast<StoreOp>(access).getIndicesMutable().assign(rows);
}

/// The page of a tile; its position becomes the row in that.
Value SourceExpander::findPage(SourceOp source, SmallVectorImpl<Value> &at) {
  Value memory = source.getMemory(), table = source.getTable();
  int64_t rowDim = source.getRowDim();
  Value &row = at[source.getPositionDim()];
  // Keys and values have pages in common.
  auto &[entry, rowInPage] =
      pages[{table.getAsOpaquePointer(), at.front().getAsOpaquePointer(),
             row.getAsOpaquePointer(), b.getInsertionBlock(),
             source.getMemoryType().getDimSize(rowDim)}];
  if (!entry) {
    Value rows = dim(memory, rowDim);
    Value number = arith::DivUIOp::create(b, loc, row, rows);
    rowInPage = arith::RemUIOp::create(b, loc, row, rows);
    // A tile without rows may be asked for behind the last page.
    number = min(number, sub(dim(table, 1), index(1)));
    entry = max(element(table, {at.front(), number}), index(0));
  }
  row = rowInPage;
  return min(entry, sub(dim(memory, 0), index(1)));
}

void SourceExpander::expandElement(ElementOp element) {
  SmallVector<Value> indices(element.getIndices());
  Value memory = element.getSource();
  if (auto source = memory.getDefiningOp<SourceOp>()) {
    if (!source.isContiguous())
      return;
    memory = source.getMemory();
    int64_t position = source.getPositionDim();
    if (source.getOffsets()) {
      Value first = locate(source, indices[position - 2], element).first;
      loc = element.getLoc();
      b.setInsertionPoint(element);
      indices[position] = min(add(first, indices[position]),
                              sub(dim(memory, source.getRowDim()), index(1)));
      indices.erase(indices.begin() + position - 2);
    }
  }
  b.setInsertionPoint(element);
  element.replaceAllUsesWith(
      memref::LoadOp::create(b, element.getLoc(), memory, indices).getResult());
  element.erase();
}

void SourceExpander::run() {
  SmallVector<Operation *> ops;
  SmallVector<SourceOp> sources;
  kernel.walk([&](Operation *op) {
    if (isa<LoadOp, StoreOp, ElementOp, ExtentOp>(op))
      ops.push_back(op);
    else if (auto source = dyn_cast<SourceOp>(op))
      sources.push_back(source);
  });
  for (Operation *op : ops) {
    if (auto load = dyn_cast<LoadOp>(op))
      expand(op, load.getSourceMutable(), load.getIndices(), load.getVector(),
             load.getLowerMutable(), load.getUpperMutable());
    else if (auto store = dyn_cast<StoreOp>(op))
      expand(op, store.getDestinationMutable(), store.getIndices(),
             store.getVector(), store.getLowerMutable(),
             store.getUpperMutable());
    else if (auto element = dyn_cast<ElementOp>(op))
      expandElement(element);
    else if (auto extent = dyn_cast<ExtentOp>(op))
      if (auto source = extent.getSource().getDefiningOp<SourceOp>()) {
        extent.replaceAllUsesWith(
            locate(source, extent.getBatch(), extent).extent);
        extent.erase();
      }
  }
  for (SourceOp source : sources)
    if (source->use_empty())
      source.erase();
}

namespace {
struct ExpandSources : ::attn::impl::TileExpandSourcesPassBase<ExpandSources> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>())
      if (!kernel.isExternal())
        SourceExpander(kernel).run();
  }
};
} // namespace
