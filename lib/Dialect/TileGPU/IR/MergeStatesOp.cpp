//===- MergeStatesOp.cpp - What merges of states take and give ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RegisterTypes.h"
#include "attn/Dialect/TileGPU/IR/MergedStates.h"
#include "attn/Support/MostCounted.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile_gpu;

/// What each scope has, and has not.
static LogicalResult verifyMergeScope(MergeStatesOp op) {
  MergeScope scope = op.getScope();
  bool counted = scope == MergeScope::Warps || scope == MergeScope::Cluster;
  if (counted != op.getCount().has_value())
    return op.emitOpError("expected count(n) with warps and cluster only");
  int64_t count = op.getCount().value_or(1);
  if (count <= 0)
    return op.emitOpError("expected 1 state or more, but got ") << count;
  if (count > ::attn::mostCounted)
    return op.emitOpError("expected at most ")
           << ::attn::mostCounted << " states, but got " << count;
  if ((scope == MergeScope::Warps) != bool(op.getScratch()))
    return op.emitOpError("expected scratch(...) with warps only");
  bool cluster = scope == MergeScope::Cluster;
  if (cluster != bool(op.getRing()) || cluster != bool(op.getCounter()) ||
      cluster != bool(op.getPart()))
    return op.emitOpError("expected ring(...) and part(...) with cluster only");
  return success();
}

/// The types of one state: statistics, then values.
static FailureOr<SmallVector<Type>> verifyStates(MergeStatesOp op) {
  bool pair = op.getScope() == MergeScope::Pair;
  size_t copies = pair ? 2 : 1;
  TypeRange stats(op.getStats().getTypes()), values(op.getValues().getTypes());
  if (stats.size() % copies || values.size() % copies)
    return op.emitOpError("expected two states with pair, but got ")
           << stats.size() << " statistic(s) and " << values.size()
           << " value(s)";
  size_t numStats = stats.size() / copies, numValues = values.size() / copies;
  if (op.getResults().size() != numStats + numValues)
    return op.emitOpError("expected ")
           << numStats + numValues << " results, but got "
           << op.getResults().size();
  if (pair && (stats.drop_front(numStats) != stats.take_front(numStats) ||
               values.drop_front(numValues) != values.take_front(numValues)))
    return op.emitOpError("expected both states to have the same types");
  SmallVector<Type> state(stats.take_front(numStats));
  llvm::append_range(state, values.take_front(numValues));
  return state;
}

/// Whether statistics and values are of one scope, along one axis, and values
/// such that they can be scaled.
static LogicalResult verifyState(MergeStatesOp op, ArrayRef<Type> state,
                                 size_t numStats) {
  VecType along = numStats ? cast<VecType>(state.front()) : VecType();
  for (auto [index, from] : llvm::enumerate(state)) {
    if (scopeOf(from) != scopeOf(state.front()))
      return op.emitOpError("expected states of one scope");
    auto vec = dyn_cast<VecType>(from);
    auto frag = dyn_cast<FragType>(from);
    if (along && (vec ? vec.getAxis() != along.getAxis() ||
                            vec.getSize() != along.getSize()
                      : !alongside(along, frag)))
      return op.emitOpError("expected statistics and values along ")
             << along << ", but got " << from;
    if (index >= numStats &&
        (!elementOf(from).isF32() || (frag && frag.getLayout() != Layout::Acc)))
      return op.emitOpError("expected values in f32 vectors and acc "
                            "fragments, but got ")
             << from;
  }
  return success();
}

/// Rows of a warp's fragment that one block of a cluster combines.
static constexpr int64_t sixteen = 16;

bool tile_gpu::mergesWarpgroups(MergeStatesOp op) {
  return !op.getStats().empty() &&
         scopeOf(op.getStats().front().getType()) == Scope::Warpgroup;
}

/// The floats of a state with so many rows of each fragment.
static int64_t floatsOf(MergeStatesOp op,
                        function_ref<int64_t(FragType)> rowsOf) {
  int64_t floats = 0;
  for (ValueRange parts :
       {ValueRange(op.getStats()), ValueRange(op.getValues())})
    for (Type type : parts.getTypes()) {
      auto frag = dyn_cast<FragType>(type);
      floats +=
          frag ? rowsOf(frag) * frag.getCols() : cast<VecType>(type).getSize();
    }
  return floats;
}

int64_t MergeStatesOp::getFloatsOfSixteen() {
  return floatsOf(*this, [](FragType) { return sixteen; });
}

int64_t tile_gpu::floatsOfPart(MergeStatesOp op) {
  if (!mergesWarpgroups(op))
    return op.getFloatsOfSixteen();
  return floatsOf(
      op, [&](FragType frag) { return frag.getRows() / *op.getCount(); });
}

/// Whether a loop uses the ring of a merge once in each turn, by its number.
static bool isUsedByTurns(MergeStatesOp merge) {
  auto loop = dyn_cast<ForeachOp>(merge->getParentOp());
  auto counter = dyn_cast<BlockArgument>(merge.getCounter());
  if (!loop || !counter)
    return false;
  auto carried = loop.getRegionIterArgs();
  auto *at = llvm::find(carried, counter);
  if (at == carried.end())
    return false;
  size_t number = at - carried.begin();
  Operation *last = loop.getBody().front().getTerminator();
  auto next = last->getOperand(number).getDefiningOp<arith::AddIOp>();
  return matchPattern(loop.getInitial()[number], m_Zero()) && next &&
         next.getLhs() == counter && matchPattern(next.getRhs(), m_One());
}

bool tile_gpu::endsApart(KernelOp kernel) {
  for (auto ring : kernel.getOps<RingCreateOp>())
    if (ring.getCluster() && ring.getFill() != Fill::States)
      return false;
  WalkResult result = kernel.walk([](MergeStatesOp merge) {
    return merge.getScope() != MergeScope::Cluster || isUsedByTurns(merge)
               ? WalkResult::advance()
               : WalkResult::interrupt();
  });
  return !result.wasInterrupted();
}

int64_t MergeStatesOp::getSixteensOfWarp() {
  for (Type type : getValues().getTypes())
    if (auto frag = dyn_cast<FragType>(type))
      return frag.getRows() / sixteen;
  return 0;
}

/// The ring and the fragments of states that go through a cluster.
static LogicalResult verifyCluster(MergeStatesOp op, VecType along) {
  int64_t count = *op.getCount();
  bool ofGroups = mergesWarpgroups(op);
  if (!along || along.getAxis() != Axis::Col)
    return op.emitOpError("expected statistics of columns with cluster");
  for (auto [from, to] : llvm::zip_equal(
           op.getValues().getTypes(),
           TypeRange(op.getResultTypes()).drop_front(op.getStats().size()))) {
    auto frag = dyn_cast<FragType>(from);
    auto part = dyn_cast<FragType>(to);
    if (!frag && from == to)
      continue;
    // A product of a warpgroup has 64 rows.
    int64_t unit = ofGroups ? count * 4 * sixteen : sixteen;
    int64_t rows = frag && ofGroups ? frag.getRows() / count : sixteen;
    if (!frag || frag.getRows() % unit ||
        (!ofGroups && frag.getRows() != op.getSixteensOfWarp() * sixteen) ||
        !part ||
        part != FragType::get(op.getContext(), rows, frag.getCols(),
                              frag.getElementType(), frag.getLayout(),
                              frag.getScope()))
      return op.emitOpError("expected ")
             << rows << " rows of " << from << " with cluster, but got " << to;
  }
  ArrayRef<SmemType> tiles = op.getRing().getType().getTiles();
  if (tiles.size() != 1 || !tiles[0].getElementType().isF32() ||
      tiles[0].getCols() != floatsOfPart(op) || tiles[0].getRows() % count ||
      tiles[0].getSwizzle())
    return op.emitOpError("expected a ring of tiles of a multiple of ")
           << count << " rows of " << floatsOfPart(op) << " floats, but got "
           << op.getRing().getType();
  return success();
}

/// Whether a result is what it is merged from, or a warp's rows of that; and
/// whether the scratch tile holds all states.
static LogicalResult verifyMergedState(MergeStatesOp op, ArrayRef<Type> state,
                                       VecType along) {
  int64_t stateBytes = 0, count = op.getCount().value_or(1);
  for (auto [from, to] : llvm::zip_equal(state, op.getResults().getTypes())) {
    if (auto vec = dyn_cast<VecType>(from)) {
      stateBytes += vec.getSize() * 4;
      if (vec.getPartial())
        return op.emitOpError("expected complete vectors; reduce a partial one "
                              "first");
    }
    auto frag = dyn_cast<FragType>(from);
    if (frag)
      stateBytes += frag.getRows() * frag.getCols() * 4;
    // Of a cluster, verifyCluster has looked at fragments.
    if (from == to || (frag && op.getRing()))
      continue;
    auto part = dyn_cast<FragType>(to);
    // Row statistics are those of all rows.
    bool splits = op.getScope() == MergeScope::Warps && along &&
                  along.getAxis() == Axis::Col;
    if (!splits || !frag || !part || part.getRows() * count != frag.getRows() ||
        part != FragType::get(op.getContext(), part.getRows(), frag.getCols(),
                              frag.getElementType(), frag.getLayout(),
                              frag.getScope()))
      return op.emitOpError("expected result ")
             << from
             << (splits ? " or, of a fragment, its rows split over the warps"
                        : "")
             << ", but got " << to;
  }
  if (!op.getScratch())
    return success();
  int64_t bytes = op.getScratch().getType().getBytes();
  if (bytes < count * stateBytes)
    return op.emitOpError("expected a scratch tile of ")
           << count * stateBytes << " bytes or more (" << count << " states of "
           << stateBytes << "), but got " << bytes;
  return success();
}

LogicalResult MergeStatesOp::verify() {
  if (failed(verifyMergeScope(*this)))
    return failure();
  FailureOr<SmallVector<Type>> state = verifyStates(*this);
  if (failed(state))
    return failure();
  size_t numStats =
      getStats().size() / (getScope() == MergeScope::Pair ? 2 : 1);
  VecType along = numStats ? cast<VecType>(state->front()) : VecType();
  if (failed(verifyState(*this, *state, numStats)) ||
      (getRing() && failed(verifyCluster(*this, along))) ||
      failed(verifyMergedState(*this, *state, along)))
    return failure();
  SmallVector<Type> yielded, arguments;
  for (Type type : ArrayRef(*state).take_front(numStats))
    yielded.push_back(elementOf(type));
  arguments = yielded;
  arguments.append(yielded);
  Type f32 = Float32Type::get(getContext());
  yielded.append({f32, f32});
  if (failed(verifyArguments(*this, getBody().front(), arguments)))
    return failure();
  return verifyYield(*this, getBody().front(), yielded);
}
