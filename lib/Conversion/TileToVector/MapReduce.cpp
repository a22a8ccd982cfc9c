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
#include "KernelLowering.h"
#include "attn/Dialect/Tile/IR/FoldThreshold.h"

using namespace mlir;
using namespace mlir::tile;

/// Independent accumulators of a row reduction, to cover latency.
static constexpr int64_t reduceUnroll = 4;

/// An i1 vector as stored bytes, or the value itself.
static Value toStorage(OpBuilder &builder, Value value) {
  Type type = value.getType();
  if (!getElementTypeOrSelf(type).isSignlessInteger(1))
    return value;
  Type to = builder.getI8Type();
  if (auto vector = dyn_cast<VectorType>(type))
    to = vector.clone(to);
  return arith::ExtUIOp::create(builder, value.getLoc(), to, value);
}

/// Stored bytes as i1, when the tile's elements are i1.
static Value fromStorage(OpBuilder &builder, Value value, Type elementType) {
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

ReduceOp KernelLowering::fusableReduce(MapOp op) {
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

LogicalResult KernelLowering::lowerMap(MapOp op, ReduceOp fused) {
  Location loc = op.getLoc();
  Block &body = op.getBody().front();
  auto type = cast<TileType>(op.getResult(0).getType());
  int64_t rows = type.getRows(), cols = type.getCols();

  SmallVector<bool> stored;
  for (Value result : op.getResults()) {
    // A result that only the fused reduction reads is never stored.
    bool needed = llvm::any_of(result.getUsers(),
                               [&](Operation *user) { return user != fused; });
    stored.push_back(needed);
    if (needed)
      resultBuffer(result, op.getInputs(), op);
  }

  if (type.isRowVector()) {
    int64_t width = std::gcd(rows, lanes);
    LogicalResult status = success();
    loop(rows, width, loc, [&](Value r) {
      BodyVectorizer vectorizer(builder, width);
      Value r32 =
          arith::IndexCastOp::create(builder, loc, builder.getI32Type(), r);
      vectorizer.mapLinear(body.getArgument(0), r32);
      vectorizer.mapUniform(body.getArgument(1), zero(builder.getI32Type()));
      for (auto [i, input] : llvm::enumerate(op.getInputs())) {
        auto inputType = cast<TileType>(input.getType());
        if (inputType.getRows() == 1)
          vectorizer.mapUniform(
              body.getArgument(2 + i),
              fromStorage(
                  builder,
                  memref::LoadOp::create(builder, loc, buffer(input), index(0)),
                  inputType.getElementType()));
        else
          vectorizer.mapVector(body.getArgument(2 + i),
                               fromStorage(builder,
                                           loadVector(buffer(input), r, width),
                                           inputType.getElementType()));
      }
      status = vectorizer.emit(body);
      if (failed(status))
        return;
      SmallVector<Value> values;
      for (unsigned i = 0; i < op.getNumResults(); ++i)
        values.push_back(vectorizer.yielded(body, i));
      for (auto [i, result] : llvm::enumerate(op.getResults()))
        if (stored[i])
          storeVector(toStorage(builder, values[i]), buffer(result), r);
    });
    return status;
  }

  int64_t width = lanes;
  SmallVector<Value> identities;
  if (fused)
    for (Value identity : fused.getIdentities())
      identities.push_back(identity);
  int64_t numReduced = identities.size();
  int64_t vectors = cols / width;
  int64_t unroll = std::gcd(vectors, reduceUnroll);
  // What neighbours share, as random words, is seen within an iteration.
  constexpr int64_t longBody = 100, sharing = 64;
  if (!fused && int64_t(body.getOperations().size()) > longBody)
    unroll = std::gcd(vectors, std::max<int64_t>(sharing / width, 1));
  SmallVector<Value> reducedBuffers;
  if (fused)
    for (Value result : fused.getResults())
      reducedBuffers.push_back(resultBuffer(result, {}, fused));

  // With enough rows their lanes are folded together at the end of a group.
  bool grouped = fused && rows % width == 0;
  SmallVector<Value> partials;
  if (grouped)
    for (Value identity : identities)
      partials.push_back(
          allocate(TileType::get(builder.getContext(), width, width,
                                 storageType(identity.getType()))));

  LogicalResult status = success();
  auto oneRow = [&](Value r, Value rowOfGroup) {
    Value r32 =
        arith::IndexCastOp::create(builder, loc, builder.getI32Type(), r);
    // What is the same for a whole row is loaded once.
    SmallVector<Value> uniform(op.getInputs().size());
    for (auto [i, input] : llvm::enumerate(op.getInputs())) {
      auto inputType = cast<TileType>(input.getType());
      if (inputType.isRowVector())
        uniform[i] = fromStorage(
            builder,
            memref::LoadOp::create(builder, loc, buffer(input),
                                   inputType.getRows() == 1 ? index(0) : r),
            inputType.getElementType());
    }
    // One vector of columns from `c`; gives the reduced inputs.
    auto step = [&](Value c, int64_t offset,
                    SmallVectorImpl<Value> &reducedInputs) {
      BodyVectorizer vectorizer(builder, width);
      Value c32 =
          arith::IndexCastOp::create(builder, loc, builder.getI32Type(), c);
      vectorizer.mapUniform(body.getArgument(0), r32);
      int64_t together = width * unroll;
      bool isPower = llvm::isPowerOf2_64(together);
      vectorizer.mapLinear(body.getArgument(1), c32, isPower ? together : 1,
                           isPower ? offset : 0);
      for (auto [i, input] : llvm::enumerate(op.getInputs())) {
        auto inputType = cast<TileType>(input.getType());
        if (uniform[i]) {
          vectorizer.mapUniform(body.getArgument(2 + i), uniform[i]);
          continue;
        }
        Value row = inputType.getRows() == 1 ? index(0) : r;
        vectorizer.mapVector(
            body.getArgument(2 + i),
            fromStorage(builder, loadVector(buffer(input), {row, c}, width),
                        inputType.getElementType()));
      }
      status = vectorizer.emit(body);
      if (failed(status))
        return;
      SmallVector<Value> values;
      for (unsigned i = 0; i < op.getNumResults(); ++i)
        values.push_back(vectorizer.yielded(body, i));
      for (auto [i, result] : llvm::enumerate(op.getResults()))
        if (stored[i])
          storeVector(toStorage(builder, values[i]), buffer(result), {r, c});
      if (fused)
        for (Value input : fused.getInputs())
          reducedInputs.push_back(
              values[cast<OpResult>(input).getResultNumber()]);
    };

    SmallVector<Value> accumulators;
    for (int64_t u = 0; u < unroll; ++u)
      for (Value identity : identities)
        accumulators.push_back(splat(identity, width));
    auto forOp = scf::ForOp::create(builder, loc, index(0), index(cols),
                                    index(width * unroll), accumulators);
    {
      OpBuilder::InsertionGuard guard(builder);
      if (!forOp.getBody()->empty())
        builder.setInsertionPoint(forOp.getBody(), forOp.getBody()->begin());
      else
        builder.setInsertionPointToStart(forOp.getBody());
      SmallVector<Value> next;
      for (int64_t u = 0; u < unroll; ++u) {
        Value c = builder.createOrFold<arith::AddIOp>(
            loc, forOp.getInductionVar(), index(u * width));
        SmallVector<Value> inputs, combined;
        step(c, u * width, inputs);
        if (failed(status))
          return;
        if (!fused)
          continue;
        SmallVector<Value> carried(
            forOp.getRegionIterArgs().slice(u * numReduced, numReduced));
        status = combine(builder, fused.getBody().front(), width, carried,
                         inputs, combined);
        if (failed(status))
          return;
        next.append(combined.begin(), combined.end());
      }
      if (fused) {
        builder.setInsertionPointToEnd(forOp.getBody());
        scf::YieldOp::create(builder, loc, next);
      }
    }
    if (!fused)
      return;
    // Accumulators, pairwise; then the lanes.
    SmallVector<Value> all(forOp.getResults());
    Block &combiner = fused.getBody().front();
    int64_t count = unroll;
    for (; count > 1; count /= 2) {
      SmallVector<Value> halved;
      for (int64_t u = 0; u < count / 2; ++u) {
        ArrayRef<Value> from(all);
        SmallVector<Value> a(from.slice(u * numReduced, numReduced));
        SmallVector<Value> b(
            from.slice((u + count / 2) * numReduced, numReduced));
        SmallVector<Value> ab;
        status = combine(builder, combiner, width, a, b, ab);
        if (failed(status))
          return;
        halved.append(ab.begin(), ab.end());
      }
      all = halved;
    }
    if (grouped) {
      for (auto [value, partial] : llvm::zip(all, partials))
        storeVector(toStorage(builder, value), partial, {rowOfGroup, index(0)});
      return;
    }
    status = foldLanes(builder, combiner, width, all);
    if (failed(status))
      return;
    for (auto [value, storage] : llvm::zip(all, reducedBuffers))
      memref::StoreOp::create(builder, loc, toStorage(builder, value), storage,
                              r);
  };
  if (!grouped) {
    loop(rows, 1, loc, [&](Value r) { oneRow(r, Value()); });
    return status;
  }
  loop(rows, width, loc, [&](Value r0) {
    loop(width, 1, loc, [&](Value i) {
      oneRow(builder.createOrFold<arith::AddIOp>(loc, r0, i), i);
    });
    if (failed(status))
      return;
    SmallVector<SmallVector<Value>> tuples(width);
    for (int64_t i = 0; i < width; ++i)
      for (auto [partial, identity] : llvm::zip(partials, identities))
        tuples[i].push_back(fromStorage(
            builder, loadVector(partial, {index(i), index(0)}, width),
            identity.getType()));
    status = foldRows(builder, fused.getBody().front(), width, tuples);
    if (failed(status))
      return;
    for (auto [value, storage] : llvm::zip(tuples[0], reducedBuffers))
      storeVector(toStorage(builder, value), storage, r0);
  });
  return status;
}

LogicalResult KernelLowering::lowerReduce(ReduceOp op) {
  if (op.getRows())
    return lowerReduceRows(op);
  if (op.getOrdered())
    return lowerOrderedReduce(op);
  // As the reduction of an identity map.
  Location loc = op.getLoc();
  OpBuilder::InsertionGuard guard(builder);
  SmallVector<Type> types(op.getInputs().getTypes());
  auto map = MapOp::create(builder, loc, types, op.getInputs());
  Block *body = builder.createBlock(&map.getBody());
  body->addArgument(builder.getI32Type(), loc);
  body->addArgument(builder.getI32Type(), loc);
  SmallVector<Value> values;
  for (Type type : types)
    values.push_back(
        body->addArgument(cast<TileType>(type).getElementType(), loc));
  YieldOp::create(builder, loc, values);
  builder.setInsertionPoint(op);
  for (auto [i, result] : llvm::enumerate(map.getResults()))
    op.getInputsMutable()[i].set(result);
  return lowerMap(map, op);
}

LogicalResult KernelLowering::lowerReduceRows(ReduceOp op) {
  Location loc = op.getLoc();
  Block &body = op.getBody().front();
  auto type = cast<TileType>(op.getInputs()[0].getType());
  int64_t width = std::gcd(type.getCols(), lanes);
  for (Value result : op.getResults())
    buffers[result] = allocate(cast<TileType>(result.getType()));
  LogicalResult status = success();
  loop(type.getCols(), width, loc, [&](Value c) {
    SmallVector<Value> identities;
    for (Value identity : op.getIdentities())
      identities.push_back(splat(identity, width));
    auto reduced = carry(
        type.getRows(), identities, loc, [&](Value r, ArrayRef<Value> carried) {
          SmallVector<Value> inputs, combined;
          for (Value input : op.getInputs()) {
            auto inputType = cast<TileType>(input.getType());
            inputs.push_back(
                fromStorage(builder, loadVector(buffer(input), {r, c}, width),
                            inputType.getElementType()));
          }
          status = combine(builder, body, width, carried, inputs, combined);
          return combined;
        });
    if (failed(status))
      return;
    for (auto [value, result] : llvm::zip(reduced, op.getResults()))
      storeVector(toStorage(builder, value), buffer(result), {index(0), c});
  });
  return status;
}

/// Bytes of bools are 0 or 1; their bitwise or says whether one is set.
LogicalResult KernelLowering::lowerAny(AnyOp op) {
  Location loc = op.getLoc();
  auto type = cast<TileType>(op.getValue().getType());
  Value bytes = buffer(op.getValue());
  int64_t width = std::gcd(type.getCols(), lanes);
  Value none = zero(vec(width, builder.getI8Type()));
  // One nest of loops that carries the or of what was seen.
  auto walk = [&](Value row, Value carried) -> Value {
    auto forOp =
        scf::ForOp::create(builder, loc, index(0), index(type.getCols()),
                           index(width), ValueRange(carried));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(forOp.getBody());
    SmallVector<Value> position = {row};
    if (!type.isRowVector())
      position.push_back(forOp.getInductionVar());
    Value some = loadVector(bytes, position, width);
    Value both = arith::OrIOp::create(builder, loc,
                                      forOp.getRegionIterArgs().front(), some);
    scf::YieldOp::create(builder, loc, both);
    return forOp.getResult(0);
  };
  auto rows = scf::ForOp::create(builder, loc, index(0), index(type.getRows()),
                                 index(1), ValueRange(none));
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(rows.getBody());
    Value seen = walk(rows.getInductionVar(), rows.getRegionIterArgs().front());
    scf::YieldOp::create(builder, loc, seen);
  }
  Value byte = vector::ReductionOp::create(
      builder, loc, vector::CombiningKind::OR, rows.getResult(0));
  Value some = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne,
                                     byte, zero(builder.getI8Type()));
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

LogicalResult KernelLowering::lowerScan(ScanOp op) {
  Location loc = op.getLoc();
  Block &body = op.getBody().front();
  auto type = cast<TileType>(op.getInputs()[0].getType());
  bool reverse = op.getReverse();
  int64_t width = lanes, cols = type.getCols();
  SmallVector<Value> outs;
  for (Value result : op.getResults())
    outs.push_back(resultBuffer(result, op.getInputs(), op));
  LogicalResult status = success();
  loop(type.getRows(), 1, loc, [&](Value r) {
    SmallVector<Value> identities, carries;
    for (Value identity : op.getIdentities()) {
      identities.push_back(splat(identity, width));
      carries.push_back(identity);
    }
    auto forOp = scf::ForOp::create(builder, loc, index(0), index(cols),
                                    index(width), carries);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(forOp.getBody());
    Value c = forOp.getInductionVar();
    if (reverse)
      c = builder.createOrFold<arith::SubIOp>(loc, index(cols - width), c);
    SmallVector<Value> scanned, shifted, combined, carried;
    for (Value input : op.getInputs())
      scanned.push_back(
          fromStorage(builder, loadVector(buffer(input), {r, c}, width),
                      cast<TileType>(input.getType()).getElementType()));
    auto ordered = [&](ArrayRef<Value> near, ArrayRef<Value> far,
                       SmallVectorImpl<Value> &result) {
      // `far` holds the elements met earlier in scan order: to the left, or
      // to the right in a reverse scan.
      return reverse ? combine(builder, body, width, near, far, result)
                     : combine(builder, body, width, far, near, result);
    };
    for (int64_t distance = 1; distance < width; distance *= 2) {
      shifted.clear();
      for (auto [value, identity] : llvm::zip(scanned, identities))
        shifted.push_back(
            shiftLanes(builder, value, identity, distance, reverse));
      if (failed(status = ordered(scanned, shifted, combined)))
        return;
      scanned = combined;
    }
    shifted.clear();
    for (auto [value, identity] : llvm::zip(scanned, identities))
      shifted.push_back(shiftLanes(builder, value, identity, 1, reverse));
    for (Value carry : forOp.getRegionIterArgs())
      carried.push_back(splat(carry, width));
    if (failed(status = ordered(shifted, carried, combined)))
      return;
    SmallVector<Value> total;
    if (failed(status = ordered(scanned, carried, total)))
      return;
    for (auto [value, out] : llvm::zip(combined, outs))
      storeVector(toStorage(builder, value), out, {r, c});
    SmallVector<Value> next;
    for (Value value : total)
      next.push_back(vector::ExtractOp::create(builder, loc, value,
                                               reverse ? 0 : width - 1));
    builder.setInsertionPointToEnd(forOp.getBody());
    scf::YieldOp::create(builder, loc, next);
  });
  return status;
}

LogicalResult KernelLowering::lowerOrderedReduce(ReduceOp op) {
  Location loc = op.getLoc();
  Block &body = op.getBody().front();
  auto type = cast<TileType>(op.getInputs()[0].getType());
  // Rows side by side in the lanes, columns one after the other.
  int64_t width = std::gcd(type.getRows(), lanes);
  for (Value result : op.getResults())
    buffers[result] = allocate(cast<TileType>(result.getType()));
  LogicalResult status = success();
  loop(type.getRows(), width, loc, [&](Value r) {
    SmallVector<Value> identities;
    for (Value identity : op.getIdentities())
      identities.push_back(splat(identity, width));
    auto reduced = carry(
        type.getCols(), identities, loc, [&](Value c, ArrayRef<Value> carried) {
          SmallVector<Value> inputs, combined;
          for (Value input : op.getInputs()) {
            Type element = cast<TileType>(input.getType()).getElementType();
            Value column = zero(vec(width, storageType(element)));
            for (int64_t lane = 0; lane < width; ++lane) {
              Value row =
                  builder.createOrFold<arith::AddIOp>(loc, r, index(lane));
              Value one = memref::LoadOp::create(builder, loc, buffer(input),
                                                 ValueRange{row, c});
              column =
                  vector::InsertOp::create(builder, loc, one, column, lane);
            }
            inputs.push_back(fromStorage(builder, column, element));
          }
          status = combine(builder, body, width, carried, inputs, combined);
          return combined;
        });
    if (failed(status))
      return;
    for (auto [value, result] : llvm::zip(reduced, op.getResults()))
      storeVector(toStorage(builder, value), buffer(result), r);
  });
  return status;
}

/// One key's turn in a fold: the states after it.
SmallVector<Value> KernelLowering::foldKey(FoldOp op, Value r, Value c, Value d,
                                           int64_t width,
                                           ArrayRef<Value> carried,
                                           LogicalResult &status) {
  Location loc = op.getLoc();
  Block &body = op.getBody().front();
  BodyVectorizer vectorizer(builder, width);
  auto cast32 = [&](Value value) -> Value {
    return arith::IndexCastOp::create(builder, loc, builder.getI32Type(),
                                      value);
  };
  vectorizer.mapUniform(body.getArgument(0), cast32(r));
  vectorizer.mapUniform(body.getArgument(1), cast32(c));
  unsigned next = 2;
  for (Value score : op.getScores())
    vectorizer.mapUniform(
        body.getArgument(next++),
        memref::LoadOp::create(builder, loc, buffer(score), ValueRange{r, c}));
  for (Value value : op.getValues())
    vectorizer.mapVector(body.getArgument(next++),
                         loadVector(buffer(value), {c, d}, width));
  for (Value state : carried) {
    if (isa<VectorType>(state.getType()))
      vectorizer.mapVector(body.getArgument(next++), state);
    else
      vectorizer.mapUniform(body.getArgument(next++), state);
  }
  status = vectorizer.emit(body);
  if (failed(status))
    return {};
  SmallVector<Value> values;
  for (auto [i, state] : llvm::enumerate(carried)) {
    bool isVector = isa<VectorType>(state.getType());
    values.push_back(isVector ? vectorizer.yielded(body, i)
                              : vectorizer.yieldedUniform(body, i));
    if (values.back())
      continue;
    status = op.emitOpError("expected the state of one column, number ")
             << i << ", not to depend on the values";
    return {};
  }
  return values;
}

/// Keys are compared with the threshold a vector at a time. Those of a vector
/// that has one above it are asked again one by one, since each that is folded
/// may raise it.
LogicalResult KernelLowering::lowerThresholdFold(FoldOp op,
                                                 unsigned threshold) {
  Location loc = op.getLoc();
  Value scores = op.getScores().front();
  auto type = cast<TileType>(scores.getType());
  int64_t width = std::gcd(type.getCols(), lanes);
  for (Value result : op.getResults())
    buffers[result] = allocate(cast<TileType>(result.getType()));
  LogicalResult status = success();
  Value r;
  auto passes = [&](Value c, int64_t count, Value least) -> Value {
    auto read = [&](Value tile) -> Value {
      if (count > 1)
        return loadVector(buffer(tile), {r, c}, count);
      return memref::LoadOp::create(builder, loc, buffer(tile),
                                    ValueRange{r, c});
    };
    // A score that is no number passes.
    Value above = arith::CmpFOp::create(
        builder, loc, arith::CmpFPredicate::UGT, read(scores),
        count > 1 ? splat(least, count) : least);
    if (!op.getLive())
      return above;
    Value live = fromStorage(builder, read(op.getLive()), builder.getI1Type());
    return arith::AndIOp::create(builder, loc, above, live);
  };
  using States = SmallVector<Value>;
  auto branch = [&](Value condition, ArrayRef<Value> states,
                    function_ref<States()> then) -> States {
    auto ifOp = scf::IfOp::create(builder, loc, ValueRange(states).getTypes(),
                                  condition, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(ifOp.elseBlock());
    scf::YieldOp::create(builder, loc, states);
    builder.setInsertionPointToStart(ifOp.thenBlock());
    States next = then();
    scf::YieldOp::create(builder, loc, failed(status) ? States(states) : next);
    return ifOp.getResults();
  };
  loop(type.getRows(), 1, loc, [&](Value row) {
    r = row;
    States initial;
    for (Value state : op.getStates())
      initial.push_back(
          memref::LoadOp::create(builder, loc, buffer(state), row));
    States folded = carry(
        type.getCols() / width, initial, loc,
        [&](Value number, ArrayRef<Value> carried) -> States {
          Value first =
              arith::MulIOp::create(builder, loc, number, index(width));
          Value above = passes(first, width, carried[threshold]);
          Value some = width == 1
                           ? above
                           : vector::ReductionOp::create(
                                 builder, loc, vector::CombiningKind::OR, above)
                                 .getResult();
          return branch(some, carried, [&] {
            return carry(width, carried, loc,
                         [&](Value lane, ArrayRef<Value> states) -> States {
                           Value c =
                               arith::AddIOp::create(builder, loc, first, lane);
                           Value one = passes(c, 1, states[threshold]);
                           return branch(one, states, [&] {
                             return foldKey(op, r, c, index(0), /*width=*/1,
                                            states, status);
                           });
                         });
          });
        });
    for (auto [value, result] : llvm::zip(folded, op.getResults()))
      memref::StoreOp::create(builder, loc, value, buffer(result), row);
  });
  return status;
}

LogicalResult KernelLowering::lowerFold(FoldOp op) {
  if (std::optional<unsigned> threshold = getThreshold(op))
    return lowerThresholdFold(op, *threshold);
  Location loc = op.getLoc();
  auto scoreType = cast<TileType>(op.getScores()[0].getType());
  int64_t rows = scoreType.getRows(), keys = scoreType.getCols();
  int64_t channels = 1;
  for (Value state : op.getStates())
    channels = std::max(channels, cast<TileType>(state.getType()).getCols());
  int64_t width = channels == 1 ? 1 : lanes;

  // Row states are computed again for every group of channels, so their
  // results must not overwrite what the next group starts from.
  for (auto [state, result] : llvm::zip(op.getStates(), op.getResults())) {
    if (cast<TileType>(state.getType()).isRowVector())
      buffers[result] = allocate(cast<TileType>(result.getType()));
    else
      resultBuffer(result, state, op);
  }
  LogicalResult status = success();
  loop(rows, 1, loc, [&](Value r) {
    loop(channels, width, loc, [&](Value d) {
      SmallVector<Value> initial;
      for (Value state : op.getStates()) {
        if (cast<TileType>(state.getType()).isRowVector())
          initial.push_back(
              memref::LoadOp::create(builder, loc, buffer(state), r));
        else
          initial.push_back(loadVector(buffer(state), {r, d}, width));
      }
      auto step = [&](Value c, ArrayRef<Value> carried) -> SmallVector<Value> {
        if (!op.getLive())
          return foldKey(op, r, c, d, width, carried, status);
        Value byte = memref::LoadOp::create(builder, loc, buffer(op.getLive()),
                                            ValueRange{r, c});
        Value live = fromStorage(builder, byte, builder.getI1Type());
        auto branch =
            scf::IfOp::create(builder, loc, ValueRange(initial).getTypes(),
                              live, /*withElseRegion=*/true);
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToStart(branch.thenBlock());
        SmallVector<Value> values =
            foldKey(op, r, c, d, width, carried, status);
        if (failed(status))
          return {};
        scf::YieldOp::create(builder, loc, values);
        builder.setInsertionPointToStart(branch.elseBlock());
        scf::YieldOp::create(builder, loc, carried);
        return branch.getResults();
      };
      SmallVector<Value> folded = carry(keys, initial, loc, step);
      if (failed(status))
        return;
      for (auto [value, result] : llvm::zip(folded, op.getResults())) {
        if (isa<VectorType>(value.getType()))
          storeVector(value, buffer(result), {r, d});
        else
          memref::StoreOp::create(builder, loc, value, buffer(result), r);
      }
    });
  });
  return status;
}
