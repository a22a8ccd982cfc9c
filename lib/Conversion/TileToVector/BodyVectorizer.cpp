//===- BodyVectorizer.cpp - Scalar bodies on vectors ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BodyVectorizer.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile;

/// 0, 1, 2, ... as a constant vector of `elementType`.
static Value iota(OpBuilder &builder, Location loc, int64_t width,
                  Type elementType) {
  SmallVector<Attribute> values;
  for (int64_t i = 0; i < width; ++i)
    values.push_back(builder.getIntegerAttr(elementType, i));
  auto type = VectorType::get({width}, elementType);
  return arith::ConstantOp::create(builder, loc,
                                   DenseElementsAttr::get(type, values));
}

static Value broadcast(OpBuilder &builder, Location loc, Value scalar,
                       int64_t width) {
  return vector::BroadcastOp::create(
      builder, loc, VectorType::get({width}, scalar.getType()), scalar);
}

void BodyVectorizer::mapLinear(Value scalar, Value base, int64_t unit,
                               int64_t offset) {
  Lane &lane = lanes[scalar];
  lane.base = base;
  lane.unit = unit;
  lane.offset = offset;
}

BodyVectorizer::Lane BodyVectorizer::lookup(Value scalar) {
  auto it = lanes.find(scalar);
  if (it != lanes.end())
    return it->second;
  // Defined above the body: the same for every element.
  Lane lane;
  lane.uniform = scalar;
  return lane;
}

Value BodyVectorizer::asVector(Value scalar) {
  Lane lane = lookup(scalar);
  if (lane.vector)
    return lane.vector;
  Location loc = scalar.getLoc();
  if (lane.uniform) {
    lane.vector = broadcast(builder, loc, lane.uniform, width);
  } else {
    Type type = lane.base.getType();
    Value vector = arith::AddIOp::create(
        builder, loc, broadcast(builder, loc, lane.base, width),
        iota(builder, loc, width, type));
    if (lane.upper)
      vector = arith::MinSIOp::create(
          builder, loc, vector, broadcast(builder, loc, lane.upper, width));
    if (lane.lower)
      vector = arith::MaxSIOp::create(
          builder, loc, vector, broadcast(builder, loc, lane.lower, width));
    lane.vector = vector;
  }
  lanes[scalar] = lane;
  return lane.vector;
}

LogicalResult BodyVectorizer::emit(Block &body) {
  for (Operation &op : body.without_terminator())
    if (failed(emit(&op)))
      return failure();
  return success();
}

Value BodyVectorizer::yielded(Block &body, unsigned i) {
  return asVector(body.getTerminator()->getOperand(i));
}

Value BodyVectorizer::yieldedUniform(Block &body, unsigned i) {
  return lookup(body.getTerminator()->getOperand(i)).uniform;
}

/// The largest power of 2, up to `most`, that `value` is a known multiple of.
static int64_t knownMultiple(Value value, int64_t most) {
  auto mask = value.getDefiningOp<arith::AndIOp>();
  APInt bits;
  if (!mask || !matchPattern(mask.getRhs(), m_ConstantInt(&bits)))
    return 1;
  return std::min<int64_t>(most, int64_t(1)
                                     << std::min(bits.countr_zero(), 62u));
}

/// The high bits of `base + lane` are those of the base, and its low bits
/// known, where the base is a multiple of the vector's width: what a body
/// computes of them is then the same for all lanes, or for all vectors.
bool BodyVectorizer::emitBits(Operation *op, const Lane &lane,
                              const Lane &other) {
  APInt constant;
  if (lane.lower || lane.upper || !other.uniform ||
      !matchPattern(op->getOperand(1), m_ConstantInt(&constant)) ||
      !llvm::isPowerOf2_64(width) || lane.offset % width || lane.unit % width)
    return false;
  Location loc = op->getLoc();
  Lane result;
  if (isa<arith::ShRUIOp>(op)) {
    if (constant.uge(31) || int64_t(1) << constant.getZExtValue() < width)
      return false;
    result.uniform =
        arith::ShRUIOp::create(builder, loc, lane.base, other.uniform);
  } else {
    if (!constant.isMask() || constant.uge(lane.unit))
      return false;
    SmallVector<Attribute> values;
    Type type = lane.base.getType();
    for (int64_t i = 0; i < width; ++i)
      values.push_back(builder.getIntegerAttr(
          type, (lane.offset + i) & constant.getSExtValue()));
    result.vector = arith::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(VectorType::get({width}, type), values));
  }
  lanes[op->getResult(0)] = result;
  return true;
}

/// Keeps `base + lane` through additions, casts and clamps.
bool BodyVectorizer::emitLinear(Operation *op) {
  if (op->getNumResults() != 1 || op->getNumOperands() == 0)
    return false;
  Lane first = lookup(op->getOperand(0));
  Location loc = op->getLoc();
  if (isa<arith::IndexCastOp, arith::ExtSIOp>(op)) {
    if (!first.base)
      return false;
    auto cast = [&](Value value) -> Value {
      if (!value)
        return {};
      return builder
          .create(loc, op->getName().getIdentifier(), value,
                  op->getResultTypes())
          ->getResult(0);
    };
    Lane lane;
    lane.base = cast(first.base);
    lane.lower = cast(first.lower);
    lane.upper = cast(first.upper);
    lane.unit = first.unit;
    lane.offset = first.offset;
    lanes[op->getResult(0)] = lane;
    return true;
  }
  if (op->getNumOperands() != 2)
    return false;
  Lane second = lookup(op->getOperand(1));
  if (first.base && isa<arith::ShRUIOp, arith::AndIOp>(op))
    return emitBits(op, first, second);
  if (isa<arith::AddIOp, arith::MinSIOp, arith::MaxSIOp>(op) && second.base)
    std::swap(first, second);
  if (!first.base || !second.uniform)
    return false;
  bool clamped = first.lower || first.upper;
  if (isa<arith::AddIOp, arith::SubIOp>(op) && !clamped) {
    Lane lane;
    lane.base = builder
                    .create(loc, op->getName().getIdentifier(),
                            ValueRange{first.base, second.uniform},
                            op->getResultTypes())
                    ->getResult(0);
    lane.unit = std::min(first.unit, knownMultiple(second.uniform, first.unit));
    lane.offset = first.offset % lane.unit;
    lanes[op->getResult(0)] = lane;
    return true;
  }
  // The vector form clamps above, then below; keep to that order.
  if (isa<arith::MinSIOp>(op) && !clamped) {
    first.upper = second.uniform;
  } else if (isa<arith::MaxSIOp>(op) && !first.lower) {
    first.lower = second.uniform;
  } else {
    return false;
  }
  first.vector = Value();
  lanes[op->getResult(0)] = first;
  return true;
}

LogicalResult BodyVectorizer::emit(Operation *op) {
  Location loc = op->getLoc();
  if (op->getNumRegions() != 0)
    return op->emitOpError("expected a body without nested regions");
  bool uniform = llvm::all_of(op->getOperands(), [&](Value operand) {
    return static_cast<bool>(lookup(operand).uniform);
  });
  if (uniform) {
    IRMapping mapping;
    for (Value operand : op->getOperands())
      mapping.map(operand, lookup(operand).uniform);
    Operation *clone = builder.clone(*op, mapping);
    for (auto [from, to] : llvm::zip(op->getResults(), clone->getResults()))
      lanes[from].uniform = to;
    return success();
  }
  if (emitLinear(op))
    return success();
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return emitLoad(load);
  if (!OpTrait::hasElementwiseMappableTraits(op))
    return op->emitOpError("expected an elementwise operation or a memref.load "
                           "in a tile body");
  SmallVector<Value> operands;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    Lane lane = lookup(operand);
    // select takes one condition for all lanes as it is.
    bool keepScalar = isa<arith::SelectOp>(op) && i == 0 && lane.uniform;
    operands.push_back(keepScalar ? lane.uniform : asVector(operand));
  }
  SmallVector<Type> types;
  for (Type type : op->getResultTypes())
    types.push_back(VectorType::get({width}, type));
  Operation *vectorOp = builder.create(loc, op->getName().getIdentifier(),
                                       operands, types, op->getAttrs());
  for (auto [from, to] : llvm::zip(op->getResults(), vectorOp->getResults()))
    lanes[from].vector = to;
  return success();
}

Value BodyVectorizer::vectorLoad(memref::LoadOp op, ValueRange indices) {
  auto type = VectorType::get({width}, op.getMemRefType().getElementType());
  return vector::LoadOp::create(builder, op.getLoc(), type, op.getMemRef(),
                                indices);
}

Value BodyVectorizer::gather(memref::LoadOp op, ArrayRef<Value> indices,
                             Value last) {
  Location loc = op.getLoc();
  Type elementType = op.getMemRefType().getElementType();
  auto type = VectorType::get({width}, elementType);
  // One scalar load per lane; hardware gathers cost about as much, and have no
  // 16-bit form.
  Value result =
      arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type));
  for (int64_t lane = 0; lane < width; ++lane) {
    SmallVector<Value> position;
    for (Value index : indices) {
      if (isa<VectorType>(index.getType()))
        index = vector::ExtractOp::create(builder, loc, index, lane);
      position.push_back(index);
    }
    if (last)
      position.push_back(vector::ExtractOp::create(builder, loc, last, lane));
    Value element =
        memref::LoadOp::create(builder, loc, op.getMemRef(), position);
    result = vector::InsertOp::create(builder, loc, element, result, lane);
  }
  return result;
}

LogicalResult BodyVectorizer::emitLoad(memref::LoadOp op) {
  Location loc = op.getLoc();
  if (!lookup(op.getMemRef()).uniform)
    return op.emitOpError("expected the memref to be the same in every lane");
  SmallVector<Value> leading;
  bool leadingUniform = true;
  OperandRange indices = op.getIndices();
  for (Value index : indices.drop_back()) {
    Lane lane = lookup(index);
    leading.push_back(lane.uniform ? lane.uniform : asVector(index));
    leadingUniform &= static_cast<bool>(lane.uniform);
  }
  Value lastIndex = indices.back();
  Lane last = lookup(lastIndex);
  if (!leadingUniform || !last.base) {
    SmallVector<Value> all = leading;
    all.push_back(last.uniform ? last.uniform : asVector(lastIndex));
    lanes[op.getResult()].vector = gather(op, all, Value());
    return success();
  }
  auto contiguous = [&]() {
    SmallVector<Value> all = leading;
    all.push_back(last.base);
    return vectorLoad(op, all);
  };
  if (!last.lower && !last.upper) {
    lanes[op.getResult()].vector = contiguous();
    return success();
  }
  // Clamped: contiguous where the clamp does nothing.
  Value inside;
  auto both = [&](Value condition) {
    inside =
        inside
            ? arith::AndIOp::create(builder, loc, inside, condition).getResult()
            : condition;
  };
  if (last.upper) {
    Value span = arith::ConstantOp::create(
        builder, loc, builder.getIntegerAttr(last.base.getType(), width - 1));
    Value end = arith::AddIOp::create(builder, loc, last.base, span);
    both(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, end,
                               last.upper));
  }
  if (last.lower)
    both(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge,
                               last.base, last.lower));
  Value lastVector = asVector(lastIndex);
  auto type = VectorType::get({width}, op.getMemRefType().getElementType());
  // LLVM holds bf16 in f32 across blocks, and calls a function of libgcc's, of
  // version 13 and later, to narrow each element again.
  VectorType held = type;
  if (type.getElementType().isBF16())
    held = type.clone(builder.getI16Type());
  auto cast = [&](Value value, VectorType to) -> Value {
    return value.getType() == to
               ? value
               : vector::BitCastOp::create(builder, loc, to, value);
  };
  auto branch = scf::IfOp::create(builder, loc, TypeRange(held), inside,
                                  /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(builder, loc, cast(contiguous(), held));
    builder.setInsertionPointToStart(branch.elseBlock());
    Value gathered = gather(op, leading, lastVector);
    scf::YieldOp::create(builder, loc, cast(gathered, held));
  }
  lanes[op.getResult()].vector = cast(branch.getResult(0), type);
  return success();
}
