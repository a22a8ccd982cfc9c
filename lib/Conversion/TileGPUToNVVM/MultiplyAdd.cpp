//===- MultiplyAdd.cpp - f32 products by multiply-adds --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// acc + a b for operands that the matrix unit would round: each thread has
// the rows and columns of its accumulator elements, four steps of K at a time.
// Where `a` is in shared memory the steps are a loop. The registers of a
// fragment have no index at run time: they move on behind each turn of a loop,
// where all steps in a row would be thousands of multiply-adds.
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"
#include "TileElements.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

namespace {

/// The multiply-adds of one product.
class MultiplyAdds {
public:
  MultiplyAdds(KernelContext &k, MmaSyncOp op)
      : k(k), e(k.e), op(op), shape(op.getAcc().getType()),
        aTile(dyn_cast<SmemType>(op.getA().getType())),
        bTile(cast<SmemType>(op.getB().getType())), depth(bTile.getRows()) {}
  LogicalResult lower();

private:
  /// Steps of K at a time, and steps of a turn of the loop: their registers of
  /// `a` are neighbours.
  static constexpr int64_t group = 4, turn = 16;
  /// As many multiply-adds of a thread as are put in a row: kernels of three
  /// rows of 8192 took ptxas 18 s.
  static constexpr int64_t mostInRow = 4096;
  using Steps = SmallVector<SmallVector<Value, group>>;

  Steps loadLeft(Value first, int64_t at);
  void addSteps(const TileElements &b, Value first, int64_t at, Values &sums);
  void addTurn(const TileElements &b, Value first, Values &sums);
  Values buildLoop(const TileElements &b, const Values &acc);

  KernelContext &k;
  Emitter &e;
  MmaSyncOp op;
  FragShape shape;
  SmemType aTile, bTile;
  int64_t depth;
  /// The left operand: in shared memory, or in registers.
  std::optional<TileElements> a;
  Values held;
  /// The first of the four lanes that have the thread's rows.
  Value quad;
};

} // namespace

/// The left operand of the steps from `first` on, of each of the thread's rows;
/// in registers it is `held` from `at` on.
MultiplyAdds::Steps MultiplyAdds::loadLeft(Value first, int64_t at) {
  Steps left(shape.rowKeys());
  for (int64_t key = 0; key < shape.rowKeys(); ++key) {
    int64_t row = key / 2 * shape.blockRows + key % 2 * 8;
    if (!aTile) {
      for (int64_t step = at; step < at + group; ++step) {
        int64_t index =
            key / 2 * (depth / 2) + step / 8 * 4 + key % 2 * 2 + step % 2;
        left[key].push_back(
            e.shuffleTo(held[index], e.or_(quad, e.c32(step % 8 / 2))));
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
  return left;
}

/// The steps from `first` of `b` on, from `at` of what is held of `a`.
void MultiplyAdds::addSteps(const TileElements &b, Value first, int64_t at,
                            Values &sums) {
  Steps left = loadLeft(first, at);
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
}

/// The steps of one turn of the loop.
void MultiplyAdds::addTurn(const TileElements &b, Value first, Values &sums) {
  if (aTile)
    return addSteps(b, first, 0, sums);
  if (bTile.getTransposed()) {
    for (int64_t at = 0; at < turn; at += group)
      addSteps(b, e.add(first, at), at, sums);
    return;
  }
  // Rows of 8 have one pattern: only the base is not known.
  TileElements here(
      e, bTile, e.add(k.scalar(op.getB()), e.mul(first, b.rowStep(1))), k.lane);
  for (int64_t at = 0; at < turn; at += group)
    addSteps(here, e.c32(at), at, sums);
}

/// The sums behind a loop over all steps.
Values MultiplyAdds::buildLoop(const TileElements &b, const Values &acc) {
  Values initial = {e.c32(0)};
  llvm::append_range(initial, acc);
  llvm::append_range(initial, held);
  SmallVector<Type> types;
  for (Value value : initial)
    types.push_back(value.getType());
  Block *body = e.newBlock(types), *exit = e.newBlock();
  e.branch(body, initial);
  e.startBlock(body);
  Value first = body->getArgument(0);
  Values sums(body->getArguments().slice(1, acc.size()));
  llvm::copy(body->getArguments().drop_front(1 + acc.size()), held.begin());
  addTurn(b, first, sums);
  // Of each pair of rows `held` has depth / 2 registers in order.
  for (size_t i = 0; i < held.size(); i += depth / 2)
    std::rotate(held.begin() + i, held.begin() + i + turn / 2,
                held.begin() + i + depth / 2);
  Value next = e.add(first, aTile ? group : turn);
  Values carried = {next};
  llvm::append_range(carried, sums);
  llvm::append_range(carried, held);
  e.branch(e.lt(next, e.c32(depth)), body, exit, carried);
  e.startBlock(exit);
  return sums;
}

LogicalResult MultiplyAdds::lower() {
  if (depth % group)
    return unsupported(op,
                       "a depth K of a multiple of 4, but got " + Twine(depth));
  TileElements b(e, bTile, k.scalar(op.getB()), k.lane);
  if (aTile)
    a.emplace(e, aTile, k.scalar(op.getA()), k.lane);
  else
    held = k.of(op.getA());
  quad = e.and_(k.lane, 28);
  Values acc = k.of(op.getAcc());
  bool isInRow =
      !aTile && (depth % turn || depth * int64_t(acc.size()) <= mostInRow);
  if (isInRow)
    for (int64_t step = 0; step < depth; step += group)
      addSteps(b, e.c32(step), step, acc);
  else
    acc = buildLoop(b, acc);
  k.set(op.getResult(), std::move(acc));
  return success();
}

LogicalResult gpu::lowerMultiplyAdd(KernelContext &k, MmaSyncOp op) {
  return MultiplyAdds(k, op).lower();
}
