//===- PackHeads.cpp - Query heads of a key head as rows of one tile ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Row r of a key head is row r mod sq of its query head r / sq: a view of the
// queries and of the results, [b, hq, sq, d] as [b, hk, group * sq, d], where
// one stride leads from row to row and from the last row of a head to the first
// one of the next. Whether it does is known when the plan runs, as are the
// sizes. Where rows differ in nothing but what they hold one kernel is for
// both, for views say what is a head; else the plan gives the blocks to a
// kernel of packed heads or to the one of heads for themselves.
//
//===----------------------------------------------------------------------===//

#include "NamedRewrites.h"
#include "PlanBuilder.h"
#include "TileKernel.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinOps.h"

#define DEBUG_TYPE "attn-pack-heads"

namespace attn {
#define GEN_PASS_DEF_ATTNPACKHEADSPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

std::string mlir::attn::whyNotPacked(ReductionOpInterface op) {
  if (!op.getQuerySource().hasBatch())
    return "packed sequences";
  if (op.getReducedSide() != Side::keys)
    return "a reduction over queries";
  if (isa<ScoresOp>(op.getOperation()))
    return "scores in memory";
  if (!op.getMaskBody().empty() && !op.getMaskBody().getArgument(1).use_empty())
    return "a mask that reads the head";
  // A tile of keys serves all heads.
  if (Region &turn = op.getRotateKeysBody();
      !turn.empty() && !turn.getArgument(3).use_empty())
    return "a region 'rotate_keys' that reads the head";
  return "";
}

PackedHeads mlir::attn::packHeads(OpBuilder &b, Location loc, HeadCounts counts,
                                  ValueRange queries, ValueRange outputs,
                                  int64_t leading, int64_t blockQ) {
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, loc, value);
  };
  auto compare = [&](arith::CmpIPredicate predicate, Value x,
                     Value y) -> Value {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  };
  auto both = [&](Value x, Value y) -> Value {
    return arith::AndIOp::create(b, loc, x, y);
  };
  auto multiply = [&](Value x, Value y) -> Value {
    return arith::MulIOp::create(b, loc, x, y);
  };
  using Predicate = arith::CmpIPredicate;
  Value one = index(1);
  Value heads = counts.heads, rows = counts.rows, keyHeads = counts.keyHeads;
  Value group = arith::DivUIOp::create(
      b, loc, heads, arith::MaxSIOp::create(b, loc, keyHeads, one));
  Value isOne = compare(Predicate::eq, rows, one);

  PackedHeads views;
  views.rows = multiply(group, rows);
  // Heads to pack, and less than a tile of rows in each.
  views.fits = both(compare(Predicate::ugt, group, one),
                    compare(Predicate::ult, rows, index(blockQ)));
  views.fits = both(views.fits,
                    compare(Predicate::eq, multiply(group, keyHeads), heads));
  auto view = [&](Value tensor, int64_t leading) -> Value {
    auto type = cast<MemRefType>(tensor.getType());
    auto metadata = memref::ExtractStridedMetadataOp::create(b, loc, tensor);
    ValueRange strides = metadata.getStrides();
    bool channel = type.getRank() > leading + 3;
    Value headStride = strides[leading + 1], rowStride = strides[leading + 2];
    // Rows of dense memory follow each other.
    if (!type.getLayout().isIdentity()) {
      Value isDense =
          compare(Predicate::eq, headStride, multiply(rows, rowStride));
      if (channel) {
        // One row of each head: any stride of heads leads from row to row.
        isDense = arith::OrIOp::create(b, loc, isDense, isOne);
        rowStride =
            arith::SelectOp::create(b, loc, isOne, headStride, rowStride);
      }
      views.fits = both(views.fits, isDense);
    }
    SmallVector<OpFoldResult> sizes, steps;
    SmallVector<int64_t> shape(type.getShape());
    for (int64_t d = 0, rank = type.getRank(); d < rank; ++d) {
      if (d == leading + 1 || d == leading + 2) {
        shape[d] = ShapedType::kDynamic;
        sizes.push_back(d == leading + 1 ? keyHeads : views.rows);
      } else if (type.isDynamicDim(d)) {
        sizes.push_back(metadata.getSizes()[d]);
      } else {
        sizes.push_back(b.getIndexAttr(shape[d]));
      }
      if (d == rank - 1)
        steps.push_back(b.getIndexAttr(1));
      else if (d == leading + 1)
        steps.push_back(multiply(group, headStride));
      else if (d == leading + 2)
        steps.push_back(rowStride);
      else
        steps.push_back(strides[d]);
    }
    SmallVector<int64_t> layout(type.getRank(), ShapedType::kDynamic);
    layout.back() = 1;
    auto result = MemRefType::get(
        shape, type.getElementType(),
        StridedLayoutAttr::get(b.getContext(), /*offset=*/0, layout));
    return memref::ReinterpretCastOp::create(
        b, loc, result, tensor, OpFoldResult(b.getIndexAttr(0)), sizes, steps);
  };
  for (Value query : queries)
    views.queries.push_back(view(query, 0));
  for (Value output : outputs)
    views.outputs.push_back(output ? view(output, leading) : Value());
  return views;
}

/// Whether a region reads the head or the row, which come behind `first` values
/// and the batch.
static bool tellsRowsApart(Region &region, unsigned first) {
  return !region.empty() && (!region.getArgument(first + 1).use_empty() ||
                             !region.getArgument(first + 2).use_empty());
}

/// Whether rows differ in nothing but what they hold. Then views say whose they
/// are, and a kernel need not know.
static bool areRowsAlike(ReductionOpInterface op, MonoidOp monoid) {
  if (op.getQuerySource().lengths || op.getRotaryAttribute() ||
      !op.getFactorBody().empty() || !op.getInitBody().empty())
    return false;
  auto aggregate = dyn_cast<AggregateOp>(op.getOperation());
  if (!aggregate && !isa<PartialOp>(op.getOperation()))
    return false;
  unsigned states = monoid.getNumStats() + monoid.getComponents().size();
  return !tellsRowsApart(op.getMaskBody(), 0) &&
         !tellsRowsApart(op.getScoreBody(), op.getQueryOperands().size()) &&
         (!aggregate || !tellsRowsApart(aggregate.getFinalize(), states));
}

LogicalResult PlanBuilder::convertPackedHeads(ReductionOpInterface op,
                                              MonoidOp monoid, Value batches,
                                              HeadCounts counts,
                                              ArrayRef<Value> outputs,
                                              Marks marks, Value &numTiles) {
  Location loc = op.getLoc();
  ScheduleAttr schedule = op.getScheduleAttribute();
  auto queries = llvm::map_to_vector(op.getQueryOperands(), [&](Value q) {
    return turnedQueries ? turnedQueries : mapping.lookup(q);
  });
  auto pack = [&] {
    return packHeads(b, loc, counts, queries, outputs,
                     isa<PartialOp>(op.getOperation()), schedule.getBlockQ());
  };
  PackedHeads views = pack();
  if (areRowsAlike(op, monoid)) {
    // Where heads are not packed each is a head of its own, which views say as
    // well.
    counts.keyHeads = arith::SelectOp::create(b, loc, views.fits,
                                              counts.keyHeads, counts.heads);
    views = pack();
    IRMapping whole = mapping;
    for (auto [query, view] :
         llvm::zip_equal(op.getQueryOperands(), views.queries))
      mapping.map(query, view);
    LogicalResult result =
        convertRows(op, monoid, batches, counts.keyHeads,
                    countQueryTiles(op, views.rows), views.outputs, marks);
    mapping = whole;
    numTiles = Value();
    return result;
  }
  Value none = index(0, loc);
  Value tiles = arith::CeilDivUIOp::create(b, loc, views.rows,
                                           index(schedule.getBlockQ(), loc));
  // The tiles of a cluster are of one sequence.
  if (int64_t cluster = tilesOfCluster(schedule, target); cluster > 1) {
    Value rest = arith::RemUIOp::create(b, loc, tiles, index(cluster, loc));
    Value areWhole =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, rest, none);
    views.fits = arith::AndIOp::create(b, loc, views.fits, areWhole);
  }
  // One of two kernels has blocks.
  tiles = arith::SelectOp::create(b, loc, views.fits, tiles, none);
  numTiles = arith::SelectOp::create(b, loc, views.fits, none, numTiles);
  return convertRows(op, monoid, batches, counts.keyHeads, tiles, views.outputs,
                     marks, views.queries);
}

namespace {
struct PackHeadsPass : ::attn::impl::AttnPackHeadsPassBase<PackHeadsPass> {
  using AttnPackHeadsPassBase::AttnPackHeadsPassBase;

  void runOnOperation() final {
    getOperation().walk([&](ReductionOpInterface op) {
      ScheduleAttr schedule = op.getScheduleAttribute();
      if (!schedule || op.getPackedHeads())
        return;
      std::string why = whyNotPacked(op);
      if (schedule.getPackHeads() && !why.empty()) {
        op->emitOpError("expected heads that can be packed, as pack_heads of "
                        "the schedule says, but got ")
            << why;
        return signalPassFailure();
      }
      if (!schedule.getPackHeads()) {
        ++numKept;
        if (explain)
          op->emitRemark("heads not packed: ")
              << (why.empty() ? "its schedule has tiles for each head"
                              : "it has " + why);
        return;
      }
      op.setPackedHeads(true);
      ++numPacked;
    });
  }
};
} // namespace
