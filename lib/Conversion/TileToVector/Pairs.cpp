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

#include <limits>

using namespace mlir;
using namespace mlir::tile;

/// The order of two rows of 16 columns, one behind the other, in turns.
static SmallVector<int64_t> interleave() {
  SmallVector<int64_t> order;
  for (int64_t lane = 0; lane < pairColumns; ++lane)
    order.append({lane, pairColumns + lane});
  return order;
}

/// An interleaved pair of rows, of 16 columns each: what one instruction makes
/// of two vectors of f32.
static Value roundPair(VectorContext &ctx, Value row, Value next,
                       Location loc) {
  VectorType type = ctx.vec(2 * pairColumns, ctx.builder.getBF16Type());
  Value rounded =
      LLVM::CallIntrinsicOp::create(
          ctx.builder, loc, type,
          ctx.builder.getStringAttr("llvm.x86.avx512bf16.cvtne2ps2bf16.512"),
          ValueRange{next, row})
          .getResult(0);
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

/// What a part leaves of two rows.
static std::pair<Value, Value> subtractPair(VectorContext &ctx, Value pair,
                                            Value row, Value next, bool isFirst,
                                            Location loc) {
  OpBuilder &b = ctx.builder;
  VectorType i32 = ctx.vec(pairColumns, b.getI32Type());
  VectorType f32 = ctx.vec(pairColumns, b.getF32Type());
  auto number = [&](uint32_t value) {
    return ctx.constant(DenseElementsAttr::get(i32, APInt(32, value)));
  };
  Value words = vector::BitCastOp::create(b, loc, i32, pair);
  Value low = arith::ShLIOp::create(b, loc, words, number(16));
  Value high = arith::AndIOp::create(b, loc, words, number(0xffff0000));
  auto rest = [&](Value value, Value part) -> Value {
    part = vector::BitCastOp::create(b, loc, f32, part);
    Value left = arith::SubFOp::create(b, loc, value, part);
    if (!isFirst)
      return left;
    // Of what is not finite nothing is left.
    Value infinity = ctx.constant(DenseElementsAttr::get(
        f32, b.getF32FloatAttr(std::numeric_limits<float>::infinity())));
    Value isFinite =
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT,
                              math::AbsFOp::create(b, loc, left), infinity);
    return arith::SelectOp::create(b, loc, isFinite, left, ctx.zero(f32));
  };
  return {rest(row, low), rest(next, high)};
}

Value mlir::tile::packParts(VectorContext &ctx, Value rows, TileType type,
                            Location loc) {
  int64_t count = type.getNumElements();
  Value into =
      ctx.allocateFlat(numExactParts * count, ctx.builder.getBF16Type());
  forPairs(ctx, rows, type, loc, [&](Value row, Value next, Value offset) {
    for (int64_t part = 0; part < numExactParts; ++part) {
      Value pair = roundPair(ctx, row, next, loc);
      ctx.storeVector(pair, into,
                      ctx.builder.createOrFold<arith::AddIOp>(
                          loc, offset, ctx.index(part * count)));
      if (part + 1 < numExactParts)
        std::tie(row, next) =
            subtractPair(ctx, pair, row, next, /*isFirst=*/part == 0, loc);
    }
  });
  return into;
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
  // The first of its parts is what it is rounded to.
  Value parts = ctx.packedBuffers.lookup({exact, int(Layout::PairParts)});
  ctx.packedBuffers[{result, int(Layout::Pairs)}] =
      parts ? parts : packPairs(ctx, ctx.buffer(exact), type, map.getLoc());
  return true;
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

Value mlir::tile::transposePairs(VectorContext &ctx, Value value,
                                 Location loc) {
  auto type = cast<TileType>(value.getType());
  Value rows = ctx.buffer(value);
  Value into =
      ctx.allocate(TileType::get(ctx.builder.getContext(), type.getCols(),
                                 type.getRows(), type.getElementType()));
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
