//===- VerifyTurns.h - Turns that warpgroups take ---------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// tile-gpu-verify-async: whether warpgroups that take turns can wait for ever.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_VERIFYTURNS_H
#define ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_VERIFYTURNS_H

#include "attn/Dialect/TileGPU/IR/TileGPU.h"

namespace mlir::tile_gpu {

/// Checks that every turn that is waited for is passed, and that all members of
/// the role take as many.
LogicalResult verifyTurns(RoleOp role);

} // namespace mlir::tile_gpu

#endif // ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_VERIFYTURNS_H
