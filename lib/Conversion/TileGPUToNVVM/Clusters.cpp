//===- Clusters.cpp - Blocks that share rings and draw together -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The blocks of a cluster see each other's shared memory (PTX ISA 5.1.7,
// `.shared::cluster`). A slot of a ring with `cluster(n)` is filled in all of
// them at once: each copies some panels of a tile to every block, at the same
// offset, where the copy counts towards that block's full barrier. Consumers
// release a slot at the empty barriers of all blocks.
//
// Block 0 draws for its cluster, and writes what it draws to a word of each
// block. A word is written again once all blocks have said that they read it.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

FailureOr<int64_t> gpu::clusterOf(KernelOp kernel, const TargetInfo &target) {
  int64_t cluster = 1;
  Operation *first = nullptr;
  auto note = [&](Operation *op, std::optional<uint64_t> size) {
    if (!size || int64_t(*size) == cluster)
      return success();
    if (first)
      return LogicalResult(op->emitOpError("expected clusters of ")
                           << cluster << " blocks, as others of this kernel "
                           << "have, but got " << *size);
    if (int64_t(*size) > target.maxCluster)
      return LogicalResult(op->emitOpError("expected clusters of at most ")
                           << target.maxCluster << " blocks on " << target.name
                           << ", but got " << *size);
    first = op;
    cluster = *size;
    return success();
  };
  auto checkLead = [&](SchedulerOp scheduler) -> LogicalResult {
    for (Operation *user : scheduler.getResult().getUsers()) {
      auto loop = dyn_cast<ForeachOp>(user);
      auto role = dyn_cast<RoleOp>(user->getParentOp());
      if (loop && loop.getLead() && role && role.getWarps() != 1)
        return loop.emitOpError("expected the items of clusters to be drawn by "
                                "a role of one warp, but got ")
               << role.getWarps();
    }
    return success();
  };
  bool draws = false;
  // Rings may be made in roles, too.
  WalkResult walk = kernel.walk([&](Operation *op) -> WalkResult {
    if (auto ring = dyn_cast<RingCreateOp>(op))
      return note(op, ring.getCluster());
    auto scheduler = dyn_cast<SchedulerOp>(op);
    if (!scheduler || !scheduler.getCluster())
      return success();
    draws = true;
    if (failed(note(op, scheduler.getCluster())))
      return failure();
    return checkLead(scheduler);
  });
  if (walk.wasInterrupted())
    return failure();
  if (first && !draws)
    return first->emitOpError("expected a schedule whose items are drawn for "
                              "clusters of ")
           << cluster << " blocks, but got none";
  return cluster;
}

Value gpu::blockInCluster(Emitter &e) {
  return e.call("llvm.nvvm.read.ptx.sreg.cluster.ctarank", e.i32, {});
}

Value gpu::inBlock(Emitter &e, Value address, Value block) {
  return e
      .assembly("mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r",
                {address, block}, e.i32, /*isVolatile=*/false)
      .front();
}

void gpu::arriveInBlock(Emitter &e, Value barrier, Value predicate,
                        bool publishes) {
  // Of the whole cluster's memory, with a fence of many cycles; reads that have
  // ended need none.
  StringRef order = publishes ? ".release.cluster" : "";
  e.assembly("@$1 mbarrier.arrive" + order + ".shared::cluster.b64 _, [$0];",
             "r,b,~{memory}", {barrier, predicate});
}

/// Lane n arrives in block n.
void gpu::arriveInCluster(KernelContext &k, Value barrier) {
  Emitter &e = k.e;
  arriveInBlock(e, inBlock(e, barrier, k.lane), e.lt(k.lane, e.c32(k.cluster)));
}

void gpu::syncCluster(Emitter &e) {
  e.call("llvm.nvvm.barrier.cluster.arrive", {});
  e.call("llvm.nvvm.barrier.cluster.wait", {});
}

/// Draws the number of the item after the one that is on hand, in turn
/// `iteration` of the warp that draws in each block.
Value KernelLowering::drawForCluster(SchedulerOp scheduler, Value total,
                                     Value iteration) {
  const TicketLayout &tickets = *layout.tickets(scheduler);
  Value word = address(tickets.drawn), full = address(tickets.drawnFull);
  Value empty = address(tickets.drawnEmpty);
  Value phase = e.and_(iteration, 1), block = blockInCluster(e);
  Block *first = e.newBlock(), *all = e.newBlock();
  e.branch(e.eq(block, 0), first, all);
  e.startBlock(first);
  waitBarrier(empty, e.xor_(phase, e.c32(1)));
  Value drawn = drawTicket(scheduler, e.udiv(total, cluster));
  Value mine = e.lt(lane, e.c32(cluster));
  e.assembly("@$2 st.shared::cluster.b32 [$0], $1;", "r,r,b,~{memory}",
             {inBlock(e, word, lane), drawn, mine});
  arriveInBlock(e, inBlock(e, full, lane), mine, /*publishes=*/true);
  e.branch(all);
  e.startBlock(all);
  // What another block wrote is seen by whom its arrival has reached.
  waitBarrier(full, phase, /*ofCluster=*/true);
  // By the lane that says so.
  Value number =
      e.assembly("{\nmov.b32 $0, 0;\n@$2 ld.shared::cta.b32 $0, [$1];\n}",
                 "=r,r,b,~{memory}", {word, lane0}, e.i32)
          .front();
  number = e.shuffleIndex(number, 0);
  arriveInBlock(e, inBlock(e, empty, e.c32(0)), lane0, /*publishes=*/true);
  // The first items are the blocks' own numbers; tickets count from there.
  Value blocks = e.call("llvm.nvvm.read.ptx.sreg.nctaid.x", e.i32, {});
  return e.add(e.add(e.mul(number, cluster), blocks), block);
}

/// Waits for what other blocks say to this one last, behind `turns` items: that
/// they have read its numbers.
void KernelLowering::hearLast(SchedulerOp scheduler, Value turns) {
  Value phase = e.xor_(e.and_(turns, 1), e.c32(1));
  Block *first = e.newBlock(), *all = e.newBlock();
  e.branch(e.eq(blockInCluster(e), 0), first, all);
  e.startBlock(first);
  waitBarrier(address(layout.tickets(scheduler)->drawnEmpty), phase,
              /*ofCluster=*/true);
  e.branch(all);
  e.startBlock(all);
}

/// Waits until other blocks have read the states that this one sent them last.
/// Only warps that send them can: a phase is known by its parity, and those
/// that draw items may be two turns ahead.
void KernelLowering::hearLastStates(ForeachOp loop) {
  for (auto merge : loop.getBody().front().getOps<MergeStatesOp>()) {
    if (merge.getScope() != MergeScope::Cluster)
      continue;
    auto counter = cast<BlockArgument>(merge.getCounter());
    auto carried = loop.getRegionIterArgs();
    Value turns =
        scalar(loop.getResult(llvm::find(carried, counter) - carried.begin()));
    Value phase = e.xor_(e.and_(turns, 1), e.c32(1));
    waitBarrier(address(layout.ring(merge.getRing())->empty), phase,
                /*ofCluster=*/true);
  }
}
