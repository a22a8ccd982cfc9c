//===- TurnRows.h - Rows that a kernel turns once ---------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to attn-tile. Products of GPUs take keys from where the copy engine
// has written them, so that what `rotary` turns is turned before, by a kernel
// that reads rows where they are and writes them to workspace: packed rows as
// they lay, all others one after the other, [b, h, rows, d].
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TURNROWS_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TURNROWS_H

#include "KernelBuilder.h"

namespace mlir::attn {

/// What keeps rows from being turned before the reduction, or nothing.
std::string whyNotTurned(ReductionOpInterface op);

/// Whether a kernel for a GPU turns its keys itself.
bool turnsInside(ReductionOpInterface op, const ::attn::TargetInfo &target);

/// What keeps keys from turning where copies put them, as the schedule says, or
/// nothing.
std::string whyNotTurnedInside(ReductionOpInterface op,
                               const ::attn::TargetInfo &target);

/// Builds the kernel that turns the queries or the keys of a reduction.
class TurnKernel : public KernelBuilder {
public:
  TurnKernel(ReductionOpInterface op, bool ofQueries,
             const ::attn::TargetInfo &target, tile::KernelOp kernel);

  /// Rows of a block.
  static int64_t blockRows() { return ::attn::MmaShape::warp().m; }

  /// Blocks for the channels of these: pairs of halves are in as many.
  static int64_t countSlices(RotaryAttr rotary);

  void build(Value into, Value numTiles, Value block);

private:
  /// Columns of a tile, at most.
  static constexpr int64_t blockChannels = 64;
  /// Pairs of a block, at most: more of them take registers of others.
  static constexpr int64_t slicePairs = 32;
  /// The pairs of a block; 0 where channels are read one by one.
  static int64_t sliceWidth(RotaryAttr rotary);

  void locate(Value numTiles, Value block);
  void turnSlice(Value into);
  void turnEach(Value into, Value base);
  Value loadSlice(Value channel, int64_t width);
  void storeSlice(Value tile, Value into, Value channel);
  /// Both channels of a pair, turned.
  SmallVector<Value> turn(Value row, Value pair, Value x, Value y);
  /// Within a map: an element of row `row`, i32, as f32.
  Value element(Value row, Value channel);
  std::pair<Value, Value> findRow(Value position);

  Region &region;
  Value tensor, memory, opened, dimOfRows;
  /// The block's slice of the pairs.
  Value slice;
  /// Where the rows end that are written, and how far behind the last.
  Value end;
  int64_t behind;
  RotaryAttr rotary;
  int64_t depth;
  bool isAligned;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TURNROWS_H
