//===- Merge.cpp - States of several holders ------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Batch.h"

#include <cstring>

using namespace mlir;
namespace emulator = ::attn::emulator;
using namespace ::attn::emulator;

namespace {
struct Merge {
  std::shared_ptr<BatchProgram> body;
  bool byRow = true;
  size_t numStats = 0;
};
using Values = llvm::SmallVector<std::shared_ptr<Registers>>;
} // namespace

/// alpha x + beta y, where a factor of 0 silences what it meets.
static float blend(float alpha, float x, float beta, float y) {
  float left = alpha == 0.0f ? 0.0f : alpha * x;
  float right = beta == 0.0f ? 0.0f : beta * y;
  return left + right;
}

/// Merges a second state into a first one, which is the caller's own.
static bool mergeInto(Agent &a, const Merge &merge, Values &into,
                      const Values &other) {
  auto size = size_t(into[0]->words.size());
  std::vector<float> alphas(size), betas(size);
  llvm::SmallVector<const void *, 8> in;
  llvm::SmallVector<void *, 8> out;
  for (size_t i = 0; i < merge.numStats; ++i) {
    in.push_back(into[i]->words.data());
    out.push_back(into[i]->words.data());
  }
  for (size_t i = 0; i < merge.numStats; ++i)
    in.push_back(other[i]->words.data());
  out.append({alphas.data(), betas.data()});
  if (!merge.body->run(a, int64_t(size), in, out))
    return false;
  for (size_t i = merge.numStats; i < into.size(); ++i) {
    Registers &to = *into[i];
    bool isVec = to.rows == 1 && to.words.size() == size;
    for (int64_t r = 0; r < to.rows; ++r)
      for (int64_t c = 0; c < to.cols; ++c) {
        size_t key = size_t(isVec ? c : merge.byRow ? r : c);
        auto at = size_t(r * to.cols + c);
        to.floats()[at] = blend(alphas[key], to.floats()[at], betas[key],
                                other[i]->floats()[at]);
      }
  }
  return true;
}

LogicalResult emulator::emulate(tg::MergeStatesOp op, ProgramBuilder &b) {
  bool isPair = op.getScope() == tg::MergeScope::Pair;
  if (!isPair && op.getScope() != tg::MergeScope::Warps)
    return op.emitOpError("expected states of a pair or of warps, but got '")
           << tg::stringifyMergeScope(op.getScope()) << "'";
  auto built = BatchProgram::build(op.getBody().front(), b);
  if (failed(built))
    return failure();
  size_t copies = isPair ? 2 : 1;
  Merge merge;
  merge.numStats = op.getStats().size() / copies;
  if (!merge.numStats)
    return op.emitOpError("expected 1 statistic or more, but got 0");
  merge.body = std::make_shared<BatchProgram>(std::move(*built));
  merge.byRow = cast<tg::VecType>(op.getStats().front().getType()).getAxis() ==
                tg::Axis::Row;
  size_t numValues = op.getValues().size() / copies;
  // By state: statistics, then values.
  llvm::SmallVector<llvm::SmallVector<SlotId>> states(copies);
  for (size_t copy = 0; copy < copies; ++copy) {
    auto stats = op.getStats().slice(copy * merge.numStats, merge.numStats);
    auto values = op.getValues().slice(copy * numValues, numValues);
    states[copy] = b.slots(stats);
    llvm::append_range(states[copy], b.slots(values));
  }
  auto results = b.slots(op.getResults());
  auto take = [](Agent &a, llvm::ArrayRef<SlotId> slots) {
    Values values;
    for (SlotId slot : slots) {
      auto value = a.use(slot);
      if (a.machine.failed())
        break;
      values.push_back(std::make_shared<Registers>(*value));
    }
    return values;
  };
  if (isPair) {
    b.emit(op, false, [=](Agent &a) {
      Values left = take(a, states[0]), right = take(a, states[1]);
      if (a.machine.failed() || !mergeInto(a, merge, left, right))
        return Step::Stop;
      for (size_t i = 0; i < results.size(); ++i)
        a.set(results[i], left[i]);
      return Step::Next;
    });
    return success();
  }
  if (!b.role || b.role->isGroup || b.role->warps != int64_t(*op.getCount()))
    return op.emitOpError("expected a role of ") << *op.getCount() << " warps";
  // Each warp writes its state to the scratch tile, one after the other.
  llvm::SmallVector<Shape> from, to;
  int64_t stateWords = 0;
  for (Value value : op.getStats())
    from.push_back(shapeOf(value.getType()));
  for (Value value : op.getValues())
    from.push_back(shapeOf(value.getType()));
  for (Value result : op.getResults())
    to.push_back(shapeOf(result.getType()));
  for (const Shape &shape : from)
    stateWords += shape.rows * shape.cols;
  SlotId scratch = b.slot(op.getScratch());
  TileInfo tile = tileInfoOf(op.getScratch().getType());
  auto count = int64_t(*op.getCount());
  b.emit(op, true, [=](Agent &a) {
    View view = a.view(scratch);
    // A part of a state, as rows of the tile: whose elements follow each other.
    auto touch = [&](int64_t first, int64_t words, bool isWrite) {
      while (words > 0) {
        int64_t row = first / tile.cols, col = first % tile.cols;
        int64_t some = std::min(words, tile.cols - col);
        if (!a.touch(0, view, {row, col, 1, some}, isWrite))
          return false;
        first += some;
        words -= some;
      }
      return true;
    };
    uint32_t *words = a.block.regions[view.region].at(view);
    // Who still reads an earlier merge must be done.
    if (a.part < 2 && a.role.warps > 1)
      if (Step step = a.sync(a.role.barrier, 0, false); step != Step::Next)
        return step;
    if (a.part < 2) {
      Values own = take(a, states[0]);
      if (a.machine.failed() || !touch(a.member * stateWords, stateWords, true))
        return Step::Stop;
      int64_t at = a.member * stateWords;
      for (auto &value : own)
        for (uint32_t word : value->words)
          words[at++] = word;
      a.part = 2;
    }
    if (a.role.warps > 1)
      if (Step step = a.sync(a.role.barrier, 2, false); step != Step::Next)
        return step;
    Values merged;
    for (int64_t state = 0; state < count; ++state) {
      Values loaded;
      int64_t at = state * stateWords;
      for (size_t i = 0; i < from.size(); ++i) {
        // Of a split fragment a warp takes its own rows.
        int64_t size = to[i].rows * to[i].cols;
        bool isSplit = to[i].rows != from[i].rows;
        int64_t first = at + (isSplit ? a.member * size : 0);
        if (!touch(first, size, false))
          return Step::Stop;
        loaded.push_back(makeRegisters(to[i].rows, to[i].cols));
        for (int64_t w = 0; w < size; ++w)
          loaded.back()->words[size_t(w)] = words[first + w];
        at += from[i].rows * from[i].cols;
      }
      if (state == 0)
        merged = std::move(loaded);
      else if (!mergeInto(a, merge, merged, loaded))
        return Step::Stop;
    }
    for (size_t i = 0; i < results.size(); ++i)
      a.set(results[i], merged[i]);
    return Step::Next;
  });
  return success();
}
