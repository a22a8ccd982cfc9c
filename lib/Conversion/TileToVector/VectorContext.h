//===- VectorContext.h - State of lowering one kernel -----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How tile values live on a CPU.
//
// A tile value is a row-major slice of the work item's scratch memory, at a
// static offset, with its columns contiguous: `memref<RxCxT, strided>`. Rx1
// tiles are stored as R contiguous scalars (`memref<RxT>`), so that row
// vectors are vectorised over rows. i1 tiles hold bytes.
//
// Operands of dots on the right side live in a packed form instead:
//
//   panels   f32  [N / NR][K][NR]        one NR-wide panel is streamed over K
//   pairs    bf16 [N / 16][K / 2][16][2] what AMX tiles and vdpbf16ps read
//   parts    the same three times: f32 as a sum of three bf16
//
// The ops of a kernel are visited in order; each emits its loops in front of
// itself and records where its results are. States that are carried by loops
// and blocks of `tile.rows` are slices of their operands, so that a result
// whose operand dies is computed in place.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILETOVECTOR_VECTORCONTEXT_H
#define ATTN_LIB_CONVERSION_TILETOVECTOR_VECTORCONTEXT_H

#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"

#include <functional>

namespace mlir::tile {

/// How the elements of a tile are laid out in scratch.
enum class Layout {
  RowMajor,
  Panels,           // rhs KxN as [N / NR][K][NR]
  PanelsTransposed, // rhs NxK (transpose_rhs) as [N / NR][K][NR]
  Pairs,            // rhs KxN as [N / 16][K / 2][16][2]
  PairsTransposed,  // rhs NxK as [N / 16][K / 2][16][2]
  PairParts,        // rhs KxN of f32 in rows, which its product packs
  InMemory,         // rhs in rows, where it is loaded from
};

/// Transposes `rows`, as many vectors as lanes, in place.
void transposeLanes(OpBuilder &builder, Location loc,
                    SmallVectorImpl<Value> &rows);

/// Columns of one block of bf16 pairs.
constexpr int64_t pairColumns = 16;

/// An i1 vector as stored bytes, or the value itself.
Value toStorage(OpBuilder &builder, Value value);
/// Stored bytes as i1, when the tile's elements are i1.
Value fromStorage(OpBuilder &builder, Value value, Type elementType);

/// One kernel: its vectors, its scratch, and where its tiles are.
struct VectorContext {
  VectorContext(KernelOp kernel, const ::attn::TargetInfo &target);

  //===--- Buffers ---===//
  /// Scratch for a value of `type` in row-major form.
  Value allocate(TileType type);
  /// The same with rows apart, so that a column of vectors is not in few sets
  /// of a cache.
  Value allocateApart(TileType type);
  /// Scratch seen as `type`.
  Value allocateView(MemRefType type);
  /// Scratch of `count` elements of `elementType` as memref<count x T>.
  Value allocateFlat(int64_t count, Type elementType);
  /// Where `value` is stored in row-major form.
  Value buffer(Value value) { return buffers.lookup(value); }
  /// Whether `op` is the last to read `value` on every path through it.
  bool diesAt(Value value, Operation *op);
  /// A buffer for `result`: that of a dying operand of the same type among
  /// `candidates`, else a new one.
  Value resultBuffer(Value result, ValueRange candidates, Operation *op);
  void copy(Value from, Value to, TileType type, Location loc);
  /// Copies the buffers of all `values` at once: none of them may be read
  /// after another has been written over it.
  void copyAll(ArrayRef<Value> values, ArrayRef<Value> to, Location loc);
  /// Element type in scratch: bytes for i1.
  Type storageType(Type elementType);

  //===--- Small helpers ---===//
  Value index(int64_t value);
  Value constant(Attribute value);
  Value zero(Type type);
  VectorType vec(int64_t width, Type elementType) {
    return VectorType::get({width}, elementType);
  }
  Value splat(Value scalar, int64_t width);
  /// scf.for from 0 to `upper` in steps of `step`; the body is built with the
  /// builder inside. A trip count of 1 makes no loop.
  void loop(Value upper, int64_t step, Location loc,
            function_ref<void(Value)> body);
  void loop(int64_t upper, int64_t step, Location loc,
            function_ref<void(Value)> body);
  /// scf.for from 0 to `upper` that carries values: the body gets the position
  /// and what is carried, and returns what is carried on.
  SmallVector<Value>
  carry(int64_t upper, ValueRange initial, Location loc,
        function_ref<SmallVector<Value>(Value, ArrayRef<Value>)> body);
  Value loadVector(Value memref, ValueRange indices, int64_t width);
  void storeVector(Value vector, Value memref, ValueRange indices);
  Value toFloat(Value vector, Type elementType);

  KernelOp kernel;
  const ::attn::TargetInfo &target;
  OpBuilder builder;
  int64_t lanes;
  /// Vectors of one panel: with 6 rows of accumulators they fill 16 or 32
  /// registers but for the panel itself and a broadcast.
  int64_t panelVectors;
  Value scratch;
  int64_t scratchBytes = 0;
  bool amxConfigured = false;
  /// What the next product asks for beside its own work.
  SmallVector<PrefetchOp> ahead;
  /// Holds loops and branches that were replaced, until nothing uses them.
  Block *graveyard = nullptr;
  Operation *anchor = nullptr;
  DenseMap<Attribute, Value> constants;
  DenseMap<Value, Value> buffers;
  /// Block of the results of replaced loops and branches.
  DenseMap<Value, Block *> homes;
  DenseMap<std::pair<Value, int>, Value> packedBuffers;
  /// Packed buffers in blocks of two column tiles (packSteps).
  DenseSet<Value> inSteps;
  /// Of a right operand in parts, the first of them, and the block that packs
  /// them.
  DenseMap<Value, std::pair<Value, Block *>> firstParts;
  SmallPtrSet<Operation *, 8> alreadyLowered;
  DenseMap<Operation *, bool> inPlace;
  DenseMap<Operation *, std::pair<Value, Value>> scaled;
};

//===--- Asking for memory ahead (Ahead.cpp) ---===//

/// What tile.prefetch asks for ahead of a product, in shares of its blocks of
/// sums: a core waits for memory where it asks for much at once.
struct Ahead {
  Ahead(VectorContext &ctx, int64_t rowBlocks, int64_t colBlocks)
      : ctx(ctx), ops(std::exchange(ctx.ahead, {})), rowBlocks(rowBlocks),
        colBlocks(colBlocks) {}
  /// The share of the block at (row, col), of blocks of this size, or that of
  /// one of its steps.
  void ask(Value row, int64_t height, Value col, int64_t width, Value step = {},
           int64_t steps = 1);

  VectorContext &ctx;
  SmallVector<PrefetchOp> ops;
  int64_t rowBlocks, colBlocks;
};

//===--- Triangles (Triangle.cpp) ---===//

/// Whether the left operand has zeros right of its diagonal.
bool hasLowerLhs(DotOp op);
/// Whether nobody needs what a tile has right of its diagonal.
bool readsLowerOnly(Value value);
/// Whether a scan from the right may begin at the diagonal.
bool scansLowerOnly(ScanOp op);
/// Where the vector ends that has a row's element of the diagonal.
Value endOfRow(VectorContext &ctx, Value row, Location loc);
/// What `map` rounds, if it does nothing else.
Value roundedBy(MapOp map);

//===--- Sums of parts of a row (Prefixes.cpp) ---===//

/// Whether `map` selects parts of one row that are summed up and nothing else,
/// so that nobody needs the tile.
bool isSummedOnly(VectorContext &ctx, MapOp map);
/// The sums of the rows of such a tile; false for another one.
bool lowerPrefixSums(VectorContext &ctx, ReduceOp op);
/// Its sums from the right, and a map of them; false for another one.
FailureOr<bool> lowerPrefixScan(VectorContext &ctx, ScanOp op);

//===--- Structure (TileToVector.cpp) ---===//
/// Whether the results are needed in row-major form or packed.
SmallVector<Layout> layoutsNeeded(VectorContext &ctx, Value value);

//===--- Memory (Pack.cpp) ---===//

/// The tensor that a load reads.
inline Value memoryOf(LoadOp op) {
  auto source = op.getSource().getDefiningOp<SourceOp>();
  return source ? source.getMemory() : op.getSource();
}
/// Row `r` of a load's tile: whether it is to be read (null: always), and the
/// indices of its first element in the memory.
struct RowAccess {
  Value valid;
  SmallVector<Value> indices;
};
RowAccess accessRow(VectorContext &ctx, LoadOp op, Value r);
/// Whether it is to be read, alone; and the indices of a position of a source
/// whose rows do not lie one after the other.
Value rowIsValid(VectorContext &ctx, LoadOp op, Value r);
SmallVector<Value> findRow(VectorContext &ctx, SourceOp source, LoadOp op,
                           Value position, Value valid);
/// Loads `count` of `width` elements of a row from column `col` on, zero in
/// the others and where it is not to be read; converted to `elementType`.
Value loadRow(VectorContext &ctx, LoadOp op, const RowAccess &row, Value col,
              int64_t count, int64_t width, Type elementType);
/// Of column `n` of `total`: the panel, the column in it, and how many of the
/// panel's columns there are.
std::tuple<Value, Value, Value> panelPosition(VectorContext &ctx, Value n,
                                              int64_t total, int64_t panel,
                                              int64_t depth, Location loc);
LogicalResult lowerLoad(VectorContext &ctx, LoadOp op);
LogicalResult lowerStore(VectorContext &ctx, StoreOp op);
LogicalResult lowerAccumulate(VectorContext &ctx, AccumulateOp op);
LogicalResult lowerFill(VectorContext &ctx, FillOp op);

//===--- Tiles that stay in memory (InPlace.cpp) ---===//
/// The store that brings a result to where `load` has read its operand, so
/// that it may be computed there; or null.
StoreOp findUpdate(VectorContext &ctx, Value result, LoadOp load);
/// Whether the tile is read where it is in memory.
bool readsInPlace(VectorContext &ctx, LoadOp op);
void openInPlace(VectorContext &ctx, LoadOp op);
/// Whether memory is written from `first` on in front of `op`, in its block.
bool writesInFront(Operation *op, Operation *first);

//===--- Products of few rows with rows of memory (RowProducts.cpp) ---===//
/// Whether the right operand is read where it is loaded from.
bool readsRows(VectorContext &ctx, DotOp op);
/// With transposed rows; and what rows as they are add to `out`.
void dotRows(VectorContext &ctx, DotOp op, Value lhs, Value out);
void addRows(VectorContext &ctx, DotOp op, Value lhs, Value out);

//===--- Micro kernels (Dot.cpp) ---===//
/// Layout that the right operand of `op` is read in.
Layout rhsLayout(VectorContext &ctx, DotOp op);
/// Whether AMX multiplies two operands of bf16.
bool usesAmx(VectorContext &ctx, DotOp op);
/// Packs what was computed for each dot that has it on the right.
void packComputed(VectorContext &ctx, Value value);
LogicalResult lowerDot(VectorContext &ctx, DotOp op);
/// What a store writes where AMX makes all of it: a product of its own, added
/// to another one whose rows are scaled. A block of one's sums meets that of
/// the other and goes to memory, so that tiles of them are nowhere.
struct WrittenSum {
  DotOp product, other;
  StoreOp store;
};
/// The sum that `op`, a store or one of its products, is part of.
std::optional<WrittenSum> findWrittenSum(VectorContext &ctx, Operation *op);
LogicalResult lowerWrittenSum(VectorContext &ctx, WrittenSum sum);

//===--- Pairs of bf16 (Pairs.cpp) ---===//
/// Parts of bf16 that have all bits of an f32.
constexpr int64_t numExactParts = 3;
/// Layout::Pairs of rows KxN; of f32 they are rounded.
Value packPairs(VectorContext &ctx, Value rows, TileType type, Location loc);
/// Two vectors of f32 as one of bf16, the second behind the first.
Value roundTwo(VectorContext &ctx, Value vector, Value next, Location loc);
/// What a product packs on its right: rows of f32, or of bf16 in pairs, each
/// times its factor where there are any.
struct RightRows {
  Value rows, factors;
  bool arePairs = false;
};
/// The tile and the column that `map` multiplies, if one product alone reads
/// it, in parts, and multiplies them itself; or nulls.
std::pair<Value, Value> scaledByProduct(VectorContext &ctx, MapOp map);
/// What the product packs on its right, or null.
RightRows rightRows(VectorContext &ctx, DotOp op);
/// Columns of a block of AMX's right tiles.
constexpr int64_t stepColumns = 2 * pairColumns;
/// Rounded columns of rows, as [N / 32][K / 32][N / 16 % 2][16][16][2] from
/// `place`. With `others` they are exact: this is the first part, and of one
/// block of columns `others` has the rest, as [K / 32][part][N / 16][16][16]
/// [2], and where `isFirstRounded` is not set the first one has the upper bits,
/// which takes fewer instructions. Numbers below 2^-126 count as 0, and those
/// that bf16 rounds to infinity as that where they are rounded.
void packSteps(VectorContext &ctx, const RightRows &from, int64_t depth,
               Value firstCol, int64_t numCols, Value first, Value place,
               Value others, bool isFirstRounded, Location loc);
Value allocateSteps(VectorContext &ctx, int64_t depth, int64_t cols);
/// Packs what a map only rounds where products alone read it on the right, or
/// leaves that to its product.
bool packRounded(VectorContext &ctx, MapOp map);
/// Whether a left operand is turned round from the pairs that another product
/// reads on its right, so that nobody needs its rows for it.
bool turnsPairs(VectorContext &ctx, DotOp op);
/// Scratch with the transpose of the left operand, of 16-bit elements.
Value transposePairs(VectorContext &ctx, DotOp op, Location loc);

//===--- AMX (Amx.cpp) ---===//
constexpr int64_t amxRows = ::attn::TargetInfo::amxRows,
                  amxDepth = ::attn::TargetInfo::amxDepth;
void configureAmx(VectorContext &ctx);
void releaseAmx(VectorContext &ctx);
/// With `scale` rows of `acc` are scaled where the product is added to them. A
/// right operand may be given in rows of f32: it is rounded to bf16, or taken
/// in parts where it is of f32 itself.
void dotAmx(VectorContext &ctx, DotOp op, Value lhs, Value rhs, Value acc,
            Value scale, Value out);
/// Writes such a sum, with what the products read on their right.
void writeSumAmx(VectorContext &ctx, WrittenSum sum, Value rhs, Value otherRhs);

//===--- Elementwise (MapReduce.cpp) ---===//
/// The reduce that directly follows `op` and reads its results, if any.
ReduceOp fusableReduce(VectorContext &ctx, MapOp op);
LogicalResult lowerMap(VectorContext &ctx, MapOp op, ReduceOp fused);
LogicalResult lowerReduce(VectorContext &ctx, ReduceOp op);
LogicalResult lowerAny(VectorContext &ctx, AnyOp op);
LogicalResult lowerScan(VectorContext &ctx, ScanOp op);

//===--- General monoids (Fold.cpp) ---===//
LogicalResult lowerFold(VectorContext &ctx, FoldOp op);

//===--- Triangular systems (Solve.cpp) ---===//
LogicalResult lowerSolve(VectorContext &ctx, SolveOp op);

} // namespace mlir::tile

#endif // ATTN_LIB_CONVERSION_TILETOVECTOR_VECTORCONTEXT_H
