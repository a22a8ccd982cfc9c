//===- TileAppend.h - Building kernels that append rows ---------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEAPPEND_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEAPPEND_H

#include "KernelBuilder.h"

namespace mlir::attn {

/// Builds the kernel of an `attn.append`.
class AppendKernel : public KernelBuilder {
public:
  AppendKernel(AppendOp op, const ::attn::TargetInfo &target,
               tile::KernelOp kernel)
      : KernelBuilder(op, MonoidOp(), target, kernel) {}

  /// New rows of a block, and the slices of their channels, with a block each.
  static int64_t blockRows(AppendOp op, const ::attn::TargetInfo &target);
  static int64_t countSlices(AppendOp op, const ::attn::TargetInfo &target);
  /// Whether blocks begin at multiples of their rows in the sequence, so that
  /// those of each are in one page.
  static bool hasAlignedRows(AppendOp op, const ::attn::TargetInfo &target);

  /// `after`: where the lengths go, or null.
  void build(Value after, Value numTiles, Value block);
  /// The kernel that has no rows, but the lengths of so many sequences a block.
  static constexpr int64_t lengthsOfBlock = 16;
  void buildLengths(Value after, Value numTiles, Value block);

private:
  static constexpr int64_t blockChannels = 64;

  std::pair<Value, Value> locate(AppendOp append, Value cache, Value position);
  Value countRoom();
  std::tuple<Value, Value, Value> countRows();
  Value openRows(Value rows);
};

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILEAPPEND_H
