//===- GuessItem.h - An item that memory finds, told ahead ------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_GUESSITEM_H
#define ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_GUESSITEM_H

#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

namespace attn {

/// What a block's first item is where its search waits, since it reads memory:
/// told ahead of that wait, past caches, as what ran before has left memory so
/// far.
class ItemGuess {
public:
  ItemGuess(mlir::tile_gpu::KernelOp kernel,
            mlir::tile_gpu::WaitDependenciesOp wait);

  /// A loop over the first item of a block, whose body is only a yield of what
  /// it begins with.
  mlir::tile_gpu::ForeachOp createLoop(mlir::OpBuilder &b,
                                       mlir::ValueRange initial);
  void eraseLoop();
  /// A value of the search, or of a loop over its items, of this one, made at
  /// `b`; null if it cannot be told: memory may hold anything yet, so that what
  /// it says may be the place of another read within bounds alone.
  mlir::Value guess(mlir::OpBuilder &b, mlir::Value value,
                    mlir::IRMapping &known);
  /// The end of the keys of a loop, and of those that go on behind it.
  mlir::Value guessEnd(mlir::OpBuilder &b, mlir::scf::ForOp steps,
                       mlir::IRMapping &known);
  /// The reads that guesses took so far.
  llvm::ArrayRef<mlir::memref::LoadOp> getReads() const { return reads; }

private:
  bool isBounded(mlir::Value index) const;

  mlir::tile_gpu::KernelOp kernel;
  mlir::tile_gpu::WaitDependenciesOp wait;
  mlir::tile_gpu::SchedulerOp scheduler, first;
  mlir::tile_gpu::ForeachOp item;
  llvm::SmallVector<mlir::memref::LoadOp> reads;
  /// What depends on them.
  llvm::DenseSet<mlir::Value> told;
};

/// Loops that go on where the one before ends, from `steps` on.
llvm::SmallVector<mlir::scf::ForOp> listLoops(mlir::scf::ForOp steps);

/// Lets a loop over items carry one more value, which is `later` from the
/// second item on.
mlir::Value carry(mlir::OpBuilder &b, mlir::tile_gpu::ForeachOp &items,
                  mlir::Value first, mlir::Value later);

} // namespace attn

#endif // ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_GUESSITEM_H
