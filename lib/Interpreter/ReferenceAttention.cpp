//===- ReferenceAttention.cpp - Attention by its definition ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Named options are evaluated by their definition and not through attn-to-
// aggregate, so that the pass can be checked against them.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"
#include "attn/Support/Philox.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;
using ::attn::Algebra;
using ::attn::ReferenceValue;
using ::attn::Scalar;
using ::attn::Scalars;
using ::attn::detail::baseOf;
using ::attn::detail::BoundRegion;
using ::attn::detail::Evaluator;
using ::attn::detail::Reduction;
using ::attn::detail::Row;
using ::attn::detail::RowReducer;
using ::attn::detail::rowScalars;

/// An element of a tensor that broadcasts to `position` by its trailing
/// dimensions and those of size 1.
static double readBroadcast(const ReferenceValue &tensor,
                            ArrayRef<int64_t> position) {
  position = position.take_back(tensor.shape.size());
  int64_t at = 0;
  for (auto [extent, index] : llvm::zip(tensor.shape, position))
    at = at * extent + std::clamp<int64_t>(extent == 1 ? 0 : index, 0,
                                           std::max<int64_t>(extent - 1, 0));
  return tensor.data.empty() ? 0.0 : tensor.data[at];
}

LogicalResult Evaluator::evaluateAttention(AttentionOp op) {
  if (options.maskTiles)
    return op.emitOpError("expected the mask of an attn.aggregate, which the "
                          "phase 'aggregate' makes");
  Reduction reduction;
  reduction.queries = {get(op.getQuery())};
  reduction.keys = {get(op.getKey())};
  reduction.values = getAll(op.getValue());
  reduction.querySource = bind(op.getQuerySource());
  reduction.keySource = bind(op.getKeySource());
  FailureOr<MonoidOp> monoid = getMonoid(op);
  if (failed(monoid) || failed(checkShapes(op, reduction)))
    return failure();
  FailureOr<Algebra> algebra = getAlgebra(*monoid, op.getParams());
  Region none; // the monoid's own outputs
  FailureOr<Finalize> finalize = getFinalize(none, *monoid, op.getParams(), {});
  if (failed(algebra) || failed(finalize))
    return failure();

  std::vector<const ReferenceValue *> captures = getAll(op.getCaptures());
  std::optional<BoundRegion> scoreRegion, maskRegion;
  for (auto [region, into] : {std::pair(&op.getScore(), &scoreRegion),
                              {&op.getMask(), &maskRegion}}) {
    if (region->empty())
      continue;
    FailureOr<BoundRegion> bound = BoundRegion::compile(*region, captures);
    if (failed(bound))
      return failure();
    *into = std::move(*bound);
  }

  auto scalarOr = [&](Value value, double otherwise) {
    return value ? get(value)->data[0] : otherwise;
  };
  int64_t depth = reduction.queries[0]->shape.back();
  double scale = scalarOr(op.getScale(), rounded(1.0 / std::sqrt(depth)));
  double softcap = scalarOr(op.getSoftcap(), 0.0);
  bool hasLeft = bool(op.getWindowLeft()), hasRight = bool(op.getWindowRight());
  double left = scalarOr(op.getWindowLeft(), -1.0);
  double right = scalarOr(op.getWindowRight(), -1.0);
  const ReferenceValue *bias = get(op.getBias()), *alibi = get(op.getAlibi());
  const ReferenceValue *mask = get(op.getMaskTensor());
  const ReferenceValue *sinks = get(op.getSinks());
  Causal causal = op.getCausal();

  // The position of a key, and the one that is "now" for a row.
  const ReferenceValue *start = get(op.getKStart());
  auto position = [&](const Row &row, int64_t key) {
    return key + baseOf(start, row.batch);
  };
  auto diagonal = [&](const Row &row, bool topLeft) {
    return topLeft
               ? row.position
               : row.position + position(row, reduction.numKeys(row.batch)) -
                     reduction.numRows(row.batch);
  };
  if (op.getRotary()) {
    bool isTopLeft = causal == Causal::top_left;
    auto first = [&](int64_t batch) {
      return op.getRotateBySlot() ? 0 : baseOf(start, batch);
    };
    auto ofQuery = [&](int64_t batch, int64_t i) {
      return isTopLeft ? i
                       : i + first(batch) + reduction.numKeys(batch) -
                             reduction.numRows(batch);
    };
    auto ofKey = [&](int64_t batch, int64_t j) { return j + first(batch); };
    if (failed(::attn::detail::turnOperands(
            {op.getRotaryAttr(), ofQuery, ofKey, precision, options},
            op.getRotate(), op.getRotate(), getAll(op.getTables()), reduction)))
      return failure();
  }
  reduction.score = [&](ArrayRef<double> dots, const Row &row, int64_t key,
                        SmallVectorImpl<double> &scores) {
    double s = roundedScore(dots[0] * scale);
    if (op.getSoftcap() && !std::isinf(softcap)) // an infinite cap is none
      s = roundedScore(softcap *
                       roundedScore(std::tanh(roundedScore(s / softcap))));
    if (scoreRegion) {
      Scalars arguments = {Scalar::ofFloat(s)}, results;
      llvm::append_range(arguments, rowScalars(row));
      arguments.push_back(Scalar::ofInt(position(row, key)));
      scoreRegion->evaluate(arguments, results, precision);
      s = roundedScore(results[0].f);
    }
    if (bias)
      s = roundedScore(
          s + readBroadcast(*bias, {row.batch, row.head, row.position, key}));
    if (alibi) {
      double slope = readBroadcast(*alibi, {row.batch, row.head});
      double distance = std::abs(diagonal(row, false) - position(row, key));
      s = roundedScore(s - roundedScore(slope * distance));
    }
    scores.push_back(s);
  };
  reduction.isLive = [&](const Row &row, int64_t key) {
    double now = diagonal(row, causal == Causal::top_left);
    double at = position(row, key);
    if (causal != Causal::none && at > now)
      return false;
    if (hasLeft && left >= 0 && now - at > left)
      return false;
    if (hasRight && right >= 0 && at - now > right)
      return false;
    if (mask &&
        readBroadcast(*mask, {row.batch, row.head, row.position, key}) == 0.0)
      return false;
    if (!maskRegion)
      return true;
    Scalars arguments = rowScalars(row), results;
    arguments.push_back(Scalar::ofInt(position(row, key)));
    maskRegion->evaluate(arguments, results, precision);
    return results[0].i != 0;
  };

  if (op.getDropout()) {
    auto word = [&](unsigned i) {
      return uint64_t(uint32_t(int64_t(get(op.getDropoutRng()[i])->data[0])));
    };
    ::attn::support::Dropout dropout{float(get(op.getDropout())->data[0]),
                                     word(0) | word(1) << 32,
                                     word(2) | word(3) << 32};
    reduction.factor = [dropout](const Row &row, int64_t key) {
      return dropout.factor(row.batch, row.head, row.position, key);
    };
  }
  RowReducer reducer(std::move(*algebra), reduction, options);
  if (sinks)
    reduction.init = [&](const Row &row) {
      // A key with the sink as its score and without a value.
      const Algebra &algebra = reducer.algebra;
      Scalars state = algebra.lift(readBroadcast(*sinks, {row.head}), {}, 0);
      for (unsigned i = 0; i < algebra.numComponents; ++i)
        if (algebra.isValue[i])
          state[algebra.numStats + i] = Scalar::ofFloat(0.0);
      return state;
    };
  reduceRows(op, reducer, reduction, *finalize, getPerChannelOutputs(*monoid));
  return success();
}
