//===- CaptureLoads.cpp - Elements of captures, where pairs are -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Regions read captured tensors at the positions of a pair, or at indices that
// they compute. In a kernel these are loads: at positions as they are, at other
// indices within the tensor's bounds; and what all pairs of a tile have is
// loaded once.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn;

Value mlir::attn::loadElement(OpBuilder &b, Location loc, Value memref,
                              ValueRange indices, Type type) {
  Value element = memref::LoadOp::create(b, loc, memref, indices);
  if (element.getType() == type)
    return element;
  Value zero = arith::ConstantIntOp::create(b, loc, element.getType(), 0);
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, element, zero);
}

/// Whether a number of a region is how far two positions are apart, which is
/// never negative: positions count from 0.
static bool isDistance(Value value, unsigned firstPosition) {
  auto absolute = value.getDefiningOp<math::AbsIOp>();
  auto difference = absolute
                        ? absolute.getOperand().getDefiningOp<arith::SubIOp>()
                        : arith::SubIOp();
  return difference && llvm::all_of(difference->getOperands(), [&](Value at) {
           auto argument = dyn_cast<BlockArgument>(at);
           return argument && argument.getArgNumber() >= firstPosition &&
                  argument.getArgNumber() < firstPosition + 4;
         });
}

/// Loads the element of a capture. A row or key in range (`safeRow`,
/// `safeKey`) is an index as it is: what runs the entry has compared the
/// capture's size. Any other index, and where these are null (sequences of
/// packed rows have sizes of their own) all, are clamped, so that no
/// region can read outside of its captures, on GPUs (`isNarrow`) in the 32 bits
/// that they compare at once. `headOfRow`, unless null, is the head where rows
/// of a tile differ in it.
static Value buildCaptureLoad(OpBuilder &b, Operation *uniformPoint,
                              tensor::ExtractOp extract, Region &region,
                              unsigned firstPosition, bool hasKey, Value batch,
                              Value head, Value headOfRow, Value safeRow,
                              Value safeKey, bool isNarrow,
                              RegionCloner &cloner) {
  Location loc = extract.getLoc();
  Value memref = cloner.get(extract.getTensor());
  SmallVector<Value> indices;
  for (auto [d, original] : llvm::enumerate(extract.getIndices())) {
    Value position = original;
    if (auto cast = position.getDefiningOp<arith::IndexCastOp>())
      position = cast.getIn();
    auto argument = dyn_cast<BlockArgument>(position);
    int64_t which = argument && argument.getOwner() == &region.front()
                        ? int64_t(argument.getArgNumber()) - firstPosition
                        : -1;
    auto toIndex = [&](Value value) -> Value {
      return arith::IndexCastOp::create(b, loc, b.getIndexType(), value);
    };
    if (which == 1) {
      indices.push_back(headOfRow ? toIndex(headOfRow) : head);
    } else if (which == 0 && safeRow) {
      indices.push_back(batch);
    } else if (which == 2 && safeRow) {
      indices.push_back(toIndex(safeRow));
    } else if (which == 3 && hasKey && safeKey) {
      indices.push_back(toIndex(safeKey));
    } else {
      Value value = cloner.get(original);
      APInt constant;
      int64_t size =
          cast<RankedTensorType>(extract.getTensor().getType()).getDimSize(d);
      if (matchPattern(original, m_ConstantInt(&constant)) && constant.sge(0) &&
          (constant.isZero() || constant.slt(std::max<int64_t>(size, 0)))) {
        indices.push_back(value);
        continue;
      }
      OpBuilder outer(uniformPoint);
      Value zero = arith::ConstantIndexOp::create(outer, loc, 0);
      Value one = arith::ConstantIndexOp::create(outer, loc, 1);
      Value extent = memref::DimOp::create(outer, loc, memref, d);
      Value last = arith::SubIOp::create(outer, loc, extent, one);
      auto cast = original.getDefiningOp<arith::IndexCastOp>();
      bool narrows = isNarrow && cast && cast.getIn().getType().isInteger(32);
      if (narrows) {
        Type i32 = outer.getI32Type();
        Value most = arith::ConstantIndexOp::create(
            outer, loc, std::numeric_limits<int32_t>::max());
        last = arith::MinSIOp::create(outer, loc, last, most);
        last = arith::IndexCastOp::create(outer, loc, i32, last);
        zero = arith::ConstantIntOp::create(outer, loc, 0, 32);
        Value index = cast.getIn();
        // Two bounds are one.
        APInt bound;
        if (auto least = index.getDefiningOp<arith::MinSIOp>();
            least && matchPattern(least.getRhs(), m_ConstantInt(&bound)) &&
            !bound.isNegative()) {
          Value other = arith::ConstantIntOp::create(outer, loc,
                                                     bound.getSExtValue(), 32);
          last = arith::MinSIOp::create(outer, loc, last, other);
          index = least.getLhs();
        }
        value = cloner.get(index);
        if (isDistance(index, firstPosition)) {
          last = arith::MaxSIOp::create(outer, loc, last, zero);
          value = arith::MinSIOp::create(b, loc, value, last);
          indices.push_back(toIndex(value));
          continue;
        }
      }
      value = arith::MinSIOp::create(b, loc, value, last);
      value = arith::MaxSIOp::create(b, loc, value, zero);
      indices.push_back(narrows ? toIndex(value) : value);
    }
  }
  return loadElement(b, loc, memref, indices, extract.getType());
}

/// What `load`, in a map of a step, reads at the position of each column alone
/// becomes an input of the map: a tile of one row, loaded with the keys of the
/// step. `key` is the column's position. Columns behind the last key are dead,
/// whatever they are given. Null where the load is something else.
static Value loadColumns(memref::LoadOp load, Value key) {
  auto map = dyn_cast<tile::MapOp>(load->getParentOp());
  auto rows = map ? dyn_cast<tile::RowsOp>(map->getParentOp()) : tile::RowsOp();
  auto position = key.getDefiningOp<arith::AddIOp>();
  if (!rows || !position || map.getInputs().empty() ||
      position.getRhs() != map.getBody().getArgument(1))
    return {};
  auto base = position.getLhs().getDefiningOp<arith::IndexCastOp>();
  auto isOutside = [&](Value value) {
    return value.getParentRegion()->isProperAncestor(&rows.getBody());
  };
  if (!base || !isOutside(base.getIn()) ||
      !llvm::all_of(load.getIndices().drop_back(), isOutside))
    return {};
  OpBuilder b(rows);
  Location loc = load.getLoc();
  Value memref = load.getMemref();
  SmallVector<Value> indices(load.getIndices());
  indices.back() = base.getIn();
  int64_t cols = cast<tile::TileType>(map.getInputs()[0].getType()).getCols();
  auto type =
      tile::TileType::get(b.getContext(), 1, cols, load.getResult().getType());
  Value zero = arith::ConstantIndexOp::create(b, loc, 0);
  Value end = memref::DimOp::create(b, loc, memref, indices.size() - 1);
  auto tile = tile::LoadOp::create(b, loc, type, memref, indices, zero, end,
                                   /*live=*/Value(), /*vector=*/true);
  tile.setTransposed(true);
  map.getInputsMutable().append(tile.getResult());
  return map.getBody().addArgument(load.getResult().getType(), loc);
}

Value KernelBuilder::uniform(Region &region, Value value,
                             unsigned firstPosition, ValueRange captures) {
  if (Value built = uniformValues.lookup(value))
    return built;
  OpBuilder outer(uniformPoint);
  auto hook = [&](Operation *inner, RegionCloner &cloner) -> Value {
    // What several uniform values have in common is built once.
    if (inner != value.getDefiningOp() && inner->getNumResults() == 1 &&
        !inner->hasTrait<OpTrait::ConstantLike>())
      return uniform(region, inner->getResult(0), firstPosition, captures);
    if (auto extract = dyn_cast<tensor::ExtractOp>(inner))
      return buildCaptureLoad(
          outer, uniformPoint, extract, region, firstPosition, /*hasKey=*/false,
          batch, head, Value(), Value(), Value(), /*isNarrow=*/false, cloner);
    return {};
  };
  RegionCloner cloner(outer, hook);
  cloner.map(region.getArgument(firstPosition), batchI32);
  cloner.map(region.getArgument(firstPosition + 1), headI32);
  for (auto [argument, outerValue] :
       llvm::zip(region.getArguments().take_back(captures.size()), captures))
    cloner.map(argument, arg(outerValue));
  return uniformValues[value] = cloner.get(value);
}

PointCloner::PointCloner(KernelBuilder &kernel, Region &region,
                         unsigned firstPosition, bool hasKey,
                         ValueRange captures, Point point)
    : kernel(kernel), region(region), firstPosition(firstPosition),
      hasKey(hasKey), captures(captures), point(point),
      hook([this](Operation *op, RegionCloner &inner) {
        return build(op, inner);
      }),
      cloner(kernel.b, hook) {
  cloner.map(region.getArgument(firstPosition), kernel.batchI32);
  cloner.map(region.getArgument(firstPosition + 1),
             point.head ? point.head : kernel.headI32);
  cloner.map(region.getArgument(firstPosition + 2), point.row);
  if (hasKey)
    cloner.map(region.getArgument(firstPosition + 3), point.key);
  for (auto [argument, outer] :
       llvm::zip(region.getArguments().take_back(captures.size()), captures))
    cloner.map(argument, kernel.arg(outer));
}

/// The position that an index of a capture is.
static Value positionOf(Value index) {
  auto cast = index.getDefiningOp<arith::IndexCastOp>();
  return cast ? cast.getIn() : index;
}

Value PointCloner::build(Operation *op, RegionCloner &inner) {
  if (op->hasTrait<OpTrait::ConstantLike>())
    return {};
  if (!kernel.varying(region, firstPosition, hasKey).contains(op->getResult(0)))
    return kernel.uniform(region, op->getResult(0), firstPosition, captures);
  auto extract = dyn_cast<tensor::ExtractOp>(op);
  if (!extract)
    return {};
  Value element =
      buildCaptureLoad(kernel.b, kernel.uniformPoint, extract, region,
                       firstPosition, hasKey, kernel.batch, kernel.head,
                       point.head, kernel.hasOwnSizes ? Value() : point.safeRow,
                       kernel.hasOwnSizes ? Value() : point.safeKey,
                       !kernel.target.isCpu(), inner);
  // Of gradients, whose pairs have several dots: the statistics of queries.
  bool isStaged = hasKey && firstPosition > 1 && !kernel.hasOwnSizes &&
                  kernel.target.hasRoles() && element.getType().isF32() &&
                  extract.getIndices().size() > 0 &&
                  positionOf(extract.getIndices().back()) ==
                      region.getArgument(firstPosition + 3);
  auto load = element.getDefiningOp<memref::LoadOp>();
  if (!isStaged || !load)
    return element;
  Value columns = loadColumns(load, point.key);
  if (!columns)
    return element;
  load.erase();
  return columns;
}
