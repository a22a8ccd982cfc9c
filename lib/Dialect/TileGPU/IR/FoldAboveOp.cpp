//===- FoldAboveOp.cpp - Keys one by one ----------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RegisterTypes.h"
#include "attn/Analysis/OnChip.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"

using namespace mlir;
using namespace mlir::tile_gpu;

bool FoldAboveOp::passesThrough(unsigned state) {
  constexpr unsigned positions = 3;
  Block &body = getBody().front();
  return body.getTerminator()->getOperand(state) ==
         body.getArgument(positions + state);
}

LogicalResult FoldAboveOp::verify() {
  FragType scores = getScores().getType();
  if (!scores.getElementType().isF32() || scores.getLayout() != Layout::Acc ||
      scores.isHalf() || scores.getRows() % 16)
    return emitOpError("expected f32 accumulators of whole warps, but got ")
           << scores;
  if (scores.getCols() > ::attn::onchip::mostFolded || scores.getCols() % 8)
    return emitOpError("expected at most ")
           << ::attn::onchip::mostFolded << " columns, by eights, but got "
           << scores.getCols();
  SmallVector<Type> arguments(2, IntegerType::get(getContext(), 32)), yielded;
  arguments.push_back(scores.getElementType());
  int64_t kept = 0;
  if (getResultTypes() != getStates().getTypes())
    return emitOpError("expected results of the types of the states");
  Block &body = getBody().front();
  for (Type type : getStates().getTypes()) {
    auto vec = cast<VecType>(type);
    if (vec.getAxis() != Axis::Row || vec.getPartial() ||
        vec.getSize() != scores.getRows() ||
        vec.getScope() != scores.getScope() ||
        vec.getElementType().getIntOrFloatBitWidth() != 32)
      return emitOpError("expected states of 32 bits for each row, but got ")
             << vec;
    yielded.push_back(vec.getElementType());
  }
  llvm::append_range(arguments, yielded);
  if (failed(verifyArguments(*this, body, arguments)) ||
      failed(verifyYield(*this, body, yielded)))
    return failure();
  if (getThreshold() >= yielded.size() || !yielded[getThreshold()].isF32() ||
      passesThrough(getThreshold()))
    return emitOpError("expected the threshold to be a state of f32 that the "
                       "body changes");
  if (float factor = getFactor().convertToFloat(); !(factor > 0))
    return emitOpError("expected a factor above 0, but got ") << factor;
  for (unsigned i = 0; i < yielded.size(); ++i)
    kept += !passesThrough(i);
  SmemType scratch = getScratch().getType();
  int64_t columns = ::attn::onchip::foldColumns(scores.getCols(), kept);
  if (!scratch.getElementType().isF32() || scratch.getSwizzle() ||
      scratch.getRows() != scores.getRows() || scratch.getCols() != columns)
    return emitOpError("expected a scratch tile of ")
           << scores.getRows() << " x " << columns << " f32, but got "
           << scratch;
  return success();
}
