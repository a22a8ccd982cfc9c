//===- Weights.h - What stands amid a step's weights ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// tile-gpu-assign-stages may put the release of keys, which then names the
// weights, and the wait for a product behind it, right behind the map of the
// weights. A part of these is then computed ahead of both.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CONVERSION_TILEGPUTONVVM_WEIGHTS_H
#define ATTN_CONVERSION_TILEGPUTONVVM_WEIGHTS_H

#include "attn/Dialect/TileGPU/IR/TileGPU.h"

namespace attn::gpu {

/// The weights amid which `op`, a release of keys, and the wait behind it
/// stand; or null.
mlir::tile_gpu::MapOp weightsAround(mlir::Operation *op);
/// Whether the sum that `op` gives is there with what it adds to it.
bool isChained(mlir::tile_gpu::MapOp op);

} // namespace attn::gpu

#endif // ATTN_CONVERSION_TILEGPUTONVVM_WEIGHTS_H
