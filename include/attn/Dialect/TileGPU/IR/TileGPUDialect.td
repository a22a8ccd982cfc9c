//===- TileGPUDialect.td - The tile_gpu dialect ------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_IR_TILEGPUDIALECT_TD
#define ATTN_DIALECT_TILEGPU_IR_TILEGPUDIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def TileGPU_Dialect : Dialect {
  let name = "tile_gpu";
  let cppNamespace = "::mlir::tile_gpu";
  let summary = "The GPU target form: fragments, rings, roles and tokens";
  let description = [{
    Rung 4 for GPUs. A kernel is a `tile_gpu.kernel`, which holds the programs of
    its *roles*. Inside a role every operation is executed by the whole warp or
    warpgroup; loops are `scf` and `tile_gpu.foreach`; positions
    and counters are `i32`.

    Values are register fragments whose layout is in the type, views of
    shared-memory tiles, and the tokens of matrix products in flight. Below
    this form lowering is one to one; nothing is scheduled there.

    The same operations carry wgmma + TMA (sm_90a) and mma.sync + cp.async
    (sm_80 and later): the scope of a fragment type and the `fill` of a ring
    choose. Hardware limits are checked against the module's `attn.target` by
    `tile-gpu-verify-budget`; the rules of asynchronous products and of ring slots
    by `tile-gpu-verify-async`.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    /// On the code of a lowered kernel: what its declaration says of launches.
    static constexpr ::llvm::StringLiteral launchName = "tile_gpu.launch";
    /// On an operation of a step: when it runs in the pipelined loop.
    static constexpr ::llvm::StringLiteral stageName = "tile_gpu.stage";
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn::AttnDialect",
    "::mlir::func::FuncDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"
  ];
}

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

class TileGPU_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::tile_gpu";
}

def TileGPU_Layout : TileGPU_Enum<"Layout", "operand that a fragment can be", [
  I32EnumAttrCase<"Acc", 0, "acc">, I32EnumAttrCase<"A", 1, "a">,
  I32EnumAttrCase<"B", 2, "b">]>;
def TileGPU_Scope : TileGPU_Enum<"Scope", "threads that hold a fragment", [
  I32EnumAttrCase<"Warpgroup", 0, "warpgroup">,
  I32EnumAttrCase<"Warp", 1, "warp">]>;
def TileGPU_Axis : TileGPU_Enum<"Axis", "axis of a fragment", [
  I32EnumAttrCase<"Row", 0, "row">, I32EnumAttrCase<"Col", 1, "col">]>;
def TileGPU_Fill : TileGPU_Enum<"Fill", "who makes a ring slot full", [
  I32EnumAttrCase<"Tma", 0, "tma">, I32EnumAttrCase<"CpAsync", 1, "cp_async">,
  I32EnumAttrCase<"Warps", 2, "warps">,
  I32EnumAttrCase<"Exchange", 3, "exchange">,
  I32EnumAttrCase<"CpGroup", 4, "cp_group">,
  I32EnumAttrCase<"States", 5, "states">]>;
def TileGPU_ScheduleKind : TileGPU_Enum<"ScheduleKind",
  "how blocks come by tiles", [
  I32EnumAttrCase<"Grid", 0, "grid">, I32EnumAttrCase<"Static", 1, "static">,
  I32EnumAttrCase<"Dynamic", 2, "dynamic">]>;
def TileGPU_MergeScope : TileGPU_Enum<"MergeScope", "holders of states", [
  I32EnumAttrCase<"Pair", 0, "pair">, I32EnumAttrCase<"Warps", 1, "warps">,
  I32EnumAttrCase<"Cluster", 2, "cluster">]>;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

def TileGPU_LaunchAttr : AttrDef<TileGPU_Dialect, "Launch"> {
  let mnemonic = "launch";
  let summary = "What a launch has to know of a kernel";
  let description = [{
    The threads of a block, the bytes of its dynamic shared memory, and whether
    blocks are `persistent`: no more are started than run at once, and each
    takes several work tiles.

    Example: `#tile_gpu.launch<threads = 384, shared_bytes = 230400,
    persistent = true>`
  }];
  let parameters = (ins "int64_t":$threads, "int64_t":$shared_bytes,
                        DefaultValuedParameter<"bool", "false">:$persistent);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def TileGPU_PlaceAttr : AttrDef<TileGPU_Dialect, "Place"> {
  let mnemonic = "place";
  let summary = "Where the parts of a ring or scheduler lie in shared memory";
  let description = [{
    Bytes from the start of the block's shared memory, written by
    `tile-gpu-allocate-shared`. Of a ring: slot 0 of each of its `tiles`, which
    the other slots follow, and the barriers of slot 0, `full` and `empty`, 8
    bytes apart, where its `fill` has them. Of a dynamic scheduler: the slots in
    which drawn items are handed over, their barriers, and the word through
    which the blocks of a cluster draw, with its barriers.

    Example: `#tile_gpu.place<tiles = [0] full = 65536 empty = 65552>`
  }];
  let parameters = (ins
    OptionalArrayRefParameter<"int64_t", "of slot 0 of each tile">:$tiles,
    DefaultValuedParameter<"int64_t", "-1">:$full,
    DefaultValuedParameter<"int64_t", "-1">:$empty,
    DefaultValuedParameter<"int64_t", "-1">:$drawn,
    DefaultValuedParameter<"int64_t", "-1">:$drawn_full,
    DefaultValuedParameter<"int64_t", "-1">:$drawn_empty);
  let assemblyFormat = [{
    `<` (`tiles` `=` `[` $tiles^ `]`)? (` ` `full` `=` $full^)?
    (` ` `empty` `=` $empty^)? (` ` `drawn` `=` $drawn^)?
    (` ` `drawn_full` `=` $drawn_full^)? (` ` `drawn_empty` `=` $drawn_empty^)?
    `>`
  }];
}

def TileGPU_StageAttr : AttrDef<TileGPU_Dialect, "Stage"> {
  let mnemonic = "stage";
  let summary = "When an operation of a step runs in the pipelined loop";
  let description = [{
    `tile_gpu.stage = #tile_gpu.stage<1, 3>` on an operation of a step over a
    key tile, written by `tile-gpu-assign-stages` (or by hand) and read by
    `tile-gpu-expand-pipeline`. Stage 0 runs in the turn of the loop that the
    step has today, stage 1 in the turn after it; within a turn operations run
    by `order`, those of the previous step's stage 1 among those of this step's
    stage 0.

    The orders of a block are all different. A value is made no later than it
    is used: not in a later stage, and in the same stage earlier in the order.
    What a loop carries from stage 1 to stage 0 of the next step meets it in the
    same turn, and needs the earlier order there. Constants, and scalars without
    the attribute, are made where they are needed.
  }];
  let parameters = (ins "int64_t":$stage, "int64_t":$order);
  let assemblyFormat = "`<` $stage `,` $order `>`";
  let genVerifyDecl = 1;
}

#endif // ATTN_DIALECT_TILEGPU_IR_TILEGPUDIALECT_TD
