//===- MultiplyAdd.cpp - f32 products by multiply-adds --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// acc + a b for operands that the matrix unit would round: each thread has
// the rows and columns of its accumulator elements, four steps of K at a time.
// Where `a` is in shared memory the steps are a loop; the registers of a
// fragment have no index at run time.
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"
#include "TileElements.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

LogicalResult gpu::lowerMultiplyAdd(KernelContext &k, MmaSyncOp op) {
  Emitter &e = k.e;
  constexpr int64_t group = 4;
  FragShape shape(op.getAcc().getType());
  Values acc = k.of(op.getAcc());
  SmemType bTile = cast<SmemType>(op.getB().getType());
  auto aTile = dyn_cast<SmemType>(op.getA().getType());
  int64_t depth = bTile.getRows();
  if (depth % group)
    return unsupported(op,
                       "a depth K of a multiple of 4, but got " + Twine(depth));
  TileElements b(e, bTile, k.scalar(op.getB()), k.lane);
  std::optional<TileElements> a;
  if (aTile)
    a.emplace(e, aTile, k.scalar(op.getA()), k.lane);
  Values aRegisters = aTile ? Values() : k.of(op.getA());
  Value quad = e.and_(k.lane, 28);

  // The steps from `first` (a value; `at` where it is known) on.
  auto run = [&](Value first, int64_t at, Values &sums) {
    SmallVector<SmallVector<Value, group>> left(shape.rowKeys());
    for (int64_t key = 0; key < shape.rowKeys(); ++key) {
      int64_t row = key / 2 * shape.blockRows + key % 2 * 8;
      if (!aTile) {
        for (int64_t step = at; step < at + group; ++step) {
          int64_t index =
              key / 2 * (depth / 2) + step / 8 * 4 + key % 2 * 2 + step % 2;
          left[key].push_back(
              e.shuffleTo(aRegisters[index], e.or_(quad, e.c32(step % 8 / 2))));
        }
      } else if (!aTile.getTransposed()) {
        left[key].append(
            a->load(a->at(k.role.row, first), a->rowStep(row), group));
      } else {
        for (int64_t step = 0; step < group; ++step)
          left[key].append(
              a->load(a->at(e.add(first, step), e.add(k.role.row, row)), 0, 1));
      }
    }
    // What is loaded is used at once: few registers hold it.
    auto multiply = [&](int64_t step, int64_t colKey, Value x) {
      for (int64_t key = 0; key < shape.rowKeys(); ++key) {
        Value &sum = sums[(key / 2 * shape.colBlocks + colKey / 2) * 4 +
                          key % 2 * 2 + colKey % 2];
        sum = e.fma(left[key][step], x, sum);
      }
    };
    if (bTile.getTransposed()) {
      for (int64_t key = 0; key < shape.colKeys(); ++key) {
        Values right = b.load(b.at(e.add(k.role.col, key % 2), first),
                              b.rowStep(key / 2 * 8), group);
        for (int64_t step = 0; step < group; ++step)
          multiply(step, key, right[step]);
      }
      return;
    }
    for (int64_t step = 0; step < group; ++step)
      for (int64_t block = 0; block < shape.colBlocks; ++block) {
        Values pair = b.load(b.pairAt(e.add(first, step), block), 0, 2);
        multiply(step, block * 2, pair[0]);
        multiply(step, block * 2 + 1, pair[1]);
      }
  };

  if (!aTile) {
    for (int64_t step = 0; step < depth; step += group)
      run(e.c32(step), step, acc);
    k.set(op.getResult(), std::move(acc));
    return success();
  }
  Values initial = {e.c32(0)};
  llvm::append_range(initial, acc);
  SmallVector<Type> types;
  for (Value value : initial)
    types.push_back(value.getType());
  Block *body = e.newBlock(types), *exit = e.newBlock();
  e.branch(body, initial);
  e.startBlock(body);
  Value first = body->getArgument(0);
  Values sums(body->getArguments().drop_front());
  run(first, 0, sums);
  Value next = e.add(first, group);
  Values carried = {next};
  llvm::append_range(carried, sums);
  e.branch(e.lt(next, e.c32(depth)), body, exit, carried);
  e.startBlock(exit);
  k.set(op.getResult(), std::move(sums));
  return success();
}
