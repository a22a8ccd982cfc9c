//===- RegisterTypes.h - What verifiers ask of fragments and vectors -*- C++
//-*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_TILEGPU_IR_REGISTERTYPES_H
#define ATTN_LIB_DIALECT_TILEGPU_IR_REGISTERTYPES_H

#include "attn/Dialect/TileGPU/IR/TileGPU.h"

namespace mlir::tile_gpu {

inline Type elementOf(Type type) {
  if (auto frag = dyn_cast<FragType>(type))
    return frag.getElementType();
  return cast<VecType>(type).getElementType();
}

inline Scope scopeOf(Type type) {
  if (auto frag = dyn_cast<FragType>(type))
    return frag.getScope();
  return cast<VecType>(type).getScope();
}

/// Whether a vector runs along a fragment: same scope, and as many elements as
/// the fragment has rows or columns.
inline bool alongside(VecType vec, FragType frag) {
  return vec.getScope() == frag.getScope() &&
         vec.getSize() ==
             (vec.getAxis() == Axis::Row ? frag.getRows() : frag.getCols());
}

/// Whether a body takes and yields values of these types.
LogicalResult verifyArguments(Operation *op, Block &block,
                              ArrayRef<Type> types);
LogicalResult verifyYield(Operation *op, Block &block, ArrayRef<Type> types);

} // namespace mlir::tile_gpu

#endif // ATTN_LIB_DIALECT_TILEGPU_IR_REGISTERTYPES_H
