//===- ComputeLowering.h - Tile ops onto fragments --------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One role at a time: a tile value of R rows becomes what one member of the
// role (a warpgroup or a warp) holds of it.
//
//   RxC f32, i1, i32        accumulator fragment
//   RxC 16 bits             left operand of a product (layout a), or rounded
//                           accumulator where no product reads it
//   Rx1                     row vector
//   1xC                     column vector
//   cast of a shared tile   that tile
//
// Of warps, tiles of eight rows are turned: their rows are the columns of a
// fragment, as many as a product has. A 16-bit one is then a right operand.
//
// Loops and branches that carry tiles keep their operations; the types of
// their values change in place.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILETOTILEGPU_COMPUTELOWERING_H
#define ATTN_LIB_CONVERSION_TILETOTILEGPU_COMPUTELOWERING_H

#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

namespace mlir::tile_gpu {

class ComputeLowering {
public:
  explicit ComputeLowering(RoleOp role)
      : role(role), scope(role.getScope()), b(role.getContext()) {}

  LogicalResult run();

private:
  // Structure (TileToTileGPU.cpp).
  LogicalResult lowerBlock(Block &block);
  LogicalResult lowerOp(Operation *op);
  LogicalResult lowerCast(UnrealizedConversionCastOp op);
  /// Retypes what a loop or branch carries.
  LogicalResult carry(Value value, Operation *op);
  LogicalResult lowerFor(scf::ForOp op);
  LogicalResult lowerIf(scf::IfOp op);
  LogicalResult lowerForeach(ForeachOp op);
  LogicalResult lowerOther(Operation *op);

  // Memory (Memory.cpp).
  LogicalResult lowerLoad(tile::LoadOp op);
  LogicalResult lowerStore(tile::StoreOp op);
  LogicalResult lowerAccumulate(tile::AccumulateOp op);
  /// The operand as an i32 position.
  Value position(Value index);
  /// Positions of an access and the end of its rows.
  struct Access {
    SmallVector<Value> indices;
    Value rows;
    /// The first row, where it may lie beyond the access's first.
    Value lower;
  };
  Access access(Operation *op, ValueRange indices, Value lower, Value upper,
                bool isVector, tile::TileType type);

  // Compute (Compute.cpp).
  LogicalResult lowerFill(tile::FillOp op);
  LogicalResult lowerDot(tile::DotOp op);
  Value readMapped(Value slot, SmemType tile, bool isRow, Operation *map);
  LogicalResult lowerMap(tile::MapOp op);
  LogicalResult lowerTurn(tile::TurnOp op);
  LogicalResult lowerReduce(tile::ReduceOp op);
  LogicalResult lowerScan(tile::ScanOp op);
  LogicalResult lowerAny(tile::AnyOp op);
  LogicalResult lowerTruths(tile::TruthsOp op);
  LogicalResult lowerStoreBits(tile::StoreBitsOp op);
  LogicalResult lowerPrefetch(tile::PrefetchOp op);
  LogicalResult lowerPad(tile::PadOp op);
  // The element path (Fold.cpp).
  LogicalResult lowerFold(tile::FoldOp op);
  LogicalResult lowerThresholdFold(tile::FoldOp op, unsigned threshold);
  Value scratch(unsigned n, tile::TileType type, Location loc);
  Value asNumber(Value live, Location loc);

  /// What a product of so many columns adds a ramp by.
  Value rampColumns(int64_t cols, Location loc);

  /// diag(scale) * acc.
  Value scaled(Value acc, Value scale, Location loc);

  /// What stands for a tile value.
  Value get(Value value) const {
    Value lowered = values.lookup(value);
    return lowered ? lowered : value;
  }
  /// The tile that a value is, which a loop or branch may carry as another.
  tile::TileType typeOf(Value value) const {
    tile::TileType type = carried.lookup(value);
    return type ? type : cast<tile::TileType>(value.getType());
  }
  /// Whether rows are columns of fragments.
  bool isTurned(tile::TileType type) const {
    constexpr int64_t ofWarp = 8, ofGroup = 16;
    return type.getRows() == (scope == Scope::Warp ? ofWarp : ofGroup);
  }
  /// The layout of a 16-bit value for a product. A warpgroup takes what is
  /// turned from shared memory.
  Layout operandLayout(tile::TileType type) const {
    if (!isTurned(type))
      return Layout::A;
    return scope == Scope::Warp ? Layout::B : Layout::Acc;
  }
  LogicalResult lowerTurnedDot(tile::DotOp op);
  /// A 16-bit value in the layout of an operand, for a product.
  FailureOr<Value> operandA(Value value, Operation *op);
  /// The same in shared memory.
  FailureOr<Value> inSharedMemory(Value held, tile::DotOp op);
  void set(Value tile, Value lowered) { values[tile] = lowered; }
  /// The type of a tile in registers; where no member can hold it, `op` gets
  /// an error and the result is null.
  Type registerType(tile::TileType type, Operation *op,
                    Layout layout = Layout::Acc);
  FragType frag(int64_t rows, int64_t cols, Type element,
                Layout layout = Layout::Acc) {
    return FragType::get(b.getContext(), rows, cols, element, layout, scope);
  }
  VecType vec(int64_t size, Type element, Axis axis) {
    return VecType::get(b.getContext(), size, element, axis, scope,
                        /*partial=*/false);
  }

  RoleOp role;
  Scope scope;
  OpBuilder b;
  DenseMap<Value, Value> values;
  DenseMap<Value, tile::TileType> carried;
  /// Shared memory that folds use one after the other.
  SmallVector<Value> scratchTiles;
  /// And products that transpose a fragment, by the type.
  DenseMap<Type, Value> transposedTiles;
  /// Ops that were lowered, operands' producers first.
  SmallVector<Operation *> dead;
};

/// `select` of a comparison becomes the maximum or minimum it computes, where
/// both agree; see the pass's documentation.
void simplifyExtrema(Block &body, bool statistics);

inline bool is16Bit(Type type) { return type.isBF16() || type.isF16(); }

} // namespace mlir::tile_gpu

#endif // ATTN_LIB_CONVERSION_TILETOTILEGPU_COMPUTELOWERING_H
