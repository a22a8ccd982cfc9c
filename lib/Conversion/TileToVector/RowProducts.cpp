//===- RowProducts.cpp - Products of few rows with rows of memory ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Scores of few rows read each key once: what is turned round in scratch for
// them is read as often as it is written. Here a key is read where it is in
// memory, row by row in order, and multiplied by all rows on the left; each sum
// is in the lanes of a vector until its end, where eight of them become one
// vector.
//
//===----------------------------------------------------------------------===//

#include "VectorContext.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tile;

/// Sums that are in registers at once, and become one vector.
static constexpr int64_t numSums = 8;

static bool isProductOfRows(VectorContext &ctx, DotOp op);

bool mlir::tile::readsRows(VectorContext &ctx, DotOp op) {
  // Decided before what is in front of it is lowered.
  auto [known, isNew] = ctx.inPlace.try_emplace(op, false);
  if (isNew)
    known->second = isProductOfRows(ctx, op);
  return known->second;
}

static bool isProductOfRows(VectorContext &ctx, DotOp op) {
  auto load = op.getRhs().getDefiningOp<LoadOp>();
  auto rows = dyn_cast<RowsOp>(op->getParentOp());
  bool isScore = op.getTransposeRhs();
  if (!load || !rows || op.getTransposeLhs() || !ctx.target.hasFma ||
      !op.getLhs().getType().getElementType().isF32() ||
      !op.getRhs().getType().getElementType().isF32() ||
      numSums % op.getType().getRows() || ctx.lanes < numSums)
    return false;
  // Lanes have parts of a score's sum.
  if (isScore ? op.getAcc() || !op->hasAttr(TileDialect::approximateName)
              : !op.getAcc())
    return false;
  auto memory = cast<MemRefType>(memoryOf(load).getType());
  int64_t columns = load.getMemoryCols();
  APInt column;
  if (!load->hasOneUse() || load.getVector() || load.getTransposed() ||
      load.getLive() || !isa<FloatType>(memory.getElementType()) ||
      memory.getShape().back() < columns || columns % ctx.lanes ||
      load.getMemoryRows() % numSums ||
      !matchPattern(load.getIndices().back(), m_ConstantInt(&column)) ||
      !column.isZero())
    return false;
  // The rows are run once, and nothing is written in between.
  auto input = cast<TileType>(rows->getOperandTypes().front());
  return op.getType().getRows() == input.getRows() &&
         rows->getBlock() == load->getBlock() &&
         !writesInFront(op, &rows.getBody().front().front()) &&
         !writesInFront(rows, load->getNextNode());
}

/// The sum of the lanes of each of eight vectors, as one vector.
static Value sumLanes(VectorContext &ctx, ArrayRef<Value> vectors,
                      Location loc) {
  OpBuilder &b = ctx.builder;
  SmallVector<Value> sums(vectors);
  auto addHalves = [&](Value x, Value y, ArrayRef<int64_t> first,
                       ArrayRef<int64_t> second) -> Value {
    return arith::AddFOp::create(
        b, loc, vector::ShuffleOp::create(b, loc, x, y, first),
        vector::ShuffleOp::create(b, loc, x, y, second));
  };
  for (int64_t width = ctx.lanes; width > numSums; width /= 2)
    for (Value &sum : sums) {
      auto lanes = llvm::to_vector(llvm::seq<int64_t>(width));
      ArrayRef<int64_t> all(lanes);
      sum = addHalves(sum, sum, all.take_front(width / 2),
                      all.drop_front(width / 2));
    }
  // Each step is two shuffles that are one instruction of AVX2 each.
  for (int64_t i = 0; i < 4; ++i)
    sums[i] = addHalves(sums[i], sums[i + 4], {0, 1, 2, 3, 8, 9, 10, 11},
                        {4, 5, 6, 7, 12, 13, 14, 15});
  for (int64_t i = 0; i < 2; ++i)
    sums[i] = addHalves(sums[i], sums[i + 2], {0, 1, 8, 9, 4, 5, 12, 13},
                        {2, 3, 10, 11, 6, 7, 14, 15});
  return addHalves(sums[0], sums[1], {0, 2, 8, 10, 4, 6, 12, 14},
                   {1, 3, 9, 11, 5, 7, 13, 15});
}

/// Columns of a row that are read before those of the next one: a line of a
/// cache, where rows have whole ones.
static int64_t columnsAtOnce(VectorContext &ctx, LoadOp load) {
  constexpr int64_t lineBits = 512;
  auto memory = cast<MemRefType>(memoryOf(load).getType());
  int64_t width = lineBits / memory.getElementTypeBitWidth();
  return load.getMemoryCols() % width || width % ctx.lanes ? ctx.lanes : width;
}

/// Whether rows of the tile are found by what a table or a first row says.
static SourceOp scatteringSource(LoadOp load) {
  auto source = load.getSource().getDefiningOp<SourceOp>();
  return source && (source.getTable() || source.getStart()) ? source
                                                            : SourceOp();
}

/// Where in memory the rows are that are asked for while those from `first` on,
/// which are there, are read.
static SmallVector<Value> findAhead(VectorContext &ctx, LoadOp load,
                                    const RowAccess &first, Value row) {
  OpBuilder &b = ctx.builder;
  Location loc = load.getLoc();
  auto memory = cast<MemRefType>(memoryOf(load).getType());
  int64_t rowBytes = load.getMemoryCols() * memory.getElementTypeBitWidth() / 8;
  // As much as leaves most of the first cache to what is read.
  Value distance =
      ctx.index(llvm::divideCeil(ctx.target.l1Bytes / 4, rowBytes));
  SmallVector<Value> indices(first.indices);
  Value &position = indices[indices.size() - 2];
  SourceOp source = scatteringSource(load);
  if (!source) {
    position = b.createOrFold<arith::AddIOp>(loc, position, distance);
    return indices;
  }
  // A position that there is: tables have no others.
  position = load.getIndices()[indices.size() - 2];
  for (Value more : {row, distance})
    position = b.createOrFold<arith::AddIOp>(loc, position, more);
  Value last = arith::SubIOp::create(b, loc, load.getUpper(), ctx.index(1));
  position = arith::MinSIOp::create(b, loc, position, last);
  return findRow(ctx, source, load, position, /*valid=*/Value());
}

/// Asks for a share of rows from `ahead` on, as many as are read: of what is
/// read side by side a core finds no stream by itself. The share is that of the
/// `number`th turn, of which each takes `width` columns.
static void askAhead(VectorContext &ctx, LoadOp load, ValueRange ahead,
                     int64_t numRows, Value number, int64_t width) {
  if (ahead.empty())
    return;
  OpBuilder &b = ctx.builder;
  Location loc = load.getLoc();
  Value turns = ctx.index(load.getMemoryCols() / width);
  for (int64_t i = 0; i < numRows; ++i) {
    Value place = b.createOrFold<arith::AddIOp>(
        loc, b.createOrFold<arith::MulIOp>(loc, number, ctx.index(numRows)),
        ctx.index(i));
    Value row = b.createOrFold<arith::DivUIOp>(loc, place, turns);
    Value col = b.createOrFold<arith::RemUIOp>(loc, place, turns);
    SmallVector<Value> at(ahead);
    Value &position = at[at.size() - 2];
    position = b.createOrFold<arith::AddIOp>(loc, position, row);
    at.back() = b.createOrFold<arith::MulIOp>(loc, col, ctx.index(width));
    memref::PrefetchOp::create(b, loc, memoryOf(load), at, /*isWrite=*/false,
                               /*localityHint=*/3, /*isDataCache=*/true);
  }
}

/// Adds to rows `range` of `out`, from column `col` on, what rows of memory
/// give times elements of the left operand from its column `first` on.
static void addStrip(VectorContext &ctx, LoadOp load, Value lhs, Value out,
                     Value first, ArrayRef<RowAccess> values,
                     std::pair<int64_t, int64_t> range, Value col,
                     int64_t width) {
  OpBuilder &b = ctx.builder;
  Location loc = load.getLoc();
  int64_t lanes = ctx.lanes;
  SmallVector<Value> cols, sums;
  for (int64_t v = 0; v < width; v += lanes)
    cols.push_back(b.createOrFold<arith::AddIOp>(loc, col, ctx.index(v)));
  for (int64_t r = range.first; r < range.second; ++r)
    for (Value at : cols)
      sums.push_back(ctx.loadVector(out, {ctx.index(r), at}, lanes));
  for (auto [j, value] : llvm::enumerate(values)) {
    SmallVector<Value> vectors;
    for (Value at : cols)
      vectors.push_back(
          loadRow(ctx, load, value, at, lanes, lanes, b.getF32Type()));
    Value key = b.createOrFold<arith::AddIOp>(loc, first, ctx.index(j));
    Value *sum = sums.begin();
    for (int64_t r = range.first; r < range.second; ++r) {
      Value weight = ctx.splat(
          memref::LoadOp::create(b, loc, lhs, ValueRange{ctx.index(r), key}),
          lanes);
      for (Value vector : vectors) {
        *sum = math::FmaOp::create(b, loc, weight, vector, *sum);
        ++sum;
      }
    }
  }
  Value *sum = sums.begin();
  for (int64_t r = range.first; r < range.second; ++r)
    for (Value at : cols)
      ctx.storeVector(*sum++, out, {ctx.index(r), at});
}

/// Calls `body` with `numRows` rows of the tile at a time, where they follow
/// each other in memory, and rows to ask for; and with rows of which memory may
/// not have all.
static void forRows(
    VectorContext &ctx, LoadOp load, int64_t numRows, Location loc,
    function_ref<void(Value first, ArrayRef<RowAccess> rows, ValueRange ahead)>
        body) {
  OpBuilder &b = ctx.builder;
  SourceOp source = scatteringSource(load);
  auto add = [&](Value x, Value y) {
    return b.createOrFold<arith::AddIOp>(loc, x, y);
  };
  ctx.loop(load.getMemoryRows(), numRows, loc, [&](Value first) {
    RowAccess access = accessRow(ctx, load, first);
    size_t rowDim = access.indices.size() - 2;
    Value areThere = access.valid;
    auto require = [&](Value condition) {
      areThere = areThere
                     ? b.createOrFold<arith::AndIOp>(loc, areThere, condition)
                     : condition;
    };
    SmallVector<RowAccess> rows(numRows, access);
    for (int64_t i = 1; i < numRows; ++i) {
      rows[i].valid = rowIsValid(ctx, load, add(first, ctx.index(i)));
      rows[i].indices[rowDim] = add(access.indices[rowDim], ctx.index(i));
      if (rows[i].valid)
        require(rows[i].valid);
    }
    if (source)
      require(arith::CmpIOp::create(
          b, loc, arith::CmpIPredicate::slt, rows.back().indices[rowDim],
          memref::DimOp::create(b, loc, source.getMemory(),
                                source.getRowDim())));
    auto readWhole = [&]() {
      for (RowAccess &row : rows)
        row.valid = Value();
      SmallVector<Value> ahead;
      if (!source || load.getUpper())
        ahead = findAhead(ctx, load, access, first);
      body(first, rows, ahead);
    };
    if (!areThere)
      return readWhole();
    auto branch = scf::IfOp::create(b, loc, areThere, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.elseBlock());
    ctx.loop(numRows, 1, loc, [&](Value i) {
      Value row = add(first, i);
      body(row, accessRow(ctx, load, row), /*ahead=*/{});
    });
    b.setInsertionPointToStart(branch.thenBlock());
    readWhole();
  });
}

void mlir::tile::dotRows(VectorContext &ctx, DotOp op, Value lhs, Value out) {
  // Of which of its arguments sumLanes makes each lane.
  constexpr int64_t argumentOf[numSums] = {0, 2, 1, 3, 4, 6, 5, 7};
  OpBuilder &b = ctx.builder;
  Location loc = op.getLoc();
  auto load = op.getRhs().getDefiningOp<LoadOp>();
  int64_t rows = op.getType().getRows();
  int64_t lanes = ctx.lanes, width = columnsAtOnce(ctx, load);
  Type f32 = b.getF32Type();
  SmallVector<Value> zeros(numSums, ctx.zero(ctx.vec(lanes, f32)));
  forRows(ctx, load, numSums / rows, loc,
          [&](Value first, ArrayRef<RowAccess> keys, ValueRange ahead) {
            int64_t numKeys = keys.size();
            auto step = [&](Value number, ArrayRef<Value> sums) {
              SmallVector<Value> next(sums);
              Value firstCol =
                  b.createOrFold<arith::MulIOp>(loc, number, ctx.index(width));
              askAhead(ctx, load, ahead, numKeys, number, width);
              for (int64_t part = 0; part < width; part += lanes) {
                Value col = b.createOrFold<arith::AddIOp>(loc, firstCol,
                                                          ctx.index(part));
                SmallVector<Value> columns;
                for (const RowAccess &key : keys)
                  columns.push_back(
                      loadRow(ctx, load, key, col, lanes, lanes, f32));
                for (int64_t r = 0; r < rows; ++r) {
                  Value row = ctx.loadVector(lhs, {ctx.index(r), col}, lanes);
                  for (auto [j, column] : llvm::enumerate(columns)) {
                    Value &sum = next[argumentOf[r * numKeys + j]];
                    sum = math::FmaOp::create(b, loc, row, column, sum);
                  }
                }
              }
              return next;
            };
            Value scores = sumLanes(
                ctx, ctx.carry(op.getDepth() / width, zeros, loc, step), loc);
            for (int64_t r = 0; r < rows; ++r)
              ctx.storeVector(vector::ExtractStridedSliceOp::create(
                                  b, loc, scores, r * numKeys, numKeys, 1),
                              out, {ctx.index(r), first});
          });
}

void mlir::tile::addRows(VectorContext &ctx, DotOp op, Value lhs, Value out) {
  constexpr int64_t rowsAtOnce = 4, valuesAtOnce = 4;
  OpBuilder &b = ctx.builder;
  Location loc = op.getLoc();
  auto load = op.getRhs().getDefiningOp<LoadOp>();
  int64_t rows = op.getType().getRows(), lanes = ctx.lanes;
  int64_t width = columnsAtOnce(ctx, load);
  forRows(ctx, load, valuesAtOnce, loc,
          [&](Value first, ArrayRef<RowAccess> values, ValueRange ahead) {
            ctx.loop(load.getMemoryCols() / width, 1, loc, [&](Value number) {
              askAhead(ctx, load, ahead, values.size(), number, width);
              Value firstCol =
                  b.createOrFold<arith::MulIOp>(loc, number, ctx.index(width));
              int64_t strip = std::min(width, ctx.panelVectors * lanes);
              ctx.loop(width, strip, loc, [&](Value part) {
                Value col = b.createOrFold<arith::AddIOp>(loc, firstCol, part);
                for (int64_t r0 = 0; r0 < rows; r0 += rowsAtOnce)
                  addStrip(ctx, load, lhs, out, first, values,
                           {r0, std::min(rows, r0 + rowsAtOnce)}, col, strip);
              });
            });
          });
}
