//===- TileToTileGPU.cpp - Tile ops to fragments in registers -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// convert-tile-to-tile-gpu: the structure of a role, and what loops and
// branches carry. How tiles are held is said in ComputeLowering.h.
//
//===----------------------------------------------------------------------===//

#include "ComputeLowering.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

namespace attn {
#define GEN_PASS_DEF_CONVERTTILETOTILEGPU
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

static bool isTile(Value value) { return isa<tile::TileType>(value.getType()); }

Type ComputeLowering::registerType(tile::TileType type, Operation *op,
                                   Layout layout) {
  int64_t rows = type.getRows(), cols = type.getCols();
  Type element = type.getElementType();
  MLIRContext *context = b.getContext();
  // The verifiers of the types say what a member of this scope can hold.
  auto emitError = [&] { return op->emitOpError(); };
  if (isTurned(type)) {
    if (cols == 1)
      return VecType::getChecked(emitError, context, rows, element, Axis::Col,
                                 scope, false);
    return FragType::getChecked(emitError, context, cols, rows, element, layout,
                                scope);
  }
  if (cols == 1)
    return VecType::getChecked(emitError, context, rows, element, Axis::Row,
                               scope, false);
  if (rows == 1)
    return VecType::getChecked(emitError, context, cols, element, Axis::Col,
                               scope, false);
  return FragType::getChecked(emitError, context, rows, cols, element, layout,
                              scope);
}

LogicalResult ComputeLowering::run() {
  if (failed(lowerBlock(role.getBody().front())))
    return failure();
  for (Operation *op : llvm::reverse(dead))
    op->erase();
  return success();
}

LogicalResult ComputeLowering::lowerBlock(Block &block) {
  // What comes next is asked for behind: it may have moved ahead.
  for (Operation *op = &block.front(); op; op = op->getNextNode()) {
    b.setInsertionPoint(op);
    if (failed(lowerOp(op)))
      return failure();
  }
  return success();
}

LogicalResult ComputeLowering::lowerOp(Operation *op) {
  LogicalResult result =
      TypeSwitch<Operation *, LogicalResult>(op)
          .Case(
              [&](UnrealizedConversionCastOp cast) { return lowerCast(cast); })
          .Case([&](tile::LoadOp load) { return lowerLoad(load); })
          .Case([&](tile::StoreOp store) { return lowerStore(store); })
          .Case([&](tile::AccumulateOp sum) { return lowerAccumulate(sum); })
          .Case([&](tile::StoreBitsOp store) { return lowerStoreBits(store); })
          .Case([&](tile::PrefetchOp ahead) { return lowerPrefetch(ahead); })
          .Case([&](tile::FillOp fill) { return lowerFill(fill); })
          .Case([&](tile::DotOp dot) { return lowerDot(dot); })
          .Case([&](tile::MapOp map) { return lowerMap(map); })
          .Case([&](tile::TurnOp turn) { return lowerTurn(turn); })
          .Case([&](tile::ReduceOp reduce) { return lowerReduce(reduce); })
          .Case([&](tile::ScanOp scan) { return lowerScan(scan); })
          .Case([&](tile::FoldOp fold) { return lowerFold(fold); })
          .Case([&](tile::AnyOp any) { return lowerAny(any); })
          .Case([&](tile::TruthsOp truths) { return lowerTruths(truths); })
          .Case([&](tile::PadOp pad) { return lowerPad(pad); })
          .Case([&](scf::ForOp loop) { return lowerFor(loop); })
          .Case([&](scf::IfOp branch) { return lowerIf(branch); })
          .Case([&](ForeachOp loop) { return lowerForeach(loop); })
          .Default([&](Operation *other) { return lowerOther(other); });
  if (succeeded(result) && isa<tile::TileDialect>(op->getDialect()))
    dead.push_back(op);
  return result;
}

LogicalResult ComputeLowering::lowerCast(UnrealizedConversionCastOp op) {
  if (op.getNumOperands() != 1 || op.getNumResults() != 1)
    return lowerOther(op);
  Value from = op.getOperand(0), to = op.getResult(0);
  if (isTile(to)) {
    set(to, from);
    dead.push_back(op);
    return success();
  }
  if (!isTile(from))
    return success();
  if (get(from).getType() != to.getType())
    return op.emitOpError("expected a cast to ")
           << get(from).getType() << ", which holds the tile, but got "
           << to.getType();
  to.replaceAllUsesWith(get(from));
  dead.push_back(op);
  return success();
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

LogicalResult ComputeLowering::carry(Value value, Operation *op) {
  auto type = dyn_cast<tile::TileType>(value.getType());
  if (!type)
    return success();
  Type held = registerType(type, op);
  if (!held)
    return failure();
  carried[value] = type;
  value.setType(held);
  return success();
}

/// Puts what stands for them in place of tile operands.
static void replaceOperands(Operation *op, function_ref<Value(Value)> get) {
  for (OpOperand &operand : op->getOpOperands())
    operand.set(get(operand.get()));
}

LogicalResult ComputeLowering::lowerFor(scf::ForOp op) {
  replaceOperands(op, [&](Value v) { return get(v); });
  for (auto [argument, result] :
       llvm::zip(op.getRegionIterArgs(), op.getResults()))
    if (failed(carry(argument, op)) || failed(carry(result, op)))
      return failure();
  if (failed(lowerBlock(*op.getBody())))
    return failure();
  return success();
}

LogicalResult ComputeLowering::lowerIf(scf::IfOp op) {
  for (Value result : op.getResults())
    if (failed(carry(result, op)))
      return failure();
  for (Region &region : op->getRegions())
    if (!region.empty() && failed(lowerBlock(region.front())))
      return failure();
  return success();
}

LogicalResult ComputeLowering::lowerForeach(ForeachOp op) {
  replaceOperands(op, [&](Value v) { return get(v); });
  for (Value argument : op.getBody().getArguments())
    if (failed(carry(argument, op)))
      return failure();
  for (Value result : op.getResults())
    if (failed(carry(result, op)))
      return failure();
  return lowerBlock(op.getBody().front());
}

LogicalResult ComputeLowering::lowerOther(Operation *op) {
  bool ends = isa<scf::YieldOp, YieldOp>(op);
  if (ends)
    replaceOperands(op, [&](Value v) { return get(v); });
  if (!ends && (llvm::any_of(op->getOperands(), isTile) ||
                llvm::any_of(op->getResults(), isTile)))
    return op->emitOpError("expected tiles in tile ops of one member's rows, "
                           "scf.for, scf.if and tile_gpu.foreach only");
  // A carried value must be what the loop's type says.
  if (ends)
    for (auto [value, result] :
         llvm::zip_first(op->getOperands(), op->getParentOp()->getResults()))
      if (value.getType() != result.getType())
        return op->emitOpError("expected to yield ")
               << result.getType() << ", but got " << value.getType();
  return success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct TileToTileGPU
    : public ::attn::impl::ConvertTileToTileGPUBase<TileToTileGPU> {
  void runOnOperation() override {
    KernelOp kernel = getOperation();
    for (RoleOp role : kernel.getOps<RoleOp>()) {
      // A warpgroup's products take ramps in.
      if (role.getScope() == Scope::Warp)
        role.walk([](tile::DotOp dot) { tile::expandRamp(dot); });
      if (failed(ComputeLowering(role).run()))
        return signalPassFailure();
    }
    // What lies outside of roles runs on every thread alike.
    WalkResult left = kernel.walk([](Operation *op) {
      if (!isa<tile::TileDialect>(op->getDialect()))
        return WalkResult::advance();
      op->emitOpError("expected tile ops inside of a tile_gpu.role");
      return WalkResult::interrupt();
    });
    if (left.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
