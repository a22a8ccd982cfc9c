//===- DeadRows.cpp - Rows of values that no query may see ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The consumers' part of tile-gpu-specialize-warps that clears rows of a slot
// before they are multiplied.
//
//===----------------------------------------------------------------------===//

#include "SpecializeWarps.h"
#include "attn/Support/MostCounted.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile_gpu;

/// Whether rows end where those of the keys and values in memory do.
bool Consumer::endsWithTensor(Value upper) {
  auto size = upper.getDefiningOp<memref::DimOp>();
  return size && llvm::any_of(plan.steps, [&](RolesRing &ring) {
           auto type = cast<MemRefType>(ring.memory.getType());
           return size.getSource() == ring.memory &&
                  size.getConstantIndex() == type.getRank() - 2;
         });
}

/// A value row that no query may see must not reach one, not even times 0.
/// Tensor copies fill with zeros beyond the tensor only.
void Consumer::clearDeadRows(RolesRing &ring, tile::LoadOp load, Value tile) {
  if (!(ring.isValue || ring.isWhole) ||
      (!load.getUpper() && !load.getLive()) || load.getNotCleared())
    return;
  // Up to 64 columns they are cleared all the same: without that code ptxas
  // gave the loop over whole tiles another order, and d = 64 was slower
  // (docs/performance/gpu.md).
  if (!load.getLive() && load.getType().getCols() > 64 &&
      matchPattern(load.getLower(), m_Zero()) &&
      endsWithTensor(load.getUpper()))
    return;
  Location loc = load.getLoc();
  if (load.getLive()) {
    // Those beyond the bounds are dead as well.
    auto truths = load.getLive().getDefiningOp<tile::TruthsOp>();
    SmallVector<Value> words = lookup(truths.getWords());
    Value all = i32(-1, loc);
    for (auto [w, word] : llvm::enumerate(words)) {
      Value bits = word;
      if (int64_t rows = ring.tile.getRows() - 32 * int64_t(w); rows < 32)
        bits = arith::OrIOp::create(b, loc, word, i32(-(1ll << rows), loc));
      all = w ? arith::AndIOp::create(b, loc, all, bits).getResult() : bits;
    }
    Value some = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, all,
                                       i32(-1, loc));
    auto branch = scf::IfOp::create(b, loc, some, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    SmemClearRowsOp::create(b, loc, tile, /*from=*/Value(), /*before=*/Value(),
                            /*live=*/Value(), words);
    return;
  }
  Value first = mapping.lookup(load.getIndices().drop_back().back());
  int64_t numRows = ring.tile.getRows();
  if (plan.keyWarps || plan.keyParts > 1) {
    numRows = plan.keyWarps ? RolesPlan::keysOfWarp : numRows;
    first = arith::AddIOp::create(
        b, loc, first,
        arith::IndexCastOp::create(
            b, loc, b.getIndexType(),
            arith::MulIOp::create(b, loc, member, i32(numRows, loc))));
  }
  Value from =
      arith::SubIOp::create(b, loc, forAllRows(load.getUpper()), first);
  Value rows = arith::ConstantIndexOp::create(b, loc, numRows);
  Value dead =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, from, rows);
  Value before;
  if (!matchPattern(load.getLower(), m_Zero())) {
    before = arith::SubIOp::create(b, loc, forAllRows(load.getLower()), first);
    Value zero = arith::ConstantIndexOp::create(b, loc, 0);
    Value some =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, before, zero);
    dead = arith::OrIOp::create(b, loc, dead, some);
  }
  auto branch = scf::IfOp::create(b, loc, dead, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  // Beyond 32 bits all rows are live, or all are dead.
  auto narrow = [&](Value value) -> Value {
    Value limit = arith::ConstantIndexOp::create(b, loc, ::attn::mostCounted);
    Value least = arith::ConstantIndexOp::create(b, loc, -1);
    value = arith::MinSIOp::create(b, loc, value, limit);
    value = arith::MaxSIOp::create(b, loc, value, least);
    return arith::IndexCastOp::create(b, loc, b.getI32Type(), value);
  };
  SmemClearRowsOp::create(b, loc, tile, narrow(from),
                          before ? narrow(before) : Value(), /*live=*/Value(),
                          /*bits=*/ValueRange());
}
