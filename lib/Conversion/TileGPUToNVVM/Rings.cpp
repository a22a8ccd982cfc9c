//===- Rings.cpp - Rings, barriers and copies -----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

//===----------------------------------------------------------------------===//
// Memory barriers
//===----------------------------------------------------------------------===//

Value KernelLowering::slotAddress(int64_t offset, int64_t bytes, Value slot) {
  return e.add(address(offset), e.mul(slot, bytes));
}

Value KernelLowering::slotOf(const RingLayout &ring, Value counter) {
  return e.urem(counter, ring.type.getStages());
}

Value KernelLowering::phaseOf(const RingLayout &ring, Value counter) {
  return e.and_(e.udiv(counter, ring.type.getStages()), 1);
}

void KernelLowering::waitBarrier(Value barrier, Value phase, bool ofCluster) {
  // From sm_90 on the wait itself suspends the thread for a while.
  if (target.hasTensorCopy) {
    StringRef order = ofCluster ? ".acquire.cluster" : "";
    e.assembly("{\n.reg .pred P1;\nLAB_WAIT:\n"
               "mbarrier.try_wait.parity" +
                   order +
                   ".shared::cta.b64 P1, [$0], $1, "
                   "0x989680;\n@P1 bra.uni DONE;\nbra.uni LAB_WAIT;\nDONE:\n}",
               "r,r,~{memory}", {barrier, phase});
    return;
  }
  e.assembly("{\n.reg .pred P1;\nLAB_WAIT:\n"
             "mbarrier.test_wait.parity.shared::cta.b64 P1, [$0], $1;\n"
             "@P1 bra.uni DONE;\nbra.uni LAB_WAIT;\nDONE:\n}",
             "r,r,~{memory}", {barrier, phase});
}

void KernelLowering::arrive(Value barrier, Value predicate) {
  // Before sm_90 the result cannot be dropped.
  std::string text = predicate ? "@$1 " : "";
  text += target.hasTensorCopy ? "mbarrier.arrive.shared::cta.b64 _, [$0];"
                               : "mbarrier.arrive.shared::cta.b64 s, [$0];\n}";
  if (!target.hasTensorCopy)
    text = "{\n.reg .b64 s;\n" + text;
  if (predicate)
    e.assembly(text, "r,b,~{memory}", {barrier, predicate});
  else
    e.assembly(text, "r,~{memory}", {barrier});
}

/// Orders this thread's accesses to shared memory before later copies and
/// products, which reach it by another way.
void KernelLowering::fenceProxy() {
  if (target.hasTensorCopy)
    e.assembly("fence.proxy.async.shared::cta;", "~{memory}", {});
}

void KernelLowering::syncWarp() {
  e.assembly("bar.warp.sync 0xffffffff;", "~{memory}", {});
}

LogicalResult
KernelLowering::seenByWarp(llvm::function_ref<LogicalResult()> store) {
  bool isWarp = role.scope == Scope::Warp;
  if (isWarp)
    syncWarp();
  if (failed(store()))
    return failure();
  if (isWarp)
    syncWarp();
  return success();
}

/// Waits for all threads of this member of the role.
void KernelLowering::syncMember() {
  if (role.scope == Scope::Warp)
    return syncWarp();
  e.call("llvm.nvvm.barrier.cta.sync.aligned.count",
         {e.add(role.member, layout.memberBarrier(role.op)),
          e.c32(TargetInfo::warpgroupThreads)});
}

/// Waits for all warps of a role of warps.
void KernelLowering::syncRole() {
  if (role.warps == 1)
    return syncWarp();
  e.call("llvm.nvvm.barrier.cta.sync.aligned.count",
         {e.c32(layout.memberBarrier(role.op)),
          e.c32(role.warps * TargetInfo::warpThreads)});
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

static LogicalResult noRing(Operation *op) {
  return op->emitOpError("expected a ring made in this kernel by "
                         "tile_gpu.ring.create");
}

void KernelLowering::setTiles(ValueRange tiles, const RingLayout &ring,
                              Value slot) {
  for (auto [index, tile] : llvm::enumerate(tiles))
    set(tile, {slotAddress(ring.offsets[index], ring.strides[index], slot)});
}

LogicalResult KernelLowering::lowerAcquire(RingAcquireOp op) {
  const RingLayout *ring = layout.ring(op.getRing());
  if (!ring)
    return noRing(op);
  Value counter = scalar(op.getCounter()), slot = slotOf(*ring, counter);
  // The first uses find the barrier in the phase before its first one.
  if (ring->empty >= 0)
    waitBarrier(slotAddress(ring->empty, 8, slot),
                e.xor_(phaseOf(*ring, counter), e.c32(1)));
  setTiles(op.getTiles(), *ring, slot);
  if (ring->fill == Fill::CpGroup)
    return success();
  Value full = slotAddress(ring->full, 8, slot);
  if (ring->fill == Fill::Tma) {
    int64_t bytes = 0;
    for (SmemType tile : ring->type.getTiles())
      bytes += tile.getBytes();
    e.assembly("@$2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;",
               "r,r,b,~{memory}", {full, e.c32(bytes), role.elected});
  }
  for (Value tile : op.getTiles())
    slotBarriers[tile] = full;
  return success();
}

LogicalResult KernelLowering::lowerWait(RingWaitOp op) {
  const RingLayout *ring = layout.ring(op.getRing());
  if (!ring)
    return noRing(op);
  Value counter = scalar(op.getCounter()), slot = slotOf(*ring, counter);
  if (ring->fill == Fill::CpGroup) {
    // This thread's copies, then everybody's.
    e.assembly("cp.async.wait_group 0;", "~{memory}", {});
    setTiles(op.getTiles(), *ring, slot);
    for (Value tile : op.getTiles())
      if (auto type = cast<SmemType>(tile.getType());
          type.getElementType().isTF32())
        roundCopied(type, scalar(tile));
    syncRole();
    return success();
  }
  waitBarrier(slotAddress(ring->full, 8, slot), phaseOf(*ring, counter));
  // A product of a warpgroup does not see what other threads' copies wrote
  // without this. None takes a single row: but steps that exchange nothing were
  // measured with the fence alone (docs/performance, gradients).
  auto exchanges = [&] {
    return kernel.walk([](ExchangeOp) { return WalkResult::interrupt(); })
        .wasInterrupted();
  };
  auto isMultiplied = [](SmemType tile) { return tile.getRows() > 1; };
  if (ring->fill == Fill::CpAsync && role.scope == Scope::Warpgroup &&
      (llvm::any_of(ring->type.getTiles(), isMultiplied) || !exchanges()))
    fenceProxy();
  setTiles(op.getTiles(), *ring, slot);
  return success();
}

LogicalResult KernelLowering::lowerView(RingViewSlotOp op) {
  const RingLayout *ring = layout.ring(op.getRing());
  if (!ring)
    return noRing(op);
  setTiles(op.getTiles(), *ring, slotOf(*ring, scalar(op.getCounter())));
  return success();
}

/// A zero that depends on one register of each instruction that computed or
/// read `values`, or of the first quarter of these.
Value KernelLowering::zeroAfter(ValueRange values, bool isPart) {
  Value all;
  for (Value value : values) {
    Values registers = of(value);
    int64_t step = 1;
    if (auto frag = dyn_cast<FragType>(value.getType()))
      if (frag.getLayout() != Layout::B)
        step = frag.getElementType().isF32() ? 4 : 2;
    // Pairs of columns are read together.
    if (auto vec = dyn_cast<VecType>(value.getType()))
      step = vec.getAxis() == Axis::Col ? 2 : 1;
    size_t count = registers.size();
    if (isPart && step > 1)
      count = llvm::divideCeil(count, 4);
    for (size_t i = 0; i < count; i += step) {
      Value bits = registers[i];
      if (bits.getType() == e.i1)
        bits = LLVM::ZExtOp::create(e.b, e.loc, e.i32, bits);
      bits = e.bitcast(bits, e.i32);
      all = all ? e.or_(all, bits) : bits;
    }
  }
  return e.and_(all, hiddenZero);
}

LogicalResult KernelLowering::lowerRelease(RingReleaseOp op) {
  const RingLayout *ring = layout.ring(op.getRing());
  if (!ring)
    return noRing(op);
  Value slot = slotOf(*ring, scalar(op.getCounter()));
  Value barrier = slotAddress(ring->empty, 8, slot);
  if (!op.getAfter().empty()) {
    // The waits of products have ordered what those read: then `after` is about
    // where the assembler puts the arrival, and a part of it will do.
    bool isHint = role.scope == Scope::Warpgroup &&
                  !op->getParentOfType<RoleOp>()
                       ->walk([](Operation *inner) {
                         return isa<FragLoadOp, VecLoadOp, MmaSyncOp>(inner)
                                    ? WalkResult::interrupt()
                                    : WalkResult::advance();
                       })
                       .wasInterrupted();
    barrier = e.add(barrier, zeroAfter(op.getAfter(), isHint));
    // One lane arrives for all: the others' reads come before it.
    syncWarp();
  }
  if (ring->cluster > 1)
    arriveInCluster(barrier);
  else
    arrive(barrier, lane0);
  return success();
}

LogicalResult KernelLowering::lowerCommit(RingCommitOp op) {
  const RingLayout *ring = layout.ring(op.getRing());
  if (!ring)
    return noRing(op);
  if (ring->fill == Fill::CpGroup) {
    e.assembly("cp.async.commit_group;", "~{memory}", {});
    return success();
  }
  Value full =
      slotAddress(ring->full, 8, slotOf(*ring, scalar(op.getCounter())));
  if (ring->fill == Fill::CpAsync) {
    e.assembly("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [$0];",
               "r,~{memory}", {full});
    return success();
  }
  fenceProxy();
  syncWarp();
  arrive(full, lane0);
  return success();
}

LogicalResult KernelLowering::lowerExchange(ExchangeOp op) {
  const RingLayout *ring = layout.ring(op.getRing());
  if (!ring)
    return noRing(op);
  Value slot = slotOf(*ring, scalar(op.getCounter()));
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
  Value base = slotAddress(ring->offsets[0], ring->strides[0], slot);
  base = e.add(base, e.mul(scalar(op.getRow()), unit));
  base = e.add(base, e.mul(e.udiv(scalar(op.getCol()), panelCols),
                           tile.getPitch() * unit));
  Values registers = of(op.getValue());
  if (failed(storeFragment(op, frag, registers, tile, base, transposed)))
    return failure();
  fenceProxy();
  syncWarp();
  arrive(slotAddress(ring->full, 8, slot), lane0);
  return success();
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Elements in a row of one panel, which is what one tensor copy moves.
static int64_t panelColumns(SmemType tile) {
  if (!tile.getSwizzle())
    return tile.getStoredCols();
  return tile.getSwizzle() / tile.getElementBytes();
}

LogicalResult KernelLowering::lowerRingLoad(RingLoadOp op) {
  auto acquire = op.getTile().getDefiningOp<RingAcquireOp>();
  const RingLayout *ring = acquire ? layout.ring(acquire.getRing()) : nullptr;
  if (!ring)
    return noRing(op);
  if (isa<TensorMapType>(op.getSource().getType()))
    return lowerTensorLoad(op);
  if (ring->fill == Fill::CpAsync || ring->fill == Fill::CpGroup)
    return lowerAsyncLoad(op);
  // One contiguous row.
  SmemType tile = op.getTile().getType();
  Value source = elementPointer(op.getSource(), flat(op.getIndices()));
  std::string hint = op.getEvictFirst() ? ".L2::cache_hint" : "";
  Values inputs = {scalar(op.getTile()), source, e.c32(tile.getBytes()),
                   slotBarriers[op.getTile()], role.elected};
  std::string constraints = "r,l,r,r,b";
  if (op.getEvictFirst()) {
    inputs.push_back(e.c64(evictFirstPolicy));
    constraints += ",l";
  }
  e.assembly("@$4 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx"
             "::bytes" +
                 hint + " [$0], [$1], $2, [$3]" +
                 (op.getEvictFirst() ? ", $5;" : ";"),
             constraints + ",~{memory}", inputs);
  return success();
}

void KernelLowering::copyPanel(RingLoadOp op, const PanelCopy &copy) {
  int64_t rank = copy.indices.size();
  auto acquire = op.getTile().getDefiningOp<RingAcquireOp>();
  int64_t blocks = layout.ring(acquire.getRing())->cluster;
  bool isShared = blocks > 1;
  std::string text = "@$0 cp.async.bulk.tensor." + std::to_string(rank) +
                     (isShared ? "d.shared::cluster" : "d.shared::cta") +
                     ".global.tile.mbarrier::complete_tx::bytes";
  if (isShared)
    text += ".multicast::cluster";
  if (op.getEvictFirst())
    text += ".L2::cache_hint";
  text += " [$1], [$2, {";
  std::string constraints = "b,r,l,r";
  Values inputs = {copy.predicate, copy.address, scalar(op.getSource()),
                   slotBarriers[op.getTile()]};
  auto operand = [&](Value value, StringRef constraint) {
    text += "$" + std::to_string(inputs.size());
    constraints += "," + constraint.str();
    inputs.push_back(value);
  };
  // Innermost first.
  for (auto [i, index] : llvm::enumerate(llvm::reverse(copy.indices))) {
    text += i ? ", " : "";
    operand(index, "r");
  }
  text += "}], [$3]";
  if (isShared) {
    text += ", ";
    operand(e.constant(e.i16, (int64_t(1) << blocks) - 1), "h");
  }
  if (op.getEvictFirst()) {
    text += ", ";
    operand(e.c64(evictFirstPolicy), "l");
  }
  e.assembly(text + ";", constraints + ",~{memory}", inputs);
}

/// Each lane finds the page of a panel of a box, and copies that.
void KernelLowering::lowerPagedLoad(RingLoadOp op) {
  SmemType tile = op.getTile().getType();
  SmemType box = cast<TensorMapType>(op.getSource().getType()).getBox();
  int64_t columns = panelColumns(tile), rows = box.getRows();
  int64_t panels = tile.getStoredCols() / columns;
  int64_t count = tile.getRows() / rows * panels;
  int64_t unit = tile.getSwizzle() ? tile.getSwizzle() : tile.getRowBytes();
  auto acquire = op.getTile().getDefiningOp<RingAcquireOp>();
  int64_t blocks = layout.ring(acquire.getRing())->cluster;
  Values table = of(op.getTable()), indices = flat(op.getIndices());
  Value sequence = indices[0], first = indices[2], column = indices[3];
  Value lastPage = e.sub(e.trunc32(table[2]), e.c32(1));
  for (int64_t done = 0; done < count; done += TargetInfo::warpThreads) {
    Value index = e.add(lane, done), isMine = e.lt(index, e.c32(count));
    // One panel comes from one of the blocks, for all of them.
    Value panel = e.urem(index, panels), number = e.udiv(index, panels);
    if (blocks > 1)
      isMine = e.and_(isMine, e.icmp(LLVM::ICmpPredicate::eq,
                                     e.urem(panel, blocks), blockInCluster()));
    if (role.scope == Scope::Warpgroup)
      isMine = e.and_(isMine, e.eq(role.warpInMember, 0));
    Value position = e.add(first, e.mul(number, rows));
    // Rows behind the last key may be behind the last page, too.
    Value entry = LLVM::SMinOp::create(
        e.b, e.loc, e.udiv(position, *op.getPage()), lastPage);
    Value page =
        e.load(e.i32, elementPointer(op.getTable(), {sequence, entry}));
    PanelCopy copy;
    copy.predicate = isMine;
    // A box has panels of its own, or rows of the tile's.
    int64_t boxRows = tile.getBoxRows();
    copy.address =
        e.add(e.add(scalar(op.getTile()), e.mul(panel, boxRows * unit)),
              e.mul(number, tile.getBoxes() == 1 ? rows * unit
                                                 : rows * tile.getRowBytes()));
    indices[0] = page;
    indices[2] = e.urem(position, *op.getPage());
    indices[3] = e.add(column, e.mul(panel, columns));
    copy.indices = indices;
    copyPanel(op, copy);
  }
}

LogicalResult KernelLowering::lowerTensorLoad(RingLoadOp op) {
  if (op.getTable()) {
    lowerPagedLoad(op);
    return success();
  }
  SmemType tile = op.getTile().getType();
  Value base = scalar(op.getTile());
  // A box has panels of its own, or rows of the tile's.
  int64_t boxRows = tile.getBoxRows();
  if (op.getBox()) {
    int64_t bytes = boxRows * tile.getRowBytes();
    if (tile.getBoxes() == 1)
      bytes = cast<TensorMapType>(op.getSource().getType()).getBox().getRows() *
              (tile.getSwizzle() ? tile.getSwizzle() : tile.getRowBytes());
    base = e.add(base, e.mul(scalar(op.getBox()), bytes));
  }
  int64_t columns = panelColumns(tile);
  int64_t panels = tile.getStoredCols() / columns;
  auto acquire = op.getTile().getDefiningOp<RingAcquireOp>();
  int64_t blocks = layout.ring(acquire.getRing())->cluster;
  Value block = blocks > 1 ? blockInCluster() : Value();
  for (int64_t panel = 0; panel < panels; ++panel) {
    PanelCopy copy;
    // One panel comes from one of the blocks, for all of them.
    copy.predicate = role.elected;
    if (block)
      copy.predicate = e.and_(copy.predicate, e.eq(block, panel % blocks));
    copy.address = e.add(base, panel * boxRows * tile.getSwizzle());
    copy.indices = flat(op.getIndices());
    copy.indices.back() = e.add(copy.indices.back(), panel * columns);
    copyPanel(op, copy);
  }
  return success();
}

LogicalResult KernelLowering::lowerBulkStore(BulkStoreOp op) {
  SmemType tile = op.getTile().getType();
  int64_t rank = op.getIndices().size();
  int64_t columns = panelColumns(tile);
  int64_t panels = tile.getStoredCols() / columns;
  Values indices = flat(op.getIndices());
  Value base = scalar(op.getTile());
  for (int64_t panel = 0; panel < panels; ++panel) {
    std::string text = "@$0 cp.async.bulk.tensor." + std::to_string(rank) +
                       "d.global.shared::cta.tile.bulk_group [$1, {";
    std::string constraints = "b,l,r";
    Values inputs = {role.elected, scalar(op.getDestination()),
                     e.add(base, panel * tile.getPitch() * tile.getSwizzle())};
    for (int64_t i = 0; i < rank; ++i) {
      Value index = indices[rank - 1 - i];
      if (i == 0)
        index = e.add(index, panel * columns);
      text += (i ? ", $" : "$") + std::to_string(inputs.size());
      constraints += ",r";
      inputs.push_back(index);
    }
    e.assembly(text + "}], [$2];", constraints + ",~{memory}", inputs);
  }
  e.assembly("cp.async.bulk.commit_group;", "~{memory}", {});
  return success();
}

LogicalResult KernelLowering::lowerBulkReduce(BulkReduceOp op) {
  SmemType tile = op.getTile().getType();
  Value pointer = elementPointer(op.getDestination(), flat(op.getIndices()));
  e.assembly(
      "@$3 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 "
      "[$0], [$1], $2;",
      "l,r,r,b,~{memory}",
      {pointer, scalar(op.getTile()), e.c32(tile.getBytes()), role.elected});
  e.assembly("cp.async.bulk.commit_group;", "~{memory}", {});
  return success();
}

LogicalResult KernelLowering::lowerBulkWait(BulkWaitOp op) {
  e.assembly("cp.async.bulk.wait_group.read " + Twine(op.getPending()) + ";",
             "~{memory}", {});
  return success();
}

//===----------------------------------------------------------------------===//
// Hardware barriers
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::lowerBarrier(Operation *op, Value barrier,
                                           Value member) {
  const BarrierLayout *info = layout.barrier(barrier);
  if (!info)
    return op->emitOpError("expected a barrier made in this kernel by "
                           "tile_gpu.barrier.create");
  Value index = member ? scalar(member) : e.c32(0);
  bool passes = isa<TurnPassOp>(op);
  if (passes) {
    Value next = e.add(index, 1);
    index = e.select(e.eq(next, info->count), e.c32(0), next);
    if (auto after = cast<TurnPassOp>(op).getAfter(); !after.empty())
      index = e.add(index, zeroAfter(after, /*isPart=*/false));
  }
  if (auto sync = dyn_cast<BarrierSyncOp>(op); sync && !sync.getThreadsOnly())
    fenceProxy();
  // Intrinsics, unlike assembly, are never duplicated or moved into a branch.
  e.call(passes ? "llvm.nvvm.barrier.cta.arrive.aligned.count"
                : "llvm.nvvm.barrier.cta.sync.aligned.count",
         {e.add(index, info->first), e.c32(info->threads)});
  return success();
}

void KernelLowering::turnAtEdge(RoleOp op, bool isOpening) {
  llvm::SmallSetVector<Value, 2> turns;
  op.walk([&](TurnWaitOp wait) { turns.insert(wait.getBarrier()); });
  for (Value barrier : turns) {
    const BarrierLayout *info = layout.barrier(barrier);
    if (!info)
      continue; // Reported where it is used.
    Block *own = e.newBlock(), *rest = e.newBlock();
    e.branch(e.eq(role.member, isOpening ? info->count - 1 : 0), own, rest);
    e.startBlock(own);
    e.call(isOpening ? "llvm.nvvm.barrier.cta.arrive.aligned.count"
                     : "llvm.nvvm.barrier.cta.sync.aligned.count",
           {e.c32(info->first), e.c32(info->threads)});
    e.branch(rest);
    e.startBlock(rest);
  }
}

void KernelLowering::openTurns(RoleOp op) { turnAtEdge(op, true); }
void KernelLowering::closeTurns(RoleOp op) { turnAtEdge(op, false); }

//===----------------------------------------------------------------------===//
// Turns of blocks
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::lowerReduceInMemory(GlobalReduceOp op) {
  const RingLayout *turns = nullptr, *done = nullptr;
  Value use;
  if (op.getTurns()) {
    turns = layout.ring(op.getTurns());
    done = layout.ring(op.getDone());
    if (!turns || !done)
      return noRing(op);
    use = scalar(op.getUse());
    waitBarrier(slotAddress(turns->full, 8, slotOf(*turns, use)),
                phaseOf(*turns, use));
  }
  if (failed(lowerGlobalWrite(op, op.getValue(), op.getDestination(),
                              op.getIndices(), op.getRows(), op.getTransposed(),
                              /*permuted=*/0, /*reduce=*/true)))
    return failure();
  if (!done)
    return success();
  // One lane arrives for all, whose additions come before it.
  syncWarp();
  arrive(slotAddress(done->full, 8, slotOf(*done, use)), lane0);
  return success();
}

LogicalResult KernelLowering::lowerBlockTurnWait(BlockTurnWaitOp op) {
  Value counter = elementPointer(op.getCounters(), flat(op.getIndices()));
  e.assembly("{\n.reg .pred P1;\n.reg .b32 now;\nLAB_TURN:\n"
             "ld.acquire.gpu.global.b32 now, [$0];\n"
             "setp.ne.b32 P1, now, $1;\n@P1 bra LAB_TURN;\n}",
             "l,r,~{memory}", {counter, scalar(op.getTurn())});
  syncWarp();
  return success();
}

/// The other warps' additions come before their arrivals, and these before what
/// this warp writes.
LogicalResult KernelLowering::lowerBlockTurnPass(BlockTurnPassOp op) {
  Value counter = elementPointer(op.getCounters(), flat(op.getIndices()));
  syncWarp();
  e.assembly("@$2 st.release.gpu.global.b32 [$0], $1;", "l,r,b,~{memory}",
             {counter, e.add(scalar(op.getTurn()), 1), lane0});
  return success();
}
