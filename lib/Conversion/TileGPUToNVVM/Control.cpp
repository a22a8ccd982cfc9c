//===- Control.cpp - Loops, branches and schedules ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace attn;
using namespace attn::gpu;

//===----------------------------------------------------------------------===//
// scf
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::lowerFor(scf::ForOp op) {
  prepareCopies(op);
  Values initial = {scalar(op.getLowerBound())};
  llvm::append_range(initial, flat(op.getInitArgs()));
  SmallVector<Type> types;
  for (Value value : initial)
    types.push_back(value.getType());
  Block *header = e.newBlock(types);
  e.branch(header, initial);
  Block *body = e.newBlock(), *exit = e.newBlock();
  e.startBlock(header);
  Value iv = header->getArgument(0);
  Value upper = scalar(op.getUpperBound());
  e.branch(op.getUnsignedCmp() ? e.icmp(LLVM::ICmpPredicate::ult, iv, upper)
                               : e.lt(iv, upper),
           body, exit);
  e.startBlock(body);
  set(op.getInductionVar(), {iv});
  setAll(op.getRegionIterArgs(), header->getArguments().drop_front());
  if (failed(lowerBlock(*op.getBody())))
    return failure();
  e.loc = op.getLoc();
  Values next = {e.add(iv, scalar(op.getStep()))};
  llvm::append_range(next, flat(op.getBody()->getTerminator()->getOperands()));
  e.branch(header, next);
  e.startBlock(exit);
  setAll(op.getResults(), header->getArguments().drop_front());
  return success();
}

LogicalResult KernelLowering::lowerIf(scf::IfOp op) {
  SmallVector<Type> types;
  for (Type type : op.getResultTypes())
    flatten(type, types);
  Block *join = e.newBlock(types);
  Block *yes = e.newBlock();
  bool hasElse = op.elseBlock();
  Block *no = hasElse ? e.newBlock() : join;
  e.branch(scalar(op.getCondition()), yes, no);
  for (auto [block, body] :
       {std::pair{yes, op.thenBlock()}, std::pair{no, op.elseBlock()}}) {
    if (!body)
      continue;
    e.startBlock(block);
    if (failed(lowerBlock(*body)))
      return failure();
    e.loc = op.getLoc();
    e.branch(join, flat(body->getTerminator()->getOperands()));
  }
  e.startBlock(join);
  setAll(op.getResults(), join->getArguments());
  return success();
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

/// Sets the tile, head, batch, split and range of keys of an item.
LogicalResult KernelLowering::lowerItem(SchedulerOp op, Value item,
                                        ValueRange arguments) {
  Value tiles = scalar(op.getTiles()), heads = scalar(op.getHeads());
  Value batch = scalar(op.getBatch());
  Value splits = op.getSplits() ? scalar(op.getSplits()) : e.c32(1);
  Value allHeads = e.mul(heads, batch);
  Value parts = e.mul(tiles, splits);
  auto isOne = [&](Value value) { return e.constantOf(value) == 1; };
  auto split = [&](Value value, Value by, Value &rest) -> Value {
    // With one of them there is nothing to divide.
    if (isOne(by)) {
      rest = e.c32(0);
      return value;
    }
    rest = e.urem(value, by);
    return e.udiv(value, by);
  };
  Value part, head;
  if (isOne(allHeads)) {
    part = item;
    head = e.c32(0);
  } else if (int64_t section = op.getSection().value_or(1); section > 1) {
    // `section` heads advance together; the last section may have fewer.
    Value rest;
    Value number = split(item, e.mul(parts, section), rest);
    Value first = e.mul(number, section);
    Value left = e.sub(allHeads, first);
    Value width = e.select(e.lt(left, e.c32(section)), left, e.c32(section));
    Value inSection;
    part = split(rest, width, inSection);
    head = e.add(first, inSection);
  } else {
    head = split(item, parts, part);
  }
  Value splitIndex;
  Value tile = split(part, splits, splitIndex);
  if (op.getOrder() == ScheduleOrder::LongestFirst)
    tile = e.sub(e.add(tiles, -1), tile);
  Value headIndex;
  Value batchIndex = split(head, heads, headIndex);
  if (isOne(batch)) {
    batchIndex = e.c32(0);
    headIndex = head;
  }
  Block &body = op.getKeys().front();
  Value indices[] = {tile, headIndex, batchIndex, splitIndex};
  for (auto [argument, index] : llvm::zip_equal(body.getArguments(), indices))
    set(argument, {index});
  if (failed(lowerBlock(body)))
    return failure();
  for (auto [argument, index] : llvm::zip(arguments, indices))
    set(argument, {index});
  Operation *yield = body.getTerminator();
  set(arguments[4], of(yield->getOperand(0)));
  set(arguments[5], of(yield->getOperand(1)));
  return success();
}

/// The item after `item`, the same in all roles.
Value KernelLowering::nextItem(ForeachOp op, Value item, Value iteration) {
  auto scheduler = op.getSchedule().getDefiningOp<SchedulerOp>();
  Value blocks = e.call("llvm.nvvm.read.ptx.sreg.nctaid.x", e.i32, {});
  if (scheduler.getKind() == ScheduleKind::Static)
    return e.add(item, blocks);
  const TicketLayout &tickets = *layout.tickets(scheduler);
  bool handsOver = tickets.slots >= 0;
  constexpr int64_t numSlots = SharedLayout::numTicketSlots;
  Value slot, phase, full, empty, word;
  if (handsOver) {
    slot = e.urem(iteration, numSlots);
    phase = e.and_(e.udiv(iteration, numSlots), 1);
    full = slotAddress(tickets.full, 8, slot);
    empty = slotAddress(tickets.empty, 8, slot);
    word = slotAddress(tickets.slots, 4, slot);
  }
  auto draw = [&]() -> Value {
    // The first items are the blocks' own numbers; tickets count from there.
    Value drawn =
        e.assembly("{\nmov.b32 $0, 0;\n"
                   "@$2 atom.relaxed.gpu.global.add.u32 $0, [$1], 1;\n}",
                   "=r,l,b,~{memory}",
                   {of(scheduler.getTickets()).front(), lane0}, e.i32)
            .front();
    Value next = e.add(e.shuffleIndex(drawn, 0), blocks);
    if (!handsOver)
      return next;
    waitBarrier(empty, e.xor_(phase, e.c32(1)));
    e.assembly("@$2 st.shared::cta.b32 [$0], $1;", "r,r,b,~{memory}",
               {word, next, lane0});
    arrive(full, lane0);
    return next;
  };
  auto follow = [&]() -> Value {
    waitBarrier(full, phase);
    Value next = e.assembly("ld.shared::cta.b32 $0, [$1];", "=r,r,~{memory}",
                            {word}, e.i32)
                     .front();
    // All lanes have read before the slot is given back.
    next = e.shuffleIndex(next, 0);
    syncWarp();
    arrive(empty, lane0);
    return next;
  };
  if (!op.getLead())
    return follow();
  if (role.warps == 1)
    return draw();
  // Its first warp draws for the others of the lead role, too.
  Block *first = e.newBlock(), *others = e.newBlock();
  Block *join = e.newBlock(e.i32);
  e.branch(e.eq(role.warpInRole, 0), first, others);
  e.startBlock(first);
  e.branch(join, draw());
  e.startBlock(others);
  e.branch(join, follow());
  e.startBlock(join);
  return join->getArgument(0);
}

/// Scalars that are the same for all items come before the loop, and so do the
/// inverses of divisors among them: an item's bounds are on the way to its
/// first product, with nothing to hide behind.
LogicalResult KernelLowering::hoistScalars(ForeachOp op) {
  Block &body = op.getBody().front();
  auto isOutside = [&](Value value) {
    return !op->isAncestor(value.getParentRegion()->getParentOp());
  };
  auto isScalar = [](Type type) { return type.isIntOrIndexOrFloat(); };
  for (Operation &inner : llvm::make_early_inc_range(body)) {
    if (!isa<arith::ArithDialect, memref::MemRefDialect>(inner.getDialect()) ||
        inner.getNumRegions() || !isMemoryEffectFree(&inner) ||
        !llvm::all_of(inner.getResultTypes(), isScalar) ||
        !llvm::all_of(inner.getOperands(), isOutside))
      continue;
    inner.moveBefore(op);
    if (failed(lowerOp(&inner)))
      return failure();
  }
  body.walk([&](Operation *inner) {
    if (!isa<arith::DivUIOp, arith::RemUIOp>(inner))
      return;
    Value divisor = inner->getOperand(1);
    if (!divisor.getType().isInteger(32) || !isOutside(divisor))
      return;
    Value y = scalar(divisor);
    if (!e.constantOf(y) && !inverses.contains(y))
      inverses[y] = inverseOf(y);
  });
  return success();
}

LogicalResult KernelLowering::lowerForeach(ForeachOp op) {
  auto scheduler = op.getSchedule().getDefiningOp<SchedulerOp>();
  if (!scheduler)
    return op.emitOpError("expected a schedule made in this kernel by "
                          "tile_gpu.scheduler");
  Block &body = op.getBody().front();
  ValueRange arguments = body.getArguments();
  ValueRange carried = arguments.drop_front(6);
  Value block = e.call("llvm.nvvm.read.ptx.sreg.ctaid.x", e.i32, {});
  if (scheduler.getKind() == ScheduleKind::Grid) {
    for (auto [argument, initial] : llvm::zip_equal(carried, op.getInitial()))
      set(argument, of(initial));
    if (failed(lowerItem(scheduler, block, arguments)) ||
        failed(lowerBlock(body)))
      return failure();
    for (auto [result, yielded] :
         llvm::zip_equal(op.getResults(), body.getTerminator()->getOperands()))
      set(result, of(yielded));
    return success();
  }
  Value total =
      e.mul(e.mul(scalar(scheduler.getTiles()), scalar(scheduler.getHeads())),
            scalar(scheduler.getBatch()));
  if (scheduler.getSplits())
    total = e.mul(total, scalar(scheduler.getSplits()));
  Values initial = {block, e.c32(0)};
  llvm::append_range(initial, flat(op.getInitial()));
  SmallVector<Type> types;
  for (Value value : initial)
    types.push_back(value.getType());
  if (failed(hoistScalars(op)))
    return failure();
  Block *header = e.newBlock(types);
  e.branch(header, initial);
  Block *start = e.newBlock(), *exit = e.newBlock();
  e.startBlock(header);
  Value item = header->getArgument(0), iteration = header->getArgument(1);
  e.branch(e.lt(item, total), start, exit);
  e.startBlock(start);
  setAll(carried, header->getArguments().drop_front(2));
  if (failed(lowerItem(scheduler, item, arguments)) || failed(lowerBlock(body)))
    return failure();
  e.loc = op.getLoc();
  Value next = nextItem(op, item, iteration);
  Values yielded = {next, e.add(iteration, 1)};
  llvm::append_range(yielded, flat(body.getTerminator()->getOperands()));
  e.branch(header, yielded);
  e.startBlock(exit);
  setAll(op.getResults(), header->getArguments().drop_front(2));
  return success();
}
