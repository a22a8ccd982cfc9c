//===- PlanScans.cpp - Scans and their launches in a plan -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"
#include "TileScan.h"
#include "TileScanStep.h"
#include "TileScanTokens.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::attn;

/// A block for each state of each sequence or, behind packed ones, of rows of
/// none; and for each of its segments, whose summaries
/// are computed first, or of its turns, whose numbers are cleared first.
void PlanBuilder::launchScan(ScanOp op, ValueRange outputs, Value sequences,
                             Value blocks, Value heads) {
  Location loc = op.getLoc();
  int64_t segments = op.getSegments().value_or(1);
  SmallVector<Value> memory;
  enum class Stage { summarize, clear, walk };
  auto launch = [&](ValueRange results, Value parts, Stage stage) {
    Kernel kernel = startKernel(op, op->getOperands(), results, memory, {});
    ScanKernel builder(op, target, kernel.func);
    ScanStepKernel step(op, target, kernel.func);
    for (auto [i, operand] : llvm::enumerate(kernel.operands)) {
      builder.bind(operand, kernel.func.getArgument(i));
      step.bind(operand, kernel.func.getArgument(i));
    }
    if (stage == Stage::summarize)
      builder.summarize(kernel.extra, kernel.block);
    else if (stage == Stage::clear)
      builder.clearTurns(kernel.extra, kernel.block);
    else if (ScanStepKernel::handles(op))
      step.build(kernel.outputs, kernel.block);
    else
      builder.build(kernel.outputs, kernel.block, kernel.extra);
    Value grid = arith::MulIOp::create(
        b, loc, stage == Stage::walk ? blocks : sequences, heads);
    if (parts)
      grid = arith::MulIOp::create(b, loc, grid, parts);
    tile::LaunchOp::create(b, loc, kernel.func.getName(), grid,
                           kernel.launchArguments);
  };
  if (segments > 1) {
    for (MemRefType type : ScanKernel::getSummaryTypes(op))
      memory.push_back(tile::WorkspaceOp::create(b, loc, type,
                                                 ValueRange{sequences, heads}));
    launch({}, index(segments - 1, loc), Stage::summarize);
  }
  Value turns;
  if (ScanKernel::takesTurns(op)) {
    for (MemRefType type : ScanKernel::getTurnTypes(op, target))
      memory.push_back(tile::WorkspaceOp::create(b, loc, type,
                                                 ValueRange{sequences, heads}));
    launch({}, Value(), Stage::clear);
    turns = ScanKernel::countTurns(
        b, loc, memref::DimOp::create(b, loc, mapping.lookup(op.getQuery()), 2),
        arith::MulIOp::create(b, loc, sequences, heads));
  }
  launch(outputs, segments > 1 ? index(segments, loc) : turns, Stage::walk);
}

/// The same on a GPU: blocks share a state by its channels.
void PlanBuilder::launchScanTokens(ScanOp op, ValueRange outputs, Value blocks,
                                   Value heads) {
  Location loc = op.getLoc();
  auto launch = [&](bool ofSums, int64_t tiles) {
    Kernel kernel = startKernel(op, op->getOperands(), outputs, {}, {});
    ScanTokensKernel builder(op, target, kernel.func, ofSums);
    for (auto [i, operand] : llvm::enumerate(kernel.operands))
      builder.bind(operand, kernel.func.getArgument(i));
    builder.build(kernel.outputs, kernel.block);
    Value grid = arith::MulIOp::create(b, loc, blocks, heads);
    if (tiles > 1)
      grid = arith::MulIOp::create(b, loc, grid, index(tiles, loc));
    tile::LaunchOp::create(b, loc, kernel.func.getName(), grid,
                           kernel.launchArguments);
  };
  bool inPlace = !op.getPool().empty();
  bool keepsSums = inPlace && op.getNumStates() > 1;
  for (unsigned i = 2; i < outputs.size(); ++i)
    keepsSums |= outputs[i] != nullptr;
  if (inPlace || outputs.front() || (outputs.size() > 1 && outputs[1]))
    launch(/*ofSums=*/false, ScanTokensKernel::countTiles(op));
  // What blocks share is written when all have read it.
  if (keepsSums)
    launch(/*ofSums=*/true, 1);
}

LogicalResult PlanBuilder::convertScan(ScanOp op) {
  Location loc = op.getLoc();
  if (!target.isCpu() && failed(ScanTokensKernel::check(op)))
    return failure();
  Source source = sourceOf(op);
  int64_t headDim = source.headDim();
  auto dim = [&](Value tensor, int64_t d) -> Value {
    return memref::DimOp::create(b, loc, mapping.lookup(tensor), d);
  };
  auto larger = [&](Value x, Value y) -> Value {
    return arith::MaxUIOp::create(b, loc, x, y);
  };
  Value heads = larger(dim(op.getKey(), headDim), dim(op.getValue(), headDim));
  if (op.getQueryStates())
    heads = larger(heads, dim(op.getQuery(), headDim));
  // The rows behind packed sequences have a block, but no state.
  Value blocks = dim(countsSequences(source, op.getKey()), 0);
  Value sequences = blocks;
  if (op.isPacked())
    sequences = arith::SubIOp::create(b, loc, blocks, index(1, loc));
  SmallVector<Value> outputs;
  for (OpResult result : op->getResults())
    outputs.push_back(makeOutput(
        result,
        [&]() -> SmallVector<Value> {
          if (result.getResultNumber() > 0)
            return {sequences, heads};
          SmallVector<Value> sizes = {
              sequences, larger(dim(op.getQuery(), headDim), heads),
              dim(op.getQuery(), source.rowDim())};
          sizes.erase(sizes.begin(), sizes.end() - source.rowDim() - 1);
          return sizes;
        },
        /*storeAll=*/false));
  if (target.isCpu())
    launchScan(op, outputs, sequences, blocks, heads);
  else
    launchScanTokens(op, outputs, blocks, heads);
  return success();
}
