//===- Registers.cpp - Elementwise functions and reductions ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"
#include "TileElements.h"
#include "Weights.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

//===----------------------------------------------------------------------===//
// Fill and convert
//===----------------------------------------------------------------------===//

LogicalResult gpu::lower(KernelContext &k, FragFillOp op) {
  Emitter &e = k.e;
  Type type = op.getResult().getType();
  Value value = k.scalar(op.getValue());
  auto frag = dyn_cast<FragType>(type);
  if (frag && isPacked(frag)) {
    Value wide = e.widen(value);
    value = e.pack(wide, wide, frag.getElementType());
  }
  k.set(op.getResult(), Values(k.registerCount(type), value));
  return success();
}

LogicalResult gpu::lower(KernelContext &k, FragPadOp op) {
  Emitter &e = k.e;
  FragShape from(op.getValue().getType()), to(op.getResult().getType());
  Values held = k.of(op.getValue()), padded;
  int64_t each = from.colBlocks * from.each(), wide = to.colBlocks * to.each();
  int64_t before = op.getFirst() / 8 * from.each();
  for (int64_t block = 0; block < from.blocks; ++block) {
    padded.append(before, e.cf(0.0f));
    padded.append(held.begin() + block * each,
                  held.begin() + (block + 1) * each);
    padded.append(wide - before - each, e.cf(0.0f));
  }
  k.set(op.getResult(), std::move(padded));
  return success();
}

LogicalResult gpu::lower(KernelContext &k, FragColsOp op) {
  FragShape from(op.getValue().getType()), to(op.getResult().getType());
  Values held = k.of(op.getValue()), part;
  int64_t wide = from.colBlocks * from.each(), each = to.colBlocks * to.each();
  int64_t before = op.getFirst() / 8 * from.each();
  for (int64_t block = 0; block < from.blocks; ++block) {
    auto first = held.begin() + block * wide + before;
    part.append(first, first + each);
  }
  k.set(op.getResult(), std::move(part));
  return success();
}

LogicalResult gpu::lower(KernelContext &k, FragConvertOp op) {
  Emitter &e = k.e;
  Values from = k.of(op.getValue());
  FragType type = op.getResult().getType();
  Type element = type.getElementType();
  Values packed;
  for (size_t i = 0; i < from.size(); i += 2)
    packed.push_back(e.pack(from[i], from[i + 1], element));
  if (type.getLayout() != Layout::B) {
    k.set(op.getResult(), std::move(packed));
    return success();
  }
  // Rows become K: the registers of 8x8 blocks are exchanged between lanes.
  FragShape shape(op.getValue().getType());
  Values registers(packed.size());
  for (int64_t i = 0, n = packed.size(); i < n; ++i) {
    int64_t block = i / (shape.colBlocks * 2), col = i / 2 % shape.colBlocks;
    registers[(col * shape.blocks + block) * 2 + i % 2] =
        e.assembly("movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", "=r,r",
                   {packed[i]}, e.i32)
            .front();
  }
  k.set(op.getResult(), std::move(registers));
  return success();
}

//===----------------------------------------------------------------------===//
// Reduce
//===----------------------------------------------------------------------===//

/// Whether a region adds its two arguments.
static bool addsOnly(Block &body) {
  auto add = body.getTerminator()->getOperand(0).getDefiningOp<arith::AddFOp>();
  return body.getNumArguments() == 2 && add &&
         llvm::is_contained(add->getOperands(), body.getArgument(0)) &&
         llvm::is_contained(add->getOperands(), body.getArgument(1));
}

/// sum + value, where a value that is a product, or a sum of some, is no
/// addition more.
static Value addProducts(KernelContext &k, Value sum, Value value) {
  if (auto product = value.getDefiningOp<LLVM::FMulOp>())
    return k.e.fma(product.getLhs(), product.getRhs(), sum);
  if (auto products = value.getDefiningOp<LLVM::FMAOp>())
    return k.e.fma(products.getA(), products.getB(),
                   addProducts(k, sum, products.getC()));
  return LLVM::FAddOp::create(k.e.b, k.e.loc, sum, value);
}

/// The rows of a column lie in four warps, which exchange what they have by way
/// of shared memory, a row for each.
static LogicalResult combineWarps(KernelContext &k, ReduceOp op,
                                  MutableArrayRef<State> states) {
  Emitter &e = k.e;
  constexpr int64_t warps = 4;
  auto vec = cast<VecType>(op.getResult(0).getType());
  if (op.getNumResults() != 1)
    return unsupported(op, "one input, a row vector, a partial vector or the "
                           "scope of a warp; the rows of a column lie in four "
                           "warps");
  auto tile = SmemType::get(op.getContext(), warps, vec.getSize(),
                            vec.getElementType(), /*swizzle=*/0, /*boxes=*/1,
                            /*pitch=*/warps, /*transposed=*/false);
  Value place = k.address(*k.layout.tile(op));
  if (k.role.op.getCount() > 1)
    place = e.add(place, e.mul(k.role.member, tile.getBytes()));
  TileElements elements(e, tile, place, k.lane);
  Value owner = e.eq(e.lshr(k.lane, 2), 0);
  int64_t blocks = vec.getSize() / 8;
  // Others may still read what was there.
  k.syncMember();
  for (int64_t block = 0; block < blocks; ++block)
    elements.store(elements.pairAt(k.role.warpInMember, block), 0,
                   {states[2 * block][0], states[2 * block + 1][0]}, owner);
  k.syncMember();
  for (int64_t block = 0; block < blocks; ++block) {
    SmallVector<Values> parts;
    for (int64_t warp = 0; warp < warps; ++warp)
      parts.push_back(elements.load(elements.pairAt(e.c32(warp), block), 0, 2));
    for (int64_t i : {0, 1}) {
      State &state = states[2 * block + i];
      state = {parts[0][i]};
      for (int64_t warp = 1; warp < warps; ++warp)
        if (failed(combine(k, op.getBody().front(), state, {parts[warp][i]})))
          return failure();
    }
  }
  return success();
}

namespace {
/// A map that adds a partial sum of weights to a factor times the sum before.
struct SumUpdate {
  MapOp map;
  Value old, factor;
};
} // namespace

/// Of weights amid which a product is waited for: what `op` is read for, if
/// that is all.
static std::optional<SumUpdate> updateOf(ReduceOp op) {
  if (op.getNumResults() != 1 || !op.getResult(0).hasOneUse() ||
      !cast<VecType>(op.getResult(0).getType()).getPartial() ||
      !addsOnly(op.getBody().front()) ||
      llvm::none_of(op.getInputs()[0].getUsers(), [&](Operation *user) {
        MapOp weights = weightsAround(user);
        return weights && weights.getResult(0) == op.getInputs()[0];
      }))
    return std::nullopt;
  auto map = dyn_cast<MapOp>(*op->user_begin());
  if (!map || map.getNumResults() != 1 || map->getBlock() != op->getBlock())
    return std::nullopt;
  Block &body = map.getBody().front();
  auto fma = dyn_cast<math::FmaOp>(body.front());
  if (!fma || fma->getNextNode() != body.getTerminator())
    return std::nullopt;
  auto inputOf = [&](Value value) -> Value {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && argument.getOwner() == &body &&
                   argument.getArgNumber() >= 2
               ? map.getInputs()[argument.getArgNumber() - 2]
               : Value();
  };
  auto isThere = [&](Value value) {
    Operation *def = value ? value.getDefiningOp() : nullptr;
    return value && (!def || def->getBlock() != op->getBlock() ||
                     def->isBeforeInBlock(op));
  };
  SumUpdate update{map, inputOf(fma.getA()), inputOf(fma.getB())};
  if (inputOf(fma.getC()) != op.getResult(0) || !isThere(update.old) ||
      !isThere(update.factor))
    return std::nullopt;
  return update;
}

bool gpu::isChained(MapOp op) {
  return llvm::any_of(op.getInputs(), [&](Value input) {
    auto reduce = input.getDefiningOp<ReduceOp>();
    auto update = reduce ? updateOf(reduce) : std::nullopt;
    return update && update->map == op;
  });
}

/// Makes one chain of a sum of weights, which starts with the factor times the
/// sum before. So the factor is needed first, and ptxas scales the values' sum
/// by it between the exponentials; behind a tree of sums it comes last.
static LogicalResult chainSum(KernelContext &k, ReduceOp op, SumUpdate update) {
  FragShape shape(cast<FragType>(op.getInputs()[0].getType()));
  Values weights = k.of(op.getInputs()[0]), sums = k.of(update.old),
         factors = k.of(update.factor);
  for (int64_t key = 0, count = sums.size(); key < count; ++key) {
    State sum;
    for (int64_t i = 0; i < shape.elements(); ++i) {
      if (shape.rowKey(i) != key)
        continue;
      if (sum.empty())
        sum = {k.e.fma(sums[key], factors[key], weights[i])};
      else if (failed(combine(k, op.getBody().front(), sum, {weights[i]})))
        return failure();
    }
    sums[key] = sum.front();
  }
  k.set(op.getResult(0), sums);
  k.set(update.map.getResult(0), std::move(sums));
  return success();
}

LogicalResult gpu::lower(KernelContext &k, ReduceOp op) {
  Emitter &e = k.e;
  if (auto update = updateOf(op))
    return chainSum(k, op, *update);
  if (op.getOrdered())
    return lowerOrderedReduce(k, op);
  Block &body = op.getBody().front();
  int64_t n = op.getInputs().size();
  auto vec = cast<VecType>(op.getResult(0).getType());
  bool byRow = vec.getAxis() == Axis::Row;
  SmallVector<Values> inputs;
  for (Value input : op.getInputs())
    inputs.push_back(k.of(input));
  int64_t keys = k.registerCount(vec);
  SmallVector<State> states(keys);
  if (isa<VecType>(op.getInputs()[0].getType())) {
    for (int64_t key = 0; key < keys; ++key)
      for (Values &input : inputs)
        states[key].push_back(input[key]);
  } else {
    // Independent chains, then a tree: the latency of one chain would show.
    constexpr size_t numChains = 4;
    FragShape shape(cast<FragType>(op.getInputs()[0].getType()));
    SmallVector<SmallVector<State>> members(keys);
    for (int64_t i = 0; i < shape.elements(); ++i) {
      State state;
      for (auto [index, input] : llvm::enumerate(inputs)) {
        auto frag = cast<FragType>(op.getInputs()[index].getType());
        state.push_back(isPacked(frag) ? e.unpack(input[i / 2], i % 2,
                                                  frag.getElementType())
                                       : input[i]);
      }
      members[byRow ? shape.rowKey(i) : shape.colKey(i)].push_back(state);
    }
    // Nobody else reads the products, which LLVM then drops.
    bool sums = n == 1 && addsOnly(body) && op.getInputs()[0].hasOneUse();
    for (int64_t key = 0; key < keys; ++key) {
      SmallVector<State> &all = members[key];
      size_t chains = std::min(numChains, all.size());
      for (size_t i = chains; i < all.size(); ++i)
        if (sums)
          all[i % chains] = {addProducts(k, all[i % chains][0], all[i][0])};
        else if (failed(combine(k, body, all[i % chains], all[i])))
          return failure();
      for (size_t step = 1; step < chains; step *= 2)
        for (size_t i = 0; i + step < chains; i += 2 * step)
          if (failed(combine(k, body, all[i], all[i + step])))
            return failure();
      states[key] = all.front();
    }
  }
  if (!vec.getPartial()) {
    // Columns of a row are in the 4 lanes of a quad; rows of a column in the
    // 8 lanes at the same place of their quads, and in the other warps.
    SmallVector<int64_t, 3> masks = {1, 2};
    if (!byRow)
      masks = {4, 8, 16};
    for (int64_t mask : masks)
      for (State &state : states) {
        State other;
        for (Value value : state)
          other.push_back(e.shuffleXor(value, mask));
        if (failed(combine(k, body, state, other)))
          return failure();
      }
    if (!byRow && vec.getScope() == Scope::Warpgroup &&
        failed(combineWarps(k, op, states)))
      return failure();
  }
  for (int64_t i = 0; i < n; ++i) {
    Values results;
    for (State &state : states)
      results.push_back(state[i]);
    k.set(op.getResult(i), std::move(results));
  }
  return success();
}
