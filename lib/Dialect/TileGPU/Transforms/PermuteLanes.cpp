//===- PermuteLanes.cpp - Neighbours of transposed tensors for lanes ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A lane of a warp's fragment has rows that are 8 apart, and pairs of columns.
// Rows of a transposed fragment are what lies one after the other in memory; so
// a lane would read four numbers by four instructions, of which each takes 32
// bytes from a line. Where nothing depends on which lane has what, rows and
// columns change places, and a lane's columns stand for as many neighbours as
// 16 bytes are. That of the 32 lanes 4 have columns and 8 have rows serves
// states: vectors along the rows, of which there are many, are a few registers.
//
// Of tensors that are not transposed rows are neighbours after that: 64 columns
// of memory are 8 for each of 8 lanes, of 16 bits one access.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#define DEBUG_TYPE "tile-gpu-permute-lanes"

namespace attn {
#define GEN_PASS_DEF_TILEGPUPERMUTELANESPASS
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

static Type transposed(Type type) {
  MLIRContext *context = type.getContext();
  if (auto frag = dyn_cast<FragType>(type))
    return FragType::get(context, frag.getCols(), frag.getRows(),
                         frag.getElementType(), frag.getLayout(),
                         frag.getScope());
  auto vec = dyn_cast<VecType>(type);
  if (!vec)
    return type;
  Axis axis = vec.getAxis() == Axis::Row ? Axis::Col : Axis::Row;
  return VecType::get(context, vec.getSize(), vec.getElementType(), axis,
                      vec.getScope(), vec.getPartial());
}

namespace {
struct Accesses {
  SmallVector<GlobalLoadOp> loads;
  SmallVector<GlobalStoreOp> stores;
  int64_t rows = 0;
  /// Bytes of an element of the narrowest tensor of fragments, and of vectors,
  /// and whether fragments are transposed, of which all are or none.
  int64_t bytes = 0, vectorBytes = 4;
  bool transposed = false;
  /// Whether vectors along rows, and along columns, are loaded.
  bool loadsRows = false, loadsCols = false;

  /// Whether it is all the same which lane has which row and column.
  bool collect(RoleOp role);
  /// How many neighbours a lane's columns are to be.
  int64_t neighbours() const { return std::min(16 / bytes, rows / 4); }

private:
  bool visit(Operation *op);
  bool visitAccess(Type value, Type memory, bool isTransposed);
};
} // namespace

bool Accesses::visitAccess(Type value, Type memory, bool isTransposed) {
  Type element = cast<MemRefType>(memory).getElementType();
  if (!element.isF32() && !element.isBF16() && !element.isF16())
    return false;
  int64_t own = element.getIntOrFloatBitWidth() / 8;
  if (!isa<FragType>(value)) {
    vectorBytes = std::min(vectorBytes, own);
    return true;
  }
  if (bytes && isTransposed != transposed)
    return false;
  transposed = isTransposed;
  bytes = bytes ? std::min(bytes, own) : own;
  return true;
}

bool Accesses::visit(Operation *op) {
  SmallVector<Type> types(op->getOperandTypes());
  llvm::append_range(types, op->getResultTypes());
  for (Region &region : op->getRegions())
    for (Block &block : region)
      llvm::append_range(types, block.getArgumentTypes());
  if (llvm::none_of(types, isInRegisters))
    return true;
  for (Type type : types) {
    auto vec = dyn_cast<VecType>(type);
    auto frag = dyn_cast<FragType>(type);
    if (vec && (vec.getPartial() || !vec.getElementType().isF32() ||
                vec.getSize() % 16))
      return false;
    if (frag && (frag.getLayout() != Layout::Acc ||
                 !frag.getElementType().isF32() || frag.getCols() % 16))
      return false;
    if (int64_t own = rowsOf(type)) {
      if (rows && own != rows)
        return false;
      rows = own;
    }
  }
  if (auto load = dyn_cast<GlobalLoadOp>(op)) {
    loads.push_back(load);
    if (auto vec = dyn_cast<VecType>(load.getResult().getType()))
      (vec.getAxis() == Axis::Row ? loadsRows : loadsCols) = true;
    return visitAccess(load.getResult().getType(), load.getSource().getType(),
                       load.getTransposed());
  }
  if (auto store = dyn_cast<GlobalStoreOp>(op)) {
    stores.push_back(store);
    return visitAccess(store.getValue().getType(),
                       store.getDestination().getType(), store.getTransposed());
  }
  if (auto map = dyn_cast<MapOp>(op))
    return map.getBody().getArgument(0).use_empty() &&
           map.getBody().getArgument(1).use_empty();
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return !reduce.getOrdered();
  return isa<FragFillOp, FragCopyOp, ForeachOp, scf::ForOp, scf::IfOp,
             scf::YieldOp, YieldOp>(op);
}

bool Accesses::collect(RoleOp role) {
  if (role.getScope() != Scope::Warp || role.getCount() != 1)
    return false;
  WalkResult result = role.walk([&](Operation *op) {
    return visit(op) ? WalkResult::advance() : WalkResult::interrupt();
  });
  if (result.wasInterrupted())
    return false;
  // Of vectors along columns alone, as the sum of keys beside a state, a lane
  // has neighbours, too.
  if (!bytes && loadsCols && !loadsRows) {
    bytes = vectorBytes;
    rows = rows ? rows : 16;
    return rows <= 32;
  }
  if (!bytes || (rows != 16 && rows != 32))
    return false;
  // What has no vectors of both, as of keys and values beside a state, gains
  // nothing from rows that are not transposed.
  return transposed || (loadsRows && loadsCols);
}

/// Makes rows of all fragments and vectors columns, and columns rows.
static void transpose(RoleOp role) {
  role.walk([](Operation *op) {
    for (Value result : op->getResults())
      result.setType(transposed(result.getType()));
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Value argument : block.getArguments())
          argument.setType(transposed(argument.getType()));
  });
}

namespace {
struct PermuteLanesPass
    : ::attn::impl::TileGpuPermuteLanesPassBase<PermuteLanesPass> {
  void runOnOperation() final {
    for (auto role : getOperation().getOps<RoleOp>()) {
      Accesses accesses;
      if (!accesses.collect(role))
        continue;
      transpose(role);
      auto exchange = [&](auto access, Type value) {
        access.setPermuted(accesses.neighbours());
        access.setTransposed(!accesses.transposed && isa<FragType>(value));
      };
      for (GlobalLoadOp load : accesses.loads)
        exchange(load, load.getResult().getType());
      for (GlobalStoreOp store : accesses.stores)
        exchange(store, store.getValue().getType());
    }
  }
};
} // namespace
