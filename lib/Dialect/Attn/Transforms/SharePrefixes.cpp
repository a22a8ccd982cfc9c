//===- SharePrefixes.cpp - Shared pages, read once ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A reduction over keys is the product of its states over any parts of them.
// The parts are here the pages that a sequence has in common with others, level
// by level, and those that it has for itself. Which these are, attn.share finds
// when the plan runs; rows of a group are rows of one tile, as heads of one key
// head are.
//
//===----------------------------------------------------------------------===//

#include "Pages.h"
#include "Rungs.h"
#include "attn/Analysis/Laws.h"
#include "attn/Analysis/Schedule.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"

#define DEBUG_TYPE "attn-share-prefixes"

namespace attn {
#define GEN_PASS_DEF_ATTNSHAREPREFIXESPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

static bool readsPosition(Region &score, unsigned numDots) {
  if (score.empty())
    return false;
  return llvm::any_of(score.getArguments().slice(numDots, 4),
                      [](Value position) { return !position.use_empty(); });
}

std::string mlir::attn::whyNotShared(AggregateOp op, MonoidOp monoid) {
  std::shared_ptr<const ::attn::LawReport> laws = ::attn::checkLaws(monoid);
  if (!op.getCascade())
    return "an operation that does not say which keys its rows see "
           "(cascade)";
  if (!op.getKeySource().is(SourceKind::paged))
    return "keys that are not in pages";
  if (!op.getQuerySource().hasBatch())
    return "packed sequences";
  if (op.getSide() != Side::keys)
    return "a reduction over queries";
  if (op.getQueries().size() != 1)
    return "several dot pairs";
  if (op.getRotaryAttr() || !op.getFactor().empty())
    return "rows that turn, or values that are weighted by position";
  if (readsPosition(op.getScore(), op.getQueries().size()))
    return "scores that differ by position";
  if (op.getBatchInvariant())
    return "batch_invariant";
  if (monoid.getKind() != MonoidKind::cocycle)
    return "a monoid that is no cocycle";
  if (!laws || !laws->combineCommutes)
    return "a monoid whose combine does not commute";
  return "";
}

/// Rows of a group: a tile of a CPU, and of two warpgroups.
static int64_t rowsOfGroup(const ::attn::TargetInfo &target) {
  return target.isCpu() ? 64 : 2 * ::attn::MmaShape::warpgroup().m;
}

namespace {
/// Rewrites one aggregate.
class Sharer {
public:
  Sharer(AggregateOp op, MonoidOp monoid, const ::attn::TargetInfo &target)
      : op(op), monoid(monoid), target(target), b(op), loc(op.getLoc()) {}
  LogicalResult run();

private:
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, loc, value);
  }
  Value dim(Value tensor, int64_t d) {
    return tensor::DimOp::create(b, loc, tensor, d);
  }
  Value positive(Value x) {
    return arith::MaxUIOp::create(b, loc, x, index(1));
  }
  Value countParts();
  PartialOp reduceGroups(ShareOp share);
  void startBehind(Value starts);

  AggregateOp op;
  MonoidOp monoid;
  const ::attn::TargetInfo &target;
  OpBuilder b;
  Location loc;
};
} // namespace

/// Parts of the keys of a group: as many as fill a GPU where all sequences
/// share all of them.
Value Sharer::countParts() {
  Value query = op.getQueries().front(), key = op.getKeys().front();
  Value keyHeads = positive(dim(key, 1));
  int64_t group = rowsOfGroup(target);
  Value rows = arith::MulIOp::create(
      b, loc, dim(query, 0),
      arith::MulIOp::create(
          b, loc, dim(query, 2),
          arith::DivUIOp::create(b, loc, dim(query, 1), keyHeads)));
  Value tiles = arith::CeilDivUIOp::create(b, loc, rows, index(group));
  Value blocks = positive(arith::MulIOp::create(b, loc, tiles, keyHeads));
  int64_t row = ::attn::MmaShape::warpgroup().m;
  Value wanted = arith::DivUIOp::create(
      b, loc, index(::attn::blocksAtOnce(row, target)), blocks);
  Value most = arith::DivUIOp::create(b, loc, countKeys(b, op),
                                      index(::attn::leastPartKeys(target)));
  return positive(arith::MinUIOp::create(b, loc, wanted, most));
}

/// The states of the groups' rows over the keys that all of them see.
PartialOp Sharer::reduceGroups(ShareOp share) {
  MLIRContext *context = b.getContext();
  // Results do not depend on how many cores there are.
  constexpr int64_t partsOnCpu = 4;
  Value parts = target.isCpu() ? Value() : countParts();
  IntegerAttr splits =
      target.isCpu() ? b.getI64IntegerAttr(partsOnCpu) : IntegerAttr();
  // Parts begin where pages and boxes of them do.
  IntegerAttr granule;
  if (!target.isCpu())
    granule = b.getI64IntegerAttr(2 * ::attn::MmaShape::warpgroup().m);
  auto rows = cast<RankedTensorType>(share.getQueries().getType());
  SmallVector<int64_t> shape = {parts ? ShapedType::kDynamic : partsOnCpu};
  llvm::append_range(shape, rows.getShape().drop_back());
  SmallVector<Type> types;
  for (Attribute stat : monoid.getStats())
    types.push_back(
        RankedTensorType::get(shape, cast<TypeAttr>(stat).getValue()));
  unsigned nextValue = 0;
  for (unsigned i = 0, e = monoid.getNumComponents(); i < e; ++i) {
    SmallVector<int64_t> whole = shape;
    if (monoid.getComponent(i) == Component::value)
      whole.push_back(
          cast<RankedTensorType>(op.getValues()[nextValue++].getType())
              .getShape()
              .back());
    types.push_back(RankedTensorType::get(whole, b.getF32Type()));
  }
  auto partial = PartialOp::create(
      b, loc, types, op.getMonoidAttr(), op.getParams(), share.getQueries(),
      op.getKeys(), op.getValues(), op.getCaptures(), share.getCounts(),
      ValueRange{share.getTables(), share.getKeys()}, /*row_base=*/Value(),
      /*key_base=*/Value(),
      SourceAttr::get(context, SourceKind::dense, /*lengths=*/true),
      SourceAttr::get(context, SourceKind::paged, /*lengths=*/true),
      op.getSideAttr(), /*schedule=*/ScheduleAttr(), op.getPrecisionAttr(),
      /*batch_invariant=*/UnitAttr(), /*rotary=*/RotaryAttr(), parts, splits,
      granule);
  IRMapping mapping;
  op.getScore().cloneInto(&partial.getScore(), mapping);
  return partial;
}

/// Kills the keys of a sequence before `starts`.
void Sharer::startBehind(Value starts) {
  op.getCapturesMutable().append(starts);
  for (Region *region :
       {&op.getScore(), &op.getMask(), &op.getInit(), &op.getFinalize()})
    if (!region->empty())
      region->front().addArgument(starts.getType(), loc);
  Region &mask = op.getMask();
  OpBuilder::InsertionGuard guard(b);
  Type i32 = b.getI32Type();
  bool isNew = mask.empty();
  if (isNew) {
    Block *block = b.createBlock(&mask);
    for (int i = 0; i < 4; ++i)
      block->addArgument(i32, loc);
    for (Value capture : op.getCaptures())
      block->addArgument(capture.getType(), loc);
  }
  Block &block = mask.front();
  Operation *yield = isNew ? nullptr : block.getTerminator();
  if (yield)
    b.setInsertionPoint(yield);
  else
    b.setInsertionPointToEnd(&block);
  Value batch = arith::IndexCastOp::create(b, loc, b.getIndexType(),
                                           block.getArgument(0));
  Value first = tensor::ExtractOp::create(b, loc, block.getArguments().back(),
                                          ValueRange(batch));
  Value live = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge,
                                     block.getArgument(3), first);
  if (yield) {
    Value both = arith::AndIOp::create(b, loc, yield->getOperand(0), live);
    yield->setOperand(0, both);
  } else {
    YieldOp::create(b, loc, live);
  }
}

LogicalResult Sharer::run() {
  int64_t levels = op.getScheduleAttr().getShare();
  Causal causal = *op.getCascade();
  auto query = cast<RankedTensorType>(op.getQueries().front().getType());
  Source keys = op.getKeySource();
  constexpr int64_t any = ShapedType::kDynamic;
  Type i32 = b.getI32Type();
  auto key = cast<RankedTensorType>(op.getKeys().front().getType());
  SmallVector<Type> types = {
      RankedTensorType::get({any, key.getDimSize(1), rowsOfGroup(target),
                             query.getShape().back()},
                            query.getElementType()),
      RankedTensorType::get({any, any}, i32),
      RankedTensorType::get({any}, i32),
      RankedTensorType::get({any}, i32),
      RankedTensorType::get({query.getDimSize(0)}, i32),
      RankedTensorType::get({levels, query.getDimSize(0)}, i32)};
  auto share = ShareOp::create(
      b, loc, types, op.getQueries().front(), op.getKeys().front(), keys.map,
      keys.lengths, b.getI64IntegerAttr(levels),
      causal == Causal::bottom_right ? b.getUnitAttr() : UnitAttr());
  PartialOp groups = reduceGroups(share);
  startBehind(share.getStarts());
  op.removeCascadeAttr();
  op.removeCascadeLevelsAttr();
  op.setScheduleAttr(op.getScheduleAttr().withShare(0));
  FailureOr<PartialOp> own = splitBySchedule(op, monoid, target);
  if (failed(own))
    return failure();
  auto combine = cast<CombineOp>(*own->getStates().front().user_begin());
  combine.getSharedMutable().assign(groups.getStates());
  combine.getPlacesMutable().assign(share.getPlaces());
  return success();
}

namespace {
struct SharePrefixesPass
    : ::attn::impl::AttnSharePrefixesPassBase<SharePrefixesPass> {
  using AttnSharePrefixesPassBase::AttnSharePrefixesPassBase;

  void runOnOperation() final {
    std::optional<::attn::TargetInfo> target =
        ::attn::getTarget(getOperation());
    if (!target)
      return signalPassFailure();
    SmallVector<AggregateOp> ops;
    getOperation().walk([&](AggregateOp op) {
      if (op.getScheduleAttr() && op.getScheduleAttr().getShare())
        ops.push_back(op);
    });
    for (AggregateOp op : ops) {
      MonoidOp monoid = lookupMonoid(op, op.getMonoidAttr());
      if (!monoid)
        continue;
      if (std::string why = whyNotShared(op, monoid); !why.empty()) {
        op.emitOpError("expected sequences that can share keys, as share of "
                       "the schedule says, but got ")
            << why;
        return signalPassFailure();
      }
      if (explain)
        op.emitRemark("shared prefixes: ")
            << op.getScheduleAttr().getShare()
            << " levels of equal pages, found as the plan runs; rows of "
               "sequences that have them are "
            << rowsOfGroup(*target) << " to a tile of each key head";
      if (failed(Sharer(op, monoid, *target).run()))
        return signalPassFailure();
      ++numShared;
    }
  }
};
} // namespace
