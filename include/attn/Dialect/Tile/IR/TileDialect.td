//===- TileDialect.td - The tile dialect -------------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_IR_TILEDIALECT_TD
#define ATTN_DIALECT_TILE_IR_TILEDIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::mlir::tile";
  let summary = "Programs over static on-chip tiles";
  let description = [{
    The `tile` dialect says *how*: loops over tiles (`scf`), loads, dots,
    elementwise maps, row reductions and scans on values of static tile type,
    stores, and the host plan that launches such kernels. It is target
    neutral; the passes `convert-tile-to-vector` (CPU) and the GPU passes give
    it registers, caches, shared memory and roles.

    A kernel is a `func.func` with the unit attribute `tile.kernel`; its last
    argument is the linear block index (`index`). A plan is a function that
    holds `tile.launch`.

    `tile.least_power = N : i32` on a `math.exp` or `math.exp2` says that
    results below 2^N may be 0. N is from -150, where nothing is lost, to -100.
  }];
  let extraClassDeclaration = [{
    static constexpr ::llvm::StringLiteral leastPowerName = "tile.least_power";
  }];
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"
  ];
}

#endif // ATTN_DIALECT_TILE_IR_TILEDIALECT_TD
