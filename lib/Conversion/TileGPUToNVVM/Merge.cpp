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

/// alpha x + beta y, where a factor of 0 silences what it meets.
static Value blend(Emitter &e, Value alpha, Value x, Value beta, Value y) {
  auto term = [&](Value factor, Value value) {
    Value zero = e.fcmp(LLVM::FCmpPredicate::oeq, factor, e.cf(0.0f));
    return e.select(zero, e.cf(0.0f), e.fmul(factor, value));
  };
  return e.fadd(term(alpha, x), term(beta, y));
}

static LogicalResult
mergeInto(KernelContext &k, MergeStatesOp op, MutableArrayRef<Values> stats,
          ArrayRef<Values> otherStats, MutableArrayRef<Values> values,
          ArrayRef<Values> otherValues, TypeRange valueTypes) {
  Emitter &e = k.e;
  auto first = cast<VecType>(op.getStats().front().getType());
  bool byRow = first.getAxis() == Axis::Row;
  SmallVector<Value> alphas, betas;
  for (int64_t key = 0, n = stats.front().size(); key < n; ++key) {
    SmallVector<Value> arguments, results;
    for (Values &stat : stats)
      arguments.push_back(stat[key]);
    for (const Values &stat : otherStats)
      arguments.push_back(stat[key]);
    if (failed(k.evaluate(op.getBody().front(), arguments, results)))
      return failure();
    for (size_t i = 0; i < stats.size(); ++i)
      stats[i][key] = results[i];
    alphas.push_back(results[stats.size()]);
    betas.push_back(results[stats.size() + 1]);
  }
  for (size_t v = 0; v < values.size(); ++v) {
    auto frag = dyn_cast<FragType>(valueTypes[v]);
    for (int64_t i = 0, n = values[v].size(); i < n; ++i) {
      int64_t key = i;
      if (frag) {
        FragShape shape(frag);
        key = byRow ? shape.rowKey(i) : shape.colKey(i);
      }
      values[v][i] =
          blend(e, alphas[key], values[v][i], betas[key], otherValues[v][i]);
    }
  }
  return success();
}

LogicalResult gpu::lower(KernelContext &k, MergeStatesOp op) {
  Emitter &e = k.e;
  MergeScope scope = op.getScope();
  if (scope != MergeScope::Pair && scope != MergeScope::Warps)
    return unsupported(op, "states of a pair or of warps, but got '" +
                               stringifyMergeScope(scope) + "'");
  int64_t copies = scope == MergeScope::Pair ? 2 : 1;
  int64_t numStats = op.getStats().size() / copies;
  int64_t numValues = op.getValues().size() / copies;
  if (numStats == 0)
    return unsupported(op, "1 statistic or more, but got 0");
  Type axisType = op.getStats().front().getType();
  for (Value value : op.getStats())
    if (value.getType() != axisType)
      return unsupported(op, "statistics of one type");
  auto axis = cast<VecType>(axisType);
  SmallVector<Values> stats[2], values[2];
  for (int64_t copy = 0; copy < copies; ++copy) {
    for (int64_t i = 0; i < numStats; ++i)
      stats[copy].push_back(k.of(op.getStats()[copy * numStats + i]));
    for (int64_t i = 0; i < numValues; ++i)
      values[copy].push_back(k.of(op.getValues()[copy * numValues + i]));
  }
  TypeRange results = op.getResults().getTypes();
  TypeRange valueTypes = results.drop_front(numStats);
  auto finish = [&] {
    for (int64_t i = 0; i < numStats; ++i)
      k.set(op.getResults()[i], stats[0][i]);
    for (int64_t i = 0; i < numValues; ++i)
      k.set(op.getResults()[numStats + i], values[0][i]);
    return success();
  };
  if (scope == MergeScope::Pair) {
    if (failed(mergeInto(k, op, stats[0], stats[1], values[0], values[1],
                         valueTypes)))
      return failure();
    return finish();
  }

  int64_t count = *op.getCount();
  if (k.role.scope != Scope::Warp || k.role.warps != count)
    return unsupported(op, "a role of " + Twine(count) +
                               " warps, but got one of " + Twine(k.role.warps));
  // One state: statistics and vectors by element, then fragments.
  bool byRow = axis.getAxis() == Axis::Row;
  int64_t vecBytes = axis.getSize() * 4, bytes = 0;
  SmallVector<int64_t> statOffsets, valueOffsets;
  for (int64_t i = 0; i < numStats; ++i, bytes += vecBytes)
    statOffsets.push_back(bytes);
  for (int64_t i = 0; i < numValues; ++i) {
    valueOffsets.push_back(bytes);
    bytes += isa<VecType>(op.getValues()[i].getType())
                 ? vecBytes
                 : int64_t(values[0][i].size()) * 4 * TargetInfo::warpThreads;
  }
  Value scratch = k.scalar(op.getScratch());
  Value laneOffset = e.shl(k.lane, 2);
  auto elementOffset = [&](int64_t key) {
    Value index = byRow ? k.rowIndex(Scope::Warp, key) : k.colIndex(key);
    return e.shl(index, 2);
  };
  auto toBits = [&](Value value) -> Value {
    if (value.getType() == e.i1)
      return LLVM::ZExtOp::create(e.b, e.loc, e.i32, value);
    return e.bitcast(value, e.i32);
  };
  auto fromBits = [&](Value bits, Type type) -> Value {
    if (type == e.i1)
      return e.icmp(LLVM::ICmpPredicate::ne, bits, e.c32(0));
    return e.bitcast(bits, type);
  };
  auto write = [&](Value address, Value value) {
    e.assembly("st.shared::cta.b32 [$0], $1;", "r,r,~{memory}",
               {address, toBits(value)});
  };
  auto read = [&](Value address, Type type) {
    return fromBits(e.assembly("ld.shared::cta.b32 $0, [$1];", "=r,r,~{memory}",
                               {address}, e.i32)
                        .front(),
                    type);
  };
  auto sync = [&] {
    e.call("llvm.nvvm.barrier.cta.sync.aligned.count",
           {e.c32(k.layout.memberBarrier(k.role.op)),
            e.c32(count * TargetInfo::warpThreads)});
  };
  // Who still reads an earlier merge must be done.
  sync();
  Value mine = e.add(scratch, e.mul(k.role.warpInRole, bytes));
  for (int64_t i = 0; i < numStats; ++i)
    for (auto [key, value] : llvm::enumerate(stats[0][i]))
      write(e.add(e.add(mine, statOffsets[i]), elementOffset(key)), value);
  for (int64_t i = 0; i < numValues; ++i)
    for (auto [key, value] : llvm::enumerate(values[0][i])) {
      Value at = e.add(mine, valueOffsets[i]);
      bool isVec = isa<VecType>(op.getValues()[i].getType());
      write(isVec ? e.add(at, elementOffset(key))
                  : e.add(e.add(at, laneOffset),
                          key * 4 * TargetInfo::warpThreads),
            value);
    }
  sync();
  // A state as this warp needs it: of a split fragment its own rows.
  auto load = [&](int64_t state, SmallVector<Values> &loadedStats,
                  SmallVector<Values> &loadedValues) {
    Value from = e.add(scratch, state * bytes);
    loadedStats.assign(numStats, Values());
    loadedValues.assign(numValues, Values());
    for (int64_t i = 0; i < numStats; ++i)
      for (int64_t key = 0, n = stats[0][i].size(); key < n; ++key)
        loadedStats[i].push_back(
            read(e.add(e.add(from, statOffsets[i]), elementOffset(key)),
                 axis.getElementType()));
    for (int64_t i = 0; i < numValues; ++i) {
      int64_t n = k.registerCount(valueTypes[i]);
      bool isVec = isa<VecType>(valueTypes[i]);
      bool isSplit = valueTypes[i] != op.getValues()[i].getType();
      Value at = e.add(from, valueOffsets[i]);
      if (!isVec)
        at = e.add(at, laneOffset);
      if (isSplit)
        at = e.add(at,
                   e.mul(k.role.warpInRole, n * 4 * TargetInfo::warpThreads));
      for (int64_t key = 0; key < n; ++key)
        loadedValues[i].push_back(
            read(isVec ? e.add(at, elementOffset(key))
                       : e.add(at, key * 4 * TargetInfo::warpThreads),
                 e.f32));
    }
  };
  SmallVector<Values> baseStats, baseValues;
  load(0, baseStats, baseValues);
  stats[0] = baseStats;
  values[0] = baseValues;
  for (int64_t state = 1; state < count; ++state) {
    load(state, stats[1], values[1]);
    if (failed(mergeInto(k, op, stats[0], stats[1], values[0], values[1],
                         valueTypes)))
      return failure();
  }
  return finish();
}
