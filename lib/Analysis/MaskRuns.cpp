//===- MaskRuns.cpp - How long a mask's runs of live keys are -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskRuns.h"
#include "ScheduleRules.h"
#include "attn/Analysis/CostModel.h"
#include "attn/Analysis/MaskAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseMap.h"
#include <algorithm>
#include <numeric>
#include <vector>

using namespace mlir;
using namespace attn;

namespace {
/// Integers of a region by the positions, folded.
class PositionValues {
public:
  explicit PositionValues(Region &region) : region(region) {}

  int64_t get(Value value, int64_t row, int64_t key) {
    known.clear();
    Block::BlockArgListType arguments = region.getArguments();
    for (auto [argument, position] :
         llvm::zip(arguments, ArrayRef<int64_t>{0, 0, row, key}))
      known[argument] = IntegerAttr::get(argument.getType(), position);
    IntegerAttr found = fold(value);
    if (!found) {
      hasFailed = true;
      return 0;
    }
    return found.getType().isInteger(1) ? found.getValue().getZExtValue()
                                        : found.getValue().getSExtValue();
  }

  bool hasFailed = false;

private:
  IntegerAttr fold(Value value) {
    if (Attribute found = known.lookup(value))
      return dyn_cast<IntegerAttr>(found);
    Operation *op = value.getDefiningOp();
    if (!op || op->getNumResults() != 1 || op->getNumRegions())
      return {};
    SmallVector<Attribute> operands;
    for (Value operand : op->getOperands())
      operands.push_back(fold(operand));
    SmallVector<OpFoldResult> results;
    if (llvm::is_contained(operands, Attribute()) ||
        failed(op->fold(operands, results)) || results.empty())
      return {};
    auto attribute = dyn_cast<Attribute>(results.front());
    auto found = attribute ? dyn_cast<IntegerAttr>(attribute)
                           : fold(cast<Value>(results.front()));
    known[value] = found;
    return found;
  }

  Region &region;
  DenseMap<Value, Attribute> known;
};

/// The tiles of a mask that may have live pairs, of some rows and keys.
class TouchedTiles {
public:
  explicit TouchedTiles(Region &mask) : values(copy) {
    IRMapping mapping;
    mask.cloneInto(&copy, mapping);
    analysis.emplace(copy);
    for (const MaskAnalysis::Sample &sample : analysis->getSamples()) {
      std::vector<int64_t> &all = samples[sample.value];
      for (int64_t i = 0; i < rules::runPositions && !values.hasFailed; ++i)
        all.push_back(values.get(sample.value, i, i));
    }
  }

  /// Their keys, or 0 where the mask does not tell.
  int64_t countKeys(int64_t rows, int64_t keys) {
    std::vector<int64_t> counts = keysOfRows(rows, keys);
    return std::accumulate(counts.begin(), counts.end(), int64_t(0));
  }

  /// Pairs of tiles with live ones, and of those of them that may have dead
  /// ones; none where the mask does not tell. Of whole tiles of rows alone.
  std::optional<std::pair<int64_t, int64_t>> countPairs(int64_t rows,
                                                        int64_t keys) {
    int64_t touched = 0, tested = 0;
    for (int64_t i = 0; i + rows <= rules::runPositions; i += rows)
      for (int64_t j = 0; j + keys <= rules::runPositions; j += keys) {
        auto found = classify({i, i + rows - 1}, {j, j + keys - 1});
        touched += found.dead ? 0 : rows * keys;
        tested += found.dead || found.full ? 0 : rows * keys;
      }
    if (values.hasFailed)
      return std::nullopt;
    return std::pair(touched, tested);
  }

  /// The same for each tile of rows; none where the mask does not tell.
  std::vector<int64_t> keysOfRows(int64_t rows, int64_t keys) {
    std::vector<int64_t> counts;
    for (int64_t i = 0; i + rows <= rules::runPositions; i += rows) {
      counts.push_back(0);
      for (int64_t j = 0; j + keys <= rules::runPositions; j += keys)
        counts.back() +=
            mayBeLive({i, i + rows - 1}, {j, j + keys - 1}) ? keys : 0;
    }
    return values.hasFailed ? std::vector<int64_t>() : counts;
  }

private:
  using Range = std::pair<int64_t, int64_t>;

  bool mayBeLive(Range rows, Range keys) { return !classify(rows, keys).dead; }

  MaskAnalysis::NumberClass classify(Range rows, Range keys) {
    auto uniform = [&](Value value) { return values.get(value, 0, 0); };
    auto cell = [&](Value value) {
      return values.get(value, rows.first, keys.first);
    };
    auto sample = [&](Value value) {
      auto isOnKey = [&](const MaskAnalysis::Sample &known) {
        return known.value == value && known.onKey;
      };
      auto [first, last] =
          llvm::any_of(analysis->getSamples(), isOnKey) ? keys : rows;
      const std::vector<int64_t> &all = samples[value];
      auto [least, greatest] =
          std::minmax_element(all.begin() + first, all.begin() + last + 1);
      return Range(*least, *greatest);
    };
    if (values.hasFailed)
      return {/*dead=*/false, /*full=*/false};
    return analysis->computeBoxClass(uniform, sample, rows.first, rows.second,
                                     keys.first, keys.second, cell);
  }

  Region copy;
  PositionValues values;
  std::optional<MaskAnalysis> analysis;
  DenseMap<Value, std::vector<int64_t>> samples;
};
} // namespace

bool attn::comparesCoordinates(Region &mask) {
  if (mask.empty())
    return false;
  MaskAnalysis analysis(mask);
  auto isSample = [&](Value value, bool onKey) {
    return llvm::any_of(analysis.getSamples(), [&](auto &sample) {
      return sample.value == value && sample.onKey == onKey;
    });
  };
  int64_t count = 0;
  mask.walk([&](arith::SubIOp op) {
    for (bool onKey : {false, true})
      count += isSample(op.getLhs(), onKey) && isSample(op.getRhs(), !onKey);
  });
  return count > 1;
}

/// The largest multiple of `unit` by which a mask divides the keys' positions,
/// or 0.
static int64_t findKeyBlock(Region &mask, int64_t unit) {
  Value key = mask.getArgument(3);
  int64_t found = 0;
  mask.walk([&](Operation *op) {
    if (!isa<arith::DivUIOp, arith::DivSIOp, arith::FloorDivSIOp>(op))
      return;
    Value over = op->getOperand(0);
    while (auto cast = over.getDefiningOp<arith::IndexCastOp>())
      over = cast.getIn();
    IntegerAttr by;
    if (over == key && matchPattern(op->getOperand(1), m_Constant(&by)) &&
        by.getValue().isStrictlyPositive() && by.getInt() % unit == 0)
      found = std::max(found, by.getInt());
  });
  return found;
}

ScheduleSizes attn::fitNarrow(Region &mask, const ScheduleProblem &problem,
                              const ScheduleSizes &sizes,
                              const TargetInfo &target) {
  const int64_t rows = MmaShape::warpgroup().m;
  const ScheduleSizes two = {2 * rows, rows, rules::keysOfNarrow};
  const ScheduleSizes three = {3 * rows, rows, rules::keysOfNarrow};
  if (mask.empty() || sizes.rows != rows || sizes.blockQ != three.blockQ ||
      !hasCost(problem, target))
    return sizes;
  // The account has no room for the words of bits beside 128 keys of three
  // warpgroups; ptxas has.
  ScheduleProblem withoutWords = problem;
  withoutWords.listedBits = false;
  auto fits = [&](const ScheduleSizes &of) {
    return computeBudget(withoutWords, of, target).fits();
  };
  if (mask.getNumArguments() != 4) {
    bool isLonger = sizes.blockK < three.blockK && fits(three);
    bool hasBlocks = computeBudget(problem, three, target).fits() &&
                     findKeyBlock(mask, three.blockK);
    return isLonger && (problem.listedBits || hasBlocks) ? three : sizes;
  }
  // What a step of a tested tile takes is told apart here.
  ScheduleProblem whole = problem;
  whole.scoreOps -= problem.listedBits ? opsOfBit : 0;
  TouchedTiles tiles(mask);
  auto predict = [&](const ScheduleSizes &of) -> std::optional<double> {
    auto pairs = tiles.countPairs(of.blockQ, of.blockK);
    if (!pairs)
      return std::nullopt;
    double steps =
        (double(pairs->first) + rules::stepsOfTested * double(pairs->second)) /
        double(of.blockQ * of.blockK);
    double blocks = double(rules::runPositions / of.blockQ);
    double beside = rules::cyclesOfTile +
                    rules::cyclesOfGroup * double(of.blockQ / of.rows);
    return (steps * predictCost(whole, of, target).step / blocks + beside) /
           double(of.blockQ);
  };
  ScheduleSizes best = sizes;
  std::optional<double> least = predict(sizes);
  for (const ScheduleSizes &other : {three, two})
    if (std::optional<double> cycles = predict(other);
        fits(other) && least && cycles && *cycles < *least) {
      least = cycles;
      best = other;
    }
  return best;
}

ScheduleSizes attn::fitRuns(Region &mask, const ScheduleSizes &sizes) {
  constexpr int64_t least = 64;
  ScheduleSizes halves = sizes;
  halves.blockK /= 2;
  if (mask.empty() || sizes.blockK % 2 || halves.blockK < least)
    return sizes;
  if (comparesCoordinates(mask))
    return halves;
  // Beside the positions a region has captures.
  if (mask.getNumArguments() != 4)
    return sizes;
  TouchedTiles tiles(mask);
  int64_t all = tiles.countKeys(sizes.blockQ, sizes.blockK);
  int64_t some = tiles.countKeys(sizes.blockQ, halves.blockK);
  return all && some * 100 <= all * rules::shortRuns ? halves : sizes;
}

bool attn::firstRowsAreLong(Region &mask, const ScheduleSizes &sizes) {
  if (mask.empty() || mask.getNumArguments() != 4)
    return false;
  std::vector<int64_t> counts =
      TouchedTiles(mask).keysOfRows(sizes.blockQ, sizes.blockK);
  if (counts.size() < 4)
    return false;
  int64_t first = counts.front(), all = 0, late = 0;
  for (auto [i, count] : llvm::enumerate(counts)) {
    if (count > first)
      return false;
    all += count;
    late += 2 * i >= counts.size() ? count : 0;
  }
  int64_t tiles = counts.size();
  return 2 * first * tiles >= 3 * all && 2 * late <= all;
}
