//===- PipelineCopies.h - Kernels of warps that load for themselves ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pass tile-gpu-pipeline-copies: what it finds out about a kernel
// (PipelineCopies.cpp), and the program of the kernel's one role, whose warps
// copy and compute (PipelineProgram.cpp). A *step* is the work on one tile of
// keys.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_PIPELINECOPIES_H
#define ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_PIPELINECOPIES_H

#include "attn/Dialect/Tile/IR/Tile.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::tile_gpu {

/// The tensor that a load reads, of a source or its own.
Value memoryOf(tile::LoadOp load);

/// The loads that stand at the same place of every step: one tile of a ring's
/// slot.
struct StepTile {
  SmemType tile;
  /// It is needed first in a step, as keys are.
  bool early = false;
  /// Its ring, and its place in a slot.
  unsigned ring = 0, index = 0;
};

/// Tiles of a step that are copied and waited for together.
struct StepRing {
  SmallVector<SmemType> tiles;
  Value ring;
};

/// Queries that all warps of the block take their rows from.
struct QueryRing {
  tile::LoadOp load;
  SmemType tile;
  /// Read into registers once, and not by every product.
  bool registers = false;
  Value ring;
};

/// What the pass has found out about a kernel.
struct CopyPlan {
  /// Rows of the block's tiles, of the blocks of tile.rows, and of a warp.
  int64_t blockQ = 0, rows = 0, warpRows = 0;
  int64_t stages = 2;
  SmallVector<QueryRing> queries;
  SmallVector<StepTile> steps;
  /// With one stage the first ring has the early tiles and the second the
  /// late ones; either may be missing. With more one ring has them all.
  SmallVector<StepRing> rings;
  /// The place of each key or value load.
  DenseMap<Operation *, unsigned> placeOf;
  /// Columns of the widest reduction over the block's rows, 0: there is none.
  int64_t exchangeCols = 0;
  Value exchange, barrier;
  /// Warps that have the same rows divide the steps of the loop `divided`, and
  /// `merge` combines their states. `dividing` is how many they are, 0 if warps
  /// have rows of their own.
  tile::MergeOp merge;
  scf::ForOp divided;
  Value mergeScratch;
  int64_t dividing = 0;

  int64_t warps() const { return dividing ? dividing : blockQ / warpRows; }
  bool isStep(Operation *op) const { return placeOf.contains(op); }
  const StepTile &place(Operation *load) const {
    return steps[placeOf.lookup(load)];
  }
};

/// Builds the role's program from the kernel's body.
class PipelineProgram {
public:
  PipelineProgram(CopyPlan &plan, OpBuilder &b, IRMapping mapping, Value member)
      : plan(plan), b(b), mapping(std::move(mapping)), member(member) {}

  LogicalResult cloneBlock(Block &block);

  /// Columns of the tile through which warps exchange words.
  static int64_t wordColumns(tile::BitsOp op) {
    return llvm::alignTo<8>(op.getNumResults());
  }

  /// Outside of loops: since all warps last met, tiles may have been passed
  /// over, or a slot read.
  bool passesOver = false;

  /// The number of steps so far, which numbers the uses of all rings.
  Value steps;

private:
  LogicalResult cloneFor(scf::ForOp op);
  LogicalResult cloneIf(scf::IfOp op);
  void cloneLoad(tile::LoadOp load);
  /// Starts the copy of queries; they are waited for as late as can be.
  void startQuery(QueryRing &query);
  void takeQueries();
  Value takeRows(Value operand);
  LogicalResult cloneRows(tile::RowsOp rows);
  LogicalResult cloneTileOp(Operation *op);
  /// This warp's steps of a loop that the block's warps divide.
  void divideSteps(Value &lower, Value &step);
  void cloneMerge(tile::MergeOp op);
  /// One of the warps that have the same rows stores them.
  void storeOnce(Operation *store);
  LogicalResult reduceRows(tile::ReduceOp op);
  LogicalResult cloneBits(tile::BitsOp op);
  VecType colVec(int64_t size, Type element);
  Value mapVec(Location loc, ValueRange inputs, Type result,
               function_ref<Value(ValueRange)> body);
  /// Combines vectors of columns to which each warp has its own rows' share;
  /// all warps get the result.
  FailureOr<Value> exchange(Operation *op, Value mine, VecType type,
                            function_ref<Value(Value, Value)> combine);

  void createCopy(tile::LoadOp load, IRMapping &at, ValueRange indices,
                  Value tile, Value from, Value rows);
  /// Starts the copies of one ring's loads into its use `counter`.
  void issue(unsigned ring, ArrayRef<tile::LoadOp> loads, IRMapping &at,
             Value counter);
  /// Waits for a ring's tiles of this step.
  void waitFor(unsigned ring);
  void startStep();
  void continueStep(Location loc);
  void turnInPlace(tile::TurnOp turn);
  /// Starts the copies of the next step into a ring.
  void prefetch(unsigned ring);
  /// Waits for all warps, which then have done their reads.
  void syncWarps(Location loc);

  Type convert(Type type) const;
  Value i32(int64_t value, Location loc) {
    return arith::ConstantIntOp::create(b, loc, value, 32);
  }
  Value toI32(Value value);
  Value memberRow(Location loc, Type type);
  void adjustRow(Operation *op, MutableOperandRange indices, bool vector);
  void takeColumns(tile::DotOp dot);
  Value asTile(Location loc, Value value, Type type) {
    return UnrealizedConversionCastOp::create(b, loc, type, value).getResult(0);
  }

  /// The loop whose copies run ahead: its loads, the operations that compute
  /// their positions, the next position, and whether there is a tile there.
  struct Ahead {
    scf::ForOp loop;
    SmallVector<tile::LoadOp> loads;
    SmallVector<Operation *> slice;
    /// Null for a loop that takes at most one step.
    Value nextPosition, more;
  };
  bool holdsLoopOfSteps(scf::ForOp loop);
  std::optional<Ahead> analyseLoop(scf::ForOp loop);
  /// Positions of the loads where the loop stands at `position`.
  IRMapping at(Ahead &loop, Value position);

  CopyPlan &plan;
  OpBuilder &b;
  IRMapping mapping;
  Value member;
  Ahead *ahead = nullptr;
  /// The loads of the step at hand that have been cloned so far.
  SmallVector<tile::LoadOp> met;
  /// Turns of tiles of the step that have not arrived yet.
  SmallVector<tile::TurnOp> waiting;
  /// Queries that are on their way.
  SmallVector<QueryRing *> started;
};

} // namespace mlir::tile_gpu

#endif // ATTN_LIB_DIALECT_TILEGPU_TRANSFORMS_PIPELINECOPIES_H
