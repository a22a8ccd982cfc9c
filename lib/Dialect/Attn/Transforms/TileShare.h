//===- TileShare.h - Building kernels that find shared pages ----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to attn-tile: what TileShare.cpp builds, and for whom.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESHARE_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESHARE_H

#include "KernelBuilder.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mlir::attn {

/// Builds the kernels of an `attn.share`, which run one after the other
/// (TileShare.cpp).
class ShareKernel : public KernelBuilder {
public:
  /// What they write for each other, i32: of each level and sequence [levels,
  /// b] the first sequence with the same page (-1: none), the end of the pages
  /// that both have, whether no other one lies between, and the pages it has
  /// had then; of each group the first of its pages and the sequence whose they
  /// are, and sequences [groups, rows].
  struct Lists {
    Value leader, end, second, base, gain, firstPage, owner, members;
  };
  /// Sizes as the plan has them: sequences of a group, at least 2 or else 0;
  /// rows of a sequence and a key head; and the groups that a level has room
  /// for.
  struct Sizes {
    Value slots, rows, groups;
  };

  ShareKernel(ShareOp op, const ::attn::TargetInfo &target,
              tile::KernelOp kernel, const Lists &lists, const Sizes &sizes)
      : KernelBuilder(op, MonoidOp(), target, kernel), lists(lists),
        sizes(sizes), share(op) {}

  void buildFind(int64_t level, Value counts, Value keys, Value block);
  void buildWeigh(int64_t level, Value block);
  void buildPlace(int64_t level, Value counts, Value keys, Value starts,
                  Value places, Value block);
  void buildGather(Value rows, Value tables, Value counts, Value numTables,
                   Value block);

  /// Entries of a table that a block copies, and channels of rows that it does.
  static constexpr int64_t blockEntries = 32, blockChannels = 64;
  static int64_t countSlices(ShareOp op);

private:
  /// Rows of the tiles that items are spread over.
  static constexpr int64_t itemRows = 128, itemColumns = 32;
  /// Pages that a row compares at once.
  static constexpr int64_t itemsOfRun = 16;
  /// What is asked of each item where places are counted.
  static constexpr int64_t placeTests = 4;
  using Test = std::function<Value(Value)>; // item (i32) -> i1

  void start(Value block);
  Value load(Value list, ValueRange at) {
    return memref::LoadOp::create(b, loc, list, at);
  }
  void store(Value value, Value list, ValueRange at);
  Value both(Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); }
  void branch(Value condition, function_ref<void()> build);
  Value branch(Value condition, Value otherwise, function_ref<Value()> build);
  SmallVector<Value>
  forItems(Value total, int64_t step, ValueRange carried,
           function_ref<SmallVector<Value>(Value, ValueRange)> body);
  SmallVector<Value> bitsOf(Value first, Value total, ArrayRef<Test> tests);
  SmallVector<Value> count(Value total, ArrayRef<Test> tests);
  std::pair<Value, Value> firstOf(Value total, const Test &test);
  Value firstInRuns(Value total, const Test &test);
  Value findCut(int64_t level, Value leader, Value base);
  Value pagesOf(Value sequence);

  Lists lists;
  Sizes sizes;
  ShareOp share;
  Value sequences, sequence;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_TILESHARE_H
