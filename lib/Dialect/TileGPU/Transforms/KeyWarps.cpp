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

#include "MemberRows.h"
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

/// The states of all warps become one, through shared memory, and then those of
/// the blocks of a cluster, where they have parts of the keys. Rows are columns
/// of the fragments of a warp, or of the warpgroup that has all keys of a
/// block.
void Consumer::cloneMerge(tile::MergeOp merge) {
  Location loc = merge.getLoc();
  MLIRContext *context = b.getContext();
  Scope scope = plan.keyWarps ? Scope::Warp : Scope::Warpgroup;
  auto held = [&](tile::TileType type, int64_t channels) -> Type {
    if (type.getCols() == 1)
      return VecType::get(context, type.getRows(), type.getElementType(),
                          Axis::Col, scope, /*partial=*/false);
    return FragType::get(context, channels, type.getRows(),
                         type.getElementType(), Layout::Acc, scope);
  };
  auto heldAs = [&](int64_t channels) {
    return llvm::map_to_vector(merge.getResultTypes(), [&](Type type) {
      return held(cast<tile::TileType>(type), channels);
    });
  };
  auto inRegisters = [&](ValueRange tiles) {
    return llvm::map_to_vector(tiles, [&](Value tile) -> Value {
      auto type = cast<tile::TileType>(tile.getType());
      return UnrealizedConversionCastOp::create(
                 b, loc, held(type, type.getCols()), mapping.lookup(tile))
          .getResult(0);
    });
  };
  SmallVector<Value> stats = inRegisters(merge.getStats());
  SmallVector<Value> values = inRegisters(merge.getValues());
  auto mergeInto = [&](int64_t channels, MergeScope of, Value scratch,
                       Value ring, int64_t count) {
    bool ofBlocks = of == MergeScope::Cluster;
    auto merged = MergeStatesOp::create(
        b, loc, heldAs(channels), of, stats, values, scratch, ring,
        ofBlocks ? items : Value(), ofBlocks ? mergedPart : Value(),
        b.getI64IntegerAttr(count));
    cloneMergeBody(b, mapping, merge, merged);
    ValueRange state = merged.getResults();
    values = state.drop_front(stats.size());
    stats = state.take_front(stats.size());
  };
  int64_t channels = plan.channels;
  if (plan.keyWarps)
    mergeInto(channels, MergeScope::Warps, plan.mergeScratch, /*ring=*/Value(),
              plan.keyWarps);
  if (plan.mergedBlocks > 1) {
    mergedPart = toI32(merge.getPart());
    channels = plan.mergedChannels;
    mergeInto(channels, MergeScope::Cluster, /*scratch=*/Value(),
              plan.mergeRing, plan.mergedBlocks);
  }
  for (auto [before, after] : llvm::zip_equal(
           merge.getResults(), llvm::concat<Value>(stats, values))) {
    auto type = cast<tile::TileType>(before.getType());
    mapping.map(before,
                asTile(loc, after,
                       tile::TileType::get(context, type.getRows(),
                                           type.getCols() == 1 ? 1 : channels,
                                           type.getElementType())));
  }
  isMerged = true;
}

/// Whether this warp has channels of a state that those of a cluster's blocks
/// have become, or, with `first`, the first of them.
Value Consumer::isCombining(Location loc, bool first) {
  Value number = member;
  if (mergedPart) {
    number = arith::MulIOp::create(b, loc, member, i32(plan.mergedBlocks, loc));
    number = arith::AddIOp::create(b, loc, number, mergedPart);
  }
  return arith::CmpIOp::create(
      b, loc, first ? arith::CmpIPredicate::eq : arith::CmpIPredicate::slt,
      number, i32(first ? 0 : plan.mergedSixteens(), loc));
}

/// Behind the merge each warp has some channels of the sums; what rows have
/// alone, one warp stores.
void Consumer::takeChannels(Operation *op, Operation *clone) {
  Location loc = op->getLoc();
  OpBuilder::InsertionGuard guard(b);
  if (auto store = dyn_cast<tile::StoreOp>(clone)) {
    b.setInsertionPoint(clone);
    if (!store.getVector()) {
      OpOperand &channel = *std::prev(store.getIndicesMutable().end());
      channel.set(arith::AddIOp::create(b, loc, channel.get(),
                                        memberChannel(loc, b.getIndexType())));
      if (!mergedPart || plan.turned)
        return;
    }
    auto branch = scf::IfOp::create(b, loc, isCombining(loc, store.getVector()),
                                    /*withElseRegion=*/false);
    clone->moveBefore(branch.thenBlock()->getTerminator());
    return;
  }
  bool isNarrow = false;
  for (OpResult result : clone->getResults()) {
    auto type = dyn_cast<tile::TileType>(result.getType());
    if (!type || type.getCols() == 1)
      continue;
    result.setType(
        tile::TileType::get(b.getContext(), type.getRows(),
                            mergedPart ? plan.mergedChannels : plan.channels,
                            type.getElementType()));
    isNarrow = true;
  }
  auto map = dyn_cast<tile::MapOp>(clone);
  if (isNarrow && map)
    shiftChannels(map);
}
