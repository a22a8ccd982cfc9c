//===- Amx.cpp - Products by AMX ------------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// 16x32 by 32x16 bf16 tile products, two by two. A right operand of f32 is in
// three parts of bf16, which have all its bits: their products add up to that
// of f32, in the same sums.
//
//===----------------------------------------------------------------------===//

#include "VectorContext.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::tile;

/// Address of element `offset` elements into `memref`, from its strided form.
static Value addressOf(OpBuilder &builder, Location loc, Value memref,
                       ValueRange indices) {
  auto type = cast<MemRefType>(memref.getType());
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  auto [strides, offset] = type.getStridesAndOffset();
  Value base =
      memref::ExtractAlignedPointerAsIndexOp::create(builder, loc, memref);
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  auto add = [&](Value value, int64_t factor) {
    base = builder.createOrFold<arith::AddIOp>(
        loc, base,
        builder.createOrFold<arith::MulIOp>(loc, value,
                                            constant(factor * bytes)));
  };
  if (ShapedType::isDynamic(offset)) {
    auto metadata =
        memref::ExtractStridedMetadataOp::create(builder, loc, memref);
    add(metadata.getOffset(), 1);
  } else if (offset) {
    add(constant(offset), 1);
  }
  for (auto [value, stride] : llvm::zip(indices, strides))
    add(value, stride);
  Value address =
      arith::IndexCastOp::create(builder, loc, builder.getI64Type(), base);
  return LLVM::IntToPtrOp::create(
      builder, loc, LLVM::LLVMPointerType::get(builder.getContext()), address);
}

static void amxCall(OpBuilder &builder, Location loc, StringRef name,
                    ArrayRef<int64_t> tiles, Value pointer = {},
                    int64_t stride = 0) {
  SmallVector<Value> operands;
  for (int64_t tile : tiles)
    operands.push_back(LLVM::ConstantOp::create(
        builder, loc, builder.getI8Type(), builder.getI8IntegerAttr(tile)));
  if (pointer) {
    operands.push_back(pointer);
    if (stride)
      operands.push_back(
          LLVM::ConstantOp::create(builder, loc, builder.getI64Type(),
                                   builder.getI64IntegerAttr(stride)));
  }
  LLVM::CallIntrinsicOp::create(builder, loc, builder.getStringAttr(name),
                                operands);
}

void mlir::tile::configureAmx(VectorContext &ctx) {
  if (ctx.amxConfigured)
    return;
  ctx.amxConfigured = true;
  // Tile palette 1: every register 16 rows of 64 bytes. Layout of the 64-byte
  // configuration: Intel SDM, LDTILECFG.
  OpBuilder::InsertionGuard guard(ctx.builder);
  Value config = ctx.allocateFlat(64, ctx.builder.getI8Type());
  ctx.builder.setInsertionPointAfterValue(config);
  Location loc = ctx.kernel.getLoc();
  SmallVector<int8_t> bytes(64, 0);
  bytes[0] = 1;
  for (int64_t tile = 0; tile < 8; ++tile) {
    bytes[16 + 2 * tile] = 64;
    bytes[48 + tile] = amxRows;
  }
  VectorType type = ctx.vec(64, ctx.builder.getI8Type());
  Value image =
      ctx.constant(DenseElementsAttr::get(type, ArrayRef<int8_t>(bytes)));
  ctx.storeVector(image, config, ctx.index(0));
  amxCall(ctx.builder, loc, "llvm.x86.ldtilecfg", {},
          addressOf(ctx.builder, loc, config, ValueRange{ctx.index(0)}));
}

void mlir::tile::releaseAmx(VectorContext &ctx) {
  amxCall(ctx.builder, ctx.kernel.getLoc(), "llvm.x86.tilerelease", {});
}

void mlir::tile::dotAmx(VectorContext &ctx, DotOp op, Value lhs, Value rhs,
                        Value acc, Value out, int64_t numParts) {
  Location loc = op.getLoc();
  TileType type = op.getType();
  int64_t depth = op.getDepth();
  int64_t rows = type.getRows(), cols = type.getCols();
  auto strideBytes = [](Value memref) {
    auto type = cast<MemRefType>(memref.getType());
    return type.getStridesAndOffset().first[0] * type.getElementTypeBitWidth() /
           8;
  };
  int64_t lhsStride = strideBytes(lhs), outStride = strideBytes(out);
  Ahead ahead(ctx, llvm::divideCeil(rows, 2 * amxRows),
              llvm::divideCeil(cols, 2 * pairColumns));

  // Accumulators 0..3 as [row tile][column tile], left 4..5, right 6..7.
  auto block = [&](Value r0, Value c0, int64_t rowTiles, int64_t colTiles) {
    auto at = [&](Value base, int64_t offset) -> Value {
      return ctx.builder.createOrFold<arith::AddIOp>(loc, base,
                                                     ctx.index(offset));
    };
    ahead.ask(r0, 2 * amxRows, c0, 2 * pairColumns);
    SmallVector<Value> outAddress;
    for (int64_t i = 0; i < rowTiles; ++i)
      for (int64_t j = 0; j < colTiles; ++j) {
        outAddress.push_back(addressOf(
            ctx.builder, loc, out,
            ValueRange{at(r0, i * amxRows), at(c0, j * pairColumns)}));
        if (acc)
          amxCall(ctx.builder, loc, "llvm.x86.tileloadd64", {i * 2 + j},
                  outAddress.back(), outStride);
        else
          amxCall(ctx.builder, loc, "llvm.x86.tilezero", {i * 2 + j});
      }
    // What is right of the diagonal on the left adds nothing.
    Value last =
        hasLowerLhs(op) ? at(r0, rowTiles * amxRows) : ctx.index(depth);
    ctx.loop(last, amxDepth, loc, [&](Value k) {
      for (int64_t i = 0; i < rowTiles; ++i)
        amxCall(ctx.builder, loc, "llvm.x86.tileloadd64", {4 + i},
                addressOf(ctx.builder, loc, lhs,
                          ValueRange{at(r0, i * amxRows), k}),
                lhsStride);
      for (int64_t part = 0; part < numParts; ++part) {
        for (int64_t j = 0; j < colTiles; ++j) {
          // Block [part][column tile][K / 2][16][2].
          Value offset = ctx.builder.createOrFold<arith::AddIOp>(
              loc,
              ctx.builder.createOrFold<arith::MulIOp>(
                  loc, at(c0, j * pairColumns + part * cols), ctx.index(depth)),
              ctx.builder.createOrFold<arith::MulIOp>(loc, k,
                                                      ctx.index(pairColumns)));
          amxCall(ctx.builder, loc, "llvm.x86.tileloadd64", {6 + j},
                  addressOf(ctx.builder, loc, rhs, ValueRange{offset}), 64);
        }
        for (int64_t i = 0; i < rowTiles; ++i)
          for (int64_t j = 0; j < colTiles; ++j)
            amxCall(ctx.builder, loc, "llvm.x86.tdpbf16ps",
                    {i * 2 + j, 4 + i, 6 + j});
      }
    });
    for (int64_t i = 0; i < rowTiles; ++i)
      for (int64_t j = 0; j < colTiles; ++j)
        amxCall(ctx.builder, loc, "llvm.x86.tilestored64", {i * 2 + j},
                outAddress[i * colTiles + j], outStride);
  };
  auto rowBlock = [&](Value r0, int64_t rowTiles) {
    int64_t whole = cols / (2 * pairColumns) * (2 * pairColumns);
    if (whole)
      ctx.loop(whole, 2 * pairColumns, loc,
               [&](Value c0) { block(r0, c0, rowTiles, 2); });
    if (cols > whole)
      block(r0, ctx.index(whole), rowTiles, 1);
  };
  int64_t wholeRows = rows / (2 * amxRows) * (2 * amxRows);
  if (wholeRows)
    ctx.loop(wholeRows, 2 * amxRows, loc, [&](Value r0) { rowBlock(r0, 2); });
  if (rows > wholeRows)
    rowBlock(ctx.index(wholeRows), 1);
}
