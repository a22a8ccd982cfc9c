//===- KernelContext.h - What lowerings of a kernel share -------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The walk over a kernel (KernelLowering.h) and the lowerings of its operations
// (Lowerings.h) meet here. Every value becomes the scalars that one thread
// holds of it:
//
//   scalar            itself; index is i64
//   frag, token       its registers: f32, or i32 of two 16-bit floats
//   vec               the elements of the rows or columns of this thread
//   smem              the i32 address of its first byte
//   memref            pointer, sizes, strides
//   tensor_map        a pointer
//   ring, schedule, barrier   nothing: they are known where they are made
//
// Registers of a fragment, with M = 64 or 16 rows to a block (PTX ISA, wgmma
// and mma.m16n8k16): block-major; within a block element i of an accumulator
// lies in row 16 * warp + lane / 4 + 8 * (i / 2 % 2) and column
// 8 * (i / 4) + 2 * (lane % 4) + i % 2. Packed in pairs along the row, those
// are the registers of a 16-bit acc fragment and of an `a` fragment alike. A
// `b` fragment has 2 registers for each 8 columns and 16 rows: column lane / 4,
// rows 2 * (lane % 4) + {0, 1} and 8 further.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEGPUTONVVM_KERNELCONTEXT_H
#define ATTN_LIB_CONVERSION_TILEGPUTONVVM_KERNELCONTEXT_H

#include "Emitter.h"
#include "Positions.h"
#include "attn/Dialect/TileGPU/IR/SharedLayout.h"
#include "attn/Dialect/TileGPU/IR/TileForm.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Target/TargetInfo.h"

namespace attn::gpu {

namespace tg = mlir::tile_gpu;
using mlir::LogicalResult;
using mlir::Operation;

/// What a thread knows of its place in the role that is being lowered.
struct RoleContext {
  tg::RoleOp op;
  tg::Scope scope = tg::Scope::Warp;
  int64_t warps = 0, firstWarp = 0;
  /// Number of the member (warp or warpgroup) and of the warp within it.
  Value member, warpInMember, warpInRole;
  /// The first row of the warp's in a tile of its member, and row and column of
  /// accumulator element 0.
  Value warpRows, row, col;
  /// Whether this is the thread that acts for its member.
  Value elected;
};

/// A shape of registers: how elements of a fragment lie in a thread.
struct FragShape {
  explicit FragShape(tg::FragType type);
  int64_t blocks, colBlocks; // Blocks of M rows, of 8 columns.
  int64_t blockRows;
  /// Rows of a block that a thread has elements of: two that are 8 apart, or
  /// the first of them.
  int64_t rowsOfThread;
  /// Elements of a thread in 8 columns of a block.
  int64_t each() const { return 2 * rowsOfThread; }
  int64_t elements() const { return blocks * colBlocks * each(); }
  int64_t rowKeys() const { return blocks * rowsOfThread; }
  int64_t colKeys() const { return colBlocks * 2; }
  int64_t rowKey(int64_t i) const {
    return i / (colBlocks * each()) * rowsOfThread + i / 2 % rowsOfThread;
  }
  int64_t colKey(int64_t i) const { return i / each() % colBlocks * 2 + i % 2; }
};
int64_t blockRowsOf(tg::Scope scope);
/// How far an element of a column key is from the first column of its thread.
inline int64_t offsetOf(int64_t colKey) { return colKey / 2 * 8 + colKey % 2; }
/// Whether two 16-bit elements share a register.
bool isPacked(tg::FragType type);

/// Elements of 16 bits that have been loaded in pairs, and for each element
/// which half of which word it is.
struct PackedLoad {
  Values words;
  llvm::SmallVector<unsigned> places;
  Type memory;
};

/// What a copy by threads computes from its tensor, its indices but that of the
/// row, and the thread.
struct CopySource {
  /// Bytes from row to row.
  Value rowBytes;
  /// Whether every row starts at a multiple of 16 bytes and is contiguous.
  Value aligned;
  /// The first chunk of this thread below row 0, and its address.
  Value row, chunk, mine;
  /// Of a tensor that goes round, the row where row 0 of the sequence is.
  Value start;
};

/// The kernel that is being lowered, the code made so far, and the role at
/// hand.
class KernelContext {
public:
  KernelContext(tg::KernelOp kernel, const TargetInfo &target);
  virtual ~KernelContext() = default;

  // The walk, for operations that have bodies.
  virtual LogicalResult lowerOp(Operation *op) = 0;
  LogicalResult lowerBlock(mlir::Block &block);
  /// Lowers a body of scalars and says what it yields.
  LogicalResult evaluate(mlir::Block &body, llvm::ArrayRef<Value> arguments,
                         llvm::SmallVectorImpl<Value> &results);

  // Values.
  Values &of(Value value);
  Value scalar(Value value) { return of(value).front(); }
  void set(Value value, Values lowered) { values[value] = std::move(lowered); }
  void flatten(Type type, llvm::SmallVectorImpl<Type> &types);
  Type scalarType(Type type);
  /// Splits flat values by the types they stand for.
  void setAll(ValueRange results, ValueRange flat);
  Values flat(ValueRange operands);
  Type registerType(Type type);
  int64_t registerCount(Type type);
  static int64_t rowOffset(tg::Scope scope, int64_t rowKey);
  Value rowIndex(tg::Scope scope, int64_t rowKey);
  Value colIndex(int64_t colKey);

  // Memory.
  Value address(int64_t offset) { return e.add(sharedBase, offset); }
  /// `offset` and `bytes` times a slot's number.
  Value slotAddress(int64_t offset, int64_t bytes, Value slot);
  Value elementPointer(Value memref, ValueRange indices);

  // Unsigned division of 32 bits.
  Value inverseOf(Value y);
  std::pair<Value, Value> divideUnsigned(Value x, Value y);

  // Barriers.
  /// `ofCluster`: what other blocks wrote before they arrived is seen.
  void waitBarrier(Value barrier, Value phase, bool ofCluster = false);
  /// Where `predicate` is true; without one, in each lane.
  void arrive(Value barrier, Value predicate = Value());
  void fenceProxy();
  void syncWarp();
  void syncMember();
  void syncRole();

  /// A member of the role as threads: how many, and which of them this one is.
  std::pair<int64_t, Value> memberThreads();

  tg::KernelOp kernel;
  const TargetInfo &target;
  Emitter e;
  SharedLayout layout;
  RoleContext role;
  Value sharedBase, thread, warp, lane, lane0;
  /// The grid has one dimension, so a block's z is 0; which the assembler
  /// cannot know.
  Value hiddenZero;
  int64_t threads = 0, cluster = 1;
  llvm::DenseMap<Value, Values> values;
  llvm::DenseMap<Value, PackedLoad> packedLoads;
  /// Inverses of divisors that a loop over work items does not change.
  llvm::DenseMap<Value, Value> inverses;
  /// The full barrier of the slot that an acquired tile belongs to.
  llvm::DenseMap<Value, Value> slotBarriers;
  /// What has been computed ahead of a loop for copies in it.
  llvm::DenseMap<Operation *, CopySource> copySources;
  /// Positions in the body of the map that is being lowered; else null.
  Positions *positions = nullptr;
};

LogicalResult unsupported(Operation *op, const llvm::Twine &expected);

} // namespace attn::gpu

#endif // ATTN_LIB_CONVERSION_TILEGPUTONVVM_KERNELCONTEXT_H
