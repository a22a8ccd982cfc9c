//===- Costs.cpp - What each operation takes ------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Instructions of each warp, as the lowering makes them: what depends on a row
// or column alone is computed once for it. Rates are the target's.
//===----------------------------------------------------------------------===//

#include "Models.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
namespace emulator = ::attn::emulator;
using namespace ::attn::emulator;
using ::attn::GpuRates;
using ::attn::MmaShape;
using ::attn::TargetInfo;

static int64_t threadsOf(tg::Scope scope) {
  return scope == tg::Scope::Warpgroup ? TargetInfo::warpgroupThreads
                                       : TargetInfo::warpThreads;
}
static int64_t rowsOf(tg::Scope scope) {
  return scope == tg::Scope::Warpgroup ? MmaShape::warpgroup().m
                                       : MmaShape::warp().m;
}

namespace {
/// What one thread holds: elements, and rows and columns that they are of.
struct Held {
  int64_t elements = 0, rows = 0, cols = 0;
};
/// Which of these a scalar in a body is computed for.
enum Dependence : unsigned { OnNothing = 0, OnRow = 1, OnCol = 2, OnBoth = 3 };
using Dependences = llvm::DenseMap<Value, unsigned>;
} // namespace

static Held heldOf(Type type) {
  if (auto frag = dyn_cast<tg::FragType>(type))
    return {frag.getRows() * frag.getCols() / threadsOf(frag.getScope()),
            std::max<int64_t>(2 * frag.getRows() / rowsOf(frag.getScope()), 1),
            std::max<int64_t>(frag.getCols() / 8, 1) * 2};
  auto vec = cast<tg::VecType>(type);
  if (vec.getAxis() == tg::Axis::Row) {
    int64_t rows =
        std::max<int64_t>(2 * vec.getSize() / rowsOf(vec.getScope()), 1);
    return {rows, rows, 1};
  }
  int64_t cols = std::max<int64_t>(vec.getSize() / 8, 1) * 2;
  return {cols, 1, cols};
}

static ScalarCost costOfScalar(Operation &op) {
  if (auto scalar = scalarOpOf(&op))
    return scalar->cost;
  // Addresses of memory, or a branch.
  return op.hasTrait<OpTrait::ConstantLike>() ? ScalarCost{}
                                              : ScalarCost{0, 2, 0};
}

/// Registers that an operation reads each time: what changes as seldom as rows
/// or columns do is there from the time before.
static int64_t readsOf(Operation &op, unsigned on, const Dependences &known) {
  int64_t often = llvm::count_if(op.getOperands(), [&](Value operand) {
    return known.lookup(operand) == on && !matchPattern(operand, m_Constant());
  });
  return std::max<int64_t>(often, 1);
}

/// Adds what a body takes for what a thread holds.
static void addBody(Block &block, const Held &held, const GpuRates &rates,
                    Dependences known, OpCost &cost) {
  llvm::DenseMap<Value, Cycles> depth;
  Cycles longest = 0;
  for (Operation &op : block.without_terminator()) {
    unsigned on = OnNothing;
    Cycles from = 0;
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands()) {
        on |= known.lookup(operand);
        from = std::max(from, depth.lookup(operand));
      }
    });
    ScalarCost one = costOfScalar(op);
    if (op.getNumRegions()) {
      on = OnBoth;
      op.walk([&](Operation *inner) {
        ScalarCost part = costOfScalar(*inner);
        one.fma += part.fma;
        one.alu += part.alu;
        one.special += part.special;
      });
    }
    // A product that only a sum takes is one instruction with it.
    bool isFused =
        isa<arith::MulFOp>(op) && op.getResult(0).hasOneUse() &&
        isa<arith::AddFOp, arith::SubFOp>(*op.getResult(0).getUsers().begin());
    if (isFused)
      one = {};
    int64_t reads = readsOf(op, on, known);
    if (isFused)
      // The product itself, which the sum has among its operands, is not read.
      --reads;
    else if (int64_t instructions = one.fma + one.alu + one.special)
      // Each of several reads what the one before it has left.
      reads += instructions - 1;
    else
      reads = 0;
    // The reciprocal of a divisor that elements share.
    bool isShared = isa<arith::DivFOp>(op) && on == OnBoth &&
                    known.lookup(op.getOperand(1)) != OnBoth;
    int64_t times = on == OnBoth  ? held.elements
                    : on == OnRow ? held.rows
                    : on == OnCol ? held.cols
                                  : 1;
    cost.fma += one.fma * times;
    cost.alu += one.alu * times;
    cost.special += one.special * (isShared ? held.rows : times);
    cost.reads += reads * times;
    Cycles takes = (one.fma + one.alu) * rates.arithmeticLatency +
                   (one.special ? rates.specialLatency : 0);
    for (Value result : op.getResults()) {
      known[result] = on;
      depth[result] = from + takes;
    }
    longest = std::max(longest, from + takes);
  }
  cost.latency += longest;
}

OpCost emulator::costOf(tg::MapOp op, const TargetInfo &target) {
  OpCost cost;
  Block &body = op.getBody().front();
  Dependences known;
  known[body.getArgument(0)] = OnRow;
  known[body.getArgument(1)] = OnCol;
  Held held;
  for (Type type :
       llvm::concat<Type>(llvm::to_vector(op.getInputs().getTypes()),
                          llvm::to_vector(op.getResultTypes())))
    if (isa<tg::FragType>(type) || !held.elements)
      held = heldOf(type);
  for (auto [input, argument] :
       llvm::zip_equal(op.getInputs(), body.getArguments().drop_front(2))) {
    auto vec = dyn_cast<tg::VecType>(input.getType());
    known[argument] = !vec                             ? OnBoth
                      : vec.getAxis() == tg::Axis::Row ? OnRow
                                                       : OnCol;
  }
  addBody(body, held, target.rates, known, cost);
  // Results of 16 bits are packed in pairs.
  for (Type type : op.getResultTypes())
    if (auto frag = dyn_cast<tg::FragType>(type))
      if (frag.getElementType().isBF16() || frag.getElementType().isF16()) {
        cost.alu += held.elements / 2;
        cost.reads += held.elements;
      }
  return cost;
}

OpCost emulator::costOf(tg::FragConvertOp op, const TargetInfo &target) {
  OpCost cost;
  tg::FragType type = op.getResult().getType();
  cost.alu = type.getRegisters();
  cost.reads = heldOf(type).elements;
  cost.latency = target.rates.arithmeticLatency;
  // Right operands are transposed, eight rows and columns at a time.
  if (type.getLayout() == tg::Layout::B)
    cost.shuffles = type.getRegisters();
  return cost;
}

/// Registers are renamed, or are constants of what uses them.
OpCost emulator::costOf(tg::FragCopyOp op, const TargetInfo &) {
  OpCost cost;
  cost.issue = heldOf(op.getResult().getType()).elements;
  return cost;
}
OpCost emulator::costOf(tg::FragFillOp, const TargetInfo &) { return {}; }
OpCost emulator::costOf(tg::FragPadOp, const TargetInfo &) { return {}; }
OpCost emulator::costOf(tg::FragColsOp, const TargetInfo &) { return {}; }

OpCost emulator::costOf(tg::ReduceOp op, const TargetInfo &target) {
  OpCost cost, one;
  const GpuRates &rates = target.rates;
  Type from = op.getInputs()[0].getType();
  auto vec = cast<tg::VecType>(op.getResult(0).getType());
  bool byRow = vec.getAxis() == tg::Axis::Row;
  Held held = heldOf(from), keys = heldOf(vec);
  addBody(op.getBody().front(), {1, 1, 1}, rates, Dependences(), one);
  auto combine = [&](int64_t times, int64_t deep) {
    cost.fma += one.fma * times;
    cost.alu += one.alu * times;
    cost.special += one.special * times;
    cost.reads += one.reads * times;
    cost.latency += one.latency * deep;
  };
  cost.isReduction = true;
  // Four chains for each row, and then these.
  if (int64_t members = held.elements / keys.elements; members > 1)
    combine(held.elements - keys.elements, (members + 3) / 4 + 1);
  if (vec.getPartial())
    return cost;
  // Across the four lanes of a row, the eight of a column; a warpgroup's
  // columns go through all of its warps.
  int64_t rounds = byRow ? 2 : 3;
  int64_t states = int64_t(op.getInputs().size());
  combine(rounds * keys.elements, rounds);
  cost.shuffles += rounds * keys.elements * states;
  cost.latency += rounds * rates.shuffleLatency;
  return cost;
}

OpCost emulator::costOf(tg::ScanOp op, const TargetInfo &target) {
  OpCost cost;
  const GpuRates &rates = target.rates;
  Held held = heldOf(op.getInputs()[0].getType());
  // What each thread holds twice, and two exchanges for each pair of columns.
  addBody(op.getBody().front(), {1, 1, 1}, rates, Dependences(), cost);
  for (int64_t *count : {&cost.fma, &cost.alu, &cost.special, &cost.reads})
    *count *= 2 * held.elements;
  cost.shuffles = held.elements * int64_t(op.getInputs().size());
  cost.latency *= held.cols;
  cost.latency += 2 * rates.shuffleLatency;
  cost.isReduction = true;
  return cost;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

static Type elementOf(Value value) {
  if (auto tile = dyn_cast<tg::SmemType>(value.getType()))
    return tile.getElementType();
  return cast<tg::FragType>(value.getType()).getElementType();
}

static int64_t ceilDiv(int64_t x, int64_t y) { return (x + y - 1) / y; }

/// A step m64nNk16 takes as long as its multiplications, or as its operands
/// take to come from shared memory: B, and A where that is a tile.
OpCost emulator::costOf(tg::MmaIssueOp op, const TargetInfo &target) {
  OpCost cost;
  const GpuRates &rates = target.rates;
  MmaShape unit = MmaShape::warpgroup();
  tg::TokenType sums = op.getToken().getType();
  tg::SmemType right = op.getB().getType();
  // Of half of a block's rows the product is whole.
  int64_t blocks = ceilDiv(sums.getRows(), unit.m);
  int64_t cols = op.getLiveWidth().value_or(sums.getCols());
  int64_t steps = op.getLiveDepth().value_or(right.getRows()) / unit.k;
  int64_t elementBytes = right.getElementBytes();
  int64_t rightBytes = unit.k * cols * elementBytes;
  int64_t leftBytes = isa<tg::SmemType>(op.getA().getType())
                          ? unit.m * unit.k * elementBytes
                          : 0;
  auto add = [&](int64_t times, int64_t bytes) {
    int64_t flops = 2 * unit.m * cols * unit.k;
    int64_t cycles =
        std::max(ceilDiv(flops, std::max<int64_t>(rates.groupFlops, 1)),
                 ceilDiv(bytes, rates.sharedBytes));
    cost.tensorCycles += times * cycles;
    cost.groupFlops += times * flops;
    cost.operandBytes += times * bytes;
    // An instruction, and the descriptors.
    cost.issue += times * 3;
  };
  add(blocks * steps, leftBytes + rightBytes);
  // The left operand; of sums, one for each cycle is counted where that is.
  if (auto left = dyn_cast<tg::FragType>(op.getA().getType()))
    cost.reads = left.getRegisters();
  if (op.getRamp())
    add(blocks, rightBytes);
  return cost;
}

OpCost emulator::costOf(tg::MmaSyncOp op, const TargetInfo &target) {
  OpCost cost;
  const GpuRates &rates = target.rates;
  tg::FragType sums = op.getResult().getType();
  auto depthOf = [](Value a) {
    if (auto tile = dyn_cast<tg::SmemType>(a.getType()))
      return tile.getCols();
    return cast<tg::FragType>(a.getType()).getCols();
  };
  int64_t depth = depthOf(op.getA());
  int64_t products = sums.getRows() * sums.getCols() * depth;
  Type left = elementOf(op.getA()), right = elementOf(op.getB());
  bool isTf32 = right.isTF32();
  auto frag = dyn_cast<tg::FragType>(op.getA().getType());
  bool pairs = frag && frag.getLayout() == tg::Layout::Acc;
  if (auto tile = dyn_cast<tg::SmemType>(op.getB().getType()))
    // Along K without pairs, rows of matrices are four elements.
    cost.loads += isTf32 && (pairs || !tile.getTransposed())
                      ? tf32Cost(tile, pairs)
                      : matrixCost(tile, tile.getRows(), tile.getCols());
  if (auto tile = dyn_cast<tg::SmemType>(op.getA().getType()))
    cost.loads += matrixCost(tile, tile.getRows(), tile.getCols());
  cost.latency = rates.sharedLatency + rates.productLatency;
  if (!isTf32 && (left.isF32() || right.isF32())) {
    cost.fma = products / TargetInfo::warpThreads;
    return cost;
  }
  // Weights are rounded to tf32 by a test for infinity and an addition; the
  // product does without the bits below.
  if (isTf32 && frag)
    cost.alu = cost.reads = 2 * frag.getRegisters();
  MmaShape unit = isTf32 ? MmaShape::warpTf32() : MmaShape::warp();
  cost.issue = products / (unit.m * unit.nStep * unit.k);
  cost.flops = 2 * products;
  // Operands of 32 bits take twice as long. Each scheduler has its share of
  // the tensor cores.
  cost.mmaCycles = ceilDiv(cost.flops * (isTf32 ? 2 : 1) * rates.schedulers,
                           rates.warpFlops);
  return cost;
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

/// Accesses of one warp; elements of 16 bits go in pairs. What is permuted is
/// 16 bytes each, where a lane has so many neighbours.
static int64_t accessesOf(Type type, Type memory, int64_t permuted,
                          bool transposed) {
  int64_t elements = heldOf(type).elements;
  int64_t bits = memory.getIntOrFloatBitWidth();
  if (permuted) {
    auto vec = dyn_cast<tg::VecType>(type);
    bool isRow = vec && vec.getAxis() == tg::Axis::Row;
    int64_t run = isRow ? elements : permuted;
    if (transposed)
      run = cast<tg::FragType>(type).getRows() / 8;
    return ceilDiv(elements, std::min<int64_t>(128 / bits, run));
  }
  return isa<tg::FragType>(type) && bits == 16 ? elements / 2 : elements;
}

template <typename OpT>
static OpCost costOfGlobal(OpT op, Type value, Type memory) {
  OpCost cost;
  cost.issue = 2 * accessesOf(value, cast<MemRefType>(memory).getElementType(),
                              op.getPermuted(), op.getTransposed());
  return cost;
}

OpCost emulator::costOf(tg::GlobalLoadOp op, const TargetInfo &) {
  return costOfGlobal(op, op.getResult().getType(), op.getSource().getType());
}
OpCost emulator::costOf(tg::GlobalStoreOp op, const TargetInfo &) {
  return costOfGlobal(op, op.getValue().getType(),
                      op.getDestination().getType());
}
OpCost emulator::costOf(tg::GlobalReduceOp op, const TargetInfo &) {
  return costOfGlobal(op, op.getValue().getType(),
                      op.getDestination().getType());
}
OpCost emulator::costOf(tg::BulkStoreOp, const TargetInfo &) {
  OpCost cost;
  cost.issue = 4;
  cost.isCopy = true;
  return cost;
}
OpCost emulator::costOf(tg::BulkReduceOp op, const TargetInfo &target) {
  OpCost cost;
  cost.issue = 4;
  cost.isCopy = true;
  return cost;
}
