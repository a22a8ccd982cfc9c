//===- KernelBuilder.h - Tile ops and region copies for kernels -*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to attn-tile: what all kernels are built with. A block owns the rows
// of one query tile of one (batch, head).
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_KERNELBUILDER_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_KERNELBUILDER_H

#include "Pages.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

#include <map>
#include <tuple>

namespace mlir::attn {

/// Loads an element of a tensor of `type`. Tensors of i1 have a byte for each
/// element in memory, and memrefs of i8.
Value loadElement(OpBuilder &b, Location loc, Value memref, ValueRange indices,
                  Type type);

/// Body of a map: row and column in the tile (i32), one scalar per input.
using MapBody = function_ref<SmallVector<Value>(Value, Value, ValueRange)>;
using ReduceBody = function_ref<SmallVector<Value>(ValueRange, ValueRange)>;

/// Where a region is evaluated: the row and key of the element, both i32;
/// `safeRow` and `safeKey` are theirs in range, to index captures with. And
/// the head, in range, where heads are packed.
struct Point {
  Value row, key, safeRow, safeKey, head;
};

/// Common to all kernels: arguments, helpers that build tile ops, and copies
/// of the monoid's and the op's regions.
class KernelBuilder {
public:
  KernelBuilder(Operation *op, MonoidOp monoid,
                const ::attn::TargetInfo &target, tile::KernelOp kernel)
      : b(op->getLoc(), op->getContext()), loc(op->getLoc()), op(op),
        monoid(monoid), target(target), kernel(kernel) {}

  /// Tells which kernel argument stands for a value of the plan.
  void bind(Value outer, Value argument) { arguments[outer] = argument; }
  Value arg(Value outer) const { return arguments.lookup(outer); }

  //===--- Scalars --------------------------------------------------------===//
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, loc, value);
  }
  Value i32(int64_t value) {
    return arith::ConstantIntOp::create(b, loc, b.getI32Type(), value);
  }
  Value f32(float value) {
    return arith::ConstantFloatOp::create(b, loc, b.getF32Type(),
                                          APFloat(value));
  }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, loc, x, y); }
  Value min(Value x, Value y) { return arith::MinSIOp::create(b, loc, x, y); }
  Value max(Value x, Value y) { return arith::MaxSIOp::create(b, loc, x, y); }
  Value select(Value c, Value x, Value y) {
    return arith::SelectOp::create(b, loc, c, x, y);
  }
  Value cmp(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  }
  Value toI32(Value value) {
    return arith::IndexCastOp::create(b, loc, b.getI32Type(), value);
  }
  Value toIndex(Value value) {
    return arith::IndexCastOp::create(b, loc, b.getIndexType(), value);
  }
  Value dim(Value memref, int64_t d);
  /// Quotient and remainder. No size of a grid needs 64 bits, which a GPU
  /// divides slowly.
  std::pair<Value, Value> divide(Value x, Value y);
  /// Element of a vector of i32, as index.
  Value element(Value memref, Value position);

  //===--- Tiles ----------------------------------------------------------===//
  tile::TileType tileType(int64_t rows, int64_t cols, Type element) {
    return tile::TileType::get(b.getContext(), rows, cols, element);
  }
  tile::TileType tileType(int64_t rows, int64_t cols) {
    return tileType(rows, cols, b.getF32Type());
  }
  Value fill(Value scalar, tile::TileType type) {
    return tile::FillOp::create(b, loc, type, scalar);
  }
  SmallVector<Value> map(ValueRange inputs, ArrayRef<Type> results,
                         MapBody body);
  SmallVector<Value> reduce(ValueRange inputs, ValueRange identities,
                            bool ordered, ReduceBody body,
                            bool overRows = false);
  SmallVector<Value> scan(ValueRange inputs, ValueRange identities,
                          bool reverse, ReduceBody body);
  /// Sum over the columns.
  Value rowSum(Value tile);

  //===--- Monoid ---------------------------------------------------------===//
  unsigned numStats() { return monoid.getNumStats(); }
  unsigned numComponents() { return monoid.getNumComponents(); }
  /// Run-time parameters of the monoid in the kernel.
  SmallVector<Value> params();
  /// Inlines a monoid region with its parameters appended.
  SmallVector<Value> call(Region &region, ValueRange inputs);
  SmallVector<Value> identityStats();
  SmallVector<Value> combine(ValueRange left, ValueRange right);
  /// True when a state's statistics are the identity's.
  Value isIdentity(ValueRange stats);
  /// Components have one factor or several: the number of that of `component`
  /// among the distinct ones, and how many these are.
  unsigned factorOf(unsigned component);
  unsigned numFactors();
  /// The distinct factors from one statistic to another; `rescale`: 0 from the
  /// identity.
  SmallVector<Value> factorsTo(ValueRange from, ValueRange to);
  SmallVector<Value> rescale(ValueRange from, ValueRange to);
  /// What `shift` makes of unit components; those of the identity, of which
  /// nothing is left, stay what they are.
  SmallVector<Value> shift(ValueRange from, ValueRange to, ValueRange units);
  /// Whether nothing is left of what has the factor.
  Value isDropped(Value factor);
  /// factor * x, 0 of a factor that is 0.
  Value selectScaled(Value factor, Value x);
  /// Of kind affine: what scales the first and the second of two states, 0 for
  /// one that is the identity.
  std::pair<Value, Value> affineFactors(ValueRange left, ValueRange right);
  /// Distinct factors of the left and right components in a product of states
  /// with statistics `left` and `right`, `both` combined; none for 1.
  std::pair<SmallVector<Value>, SmallVector<Value>>
  factors(ValueRange left, ValueRange right, ValueRange both);
  /// Whether element `i` of a state has channels.
  static bool isPerChannel(MonoidOp monoid, unsigned i) {
    return i >= monoid.getNumStats() &&
           monoid.getComponent(i - monoid.getNumStats()) == Component::value;
  }
  /// The product of states that this program has `computed`; of others, what is
  /// in memory may hold anything where a state is empty. `isExact`: one without
  /// keys on the right leaves the left one as it was, bit by bit.
  SmallVector<Value> multiply(ValueRange left, ValueRange right, bool computed,
                              bool isExact);
  /// The product of several states, each scaled once: of a cocycle with
  /// statistics. Of states that do not `exist` it takes nothing; null: it does.
  /// `isShort`: sums are of 16-bit values, and factors may be approximate.
  SmallVector<Value> multiplyAll(ArrayRef<SmallVector<Value>> states,
                                 ArrayRef<Value> exist, bool computed,
                                 bool isShort);
  SmallVector<Value> multiplyWhole(ValueRange left, ValueRange right,
                                   ArrayRef<unsigned> scalars,
                                   ArrayRef<unsigned> vectors);
  /// The identity's state, of tiles of these types.
  SmallVector<Value> identityState(TypeRange types);

  ImplicitLocOpBuilder b;
  Location loc;
  Operation *op;
  MonoidOp monoid;
  const ::attn::TargetInfo &target;
  tile::KernelOp kernel;
  llvm::DenseMap<Value, Value> arguments;

  //===--- The block's position -------------------------------------------===//
  /// The batch, head and query tile that a block works on. Regions see batch
  /// and head as i32.
  Value batch, head, batchI32, headI32;
  /// First row of the query tile; rows of the sequence; live rows of the tile.
  Value row0, sq, liveRows;
  /// Where heads are packed (`pack_heads`), rows of tiles are those of all
  /// query heads of a key head, head by head, and `head` is the key head, as it
  /// is in the tensors of queries and results that the kernel is given.
  bool packsHeads = false;
  /// Then, all i32: the position and the head of the tile's first row, the last
  /// head of the group, sq, and 2^packedShift / sq, rounded up. With it rows of
  /// a tile are divided by sq, exactly: a row of a tile and a position are less
  /// than 2^11 together, and that times the error less than 2^packedShift.
  struct {
    Value position, head, lastHead, rows, reciprocal;
  } firstPacked;
  static constexpr int64_t packedShift = 21;
  /// Where the rows of queries and results are: the index operands are
  /// arguments of the kernel. States are dense, and those of packed rows have
  /// no batch.
  Source rowSource;
  bool rowsHaveBatch = true;
  /// The rows behind the last sequence are one more, where they are packed.
  bool rowsRest() const { return !rowSource.hasBatch(); }
  /// Sequences have sizes of their own: no position is in range of a capture
  /// for being one of its sequence.
  bool hasOwnSizes = false;
  /// Tensors as sources, made where `openSource` is first called.
  std::map<std::tuple<void *, void *, void *, bool, bool, bool>, Value> sources;
  /// Of a block that has a slice of the channels: the first one, or null, and
  /// how many. Blocks leave what has no channels to that of the first ones.
  Value firstChannel;
  int64_t sliceChannels = 0;
  /// Where uniform values are built: before this op.
  Operation *uniformPoint = nullptr;
  /// The head of a pair is none of the block's: outside of the walk over the
  /// heads of a group, what it decides is not the same for all pairs.
  bool headVaries = false;

  /// `source` with arguments of the kernel for its operands.
  Source bound(const Source &source) const {
    return {source.kind, source.map ? arg(source.map) : Value(),
            source.lengths ? arg(source.lengths) : Value()};
  }
  /// What loads and stores take for a tensor: itself where it is dense, which
  /// is a source of its own.
  Value openSource(Value memref, const Source &source, bool rest, bool vector,
                   bool aligned = false, int64_t boxes = 0);
  /// Indices of row `row`, the block's first channel, of the sequence in a
  /// tensor of the op; `leading` holds what comes before the batch.
  SmallVector<Value> at(Value headIndex, Value row, bool channel,
                        ValueRange leading = {});
  /// The same from channel 0 on, whatever slice of the values a block has.
  SmallVector<Value> fromFirst(Value headIndex, Value row);
  /// Whether a tensor of rows has channels behind them.
  bool hasChannels(Value memref, int64_t numLeading) const;
  /// Stores a row block of a result tensor, [.., rows(, channels)].
  void storeRows(Value tile, Value memref, ValueRange leading = {});
  /// Applies the op's finalize region (or the monoid's, when it has none) and
  /// stores each output; statistic 0 of a row becomes `toStat` of both.
  void storeFinalized(Region &own, ValueRange state, ValueRange captures,
                      ValueRange outputs,
                      function_ref<Value(Value, Value)> toStat = {});

  //===--- Regions of the op ----------------------------------------------===//
  /// Of the rows from `firstRow` on, row `row` is at
  /// `rowPoint(rowBase(firstRow), row, lastRow())`. All i32 but `firstRow`.
  Value rowBase(Value firstRow);
  Value lastRow() { return toI32(sub(sq, index(1))); }
  Point rowPoint(Value base, Value row, Value lastRow);
  /// Values of `region` that differ between elements.
  const llvm::DenseSet<Value> &varying(Region &region, unsigned firstPosition,
                                       bool hasKey);
  /// A uniform value of `region`, built once before `uniformPoint`.
  Value uniform(Region &region, Value value, unsigned firstPosition,
                ValueRange captures);
  llvm::DenseMap<Region *, llvm::DenseSet<Value>> varyingValues;
  llvm::DenseMap<Value, Value> uniformValues;
};

/// Prepares copying `region`, whose position arguments (b, h, i, j) start
/// at `firstPosition`; captures follow. `hasKey`: j is among them.
class PointCloner {
public:
  PointCloner(KernelBuilder &kernel, Region &region, unsigned firstPosition,
              bool hasKey, ValueRange captures, Point point);
  void map(Value from, Value to) { cloner.map(from, to); }
  Value get(Value value) { return cloner.get(value); }

private:
  Value build(Operation *op, RegionCloner &inner);
  KernelBuilder &kernel;
  Region &region;
  unsigned firstPosition;
  bool hasKey;
  ValueRange captures;
  Point point;
  std::function<Value(Operation *, RegionCloner &)> hook;
  RegionCloner cloner;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_KERNELBUILDER_H
