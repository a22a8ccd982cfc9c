//===- PlanBuilder.h - From functions to plans ------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to attn-tile: a function on tensors becomes a plan on memrefs
// (Tile.cpp), reductions become kernels and their launches
// (PlanReductions.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_PLANBUILDER_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_PLANBUILDER_H

#include "PlanRows.h"
#include "TileKernel.h"
#include "attn/Dialect/Attn/IR/Scan.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::attn {

/// Rewrites one function into a plan with its kernels.
class PlanBuilder {
public:
  PlanBuilder(func::FuncOp func, const ::attn::TargetInfo &target)
      : func(func), target(target), b(func.getContext()) {}
  LogicalResult run();

private:
  static Type convert(Type type);
  LogicalResult convertOp(Operation *op);
  LogicalResult convertReduction(ReductionOpInterface op);
  /// The rows of a tensor, as `source` has them.
  PlanRows rowsOf(Location loc, const Source &source, Value tensor);
  Value countQueryTiles(ReductionOpInterface op, Value rows);
  /// What kernels do with the marks of rows (TileRepair.cpp), which are the
  /// last of their outputs.
  enum class Marks { none, written, read };
  /// Gives a kernel its marks, and returns its other outputs.
  static ArrayRef<Value> takeMarks(ReductionContext &builder,
                                   ArrayRef<Value> outputs, Marks marks);
  /// The heads that lists of keys are made for, of `heads` that are reduced.
  Value headsOfLists(ReductionOpInterface op, Value heads);
  /// Whether `factor` of a score is at most what a fixed anchor bears (i1).
  Value isSmallScore(ReductionOpInterface op, MonoidOp monoid, Value factor);
  /// Kernels for query tiles of `heads` heads and their launches; heads are
  /// packed where there are views of the queries and outputs for that.
  LogicalResult convertRows(ReductionOpInterface op, MonoidOp monoid,
                            Value batches, Value heads, Value numTiles,
                            ValueRange outputs, Marks marks,
                            ValueRange packedQueries = {});
  /// The same where heads are packed, in runs whose strides allow it:
  /// `numTiles` becomes that of the other runs, or null where these kernels are
  /// for all runs.
  LogicalResult convertPackedHeads(ReductionOpInterface op, MonoidOp monoid,
                                   Value batches, HeadCounts counts,
                                   ArrayRef<Value> outputs, Marks marks,
                                   Value &numTiles);
  Value sectionOf(ReductionOpInterface op, Value batches, Value heads);
  Value countBlocks(ReductionOpInterface op, Value batches, Value heads,
                    Value numTiles);
  /// Launches the kernel that turns the queries or the keys of a reduction
  /// (TurnRows.cpp). Returns where it writes them, or null where they stay.
  Value turnRows(ReductionOpInterface op, bool ofQueries);
  /// Appends the distances from which on scores have the same terms, which a
  /// kernel of its own finds, to a kernel's arguments, if they are measured.
  bool measureDistances(ReductionOpInterface op, MonoidOp monoid, Value batches,
                        Value heads, SmallVectorImpl<Value> &extra);
  SmallVector<Value> makeKeyLists(ReductionOpInterface op, Value batches,
                                  Value heads, Value numTiles);
  void convertLists(ReductionOpInterface op, MonoidOp monoid, Value batches,
                    Value heads, ArrayRef<Value> extra,
                    ValueRange packedQueries, bool readsKeys);
  LogicalResult convertStates(Operation *op, FlatSymbolRefAttr monoidRef);
  /// Whether a kernel is made for many parts beside that for few.
  bool dividesParts(CombineOp combine, Value states);
  void packStates(CombineOp combine, MutableArrayRef<Value> sizes,
                  MutableArrayRef<Value> outputs);
  void convertAppend(AppendOp op);
  void convertShare(ShareOp op);
  LogicalResult convertScan(ScanOp op);
  /// On CPUs (TileScanParts.cpp).
  LogicalResult convertScanPartial(ScanPartialOp op);
  LogicalResult convertScanCombine(ScanCombineOp op);
  void launchScan(ScanOp op, ValueRange outputs, Value sequences, Value blocks,
                  Value heads);
  void launchScanTokens(ScanOp op, ValueRange outputs, Value blocks,
                        Value heads);
  LogicalResult convertFused(FusedOp op);
  /// On CPUs (TileUnfold.cpp).
  LogicalResult convertUnfold(UnfoldOp op);
  LogicalResult convertFusedOnGpu(FusedOp op, ArrayRef<FusedOp::Term> terms);
  LogicalResult convertApart(AggregateOp overKeys, AggregateOp overQueries,
                             ScheduleAttr schedule,
                             SmallVectorImpl<Value> &results,
                             SmallVectorImpl<Value> &outputs);
  RowSum makeRowSum(const FusedOp::Term &term, Value result,
                    ArrayRef<Value> sizes, bool takesTurns);
  void launchRowSums(AggregateOp op, MonoidOp monoid, ArrayRef<Value> sizes,
                     const RowSum &sum, bool clears);
  /// Memory for a result: an output argument of the plan, dense workspace of
  /// `sizes` (of its dimensions; those that are static may be missing at the
  /// end), or null where it has no use and need not be stored.
  Value makeOutput(OpResult result, function_ref<SmallVector<Value>()> sizes,
                   bool storeAll);
  /// The same for all results of `op`.
  void makeOutputs(Operation *op, ArrayRef<Value> sizes, bool storeAll,
                   SmallVectorImpl<Value> &outputs);
  /// Starts a kernel whose arguments are the operands of `op`, `outputs`,
  /// `extra` and the block.
  struct Kernel {
    tile::KernelOp func;
    SmallVector<Value> launchArguments;
    SmallVector<Value> operands; // of the op, as bound
    SmallVector<Value> outputs, extra;
    Value block;
  };
  Kernel startKernel(Operation *op, ValueRange operands, ValueRange outputs,
                     ValueRange extra, ScheduleAttr schedule);
  /// Launches a kernel, with blocks where `launchWhere` says so.
  void launch(Location loc, Kernel &kernel, Value grid);
  /// The number of parts in the plan.
  Value countParts(PartialOp op);
  /// A value of the score region of `op` in the plan, from constants and scalar
  /// captures.
  Value inPlan(ReductionOpInterface op, Value value);

  Value index(int64_t value, Location loc) {
    return arith::ConstantIndexOp::create(b, loc, value);
  }

  func::FuncOp func, plan;
  const ::attn::TargetInfo &target;
  OpBuilder b;
  IRMapping mapping;
  /// Output arguments of the plan by the value that is returned.
  llvm::DenseMap<Value, Value> returned;
  /// Queries and keys of the reduction at hand, where a kernel turned them.
  Value turnedQueries, turnedKeys;
  /// Where kernels are to run (i1), or null for everywhere.
  Value launchWhere;
  unsigned numKernels = 0;
  /// The plan or the last of its kernels.
  Operation *lastFunc = nullptr;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_PLANBUILDER_H
