//===- FoldBases.cpp - Positions that do not count from 0 -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Only regions see positions: what these count from is added there, and nothing
// below knows of bases.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"

#define DEBUG_TYPE "attn-fold-bases"

namespace attn {
#define GEN_PASS_DEF_ATTNFOLDBASESPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

/// Adds `base`, the last argument of the region, to the position that is
/// argument `position`; the batch is argument `batch`.
static void addBase(Region &region, unsigned batch, unsigned position) {
  Block &block = region.front();
  Location loc = region.getLoc();
  OpBuilder b = OpBuilder::atBlockBegin(&block);
  Value base = block.getArguments().back(), row = block.getArgument(position);
  if (isa<TensorType>(base.getType())) {
    Value at = arith::IndexCastOp::create(b, loc, b.getIndexType(),
                                          block.getArgument(batch));
    base = tensor::ExtractOp::create(b, loc, base, at);
  }
  Value sum = arith::AddIOp::create(b, loc, row, base);
  row.replaceAllUsesExcept(sum, sum.getDefiningOp());
}

/// Takes the base of rows (argument i) or keys (argument j) into the regions.
template <typename OpT>
static void foldBase(OpT op, MutableOperandRange base, bool ofKeys) {
  if (base.empty())
    return;
  Value value = base[0].get();
  unsigned numCaptures = op.getCaptures().size();
  base.clear();
  op.getCapturesMutable().append(value);
  for (auto [region, numPositions] : {std::pair(&op.getScore(), 4),
                                      {&op.getMask(), 4},
                                      {&op.getFactor(), 4},
                                      {&op.getInit(), 3}}) {
    if (region->empty())
      continue;
    region->addArgument(value.getType(), op.getLoc());
    unsigned batch = region->getNumArguments() - 1 - numCaptures - numPositions;
    if (!ofKeys || numPositions == 4)
      addBase(*region, batch, batch + (ofKeys ? 3 : 2));
  }
  for (auto [region, isKeys] : {std::pair(&op.getRotateQueries(), false),
                                {&op.getRotateKeys(), true}}) {
    if (region->empty())
      continue;
    region->addArgument(value.getType(), op.getLoc());
    if (isKeys == ofKeys)
      addBase(*region, /*batch=*/2, /*position=*/4);
  }
  if constexpr (std::is_same_v<OpT, AggregateOp>) {
    Region &finalize = op.getFinalize();
    if (finalize.empty())
      return;
    finalize.addArgument(value.getType(), op.getLoc());
    unsigned batch = finalize.getNumArguments() - 1 - numCaptures - 3;
    if (!ofKeys)
      addBase(finalize, batch, batch + 2);
  }
}

namespace {
struct FoldBasesPass : ::attn::impl::AttnFoldBasesPassBase<FoldBasesPass> {
  void runOnOperation() final {
    auto fold = [](auto op) {
      foldBase(op, op.getRowBaseMutable(), /*ofKeys=*/false);
      foldBase(op, op.getKeyBaseMutable(), /*ofKeys=*/true);
    };
    getOperation().walk([&](AggregateOp op) { fold(op); });
    getOperation().walk([&](PartialOp op) { fold(op); });
    getOperation().walk([&](ScoresOp op) { fold(op); });
  }
};
} // namespace
