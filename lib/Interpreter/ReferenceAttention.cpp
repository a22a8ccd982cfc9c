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
using ::attn::Precision;
using ::attn::ReferenceOptions;
using ::attn::ReferenceValue;
using ::attn::Scalar;
using ::attn::Scalars;
using ::attn::detail::baseOf;
using ::attn::detail::BoundRegion;
using ::attn::detail::Evaluator;
using ::attn::detail::Reduction;
using ::attn::detail::roundScore;
using ::attn::detail::roundTo;
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

namespace {

/// The score of a query and a key, and whether the one sees the other, by what
/// the op's options say.
class AttentionScores {
public:
  using Get = llvm::function_ref<const ReferenceValue *(Value)>;
  AttentionScores(AttentionOp op, const Reduction &reduction,
                  const ReferenceOptions &options, Precision precision,
                  Get get);
  /// Makes programs of the op's regions.
  LogicalResult compile(ArrayRef<const ReferenceValue *> captures);
  /// Turns queries and keys as rotary embedding does.
  LogicalResult turn(ArrayRef<const ReferenceValue *> tables,
                     Reduction &reduction);
  double score(double dot, const Row &row, int64_t key);
  bool isLive(const Row &row, int64_t key);

private:
  /// The position of a key, and the one that is "now" for a row.
  int64_t position(const Row &row, int64_t key) const {
    return key + baseOf(start, row.batch);
  }
  int64_t diagonal(const Row &row, bool topLeft) const {
    return topLeft
               ? row.position
               : row.position + position(row, reduction.numKeys(row.batch)) -
                     reduction.numRows(row.batch);
  }
  double rounded(double value) const { return roundScore(value, options); }

  AttentionOp op;
  const Reduction &reduction;
  const ReferenceOptions &options;
  Precision precision;
  double scale, softcap, left, right;
  const ReferenceValue *start, *bias, *alibi, *mask;
  std::optional<BoundRegion> scoreRegion, maskRegion;
};

} // namespace

AttentionScores::AttentionScores(AttentionOp op, const Reduction &reduction,
                                 const ReferenceOptions &options,
                                 Precision precision, Get get)
    : op(op), reduction(reduction), options(options), precision(precision),
      start(get(op.getKStart())), bias(get(op.getBias())),
      alibi(get(op.getAlibi())), mask(get(op.getMaskTensor())) {
  auto scalarOr = [&](Value value, double otherwise) {
    return value ? get(value)->data[0] : otherwise;
  };
  int64_t depth = reduction.queries[0]->shape.back();
  scale = scalarOr(op.getScale(),
                   roundTo(1.0 / std::sqrt(depth), options.rounding));
  softcap = scalarOr(op.getSoftcap(), 0.0);
  left = scalarOr(op.getWindowLeft(), -1.0);
  right = scalarOr(op.getWindowRight(), -1.0);
}

LogicalResult
AttentionScores::compile(ArrayRef<const ReferenceValue *> captures) {
  for (auto [region, into] : {std::pair(&op.getScore(), &scoreRegion),
                              {&op.getMask(), &maskRegion}}) {
    if (region->empty())
      continue;
    FailureOr<BoundRegion> bound = BoundRegion::compile(*region, captures);
    if (failed(bound))
      return failure();
    *into = std::move(*bound);
  }
  return success();
}

LogicalResult AttentionScores::turn(ArrayRef<const ReferenceValue *> tables,
                                    Reduction &reduction) {
  bool isTopLeft = op.getCausal() == Causal::top_left;
  auto first = [&](int64_t batch) {
    return op.getRotateBySlot() ? 0 : baseOf(start, batch);
  };
  auto ofQuery = [&](int64_t batch, int64_t i) {
    return isTopLeft ? i
                     : i + first(batch) + reduction.numKeys(batch) -
                           reduction.numRows(batch);
  };
  auto ofKey = [&](int64_t batch, int64_t j) { return j + first(batch); };
  return ::attn::detail::turnOperands(
      {op.getRotaryAttr(), ofQuery, ofKey, precision, options}, op.getRotate(),
      op.getRotate(), tables, reduction);
}

double AttentionScores::score(double dot, const Row &row, int64_t key) {
  double s = rounded(dot * scale);
  if (op.getSoftcap() && !std::isinf(softcap)) // an infinite cap is none
    s = rounded(softcap * rounded(std::tanh(rounded(s / softcap))));
  if (scoreRegion) {
    Scalars arguments = {Scalar::ofFloat(s)}, results;
    llvm::append_range(arguments, rowScalars(row));
    arguments.push_back(Scalar::ofInt(position(row, key)));
    scoreRegion->evaluate(arguments, results, precision);
    s = rounded(results[0].f);
  }
  if (bias)
    s = rounded(s +
                readBroadcast(*bias, {row.batch, row.head, row.position, key}));
  if (alibi) {
    double slope = readBroadcast(*alibi, {row.batch, row.head});
    double distance = std::abs(diagonal(row, false) - position(row, key));
    s = rounded(s - rounded(slope * distance));
  }
  return s;
}

bool AttentionScores::isLive(const Row &row, int64_t key) {
  Causal causal = op.getCausal();
  double now = diagonal(row, causal == Causal::top_left);
  double at = position(row, key);
  if (causal != Causal::none && at > now)
    return false;
  if (op.getWindowLeft() && left >= 0 && now - at > left)
    return false;
  if (op.getWindowRight() && right >= 0 && at - now > right)
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
}

/// What each weight is multiplied by, of the words of a random key.
static std::function<double(const Row &, int64_t)>
dropoutFactor(double probability, ArrayRef<uint64_t> words) {
  ::attn::support::Dropout dropout{
      float(probability), words[0] | words[1] << 32, words[2] | words[3] << 32};
  return [dropout](const Row &row, int64_t key) {
    return dropout.factor(row.batch, row.head, row.position, key);
  };
}

/// The state of a key with the sink as its score and without a value.
static Scalars liftSink(const Algebra &algebra, double sink) {
  Scalars state = algebra.lift(sink, {}, 0);
  for (unsigned i = 0; i < algebra.numComponents; ++i)
    if (algebra.isValue[i])
      state[algebra.numStats + i] = Scalar::ofFloat(0.0);
  return state;
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

  AttentionScores scoring(op, reduction, options, precision,
                          [&](Value value) { return get(value); });
  if (failed(scoring.compile(getAll(op.getCaptures()))) ||
      (op.getRotary() &&
       failed(scoring.turn(getAll(op.getTables()), reduction))))
    return failure();
  reduction.score = [&](ArrayRef<double> dots, const Row &row, int64_t key,
                        SmallVectorImpl<double> &scores) {
    scores.push_back(scoring.score(dots[0], row, key));
  };
  reduction.isLive = [&](const Row &row, int64_t key) {
    return scoring.isLive(row, key);
  };
  if (op.getDropout()) {
    SmallVector<uint64_t> words;
    for (Value word : op.getDropoutRng())
      words.push_back(uint32_t(int64_t(get(word)->data[0])));
    reduction.factor = dropoutFactor(get(op.getDropout())->data[0], words);
  }
  RowReducer reducer(std::move(*algebra), reduction, options);
  if (const ReferenceValue *sinks = get(op.getSinks()))
    reduction.init = [&reducer, sinks](const Row &row) {
      return liftSink(reducer.algebra, readBroadcast(*sinks, {row.head}));
    };
  reduceRows(op, reducer, reduction, *finalize, getPerChannelOutputs(*monoid));
  return success();
}
