//===- Split.cpp - Reduce the keys in parts -------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Associativity makes a reduction of n parts equal to the whole; the init
// region is a left factor and goes with the first part, which attn.partial
// sees to.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
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
  if (splits > 0)
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

static void split(AggregateOp op, MonoidOp monoid, int64_t splits) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  auto partial = PartialOp::create(
      b, loc, stateTypes(op, monoid, splits), op.getMonoidAttr(),
      op.getParams(), op.getQueries(), op.getKeys(), op.getValues(),
      op.getCaptures(), op.getQueryIndex(), op.getKeyIndex(), op.getRowBase(),
      op.getKeyBase(), op.getQueryFormAttr(), op.getKeyFormAttr(),
      op.getSideAttr(), op.getScheduleAttr(), op.getPrecisionAttr(),
      b.getI64IntegerAttr(splits));
  partial.getScore().takeBody(op.getScore());
  partial.getMask().takeBody(op.getMask());
  partial.getInit().takeBody(op.getInit());
  auto combine = CombineOp::create(b, loc, stateTypes(op, monoid, /*splits=*/0),
                                   op.getMonoidAttr(), partial.getStates(),
                                   op.getParams());
  // The captures are only read by a finalize region of the op's own.
  bool own = !op.getFinalize().empty();
  auto finalize = FinalizeOp::create(
      b, loc, op.getResultTypes(), op.getMonoidAttr(), combine.getOutputs(),
      op.getParams(), own ? op.getCaptures() : ValueRange());
  finalize.getFinalize().takeBody(op.getFinalize());
  op.replaceAllUsesWith(finalize.getResults());
  op.erase();
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
      if (!monoid || !schedule || schedule.getSplits() == 1) {
        ++numWhole;
        continue;
      }
      if (readsPackedPosition(op)) {
        ++numWhole;
        if (explain)
          op.emitRemark("not split in ")
              << schedule.getSplits()
              << ": the finalize region reads the batch or row of packed "
                 "queries, which states do not know";
        continue;
      }
      split(op, monoid, schedule.getSplits());
      ++numSplit;
    }
  }
};
} // namespace
