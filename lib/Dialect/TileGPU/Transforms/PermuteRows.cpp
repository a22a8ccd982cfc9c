//===- PermuteRows.cpp - Neighbours of transposed tensors for lanes -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A lane of a warp's fragment has rows that are 8 apart. Rows of a transposed
// fragment are what lies one after the other in memory; so a lane would read
// four numbers by four instructions, of which each takes 32 bytes from a line.
// Where nothing depends on the order of the rows, a lane's rows stand for
// neighbours instead.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#define DEBUG_TYPE "tile-gpu-permute-rows"

namespace attn {
#define GEN_PASS_DEF_TILEGPUPERMUTEROWSPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

static bool isInRegisters(Type type) { return isa<FragType, VecType>(type); }

/// Rows of a fragment or row vector; 0 of others.
static int64_t rowsOf(Type type) {
  if (auto frag = dyn_cast<FragType>(type))
    return frag.getRows();
  auto vec = dyn_cast<VecType>(type);
  return vec && vec.getAxis() == Axis::Row ? vec.getSize() : 0;
}

namespace {
struct Accesses {
  SmallVector<GlobalLoadOp> loads;
  SmallVector<GlobalStoreOp> stores;
  int64_t rows = 0;
  bool hasTransposed = false;

  /// Whether the order of rows is all the same.
  bool collect(RoleOp role);

private:
  bool visit(Operation *op);
};
} // namespace

bool Accesses::visit(Operation *op) {
  SmallVector<Type> types(op->getOperandTypes());
  llvm::append_range(types, op->getResultTypes());
  for (Region &region : op->getRegions())
    for (Block &block : region)
      llvm::append_range(types, block.getArgumentTypes());
  if (llvm::none_of(types, isInRegisters))
    return true;
  for (Type type : types)
    if (int64_t own = rowsOf(type)) {
      if (rows && own != rows)
        return false;
      rows = own;
      auto frag = dyn_cast<FragType>(type);
      if (frag &&
          (frag.getLayout() != Layout::Acc || !frag.getElementType().isF32()))
        return false;
    }
  if (auto load = dyn_cast<GlobalLoadOp>(op)) {
    hasTransposed |= load.getTransposed();
    if (rowsOf(load.getResult().getType()))
      loads.push_back(load);
    return true;
  }
  if (auto store = dyn_cast<GlobalStoreOp>(op)) {
    hasTransposed |= store.getTransposed();
    if (rowsOf(store.getValue().getType()))
      stores.push_back(store);
    return true;
  }
  if (auto map = dyn_cast<MapOp>(op))
    return map.getBody().getArgument(0).use_empty();
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return !reduce.getOrdered();
  return isa<FragFillOp, FragCopyOp, AnyOp, ForeachOp, scf::ForOp, scf::IfOp,
             scf::YieldOp, YieldOp>(op);
}

bool Accesses::collect(RoleOp role) {
  if (role.getScope() != Scope::Warp)
    return false;
  WalkResult result = role.walk([&](Operation *op) {
    return visit(op) ? WalkResult::advance() : WalkResult::interrupt();
  });
  return !result.wasInterrupted() && hasTransposed &&
         (rows == 16 || rows == 32);
}

namespace {
struct PermuteRowsPass
    : ::attn::impl::TileGpuPermuteRowsPassBase<PermuteRowsPass> {
  void runOnOperation() final {
    for (auto role : getOperation().getOps<RoleOp>()) {
      Accesses accesses;
      if (!accesses.collect(role))
        continue;
      for (GlobalLoadOp load : accesses.loads)
        load.setPermuted(true);
      for (GlobalStoreOp store : accesses.stores)
        store.setPermuted(true);
    }
  }
};
} // namespace
