//===- Reference.cpp - Evaluates functions on attn operations -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Interpreter/Reference.h"
#include "Evaluator.h"
#include "Scans.h"
#include "Unfold.h"
#include "attn/Dialect/Attn/IR/Scan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

#include <atomic>
#include <cmath>
#include <memory>
#include <thread>

using namespace mlir;
using namespace mlir::attn;
using ::attn::Algebra;
using ::attn::ReferenceOptions;
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
using ::attn::detail::RowSource;
using ::attn::detail::RowState;

ReferenceValue &Evaluator::define(Value result, std::vector<int64_t> shape) {
  auto value = std::make_shared<ReferenceValue>();
  value->shape = std::move(shape);
  value->data.assign(value->size(), 0.0);
  values[result] = value;
  return *value;
}

//===----------------------------------------------------------------------===//
// What ops say
//===----------------------------------------------------------------------===//

FailureOr<MonoidOp> Evaluator::getMonoid(Operation *op) {
  FlatSymbolRefAttr ref = getMonoidRef(op);
  if (MonoidOp monoid = lookupMonoid(op, ref))
    return monoid;
  return op->emitOpError("expected '@")
         << ref.getValue() << "' to be an attn.monoid of this module; "
         << "attn-import-prelude adds those that ship";
}

FailureOr<Algebra> Evaluator::getAlgebra(MonoidOp monoid, ValueRange params) {
  FailureOr<Algebra> algebra = Algebra::compile(monoid);
  if (succeeded(algebra))
    for (Value param : params)
      algebra->params.push_back(Scalar::ofFloat(get(param)->data[0]));
  return algebra;
}

/// What index operands hold: rows that are there.
static LogicalResult checkIndex(Operation *op, const RowSource &source,
                                const ReferenceValue &operand,
                                int64_t batches) {
  int64_t rows = operand.shape[operand.shape.size() - 2];
  if (source.lengths && int64_t(source.lengths->data.size()) != batches)
    return op->emitOpError("expected one key length for each batch, but got ")
           << source.lengths->data.size();
  if (!source.map)
    return success();
  const std::vector<double> &map = source.map->data;
  if (source.is(SourceKind::varlen) &&
      (int64_t(map.size()) != batches + 1 || !llvm::is_sorted(map) ||
       map.front() < 0 || map.back() > double(rows)))
    return op->emitOpError("expected row offsets that ascend from 0 to at "
                           "most the number of rows");
  if (source.is(SourceKind::varlen))
    return success();
  if (source.map->shape[0] != batches)
    return op->emitOpError("expected a table or start of each batch, but got ")
           << source.map->shape[0];
  for (int64_t batch = 0; batch < batches; ++batch) {
    if (source.is(SourceKind::ring) && map[batch] < 0)
      return op->emitOpError("expected a start of at least 0, but got ")
             << map[batch];
    for (int64_t p = 0;
         source.is(SourceKind::paged) && p < source.numRows(operand, batch);
         p += rows) {
      double page = map[batch * source.map->shape[1] + p / rows];
      if (page < 0 || page >= double(operand.shape[0]))
        return op->emitOpError("expected pages between 0 and ")
               << operand.shape[0] - 1 << ", but got " << page;
    }
  }
  return success();
}

LogicalResult Evaluator::checkShapes(Operation *op,
                                     const Reduction &reduction) {
  auto fits = [&](const std::vector<const ReferenceValue *> &operands,
                  const ReferenceValue &like) {
    return llvm::all_of(operands, [&](const ReferenceValue *operand) {
      return ArrayRef(operand->shape).drop_back() ==
             ArrayRef(like.shape).drop_back();
    });
  };
  const ReferenceValue &q = *reduction.queries[0], &k = *reduction.keys[0];
  const RowSource &keySource = reduction.keySource;
  int64_t hq = reduction.numHeads(), hk = keySource.heads(k);
  if (reduction.overQueries)
    std::swap(hq, hk);
  if (reduction.querySource.map && reduction.querySource.map->data.empty())
    return op->emitOpError("expected row offsets that ascend from 0 to at "
                           "most the number of rows");
  int64_t batches = reduction.numBatches();
  if (!fits(reduction.queries, q) || !fits(reduction.keys, k) ||
      !fits(reduction.values, k) ||
      (keySource.hasBatch() && k.shape[0] != batches) ||
      (hk ? hq % hk != 0 : hq != 0))
    return op->emitOpError("expected queries, keys and values whose batches, "
                           "heads and rows fit together");
  return success(succeeded(checkIndex(op, reduction.querySource, q, batches)) &&
                 succeeded(checkIndex(op, keySource, k, batches)));
}

template <typename OpT>
LogicalResult Evaluator::getReduction(OpT op, Reduction &reduction) {
  reduction.queries = getAll(op.getQueries());
  reduction.keys = getAll(op.getKeys());
  reduction.values = getAll(op.getValues());
  reduction.overQueries = op.getSide() == Side::queries;
  reduction.querySource = bind(op.getQuerySource());
  reduction.keySource = bind(op.getKeySource());
  if (failed(checkShapes(op, reduction)))
    return failure();
  std::vector<const ReferenceValue *> captures = getAll(op.getCaptures());
  const ReferenceValue *rowBase = get(op.getRowBase());
  const ReferenceValue *keyBase = get(op.getKeyBase());
  for (const ReferenceValue *base : {rowBase, keyBase})
    if (base && !base->shape.empty() &&
        base->shape[0] != reduction.numBatches())
      return op.emitOpError("expected a base for each batch, but got ")
             << base->shape[0];

  reduction.score = [](ArrayRef<double> dots, const Row &, int64_t,
                       SmallVectorImpl<double> &scores) {
    llvm::append_range(scores, dots);
  };
  if (!op.getScore().empty()) {
    FailureOr<BoundRegion> region =
        BoundRegion::compile(op.getScore(), captures);
    if (failed(region))
      return failure();
    reduction.score = [region = std::move(*region), precision = precision,
                       rowBase, keyBase](ArrayRef<double> dots, const Row &row,
                                         int64_t key,
                                         SmallVectorImpl<double> &scores) {
      Scalars arguments, results;
      for (double dot : dots)
        arguments.push_back(Scalar::ofFloat(dot));
      llvm::append_range(arguments, rowScalars(row, rowBase));
      arguments.push_back(Scalar::ofInt(key + baseOf(keyBase, row.batch)));
      region.evaluate(arguments, results, precision);
      for (Scalar score : results)
        scores.push_back(score.f);
    };
  }
  if (!op.getMask().empty()) {
    FailureOr<BoundRegion> region =
        BoundRegion::compile(op.getMask(), captures);
    if (failed(region))
      return failure();
    reduction.isLive = [region = std::move(*region), precision = precision,
                        rowBase, keyBase](const Row &row, int64_t key) {
      Scalars arguments = rowScalars(row, rowBase), results;
      arguments.push_back(Scalar::ofInt(key + baseOf(keyBase, row.batch)));
      region.evaluate(arguments, results, precision);
      return results[0].i != 0;
    };
  }
  if (!op.getFactor().empty()) {
    FailureOr<BoundRegion> region =
        BoundRegion::compile(op.getFactor(), captures);
    if (failed(region))
      return failure();
    reduction.factor = [region = std::move(*region), precision = precision,
                        rowBase, keyBase](const Row &row, int64_t key) {
      Scalars arguments = rowScalars(row, rowBase), results;
      arguments.push_back(Scalar::ofInt(key + baseOf(keyBase, row.batch)));
      region.evaluate(arguments, results, precision);
      return results[0].f;
    };
  }
  auto from = [](const ReferenceValue *base) {
    return [base](int64_t batch, int64_t n) { return n + baseOf(base, batch); };
  };
  if (op.getRotary() &&
      failed(::attn::detail::turnOperands(
          {op.getRotaryAttr(), from(rowBase), from(keyBase), precision,
           options},
          op.getRotateQueries(), op.getRotateKeys(), captures, reduction)))
    return failure();
  if (!op.getInit().empty()) {
    FailureOr<BoundRegion> region =
        BoundRegion::compile(op.getInit(), captures);
    if (failed(region))
      return failure();
    reduction.init = [region = std::move(*region), precision = precision,
                      rowBase](const Row &row) {
      Scalars results;
      region.evaluate(rowScalars(row, rowBase), results, precision);
      return results;
    };
  }
  return ::attn::detail::tellMask(
      {op.getMask(), captures, reduction, rowBase, keyBase}, numReductions++,
      options);
}

FailureOr<Evaluator::Finalize>
Evaluator::getFinalize(Region &region, MonoidOp monoid, ValueRange params,
                       ValueRange captures, const ReferenceValue *rowBase) {
  bool isOwn = !region.empty();
  FailureOr<BoundRegion> bound = BoundRegion::compile(
      isOwn ? region : monoid.getFinalize(), getAll(isOwn ? captures : params));
  if (failed(bound))
    return failure();
  return Finalize([bound = std::move(*bound), isOwn, rowBase,
                   precision = precision](ArrayRef<Scalar> state,
                                          const Row &row, Scalars &results) {
    Scalars arguments(state);
    if (isOwn)
      llvm::append_range(arguments, rowScalars(row, rowBase));
    bound.evaluate(arguments, results, precision);
  });
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void Evaluator::forEachRow(
    const Reduction &reduction,
    function_ref<void(const Row &, int64_t index)> body) {
  std::vector<std::pair<Row, int64_t>> rows;
  for (int64_t b = 0; b < reduction.numBatches(); ++b)
    for (int64_t h = 0; h < reduction.numHeads(); ++h)
      for (int64_t i = 0; i < reduction.numRows(b); ++i) {
        Row row{b, h, i};
        int64_t index = reduction.rowIndex(row);
        if (index % std::max<int64_t>(options.rowStride, 1) ==
            options.rowOffset)
          rows.push_back({row, index});
      }

  // Rows know nothing of each other: all processors take from one list. This
  // thread speaks for them.
  std::atomic<size_t> next{0};
  auto work = [&](bool speaks) {
    for (size_t n; (n = next++) < rows.size();) {
      if (speaks && options.progress)
        options.progress(int64_t(n), int64_t(rows.size()));
      body(rows[n].first, rows[n].second);
    }
  };
  constexpr size_t rowsOfThread = 32, mostThreads = 32;
  size_t threads = std::min({rows.size() / rowsOfThread, mostThreads,
                             size_t(std::thread::hardware_concurrency())});
  std::vector<std::thread> others;
  for (size_t i = 1; i < threads; ++i)
    others.emplace_back(work, /*speaks=*/false);
  work(/*speaks=*/true);
  for (std::thread &other : others)
    other.join();
}

void Evaluator::reduceRows(Operation *op, RowReducer &reducer,
                           const Reduction &reduction, const Finalize &finalize,
                           ArrayRef<bool> perChannel) {
  int64_t channels = reduction.numChannels();
  std::vector<ReferenceValue *> outputs;
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    std::vector<int64_t> shape = reduction.rowShape();
    if (perChannel[i])
      shape.push_back(channels);
    outputs.push_back(&define(result, shape));
  }
  forEachRow(reduction, [&](const Row &row, int64_t index) {
    RowState state =
        reducer.reduce(row, 0, reduction.numKeys(row.batch), /*withInit=*/true);
    Scalars results;
    for (int64_t d = 0; d < std::max<int64_t>(channels, 1); ++d) {
      finalize(reducer.channel(state, d), row, results);
      for (auto [i, output] : llvm::enumerate(outputs)) {
        if (perChannel[i])
          output->data[index * channels + d] = rounded(results[i].f);
        else if (d == 0)
          output->data[index] = rounded(results[i].f);
      }
    }
  });
}

LogicalResult Evaluator::evaluateAggregate(AggregateOp op) {
  Reduction reduction;
  FailureOr<MonoidOp> monoid = getMonoid(op);
  if (failed(monoid) || failed(getReduction(op, reduction)))
    return failure();
  FailureOr<Algebra> algebra = getAlgebra(*monoid, op.getParams());
  FailureOr<Finalize> finalize =
      getFinalize(op.getFinalize(), *monoid, op.getParams(), op.getCaptures(),
                  get(op.getRowBase()));
  if (failed(algebra) || failed(finalize))
    return failure();
  RowReducer reducer(std::move(*algebra), reduction, options);
  reduceRows(op, reducer, reduction, *finalize,
             op.getFinalize().empty()
                 ? getPerChannelOutputs(*monoid)
                 : getPerChannelOutputs(op.getFinalize(), monoid->getNumStats(),
                                        monoid->getComponents()));
  return success();
}

LogicalResult Evaluator::evaluateDiagonals(ScoresOp op, RowReducer &reducer,
                                           const Reduction &reduction,
                                           int64_t numKeys) {
  std::vector<int64_t> shape = reduction.rowShape();
  int64_t n = *op.getDiagonals(), numRows = shape.back();
  int64_t base = (numKeys + n - 1) / n * n;
  int64_t length = shape.back() = (numRows + n - 1) / n * n + base;
  std::vector<ReferenceValue *> outputs;
  for (Value result : op->getResults()) {
    std::vector<int64_t> whole = shape;
    if (cast<RankedTensorType>(result.getType()).getRank() == 4)
      whole.push_back(n);
    outputs.push_back(&define(result, whole));
  }
  auto addPair = [&](const Row &row, int64_t key) {
    int64_t head = row.batch * reduction.numHeads() + row.head, c = key % n;
    int64_t t = head * length + row.position - key + base;
    bool live = !reduction.isLive || reduction.isLive(row, key);
    for (auto [output, score] :
         llvm::zip_equal(outputs, reducer.scores(row, key))) {
      if (output->shape.size() == 3)
        output->data[t] = score;
      else if (live)
        output->data[(t + c) * n + c] += score;
    }
  };
  // Rows have diagonals in common: one thread adds them up.
  for (int64_t b = 0; b < reduction.numBatches(); ++b)
    for (int64_t h = 0; h < reduction.numHeads(); ++h)
      for (int64_t i = 0; i < numRows; ++i)
        for (int64_t key = 0; key < numKeys; ++key)
          addPair(Row{b, h, i}, key);
  for (ReferenceValue *output : outputs)
    for (double &element : output->data)
      element = rounded(element);
  return success();
}

/// Of dead pairs, of which nothing is said, the scores are 0.
LogicalResult Evaluator::evaluateScores(ScoresOp op) {
  Reduction reduction;
  FailureOr<MonoidOp> monoid = getMonoid(op);
  if (failed(monoid) || failed(getReduction(op, reduction)))
    return failure();
  FailureOr<Algebra> algebra = getAlgebra(*monoid, op.getParams());
  if (failed(algebra))
    return failure();
  RowReducer reducer(std::move(*algebra), reduction, options);
  std::vector<int64_t> shape = reduction.rowShape();
  int64_t numKeys = get(op.getKeys().front())->shape[2];
  if (op.getDiagonals())
    return evaluateDiagonals(op, reducer, reduction, numKeys);
  shape.push_back(numKeys);
  std::vector<ReferenceValue *> outputs;
  for (Value result : op->getResults())
    outputs.push_back(&define(result, shape));
  forEachRow(reduction, [&](const Row &row, int64_t index) {
    for (int64_t key = 0; key < numKeys; ++key) {
      if (reduction.isLive && !reduction.isLive(row, key))
        continue;
      SmallVector<double, 2> scores = reducer.scores(row, key);
      for (auto [output, score] : llvm::zip_equal(outputs, scores))
        output->data[index * numKeys + key] = rounded(score);
    }
  });
  return success();
}

LogicalResult Evaluator::evaluatePartial(PartialOp op) {
  Reduction reduction;
  FailureOr<MonoidOp> monoid = getMonoid(op);
  if (failed(monoid) || failed(getReduction(op, reduction)))
    return failure();
  FailureOr<Algebra> algebra = getAlgebra(*monoid, op.getParams());
  if (failed(algebra))
    return failure();
  RowReducer reducer(std::move(*algebra), reduction, options);

  int64_t splits = op.getParts() ? int64_t(get(op.getParts())->data[0])
                                 : int64_t(*op.getSplits());
  if (splits < 1)
    return op.emitOpError("expected parts to be positive, but got ") << splits;
  int64_t granule = op.getGranule().value_or(1);
  int64_t channels = reduction.numChannels(), numRows = 1;
  for (int64_t extent : reduction.rowShape())
    numRows *= extent;
  unsigned numStats = reducer.algebra.numStats;
  std::vector<ReferenceValue *> outputs;
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    std::vector<int64_t> shape = reduction.rowShape();
    shape.insert(shape.begin(), splits);
    if (i >= numStats && reducer.algebra.isValue[i - numStats])
      shape.push_back(channels);
    outputs.push_back(&define(result, shape));
  }
  forEachRow(reduction, [&](const Row &row, int64_t index) {
    int64_t numKeys = reduction.numKeys(row.batch);
    int64_t part = llvm::alignTo(llvm::divideCeil(numKeys, splits), granule);
    for (int64_t s = 0; s < splits; ++s) {
      RowState state = reducer.reduce(row, std::min(s * part, numKeys),
                                      std::min((s + 1) * part, numKeys),
                                      /*withInit=*/s == 0);
      int64_t at = s * numRows + index;
      for (int64_t d = 0; d < std::max<int64_t>(channels, 1); ++d) {
        Scalars scalars = reducer.channel(state, d);
        for (auto [i, output] : llvm::enumerate(outputs)) {
          if (i >= numStats && reducer.algebra.isValue[i - numStats]) {
            if (d < channels)
              output->data[at * channels + d] = scalars[i].f;
          } else if (d == 0) {
            output->data[at] = scalars[i].f;
          }
        }
      }
    }
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Scalar operations between the reductions: by their own folders.
LogicalResult Evaluator::evaluateFolded(Operation &op) {
  SmallVector<Attribute> operands;
  for (Value operand : op.getOperands()) {
    const ReferenceValue *value = get(operand);
    Type type = operand.getType();
    Attribute attr;
    if (isa<FloatType>(type))
      attr = FloatAttr::get(type, value->data[0]);
    else if (type.isIntOrIndex())
      attr = IntegerAttr::get(type, int64_t(value->data[0]));
    operands.push_back(attr);
  }
  SmallVector<OpFoldResult> results;
  if (failed(op.fold(operands, results)) ||
      results.size() != op.getNumResults())
    return op.emitOpError("cannot be evaluated between reductions");
  for (auto [result, folded] : llvm::zip(op.getResults(), results)) {
    if (auto same = dyn_cast<Value>(folded)) {
      values[result] = values.lookup(same);
      continue;
    }
    double value;
    auto attr = cast<Attribute>(folded);
    if (auto number = dyn_cast<FloatAttr>(attr))
      value = number.getValueAsDouble();
    else if (auto number = dyn_cast<IntegerAttr>(attr))
      value = number.getType().isInteger(1)
                  ? double(number.getValue().getZExtValue())
                  : double(number.getValue().getSExtValue());
    else
      return op.emitOpError("cannot be evaluated between reductions");
    define(result, {}).data[0] = value;
  }
  return success();
}

/// Its reductions one after the other.
LogicalResult Evaluator::evaluateFused(FusedOp op) {
  Operation *yield = op.getBody().front().getTerminator();
  for (Operation &inner : op.getBody().front().without_terminator())
    if (failed(evaluate(inner)))
      return failure();
  for (auto [result, value] : llvm::zip(op.getResults(), yield->getOperands()))
    values[result] = values.lookup(value);
  return success();
}

/// For what is evaluated in a file of its own.
::attn::detail::FunctionValues Evaluator::allValues() {
  return {[&](Value value) { return values.lookup(value).get(); },
          [&](Value result, std::vector<int64_t> shape) -> ReferenceValue & {
            return define(result, std::move(shape));
          }};
}

LogicalResult Evaluator::evaluate(Operation &op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](AttentionOp op) { return evaluateAttention(op); })
      .Case([&](AggregateOp op) { return evaluateAggregate(op); })
      .Case([&](FusedOp op) { return evaluateFused(op); })
      .Case([&](PartialOp op) { return evaluatePartial(op); })
      .Case([&](ScoresOp op) { return evaluateScores(op); })
      .Case([&](CombineOp op) { return evaluateCombine(op); })
      .Case([&](FinalizeOp op) { return evaluateFinalize(op); })
      .Case([&](ScanOp op) {
        return ::attn::detail::evaluateScan(op, allValues(), options);
      })
      .Case([&](ScanPartialOp op) {
        return ::attn::detail::evaluateScanPartial(op, allValues(), options);
      })
      .Case([&](ScanCombineOp op) {
        return ::attn::detail::evaluateScanCombine(op, allValues(), options);
      })
      .Case([&](UnfoldOp op) {
        return ::attn::detail::evaluateUnfold(op, allValues(), options);
      })
      .Case([&](tensor::DimOp op) -> LogicalResult {
        const std::vector<int64_t> &shape = get(op.getSource())->shape;
        auto dim = static_cast<size_t>(get(op.getIndex())->data[0]);
        if (dim >= shape.size())
          return op.emitOpError("expected a dimension of the tensor");
        define(op.getResult(), {}).data[0] = double(shape[dim]);
        return success();
      })
      .Default([&](Operation *op) { return evaluateFolded(*op); });
}

FailureOr<std::vector<ReferenceValue>>
Evaluator::run(func::FuncOp function, ArrayRef<ReferenceValue> arguments) {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("expected a function of one block to evaluate");
  Block &body = function.getBody().front();
  if (arguments.size() != body.getNumArguments())
    return function.emitOpError("expected ")
           << body.getNumArguments() << " arguments, but got "
           << arguments.size();
  for (auto [argument, value] : llvm::zip(body.getArguments(), arguments)) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    bool fits = type ? type.getRank() == int64_t(value.shape.size())
                     : value.shape.empty();
    for (size_t i = 0; fits && i < value.shape.size(); ++i)
      fits = type.isDynamicDim(i) || type.getDimSize(i) == value.shape[i];
    if (!fits || int64_t(value.data.size()) != value.size())
      return function.emitOpError("expected argument ")
             << argument.getArgNumber() << " to be of type "
             << argument.getType() << ", but got other sizes";
    values[argument] = std::make_shared<ReferenceValue>(value);
  }
  for (Operation &op : body.without_terminator())
    if (failed(evaluate(op)))
      return failure();
  std::vector<ReferenceValue> results;
  for (Value result : body.getTerminator()->getOperands())
    results.push_back(*values.lookup(result));
  return results;
}

namespace attn {
FailureOr<std::vector<ReferenceValue>>
evaluateReference(func::FuncOp function, ArrayRef<ReferenceValue> arguments,
                  const ReferenceOptions &options) {
  return Evaluator(options).run(function, arguments);
}
} // namespace attn
