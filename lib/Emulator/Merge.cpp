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

/// Copies of the registers in slots; fewer where the machine has failed.
static Values take(Agent &a, llvm::ArrayRef<SlotId> slots) {
  Values values;
  for (SlotId slot : slots) {
    auto value = a.use(slot);
    if (a.machine.failed())
      break;
    values.push_back(std::make_shared<Registers>(*value));
  }
  return values;
}

namespace {
/// The scratch tile to which each warp writes its state, one after the other.
struct Scratch {
  SlotId tile = noSlot;
  int64_t cols = 0;
  /// Of each part of a state: as it is written, and as a warp reads it.
  llvm::SmallVector<Shape> from, to;
  int64_t stateWords = 0;

  Scratch(tg::MergeStatesOp op, ProgramBuilder &b);
  bool touch(Agent &a, int64_t first, int64_t words, bool isWrite) const;
  bool write(Agent &a, const Values &own) const;
  std::optional<Values> read(Agent &a, int64_t state) const;

private:
  uint32_t *words(Agent &a) const {
    View view = a.view(tile);
    return a.block.regions[view.region].at(view);
  }
};
} // namespace

Scratch::Scratch(tg::MergeStatesOp op, ProgramBuilder &b)
    : tile(b.slot(op.getScratch())),
      cols(tileInfoOf(op.getScratch().getType()).cols) {
  for (mlir::ValueRange parts :
       {mlir::ValueRange(op.getStats()), mlir::ValueRange(op.getValues())})
    for (Value part : parts)
      from.push_back(shapeOf(part.getType()));
  for (Value result : op.getResults())
    to.push_back(shapeOf(result.getType()));
  for (const Shape &shape : from)
    stateWords += shape.rows * shape.cols;
}

/// A part of a state, as rows of the tile: whose elements follow each other.
bool Scratch::touch(Agent &a, int64_t first, int64_t words,
                    bool isWrite) const {
  View view = a.view(tile);
  while (words > 0) {
    int64_t row = first / cols, col = first % cols;
    int64_t some = std::min(words, cols - col);
    if (!a.touch(0, view, {row, col, 1, some}, isWrite))
      return false;
    first += some;
    words -= some;
  }
  return true;
}

bool Scratch::write(Agent &a, const Values &own) const {
  int64_t at = a.member * stateWords;
  if (a.machine.failed() || !touch(a, at, stateWords, true))
    return false;
  uint32_t *to = words(a);
  for (auto &value : own)
    for (uint32_t word : value->words)
      to[at++] = word;
  return true;
}

/// Of a split fragment a warp takes its own rows.
std::optional<Values> Scratch::read(Agent &a, int64_t state) const {
  Values loaded;
  const uint32_t *words = this->words(a);
  int64_t at = state * stateWords;
  for (auto [written, part] : llvm::zip_equal(from, to)) {
    int64_t size = part.rows * part.cols;
    bool isSplit = part.rows != written.rows;
    int64_t first = at + (isSplit ? a.member * size : 0);
    if (!touch(a, first, size, false))
      return std::nullopt;
    loaded.push_back(makeRegisters(part.rows, part.cols));
    for (int64_t w = 0; w < size; ++w)
      loaded.back()->words[size_t(w)] = words[first + w];
    at += written.rows * written.cols;
  }
  return loaded;
}

static void setAll(Agent &a, llvm::ArrayRef<SlotId> results,
                   const Values &values) {
  for (auto [result, value] : llvm::zip_equal(results, values))
    a.set(result, value);
}

/// Two states of one agent.
static void emulatePair(tg::MergeStatesOp op, ProgramBuilder &b,
                        const Merge &merge, llvm::ArrayRef<SlotId> first,
                        llvm::ArrayRef<SlotId> second) {
  b.emit(op, false,
         [merge, left = llvm::SmallVector<SlotId>(first),
          right = llvm::SmallVector<SlotId>(second),
          results = b.slots(op.getResults())](Agent &a) {
           Values into = take(a, left), other = take(a, right);
           if (a.machine.failed() || !mergeInto(a, merge, into, other))
             return Step::Stop;
           setAll(a, results, into);
           return Step::Next;
         });
}

/// The states of a role's warps.
static void emulateWarps(tg::MergeStatesOp op, ProgramBuilder &b,
                         const Merge &merge, llvm::ArrayRef<SlotId> state) {
  auto count = int64_t(*op.getCount());
  b.emit(
      op, true,
      [merge, count, scratch = Scratch(op, b),
       state = llvm::SmallVector<SlotId>(state),
       results = b.slots(op.getResults())](Agent &a) {
        // Who still reads an earlier merge must be done.
        if (a.part < 2 && a.role.warps > 1)
          if (Step step = a.sync(a.role.barrier, 0, false); step != Step::Next)
            return step;
        if (a.part < 2) {
          if (!scratch.write(a, take(a, state)))
            return Step::Stop;
          a.part = 2;
        }
        if (a.role.warps > 1)
          if (Step step = a.sync(a.role.barrier, 2, false); step != Step::Next)
            return step;
        Values merged;
        for (int64_t i = 0; i < count; ++i) {
          std::optional<Values> loaded = scratch.read(a, i);
          if (!loaded)
            return Step::Stop;
          if (i == 0)
            merged = std::move(*loaded);
          else if (!mergeInto(a, merge, merged, *loaded))
            return Step::Stop;
        }
        setAll(a, results, merged);
        return Step::Next;
      });
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
  if (isPair) {
    emulatePair(op, b, merge, states[0], states[1]);
    return success();
  }
  if (!b.role || b.role->isGroup || b.role->warps != int64_t(*op.getCount()))
    return op.emitOpError("expected a role of ") << *op.getCount() << " warps";
  emulateWarps(op, b, merge, states[0]);
  return success();
}
