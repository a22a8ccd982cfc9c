//===- DeferReductions.cpp - Row sums completed once, after the loops -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row sum that loops carry and scale is linear in what each thread of the
// row adds to it: threads keep their shares, and one exchange after the last
// loop adds them up. A sum that does not start at 0 enters as a quarter in each
// of the four threads that hold a row of an accumulator (PTX ISA, "Register
// Fragments for wgmma.mma_async", "Matrix Fragments for mma.m16n8k16").
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

#define DEBUG_TYPE "tile-defer-reductions"

namespace attn {
#define GEN_PASS_DEF_TILEDEFERREDUCTIONSPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

namespace {
/// One sum of one step: next = factor * old + reduce(...).
struct Update {
  ReduceOp reduce;
  MapOp map;
  unsigned result;
};

/// A sum through loops that take it from one another.
struct SumChain {
  /// What the first loop starts from.
  OpOperand *initial = nullptr;
  SmallVector<Update> updates;
  SmallVector<std::pair<scf::ForOp, unsigned>> loops;
  /// The result of a conditional behind the last loop that may add one more
  /// share; or null.
  OpResult tail;
};
} // namespace

static VecType partialOf(Type type) {
  auto vec = cast<VecType>(type);
  return VecType::get(vec.getContext(), vec.getSize(), vec.getElementType(),
                      vec.getAxis(), vec.getScope(), /*partial=*/true);
}

/// A complete row sum of f32 by addition.
static bool isRowSum(ReduceOp op) {
  if (!op || op.getNumResults() != 1)
    return false;
  auto type = dyn_cast<VecType>(op.getResult(0).getType());
  if (!type || type.getPartial() || type.getAxis() != Axis::Row ||
      !type.getElementType().isF32() ||
      !isa<FragType>(op.getInputs()[0].getType()))
    return false;
  if (!matchPattern(op.getIdentities()[0], m_AnyZeroFloat()))
    return false;
  Block &body = op.getBody().front();
  auto add = body.getTerminator()->getOperand(0).getDefiningOp<arith::AddFOp>();
  return add && &body.front() == add &&
         add->getNextNode() == body.getTerminator();
}

/// The block argument of `map` for `value`, where it is the input just once.
static BlockArgument argumentOf(MapOp map, Value value) {
  BlockArgument found;
  for (auto [i, input] : llvm::enumerate(map.getInputs())) {
    if (input != value)
      continue;
    if (found)
      return {};
    found = map.getBody().getArgument(2 + i);
  }
  return found;
}

/// The update of `old`, a carried vector, by the only map that reads it, but
/// for `other`.
static std::optional<Update> findUpdate(Value old, Operation *other = nullptr) {
  MapOp map;
  for (Operation *user : old.getUsers()) {
    if (user == other)
      continue;
    if (map || !isa<MapOp>(user))
      return std::nullopt;
    map = cast<MapOp>(user);
  }
  if (!map)
    return std::nullopt;
  BlockArgument carried = argumentOf(map, old);
  if (!carried || !carried.hasOneUse())
    return std::nullopt;
  Operation *op = *carried.user_begin();
  Value added;
  if (auto fma = dyn_cast<math::FmaOp>(op)) {
    if (fma.getC() == carried || fma.getA() == fma.getB())
      return std::nullopt;
    added = fma.getC();
  } else if (auto add = dyn_cast<arith::AddFOp>(op)) {
    added = add.getLhs() == carried ? add.getRhs() : add.getLhs();
  } else {
    return std::nullopt;
  }
  auto argument = dyn_cast<BlockArgument>(added);
  if (!argument || argument.getOwner() != &map.getBody().front() ||
      argument.getArgNumber() < 2 || !argument.hasOneUse() || !op->hasOneUse())
    return std::nullopt;
  OpOperand &use = *op->use_begin();
  if (use.getOwner() != map.getBody().front().getTerminator())
    return std::nullopt;
  Value input = map.getInputs()[argument.getArgNumber() - 2];
  auto reduce = input.getDefiningOp<ReduceOp>();
  if (!isRowSum(reduce) || !input.hasOneUse())
    return std::nullopt;
  // The factor must not see a share.
  for (Value other : op->getOperands())
    if (other != carried && other != added)
      if (auto factor = dyn_cast<BlockArgument>(other))
        if (auto type = dyn_cast<VecType>(
                factor.getArgNumber() >= 2
                    ? map.getInputs()[factor.getArgNumber() - 2].getType()
                    : Type()))
          if (type.getPartial())
            return std::nullopt;
  // A map of sums alone: everything else in it is whole.
  for (Type type : map.getResultTypes())
    if (!isa<VecType>(type))
      return std::nullopt;
  return Update{reduce, map, use.getOperandNumber()};
}

/// A conditional that updates `sum` in one branch and passes it on in the
/// other.
static void findTail(Value sum, SumChain &chain) {
  for (OpOperand &use : sum.getUses()) {
    auto branch = dyn_cast<scf::IfOp>(use.getOwner()->getParentOp());
    if (!branch || branch.elseBlock() != use.getOwner()->getBlock() ||
        use.getOwner() != branch.elseYield())
      continue;
    auto update = findUpdate(sum, use.getOwner());
    if (!update || update->map->getBlock() != branch.thenBlock())
      return;
    Value next = update->map.getResult(update->result);
    if (branch.thenYield().getOperand(use.getOperandNumber()) != next ||
        !next.hasOneUse())
      return;
    chain.updates.push_back(*update);
    chain.tail = cast<OpResult>(branch.getResult(use.getOperandNumber()));
    return;
  }
}

/// Follows the sum that `initial` starts.
static std::optional<SumChain> findChain(OpOperand &initial) {
  SumChain chain;
  chain.initial = &initial;
  Value value;
  auto loop = dyn_cast<scf::ForOp>(initial.getOwner());
  while (loop) {
    BlockArgument argument =
        loop.getTiedLoopRegionIterArg(value ? &*value.use_begin() : &initial);
    if (!argument)
      break;
    auto update = findUpdate(argument);
    if (!update)
      break;
    OpOperand *yielded = loop.getTiedLoopYieldedValue(argument);
    Value next = update->map.getResult(update->result);
    if (!yielded || yielded->get() != next || !next.hasOneUse())
      break;
    chain.updates.push_back(*update);
    chain.loops.push_back({loop, argument.getArgNumber() - 1});
    value = loop.getResult(argument.getArgNumber() - 1);
    findTail(value, chain);
    if (!value.hasOneUse())
      break;
    Operation *user = *value.user_begin();
    loop = user->getBlock() == loop->getBlock() ? dyn_cast<scf::ForOp>(user)
                                                : scf::ForOp();
  }
  if (chain.loops.empty())
    return std::nullopt;
  return chain;
}

/// Drops chains until every map that updates one updates nothing else: shares
/// and whole sums do not go through one map.
static void keepWholeMaps(SmallVectorImpl<SumChain> &chains) {
  while (true) {
    DenseMap<Operation *, unsigned> updated;
    for (SumChain &chain : chains)
      for (Update &update : chain.updates)
        ++updated[update.map];
    size_t before = chains.size();
    llvm::erase_if(chains, [&](SumChain &chain) {
      return llvm::any_of(chain.updates, [&](Update &update) {
        return updated[update.map] != update.map->getNumResults();
      });
    });
    if (chains.size() == before)
      return;
  }
}

static void deferChain(SumChain &chain) {
  scf::ForOp first = chain.loops.front().first;
  OpBuilder b(first);
  Location loc = first.getLoc();
  Value start = chain.initial->get();
  auto partial = partialOf(start.getType());
  // Each of the four threads of a row starts with a quarter, which is exact.
  auto share = MapOp::create(b, loc, TypeRange{partial}, ValueRange{start});
  {
    OpBuilder::InsertionGuard guard(b);
    Type i32 = b.getI32Type();
    Block *body = b.createBlock(&share.getBody(), {},
                                {i32, i32, b.getF32Type()}, {loc, loc, loc});
    Value quarter = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0.25f));
    Value x = arith::MulFOp::create(b, loc, body->getArgument(2), quarter);
    YieldOp::create(b, loc, x);
  }
  chain.initial->set(share.getResult(0));
  for (Update &update : chain.updates) {
    update.reduce.getResult(0).setType(partial);
    update.map.getResult(update.result).setType(partial);
  }
  Value last;
  for (auto [loop, position] : chain.loops) {
    loop.getRegionIterArg(position).setType(partial);
    last = loop.getResult(position);
    last.setType(partial);
  }
  if (chain.tail) {
    last = chain.tail;
    last.setType(partial);
  }
  b.setInsertionPointAfter(last.getDefiningOp());
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f));
  auto complete = ReduceOp::create(b, loc, TypeRange{start.getType()},
                                   ValueRange{last}, ValueRange{zero});
  {
    OpBuilder::InsertionGuard guard(b);
    Type f32 = b.getF32Type();
    Block *body =
        b.createBlock(&complete.getBody(), {}, {f32, f32}, {loc, loc});
    Value sum = arith::AddFOp::create(b, loc, body->getArgument(0),
                                      body->getArgument(1));
    YieldOp::create(b, loc, sum);
  }
  last.replaceAllUsesExcept(complete.getResult(0), complete);
}

namespace {
struct DeferReductionsPass
    : ::attn::impl::TileDeferReductionsPassBase<DeferReductionsPass> {
  void runOnOperation() final {
    KernelOp func = getOperation();
    SmallVector<scf::ForOp> loops;
    func.walk<WalkOrder::PreOrder>(
        [&](scf::ForOp loop) { loops.push_back(loop); });
    SmallVector<SumChain> chains;
    DenseSet<std::pair<Operation *, unsigned>> taken;
    for (scf::ForOp loop : loops)
      for (OpOperand &initial : loop.getInitArgsMutable()) {
        auto type = dyn_cast<VecType>(initial.get().getType());
        unsigned position =
            initial.getOperandNumber() - loop.getNumControlOperands();
        if (!type || type.getPartial() || taken.contains({loop, position}))
          continue;
        if (auto chain = findChain(initial)) {
          for (auto [member, at] : chain->loops)
            taken.insert({member, at});
          chains.push_back(std::move(*chain));
        }
      }
    keepWholeMaps(chains);
    for (SumChain &chain : chains)
      deferChain(chain);
  }
};
} // namespace
