//===- Merge.cpp - States of several places into one ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two states in registers are merged element by element. States of warps go
// through shared memory: fragments by register and lane, vectors by element,
// so that a warp finds its part of another's rows under its own lanes.
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

namespace {

/// Registers of a state: of each statistic, and of each value.
struct MergeState {
  SmallVector<Values> stats, values;
};

} // namespace

/// alpha x + beta y, where a factor of 0 silences what it meets.
static Value blend(Emitter &e, Value alpha, Value x, Value beta, Value y) {
  auto term = [&](Value factor, Value value) {
    Value zero = e.fcmp(LLVM::FCmpPredicate::oeq, factor, e.cf(0.0f));
    return e.select(zero, e.cf(0.0f), e.fmul(factor, value));
  };
  return e.fadd(term(alpha, x), term(beta, y));
}

/// Merges a second state into a first one.
static LogicalResult mergeInto(KernelContext &k, MergeStatesOp op,
                               MergeState &state, const MergeState &other,
                               TypeRange valueTypes) {
  auto first = cast<VecType>(op.getStats().front().getType());
  bool byRow = first.getAxis() == Axis::Row;
  SmallVector<Value> alphas, betas;
  for (int64_t key = 0, n = state.stats.front().size(); key < n; ++key) {
    SmallVector<Value> arguments, results;
    for (Values &stat : state.stats)
      arguments.push_back(stat[key]);
    for (const Values &stat : other.stats)
      arguments.push_back(stat[key]);
    if (failed(k.evaluate(op.getBody().front(), arguments, results)))
      return failure();
    for (auto [stat, result] : llvm::zip(state.stats, results))
      stat[key] = result;
    alphas.push_back(results[state.stats.size()]);
    betas.push_back(results[state.stats.size() + 1]);
  }
  for (auto [value, from, type] :
       llvm::zip_equal(state.values, other.values, valueTypes)) {
    auto frag = dyn_cast<FragType>(type);
    for (int64_t i = 0, n = value.size(); i < n; ++i) {
      int64_t key = i;
      if (frag) {
        FragShape shape(frag);
        key = byRow ? shape.rowKey(i) : shape.colKey(i);
      }
      value[i] = blend(k.e, alphas[key], value[i], betas[key], from[i]);
    }
  }
  return success();
}

namespace {

/// The states of a role's warps, one after the other in shared memory:
/// statistics and vectors by element, then fragments.
class StatesOfWarps {
public:
  StatesOfWarps(KernelContext &k, MergeStatesOp op, const MergeState &mine);
  void write(const MergeState &mine);
  /// The state of a warp as this warp needs it: of a split fragment its own
  /// rows.
  MergeState read(int64_t warp);
  /// Waits for all warps.
  void sync();

private:
  static constexpr int64_t registerBytes = 4 * TargetInfo::warpThreads;
  /// Where this thread's register `key` lies in a value.
  Value elementAt(Value base, int64_t key) {
    return e.add(base, elementOffset(key));
  }
  Value elementOffset(int64_t key) {
    Value index = byRow ? k.rowIndex(Scope::Warp, key) : k.colIndex(key);
    return e.shl(index, 2);
  }
  void store(Value address, Value value);
  Value load(Value address, Type type);

  KernelContext &k;
  Emitter &e;
  MergeStatesOp op;
  VecType axis;
  bool byRow;
  SmallVector<int64_t> statOffsets, valueOffsets;
  /// Bytes of one state.
  int64_t bytes = 0;
  Value scratch, laneOffset;
};

} // namespace

StatesOfWarps::StatesOfWarps(KernelContext &k, MergeStatesOp op,
                             const MergeState &mine)
    : k(k), e(k.e), op(op), axis(cast<VecType>(op.getStats()[0].getType())),
      byRow(axis.getAxis() == Axis::Row) {
  int64_t vecBytes = axis.getSize() * 4;
  for (size_t i = 0; i < mine.stats.size(); ++i, bytes += vecBytes)
    statOffsets.push_back(bytes);
  for (size_t i = 0; i < mine.values.size(); ++i) {
    valueOffsets.push_back(bytes);
    bytes += isa<VecType>(op.getValues()[i].getType())
                 ? vecBytes
                 : int64_t(mine.values[i].size()) * registerBytes;
  }
  scratch = k.scalar(op.getScratch());
  laneOffset = e.shl(k.lane, 2);
}

void StatesOfWarps::store(Value address, Value value) {
  Value bits = value.getType() == e.i1
                   ? LLVM::ZExtOp::create(e.b, e.loc, e.i32, value)
                   : e.bitcast(value, e.i32);
  e.assembly("st.shared::cta.b32 [$0], $1;", "r,r,~{memory}", {address, bits});
}

Value StatesOfWarps::load(Value address, Type type) {
  Value bits = e.assembly("ld.shared::cta.b32 $0, [$1];", "=r,r,~{memory}",
                          {address}, e.i32)
                   .front();
  if (type == e.i1)
    return e.icmp(LLVM::ICmpPredicate::ne, bits, e.c32(0));
  return e.bitcast(bits, type);
}

void StatesOfWarps::sync() {
  e.call("llvm.nvvm.barrier.cta.sync.aligned.count",
         {e.c32(k.layout.memberBarrier(k.role.op)),
          e.c32(*op.getCount() * TargetInfo::warpThreads)});
}

void StatesOfWarps::write(const MergeState &mine) {
  Value to = e.add(scratch, e.mul(k.role.warpInRole, bytes));
  for (auto [stat, offset] : llvm::zip_equal(mine.stats, statOffsets))
    for (auto [key, value] : llvm::enumerate(stat))
      store(elementAt(e.add(to, offset), key), value);
  for (auto [i, values] : llvm::enumerate(mine.values))
    for (auto [key, value] : llvm::enumerate(values)) {
      Value at = e.add(to, valueOffsets[i]);
      bool isVec = isa<VecType>(op.getValues()[i].getType());
      store(isVec ? elementAt(at, key)
                  : e.add(e.add(at, laneOffset), key * registerBytes),
            value);
    }
}

MergeState StatesOfWarps::read(int64_t warp) {
  MergeState state;
  Value from = e.add(scratch, warp * bytes);
  for (int64_t offset : statOffsets) {
    Values &stat = state.stats.emplace_back();
    for (int64_t key = 0, n = k.registerCount(axis); key < n; ++key)
      stat.push_back(
          load(elementAt(e.add(from, offset), key), axis.getElementType()));
  }
  TypeRange types =
      TypeRange(op.getResultTypes()).drop_front(statOffsets.size());
  for (auto [i, type] : llvm::enumerate(types)) {
    Values &value = state.values.emplace_back();
    int64_t n = k.registerCount(type);
    bool isVec = isa<VecType>(type);
    bool isSplit = type != op.getValues()[i].getType();
    Value at = e.add(from, valueOffsets[i]);
    if (!isVec)
      at = e.add(at, laneOffset);
    if (isSplit)
      at = e.add(at, e.mul(k.role.warpInRole, n * registerBytes));
    for (int64_t key = 0; key < n; ++key)
      value.push_back(load(
          isVec ? elementAt(at, key) : e.add(at, key * registerBytes), e.f32));
  }
  return state;
}

/// The `copy`-th of the states that an operation has as operands.
static MergeState stateOf(KernelContext &k, MergeStatesOp op, int64_t copy,
                          int64_t copies) {
  MergeState state;
  size_t numStats = op.getStats().size() / copies;
  size_t numValues = op.getValues().size() / copies;
  for (Value stat : op.getStats().slice(copy * numStats, numStats))
    state.stats.push_back(k.of(stat));
  for (Value value : op.getValues().slice(copy * numValues, numValues))
    state.values.push_back(k.of(value));
  return state;
}

static LogicalResult mergeWarps(KernelContext &k, MergeStatesOp op,
                                MergeState &state, TypeRange valueTypes) {
  int64_t count = *op.getCount();
  if (k.role.scope != Scope::Warp || k.role.warps != count)
    return unsupported(op, "a role of " + Twine(count) +
                               " warps, but got one of " + Twine(k.role.warps));
  StatesOfWarps states(k, op, state);
  // Who still reads an earlier merge must be done.
  states.sync();
  states.write(state);
  states.sync();
  state = states.read(0);
  for (int64_t warp = 1; warp < count; ++warp)
    if (failed(mergeInto(k, op, state, states.read(warp), valueTypes)))
      return failure();
  return success();
}

LogicalResult gpu::lower(KernelContext &k, MergeStatesOp op) {
  MergeScope scope = op.getScope();
  if (scope != MergeScope::Pair && scope != MergeScope::Warps)
    return unsupported(op, "states of a pair or of warps, but got '" +
                               stringifyMergeScope(scope) + "'");
  int64_t copies = scope == MergeScope::Pair ? 2 : 1;
  MergeState state = stateOf(k, op, 0, copies);
  if (state.stats.empty())
    return unsupported(op, "1 statistic or more, but got 0");
  if (!llvm::all_equal(op.getStats().getTypes()))
    return unsupported(op, "statistics of one type");
  ResultRange results = op.getResults();
  TypeRange valueTypes = results.drop_front(state.stats.size()).getTypes();
  LogicalResult merged =
      scope == MergeScope::Pair
          ? mergeInto(k, op, state, stateOf(k, op, 1, copies), valueTypes)
          : mergeWarps(k, op, state, valueTypes);
  if (failed(merged))
    return failure();
  for (auto [result, registers] : llvm::zip_equal(
           results, llvm::concat<Values>(state.stats, state.values)))
    k.set(result, registers);
  return success();
}
