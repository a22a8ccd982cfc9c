//===- Rotary.cpp - Queries and keys that turn before the product ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The oracle knows no rotary embedding: it is given rows that have turned.
//
//===----------------------------------------------------------------------===//

#include "InstanceMaker.h"

#include <algorithm>

using namespace ::attn;
using namespace ::attn::fuzz;
using support::TensorView;

/// Whether a GPU turns the keys between their copy and their product, which
/// takes one warpgroup, or warps: drawn apart.
static void drawTurnsInside(Kernel &k, uint64_t seed, uint64_t index) {
  Random random(~seed ^ 0x7095, index);
  if (k.dtype == DType::f32 || (!k.interleaved && k.turned % 4) ||
      random.chance(0.3))
    return;
  if (!k.schedule) {
    int64_t rows = random.pick<int64_t>({16, 64, 64});
    k.schedule = Schedule{rows, rows, random.pick<int64_t>({48, 64, 128}),
                          k.packed ? 1 : random.range(1, 3), "peeled"};
  }
  Schedule &s = *k.schedule;
  if (s.rows == 64)
    s.blockQ = 64;
  s.cluster = 1;
  s.turns = "none";
  s.turnsInside = true;
}

/// The kernels of other families, of which nearly all turn.
Kernel fuzz::makeTurning(uint64_t seed, uint64_t index, bool gpu) {
  Random random(seed + 3, ~index);
  Kernel k = makeKernel(
      seed, index,
      random.pick({Family::Options, Family::Options, Family::Packed,
                   Family::Schedules, Family::Scores, Family::Dropout,
                   Family::Paged, Family::Paged, Family::Ring}),
      gpu);
  k.family = Family::Rotary;
  // Shared prefixes are of keys as they are.
  k.cascade = 0;
  // Regions of aggregates find their positions themselves.
  if (k.aggregate || k.monoid->exactScores || k.dqk < 2)
    return k;
  int64_t pairs = k.dqk / 2;
  k.turned = 2 * (random.chance(0.5) ? pairs : random.range(1, pairs));
  k.interleaved = random.chance(0.4);
  k.turnsBySlot = random.chance(0.3);
  if (gpu)
    drawTurnsInside(k, seed, index);
  printKernel(k);
  return k;
}

std::string fuzz::rotateRegion(const Kernel &k) {
  std::string table = "tensor<?x" + std::to_string(k.turned / 2) + "xf32>";
  return R"(    rotate {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32, %u_table: )" +
         table + ", %w_table: " + table + R"():
      %row = arith.index_cast %n : i32 to index
      %column = arith.index_cast %c : i32 to index
      %u = tensor.extract %u_table[%row, %column] : )" +
         table + R"(
      %w = tensor.extract %w_table[%row, %column] : )" +
         table + R"(
      %xu = arith.mulf %x, %u : f32
      %yw = arith.mulf %y, %w : f32
      %yu = arith.mulf %y, %u : f32
      %xw = arith.mulf %x, %w : f32
      %first = arith.subf %xu, %yw : f32
      %second = arith.addf %yu, %xw : f32
      attn.yield %first, %second : f32, f32
    }
)";
}

/// Tables whose last rows may be read for more positions than they have.
Tensor InstanceMaker::makeAngles(std::vector<double> &values) {
  int64_t last = std::max(longestQ, longestK) + cache.mostStart();
  positions = std::max<int64_t>(positions, 1);
  if (values.empty() && &values == &cosines)
    positions = random.chance(0.9) ? last + 1 : random.range(1, last + 1);
  Tensor table = makeTensor(random, DType::f32, {positions, k.turned / 2},
                            Filling::Poison, /*mayRepeat=*/false);
  table.forEach([&](int64_t at, int64_t) {
    // No rotation: that both tables are read shows the better.
    table.set(at, static_cast<float>(random.uniform(-1.0, 1.0)));
    values.push_back(table.get(at));
  });
  return table;
}

/// Sequence, its first row, and its numbers of rows and keys, of a row.
InstanceMaker::TurnedRow InstanceMaker::findTurned(int64_t batch, int64_t row,
                                                   bool isKey) const {
  TurnedRow found{batch, row, to.sq, to.sk};
  if (k.packed) {
    const std::vector<int32_t> &cu = isKey ? cuK : cuQ;
    // Rows behind the last sequence are nobody's.
    for (found.sequence = 0; found.sequence + 1 < int64_t(cu.size()) - 1 &&
                             cu[found.sequence + 1] <= row;)
      ++found.sequence;
    if (to.b == 0)
      return found;
    found.row = row - cu[found.sequence];
    found.rows = cuQ[found.sequence + 1] - cuQ[found.sequence];
    found.keys = cuK[found.sequence + 1] - cuK[found.sequence];
  }
  if (k.lengths && found.sequence < int64_t(problem.kvLengths.size()))
    found.keys = problem.kvLengths[found.sequence];
  return found;
}

/// Rows of queries or keys as they are multiplied, in C order.
std::vector<double> InstanceMaker::turn(const TensorView &from, bool isKey,
                                        bool rounds) const {
  std::vector<double> rows = support::toDense(from);
  auto [batches, heads, count, depth] = from.shape;
  int64_t half = k.turned / 2;
  for (int64_t n = 0, all = batches * heads * count; n < all; ++n) {
    TurnedRow at = findTurned(n / count / heads, n % count, isKey);
    int64_t position = at.row;
    if (!isKey && k.causal != Causal::topLeft)
      position += at.keys - at.rows;
    bool counts = isKey || k.causal != Causal::topLeft;
    if (counts && !k.turnsBySlot &&
        at.sequence < int64_t(problem.kStart.size()))
      position += problem.kStart[at.sequence];
    position = std::clamp<int64_t>(position, 0, positions - 1);
    for (int64_t c = 0; c < half; ++c) {
      double &x = rows[n * depth + (k.interleaved ? 2 * c : c)];
      double &y = rows[n * depth + (k.interleaved ? 2 * c + 1 : c + half)];
      double u = cosines[position * half + c], w = sines[position * half + c];
      double first = x * u - y * w, second = y * u + x * w;
      x = rounds ? support::roundTo(k.dtype, first) : first;
      y = rounds ? support::roundTo(k.dtype, second) : second;
    }
  }
  return rows;
}

void InstanceMaker::turnRows(bool rounds) {
  if (!k.turned)
    return;
  turnedQ = turn(q.view(), /*isKey=*/false, rounds);
  turnedK = turn(key.view(), /*isKey=*/true, rounds);
  problem.q = support::denseView(turnedQ.data(), DType::f64, q.view().shape);
  problem.k = support::denseView(turnedK.data(), DType::f64, key.view().shape);
}
