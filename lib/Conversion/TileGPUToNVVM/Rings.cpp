//===- Rings.cpp - Slots of rings -----------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"
#include "Weights.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

static Value slotOf(Emitter &e, const RingLayout &ring, Value counter) {
  return e.urem(counter, ring.type.getStages());
}

static Value phaseOf(Emitter &e, const RingLayout &ring, Value counter) {
  return e.and_(e.udiv(counter, ring.type.getStages()), 1);
}

LogicalResult gpu::noRing(Operation *op) {
  return op->emitOpError("expected a ring made in this kernel by "
                         "tile_gpu.ring.create");
}

static void setTiles(KernelContext &k, ValueRange tiles, const RingLayout &ring,
                     Value slot) {
  for (auto [index, tile] : llvm::enumerate(tiles))
    k.set(tile,
          {k.slotAddress(ring.offsets[index], ring.strides[index], slot)});
}

/// Waits until a slot is empty, in each block of those that fill it. A block
/// knows when its own is, and its producers tell the others': one arrival from
/// block to block, ahead of which consumers need no address of another block.
/// (With one, ptxas puts their arrivals 50 to 120 instructions later.)
static void waitForEmpty(KernelContext &k, const RingLayout &ring,
                         Value counter, Value slot) {
  Emitter &e = k.e;
  Value phase = phaseOf(e, ring, counter);
  // The first uses find the barrier in the phase before its first one.
  k.waitBarrier(k.slotAddress(ring.empty, 8, slot), e.xor_(phase, e.c32(1)));
  if (!ring.isTold())
    return;
  Value all = k.slotAddress(ring.allEmpty(), 8, slot);
  arriveInCluster(k, all);
  k.waitBarrier(all, phase);
}

LogicalResult gpu::lower(KernelContext &k, RingAcquireOp op) {
  Emitter &e = k.e;
  const RingLayout *ring = k.layout.ring(op.getRing());
  if (!ring)
    return noRing(op);
  Value counter = k.scalar(op.getCounter()), slot = slotOf(e, *ring, counter);
  if (ring->empty >= 0)
    waitForEmpty(k, *ring, counter, slot);
  setTiles(k, op.getTiles(), *ring, slot);
  if (ring->fill == Fill::CpGroup)
    return success();
  Value full = k.slotAddress(ring->full, 8, slot);
  if (ring->fill == Fill::Tma) {
    int64_t bytes = 0;
    for (SmemType tile : ring->type.getTiles())
      bytes += tile.getBytes();
    e.assembly("@$2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;",
               "r,r,b,~{memory}", {full, e.c32(bytes), k.role.elected});
  }
  for (Value tile : op.getTiles())
    k.slotBarriers[tile] = full;
  return success();
}

LogicalResult gpu::lower(KernelContext &k, RingWaitOp op) {
  Emitter &e = k.e;
  const RingLayout *ring = k.layout.ring(op.getRing());
  if (!ring)
    return noRing(op);
  Value counter = k.scalar(op.getCounter()), slot = slotOf(e, *ring, counter);
  if (ring->fill == Fill::CpGroup) {
    // This thread's copies, then everybody's.
    e.assembly("cp.async.wait_group 0;", "~{memory}", {});
    setTiles(k, op.getTiles(), *ring, slot);
    for (Value tile : op.getTiles())
      if (auto type = cast<SmemType>(tile.getType());
          type.getElementType().isTF32())
        roundCopied(k, type, k.scalar(tile));
    k.syncRole();
    return success();
  }
  k.waitBarrier(k.slotAddress(ring->full, 8, slot), phaseOf(e, *ring, counter));
  // A product of a warpgroup does not see what other threads' copies wrote
  // without this. None takes a single row: but steps that exchange nothing were
  // measured with the fence alone (docs/performance, gradients).
  auto exchanges = [&] {
    return k.kernel.walk([](ExchangeOp) { return WalkResult::interrupt(); })
        .wasInterrupted();
  };
  auto isMultiplied = [](SmemType tile) { return tile.getRows() > 1; };
  if (ring->fill == Fill::CpAsync && k.role.scope == Scope::Warpgroup &&
      (llvm::any_of(ring->type.getTiles(), isMultiplied) || !exchanges()))
    k.fenceProxy();
  setTiles(k, op.getTiles(), *ring, slot);
  return success();
}

LogicalResult gpu::lower(KernelContext &k, RingViewSlotOp op) {
  Emitter &e = k.e;
  const RingLayout *ring = k.layout.ring(op.getRing());
  if (!ring)
    return noRing(op);
  setTiles(k, op.getTiles(), *ring,
           slotOf(e, *ring, k.scalar(op.getCounter())));
  return success();
}

/// How many of the weights of a thread's first row come ahead of a wait that
/// stands amid them. Where products take turns, those waited for are over
/// sooner, but under a mask. Measured (docs/performance/gpu.md, "The order of a
/// step"). Of weights that are summed twice, all of that row.
static int64_t numWeightsAhead(KernelContext &k, MapOp weights) {
  if (weights.getNumResults() > 1)
    return k.of(weights.getResult(0)).size() / 2;
  bool isMasked = weights.getInputs().size() > 2;
  return k.kernel.getTurns() == mlir::attn::Turns::none || isMasked ? 16 : 4;
}

static Operation *neighbour(Operation *op, bool isForward) {
  do
    op = isForward ? op->getNextNode() : op->getPrevNode();
  while (op && !isa_and_nonnull<TileGPUDialect>(op->getDialect()));
  return op;
}

MapOp gpu::weightsAround(Operation *op) {
  auto keys = dyn_cast_or_null<RingReleaseOp>(op);
  if (!keys || keys.getAfter().size() != 2 ||
      !isa<VecType>(keys.getAfter()[0].getType()) ||
      !isa<FragType>(keys.getAfter()[1].getType()) ||
      !isa_and_nonnull<MmaWaitOp>(neighbour(keys, /*isForward=*/true)))
    return {};
  auto map = keys.getAfter()[1].getDefiningOp<MapOp>();
  if (!map || map->getBlock() != keys->getBlock() || map.getInputs().size() < 2)
    return {};
  auto rows = dyn_cast<VecType>(map.getInputs()[1].getType());
  bool isOfRows =
      rows && rows.getAxis() == Axis::Row && rows.getElementType().isF32();
  return isOfRows ? map : MapOp();
}

/// Whether an operation is text that stays where it is; a selection's does not
/// (Maps.cpp).
static bool isFixedText(Operation *op) {
  auto text = dyn_cast<LLVM::InlineAsmOp>(op);
  return text && !text.getAsmString().starts_with("selp.");
}

/// Puts what computes `value`, and is read for it and by `beside` alone, at the
/// insertion point, with `after` for the operand `before`.
static void sink(Emitter &e, Value value, Operation *beside, Value before,
                 Value after) {
  Operation *def = value.getDefiningOp();
  if (!def || def->getBlock() != e.b.getInsertionBlock() ||
      def->getNumResults() != 1 || def->getNumRegions() || isFixedText(def))
    return;
  for (Value operand : def->getOperands())
    if (operand != before &&
        llvm::all_of(operand.getUsers(), [&](Operation *user) {
          return user == def || user == beside;
        }))
      sink(e, operand, beside, before, after);
  def->replaceUsesOfWith(before, after);
  def->moveBefore(e.b.getInsertionBlock(), e.b.getInsertionPoint());
}

/// The weights that are left come behind the wait: the first row's, and the
/// second's, whose exponents depend on what was waited for. ptxas would put
/// them all ahead of it otherwise.
static void computeRest(KernelContext &k, MapOp weights, MmaWaitOp wait) {
  Emitter &e = k.e;
  Values all = k.of(weights.getResult(0));
  Value second = k.of(weights.getInputs()[1])[1];
  Value sum = k.of(wait.getAccs().front()).front();
  Value always;
  {
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointAfterValue(k.hiddenZero);
    // A grid has blocks, which the assembler does not know.
    Value blocks =
        e.assembly("mov.u32 $0, %nctaid.x;", "=r", {}, {e.i32}).front();
    always = LLVM::ICmpOp::create(e.b, e.loc, LLVM::ICmpPredicate::ne, blocks,
                                  e.c32(0));
    // Read here, it is not computed in each turn of the loop.
    e.assembly("", "b", {always}, {});
  }
  Value tied = e.select(always, second, sum);
  int64_t ahead = numWeightsAhead(k, weights);
  for (int64_t row : {0, 1})
    for (auto [i, value] : llvm::enumerate(all)) {
      bool isAhead = row == 0 && int64_t(i / 4 * 2 + i % 2) < ahead;
      if (int64_t(i / 2 % 2) != row || isAhead)
        continue;
      Operation *beside = weights.getNumResults() > 1
                              ? k.of(weights.getResult(1))[i].getDefiningOp()
                              : nullptr;
      sink(e, value, beside, row ? second : Value(), row ? tied : Value());
      if (beside && beside->getBlock() == e.b.getInsertionBlock())
        beside->moveBefore(e.b.getInsertionBlock(), e.b.getInsertionPoint());
    }
}

LogicalResult gpu::lower(KernelContext &k, RingReleaseOp op) {
  Emitter &e = k.e;
  const RingLayout *ring = k.layout.ring(op.getRing());
  if (!ring)
    return noRing(op);
  Value slot = slotOf(e, *ring, k.scalar(op.getCounter()));
  Value barrier = k.slotAddress(ring->empty, 8, slot);
  if (MapOp weights = weightsAround(op)) {
    Value last =
              k.of(weights.getResult(0))[numWeightsAhead(k, weights) * 2 - 3],
          all;
    for (Value value : k.of(op.getAfter()[0])) {
      Value bits = e.bitcast(value, e.i32);
      all = all ? e.or_(all, bits) : bits;
    }
    all = e.and_(e.or_(all, e.bitcast(last, e.i32)), k.hiddenZero);
    barrier = e.add(barrier, all);
    k.syncWarp();
  } else if (!op.getAfter().empty()) {
    // The waits of products have ordered what those read: then `after` is about
    // where the assembler puts the arrival, and a part of it will do.
    bool isHint = k.role.scope == Scope::Warpgroup &&
                  !op->getParentOfType<RoleOp>()
                       ->walk([](Operation *inner) {
                         return isa<FragLoadOp, VecLoadOp, MmaSyncOp>(inner)
                                    ? WalkResult::interrupt()
                                    : WalkResult::advance();
                       })
                       .wasInterrupted();
    barrier =
        e.add(barrier, zeroAfter(k, op.getAfter(),
                                 isHint ? Samples::quarter : Samples::groups));
    // One lane arrives for all: the others' reads come before it.
    k.syncWarp();
  }
  if (ring->cluster > 1 && !ring->isTold())
    arriveInCluster(k, barrier);
  else
    k.arrive(barrier, k.lane0);
  if (auto wait =
          dyn_cast_or_null<MmaWaitOp>(neighbour(op, /*isForward=*/false)))
    if (MapOp weights = weightsAround(neighbour(wait, /*isForward=*/false)))
      computeRest(k, weights, wait);
  return success();
}

LogicalResult gpu::lower(KernelContext &k, RingCommitOp op) {
  Emitter &e = k.e;
  const RingLayout *ring = k.layout.ring(op.getRing());
  if (!ring)
    return noRing(op);
  if (ring->fill == Fill::CpGroup) {
    e.assembly("cp.async.commit_group;", "~{memory}", {});
    return success();
  }
  Value full =
      k.slotAddress(ring->full, 8, slotOf(e, *ring, k.scalar(op.getCounter())));
  if (ring->fill == Fill::CpAsync) {
    e.assembly("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [$0];",
               "r,~{memory}", {full});
    return success();
  }
  // A part of an exchange was fenced where it was stored.
  if (ring->fill != Fill::Exchange) {
    k.fenceProxy();
    k.syncWarp();
  }
  k.arrive(full, k.lane0);
  return success();
}

LogicalResult gpu::lower(KernelContext &k, ExchangeOp op) {
  Emitter &e = k.e;
  const RingLayout *ring = k.layout.ring(op.getRing());
  if (!ring)
    return noRing(op);
  Value slot = slotOf(e, *ring, k.scalar(op.getCounter()));
  SmemType tile = ring->type.getTiles().front();
  FragType frag = op.getValue().getType();
  if (!tile.getSwizzle())
    return unsupported(op, "a swizzled tile, but got '" +
                               llvm::formatv("{0}", tile).str() + "'");
  int64_t unit = tile.getSwizzle();
  int64_t panelCols = unit * 8 / tile.getElementType().getIntOrFloatBitWidth();
  bool transposed = op.getTransposed();
  int64_t cols = transposed ? frag.getRows() : frag.getCols();
  if (cols % panelCols || tile.getBoxes() != 1)
    return unsupported(op, "parts of whole panels of " + Twine(panelCols) +
                               " columns, but got " + Twine(cols));
  Value base = k.slotAddress(ring->offsets[0], ring->strides[0], slot);
  base = e.add(base, e.mul(k.scalar(op.getRow()), unit));
  base = e.add(base, e.mul(e.udiv(k.scalar(op.getCol()), panelCols),
                           tile.getPitch() * unit));
  Values registers = k.of(op.getValue());
  if (failed(storeFragment(k, op, frag, registers, tile, base, transposed)))
    return failure();
  k.fenceProxy();
  k.syncWarp();
  if (!op.getUncommitted())
    k.arrive(k.slotAddress(ring->full, 8, slot), k.lane0);
  return success();
}
