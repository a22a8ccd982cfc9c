//===- HoistReciprocals.cpp - One division for each row -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A finalize that divides every element of a row by one number takes, on a GPU
// without a division unit, longer than the key tile before it. Where all that
// is made of the quotients is rounded to 16 bits, they are products with the
// row's reciprocal: of a divisor that may have any size (no `arcp`) with a
// power of two first, since the reciprocal of one below 2^-126 is an infinity,
// and that of one above 2^126 is 0.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#define DEBUG_TYPE "tile-gpu-hoist-reciprocals"

namespace attn {
#define GEN_PASS_DEF_TILEGPUHOISTRECIPROCALSPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

/// The row vector that `value`, an argument of the map, is an element of.
static Value rowVectorOf(MapOp map, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument || argument.getOwner() != &map.getBody().front() ||
      argument.getArgNumber() < 2)
    return {};
  Value input = map.getInputs()[argument.getArgNumber() - 2];
  auto type = dyn_cast<VecType>(input.getType());
  return type && type.getAxis() == Axis::Row && !type.getPartial() &&
                 type.getElementType().isF32()
             ? input
             : Value();
}

static bool isRoundedTo16Bits(MapOp map) {
  return llvm::all_of(map->getUsers(),
                      [](Operation *user) { return isa<FragConvertOp>(user); });
}

/// Appends a map on `row` whose body `emit` writes for a number, and gives the
/// arguments of `map` that its results become.
static SmallVector<Value>
addRowMap(MapOp map, Value row, unsigned numResults,
          function_ref<SmallVector<Value>(OpBuilder &, Value)> emit) {
  OpBuilder b(map);
  Location loc = map.getLoc();
  auto rows = MapOp::create(
      b, loc, SmallVector<Type>(numResults, row.getType()), ValueRange{row});
  {
    OpBuilder::InsertionGuard guard(b);
    Type i32 = b.getI32Type(), f32 = b.getF32Type();
    Block *body =
        b.createBlock(&rows.getBody(), {}, {i32, i32, f32}, {loc, loc, loc});
    YieldOp::create(b, loc, emit(b, body->getArgument(2)));
  }
  map.getInputsMutable().append(rows.getResults());
  SmallVector<Value> arguments;
  for (unsigned i = 0; i < numResults; ++i)
    arguments.push_back(map.getBody().front().addArgument(b.getF32Type(), loc));
  return arguments;
}

static Value constant(OpBuilder &b, Location loc, float number) {
  return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(number));
}

static Value reciprocal(OpBuilder &b, Location loc, Value x) {
  auto inverse = arith::DivFOp::create(b, loc, constant(b, loc, 1.0f), x);
  inverse.setFastmath(arith::FastMathFlags::arcp);
  return inverse;
}

/// What brings a divisor of any size to where it has a reciprocal: 2^100 for
/// one below 2^-64, 2^-100 for one above 2^64, and 1.
static Value rangeFactor(OpBuilder &b, Location loc, Value x) {
  auto isBeyond = [&](arith::CmpFPredicate predicate, float bound) -> Value {
    Value size = math::AbsFOp::create(b, loc, x);
    return arith::CmpFOp::create(b, loc, predicate, size,
                                 constant(b, loc, bound));
  };
  Value factor = arith::SelectOp::create(
      b, loc, isBeyond(arith::CmpFPredicate::OGT, 0x1p64f),
      constant(b, loc, 0x1p-100f), constant(b, loc, 1.0f));
  return arith::SelectOp::create(b, loc,
                                 isBeyond(arith::CmpFPredicate::OLT, 0x1p-64f),
                                 constant(b, loc, 0x1p100f), factor);
}

static void hoist(MapOp map) {
  if (map.getNumResults() == 0 || !isa<FragType>(map.getResultTypes()[0]) ||
      !isRoundedTo16Bits(map))
    return;
  for (auto div : llvm::make_early_inc_range(
           map.getBody().front().getOps<arith::DivFOp>())) {
    Value row = rowVectorOf(map, div.getRhs());
    if (!row)
      continue;
    Location loc = div.getLoc();
    bool isNear =
        bitEnumContainsAll(div.getFastmath(), arith::FastMathFlags::arcp);
    SmallVector<Value> factors =
        addRowMap(map, row, isNear ? 1 : 2, [&](OpBuilder &b, Value x) {
          if (isNear)
            return SmallVector<Value>{reciprocal(b, loc, x)};
          Value scale = rangeFactor(b, loc, x);
          Value scaled = arith::MulFOp::create(b, loc, x, scale);
          return SmallVector<Value>{scale, reciprocal(b, loc, scaled)};
        });
    OpBuilder b(div);
    Value quotient = div.getLhs();
    for (Value factor : factors)
      quotient = arith::MulFOp::create(b, loc, quotient, factor);
    div.replaceAllUsesWith(quotient);
    div.erase();
  }
}

namespace {
struct HoistReciprocalsPass
    : ::attn::impl::TileGpuHoistReciprocalsPassBase<HoistReciprocalsPass> {
  void runOnOperation() final {
    SmallVector<MapOp> maps;
    getOperation().walk([&](MapOp map) { maps.push_back(map); });
    for (MapOp map : maps)
      hoist(map);
  }
};
} // namespace
