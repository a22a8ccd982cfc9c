//===- KeyLists.cpp - Kernels that list key tiles -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A mask that reads memory has live tiles anywhere. One kernel finds them, one
// block for each query tile: keys by the tile and what the mask reads of them,
// least and greatest, decide many tiles at a time (`MaskAnalysis::Sample`), and
// what is left is evaluated element by element.
//
// Where the mask reads a tensor of pairs nothing is settled but by its
// elements. One more kernel, a block for each tile, reads them all, says what
// each tile is and writes the elements of masked tiles as bits, which is what
// the reduction then reads.
//
//===----------------------------------------------------------------------===//

#include "KeyLists.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

/// The least and the greatest of a sample: over the keys of tile `firstTile` +
/// r in row r, or over the rows of the query tile in every row.
std::pair<Value, Value>
KeyListKernel::sampleRange(::attn::MaskAnalysis::Sample sample, Value firstTile,
                           Value lastTile) {
  int64_t rows = keyCols();
  int64_t cols = sample.onKey ? rows : schedule.getBlockQ();
  Type type = sample.value.getType();
  Value zero = i32(0);
  Value firstRow = rowBase(row0), last = toI32(lastTile);
  Value first = toI32(firstTile), lastLive = toI32(sub(liveRows, index(1)));
  Value read =
      map({}, tileType(rows, cols, b.getI32Type()),
          [&](Value r, Value c, ValueRange) {
            Value row = sample.onKey ? zero : min(c, lastLive);
            Point point = rowPoint(firstRow, row, lastRow());
            point.key = point.safeKey = zero;
            if (sample.onKey) {
              Value tile = min(add(first, r), last);
              Value within = min(c, i32(schedule.getBlockK() - 1));
              Value key = add(mul(tile, i32(schedule.getBlockK())), within);
              point.key = point.safeKey = key;
            }
            PointCloner cloner(*this, reduction.getMaskBody(), 0,
                               /*hasKey=*/true, reduction.getCaptureOperands(),
                               point);
            Value value = cloner.get(sample.value);
            if (type.isInteger(1))
              value = arith::ExtUIOp::create(b, loc, b.getI32Type(), value);
            else if (!type.isInteger(32))
              value = arith::ExtSIOp::create(b, loc, b.getI32Type(), value);
            return SmallVector<Value>{value};
          })
          .front();
  auto extreme = [&](int64_t identity, bool least) {
    return reduce(read, i32(identity), /*ordered=*/false,
                  [&](ValueRange x, ValueRange y) -> SmallVector<Value> {
                    return {least ? min(x[0], y[0]) : max(x[0], y[0])};
                  })
        .front();
  };
  return {extreme(std::numeric_limits<int32_t>::max(), /*least=*/true),
          extreme(std::numeric_limits<int32_t>::min(), /*least=*/false)};
}

/// Runs `body` on the place of each bit that is set, from the lowest on.
SmallVector<Value> KeyListKernel::forBits(
    Value bits, ValueRange carried,
    function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  SmallVector<Value> initial = {bits};
  llvm::append_range(initial, carried);
  auto loop = scf::ForOp::create(b, loc, index(0),
                                 toIndex(math::CtPopOp::create(b, loc, bits)),
                                 index(1), initial);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value rest = loop.getRegionIterArg(0), one = i32(1);
  Value below = sub(rest, one);
  // The zeros below the lowest bit: ~x & (x - 1).
  Value zeros = arith::AndIOp::create(
      b, loc, arith::XOrIOp::create(b, loc, rest, i32(-1)), below);
  SmallVector<Value> next = {arith::AndIOp::create(b, loc, rest, below)};
  llvm::append_range(next, body(math::CtPopOp::create(b, loc, zeros),
                                loop.getRegionIterArgs().drop_front()));
  scf::YieldOp::create(b, loc, next);
  return SmallVector<Value>(loop.getResults().drop_front());
}

Value KeyListKernel::listWhole(const KeyLists &into, Value tile, Value whole) {
  Value place = listPlace(into.tiles, toIndex(whole), /*whole=*/true);
  memref::StoreOp::create(b, loc, tile, into.tiles,
                          {batch, head, queryTile, place});
  return add(whole, i32(1));
}

/// Keys by rows, `count` of these from `first` on: whether elements are live,
/// and whether they are dead. Keys are rows here, of which each thread has few,
/// and rows are columns.
std::pair<Value, Value>
KeyListKernel::evaluateRows(RowBlock &block, Value first, int64_t count) {
  Type i1 = b.getI1Type();
  Value lastRow = toI32(sub(liveRows, index(1)));
  Value yes = arith::ConstantIntOp::create(b, loc, i1, 1);
  auto type = tileType(keyCols(), count, i1);
  SmallVector<Value> elements =
      map({}, {type, type}, [&](Value key, Value row, ValueRange) {
        // Rows beyond the last stand for it.
        if (first)
          row = add(row, first);
        Value live = liveByMask(block, min(row, lastRow), key);
        Value dead = arith::XOrIOp::create(b, loc, live, yes);
        if (keyCols() != schedule.getBlockK())
          dead = arith::AndIOp::create(
              b, loc, dead,
              cmp(arith::CmpIPredicate::slt, key, i32(schedule.getBlockK())));
        return SmallVector<Value>{live, dead};
      });
  return {elements[0], elements[1]};
}

KeyListKernel::RowBlock KeyListKernel::listedBlock(Value tile, bool ragged) {
  KeyTile keyTile{mul(toIndex(tile), index(schedule.getBlockK())),
                  /*masked=*/true};
  keyTile.ragged = ragged || keyCols() != schedule.getBlockK();
  RowBlock block(keyTile);
  block.firstRow = row0;
  prepare(block);
  return block;
}

/// Whether a key has an element that is true, among all rows.
Value KeyListKernel::someOfRows(Value elements) {
  Value no = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 0);
  return reduce(elements, no, /*ordered=*/false,
                [&](ValueRange x, ValueRange y) -> SmallVector<Value> {
                  return {arith::OrIOp::create(b, loc, x[0], y[0])};
                })
      .front();
}

/// What keys with live and with dead elements make of their tile.
KeyListKernel::ListedElements KeyListKernel::countKeys(Value live, Value dead) {
  int64_t numWords = llvm::divideCeil(keyCols(), 32);
  SmallVector<Type> types(2 * numWords, b.getI32Type());
  auto bits = tile::BitsOp::create(b, loc, types, ValueRange{live, dead});
  auto any = [&](ValueRange words) {
    Value all = words.front();
    for (Value word : words.drop_front())
      all = arith::OrIOp::create(b, loc, all, word);
    return cmp(arith::CmpIPredicate::ne, all, i32(0));
  };
  ValueRange words = bits.getWords();
  return {llvm::to_vector(words.take_front(numWords)),
          any(words.take_front(numWords)), any(words.drop_front(numWords))};
}

void KeyListKernel::storeWords(const KeyLists &into, Value place,
                               ArrayRef<Value> words) {
  for (auto [w, word] : llvm::enumerate(words))
    memref::StoreOp::create(b, loc, word, into.words,
                            {batch, head, queryTile, place, index(w)});
}

SmallVector<Value> KeyListKernel::listMasked(const KeyLists &into, Value tile,
                                             ValueRange counts) {
  Value place = listPlace(into.tiles, toIndex(counts[0]), /*whole=*/false);
  memref::StoreOp::create(b, loc, tile, into.tiles,
                          {batch, head, queryTile, place});
  return {add(counts[0], i32(1)), counts[1]};
}

/// Lists a tile as its elements are.
SmallVector<Value> KeyListKernel::listByElements(const KeyLists &into,
                                                 Value tile, bool ragged,
                                                 ValueRange counts) {
  RowBlock block = listedBlock(tile, ragged);
  auto [live, dead] =
      evaluateRows(block, /*first=*/Value(), schedule.getBlockQ());
  ListedElements found = countKeys(someOfRows(live), someOfRows(dead));
  return stepIf(
      found.someLive, counts,
      [&] {
        return stepIf(
            found.someDead, counts,
            [&] {
              storeWords(into, toIndex(counts[0]), found.words);
              return listMasked(into, tile, counts);
            },
            [&]() -> SmallVector<Value> {
              return {counts[0], listWhole(into, tile, counts[1])};
            });
      },
      nullptr);
}

Value KeyListKernel::loadClass(const KeyLists &from, Value tile) {
  return memref::LoadOp::create(b, loc, from.classes,
                                {batch, head, queryTile, toIndex(tile)});
}

/// Lists a masked tile if it is one, as its class says.
SmallVector<Value> KeyListKernel::listByClass(const KeyLists &into, Value tile,
                                              ValueRange counts) {
  Value isMasked = cmp(arith::CmpIPredicate::eq, loadClass(into, tile),
                       i32(KeyLists::masked));
  return stepIf(
      isMasked, counts, [&] { return listMasked(into, tile, counts); },
      nullptr);
}

/// Finds out where a block of a kernel around lists works; it has one of
/// `keyTiles` tiles of the keys as its part.
KeyListKernel::ListedRange KeyListKernel::locateListed(const KeyLists &into,
                                                       Value numTiles,
                                                       Value block,
                                                       Value keyTiles) {
  auto work = tile::WorkTileOp::create(b, loc, block, dim(into.tiles, 0),
                                       dim(into.tiles, 1), numTiles, keyTiles);
  batch = work.getBatch();
  head = work.getHead();
  queryTile = work.getTile();
  split = work.getPart();
  batchI32 = toI32(batch);
  headI32 = toI32(head);
  rowSource = bound(reduction.getQuerySource());
  keySource = bound(reduction.getKeySource());
  findExtents();
  keyEnd = numKeys;
  Value blockQ = index(schedule.getBlockQ());
  Value blockK = index(schedule.getBlockK());
  if (packsHeads) {
    // Of any key head: the mask reads no head.
    Value numHeads = dim(arg(reduction.getQueryOperands().front()), 1);
    Value numKeyHeads = dim(arg(reduction.getKeyOperands().front()), 1);
    keyHead = index(0);
    locatePacked(divide(numHeads, max(numKeyHeads, index(1))).first);
  } else {
    row0 = mul(queryTile, blockQ);
    liveRows = min(blockQ, sub(sq, row0));
  }
  uniformPoint = index(0).getDefiningOp();
  readMask();
  ListedRange range;
  std::tie(range.firstRow, range.lastRow) = tilePositions();
  auto bounds = mask->emitBounds(b, loc, maskUniform, range.firstRow,
                                 range.lastRow, numKeys);
  Value upper = min(bounds.upper, numKeys);
  upper = select(cmp(arith::CmpIPredicate::slt, bounds.lower, upper), upper,
                 index(0));
  range.first = arith::DivUIOp::create(b, loc, bounds.lower, blockK);
  range.end = arith::CeilDivUIOp::create(b, loc, upper, blockK);
  range.endWhole =
      min(range.end, arith::DivUIOp::create(b, loc, numKeys, blockK));
  return range;
}

void KeyListKernel::buildClasses(const KeyLists &into, Value numTiles,
                                 Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  ListedRange range = locateListed(into, numTiles, block, dim(into.classes, 3));
  Value none = i32(KeyLists::dead), number = split;
  Value exists = arith::AndIOp::create(
      b, loc, cmp(arith::CmpIPredicate::sge, number, range.first),
      cmp(arith::CmpIPredicate::slt, number, range.end));
  auto storeMasked = [&](const ListedElements &found) -> SmallVector<Value> {
    storeWords(into, number, found.words);
    return {i32(KeyLists::masked)};
  };
  // Some rows at a time, so that blocks have the registers to run side by side.
  // Bits are written whatever the tile is: who reads them knows.
  auto evaluate = [&] {
    constexpr int64_t rows = 32;
    RowBlock block = listedBlock(toI32(number), /*ragged=*/true);
    auto type = tileType(keyCols(), 1, b.getI1Type());
    Value none =
        fill(arith::ConstantIntOp::create(b, loc, b.getI1Type(), 0), type);
    auto loop =
        scf::ForOp::create(b, loc, index(0), index(schedule.getBlockQ()),
                           index(rows), ValueRange{none, none});
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value first = loop.getInductionVar();
    auto [live, dead] = evaluateRows(block, toI32(first), rows);
    tile::StoreBitsOp::create(b, loc, live, into.bits,
                              {batch, head, queryTile, number}, index(0),
                              first);
    auto either = [&](Value all, Value elements) {
      return map({all, someOfRows(elements)}, type,
                 [&](Value, Value, ValueRange x) -> SmallVector<Value> {
                   return {arith::OrIOp::create(b, loc, x[0], x[1])};
                 })
          .front();
    };
    SmallVector<Value> next = {either(loop.getRegionIterArg(0), live),
                               either(loop.getRegionIterArg(1), dead)};
    scf::YieldOp::create(b, loc, next);
    b.setInsertionPointAfter(loop);
    return countKeys(loop.getResult(0), loop.getResult(1));
  };
  SmallVector<Value> kind = stepIf(
      exists, none,
      [&] {
        ListedElements found = evaluate();
        return stepIf(
            found.someLive, none,
            [&] {
              return stepIf(
                  found.someDead, none, [&] { return storeMasked(found); },
                  [&] { return SmallVector<Value>{i32(KeyLists::whole)}; });
            },
            nullptr);
      },
      nullptr);
  memref::StoreOp::create(b, loc, kind.front(), into.classes,
                          {batch, head, queryTile, number});
  tile::ReturnOp::create(b, loc);
}

/// Which of the tiles from number `first` on, as many as a tile has columns,
/// are whole, and which may be masked: a word for each 32 of them, of either
/// kind.
SmallVector<Value> KeyListKernel::classify(const KeyLists &into,
                                           const ListedRange &range,
                                           Value first) {
  // What is read of the rows is the same for all keys. It is read beside what
  // is read of the keys, of which most problems have one lot.
  SmallVector<Value> inputs;
  for (auto sample : mask->getSamples()) {
    if (into.bits)
      break;
    auto [least, greatest] =
        sampleRange(sample, first, sub(range.endWhole, index(1)));
    inputs.append({least, greatest});
  }
  Value firstI32 = toI32(first), end = toI32(range.endWhole);
  auto type = tileType(keyCols(), 1, b.getI1Type());
  auto both = [&](Value x, Value y) -> Value {
    return arith::AndIOp::create(b, loc, x, y);
  };
  SmallVector<Value> classes =
      map(inputs, {type, type}, [&](Value row, Value, ValueRange x) {
        Value tile = add(firstI32, row);
        Value exists = cmp(arith::CmpIPredicate::slt, tile, end);
        tile = min(tile, sub(end, i32(1)));
        if (into.bits) {
          Value kind = loadClass(into, tile);
          auto is = [&](int64_t which) {
            return both(exists,
                        cmp(arith::CmpIPredicate::eq, kind, i32(which)));
          };
          return SmallVector<Value>{is(KeyLists::whole), is(KeyLists::masked)};
        }
        Value key = mul(tile, i32(schedule.getBlockK()));
        Value last = add(key, i32(schedule.getBlockK() - 1));
        auto sample = [&](Value value) {
          for (auto [i, s] : llvm::enumerate(mask->getSamples()))
            if (s.value == value)
              return std::pair(x[2 * i], x[2 * i + 1]);
          llvm_unreachable("a sample that was not noted");
        };
        ::attn::MaskAnalysis::CellFn cell = [&](Value value) {
          return cellAt(value, range.firstRow, toIndex(key));
        };
        if (packsHeads)
          cell = nullptr;
        auto found =
            mask->emitBoxClass(b, loc, maskUniform, sample, range.firstRow,
                               range.lastRow, key, last, cell);
        Value whole = both(found.full, exists);
        Value yes = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 1);
        Value settled = arith::OrIOp::create(b, loc, whole, found.dead);
        Value open = arith::XOrIOp::create(b, loc, settled, yes);
        return SmallVector<Value>{whole, both(open, exists)};
      });
  int64_t numWords = llvm::divideCeil(keyCols(), 32);
  SmallVector<Type> types(2 * numWords, b.getI32Type());
  return tile::BitsOp::create(b, loc, types, classes).getWords();
}

/// Lists the tiles of both kinds that `words` has, from number `first` on.
SmallVector<Value> KeyListKernel::listWords(const KeyLists &into, Value first,
                                            ValueRange words,
                                            ValueRange counts) {
  size_t numWords = words.size() / 2;
  // One body for the words of all 32 tiles.
  auto loop =
      scf::ForOp::create(b, loc, index(0), index(numWords), index(1), counts);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value w = toI32(loop.getInductionVar());
  auto pick = [&](ValueRange from) {
    Value word = from.front();
    for (auto [i, other] : llvm::enumerate(from.drop_front()))
      word = select(cmp(arith::CmpIPredicate::eq, w, i32(i + 1)), other, word);
    return word;
  };
  Value base = add(toI32(first), mul(w, i32(32)));
  SmallVector<Value> next(loop.getRegionIterArgs());
  next[1] = forBits(pick(words.take_front(numWords)), next[1],
                    [&](Value place, ValueRange whole) {
                      return SmallVector<Value>{
                          listWhole(into, add(base, place), whole.front())};
                    })
                .front();
  next = forBits(pick(words.drop_front(numWords)), next,
                 [&](Value place, ValueRange counts) {
                   Value tile = add(base, place);
                   return into.bits ? listMasked(into, tile, counts)
                                    : listByElements(into, tile,
                                                     /*ragged=*/false, counts);
                 });
  scf::YieldOp::create(b, loc, next);
  return loop.getResults();
}

void KeyListKernel::buildLists(const KeyLists &into, Value numTiles,
                               Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  ListedRange range = locateListed(into, numTiles, block, index(1));

  // A ragged tile has keys that no mask speaks of. It comes first: later ones
  // then need no test for the end of the keys.
  SmallVector<Value> start = {i32(0), i32(0)};
  Value ragged = toI32(range.endWhole);
  start = stepIf(
      cmp(arith::CmpIPredicate::slt, range.endWhole, range.end), start,
      [&] {
        return into.bits ? listByClass(into, ragged, start)
                         : listByElements(into, ragged, /*ragged=*/true, start);
      },
      nullptr);

  auto chunks = scf::ForOp::create(b, loc, range.first, range.endWhole,
                                   index(keyCols()), start);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(chunks.getBody());
    Value first = chunks.getInductionVar();
    SmallVector<Value> words = classify(into, range, first);
    scf::YieldOp::create(
        b, loc, listWords(into, first, words, chunks.getRegionIterArgs()));
  }
  for (int64_t which : {0, 1})
    memref::StoreOp::create(b, loc, chunks.getResult(which), into.tiles,
                            {batch, head, queryTile, index(which)});
  tile::ReturnOp::create(b, loc);
}
