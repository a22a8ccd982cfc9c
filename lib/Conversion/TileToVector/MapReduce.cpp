//===- MapReduce.cpp - Elementwise ops and reductions on rows -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tiles of several columns are vectorised along their columns, row by row; row
// vectors along the rows. A reduce that directly follows the map that makes
// its input runs in the same loop, so that a pass over the scores reads and
// writes them once.
//
//===----------------------------------------------------------------------===//

#include "BodyVectorizer.h"
#include "VectorContext.h"

using namespace mlir;
using namespace mlir::tile;

static LogicalResult lowerReduceRows(VectorContext &ctx, ReduceOp op);
static LogicalResult lowerOrderedReduce(VectorContext &ctx, ReduceOp op);

/// Independent accumulators of a row reduction, to cover latency.
static constexpr int64_t reduceUnroll = 4;

Value mlir::tile::toStorage(OpBuilder &builder, Value value) {
  Type type = value.getType();
  if (!getElementTypeOrSelf(type).isSignlessInteger(1))
    return value;
  Type to = builder.getI8Type();
  if (auto vector = dyn_cast<VectorType>(type))
    to = vector.clone(to);
  return arith::ExtUIOp::create(builder, value.getLoc(), to, value);
}

Value mlir::tile::fromStorage(OpBuilder &builder, Value value,
                              Type elementType) {
  if (!elementType.isSignlessInteger(1))
    return value;
  Value zero = arith::ConstantOp::create(builder, value.getLoc(),
                                         builder.getZeroAttr(value.getType()));
  return arith::CmpIOp::create(builder, value.getLoc(),
                               arith::CmpIPredicate::ne, value, zero);
}

/// Applies a combining body to two tuples of vectors (or scalars).
static LogicalResult combine(OpBuilder &builder, Block &body, int64_t width,
                             ArrayRef<Value> a, ArrayRef<Value> b,
                             SmallVectorImpl<Value> &result) {
  BodyVectorizer vectorizer(builder, width);
  for (auto [i, value] : llvm::enumerate(a))
    vectorizer.mapVector(body.getArgument(i), value);
  for (auto [i, value] : llvm::enumerate(b))
    vectorizer.mapVector(body.getArgument(a.size() + i), value);
  if (failed(vectorizer.emit(body)))
    return failure();
  result.clear();
  for (size_t i = 0; i < a.size(); ++i)
    result.push_back(vectorizer.yielded(body, i));
  return success();
}

/// Folds the lanes of each vector into lane 0 by halves; `body` commutes.
static LogicalResult foldLanes(OpBuilder &builder, Block &body, int64_t width,
                               SmallVectorImpl<Value> &values) {
  for (; width > 1; width /= 2) {
    SmallVector<Value> low, high, next;
    for (Value value : values) {
      Location loc = value.getLoc();
      low.push_back(vector::ExtractStridedSliceOp::create(
          builder, loc, value, ArrayRef<int64_t>{0},
          ArrayRef<int64_t>{width / 2}, ArrayRef<int64_t>{1}));
      high.push_back(vector::ExtractStridedSliceOp::create(
          builder, loc, value, ArrayRef<int64_t>{width / 2},
          ArrayRef<int64_t>{width / 2}, ArrayRef<int64_t>{1}));
    }
    if (failed(combine(builder, body, width / 2, low, high, next)))
      return failure();
    values.assign(next.begin(), next.end());
  }
  for (Value &value : values)
    value = vector::ExtractOp::create(builder, value.getLoc(), value, 0);
  return success();
}

/// Folds the lanes of `width` tuples of vectors together: lane l of the result
/// is the product of the lanes of tuple l. Each step merges the tuples i and
/// i + D of one half and the other, at half the shuffles of a transposition.
static LogicalResult foldRows(OpBuilder &builder, Block &body, int64_t width,
                              SmallVectorImpl<SmallVector<Value>> &tuples) {
  for (int64_t distance = width / 2; distance > 0; distance /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t lane = 0; lane < width; ++lane) {
      bool upper = lane & distance;
      low.push_back(upper ? width + lane - distance : lane);
      high.push_back(upper ? width + lane : lane + distance);
    }
    for (int64_t i = 0; i < distance; ++i) {
      SmallVector<Value> left, right, merged;
      for (auto [a, b] : llvm::zip(tuples[i], tuples[i + distance])) {
        left.push_back(
            vector::ShuffleOp::create(builder, a.getLoc(), a, b, low));
        right.push_back(
            vector::ShuffleOp::create(builder, a.getLoc(), a, b, high));
      }
      if (failed(combine(builder, body, width, left, right, merged)))
        return failure();
      tuples[i] = merged;
    }
  }
  return success();
}

ReduceOp mlir::tile::fusableReduce(VectorContext &ctx, MapOp op) {
  auto reduce = dyn_cast_or_null<ReduceOp>(op->getNextNode());
  if (!reduce || reduce.getRows() || reduce.getOrdered())
    return {};
  auto type = cast<TileType>(op.getResult(0).getType());
  for (Value input : reduce.getInputs())
    if (input.getDefiningOp() != op || input.getType() != type ||
        type.isRowVector())
      return {};
  for (Type result : op.getResultTypes())
    if (cast<TileType>(result).getCols() != type.getCols())
      return {};
  return reduce;
}

namespace {

/// One map, and the reduction over columns that is fused with it, if any.
class MapLowering {
public:
  MapLowering(VectorContext &kernel, MapOp op, ReduceOp fused)
      : k(kernel), b(kernel.builder), loc(op.getLoc()), op(op), fused(fused),
        body(op.getBody().front()) {}
  LogicalResult lower();

private:
  LogicalResult lowerColumn(int64_t rows);
  void prepareReduction(int64_t rows, int64_t cols);
  Value load(Value input, ValueRange at);
  void store(ArrayRef<Value> values, ValueRange at);
  LogicalResult evaluate(BodyVectorizer &vectorizer,
                         SmallVectorImpl<Value> &values);
  SmallVector<Value> loadUniform(Value row);
  LogicalResult lowerVector(Value row, Value row32, ArrayRef<Value> uniform,
                            Value col, int64_t offset,
                            SmallVectorImpl<Value> &reducedInputs);
  LogicalResult walkColumns(Value row, SmallVectorImpl<Value> &accumulators);
  LogicalResult mergeAccumulators(SmallVectorImpl<Value> &all);
  LogicalResult lowerRow(Value row, Value rowOfGroup);
  LogicalResult foldGroup(Value firstRow);

  VectorContext &k;
  OpBuilder &b;
  Location loc;
  MapOp op;
  ReduceOp fused;
  Block &body;
  /// Of each result, whether anything but the fused reduction reads it.
  SmallVector<bool> stored;
  /// Columns of a vector, and vectors of an iteration.
  int64_t width = 0, unroll = 1;
  int64_t cols = 0;
  /// Whether nobody needs what is right of the diagonal.
  bool isLower = false;
  SmallVector<Value> identities, reducedBuffers;
  /// With enough rows their lanes are folded together at the end of a group;
  /// until then their vectors are in `partials`.
  bool grouped = false;
  SmallVector<Value> partials;
};

} // namespace

/// A vector of an input at some place.
Value MapLowering::load(Value input, ValueRange at) {
  return fromStorage(b, k.loadVector(k.buffer(input), at, width),
                     cast<TileType>(input.getType()).getElementType());
}

void MapLowering::store(ArrayRef<Value> values, ValueRange at) {
  for (auto [i, result] : llvm::enumerate(op.getResults()))
    if (stored[i])
      k.storeVector(toStorage(b, values[i]), k.buffer(result), at);
}

LogicalResult MapLowering::evaluate(BodyVectorizer &vectorizer,
                                    SmallVectorImpl<Value> &values) {
  if (failed(vectorizer.emit(body)))
    return failure();
  for (unsigned i = 0; i < op.getNumResults(); ++i)
    values.push_back(vectorizer.yielded(body, i));
  return success();
}

/// Of vectors of rows: a vector has several rows.
LogicalResult MapLowering::lowerColumn(int64_t rows) {
  width = std::gcd(rows, k.lanes);
  LogicalResult status = success();
  k.loop(rows, width, loc, [&](Value r) {
    BodyVectorizer vectorizer(b, width);
    Value r32 = arith::IndexCastOp::create(b, loc, b.getI32Type(), r);
    vectorizer.mapLinear(body.getArgument(0), r32);
    vectorizer.mapUniform(body.getArgument(1), k.zero(b.getI32Type()));
    for (auto [i, input] : llvm::enumerate(op.getInputs())) {
      auto inputType = cast<TileType>(input.getType());
      if (inputType.getRows() == 1)
        vectorizer.mapUniform(
            body.getArgument(2 + i),
            fromStorage(
                b, memref::LoadOp::create(b, loc, k.buffer(input), k.index(0)),
                inputType.getElementType()));
      else
        vectorizer.mapVector(body.getArgument(2 + i), load(input, r));
    }
    SmallVector<Value> values;
    status = evaluate(vectorizer, values);
    if (succeeded(status))
      store(values, r);
  });
  return status;
}

void MapLowering::prepareReduction(int64_t rows, int64_t cols) {
  this->cols = cols;
  width = k.lanes;
  if (fused)
    for (Value identity : fused.getIdentities())
      identities.push_back(identity);
  int64_t vectors = cols / width;
  unroll = std::gcd(vectors, reduceUnroll);
  // What neighbours share, as random words, is seen within an iteration.
  constexpr int64_t longBody = 100, sharing = 64;
  if (!fused && int64_t(body.getOperations().size()) > longBody)
    unroll = std::gcd(vectors, std::max<int64_t>(sharing / width, 1));
  isLower = !fused && rows <= cols &&
            llvm::all_of(op.getResults(),
                         [](Value result) { return readsLowerOnly(result); });
  if (isLower)
    unroll = 1;
  if (!fused)
    return;
  for (Value result : fused.getResults())
    reducedBuffers.push_back(k.resultBuffer(result, {}, fused));
  grouped = rows % width == 0;
  if (grouped)
    for (Value identity : identities)
      partials.push_back(k.allocate(TileType::get(
          b.getContext(), width, width, k.storageType(identity.getType()))));
}

/// What is the same for a whole row is loaded once; null for other inputs.
SmallVector<Value> MapLowering::loadUniform(Value row) {
  SmallVector<Value> uniform(op.getInputs().size());
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    auto inputType = cast<TileType>(input.getType());
    if (inputType.isRowVector())
      uniform[i] = fromStorage(
          b,
          memref::LoadOp::create(b, loc, k.buffer(input),
                                 inputType.getRows() == 1 ? k.index(0) : row),
          inputType.getElementType());
  }
  return uniform;
}

/// One vector of columns from `col`, the `offset`-th of its iteration; gives
/// the reduced inputs.
LogicalResult MapLowering::lowerVector(Value row, Value row32,
                                       ArrayRef<Value> uniform, Value col,
                                       int64_t offset,
                                       SmallVectorImpl<Value> &reducedInputs) {
  BodyVectorizer vectorizer(b, width);
  Value col32 = arith::IndexCastOp::create(b, loc, b.getI32Type(), col);
  vectorizer.mapUniform(body.getArgument(0), row32);
  int64_t together = width * unroll;
  bool isPower = llvm::isPowerOf2_64(together);
  vectorizer.mapLinear(body.getArgument(1), col32, isPower ? together : 1,
                       isPower ? offset : 0);
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    if (uniform[i]) {
      vectorizer.mapUniform(body.getArgument(2 + i), uniform[i]);
      continue;
    }
    bool hasOneRow = cast<TileType>(input.getType()).getRows() == 1;
    Value at = hasOneRow ? k.index(0) : row;
    vectorizer.mapVector(body.getArgument(2 + i), load(input, {at, col}));
  }
  SmallVector<Value> values;
  if (failed(evaluate(vectorizer, values)))
    return failure();
  store(values, {row, col});
  if (fused)
    for (Value input : fused.getInputs())
      reducedInputs.push_back(values[cast<OpResult>(input).getResultNumber()]);
  return success();
}

LogicalResult MapLowering::walkColumns(Value row,
                                       SmallVectorImpl<Value> &accumulators) {
  Value row32 = arith::IndexCastOp::create(b, loc, b.getI32Type(), row);
  SmallVector<Value> uniform = loadUniform(row);
  size_t numReduced = identities.size();
  for (int64_t u = 0; u < unroll; ++u)
    for (Value identity : identities)
      accumulators.push_back(k.splat(identity, width));
  Value end = isLower ? endOfRow(k, row, loc) : k.index(cols);
  auto forOp = scf::ForOp::create(b, loc, k.index(0), end,
                                  k.index(width * unroll), accumulators);
  OpBuilder::InsertionGuard guard(b);
  if (!forOp.getBody()->empty())
    b.setInsertionPoint(forOp.getBody(), forOp.getBody()->begin());
  else
    b.setInsertionPointToStart(forOp.getBody());
  SmallVector<Value> next;
  for (int64_t u = 0; u < unroll; ++u) {
    Value c = b.createOrFold<arith::AddIOp>(loc, forOp.getInductionVar(),
                                            k.index(u * width));
    SmallVector<Value> inputs, combined;
    if (failed(lowerVector(row, row32, uniform, c, u * width, inputs)))
      return failure();
    if (!fused)
      continue;
    SmallVector<Value> carried(
        forOp.getRegionIterArgs().slice(u * numReduced, numReduced));
    if (failed(combine(b, fused.getBody().front(), width, carried, inputs,
                       combined)))
      return failure();
    next.append(combined.begin(), combined.end());
  }
  if (fused) {
    b.setInsertionPointToEnd(forOp.getBody());
    scf::YieldOp::create(b, loc, next);
  }
  accumulators.assign(forOp.getResults().begin(), forOp.getResults().end());
  return success();
}

/// Those of an iteration, pairwise.
LogicalResult MapLowering::mergeAccumulators(SmallVectorImpl<Value> &all) {
  size_t numReduced = identities.size();
  for (int64_t count = unroll; count > 1; count /= 2) {
    SmallVector<Value> halved;
    for (int64_t u = 0; u < count / 2; ++u) {
      ArrayRef<Value> from(all);
      SmallVector<Value> x(from.slice(u * numReduced, numReduced));
      SmallVector<Value> y(
          from.slice((u + count / 2) * numReduced, numReduced));
      SmallVector<Value> xy;
      if (failed(combine(b, fused.getBody().front(), width, x, y, xy)))
        return failure();
      halved.append(xy.begin(), xy.end());
    }
    all.assign(halved.begin(), halved.end());
  }
  return success();
}

LogicalResult MapLowering::lowerRow(Value row, Value rowOfGroup) {
  SmallVector<Value> all;
  if (failed(walkColumns(row, all)))
    return failure();
  if (!fused)
    return success();
  if (failed(mergeAccumulators(all)))
    return failure();
  if (grouped) {
    for (auto [value, partial] : llvm::zip(all, partials))
      k.storeVector(toStorage(b, value), partial, {rowOfGroup, k.index(0)});
    return success();
  }
  if (failed(foldLanes(b, fused.getBody().front(), width, all)))
    return failure();
  for (auto [value, storage] : llvm::zip(all, reducedBuffers))
    memref::StoreOp::create(b, loc, toStorage(b, value), storage, row);
  return success();
}

/// The lanes of a group of rows, folded together.
LogicalResult MapLowering::foldGroup(Value firstRow) {
  SmallVector<SmallVector<Value>> tuples(width);
  for (int64_t i = 0; i < width; ++i)
    for (auto [partial, identity] : llvm::zip(partials, identities))
      tuples[i].push_back(
          fromStorage(b, k.loadVector(partial, {k.index(i), k.index(0)}, width),
                      identity.getType()));
  if (failed(foldRows(b, fused.getBody().front(), width, tuples)))
    return failure();
  for (auto [value, storage] : llvm::zip(tuples[0], reducedBuffers))
    k.storeVector(toStorage(b, value), storage, firstRow);
  return success();
}

LogicalResult MapLowering::lower() {
  auto type = cast<TileType>(op.getResult(0).getType());
  int64_t rows = type.getRows();
  for (Value result : op.getResults()) {
    // A result that only the fused reduction reads is never stored.
    bool needed = llvm::any_of(result.getUsers(),
                               [&](Operation *user) { return user != fused; });
    stored.push_back(needed);
    if (needed)
      k.resultBuffer(result, op.getInputs(), op);
  }
  if (type.isRowVector())
    return lowerColumn(rows);

  prepareReduction(rows, type.getCols());
  LogicalResult status = success();
  if (!grouped) {
    k.loop(rows, 1, loc, [&](Value r) { status = lowerRow(r, Value()); });
    return status;
  }
  k.loop(rows, width, loc, [&](Value r0) {
    k.loop(width, 1, loc, [&](Value i) {
      status = lowerRow(b.createOrFold<arith::AddIOp>(loc, r0, i), i);
    });
    if (succeeded(status))
      status = foldGroup(r0);
  });
  return status;
}

LogicalResult mlir::tile::lowerMap(VectorContext &ctx, MapOp op,
                                   ReduceOp fused) {
  return MapLowering(ctx, op, fused).lower();
}

LogicalResult mlir::tile::lowerReduce(VectorContext &ctx, ReduceOp op) {
  if (op.getRows())
    return lowerReduceRows(ctx, op);
  if (op.getOrdered())
    return lowerOrderedReduce(ctx, op);
  // As the reduction of an identity map.
  Location loc = op.getLoc();
  OpBuilder::InsertionGuard guard(ctx.builder);
  SmallVector<Type> types(op.getInputs().getTypes());
  auto map = MapOp::create(ctx.builder, loc, types, op.getInputs());
  Block *body = ctx.builder.createBlock(&map.getBody());
  body->addArgument(ctx.builder.getI32Type(), loc);
  body->addArgument(ctx.builder.getI32Type(), loc);
  SmallVector<Value> values;
  for (Type type : types)
    values.push_back(
        body->addArgument(cast<TileType>(type).getElementType(), loc));
  YieldOp::create(ctx.builder, loc, values);
  ctx.builder.setInsertionPoint(op);
  for (auto [i, result] : llvm::enumerate(map.getResults()))
    op.getInputsMutable()[i].set(result);
  return lowerMap(ctx, map, op);
}

static LogicalResult lowerReduceRows(VectorContext &ctx, ReduceOp op) {
  Location loc = op.getLoc();
  Block &body = op.getBody().front();
  auto type = cast<TileType>(op.getInputs()[0].getType());
  int64_t width = std::gcd(type.getCols(), ctx.lanes);
  for (Value result : op.getResults())
    ctx.buffers[result] = ctx.allocate(cast<TileType>(result.getType()));
  LogicalResult status = success();
  ctx.loop(type.getCols(), width, loc, [&](Value c) {
    SmallVector<Value> identities;
    for (Value identity : op.getIdentities())
      identities.push_back(ctx.splat(identity, width));
    auto reduced = ctx.carry(
        type.getRows(), identities, loc, [&](Value r, ArrayRef<Value> carried) {
          SmallVector<Value> inputs, combined;
          for (Value input : op.getInputs()) {
            auto inputType = cast<TileType>(input.getType());
            inputs.push_back(fromStorage(
                ctx.builder, ctx.loadVector(ctx.buffer(input), {r, c}, width),
                inputType.getElementType()));
          }
          status = combine(ctx.builder, body, width, carried, inputs, combined);
          return combined;
        });
    if (failed(status))
      return;
    for (auto [value, result] : llvm::zip(reduced, op.getResults()))
      ctx.storeVector(toStorage(ctx.builder, value), ctx.buffer(result),
                      {ctx.index(0), c});
  });
  return status;
}

/// Bytes of bools are 0 or 1; their bitwise or says whether one is set.
LogicalResult mlir::tile::lowerAny(VectorContext &ctx, AnyOp op) {
  Location loc = op.getLoc();
  auto type = cast<TileType>(op.getValue().getType());
  Value bytes = ctx.buffer(op.getValue());
  int64_t width = std::gcd(type.getCols(), ctx.lanes);
  Value none = ctx.zero(ctx.vec(width, ctx.builder.getI8Type()));
  // One nest of loops that carries the or of what was seen.
  auto walk = [&](Value row, Value carried) -> Value {
    auto forOp = scf::ForOp::create(ctx.builder, loc, ctx.index(0),
                                    ctx.index(type.getCols()), ctx.index(width),
                                    ValueRange(carried));
    OpBuilder::InsertionGuard guard(ctx.builder);
    ctx.builder.setInsertionPointToStart(forOp.getBody());
    SmallVector<Value> position = {row};
    if (!type.isRowVector())
      position.push_back(forOp.getInductionVar());
    Value some = ctx.loadVector(bytes, position, width);
    Value both = arith::OrIOp::create(ctx.builder, loc,
                                      forOp.getRegionIterArgs().front(), some);
    scf::YieldOp::create(ctx.builder, loc, both);
    return forOp.getResult(0);
  };
  auto rows = scf::ForOp::create(ctx.builder, loc, ctx.index(0),
                                 ctx.index(type.getRows()), ctx.index(1),
                                 ValueRange(none));
  {
    OpBuilder::InsertionGuard guard(ctx.builder);
    ctx.builder.setInsertionPointToStart(rows.getBody());
    Value seen = walk(rows.getInductionVar(), rows.getRegionIterArgs().front());
    scf::YieldOp::create(ctx.builder, loc, seen);
  }
  Value byte = vector::ReductionOp::create(
      ctx.builder, loc, vector::CombiningKind::OR, rows.getResult(0));
  Value some = arith::CmpIOp::create(ctx.builder, loc, arith::CmpIPredicate::ne,
                                     byte, ctx.zero(ctx.builder.getI8Type()));
  op.getResult().replaceAllUsesWith(some);
  return success();
}

/// Lane l of the result is lane l - distance of `value` (`reverse`: l +
/// distance), and `identity` where there is none.
static Value shiftLanes(OpBuilder &builder, Value value, Value identity,
                        int64_t distance, bool reverse) {
  int64_t width = cast<VectorType>(value.getType()).getDimSize(0);
  SmallVector<int64_t> mask;
  for (int64_t lane = 0; lane < width; ++lane) {
    int64_t from = reverse ? lane + distance : lane - distance;
    mask.push_back(from >= 0 && from < width ? from : width);
  }
  return vector::ShuffleOp::create(builder, value.getLoc(), value, identity,
                                   mask);
}

LogicalResult mlir::tile::lowerScan(VectorContext &ctx, ScanOp op) {
  Location loc = op.getLoc();
  Block &body = op.getBody().front();
  auto type = cast<TileType>(op.getInputs()[0].getType());
  bool reverse = op.getReverse(), isLower = scansLowerOnly(op);
  int64_t width = ctx.lanes, cols = type.getCols();
  SmallVector<Value> outs;
  for (Value result : op.getResults())
    outs.push_back(ctx.resultBuffer(result, op.getInputs(), op));
  LogicalResult status = success();
  ctx.loop(type.getRows(), 1, loc, [&](Value r) {
    SmallVector<Value> identities, carries;
    for (Value identity : op.getIdentities()) {
      identities.push_back(ctx.splat(identity, width));
      carries.push_back(identity);
    }
    Value end = isLower ? endOfRow(ctx, r, loc) : ctx.index(cols);
    auto forOp = scf::ForOp::create(ctx.builder, loc, ctx.index(0), end,
                                    ctx.index(width), carries);
    OpBuilder::InsertionGuard guard(ctx.builder);
    ctx.builder.setInsertionPointToStart(forOp.getBody());
    Value c = forOp.getInductionVar();
    if (reverse) {
      Value last =
          ctx.builder.createOrFold<arith::SubIOp>(loc, end, ctx.index(width));
      c = ctx.builder.createOrFold<arith::SubIOp>(loc, last, c);
    }
    SmallVector<Value> scanned, shifted, combined, carried;
    for (Value input : op.getInputs())
      scanned.push_back(fromStorage(
          ctx.builder, ctx.loadVector(ctx.buffer(input), {r, c}, width),
          cast<TileType>(input.getType()).getElementType()));
    auto ordered = [&](ArrayRef<Value> near, ArrayRef<Value> far,
                       SmallVectorImpl<Value> &result) {
      // `far` holds the elements met earlier in scan order: to the left, or
      // to the right in a reverse scan.
      return reverse ? combine(ctx.builder, body, width, near, far, result)
                     : combine(ctx.builder, body, width, far, near, result);
    };
    for (int64_t distance = 1; distance < width; distance *= 2) {
      shifted.clear();
      for (auto [value, identity] : llvm::zip(scanned, identities))
        shifted.push_back(
            shiftLanes(ctx.builder, value, identity, distance, reverse));
      if (failed(status = ordered(scanned, shifted, combined)))
        return;
      scanned = combined;
    }
    shifted.clear();
    for (auto [value, identity] : llvm::zip(scanned, identities))
      shifted.push_back(shiftLanes(ctx.builder, value, identity, 1, reverse));
    for (Value carry : forOp.getRegionIterArgs())
      carried.push_back(ctx.splat(carry, width));
    if (failed(status = ordered(shifted, carried, combined)))
      return;
    SmallVector<Value> total;
    if (failed(status = ordered(scanned, carried, total)))
      return;
    for (auto [value, out] : llvm::zip(combined, outs))
      ctx.storeVector(toStorage(ctx.builder, value), out, {r, c});
    SmallVector<Value> next;
    for (Value value : total)
      next.push_back(vector::ExtractOp::create(ctx.builder, loc, value,
                                               reverse ? 0 : width - 1));
    ctx.builder.setInsertionPointToEnd(forOp.getBody());
    scf::YieldOp::create(ctx.builder, loc, next);
  });
  return status;
}

static LogicalResult lowerOrderedReduce(VectorContext &ctx, ReduceOp op) {
  Location loc = op.getLoc();
  Block &body = op.getBody().front();
  auto type = cast<TileType>(op.getInputs()[0].getType());
  // Rows side by side in the lanes, columns one after the other.
  int64_t width = std::gcd(type.getRows(), ctx.lanes);
  for (Value result : op.getResults())
    ctx.buffers[result] = ctx.allocate(cast<TileType>(result.getType()));
  LogicalResult status = success();
  ctx.loop(type.getRows(), width, loc, [&](Value r) {
    SmallVector<Value> identities;
    for (Value identity : op.getIdentities())
      identities.push_back(ctx.splat(identity, width));
    auto reduced = ctx.carry(
        type.getCols(), identities, loc, [&](Value c, ArrayRef<Value> carried) {
          SmallVector<Value> inputs, combined;
          for (Value input : op.getInputs()) {
            Type element = cast<TileType>(input.getType()).getElementType();
            Value column = ctx.zero(ctx.vec(width, ctx.storageType(element)));
            for (int64_t lane = 0; lane < width; ++lane) {
              Value row = ctx.builder.createOrFold<arith::AddIOp>(
                  loc, r, ctx.index(lane));
              Value one = memref::LoadOp::create(
                  ctx.builder, loc, ctx.buffer(input), ValueRange{row, c});
              column =
                  vector::InsertOp::create(ctx.builder, loc, one, column, lane);
            }
            inputs.push_back(fromStorage(ctx.builder, column, element));
          }
          status = combine(ctx.builder, body, width, carried, inputs, combined);
          return combined;
        });
    if (failed(status))
      return;
    for (auto [value, result] : llvm::zip(reduced, op.getResults()))
      ctx.storeVector(toStorage(ctx.builder, value), ctx.buffer(result), r);
  });
  return status;
}
