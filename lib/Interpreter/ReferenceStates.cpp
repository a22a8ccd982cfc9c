//===- ReferenceStates.cpp - States as values -----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// attn.combine and attn.finalize, on states in tensors.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

using namespace mlir;
using namespace mlir::attn;
using ::attn::Algebra;
using ::attn::ReferenceValue;
using ::attn::Scalar;
using ::attn::Scalars;
using ::attn::detail::Evaluator;
using ::attn::detail::Row;

namespace {
/// States [rows..., (channels)] of a monoid, read by row and channel.
struct StateReader {
  StateReader(const Algebra &algebra,
              const std::vector<const ReferenceValue *> &states)
      : algebra(algebra), states(states) {
    for (unsigned i = 0; i < states.size(); ++i)
      if (isValue(i))
        channels = states[i]->shape.back();
    rows = states[0]->shape;
    if (isValue(0))
      rows.pop_back();
    for (int64_t extent : rows)
      numRows *= extent;
  }
  bool isValue(unsigned i) const {
    return i >= algebra.numStats && algebra.isValue[i - algebra.numStats];
  }
  Scalars read(int64_t row, int64_t channel) const {
    Scalars state;
    for (auto [i, value] : llvm::enumerate(states)) {
      bool wide = isValue(i);
      if (wide && channel >= channels)
        state.push_back(Scalar::ofFloat(0.0));
      else
        state.push_back(Scalar::ofFloat(
            value->data[wide ? row * channels + channel : row]));
    }
    return state;
  }
  LogicalResult verify(Operation *op) const {
    for (auto [i, value] : llvm::enumerate(states)) {
      std::vector<int64_t> want = rows;
      if (isValue(i))
        want.push_back(channels);
      if (value->shape != want)
        return op->emitOpError("expected states over the same rows");
    }
    return success();
  }

  const Algebra &algebra;
  std::vector<const ReferenceValue *> states;
  std::vector<int64_t> rows;
  int64_t numRows = 1, channels = 0;
};
} // namespace

LogicalResult Evaluator::evaluateCombine(CombineOp op) {
  FailureOr<MonoidOp> monoid = getMonoid(op);
  if (failed(monoid))
    return failure();
  FailureOr<Algebra> algebra = getAlgebra(*monoid, op.getParams());
  if (failed(algebra))
    return failure();
  algebra->precision = precision;
  StateReader reader(*algebra, getAll(op.getStates()));
  if (failed(reader.verify(op)))
    return failure();
  int64_t parts = reader.rows.front();
  int64_t numRows = parts ? reader.numRows / parts : 0;
  std::vector<ReferenceValue *> outputs;
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    std::vector<int64_t> shape = reader.states[i]->shape;
    shape.erase(shape.begin());
    outputs.push_back(&define(result, shape));
  }
  for (int64_t row = 0; row < numRows; ++row)
    for (int64_t d = 0; d < std::max<int64_t>(reader.channels, 1); ++d) {
      Scalars product = algebra->emptyState();
      for (int64_t part = 0; part < parts; ++part)
        product =
            algebra->multiply(product, reader.read(part * numRows + row, d));
      for (auto [i, output] : llvm::enumerate(outputs)) {
        if (!reader.isValue(i))
          output->data[row] = product[i].f;
        else if (d < reader.channels)
          output->data[row * reader.channels + d] = product[i].f;
      }
    }
  return success();
}

LogicalResult Evaluator::evaluateFinalize(FinalizeOp op) {
  FailureOr<MonoidOp> monoid = getMonoid(op);
  if (failed(monoid))
    return failure();
  FailureOr<Algebra> algebra = getAlgebra(*monoid, op.getParams());
  FailureOr<Finalize> finalize =
      getFinalize(op.getFinalize(), *monoid, op.getParams(), op.getCaptures());
  if (failed(algebra) || failed(finalize))
    return failure();
  StateReader reader(*algebra, getAll(op.getStates()));
  if (failed(reader.verify(op)))
    return failure();
  SmallVector<bool> perChannel =
      op.getFinalize().empty()
          ? getPerChannelOutputs(*monoid)
          : getPerChannelOutputs(op.getFinalize(), monoid->getNumStats(),
                                 monoid->getComponents());
  std::vector<ReferenceValue *> outputs;
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    std::vector<int64_t> shape = reader.rows;
    if (perChannel[i])
      shape.push_back(reader.channels);
    outputs.push_back(&define(result, shape));
  }
  // Rows are [b, h, i] or, packed, [h, i].
  size_t rank = reader.rows.size();
  int64_t length = rank >= 1 ? reader.rows[rank - 1] : 1;
  int64_t heads = rank >= 2 ? reader.rows[rank - 2] : 1;
  Scalars results;
  for (int64_t index = 0; index < reader.numRows; ++index) {
    Row row{index / (length * heads), index / length % heads, index % length};
    for (int64_t d = 0; d < std::max<int64_t>(reader.channels, 1); ++d) {
      (*finalize)(reader.read(index, d), row, results);
      for (auto [i, output] : llvm::enumerate(outputs)) {
        if (!perChannel[i])
          output->data[index] = rounded(results[i].f);
        else if (d < reader.channels)
          output->data[index * reader.channels + d] = rounded(results[i].f);
      }
    }
  }
  return success();
}
