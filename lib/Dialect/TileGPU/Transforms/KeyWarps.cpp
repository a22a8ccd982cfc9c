//===- KeyWarps.cpp - Warps with keys of their own ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows that are as few as the columns of a warp's product leave it to take keys
// for its rows. The warps of the compute role each take some keys of every
// tile, for the same rows, and wait for nobody: only behind the last step their
// states become one.
//
//===----------------------------------------------------------------------===//

#include "SpecializeWarps.h"

using namespace mlir;
using namespace mlir::tile_gpu;

/// The keys that this warp has of a tile.
Value Consumer::keysOfWarp(Value tile) {
  Location loc = tile.getLoc();
  auto whole = cast<SmemType>(tile.getType());
  auto part = SmemType::get(b.getContext(), RolesPlan::keysOfWarp,
                            whole.getCols(), whole.getElementType(),
                            whole.getSwizzle(), /*boxes=*/1, whole.getPitch(),
                            /*transposed=*/false);
  if (part == whole)
    return tile;
  Value first =
      arith::MulIOp::create(b, loc, member, i32(RolesPlan::keysOfWarp, loc));
  return SmemSliceOp::create(b, loc, part, tile, first, i32(0, loc));
}

/// The states of all warps become one, through shared memory. Rows are columns
/// of a warp's fragments.
void Consumer::cloneMerge(tile::MergeOp merge) {
  Location loc = merge.getLoc();
  MLIRContext *context = b.getContext();
  auto held = [&](tile::TileType type, int64_t channels) -> Type {
    if (type.getCols() == 1)
      return VecType::get(context, type.getRows(), type.getElementType(),
                          Axis::Col, Scope::Warp, /*partial=*/false);
    return FragType::get(context, channels, type.getRows(),
                         type.getElementType(), Layout::Acc, Scope::Warp);
  };
  auto inRegisters = [&](ValueRange tiles) {
    return llvm::map_to_vector(tiles, [&](Value tile) -> Value {
      auto type = cast<tile::TileType>(tile.getType());
      return UnrealizedConversionCastOp::create(
                 b, loc, held(type, type.getCols()), mapping.lookup(tile))
          .getResult(0);
    });
  };
  SmallVector<Value> stats = inRegisters(merge.getStats()),
                     values = inRegisters(merge.getValues());
  SmallVector<Type> types;
  for (Type type : merge.getResultTypes())
    types.push_back(held(cast<tile::TileType>(type), plan.channels));
  auto merged = MergeStatesOp::create(
      b, loc, types, /*last=*/Type(), MergeScope::Warps, stats, values,
      plan.mergeScratch, /*workspace=*/Value(), /*tickets=*/Value(),
      /*item=*/Value(), /*part=*/Value(), /*parts=*/Value(),
      b.getI64IntegerAttr(plan.keyWarps));
  {
    OpBuilder::InsertionGuard guard(b);
    Block &from = merge.getBody().front();
    Block *body = b.createBlock(&merged.getBody());
    for (BlockArgument argument : from.getArguments())
      mapping.map(argument, body->addArgument(argument.getType(), loc));
    for (Operation &op : from.without_terminator())
      b.clone(op, mapping);
    YieldOp::create(b, loc, lookup(from.getTerminator()->getOperands()));
  }
  for (auto [before, after] :
       llvm::zip_equal(merge.getResults(), merged.getResults())) {
    auto type = cast<tile::TileType>(before.getType());
    mapping.map(before, asTile(loc, after,
                               tile::TileType::get(
                                   context, type.getRows(),
                                   type.getCols() == 1 ? 1 : plan.channels,
                                   type.getElementType())));
  }
  isMerged = true;
}

/// Behind the merge each warp has some channels of the sums; what rows have
/// alone, one warp stores.
void Consumer::takeChannels(Operation *op, Operation *clone) {
  Location loc = op->getLoc();
  OpBuilder::InsertionGuard guard(b);
  if (auto store = dyn_cast<tile::StoreOp>(clone)) {
    b.setInsertionPoint(clone);
    if (store.getVector()) {
      Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                            member, i32(0, loc));
      auto branch =
          scf::IfOp::create(b, loc, isFirst, /*withElseRegion=*/false);
      clone->moveBefore(branch.thenBlock()->getTerminator());
      return;
    }
    OpOperand &channel = *std::prev(store.getIndicesMutable().end());
    channel.set(arith::AddIOp::create(b, loc, channel.get(),
                                      memberChannel(loc, b.getIndexType())));
    return;
  }
  bool isNarrow = false;
  for (OpResult result : clone->getResults()) {
    auto type = dyn_cast<tile::TileType>(result.getType());
    if (!type || type.getCols() == 1)
      continue;
    result.setType(tile::TileType::get(b.getContext(), type.getRows(),
                                       plan.channels, type.getElementType()));
    isNarrow = true;
  }
  auto map = dyn_cast<tile::MapOp>(clone);
  if (isNarrow && map)
    shiftChannels(map);
}
