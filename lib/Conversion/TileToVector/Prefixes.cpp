//===- Prefixes.cpp - Sums of parts of one row ----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A map that selects, for row r of its result, the columns of one row up to r,
// or behind it, is there to be summed up: the log gates of the tokens between
// two of a chunk. Its sums of rows are prefixes of that one row. Its sums from
// the right are those of the row above, and one term more, so that they stay
// in registers, and a map that reads them runs in the same loop. The tile of
// terms is never there.
//
//===----------------------------------------------------------------------===//

#include "BodyVectorizer.h"
#include "VectorContext.h"
#include "mlir/IR/Matchers.h"

#include <numeric>

using namespace mlir;
using namespace mlir::tile;

/// Blocks of a vector of rows whose loops are written one behind the other.
static constexpr int64_t mostBlocks = 4;

/// How the columns that `map` selects of a row stand to the number of the row
/// in its result, if it does nothing else.
static std::optional<arith::CmpIPredicate> selectedOf(VectorContext &ctx,
                                                      MapOp map) {
  if (map.getNumResults() != 1 || map.getInputs().size() != 1)
    return std::nullopt;
  auto type = cast<TileType>(map.getResult(0).getType());
  auto input = cast<TileType>(map.getInputs().front().getType());
  if (!type.getElementType().isF32() || !input.getElementType().isF32() ||
      type.getRows() != type.getCols() || input.getRows() != 1 ||
      input.getCols() != type.getCols() || type.getCols() % ctx.lanes)
    return std::nullopt;
  Block &body = map.getBody().front();
  auto select =
      body.getTerminator()->getOperand(0).getDefiningOp<arith::SelectOp>();
  if (!select || select.getTrueValue() != body.getArgument(2) ||
      !matchPattern(select.getFalseValue(), m_PosZeroFloat()))
    return std::nullopt;
  auto cmp = select.getCondition().getDefiningOp<arith::CmpIOp>();
  if (!cmp || cmp.getLhs() != body.getArgument(1) ||
      cmp.getRhs() != body.getArgument(0))
    return std::nullopt;
  return cmp.getPredicate();
}

/// Whether two elements are added, from 0 on.
static bool isSum(Block &body, ValueRange identities) {
  if (identities.size() != 1 ||
      !matchPattern(identities.front(), m_PosZeroFloat()))
    return false;
  auto add = body.getTerminator()->getOperand(0).getDefiningOp<arith::AddFOp>();
  return add && add.getLhs() == body.getArgument(0) &&
         add.getRhs() == body.getArgument(1);
}

/// Whether `user` sums up what `map` selects in one of the two ways.
static bool isPrefix(VectorContext &ctx, Operation *user,
                     arith::CmpIPredicate predicate) {
  using Predicate = arith::CmpIPredicate;
  if (auto reduce = dyn_cast<ReduceOp>(user))
    return !reduce.getRows() && !reduce.getOrdered() &&
           isSum(reduce.getBody().front(), reduce.getIdentities()) &&
           llvm::is_contained(
               {Predicate::sle, Predicate::slt, Predicate::sge, Predicate::sgt},
               predicate);
  auto scan = dyn_cast<ScanOp>(user);
  return scan && predicate == Predicate::sle && scansLowerOnly(scan) &&
         isSum(scan.getBody().front(), scan.getIdentities()) &&
         cast<TileType>(scan.getResult(0).getType()).getCols() <=
             mostBlocks * ctx.lanes;
}

/// Whether the row that `map` reads stays as it is for all that sum it up.
static bool isRowKept(MapOp map) {
  Value row = map.getInputs().front();
  Operation *source = row.getDefiningOp();
  return source && source->getBlock() == map->getBlock() &&
         llvm::none_of(row.getUsers(), [&](Operation *user) {
           Operation *at = map->getBlock()->findAncestorOpInBlock(*user);
           return at && !at->isBeforeInBlock(map) &&
                  llvm::is_contained(user->getResultTypes(), row.getType());
         });
}

bool mlir::tile::isSummedOnly(VectorContext &ctx, MapOp map) {
  std::optional<arith::CmpIPredicate> predicate = selectedOf(ctx, map);
  return predicate && isRowKept(map) && !map.getResult(0).use_empty() &&
         llvm::all_of(map.getResult(0).getUsers(), [&](Operation *user) {
           return user->getBlock() == map->getBlock() &&
                  isPrefix(ctx, user, *predicate);
         });
}

/// The map whose terms `op` sums up, or null.
static MapOp summedBy(VectorContext &ctx, Operation *op) {
  auto map = op->getOperand(0).getDefiningOp<MapOp>();
  return map && isSummedOnly(ctx, map) ? map : MapOp();
}

/// Lanes moved by `distance`, up or down, and zeros where none come from.
static Value shifted(VectorContext &ctx, Value value, int64_t distance,
                     bool isUp, Location loc) {
  SmallVector<int64_t> order;
  for (int64_t lane = 0; lane < ctx.lanes; ++lane) {
    int64_t from = isUp ? lane - distance : lane + distance;
    order.push_back(from >= 0 && from < ctx.lanes ? from : ctx.lanes);
  }
  return vector::ShuffleOp::create(ctx.builder, loc, value,
                                   ctx.zero(value.getType()), order);
}

bool mlir::tile::lowerPrefixSums(VectorContext &ctx, ReduceOp op) {
  using Predicate = arith::CmpIPredicate;
  MapOp map = summedBy(ctx, op);
  if (!map)
    return false;
  Location loc = op.getLoc();
  OpBuilder &b = ctx.builder;
  Predicate predicate = *selectedOf(ctx, map);
  bool isUp = predicate == Predicate::sle || predicate == Predicate::slt;
  bool isOwn = predicate == Predicate::sle || predicate == Predicate::sge;
  Value row = ctx.buffer(map.getInputs().front());
  Value out = ctx.resultBuffer(op.getResult(0), {}, op);
  int64_t cols = cast<TileType>(map.getResult(0).getType()).getCols();
  Value total = ctx.zero(b.getF32Type());
  for (int64_t done = 0; done < cols; done += ctx.lanes) {
    int64_t col = isUp ? done : cols - done - ctx.lanes;
    Value sums = ctx.loadVector(row, {ctx.index(0), ctx.index(col)}, ctx.lanes);
    for (int64_t distance = 1; distance < ctx.lanes; distance *= 2)
      sums = arith::AddFOp::create(b, loc, sums,
                                   shifted(ctx, sums, distance, isUp, loc));
    Value others = isOwn ? sums : shifted(ctx, sums, 1, isUp, loc);
    Value before = ctx.splat(total, ctx.lanes);
    ctx.storeVector(arith::AddFOp::create(b, loc, others, before), out,
                    ctx.index(col));
    Value last =
        vector::ExtractOp::create(b, loc, sums, isUp ? ctx.lanes - 1 : 0);
    total = arith::AddFOp::create(b, loc, total, last);
  }
  return true;
}

/// The map that alone reads a scan's result and may run in its loop.
static MapOp fusableMap(ScanOp op) {
  auto map = dyn_cast_or_null<MapOp>(op->getNextNode());
  return map && op.getResult(0).hasOneUse() && map.getNumResults() == 1 &&
                 map.getInputs().size() == 1 &&
                 map.getInputs().front() == op.getResult(0) &&
                 map.getResult(0).getType() == op.getResult(0).getType()
             ? map
             : MapOp();
}

FailureOr<bool> mlir::tile::lowerPrefixScan(VectorContext &ctx, ScanOp op) {
  MapOp map = summedBy(ctx, op);
  if (!map)
    return false;
  Location loc = op.getLoc();
  OpBuilder &b = ctx.builder;
  MapOp reader = fusableMap(op);
  Value result = reader ? reader.getResult(0) : op.getResult(0);
  if (reader)
    ctx.alreadyLowered.insert(reader);
  Value row = ctx.buffer(map.getInputs().front());
  Value out = ctx.resultBuffer(result, {}, reader ? reader.getOperation() : op);
  int64_t cols = cast<TileType>(result.getType()).getCols(), lanes = ctx.lanes;
  VectorType i32 = ctx.vec(lanes, b.getI32Type());
  SmallVector<int32_t> numbers(lanes);
  std::iota(numbers.begin(), numbers.end(), 0);
  Value lane = ctx.constant(DenseElementsAttr::get(i32, ArrayRef(numbers)));
  Value zeros = ctx.zero(ctx.vec(lanes, b.getF32Type()));
  LogicalResult status = success();
  SmallVector<Value> sums;
  for (int64_t first = 0; first < cols; first += lanes) {
    // Columns of the diagonal's block are 0 until their row has come.
    sums.push_back(zeros);
    auto addRow = [&](Value i, ArrayRef<Value> above) {
      Value r = b.createOrFold<arith::AddIOp>(loc, i, ctx.index(first));
      Value term = ctx.splat(
          memref::LoadOp::create(b, loc, row, ValueRange{ctx.index(0), r}),
          lanes);
      Value i32Row = arith::IndexCastOp::create(b, loc, b.getI32Type(), i);
      Value isBefore = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                             lane, ctx.splat(i32Row, lanes));
      SmallVector<Value> next;
      for (auto [block, before] : llvm::enumerate(above)) {
        Value sum = arith::AddFOp::create(b, loc, before, term);
        if (block + 1 == above.size())
          sum = arith::SelectOp::create(b, loc, isBefore, sum, zeros);
        next.push_back(sum);
        Value value = sum;
        if (reader) {
          Block &body = reader.getBody().front();
          BodyVectorizer vectorizer(b, lanes);
          vectorizer.mapUniform(
              body.getArgument(0),
              arith::IndexCastOp::create(b, loc, b.getI32Type(), r));
          vectorizer.mapLinear(
              body.getArgument(1),
              ctx.constant(b.getI32IntegerAttr(block * lanes)));
          vectorizer.mapVector(body.getArgument(2), sum);
          if (failed(vectorizer.emit(body)))
            status = failure();
          else
            value = vectorizer.yielded(body, 0);
        }
        ctx.storeVector(value, out, {r, ctx.index(block * lanes)});
      }
      return next;
    };
    sums = ctx.carry(lanes, sums, loc, addRow);
  }
  if (failed(status))
    return failure();
  return true;
}
