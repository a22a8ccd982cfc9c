//===- Dot.cpp - Micro kernels of the matrix products ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Three micro kernels, by the form of the right operand:
//
//   panels  f32 outer products: a block of rows times one panel, accumulators
//           in vector registers, one broadcast of the left operand per row
//   pairs   the same on pairs of bf16 with vdpbf16ps
//   AMX     16x32 by 32x16 bf16 tile products, two by two
//
// The accumulator block stays in registers over the whole K of the tile, so a
// running output is read, rescaled and written once per key tile.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tile;

/// Rows of an AMX tile, and bf16 columns of its left operand.
static constexpr int64_t amxRows = 16, amxDepth = 32;

/// Rows of accumulators beside one panel: they, the panel's vectors and one
/// broadcast must fit the register file.
static int64_t microRows(int64_t rows) {
  for (int64_t candidate = 6; candidate > 1; --candidate)
    if (rows % candidate == 0)
      return candidate;
  return 1;
}

bool KernelLowering::usesPairs(DotOp op) {
  return op.getLhs().getType().getElementType().isBF16() &&
         op.getRhs().getType().getElementType().isBF16() && target.hasBf16Dot &&
         op.getType().getCols() % pairColumns == 0 &&
         op.getDepth() % amxDepth == 0;
}

bool KernelLowering::usesAmx(DotOp op) {
  return usesPairs(op) && target.hasAmxBf16 &&
         op.getType().getRows() % amxRows == 0;
}

Layout KernelLowering::rhsLayout(DotOp op) {
  // One row reads all of it once: what is computed is not worth packing.
  auto load = op.getRhs().getDefiningOp<LoadOp>();
  if (op.getType().getRows() == 1 && !op.getTransposeRhs() &&
      op.getRhs().getType().getElementType().isF32() &&
      (!load || readsInPlace(load)))
    return Layout::RowMajor;
  if (usesPairs(op))
    return op.getTransposeRhs() ? Layout::PairsTransposed : Layout::Pairs;
  return op.getTransposeRhs() ? Layout::PanelsTransposed : Layout::Panels;
}

FailureOr<Value> KernelLowering::packed(Value value, Layout layout,
                                        Location loc) {
  if (layout == Layout::RowMajor)
    return buffer(value);
  auto it = packedBuffers.find({value, static_cast<int>(layout)});
  if (it != packedBuffers.end())
    return it->second;
  // What a loop carries is another one each time: packed where it is used.
  if (Value rows = packRows(value, layout, loc))
    return rows;
  emitError(loc, "expected the right operand of tile.dot to be of f32, or a "
                 "tile.load");
  return failure();
}

void KernelLowering::packComputed(Value value) {
  // A reduction that runs in the loop of a map stands behind it.
  if (!buffer(value))
    return;
  for (Layout layout : layoutsNeeded(value))
    if (layout != Layout::RowMajor)
      if (Value packed = packRows(value, layout, value.getLoc()))
        packedBuffers[{value, static_cast<int>(layout)}] = packed;
}

Value KernelLowering::packRows(Value value, Layout layout, Location loc) {
  auto type = cast<TileType>(value.getType());
  Value rows = buffer(value);
  bool isPanels =
      layout == Layout::Panels || layout == Layout::PanelsTransposed;
  if (rows && layout == Layout::Pairs && type.getElementType().isBF16())
    return packPairs(rows, type, loc);
  if (!rows || !isPanels || !type.getElementType().isF32() ||
      type.isRowVector())
    return {};
  Value into = allocateFlat(type.getNumElements(), type.getElementType());
  // The columns of the product, and what it sums up.
  bool isTransposed = layout == Layout::PanelsTransposed;
  int64_t cols = isTransposed ? type.getRows() : type.getCols();
  int64_t depth = isTransposed ? type.getCols() : type.getRows();
  int64_t panel = panelVectors * lanes;
  auto place = [&](Value col, Value k) -> Value {
    auto [start, within, width] = panelPosition(col, cols, panel, depth, loc);
    Value offset = builder.createOrFold<arith::MulIOp>(loc, k, width);
    offset = builder.createOrFold<arith::AddIOp>(loc, offset, start);
    return builder.createOrFold<arith::AddIOp>(loc, offset, within);
  };
  loop(cols, lanes, loc, [&](Value col) {
    if (!isTransposed)
      return loop(depth, 1, loc, [&](Value k) {
        storeVector(loadVector(rows, {k, col}, lanes), into, place(col, k));
      });
    loop(depth, lanes, loc, [&](Value k) {
      SmallVector<Value> block;
      for (int64_t i = 0; i < lanes; ++i)
        block.push_back(loadVector(
            rows, {builder.createOrFold<arith::AddIOp>(loc, col, index(i)), k},
            lanes));
      transposeLanes(builder, loc, block);
      for (int64_t i = 0; i < lanes; ++i)
        storeVector(
            block[i], into,
            place(col, builder.createOrFold<arith::AddIOp>(loc, k, index(i))));
    });
  });
  return into;
}

/// [N / 16][K / 2][16][2] of rows KxN.
Value KernelLowering::packPairs(Value rows, TileType type, Location loc) {
  Value into = allocateFlat(type.getNumElements(), type.getElementType());
  SmallVector<int64_t> interleave;
  for (int64_t lane = 0; lane < pairColumns; ++lane)
    interleave.append({lane, pairColumns + lane});
  loop(type.getRows(), 2, loc, [&](Value k) {
    Value next = builder.createOrFold<arith::AddIOp>(loc, k, index(1));
    loop(type.getCols(), pairColumns, loc, [&](Value col) {
      Value pair = vector::ShuffleOp::create(
          builder, loc, loadVector(rows, {k, col}, pairColumns),
          loadVector(rows, {next, col}, pairColumns), interleave);
      Value offset = builder.createOrFold<arith::AddIOp>(
          loc, builder.createOrFold<arith::MulIOp>(loc, k, index(pairColumns)),
          builder.createOrFold<arith::MulIOp>(loc, col, index(type.getRows())));
      storeVector(pair, into, offset);
    });
  });
  return into;
}

Value KernelLowering::transposeRows(Value value, Location loc) {
  auto type = cast<TileType>(value.getType());
  Value rows = buffer(value);
  Value into = allocate(TileType::get(builder.getContext(), type.getCols(),
                                      type.getRows(), type.getElementType()));
  auto at = [&](Value base, int64_t offset) -> Value {
    return builder.createOrFold<arith::AddIOp>(loc, base, index(offset));
  };
  loop(type.getRows(), pairColumns, loc, [&](Value row) {
    loop(type.getCols(), pairColumns, loc, [&](Value col) {
      SmallVector<Value> block;
      for (int64_t i = 0; i < pairColumns; ++i)
        block.push_back(loadVector(rows, {at(row, i), col}, pairColumns));
      transposeLanes(builder, loc, block);
      for (int64_t i = 0; i < pairColumns; ++i)
        storeVector(block[i], into, {at(col, i), row});
    });
  });
  return into;
}

LogicalResult KernelLowering::lowerDot(DotOp op) {
  Location loc = op.getLoc();
  FailureOr<Value> rhs = packed(op.getRhs(), rhsLayout(op), loc);
  if (failed(rhs))
    return failure();
  Value lhs = buffer(op.getLhs());
  // Pairs are of neighbours in a row.
  if (op.getTransposeLhs() && usesPairs(op))
    lhs = transposeRows(op.getLhs(), loc);
  Value acc = op.getAcc() ? buffer(op.getAcc()) : Value();
  Value scale = op.getScale() ? buffer(op.getScale()) : Value();
  Value out = resultBuffer(
      op.getResult(), op.getAcc() ? ValueRange(op.getAcc()) : ValueRange(), op);
  if (usesAmx(op)) {
    configureAmx();
    if (acc) {
      if (scale)
        scaleRows(acc, scale, out, op.getType(), loc);
      else
        copy(acc, out, op.getType(), loc);
    }
    dotAmx(op, lhs, *rhs, acc, out);
    return success();
  }
  auto load = op.getAcc() ? op.getAcc().getDefiningOp<LoadOp>() : LoadOp();
  if (usesPairs(op))
    dotPairs(op, lhs, *rhs, acc, scale, out);
  else if (op.getDepth() == 1 && load && readsInPlace(load) && target.hasFma &&
           cast<MemRefType>(rhs->getType()).getRank() == 1)
    addOuterProduct(op, lhs, *rhs, acc, scale, out, findRowReader(op));
  else
    dotPanels(op, lhs, *rhs, acc, scale, out);
  return success();
}

void KernelLowering::scaleRows(Value from, Value scale, Value to, TileType type,
                               Location loc) {
  loop(type.getRows(), 1, loc, [&](Value r) {
    Value factor = memref::LoadOp::create(builder, loc, scale, r);
    auto scaleRow = [&]() {
      Value factors = splat(factor, lanes);
      for (int64_t c = 0; c < type.getCols(); c += lanes) {
        Value row = loadVector(from, {r, index(c)}, lanes);
        storeVector(arith::MulFOp::create(builder, loc, row, factors), to,
                    {r, index(c)});
      }
    };
    if (from != to)
      return scaleRow();
    // Once the statistic has settled the factor is 1 for most rows.
    Value changes =
        arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE, factor,
                              constant(builder.getF32FloatAttr(1.0)));
    auto branch = scf::IfOp::create(builder, loc, changes);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    scaleRow();
  });
}

void KernelLowering::outerProducts(DotOp op, Value acc, Value scale, Value out,
                                   const MicroKernel &kernel) {
  Location loc = op.getLoc();
  TileType type = op.getType();
  int64_t depth = op.getDepth();
  int64_t rows = type.getRows(), cols = type.getCols();
  int64_t blockRows = microRows(rows);
  Type f32 = builder.getF32Type();

  // `numVectors` vectors of columns from `col`.
  auto panel = [&](Value col, int64_t numVectors) {
    SmallVector<Value> columnIndices;
    for (int64_t v = 0; v < numVectors; ++v)
      columnIndices.push_back(
          builder.createOrFold<arith::AddIOp>(loc, col, index(v * lanes)));
    loop(rows, blockRows, loc, [&](Value r0) {
      SmallVector<Value> accumulators, rowIndices;
      for (int64_t r = 0; r < blockRows; ++r) {
        Value row = builder.createOrFold<arith::AddIOp>(loc, r0, index(r));
        rowIndices.push_back(row);
        Value factor;
        if (acc && scale)
          factor =
              splat(memref::LoadOp::create(builder, loc, scale, row), lanes);
        for (Value c : columnIndices) {
          Value initial = zero(vec(lanes, f32));
          if (acc) {
            initial = loadVector(acc, {row, c}, lanes);
            if (factor)
              initial = arith::MulFOp::create(builder, loc, initial, factor);
          }
          accumulators.push_back(initial);
        }
      }
      auto forOp = scf::ForOp::create(builder, loc, index(0), index(depth),
                                      index(kernel.depthStep), accumulators);
      {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToStart(forOp.getBody());
        Value k = forOp.getInductionVar();
        SmallVector<Value> columns = kernel.columns(col, k, numVectors), next;
        for (int64_t r = 0; r < blockRows; ++r) {
          Value row = kernel.row(rowIndices[r], k);
          for (int64_t v = 0; v < numVectors; ++v)
            next.push_back(kernel.multiplyAdd(
                row, columns[v],
                forOp.getRegionIterArgs()[r * numVectors + v]));
        }
        builder.setInsertionPointToEnd(forOp.getBody());
        scf::YieldOp::create(builder, loc, next);
      }
      for (int64_t r = 0; r < blockRows; ++r)
        for (int64_t v = 0; v < numVectors; ++v)
          storeVector(forOp.getResult(r * numVectors + v), out,
                      {rowIndices[r], columnIndices[v]});
    });
  };
  // One row leaves registers for more columns: whole rows of the other operand
  // are read one after the other.
  int64_t numVectors = panelVectors;
  if (kernel.isWide)
    numVectors = std::min(cols / lanes, 2 * panelVectors);
  int64_t width = numVectors * lanes;
  int64_t whole = cols / width * width;
  if (whole)
    loop(whole, width, loc, [&](Value col) { panel(col, numVectors); });
  if (cols > whole)
    panel(index(whole), (cols - whole) / lanes);
}

DotOp KernelLowering::findRowReader(DotOp op) {
  for (Operation *user : op.getResult().getUsers()) {
    auto reader = dyn_cast<DotOp>(user);
    if (reader && reader->getBlock() == op->getBlock() &&
        reader.getRhs() == op.getResult() && reader.getAcc() &&
        reader.getAcc() != op.getResult() && !reader.getScale() &&
        reader.getType().getRows() == 1 && !reader.getTransposeRhs() &&
        !reader.getTransposeLhs() && buffer(reader.getLhs()) &&
        buffer(reader.getAcc()) &&
        reader.getLhs().getType().getElementType().isF32())
      return reader;
  }
  return {};
}

/// Adds the product of a column and a row to a tile, row by row, as it lies in
/// memory, and what `reader`, if any, makes of each row; sums and the row stay
/// in registers.
void KernelLowering::addOuterProduct(DotOp op, Value lhs, Value rhs, Value acc,
                                     Value scale, Value out, DotOp reader) {
  Location loc = op.getLoc();
  TileType type = op.getType();
  int64_t width = std::min(type.getCols(), 2 * panelVectors * lanes);
  Value readerOut, readerLhs, readerAcc;
  if (reader) {
    readerLhs = buffer(reader.getLhs());
    readerAcc = buffer(reader.getAcc());
    readerOut = resultBuffer(reader.getResult(), reader.getAcc(), reader);
    alreadyLowered.insert(reader);
  }
  auto strip = [&](Value first, int64_t count) {
    SmallVector<Value> cols, columns, sums;
    for (int64_t v = 0; v < count / lanes; ++v)
      cols.push_back(
          builder.createOrFold<arith::AddIOp>(loc, first, index(v * lanes)));
    for (Value col : cols) {
      // Of one row panels are the row.
      columns.push_back(loadVector(rhs, col, lanes));
      if (reader)
        sums.push_back(loadVector(readerAcc, {index(0), col}, lanes));
    }
    auto step = [&](Value r, ArrayRef<Value> carried) {
      auto spread = [&](Value element) {
        return splat(toFloat(element, builder.getF32Type()), lanes);
      };
      Value left = spread(leftElement(op, lhs, r, index(0)));
      Value factor, query;
      if (scale)
        factor = spread(memref::LoadOp::create(builder, loc, scale, r));
      if (reader)
        query = spread(leftElement(reader, readerLhs, index(0), r));
      SmallVector<Value> next;
      for (auto [i, col] : llvm::enumerate(cols)) {
        Value sum = loadVector(acc, {r, col}, lanes);
        if (factor)
          sum = arith::MulFOp::create(builder, loc, sum, factor);
        sum = math::FmaOp::create(builder, loc, left, columns[i], sum);
        storeVector(sum, out, {r, col});
        if (reader)
          next.push_back(
              math::FmaOp::create(builder, loc, query, sum, carried[i]));
      }
      return next;
    };
    if (!reader)
      return loop(type.getRows(), 1, loc, [&](Value r) { step(r, {}); });
    sums = carry(type.getRows(), sums, loc, step);
    for (auto [i, sum] : llvm::enumerate(sums))
      storeVector(sum, readerOut, {index(0), cols[i]});
  };
  int64_t whole = type.getCols() / width * width;
  loop(whole, width, loc, [&](Value col) { strip(col, width); });
  if (whole < type.getCols())
    strip(index(whole), type.getCols() - whole);
}

Value KernelLowering::leftElement(DotOp op, Value lhs, Value row, Value k) {
  SmallVector<Value> position = {row, k};
  if (op.getTransposeLhs())
    std::swap(position[0], position[1]);
  position.truncate(cast<MemRefType>(lhs.getType()).getRank());
  return memref::LoadOp::create(builder, op.getLoc(), lhs, position);
}

void KernelLowering::dotPanels(DotOp op, Value lhs, Value rhs, Value acc,
                               Value scale, Value out) {
  Location loc = op.getLoc();
  int64_t depth = op.getDepth();
  MicroKernel kernel;
  kernel.depthStep = 1;
  bool isPacked = cast<MemRefType>(rhs.getType()).getRank() == 1;
  kernel.isWide = !isPacked && op.getType().getRows() == 1;
  kernel.columns = [&](Value col, Value k, int64_t numVectors) {
    if (!isPacked) {
      SmallVector<Value> columns;
      for (int64_t v = 0; v < numVectors; ++v)
        columns.push_back(loadVector(rhs,
                                     {k, builder.createOrFold<arith::AddIOp>(
                                             loc, col, index(v * lanes))},
                                     lanes));
      return columns;
    }
    // Panels before this one, then the rows of this one.
    Value offset = builder.createOrFold<arith::AddIOp>(
        loc, builder.createOrFold<arith::MulIOp>(loc, col, index(depth)),
        builder.createOrFold<arith::MulIOp>(loc, k, index(numVectors * lanes)));
    SmallVector<Value> columns;
    for (int64_t v = 0; v < numVectors; ++v)
      columns.push_back(loadVector(
          rhs,
          builder.createOrFold<arith::AddIOp>(loc, offset, index(v * lanes)),
          lanes));
    return columns;
  };
  kernel.row = [&](Value row, Value k) {
    Value element = leftElement(op, lhs, row, k);
    return splat(toFloat(element, builder.getF32Type()), lanes);
  };
  kernel.multiplyAdd = [&](Value row, Value column, Value sum) -> Value {
    if (target.hasFma)
      return math::FmaOp::create(builder, loc, row, column, sum);
    return arith::AddFOp::create(
        builder, loc, arith::MulFOp::create(builder, loc, row, column), sum);
  };
  outerProducts(op, acc, scale, out, kernel);
}

void KernelLowering::dotPairs(DotOp op, Value lhs, Value rhs, Value acc,
                              Value scale, Value out) {
  Location loc = op.getLoc();
  int64_t depth = op.getDepth();
  VectorType sumType = vec(lanes, builder.getF32Type());
  VectorType pairType = vec(2 * lanes, builder.getBF16Type());
  MicroKernel kernel;
  kernel.depthStep = 2;
  kernel.columns = [&](Value col, Value k, int64_t numVectors) {
    SmallVector<Value> columns;
    for (int64_t v = 0; v < numVectors; ++v) {
      Value c =
          builder.createOrFold<arith::AddIOp>(loc, col, index(v * pairColumns));
      Value offset = builder.createOrFold<arith::AddIOp>(
          loc, builder.createOrFold<arith::MulIOp>(loc, c, index(depth)),
          builder.createOrFold<arith::MulIOp>(loc, k, index(pairColumns)));
      columns.push_back(loadVector(rhs, offset, 2 * pairColumns));
    }
    return columns;
  };
  kernel.row = [&](Value row, Value k) -> Value {
    // Two bf16 are broadcast as one 32-bit word.
    Value pair = loadVector(lhs, {row, k}, 2);
    Value word = vector::ExtractOp::create(
        builder, loc,
        vector::BitCastOp::create(builder, loc, vec(1, builder.getI32Type()),
                                  pair),
        0);
    return vector::BitCastOp::create(builder, loc, pairType,
                                     splat(word, lanes));
  };
  kernel.multiplyAdd = [&](Value row, Value column, Value sum) -> Value {
    return LLVM::CallIntrinsicOp::create(
               builder, loc, sumType,
               builder.getStringAttr("llvm.x86.avx512bf16.dpbf16ps.512"),
               ValueRange{sum, row, column})
        .getResult(0);
  };
  outerProducts(op, acc, scale, out, kernel);
}

//===----------------------------------------------------------------------===//
// AMX
//===----------------------------------------------------------------------===//

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

void KernelLowering::configureAmx() {
  if (amxConfigured)
    return;
  amxConfigured = true;
  // Tile palette 1: every register 16 rows of 64 bytes. Layout of the 64-byte
  // configuration: Intel SDM, LDTILECFG.
  OpBuilder::InsertionGuard guard(builder);
  Value config = allocateFlat(64, builder.getI8Type());
  builder.setInsertionPointAfterValue(config);
  Location loc = kernel.getLoc();
  SmallVector<int8_t> bytes(64, 0);
  bytes[0] = 1;
  for (int64_t tile = 0; tile < 8; ++tile) {
    bytes[16 + 2 * tile] = 64;
    bytes[48 + tile] = amxRows;
  }
  VectorType type = vec(64, builder.getI8Type());
  Value image = constant(DenseElementsAttr::get(type, ArrayRef<int8_t>(bytes)));
  storeVector(image, config, index(0));
  amxCall(builder, loc, "llvm.x86.ldtilecfg", {},
          addressOf(builder, loc, config, ValueRange{index(0)}));
}

void KernelLowering::releaseAmx() {
  amxCall(builder, kernel.getLoc(), "llvm.x86.tilerelease", {});
}

void KernelLowering::dotAmx(DotOp op, Value lhs, Value rhs, Value acc,
                            Value out) {
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

  // Accumulators 0..3 as [row tile][column tile], left 4..5, right 6..7.
  auto block = [&](Value r0, Value c0, int64_t rowTiles, int64_t colTiles) {
    auto at = [&](Value base, int64_t offset) -> Value {
      return builder.createOrFold<arith::AddIOp>(loc, base, index(offset));
    };
    SmallVector<Value> outAddress;
    for (int64_t i = 0; i < rowTiles; ++i)
      for (int64_t j = 0; j < colTiles; ++j) {
        outAddress.push_back(addressOf(
            builder, loc, out,
            ValueRange{at(r0, i * amxRows), at(c0, j * pairColumns)}));
        if (acc)
          amxCall(builder, loc, "llvm.x86.tileloadd64", {i * 2 + j},
                  outAddress.back(), outStride);
        else
          amxCall(builder, loc, "llvm.x86.tilezero", {i * 2 + j});
      }
    loop(depth, amxDepth, loc, [&](Value k) {
      for (int64_t i = 0; i < rowTiles; ++i)
        amxCall(
            builder, loc, "llvm.x86.tileloadd64", {4 + i},
            addressOf(builder, loc, lhs, ValueRange{at(r0, i * amxRows), k}),
            lhsStride);
      for (int64_t j = 0; j < colTiles; ++j) {
        // Block [column tile][K / 2][16][2].
        Value offset = builder.createOrFold<arith::AddIOp>(
            loc,
            builder.createOrFold<arith::MulIOp>(loc, at(c0, j * pairColumns),
                                                index(depth)),
            builder.createOrFold<arith::MulIOp>(loc, k, index(pairColumns)));
        amxCall(builder, loc, "llvm.x86.tileloadd64", {6 + j},
                addressOf(builder, loc, rhs, ValueRange{offset}), 64);
      }
      for (int64_t i = 0; i < rowTiles; ++i)
        for (int64_t j = 0; j < colTiles; ++j)
          amxCall(builder, loc, "llvm.x86.tdpbf16ps",
                  {i * 2 + j, 4 + i, 6 + j});
    });
    for (int64_t i = 0; i < rowTiles; ++i)
      for (int64_t j = 0; j < colTiles; ++j)
        amxCall(builder, loc, "llvm.x86.tilestored64", {i * 2 + j},
                outAddress[i * colTiles + j], outStride);
  };
  auto rowBlock = [&](Value r0, int64_t rowTiles) {
    int64_t whole = cols / (2 * pairColumns) * (2 * pairColumns);
    if (whole)
      loop(whole, 2 * pairColumns, loc,
           [&](Value c0) { block(r0, c0, rowTiles, 2); });
    if (cols > whole)
      block(r0, index(whole), rowTiles, 1);
  };
  int64_t wholeRows = rows / (2 * amxRows) * (2 * amxRows);
  if (wholeRows)
    loop(wholeRows, 2 * amxRows, loc, [&](Value r0) { rowBlock(r0, 2); });
  if (rows > wholeRows)
    rowBlock(index(wholeRows), 1);
}
