//===- UnfoldOp.cpp - attn.unfold -----------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/Attn.h"

using namespace mlir;
using namespace mlir::attn;

static int64_t rankOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getRank();
}

static unsigned countRows(ValueRange values) {
  return llvm::count_if(values, [](Value v) { return rankOf(v) == 3; });
}

unsigned UnfoldOp::getNumRowStates() { return countRows(getStates()); }
unsigned UnfoldOp::getNumRowOuts() { return countRows(getOuts()); }

/// Tensors of rows, [b, hq, sq], then of channels, [b, hq, sq, dv].
static LogicalResult verifyState(UnfoldOp op, StringRef name, TypeRange types) {
  bool hasChannels = false;
  for (auto [i, type] : llvm::enumerate(types)) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    int64_t rank = tensor ? tensor.getRank() : 0;
    if ((rank != 3 && rank != 4) || (rank == 3 && hasChannels))
      return op.emitOpError("expected ")
             << name << " to be tensors [b, hq, sq], then [b, hq, sq, dv], but "
             << "got " << type << " for number " << i;
    hasChannels |= rank == 4;
    if (rank == 4 && tensor.isDynamicDim(3))
      return op.emitOpError("expected ")
             << name << " to have a static number of channels, but got "
             << type;
  }
  return success();
}

LogicalResult UnfoldOp::verify() {
  if (getScores().empty() || getStates().empty())
    return emitOpError("expected scores and states");
  for (ValueRange values : {ValueRange(getScores()), ValueRange(getValues())})
    for (Value value : values)
      if (rankOf(value) != 4)
        return emitOpError("expected scores and values of rank 4, but got ")
               << value.getType();
  if (failed(verifyState(*this, "states", getStates().getTypes())) ||
      failed(verifyState(*this, "outs", getOuts().getTypes())))
    return failure();
  if (goesBack() && getBehind().getTypes() != getStates().getTypes())
    return emitOpError("expected behind to have the types of states");
  if (goesBack() == getBackRows().empty())
    return emitOpError("expected regions that go back together with behind");
  unsigned rows = getNumRowStates(), states = getStates().size();
  unsigned scores = getScores().size(), values = getValues().size();
  unsigned outs = getOuts().size(), rowOuts = getNumRowOuts();
  unsigned results = goesBack() ? scores + values + states : states;
  if (getNumResults() != results)
    return emitOpError("expected ")
           << results << " results, but got " << getNumResults();
  if (getOutputs().take_back(states).getTypes() != getStates().getTypes())
    return emitOpError("expected the last results to have the types of states");

  unsigned i32s = 1, params = getParams().size();
  struct Shape {
    Region &region;
    StringRef name;
    unsigned before, keys, behind, yields;
  };
  Shape shapes[] = {
      {getIdentity(), "identity", 0, 0, 0, states},
      {getStep(), "step", scores + values, i32s, states, states},
      {getBackRows(), "back_rows", scores, i32s, 2 * rows, scores + rows},
      {getBackChannels(), "back_channels", scores + values, i32s,
       states + states - rows, scores + values + states},
      {getFinishRows(), "finish_rows", 0, 0, rows + rowOuts, rows},
      {getFinishChannels(), "finish_channels", 0, 0, states + outs - rowOuts,
       states}};
  for (Shape &shape : shapes) {
    if (shape.region.empty())
      continue;
    SmallVector<Type> expected(shape.before, Float32Type::get(getContext()));
    expected.append(shape.keys, IntegerType::get(getContext(), 32));
    expected.append(shape.behind + params, Float32Type::get(getContext()));
    if (shape.region.getArgumentTypes() != TypeRange(expected))
      return emitOpError("expected ")
             << shape.name << " to take " << expected.size()
             << " arguments, f32 but for the key's position, but got "
             << shape.region.getNumArguments();
    auto yield = dyn_cast<YieldOp>(shape.region.front().back());
    if (!yield || yield.getNumOperands() != shape.yields ||
        llvm::any_of(yield.getOperandTypes(),
                     [](Type type) { return !type.isF32(); }))
      return emitOpError("expected ")
             << shape.name << " to yield " << shape.yields << " f32";
  }
  return success();
}
