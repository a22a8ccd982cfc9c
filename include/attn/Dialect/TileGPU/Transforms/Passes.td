//===- Passes.td - Passes over the tile_gpu dialect --------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All of them, in the files of what they are about.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_TRANSFORMS_PASSES_TD
#define ATTN_DIALECT_TILEGPU_TRANSFORMS_PASSES_TD

include "attn/Dialect/TileGPU/Transforms/KernelPasses.td"
include "attn/Dialect/TileGPU/Transforms/PipelinePasses.td"
include "attn/Dialect/TileGPU/Transforms/VerifyPasses.td"

#endif // ATTN_DIALECT_TILEGPU_TRANSFORMS_PASSES_TD
