//===- RunBeside.h - Launches that need nothing of each other ---*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_RUNBESIDE_H
#define ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_RUNBESIDE_H

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tile_gpu {

/// The memory of a plan that an argument of a launch is a view or a map of.
Value findMemory(Value argument);

} // namespace mlir::tile_gpu

namespace attn {

/// Launches of a plan that run at the same time, each in the room that those
/// before leave: small kernels first, which make lists, then the plan's first.
class RunBeside {
public:
  using KernelOf =
      llvm::function_ref<mlir::tile_gpu::KernelOp(mlir::tile_gpu::LaunchOp)>;

  /// Moves launches ahead of the plan's first one that neither need what any
  /// launch before them leaves, nor change what these read.
  RunBeside(mlir::func::FuncOp plan, KernelOf kernelOf);

  /// Lets `launch`, whose waits and that of the one `before` are in place,
  /// start without waiting for the members before it; false where it is none,
  /// or the first.
  bool start(mlir::tile_gpu::LaunchOp before, mlir::tile_gpu::LaunchOp launch,
             KernelOf kernelOf);

private:
  llvm::SmallVector<mlir::tile_gpu::LaunchOp> members;
};

} // namespace attn

#endif // ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_RUNBESIDE_H
