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
// row's reciprocal.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

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

static void hoist(MapOp map) {
  if (map.getNumResults() == 0 || !isa<FragType>(map.getResultTypes()[0]) ||
      !isRoundedTo16Bits(map))
    return;
  for (auto div : llvm::make_early_inc_range(
           map.getBody().front().getOps<arith::DivFOp>())) {
    Value row = rowVectorOf(map, div.getRhs());
    if (!row)
      continue;
    OpBuilder b(map);
    Location loc = div.getLoc();
    auto inverse =
        MapOp::create(b, loc, TypeRange{row.getType()}, ValueRange{row});
    {
      OpBuilder::InsertionGuard guard(b);
      Type i32 = b.getI32Type(), f32 = b.getF32Type();
      Block *body = b.createBlock(&inverse.getBody(), {}, {i32, i32, f32},
                                  {loc, loc, loc});
      Value one = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(1.0f));
      auto x = arith::DivFOp::create(b, loc, one, body->getArgument(2));
      x.setFastmath(arith::FastMathFlags::arcp);
      YieldOp::create(b, loc, x.getResult());
    }
    map.getInputsMutable().append(inverse.getResult(0));
    Value factor = map.getBody().front().addArgument(b.getF32Type(), loc);
    b.setInsertionPoint(div);
    Value product = arith::MulFOp::create(b, loc, div.getLhs(), factor);
    div.replaceAllUsesWith(product);
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
