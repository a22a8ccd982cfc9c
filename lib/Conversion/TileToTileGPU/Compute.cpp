//===- Compute.cpp - Products, maps and reductions on fragments -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ComputeLowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tile_gpu;

/// Moves a body of the tile dialect into `to`.
static void takeBody(Region &to, Region &from, OpBuilder &b) {
  to.takeBody(from);
  auto yield = cast<tile::YieldOp>(to.front().getTerminator());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(yield);
  YieldOp::create(b, yield.getLoc(), yield.getValues());
  yield.erase();
}

LogicalResult ComputeLowering::lowerFill(tile::FillOp op) {
  Type held = registerType(op.getType(), op);
  if (!held)
    return failure();
  set(op.getResult(), FragFillOp::create(b, op.getLoc(), held, op.getValue()));
  return success();
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

Value ComputeLowering::scaled(Value acc, Value scale, Location loc) {
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  auto map = MapOp::create(b, loc, acc.getType(), ValueRange{acc, scale});
  OpBuilder::InsertionGuard guard(b);
  Block *body = b.createBlock(&map.getBody(), {}, {i32, i32, f32, f32},
                              {loc, loc, loc, loc});
  YieldOp::create(b, loc,
                  Value(arith::MulFOp::create(b, loc, body->getArgument(2),
                                              body->getArgument(3))));
  return map.getResult(0);
}

FailureOr<Value> ComputeLowering::operandA(Value value, Operation *op) {
  Value held = get(value);
  auto type = dyn_cast<FragType>(held.getType());
  Layout layout = operandLayout(cast<tile::TileType>(value.getType()));
  if (isa<SmemType>(held.getType()) || !type || type.getLayout() == layout ||
      type.getElementType().isF32())
    return held;
  // Rounded already; both layouts pack the same registers, so round again
  // from the f32 fragment that it was made of.
  auto convert = held.getDefiningOp<FragConvertOp>();
  if (!convert)
    return op->emitOpError("expected a left operand in shared memory, or made "
                           "by tile.map or tile.load, but got ")
           << type;
  return FragConvertOp::create(b, op->getLoc(),
                               frag(type.getRows(), type.getCols(),
                                    type.getElementType(), layout),
                               convert.getValue())
      .getResult();
}

/// A warp's fragment by way of memory of its own, which it reads back without
/// waiting for others.
FailureOr<Value> ComputeLowering::inSharedMemory(Value held, tile::DotOp op) {
  auto type = dyn_cast<FragType>(held.getType());
  if (!type)
    return held;
  if (scope != Scope::Warp)
    return op.emitOpError("expected a transposed left operand in shared "
                          "memory, but got ")
           << type
           << "; a warpgroup's threads hold rows of it: compute the transposed "
              "of what it is made of instead";
  Location loc = op.getLoc();
  int64_t warps = role.getCount();
  auto tileOf = [&](int64_t rows, int64_t pitch) {
    int64_t bytes = type.getCols() * (is16Bit(type.getElementType()) ? 2 : 4);
    return SmemType::get(b.getContext(), rows, type.getCols(),
                         type.getElementType(),
                         /*swizzle=*/std::gcd<int64_t>(bytes, 128), /*boxes=*/1,
                         pitch, /*transposed=*/false);
  };
  SmemType whole = tileOf(type.getRows() * warps, type.getRows() * warps);
  Value &tile = transposedTiles[whole];
  if (!tile) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(role);
    tile = SmemAllocOp::create(b, loc, whole, /*offset=*/IntegerAttr());
  }
  Value mine = tile;
  if (warps > 1) {
    Value rows =
        arith::ConstantIntOp::create(b, loc, b.getI32Type(), type.getRows());
    Value zero = arith::ConstantIntOp::create(b, loc, b.getI32Type(), 0);
    mine = SmemSliceOp::create(
        b, loc, tileOf(type.getRows(), whole.getPitch()), tile,
        arith::MulIOp::create(b, loc, role.getBody().getArgument(0), rows),
        zero);
  }
  FragStoreOp::create(b, loc, held, mine, /*fragment_order=*/false);
  return mine;
}

Value ComputeLowering::rampColumns(int64_t cols, Location loc) {
  SmemType type = rampType(b.getContext(), cols);
  for (auto ramp : role->getBlock()->getOps<SmemRampOp>())
    if (ramp.getTile().getType() == type)
      return ramp.getTile();
  OpBuilder outer(role);
  return SmemRampOp::create(outer, loc, type, /*offset=*/IntegerAttr());
}

/// Gives the slot that `tile` is a part of back behind the product that read
/// it.
static void releaseAfterProduct(Value tile, Value product) {
  while (Operation *def = tile.getDefiningOp()) {
    if (auto wait = dyn_cast<RingWaitOp>(def)) {
      for (Operation *user : wait.getRing().getUsers())
        if (auto release = dyn_cast<RingReleaseOp>(user);
            release && release->getBlock() == wait->getBlock() &&
            release.getCounter() == wait.getCounter()) {
          release.getAfterMutable().append(product);
          release->moveAfter(product.getDefiningOp());
        }
      return;
    }
    if (!isa<SmemSliceOp, SmemTransposeOp>(def))
      return;
    tile = def->getOperand(0);
  }
}

/// The transposed product of a tile whose rows are columns: the right operand's
/// transposed times the left one's.
LogicalResult ComputeLowering::lowerTurnedDot(tile::DotOp op) {
  Location loc = op.getLoc();
  Value tile = get(op.getRhs());
  FailureOr<Value> b8 = operandA(op.getLhs(), op);
  if (failed(b8))
    return failure();
  auto fragment = dyn_cast<FragType>(b8->getType());
  if (!isa<SmemType>(tile.getType()) || op.getTransposeLhs() || op.getRamp() ||
      !fragment || fragment.getLayout() != Layout::B)
    return op.emitOpError("expected a left operand of 16 bits in registers and "
                          "a right one in shared memory for rows that are "
                          "columns of a product, but got ")
           << b8->getType() << " and " << tile.getType();
  Value turned = tile;
  if (!op.getTransposeRhs())
    turned = SmemTransposeOp::create(b, loc, tile);
  Type held = registerType(op.getType(), op);
  if (!held)
    return failure();
  Value acc = op.getAcc() ? get(op.getAcc()) : Value();
  if (!acc)
    acc = FragFillOp::create(
        b, loc, held,
        arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f)));
  if (op.getScale())
    acc = scaled(acc, get(op.getScale()), loc);
  Value product = MmaSyncOp::create(b, loc, held, turned, *b8, acc);
  releaseAfterProduct(tile, product);
  set(op.getResult(), product);
  return success();
}

LogicalResult ComputeLowering::lowerDot(tile::DotOp op) {
  if (op.getLhs().getType().getElementType() !=
      op.getRhs().getType().getElementType())
    return op.emitOpError("expected sides of one type on GPUs, but got ")
           << op.getLhs().getType() << " and " << op.getRhs().getType();
  bool isGroupTurned = isTurned(op.getType()) && scope == Scope::Warpgroup;
  if (isTurned(op.getType()) && !isGroupTurned)
    return lowerTurnedDot(op);
  Location loc = op.getLoc();
  Value rhs = get(op.getRhs());
  auto tile = dyn_cast<SmemType>(rhs.getType());
  if (!tile)
    return op.emitOpError("expected a right operand in shared memory, but got ")
           << rhs.getType();
  FailureOr<Value> lhs = operandA(op.getLhs(), op);
  if (failed(lhs))
    return failure();
  if (op.getTransposeLhs()) {
    lhs = inSharedMemory(*lhs, op);
    if (failed(lhs))
      return failure();
    lhs = SmemTransposeOp::create(b, loc, *lhs).getResult();
  }
  if (op.getTransposeRhs() != isGroupTurned)
    rhs = SmemTransposeOp::create(b, loc, rhs);
  if (isGroupTurned) {
    if (!isa<SmemType>(lhs->getType()) || op.getRamp())
      return op.emitOpError("expected both operands in shared memory for rows "
                            "that are columns of a product, but got ")
             << lhs->getType() << " and " << rhs.getType();
    Value right = SmemTransposeOp::create(b, loc, *lhs);
    lhs = std::exchange(rhs, right);
  }
  tile::TileType type = op.getType();
  Type held = registerType(type, op);
  if (!held)
    return failure();
  Value acc = op.getAcc() ? get(op.getAcc()) : Value();
  // Tiles are values, and those that start alike are one; products overwrite
  // registers.
  if (auto fill = acc ? acc.getDefiningOp<FragFillOp>() : FragFillOp();
      fill && !acc.use_empty()) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointAfter(fill);
    acc = FragFillOp::create(b, loc, acc.getType(), fill.getValue());
  }
  if (op.getScale())
    acc = scaled(acc, get(op.getScale()), loc);
  if (scope == Scope::Warp) {
    if (!acc) {
      Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f));
      acc = FragFillOp::create(b, loc, held, zero);
    }
    set(op.getResult(), MmaSyncOp::create(b, loc, held, *lhs, rhs, acc));
    return success();
  }
  if (!is16Bit(tile.getElementType()))
    return op.emitOpError("expected operands of bf16 or f16 on a warpgroup, "
                          "but got ")
           << tile.getElementType();
  auto result = cast<FragType>(held);
  auto token = TokenType::get(b.getContext(), result.getRows(),
                              result.getCols(), b.getF32Type());
  Value columns;
  if (op.getRamp())
    columns = rampColumns(type.getCols(), loc);
  auto unlessAll = [&](int64_t live, int64_t step, int64_t all) {
    live = llvm::alignTo(live, step);
    return live < all ? b.getI64IntegerAttr(live) : IntegerAttr();
  };
  int64_t depth = op.getDepth(), width = type.getCols();
  constexpr ::attn::MmaShape unit = ::attn::MmaShape::warpgroup();
  auto issue = MmaIssueOp::create(
      b, loc, token, *lhs, rhs, acc, op.getRamp(), columns,
      unlessAll(op.getLiveDepth().value_or(depth), unit.k, depth),
      acc ? unlessAll(op.getLiveWidth().value_or(width), unit.nStep, width)
          : IntegerAttr());
  Value issued = issue.getToken();
  set(op.getResult(),
      MmaWaitOp::create(b, loc, TypeRange(held), ValueRange(issued),
                        b.getI64IntegerAttr(0))
          .getResult(0));
  return success();
}

//===----------------------------------------------------------------------===//
// Maps
//===----------------------------------------------------------------------===//

/// What a 16-bit result of a map is rounded from, as f32.
static Value beforeRounding(Value yielded, OpBuilder &b) {
  if (auto truncate = yielded.getDefiningOp<arith::TruncFOp>())
    if (truncate.getIn().getType().isF32())
      return truncate.getIn();
  return arith::ExtFOp::create(b, yielded.getLoc(), b.getF32Type(), yielded);
}

/// The wait for the slot that `tile` is, or is a part of; or null.
static RingWaitOp waitOf(Value tile) {
  if (auto slice = tile.getDefiningOp<SmemSliceOp>())
    tile = slice.getTile();
  return tile.getDefiningOp<RingWaitOp>();
}

/// Lets the slot that `tile` is in be given back behind the read that gave
/// `value`.
static void releaseAfter(Value tile, Value value) {
  RingWaitOp wait = waitOf(tile);
  if (!wait)
    return;
  for (Operation *user : wait.getRing().getUsers())
    if (auto release = dyn_cast<RingReleaseOp>(user);
        release && release->getBlock() == wait->getBlock() &&
        release.getCounter() == wait.getCounter())
      release.getAfterMutable().append(value);
}

/// A warpgroup changes the tile in place, or each of the warps some rows of it,
/// and who reads the result waits for all of them.
LogicalResult ComputeLowering::lowerTurn(tile::TurnOp op) {
  Location loc = op.getLoc();
  Value tile = get(op.getInput());
  auto whole = dyn_cast<SmemType>(tile.getType());
  // Rows of a warp's part, after which the pattern of a swizzle repeats.
  constexpr int64_t partRows = 16;
  bool isGroup = scope == Scope::Warpgroup && role.getCount() == 1;
  if (!whole || whole.getTransposed() || whole.getBoxes() != 1 ||
      !(isGroup || (scope == Scope::Warp && whole.getRows() % partRows == 0)))
    return op.emitOpError("expected rows in shared memory of one warpgroup, or "
                          "of warps a multiple of ")
           << partRows << ", but got " << tile.getType();
  set(op.getResult(), tile);
  auto i32 = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(b, loc, value, 32);
  };
  auto turn = [&](Value rows, Value first) {
    auto turn = SmemTurnOp::create(b, loc, rows, op.getRotary());
    OpBuilder::InsertionGuard guard(b);
    Block &from = op.getBody().front();
    Block *body = b.createBlock(&turn.getBody());
    IRMapping mapping;
    for (BlockArgument argument : from.getArguments())
      mapping.map(argument, body->addArgument(argument.getType(), loc));
    if (first)
      mapping.map(from.getArgument(0),
                  arith::AddIOp::create(b, loc, body->getArgument(0), first));
    for (Operation &inner : from.without_terminator())
      b.clone(inner, mapping);
    SmallVector<Value> yields;
    for (Value value : from.getTerminator()->getOperands())
      yields.push_back(mapping.lookupOrDefault(value));
    YieldOp::create(b, loc, yields);
  };
  if (isGroup) {
    turn(tile, Value());
    return success();
  }
  auto type = SmemType::get(b.getContext(), partRows, whole.getCols(),
                            whole.getElementType(), whole.getSwizzle(),
                            /*boxes=*/1, whole.getPitch(),
                            /*transposed=*/false);
  int64_t parts = whole.getRows() / partRows, members = role.getCount();
  for (int64_t first = 0; first < parts; first += members) {
    OpBuilder::InsertionGuard guard(b);
    Value part = i32(first);
    if (members > 1)
      part = arith::AddIOp::create(b, loc, role.getBody().getArgument(0), part);
    if (first + members > parts) {
      Value isThere = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                            part, i32(parts));
      auto branch = scf::IfOp::create(b, loc, isThere, /*withElse=*/false);
      b.setInsertionPointToStart(branch.thenBlock());
    }
    Value row = arith::MulIOp::create(b, loc, part, i32(partRows));
    Value rows = tile;
    if (type != whole)
      rows = SmemSliceOp::create(b, loc, type, tile, row, i32(0));
    turn(rows, row);
  }
  return success();
}

/// A tile in shared memory in registers, for a map. What maps in branches read,
/// of which one runs, is read once ahead of these: the release of the slot is
/// behind them.
Value ComputeLowering::readMapped(Value slot, SmemType tile, bool isRow,
                                  Operation *map) {
  OpBuilder::InsertionGuard guard(b);
  if (RingWaitOp wait = waitOf(slot)) {
    Operation *here = wait->getBlock()->findAncestorOpInBlock(*map);
    if (here && here != map) {
      for (Operation *user : slot.getUsers())
        if (isa<VecLoadOp, FragLoadOp>(user) &&
            user->getBlock() == here->getBlock())
          return user->getResult(0);
      b.setInsertionPoint(here);
    }
  }
  Location loc = map->getLoc();
  Value held;
  if (isRow)
    held = VecLoadOp::create(
        b, loc, vec(tile.getCols(), tile.getElementType(), Axis::Col), slot,
        /*index=*/Value(), /*permuted=*/false);
  else // Operands and accumulators pack the same registers.
    held = FragLoadOp::create(
        b, loc,
        frag(tile.getRows(), tile.getCols(), tile.getElementType(), Layout::A),
        slot);
  releaseAfter(slot, held);
  return held;
}

LogicalResult ComputeLowering::lowerMap(tile::MapOp op) {
  Location loc = op.getLoc();
  SmallVector<Value> inputs;
  bool statistics = true;
  for (Value input : op.getInputs()) {
    Value held = get(input);
    if (auto tile = dyn_cast<SmemType>(held.getType())) {
      bool isRow = tile.getRows() == 1 && tile.getCols() > 1;
      if (!isRow && (tile.getRows() == 1 || !is16Bit(tile.getElementType())))
        return op.emitOpError("expected tiles in registers, of one row, or of "
                              "16 bits, but got ")
               << tile;
      held = readMapped(held, tile, isRow, op);
    }
    statistics &= isa<VecType>(held.getType());
    inputs.push_back(held);
  }

  // 16-bit results leave the body as f32 and are rounded by a conversion,
  // which packs them for a product.
  Block &body = op.getBody().front();
  auto yield = cast<tile::YieldOp>(body.getTerminator());
  SmallVector<Value> yields;
  SmallVector<Type> types;
  SmallVector<unsigned> from; // For each result, which yield it comes from.
  for (auto [value, result] : llvm::zip(yield.getValues(), op.getResults())) {
    auto type = cast<tile::TileType>(result.getType());
    Value wide = value;
    Type element = type.getElementType();
    if (is16Bit(element)) {
      OpBuilder inner(yield);
      wide = beforeRounding(value, inner);
      element = b.getF32Type();
    }
    Type held = registerType(tile::TileType::get(b.getContext(), type.getRows(),
                                                 type.getCols(), element),
                             op);
    if (!held)
      return failure();
    // A weight is often wanted both in f32, for its sum, and rounded.
    size_t i = llvm::find(yields, wide) - yields.begin();
    if (i == yields.size()) {
      yields.push_back(wide);
      types.push_back(held);
    }
    from.push_back(i);
  }
  yield->setOperands(yields);
  auto map = MapOp::create(b, loc, types, inputs);
  takeBody(map.getBody(), op.getBody(), b);
  Block &moved = map.getBody().front();
  if (isTurned(cast<tile::TileType>(op.getResult(0).getType()))) {
    Value row = moved.getArgument(0), col = moved.getArgument(1);
    SmallVector<OpOperand *> ofRow =
        llvm::map_to_vector(row.getUses(), [](OpOperand &use) { return &use; });
    col.replaceAllUsesWith(row);
    for (OpOperand *use : ofRow)
      use->set(col);
  }
  simplifyExtrema(moved, statistics);
  for (Operation &inner : llvm::make_early_inc_range(llvm::reverse(moved)))
    if (isOpTriviallyDead(&inner))
      inner.erase();

  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    auto type = cast<tile::TileType>(result.getType());
    Value held = map.getResult(from[i]);
    if (is16Bit(type.getElementType())) {
      if (!isa<FragType>(held.getType()))
        return op.emitOpError("expected vectors of f32, i1 or i32, but got ")
               << type;
      bool product = llvm::any_of(result.getUsers(), [](Operation *user) {
        return isa<tile::DotOp>(user);
      });
      auto shape = cast<FragType>(held.getType());
      held = FragConvertOp::create(
          b, loc,
          frag(shape.getRows(), shape.getCols(), type.getElementType(),
               product ? operandLayout(type) : Layout::Acc),
          held);
    }
    set(result, held);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Reductions and scans
//===----------------------------------------------------------------------===//

LogicalResult ComputeLowering::lowerReduce(tile::ReduceOp op) {
  SmallVector<Value> inputs;
  SmallVector<Type> types;
  for (auto [input, result] : llvm::zip(op.getInputs(), op.getResults())) {
    Value held = get(input);
    if (!isa<FragType>(held.getType()))
      return op.emitOpError("expected tiles of several rows and columns in "
                            "registers, but got ")
             << held.getType();
    inputs.push_back(held);
    Type type = registerType(cast<tile::TileType>(result.getType()), op);
    if (!type)
      return failure();
    types.push_back(type);
  }
  auto reduce = ReduceOp::create(b, op.getLoc(), types, inputs,
                                 op.getIdentities(), op.getOrdered());
  takeBody(reduce.getBody(), op.getBody(), b);
  simplifyExtrema(reduce.getBody().front(), /*statistics=*/true);
  for (auto [result, lowered] : llvm::zip(op.getResults(), reduce.getResults()))
    set(result, lowered);
  return success();
}

LogicalResult ComputeLowering::lowerScan(tile::ScanOp op) {
  SmallVector<Value> inputs;
  for (Value input : op.getInputs()) {
    Value held = get(input);
    if (!isa<FragType>(held.getType()))
      return op.emitOpError("expected tiles of several rows and columns in "
                            "registers, but got ")
             << held.getType();
    inputs.push_back(held);
  }
  auto scan = ScanOp::create(b, op.getLoc(), ValueRange(inputs).getTypes(),
                             inputs, op.getIdentities(), op.getReverse());
  takeBody(scan.getBody(), op.getBody(), b);
  simplifyExtrema(scan.getBody().front(), /*statistics=*/true);
  for (auto [result, lowered] : llvm::zip(op.getResults(), scan.getResults()))
    set(result, lowered);
  return success();
}

LogicalResult ComputeLowering::lowerAny(tile::AnyOp op) {
  Value held = get(op.getValue());
  if (!isa<FragType, VecType>(held.getType()))
    return op.emitOpError("expected a tile in registers, but got ")
           << held.getType();
  // A warp whose rows are columns asks about all of them.
  bool byRows = op.getByRows() && !isTurned(typeOf(op.getValue()));
  op.getResult().replaceAllUsesWith(
      AnyOp::create(b, op.getLoc(), b.getI1Type(), held, byRows));
  return success();
}

LogicalResult ComputeLowering::lowerPad(tile::PadOp op) {
  Value held = get(op.getValue());
  Type wide = registerType(op.getType(), op);
  if (!wide)
    return failure();
  auto type = dyn_cast<FragType>(held.getType());
  if (!type || !type.getElementType().isF32() || !isa<FragType>(wide))
    return op.emitOpError("expected tiles of f32 in registers, but got ")
           << held.getType();
  set(op.getResult(),
      FragPadOp::create(b, op.getLoc(), wide, held, op.getFirst()));
  return success();
}

/// Each thread picks the words of its own columns.
LogicalResult ComputeLowering::lowerTruths(tile::TruthsOp op) {
  Location loc = op.getLoc();
  Type held = registerType(op.getType(), op);
  if (!held)
    return failure();
  auto map = MapOp::create(b, loc, TypeRange(held), ValueRange());
  set(op.getResult(), map.getResult(0));
  OpBuilder::InsertionGuard guard(b);
  Type i32 = b.getI32Type();
  Block *body = b.createBlock(&map.getBody(), {}, {i32, i32}, {loc, loc});
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(b, loc, i32, value);
  };
  Value col = body->getArgument(1), word = op.getWords().front();
  Value which = arith::ShRUIOp::create(b, loc, col, number(5));
  for (auto [i, other] : llvm::enumerate(op.getWords().drop_front())) {
    Value here = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, which,
                                       number(i + 1));
    word = arith::SelectOp::create(b, loc, here, other, word);
  }
  Value place = arith::AndIOp::create(b, loc, col, number(31));
  Value bit = arith::AndIOp::create(
      b, loc, arith::ShRUIOp::create(b, loc, word, place), number(1));
  YieldOp::create(b, loc,
                  Value(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne,
                                              bit, number(0))));
  return success();
}
