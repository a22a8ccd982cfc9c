//===- TileToVector.cpp - Lower tile kernels to vector loops --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// convert-tile-to-vector: the structure of a kernel and its buffers. How tiles
// are laid out is said in KernelLowering.h.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/Tile/IR/WorkTiles.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace attn {
#define GEN_PASS_DEF_CONVERTTILETOVECTOR
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

#define DEBUG_TYPE "convert-tile-to-vector"

using namespace mlir;
using namespace mlir::tile;

/// Scratch slices start on cache lines.
static constexpr int64_t scratchAlignment = 64;

KernelLowering::KernelLowering(KernelOp kernel,
                               const ::attn::TargetInfo &target)
    : kernel(kernel), target(target), builder(kernel.getContext()),
      lanes(target.lanes()),
      panelVectors(target.numVectorRegisters >= 32 ? 4 : 2) {}

//===----------------------------------------------------------------------===//
// Small helpers
//===----------------------------------------------------------------------===//

Value KernelLowering::index(int64_t value) {
  return constant(builder.getIndexAttr(value));
}

Value KernelLowering::constant(Attribute value) {
  // Once per kernel, at its top.
  Value &cached = constants[value];
  if (!cached) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&kernel.front());
    cached = arith::ConstantOp::create(builder, kernel.getLoc(),
                                       cast<TypedAttr>(value));
  }
  return cached;
}

Value KernelLowering::zero(Type type) {
  return constant(builder.getZeroAttr(type));
}

Value KernelLowering::splat(Value scalar, int64_t width) {
  return vector::BroadcastOp::create(builder, scalar.getLoc(),
                                     vec(width, scalar.getType()), scalar);
}

void KernelLowering::loop(Value upper, int64_t step, Location loc,
                          function_ref<void(Value)> body) {
  auto forOp = scf::ForOp::create(builder, loc, index(0), upper, index(step));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(forOp.getBody());
  body(forOp.getInductionVar());
}

SmallVector<Value> KernelLowering::carry(
    int64_t upper, ValueRange initial, Location loc,
    function_ref<SmallVector<Value>(Value, ArrayRef<Value>)> body) {
  auto forOp = scf::ForOp::create(builder, loc, index(0), index(upper),
                                  index(1), initial);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(forOp.getBody());
  SmallVector<Value> carried(forOp.getRegionIterArgs());
  SmallVector<Value> next = body(forOp.getInductionVar(), carried);
  // What the body refuses, its caller reports.
  scf::YieldOp::create(builder, loc,
                       next.size() == carried.size() ? next : carried);
  return forOp.getResults();
}

void KernelLowering::loop(int64_t upper, int64_t step, Location loc,
                          function_ref<void(Value)> body) {
  if (upper <= step)
    return body(index(0));
  loop(index(upper), step, loc, body);
}

Value KernelLowering::loadVector(Value memref, ValueRange indices,
                                 int64_t width) {
  Type elementType = cast<MemRefType>(memref.getType()).getElementType();
  return vector::LoadOp::create(builder, memref.getLoc(),
                                vec(width, elementType), memref, indices);
}

void KernelLowering::storeVector(Value vector, Value memref,
                                 ValueRange indices) {
  vector::StoreOp::create(builder, memref.getLoc(), vector, memref, indices);
}

Value KernelLowering::toFloat(Value vector, Type elementType) {
  Type from = getElementTypeOrSelf(vector.getType());
  if (from == elementType)
    return vector;
  Type to = elementType;
  if (auto type = dyn_cast<VectorType>(vector.getType()))
    to = type.clone(elementType);
  if (from.getIntOrFloatBitWidth() < elementType.getIntOrFloatBitWidth())
    return arith::ExtFOp::create(builder, vector.getLoc(), to, vector);
  if (from.getIntOrFloatBitWidth() > elementType.getIntOrFloatBitWidth())
    return arith::TruncFOp::create(builder, vector.getLoc(), to, vector);
  // f16 <-> bf16 go through f32.
  return toFloat(toFloat(vector, builder.getF32Type()), elementType);
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

Type KernelLowering::storageType(Type elementType) {
  return elementType.isSignlessInteger(1) ? builder.getI8Type() : elementType;
}

Value KernelLowering::allocateFlat(int64_t count, Type elementType) {
  int64_t bytes = count * ((elementType.getIntOrFloatBitWidth() + 7) / 8);
  int64_t offset = scratchBytes;
  scratchBytes += llvm::alignTo(bytes, scratchAlignment);
  // At the top of the kernel, so that one view serves every use.
  OpBuilder::InsertionGuard guard(builder);
  Value position = index(offset);
  builder.setInsertionPointAfter(anchor);
  auto type = MemRefType::get({count}, elementType);
  return memref::ViewOp::create(builder, kernel.getLoc(), type, scratch,
                                position, ValueRange());
}

Value KernelLowering::allocate(TileType type) {
  Type elementType = storageType(type.getElementType());
  if (type.isRowVector())
    // Whole vectors may be written at the end of a row vector.
    return allocateFlat(llvm::alignTo(type.getRows(), 16), elementType);
  int64_t count = type.getNumElements();
  int64_t bytes = count * ((elementType.getIntOrFloatBitWidth() + 7) / 8);
  int64_t offset = scratchBytes;
  scratchBytes += llvm::alignTo(bytes, scratchAlignment);
  OpBuilder::InsertionGuard guard(builder);
  Value position = index(offset);
  builder.setInsertionPointAfter(anchor);
  auto memrefType =
      MemRefType::get({type.getRows(), type.getCols()}, elementType);
  return memref::ViewOp::create(builder, kernel.getLoc(), memrefType, scratch,
                                position, ValueRange());
}

bool KernelLowering::diesAt(Value value, Operation *op) {
  // Replaced loops and branches are no longer where they were.
  Block *home = homes.lookup(value);
  if (!home)
    home = value.getParentBlock();
  // Results of tile.rows and loops may share storage with the operands that
  // they update; the storage is read through either name, so ask for each
  // value that has this buffer.
  Value storage = buffer(value);
  for (auto &[other, memref] : buffers) {
    if (memref != storage)
      continue;
    for (Operation *user : other.getUsers()) {
      if (user == op)
        continue;
      // The body of a loop that starts with it reads it in each turn.
      if (other == value && op->isProperAncestor(user))
        return false;
      // Walk out from `op`, comparing with the user's ancestor in each block.
      for (Operation *at = op; at; at = at->getParentOp()) {
        Block *block = at->getBlock();
        if (Operation *ancestor = block->findAncestorOpInBlock(*user)) {
          if (ancestor != at && at->isBeforeInBlock(ancestor))
            return false;
          break;
        }
        if (isa<KernelOp>(at))
          break;
      }
    }
  }
  // Defined outside of a loop around `op`: read again in the next iteration.
  for (Operation *at = op; at->getBlock() != home; at = at->getParentOp())
    if (isa<scf::ForOp, RowsOp>(at->getParentOp()))
      return false;
  return true;
}

Value KernelLowering::resultBuffer(Value result, ValueRange candidates,
                                   Operation *op) {
  auto type = cast<TileType>(result.getType());
  for (Value candidate : candidates) {
    if (!candidate || candidate.getType() != type || !buffer(candidate))
      continue;
    bool taken = llvm::any_of(op->getResults(), [&](Value other) {
      return other != result && buffers.lookup(other) == buffer(candidate);
    });
    if (taken || !diesAt(candidate, op))
      continue;
    // Memory is written by stores alone.
    auto load = candidate.getDefiningOp<LoadOp>();
    if (load && readsInPlace(load)) {
      StoreOp store = findUpdate(result, load);
      if (!store)
        continue;
      alreadyLowered.insert(store);
    }
    return buffers[result] = buffer(candidate);
  }
  return buffers[result] = allocate(type);
}

void KernelLowering::copy(Value from, Value to, TileType type, Location loc) {
  if (from == to)
    return;
  if (type.isRowVector()) {
    int64_t width = std::gcd(type.getRows(), lanes);
    loop(type.getRows(), width, loc,
         [&](Value r) { storeVector(loadVector(from, r, width), to, r); });
    return;
  }
  loop(type.getRows(), 1, loc, [&](Value r) {
    int64_t width = std::gcd(type.getCols(), lanes);
    loop(type.getCols(), width, loc, [&](Value c) {
      storeVector(loadVector(from, {r, c}, width), to, {r, c});
    });
  });
}

void KernelLowering::copyAll(ArrayRef<Value> values, ArrayRef<Value> to,
                             Location loc) {
  SmallVector<Value> from =
      llvm::map_to_vector(values, [&](Value value) { return buffer(value); });
  for (size_t i = 0; i < values.size(); ++i) {
    auto type = cast<TileType>(values[i].getType());
    // What a later copy reads from here moves out of the way first.
    Value aside;
    for (size_t j = i + 1; j < values.size() && from[i] != to[i]; ++j) {
      if (from[j] != to[i])
        continue;
      if (!aside) {
        aside = allocate(type);
        copy(to[i], aside, type, loc);
      }
      from[j] = aside;
    }
    copy(from[i], to[i], type, loc);
  }
}

SmallVector<Layout> KernelLowering::layoutsNeeded(Value value) {
  SmallVector<Layout> layouts;
  for (OpOperand &use : value.getUses()) {
    Layout layout = Layout::RowMajor;
    if (auto dot = dyn_cast<DotOp>(use.getOwner()))
      if (use.get() == dot.getRhs() && use.getOperandNumber() == 1)
        layout = rhsLayout(dot);
    if (!llvm::is_contained(layouts, layout))
      layouts.push_back(layout);
  }
  return layouts;
}

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

static bool isTile(Value value) { return isa<TileType>(value.getType()); }

LogicalResult KernelLowering::lowerBlock(Block &block) {
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  for (Operation *op : ops) {
    builder.setInsertionPoint(op);
    if (failed(lowerOp(op)))
      return failure();
    // Where it is computed, so that all dots see it.
    if (isa<MapOp, DotOp, ReduceOp, ScanOp, SolveOp>(op)) {
      builder.setInsertionPoint(op);
      for (Value result : op->getResults())
        packComputed(result);
    }
  }
  return success();
}

/// Takes the tile ops of a block out of the kernel. They are kept aside until
/// the end: later questions about who shares a buffer still look at them.
void KernelLowering::removeTileOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block))
    if (isa<TileDialect>(op.getDialect()) && !isa<YieldOp, ReturnOp>(op))
      op.moveBefore(graveyard, graveyard->end());
}

LogicalResult KernelLowering::lowerOp(Operation *op) {
  if (alreadyLowered.contains(op))
    return success();
  // A right operand of a dot exists in packed form only.
  for (OpOperand &operand : op->getOpOperands())
    if (isTile(operand.get()) && !buffer(operand.get()) &&
        !(isa<DotOp>(op) && operand.getOperandNumber() == 1))
      return op->emitOpError("expected operand ")
             << operand.getOperandNumber() << " to be stored in rows";
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](SourceOp) { return success(); }) // its loads ask it
      .Case([&](LoadOp load) { return lowerLoad(load); })
      .Case([&](StoreOp store) { return lowerStore(store); })
      .Case([&](AccumulateOp sum) { return lowerAccumulate(sum); })
      .Case([&](FillOp fill) { return lowerFill(fill); })
      .Case([&](DotOp dot) { return lowerDot(dot); })
      .Case([&](MapOp map) {
        ReduceOp fused = fusableReduce(map);
        if (fused)
          alreadyLowered.insert(fused);
        return lowerMap(map, fused);
      })
      .Case([&](ReduceOp reduce) { return lowerReduce(reduce); })
      .Case([&](ScanOp scan) { return lowerScan(scan); })
      .Case([&](SolveOp solve) { return lowerSolve(solve); })
      .Case([&](FoldOp fold) { return lowerFold(fold); })
      .Case([&](AnyOp any) { return lowerAny(any); })
      .Case([&](RowsOp rows) { return lowerRows(rows); })
      .Case([&](scf::ForOp loop) { return lowerFor(loop); })
      .Case([&](scf::IfOp branch) { return lowerIf(branch); })
      .Default([&](Operation *other) -> LogicalResult {
        if (llvm::any_of(other->getOperands(), isTile) ||
            llvm::any_of(other->getResults(), isTile))
          return other->emitOpError("expected tiles to be used by tile ops, "
                                    "scf.for and scf.if only");
        WalkResult nested = other->walk([](Operation *inner) {
          return isa<TileDialect>(inner->getDialect()) ? WalkResult::interrupt()
                                                       : WalkResult::advance();
        });
        if (nested.wasInterrupted())
          return other->emitOpError("expected tile ops in scf.for and scf.if "
                                    "only");
        return success();
      });
}

LogicalResult KernelLowering::lowerFor(scf::ForOp loop) {
  Location loc = loop.getLoc();
  SmallVector<Value> keptInits;
  SmallVector<unsigned> kept;
  for (auto [i, init] : llvm::enumerate(loop.getInitArgs())) {
    if (!isTile(init)) {
      keptInits.push_back(init);
      kept.push_back(i);
      continue;
    }
    auto type = cast<TileType>(init.getType());
    Value storage = buffer(init);
    // The loop updates the state in place; a state that is read after the
    // loop under its old name, or that starts two states, is copied first.
    bool shared = false;
    for (auto [j, other] : llvm::enumerate(loop.getInitArgs()))
      shared |= j < i && isTile(other) && buffer(other) == storage;
    if (shared || !diesAt(init, loop)) {
      Value fresh = allocate(type);
      copy(storage, fresh, type, loc);
      storage = fresh;
    }
    buffers[loop.getRegionIterArg(i)] = storage;
  }
  // What several products have on the right is packed once in each turn.
  builder.setInsertionPointToStart(loop.getBody());
  for (Value carried : loop.getRegionIterArgs()) {
    int64_t numDots = 0;
    for (OpOperand &use : carried.getUses()) {
      auto dot = dyn_cast<DotOp>(use.getOwner());
      numDots += dot && use.getOperandNumber() == 1 &&
                 rhsLayout(dot) == Layout::Panels;
    }
    if (isTile(carried) && numDots > 1)
      packComputed(carried);
  }
  if (failed(lowerBlock(*loop.getBody())))
    return failure();
  if (kept.size() == loop.getInitArgs().size()) {
    removeTileOps(*loop.getBody());
    return success();
  }
  for (auto [i, result] : llvm::enumerate(loop.getResults()))
    if (isTile(result)) {
      // By value: growing the map moves what buffers[] refers to.
      buffers[result] = buffer(loop.getRegionIterArg(i));
      homes[result] = loop->getBlock();
    }
  auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
  builder.setInsertionPoint(yield);
  SmallVector<Value> keptYields, tiles, storages;
  for (auto [i, value] : llvm::enumerate(yield.getOperands())) {
    if (isTile(value)) {
      tiles.push_back(value);
      storages.push_back(buffers[loop.getRegionIterArg(i)]);
    } else {
      keptYields.push_back(value);
    }
  }
  copyAll(tiles, storages, loc);
  scf::YieldOp::create(builder, loc, keptYields);
  yield.erase();
  removeTileOps(*loop.getBody());

  builder.setInsertionPoint(loop);
  auto stripped =
      scf::ForOp::create(builder, loc, loop.getLowerBound(),
                         loop.getUpperBound(), loop.getStep(), keptInits);
  Block *body = stripped.getBody();
  if (!body->empty())
    body->back().erase();
  loop.getInductionVar().replaceAllUsesWith(stripped.getInductionVar());
  for (auto [to, from] : llvm::enumerate(kept)) {
    loop.getRegionIterArg(from).replaceAllUsesWith(
        stripped.getRegionIterArg(to));
    loop.getResult(from).replaceAllUsesWith(stripped.getResult(to));
  }
  body->getOperations().splice(body->end(), loop.getBody()->getOperations());
  loop->moveBefore(graveyard, graveyard->end());
  return success();
}

LogicalResult KernelLowering::lowerIf(scf::IfOp branch) {
  Location loc = branch.getLoc();
  bool hasTiles = llvm::any_of(branch.getResults(), isTile);
  for (Region &region : branch->getRegions())
    if (!region.empty() && failed(lowerBlock(region.front())))
      return failure();
  if (!hasTiles) {
    for (Region &region : branch->getRegions())
      if (!region.empty())
        removeTileOps(region.front());
    return success();
  }
  // Both sides end in one place: that of the side that passes a state on, so
  // that the other one has updated it in place.
  auto elseYield = cast<scf::YieldOp>(branch.elseBlock()->getTerminator());
  SmallVector<Type> keptTypes;
  SmallVector<unsigned> kept;
  for (auto [i, result] : llvm::enumerate(branch.getResults())) {
    if (isTile(result)) {
      buffers[result] = buffer(elseYield.getOperand(i));
      homes[result] = branch->getBlock();
    } else {
      kept.push_back(i);
      keptTypes.push_back(result.getType());
    }
  }
  for (Region &region : branch->getRegions()) {
    auto yield = cast<scf::YieldOp>(region.front().getTerminator());
    builder.setInsertionPoint(yield);
    SmallVector<Value> keptYields, tiles, storages;
    for (auto [i, value] : llvm::enumerate(yield.getOperands())) {
      if (isTile(value)) {
        tiles.push_back(value);
        storages.push_back(buffer(branch.getResult(i)));
      } else {
        keptYields.push_back(value);
      }
    }
    copyAll(tiles, storages, loc);
    scf::YieldOp::create(builder, loc, keptYields);
    yield.erase();
    removeTileOps(region.front());
  }
  builder.setInsertionPoint(branch);
  auto stripped =
      scf::IfOp::create(builder, loc, keptTypes, branch.getCondition(),
                        /*withElseRegion=*/false);
  stripped.getThenRegion().takeBody(branch.getThenRegion());
  stripped.getElseRegion().takeBody(branch.getElseRegion());
  for (auto [to, from] : llvm::enumerate(kept))
    branch.getResult(from).replaceAllUsesWith(stripped.getResult(to));
  branch->moveBefore(graveyard, graveyard->end());
  return success();
}

LogicalResult KernelLowering::lowerRows(RowsOp op) {
  Location loc = op.getLoc();
  int64_t block = op.getBlock();
  Block &body = op.getBody().front();
  auto firstType = cast<TileType>(
      (op.getOuts().empty() ? op.getInputs() : op.getOuts())[0].getType());
  int64_t rows = firstType.getRows();

  for (auto [out, result] : llvm::zip(op.getOuts(), op.getResults())) {
    Value storage = resultBuffer(result, out, op);
    copy(buffer(out), storage, cast<TileType>(out.getType()), loc);
  }
  Value upper = index(rows);
  if (op.getExtent())
    upper = arith::MinSIOp::create(builder, loc, upper, op.getExtent());
  auto forOp = scf::ForOp::create(builder, loc, index(0), upper, index(block));
  builder.setInsertionPointToStart(forOp.getBody());
  Value row = forOp.getInductionVar();

  auto slice = [&](Value storage, TileType type) -> Value {
    SmallVector<OpFoldResult> offsets = {row}, sizes, strides;
    if (type.isRowVector()) {
      sizes = {builder.getIndexAttr(block)};
      strides = {builder.getIndexAttr(1)};
    } else {
      offsets.push_back(builder.getIndexAttr(0));
      sizes = {builder.getIndexAttr(block),
               builder.getIndexAttr(type.getCols())};
      strides = {builder.getIndexAttr(1), builder.getIndexAttr(1)};
    }
    return memref::SubViewOp::create(builder, loc, storage, offsets, sizes,
                                     strides);
  };
  unsigned numInputs = op.getInputs().size();
  for (auto [i, input] : llvm::enumerate(op.getInputs()))
    buffers[body.getArgument(1 + i)] =
        slice(buffer(input), cast<TileType>(input.getType()));
  SmallVector<Value> outSlices;
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    outSlices.push_back(
        slice(buffer(result), cast<TileType>(result.getType())));
    buffers[body.getArgument(1 + numInputs + i)] = outSlices.back();
  }
  body.getArgument(0).replaceAllUsesWith(row);
  if (failed(lowerBlock(body)))
    return failure();
  auto yield = cast<YieldOp>(body.getTerminator());
  builder.setInsertionPoint(yield);
  copyAll(llvm::to_vector(yield.getValues()), outSlices, loc);
  // Everything but the tile ops moves into the loop, in order.
  removeTileOps(body);
  yield.erase();
  Block *target = forOp.getBody();
  target->getOperations().splice(target->getTerminator()->getIterator(),
                                 body.getOperations());
  return success();
}

LogicalResult KernelLowering::run() {
  Location loc = kernel.getLoc();
  if (!kernel.getBody().hasOneBlock())
    return kernel.emitOpError("expected a tile kernel of one block");
  WalkResult columns = kernel.walk([](Operation *op) {
    for (Type type : op->getResultTypes())
      if (auto tileType = dyn_cast<TileType>(type))
        if (!tileType.isRowVector() && tileType.getCols() % 16) {
          op->emitOpError("expected tiles of 1 column or a multiple of 16 "
                          "columns on the CPU, but got ")
              << tileType.getCols();
          return WalkResult::interrupt();
        }
    return WalkResult::advance();
  });
  if (columns.wasInterrupted())
    return failure();
  // The size is known last: the argument's type is set at the end.
  auto scratchType =
      MemRefType::get({ShapedType::kDynamic}, builder.getI8Type());
  unsigned scratchIndex = kernel.getNumArguments();
  if (failed(kernel.insertArgument(scratchIndex, scratchType, {}, loc)))
    return failure();
  scratch = kernel.getArgument(scratchIndex);

  // Constants go in front of it, views of the scratch behind it.
  builder.setInsertionPointToStart(&kernel.front());
  anchor = arith::ConstantIndexOp::create(builder, loc, 0);

  // Stripped loops and branches are kept here until all uses are gone.
  Region limbo;
  Block *block = new Block;
  limbo.push_back(block);
  graveyard = block;

  LogicalResult result = lowerBlock(kernel.front());
  if (succeeded(result)) {
    if (amxConfigured) {
      builder.setInsertionPoint(kernel.front().getTerminator());
      releaseAmx();
    }
    removeTileOps(kernel.front());
  }
  buffers.clear();
  packedBuffers.clear();
  block->walk([](Operation *op) { op->dropAllUses(); });
  block->dropAllReferences();
  if (failed(result))
    return failure();

  auto sized = MemRefType::get({std::max<int64_t>(scratchBytes, 64)},
                               builder.getI8Type());
  scratch.setType(sized);
  SmallVector<Type> inputs(kernel.getArgumentTypes());
  inputs[scratchIndex] = sized;
  kernel.setFunctionType(
      builder.getFunctionType(inputs, kernel.getResultTypes()));
  kernel.setScratchBytes(sized.getDimSize(0));
  return success();
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct ConvertTileToVector
    : ::attn::impl::ConvertTileToVectorBase<ConvertTileToVector> {
  using ConvertTileToVectorBase::ConvertTileToVectorBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto info = ::attn::getCpuTarget(module, target);
    if (!info)
      return signalPassFailure();
    for (auto kernel : module.getOps<KernelOp>())
      if (!kernel.isExternal() && !kernel.getScratchBytes()) {
        kernel.walk([](DotOp dot) { expandRamp(dot); });
        kernel.walk([](WorkTileOp work) { expandWorkTile(work); });
        if (failed(KernelLowering(kernel, *info).run()))
          return signalPassFailure();
      }
  }
};
} // namespace
