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
// Fragments for wgmma.mma_async", "Matrix Fragments for mma.m16n8k16"); where
// rows are columns of a warp's, as an eighth in each of the eight that hold
// one.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Dialect/TileGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

#define DEBUG_TYPE "tile-gpu-defer-reductions"

namespace attn {
#define GEN_PASS_DEF_TILEGPUDEFERREDUCTIONSPASS
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile_gpu;

namespace {
/// One sum of one step: next = factor * old + reduce(...), or, with another sum
/// of the same map, next = factor * (old + x * other) + reduce(...).
struct Update {
  ReduceOp reduce;
  MapOp map;
  unsigned result;
  Value old, other; // `other` may be null
};

/// A loop that carries such a sum, or a conditional that may add one more share
/// to what a loop gives; and its result that is the sum.
struct Site {
  Operation *op;
  unsigned result;
  Update update;
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
  if (!type || type.getPartial() ||
      (type.getAxis() != Axis::Row && type.getScope() != Scope::Warp) ||
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

/// Whether `op` is the fma by which the update of another carried vector takes
/// some of the sum `carried` in: carried * x + other, once used, as the first
/// factor of an fma whose result the map yields.
static bool isMixOf(Operation *op, Value carried) {
  auto mix = dyn_cast<math::FmaOp>(op);
  if (!mix || mix.getA() != carried || !mix->hasOneUse() ||
      !isa<BlockArgument>(carried) || !isa<BlockArgument>(mix.getB()) ||
      !isa<BlockArgument>(mix.getC()) || mix.getB() == carried ||
      mix.getC() == carried || mix.getB() == mix.getC())
    return false;
  auto next = dyn_cast<math::FmaOp>(*mix->user_begin());
  return next && next.getA() == mix.getResult() && next->hasOneUse() &&
         isa<YieldOp>(*next->user_begin());
}

/// The update of `old`, a carried vector, by the only map that reads it, but
/// for `ignored`.
static std::optional<Update> findUpdate(Value old,
                                        Operation *ignored = nullptr) {
  MapOp map;
  for (Operation *user : old.getUsers()) {
    if (user == ignored)
      continue;
    if (map || !isa<MapOp>(user))
      return std::nullopt;
    map = cast<MapOp>(user);
  }
  if (!map)
    return std::nullopt;
  BlockArgument carried = argumentOf(map, old);
  if (!carried)
    return std::nullopt;
  Operation *op = nullptr;
  for (Operation *user : carried.getUsers()) {
    if (isMixOf(user, carried))
      continue;
    if (op)
      return std::nullopt;
    op = user;
  }
  if (!op)
    return std::nullopt;
  // What is mixed in has to be a share as well (keepWholeMaps).
  Value sum = carried, other;
  if (auto mix = dyn_cast<math::FmaOp>(op); mix && mix.getC() == carried &&
                                            mix->hasOneUse() &&
                                            isMixOf(mix, mix.getA())) {
    sum = mix;
    op = *mix->user_begin();
    unsigned number = cast<BlockArgument>(mix.getA()).getArgNumber();
    if (number < 2)
      return std::nullopt;
    other = map.getInputs()[number - 2];
  }
  Value added;
  if (auto fma = dyn_cast<math::FmaOp>(op)) {
    if (fma.getC() == sum || fma.getA() == fma.getB())
      return std::nullopt;
    added = fma.getC();
  } else if (auto add = dyn_cast<arith::AddFOp>(op)) {
    added = add.getLhs() == sum ? add.getRhs() : add.getLhs();
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
  for (Value operand : op->getOperands())
    if (operand != sum && operand != added)
      if (auto factor = dyn_cast<BlockArgument>(operand))
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
  return Update{reduce, map, use.getOperandNumber(), old, other};
}

/// The sum that a loop carries at `position`.
static std::optional<Site> findLoop(scf::ForOp loop, unsigned position) {
  BlockArgument argument = loop.getRegionIterArg(position);
  auto type = dyn_cast<VecType>(argument.getType());
  auto update =
      type && !type.getPartial() ? findUpdate(argument) : std::nullopt;
  if (!update)
    return std::nullopt;
  Value next = update->map.getResult(update->result);
  if (loop.getYieldedValues()[position] != next || !next.hasOneUse())
    return std::nullopt;
  return Site{loop, position, *update};
}

/// A conditional that updates `sum` in one branch and passes it on in the
/// other.
static std::optional<Site> findTail(Value sum) {
  for (OpOperand &use : sum.getUses()) {
    auto branch = dyn_cast<scf::IfOp>(use.getOwner()->getParentOp());
    if (!branch || !branch.elseBlock() || use.getOwner() != branch.elseYield())
      continue;
    unsigned number = use.getOperandNumber();
    auto update = findUpdate(sum, use.getOwner());
    if (!update || update->map->getBlock() != branch.thenBlock())
      return std::nullopt;
    Value next = update->map.getResult(update->result);
    if (branch.thenYield().getOperand(number) != next || !next.hasOneUse())
      return std::nullopt;
    return Site{branch, number, *update};
  }
  return std::nullopt;
}

/// Drops sums until every map that updates one updates nothing else, and takes
/// in no other sums: shares and whole sums do not go through one map.
static void keepWholeMaps(SmallVectorImpl<Site> &sites) {
  while (true) {
    DenseMap<Operation *, unsigned> updated;
    DenseSet<std::pair<Operation *, Value>> shares;
    for (Site &site : sites) {
      ++updated[site.update.map];
      shares.insert({site.update.map, site.update.old});
    }
    size_t before = sites.size();
    llvm::erase_if(sites, [&](Site &site) {
      auto [reduce, map, result, old, other] = site.update;
      return updated[map] != map->getNumResults() ||
             (other && !shares.contains({map, other}));
    });
    if (sites.size() == before)
      return;
  }
}

/// Each of the four threads of a row starts with a quarter, which is exact, or
/// each of the eight of a column with an eighth.
static Value shareOut(OpBuilder &b, Location loc, Value start) {
  auto share =
      MapOp::create(b, loc, TypeRange{partialOf(start.getType())}, start);
  OpBuilder::InsertionGuard guard(b);
  Type i32 = b.getI32Type();
  Block *body = b.createBlock(&share.getBody(), {}, {i32, i32, b.getF32Type()},
                              {loc, loc, loc});
  bool isRow = cast<VecType>(start.getType()).getAxis() == Axis::Row;
  Value part = arith::ConstantOp::create(
      b, loc, b.getF32FloatAttr(isRow ? 0.25f : 0.125f));
  Value x = arith::MulFOp::create(b, loc, body->getArgument(2), part);
  YieldOp::create(b, loc, x);
  return share.getResult(0);
}

static ReduceOp addUp(OpBuilder &b, Location loc, Type type, Value shares) {
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f));
  auto complete = ReduceOp::create(b, loc, TypeRange{type}, ValueRange{shares},
                                   ValueRange{zero});
  OpBuilder::InsertionGuard guard(b);
  Type f32 = b.getF32Type();
  Block *body = b.createBlock(&complete.getBody(), {}, {f32, f32}, {loc, loc});
  Value sum =
      arith::AddFOp::create(b, loc, body->getArgument(0), body->getArgument(1));
  YieldOp::create(b, loc, sum);
  return complete;
}

/// Shares of a sum go through `site`, and are added up behind it. Where they
/// have just been added up ahead of it, they go on as they are.
static void defer(Site &site, DenseMap<Value, Value> &sharesOf) {
  OpBuilder b(site.op);
  Location loc = site.op->getLoc();
  Value result = site.op->getResult(site.result);
  Type type = result.getType();
  auto loop = dyn_cast<scf::ForOp>(site.op);
  Value start =
      loop ? loop.getInitArgs()[site.result]
           : cast<scf::IfOp>(site.op).elseYield().getOperand(site.result);
  Value shares = sharesOf.lookup(start);
  auto added = shares ? start.getDefiningOp<ReduceOp>() : ReduceOp();
  if (!shares)
    shares = shareOut(b, loc, start);
  if (loop) {
    loop.getInitArgsMutable()[site.result].set(shares);
    loop.getRegionIterArg(site.result).setType(shares.getType());
  } else {
    start.replaceUsesWithIf(shares, [&](OpOperand &use) {
      return site.op->isProperAncestor(use.getOwner());
    });
  }
  if (added && added->use_empty()) {
    Operation *zero = added.getIdentities()[0].getDefiningOp();
    added.erase();
    if (zero->use_empty())
      zero->erase();
  }
  site.update.reduce.getResult(0).setType(shares.getType());
  site.update.map.getResult(site.update.result).setType(shares.getType());
  result.setType(shares.getType());
  b.setInsertionPointAfter(site.op);
  ReduceOp complete = addUp(b, loc, type, result);
  result.replaceAllUsesExcept(complete.getResult(0), complete);
  sharesOf[complete.getResult(0)] = result;
}

namespace {
struct DeferReductionsPass
    : ::attn::impl::TileGpuDeferReductionsPassBase<DeferReductionsPass> {
  void runOnOperation() final {
    KernelOp func = getOperation();
    SmallVector<scf::ForOp> loops;
    func.walk<WalkOrder::PreOrder>(
        [&](scf::ForOp loop) { loops.push_back(loop); });
    SmallVector<Site> sites;
    for (scf::ForOp loop : loops)
      for (unsigned i = 0, e = loop.getNumResults(); i < e; ++i)
        if (auto site = findLoop(loop, i)) {
          sites.push_back(*site);
          if (auto tail = findTail(loop.getResult(i)))
            sites.push_back(*tail);
        }
    keepWholeMaps(sites);
    DenseMap<Value, Value> sharesOf;
    for (Site &site : sites)
      defer(site, sharesOf);
  }
};
} // namespace
