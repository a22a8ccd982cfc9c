//===- TileScanTurns.cpp - Tokens of a scan on any threads ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With a block for each head, as many heads as threads take as long as the
// slowest thread takes for one of them, and cores that other programs have, or
// other guests of a machine, take twice as long. So there are blocks for every
// 512 tokens. Each draws the next of the turns of a head, waits until the turn
// before it has ended, goes on with the state that that one left in memory, and
// leaves its own there: the numbers are those of one walk. Turns are drawn by
// blocks that run, so that whatever the order and number of threads, the first
// one that has not ended is under way.
//
//===----------------------------------------------------------------------===//

#include "TileScan.h"
#include "TileScanStep.h"
#include "attn/Analysis/Schedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

/// Tokens of a turn: whole chunks, of which a state of 64 KB is little.
static constexpr int64_t turnTokens = 512;
/// Of fewer states more threads would wait than work; so many keep threads busy
/// as they are.
static constexpr int64_t fewStates = 8, manyStates = 256;
/// Words between the two numbers of a head, and those of the next: a line of a
/// cache each, so that who waits for one delays no other.
static constexpr int64_t lineWords = 16;

bool ScanKernel::takesTurns(ScanOp op) {
  auto tokens = cast<RankedTensorType>(op.getQuery().getType());
  if (op.isPacked() || op.getLengths() || op.getWhole() || op.getNormalize() ||
      op.getLogWeight() || !op.getPool().empty() ||
      op.getSegments().value_or(1) > 1 || ScanStepKernel::handles(op))
    return false;
  int64_t count = tokens.getDimSize(2);
  return op.getChunk() != 1 &&
         (ShapedType::isDynamic(count) || count > turnTokens);
}

Value ScanKernel::countTurns(OpBuilder &b, Location loc, Value tokens,
                             Value states) {
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, loc, value);
  };
  Value turns = arith::CeilDivUIOp::create(b, loc, tokens, index(turnTokens));
  turns = arith::MaxUIOp::create(b, loc, turns, index(1));
  Value pays = arith::CmpIOp::create(
      b, loc, arith::CmpIPredicate::ult,
      arith::SubIOp::create(b, loc, states, index(fewStates)),
      index(manyStates - fewStates));
  return arith::SelectOp::create(b, loc, pays, turns, index(1));
}

/// First turns of all heads come before second ones.
void ScanKernel::findTurn(Value block) {
  Value sequences = countSequences();
  Value states = mul(sequences, stateHeads);
  turns = countTurns(b, loc, dim(arg(scanOp.getQuery()), 2), states);
  auto work = tile::WorkTileOp::create(b, loc, block, sequences, stateHeads,
                                       turns, index(1));
  work.getSectionMutable().assign(states);
  batch = work.getBatch();
  head = work.getHead();
}

SmallVector<MemRefType>
ScanKernel::getTurnTypes(ScanOp op, const ::attn::TargetInfo &target) {
  int64_t any = ShapedType::kDynamic;
  Builder b(op.getContext());
  return {MemRefType::get(
              {any, any, ::attn::paddedChannels(op.getKeyChannels(), target),
               ::attn::paddedChannels(op.getValueChannels(), target)},
              b.getF32Type()),
          MemRefType::get({any, any, 2 * lineWords}, b.getI32Type())};
}

void ScanKernel::clearTurns(ValueRange memory, Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  findWork(block, /*tiles=*/1);
  for (int64_t word : {int64_t(0), lineWords})
    memref::StoreOp::create(b, loc, i32(0), memory[1],
                            ValueRange{batch, head, index(word)});
  tile::ReturnOp::create(b, loc);
}

/// Adds to one of the two numbers of a head, and gives what it was.
static Value addTo(OpBuilder &b, Location loc, Value memory, ValueRange at,
                   Value number) {
  return memref::AtomicRMWOp::create(b, loc, arith::AtomicRMWKind::addi, number,
                                     memory, at);
}

/// The system's: who waits leaves its processor to others, so that more threads
/// than processors that are free cost little.
static func::FuncOp getYield(tile::KernelOp kernel) {
  static constexpr StringLiteral name = "sched_yield";
  auto module = kernel->getParentOfType<ModuleOp>();
  if (auto known = module.lookupSymbol<func::FuncOp>(name))
    return known;
  auto b = OpBuilder::atBlockEnd(module.getBody());
  auto func = func::FuncOp::create(b, kernel.getLoc(), name,
                                   b.getFunctionType({}, b.getI32Type()));
  func.setPrivate();
  return func;
}

void ScanKernel::takeTurn() {
  SmallVector<Value> drawn = {batch, head, index(0)};
  SmallVector<Value> ended = {batch, head, index(lineWords)};
  Value turn = addTo(b, loc, summaries[1], drawn, i32(1));
  Value zero = i32(0);
  func::FuncOp yield = getYield(kernel);
  scf::WhileOp::create(
      b, loc, TypeRange(), ValueRange(),
      [&](OpBuilder &b, Location loc, ValueRange) {
        Value number = addTo(b, loc, summaries[1], ended, zero);
        Value isBefore = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne,
                                               number, turn);
        scf::ConditionOp::create(b, loc, isBefore, ValueRange());
      },
      [&](OpBuilder &b, Location loc, ValueRange) {
        func::CallOp::create(b, loc, yield);
        scf::YieldOp::create(b, loc);
      });
  segment = toIndex(turn);
  isLastSegment = cmp(arith::CmpIPredicate::eq, segment, sub(turns, index(1)));
  Value size = index(turnTokens);
  begin = min(mul(segment, size), end);
  Value next = min(add(begin, size), end);
  queryEnd = select(isLastSegment, queryEnd, next);
  end = select(isLastSegment, end, next);
}

/// The state that the turn before left, or of the first one the initial state.
ScanKernel::State ScanKernel::loadPassed() {
  Value isFirst = cmp(arith::CmpIPredicate::eq, segment, index(0));
  auto type = tileType(keyCols, valueCols);
  State state;
  state.matrix = tile::LoadOp::create(
      b, loc, type, summaries[0], ValueRange{batch, head, index(0), index(0)},
      index(0), select(isFirst, index(0), index(keyCols)), /*live=*/Value(),
      /*vector=*/false, /*transposed=*/false);
  SmallVector<Value> from = initialStates();
  if (from.empty())
    return state;
  Value initial = tile::LoadOp::create(
      b, loc, type, from.front(), ValueRange{batch, head, index(0), index(0)},
      index(0), select(isFirst, matrixRows(), index(0)), /*live=*/Value(),
      /*vector=*/false, valuesFirst());
  state.matrix = addTiles(state.matrix, initial, type);
  return state;
}

void ScanKernel::passTurn(const State &state) {
  Value rows = select(isLastSegment, index(0), index(keyCols));
  tile::StoreOp::create(b, loc, state.matrix, summaries[0],
                        ValueRange{batch, head, index(0), index(0)}, index(0),
                        rows, /*vector=*/false);
  addTo(b, loc, summaries[1], ValueRange{batch, head, index(lineWords)},
        i32(1));
}
