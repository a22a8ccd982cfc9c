//===- TileLists.cpp - Key tiles that a kernel before has listed ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A mask that reads memory has live tiles anywhere. One kernel finds them, one
// block for each query tile: keys by the tile and what the mask reads of them,
// least and greatest, decide many tiles at a time (`MaskAnalysis::Sample`), and
// what is left is evaluated element by element. The reduction then visits the
// tiles of its list:
//
//   whole   every element is live: no test at all
//   masked  elements are tested, and the values of keys that are dead in every
//           row are cleared; which these are the list says, so that the parts
//           of a block need not exchange what each has found.
//
// Where the mask reads a tensor of pairs nothing is settled but by its
// elements. One more kernel, a block for each tile, reads them all, says what
// each tile is and writes the elements of masked tiles as bits, which is what
// the reduction then reads.
//
//===----------------------------------------------------------------------===//

#include "TileKernel.h"
#include "attn/Analysis/Laws.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;

/// Whether `index` is `position` itself, but for casts, a distance and limits
/// that are the same for all elements, for which `parts` has no entry.
static bool countsAs(Value index, Value position,
                     const llvm::DenseMap<Value, unsigned> &parts) {
  while (Operation *op = index.getDefiningOp()) {
    if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp,
            arith::ExtUIOp, arith::TruncIOp>(op)) {
      index = op->getOperand(0);
      continue;
    }
    if (!isa<arith::AddIOp, arith::SubIOp, arith::MinSIOp, arith::MaxSIOp>(op))
      break;
    bool isFirst = parts.lookup(op->getOperand(1)) == 0;
    if (!isFirst && parts.lookup(op->getOperand(0)) != 0)
      break;
    index = op->getOperand(isFirst ? 0 : 1);
  }
  return index == position;
}

bool mlir::attn::readsPairs(ReductionOpInterface op) {
  Region &region = op.getMaskBody();
  if (region.empty())
    return false;
  Value row = region.getArgument(2), key = region.getArgument(3);
  // What depends on the row or the key.
  llvm::DenseMap<Value, unsigned> parts = {{row, 1}, {key, 1}};
  bool found = false;
  region.walk([&](Operation *inner) {
    bool depends = llvm::any_of(inner->getOperands(),
                                [&](Value x) { return parts.lookup(x) != 0; });
    for (Value result : inner->getResults())
      parts[result] = depends;
    if (auto extract = dyn_cast<tensor::ExtractOp>(inner)) {
      auto isReached = [&](Value position) {
        return llvm::any_of(extract.getIndices(), [&](Value index) {
          return countsAs(index, position, parts);
        });
      };
      found |= isReached(row) && isReached(key);
    }
  });
  return found;
}

bool mlir::attn::listsBits(ReductionOpInterface op,
                           const ::attn::TargetInfo &target) {
  return op.getScheduleAttribute().getRows() == target.productShape().m &&
         readsPairs(op);
}

bool mlir::attn::listsKeyTiles(ReductionOpInterface op, MonoidOp monoid,
                               const ::attn::TargetInfo &target) {
  if (target.isCpu() || !target.hasRoles() ||
      !isa<AggregateOp>(op.getOperation()) || op.hasOwnSizes() ||
      op.getMaskBody().empty() || monoid.getKind() != MonoidKind::cocycle ||
      ::attn::MaskAnalysis(op.getMaskBody()).hullIsExact())
    return false;
  // Whole tiles come after the others.
  std::shared_ptr<const ::attn::LawReport> laws = ::attn::checkLaws(monoid);
  return monoid.getNumStats() == 0 || (laws && laws->combineCommutes);
}

//===----------------------------------------------------------------------===//
// The walk over listed tiles
//===----------------------------------------------------------------------===//

SmallVector<Value> ReductionKernel::listIndices() {
  return {listsDifferByBatch(reduction) ? batch : index(0),
          listsDifferByHead(reduction) ? head : index(0), queryTile};
}

Value ReductionKernel::listPlace(Value tiles, Value number, bool whole) {
  if (whole)
    return add(number, index(KeyLists::header));
  return sub(sub(dim(tiles, 3), index(1)), number);
}

Value ReductionKernel::loadListed(Value number, bool whole) {
  SmallVector<Value> at = listIndices();
  at.push_back(listPlace(lists.tiles, number, whole));
  return memref::LoadOp::create(b, loc, lists.tiles, at);
}

SmallVector<Value> ReductionKernel::stepListed(Value listed, Value number,
                                               bool whole, bool ragged,
                                               ValueRange state) {
  bool isPadded = keyCols() != schedule.getBlockK();
  KeyTile tile{mul(toIndex(listed), index(schedule.getBlockK())),
               /*masked=*/!whole || isPadded};
  tile.ragged = ragged || isPadded;
  if (whole)
    return step(tile, state);
  SmallVector<Value> words;
  Value place = lists.bits ? toIndex(listed) : number;
  for (int64_t w = 0, n = llvm::divideCeil(keyCols(), 32); w < n; ++w) {
    SmallVector<Value> indices = listIndices();
    indices.append({place, index(w)});
    words.push_back(memref::LoadOp::create(b, loc, lists.words, indices));
  }
  tile.live = tile::TruthsOp::create(
      b, loc, tileType(1, keyCols(), b.getI1Type()), words);
  if (lists.bits)
    tile.number = place;
  return step(tile, state);
}

SmallVector<Value> ReductionKernel::loopListed(int64_t from, Value to,
                                               bool whole, ValueRange state) {
  SmallVector<Value> initial(state);
  Value last = sub(to, index(1)), first = index(from);
  // Elements of masked tiles are read from where the tile's number says: it is
  // loaded one step ahead.
  bool isAhead = !whole && (lists.bits || samplesFit());
  if (isAhead)
    initial.push_back(loadListed(max(min(first, last), index(0)), whole));
  auto loop = scf::ForOp::create(b, loc, first, to, index(1), initial);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value number = loop.getInductionVar(), listed, following;
  if (isAhead) {
    listed = loop.getRegionIterArgs().back();
    following = loadListed(min(add(number, index(1)), last), whole);
  } else {
    listed = loadListed(number, whole);
  }
  SmallVector<Value> next =
      stepListed(listed, number, whole, /*ragged=*/!whole && from == 0,
                 loop.getRegionIterArgs().take_front(state.size()));
  if (following)
    next.push_back(following);
  scf::YieldOp::create(b, loc, next);
  return SmallVector<Value>(loop.getResults().take_front(state.size()));
}

/// Whether a warpgroup's registers hold what the mask reads of keys beside the
/// scores of a tile, their weights and the sums.
bool ReductionKernel::samplesFit() {
  auto samples = mask->getSamples();
  int64_t keySamples =
      llvm::count_if(samples, [](auto &sample) { return sample.onKey; });
  int64_t registers = target.registerReserve + keyCols() / 2 + keyCols() / 4 +
                      keySamples * keyCols() / 4;
  for (Value tensor : reduction.getValueOperands())
    registers += paddedChannels(tensor) / 2;
  int64_t members = schedule.getBlockQ() / schedule.getRows();
  return !samples.empty() && pipelined() &&
         registers < target.computeRegisters(members);
}

/// What the mask reads of the rows or of the keys of a tile, a load for each
/// of a thread's, is on its way while the scores are computed.
void ReductionKernel::loadSamples(RowBlock &block) {
  if (!lists.tiles || !block.tile.masked || block.tile.number || !samplesFit())
    return;
  for (auto sample : mask->getSamples()) {
    Type type = sample.value.getType();
    if (!type.isInteger(32) && !type.isInteger(1))
      continue;
    auto held = sample.onKey ? tileType(1, keyCols(), type)
                             : tileType(schedule.getRows(), 1, type);
    Value tile =
        map({}, held, [&](Value row, Value col, ValueRange) {
          PointCloner cloner(*this, reduction.getMaskBody(), 0,
                             /*hasKey=*/true, reduction.getCaptureOperands(),
                             pointOf(block, row, col));
          return SmallVector<Value>{cloner.get(sample.value)};
        }).front();
    block.samples.push_back({sample.value, tile});
  }
}

SmallVector<Value> ReductionKernel::withLoaded(const RowBlock &block,
                                               ValueRange first) {
  SmallVector<Value> inputs(first);
  for (auto [value, tile] : block.samples)
    inputs.push_back(tile);
  llvm::append_range(inputs, block.words);
  return inputs;
}

ValueRange ReductionKernel::takeLoaded(RowBlock &block, ValueRange given,
                                       size_t first) {
  ValueRange loaded = given.drop_front(first);
  block.sampled = llvm::to_vector(loaded.take_front(block.samples.size()));
  block.wordsRead = llvm::to_vector(loaded.drop_front(block.samples.size()));
  return given.take_front(first);
}

/// The bits of the rows, as words that are on their way while the scores are
/// computed.
void ReductionKernel::loadBits(RowBlock &block) {
  if (!block.tile.number)
    return;
  SmallVector<Value> indices = listIndices();
  indices.push_back(block.tile.number);
  Value first = toI32(sub(block.firstRow, row0));
  auto held = tileType(schedule.getRows(), 1, b.getI32Type());
  for (int64_t w = 0, n = llvm::divideCeil(keyCols(), 32); w < n; ++w)
    block.words.push_back(map({}, held, [&](Value row, Value, ValueRange) {
                            SmallVector<Value> at(indices);
                            at.append({toIndex(add(first, row)), index(w)});
                            return SmallVector<Value>{
                                memref::LoadOp::create(b, loc, lists.bits, at)};
                          }).front());
}

/// Bit `col` % 32 of word `col` / 32. Of a thread's columns two bits are its
/// own and the others the same in all threads: apart, so that each element
/// takes one test of a constant bit.
Value ReductionKernel::liveByBits(RowBlock &block, Value col) {
  constexpr int64_t own = 6, common = 31 - own;
  auto both = [&](Value x, int64_t mask) -> Value {
    return arith::AndIOp::create(b, loc, x, i32(mask));
  };
  auto shifted = [&](Value x, Value by) -> Value {
    return arith::ShRUIOp::create(b, loc, x, by);
  };
  Value number = shifted(col, i32(5)), mine = both(col, own), word;
  for (auto [w, read] : llvm::enumerate(block.wordsRead)) {
    Value here = shifted(read, mine);
    word =
        word ? select(cmp(arith::CmpIPredicate::eq, number, i32(w)), here, word)
             : here;
  }
  return cmp(arith::CmpIPredicate::ne,
             both(shifted(word, both(col, common)), 1), i32(0));
}

SmallVector<Value> ReductionKernel::walkLists(SmallVector<Value> state) {
  readMask();
  keyEnd = hullUpper = numKeys;
  hullLower = index(0);
  auto count = [&](int64_t which) {
    SmallVector<Value> indices = listIndices();
    indices.push_back(index(which));
    return toIndex(memref::LoadOp::create(b, loc, lists.tiles, indices));
  };
  Value masked = count(0), whole = count(1), zero = index(0);
  if (!pipelined()) {
    state = loopListed(0, masked, /*whole=*/false, state);
    return loopListed(0, whole, /*whole=*/true, state);
  }
  // A first tile stands alone, of either kind; see walkPipelined.
  auto first = [&](bool whole) {
    return stepListed(loadListed(zero, whole), zero, whole, /*ragged=*/!whole,
                      state);
  };
  auto some = [&](Value n) { return cmp(arith::CmpIPredicate::sgt, n, zero); };
  return stepIf(
      some(masked), state,
      [&] {
        SmallVector<Value> next = first(/*whole=*/false);
        next = loopListed(1, masked, /*whole=*/false, next);
        return loopListed(0, whole, /*whole=*/true, next);
      },
      [&] {
        return stepIf(
            some(whole), state,
            [&] {
              SmallVector<Value> next = first(/*whole=*/true);
              return loopListed(1, whole, /*whole=*/true, next);
            },
            nullptr);
      });
}

//===----------------------------------------------------------------------===//
// The kernel that makes the lists
//===----------------------------------------------------------------------===//

/// The least and the greatest of a sample: over the keys of tile `firstTile` +
/// r in row r, or over the rows of the query tile in every row.
std::pair<Value, Value>
ReductionKernel::sampleRange(::attn::MaskAnalysis::Sample sample,
                             Value firstTile, Value lastTile) {
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
SmallVector<Value> ReductionKernel::forBits(
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

std::pair<Value, Value> ReductionKernel::divide(Value x, Value y) {
  Value n = toI32(x), d = toI32(y);
  return {toIndex(arith::DivUIOp::create(b, loc, n, d)),
          toIndex(arith::RemUIOp::create(b, loc, n, d))};
}

Value ReductionKernel::listWhole(const KeyLists &into, Value tile,
                                 Value whole) {
  Value place = listPlace(into.tiles, toIndex(whole), /*whole=*/true);
  memref::StoreOp::create(b, loc, tile, into.tiles,
                          {batch, head, queryTile, place});
  return add(whole, i32(1));
}

/// Keys by rows, `count` of these from `first` on: whether elements are live,
/// and whether they are dead. Keys are rows here, of which each thread has few,
/// and rows are columns.
std::pair<Value, Value>
ReductionKernel::evaluateRows(RowBlock &block, Value first, int64_t count) {
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

ReductionKernel::RowBlock ReductionKernel::listedBlock(Value tile,
                                                       bool ragged) {
  KeyTile keyTile{mul(toIndex(tile), index(schedule.getBlockK())),
                  /*masked=*/true};
  keyTile.ragged = ragged || keyCols() != schedule.getBlockK();
  RowBlock block(keyTile);
  block.firstRow = row0;
  prepare(block);
  return block;
}

/// Whether a key has an element that is true, among all rows.
Value ReductionKernel::someOfRows(Value elements) {
  Value no = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 0);
  return reduce(elements, no, /*ordered=*/false,
                [&](ValueRange x, ValueRange y) -> SmallVector<Value> {
                  return {arith::OrIOp::create(b, loc, x[0], y[0])};
                })
      .front();
}

/// What keys with live and with dead elements make of their tile.
ReductionKernel::ListedElements ReductionKernel::countKeys(Value live,
                                                           Value dead) {
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

void ReductionKernel::storeWords(const KeyLists &into, Value place,
                                 ArrayRef<Value> words) {
  for (auto [w, word] : llvm::enumerate(words))
    memref::StoreOp::create(b, loc, word, into.words,
                            {batch, head, queryTile, place, index(w)});
}

SmallVector<Value> ReductionKernel::listMasked(const KeyLists &into, Value tile,
                                               ValueRange counts) {
  Value place = listPlace(into.tiles, toIndex(counts[0]), /*whole=*/false);
  memref::StoreOp::create(b, loc, tile, into.tiles,
                          {batch, head, queryTile, place});
  return {add(counts[0], i32(1)), counts[1]};
}

/// Lists a tile as its elements are.
SmallVector<Value> ReductionKernel::listByElements(const KeyLists &into,
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

Value ReductionKernel::loadClass(const KeyLists &from, Value tile) {
  return memref::LoadOp::create(b, loc, from.classes,
                                {batch, head, queryTile, toIndex(tile)});
}

/// Lists a masked tile if it is one, as its class says.
SmallVector<Value> ReductionKernel::listByClass(const KeyLists &into,
                                                Value tile, ValueRange counts) {
  Value isMasked = cmp(arith::CmpIPredicate::eq, loadClass(into, tile),
                       i32(KeyLists::masked));
  return stepIf(
      isMasked, counts, [&] { return listMasked(into, tile, counts); },
      nullptr);
}

/// Finds out where a block of a kernel around lists works: on `rest` of the
/// query tiles.
ReductionKernel::ListedRange ReductionKernel::locateListed(const KeyLists &into,
                                                           Value numTiles,
                                                           Value rest) {
  std::tie(rest, queryTile) = divide(rest, numTiles);
  std::tie(batch, head) = divide(rest, dim(into.tiles, 1));
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

void ReductionKernel::buildClasses(const KeyLists &into, Value numTiles,
                                   Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  auto [rest, tile] = divide(block, dim(into.classes, 3));
  ListedRange range = locateListed(into, numTiles, rest);
  Value none = i32(KeyLists::dead), number = tile;
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

void ReductionKernel::buildLists(const KeyLists &into, Value numTiles,
                                 Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  ListedRange range = locateListed(into, numTiles, block);
  Value firstRow = range.firstRow, lastRow = range.lastRow;
  Value firstTile = range.first, endTile = range.end;
  Value endWhole = range.endWhole, zero = index(0);

  // A ragged tile has keys that no mask speaks of. It comes first: later ones
  // then need no test for the end of the keys.
  SmallVector<Value> start = {i32(0), i32(0)};
  Value ragged = toI32(endWhole);
  start = stepIf(
      cmp(arith::CmpIPredicate::slt, endWhole, endTile), start,
      [&] {
        return into.bits ? listByClass(into, ragged, start)
                         : listByElements(into, ragged, /*ragged=*/true, start);
      },
      nullptr);

  int64_t rows = keyCols(), numWords = llvm::divideCeil(rows, 32);
  auto chunks =
      scf::ForOp::create(b, loc, firstTile, endWhole, index(rows), start);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(chunks.getBody());
    Value first = chunks.getInductionVar();
    // What is read of the rows is the same for all keys. It is read beside
    // what is read of the keys, of which most problems have one lot.
    SmallVector<Value> inputs;
    for (auto sample : mask->getSamples()) {
      if (into.bits)
        break;
      auto [least, greatest] =
          sampleRange(sample, first, sub(endWhole, index(1)));
      inputs.append({least, greatest});
    }
    Value firstI32 = toI32(first), end = toI32(endWhole);
    auto type = tileType(rows, 1, b.getI1Type());
    SmallVector<Value> classes =
        map(inputs, {type, type}, [&](Value row, Value, ValueRange x) {
          Value tile = add(firstI32, row);
          Value exists = cmp(arith::CmpIPredicate::slt, tile, end);
          tile = min(tile, sub(end, i32(1)));
          if (into.bits) {
            Value kind = loadClass(into, tile);
            auto is = [&](int64_t which) -> Value {
              return arith::AndIOp::create(
                  b, loc, exists,
                  cmp(arith::CmpIPredicate::eq, kind, i32(which)));
            };
            return SmallVector<Value>{is(KeyLists::whole),
                                      is(KeyLists::masked)};
          }
          Value key = mul(tile, i32(schedule.getBlockK()));
          Value last = add(key, i32(schedule.getBlockK() - 1));
          auto sample = [&](Value value) {
            for (auto [i, s] : llvm::enumerate(mask->getSamples()))
              if (s.value == value)
                return std::pair(x[2 * i], x[2 * i + 1]);
            llvm_unreachable("a sample that was not noted");
          };
          auto found = mask->emitBoxClass(b, loc, maskUniform, sample, firstRow,
                                          lastRow, key, last);
          Value whole = arith::AndIOp::create(b, loc, found.full, exists);
          Value yes = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 1);
          Value settled = arith::OrIOp::create(b, loc, whole, found.dead);
          Value open = arith::XOrIOp::create(b, loc, settled, yes);
          return SmallVector<Value>{
              whole, arith::AndIOp::create(b, loc, open, exists)};
        });
    SmallVector<Type> types(2 * numWords, b.getI32Type());
    auto bits = tile::BitsOp::create(b, loc, types, classes);
    ValueRange words = bits.getWords();
    // One body for the words of all 32 tiles.
    auto loop = scf::ForOp::create(b, loc, zero, index(numWords), index(1),
                                   chunks.getRegionIterArgs());
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      Value w = toI32(loop.getInductionVar());
      auto pick = [&](ValueRange from) {
        Value word = from.front();
        for (auto [i, other] : llvm::enumerate(from.drop_front()))
          word =
              select(cmp(arith::CmpIPredicate::eq, w, i32(i + 1)), other, word);
        return word;
      };
      Value base = add(firstI32, mul(w, i32(32)));
      SmallVector<Value> counts(loop.getRegionIterArgs());
      counts[1] = forBits(pick(words.take_front(numWords)), counts[1],
                          [&](Value place, ValueRange whole) {
                            return SmallVector<Value>{listWhole(
                                into, add(base, place), whole.front())};
                          })
                      .front();
      counts = forBits(pick(words.drop_front(numWords)), counts,
                       [&](Value place, ValueRange counts) {
                         Value tile = add(base, place);
                         return into.bits
                                    ? listMasked(into, tile, counts)
                                    : listByElements(into, tile,
                                                     /*ragged=*/false, counts);
                       });
      scf::YieldOp::create(b, loc, counts);
    }
    scf::YieldOp::create(b, loc, loop.getResults());
  }
  for (int64_t which : {0, 1})
    memref::StoreOp::create(b, loc, chunks.getResult(which), into.tiles,
                            {batch, head, queryTile, index(which)});
  tile::ReturnOp::create(b, loc);
}
