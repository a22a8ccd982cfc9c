//===- KeyClasses.cpp - What key tiles of a query tile are ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keys by the tile and what the mask reads of them, least and greatest, decide
// many tiles at a time (`MaskAnalysis::Sample`), and what is left is evaluated
// element by element. A tensor that is small is looked through first: where no
// element of a table is -inf there is no tile to evaluate for it.
//
//===----------------------------------------------------------------------===//

#include "KeyLists.h"
#include "TileBlock.h"
#include "TileDistances.h"
#include "TileElements.h"
#include "TileLists.h"
#include "TileSteps.h"
#include "TileStream.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;

/// The number of the block's n-th tile from `first` on, i32.
Value mlir::attn::nthTile(KeyListContext &ctx, Value first, Value n) {
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
                // The tile's rows end where all rows do, but packed ones.
                Value row = sample.onKey     ? zero
                            : ctx.packsHeads ? ctx.min(c, lastLive)
                                             : c;
                Point point = ctx.rowPoint(firstRow, row, ctx.lastRow());
                if (!ctx.packsHeads)
                  point.row = point.safeRow;
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

/// Keys by rows, `count` of these from `first` on, so far apart: whether
/// elements are live, and whether they are dead. Keys are rows here, of which
/// each thread has few, and rows are columns.
static std::pair<Value, Value> evaluateRows(KeyListContext &ctx,
                                            RowBlock &block, Value first,
                                            int64_t count, int64_t apart = 1) {
  Type i1 = ctx.b.getI1Type();
  Value lastRow = ctx.toI32(ctx.sub(ctx.liveRows, ctx.index(1)));
  Value yes = arith::ConstantIntOp::create(ctx.b, i1, 1);
  auto type = ctx.tileType(keyCols(ctx), count, i1);
  SmallVector<Value> elements =
      ctx.map({}, {type, type}, [&](Value key, Value row, ValueRange) {
        // Rows beyond the last stand for it.
        if (first)
          row = ctx.add(row, first);
        if (apart > 1)
          row = ctx.mul(row, ctx.i32(apart));
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
Value mlir::attn::someOfRows(KeyListContext &ctx, Value elements) {
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
static ListedElements gatherKeys(KeyListContext &ctx, Value live, Value dead) {
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

/// Its third argument is the row.
bool mlir::attn::asksForRows(KeyListContext &ctx) {
  return !ctx.reduction.getMaskBody().getArgument(2).use_empty();
}

/// Which keys of a tile have live elements, and which dead ones, some rows at a
/// time, so that blocks have the registers to run side by side. Bits are
/// written whatever the tile is: who reads them knows.
static SmallVector<Value> evaluateTile(KeyListContext &ctx,
                                       const KeyLists &into, RowBlock &block,
                                       Value number, bool hasBits) {
  // Of a mask that asks for no row one stands for all.
  if (!hasBits && !asksForRows(ctx)) {
    auto [live, dead] = evaluateRows(ctx, block, Value(), 1);
    return {live, dead};
  }
  int64_t rows = !into.bits && listsAtOnce(ctx.reduction) ? 64 : 32;
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

static ListedElements evaluateElements(KeyListContext &ctx,
                                       const KeyLists &into, Value number) {
  RowBlock block = listedBlock(ctx, ctx.toI32(number), /*ragged=*/true);
  auto found = [&](bool hasBits) {
    return evaluateTile(ctx, into, block, number, hasBits);
  };
  if (!into.bits || readsPairs(ctx.reduction)) {
    SmallVector<Value> keys = found(/*hasBits=*/bool(into.bits));
    return gatherKeys(ctx, keys[0], keys[1]);
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
  return gatherKeys(ctx, keys[0], keys[1]);
}

ListedElements mlir::attn::evaluate(KeyListContext &ctx, const KeyLists &into,
                                    Value number) {
  ListedElements found = evaluateElements(ctx, into, number);
  if (!listsDistantTiles(ctx))
    return found;
  // What is read of its pairs one by one makes a tile a masked one.
  auto [firstRow, lastRow] = tilePositions(ctx);
  Value key = ctx.mul(ctx.toI32(number), ctx.i32(ctx.schedule.getBlockK()));
  Value last = ctx.add(key, ctx.i32(ctx.schedule.getBlockK() - 1));
  Value isDistant =
      isDistantTile(ctx, ctx.toI32(firstRow), ctx.toI32(lastRow), key, last);
  found.someDead =
      ctx.select(isDistant, found.someDead,
                 arith::ConstantIntOp::create(ctx.b, ctx.b.getI1Type(), 1));
  return found;
}

ListedElements mlir::attn::evaluateFew(KeyListContext &ctx, Value number) {
  constexpr int64_t rows = 8;
  RowBlock block = listedBlock(ctx, ctx.toI32(number), /*ragged=*/true);
  auto [live, dead] =
      evaluateRows(ctx, block, Value(), rows,
                   llvm::divideCeil(ctx.schedule.getBlockQ() - 1, rows - 1));
  return gatherKeys(ctx, someOfRows(ctx, live), someOfRows(ctx, dead));
}

/// Words of the classes of tiles, as many as a tile has columns: 32 of them
/// each, and words of one kind after those of the one before.
SmallVector<Value> mlir::attn::classWords(KeyListContext &ctx,
                                          ValueRange classes) {
  int64_t numWords = llvm::divideCeil(keyCols(ctx), 32);
  SmallVector<Type> types(classes.size() * numWords, ctx.b.getI32Type());
  return tile::BitsOp::create(ctx.b, types, classes).getWords();
}

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
  ListedElements found = gatherKeys(ctx, loop.getResult(0), loop.getResult(1));
  Value zero = ctx.i32(0), one = ctx.i32(1);
  Value noneFalse = ctx.select(found.someDead, zero, one);
  return {ctx.select(isSmall, noneFalse, zero),
          ctx.select(isSmall, ctx.select(found.someLive, one, zero), one)};
}

bool mlir::attn::listsMixed(KeyListContext &ctx, const KeyLists &into) {
  return !into.bits && !into.words && asksForRows(ctx);
}

SmallVector<Value> mlir::attn::classifyByAnalysis(KeyListContext &ctx,
                                                  const ListedRange &range,
                                                  const Answers &answers,
                                                  Value first,
                                                  bool tellsMixed) {
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
  Value firstRow = ctx.toI32(range.firstRow),
        lastRow = ctx.toI32(range.lastRow);
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
        Value mixed;
        auto found = ctx.mask->emitBoxClass(
            ctx.b, ctx.loc, ctx.maskUniform, sample, range.firstRow,
            range.lastRow, key, last, cell, ofElements,
            tellsMixed ? &mixed : nullptr);
        Value yes = arith::ConstantIntOp::create(ctx.b, ctx.b.getI1Type(), 1);
        if (listsDistantTiles(ctx))
          found.full = both(found.full,
                            isDistantTile(ctx, firstRow, lastRow, key, last));
        Value settled = arith::OrIOp::create(ctx.b, found.full, found.dead);
        Value open = arith::XOrIOp::create(ctx.b, settled, yes);
        Value some = arith::OrIOp::create(ctx.b, open, found.dead);
        if (!tellsMixed)
          return SmallVector<Value>{both(settled, exists), both(some, exists)};
        Value known = arith::OrIOp::create(ctx.b, found.full, mixed);
        return SmallVector<Value>{both(known, exists), both(open, exists)};
      }));
}

/// What the mask asks of elements of small tensors. Packed rows may be of
/// several heads, and have none.
Answers mlir::attn::findAnswers(KeyListContext &ctx) {
  Answers answers;
  if (!ctx.packsHeads)
    for (auto element : ctx.mask->getElements())
      answers.push_back(elementRange(ctx, element));
  return answers;
}

/// The class of a tile that is what it is whatever the mask reads, as those of
/// a prefix beside a tensor of pairs are; of others `masked`.
Value mlir::attn::classWithoutReads(KeyListContext &ctx,
                                    const ListedRange &range, Value number) {
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
  if (listsDistantTiles(ctx))
    isWhole = arith::AndIOp::create(
        ctx.b, isWhole,
        isDistantTile(ctx, ctx.toI32(range.firstRow), ctx.toI32(range.lastRow),
                      key, last));
  return ctx.select(isWhole, ctx.i32(KeyLists::whole),
                    ctx.select(found.dead, ctx.i32(KeyLists::dead),
                               ctx.i32(KeyLists::masked)));
}
