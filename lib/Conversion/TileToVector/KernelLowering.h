//===- KernelLowering.h - State of lowering one kernel ----------*- C++ -*-===//
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
//
// The ops of a kernel are visited in order; each emits its loops in front of
// itself and records where its results are. States that are carried by loops
// and blocks of `tile.rows` are slices of their operands, so that a result
// whose operand dies is computed in place.
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILETOVECTOR_KERNELLOWERING_H
#define ATTN_LIB_CONVERSION_TILETOVECTOR_KERNELLOWERING_H

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

class KernelLowering {
public:
  KernelLowering(KernelOp kernel, const ::attn::TargetInfo &target);

  /// Lowers the whole kernel.
  LogicalResult run();

private:
  //===--- TileToVector.cpp: structure ---===//
  LogicalResult lowerBlock(Block &block);
  LogicalResult lowerOp(Operation *op);
  LogicalResult lowerFor(scf::ForOp loop);
  LogicalResult lowerIf(scf::IfOp branch);
  LogicalResult lowerRows(RowsOp op);
  void removeTileOps(Block &block);

  //===--- Buffers ---===//
  /// Scratch for a value of `type` in row-major form.
  Value allocate(TileType type);
  /// Scratch of `count` elements of `elementType` as memref<count x T>.
  Value allocateFlat(int64_t count, Type elementType);
  /// Where `value` is stored in row-major form.
  Value buffer(Value value) { return buffers.lookup(value); }
  /// The packed form of `value` in `layout`, packing it when needed.
  FailureOr<Value> packed(Value value, Layout layout, Location loc);
  /// Packs what was computed for each dot that has it on the right.
  void packComputed(Value value);
  /// The same for one layout, from rows in scratch; null where there is no such
  /// way.
  Value packRows(Value value, Layout layout, Location loc);
  Value packPairs(Value rows, TileType type, Location loc);
  /// Scratch with the transpose of a tile of 16-bit elements.
  Value transposeRows(Value value, Location loc);
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

  //===--- Pack.cpp: memory ---===//
  /// The tensor that a load reads.
  static Value memoryOf(LoadOp op) {
    auto source = op.getSource().getDefiningOp<SourceOp>();
    return source ? source.getMemory() : op.getSource();
  }
  LogicalResult lowerLoad(LoadOp op);
  void loadTransposed(LoadOp op, Value out, Type elementType);
  void storeTransposed(StoreOp op);
  LogicalResult lowerStore(StoreOp op);
  LogicalResult lowerAccumulate(AccumulateOp op);
  /// Calls `write` with what is to be written of each row within the bounds, a
  /// scalar or a vector, where it goes, and how many of its elements.
  template <typename OpT>
  LogicalResult writeRows(OpT op,
                          function_ref<void(Value, ValueRange, int64_t)> write);
  LogicalResult lowerFill(FillOp op);
  /// Writes a loaded tile as rows of vectors in the order of a product.
  LogicalResult packLoad(LoadOp op, Layout layout, Value into);
  void packPanels(LoadOp op, Value into);
  void packPanelsTransposed(LoadOp op, Value into);
  void packPairs(LoadOp op, Value into);
  void packPairsTransposed(LoadOp op, Value into);
  /// Calls `body` for every `width` columns of memory that are loaded, with how
  /// many of them the source has.
  void columnBlocks(LoadOp op, int64_t width,
                    function_ref<void(Value, int64_t)> body);
  /// Row `r` of a load's tile: whether it is to be read (null: always), and the
  /// indices of its first element in the memory.
  struct RowAccess {
    Value valid;
    SmallVector<Value> indices;
  };
  RowAccess accessRow(LoadOp op, Value r);
  /// The indices of a position of a source whose rows do not lie one after the
  /// other.
  SmallVector<Value> findRow(SourceOp source, LoadOp op, Value position,
                             Value valid);
  /// Loads `count` of `width` elements of a row from column `col` on, zero in
  /// the others and where it is not to be read; converted to `elementType`.
  Value loadRow(LoadOp op, const RowAccess &row, Value col, int64_t count,
                int64_t width, Type elementType);
  /// Whether masked loads and stores of this element type are instructions.
  bool hasMasks(Type elementType);
  Value loadRowUnmasked(LoadOp op, ValueRange indices, int64_t count,
                        int64_t width, Value valid, Type elementType);
  Value widenBF16(Value vector);
  void storeColumns(Value vector, Value memref, ValueRange indices,
                    int64_t count);
  std::tuple<Value, Value, Value> panelPosition(Value n, int64_t total,
                                                int64_t panel, int64_t depth,
                                                Location loc);
  Value rowIsValid(LoadOp op, Value r);
  /// Whether the results are needed in row-major form or packed.
  SmallVector<Layout> layoutsNeeded(Value value);

  //===--- InPlace.cpp: tiles that stay in memory ---===//
  /// Whether the tile is read where it is in memory.
  bool readsInPlace(LoadOp op);
  bool canReadInPlace(LoadOp op);
  void openInPlace(LoadOp op);
  /// The store that brings a result to where `load` has read its operand, so
  /// that it may be computed there; or null.
  StoreOp findUpdate(Value result, LoadOp load);

  //===--- Dot.cpp: micro kernels ---===//
  LogicalResult lowerDot(DotOp op);
  /// What tells one outer-product micro kernel from another.
  struct MicroKernel {
    int64_t depthStep;
    /// Whether there is one row, of whose sums registers hold twice as many.
    bool isWide = false;
    /// Vectors of columns from `col` at depth k.
    std::function<SmallVector<Value>(Value col, Value k, int64_t numVectors)>
        columns;
    /// The left operand's element at (row, k) in every lane.
    std::function<Value(Value row, Value k)> row;
    std::function<Value(Value row, Value column, Value sum)> multiplyAdd;
  };
  void outerProducts(DotOp op, Value acc, Value scale, Value out,
                     const MicroKernel &kernel);
  /// A product of one row with what `op` makes, whose operands are there.
  DotOp findRowReader(DotOp op);
  void addOuterProduct(DotOp op, Value lhs, Value rhs, Value acc, Value scale,
                       Value out, DotOp reader);
  /// Element (row, k) of the left operand.
  Value leftElement(DotOp op, Value lhs, Value row, Value k);
  void dotPanels(DotOp op, Value lhs, Value rhs, Value acc, Value scale,
                 Value out);
  void dotPairs(DotOp op, Value lhs, Value rhs, Value acc, Value scale,
                Value out);
  void dotAmx(DotOp op, Value lhs, Value rhs, Value acc, Value out);
  void scaleRows(Value from, Value scale, Value to, TileType type,
                 Location loc);
  /// Layout that the right operand of `op` is read in.
  Layout rhsLayout(DotOp op);
  bool usesAmx(DotOp op);
  bool usesPairs(DotOp op);
  void configureAmx();
  void releaseAmx();

  //===--- MapReduce.cpp: elementwise ---===//
  class MapLowering;
  LogicalResult lowerMap(MapOp op, ReduceOp fused);
  LogicalResult lowerReduce(ReduceOp op);
  LogicalResult lowerReduceRows(ReduceOp op);
  LogicalResult lowerOrderedReduce(ReduceOp op);
  LogicalResult lowerScan(ScanOp op);
  LogicalResult lowerSolve(SolveOp op);
  LogicalResult lowerFold(FoldOp op);
  LogicalResult lowerThresholdFold(FoldOp op, unsigned threshold);
  SmallVector<Value> foldKey(FoldOp op, Value r, Value c, Value d,
                             int64_t width, ArrayRef<Value> carried,
                             LogicalResult &status);
  LogicalResult lowerAny(AnyOp op);
  /// The reduce that directly follows `op` and reads its results, if any.
  ReduceOp fusableReduce(MapOp op);

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
  /// Holds loops and branches that were replaced, until nothing uses them.
  Block *graveyard = nullptr;
  Operation *anchor = nullptr;
  DenseMap<Attribute, Value> constants;
  DenseMap<Value, Value> buffers;
  /// Block of the results of replaced loops and branches.
  DenseMap<Value, Block *> homes;
  DenseMap<std::pair<Value, int>, Value> packedBuffers;
  SmallPtrSet<Operation *, 8> alreadyLowered;
  DenseMap<Operation *, bool> inPlace;
};

} // namespace mlir::tile

#endif // ATTN_LIB_CONVERSION_TILETOVECTOR_KERNELLOWERING_H
