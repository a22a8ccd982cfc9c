//===- ExpandStream.cpp - Loops over tiles of keys ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// tile-expand-stream: which loops a stream becomes is the schedule's.
//
//   plain    one loop over all keys, of partial tiles
//   masked   one loop over the live keys, each tile tested where that can be
//   peeled   a loop for each class: partial tiles, the core, partial tiles
//
// Where warps have roles, the products of a step run beside the next step's
// other work (tile-gpu-assign-stages). Those of the first step have nothing to
// run beside: it stands ahead of the loops. A tile of any class can be the
// first one; it takes the partial body, and with it whether it is whole.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/FewRows.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Dialect/Tile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

#define DEBUG_TYPE "tile-expand-stream"

namespace attn {
#define GEN_PASS_DEF_TILEEXPANDSTREAMPASS
#include "attn/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::tile;
using Predicate = arith::CmpIPredicate;
using mlir::attn::LoopShape;

namespace {

using State = SmallVector<Value>;

/// Makes the loops of one stream.
class Expander {
public:
  /// `apart`: the first tile stands ahead of the loops.
  Expander(StreamOp op, LoopShape shape, bool apart)
      : op(op), shape(shape), apart(apart), b(op), loc(op.getLoc()) {}
  void run() {
    State state = op.getNumPartial() ? expandLists() : expandRanges();
    op->replaceAllUsesWith(state);
    op->erase();
  }

private:
  //===--- Values ---------------------------------------------------------===//
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, loc, value);
  }
  Value truth(bool value) {
    return arith::ConstantIntOp::create(b, loc, b.getI1Type(), value);
  }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }
  Value min(Value x, Value y) { return arith::MinSIOp::create(b, loc, x, y); }
  Value max(Value x, Value y) { return arith::MaxSIOp::create(b, loc, x, y); }
  Value cmp(Predicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  }
  Value select(Value c, Value x, Value y) {
    return arith::SelectOp::create(b, loc, c, x, y);
  }
  Value step() { return index(op.getStep()); }
  /// Where the tile begins that key `x` lies in, or the first one from `x` on.
  Value wholeTiles(Value x, bool up);

  //===--- Control --------------------------------------------------------===//
  using Build = function_ref<State()>;
  using BuildTile = function_ref<State(Value, ValueRange)>;
  State inlined(Region &body, ArrayRef<Value> first, ValueRange state = {});
  State ifElse(Value condition, Build then, Build otherwise);
  State loop(Value from, Value to, ValueRange state, BuildTile body);

  //===--- Ranges ---------------------------------------------------------===//
  State expandRanges();
  State expandPeeled(Value start);
  State peeledLoops(Value start, bool hasHead, Value second,
                    ValueRange initial);
  State partial(Value key, ValueRange state);
  State tested(Value key, ValueRange state);
  State whole(Value position, ValueRange state);
  void orderTiles(bool hasHead);
  Value keyAt(Value position) { return order ? order(position) : position; }

  //===--- Lists ----------------------------------------------------------===//
  State expandLists();
  Value numberAt(Value place, bool isFull);
  State listed(Value number, Value place, bool isFull, bool isRagged,
               ValueRange state);
  State loopListed(int64_t from, Value to, bool isFull, ValueRange state);

  StreamOp op;
  LoopShape shape;
  bool apart;
  OpBuilder b;
  Location loc;
  /// The tiles of the core: [coreStart, coreEnd), of which the loop over full
  /// or linear ones ends at `wholeEnd`.
  Value coreStart, coreEnd, wholeEnd;
  /// With linear tiles on two sides positions count tiles in the order in which
  /// they come: the key at a position; how far it is from the position of a
  /// linear tile, and whether that is on the left.
  std::function<Value(Value)> order, offset, isLeft;
};

} // namespace

Value Expander::wholeTiles(Value x, bool up) {
  bool isFirst = matchPattern(op.getFirst(), m_Zero());
  if (isFirst && matchPattern(x, m_Zero()))
    return x;
  Value offset = isFirst ? x : sub(max(x, op.getFirst()), op.getFirst());
  Value tiles =
      up ? arith::CeilDivUIOp::create(b, loc, offset, step()).getResult()
         : arith::DivUIOp::create(b, loc, offset, step()).getResult();
  Value keys = arith::MulIOp::create(b, loc, tiles, step());
  return isFirst ? keys : add(op.getFirst(), keys);
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

State Expander::inlined(Region &body, ArrayRef<Value> first, ValueRange state) {
  IRMapping mapping;
  Block &block = body.front();
  mapping.map(block.getArguments().take_front(first.size()), first);
  mapping.map(block.getArguments().drop_front(first.size()), state);
  for (Operation &inner : block.without_terminator())
    b.clone(inner, mapping);
  return llvm::map_to_vector(
      block.getTerminator()->getOperands(),
      [&](Value value) { return mapping.lookupOrDefault(value); });
}

/// Ends a branch or loop with its values; without any it has its end already.
static void finish(OpBuilder &b, Location loc, ValueRange values) {
  if (!values.empty())
    scf::YieldOp::create(b, loc, values);
}

State Expander::ifElse(Value condition, Build then, Build otherwise) {
  auto ifOp = scf::IfOp::create(b, loc, op.getResultTypes(), condition,
                                /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&ifOp.getThenRegion().front());
  finish(b, loc, then());
  b.setInsertionPointToStart(&ifOp.getElseRegion().front());
  finish(b, loc, otherwise());
  return ifOp.getResults();
}

State Expander::loop(Value from, Value to, ValueRange state, BuildTile body) {
  auto forOp = scf::ForOp::create(b, loc, from, to, step(), state);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forOp.getBody());
  finish(b, loc, body(forOp.getInductionVar(), forOp.getRegionIterArgs()));
  return forOp.getResults();
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

/// A tile that may be partial, in the loop over such tiles; a dead one is
/// skipped where that can be seen.
State Expander::partial(Value key, ValueRange state) {
  auto body = [&] {
    return inlined(op.getPartialBody(), {key, truth(false)}, state);
  };
  if (op.getClassify().empty() || shape == LoopShape::plain)
    return body();
  Value dead = inlined(op.getClassify(), {key}).front();
  Value alive = b.createOrFold<arith::XOrIOp>(loc, dead, truth(true));
  return ifElse(alive, body, [&] { return State(state); });
}

/// A tile of any class, which is found at run time.
State Expander::tested(Value key, ValueRange state) {
  if (op.getClassify().empty() || op.getFullBody().empty())
    return partial(key, state);
  State classes = inlined(op.getClassify(), {key});
  return ifElse(
      classes[1], [&] { return inlined(op.getFullBody(), {key}, state); },
      [&] {
        Value alive =
            b.createOrFold<arith::XOrIOp>(loc, classes[0], truth(true));
        return ifElse(
            alive,
            [&] {
              return inlined(op.getPartialBody(), {key, truth(false)}, state);
            },
            [&] { return State(state); });
      });
}

State Expander::expandRanges() {
  State state = op.getInits();
  auto partialTile = [&](Value key, ValueRange state) {
    return partial(key, state);
  };
  if (shape == LoopShape::plain)
    return loop(op.getFirst(), op.getEnd(), state, partialTile);
  Value start = wholeTiles(op.getLower(), /*up=*/false);
  if (shape == LoopShape::masked)
    return loop(start, op.getUpper(), state, [&](Value key, ValueRange state) {
      return tested(key, state);
    });
  if (!op.getCoreLower())
    return loop(start, op.getUpper(), state, partialTile);
  return expandPeeled(start);
}

/// Partial tiles, the core without any test, partial tiles.
State Expander::expandPeeled(Value start) {
  coreStart = max(wholeTiles(op.getCoreLower(), /*up=*/true), start);
  coreEnd = wholeTiles(min(op.getCoreUpper(), op.getUpper()), /*up=*/false);
  Value some = cmp(Predicate::slt, coreStart, coreEnd);
  coreEnd = select(some, coreEnd, start);
  bool hasHead = !matchPattern(op.getCoreLower(), m_Zero());
  coreStart = hasHead ? select(some, coreStart, start) : start;
  if (!apart)
    return peeledLoops(start, hasHead, /*second=*/Value(), op.getInits());
  return ifElse(
      cmp(Predicate::slt, start, op.getUpper()),
      [&] {
        Value second = add(start, step());
        orderTiles(hasHead);
        Value whole = cmp(Predicate::sle, second, coreEnd);
        if (hasHead)
          whole = arith::AndIOp::create(b, loc, whole,
                                        cmp(Predicate::sle, coreStart, start));
        State first =
            inlined(op.getPartialBody(), {keyAt(start), whole}, op.getInits());
        return peeledLoops(start, hasHead, second, first);
      },
      [&] { return State(op.getInits()); });
}

/// The loops from `start` on or, if it is there, from the `second` tile on.
State Expander::peeledLoops(Value start, bool hasHead, Value second,
                            ValueRange initial) {
  if (!second)
    orderTiles(hasHead);
  State state(initial);
  auto notFirst = [&](Value x) { return second ? max(x, second) : x; };
  auto partialTile = [&](Value position, ValueRange state) {
    return partial(keyAt(position), state);
  };
  if (hasHead)
    state = loop(second ? second : start, coreStart, state, partialTile);
  state = loop(
      notFirst(coreStart), wholeEnd, state,
      [&](Value position, ValueRange state) { return whole(position, state); });
  return loop(notFirst(wholeEnd), op.getUpper(), state, partialTile);
}

State Expander::whole(Value position, ValueRange state) {
  if (!op.getLinear())
    return inlined(op.getFullBody(), {position}, state);
  if (!order)
    return inlined(op.getLinearBody(), {position, truth(true)}, state);
  return inlined(op.getLinearBody(),
                 {add(position, offset(position)), isLeft(position)}, state);
}

/// Linear tiles left and right, then the others of the core; without a head one
/// of the others comes first, where a tile stands alone. Positions are those of
/// the core's tiles.
void Expander::orderTiles(bool hasHead) {
  wholeEnd = coreEnd;
  Value fits = op.getLinear();
  if (!fits)
    return;
  if (!op.getLinearEnd()) {
    wholeEnd = select(fits, coreEnd, coreStart);
    return;
  }
  Value leftEnd = wholeTiles(op.getLinearEnd(), /*up=*/false);
  leftEnd = min(max(leftEnd, coreStart), coreEnd);
  Value rightStart = wholeTiles(op.getLinearStart(), /*up=*/true);
  rightStart = min(max(rightStart, leftEnd), coreEnd);
  leftEnd = select(fits, leftEnd, coreStart);
  rightStart = select(fits, rightStart, coreEnd);

  Value between = sub(rightStart, leftEnd), right = sub(coreEnd, rightStart);
  Value shift = index(0);
  if (!hasHead && apart)
    shift = min(between, step());
  Value end = add(add(leftEnd, right), shift);
  wholeEnd = end;
  Value leftPositions = add(leftEnd, shift);
  Value rightOffset = sub(between, shift), leftOffset = sub(index(0), shift);
  isLeft = [=](Value position) {
    return cmp(Predicate::slt, position, leftPositions);
  };
  offset = [=](Value position) {
    return select(isLeft(position), leftOffset, rightOffset);
  };
  Value first = add(coreStart, shift);
  order = [=](Value position) {
    // The other tiles of the core, and what comes behind it.
    Value key = select(cmp(Predicate::slt, position, coreEnd),
                       sub(position, right), position);
    key = select(cmp(Predicate::slt, position, end),
                 add(position, offset(position)), key);
    // What comes before them.
    return select(cmp(Predicate::slt, position, first),
                  hasHead ? position : leftEnd, key);
  };
}

//===----------------------------------------------------------------------===//
// Lists
//===----------------------------------------------------------------------===//

Value Expander::numberAt(Value place, bool isFull) {
  return inlined(op.getNumber(), {place, truth(isFull)}).front();
}

State Expander::listed(Value number, Value place, bool isFull, bool isRagged,
                       ValueRange state) {
  Value tile = arith::IndexCastOp::create(b, loc, b.getIndexType(), number);
  Value key = arith::MulIOp::create(b, loc, tile, step());
  if (isFull)
    return inlined(op.getFullBody(), {key}, state);
  return inlined(op.getPartialBody(), {key, tile, place, truth(isRagged)},
                 state);
}

/// Tiles of a list from place `from` on.
State Expander::loopListed(int64_t from, Value to, bool isFull,
                           ValueRange state) {
  State initial(state);
  Value last = sub(to, index(1)), first = index(from);
  bool isAhead = !isFull && op.getAhead();
  if (isAhead)
    initial.push_back(numberAt(max(min(first, last), index(0)), isFull));
  auto loop = scf::ForOp::create(b, loc, first, to, index(1), initial);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value place = loop.getInductionVar(), number, following;
  if (isAhead) {
    number = loop.getRegionIterArgs().back();
    following = numberAt(min(add(place, index(1)), last), isFull);
  } else {
    number = numberAt(place, isFull);
  }
  State next = listed(number, place, isFull, /*isRagged=*/from == 0,
                      loop.getRegionIterArgs().take_front(state.size()));
  if (following)
    next.push_back(following);
  finish(b, loc, next);
  return State(loop.getResults().take_front(state.size()));
}

State Expander::expandLists() {
  Value partials = op.getNumPartial(), fulls = op.getNumFull();
  if (!apart) {
    State state = loopListed(0, partials, /*isFull=*/false, op.getInits());
    return loopListed(0, fulls, /*isFull=*/true, state);
  }
  Value zero = index(0);
  auto first = [&](bool isFull) {
    return listed(numberAt(zero, isFull), zero, isFull, /*isRagged=*/true,
                  op.getInits());
  };
  auto some = [&](Value n) { return cmp(Predicate::sgt, n, zero); };
  return ifElse(
      some(partials),
      [&] {
        State next = first(/*isFull=*/false);
        next = loopListed(1, partials, /*isFull=*/false, next);
        return loopListed(0, fulls, /*isFull=*/true, next);
      },
      [&] {
        return ifElse(
            some(fulls),
            [&] {
              State next = first(/*isFull=*/true);
              return loopListed(1, fulls, /*isFull=*/true, next);
            },
            [&] { return State(op.getInits()); });
      });
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct ExpandStreamPass
    : ::attn::impl::TileExpandStreamPassBase<ExpandStreamPass> {
  void runOnOperation() final {
    std::optional<::attn::TargetInfo> target =
        ::attn::getTarget(getOperation());
    if (!target)
      return signalPassFailure();
    SmallVector<StreamOp> streams;
    // Inner ones first: a body is copied as it is.
    getOperation().walk([&](StreamOp op) { streams.push_back(op); });
    for (StreamOp op : streams) {
      auto kernel = op->getParentOfType<KernelOp>();
      mlir::attn::ScheduleAttr schedule =
          kernel ? kernel.getScheduleAttr() : mlir::attn::ScheduleAttr();
      if (!schedule) {
        op.emitOpError("expected to be in a tile.kernel with a schedule, which "
                       "says what loops it becomes (loop = peeled, masked or "
                       "plain)");
        return signalPassFailure();
      }
      // A tile that may turn out dead has no products to count on.
      bool isPeeled =
          op.getCoreLower() && schedule.getLoop() == LoopShape::peeled;
      bool apart = target->hasRoles() &&
                   (schedule.getRows() == target->productShape().m ||
                    ::attn::rowsAreHalf(schedule.getBlockQ(),
                                        schedule.getRows(), *target)) &&
                   op.getClassify().empty() && (isPeeled || op.getNumPartial());
      numApart += apart;
      ++numExpanded;
      Expander(op, schedule.getLoop(), apart).run();
    }
  }
};
} // namespace
