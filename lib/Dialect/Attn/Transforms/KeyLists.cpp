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
// Tiles that are left lie side by side, so a block has every eighth. A tensor
// that is small is looked through first: where no element of a table is -inf
// there is no tile to evaluate for it. The next
// kernel, with one block for each query tile, makes the lists.
//
// Where the mask reads a tensor of pairs, its elements settle most tiles. The
// first kernel has a block for each tile then. Elements of such a mask, and of
// one that takes more than a few operations, become bits, once for all heads
// that the mask does not tell apart: what the reduction reads.
//
// How long a query tile takes the lists say. Where the schedule takes the
// longest first, a last kernel, with one block for each query tile again,
// counts those that take longer: as many come before it.
//
//===----------------------------------------------------------------------===//

#include "KeyLists.h"
#include "TileBlock.h"
#include "TileElements.h"
#include "TileLists.h"
#include "TileSteps.h"
#include "TileStream.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;

namespace {

/// Positions of the rows; key tiles that may have live elements, and where
/// those end that are not ragged.
struct ListedRange {
  Value firstRow, lastRow, first, end, endWhole;
};

/// Words of the keys of a tile that are live in some row; whether some element
/// is live, and some dead.
struct ListedElements {
  SmallVector<Value> words;
  Value someLive, someDead;
};

} // namespace

/// The number of the block's n-th tile from `first` on, i32.
static Value nthTile(KeyListContext &ctx, Value first, Value n) {
  return ctx.add(first, ctx.mul(n, ctx.i32(ctx.stride)));
}

/// The least and the greatest of a sample: over the keys of a tile for each
/// row, or over the rows of the query tile in every row.
static std::pair<Value, Value> sampleRange(KeyListContext &ctx,
                                           ::attn::MaskAnalysis::Sample sample,
                                           Value first, Value last) {
  int64_t rows = keyCols(ctx);
  int64_t cols = sample.onKey ? rows : ctx.schedule.getBlockQ();
  Type type = sample.value.getType();
  Value zero = ctx.i32(0);
  Value firstRow = ctx.rowBase(ctx.row0),
        lastLive = ctx.toI32(ctx.sub(ctx.liveRows, ctx.index(1)));
  Value read =
      ctx.map({}, ctx.tileType(rows, cols, ctx.b.getI32Type()),
              [&](Value r, Value c, ValueRange) {
                Value row = sample.onKey ? zero : ctx.min(c, lastLive);
                Point point = ctx.rowPoint(firstRow, row, ctx.lastRow());
                point.key = point.safeKey = zero;
                if (sample.onKey) {
                  Value tile = ctx.min(nthTile(ctx, first, r), last);
                  Value within =
                      ctx.min(c, ctx.i32(ctx.schedule.getBlockK() - 1));
                  Value key = ctx.add(
                      ctx.mul(tile, ctx.i32(ctx.schedule.getBlockK())), within);
                  point.key = point.safeKey = key;
                }
                PointCloner cloner(ctx, ctx.reduction.getMaskBody(), 0,
                                   /*hasKey=*/true,
                                   ctx.reduction.getCaptureOperands(), point);
                Value value = cloner.get(sample.value);
                if (type.isInteger(1))
                  value =
                      arith::ExtUIOp::create(ctx.b, ctx.b.getI32Type(), value);
                else if (!type.isInteger(32))
                  value =
                      arith::ExtSIOp::create(ctx.b, ctx.b.getI32Type(), value);
                return SmallVector<Value>{value};
              })
          .front();
  auto extreme = [&](int64_t identity, bool least) {
    return ctx
        .reduce(read, ctx.i32(identity), /*ordered=*/false,
                [&](ValueRange x, ValueRange y) -> SmallVector<Value> {
                  return {least ? ctx.min(x[0], y[0]) : ctx.max(x[0], y[0])};
                })
        .front();
  };
  return {extreme(std::numeric_limits<int32_t>::max(), /*least=*/true),
          extreme(std::numeric_limits<int32_t>::min(), /*least=*/false)};
}

/// Runs `body` on the place of each bit that is set, from the lowest on.
static SmallVector<Value>
forBits(KeyListContext &ctx, Value bits, ValueRange carried,
        function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  SmallVector<Value> initial = {bits};
  llvm::append_range(initial, carried);
  auto loop = scf::ForOp::create(
      ctx.b, ctx.index(0), ctx.toIndex(math::CtPopOp::create(ctx.b, bits)),
      ctx.index(1), initial);
  OpBuilder::InsertionGuard guard(ctx.b);
  ctx.b.setInsertionPointToStart(loop.getBody());
  Value rest = loop.getRegionIterArg(0), one = ctx.i32(1);
  Value below = ctx.sub(rest, one);
  // The zeros below the lowest bit: ~x & (x - 1).
  Value zeros = arith::AndIOp::create(
      ctx.b, arith::XOrIOp::create(ctx.b, rest, ctx.i32(-1)), below);
  SmallVector<Value> next = {arith::AndIOp::create(ctx.b, rest, below)};
  llvm::append_range(next, body(math::CtPopOp::create(ctx.b, zeros),
                                loop.getRegionIterArgs().drop_front()));
  scf::YieldOp::create(ctx.b, next);
  return SmallVector<Value>(loop.getResults().drop_front());
}

static Value listWhole(KeyListContext &ctx, const KeyLists &into, Value tile,
                       Value whole) {
  Value place = listPlace(ctx, into.tiles, ctx.toIndex(whole), /*whole=*/true);
  memref::StoreOp::create(ctx.b, tile, into.tiles,
                          {ctx.batch, ctx.head, ctx.queryTile, place});
  return ctx.add(whole, ctx.i32(1));
}

/// Keys by rows, `count` of these from `first` on: whether elements are live,
/// and whether they are dead. Keys are rows here, of which each thread has few,
/// and rows are columns.
static std::pair<Value, Value>
evaluateRows(KeyListContext &ctx, RowBlock &block, Value first, int64_t count) {
  Type i1 = ctx.b.getI1Type();
  Value lastRow = ctx.toI32(ctx.sub(ctx.liveRows, ctx.index(1)));
  Value yes = arith::ConstantIntOp::create(ctx.b, i1, 1);
  auto type = ctx.tileType(keyCols(ctx), count, i1);
  SmallVector<Value> elements =
      ctx.map({}, {type, type}, [&](Value key, Value row, ValueRange) {
        // Rows beyond the last stand for it.
        if (first)
          row = ctx.add(row, first);
        Value live = liveByMask(ctx, block, ctx.min(row, lastRow), key);
        Value dead = arith::XOrIOp::create(ctx.b, live, yes);
        if (keyCols(ctx) != ctx.schedule.getBlockK())
          dead =
              arith::AndIOp::create(ctx.b, dead,
                                    ctx.cmp(arith::CmpIPredicate::slt, key,
                                            ctx.i32(ctx.schedule.getBlockK())));
        return SmallVector<Value>{live, dead};
      });
  return {elements[0], elements[1]};
}

static RowBlock listedBlock(KeyListContext &ctx, Value tile, bool ragged) {
  KeyTile keyTile{
      ctx.mul(ctx.toIndex(tile), ctx.index(ctx.schedule.getBlockK())),
      /*masked=*/true};
  keyTile.ragged = ragged || keyCols(ctx) != ctx.schedule.getBlockK();
  RowBlock block(keyTile);
  block.firstRow = ctx.row0;
  prepare(ctx, block);
  return block;
}

/// Whether a key has an element that is true, among all rows.
static Value someOfRows(KeyListContext &ctx, Value elements) {
  Value no = arith::ConstantIntOp::create(ctx.b, ctx.b.getI1Type(), 0);
  return ctx
      .reduce(elements, no, /*ordered=*/false,
              [&](ValueRange x, ValueRange y) -> SmallVector<Value> {
                return {arith::OrIOp::create(ctx.b, x[0], y[0])};
              })
      .front();
}

/// Truths of keys, one or the other.
static Value eitherOf(KeyListContext &ctx, Value x, Value y) {
  return ctx
      .map({x, y}, cast<tile::TileType>(x.getType()),
           [&](Value, Value, ValueRange of) -> SmallVector<Value> {
             return {arith::OrIOp::create(ctx.b, of[0], of[1])};
           })
      .front();
}

/// What keys with live and with dead elements make of their tile.
static ListedElements countKeys(KeyListContext &ctx, Value live, Value dead) {
  int64_t numWords = llvm::divideCeil(keyCols(ctx), 32);
  SmallVector<Type> types(2 * numWords, ctx.b.getI32Type());
  auto bits = tile::BitsOp::create(ctx.b, types, ValueRange{live, dead});
  auto any = [&](ValueRange words) {
    Value all = words.front();
    for (Value word : words.drop_front())
      all = arith::OrIOp::create(ctx.b, all, word);
    return ctx.cmp(arith::CmpIPredicate::ne, all, ctx.i32(0));
  };
  ValueRange words = bits.getWords();
  return {llvm::to_vector(words.take_front(numWords)),
          any(words.take_front(numWords)), any(words.drop_front(numWords))};
}

static void storeWords(KeyListContext &ctx, const KeyLists &into, Value place,
                       ArrayRef<Value> words) {
  for (auto [w, word] : llvm::enumerate(words))
    memref::StoreOp::create(
        ctx.b, word, into.words,
        {ctx.batch, ctx.head, ctx.queryTile, place, ctx.index(w)});
}

static SmallVector<Value> listMasked(KeyListContext &ctx, const KeyLists &into,
                                     Value tile, ValueRange counts) {
  Value place =
      listPlace(ctx, into.tiles, ctx.toIndex(counts[0]), /*whole=*/false);
  memref::StoreOp::create(ctx.b, tile, into.tiles,
                          {ctx.batch, ctx.head, ctx.queryTile, place});
  return {ctx.add(counts[0], ctx.i32(1)), counts[1]};
}

static Value loadClass(KeyListContext &ctx, const KeyLists &from, Value tile) {
  return memref::LoadOp::create(
      ctx.b, from.classes,
      {ctx.batch, ctx.head, ctx.queryTile, ctx.toIndex(tile)});
}

/// Lists a masked tile if it is one, as its class says.
static SmallVector<Value> listByClass(KeyListContext &ctx, const KeyLists &into,
                                      Value tile, ValueRange counts) {
  Value isMasked = ctx.cmp(arith::CmpIPredicate::eq, loadClass(ctx, into, tile),
                           ctx.i32(KeyLists::masked));
  return stepIf(
      ctx, isMasked, counts,
      [&] { return listMasked(ctx, into, tile, counts); }, nullptr);
}

/// Finds out where a block of a kernel around lists works; it has one of
/// `keyTiles` tiles of the keys as its part.
static ListedRange locateListed(KeyListContext &ctx, const KeyLists &into,
                                Value numTiles, Value block, Value keyTiles) {
  auto work =
      tile::WorkTileOp::create(ctx.b, block, ctx.dim(into.tiles, 0),
                               ctx.dim(into.tiles, 1), numTiles, keyTiles);
  ctx.batch = work.getBatch();
  ctx.head = work.getHead();
  ctx.queryTile = work.getTile();
  ctx.split = work.getPart();
  ctx.batchI32 = ctx.toI32(ctx.batch);
  ctx.headI32 = ctx.toI32(ctx.head);
  ctx.rowSource = ctx.bound(ctx.reduction.getQuerySource());
  ctx.keySource = ctx.bound(ctx.reduction.getKeySource());
  findExtents(ctx);
  ctx.keyEnd = ctx.numKeys;
  Value blockQ = ctx.index(ctx.schedule.getBlockQ());
  Value blockK = ctx.index(ctx.schedule.getBlockK());
  if (ctx.packsHeads) {
    // Of any key head: the mask reads no head.
    Value numHeads =
        ctx.dim(ctx.arg(ctx.reduction.getQueryOperands().front()), 1);
    Value numKeyHeads =
        ctx.dim(ctx.arg(ctx.reduction.getKeyOperands().front()), 1);
    ctx.keyHead = ctx.index(0);
    locatePacked(
        ctx, ctx.divide(numHeads, ctx.max(numKeyHeads, ctx.index(1))).first);
  } else {
    ctx.row0 = ctx.mul(ctx.queryTile, blockQ);
    ctx.liveRows = ctx.min(blockQ, ctx.sub(ctx.sq, ctx.row0));
  }
  ctx.uniformPoint = ctx.index(0).getDefiningOp();
  readMask(ctx);
  ListedRange range;
  std::tie(range.firstRow, range.lastRow) = tilePositions(ctx);
  auto bounds =
      ctx.mask->emitBounds(ctx.b, ctx.loc, ctx.maskUniform, range.firstRow,
                           range.lastRow, ctx.numKeys);
  Value upper = ctx.min(bounds.upper, ctx.numKeys);
  upper = ctx.select(ctx.cmp(arith::CmpIPredicate::slt, bounds.lower, upper),
                     upper, ctx.index(0));
  range.first = arith::DivUIOp::create(ctx.b, bounds.lower, blockK);
  range.end = arith::CeilDivUIOp::create(ctx.b, upper, blockK);
  range.endWhole =
      ctx.min(range.end, arith::DivUIOp::create(ctx.b, ctx.numKeys, blockK));
  return range;
}

/// Which keys of a tile have live elements, and which dead ones, some rows at a
/// time, so that blocks have the registers to run side by side. Bits are
/// written whatever the tile is: who reads them knows.
static SmallVector<Value> evaluateTile(KeyListContext &ctx,
                                       const KeyLists &into, RowBlock &block,
                                       Value number, bool hasBits) {
  constexpr int64_t rows = 32;
  auto type = ctx.tileType(keyCols(ctx), 1, ctx.b.getI1Type());
  Value none =
      ctx.fill(arith::ConstantIntOp::create(ctx.b, ctx.b.getI1Type(), 0), type);
  auto loop = scf::ForOp::create(ctx.b, ctx.index(0),
                                 ctx.index(ctx.schedule.getBlockQ()),
                                 ctx.index(rows), ValueRange{none, none});
  OpBuilder::InsertionGuard guard(ctx.b);
  ctx.b.setInsertionPointToStart(loop.getBody());
  Value first = loop.getInductionVar();
  auto [live, dead] = evaluateRows(ctx, block, ctx.toI32(first), rows);
  if (hasBits)
    tile::StoreBitsOp::create(ctx.b, live, into.bits,
                              {ctx.batch, ctx.head, ctx.queryTile, number},
                              ctx.index(0), first);
  SmallVector<Value> next = {
      eitherOf(ctx, loop.getRegionIterArg(0), someOfRows(ctx, live)),
      eitherOf(ctx, loop.getRegionIterArg(1), someOfRows(ctx, dead))};
  scf::YieldOp::create(ctx.b, next);
  return loop.getResults();
}

/// What the elements of a tile say.
static ListedElements evaluate(KeyListContext &ctx, const KeyLists &into,
                               Value number) {
  RowBlock block = listedBlock(ctx, ctx.toI32(number), /*ragged=*/true);
  auto found = [&](bool hasBits) {
    return evaluateTile(ctx, into, block, number, hasBits);
  };
  if (!into.bits || readsPairs(ctx.reduction)) {
    SmallVector<Value> keys = found(/*hasBits=*/bool(into.bits));
    return countKeys(ctx, keys[0], keys[1]);
  }
  // Where this run has room for them. A loop for either case: truths of
  // elements that cross a branch are more than there are predicates.
  Value hasRoom =
      ctx.cmp(arith::CmpIPredicate::slt, number, ctx.dim(into.bits, 3));
  auto type = ctx.tileType(keyCols(ctx), 1, ctx.b.getI1Type());
  Value none =
      ctx.fill(arith::ConstantIntOp::create(ctx.b, ctx.b.getI1Type(), 0), type);
  SmallVector<Value> keys = stepIf(
      ctx, hasRoom, {none, none}, [&] { return found(true); },
      [&] { return found(false); });
  return countKeys(ctx, keys[0], keys[1]);
}

/// The class of a tile as its elements are; of a masked one its words, too.
static Value classOfElements(KeyListContext &ctx, const KeyLists &into,
                             Value number) {
  ListedElements found = evaluate(ctx, into, number);
  return stepIf(
             ctx, found.someLive, ctx.i32(KeyLists::dead),
             [&] {
               return stepIf(
                   ctx, found.someDead, ctx.i32(KeyLists::whole),
                   [&]() -> SmallVector<Value> {
                     storeWords(ctx, into, number, found.words);
                     return {ctx.i32(KeyLists::masked)};
                   },
                   nullptr);
             },
             nullptr)
      .front();
}

static void storeClass(KeyListContext &ctx, const KeyLists &into, Value number,
                       Value kind) {
  memref::StoreOp::create(ctx.b, kind, into.classes,
                          {ctx.batch, ctx.head, ctx.queryTile, number});
}

/// Runs `body` on the number of each word and the words of all `kinds`: there
/// is one body for the words of all 32 tiles.
static SmallVector<Value>
forWords(KeyListContext &ctx, ValueRange words, size_t kinds,
         ValueRange carried,
         function_ref<SmallVector<Value>(Value, ValueRange, ValueRange)> body) {
  size_t numWords = words.size() / kinds;
  auto loop = scf::ForOp::create(ctx.b, ctx.index(0), ctx.index(numWords),
                                 ctx.index(1), carried);
  OpBuilder::InsertionGuard guard(ctx.b);
  ctx.b.setInsertionPointToStart(loop.getBody());
  Value w = ctx.toI32(loop.getInductionVar());
  SmallVector<Value> picked;
  for (size_t kind = 0; kind < kinds; ++kind) {
    ValueRange from = words.slice(kind * numWords, numWords);
    Value word = from.front();
    for (auto [i, other] : llvm::enumerate(from.drop_front()))
      word = ctx.select(ctx.cmp(arith::CmpIPredicate::eq, w, ctx.i32(i + 1)),
                        other, word);
    picked.push_back(word);
  }
  SmallVector<Value> next = body(w, picked, loop.getRegionIterArgs());
  if (!carried.empty())
    scf::YieldOp::create(ctx.b, next);
  return SmallVector<Value>(loop.getResults());
}

/// Words of the classes of tiles, as many as a tile has columns: 32 of them
/// each, and words of one kind after those of the one before.
static SmallVector<Value> classWords(KeyListContext &ctx, ValueRange classes) {
  int64_t numWords = llvm::divideCeil(keyCols(ctx), 32);
  SmallVector<Type> types(classes.size() * numWords, ctx.b.getI32Type());
  return tile::BitsOp::create(ctx.b, types, classes).getWords();
}

using Answers = SmallVector<std::pair<Value, Value>>;

/// The least and the greatest of what the mask asks of elements of a tensor
/// that may be read: 0 and 1 where it has many.
static std::pair<Value, Value>
elementRange(KeyListContext &ctx, ::attn::MaskAnalysis::Element element) {
  constexpr int64_t most = 16384, cols = 8;
  Region &region = ctx.reduction.getMaskBody();
  ValueRange captures = ctx.reduction.getCaptureOperands();
  auto extract = cast<tensor::ExtractOp>(element.read);
  auto tensor = cast<BlockArgument>(extract.getTensor());
  size_t firstCapture = region.getNumArguments() - captures.size();
  Value memref = ctx.arg(captures[tensor.getArgNumber() - firstCapture]);
  // Batch and head are the block's; other indices may be anything.
  SmallVector<Value> indices, sizes;
  Value count = ctx.index(1);
  for (auto [d, index] : llvm::enumerate(extract.getIndices())) {
    auto cast = index.getDefiningOp<arith::IndexCastOp>();
    Value position = cast ? cast.getIn() : index;
    bool isBatch = position == region.getArgument(0);
    bool isHead = position == region.getArgument(1);
    indices.push_back(isBatch ? ctx.batch : isHead ? ctx.head : Value());
    sizes.push_back(indices.back() ? Value() : ctx.dim(memref, d));
    if (sizes.back())
      count = ctx.mul(count, sizes.back());
  }
  Value isSmall = arith::AndIOp::create(
      ctx.b, ctx.cmp(arith::CmpIPredicate::sgt, count, ctx.index(0)),
      ctx.cmp(arith::CmpIPredicate::sle, count, ctx.index(most)));
  Value end = ctx.select(isSmall, count, ctx.index(0));
  Value last = ctx.toI32(ctx.sub(end, ctx.index(1)));
  Type i1 = ctx.b.getI1Type();
  auto perRow = ctx.tileType(keyCols(ctx), 1, i1);
  Value none = ctx.fill(arith::ConstantIntOp::create(ctx.b, i1, 0), perRow);
  auto loop = scf::ForOp::create(ctx.b, ctx.index(0), end,
                                 ctx.index(keyCols(ctx) * cols),
                                 ValueRange{none, none});
  {
    OpBuilder::InsertionGuard guard(ctx.b);
    ctx.b.setInsertionPointToStart(loop.getBody());
    Value first = ctx.toI32(loop.getInductionVar());
    auto type = ctx.tileType(keyCols(ctx), cols, i1);
    auto answers = ctx.map({}, {type, type}, [&](Value r, Value c, ValueRange) {
      Value number = ctx.add(ctx.mul(c, ctx.i32(keyCols(ctx))), r);
      Value rest = ctx.toIndex(ctx.min(ctx.add(first, number), last));
      SmallVector<Value> at(indices);
      for (size_t d = at.size(); d-- > 0;)
        if (!at[d]) {
          at[d] = arith::RemUIOp::create(ctx.b, rest, sizes[d]);
          rest = arith::DivUIOp::create(ctx.b, rest, sizes[d]);
        }
      Point point;
      point.row = point.safeRow = point.key = point.safeKey = ctx.i32(0);
      PointCloner cloner(ctx, region, 0, /*hasKey=*/true, captures, point);
      cloner.map(extract.getResult(),
                 loadElement(ctx.b, ctx.loc, memref, at, extract.getType()));
      Value yes = cloner.get(element.value);
      Value no = arith::XOrIOp::create(
          ctx.b, yes, arith::ConstantIntOp::create(ctx.b, i1, 1));
      return SmallVector<Value>{yes, no};
    });
    SmallVector<Value> next;
    for (auto [all, some] : llvm::zip(loop.getRegionIterArgs(), answers))
      next.push_back(eitherOf(ctx, all, someOfRows(ctx, some)));
    scf::YieldOp::create(ctx.b, next);
  }
  ListedElements found = countKeys(ctx, loop.getResult(0), loop.getResult(1));
  Value zero = ctx.i32(0), one = ctx.i32(1);
  Value noneFalse = ctx.select(found.someDead, zero, one);
  return {ctx.select(isSmall, noneFalse, zero),
          ctx.select(isSmall, ctx.select(found.someLive, one, zero), one)};
}

/// Which tiles from number `first` on, every one of `stride`, are whole, dead,
/// or neither as far as the analysis sees.
static SmallVector<Value> classifyByAnalysis(KeyListContext &ctx,
                                             const ListedRange &range,
                                             const Answers &answers,
                                             Value first) {
  // What is read of the rows is the same for all keys. It is read beside what
  // is read of the keys, of which most problems have one lot.
  SmallVector<Value> inputs;
  Value end = ctx.toI32(range.endWhole), lastTile = ctx.sub(end, ctx.i32(1));
  for (auto sample : ctx.mask->getSamples()) {
    auto [least, greatest] = sampleRange(ctx, sample, first, lastTile);
    inputs.append({least, greatest});
  }
  auto both = [&](Value x, Value y) -> Value {
    return arith::AndIOp::create(ctx.b, x, y);
  };
  auto type = ctx.tileType(keyCols(ctx), 1, ctx.b.getI1Type());
  return classWords(
      ctx, ctx.map(inputs, {type, type}, [&](Value row, Value, ValueRange x) {
        Value tile = nthTile(ctx, first, row);
        Value exists = ctx.cmp(arith::CmpIPredicate::slt, tile, end);
        Value key =
            ctx.mul(ctx.min(tile, lastTile), ctx.i32(ctx.schedule.getBlockK()));
        Value last = ctx.add(key, ctx.i32(ctx.schedule.getBlockK() - 1));
        auto sample = [&](Value value) {
          for (auto [i, s] : llvm::enumerate(ctx.mask->getSamples()))
            if (s.value == value)
              return std::pair(x[2 * i], x[2 * i + 1]);
          llvm_unreachable("a sample that was not noted");
        };
        ::attn::MaskAnalysis::CellFn cell = [&](Value value) {
          return cellAt(ctx, value, range.firstRow, ctx.toIndex(key));
        };
        auto element = [&](Value value) {
          for (auto [e, answer] : llvm::zip(ctx.mask->getElements(), answers))
            if (e.value == value)
              return answer;
          llvm_unreachable("an element that was not noted");
        };
        ::attn::MaskAnalysis::SampleFn ofElements = element;
        if (ctx.packsHeads)
          cell = nullptr;
        if (answers.empty())
          ofElements = nullptr;
        auto found = ctx.mask->emitBoxClass(
            ctx.b, ctx.loc, ctx.maskUniform, sample, range.firstRow,
            range.lastRow, key, last, cell, ofElements);
        Value yes = arith::ConstantIntOp::create(ctx.b, ctx.b.getI1Type(), 1);
        Value settled = arith::OrIOp::create(ctx.b, found.full, found.dead);
        Value open = arith::XOrIOp::create(ctx.b, settled, yes);
        Value some = arith::OrIOp::create(ctx.b, open, found.dead);
        return SmallVector<Value>{both(settled, exists), both(some, exists)};
      }));
}

/// The class of a tile that is what it is whatever the mask reads, as those of
/// a prefix beside a tensor of pairs are; of others `masked`.
static Value classWithoutReads(KeyListContext &ctx, const ListedRange &range,
                               Value number) {
  Value key = ctx.mul(ctx.toI32(number), ctx.i32(ctx.schedule.getBlockK()));
  Value last = ctx.add(key, ctx.i32(ctx.schedule.getBlockK() - 1));
  auto anything = [&](Value sample) {
    if (sample.getType().isInteger(1))
      return std::pair(ctx.i32(0), ctx.i32(1));
    return std::pair(ctx.i32(std::numeric_limits<int32_t>::min()),
                     ctx.i32(std::numeric_limits<int32_t>::max()));
  };
  auto found = ctx.mask->emitBoxClass(ctx.b, ctx.loc, ctx.maskUniform, anything,
                                      range.firstRow, range.lastRow, key, last,
                                      /*cell=*/nullptr, /*element=*/nullptr);
  // A ragged tile has keys that no mask speaks of.
  Value isWhole = arith::AndIOp::create(
      ctx.b, found.full,
      ctx.cmp(arith::CmpIPredicate::slt, number, range.endWhole));
  return ctx.select(isWhole, ctx.i32(KeyLists::whole),
                    ctx.select(found.dead, ctx.i32(KeyLists::dead),
                               ctx.i32(KeyLists::masked)));
}

void mlir::attn::buildClasses(KeyListContext &ctx, const KeyLists &into,
                              Value numTiles, Value block) {
  ctx.b.setInsertionPointToStart(&ctx.kernel.getBody().front());
  if (readsPairs(ctx.reduction)) {
    ListedRange range =
        locateListed(ctx, into, numTiles, block, ctx.dim(into.classes, 3));
    Value exists = arith::AndIOp::create(
        ctx.b, ctx.cmp(arith::CmpIPredicate::sge, ctx.split, range.first),
        ctx.cmp(arith::CmpIPredicate::slt, ctx.split, range.end));
    SmallVector<Value> kind = stepIf(
        ctx, exists, ctx.i32(KeyLists::dead),
        [&] {
          Value known = classWithoutReads(ctx, range, ctx.split);
          Value isOpen = ctx.cmp(arith::CmpIPredicate::eq, known,
                                 ctx.i32(KeyLists::masked));
          return stepIf(
              ctx, isOpen, known,
              [&] {
                return SmallVector<Value>{
                    classOfElements(ctx, into, ctx.split)};
              },
              nullptr);
        },
        nullptr);
    storeClass(ctx, into, ctx.split, kind.front());
    tile::ReturnOp::create(ctx.b);
    return;
  }
  ctx.stride = KeyLists::parts;
  ListedRange range =
      locateListed(ctx, into, numTiles, block, ctx.index(ctx.stride));
  auto storeOpen = [&](Value number) {
    storeClass(ctx, into, number, classOfElements(ctx, into, number));
  };
  // A ragged tile has keys that no mask speaks of.
  Value rest =
      arith::RemUIOp::create(ctx.b, range.endWhole, ctx.index(ctx.stride));
  Value hasRagged = arith::AndIOp::create(
      ctx.b, ctx.cmp(arith::CmpIPredicate::slt, range.endWhole, range.end),
      ctx.cmp(arith::CmpIPredicate::eq, rest, ctx.split));
  stepIf(
      ctx, hasRagged, {},
      [&]() -> SmallVector<Value> {
        storeOpen(range.endWhole);
        return {};
      },
      nullptr);
  // Packed rows may be of several heads.
  Answers answers;
  if (!ctx.packsHeads)
    for (auto element : ctx.mask->getElements())
      answers.push_back(elementRange(ctx, element));
  auto chunks =
      scf::ForOp::create(ctx.b, ctx.add(range.first, ctx.split), range.endWhole,
                         ctx.index(ctx.stride * keyCols(ctx)));
  OpBuilder::InsertionGuard guard(ctx.b);
  ctx.b.setInsertionPointToStart(chunks.getBody());
  Value first = ctx.toI32(chunks.getInductionVar());
  SmallVector<Value> words = classifyByAnalysis(ctx, range, answers, first);
  forWords(ctx, words, 2, {}, [&](Value w, ValueRange word, ValueRange) {
    Value base = nthTile(ctx, first, ctx.mul(w, ctx.i32(32)));
    auto store = [&](Value bits, function_ref<void(Value)> body) {
      forBits(ctx, bits, {},
              [&](Value place, ValueRange) -> SmallVector<Value> {
                body(ctx.toIndex(nthTile(ctx, base, place)));
                return {};
              });
    };
    auto settled = [&](Value bits, int64_t kind) {
      store(bits, [&](Value number) {
        storeClass(ctx, into, number, ctx.i32(kind));
      });
    };
    auto without = [&](Value x, Value y) -> Value {
      return arith::AndIOp::create(
          ctx.b, x, arith::XOrIOp::create(ctx.b, y, ctx.i32(-1)));
    };
    settled(without(word[0], word[1]), KeyLists::whole);
    settled(arith::AndIOp::create(ctx.b, word[0], word[1]), KeyLists::dead);
    store(without(word[1], word[0]), storeOpen);
    return SmallVector<Value>();
  });
  ctx.b.setInsertionPointAfter(chunks);
  tile::ReturnOp::create(ctx.b);
}

/// Which tiles from number `first` on are whole, and which masked.
static SmallVector<Value> readClasses(KeyListContext &ctx, const KeyLists &from,
                                      const ListedRange &range, Value first) {
  Value end = ctx.toI32(range.endWhole);
  auto type = ctx.tileType(keyCols(ctx), 1, ctx.b.getI1Type());
  return classWords(
      ctx, ctx.map({}, {type, type}, [&](Value row, Value, ValueRange) {
        Value tile = ctx.add(first, row);
        Value exists = ctx.cmp(arith::CmpIPredicate::slt, tile, end);
        Value kind =
            loadClass(ctx, from, ctx.min(tile, ctx.sub(end, ctx.i32(1))));
        auto is = [&](int64_t which) -> Value {
          return arith::AndIOp::create(
              ctx.b, exists,
              ctx.cmp(arith::CmpIPredicate::eq, kind, ctx.i32(which)));
        };
        return SmallVector<Value>{is(KeyLists::whole), is(KeyLists::masked)};
      }));
}

void mlir::attn::buildLists(KeyListContext &ctx, const KeyLists &into,
                            Value numTiles, Value block) {
  ctx.b.setInsertionPointToStart(&ctx.kernel.getBody().front());
  ListedRange range = locateListed(ctx, into, numTiles, block, ctx.index(1));

  // A ragged tile comes first: later ones then need no test for the end of the
  // keys.
  SmallVector<Value> start = {ctx.i32(0), ctx.i32(0)};
  Value ragged = ctx.toI32(range.endWhole);
  start = stepIf(
      ctx, ctx.cmp(arith::CmpIPredicate::slt, range.endWhole, range.end), start,
      [&] { return listByClass(ctx, into, ragged, start); }, nullptr);

  auto chunks = scf::ForOp::create(ctx.b, range.first, range.endWhole,
                                   ctx.index(keyCols(ctx)), start);
  {
    OpBuilder::InsertionGuard guard(ctx.b);
    ctx.b.setInsertionPointToStart(chunks.getBody());
    Value first = ctx.toI32(chunks.getInductionVar());
    SmallVector<Value> counts = forWords(
        ctx, readClasses(ctx, into, range, first), 2,
        chunks.getRegionIterArgs(),
        [&](Value w, ValueRange word, ValueRange counts) {
          Value base = ctx.add(first, ctx.mul(w, ctx.i32(32)));
          SmallVector<Value> next(counts);
          next[1] =
              forBits(ctx, word[0], next[1],
                      [&](Value place, ValueRange whole) {
                        return SmallVector<Value>{listWhole(
                            ctx, into, ctx.add(base, place), whole.front())};
                      })
                  .front();
          return forBits(
              ctx, word[1], next, [&](Value place, ValueRange counts) {
                return listMasked(ctx, into, ctx.add(base, place), counts);
              });
        });
    scf::YieldOp::create(ctx.b, counts);
  }
  for (int64_t which : {KeyLists::masks, KeyLists::wholes})
    memref::StoreOp::create(
        ctx.b, chunks.getResult(which), into.tiles,
        {ctx.batch, ctx.head, ctx.queryTile, ctx.index(which)});
  tile::ReturnOp::create(ctx.b);
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// How long a query tile takes, i32, in halves of a whole tile: one that is
/// tested takes about as long as one and a half (measured: docs/performance).
static Value loadLength(KeyListContext &ctx, const KeyLists &from, Value tile) {
  constexpr int64_t ofMasked = 3, ofWhole = 2;
  auto count = [&](int64_t which) -> Value {
    return memref::LoadOp::create(
        ctx.b, from.tiles,
        {ctx.batch, ctx.head, ctx.toIndex(tile), ctx.index(which)});
  };
  return ctx.add(ctx.mul(count(KeyLists::masks), ctx.i32(ofMasked)),
                 ctx.mul(count(KeyLists::wholes), ctx.i32(ofWhole)));
}

void mlir::attn::buildOrder(KeyListContext &ctx, const KeyLists &into,
                            Value numTiles, Value block) {
  ctx.b.setInsertionPointToStart(&ctx.kernel.getBody().front());
  auto work =
      tile::WorkTileOp::create(ctx.b, block, ctx.dim(into.tiles, 0),
                               ctx.dim(into.tiles, 1), numTiles, ctx.index(1));
  ctx.batch = work.getBatch();
  ctx.head = work.getHead();
  ctx.queryTile = work.getTile();
  Value own = ctx.toI32(ctx.queryTile), length = loadLength(ctx, into, own);
  Value last = ctx.toI32(ctx.sub(numTiles, ctx.index(1)));
  auto chunks =
      scf::ForOp::create(ctx.b, ctx.index(0), numTiles, ctx.index(keyCols(ctx)),
                         ValueRange{ctx.i32(0)});
  {
    OpBuilder::InsertionGuard guard(ctx.b);
    ctx.b.setInsertionPointToStart(chunks.getBody());
    Value first = ctx.toI32(chunks.getInductionVar());
    auto type = ctx.tileType(keyCols(ctx), 1, ctx.b.getI1Type());
    auto longer = ctx.map({}, type, [&](Value row, Value, ValueRange) {
      using Predicate = arith::CmpIPredicate;
      Value other = ctx.add(first, row);
      Value its = loadLength(ctx, into, ctx.min(other, last));
      // Of tiles that take as long, the last ones come first.
      Value isBefore = arith::OrIOp::create(
          ctx.b, ctx.cmp(Predicate::sgt, its, length),
          arith::AndIOp::create(ctx.b, ctx.cmp(Predicate::eq, its, length),
                                ctx.cmp(Predicate::sgt, other, own)));
      return SmallVector<Value>{arith::AndIOp::create(
          ctx.b, isBefore, ctx.cmp(Predicate::sle, other, last))};
    });
    Value before = chunks.getRegionIterArg(0);
    for (Value word : classWords(ctx, longer))
      before = ctx.add(before, math::CtPopOp::create(ctx.b, word));
    scf::YieldOp::create(ctx.b, before);
  }
  memref::StoreOp::create(ctx.b, own, into.tiles,
                          {ctx.batch, ctx.head,
                           ctx.toIndex(chunks.getResult(0)),
                           ctx.index(KeyLists::nthLongest)});
  tile::ReturnOp::create(ctx.b);
}
