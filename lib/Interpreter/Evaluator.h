//===- Evaluator.h - Evaluates functions on attn operations -----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to evaluateReference. Operations become Reductions here: what a
// score, a mask, a sink is. Reference.cpp has the reductions and what else a
// function holds, ReferenceAttention.cpp named attention, and
// ReferenceStates.cpp states as values.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_INTERPRETER_EVALUATOR_H
#define ATTN_LIB_INTERPRETER_EVALUATOR_H

#include "MaskTiles.h"
#include "RowReduction.h"
#include "Scans.h"
#include "attn/Interpreter/Reference.h"

#include <memory>

namespace attn::detail {

/// Evaluates one function.
class Evaluator {
public:
  Evaluator(const ReferenceOptions &options)
      : options(options),
        precision(options.rounding == ReferenceOptions::Rounding::Exact
                      ? Precision::F64
                      : Precision::F32) {}

  llvm::FailureOr<std::vector<ReferenceValue>>
  run(mlir::func::FuncOp function, llvm::ArrayRef<ReferenceValue> arguments);

private:
  /// From a state of one channel to its outputs.
  using Finalize =
      std::function<void(llvm::ArrayRef<Scalar>, const Row &, Scalars &)>;

  FunctionValues allValues();
  llvm::LogicalResult evaluate(mlir::Operation &op);
  llvm::LogicalResult evaluateFolded(mlir::Operation &op);
  llvm::LogicalResult evaluateAttention(mlir::attn::AttentionOp op);
  llvm::LogicalResult evaluateCombine(mlir::attn::CombineOp op);
  llvm::LogicalResult evaluateFinalize(mlir::attn::FinalizeOp op);
  llvm::LogicalResult evaluateAggregate(mlir::attn::AggregateOp op);
  llvm::LogicalResult evaluatePartial(mlir::attn::PartialOp op);
  llvm::LogicalResult evaluateScores(mlir::attn::ScoresOp op);
  llvm::LogicalResult evaluateDiagonals(mlir::attn::ScoresOp op,
                                        RowReducer &reducer,
                                        const Reduction &reduction,
                                        int64_t numKeys);
  llvm::LogicalResult evaluateFused(mlir::attn::FusedOp op);

  const ReferenceValue *get(mlir::Value value) {
    return value ? values.lookup(value).get() : nullptr;
  }
  std::vector<const ReferenceValue *> getAll(mlir::ValueRange range) {
    std::vector<const ReferenceValue *> all;
    for (mlir::Value value : range)
      all.push_back(get(value));
    return all;
  }
  RowSource bind(const mlir::attn::Source &source) {
    return {source.kind, get(source.map), get(source.lengths)};
  }
  double rounded(double value) const {
    return roundTo(value, options.rounding);
  }

  llvm::FailureOr<mlir::attn::MonoidOp> getMonoid(mlir::Operation *op);
  llvm::FailureOr<Algebra> getAlgebra(mlir::attn::MonoidOp monoid,
                                      mlir::ValueRange params);
  llvm::LogicalResult checkShapes(mlir::Operation *op,
                                  const Reduction &reduction);
  /// Scores, masks and the left factor of an aggregate or a partial.
  template <typename OpT>
  llvm::LogicalResult getReduction(OpT op, Reduction &reduction);
  /// The op's own region; where it is empty the monoid's.
  llvm::FailureOr<Finalize>
  getFinalize(mlir::Region &region, mlir::attn::MonoidOp monoid,
              mlir::ValueRange params, mlir::ValueRange captures,
              const ReferenceValue *rowBase = nullptr);
  void reduceRows(mlir::Operation *op, RowReducer &reducer,
                  const Reduction &reduction, const Finalize &finalize,
                  llvm::ArrayRef<bool> perChannel);
  void forEachRow(const Reduction &reduction,
                  llvm::function_ref<void(const Row &, int64_t index)> body);
  /// Makes the results of an op, filled with zeros.
  ReferenceValue &define(mlir::Value result, std::vector<int64_t> shape);

  const ReferenceOptions &options;
  int64_t numReductions = 0;
  Precision precision;
  llvm::DenseMap<mlir::Value, std::shared_ptr<ReferenceValue>> values;
};

/// A row as regions see it.
inline Scalars rowScalars(const Row &row,
                          const ReferenceValue *base = nullptr) {
  return {Scalar::ofInt(row.batch), Scalar::ofInt(row.head),
          Scalar::ofInt(row.position + baseOf(base, row.batch))};
}

} // namespace attn::detail

#endif // ATTN_LIB_INTERPRETER_EVALUATOR_H
