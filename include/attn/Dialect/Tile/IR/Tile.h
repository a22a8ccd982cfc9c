//===- Tile.h - The tile dialect --------------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_IR_TILE_H
#define ATTN_DIALECT_TILE_IR_TILE_H

#include "attn/Dialect/Attn/IR/Source.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "attn/Dialect/Tile/IR/TileDialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "attn/Dialect/Tile/IR/TileTypes.h.inc"
#define GET_OP_CLASSES
#include "attn/Dialect/Tile/IR/TileOps.h.inc"

namespace mlir::tile {
/// Blocks of a cluster, at most: what every GPU with clusters takes.
constexpr int64_t mostBlocksOfCluster = 8;

/// Adds the ramp of a product in a map behind it.
void expandRamp(DotOp dot);
} // namespace mlir::tile

#endif // ATTN_DIALECT_TILE_IR_TILE_H
