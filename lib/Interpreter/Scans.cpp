//===- Scans.cpp - Evaluates attn.scan ------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Scans.h"
#include "RowReduction.h"
#include "attn/Dialect/Attn/IR/Scan.h"
#include "attn/Reference/Scan.h"

#include <atomic>
#include <cmath>
#include <optional>
#include <thread>

using namespace mlir;
using namespace mlir::attn;
using ::attn::Precision;
using ::attn::ReferenceOptions;
using ::attn::ReferenceValue;
using ::attn::Scalar;
using ::attn::Scalars;
using ::attn::detail::BoundRegion;
using ::attn::detail::FunctionValues;
namespace reference = ::attn::reference;

namespace {
/// The tokens of one sequence: rows [begin, end) of the tensors, and of queries
/// those up to `queryEnd`.
struct Sequence {
  int64_t begin, end, queryEnd;
};

class ScanEvaluator {
public:
  ScanEvaluator(ScanOp op, const FunctionValues &values,
                const ReferenceOptions &options)
      : op(op), values(values), options(options),
        isExact(options.rounding == ReferenceOptions::Rounding::Exact) {}

  LogicalResult run();
  /// Evaluates the parts of an attn.scan_partial, whose scan `op` is.
  LogicalResult runParts(ScanPartialOp parts);

private:
  /// The operands, and the regions.
  LogicalResult prepare();
  void evaluatePart(ScanPartialOp parts, int64_t part, int64_t sequence,
                    int64_t head);
  /// What some tokens of a head do to a state: [dk, dk], or numbers.
  std::vector<double> mapOf(ScanPartialOp parts,
                            reference::ScanProblem problem);
  reference::ScanState scanned(const reference::ScanProblem &problem,
                               reference::ScanState state,
                               std::vector<double> &outputs) const;
  LogicalResult findSequences();
  LogicalResult checkShapes();
  LogicalResult check(StringRef name, Value value,
                      const std::vector<int64_t> &shape);
  LogicalResult checkStates(StringRef name, ValueRange states, int64_t count);
  std::vector<int64_t> stateShape(unsigned part, int64_t count) const;

  const ReferenceValue *get(Value value) const {
    return value ? values.get(value) : nullptr;
  }
  /// Rows of a head of a sequence; nothing of no operand.
  std::vector<double> rows(Value operand, int64_t sequence, int64_t head,
                           int64_t begin, int64_t end) const;
  /// The same after the feature map and the norm.
  std::vector<double> features(Value operand, int64_t sequence, int64_t head,
                               int64_t begin, int64_t end) const;
  /// Logarithms of gates: the decay after the region of gates.
  std::vector<double> gates(int64_t sequence, int64_t head, int64_t begin,
                            int64_t end) const;
  /// Applies the region of outputs to those of a head.
  void finalize(std::vector<double> &outputs, int64_t sequence,
                int64_t outputHead) const;
  LogicalResult checkCaptures();
  reference::ScanProblem makeProblem(int64_t sequence, int64_t outputHead,
                                     const Sequence &own);
  reference::ScanState loadState(int64_t sequence, int64_t head);
  void storeState(const reference::ScanState &state, int64_t sequence,
                  int64_t head);
  /// Where the states of a sequence are in its pool, or -1: by the index, if
  /// any.
  int64_t slotOf(int64_t sequence) const;
  void evaluate(int64_t sequence, int64_t outputHead);

  mutable ScanOp op; // whose accessors are not const
  const FunctionValues &values;
  const ReferenceOptions &options;
  bool isExact;
  std::vector<Sequence> sequences;
  std::optional<BoundRegion> feature, gate, last;
  int64_t queryHeads = 0, keyHeads = 0, valueHeads = 0;
  int64_t stateHeads = 0, outputHeads = 0, dk = 0, dv = 0;
  ReferenceValue *output = nullptr;
  /// Those of `final`, or the pools; and what pools hold before.
  std::vector<ReferenceValue *> states;
  std::vector<ReferenceValue> pools;
};
} // namespace

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

LogicalResult ScanEvaluator::findSequences() {
  const std::vector<int64_t> &q = get(op.getQuery())->shape;
  const std::vector<int64_t> &k = get(op.getKey())->shape;
  size_t tokens = k.size() - 2;
  if (!op.isPacked()) {
    sequences.assign(size_t(k[0]), {0, k[tokens], q[tokens]});
    const ReferenceValue *lengths = get(op.getLengths());
    if (!lengths)
      return success();
    if (failed(check("lengths", op.getLengths(), {k[0]})))
      return failure();
    for (auto [sequence, length] : llvm::zip_equal(sequences, lengths->data))
      sequence.end = sequence.queryEnd =
          std::clamp(int64_t(length), int64_t(0), k[tokens]);
    return success();
  }
  const std::vector<double> &offsets = get(op.getCu())->data;
  if (offsets.empty() || !llvm::is_sorted(offsets) || offsets.front() < 0 ||
      offsets.back() > double(k[tokens]))
    return op.emitOpError("expected row offsets that ascend from 0 to at most "
                          "the number of rows");
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    auto end = int64_t(offsets[i + 1]);
    sequences.push_back({int64_t(offsets[i]), end, end});
  }
  return success();
}

LogicalResult ScanEvaluator::check(StringRef name, Value value,
                                   const std::vector<int64_t> &shape) {
  if (!value || get(value)->shape == shape)
    return success();
  auto print = [](ArrayRef<int64_t> sizes) {
    std::string text;
    for (int64_t size : sizes)
      text += (text.empty() ? "" : ", ") + std::to_string(size);
    return "[" + text + "]";
  };
  return op.emitOpError("expected ")
         << name << " of " << print(shape) << ", but got "
         << print(get(value)->shape);
}

std::vector<int64_t> ScanEvaluator::stateShape(unsigned part,
                                               int64_t count) const {
  if (part == 0 && op.getValuesFirst())
    return {count, stateHeads, dv, dk};
  if (part == 0)
    return {count, stateHeads, dk, dv};
  if (part == 1 && op.getNormalize())
    return {count, stateHeads, dk};
  return {count, stateHeads};
}

LogicalResult ScanEvaluator::checkStates(StringRef name, ValueRange operands,
                                         int64_t count) {
  for (auto [part, value] : llvm::enumerate(operands))
    if (failed(check(name, value, stateShape(part, count))))
      return failure();
  return success();
}

LogicalResult ScanEvaluator::checkShapes() {
  const std::vector<int64_t> &q = get(op.getQuery())->shape;
  const std::vector<int64_t> &k = get(op.getKey())->shape;
  const std::vector<int64_t> &v = get(op.getValue())->shape;
  size_t heads = k.size() - 3, tokens = k.size() - 2;
  queryHeads = q[heads], keyHeads = k[heads], valueHeads = v[heads];
  stateHeads = std::max(keyHeads, valueHeads);
  if (op.getQueryStates())
    stateHeads = std::max(stateHeads, queryHeads);
  outputHeads = std::max(queryHeads, stateHeads);
  dk = op.getKeyChannels(), dv = op.getValueChannels();
  auto divides = [](int64_t a, int64_t b) { return a ? b % a == 0 : b == 0; };
  if (!divides(keyHeads, stateHeads) || !divides(valueHeads, stateHeads) ||
      (!divides(queryHeads, stateHeads) && !divides(stateHeads, queryHeads)))
    return op.emitOpError("expected heads that divide each other, but got ")
           << queryHeads << " of queries, " << keyHeads << " of keys and "
           << valueHeads << " of values";
  bool fits = k[tokens] == v[tokens];
  fits &= op.isPacked() ? q[tokens] == k[tokens] : q[0] == k[0] && v[0] == k[0];
  if (!fits)
    return op.emitOpError("expected batches and tokens of queries, keys and "
                          "values to agree");
  std::vector<int64_t> numbers = k;
  numbers.pop_back();
  numbers[heads] = stateHeads;
  auto wide = [&](int64_t channels) {
    std::vector<int64_t> shape = numbers;
    shape.push_back(channels);
    return shape;
  };
  std::vector<int64_t> gates =
      !op.hasChannelGates() ? numbers : wide(op.getValueGates() ? dv : dk);
  auto count = int64_t(sequences.size());
  if (failed(check("decay", op.getDecay(), gates)) ||
      failed(check("weight", op.getWeight(), numbers)) ||
      failed(check("log_weight", op.getLogWeight(), numbers)) ||
      failed(check("delta", op.getDelta(), numbers)) ||
      failed(check("erase", op.getEraseA(), wide(dk))) ||
      failed(check("erase", op.getEraseB(), wide(dk))) ||
      failed(check("bonus", op.getBonus(), {stateHeads, dk})) ||
      failed(check("index", op.getSlot(), {count})) ||
      failed(checkStates("init", op.getInit(), count)))
    return failure();
  int64_t slots = op.getPool().empty() ? 0 : get(op.getPool()[0])->shape[0];
  if (failed(checkStates("slots", op.getPool(), slots)))
    return failure();
  return checkCaptures();
}

LogicalResult ScanEvaluator::checkCaptures() {
  auto checkAll = [&](StringRef name, ValueRange captures,
                      std::vector<int64_t> full) -> LogicalResult {
    for (Value capture : captures) {
      size_t rank = get(capture)->shape.size();
      std::vector<int64_t> shape = full;
      if (rank <= 2)
        shape = {full[full.size() - 3], full.back()};
      shape.resize(rank);
      if (failed(check(name, capture, shape)))
        return failure();
    }
    return success();
  };
  std::vector<int64_t> full = get(op.getQuery())->shape;
  full[full.size() - 3] = stateHeads;
  full.back() = op.getValueGates() ? dv : dk;
  if (failed(checkAll("captures of gate", op.getGateCaptures(), full)))
    return failure();
  full[full.size() - 3] = outputHeads;
  full.back() = dv;
  return checkAll("captures of finalize", op.getFinalizeCaptures(), full);
}

//===----------------------------------------------------------------------===//
// One head
//===----------------------------------------------------------------------===//

std::vector<double> ScanEvaluator::rows(Value operand, int64_t sequence,
                                        int64_t head, int64_t begin,
                                        int64_t end) const {
  const ReferenceValue *value = get(operand);
  if (!value)
    return {};
  size_t heads = op.isPacked() ? 0 : 1;
  int64_t width = 1;
  for (size_t d = heads + 2; d < value->shape.size(); ++d)
    width *= value->shape[d];
  int64_t lead = op.isPacked() ? 0 : sequence * value->shape[heads];
  auto first =
      value->data.begin() + (lead + head) * value->shape[heads + 1] * width;
  return {first + begin * width, first + end * width};
}

std::vector<double> ScanEvaluator::features(Value operand, int64_t sequence,
                                            int64_t head, int64_t begin,
                                            int64_t end) const {
  std::vector<double> x = rows(operand, sequence, head, begin, end);
  Precision precision = isExact ? Precision::F64 : Precision::F32;
  Scalars results;
  for (double &element : x)
    if (feature) {
      feature->evaluate({Scalar::ofFloat(element)}, results, precision);
      element = results[0].f;
    }
  auto rounded = [&](double value) {
    return isExact ? value : double(float(value));
  };
  for (size_t row = 0; op.getL2norm() && row < x.size(); row += size_t(dk)) {
    double squares = 0;
    for (size_t d = row; d < row + size_t(dk); ++d)
      squares = rounded(squares + rounded(x[d] * x[d]));
    double norm = rounded(std::sqrt(rounded(squares + 1e-6)));
    for (size_t d = row; d < row + size_t(dk); ++d)
      x[d] = rounded(x[d] / norm);
  }
  return x;
}

std::vector<double> ScanEvaluator::gates(int64_t sequence, int64_t head,
                                         int64_t begin, int64_t end) const {
  std::vector<double> logs = rows(op.getDecay(), sequence, head, begin, end);
  if (!gate)
    return logs;
  size_t width = !op.hasChannelGates() ? 1 : op.getValueGates() ? dv : dk;
  Scalars inputs, results;
  for (auto [i, x] : llvm::enumerate(logs)) {
    inputs.assign({Scalar::ofFloat(x)});
    for (Value capture : op.getGateCaptures()) {
      const ReferenceValue &own = *get(capture);
      bool isWide = own.shape.size() > 1;
      inputs.push_back(Scalar::ofFloat(
          own.data[isWide ? size_t(head) * width + i % width : size_t(head)]));
    }
    gate->evaluate(inputs, results, isExact ? Precision::F64 : Precision::F32);
    x = results[0].f;
  }
  return logs;
}

void ScanEvaluator::finalize(std::vector<double> &outputs, int64_t sequence,
                             int64_t outputHead) const {
  if (!last)
    return;
  const Sequence &own = sequences[size_t(sequence)];
  auto width = size_t(dv);
  std::vector<std::vector<double>> tokens;
  for (Value capture : op.getFinalizeCaptures())
    tokens.push_back(
        get(capture)->shape.size() <= 2
            ? std::vector<double>()
            : rows(capture, sequence, outputHead, own.begin, own.queryEnd));
  Scalars inputs, results;
  for (auto [i, x] : llvm::enumerate(outputs)) {
    inputs.assign({Scalar::ofFloat(x)});
    for (auto [capture, rows] :
         llvm::zip_equal(op.getFinalizeCaptures(), tokens)) {
      const ReferenceValue &all = *get(capture);
      double y = all.shape.size() > 2 ? rows[i]
                 : all.shape.size() == 2
                     ? all.data[size_t(outputHead) * width + i % width]
                     : all.data[size_t(outputHead)];
      inputs.push_back(Scalar::ofFloat(y));
    }
    last->evaluate(inputs, results, isExact ? Precision::F64 : Precision::F32);
    x = results[0].f;
  }
}

reference::ScanProblem ScanEvaluator::makeProblem(int64_t sequence,
                                                  int64_t outputHead,
                                                  const Sequence &own) {
  using Gates = reference::ScanProblem::Gates;
  int64_t head = outputHead * stateHeads / outputHeads;
  auto ofState = [&](Value operand) {
    return rows(operand, sequence, head, own.begin, own.end);
  };
  reference::ScanProblem p;
  p.tokens = own.end - own.begin;
  p.keyChannels = dk;
  p.valueChannels = dv;
  p.q = features(op.getQuery(), sequence, outputHead * queryHeads / outputHeads,
                 own.begin, own.queryEnd);
  p.k = features(op.getKey(), sequence, head * keyHeads / stateHeads, own.begin,
                 own.end);
  p.v = rows(op.getValue(), sequence, head * valueHeads / stateHeads, own.begin,
             own.end);
  if (op.getScale())
    p.scale = get(op.getScale())->data[0];
  if (op.getDecay())
    p.gates = !op.hasChannelGates() ? Gates::head
              : op.getValueGates()  ? Gates::value
                                    : Gates::key;
  p.decay = gates(sequence, head, own.begin, own.end);
  p.weight = ofState(op.getWeight());
  p.logWeight = ofState(op.getLogWeight());
  p.beta = ofState(op.getDelta());
  p.eraseA = ofState(op.getEraseA());
  p.eraseB = ofState(op.getEraseB());
  if (const ReferenceValue *bonus = get(op.getBonus()))
    p.bonus.assign(bonus->data.begin() + head * dk,
                   bonus->data.begin() + (head + 1) * dk);
  p.eraseBefore = op.getEraseBefore();
  p.readBefore = op.getReadBefore();
  p.whole = op.getWhole();
  p.normalize = op.getNormalize();
  return p;
}

int64_t ScanEvaluator::slotOf(int64_t sequence) const {
  if (!op.getSlot())
    return sequence;
  auto slot = int64_t(get(op.getSlot())->data[size_t(sequence)]);
  int64_t slots = get(op.getPool()[0])->shape[0];
  return slot >= 0 && slot < slots ? slot : -1;
}

/// A matrix of so many rows.
static std::vector<double> transposed(ArrayRef<double> matrix, int64_t rows) {
  std::vector<double> result(matrix.size());
  size_t cols = rows ? matrix.size() / size_t(rows) : 0;
  for (size_t r = 0; r < size_t(rows); ++r)
    for (size_t c = 0; c < cols; ++c)
      result[c * size_t(rows) + r] = matrix[r * cols + c];
  return result;
}

reference::ScanState ScanEvaluator::loadState(int64_t sequence, int64_t head) {
  reference::ScanState state;
  std::vector<const ReferenceValue *> from;
  for (Value init : op.getInit())
    from.push_back(get(init));
  for (const ReferenceValue &pool : pools)
    from.push_back(&pool);
  int64_t where = pools.empty() ? sequence : slotOf(sequence);
  if (from.empty() || where < 0)
    return state;
  auto part = [&](const ReferenceValue *value, int64_t size) {
    auto first = value->data.begin() + (where * stateHeads + head) * size;
    return std::vector<double>(first, first + size);
  };
  state.matrix = part(from[0], dk * dv);
  if (op.getValuesFirst())
    state.matrix = transposed(state.matrix, dv);
  if (op.getNormalize())
    state.sum = part(from[1], dk);
  if (op.getLogWeight())
    state.largest = part(from.back(), 1).front();
  return state;
}

void ScanEvaluator::storeState(const reference::ScanState &state,
                               int64_t sequence, int64_t head) {
  int64_t where = pools.empty() ? sequence : slotOf(sequence);
  if (states.empty() || where < 0)
    return;
  auto store = [&](ReferenceValue *to, ArrayRef<double> from) {
    llvm::copy(from, to->data.begin() +
                         (where * stateHeads + head) * int64_t(from.size()));
  };
  // A narrow pool holds what it can.
  std::vector<double> matrix =
      op.getValuesFirst() ? transposed(state.matrix, dk) : state.matrix;
  if (!isExact && !pools.empty()) {
    Type type =
        cast<RankedTensorType>(op.getPool()[0].getType()).getElementType();
    for (double &x : matrix)
      x = type.isBF16()  ? ::attn::support::roundToBF16(x)
          : type.isF16() ? ::attn::support::roundToF16(x)
                         : x;
  }
  store(states[0], matrix);
  if (op.getNormalize())
    store(states[1], state.sum);
  if (op.getLogWeight())
    store(states.back(), state.largest);
}

/// The state behind some tokens, from one before them.
reference::ScanState
ScanEvaluator::scanned(const reference::ScanProblem &problem,
                       reference::ScanState state,
                       std::vector<double> &outputs) const {
  if (isExact) {
    outputs = reference::scan(problem, state);
  } else {
    const reference::SumOrder &how = reference::sumOrders[options.order];
    outputs = reference::emulatedScan(
        problem, state,
        {how.tiles ? options.tile : 1, how.lanes, how.backwards,
         options.rounding == ReferenceOptions::Rounding::BF16 &&
             !op.getL2norm() && op.getFeature().empty()});
  }
  return state;
}

void ScanEvaluator::evaluate(int64_t sequence, int64_t outputHead) {
  reference::ScanProblem problem =
      makeProblem(sequence, outputHead, sequences[size_t(sequence)]);
  int64_t group = outputHeads / stateHeads, head = outputHead / group;
  std::vector<double> result;
  reference::ScanState state =
      scanned(problem, loadState(sequence, head), result);
  finalize(result, sequence, outputHead);
  if (!isExact && !cast<RankedTensorType>(op.getOutputs()[0].getType())
                       .getElementType()
                       .isF32())
    for (double &x : result)
      x = ::attn::detail::roundTo(x, options.rounding);
  const Sequence &own = sequences[size_t(sequence)];
  int64_t lead = op.isPacked() ? 0 : sequence * outputHeads;
  int64_t length = output->shape[output->shape.size() - 2];
  llvm::copy(result, output->data.begin() +
                         ((lead + outputHead) * length + own.begin) * dv);
  // Heads that read one state leave it once.
  if (outputHead % group == 0)
    storeState(state, sequence, head);
}

//===----------------------------------------------------------------------===//
// All of them
//===----------------------------------------------------------------------===//

LogicalResult ScanEvaluator::prepare() {
  if (failed(findSequences()) || failed(checkShapes()))
    return failure();
  for (auto [region, bound] : {std::pair(&op.getFeature(), &feature),
                               {&op.getGate(), &gate},
                               {&op.getFinalize(), &last}}) {
    if (region->empty())
      continue;
    FailureOr<BoundRegion> compiled = BoundRegion::compile(*region, {});
    if (failed(compiled))
      return failure();
    *bound = std::move(*compiled);
  }
  return success();
}

LogicalResult ScanEvaluator::run() {
  if (failed(prepare()))
    return failure();
  std::vector<int64_t> shape = get(op.getQuery())->shape;
  shape[shape.size() - 3] = outputHeads;
  shape.back() = dv;
  output = &values.define(op.getOutputs()[0], shape);
  for (auto [part, result] : llvm::enumerate(op.getOutputs().drop_front()))
    states.push_back(
        &values.define(result, stateShape(part, int64_t(sequences.size()))));
  for (Value pool : op.getPool()) {
    states.push_back(values.get(pool));
    pools.push_back(*states.back());
  }
  if (options.rowOffset < 0) // No row is asked for.
    return success();

  int64_t count = int64_t(sequences.size()) * outputHeads;
  std::atomic<int64_t> next{0};
  auto work = [&](bool speaks) {
    for (int64_t n; (n = next++) < count;) {
      if (speaks && options.progress)
        options.progress(n, count);
      evaluate(n / outputHeads, n % outputHeads);
    }
  };
  constexpr int64_t mostThreads = 32;
  int64_t threads = std::min(
      {count, mostThreads, int64_t(std::thread::hardware_concurrency())});
  std::vector<std::thread> others;
  for (int64_t i = 1; i < threads; ++i)
    others.emplace_back(work, /*speaks=*/false);
  work(/*speaks=*/true);
  for (std::thread &other : others)
    other.join();
  return success();
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

std::vector<double> ScanEvaluator::mapOf(ScanPartialOp parts,
                                         reference::ScanProblem problem) {
  if (parts.isErasing()) {
    // The same scan of an identity, to which nothing is written.
    problem.valueChannels = dk;
    problem.v.assign(size_t(problem.tokens * dk), 0);
    problem.weight.assign(size_t(problem.tokens), 1);
    reference::ScanState state;
    state.matrix.assign(size_t(dk * dk), 0);
    for (size_t d = 0; d < size_t(dk); ++d)
      state.matrix[d * size_t(dk) + d] = 1;
    std::vector<double> outputs;
    return scanned(problem, state, outputs).matrix;
  }
  size_t width =
      !op.hasChannelGates() ? 1 : size_t(op.getValueGates() ? dv : dk);
  std::vector<double> sums(width);
  auto rounded = [&](double x) { return isExact ? x : double(float(x)); };
  for (size_t i = 0; i < problem.decay.size(); ++i)
    sums[i % width] = rounded(sums[i % width] + problem.decay[i]);
  for (double &x : sums)
    x = parts.getLogWeight() ? x : rounded(std::exp(x));
  return sums;
}

void ScanEvaluator::evaluatePart(ScanPartialOp parts, int64_t part,
                                 int64_t sequence, int64_t head) {
  auto count = static_cast<int64_t>(parts.getSplits());
  int64_t tokens = get(op.getKey())->shape[2];
  int64_t size = (tokens + count - 1) / count;
  Sequence own = sequences[size_t(sequence)];
  own.begin = std::min(part * size, own.end);
  own.end = own.queryEnd = std::min((part + 1) * size, own.end);
  reference::ScanProblem problem = makeProblem(sequence, head, own);
  std::vector<double> outputs;
  reference::ScanState state = scanned(problem, {}, outputs);
  state.matrix.resize(size_t(dk * dv));
  state.sum.resize(size_t(dk));
  int64_t count0 = int64_t(sequences.size());
  auto store = [&](ReferenceValue *to, ArrayRef<double> from) {
    llvm::copy(from, to->data.begin() +
                         ((part * count0 + sequence) * stateHeads + head) *
                             int64_t(from.size()));
  };
  size_t next = 0;
  store(states[next++], state.matrix);
  if (op.getNormalize())
    store(states[next++], state.sum);
  if (op.getLogWeight())
    store(states[next++], state.largest);
  if (parts.hasMaps())
    store(states[next++], mapOf(parts, problem));
}

LogicalResult ScanEvaluator::runParts(ScanPartialOp parts) {
  if (failed(prepare()))
    return failure();
  auto count = int64_t(sequences.size());
  for (auto [i, result] : llvm::enumerate(parts.getOutputs())) {
    auto type = cast<RankedTensorType>(result.getType());
    std::vector<int64_t> shape = type.getShape();
    shape[1] = count, shape[2] = stateHeads;
    states.push_back(&values.define(result, shape));
  }
  for (int64_t part = 0; part < int64_t(parts.getSplits()); ++part)
    for (int64_t sequence = 0; sequence < count; ++sequence)
      for (int64_t head = 0; head < stateHeads; ++head)
        evaluatePart(parts, part, sequence, head);
  return success();
}

namespace attn::detail {
LogicalResult evaluateScanPartial(Operation *op, const FunctionValues &values,
                                  const ReferenceOptions &options) {
  auto parts = cast<ScanPartialOp>(op);
  OpBuilder builder(op->getContext());
  OwningOpRef<ScanOp> scan(parts.makeScan(builder));
  return ScanEvaluator(*scan, values, options).runParts(parts);
}

LogicalResult evaluateScan(Operation *op, const FunctionValues &values,
                           const ReferenceOptions &options) {
  return ScanEvaluator(cast<ScanOp>(op), values, options).run();
}
} // namespace attn::detail
