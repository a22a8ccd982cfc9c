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
    Value base = op.getIndices()[op.getVector()
                                     ? op.getIndices().size() - 1
                                     : op.getIndices().size() - 2];
    Value row = arith::AddIOp::create(builder, loc, base, r);
    Value above = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::sge, row, op.getLower());
    Value below = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::slt, row, op.getUpper());
    valid = arith::AndIOp::create(builder, loc, above, below);
  }
  if (op.getLive()) {
    Value byte = memref::LoadOp::create(builder, loc, buffer(op.getLive()),
                                        ValueRange{index(0), r});
    Value live = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::ne, byte,
        zero(builder.getI8Type()));
    valid = valid ? arith::AndIOp::create(builder, loc, valid, live).getResult()
                  : live;
  }
  return valid;
}

/// Elements of the last dimension from the tile's column 0 on, when static.
static int64_t columnsInRange(LoadOp op) {
  MemRefType type = cast<MemRefType>(op.getSource().getType());
  int64_t size = type.getShape().back();
  APInt column;
  if (ShapedType::isDynamic(size))
    return ShapedType::kDynamic;
  if (!matchPattern(op.getIndices().back(), m_ConstantInt(&column)))
    return ShapedType::kDynamic;
  return std::max<int64_t>(0, size - column.getSExtValue());
}

Value KernelLowering::loadRow(LoadOp op, Value row, int64_t col, int64_t width,
                              Value valid, Type elementType) {
  Location loc = op.getLoc();
  auto memrefType = cast<MemRefType>(op.getSource().getType());
  VectorType type = vec(width, memrefType.getElementType());
  VectorType maskType = vec(width, builder.getI1Type());
  SmallVector<Value> indices(op.getIndices());
  Value &rowIndex = indices[indices.size() - 2];
  rowIndex = arith::AddIOp::create(builder, loc, rowIndex, row);
  Value column = indices.back();
  indices.back() =
      arith::AddIOp::create(builder, loc, column, index(col));

  Value mask;
  int64_t inRange = columnsInRange(op);
  if (ShapedType::isDynamic(inRange)) {
    Value size = memref::DimOp::create(builder, loc, op.getSource(),
                                       memrefType.getRank() - 1);
    Value left =
        arith::SubIOp::create(builder, loc, size, indices.back());
    mask = vector::CreateMaskOp::create(builder, loc, maskType, left);
  } else if (inRange <= col) {
    return zero(vec(width, elementType));
  } else if (inRange < col + width) {
    mask = vector::ConstantMaskOp::create(builder, loc, maskType,
                                          ArrayRef<int64_t>{inRange - col});
  }
  if (valid) {
    Value all = mask ? mask
                     : constant(DenseElementsAttr::get(
                           maskType, builder.getBoolAttr(true)));
    mask = arith::SelectOp::create(builder, loc, valid, all, zero(maskType));
  }
  Value loaded;
  if (!mask)
    loaded = vector::LoadOp::create(builder, loc, type, op.getSource(),
                                    indices);
  else
    loaded = vector::MaskedLoadOp::create(builder, loc, type, op.getSource(),
                                          indices, mask, zero(type));
  if (!isa<FloatType>(elementType))
    return loaded;
  return toFloat(loaded, elementType);
}

/// Transposes `rows` (as many vectors as lanes) in place by butterflies: at
/// distance D, rows i and i + D swap the lanes that differ in bit D.
static void transpose(OpBuilder &builder, Location loc,
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

LogicalResult KernelLowering::packLoad(LoadOp op, Layout layout, Value into) {
  Location loc = op.getLoc();
  auto type = cast<TileType>(op.getType());
  int64_t rows = type.getRows(), cols = type.getCols();
  Type f32 = builder.getF32Type();

  switch (layout) {
  case Layout::RowMajor:
    return failure();
  case Layout::Panels: {
    // rows = K, cols = N: [N / NR][K][NR].
    int64_t panel = panelVectors * lanes;
    loop(rows, 1, loc, [&](Value k) {
      Value valid = rowIsValid(op, k);
      for (int64_t col = 0; col < cols; col += lanes) {
        int64_t start = col / panel * panel * rows;
        int64_t panelWidth = std::min(panel, cols - col / panel * panel);
        Value offset = arith::AddIOp::create(
            builder, loc,
            arith::MulIOp::create(builder, loc, k, index(panelWidth)),
            index(start + col % panel));
        storeVector(loadRow(op, k, col, lanes, valid, f32), into, offset);
      }
    });
    return success();
  }
  case Layout::PanelsTransposed: {
    // rows = N, cols = K: [N / NR][K][NR].
    int64_t panel = panelVectors * lanes;
    loop(rows, lanes, loc, [&](Value n) {
      SmallVector<Value> valid, keys;
      for (int64_t i = 0; i < lanes; ++i) {
        keys.push_back(arith::AddIOp::create(builder, loc, n, index(i)));
        valid.push_back(rowIsValid(op, keys.back()));
      }
      // Panel of this group, and where in it.
      Value panelIndex =
          arith::DivUIOp::create(builder, loc, n, index(panel));
      Value start = arith::MulIOp::create(builder, loc, panelIndex,
                                          index(panel * cols));
      Value within = arith::RemUIOp::create(builder, loc, n, index(panel));
      // The last panel is narrower when NR does not divide N.
      Value left = arith::SubIOp::create(
          builder, loc, index(rows),
          arith::MulIOp::create(builder, loc, panelIndex, index(panel)));
      Value panelWidth =
          rows % panel == 0
              ? index(panel)
              : arith::MinSIOp::create(builder, loc, left, index(panel))
                    .getResult();
      for (int64_t k = 0; k < cols; k += lanes) {
        SmallVector<Value> block;
        for (int64_t i = 0; i < lanes; ++i)
          block.push_back(loadRow(op, keys[i], k, lanes, valid[i], f32));
        transpose(builder, loc, block);
        for (int64_t i = 0; i < lanes; ++i) {
          Value offset = arith::MulIOp::create(builder, loc, panelWidth,
                                               index(k + i));
          offset = arith::AddIOp::create(builder, loc, offset, start);
          offset = arith::AddIOp::create(builder, loc, offset, within);
          storeVector(block[i], into, offset);
        }
      }
    });
    return success();
  }
  case Layout::Pairs: {
    // rows = K, cols = N: [N / 16][K / 2][16][2].
    Type bf16 = builder.getBF16Type();
    SmallVector<int64_t> interleave;
    for (int64_t lane = 0; lane < pairColumns; ++lane) {
      interleave.push_back(lane);
      interleave.push_back(pairColumns + lane);
    }
    loop(rows, 2, loc, [&](Value k) {
      Value next = arith::AddIOp::create(builder, loc, k, index(1));
      Value valid = rowIsValid(op, k), nextValid = rowIsValid(op, next);
      for (int64_t col = 0; col < cols; col += pairColumns) {
        Value a = loadRow(op, k, col, pairColumns, valid, bf16);
        Value b = loadRow(op, next, col, pairColumns, nextValid, bf16);
        Value pair = vector::ShuffleOp::create(builder, loc, a, b, interleave);
        Value offset = arith::AddIOp::create(
            builder, loc,
            arith::MulIOp::create(builder, loc, k, index(pairColumns)),
            index(col * rows));
        storeVector(pair, into, offset);
      }
    });
    return success();
  }
  case Layout::PairsTransposed: {
    // rows = N, cols = K: 16 rows of pairs, transposed as 32-bit lanes.
    Type bf16 = builder.getBF16Type();
    VectorType i32Vector = vec(pairColumns, builder.getI32Type());
    loop(rows, pairColumns, loc, [&](Value n) {
      SmallVector<Value> valid, keys;
      for (int64_t i = 0; i < pairColumns; ++i) {
        keys.push_back(arith::AddIOp::create(builder, loc, n, index(i)));
        valid.push_back(rowIsValid(op, keys.back()));
      }
      Value start =
          arith::MulIOp::create(builder, loc, n, index(cols));
      for (int64_t k = 0; k < cols; k += 2 * pairColumns) {
        SmallVector<Value> block;
        for (int64_t i = 0; i < pairColumns; ++i)
          block.push_back(vector::BitCastOp::create(
              builder, loc, i32Vector,
              loadRow(op, keys[i], k, 2 * pairColumns, valid[i], bf16)));
        transpose(builder, loc, block);
        for (int64_t i = 0; i < pairColumns; ++i) {
          Value offset = arith::AddIOp::create(
              builder, loc, start, index((k + 2 * i) * pairColumns));
          storeVector(vector::BitCastOp::create(
                          builder, loc, vec(2 * pairColumns, bf16), block[i]),
                      into, offset);
        }
      }
    });
    return success();
  }
  }
  llvm_unreachable("every layout is handled");
}

LogicalResult KernelLowering::lowerLoad(LoadOp op) {
  Location loc = op.getLoc();
  auto type = cast<TileType>(op.getType());
  Type elementType = storageType(type.getElementType());
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
  if (op.getVector() || type.isRowVector()) {
    // One scalar per row.
    loop(type.getRows(), 1, loc, [&](Value r) {
      auto read = [&]() -> Value {
        SmallVector<Value> indices(op.getIndices());
        Value &row = indices[indices.size() - (op.getVector() ? 1 : 2)];
        row = arith::AddIOp::create(builder, loc, row, r);
        Value element = memref::LoadOp::create(builder, loc, op.getSource(),
                                               indices);
        return isa<FloatType>(elementType) ? toFloat(element, elementType)
                                           : element;
      };
      Value element;
      if (Value valid = rowIsValid(op, r)) {
        auto branch = scf::IfOp::create(builder, loc, TypeRange(elementType),
                                        valid, /*withElseRegion=*/true);
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToStart(branch.thenBlock());
        scf::YieldOp::create(builder, loc, read());
        builder.setInsertionPointToStart(branch.elseBlock());
        scf::YieldOp::create(builder, loc, zero(elementType));
        element = branch.getResult(0);
      } else {
        element = read();
      }
      memref::StoreOp::create(builder, loc, element, out, r);
    });
    return success();
  }
  int64_t width = std::gcd(type.getCols(), lanes);
  loop(type.getRows(), 1, loc, [&](Value r) {
    Value valid = rowIsValid(op, r);
    for (int64_t col = 0; col < type.getCols(); col += width)
      storeVector(loadRow(op, r, col, width, valid, elementType), out,
                  {r, index(col)});
  });
  return success();
}

LogicalResult KernelLowering::lowerStore(StoreOp op) {
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
        arith::SubIOp::create(builder, loc, op.getLower(), base));
    last = arith::MinSIOp::create(
        builder, loc, last,
        arith::SubIOp::create(builder, loc, op.getUpper(), base));
  }
  auto forOp = scf::ForOp::create(builder, loc, first, last, index(1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(forOp.getBody());
  Value r = forOp.getInductionVar();
  SmallVector<Value> indices(op.getIndices());
  Value &row = indices[indices.size() - (op.getVector() ? 1 : 2)];
  row = arith::AddIOp::create(builder, loc, row, r);
  auto convert = [&](Value value) {
    return isa<FloatType>(elementType) ? toFloat(value, elementType) : value;
  };
  if (rowVector) {
    Value element = memref::LoadOp::create(builder, loc, from, r);
    memref::StoreOp::create(builder, loc, convert(element),
                            op.getDestination(), indices);
    return success();
  }
  int64_t width = std::gcd(type.getCols(), lanes);
  int64_t size = memrefType.getShape().back();
  Value column = indices.back();
  APInt constantColumn;
  bool isStatic = !ShapedType::isDynamic(size) &&
                  matchPattern(column, m_ConstantInt(&constantColumn));
  for (int64_t col = 0; col < type.getCols(); col += width) {
    Value value = convert(loadVector(from, {r, index(col)}, width));
    indices.back() = arith::AddIOp::create(builder, loc, column, index(col));
    Value mask;
    VectorType maskType = vec(width, builder.getI1Type());
    if (!isStatic) {
      Value dim = memref::DimOp::create(builder, loc, op.getDestination(),
                                        memrefType.getRank() - 1);
      mask = vector::CreateMaskOp::create(
          builder, loc, maskType,
          arith::SubIOp::create(builder, loc, dim, indices.back())
              .getResult());
    } else {
      int64_t left = size - constantColumn.getSExtValue() - col;
      if (left <= 0)
        continue;
      if (left < width)
        mask = vector::ConstantMaskOp::create(builder, loc, maskType,
                                              ArrayRef<int64_t>{left});
    }
    if (mask)
      vector::MaskedStoreOp::create(builder, loc, op.getDestination(), indices,
                                    mask, value);
    else
      storeVector(value, op.getDestination(), indices);
  }
  return success();
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
