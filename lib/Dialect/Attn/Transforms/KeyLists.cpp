//===- KeyLists.cpp - Kernels that list key tiles -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A mask that reads memory has live tiles anywhere. Where it reads something of
// each key, or compares something of its rows once, or reads a table of blocks
// that tiles do not cross, few tiles are left to a look at their elements
// (KeyClasses.cpp): a kernel with a block for each query tile says what its key
// tiles are and lists them.
//
// Of others one kernel says what each tile is, with some blocks for each query
// tile, and the next one makes the lists. Tiles that are left to a look lie
// side by side, so a block has every eighth. Where the mask reads a tensor of
// pairs, its elements settle most tiles, and the first kernel has a block for
// each tile. Elements of such a mask, and of one that takes more than a few
// operations, become bits, once for all heads that the mask does not tell
// apart: what the reduction reads.
//
// How long a query tile takes the lists say. Where the schedule takes the
// longest first, a last kernel, with one block for each query tile again,
// counts those that take longer: as many come before it. Where one kernel lists
// them, only the heads that come last take them in that order, since long ones
// that end the launch leave multiprocessors idle, and the others in the order
// of the rows. It takes longer than it gains where there are few work tiles, or
// short ones: then the last query tiles come first.
//
//===----------------------------------------------------------------------===//

#include "KeyLists.h"
#include "TileBlock.h"
#include "TileLists.h"
#include "TileSteps.h"
#include "TileStream.h"
#include "attn/Analysis/Schedule.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

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

static void storeWords(KeyListContext &ctx, const KeyLists &into, Value place,
                       ArrayRef<Value> words) {
  if (!into.words)
    return;
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

/// Which part of `keyTiles` of which list a block has. It is found sooner where
/// there is one batch or head of lists, which nobody divides by.
static tile::WorkTileOp createListedTile(KeyListContext &ctx,
                                         const KeyLists &into, Value numTiles,
                                         Value block, Value keyTiles) {
  auto count = [&](bool areMany, int64_t dimension) {
    return areMany ? ctx.dim(into.tiles, dimension) : ctx.index(1);
  };
  return tile::WorkTileOp::create(
      ctx.b, block, count(listsDifferByBatch(ctx.reduction), 0),
      count(listsDifferByHead(ctx.reduction), 1), numTiles, keyTiles);
}

/// Finds out where a block of a kernel around lists works; it has one of
/// `keyTiles` tiles of the keys as its part.
static ListedRange locateListed(KeyListContext &ctx, const KeyLists &into,
                                Value numTiles, Value block, Value keyTiles) {
  auto work = createListedTile(ctx, into, numTiles, block, keyTiles);
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

/// Lists a tile as its elements are. Where nothing else is wanted of these, a
/// few rows say of most tiles that they have live ones, and dead ones.
static SmallVector<Value> listByElements(KeyListContext &ctx,
                                         const KeyLists &into, Value tile,
                                         ValueRange counts) {
  Value number = ctx.toIndex(tile);
  auto listFound = [&]() -> SmallVector<Value> {
    ListedElements found = evaluate(ctx, into, number);
    auto masked = [&] {
      storeWords(ctx, into, number, found.words);
      return listMasked(ctx, into, tile, counts);
    };
    auto whole = [&] {
      return SmallVector<Value>{counts[0],
                                listWhole(ctx, into, tile, counts[1])};
    };
    return stepIf(
        ctx, found.someLive, counts,
        [&] { return stepIf(ctx, found.someDead, counts, masked, whole); },
        nullptr);
  };
  if (!listsMixed(ctx, into))
    return listFound();
  ListedElements few = evaluateFew(ctx, number);
  return stepIf(
      ctx, arith::AndIOp::create(ctx.b, few.someLive, few.someDead), counts,
      [&] { return listMasked(ctx, into, tile, counts); }, listFound);
}

static void storeClass(KeyListContext &ctx, const KeyLists &into, Value number,
                       Value kind) {
  memref::StoreOp::create(ctx.b, kind, into.classes,
                          {ctx.batch, ctx.head, ctx.queryTile, number});
}

/// Runs `body` on the number of each word and the words of all `kinds`, of
/// those that so many tiles have: there is one body for the words of all 32
/// tiles.
static SmallVector<Value>
forWords(KeyListContext &ctx, ValueRange words, size_t kinds, Value tiles,
         ValueRange carried,
         function_ref<SmallVector<Value>(Value, ValueRange, ValueRange)> body) {
  size_t numWords = words.size() / kinds;
  Value used = arith::CeilDivUIOp::create(ctx.b, tiles, ctx.index(32));
  auto loop = scf::ForOp::create(ctx.b, ctx.index(0),
                                 ctx.min(used, ctx.index(numWords)),
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

/// Bits of one word that are not set in another.
static Value without(KeyListContext &ctx, Value x, Value y) {
  return arith::AndIOp::create(ctx.b, x,
                               arith::XOrIOp::create(ctx.b, y, ctx.i32(-1)));
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
  Answers answers = findAnswers(ctx);
  auto chunks =
      scf::ForOp::create(ctx.b, ctx.add(range.first, ctx.split), range.endWhole,
                         ctx.index(ctx.stride * keyCols(ctx)));
  OpBuilder::InsertionGuard guard(ctx.b);
  ctx.b.setInsertionPointToStart(chunks.getBody());
  Value first = ctx.toI32(chunks.getInductionVar());
  SmallVector<Value> words = classifyByAnalysis(ctx, range, answers, first);
  Value tiles = arith::CeilDivUIOp::create(
      ctx.b, ctx.sub(range.endWhole, chunks.getInductionVar()),
      ctx.index(ctx.stride));
  forWords(ctx, words, 2, tiles, {}, [&](Value w, ValueRange word, ValueRange) {
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
    settled(without(ctx, word[0], word[1]), KeyLists::whole);
    settled(arith::AndIOp::create(ctx.b, word[0], word[1]), KeyLists::dead);
    store(without(ctx, word[1], word[0]), storeOpen);
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

/// Lists the whole tiles of a word of bits; how many are listed then.
static Value listWholes(KeyListContext &ctx, const KeyLists &into, Value base,
                        Value bits, Value whole) {
  return forBits(ctx, bits, whole,
                 [&](Value place, ValueRange whole) {
                   return SmallVector<Value>{listWhole(
                       ctx, into, ctx.add(base, place), whole.front())};
                 })
      .front();
}

/// Lists the tiles of a word of bits by `list`: the counts then.
static SmallVector<Value>
listBits(KeyListContext &ctx, const KeyLists &into, Value base, Value bits,
         ValueRange counts,
         SmallVector<Value> (*list)(KeyListContext &, const KeyLists &, Value,
                                    ValueRange)) {
  return forBits(ctx, bits, counts, [&](Value place, ValueRange counts) {
    return list(ctx, into, ctx.add(base, place), counts);
  });
}

static void storeCounts(KeyListContext &ctx, const KeyLists &into,
                        ValueRange counts) {
  for (int64_t which : {KeyLists::masks, KeyLists::wholes})
    memref::StoreOp::create(
        ctx.b, counts[which], into.tiles,
        {ctx.batch, ctx.head, ctx.queryTile, ctx.index(which)});
}

/// Lists tiles as the kernel before says what they are.
static void listClasses(KeyListContext &ctx, const KeyLists &into,
                        const ListedRange &range, Value ragged, Value hasRagged,
                        ValueRange none) {
  SmallVector<Value> start = stepIf(
      ctx, hasRagged, none,
      [&] { return listByClass(ctx, into, ragged, none); }, nullptr);
  auto chunks = scf::ForOp::create(ctx.b, range.first, range.endWhole,
                                   ctx.index(keyCols(ctx)), start);
  {
    OpBuilder::InsertionGuard guard(ctx.b);
    ctx.b.setInsertionPointToStart(chunks.getBody());
    Value first = ctx.toI32(chunks.getInductionVar());
    SmallVector<Value> counts =
        forWords(ctx, readClasses(ctx, into, range, first), 2,
                 ctx.sub(range.endWhole, chunks.getInductionVar()),
                 chunks.getRegionIterArgs(),
                 [&](Value w, ValueRange word, ValueRange counts) {
                   SmallVector<Value> next(counts);
                   Value base = ctx.add(first, ctx.mul(w, ctx.i32(32)));
                   next[1] = listWholes(ctx, into, base, word[0], next[1]);
                   return listBits(ctx, into, base, word[1], next, listMasked);
                 });
    scf::YieldOp::create(ctx.b, counts);
  }
  storeCounts(ctx, into, chunks.getResults());
}

/// Says what tiles are, and lists them. A ragged tile is one that is left to a
/// look, ahead of the first chunk of tiles.
static void listAtOnce(KeyListContext &ctx, const KeyLists &into,
                       const ListedRange &range, Value ragged, Value hasRagged,
                       ValueRange none) {
  bool tellsMixed = listsMixed(ctx, into);
  Answers answers = findAnswers(ctx);
  Value zero = ctx.index(0), one = ctx.index(1), cols = ctx.index(keyCols(ctx));
  Value chunks = arith::CeilDivUIOp::create(
      ctx.b, ctx.max(ctx.sub(range.endWhole, range.first), zero), cols);
  storeCounts(ctx, into, none);
  auto passes = scf::ForOp::create(ctx.b, ctx.select(hasRagged, zero, one),
                                   ctx.add(chunks, one), one, none);
  OpBuilder::InsertionGuard guard(ctx.b);
  ctx.b.setInsertionPointToStart(passes.getBody());
  Value pass = passes.getInductionVar();
  Value isChunk = ctx.cmp(arith::CmpIPredicate::sgt, pass, zero);
  Value start = ctx.select(
      isChunk, ctx.add(range.first, ctx.mul(ctx.sub(pass, one), cols)),
      range.endWhole);
  Value tiles = ctx.select(isChunk, ctx.sub(range.endWhole, start), one);
  Value first = ctx.toI32(start);
  // Words of the ragged tile: it is left to a look.
  size_t numWords = llvm::divideCeil(keyCols(ctx), 32);
  SmallVector<Value> words(2 * numWords, ctx.i32(0));
  words[numWords] = ctx.i32(1);
  words = stepIf(
      ctx, isChunk, words,
      [&] {
        return classifyByAnalysis(ctx, range, answers, first, tellsMixed);
      },
      nullptr);
  // Both bits are those of dead or mixed tiles.
  auto baseOf = [&](Value w) {
    return ctx.add(first, ctx.mul(w, ctx.i32(32)));
  };
  SmallVector<Value> counts =
      forWords(ctx, words, 2, tiles, passes.getRegionIterArgs(),
               [&](Value w, ValueRange word, ValueRange counts) {
                 Value base = baseOf(w);
                 SmallVector<Value> next(counts);
                 if (tellsMixed)
                   next =
                       listBits(ctx, into, base,
                                arith::AndIOp::create(ctx.b, word[0], word[1]),
                                next, listMasked);
                 next[1] = listWholes(ctx, into, base,
                                      without(ctx, word[0], word[1]), next[1]);
                 return next;
               });
  // Few blocks go on from here: the others are about to end.
  storeCounts(ctx, into, counts);
  Value some = ctx.i32(0);
  for (size_t w = 0; w < numWords; ++w)
    some = arith::OrIOp::create(ctx.b, some,
                                without(ctx, words[numWords + w], words[w]));
  auto look = [&] {
    SmallVector<Value> found = forWords(
        ctx, words, 2, tiles, counts,
        [&](Value w, ValueRange word, ValueRange counts) {
          return listBits(ctx, into, baseOf(w), without(ctx, word[1], word[0]),
                          counts, listByElements);
        });
    storeCounts(ctx, into, found);
    return found;
  };
  scf::YieldOp::create(
      ctx.b, stepIf(ctx, ctx.cmp(arith::CmpIPredicate::ne, some, ctx.i32(0)),
                    counts, look, nullptr));
}

void mlir::attn::buildLists(KeyListContext &ctx, const KeyLists &into,
                            Value numTiles, Value block) {
  ctx.b.setInsertionPointToStart(&ctx.kernel.getBody().front());
  ListedRange range = locateListed(ctx, into, numTiles, block, ctx.index(1));
  // A ragged tile comes first: later ones then need no test for the end of the
  // keys.
  Value ragged = ctx.toI32(range.endWhole);
  Value hasRagged =
      ctx.cmp(arith::CmpIPredicate::slt, range.endWhole, range.end);
  SmallVector<Value> none = {ctx.i32(0), ctx.i32(0)};
  if (listsAtOnce(ctx.reduction))
    listAtOnce(ctx, into, range, ragged, hasRagged, none);
  else
    listClasses(ctx, into, range, ragged, hasRagged, none);
  tile::ReturnOp::create(ctx.b);
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// How many tested and whole tiles a query tile has, i32.
static std::pair<Value, Value> loadCounts(KeyListContext &ctx,
                                          const KeyLists &from, Value tile) {
  auto count = [&](int64_t which) -> Value {
    return memref::LoadOp::create(
        ctx.b, from.tiles,
        {ctx.batch, ctx.head, ctx.toIndex(tile), ctx.index(which)});
  };
  return {count(KeyLists::masks), count(KeyLists::wholes)};
}

Value mlir::attn::findsOrder(OpBuilder &b, Location loc,
                             ReductionOpInterface op, Value work, Value keys,
                             const ::attn::TargetInfo &target) {
  auto isMore = [&](Value x, int64_t most) -> Value {
    Value limit = arith::ConstantIndexOp::create(b, loc, most);
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, x, limit);
  };
  Value areMany = isMore(work, mostTilesWithoutOrder(op, target));
  // Work tiles of gradients take as long as two or three of others.
  if (op.getQueryOperands().size() > 1)
    return areMany;
  return arith::AndIOp::create(b, loc, areMany,
                               isMore(keys, ::attn::mostKeysWithoutOrder()));
}

void mlir::attn::buildOrder(KeyListContext &ctx, const KeyLists &into,
                            Value numTiles, Value block) {
  ctx.b.setInsertionPointToStart(&ctx.kernel.getBody().front());
  auto work = createListedTile(ctx, into, numTiles, block, ctx.index(1));
  ctx.batch = work.getBatch();
  ctx.head = work.getHead();
  ctx.queryTile = work.getTile();
  Value own = ctx.toI32(ctx.queryTile);
  Value last = ctx.toI32(ctx.sub(numTiles, ctx.index(1)));
  auto chunks =
      scf::ForOp::create(ctx.b, ctx.index(0), numTiles, ctx.index(keyCols(ctx)),
                         ValueRange{ctx.i32(0)});
  {
    OpBuilder::InsertionGuard guard(ctx.b);
    ctx.b.setInsertionPointToStart(chunks.getBody());
    Value first = ctx.toI32(chunks.getInductionVar());
    // Read beside the others', which it would be waited for ahead of.
    Value ownMasks, ownWholes;
    std::tie(ownMasks, ownWholes) = loadCounts(ctx, into, own);
    auto type = ctx.tileType(keyCols(ctx), 1, ctx.b.getI1Type());
    auto longer = ctx.map({}, type, [&](Value row, Value, ValueRange) {
      using Predicate = arith::CmpIPredicate;
      Value other = ctx.add(first, row);
      auto [masks, wholes] = loadCounts(ctx, into, ctx.min(other, last));
      // Halves of a whole tile: one that is tested takes about as long as one
      // and a half (measured: docs/performance).
      Value more = ctx.add(ctx.mul(ctx.sub(masks, ownMasks), ctx.i32(3)),
                           ctx.mul(ctx.sub(wholes, ownWholes), ctx.i32(2)));
      // Of tiles that take as long, the last ones come first.
      Value isBefore = arith::OrIOp::create(
          ctx.b, ctx.cmp(Predicate::sgt, more, ctx.i32(0)),
          arith::AndIOp::create(ctx.b, ctx.cmp(Predicate::eq, more, ctx.i32(0)),
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
