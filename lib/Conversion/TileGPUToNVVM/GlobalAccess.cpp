//===- GlobalAccess.cpp - Where register values lie in a tensor -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GlobalAccess.h"
#include "attn/Dialect/Tile/IR/FragmentOrder.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

/// An index as a sum with a number, which parts of one state differ by.
static std::pair<Value, int64_t> splitIndex(Emitter &e, Value index) {
  if (auto number = e.constantOf(index))
    return {e.constant(index.getType(), 0), *number};
  if (auto sum = index.getDefiningOp<LLVM::AddOp>())
    if (auto number = e.constantOf(sum.getRhs()))
      return {sum.getLhs(), *number};
  return {index, 0};
}

GlobalAccess::GlobalAccess(Emitter &e, const Values &memref, MemRefType type,
                           ValueRange indices, Value rowBound, bool transposed,
                           bool isVector)
    : isTransposed(transposed), e(e) {
  Type element = type.getElementType();
  elementBytes =
      element.isSignlessInteger(1) ? 1 : element.getIntOrFloatBitWidth() / 8;
  int64_t rank = type.getRank();
  auto size = [&](int64_t dim) { return memref[1 + dim]; };
  auto stride = [&](int64_t dim) { return memref[1 + rank + dim]; };
  auto [first, further] = splitIndex(e, indices.front());
  Value offset = e.mul(e.sext64(first), stride(0));
  for (int64_t i = 1; i < rank; ++i)
    offset = e.add(offset, e.mul(e.sext64(indices[i]), stride(i)));
  start =
      e.add(LLVM::PtrToIntOp::create(e.b, e.loc, e.i64, memref[0]).getResult(),
            e.mul(offset, elementBytes));
  step = e.mul(e.mul(stride(0), elementBytes), further);
  base = e.add(start, step);
  bool unit = e.constantOf(stride(rank - 1)) == 1;
  Value inner = e.mul(stride(rank - 1), elementBytes);
  if (isVector) {
    // The one axis stands for rows here.
    strides[0] = inner;
    strides[1] = e.c64(0);
    origins[0] = indices[rank - 1];
    bounds[0] = rowBound;
    colsAreContiguous = false;
    rowsAreContiguous = unit;
    return;
  }
  Value outer = e.mul(stride(rank - 2), elementBytes);
  int outerAxis = transposed ? 1 : 0;
  strides[outerAxis] = outer;
  strides[1 - outerAxis] = inner;
  origins[outerAxis] = indices[rank - 2];
  origins[1 - outerAxis] = indices[rank - 1];
  bounds[outerAxis] = rowBound;
  // Columns of the tensor that do not exist are padding of the fragment.
  bounds[1 - outerAxis] = size(rank - 1);
  colsAreContiguous = unit && !transposed;
  rowsAreContiguous = unit && transposed;
}

int64_t gpu::knownDivisor(Value index) {
  Operation *op = index.getDefiningOp();
  if (!op) {
    // What a schedule finds out about an item, behind its four coordinates.
    auto loop = dyn_cast<ForeachOp>(index.getParentBlock()->getParentOp());
    unsigned number = cast<BlockArgument>(index).getArgNumber();
    auto scheduler =
        loop ? loop.getSchedule().getDefiningOp<SchedulerOp>() : SchedulerOp();
    if (!scheduler || number >= loop.getItemArgs().size() || number < 4)
      return 1;
    Operation *yield = scheduler.getBody().front().getTerminator();
    return number - 4 < yield->getNumOperands()
               ? knownDivisor(yield->getOperand(number - 4))
               : 1;
  }
  IntegerAttr constant;
  if (matchPattern(index, m_Constant(&constant)))
    return std::abs(constant.getInt());
  auto of = [&](unsigned operand) {
    return knownDivisor(op->getOperand(operand));
  };
  if (isa<arith::IndexCastOp>(op))
    return of(0);
  if (isa<arith::AddIOp, arith::SubIOp, arith::MinSIOp, arith::MaxSIOp>(op))
    return std::gcd(of(0), of(1));
  if (isa<arith::SelectOp>(op))
    return std::gcd(of(1), of(2));
  int64_t product = 1;
  if (isa<arith::MulIOp>(op) && !llvm::MulOverflow(of(0), of(1), product))
    return product;
  return 1;
}

void GlobalAccess::simplifyBound(int axis, int64_t extent) {
  auto size = e.constantOf(bounds[axis]);
  if (!size)
    return;
  if (auto first = e.constantOf(origins[axis])) {
    if (*first >= 0 && *first + extent <= *size)
      bounds[axis] = Value();
    return;
  }
  // Parts of one size tile the axis, and there may be more parts than that.
  if (axis != (isTransposed ? 0 : 1) || *size % extent || divisor % extent)
    return;
  whole[axis] = e.lt(origins[axis], e.c32(*size));
  bounds[axis] = Value();
}

void gpu::forFragmentOrder(
    KernelContext &k, FragType type, const Values &memref, MemRefType memory,
    Values indices, llvm::function_ref<void(int64_t, Value, int64_t)> body) {
  Emitter &e = k.e;
  constexpr int64_t bytes = 16;
  int64_t rank = memory.getRank();
  // Rows follow one another, and fewer of them than 2^32 fit into memory: their
  // number takes a few instructions of 32 bits, where one stride for each index
  // takes many of 64, one behind the other, in a loop that waits for them.
  Value row = indices[0];
  for (int64_t dim = 1; dim + 1 < rank; ++dim)
    row = e.add(e.mul(row, e.trunc32(memref[1 + dim])), indices[dim]);
  // 16 rows take as many bytes as they do one after the other.
  Value rowBytes = e.mul(memref[rank], int64_t(sizeof(float)));
  Value inside = e.add(
      e.mul(indices.back(), tile::fragmentOrderRows * int64_t(sizeof(float))),
      e.mul(k.lane, bytes));
  if (type.isHalf()) {
    // Of two warps, one has the first eight of 16 rows.
    Value second = e.and_(k.role.warpInMember, 1);
    Value row = e.shl(e.lshr(k.role.warpInMember, 1), 4);
    inside = e.add(inside, e.shl(second, 3));
    inside = e.add(inside, e.mul(row, e.trunc32(rowBytes)));
  } else if (type.getScope() == Scope::Warpgroup) {
    inside = e.add(inside, e.mul(k.role.warpRows, e.trunc32(rowBytes)));
  }
  Value base =
      LLVM::PtrToIntOp::create(e.b, e.loc, e.i64, memref[0]).getResult();
  Value address =
      e.add(e.add(base, e.mul(e.zext64(row), rowBytes)), e.zext64(inside));
  FragShape shape(type);
  for (int64_t block = 0; block < shape.blocks; ++block) {
    Value first = e.add(address, e.mul(rowBytes, block * shape.blockRows));
    for (int64_t at = 0; at < shape.colBlocks; ++at)
      body((block * shape.colBlocks + at) * shape.each(), first,
           at * TargetInfo::warpThreads * bytes);
  }
}
