//===- KernelLowering.h - One tile_gpu kernel to the LLVM dialect -*- C++
//-*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One walk over the kernel. Every value becomes the scalars that one thread
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

#ifndef ATTN_LIB_CONVERSION_TILEGPUTONVVM_KERNELLOWERING_H
#define ATTN_LIB_CONVERSION_TILEGPUTONVVM_KERNELLOWERING_H

#include "Emitter.h"
#include "MatrixAccess.h"
#include "Positions.h"
#include "attn/Dialect/Tile/IR/WorkTiles.h"
#include "attn/Dialect/TileGPU/IR/SharedLayout.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

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
  /// Row and column of accumulator element 0.
  Value row, col;
  /// Whether this is the thread that acts for its member.
  Value elected;
};

/// The bit pattern that asks the L2 cache to drop lines first.
inline constexpr int64_t evictFirstPolicy = 0x12F0000000000000;

/// A shape of registers: how elements of a fragment lie in a thread.
struct FragShape {
  explicit FragShape(tg::FragType type);
  int64_t blocks, colBlocks; // Blocks of M rows, of 8 columns.
  int64_t blockRows;
  int64_t elements() const { return blocks * colBlocks * 4; }
  int64_t rowKeys() const { return blocks * 2; }
  int64_t colKeys() const { return colBlocks * 2; }
  int64_t rowKey(int64_t i) const {
    return i / (colBlocks * 4) * 2 + i / 2 % 2;
  }
  int64_t colKey(int64_t i) const { return i / 4 % colBlocks * 2 + i % 2; }
};
int64_t blockRowsOf(tg::Scope scope);
/// How far an element of a column key is from the first column of its thread.
inline int64_t offsetOf(int64_t colKey) { return colKey / 2 * 8 + colKey % 2; }
/// Whether two 16-bit elements share a register.
bool isPacked(tg::FragType type);

/// Reads operand fragments from a tile with ldmatrix, four matrices at a time:
/// a block of an `a` operand in one step of 16 along K, or two blocks of 8
/// columns of a `b` operand in one step.
class OperandLoader {
public:
  OperandLoader(Emitter &e, const RoleContext &role, Value lane,
                tg::SmemType tile, Value base, tg::Layout layout,
                tg::Scope scope);
  Values load(int64_t block, int64_t step, int64_t count) const;

private:
  Emitter &e;
  bool isA, transposing;
  int64_t blockRows;
  std::optional<MatrixAccess> access;
};

/// Reads operands of mma.m16n8k8 from tiles of tf32, or of f32 that it rounds:
/// a block of an `a` operand in one step of 8 along K, or blocks of 8 columns
/// of a `b` operand. Four elements are a row of a matrix of ldmatrix; `b` along
/// its columns is read one by one. The lane's two elements of K are t and t + 4
/// for t = lane % 4, or 2 t and 2 t + 1 with `pairs`, as in accumulators.
class Tf32Loader {
public:
  Tf32Loader(Emitter &e, const RoleContext &role, Value lane, tg::SmemType tile,
             Value base, tg::Layout layout, bool pairs);
  Values load(int64_t block, int64_t step, int64_t count) const;

private:
  Emitter &e;
  bool rounded;
  /// Of whole matrices, of pairs along a row, or of single elements.
  std::optional<OperandLoader> matrices;
  std::optional<MatrixAccess> rows, elements[2];
};

/// Rewrites functions that have no form here by ones that do.
LogicalResult expandMath(mlir::tile_gpu::KernelOp kernel);

class MatrixDescriptor;
class GlobalAccess;

class KernelLowering {
public:
  KernelLowering(mlir::tile_gpu::KernelOp kernel, const TargetInfo &target,
                 mlir::OpBuilder moduleBuilder);

  LogicalResult run();
  int64_t getThreads() const { return threads; }
  int64_t getSharedBytes() const { return layout.getBytes(); }
  bool isPersistent() const { return persistent; }

private:
  // TileGPUToNVVM.cpp: the frame.
  mlir::LLVM::LLVMFuncOp createFunction();
  void initializeBarriers();
  LogicalResult dispatchRoles();
  LogicalResult lowerRole(tg::RoleOp role);
  LogicalResult lowerBlock(mlir::Block &block);
  LogicalResult lowerOp(Operation *op);
  LogicalResult unsupported(Operation *op, const llvm::Twine &expected);
  LogicalResult checkPlace(Operation *op);

  // Values.
  Values &of(Value value);
  Value scalar(Value value) { return of(value).front(); }
  void set(Value value, Values lowered) { values[value] = std::move(lowered); }
  void flatten(Type type, llvm::SmallVectorImpl<Type> &types);
  Type scalarType(Type type);
  /// Splits flat values by the types they stand for.
  void setAll(ValueRange results, ValueRange flat);
  Values flat(ValueRange operands);

  // Control.cpp: loops, branches.
  LogicalResult lowerFor(mlir::scf::ForOp op);
  LogicalResult lowerWhile(mlir::scf::WhileOp op);
  LogicalResult lowerRareBlock(mlir::Block &block);
  LogicalResult lowerIf(mlir::scf::IfOp op);

  // Items.cpp: schedules.
  struct TicketSlot {
    const TicketLayout &layout;
    Value words, full, empty, phase;
  };
  LogicalResult lowerForeach(tg::ForeachOp op);
  LogicalResult lowerSkip(tg::SkipOp op);
  LogicalResult lowerDrawNext(tg::DrawNextOp op);
  struct ItemMath;
  /// The items of the loop at hand.
  mlir::tile::WorkDomain<Value> work;
  Value countItems(tg::SchedulerOp scheduler);
  LogicalResult lowerItem(tg::SchedulerOp scheduler, Value item,
                          ValueRange arguments);
  LogicalResult shareItem(tg::ForeachOp op, Value drawn, Value iteration,
                          Value total, mlir::Block *exit);
  /// Where the warp that draws goes on with the next item; null elsewhere.
  mlir::Block *passOver = nullptr;
  /// The barrier at which a role gives an item's slot back, where it does so in
  /// the loop's body (tile_gpu.draw_next).
  Value taken;
  TicketSlot ticketSlot(tg::SchedulerOp scheduler, Value iteration);
  void giveItem(const TicketSlot &slot, const Values &words);
  Values readItem(const TicketSlot &slot, int64_t size, bool isTaken);
  void appendWords(Value value, Values &words);
  Value fromWords(Type type, llvm::ArrayRef<Value> words);
  Value drawTicket(tg::SchedulerOp scheduler, Value count);
  Value drawItem(tg::SchedulerOp scheduler, Value total);
  Value nextItem(tg::ForeachOp op, Value item, Value total, Value iteration);

  // Clusters.cpp: blocks that share rings and draw together.
  LogicalResult checkCluster();
  Value blockInCluster();
  /// An address in this block's shared memory, in that of another block.
  Value inBlock(Value address, Value block);
  /// `publishes`: what this thread has written before is seen by whom the
  /// arrival reaches.
  void arriveInBlock(Value barrier, Value predicate, bool publishes = false);
  void arriveInCluster(Value barrier);
  void syncCluster();
  Value drawForCluster(tg::SchedulerOp scheduler, Value total, Value iteration);

  // Rings.cpp: rings, barriers, copies.
  Value address(int64_t offset) { return e.add(sharedBase, offset); }
  /// Slot (times `bytes`, added to `offset`) and phase of a use of a ring.
  Value slotAddress(int64_t offset, int64_t bytes, Value slot);
  Value slotOf(const RingLayout &ring, Value counter);
  Value phaseOf(const RingLayout &ring, Value counter);
  /// `ofCluster`: what other blocks wrote before they arrived is seen.
  void waitBarrier(Value barrier, Value phase, bool ofCluster = false);
  /// Where `predicate` is true; without one, in each lane.
  void arrive(Value barrier, Value predicate = Value());
  void fenceProxy();
  void syncWarp();
  void syncMember();
  void syncRole();
  /// A store by a role of warps: lanes may still be reading what was there,
  /// and read what is stored without a barrier.
  LogicalResult seenByWarp(llvm::function_ref<LogicalResult()> store);
  void setTiles(ValueRange tiles, const RingLayout &ring, Value slot);
  LogicalResult lowerAcquire(tg::RingAcquireOp op);
  LogicalResult lowerWait(tg::RingWaitOp op);
  LogicalResult lowerView(tg::RingViewSlotOp op);
  LogicalResult lowerRelease(tg::RingReleaseOp op);
  Value zeroAfter(mlir::ValueRange values, bool isPart);
  LogicalResult lowerCommit(tg::RingCommitOp op);
  LogicalResult lowerRingLoad(tg::RingLoadOp op);
  LogicalResult lowerTensorLoad(tg::RingLoadOp op);
  void lowerPagedLoad(tg::RingLoadOp op);
  /// A copy of one panel of a box: who makes it, to where, and from where.
  struct PanelCopy {
    Value predicate, address;
    Values indices;
  };
  void copyPanel(tg::RingLoadOp op, const PanelCopy &copy);
  // AsyncCopy.cpp.
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
  /// From where a copy's rows count to one of them, in bytes.
  Value rowOffset(tg::RingLoadOp op, const CopySource &from, Value position);
  Value planeOf(tg::RingLoadOp op);
  CopySource copySource(tg::RingLoadOp op);
  void prepareCopies(mlir::scf::ForOp loop);
  void roundCopied(tg::SmemType tile, Value base);
  void copyElements(tg::RingLoadOp op);
  class AsyncLoad;
  LogicalResult lowerAsyncLoad(tg::RingLoadOp op);
  LogicalResult lowerExchange(tg::ExchangeOp op);
  LogicalResult lowerBulkStore(tg::BulkStoreOp op);
  LogicalResult lowerBulkReduce(tg::BulkReduceOp op);
  LogicalResult lowerBulkWait(tg::BulkWaitOp op);
  LogicalResult lowerBarrier(Operation *op, Value barrier, Value member);
  /// Lets the last member open the first turn of each barrier of turns.
  void openTurns(tg::RoleOp role);
  /// Lets member 0 take the last turn that was passed: none is left behind.
  void closeTurns(tg::RoleOp role);
  void turnAtEdge(tg::RoleOp role, bool isOpening);

  // Memory.cpp: views, fragments and vectors in memory.
  LogicalResult lowerSlice(tg::SmemSliceOp op);
  LogicalResult lowerClearRows(tg::SmemClearRowsOp op);
  LogicalResult lowerSmemRamp(tg::SmemRampOp op);
  LogicalResult lowerSmemMap(tg::SmemMapOp op);
  LogicalResult lowerSmemTurn(tg::SmemTurnOp op);
  LogicalResult lowerFragLoad(tg::FragLoadOp op);
  LogicalResult lowerFragStore(tg::FragStoreOp op);
  LogicalResult lowerVecLoad(tg::VecLoadOp op);
  LogicalResult lowerVecStore(tg::VecStoreOp op);
  /// Stores 16-bit registers of an acc or a fragment into a tile.
  LogicalResult storeFragment(Operation *op, tg::FragType frag,
                              const Values &registers, tg::SmemType tile,
                              Value base, bool transposed);
  LogicalResult lowerGlobalLoad(tg::GlobalLoadOp op);
  LogicalResult lowerGlobalWrite(Operation *op, Value value, Value destination,
                                 ValueRange indices, Value rows,
                                 bool transposed, int64_t permuted,
                                 bool reduce);
  LogicalResult lowerReduceInMemory(tg::GlobalReduceOp op);
  LogicalResult lowerBlockTurnWait(tg::BlockTurnWaitOp op);
  LogicalResult lowerBlockTurnPass(tg::BlockTurnPassOp op);
  /// The same of rows and columns in another order (PermutedLanes.cpp).
  LogicalResult loadPermuted(tg::GlobalLoadOp op, GlobalAccess &access);
  LogicalResult storePermuted(Operation *op, Value value,
                              mlir::MemRefType memref, int64_t neighbours,
                              GlobalAccess &access);
  LogicalResult lowerStoreBits(tg::GlobalStoreBitsOp op);
  Value inverseOf(Value y);
  std::pair<Value, Value> divideUnsigned(Value x, Value y);
  /// Inverses of divisors that a loop over work items does not change.
  llvm::DenseMap<Value, Value> inverses;
  LogicalResult hoistScalars(tg::ForeachOp op, bool isHandedOver);
  Value elementPointer(Value memref, ValueRange indices);

  // Maps.cpp: elementwise functions.
  class MapLowering;
  /// Positions in the body of the map that is being lowered; else null.
  Positions *positions = nullptr;
  LogicalResult lowerMap(tg::MapOp op);

  // Registers.cpp: fragments, bodies and reductions.
  LogicalResult lowerReduce(tg::ReduceOp op);
  LogicalResult lowerFill(tg::FragFillOp op);
  LogicalResult lowerConvert(tg::FragConvertOp op);
  LogicalResult lowerPad(tg::FragPadOp op);
  LogicalResult lowerMerge(tg::MergeStatesOp op);
  /// Merges a second state into a first one.
  LogicalResult mergeInto(tg::MergeStatesOp op,
                          llvm::MutableArrayRef<Values> stats,
                          llvm::ArrayRef<Values> otherStats,
                          llvm::MutableArrayRef<Values> values,
                          llvm::ArrayRef<Values> otherValues,
                          mlir::TypeRange valueTypes);
  // Scans.cpp: a state is one value for each input.
  using State = llvm::SmallVector<Value, 2>;
  LogicalResult combine(mlir::Block &body, State &left, const State &right);
  /// Scans the elements that a thread and its quad hold of a row; `results`
  /// may be empty where only the total is wanted.
  LogicalResult scanRow(mlir::Block &body, llvm::ArrayRef<State> row,
                        const State &identity, bool reverse,
                        llvm::MutableArrayRef<State> results, State &total);
  LogicalResult lowerScan(tg::ScanOp op);
  LogicalResult lowerOrderedReduce(tg::ReduceOp op);
  LogicalResult lowerAny(tg::AnyOp op);
  LogicalResult lowerVecElements(tg::VecElementsOp op);
  LogicalResult evaluate(mlir::Block &body, llvm::ArrayRef<Value> arguments,
                         llvm::SmallVectorImpl<Value> &results);
  Value rowIndex(tg::Scope scope, int64_t rowKey);
  Value colIndex(int64_t colKey);
  Type registerType(Type type);
  int64_t registerCount(Type type);

  // Products.cpp: matrix products.
  Value descriptorLow(Value address, uint64_t bits);
  Value descriptorAt(const MatrixDescriptor &descriptor, Value address);
  LogicalResult lowerIssue(tg::MmaIssueOp op);
  Value rampParts(Value x);
  LogicalResult lowerMmaWait(tg::MmaWaitOp op);
  struct ProductOperands;
  ProductOperands operandsOf(tg::MmaSyncOp op);
  ProductOperands tf32OperandsOf(tg::MmaSyncOp op);
  LogicalResult lowerMmaSync(tg::MmaSyncOp op);
  LogicalResult lowerMultiplyAdd(tg::MmaSyncOp op);

  // Scalars.cpp, Math.cpp.
  class ScalarLowering;
  LogicalResult lowerScalar(Operation *op);
  LogicalResult lowerMemory(Operation *op);
  LogicalResult lowerMath(Operation *op);

  mlir::tile_gpu::KernelOp kernel;
  const TargetInfo &target;
  mlir::OpBuilder moduleBuilder;
  Emitter e;
  SharedLayout layout;
  RoleLayout placement;
  mlir::LLVM::LLVMFuncOp function;
  llvm::DenseMap<Value, Values> values;
  /// Elements of 16 bits that have been loaded in pairs, and for each element
  /// which half of which word it is.
  struct PackedLoad {
    Values words;
    llvm::SmallVector<unsigned> places;
    Type memory;
  };
  llvm::DenseMap<Value, PackedLoad> packedLoads;
  /// The full barrier of the slot that an acquired tile belongs to.
  llvm::DenseMap<Value, Value> slotBarriers;
  llvm::DenseMap<Operation *, CopySource> copySources;
  RoleContext role;
  Value sharedBase, thread, warp, lane, lane0;
  /// The grid has one dimension, so a block's z is 0; which the assembler
  /// cannot know.
  Value hiddenZero;
  int64_t threads, cluster = 1;
  bool persistent = false;
};

} // namespace attn::gpu

#endif // ATTN_LIB_CONVERSION_TILEGPUTONVVM_KERNELLOWERING_H
