//===- Passes.h - Passes over the tile_gpu dialect --------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_TRANSFORMS_PASSES_H
#define ATTN_DIALECT_TILEGPU_TRANSFORMS_PASSES_H

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/Pass.h"

namespace attn {
#define GEN_PASS_DECL
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "attn/Dialect/TileGPU/Transforms/Passes.h.inc"
} // namespace attn

#endif // ATTN_DIALECT_TILEGPU_TRANSFORMS_PASSES_H
