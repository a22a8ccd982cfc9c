//===- PlanReductions.cpp - Kernels and launches of reductions ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A reduction is one launch of one kernel, or several of which some have no
// blocks: which these are, sizes tell.
//
//===----------------------------------------------------------------------===//

#include "KeyLists.h"
#include "PlanBuilder.h"
#include "StateUses.h"
#include "TileCaptures.h"
#include "TileFused.h"
#include "TileWarps.h"
#include "TurnRows.h"
#include "attn/Analysis/FewRows.h"
#include "attn/Analysis/Laws.h"
#include "attn/Analysis/Schedule.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include <numeric>

using namespace mlir;
using namespace mlir::attn;

/// Whether each rewrite that an attribute asks for holds.
static LogicalResult verifyRewrites(ReductionOpInterface op, MonoidOp monoid,
                                    const ::attn::TargetInfo &target) {
  auto refuse = [&](StringRef name, const Twine &why) {
    return op->emitOpError("expected no ") << name << ", since " << why;
  };
  if (op.getRelaxedMaximum())
    if (StringRef why = whyNotRelaxed(op, monoid, target); !why.empty())
      return refuse("relaxed_maximum", why);
  if (op.getFixableAnchor())
    if (StringRef why = whyNotFixed(op, monoid, target); !why.empty())
      return refuse("fixable_anchor", why);
  if (isOnline(op))
    if (StringRef why = whyNotOnline(op, monoid); !why.empty())
      return refuse("exponent", why);
  if (op.getScoreUnit())
    if (StringRef why = whyNotScaled(op, monoid, target); !why.empty())
      return refuse("score_unit", why);
  if (op.getLinearBias())
    if (StringRef why = whyNotLinear(op, monoid, target); !why.empty())
      return refuse("linear_bias", why);
  if (op.getPackedHeads()) {
    if (std::string why = whyNotPacked(op); !why.empty())
      return refuse("packed_heads", "heads are not packed with " + why);
    if (!op.getScheduleAttribute().getPackHeads())
      return refuse("packed_heads", "its schedule has no pack_heads");
  }
  if (std::optional<ListForm> form = op.getListedKeys())
    if (StringRef why = whyNotListedAs(op, *form, monoid, target); !why.empty())
      return refuse("listed_keys", why);
  return success();
}

/// Whether kernels can be built as the schedule says.
static LogicalResult verifySchedule(ReductionOpInterface op, MonoidOp monoid,
                                    const ::attn::TargetInfo &target) {
  ScheduleAttr schedule = op.getScheduleAttribute();
  if (op.getRotaryAttribute() && !target.isCpu())
    if (std::string why = whyNotTurned(op); !why.empty())
      return op->emitOpError("expected rows that are turned once, as they are "
                             "for a GPU, but got ")
             << why << "; run on a CPU";
  if (turnsInside(op, target))
    if (std::string why = whyNotTurnedInside(op, target); !why.empty())
      return op->emitOpError("expected keys that can turn in shared memory, as "
                             "rotate = inside of the schedule says, but got ")
             << why << "; rotate = ahead turns them in a kernel before";
  if (failed(verifyWarpKeys(op, monoid, target)))
    return failure();
  if (op.getRowBaseOperand() || op.getKeyBaseOperand())
    return op->emitOpError("expected positions that count from 0; "
                           "attn-fold-bases adds what they count from");
  if (partsOfCluster(schedule, target) > 1)
    if (std::string why = whyNotOfCluster(op, monoid, target); !why.empty())
      return op->emitOpError("expected parts of keys whose states the blocks "
                             "of a cluster combine, as splits = cluster = ")
             << schedule.getCluster() << " of the schedule says, but got "
             << why << "; cluster = 1 combines them in a kernel behind";
  if (!op.getQuerySource().hasBatch() && clusterOf(schedule, target) > 1)
    return op->emitOpError("expected cluster = 1 with packed sequences, whose "
                           "tiles blocks find one by one, but got ")
           << schedule.getCluster();
  if (isa<ScoresOp>(op.getOperation()) &&
      ::attn::paddedKeys(schedule.getBlockK(), target) != schedule.getBlockK())
    return op->emitOpError("expected block_k to be what a tile of scores has "
                           "on chip, ")
           << ::attn::paddedKeys(schedule.getBlockK(), target) << ", but got "
           << schedule.getBlockK();
  if (!findCopiedPairs(op).empty())
    if (std::string why = whyNotCopied(op, schedule, target); !why.empty())
      return op->emitOpError("expected pairs = loaded, whose elements each "
                             "thread loads, with ")
             << why << ", but got copied";
  if (int64_t n = diagonalsOf(op);
      n && (schedule.getBlockQ() != n || schedule.getBlockK() != n))
    return op->emitOpError("expected block_q and block_k to be ")
           << n << ", as diagonals are, but got " << schedule.getBlockQ()
           << " and " << schedule.getBlockK();
  if (int64_t channels = schedule.getBlockV())
    if (std::string why = whyNotSliced(op, monoid, channels, target);
        !why.empty())
      return op->emitOpError("expected values that work tiles can share, as "
                             "block_v = ")
             << channels << " of the schedule says, but got " << why;
  const ::attn::MmaShape unit = ::attn::MmaShape::warpgroup();
  bool isOneTile = schedule.getBlockQ() == schedule.getRows() &&
                   (schedule.getRows() == unit.m ||
                    ::attn::rowsAreColumns(schedule.getRows(),
                                           schedule.getBlockV(), target));
  if (!target.isCpu() && schedule.getBlockV() > unit.nMax && !target.hasRoles())
    return op->emitOpError("expected block_v to be at most ")
           << unit.nMax << " on " << target.name
           << ", which has no warpgroups to share channels, but got "
           << schedule.getBlockV();
  if (!target.isCpu() && schedule.getBlockV() > unit.nMax && !isOneTile)
    return op->emitOpError("expected block_q = rows = ")
           << unit.m
           << ", where warpgroups share block_v = " << schedule.getBlockV()
           << " channels, but got block_q = " << schedule.getBlockQ()
           << " and rows = " << schedule.getRows();
  return success();
}

LogicalResult PlanBuilder::convertReduction(ReductionOpInterface op) {
  Location loc = op.getLoc();
  ScheduleAttr schedule = op.getScheduleAttribute();
  if (!schedule)
    return op->emitOpError("expected a schedule; attn-choose-schedule writes "
                           "one");
  MonoidOp monoid = lookupMonoid(op, op.getMonoidRef());
  if (!monoid)
    return op->emitOpError("expected '")
           << op.getMonoidRef().getValue()
           << "' to be an attn.monoid of this module";
  // Every pipeline comes through here: tiles stand on the laws.
  if (failed(::attn::verifyLaws(monoid)))
    return failure();
  // In whatever way it came here.
  guardDeadScores(op, monoid);
  bool marks = marksSpoiledRows(op, monoid);
  if (failed(verifyRewrites(op, monoid, target)) ||
      failed(verifySchedule(op, monoid, target)))
    return failure();
  // States have memory of one part at least.
  if (auto partial = dyn_cast<PartialOp>(op.getOperation()))
    if (Value parts = partial.getParts())
      mapping.map(parts, arith::MaxSIOp::create(b, loc, mapping.lookup(parts),
                                                index(1, loc))
                             .getResult());
  turnedQueries = turnedKeys = Value();
  if (op.getRotaryAttribute() && !target.isCpu()) {
    turnedQueries = turnRows(op, /*ofQueries=*/true);
    if (!turnsInside(op, target))
      turnedKeys = turnRows(op, /*ofQueries=*/false);
  }
  auto dim = [&](Value memref, int64_t d) -> Value {
    return memref::DimOp::create(b, loc, memref, d);
  };
  PlanRows counted =
      rowsOf(loc, op.getQuerySource(), op.getQueryOperands().front());
  Value heads = counted.getHeads();
  SmallVector<Value> sizes;
  if (auto partial = dyn_cast<PartialOp>(op.getOperation()))
    sizes.push_back(countParts(partial));
  llvm::append_range(sizes, counted.getLeading());
  Value rows = counted.getRows();
  sizes.push_back(heads);
  sizes.push_back(rows);
  int64_t diagonals = diagonalsOf(op);
  if (diagonals) {
    // The tiles of rows, then those of keys.
    Value step = index(diagonals, loc), count = index(0, loc);
    Value keys = dim(mapping.lookup(op.getKeyOperands().front()), 2);
    for (Value size : {rows, keys})
      count = arith::AddIOp::create(
          b, loc, count, arith::CeilDivUIOp::create(b, loc, size, step));
    sizes.back() = rows = arith::MulIOp::create(b, loc, count, step);
  } else if (isa<ScoresOp>(op.getOperation())) {
    sizes.push_back(dim(mapping.lookup(op.getKeyOperands().front()), 2));
  }

  SmallVector<Value> outputs;
  makeOutputs(op, sizes, isa<PartialOp>(op.getOperation()), outputs);
  if (marks)
    outputs.push_back(tile::WorkspaceOp::create(
        b, loc,
        MemRefType::get(
            SmallVector<int64_t>(sizes.size(), ShapedType::kDynamic),
            b.getF32Type()),
        sizes));
  Value numTiles = countQueryTiles(op, rows);
  if (diagonals)
    numTiles =
        arith::DivUIOp::create(b, loc, rows, index(schedule.getBlockQ(), loc));
  Value batches = counted.countInGrid();
  Marks written = marks ? Marks::written : Marks::none;
  if (op.getPackedHeads()) {
    Value keyHeads = dim(mapping.lookup(op.getKeyOperands().front()),
                         op.getKeySource().headDim());
    if (failed(convertPackedHeads(op, monoid, batches, {heads, rows, keyHeads},
                                  outputs, written, numTiles)))
      return failure();
  }
  if (numTiles && failed(convertRows(op, monoid, batches, heads, numTiles,
                                     outputs, written)))
    return failure();
  if (!marks)
    return success();
  moveDeadScoresToMask(op);
  ScheduleAttr repair = scheduleOfRepair(op, target);
  op->setAttr("schedule", repair);
  // Of tiles of warps, each of which is asked about.
  op.setLinearBias(false);
  op.setListedKeys(std::nullopt);
  op.setHeldSamples(false);
  return convertRows(op, monoid, batches, heads, countQueryTiles(op, rows),
                     outputs, Marks::read);
}

/// The lists among a kernel's extra arguments, behind the number of tiles.
static KeyLists listsOf(ArrayRef<Value> extra) {
  return {extra[1], extra[2], extra[3], extra.size() > 4 ? extra[4] : Value()};
}

void PlanBuilder::launch(Location loc, Kernel &kernel, Value grid) {
  if (launchWhere)
    grid = arith::SelectOp::create(b, loc, launchWhere, grid, index(0, loc));
  tile::LaunchOp::create(b, loc, kernel.func.getName(), grid,
                         kernel.launchArguments);
}

/// What tiles do not show, for the passes that build a GPU's kernels. A block's
/// sequence takes long to find, and blocks take about as long as each other: it
/// does no harm to fetch them early. With lists, or ends of keys, they do not.
static Fetch fetchOf(ReductionOpInterface op, bool isListed) {
  bool isMasked = !op.getMaskBody().empty();
  bool findsSequence = !op.getQuerySource().hasBatch();
  if (findsSequence && !isMasked)
    return Fetch::ahead;
  return isListed || findsSequence || !isMasked ? Fetch::late : Fetch::producer;
}

Value PlanBuilder::countBlocks(ReductionOpInterface op, Value batches,
                               Value heads, Value numTiles) {
  Location loc = op.getLoc();
  Value grid = arith::MulIOp::create(b, loc, batches, heads);
  grid = arith::MulIOp::create(b, loc, grid, numTiles);
  if (int64_t slices = countSlices(op); slices > 1)
    grid = arith::MulIOp::create(b, loc, grid, index(slices, loc));
  if (auto partial = dyn_cast<PartialOp>(op.getOperation()))
    grid = b.createOrFold<arith::MulIOp>(loc, grid, countParts(partial));
  if (int64_t parts = partsOfCluster(op.getScheduleAttribute(), target);
      parts > 1)
    grid = arith::MulIOp::create(b, loc, grid, index(parts, loc));
  return grid;
}

/// The schedule of a reduction with what is decided of its kernels.
static ScheduleAttr scheduleOfKernel(ReductionOpInterface op, bool isListed,
                                     const ::attn::TargetInfo &target) {
  ScheduleAttr schedule = op.getScheduleAttribute();
  ScheduleAttr decided = schedule.withCluster(clusterOf(schedule, target));
  if (schedule.getFetch() == Fetch::automatic && target.hasRoles())
    decided = decided.withFetch(fetchOf(op, isListed));
  return decided;
}

LogicalResult PlanBuilder::convertRows(ReductionOpInterface op, MonoidOp monoid,
                                       Value batches, Value heads,
                                       Value numTiles, ValueRange outputs,
                                       Marks marks, ValueRange packedQueries) {
  Location loc = op.getLoc();
  SmallVector<Value> extra = {numTiles};
  Value listHeads = headsOfLists(op, heads);
  if (op.getListedKeys())
    extra.append(makeKeyLists(op, batches, listHeads, numTiles));
  bool isListed = extra.size() > 1;
  size_t firstView = extra.size();
  llvm::append_range(extra, packedQueries);
  size_t distancesAt = extra.size();
  bool measures = packedQueries.empty() &&
                  measureDistances(op, monoid, batches, heads, extra);
  size_t firstTurned = extra.size();
  bool turnsQueries = turnedQueries && packedQueries.empty();
  Value section = isListed && packedQueries.empty()
                      ? sectionOf(op, batches, heads)
                      : Value();
  for (Value one :
       {turnsQueries ? turnedQueries : Value(), turnedKeys, section})
    if (one)
      extra.push_back(one);
  auto fillIn = [&](ReductionContext &builder, Kernel &kernel,
                    bool readsBits = true) {
    for (auto [i, operand] : llvm::enumerate(kernel.operands))
      builder.bind(operand, kernel.func.getArgument(i));
    if (isListed)
      builder.lists = listsOf(ArrayRef(kernel.extra).take_front(firstView));
    builder.lists.bits = readsBits ? builder.lists.bits : Value();
    builder.packsHeads = !packedQueries.empty();
    llvm::append_range(
        builder.packedQueries,
        ArrayRef(kernel.extra).slice(firstView, packedQueries.size()));
    builder.farDistances = measures ? kernel.extra[distancesAt] : Value();
    const Value *next = kernel.extra.begin() + firstTurned;
    builder.turnedQueries = turnsQueries ? *next++ : Value();
    builder.turnedKeys = turnedKeys ? *next++ : Value();
    builder.section = section ? *next : Value();
    ArrayRef<Value> results = takeMarks(builder, kernel.outputs, marks);
    return buildReduction(builder, results, kernel.extra[0], kernel.block);
  };
  ScheduleAttr decided = scheduleOfKernel(op, isListed, target);
  auto start = [&](std::optional<Pairs> pairs = std::nullopt) {
    return startKernel(op, op->getOperands(), outputs, extra,
                       pairs ? decided.withPairs(*pairs) : decided);
  };
  Kernel kernel = start();
  ReductionContext builder(op, monoid, target, kernel.func);
  if (failed(fillIn(builder, kernel)))
    return failure();
  Value factor = op.getFixableAnchor() ? factorOfScore(op) : Value();
  bool fixesAnchor = factor && packedQueries.empty();
  // Dead keys are known where rows that they spoil are not done again.
  if (isListed)
    convertLists(op, monoid, batches, listHeads,
                 ArrayRef(extra).take_front(firstView), packedQueries,
                 /*readsKeys=*/!builder.form.redoesSpoiled || fixesAnchor);
  Value grid = countBlocks(op, batches, heads, numTiles);
  // One more kernel: of two one has blocks, this where `holds`.
  auto addKernel = [&](Kernel other, Value holds, bool readsBits,
                       function_ref<void(ReductionContext &)> say) {
    ReductionContext second(op, monoid, target, other.func);
    say(second);
    if (failed(fillIn(second, other, readsBits)))
      return failure();
    Value none = index(0, loc);
    launch(loc, other, arith::SelectOp::create(b, loc, holds, grid, none));
    grid = arith::SelectOp::create(b, loc, holds, none, grid);
    return success();
  };
  // Without room for bits the elements of the mask are computed.
  if (isListed && listsBits(op) && !readsPairs(op)) {
    Value tiles = memref::DimOp::create(b, loc, listsOf(extra).bits, 3);
    Value hasNone = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle,
                                          tiles, index(0, loc));
    if (failed(addKernel(start(), hasNone, /*readsBits=*/false,
                         [](ReductionContext &) {})))
      return failure();
  }
  if (!findCopiedPairs(op).empty()) {
    // Where tensor copies do not take a tensor, threads load its elements.
    IRMapping whole = mapping;
    Value fits = mapCopiedPairs(b, op, mapping);
    Kernel copying = start(Pairs::copied);
    mapping = whole;
    if (failed(addKernel(
            copying, fits, /*readsBits=*/true,
            [](ReductionContext &second) { second.copiesPairs = true; })))
      return failure();
  }
  if (fixesAnchor &&
      failed(addKernel(
          start(), isSmallScore(op, monoid, factor), /*readsBits=*/true,
          [](ReductionContext &second) { second.fixedAnchor = true; })))
    return failure();
  launch(loc, kernel, grid);
  return success();
}

/// Memory for the lists of key tiles, each as long as there are tiles.
SmallVector<Value> PlanBuilder::makeKeyLists(ReductionOpInterface op,
                                             Value batches, Value heads,
                                             Value numTiles) {
  Location loc = op.getLoc();
  int64_t blockK = op.getScheduleAttribute().getBlockK();
  Value one = index(1, loc);
  Value keys = memref::DimOp::create(
      b, loc, mapping.lookup(op.getKeyOperands().front()), 2);
  Value keyTiles = arith::CeilDivUIOp::create(b, loc, keys, index(blockK, loc));
  keyTiles = arith::MaxSIOp::create(b, loc, keyTiles, one);
  SmallVector<Value> sizes = {listsDifferByBatch(op) ? batches : one,
                              listsDifferByHead(op) ? heads : one, numTiles};
  int64_t words =
      llvm::divideCeil(::attn::paddedKeys(blockK, target), int64_t(32));
  auto make = [&](Value size, ArrayRef<int64_t> more) -> Value {
    sizes.push_back(size);
    SmallVector<int64_t> shape(sizes.size(), ShapedType::kDynamic);
    llvm::append_range(shape, more);
    auto type = MemRefType::get(shape, b.getI32Type());
    auto workspace = tile::WorkspaceOp::create(b, loc, type, sizes);
    sizes.pop_back();
    return workspace;
  };
  Value header = index(KeyLists::header, loc);
  SmallVector<Value> lists = {
      make(arith::AddIOp::create(b, loc, keyTiles, header), {}),
      make(keyTiles, words),
      make(listsAtOnce(op) ? index(0, loc) : keyTiles, {})};
  if (!listsBits(op))
    return lists;
  int64_t blockQ = op.getScheduleAttribute().getBlockQ();
  Value bitTiles = keyTiles;
  if (!readsPairs(op)) {
    // Memory that a call may take without a word: all lists of 8192 tokens for
    // each of 32 heads, or one of 46000.
    constexpr int64_t mostBytes = int64_t(256) << 20;
    Value tiles = keyTiles;
    for (Value size : sizes)
      tiles = arith::MulIOp::create(b, loc, tiles, size);
    Value fits = arith::CmpIOp::create(
        b, loc, arith::CmpIPredicate::sle, tiles,
        index(mostBytes / (blockQ * words * int64_t(sizeof(int32_t))), loc));
    bitTiles = arith::SelectOp::create(b, loc, fits, keyTiles, index(0, loc));
  }
  lists.push_back(make(bitTiles, {blockQ, words}));
  return lists;
}

/// The kernels that make the lists, and their launches. `readsKeys`: some
/// kernel reads which keys of a tile are live.
void PlanBuilder::convertLists(ReductionOpInterface op, MonoidOp monoid,
                               Value batches, Value heads,
                               ArrayRef<Value> extra, ValueRange packedQueries,
                               bool readsKeys) {
  Location loc = op.getLoc();
  Value tiles = extra[0]; // query tiles
  if (listsDifferByBatch(op))
    tiles = arith::MulIOp::create(b, loc, tiles, batches);
  if (listsDifferByHead(op))
    tiles = arith::MulIOp::create(b, loc, tiles, heads);
  auto make = [&](Value grid, auto build, ScheduleAttr schedule) {
    Kernel kernel = startKernel(op, op->getOperands(), {}, extra, schedule);
    KeyListContext builder(op, monoid, target, kernel.func);
    for (auto [i, operand] : llvm::enumerate(kernel.operands))
      builder.bind(operand, kernel.func.getArgument(i));
    builder.packsHeads = !packedQueries.empty();
    KeyLists into = listsOf(kernel.extra);
    if (!readsKeys)
      into.words = {};
    build(builder, into, kernel.extra[0], kernel.block);
    launch(loc, kernel, grid);
  };
  ScheduleAttr schedule = op.getScheduleAttribute().withCluster(1);
  auto lists = listsOf(extra);
  // Blocks that load while others evaluate, each with a warp for 16 keys; of
  // no more threads together than one may have, which leaves registers.
  int64_t threads =
      ::attn::paddedKeys(op.getScheduleAttribute().getBlockK(), target) /
      ::attn::MmaShape::warp().m * ::attn::TargetInfo::warpThreads;
  auto withBlocks = [&](int64_t most) {
    return schedule.withOccupancy(
        std::clamp<int64_t>(target.maxThreads / threads, 1, most));
  };
  if (listsAtOnce(op)) {
    make(tiles, buildLists, withBlocks(2));
  } else {
    Value parts = index(KeyLists::parts, loc);
    if (readsPairs(op))
      parts = memref::DimOp::create(b, loc, lists.classes, 3);
    make(arith::MulIOp::create(b, loc, tiles, parts), buildClasses,
         withBlocks(4));
    make(tiles, buildLists, schedule);
  }
  if (schedule.getOrder() != WorkOrder::longest_first ||
      listsSayOrder(op) == ListedOrder::none)
    return;
  Value work = arith::MulIOp::create(b, loc, batches, heads);
  work = arith::MulIOp::create(b, loc, work, extra[0]);
  Value keys = memref::DimOp::create(
      b, loc, mapping.lookup(op.getKeyOperands().front()), 2);
  Value finds = findsOrder(b, loc, op, work, keys, target);
  make(arith::SelectOp::create(b, loc, finds, tiles, index(0, loc)), buildOrder,
       schedule);
}

LogicalResult PlanBuilder::convertFused(FusedOp op) {
  Location loc = op.getLoc();
  AggregateOp overKeys = op.getOverKeys(), overQueries = op.getOverQueries();
  std::string why;
  SmallVector<FusedOp::Term> terms =
      FusedOp::findTerms(overKeys, overQueries, why);
  Operation *yield = op.getBody().front().getTerminator();
  for (auto [inner, outer] : llvm::zip(yield->getOperands(), op.getResults()))
    if (Value argument = returned.lookup(outer))
      returned[inner] = argument;
  if (!target.isCpu())
    return convertFusedOnGpu(op, terms);
  auto dim = [&](Value tensor, int64_t d) -> Value {
    return memref::DimOp::create(b, loc, mapping.lookup(tensor), d);
  };
  auto times = [&](Value x, Value y) -> Value {
    return arith::MulIOp::create(b, loc, x, y);
  };
  // Each thread has whole heads: that is to cost no more than two kernels do
  // more, seven products of a pair instead of five.
  Value rows = overQueries.getQueries().front();
  Value heads = times(dim(rows, 0), dim(rows, 1));
  Value threads = index(op.getThreads(), loc);
  Value taken =
      times(arith::CeilDivUIOp::create(b, loc, heads, threads), threads);
  Value fits = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ule,
                                     times(taken, index(5, loc)),
                                     times(heads, index(7, loc)));
  launchWhere = arith::XOrIOp::create(
      b, loc, fits, arith::ConstantIntOp::create(b, loc, b.getI1Type(), 1));
  if (failed(convertReduction(overKeys)) ||
      failed(convertReduction(overQueries)))
    return failure();
  for (auto [inner, outer] : llvm::zip(yield->getOperands(), op.getResults()))
    mapping.map(outer, mapping.lookup(inner));

  ScheduleAttr schedule = overQueries.getScheduleAttr();
  SmallVector<Value> outputs,
      extra = {arith::CeilDivUIOp::create(b, loc, dim(rows, 2),
                                          index(schedule.getBlockQ(), loc))};
  for (Value result : overQueries.getResults())
    outputs.push_back(mapping.lookup(result));
  SmallVector<RowSum> sums;
  for (auto [result, term] : llvm::zip(overKeys.getResults(), terms)) {
    Value memory = mapping.lookup(result);
    auto type = cast<MemRefType>(memory.getType());
    sums.push_back({term.weight, term.operand, memory, Value()});
    extra.push_back(memory);
    if (type.getElementType().isF32())
      continue;
    SmallVector<Value> sizes;
    for (int64_t d = 0; d < type.getRank(); ++d)
      if (type.isDynamicDim(d))
        sizes.push_back(memref::DimOp::create(b, loc, memory, d));
    sums.back().result = memory;
    extra.push_back(tile::WorkspaceOp::create(
        b, loc, MemRefType::get(type.getShape(), b.getF32Type()), sizes));
  }
  Kernel kernel = startKernel(overQueries, overQueries->getOperands(), outputs,
                              extra, schedule);
  ReductionContext builder(
      overQueries, lookupMonoid(overQueries, overQueries.getMonoidAttr()),
      target, kernel.func);
  for (auto [i, operand] : llvm::enumerate(kernel.operands))
    builder.bind(operand, kernel.func.getArgument(i));
  size_t next = 1;
  for (RowSum &sum : sums) {
    Value memory = kernel.extra[next++];
    sum.sums = sum.result ? kernel.extra[next++] : memory;
    if (sum.result)
      sum.result = memory;
  }
  builder.sumsOverKeys = overKeys;
  builder.rowSums = sums;
  if (failed(buildReduction(builder, kernel.outputs, kernel.extra[0],
                            kernel.block)))
    return failure();
  launchWhere = fits;
  launch(loc, kernel, heads);
  launchWhere = {};
  return success();
}

/// Of an attn.fused whose aggregates run each for itself, the second with a
/// schedule of its own.
LogicalResult PlanBuilder::convertApart(AggregateOp overKeys,
                                        AggregateOp overQueries,
                                        ScheduleAttr schedule,
                                        SmallVectorImpl<Value> &results,
                                        SmallVectorImpl<Value> &outputs) {
  ScheduleAttr together = overQueries.getScheduleAttr();
  overQueries.setScheduleAttr(schedule);
  if (failed(convertReduction(overKeys)) ||
      failed(convertReduction(overQueries)))
    return failure();
  overQueries.setScheduleAttr(together);
  for (Value result : overKeys.getResults())
    results.push_back(mapping.lookup(result));
  for (Value result : overQueries.getResults())
    outputs.push_back(mapping.lookupOrNull(result));
  return success();
}

/// Memory for a sum over keys, which `result` gets rounded.
RowSum PlanBuilder::makeRowSum(const FusedOp::Term &term, Value result,
                               ArrayRef<Value> sizes, bool takesTurns) {
  Location loc = result.getLoc();
  SmallVector<int64_t> shape(3, ShapedType::kDynamic);
  // Accumulators lie in it as a whole, with the channels of rows on chip.
  shape.push_back(::attn::paddedDepth(
      cast<MemRefType>(result.getType()).getShape().back(), target));
  Value wide = tile::WorkspaceOp::create(
      b, loc, MemRefType::get(shape, b.getF32Type()), sizes);
  RowSum sum = {term.weight, term.operand, wide, result};
  if (!takesTurns)
    return sum;
  SmallVector<Value> tiles(sizes);
  tiles[2] = arith::DivUIOp::create(b, loc, sizes[2],
                                    index(RowSumsKernel::blockRows, loc));
  sum.turns = tile::WorkspaceOp::create(
      b, loc,
      MemRefType::get(SmallVector<int64_t>(3, ShapedType::kDynamic),
                      b.getI32Type()),
      tiles);
  return sum;
}

/// Launches the kernel that clears sums over keys, or counters of those that
/// add to them in turns, or rounds the sums.
void PlanBuilder::launchRowSums(AggregateOp op, MonoidOp monoid,
                                ArrayRef<Value> sizes, const RowSum &sum,
                                bool clears) {
  Location loc = op.getLoc();
  Value tiles = arith::CeilDivUIOp::create(
      b, loc, sizes[2], index(RowSumsKernel::blockRows, loc));
  Value grid = arith::MulIOp::create(b, loc, sizes[0], sizes[1]);
  grid = arith::MulIOp::create(b, loc, grid, tiles);
  SmallVector<Value> extra = {tiles, sum.sums};
  Value result = clears ? Value() : sum.result;
  for (Value other : {result, sum.turns})
    if (other)
      extra.push_back(other);
  Kernel kernel = startKernel(op, {}, {}, extra, ScheduleAttr());
  RowSumsKernel builder(op, monoid, target, kernel.func);
  RowSum inKernel = sum;
  inKernel.sums = kernel.extra[1];
  size_t next = 2;
  if (result)
    inKernel.result = kernel.extra[next++];
  if (sum.turns)
    inKernel.turns = kernel.extra[next++];
  builder.build(inKernel, clears, op.getScheduleAttr().getBlockK(),
                kernel.extra[0], kernel.block);
  launch(loc, kernel, grid);
}

/// Whether sizes are those of turn_sizes (i1). `numTiles`: tiles of keys
/// of all heads.
static Value isForOneKernel(OpBuilder &b, FusedOp op,
                            ArrayRef<Value> querySizes,
                            ArrayRef<Value> keySizes, Value numTiles,
                            const IRMapping &mapping) {
  Location loc = numTiles.getLoc();
  ArrayRef<int64_t> of = *op.getTurnSizes();
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, loc, value);
  };
  auto fits = [&](Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ule, x, y);
  };
  Value most = arith::MulIOp::create(b, loc, keySizes[1], index(of[2]));
  Value fewHeads = fits(querySizes[1], most);
  Value manyTiles = fits(index(of[1]), numTiles);
  Value manyQueries = fits(index(of[0]), querySizes[2]);
  Value fit = arith::AndIOp::create(
      b, loc, manyQueries, arith::AndIOp::create(b, loc, manyTiles, fewHeads));
  if (of[3] == 1)
    return fit;
  Value seeing = queriesOfMiddle(b, op.getOverQueries(), querySizes[2],
                                 keySizes[2], mapping);
  return arith::AndIOp::create(b, loc, fit, fits(index(of[3]), seeing));
}

/// The reduction over all pairs: those that elements kill are not tested.
static AggregateOp cloneUnmasked(AggregateOp op) {
  AggregateOp unmasked = op.clone();
  op->getBlock()->push_back(unmasked);
  unmasked.getMask().getBlocks().clear();
  unmasked.setListedKeys(std::nullopt);
  unmasked.setHeldSamples(false);
  return unmasked;
}

/// Sums over keys are cleared, added to by a block for each tile of keys, and
/// rounded: three launches. Blocks add in turns, the first of which needs no
/// memory that is cleared, or in the order in which they come.
LogicalResult PlanBuilder::convertFusedOnGpu(FusedOp op,
                                             ArrayRef<FusedOp::Term> terms) {
  Location loc = op.getLoc();
  AggregateOp overKeys = op.getOverKeys(), overQueries = op.getOverQueries();
  bool takesTurns = !overKeys.getAnyOrder() || !overQueries.getAnyOrder();
  if (std::string why = whyNoTurns(overKeys, overQueries);
      takesTurns && !why.empty())
    return overKeys.emitOpError("expected any_order within attn.fused for ")
           << target.name << ", where " << why;
  auto sizesOf = [&](Value rows) {
    return llvm::map_to_vector(llvm::seq(0, 3), [&](int64_t d) -> Value {
      return memref::DimOp::create(b, loc, mapping.lookup(rows), d);
    });
  };
  auto times = [&](Value x, Value y) -> Value {
    return arith::MulIOp::create(b, loc, x, y);
  };
  SmallVector<Value> querySizes = sizesOf(overKeys.getQueries().front());
  SmallVector<Value> keySizes = sizesOf(overQueries.getQueries().front());
  SmallVector<Value> results, outputs;
  ScheduleAttr schedule = overQueries.getScheduleAttr();
  Value keyTiles = arith::CeilDivUIOp::create(b, loc, keySizes[2],
                                              index(schedule.getBlockQ(), loc));
  Value numTiles = times(times(keySizes[0], keySizes[1]), keyTiles);
  // For other sizes two kernels run.
  Value isOne;
  if (ScheduleAttr apart = op.getTwoKernelsAttr()) {
    isOne = isForOneKernel(b, op, querySizes, keySizes, numTiles, mapping);
    launchWhere = arith::XOrIOp::create(
        b, loc, isOne, arith::ConstantIntOp::create(b, loc, b.getI1Type(), 1));
    if (failed(convertApart(overKeys, overQueries, apart, results, outputs)))
      return failure();
  } else {
    makeOutputs(overKeys, querySizes, /*storeAll=*/true, results);
    makeOutputs(overQueries, keySizes, /*storeAll=*/false, outputs);
  }
  Operation *yield = op.getBody().front().getTerminator();
  for (auto [inner, outer] : llvm::zip(yield->getOperands(), op.getResults()))
    if (Value memory = mapping.lookupOrNull(inner))
      mapping.map(outer, memory);

  MonoidOp monoid = lookupMonoid(overQueries, overQueries.getMonoidAttr());
  if (failed(::attn::verifyLaws(monoid)))
    return failure();
  launchWhere = isOne;
  // Blocks add whole tiles, and whole ones are cleared and rounded.
  SmallVector<Value> wholeSizes = querySizes;
  Value step =
      index(std::lcm(schedule.getBlockK(), RowSumsKernel::blockRows), loc);
  wholeSizes[2] =
      times(arith::CeilDivUIOp::create(b, loc, querySizes[2], step), step);
  // Where two kernels run nobody adds.
  if (isOne)
    wholeSizes[2] = arith::SelectOp::create(b, loc, isOne, wholeSizes[2], step);
  auto launchSums = [&](const RowSum &sum, bool clears) {
    launchRowSums(overQueries, monoid, clears ? wholeSizes : querySizes, sum,
                  clears);
  };
  SmallVector<Value> extra = {keyTiles};
  SmallVector<RowSum> sums;
  for (auto [memory, term] : llvm::zip(results, terms)) {
    sums.push_back(makeRowSum(term, memory, wholeSizes, takesTurns));
    extra.push_back(sums.back().sums);
    if (takesTurns)
      extra.push_back(sums.back().turns);
    launchSums(sums.back(), /*clears=*/true);
  }
  AggregateOp unmasked, reduction = overQueries;
  if (diesByElement(overQueries))
    reduction = unmasked = cloneUnmasked(overQueries);
  Kernel kernel = startKernel(reduction, reduction->getOperands(), outputs,
                              extra, schedule.withFetch(Fetch::late));
  ReductionContext builder(reduction, monoid, target, kernel.func);
  for (auto [i, operand] : llvm::enumerate(kernel.operands))
    builder.bind(operand, kernel.func.getArgument(i));
  builder.diesByElement = diesByElement(overQueries);
  SmallVector<RowSum> inKernel = sums;
  size_t next = 1;
  for (RowSum &sum : inKernel) {
    sum.sums = kernel.extra[next++];
    if (takesTurns)
      sum.turns = kernel.extra[next++];
  }
  builder.sumsOverKeys = overKeys;
  builder.rowSums = inKernel;
  LogicalResult built =
      buildReduction(builder, kernel.outputs, kernel.extra[0], kernel.block);
  if (unmasked)
    unmasked.erase();
  if (failed(built))
    return built;
  launch(loc, kernel, numTiles);
  for (const RowSum &sum : sums)
    launchSums(sum, /*clears=*/false);
  launchWhere = {};
  return success();
}
