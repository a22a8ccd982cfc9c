//===- TileToVector.cpp - Lower tile kernels to vector loops --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// convert-tile-to-vector: the structure of a kernel. How tiles
// are laid out is said in VectorContext.h.
//
//===----------------------------------------------------------------------===//

#include "VectorContext.h"
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

static LogicalResult lowerOp(VectorContext &ctx, Operation *op);
static LogicalResult lowerFor(VectorContext &ctx, scf::ForOp loop);
static LogicalResult lowerIf(VectorContext &ctx, scf::IfOp branch);
static LogicalResult lowerRows(VectorContext &ctx, RowsOp op);

SmallVector<Layout> mlir::tile::layoutsNeeded(VectorContext &ctx, Value value) {
  SmallVector<Layout> layouts;
  for (OpOperand &use : value.getUses()) {
    Layout layout = Layout::RowMajor;
    if (auto dot = dyn_cast<DotOp>(use.getOwner())) {
      if (use.get() == dot.getRhs() && use.getOperandNumber() == 1)
        layout = rhsLayout(ctx, dot);
      else if (use.getOperandNumber() == 0 && turnsPairs(ctx, dot))
        layout = Layout::PairsTransposed;
    }
    // A product that scales it reads the same pairs as others.
    if (auto map = dyn_cast<MapOp>(use.getOwner()))
      if (use.getOperandNumber() == 0 &&
          cast<TileType>(value.getType()).getElementType().isBF16() &&
          scaledByProduct(ctx, map).first == value)
        layout = Layout::Pairs;
    if (!llvm::is_contained(layouts, layout))
      layouts.push_back(layout);
  }
  return layouts;
}

static SmallVector<Layout> layoutsOnRight(VectorContext &ctx, Value value) {
  SmallVector<Layout> layouts;
  for (OpOperand &use : value.getUses())
    if (auto dot = dyn_cast<DotOp>(use.getOwner()))
      if (use.getOperandNumber() == 1)
        layouts.push_back(rhsLayout(ctx, dot));
  return layouts;
}

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

static bool isTile(Value value) { return isa<TileType>(value.getType()); }

static LogicalResult lowerBlock(VectorContext &ctx, Block &block) {
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  for (Operation *op : ops) {
    ctx.builder.setInsertionPoint(op);
    if (failed(lowerOp(ctx, op)))
      return failure();
    // Where it is computed, so that all dots see it.
    if (isa<MapOp, DotOp, ReduceOp, ScanOp, SolveOp>(op)) {
      ctx.builder.setInsertionPoint(op);
      for (Value result : op->getResults())
        packComputed(ctx, result);
    }
  }
  // Without a product behind it in the block nothing is asked for.
  ctx.ahead.clear();
  return success();
}

/// Takes the tile ops of a block out of the kernel. They are kept aside until
/// the end: later questions about who shares a buffer still look at them.
static void removeTileOps(VectorContext &ctx, Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block))
    if (isa<TileDialect>(op.getDialect()) && !isa<YieldOp, ReturnOp>(op))
      op.moveBefore(ctx.graveyard, ctx.graveyard->end());
}

static LogicalResult lowerOp(VectorContext &ctx, Operation *op) {
  if (ctx.alreadyLowered.contains(op))
    return success();
  if (auto map = dyn_cast<MapOp>(op))
    if (scaledByProduct(ctx, map).first || isSummedOnly(ctx, map))
      return success();
  if (auto sum = findWrittenSum(ctx, op))
    return op == sum->store ? lowerWrittenSum(ctx, *sum) : success();
  if (auto reduce = dyn_cast<ReduceOp>(op))
    if (lowerPrefixSums(ctx, reduce))
      return success();
  if (auto scan = dyn_cast<ScanOp>(op)) {
    FailureOr<bool> isLowered = lowerPrefixScan(ctx, scan);
    if (failed(isLowered) || *isLowered)
      return isLowered;
  }
  // A right operand of a dot exists in packed form only.
  for (OpOperand &operand : op->getOpOperands())
    if (isTile(operand.get()) && !ctx.buffer(operand.get()) &&
        !(isa<DotOp>(op) && operand.getOperandNumber() == 1) &&
        !(operand.getOperandNumber() == 0 && isa<DotOp>(op) &&
          turnsPairs(ctx, cast<DotOp>(op))))
      return op->emitOpError("expected operand ")
             << operand.getOperandNumber() << " to be stored in rows";
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](SourceOp) { return success(); }) // its loads ask it
      .Case([&](LoadOp load) { return lowerLoad(ctx, load); })
      .Case([&](PrefetchOp ahead) {
        ctx.ahead.push_back(ahead);
        return success();
      })
      .Case([&](StoreOp store) { return lowerStore(ctx, store); })
      .Case([&](AccumulateOp sum) { return lowerAccumulate(ctx, sum); })
      .Case([&](FillOp fill) { return lowerFill(ctx, fill); })
      .Case([&](DotOp dot) { return lowerDot(ctx, dot); })
      .Case([&](MapOp map) {
        if (packRounded(ctx, map))
          return success();
        ReduceOp fused = fusableReduce(ctx, map);
        if (fused)
          ctx.alreadyLowered.insert(fused);
        return lowerMap(ctx, map, fused);
      })
      .Case([&](ReduceOp reduce) { return lowerReduce(ctx, reduce); })
      .Case([&](ScanOp scan) { return lowerScan(ctx, scan); })
      .Case([&](SolveOp solve) { return lowerSolve(ctx, solve); })
      .Case([&](FoldOp fold) { return lowerFold(ctx, fold); })
      .Case([&](AnyOp any) { return lowerAny(ctx, any); })
      .Case([&](RowsOp rows) { return lowerRows(ctx, rows); })
      .Case([&](scf::ForOp loop) { return lowerFor(ctx, loop); })
      .Case([&](scf::IfOp branch) { return lowerIf(ctx, branch); })
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

static LogicalResult lowerFor(VectorContext &ctx, scf::ForOp loop) {
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
    Value storage = ctx.buffer(init);
    // The loop updates the state in place; a state that is read after the
    // loop under its old name, or that starts two states, is copied first.
    bool shared = false;
    for (auto [j, other] : llvm::enumerate(loop.getInitArgs()))
      shared |= j < i && isTile(other) && ctx.buffer(other) == storage;
    // A product reads it as rows, which lie apart then.
    bool onRight = llvm::is_contained(
        layoutsOnRight(ctx, loop.getRegionIterArg(i)), Layout::RowMajor);
    if (shared || onRight || !ctx.diesAt(init, loop)) {
      Value fresh = onRight ? ctx.allocateApart(type) : ctx.allocate(type);
      ctx.copy(storage, fresh, type, loc);
      storage = fresh;
    }
    ctx.buffers[loop.getRegionIterArg(i)] = storage;
  }
  if (failed(lowerBlock(ctx, *loop.getBody())))
    return failure();
  if (kept.size() == loop.getInitArgs().size()) {
    removeTileOps(ctx, *loop.getBody());
    return success();
  }
  for (auto [i, result] : llvm::enumerate(loop.getResults()))
    if (isTile(result)) {
      // By value: growing the map moves what buffers[] refers to.
      ctx.buffers[result] = ctx.buffer(loop.getRegionIterArg(i));
      ctx.homes[result] = loop->getBlock();
    }
  auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
  ctx.builder.setInsertionPoint(yield);
  SmallVector<Value> keptYields, tiles, storages;
  for (auto [i, value] : llvm::enumerate(yield.getOperands())) {
    if (isTile(value)) {
      tiles.push_back(value);
      storages.push_back(ctx.buffers[loop.getRegionIterArg(i)]);
    } else {
      keptYields.push_back(value);
    }
  }
  ctx.copyAll(tiles, storages, loc);
  scf::YieldOp::create(ctx.builder, loc, keptYields);
  yield.erase();
  removeTileOps(ctx, *loop.getBody());

  ctx.builder.setInsertionPoint(loop);
  auto stripped =
      scf::ForOp::create(ctx.builder, loc, loop.getLowerBound(),
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
  loop->moveBefore(ctx.graveyard, ctx.graveyard->end());
  return success();
}

static LogicalResult lowerIf(VectorContext &ctx, scf::IfOp branch) {
  Location loc = branch.getLoc();
  bool hasTiles = llvm::any_of(branch.getResults(), isTile);
  for (Region &region : branch->getRegions())
    if (!region.empty() && failed(lowerBlock(ctx, region.front())))
      return failure();
  if (!hasTiles) {
    for (Region &region : branch->getRegions())
      if (!region.empty())
        removeTileOps(ctx, region.front());
    return success();
  }
  // Both sides end in one place: that of the side that passes a state on, so
  // that the other one has updated it in place.
  auto elseYield = cast<scf::YieldOp>(branch.elseBlock()->getTerminator());
  SmallVector<Type> keptTypes;
  SmallVector<unsigned> kept;
  for (auto [i, result] : llvm::enumerate(branch.getResults())) {
    if (isTile(result)) {
      ctx.buffers[result] = ctx.buffer(elseYield.getOperand(i));
      ctx.homes[result] = branch->getBlock();
    } else {
      kept.push_back(i);
      keptTypes.push_back(result.getType());
    }
  }
  for (Region &region : branch->getRegions()) {
    auto yield = cast<scf::YieldOp>(region.front().getTerminator());
    ctx.builder.setInsertionPoint(yield);
    SmallVector<Value> keptYields, tiles, storages;
    for (auto [i, value] : llvm::enumerate(yield.getOperands())) {
      if (isTile(value)) {
        tiles.push_back(value);
        storages.push_back(ctx.buffer(branch.getResult(i)));
      } else {
        keptYields.push_back(value);
      }
    }
    ctx.copyAll(tiles, storages, loc);
    scf::YieldOp::create(ctx.builder, loc, keptYields);
    yield.erase();
    removeTileOps(ctx, region.front());
  }
  ctx.builder.setInsertionPoint(branch);
  auto stripped =
      scf::IfOp::create(ctx.builder, loc, keptTypes, branch.getCondition(),
                        /*withElseRegion=*/false);
  stripped.getThenRegion().takeBody(branch.getThenRegion());
  stripped.getElseRegion().takeBody(branch.getElseRegion());
  for (auto [to, from] : llvm::enumerate(kept))
    branch.getResult(from).replaceAllUsesWith(stripped.getResult(to));
  branch->moveBefore(ctx.graveyard, ctx.graveyard->end());
  return success();
}

static LogicalResult lowerRows(VectorContext &ctx, RowsOp op) {
  Location loc = op.getLoc();
  int64_t block = op.getBlock();
  Block &body = op.getBody().front();
  auto firstType = cast<TileType>(
      (op.getOuts().empty() ? op.getInputs() : op.getOuts())[0].getType());
  int64_t rows = firstType.getRows();

  for (auto [out, result] : llvm::zip(op.getOuts(), op.getResults())) {
    Value storage = ctx.resultBuffer(result, out, op);
    ctx.copy(ctx.buffer(out), storage, cast<TileType>(out.getType()), loc);
  }
  Value upper = ctx.index(rows);
  if (op.getExtent())
    upper = arith::MinSIOp::create(ctx.builder, loc, upper, op.getExtent());
  auto forOp = scf::ForOp::create(ctx.builder, loc, ctx.index(0), upper,
                                  ctx.index(block));
  ctx.builder.setInsertionPointToStart(forOp.getBody());
  Value row = forOp.getInductionVar();

  auto slice = [&](Value storage, TileType type) -> Value {
    SmallVector<OpFoldResult> offsets = {row}, sizes, strides;
    if (type.isRowVector()) {
      sizes = {ctx.builder.getIndexAttr(block)};
      strides = {ctx.builder.getIndexAttr(1)};
    } else {
      offsets.push_back(ctx.builder.getIndexAttr(0));
      sizes = {ctx.builder.getIndexAttr(block),
               ctx.builder.getIndexAttr(type.getCols())};
      strides = {ctx.builder.getIndexAttr(1), ctx.builder.getIndexAttr(1)};
    }
    return memref::SubViewOp::create(ctx.builder, loc, storage, offsets, sizes,
                                     strides);
  };
  unsigned numInputs = op.getInputs().size();
  for (auto [i, input] : llvm::enumerate(op.getInputs()))
    ctx.buffers[body.getArgument(1 + i)] =
        slice(ctx.buffer(input), cast<TileType>(input.getType()));
  SmallVector<Value> outSlices;
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    outSlices.push_back(
        slice(ctx.buffer(result), cast<TileType>(result.getType())));
    ctx.buffers[body.getArgument(1 + numInputs + i)] = outSlices.back();
  }
  body.getArgument(0).replaceAllUsesWith(row);
  if (failed(lowerBlock(ctx, body)))
    return failure();
  auto yield = cast<YieldOp>(body.getTerminator());
  ctx.builder.setInsertionPoint(yield);
  ctx.copyAll(llvm::to_vector(yield.getValues()), outSlices, loc);
  // Everything but the tile ops moves into the loop, in order.
  removeTileOps(ctx, body);
  yield.erase();
  Block *target = forOp.getBody();
  target->getOperations().splice(target->getTerminator()->getIterator(),
                                 body.getOperations());
  return success();
}

/// Lowers the whole kernel.
static LogicalResult lowerKernel(KernelOp kernel,
                                 const ::attn::TargetInfo &target) {
  VectorContext ctx(kernel, target);
  Location loc = ctx.kernel.getLoc();
  if (!ctx.kernel.getBody().hasOneBlock())
    return ctx.kernel.emitOpError("expected a tile kernel of one block");
  WalkResult columns = ctx.kernel.walk([](Operation *op) {
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
      MemRefType::get({ShapedType::kDynamic}, ctx.builder.getI8Type());
  unsigned scratchIndex = ctx.kernel.getNumArguments();
  if (failed(ctx.kernel.insertArgument(scratchIndex, scratchType, {}, loc)))
    return failure();
  ctx.scratch = ctx.kernel.getArgument(scratchIndex);

  // Constants go in front of it, views of the scratch behind it.
  ctx.builder.setInsertionPointToStart(&ctx.kernel.front());
  ctx.anchor = arith::ConstantIndexOp::create(ctx.builder, loc, 0);

  // Stripped loops and branches are kept here until all uses are gone.
  Region limbo;
  Block *block = new Block;
  limbo.push_back(block);
  ctx.graveyard = block;

  LogicalResult result = lowerBlock(ctx, ctx.kernel.front());
  if (succeeded(result)) {
    if (ctx.amxConfigured) {
      ctx.builder.setInsertionPoint(ctx.kernel.front().getTerminator());
      releaseAmx(ctx);
    }
    removeTileOps(ctx, ctx.kernel.front());
  }
  ctx.buffers.clear();
  ctx.packedBuffers.clear();
  block->walk([](Operation *op) { op->dropAllUses(); });
  block->dropAllReferences();
  if (failed(result))
    return failure();

  auto sized = MemRefType::get({std::max<int64_t>(ctx.scratchBytes, 64)},
                               ctx.builder.getI8Type());
  ctx.scratch.setType(sized);
  SmallVector<Type> inputs(ctx.kernel.getArgumentTypes());
  inputs[scratchIndex] = sized;
  ctx.kernel.setFunctionType(
      ctx.builder.getFunctionType(inputs, ctx.kernel.getResultTypes()));
  ctx.kernel.setScratchBytes(sized.getDimSize(0));
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
        if (failed(lowerKernel(kernel, *info)))
          return signalPassFailure();
      }
  }
};
} // namespace
