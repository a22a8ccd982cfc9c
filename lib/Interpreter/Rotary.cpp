//===- Rotary.cpp - Rows that turn before the dot, in float64 -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All rows are turned before the reduction. Keys are so of each sequence: pages
// that two of them share have other positions in each.
//
//===----------------------------------------------------------------------===//

#include "RowReduction.h"

using namespace mlir;
using namespace ::attn::detail;
using ::attn::ReferenceValue;
using ::attn::Scalar;
using ::attn::Scalars;
using mlir::attn::RotaryPairs;

namespace {
/// Rows of one operand of all sequences, one after the other.
struct TurnedRows {
  std::vector<double> data;
  std::vector<int64_t> firsts, counts; ///< By batch; a head has `counts` rows.
  int64_t depth = 0;

  const double *row(int64_t batch, int64_t head, int64_t position) const {
    int64_t index = firsts[batch] + head * counts[batch] + position;
    return data.data() + index * depth;
  }
};
} // namespace

static std::shared_ptr<TurnedRows>
turnRows(const BoundRegion *region, const RotarySettings &settings,
         const ReferenceValue &operand, const RowSource &source,
         const std::function<int64_t(int64_t, int64_t)> &position,
         int64_t batches, int64_t heads) {
  auto turned = std::make_shared<TurnedRows>();
  int64_t depth = turned->depth = operand.shape.back();
  int64_t ownHeads = std::max<int64_t>(source.heads(operand), 1);
  int64_t half = settings.rotary.getChannels() / 2;
  bool isHalves = settings.rotary.getPairs() == RotaryPairs::halves;
  for (int64_t b = 0; b < batches; ++b) {
    int64_t count = source.numRows(operand, b);
    turned->firsts.push_back(turned->data.size() / std::max<int64_t>(depth, 1));
    turned->counts.push_back(count);
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t n = 0; n < count; ++n) {
        int64_t head = h / std::max<int64_t>(heads / ownHeads, 1);
        const double *from =
            operand.data.data() + source.rowIndex(operand, b, head, n) * depth;
        size_t start = turned->data.size();
        turned->data.insert(turned->data.end(), from, from + depth);
        for (int64_t c = 0; region && c < half; ++c) {
          double &x = turned->data[start + (isHalves ? c : 2 * c)];
          double &y = turned->data[start + (isHalves ? c + half : 2 * c + 1)];
          Scalars results;
          region->evaluate({Scalar::ofFloat(x), Scalar::ofFloat(y),
                            Scalar::ofInt(b), Scalar::ofInt(h),
                            Scalar::ofInt(position(b, n)), Scalar::ofInt(c)},
                           results, settings.precision);
          x = roundTo(results[0].f, settings.options.rounding);
          y = roundTo(results[1].f, settings.options.rounding);
        }
      }
  }
  return turned;
}

llvm::LogicalResult(::attn::detail::turnOperands)(
    const RotarySettings &settings, Region &ofQueries, Region &ofKeys,
    ArrayRef<const ReferenceValue *> captures, Reduction &reduction) {
  auto turn = [&](Region &region, const ReferenceValue &operand,
                  const RowSource &source, auto &position,
                  int64_t heads) -> std::shared_ptr<TurnedRows> {
    int64_t batches = reduction.numBatches();
    if (region.empty())
      return turnRows(nullptr, settings, operand, source, position, batches,
                      heads);
    FailureOr<BoundRegion> bound = BoundRegion::compile(region, captures);
    if (failed(bound))
      return {};
    return turnRows(&*bound, settings, operand, source, position, batches,
                    heads);
  };
  int64_t queryHeads = reduction.numHeads();
  int64_t keyHeads = reduction.keySource.heads(*reduction.keys[0]);
  // A region that reads the head sees that of the query.
  bool byQueryHead = !ofKeys.empty() && !ofKeys.getArgument(3).use_empty();
  auto queries = turn(ofQueries, *reduction.queries[0], reduction.querySource,
                      settings.queryPosition, queryHeads);
  auto keys = turn(ofKeys, *reduction.keys[0], reduction.keySource,
                   settings.keyPosition, byQueryHead ? queryHeads : keyHeads);
  if (!queries || !keys)
    return failure();
  reduction.turnedQuery = [queries](const Row &row) {
    return queries->row(row.batch, row.head, row.position);
  };
  reduction.turnedKey = [keys, byQueryHead](const Row &row, int64_t keyHead,
                                            int64_t key) {
    return keys->row(row.batch, byQueryHead ? row.head : keyHead, key);
  };
  return success();
}
