//===- Split.cpp - Reduce the keys in parts -------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where the number of parts is that which fills a GPU, it is counted here, from
// the sizes of the run: one kernel serves all of them.
//
// Associativity makes a reduction of n parts equal to the whole; the init
// region is a left factor and goes with the first part, which attn.partial
// sees to.
//
//===----------------------------------------------------------------------===//

#include "Pages.h"
#include "Rungs.h"
#include "TileKernel.h"
#include "attn/Analysis/FewRows.h"
#include "attn/Analysis/Schedule.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"

#define DEBUG_TYPE "attn-split"

namespace attn {
#define GEN_PASS_DEF_ATTNSPLITPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

/// Types of the states of all parts: [n, rows...] and [n, rows..., channels].
static SmallVector<Type> stateTypes(AggregateOp op, MonoidOp monoid,
                                    int64_t splits) {
  auto query = cast<RankedTensorType>(op.getQueries().front().getType());
  SmallVector<int64_t> rows(query.getShape().drop_back());
  if (splits)
    rows.insert(rows.begin(), splits);
  auto f32 = Float32Type::get(op.getContext());
  SmallVector<Type> types;
  for (Attribute stat : monoid.getStats())
    types.push_back(
        RankedTensorType::get(rows, cast<TypeAttr>(stat).getValue()));
  unsigned nextValue = 0;
  for (unsigned i = 0, e = monoid.getNumComponents(); i < e; ++i) {
    SmallVector<int64_t> shape = rows;
    if (monoid.getComponent(i) == Component::value)
      shape.push_back(
          cast<RankedTensorType>(op.getValues()[nextValue++].getType())
              .getShape()
              .back());
    types.push_back(RankedTensorType::get(shape, f32));
  }
  return types;
}

/// As many parts as there are blocks at once for those of rows, of
/// `leastPartKeys` keys or more; of short ones no more than take less time to
/// combine than they save.
static Value countParts(OpBuilder &b, AggregateOp op,
                        const ::attn::TargetInfo &target) {
  Location loc = op.getLoc();
  ScheduleAttr schedule = op.getScheduleAttr();
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, loc, value);
  };
  auto dim = [&](Value tensor, int64_t d) -> Value {
    return tensor::DimOp::create(b, loc, tensor, d);
  };
  Value query = op.getQueries().front(), key = op.getKeys().front();
  Value heads = dim(query, 1), rows = dim(query, 2), one = index(1);
  if (schedule.getPackHeads()) {
    Value keyHeads = arith::MaxUIOp::create(b, loc, dim(key, 1), one);
    rows = arith::MulIOp::create(
        b, loc, rows, arith::DivUIOp::create(b, loc, heads, keyHeads));
    heads = keyHeads;
  }
  Value tiles =
      arith::CeilDivUIOp::create(b, loc, rows, index(schedule.getBlockQ()));
  Value blocks = arith::MulIOp::create(
      b, loc, arith::MulIOp::create(b, loc, dim(query, 0), heads), tiles);
  if (int64_t slices = countSlices(op); slices > 1)
    blocks = arith::MulIOp::create(b, loc, blocks, index(slices));
  Value wanted = arith::DivUIOp::create(
      b, loc,
      index(::attn::blocksAtOnce(schedule.getRows(), schedule.getBlockV(),
                                 target)),
      arith::MaxUIOp::create(b, loc, blocks, one));
  Value keys = countKeys(b, op);
  Value most = arith::DivUIOp::create(b, loc, keys,
                                      index(::attn::leastPartKeys(target)));
  auto columns = [](Value tensor) {
    return cast<ShapedType>(tensor.getType()).getShape().back();
  };
  int64_t width = columns(key);
  for (Value value : op.getValues())
    width += columns(value);
  auto bound = ::attn::boundShortParts(width);
  if (schedule.getPackHeads() && bound) {
    Value few = arith::MinUIOp::create(b, loc, most, index(bound->most));
    Value many = arith::DivUIOp::create(b, loc, keys, index(bound->keysOfMore));
    most = arith::MaxUIOp::create(b, loc, few, many);
  }
  return arith::MaxUIOp::create(
      b, loc, arith::MinUIOp::create(b, loc, wanted, most), one);
}

/// Parts of `keys` keys, at least one.
static Value countFixedParts(OpBuilder &b, AggregateOp op, int64_t keys) {
  Location loc = op.getLoc();
  Value size = arith::ConstantIndexOp::create(b, loc, keys);
  Value one = arith::ConstantIndexOp::create(b, loc, 1);
  Value parts = arith::CeilDivUIOp::create(b, loc, countKeys(b, op), size);
  return arith::MaxUIOp::create(b, loc, parts, one);
}

PartialOp mlir::attn::splitKeys(AggregateOp op, MonoidOp monoid, int64_t splits,
                                Value parts, IntegerAttr granule) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  auto partial = PartialOp::create(
      b, loc, stateTypes(op, monoid, parts ? ShapedType::kDynamic : splits),
      op.getMonoidAttr(), op.getParams(), op.getQueries(), op.getKeys(),
      op.getValues(), op.getCaptures(), op.getQueryIndex(), op.getKeyIndex(),
      op.getRowBase(), op.getKeyBase(), op.getQueryFormAttr(),
      op.getKeyFormAttr(), op.getSideAttr(), op.getScheduleAttr(),
      op.getPrecisionAttr(), op.getBatchInvariantAttr(), op.getRotaryAttr(),
      parts, parts ? IntegerAttr() : b.getI64IntegerAttr(splits), granule);
  partial.setRelaxedMaximum(op.getRelaxedMaximum());
  partial.getScore().takeBody(op.getScore());
  partial.getMask().takeBody(op.getMask());
  partial.getFactor().takeBody(op.getFactor());
  partial.getInit().takeBody(op.getInit());
  partial.getRotateQueries().takeBody(op.getRotateQueries());
  partial.getRotateKeys().takeBody(op.getRotateKeys());
  auto combine = CombineOp::create(b, loc, stateTypes(op, monoid, /*splits=*/0),
                                   op.getMonoidAttr(), partial.getStates(),
                                   /*shared=*/ValueRange(), /*places=*/Value(),
                                   op.getParams());
  // The captures are only read by a finalize region of the op's own.
  bool own = !op.getFinalize().empty();
  auto finalize = FinalizeOp::create(
      b, loc, op.getResultTypes(), op.getMonoidAttr(), combine.getOutputs(),
      op.getParams(), own ? op.getCaptures() : ValueRange());
  finalize.getFinalize().takeBody(op.getFinalize());
  op.replaceAllUsesWith(finalize.getResults());
  op.erase();
  return partial;
}

FailureOr<PartialOp>
mlir::attn::splitBySchedule(AggregateOp op, MonoidOp monoid,
                            const ::attn::TargetInfo &target) {
  ScheduleAttr schedule = op.getScheduleAttr();
  OpBuilder b(op);
  Value parts;
  IntegerAttr fixed = op.getPartKeysAttr();
  if (schedule.getSplits() == ScheduleAttr::automaticSplits) {
    StringRef where = !op.getQuerySource().hasBatch() ? "of packed sequences"
                      : target.isCpu() && !fixed      ? "on a CPU"
                                                      : "";
    if (!where.empty())
      return op.emitOpError("expected a number of splits ")
             << where << ", but got automatic";
    parts = fixed ? countFixedParts(b, op, fixed.getInt())
                  : countParts(b, op, target);
  }
  // Tiles of a GPU lie within pages, or boxes of them do.
  IntegerAttr granule = fixed;
  if (!fixed && op.getKeySource().is(SourceKind::paged) && !target.isCpu())
    granule = b.getI64IntegerAttr(schedule.getBlockK());
  return splitKeys(op, monoid, schedule.getSplits(), parts, granule);
}

/// States of packed rows do not know their sequence: a finalize region that
/// asks for its batch or row stays in the aggregate.
static bool readsPackedPosition(AggregateOp op) {
  if (!op.getQuerySource().is(SourceKind::varlen) || op.getFinalize().empty())
    return false;
  auto arguments = op.getFinalize().getArguments();
  size_t positions = arguments.size() - op.getCaptures().size() - 3;
  return !arguments[positions].use_empty() ||
         !arguments[positions + 2].use_empty();
}

namespace {
struct SplitPass : ::attn::impl::AttnSplitPassBase<SplitPass> {
  using AttnSplitPassBase::AttnSplitPassBase;

  void runOnOperation() final {
    SmallVector<AggregateOp> ops;
    getOperation().walk([&](AggregateOp op) { ops.push_back(op); });
    for (AggregateOp op : ops) {
      ScheduleAttr schedule = op.getScheduleAttr();
      MonoidOp monoid = lookupMonoid(op, op.getMonoidAttr());
      if (!monoid || !schedule || schedule.getSplits() == 1 ||
          isa<FusedOp>(op->getParentOp())) {
        ++numWhole;
        continue;
      }
      std::optional<::attn::TargetInfo> target =
          ::attn::getTarget(getOperation());
      if (!target)
        return signalPassFailure();
      // The blocks of a cluster have the parts, within one kernel.
      if (partsOfCluster(schedule, *target) > 1) {
        ++numWhole;
        continue;
      }
      StringRef why;
      if (readsPackedPosition(op))
        why = "the finalize region reads the batch or row of packed queries, "
              "which states do not know";
      else if (op.getSide() != Side::keys)
        why = "parts are cut of keys, and this is a reduction over queries";
      if (!why.empty()) {
        ++numWhole;
        if (explain)
          op.emitRemark("not split in ") << schedule.getSplits() << ": " << why;
        continue;
      }
      if (failed(splitBySchedule(op, monoid, *target)))
        return signalPassFailure();
      ++numSplit;
    }
  }
};
} // namespace
