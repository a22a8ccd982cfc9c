//===- TileGPUAttrs.td - Attributes of the tile_gpu dialect -*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_IR_TILEGPUATTRS_TD
#define ATTN_DIALECT_TILEGPU_IR_TILEGPUATTRS_TD

include "attn/Dialect/TileGPU/IR/TileGPUDialect.td"

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

#endif // ATTN_DIALECT_TILEGPU_IR_TILEGPUATTRS_TD
