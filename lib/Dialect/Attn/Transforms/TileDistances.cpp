//===- TileDistances.cpp - Tiles that read one element of a table ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A table of relative positions has an element for each distance of a row and a
// key up to some largest one, which stands for all beyond. Of long sequences
// most tiles are of such pairs: all of them read one element, once for the
// tile. Near tiles, which read one for each pair, are listed among the masked
// ones.
//
// Which distances are far the index says (Distances.h). What tests the distance
// is told by the tile then, too.
//
//===----------------------------------------------------------------------===//

#include "TileDistances.h"
#include "Distances.h"
#include "TileElements.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace mlir::attn;

/// From which distance on an element is the same for all pairs, on one side.
static std::optional<int64_t> farFrom(tensor::ExtractOp extract, Value row,
                                      Value key, bool isAhead) {
  int64_t from = 0;
  for (Value index : extract.getIndices()) {
    std::optional<FarValue> far = findFarValue(index, row, key, isAhead);
    if (!far)
      return std::nullopt;
    from = std::max(from, far->from);
  }
  return from;
}

/// What a test of a distance says of distant pairs: the same for all of a tile,
/// if not of all tiles.
static std::optional<DistantPairs::Read>
readTest(Operation *op, Value row, Value key, const DistantPairs &pairs) {
  DistantPairs::Read read = {op->getResult(0), {}};
  bool isFirst = true;
  for (auto [isAhead, from] :
       {std::pair(false, pairs.behind), std::pair(true, pairs.ahead)}) {
    if (!from)
      continue;
    std::optional<FarValue> far = findFarValue(read.value, row, key, isAhead);
    if (!far || far->from > *from)
      return std::nullopt;
    if (isFirst)
      read.constant = far->value;
    else if (read.constant != far->value)
      read.constant.reset();
    isFirst = false;
  }
  return read;
}

std::optional<DistantPairs>
mlir::attn::findDistantPairs(ReductionOpInterface op) {
  Region &score = op.getScoreBody();
  if (score.empty())
    return std::nullopt;
  unsigned first = op.getQueryOperands().size();
  Value row = score.getArgument(first + 2), key = score.getArgument(first + 3);
  auto isOfPair = [&](Operation &inner) {
    return dependsOn(inner.getResult(0), row) &&
           dependsOn(inner.getResult(0), key);
  };
  DistantPairs pairs;
  pairs.behind = pairs.ahead = 0;
  for (auto extract : score.getOps<tensor::ExtractOp>()) {
    if (!isOfPair(*extract))
      continue;
    pairs.reads.push_back({extract, {}});
    for (bool isAhead : {false, true}) {
      std::optional<int64_t> &from = isAhead ? pairs.ahead : pairs.behind;
      std::optional<int64_t> own = farFrom(extract, row, key, isAhead);
      from = from && own ? std::optional(std::max(*from, *own)) : std::nullopt;
    }
  }
  if (pairs.reads.empty() || (!pairs.behind && !pairs.ahead))
    return std::nullopt;
  llvm::SmallPtrSet<Operation *, 4> tests;
  for (Operation &inner : llvm::reverse(score.front()))
    if (isa<arith::CmpIOp, arith::OrIOp>(inner) && isOfPair(inner) &&
        inner.getResult(0).getType().isInteger(1))
      if (auto read = readTest(&inner, row, key, pairs)) {
        tests.insert(&inner);
        // What is left of another test's operands need not be read.
        if (!llvm::all_of(inner.getUsers(), [&](Operation *user) {
              return tests.contains(user);
            }))
          pairs.reads.push_back(*read);
      }
  return pairs;
}

bool mlir::attn::listsDistantTiles(ReductionContext &ctx) {
  return !ctx.packsHeads && !ctx.hasOwnSizes &&
         keyCols(ctx) == ctx.schedule.getBlockK() &&
         findDistantPairs(ctx.reduction);
}

Value mlir::attn::isDistantTile(ReductionContext &ctx, Value firstRow,
                                Value lastRow, Value firstKey, Value lastKey) {
  std::optional<DistantPairs> far = findDistantPairs(ctx.reduction);
  Value result;
  auto either = [&](std::optional<int64_t> from, Value least) {
    if (!from)
      return;
    Value isFar = ctx.cmp(arith::CmpIPredicate::sge, least, ctx.i32(*from));
    result =
        result ? arith::OrIOp::create(ctx.b, result, isFar).getResult() : isFar;
  };
  either(far->behind, ctx.sub(firstRow, lastKey));
  either(far->ahead, ctx.sub(firstKey, lastRow));
  return result;
}

void mlir::attn::loadDistantElements(ReductionContext &ctx, RowBlock &block) {
  if (!ctx.lists.tiles || block.tile.masked || !listsDistantTiles(ctx))
    return;
  Region &score = ctx.reduction.getScoreBody();
  Value zero = ctx.i32(0);
  std::optional<DistantPairs> pairs = findDistantPairs(ctx.reduction);
  for (auto [value, constant] : pairs->reads) {
    auto type = ctx.tileType(ctx.schedule.getRows(), 1, value.getType());
    Value tile =
        ctx.map({}, type,
                [&, value = value, constant = constant](Value, Value,
                                                        ValueRange) {
                  if (constant)
                    return SmallVector<Value>{arith::ConstantIntOp::create(
                        ctx.b, ctx.loc, value.getType(), *constant)};
                  PointCloner cloner(
                      ctx, score, ctx.reduction.getQueryOperands().size(),
                      /*hasKey=*/true, ctx.reduction.getCaptureOperands(),
                      pointOf(ctx, block, zero, zero));
                  return SmallVector<Value>{cloner.get(value)};
                })
            .front();
    block.samples.push_back({value, tile});
  }
}
