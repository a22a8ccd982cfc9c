//===- TileShare.cpp - Kernels that find shared pages ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each sequence has a block, in a few kernels one after the other: at each level
//
//   find    the first sequence with the same page where the level begins, and
//           where the pages of the two part
//   weigh   how many pages are saved if all that go on at least as far share
//           the pages up to there
//   cut     of the ends that the class has, takes the one that saves the most
//
// and then
//
//   place   counts who comes before it, which gives the rows of its groups
//   gather  copies the rows of each group, and its pages
//
// Items, which are sequences or pages, are spread over the rows of tiles on a
// GPU, and asked one after the other on a CPU.
//
//===----------------------------------------------------------------------===//

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
SmallVector<Value> ShareKernel::bitsOf(
    Value first, Value total, ValueRange inputs,
    ArrayRef<std::function<Value(Value, ValueRange)>> tests) {
  Type column = tileType(itemRows, 1, b.getI1Type());
  SmallVector<Type> types(tests.size(), column);
  SmallVector<Value> tiles =
      map(inputs, types, [&](Value row, Value, ValueRange x) {
        Value item = add(first, row);
        Value exists = cmp(Predicate::slt, item, total);
        item = min(item, sub(total, i32(1)));
        SmallVector<Value> results;
        for (const auto &test : tests)
          results.push_back(both(exists, test(item, x)));
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
            sum,
            arith::ExtUIOp::create(b, loc, b.getI32Type(), test(item))));
      return next;
    });
  SmallVector<std::function<Value(Value, ValueRange)>> bodies;
  for (const Test &test : tests)
    bodies.push_back([&](Value item, ValueRange) { return test(item); });
  return forItems(total, itemRows, none, [&](Value first, ValueRange sums) {
    SmallVector<Value> words = bitsOf(first, total, {}, bodies);
    SmallVector<Value> next(sums);
    size_t each = words.size() / tests.size();
    for (auto [i, word] : llvm::enumerate(words))
      next[i / each] =
          add(next[i / each], math::CtPopOp::create(b, loc, word));
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

/// The first of `total` items that passes the test, or `total`.
Value ShareKernel::findFirst(Value total, const Test &test) {
  if (target.isCpu())
    return forItems(total, 1, total, [&](Value item, ValueRange found) {
             Value least = select(test(item), item, total);
             return SmallVector<Value>{min(found.front(), least)};
           })
        .front();
  return forItems(total, itemRows, total, [&](Value first, ValueRange found) {
           SmallVector<Value> words =
               bitsOf(first, total, {},
                      {[&](Value item, ValueRange) { return test(item); }});
           return SmallVector<Value>{
               lowestBit(b, loc, words, first, found.front())};
         })
      .front();
}

/// The first of `total` items with the largest value, which is not negative.
Value ShareKernel::findLargest(Value total,
                               const std::function<Value(Value)> &value) {
  if (target.isCpu())
    return forItems(total, 1, ValueRange{i32(-1), total},
                    [&](Value item, ValueRange found) {
                      Value mine = value(item);
                      Value more = cmp(Predicate::sgt, mine, found[0]);
                      return SmallVector<Value>{
                          select(more, mine, found[0]),
                          select(more, item, found[1])};
                    })[1];
  // Each row of a tile has all items in its columns.
  auto column = tileType(itemRows, 1, b.getI32Type());
  Value largest =
      forItems(total, itemColumns, fill(i32(-1), column),
               [&](Value first, ValueRange found) {
                 Value values =
                     map({}, tileType(itemRows, itemColumns, b.getI32Type()),
                         [&](Value, Value col, ValueRange) {
                           Value item = add(first, col);
                           item = min(item, sub(total, i32(1)));
                           return SmallVector<Value>{value(item)};
                         })
                         .front();
                 auto larger = [&](Value x, Value y) { return max(x, y); };
                 Value most = reduce(values, i32(-1), /*ordered=*/false,
                                     [&](ValueRange x, ValueRange y) {
                                       return SmallVector<Value>{
                                           larger(x[0], y[0])};
                                     })
                                  .front();
                 return map({found.front(), most}, column,
                            [&](Value, Value, ValueRange x) {
                              return SmallVector<Value>{larger(x[0], x[1])};
                            });
               })
          .front();
  return forItems(total, itemRows, total, [&](Value first, ValueRange found) {
           SmallVector<Value> words = bitsOf(
               first, total, largest, {[&](Value item, ValueRange x) {
                 return cmp(Predicate::eq, value(item), x[0]);
               }});
           return SmallVector<Value>{
               lowestBit(b, loc, words, first, found.front())};
         })
      .front();
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
  Value some = both(cmp(Predicate::sgt, sizes.slots, i32(0)),
                    cmp(Predicate::sgt, toI32(dim(arg(share.getKey()), 0)),
                        i32(0)));
  return select(some, arith::DivUIOp::create(b, loc, keys, page), i32(0));
}

void ShareKernel::buildFind(int64_t level, Value counts, Value keys,
                            Value block) {
  start(block);
  Value mine = toIndex(sequence), at = index(level);
  if (level == 0) {
    // Groups that nobody fills have no rows.
    auto loop = scf::ForOp::create(b, loc, mine, toIndex(sizes.groups),
                                   toIndex(sequences));
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
  auto ifOp = scf::IfOp::create(
      b, loc, TypeRange{b.getI32Type(), b.getI32Type()}, hasMore,
      /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    Value page = pageAt(sequence, base);
    Value leader = findFirst(sequences, [&](Value other) {
      Value same = both(cmp(Predicate::eq, baseOf(other), base),
                        cmp(Predicate::sgt, pagesOf(other), base));
      return both(same, cmp(Predicate::eq, pageAt(other, base), page));
    });
    leader = min(leader, sequence);
    Value common = sub(min(pages, pagesOf(leader)), base);
    Value end = findFirst(common, [&](Value next) {
      Value mine = pageAt(sequence, add(base, next));
      Value differs =
          cmp(Predicate::ne, mine, pageAt(leader, add(base, next)));
      return arith::OrIOp::create(b, loc, differs,
                                  cmp(Predicate::slt, mine, i32(0)))
          .getResult();
    });
    leader = select(cmp(Predicate::sge, page, i32(0)), leader, i32(-1));
    scf::YieldOp::create(b, loc, ValueRange{leader, add(base, end)});
    b.setInsertionPointToStart(ifOp.elseBlock());
    scf::YieldOp::create(b, loc, ValueRange{i32(-1), base});
  }
  store(ifOp.getResult(0), lists.leader, {at, mine});
  store(ifOp.getResult(1), lists.end, {at, mine});
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
        Value members =
            count(sequences, {[&](Value other) {
                    Value there = toIndex(other);
                    return both(cmp(Predicate::eq,
                                    load(lists.leader, {at, there}), leader),
                                cmp(Predicate::sge,
                                    load(lists.end, {at, there}), end));
                  }})
                .front();
        return mul(sub(members, i32(1)), sub(end, base));
      });
  store(gain, lists.gain, {at, mine});
  tile::ReturnOp::create(b, loc);
}

void ShareKernel::buildCut(int64_t level, Value block) {
  start(block);
  Value at = index(level), mine = toIndex(sequence);
  Value leader = load(lists.leader, {at, mine});
  Value base = level ? load(lists.base, {index(level - 1), mine}) : i32(0);
  auto ifOp = scf::IfOp::create(
      b, loc, TypeRange{b.getI32Type(), b.getI32Type()},
      cmp(Predicate::sge, leader, i32(0)), /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    Value best = findLargest(sequences, [&](Value other) {
      Value there = toIndex(other);
      Value same =
          cmp(Predicate::eq, load(lists.leader, {at, there}), leader);
      return select(same, load(lists.gain, {at, there}), i32(-1));
    });
    best = toIndex(min(best, sub(sequences, i32(1))));
    Value cut = load(lists.end, {at, best});
    Value shares =
        both(cmp(Predicate::sgt, load(lists.gain, {at, best}), i32(0)),
             cmp(Predicate::sge, load(lists.end, {at, mine}), cut));
    scf::YieldOp::create(b, loc,
                         ValueRange{select(shares, leader, i32(-1)),
                                    select(shares, cut, base)});
    b.setInsertionPointToStart(ifOp.elseBlock());
    scf::YieldOp::create(b, loc, ValueRange{i32(-1), base});
  }
  store(ifOp.getResult(0), lists.group, {at, mine});
  store(ifOp.getResult(1), lists.base, {at, mine});
  tile::ReturnOp::create(b, loc);
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// Sequences that share pages are numbered by level, by the first sequence of
/// theirs, and as they come. With s of them in a group, and g such firsts and n
/// sequences before the first of theirs, they are in the groups from n / s + g
/// on: no two in one, and few groups are left out.
void ShareKernel::buildPlace(Value counts, Value keys, Value starts,
                             Value places, Value block) {
  start(block);
  int64_t levels = share.getLevels();
  Value mine = toIndex(sequence);
  Value page = toI32(dim(arg(share.getKey()), 2));
  Value total = mul(sequences, i32(levels));
  Value slots = max(sizes.slots, i32(1));
  Value behind = i32(0); // pages that it has in groups
  for (int64_t level = 0; level < levels; ++level) {
    Value at = index(level);
    Value group = load(lists.group, {at, mine});
    Value before = level ? load(lists.base, {index(level - 1), mine}) : i32(0);
    Value after = load(lists.base, {at, mine});
    Value place =
        branch(cmp(Predicate::sge, group, i32(0)), i32(-1), [&]() -> Value {
          Value offset = mul(sequences, i32(level));
          Value own = add(offset, group), item = add(offset, sequence);
          // Its level, the sequence, and the number that its group goes by.
          auto find = [&](Value other) {
            auto [where, which] = divide(other, sequences);
            Value of = load(lists.group, {toIndex(where), toIndex(which)});
            Value number = add(mul(where, sequences), of);
            return std::tuple(which, of, number);
          };
          auto shares = [&](Value of) {
            return cmp(Predicate::sge, of, i32(0));
          };
          auto isBefore = [&](Value other) {
            auto [which, of, number] = find(other);
            return both(shares(of), cmp(Predicate::slt, number, own));
          };
          auto isFirst = [&](Value other) {
            auto [which, of, number] = find(other);
            return both(both(shares(of), cmp(Predicate::eq, of, which)),
                        cmp(Predicate::slt, number, own));
          };
          auto isMember = [&](Value other) {
            auto [which, of, number] = find(other);
            return both(shares(of), cmp(Predicate::eq, number, own));
          };
          auto isEarlier = [&](Value other) {
            return both(isMember(other), cmp(Predicate::slt, other, item));
          };
          SmallVector<Value> found =
              count(total, {isBefore, isFirst, isMember, isEarlier});
          Value full, rest;
          std::tie(full, rest) = divide(found[3], slots);
          Value chunk = add(add(divide(found[0], slots).first, found[1]), full);
          auto fits = cmp(Predicate::slt, chunk, sizes.groups);
          return branch(fits, i32(-1), [&]() -> Value {
            Value there = toIndex(chunk);
            store(sequence, lists.members, {there, toIndex(rest)});
            branch(cmp(Predicate::eq, rest, i32(0)), [&] {
              Value members = min(sub(found[2], found[3]), slots);
              store(mul(members, sizes.rows), counts, there);
              store(mul(sub(after, before), page), keys, there);
              store(before, lists.firstPage, there);
              store(sequence, lists.owner, there);
            });
            return add(mul(chunk, i32(cast<ShapedType>(
                                          share.getQueries().getType())
                                          .getDimSize(2))),
                       mul(rest, sizes.rows));
          });
        });
    store(place, places, {at, mine});
    behind = select(cmp(Predicate::sge, place, i32(0)), after, behind);
  }
  store(mul(behind, page), starts, mine);
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
  branch(both(isRows, no(some)), [&] {
    storeRows(fill(f32(0.0f), tileType(numRows, blockChannels)));
  });
  branch(both(some, isRows), [&] {
    Value ofSequence = toI32(dim(queries, 2));
    Value firstHead =
        mul(toI32(keyHead), arith::DivUIOp::create(
                                b, loc, sizes.rows, max(ofSequence, i32(1))));
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
              Value read = load(queries,
                                {toIndex(member),
                                 toIndex(add(firstHead, inGroup)),
                                 toIndex(position),
                                 toIndex(min(c, i32(depth - 1)))});
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

void PlanBuilder::convertShare(ShareOp op) {
  Location loc = op.getLoc();
  auto at = [&](int64_t value) { return index(value, loc); };
  auto dim = [&](Value tensor, int64_t d) -> Value {
    return memref::DimOp::create(b, loc, mapping.lookup(tensor), d);
  };
  auto toI32 = [&](Value value) -> Value {
    return arith::IndexCastOp::create(b, loc, b.getI32Type(), value);
  };
  auto divide = [&](Value x, Value y) -> Value {
    return arith::DivUIOp::create(b, loc, x, y);
  };
  auto times = [&](Value x, Value y) -> Value {
    return arith::MulIOp::create(b, loc, x, y);
  };
  auto plus = [&](Value x, Value y) -> Value {
    return arith::AddIOp::create(b, loc, x, y);
  };
  auto positive = [&](Value x) -> Value {
    return arith::MaxUIOp::create(b, loc, x, at(1));
  };
  auto rowsType = cast<RankedTensorType>(op.getQueries().getType());
  int64_t numRows = rowsType.getDimSize(2), levels = op.getLevels();
  Value sequences = dim(op.getQuery(), 0), pages = dim(op.getTable(), 1);
  Value keyHeads = dim(op.getKey(), 1);
  Value rows = times(divide(dim(op.getQuery(), 1), positive(keyHeads)),
                     dim(op.getQuery(), 2));
  Value slots = divide(at(numRows), positive(rows));
  // Groups of one sequence would share nothing.
  Value pays = arith::CmpIOp::create(b, loc, Predicate::ugt, slots, at(1));
  slots = arith::SelectOp::create(b, loc, pays, slots, at(0));
  // Those that sequences fill, and some that they do not.
  constexpr int64_t leastGroups = 4, sequencesOfGroup = 16;
  Value most = times(sequences, at(levels));
  Value groups = plus(divide(most, positive(slots)),
                      plus(divide(sequences, at(sequencesOfGroup)),
                           at(leastGroups)));
  groups = arith::MinUIOp::create(b, loc, groups, most);

  // Results, in the order that they have.
  auto make = [&](ArrayRef<int64_t> shape, ArrayRef<Value> sizes,
                  Type type) -> Value {
    return tile::WorkspaceOp::create(b, loc, MemRefType::get(shape, type),
                                     sizes);
  };
  constexpr int64_t any = ShapedType::kDynamic;
  Type i32 = b.getI32Type();
  auto shapeOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  };
  SmallVector<Value> heads = {groups};
  if (rowsType.isDynamicDim(1))
    heads.push_back(keyHeads);
  Value gathered = make(rowsType.getShape(), heads, rowsType.getElementType());
  Value tables = make({any, any}, {groups, pages}, i32);
  Value keys = make({any}, groups, i32), counts = make({any}, groups, i32);
  auto perSequence = [&](Value result) {
    ArrayRef<int64_t> shape = shapeOf(result);
    return make(shape,
                ShapedType::isDynamic(shape.back()) ? ArrayRef(sequences)
                                                    : ArrayRef<Value>(),
                i32);
  };
  Value starts = perSequence(op.getStarts()), places = perSequence(op.getPlaces());
  for (auto [result, memory] :
       llvm::zip_equal(op->getResults(),
                       SmallVector<Value>{gathered, tables, keys, counts,
                                          starts, places}))
    mapping.map(result, memory);

  SmallVector<Value> extra = {counts, keys};
  for (int i = 0; i < 5; ++i) // leader, end, gain, group, base
    extra.push_back(make({levels, any}, sequences, i32));
  for (int i = 0; i < 2; ++i) // first page, owner
    extra.push_back(make({any}, groups, i32));
  extra.push_back(make({any, numRows}, groups, i32)); // members
  size_t firstSize = extra.size();
  for (Value size : {slots, rows, groups})
    extra.push_back(toI32(size));
  size_t firstOwn = extra.size();
  auto launch = [&](Value grid, ArrayRef<Value> own, auto build) {
    SmallVector<Value> all = extra;
    llvm::append_range(all, own);
    Kernel kernel = startKernel(op, op->getOperands(), {}, all, {});
    ArrayRef<Value> given = kernel.extra;
    ShareKernel::Lists lists = {given[2], given[3], given[4], given[5],
                                given[6], given[7], given[8], given[9]};
    ShareKernel::Sizes sizes = {given[firstSize], given[firstSize + 1],
                                given[firstSize + 2]};
    ShareKernel builder(op, target, kernel.func, lists, sizes);
    for (auto [i, operand] : llvm::enumerate(kernel.operands))
      builder.bind(operand, kernel.func.getArgument(i));
    build(builder, given, given.drop_front(firstOwn), kernel.block);
    tile::LaunchOp::create(b, loc, kernel.func.getName(), grid,
                           kernel.launchArguments);
  };
  using Given = ArrayRef<Value>;
  for (int64_t level = 0; level < levels; ++level) {
    launch(sequences, {}, [&](ShareKernel &k, Given all, Given, Value block) {
      k.buildFind(level, all[0], all[1], block);
    });
    launch(sequences, {}, [&](ShareKernel &k, Given, Given, Value block) {
      k.buildWeigh(level, block);
    });
    launch(sequences, {}, [&](ShareKernel &k, Given, Given, Value block) {
      k.buildCut(level, block);
    });
  }
  launch(sequences, {starts, places},
         [&](ShareKernel &k, Given all, Given own, Value block) {
           k.buildPlace(all[0], all[1], own[0], own[1], block);
         });
  Value numTables = arith::CeilDivUIOp::create(
      b, loc, pages, at(ShareKernel::blockEntries));
  Value ofGroup =
      plus(numTables, times(keyHeads, at(ShareKernel::countSlices(op))));
  launch(times(groups, ofGroup), {gathered, tables, numTables},
         [&](ShareKernel &k, Given all, Given own, Value block) {
           k.buildGather(own[0], own[1], all[0], own[2], block);
         });
}
