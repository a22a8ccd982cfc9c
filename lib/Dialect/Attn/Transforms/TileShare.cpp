//===- TileShare.cpp - Kernels that find shared pages ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each sequence has a block, in a few kernels one after the other: at each
// level
//
//   find    the first sequence with the same page where the level begins, its
//           leader, and where the pages of the two part
//   weigh   how many pages are saved if all members that go on as far end there
//   place   of the ends that the class has, which has one leader, the one that
//           saves the most pages; and by who comes before it, its place
//
// and then
//
//   gather  copies the rows of each group, and its pages
//
// Items, which are sequences or pages, are spread over the rows of tiles on a
// GPU, and asked one after the other on a CPU.
//
//===----------------------------------------------------------------------===//

#include "TileShare.h"
#include "PlanBuilder.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;
using Predicate = arith::CmpIPredicate;

//===----------------------------------------------------------------------===//
// Items
//===----------------------------------------------------------------------===//

void ShareKernel::store(Value value, Value list, ValueRange at) {
  memref::StoreOp::create(b, loc, value, list, at);
}

void ShareKernel::branch(Value condition, function_ref<void()> build) {
  auto ifOp = scf::IfOp::create(b, loc, condition);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  build();
}

Value ShareKernel::branch(Value condition, Value otherwise,
                          function_ref<Value()> build) {
  auto ifOp = scf::IfOp::create(b, loc, TypeRange(otherwise.getType()),
                                condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  scf::YieldOp::create(b, loc, build());
  b.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(b, loc, otherwise);
  return ifOp.getResult(0);
}

SmallVector<Value> ShareKernel::forItems(
    Value total, int64_t step, ValueRange carried,
    function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, loc, index(0), toIndex(total), index(step),
                                 carried);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  scf::YieldOp::create(
      b, loc, body(toI32(loop.getInductionVar()), loop.getRegionIterArgs()));
  return loop.getResults();
}

/// Words of the items from `first` on that pass each test; a GPU's.
SmallVector<Value> ShareKernel::bitsOf(Value first, Value total,
                                       ArrayRef<Test> tests) {
  Type column = tileType(itemRows, 1, b.getI1Type());
  SmallVector<Type> types(tests.size(), column);
  SmallVector<Value> tiles = map({}, types, [&](Value row, Value, ValueRange) {
    Value item = add(first, row);
    Value exists = cmp(Predicate::slt, item, total);
    item = min(item, sub(total, i32(1)));
    SmallVector<Value> results;
    for (const Test &test : tests)
      results.push_back(both(exists, test(item)));
    return results;
  });
  SmallVector<Type> words(tests.size() * (itemRows / 32), b.getI32Type());
  return tile::BitsOp::create(b, loc, words, tiles).getResults();
}

/// How many items of `total` pass each test.
SmallVector<Value> ShareKernel::count(Value total, ArrayRef<Test> tests) {
  SmallVector<Value> none(tests.size(), i32(0));
  if (target.isCpu())
    return forItems(total, 1, none, [&](Value item, ValueRange sums) {
      SmallVector<Value> next;
      for (auto [test, sum] : llvm::zip_equal(tests, sums))
        next.push_back(add(
            sum, arith::ExtUIOp::create(b, loc, b.getI32Type(), test(item))));
      return next;
    });
  return forItems(total, itemRows, none, [&](Value first, ValueRange sums) {
    SmallVector<Value> words = bitsOf(first, total, tests);
    SmallVector<Value> next(sums);
    size_t each = words.size() / tests.size();
    for (auto [i, word] : llvm::enumerate(words))
      next[i / each] = add(next[i / each], math::CtPopOp::create(b, loc, word));
    return next;
  });
}

/// The place of the lowest bit of words, counted from `first`; `least` where
/// that is lower.
static Value lowestBit(OpBuilder &b, Location loc, ArrayRef<Value> words,
                       Value first, Value least) {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(b, loc, b.getI32Type(), value);
  };
  Value one = constant(1), zero = constant(0);
  for (auto [i, word] : llvm::enumerate(words)) {
    // The zeros below the lowest bit: ~x & (x - 1).
    Value zeros = arith::AndIOp::create(
        b, loc, arith::XOrIOp::create(b, loc, word, constant(-1)),
        arith::SubIOp::create(b, loc, word, one));
    Value place = arith::AddIOp::create(
        b, loc, arith::AddIOp::create(b, loc, first, constant(32 * i)),
        math::CtPopOp::create(b, loc, zeros));
    Value some = arith::CmpIOp::create(b, loc, Predicate::ne, word, zero);
    place = arith::SelectOp::create(b, loc, some, place, least);
    least = arith::MinSIOp::create(b, loc, least, place);
  }
  return least;
}

/// The first of `total` items that passes the test, or `total`; and how many
/// do.
std::pair<Value, Value> ShareKernel::firstOf(Value total, const Test &test) {
  SmallVector<Value> none = {total, i32(0)}, found;
  if (target.isCpu())
    found = forItems(total, 1, none, [&](Value item, ValueRange so) {
      Value passes = test(item);
      return SmallVector<Value>{
          min(so[0], select(passes, item, total)),
          add(so[1], arith::ExtUIOp::create(b, loc, b.getI32Type(), passes))};
    });
  else
    found = forItems(total, itemRows, none, [&](Value first, ValueRange so) {
      SmallVector<Value> words = bitsOf(first, total, test);
      Value sum = so[1];
      for (Value word : words)
        sum = add(sum, math::CtPopOp::create(b, loc, word));
      return SmallVector<Value>{lowestBit(b, loc, words, first, so[0]), sum};
    });
  return {found[0], found[1]};
}

/// The first of `total` items that passes the test, or `total`. A GPU's thread
/// asks all items of a run at once, which are on their way together, and then
/// those of the first run that has one.
Value ShareKernel::firstInRuns(Value total, const Test &test) {
  if (target.isCpu())
    return firstOf(total, test).first;
  Value size = i32(itemsOfRun), last = sub(total, i32(1));
  Value runs = divide(add(total, sub(size, i32(1))), size).first;
  Value run =
      firstOf(runs, [&](Value number) {
        Value first = mul(number, size), any;
        for (int64_t i = 0; i < itemsOfRun; ++i) {
          Value passes = test(min(add(first, i32(i)), last));
          any = any ? arith::OrIOp::create(b, loc, any, passes).getResult()
                    : passes;
        }
        return any;
      }).first;
  Value first = min(mul(run, size), total);
  Value found = firstOf(min(size, sub(total, first)), [&](Value number) {
                  return test(add(first, number));
                }).first;
  return add(first, found);
}

//===----------------------------------------------------------------------===//
// Levels
//===----------------------------------------------------------------------===//

void ShareKernel::start(Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  sequences = toI32(dim(arg(share.getQuery()), 0));
  sequence = toI32(block);
  uniformPoint = index(0).getDefiningOp();
}

/// Pages of a sequence that all of its rows see as a whole.
Value ShareKernel::pagesOf(Value which) {
  Value table = arg(share.getTable());
  Value page = max(toI32(dim(arg(share.getKey()), 2)), i32(1));
  Value pages = toI32(dim(table, 1));
  Value keys = mul(pages, page);
  if (Value lengths = share.getLengths()) {
    Value length = load(arg(lengths), ValueRange{toIndex(which)});
    keys = min(max(length, i32(0)), keys);
  }
  if (share.getCausal()) {
    Value rows = toI32(dim(arg(share.getQuery()), 2));
    keys = max(sub(keys, max(sub(rows, i32(1)), i32(0))), i32(0));
  }
  // No page is behind the last one of the pool.
  Value some =
      both(cmp(Predicate::sgt, sizes.slots, i32(0)),
           cmp(Predicate::sgt, toI32(dim(arg(share.getKey()), 0)), i32(0)));
  return select(some, arith::DivUIOp::create(b, loc, keys, page), i32(0));
}

void ShareKernel::buildFind(int64_t level, Value counts, Value keys,
                            Value block) {
  start(block);
  Value mine = toIndex(sequence), at = index(level);
  if (level == 0) {
    // Groups that nobody fills have no rows.
    Value groups = mul(sizes.groups, i32(share.getLevels()));
    auto loop =
        scf::ForOp::create(b, loc, mine, toIndex(groups), toIndex(sequences));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    for (Value list : {counts, keys})
      store(i32(0), list, loop.getInductionVar());
  }
  auto baseOf = [&](Value which) -> Value {
    if (level == 0)
      return i32(0);
    return load(lists.base, ValueRange{index(level - 1), toIndex(which)});
  };
  Value table = arg(share.getTable());
  auto pageAt = [&](Value which, Value page) {
    return load(table, ValueRange{toIndex(which), toIndex(page)});
  };
  Value base = baseOf(sequence), pages = pagesOf(sequence);
  Value hasMore = cmp(Predicate::sgt, pages, base);
  auto ifOp =
      scf::IfOp::create(b, loc, SmallVector<Type>(3, b.getI32Type()), hasMore,
                        /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    Value page = pageAt(sequence, base);
    // Up to itself: it is the second where there are two.
    auto [first, number] = firstOf(sequences, [&](Value other) {
      Value same = both(cmp(Predicate::eq, baseOf(other), base),
                        cmp(Predicate::sgt, pagesOf(other), base));
      same = both(same, cmp(Predicate::sle, other, sequence));
      return both(same, cmp(Predicate::eq, pageAt(other, base), page));
    });
    Value leader = min(first, sequence);
    Value second = arith::ExtUIOp::create(b, loc, b.getI32Type(),
                                          cmp(Predicate::eq, number, i32(2)));
    Value common = sub(min(pages, pagesOf(leader)), base);
    Value end = firstInRuns(common, [&](Value next) -> Value {
      Value mine = pageAt(sequence, add(base, next));
      Value differs = cmp(Predicate::ne, mine, pageAt(leader, add(base, next)));
      return arith::OrIOp::create(b, loc, differs,
                                  cmp(Predicate::slt, mine, i32(0)));
    });
    leader = select(cmp(Predicate::sge, page, i32(0)), leader, i32(-1));
    scf::YieldOp::create(b, loc, ValueRange{leader, add(base, end), second});
    b.setInsertionPointToStart(ifOp.elseBlock());
    scf::YieldOp::create(b, loc, ValueRange{i32(-1), base, i32(0)});
  }
  store(ifOp.getResult(0), lists.leader, {at, mine});
  store(ifOp.getResult(1), lists.end, {at, mine});
  store(ifOp.getResult(2), lists.second, {at, mine});
  tile::ReturnOp::create(b, loc);
}

void ShareKernel::buildWeigh(int64_t level, Value block) {
  start(block);
  Value at = index(level), mine = toIndex(sequence);
  Value leader = load(lists.leader, {at, mine});
  Value end = load(lists.end, {at, mine});
  Value base = level ? load(lists.base, {index(level - 1), mine}) : i32(0);
  Value gain =
      branch(cmp(Predicate::sge, leader, i32(0)), i32(0), [&]() -> Value {
        Value members = count(sequences, {[&](Value other) {
                                Value there = toIndex(other);
                                Value of = load(lists.leader, {at, there});
                                Value its = load(lists.end, {at, there});
                                return both(cmp(Predicate::eq, of, leader),
                                            cmp(Predicate::sge, its, end));
                              }})
                            .front();
        return mul(sub(members, i32(1)), sub(end, base));
      });
  store(gain, lists.gain, {at, mine});
  tile::ReturnOp::create(b, loc);
}

/// Where the class of a sequence ends its pages: of the ends that members have,
/// the one that saves the most, and of those that save as much the last.
Value ShareKernel::findCut(int64_t level, Value leader, Value base) {
  Value at = index(level);
  auto better = [&](ValueRange x, ValueRange y) {
    Value more = cmp(Predicate::sgt, x[0], y[0]);
    Value same = cmp(Predicate::eq, x[0], y[0]);
    Value later = both(same, cmp(Predicate::sgt, x[1], y[1]));
    Value first = arith::OrIOp::create(b, loc, more, later);
    return SmallVector<Value>{select(first, x[0], y[0]),
                              select(first, x[1], y[1])};
  };
  // What is saved where the end of a member is that of all, and this end.
  auto weighed = [&](Value other) {
    Value there = toIndex(other);
    Value of = load(lists.leader, {at, there});
    Value isMember = cmp(Predicate::eq, of, leader);
    return SmallVector<Value>{
        select(isMember, load(lists.gain, {at, there}), i32(-1)),
        load(lists.end, {at, there})};
  };
  SmallVector<Value> none = {i32(0), base};
  if (target.isCpu())
    return forItems(sequences, 1, none, [&](Value other, ValueRange found) {
      return better(weighed(other), found);
    })[1];
  // Each row of a tile has all members in its columns.
  Type word = b.getI32Type();
  auto tile = tileType(itemRows, itemColumns, word);
  auto column = tileType(itemRows, 1, word);
  SmallVector<Value> best = {fill(none[0], column), fill(none[1], column)};
  best = forItems(
      sequences, itemColumns, best, [&](Value first, ValueRange found) {
        SmallVector<Value> all =
            map({}, {tile, tile}, [&](Value, Value col, ValueRange) {
              Value other = add(first, col);
              return weighed(min(other, sub(sequences, i32(1))));
            });
        SmallVector<Value> most =
            reduce(all, {i32(-1), i32(-1)}, /*ordered=*/false, better);
        SmallVector<Value> both = {found[0], found[1], most[0], most[1]};
        return map(both, {column, column}, [&](Value, Value, ValueRange x) {
          return better(x.take_front(2), x.drop_front(2));
        });
      });
  // All rows have the same number: row r tells bit r of it.
  Value bits = map(best[1], tileType(itemRows, 1, b.getI1Type()),
                   [&](Value row, Value, ValueRange x) {
                     Value place = arith::AndIOp::create(b, loc, row, i32(31));
                     Value bit = arith::ShRUIOp::create(b, loc, x[0], place);
                     bit = arith::AndIOp::create(b, loc, bit, i32(1));
                     return SmallVector<Value>{cmp(Predicate::ne, bit, i32(0))};
                   })
                   .front();
  // As many words as the counts behind it have: warps exchange them in one
  // place.
  SmallVector<Value> equal(placeTests, bits);
  SmallVector<Type> words(placeTests * (itemRows / 32), word);
  return tile::BitsOp::create(b, loc, words, equal).getResult(0);
}

/// Groups of a class are numbered by how many sequences have a leader before
/// its own, s of which fit into a group, and by how many of these leaders have
/// followers: n / s + g. No two classes have one, and few are left out.
void ShareKernel::buildPlace(int64_t level, Value counts, Value keys,
                             Value starts, Value places, Value block) {
  start(block);
  Value at = index(level), mine = toIndex(sequence);
  Value page = toI32(dim(arg(share.getKey()), 2));
  Value slots = max(sizes.slots, i32(1));
  Value base = level ? load(lists.base, {index(level - 1), mine}) : i32(0);
  Value leader = load(lists.leader, {at, mine});
  Value end = load(lists.end, {at, mine});
  auto leaderOf = [&](Value other) {
    return load(lists.leader, {at, toIndex(other)});
  };
  auto ifOp = scf::IfOp::create(
      b, loc, TypeRange{b.getI32Type(), b.getI32Type()},
      cmp(Predicate::sge, leader, i32(0)), /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    Value cut = findCut(level, leader, base);
    auto shares = [&](Value other) {
      Value isMember = cmp(Predicate::eq, leaderOf(other), leader);
      Value goesOn =
          cmp(Predicate::sge, load(lists.end, {at, toIndex(other)}), cut);
      return both(isMember, goesOn);
    };
    auto isBefore = [&](Value other) {
      Value of = leaderOf(other);
      return both(cmp(Predicate::sge, of, i32(0)),
                  cmp(Predicate::slt, of, leader));
    };
    auto isSecond = [&](Value other) {
      Value second = load(lists.second, {at, toIndex(other)});
      return both(isBefore(other), cmp(Predicate::ne, second, i32(0)));
    };
    auto isEarlier = [&](Value other) {
      return both(shares(other), cmp(Predicate::slt, other, sequence));
    };
    SmallVector<Value> found =
        count(sequences, {isBefore, isSecond, shares, isEarlier});
    Value full, rest;
    std::tie(full, rest) = divide(found[3], slots);
    Value chunk = add(add(divide(found[0], slots).first, found[1]), full);
    Value takesPart =
        both(cmp(Predicate::sgt, cut, base), cmp(Predicate::sge, end, cut));
    // One that stays alone in a group has nobody to share with.
    takesPart = both(takesPart, cmp(Predicate::sgt, found[2], i32(1)));
    takesPart = both(takesPart, cmp(Predicate::slt, chunk, sizes.groups));
    chunk = add(chunk, mul(sizes.groups, i32(level)));
    Value place = branch(takesPart, i32(-1), [&]() -> Value {
      Value there = toIndex(chunk);
      store(sequence, lists.members, {there, toIndex(rest)});
      branch(cmp(Predicate::eq, rest, i32(0)), [&] {
        Value members = min(sub(found[2], found[3]), slots);
        store(mul(members, sizes.rows), counts, there);
        store(mul(sub(cut, base), page), keys, there);
        store(base, lists.firstPage, there);
        store(sequence, lists.owner, there);
      });
      int64_t rows =
          cast<ShapedType>(share.getQueries().getType()).getDimSize(2);
      return add(mul(chunk, i32(rows)), mul(rest, sizes.rows));
    });
    Value isPlaced = cmp(Predicate::sge, place, i32(0));
    scf::YieldOp::create(b, loc,
                         ValueRange{place, select(isPlaced, cut, base)});
    b.setInsertionPointToStart(ifOp.elseBlock());
    scf::YieldOp::create(b, loc, ValueRange{i32(-1), base});
  }
  store(ifOp.getResult(0), places, {at, mine});
  store(ifOp.getResult(1), lists.base, {at, mine});
  if (level + 1 == static_cast<int64_t>(share.getLevels()))
    store(mul(ifOp.getResult(1), page), starts, mine);
  tile::ReturnOp::create(b, loc);
}

int64_t ShareKernel::countSlices(ShareOp op) {
  return llvm::divideCeil(
      cast<ShapedType>(op.getQuery().getType()).getShape().back(),
      blockChannels);
}

/// A block copies entries of a group's table, or a slice of its rows.
void ShareKernel::buildGather(Value rows, Value tables, Value counts,
                              Value numTables, Value block) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  uniformPoint = index(0).getDefiningOp();
  Value queries = arg(share.getQuery()), table = arg(share.getTable());
  Value keyHeads = dim(rows, 1);
  int64_t slices = countSlices(share);
  Value ofRows = mul(keyHeads, index(slices));
  Value group, work;
  std::tie(group, work) = divide(block, add(ofRows, numTables));
  Value live = load(counts, group);
  Value some = cmp(Predicate::sgt, live, i32(0));
  Value isRows = cmp(Predicate::slt, work, ofRows);
  Value yes = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 1);
  auto no = [&](Value condition) -> Value {
    return arith::XOrIOp::create(b, loc, condition, yes);
  };
  branch(both(some, no(isRows)), [&] {
    Value owner = toIndex(load(lists.owner, group));
    Value first = toIndex(load(lists.firstPage, group));
    Value last = sub(dim(table, 1), index(1));
    Value entry = mul(sub(work, ofRows), index(blockEntries));
    SmallVector<Value> places, pages;
    for (int64_t i = 0; i < blockEntries; ++i) {
      places.push_back(min(add(entry, index(i)), last));
      Value from = min(add(first, places.back()), last);
      pages.push_back(load(table, {owner, from}));
    }
    for (auto [place, page] : llvm::zip_equal(places, pages))
      store(page, tables, {group, place});
  });
  auto type = cast<MemRefType>(rows.getType());
  int64_t numRows = type.getDimSize(2), depth = type.getShape().back();
  Value keyHead, slice;
  std::tie(keyHead, slice) = divide(work, index(slices));
  auto storeRows = [&](Value tile) {
    tile::StoreOp::create(
        b, loc, tile, rows,
        ValueRange{group, keyHead, index(0), mul(slice, index(blockChannels))},
        index(0), index(numRows), /*vector=*/false);
  };
  // Tiles without rows are loaded too.
  branch(both(isRows, no(some)),
         [&] { storeRows(fill(f32(0.0f), tileType(numRows, blockChannels))); });
  branch(both(some, isRows), [&] {
    Value ofSequence = toI32(dim(queries, 2));
    Value firstHead =
        mul(toI32(keyHead), arith::DivUIOp::create(b, loc, sizes.rows,
                                                   max(ofSequence, i32(1))));
    Value firstChannel = toI32(mul(slice, index(blockChannels)));
    Type element = type.getElementType();
    Value tile =
        map({}, tileType(numRows, blockChannels),
            [&](Value row, Value col, ValueRange) {
              Value at = min(row, sub(live, i32(1)));
              auto [slot, inSequence] = divide(at, sizes.rows);
              auto [inGroup, position] = divide(inSequence, ofSequence);
              Value member = load(lists.members, {group, toIndex(slot)});
              Value c = add(firstChannel, col);
              Value read =
                  load(queries,
                       {toIndex(member), toIndex(add(firstHead, inGroup)),
                        toIndex(position), toIndex(min(c, i32(depth - 1)))});
              if (!element.isF32())
                read = arith::ExtFOp::create(b, loc, b.getF32Type(), read);
              Value exists = cmp(Predicate::slt, row, live);
              return SmallVector<Value>{select(exists, read, f32(0.0f))};
            })
            .front();
    storeRows(tile);
  });
  tile::ReturnOp::create(b, loc);
}

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

namespace {

/// Sizes of an `attn.share` in the plan: sequences, pages of a table, key
/// heads, sequences of a group (0 where it would be one), rows of a sequence
/// and a key head, and groups of a level and of all.
struct ShareSizes {
  Value sequences, pages, keyHeads, slots, rows, ofLevel, groups;
};

/// Memory of its results, and the lists of ShareKernel in their order.
struct ShareMemory {
  Value gathered, tables, keys, counts, starts, places;
  SmallVector<Value> lists;
};

/// Builds what the plan says of sizes and memory.
struct SharePlan {
  OpBuilder &b;
  ShareOp op;
  Location loc = op.getLoc();

  ShareSizes makeSizes(const IRMapping &mapping);
  ShareMemory makeMemory(const ShareSizes &sizes);

  Value at(int64_t value) {
    return arith::ConstantIndexOp::create(b, loc, value);
  }
  Value divide(Value x, Value y) {
    return arith::DivUIOp::create(b, loc, x, y);
  }
  Value times(Value x, Value y) { return arith::MulIOp::create(b, loc, x, y); }
  Value plus(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value positive(Value x) { return arith::MaxUIOp::create(b, loc, x, at(1)); }
  Value make(ArrayRef<int64_t> shape, ArrayRef<Value> sizes, Type type) {
    return tile::WorkspaceOp::create(b, loc, MemRefType::get(shape, type),
                                     sizes);
  }
};

ShareSizes SharePlan::makeSizes(const IRMapping &mapping) {
  auto dim = [&](Value tensor, int64_t d) -> Value {
    return memref::DimOp::create(b, loc, mapping.lookup(tensor), d);
  };
  auto rowsType = cast<RankedTensorType>(op.getQueries().getType());
  ShareSizes sizes;
  sizes.sequences = dim(op.getQuery(), 0);
  sizes.pages = dim(op.getTable(), 1);
  sizes.keyHeads = dim(op.getKey(), 1);
  sizes.rows = times(divide(dim(op.getQuery(), 1), positive(sizes.keyHeads)),
                     dim(op.getQuery(), 2));
  Value slots = divide(at(rowsType.getDimSize(2)), positive(sizes.rows));
  // Groups of one sequence would share nothing.
  Value pays = arith::CmpIOp::create(b, loc, Predicate::ugt, slots, at(1));
  sizes.slots = arith::SelectOp::create(b, loc, pays, slots, at(0));
  // Of a level, those that sequences fill, and some that they do not.
  constexpr int64_t leastGroups = 2, sequencesOfGroup = 16;
  Value ofLevel = plus(
      divide(sizes.sequences, positive(sizes.slots)),
      plus(divide(sizes.sequences, at(sequencesOfGroup)), at(leastGroups)));
  sizes.ofLevel = arith::MinUIOp::create(b, loc, ofLevel, sizes.sequences);
  sizes.groups = times(sizes.ofLevel, at(op.getLevels()));
  return sizes;
}

ShareMemory SharePlan::makeMemory(const ShareSizes &sizes) {
  constexpr int64_t any = ShapedType::kDynamic;
  int64_t levels = op.getLevels();
  Type i32 = b.getI32Type();
  auto rowsType = cast<RankedTensorType>(op.getQueries().getType());
  SmallVector<Value> heads = {sizes.groups};
  if (rowsType.isDynamicDim(1))
    heads.push_back(sizes.keyHeads);
  auto perSequence = [&](Value result) {
    auto shape = cast<RankedTensorType>(result.getType()).getShape();
    return make(shape,
                ShapedType::isDynamic(shape.back()) ? ArrayRef(sizes.sequences)
                                                    : ArrayRef<Value>(),
                i32);
  };
  ShareMemory memory;
  memory.gathered = make(rowsType.getShape(), heads, rowsType.getElementType());
  memory.tables = make({any, any}, {sizes.groups, sizes.pages}, i32);
  memory.keys = make({any}, sizes.groups, i32);
  memory.counts = make({any}, sizes.groups, i32);
  memory.starts = perSequence(op.getStarts());
  memory.places = perSequence(op.getPlaces());
  for (int i = 0; i < 5; ++i) // leader, end, second, base, gain
    memory.lists.push_back(make({levels, any}, sizes.sequences, i32));
  for (int i = 0; i < 2; ++i) // first page, owner
    memory.lists.push_back(make({any}, sizes.groups, i32));
  int64_t numRows = rowsType.getDimSize(2);
  memory.lists.push_back(make({any, numRows}, sizes.groups, i32)); // members
  return memory;
}

} // namespace

void PlanBuilder::convertShare(ShareOp op) {
  Location loc = op.getLoc();
  SharePlan plan{b, op};
  ShareSizes sizes = plan.makeSizes(mapping);
  ShareMemory memory = plan.makeMemory(sizes);
  for (auto [result, made] : llvm::zip_equal(
           op->getResults(),
           SmallVector<Value>{memory.gathered, memory.tables, memory.keys,
                              memory.counts, memory.starts, memory.places}))
    mapping.map(result, made);

  // What all kernels take: two results, lists and sizes.
  SmallVector<Value> extra = {memory.counts, memory.keys};
  llvm::append_range(extra, memory.lists);
  size_t firstSize = extra.size();
  for (Value size : {sizes.slots, sizes.rows, sizes.ofLevel})
    extra.push_back(arith::IndexCastOp::create(b, loc, b.getI32Type(), size));
  size_t firstOwn = extra.size();
  auto launch = [&](Value grid, ArrayRef<Value> own, auto build) {
    SmallVector<Value> all = extra;
    llvm::append_range(all, own);
    Kernel kernel = startKernel(op, op->getOperands(), {}, all, {});
    ArrayRef<Value> given = kernel.extra;
    ShareKernel::Lists lists = {given[2], given[3], given[4], given[5],
                                given[6], given[7], given[8], given[9]};
    ShareKernel::Sizes numbers = {given[firstSize], given[firstSize + 1],
                                  given[firstSize + 2]};
    ShareKernel builder(op, target, kernel.func, lists, numbers);
    for (auto [i, operand] : llvm::enumerate(kernel.operands))
      builder.bind(operand, kernel.func.getArgument(i));
    build(builder, given, given.drop_front(firstOwn), kernel.block);
    tile::LaunchOp::create(b, loc, kernel.func.getName(), grid,
                           kernel.launchArguments);
  };
  using Given = ArrayRef<Value>;
  for (int64_t level = 0, end = op.getLevels(); level < end; ++level) {
    launch(sizes.sequences, {},
           [&](ShareKernel &k, Given all, Given, Value block) {
             k.buildFind(level, all[0], all[1], block);
           });
    launch(sizes.sequences, {}, [&](ShareKernel &k, Given, Given, Value block) {
      k.buildWeigh(level, block);
    });
    launch(sizes.sequences, {memory.starts, memory.places},
           [&](ShareKernel &k, Given all, Given own, Value block) {
             k.buildPlace(level, all[0], all[1], own[0], own[1], block);
           });
  }
  Value numTables = arith::CeilDivUIOp::create(
      b, loc, sizes.pages, plan.at(ShareKernel::blockEntries));
  Value ofGroup =
      plan.plus(numTables, plan.times(sizes.keyHeads,
                                      plan.at(ShareKernel::countSlices(op))));
  launch(plan.times(sizes.groups, ofGroup),
         {memory.gathered, memory.tables, numTables},
         [&](ShareKernel &k, Given all, Given own, Value block) {
           k.buildGather(own[0], own[1], all[0], own[2], block);
         });
}
