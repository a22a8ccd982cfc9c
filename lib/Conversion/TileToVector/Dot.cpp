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
//   AMX     tile products of bf16 (Amx.cpp)
//
// and one of few rows with rows of memory (RowProducts.cpp).
//
// The accumulator block stays in registers over the whole K of the tile, so a
// running output is read, rescaled and written once per key tile.
//
//===----------------------------------------------------------------------===//

#include "VectorContext.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile;

namespace {

/// The first vectors of a right operand's panel, which begins at column `panel`
/// and is so wide.
struct Columns {
  Value panel;
  int64_t numVectors, width;
};

/// What tells one outer-product micro kernel from another.
struct MicroKernel {
  Value acc, scale, out;
  int64_t depthStep;
  /// Whether there is one row, of whose sums registers hold twice as many.
  bool isWide = false;
  /// Whether the left operand has zeros right of its diagonal.
  bool isLowerLhs = false;
  /// Vectors of columns at depth k.
  std::function<SmallVector<Value>(const Columns &columns, Value k)> columns;
  /// The left operand's element at (row, k) in every lane.
  std::function<Value(Value row, Value k)> row;
  std::function<Value(Value row, Value column, Value sum)> multiplyAdd;
};

} // namespace

static Value packRows(VectorContext &ctx, Value value, Layout layout,
                      Location loc);
static void scaleRows(VectorContext &ctx, Value from, Value scale, Value to,
                      TileType type, Location loc);
static DotOp findRowReader(VectorContext &ctx, DotOp op);
static void addOuterProduct(VectorContext &ctx, DotOp op, Value lhs, Value rhs,
                            Value acc, Value scale, Value out, DotOp reader);
static Value leftElement(VectorContext &ctx, DotOp op, Value lhs, Value row,
                         Value k);
static void dotPanels(VectorContext &ctx, DotOp op, Value lhs, Value rhs,
                      Value acc, Value scale, Value out);
static void dotPairs(VectorContext &ctx, DotOp op, Value lhs, Value rhs,
                     Value acc, Value scale, Value out);

/// Rows of accumulators beside one panel: they, the panel's vectors and one
/// broadcast must fit the register file.
static int64_t microRows(int64_t rows) {
  for (int64_t candidate = 6; candidate > 1; --candidate)
    if (rows % candidate == 0)
      return candidate;
  return 1;
}

static bool usesPairs(VectorContext &ctx, DotOp op) {
  return op.getLhs().getType().getElementType().isBF16() &&
         op.getRhs().getType().getElementType().isBF16() &&
         ctx.target.hasBf16Dot && op.getType().getCols() % pairColumns == 0 &&
         op.getDepth() % amxDepth == 0;
}

bool mlir::tile::usesAmx(VectorContext &ctx, DotOp op) {
  return usesPairs(ctx, op) && ctx.target.hasAmxBf16 &&
         op.getType().getRows() % amxRows == 0;
}

/// Whether AMX multiplies a left operand of bf16 and parts of one of f32.
static bool usesParts(VectorContext &ctx, DotOp op) {
  return op.getLhs().getType().getElementType().isBF16() &&
         op.getRhs().getType().getElementType().isF32() &&
         ctx.target.hasAmxBf16 && ctx.target.hasBf16Dot &&
         !op.getTransposeRhs() && op.getDepth() % amxDepth == 0 &&
         op.getType().getRows() % amxDepth == 0 &&
         op.getType().getCols() % pairColumns == 0;
}

/// What a loop carries from one turn to the next.
static bool isCarried(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && isa<scf::ForOp>(argument.getOwner()->getParentOp());
}

Layout mlir::tile::rhsLayout(VectorContext &ctx, DotOp op) {
  if (usesParts(ctx, op))
    return Layout::PairParts;
  if (readsRows(ctx, op))
    return Layout::InMemory;
  // One row reads all of it once: what is computed is not worth packing. Nor is
  // what a loop changes in each turn.
  auto load = op.getRhs().getDefiningOp<LoadOp>();
  if ((op.getType().getRows() == 1 || isCarried(op.getRhs())) &&
      !op.getTransposeRhs() && op.getRhs().getType().getElementType().isF32() &&
      (!load || readsInPlace(ctx, load)))
    return Layout::RowMajor;
  if (usesPairs(ctx, op))
    return op.getTransposeRhs() ? Layout::PairsTransposed : Layout::Pairs;
  return op.getTransposeRhs() ? Layout::PanelsTransposed : Layout::Panels;
}

/// The packed form of `value` in `layout`, packing it when needed.
static FailureOr<Value> packed(VectorContext &ctx, DotOp op, Layout layout) {
  Location loc = op.getLoc();
  Value value = op.getRhs();
  if (layout == Layout::RowMajor || layout == Layout::PairParts)
    return ctx.buffer(value);
  auto it = ctx.packedBuffers.find({value, static_cast<int>(layout)});
  if (it != ctx.packedBuffers.end())
    return it->second;
  if (Value rows = packRows(ctx, value, layout, loc)) {
    // Others of the block read them too.
    if (value.getParentBlock() == op->getBlock())
      ctx.packedBuffers[{value, static_cast<int>(layout)}] = rows;
    return rows;
  }
  emitError(loc, "expected the right operand of tile.dot to be of f32, or a "
                 "tile.load");
  return failure();
}

void mlir::tile::packComputed(VectorContext &ctx, Value value) {
  // A reduction that runs in the loop of a map stands behind it.
  if (!ctx.buffer(value))
    return;
  for (Layout layout : layoutsNeeded(ctx, value))
    if (layout != Layout::RowMajor && layout != Layout::PairParts)
      if (Value packed = packRows(ctx, value, layout, value.getLoc()))
        ctx.packedBuffers[{value, static_cast<int>(layout)}] = packed;
}

/// The same for one layout, from rows in scratch; null where there is no such
/// way.
static Value packRows(VectorContext &ctx, Value value, Layout layout,
                      Location loc) {
  auto type = cast<TileType>(value.getType());
  Value rows = ctx.buffer(value);
  bool isPanels =
      layout == Layout::Panels || layout == Layout::PanelsTransposed;
  if (rows && layout == Layout::Pairs && type.getElementType().isBF16())
    return packPairs(ctx, rows, type, loc);
  if (!rows || !isPanels || !type.getElementType().isF32() ||
      type.isRowVector())
    return {};
  Value into = ctx.allocateFlat(type.getNumElements(), type.getElementType());
  // The columns of the product, and what it sums up.
  bool isTransposed = layout == Layout::PanelsTransposed;
  int64_t cols = isTransposed ? type.getRows() : type.getCols();
  int64_t depth = isTransposed ? type.getCols() : type.getRows();
  int64_t panel = ctx.panelVectors * ctx.lanes;
  auto place = [&](Value col, Value k) -> Value {
    auto [start, within, width] =
        panelPosition(ctx, col, cols, panel, depth, loc);
    Value offset = ctx.builder.createOrFold<arith::MulIOp>(loc, k, width);
    offset = ctx.builder.createOrFold<arith::AddIOp>(loc, offset, start);
    return ctx.builder.createOrFold<arith::AddIOp>(loc, offset, within);
  };
  ctx.loop(cols, ctx.lanes, loc, [&](Value col) {
    if (!isTransposed)
      return ctx.loop(depth, 1, loc, [&](Value k) {
        ctx.storeVector(ctx.loadVector(rows, {k, col}, ctx.lanes), into,
                        place(col, k));
      });
    ctx.loop(depth, ctx.lanes, loc, [&](Value k) {
      SmallVector<Value> block;
      for (int64_t i = 0; i < ctx.lanes; ++i)
        block.push_back(ctx.loadVector(
            rows,
            {ctx.builder.createOrFold<arith::AddIOp>(loc, col, ctx.index(i)),
             k},
            ctx.lanes));
      transposeLanes(ctx.builder, loc, block);
      for (int64_t i = 0; i < ctx.lanes; ++i)
        ctx.storeVector(block[i], into,
                        place(col, ctx.builder.createOrFold<arith::AddIOp>(
                                       loc, k, ctx.index(i))));
    });
  });
  return into;
}

/// A product that reads its right operand where it is loaded from.
static void dotInMemory(VectorContext &ctx, DotOp op) {
  Location loc = op.getLoc();
  Value lhs = ctx.buffer(op.getLhs()), acc = op.getAcc();
  Value out = ctx.resultBuffer(op.getResult(),
                               acc ? ValueRange(acc) : ValueRange(), op);
  if (op.getTransposeRhs())
    return dotRows(ctx, op, lhs, out);
  if (Value scale = op.getScale())
    scaleRows(ctx, ctx.buffer(acc), ctx.buffer(scale), out, op.getType(), loc);
  else
    ctx.copy(ctx.buffer(acc), out, op.getType(), loc);
  addRows(ctx, op, lhs, out);
}

LogicalResult mlir::tile::lowerDot(VectorContext &ctx, DotOp op) {
  Location loc = op.getLoc();
  Layout layout = rhsLayout(ctx, op);
  if (layout == Layout::InMemory) {
    dotInMemory(ctx, op);
    return success();
  }
  FailureOr<Value> rhs = packed(ctx, op, layout);
  if (failed(rhs))
    return failure();
  Value lhs = ctx.buffer(op.getLhs());
  // Pairs are of neighbours in a row.
  bool hasParts = layout == Layout::PairParts;
  if (op.getTransposeLhs() && (usesPairs(ctx, op) || hasParts))
    lhs = transposePairs(ctx, op, loc);
  Value acc = op.getAcc() ? ctx.buffer(op.getAcc()) : Value();
  Value scale = op.getScale() ? ctx.buffer(op.getScale()) : Value();
  Value out = ctx.resultBuffer(
      op.getResult(), op.getAcc() ? ValueRange(op.getAcc()) : ValueRange(), op);
  if (usesAmx(ctx, op) || hasParts) {
    configureAmx(ctx);
    // A running sum of softmax is most often not rescaled at all.
    bool scalesFirst = acc && scale && isCarried(op.getAcc()) && !hasParts;
    if (scalesFirst)
      scaleRows(ctx, acc, scale, out, op.getType(), loc);
    else if (acc && !scale)
      ctx.copy(acc, out, op.getType(), loc);
    dotAmx(ctx, op, lhs, *rhs, acc, scalesFirst ? Value() : scale, out);
    return success();
  }
  auto load = op.getAcc() ? op.getAcc().getDefiningOp<LoadOp>() : LoadOp();
  if (usesPairs(ctx, op))
    dotPairs(ctx, op, lhs, *rhs, acc, scale, out);
  else if (op.getDepth() == 1 && load && readsInPlace(ctx, load) &&
           ctx.target.hasFma && cast<MemRefType>(rhs->getType()).getRank() == 1)
    addOuterProduct(ctx, op, lhs, *rhs, acc, scale, out,
                    findRowReader(ctx, op));
  else
    dotPanels(ctx, op, lhs, *rhs, acc, scale, out);
  return success();
}

/// Whether `store` writes whole rows as they are.
static bool writesRows(StoreOp store) {
  TileType type = cast<TileType>(store.getValue().getType());
  auto memory = cast<MemRefType>(store.getDestination().getType());
  int64_t size = memory.getShape().back();
  APInt first;
  return !store.getTransposed() && !store.getVector() && !type.isRowVector() &&
         !ShapedType::isDynamic(size) &&
         matchPattern(store.getIndices().back(), m_ConstantInt(&first)) &&
         size - first.getSExtValue() >= type.getCols();
}

std::optional<WrittenSum> mlir::tile::findWrittenSum(VectorContext &ctx,
                                                     Operation *op) {
  // From a product to what reads it.
  auto store = dyn_cast<StoreOp>(op);
  for (Operation *reader = op; !store && isa<DotOp>(reader);) {
    if (!reader->hasOneUse())
      return std::nullopt;
    reader = *reader->user_begin();
    store = dyn_cast<StoreOp>(reader);
  }
  if (!store || !writesRows(store))
    return std::nullopt;
  auto isWhole = [&](DotOp dot) {
    return dot && dot->hasOneUse() && dot->getBlock() == store->getBlock() &&
           usesAmx(ctx, dot) && !dot.getTransposeLhs() &&
           dot.getType().getRows() % (2 * amxRows) == 0 &&
           dot.getType().getCols() % stepColumns == 0;
  };
  auto other = store.getValue().getDefiningOp<DotOp>();
  if (!isWhole(other) || !other.getAcc() || !other.getScale())
    return std::nullopt;
  auto product = other.getAcc().getDefiningOp<DotOp>();
  if (!isWhole(product) || product.getAcc() ||
      (op != product && op != other && op != store))
    return std::nullopt;
  // What they read is not written over before.
  for (Operation *next = product->getNextNode(); next != store;
       next = next->getNextNode())
    if (next != other &&
        (isa<TileDialect>(next->getDialect()) || next->getNumRegions()))
      return std::nullopt;
  return WrittenSum{product, other, store};
}

LogicalResult mlir::tile::lowerWrittenSum(VectorContext &ctx, WrittenSum sum) {
  FailureOr<Value> rhs = packed(ctx, sum.product, rhsLayout(ctx, sum.product));
  FailureOr<Value> otherRhs = packed(ctx, sum.other, rhsLayout(ctx, sum.other));
  if (failed(rhs) || failed(otherRhs))
    return failure();
  configureAmx(ctx);
  writeSumAmx(ctx, sum, *rhs, *otherRhs);
  return success();
}

static void scaleRows(VectorContext &ctx, Value from, Value scale, Value to,
                      TileType type, Location loc) {
  ctx.loop(type.getRows(), 1, loc, [&](Value r) {
    Value factor = memref::LoadOp::create(ctx.builder, loc, scale, r);
    auto scaleRow = [&]() {
      Value factors = ctx.splat(factor, ctx.lanes);
      for (int64_t c = 0; c < type.getCols(); c += ctx.lanes) {
        Value row = ctx.loadVector(from, {r, ctx.index(c)}, ctx.lanes);
        ctx.storeVector(arith::MulFOp::create(ctx.builder, loc, row, factors),
                        to, {r, ctx.index(c)});
      }
    };
    if (from != to)
      return scaleRow();
    // Once the statistic has settled the factor is 1 for most rows.
    Value changes = arith::CmpFOp::create(
        ctx.builder, loc, arith::CmpFPredicate::UNE, factor,
        ctx.constant(ctx.builder.getF32FloatAttr(1.0)));
    auto branch = scf::IfOp::create(ctx.builder, loc, changes);
    OpBuilder::InsertionGuard guard(ctx.builder);
    ctx.builder.setInsertionPointToStart(branch.thenBlock());
    scaleRow();
  });
}

/// The sums of `numRows` rows from `r0` and of some columns, in registers.
static void sumBlock(VectorContext &ctx, DotOp op, const MicroKernel &kernel,
                     Value r0, int64_t numRows, const Columns &columns) {
  Location loc = op.getLoc();
  Value acc = kernel.acc, scale = kernel.scale;
  auto plus = [&](Value x, int64_t y) {
    return ctx.builder.createOrFold<arith::AddIOp>(loc, x, ctx.index(y));
  };
  SmallVector<Value> accumulators, rowIndices, columnIndices;
  for (int64_t v = 0; v < columns.numVectors; ++v)
    columnIndices.push_back(plus(columns.panel, v * ctx.lanes));
  for (int64_t r = 0; r < numRows; ++r) {
    Value row = plus(r0, r);
    rowIndices.push_back(row);
    Value factor;
    if (acc && scale)
      factor = ctx.splat(memref::LoadOp::create(ctx.builder, loc, scale, row),
                         ctx.lanes);
    for (Value c : columnIndices) {
      Value initial = ctx.zero(ctx.vec(ctx.lanes, ctx.builder.getF32Type()));
      if (acc) {
        initial = ctx.loadVector(acc, {row, c}, ctx.lanes);
        if (factor)
          initial = arith::MulFOp::create(ctx.builder, loc, initial, factor);
      }
      accumulators.push_back(initial);
    }
  }
  // What is right of the diagonal on the left adds nothing.
  Value depth =
      kernel.isLowerLhs ? plus(r0, numRows) : ctx.index(op.getDepth());
  auto forOp = scf::ForOp::create(ctx.builder, loc, ctx.index(0), depth,
                                  ctx.index(kernel.depthStep), accumulators);
  {
    OpBuilder::InsertionGuard guard(ctx.builder);
    ctx.builder.setInsertionPointToStart(forOp.getBody());
    Value k = forOp.getInductionVar();
    SmallVector<Value> vectors = kernel.columns(columns, k), next;
    for (int64_t r = 0; r < numRows; ++r) {
      Value row = kernel.row(rowIndices[r], k);
      for (Value vector : vectors)
        next.push_back(kernel.multiplyAdd(
            row, vector, forOp.getRegionIterArgs()[next.size()]));
    }
    ctx.builder.setInsertionPointToEnd(forOp.getBody());
    scf::YieldOp::create(ctx.builder, loc, next);
  }
  unsigned next = 0;
  for (Value row : rowIndices)
    for (Value c : columnIndices)
      ctx.storeVector(forOp.getResult(next++), kernel.out, {row, c});
}

/// A product of which nobody reads what is right of the diagonal: that is 0
/// where it fills vectors.
static void lowerOuterProducts(VectorContext &ctx, DotOp op,
                               const MicroKernel &kernel) {
  Location loc = op.getLoc();
  int64_t rows = op.getType().getRows(), cols = op.getType().getCols();
  int64_t lanes = ctx.lanes, panelCols = ctx.panelVectors * lanes;
  for (int64_t first = 0; first < rows; first += lanes) {
    int64_t end = std::min(first + lanes, cols);
    for (int64_t panel = 0; panel < end; panel += panelCols) {
      int64_t numVectors = std::min(ctx.panelVectors, (end - panel) / lanes);
      // As many accumulators as plain blocks have.
      int64_t numRows = lanes;
      while (numRows > 1 && numRows * numVectors > 4 * ctx.panelVectors)
        numRows /= 2;
      Columns columns = {ctx.index(panel), numVectors,
                         std::min(panelCols, cols - panel)};
      ctx.loop(lanes, numRows, loc, [&](Value r) {
        Value r0 =
            ctx.builder.createOrFold<arith::AddIOp>(loc, r, ctx.index(first));
        sumBlock(ctx, op, kernel, r0, numRows, columns);
      });
    }
    if (end == cols)
      continue;
    ctx.loop(lanes, 1, loc, [&](Value r) {
      Value row =
          ctx.builder.createOrFold<arith::AddIOp>(loc, r, ctx.index(first));
      for (int64_t col = end; col < cols; col += lanes)
        ctx.storeVector(ctx.zero(ctx.vec(lanes, ctx.builder.getF32Type())),
                        kernel.out, {row, ctx.index(col)});
    });
  }
}

static void outerProducts(VectorContext &ctx, DotOp op,
                          const MicroKernel &kernel) {
  Location loc = op.getLoc();
  int64_t rows = op.getType().getRows(), cols = op.getType().getCols();
  if (ctx.ahead.empty() && !kernel.acc && rows % ctx.lanes == 0 &&
      readsLowerOnly(op.getResult()))
    return lowerOuterProducts(ctx, op, kernel);
  int64_t blockRows = microRows(rows);
  Ahead ahead(ctx, rows / blockRows,
              llvm::divideCeil(cols, ctx.panelVectors * ctx.lanes));
  // `numVectors` vectors of columns from `col`.
  auto panel = [&](Value col, int64_t numVectors) {
    ctx.loop(rows, blockRows, loc, [&](Value r0) {
      ahead.ask(r0, blockRows, col, ctx.panelVectors * ctx.lanes);
      sumBlock(ctx, op, kernel, r0, blockRows,
               {col, numVectors, numVectors * ctx.lanes});
    });
  };
  // One row leaves registers for more columns: whole rows of the other operand
  // are read one after the other.
  int64_t numVectors = ctx.panelVectors;
  if (kernel.isWide)
    numVectors = std::min(cols / ctx.lanes, 2 * ctx.panelVectors);
  int64_t width = numVectors * ctx.lanes;
  int64_t whole = cols / width * width;
  if (whole)
    ctx.loop(whole, width, loc, [&](Value col) { panel(col, numVectors); });
  if (cols > whole)
    panel(ctx.index(whole), (cols - whole) / ctx.lanes);
}

/// A product of one row with what `op` makes, whose operands are there.
static DotOp findRowReader(VectorContext &ctx, DotOp op) {
  for (Operation *user : op.getResult().getUsers()) {
    auto reader = dyn_cast<DotOp>(user);
    if (reader && reader->getBlock() == op->getBlock() &&
        reader.getRhs() == op.getResult() && reader.getAcc() &&
        reader.getAcc() != op.getResult() && !reader.getScale() &&
        reader.getType().getRows() == 1 && !reader.getTransposeRhs() &&
        !reader.getTransposeLhs() && ctx.buffer(reader.getLhs()) &&
        ctx.buffer(reader.getAcc()) &&
        reader.getLhs().getType().getElementType().isF32())
      return reader;
  }
  return {};
}

/// Adds the product of a column and a row to a tile, row by row, as it lies in
/// memory, and what `reader`, if any, makes of each row; sums and the row stay
/// in registers.
static void addOuterProduct(VectorContext &ctx, DotOp op, Value lhs, Value rhs,
                            Value acc, Value scale, Value out, DotOp reader) {
  Location loc = op.getLoc();
  TileType type = op.getType();
  int64_t width = std::min(type.getCols(), 2 * ctx.panelVectors * ctx.lanes);
  Value readerOut, readerLhs, readerAcc;
  if (reader) {
    readerLhs = ctx.buffer(reader.getLhs());
    readerAcc = ctx.buffer(reader.getAcc());
    readerOut = ctx.resultBuffer(reader.getResult(), reader.getAcc(), reader);
    ctx.alreadyLowered.insert(reader);
  }
  auto strip = [&](Value first, int64_t count) {
    SmallVector<Value> cols, columns, sums;
    for (int64_t v = 0; v < count / ctx.lanes; ++v)
      cols.push_back(ctx.builder.createOrFold<arith::AddIOp>(
          loc, first, ctx.index(v * ctx.lanes)));
    for (Value col : cols) {
      // Of one row panels are the row.
      columns.push_back(ctx.loadVector(rhs, col, ctx.lanes));
      if (reader)
        sums.push_back(
            ctx.loadVector(readerAcc, {ctx.index(0), col}, ctx.lanes));
    }
    auto step = [&](Value r, ArrayRef<Value> carried) {
      auto spread = [&](Value element) {
        return ctx.splat(ctx.toFloat(element, ctx.builder.getF32Type()),
                         ctx.lanes);
      };
      Value left = spread(leftElement(ctx, op, lhs, r, ctx.index(0)));
      Value factor, query;
      if (scale)
        factor = spread(memref::LoadOp::create(ctx.builder, loc, scale, r));
      if (reader)
        query = spread(leftElement(ctx, reader, readerLhs, ctx.index(0), r));
      SmallVector<Value> next;
      for (auto [i, col] : llvm::enumerate(cols)) {
        Value sum = ctx.loadVector(acc, {r, col}, ctx.lanes);
        if (factor)
          sum = arith::MulFOp::create(ctx.builder, loc, sum, factor);
        sum = math::FmaOp::create(ctx.builder, loc, left, columns[i], sum);
        ctx.storeVector(sum, out, {r, col});
        if (reader)
          next.push_back(
              math::FmaOp::create(ctx.builder, loc, query, sum, carried[i]));
      }
      return next;
    };
    if (!reader)
      return ctx.loop(type.getRows(), 1, loc, [&](Value r) { step(r, {}); });
    sums = ctx.carry(type.getRows(), sums, loc, step);
    for (auto [i, sum] : llvm::enumerate(sums))
      ctx.storeVector(sum, readerOut, {ctx.index(0), cols[i]});
  };
  int64_t whole = type.getCols() / width * width;
  ctx.loop(whole, width, loc, [&](Value col) { strip(col, width); });
  if (whole < type.getCols())
    strip(ctx.index(whole), type.getCols() - whole);
}

/// Element (row, k) of the left operand.
static Value leftElement(VectorContext &ctx, DotOp op, Value lhs, Value row,
                         Value k) {
  SmallVector<Value> position = {row, k};
  if (op.getTransposeLhs())
    std::swap(position[0], position[1]);
  position.truncate(cast<MemRefType>(lhs.getType()).getRank());
  return memref::LoadOp::create(ctx.builder, op.getLoc(), lhs, position);
}

static void dotPanels(VectorContext &ctx, DotOp op, Value lhs, Value rhs,
                      Value acc, Value scale, Value out) {
  Location loc = op.getLoc();
  int64_t depth = op.getDepth();
  MicroKernel kernel;
  kernel.acc = acc;
  kernel.scale = scale;
  kernel.out = out;
  kernel.depthStep = 1;
  kernel.isLowerLhs = hasLowerLhs(op);
  bool isPacked = cast<MemRefType>(rhs.getType()).getRank() == 1;
  kernel.isWide = !isPacked && op.getType().getRows() == 1;
  kernel.columns = [&](const Columns &columns, Value k) {
    auto plus = [&](Value x, int64_t y) {
      return ctx.builder.createOrFold<arith::AddIOp>(loc, x, ctx.index(y));
    };
    auto times = [&](Value x, int64_t y) {
      return ctx.builder.createOrFold<arith::MulIOp>(loc, x, ctx.index(y));
    };
    // Of packed ones the panels before this one, then the rows of this one.
    Value start;
    if (isPacked)
      start = ctx.builder.createOrFold<arith::AddIOp>(
          loc, times(columns.panel, depth), times(k, columns.width));
    SmallVector<Value> vectors;
    for (int64_t v = 0; v < columns.numVectors; ++v) {
      int64_t within = v * ctx.lanes;
      SmallVector<Value> position = {
          plus(isPacked ? start : columns.panel, within)};
      if (!isPacked)
        position.insert(position.begin(), k);
      vectors.push_back(ctx.loadVector(rhs, position, ctx.lanes));
    }
    return vectors;
  };
  kernel.row = [&](Value row, Value k) {
    Value element = leftElement(ctx, op, lhs, row, k);
    return ctx.splat(ctx.toFloat(element, ctx.builder.getF32Type()), ctx.lanes);
  };
  kernel.multiplyAdd = [&](Value row, Value column, Value sum) -> Value {
    if (ctx.target.hasFma)
      return math::FmaOp::create(ctx.builder, loc, row, column, sum);
    return arith::AddFOp::create(
        ctx.builder, loc, arith::MulFOp::create(ctx.builder, loc, row, column),
        sum);
  };
  outerProducts(ctx, op, kernel);
}

static void dotPairs(VectorContext &ctx, DotOp op, Value lhs, Value rhs,
                     Value acc, Value scale, Value out) {
  Location loc = op.getLoc();
  int64_t depth = op.getDepth();
  VectorType sumType = ctx.vec(ctx.lanes, ctx.builder.getF32Type());
  VectorType pairType = ctx.vec(2 * ctx.lanes, ctx.builder.getBF16Type());
  MicroKernel kernel;
  kernel.acc = acc;
  kernel.scale = scale;
  kernel.out = out;
  kernel.depthStep = 2;
  kernel.isLowerLhs = hasLowerLhs(op);
  kernel.columns = [&](const Columns &columns, Value k) {
    SmallVector<Value> vectors;
    for (int64_t v = 0; v < columns.numVectors; ++v) {
      Value c = ctx.builder.createOrFold<arith::AddIOp>(
          loc, columns.panel, ctx.index(v * pairColumns));
      Value offset = ctx.builder.createOrFold<arith::AddIOp>(
          loc,
          ctx.builder.createOrFold<arith::MulIOp>(loc, c, ctx.index(depth)),
          ctx.builder.createOrFold<arith::MulIOp>(loc, k,
                                                  ctx.index(pairColumns)));
      vectors.push_back(ctx.loadVector(rhs, offset, 2 * pairColumns));
    }
    return vectors;
  };
  kernel.row = [&](Value row, Value k) -> Value {
    // Two bf16 are broadcast as one 32-bit word.
    Value pair = ctx.loadVector(lhs, {row, k}, 2);
    Value word = vector::ExtractOp::create(
        ctx.builder, loc,
        vector::BitCastOp::create(ctx.builder, loc,
                                  ctx.vec(1, ctx.builder.getI32Type()), pair),
        0);
    return vector::BitCastOp::create(ctx.builder, loc, pairType,
                                     ctx.splat(word, ctx.lanes));
  };
  kernel.multiplyAdd = [&](Value row, Value column, Value sum) -> Value {
    return LLVM::CallIntrinsicOp::create(
               ctx.builder, loc, sumType,
               ctx.builder.getStringAttr("llvm.x86.avx512bf16.dpbf16ps.512"),
               ValueRange{sum, row, column})
        .getResult(0);
  };
  outerProducts(ctx, op, kernel);
}
