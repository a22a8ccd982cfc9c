//===- CostModel.cpp - What a schedule costs on a GPU ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/CostModel.h"
#include "ScheduleRules.h"
#include "attn/Analysis/FewRows.h"
#include "attn/Analysis/OnChip.h"

#include <algorithm>
#include <cmath>

using namespace ::attn;
using namespace ::attn::rules;

static int64_t divideUp(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}

bool attn::hasCost(const ScheduleProblem &problem, const TargetInfo &target) {
  return !target.isCpu() && takesWarpgroups(problem, target) &&
         problem.depths.size() == 1 && problem.channels.size() == 1 &&
         !problem.fixedWeights && !problem.extraScores && !problem.blockV &&
         !problem.folded &&
         paddedChannels(problem.channels.front(), target) <=
             MmaShape::warpgroup().nMax &&
         (problem.numQueries < 0 ||
          problem.numQueries > MmaShape::warpgroup().m);
}

namespace {
/// The terms of one schedule.
class Model {
public:
  Model(const ScheduleProblem &problem, const ScheduleSizes &sizes,
        const TargetInfo &target)
      : problem(problem), sizes(sizes), target(target),
        depth(paddedDepth(problem.depths.front(), target)),
        channels(paddedChannels(problem.channels.front(), target)) {
    // What nothing is known of is long, and keeps all multiprocessors busy.
    constexpr int64_t many = 4096, manyHeads = 64;
    keys = problem.numKeys >= 0 ? problem.numKeys : many;
    rows = problem.numQueries >= 0 ? problem.numQueries : std::max(keys, many);
    // Few heads leave multiprocessors idle where their rows are known to.
    heads = problem.numHeads < 0     ? manyHeads
            : problem.numQueries < 0 ? std::max(problem.numHeads, manyHeads)
                                     : problem.numHeads;
  }
  ScheduleCost predict();

private:
  void step(int64_t groups, ScheduleCost &cost) const;
  double keysOf(int64_t tile) const;
  double besideSteps() const;

  const ScheduleProblem &problem;
  const ScheduleSizes &sizes;
  const TargetInfo &target;
  double depth, channels;
  int64_t rows, keys, heads;
};
} // namespace

/// A step of so many warpgroups. Units work side by side, but never all the
/// time: the more of them are busy for as long, the more they wait.
void Model::step(int64_t groups, ScheduleCost &cost) const {
  const GpuRates &rates = target.rates;
  const MmaShape unit = MmaShape::warpgroup();
  constexpr double bytes = 2; // of an element
  double m = double(groups), tile = double(sizes.blockK);
  double scores = double(unit.m) * tile, lanes = double(unit.threads);
  double perScore = instructionsOfScore + double(problem.scoreOps);
  double tensor = 2 * scores * (depth + channels) / double(rates.groupFlops);
  double special = scores * double(1 + problem.scoreSpecials) /
                   double(rates.schedulers * rates.specialLanes);
  // Each scheduler has one warp of each warpgroup.
  double arithmetic = scores / lanes * perScore;
  double sums = double(unit.m) * channels / lanes * instructionsOfSum;
  cost.tensor = m * tensor;
  cost.special = m * special;
  cost.issue = m * (arithmetic + sums + instructionsOfStep);
  // wgmma reads the right operands, and the queries, from shared memory.
  cost.shared = m * bytes *
                (tile * (depth + channels) + double(unit.m) * depth) /
                double(rates.sharedBytes);
  cost.copies = bytes * tile * (depth + channels) / double(rates.l2PortBytes);
  cost.alone =
      latencyOfStep + tensor + special + arithmetic * exposedInstructions;
  double sum = 0;
  for (double busy : {cost.tensor, cost.special, cost.issue, cost.shared,
                      cost.copies, cost.alone})
    sum += std::pow(busy, sharpness);
  cost.step = std::pow(sum, 1 / sharpness);
}

/// What stands out of a run that whole tiles of a power of two fill.
static double raggedness(int64_t size) {
  return size & (size - 1) ? double(size) : 0;
}

/// Keys that the rows of a tile see.
double Model::keysOf(int64_t tile) const {
  double all = double(keys);
  if (problem.diagonal) {
    // The last row sees the last key.
    int64_t end = std::min((tile + 1) * sizes.blockQ, rows) + keys - rows;
    return double(std::clamp<int64_t>(end, 0, keys));
  }
  // Half of the pairs are live, in runs. A tile holds what a run leaves of it;
  // of masks that are tensors runs are mostly as many tiles of a power of two.
  if (problem.listedBits)
    return all / 2 *
           (1 +
            (raggedness(sizes.blockQ) + raggedness(sizes.blockK)) / runOfKeys);
  if (problem.listed)
    return all / 2 *
           (1 + double(sizes.blockQ + sizes.blockK) / (2 * runOfKeys));
  return all;
}

/// What a work tile takes beside its steps: it is fetched, its queries copied
/// and its sums divided and stored.
double Model::besideSteps() const {
  onchip::SharedDemand demand = computeDemand(problem, sizes, target);
  demand.results = sizes.blockQ * int64_t(channels) * 2;
  onchip::SharedShares shares = onchip::shareAmongRoles(demand, 0, target);
  return cyclesOfTile +
         cyclesOfGroup * double(sizes.blockQ / MmaShape::warpgroup().m) +
         (shares.results ? 0 : withoutResults) +
         (shares.queryStages > 1 ? 0 : withoutQueries);
}

ScheduleCost Model::predict() {
  const int64_t groups = sizes.blockQ / sizes.rows;
  ScheduleCost cost, last;
  step(groups, cost);
  int64_t tiles = std::max<int64_t>(divideUp(rows, sizes.blockQ), 1);
  int64_t rest = rows - (tiles - 1) * sizes.blockQ;
  step(std::clamp<int64_t>(divideUp(rest, sizes.rows), 1, groups), last);
  double beside = besideSteps(), total = 0, shortest = INFINITY;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    double steps = std::ceil(keysOf(tile) / double(sizes.blockK)) +
                   (problem.diagonal ? stepsOfDiagonal : 0);
    double cycles =
        (tile + 1 == tiles ? last.step : cost.step) * steps + beside;
    total += cycles;
    shortest = std::min(shortest, cycles);
    cost.tile = std::max(cost.tile, cycles);
  }
  double units = double(std::max<int64_t>(target.numMultiprocessors, 1));
  cost.tiles = double(tiles * heads);
  double work = total * double(heads) / units;
  // Long tiles come first where they differ. Else tiles come in rounds, of
  // which the last one is as long; tiles of parts of heads soften that.
  if (problem.diagonal && tiles > 1)
    work += shortestAtEnd * shortest;
  else if (cost.tiles > units)
    work = (1 - wholeRounds) * work +
           wholeRounds * std::ceil(cost.tiles / units) * total / double(tiles);
  double group = double(std::max<int64_t>(problem.group, 1));
  double elements = double(heads) * (double(rows) + double(keys) / group) *
                    double(problem.depths.front() + problem.channels.front());
  cost.kernel = std::max({work, cost.tile,
                          2 * elements / double(target.rates.memoryBytes)}) +
                double(target.rates.launchLatency);
  return cost;
}

ScheduleCost attn::predictCost(const ScheduleProblem &problem,
                               const ScheduleSizes &sizes,
                               const TargetInfo &target) {
  return Model(problem, sizes, target).predict();
}

std::vector<ScheduleSizes> attn::listGroupSizes(const ScheduleProblem &problem,
                                                const TargetInfo &target) {
  const int64_t rows = MmaShape::warpgroup().m;
  constexpr int64_t leastKeys = 16, longestTile = 192;
  // Each warpgroup more leaves the others fewer registers, and keys that are
  // read less often (measured: docs/performance).
  int64_t widest = std::max(paddedDepth(problem.depths.front(), target),
                            paddedChannels(problem.channels.front(), target));
  // Elements read for each pair have no registers among three; windows of more
  // columns are not measured with three.
  bool isNarrow = widest <= columnsOfFour;
  bool areFew = widest <= columnsOfThree && !problem.startsByRow;
  int64_t mostGroups = problem.readsPairs ? 2 : isNarrow ? 4 : areFew ? 3 : 2;
  std::vector<ScheduleSizes> found;
  for (int64_t groups = 1; groups <= mostGroups; ++groups) {
    if (groups > 1 && problem.numQueries >= 0 &&
        (groups - 1) * rows >= problem.numQueries)
      break;
    int64_t mostKeys = groups > 1 ? longestTile : keysOfOneGroup;
    for (int64_t keys = groups > 3 ? leastKeysOfFour : leastKeys;
         keys <= mostKeys; keys += leastKeys) {
      ScheduleSizes sizes = {groups * rows, rows, keys};
      if (computeBudget(problem, sizes, target).fits())
        found.push_back(sizes);
    }
  }
  return found;
}

/// Of warps: those of a block share a tile of keys.
static std::vector<ScheduleSizes> listWarpSizes(const ScheduleProblem &problem,
                                                const TargetInfo &target) {
  constexpr int64_t longestTile = 128;
  const int64_t unit = target.mmaShapes.front().k;
  std::vector<ScheduleSizes> found;
  for (int64_t rows : {16, 32})
    for (int64_t warps : {1, 2, 4, 8}) {
      if (warps > 1 && problem.numQueries >= 0 &&
          rows * warps / 2 >= problem.numQueries)
        break;
      for (int64_t keys = unit; keys <= longestTile; keys += unit) {
        ScheduleSizes sizes = {rows * warps, rows, keys};
        if (!rowsAreHalf(sizes.blockQ, rows, target) &&
            computeBudget(problem, sizes, target).fits())
          found.push_back(sizes);
      }
    }
  return found;
}

std::vector<ScheduleSizes> attn::listSizes(const ScheduleProblem &problem,
                                           const TargetInfo &target) {
  if (target.isCpu() || problem.depths.empty())
    return {};
  return hasGroupTiles(problem, target) && !problem.channels.empty()
             ? listGroupSizes(problem, target)
             : listWarpSizes(problem, target);
}

std::string attn::printSpace(const ScheduleProblem &problem,
                             const TargetInfo &target) {
  std::string text;
  std::vector<ScheduleSizes> all = listSizes(problem, target);
  for (size_t first = 0, behind; first < all.size(); first = behind) {
    behind = first + 1;
    // Fewer keys always fit.
    while (behind < all.size() && all[behind].blockQ == all[first].blockQ &&
           all[behind].rows == all[first].rows)
      ++behind;
    text += (first ? ", " : "") + std::to_string(all[first].blockQ) + "/" +
            std::to_string(all[first].rows) + " x " +
            std::to_string(all[first].blockK) + "-" +
            std::to_string(all[behind - 1].blockK);
  }
  return text;
}

ScheduleSizes attn::chooseCheapest(const ScheduleProblem &problem,
                                   const TargetInfo &target) {
  const MmaShape unit = MmaShape::warpgroup();
  ScheduleSizes best = {unit.m, unit.m, unit.k};
  double least = INFINITY;
  for (const ScheduleSizes &sizes : listGroupSizes(problem, target))
    if (double cycles = predictCost(problem, sizes, target).kernel;
        cycles < least) {
      least = cycles;
      best = sizes;
    }
  return best;
}

std::string ScheduleCost::explain() const {
  auto print = [](double value) { return std::to_string(std::llround(value)); };
  return "cost: a step takes " + print(step) + " cycles (tensor unit " +
         print(tensor) + ", special functions " + print(special) +
         ", instructions " + print(issue) + ", shared memory " + print(shared) +
         ", copies " + print(copies) + ", a warpgroup alone " + print(alone) +
         "), a work tile at most " + print(tile) + ", all " + print(tiles) +
         " of them " + print(kernel);
}
