//===- KeyLists.cpp - Kernels that list key tiles -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A mask that reads memory has live tiles anywhere. One kernel says what each
// tile is, with some blocks for each query tile: keys by the tile and what the
// mask reads of them, least and greatest, decide many tiles at a time
// (`MaskAnalysis::Sample`), and what is left is evaluated element by element.
// Tiles that are left lie side by side, so a block has every eighth. The next
// kernel, with one block for each query tile, makes the lists.
//
// Where the mask reads a tensor of pairs nothing is settled but by its
// elements. The first kernel has a block for each tile then. Elements of such a
// mask, and of one that takes more than a few operations, become bits, once for
// all heads that the mask does not tell apart: what the reduction reads.
//
// How long a query tile takes the lists say. Where the schedule takes the
// longest first, a last kernel, with one block for each query tile again,
// counts those that take longer: as many come before it.
//
//===----------------------------------------------------------------------===//

#include "KeyLists.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

/// The least and the greatest of a sample: over the keys of a tile for each
/// row, or over the rows of the query tile in every row.
std::pair<Value, Value>
KeyListKernel::sampleRange(::attn::MaskAnalysis::Sample sample, Value first,
                           Value last) {
  int64_t rows = keyCols();
  int64_t cols = sample.onKey ? rows : schedule.getBlockQ();
  Type type = sample.value.getType();
  Value zero = i32(0);
  Value firstRow = rowBase(row0), lastLive = toI32(sub(liveRows, index(1)));
  Value read =
      map({}, tileType(rows, cols, b.getI32Type()),
          [&](Value r, Value c, ValueRange) {
            Value row = sample.onKey ? zero : min(c, lastLive);
            Point point = rowPoint(firstRow, row, lastRow());
            point.key = point.safeKey = zero;
            if (sample.onKey) {
              Value tile = min(nthTile(first, r), last);
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

/// What the elements of a tile say, some rows at a time, so that blocks have
/// the registers to run side by side. Bits are written whatever the tile is:
/// who reads them knows.
KeyListKernel::ListedElements KeyListKernel::evaluate(const KeyLists &into,
                                                      Value number) {
  constexpr int64_t rows = 32;
  RowBlock block = listedBlock(toI32(number), /*ragged=*/true);
  auto type = tileType(keyCols(), 1, b.getI1Type());
  Value none =
      fill(arith::ConstantIntOp::create(b, loc, b.getI1Type(), 0), type);
  auto loop = scf::ForOp::create(b, loc, index(0), index(schedule.getBlockQ()),
                                 index(rows), ValueRange{none, none});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value first = loop.getInductionVar();
  auto [live, dead] = evaluateRows(block, toI32(first), rows);
  if (into.bits) {
    auto store = [&]() -> SmallVector<Value> {
      tile::StoreBitsOp::create(b, loc, live, into.bits,
                                {batch, head, queryTile, number}, index(0),
                                first);
      return {};
    };
    if (readsPairs(reduction))
      store();
    else // Where this run has room for them.
      stepIf(cmp(arith::CmpIPredicate::slt, number, dim(into.bits, 3)), {},
             store, nullptr);
  }
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
}

/// The class of a tile as its elements are; of a masked one its words, too.
Value KeyListKernel::classOfElements(const KeyLists &into, Value number) {
  ListedElements found = evaluate(into, number);
  return stepIf(
             found.someLive, i32(KeyLists::dead),
             [&] {
               return stepIf(
                   found.someDead, i32(KeyLists::whole),
                   [&]() -> SmallVector<Value> {
                     storeWords(into, number, found.words);
                     return {i32(KeyLists::masked)};
                   },
                   nullptr);
             },
             nullptr)
      .front();
}

void KeyListKernel::storeClass(const KeyLists &into, Value number, Value kind) {
  memref::StoreOp::create(b, loc, kind, into.classes,
                          {batch, head, queryTile, number});
}

void KeyListKernel::buildClasses(const KeyLists &into, Value numTiles,
                                 Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  if (readsPairs(reduction)) {
    ListedRange range =
        locateListed(into, numTiles, block, dim(into.classes, 3));
    Value exists = arith::AndIOp::create(
        b, loc, cmp(arith::CmpIPredicate::sge, split, range.first),
        cmp(arith::CmpIPredicate::slt, split, range.end));
    SmallVector<Value> kind = stepIf(
        exists, i32(KeyLists::dead),
        [&] { return SmallVector<Value>{classOfElements(into, split)}; },
        nullptr);
    storeClass(into, split, kind.front());
    tile::ReturnOp::create(b, loc);
    return;
  }
  parts = KeyLists::parts;
  ListedRange range = locateListed(into, numTiles, block, index(parts));
  auto storeOpen = [&](Value number) {
    storeClass(into, number, classOfElements(into, number));
  };
  // A ragged tile has keys that no mask speaks of.
  Value rest = arith::RemUIOp::create(b, loc, range.endWhole, index(parts));
  Value hasRagged = arith::AndIOp::create(
      b, loc, cmp(arith::CmpIPredicate::slt, range.endWhole, range.end),
      cmp(arith::CmpIPredicate::eq, rest, split));
  stepIf(
      hasRagged, {},
      [&]() -> SmallVector<Value> {
        storeOpen(range.endWhole);
        return {};
      },
      nullptr);
  auto chunks = scf::ForOp::create(b, loc, add(range.first, split),
                                   range.endWhole, index(parts * keyCols()));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(chunks.getBody());
  Value first = toI32(chunks.getInductionVar());
  SmallVector<Value> words = classifyByAnalysis(range, first);
  forWords(words, 2, {}, [&](Value w, ValueRange word, ValueRange) {
    Value base = nthTile(first, mul(w, i32(32)));
    auto store = [&](Value bits, function_ref<void(Value)> body) {
      forBits(bits, {}, [&](Value place, ValueRange) -> SmallVector<Value> {
        body(toIndex(nthTile(base, place)));
        return {};
      });
    };
    auto settled = [&](Value bits, int64_t kind) {
      store(bits, [&](Value number) { storeClass(into, number, i32(kind)); });
    };
    auto without = [&](Value x, Value y) -> Value {
      return arith::AndIOp::create(b, loc, x,
                                   arith::XOrIOp::create(b, loc, y, i32(-1)));
    };
    settled(without(word[0], word[1]), KeyLists::whole);
    settled(arith::AndIOp::create(b, loc, word[0], word[1]), KeyLists::dead);
    store(without(word[1], word[0]), storeOpen);
    return SmallVector<Value>();
  });
  b.setInsertionPointAfter(chunks);
  tile::ReturnOp::create(b, loc);
}

/// Words of the classes of tiles, as many as a tile has columns: 32 of them
/// each, and words of one kind after those of the one before.
SmallVector<Value> KeyListKernel::classWords(ValueRange classes) {
  int64_t numWords = llvm::divideCeil(keyCols(), 32);
  SmallVector<Type> types(classes.size() * numWords, b.getI32Type());
  return tile::BitsOp::create(b, loc, types, classes).getWords();
}

/// Which tiles from number `first` on, every one of `parts`, are whole, dead,
/// or neither as far as the analysis sees.
SmallVector<Value> KeyListKernel::classifyByAnalysis(const ListedRange &range,
                                                     Value first) {
  // What is read of the rows is the same for all keys. It is read beside what
  // is read of the keys, of which most problems have one lot.
  SmallVector<Value> inputs;
  Value end = toI32(range.endWhole), lastTile = sub(end, i32(1));
  for (auto sample : mask->getSamples()) {
    auto [least, greatest] = sampleRange(sample, first, lastTile);
    inputs.append({least, greatest});
  }
  auto both = [&](Value x, Value y) -> Value {
    return arith::AndIOp::create(b, loc, x, y);
  };
  auto type = tileType(keyCols(), 1, b.getI1Type());
  return classWords(
      map(inputs, {type, type}, [&](Value row, Value, ValueRange x) {
        Value tile = nthTile(first, row);
        Value exists = cmp(arith::CmpIPredicate::slt, tile, end);
        Value key = mul(min(tile, lastTile), i32(schedule.getBlockK()));
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
        Value yes = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 1);
        Value settled = arith::OrIOp::create(b, loc, found.full, found.dead);
        Value open = arith::XOrIOp::create(b, loc, settled, yes);
        Value some = arith::OrIOp::create(b, loc, open, found.dead);
        return SmallVector<Value>{both(settled, exists), both(some, exists)};
      }));
}

/// Which tiles from number `first` on are whole, and which masked.
SmallVector<Value> KeyListKernel::readClasses(const KeyLists &from,
                                              const ListedRange &range,
                                              Value first) {
  Value end = toI32(range.endWhole);
  auto type = tileType(keyCols(), 1, b.getI1Type());
  return classWords(map({}, {type, type}, [&](Value row, Value, ValueRange) {
    Value tile = add(first, row);
    Value exists = cmp(arith::CmpIPredicate::slt, tile, end);
    Value kind = loadClass(from, min(tile, sub(end, i32(1))));
    auto is = [&](int64_t which) -> Value {
      return arith::AndIOp::create(
          b, loc, exists, cmp(arith::CmpIPredicate::eq, kind, i32(which)));
    };
    return SmallVector<Value>{is(KeyLists::whole), is(KeyLists::masked)};
  }));
}

/// Runs `body` on the number of each word and the words of all `kinds`: there
/// is one body for the words of all 32 tiles.
SmallVector<Value> KeyListKernel::forWords(
    ValueRange words, size_t kinds, ValueRange carried,
    function_ref<SmallVector<Value>(Value, ValueRange, ValueRange)> body) {
  size_t numWords = words.size() / kinds;
  auto loop =
      scf::ForOp::create(b, loc, index(0), index(numWords), index(1), carried);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value w = toI32(loop.getInductionVar());
  SmallVector<Value> picked;
  for (size_t kind = 0; kind < kinds; ++kind) {
    ValueRange from = words.slice(kind * numWords, numWords);
    Value word = from.front();
    for (auto [i, other] : llvm::enumerate(from.drop_front()))
      word = select(cmp(arith::CmpIPredicate::eq, w, i32(i + 1)), other, word);
    picked.push_back(word);
  }
  SmallVector<Value> next = body(w, picked, loop.getRegionIterArgs());
  if (!carried.empty())
    scf::YieldOp::create(b, loc, next);
  return SmallVector<Value>(loop.getResults());
}

void KeyListKernel::buildLists(const KeyLists &into, Value numTiles,
                               Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  ListedRange range = locateListed(into, numTiles, block, index(1));

  // A ragged tile comes first: later ones then need no test for the end of the
  // keys.
  SmallVector<Value> start = {i32(0), i32(0)};
  Value ragged = toI32(range.endWhole);
  start = stepIf(
      cmp(arith::CmpIPredicate::slt, range.endWhole, range.end), start,
      [&] { return listByClass(into, ragged, start); }, nullptr);

  auto chunks = scf::ForOp::create(b, loc, range.first, range.endWhole,
                                   index(keyCols()), start);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(chunks.getBody());
    Value first = toI32(chunks.getInductionVar());
    SmallVector<Value> counts = forWords(
        readClasses(into, range, first), 2, chunks.getRegionIterArgs(),
        [&](Value w, ValueRange word, ValueRange counts) {
          Value base = add(first, mul(w, i32(32)));
          SmallVector<Value> next(counts);
          next[1] =
              forBits(word[0], next[1], [&](Value place, ValueRange whole) {
                return SmallVector<Value>{
                    listWhole(into, add(base, place), whole.front())};
              }).front();
          return forBits(word[1], next, [&](Value place, ValueRange counts) {
            return listMasked(into, add(base, place), counts);
          });
        });
    scf::YieldOp::create(b, loc, counts);
  }
  for (int64_t which : {KeyLists::masks, KeyLists::wholes})
    memref::StoreOp::create(b, loc, chunks.getResult(which), into.tiles,
                            {batch, head, queryTile, index(which)});
  tile::ReturnOp::create(b, loc);
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// How long a query tile takes, i32, in halves of a whole tile: one that is
/// tested takes about as long as one and a half (measured: docs/performance).
Value KeyListKernel::loadLength(const KeyLists &from, Value tile) {
  constexpr int64_t ofMasked = 3, ofWhole = 2;
  auto count = [&](int64_t which) -> Value {
    return memref::LoadOp::create(b, loc, from.tiles,
                                  {batch, head, toIndex(tile), index(which)});
  };
  return add(mul(count(KeyLists::masks), i32(ofMasked)),
             mul(count(KeyLists::wholes), i32(ofWhole)));
}

void KeyListKernel::buildOrder(const KeyLists &into, Value numTiles,
                               Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  auto work = tile::WorkTileOp::create(b, loc, block, dim(into.tiles, 0),
                                       dim(into.tiles, 1), numTiles, index(1));
  batch = work.getBatch();
  head = work.getHead();
  queryTile = work.getTile();
  Value own = toI32(queryTile), length = loadLength(into, own);
  Value last = toI32(sub(numTiles, index(1)));
  auto chunks = scf::ForOp::create(b, loc, index(0), numTiles, index(keyCols()),
                                   ValueRange{i32(0)});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(chunks.getBody());
    Value first = toI32(chunks.getInductionVar());
    auto type = tileType(keyCols(), 1, b.getI1Type());
    auto longer = map({}, type, [&](Value row, Value, ValueRange) {
      using Predicate = arith::CmpIPredicate;
      Value other = add(first, row);
      Value its = loadLength(into, min(other, last));
      // Of tiles that take as long, the last ones come first.
      Value isBefore = arith::OrIOp::create(
          b, loc, cmp(Predicate::sgt, its, length),
          arith::AndIOp::create(b, loc, cmp(Predicate::eq, its, length),
                                cmp(Predicate::sgt, other, own)));
      return SmallVector<Value>{arith::AndIOp::create(
          b, loc, isBefore, cmp(Predicate::sle, other, last))};
    });
    Value before = chunks.getRegionIterArg(0);
    for (Value word : classWords(longer))
      before = add(before, math::CtPopOp::create(b, loc, word));
    scf::YieldOp::create(b, loc, before);
  }
  memref::StoreOp::create(
      b, loc, own, into.tiles,
      {batch, head, toIndex(chunks.getResult(0)), index(KeyLists::nthLongest)});
  tile::ReturnOp::create(b, loc);
}
