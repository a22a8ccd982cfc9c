//===- WarpProducts.cpp - Products of warps -------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"
#include "OperandLoader.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

namespace {

/// How the registers of operands come about: `a` of a block of rows and a step
/// along K, `b` of some blocks of 8 columns and a step.
struct ProductOperands {
  std::function<Values(int64_t block, int64_t step)> a;
  std::function<Values(int64_t block, int64_t step, int64_t count)> b;
  int64_t steps = 0;
  /// Whether `a` is read from shared memory.
  bool loadsA = false;
  std::string instruction;
};

} // namespace

static ProductOperands operandsOf(KernelContext &k, MmaSyncOp op) {
  Emitter &e = k.e;
  auto aTile = dyn_cast<SmemType>(op.getA().getType());
  auto bTile = dyn_cast<SmemType>(op.getB().getType());
  Type element = aTile ? aTile.getElementType()
                       : cast<FragType>(op.getA().getType()).getElementType();
  int64_t depth =
      aTile ? aTile.getCols() : cast<FragType>(op.getA().getType()).getCols();
  int64_t steps = depth / MmaShape::warp().k;
  ProductOperands result;
  result.steps = steps;
  result.loadsA = static_cast<bool>(aTile);
  std::string name = element.isBF16() ? "bf16" : "f16";
  result.instruction = "m16n8k16.row.col.f32." + name + "." + name;
  if (aTile) {
    OperandLoader loader(e, k.role, k.lane, aTile, k.scalar(op.getA()),
                         Layout::A, Scope::Warp);
    result.a = [=](int64_t block, int64_t step) {
      return loader.load(block, step, 4);
    };
  } else {
    result.a = [steps, all = k.of(op.getA())](int64_t block, int64_t step) {
      auto at = all.begin() + (block * steps + step) * 4;
      return Values(at, at + 4);
    };
  }
  if (bTile) {
    OperandLoader loader(e, k.role, k.lane, bTile, k.scalar(op.getB()),
                         Layout::B, Scope::Warp);
    result.b = [=](int64_t block, int64_t step, int64_t count) {
      return loader.load(block, step, count);
    };
  } else {
    result.b = [steps, all = k.of(op.getB())](int64_t block, int64_t step,
                                              int64_t count) {
      Values registers;
      for (int64_t i = 0; i < count; ++i)
        registers.push_back(all[((block + i / 2) * steps + step) * 2 + i % 2]);
      return registers;
    };
  }
  return result;
}

static ProductOperands tf32OperandsOf(KernelContext &k, MmaSyncOp op) {
  Emitter &e = k.e;
  auto bTile = cast<SmemType>(op.getB().getType());
  ProductOperands result;
  int64_t steps = bTile.getRows() / MmaShape::warpTf32().k;
  result.steps = steps;
  result.instruction = "m16n8k8.row.col.f32.tf32.tf32";
  bool pairs = false;
  if (auto aTile = dyn_cast<SmemType>(op.getA().getType())) {
    result.loadsA = true;
    Tf32Loader loader(e, k.role, k.lane, aTile, k.scalar(op.getA()), Layout::A,
                      /*pairs=*/false);
    result.a = [=](int64_t block, int64_t step) {
      return loader.load(block, step, 4);
    };
  } else {
    auto frag = cast<FragType>(op.getA().getType());
    // Elements 2 t and 2 t + 1 of an accumulator stand for t and t + 4.
    pairs = frag.getLayout() == Layout::Acc;
    result.a = [&e, pairs, steps, all = k.of(op.getA())](int64_t block,
                                                         int64_t step) {
      auto at = all.begin() + (block * steps + step) * 4;
      if (!pairs)
        return Values(at, at + 4);
      Values rounded;
      for (int64_t i : {0, 2, 1, 3})
        rounded.push_back(e.roundTf32(at[i]));
      return rounded;
    };
  }
  Tf32Loader loader(e, k.role, k.lane, bTile, k.scalar(op.getB()), Layout::B,
                    pairs);
  result.b = [=](int64_t block, int64_t step, int64_t count) {
    return loader.load(block, step, count);
  };
  return result;
}

/// Sums that products of a warp go to by turns, where it has those of one block
/// of rows and columns alone. A power of two.
static constexpr int64_t numChains = 2;

LogicalResult gpu::lower(KernelContext &k, MmaSyncOp op) {
  Emitter &e = k.e;
  auto elementOf = [](Value operand) {
    auto tile = dyn_cast<SmemType>(operand.getType());
    return tile ? tile.getElementType()
                : cast<FragType>(operand.getType()).getElementType();
  };
  bool tf32 = elementOf(op.getB()).isTF32();
  if (!tf32 && (elementOf(op.getA()).isF32() || elementOf(op.getB()).isF32()))
    return lowerMultiplyAdd(k, op);
  ProductOperands operands = tf32 ? tf32OperandsOf(k, op) : operandsOf(k, op);
  FragShape shape(op.getAcc().getType());
  Values acc = k.of(op.getAcc());
  std::string text = "mma.sync.aligned." + operands.instruction +
                     ".f32 {$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, "
                     "{$10,$11,$12,$13};";
  SmallVector<Type> types(4, e.f32);
  // With several blocks of rows, sums take most registers, and the assembler
  // would load so far ahead that it had to move them about. It does not move
  // loads over a warp's barrier.
  bool fenced = shape.blocks > 1;
  int64_t ahead = fenced && operands.loadsA ? 1 : 0;
  int64_t steps = operands.steps, pairs = (shape.colBlocks + 1) / 2;
  auto widthOf = [&](int64_t pair) {
    return std::min<int64_t>(2, shape.colBlocks - pair * 2);
  };
  // A product waits for the one before it in its sums. Where a warp has no
  // other sums, every other step adds to some of its own.
  bool isChain = shape.blocks * shape.colBlocks == 1 && steps >= 2 * numChains;
  SmallVector<Values> chains(isChain ? numChains : 1, acc);
  for (Values &chain : MutableArrayRef(chains).drop_front())
    chain.assign(chain.size(), e.cf(0.0f));
  SmallVector<SmallVector<Values>> lefts(steps);
  SmallVector<Values> rights(steps * pairs);
  auto load = [&](int64_t n) {
    int64_t step = n / pairs, pair = n % pairs;
    for (int64_t block = 0; block < shape.blocks && pair == 0; ++block)
      lefts[step].push_back(operands.a(block, step));
    rights[n] = operands.b(pair * 2, step, widthOf(pair) * 2);
  };
  int64_t loaded = 0;
  for (int64_t n = 0, end = steps * pairs; n < end; ++n) {
    for (; loaded < std::min(n + ahead + 1, end); ++loaded)
      load(loaded);
    if (fenced)
      k.syncWarp();
    int64_t step = n / pairs, pair = n % pairs;
    for (int64_t i = 0; i < widthOf(pair); ++i)
      for (int64_t block = 0; block < shape.blocks; ++block) {
        int64_t first = (block * shape.colBlocks + pair * 2 + i) * 4;
        Values inputs = lefts[step][block];
        inputs.append({rights[n][2 * i], rights[n][2 * i + 1]});
        Values &chain = chains[step % chains.size()];
        for (int64_t j = 0; j < 4; ++j)
          inputs.push_back(chain[first + j]);
        Values sums =
            e.assembly(text, "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f", inputs, types,
                       /*isVolatile=*/false);
        llvm::copy(sums, chain.begin() + first);
      }
  }
  for (size_t each = 1; each < chains.size(); each *= 2)
    for (size_t i = 0; i < chains.size(); i += 2 * each)
      for (auto [sum, other] : llvm::zip_equal(chains[i], chains[i + each]))
        sum = LLVM::FAddOp::create(e.b, e.loc, sum, other);
  k.set(op.getResult(), std::move(chains.front()));
  return success();
}
