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
#include "mlir/Dialect/Math/IR/Math.h"

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
                    Value stride = {}) {
  SmallVector<Value> operands;
  for (int64_t tile : tiles)
    operands.push_back(LLVM::ConstantOp::create(
        builder, loc, builder.getI8Type(), builder.getI8IntegerAttr(tile)));
  if (pointer) {
    operands.push_back(pointer);
    if (stride)
      operands.push_back(stride);
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

namespace {

/// A product by AMX, in blocks of two by two tiles: accumulators 0..3 as [row
/// tile][column tile], left 4..5, right 6..7.
class AmxProduct {
public:
  AmxProduct(VectorContext &ctx, DotOp op, Value lhs, Value rhs, Value acc,
             Value scale, Value out)
      : ctx(ctx), op(op), loc(op.getLoc()), lhs(lhs), rhs(rhs), acc(acc),
        scale(scale), out(out), rows(op.getType().getRows()),
        cols(op.getType().getCols()), depth(op.getDepth()),
        ahead(ctx, llvm::divideCeil(rows, 2 * amxRows),
              llvm::divideCeil(cols, stepColumns)) {}
  void emit();
  /// What a block of sums needs before the first one. `isApart`: sums go where
  /// those of a block alone are.
  void prepare(bool isApart = false);
  void pack(Value c0, int64_t colTiles);
  Value getSums() const { return sums; }
  void block(Value r0, Value c0, int64_t rowTiles, int64_t colTiles);

private:
  void columnBlock(Value c0, int64_t colTiles);
  void step(Value r0, Value c0, Value k, int64_t rowTiles, int64_t colTiles);
  /// Whether somebody reads the sums of tile (i, j) of a block.
  bool isRead(int64_t i, int64_t j) const { return !onDiagonal || j <= i; }
  void addScaled(Value r0, Value c0, int64_t colTiles, Value first,
                 int64_t begin, int64_t end);
  /// Where the first of a block's columns are that are packed here.
  Value startOf(Value c0) { return isKept ? times(c0, depth) : ctx.index(0); }
  /// Where the right operand's tile at depth k begins.
  Value tileAt(Value c0, int64_t tile, Value k, int64_t part);
  Value at(Value base, int64_t offset) {
    return ctx.builder.createOrFold<arith::AddIOp>(loc, base,
                                                   ctx.index(offset));
  }
  Value times(Value x, int64_t y) {
    return ctx.builder.createOrFold<arith::MulIOp>(loc, x, ctx.index(y));
  }
  Value over(Value x, int64_t y) {
    return ctx.builder.createOrFold<arith::DivUIOp>(loc, x, ctx.index(y));
  }
  void call(StringRef name, ArrayRef<int64_t> tiles, Value pointer = {},
            Value stride = {}) {
    amxCall(ctx.builder, loc, name, tiles, pointer, stride);
  }
  Value bytes(int64_t count) {
    return LLVM::ConstantOp::create(ctx.builder, loc, ctx.builder.getI64Type(),
                                    ctx.builder.getI64IntegerAttr(count));
  }
  /// Bytes between two rows, which of a tile in memory are known as it runs.
  Value strideOf(Value memref);

  VectorContext &ctx;
  DotOp op;
  Location loc;
  Value lhs, rhs, acc, scale, out;
  int64_t rows, cols, depth;
  int64_t numParts = 1;
  /// What is packed here: what it is rounded to, of all columns if that is kept
  /// or of one block of them, and of a block its other parts.
  RightRows right;
  Value first, others;
  bool isKept = false;
  Ahead ahead;
  /// Whether sums right of the diagonal are nobody's, and whether the block is
  /// on it.
  bool isLower = false, onDiagonal = false;
  /// A block's sums, where they are scaled and added to others, and the row of
  /// the block whose they are while the next one's products are computed.
  Value sums, waiting;
};

} // namespace

Value AmxProduct::strideOf(Value memref) {
  OpBuilder &b = ctx.builder;
  auto type = cast<MemRefType>(memref.getType());
  int64_t stride = type.getStridesAndOffset().first[0];
  int64_t size = type.getElementTypeBitWidth() / 8;
  if (!ShapedType::isDynamic(stride))
    return bytes(stride * size);
  auto metadata = memref::ExtractStridedMetadataOp::create(b, loc, memref);
  return arith::IndexCastOp::create(b, loc, b.getI64Type(),
                                    times(metadata.getStrides()[0], size));
}

Value AmxProduct::tileAt(Value c0, int64_t tile, Value k, int64_t part) {
  OpBuilder &b = ctx.builder;
  Value from = part ? others : first ? first : rhs;
  Value place;
  if (part)
    place = at(times(k, (numParts - 1) * stepColumns),
               ((part - 1) * stepColumns + tile * pairColumns) * amxDepth);
  else if (first || ctx.inSteps.contains(from))
    place = at(
        b.createOrFold<arith::AddIOp>(
            loc, first ? startOf(c0) : times(c0, depth), times(k, stepColumns)),
        tile * pairColumns * amxDepth);
  else // [column tile][K / 2][16][2]
    place = b.createOrFold<arith::AddIOp>(
        loc, times(at(c0, tile * pairColumns), depth), times(k, pairColumns));
  return addressOf(b, loc, from, ValueRange{place});
}

void AmxProduct::step(Value r0, Value c0, Value k, int64_t rowTiles,
                      int64_t colTiles) {
  for (int64_t i = 0; i < rowTiles; ++i)
    call("llvm.x86.tileloadd64", {4 + i},
         addressOf(ctx.builder, loc, lhs, ValueRange{at(r0, i * amxRows), k}),
         strideOf(lhs));
  for (int64_t part = 0; part < numParts; ++part) {
    for (int64_t j = 0; j < colTiles; ++j)
      call("llvm.x86.tileloadd64", {6 + j}, tileAt(c0, j, k, part), bytes(64));
    for (int64_t i = 0; i < rowTiles; ++i)
      for (int64_t j = 0; j < colTiles; ++j)
        if (isRead(i, j))
          call("llvm.x86.tdpbf16ps", {i * 2 + j, 4 + i, 6 + j});
    // Of whole rows an address serves all lines.
    if (!hasLowerLhs(op) && part == 0)
      ahead.ask(r0, 2 * amxRows, c0, stepColumns, over(k, amxDepth),
                depth / amxDepth);
    // The sums of the block before wait for its last tiles, these do not.
    if (waiting) {
      int64_t count = 2 * amxRows / (depth / amxDepth);
      addScaled(waiting, c0, colTiles, times(over(k, amxDepth), count),
                count * part / numParts, count * (part + 1) / numParts);
    }
  }
}

/// Adds some of a block's sums to rows that are scaled: those from `begin` to
/// `end` behind row `first` of the block.
void AmxProduct::addScaled(Value r0, Value c0, int64_t colTiles, Value first,
                           int64_t begin, int64_t end) {
  OpBuilder &b = ctx.builder;
  int64_t width = colTiles * pairColumns;
  // One address for all rows.
  auto viewOf = [&](Value memref, Value row, Value col) -> Value {
    OpFoldResult one = b.getIndexAttr(1);
    return memref::SubViewOp::create(
        b, loc, memref, ArrayRef<OpFoldResult>{row, col},
        ArrayRef<OpFoldResult>{b.getIndexAttr(end), b.getIndexAttr(width)},
        ArrayRef<OpFoldResult>{one, one});
  };
  Value row = b.createOrFold<arith::AddIOp>(loc, r0, first);
  Value from = viewOf(acc, row, c0),
        to = acc == out ? from : viewOf(out, row, c0),
        added = viewOf(sums, first, ctx.index(0));
  for (int64_t r = begin; r < end; ++r) {
    Value factors = ctx.splat(memref::LoadOp::create(b, loc, scale, at(row, r)),
                              pairColumns);
    for (int64_t c = 0; c < width; c += pairColumns) {
      SmallVector<Value> place = {ctx.index(r), ctx.index(c)};
      Value sum = ctx.loadVector(added, place, pairColumns);
      Value old = ctx.loadVector(from, place, pairColumns);
      ctx.storeVector(math::FmaOp::create(b, loc, old, factors, sum), to,
                      place);
    }
  }
}

void AmxProduct::block(Value r0, Value c0, int64_t rowTiles, int64_t colTiles) {
  if (hasLowerLhs(op))
    ahead.ask(r0, 2 * amxRows, c0, stepColumns);
  Value to = sums ? sums : out;
  SmallVector<Value> address;
  for (int64_t i = 0; i < rowTiles; ++i)
    for (int64_t j = 0; j < colTiles; ++j) {
      if (!isRead(i, j)) {
        address.push_back(Value());
        continue;
      }
      Value row = sums ? ctx.index(i * amxRows) : at(r0, i * amxRows);
      Value col = sums ? ctx.index(j * pairColumns) : at(c0, j * pairColumns);
      address.push_back(addressOf(ctx.builder, loc, to, ValueRange{row, col}));
      if (acc && !sums)
        call("llvm.x86.tileloadd64", {i * 2 + j}, address.back(), strideOf(to));
      else
        call("llvm.x86.tilezero", {i * 2 + j});
    }
  // What is right of the diagonal on the left adds nothing.
  Value last = hasLowerLhs(op) ? at(r0, rowTiles * amxRows) : ctx.index(depth);
  ctx.loop(last, amxDepth, loc,
           [&](Value k) { step(r0, c0, k, rowTiles, colTiles); });
  for (int64_t i = 0; i < rowTiles; ++i)
    for (int64_t j = 0; j < colTiles; ++j)
      if (isRead(i, j))
        call("llvm.x86.tilestored64", {i * 2 + j}, address[i * colTiles + j],
             strideOf(to));
}

void AmxProduct::pack(Value c0, int64_t colTiles) {
  if (right.rows)
    packSteps(ctx, right, depth, c0, colTiles * pairColumns, first, startOf(c0),
              others, isKept, loc);
}

void AmxProduct::columnBlock(Value c0, int64_t colTiles) {
  pack(c0, colTiles);
  constexpr int64_t height = 2 * amxRows;
  int64_t whole = rows / height * height;
  auto blockAndSums = [&](Value r0, int64_t rowTiles) {
    block(r0, c0, rowTiles, colTiles);
    if (scale)
      addScaled(r0, c0, colTiles, ctx.index(0), 0, rowTiles * amxRows);
  };
  if (isLower && colTiles == 2) {
    onDiagonal = true;
    block(c0, c0, 2, colTiles);
    onDiagonal = false;
    Value below = at(c0, height);
    Value left =
        ctx.builder.createOrFold<arith::SubIOp>(loc, ctx.index(whole), below);
    ctx.loop(left, height, loc, [&](Value r) {
      block(ctx.builder.createOrFold<arith::AddIOp>(loc, below, r), c0, 2,
            colTiles);
    });
  } else if (scale && whole > height && !hasLowerLhs(op) &&
             height * amxDepth % depth == 0) {
    block(ctx.index(0), c0, 2, colTiles);
    ctx.loop(whole - height, height, loc, [&](Value r0) {
      waiting = r0;
      block(at(r0, height), c0, 2, colTiles);
    });
    waiting = Value();
    addScaled(ctx.index(whole - height), c0, colTiles, ctx.index(0), 0, height);
  } else if (whole && !isLower) {
    ctx.loop(whole, height, loc, [&](Value r0) { blockAndSums(r0, 2); });
  }
  if (rows > whole)
    blockAndSums(ctx.index(whole), 1);
}

void AmxProduct::prepare(bool isApart) {
  OpBuilder &b = ctx.builder;
  if (scale || isApart)
    sums = ctx.allocate(TileType::get(b.getContext(), 2 * amxRows, stepColumns,
                                      b.getF32Type()));
  // What is asked for ahead is in shares of all blocks.
  isLower = !acc && rows == cols && ahead.ops.empty() &&
            readsLowerOnly(op.getResult());
  right = rightRows(ctx, op);
  if (right.rows) {
    isKept = llvm::any_of(op.getRhs().getUsers(), [&](Operation *user) {
      auto map = dyn_cast<MapOp>(user);
      return map && roundedBy(map) == op.getRhs();
    });
    first = isKept ? allocateSteps(ctx, depth, cols)
                   : ctx.allocateFlat(depth * stepColumns, b.getBF16Type());
  }
  if (op.getRhs().getType().getElementType().isF32()) {
    numParts = numExactParts;
    if (isKept)
      ctx.firstParts[op.getRhs()] = {first, op->getBlock()};
    others =
        ctx.allocateFlat((numParts - 1) * depth * stepColumns, b.getBF16Type());
  }
}

void AmxProduct::emit() {
  prepare();
  // What is packed of the right operand stays in the first cache.
  int64_t whole = cols / stepColumns * stepColumns;
  if (whole)
    ctx.loop(whole, stepColumns, loc, [&](Value c0) { columnBlock(c0, 2); });
  if (cols > whole)
    columnBlock(ctx.index(whole), 1);
}

void mlir::tile::dotAmx(VectorContext &ctx, DotOp op, Value lhs, Value rhs,
                        Value acc, Value scale, Value out) {
  AmxProduct(ctx, op, lhs, rhs, acc, scale, out).emit();
}

/// Writes rows of a block to memory: those of `from`, scaled, and of `added`.
static void writeBlock(VectorContext &ctx, StoreOp store, Value from,
                       Value added, Value scale, Value r0, Value c0) {
  OpBuilder &b = ctx.builder;
  Location loc = store.getLoc();
  auto add = [&](Value x, Value y) {
    return b.createOrFold<arith::AddIOp>(loc, x, y);
  };
  SmallVector<Value> place(store.getIndices());
  size_t rank = place.size();
  Value firstRow = place[rank - 2];
  Type element =
      cast<MemRefType>(store.getDestination().getType()).getElementType();
  Value begin = ctx.index(0), end = ctx.index(2 * amxRows);
  if (store.getLower()) {
    Value row = add(firstRow, r0);
    auto behind = [&](Value bound) {
      return b.createOrFold<arith::SubIOp>(loc, bound, row);
    };
    begin = arith::MaxSIOp::create(b, loc, begin, behind(store.getLower()));
    end = arith::MinSIOp::create(b, loc, end, behind(store.getUpper()));
  }
  Value firstCol = add(place[rank - 1], c0);
  auto writeRow = [&](Value r) {
    Value row = add(r0, r);
    place[rank - 2] = add(firstRow, row);
    place[rank - 1] = firstCol;
    Value factors =
        ctx.splat(memref::LoadOp::create(b, loc, scale, row), pairColumns);
    SmallVector<Value> vectors;
    for (int64_t c = 0; c < stepColumns; c += pairColumns)
      vectors.push_back(math::FmaOp::create(
          b, loc, ctx.loadVector(from, {r, ctx.index(c)}, pairColumns), factors,
          ctx.loadVector(added, {r, ctx.index(c)}, pairColumns)));
    if (element.isBF16())
      return ctx.storeVector(roundTwo(ctx, vectors[0], vectors[1], loc),
                             store.getDestination(), place);
    for (Value vector : vectors) {
      ctx.storeVector(ctx.toFloat(vector, element), store.getDestination(),
                      place);
      place[rank - 1] = add(place[rank - 1], ctx.index(pairColumns));
    }
  };
  // Rows are short: some in each turn, then those that are left.
  constexpr int64_t together = 4;
  auto writeRows = [&](Value from, Value to, int64_t count) {
    auto rows = scf::ForOp::create(b, loc, from, to, ctx.index(count));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(rows.getBody());
    for (int64_t i = 0; i < count; ++i)
      writeRow(add(rows.getInductionVar(), ctx.index(i)));
  };
  if (!store.getLower())
    return writeRows(begin, end, together);
  Value number = arith::SubIOp::create(b, loc, end, begin);
  Value left = arith::RemSIOp::create(b, loc, number, ctx.index(together));
  Value whole = arith::SubIOp::create(b, loc, end, left);
  writeRows(begin, whole, together);
  writeRows(whole, end, 1);
}

void mlir::tile::writeSumAmx(VectorContext &ctx, WrittenSum sum, Value rhs,
                             Value otherRhs) {
  Location loc = sum.store.getLoc();
  Value none;
  AmxProduct product(ctx, sum.product, ctx.buffer(sum.product.getLhs()), rhs,
                     none, none, none);
  AmxProduct other(ctx, sum.other, ctx.buffer(sum.other.getLhs()), otherRhs,
                   none, none, none);
  product.prepare(/*isApart=*/true);
  other.prepare(/*isApart=*/true);
  Value scale = ctx.buffer(sum.other.getScale());
  TileType type = sum.other.getType();
  ctx.loop(type.getCols(), stepColumns, loc, [&](Value c0) {
    product.pack(c0, 2);
    other.pack(c0, 2);
    ctx.loop(type.getRows(), 2 * amxRows, loc, [&](Value r0) {
      product.block(r0, c0, 2, 2);
      other.block(r0, c0, 2, 2);
      writeBlock(ctx, sum.store, product.getSums(), other.getSums(), scale, r0,
                 c0);
    });
  });
}
