//===- OrderStep.h - Products beside the work of their own step -*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_ORDERSTEP_H
#define ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_ORDERSTEP_H

#include "attn/Dialect/TileGPU/IR/TileGPU.h"

namespace mlir::tile_gpu {

/// Whether a step has so few columns that registers hold more than its products
/// need.
inline bool isShortStep(int64_t columns) { return columns <= 64; }

/// Every wait of the block leaves the products in flight that were issued after
/// its own.
void countPending(Block *block);

/// Issues the products of steps that have no stages beside the work of their
/// own step. With `delay` those of weights that are exchanged leave room for
/// the product of the step before (delaySums). Returns the number of these
/// steps.
unsigned orderSteps(KernelOp kernel, bool delay);

/// Where `user` of a product puts it into a slot that it gives away: what does.
SmallVector<Operation *> handOverOf(Operation *user);

/// Puts products of exchanged weights off to the next step. Returns the number
/// of blocks whose steps do so.
unsigned delaySums(KernelOp kernel);

/// Waits for the slots of short steps that exchange weights where they are
/// read, and gives them back there.
void placeSlots(KernelOp kernel);

} // namespace mlir::tile_gpu

#endif // ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_ORDERSTEP_H
