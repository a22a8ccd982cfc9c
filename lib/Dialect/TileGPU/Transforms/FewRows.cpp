//===- FewRows.cpp - Rows that are columns of a warpgroup's products ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A product of a warpgroup has 64 rows. Where a tile has few, keys take their
// place, and rows are columns: none is padding, and one warpgroup has registers
// for sums of more channels than a product has columns. What is reduced over
// keys then lies in all four warps, and weights come to the product with the
// values through shared memory.
//
//===----------------------------------------------------------------------===//

#include "AnalyseRoles.h"
#include "SpecializeWarps.h"

using namespace mlir;
using namespace mlir::tile_gpu;

/// Whether the states of a cluster's blocks can become one, where these have
/// parts of the keys: each block has some of the channels then.
bool RolesAnalysis::analyseMergedBlocks() {
  tile::MergeOp merge;
  WalkResult found = kernel.walk([&](tile::MergeOp op) {
    if (merge || op->getParentOp() != kernel || !op.getCluster())
      return WalkResult::interrupt();
    merge = op;
    return WalkResult::advance();
  });
  if (found.wasInterrupted() || !merge)
    return !found.wasInterrupted();
  plan.mergedBlocks = *merge.getCluster();
  for (Type type : merge.getResultTypes()) {
    auto tile = cast<tile::TileType>(type);
    int64_t channels = tile.getCols() == 1 ? 1 : tile.getCols();
    if (channels > 1) {
      if (channels % (plan.mergedBlocks * ::attn::MmaShape::warpgroup().m))
        return false;
      channels /= plan.mergedBlocks;
      plan.mergedChannels = channels;
    }
    plan.mergedFloats += tile.getRows() * channels;
  }
  return true;
}

bool RolesAnalysis::analyseFewRows(ArrayRef<tile::RowsOp> steps) {
  if (!plan.turned)
    return true;
  int64_t keys = plan.steps.front().tile.getRows();
  if (keys != ::attn::MmaShape::warpgroup().m)
    return false;
  Type element;
  for (tile::RowsOp rows : steps) {
    tile::DotOp dot = findWeightsProduct(rows);
    if (!dot)
      return false;
    Type weight = cast<tile::TileType>(dot.getLhs().getType()).getElementType();
    if (element && element != weight)
      return false;
    element = weight;
    for (auto reduce : rows.getBody().front().getOps<tile::ReduceOp>())
      if (reduce.getNumResults() != 1 || reduce.getOrdered())
        return false;
  }
  if (!analyseMergedBlocks())
    return false;
  mlir::attn::ScheduleAttr schedule = kernel.getScheduleAttr();
  plan.readsOnce = schedule && schedule.getPackHeads();
  plan.weightsTile = SmemType::get(
      kernel.getContext(), plan.rows, keys, element,
      /*swizzle=*/keys * element.getIntOrFloatBitWidth() / 8, /*boxes=*/1,
      /*pitch=*/plan.rows, /*transposed=*/false);
  return true;
}

/// A step of rows that are columns: weights go through shared memory.
void Consumer::cloneFewRows(tile::RowsOp rows) {
  Block &body = rows.getBody().front();
  tile::DotOp product = findWeightsProduct(rows);
  for (Operation &op : body.without_terminator()) {
    if (&op == product) {
      Location loc = op.getLoc();
      auto type = cast<tile::TileType>(product.getLhs().getType());
      auto held =
          FragType::get(b.getContext(), type.getCols(), type.getRows(),
                        type.getElementType(), Layout::Acc, Scope::Warpgroup);
      Value weights = UnrealizedConversionCastOp::create(
                          b, loc, held, mapping.lookup(product.getLhs()))
                          .getResult(0);
      FragStoreOp::create(b, loc, weights,
                          SmemTransposeOp::create(b, loc, plan.weightsScratch),
                          /*fragment_order=*/false);
      BarrierSyncOp::create(b, loc, plan.shareBarrier, /*member=*/Value(),
                            /*threads_only=*/false);
      mapping.map(product.getLhs(), asTile(loc, plan.weightsScratch, type));
    }
    b.clone(op, mapping);
  }
  for (auto [result, value] :
       llvm::zip(rows.getResults(), body.getTerminator()->getOperands()))
    mapping.map(result, mapping.lookup(value));
}
