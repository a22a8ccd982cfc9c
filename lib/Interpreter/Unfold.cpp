//===- Unfold.cpp - attn.unfold, evaluated --------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Unfold.h"
#include "attn/Interpreter/Interpreter.h"

using namespace mlir;
using namespace mlir::attn;
using ::attn::Precision;
using ::attn::ReferenceOptions;
using ::attn::ReferenceValue;
using ::attn::RegionProgram;
using ::attn::Scalar;
using ::attn::detail::FunctionValues;

namespace {
class UnfoldEvaluator {
public:
  UnfoldEvaluator(UnfoldOp op, const FunctionValues &values,
                  const ReferenceOptions &options)
      : op(op), values(values), options(options), numRows(op.getNumRowStates()),
        numStates(op.getStates().size()), numScores(op.getScores().size()),
        numValues(op.getValues().size()) {}
  LogicalResult run();

private:
  using Numbers = SmallVector<double>;
  /// A state: a row's numbers, then for each other one those of the channels.
  struct State {
    Numbers rows;
    SmallVector<Numbers> channels;
    /// All of one channel.
    Numbers of(int64_t channel) const {
      Numbers all = rows;
      for (const Numbers &numbers : channels)
        all.push_back(numbers[channel]);
      return all;
    }
  };

  LogicalResult compile();
  const ReferenceValue *get(Value value) const { return values.get(value); }
  std::vector<double> call(const std::optional<RegionProgram> &program,
                           ArrayRef<double> first, ArrayRef<double> rest,
                           bool hasKey = false, int64_t key = 0) const;
  State load(ValueRange tensors, int64_t row) const;
  void store(const State &state, int64_t row);
  State begin() const;
  Numbers scoresOf(int64_t row, int64_t key) const;
  Numbers valuesOf(int64_t batch, int64_t head, int64_t key,
                   int64_t channel) const;
  State step(const State &state, int64_t batch, int64_t head, int64_t row,
             int64_t key) const;
  State finish(const State &state, int64_t row) const;
  State back(const State &state, const State &behind, int64_t batch,
             int64_t head, int64_t row, int64_t key);
  void takeRow(int64_t batch, int64_t head, int64_t row);

  mutable UnfoldOp op; // whose accessors are not const
  const FunctionValues &values;
  const ReferenceOptions &options;
  unsigned numRows, numStates, numScores, numValues;
  std::optional<RegionProgram> identity, stepOf, backRows, backChannels,
      finishRows, finishChannels;
  Numbers params;
  std::vector<ReferenceValue *> outputs;
  int64_t numChannels = 1, numKeys = 0, keyHeads = 0, first = 0, width = 0;
};
} // namespace

LogicalResult UnfoldEvaluator::compile() {
  auto compile = [&](Region &region, std::optional<RegionProgram> &into) {
    if (region.empty())
      return success();
    FailureOr<RegionProgram> program = RegionProgram::compile(region);
    if (failed(program))
      return failure();
    into = std::move(*program);
    return success();
  };
  return success(succeeded(compile(op.getIdentity(), identity)) &&
                 succeeded(compile(op.getStep(), stepOf)) &&
                 succeeded(compile(op.getBackRows(), backRows)) &&
                 succeeded(compile(op.getBackChannels(), backChannels)) &&
                 succeeded(compile(op.getFinishRows(), finishRows)) &&
                 succeeded(compile(op.getFinishChannels(), finishChannels)));
}

std::vector<double>
UnfoldEvaluator::call(const std::optional<RegionProgram> &program,
                      ArrayRef<double> before, ArrayRef<double> rest,
                      bool hasKey, int64_t key) const {
  SmallVector<Scalar> arguments, results;
  for (double x : before)
    arguments.push_back(Scalar::ofFloat(x));
  if (hasKey)
    arguments.push_back(Scalar::ofInt(first + key));
  for (ArrayRef<double> more : {rest, ArrayRef<double>(params)})
    for (double x : more)
      arguments.push_back(Scalar::ofFloat(x));
  bool isExact = options.rounding == ReferenceOptions::Rounding::Exact;
  program->evaluate(arguments, results,
                    isExact ? Precision::F64 : Precision::F32);
  std::vector<double> numbers;
  for (Scalar scalar : results)
    numbers.push_back(scalar.f);
  return numbers;
}

UnfoldEvaluator::State UnfoldEvaluator::load(ValueRange tensors,
                                             int64_t row) const {
  State state;
  for (Value tensor : tensors) {
    const ReferenceValue *value = get(tensor);
    if (value->shape.size() == 3) {
      state.rows.push_back(value->data[row]);
      continue;
    }
    auto begin = value->data.begin() + row * numChannels;
    state.channels.emplace_back(begin, begin + numChannels);
  }
  return state;
}

void UnfoldEvaluator::store(const State &state, int64_t row) {
  unsigned first = outputs.size() - numStates;
  for (unsigned i = 0; i < numStates; ++i) {
    std::vector<double> &data = outputs[first + i]->data;
    if (i < numRows)
      data[row] = state.rows[i];
    else
      llvm::copy(state.channels[i - numRows], data.begin() + row * numChannels);
  }
}

UnfoldEvaluator::State UnfoldEvaluator::begin() const {
  std::vector<double> numbers = call(identity, {}, {});
  State state;
  state.rows.assign(numbers.begin(), numbers.begin() + numRows);
  for (unsigned i = numRows; i < numStates; ++i)
    state.channels.emplace_back(numChannels, numbers[i]);
  return state;
}

UnfoldEvaluator::Numbers UnfoldEvaluator::scoresOf(int64_t row,
                                                   int64_t key) const {
  Numbers scores;
  for (Value value : op.getScores())
    scores.push_back(get(value)->data[row * width + key]);
  return scores;
}

UnfoldEvaluator::Numbers UnfoldEvaluator::valuesOf(int64_t batch, int64_t head,
                                                   int64_t key,
                                                   int64_t channel) const {
  int64_t at = (batch * keyHeads + head) * numKeys + key;
  Numbers numbers;
  for (Value value : op.getValues())
    numbers.push_back(get(value)->data[at * numChannels + channel]);
  return numbers;
}

UnfoldEvaluator::State UnfoldEvaluator::step(const State &state, int64_t batch,
                                             int64_t head, int64_t row,
                                             int64_t key) const {
  State next = state;
  Numbers scores = scoresOf(row, key);
  for (int64_t c = 0; c < numChannels; ++c) {
    Numbers before = scores;
    before.append(valuesOf(batch, head, key, c));
    std::vector<double> numbers =
        call(stepOf, before, state.of(c), /*hasKey=*/true, key);
    for (unsigned i = 0; i < numStates; ++i)
      (i < numRows ? next.rows[i] : next.channels[i - numRows][c]) = numbers[i];
  }
  return next;
}

UnfoldEvaluator::State UnfoldEvaluator::finish(const State &state,
                                               int64_t row) const {
  unsigned rowOuts = op.getNumRowOuts();
  State outs = load(op.getOuts(), row), behind;
  Numbers rest = state.rows;
  rest.append(outs.rows);
  std::vector<double> ofRow = call(finishRows, {}, rest);
  behind.rows.assign(ofRow.begin(), ofRow.end());
  behind.channels.resize(numStates - numRows);
  for (int64_t c = 0; c < numChannels && numStates != numRows; ++c) {
    rest = state.of(c);
    for (size_t i = 0; i + rowOuts < op.getOuts().size(); ++i)
      rest.push_back(outs.channels[i][c]);
    std::vector<double> numbers = call(finishChannels, {}, rest);
    for (unsigned i = 0; i < numStates; ++i)
      if (i < numRows)
        behind.rows[i] += numbers[i];
      else
        behind.channels[i - numRows].push_back(numbers[i]);
  }
  return behind;
}

UnfoldEvaluator::State UnfoldEvaluator::back(const State &state,
                                             const State &behind, int64_t batch,
                                             int64_t head, int64_t row,
                                             int64_t key) {
  Numbers scores = scoresOf(row, key), rest = state.rows;
  rest.append(behind.rows);
  std::vector<double> ofRow =
      call(backRows, scores, rest, /*hasKey=*/true, key);
  State ahead;
  ahead.rows.assign(ofRow.begin() + numScores, ofRow.end());
  ahead.channels.resize(numStates - numRows);
  int64_t at = (batch * keyHeads + head) * numKeys + key;
  for (int64_t c = 0; c < numChannels && numStates != numRows; ++c) {
    Numbers before = scores;
    before.append(valuesOf(batch, head, key, c));
    rest = state.of(c);
    for (const Numbers &numbers : behind.channels)
      rest.push_back(numbers[c]);
    std::vector<double> kept =
        call(backChannels, before, rest, /*hasKey=*/true, key);
    for (unsigned i = 0; i < numScores; ++i)
      ofRow[i] += kept[i];
    for (unsigned i = 0; i < numValues; ++i)
      outputs[numScores + i]->data[at * numChannels + c] += kept[numScores + i];
    for (unsigned i = 0; i < numStates; ++i) {
      double number = kept[numScores + numValues + i];
      if (i < numRows)
        ahead.rows[i] += number;
      else
        ahead.channels[i - numRows].push_back(number);
    }
  }
  for (unsigned i = 0; i < numScores; ++i)
    outputs[i]->data[row * width + key] = ofRow[i];
  return ahead;
}

void UnfoldEvaluator::takeRow(int64_t batch, int64_t head, int64_t row) {
  State state = first == 0 ? begin() : load(op.getStates(), row);
  std::vector<std::pair<int64_t, State>> history;
  for (int64_t key = 0; key < numKeys; ++key) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (llvm::all_of(scoresOf(row, key),
                     [&](double score) { return score == -infinity; }))
      continue;
    if (op.goesBack())
      history.emplace_back(key, state);
    state = step(state, batch, head, row, key);
  }
  if (op.goesBack()) {
    bool isLast = first + numKeys == int64_t(get(op.getKeys())->data[0]);
    State behind = isLast ? finish(state, row) : load(op.getBehind(), row);
    for (auto &[key, before] : llvm::reverse(history))
      behind = back(before, behind, batch, head, row, key);
    state = behind;
  }
  store(state, row);
}

LogicalResult UnfoldEvaluator::run() {
  if (failed(compile()))
    return failure();
  for (Value param : op.getParams())
    params.push_back(get(param)->data[0]);
  const ReferenceValue *scores = get(op.getScores().front());
  const ReferenceValue *states = get(op.getStates().front());
  int64_t batches = states->shape[0], heads = states->shape[1],
          rows = states->shape[2];
  width = scores->shape[3];
  numKeys = width;
  keyHeads = heads;
  if (numValues) {
    keyHeads = get(op.getValues().front())->shape[1];
    numKeys = get(op.getValues().front())->shape[2];
  }
  for (Value state : op.getStates())
    if (get(state)->shape.size() == 4)
      numChannels = get(state)->shape[3];
  first = int64_t(get(op.getFirst())->data[0]);
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    std::vector<int64_t> shape = {batches, heads, rows};
    unsigned state = i - (op.getNumResults() - numStates);
    if (op.goesBack() && i < numScores)
      shape.push_back(width);
    else if (op.goesBack() && i < numScores + numValues)
      shape = {batches, keyHeads, numKeys, numChannels};
    else if (state >= numRows)
      shape.push_back(numChannels);
    outputs.push_back(&values.define(result, shape));
  }
  int64_t group = keyHeads ? heads / keyHeads : 1;
  for (int64_t row = 0; row < batches * heads * rows; ++row)
    takeRow(row / (heads * rows),
            row / rows % heads / std::max(group, int64_t(1)), row);
  return success();
}

namespace attn::detail {
LogicalResult evaluateUnfold(UnfoldOp op, const FunctionValues &values,
                             const ReferenceOptions &options) {
  return UnfoldEvaluator(op, values, options).run();
}
} // namespace attn::detail
