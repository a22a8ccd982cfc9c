//===- TileCaptures.cpp - Elements of scores in shared memory -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A bias may have an element for each pair. Read by the threads that have the
// scores, it is one load for each element amid the products of a step. Here its
// tiles, of 16 bits, are copied ahead as those of keys and values are. Tensor
// copies take addresses that are multiples of 16 bytes, so the plan has one
// kernel with them and one without.
//
//===----------------------------------------------------------------------===//

#include "TileCaptures.h"
#include "attn/Analysis/OnChip.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// What an index of an element of a capture is.
enum class At { batch, head, row, key, constant, other };
} // namespace

static At placeOf(ReductionOpInterface op, tensor::ExtractOp extract,
                  int64_t d) {
  Value index = extract.getIndices()[d];
  auto type = cast<RankedTensorType>(extract.getTensor().getType());
  APInt constant;
  if (matchPattern(index, m_ConstantInt(&constant)))
    return constant.isZero() ||
                   (constant.isNonNegative() &&
                    constant.slt(std::max<int64_t>(type.getDimSize(d), 0)))
               ? At::constant
               : At::other;
  if (auto cast = index.getDefiningOp<arith::IndexCastOp>())
    index = cast.getIn();
  unsigned first = op.getQueryOperands().size();
  // In the order of a region's positions.
  for (At at : {At::batch, At::head, At::row, At::key})
    if (index == op.getScoreBody().getArgument(first++))
      return at;
  return At::other;
}

/// Whether the last indices are `last`, and none before is of a row or key.
static bool endsWith(ReductionOpInterface op, tensor::ExtractOp extract,
                     ArrayRef<At> last) {
  int64_t rank = extract.getIndices().size();
  int64_t leading = rank - int64_t(last.size());
  if (leading < 0 || !isa<BlockArgument>(extract.getTensor()))
    return false;
  for (int64_t d = 0; d < rank; ++d) {
    At at = placeOf(op, extract, d);
    if (d >= leading ? at != last[d - leading]
                     : at != At::batch && at != At::head && at != At::constant)
      return false;
  }
  return true;
}

/// The capture that an element is of, an operand.
static Value captureOf(ReductionOpInterface op, tensor::ExtractOp extract) {
  unsigned first =
      op.getScoreBody().getNumArguments() - op.getCaptureOperands().size();
  unsigned number = cast<BlockArgument>(extract.getTensor()).getArgNumber();
  return op.getCaptureOperands()[number - first];
}

/// Where the element of the block's first row and a tile's first key is.
static SmallVector<Value> firstOf(ReductionContext &ctx,
                                  tensor::ExtractOp extract, Value firstKey) {
  SmallVector<Value> indices;
  for (auto [d, index] : llvm::enumerate(extract.getIndices())) {
    APInt constant;
    switch (placeOf(ctx.reduction, extract, d)) {
    case At::batch:
      indices.push_back(ctx.batch);
      break;
    case At::head:
      indices.push_back(ctx.head);
      break;
    case At::row:
      indices.push_back(ctx.row0);
      break;
    case At::key:
      indices.push_back(firstKey);
      break;
    default:
      matchPattern(index, m_ConstantInt(&constant));
      indices.push_back(ctx.index(constant.getSExtValue()));
    }
  }
  return indices;
}

SmallVector<tensor::ExtractOp>
mlir::attn::findPairElements(ReductionOpInterface op) {
  SmallVector<tensor::ExtractOp> found;
  if (!op.getScoreBody().empty())
    for (auto extract : op.getScoreBody().getOps<tensor::ExtractOp>())
      if (endsWith(op, extract, {At::row, At::key}))
        found.push_back(extract);
  return found;
}

SmallVector<tensor::ExtractOp>
mlir::attn::findCopiedPairs(ReductionOpInterface op) {
  ScheduleAttr schedule = op.getScheduleAttribute();
  if (!schedule || schedule.getPairs() != Pairs::copied)
    return {};
  return findPairElements(op);
}

std::string mlir::attn::whyNotCopied(ReductionOpInterface op,
                                     ScheduleAttr schedule,
                                     const ::attn::TargetInfo &target) {
  if (!target.hasRoles() ||
      schedule.getRows() != ::attn::MmaShape::warpgroup().m ||
      schedule.getBlockV())
    return "rows that are not those of warpgroups";
  if (schedule.getPackHeads())
    return "tiles that hold the rows of several heads";
  if (!isa<AggregateOp, PartialOp>(op.getOperation()))
    return "scores that no aggregate takes";
  if (op.hasOwnSizes())
    return "sequences with sizes of their own";
  if (op.getReducedSide() != Side::keys)
    return "a reduction over queries";
  if (op.getQueryOperands().size() != 1)
    return "scores of several dots";
  auto is16Bit = [](Value tensor) {
    Type element = cast<ShapedType>(tensor.getType()).getElementType();
    return element.isBF16() || element.isF16();
  };
  if (!llvm::all_of(op.getQueryOperands(), is16Bit) ||
      !llvm::all_of(op.getKeyOperands(), is16Bit) ||
      !llvm::all_of(op.getValueOperands(), is16Bit))
    return "products that are not of 16 bits";
  for (tensor::ExtractOp extract : findPairElements(op))
    if (!is16Bit(extract.getTensor()))
      return "elements that are not of 16 bits";
  return "";
}

std::string mlir::attn::whyNoRoom(ReductionOpInterface op,
                                  ScheduleAttr schedule,
                                  ::attn::ScheduleProblem problem,
                                  const ::attn::TargetInfo &target) {
  problem.copiedPairs = findPairElements(op).size();
  ::attn::ScheduleSizes sizes = {schedule.getBlockQ(), schedule.getRows(),
                                 schedule.getBlockK()};
  ::attn::ScheduleBudget budget =
      ::attn::computeBudget(problem, sizes, target, schedule.getStages());
  if (budget.registers > budget.registerLimit)
    return "no registers for them";
  if (::attn::onchip::stagesThatFit(
          ::attn::computeDemand(problem, sizes, target), target) <
      std::max(schedule.getStages(), ::attn::onchip::leastStages))
    return "no shared memory for them beside keys and values";
  return "";
}

/// Whether tensor copies take a tensor as it lies in memory (i1).
static Value fitsTensorCopies(OpBuilder &b, Location loc, Value tensor) {
  // As encodeTensorMap has it.
  constexpr int64_t alignment = 16, maxStride = int64_t(1) << 40;
  using Predicate = arith::CmpIPredicate;
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, loc, value);
  };
  auto bitsOf = [&](Value value, int64_t mask) -> Value {
    return arith::AndIOp::create(b, loc, value, index(mask));
  };
  auto type = cast<MemRefType>(tensor.getType());
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  auto metadata = memref::ExtractStridedMetadataOp::create(b, loc, tensor);
  Value wrong =
      bitsOf(memref::ExtractAlignedPointerAsIndexOp::create(b, loc, tensor),
             alignment - 1);
  // A dimension of one element has no stride to speak of.
  for (int64_t d = 0; d + 1 < type.getRank(); ++d) {
    Value isLong = arith::CmpIOp::create(b, loc, Predicate::ugt,
                                         metadata.getSizes()[d], index(1));
    Value stride =
        arith::MulIOp::create(b, loc, metadata.getStrides()[d], index(bytes));
    stride = arith::SelectOp::create(b, loc, isLong, stride, index(0));
    // Also those of 2^40 and more, and negative ones.
    wrong = arith::OrIOp::create(b, loc, wrong,
                                 bitsOf(stride, ~(maxStride - alignment)));
  }
  return arith::CmpIOp::create(b, loc, Predicate::eq, wrong, index(0));
}

/// The tensor where `fits`, and else one without rows, of which nothing is
/// asked.
static Value emptyUnless(OpBuilder &b, Location loc, Value fits, Value tensor) {
  auto type = cast<MemRefType>(tensor.getType());
  auto metadata = memref::ExtractStridedMetadataOp::create(b, loc, tensor);
  SmallVector<int64_t> shape(type.getShape()),
      layout(type.getRank(), ShapedType::kDynamic);
  SmallVector<OpFoldResult> sizes, strides;
  int64_t rows = type.getRank() - 2;
  for (int64_t d = 0; d < type.getRank(); ++d) {
    Value size = metadata.getSizes()[d];
    if (d == rows) {
      Value none = arith::ConstantIndexOp::create(b, loc, 0);
      size = arith::SelectOp::create(b, loc, fits, size, none);
      shape[d] = ShapedType::kDynamic;
    }
    if (ShapedType::isDynamic(shape[d]))
      sizes.push_back(size);
    else
      sizes.push_back(b.getIndexAttr(shape[d]));
    strides.push_back(metadata.getStrides()[d]);
  }
  layout.back() = 1;
  strides.back() = b.getIndexAttr(1);
  auto result = MemRefType::get(
      shape, type.getElementType(),
      StridedLayoutAttr::get(b.getContext(), /*offset=*/0, layout));
  return memref::ReinterpretCastOp::create(
      b, loc, result, tensor, OpFoldResult(b.getIndexAttr(0)), sizes, strides);
}

Value mlir::attn::mapCopiedPairs(OpBuilder &b, ReductionOpInterface op,
                                 IRMapping &mapping) {
  Location loc = op.getLoc();
  llvm::SmallSetVector<Value, 2> tensors;
  for (tensor::ExtractOp pair : findCopiedPairs(op))
    tensors.insert(captureOf(op, pair));
  Value fits;
  for (Value tensor : tensors) {
    Value own = fitsTensorCopies(b, loc, mapping.lookup(tensor));
    fits = fits ? arith::AndIOp::create(b, loc, fits, own).getResult() : own;
  }
  for (Value tensor : tensors)
    mapping.map(tensor, emptyUnless(b, loc, fits, mapping.lookup(tensor)));
  return fits;
}

void mlir::attn::loadPairElements(
    ReductionContext &ctx, const KeyTile &tile,
    SmallVectorImpl<std::pair<Value, Value>> &loaded) {
  if (!ctx.copiesPairs)
    return;
  for (tensor::ExtractOp extract : findCopiedPairs(ctx.reduction)) {
    Value memory = ctx.arg(captureOf(ctx.reduction, extract));
    SmallVector<Value> indices = firstOf(ctx, extract, tile.first);
    auto load = tile::LoadOp::create(
        ctx.b,
        ctx.tileType(ctx.schedule.getBlockQ(), keyCols(ctx), extract.getType()),
        memory, indices, ctx.index(0), ctx.dim(memory, indices.size() - 2),
        /*live=*/Value(), /*vector=*/false);
    loaded.push_back({extract, load});
  }
}
