//===- FoldAbove.cpp - Keys above a threshold, one by one -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is done for each element is one difference, and one shift that takes its
// sign: a thread has a word of bits of each of its rows then. A warp none of
// whose rows has an element above its threshold is through.
//
// Otherwise scores, words and states go to shared memory, and a row to one lane
// (lanes 16 and on do as those 16 before them), which folds the row's elements
// in order. A word has, of the columns 32 w + 8 n + 2 q + {0, 1} of lane q of a
// quad, bits 8 n + 2 w + {0, 1}; to exchange w and q, four words by two bits of
// each byte, puts all columns in order. Behind a number of turns the rest is
// compared again: by then thresholds have grown.
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"
#include "attn/Analysis/OnChip.h"
#include <limits>

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

namespace {

constexpr int64_t quad = 4, wordBytes = 4, rowsOfWarp = 16, wordBits = 32;
constexpr int64_t banks = 32;
/// Elements of a row that are folded before the others are compared again.
constexpr int64_t turnsOfLook = 16;
using Bits = SmallVector<Value>;

class FoldLowering {
public:
  FoldLowering(KernelContext &k, FoldAboveOp op)
      : k(k), e(k.e), op(op), columns(op.getScores().getType().getCols()),
        rowBytes(op.getScratch().getType().getCols() * wordBytes),
        factor(op.getFactor().convertToFloat()) {}
  LogicalResult lower();

private:
  Value floorOf(Value least);
  Value compare(ArrayRef<Value> elements, Value floor);
  Value exchanged(Value row, Value column);
  void exchange(Bits &words);
  Value any(ArrayRef<Value> words);
  std::pair<Value, Value> next(ArrayRef<Value> words);
  void dropFirst(Bits &words);
  void putRow(Value address, ArrayRef<Value> elements, Value word,
              ArrayRef<Value> states);
  LogicalResult lowerBlock(int64_t block, SmallVectorImpl<Values> &results);
  LogicalResult foldRows(ValueRange states, Value rows, int64_t block,
                         SmallVectorImpl<Value> &left);

  Value asWord(Value value) { return e.bitcast(value, e.i32); }
  SmallVector<Value> load(Value address, int64_t count);
  void store(Value address, ArrayRef<Value> values, Value predicate);

  KernelContext &k;
  Emitter &e;
  FoldAboveOp op;
  int64_t columns, rowBytes;
  float factor;
  /// The states that change, and their types.
  SmallVector<unsigned> kept;
  SmallVector<Type> types;
  /// The row that this lane folds, and what its columns' numbers are changed
  /// by in shared memory.
  Value row, turned;
};

} // namespace

/// A number that no element above the threshold is below; the lowest where all
/// pass, which what is -inf is below.
Value FoldLowering::floorOf(Value least) {
  using Limits = std::numeric_limits<float>;
  Value lowest = e.cf(Limits::lowest());
  Value less = least;
  if (factor != 1) {
    constexpr float part = 0x1p-21f;
    Value quotient = e.fmul(least, e.cf(1 / factor));
    Value isPositive = e.fcmp(LLVM::FCmpPredicate::ogt, quotient, e.cf(0.0f));
    Value near = e.select(isPositive, e.cf(1 - part), e.cf(1 + part));
    less = e.fsub(e.fmul(quotient, near), e.cf(Limits::min()));
  }
  less = e.call("llvm.minnum.f32", e.f32, {less, e.cf(Limits::max())});
  less = e.call("llvm.maxnum.f32", e.f32, {less, lowest});
  return e.select(e.fcmp(LLVM::FCmpPredicate::ogt, least, lowest), less,
                  lowest);
}

/// The word of a row's elements that are not below the floor, or not a number.
Value FoldLowering::compare(ArrayRef<Value> elements, Value floor) {
  // Two chains, of half a word each.
  constexpr int64_t half = wordBits / 2;
  Value halves[2];
  uint32_t valid = 0;
  for (int64_t h = 0; h < 2; ++h) {
    Value word = e.c32(0);
    for (int64_t bit = half - 1; bit >= 0; --bit) {
      int64_t place = h * half + bit;
      int64_t chunk = place / 2 % quad * quad + place / 8, c = place % 2;
      if (8 * chunk >= columns) {
        word = e.shl(word, 1);
        continue;
      }
      valid |= uint32_t(1) << place;
      Value below = asWord(e.fsub(elements[2 * chunk + c], floor));
      word = LLVM::FshlOp::create(e.b, e.loc, word, below, e.c32(1));
    }
    halves[h] = word;
  }
  Value below = e.or_(e.shl(halves[1], half), halves[0]);
  return e.and_(e.xor_(below, e.c32(-1)), int64_t(int32_t(valid)));
}

/// Where a column of a row is: neighbouring rows have other banks.
Value FoldLowering::exchanged(Value row, Value column) {
  if (columns % banks)
    return column;
  return e.xor_(column, e.shl(e.and_(row, 3), 3));
}

/// Transposes four words by the pairs of bits of each byte.
void FoldLowering::exchange(Bits &words) {
  auto swap = [&](Value &x, Value &y, int64_t bits, int64_t mask) {
    Value differ = e.and_(e.xor_(e.lshr(x, bits), y), mask);
    y = e.xor_(y, differ);
    x = e.xor_(x, e.shl(differ, bits));
  };
  swap(words[0], words[2], 4, 0x0f0f0f0f);
  swap(words[1], words[3], 4, 0x0f0f0f0f);
  swap(words[0], words[1], 2, 0x33333333);
  swap(words[2], words[3], 2, 0x33333333);
}

Value FoldLowering::any(ArrayRef<Value> words) {
  Value some = words.front();
  for (Value word : words.drop_front())
    some = e.or_(some, word);
  return e.icmp(LLVM::ICmpPredicate::ne, some, e.c32(0));
}

/// The first column that has a bit, and the score there.
std::pair<Value, Value> FoldLowering::next(ArrayRef<Value> words) {
  Value word = words.back(), first = e.c32((words.size() - 1) * wordBits);
  for (int64_t w = words.size() - 2; w >= 0; --w) {
    Value here = e.icmp(LLVM::ICmpPredicate::ne, words[w], e.c32(0));
    word = e.select(here, words[w], word);
    first = e.select(here, e.c32(w * wordBits), first);
  }
  Value bit = LLVM::CountTrailingZerosOp::create(e.b, e.loc, e.i32, word,
                                                 /*is_zero_poison=*/false);
  // Without a bit, some column.
  Value column = e.and_(e.add(first, bit), onchip::mostFolded - 1);
  Value address =
      e.add(row, e.shl(LLVM::XOrOp::create(e.b, e.loc, column, turned), 2));
  return {column, load(address, 1).front()};
}

/// Takes the first bit away.
void FoldLowering::dropFirst(Bits &words) {
  Value before;
  for (Value &word : words) {
    Value rest = e.and_(word, e.add(word, -1));
    Value isSome = e.icmp(LLVM::ICmpPredicate::ne, word, e.c32(0));
    Value old = word;
    word = before ? e.select(before, old, rest) : rest;
    before = before ? e.or_(before, isSome) : isSome;
  }
}

SmallVector<Value> FoldLowering::load(Value address, int64_t count) {
  std::string results = "$0", constraints = "=r";
  for (int64_t i = 1; i < count; ++i) {
    results += ", $" + std::to_string(i);
    constraints += ",=r";
  }
  if (count > 1)
    results = "{" + results + "}";
  std::string kind = count > 1 ? "v" + std::to_string(count) + "." : "";
  SmallVector<Type> words(count, e.i32);
  Values values = e.assembly("ld.shared::cta." + kind + "b32 " + results +
                                 ", [$" + std::to_string(count) + "];",
                             constraints + ",r,~{memory}", {address}, words);
  return SmallVector<Value>(values.begin(), values.end());
}

void FoldLowering::store(Value address, ArrayRef<Value> values,
                         Value predicate) {
  std::string list, constraints = "r";
  Values inputs = {address};
  for (auto [i, value] : llvm::enumerate(values)) {
    list += (i ? ", $" : "$") + std::to_string(i + 1);
    constraints += ",r";
    inputs.push_back(asWord(value));
  }
  if (values.size() > 1)
    list = "{" + list + "}";
  std::string kind =
      values.size() > 1 ? "v" + std::to_string(values.size()) + "." : "";
  std::string guard;
  if (predicate) {
    inputs.push_back(predicate);
    guard = "@$" + std::to_string(inputs.size() - 1) + " ";
    constraints += ",b";
  }
  e.assembly(guard + "st.shared::cta." + kind + "b32 [$0], " + list + ";",
             constraints + ",~{memory}", inputs);
}

/// Loads a row's words and states, folds, and stores the states, in each lane
/// for its row. `left`: what of the words is left.
LogicalResult FoldLowering::foldRows(ValueRange states, Value first,
                                     int64_t block,
                                     SmallVectorImpl<Value> &left) {
  Value own = e.and_(k.lane, rowsOfWarp - 1);
  Value base = e.add(first, e.mul(own, rowBytes));
  row = base;
  turned = exchanged(own, e.c32(0));
  Value bitsAt = e.add(base, columns * wordBytes);
  Bits words = load(bitsAt, quad);
  exchange(words);
  SmallVector<Value> carried(words.begin(), words.end());
  for (size_t i = 0; i < kept.size(); i += quad) {
    auto some = load(e.add(bitsAt, (quad + i) * wordBytes), quad);
    for (size_t n = i; n < std::min(i + quad, kept.size()); ++n)
      carried.push_back(e.bitcast(some[n - i], types[n]));
  }
  auto [column, score] = next(words);
  carried.append({column, score, e.c32(turnsOfLook)});
  SmallVector<Type> carriedTypes(ValueRange(carried).getTypes());
  Block *turn = e.newBlock(carriedTypes), *done = e.newBlock(carriedTypes);
  e.branch(any(words), turn, done, carried, carried);

  e.startBlock(turn);
  SmallVector<Value> now(turn->getArguments());
  Bits rest(ArrayRef(now).take_front(quad));
  SmallVector<Value> old(ArrayRef(now).slice(quad, kept.size()));
  ArrayRef<Value> key = ArrayRef(now).take_back(3);
  // The next score is on its way while this one is folded.
  dropFirst(rest);
  auto [nextColumn, nextScore] = next(rest);
  Value element = e.bitcast(key[1], e.f32);
  if (factor != 1)
    element = e.fmul(element, e.cf(factor));
  SmallVector<Value> arguments = {
      e.add(e.add(k.role.warpRows, own), block * blockRowsOf(k.role.scope)),
      key[0], element};
  size_t at = 0;
  for (size_t i = 0; i < op.getStates().size(); ++i)
    arguments.push_back(at < kept.size() && kept[at] == i
                            ? old[at++]
                            : k.of(op.getStates()[i])[2 * block]);
  SmallVector<Value> yielded;
  if (failed(k.evaluate(op.getBody().front(), arguments, yielded)))
    return failure();
  SmallVector<Value> after(rest.begin(), rest.end());
  for (unsigned i : kept)
    after.push_back(yielded[i]);
  Value turns = e.add(key[2], -1);
  after.append({nextColumn, nextScore, turns});
  Value again = LLVM::AndOp::create(
      e.b, e.loc, any(rest), e.icmp(LLVM::ICmpPredicate::ne, turns, e.c32(0)));
  e.branch(again, turn, done, after, after);

  e.startBlock(done);
  SmallVector<Value> last(done->getArguments());
  Value isOwner = e.lt(k.lane, e.c32(rowsOfWarp));
  Bits remaining(ArrayRef(last).take_front(quad));
  left.assign(remaining.begin(), remaining.end());
  SmallVector<Value> ends(ArrayRef(last).slice(quad, kept.size()));
  for (size_t i = 0; i < ends.size(); i += quad) {
    SmallVector<Value> some(
        ArrayRef(ends).slice(i, std::min<size_t>(quad, ends.size() - i)));
    some.resize(quad, e.c32(0));
    store(e.add(bitsAt, (quad + i) * wordBytes), some, isOwner);
  }
  return success();
}

/// Stores what this thread has of a row that lies at `address`.
void FoldLowering::putRow(Value address, ArrayRef<Value> elements, Value word,
                          ArrayRef<Value> states) {
  Value place = e.lshr(k.lane, 2), share = e.and_(k.lane, 3);
  // Pairs of columns, of which an exchange changes no more than the number.
  Value pair = exchanged(place, e.shl(share, 1));
  for (int64_t column = 0; column < columns; column += 8) {
    Value first = e.c32(column);
    first = columns % banks ? e.add(pair, first) : e.xor_(pair, first);
    int64_t own = column / 4;
    store(e.add(address, e.shl(first, 2)), elements.slice(own, 2), Value());
  }
  Value bitsAt = e.add(address, columns * wordBytes);
  store(e.add(bitsAt, e.shl(share, 2)), {word}, Value());
  for (size_t i = 0; i < states.size(); i += quad) {
    SmallVector<Value> part(states.drop_front(i).take_front(quad));
    part.resize(quad, e.c32(0));
    // Four lanes store the same: a branch around it would take longer.
    store(e.add(bitsAt, (quad + i) * wordBytes), part, Value());
  }
}

LogicalResult FoldLowering::lowerBlock(int64_t block,
                                       SmallVectorImpl<Values> &results) {
  FragShape shape(op.getScores().getType());
  // Elements of each of this thread's two rows, in order.
  SmallVector<Value> elements[2];
  ArrayRef<Value> registers = k.of(op.getScores());
  for (Value value : registers.slice(block * shape.colBlocks * shape.each(),
                                     shape.colBlocks * shape.each())) {
    int64_t i = elements[0].size() + elements[1].size();
    elements[i / 2 % 2].push_back(value);
  }
  Value first =
      e.add(k.scalar(op.getScratch()),
            e.mul(e.add(k.role.warpRows, block * blockRowsOf(k.role.scope)),
                  rowBytes));
  Value place = e.lshr(k.lane, 2), share = e.and_(k.lane, 3);
  Value mine[2];
  for (int64_t h = 0; h < 2; ++h)
    mine[h] = e.add(first, e.mul(e.add(place, 8 * h), rowBytes));

  SmallVector<Value> inits;
  for (unsigned i : kept)
    for (int64_t h = 0; h < 2; ++h)
      inits.push_back(k.of(op.getStates()[i])[2 * block + h]);
  inits.append({e.c32(-1), e.c32(-1)});
  SmallVector<Type> carried(ValueRange(inits).getTypes());
  Block *look = e.newBlock(carried), *put = e.newBlock(),
        *exit = e.newBlock(carried);
  e.branch(look, inits);

  e.startBlock(look);
  SmallVector<Value> now(look->getArguments());
  size_t least = llvm::find(kept, op.getThreshold()) - kept.begin();
  Value words[2];
  for (int64_t h = 0; h < 2; ++h)
    words[h] = e.and_(compare(elements[h], floorOf(now[2 * least + h])),
                      now[2 * kept.size() + h]);
  Value some = e.call("llvm.nvvm.vote.any.sync", e.i1, {e.c32(-1), any(words)});
  e.branch(some, put, exit, ValueRange(), now);

  e.startBlock(put);
  // What was read before is read by all lanes.
  k.syncWarp();
  for (int64_t h = 0; h < 2; ++h) {
    SmallVector<Value> states;
    for (size_t n = 0; n < kept.size(); ++n)
      states.push_back(now[2 * n + h]);
    putRow(mine[h], elements[h], words[h], states);
  }
  k.syncWarp();
  SmallVector<Value> left;
  if (failed(foldRows(now, first, block, left)))
    return failure();
  k.syncWarp();
  SmallVector<Value> after(inits.size());
  for (int64_t h = 0; h < 2; ++h) {
    Value statesAt = e.add(mine[h], (columns + quad) * wordBytes);
    for (size_t i = 0; i < kept.size(); i += quad) {
      auto part = load(e.add(statesAt, i * wordBytes), quad);
      for (size_t n = i; n < std::min(i + quad, kept.size()); ++n)
        after[2 * n + h] = e.bitcast(part[n - i], types[n]);
    }
  }
  Value more = e.call("llvm.nvvm.vote.any.sync", e.i1, {e.c32(-1), any(left)});
  after[2 * kept.size()] = after[2 * kept.size() + 1] = e.c32(0);
  Block *rest = e.newBlock();
  e.branch(more, rest, exit, ValueRange(), after);

  // What is left goes back to the threads that compared it.
  e.startBlock(rest);
  Bits back(left.begin(), left.end());
  exchange(back);
  Value own = e.and_(k.lane, rowsOfWarp - 1);
  store(e.add(e.add(first, e.mul(own, rowBytes)), columns * wordBytes), back,
        e.lt(k.lane, e.c32(rowsOfWarp)));
  k.syncWarp();
  for (int64_t h = 0; h < 2; ++h)
    after[2 * kept.size() + h] =
        load(e.add(e.add(mine[h], columns * wordBytes), e.shl(share, 2)), 1)
            .front();
  k.syncWarp();
  e.branch(look, after);

  e.startBlock(exit);
  ValueRange ends = exit->getArguments();
  for (size_t n = 0; n < kept.size(); ++n)
    for (int64_t h = 0; h < 2; ++h)
      results[kept[n]][2 * block + h] = ends[2 * n + h];
  return success();
}

LogicalResult FoldLowering::lower() {
  SmallVector<Values> results;
  for (auto [i, state] : llvm::enumerate(op.getStates())) {
    results.push_back(k.of(state));
    if (op.passesThrough(i))
      continue;
    kept.push_back(i);
    types.push_back(cast<VecType>(state.getType()).getElementType());
  }
  for (int64_t block = 0; block < FragShape(op.getScores().getType()).blocks;
       ++block)
    if (failed(lowerBlock(block, results)))
      return failure();
  for (auto [result, registers] : llvm::zip(op.getResults(), results))
    k.set(result, std::move(registers));
  return success();
}

LogicalResult gpu::lower(KernelContext &k, FoldAboveOp op) {
  return FoldLowering(k, op).lower();
}
