//===- Merge.cpp - States of several holders ------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Batch.h"
#include "attn/Dialect/TileGPU/IR/MergedStates.h"
#include "attn/Dialect/TileGPU/IR/SharedLayout.h"

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

namespace {
/// The states of a cluster's blocks: each stores sixteen rows into the slot of
/// the block that combines them; a warpgroup, all that another block's
/// combines.
struct ClusterStates {
  const Merge merge;
  uint32_t ring;
  SlotId counter, part;
  bool ofGroup;
  /// Pieces that the rows of a warp, or a warpgroup, are stored in.
  int64_t count, pieces, rowWords;
  llvm::SmallVector<SlotId> state, results;
  /// Of each part of a state as it is combined: rows and columns.
  llvm::SmallVector<Shape> to;

  bool store(Agent &a) const;
  std::optional<Values> read(Agent &a, int64_t block) const;
  Step run(Agent &a) const;

private:
  int64_t members(const Agent &a) const {
    return ofGroup ? 1 : int64_t(a.role.warps);
  }
  int64_t all(const Agent &a) const { return pieces * members(a); }
  int64_t combining(const Agent &a) const {
    return llvm::divideCeil(all(a), count);
  }
  View row(const Agent &a, int64_t warp, int64_t block) const {
    return View{a.program.rings[ring].regions[0], 0,
                uint32_t(warp * count + block), 0};
  }
};
} // namespace

/// Stores the sixteens of this warp where they are combined. They land later.
bool ClusterStates::store(Agent &a) const {
  Values own = take(a, state);
  if (a.machine.failed())
    return false;
  auto &blocks = a.block.cluster->blocks;
  if (a.i32(part) != a.block.rank)
    return a.fail("stores the state of part " + std::to_string(a.i32(part)) +
                  " as block " + std::to_string(a.block.rank) +
                  " of its cluster");
  for (int64_t i = 0; i < pieces; ++i) {
    int64_t number = a.member * pieces + i;
    ThreadBlock &target = *blocks[size_t(number % count)];
    View view = row(a, number / count, a.block.rank);
    MBarrier &full = target.mbarriers[size_t(a.program.rings[ring].full)];
    a.signals = &full.info->name;
    Access access = a.access(0, true);
    access.epoch.component = full.component;
    access.epoch.clock = uint32_t(full.phase) + 1;
    if (!a.touch(target, view, {0, 0, 1, rowWords}, access))
      return false;
    std::vector<uint32_t> words;
    for (auto [value, shape] : llvm::zip_equal(own, to)) {
      int64_t size = shape.rows * shape.cols;
      bool isSplit = value->rows != shape.rows;
      auto first = value->words.begin() + (isSplit ? i * size : 0);
      words.insert(words.end(), first, first + size);
    }
    Machine &machine = a.machine;
    Cycles at = a.arrivalTime();
    const char *what = "a store to another block";
    machine.defer(a, what,
                  [=, &a, &machine, &target, &full, site = a.site(),
                   words = std::move(words)] {
                    if (machine.meetsEnded(a, site, what, target))
                      return;
                    llvm::copy(words, target.regions[view.region].at(view));
                    completeBytes(machine, full, int64_t(words.size()) * 4, at);
                  });
  }
  return true;
}

std::optional<Values> ClusterStates::read(Agent &a, int64_t block) const {
  View view = row(a, a.member, block);
  if (!a.touch(0, view, {0, 0, 1, rowWords}, false))
    return std::nullopt;
  const uint32_t *words = a.block.regions[view.region].at(view);
  Values loaded;
  for (const Shape &shape : to) {
    loaded.push_back(makeRegisters(shape.rows, shape.cols));
    for (uint32_t &word : loaded.back()->words)
      word = *words++;
  }
  return loaded;
}

Step ClusterStates::run(Agent &a) const {
  const RingInfo &info = a.program.rings[ring];
  auto use = uint64_t(uint32_t(a.i32(counter)));
  if (a.part == 0) {
    MBarrier &empty = a.block.mbarriers[size_t(info.empty)];
    Step step = a.waitFor(empty, uint32_t((use & 1) ^ 1), use,
                          "the other blocks to read its last state");
    if (step != Step::Next)
      return step;
    if (!store(a))
      return Step::Stop;
    a.part = 1;
    if (a.member < combining(a)) {
      bool some = a.member * count + a.block.rank < all(a);
      int64_t bytes = some ? count * rowWords * 4 : 0;
      for (int64_t warp = 0; warp < a.warps; ++warp)
        a.arrive(a.block, info.full, warp, bytes / a.warps);
    }
  }
  Values merged;
  if (a.member >= combining(a)) {
    for (const Shape &shape : to)
      merged.push_back(makeRegisters(shape.rows, shape.cols));
    setAll(a, results, merged);
    return Step::Next;
  }
  MBarrier &full = a.block.mbarriers[size_t(info.full)];
  Step step = a.waitFor(full, uint32_t(use & 1), use + 1,
                        "the states of the cluster's blocks");
  if (step != Step::Next)
    return step;
  std::vector<Values> states;
  for (int64_t block = 0; block < count; ++block) {
    // What nobody stores is not read on a GPU to any purpose.
    bool some = a.member * count + a.block.rank < all(a);
    std::optional<Values> one = some ? read(a, block) : Values();
    if (!one)
      return Step::Stop;
    if (!some)
      for (const Shape &shape : to)
        one->push_back(makeRegisters(shape.rows, shape.cols));
    states.push_back(std::move(*one));
  }
  // As the lowering does: neighbours first.
  for (size_t apart = 1; apart < states.size(); apart *= 2)
    for (size_t i = 0; i + apart < states.size(); i += 2 * apart)
      if (!mergeInto(a, merge, states[i], states[i + apart]))
        return Step::Stop;
  setAll(a, results, states[0]);
  for (auto &block : a.block.cluster->blocks)
    a.arriveAll(*block, info.empty);
  return Step::Next;
}

static LogicalResult emulateCluster(tg::MergeStatesOp op, ProgramBuilder &b,
                                    const Merge &merge,
                                    llvm::ArrayRef<SlotId> state) {
  auto ring = b.ring(op.getRing());
  if (!ring)
    return op.emitOpError("expected a ring made in this kernel by "
                          "tile_gpu.ring.create");
  auto count = int64_t(*op.getCount());
  const RingInfo &info = b.kernel().rings[*ring];
  bool ofGroup = tg::mergesWarpgroups(op);
  int64_t warps = b.role && b.role->isGroup == ofGroup ? b.role->warps : 0;
  int64_t combining =
      ofGroup ? ::attn::gpu::groupWarps
              : llvm::divideCeil(op.getSixteensOfWarp() * warps, count);
  if (ofGroup && warps != ::attn::gpu::groupWarps)
    return op.emitOpError("expected a role of one warpgroup");
  if (info.fill != emulator::Fill::States || info.cluster != count ||
      info.producers != combining || combining > warps)
    return op.emitOpError("expected a ring of states of clusters of ")
           << count << " blocks that " << combining
           << " of the role's warps combine";
  ClusterStates states{merge,
                       *ring,
                       b.slot(op.getCounter()),
                       b.slot(op.getPart()),
                       ofGroup,
                       count,
                       ofGroup ? count : op.getSixteensOfWarp(),
                       tg::floatsOfPart(op),
                       llvm::SmallVector<SlotId>(state),
                       b.slots(op.getResults()),
                       {}};
  for (Value result : op.getResults())
    states.to.push_back(shapeOf(result.getType()));
  b.emit(op, true, [states](Agent &a) { return states.run(a); });
  return success();
}

LogicalResult emulator::emulate(tg::MergeStatesOp op, ProgramBuilder &b) {
  bool isPair = op.getScope() == tg::MergeScope::Pair;
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
  if (op.getScope() == tg::MergeScope::Cluster)
    return emulateCluster(op, b, merge, states[0]);
  if (!b.role || b.role->isGroup || b.role->warps != int64_t(*op.getCount()))
    return op.emitOpError("expected a role of ") << *op.getCount() << " warps";
  emulateWarps(op, b, merge, states[0]);
  return success();
}
