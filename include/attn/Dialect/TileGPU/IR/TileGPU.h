//===- TileGPU.h - The tile_gpu dialect -------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_IR_TILEGPU_H
#define ATTN_DIALECT_TILEGPU_IR_TILEGPU_H

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "attn/Dialect/TileGPU/IR/TileGPUDialect.h.inc"
#include "attn/Dialect/TileGPU/IR/TileGPUEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "attn/Dialect/TileGPU/IR/TileGPUAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "attn/Dialect/TileGPU/IR/TileGPUTypes.h.inc"
#define GET_OP_CLASSES
#include "attn/Dialect/TileGPU/IR/TileGPUOps.h.inc"

namespace mlir::tile_gpu {
/// The type of the `smem.ramp` of products of so many columns.
SmemType rampType(MLIRContext *context, int64_t cols);

/// The stage of `op`, or null.
inline StageAttr stageOf(Operation *op) {
  return op->getAttrOfType<StageAttr>(TileGPUDialect::stageName);
}
/// Whether the stages of a block agree with what its operations read, and its
/// loop carries.
LogicalResult verifyStages(Block &block);
} // namespace mlir::tile_gpu

#endif // ATTN_DIALECT_TILEGPU_IR_TILEGPU_H
