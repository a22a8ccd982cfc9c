//===- TileStates.h - Kernels that multiply and finish states ---*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to attn-tile.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESTATES_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESTATES_H

#include "KernelBuilder.h"

namespace mlir::attn {

/// Builds the kernel of an `attn.combine`, of an `attn.finalize`, or of both:
/// a finalize that is the only user of a combine multiplies the parts itself.
class StatesKernel : public KernelBuilder {
public:
  /// `combine` may be null, or `op` itself.
  StatesKernel(Operation *op, CombineOp combine, MonoidOp monoid,
               const ::attn::TargetInfo &target, tile::KernelOp kernel)
      : KernelBuilder(op, monoid, target, kernel), combineOp(combine) {}

  /// Rows of one block. Of a GPU's blocks each has a slice of the channels:
  /// many small ones together wait less for memory.
  static int64_t blockRows(const ::attn::TargetInfo &target) {
    return target.isCpu() ? 64 : ::attn::MmaShape::warp().m;
  }
  static int64_t countSlices(ValueRange states, CombineOp combine,
                             MonoidOp monoid, const ::attn::TargetInfo &target);
  /// What shared states have of a block's rows: the parts, and where they are.
  struct SharedRows {
    Value parts, group, head, row;
  };
  /// Dimensions of rows of the states: batches where they have some, heads and
  /// rows.
  static constexpr int64_t rankOfBatches = 3;
  static int64_t rowRank(ValueRange states, MonoidOp monoid, bool parts);

  /// Which numbers of parts a kernel is for: any, or where `dividesParts` few
  /// or more than these.
  enum class Parts { Any, Few, Many };
  /// Whether the warps of a block may take some of many parts each.
  bool dividesParts();
  static constexpr int64_t mostFewParts = 16;

  LogicalResult build(ValueRange outputs, Value numTiles, Value block,
                      Parts parts);

private:
  /// Parts that a GPU's block loads at once, or twice as many where there are.
  static constexpr int64_t partsAtOnce = 8, fewParts = 2;
  /// Warps that divide many parts.
  static constexpr int64_t dividingWarps = 8;

  SmallVector<Value> load(ValueRange states, ValueRange leading,
                          Value exists = {});
  SmallVector<Value> loadShared(const SharedRows &rows, Value part,
                                Value exists);
  using LoadPart = function_ref<SmallVector<Value>(Value, Value)>;
  /// Whether an attn.partial makes the parts, and whether these have a fixed
  /// number of keys.
  bool areComputed() {
    return static_cast<bool>(
        combineOp.getStates().front().getDefiningOp<PartialOp>());
  }
  bool isExact() {
    auto partial = combineOp.getStates().front().getDefiningOp<PartialOp>();
    return partial && partial.getBatchInvariant() &&
           monoid.getKind() == MonoidKind::cocycle;
  }
  bool areShort();
  bool multipliesAtOnce();
  bool isWide();
  SmallVector<SmallVector<Value>> loadParts(Value first, Value numParts,
                                            int64_t count, LoadPart loadPart,
                                            SmallVectorImpl<Value> &exist);
  SmallVector<Value> multiplyParts(SmallVector<Value> state, Value first,
                                   Value numParts, LoadPart loadPart);
  SmallVector<Value> multiplyFirst(SmallVector<SmallVector<Value>> parts,
                                   SmallVector<Value> exist,
                                   ArrayRef<int64_t> counts, Value numParts,
                                   LoadPart loadPart);
  SmallVector<Value> multiplyShared(SmallVector<Value> state);

  CombineOp combineOp;
  Parts numbers = Parts::Any;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESTATES_H
