//===- Pack.cpp - Tiles between memory and scratch ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads read only what is in range: rows by a condition per row, columns by a
// constant mask, so that no byte outside the tensor is touched and the rest of
// the tile is zero. A tile that is the right operand of a dot is written
// straight into the packed form that the micro kernel reads.
//
//===----------------------------------------------------------------------===//

#include "VectorContext.h"

using namespace mlir;
using namespace mlir::tile;

static Value loadRowUnmasked(VectorContext &ctx, LoadOp op, ValueRange indices,
                             int64_t count, int64_t width, Value valid,
                             Type elementType);
static Value widenBF16(VectorContext &ctx, Value vector);
static void loadTransposed(VectorContext &ctx, LoadOp op, Value out,
                           Type elementType);

Value mlir::tile::rowIsValid(VectorContext &ctx, LoadOp op, Value r) {
  Location loc = op.getLoc();
  Value valid;
  if (op.getLower()) {
    Value base = op.getIndices()[op.getVector() ? op.getIndices().size() - 1
                                                : op.getIndices().size() - 2];
    Value row = ctx.builder.createOrFold<arith::AddIOp>(loc, base, r);
    Value above = arith::CmpIOp::create(
        ctx.builder, loc, arith::CmpIPredicate::sge, row, op.getLower());
    Value below = arith::CmpIOp::create(
        ctx.builder, loc, arith::CmpIPredicate::slt, row, op.getUpper());
    valid = arith::AndIOp::create(ctx.builder, loc, above, below);
  }
  if (op.getLive()) {
    Value byte =
        memref::LoadOp::create(ctx.builder, loc, ctx.buffer(op.getLive()),
                               ValueRange{ctx.index(0), r});
    Value live =
        arith::CmpIOp::create(ctx.builder, loc, arith::CmpIPredicate::ne, byte,
                              ctx.zero(ctx.builder.getI8Type()));
    valid =
        valid ? arith::AndIOp::create(ctx.builder, loc, valid, live).getResult()
              : live;
  }
  return valid;
}

SmallVector<Value> mlir::tile::findRow(VectorContext &ctx, SourceOp source,
                                       LoadOp op, Value position, Value valid) {
  Location loc = op.getLoc();
  Value batch = op.getIndices()[0], head = op.getIndices()[1];
  Value memory = source.getMemory(),
        rows =
            memref::DimOp::create(ctx.builder, loc, memory, source.getRowDim());
  auto element = [&](Value memref, ValueRange at) -> Value {
    Value value = memref::LoadOp::create(ctx.builder, loc, memref, at);
    return arith::IndexCastOp::create(ctx.builder, loc,
                                      ctx.builder.getIndexType(), value);
  };
  // A page or batch and the row in it, where it is to be read: else nothing of
  // a table is looked at, and nothing divided by.
  auto find = [&]() -> SmallVector<Value> {
    if (Value table = source.getTable()) {
      Value number = arith::DivUIOp::create(ctx.builder, loc, position, rows);
      Value slot = arith::RemUIOp::create(ctx.builder, loc, position, rows);
      Value page = element(table, {batch, number});
      Value last = arith::SubIOp::create(
          ctx.builder, loc, memref::DimOp::create(ctx.builder, loc, memory, 0),
          ctx.index(1));
      // No entry leads out of the pool.
      page = arith::MaxSIOp::create(ctx.builder, loc, page, ctx.index(0));
      return {arith::MinSIOp::create(ctx.builder, loc, page, last), slot};
    }
    Value start = arith::MaxSIOp::create(
        ctx.builder, loc, element(source.getStart(), batch), ctx.index(0));
    Value row = arith::AddIOp::create(ctx.builder, loc, start, position);
    return {batch, arith::RemUIOp::create(ctx.builder, loc, row, rows)};
  };
  SmallVector<Value> found;
  if (valid) {
    Type type = ctx.builder.getIndexType();
    auto branch =
        scf::IfOp::create(ctx.builder, loc, TypeRange{type, type}, valid,
                          /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(ctx.builder);
    ctx.builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(ctx.builder, loc, find());
    ctx.builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(ctx.builder, loc,
                         ValueRange{ctx.index(0), ctx.index(0)});
    found = branch.getResults();
  } else {
    found = find();
  }
  SmallVector<Value> indices = {found[0], head, found[1]};
  indices.append(op.getIndices().begin() + 3, op.getIndices().end());
  return indices;
}

RowAccess mlir::tile::accessRow(VectorContext &ctx, LoadOp op, Value r) {
  RowAccess row{rowIsValid(ctx, op, r), SmallVector<Value>(op.getIndices())};
  Value &position = row.indices[row.indices.size() - (op.getVector() ? 1 : 2)];
  position = ctx.builder.createOrFold<arith::AddIOp>(op.getLoc(), position, r);
  if (auto source = op.getSource().getDefiningOp<SourceOp>())
    row.indices = findRow(ctx, source, op, position, row.valid);
  return row;
}

/// Whether masked loads and stores of this element type are instructions.
static bool hasMasks(VectorContext &ctx, Type elementType) {
  return ctx.target.vectorBits >= 512 &&
         (!elementType.isBF16() || ctx.target.hasBf16Dot);
}

/// Calls `body` for every `width` columns of memory that are loaded, with how
/// many of them the source has; `isShort`: what it does is less than a loop.
static void columnBlocks(VectorContext &ctx, LoadOp op, int64_t width,
                         function_ref<void(Value, int64_t)> body,
                         bool isShort = false) {
  Location loc = op.getLoc();
  int64_t cols = op.getMemoryCols();
  int64_t size = cast<MemRefType>(memoryOf(op).getType()).getShape().back();
  // Behind the column where the tile begins; parts of rows begin within them.
  if (APInt first; matchPattern(op.getIndices().back(), m_ConstantInt(&first)))
    size = std::max<int64_t>(size - first.getSExtValue(), 0);
  int64_t whole = std::min(size, cols) / width * width;
  constexpr int64_t mostBlocks = 8;
  if (isShort && whole <= mostBlocks * width)
    for (int64_t col = 0; col < whole; col += width)
      body(ctx.index(col), width);
  else if (whole)
    ctx.loop(whole, width, loc, [&](Value col) { body(col, width); });
  if (whole < cols)
    body(ctx.index(whole), std::min(size, cols) - whole);
  for (int64_t col = whole + width; col < cols; col += width)
    body(ctx.index(col), 0);
}

Value mlir::tile::loadRow(VectorContext &ctx, LoadOp op, const RowAccess &row,
                          Value col, int64_t count, int64_t width,
                          Type elementType) {
  Location loc = op.getLoc();
  auto memrefType = cast<MemRefType>(memoryOf(op).getType());
  if (count == 0)
    return ctx.zero(ctx.vec(width, elementType));
  VectorType type = ctx.vec(width, memrefType.getElementType());
  VectorType maskType = ctx.vec(width, ctx.builder.getI1Type());
  Value valid = row.valid;
  SmallVector<Value> indices(row.indices);
  indices.back() =
      ctx.builder.createOrFold<arith::AddIOp>(loc, indices.back(), col);

  if (!hasMasks(ctx, memrefType.getElementType()))
    return loadRowUnmasked(ctx, op, indices, count, width, valid, elementType);

  Value mask;
  if (count < width)
    mask = vector::ConstantMaskOp::create(ctx.builder, loc, maskType,
                                          ArrayRef<int64_t>{count});
  if (valid) {
    Value all =
        mask ? mask : ctx.constant(DenseElementsAttr::get(maskType, true));
    mask = arith::SelectOp::create(ctx.builder, loc, valid, all,
                                   ctx.zero(maskType));
  }
  Value loaded;
  if (!mask)
    loaded =
        vector::LoadOp::create(ctx.builder, loc, type, memoryOf(op), indices);
  else
    loaded = vector::MaskedLoadOp::create(ctx.builder, loc, type, memoryOf(op),
                                          indices, mask, ctx.zero(type));
  if (!isa<FloatType>(elementType))
    return loaded;
  return ctx.toFloat(loaded, elementType);
}

/// Before AVX-512 masks exist for 32-bit lanes only, and bf16 is no type that
/// vectors compute with: rows are read behind a branch, the last columns one
/// by one, and bf16 as the upper half of an f32.
static Value loadRowUnmasked(VectorContext &ctx, LoadOp op, ValueRange indices,
                             int64_t count, int64_t width, Value valid,
                             Type elementType) {
  Location loc = op.getLoc();
  Type sourceType = cast<MemRefType>(memoryOf(op).getType()).getElementType();
  auto convert = [&](Value value) -> Value {
    if (!isa<FloatType>(elementType))
      return value;
    if (sourceType.isBF16() && elementType.isF32())
      return widenBF16(ctx, value);
    return ctx.toFloat(value, elementType);
  };
  auto read = [&]() -> Value {
    if (count == width)
      return convert(vector::LoadOp::create(
          ctx.builder, loc, ctx.vec(width, sourceType), memoryOf(op), indices));
    Value result = ctx.zero(ctx.vec(width, elementType));
    for (int64_t i = 0; i < count; ++i) {
      SmallVector<Value> position(indices);
      position.back() = ctx.builder.createOrFold<arith::AddIOp>(
          loc, position.back(), ctx.index(i));
      Value element = vector::LoadOp::create(
          ctx.builder, loc, ctx.vec(1, sourceType), memoryOf(op), position);
      element =
          vector::ExtractOp::create(ctx.builder, loc, convert(element), 0);
      result = vector::InsertOp::create(ctx.builder, loc, element, result, i);
    }
    return result;
  };
  if (!valid)
    return read();
  auto branch = scf::IfOp::create(ctx.builder, loc,
                                  TypeRange(ctx.vec(width, elementType)), valid,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(ctx.builder);
  ctx.builder.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(ctx.builder, loc, read());
  ctx.builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(ctx.builder, loc, ctx.zero(ctx.vec(width, elementType)));
  return branch.getResult(0);
}

static Value widenBF16(VectorContext &ctx, Value vector) {
  Location loc = vector.getLoc();
  int64_t width = cast<VectorType>(vector.getType()).getDimSize(0);
  VectorType i32 = ctx.vec(width, ctx.builder.getI32Type());
  Value bits = vector::BitCastOp::create(
      ctx.builder, loc, ctx.vec(width, ctx.builder.getI16Type()), vector);
  Value wide = arith::ExtUIOp::create(ctx.builder, loc, i32, bits);
  Value sixteen = ctx.constant(
      DenseElementsAttr::get(i32, ctx.builder.getI32IntegerAttr(16)));
  Value shifted = arith::ShLIOp::create(ctx.builder, loc, wide, sixteen);
  return vector::BitCastOp::create(
      ctx.builder, loc, ctx.vec(width, ctx.builder.getF32Type()), shifted);
}

/// By butterflies: at distance D, rows i and i + D swap the lanes that differ
/// in bit D.
void mlir::tile::transposeLanes(OpBuilder &builder, Location loc,
                                SmallVectorImpl<Value> &rows) {
  int64_t width = rows.size();
  for (int64_t distance = width / 2; distance > 0; distance /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t lane = 0; lane < width; ++lane) {
      bool upper = lane & distance;
      low.push_back(upper ? width + lane - distance : lane);
      high.push_back(upper ? width + lane : lane + distance);
    }
    for (int64_t i = 0; i < width; ++i) {
      if (i & distance)
        continue;
      Value a = rows[i], b = rows[i + distance];
      rows[i] = vector::ShuffleOp::create(builder, loc, a, b, low);
      rows[i + distance] = vector::ShuffleOp::create(builder, loc, a, b, high);
    }
  }
}

/// For column `n` of `total` in panels of `panel` columns and `depth` rows:
/// where its panel starts, its column within, and the panel's width.
std::tuple<Value, Value, Value>
mlir::tile::panelPosition(VectorContext &ctx, Value n, int64_t total,
                          int64_t panel, int64_t depth, Location loc) {
  Value within = arith::RemUIOp::create(ctx.builder, loc, n, ctx.index(panel));
  Value first = ctx.builder.createOrFold<arith::SubIOp>(loc, n, within);
  Value start =
      ctx.builder.createOrFold<arith::MulIOp>(loc, first, ctx.index(depth));
  if (total % panel == 0)
    return {start, within, ctx.index(panel)};
  Value left =
      ctx.builder.createOrFold<arith::SubIOp>(loc, ctx.index(total), first);
  return {start, within,
          arith::MinSIOp::create(ctx.builder, loc, left, ctx.index(panel))};
}

/// The layout that transposes, for one that does not, and the other way round.
static Layout transposed(Layout layout) {
  switch (layout) {
  case Layout::RowMajor:
  case Layout::PairParts:
  case Layout::InMemory:
    break;
  case Layout::Panels:
    return Layout::PanelsTransposed;
  case Layout::PanelsTransposed:
    return Layout::Panels;
  case Layout::Pairs:
    return Layout::PairsTransposed;
  case Layout::PairsTransposed:
    return Layout::Pairs;
  }
  return layout;
}

/// rows = K, cols = N: [N / NR][K][NR].
static void packPanels(VectorContext &ctx, LoadOp op, Value into) {
  Location loc = op.getLoc();
  int64_t rows = op.getMemoryRows(), cols = op.getMemoryCols();
  Type f32 = ctx.builder.getF32Type();
  int64_t panel = ctx.panelVectors * ctx.lanes;
  ctx.loop(rows, 1, loc, [&](Value k) {
    RowAccess row = accessRow(ctx, op, k);
    columnBlocks(ctx, op, ctx.lanes, [&](Value col, int64_t count) {
      // The last panel is narrower when NR does not divide N.
      auto [start, within, panelWidth] =
          panelPosition(ctx, col, cols, panel, rows, loc);
      Value offset = ctx.builder.createOrFold<arith::AddIOp>(
          loc, ctx.builder.createOrFold<arith::MulIOp>(loc, k, panelWidth),
          ctx.builder.createOrFold<arith::AddIOp>(loc, start, within));
      ctx.storeVector(loadRow(ctx, op, row, col, count, ctx.lanes, f32), into,
                      offset);
    });
  });
}

/// rows = N, cols = K: [N / NR][K][NR].
static void packPanelsTransposed(VectorContext &ctx, LoadOp op, Value into) {
  Location loc = op.getLoc();
  int64_t rows = op.getMemoryRows(), cols = op.getMemoryCols();
  Type f32 = ctx.builder.getF32Type();
  int64_t panel = ctx.panelVectors * ctx.lanes;
  ctx.loop(rows, ctx.lanes, loc, [&](Value n) {
    SmallVector<RowAccess> keys;
    for (int64_t i = 0; i < ctx.lanes; ++i)
      keys.push_back(accessRow(
          ctx, op,
          ctx.builder.createOrFold<arith::AddIOp>(loc, n, ctx.index(i))));
    Value start, within, panelWidth;
    std::tie(start, within, panelWidth) =
        panelPosition(ctx, n, rows, panel, cols, loc);
    Value base = ctx.builder.createOrFold<arith::AddIOp>(loc, start, within);
    columnBlocks(ctx, op, ctx.lanes, [&](Value k, int64_t count) {
      SmallVector<Value> block;
      for (int64_t i = 0; i < ctx.lanes; ++i)
        block.push_back(loadRow(ctx, op, keys[i], k, count, ctx.lanes, f32));
      transposeLanes(ctx.builder, loc, block);
      for (int64_t i = 0; i < ctx.lanes; ++i) {
        Value offset = ctx.builder.createOrFold<arith::MulIOp>(
            loc, panelWidth,
            ctx.builder.createOrFold<arith::AddIOp>(loc, k, ctx.index(i)));
        ctx.storeVector(
            block[i], into,
            ctx.builder.createOrFold<arith::AddIOp>(loc, offset, base));
      }
    });
  });
}

/// rows = K, cols = N: [N / 16][K / 2][16][2].
static void packPairs(VectorContext &ctx, LoadOp op, Value into) {
  Location loc = op.getLoc();
  int64_t rows = op.getMemoryRows();
  Type bf16 = ctx.builder.getBF16Type();
  SmallVector<int64_t> interleave;
  for (int64_t lane = 0; lane < pairColumns; ++lane) {
    interleave.push_back(lane);
    interleave.push_back(pairColumns + lane);
  }
  ctx.loop(rows, 2, loc, [&](Value k) {
    Value next = ctx.builder.createOrFold<arith::AddIOp>(loc, k, ctx.index(1));
    RowAccess row = accessRow(ctx, op, k), nextRow = accessRow(ctx, op, next);
    auto packBlock = [&](Value col, int64_t count) {
      Value a = loadRow(ctx, op, row, col, count, pairColumns, bf16);
      Value b = loadRow(ctx, op, nextRow, col, count, pairColumns, bf16);
      Value pair =
          vector::ShuffleOp::create(ctx.builder, loc, a, b, interleave);
      Value offset = ctx.builder.createOrFold<arith::AddIOp>(
          loc,
          ctx.builder.createOrFold<arith::MulIOp>(loc, k,
                                                  ctx.index(pairColumns)),
          ctx.builder.createOrFold<arith::MulIOp>(loc, col, ctx.index(rows)));
      ctx.storeVector(pair, into, offset);
    };
    columnBlocks(ctx, op, pairColumns, packBlock, hasMasks(ctx, bf16));
  });
}

/// rows = N, cols = K: 16 rows of pairs, transposed as 32-bit lanes.
static void packPairsTransposed(VectorContext &ctx, LoadOp op, Value into) {
  Location loc = op.getLoc();
  int64_t rows = op.getMemoryRows(), cols = op.getMemoryCols();
  Type bf16 = ctx.builder.getBF16Type();
  VectorType i32Vector = ctx.vec(pairColumns, ctx.builder.getI32Type());
  ctx.loop(rows, pairColumns, loc, [&](Value n) {
    SmallVector<RowAccess> keys;
    for (int64_t i = 0; i < pairColumns; ++i)
      keys.push_back(accessRow(
          ctx, op,
          ctx.builder.createOrFold<arith::AddIOp>(loc, n, ctx.index(i))));
    Value start =
        ctx.builder.createOrFold<arith::MulIOp>(loc, n, ctx.index(cols));
    columnBlocks(ctx, op, 2 * pairColumns, [&](Value k, int64_t count) {
      SmallVector<Value> block;
      for (int64_t i = 0; i < pairColumns; ++i)
        block.push_back(vector::BitCastOp::create(
            ctx.builder, loc, i32Vector,
            loadRow(ctx, op, keys[i], k, count, 2 * pairColumns, bf16)));
      transposeLanes(ctx.builder, loc, block);
      Value first = ctx.builder.createOrFold<arith::AddIOp>(
          loc, start,
          ctx.builder.createOrFold<arith::MulIOp>(loc, k,
                                                  ctx.index(pairColumns)));
      for (int64_t i = 0; i < pairColumns; ++i) {
        Value offset = ctx.builder.createOrFold<arith::AddIOp>(
            loc, first, ctx.index(2 * i * pairColumns));
        ctx.storeVector(
            vector::BitCastOp::create(ctx.builder, loc,
                                      ctx.vec(2 * pairColumns, bf16), block[i]),
            into, offset);
      }
    });
  });
}

/// Writes a loaded tile as rows of vectors in the order of a product.
static LogicalResult packLoad(VectorContext &ctx, LoadOp op, Layout layout,
                              Value into) {
  switch (op.getTransposed() ? transposed(layout) : layout) {
  case Layout::RowMajor:
  case Layout::PairParts:
  case Layout::InMemory:
    return failure();
  case Layout::Panels:
    packPanels(ctx, op, into);
    return success();
  case Layout::PanelsTransposed:
    packPanelsTransposed(ctx, op, into);
    return success();
  case Layout::Pairs:
    packPairs(ctx, op, into);
    return success();
  case Layout::PairsTransposed:
    packPairsTransposed(ctx, op, into);
    return success();
  }
  llvm_unreachable("every layout is handled");
}

LogicalResult mlir::tile::lowerLoad(VectorContext &ctx, LoadOp op) {
  Location loc = op.getLoc();
  auto type = cast<TileType>(op.getType());
  auto source = cast<MemRefType>(memoryOf(op).getType());
  if (!op.getVector() && ShapedType::isDynamic(source.getShape().back()))
    return op.emitOpError("expected the columns of the tensor to be static");
  Type elementType = ctx.storageType(type.getElementType());
  if (readsInPlace(ctx, op)) {
    openInPlace(ctx, op);
    return success();
  }
  SmallVector<Layout> layouts = layoutsNeeded(ctx, op.getResult());
  // Those of rows are there for all that is made of rows.
  bool needsRows = llvm::is_contained(layouts, Layout::RowMajor) ||
                   llvm::is_contained(layouts, Layout::PairParts);
  for (Layout layout : layouts) {
    if (layout == Layout::RowMajor || layout == Layout::PairParts ||
        layout == Layout::InMemory)
      continue;
    Type stored = layout == Layout::Pairs || layout == Layout::PairsTransposed
                      ? Type(ctx.builder.getBF16Type())
                      : Type(ctx.builder.getF32Type());
    Value into = ctx.allocateFlat(type.getNumElements(), stored);
    ctx.packedBuffers[{op.getResult(), static_cast<int>(layout)}] = into;
    if (failed(packLoad(ctx, op, layout, into)))
      return failure();
  }
  if (!needsRows)
    return success();
  Value out = ctx.buffers[op.getResult()] = ctx.allocate(type);
  if (op.getTransposed() && !op.getVector()) {
    loadTransposed(ctx, op, out, elementType);
    return success();
  }
  if (op.getVector() || type.isRowVector()) {
    // One scalar per row.
    ctx.loop(op.getMemoryRows(), 1, loc, [&](Value r) {
      RowAccess row = accessRow(ctx, op, r);
      auto read = [&]() -> Value {
        Value element =
            memref::LoadOp::create(ctx.builder, loc, memoryOf(op), row.indices);
        return isa<FloatType>(elementType) ? ctx.toFloat(element, elementType)
                                           : element;
      };
      Value element;
      if (row.valid) {
        auto branch =
            scf::IfOp::create(ctx.builder, loc, TypeRange(elementType),
                              row.valid, /*withElseRegion=*/true);
        OpBuilder::InsertionGuard guard(ctx.builder);
        ctx.builder.setInsertionPointToStart(branch.thenBlock());
        scf::YieldOp::create(ctx.builder, loc, read());
        ctx.builder.setInsertionPointToStart(branch.elseBlock());
        scf::YieldOp::create(ctx.builder, loc, ctx.zero(elementType));
        element = branch.getResult(0);
      } else {
        element = read();
      }
      SmallVector<Value> position = {r};
      if (!type.isRowVector())
        position.insert(position.begin(), ctx.index(0));
      memref::StoreOp::create(ctx.builder, loc, element, out, position);
    });
    return success();
  }
  // What is copied as it is fills vectors.
  bool isShort = elementType.isBF16() && source.getElementType().isBF16() &&
                 hasMasks(ctx, elementType);
  int64_t width = std::gcd(type.getCols(), isShort ? 2 * ctx.lanes : ctx.lanes);
  ctx.loop(type.getRows(), 1, loc, [&](Value r) {
    RowAccess row = accessRow(ctx, op, r);
    auto copyBlock = [&](Value col, int64_t count) {
      ctx.storeVector(loadRow(ctx, op, row, col, count, width, elementType),
                      out, {r, col});
    };
    columnBlocks(ctx, op, width, copyBlock, isShort);
  });
  return success();
}

/// Element by element: what a dot reads on its right is packed instead.
static void loadTransposed(VectorContext &ctx, LoadOp op, Value out,
                           Type elementType) {
  Location loc = op.getLoc();
  bool isVector = op.getType().isRowVector();
  int64_t width = std::gcd(op.getMemoryCols(), ctx.lanes);
  ctx.loop(op.getMemoryRows(), 1, loc, [&](Value r) {
    RowAccess access = accessRow(ctx, op, r);
    columnBlocks(ctx, op, width, [&](Value col, int64_t count) {
      Value row = loadRow(ctx, op, access, col, count, width, elementType);
      for (int64_t i = 0; i < width; ++i) {
        SmallVector<Value> position = {
            ctx.builder.createOrFold<arith::AddIOp>(loc, col, ctx.index(i))};
        if (!isVector)
          position.push_back(r);
        memref::StoreOp::create(
            ctx.builder, loc,
            vector::ExtractOp::create(ctx.builder, loc, row, i), out, position);
      }
    });
  });
}

/// The first `count` lanes, one by one.
static void storeColumns(VectorContext &ctx, Value vector, Value memref,
                         ValueRange indices, int64_t count) {
  Location loc = vector.getLoc();
  for (int64_t i = 0; i < count; ++i) {
    SmallVector<Value> position(indices);
    position.back() = ctx.builder.createOrFold<arith::AddIOp>(
        loc, position.back(), ctx.index(i));
    Value lane = vector::ExtractStridedSliceOp::create(
        ctx.builder, loc, vector, ArrayRef<int64_t>{i}, ArrayRef<int64_t>{1},
        ArrayRef<int64_t>{1});
    vector::StoreOp::create(ctx.builder, loc, lane, memref, position);
  }
}

/// Calls `write` with what is to be written of each row within the bounds, a
/// scalar or a vector, where it goes, and how many of its elements.
template <typename OpT>
static LogicalResult
writeRows(VectorContext &ctx, OpT op,
          function_ref<void(Value, ValueRange, int64_t)> write) {
  Location loc = op.getLoc();
  auto type = cast<TileType>(op.getValue().getType());
  auto memrefType = cast<MemRefType>(op.getDestination().getType());
  Type elementType = memrefType.getElementType();
  Value from = ctx.buffer(op.getValue());
  bool rowVector = op.getVector() || type.isRowVector();
  Value base =
      op.getIndices()[op.getIndices().size() - (op.getVector() ? 1 : 2)];

  // Rows of the tile that are inside [lower, upper).
  Value first = ctx.index(0), last = ctx.index(type.getRows());
  if (op.getLower()) {
    first = arith::MaxSIOp::create(
        ctx.builder, loc, first,
        ctx.builder.createOrFold<arith::SubIOp>(loc, op.getLower(), base));
    last = arith::MinSIOp::create(
        ctx.builder, loc, last,
        ctx.builder.createOrFold<arith::SubIOp>(loc, op.getUpper(), base));
  }
  auto forOp = scf::ForOp::create(ctx.builder, loc, first, last, ctx.index(1));
  OpBuilder::InsertionGuard guard(ctx.builder);
  ctx.builder.setInsertionPointToStart(forOp.getBody());
  Value r = forOp.getInductionVar();
  SmallVector<Value> indices(op.getIndices());
  Value &row = indices[indices.size() - (op.getVector() ? 1 : 2)];
  row = ctx.builder.createOrFold<arith::AddIOp>(loc, row, r);
  auto convert = [&](Value value) {
    return isa<FloatType>(elementType) ? ctx.toFloat(value, elementType)
                                       : value;
  };
  if (rowVector) {
    Value element = memref::LoadOp::create(ctx.builder, loc, from, r);
    write(convert(element), indices, 1);
    return success();
  }
  int64_t width = std::gcd(type.getCols(), ctx.lanes);
  int64_t size = memrefType.getShape().back();
  Value column = indices.back();
  auto writeVectors = [&](int64_t count) {
    for (int64_t col = 0; col < count; col += width) {
      Value value = convert(ctx.loadVector(from, {r, ctx.index(col)}, width));
      indices.back() =
          ctx.builder.createOrFold<arith::AddIOp>(loc, column, ctx.index(col));
      write(value, indices, std::min(count - col, width));
    }
  };
  APInt constantColumn;
  if (!ShapedType::isDynamic(size) &&
      matchPattern(column, m_ConstantInt(&constantColumn))) {
    writeVectors(
        std::min(size - constantColumn.getSExtValue(), type.getCols()));
    return success();
  }
  // As scores in memory have them: where a tensor ends is known as it runs, and
  // most tiles are whole.
  Value end = memref::DimOp::create(ctx.builder, loc, op.getDestination(),
                                    memrefType.getRank() - 1);
  Value left = arith::SubIOp::create(ctx.builder, loc, end, column);
  Value isWhole =
      arith::CmpIOp::create(ctx.builder, loc, arith::CmpIPredicate::sge, left,
                            ctx.index(type.getCols()));
  auto choice = scf::IfOp::create(ctx.builder, loc, isWhole,
                                  /*withElseRegion=*/true);
  ctx.builder.setInsertionPointToStart(choice.thenBlock());
  writeVectors(type.getCols());
  ctx.builder.setInsertionPointToStart(choice.elseBlock());
  auto rest =
      scf::ForOp::create(ctx.builder, loc, ctx.index(0), left, ctx.index(1));
  ctx.builder.setInsertionPointToStart(rest.getBody());
  Value col = rest.getInductionVar();
  Value element =
      memref::LoadOp::create(ctx.builder, loc, from, ValueRange{r, col});
  indices.back() = ctx.builder.createOrFold<arith::AddIOp>(loc, column, col);
  write(convert(element), indices, 1);
  return success();
}

/// Element by element, along rows of memory.
static void storeTransposed(VectorContext &ctx, StoreOp op) {
  Location loc = op.getLoc();
  auto type = cast<TileType>(op.getValue().getType());
  Value memory = op.getDestination(), from = ctx.buffer(op.getValue());
  auto memrefType = cast<MemRefType>(memory.getType());
  size_t rank = op.getIndices().size();
  Value row = op.getIndices()[rank - 2], column = op.getIndices()[rank - 1];
  Value first = ctx.index(0), last = ctx.index(type.getCols());
  auto sub = [&](Value x, Value y) {
    return ctx.builder.createOrFold<arith::SubIOp>(loc, x, y);
  };
  auto least = [&](Value x, Value y) -> Value {
    return arith::MinSIOp::create(ctx.builder, loc, x, y);
  };
  if (op.getLower()) {
    first = arith::MaxSIOp::create(ctx.builder, loc, first,
                                   sub(op.getLower(), row));
    last = least(last, sub(op.getUpper(), row));
  }
  Value size = memref::DimOp::create(ctx.builder, loc, memory, rank - 1);
  Value count = least(ctx.index(type.getRows()), sub(size, column));
  auto rows = scf::ForOp::create(ctx.builder, loc, first, last, ctx.index(1));
  OpBuilder::InsertionGuard guard(ctx.builder);
  ctx.builder.setInsertionPointToStart(rows.getBody());
  auto cols =
      scf::ForOp::create(ctx.builder, loc, ctx.index(0), count, ctx.index(1));
  ctx.builder.setInsertionPointToStart(cols.getBody());
  Value r = rows.getInductionVar(), c = cols.getInductionVar();
  SmallVector<Value> at = {c};
  if (!type.isRowVector())
    at.push_back(r);
  Value element = memref::LoadOp::create(ctx.builder, loc, from, at);
  if (Type to = memrefType.getElementType(); isa<FloatType>(to))
    element = ctx.toFloat(element, to);
  SmallVector<Value> to(op.getIndices());
  to[rank - 2] = ctx.builder.createOrFold<arith::AddIOp>(loc, row, r);
  to[rank - 1] = ctx.builder.createOrFold<arith::AddIOp>(loc, column, c);
  memref::StoreOp::create(ctx.builder, loc, element, memory, to);
}

LogicalResult mlir::tile::lowerStore(VectorContext &ctx, StoreOp op) {
  if (op.getTransposed() && !op.getVector()) {
    storeTransposed(ctx, op);
    return success();
  }
  Location loc = op.getLoc();
  Value memory = op.getDestination();
  return writeRows(
      ctx, op, [&](Value value, ValueRange indices, int64_t count) {
        auto type = dyn_cast<VectorType>(value.getType());
        if (!type) {
          memref::StoreOp::create(ctx.builder, loc, value, memory, indices);
        } else if (count == type.getNumElements()) {
          ctx.storeVector(value, memory, indices);
        } else if (!hasMasks(ctx, type.getElementType())) {
          storeColumns(ctx, value, memory, indices, count);
        } else {
          Value mask = vector::ConstantMaskOp::create(
              ctx.builder, loc, type.clone(ctx.builder.getI1Type()),
              ArrayRef<int64_t>{count});
          vector::MaskedStoreOp::create(ctx.builder, loc, memory, indices, mask,
                                        value);
        }
      });
}

LogicalResult mlir::tile::lowerAccumulate(VectorContext &ctx, AccumulateOp op) {
  Location loc = op.getLoc();
  Value memory = op.getDestination();
  auto addElement = [&](Value element, ValueRange indices) {
    if (op.getAnyOrder()) {
      memref::AtomicRMWOp::create(ctx.builder, loc, arith::AtomicRMWKind::addf,
                                  element, memory, indices);
      return;
    }
    Value old = memref::LoadOp::create(ctx.builder, loc, memory, indices);
    Value sum = arith::AddFOp::create(ctx.builder, loc, old, element);
    memref::StoreOp::create(ctx.builder, loc, sum, memory, indices);
  };
  return writeRows(
      ctx, op, [&](Value value, ValueRange indices, int64_t count) {
        auto type = dyn_cast<VectorType>(value.getType());
        if (!type)
          return addElement(value, indices);
        if (count == type.getNumElements() && !op.getAnyOrder()) {
          Value old = ctx.loadVector(memory, indices, count);
          return ctx.storeVector(
              arith::AddFOp::create(ctx.builder, loc, old, value), memory,
              indices);
        }
        for (int64_t i = 0; i < count; ++i) {
          SmallVector<Value> position(indices);
          position.back() = ctx.builder.createOrFold<arith::AddIOp>(
              loc, position.back(), ctx.index(i));
          addElement(vector::ExtractOp::create(ctx.builder, loc, value, i),
                     position);
        }
      });
}

LogicalResult mlir::tile::lowerFill(VectorContext &ctx, FillOp op) {
  Location loc = op.getLoc();
  auto type = cast<TileType>(op.getType());
  Value out = ctx.buffers[op.getResult()] = ctx.allocate(type);
  Value value = op.getValue();
  if (value.getType().isSignlessInteger(1))
    value = arith::ExtUIOp::create(ctx.builder, loc, ctx.builder.getI8Type(),
                                   value);
  int64_t extent = type.isRowVector() ? type.getRows() : type.getCols();
  int64_t width = std::gcd(extent, ctx.lanes);
  Value vector = ctx.splat(value, width);
  if (type.isRowVector()) {
    ctx.loop(extent, width, loc,
             [&](Value r) { ctx.storeVector(vector, out, r); });
    return success();
  }
  ctx.loop(type.getRows(), 1, loc, [&](Value r) {
    ctx.loop(extent, width, loc,
             [&](Value c) { ctx.storeVector(vector, out, {r, c}); });
  });
  return success();
}
