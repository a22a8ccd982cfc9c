//===- Items.cpp - Loops over the items of a schedule ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Items of a dynamic schedule are drawn by one warp. It evaluates the
// schedule's body for all others, too, and hands them the results beside the
// number, in one of two slots of shared memory: an item's bounds take some
// hundred instructions, one after the other, which a warp that multiplies has
// nothing to hide behind.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "attn/Dialect/TileGPU/IR/MergedStates.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

/// Arithmetic of item numbers, in 32 bits.
struct KernelLowering::ItemMath {
  KernelLowering &lowering;
  Emitter &e;
  Value constant(int64_t value) { return e.c32(value); }
  bool isOne(Value x) { return e.constantOf(x) == 1; }
  Value add(Value x, Value y) { return e.add(x, y); }
  Value sub(Value x, Value y) { return e.sub(x, y); }
  Value mul(Value x, Value y) { return e.mul(x, y); }
  Value min(Value x, Value y) { return e.select(e.lt(y, x), y, x); }
  std::pair<Value, Value> divide(Value x, Value y) {
    // Written out, a division takes registers that two have not: warps that
    // multiply, in a loop over items, and a producer without a loop to make the
    // inverses ahead of. The assembler's own takes few.
    if (e.constantOf(y) || (lowering.role.warps > 1) == lowering.persistent)
      return {e.udiv(x, y), e.urem(x, y)};
    return lowering.divideUnsigned(x, y);
  }
};

/// What the items of a schedule are counted by, and how many there are.
Value KernelLowering::countItems(SchedulerOp op) {
  ItemMath m{*this, e};
  work = {scalar(op.getBatch()),
          scalar(op.getHeads()),
          scalar(op.getTiles()),
          op.getSplits() ? scalar(op.getSplits()) : e.c32(1),
          {},
          op.getTilesOfCluster()};
  if (op.getSection())
    work.section = scalar(op.getSection());
  tile::countWork(m, work);
  return e.mul(e.mul(work.tiles, work.parts), e.mul(work.heads, work.batches));
}

/// Sets the tile, head, batch and split of an item, and what the schedule's
/// body makes of them.
LogicalResult KernelLowering::lowerItem(SchedulerOp op, Value item,
                                        ValueRange arguments) {
  ItemMath m{*this, e};
  tile::WorkTile<Value> at = tile::locateWorkTile(m, item, work, op.getOrder());
  Block &body = op.getBody().front();
  Value indices[] = {at.tile, at.head, at.batch, at.part};
  for (auto [argument, index] : llvm::zip_equal(body.getArguments(), indices))
    set(argument, {index});
  if (failed(lowerBlock(body)))
    return failure();
  for (auto [argument, index] : llvm::zip(arguments, indices))
    set(argument, {index});
  for (auto [argument, value] :
       llvm::zip(arguments.drop_front(4), body.getTerminator()->getOperands()))
    set(argument, of(value));
  return success();
}

/// Draws the next of `count` tickets; 0 where each has its block or cluster,
/// and none of these draws.
Value KernelLowering::drawTicket(SchedulerOp scheduler, Value count) {
  Value blocks = e.call("llvm.nvvm.read.ptx.sreg.nctaid.x", e.i32, {});
  // Every item is followed by one draw: as many as there are items, and the
  // counter, which the last one finds at count - 1, is zero again. Those of
  // first items are one more for each block.
  Value draws = lane0;
  if (scheduler.getDrawsFirst())
    count = e.add(count, blocks);
  else
    draws = e.and_(draws, e.lt(e.udiv(blocks, cluster), count));
  Value drawn =
      e.assembly("{\nmov.b32 $0, 0;\n"
                 "@$2 atom.relaxed.gpu.global.inc.u32 $0, [$1], $3;\n}",
                 "=r,l,b,r,~{memory}",
                 {of(scheduler.getTickets()).front(), draws, e.add(count, -1)},
                 e.i32)
          .front();
  return e.shuffleIndex(drawn, 0);
}

/// Draws the number of the item after the one that is on hand.
Value KernelLowering::drawItem(SchedulerOp scheduler, Value total) {
  Value ticket = drawTicket(scheduler, total);
  if (scheduler.getDrawsFirst())
    return ticket;
  // The first items are the blocks' own numbers; tickets count from there.
  Value blocks = e.call("llvm.nvvm.read.ptx.sreg.nctaid.x", e.i32, {});
  return e.add(ticket, blocks);
}

//===----------------------------------------------------------------------===//
// Hand-over
//===----------------------------------------------------------------------===//

/// The slot that turn `iteration` uses, and its barriers.
KernelLowering::TicketSlot KernelLowering::ticketSlot(SchedulerOp scheduler,
                                                      Value iteration) {
  const TicketLayout &tickets = *layout.tickets(scheduler);
  int64_t numSlots = tickets.numSlots;
  Value slot = e.urem(iteration, numSlots);
  return {tickets, slotAddress(tickets.slots, tickets.slotBytes, slot),
          slotAddress(tickets.full, 8, slot),
          slotAddress(tickets.empty, 8, slot),
          e.and_(e.udiv(iteration, numSlots), 1)};
}

/// Words in a row go four at a time.
static constexpr int64_t chunkWords = 4;

/// ".v4 {$0, $1, $2, $3}" and its kin.
static std::string wordList(int64_t first, int64_t count, StringRef &width) {
  width = count == 4 ? ".v4" : count == 2 ? ".v2" : "";
  std::string text = count > 1 ? "{" : "";
  for (int64_t i = 0; i < count; ++i)
    text += (i ? ", $" : "$") + std::to_string(first + i);
  return text + (count > 1 ? "}" : "");
}

static int64_t chunkAt(int64_t at, int64_t size) {
  int64_t left = size - at;
  return left >= chunkWords ? chunkWords : left >= 2 ? 2 : 1;
}

void KernelLowering::giveItem(const TicketSlot &slot, const Values &words) {
  waitBarrier(slot.empty, e.xor_(slot.phase, e.c32(1)));
  for (int64_t at = 0, size = words.size(); at < size;) {
    int64_t count = chunkAt(at, size);
    StringRef width;
    std::string list = wordList(2, count, width);
    Values inputs = {e.add(slot.words, at * 4), lane0};
    std::string constraints = "r,b";
    for (int64_t i = 0; i < count; ++i) {
      inputs.push_back(words[at + i]);
      constraints += ",r";
    }
    e.assembly("@$1 st.shared::cta" + width + ".b32 [$0], " + list + ";",
               constraints + ",~{memory}", inputs);
    at += count;
  }
  arrive(slot.full, lane0);
}

Values KernelLowering::readItem(const TicketSlot &slot, int64_t size,
                                bool isTaken) {
  waitBarrier(slot.full, slot.phase);
  Values words;
  for (int64_t at = 0; at < size;) {
    int64_t count = chunkAt(at, size);
    StringRef width;
    std::string list = wordList(0, count, width), constraints;
    for (int64_t i = 0; i < count; ++i)
      constraints += "=r,";
    SmallVector<Type> types(count, e.i32);
    llvm::append_range(words,
                       e.assembly("ld.shared::cta" + width + ".b32 " + list +
                                      ", [$" + Twine(count) + "];",
                                  constraints + "r,~{memory}",
                                  {e.add(slot.words, at * 4)}, types));
    at += count;
  }
  // The assembler knows then that all lanes have the same.
  for (Value &word : words)
    word = e.shuffleIndex(word, 0);
  // Each lane for itself: what it has read comes before the next item's words
  // in its own order. The warp's barrier is for the assembler alone, which
  // leaves nothing of it, but spills heads of 256 without.
  syncWarp();
  if (isTaken)
    arrive(slot.empty);
  return words;
}

/// A scalar as words of 32 bits, and back.
void KernelLowering::appendWords(Value value, Values &words) {
  Type type = value.getType();
  if (type == e.i64) {
    words.push_back(LLVM::TruncOp::create(e.b, e.loc, e.i32, value));
    words.push_back(
        LLVM::TruncOp::create(e.b, e.loc, e.i32, e.lshr(value, 32)));
  } else if (type == e.i1) {
    words.push_back(LLVM::ZExtOp::create(e.b, e.loc, e.i32, value));
  } else {
    words.push_back(e.bitcast(value, e.i32));
  }
}

Value KernelLowering::fromWords(Type type, ArrayRef<Value> words) {
  if (type == e.i64)
    return e.or_(
        e.zext64(words[0]),
        LLVM::ShlOp::create(e.b, e.loc, e.zext64(words[1]), e.c64(32)));
  if (type == e.i1)
    return e.icmp(LLVM::ICmpPredicate::ne, words[0], e.c32(0));
  return e.bitcast(words[0], type);
}

/// Takes the turn's item where one warp draws for several: goes to a block
/// where the item's arguments are set, or to `exit` after the last item.
LogicalResult KernelLowering::shareItem(ForeachOp op, Value drawn,
                                        Value iteration, Value total,
                                        Block *exit) {
  auto scheduler = op.getSchedule().getDefiningOp<SchedulerOp>();
  TicketSlot slot = ticketSlot(scheduler, iteration);
  ValueRange arguments = op.getItemArgs();
  ArrayRef<unsigned> given = slot.layout.values;
  int64_t size = 1;
  for (unsigned number : given)
    size += SharedLayout::wordsOf(arguments[number].getType());
  // Goes on with the item that others drew, if there is one.
  bool isTaken = true;
  op.getBody().walk([&](DrawNextOp) { isTaken = false; });
  taken = isTaken ? Value() : slot.empty;
  auto follow = [&]() -> Values {
    Values words = readItem(slot, size, isTaken);
    Block *start = e.newBlock();
    e.branch(e.lt(words[0], total), start, exit);
    e.startBlock(start);
    Values taken;
    ArrayRef<Value> rest = ArrayRef<Value>(words).drop_front();
    for (unsigned number : given) {
      Type type = arguments[number].getType();
      taken.push_back(fromWords(scalarType(type), rest));
      rest = rest.drop_front(SharedLayout::wordsOf(type));
    }
    return taken;
  };
  auto setGiven = [&](ValueRange taken) {
    for (auto [number, value] : llvm::zip_equal(given, taken))
      set(arguments[number], {value});
  };
  if (!op.getLead()) {
    setGiven(follow());
    return success();
  }
  // The first warp draws for the others of its role, too.
  bool isShared = role.warps > 1;
  Block *others = isShared ? e.newBlock() : nullptr;
  if (isShared) {
    Block *mine = e.newBlock();
    e.branch(e.eq(role.warpInRole, 0), mine, others);
    e.startBlock(mine);
  }
  Block *first = e.newBlock(), *last = e.newBlock();
  e.branch(e.lt(drawn, total), first, last);
  e.startBlock(last);
  giveItem(slot, {drawn});
  e.branch(exit);
  e.startBlock(first);
  if (failed(lowerItem(scheduler, drawn, arguments)))
    return failure();
  Values words = {drawn}, own;
  for (unsigned number : given) {
    own.push_back(scalar(arguments[number]));
    appendWords(own.back(), words);
  }
  giveItem(slot, words);
  if (!isShared)
    return success();
  SmallVector<Type> types;
  for (Value value : own)
    types.push_back(value.getType());
  Block *start = e.newBlock(types);
  e.branch(start, own);
  e.startBlock(others);
  Values taken = follow();
  e.branch(start, taken);
  e.startBlock(start);
  setGiven(start->getArguments());
  return success();
}

//===----------------------------------------------------------------------===//
// The loop
//===----------------------------------------------------------------------===//

/// Scalars that are the same for all items come before the loop, and so do the
/// inverses of divisors among them: an item's bounds are on the way to its
/// first product, with nothing to hide behind.
LogicalResult KernelLowering::hoistScalars(ForeachOp op, bool isHandedOver) {
  auto scheduler = op.getSchedule().getDefiningOp<SchedulerOp>();
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
  auto invertValue = [&](Value y) {
    if (!e.constantOf(y) && !inverses.contains(y))
      inverses[y] = inverseOf(y);
  };
  auto invert = [&](Operation *inner) {
    if (!isa<arith::DivUIOp, arith::RemUIOp>(inner))
      return;
    Value divisor = inner->getOperand(1);
    // Another role may have given values of the schedule's body, too.
    if (!divisor.getType().isInteger(32) || !isOutside(divisor) ||
        scheduler->isAncestor(divisor.getParentRegion()->getParentOp()) ||
        !values.contains(divisor))
      return;
    invertValue(scalar(divisor));
  };
  body.walk(invert);
  // What only the role that draws evaluates.
  if (op.getLead() || !isHandedOver) {
    scheduler.getBody().walk(invert);
    if (role.warps > 1 || !persistent)
      return success();
    invertValue(work.parts);
    // Of one head there is nothing to divide.
    if (e.constantOf(work.heads) != 1 || e.constantOf(work.batches) != 1) {
      invertValue(work.section ? work.sectionTiles : work.rows);
      if (e.constantOf(work.batches) != 1)
        invertValue(work.heads);
    }
  }
  return success();
}

LogicalResult KernelLowering::lowerForeach(ForeachOp op) {
  auto scheduler = op.getSchedule().getDefiningOp<SchedulerOp>();
  if (!scheduler)
    return op.emitOpError("expected a schedule made in this kernel by "
                          "tile_gpu.scheduler");
  taken = {};
  Block &body = op.getBody().front();
  ValueRange arguments = op.getItemArgs();
  ValueRange carried = op.getRegionIterArgs();
  Value block = e.call("llvm.nvvm.read.ptx.sreg.ctaid.x", e.i32, {});
  Value total = countItems(scheduler);
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
  bool isDynamic = scheduler.getKind() == ScheduleKind::Dynamic;
  bool isShared = isDynamic && layout.tickets(scheduler)->slots >= 0;
  bool draws = isDynamic && op.getLead();
  // Of those that follow, only the number of the turn is carried.
  bool knowsItem = !isShared || draws;
  if (draws && scheduler.getDrawsFirst()) {
    if (role.warps > 1)
      return op.emitOpError("expected a role of one warp to lead a schedule "
                            "whose first items are drawn");
    block = drawItem(scheduler, total);
  }
  Values initial = {e.c32(0)};
  if (knowsItem)
    initial.push_back(block);
  llvm::append_range(initial, flat(op.getInitial()));
  SmallVector<Type> types;
  for (Value value : initial)
    types.push_back(value.getType());
  if (failed(hoistScalars(op, isShared)))
    return failure();
  Block *header = e.newBlock(types);
  e.branch(header, initial);
  Block *exit = e.newBlock();
  passOver = draws && role.warps == 1 && !scheduler.getCluster() ? e.newBlock()
                                                                 : nullptr;
  e.startBlock(header);
  ValueRange turn = header->getArguments();
  Value iteration = turn[0], item = knowsItem ? turn[1] : Value();
  turn = turn.drop_front(knowsItem ? 2 : 1);
  setAll(carried, turn);
  if (isShared) {
    if (failed(shareItem(op, item, iteration, total, exit)))
      return failure();
  } else {
    Block *start = e.newBlock();
    e.branch(e.lt(item, total), start, exit);
    e.startBlock(start);
    if (failed(lowerItem(scheduler, item, arguments)))
      return failure();
  }
  if (failed(lowerBlock(body)))
    return failure();
  e.loc = op.getLoc();
  Values yielded = {e.add(iteration, 1)};
  if (isShared && draws && layout.tickets(scheduler)->numSlots == 1) {
    // Nothing else keeps this warp from running ahead: what is drawn long
    // before it is worked on is missing where another block runs out of items.
    TicketSlot slot = ticketSlot(scheduler, yielded[0]);
    waitBarrier(slot.empty, e.xor_(slot.phase, e.c32(1)));
  }
  if (knowsItem)
    yielded.push_back(nextItem(op, item, total, iteration));
  llvm::append_range(yielded, flat(body.getTerminator()->getOperands()));
  e.branch(header, yielded);
  if (passOver) {
    e.startBlock(passOver);
    Values again = {iteration, drawItem(scheduler, total)};
    llvm::append_range(again, turn);
    e.branch(header, again);
    passOver = nullptr;
  }
  e.startBlock(exit);
  if (draws && scheduler.getCluster() && tile_gpu::endsApart(kernel))
    hearLast(scheduler, iteration);
  setAll(op.getResults(), turn);
  if (scheduler.getCluster() && tile_gpu::endsApart(kernel))
    hearLastStates(op);
  return success();
}

/// Goes on with the next item where this one has nothing to do.
LogicalResult KernelLowering::lowerSkip(SkipOp op) {
  if (!passOver)
    return op.emitOpError("expected the schedule's items to be drawn by a role "
                          "of one warp");
  Block *rest = e.newBlock();
  e.branch(scalar(op.getCondition()), passOver, rest);
  e.startBlock(rest);
  return success();
}

/// All lanes have read what the slot holds.
LogicalResult KernelLowering::lowerDrawNext(DrawNextOp op) {
  if (taken)
    arrive(taken);
  return success();
}

/// The item after `item`, for warps that do not learn it from another.
Value KernelLowering::nextItem(ForeachOp op, Value item, Value total,
                               Value iteration) {
  auto scheduler = op.getSchedule().getDefiningOp<SchedulerOp>();
  if (scheduler.getCluster())
    return drawForCluster(scheduler, total, iteration);
  if (scheduler.getKind() == ScheduleKind::Static)
    return e.add(item, e.call("llvm.nvvm.read.ptx.sreg.nctaid.x", e.i32, {}));
  if (role.warps == 1)
    return drawItem(scheduler, total);
  Block *first = e.newBlock(), *join = e.newBlock(e.i32);
  Block *others = e.newBlock();
  e.branch(e.eq(role.warpInRole, 0), first, others);
  e.startBlock(first);
  e.branch(join, drawItem(scheduler, total));
  e.startBlock(others);
  e.branch(join, item);
  e.startBlock(join);
  return join->getArgument(0);
}
