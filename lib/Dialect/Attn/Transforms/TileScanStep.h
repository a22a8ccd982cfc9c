//===- TileScanStep.h - A step of attn.scan on a CPU ------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One token, whose state comes from memory and goes there: that is what it
// takes. A block has one sequence and one state head. It goes through the rows
// of the state, some key channels at a time, so that what is loaded is stored
// before it leaves the cache next to the processor:
//
//   y  = beta (v - (g k)^T S)      a first time through, with the delta rule
//   S' = diag(g) S + k y^T,  o = S'^T q
//
// Other readers of the state take it as it was, g S^T q' + (k . q') y.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESCANSTEP_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESCANSTEP_H

#include "ScanBuilder.h"

namespace mlir::attn {

class ScanStepKernel : public ScanBuilder {
public:
  ScanStepKernel(ScanOp op, const ::attn::TargetInfo &target,
                 tile::KernelOp kernel)
      : ScanBuilder(op, target, kernel) {}

  /// Whether a scan is such a step; the chunks of TileScan.h are for others.
  static bool handles(ScanOp op);
  void build(ValueRange outputs, Value block);

private:
  /// The token, of a sequence with a state or, where there is none, without.
  void step(ValueRange outputs);
  /// Some channels of a row of queries or keys, mapped; or all of them.
  Value loadPart(Value memref, Value headIndex, Value channel);
  Value loadRow(Value memref, Value headIndex);
  Value mapFeature(Value row);
  /// 1 / |x|, or null.
  Value inverseNorm(Value row);
  /// Gates of some key channels, as a row or a column.
  Value loadGates(Value channel, bool asColumn);
  Value loadState(Value channel);
  Value loadNumber(Value memref);
  /// sum_d x_d S_d through all rows; of keys or queries, with the gates of
  /// channels.
  Value project(Value memref, Value headIndex);
  void storeOutput(Value sum, Value output, Value outputHead);

  //===--- Small helpers --------------------------------------------------===//
  using Body = function_ref<Value(ValueRange)>;
  Value mapOne(ValueRange inputs, tile::TileType type, Body body);
  /// A tile times numbers, each of which may be null.
  Value scaled(Value tile, ArrayRef<Value> numbers);
  tile::TileType valueRow() { return tileType(1, valueCols); }

  int64_t keyChannels = 0, valueCols = 0;
  Value where;
  bool hasState = true;
  Value gate; // of the head, or null
};

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESCANSTEP_H
