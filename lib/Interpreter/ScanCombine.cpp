//===- ScanCombine.cpp - Evaluates attn.scan_combine ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowReduction.h"
#include "Scans.h"
#include "attn/Dialect/Attn/IR/Scan.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::attn;
using ::attn::ReferenceOptions;
using ::attn::ReferenceValue;
using ::attn::detail::FunctionValues;

namespace {
/// What some tokens of one head do: a state, and what becomes of another.
struct Part {
  std::vector<double> matrix, sum, map;
  double largest = -std::numeric_limits<double>::infinity();
};

class CombineEvaluator {
public:
  CombineEvaluator(ScanCombineOp op, const FunctionValues &values,
                   const ReferenceOptions &options)
      : op(op), values(values),
        isExact(options.rounding == ReferenceOptions::Rounding::Exact) {}

  LogicalResult run() {
    const std::vector<int64_t> &shape = values.get(op.getStates()[0])->shape;
    parts = shape[0], heads = shape[2];
    dk = size_t(op.getKeyChannels()), dv = size_t(op.getValueChannels());
    SmallVector<Value> given(op.getStates());
    if (op.getMaps())
      given.push_back(op.getMaps());
    for (Value value : given)
      if (failed(check(value, {parts, shape[1], heads})))
        return failure();
    for (Value value : op.getInit())
      if (failed(check(value, {shape[1], heads})))
        return failure();
    std::vector<ReferenceValue *> outputs;
    for (Value result : op.getOutputs()) {
      std::vector<int64_t> sizes =
          cast<RankedTensorType>(result.getType()).getShape();
      size_t first = op.getPrefixes() ? 1 : 0;
      if (first)
        sizes[0] = parts;
      sizes[first] = shape[1], sizes[first + 1] = heads;
      outputs.push_back(&values.define(result, sizes));
    }
    int64_t blocks = shape[1] * heads;
    for (int64_t block = 0; block < blocks; ++block) {
      Part product = first(block);
      for (int64_t part = 0; part < parts; ++part) {
        product = multiply(
            product, read(op.getStates(), op.getMaps(), part * blocks + block));
        if (op.getPrefixes())
          write(product, outputs, part * blocks + block);
      }
      if (!op.getPrefixes())
        write(product, outputs, block);
    }
    return success();
  }

private:
  LogicalResult check(Value value, std::vector<int64_t> lead) {
    const std::vector<int64_t> &shape = values.get(value)->shape;
    if (shape.size() >= lead.size() &&
        std::equal(lead.begin(), lead.end(), shape.begin()))
      return success();
    return op.emitOpError("expected states and maps of as many parts, "
                          "sequences and heads");
  }

  double rounded(double x) const { return isExact ? x : double(float(x)); }

  Part read(ValueRange states, Value maps, int64_t block) {
    auto numbers = [&](Value value) {
      const ReferenceValue &all = *values.get(value);
      int64_t blocks = 1;
      // As many sizes as there are before the channels of S.
      auto lead =
          size_t(cast<RankedTensorType>(states[0].getType()).getRank() - 2);
      for (size_t d = 0; d < lead; ++d)
        blocks *= all.shape[d];
      int64_t size = blocks ? int64_t(all.data.size()) / blocks : 0;
      auto begin = all.data.begin() + block * size;
      return std::vector<double>(begin, begin + size);
    };
    Part part;
    unsigned next = 0;
    part.matrix = numbers(states[next++]);
    if (op.getNormalize())
      part.sum = numbers(states[next++]);
    if (op.getLogWeight())
      part.largest = numbers(states[next++])[0];
    if (maps)
      part.map = numbers(maps);
    return part;
  }

  Part first(int64_t block) {
    if (!op.getInit().empty())
      return read(op.getInit(), Value(), block);
    Part part;
    part.matrix.resize(dk * dv);
    part.sum.resize(op.getNormalize() ? dk : 0);
    if (op.hasMatrices()) {
      part.map.resize(dk * dk);
      for (size_t d = 0; d < dk; ++d)
        part.map[d * dk + d] = 1;
    } else if (op.getMaps()) {
      size_t width = !op.hasChannels() ? 1 : op.getValueGates() ? dv : dk;
      part.map.assign(width, op.getLogWeight() ? 0 : 1);
    }
    return part;
  }

  /// A matrix of dk rows behind the map of `part`, with `added`.
  std::vector<double> apply(const Part &part, const std::vector<double> &matrix,
                            const std::vector<double> &added) {
    std::vector<double> result = added;
    size_t cols = matrix.size() / dk;
    for (size_t d = 0; d < dk; ++d)
      for (size_t c = 0; c < cols; ++c) {
        double &x = result[d * cols + c];
        if (op.hasMatrices()) {
          for (size_t i = 0; i < dk; ++i)
            x = rounded(x +
                        rounded(part.map[d * dk + i] * matrix[i * cols + c]));
          continue;
        }
        double factor = part.map.empty()     ? 1
                        : !op.hasChannels()  ? part.map[0]
                        : op.getValueGates() ? part.map[c]
                                             : part.map[d];
        x = rounded(x + rounded(factor * matrix[d * cols + c]));
      }
    return result;
  }

  Part multiply(const Part &left, Part right) {
    Part product;
    std::vector<double> map = right.map;
    if (op.getLogWeight()) {
      // Relative to the largest weight of both.
      double old = left.largest + (map.empty() ? 0 : map[0]);
      product.largest = std::max(old, right.largest);
      double from = std::isinf(product.largest) ? 0 : product.largest;
      double own = rounded(std::exp(right.largest - from));
      for (std::vector<double> *all : {&right.matrix, &right.sum})
        for (double &x : *all)
          x = rounded(x * own);
      right.map = {rounded(std::exp(old - from))};
    }
    product.matrix = apply(right, left.matrix, right.matrix);
    if (op.getNormalize())
      product.sum = apply(right, left.sum, right.sum);
    if (left.map.empty())
      return product;
    if (op.hasMatrices()) {
      product.map = apply(right, left.map, std::vector<double>(dk * dk));
      return product;
    }
    product.map = left.map;
    for (auto [x, y] : llvm::zip_equal(product.map, map))
      x = rounded(op.getLogWeight() ? x + y : x * y);
    return product;
  }

  void write(const Part &part, ArrayRef<ReferenceValue *> outputs,
             int64_t block) {
    auto store = [&](ReferenceValue *to, ArrayRef<double> from) {
      llvm::copy(from, to->data.begin() + block * int64_t(from.size()));
    };
    unsigned next = 0;
    store(outputs[next++], part.matrix);
    if (op.getNormalize())
      store(outputs[next++], part.sum);
    if (op.getLogWeight())
      store(outputs[next++], part.largest);
    if (next < outputs.size())
      store(outputs[next], part.map);
  }

  ScanCombineOp op;
  const FunctionValues &values;
  bool isExact;
  int64_t parts = 0, heads = 0;
  size_t dk = 0, dv = 0;
};
} // namespace

namespace attn::detail {
LogicalResult evaluateScanCombine(Operation *op, const FunctionValues &values,
                                  const ReferenceOptions &options) {
  return CombineEvaluator(cast<ScanCombineOp>(op), values, options).run();
}
} // namespace attn::detail
