//===- Folds.cpp - Keys above a threshold, one by one ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Batch.h"

#include <cstring>
#include <limits>

using namespace mlir;
namespace emulator = ::attn::emulator;
using namespace ::attn::emulator;

/// Whether a threshold lets an element in: each one that is a number or none at
/// all while there is no threshold.
static bool passes(float element, float threshold, float factor) {
  if (element == -std::numeric_limits<float>::infinity())
    return false;
  return !(threshold > std::numeric_limits<float>::lowest() &&
           element * factor <= threshold);
}

LogicalResult emulator::emulate(tg::FoldAboveOp op, ProgramBuilder &b) {
  auto body = BatchProgram::build(op.getBody().front(), b);
  if (failed(body))
    return failure();
  auto program = std::make_shared<BatchProgram>(std::move(*body));
  SlotId from = b.slot(op.getScores());
  auto states = b.slots(op.getStates()), results = b.slots(op.getResults());
  auto threshold = size_t(op.getThreshold());
  float factor = op.getFactor().convertToFloat();
  b.emit(op, false, [=](Agent &a) {
    auto scores = a.use(from);
    if (a.machine.failed())
      return Step::Stop;
    llvm::SmallVector<std::shared_ptr<Registers>> now;
    for (SlotId state : states) {
      auto value = a.use(state);
      if (a.machine.failed())
        return Step::Stop;
      now.push_back(makeRegisters(value->rows, value->cols));
      now.back()->words = value->words;
      a.inherit(*now.back(), *value);
      a.inherit(*now.back(), *scores);
    }
    // Of each row the lanes of a run: position, element, states.
    constexpr size_t positions = 2;
    std::vector<std::vector<uint32_t>> lanes(positions + 1 + now.size());
    llvm::SmallVector<const void *, 8> in(lanes.size());
    llvm::SmallVector<void *, 8> out(now.size());
    for (int64_t c = 0; c < scores->cols; ++c) {
      std::vector<int64_t> rows;
      for (int64_t r = 0; r < scores->rows; ++r)
        if (passes(scores->floats()[r * scores->cols + c],
                   now[threshold]->floats()[r], factor))
          rows.push_back(r);
      if (rows.empty())
        continue;
      for (auto &words : lanes)
        words.resize(rows.size());
      for (auto [n, r] : llvm::enumerate(rows)) {
        lanes[0][n] = uint32_t(r);
        lanes[1][n] = uint32_t(c);
        float element = scores->floats()[r * scores->cols + c] * factor;
        std::memcpy(&lanes[positions][n], &element, sizeof(element));
        for (size_t i = 0; i < now.size(); ++i)
          lanes[positions + 1 + i][n] = now[i]->words[size_t(r)];
      }
      for (size_t i = 0; i < lanes.size(); ++i)
        in[i] = lanes[i].data();
      for (size_t i = 0; i < now.size(); ++i)
        out[i] = lanes[positions + 1 + i].data();
      if (!program->run(a, int64_t(rows.size()), in, out))
        return Step::Stop;
      for (auto [n, r] : llvm::enumerate(rows))
        for (size_t i = 0; i < now.size(); ++i)
          now[i]->words[size_t(r)] = lanes[positions + 1 + i][n];
    }
    for (size_t i = 0; i < results.size(); ++i)
      a.set(results[i], std::move(now[i]));
    return Step::Next;
  });
  return success();
}

/// Of a tile with a key for each row: a difference and a shift of each element,
/// and what goes to shared memory and back. What a fold takes is not known.
OpCost emulator::costOf(tg::FoldAboveOp op, const TargetInfo &target) {
  tg::FragType type = op.getScores().getType();
  int64_t threads = type.getScope() == tg::Scope::Warpgroup
                        ? TargetInfo::warpgroupThreads
                        : TargetInfo::warpThreads;
  OpCost cost;
  cost.fma = cost.alu = type.getRows() * type.getCols() / threads;
  return cost;
}
