//===- Pairs.cpp - Tiles in pairs of bf16 ---------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What products of bf16 read: right operands with two rows in turns, rounded
// where they are of f32, or in parts that lose nothing; and left operands
// turned round.
//
//===----------------------------------------------------------------------===//

#include "VectorContext.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tile;

/// The order of two rows of 16 columns, one behind the other, in turns.
static SmallVector<int64_t> interleave() {
  SmallVector<int64_t> order;
  for (int64_t lane = 0; lane < pairColumns; ++lane)
    order.append({lane, pairColumns + lane});
  return order;
}

Value mlir::tile::roundTwo(VectorContext &ctx, Value vector, Value next,
                           Location loc) {
  return LLVM::CallIntrinsicOp::create(
             ctx.builder, loc,
             ctx.vec(2 * pairColumns, ctx.builder.getBF16Type()),
             ctx.builder.getStringAttr("llvm.x86.avx512bf16.cvtne2ps2bf16.512"),
             ValueRange{next, vector})
      .getResult(0);
}

/// An interleaved pair of rows, of 16 columns each.
static Value roundPair(VectorContext &ctx, Value row, Value next,
                       Location loc) {
  Value rounded = roundTwo(ctx, row, next, loc);
  return vector::ShuffleOp::create(ctx.builder, loc, rounded, rounded,
                                   interleave());
}

/// Calls `body` with 16 columns of two rows each, and where in a packed form
/// they are.
static void forPairs(VectorContext &ctx, Value rows, TileType type,
                     Location loc,
                     function_ref<void(Value, Value, Value)> body) {
  ctx.loop(type.getRows(), 2, loc, [&](Value k) {
    Value next = ctx.builder.createOrFold<arith::AddIOp>(loc, k, ctx.index(1));
    ctx.loop(type.getCols(), pairColumns, loc, [&](Value col) {
      Value offset = ctx.builder.createOrFold<arith::AddIOp>(
          loc,
          ctx.builder.createOrFold<arith::MulIOp>(loc, k,
                                                  ctx.index(pairColumns)),
          ctx.builder.createOrFold<arith::MulIOp>(loc, col,
                                                  ctx.index(type.getRows())));
      body(ctx.loadVector(rows, {k, col}, pairColumns),
           ctx.loadVector(rows, {next, col}, pairColumns), offset);
    });
  });
}

Value mlir::tile::packPairs(VectorContext &ctx, Value rows, TileType type,
                            Location loc) {
  Value into =
      ctx.allocateFlat(type.getNumElements(), ctx.builder.getBF16Type());
  bool isWide = type.getElementType().isF32();
  forPairs(ctx, rows, type, loc, [&](Value row, Value next, Value offset) {
    Value pair = isWide ? roundPair(ctx, row, next, loc)
                        : vector::ShuffleOp::create(ctx.builder, loc, row, next,
                                                    interleave())
                              .getResult();
    ctx.storeVector(pair, into, offset);
  });
  return into;
}

/// Two rows of 16 columns, interleaved, in parts that add up to them: the first
/// one is rounded where others read it, or has the upper bits, the others are
/// the bits that follow.
static SmallVector<Value> splitPair(VectorContext &ctx, Value row, Value next,
                                    bool isFirstRounded, Location loc) {
  OpBuilder &b = ctx.builder;
  VectorType i32 = ctx.vec(pairColumns, b.getI32Type());
  VectorType f32 = ctx.vec(pairColumns, b.getF32Type());
  VectorType pairs = ctx.vec(2 * pairColumns, b.getBF16Type());
  auto number = [&](uint32_t value) {
    return ctx.constant(DenseElementsAttr::get(i32, APInt(32, value)));
  };
  auto bits = [&](Value value) -> Value {
    return vector::BitCastOp::create(b, loc, i32, value);
  };
  auto subtract = [&](Value value, Value part) -> Value {
    part = vector::BitCastOp::create(b, loc, f32, part);
    return arith::SubFOp::create(b, loc, value, part);
  };
  auto upper = [&](Value value) -> Value {
    return arith::AndIOp::create(b, loc, bits(value), number(0xffff0000));
  };
  // The upper halves of two rows in turns.
  auto truncated = [&](Value row, Value next) -> Value {
    Value low = arith::ShRUIOp::create(b, loc, bits(row), number(16));
    Value both = arith::OrIOp::create(b, loc, low, upper(next));
    return vector::BitCastOp::create(b, loc, pairs, both);
  };
  SmallVector<Value> parts;
  Value firstOfRow, firstOfNext;
  if (isFirstRounded) {
    parts.push_back(roundPair(ctx, row, next, loc));
    Value words = bits(parts[0]);
    firstOfRow = arith::ShLIOp::create(b, loc, words, number(16));
    firstOfNext = arith::AndIOp::create(b, loc, words, number(0xffff0000));
  } else {
    parts.push_back(truncated(row, next));
    firstOfRow = upper(row);
    firstOfNext = upper(next);
  }
  // Of what is not finite nothing is left: a 0 for each kind of such numbers.
  auto scalar = [&](Type type, int64_t value) {
    return ctx.constant(b.getIntegerAttr(type, value));
  };
  auto rest = [&](Value value, Value part) -> Value {
    Value left = subtract(value, part);
    SmallVector<Value> operands = {left,
                                   left,
                                   number(0x00880088),
                                   scalar(b.getI32Type(), 0),
                                   scalar(b.getI16Type(), -1),
                                   scalar(b.getI32Type(), 4)};
    return LLVM::CallIntrinsicOp::create(
               b, loc, f32,
               b.getStringAttr("llvm.x86.avx512.mask.fixupimm.ps.512"),
               operands)
        .getResult(0);
  };
  row = rest(row, firstOfRow);
  next = rest(next, firstOfNext);
  // 16 bits at most are left: the upper 8 of them, and the others.
  parts.push_back(truncated(row, next));
  parts.push_back(
      truncated(subtract(row, upper(row)), subtract(next, upper(next))));
  return parts;
}

/// 16 columns of rows k and k + 1, from column c.
static std::pair<Value, Value> loadPair(VectorContext &ctx,
                                        const RightRows &from, int64_t depth,
                                        Value k, Value c, Location loc) {
  OpBuilder &b = ctx.builder;
  Value next = b.createOrFold<arith::AddIOp>(loc, k, ctx.index(1));
  Value row, nextRow;
  if (from.arePairs) {
    Value at = b.createOrFold<arith::AddIOp>(
        loc, b.createOrFold<arith::MulIOp>(loc, c, ctx.index(depth)),
        b.createOrFold<arith::MulIOp>(loc, k, ctx.index(pairColumns)));
    VectorType i32 = ctx.vec(pairColumns, b.getI32Type());
    Value words = vector::BitCastOp::create(
        b, loc, i32, ctx.loadVector(from.rows, at, 2 * pairColumns));
    auto number = [&](uint32_t value) {
      return ctx.constant(DenseElementsAttr::get(i32, APInt(32, value)));
    };
    auto asFloat = [&](Value bits) -> Value {
      return vector::BitCastOp::create(
          b, loc, ctx.vec(pairColumns, b.getF32Type()), bits);
    };
    row = asFloat(arith::ShLIOp::create(b, loc, words, number(16)));
    nextRow = asFloat(arith::AndIOp::create(b, loc, words, number(0xffff0000)));
  } else {
    row = ctx.loadVector(from.rows, {k, c}, pairColumns);
    nextRow = ctx.loadVector(from.rows, {next, c}, pairColumns);
  }
  if (!from.factors)
    return {row, nextRow};
  auto scaled = [&](Value row, Value at) -> Value {
    Value factor = memref::LoadOp::create(b, loc, from.factors, at);
    return arith::MulFOp::create(b, loc, row, ctx.splat(factor, pairColumns));
  };
  return {scaled(row, k), scaled(nextRow, next)};
}

void mlir::tile::packSteps(VectorContext &ctx, const RightRows &from,
                           int64_t depth, Value firstCol, int64_t numCols,
                           Value first, Value place, Value others,
                           bool isFirstRounded, Location loc) {
  OpBuilder &b = ctx.builder;
  auto add = [&](Value x, Value y) {
    return b.createOrFold<arith::AddIOp>(loc, x, y);
  };
  auto times = [&](Value x, int64_t y) {
    return b.createOrFold<arith::MulIOp>(loc, x, ctx.index(y));
  };
  // Rounding takes less than a loop does: two pairs in each turn.
  int64_t pairs = others ? 1 : 2;
  ctx.loop(depth, amxDepth, loc, [&](Value step) {
    auto packPair = [&](Value pair) {
      Value k = add(step, pair);
      for (int64_t col = 0; col < numCols; col += pairColumns) {
        auto [row, next] =
            loadPair(ctx, from, depth, k, add(firstCol, ctx.index(col)), loc);
        // Within its block of two column tiles, and where that begins.
        int64_t tile = col % stepColumns * amxDepth;
        Value within = add(times(pair, pairColumns), ctx.index(tile));
        Value start = add(place, ctx.index((col - col % stepColumns) * depth));
        Value at = add(add(start, times(step, stepColumns)), within);
        if (!others) {
          ctx.storeVector(roundPair(ctx, row, next, loc), first, at);
          continue;
        }
        SmallVector<Value> parts =
            splitPair(ctx, row, next, isFirstRounded, loc);
        ctx.storeVector(parts[0], first, at);
        for (int64_t part = 1; part < numExactParts; ++part) {
          Value place = times(step, (numExactParts - 1) * stepColumns);
          place = add(place, ctx.index((part - 1) * stepColumns * amxDepth));
          ctx.storeVector(parts[part], others, add(place, within));
        }
      }
    };
    ctx.loop(amxDepth, 2 * pairs, loc, [&](Value pair) {
      for (int64_t i = 0; i < pairs; ++i)
        packPair(add(pair, ctx.index(2 * i)));
    });
  });
}

Value mlir::tile::allocateSteps(VectorContext &ctx, int64_t depth,
                                int64_t cols) {
  Value into = ctx.allocateFlat(depth * llvm::alignTo(cols, stepColumns),
                                ctx.builder.getBF16Type());
  ctx.inSteps.insert(into);
  return into;
}

/// Whether `value` is read behind `user` in the block of `map`, so that nothing
/// is written over it before.
static bool isReadBehind(Value value, MapOp map, Operation *user) {
  Block *block = map->getBlock();
  Operation *last = block->findAncestorOpInBlock(*user);
  return last && llvm::any_of(value.getUsers(), [&](Operation *other) {
           Operation *ancestor = block->findAncestorOpInBlock(*other);
           return ancestor && last->isBeforeInBlock(ancestor);
         });
}

bool mlir::tile::packRounded(VectorContext &ctx, MapOp map) {
  Value exact = roundedBy(map);
  if (!exact || !ctx.buffer(exact) || !ctx.target.hasBf16Dot)
    return false;
  Value result = map.getResult(0);
  auto type = cast<TileType>(exact.getType());
  SmallVector<Layout> layouts = layoutsNeeded(ctx, result);
  if (!type.getElementType().isF32() ||
      layouts != SmallVector<Layout>{Layout::Pairs})
    return false;
  Value into;
  auto [first, block] = ctx.firstParts.lookup(exact);
  if (!llvm::all_of(result.getUsers(), [&](Operation *user) {
        return usesAmx(ctx, cast<DotOp>(user));
      })) {
    into = packPairs(ctx, ctx.buffer(exact), type, map.getLoc());
  } else if (first && block->findAncestorOpInBlock(*map)) {
    // The first of its parts is what it is rounded to.
    into = first;
  } else if (result.hasOneUse() &&
             isReadBehind(exact, map, *result.user_begin())) {
    // Its product rounds two tiles of columns, which stay in the first cache.
    into = ctx.buffer(exact);
  } else {
    into = allocateSteps(ctx, type.getRows(), type.getCols());
    packSteps(ctx, {ctx.buffer(exact), Value()}, type.getRows(), ctx.index(0),
              type.getCols(), into, /*place=*/ctx.index(0), /*others=*/Value(),
              /*isFirstRounded=*/true, map.getLoc());
  }
  ctx.packedBuffers[{result, int(Layout::Pairs)}] = into;
  return true;
}

/// What scaledByProduct() finds.
static std::pair<Value, Value> findScaled(VectorContext &ctx, MapOp map) {
  if (map.getNumResults() != 1 || map.getInputs().size() != 2 ||
      !map.getResult(0).hasOneUse())
    return {};
  OpOperand &use = *map.getResult(0).use_begin();
  auto dot = dyn_cast<DotOp>(use.getOwner());
  if (!dot || use.getOperandNumber() != 1 ||
      rhsLayout(ctx, dot) != Layout::PairParts ||
      dot->getBlock() != map->getBlock())
    return {};
  Value tile = map.getInputs()[0], column = map.getInputs()[1];
  auto type = cast<TileType>(tile.getType());
  auto result = cast<TileType>(map.getResult(0).getType());
  bool isNarrow = type.getElementType().isBF16();
  if (type.getRows() != result.getRows() ||
      type.getCols() != result.getCols() ||
      column.getType() != TileType::get(map.getContext(), result.getRows(), 1,
                                        result.getElementType()))
    return {};
  // One product of both.
  Block &body = map.getBody().front();
  auto product =
      body.getTerminator()->getOperand(0).getDefiningOp<arith::MulFOp>();
  if (!product || product.getRhs() != body.getArgument(3))
    return {};
  Value left = product.getLhs();
  if (isNarrow)
    if (auto wide = left.getDefiningOp<arith::ExtFOp>())
      left = wide.getIn();
  if (left != body.getArgument(2))
    return {};
  // Loads alone make pairs of bf16 for it.
  if (isNarrow && !tile.getDefiningOp<LoadOp>())
    return {};
  // What they are read from is not written over before.
  for (Value input : {tile, column}) {
    Operation *source = input.getDefiningOp();
    if (!source || source->getBlock() != map->getBlock() ||
        !isa<LoadOp, MapOp, SolveOp>(source))
      return {};
    for (Operation *user : input.getUsers()) {
      Operation *at = map->getBlock()->findAncestorOpInBlock(*user);
      if (at && at != map && map->isBeforeInBlock(at) &&
          !dot->isBeforeInBlock(at))
        return {};
    }
  }
  return {tile, column};
}

std::pair<Value, Value> mlir::tile::scaledByProduct(VectorContext &ctx,
                                                    MapOp map) {
  // Decided before what reads the tile is lowered.
  auto known = ctx.scaled.find(map);
  if (known == ctx.scaled.end())
    known = ctx.scaled.try_emplace(map, findScaled(ctx, map)).first;
  return known->second;
}

RightRows mlir::tile::rightRows(VectorContext &ctx, DotOp op) {
  Value value = op.getRhs();
  if (rhsLayout(ctx, op) == Layout::PairParts) {
    auto map = value.getDefiningOp<MapOp>();
    auto [tile, column] =
        map ? scaledByProduct(ctx, map) : std::pair<Value, Value>();
    if (!tile)
      return {ctx.buffer(value), Value()};
    Value pairs = ctx.packedBuffers.lookup({tile, int(Layout::Pairs)});
    bool isNarrow = cast<TileType>(tile.getType()).getElementType().isBF16();
    return {isNarrow ? pairs : ctx.buffer(tile), ctx.buffer(column), isNarrow};
  }
  Value rows = ctx.packedBuffers.lookup({value, int(Layout::Pairs)});
  if (rows && cast<MemRefType>(rows.getType()).getElementType().isF32())
    return {rows, Value()};
  return {};
}

/// Turns round a block of words of two neighbours each: 32 rows, of which two
/// halves of words are a row of the result.
static void transposeWords(VectorContext &ctx, Value rows, Value into,
                           Value row, Value col, Location loc) {
  constexpr int64_t width = 2 * pairColumns;
  Type element = cast<MemRefType>(rows.getType()).getElementType();
  VectorType pairs = ctx.vec(width, element);
  VectorType words = ctx.vec(pairColumns, ctx.builder.getI32Type());
  auto at = [&](Value base, int64_t offset) -> Value {
    return ctx.builder.createOrFold<arith::AddIOp>(loc, base,
                                                   ctx.index(offset));
  };
  SmallVector<Value> halves[2];
  for (auto [half, block] : llvm::enumerate(halves)) {
    for (int64_t i = 0; i < pairColumns; ++i)
      block.push_back(vector::BitCastOp::create(
          ctx.builder, loc, words,
          ctx.loadVector(rows, {at(row, half * pairColumns + i), col}, width)));
    transposeLanes(ctx.builder, loc, block);
  }
  SmallVector<int64_t> order[2];
  for (int64_t i = 0; i < 2 * width; ++i)
    order[i % 2].push_back(i);
  for (int64_t i = 0; i < pairColumns; ++i) {
    Value left =
        vector::BitCastOp::create(ctx.builder, loc, pairs, halves[0][i]);
    Value right =
        vector::BitCastOp::create(ctx.builder, loc, pairs, halves[1][i]);
    for (int64_t odd = 0; odd < 2; ++odd)
      ctx.storeVector(
          vector::ShuffleOp::create(ctx.builder, loc, left, right, order[odd]),
          into, {at(col, 2 * i + odd), row});
  }
}

/// The same from pairs of columns in Layout::PairsTransposed: two halves of
/// words are two rows.
static void splitWords(VectorContext &ctx, Value pairs, TileType type,
                       Value into, Location loc) {
  OpBuilder &b = ctx.builder;
  constexpr int64_t width = 2 * pairColumns;
  SmallVector<int64_t> order[2];
  for (int64_t i = 0; i < 2 * width; ++i)
    order[i % 2].push_back(i);
  int64_t cols = type.getCols();
  ctx.loop(type.getRows(), amxDepth, loc, [&](Value row) {
    Value start = b.createOrFold<arith::MulIOp>(loc, row, ctx.index(cols));
    ctx.loop(cols, 2, loc, [&](Value col) {
      Value at = b.createOrFold<arith::AddIOp>(
          loc, start,
          b.createOrFold<arith::MulIOp>(loc, col, ctx.index(pairColumns)));
      Value behind =
          b.createOrFold<arith::AddIOp>(loc, at, ctx.index(pairColumns * cols));
      Value left = ctx.loadVector(pairs, at, width),
            right = ctx.loadVector(pairs, behind, width);
      for (int64_t odd = 0; odd < 2; ++odd)
        ctx.storeVector(
            vector::ShuffleOp::create(b, loc, left, right, order[odd]), into,
            {b.createOrFold<arith::AddIOp>(loc, col, ctx.index(odd)), row});
    });
  });
}

bool mlir::tile::turnsPairs(VectorContext &ctx, DotOp op) {
  Value value = op.getLhs();
  auto load = value.getDefiningOp<LoadOp>();
  TileType type = op.getLhs().getType();
  return op.getTransposeLhs() && load && !load.getTransposed() &&
         type.getElementType().isBF16() && type.getRows() % amxDepth == 0 &&
         type.getCols() % amxDepth == 0 &&
         (usesAmx(ctx, op) || rhsLayout(ctx, op) == Layout::PairParts) &&
         llvm::any_of(value.getUsers(), [&](Operation *user) {
           auto dot = dyn_cast<DotOp>(user);
           return dot && dot.getRhs() == value &&
                  rhsLayout(ctx, dot) == Layout::PairsTransposed;
         });
}

Value mlir::tile::transposePairs(VectorContext &ctx, DotOp op, Location loc) {
  Value value = op.getLhs();
  auto type = cast<TileType>(value.getType());
  Value rows = ctx.buffer(value);
  Value into =
      ctx.allocate(TileType::get(ctx.builder.getContext(), type.getCols(),
                                 type.getRows(), type.getElementType()));
  if (turnsPairs(ctx, op)) {
    splitWords(ctx,
               ctx.packedBuffers.lookup({value, int(Layout::PairsTransposed)}),
               type, into, loc);
    return into;
  }
  if (type.getRows() % amxDepth == 0 && type.getCols() % amxDepth == 0) {
    ctx.loop(type.getRows(), amxDepth, loc, [&](Value row) {
      ctx.loop(type.getCols(), amxDepth, loc, [&](Value col) {
        transposeWords(ctx, rows, into, row, col, loc);
      });
    });
    return into;
  }
  auto at = [&](Value base, int64_t offset) -> Value {
    return ctx.builder.createOrFold<arith::AddIOp>(loc, base,
                                                   ctx.index(offset));
  };
  ctx.loop(type.getRows(), pairColumns, loc, [&](Value row) {
    ctx.loop(type.getCols(), pairColumns, loc, [&](Value col) {
      SmallVector<Value> block;
      for (int64_t i = 0; i < pairColumns; ++i)
        block.push_back(ctx.loadVector(rows, {at(row, i), col}, pairColumns));
      transposeLanes(ctx.builder, loc, block);
      for (int64_t i = 0; i < pairColumns; ++i)
        ctx.storeVector(block[i], into, {at(col, i), row});
    });
  });
  return into;
}
