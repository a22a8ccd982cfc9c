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

    A kernel is a `tile.kernel`. A plan is a `func.func` with the unit attribute
    `tile.plan`: it has no results, and launches kernels (`tile.launch`).

    `tile.least_power = N : i32` on a `math.exp` or `math.exp2` says that
    results below 2^N may be 0. N is from -150, where nothing is lost, to -100.
    `tile.approximate` on an `arith.sitofp` says that the result may be off by
    its last bit, on a `tile.dot` that its terms may be added up in any order.
  }];
  let extraClassDeclaration = [{
    static constexpr ::llvm::StringLiteral leastPowerName = "tile.least_power";
    static constexpr ::llvm::StringLiteral approximateName = "tile.approximate";
    static constexpr ::llvm::StringLiteral planName = "tile.plan";
  }];
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn::AttnDialect",
    "::mlir::func::FuncDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"
  ];
}

#endif // ATTN_DIALECT_TILE_IR_TILEDIALECT_TD
