//===- GlobalAccess.h - Where register values lie in a tensor ---*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEGPUTONVVM_GLOBALACCESS_H
#define ATTN_LIB_CONVERSION_TILEGPUTONVVM_GLOBALACCESS_H

#include "KernelContext.h"

namespace attn::gpu {

/// Where the elements of a register value lie in a tensor.
class GlobalAccess {
public:
  GlobalAccess(Emitter &e, const Values &memref, mlir::MemRefType type,
               ValueRange indices, Value rowBound, bool transposed,
               bool isVector);

  /// Bytes of an element in memory.
  int64_t elementBytes;
  /// Whether neighbours along the columns of the value follow each other.
  bool colsAreContiguous, rowsAreContiguous;
  bool isTransposed;
  /// Address of element (0, 0): the sum of what neighbours along the first
  /// dimension share, and of how far from there this one is.
  Value base, start, step;
  Value strides[2]; // Bytes from row to row and from column to column.
  /// Positions of element (0, 0), and bounds where they must be checked.
  Value origins[2], bounds[2];
  /// Whether all positions along an axis are in bounds, where all are or none.
  Value whole[2];
  /// What is known to divide the position in the tensor's last dimension.
  int64_t divisor = 1;

  Emitter &e;
  /// Address of an element whose row and column in the value are known as a
  /// thread's part and a constant.
  Value at(Value row, Value col) const {
    Value inside = e.add(e.mul(e.sext64(row), strides[0]),
                         e.mul(e.sext64(col), strides[1]));
    return e.add(e.add(start, inside), step);
  }
  /// Whether position `index` along an axis is in bounds; none: always.
  Value inBounds(int axis, Value index) const {
    if (!bounds[axis])
      return whole[axis];
    return e.lt(e.add(origins[axis], index), bounds[axis]);
  }
  Value both(Value x, Value y) const { return !x ? y : !y ? x : e.and_(x, y); }
  /// Leaves no bound where `extent` elements of an axis are known to lie below
  /// it, and one comparison where all or none of them do.
  void simplifyBound(int axis, int64_t extent);
  /// The size of a dimension is an index, positions are i32.
  void narrowBound(int axis) {
    if (bounds[axis] && bounds[axis].getType() == e.i64)
      bounds[axis] =
          mlir::LLVM::TruncOp::create(e.b, e.loc, e.i32, bounds[axis]);
  }
};

/// A number that divides an index, by the arithmetic that it comes from; 0 if
/// that is 0.
int64_t knownDivisor(Value index);

/// Of a fragment in memory of blocks of 16 rows (FragmentOrder.h) calls
/// body(index of the first register, address, offset) for each four elements
/// that this thread has, which follow one another.
void forFragmentOrder(KernelContext &k, tg::FragType type, const Values &memref,
                      mlir::MemRefType memory, Values indices,
                      llvm::function_ref<void(int64_t, Value, int64_t)> body);

} // namespace attn::gpu

#endif // ATTN_LIB_CONVERSION_TILEGPUTONVVM_GLOBALACCESS_H
