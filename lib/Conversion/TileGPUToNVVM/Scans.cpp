//===- Scans.cpp - Reductions in order, scans, any ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of each 8 columns a lane of a quad holds two neighbours: the four lanes are
// combined in order first, then the blocks of 8.
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

LogicalResult gpu::combine(KernelContext &k, Block &body, State &left,
                           const State &right) {
  SmallVector<Value> arguments(left.begin(), left.end()), results;
  arguments.append(right.begin(), right.end());
  if (failed(k.evaluate(body, arguments, results)))
    return failure();
  left.assign(results.begin(), results.end());
  return success();
}

static LogicalResult scanRow(KernelContext &k, Block &body, ArrayRef<State> row,
                             const State &identity, bool reverse,
                             MutableArrayRef<State> results, State &total) {
  Emitter &e = k.e;
  Value place = e.and_(k.lane, 3), quad = e.and_(k.lane, 28);
  // x before y in the direction of the scan.
  auto join = [&](const State &x, const State &y,
                  State &result) -> LogicalResult {
    result = reverse ? y : x;
    return combine(k, body, result, reverse ? x : y);
  };
  // What the lane `distance` before this one holds; the identity where there
  // is none.
  auto before = [&](const State &x, int64_t distance) {
    Value from = reverse ? e.add(place, distance) : e.add(place, -distance);
    Value exists = reverse ? e.lt(from, e.c32(4))
                           : e.icmp(LLVM::ICmpPredicate::sge, from, e.c32(0));
    Value source = e.or_(quad, e.and_(from, 3));
    State result;
    for (auto [value, neutral] : llvm::zip_equal(x, identity))
      result.push_back(e.select(exists, e.shuffleTo(value, source), neutral));
    return result;
  };
  total = identity;
  int64_t numBlocks = row.size() / 2;
  for (int64_t i = 0; i < numBlocks; ++i) {
    int64_t block = reverse ? numBlocks - 1 - i : i;
    // The element that comes first in the direction of the scan.
    int64_t first = block * 2 + (reverse ? 1 : 0);
    int64_t second = block * 2 + (reverse ? 0 : 1);
    State sum;
    if (failed(join(row[first], row[second], sum)))
      return failure();
    for (int64_t distance : {1, 2})
      if (failed(join(before(sum, distance), State(sum), sum)))
        return failure();
    State start;
    if (failed(join(total, before(sum, 1), start)))
      return failure();
    if (!results.empty()) {
      results[first] = start;
      if (failed(join(start, row[first], results[second])))
        return failure();
    }
    State last;
    for (Value value : sum)
      last.push_back(e.shuffleTo(value, e.or_(quad, e.c32(reverse ? 0 : 3))));
    if (failed(join(State(total), last, total)))
      return failure();
  }
  return success();
}

/// The states of each row of a thread, in the order of its columns.
static SmallVector<SmallVector<State>> rowsOf(const FragShape &shape,
                                              ArrayRef<Values> inputs) {
  SmallVector<SmallVector<State>> rows(shape.rowKeys());
  for (SmallVector<State> &row : rows)
    row.resize(shape.colKeys());
  for (int64_t i = 0; i < shape.elements(); ++i)
    for (const Values &input : inputs)
      rows[shape.rowKey(i)][shape.colKey(i)].push_back(input[i]);
  return rows;
}

LogicalResult gpu::lower(KernelContext &k, ScanOp op) {
  FragShape shape(cast<FragType>(op.getInputs().front().getType()));
  SmallVector<Values> inputs;
  State identity;
  for (auto [input, neutral] :
       llvm::zip_equal(op.getInputs(), op.getIdentities())) {
    if (cast<FragType>(input.getType()).getElementType().isF16() ||
        cast<FragType>(input.getType()).getElementType().isBF16())
      return unsupported(op, "fragments of elements of 32 bits");
    inputs.push_back(k.of(input));
    identity.push_back(k.scalar(neutral));
  }
  Block &body = op.getBody().front();
  auto rows = rowsOf(shape, inputs);
  SmallVector<Values> outputs(inputs.size(), Values(shape.elements()));
  SmallVector<SmallVector<State>> scanned(rows.size());
  for (auto [index, row] : llvm::enumerate(rows)) {
    scanned[index].resize(row.size());
    State total;
    if (failed(scanRow(k, body, row, identity, op.getReverse(), scanned[index],
                       total)))
      return failure();
  }
  for (int64_t i = 0; i < shape.elements(); ++i)
    for (size_t n = 0; n < outputs.size(); ++n)
      outputs[n][i] = scanned[shape.rowKey(i)][shape.colKey(i)][n];
  for (auto [result, output] : llvm::zip_equal(op.getResults(), outputs))
    k.set(result, output);
  return success();
}

LogicalResult gpu::lowerOrderedReduce(KernelContext &k, ReduceOp op) {
  FragShape shape(cast<FragType>(op.getInputs().front().getType()));
  SmallVector<Values> inputs;
  State identity;
  for (auto [input, neutral] :
       llvm::zip_equal(op.getInputs(), op.getIdentities())) {
    inputs.push_back(k.of(input));
    identity.push_back(k.scalar(neutral));
  }
  SmallVector<Values> outputs(inputs.size());
  for (const SmallVector<State> &row : rowsOf(shape, inputs)) {
    State total;
    if (failed(scanRow(k, op.getBody().front(), row, identity,
                       /*reverse=*/false, {}, total)))
      return failure();
    for (auto [output, value] : llvm::zip_equal(outputs, total))
      output.push_back(value);
  }
  for (auto [result, output] : llvm::zip_equal(op.getResults(), outputs))
    k.set(result, output);
  return success();
}

LogicalResult gpu::lower(KernelContext &k, AnyOp op) {
  Emitter &e = k.e;
  Value some;
  for (Value value : k.of(op.getValue()))
    some = some ? e.or_(some, value) : value;
  Type type = op.getValue().getType();
  auto vec = dyn_cast<VecType>(type);
  Scope scope = vec ? vec.getScope() : cast<FragType>(type).getScope();
  // All warps of a warpgroup hold the same columns.
  if (op.getByRows() || scope == Scope::Warp ||
      (vec && vec.getAxis() == Axis::Col)) {
    k.set(op.getResult(),
          {e.call("llvm.nvvm.vote.any.sync", e.i1, {e.c32(-1), some})});
    return success();
  }
  k.set(op.getResult(),
        {e.call("llvm.nvvm.barrier.cta.red.or.aligned.count", e.i1,
                {e.add(k.role.member, k.layout.memberBarrier(k.role.op)),
                 e.c32(TargetInfo::warpgroupThreads), some})});
  return success();
}

/// Lane q of a quad holds columns 2 q and 2 q + 1 of each 8.
LogicalResult gpu::lower(KernelContext &k, VecElementsOp op) {
  Emitter &e = k.e;
  Values registers = k.of(op.getValue());
  for (auto [c, result] : llvm::enumerate(op.getElements()))
    k.set(result, {e.shuffleIndex(registers[c / 8 * 2 + c % 2], c % 8 / 2)});
  return success();
}
