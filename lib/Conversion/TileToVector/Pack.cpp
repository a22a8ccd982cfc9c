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

#include "KernelLowering.h"

using namespace mlir;
using namespace mlir::tile;

Value KernelLowering::rowIsValid(LoadOp op, Value r) {
  Location loc = op.getLoc();
  Value valid;
  if (op.getLower()) {
    Value base = op.getIndices()[op.getVector() ? op.getIndices().size() - 1
                                                : op.getIndices().size() - 2];
    Value row = builder.createOrFold<arith::AddIOp>(loc, base, r);
    Value above = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge,
                                        row, op.getLower());
    Value below = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                                        row, op.getUpper());
    valid = arith::AndIOp::create(builder, loc, above, below);
  }
  if (op.getLive()) {
    Value byte = memref::LoadOp::create(builder, loc, buffer(op.getLive()),
                                        ValueRange{index(0), r});
    Value live = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne,
                                       byte, zero(builder.getI8Type()));
    valid = valid ? arith::AndIOp::create(builder, loc, valid, live).getResult()
                  : live;
  }
  return valid;
}

SmallVector<Value> KernelLowering::findRow(SourceOp source, LoadOp op,
                                           Value position, Value valid) {
  Location loc = op.getLoc();
  Value batch = op.getIndices()[0], head = op.getIndices()[1];
  Value memory = source.getMemory(),
        rows = memref::DimOp::create(builder, loc, memory, source.getRowDim());
  auto element = [&](Value memref, ValueRange at) -> Value {
    Value value = memref::LoadOp::create(builder, loc, memref, at);
    return arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                      value);
  };
  // A page or batch and the row in it, where it is to be read: else nothing of
  // a table is looked at, and nothing divided by.
  auto find = [&]() -> SmallVector<Value> {
    if (Value table = source.getTable()) {
      Value number = arith::DivUIOp::create(builder, loc, position, rows);
      Value slot = arith::RemUIOp::create(builder, loc, position, rows);
      Value page = element(table, {batch, number});
      Value last = arith::SubIOp::create(
          builder, loc, memref::DimOp::create(builder, loc, memory, 0),
          index(1));
      // No entry leads out of the pool.
      page = arith::MaxSIOp::create(builder, loc, page, index(0));
      return {arith::MinSIOp::create(builder, loc, page, last), slot};
    }
    Value start = arith::MaxSIOp::create(
        builder, loc, element(source.getStart(), batch), index(0));
    Value row = arith::AddIOp::create(builder, loc, start, position);
    return {batch, arith::RemUIOp::create(builder, loc, row, rows)};
  };
  SmallVector<Value> found;
  if (valid) {
    Type type = builder.getIndexType();
    auto branch = scf::IfOp::create(builder, loc, TypeRange{type, type}, valid,
                                    /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(builder, loc, find());
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, loc, ValueRange{index(0), index(0)});
    found = branch.getResults();
  } else {
    found = find();
  }
  SmallVector<Value> indices = {found[0], head, found[1]};
  indices.append(op.getIndices().begin() + 3, op.getIndices().end());
  return indices;
}

KernelLowering::RowAccess KernelLowering::accessRow(LoadOp op, Value r) {
  RowAccess row{rowIsValid(op, r), SmallVector<Value>(op.getIndices())};
  Value &position = row.indices[row.indices.size() - (op.getVector() ? 1 : 2)];
  position = builder.createOrFold<arith::AddIOp>(op.getLoc(), position, r);
  if (auto source = op.getSource().getDefiningOp<SourceOp>())
    row.indices = findRow(source, op, position, row.valid);
  return row;
}

bool KernelLowering::hasMasks(Type elementType) {
  return target.vectorBits >= 512 &&
         (!elementType.isBF16() || target.hasBf16Dot);
}

void KernelLowering::columnBlocks(LoadOp op, int64_t width,
                                  function_ref<void(Value, int64_t)> body) {
  Location loc = op.getLoc();
  int64_t cols = op.getMemoryCols();
  int64_t size = cast<MemRefType>(memoryOf(op).getType()).getShape().back();
  // Behind the column where the tile begins; parts of rows begin within them.
  if (APInt first; matchPattern(op.getIndices().back(), m_ConstantInt(&first)))
    size = std::max<int64_t>(size - first.getSExtValue(), 0);
  int64_t whole = std::min(size, cols) / width * width;
  if (whole)
    loop(whole, width, loc, [&](Value col) { body(col, width); });
  if (whole < cols)
    body(index(whole), std::min(size, cols) - whole);
  for (int64_t col = whole + width; col < cols; col += width)
    body(index(col), 0);
}

Value KernelLowering::loadRow(LoadOp op, const RowAccess &row, Value col,
                              int64_t count, int64_t width, Type elementType) {
  Location loc = op.getLoc();
  auto memrefType = cast<MemRefType>(memoryOf(op).getType());
  if (count == 0)
    return zero(vec(width, elementType));
  VectorType type = vec(width, memrefType.getElementType());
  VectorType maskType = vec(width, builder.getI1Type());
  Value valid = row.valid;
  SmallVector<Value> indices(row.indices);
  indices.back() =
      builder.createOrFold<arith::AddIOp>(loc, indices.back(), col);

  if (!hasMasks(memrefType.getElementType()))
    return loadRowUnmasked(op, indices, count, width, valid, elementType);

  Value mask;
  if (count < width)
    mask = vector::ConstantMaskOp::create(builder, loc, maskType,
                                          ArrayRef<int64_t>{count});
  if (valid) {
    Value all = mask ? mask : constant(DenseElementsAttr::get(maskType, true));
    mask = arith::SelectOp::create(builder, loc, valid, all, zero(maskType));
  }
  Value loaded;
  if (!mask)
    loaded = vector::LoadOp::create(builder, loc, type, memoryOf(op), indices);
  else
    loaded = vector::MaskedLoadOp::create(builder, loc, type, memoryOf(op),
                                          indices, mask, zero(type));
  if (!isa<FloatType>(elementType))
    return loaded;
  return toFloat(loaded, elementType);
}

/// Before AVX-512 masks exist for 32-bit lanes only, and bf16 is no type that
/// vectors compute with: rows are read behind a branch, the last columns one
/// by one, and bf16 as the upper half of an f32.
Value KernelLowering::loadRowUnmasked(LoadOp op, ValueRange indices,
                                      int64_t count, int64_t width, Value valid,
                                      Type elementType) {
  Location loc = op.getLoc();
  Type sourceType = cast<MemRefType>(memoryOf(op).getType()).getElementType();
  auto convert = [&](Value value) -> Value {
    if (!isa<FloatType>(elementType))
      return value;
    if (sourceType.isBF16() && elementType.isF32())
      return widenBF16(value);
    return toFloat(value, elementType);
  };
  auto read = [&]() -> Value {
    if (count == width)
      return convert(vector::LoadOp::create(
          builder, loc, vec(width, sourceType), memoryOf(op), indices));
    Value result = zero(vec(width, elementType));
    for (int64_t i = 0; i < count; ++i) {
      SmallVector<Value> position(indices);
      position.back() =
          builder.createOrFold<arith::AddIOp>(loc, position.back(), index(i));
      Value element = vector::LoadOp::create(builder, loc, vec(1, sourceType),
                                             memoryOf(op), position);
      element = vector::ExtractOp::create(builder, loc, convert(element), 0);
      result = vector::InsertOp::create(builder, loc, element, result, i);
    }
    return result;
  };
  if (!valid)
    return read();
  auto branch =
      scf::IfOp::create(builder, loc, TypeRange(vec(width, elementType)), valid,
                        /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(builder, loc, read());
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, loc, zero(vec(width, elementType)));
  return branch.getResult(0);
}

Value KernelLowering::widenBF16(Value vector) {
  Location loc = vector.getLoc();
  int64_t width = cast<VectorType>(vector.getType()).getDimSize(0);
  VectorType i32 = vec(width, builder.getI32Type());
  Value bits = vector::BitCastOp::create(
      builder, loc, vec(width, builder.getI16Type()), vector);
  Value wide = arith::ExtUIOp::create(builder, loc, i32, bits);
  Value sixteen =
      constant(DenseElementsAttr::get(i32, builder.getI32IntegerAttr(16)));
  Value shifted = arith::ShLIOp::create(builder, loc, wide, sixteen);
  return vector::BitCastOp::create(builder, loc,
                                   vec(width, builder.getF32Type()), shifted);
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
KernelLowering::panelPosition(Value n, int64_t total, int64_t panel,
                              int64_t depth, Location loc) {
  Value within = arith::RemUIOp::create(builder, loc, n, index(panel));
  Value first = builder.createOrFold<arith::SubIOp>(loc, n, within);
  Value start = builder.createOrFold<arith::MulIOp>(loc, first, index(depth));
  if (total % panel == 0)
    return {start, within, index(panel)};
  Value left = builder.createOrFold<arith::SubIOp>(loc, index(total), first);
  return {start, within,
          arith::MinSIOp::create(builder, loc, left, index(panel))};
}

/// The layout that transposes, for one that does not, and the other way round.
static Layout transposed(Layout layout) {
  switch (layout) {
  case Layout::RowMajor:
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
void KernelLowering::packPanels(LoadOp op, Value into) {
  Location loc = op.getLoc();
  int64_t rows = op.getMemoryRows(), cols = op.getMemoryCols();
  Type f32 = builder.getF32Type();
  int64_t panel = panelVectors * lanes;
  loop(rows, 1, loc, [&](Value k) {
    RowAccess row = accessRow(op, k);
    columnBlocks(op, lanes, [&](Value col, int64_t count) {
      // The last panel is narrower when NR does not divide N.
      auto [start, within, panelWidth] =
          panelPosition(col, cols, panel, rows, loc);
      Value offset = builder.createOrFold<arith::AddIOp>(
          loc, builder.createOrFold<arith::MulIOp>(loc, k, panelWidth),
          builder.createOrFold<arith::AddIOp>(loc, start, within));
      storeVector(loadRow(op, row, col, count, lanes, f32), into, offset);
    });
  });
}

/// rows = N, cols = K: [N / NR][K][NR].
void KernelLowering::packPanelsTransposed(LoadOp op, Value into) {
  Location loc = op.getLoc();
  int64_t rows = op.getMemoryRows(), cols = op.getMemoryCols();
  Type f32 = builder.getF32Type();
  int64_t panel = panelVectors * lanes;
  loop(rows, lanes, loc, [&](Value n) {
    SmallVector<RowAccess> keys;
    for (int64_t i = 0; i < lanes; ++i)
      keys.push_back(
          accessRow(op, builder.createOrFold<arith::AddIOp>(loc, n, index(i))));
    Value start, within, panelWidth;
    std::tie(start, within, panelWidth) =
        panelPosition(n, rows, panel, cols, loc);
    Value base = builder.createOrFold<arith::AddIOp>(loc, start, within);
    columnBlocks(op, lanes, [&](Value k, int64_t count) {
      SmallVector<Value> block;
      for (int64_t i = 0; i < lanes; ++i)
        block.push_back(loadRow(op, keys[i], k, count, lanes, f32));
      transposeLanes(builder, loc, block);
      for (int64_t i = 0; i < lanes; ++i) {
        Value offset = builder.createOrFold<arith::MulIOp>(
            loc, panelWidth,
            builder.createOrFold<arith::AddIOp>(loc, k, index(i)));
        storeVector(block[i], into,
                    builder.createOrFold<arith::AddIOp>(loc, offset, base));
      }
    });
  });
}

/// rows = K, cols = N: [N / 16][K / 2][16][2].
void KernelLowering::packPairs(LoadOp op, Value into) {
  Location loc = op.getLoc();
  int64_t rows = op.getMemoryRows(), cols = op.getMemoryCols();
  Type bf16 = builder.getBF16Type();
  SmallVector<int64_t> interleave;
  for (int64_t lane = 0; lane < pairColumns; ++lane) {
    interleave.push_back(lane);
    interleave.push_back(pairColumns + lane);
  }
  loop(rows, 2, loc, [&](Value k) {
    Value next = builder.createOrFold<arith::AddIOp>(loc, k, index(1));
    RowAccess row = accessRow(op, k), nextRow = accessRow(op, next);
    columnBlocks(op, pairColumns, [&](Value col, int64_t count) {
      Value a = loadRow(op, row, col, count, pairColumns, bf16);
      Value b = loadRow(op, nextRow, col, count, pairColumns, bf16);
      Value pair = vector::ShuffleOp::create(builder, loc, a, b, interleave);
      Value offset = builder.createOrFold<arith::AddIOp>(
          loc, builder.createOrFold<arith::MulIOp>(loc, k, index(pairColumns)),
          builder.createOrFold<arith::MulIOp>(loc, col, index(rows)));
      storeVector(pair, into, offset);
    });
  });
}

/// rows = N, cols = K: 16 rows of pairs, transposed as 32-bit lanes.
void KernelLowering::packPairsTransposed(LoadOp op, Value into) {
  Location loc = op.getLoc();
  int64_t rows = op.getMemoryRows(), cols = op.getMemoryCols();
  Type bf16 = builder.getBF16Type();
  VectorType i32Vector = vec(pairColumns, builder.getI32Type());
  loop(rows, pairColumns, loc, [&](Value n) {
    SmallVector<RowAccess> keys;
    for (int64_t i = 0; i < pairColumns; ++i)
      keys.push_back(
          accessRow(op, builder.createOrFold<arith::AddIOp>(loc, n, index(i))));
    Value start = builder.createOrFold<arith::MulIOp>(loc, n, index(cols));
    columnBlocks(op, 2 * pairColumns, [&](Value k, int64_t count) {
      SmallVector<Value> block;
      for (int64_t i = 0; i < pairColumns; ++i)
        block.push_back(vector::BitCastOp::create(
            builder, loc, i32Vector,
            loadRow(op, keys[i], k, count, 2 * pairColumns, bf16)));
      transposeLanes(builder, loc, block);
      Value first = builder.createOrFold<arith::AddIOp>(
          loc, start,
          builder.createOrFold<arith::MulIOp>(loc, k, index(pairColumns)));
      for (int64_t i = 0; i < pairColumns; ++i) {
        Value offset = builder.createOrFold<arith::AddIOp>(
            loc, first, index(2 * i * pairColumns));
        storeVector(vector::BitCastOp::create(
                        builder, loc, vec(2 * pairColumns, bf16), block[i]),
                    into, offset);
      }
    });
  });
}

LogicalResult KernelLowering::packLoad(LoadOp op, Layout layout, Value into) {
  switch (op.getTransposed() ? transposed(layout) : layout) {
  case Layout::RowMajor:
    return failure();
  case Layout::Panels:
    packPanels(op, into);
    return success();
  case Layout::PanelsTransposed:
    packPanelsTransposed(op, into);
    return success();
  case Layout::Pairs:
    packPairs(op, into);
    return success();
  case Layout::PairsTransposed:
    packPairsTransposed(op, into);
    return success();
  }
  llvm_unreachable("every layout is handled");
}

LogicalResult KernelLowering::lowerLoad(LoadOp op) {
  Location loc = op.getLoc();
  auto type = cast<TileType>(op.getType());
  auto source = cast<MemRefType>(memoryOf(op).getType());
  if (!op.getVector() && ShapedType::isDynamic(source.getShape().back()))
    return op.emitOpError("expected the columns of the tensor to be static");
  Type elementType = storageType(type.getElementType());
  if (readsInPlace(op)) {
    openInPlace(op);
    return success();
  }
  for (Layout layout : layoutsNeeded(op.getResult())) {
    if (layout == Layout::RowMajor)
      continue;
    Type stored = layout == Layout::Pairs || layout == Layout::PairsTransposed
                      ? Type(builder.getBF16Type())
                      : Type(builder.getF32Type());
    Value into = allocateFlat(type.getNumElements(), stored);
    packedBuffers[{op.getResult(), static_cast<int>(layout)}] = into;
    if (failed(packLoad(op, layout, into)))
      return failure();
  }
  if (!llvm::is_contained(layoutsNeeded(op.getResult()), Layout::RowMajor))
    return success();
  Value out = buffers[op.getResult()] = allocate(type);
  if (op.getTransposed() && !op.getVector()) {
    loadTransposed(op, out, elementType);
    return success();
  }
  if (op.getVector() || type.isRowVector()) {
    // One scalar per row.
    loop(op.getMemoryRows(), 1, loc, [&](Value r) {
      RowAccess row = accessRow(op, r);
      auto read = [&]() -> Value {
        Value element =
            memref::LoadOp::create(builder, loc, memoryOf(op), row.indices);
        return isa<FloatType>(elementType) ? toFloat(element, elementType)
                                           : element;
      };
      Value element;
      if (row.valid) {
        auto branch = scf::IfOp::create(builder, loc, TypeRange(elementType),
                                        row.valid, /*withElseRegion=*/true);
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToStart(branch.thenBlock());
        scf::YieldOp::create(builder, loc, read());
        builder.setInsertionPointToStart(branch.elseBlock());
        scf::YieldOp::create(builder, loc, zero(elementType));
        element = branch.getResult(0);
      } else {
        element = read();
      }
      SmallVector<Value> position = {r};
      if (!type.isRowVector())
        position.insert(position.begin(), index(0));
      memref::StoreOp::create(builder, loc, element, out, position);
    });
    return success();
  }
  int64_t width = std::gcd(type.getCols(), lanes);
  loop(type.getRows(), 1, loc, [&](Value r) {
    RowAccess row = accessRow(op, r);
    columnBlocks(op, width, [&](Value col, int64_t count) {
      storeVector(loadRow(op, row, col, count, width, elementType), out,
                  {r, col});
    });
  });
  return success();
}

/// Element by element: what a dot reads on its right is packed instead.
void KernelLowering::loadTransposed(LoadOp op, Value out, Type elementType) {
  Location loc = op.getLoc();
  bool isVector = op.getType().isRowVector();
  int64_t width = std::gcd(op.getMemoryCols(), lanes);
  loop(op.getMemoryRows(), 1, loc, [&](Value r) {
    RowAccess access = accessRow(op, r);
    columnBlocks(op, width, [&](Value col, int64_t count) {
      Value row = loadRow(op, access, col, count, width, elementType);
      for (int64_t i = 0; i < width; ++i) {
        SmallVector<Value> position = {
            builder.createOrFold<arith::AddIOp>(loc, col, index(i))};
        if (!isVector)
          position.push_back(r);
        memref::StoreOp::create(builder, loc,
                                vector::ExtractOp::create(builder, loc, row, i),
                                out, position);
      }
    });
  });
}

/// The first `count` lanes, one by one.
void KernelLowering::storeColumns(Value vector, Value memref,
                                  ValueRange indices, int64_t count) {
  Location loc = vector.getLoc();
  for (int64_t i = 0; i < count; ++i) {
    SmallVector<Value> position(indices);
    position.back() =
        builder.createOrFold<arith::AddIOp>(loc, position.back(), index(i));
    Value lane = vector::ExtractStridedSliceOp::create(
        builder, loc, vector, ArrayRef<int64_t>{i}, ArrayRef<int64_t>{1},
        ArrayRef<int64_t>{1});
    vector::StoreOp::create(builder, loc, lane, memref, position);
  }
}

template <typename OpT>
LogicalResult KernelLowering::writeRows(
    OpT op, function_ref<void(Value, ValueRange, int64_t)> write) {
  Location loc = op.getLoc();
  auto type = cast<TileType>(op.getValue().getType());
  auto memrefType = cast<MemRefType>(op.getDestination().getType());
  Type elementType = memrefType.getElementType();
  Value from = buffer(op.getValue());
  bool rowVector = op.getVector() || type.isRowVector();
  Value base =
      op.getIndices()[op.getIndices().size() - (op.getVector() ? 1 : 2)];

  // Rows of the tile that are inside [lower, upper).
  Value first = index(0), last = index(type.getRows());
  if (op.getLower()) {
    first = arith::MaxSIOp::create(
        builder, loc, first,
        builder.createOrFold<arith::SubIOp>(loc, op.getLower(), base));
    last = arith::MinSIOp::create(
        builder, loc, last,
        builder.createOrFold<arith::SubIOp>(loc, op.getUpper(), base));
  }
  auto forOp = scf::ForOp::create(builder, loc, first, last, index(1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(forOp.getBody());
  Value r = forOp.getInductionVar();
  SmallVector<Value> indices(op.getIndices());
  Value &row = indices[indices.size() - (op.getVector() ? 1 : 2)];
  row = builder.createOrFold<arith::AddIOp>(loc, row, r);
  auto convert = [&](Value value) {
    return isa<FloatType>(elementType) ? toFloat(value, elementType) : value;
  };
  if (rowVector) {
    Value element = memref::LoadOp::create(builder, loc, from, r);
    write(convert(element), indices, 1);
    return success();
  }
  int64_t width = std::gcd(type.getCols(), lanes);
  int64_t size = memrefType.getShape().back();
  Value column = indices.back();
  auto writeVectors = [&](int64_t count) {
    for (int64_t col = 0; col < count; col += width) {
      Value value = convert(loadVector(from, {r, index(col)}, width));
      indices.back() =
          builder.createOrFold<arith::AddIOp>(loc, column, index(col));
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
  Value end = memref::DimOp::create(builder, loc, op.getDestination(),
                                    memrefType.getRank() - 1);
  Value left = arith::SubIOp::create(builder, loc, end, column);
  Value isWhole = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge,
                                        left, index(type.getCols()));
  auto choice = scf::IfOp::create(builder, loc, isWhole,
                                  /*withElseRegion=*/true);
  builder.setInsertionPointToStart(choice.thenBlock());
  writeVectors(type.getCols());
  builder.setInsertionPointToStart(choice.elseBlock());
  auto rest = scf::ForOp::create(builder, loc, index(0), left, index(1));
  builder.setInsertionPointToStart(rest.getBody());
  Value col = rest.getInductionVar();
  Value element =
      memref::LoadOp::create(builder, loc, from, ValueRange{r, col});
  indices.back() = builder.createOrFold<arith::AddIOp>(loc, column, col);
  write(convert(element), indices, 1);
  return success();
}

/// Element by element, along rows of memory.
void KernelLowering::storeTransposed(StoreOp op) {
  Location loc = op.getLoc();
  auto type = cast<TileType>(op.getValue().getType());
  Value memory = op.getDestination(), from = buffer(op.getValue());
  auto memrefType = cast<MemRefType>(memory.getType());
  size_t rank = op.getIndices().size();
  Value row = op.getIndices()[rank - 2], column = op.getIndices()[rank - 1];
  Value first = index(0), last = index(type.getCols());
  auto sub = [&](Value x, Value y) {
    return builder.createOrFold<arith::SubIOp>(loc, x, y);
  };
  auto least = [&](Value x, Value y) -> Value {
    return arith::MinSIOp::create(builder, loc, x, y);
  };
  if (op.getLower()) {
    first =
        arith::MaxSIOp::create(builder, loc, first, sub(op.getLower(), row));
    last = least(last, sub(op.getUpper(), row));
  }
  Value size = memref::DimOp::create(builder, loc, memory, rank - 1);
  Value count = least(index(type.getRows()), sub(size, column));
  auto rows = scf::ForOp::create(builder, loc, first, last, index(1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(rows.getBody());
  auto cols = scf::ForOp::create(builder, loc, index(0), count, index(1));
  builder.setInsertionPointToStart(cols.getBody());
  Value r = rows.getInductionVar(), c = cols.getInductionVar();
  SmallVector<Value> at = {c};
  if (!type.isRowVector())
    at.push_back(r);
  Value element = memref::LoadOp::create(builder, loc, from, at);
  if (Type to = memrefType.getElementType(); isa<FloatType>(to))
    element = toFloat(element, to);
  SmallVector<Value> to(op.getIndices());
  to[rank - 2] = builder.createOrFold<arith::AddIOp>(loc, row, r);
  to[rank - 1] = builder.createOrFold<arith::AddIOp>(loc, column, c);
  memref::StoreOp::create(builder, loc, element, memory, to);
}

LogicalResult KernelLowering::lowerStore(StoreOp op) {
  if (op.getTransposed() && !op.getVector()) {
    storeTransposed(op);
    return success();
  }
  Location loc = op.getLoc();
  Value memory = op.getDestination();
  return writeRows(op, [&](Value value, ValueRange indices, int64_t count) {
    auto type = dyn_cast<VectorType>(value.getType());
    if (!type) {
      memref::StoreOp::create(builder, loc, value, memory, indices);
    } else if (count == type.getNumElements()) {
      storeVector(value, memory, indices);
    } else if (!hasMasks(type.getElementType())) {
      storeColumns(value, memory, indices, count);
    } else {
      Value mask = vector::ConstantMaskOp::create(
          builder, loc, type.clone(builder.getI1Type()),
          ArrayRef<int64_t>{count});
      vector::MaskedStoreOp::create(builder, loc, memory, indices, mask, value);
    }
  });
}

LogicalResult KernelLowering::lowerAccumulate(AccumulateOp op) {
  Location loc = op.getLoc();
  Value memory = op.getDestination();
  auto addElement = [&](Value element, ValueRange indices) {
    if (op.getAnyOrder()) {
      memref::AtomicRMWOp::create(builder, loc, arith::AtomicRMWKind::addf,
                                  element, memory, indices);
      return;
    }
    Value old = memref::LoadOp::create(builder, loc, memory, indices);
    Value sum = arith::AddFOp::create(builder, loc, old, element);
    memref::StoreOp::create(builder, loc, sum, memory, indices);
  };
  return writeRows(op, [&](Value value, ValueRange indices, int64_t count) {
    auto type = dyn_cast<VectorType>(value.getType());
    if (!type)
      return addElement(value, indices);
    if (count == type.getNumElements() && !op.getAnyOrder()) {
      Value old = loadVector(memory, indices, count);
      return storeVector(arith::AddFOp::create(builder, loc, old, value),
                         memory, indices);
    }
    for (int64_t i = 0; i < count; ++i) {
      SmallVector<Value> position(indices);
      position.back() =
          builder.createOrFold<arith::AddIOp>(loc, position.back(), index(i));
      addElement(vector::ExtractOp::create(builder, loc, value, i), position);
    }
  });
}

LogicalResult KernelLowering::lowerFill(FillOp op) {
  Location loc = op.getLoc();
  auto type = cast<TileType>(op.getType());
  Value out = buffers[op.getResult()] = allocate(type);
  Value value = op.getValue();
  if (value.getType().isSignlessInteger(1))
    value = arith::ExtUIOp::create(builder, loc, builder.getI8Type(), value);
  int64_t extent = type.isRowVector() ? type.getRows() : type.getCols();
  int64_t width = std::gcd(extent, lanes);
  Value vector = splat(value, width);
  if (type.isRowVector()) {
    loop(extent, width, loc, [&](Value r) { storeVector(vector, out, r); });
    return success();
  }
  loop(type.getRows(), 1, loc, [&](Value r) {
    loop(extent, width, loc,
         [&](Value c) { storeVector(vector, out, {r, c}); });
  });
  return success();
}
