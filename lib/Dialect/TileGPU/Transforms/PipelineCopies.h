//===- PipelineCopies.h - Kernels of warps that load for themselves -*- C++
//-*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// tile-pipeline-copies: what is known of a kernel (PipelineCopies.cpp) and the
// program of its one role (PipelineProgram.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_PIPELINECOPIES_H
#define ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_PIPELINECOPIES_H

#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::tile_gpu {

/// A ring that the loads at one place of every step go through.
struct StepRing {
  SmemType tile;
  /// Needed first in a step: keys. Their copies run one tile ahead.
  bool early = false;
  Value ring;
};

/// Queries that all warps of the block take their rows from.
struct QueryRing {
  tile::LoadOp load;
  SmemType tile;
  /// Read into registers once, or by every product.
  bool registers = false;
  Value ring;
};

/// What the pass has found out about a kernel.
struct CopyPlan {
  /// Rows of the block's tiles, of the blocks of tile.rows, and of a warp.
  int64_t blockQ = 0, rows = 0, warpRows = 0;
  int64_t stages = 2;
  SmallVector<QueryRing> queries;
  SmallVector<StepRing> steps;
  /// The ring of each key or value load.
  DenseMap<Operation *, unsigned> ringOf;
  /// Columns of the widest reduction over the block's rows, 0: there is none.
  int64_t exchangeCols = 0;
  Value exchange, barrier;

  int64_t warps() const { return blockQ / warpRows; }
  bool isStep(Operation *op) const { return ringOf.contains(op); }
};

/// Builds the role's program from the kernel's body.
class PipelineProgram {
public:
  PipelineProgram(CopyPlan &plan, OpBuilder &b, IRMapping mapping, Value member)
      : plan(plan), b(b), mapping(std::move(mapping)), member(member) {}

  LogicalResult cloneBlock(Block &block);

  /// The number of steps so far, which numbers the uses of all rings.
  Value steps;

private:
  LogicalResult cloneFor(scf::ForOp op);
  LogicalResult cloneIf(scf::IfOp op);
  void cloneLoad(tile::LoadOp load);
  void cloneQuery(QueryRing &query);
  LogicalResult cloneRows(tile::RowsOp rows);
  LogicalResult cloneTileOp(Operation *op);
  LogicalResult reduceRows(tile::ReduceOp op);

  /// Starts the copy of a load into use `counter` of its ring.
  void issue(tile::LoadOp load, IRMapping &at, Value counter);
  Value waitFor(tile::LoadOp load);
  void release(tile::LoadOp load, ArrayRef<Value> results);
  void prefetch(tile::LoadOp load);

  Type convert(Type type) const;
  Value i32(int64_t value, Location loc) {
    return arith::ConstantIntOp::create(b, loc, value, 32);
  }
  Value toI32(Value value);
  Value memberRow(Location loc, Type type);
  void adjustRow(Operation *op, MutableOperandRange indices, bool vector);
  Value asTile(Location loc, Value value, Type type) {
    return UnrealizedConversionCastOp::create(b, loc, type, value).getResult(0);
  }

  /// The loop whose copies run ahead: its loads, what computes their
  /// positions, and whether there is a next tile.
  struct Ahead {
    scf::ForOp loop;
    SmallVector<tile::LoadOp> loads;
    SmallVector<Operation *> slice;
    Value nextPosition, more;
    bool started = false;
  };
  std::optional<Ahead> analyseLoop(scf::ForOp loop);
  /// Positions of the loads where the loop stands at `position`.
  IRMapping at(Ahead &loop, Value position);
  void startStep();

  CopyPlan &plan;
  OpBuilder &b;
  IRMapping mapping;
  Value member;
  Ahead *ahead = nullptr;
};

} // namespace mlir::tile_gpu

#endif // ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_PIPELINECOPIES_H
